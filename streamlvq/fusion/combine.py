"""One model out of those of many nodes, in common coordinates: prototypes, metrics and scales."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from streamlvq.arrays import Bools, Floats, Ints
from streamlvq.fusion.aggregators import Aggregator, weighted_mean, weighted_median
from streamlvq.fusion.class_tables import PROTOTYPE_ARRAYS, Alignment, Pool
from streamlvq.fusion.condense import AUTO, Condensed, Measure, class_budget, condense
from streamlvq.fusion.node_models import ModelLayout
from streamlvq.fusion.plausibility import (
    ask_holders,
    drop_implausible,
    note,
    prototype_distances,
    without_unsupported,
)
from streamlvq.fusion.screening import QUORUM, Clipping, ScreeningResult
from streamlvq.fusion.triggers import TriggerPlaces, few_holders, hold_back
from streamlvq.kernels import layout as at

LOOSE_RATIO = 3.0  # times as far from its class as prototypes usually are: it is drawn back
WILD_RATIO = 9.0  # it is left out
NEAR_DEVIATIONS = 3.0  # from the class mean: no prototype is called wild for less
NO_COMMON_FEATURE = 1e6  # distance of prototypes that have no feature in common
MATCH_DISTANCE = 0.5  # mean squared deviations within the class: farther is another prototype
CLASS_METRIC_SHARE = 0.5  # of its class, in the metric of prototypes that one node alone has
MAX_TRACE_RATIO = 3.0  # between the trace of a metric and the usual one: beyond it, it is cut
MAX_PEAK_RATIO = 4.0  # a largest deviation beyond this many times the usual one is cut to it
MAX_VARIANCE_RATIO = 9.0  # a variance as well
MAX_APART_RATIO = 4.0  # and a mean that is farther away than nodes or readings usually are
RELATIVE_ROUNDING = 1e-20  # see `kernels.statistics`


@dataclass(frozen=True)
class VotingWeights:
    """How much each node has to say, and what its values are compared with."""

    cells: Floats  # nodes x classes
    nodes: Floats  # of each node, for what is not about a class
    aggregator: Aggregator
    spread: Floats  # classes x features
    centre: Floats  # classes x features
    relevance: Floats  # of features
    screened: ScreeningResult | None  # where to note what was clipped; None: nothing is
    capped: Callable[[Floats], Floats]  # weights as far as they are believed
    labels: list[str]  # names of classes, for what is noted
    by_order: bool = False  # the first prototypes of a class are the same, the second ones ...
    budget: str | int = AUTO  # prototypes of a class


class FusedMetric(NamedTuple):
    """A metric as the rows of a factor, the share of it that these rows lose, and moments."""

    omega: Floats
    loss: float
    columns: Floats
    total: float


class PrivatePrototypes(NamedTuple):
    """Prototypes of one node that no other node believes; only it goes on deciding with them."""

    label: Ints
    w: Floats
    moment: Floats
    numbers: dict[str, Floats]
    metrics: list[FusedMetric]


@dataclass(frozen=True)
class CombinedModel:
    """Prototypes and metrics in common coordinates; metrics in units of `scales["inverse"]`."""

    label: Ints
    against: Ints
    w: Floats
    moment: Floats
    numbers: dict[str, Floats]
    metrics: list[FusedMetric]
    scales: dict[str, Floats]
    calibration: Floats
    platt: Floats
    private: Mapping[int, PrivatePrototypes] = field(default_factory=dict)  # by number of the node
    condensed: Mapping[int, Condensed] = field(default_factory=dict)  # by class

    def for_node(self, number: int) -> CombinedModel:
        """Return the model with what this node alone has."""
        if number not in self.private:
            return self
        own = self.private[number]
        return replace(
            self,
            label=np.concatenate([self.label, own.label]),
            against=np.concatenate([self.against, np.full(len(own.label), -1)]),
            w=np.concatenate([self.w, own.w]),
            moment=np.concatenate([self.moment, own.moment]),
            numbers={
                name: np.concatenate([self.numbers[name], own.numbers[name]])
                for name in self.numbers
            },
            metrics=[*self.metrics, *own.metrics],
            platt=np.concatenate([self.platt, np.zeros((len(own.label), at.PLATT_COUNT))]),
            private={},
        )


def combine(
    pool: Pool, alignment: Alignment, voting: VotingWeights, layout: ModelLayout
) -> CombinedModel:
    """Combine prototypes class by class, and metrics with them."""
    scales = combined_scales(pool, alignment, voting, layout)
    slots = prototype_slots(pool, alignment, voting, layout.kind)
    pooled = MetricPool(pool, alignment, scales["inverse"], layout.kind, voting)
    groups, condensed = _condensed(pool, slots, pooled, scales["inverse"], layout)
    slots = replace(slots, groups=groups)
    made: dict[tuple[int, bool], FusedMetric] = {}
    slots, foreign = _held_back(pool, alignment, voting, slots, pooled, layout, made)
    w, weights, groups = slots.w, slots.weights, slots.groups
    fused = [_fuse_group(pool, w, weights, group, voting) for group in groups]
    size = len(groups), w.shape[1]
    paired = bool((pool.against >= 0).any())
    return CombinedModel(
        label=np.array([pool.label[g[0]] for g in groups], np.int64),
        against=np.array([pool.against[g[0]] for g in groups], np.int64),
        w=np.array([each[0] for each in fused]).reshape(size),
        moment=np.array([each[1] for each in fused]).reshape(size),
        numbers={
            name: np.array([each[2][name] for each in fused], float) for name in PROTOTYPE_ARRAYS
        },
        metrics=_metrics(pool, groups, weights, pooled, layout, foreign, made),
        scales=scales,
        calibration=combined_calibration(pool, voting),
        platt=np.array([weighted_mean(pool.platt[g], weights[g][:, None]) for g in groups]).reshape(
            len(groups), at.PLATT_COUNT
        ),
        private={} if paired else _private(pool, slots, pooled, layout),
        condensed=condensed,
    )


def _condensed(
    pool: Pool, slots: PrototypeSlots, pooled: MetricPool, inverse: Floats, layout: ModelLayout
) -> tuple[list[Ints], dict[int, Condensed]]:
    """Return the groups of prototypes without what exceeds the budget, and how many those are.

    Prototypes of pairs belong to each other, and those of rounds stay the same.
    """
    budget = class_budget(pooled.voting.budget, layout.grown)
    if budget is None or (pool.against >= 0).any() or pooled.voting.by_order:
        return slots.groups, {}
    kept: list[Ints] = []
    condensed: dict[int, Condensed] = {}
    label = np.array([pool.label[group[0]] for group in slots.groups], np.int64)
    for c in np.unique(label).tolist():
        groups = [slots.groups[k] for k in np.flatnonzero(label == c)]
        if len(groups) > budget:
            condensed[c] = Condensed(len(groups) - budget, budget)
            measure = _class_measure(pool, slots, groups, pooled, inverse, layout)
            fused = [_fuse_group(pool, slots.w, slots.weights, g, pooled.voting) for g in groups]
            places = np.array([place for place, _, _ in fused])
            shares = np.array([slots.weights[group].sum() for group in groups])
            groups = [groups[k] for k in condense(places, shares, budget, measure)]
        kept += groups
    return kept, condensed


def _class_measure(
    pool: Pool,
    slots: PrototypeSlots,
    groups: list[Ints],
    pooled: MetricPool,
    inverse: Floats,
    layout: ModelLayout,
) -> Measure:
    """Return how far prototypes of a class are apart in its fused metric."""
    omega = None
    if pool.omega and layout.local:
        rows = np.concatenate(groups)
        omega = pooled.combined(pool.metric[rows], slots.weights[rows], layout.rank).omega
    elif pool.omega:
        omega = pooled.shared(layout.rank).omega

    def measure(places: Floats) -> Floats:
        return prototype_distances(places, places, [omega] * len(places), inverse, layout.kind)

    return measure


def _held_back(
    pool: Pool,
    alignment: Alignment,
    voting: VotingWeights,
    slots: PrototypeSlots,
    pooled: MetricPool,
    layout: ModelLayout,
    made: dict[tuple[int, bool], FusedMetric],
) -> tuple[PrototypeSlots, frozenset[int]]:
    """Hold back prototypes of few nodes that decide where the others know another class.

    Return the slots, and the first prototypes of groups that get the metrics of others. Metrics are
    `made` once.
    """
    few = few_holders(voting.cells > 0)
    some = any(len(group) <= few[pool.label[group[0]]] for group in slots.groups)
    paired = (pool.against >= 0).any()
    if voting.screened is None or voting.by_order or paired or not (layout.local and some):
        return slots, frozenset()

    def fused(groups: list[Ints], foreign: Collection[int]) -> tuple[Floats, list[Floats]]:
        w = np.array([_fuse_group(pool, slots.w, slots.weights, g, voting)[0] for g in groups])
        metrics = _metrics(pool, groups, slots.weights, pooled, layout, foreign, made)
        return w, [metric.omega for metric in metrics]

    places = TriggerPlaces.of(
        pool, alignment, voting.cells > 0, voting.centre, voting.spread, layout.kind
    )
    held = hold_back(pool, slots.groups, few, places, fused, pooled.inverse)
    rows = np.array(sorted(held.noted), np.int64)
    note(pool, rows, "prototype_overreaching", voting.screened, voting.labels)
    return (
        replace(slots, groups=held.groups, unbelieved=[*slots.unbelieved, *held.dropped]),
        frozenset(held.foreign),
    )


def _metrics(
    pool: Pool,
    groups: list[Ints],
    weights: Floats,
    pooled: MetricPool,
    layout: ModelLayout,
    foreign: Collection[int],
    made: dict[tuple[int, bool], FusedMetric],
) -> list[FusedMetric]:
    """Return a metric for each group, for each pair of groups, or one for all."""
    if not pool.omega:
        return []
    if bool((pool.against >= 0).any()):
        return [pooled.combined(pool.metric[g], weights[g], layout.rank) for g in groups[::2]]
    if layout.local:
        keys = [(int(g[0]), int(g[0]) not in foreign) for g in groups]
        for key, g in zip(keys, groups, strict=True):
            if key not in made:
                which = _metrics_of(pool, g, weights, pooled.voting, own=key[1])
                made[key] = pooled.combined(*which, layout.rank)
        return [made[key] for key in keys]
    return [pooled.shared(layout.rank)]


def _private(
    pool: Pool, slots: PrototypeSlots, pooled: MetricPool, layout: ModelLayout
) -> dict[int, PrivatePrototypes]:
    """Return what nobody believes, by the number of the node whose it is.

    Distances in a local metric that was cut, because it is in other units, cannot be compared.
    """
    rows, w = np.array(sorted(slots.unbelieved), np.int64), slots.own_places
    if layout.local and pool.omega:
        rows = rows[pooled.factor[pool.metric[rows]] == 1.0]
    found = {}
    for i in np.unique(pool.node[rows]).tolist():
        own = rows[pool.node[rows] == i]
        found[i] = PrivatePrototypes(
            label=pool.label[own],
            w=w[own],
            moment=pool.moment[own],
            numbers={name: pool.numbers[name][own] for name in PROTOTYPE_ARRAYS},
            metrics=[pooled.combined(pool.metric[[p]], np.ones(1), layout.rank) for p in own]
            if layout.local and pool.omega
            else [],
        )
    return found


@dataclass(frozen=True)
class PrototypeSlots:
    """Prototypes of all nodes in common coordinates, and which of them are the same one."""

    w: Floats
    weights: Floats  # how much each of them counts
    groups: list[Ints]  # rows of the same prototype: at most one of each node
    own_places: Floats  # where nodes themselves have their prototypes
    unbelieved: list[int]  # rows that no other node believes


def prototype_slots(
    pool: Pool, alignment: Alignment, voting: VotingWeights, kind: int
) -> PrototypeSlots:
    """Match prototypes between nodes, and weigh them."""
    own_places = w = (pool.w - alignment.shift[pool.node]) / alignment.gain[pool.node]
    weights = _weights(pool, voting)
    unbelieved: list[int] = []
    if voting.screened is not None:
        w, weights = _tame(pool, w, weights, voting)
        verdict = ask_holders(pool, alignment, own_places, weights, kind)
        unbelieved += drop_implausible(pool, verdict, weights, voting.screened, voting.labels)
    groups = _groups(pool, w, weights, voting)
    if voting.screened is not None and not voting.by_order:
        groups, alone = without_unsupported(pool, groups, verdict, voting.screened, voting.labels)
        unbelieved += alone
    for group in groups:  # pairs of classes, and prototypes that were matched
        weights[group] = voting.capped(weights[group])
    return PrototypeSlots(w, weights, groups, own_places, unbelieved)


def _weights(pool: Pool, voting: VotingWeights) -> Floats:
    """Return the share of every prototype in its node's weight for its class (or pair)."""
    cells = voting.cells[pool.node, pool.label]
    paired = pool.against >= 0
    if paired.any():
        other = voting.cells[pool.node, np.maximum(pool.against, 0)]
        return np.where(paired, np.minimum(cells, other), cells)
    wins = pool.numbers["wins"] + 1.0
    key = pool.node * (pool.label.max(initial=0) + 1) + pool.label
    total = np.bincount(key, wins, minlength=int(key.max(initial=0)) + 1)[key]
    shares: Floats = cells * wins / total
    return shares


def _groups(pool: Pool, w: Floats, weights: Floats, voting: VotingWeights) -> list[Ints]:
    groups: list[Ints] = []
    counted = (weights > 0) & np.isfinite(w).any(axis=1)
    for label, against in _targets(pool, counted):
        rows = np.flatnonzero(counted & (pool.label == label) & (pool.against == against))
        if voting.by_order:
            mine = np.flatnonzero((pool.label == label) & (pool.against == against))
            found = match_by_order(pool.node[mine])
            groups += [kept for group in found if len(kept := mine[group][counted[mine[group]]])]
            continue
        found = match_prototypes(w[rows], pool.node[rows], weights[rows], voting.spread[label])
        groups += [rows[group] for group in found]
    return groups


def _targets(pool: Pool, counted: Bools) -> list[tuple[int, int]]:
    """Return classes, or both sides of every pair one after the other, in the model's order."""
    found = set(zip(pool.label[counted].tolist(), pool.against[counted].tolist(), strict=True))
    return sorted(found, key=lambda kind: (max(kind), min(kind), kind[0]))


def _fuse_group(
    pool: Pool, w: Floats, weights: Floats, group: Ints, voting: VotingWeights
) -> tuple[Floats, Floats, dict[str, float]]:
    unit = np.sqrt(voting.spread[pool.label[group[0]]])
    share = weights[group][:, None]
    place = voting.aggregator.combine(w[group] / unit, share) * unit
    moment = weighted_mean(pool.moment[group], share)
    totals = {name: float(pool.numbers[name][group].sum()) for name in PROTOTYPE_ARRAYS}
    totals["rate"] = float(weighted_mean(pool.numbers["rate"][group], weights[group]))
    return place, moment, totals


def _tame(pool: Pool, w: Floats, weights: Floats, voting: VotingWeights) -> tuple[Floats, Floats]:
    """Draw prototypes back to where those of others are, and leave out what is wild."""
    w, weights = w.copy(), weights.copy()
    apart = w - voting.centre[pool.label]
    known = np.isfinite(apart)
    worth = np.where(known, voting.relevance, 0.0)
    sizes = np.where(known, apart, 0.0) / np.sqrt(voting.spread[pool.label])
    total = worth.sum(axis=1)
    far = np.sqrt((worth * sizes**2).sum(axis=1) / np.where(total > 0, total, 1.0))
    assert voting.screened is not None
    for label in np.unique(pool.label):
        rows = np.flatnonzero((pool.label == label) & (weights > 0))
        if len(np.unique(pool.node[rows])) < QUORUM:
            continue
        usual = np.median(_means_by(pool.node[rows], far[rows]))
        loose, wild = (max(NEAR_DEVIATIONS, times * usual) for times in (LOOSE_RATIO, WILD_RATIO))
        for p in rows[far[rows] > loose].tolist():
            node = int(pool.node[p])
            if far[p] > wild:
                weights[p] = 0.0
                voting.screened.note(node, Clipping("prototype_left_out"))
            else:
                w[p] = voting.centre[label] + (loose / far[p]) * apart[p]
                voting.screened.note(node, Clipping("prototype_drawn_back"))
        _limit_features(pool, w, rows[weights[rows] > 0], voting)
    return w, weights


def _limit_features(pool: Pool, w: Floats, rows: Ints, voting: VotingWeights) -> None:
    """Draw single features of prototypes of one class back to where those of most nodes are.

    Far in one of many features is near on average, and can be all that a back door needs.
    """
    label = pool.label[rows[0]]
    centre, unit = voting.centre[label], np.sqrt(voting.spread[label])
    sizes = np.abs(np.nan_to_num((w[rows] - centre) / unit))
    nodes = np.unique(pool.node[rows])
    largest = np.array([sizes[pool.node[rows] == i].max(axis=0) for i in nodes])
    limit = np.maximum(NEAR_DEVIATIONS, LOOSE_RATIO * np.median(largest, axis=0))
    assert voting.screened is not None
    for p in rows[(sizes > limit).any(axis=1)].tolist():
        w[p] = np.clip(w[p], centre - limit * unit, centre + limit * unit)
        voting.screened.note(int(pool.node[p]), Clipping("prototype_drawn_back"))


def _means_by(node: Ints, values: Floats) -> Floats:
    """Return the mean of each node's values, however many it has."""
    _, place, count = np.unique(node, return_inverse=True, return_counts=True)
    means: Floats = np.bincount(place, values) / count
    return means


def _metrics_of(
    pool: Pool, group: Ints, weights: Floats, voting: VotingWeights, *, own: bool = True
) -> tuple[Ints, Floats]:
    """Return the metrics of a group of prototypes, and their weights.

    If only one node is in the group, those of its class count as well: a node that never saw a
    neighbouring class has metrics that find everything near, and so may one that lies. If the
    `own` ones do not count at all, those of all other nodes of the class do.
    """
    node, label = pool.node[group], pool.label[group[0]]
    rows = np.flatnonzero((pool.label == label) & ~np.isin(pool.node, node) & (weights > 0))
    if voting.screened is None or not len(rows) or (own and (node != node[0]).any()):
        return pool.metric[group], weights[group]
    if not own:
        return pool.metric[rows], weights[rows]
    mine = (1.0 - CLASS_METRIC_SHARE) * weights[group] / weights[group].sum()
    others = CLASS_METRIC_SHARE * weights[rows] / weights[rows].sum()
    return pool.metric[np.concatenate([group, rows])], np.concatenate([mine, others])


def combined_calibration(pool: Pool, voting: VotingWeights) -> Floats:
    share = voting.nodes * (pool.samples > 0)
    if not share.any():
        return np.array([1.0, 0.0])
    logs = np.log(np.maximum(pool.calibration, 1e-300))
    temperature = float(np.exp(voting.aggregator.combine(logs[:, :1], share[:, None])[0]))
    return np.array([temperature, float(weighted_mean(pool.calibration[:, 1], share))])


# --- matching ------------------------------------------------------------------------------------


def match_prototypes(w: Floats, node: Ints, weights: Floats, spread: Floats) -> list[Ints]:
    """Group prototypes of one class so that at most one of each node is in a group.

    `node` says whose prototypes they are, in ascending order. Nodes with more prototypes come
    first. Each one's prototypes are assigned to the groups so far such that the distances add up to
    the least; what is far from its group begins a new one. If no node has more than one, all are
    the same, however far apart. Return the rows of each group.
    """
    rows = np.arange(len(w))
    nodes, first, count = np.unique(node, return_index=True, return_counts=True)
    if len(count) == 0:
        return []
    if count.max() == 1:
        return [rows]
    scaled = w / np.sqrt(spread)
    order = np.lexsort((nodes, -count))  # who has the most begins
    groups: list[list[int]] = []
    centres: list[Floats] = []
    for k in order:
        ours = rows[first[k] : first[k] + count[k]]
        left = _assign(scaled, ours, weights, groups, centres)
        for p in left:
            groups.append([p])
            centres.append(scaled[p])
    return [np.array(sorted(group), np.int64) for group in groups]


def match_by_order(node: Ints) -> list[Ints]:
    """Group the first prototypes of a class of all nodes, the second ones, and so on.

    `node` says whose prototypes they are, in ascending order. Return the rows of each group.
    """
    nodes, first = np.unique(node, return_index=True)
    place = np.arange(len(node)) - first[np.searchsorted(nodes, node)]
    return [np.flatnonzero(place == k) for k in range(int(place.max(initial=-1)) + 1)]


def _assign(
    scaled: Floats, ours: Ints, weights: Floats, groups: list[list[int]], centres: list[Floats]
) -> list[int]:
    """Put what is near enough into the groups; return the others."""
    from scipy.optimize import linear_sum_assignment  # noqa: PLC0415 - slow to import

    if not groups:
        return [int(p) for p in ours]
    apart = scaled[ours][:, None, :] - np.array(centres)[None]
    known = np.isfinite(apart)
    total = known.sum(axis=2)
    distances = np.where(known, apart * apart, 0.0).sum(axis=2) / np.maximum(total, 1)
    distances = np.where(total > 0, distances, NO_COMMON_FEATURE)
    # What is too far costs the same everywhere: it must not push others out of their groups.
    taken, group = linear_sum_assignment(np.minimum(distances, MATCH_DISTANCE))
    left = set(ours.tolist())
    for p, g in zip(ours[taken].tolist(), group.tolist(), strict=True):
        if distances[list(ours).index(p), g] < MATCH_DISTANCE:
            left.discard(p)
            groups[g].append(p)
            share = weights[groups[g]]
            centres[g] = np.average(scaled[groups[g]], axis=0, weights=share)
    return sorted(left)


# --- metrics -------------------------------------------------------------------------------------


class MetricPool:
    """The metrics of all nodes in common coordinates and in units of the common feature scales.

    A factor is not unique, but the matrix is, and the mean of matrices measures the mean of
    distances.
    """

    def __init__(
        self, pool: Pool, alignment: Alignment, inverse: Floats, kind: int, voting: VotingWeights
    ) -> None:
        self.pool, self.kind, self.voting, self.inverse = pool, kind, voting, inverse
        unit = np.where(inverse > 0, 1.0 / np.where(inverse > 0, inverse, 1.0), 0.0)
        self.ratio = pool.scales["inverse"] * alignment.gain * unit
        self.factor = self._factors()

    def _factors(self) -> Floats:
        """Return what metrics are multiplied by: 1, unless the trace is far from the usual one."""
        node = self.pool.metric_node
        traces = np.array(
            [
                float(((omega * self.ratio[i]) ** 2).sum())
                for i, omega in zip(node, self.pool.omega, strict=True)
            ]
        )
        if self.voting.screened is None or len(np.unique(node)) < 3:
            return np.ones(len(traces))
        heard = self.voting.nodes[node] > 0
        if not heard.any():
            return np.ones(len(traces))
        usual = float(np.median(traces[heard]))
        wanted = np.clip(traces, usual / MAX_TRACE_RATIO, usual * MAX_TRACE_RATIO)
        for i in np.unique(node[heard & (traces > wanted)]).tolist():
            self.voting.screened.note(i, Clipping("metric_cut"))
        for i in np.unique(node[heard & (traces < wanted)]).tolist():
            self.voting.screened.note(i, Clipping("metric_raised"))
        factors: Floats = wanted / np.maximum(traces, 1e-300)
        return factors

    def _one(self, m: int) -> Floats:
        omega = self.pool.omega[m] * self.ratio[self.pool.metric_node[m]]
        if self.kind == at.DIAGONAL:
            diagonal: Floats = self.factor[m] * omega[0] ** 2
            return diagonal
        matrix: Floats = self.factor[m] * (omega.T @ omega)
        return matrix

    def combined(self, which: Ints, weights: Floats, rank: int) -> FusedMetric:
        """Combine the metrics with these numbers into one."""
        which, weights = which[weights > 0], weights[weights > 0]
        if self.voting.aggregator.linear and self.kind != at.DIAGONAL:
            matrix = self._mean(which, weights / weights.sum())
        else:
            stack = np.array([self._one(m) for m in which])
            share = weights.reshape(-1, *[1] * (stack.ndim - 1))
            matrix = self.voting.aggregator.combine(stack, share)
        omega, loss = (
            (np.sqrt(matrix)[None], 0.0)
            if self.kind == at.DIAGONAL
            else factor_metric(matrix, rank)
        )
        columns = weighted_mean(
            np.array([self.pool.moments[m][0] for m in which]), weights[:, None]
        )
        total = float(weighted_mean(np.array([self.pool.moments[m][1] for m in which]), weights))
        return FusedMetric(omega, loss, columns, total)

    def shared(self, rank: int) -> FusedMetric:
        """Combine the metrics of all nodes, of which each has one."""
        own = np.arange(len(self.pool.omega))
        return self.combined(own, self.voting.nodes[self.pool.metric_node], rank)

    def _mean(self, which: Ints, share: Floats) -> Floats:
        """Return the mean of matrices by one product of all rows."""
        rows = np.concatenate(
            [
                self.pool.omega[m]
                * self.ratio[self.pool.metric_node[m]]
                * np.sqrt(s * self.factor[m])
                for m, s in zip(which, share, strict=True)
            ]
        )
        product: Floats = rows.T @ rows
        return product


def factor_metric(matrix: Floats, rank: int) -> tuple[Floats, float]:
    """Return rows whose product with themselves is the matrix, or the closest of that rank.

    The principal square root if the rank is full; otherwise the eigenvectors of the largest
    eigenvalues, times their roots. What is negative (medians of matrices can be) counts as zero.
    """
    values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
    values = np.maximum(values, 0.0)
    roots = np.sqrt(values)
    if rank >= len(matrix):
        return (vectors * roots) @ vectors.T, 0.0
    total = values.sum()
    top = slice(len(values) - rank, None)
    rows = (vectors[:, top] * roots[top]).T[::-1]
    # The sign of an eigenvector is anybody's choice: the largest entry is positive.
    signs = np.sign(rows[np.arange(rank), np.abs(rows).argmax(axis=1)])
    rows = np.ascontiguousarray(rows * np.where(signs == 0, 1.0, signs)[:, None])
    return rows, float(1.0 - values[top].sum() / total) if total > 0 else 0.0


# --- scales --------------------------------------------------------------------------------------


def combined_scales(
    pool: Pool, alignment: Alignment, voting: VotingWeights, layout: ModelLayout
) -> dict[str, Floats]:
    """Return mean, variance, largest deviation and weight of every feature over all nodes."""
    gain, shift = alignment.gain, alignment.shift
    known = (pool.scales["weight"] > 0) & (voting.nodes > 0)[:, None]
    share = np.where(known, voting.nodes[:, None], 0.0)
    place = np.where(known, (pool.scales["mean"] - shift) / gain, np.nan)
    inner = np.where(known, pool.scales["variance"] / gain**2, np.nan)
    peaks = np.where(known, pool.scales["peak"] / gain, np.nan)
    if voting.screened is not None:
        place, inner, peaks = _limited(known, place, inner, peaks, voting, voting.screened)
    middle = np.nan_to_num(voting.aggregator.combine(place, share))
    within = np.nan_to_num(voting.aggregator.combine(inner, share))
    between = np.nan_to_num(voting.aggregator.combine((place - middle) ** 2, share))
    scales = {
        "mean": middle,
        "variance": within + between,
        "peak": np.nan_to_num(peaks).max(axis=0, initial=0.0),
        "weight": np.where(known, pool.scales["weight"], 0.0).sum(axis=0),
    }
    if layout.kind == at.EUCLIDEAN:
        scales["peak"] = _euclidean_peaks(scales["peak"], inner, peaks, share, voting, layout)
    # Constant in every node, it has no share in any of their metrics.
    moving = np.where(known, pool.scales["varies"], 0.0).max(axis=0, initial=0.0) > 0
    varies = moving & (_squared_scale(scales, layout) > RELATIVE_ROUNDING * scales["mean"] ** 2)
    scales["varies"] = varies.astype(float)
    scales["inverse"] = _inverse(scales, layout)
    return scales


def _squared_scale(scales: Mapping[str, Floats], layout: ModelLayout) -> Floats:
    squared: Floats = np.maximum(scales["variance"], (_floor(layout) * scales["peak"]) ** 2)
    return squared


def _floor(layout: ModelLayout) -> float:
    return 0.0 if layout.absent == "zero" else layout.floor


def _euclidean_peaks(
    largest: Floats,
    inner: Floats,
    peaks: Floats,
    share: Floats,
    voting: VotingWeights,
    layout: ModelLayout,
) -> Floats:
    """Return deviations with which distances are about the mean of those that nodes measure.

    A learnt metric is converted to the common units; here units are the metric. The largest peak of
    any node would shrink features that have tails.
    """
    floor = _floor(layout)
    if floor <= 0.0:
        return largest
    squared = _squared_scale({"variance": inner, "peak": peaks}, layout)
    worth = 1.0 / np.where(squared > 0.0, squared, np.nan)
    if voting.screened is not None:
        usual = weighted_median(worth, (share > 0).astype(float))
        worth = np.minimum(worth, MAX_VARIANCE_RATIO * usual)
    mean = voting.aggregator.combine(worth, np.where(np.isfinite(worth), share, 0.0))
    return np.where(mean > 0.0, np.minimum(largest, 1.0 / (floor * np.sqrt(mean))), largest)


def _limited(
    known: Bools,
    place: Floats,
    inner: Floats,
    peaks: Floats,
    voting: VotingWeights,
    screened: ScreeningResult,
) -> tuple[Floats, Floats, Floats]:
    """Bound what one node can claim about the scale of a feature that enough nodes know.

    A node may have readings of any class: its mean may be wherever classes are that enough nodes
    have, and a little farther away.
    """
    alike = known.astype(float)
    middle, usual = weighted_median(place, alike), weighted_median(inner, alike)
    sure = (voting.cells > 0).sum(axis=0) >= QUORUM
    many = (known.sum(axis=0) >= QUORUM) & (usual > 0) & sure.any()
    classes = voting.centre[sure] - middle
    classes = np.where(np.isfinite(classes), classes, 0.0)
    low, high = classes.min(axis=0, initial=0.0), classes.max(axis=0, initial=0.0)
    reach = MAX_APART_RATIO * np.maximum(
        np.sqrt(usual), weighted_median(np.abs(place - middle), alike)
    )
    apart = np.clip(place - middle, low - reach, high + reach)
    widest = np.maximum(MAX_VARIANCE_RATIO * usual, usual + 0.25 * (high - low) ** 2)
    new = (
        np.where(many, middle + apart, place),
        np.where(many, np.minimum(inner, widest), inner),
        np.where(many, np.minimum(peaks, MAX_PEAK_RATIO * weighted_median(peaks, alike)), peaks),
    )
    wild = (np.abs(place - middle - apart) > 0) | (inner > new[1]) | (peaks > new[2])
    for i in np.flatnonzero((wild & many).any(axis=1)).tolist():
        screened.note(i, Clipping("scale_cut"))
    return new


def _inverse(scales: dict[str, Floats], layout: ModelLayout) -> Floats:
    """Return inverse scales as in `kernels.statistics`: nothing jumps when the model learns."""
    if not layout.standardize:
        return np.where(scales["weight"] > 0, 1.0, 0.0)
    varies = scales["varies"] > 0
    squared = np.where(varies, _squared_scale(scales, layout), 1.0)
    unit = np.sqrt(squared)
    return np.where(varies, 1.0 / (np.sqrt(unit) if layout.absent == "zero" else unit), 0.0)
