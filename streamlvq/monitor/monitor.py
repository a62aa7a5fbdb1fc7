"""Monitor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from streamlvq.config import Config, build_classifier
from streamlvq.events import Decisions, Event, Label, LateLabel, Readings, Refused
from streamlvq.kernels.layout import LARGEST
from streamlvq.monitor.duplicates import Duplicates
from streamlvq.monitor.pending import Pending
from streamlvq.monitor.pipeline import Columns, Pipeline


@dataclass(slots=True)
class Outcome:
    """What came of an event."""

    decisions: Decisions | None = None  # None for late labels
    refused: list[Refused] = field(default_factory=list)
    learnt: int = 0  # labelled readings, now or late
    duplicates: int = 0


class Monitor:
    """A deterministic step from state and event to next state and outcome.

    It does no input or output and looks at no clock: the same events give the same decisions and
    the same state, bit for bit, however they are cut into batches.

    Parameters
    ----------
    config
        Which model, integrator and rejector, one for all devices or more, and how much to
        remember.

    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self._pipelines: dict[str, Pipeline] = {}
        self._duplicates = Duplicates(config.state.duplicates)
        labels = config.labels
        self._pending = (
            None if labels is None else Pending(labels.wait, labels.sequence is not None)
        )

    # --- events ----------------------------------------------------------------------------------

    def step(self, event: Event) -> Outcome:
        """Decide on readings and learn those that have a label; or learn a late label."""
        if isinstance(event, LateLabel):
            return self._learn_late(event)
        return self._decide(event)

    def _decide(self, readings: Readings) -> Outcome:
        refused = self._refuse(readings)
        if refused:
            bad = {r.source for r in refused}
            keep = [k for k, source in enumerate(readings.sources) if source not in bad]
            readings = _selected(readings, keep)
        twice = [
            self._duplicates.came_before(key, suspect)
            for key, suspect in zip(readings.keys, readings.suspects, strict=True)
        ]
        parts = [
            (indices, self._step_group(group, readings, indices, twice))
            for group, indices in _by_group(readings.groups)
        ]
        decisions = _assemble(readings, twice, parts)
        if self._pending is not None:
            self._remember(readings, decisions)
        learnt = sum(
            y is not None and not again for y, again in zip(readings.labels, twice, strict=True)
        )
        return Outcome(decisions, refused, learnt, sum(twice))

    def _step_group(
        self, group: str, readings: Readings, indices: list[int] | None, twice: list[bool]
    ) -> tuple[tuple[Label, ...], Columns]:
        pipeline = self._pipeline(group)
        part = readings if indices is None else _selected(readings, indices)
        again = twice if indices is None else [twice[k] for k in indices]
        columns = pipeline.step(
            part.features, part.rows, part.labels, part.devices, part.times, again
        )
        return pipeline.classes, columns

    def _pipeline(self, group: str) -> Pipeline:
        pipeline = self._pipelines.get(group)
        if pipeline is None:
            pipeline = self._pipelines[group] = Pipeline(build_classifier(self.config))
        return pipeline

    def _remember(self, readings: Readings, decisions: Decisions) -> None:
        assert self._pending is not None
        labels, certainties = decisions.labels(), decisions.certainties.tolist()
        for k, (y, again) in enumerate(zip(readings.labels, decisions.duplicates, strict=True)):
            if y is None and not again:
                certainty = certainties[k] if decisions.reasons[k] != "no_model" else -1.0
                self._pending.remember(readings, k, labels[k], certainty)

    def _learn_late(self, late: LateLabel) -> Outcome:
        if self._duplicates.came_before(late.key, late.suspect):
            return Outcome(duplicates=1)
        waiting = None if self._pending is None else self._pending.take(late)
        if waiting is None:
            mark = late.t if late.sequence is None else late.sequence
            text = (
                f"no reading {mark!r} of device {late.device!r} waits for the label "
                f"{late.label!r}: it has one already, never came, or is too long ago"
            )
            return Outcome(refused=[Refused(late.source, "label", text)])
        pipeline = self._pipeline(waiting.group)
        trouble = self._too_many_classes(pipeline, [late.label])
        if trouble is not None:
            return Outcome(refused=[Refused(late.source, "model", trouble)])
        pipeline.learn_late(
            waiting.features, waiting.row, late.label, waiting.label, waiting.certainty
        )
        return Outcome(learnt=1)

    # --- limits ----------------------------------------------------------------------------------

    def _refuse(self, readings: Readings) -> list[Refused]:
        """Readings that would make models larger than allowed, or that hold no good numbers."""
        refused = []
        limits = self.config.model
        if not np.abs(readings.rows).max(initial=0.0) <= LARGEST:
            refused += _infinite(readings)
        groups = dict.fromkeys(readings.groups)
        new_groups = [group for group in groups if group not in self._pipelines]
        if len(self._pipelines) + len(new_groups) > limits.limit:
            allowed = set(new_groups[: max(0, limits.limit - len(self._pipelines))])
            for k, group in enumerate(readings.groups):
                if group not in self._pipelines and group not in allowed:
                    text = f"expected at most {limits.limit} models (model.limit), got {group!r}"
                    refused.append(Refused(readings.sources[k], "model", text))
        for group, indices in _by_group(readings.groups):
            refused += self._refuse_growth(group, readings, indices)
        return refused

    def _refuse_growth(
        self, group: str, readings: Readings, indices: list[int] | None
    ) -> list[Refused]:
        pipeline = self._pipelines.get(group)
        limits = self.config.model
        known = set() if pipeline is None else set(pipeline.model.features)
        classes = () if pipeline is None else pipeline.classes
        order = range(len(readings)) if indices is None else indices
        count = len(known.union(readings.features))
        if count > limits.max_features:
            text = f"expected at most {limits.max_features} features (model.max_features), "
            return [Refused(readings.sources[k], "model", f"{text}got {count}") for k in order]
        if len(set(readings.labels) | set(classes) | {None}) <= limits.max_classes + 1:
            return []
        seen, refused = set(classes), []
        for k in order:
            y = readings.labels[k]
            if y is None or y in seen:
                continue
            if len(seen) >= limits.max_classes:
                text = f"expected at most {limits.max_classes} classes (model.max_classes), "
                refused.append(Refused(readings.sources[k], "model", f"{text}got also {y!r}"))
            else:
                seen.add(y)
        return refused

    def _too_many_classes(self, pipeline: Pipeline, labels: Sequence[Label]) -> str | None:
        limit = self.config.model.max_classes
        if len({*pipeline.classes, *labels}) <= limit:
            return None
        return f"expected at most {limit} classes (model.max_classes), got also {labels[0]!r}"

    # --- state -----------------------------------------------------------------------------------

    def compile(self) -> None:
        """Make the kernels ready, so that the first reading need not wait."""
        pipeline = Pipeline(build_classifier(self.config))
        rows = np.array([[0.0, 1.0], [1.0, 0.0], [0.5, 0.2], [0.1, 0.9]])
        pipeline.step(
            ("a", "b"), rows, ["x", "y", None, "x"], [""] * 4, [0.0, 1.0, 2.0, 3.0], [False] * 4
        )

    @property
    def devices(self) -> int:
        """Devices that have a window."""
        integrators = (pipeline.integrator for pipeline in self._pipelines.values())
        return sum(len(each._windows) for each in integrators if each is not None)

    @property
    def waiting(self) -> int:
        """Readings that wait for a label."""
        return 0 if self._pending is None else len(self._pending)

    def models(self) -> dict[str, Any]:
        """The classifier (with its wrappers) of each group; "" is the one that all share."""
        return {group: pipeline.classifier for group, pipeline in self._pipelines.items()}

    def adopt(self, group: str, classifier: Any) -> None:
        """Let the readings of a group be decided by this classifier from now on."""
        self._pipelines[group] = Pipeline(classifier)

    def checkpoint(self) -> bytes:
        """All that it knows, as a container of `streamlvq.snapshot.container`."""
        raise NotImplementedError

    @classmethod
    def restore(cls, config: Config, checkpoint: bytes) -> Monitor:
        """A monitor that goes on where `checkpoint` was taken; raises `SnapshotError`."""
        raise NotImplementedError


def _infinite(readings: Readings) -> list[Refused]:
    refused = []
    for k, i in np.argwhere(np.abs(readings.rows) > LARGEST).tolist():
        text = (
            f"feature {readings.features[i]!r}: expected a finite number of at most {LARGEST:g}, "
            f"got {readings.rows[k, i]}"
        )
        refused.append(Refused(readings.sources[k], "value", text))
    return refused


def _by_group(groups: list[str]) -> list[tuple[str, list[int] | None]]:
    """Every group and the indices of its readings; None: all of them."""
    if not groups:
        return []
    if groups.count(groups[0]) == len(groups):
        return [(groups[0], None)]
    indices: dict[str, list[int]] = {}
    for k, group in enumerate(groups):
        indices.setdefault(group, []).append(k)
    return list(indices.items())


def _selected(readings: Readings, indices: list[int]) -> Readings:
    def pick(values: list[Any]) -> list[Any]:
        return [values[k] for k in indices]

    return Readings(
        features=readings.features,
        rows=readings.rows[indices],
        devices=pick(readings.devices),
        groups=pick(readings.groups),
        labels=pick(readings.labels),
        times=pick(readings.times),
        sequences=pick(readings.sequences),
        keys=pick(readings.keys),
        suspects=pick(readings.suspects),
        sources=pick(readings.sources),
    )


Part = tuple[list[int] | None, tuple[tuple[Label, ...], Columns]]


def _assemble(readings: Readings, twice: list[bool], parts: list[Part]) -> Decisions:
    """Decisions in the order of the readings, whatever group they belong to."""
    if len(parts) == 1 and parts[0][0] is None:
        classes, columns = parts[0][1]
    else:
        classes, columns = _merge(len(readings), parts)
    return Decisions(
        classes=classes,
        devices=readings.devices,
        groups=readings.groups,
        times=readings.times,
        sequences=readings.sequences,
        truths=readings.labels,
        codes=columns.codes,
        certainties=columns.certainties,
        thresholds=columns.thresholds,
        accepted=columns.accepted,
        reasons=columns.reasons,
        probabilities=columns.probabilities,
        versions=columns.versions,
        duplicates=twice,
        sources=readings.sources,
    )


def _merge(rows: int, parts: list[Part]) -> tuple[tuple[Label, ...], Columns]:
    classes = tuple(dict.fromkeys(label for _, (known, _) in parts for label in known))
    place = {label: code for code, label in enumerate(classes)}
    merged = Columns.empty(rows, len(classes))
    for indices, (known, columns) in parts:
        assert indices is not None
        places = np.array([place[label] for label in known], np.int64)
        decided = columns.codes >= 0
        merged.codes[indices] = np.where(decided, places[columns.codes] if len(places) else -1, -1)
        merged.certainties[indices] = columns.certainties
        merged.thresholds[indices] = columns.thresholds
        merged.accepted[indices] = columns.accepted
        merged.versions[indices] = columns.versions
        if len(places):
            merged.probabilities[np.ix_(indices, places)] = columns.probabilities
        for k, reason in zip(indices, columns.reasons, strict=True):
            merged.reasons[k] = reason
    return classes, merged
