"""Which nodes are alike: a similarity graph, and clusters of nodes that mean the same by a class.

Both come from class statistics alone, before anything is screened: honest nodes that differ from
most others are no liars. Sensors that differ by a shift do not make nodes differ.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from streamlvq.arrays import Bools, Floats, Ints
from streamlvq.fusion.aggregators import assumed_byzantine
from streamlvq.fusion.class_tables import (
    RELIABLE_COUNT,
    ClassTables,
    Pool,
    mean_evidence,
    most_claimed,
)
from streamlvq.fusion.corrections import fit_additive
from streamlvq.fusion.sharing import spanning_tree

NEIGHBOURS = 10  # of a node in the graph
SHRUNK_COUNT = 10.0  # readings of the usual spread that are added to those of each node
MAX_DIVERGENCE = 25.0  # of one feature: it must not hide what all others say
CHUNK_VALUES = 2_000_000  # of pairs x classes x features at a time

MIN_CLUSTER = 2  # nodes: one alone that contradicts the others is screened, not a cluster
MAX_COMPARED_CLASSES = 64  # with each other, to find nodes that give them each other's names
MAX_VOTERS = 200  # nodes that clusters are found from; others join the one that they fit
MIN_AGREEMENT = 0.3  # mean cosine within a cluster, and mean opposition between two
MIN_PAIR_AGREEMENT = 0.7  # of a side of two nodes: chance makes two agree more easily
MIN_NODE_AGREEMENT = 0.05  # of each single node with where it was put
MAX_RELABELLED_SHARE = 0.6  # of squared distances, left when classes change their names
MAX_PAIR_SHARE = 0.1  # if a side has two nodes
CLEAR_SHARE = 0.5  # of the squared distance to another cluster: whoever is closer belongs to it
MAX_DEVIATIONS = 1e6  # of a class mean from the mean of its node: more is cut to it


# --- similarity ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class SimilarityGraph:
    """How far apart nodes are, and how much each of them says about its neighbours.

    Attributes
    ----------
    nodes
        Their names.
    distance
        Mean divergence of the classes that two nodes share; infinite if they share nothing that
        can be compared.
    weights
        Of the edges, from 0 to 1: exp(-distance / median distance).
    """

    nodes: tuple[str, ...]
    distance: Floats
    weights: Floats

    @classmethod
    def of(cls, nodes: Sequence[str], distance: Floats) -> SimilarityGraph:
        """Weigh the edges of all pairs with a finite distance."""
        pairs = distance[np.triu_indices(len(nodes), 1)]
        known = pairs[np.isfinite(pairs)]
        median = float(np.median(known)) if len(known) else 0.0
        near = np.where(np.isfinite(distance), np.maximum(distance, 0.0), 0.0)
        weights = np.exp(-near / median) if median > 0 else np.ones_like(near)
        weights = np.where(np.isfinite(distance), weights, 0.0)
        np.fill_diagonal(weights, 0.0)
        return cls(tuple(nodes), distance, weights)

    def nearest(self, count: int = NEIGHBOURS) -> SimilarityGraph:
        """Keep the edges to so many neighbours of each node, and what connects all of them.

        An edge stays if either end wants it. Of equally near neighbours the first are taken.
        """
        n = len(self.nodes)
        order = np.argsort(-self.weights, axis=1, kind="stable")[:, :count]
        wanted = np.zeros((n, n), bool)
        np.put_along_axis(wanted, order, True, axis=1)
        for a, b in spanning_tree(self.weights):
            wanted[a, b] = True
        return replace(self, weights=np.where(wanted | wanted.T, self.weights, 0.0))

    def within(self, group: Ints) -> SimilarityGraph:
        """Keep the edges between nodes of the same group (one number for each node).

        Weights compare distances with those within groups.
        """
        same = group[:, None] == group[None, :]
        return SimilarityGraph.of(self.nodes, np.where(same, self.distance, np.inf))


def similarity_graph(
    tables: ClassTables, relevance: Floats, *, gain: Floats | None = None, shifted: bool = True
) -> SimilarityGraph:
    """Compare the class distributions of every two nodes.

    The distance is the symmetrised divergence of two normal distributions with diagonal
    covariances, averaged over features as far as they count and over shared classes, less what
    chance would make of it.

    Parameters
    ----------
    tables
        Of all nodes: nothing has been screened yet.
    relevance
        How much each feature counts; adds up to one.
    gain
        Of each node and feature, if sensors differ by gains.
    shifted
        Whether sensors differ by shifts. A class is then compared after the shift that the other
        classes of the same two nodes show; with a single shared class nothing is known.

    """
    count, spread = tables.count, tables.spread
    unit = np.ones(count[:, 0].shape) if gain is None else gain
    mean = tables.mean / unit[:, None, :]
    weight = np.minimum(count, RELIABLE_COUNT)
    own = tables.variance / unit[:, None, :] ** 2
    variance = (weight * own + SHRUNK_COUNT * spread) / (weight + SHRUNK_COUNT)
    compare = functools.partial(_divergence, mean, variance, count, spread, relevance, shifted)
    first, second = np.triu_indices(len(count), 1)
    step = max(1, CHUNK_VALUES // max(1, spread.size))
    found = [compare(first[k : k + step], second[k : k + step]) for k in range(0, len(first), step)]
    distance = np.full((len(count), len(count)), np.inf)
    distance[first, second] = np.concatenate(found) if found else 0.0
    distance = np.minimum(distance, distance.T)
    np.fill_diagonal(distance, 0.0)
    return SimilarityGraph.of(tables.nodes, distance)


def _divergence(
    mean: Floats,
    variance: Floats,
    count: Floats,
    spread: Floats,
    relevance: Floats,
    shifted: bool,
    i: Ints,
    j: Ints,
) -> Floats:
    """Return the mean divergence of pairs of nodes; infinite where nothing can be compared."""
    both = (count[i] > 0) & (count[j] > 0)
    noise = np.where(
        both, 1.0 / np.where(both, count[i], 1.0) + 1.0 / np.where(both, count[j], 1.0), 0.0
    )
    apart = np.where(both, mean[i] - mean[j], 0.0)
    usable = both
    if shifted:
        apart, error, usable = _without_shift(apart, noise, both, spread)
        noise = noise + 0.5 * error
    ratio = variance[i] / variance[j]
    each = 0.25 * (ratio + 1.0 / ratio - 2.0 + apart**2 * (1.0 / variance[i] + 1.0 / variance[j]))
    each = np.minimum(np.nan_to_num(each, nan=MAX_DIVERGENCE), MAX_DIVERGENCE) - noise
    each = np.where(usable, each, 0.0)
    worth = np.where(usable, relevance, 0.0).sum(axis=2)
    known = worth > 0
    classes = (each @ relevance) / np.where(known, worth, 1.0)
    shared = known.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(shared > 0, np.where(known, classes, 0.0).sum(axis=1) / shared, np.inf)


def _without_shift(
    apart: Floats, noise: Floats, both: Bools, spread: Floats
) -> tuple[Floats, Floats, Bools]:
    """Take away the shift that the other shared classes show.

    Return what is left, its error in variances within the class, and where there were others.
    """
    worth = np.where(both, 1.0 / (np.where(both, noise, 1.0) + 2.0 / RELIABLE_COUNT), 0.0) / spread
    total = worth.sum(axis=1, keepdims=True) - worth
    usable = both & (both.sum(axis=1, keepdims=True) > 1)
    safe = np.where(usable & (total > 0), total, 1.0)
    shift = ((worth * apart).sum(axis=1, keepdims=True) - worth * apart) / safe
    return apart - shift, np.where(usable, 1.0 / (safe * spread), 0.0), usable


# --- clusters ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Clusters:
    """Nodes that mean the same by their classes.

    Attributes
    ----------
    number
        The cluster of each node; the largest is 0.
    differs
        For each cluster, the classes (by their place) that it decides differently from the
        largest; none for that one.
    """

    number: Ints
    differs: tuple[Ints, ...]

    @property
    def count(self) -> int:
        return len(self.differs)


def find_clusters(pool: Pool, tables: ClassTables, *, diagonal: bool = False) -> Clusters:
    """Group the nodes that mean the same by their classes; all are one group if that is unsure.

    Two nodes oppose each other if what leads from one class to another at one of them leads the
    other way round at the other. This asks for no common coordinates: a shift is no difference.
    Nodes are only taken apart where each of two sides agrees within itself and opposes the other,
    and where exchanging the names of classes explains how the sides differ. `diagonal` says that
    metrics are relevances.
    """
    places = _ClassPlaces.of(tables, class_metrics(pool, tables, diagonal=diagonal))
    everybody = np.arange(len(tables.nodes))
    voters = everybody
    if len(everybody) > MAX_VOTERS:
        voters = np.unique(np.linspace(0, len(everybody) - 1, MAX_VOTERS).round().astype(np.int64))
    groups, waiting = [], [voters]
    while waiting:
        group = waiting.pop()
        sides = _two_sides(places, group)
        if sides is None:
            groups.append(group)
        else:
            waiting += sides
    groups.sort(key=lambda group: (-len(group), group[0]))
    if len(groups) == 1:
        return Clusters(np.zeros(len(everybody), np.int64), (np.zeros(0, np.int64),))
    number = np.zeros(len(everybody), np.int64)
    for k, group in enumerate(groups):
        number[group] = k
    rest = np.setdiff1d(everybody, voters)
    centres = [places.centre(group) for group in groups]
    metric = places.metrics.mean(axis=0)
    differs = [places.renamed(centres[0], centre, metric)[0] for centre in centres]
    number[rest] = [places.closest(i, centres, np.concatenate(differs)) for i in rest]
    return Clusters(number, tuple(differs))


def class_metrics(pool: Pool, tables: ClassTables, *, diagonal: bool = False) -> Floats:
    """Return the mean metric of all nodes for each class, in units of the usual deviations.

    A single one if it is common to all classes (first axis). Each node has the same say: its
    metric has trace one before it counts.
    """
    unit = np.sqrt(np.median(tables.spread, axis=0))
    scale = pool.scales["inverse"] * unit
    if diagonal or not pool.omega:
        return np.diag(_average_relevance(pool, scale))[None]
    local = len(pool.omega) > len(np.unique(pool.metric_node))
    total = np.zeros((tables.samples.shape[1] if local else 1, len(unit), len(unit)))
    for k in range(len(total)):
        used = (
            np.unique(pool.metric[(pool.label == k) & (pool.metric >= 0)]) if local else slice(None)
        )
        used = np.arange(len(pool.omega))[used]
        for i in np.unique(pool.metric_node[used]).tolist():
            rows = np.concatenate([pool.omega[m] for m in used[pool.metric_node[used] == i]])
            rows = _bounded_rows(rows * scale[i])
            total[k] += rows.T @ rows
    return np.array([_with_trace_one(each) for each in total])


def _average_relevance(pool: Pool, scale: Floats) -> Floats:
    total = np.zeros(scale.shape[1])
    for i in range(len(scale)):
        own = [pool.omega[m][0] for m in np.flatnonzero(pool.metric_node == i)]
        rows = _bounded_rows(np.array(own) * scale[i] if own else scale[i : i + 1])
        total += (rows**2).sum(axis=0)
    return np.diag(_with_trace_one(np.diag(total)))


def _bounded_rows(rows: Floats) -> Floats:
    """Return rows whose squares add up to one: those of what is claimed might have no end."""
    largest = float(np.abs(rows).max(initial=0.0))
    if not largest > 0:
        return np.zeros_like(rows)
    rows = rows / largest
    bounded: Floats = rows / np.sqrt((rows**2).sum())
    return bounded


def _with_trace_one(matrix: Floats) -> Floats:
    trace = float(np.trace(matrix))
    return matrix / trace if trace > 0 else np.eye(len(matrix)) / len(matrix)


@dataclass(frozen=True)
class _ClassPlaces:
    """Class means of nodes around the mean of each node, in deviations, and metrics."""

    held: Bools
    weight: Floats  # nodes x classes
    mean: Floats  # nodes x classes x features
    metrics: Floats  # of each class, or a single one

    @classmethod
    def of(cls, tables: ClassTables, metrics: Floats) -> _ClassPlaces:
        held = tables.held
        # A feature that a node does not know for all of its classes says nothing about it.
        known = np.asarray(((tables.count > 0) | ~held[:, :, None]).all(axis=1))
        usable = held[:, :, None] & known[:, None, :]
        mean = np.where(usable, tables.mean / np.sqrt(np.median(tables.spread, axis=0)), 0.0)
        middle = mean.sum(axis=1) / np.maximum(held.sum(axis=1), 1)[:, None]
        mean = np.where(usable, mean - middle[:, None, :], 0.0)
        mean = np.clip(mean, -MAX_DEVIATIONS, MAX_DEVIATIONS)
        return cls(held, mean_evidence(tables.samples), mean, metrics)

    def metric(self, *classes: int) -> Floats:
        """Return the mean metric of these classes."""
        single = len(self.metrics) == 1
        mean: Floats = self.metrics[0] if single else self.metrics[list(classes)].mean(axis=0)
        return mean

    def cosines(self, group: Ints, k: int, other: int) -> Floats:
        """Return how alike the ways from one class to another are, of each two nodes."""
        ways = self.mean[group, k] - self.mean[group, other]
        inner = ways @ self.metric(k, other) @ ways.T
        size = np.sqrt(np.maximum(np.diag(inner), 0.0))
        safe = np.where(size > 0, size, 1.0)
        cosine: Floats = np.clip(inner / safe[:, None] / safe, -1.0, 1.0)
        np.fill_diagonal(cosine, 0.0)
        return cosine

    def centre(self, group: Ints) -> Floats:
        """Return where a group of nodes has each class (classes x features); NaN if nowhere."""
        held = self.held[group]
        weights = np.where(held, self.weight[group], 0.0)[:, :, None]
        _, classes = fit_additive(
            self.mean[group], np.broadcast_to(weights, self.mean[group].shape)
        )
        anywhere = np.asarray(held.any(axis=0))
        return np.where(anywhere[:, None], classes, np.nan)

    def renamed(self, ours: Floats, theirs: Floats, metric: Floats) -> tuple[Ints, float]:
        """Return the classes that change places from one centre to another.

        And the share of their squared distance that is left if they change their names.
        """
        from scipy.optimize import linear_sum_assignment  # noqa: PLC0415 - slow to import

        shared = np.flatnonzero(np.isfinite(ours[:, 0]) & np.isfinite(theirs[:, 0]))
        if len(shared) < 2:
            return np.zeros(0, np.int64), 1.0
        a, b = (
            ours[shared] - ours[shared].mean(axis=0),
            theirs[shared] - theirs[shared].mean(axis=0),
        )
        costs = _squares(a[:, None, :] - b[None, :, :], metric)
        _, place = linear_sum_assignment(costs)
        moved = np.flatnonzero(place != np.arange(len(shared)))
        before = float(costs[moved, moved].sum())
        left = float(costs[moved, place[moved]].sum()) / before if before > 0 else 1.0
        return shared[moved], left

    def closest(self, i: int, centres: list[Floats], differ: Ints) -> int:
        """Return the centre that a node fits; the first, unless another one is clearly closer.

        A node without any of the classes in which they differ cannot tell.
        """
        if not self.held[i, differ].any():
            return 0
        errors = [self._misfit(i, centre) for centre in centres]
        best = int(np.argmin(errors))
        return best if errors[best] < CLEAR_SHARE * errors[0] else 0

    def _misfit(self, i: int, centre: Floats) -> float:
        """Return the squared distance of a node's classes from a centre, after a shift."""
        shared = self.held[i] & np.isfinite(centre[:, 0])
        if not shared.any():
            return float("inf")
        apart = self.mean[i, shared] - centre[shared]
        return float(_squares(apart - apart.mean(axis=0), self.metrics.mean(axis=0)).sum())


def _squares(apart: Floats, metric: Floats) -> Floats:
    squares: Floats = ((apart @ metric) * apart).sum(axis=-1)
    return squares


def _two_sides(places: _ClassPlaces, group: Ints) -> list[Ints] | None:
    """Split a group where it is clearest that two sides mean different things; None if nowhere."""
    best: _Split | None = None
    # Each of two sides must hold both classes.
    held = places.held[group]
    enough = np.flatnonzero(held.sum(axis=0) >= 2 * MIN_CLUSTER)
    classes = most_claimed(held, enough, MAX_COMPARED_CLASSES)
    for k, other in itertools.combinations(classes.tolist(), 2):
        voters = group[places.held[group, k] & places.held[group, other]]
        clear, sides = _opposed(places.cosines(voters, k, other))
        if best is None or clear > best.clear:
            best = _explained(places, clear, [voters[side] for side in sides], k, other) or best
    if best is None:
        return None
    rest = np.setdiff1d(group, np.concatenate(best.sides))
    joins = np.array([places.closest(i, best.centres, best.moved) for i in rest], np.int64)
    return [np.sort(np.concatenate([side, rest[joins == k]])) for k, side in enumerate(best.sides)]


@dataclass(frozen=True)
class _Split:
    """Two sides that give classes each other's names."""

    clear: float
    sides: list[Ints]  # nodes
    centres: list[Floats]
    moved: Ints  # classes


def _explained(
    places: _ClassPlaces, clear: float, sides: list[Ints], k: int, other: int
) -> _Split | None:
    """Return the split if exchanging names explains it, those of these two classes among them."""
    if clear <= 0:
        return None
    centres = [places.centre(side) for side in sides]
    moved, left = places.renamed(centres[0], centres[1], places.metric(k, other))
    few = min(map(len, sides)) <= MIN_CLUSTER
    explained = left <= (MAX_PAIR_SHARE if few else MAX_RELABELLED_SHARE)
    fits = explained and {k, other} <= set(moved.tolist())
    return _Split(clear, sides, centres, moved) if fits else None


def _opposed(cosine: Floats) -> tuple[float, list[Bools]]:
    """Return how clearly nodes fall into two opposed sides, 0 if they do not, larger side first.

    A few nodes may be on neither side: they need not tell the truth.
    """
    n = len(cosine)
    nowhere = 0.0, [np.ones(n, bool), np.zeros(n, bool)]
    if n < 2 * MIN_CLUSTER or cosine.sum(axis=1).min() > MIN_AGREEMENT * (n - 1):
        return nowhere  # too few, or all agree
    _, vectors = np.linalg.eigh(cosine)
    side = np.where(vectors[:, -1] >= 0, 1.0, -1.0)
    each = _support(cosine, side)
    for _ in range(assumed_byzantine(n)):
        if each.min() < MIN_NODE_AGREEMENT:
            side[each.argmin()] = 0.0
            each = _support(cosine, side)
    if side.sum() < 0 or (side.sum() == 0 and side[np.flatnonzero(side)[0]] < 0):
        side = -side
    sides = [side > 0, side < 0]
    if sides[1].sum() < MIN_CLUSTER or each.min() < MIN_NODE_AGREEMENT:
        return nowhere
    inside = [
        float(cosine[np.ix_(one, one)].sum()) / (one.sum() * (one.sum() - 1)) for one in sides
    ]
    clear = min(*inside, -float(cosine[np.ix_(*sides)].mean()))
    least = MIN_AGREEMENT if sides[1].sum() > MIN_CLUSTER else MIN_PAIR_AGREEMENT
    return (clear, sides) if clear >= least else nowhere


def _support(cosine: Floats, side: Floats) -> Floats:
    """Return how much the others support where each node was put; infinite for those left out."""
    others = max(int(np.abs(side).sum()) - 1, 1)
    return np.where(side == 0, np.inf, (cosine @ side) * side / others)
