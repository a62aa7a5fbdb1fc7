"""A report in words: a table of the nodes, what was chosen and why, what somebody should know."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from streamlvq.text import aligned, number

if TYPE_CHECKING:
    from streamlvq.fusion.report import FusionReport, NodeReport

DRIFTS = {
    "none": "no correction",
    "tree": "a shift along a spanning tree",
    "least_squares": "a shift by least squares",
    "scale_shift": "a gain and a shift",
}
UNITS = "(off by, left over: in deviations within the classes; weight: share over all classes)"


def report_text(report: FusionReport) -> str:
    """The whole report, for a terminal."""
    lines = [*aligned(node_rows(report)), UNITS, "", _line("correction", report.why)]
    if report.trials:
        tried = ", ".join(f"{name} {amount(error)}" for name, error in report.trials.items())
        lines.append(_line("tried", tried))
    alone = unprotected(report)
    lines += [_line("note", text) for text in (*node_notes(report), *([alone] if alone else []))]
    lines += [_line("warning", text) for text in report.warnings]
    return "\n".join(lines)


def _line(name: str, text: str) -> str:
    return f"{name:<12} {text}"


def node_rows(report: FusionReport) -> list[list[str]]:
    """A row for each node, after one with the names of the columns.

    `off by` and `left over` are in within-class deviations; weights of all nodes add up to one.
    """
    several = len(report.components) > 1
    head = ["node", *(["part"] if several else []), "samples", "classes", "gained", "off by",
            "left over", "weight", "remarks"]  # fmt: skip
    weight = total_weights(report)
    return [head, *(_row(node, several, weight[name]) for name, node in report.nodes.items())]


def _row(node: NodeReport, several: bool, weight: float) -> list[str]:
    part = [str(node.component + 1)] if several else []
    return [node.node, *part, number(node.samples), str(len(node.counts)),
            ", ".join(node.gained) or "-", amount(node.drift), amount(node.residual),
            share(weight), remarks(node)]  # fmt: skip


def total_weights(report: FusionReport) -> dict[str, float]:
    """The share of each node in all classes together."""
    own = {name: sum(node.weights.values()) for name, node in report.nodes.items()}
    total = sum(own.values())
    return {name: weight / total if total > 0 else 0.0 for name, weight in own.items()}


def remarks(node: NodeReport) -> str:
    """What was done to a node, for a narrow column."""
    if node.left_out is not None:
        return "left out"
    return "clipped" if node.clipped else "-"


def node_notes(report: FusionReport) -> list[str]:
    """What of nodes was cut, as far as no warning says it already."""
    notes = [(node.node, text) for node in report.nodes.values() for text in node.clipped]
    said = set(report.warnings)
    return [line for name, text in notes if (line := f"node {name!r}: {text}") not in said]


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
