"""Statistics of classes, prototypes and metrics of all nodes on common features and labels.

Axes: nodes, classes, features. Where a node has nothing to say its count is zero.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from streamlvq.arrays import Bools, Floats, Ints, Label
from streamlvq.fusion.aggregators import Aggregator, assumed_byzantine, capped_weights
from streamlvq.fusion.node_models import Model, NodeModel
from streamlvq.kernels import layout as at
from streamlvq.models.validation import MAX_SAMPLES
from streamlvq.models.vectorizer import name_order

RELIABLE_COUNT = 100.0  # readings of a class after which more make its mean hardly more reliable
CHECKABLE_NODES = 3  # that have a class: of one that fewer have, nobody knows whether it is true
MAX_SWAY = 0.4  # of what is known of a class: more, and byzantine nodes could be the majority
THIN_SPREAD = 0.1  # of the variance that a feature usually has: less is too little to rely on
FEATURE_ARRAYS = ("mean", "variance", "peak", "weight", "inverse", "varies")
PROTOTYPE_ARRAYS = ("usefulness", "wins", "rate")
# Of anything that a node claims: sums and products of it must stay finite.
MAX_CLAIMED_VALUE = 1e120
MAX_CLAIMED_INVERSE = 1e60  # and of one over a deviation


@dataclass(frozen=True)
class Axes:
    """The features and labels that any node knows, in an order that does not depend on theirs."""

    features: list[Hashable]
    labels: list[Label]

    @classmethod
    def of(cls, models: Sequence[Model]) -> Axes:
        features = {name for model in models for name in model.features}
        labels = {label for model in models for label in model.labels}
        return cls(name_order(features), name_order(labels))

    @property
    def display_names(self) -> tuple[list[str], list[str]]:
        """Features and labels as text: no two alike, also if there are 1 and "1"."""
        return _distinct(self.features), _distinct(self.labels)

    def columns(self, model: Model) -> npt.NDArray[np.int64]:
        """Return the positions of a model's features among the common ones."""
        if model.features == self.features:
            return np.arange(len(self.features))
        place = {name: k for k, name in enumerate(self.features)}
        return np.array([place[name] for name in model.features], np.int64)

    def codes(self, model: Model) -> npt.NDArray[np.int64]:
        """Return the positions of a model's labels among the common ones."""
        place = {label: k for k, label in enumerate(self.labels)}
        return np.array([place[label] for label in model.labels], np.int64)


@dataclass(frozen=True)
class ClassTables:
    """Counts, means and variances of nodes x classes x features; samples of nodes x classes.

    `spread` is the variance within classes (classes x features) that most nodes agree on: that of
    all nodes, also in tables from which some were left out.
    """

    nodes: list[str]
    samples: Floats
    count: Floats
    mean: Floats
    variance: Floats
    spread: Floats

    @classmethod
    def of(cls, nodes: Sequence[NodeModel], axes: Axes) -> ClassTables:
        shape = len(nodes), len(axes.labels), len(axes.features)
        samples, count = np.zeros(shape[:2]), np.zeros(shape)
        mean, variance = np.zeros(shape), np.zeros(shape)
        for i, node in enumerate(nodes):
            model = node.first
            if not model.labels:
                continue
            known, columns = axes.codes(model), axes.columns(model)
            rows = slice(0, len(known))
            samples[i, known] = model.arrays["class_count"][rows]
            where = np.ix_(np.array([i]), known, columns)
            count[where] = model.arrays["class_weight"][rows]
            mean[where] = model.arrays["class_mean"][rows]
            variance[where] = model.arrays["class_variance"][rows]
        samples = np.minimum(samples, MAX_SAMPLES)  # or sums of what is said might have no end
        count = np.minimum(count, samples[:, :, None])
        spread = common_spread(count, variance)
        return cls([node.node for node in nodes], samples, count, mean, variance, spread)

    @property
    def held(self) -> Bools:
        """Which node has which class."""
        held: Bools = self.samples > 0
        return held

    def reliability(self) -> Floats:
        """Return how much each mean counts: one over its variance, if nodes differ a little."""
        worth: Floats = mean_evidence(self.count) * self._believed[:, :, None] / self.spread
        return worth

    @functools.cached_property
    def _believed(self) -> Floats:
        """Return the believed share of the counts that nodes claim."""
        believed = np.ones(self.samples.shape)
        for k, column in enumerate(mean_evidence(self.samples).T):
            holders = int((column > 0).sum())
            if holders > 2:
                cut = capped_weights(column, assumed_byzantine(holders), MAX_SWAY)
                believed[:, k] = np.where(column > 0, cut / np.where(column > 0, column, 1.0), 1.0)
        return believed

    def node(self, i: int) -> NodeTable:
        """Return what one node knows."""
        return NodeTable(self.count[i], self.mean[i], self.variance[i])

    def among(self, nodes: Ints) -> ClassTables:
        """Return the tables of some nodes."""
        return replace(
            self,
            nodes=[self.nodes[i] for i in nodes.tolist()],
            samples=self.samples[nodes],
            count=self.count[nodes],
            mean=self.mean[nodes],
            variance=self.variance[nodes],
        )

    def only(self, keep: Any) -> ClassTables:
        """Return the tables without some cells (nodes x classes)."""
        return replace(
            self,
            samples=np.where(keep, self.samples, 0.0),
            count=np.where(np.asarray(keep)[:, :, None], self.count, 0.0),
        )


def common_spread(count: Floats, variance: Floats) -> Floats:
    """Return the variance within classes (classes x features) that most nodes agree on.

    The median over the nodes that have seen enough of a class; where nobody has, that of other
    classes.
    """
    seen = count >= 2
    spread = known_median(np.where(seen, variance, np.nan))
    known = np.isfinite(spread)
    # One node's word on a class that only it has must not become the measure of all others.
    sure = seen.sum(axis=0) >= CHECKABLE_NODES
    asked = np.where(sure.any(axis=0), sure, known)
    typical = np.where(asked, spread, 0.0).sum(axis=0) / np.maximum(asked.sum(axis=0), 1)
    spread = np.where(known, spread, typical)
    spread = np.maximum(spread, THIN_SPREAD * typical)
    # A feature that never moves: its unit does not matter, but must not be zero.
    return np.where(spread > 0.0, spread, 1.0)


def mean_evidence(count: Floats) -> Floats:
    """Return how much a mean of so many readings counts, in readings."""
    with np.errstate(divide="ignore", over="ignore"):  # of the smallest counts
        return np.where(count > 0, 1.0 / (1.0 / count + 1.0 / RELIABLE_COUNT), 0.0)


@dataclass(frozen=True)
class NodeTable:
    """Counts, means and variances of one node (classes x features)."""

    count: Floats
    mean: Floats
    variance: Floats


@dataclass(frozen=True)
class CommonTable:
    """Means and variances of classes as the other nodes have them; NaN where they have none."""

    mean: Floats
    variance: Floats
    spread: Floats  # the variance within classes that most nodes agree on


@dataclass(frozen=True)
class Alignment:
    """How sensors differ: x = gain * common + shift, of every node (first axis) and feature."""

    gain: Floats
    shift: Floats

    def align(self, values: Floats) -> Floats:
        """Return values of nodes x classes x features in common coordinates."""
        aligned: Floats = (values - self.shift[:, None, :]) / self.gain[:, None, :]
        return aligned


def _distinct(names: Sequence[Any]) -> list[str]:
    words = [str(name) for name in names]
    return [
        word if words.count(word) == 1 else repr(name)
        for word, name in zip(words, names, strict=True)
    ]


def known_median(values: Floats) -> Floats:
    """Return the median along the first axis without missing values; NaN if all are missing."""
    ordered = np.sort(values, axis=0)  # NaN come last
    known = np.isfinite(values).sum(axis=0)
    low = np.take_along_axis(ordered, np.maximum(known - 1, 0)[None] // 2, axis=0)[0]
    high = np.take_along_axis(ordered, (known // 2).clip(max=len(values) - 1)[None], axis=0)[0]
    return np.where(known > 0, 0.5 * (low + high), np.nan)


def most_claimed(held: Bools, classes: Ints, most: int) -> Ints:
    """Return at most so many of some classes: those that have most votes.

    `held` (nodes x classes) says who claims which class. Each node has one vote, split among its
    classes: who claims very many does not crowd out those of others.

    Examples
    --------
    >>> honest, liar = [1] * 3 + [0] * 500, [0] * 3 + [1] * 500
    >>> held = np.array([honest, honest, liar, liar, liar], bool)
    >>> most_claimed(held, np.arange(503), 5).tolist()
    [0, 1, 2, 3, 4]

    """
    if len(classes) <= most:
        return classes
    shares = held / np.maximum(held.sum(axis=1, keepdims=True), 1)
    votes = shares.sum(axis=0)[classes]
    first: Ints = np.sort(classes[np.argsort(-votes, kind="stable")[:most]])
    return first


# --- all nodes together --------------------------------------------------------------------------


@dataclass(frozen=True)
class ClassStatistics:
    """Samples of classes and statistics of their features, in common coordinates."""

    samples: Floats
    weight: Floats
    mean: Floats
    variance: Floats


def class_statistics(
    tables: ClassTables,
    alignment: Alignment,
    cells: Floats,
    counts: Floats,
    aggregator: Aggregator,
) -> ClassStatistics:
    """Return counts, means and variances of classes over all nodes that have a say.

    `cells` is how much each node has to say about each class, `counts` how many samples count.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        cut = np.where(tables.samples > 0, counts / tables.samples, 0.0)
    weight = tables.count * cut[:, :, None]
    share = np.where(weight > 0, cells[:, :, None], 0.0)
    if aggregator.linear:  # as if all readings had been in one place
        share = np.where(cells[:, :, None] > 0, weight, 0.0)
    place = np.where(share > 0, alignment.align(tables.mean), np.nan)
    inner = np.where(share > 0, tables.variance / alignment.gain[:, None, :] ** 2, np.nan)
    middle = aggregator.combine(place, share)
    variance = aggregator.combine(inner, share) + aggregator.combine((place - middle) ** 2, share)
    return ClassStatistics(
        samples=counts.sum(axis=0),
        weight=weight.sum(axis=0),
        mean=np.nan_to_num(middle),
        variance=np.nan_to_num(variance),
    )


@dataclass
class Pool:
    """Prototypes, metrics and scales of all nodes, one below the other; `node` says whose.

    Prototypes are in the units of their own node's sensors, NaN where they do not know a feature.
    Metrics are in units of their own node's feature scales.
    """

    scales: dict[str, Floats]  # nodes x features
    calibration: Floats  # nodes x 2
    samples: Floats  # of nodes
    node: Ints  # of every prototype
    label: Ints
    against: Ints  # the other class of the pair, -1 if there are no pairs
    w: Floats
    moment: Floats
    numbers: dict[str, Floats]  # of every prototype
    metric: Ints  # which metric a prototype measures with, -1 for none
    metric_node: Ints  # of every metric
    omega: list[Floats]
    moments: list[tuple[Floats, float]]  # of every metric: of columns, in total
    platt: Floats  # of the pair of every prototype, as its class with the lower number sees it

    @classmethod
    def of(cls, models: Sequence[Model], axes: Axes) -> Pool:
        n, d = len(models), len(axes.features)
        pool = cls(
            scales={name: np.zeros((n, d)) for name in FEATURE_ARRAYS},
            calibration=np.ones((n, at.CALIBRATION_COUNT)),
            samples=np.array([model.samples for model in models], float),
            **_empty(d),  # type: ignore[arg-type]
        )
        parts = [pool._add(i, model, axes) for i, model in enumerate(models) if model.labels]
        for name in ("node", "label", "against", "w", "moment", "metric", "platt"):
            if parts:
                setattr(pool, name, np.concatenate([part[name] for part in parts]))
        if parts:
            pool.numbers = {
                name: np.concatenate([part[name] for part in parts]) for name in PROTOTYPE_ARRAYS
            }
        pool.metric_node = np.array(pool.metric_node, np.int64)
        return pool

    def _add(self, i: int, model: Model, axes: Axes) -> dict[str, Floats]:
        arrays, columns, codes = model.arrays, axes.columns(model), axes.codes(model)
        d, count = len(axes.features), model.prototypes
        for name in FEATURE_ARRAYS:
            self.scales[name][i, columns] = _bounded(arrays[name])
        np.minimum(self.scales["inverse"][i], MAX_CLAIMED_INVERSE, out=self.scales["inverse"][i])
        self.calibration[i] = _bounded(arrays["calibration"])
        label = codes[arrays["label"][:count]]
        paired = "platt" in arrays
        part: dict[str, Any] = {name: _bounded(arrays[name][:count]) for name in PROTOTYPE_ARRAYS}
        part["node"], part["label"] = np.full(count, i), label
        part["against"] = label[np.arange(count) ^ 1] if paired else np.full(count, -1)
        part["w"] = _placed(arrays["w"][:count], columns, d, np.nan)
        part["moment"] = _placed(_bounded(arrays["w_moment"][:count]), columns, d, 0.0)
        part["platt"] = np.zeros((count, at.PLATT_COUNT))
        if paired:
            part["platt"][...] = _sigmoids(_bounded(arrays["platt"][: count // 2]), label)
        part["metric"] = self._add_metrics(i, model, columns, d, count, paired)
        return part

    def _add_metrics(
        self, i: int, model: Model, columns: Ints, d: int, count: int, paired: bool
    ) -> Ints:
        arrays = model.arrays
        if "omega" not in arrays:
            return np.full(count, -1)
        first = len(self.omega)
        omega = arrays["omega"]
        local = len(omega) > 1
        used = (count // 2 if paired else count) if local else 1
        for m in range(used):
            self.omega.append(_placed(omega[m], columns, d, 0.0))
            total = min(float(arrays["total_moment"][m]), MAX_CLAIMED_VALUE)
            column = _placed(_bounded(arrays["column_moment"][m : m + 1]), columns, d, 0.0)[0]
            self.moments.append((column, total))
        self.metric_node = np.append(self.metric_node, np.full(used, i))
        own = np.arange(count)
        return first + (own // 2 if paired else own if local else np.zeros(count, np.int64))


def _bounded(values: Floats) -> Floats:
    return np.clip(values, -MAX_CLAIMED_VALUE, MAX_CLAIMED_VALUE)


def _placed(rows: Floats, columns: Ints, d: int, missing: float) -> Floats:
    out = np.full((len(rows), d), missing)
    out[:, columns] = rows
    return out


def _sigmoids(platt: Floats, label: Ints) -> Floats:
    """Return the sigmoid of every prototype of pairs, seen from its class with the lower number.

    Seen from the other one, scores and offsets change their signs and the classes their places.
    """
    seen = platt.copy()
    turned = label[::2] > label[1::2]
    seen[turned, at.PLATT_OFFSET] *= -1.0
    seen[turned, at.PLATT_CURVATURE + 1] *= -1.0
    seen[turned, at.PLATT_FIRST] = platt[turned, at.PLATT_SECOND]
    seen[turned, at.PLATT_SECOND] = platt[turned, at.PLATT_FIRST]
    return np.repeat(seen, 2, axis=0)


def _empty(d: int) -> dict[str, object]:
    none = np.zeros(0, np.int64)
    return {
        "node": none,
        "label": none,
        "against": none,
        "w": np.zeros((0, d)),
        "moment": np.zeros((0, d)),
        "numbers": {name: np.zeros(0) for name in PROTOTYPE_ARRAYS},
        "metric": none,
        "metric_node": none,
        "omega": [],
        "moments": [],
        "platt": np.zeros((0, at.PLATT_COUNT)),
    }


def feature_relevance(pool: Pool, tables: ClassTables) -> Floats:
    """Return how much each feature counts in the metrics of most nodes; adds up to one.

    In units of the deviations within classes.
    """
    node, spread = pool.metric_node, tables.spread
    inverse = pool.scales["inverse"]
    if len(pool.omega) == 0:
        diagonal = inverse**2
    else:
        squares = np.array([(omega**2).sum(axis=0) for omega in pool.omega])
        total = np.zeros_like(inverse)
        np.add.at(total, node, squares)
        diagonal = total * inverse**2
    sure = tables.held.sum(axis=0) >= CHECKABLE_NODES
    # First to one unit: otherwise one node could drown all but a feature with large numbers.
    diagonal = diagonal * np.median(spread[sure] if sure.any() else spread, axis=0)
    size = diagonal.sum(axis=1, keepdims=True)
    known = diagonal / np.where(size > 0, size, 1.0)
    relevance = known[size[:, 0] > 0].mean(axis=0) if (size > 0).any() else known.sum(axis=0)
    if not relevance.sum() > 0:
        relevance = np.ones_like(relevance)
    share: Floats = relevance / relevance.sum()
    return share
