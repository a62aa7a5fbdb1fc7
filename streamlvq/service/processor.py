"""Message processor: messages to decisions, the same for live and journalled messages."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from streamlvq.connect import Message
from streamlvq.errors import LedgerError
from streamlvq.events import (
    Decisions,
    DroppedFields,
    Event,
    LateLabel,
    Readings,
    Refused,
    internal_error,
)
from streamlvq.monitor import Monitor
from streamlvq.monitor.watch import Watch
from streamlvq.payloads import Decoder
from streamlvq.snapshot import TRUSTED_MAX_BYTES, Snapshot

log = logging.getLogger(__name__)

WARN_AFTER_READINGS = 10  # with no feature in common with the start model
GIVE_UP_AFTER_READINGS = 200  # a feature that has not come by then will not come
WARNED_FEATURES = 8


@dataclass(slots=True)
class BatchResult:
    """Result of a batch of messages: decisions, refusals and counts."""

    decisions: list[Decisions] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    learnt: int = 0
    duplicates: int = 0
    skipped: int = 0
    held: int = 0  # labelled readings that are not learnt now, because their class is new
    dropped: DroppedFields = field(default_factory=DroppedFields)  # fields of readings


class FeatureCheck:
    """Check that warns once if the features of `model.start` differ from those that arrive.

    Examples
    --------
    >>> check = FeatureCheck("first.slvq", ["temperature", "power"])
    >>> check.warning(), check.count
    (None, 0)

    """

    def __init__(self, name: str, features: Iterable[object]) -> None:
        self.name = name
        self.features = [str(feature) for feature in features]
        self.count = 0
        self._seen: dict[str, None] = {}

    def see(self, readings: Readings) -> bool:
        """Inspect readings; return True if no more are needed."""
        self.count += len(readings)
        self._seen.update(dict.fromkeys(readings.features))
        text = self.warning()
        if text is not None:
            log.warning("%s", text)
        return text is not None or not self._missing() or self.count >= GIVE_UP_AFTER_READINGS

    def warning(self) -> str | None:
        """Return what is wrong; None if nothing is, or if it is too early to tell."""
        missing = self._missing()
        if self.features and missing == self.features and self.count >= WARN_AFTER_READINGS:
            return (
                f"the readings have no feature in common with {self.name} (model.start): it knows "
                f"{_some(self.features)}, the readings have {_some(list(self._seen))}; do "
                "readings.features and the names in the payload match those of its training?"
            )
        if self.count >= GIVE_UP_AFTER_READINGS and missing:
            return (
                f"{len(missing)} of the {len(self.features)} features of {self.name} (model.start) "
                f"have not arrived in {self.count} readings: {_some(missing)}"
            )
        return None

    def _missing(self) -> list[str]:
        return [name for name in self.features if name not in self._seen]


def _some(names: list[str]) -> str:
    hidden = len(names) - WARNED_FEATURES
    more = f" and {hidden} more" if hidden > 0 else ""
    return (", ".join(names[:WARNED_FEATURES]) or "nothing") + more


class MessageProcessor:
    """Processor that decodes messages and steps the monitor.

    The monitor itself refuses readings that trigger an internal error. Should a step raise
    nevertheless, the whole event is refused as "failure", and the other events take effect. Only a
    `LedgerError` is passed on: the state is then that within a batch, so go back to a checkpoint.
    """

    def __init__(
        self,
        decoder: Decoder,
        monitor: Monitor,
        feature_check: FeatureCheck | None = None,
        watch: Watch | None = None,
    ) -> None:
        self.decoder = decoder
        self.monitor = monitor
        self.feature_check = feature_check
        self.watch = Watch(decoder.config.health) if watch is None else watch

    def process(self, messages: Sequence[Message]) -> BatchResult:
        """Process a batch: decide on its readings and learn its labels."""
        result = BatchResult()
        decoded = self.decoder.decode(messages)
        result.refused += decoded.refused
        result.skipped = decoded.skipped
        result.dropped = decoded.dropped
        for event in decoded.events:
            if self.feature_check is not None and isinstance(event, Readings):
                self.feature_check = None if self.feature_check.see(event) else self.feature_check
            self._step(event, result)
        return result

    def serve(self, group: str, snapshot: bytes | None) -> bool:
        """Let another model decide on a group's readings; None for its local model.

        Return False if this model cannot; it cannot either, then, when the journal is replayed.
        """
        try:
            model = None
            if snapshot is not None:
                model = Snapshot.from_bytes(snapshot, limit=TRUSTED_MAX_BYTES).classifier()
            self.monitor.serve(group, model)
        except Exception as error:
            log.error("a model of the fleet cannot decide here: %s", error)
            return False
        return True

    def _step(self, event: Event, result: BatchResult) -> None:
        try:
            outcome = self.monitor.step(event)
        except LedgerError:
            raise
        except Exception as error:
            result.refused += _failures(event, error)
            return
        self.watch.see(event, outcome, self.monitor)
        if outcome.decisions is not None and len(outcome.decisions):
            result.decisions.append(outcome.decisions)
        result.refused += outcome.refused
        result.learnt += outcome.learnt
        result.duplicates += outcome.duplicates
        result.held += outcome.held
        if outcome.dropped.counts:
            result.dropped.update(outcome.dropped)


def _failures(event: Event, error: Exception) -> list[Refused]:
    """Refuse every message of an event that could not be processed."""
    sources = [event.source] if isinstance(event, LateLabel) else event.sources
    log.error("internal error: %d messages are lost", len(sources), exc_info=error)
    return [internal_error(source, error) for source in dict.fromkeys(sources)]
