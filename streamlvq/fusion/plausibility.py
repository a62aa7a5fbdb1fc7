"""Plausibility of prototypes: whether other nodes give their label a chance at their place.

A prototype of a faulty or hostile node may lie where all others know another class, although it is
near its own class in most features. Each of the other nodes that hold the class is asked: in the
coordinates of its sensors, with its own prototypes and metrics.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from streamlvq.arrays import Bools, Floats, Ints
from streamlvq.fusion.class_tables import Alignment, Pool
from streamlvq.kernels import layout as at

MIN_AGREEING_SHARE = 0.2  # of the other holders of its class
MAX_JUDGES = 15  # nodes that are asked about a class; more would not change the answer
MIN_JUDGES = 2  # other nodes that must hold the class: of fewer, class means are asked
MAX_MEAN_RATIO = 2.0  # times as far from its own class mean as from that of another class
SMALLEST_DISTANCE = 1e-12


class Verdict(NamedTuple):
    """Answers about each prototype: nodes that were asked, and those that find it plausible."""

    asked: Ints
    agreeing: Ints

    @property
    def implausible(self) -> Bools:
        """Prototypes that too few of the nodes asked find plausible."""
        return (self.asked > 0) & (self.agreeing < MIN_AGREEING_SHARE * self.asked)


def ask_holders(
    pool: Pool, alignment: Alignment, w: Floats, weights: Floats, kind: int
) -> Verdict:
    """Ask the other holders of its class about each prototype that has weight.

    `w` are the places of prototypes in common coordinates.
    """
    asked, agreeing = np.zeros(len(w), np.int64), np.zeros(len(w), np.int64)
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
    return Verdict(np.where(asked >= MIN_JUDGES, asked, 0), agreeing)


def _judges(node: Ints, label: Ints) -> dict[int, list[int]]:
    """Return which nodes are asked about which classes: all holders, or some if there are many."""
    found: dict[int, list[int]] = {}
    for c in np.unique(label).tolist():
        holders = np.unique(node[label == c])
        if len(holders) > MAX_JUDGES:
            holders = holders[np.linspace(0, len(holders) - 1, MAX_JUDGES).round().astype(int)]
        for j in holders.tolist():
            found.setdefault(j, []).append(c)
    return found


def judged_distances(pool: Pool, j: int, own: Ints, places: Floats, kind: int) -> Floats:
    """Return the distances of places from each prototype of node j, in its own metrics.

    Features that either of them lacks do not count, and the others count for them.
    """
    inverse = pool.scales["inverse"][j]
    distances = np.empty((len(places), len(own)))
    for q, row in enumerate(own.tolist()):
        apart = (places - pool.w[row]) * inverse
        known = np.isfinite(apart)
        m = int(pool.metric[row])
        omega = np.eye(len(inverse)) if m < 0 else pool.omega[m]
        gaps = not known.all()
        difference = np.where(known, apart, 0.0) if gaps else apart
        if kind == at.MATRIX and m >= 0:
            squares = ((difference @ omega.T) ** 2).sum(axis=1)
            importance = (omega * omega).sum(axis=0)
        else:
            importance = inverse > 0 if m < 0 else omega[0] ** 2
            squares = difference**2 @ importance
        if gaps:
            there = known @ (1.0 * importance)
            squares = squares * importance.sum() / np.where(there > 0, there, np.inf)
        distances[:, q] = squares
    return distances


def _given_a_chance(pool: Pool, j: int, own: Ints, others: Ints, distances: Floats) -> Ints:
    """Return 1 where node j gives the label more than chance, 0 where not, -1 if it cannot say."""
    label = pool.label[own]
    if (pool.against[own] >= 0).any():
        return _closer_of_a_pair(pool, own, others, distances)
    classes = np.unique(label)
    if len(classes) < 2:
        return np.full(len(others), -1)
    nearest = np.stack([distances[:, label == c].min(axis=1) for c in classes], axis=1)
    scores = -pool.calibration[j, 0] * np.log(nearest + SMALLEST_DISTANCE)
    scores -= scores.max(axis=1, keepdims=True)
    p = np.exp(scores)
    p /= p.sum(axis=1, keepdims=True)
    given = p[np.arange(len(others)), np.searchsorted(classes, pool.label[others])]
    fine: Ints = (given * len(classes) > 1.0).astype(np.int64)
    return fine


def _closer_of_a_pair(pool: Pool, own: Ints, others: Ints, distances: Floats) -> Ints:
    """Compare the two prototypes of the same pair of classes."""
    key = {(int(pool.label[q]), int(pool.against[q])): k for k, q in enumerate(own.tolist())}
    fine = np.full(len(others), -1)
    for k, p in enumerate(others.tolist()):
        pair = int(pool.label[p]), int(pool.against[p])
        if pair in key:
            fine[k] = distances[k, key[pair]] < distances[k, key[pair[::-1]]]
    return fine
