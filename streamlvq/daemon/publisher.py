"""From the effect of messages to what is sent and written."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import ParamSpec

import msgspec

from streamlvq.config import Config
from streamlvq.connect import Message, Outgoing
from streamlvq.daemon.decision_file import DecisionFile
from streamlvq.daemon.discovery import Discovery
from streamlvq.daemon.intake import Effect
from streamlvq.daemon.metrics import Metrics
from streamlvq.daemon.session import own_topic
from streamlvq.events import Refused
from streamlvq.payloads import Encoder, dead_letter

log = logging.getLogger(__name__)

P = ParamSpec("P")

_VALUES = re.compile(r"""'[^']*'|"[^"]*"|[0-9]+""")
STRANGERS = 3  # labels that no reading waits for before that is no news any more
LOOKING = 5.0  # seconds between two looks whether the file was moved away


class Publisher:
    """Decisions to their topics and file, refused messages to the dead letters; all counted.

    Parameters
    ----------
    config
        What goes where.
    instruments
        Where it is counted.
    """

    def __init__(self, config: Config, instruments: Metrics) -> None:
        section = config.decisions
        self.instruments = instruments
        self.file = None if section.file is None else DecisionFile(Path(section.file))
        if self.file is not None:
            self.file.check()
        self.discovery = Discovery(config)
        self.dead_letters = own_topic(config.status.dead_letters, config)
        self._strangers = 0
        self._publishes = section.topic is not None
        self._encoder = Encoder(_with_topic(config) if section.file is not None else config)
        self._next_look = 0.0

    def messages(self, effect: Effect, messages: Sequence[Message]) -> list[Outgoing]:
        """What to send about a batch; its decisions are in the file when this returns.

        Never raises: a defect costs what could not be made, and is counted and logged.
        """
        self._count(effect)
        outgoing: list[Outgoing] = []
        for decisions in effect.decisions:
            outgoing += self._safely("decisions", self._encoder.encode, decisions)
        if self.file is not None:
            self._safely("lines of decisions.file", self._write, outgoing)
        if not self._publishes:
            outgoing = []
        if self.discovery.active:
            outgoing += self._safely("announcements", self._announcements, effect)
        if effect.refused:
            outgoing += self._safely("dead letters", self._letters, effect.refused, messages)
        return outgoing

    def _count(self, effect: Effect) -> None:
        instruments = self.instruments
        for decisions in effect.decisions:
            instruments.count_decisions(decisions)
        instruments.count_refused(effect.refused)
        instruments.learnt_count += effect.learnt
        instruments.duplicates.inc(effect.duplicates)
        instruments.skipped.inc(effect.skipped)

    def _safely(
        self, what: str, make: Callable[P, Iterable[Outgoing]], *about: P.args, **more: P.kwargs
    ) -> list[Outgoing]:
        """What `make` gives, or nothing if that brings out a defect.

        The messages have had their effect already. Who stopped here would get them again after the
        next start, and stop again, for ever.
        """
        try:
            return list(make(*about, **more))
        except Exception as error:
            self.instruments.publish_failures.inc()
            log.error("a defect cost the %s of a batch, please report it", what, exc_info=error)
            return []

    def _write(self, outgoing: Sequence[Outgoing]) -> tuple[()]:
        assert self.file is not None
        self.instruments.file_failures.inc(self.file.write([each.payload for each in outgoing]))
        return ()

    def greetings(self) -> Iterator[Outgoing]:
        """What to say after every connect; what was said before may not have arrived."""
        self._encoder.forget()
        return iter(self._safely("announcements", self.discovery.again))

    def tend(self, now: float) -> None:
        """Notice now and then that the file was moved away."""
        if self.file is not None and now >= self._next_look:
            self._next_look = now + LOOKING
            self.file.look()

    @property
    def trouble(self) -> str | None:
        """Why decisions cannot be written to the file."""
        return None if self.file is None else self.file.trouble

    def close(self) -> None:
        """Close the file."""
        if self.file is not None:
            self.file.close()

    def _announcements(self, effect: Effect) -> Iterator[Outgoing]:
        for decisions in effect.decisions:
            yield from self.discovery.announce(decisions.devices)

    def _letters(self, refused: Sequence[Refused], messages: Sequence[Message]) -> list[Outgoing]:
        for each in refused:
            self._complain(messages[each.source].topic, each)
        if self.dead_letters is None:
            return []
        return [
            Outgoing(self.dead_letters, dead_letter(messages[each.source], each))
            for each in refused
        ]

    def _complain(self, topic: str, refused: Refused) -> None:
        """Each reason and kind of text by itself: an old complaint must not hide a new one."""
        log.log(
            self._weight(refused),
            "refused a message on %s (%s): %s",
            topic,
            refused.reason,
            refused.text,
            extra={"alike": (refused.reason, kind(refused.text))},
        )

    def _weight(self, refused: Refused) -> int:
        """Labels that nothing waits for may come by the thousand: a few are enough to know."""
        if refused.reason != "label":
            return logging.WARNING
        self._strangers += 1
        if self._strangers == STRANGERS:
            log.warning(
                "labels that belong to no reading are from now on only counted (streamlvq_refused_"
                "total), dead-lettered, and logged with logging.level: debug"
            )
        return logging.WARNING if self._strangers <= STRANGERS else logging.DEBUG


def kind(text: str) -> str:
    """What a complaint is about, without the values that differ from message to message.

    Examples
    --------
    >>> kind("x7: expected a number, got 'hot'"), kind("no reading 17 of device 'a' waits for it")
    ('expected a number', 'no reading  of device  waits for it')

    """
    about = text[max(0, text.find("expected ")) :].partition(", got ")[0]
    return _VALUES.sub("", about)[:80]


def _with_topic(config: Config) -> Config:
    """A configuration that also makes messages if they are for the file alone."""
    if config.decisions.topic is not None:
        return config
    section = msgspec.structs.replace(config.decisions, topic="decisions")
    return msgspec.structs.replace(config, decisions=section)


__all__ = ["Publisher"]
