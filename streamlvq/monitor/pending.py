"""Readings that wait for their label."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, NamedTuple

import numpy as np

from streamlvq.events import Label, LateLabel, Readings, Rows

Key = tuple[str, int | float]  # the device, and the number or the time of the reading


class Waiting(NamedTuple):
    """A reading, and what was said about it."""

    group: str
    features: tuple[str, ...]
    row: Rows
    label: Label | None
    certainty: float


class Pending:
    """The last readings without a label, so many and no more, found by number or by time."""

    def __init__(self, room: int, by_sequence: bool) -> None:
        self.room = room
        self.by_sequence = by_sequence
        self._waiting: OrderedDict[Key, Waiting] = OrderedDict()

    def __len__(self) -> int:
        return len(self._waiting)

    def remember(self, readings: Readings, k: int, label: Label | None, certainty: float) -> None:
        """Keep a reading; the oldest one is given up if there is no more room."""
        mark = readings.sequences[k] if self.by_sequence else readings.times[k]
        if mark is None:
            return
        key = (readings.devices[k], mark)
        row = readings.rows[k].copy()
        self._waiting[key] = Waiting(readings.groups[k], readings.features, row, label, certainty)
        self._waiting.move_to_end(key)
        if len(self._waiting) > self.room:
            self._waiting.popitem(last=False)

    def take(self, late: LateLabel) -> Waiting | None:
        """The reading that a label belongs to; it waits no longer."""
        mark = late.sequence if self.by_sequence else late.t
        return None if mark is None else self._waiting.pop((late.device, mark), None)

    # --- memory ----------------------------------------------------------------------------------

    def memory(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Arrays and what else there is, to be kept in a file."""
        kinds = list(dict.fromkeys(w.features for w in self._waiting.values()))
        number = {features: i for i, features in enumerate(kinds)}
        extra = {
            "features": [list(features) for features in kinds],
            "waiting": [
                [key[0], key[1], w.group, number[w.features], w.label]
                for key, w in self._waiting.items()
            ],
        }
        rows = [w.row for w in self._waiting.values()]
        arrays = {
            "values": np.concatenate(rows) if rows else np.empty(0),
            "certainty": np.array([w.certainty for w in self._waiting.values()], np.float64),
        }
        return arrays, extra

    def restore(self, arrays: dict[str, Any], extra: dict[str, Any]) -> None:
        """The opposite of `memory`; raises ValueError if it does not fit together."""
        kinds = [tuple(names) for names in extra["features"]]
        waiting: OrderedDict[Key, Waiting] = OrderedDict()
        start = 0
        certainties = arrays["certainty"].tolist()
        for (device, mark, group, kind, label), certainty in zip(
            extra["waiting"], certainties, strict=True
        ):
            features = kinds[kind]
            row = arrays["values"][start : start + len(features)].copy()
            if len(row) != len(features):
                raise ValueError("readings that wait for a label: expected more values")
            start += len(features)
            waiting[(device, mark)] = Waiting(group, features, row, label, certainty)
        self._waiting = waiting
        while len(waiting) > self.room:
            waiting.popitem(last=False)
