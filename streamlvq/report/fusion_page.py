"""The page of a fusion, with its sharing graph: one self-contained HTML file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

import streamlvq
from streamlvq.fusion.corrections import get_correction
from streamlvq.fusion.report import (
    amount,
    cluster_words,
    node_notes,
    node_rows,
    pool_candidates,
    share,
    unprotected_note,
)
from streamlvq.models.pool import LOCAL, UNSEEN, PoolReport
from streamlvq.registry import CORRECTIONS
from streamlvq.report.fusion_maps import (
    Offsets,
    gains_drawing,
    map_words,
    natural,
    of_features,
    offsets_drawing,
    shift_offsets,
)
from streamlvq.report.fusion_prototypes import MAX_DRAWN_NODES, node_colours, prototype_drawings
from streamlvq.report.html import document, section, table, tiles
from streamlvq.text import number

if TYPE_CHECKING:
    from streamlvq.fusion import Fused, FusionReport
    from streamlvq.snapshot import Snapshot
from collections.abc import Mapping

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
    if len(report.clusters) > 1:
        words += f" {cluster_words(report)}: lines join nodes of the same cluster."
    elif len(report.components) > 1:
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


FUSION_CSS = Path(__file__).with_name("fusion.css")
MAX_WEIGHT_NODES, MAX_WEIGHT_CLASSES = 60, 40  # a larger table of weights is left out
MAX_BAR_REM = 20.0
POOL_ROW_HEIGHT, POOL_NAMES_WIDTH, POOL_LOSS_WIDTH = 26.0, 150.0, 170.0
POOL_NAME_LETTERS = 20
OTHER_KIND = "other"
POOL_COLOURS = {  # of kinds of candidates; the local model is darkest
    LOCAL: "#44546a",
    "fused": "#3d87c9",
    "ensemble": "#5aa469",
    "personal": "#d98032",
    "round": "#a5689f",
    OTHER_KIND: "#999999",
}
POOL_KINDS = {
    LOCAL: "its own model",
    "fused": "fused model",
    "ensemble": "all nodes' models",
    "personal": "fused, then taught its own readings",
    "round": "personal models, fused again",
}


def fusion_html(
    report: FusionReport,
    snapshots: Sequence[Snapshot] = (),
    fused: Fused | None = None,
    pools: Mapping[str, PoolReport] | None = None,
) -> str:
    """Return the HTML page of a fusion.

    Parameters
    ----------
    report
        `Fused.report`.
    snapshots
        Those that were fused: their prototypes are drawn, and their spreads are the unit of shifts.
    fused
        What came of it: its prototypes are drawn.
    pools
        How the pools of nodes are weighed, as `fused.pool.reports()` tells.

    """
    snapshots = sorted(snapshots, key=lambda snapshot: snapshot.node)
    report = msgspec.structs.replace(report, features=natural(report.features))
    offsets = shift_offsets(report, snapshots)
    body = [
        _head(report, snapshots),
        _tiles(report),
        section("Warnings", _list(report.warnings)),
        section("Who shares classes with whom",
                f"<p>{escape(graph_words(report))}</p>", graph_drawing(report)),
        section("Nodes that are alike", _clusters(report)),
        section("Nodes", _nodes(report)),
        section("Who is weighed how", _pools(pools or {})),
        section("How far the sensors are off", _offsets(report, offsets)),
        section("Gains", _gains(report)),
        section("Prototypes before and after", _prototypes(report, snapshots, fused)),
        section("Which correction", _trials(report)),
        section("Weights", _weights(report)),
        f"<footer>streamlvq {escape(streamlvq.__version__)}</footer>",
    ]  # fmt: skip
    title = f"Fusion of {len(report.nodes)} nodes"
    return document(title, body, FUSION_CSS.read_text(encoding="utf-8"))


def _head(report: FusionReport, snapshots: Sequence[Snapshot]) -> str:
    kinds = ", ".join(dict.fromkeys(snapshot.type_name for snapshot in snapshots))
    about = f"{kinds}, " if kinds else ""
    about += f"{len(report.features)} features, {len(report.labels)} classes"
    how = f"weighted by {report.weighting}, {report.aggregator.replace('_', ' ')}"
    return (
        f"<header><h1>Fusion of {len(report.nodes)} nodes</h1>"
        f"<p>{escape(about)}; {escape(how)}<br>{escape(report.why)}</p></header>"
    )


def _tiles(report: FusionReport) -> str:
    out = sum(node.left_out is not None for node in report.nodes.values())
    gained = sum(len(node.gained) for node in report.nodes.values())
    samples = sum(node.samples for node in report.nodes.values())
    parts = len(report.components)
    shown = [
        (number(len(report.nodes)), "nodes", f"{out} left out" if out else "all of them used"),
        (number(samples), "labelled samples", "learnt by the nodes, not shared"),
        (number(len(report.labels)), "classes", f"{gained} gained by nodes" if gained else ""),
        (_corrects(report.drift), "corrected", _summary(report.drift)),
    ]
    if len(report.clusters) > 1:
        shown.append((str(len(report.clusters)), "clusters", "that decide classes differently"))
    elif parts > 1:
        shown.append((str(parts), "parts", "that share no class"))
    if report.cycle_residual is not None:
        before = f"within-class deviations left between nodes, of {amount(report.raw_residual)}"
        shown.append((amount(report.cycle_residual), "disagreement", before))
    if report.rank_loss > 0.0005:
        shown.append((share(report.rank_loss), "of the metric lost", "to keep its rank"))
    return tiles(shown)


def _list(lines: Sequence[str]) -> str:
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f'<ul class="warnings">{items}</ul>' if items else ""


def _clusters(report: FusionReport) -> str:
    """Return a table of the clusters; empty if there is one."""
    if len(report.clusters) < 2:
        return ""
    words = "Each of these clusters was fused by itself: its nodes mean the same by their classes."
    rows = [["nodes", "decides differently"]]
    rows += [[", ".join(each.nodes), ", ".join(each.differs) or "-"] for each in report.clusters]
    return f"<p>{words}</p>{table(rows, 'clusters')}"


def _nodes(report: FusionReport) -> str:
    words = (
        "Off by: how far the sensors of a node are from the common coordinates. Left over: how far "
        "its class means remain from those of the others after the correction. Both in "
        "within-class deviations. Weight: its share, over all classes together."
    )
    alone = unprotected_note(report)
    notes = "".join(f"<li>{escape(text)}</li>" for text in node_notes(report))
    notes = f'<ul class="notes">{notes}</ul>' if notes else ""
    notes += f"<p>{escape(alone[0].upper() + alone[1:])}.</p>" if alone else ""
    return f"<p>{words}</p>{table(node_rows(report), 'nodes')}{notes}"


# --- pools ---------------------------------------------------------------------------------------


def _pools(pools: Mapping[str, PoolReport]) -> str:
    """Return bars of the weights in each node's pool, and a table; empty without pools."""
    if not pools:
        return ""
    words = (
        "With serve: both a node decides by a pool of its own model and models of the fleet. The "
        "weights suit how well each answered readings of the node before it had learnt them; "
        "what a node has never seen is judged by hiding classes that it has. Losses are log "
        "losses on the same readings: alone, the node's own model; in the pool, all together."
    )
    return f"<p>{words}</p>{_pool_legend(pools)}{pool_drawing(pools)}{_pool_table(pools)}"


def _pool_colour(kind: str) -> str:
    return POOL_COLOURS.get(kind, POOL_COLOURS[OTHER_KIND])


def _pool_legend(pools: Mapping[str, PoolReport]) -> str:
    kinds = dict.fromkeys(name.partition(" ")[0] for name in pool_candidates(pools))
    keys = [
        f'<span><i style="background:{_pool_colour(kind)}"></i>{escape(POOL_KINDS.get(kind, kind))}'
        "</span>"
        for kind in (LOCAL, *kinds)
    ]
    return f'<p class="legend">{"".join(keys)}</p>'


def pool_drawing(pools: Mapping[str, PoolReport]) -> str:
    """Draw the weights of each node's pool as a bar, with tooltips."""
    longest = max(sum(width for _, width in _bar(pool)) for pool in pools.values())
    scale = (DRAWING_WIDTH - POOL_NAMES_WIDTH - POOL_LOSS_WIDTH) / max(longest, 1e-9)
    height = POOL_ROW_HEIGHT * len(pools)
    rows = [_pool_row(pool, POOL_ROW_HEIGHT * k, scale) for k, pool in enumerate(pools.values())]
    box = f'viewBox="0 0 {DRAWING_WIDTH} {height:.0f}" role="img" aria-label="weights in pools"'
    return f'<svg class="pools" {box}>{"".join(rows)}</svg>'


def _bar(pool: PoolReport) -> list[tuple[str, float]]:
    """Return the parts of a bar: the local model, then the candidates by kind."""
    own = [(name, pool.weights[name]) for name in sorted(pool.weights)
           if name not in (LOCAL, UNSEEN)]  # fmt: skip
    return [(LOCAL, pool.weights.get(LOCAL, 0.0)), *own]


def _pool_row(pool: PoolReport, top: float, scale: float) -> str:
    middle = top + POOL_ROW_HEIGHT / 2
    name = escape(short(pool.node, POOL_NAME_LETTERS))
    parts = [f'<text class="row" x="{POOL_NAMES_WIDTH - 8:.0f}" y="{middle:.1f}">{name}</text>']
    x = POOL_NAMES_WIDTH
    for candidate, weight in _bar(pool):
        kind, width = candidate.partition(" ")[0], scale * weight
        title = f"<title>{escape(pool.node)}: {escape(candidate)} {weight:.2f}</title>"
        parts.append(
            f'<rect x="{x:.1f}" y="{top + 4:.1f}" width="{width:.1f}" '
            f'height="{POOL_ROW_HEIGHT - 8:.0f}" fill="{_pool_colour(kind)}">{title}</rect>'
        )
        x += width
    said = "left out: its own model alone" if pool.left_out else _loss_words(pool)
    parts.append(f'<text class="loss" x="{x + 8:.1f}" y="{middle:.1f}">{said}</text>')
    return "".join(parts)


def _loss_words(pool: PoolReport) -> str:
    if "local" not in pool.losses or "pool" not in pool.losses:
        return "nothing to judge by"
    return f"loss {pool.losses['local']:.2f} &#8594; {pool.losses['pool']:.2f}"


def _pool_table(pools: Mapping[str, PoolReport]) -> str:
    kept = [*pool_candidates(pools), LOCAL, UNSEEN]
    rows = [["node", *kept, "loss alone", "in the pool", "readings", "dropped"]]
    for pool in pools.values():
        weights = [f"{pool.weights[name]:.2f}" if name in pool.weights else "" for name in kept]
        losses = [f"{pool.losses[k]:.3f}" if k in pool.losses else "" for k in ("local", "pool")]
        dropped = ", ".join(pool.dropped) or "-"
        rows.append([pool.node, *weights, *losses, number(pool.records), dropped])
    return table(rows, "nodes")


# --- shifts and prototypes -----------------------------------------------------------------------


def _offsets(report: FusionReport, offsets: Offsets) -> str:
    if _nothing_corrected(report.drift) or not report.features:
        return "<p>Nothing was corrected.</p>"
    if not any(np.isfinite(values).any() for values in offsets.values()):
        return ""  # without snapshots there is no unit
    legend = (
        '<p class="legend"><span><i class="above-key"></i>reads too much</span>'
        '<span><i class="below-key"></i>reads too little</span></p>'
    )
    words = (
        "Each feature of each node, in within-class deviations; point at a cell for its number. "
        "Whatever is three deviations off or more has the full colour."
    )
    more = map_words(report.features, len(offsets))
    return f"<p>{words}{more}</p>{legend}{offsets_drawing(report.features, offsets)}"


def _gains(report: FusionReport) -> str:
    gains = {
        name: of_features(report.features, node.gain, 1.0) for name, node in report.nodes.items()
    }
    if all((gain == 1.0).all() for gain in gains.values()):
        return ""
    words = "What the common reading is multiplied by at each node, before the shift is added."
    more = map_words(report.features, len(gains))
    return f"<p>{words}{more}</p>{gains_drawing(report.features, gains)}"


def _prototypes(report: FusionReport, snapshots: Sequence[Snapshot], fused: Fused | None) -> str:
    if not snapshots:
        return ""
    words = (
        "Lines over the features, in within-class deviations from the mean prototype. On the left "
        "as each node knows the class, on the right in the common coordinates: the closer the "
        "lines, the better the correction. Where they reach very far, large values are squeezed."
    )
    drawings = prototype_drawings(report, snapshots, fused)
    if len(drawings) < len(report.labels):
        words += f" {len(drawings)} of {len(report.labels)} classes."
    parts = [f"<p>{words}</p>", _legend(report, fused is not None)]
    for label, drawing in drawings:
        lacking = [name for name, node in report.nodes.items() if label in node.gained]
        new = f"new to {', '.join(lacking)}" if lacking else ""
        parts.append(f"<h3>{escape(label)} <small>{escape(new)}</small></h3>{drawing}")
    return "\n".join(parts)


def _legend(report: FusionReport, fused: bool) -> str:
    keys = [
        f'<span><i style="background:{colour}"></i>{escape(name)}</span>'
        for name, colour in node_colours(report).items()
    ]
    keys += ['<span><i class="fused-key"></i>fused</span>'] if fused else []
    used = sum(node.left_out is None for node in report.nodes.values())
    keys += (
        [f"<span>and {used - MAX_DRAWN_NODES} more, not drawn</span>"]
        if used > MAX_DRAWN_NODES
        else []
    )
    return f'<p class="legend">{"".join(keys)}</p>'


# --- what was chosen -----------------------------------------------------------------------------


def _trials(report: FusionReport) -> str:
    if not report.trials:
        return f"<p>{escape(report.why)}</p>"
    words = (
        "Some nodes hid a class. All was corrected and fused without it, and the fused models "
        "were asked about readings of all classes that these nodes have, drawn from their class "
        "statistics. Their log loss:"
    )
    known = [loss for loss in report.trials.values() if math.isfinite(loss)]
    rows = "".join(_trial(report, name, max(known, default=0.0)) for name in report.trials)
    return (
        f'<p>{words}</p><table class="trials"><tbody>{rows}</tbody></table>'
        f"<p>{escape(report.why)}</p>"
    )


def _trial(report: FusionReport, name: str, worst: float) -> str:
    loss = report.trials[name]
    width = MAX_BAR_REM * loss / worst if worst > 0 and math.isfinite(loss) else 0.0
    kind = ' class="chosen"' if name == report.drift else ""
    said = escape(_summary(name)) + (" (chosen)" if kind else "")
    bar = f'<i style="width:{width:.2f}rem"></i>'
    return f"<tr{kind}><th>{said}</th><td>{amount(loss)}</td><td>{bar}</td></tr>"


def _weights(report: FusionReport) -> str:
    """Return a table of the weight of each node in each class."""
    if len(report.nodes) > MAX_WEIGHT_NODES or len(report.labels) > MAX_WEIGHT_CLASSES:
        return ""
    head = "".join(f"<th>{escape(label)}</th>" for label in report.labels)
    rows = []
    for name, node in report.nodes.items():
        cells = "".join(_weight(node.weights.get(label, 0.0)) for label in report.labels)
        rows.append(f"<tr><th>{escape(name)}</th>{cells}</tr>")
    return (
        "<p>How much each node had to say about each class.</p>"
        '<div class="scroll"><table class="weights"><thead><tr><th>node</th>'
        f"{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _weight(weight: float) -> str:
    return f'<td style="--share:{100 * weight:.0f}%">{share(weight) if weight else ""}</td>'


# --- corrections by name: that of a report that was kept may not be registered here ---------------


def _summary(drift: str) -> str:
    return CORRECTIONS.summary(drift) if drift in CORRECTIONS else drift


def _corrects(drift: str) -> str:
    return get_correction(drift).corrects if drift in CORRECTIONS else drift


def _nothing_corrected(drift: str) -> bool:
    return drift in CORRECTIONS and get_correction(drift).one_frame
