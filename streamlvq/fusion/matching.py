"""Which prototypes of different nodes are the same: optimal assignment within a class."""

from __future__ import annotations

import numpy as np

from streamlvq.state import Floats, Ints

FOREIGN = 1e6  # distance of prototypes that have no feature in common
NEAR = 0.5  # mean squared distance in deviations within the class: farther is another prototype


def matched(w: Floats, node: Ints, weights: Floats, spread: Floats) -> list[Ints]:
    """Groups of prototypes of one class: at most one of each node in each.

    The nodes come in the order of their numbers. Each one's prototypes are assigned to the groups
    so far such that the distances add up to the least; what is far from its group begins a new one.
    If no node has more than one, all are the same, however far apart.

    Parameters
    ----------
    w, node, weights
        The prototypes of a class, whose they are (in ascending order), and how much they count.
    spread
        The variance within the class.

    Returns
    -------
    The rows of each group.

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
    distances = np.where(total > 0, distances, FOREIGN)
    # What is too far costs the same everywhere: it must not push others out of their groups.
    taken, group = linear_sum_assignment(np.minimum(distances, NEAR))
    left = set(ours.tolist())
    for p, g in zip(ours[taken].tolist(), group.tolist(), strict=True):
        if distances[list(ours).index(p), g] < NEAR:
            left.discard(p)
            groups[g].append(p)
            share = weights[groups[g]]
            centres[g] = np.average(scaled[groups[g]], axis=0, weights=share)
    return sorted(left)
