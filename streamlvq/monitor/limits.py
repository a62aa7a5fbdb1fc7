"""Readings that are refused: they would make models too large, or hold no good numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from streamlvq.config import Config, ModelSection
from streamlvq.events import Label, Readings, Refused
from streamlvq.kernels.layout import LARGEST
from streamlvq.monitor.grouping import by_group
from streamlvq.monitor.pipeline import Pipeline


def refuse(config: Config, pipelines: Mapping[str, Pipeline], readings: Readings) -> list[Refused]:
    """What is wrong with readings, before anything is done with any of them."""
    refused = _without_time(config, readings) + _infinite(readings)
    refused += _too_many_models(config.model, pipelines, readings)
    for group, indices in by_group(readings.groups):
        order = range(len(readings)) if indices is None else indices
        refused += _growth(config.model, pipelines.get(group), readings, order)
    return refused


def _without_time(config: Config, readings: Readings) -> list[Refused]:
    if config.integrator is None or config.integrator.max_gap is None:
        return []
    text = "expected the time of the reading because of integrator.max_gap, got none"
    return [
        Refused(source, "field", text)
        for source, t in zip(readings.sources, readings.times, strict=True)
        if t is None or t != t
    ]


def _infinite(readings: Readings) -> list[Refused]:
    if not np.any(np.abs(readings.rows) > LARGEST):
        return []
    refused = []
    for k, i in np.argwhere(np.abs(readings.rows) > LARGEST).tolist():
        text = (
            f"feature {readings.features[i]!r}: expected a finite number of at most {LARGEST:g}, "
            f"got {readings.rows[k, i]}"
        )
        refused.append(Refused(readings.sources[k], "value", text))
    return refused


def _too_many_models(
    section: ModelSection, pipelines: Mapping[str, Pipeline], readings: Readings
) -> list[Refused]:
    new = [group for group in dict.fromkeys(readings.groups) if group not in pipelines]
    room = max(0, section.limit - len(pipelines))
    if len(new) <= room:
        return []
    unwanted = set(new[room:])
    text = f"expected at most {section.limit} models (model.limit), got another for"
    return [
        Refused(source, "model", f"{text} {group!r}")
        for source, group in zip(readings.sources, readings.groups, strict=True)
        if group in unwanted
    ]


def _growth(
    section: ModelSection, pipeline: Pipeline | None, readings: Readings, order: Iterable[int]
) -> list[Refused]:
    features = set() if pipeline is None else set(pipeline.model.features)
    count = len(features.union(readings.features))
    if count > section.max_features:
        text = f"expected at most {section.max_features} features (model.max_features), got {count}"
        return [Refused(readings.sources[k], "model", text) for k in order]
    classes = set() if pipeline is None else set(pipeline.classes)
    if len(classes.union(readings.labels)) <= section.max_classes:  # None among them, at most
        return []
    refused = []
    for k in order:
        y = readings.labels[k]
        if y is None or y in classes:
            continue
        if len(classes) >= section.max_classes:
            refused.append(Refused(readings.sources[k], "model", _unwanted(section, y)))
        else:
            classes.add(y)
    return refused


def _unwanted(section: ModelSection, y: Label) -> str:
    return f"expected at most {section.max_classes} classes (model.max_classes), got also {y!r}"


def too_many_classes(config: Config, pipeline: Pipeline, y: Label) -> str | None:
    """Why a late label cannot be learnt; None if it can."""
    if len({*pipeline.classes, y}) <= config.model.max_classes:
        return None
    return _unwanted(config.model, y)
