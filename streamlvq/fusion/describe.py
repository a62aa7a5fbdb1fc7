"""What to say about a fusion."""

from __future__ import annotations

import numpy as np

from streamlvq.fusion.assemble import Place
from streamlvq.fusion.drift import Correction
from streamlvq.fusion.report import Edge, FusionReport, NodeReport
from streamlvq.fusion.screen import QUORUM, Screened, centres, distances
from streamlvq.fusion.sharing import components, evidence, spanning_tree
from streamlvq.fusion.tables import Axes, Tables
from streamlvq.state import Floats, Ints

FEW = 40  # nodes: of more, only the edges of the tree are reported
LARGE = 1.0  # deviations: nodes that differ more deserve a word
UNEXPLAINED = 0.5  # of the differences between nodes, left after a correction
LOST = 0.05  # of a metric
LEFT_OUT = "was left out"  # a remark on a node that somebody should look into


def report(
    axes: Axes,
    tables: Tables,
    used: Tables,
    spread: Floats,
    relevance: Floats,
    places: dict[str, Place],
    component: list[int],
    weights: Floats,
    screened: Screened,
    shared: list[Ints],
    how: tuple[str, str, str, str],
    trials: dict[str, float],
    loss: float,
    quorum: int,
) -> FusionReport:
    """Put together what is known after a fusion; see `FusionReport`."""
    features, labels = axes.words
    correction = Correction(
        np.array([place.gain for place in places.values()]),
        np.array([place.shift for place in places.values()]),
    )
    neutral = Correction(np.ones_like(correction.gain), np.zeros_like(correction.shift))
    far = distances(tables, correction, spread, relevance, centres(used, correction, spread))
    raw = distances(used, neutral, spread, relevance, centres(used, neutral, spread))
    sizes = _sizes(tables, correction, spread, relevance)
    nodes = {}
    for i, name in enumerate(places):
        held = tables.held[i]
        gained = [labels[k] for k in shared[component[i]] if not held[k]]
        nodes[name] = NodeReport(
            node=name,
            samples=int(tables.samples[i].sum()),
            counts={labels[k]: int(tables.samples[i, k]) for k in np.flatnonzero(held)},
            component=component[i],
            shift=dict(zip(features, correction.shift[i].tolist(), strict=True)),
            gain=dict(zip(features, correction.gain[i].tolist(), strict=True)),
            drift=float(sizes[i]),
            residual=_rms(far[i][held]),
            weights={labels[k]: float(weights[i, k]) for k in np.flatnonzero(held)},
            gained=tuple(gained),
            clipped=tuple(screened.clipped.get(i, [])),
            left_out=screened.left_out.get(i),
        )
    many = used.held & (used.held.sum(axis=0) > 1)
    raw_residual, residual = _rms(raw[many]), _rms(far[many])
    alone = [labels[k] for k in np.flatnonzero(tables.held.sum(axis=0) < QUORUM)]
    weighting, rule, drift, why = how
    found = FusionReport(
        nodes=nodes,
        components=_members(list(places), component),
        edges=_edges(used, correction, spread, relevance, labels),
        labels=tuple(labels),
        features=tuple(features),
        weighting=weighting,
        rule=rule,
        drift=drift,
        why=why,
        trials=trials,
        raw_residual=raw_residual,
        cycle_residual=residual if _has_cycle(used) else None,
        rank_loss=loss,
        unprotected=tuple(alone),
        warnings=(),
    )
    return FusionReport(
        **{name: getattr(found, name) for name in found.__struct_fields__[:-1]},
        warnings=(*_warnings(found), *_withheld(found, used, component, shared, quorum)),
    )


def _rms(values: Floats) -> float:
    return float(np.sqrt(np.mean(values**2))) if len(values) else 0.0


def _sizes(tables: Tables, correction: Correction, spread: Floats, relevance: Floats) -> Floats:
    """How far the correction moves the class means of each node, in deviations."""
    moved = (tables.mean - correction.align(tables.mean)) ** 2 / spread
    known = tables.count > 0
    worth = np.where(known, relevance, 0.0)
    total = worth.sum(axis=(1, 2))
    size: Floats = np.sqrt((worth * moved).sum(axis=(1, 2)) / np.where(total > 0, total, 1.0))
    return size


def _has_cycle(tables: Tables) -> bool:
    """Whether there is more to compare than what the corrections were estimated from."""
    held = tables.held
    held = held[held.any(axis=1)][:, held.any(axis=0)]
    if not held.size:
        return False
    groups = len(np.unique(components(held)))
    return bool(held.sum() > held.shape[0] + held.shape[1] - groups)


def _members(names: list[str], component: list[int]) -> tuple[tuple[str, ...], ...]:
    count = max(component) + 1
    return tuple(
        tuple(name for name, number in zip(names, component, strict=True) if number == wanted)
        for wanted in range(count)
    )


def _edges(
    tables: Tables, correction: Correction, spread: Floats, relevance: Floats, labels: list[str]
) -> tuple[Edge, ...]:
    strength = evidence(tables.samples)
    if len(tables.nodes) <= FEW:
        pairs = [(int(i), int(j)) for i, j in np.argwhere(np.triu(strength) > 0)]
    else:
        pairs = [(min(pair), max(pair)) for pair in spanning_tree(strength)]
    aligned = correction.align(tables.mean)
    edges = []
    for i, j in pairs:
        names = tuple(labels[k] for k in np.flatnonzero(tables.held[i] & tables.held[j]))
        worth = np.where((tables.count[i] > 0) & (tables.count[j] > 0), relevance, 0.0)
        apart = (worth * (aligned[i] - aligned[j]) ** 2 / spread).sum()
        total = worth.sum()
        residual = float(np.sqrt(apart / total / 2.0)) if total > 0 else 0.0
        edges.append(Edge(tables.nodes[i], tables.nodes[j], names, residual))
    return tuple(edges)


def _warnings(found: FusionReport) -> list[str]:
    words = []
    if len(found.nodes) == 1:
        words.append(f"only one node was given, {next(iter(found.nodes))!r}: nothing was fused")
    for node in found.nodes.values():
        if node.left_out is not None:
            words.append(f"node {node.node!r} was left out: {node.left_out}")
        # What was merely cut happens to honest nodes too: it is told at the node alone.
        words += [f"node {node.node!r}: {text}" for text in node.clipped if LEFT_OUT in text]
        if not node.samples:
            words.append(f"node {node.node!r} has learnt nothing: its sensors may differ")
    groups = [group for group in found.components if len(group) > 0]
    if len(groups) > 1:
        names = "; ".join(", ".join(group[:5]) for group in groups[:5])
        words.append(
            f"the nodes fall into {len(groups)} groups that share no class ({names}): how the "
            "sensors of different groups differ cannot be known, so each group was fused by "
            "itself; if they do not differ, drift='none' fuses all"
        )
    words += _explained(found)
    if found.rank_loss > LOST:
        words.append(
            f"a fused metric lost {found.rank_loss:.0%} because its rank is limited; rank='full' "
            "keeps all"
        )
    return words


def _explained(found: FusionReport) -> list[str]:
    residual = found.cycle_residual
    if found.drift == "none":
        if found.raw_residual > LARGE:
            return [
                f"class means of different nodes are {found.raw_residual:.1f} deviations apart, "
                "and nothing was corrected: the sensors may measure different things"
            ]
        return []
    if residual is not None and residual > max(0.3, UNEXPLAINED * found.raw_residual):
        what = "gain and shift" if found.drift == "scale_shift" else "a shift"
        return [
            f"{what} of sensors does not explain how the nodes differ: class means are "
            f"{found.raw_residual:.2f} deviations apart before and {residual:.2f} after the "
            "correction"
        ]
    return []


def _withheld(
    found: FusionReport, used: Tables, component: list[int], shared: list[Ints], quorum: int
) -> list[str]:
    """Classes that others were not given because too few nodes have them."""
    inside = np.array(component)
    words = []
    for number, given in enumerate(shared):
        holders = used.held[inside == number].sum(axis=0)
        lacking = (inside == number).sum() > holders
        withheld = (holders > 0) & lacking
        withheld[given] = False
        for count in np.unique(holders[withheld]).tolist():
            names = [found.labels[k] for k in np.flatnonzero(withheld & (holders == count))]
            words.append(_too_few(names, count, found.rule, quorum))
    return words


def _too_few(names: list[str], count: int, rule: str, quorum: int) -> str:
    have = "1 node has" if count == 1 else f"{count} nodes have"
    need = f"rule {rule} needs {quorum}" if rule != "mean" else f"the quorum is {quorum}"
    it, was = ("it", "it was") if len(names) == 1 else ("them", "they were")
    which = ", ".join(map(repr, names))
    return f"{which}: only {have} {it} and {need}; {was} not given to the others"
