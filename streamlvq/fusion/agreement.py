"""How far the metrics of nodes disagree in common coordinates.

One model can be right for all nodes only if their sensors agree after the correction and their
metrics do too (theorem 1 (i) of Vaquet et al., 2022). Shifts have residuals; these are those of
metrics.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from streamlvq.arrays import Floats, Ints
from streamlvq.fusion.class_tables import Pool
from streamlvq.kernels import layout as at


class MetricResiduals(NamedTuple):
    """How far the metrics of nodes are from those of the others, from 0 to 1.

    0 is agreement; 1 is a node whose metric looks at nothing that those of the others look at.
    """

    nodes: dict[int, float]  # by the number of the node
    fleet: float | None  # None if there is nothing to compare


def metric_residuals(
    pool: Pool, gain: Floats, inverse: Floats, component: Ints, kind: int
) -> MetricResiduals:
    """Compare the metrics of nodes, scaled to trace one, with the mean of the others' metrics.

    The distance of two metrics counts in units of what it would be if they had nothing in common.
    Nodes of one component are compared. Metrics of prototypes are compared class by class (or pair
    by pair), and a node's prototypes of a class weigh what they won. `gain` and `inverse` are nodes
    x features: the gains of nodes, and inverse scales of features in the common coordinates of each
    node's component.
    """
    squares: dict[int, list[float]] = {}
    ratio = pool.scales["inverse"] * gain / np.where(inverse > 0, inverse, np.inf)
    for rows in _comparable(pool, component):
        matrices: dict[int, Floats] = {}
        for i, own in rows.items():
            matrix = _trace_one(pool, own, ratio[i], kind)
            if matrix is not None:
                matrices[i] = matrix
        if len(matrices) < 2:
            continue
        total = np.sum(list(matrices.values()), axis=0)
        for i, matrix in matrices.items():
            others = (total - matrix) / (len(matrices) - 1)
            squares.setdefault(i, []).append(_apart(matrix, others))
    every = [value for each in squares.values() for value in each]
    nodes = {i: float(np.sqrt(np.mean(each))) for i, each in sorted(squares.items())}
    return MetricResiduals(nodes, float(np.sqrt(np.mean(every))) if every else None)


def _comparable(pool: Pool, component: Ints) -> Iterator[Mapping[int, Ints]]:
    """Yield what can be compared: for each node of a component, prototypes of one class or pair.

    Where all prototypes of a node have one metric, one prototype stands for it.
    """
    rows = np.flatnonzero(pool.metric >= 0)
    if not len(rows):
        return
    low, high = np.minimum(pool.label, pool.against), np.maximum(pool.label, pool.against)
    kinds = np.stack([component[pool.node], low, high], axis=1)[rows]
    if len(np.unique(pool.metric[rows])) == len(np.unique(pool.node[rows])):
        _, first = np.unique(pool.node[rows], return_index=True)
        rows, kinds = rows[first], kinds[first] * [1, 0, 0]
    for kind in np.unique(kinds[kinds[:, 0] >= 0], axis=0):
        same = rows[(kinds == kind).all(axis=1)]
        yield {int(i): same[pool.node[same] == i] for i in np.unique(pool.node[same])}


def _apart(one: Floats, other: Floats) -> float:
    """Return the squared distance of two metrics, 1 if they are orthogonal."""
    return float(((one - other) ** 2).sum() / ((one**2).sum() + (other**2).sum()))


def _trace_one(pool: Pool, rows: Ints, ratio: Floats, kind: int) -> Floats | None:
    """Return the metric of some prototypes of a node with trace one (a vector if diagonal)."""
    wins = np.sqrt(pool.numbers["wins"][rows] + 1.0)
    factor = np.concatenate(
        [w * pool.omega[m] * ratio for w, m in zip(wins, pool.metric[rows], strict=True)]
    )
    total = float((factor**2).sum())
    if not (np.isfinite(total) and total > 0):
        return None
    if kind == at.DIAGONAL:
        diagonal: Floats = (factor**2).sum(axis=0) / total
        return diagonal
    matrix: Floats = factor.T @ factor / total
    return matrix
