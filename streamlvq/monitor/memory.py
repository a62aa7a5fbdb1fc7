"""What a monitor remembers of readings: those that came lately, and those without a label yet."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from streamlvq.arrays import Rows
from streamlvq.events import NO_KEY, Decisions, LateLabel, Readings
from streamlvq.kernels.layout import LARGEST_VALUE
from streamlvq.monitor.pipeline import Answer, Answers, ServedAnswer

Keys = npt.NDArray[np.int64]
Mark = int | float  # the sequence number or the time of a reading
ReadingKey = tuple[str, Mark]  # the device, and the mark of the reading
Item = TypeVar("Item")

_NO_CERTAINTY = -1.0  # in checkpoints: there were not two classes to compare


# --- readings that come twice --------------------------------------------------------------------


class DuplicateFilter:
    """Recognises readings that come twice by the last so many keys.

    A broker delivers again what was not acknowledged, and that is never more than its window of
    messages under way, so a memory of some thousand keys misses nothing.
    """

    def __init__(self, room: int) -> None:
        self.room = room
        self._ring: list[int] = []  # grows up to `room`, then the oldest is overwritten
        self._count = 0  # keys that ever came
        self._last: dict[int, int] = {}  # when each came last

    def seen_before(self, key: int, span: int) -> bool:
        """Whether this key is among the last `span` ones that came; from now on it is.

        NO_KEY never is. See `Readings.dedup_windows` for the span.
        """
        if key == NO_KEY:
            return False
        if self.knows(key, span):
            return True
        count = self._count
        self._count = count + 1
        self._last[key] = count
        if count < self.room:
            self._ring.append(key)
            return False
        place = count % self.room
        oldest, self._ring[place] = self._ring[place], key
        if self._last.get(oldest) == count - self.room:
            del self._last[oldest]
        return False

    def knows(self, key: int, span: int) -> bool:
        """The same, and nothing changes."""
        last = self._last.get(key)
        return last is not None and self._count - last <= span

    def __len__(self) -> int:
        return len(self._last)

    def keys(self) -> list[int]:
        """All keys that are remembered, the oldest first."""
        place = self._count % self.room if self._count > self.room else 0
        return self._ring[place:] + self._ring[:place]

    def restore(self, keys: Keys) -> None:
        """Remember these instead, the last `room` of them."""
        self._ring, self._count, self._last = [], 0, {}
        for key in keys.tolist():
            self.seen_before(key, 0)


# --- late labels ---------------------------------------------------------------------------------


class LabelMatcher(Generic[Item]):
    """Finds what was kept of the reading that a late label belongs to.

    A label names its reading by device and sequence number or, if readings have none, by device and
    time. The last `room` readings are kept; a reading without such a mark is not.

    Examples
    --------

    >>> from streamlvq.events import LateLabel
    >>> from streamlvq.monitor.memory import LabelMatcher

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
        """What a label would name each of these by; None: nothing."""
        marks: Sequence[Mark | None] = readings.sequences if self.by_sequence else readings.times
        for device, mark in zip(readings.devices, marks, strict=True):
            yield None if mark is None else (device, mark)

    def key_of(self, late: LateLabel) -> ReadingKey | None:
        """What a label names its reading by."""
        mark = late.sequence if self.by_sequence else late.t
        return None if mark is None else (late.device, mark)

    def add(self, key: ReadingKey, item: Item) -> None:
        """Keep something of a reading; the oldest is given up if there is no more room."""
        self._items[key] = item
        self._items.move_to_end(key)
        if len(self._items) > self.room:
            self._items.popitem(last=False)

    def find(self, late: LateLabel) -> Item | None:
        """What was kept of the reading that a label belongs to."""
        key = self.key_of(late)
        return None if key is None else self._items.get(key)

    def pop(self, late: LateLabel) -> Item | None:
        """The same; the reading waits no longer."""
        key = self.key_of(late)
        return None if key is None else self._items.pop(key, None)


class PendingReading(NamedTuple):
    """A reading that may still get a label, and what was said about it."""

    group: str
    features: tuple[str, ...]
    row: Rows
    local: Answer
    fused: ServedAnswer | None = None


class PendingReadings(LabelMatcher[PendingReading]):
    """The last readings without a label."""

    def remember(self, readings: Readings, rows: Sequence[int], answers: Sequence[Answers]) -> None:
        """Keep those of these readings that a label could name, and what was said of them."""
        marks: Sequence[Mark | None] = readings.sequences if self.by_sequence else readings.times
        devices, groups, features = readings.devices, readings.groups, readings.features
        for k, (local, fused) in zip(rows, answers, strict=True):
            mark = marks[k]
            if mark is not None:
                row = readings.rows[k].copy()
                reading = PendingReading(groups[k], features, row, local, fused)
                self.add((devices[k], mark), reading)

    def copy(self) -> PendingReadings:
        """What waits now; the readings themselves never change."""
        copy = PendingReadings(self.room, self.by_sequence)
        copy._items = self._items.copy()
        return copy

    # --- files -----------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Arrays and what else there is, to be kept in a file."""
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
        if fused:  # files of monitors that were never served a model do without it
            extra["fused"] = fused
        rows = [reading.row for reading in items.values()]
        certainties = [_to_number(reading.local.certainty) for reading in items.values()]
        arrays = {
            "values": np.concatenate(rows) if rows else np.empty(0),
            "certainty": np.array(certainties, np.float64),
        }
        return arrays, extra

    def restore(self, arrays: dict[str, Any], extra: dict[str, Any]) -> None:
        """The opposite of `state`; raises ValueError if it does not fit together."""
        kinds = [tuple(names) for names in extra["features"]]
        items: OrderedDict[ReadingKey, PendingReading] = OrderedDict()
        start = 0
        values, certainties = arrays["values"], arrays["certainty"].tolist()
        if values.ndim != 1 or np.any(np.abs(values) > LARGEST_VALUE):
            raise ValueError("expected values of ordinary size in one row")
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
                raise ValueError("expected more values")
            if not (isinstance(device, str) and isinstance(mark, (int, float))):
                raise ValueError(f"expected a device and a number, got {device!r} and {mark!r}")
            if not (isinstance(group, str) and all(isinstance(f, str) for f in features)):
                raise ValueError("expected names")
            start += len(features)
            local = _answer(label, certainty)
            items[(device, mark)] = PendingReading(group, features, row, local, fused.get(k))
        self._items = items
        while len(items) > self.room:
            items.popitem(last=False)


def _to_number(certainty: float | None) -> float:
    return _NO_CERTAINTY if certainty is None else certainty


def _answer(label: Hashable, certainty: float) -> Answer:
    return Answer(label, None if certainty < 0.0 else certainty)
