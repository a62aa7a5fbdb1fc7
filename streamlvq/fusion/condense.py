"""Condensing: no more prototypes of a class than a budget, without those that are missed the least.

Growing models of nodes whose prototypes do not match add up. Whoever decided by a prototype that is
left out decides by the nearest other one of its class, so what is lost is its weight times the
squared distance to that one, which takes over the weight.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from streamlvq.arrays import Floats, Ints

AUTO = "auto"  # BUDGET_RATIO times what models of nodes may grow to
KEEP = "keep"  # all of them
BUDGETS = (AUTO, KEEP)
BUDGET_RATIO = 3
MAX_KEPT_DISTANCE = 1e200  # beyond, all are equally far; infinite: of what is left out

Measure = Callable[[Floats], Floats]  # squared distances of all rows from each other


class Condensed(NamedTuple):
    """Prototypes of a class that were left out, and the budget that they were too many for."""

    left_out: int
    budget: int


def class_budget(budget: str | int, grown: int) -> int | None:
    """Return how many prototypes a class may have; None: as many as there are.

    `grown` says how many the models of nodes may grow to.
    """
    if budget == KEEP:
        return None
    return BUDGET_RATIO * grown if budget == AUTO else int(budget)


def condense(places: Floats, weights: Floats, budget: int, measure: Measure) -> Ints:
    """Leave out prototypes of a class one by one, each time the one that loses the least.

    Return the numbers of those that are left.

    Examples
    --------
    >>> places = np.array([[0.0], [1.0], [1.5]])
    >>> def measure(rows):
    ...     return (rows - rows.T) ** 2
    >>> condense(places, np.array([5.0, 5.0, 6.0]), 2, measure).tolist()
    [0, 2]

    """
    count = len(places)
    if count <= budget:
        return np.arange(count)
    distances = np.minimum(np.nan_to_num(measure(places), nan=np.inf), MAX_KEPT_DISTANCE)
    np.fill_diagonal(distances, np.inf)
    weights, left = weights / weights.max(), np.ones(count, bool)
    nearest = distances.argmin(axis=1)
    for _ in range(count - budget):
        losses = weights * distances[np.arange(count), nearest]
        least = int(np.nanargmin(np.where(left, losses, np.nan)))
        weights[nearest[least]] += weights[least]
        left[least] = False
        distances[:, least] = np.inf
        stale = left & (nearest == least)
        nearest[stale] = distances[stale].argmin(axis=1)
    return np.flatnonzero(left)
