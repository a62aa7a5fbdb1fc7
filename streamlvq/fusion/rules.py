"""Rules that make one value out of those of many nodes; a new one is a function and a line.

Every rule takes values (nodes x anything) and weights that broadcast against them; what is NaN or
has no weight does not count. The result is NaN where nothing counts.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from streamlvq.state import Floats

TRIMMED = 0.25  # of the weight, at either end
STEPS = 60  # of the geometric median
CLOSE = 1e-12  # squared distance at which a value counts as the median itself

Rule = Callable[[Floats, Floats], Floats]


def _prepared(values: Floats, weights: Floats) -> tuple[Floats, Floats]:
    known = np.isfinite(values)
    return np.where(known, values, 0.0), np.where(known, weights, 0.0)


def mean(values: Floats, weights: Floats) -> Floats:
    """The weighted mean.

    Examples
    --------
    >>> mean(np.array([[1.0], [3.0], [50.0]]), np.array([[1.0], [1.0], [2.0]])).tolist()
    [26.0]

    """
    values, weights = _prepared(values, weights)
    total = weights.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        result: Floats = (weights * values).sum(axis=0) / total
    return result


def median(values: Floats, weights: Floats) -> Floats:
    """The weighted median of every coordinate: half the weight is on either side.

    Examples
    --------
    >>> median(np.array([[1.0], [3.0], [50.0]]), np.ones((3, 1))).tolist()
    [3.0]

    """
    return _between(values, weights, 0.5, 0.5)


def trimmed_mean(values: Floats, weights: Floats) -> Floats:
    """The mean of every coordinate without the quarter of the weight at either end.

    Examples
    --------
    >>> trimmed_mean(np.array([[1.0], [2.0], [3.0], [50.0]]), np.ones((4, 1))).tolist()
    [2.5]

    """
    return _between(values, weights, TRIMMED, 1.0 - TRIMMED)


def _between(values: Floats, weights: Floats, low: float, high: float) -> Floats:
    """The mean of what lies between two shares of the weight."""
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
    """The point with the least sum of weighted distances to all, by Weiszfeld's steps.

    Coordinates must have comparable units.

    Examples
    --------
    >>> points = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [90.0, 90.0]])
    >>> geometric_median(points, np.ones((4, 1))).round(2).tolist()
    [0.5, 0.5]

    """
    weights = np.broadcast_to(weights, values.shape)
    here = median(values, weights)
    known = np.isfinite(values) & (weights > 0)
    for _ in range(STEPS):
        apart = np.where(known, values - here, 0.0)
        flat = (apart * apart).reshape(len(values), -1)
        share = known.reshape(len(values), -1).mean(axis=1)
        squares = flat.sum(axis=1) / np.where(share > 0, share, 1.0)
        pull = 1.0 / np.sqrt(squares + CLOSE)
        here = mean(values, weights * pull.reshape(-1, *[1] * (values.ndim - 1)))
    return here


RULES: dict[str, Rule] = {
    "mean": mean,
    "median": median,
    "trimmed_mean": trimmed_mean,
    "geometric_median": geometric_median,
}
