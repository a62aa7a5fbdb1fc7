"""What was done to whom, as rows of a table for pages and terminals."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from streamlvq.plot.html import number

if TYPE_CHECKING:
    from streamlvq.fusion import FusionReport, NodeReport

DRIFTS = {
    "none": "no correction",
    "tree": "a shift along a spanning tree",
    "least_squares": "a shift by least squares",
    "scale_shift": "a gain and a shift",
}


def node_rows(report: FusionReport) -> list[list[str]]:
    """A row for each node, after one with the names of the columns.

    `off by` and `left over` are in within-class deviations; the weight is the mean over classes.
    """
    several = len(report.components) > 1
    head = ["node", *(["part"] if several else []), "samples", "classes", "gained", "off by",
            "left over", "weight", "remarks"]  # fmt: skip
    return [head, *(_row(node, several) for node in report.nodes.values())]


def _row(node: NodeReport, several: bool) -> list[str]:
    part = [str(node.component + 1)] if several else []
    return [node.node, *part, number(node.samples), str(len(node.counts)),
            ", ".join(node.gained) or "-", amount(node.drift), amount(node.residual),
            share(mean_weight(node)), remarks(node)]  # fmt: skip


def mean_weight(node: NodeReport) -> float:
    """Its part in the classes that it has; 0 if it was left out."""
    return sum(node.weights.values()) / len(node.weights) if node.weights else 0.0


def remarks(node: NodeReport) -> str:
    """What was done to a node, for a narrow column."""
    if node.left_out is not None:
        return "left out"
    return "clipped" if node.clipped else "-"


def unprotected(report: FusionReport) -> str:
    """What to say about classes that hardly anybody has; nothing if there are none."""
    if not report.unprotected:
        return ""
    which = ", ".join(report.unprotected)
    return f"too few nodes to tell a mistake from the truth about {which}"


def amount(value: float) -> str:
    return f"{value:.2f}" if math.isfinite(value) else "-"


def share(value: float) -> str:
    return f"{100 * value:.1f} %"
