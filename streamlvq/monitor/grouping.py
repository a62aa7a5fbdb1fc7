"""Readings of several groups in one batch: taken apart, decided on, put together again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from streamlvq.events import Decisions, Label, Readings
from streamlvq.monitor.columns import Columns


def by_group(groups: list[str]) -> list[tuple[str, list[int] | None]]:
    """Every group and the indices of its readings; None: all of them."""
    if not groups:
        return []
    if groups.count(groups[0]) == len(groups):
        return [(groups[0], None)]
    indices: dict[str, list[int]] = {}
    for k, group in enumerate(groups):
        indices.setdefault(group, []).append(k)
    return list(indices.items())


Decided = tuple[tuple[Label, ...], Columns]  # the classes that the columns are about
Part = tuple[list[int] | None, Decided]


def assemble(readings: Readings, twice: list[bool], parts: list[Part]) -> tuple[Decisions, Columns]:
    """Decisions in the order of the readings, whatever group they belong to; and their columns."""
    if len(parts) == 1 and parts[0][0] is None:
        classes, columns = parts[0][1]
    else:
        classes, columns = merge(len(readings), parts)
    decisions = Decisions(
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
    return decisions, columns


def without(decisions: Decisions, keep: list[int]) -> Decisions:
    """Only these of the decisions."""
    columns: dict[str, Any] = {
        name: column[keep] if isinstance(column, np.ndarray) else [column[k] for k in keep]
        for name in decisions.__slots__
        if name != "classes"
        for column in [getattr(decisions, name)]
    }
    return Decisions(classes=decisions.classes, **columns)


def merge(rows: int, parts: Sequence[Part]) -> Decided:
    """The parts as one, each row in its place."""
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
            merged.probabilities[np.ix_(np.array(indices), places)] = columns.probabilities
        merged.failures |= {indices[k]: error for k, error in columns.failures.items()}
        merged.opinions |= {indices[k]: said for k, said in columns.opinions.items()}
        for k, reason in zip(indices, columns.reasons, strict=True):
            merged.reasons[k] = reason
    return classes, merged
