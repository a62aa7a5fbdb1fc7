"""Probation: new features and classes, kept apart until they have come often enough.

Whoever may publish can invent names. A feature or class that a model has learnt costs time and
memory for ever, so an unknown one first waits here, outside the model, where it costs next to
nothing and is forgotten if it does not come again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any

import msgspec

from streamlvq.arrays import Label
from streamlvq.config import AdmissionSection
from streamlvq.monitor.late_labels import PendingReading, PendingReadings

MAX_NEW_FEATURES = 8192  # on probation, of all groups together; beyond, the one silent longest goes
MAX_NEW_CLASSES = 256  # likewise; each keeps at most `admission.after` - 1 readings

NewcomerKey = tuple[str, Label]  # group and name
ClockOf = Callable[[str], int]  # labelled readings of a group so far


@dataclass(slots=True, eq=False)
class HeldReading:
    """Reading whose class is on probation; None until it has been decided on."""

    features: tuple[str, ...]
    reading: PendingReading | None = None


@dataclass(slots=True)
class Newcomer:
    """Occurrences of a name on probation: when it came, and what came with it.

    `items` are the values of a feature, or the held readings of a class.
    """

    marks: list[int] = field(default_factory=list)
    items: list[Any] = field(default_factory=list)

    def since(self, mark: int) -> list[Any]:
        """Return the items from a mark on."""
        return self.items[bisect_left(self.marks, mark) :]

    def forget(self, before: int) -> None:
        """Drop the occurrences before a mark."""
        gone = bisect_left(self.marks, before)
        del self.marks[:gone], self.items[:gone]


@dataclass(slots=True)
class Newcomers:
    """Names of one kind on probation, least recent first."""

    room: int
    window: int  # labelled readings of a group
    found: OrderedDict[NewcomerKey, Newcomer] = field(default_factory=OrderedDict)

    def recent(self, key: NewcomerKey, clock: int) -> list[Any]:
        """Return what came with the occurrences that still count."""
        newcomer = self.found.get(key)
        return [] if newcomer is None else newcomer.since(clock - self.window + 1)

    def add(self, key: NewcomerKey, item: Any, clock_of: ClockOf, most: int) -> None:
        """Record an occurrence, the last `most` of them; make room if the name is new."""
        clock = clock_of(key[0])
        newcomer = self.found.pop(key, None)
        if newcomer is None:
            for old in self.stale(clock_of):
                del self.found[old]
            if len(self.found) >= self.room:
                self.found.popitem(last=False)
            newcomer = Newcomer()
        newcomer.forget(clock - self.window + 1)
        self.found[key] = newcomer
        newcomer.marks.append(clock)
        newcomer.items.append(item)
        del newcomer.marks[:-most], newcomer.items[:-most]

    def stale(self, clock_of: ClockOf) -> list[NewcomerKey]:
        """Return the names that did not come again, up to the first that may still."""
        gone = []
        for key, newcomer in self.found.items():
            if clock_of(key[0]) - newcomer.marks[-1] < self.window:
                break
            gone.append(key)
        return gone

    def current(self, clock_of: ClockOf) -> list[tuple[NewcomerKey, Newcomer]]:
        """Return what would be left if all stale names were forgotten now."""
        return list(self.found.items())[len(self.stale(clock_of)) :]


class Probation:
    """Names on probation, for all groups of a monitor.

    A class is admitted when it comes for the `admission.after`-th time within the last
    `admission.class_window` labelled readings of its group, a feature likewise within
    `admission.feature_window` if it has had two different values by then. Both are counted by
    group, in labelled readings. Nothing here depends on how readings are split into batches.
    """

    def __init__(self, section: AdmissionSection) -> None:
        self.section = section
        self._features = Newcomers(MAX_NEW_FEATURES, section.feature_window)
        self._classes = Newcomers(MAX_NEW_CLASSES, section.class_window)
        self._unlearnt: dict[str, int] = {}  # labelled readings that no model has counted, by group

    def applies(self, samples: int) -> bool:
        """Return whether names that are new to a model of this age go on probation."""
        return self.section.after > 1 and samples >= self.section.commissioning

    def clock(self, group: str, samples: int) -> int:
        """Return the position of the next labelled reading of a group."""
        return samples + self._unlearnt.get(group, 0)

    def skip(self, group: str) -> None:
        """Count a labelled reading that the model does not learn now."""
        self._unlearnt[group] = self._unlearnt.get(group, 0) + 1

    def feature_is_due(self, key: NewcomerKey, value: float, clock: int) -> bool:
        """Return whether a feature would be admitted if it came now."""
        values = self._features.recent(key, clock)
        return len(values) + 1 >= self.section.after and any(each != value for each in values)

    def see_feature(self, key: NewcomerKey, value: float, clock_of: ClockOf) -> None:
        """Record that a feature came and was not admitted."""
        self._features.add(key, value, clock_of, self.section.after)

    def admit_feature(self, key: NewcomerKey) -> None:
        """Forget a feature that is due."""
        del self._features.found[key]

    def class_is_due(self, key: NewcomerKey, clock: int) -> bool:
        """Return whether a class would be admitted if it came now."""
        return len(self._classes.recent(key, clock)) + 1 >= self.section.after

    def admit_class(self, key: NewcomerKey) -> list[HeldReading]:
        """Forget a class that is due; return its readings so far, oldest first."""
        newcomer = self._classes.found.pop(key, None)  # None if the first reading is enough
        return [] if newcomer is None else newcomer.items

    def hold(self, key: NewcomerKey, features: tuple[str, ...], clock_of: ClockOf) -> HeldReading:
        """Record that a class came and was not admitted; return where to put its reading."""
        held = HeldReading(features)
        self._classes.add(key, held, clock_of, self.section.after)
        return held

    def forget(self, group: str) -> None:
        """Forget all names of a group, because it gets another model."""
        for newcomers in (self._features, self._classes):
            for key in [key for key in newcomers.found if key[0] == group]:
                del newcomers.found[key]

    def waiting(self, clock_of: ClockOf) -> tuple[list[Label], list[Label]]:
        """Return the features and the classes that came lately and are not admitted."""
        features, classes = (
            [
                name
                for (group, name), newcomer in newcomers.found.items()
                if clock_of(group) - newcomer.marks[-1] < self.section.feature_window
            ]
            for newcomers in (self._features, self._classes)
        )
        return features, classes

    # --- files -----------------------------------------------------------------------------------

    def state(self, clock_of: ClockOf) -> tuple[dict[str, Any], dict[str, Any] | None]:
        """Return arrays and JSON data for a checkpoint; None if nothing is on probation.

        Positions are written as ages, so that a restored monitor need not know its past.
        """
        features, classes = self._features.current(clock_of), self._classes.current(clock_of)
        if not features and not classes:
            return {}, None
        held = PendingReadings(MAX_NEW_CLASSES * self.section.after, by_sequence=True)
        records: dict[str, list[Any]] = {"features": [], "classes": []}
        for (group, name), newcomer in features:
            ages = [clock_of(group) - mark for mark in newcomer.marks]
            records["features"].append([group, name, ages, list(newcomer.items)])
        for (group, name), newcomer in classes:
            ages, numbers = [], []
            for mark, item in zip(newcomer.marks, newcomer.items, strict=True):
                ages.append(clock_of(group) - mark)
                numbers.append(len(held))
                if item.reading is None:  # deciding on it failed
                    numbers[-1] = -1
                else:
                    held.add(("", len(held)), item.reading)
            records["classes"].append([group, name, ages, numbers])
        arrays, extra = held.state()
        return arrays, {**records, "held": extra}

    def restore(self, arrays: dict[str, Any], data: dict[str, Any], clock_of: ClockOf) -> None:
        """Replace the contents by the result of `state`; raise ValueError if inconsistent."""
        file = msgspec.convert(data, _ProbationFile)
        held = PendingReadings(len(file.held.get("waiting", ())) + 1, by_sequence=True)
        held.restore(arrays, file.held)
        readings = [HeldReading(reading.features, reading) for _, reading in held.items()]
        if len(file.features) > MAX_NEW_FEATURES or len(file.classes) > MAX_NEW_CLASSES:
            raise ValueError("expected fewer names on probation, got more than are ever kept")
        self._features.found = OrderedDict(
            ((record.group, record.name), Newcomer(record.marks(clock_of), list(record.items)))
            for record in file.features
        )
        self._classes.found = OrderedDict(
            (
                (record.group, record.name),
                Newcomer(
                    record.marks(clock_of),
                    [HeldReading(()) if k < 0 else readings[int(k)] for k in record.items],
                ),
            )
            for record in file.classes
        )
        self._unlearnt = {}


class _NewcomerRecord(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    group: str
    name: str | int
    ages: list[Annotated[int, msgspec.Meta(ge=0)]]
    items: list[float]

    def marks(self, clock_of: ClockOf) -> list[int]:
        if (
            not self.ages
            or len(self.ages) != len(self.items)
            or self.ages != sorted(self.ages, reverse=True)
        ):
            raise ValueError(f"expected an age for each item, oldest first, got {self.ages}")
        return [clock_of(self.group) - age for age in self.ages]


class _ProbationFile(msgspec.Struct, forbid_unknown_fields=True):
    features: list[_NewcomerRecord]
    classes: list[_NewcomerRecord]
    held: dict[str, Any]
