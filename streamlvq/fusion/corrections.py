"""Corrections: how the sensors of nodes differ, estimated from the classes that they share.

A reading x of node i corresponds to (x - shift_i) / gain_i in common coordinates. A new correction
is a class and a line in `streamlvq.registry.CORRECTIONS`. `streamlvq.fusion.trials` chooses one.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple, Protocol

import numpy as np

from streamlvq.arrays import Bools, Floats
from streamlvq.fusion.class_tables import (
    RELIABLE_COUNT,
    Alignment,
    ClassTables,
    CommonTable,
    NodeTable,
    mean_evidence,
)
from streamlvq.fusion.sharing import components_by_feature, evidence, spanning_tree
from streamlvq.registry import CORRECTIONS

UNCORRECTED = "none"  # the correction that all others are compared with
GAIN_ROUNDS = 12  # of estimating gains and shifts in turn
PRIOR_GAIN_DEVIATION = 0.3  # of the logarithm of gains, before anything is known
MAX_GAIN = 50.0
SPREAD_COUNT = 30.0  # readings after which a spread tells no more about a gain: spreads differ
DOUBTED_RATIO = 2.0  # residuals this many times the usual one count less
DOUBT_ROUNDS = 5  # in which they do
CHANCE_ERRORS = 3.0  # standard errors of a mean: less is never doubted
MIN_EIGENVALUE = 1e-11  # share of the largest one below which nothing is known
REFINEMENTS = 2  # rounds that take away what rounding left


class NodeAlignment(NamedTuple):
    """Gain and shift of one node, and the variance of that shift (infinite if unknown)."""

    gain: Floats
    shift: Floats
    shift_variance: Floats


class Correction(Protocol):
    """Model of how the sensors of nodes differ, fitted to all nodes or to one."""

    corrects: ClassVar[str]  # a plural noun for reports
    automatic: ClassVar[bool]  # drift="auto" tries it
    needs_scales: ClassVar[bool]  # only for models that standardize their features
    one_frame: ClassVar[bool]  # nodes can be compared even if they share no class

    def estimate(self, tables: ClassTables) -> Alignment:
        """Estimate how the sensors of all nodes differ."""
        ...

    def fit_node(self, node: NodeTable, common: CommonTable) -> NodeAlignment:
        """Estimate how the sensors of one node differ from what the others agree on."""
        ...


def get_correction(name: str) -> Correction:
    """Return the registered correction of this name."""
    correction: Correction = CORRECTIONS[name]()
    return correction


class NoCorrection:
    """All sensors agree."""

    corrects: ClassVar[str] = "nothing"
    automatic: ClassVar[bool] = True
    needs_scales: ClassVar[bool] = False
    one_frame: ClassVar[bool] = True

    def estimate(self, tables: ClassTables) -> Alignment:
        shape = len(tables.nodes), tables.spread.shape[1]
        return Alignment(np.ones(shape), np.zeros(shape))

    def fit_node(self, node: NodeTable, common: CommonTable) -> NodeAlignment:
        width = node.mean.shape[1]
        return NodeAlignment(np.ones(width), np.zeros(width), np.zeros(width))


class ShiftCorrection:
    """Base of corrections by shifts; `drift="auto"` tries those that say so."""

    corrects: ClassVar[str] = "shifts"
    automatic: ClassVar[bool] = False
    needs_scales: ClassVar[bool] = False
    one_frame: ClassVar[bool] = False

    def fit_node(self, node: NodeTable, common: CommonTable) -> NodeAlignment:
        return fit_shift(node, common)


class TreeShift(ShiftCorrection):
    """Shifts along the tree of the most reliable differences."""

    def estimate(self, tables: ClassTables) -> Alignment:
        worth = self.worth(tables)
        shift = np.zeros((len(tables.nodes), tables.spread.shape[1]))
        for parent, child in spanning_tree(evidence(tables.samples)):
            ours, theirs = worth[parent], worth[child]
            both = (ours > 0) & (theirs > 0)
            shares = np.where(both, ours * theirs / np.where(both, ours + theirs, 1.0), 0.0)
            apart = (shares * (tables.mean[child] - tables.mean[parent])).sum(axis=0)
            shift[child] = shift[parent] + apart / _divisor(shares.sum(axis=0))
        return Alignment(np.ones_like(shift), centred(shift, tables.count > 0))

    def worth(self, tables: ClassTables) -> Floats:
        """Return how much each class mean counts."""
        return tables.reliability()


class PublishedShift(TreeShift):
    """Shifts along a tree, from the plain means of differences of all shared classes.

    Formula (3) of Vaquet et al. (2022), for comparison. Which tree they leave open: here it is the
    same as above.
    """

    def worth(self, tables: ClassTables) -> Floats:
        return (tables.count > 0).astype(float)


class LeastSquaresShift(ShiftCorrection):
    """Shifts that fit all shared classes best; nodes that contradict all others count less."""

    automatic: ClassVar[bool] = True

    def estimate(self, tables: ClassTables) -> Alignment:
        weights = tables.reliability()
        trust = _trust(tables, tables.mean, weights)
        shift, _ = fit_additive(tables.mean, weights * trust[:, :, None])
        return Alignment(np.ones_like(shift), centred(shift, tables.count > 0))


class ScaleShift(ShiftCorrection):
    """A gain and a shift for each feature of each node.

    Gains show in the spreads within classes and in the distances between the means of classes. With
    little evidence they stay close to one.
    """

    corrects: ClassVar[str] = "gains and shifts"
    automatic: ClassVar[bool] = True
    needs_scales: ClassVar[bool] = True

    def estimate(self, tables: ClassTables) -> Alignment:
        weights = tables.reliability()
        told, trust = _gain_of_spreads(tables)
        gain = np.exp(told * trust / (trust + PRIOR_GAIN_DEVIATION**-2))
        weights = weights * _trust(tables, tables.mean / gain[:, None, :], weights)[:, :, None]
        for _ in range(GAIN_ROUNDS):
            _, means = _straightened(tables, weights, gain)
            slope, precision = _gain_of_means(weights, tables.mean, means)
            total = precision + trust + PRIOR_GAIN_DEVIATION**-2
            wanted = (precision * np.log(slope) + trust * told) / total
            gain = _bounded_gain(centred(wanted, tables.count > 0))
        shift, _ = _straightened(tables, weights, gain)
        return Alignment(gain, gain * centred(shift, tables.count > 0))

    def fit_node(self, node: NodeTable, common: CommonTable) -> NodeAlignment:
        means, worth = _comparable(node, common)
        slope, precision = _gain_of_means(worth, node.mean, means)
        ratio, trust = _spread_ratio(node.count, node.variance, common.variance)
        logs = precision * np.log(slope) + trust * ratio
        gain = _bounded_gain(logs / (precision + trust + PRIOR_GAIN_DEVIATION**-2))
        return fit_shift(node, common, gain)


# --- one node ------------------------------------------------------------------------------------


def fit_shift(node: NodeTable, common: CommonTable, gain: Floats | None = None) -> NodeAlignment:
    """Estimate the shift of one node whose gain is known (1 by default)."""
    if gain is None:
        gain = np.ones(node.mean.shape[1])
    means, worth = _comparable(node, common)
    total = worth.sum(axis=0)
    safe = _divisor(total)
    shift = (worth * (node.mean - gain * means)).sum(axis=0) / safe
    return NodeAlignment(gain, shift, np.where(total > 0, 1.0 / safe, np.inf))


def _comparable(node: NodeTable, common: CommonTable) -> tuple[Floats, Floats]:
    """Return common means, 0 where there are none, and how much each of them counts."""
    usable = (node.count > 0) & np.isfinite(common.mean)
    means = np.where(usable, common.mean, 0.0)
    return means, np.where(usable, mean_evidence(node.count), 0.0) / common.spread


def _spread_ratio(count: Floats, variance: Floats, common: Floats) -> tuple[Floats, Floats]:
    """Return the logarithm of the node's spreads over the common ones, and its precision."""
    with np.errstate(invalid="ignore"):
        usable = (count >= 3) & (variance > 0) & (common > 0)
    logs = 0.5 * np.log(np.where(usable, variance, 1.0) / np.where(usable, common, 1.0))
    worth = np.where(usable, _spread_evidence(count), 0.0)
    total = worth.sum(axis=0)
    return (worth * logs).sum(axis=0) / _divisor(total), total


# --- gains ---------------------------------------------------------------------------------------


def _straightened(tables: ClassTables, weights: Floats, gain: Floats) -> tuple[Floats, Floats]:
    """Return shifts and common means when gains are known."""
    wide = gain[:, None, :]
    return fit_additive(tables.mean / wide, weights * wide * wide)


def _gain_of_spreads(tables: ClassTables) -> tuple[Floats, Floats]:
    """Return logarithms of gains from spreads, and their precision."""
    usable = (tables.count >= 3) & (tables.variance > 0)
    logs = 0.5 * np.log(np.where(usable, tables.variance, 1.0))
    # Who shares a class with nobody learns nothing about gains from it.
    weights = np.where(usable & (usable.sum(axis=0) > 1), _spread_evidence(tables.count), 0.0)
    nodes, _ = fit_additive(logs, weights)
    return centred(nodes, weights > 0), weights.sum(axis=1)


def _gain_of_means(weights: Floats, ours: Floats, common: Floats) -> tuple[Floats, Floats]:
    """Return the slope of a node's means over the common ones, and the precision of its logarithm.

    The last two axes are classes and features; there may be nodes before them.
    """
    safe = _divisor(weights.sum(axis=-2, keepdims=True))
    ours = ours - (weights * ours).sum(axis=-2, keepdims=True) / safe
    theirs = common - (weights * common).sum(axis=-2, keepdims=True) / safe
    precision = (weights * theirs * theirs).sum(axis=-2)
    slope = (weights * theirs * ours).sum(axis=-2) / _divisor(precision)
    usable = (precision > 0) & (slope > 1.0 / MAX_GAIN)
    slope = np.where(usable, np.minimum(slope, MAX_GAIN), 1.0)
    # The error of a logarithm is the relative one.
    return slope, np.where(usable, precision * slope * slope, 0.0)


def _spread_evidence(count: Floats) -> Floats:
    """Return the precision of the logarithm of a spread of so many readings."""
    with np.errstate(divide="ignore"):
        worth: Floats = 2.0 / (1.0 / np.maximum(count - 1.0, 0.0) + 1.0 / SPREAD_COUNT)
    return worth


def _divisor(total: Floats) -> Floats:
    """Return the total, or 1 where it is zero, to divide by."""
    return np.where(total > 0, total, 1.0)


def _trust(tables: ClassTables, values: Floats, weights: Floats) -> Floats:
    """Return less than 1 for cells (a class of a node) that contradict all others."""
    held = tables.held
    compared = held & (held.sum(axis=0) > 2) & (held.sum(axis=1) > 1)[:, None]
    chance = CHANCE_ERRORS * np.sqrt(1.0 / np.maximum(tables.samples, 1.0) + 1.0 / RELIABLE_COUNT)
    trust = np.ones(held.shape)
    for _ in range(DOUBT_ROUNDS):
        nodes, classes = fit_additive(values, weights * trust[:, :, None])
        distance = _distance(values - nodes[:, None] - classes[None], weights, tables.spread)
        usual = float(np.median(distance[compared])) if compared.any() else 0.0
        limit = np.maximum(DOUBTED_RATIO * usual, chance)
        new = (limit / np.maximum(distance, limit)) ** 2
        if np.array_equal(new, trust):
            break
        trust = new
    return trust


def _distance(residuals: Floats, weights: Floats, spread: Floats) -> Floats:
    """Return how far each cell is off, in deviations within its class; 0 if there is none."""
    known = weights > 0
    squares = np.where(known, residuals * residuals / spread, 0.0).sum(axis=2)
    distance: Floats = np.sqrt(squares / np.maximum(known.sum(axis=2), 1))
    return distance


def _bounded_gain(logs: Floats) -> Floats:
    limit = np.log(MAX_GAIN)
    gain: Floats = np.exp(np.clip(logs, -limit, limit))
    return gain


# --- nodes and classes ---------------------------------------------------------------------------


def fit_additive(values: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Fit values[i, k] = node[i] + class[k] by weighted least squares, feature by feature.

    This is least squares over all edges of the sharing graph: what is left when the classes are
    taken out of the equations is its Laplacian. A constant may move between nodes and classes
    in each component of the graph; see `centred`. What has no weight may be anything finite.

    Return the parts of nodes (nodes x features) and classes (classes x features).
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
    for _ in range(REFINEMENTS):
        more = solve(y - nodes[:, :, None] - classes[:, None, :])
        nodes, classes = nodes + more[0], classes + more[1]
    return nodes.T, classes.T


def _solver(w: Floats):  # type: ignore[no-untyped-def]
    """Return a solver by the smaller side: rows are taken out of the equations."""
    row_total, column_total = w.sum(axis=2), w.sum(axis=1)
    share = w / np.where(row_total > 0, row_total, 1.0)[:, :, None]
    matrix = -np.einsum("fik,fil->fkl", share, w)
    diagonal = np.arange(w.shape[2])
    matrix[:, diagonal, diagonal] += column_total
    # To one unit, so that what is unknown can be told from what is small.
    unit = 1.0 / np.sqrt(np.where(column_total > 0, column_total, 1.0))
    inverse = np.linalg.pinv(
        matrix * unit[:, :, None] * unit[:, None, :], rcond=MIN_EIGENVALUE, hermitian=True
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
    """Move the parts of nodes (nodes x features) to mean zero in each component.

    `cells` says what they were found from (nodes x classes x features). Nodes may be connected in
    one feature and not in another that some of them do not have. Of how components differ nothing
    is known, so they are taken not to differ.
    """
    groups, known = components_by_feature(cells), cells.any(axis=1)
    out = np.zeros_like(part)
    for group in np.unique(groups[known]):
        inside = (groups == group) & known
        total = np.maximum(inside.sum(axis=0), 1)
        mean = np.where(inside, part, 0.0).sum(axis=0) / total
        out = np.where(inside, part - mean, out)
    return out


# --- what auto tries ------------------------------------------------------------------------------


def candidates(*, scaled: bool) -> list[str]:
    """Return the names of corrections that `drift="auto"` tries, from simple to complicated.

    Those that need standardized features are among them only if models are `scaled`.
    """
    known = {name: get_correction(name) for name in CORRECTIONS}
    return [
        name
        for name, correction in known.items()
        if correction.automatic and (scaled or not correction.needs_scales)
    ]
