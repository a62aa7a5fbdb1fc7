"""The sharing graph of a fusion as a drawing (SVG) in the colours of the page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

from streamlvq.fusion.report import MAX_GRAPH_NODES
from streamlvq.plot.graphs import MAX_DRAWN_EDGES, MAX_RESIDUAL, Spot, ring_spots
from streamlvq.plot.style import short
from streamlvq.report.html import DRAWING_WIDTH

if TYPE_CHECKING:
    from streamlvq.fusion import Edge, FusionReport, NodeReport


# Lengths are in units of the drawing (SVG).
MAX_NODE_DISTANCE, MAX_RINGS_HEIGHT = 190.0, 620.0  # of neighbours; of all, without margins
VERTICAL_MARGIN, SIDE_MARGIN = 75.0, 130.0  # for names: above and below, left and right
MIN_EDGE_WIDTH, MAX_EDGE_WIDTH = 0.6, 8.0
MAX_WIDTH_AT_NODE = 60.0  # sum over the lines at a node: more hide each other
MAX_NAMED_NODES = 30  # names of more nodes would overlap
MAX_TALL_NAMES = 12  # with more nodes, each name has a single line
LETTER_WIDTH, LINE_HEIGHT = 7.6, 15.0  # of names
MAX_NAME_LETTERS, MIN_NAME_LETTERS = 40, 8
MAX_UPRIGHT_SINE = 0.2  # sine of the angle below which a name is above or below its node
MAX_NODE_RADIUS = 13.0


def graph_drawing(report: FusionReport) -> str:
    """Draw nodes as circles and shared classes as lines, with tooltips."""
    rings = ring_spots(report.components)
    spots, height, step = _scaled(rings)
    radius = min(MAX_NODE_RADIUS, 0.4 * step)
    edges = sorted(report.edges, key=lambda edge: (len(edge.shared), edge.a, edge.b))[
        -MAX_DRAWN_EDGES:
    ]
    most = max((len(edge.shared) for edge in edges), default=1)
    thickest = min(MAX_EDGE_WIDTH, radius, MAX_WIDTH_AT_NODE / len(spots))
    parts = [_line(edge, spots, thickest / most) for edge in edges]
    parts += [_circle(report.nodes[name], spot, radius) for name, spot in spots.items()]
    if len(spots) <= MAX_NAMED_NODES:
        parts += [
            _name(report.nodes[name], spots, way, radius)
            for name, way in _outwards(report.components, spots).items()
        ]
    box = f'viewBox="0 0 {DRAWING_WIDTH} {height:.0f}" role="img" aria-label="the sharing graph"'
    return f'<svg class="graph" {box}>{"".join(parts)}</svg>'


def graph_words(report: FusionReport) -> str:
    """Explain how to read the drawing."""
    words = (
        "Two nodes are joined if both know a class: the more classes, the thicker the line, and "
        "the redder, the further apart the two remain after the correction. Beside a node: how far "
        "its sensors are off, in within-class deviations."
    )
    more = len(report.edges) - MAX_DRAWN_EDGES
    if more > 0:
        words += f" {more} thin lines are not shown."
    if len(report.nodes) > MAX_GRAPH_NODES:
        words += " Of so many nodes only the lines of the spanning tree are shown."
    if len(report.nodes) > MAX_NAMED_NODES:
        words += " Point at a node for its name."
    if len(report.components) > 1:
        words += (
            f" There are {len(report.components)} parts that share no class: nothing says how the "
            "sensors of one compare with those of another, so each was fused by itself."
        )
    return words


def _scaled(spots: Mapping[str, Spot]) -> tuple[dict[str, Spot], float, float]:
    """Return the places of nodes (y downwards), the height of the drawing and the node distance."""
    xs, ys = [x for x, _ in spots.values()], [y for _, y in spots.values()]
    wide, high = max(xs) - min(xs), max(ys) - min(ys)
    step = min(
        MAX_NODE_DISTANCE,
        (DRAWING_WIDTH - 2 * SIDE_MARGIN) / max(wide, 1.0),
        MAX_RINGS_HEIGHT / max(high, 1.0),
    )
    left = (DRAWING_WIDTH - step * wide) / 2
    placed = {
        name: (left + step * (x - min(xs)), VERTICAL_MARGIN + step * (max(ys) - y))
        for name, (x, y) in spots.items()
    }
    return placed, step * high + 2 * VERTICAL_MARGIN, step


def _line(edge: Edge, spots: Mapping[str, Spot], thickness: float) -> str:
    (x1, y1), (x2, y2) = spots[edge.a], spots[edge.b]
    width = MIN_EDGE_WIDTH + thickness * len(edge.shared)
    red = 100 * min(edge.residual / MAX_RESIDUAL, 1.0) if math.isfinite(edge.residual) else 100.0
    what = f"{edge.a} and {edge.b} share {len(edge.shared)}: {short(', '.join(edge.shared), 200)}"
    title = f"<title>{escape(what)}; left over {edge.residual:.2f}</title>"
    look = f'style="--red:{red:.0f}%" stroke-width="{width:.1f}"'
    return f'<path class="edge" {look} d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}">{title}</path>'


def _circle(node: NodeReport, spot: Spot, radius: float) -> str:
    kind = "node out" if node.left_out is not None else "node clipped" if node.clipped else "node"
    said = (
        f"{node.node}: {node.samples} samples, {len(node.counts)} classes, off by {node.drift:.2f}"
    )
    if node.gained:
        said += f", gained {', '.join(node.gained)}"
    title = f"<title>{escape(said)}</title>"
    place = f'cx="{spot[0]:.1f}" cy="{spot[1]:.1f}" r="{radius:.1f}"'
    return f'<circle class="{kind}" {place}>{title}</circle>'


def _outwards(
    components: Sequence[Sequence[str]], spots: Mapping[str, Spot]
) -> dict[str, tuple[float, float]]:
    """Return the direction from the middle of its ring to each node: no lines lie beyond."""
    ways = {}
    for members in components:
        middle = [sum(spots[name][axis] for name in members) / len(members) for axis in (0, 1)]
        for name in members:
            x, y = spots[name][0] - middle[0], spots[name][1] - middle[1]
            size = math.hypot(x, y)
            ways[name] = (x / size, y / size) if size > 1e-6 else (0.0, 1.0)
    return ways


def _name(
    node: NodeReport, spots: Mapping[str, Spot], way: tuple[float, float], radius: float
) -> str:
    """Return the text beside a node, outside of its ring."""
    (x, y), (across, down) = spots[node.node], way
    upright = abs(across) < MAX_UPRIGHT_SINE if len(spots) <= MAX_TALL_NAMES else abs(across) < 1e-6
    anchor = "middle" if upright else "start" if across > 0 else "end"
    lines = _words(node, _letters(spots, node.node, anchor))
    if len(spots) > MAX_TALL_NAMES:
        lines = ["".join(lines)]
    if upright:
        first = (
            y + radius + LINE_HEIGHT
            if down > 0
            else y - radius - 6 - LINE_HEIGHT * (len(lines) - 1)
        )
    else:
        x += math.copysign(radius + 5, across)
        first = y + 9 * down - LINE_HEIGHT * (len(lines) - 1) / 2 + 4
    return "".join(
        f'<text text-anchor="{anchor}" x="{x:.1f}" y="{first + LINE_HEIGHT * k:.1f}">{line}</text>'
        for k, line in enumerate(lines)
    )


def _words(node: NodeReport, letters: int) -> list[str]:
    words = [("name", short(node.node, letters))]
    words += [("size", f"{node.drift:.2f}")] if math.isfinite(node.drift) else []
    words += [("gained", f"+ {short(', '.join(node.gained), letters)}")] if node.gained else []
    words += [("left", "left out")] if node.left_out is not None else []
    return [f'<tspan class="{kind}">{escape(text)} </tspan>' for kind, text in words]


def _letters(spots: Mapping[str, Spot], name: str, anchor: str) -> int:
    """Return how many letters fit, up to the edge or half way to the next node."""
    x, y = spots[name]
    beside = [other - x for other, height in spots.values() if abs(height - y) < 3 * LINE_HEIGHT]
    right = min([DRAWING_WIDTH - x, *(gap / 2 for gap in beside if gap > 0)])
    left = min([x, *(-gap / 2 for gap in beside if gap < 0)])
    room = {"start": right, "end": left, "middle": 2 * min(left, right)}[anchor]
    return max(
        MIN_NAME_LETTERS, min(MAX_NAME_LETTERS, int((room - MAX_NODE_RADIUS) / LETTER_WIDTH))
    )
