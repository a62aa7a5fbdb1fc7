"""Late labels: which of the recent readings a label belongs to."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from streamlvq.arrays import Floats, Rows
from streamlvq.events import Decisions, LateLabel, Readings
from streamlvq.kernels import kernels
from streamlvq.kernels.layout import LARGEST_VALUE
from streamlvq.monitor.pipeline import Answer, Answers, ServedAnswer

Mark = int | float  # the sequence number or the time of a reading
ReadingKey = tuple[str, Mark]  # device and mark
Item = TypeVar("Item")

_NO_CERTAINTY = -1.0  # in checkpoints: fewer than two classes were known


class LabelMatcher(Generic[Item]):
    """Matcher from late labels to the readings they belong to.

    A label refers to its reading by device and sequence number or, if readings have none, by device
    and time. Items of the last `room` readings are kept; readings without sequence number or time
    are not.

    Examples
    --------

    >>> from streamlvq.events import LateLabel
    >>> from streamlvq.monitor.late_labels import LabelMatcher

    >>> waiting = LabelMatcher(room=2, by_sequence=True)
    >>> for number in (1, 2, 3):
    ...     waiting.add(("pump7", number), f"reading {number}")
    >>> [waiting.find(LateLabel("pump7", "", "worn", None, number)) for number in (1, 3)]
    [None, 'reading 3']

    """

    def __init__(self, room: int, by_sequence: bool) -> None:
        self.room = room
        self.by_sequence = by_sequence
        self._items: OrderedDict[ReadingKey, Item] = OrderedDict()

    def __len__(self) -> int:
        return len(self._items)

    def keys(self, readings: Readings | Decisions) -> Iterator[ReadingKey | None]:
        """Yield the key that a label would use for each reading; None if it has none."""
        marks: Sequence[Mark | None] = readings.sequences if self.by_sequence else readings.times
        for device, mark in zip(readings.devices, marks, strict=True):
            yield None if mark is None else (device, mark)

    def key_of(self, late: LateLabel) -> ReadingKey | None:
        """Return the key of the reading that a label refers to."""
        mark = late.sequence if self.by_sequence else late.t
        return None if mark is None else (late.device, mark)

    def add(self, key: ReadingKey, item: Item) -> None:
        """Keep an item for a reading; drop the oldest one if there are too many."""
        self._items[key] = item
        self._items.move_to_end(key)
        if len(self._items) > self.room:
            self._items.popitem(last=False)

    def find(self, late: LateLabel) -> Item | None:
        """Return the item of the reading that a label refers to."""
        key = self.key_of(late)
        return None if key is None else self._items.get(key)

    def items(self) -> Iterator[tuple[ReadingKey, Item]]:
        """Yield all keys and items, oldest first."""
        yield from self._items.items()

    def pop(self, late: LateLabel) -> Item | None:
        """Remove and return the item of the reading that a label refers to."""
        key = self.key_of(late)
        return None if key is None else self._items.pop(key, None)


class PendingReading(NamedTuple):
    """Reading that may still get a label, with the answers given for it."""

    group: str
    features: tuple[str, ...]
    row: Rows
    local: Answer
    fused: ServedAnswer | None = None

    def decided(self, mode: str) -> Answer:
        """Return the answer that was published; `mode` is `fleet.serve` of the configuration."""
        return self.local if self.fused is None or mode == "local" else self.fused.answer


class PendingReadings(LabelMatcher[PendingReading]):
    """Most recent readings without a label."""

    def remember(self, readings: Readings, rows: Sequence[int], answers: Sequence[Answers]) -> None:
        """Keep the readings that a label could refer to, with the answers given for them."""
        marks: Sequence[Mark | None] = readings.sequences if self.by_sequence else readings.times
        devices, groups, features = readings.devices, readings.groups, readings.features
        for k, (local, fused) in zip(rows, answers, strict=True):
            mark = marks[k]
            if mark is not None:
                row = readings.rows[k].copy()
                reading = PendingReading(groups[k], features, row, local, fused)
                self.add((devices[k], mark), reading)

    def copy(self) -> PendingReadings:
        """Return a copy; the readings themselves are immutable."""
        copy = PendingReadings(self.room, self.by_sequence)
        copy._items = self._items.copy()
        return copy

    def forget_evidence(self, group: str) -> None:
        """Drop what an integrator would learn from labels of a group: its classes have changed."""
        for key, reading in self._items.items():
            if reading.group == group:
                local = reading.local._replace(evidence=None)
                self._items[key] = reading._replace(local=local)

    # --- files -----------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return arrays and JSON data for a checkpoint."""
        items = self._items
        kinds = list(dict.fromkeys(reading.features for reading in items.values()))
        number = {features: i for i, features in enumerate(kinds)}
        extra = {
            "features": [list(features) for features in kinds],
            "waiting": [
                [*key, reading.group, number[reading.features], reading.local.label]
                for key, reading in items.items()
            ],
        }
        fused = [
            [k, said.answer.label, _to_number(said.answer.certainty), said.version]
            for k, said in enumerate(reading.fused for reading in items.values())
            if said is not None
        ]
        if fused:  # absent if no model was ever served
            extra["fused"] = fused
        rows = [reading.row for reading in items.values()]
        certainties = [_to_number(reading.local.certainty) for reading in items.values()]
        arrays = {
            "values": np.concatenate(rows) if rows else np.empty(0),
            "certainty": np.array(certainties, np.float64),
        }
        evidence = [answer.evidence for answer in _all_answers(list(items.values()))]
        if any(each is not None for each in evidence):  # only an adaptive window has any
            arrays |= _flat_evidence(evidence)
        return arrays, extra

    def restore(self, arrays: dict[str, Any], extra: dict[str, Any]) -> None:
        """Replace the contents by the result of `state`; raise ValueError if inconsistent."""
        kinds = [tuple(names) for names in extra["features"]]
        items: OrderedDict[ReadingKey, PendingReading] = OrderedDict()
        start = 0
        values, certainties = arrays["values"], arrays["certainty"].tolist()
        if values.ndim != 1 or np.any(np.abs(values) > LARGEST_VALUE):
            raise ValueError(
                f"expected a flat array of values of at most {LARGEST_VALUE:g}, got others"
            )
        fused = {
            k: ServedAnswer(_answer(label, float(certainty)), int(version))
            for k, label, certainty, version in extra.get("fused", ())
        }
        for k, ((device, mark, group, kind, label), certainty) in enumerate(
            zip(extra["waiting"], certainties, strict=True)
        ):
            features = kinds[kind]
            row = values[start : start + len(features)].astype(np.float64)
            if len(row) != len(features):
                raise ValueError(f"expected {len(features)} values for a reading, got {len(row)}")
            if not (isinstance(device, str) and isinstance(mark, (int, float))):
                raise ValueError(f"expected a device and a number, got {device!r} and {mark!r}")
            if not (isinstance(group, str) and all(isinstance(f, str) for f in features)):
                raise ValueError(f"expected text as names, got {group!r} and {features!r}")
            start += len(features)
            local = _answer(label, certainty)
            items[(device, mark)] = PendingReading(group, features, row, local, fused.get(k))
        evidence = _evidence_parts(arrays)
        if evidence:
            items = _with_evidence(items, evidence)
        self._items = items
        while len(items) > self.room:
            items.popitem(last=False)


def _all_answers(readings: Sequence[PendingReading]) -> list[Answer]:
    """Return the local answers, then those of served models."""
    fused = [reading.fused.answer for reading in readings if reading.fused is not None]
    return [*(reading.local for reading in readings), *fused]


def _flat_evidence(evidence: Sequence[Floats | None]) -> dict[str, Any]:
    classes = [0 if each is None else each.shape[1] for each in evidence]
    values = [each.ravel() for each in evidence if each is not None]
    return {"evidence": np.concatenate(values), "evidence_classes": np.array(classes, np.int64)}


def _evidence_parts(arrays: dict[str, Any]) -> list[Floats | None]:
    """Return the evidence of each answer; an empty list if there is none."""
    if "evidence" not in arrays:
        return []
    values, classes = arrays["evidence"].astype(np.float64), arrays["evidence_classes"].tolist()
    lowest = kernels("pipeline").LOG_PROBABILITY_FLOOR
    if not np.all((values >= lowest) & (values <= 0.0)):
        raise ValueError("expected logarithms of probabilities as evidence")
    if min(classes, default=0) < 0 or 2 * sum(classes) != len(values):
        raise ValueError(f"expected evidence on {sum(classes)} classes, got {len(values)} numbers")
    parts, start = [], 0
    for count in classes:
        end = start + 2 * count
        parts.append(values[start:end].reshape(2, count).copy() if count else None)
        start = end
    return parts


def _with_evidence(
    items: OrderedDict[ReadingKey, PendingReading], evidence: list[Floats | None]
) -> OrderedDict[ReadingKey, PendingReading]:
    """Return the readings with the evidence of their answers, in the order of `_all_answers`."""
    if len(evidence) != len(_all_answers(list(items.values()))):
        raise ValueError(f"expected evidence for every answer, got {len(evidence)}")
    done, served = OrderedDict(), iter(evidence[len(items) :])
    for (key, reading), own in zip(items.items(), evidence, strict=False):
        fused = reading.fused
        if fused is not None:
            fused = fused._replace(answer=fused.answer._replace(evidence=next(served)))
        done[key] = reading._replace(local=reading.local._replace(evidence=own), fused=fused)
    return done


def _to_number(certainty: float | None) -> float:
    return _NO_CERTAINTY if certainty is None else certainty


def _answer(label: Hashable, certainty: float) -> Answer:
    return Answer(label, None if certainty < 0.0 else certainty)
