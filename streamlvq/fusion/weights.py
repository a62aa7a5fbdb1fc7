"""How much each node has to say about each class."""

from __future__ import annotations

import numpy as np

from streamlvq.state import Floats

MOST = 1 / 3  # of all weight, that those who might lie may have
MAJORITY = 1 / 2  # of the weight of a class, that one node may have
HALVINGS = 60


def liars_among(nodes: int) -> int:
    """How many of so many nodes are taken to be able to lie, if nobody says otherwise.

    Examples
    --------
    >>> [liars_among(n) for n in (1, 2, 5, 9, 10, 100)]
    [0, 1, 1, 1, 2, 20]

    """
    return 0 if nodes < 2 else max(1, nodes // 5)


def capped(weights: Floats, liars: int | None, share: float = MOST) -> Floats:
    """Weights of which the largest `liars` together have at most a share, or their number's one.

    Counts are what nodes say about themselves. Weights above some level are cut to it; None cuts
    nothing.

    Examples
    --------
    >>> capped(np.array([1e6, 30.0, 20.0, 25.0, 25.0]), 1).round(6).tolist()
    [50.0, 30.0, 20.0, 25.0, 25.0]
    >>> capped(np.array([40.0, 30.0, 20.0]), 1).tolist()
    [20.0, 20.0, 20.0]

    """
    present = weights > 0
    count = int(present.sum())
    if not liars or count < 2:
        return weights
    liars = min(liars, count)
    most = max(share, liars / count)

    def held(level: float) -> float:
        cut = np.sort(np.minimum(weights[present], level))
        return float(cut[-liars:].sum() / cut.sum())

    if held(np.inf) <= most:
        return weights
    low, high = float(weights[present].min()), float(weights.max())
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if held(middle) <= most else (low, middle)
    return np.minimum(weights, low)
