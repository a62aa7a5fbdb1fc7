"""The page of a fusion: one self-contained HTML file."""

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
from streamlvq.fusion.report import amount, node_notes, node_rows, share, unprotected_note
from streamlvq.registry import CORRECTIONS
from streamlvq.report.fusion_graph import graph_drawing, graph_words
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


FUSION_CSS = Path(__file__).with_name("fusion.css")
MAX_WEIGHT_NODES, MAX_WEIGHT_CLASSES = 60, 40  # a larger table of weights is left out
MAX_BAR_REM = 20.0


def fusion_html(
    report: FusionReport, snapshots: Sequence[Snapshot] = (), fused: Fused | None = None
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
        section("Nodes", _nodes(report)),
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
    if parts > 1:
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
        "Where the mean of each class lies in each node was predicted: the node's other classes "
        "tell how its sensors differ, the other nodes where the class is. How far the prediction "
        "was off, in within-class deviations:"
    )
    known = [error for error in report.trials.values() if math.isfinite(error)]
    rows = "".join(_trial(report, name, max(known, default=0.0)) for name in report.trials)
    return (
        f'<p>{words}</p><table class="trials"><tbody>{rows}</tbody></table>'
        f"<p>{escape(report.why)}</p>"
    )


def _trial(report: FusionReport, name: str, worst: float) -> str:
    error = report.trials[name]
    width = MAX_BAR_REM * error / worst if worst > 0 and math.isfinite(error) else 0.0
    kind = ' class="chosen"' if name == report.drift else ""
    said = escape(_summary(name)) + (" (chosen)" if kind else "")
    bar = f'<i style="width:{width:.2f}rem"></i>'
    return f"<tr{kind}><th>{said}</th><td>{amount(error)}</td><td>{bar}</td></tr>"


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
