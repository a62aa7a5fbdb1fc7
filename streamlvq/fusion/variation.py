"""Generalised total variation: values of nodes in a network that stay close to their neighbours'.

Each node has a value of its own (a prototype, a metric) and a count that says how much it is worth.
Wanted are values that are close to these and, along the edges of a graph, to each other. With the
*length* of differences as the price of an edge, neighbours that are alike come to agree and those
that are not stay apart, however far: values are constant over parts of the graph. With its *square*
everybody gives way a little to everybody, and one absurd node to all.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from streamlvq.arrays import Bools, Floats, Ints
from streamlvq.fusion.sharing import components

REWEIGHTINGS = 50
SHORTEST_LENGTH = 0.01  # of a difference: below it prices are squares, as Huber's
AGREED_LENGTH = 0.1  # of a difference: neighbours that are closer have come to agree
FIRST_COUPLING = 1e-3  # of mean count over mean degree, where the reweighting starts
NEGLIGIBLE_COUNT = 1e-9  # of the largest: such a node has nothing of its own to say


class NetworkValues(NamedTuple):
    """Values of all nodes, and which nodes they were made of."""

    values: Floats  # nodes x features; NaN where no node that can be reached knows anything
    influence: Floats  # nodes x nodes: shares, each row adds up to one, or to zero if unknown


def total_variation(
    values: Floats,
    counts: Floats,
    weights: Floats,
    coupling: float,
    *,
    lengths: bool = True,
    refit: bool = False,
) -> NetworkValues:
    """Minimise the generalised total variation of values in a network.

    That is `sum n_i ||w_i - a_i||^2 + coupling * sum A_ij phi(w_i - w_j)` over nodes and edges,
    where phi is the length, or its square. Norms are means over features, so that a coupling means
    the same for two features and for two hundred. Lengths are found by solving for squares again
    and again, each time with the weights A_ij / (2 length).

    Parameters
    ----------
    values
        Of each node (nodes x features), in comparable units; NaN where it does not know a feature.
    counts
        How much the value of each node is worth; a node with 0 gets those of its neighbours.
    weights
        Of the edges (nodes x nodes), symmetric.
    coupling
        0 leaves every value as it is; infinite makes all that are connected equal.
    lengths
        Whether a difference costs its length; otherwise its square.
    refit
        Whether neighbours that came to agree get the mean of their own values at last: the edges to
        those that they do not agree with have said who is alike, and pull no more.

    Examples
    --------

    Two and two nodes, with an edge between the pairs that should not be there; lengths keep the
    pairs apart, squares do not:

    >>> values = np.array([[0.0], [0.2], [5.0], [5.2]])
    >>> path = np.eye(4, k=1) + np.eye(4, k=-1)
    >>> total_variation(values, np.ones(4), path, 1.0).values.round(2)[:, 0].tolist()
    [0.35, 0.35, 4.85, 4.85]
    >>> total_variation(values, np.ones(4), path, 1.0, lengths=False).values.round(2)[:, 0].tolist()
    [0.77, 1.54, 3.66, 4.43]
    >>> total_variation(values, np.ones(4), path, 1.0, refit=True).values.round(2)[:, 0].tolist()
    [0.1, 0.1, 5.1, 5.1]

    """
    known = np.isfinite(values) & _counting(counts)[:, None]
    network = _Network(values, known, counts, weights)
    if not lengths or coupling == 0 or np.isinf(coupling):
        return network.result(weights, coupling)
    first, second = np.nonzero(np.triu(weights, 1))
    degree = float(weights.sum(axis=1).mean())
    start = FIRST_COUPLING * float(counts.mean()) / degree if degree > 0 else 0.0
    found, prices = network.solve(weights, start), weights
    for _ in range(REWEIGHTINGS):
        length = np.maximum(_lengths(found, first, second), SHORTEST_LENGTH)
        prices = np.zeros_like(weights)
        prices[first, second] = prices[second, first] = weights[first, second] / (2 * length)
        found = network.solve(prices, coupling)
    if not refit:
        return network.result(prices, coupling)
    agree = _lengths(found, first, second) <= AGREED_LENGTH
    alike = np.zeros_like(weights)
    alike[first[agree], second[agree]] = alike[second[agree], first[agree]] = 1.0
    return _Network(values, known, counts, alike).result(alike, np.inf)


def _lengths(values: Floats, first: Ints, second: Ints) -> Floats:
    lengths: Floats = np.sqrt(((values[first] - values[second]) ** 2).mean(axis=1))
    return lengths


def influence(counts: Floats, weights: Floats, coupling: float) -> Floats:
    """Return how much of each node is in each (rows), if differences cost their squares.

    This is `(N + coupling L)^-1 N` with the Laplacian L of the graph. Rows add up to one; a row is
    zero if no node that can be reached has a count.

    Examples
    --------
    >>> path = np.eye(3, k=1) + np.eye(3, k=-1)
    >>> influence(np.array([1.0, 0.0, 3.0]), path, 1e9).round(3).tolist()
    [[0.25, 0.0, 0.75], [0.25, 0.0, 0.75], [0.25, 0.0, 0.75]]

    """
    counts = np.where(_counting(counts), counts, 0.0)
    if coupling == 0:
        return np.diag((counts > 0).astype(float))
    found = np.zeros(weights.shape)
    for inside in _connected(weights, counts > 0):
        own, block = counts[inside], np.ix_(inside, inside)
        if np.isinf(coupling):
            found[block] = own / own.sum()
        else:
            found[block] = _solved(own, weights[block], coupling, np.diag(own))
    shares = np.maximum(found, 0.0)  # as they are but for rounding
    total = shares.sum(axis=1, keepdims=True)
    rows: Floats = shares / np.where(total > 0, total, 1.0)
    return rows


def _counting(counts: Floats) -> Bools:
    """Return which nodes have something of their own to say."""
    counting: Bools = counts > NEGLIGIBLE_COUNT * counts.max(initial=0.0)
    return counting


def _connected(weights: Floats, known: Bools) -> list[Ints]:
    """Return the connected nodes of which some know something.

    Two nodes without data would be what the other is, whatever that may be.
    """
    part = components((weights > 0) | np.eye(len(weights), dtype=bool))
    found = [np.flatnonzero(part == k) for k in range(part.max(initial=-1) + 1)]
    return [inside for inside in found if known[inside].any()]


def _solved(own: Floats, weights: Floats, coupling: float, right: Floats) -> Floats:
    """Solve (N + coupling L) x = right."""
    edges = weights * (coupling / own.max())
    matrix = np.diag(own / own.max() + edges.sum(axis=1)) - edges
    solution: Floats = np.linalg.solve(matrix, right / own.max())
    return solution


class _Network:
    """Values of nodes, by the nodes that know a feature (mostly all features are alike)."""

    def __init__(self, values: Floats, known: Bools, counts: Floats, weights: Floats) -> None:
        self.counts, self.known = counts, known
        self.values = np.where(known, values, 0.0)
        patterns, place = np.unique(known, axis=1, return_inverse=True)
        self.parts = [
            (
                inside,
                np.flatnonzero(place.reshape(-1) == k),
                np.where(known_by, counts, 0.0)[inside],
            )
            for k, known_by in enumerate(patterns.T)
            for inside in _connected(weights, known_by)
        ]

    def solve(self, weights: Floats, coupling: float) -> Floats:
        """Return all values for a finite coupling; 0 where nobody knows anything."""
        found = np.zeros(self.values.shape)
        for inside, columns, own in self.parts:
            right = own[:, None] * self.values[np.ix_(inside, columns)]
            block = weights[np.ix_(inside, inside)]
            found[np.ix_(inside, columns)] = _solved(own, block, coupling, right)
        return found

    def result(self, weights: Floats, coupling: float) -> NetworkValues:
        found = np.full(self.values.shape, np.nan)
        for inside, columns, own in self.parts:
            shares = influence(own, weights[np.ix_(inside, inside)], coupling)
            reached = shares.any(axis=1)
            block = shares[reached] @ self.values[np.ix_(inside, columns)]
            found[np.ix_(inside[reached], columns)] = block
        everywhere = np.where(self.known.any(axis=1), self.counts, 0.0)
        return NetworkValues(found, influence(everywhere, weights, coupling))


def fedrelax(values: Floats, counts: Floats, weights: Floats, coupling: float) -> Iterator[Floats]:
    """Yield the values of all nodes after each round of FedRelax, for ever.

    In a round each node takes the mean of its own value and those of its neighbours in the round
    before, `w_i = (n_i a_i + coupling sum_j A_ij w_j) / (n_i + coupling deg_i)`: Jacobi's iteration
    for `total_variation` with squares. Nodes that exchange messages could do that, but strong
    couplings take thousands of rounds, and what a node says would come back to it as what others
    say; so fusion solves the equations instead. Values without a count start at zero; where no
    node that can be reached has a count, they stay NaN.

    Examples
    --------
    >>> path = np.eye(2, k=1) + np.eye(2, k=-1)
    >>> rounds = fedrelax(np.array([[0.0], [3.0]]), np.ones(2), path, 1.0)
    >>> [next(rounds).round(2)[:, 0].tolist() for _ in range(3)]
    [[1.5, 1.5], [0.75, 2.25], [1.12, 1.88]]

    """
    known = np.isfinite(values) & (counts > 0)[:, None]
    own = np.where(known, counts[:, None], 0.0)
    part = components((weights > 0) | np.eye(len(weights), dtype=bool))
    reached = np.array([known[part == k].any(axis=0) for k in part])
    total = own + coupling * weights.sum(axis=1, keepdims=True)
    total = np.where(reached, total, 1.0)
    fixed = own * np.where(known, values, 0.0)
    here = np.where(known, values, 0.0)
    while True:
        here = (fixed + coupling * (weights @ here)) / total
        yield np.where(reached, here, np.nan)
