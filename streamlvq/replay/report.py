"""The result of a replay as numbers: what JSON holds and pages and summaries are made of."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from streamlvq.events import Hint, label_text
from streamlvq.replay import statistics as at
from streamlvq.replay.statistics import LABELS, Statistics, share

OTHERS = "(others)"


class ClassRow(msgspec.Struct, kw_only=True):
    """How a class fared."""

    label: str
    readings: int  # that had this label
    decided: int  # labelled readings that were given this label, right or wrong
    recall: float | None  # the share of its readings that were given it
    precision: float | None  # the share of readings given it that had it
    accepted: int  # of its readings
    recall_of_accepted: float | None
    taken_for: str | None  # the other class that its readings were most often given


class Confusion(msgspec.Struct, kw_only=True):
    """How often readings of a class (rows) were given a label (columns; the last one: none)."""

    labels: list[str]
    counts: list[list[int]]
    accepted: list[list[int]]  # of those


class Curve(msgspec.Struct, kw_only=True):
    """Accuracy of what is kept if the least certain share is rejected."""

    area: float
    reject_rates: list[float]
    accuracies: list[float]
    thresholds: list[float | None]  # None: everything is rejected


class Calibration(msgspec.Struct, kw_only=True):
    """How often labels were right against how probable they were said to be."""

    error: float
    confidence: list[float]
    accuracy: list[float]
    readings: list[int]


class DeviceRow(msgspec.Struct, kw_only=True):
    """How a device fared."""

    device: str
    readings: int
    rejected: int
    labelled: int
    accuracy: float | None
    accuracy_of_accepted: float | None


class Track(msgspec.Struct, kw_only=True):
    """Decisions of a device over time, in cells of `stride` readings each."""

    device: str
    stride: int
    first: list[float | None]  # time of the first reading of each cell
    last: list[float | None]
    readings: list[int]
    rejected: list[int]
    wrong: list[int]  # accepted, but not the label
    decided: list[str | None]  # what most of the readings were given
    true: list[str | None]  # the label that most of them had


class Course(msgspec.Struct, kw_only=True):
    """All readings over time, in cells of `stride` readings each."""

    stride: int
    first: list[float | None]
    last: list[float | None]
    readings: list[int]
    rejected: list[int]
    labelled: list[int]
    right: list[int]


class Report(msgspec.Struct, kw_only=True):
    """What came of a replay.

    Accuracies are progressive: every reading was decided before its label was learnt. They count
    the readings whose label is known, those `of_accepted` only the ones that were not rejected.
    None stands for "cannot be said": there was nothing to divide by.
    """

    streamlvq: str  # version
    log: str
    format: str
    model: str
    learning: bool
    readings: int
    labelled: int
    late_labels: int
    learnt: int
    duplicates: int
    devices_seen: int
    devices_limit: int  # more devices than this are counted as one
    first_time: float | None
    last_time: float | None
    accuracy: float | None
    accuracy_of_accepted: float | None
    reject_rate: float | None
    reasons: dict[str, int]
    classes: list[ClassRow]
    confusion: Confusion
    curve: Curve | None
    calibration: Calibration | None
    devices: list[DeviceRow]
    refused: dict[str, int]
    refused_examples: list[str]
    course: Course
    tracks: list[Track]
    cpu_seconds: float
    wall_seconds: float
    features: list[str] = []
    hints: dict[Hint, int] = {}  # causes that refusals hint at, and how many do
    notes: list[str] = []  # what looks like a mistake, or may surprise

    def to_json(self) -> bytes:
        """The report as JSON."""
        return msgspec.json.format(msgspec.json.encode(self), indent=1)

    @classmethod
    def from_json(cls, data: bytes) -> Report:
        """The opposite of `to_json`."""
        return msgspec.json.decode(data, type=cls)


def make_report(statistics: Statistics, **about: Any) -> Report:
    """A report of what was counted; `about` are the fields that no statistics know."""
    first, last = statistics.span
    names, order = _in_order(statistics)
    statistics.make_room(len(names))
    counts = statistics.confusion[order][:, [0, *(1 + k for k in order)]]
    return Report(
        readings=statistics.readings,
        labelled=statistics.labelled,
        late_labels=statistics.late,
        learnt=statistics.learnt,
        duplicates=statistics.duplicates,
        devices_seen=len(statistics.devices.names),
        devices_limit=statistics.devices.limit,
        first_time=_finite(first),
        last_time=_finite(last),
        accuracy=statistics.accuracy,
        accuracy_of_accepted=statistics.accuracy_of_accepted,
        reject_rate=share(statistics.readings - statistics.accepted, statistics.readings),
        reasons=dict(statistics.reasons.most_common()),
        classes=_classes(names, counts),
        confusion=_confusion(names, counts),
        curve=_curve(statistics),
        calibration=_calibration(statistics),
        devices=_devices(statistics),
        refused=dict(statistics.refused.most_common()),
        refused_examples=list(statistics.examples),
        hints=dict(statistics.hints),
        course=_course(statistics),
        tracks=_tracks(statistics, names, order),
        **about,
    )


def _in_order(statistics: Statistics) -> tuple[list[str], list[int]]:
    """The labels as people would list them, and the number of each."""
    texts = [label_text(label) for label in statistics.labels.names]
    order = sorted(range(len(texts)), key=lambda k: (_natural(texts[k]), k))
    names = [texts[k] for k in order]
    counts = statistics.confusion
    if counts[LABELS:].any() or counts[:, LABELS + 1 :].any():
        return [*names, OTHERS], [*order, LABELS]
    return names, order


def _natural(text: str) -> list[Any]:
    """For sorting: `pump 9` before `pump 10`."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", text.lower())]


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _times(values: Any) -> list[float | None]:
    return [_finite(value) for value in values.tolist()]


# --- classes -------------------------------------------------------------------------------------


def _moved(counts: Any) -> Any:
    """The column of those that were given no label, which comes first, put last."""
    return np.concatenate([counts[:, 1:], counts[:, :1]], axis=1)


def _confusion(names: list[str], counts: Any) -> Confusion:
    return Confusion(
        labels=names,
        counts=_moved(counts.sum(axis=2)).tolist(),
        accepted=_moved(counts[:, :, 1]).tolist(),
    )


def _classes(names: list[str], counts: Any) -> list[ClassRow]:
    total, accepted = _moved(counts.sum(axis=2)), _moved(counts[:, :, 1])
    rows = []
    for k, name in enumerate(names):
        others = total[k, : len(names)].copy()
        others[k] = 0
        rows.append(
            ClassRow(
                label=name,
                readings=int(total[k].sum()),
                decided=int(total[:, k].sum()),
                recall=share(int(total[k, k]), int(total[k].sum())),
                precision=share(int(total[k, k]), int(total[:, k].sum())),
                accepted=int(accepted[k].sum()),
                recall_of_accepted=share(int(accepted[k, k]), int(accepted[k].sum())),
                taken_for=names[int(others.argmax())] if others.any() else None,
            )
        )
    return rows


# --- certainty -----------------------------------------------------------------------------------


def _curve(statistics: Statistics) -> Curve | None:
    if not statistics.labelled:
        return None
    rates, accuracies, thresholds = statistics.curve.points()
    return Curve(
        area=statistics.curve.area,
        reject_rates=rates.tolist(),
        accuracies=accuracies.tolist(),
        thresholds=_times(thresholds),
    )


def _calibration(statistics: Statistics) -> Calibration | None:
    used = statistics.calibration[statistics.calibration[:, 0] > 0]
    if not len(used):
        return None
    weight, confidence, accuracy = used[:, 0], used[:, 1] / used[:, 0], used[:, 2] / used[:, 0]
    return Calibration(
        error=float(weight @ np.abs(accuracy - confidence) / weight.sum()),
        confidence=confidence.tolist(),
        accuracy=accuracy.tolist(),
        readings=weight.astype(int).tolist(),
    )


# --- devices and time ----------------------------------------------------------------------------


def _devices(statistics: Statistics) -> list[DeviceRow]:
    names = [str(name) for name in statistics.devices.names]
    rows = list(zip(names, statistics.by_device.tolist(), strict=False))
    if statistics.by_device[-1].any():
        rows.append((OTHERS, statistics.by_device[-1].tolist()))
    return [
        DeviceRow(
            device=name,
            readings=row[at.D_READINGS],
            rejected=row[at.D_READINGS] - row[at.D_ACCEPTED],
            labelled=row[at.D_LABELLED],
            accuracy=share(row[at.D_RIGHT], row[at.D_LABELLED]),
            accuracy_of_accepted=share(row[at.D_ACCEPTED_RIGHT], row[at.D_ACCEPTED_LABELLED]),
        )
        for name, row in rows
    ]


def _course(statistics: Statistics) -> Course:
    counts = statistics.course.counts(0)
    first, last = statistics.course.spans(0)
    return Course(
        stride=statistics.course.stride(0),
        first=_times(first),
        last=_times(last),
        readings=counts[:, at.READINGS].tolist(),
        rejected=counts[:, at.REJECTED].tolist(),
        labelled=counts[:, at.LABELLED].tolist(),
        right=counts[:, at.RIGHT].tolist(),
    )


def _tracks(statistics: Statistics, names: list[str], order: list[int]) -> list[Track]:
    shown = statistics.devices.names[: statistics.tracks.tracks]
    return [_track(statistics, k, str(name), names, order) for k, name in enumerate(shown)]


def _track(
    statistics: Statistics, k: int, device: str, names: list[str], order: list[int]
) -> Track:
    counts = statistics.tracks.counts(k)
    missing = at.FIRST_LABEL + 2 * (max(order, default=0) + 1) - counts.shape[1]
    counts = np.pad(counts, ((0, 0), (0, max(missing, 0))))
    first, last = statistics.tracks.spans(k)
    return Track(
        device=device,
        stride=statistics.tracks.stride(k),
        first=_times(first),
        last=_times(last),
        readings=counts[:, at.READINGS].tolist(),
        rejected=counts[:, at.REJECTED].tolist(),
        wrong=counts[:, at.WRONG].tolist(),
        decided=_most(counts[:, [at.decided_column(k) for k in order]], names),
        true=_most(counts[:, [at.true_column(k) for k in order]], names),
    )


def _most(counts: Any, names: Sequence[str]) -> list[str | None]:
    """The label that was counted most often in each cell; None if none was."""
    if not counts.shape[1]:
        return [None] * len(counts)
    best = counts.argmax(axis=1)
    some = counts.any(axis=1).tolist()
    return [names[k] if any_ else None for k, any_ in zip(best.tolist(), some, strict=True)]
