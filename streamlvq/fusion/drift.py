"""Corrections: how the sensors of nodes differ, estimated from the classes that they share.

A reading x of node i corresponds to (x - shift_i) / gain_i in common coordinates. Every correction
is one function and one line in `CORRECTIONS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from streamlvq.fusion.sharing import evidence, spanning_tree
from streamlvq.fusion.tables import ENOUGH, Tables
from streamlvq.fusion.two_way import centred, two_way
from streamlvq.state import Floats

ROUNDS = 12  # of estimating gains and shifts in turn
USUAL_GAIN = 0.3  # deviation of the logarithm of gains, before anything is known
LARGEST_GAIN = 50.0
SPREADS = 30.0  # readings after which a spread tells no more about a gain: spreads differ anyway
DOUBT = 2.0  # residuals this many times the usual one count less
RESISTANCE = 5  # rounds in which they do
CHANCE = 3.0  # standard errors of a mean: less is never doubted


@dataclass(frozen=True)
class Correction:
    """Of every node (first axis) and feature."""

    gain: Floats
    shift: Floats

    def align(self, values: Floats) -> Floats:
        """Nodes x classes x features, in common coordinates."""
        aligned: Floats = (values - self.shift[:, None, :]) / self.gain[:, None, :]
        return aligned


def nothing(tables: Tables, spread: Floats) -> Correction:
    """All sensors agree."""
    shape = len(tables.nodes), spread.shape[1]
    return Correction(np.ones(shape), np.zeros(shape))


def tree(tables: Tables, spread: Floats) -> Correction:
    """Shifts along the tree of the most reliable differences."""
    reliability = tables.reliability(spread)
    shift = np.zeros((len(tables.nodes), spread.shape[1]))
    for parent, child in spanning_tree(evidence(tables.samples)):
        ours, theirs = reliability[parent], reliability[child]
        both = (ours > 0) & (theirs > 0)
        worth = np.where(both, ours * theirs / np.where(both, ours + theirs, 1.0), 0.0)
        total = worth.sum(axis=0)
        apart = (worth * (tables.mean[child] - tables.mean[parent])).sum(axis=0)
        shift[child] = shift[parent] + apart / np.where(total > 0, total, 1.0)
    return Correction(np.ones_like(shift), _gauged(shift, tables))


def least_squares(tables: Tables, spread: Floats) -> Correction:
    """Shifts that fit all shared classes best; nodes that contradict all others count less."""
    weights = tables.reliability(spread)
    trust = _trust(tables, tables.mean, weights, spread)
    shift, _ = two_way(tables.mean, weights * trust[:, :, None])
    return Correction(np.ones_like(shift), _gauged(shift, tables))


def scale_shift(tables: Tables, spread: Floats) -> Correction:
    """A gain and a shift for each feature of each node.

    Gains show in the spreads within classes and in the distances between the means of classes;
    what little evidence there is pulls less than one's expectation that they are one.
    """
    weights = tables.reliability(spread)
    told, trust = _gain_of_spreads(tables)
    gain = np.exp(told * trust / (trust + USUAL_GAIN**-2))
    weights = weights * _trust(tables, tables.mean / gain[:, None, :], weights, spread)[:, :, None]
    for _ in range(ROUNDS):
        _, means = _straightened(tables, weights, gain)
        slope, precision = gain_of_means(weights, tables.mean, means)
        total = precision + trust + USUAL_GAIN**-2
        wanted = (precision * np.log(slope) + trust * told) / total
        limit = np.log(LARGEST_GAIN)
        gain = np.exp(np.clip(centred(wanted, tables.count > 0), -limit, limit))
    shift, _ = _straightened(tables, weights, gain)
    return Correction(gain, gain * _gauged(shift, tables))


def _straightened(tables: Tables, weights: Floats, gain: Floats) -> tuple[Floats, Floats]:
    """Shifts and common means when gains are known."""
    wide = gain[:, None, :]
    return two_way(tables.mean / wide, weights * wide * wide)


def _gain_of_spreads(tables: Tables) -> tuple[Floats, Floats]:
    """Logarithms of gains from spreads, and how precise they are."""
    usable = (tables.count >= 3) & (tables.variance > 0)
    logs = 0.5 * np.log(np.where(usable, tables.variance, 1.0))
    # Who shares a class with nobody learns nothing about gains from it.
    weights = np.where(usable & (usable.sum(axis=0) > 1), worth_of_spread(tables.count), 0.0)
    nodes, _ = two_way(logs, weights)
    return centred(nodes, weights > 0), weights.sum(axis=1)


def gain_of_means(weights: Floats, ours: Floats, common: Floats) -> tuple[Floats, Floats]:
    """The slope of a node's means over the common ones, and how precise its logarithm is.

    The last two axes are classes and features; there may be nodes before them.
    """
    safe = _safe(weights.sum(axis=-2, keepdims=True))
    ours = ours - (weights * ours).sum(axis=-2, keepdims=True) / safe
    theirs = common - (weights * common).sum(axis=-2, keepdims=True) / safe
    precision = (weights * theirs * theirs).sum(axis=-2)
    slope = (weights * theirs * ours).sum(axis=-2) / _safe(precision)
    usable = (precision > 0) & (slope > 1.0 / LARGEST_GAIN)
    slope = np.where(usable, np.minimum(slope, LARGEST_GAIN), 1.0)
    # The error of a logarithm is the relative one.
    return slope, np.where(usable, precision * slope * slope, 0.0)


def worth_of_spread(count: Floats) -> Floats:
    """How precise the logarithm of a spread of so many readings is."""
    with np.errstate(divide="ignore"):
        worth: Floats = 2.0 / (1.0 / np.maximum(count - 1.0, 0.0) + 1.0 / SPREADS)
    return worth


def _safe(total: Floats) -> Floats:
    """To divide by."""
    return np.where(total > 0, total, 1.0)


def _trust(tables: Tables, values: Floats, weights: Floats, spread: Floats) -> Floats:
    """Less for cells (a class of a node) that contradict all others, by more than by chance."""
    held = tables.held
    compared = held & (held.sum(axis=0) > 2) & (held.sum(axis=1) > 1)[:, None]
    chance = CHANCE * np.sqrt(1.0 / np.maximum(tables.samples, 1.0) + 1.0 / ENOUGH)
    trust = np.ones(held.shape)
    for _ in range(RESISTANCE):
        nodes, classes = two_way(values, weights * trust[:, :, None])
        distance = _distance(values - nodes[:, None] - classes[None], weights, spread)
        usual = float(np.median(distance[compared])) if compared.any() else 0.0
        limit = np.maximum(DOUBT * usual, chance)
        new = (limit / np.maximum(distance, limit)) ** 2
        if np.array_equal(new, trust):
            break
        trust = new
    return trust


def _distance(residuals: Floats, weights: Floats, spread: Floats) -> Floats:
    """How far each cell is off, in deviations within its class; zero where there is nothing."""
    known = weights > 0
    squares = np.where(known, residuals * residuals / spread, 0.0).sum(axis=2)
    distance: Floats = np.sqrt(squares / np.maximum(known.sum(axis=2), 1))
    return distance


def _gauged(shift: Floats, tables: Tables) -> Floats:
    return centred(shift, tables.count > 0)


CORRECTIONS: dict[str, Callable[[Tables, Floats], Correction]] = {
    "none": nothing,
    "tree": tree,
    "least_squares": least_squares,
    "scale_shift": scale_shift,
}
