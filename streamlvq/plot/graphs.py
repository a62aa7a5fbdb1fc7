"""The sharing graph of a fusion, and the layout of its nodes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from streamlvq.plot.style import COLOURS, new_axes, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes


Spot = tuple[float, float]
RING_SPACE = 1.5  # around a ring, for names, in distances between neighbours
AGREEMENT_COLOUR, DISAGREEMENT_COLOUR = COLOURS[0], COLOURS[3]
MAX_RESIDUAL = 1.0  # within-class deviations that have the full colour; most should be far below
MIN_EDGE_POINTS, MAX_EDGE_POINTS = 1.0, 7.0  # line widths
NODE_SIZE = 420  # square points
MAX_DRAWN_EDGES = 1500  # the thickest ones; more cannot be told apart


class EdgeOfReport(Protocol):
    """An edge of a fusion report: two nodes that share classes."""

    @property
    def a(self) -> str: ...
    @property
    def b(self) -> str: ...
    @property
    def shared(self) -> Sequence[str]: ...
    @property
    def residual(self) -> float: ...


class ReportOfFusion(Protocol):
    """The part of `streamlvq.fusion.FusionReport` that is drawn."""

    @property
    def nodes(self) -> Mapping[str, Any]: ...
    @property
    def components(self) -> Sequence[Sequence[str]]: ...
    @property
    def edges(self) -> Sequence[EdgeOfReport]: ...


def sharing_graph(report: ReportOfFusion, ax: Axes | None = None) -> Axes:
    """Draw which nodes share classes, and how far they disagree after the correction.

    Two nodes are joined where both know a class: the more classes, the thicker the line. Its colour
    says how far the two still disagree after the correction. Beside a node: how far its sensors are
    off, in within-class deviations, and the classes that it gained. A node that was left out has a
    hollow circle, one that was clipped a thick rim.

    Parameters
    ----------
    report
        `Fused.report`.
    ax
        Where to draw; a new figure by default.

    """
    spots = ring_spots(report.components)
    axes = new_axes((8.0, 5.5)) if ax is None else ax
    _draw_edges(axes, report, spots)
    upper = upper_nodes(report.components, spots)
    for name, spot in spots.items():
        _draw_node(axes, report.nodes[name], spot)
        _write(axes, _lines(report.nodes[name]), spot, above=name in upper)
    axes.set_aspect("equal")
    axes.margins(0.18)
    axes.axis("off")
    axes.set_title("Who shares classes with whom", pad=18)
    return axes


def _draw_edges(axes: Axes, report: ReportOfFusion, spots: Mapping[str, Spot]) -> None:
    from matplotlib.collections import LineCollection  # noqa: PLC0415
    from matplotlib.colors import LinearSegmentedColormap  # noqa: PLC0415

    edges = sorted(report.edges, key=lambda edge: len(edge.shared))[-MAX_DRAWN_EDGES:]
    if not edges:
        return
    most = max(len(edge.shared) for edge in edges)
    lines = LineCollection(
        [[spots[edge.a], spots[edge.b]] for edge in edges],
        linewidths=[
            MIN_EDGE_POINTS + (MAX_EDGE_POINTS - MIN_EDGE_POINTS) * len(edge.shared) / most
            for edge in edges
        ],
        array=[edge.residual for edge in edges],
        cmap=LinearSegmentedColormap.from_list(
            "residual", [AGREEMENT_COLOUR, "0.75", DISAGREEMENT_COLOUR]
        ),
        zorder=1,
    )
    lines.set_clim(0.0, max(MAX_RESIDUAL, *(edge.residual for edge in edges)))
    axes.add_collection(lines)
    bar = axes.figure.colorbar(lines, ax=axes, shrink=0.6, pad=0.02)
    bar.set_label("left over after the correction,\nin within-class deviations")


def _draw_node(axes: Axes, node: Any, spot: Spot) -> None:
    out, clipped = node.left_out is not None, bool(node.clipped)
    axes.scatter(
        *spot,
        s=NODE_SIZE,
        facecolors="white" if out else "0.88",
        edgecolors=DISAGREEMENT_COLOUR if out or clipped else "0.2",
        linewidths=3.0 if clipped else 1.3,
        linestyles="--" if out else "-",
        zorder=2,
    )


def _lines(node: Any) -> list[str]:
    """Return the lines of text beside a node."""
    lines = [short(node.node), f"off by {node.drift:.1f}"]
    lines += [f"+ {short(', '.join(node.gained), 30)}"] if node.gained else []
    return lines + (["left out"] if node.left_out is not None else [])


def _write(axes: Axes, lines: Sequence[str], spot: Spot, above: bool) -> None:
    axes.annotate(
        "\n".join(lines),
        spot,
        (0, 14 if above else -14),
        textcoords="offset points",
        ha="center",
        va="bottom" if above else "top",
        fontsize=9,
        zorder=3,
        bbox={"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none",
              "alpha": 0.75},
    )  # fmt: skip


# --- rings ---------------------------------------------------------------------------------------


def ring_spots(components: Sequence[Sequence[str]]) -> dict[str, Spot]:
    """Place the nodes of each component on a ring, y upwards, and the rings in rows.

    Each ring begins at its top and goes clockwise.

    Examples
    --------
    >>> from streamlvq.plot.graphs import ring_spots
    >>> spots = ring_spots([["a", "b", "c", "d"], ["e"]])
    >>> {name: (round(x, 2), round(y, 2)) for name, (x, y) in spots.items()}
    {'a': (2.3, -1.5), 'b': (3.1, -2.3), 'c': (2.3, -3.1), 'd': (1.5, -2.3), 'e': (6.1, -1.5)}

    """
    rings = [_ring(len(members)) for members in components]
    boxes = [2 * (_reach(ring) + RING_SPACE) for ring in rings]
    widest = max(math.sqrt(2.5 * sum(box * box for box in boxes)), *boxes, 0.0)
    spots: dict[str, Spot] = {}
    left = top = deepest = 0.0
    for members, ring, box in zip(components, rings, boxes, strict=True):
        if left and left + box > widest:
            left, top, deepest = 0.0, top - deepest, 0.0
        for name, (x, y) in zip(members, ring, strict=True):
            spots[name] = (left + box / 2 + x, top - box / 2 + y)
        left, deepest = left + box, max(deepest, box)
    return spots


def upper_nodes(components: Sequence[Sequence[str]], spots: Mapping[str, Spot]) -> set[str]:
    """Return the nodes in the upper halves of rings, whose names go above them, clear of lines."""
    upper = set()
    for members in components:
        heights = [spots[name][1] for name in members]
        middle = (max(heights) + min(heights)) / 2 if heights else 0.0
        upper |= {name for name in members if spots[name][1] > middle + 1e-6}
    return upper


def _ring(size: int) -> list[Spot]:
    if size == 1:
        return [(0.0, 0.0)]
    radius = max(0.8, 0.5 / math.sin(math.pi / size))
    start = math.pi / 2 if size > 2 else math.pi  # two nodes lie, so that their names do
    angles = (start - 2 * math.pi * k / size for k in range(size))
    return [(radius * math.cos(angle), radius * math.sin(angle)) for angle in angles]


def _reach(ring: Sequence[Spot]) -> float:
    return max((math.hypot(x, y) for x, y in ring), default=0.0)
