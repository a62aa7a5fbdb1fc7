"""Admission of readings before any state changes: values, times, model limits, duplicates."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import NamedTuple, Protocol

import numpy as np

from streamlvq.arrays import Ints, Label
from streamlvq.config import Config, ModelSection, PrivacySection
from streamlvq.events import NO_KEY, DroppedFields, Readings, Refused
from streamlvq.kernels.layout import LARGEST_VALUE
from streamlvq.monitor.late_labels import PendingReading
from streamlvq.monitor.probation import ClockOf, HeldReading, Probation
from streamlvq.wrappers.feature_transform import Transform


class Learner(Protocol):
    """View of a group's model that admission checks need: its features, classes and age."""

    @property
    def features(self) -> tuple[Hashable, ...]: ...

    @property
    def classes(self) -> tuple[Label, ...]: ...

    @property
    def samples(self) -> int: ...


Learners = Mapping[str, Learner]  # by group
Problem = tuple[str, str, str]  # reason, text and subject of a refusal


class BlankModel:
    """A model that has learnt nothing, as a `Learner`."""

    features: tuple[Hashable, ...] = ()
    classes: tuple[Label, ...] = ()
    samples = 0


class PublicModel:
    """A private model as a `Learner`: it knows all public features and classes from the start."""

    def __init__(self, section: PrivacySection, learner: Learner) -> None:
        self.features: tuple[Hashable, ...] = tuple(section.bounds)
        self.classes: tuple[Label, ...] = tuple(section.classes)
        self.samples = learner.samples


# --- what is admitted ----------------------------------------------------------------------------


@dataclass(slots=True)
class AdmittedPart:
    """Consecutive readings that go into one step of the models.

    `features` are the columns that the local models may learn, by group (absent: all of them), and
    `held` the rows that they do not learn, with the place of those kept for later. Before the step,
    the local models learn `released`: groups, labels and readings of classes just admitted.
    """

    rows: list[int] = field(default_factory=list)
    features: dict[str, list[int]] = field(default_factory=dict)
    held: dict[int, HeldReading | None] = field(default_factory=dict)
    released: list[tuple[str, Label, HeldReading]] = field(default_factory=list)


@dataclass(slots=True)
class Admitted:
    """Readings that are decided on, which of them are duplicates, and the refusals of the others.

    `parts` is None if the models may learn all of it as it is (the common case).
    """

    readings: Readings
    duplicates: list[bool]
    refused: list[Refused] = field(default_factory=list)
    parts: list[AdmittedPart] | None = None
    dropped: DroppedFields = field(default_factory=DroppedFields)


class Admission:
    """Admission of readings: each is checked as if the ones before it had been learnt.

    The result does not depend on how readings are split into batches. `learners` are the groups of
    the monitor, `blank` what a new group starts with.
    """

    def __init__(self, config: Config, learners: Learners, blank: Learner) -> None:
        self.config, self.learners, self.blank = config, learners, blank
        self.duplicates = DuplicateFilter(config.state.duplicates)
        self.probation = Probation(config.admission)
        fields = config.readings
        self.named = frozenset([*(fields.features or ()), *(fields.columns or ())])

    def learner(self, group: str) -> Learner:
        """Return the model of a group, or what it would start with."""
        learner, privacy = self.learners.get(group, self.blank), self.config.privacy
        return learner if privacy is None else PublicModel(privacy, learner)

    def clock(self, group: str) -> int:
        """Return the number of labelled readings of a group so far."""
        return self.probation.clock(group, self.learner(group).samples)

    def admit(self, readings: Readings, transform: Transform | None) -> Admitted:
        """Check readings, remember them as seen, and find out what the models may learn of them."""
        outside = {} if transform is None else transform.refusals(readings.rows, readings.features)
        if not outside and self._needs_no_check(readings):
            seen = self.duplicates.seen_before
            keys = zip(readings.keys, readings.dedup_windows, strict=True)
            return Admitted(readings, [seen(key, window) for key, window in keys])
        return AdmissionCheck(self, readings, outside).run()

    def admit_late(self, reading: PendingReading, label: Label) -> LateAdmission:
        """Check the late label of a reading; find out what the model may learn of it."""
        known = KnownNames(self, reading.group)
        values = dict(zip(reading.features, reading.row.tolist(), strict=True))
        new = known.new_features(reading.features)
        problem = known.find_problem(reading.features, new, values, label)
        if problem is not None:
            return LateAdmission(problem)
        verdict = known.see(reading.features, new, values, label)
        if verdict.held is not None:
            verdict.held.reading = reading._replace(fused=None)
        learnt = without(reading, verdict.dropped) if verdict.learns else None
        return LateAdmission(None, verdict.released, learnt, _dropped(verdict, values))

    def _needs_no_check(self, readings: Readings) -> bool:
        """Return True if the batch needs no per-reading checks (the common case)."""
        if (np.abs(readings.rows) > LARGEST_VALUE).any() or not _have_times(self.config, readings):
            return False
        groups = set(readings.groups)
        if len(groups.union(self.learners)) > self.config.model.limit:
            return False
        features: set[Hashable] = set(readings.features)
        labels = set(readings.labels) - {None}
        if self.config.privacy is not None and not labels <= set(self.config.privacy.classes):
            return False
        if len(groups) == 1 or not labels:
            return all(self._knows(group, features, labels, len(readings)) for group in groups)
        by_group: dict[str, set[Label | None]] = {group: set() for group in groups}
        for group, label in zip(readings.groups, readings.labels, strict=True):
            by_group[group].add(label)
        return all(
            self._knows(group, features, found - {None}, len(readings))
            for group, found in by_group.items()
        )

    def _knows(
        self, group: str, features: set[Hashable], labels: set[Label], readings: int
    ) -> bool:
        """Return whether a model knows all features and classes, or may learn them at once."""
        learner, section = self.learner(group), self.config.model
        known, classes = features.union(learner.features), labels.union(learner.classes)
        if len(known) > section.max_features or len(classes) > section.max_classes:
            return False
        if len(classes) == len(learner.classes) and (
            not labels or len(known) == len(learner.features)
        ):
            return True
        return not self.probation.applies(learner.samples + readings - 1)


class LateAdmission(NamedTuple):
    """What a model may learn of a late label: its reading, after those of a class just admitted."""

    problem: Problem | None = None
    released: Sequence[HeldReading] = ()
    reading: PendingReading | None = None  # without what is on probation; None if its class is
    dropped: DroppedFields = DroppedFields()


def without(reading: PendingReading, dropped: Collection[str]) -> PendingReading:
    """Return a reading without some of its features."""
    if not dropped:
        return reading
    kept = [j for j, name in enumerate(reading.features) if name not in dropped]
    names = tuple(reading.features[j] for j in kept)
    return reading._replace(features=names, row=reading.row[kept])


def _have_times(config: Config, readings: Readings) -> bool:
    times = readings.times
    if None in times and _needs_times(config):
        return False
    return all(map(isfinite, filter(None, times)))  # `filter` skips None and 0, which is finite


def _needs_times(config: Config) -> bool:
    return config.integrator is not None and config.integrator.max_gap is not None


class KnownNames:
    """Features and classes of a group's model when all readings so far will have been learnt."""

    def __init__(self, admission: Admission, group: str, clock_of: ClockOf | None = None) -> None:
        self._admission, self._probation, self._group = admission, admission.probation, group
        self._clock_of = admission.clock if clock_of is None else clock_of
        learner = admission.learner(group)
        self.features: set[Hashable] = set(learner.features)
        self.classes: set[Label] = set(learner.classes)
        self.samples = learner.samples

    def clock_of(self, group: str) -> int:
        """Return the number of labelled readings of a group so far."""
        if group == self._group:
            return self._probation.clock(group, self.samples)
        return self._clock_of(group)

    @property
    def on_probation(self) -> bool:
        """Whether new names are on probation."""
        return self._probation.applies(self.samples)

    def new_features(self, names: Sequence[str]) -> list[str]:
        """Return the features that would go on probation."""
        named = self._admission.named
        return [name for name in names if name not in self.features and name not in named]

    def find_problem(
        self,
        names: Sequence[str],
        new: Sequence[str],
        values: Mapping[str, float],
        label: Label | None,
    ) -> Problem | None:
        """Return why a reading would make the model too large; None if it would not.

        `new` are those of its features that go on probation, `values` at least theirs.
        """
        config = self._admission.config
        section = config.model
        if config.privacy is not None and label not in (None, *config.privacy.classes):
            return _not_public(config.privacy, label)
        if not self.on_probation:
            return _more_features(section, self.features.union(names)) or (
                None if label is None else _another_class(section, self.classes, label)
            )
        if label is None or not self._learns_class(label):
            return None
        admitted = self.features.union(self._due(new, values), set(names).difference(new))
        return _more_features(section, admitted) or _another_class(section, self.classes, label)

    def _learns_class(self, label: Label) -> bool:
        clock = self.clock_of(self._group)
        return label in self.classes or self._probation.class_is_due((self._group, label), clock)

    def _due(self, new: Sequence[str], values: Mapping[str, float]) -> list[str]:
        clock, is_due = self.clock_of(self._group), self._probation.feature_is_due
        return [
            name
            for name in new
            if values[name] == values[name] and is_due((self._group, name), values[name], clock)
        ]

    def see(
        self, names: tuple[str, ...], new: Sequence[str], values: Mapping[str, float], label: Label
    ) -> Verdict:
        """Record a labelled reading; return what the model may learn of it."""
        if not self.on_probation:
            self.features.update(names)
            self.classes.add(label)
            self.samples += 1
            return Verdict(True)
        group, probation = self._group, self._probation
        due = self._due(new, values)
        # A class is not admitted by a reading of which no feature can be learnt.
        learns = self._learns_class(label) and (bool(due) or len(new) < len(names))
        admitted = due if learns else []
        dropped = [name for name in new if name not in admitted]
        for name in dropped:
            if values[name] == values[name]:
                probation.see_feature((group, name), values[name], self.clock_of)
        if not learns:
            held = None
            if label not in self.classes:
                held = probation.hold((group, label), names, self.clock_of)
            probation.skip(group)
            return Verdict(False, held=held, dropped=dropped)
        released: list[HeldReading] = []
        if label not in self.classes:
            waiting = probation.admit_class((group, label))
            released = [held for held in waiting if not self.features.isdisjoint(held.features)]
        for name in admitted:
            probation.admit_feature((group, name))
        self.features.update(set(names).difference(dropped))
        self.classes.add(label)
        self.samples += 1 + len(released)
        return Verdict(True, released=released, dropped=dropped)


class Verdict(NamedTuple):
    """What a model may learn of a labelled reading."""

    learns: bool
    held: HeldReading | None = None  # where to keep the reading for later
    released: Sequence[HeldReading] = ()  # readings to learn before, of a class just admitted
    dropped: Sequence[str] = ()  # features to do without


def _dropped(verdict: Verdict, values: Mapping[str, float]) -> DroppedFields:
    dropped = DroppedFields()
    for name in verdict.dropped:
        if values[name] == values[name]:
            dropped.add("probation", name, f"{values[name]:g}")
    return dropped


class AdmissionCheck:
    """Check of single readings that keeps track of what the models would have learnt so far."""

    def __init__(
        self, admission: Admission, readings: Readings, outside: Mapping[int, str]
    ) -> None:
        self.admission, self.readings, self.config = admission, readings, admission.config
        self.outside = outside  # by row: why the transform cannot take it
        self.needs_times = _needs_times(admission.config)
        self.groups = set(admission.learners)
        self.known: dict[str, KnownNames] = {}
        self.new: dict[str, list[str]] = {}  # features that are not known, by group
        self.column = {name: j for j, name in enumerate(readings.features)}

    def run(self) -> Admitted:
        """Check all readings."""
        readings = self.readings
        parts = [AdmittedPart()]
        found = Admitted(readings, [], [], parts)
        kept: list[int] = []
        for k in range(len(readings)):
            problem = self._find_problem(k)
            if problem is not None:
                found.refused.append(Refused(readings.sources[k], *problem))
                continue
            key, window = readings.keys[k], readings.dedup_windows[k]
            found.duplicates.append(self.admission.duplicates.seen_before(key, window))
            self._add(found, k, len(kept))
            kept.append(k)
        if len(kept) < len(readings):
            found.readings = readings.select(kept)
        if parts == [AdmittedPart(rows=parts[0].rows)]:
            found.parts = None
        return found

    def _clock_of(self, group: str) -> int:
        known = self.known.get(group)
        return self.admission.clock(group) if known is None else known.clock_of(group)

    def _find_problem(self, k: int) -> Problem | None:
        readings, group = self.readings, self.readings.groups[k]
        problem = (
            self._time(readings.times[k])
            or _values(readings, k)
            or self._domain(k)
            or self._group(group)
        )
        if problem is not None:
            return problem
        if group not in self.known:
            self.known[group] = KnownNames(self.admission, group, self._clock_of)
            self.new[group] = self.known[group].new_features(readings.features)
        problem = self.known[group].find_problem(
            readings.features, self.new[group], self._new_values(group, k), readings.labels[k]
        )
        if problem is None:
            self.groups.add(group)
        return problem

    def _new_values(self, group: str, k: int) -> dict[str, float]:
        row = self.readings.rows[k]
        return {name: float(row[self.column[name]]) for name in self.new[group]}

    def _add(self, found: Admitted, k: int, position: int) -> None:
        """Add a reading to the last part, or to a new one if other features may be learnt."""
        assert found.parts is not None
        part = found.parts[-1]
        readings, group, label = self.readings, self.readings.groups[k], self.readings.labels[k]
        if label is None or found.duplicates[-1]:
            part.rows.append(position)
            return
        new, values = self.new[group], self._new_values(group, k)
        verdict = self.known[group].see(readings.features, new, values, label)
        if verdict.dropped:
            found.dropped.update(_dropped(verdict, values))
        if not verdict.learns:
            part.rows.append(position)
            part.held[position] = verdict.held
            return
        self.new[group] = list(verdict.dropped)
        fewer = len(verdict.dropped) < len(new)
        if fewer if group in part.features else verdict.dropped:
            part = self._next_part(found, group)
        elif verdict.released:
            part = self._next_part(found, None)
        part.released += [(group, label, held) for held in verdict.released]
        part.rows.append(position)

    def _next_part(self, found: Admitted, group: str | None) -> AdmittedPart:
        """Return a part with other features of a group, or with something to learn first."""
        assert found.parts is not None
        last = found.parts[-1]
        part = last
        if last.rows:
            part = AdmittedPart(features=dict(last.features))
            found.parts.append(part)
        if group is not None:
            part.features.pop(group, None)
            dropped = set(self.new[group])
            if dropped:
                kept = [j for name, j in self.column.items() if name not in dropped]
                part.features[group] = kept
        return part

    def _time(self, t: float | None) -> Problem | None:
        if t is None and self.needs_times:
            text = "expected a time, which integrator.max_gap needs, got none"
            return "field", text, "no time"
        if t is not None and not isfinite(t):
            return "field", f"expected a time, got {t!r}", "time"
        return None

    def _domain(self, k: int) -> Problem | None:
        return ("value", self.outside[k], "transform") if k in self.outside else None

    def _group(self, group: str) -> Problem | None:
        limit = self.config.model.limit
        if group in self.groups or len(self.groups) < limit:
            return None
        text = f"expected at most {limit} models (model.limit), got another for {group!r}"
        return "model", text, "models"


def _values(readings: Readings, k: int) -> Problem | None:
    row = readings.rows[k]
    if not (np.abs(row) > LARGEST_VALUE).any():
        return None
    for name, value in zip(readings.features, row.tolist(), strict=True):
        if abs(value) > LARGEST_VALUE:
            text = f"expected a finite number of at most {LARGEST_VALUE:g}, got {value}"
            return "value", f"feature {name!r}: {text}", "range"
    return None


def _more_features(section: ModelSection, features: set[Hashable]) -> Problem | None:
    limit, count = section.max_features, len(features)
    if count <= limit:
        return None
    text = f"expected at most {limit} features (model.max_features), got {count}"
    return "model", text, "features"


def _another_class(section: ModelSection, known: set[Label], label: Label) -> Problem | None:
    if label in known or len(known) < section.max_classes:
        return None
    limit = section.max_classes
    text = f"expected at most {limit} classes (model.max_classes), got another: {label!r}"
    return "model", text, "classes"


def _not_public(section: PrivacySection, label: Label | None) -> Problem:
    known = ", ".join(map(str, section.classes))
    text = f"expected one of privacy.classes ({known}), got {label!r}: classes are a public list"
    return "label", text, "classes"


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
