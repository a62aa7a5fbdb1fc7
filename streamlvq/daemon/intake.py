"""From messages to their effect: the same way for what comes now and for what the journal holds."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

from streamlvq.connect import Message
from streamlvq.daemon.acquaintance import Acquaintance
from streamlvq.events import Decisions, Event, LateLabel, Readings, Refused, failure
from streamlvq.monitor import Monitor
from streamlvq.payloads import Decoder
from streamlvq.snapshot import TRUSTED_MAX_BYTES, Snapshot

log = logging.getLogger(__name__)


SERVE = "$streamlvq/serve"  # the topic of what we tell ourselves through the journal
OURS = -1.0  # when it was "received", which no message can say that came from a broker


def to_serve(model: bytes) -> Message:
    """A message to ourselves: decide with this model from now on; nothing: with our own again.

    It goes through the journal like any other, between the readings before and those after it, so
    that these are decided on in the same way after a crash.

    Parameters
    ----------
    model
        The bytes of a snapshot, or none.

    """
    return Message(SERVE, model, OURS)


@dataclass(slots=True)
class Effect:
    """What came of a batch of messages."""

    decisions: list[Decisions] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    learnt: int = 0
    duplicates: int = 0
    skipped: int = 0


class Intake:
    """Decodes messages and takes the monitor from step to step.

    The monitor refuses what brings out a defect by itself. Should a step raise after all, the event
    is refused as a whole, as "failure", and the others have their effect.

    Parameters
    ----------
    decoder, monitor
        What messages go through.
    acquaintance
        Looks at the first readings, until it has seen enough.
    """

    def __init__(
        self, decoder: Decoder, monitor: Monitor, acquaintance: Acquaintance | None = None
    ) -> None:
        self.decoder = decoder
        self.monitor = monitor
        self.acquaintance = acquaintance

    def take(self, messages: Sequence[Message]) -> Effect:
        """The effect of a batch; after it, the monitor knows what the messages say."""
        effect = Effect()
        if messages and messages[0].received == OURS:
            self._serve(messages[0], effect)
            return effect
        decoded = self.decoder.decode(messages)
        effect.refused += decoded.refused
        effect.skipped = decoded.skipped
        for event in decoded.events:
            if self.acquaintance is not None and isinstance(event, Readings):
                self.acquaintance = None if self.acquaintance.see(event) else self.acquaintance
            self._step(event, effect)
        return effect

    def _serve(self, message: Message, effect: Effect) -> None:
        """Change the model that decides; one that cannot is refused, now and after a crash."""
        try:
            model = None
            if message.payload:
                model = Snapshot.from_bytes(message.payload, limit=TRUSTED_MAX_BYTES).classifier()
            self.monitor.serve("", model)
        except Exception as error:
            log.error("a model of the fleet cannot decide here: %s", error)
            effect.refused.append(failure(0, error))

    def _step(self, event: Event, effect: Effect) -> None:
        try:
            outcome = self.monitor.step(event)
        except Exception as error:
            effect.refused += _failures(event, error)
            return
        if outcome.decisions is not None and len(outcome.decisions):
            effect.decisions.append(outcome.decisions)
        effect.refused += outcome.refused
        effect.learnt += outcome.learnt
        effect.duplicates += outcome.duplicates


def _failures(event: Event, error: Exception) -> list[Refused]:
    """Every message of an event that could not be taken."""
    sources = [event.source] if isinstance(event, LateLabel) else event.sources
    log.error("a defect cost %d messages", len(sources), exc_info=error)
    return [failure(source, error) for source in dict.fromkeys(sources)]


__all__ = ["Effect", "Intake", "to_serve"]
