"""Report of a replay: its numbers, which JSON and pages are made of, and its summary as text."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from streamlvq.events import Hint, label_text
from streamlvq.records import UNJUDGED
from streamlvq.replay import statistics as at
from streamlvq.replay.statistics import MAX_LABELS, Statistics, share
from streamlvq.text import aligned, entry, number, percent, plural

# --- the report ----------------------------------------------------------------------------------

UNJUDGED_TEXTS = {
    "no_model": "before two classes were known",
    "no_feature": "without a feature that the model knows",
}
OTHER_CLASSES = "(others)"


class ClassRow(msgspec.Struct, kw_only=True):
    """Results for a class."""

    label: str
    readings: int | None  # that had this label
    decided: int | None  # labelled readings that were given this label, right or wrong
    recall: float | None  # the share of its readings that were given it
    precision: float | None  # the share of readings given it that had it
    accepted: int | None  # of its readings
    recall_of_accepted: float | None
    taken_for: str | None  # the other class that its readings were most often given


class Confusion(msgspec.Struct, kw_only=True):
    """Counts of readings by class (rows) and decided label (columns, the last one for none)."""

    labels: list[str]
    counts: list[list[int | None]]
    accepted: list[list[int | None]]  # of those


class Curve(msgspec.Struct, kw_only=True):
    """Accuracy of the accepted readings if the least certain share is rejected."""

    area: float
    reject_rates: list[float]
    accuracies: list[float]
    thresholds: list[float | None]  # None: everything is rejected


class Calibration(msgspec.Struct, kw_only=True):
    """Observed accuracy against predicted probability."""

    error: float
    confidence: list[float]
    accuracy: list[float]
    readings: list[int]


class DeviceRow(msgspec.Struct, kw_only=True):
    """Results for a device."""

    device: str
    readings: int | None
    rejected: int | None
    labelled: int | None
    accuracy: float | None
    accuracy_of_accepted: float | None

    @property
    def reject_rate(self) -> float | None:
        """Share of its readings that were rejected."""
        if self.rejected is None or self.readings is None:
            return None
        return self.rejected / max(self.readings, 1)


class Track(msgspec.Struct, kw_only=True):
    """Decisions for a device over time, in cells of `stride` readings."""

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
    """All readings over time, in cells of `stride` readings."""

    stride: int
    first: list[float | None]
    last: list[float | None]
    readings: list[int]
    rejected: list[int | None]
    labelled: list[int | None]
    right: list[int | None]


class Report(msgspec.Struct, kw_only=True):
    """Result of a replay.

    Accuracies are progressive: every reading was decided before its label was learnt. They count
    the readings whose label is known; those named `of_accepted` count only the accepted ones. None
    means undefined: there was nothing to divide by; or hidden, if `suppressed` says from how many
    readings on a count is printed.
    """

    streamlvq: str  # version
    log: str
    format: str
    model: str
    learning: bool
    readings: int
    labelled: int | None
    late_labels: int | None
    learnt: int | None
    duplicates: int | None
    devices_seen: int
    devices_limit: int  # more devices than this are counted as one
    first_time: float | None
    last_time: float | None
    accuracy: float | None
    accuracy_of_accepted: float | None
    reject_rate: float | None
    reasons: dict[str, int]
    outliers_by: dict[str, int]
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
    suppressed: int | None = None  # counts of fewer readings are hidden, see `suppress`

    @property
    def has_rejections(self) -> bool:
        """Whether a rejector rejected some reading; without one there may yet be no answer."""
        return not self.reasons.keys() <= set(UNJUDGED)

    def to_json(self) -> bytes:
        """Return the report as JSON."""
        return msgspec.json.format(msgspec.json.encode(self), indent=1)

    @classmethod
    def from_json(cls, data: bytes) -> Report:
        """Return the report that `to_json` encoded."""
        return msgspec.json.decode(data, type=cls)


def make_report(statistics: Statistics, **about: Any) -> Report:
    """Return a report of the statistics; `about` holds the remaining fields."""
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
        outliers_by=dict(statistics.outliers_by.most_common()),
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
    """Return the labels in natural order, and the index of each."""
    texts = [label_text(label) for label in statistics.labels.names]
    order = sorted(range(len(texts)), key=lambda k: (_natural(texts[k]), k))
    names = [texts[k] for k in order]
    counts = statistics.confusion
    if counts[MAX_LABELS:].any() or counts[:, MAX_LABELS + 1 :].any():
        return [*names, OTHER_CLASSES], [*order, MAX_LABELS]
    return names, order


def _natural(text: str) -> list[Any]:
    """Return a sort key that puts `pump 9` before `pump 10`."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", text.lower())]


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _times(values: Any) -> list[float | None]:
    return [_finite(value) for value in values.tolist()]


# --- classes -------------------------------------------------------------------------------------


def _moved(counts: Any) -> Any:
    """Return the counts with the column for no label moved from first to last."""
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
        rows.append((OTHER_CLASSES, statistics.by_device[-1].tolist()))
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
    """Return the most frequent label in each cell; None for an empty cell."""
    if not counts.shape[1]:
        return [None] * len(counts)
    best = counts.argmax(axis=1)
    some = counts.any(axis=1).tolist()
    return [names[k] if any_ else None for k, any_ in zip(best.tolist(), some, strict=True)]


# --- summary as text -----------------------------------------------------------------------------

MAX_MATRIX_CLASSES = 12  # more classes than this make a matrix that no terminal shows
SUMMARY_DEVICES = 8
CURVE_RATES = (0.05, 0.1, 0.2)
SUMMARY_FEATURES = 12
REJECTION_REASONS = {
    "row": "unreadable row",
    "payload": "unreadable payload",
    "topic": "unknown topic",
    "device": "no device",
    "field": "wrong field",
    "value": "wrong value",
    "label": "wrong label",
    "model": "more than the model may learn",
    "failure": "failure of this program",
}
ADVICE: dict[Hint, str] = {
    "numeric_time": "the times are numbers: say --time-unit s, ms, us or ns, or set "
    "`readings.time_unit`",
}


def summary(report: Report) -> str:
    """Return a text summary: what happened, how good it was, and what to do next."""
    lines = [*_head(report), *_quality(report)]
    lines += [*refused_lines(report.refused, report.refused_examples), *note_lines(report.notes)]
    for block in (
        _class_table(report),
        _confusion_table(report),
        _device_table(report),
        _next(report),
    ):
        if block:
            lines += ["", *block]
    return "\n".join(lines)


def _head(report: Report) -> list[str]:
    rate = report.readings / report.wall_seconds if report.wall_seconds else 0.0
    devices = plural(report.devices_seen, "device")
    if report.devices_seen >= report.devices_limit:
        devices = f"{number(report.devices_limit)} devices or more"
    done = f"{plural(report.readings, 'reading')} of {devices}"
    took = f"{report.wall_seconds:.1f} s, {number(round(rate))} per second"
    labelled = f"{number(report.labelled)}"
    if report.late_labels:
        labelled += f" ({number(report.late_labels)} of them late)"
    if report.suppressed is None:
        learnt = f"learnt {number(report.learnt)}" if report.learning else "nothing was learnt"
        labelled += f"; {learnt}"
    lines = [
        entry("log", f"{report.log} ({report.format})"),
        entry("model", report.model),
        *feature_lines(report.features),
        entry("replayed", f"{done} ({took})"),
        entry("labelled", labelled),
    ]
    if report.duplicates:
        lines.append(entry("duplicates", number(report.duplicates)))
    return lines


def _quality(report: Report) -> list[str]:
    lines = []
    if report.accuracy is not None:
        how = "each decided before its label was learnt" if report.learning else "nothing learnt"
        lines.append(entry("accuracy", f"{percent(report.accuracy)} ({how})"))
    if not report.has_rejections:
        lines += [
            entry("no answer", f"{plural(count, 'reading')}, {UNJUDGED_TEXTS[reason]}")
            for reason, count in report.reasons.items()
        ]
    else:
        why = ", ".join(
            f"{reason} {percent(count / report.readings)}"
            for reason, count in report.reasons.items()
        )
        lines.append(entry("rejected", f"{percent(report.reject_rate)}: {why}"))
        if novel := report.outliers_by.get("novelty"):
            lines.append(entry("novel", f"{plural(novel, 'reading')} unlike anything learnt"))
        if report.accuracy_of_accepted is not None:
            lines.append(entry("accepted", f"{percent(report.accuracy_of_accepted)} right"))
    if report.curve is not None and (points := attainable(report.curve)):
        some = ", ".join(f"{percent(right)} without {percent(rate)}" for rate, right in points)
        lines.append(entry("could be", f"{some} (the least certain ones)"))
    if report.calibration is not None:
        error = f"{percent(report.calibration.error)} between probabilities and accuracy"
        lines.append(entry("calibration", error))
    return lines


def attainable(curve: Curve) -> list[tuple[float, float]]:
    """Return reject rates that some threshold attains, near the usual ones, with accuracies.

    Readings of equal certainty can only be rejected together, so not every rate exists.
    """
    rates = np.array(curve.reject_rates)
    places = {int(np.searchsorted(rates, wanted, side="right")) - 1 for wanted in CURVE_RATES}
    return [(curve.reject_rates[k], curve.accuracies[k]) for k in sorted(places) if k > 0]


def feature_lines(features: Sequence[str]) -> list[str]:
    """Return lines with the number of features and their names, shortened."""
    if not features:
        return []
    some = ", ".join(features[:SUMMARY_FEATURES])
    more = len(features) - SUMMARY_FEATURES
    more_text = f" and {number(more)} more" if more > 0 else ""
    return [entry("features", f"{number(len(features))}: {some}{more_text}")]


def refused_lines(refused: Mapping[str, int], examples: Sequence[str]) -> list[str]:
    """Return lines on how much was refused and why, with the first examples."""
    if not refused:
        return []
    if set(refused) == {"row"}:
        said = plural(refused["row"], "row")
    else:
        why = (
            f"{REJECTION_REASONS.get(name, name)} {number(count)}"
            for name, count in refused.items()
        )
        said = f"{number(sum(refused.values()))}: {', '.join(why)}"
    lines = [entry("refused", f"{said}; such as")]
    return lines + [entry("", text) for text in examples[:3]]


def note_lines(notes: Sequence[str]) -> list[str]:
    """Return the notes as lines."""
    return [entry("note", text) for text in notes]


def _class_table(report: Report) -> list[str]:
    if not report.labelled or len(report.classes) <= MAX_MATRIX_CLASSES:
        return []
    rows = [["class", "readings", "recall", "precision", "most often taken for"]]
    for row in sorted(report.classes, key=lambda row: -(row.readings or 0))[:20]:
        cells = [row.label, number(row.readings), percent(row.recall), percent(row.precision)]
        rows.append([*cells, row.taken_for or "-"])
    return aligned(rows)


def _confusion_table(report: Report) -> list[str]:
    labels = report.confusion.labels
    if not report.labelled or not 0 < len(labels) <= MAX_MATRIX_CLASSES:
        return []
    nothing = any(row[-1] for row in report.confusion.counts)
    head = ["label \\ decided", *(label[:10] for label in labels), *["nothing"] * nothing]
    rows = [[*head, "recall"]]
    for row, counts in zip(report.classes, report.confusion.counts, strict=True):
        shown = counts if nothing else counts[:-1]
        cells = ("-" if count is None else str(count) for count in shown)
        rows.append([row.label[:24], *cells, percent(row.recall)])
    return aligned(rows)


def _device_table(report: Report) -> list[str]:
    if len(report.devices) < 2:
        return []
    rows = [["device", "readings", "rejected", "accuracy", "of accepted"]]
    rows += [
        [
            row.device[:40],
            number(row.readings),
            percent(row.reject_rate),
            percent(row.accuracy),
            percent(row.accuracy_of_accepted),
        ]
        for row in report.devices[:SUMMARY_DEVICES]
    ]
    lines = aligned(rows)
    if len(report.devices) > SUMMARY_DEVICES:
        lines.append(
            f"... and {number(len(report.devices) - SUMMARY_DEVICES)} more: see --json or --report"
        )
    return lines


def _next(report: Report) -> list[str]:
    """Return what to do next."""
    if not report.readings:
        why = explain_empty(report.refused, report.refused_examples, report.notes, report.hints)
        return [f"next: nothing could be read: {why}"]
    if report.hints:
        return [f"next: {ADVICE[hint]}" for hint in report.hints]
    if not report.labelled:
        return ["next: no reading had a label; name its column with --label, or `readings.label`"]
    if not report.has_rejections and report.accuracy is not None and report.accuracy < 0.98:
        return ["next: add a `rejector:` to the configuration, so that doubtful ones are held back"]
    return []


def explain_empty(
    refused: Mapping[str, int],
    examples: Sequence[str],
    notes: Sequence[str],
    hints: Iterable[Hint] = (),
) -> str:
    """Return why nothing could be read, and what to do."""
    if set(refused) == {"topic"}:
        return (
            "no topic in it is one of the readings; name the configuration that it was recorded "
            f"with by --config ({examples[0]})"
        )
    if advice := "; ".join(ADVICE[hint] for hint in hints):
        return advice
    if refused:
        every = number(sum(refused.values()))
        return f"all {every} were refused; the first: {examples[0]}"
    return notes[0] if notes else "name the columns (--feature, --time) or the --format"
