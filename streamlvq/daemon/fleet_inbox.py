"""What comes on the topics of a fleet: looked at, counted, on disk before it is acknowledged."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from streamlvq.config import FleetTopics
from streamlvq.connect import Link, Message
from streamlvq.daemon.fleet_figures import FleetFigures
from streamlvq.fleet import Roster, Taken
from streamlvq.snapshot import SnapshotFileError

log = logging.getLogger(__name__)

RETRY = 1.0  # seconds between two attempts to write something to the disk
UNSAVED = "unsaved"


class Inbox:
    """Gives messages to the roster, or to us if they are on topics that only we may write to.

    What cannot be written to the disk is tried again, and acknowledged only then; readings go on
    meanwhile.

    Parameters
    ----------
    topics
        Those of the fleet.
    roster
        Who keeps what others say.
    guard
        Looks at what is on a topic of our own, and says what became of it; None if the topic is not
        ours.
    figures
        Where all is counted.

    """

    def __init__(
        self,
        topics: FleetTopics,
        roster: Roster,
        guard: Callable[[str, str, bytes], Taken | None],
        figures: FleetFigures,
    ) -> None:
        self.topics, self.roster, self.guard, self.figures = topics, roster, guard, figures
        self._waiting: list[Message] = []
        self._next: float | None = None  # when to try again what waits

    def sort(self, messages: Sequence[Message]) -> tuple[Sequence[Message], list[Message]]:
        """Those that are none of the fleet's, and those that are."""
        root = f"{self.topics.root}/"
        own = [message for message in messages if message.topic.startswith(root)]
        if not own:
            return messages, own
        return [message for message in messages if not message.topic.startswith(root)], own

    def take(self, messages: Sequence[Message], link: Link) -> None:
        """Let messages have their effect, and acknowledge those that had."""
        taken = [(message, self._safely(message)) for message in messages]
        for message, outcome in taken:
            self._tell(message, outcome)
        self._settle(taken, link)

    def _settle(self, taken: Sequence[tuple[Message, Taken]], link: Link) -> None:
        waiting = [message for message, outcome in taken if outcome.reason == UNSAVED]
        self._waiting += waiting
        if waiting:
            self.figures.trouble[UNSAVED] = "the disk does not take what the fleet says"
        elif not self._waiting:
            self.figures.trouble.pop(UNSAVED, None)
        link.acknowledge([message for message, outcome in taken if outcome.reason != UNSAVED])

    def tend(self, now: float, link: Link) -> None:
        """Try again what could not be written."""
        if not self._waiting:
            self._next = None
        elif self._next is None:
            self._next = now + RETRY
        elif now >= self._next:
            self._next = now + RETRY
            waiting, self._waiting = self._waiting, []
            taken = [(message, self._safely(message)) for message in waiting]
            for message, outcome in taken:
                if outcome.reason != UNSAVED:  # that was said before
                    self._tell(message, outcome)
            self._settle(taken, link)

    def drop(self) -> None:
        """The link is another one: what was not acknowledged will come again."""
        self._waiting.clear()

    def _safely(self, message: Message) -> Taken:
        """What became of a message. Should it bring out a defect, it must not come for ever."""
        try:
            return self._take(message)
        except Exception as error:
            log.error("a message of the fleet brought out a defect", exc_info=error)
            return Taken("refused", "failure", f"{type(error).__name__}: {error}")

    def _take(self, message: Message) -> Taken:
        place = self.topics.place(message.topic)
        if place is None:
            return Taken("refused", "malformed", "expected a topic of a node, got another one")
        taken = self.guard(place.kind, place.node, message.payload)
        if taken is not None:
            return taken
        if message.payload:
            return self.roster.take(place.node, message.payload, time.time())
        try:
            left = self.roster.forget(place.node)
        except (SnapshotFileError, OSError) as error:
            return Taken("refused", UNSAVED, str(error))
        if left:
            log.info("%r left the fleet", place.node)
        return Taken("new" if left else "same")

    def _tell(self, message: Message, taken: Taken) -> None:
        self.figures.count(taken.status, taken.reason or None)
        if taken.status == "refused":
            log.warning(
                "refused a message of the fleet on %s (%s): %s",
                message.topic,
                taken.reason,
                taken.text,
                extra={"alike": taken.reason},
            )


__all__ = ["Inbox"]
