"""Plausibility of prototypes: whether other nodes give their label a chance at their place.

A prototype of a faulty or hostile node may lie where all others know another class, although it is
near its own class in most features. Each of the other nodes that hold the class is asked: in the
coordinates of its sensors, with its own prototypes and metrics.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from streamlvq.arrays import Bools, Floats, Ints
from streamlvq.fusion.class_tables import Alignment, Pool
from streamlvq.fusion.screening import Clipping, ClippingKind, ScreeningResult
from streamlvq.kernels import layout as at

MIN_AGREEING_SHARE = 0.2  # of the other holders of its class
MAX_JUDGES = 15  # nodes that are asked about a class; more would not change the answer
MIN_JUDGES = 2  # other nodes that must hold the class: of fewer, class means are asked
MIN_DECIDING = 0.5  # share of them that must decide for its label, if only one node has any there
MIN_JUDGED_DISTANCE = 1e-12


class Plausibility(NamedTuple):
    """Answers about each prototype: how many nodes were asked, and what they say at its place."""

    asked: Ints
    agreeing: Ints  # they give its label more than chance
    deciding: Ints  # they decide for its label

    @property
    def implausible(self) -> Bools:
        """Prototypes that too few of the nodes asked find plausible."""
        return (self.asked >= MIN_JUDGES) & (self.agreeing < MIN_AGREEING_SHARE * self.asked)


def ask_holders(
    pool: Pool, alignment: Alignment, w: Floats, weights: Floats, kind: int
) -> Plausibility:
    """Ask the other holders of its class about each prototype that has weight.

    `w` are the places of prototypes in common coordinates.
    """
    asked, agreeing, deciding = np.zeros((3, len(w)), np.int64)
    rows = np.flatnonzero(weights > 0)
    for j, labels in _judges(pool.node[rows], pool.label[rows]).items():
        own = rows[pool.node[rows] == j]
        others = rows[(pool.node[rows] != j) & np.isin(pool.label[rows], labels)]
        if not len(others):
            continue
        places = alignment.gain[j] * w[others] + alignment.shift[j]
        distances = judged_distances(pool, j, own, places, kind)
        fine = _given_a_chance(pool, j, own, others, distances)
        asked[others] += fine >= 0
        agreeing[others] += fine > 0
        deciding[others] += fine > 1
    return Plausibility(asked, agreeing, deciding)


def _judges(node: Ints, label: Ints) -> dict[int, list[int]]:
    """Return which nodes are asked about which classes: all holders, or some if there are many."""
    found: dict[int, list[int]] = {}
    for c in np.unique(label).tolist():
        for j in some_judges(np.unique(node[label == c])).tolist():
            found.setdefault(j, []).append(c)
    return found


def some_judges(holders: Ints) -> Ints:
    """Return the nodes to be asked about a class: all who have it, or some if there are many."""
    if len(holders) <= MAX_JUDGES:
        return holders
    some: Ints = holders[np.linspace(0, len(holders) - 1, MAX_JUDGES).round().astype(int)]
    return some


def judged_distances(pool: Pool, j: int, own: Ints, places: Floats, kind: int) -> Floats:
    """Return the distances of places from each prototype of node j, in its own metrics."""
    omega = [None if m < 0 else pool.omega[m] for m in pool.metric[own].tolist()]
    return prototype_distances(places, pool.w[own], omega, pool.scales["inverse"][j], kind)


def prototype_distances(
    places: Floats, w: Floats, omega: Sequence[Floats | None], inverse: Floats, kind: int
) -> Floats:
    """Return squared distances of places from prototypes, each in its metric (None: Euclidean).

    Features that either of them lacks do not count, and the others count for them.
    """
    one_metric = all(metric is omega[0] for metric in omega)
    if one_metric and np.isfinite(w).all() and np.isfinite(places).all():
        return _distances_in_one_metric(places, w, _factor(omega[0], inverse, kind))
    distances = np.empty((len(places), len(w)))
    varying = max(int((inverse > 0).sum()), 1)
    for q, (centre, metric) in enumerate(zip(w, omega, strict=True)):
        apart = (places - centre) * inverse
        known = np.isfinite(apart)
        gaps = not known.all()
        difference = np.where(known, apart, 0.0) if gaps else apart
        if metric is None:
            importance = np.where(inverse > 0, 1.0 / varying, 0.0)
        else:
            importance = (metric * metric).sum(axis=0)
        if metric is not None and kind == at.MATRIX:
            squares = ((difference @ metric.T) ** 2).sum(axis=1)
        else:
            squares = difference**2 @ importance
        if gaps:
            there = known @ importance
            squares = squares * importance.sum() / np.where(there > 0, there, np.inf)
        distances[:, q] = squares
    return distances


def _factor(metric: Floats | None, inverse: Floats, kind: int) -> Floats:
    """Return the rows that readings are projected on; a vector if it only scales them."""
    if metric is None:
        root: Floats = inverse / max(int((inverse > 0).sum()), 1) ** 0.5
        return root
    factor: Floats = inverse * (metric if kind == at.MATRIX else metric[0])
    return factor


def _distances_in_one_metric(places: Floats, w: Floats, factor: Floats) -> Floats:
    """Return squared distances by products, which is much faster if there are many places."""
    middle = w.mean(axis=0)
    scaled = factor.ndim == 1
    seen = (places - middle) * factor if scaled else (places - middle) @ factor.T
    centres = (w - middle) * factor if scaled else (w - middle) @ factor.T
    squares = (seen**2).sum(axis=1)[:, None] + (centres**2).sum(axis=1) - 2.0 * seen @ centres.T
    distances: Floats = np.maximum(squares, 0.0)
    return distances


def _given_a_chance(pool: Pool, j: int, own: Ints, others: Ints, distances: Floats) -> Ints:
    """Return 2 where node j decides for the label, 1 where it gives it more than chance, else 0.

    -1 if it cannot say.
    """
    label = pool.label[own]
    if (pool.against[own] >= 0).any():
        return _closer_of_a_pair(pool, own, others, distances)
    classes = np.unique(label)
    if len(classes) < 2:
        return np.full(len(others), -1)
    nearest = np.stack([distances[:, label == c].min(axis=1) for c in classes], axis=1)
    scores = -pool.calibration[j, 0] * np.log(nearest + MIN_JUDGED_DISTANCE)
    scores -= scores.max(axis=1, keepdims=True)
    p = np.exp(scores)
    p /= p.sum(axis=1, keepdims=True)
    given = p[np.arange(len(others)), np.searchsorted(classes, pool.label[others])]
    fine: Ints = 1 * (given * len(classes) > 1.0) + (given >= p.max(axis=1))
    return fine


def _closer_of_a_pair(pool: Pool, own: Ints, others: Ints, distances: Floats) -> Ints:
    """Compare the two prototypes of the same pair of classes."""
    key = {(int(pool.label[q]), int(pool.against[q])): k for k, q in enumerate(own.tolist())}
    fine = np.full(len(others), -1)
    for k, p in enumerate(others.tolist()):
        pair = int(pool.label[p]), int(pool.against[p])
        if pair in key:
            fine[k] = 2 * (distances[k, key[pair]] < distances[k, key[pair[::-1]]])
    return fine


# --- what follows --------------------------------------------------------------------------------


def drop_implausible(
    pool: Pool, verdict: Plausibility, weights: Floats, screened: ScreeningResult, labels: list[str]
) -> list[int]:
    """Take their weight from prototypes where too few others give their class a chance.

    Return which they are.
    """
    dropped = verdict.implausible & (weights > 0)
    if (pool.against >= 0).any():
        dropped |= dropped[np.arange(len(dropped)) ^ 1]  # with the other one of its pair
    kinds = np.stack([pool.label, pool.against], axis=1)
    for label, against in np.unique(kinds[dropped], axis=0).tolist():
        rows = (pool.label == label) & (pool.against == against) & (weights > 0)
        if not (rows & ~dropped).any():  # nodes differ in all of them: nobody is wrong alone
            dropped &= ~(rows | (pool.label == against) & (pool.against == label))
    weights[dropped] = 0.0
    note(pool, np.flatnonzero(dropped), "prototype_implausible", screened, labels)
    return np.flatnonzero(dropped).tolist()


def without_unsupported(
    pool: Pool,
    groups: list[Ints],
    verdict: Plausibility,
    screened: ScreeningResult,
    labels: list[str],
) -> tuple[list[Ints], list[int]]:
    """Leave out groups of one node that too few others support, of classes that several have.

    Another node supports a prototype if it decides for its label there, without having one. Return
    the groups that are left, and the prototypes that are in none.
    """
    holders = np.array([len(np.unique(pool.node[group])) for group in groups], np.int64)
    first = np.array([group[0] for group in groups], np.int64)
    label = pool.label[first]
    alone = (holders == 1) & (verdict.asked[first] >= MIN_JUDGES)
    alone &= verdict.deciding[first] < MIN_DECIDING * verdict.asked[first]
    alone &= np.isin(label, label[~alone]) & (pool.against[first] < 0)
    note(pool, first[alone], "prototype_unsupported", screened, labels)
    kept = [group for group, drop in zip(groups, alone.tolist(), strict=True) if not drop]
    return kept, first[alone].tolist()


def note(
    pool: Pool, rows: Ints, kind: ClippingKind, screened: ScreeningResult, labels: list[str]
) -> None:
    """Record once for each node and class what became of these prototypes."""
    cells = np.stack([pool.node[rows], pool.label[rows]], axis=1)
    for (node, label), count in zip(*np.unique(cells, axis=0, return_counts=True), strict=True):
        screened.note(int(node), Clipping(kind, label=labels[label], count=int(count)))
