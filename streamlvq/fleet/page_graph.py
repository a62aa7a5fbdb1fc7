"""The sharing graph as a drawing (SVG) that follows the colours of the page."""

from __future__ import annotations

import math
from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING

from streamlvq.fusion.describe import FEW
from streamlvq.plot.looks import short
from streamlvq.plot.rings import Spot, ring_spots, upper_nodes

if TYPE_CHECKING:
    from streamlvq.fusion import Edge, FusionReport, NodeReport

WIDTH = 1000
STEP, MARGIN, HIGHEST = 190.0, 75.0, 620.0  # between neighbours at most; for names; of the rest
EDGES = 1500  # the thickest; more are a blot
THIN, THICK = 1.0, 8.0
NAMED = 30  # nodes; more names cannot be read
RADIUS = 13.0
LARGE = 1.0  # a residual that is as red as it gets


def graph_drawing(report: FusionReport) -> str:
    """Circles for nodes, lines where they share classes; with what a pointer asks for."""
    rings = ring_spots(report.components)
    upper = upper_nodes(report.components, rings)
    spots, height, step = _scaled(rings)
    radius = min(RADIUS, 0.4 * step)
    edges = sorted(report.edges, key=lambda edge: (len(edge.shared), edge.a, edge.b))[-EDGES:]
    most = max((len(edge.shared) for edge in edges), default=1)
    parts = [_line(edge, spots, min(THICK, radius) / most) for edge in edges]
    parts += [_circle(report.nodes[name], spot, radius) for name, spot in spots.items()]
    if len(spots) <= NAMED:
        parts += [
            _name(report.nodes[name], spot, above=name in upper) for name, spot in spots.items()
        ]
    box = f'viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="the sharing graph"'
    return f'<svg class="graph" {box}>{"".join(parts)}</svg>'


def graph_words(report: FusionReport) -> str:
    """How to read the drawing."""
    words = (
        "Two nodes are joined if both know a class: the more classes, the thicker the line, and "
        "the redder, the further apart the two remain after the correction. Beside a node: how far "
        "its sensors are off, in within-class deviations."
    )
    more = len(report.edges) - EDGES
    if more > 0:
        words += f" {more} thin lines are not shown."
    if len(report.nodes) > FEW:
        words += " Of so many nodes only the lines of the spanning tree are shown."
    if len(report.nodes) > NAMED:
        words += " Point at a node for its name."
    if len(report.components) > 1:
        words += (
            f" There are {len(report.components)} parts that share no class: nothing says how the "
            "sensors of one compare with those of another, so each was fused by itself."
        )
    return words


def _scaled(spots: Mapping[str, Spot]) -> tuple[dict[str, Spot], float, float]:
    """Places on the drawing, y downwards; its height; how far neighbours are apart."""
    xs, ys = [x for x, _ in spots.values()], [y for _, y in spots.values()]
    wide, high = max(xs) - min(xs), max(ys) - min(ys)
    step = min(STEP, (WIDTH - 2 * MARGIN) / max(wide, 1.0), HIGHEST / max(high, 1.0))
    left = (WIDTH - step * wide) / 2
    placed = {
        name: (left + step * (x - min(xs)), MARGIN + step * (max(ys) - y))
        for name, (x, y) in spots.items()
    }
    return placed, step * high + 2 * MARGIN, step


def _line(edge: Edge, spots: Mapping[str, Spot], thickness: float) -> str:
    (x1, y1), (x2, y2) = spots[edge.a], spots[edge.b]
    width = THIN + thickness * len(edge.shared)
    red = 100 * min(edge.residual / LARGE, 1.0) if math.isfinite(edge.residual) else 100.0
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


def _name(node: NodeReport, spot: Spot, above: bool) -> str:
    lines = [(short(node.node, 18), "name")]
    lines += [(f"{node.drift:.2f}", "size")] if math.isfinite(node.drift) else []
    lines += [(f"+ {short(', '.join(node.gained), 18)}", "gained")] if node.gained else []
    lines += [("left out", "left")] if node.left_out is not None else []
    x, y = spot[0], spot[1] - 5 - 15 * len(lines) if above else spot[1] + 28
    return "".join(
        f'<text class="{kind}" x="{x:.1f}" y="{y + 15 * k:.1f}">{escape(text)}</text>'
        for k, (text, kind) in enumerate(lines)
    )
