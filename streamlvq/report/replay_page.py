"""The page of a replay, with decisions over time: one self-contained HTML file."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Mapping
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from streamlvq import plot
from streamlvq.errors import MissingExtraError, NotLearntYetError
from streamlvq.plot.style import colours_of
from streamlvq.replay.report import Calibration, Curve, Report, feature_lines
from streamlvq.report.html import document, section, table, tiles
from streamlvq.text import number, percent
from streamlvq.wrappers.base import unwrap

if TYPE_CHECKING:
    from matplotlib.axes import Axes
import math
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import NamedTuple

import numpy.typing as npt

from streamlvq.replay.report import Course, Track
from streamlvq.report.html import DRAWING_WIDTH

LEFT_MARGIN, RIGHT_MARGIN = 84, 24
STRIP_HEIGHT, STRIP_GAP, AXIS_HEIGHT, MARK_HEIGHT = 20, 4, 24, 5
SHADE_STEPS = 8  # distinguishable shares of rejected readings
CURVE_HEIGHT = 150
GAP_RATIO = 3.0  # a gap is this many times the usual time between two cells
FIRST_DATE_SECONDS = 1e8  # smaller times are seconds since some start, not dates
ROUND_STEPS = (1, 2, 5)
ROUND_SPANS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200)
DAY_SECONDS = 86_400


class _Run(NamedTuple):
    """Adjacent cells that look the same."""

    start: float
    end: float
    label: str | None
    rejected: int  # in steps
    wrong: int  # in steps
    first: int  # cell
    last: int


def track_drawing(track: Track, colours: dict[str, str]) -> str:
    """Draw the decisions of a device in the colours of the labels, true labels below them.

    Hatched from above is the share that was rejected; a mark above, the stronger the more often,
    says that what was accepted was wrong.
    """
    axis = time_axis(track.first, track.last, track.readings)
    labelled = any(label is not None for label in track.true)
    parts = [_name(MARK_HEIGHT + STRIP_HEIGHT / 2, "decided")]
    for run in _runs(track, axis, track.decided, decisions=True):
        parts += _decided(run, track, colours)
    bottom = MARK_HEIGHT + STRIP_HEIGHT
    if labelled:
        parts.append(_name(bottom + STRIP_GAP + STRIP_HEIGHT / 2, "label"))
        for run in _runs(track, axis, track.true, decisions=False):
            if run.label is not None:
                title = f"label {run.label}{_when(track, run)}"
                colour = colours.get(run.label, "gray")
                parts.append(_box(run, bottom + STRIP_GAP, STRIP_HEIGHT, f'fill="{colour}"', title))
        bottom += STRIP_GAP + STRIP_HEIGHT
    parts += _axis(axis, bottom)
    return _svg(bottom + AXIS_HEIGHT, parts, f"decisions of {track.device} over time")


def course_drawing(course: Course) -> str:
    """Draw accuracy and reject rate of all devices together over time."""
    axis = time_axis(course.first, course.last, course.readings)
    top = 8
    parts = []
    for share in (0.0, 0.5, 1.0):
        y = top + CURVE_HEIGHT * (1 - share)
        parts.append(
            f'<path class="grid" d="M{LEFT_MARGIN} {y:.1f}H{DRAWING_WIDTH - RIGHT_MARGIN}"/>'
        )
        parts.append(_name(y, f"{100 * share:.0f} %"))
    rejected = _shares(course.rejected, course.readings)
    right = _shares(course.right, course.labelled)
    parts.append(_line(axis, rejected, top, "rejected"))
    parts.append(_line(axis, right, top, "right"))
    parts += _axis(axis, top + CURVE_HEIGHT)
    return _svg(top + CURVE_HEIGHT + AXIS_HEIGHT, parts, "accuracy and reject rate over time")


def _shares(parts: Sequence[int | None], wholes: Sequence[int | None]) -> list[float | None]:
    """Return the share of each part; None where it is hidden or there is nothing to divide by."""
    pairs = zip(parts, wholes, strict=True)
    return [part / whole if part is not None and whole else None for part, whole in pairs]


# --- pieces --------------------------------------------------------------------------------------


def _runs(track: Track, axis: Axis, labels: list[str | None], decisions: bool) -> list[_Run]:
    looks = []
    for k, label in enumerate(labels):
        rejected, wrong = (track.rejected[k], track.wrong[k]) if decisions else (0, 0)
        steps = SHADE_STEPS / max(track.readings[k], 1)
        looks.append((label, round(rejected * steps), math.ceil(wrong * steps)))
    runs, k = [], 0
    for look, group in groupby(looks):
        last = k + len(list(group)) - 1
        pieces = _unbroken(axis, k, last)
        runs += [_Run(axis.starts[a], axis.ends[b], *look, a, b) for a, b in pieces]
        k = last + 1
    return runs


def _unbroken(axis: Axis, first: int, last: int) -> list[tuple[int, int]]:
    """Split a range of cells where there is a gap in time."""
    cuts = [k for k in range(first, last) if axis.starts[k + 1] - axis.ends[k] > 1e-9]
    return list(zip([first, *(k + 1 for k in cuts)], [*cuts, last], strict=True))


def _decided(run: _Run, track: Track, colours: dict[str, str]) -> list[str]:
    cells = slice(run.first, run.last + 1)
    readings, rejected = sum(track.readings[cells]), sum(track.rejected[cells])
    wrong = sum(track.wrong[cells])
    said = "nothing" if run.label is None else run.label
    title = f"decided {said}{_when(track, run)}: {readings} readings, {rejected} rejected"
    title += f", {wrong} accepted and wrong" if wrong else ""
    fill = 'class="none"' if run.label is None else f'fill="{colours.get(run.label, "gray")}"'
    parts = [_box(run, MARK_HEIGHT, STRIP_HEIGHT, fill, title)]
    if run.rejected:
        parts.append(
            _box(
                run,
                MARK_HEIGHT,
                STRIP_HEIGHT * run.rejected / SHADE_STEPS,
                'class="rejected"',
                title,
            )
        )
    if run.wrong:
        strength = f'class="wrong" fill-opacity="{0.3 + 0.7 * run.wrong / SHADE_STEPS:.2f}"'
        parts.append(_box(run, 0, MARK_HEIGHT - 1, strength, title))
    return parts


def _when(track: Track, run: _Run) -> str:
    first, last = track.first[run.first], track.last[run.last]
    if first is None or last is None:
        return ""
    return f", {moment(first)} to {moment(last)}"


def _x(share: float) -> float:
    return LEFT_MARGIN + share * (DRAWING_WIDTH - LEFT_MARGIN - RIGHT_MARGIN)


def _box(run: _Run, top: float, height: float, look: str, title: str) -> str:
    left, width = _x(run.start), max(_x(run.end) - _x(run.start), 0.6)
    place = f'x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}"'
    return f"<rect {place} {look}><title>{escape(title)}</title></rect>"


def _name(y: float, text: str) -> str:
    return f'<text x="{LEFT_MARGIN - 8}" y="{y:.1f}" class="name">{escape(text)}</text>'


def _line(axis: Axis, values: list[float | None], top: float, kind: str) -> str:
    pen, path = "M", []
    for start, end, value in zip(axis.starts, axis.ends, values, strict=True):
        if value is None:
            pen = "M"
            continue
        path.append(f"{pen}{_x((start + end) / 2):.1f} {top + CURVE_HEIGHT * (1 - value):.1f}")
        pen = "L"
    return f'<path class="line {kind}" d="{"".join(path)}"/>'


def _axis(axis: Axis, y: float) -> list[str]:
    parts = [f'<path class="axis" d="M{LEFT_MARGIN} {y + 2}H{DRAWING_WIDTH - RIGHT_MARGIN}"/>']
    for at, text in axis.ticks:
        parts.append(f'<path class="axis" d="M{_x(at):.1f} {y + 2}v4"/>')
        parts.append(f'<text x="{_x(at):.1f}" y="{y + 17}" class="tick">{escape(text)}</text>')
    parts.append(_name(y + 14, axis.name))
    return parts


def _svg(height: float, parts: list[str], title: str) -> str:
    # the hatch is defined once, by the page
    box = f'viewBox="0 0 {DRAWING_WIDTH} {height:.0f}" role="img" aria-label="{escape(title)}"'
    return f'<svg class="strips" {box}>{"".join(parts)}</svg>'


# --- the axis ------------------------------------------------------------------------------------


class Axis(NamedTuple):
    """Horizontal axis: start and end of each cell from 0 to 1, and named ticks."""

    starts: list[float]
    ends: list[float]
    ticks: list[tuple[float, str]]
    name: str


def time_axis(
    first: Sequence[float | None], last: Sequence[float | None], readings: Sequence[int]
) -> Axis:
    """Return an axis by time if all cells have increasing times, else by number of readings."""
    begins = np.array(first, dtype=np.float64)
    if len(begins) and not np.isnan(begins).any() and (np.diff(begins) >= 0).all():
        ends = np.array(last, dtype=np.float64)
        if ends.max() > begins[0]:
            return _by_time(begins, ends)
    return _by_count(np.array(readings, dtype=np.float64))


def _by_count(readings: npt.NDArray[np.float64]) -> Axis:
    total = max(float(readings.sum()), 1.0)
    ends = np.cumsum(readings)
    ticks = [(at / total, number(round(at))) for at in _round_numbers(0, total)]
    return Axis(((ends - readings) / total).tolist(), (ends / total).tolist(), ticks, "readings")


def _by_time(begins: npt.NDArray[np.float64], ends: npt.NDArray[np.float64]) -> Axis:
    steps = np.diff(begins)
    usual = float(np.median(steps[steps > 0])) if (steps > 0).any() else 1.0
    until = np.append(begins[1:], max(ends[-1], begins[-1]))
    gap = until - ends > GAP_RATIO * usual  # then a cell ends with its last reading
    until = np.where(gap, ends, until)
    low, width = float(begins[0]), max(float(until.max() - begins[0]), 1e-9)
    dates = low > FIRST_DATE_SECONDS
    values = _round_times(low, low + width) if dates else _round_numbers(low, low + width)
    ticks = [((at - low) / width, _written(at, width) if dates else f"{at:g}") for at in values]
    name = "time (UTC)" if dates else "time (s)"
    return Axis(((begins - low) / width).tolist(), ((until - low) / width).tolist(), ticks, name)


def _round_numbers(low: float, high: float, most: int = 8) -> list[float]:
    """Return at most `most` round numbers within a range."""
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(max(rough, 1e-300)))
    step = next((s * power for s in ROUND_STEPS if s * power >= rough), 10 * power)
    start = math.ceil(low / step)
    return [k * step for k in range(start, math.floor(high / step) + 1)]


def _round_times(low: float, high: float, most: int = 8) -> list[float]:
    rough = (high - low) / most
    if rough < 1:
        return _round_numbers(low, high, most)
    days = math.ceil(rough / DAY_SECONDS) * DAY_SECONDS
    step = next((span for span in ROUND_SPANS if span >= rough), days)
    return [float(k * step) for k in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _written(at: float, width: float) -> str:
    when = datetime.fromtimestamp(at, UTC)
    if width > 8 * DAY_SECONDS:
        return when.strftime("%Y-%m-%d")
    if width > DAY_SECONDS:
        return when.strftime("%m-%d %H:%M")
    return when.strftime("%H:%M:%S" if width < 1800 else "%H:%M")


def moment(at: float) -> str:
    """Format a time."""
    if at <= FIRST_DATE_SECONDS:
        return f"{at:g} s"
    try:
        return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):  # beyond the year 9999
        return f"{at:g} s"


Draw = Callable[["Axes"], object]
MAX_DRAWN_RELEVANCES = 20
MAX_CONFUSION_CLASSES = 40  # a larger matrix is left out
MAX_DEVICE_ROWS = 200
MAX_DRAWN_MODELS = 6
HATCH_SVG = """\
<svg width="0" height="0" style="position:absolute" aria-hidden="true"><defs>
<pattern id="hatch" width="5" height="5" patternUnits="userSpaceOnUse"
 patternTransform="rotate(45)">
<rect class="hatch-ground" width="5" height="5"/><rect class="hatch-line" width="1.6" height="5"/>
</pattern></defs></svg>"""


def replay_html(report: Report, models: Mapping[str, Any] | None = None) -> str:
    """Return the page; `models` are the classifiers after the replay, by group (extra `plot`)."""
    body = [
        HATCH_SVG,
        _head(report),
        _tiles(report),
        section("Decisions over time", _tracks(report)),
        section("All devices together", _course(report)),
        section("Labels and decisions", _confusion(report)),
        section("Certainty", _certainty(report)),
        section("Classes", _classes(report)),
        section("Devices", _devices(report)),
        section("Refused", _refused(report)),
        *_models(models or {}),
        f"<footer>streamlvq {escape(report.streamlvq)}</footer>",
    ]
    return document(f"Replay of {Path(report.log).name}", body)


# --- numbers -------------------------------------------------------------------------------------


def _head(report: Report) -> str:
    when = ""
    if report.first_time is not None and report.last_time is not None:
        when = f"<br>{moment(report.first_time)} to {moment(report.last_time)}"
    name = escape(Path(report.log).name)
    features = "".join(f"<br>{escape(line)}" for line in feature_lines(report.features))
    notes = "".join(f"<p><strong>Note:</strong> {escape(note)}</p>" for note in report.notes)
    about = f"<p>{escape(report.model)}{features}{when}</p>"
    return f"<header><h1>Replay of {name}</h1>{about}{notes}</header>"


def _tiles(report: Report) -> str:
    told = "decided before its label was learnt" if report.learning else "nothing was learnt"
    devices = f"of {number(report.devices_seen)} devices" if report.devices_seen > 1 else ""
    unanswered = "rejected" if report.has_rejections else "no answer"
    learnt = "" if report.learnt is None else f"{number(report.learnt)} learnt"
    shown = [
        (number(report.readings), "readings", devices),
        (number(report.labelled), "labelled", learnt),
        (percent(report.accuracy), "accuracy", told),
        (percent(report.reject_rate), unanswered, _reasons(report)),
        (percent(report.accuracy_of_accepted), "accuracy of accepted", ""),
    ]
    if report.calibration is not None:
        shown.append((percent(report.calibration.error), "calibration error", ""))
    if novel := report.outliers_by.get("novelty"):
        shown.append((number(novel), "novel", "unlike anything learnt"))
    if report.refused:
        shown.append((number(sum(report.refused.values())), "refused", "see below"))
    return tiles(shown)


def _reasons(report: Report) -> str:
    total = max(report.readings, 1)
    return ", ".join(f"{name} {percent(count / total)}" for name, count in report.reasons.items())


# --- time ----------------------------------------------------------------------------------------


def _legend(report: Report, colours: dict[str, str]) -> str:
    shown = {label for track in report.tracks for label in (*track.decided, *track.true)}
    keys = [
        f'<span><i style="background:{colour}"></i>{escape(label)}</span>'
        for label, colour in colours.items()
        if label in shown
    ]
    if report.reasons:
        keys.append('<span><svg class="key" viewBox="0 0 14 14"><rect width="14" height="14" '
                    'class="rejected"/></svg>rejected</span>')  # fmt: skip
    if any(any(track.wrong) for track in report.tracks):
        keys.append('<span><i class="wrong-key"></i>accepted, but not the label</span>')
    return f'<p class="legend">{"".join(keys)}</p>'


def _tracks(report: Report) -> str:
    if not report.tracks:
        return ""
    colours = colours_of(report.confusion.labels)
    parts = [_legend(report, colours)]
    for track in report.tracks:
        each = "" if track.stride == 1 else f"{track.stride} readings per cell"
        title = f"<h3>{escape(track.device or 'all readings')} <small>{each}</small></h3>"
        parts.append(title + track_drawing(track, colours))
    more = report.devices_seen - len(report.tracks)
    if more > 0:
        parts.append(f"<p>{number(more)} more devices are in the table below.</p>")
    return "\n".join(parts)


def _course(report: Report) -> str:
    if not report.course.readings:
        return ""
    legend = '<p class="legend"><span><i class="line-right"></i>accuracy</span>'
    legend += '<span><i class="line-rejected"></i>reject rate</span></p>'
    return legend + course_drawing(report.course)


# --- quality -------------------------------------------------------------------------------------


def _confusion(report: Report) -> str:
    labels, counts = report.confusion.labels, report.confusion.counts
    if not report.labelled or len(labels) > MAX_CONFUSION_CLASSES:
        return ""
    columns = [*labels, "nothing"] if any(row[-1] for row in counts) else labels
    head = "".join(f"<th>{escape(label)}</th>" for label in columns)
    rows = []
    for k, (label, row) in enumerate(zip(labels, counts, strict=True)):
        total = report.classes[k].readings or 1
        cells = "".join(_heat(count, total, j == k) for j, count in enumerate(row[: len(columns)]))
        recall = percent(report.classes[k].recall)
        rows.append(f"<tr><th>{escape(label)}</th>{cells}<td>{recall}</td></tr>")
    return (
        "<p>Rows: the label. Columns: what was decided, accepted or not. The stronger the colour, "
        'the larger the share of the row.</p><div class="scroll"><table class="matrix">'
        f"<thead><tr><th></th>{head}<th>recall</th></tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _heat(count: int | None, total: int, right: bool) -> str:
    if count is None:
        return '<td title="hidden">-</td>'
    share = 100 * count / total
    kind = "good" if right else "bad"
    title = f"{share:.1f} % of the row"
    return f'<td class="{kind}" style="--share:{share:.0f}%" title="{title}">{count or ""}</td>'


def _certainty(report: Report) -> str:
    parts = []
    if report.curve is not None:
        parts.append(curve_picture(report.curve))
    if report.calibration is not None:
        parts.append(calibration_picture(report.calibration))
    return f'<div class="pictures">{"".join(parts)}</div>' if parts else ""


def _classes(report: Report) -> str:
    if not report.labelled:
        return ""
    rows = [["class", "readings", "recall", "precision", "accepted", "recall of accepted",
             "most often taken for"]]  # fmt: skip
    for row in report.classes:
        accepted = percent(_shares([row.accepted], [row.readings])[0])
        rows.append([row.label, number(row.readings), percent(row.recall), percent(row.precision),
                     accepted, percent(row.recall_of_accepted), row.taken_for or "-"])  # fmt: skip
    return table(rows)


def _devices(report: Report) -> str:
    if len(report.devices) < 2:
        return ""
    rows = [["device", "readings", "rejected", "labelled", "accuracy", "accuracy of accepted"]]
    for row in report.devices[:MAX_DEVICE_ROWS]:
        rejected = percent(row.reject_rate)
        rows.append([row.device, number(row.readings), rejected, number(row.labelled),
                     percent(row.accuracy), percent(row.accuracy_of_accepted)])  # fmt: skip
    more = len(report.devices) - MAX_DEVICE_ROWS
    note = f"<p>{number(more)} more are in the JSON report.</p>" if more > 0 else ""
    return table(rows) + note


def _refused(report: Report) -> str:
    if not report.refused:
        return ""
    rows = [["reason", "rows"], *([name, number(n)] for name, n in report.refused.items())]
    if not report.refused_examples:
        return table(rows)
    examples = "".join(f"<li>{escape(text)}</li>" for text in report.refused_examples)
    return f"{table(rows)}<p>The first ones:</p><ul>{examples}</ul>"


def _models(models: Mapping[str, Any]) -> list[str]:
    shown = []
    for group, classifier in list(models.items())[:MAX_DRAWN_MODELS]:
        pictures = model_pictures(classifier)
        title = f"What the model of {group} has learnt" if group else "What the model has learnt"
        shown.append(section(title, f'<div class="pictures">{"".join(pictures)}</div>')
                     if pictures else "")  # fmt: skip
    return shown


# --- pictures ------------------------------------------------------------------------------------


def picture(draw: Draw, size: tuple[float, float], alt: str) -> str:
    """Return an image element of what `draw` draws, with a transparent background."""
    try:
        from matplotlib import rc_context  # noqa: PLC0415
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtraError("matplotlib", "plot") from error
    figure = Figure(figsize=size, layout="constrained")  # needs no screen, unlike pyplot
    draw(figure.subplots())
    out = io.BytesIO()
    with rc_context({"svg.hashsalt": "streamlvq"}):  # the same picture gives the same bytes
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None})
    data = base64.b64encode(out.getvalue()).decode("ascii")
    return f'<img class="plot" alt="{alt}" src="data:image/svg+xml;base64,{data}">'


def curve_picture(curve: Curve) -> str:
    points = np.array(curve.reject_rates), np.array(curve.accuracies)
    draw: Draw = lambda ax: plot.accuracy_reject_curve(points, ax)  # noqa: E731
    return picture(draw, (5.6, 4.2), "accuracy-reject curve")


def calibration_picture(calibration: Calibration) -> str:
    table = calibration.confidence, calibration.accuracy, calibration.readings
    draw: Draw = lambda ax: plot.reliability_diagram(table, ax)  # noqa: E731
    return picture(draw, (4.4, 4.4), "reliability diagram")


def model_pictures(classifier: Any) -> list[str]:
    """Draw relevances and prototypes of the model inside; [] if it has none."""
    model = list(unwrap(classifier))[-1]
    model = getattr(model, "speaker", model)  # of a committee; None if it has no prototypes
    if not hasattr(model, "relevances") or not hasattr(model, "prototypes"):
        return []
    try:
        count = min(len(model.relevances()), MAX_DRAWN_RELEVANCES)
        drawings: list[tuple[Draw, tuple[float, float], str]] = [
            (lambda ax: plot.relevance_profile(model, ax=ax, top=MAX_DRAWN_RELEVANCES),
             (6.4, 1.2 + 0.28 * count), "relevances"),
            (lambda ax: plot.prototype_profiles(model, ax, scaled=True), (9.0, 5.0), "prototypes"),
        ]  # fmt: skip
        return [picture(*drawing) for drawing in drawings]
    except NotLearntYetError:
        return []
