"""Sharing graph: which nodes share classes, and how reliable their comparison is."""

from __future__ import annotations

import numpy as np

from streamlvq.arrays import Bools, Floats, Ints


def components(held: Bools) -> Ints:
    """Number the connected components of nodes that share classes.

    Components are numbered in the order of their first node; a node without classes is one of its
    own.

    Examples
    --------
    >>> components(np.array([[1, 0, 0], [0, 1, 1], [1, 0, 0], [0, 1, 0], [0, 0, 0]], bool)).tolist()
    [0, 1, 0, 1, 2]

    """
    found = np.arange(len(held))  # the first node of each component
    waiting = np.asarray(held.any(axis=1))
    while waiting.any():
        first = int(np.argmax(waiting))
        inside = np.zeros(len(held), bool)
        inside[first] = True
        classes = held[first]
        while True:
            reached = inside | held[:, classes].any(axis=1)
            classes = held[reached].any(axis=0)
            if (reached == inside).all():
                break
            inside = reached
        found[inside] = first
        waiting &= ~inside
    number: Ints = np.unique(found, return_inverse=True)[1]
    return number


def components_by_feature(cells: Bools) -> Ints:
    """Number components feature by feature: nodes x features, from nodes x classes x features."""
    found: dict[bytes, Ints] = {}
    columns = []
    for held in np.ascontiguousarray(np.moveaxis(cells, 2, 0)):
        key = held.tobytes()  # mostly all features are alike
        if key not in found:
            found[key] = components(held)
        columns.append(found[key])
    return np.array(columns, np.int64).reshape(cells.shape[2], len(cells)).T


def evidence(count: Floats) -> Floats:
    """Return how reliably each two nodes can be compared, summed over shared classes.

    The variance of a difference of two means is 1/n + 1/m, so a class counts n m / (n + m).
    """
    found = np.zeros((len(count), len(count)))
    for n in count.T:
        total = n[:, None] + n[None, :]
        found += np.where(total > 0, np.outer(n, n) / np.where(total > 0, total, 1.0), 0.0)
    np.fill_diagonal(found, 0.0)
    return found


def spanning_tree(edges: Floats) -> list[tuple[int, int]]:
    """Return the tree (forest) of the most reliable edges as (parent, child), parents first.

    The root of each tree is the node with the most reliable edges. Ties go to the first node.

    Examples
    --------
    >>> spanning_tree(np.array([[0, 9, 1, 0], [9, 0, 5, 0], [1, 5, 0, 0], [0, 0, 0, 0]], float))
    [(1, 0), (1, 2)]

    """
    remaining = set(range(len(edges)))
    tree: list[tuple[int, int]] = []
    strength = edges.sum(axis=1)
    while remaining:
        root = min(remaining, key=lambda i: (-strength[i], i))
        remaining.discard(root)
        best, parent = edges[root].copy(), np.full(len(edges), root)
        open_nodes = np.zeros(len(edges), bool)
        open_nodes[list(remaining)] = True
        while open_nodes.any():
            child = int(np.argmax(np.where(open_nodes, best, -1.0)))
            if best[child] <= 0.0:
                break
            tree.append((int(parent[child]), child))
            open_nodes[child] = False
            remaining.discard(child)
            better = edges[child] > best
            best, parent = np.where(better, edges[child], best), np.where(better, child, parent)
    return tree
