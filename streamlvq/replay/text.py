"""A replay in words, for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from streamlvq.events import Hint
from streamlvq.replay.report import Curve, Report
from streamlvq.text import aligned, entry, number, percent, plural

WIDE = 12  # more classes than this make a matrix that no terminal shows
DEVICES = 8
CURVE = (0.05, 0.1, 0.2)
FEATURES = 12
REASONS = {
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
    "iso_time": "the times are texts: say --time-unit iso, or `readings.time_unit: iso`",
}


def summary(report: Report) -> str:
    """What happened, how good it was, and what to do next."""
    lines = [*_head(report), *_quality(report)]
    lines += [*refused_lines(report.refused, report.refused_examples), *note_lines(report.notes)]
    for block in (_classes(report), _confusion(report), _devices(report), _next(report)):
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
    labelled += f"; learnt {number(report.learnt)}" if report.learning else "; nothing was learnt"
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
    if report.reasons:
        why = ", ".join(
            f"{reason} {percent(count / report.readings)}"
            for reason, count in report.reasons.items()
        )
        lines.append(entry("rejected", f"{percent(report.reject_rate)}: {why}"))
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
    """Reject rates that some threshold has, near those that people ask for, and the accuracies.

    Readings of equal certainty can only be rejected together, so between points there is nothing.
    """
    rates = np.array(curve.reject_rates)
    places = {int(np.searchsorted(rates, wanted, side="right")) - 1 for wanted in CURVE}
    return [(curve.reject_rates[k], curve.accuracies[k]) for k in sorted(places) if k > 0]


def feature_lines(features: Sequence[str]) -> list[str]:
    """How many there are, and which, shortened."""
    if not features:
        return []
    some = ", ".join(features[:FEATURES])
    more = len(features) - FEATURES
    more_text = f" and {number(more)} more" if more > 0 else ""
    return [entry("features", f"{number(len(features))}: {some}{more_text}")]


def refused_lines(refused: Mapping[str, int], examples: Sequence[str]) -> list[str]:
    """How much was refused, why, and the first ones."""
    if not refused:
        return []
    if set(refused) == {"row"}:
        said = plural(refused["row"], "row")
    else:
        why = (f"{REASONS.get(name, name)} {number(count)}" for name, count in refused.items())
        said = f"{number(sum(refused.values()))}: {', '.join(why)}"
    lines = [entry("refused", f"{said}; such as")]
    return lines + [entry("", text) for text in examples[:3]]


def note_lines(notes: Sequence[str]) -> list[str]:
    """What people should know."""
    return [entry("note", text) for text in notes]


def _classes(report: Report) -> list[str]:
    if not report.labelled or len(report.classes) <= WIDE:
        return []
    rows = [["class", "readings", "recall", "precision", "most often taken for"]]
    for row in sorted(report.classes, key=lambda row: -row.readings)[:20]:
        cells = [row.label, number(row.readings), percent(row.recall), percent(row.precision)]
        rows.append([*cells, row.taken_for or "-"])
    return aligned(rows)


def _confusion(report: Report) -> list[str]:
    labels = report.confusion.labels
    if not report.labelled or not 0 < len(labels) <= WIDE:
        return []
    nothing = any(row[-1] for row in report.confusion.counts)
    head = ["label \\ decided", *(label[:10] for label in labels), *["nothing"] * nothing]
    rows = [[*head, "recall"]]
    for row, counts in zip(report.classes, report.confusion.counts, strict=True):
        shown = counts if nothing else counts[:-1]
        rows.append([row.label[:24], *(str(count) for count in shown), percent(row.recall)])
    return aligned(rows)


def _devices(report: Report) -> list[str]:
    if len(report.devices) < 2:
        return []
    rows = [["device", "readings", "rejected", "accuracy", "of accepted"]]
    rows += [
        [
            row.device[:40],
            number(row.readings),
            percent(row.rejected / max(row.readings, 1)),
            percent(row.accuracy),
            percent(row.accuracy_of_accepted),
        ]
        for row in report.devices[:DEVICES]
    ]
    lines = aligned(rows)
    if len(report.devices) > DEVICES:
        lines.append(
            f"... and {number(len(report.devices) - DEVICES)} more: see --json or --report"
        )
    return lines


def _next(report: Report) -> list[str]:
    """What to do about it."""
    if not report.readings:
        why = nothing(report.refused, report.refused_examples, report.notes, report.hints)
        return [f"next: nothing could be read: {why}"]
    if report.hints:
        return [f"next: {ADVICE[hint]}" for hint in report.hints]
    if not report.labelled:
        return ["next: no reading had a label; name its column with --label, or `readings.label`"]
    if not report.reasons and report.accuracy is not None and report.accuracy < 0.98:
        return ["next: add a `rejector:` to the configuration, so that doubtful ones are held back"]
    return []


def nothing(
    refused: Mapping[str, int],
    examples: Sequence[str],
    notes: Sequence[str],
    hints: Iterable[Hint] = (),
) -> str:
    """Why nothing could be read, and what to do."""
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
