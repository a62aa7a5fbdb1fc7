"""Which features count."""

from __future__ import annotations

import numpy as np

from streamlvq.fusion.pool import Pool
from streamlvq.fusion.tables import SEVERAL, Tables
from streamlvq.state import Floats


def relevance(pool: Pool, tables: Tables, spread: Floats) -> Floats:
    """How much each feature counts in the metrics of most nodes, in deviations within classes."""
    node = pool.metric_node
    inverse = pool.scales["inverse"]
    if len(pool.omega) == 0:
        diagonal = inverse**2
    else:
        squares = np.array([(omega**2).sum(axis=0) for omega in pool.omega])
        total = np.zeros_like(inverse)
        np.add.at(total, node, squares)
        diagonal = total * inverse**2
    sure = tables.held.sum(axis=0) >= SEVERAL
    # First to one unit: otherwise one node could drown all but a feature with large numbers.
    diagonal = diagonal * np.median(spread[sure] if sure.any() else spread, axis=0)
    size = diagonal.sum(axis=1, keepdims=True)
    known = diagonal / np.where(size > 0, size, 1.0)
    relevance = known[size[:, 0] > 0].mean(axis=0) if (size > 0).any() else known.sum(axis=0)
    if not relevance.sum() > 0:
        relevance = np.ones_like(relevance)
    share: Floats = relevance / relevance.sum()
    return share
