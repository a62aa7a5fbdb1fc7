"""Prototypes of each class before and after the correction, as lines over the features."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from streamlvq.arrays import Floats
from streamlvq.plot.style import colours_of
from streamlvq.report.fusion_maps import column_names, deviations, of_features
from streamlvq.report.html import DRAWING_WIDTH

if TYPE_CHECKING:
    from streamlvq.fusion import Fused, FusionReport
    from streamlvq.snapshot import Snapshot


MAX_DRAWN_CLASSES, MAX_DRAWN_NODES = 12, 24
MAX_LINE_POINTS = 200  # of more features, neighbours are averaged
PANEL_WIDTH, PANEL_HEIGHT, AXIS_WIDTH, PANEL_GAP = 450, 150, 46, 54
TITLE_HEIGHT = 18
MAX_LINEAR_RANGE = 25.0  # deviations: with lines that reach further,
LINEAR_RANGE = 2.0  # values beyond this many deviations are compressed
MAX_PANEL_NAMES = 15  # of features, below a panel
MAX_THICK_LINES = 3  # fused prototypes; more are drawn thin
MAX_DOTTED_FEATURES = 40  # with more, points are not marked


class Lines(NamedTuple):
    """Prototypes of a class: one row each, in within-class deviations."""

    before: dict[str, Floats]  # by node
    after: dict[str, Floats]
    fused: Floats


def prototype_drawings(
    report: FusionReport, snapshots: Iterable[Snapshot], fused: Fused | None
) -> list[tuple[str, str]]:
    """Draw each class: on the left as the nodes know it, on the right corrected."""
    known = {each.node: each for each in snapshots if each.node in report.nodes}
    unit = np.nan_to_num(deviations(report, known.values()), nan=1.0)
    middle = _middle(report, known)
    colours = node_colours(report)
    results = _results(report, fused)
    return [
        (label, _drawing(report, _lines(report, label, known, results, middle, unit), colours))
        for label in shown_classes(report)
    ]


def shown_classes(report: FusionReport) -> list[str]:
    """Return the classes to draw: those that a node gained first, then those with most samples."""
    gained = {label for node in report.nodes.values() for label in node.gained}
    count = {label: sum(node.counts.get(label, 0) for node in report.nodes.values())
             for label in report.labels}  # fmt: skip
    ranked = sorted(report.labels, key=lambda label: (label not in gained, -count[label]))
    chosen = set(ranked[:MAX_DRAWN_CLASSES])
    return [label for label in report.labels if label in chosen]


def node_colours(report: FusionReport) -> dict[str, str]:
    """Return a colour for each drawn node; nodes that were left out are not drawn."""
    used = [name for name, node in report.nodes.items() if node.left_out is None]
    return colours_of(used[:MAX_DRAWN_NODES])


# --- numbers -------------------------------------------------------------------------------------


def _rows(features: Sequence[str], snapshot: Snapshot, label: str | None = None) -> Floats:
    """Return the prototypes of one class, or of all."""
    rows = [
        of_features(features, {str(k): v for k, v in prototype.values.items()}, math.nan)
        for prototype in snapshot.prototypes
        if label is None or str(prototype.label) == label
    ]
    return np.array(rows, np.float64).reshape(-1, len(features))


def _corrected(report: FusionReport, name: str, rows: Floats) -> Floats:
    node = report.nodes[name]
    shift, gain = (
        of_features(report.features, values, absent)
        for values, absent in ((node.shift, 0.0), (node.gain, 1.0))
    )
    return (rows - shift) / gain


def _middle(report: FusionReport, known: Mapping[str, Snapshot]) -> Floats:
    """Return the mean of all corrected prototypes, which lines are measured from."""
    used = [name for name in known if report.nodes[name].left_out is None]
    own = [_corrected(report, name, _rows(report.features, known[name])) for name in used]
    rows = np.concatenate([np.empty((0, len(report.features))), *own])
    sums = np.where(np.isfinite(rows), rows, 0.0).sum(axis=0)
    middle: Floats = sums / np.maximum(np.isfinite(rows).sum(axis=0), 1)
    return middle


def _results(report: FusionReport, fused: Fused | None) -> dict[str, Snapshot]:
    """Return the fused model of one node of each component: others differ only by coordinates."""
    if fused is None:
        return {}
    first = [members[0] for members in report.components if members]
    return {name: fused.snapshot(name) for name in first}


def _lines(
    report: FusionReport,
    label: str,
    known: Mapping[str, Snapshot],
    results: Mapping[str, Snapshot],
    middle: Floats,
    unit: Floats,
) -> Lines:
    before, after = {}, {}
    for name in node_colours(report):
        if name in known:
            rows = _rows(report.features, known[name], label)
            before[name] = _thinned((rows - middle) / unit)
            after[name] = _thinned((_corrected(report, name, rows) - middle) / unit)
    fused = [
        _corrected(report, name, _rows(report.features, result, label))
        for name, result in results.items()
    ]
    together = np.concatenate([np.empty((0, len(report.features))), *fused])
    return Lines(before, after, _thinned((together - middle) / unit))


def _thinned(rows: Floats) -> Floats:
    """Average neighbouring features down to at most `MAX_LINE_POINTS` points."""
    if rows.shape[1] <= MAX_LINE_POINTS or not len(rows):
        return rows
    blocks = np.array_split(rows, MAX_LINE_POINTS, axis=1)
    return np.stack([block.mean(axis=1) for block in blocks], axis=1)


# --- drawing -------------------------------------------------------------------------------------


def _drawing(report: FusionReport, lines: Lines, colours: Mapping[str, str]) -> str:
    everything = [*lines.before.values(), *lines.after.values(), lines.fused]
    values = np.concatenate([rows.ravel() for rows in everything])
    values = values[np.isfinite(values)]
    low, high = (float(values.min()), float(values.max())) if len(values) else (-1.0, 1.0)
    edge = 0.08 * max(high - low, 1e-9)
    low, high = low - edge, high + edge
    names, space = _feature_names(report.features)
    panels = [
        _panel(lines.before, None, colours, low, high, AXIS_WIDTH, "before"),
        _panel(
            lines.after,
            lines.fused,
            colours,
            low,
            high,
            AXIS_WIDTH + PANEL_WIDTH + PANEL_GAP,
            "after",
        ),
    ]
    box = f'viewBox="0 0 {DRAWING_WIDTH} {TITLE_HEIGHT + PANEL_HEIGHT + space}" role="img"'
    return (
        f'<svg class="lines" {box} aria-label="prototypes before and after the correction">'
        f"{''.join(panels)}{names}</svg>"
    )


def _panel(
    rows: Mapping[str, Floats],
    fused: Floats | None,
    colours: Mapping[str, str],
    low: float,
    high: float,
    left: float,
    title: str,
) -> str:
    parts = [_scale(low, high)]
    if fused is not None:  # below the nodes: broad, and hiding none of them
        look = 'class="fused-line"' if len(fused) <= MAX_THICK_LINES else 'class="fused-line many"'
        parts += [_path(row, low, high, look, "fused") for row in fused]
    for name, mine in rows.items():
        look = f'class="node-line" stroke="{colours[name]}" fill="{colours[name]}"'
        parts += [_path(row, low, high, look, name) for row in mine]
    words = [f'<text class="title" x="{left:.0f}" y="{TITLE_HEIGHT - 6}">{title}</text>']
    words += [
        f'<text class="tick" x="{left - 5:.0f}" y="{TITLE_HEIGHT + height:.1f}">{value:g}</text>'
        for value in _ticks(low, high)
        for height in (_y(value, low, high),)
    ]
    place = f'x="{left}" y="{TITLE_HEIGHT}" width="{PANEL_WIDTH}" height="{PANEL_HEIGHT}"'
    return f"{''.join(words)}<svg {place}>{''.join(parts)}</svg>"


def _path(row: Floats, low: float, high: float, look: str, name: str) -> str:
    """Return a line that breaks at unknown values; few points are marked by dots."""
    pen, steps, dots = "M", [], []
    for k, value in enumerate(row.tolist()):
        if not math.isfinite(value):
            pen = "M"
            continue
        x, y = _x(k, len(row)), _y(value, low, high)
        steps.append(f"{pen}{x:.1f} {y:.1f}")
        dots.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2"/>')
        pen = "L"
    marks = "".join(dots) if len(row) <= MAX_DOTTED_FEATURES else ""
    return f'<g {look}><title>{escape(name)}</title><path d="{"".join(steps)}"/>{marks}</g>'


def _x(place: int, count: int) -> float:
    return PANEL_WIDTH * (place + 0.5) / count


def _y(value: float, low: float, high: float) -> float:
    """Return the height of a value; large values are compressed if the range is very wide."""
    if high - low > MAX_LINEAR_RANGE:
        value, low, high = (math.asinh(each / LINEAR_RANGE) for each in (value, low, high))
    return PANEL_HEIGHT * (high - value) / (high - low)


def _scale(low: float, high: float) -> str:
    frame = f'<rect class="frame" width="{PANEL_WIDTH}" height="{PANEL_HEIGHT}"/>'
    return frame + "".join(
        f'<path class="grid" d="M0 {_y(value, low, high):.1f}H{PANEL_WIDTH}"/>'
        for value in _ticks(low, high)
    )


def _ticks(low: float, high: float) -> list[float]:
    """Return three to seven round numbers, far enough apart on a compressed scale."""
    if high - low > MAX_LINEAR_RANGE:
        sizes = [3.0 * 10.0**k for k in range(15)] + [10.0**k for k in range(1, 15)]
        return [0.0] * (low < 0.0 < high) + [
            value for size in sorted(sizes) for value in (-size, size) if low < value < high
        ][:7]
    raw = (high - low) / 5
    unit = 10.0 ** math.floor(math.log10(raw))
    step = next(unit * k for k in (1, 2, 5, 10) if unit * k >= raw)
    first, last = math.ceil(low / step), math.floor(high / step)
    return [float(f"{k * step:.6g}") for k in range(first, last + 1)]


def _feature_names(features: Sequence[str]) -> tuple[str, int]:
    """Return the names below both panels, and the height that they take."""
    every = -(-len(features) // MAX_PANEL_NAMES)
    shown = range(0, len(features), every)
    rows = [
        [left + _x(k, len(features)) for k in shown]
        for left in (AXIS_WIDTH, AXIS_WIDTH + PANEL_WIDTH + PANEL_GAP)
    ]
    slot = PANEL_WIDTH * every / max(len(features), 1)
    return column_names([features[k] for k in shown], rows, slot, TITLE_HEIGHT + PANEL_HEIGHT)
