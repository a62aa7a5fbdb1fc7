"""Admission of readings before any state changes: values, times, model limits, duplicates."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from math import isfinite
from typing import Protocol

import numpy as np

from streamlvq.arrays import Ints, Label
from streamlvq.config import Config, ModelSection
from streamlvq.events import NO_KEY, Readings, Refused
from streamlvq.kernels.layout import LARGEST_VALUE
from streamlvq.wrappers.feature_transform import Transform


class Learner(Protocol):
    """View of a group's model that admission checks need: its features and classes."""

    @property
    def features(self) -> tuple[Hashable, ...]: ...

    @property
    def classes(self) -> tuple[Label, ...]: ...


Learners = Mapping[str, Learner]  # by group


def check_admission(
    config: Config, learners: Learners, readings: Readings, transform: Transform | None
) -> list[Refused]:
    """Return the refusals of readings, at most one for each.

    Each reading is checked as if the ones before it had been learnt, so the result does not depend
    on how readings are split into batches.
    """
    outside = {} if transform is None else transform.refusals(readings.rows, readings.features)
    if not outside and _needs_no_check(config, learners, readings):
        return []
    check = AdmissionCheck(config, learners, outside)
    verdicts = ((k, check.find_problem(readings, k)) for k in range(len(readings)))
    return [Refused(readings.sources[k], *why) for k, why in verdicts if why is not None]


def _needs_no_check(config: Config, learners: Learners, readings: Readings) -> bool:
    """Return True if the batch needs no per-reading checks (the common case)."""
    section = config.model
    if (np.abs(readings.rows) > LARGEST_VALUE).any() or not _have_times(config, readings):
        return False
    groups = set(readings.groups)
    if len(groups.union(learners)) > section.limit:
        return False
    labels = set(readings.labels)
    return all(_has_room(section, learners.get(group), readings, labels) for group in groups)


def _have_times(config: Config, readings: Readings) -> bool:
    times = readings.times
    if None in times and _needs_times(config):
        return False
    return all(map(isfinite, filter(None, times)))  # `filter` skips None and 0, which is finite


def _needs_times(config: Config) -> bool:
    return config.integrator is not None and config.integrator.max_gap is not None


def _has_room(
    section: ModelSection, learner: Learner | None, readings: Readings, labels: set[Label | None]
) -> bool:
    features: set[Label] = set(readings.features)
    if learner is not None:
        features |= set(learner.features)
        labels = labels.union(learner.classes)
    if len(features) > section.max_features:
        return False
    return len(labels - {None}) <= section.max_classes


class AdmissionCheck:
    """Check of single readings that keeps track of what the models would have learnt so far."""

    def __init__(self, config: Config, learners: Learners, outside: Mapping[int, str]) -> None:
        self.config = config
        self.outside = outside  # by row: why the transform cannot take it
        self.needs_times = _needs_times(config)
        self.groups = set(learners)
        self.features = {group: set(each.features) for group, each in learners.items()}
        self.classes = {group: set(each.classes) for group, each in learners.items()}

    def find_problem(self, readings: Readings, k: int) -> tuple[str, str, str] | None:
        """Return reason, text and subject of a refusal; None if the reading is admitted."""
        group, label = readings.groups[k], readings.labels[k]
        features = self.features.get(group, set())
        problem = (
            self._time(readings.times[k])
            or _values(readings, k)
            or self._domain(k)
            or self._group(group)
            or _more_features(self.config.model, features, readings.features)
            or self._label(self.classes.get(group, set()), label)
        )
        if problem is None:
            self.groups.add(group)
            if label is not None:
                self.classes.setdefault(group, set()).add(label)
                self.features.setdefault(group, set()).update(readings.features)
        return problem

    def _time(self, t: float | None) -> tuple[str, str, str] | None:
        if t is None and self.needs_times:
            text = "expected a time, which integrator.max_gap needs, got none"
            return "field", text, "no time"
        if t is not None and not isfinite(t):
            return "field", f"expected a time, got {t!r}", "time"
        return None

    def _domain(self, k: int) -> tuple[str, str, str] | None:
        return ("value", self.outside[k], "transform") if k in self.outside else None

    def _group(self, group: str) -> tuple[str, str, str] | None:
        limit = self.config.model.limit
        if group in self.groups or len(self.groups) < limit:
            return None
        text = f"expected at most {limit} models (model.limit), got another for {group!r}"
        return "model", text, "models"

    def _label(self, known: set[Label], label: Label | None) -> tuple[str, str, str] | None:
        if label is None:
            return None
        return _another_class(self.config.model, known, label)


def _values(readings: Readings, k: int) -> tuple[str, str, str] | None:
    for name, value in zip(readings.features, readings.rows[k].tolist(), strict=True):
        if abs(value) > LARGEST_VALUE:
            text = f"expected a finite number of at most {LARGEST_VALUE:g}, got {value}"
            return "value", f"feature {name!r}: {text}", "range"
    return None


def _more_features(
    section: ModelSection, known: set[Label], given: tuple[str, ...]
) -> tuple[str, str, str] | None:
    limit, count = section.max_features, len(known.union(given))
    if count <= limit:
        return None
    text = f"expected at most {limit} features (model.max_features), got {count}"
    return "model", text, "features"


def _another_class(
    section: ModelSection, known: set[Label], label: Label
) -> tuple[str, str, str] | None:
    if label in known or len(known) < section.max_classes:
        return None
    limit = section.max_classes
    text = f"expected at most {limit} classes (model.max_classes), got another: {label!r}"
    return "model", text, "classes"


def check_late_label(
    section: ModelSection, learner: Learner, features: tuple[str, ...], label: Label
) -> tuple[str, str, str] | None:
    """Return reason, text and subject of a refusal; None if the label can be learnt."""
    return _more_features(section, set(learner.features), features) or _another_class(
        section, set(learner.classes), label
    )


# --- readings that come twice --------------------------------------------------------------------


class DuplicateFilter:
    """Filter that recognises repeated readings among the most recent keys.

    A broker redelivers only unacknowledged messages, never more than its window of messages in
    flight, so a memory of a few thousand keys is enough.
    """

    def __init__(self, room: int) -> None:
        self.room = room
        self._ring: list[int] = []  # grows to `room`, then the oldest key is overwritten
        self._count = 0  # keys ever added
        self._last: dict[int, int] = {}  # position of the latest occurrence

    def seen_before(self, key: int, span: int) -> bool:
        """Return whether the key is among the last `span` keys, and remember it.

        Always False for NO_KEY. See `Readings.dedup_windows` for the span.
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
        position = count % self.room
        oldest, self._ring[position] = self._ring[position], key
        if self._last.get(oldest) == count - self.room:
            del self._last[oldest]
        return False

    def knows(self, key: int, span: int) -> bool:
        """Return whether the key is among the last `span` keys, without remembering it."""
        last = self._last.get(key)
        return last is not None and self._count - last <= span

    def __len__(self) -> int:
        return len(self._last)

    def keys(self) -> list[int]:
        """Return all remembered keys, oldest first."""
        position = self._count % self.room if self._count > self.room else 0
        return self._ring[position:] + self._ring[:position]

    def restore(self, keys: Ints) -> None:
        """Replace the remembered keys by the last `room` of these."""
        self._ring, self._count, self._last = [], 0, {}
        for key in keys.tolist():
            self.seen_before(key, 0)
