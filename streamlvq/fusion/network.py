"""A model of its own for each node of a fleet, drawn towards those of the nodes that are alike.

Fusion gives all nodes of a component the same model. Here each has its own: prototypes and metrics
minimise a generalised total variation (`streamlvq.fusion.variation`) over the similarity graph
(`streamlvq.fusion.graph`), with one coupling for prototypes and one for metrics. A pure function of
the set of snapshots, as fusion is.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from streamlvq.arrays import Bools, Floats, Ints
from streamlvq.fusion.aggregators import Mean, weighted_mean
from streamlvq.fusion.class_tables import (
    PROTOTYPE_ARRAYS,
    Alignment,
    ClassStatistics,
    Pool,
    class_statistics,
)
from streamlvq.fusion.combine import (
    CombinedModel,
    FusedMetric,
    MetricPool,
    PrototypeSlots,
    VotingWeights,
    combined_calibration,
    prototype_slots,
)
from streamlvq.fusion.fuse import AUTO, FusionRun, Votes, fusion_run
from streamlvq.fusion.fused import Component, Fused, NodePlacement, own_snapshot
from streamlvq.fusion.graph import NEIGHBOURS, SimilarityGraph, similarity_graph
from streamlvq.fusion.node_models import FusionError, ModelLayout
from streamlvq.fusion.report import FusionReport
from streamlvq.fusion.screening import ScreeningResult
from streamlvq.fusion.variation import NetworkValues, influence, total_variation
from streamlvq.models.vectorizer import to_rows
from streamlvq.snapshot import Snapshot

STRENGTHS = (0.0, 0.25, 1.0, 4.0, 16.0, math.inf)  # that strength="auto" chooses from
STRENGTH, METRIC_STRENGTH = 0.25, 1.0  # about the best on most fleets that were tried
LEAST_TRUE_PROBABILITY = 1e-3  # of the right class, as losses count it

NetworkLoss = Callable[["NetworkModels"], float]


def network_models(
    snapshots: Iterable[Snapshot],
    *,
    strength: float | Literal["auto"] = STRENGTH,
    metric_strength: float | Literal["auto"] = METRIC_STRENGTH,
    loss: NetworkLoss | None = None,
    neighbours: int = NEIGHBOURS,
    weighting: Literal["samples", "uniform"] = "samples",
    drift: str = AUTO,
    rank: Literal["keep", "full"] | int = "keep",
    screen: bool = True,
    byzantine: int | Literal["auto"] | None = "auto",
    quorum: int | None = None,
) -> NetworkModels:
    """Return a model for each node that is drawn towards those of the nodes that are alike.

    Parameters
    ----------
    snapshots
        As `fuse` takes them; so are `weighting`, `drift`, `rank`, `screen`, `byzantine` and
        `quorum`.
    strength
        How strongly prototypes are drawn to those of neighbours, in mean counts of readings over
        the mean weight of a node's edges: 0 leaves each where it is, with infinity all that are
        connected share theirs. "auto" takes the one of `STRENGTHS` with the least `loss`.
    metric_strength
        The same for metrics. Infinite, with a small `strength`, is partial sharing: one metric, and
        prototypes of one's own.
    loss
        Of models that are tried; see `labelled_loss`. What it is measured on must not have been
        learnt yet.
    neighbours
        Of a node in the similarity graph.

    Examples
    --------

    >>> from streamlvq import GLVQ, Snapshot
    >>> from streamlvq.fusion.network import network_models

    >>> nodes = []
    >>> for name, egg in {"a": 7.0, "b": 7.0, "c": 9.0, "d": 9.0}.items():
    ...     model = GLVQ()
    ...     for k in range(20):
    ...         for y, x in {"ham": 1.0, "spam": 4.0, "egg": egg}.items():
    ...             model.learn_one({"x": x + k % 5 / 10}, y)
    ...     nodes.append(Snapshot.of(model, name))
    >>> shared = network_models(nodes, strength=16.0, drift="none")
    >>> own = network_models(nodes, strength=0.25, drift="none")
    >>> [round(models.snapshot("a").means["egg"]["x"], 1) for models in (own, shared)]
    [7.2, 7.7]

    """
    run = fusion_run(
        snapshots,
        weighting=weighting,
        drift=drift,
        rank=rank,
        screen=screen,
        byzantine=byzantine,
        quorum=quorum,
    )
    network = FusionNetwork.of(run, neighbours=neighbours)
    if AUTO in (strength, metric_strength):
        if loss is None:
            raise FusionError('strength="auto": expected a loss of models to choose by, got none')
        return network.choose(loss, strength=strength, metric_strength=metric_strength)
    return network.solve(float(strength), float(metric_strength))


def labelled_loss(
    readings: Mapping[str, tuple[Any, Any]], features: list[Any] | None = None
) -> NetworkLoss:
    """Return a loss of models by labelled readings that no node has learnt yet.

    It is the mean log loss of each node on its own readings, averaged over nodes.

    Parameters
    ----------
    readings
        For each node, readings (dictionaries, a DataFrame, or an array) and their labels. Nodes
        may be missing.
    features
        The names of an array's columns.

    """

    def loss(models: NetworkModels) -> float:
        each = [
            _log_loss(models.for_node(name), X, y, features)
            for name, (X, y) in sorted(readings.items())
            if len(y) > 0
        ]
        return float(np.mean(each)) if each else math.inf

    return loss


def _log_loss(model: Any, X: Any, y: Any, features: list[Any] | None) -> float:
    rows, names = to_rows(X, features)
    probabilities = model.predict_proba_array(rows, names)
    code = {label: k for k, label in enumerate(model.classes)}
    right = [
        row[code[label]] if label in code else 0.0
        for row, label in zip(probabilities, list(y), strict=True)
    ]
    return float(-np.log(np.maximum(right, LEAST_TRUE_PROBABILITY)).mean())


@dataclass(frozen=True)
class _Edges:
    """Edges between the nodes of a component, and who contradicts the others."""

    inside: Ints  # the nodes
    weights: Floats  # inside x inside
    left_out: Bools  # nodes of which nothing is believed
    doubted: Bools  # classes of nodes that contradict those of the others (inside x classes)

    def of_classes(self, classes: list[int], wild: Bools) -> Floats:
        """Return the edges along which a slot of these classes is compared.

        What contradicts the others, and a wild prototype, keeps to itself, and to others of that
        kind: there it may have friends.
        """
        side = np.asarray(self.doubted[:, classes].any(axis=1)) | wild
        return np.where(side[:, None] == side[None, :], self.weights, 0.0)

    def of_nodes(self) -> Floats:
        """Return the edges along which what is not about a class is compared."""
        side = self.left_out
        return np.where(side[:, None] == side[None, :], self.weights, 0.0)


@dataclass(frozen=True)
class _Member:
    """Prototypes and metrics of one member of all nodes of a component, ready to be solved."""

    pool: Pool
    layout: ModelLayout
    voting: VotingWeights
    scales: dict[str, Floats]
    slots: PrototypeSlots
    wild: Bools  # prototypes that fusion leaves out
    metrics: MetricPool
    edges: _Edges

    @property
    def inside(self) -> Ints:
        return self.edges.inside

    @property
    def paired(self) -> bool:
        return bool((self.pool.against >= 0).any())

    @property
    def single_metric(self) -> bool:
        """Whether all prototypes of a node measure with the same metric."""
        return not (self.layout.local or self.paired)

    def counts(self, group: Ints) -> Floats:
        """Return the count of each node in a slot; 0 for those without such a prototype."""
        counts = np.zeros(len(self.voting.nodes))
        counts[self.pool.node[group]] = self.slots.weights[group]
        inside: Floats = counts[self.inside]
        return inside

    def places(self, group: Ints) -> Floats:
        """Return the prototype of each node in a slot, in deviations; NaN if it has none."""
        places = np.full((len(self.voting.nodes), self.slots.w.shape[1]), np.nan)
        places[self.pool.node[group]] = self.slots.w[group] / self.unit(group)
        inside: Floats = places[self.inside]
        return inside

    def unit(self, group: Ints) -> Floats:
        unit: Floats = np.sqrt(self.voting.spread[self.pool.label[group[0]]])
        return unit

    def weights(self, group: Ints) -> Floats:
        """Return the edges along which a slot is compared."""
        kinds = self.pool.label[group[0]], self.pool.against[group[0]]
        wild = np.zeros(len(self.voting.nodes), bool)
        wild[self.pool.node[group]] = self.wild[group]
        return self.edges.of_classes([int(k) for k in kinds if k >= 0], wild[self.inside])

    def solve(self, strength: float, metric_strength: float) -> _Solution:
        """Solve for all prototypes and metrics."""
        groups = self.slots.groups
        degree = float(self.edges.weights.sum(axis=1).mean())
        counts = [self.counts(group) for group in groups]
        coupling = _coupling(strength, counts, degree)
        places = [
            total_variation(self.places(group), count, self.weights(group), coupling)
            for group, count in zip(groups, counts, strict=True)
        ]
        heard = self.voting.nodes[self.inside]
        nodes = self.edges.of_nodes()
        overall = influence(heard, nodes, _coupling(metric_strength, [heard], degree))
        if self.single_metric or not self.pool.omega:
            return _Solution(self, places, [], overall)
        step = 2 if self.paired else 1
        coupling = _coupling(metric_strength, counts[::step], degree)
        metrics = [
            influence(count, self.weights(group), coupling)
            for group, count in zip(groups[::step], counts[::step], strict=True)
        ]
        return _Solution(self, places, metrics, overall)


def _usual_trace(metrics: MetricPool) -> Floats:
    """Return the mean trace of the metrics of each metric's node."""
    node = metrics.pool.metric_node
    traces = [
        float(((omega * metrics.ratio[i]) ** 2).sum())
        for i, omega in zip(node, metrics.pool.omega, strict=True)
    ]
    if not traces:
        return np.ones(0)
    mean = np.bincount(node, metrics.factor * traces) / np.maximum(np.bincount(node), 1)
    usual: Floats = mean[node]
    return np.where(usual > 0, usual, 1.0)


def _coupling(strength: float, counts: list[Floats], degree: float) -> float:
    """Return a strength in units of the counts of nodes."""
    known = np.concatenate([count[count > 0] for count in counts]) if counts else np.zeros(0)
    if strength == 0 or degree <= 0 or len(known) == 0:
        return 0.0
    return strength * float(known.mean()) / degree


@dataclass(frozen=True)
class _Solution:
    """Solved prototypes and metrics of one member."""

    member: _Member
    places: list[NetworkValues]  # of each slot
    metrics: list[Floats]  # influence of nodes on each local metric; none if there is one for all
    overall: Floats  # influence of nodes on what is not about a class

    def combined(self, i: int) -> CombinedModel:
        """Return the model of one node (by its place inside) in common coordinates."""
        member, pool = self.member, self.member.pool
        kept = self._kept(i)
        rows = [member.slots.groups[k] for k in kept]
        shares = [self._of_prototypes(k, self.places[k].influence[i]) for k in kept]
        voting = replace(member.voting, nodes=self._nodes(i))
        size = len(kept), member.slots.w.shape[1]
        places = [
            self.places[k].values[i] * member.unit(g) for k, g in zip(kept, rows, strict=True)
        ]
        numbers = [
            _numbers(pool, g, member.slots.weights[g], share)
            for g, share in zip(rows, shares, strict=True)
        ]
        return CombinedModel(
            label=np.array([pool.label[g[0]] for g in rows], np.int64),
            against=np.array([pool.against[g[0]] for g in rows], np.int64),
            w=np.array(places).reshape(size),
            moment=_means(pool.moment, rows, shares),
            numbers={name: np.array([each[name] for each in numbers]) for name in PROTOTYPE_ARRAYS},
            metrics=self._metrics(i, kept),
            scales=member.scales,
            calibration=combined_calibration(pool, voting),
            platt=_means(pool.platt, rows, shares),
        )

    def _kept(self, i: int) -> list[int]:
        """Return the slots that a node has or is given; of pairs both sides or none."""
        kept = [k for k, slot in enumerate(self.places) if np.isfinite(slot.values[i]).any()]
        return [k for k in kept if k ^ 1 in kept] if self.member.paired else kept

    def _of_prototypes(self, k: int, row: Floats) -> Floats:
        """Return the share of every prototype of a slot, from those of nodes inside."""
        shares = np.zeros(len(self.member.voting.nodes))
        shares[self.member.inside] = row
        found: Floats = shares[self.member.pool.node[self.member.slots.groups[k]]]
        return found

    def _nodes(self, i: int) -> Floats:
        """Return the share of all nodes in what is not about a class."""
        nodes = np.zeros(len(self.member.voting.nodes))
        nodes[self.member.inside] = self.overall[i]
        return nodes if nodes.any() else self.member.voting.nodes

    def _metrics(self, i: int, kept: list[int]) -> list[FusedMetric]:
        member = self.member
        if not member.pool.omega:
            return []
        if member.single_metric:
            every = np.arange(len(member.pool.omega))
            share = self._nodes(i)[member.pool.metric_node]
            return [member.metrics.combined(every, share, member.layout.rank)]
        step = 2 if member.paired else 1
        found = []
        for k in kept[::step]:
            share = self._of_prototypes(k, self.metrics[k // step][i])
            if not share.any():  # it takes the metric with the prototype
                share = self._of_prototypes(k, self.places[k].influence[i])
            which = member.pool.metric[member.slots.groups[k]]
            found.append(member.metrics.combined(which, share, member.layout.rank))
        return found

    def class_shares(self, i: int, classes: int) -> Floats:
        """Return the share of each node (all of them) in each class of one node's model."""
        found = np.zeros((len(self.member.voting.nodes), classes))
        for k in self._kept(i):
            group = self.member.slots.groups[k]
            share = float(self.member.slots.weights[group].sum()) * self.places[k].influence[i]
            found[self.member.inside, self.member.pool.label[group[0]]] += share
        total = found.sum(axis=0)
        shares: Floats = found / np.where(total > 0, total, 1.0)
        return shares


def _means(values: Floats, rows: list[Ints], shares: list[Floats]) -> Floats:
    """Return the weighted mean of the rows of each slot."""
    found = [weighted_mean(values[g], s[:, None]) for g, s in zip(rows, shares, strict=True)]
    return np.array(found).reshape(len(rows), values.shape[1])


def _heard(counts: Floats, shares: Floats) -> Floats:
    """Return which part of each count is heard: all of it where a reading has the largest share."""
    each = np.where(counts > 0, shares / np.where(counts > 0, counts, 1.0), 0.0)
    most = each.max(axis=0, initial=0.0)
    heard: Floats = each / np.where(most > 0, most, 1.0)
    return heard


def _numbers(pool: Pool, group: Ints, weights: Floats, shares: Floats) -> dict[str, float]:
    heard = _heard(weights, shares)
    totals = {name: float((heard * pool.numbers[name][group]).sum()) for name in PROTOTYPE_ARRAYS}
    totals["rate"] = float(weighted_mean(pool.numbers["rate"][group], shares))
    return totals


class FusionNetwork:
    """The nodes of a fusion as a network: prepared once, to be solved for any strength.

    Attributes
    ----------
    run
        The fusion whose common coordinates, tables and votes are used.
    graph
        Of the nodes, with edges within clusters and components.
    """

    def __init__(self, run: FusionRun, graph: SimilarityGraph) -> None:
        self.run, self.graph = run, graph

    @classmethod
    def of(cls, run: FusionRun, *, neighbours: int = NEIGHBOURS) -> FusionNetwork:
        """Build the graph from what all nodes say, screened or not."""
        gain = np.array([each.coordinates.gain for each in run.placements.values()])
        group = np.array([each.component for each in run.placements.values()], np.int64)
        graph = similarity_graph(
            run.tables, run.relevance, gain=gain, shifted=not run.frame.correction.one_frame
        )
        return cls(run, graph.within(group).nearest(neighbours))

    @functools.cached_property
    def alignment(self) -> Alignment:
        """Coordinates of all nodes, of those that were left out as well."""
        places = [each.coordinates for each in self.run.placements.values()]
        return Alignment(
            np.array([each.gain for each in places]), np.array([each.shift for each in places])
        )

    @functools.cached_property
    def votes(self) -> list[Votes]:
        """What nodes say of themselves, screened or not, of each component."""
        component = np.array([each.component for each in self.run.placements.values()])
        found = [
            self.run.votes_on(self.run.tables, component == k) for k in range(len(self.run.parts))
        ]
        # Nobody's own prototypes are drawn back: no length pulls others harder for being long.
        return [
            replace(each, voting=replace(each.voting, aggregator=Mean(), screened=None))
            for each in found
        ]

    @functools.cached_property
    def _members(self) -> list[dict[str, _Member]]:
        """Of each component, what there is to solve."""
        component = np.array([each.component for each in self.run.placements.values()])
        return [
            self._of_component(k, np.flatnonzero(component == k))
            for k in range(len(self.run.parts))
        ]

    def _of_component(self, k: int, inside: Ints) -> dict[str, _Member]:
        run, screened = self.run, self.run.frame.screened
        edges = _Edges(
            inside,
            self.graph.weights[np.ix_(inside, inside)],
            np.array([i in screened.left_out for i in inside.tolist()]),
            (run.tables.held & ~screened.keep)[inside],
        )
        found = {}
        for name, pool in run.pools.items():
            voting, layout = self.votes[k].voting, run.layouts[name]
            scales = run.parts[k].models[name].scales
            metrics = MetricPool(pool, self.alignment, scales["inverse"], layout.kind, voting)
            metrics.factor = metrics.factor / _usual_trace(metrics)
            slots = prototype_slots(pool, self.alignment, voting, layout.kind)
            tamed = self._tamed(pool, voting, layout.kind)
            wild = (slots.weights > 0) & (tamed.weights <= 0)
            found[name] = _Member(pool, layout, voting, scales, slots, wild, metrics, edges)
        return found

    def _tamed(self, pool: Pool, voting: VotingWeights, kind: int) -> PrototypeSlots:
        """Return the prototypes as fusion has them; what it clips is in the fusion's report."""
        if not self.run.options.screen:
            return prototype_slots(pool, self.alignment, voting, kind)
        unnoted = ScreeningResult(self.run.frame.screened.keep)
        return prototype_slots(pool, self.alignment, replace(voting, screened=unnoted), kind)

    def solve(
        self,
        strength: float = STRENGTH,
        metric_strength: float = METRIC_STRENGTH,
    ) -> NetworkModels:
        """Solve for one strength of prototypes and one of metrics."""
        for name, value in (("strength", strength), ("metric_strength", metric_strength)):
            if not value >= 0:
                raise FusionError(f"{name}: expected a number of at least 0, got {value!r}")
        solutions = [
            {name: member.solve(strength, metric_strength) for name, member in members.items()}
            for members in self._members
        ]
        return NetworkModels(self, solutions, strength, metric_strength)

    def choose(
        self,
        loss: NetworkLoss,
        *,
        strength: float | Literal["auto"] = "auto",
        metric_strength: float | Literal["auto"] = "auto",
    ) -> NetworkModels:
        """Return the solution with the least loss: first of prototypes, then of metrics.

        What is not "auto" stays as given. Of equally good ones the strongest is taken.
        """
        metric = math.inf if metric_strength == AUTO else float(metric_strength)
        tried = reversed(STRENGTHS) if strength == AUTO else [float(strength)]
        found = [self.solve(each, metric) for each in tried]
        best = min(found, key=loss)
        if metric_strength == AUTO:
            weaker = [self.solve(best.strength, each) for each in reversed(STRENGTHS[:-1])]
            best = min([best, *weaker], key=loss)
        return best


class NetworkModels:
    """A model for each node, in the coordinates of its own sensors.

    Made by `network_models`, or by `FusionNetwork` from a fusion.

    Attributes
    ----------
    network
        What was solved, with its graph.
    strength, metric_strength
        Of the couplings.
    """

    def __init__(
        self,
        network: FusionNetwork,
        solutions: list[dict[str, _Solution]],
        strength: float,
        metric_strength: float,
    ) -> None:
        self.network = network
        self.strength, self.metric_strength = strength, metric_strength
        self._solutions = solutions

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of all nodes that took part."""
        return tuple(self.network.run.placements)

    @functools.cached_property
    def report(self) -> FusionReport:
        """The report of the fusion that shares its coordinates and screening."""
        return self.network.run.run().report

    def for_node(self, name: str) -> Any:
        """Return a new classifier for a node, in the units of its sensors."""
        return self.snapshot(name).classifier()

    def snapshot(self, name: str) -> Snapshot:
        """Return the model of a node as a snapshot, to be kept or sent."""
        run = self.network.run
        if name not in run.placements:
            known = ", ".join(map(repr, list(run.placements)[:9]))
            raise FusionError(f"expected a node that took part ({known}), got {name!r}")
        placement, number = run.placements[name], list(run.placements).index(name)
        if number in run.refused:  # its numbers cannot be: nobody's neighbour
            return own_snapshot(run.given[name])
        component = self._component(name, placement)
        held = run.tables.held[number]
        own = np.flatnonzero(held & (component.statistics.samples > 0))
        placements = {name: replace(placement, component=0, own=own)}
        alone = Fused(
            run.axes,
            run.layouts,
            [component],
            placements,
            run.frame.choice,
            lambda: self.report,
        )
        return alone.snapshot(name)

    def _component(self, name: str, placement: NodePlacement) -> Component:
        run, solution = self.network.run, self._solutions[placement.component]
        part, first = run.parts[placement.component], next(iter(solution.values()))
        i = int(np.searchsorted(first.member.inside, list(run.placements).index(name)))
        statistics = self._statistics(first, self.network.votes[placement.component], i)
        return replace(
            part,
            models={member: each.combined(i) for member, each in solution.items()},
            statistics=statistics,
            shared=part.shared[statistics.samples[part.shared] > 0],
        )

    def _statistics(self, solution: _Solution, votes: Votes, i: int) -> ClassStatistics:
        """Return statistics of classes, of the nodes that prototypes are made of."""
        shares = solution.class_shares(i, votes.counts.shape[1])
        counts = votes.counts * _heard(votes.counts, shares)
        return class_statistics(votes.tables, self.network.alignment, counts, counts, Mean())

    def __repr__(self) -> str:
        return (
            f"NetworkModels({len(self.nodes)} nodes, strength={self.strength:g}, "
            f"metric_strength={self.metric_strength:g})"
        )
