"""Readings that are refused: they would make models too large, or hold no good numbers."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite

import numpy as np

from streamlvq.config import Config, ModelSection
from streamlvq.events import Label, Readings, Refused
from streamlvq.kernels.layout import LARGEST
from streamlvq.monitor.pipeline import Pipeline
from streamlvq.wrappers.feature_transform import FeatureTransform

Pipelines = Mapping[str, Pipeline]


def refuse(
    config: Config,
    pipelines: Pipelines,
    readings: Readings,
    transform: FeatureTransform | None = None,
) -> list[Refused]:
    """What is wrong with readings, at most one thing with each, before anything is done with any.

    Each is judged as if those before it had been learnt, so that it does not matter how readings
    are cut into batches.
    """
    outside = {} if transform is None else transform.refusals(readings.rows, readings.features)
    if not outside and _are_harmless(config, pipelines, readings):
        return []
    judge = _Judge(config, pipelines, outside)
    verdicts = ((k, judge.refuse(readings, k)) for k in range(len(readings)))
    return [Refused(readings.sources[k], *why) for k, why in verdicts if why is not None]


def _are_harmless(config: Config, pipelines: Pipelines, readings: Readings) -> bool:
    """Whether nothing can be wrong, which is nearly always so and quickly seen."""
    section = config.model
    if np.any(np.abs(readings.rows) > LARGEST) or not _have_times(config, readings):
        return False
    groups = set(readings.groups)
    if len(groups.union(pipelines)) > section.limit:
        return False
    labels = set(readings.labels)
    return all(_has_room(section, pipelines.get(group), readings, labels) for group in groups)


def _have_times(config: Config, readings: Readings) -> bool:
    times = readings.times
    if None in times:
        return not _needs_times(config) and all(t is None or isfinite(t) for t in times)
    return bool(np.isfinite(np.array(times, np.float64)).all())


def _needs_times(config: Config) -> bool:
    return config.integrator is not None and config.integrator.max_gap is not None


def _has_room(
    section: ModelSection, pipeline: Pipeline | None, readings: Readings, labels: set[Label | None]
) -> bool:
    features: set[Label] = set(readings.features)
    if pipeline is not None:
        features |= set(pipeline.model.features)
        labels = labels.union(pipeline.classes)
    if len(features) > section.max_features:
        return False
    return len(labels - {None}) <= section.max_classes


class _Judge:
    """Looks at readings one by one, and remembers what models would know by then."""

    def __init__(self, config: Config, pipelines: Pipelines, outside: Mapping[int, str]) -> None:
        self.config = config
        self.outside = outside  # by row: what is wrong with it, to the transform
        self.needs_times = _needs_times(config)
        self.groups = set(pipelines)
        self.features = {group: set(p.model.features) for group, p in pipelines.items()}
        self.classes = {group: set(p.classes) for group, p in pipelines.items()}

    def refuse(self, readings: Readings, k: int) -> tuple[str, str, str] | None:
        """The reason, what to say and what it is about; None if the reading is welcome."""
        group, label = readings.groups[k], readings.labels[k]
        features = self.features.get(group, set())
        wrong = (
            self._time(readings.times[k])
            or _values(readings, k)
            or self._domain(k)
            or self._group(group)
            or _more_features(self.config.model, features, readings.features)
            or self._label(self.classes.get(group, set()), label)
        )
        if wrong is None:
            self.groups.add(group)
            if label is not None:
                self.classes.setdefault(group, set()).add(label)
                self.features.setdefault(group, set()).update(readings.features)
        return wrong

    def _time(self, t: float | None) -> tuple[str, str, str] | None:
        if t is None and self.needs_times:
            text = "expected the time of the reading because of integrator.max_gap, got none"
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
        if abs(value) > LARGEST:
            text = f"expected a finite number of at most {LARGEST:g}, got {value}"
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
    text = f"expected at most {limit} classes (model.max_classes), got also {label!r}"
    return "model", text, "classes"


def refuse_late(
    config: Config, pipeline: Pipeline, features: tuple[str, ...], label: Label
) -> tuple[str, str, str] | None:
    """Why a late label cannot be learnt (reason, text, what it is about); None if it can."""
    section, model = config.model, pipeline.model
    return _more_features(section, set(model.features), features) or _another_class(
        section, set(model.classes), label
    )
