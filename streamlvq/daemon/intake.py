"""From messages to their effect: the same way for what comes now and for what the journal holds."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

from streamlvq.connect import Message
from streamlvq.events import Decisions, Event, LateLabel, Readings, Refused
from streamlvq.monitor import Monitor
from streamlvq.payloads import Decoder

log = logging.getLogger(__name__)


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

    A message that brings out a defect is found by halving its batch and refused as "failure"; all
    the others have their effect. The monitor is as it was before a step that raises, and does not
    care how events are cut into batches, so nobody can tell afterwards that it happened.

    Parameters
    ----------
    decoder, monitor
        What messages go through.
    """

    def __init__(self, decoder: Decoder, monitor: Monitor) -> None:
        self.decoder = decoder
        self.monitor = monitor

    def take(self, messages: Sequence[Message]) -> Effect:
        """The effect of a batch; after it, the monitor knows what the messages say."""
        effect = Effect()
        decoded = self.decoder.decode(messages)
        effect.refused += decoded.refused
        effect.skipped = decoded.skipped
        for event in decoded.events:
            self._step(event, effect)
        return effect

    def _step(self, event: Event, effect: Effect) -> None:
        try:
            outcome = self.monitor.step(event)
        except Exception as error:
            self._isolate(event, error, effect)
            return
        if outcome.decisions is not None and len(outcome.decisions):
            effect.decisions.append(outcome.decisions)
        effect.refused += outcome.refused
        effect.learnt += outcome.learnt
        effect.duplicates += outcome.duplicates

    def _isolate(self, event: Event, error: Exception, effect: Effect) -> None:
        """Try the halves; what still fails by itself is refused."""
        if isinstance(event, Readings) and len(event) > 1:
            middle = len(event) // 2
            self._step(event.select(slice(0, middle)), effect)
            self._step(event.select(slice(middle, None)), effect)
            return
        source = event.source if isinstance(event, LateLabel) else event.sources[0]
        device = event.device if isinstance(event, LateLabel) else event.devices[0]
        log.error("a reading of %r brought out a defect", device, exc_info=error)
        text = f"a defect of streamlvq, please report it: {type(error).__name__}: {error}"
        effect.refused.append(Refused(source, "failure", text))


__all__ = ["Effect", "Intake"]
