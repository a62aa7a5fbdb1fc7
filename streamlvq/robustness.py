"""Robustness of decisions: acceptance regions of rejectors, and certificates for labels.

Models report squared distances; a *length* is the root of one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from streamlvq.arrays import Bools, Floats, Ints, Label, Reading
from streamlvq.kernels import layout as at
from streamlvq.models import insight
from streamlvq.models.base import LVQClassifier
from streamlvq.models.engine import Engine
from streamlvq.models.parameters import check_range

MAX_DISTANCE = 1e200  # as in the kernels: replaces distances that overflow
TINY = 1e-12  # as in the kernels: distances below this are not distinguished
ROUNDING = 1e-12  # relative rounding error of the terms of a distance
SAFETY = 1.0 - 1e-9  # factor on bounds, against rounding in their computation


# --- thresholds ----------------------------------------------------------------------------------


class AcceptanceBall(NamedTuple):
    """Region of readings that a RelSim threshold accepts, relative to the winner.

    Parameters
    ----------
    towards
        Length from the winner to the last accepted reading in the direction of the runner-up.
    away
        Length from the winner to the last accepted reading on the opposite side, which is the
        farthest of all.
    centre
        Position of the centre on the line from the winner to the runner-up; negative, because it
        lies behind the winner.
    radius
        Radius of the ball.

    """

    towards: float
    away: float
    centre: float
    radius: float


def acceptance_ball(threshold: float, distance: float) -> AcceptanceBall:
    """Return the region in which the RelSim between two prototypes reaches a threshold.

    RelSim reaches the threshold where the length to the winner is at most k times the length to
    the runner-up, k = sqrt((1 - threshold) / (1 + threshold)). If both share a metric, that is a
    ball around a point behind the winner. All numbers are lengths in that metric. At threshold 1
    the ball is the winner itself; at 0 it is the half space on the winner's side: `towards` ends on
    the border and the other numbers are infinite.

    Parameters
    ----------
    threshold
        RelSim threshold, from 0 to 1.
    distance
        Length between winner and runner-up, see `prototype_distance`.

    Examples
    --------

    >>> from streamlvq import robustness

    >>> robustness.acceptance_ball(0.6, distance=3.0)
    AcceptanceBall(towards=1.0, away=3.0, centre=-1.0, radius=2.0)

    References
    ----------
    - Brinkrolf, J. (2023). Learning vector quantization for the real-world: privacy, robustness,
      and sparsity. Dissertation, Bielefeld University. Theorem 5.

    """
    check_range("acceptance_ball", "threshold", threshold, 0, 1)
    check_range("acceptance_ball", "distance", distance, 0)
    return _ball(float(threshold), float(distance))


def _ball(threshold: float, distance: float) -> AcceptanceBall:
    """Compute the ball without checking arguments, for rejectors that already did."""
    if threshold == 0.0:
        return AcceptanceBall(distance / 2.0, math.inf, -math.inf, math.inf)
    # 1 - k would lose digits at small thresholds; 1 - k^2 = 2 threshold / (1 + threshold) does not.
    k = math.sqrt((1.0 - threshold) / (1.0 + threshold))
    centre = -distance * (1.0 - threshold) / (2.0 * threshold)
    radius = distance * k * (1.0 + threshold) / (2.0 * threshold)
    return AcceptanceBall(distance * k / (1.0 + k), radius - centre, centre, radius)


def is_outlier(threshold: float, squared_distance: float, prototype_distance: float) -> bool:
    """Return True if a reading is too far from its winner to be accepted in any direction.

    If both prototypes coincide, every reading is ambiguous and none is an outlier.

    Parameters
    ----------
    threshold
        RelSim threshold, from 0 to 1; at 0 no reading is an outlier.
    squared_distance
        Squared distance of the reading to its winner, as explanations and decisions report it.
    prototype_distance
        Length between winner and runner-up, see `prototype_distance`.

    Examples
    --------

    >>> from streamlvq import robustness

    >>> robustness.is_outlier(0.6, squared_distance=9.1, prototype_distance=3.0)
    True
    >>> robustness.is_outlier(0.6, squared_distance=8.9, prototype_distance=3.0)
    False

    """
    check_range("is_outlier", "threshold", threshold, 0, 1)
    check_range("is_outlier", "squared_distance", squared_distance, 0)
    check_range("is_outlier", "prototype_distance", prototype_distance, 0)
    return is_beyond(threshold, squared_distance, prototype_distance)


def is_beyond(threshold: float, squared_distance: float, prototype_distance: float) -> bool:
    """Return `is_outlier` without checking arguments."""
    away = _ball(threshold, prototype_distance).away
    return prototype_distance > 0.0 and math.sqrt(squared_distance) > away


def prototype_distance(
    model: LVQClassifier, winner: int, runner_up: int, x: Reading | None = None
) -> float:
    """Return the length between two prototypes, in the metric of the first.

    Parameters
    ----------
    model
        Trained model.
    winner
        `index` of a prototype.
    runner_up
        `index` of another prototype.
    x
        Reading whose missing features are ignored, as in distances to it; None to use all.

    Examples
    --------

    >>> import streamlvq
    >>> from streamlvq import robustness

    >>> model = streamlvq.GLVQ(standardize=False)
    >>> model.learn_one({"x": 0.0, "y": 0.0}, "near")
    >>> model.learn_one({"x": 6.0, "y": 8.0}, "far")
    >>> robustness.prototype_distance(model, 0, 1) ** 2  # the mean over two features
    50.0

    """
    engine = insight.learnt(model.engine)
    insight.check_index(engine, winner)
    insight.check_index(engine, runner_up)
    w = engine.state["w"]
    z = (w[runner_up] - w[winner]) * engine.state["inverse"]
    if x is not None:
        z[np.isnan(model.vector(x))] = np.nan
    metric = insight.metric_of(engine, winner)
    return math.sqrt(_squared_length(metric, np.diag(metric) * insight.varying(engine), z))


def _squared_length(metric: Floats, weight: Floats, z: Floats) -> float:
    """Return the squared length of a difference in feature scales, computed as in the kernels.

    `weight` is the share of each feature, with which missing ones are made up for.
    """
    known = ~np.isnan(z)
    present_weight = float(weight[known].sum())
    if present_weight <= 0.0:
        return 1.0  # no feature in common
    z = np.where(known, z, 0.0)
    squared = float(weight.sum()) / present_weight * float(z @ metric @ z)
    return min(max(squared, 0.0), MAX_DISTANCE)  # rounding at a low rank may fall below zero


# --- certificates --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Certificate:
    """Perturbations of a reading that cannot change its label.

    Parameters
    ----------
    label
        The predicted label.
    metric
        No perturbation shorter than this changes the label, measured in the model's metric: the
        root of a distance, so that 1 means one deviation per feature, and directions that the
        metric ignores cost nothing. If prototypes have different metrics, the largest length in
        any of them counts.
    raw
        No perturbation shorter than this changes the label, measured in sensor units: the root of
        the sum of its squares.
    exact
        Whether perturbations of exactly these lengths reach the border. If not, the label may be
        more robust than the numbers, never less.

    """

    label: Label
    metric: float
    raw: float
    exact: bool


def certificate(model: LVQClassifier, x: Reading) -> Certificate:
    """Return bounds on the perturbations that leave the label of a reading unchanged.

    The label holds while each prototype of another class is farther away than some prototype of
    the label's own class. If the two share a metric, the border between them is a plane and the
    distance to it is exact. If not, the bounds are conservative, from the triangle inequality.
    Prototypes share a metric in models with a single one, provided that they know the same
    features of the reading.

    Perturbations change the values that are present; none appears or goes missing. Features that
    have been constant so far have no influence, so changing them changes no label. While there is
    only one class, the bounds are infinite.

    Parameters
    ----------
    model
        Model that decides by the closest prototype: Kohonen's and the GLVQ family, but not the
        RSLVQ family, PairwiseLVQ (whose prototypes decide together) or committees.
    x
        Reading to certify.

    Examples
    --------

    >>> from river import datasets
    >>> import streamlvq
    >>> from streamlvq import robustness

    >>> model = streamlvq.GMLVQ()
    >>> for x, y in datasets.ImageSegments().take(800):
    ...     model.learn_one(x, y)
    >>> found = robustness.certificate(model, x)
    >>> found.label, found.exact
    ('sky', True)
    >>> found.metric
    0.627

    References
    ----------
    - Saralajew, S., Holdijk, L., Villmann, T. (2020). Fast adversarial robustness certification of
      nearest prototype classifiers for arbitrary seminorms. NeurIPS 33.
    - Voracek, V., Hein, M. (2022). Provably adversarially robust nearest prototype classifiers.
      ICML 2022, 22361-22383.

    """
    _check_decides_by_distance(model).predict_labels_one(x)
    engine = insight.learnt(model.engine)
    code = int(engine.probabilities.argmax())
    count = engine.state.size(at.N_PROTOTYPES)
    own_class = engine.state["label"][:count] == code
    with np.errstate(all="ignore"):  # overflow results in a bound of zero
        view = _view_of(engine, engine.work[: engine.state.size(at.N_FEATURES)], slice(count))
        if own_class.all() or not view.roots.any():
            bounds = _Bounds(math.inf, math.inf, True)
        elif len(view.roots) == 1:
            bounds = _shared_metric_bounds(view, *_own_and_rivals(own_class))
        else:
            bounds = _local_metric_bounds(view, *_own_and_rivals(own_class))
    return Certificate(model.classes[code], *bounds)


def _check_decides_by_distance(model: Any) -> LVQClassifier:
    if not isinstance(model, LVQClassifier) or not model.decides_by_distance():
        name = type(model).__name__
        raise TypeError(f"expected a model that decides by the closest prototype, got {name}")
    return model


class _MetricView(NamedTuple):
    """A reading in the metrics of the prototypes."""

    # Roots of the metrics in raw units: the length of a perturbation is |root @ perturbation|.
    # A single root if all prototypes share the metric; diagonal roots are stored as one row.
    roots: Floats
    diagonal: bool
    projected: Floats  # root @ (reading - prototype), one row per prototype
    distances: Floats  # squared
    rounding: Floats  # bound on the rounding error of the distances, here and in the kernels


def _view_of(engine: Engine, x: Floats, chosen: slice) -> _MetricView:
    """Return distances to the chosen prototypes as in the kernels, with their ingredients."""
    offset = x - engine.state["w"][chosen]
    known = ~np.isnan(offset)
    offset[~known] = 0.0
    if not engine.spec.local and (known == known[0]).all():
        known = known[:1]
    omega = _omega(engine, chosen)
    weight = (omega**2).sum(axis=1) * insight.varying(engine)
    present_weight = (weight * known).sum(axis=1)
    factor = np.divide(
        weight.sum(axis=1),
        present_weight,
        out=np.zeros_like(present_weight),
        where=present_weight > 0.0,
    )
    roots = np.sqrt(factor)[:, None, None] * omega * (known * engine.state["inverse"])[:, None]
    diagonal = engine.spec.kind != at.MATRIX
    projected = _to_metric(roots, offset[:, None], diagonal)[:, 0]
    distances = np.where(factor > 0.0, (projected**2).sum(axis=1), 1.0)  # 1: no feature in common
    distances = np.where(distances < MAX_DISTANCE, distances, MAX_DISTANCE)
    return _MetricView(
        roots, diagonal, projected, distances, _rounding_errors(roots, offset, distances, diagonal)
    )


def _rounding_errors(roots: Floats, offset: Floats, distances: Floats, diagonal: bool) -> Floats:
    """Bound the rounding errors of the distances, which grow when large terms cancel."""
    error = ROUNDING * _lengths(_to_metric(np.abs(roots), np.abs(offset)[:, None], diagonal)[:, 0])
    rounding: Floats = error * (2.0 * np.sqrt(distances) + error) + ROUNDING * TINY
    return rounding


def _omega(engine: Engine, chosen: slice) -> Floats:
    """Return the metric roots of these prototypes, or their shared one, in feature scales."""
    if engine.spec.kind == at.EUCLIDEAN:
        d, varying = engine.state.size(at.N_FEATURES), engine.state.size(at.N_VARYING)
        return np.full((1, 1, d), max(varying, 1) ** -0.5)
    omega: Floats = engine.state["omega"][chosen if engine.spec.local else slice(1)]
    return omega


class _Bounds(NamedTuple):
    """The numbers of a `Certificate`."""

    metric: float
    raw: float
    exact: bool


def _own_and_rivals(own_class: Bools) -> tuple[Ints, Ints]:
    return np.flatnonzero(own_class), np.flatnonzero(~own_class)


def _margins(view: _MetricView, own: Ints, rivals: Ints) -> Floats:
    """Return by how much each rival (rows) is farther than each own prototype (columns)."""
    near, far = view.distances + view.rounding, view.distances - view.rounding
    margins: Floats = far[rivals][:, None] - near[own]
    return margins


def _quotients(margins: Floats, reach: Floats) -> Floats:
    return np.nan_to_num(margins / reach, nan=0.0, posinf=np.inf, neginf=-np.inf)


def _decisive_pair(bounds: Floats) -> tuple[int, int]:
    """Return the indices of the closest rival and of the own prototype that best beats it."""
    j = int(bounds.max(axis=1).argmin())
    return j, int(bounds[j].argmax())


def _bound(bounds: Floats) -> float:
    return max(0.0, SAFETY * float(bounds[_decisive_pair(bounds)]))


def _shared_metric_bounds(view: _MetricView, own: Ints, rivals: Ints) -> _Bounds:
    """Return bounds for a shared metric, where the difference of two distances is linear.

    Its slope is twice the difference of the prototypes, in the metric or in raw units.
    """
    projected = view.projected[own]
    margins = _margins(view, own, rivals)
    difference = view.projected[rivals][:, None] - projected
    slope = _to_raw(view.roots, difference, view.diagonal)
    difference_length, slope_length = _lengths(difference), _lengths(slope)
    metric = _quotients(margins, 2.0 * difference_length)
    raw = _quotients(margins, 2.0 * slope_length)
    if _bound(metric) == 0.0:
        return _Bounds(0.0, 0.0, True)
    m, r = _decisive_pair(metric), _decisive_pair(raw)
    to_border = difference[m] * (metric[m] / difference_length[m])
    raw_to_border = _to_metric(view.roots, slope[r] * (raw[r] / slope_length[r]), view.diagonal)
    exact = _is_border(projected, to_border, m) and _is_border(projected, raw_to_border, r)
    return _Bounds(_bound(metric), _bound(raw), exact)


def _is_border(projected: Floats, step: Floats, pair: tuple[int, int]) -> bool:
    """Return True if no other own prototype is closer where the step reaches the border."""
    return int(_lengths(projected - step).argmin()) == pair[1]


def _local_metric_bounds(view: _MetricView, own: Ints, rivals: Ints) -> _Bounds:
    """Return bounds for different metrics, from the triangle inequality.

    In raw units there is a second, quadratic bound; each pair uses the better of the two.
    """
    margins = _margins(view, own, rivals)
    lengths, gains = np.sqrt(view.distances), _gains(view)
    # Dividing by the sum of two lengths turns a margin of distances into one of lengths.
    between = _pair_sums(lengths, own, rivals)
    metric = _quotients(margins, between * _pair_sums(np.sign(gains), own, rivals))
    triangles = _quotients(margins, between * _pair_sums(gains, own, rivals))
    raw = np.maximum(triangles, _quadratic_bounds(view, margins, gains, own, rivals))
    return _Bounds(_bound(metric), _bound(raw), math.isinf(_bound(metric)))


def _quadratic_bounds(
    view: _MetricView, margins: Floats, gains: Floats, own: Ints, rivals: Ints
) -> Floats:
    """Return bounds in raw units from slope and largest curvature of the distance difference."""
    pull = _to_raw(view.roots, view.projected[:, None], view.diagonal)[:, 0]
    slope = _lengths(pull[rivals][:, None] - pull[own])
    curvature = gains[own] * np.sqrt(np.maximum(margins, 0.0))
    return _quotients(margins, slope + np.hypot(slope, curvature))


def _gains(view: _MetricView) -> Floats:
    """Return the largest factor by which each root lengthens a perturbation."""
    size = np.abs(view.roots).max(axis=(1, 2))
    if view.diagonal:
        return np.asarray(size)
    unit = view.roots / np.where(size > 0.0, size, 1.0)[:, None, None]
    squared = np.linalg.eigvalsh(unit @ unit.transpose(0, 2, 1))[:, -1]
    gains: Floats = size * np.sqrt(np.maximum(squared, 0.0))
    return gains


def _pair_sums(values: Floats, own: Ints, rivals: Ints) -> Floats:
    sums: Floats = values[rivals][:, None] + values[own]
    return sums


def _lengths(vectors: Floats) -> Floats:
    lengths: Floats = np.sqrt((vectors * vectors).sum(axis=-1))
    return lengths


def _to_metric(roots: Floats, perturbations: Floats, diagonal: bool) -> Floats:
    """Transform perturbations from raw units into the metric."""
    projected: Floats = (
        perturbations * roots if diagonal else perturbations @ roots.transpose(0, 2, 1)
    )
    return projected


def _to_raw(roots: Floats, projected: Floats, diagonal: bool) -> Floats:
    """Apply the transpose of `_to_metric`."""
    raw: Floats = projected * roots if diagonal else projected @ roots
    return raw
