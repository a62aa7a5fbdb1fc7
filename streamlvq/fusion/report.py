"""Reports of fusions: what was done to each node, what to look into, and all of it as a table."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from streamlvq.arrays import Floats, Ints
from streamlvq.fusion.aggregators import get_aggregator
from streamlvq.fusion.agreement import MetricResiduals
from streamlvq.fusion.class_tables import Alignment, Axes, ClassTables
from streamlvq.fusion.condense import Condensed
from streamlvq.fusion.corrections import get_correction
from streamlvq.fusion.graph import Clusters
from streamlvq.fusion.screening import (
    QUORUM,
    Clipping,
    ScreeningResult,
    class_centres,
    class_distances,
)
from streamlvq.fusion.sharing import components, evidence, spanning_tree
from streamlvq.fusion.trials import DriftChoice
from streamlvq.models.pool import LOCAL, UNSEEN, PoolReport
from streamlvq.text import aligned, entry, number

MAX_GRAPH_NODES = 40  # of more nodes, only the edges of the spanning tree are reported
LARGE_RESIDUAL = 1.0  # deviations: nodes that differ more deserve a word
UNEXPLAINED_SHARE = 0.5  # of the differences between nodes, left after a correction
MIN_UNEXPLAINED = 0.3  # deviations: less is not worth a word
POOLS_NOTE = (
    "(local: the node's own model; the others are of the fleet; loss: log loss per reading)"
)
MAX_LISTED_NAMES = 12  # of nodes or classes in one sentence
LARGE_RANK_LOSS = 0.05  # of a metric
LARGE_METRIC_RESIDUAL = 0.8  # of 1: most fleets that were tried are between 0.3 and 0.75
COLUMNS_NOTE = (
    "(off by, left over: in deviations within the classes; weight: share over all classes)"
)


class Edge(msgspec.Struct, frozen=True):
    """Two nodes that share classes.

    Attributes
    ----------
    a, b
        Their names.
    shared
        The classes that both have.
    residual
        How far apart the means of these classes are after the correction, in deviations within
        the class.
    """

    a: str
    b: str
    shared: tuple[str, ...]
    residual: float


class NodeReport(msgspec.Struct, frozen=True):
    """Result of a fusion for one node.

    Attributes
    ----------
    node
        Its name.
    samples, counts
        Labelled readings that it says it has learnt, in all and of each class.
    component
        Its place in `FusionReport.components`.
    shift, gain
        How its sensors differ: x = gain * common + shift, in the units of its sensors.
    drift
        The size of that, in deviations within the classes.
    residual
        How far its class means are from those of the others after the correction, in deviations.
    weights
        Its share of each class, from 0 to 1.
    gained
        Classes that it had never seen.
    clipped
        What of it was changed or did not count. It happens to honest nodes as well.
    left_out
        Why all of it was left out; None if it was not.
    metric_residual
        How far its metrics are from those of the others after the correction: 0 if they agree, 1 if
        they look at nothing that those look at; None if there are none to compare.
    """

    node: str
    samples: int
    counts: dict[str, int]
    component: int
    shift: dict[str, float]
    gain: dict[str, float]
    drift: float
    residual: float
    weights: dict[str, float]
    gained: tuple[str, ...]
    clipped: tuple[Clipping, ...]
    left_out: str | None
    metric_residual: float | None = None


class ClusterReport(msgspec.Struct, frozen=True):
    """Nodes that mean the same by their classes and were fused together.

    Attributes
    ----------
    nodes
        Their names.
    differs
        The classes that they decide differently from the largest cluster; none for that one.
    """

    nodes: tuple[str, ...]
    differs: tuple[str, ...]


class FusionReport(msgspec.Struct, frozen=True):
    """What was done to each node, and whether it makes sense; `print` shows it as a table.

    Attributes
    ----------
    nodes
        A `NodeReport` for each, by name.
    components
        Nodes of one cluster that shared classes connect; nothing is known of the shift between
        components.
    edges
        Pairs of nodes that share classes; of many nodes only those of the spanning tree.
    labels, features
        All that any node knows.
    weighting, aggregator, drift
        How they were fused; `drift` is the correction that was used.
    why
        Why this one, in a sentence.
    trials
        The log loss (nats) of models fused by each correction that was tried, with classes hidden
        from nodes, on probes of all classes that these nodes have.
    raw_residual, cycle_residual
        How far class means are apart between nodes before and after the correction, in deviations
        within the class. After a shift, it is what is left around the cycles of the sharing graph;
        None if there is no cycle.
    rank_loss
        The share of the metrics that was lost because their rank is limited.
    unprotected
        Classes that too few nodes have to tell a mistake from the truth.
    warnings
        What somebody should look into, in sentences.
    clusters
        Nodes that mean the same by their classes, the largest cluster first. Each is fused by
        itself; usually there is one.
    condensed
        How many prototypes of classes were left out because there is a budget for each.
    budgets
        How many prototypes each of these classes may have.
    metric_residual
        As that of nodes, over all of them.
    """

    nodes: dict[str, NodeReport]
    components: tuple[tuple[str, ...], ...]
    edges: tuple[Edge, ...]
    labels: tuple[str, ...]
    features: tuple[str, ...]
    weighting: str
    aggregator: str
    drift: str
    why: str
    trials: dict[str, float]
    raw_residual: float
    cycle_residual: float | None
    rank_loss: float
    unprotected: tuple[str, ...]
    warnings: tuple[str, ...]
    clusters: tuple[ClusterReport, ...] = ()
    condensed: dict[str, int] = {}
    budgets: dict[str, int] = {}
    metric_residual: float | None = None

    def text(self) -> str:
        """Return a table of the nodes, the correction and why, notes and warnings.

        Examples
        --------

        >>> from streamlvq import GLVQ, Snapshot, fuse

        >>> models = {"a": GLVQ(), "b": GLVQ()}
        >>> for k in range(20):
        ...     for y, x in {"ham": 1.0, "spam": 4.0, "egg": 7.0}.items():
        ...         models["a"].learn_one({"x": x + k % 5 / 10}, y)
        ...         if y != "egg":
        ...             models["b"].learn_one({"x": x + k % 5 / 10 + 2.0}, y)
        >>> fused = fuse([Snapshot.of(model, node) for node, model in models.items()])
        >>> print(fused.report)
        node  samples  classes  gained  off by  left over  weight  remarks
        a          60        3       -    7.07       0.00  66.7 %        -
        b          40        2     egg    7.07       0.00  33.3 %        -
        (off by, left over: in deviations within the classes; weight: share over all classes)
        <BLANKLINE>
        correction   least_squares: with classes hidden from nodes, fused models have a log loss ...
        log loss     none ..., least_squares 0.00, scale_shift 0.00
        note         too few nodes to tell a mistake from the truth about egg, ham, spam; only ...

        """
        return report_text(self)

    def __str__(self) -> str:
        return self.text()


# --- from a run ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class FusionRecord:
    """What a run of `fuse` leaves for its report."""

    axes: Axes
    tables: ClassTables  # of all nodes
    used: ClassTables  # without what was left out
    relevance: Floats
    alignment: Alignment
    component: list[int]  # of every node
    weights: Floats  # nodes x classes
    screened: ScreeningResult
    shared: list[Ints]  # classes that each component gives to all its nodes
    weighting: str
    aggregator: str
    choice: DriftChoice
    rank_loss: float
    quorum: int
    claims: Mapping[str, dict[str, int]]  # readings of each class that nodes say they have learnt
    clusters: Clusters
    condensed: Sequence[Mapping[int, Condensed]]  # of each model, by class
    metrics: Callable[[], MetricResiduals]


def build_report(run: FusionRecord) -> FusionReport:
    """Build the report of a run, with its warnings."""
    tables, used, alignment, relevance = run.tables, run.used, run.alignment, run.relevance
    features, labels = run.axes.display_names
    neutral = Alignment(np.ones_like(alignment.gain), np.zeros_like(alignment.shift))
    far = _residuals(tables, run, alignment)
    raw = _residuals(used, run, neutral)
    sizes, metrics = _sizes(tables, alignment, relevance), run.metrics()
    nodes = {}
    for i, name in enumerate(tables.nodes):
        held, claimed = tables.held[i], run.claims[name]
        gained = [labels[k] for k in run.shared[run.component[i]] if not held[k]]
        nodes[name] = NodeReport(
            node=name,
            samples=int(tables.samples[i].sum()) or sum(claimed.values()),
            counts={labels[k]: int(tables.samples[i, k]) for k in np.flatnonzero(held)} or claimed,
            component=run.component[i],
            shift=dict(zip(features, alignment.shift[i].tolist(), strict=True)),
            gain=dict(zip(features, alignment.gain[i].tolist(), strict=True)),
            drift=float(sizes[i]),
            residual=_rms(far[i][held]),
            weights={labels[k]: float(run.weights[i, k]) for k in np.flatnonzero(held)}
            or dict.fromkeys(claimed, 0.0),
            gained=tuple(gained),
            clipped=tuple(run.screened.clipped.get(i, [])),
            left_out=run.screened.left_out.get(i),
            metric_residual=metrics.nodes.get(i),
        )
    many = used.held & (used.held.sum(axis=0) > 1)
    alone = [labels[k] for k in np.flatnonzero(tables.held.sum(axis=0) < QUORUM)]
    report = FusionReport(
        nodes=nodes,
        components=_members(tables.nodes, run.component),
        edges=_edges(used, alignment, relevance, labels, run.clusters.number),
        labels=tuple(labels),
        features=tuple(features),
        weighting=run.weighting,
        aggregator=run.aggregator,
        drift=run.choice.drift,
        why=run.choice.why,
        trials=run.choice.losses,
        raw_residual=_rms(raw[many]),
        cycle_residual=_rms(far[many]) if _has_cycle(used) else None,
        rank_loss=run.rank_loss,
        unprotected=tuple(alone),
        warnings=(),
        clusters=_clusters(run, labels),
        condensed=_condensed(run, labels),
        budgets=_budgets(run, labels),
        metric_residual=metrics.fleet,
    )
    return msgspec.structs.replace(report, warnings=(*_warnings(report), *_withheld(run, labels)))


def _residuals(tables: ClassTables, run: FusionRecord, alignment: Alignment) -> Floats:
    """Return how far class means are from those of the same cluster, in deviations."""
    found = np.zeros(tables.samples.shape)
    for k in range(run.clusters.count):
        inside = run.clusters.number == k
        centre = class_centres(run.used.only(inside[:, None]), alignment)
        found[inside] = class_distances(tables, alignment, run.relevance, centre)[inside]
    return found


def _clusters(run: FusionRecord, labels: list[str]) -> tuple[ClusterReport, ...]:
    return tuple(
        ClusterReport(
            nodes=tuple(run.tables.nodes[i] for i in np.flatnonzero(run.clusters.number == k)),
            differs=tuple(labels[c] for c in differs),
        )
        for k, differs in enumerate(run.clusters.differs)
    )


def _condensed(run: FusionRecord, labels: list[str]) -> dict[str, int]:
    counts: Counter[int] = Counter()
    for part in run.condensed:
        counts.update({label: each.left_out for label, each in part.items()})
    return {labels[k]: counts[k] for k in sorted(counts)}


def _budgets(run: FusionRecord, labels: list[str]) -> dict[str, int]:
    """Return the largest of all models for each class that was condensed."""
    found: dict[int, int] = {}
    for part in run.condensed:
        for label, each in part.items():
            found[label] = max(each.budget, found.get(label, 0))
    return {labels[k]: found[k] for k in sorted(found)}


def _rms(values: Floats) -> float:
    return float(np.sqrt(np.mean(values**2))) if len(values) else 0.0


def _sizes(tables: ClassTables, alignment: Alignment, relevance: Floats) -> Floats:
    """Return how far the correction moves the class means of each node, in deviations."""
    moved = (tables.mean - alignment.align(tables.mean)) ** 2 / tables.spread
    known = tables.count > 0
    worth = np.where(known, relevance, 0.0)
    total = worth.sum(axis=(1, 2))
    size: Floats = np.sqrt((worth * moved).sum(axis=(1, 2)) / np.where(total > 0, total, 1.0))
    return size


def _has_cycle(tables: ClassTables) -> bool:
    """Return True if there is more to compare than corrections were estimated from."""
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
    tables: ClassTables,
    alignment: Alignment,
    relevance: Floats,
    labels: list[str],
    cluster: Ints,
) -> tuple[Edge, ...]:
    """Return the edges between nodes of the same cluster; others have no common coordinates."""
    strength = np.where(cluster[:, None] == cluster[None, :], evidence(tables.samples), 0.0)
    if len(tables.nodes) <= MAX_GRAPH_NODES:
        pairs = [(int(i), int(j)) for i, j in np.argwhere(np.triu(strength) > 0)]
    else:
        pairs = [(min(pair), max(pair)) for pair in spanning_tree(strength)]
    aligned = alignment.align(tables.mean)
    edges = []
    for i, j in pairs:
        names = tuple(labels[k] for k in np.flatnonzero(tables.held[i] & tables.held[j]))
        worth = np.where((tables.count[i] > 0) & (tables.count[j] > 0), relevance, 0.0)
        apart = (worth * (aligned[i] - aligned[j]) ** 2 / tables.spread).sum()
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
        words += [f"node {node.node!r}: {each}" for each in node.clipped if each.excluded]
        if not node.samples:
            words.append(f"node {node.node!r} has learnt nothing: its sensors may differ")
    if len(found.clusters) > 1:
        words.append(
            f"{cluster_words(found)}: each of these {len(found.clusters)} clusters was fused by "
            "itself"
        )
    groups = [group for group in found.components if len(group) > 0]
    if len(groups) > max(1, len(found.clusters)):
        names = "; ".join(", ".join(group[:5]) for group in groups[:5])
        words.append(
            f"the nodes fall into {len(groups)} groups that share no class ({names}): how the "
            "sensors of different groups differ cannot be known, so each group was fused by "
            "itself; if they do not differ, drift='none' fuses all"
        )
    words += _explained(found)
    if found.metric_residual is not None and found.metric_residual > LARGE_METRIC_RESIDUAL:
        words.append(
            f"metrics of different nodes have little in common ({metrics_words(found)}): one model "
            "may suit none of them; pools with their own models find out"
        )
    if found.rank_loss > LARGE_RANK_LOSS:
        words.append(
            f"a fused metric lost {found.rank_loss:.0%} because its rank is limited; rank='full' "
            "keeps all"
        )
    return words


def cluster_words(found: FusionReport) -> str:
    """Say which nodes are alike and what others decide differently; empty if all are alike."""
    if len(found.clusters) < 2:
        return ""
    alike, *others = found.clusters
    different = [f"{_listed(other.nodes)} {_decide(other)}" for other in others]
    return f"{_listed(alike.nodes)} are alike; {'; '.join(different)}"


def _decide(cluster: ClusterReport) -> str:
    if not cluster.differs:
        return "decide classes differently"
    kind = "class" if len(cluster.differs) == 1 else "classes"
    return f"decide the {kind} {_listed(cluster.differs)} differently"


def _listed(names: tuple[str, ...]) -> str:
    if len(names) > MAX_LISTED_NAMES:
        return f"{', '.join(names[:MAX_LISTED_NAMES])} and {len(names) - MAX_LISTED_NAMES} more"
    return " and ".join([part for part in (", ".join(names[:-1]), names[-1]) if part])


def _explained(found: FusionReport) -> list[str]:
    residual = found.cycle_residual
    correction = get_correction(found.drift)
    if correction.one_frame:
        if found.raw_residual > LARGE_RESIDUAL:
            return [
                f"class means of different nodes are {found.raw_residual:.1f} deviations apart, "
                "and nothing was corrected: the sensors may measure different things"
            ]
        return []
    if residual is not None and residual > max(
        MIN_UNEXPLAINED, UNEXPLAINED_SHARE * found.raw_residual
    ):
        return [
            f"{correction.corrects} of sensors do not explain how the nodes differ: class means "
            f"are {found.raw_residual:.2f} deviations apart before and {residual:.2f} after the "
            "correction"
        ]
    return []


def _withheld(run: FusionRecord, labels: list[str]) -> list[str]:
    """Name the classes that others were not given because too few nodes have them."""
    inside = np.array(run.component)
    words = []
    for part, given in enumerate(run.shared):
        holders = run.used.held[inside == part].sum(axis=0)
        lacking = (inside == part).sum() > holders
        withheld = (holders > 0) & lacking
        withheld[given] = False
        for count in np.unique(holders[withheld]).tolist():
            names = [labels[k] for k in np.flatnonzero(withheld & (holders == count))]
            words.append(_too_few(names, count, run.aggregator, run.quorum))
    return words


def _too_few(names: list[str], count: int, aggregator: str, quorum: int) -> str:
    robust = get_aggregator(aggregator).robust
    have = "1 node has" if count == 1 else f"{count} nodes have"
    need = f"aggregator {aggregator} needs {quorum}" if robust else f"the quorum is {quorum}"
    it, was = ("it", "it was") if len(names) == 1 else ("them", "they were")
    which = ", ".join(map(repr, names))
    return f"{which}: only {have} {it} and {need}; {was} not given to the others"


# --- as text -------------------------------------------------------------------------------------


def report_text(report: FusionReport) -> str:
    """Return the whole report, for a terminal."""
    lines = [*aligned(node_rows(report)), COLUMNS_NOTE, "", entry("correction", report.why)]
    if report.trials:
        tried = ", ".join(f"{name} {amount(loss)}" for name, loss in report.trials.items())
        lines.append(entry("log loss", tried))
    if report.condensed:
        lines.append(entry("condensed", condensed_note(report)))
    if report.metric_residual is not None:
        lines.append(entry("metrics", metrics_words(report)))
    alone = unprotected_note(report)
    lines += [entry("note", text) for text in (*node_notes(report), *([alone] if alone else []))]
    lines += [entry("warning", text) for text in report.warnings]
    return "\n".join(lines)


def metrics_words(report: FusionReport) -> str:
    """Say how far the metrics of nodes are apart; there must be metrics."""
    known = {name: node.metric_residual or 0.0 for name, node in report.nodes.items()}
    worst = max(known, key=lambda name: known[name])
    total = amount(report.metric_residual or 0.0)
    return f"{total} apart (0: alike, 1: nothing in common), {worst} {amount(known[worst])}"


def pools_text(pools: Mapping[str, PoolReport]) -> str:
    """Return a table of the weights in the pools of nodes, for a terminal.

    Examples
    --------

    >>> from streamlvq.models.pool import PoolReport
    >>> pool = PoolReport("a", 42, {"fused none": 0.5, "local": 0.25, "unseen": 0.75},
    ...     ("ensemble none",), {"local": 0.531, "pool": 0.128})
    >>> print(pools_text({"a": pool}))
    weight of          a
    fused none      0.50
    local           0.25
    unseen          0.75
    loss alone     0.531
    loss in pool   0.128
    readings          42
    (local: the node's own model; the others are of the fleet; loss: log loss per reading)
    dropped      a: ensemble none

    """
    lines = [*aligned(pool_rows(pools)), POOLS_NOTE]
    for name, pool in pools.items():
        if pool.left_out:
            lines.append(entry("left out", f"{name}: its own model decides alone"))
        if pool.dropped:
            lines.append(entry("dropped", f"{name}: {', '.join(pool.dropped)}"))
    return "\n".join(lines)


def pool_rows(pools: Mapping[str, PoolReport]) -> list[list[str]]:
    """Return a row for each candidate and one for each loss, with a column for each node."""
    kept = pool_candidates(pools)
    rows = [["weight of", *pools]]
    for name in (*kept, LOCAL, UNSEEN):
        weights = [pool.weights.get(name) for pool in pools.values()]
        rows.append([name, *("-" if each is None else f"{each:.2f}" for each in weights)])
    for name, shown in (("local", "loss alone"), ("pool", "loss in pool")):
        losses = [pool.losses.get(name) for pool in pools.values()]
        rows.append([shown, *("-" if each is None else f"{each:.3f}" for each in losses)])
    return [*rows, ["readings", *(str(pool.records) for pool in pools.values())]]


def pool_candidates(pools: Mapping[str, PoolReport]) -> list[str]:
    """Return the candidates that any node keeps, sorted by kind and correction."""
    return sorted({name for pool in pools.values() for name in pool.weights} - {LOCAL, UNSEEN})


def node_rows(report: FusionReport) -> list[list[str]]:
    """Return a row for each node, after one with the names of the columns.

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
    """Return the share of each node in all classes together."""
    own = {name: sum(node.weights.values()) for name, node in report.nodes.items()}
    total = sum(own.values())
    return {name: weight / total if total > 0 else 0.0 for name, weight in own.items()}


def remarks(node: NodeReport) -> str:
    """Return what was done to a node, for a narrow column."""
    if node.left_out is not None:
        return "left out"
    return "clipped" if node.clipped else "-"


def node_notes(report: FusionReport) -> list[str]:
    """Return what of nodes was cut, as far as it is not among the warnings."""
    return [
        f"node {node.node!r}: {clipping}"
        for node in report.nodes.values()
        for clipping in node.clipped
        if not clipping.excluded
    ]


def condensed_note(report: FusionReport) -> str:
    """Say how many prototypes were left out because of a budget."""
    counts = ", ".join(f"{count} of {label!r}" for label, count in report.condensed.items())
    total, most = sum(report.condensed.values()), max(report.budgets.values())
    which = "1 prototype was" if total == 1 else f"{total} prototypes were"
    return f"{which} left out so that no class has more than {most}: {counts}"


def unprotected_note(report: FusionReport) -> str:
    """Return a note on classes that too few nodes have; empty if there are none."""
    if not report.unprotected:
        return ""
    which = ", ".join(report.unprotected)
    claims = "".join(f"; only {node!r} claims {label}" for label, node in _lone_claims(report))
    return f"too few nodes to tell a mistake from the truth about {which}{claims}"


def _lone_claims(report: FusionReport) -> list[tuple[str, str]]:
    """Return classes that a single node has, and which node that is."""
    counted = [node for node in report.nodes.values() if node.left_out is None]
    found = []
    for label in report.unprotected if len(counted) > 1 else ():
        holders = [node.node for node in counted if label in node.counts]
        if len(holders) == 1:
            found.append((label, holders[0]))
    return found


def amount(value: float) -> str:
    return f"{value:.2f}" if math.isfinite(value) else "-"


def share(value: float) -> str:
    return f"{100 * value:.1f} %"
