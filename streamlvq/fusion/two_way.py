"""Values of nodes x classes as the sum of something of the node and something of the class."""

from __future__ import annotations

import numpy as np

from streamlvq.fusion.sharing import components_by_feature
from streamlvq.fusion.tables import Bools
from streamlvq.state import Floats

RANK = 1e-11  # of an eigenvalue below this share of the largest one nothing is known
REFINE = 2  # rounds that take away what rounding left


def two_way(values: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Weighted least squares of values[i, k] = node[i] + class[k], for every feature by itself.

    This is least squares over all edges of the sharing graph: what is left when the classes are
    taken out of the equations is its Laplacian. A constant may move between nodes and classes
    in each component of the graph; see `centred`.

    Parameters
    ----------
    values, weights
        Nodes x classes x features; what has no weight may be anything finite.

    Returns
    -------
    The parts of nodes (nodes x features) and classes (classes x features).

    """
    w = np.moveaxis(weights, 2, 0)
    y = np.moveaxis(values, 2, 0)
    if w.shape[1] > w.shape[2]:
        solve = _solver(w)
    else:
        turned = _solver(w.transpose(0, 2, 1))

        def solve(y: Floats) -> tuple[Floats, Floats]:
            classes, nodes = turned(y.transpose(0, 2, 1))
            return nodes, classes

    nodes, classes = solve(y)
    for _ in range(REFINE):
        more = solve(y - nodes[:, :, None] - classes[:, None, :])
        nodes, classes = nodes + more[0], classes + more[1]
    return nodes.T, classes.T


def _solver(w: Floats):  # type: ignore[no-untyped-def]
    """Least squares by the smaller side: rows are taken out of the equations."""
    row_total, column_total = w.sum(axis=2), w.sum(axis=1)
    share = w / np.where(row_total > 0, row_total, 1.0)[:, :, None]
    matrix = -np.einsum("fik,fil->fkl", share, w)
    diagonal = np.arange(w.shape[2])
    matrix[:, diagonal, diagonal] += column_total
    # To one unit, so that what is unknown can be told from what is small.
    unit = 1.0 / np.sqrt(np.where(column_total > 0, column_total, 1.0))
    inverse = np.linalg.pinv(
        matrix * unit[:, :, None] * unit[:, None, :], rcond=RANK, hermitian=True
    )
    inverse = inverse * unit[:, :, None] * unit[:, None, :]

    def solve(y: Floats) -> tuple[Floats, Floats]:
        row_mean = (share * y).sum(axis=2)
        right = (w * (y - row_mean[:, :, None])).sum(axis=1)
        columns = np.einsum("fkl,fl->fk", inverse, right)
        rows = row_mean - np.einsum("fik,fk->fi", share, columns)
        return rows, columns

    return solve


def centred(part: Floats, cells: Bools) -> Floats:
    """The parts of nodes with mean zero in each component: the gauge that everybody can agree on.

    Nodes may be connected in one feature and not in another that some of them do not have. Of how
    components differ nothing is known, so they are taken not to differ.

    Parameters
    ----------
    part
        Nodes x features.
    cells
        What they were found from: nodes x classes x features.

    """
    groups, known = components_by_feature(cells), cells.any(axis=1)
    out = np.zeros_like(part)
    for group in np.unique(groups[known]):
        inside = (groups == group) & known
        total = np.maximum(inside.sum(axis=0), 1)
        mean = np.where(inside, part, 0.0).sum(axis=0) / total
        out = np.where(inside, part - mean, out)
    return out
