"""The page of a replay: one self-contained HTML file."""

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
from streamlvq.report.timeline import course_drawing, moment, track_drawing
from streamlvq.text import number, percent
from streamlvq.wrappers.base import unwrap

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
    shown = [
        (number(report.readings), "readings", devices),
        (number(report.labelled), "labelled", f"{number(report.learnt)} learnt"),
        (percent(report.accuracy), "accuracy", told),
        (percent(report.reject_rate), "rejected", _reasons(report)),
        (percent(report.accuracy_of_accepted), "accuracy of accepted", ""),
    ]
    if report.calibration is not None:
        shown.append((percent(report.calibration.error), "calibration error", ""))
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
        total = max(sum(row), 1)
        cells = "".join(_heat(count, total, j == k) for j, count in enumerate(row[: len(columns)]))
        recall = percent(report.classes[k].recall)
        rows.append(f"<tr><th>{escape(label)}</th>{cells}<td>{recall}</td></tr>")
    return (
        "<p>Rows: the label. Columns: what was decided, accepted or not. The stronger the colour, "
        'the larger the share of the row.</p><div class="scroll"><table class="matrix">'
        f"<thead><tr><th></th>{head}<th>recall</th></tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _heat(count: int, total: int, right: bool) -> str:
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
        accepted = percent(row.accepted / row.readings if row.readings else None)
        rows.append([row.label, number(row.readings), percent(row.recall), percent(row.precision),
                     accepted, percent(row.recall_of_accepted), row.taken_for or "-"])  # fmt: skip
    return table(rows)


def _devices(report: Report) -> str:
    if len(report.devices) < 2:
        return ""
    rows = [["device", "readings", "rejected", "labelled", "accuracy", "accuracy of accepted"]]
    for row in report.devices[:MAX_DEVICE_ROWS]:
        rejected = percent(row.rejected / max(row.readings, 1))
        rows.append([row.device, number(row.readings), rejected, number(row.labelled),
                     percent(row.accuracy), percent(row.accuracy_of_accepted)])  # fmt: skip
    more = len(report.devices) - MAX_DEVICE_ROWS
    note = f"<p>{number(more)} more are in the JSON report.</p>" if more > 0 else ""
    return table(rows) + note


def _refused(report: Report) -> str:
    if not report.refused:
        return ""
    rows = [["reason", "rows"], *([name, number(n)] for name, n in report.refused.items())]
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
