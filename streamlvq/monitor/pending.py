"""Readings that wait for their label."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, NamedTuple

import numpy as np

from streamlvq.events import Label, LateLabel, Readings, Rows
from streamlvq.kernels.layout import LARGEST
from streamlvq.monitor.columns import Opinion

Key = tuple[str, int | float]  # the device, and the number or the time of the reading


class Waiting(NamedTuple):
    """A reading, and what was said about it: by the local model, and by one that was served."""

    group: str
    features: tuple[str, ...]
    row: Rows
    label: Label | None
    certainty: float
    fused: Opinion | None = None
    number: int = 0  # which of the models that were served said so


class Pending:
    """The last readings without a label, so many and no more, found by number or by time."""

    def __init__(self, room: int, by_sequence: bool) -> None:
        self.room = room
        self.by_sequence = by_sequence
        self._waiting: OrderedDict[Key, Waiting] = OrderedDict()

    def __len__(self) -> int:
        return len(self._waiting)

    def remember(
        self,
        readings: Readings,
        k: int,
        local: Opinion,
        fused: Opinion | None = None,
        number: int = 0,
    ) -> None:
        """Keep a reading; the oldest one is given up if there is no more room."""
        mark = readings.sequences[k] if self.by_sequence else readings.times[k]
        if mark is None:
            return
        key = (readings.devices[k], mark)
        row = readings.rows[k].copy()
        said = (*local, fused, number)
        self._waiting[key] = Waiting(readings.groups[k], readings.features, row, *said)
        self._waiting.move_to_end(key)
        if len(self._waiting) > self.room:
            self._waiting.popitem(last=False)

    def find(self, late: LateLabel) -> Waiting | None:
        """The reading that a label belongs to."""
        key = self._key(late)
        return None if key is None else self._waiting.get(key)

    def forget(self, late: LateLabel) -> None:
        """The reading that a label belongs to waits no longer."""
        key = self._key(late)
        if key is not None:
            self._waiting.pop(key, None)

    def _key(self, late: LateLabel) -> Key | None:
        mark = late.sequence if self.by_sequence else late.t
        return None if mark is None else (late.device, mark)

    # --- memory ----------------------------------------------------------------------------------

    def copy(self) -> Pending:
        """What waits now; the readings themselves never change."""
        copy = Pending(self.room, self.by_sequence)
        copy._waiting = self._waiting.copy()
        return copy

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
        served = [
            [k, *w.fused, w.number]
            for k, w in enumerate(self._waiting.values())
            if w.fused is not None
        ]
        if served:  # files without it are as they were before models could be served
            extra["fused"] = served
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
        values, certainties = arrays["values"], arrays["certainty"].tolist()
        if values.ndim != 1 or np.any(np.abs(values) > LARGEST):
            raise ValueError("expected values of ordinary size in one row")
        fused = {
            k: ((label, float(certainty)), int(number))
            for k, label, certainty, number in extra.get("fused", ())
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
            said = (label, certainty, *fused.get(k, (None, 0)))
            waiting[(device, mark)] = Waiting(group, features, row, *said)
        self._waiting = waiting
        while len(waiting) > self.room:
            waiting.popitem(last=False)
