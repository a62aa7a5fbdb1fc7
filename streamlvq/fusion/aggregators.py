"""Aggregators: one value out of those of many nodes, and how much weight a node may have.

Every aggregator takes values (nodes x anything) and weights that broadcast against them; what is
NaN or has no weight does not count. The result is NaN where nothing counts. A new aggregator is a
class and a line in `streamlvq.registry.AGGREGATORS`.
"""

from __future__ import annotations

from typing import ClassVar, Protocol

import numpy as np

from streamlvq.arrays import Floats
from streamlvq.registry import AGGREGATORS

TRIMMED_SHARE = 0.25  # of the weight, at either end
WEISZFELD_STEPS = 60  # of the geometric median
SAME_POINT = 1e-12  # squared distance at which a value counts as the median itself
BYZANTINE_SHARE = 1 / 3  # of all weight, that byzantine nodes may have together
CLASS_SHARE = 1 / 2  # of the weight of a class, that one node may have
BISECTIONS = 60


class Aggregator(Protocol):
    """Rule that combines the values of many nodes into one."""

    robust: ClassVar[bool]  # a minority of the weight cannot move the result far
    linear: ClassVar[bool]  # the weighted mean: sums over nodes can be taken apart and reordered
    trimmed: ClassVar[float]  # share of the weight at either end that cannot move the result far

    def combine(self, values: Floats, weights: Floats) -> Floats:
        """Combine values along their first axis."""
        ...


def get_aggregator(name: str) -> Aggregator:
    """Return the registered aggregator of this name."""
    aggregator: Aggregator = AGGREGATORS[name]()
    return aggregator


class Mean:
    """The weighted mean: one node can move it anywhere."""

    robust: ClassVar[bool] = False
    linear: ClassVar[bool] = True
    trimmed: ClassVar[float] = 0.0

    def combine(self, values: Floats, weights: Floats) -> Floats:
        return weighted_mean(values, weights)


class Median:
    """The weighted median of every coordinate."""

    robust: ClassVar[bool] = True
    linear: ClassVar[bool] = False
    trimmed: ClassVar[float] = TRIMMED_SHARE

    def combine(self, values: Floats, weights: Floats) -> Floats:
        return weighted_median(values, weights)


class TrimmedMean:
    """The mean of every coordinate without the quarter of the weight at either end."""

    robust: ClassVar[bool] = True
    linear: ClassVar[bool] = False
    trimmed: ClassVar[float] = TRIMMED_SHARE

    def combine(self, values: Floats, weights: Floats) -> Floats:
        return trimmed_mean(values, weights)


class GeometricMedian:
    """The point with the least sum of weighted distances to all."""

    robust: ClassVar[bool] = True
    linear: ClassVar[bool] = False
    trimmed: ClassVar[float] = TRIMMED_SHARE

    def combine(self, values: Floats, weights: Floats) -> Floats:
        return geometric_median(values, weights)


# --- statistics ----------------------------------------------------------------------------------


def _prepared(values: Floats, weights: Floats) -> tuple[Floats, Floats]:
    known = np.isfinite(values)
    return np.where(known, values, 0.0), np.where(known, weights, 0.0)


def weighted_mean(values: Floats, weights: Floats) -> Floats:
    """Return the weighted mean along the first axis.

    Examples
    --------
    >>> weighted_mean(np.array([[1.0], [3.0], [50.0]]), np.array([[1.0], [1.0], [2.0]])).tolist()
    [26.0]

    """
    values, weights = _prepared(values, weights)
    total = weights.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        result: Floats = (weights * values).sum(axis=0) / total
    return result


def weighted_median(values: Floats, weights: Floats) -> Floats:
    """Return the weighted median of every coordinate: half the weight is on either side.

    Examples
    --------
    >>> weighted_median(np.array([[1.0], [3.0], [50.0]]), np.ones((3, 1))).tolist()
    [3.0]

    """
    return _between(values, weights, 0.5, 0.5)


def trimmed_mean(values: Floats, weights: Floats) -> Floats:
    """Return the mean of every coordinate without the quarter of the weight at either end.

    Examples
    --------
    >>> trimmed_mean(np.array([[1.0], [2.0], [3.0], [50.0]]), np.ones((4, 1))).tolist()
    [2.5]

    """
    return _between(values, weights, TRIMMED_SHARE, 1.0 - TRIMMED_SHARE)


def _between(values: Floats, weights: Floats, low: float, high: float) -> Floats:
    """Return the mean of what lies between two shares of the weight."""
    values, weights = _prepared(values, weights)
    order = np.argsort(values, axis=0, kind="stable")
    values = np.take_along_axis(values, order, axis=0)
    weights = np.take_along_axis(np.broadcast_to(weights, values.shape), order, axis=0)
    total = weights.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        end = np.cumsum(weights, axis=0) / total
        begin = end - weights / total
        if low == high:
            half = 1e-9  # what is this close to the middle counts as in the middle
            inside = (begin <= low + half) & (end >= high - half) & (weights > 0)
            kept = np.where(inside, 1.0, 0.0)
        else:
            kept = np.clip(np.minimum(end, high) - np.maximum(begin, low), 0.0, None)
        result: Floats = (kept * values).sum(axis=0) / kept.sum(axis=0)
    return np.where(total > 0, result, np.nan)


def geometric_median(values: Floats, weights: Floats) -> Floats:
    """Return the point with the least sum of weighted distances, by Weiszfeld's steps.

    Coordinates must have comparable units.

    Examples
    --------
    >>> points = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [90.0, 90.0]])
    >>> geometric_median(points, np.ones((4, 1))).round(2).tolist()
    [0.5, 0.5]

    """
    weights = np.broadcast_to(weights, values.shape)
    here = weighted_median(values, weights)
    known = np.isfinite(values) & (weights > 0)
    for _ in range(WEISZFELD_STEPS):
        apart = np.where(known, values - here, 0.0)
        flat = (apart * apart).reshape(len(values), -1)
        share = known.reshape(len(values), -1).mean(axis=1)
        squares = flat.sum(axis=1) / np.where(share > 0, share, 1.0)
        pull = 1.0 / np.sqrt(squares + SAME_POINT)
        here = weighted_mean(values, weights * pull.reshape(-1, *[1] * (values.ndim - 1)))
    return here


# --- weights -------------------------------------------------------------------------------------


def assumed_byzantine(nodes: int) -> int:
    """Return how many of so many nodes are assumed to be byzantine by default.

    Examples
    --------
    >>> [assumed_byzantine(n) for n in (1, 2, 5, 9, 10, 100)]
    [0, 1, 1, 1, 2, 20]

    """
    return 0 if nodes < 2 else max(1, nodes // 5)


def capped_weights(
    weights: Floats, byzantine: int | None, share: float = BYZANTINE_SHARE
) -> Floats:
    """Cut weights so that the largest `byzantine` of them together have at most a share.

    If their number alone is a larger share of all nodes, that one is allowed. Counts are what nodes
    claim about themselves. Weights above some level are cut to it; None cuts nothing.

    Examples
    --------
    >>> capped_weights(np.array([1e6, 30.0, 20.0, 25.0, 25.0]), 1).round(6).tolist()
    [50.0, 30.0, 20.0, 25.0, 25.0]
    >>> capped_weights(np.array([40.0, 30.0, 20.0]), 1).tolist()
    [20.0, 20.0, 20.0]

    """
    present = weights > 0
    count = int(present.sum())
    if not byzantine or count < 2:
        return weights
    byzantine = min(byzantine, count)
    most = max(share, byzantine / count)
    ordered = np.sort(weights[present])

    def held(level: float) -> float:
        cut = np.minimum(ordered, level)
        return float(cut[-byzantine:].sum() / cut.sum())

    if held(np.inf) <= most:
        return weights
    low, high = float(ordered[0]), float(ordered[-1])
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if held(middle) <= most else (low, middle)
    return np.minimum(weights, low)
