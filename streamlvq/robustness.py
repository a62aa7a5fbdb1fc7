"""How far a reading may move before its label is refused, or before it changes.

A *length* here is the root of what models report as a distance: those are squared.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streamlvq.engine import Engine
from streamlvq.kernels import layout as at
from streamlvq.models import insight
from streamlvq.models.array_classifier import Label
from streamlvq.models.base import LVQClassifier
from streamlvq.models.parameters import check_range
from streamlvq.state import Floats, Ints
from streamlvq.vectorize import Reading

__all__ = [
    "AcceptanceBall",
    "Certificate",
    "acceptance_ball",
    "certificate",
    "is_outlier",
    "prototype_distance",
]

Bools = npt.NDArray[np.bool_]

FARTHEST = 1e200  # as in the kernels: what a distance that cannot be computed counts as
TINY = 1e-12  # as in the kernels: distances below this are hardly told apart
ROUNDING = 1e-12  # relative, of all that adds up to a distance
SAFETY = 1.0 - 1e-9  # against rounding in what follows from them


# --- thresholds ----------------------------------------------------------------------------------


class AcceptanceBall(NamedTuple):
    """The readings that a threshold on RelSim accepts, seen from the winner.

    Parameters
    ----------
    towards
        Length from the winner to the last accepted reading on the way to the runner-up.
    away
        Length from the winner to the last accepted reading on the opposite side, which is the
        farthest of all.
    centre
        Where the centre of the ball lies on the line from the winner to the runner-up; negative,
        because it lies behind the winner.
    radius
        Of the ball.

    """

    towards: float
    away: float
    centre: float
    radius: float


def acceptance_ball(threshold: float, distance: float) -> AcceptanceBall:
    """The region in which the RelSim between two prototypes reaches a threshold.

    RelSim reaches the threshold where the length to the winner is at most k times the length to
    the runner-up, k = sqrt((1 - threshold) / (1 + threshold)). If both measure with the same
    metric, that is a ball around a point behind the winner. All numbers are lengths in that metric.
    At threshold 1 the ball shrinks to the winner itself; at 0 it has grown to the half space of
    all readings on the winner's side: `towards` ends on the border, the rest is infinite.

    Parameters
    ----------
    threshold
        The RelSim that is asked for, from 0 to 1.
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
    """Without a look at the numbers, for rejectors that have seen to them."""
    if threshold == 0.0:
        return AcceptanceBall(distance / 2.0, math.inf, -math.inf, math.inf)
    # 1 - k would lose its digits at small thresholds, 1 - k^2 = 2 threshold / (1 + threshold) not.
    k = math.sqrt((1.0 - threshold) / (1.0 + threshold))
    centre = -distance * (1.0 - threshold) / (2.0 * threshold)
    radius = distance * k * (1.0 + threshold) / (2.0 * threshold)
    return AcceptanceBall(distance * k / (1.0 + k), radius - centre, centre, radius)


def is_outlier(threshold: float, squared_distance: float, prototype_distance: float) -> bool:
    """Whether a reading is too far from its winner to be accepted, whatever its direction.

    Two prototypes in the same place make every reading ambiguous and none an outlier.

    Parameters
    ----------
    threshold
        The RelSim that is asked for, from 0 to 1; at 0 nothing is an outlier.
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
    """As `is_outlier`, without a look at the numbers."""
    away = _ball(threshold, prototype_distance).away
    return prototype_distance > 0.0 and math.sqrt(squared_distance) > away


def prototype_distance(
    model: LVQClassifier, winner: int, runner_up: int, x: Reading | None = None
) -> float:
    """The length between two prototypes, in the metric of the first.

    Parameters
    ----------
    model
        A model that has learnt something.
    winner
        The `index` of a prototype.
    runner_up
        The `index` of another one.
    x
        Leave out the features that this reading lacks, as the distances to it do.

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
    return math.sqrt(_squared_length(insight.metric_of(engine, winner), z))


def _squared_length(metric: Floats, z: Floats) -> float:
    """Of a difference in feature scales, NaN where a feature is missing, as the kernels do it."""
    known, weight = ~np.isnan(z), np.diag(metric)
    there = float(weight[known].sum())
    if there <= 0.0:
        return 1.0  # nothing in common
    z = np.where(known, z, 0.0)
    squared = float(weight.sum()) / there * float(z @ metric @ z)
    return min(max(squared, 0.0), FARTHEST)  # a low rank may leave less than zero


# --- certificates --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Certificate:
    """What may happen to a reading without changing its label.

    Parameters
    ----------
    label
        What the model says.
    metric
        No perturbation shorter than this changes the label, measured as the model measures: the
        root of a distance, so that 1 is "one deviation per feature", and what the metric does not
        look at is free. If prototypes do not measure alike, it is to be measured by the one to
        which it looks longest.
    raw
        No perturbation shorter than this changes the label, measured in the units of the sensors:
        the root of the sum of its squares.
    exact
        Whether perturbations of just these lengths do reach the border. If not, the label may be
        safer than the numbers say, never less safe.

    """

    label: Label
    metric: float
    raw: float
    exact: bool


def certificate(model: LVQClassifier, x: Reading) -> Certificate:
    """How much a reading may change before its label could.

    The label holds while each prototype of another class stays behind some prototype of the
    label's own. If the two measure alike, the border between them is a plane, and the way to it is
    known. If not, the bounds are more cautious: a perturbation changes no length by more than its
    own. Prototypes measure alike in a model with one metric for all, provided that they know the
    same features of the reading.

    Perturbations change values that are there; none appears or goes missing. Features that have
    been constant so far count for nothing, so that changing them changes no label. While there is
    only one class, the label can stand anything: the bounds are infinite.

    Parameters
    ----------
    model
        A model that decides by the closest prototype: Kohonen's and the GLVQ family, but neither
        the RSLVQ family and PairwiseLVQ, whose prototypes decide together, nor committees.
    x
        A reading.

    Examples
    --------

    >>> from river import datasets
    >>> import streamlvq
    >>> from streamlvq import robustness

    >>> model = streamlvq.GMLVQ()
    >>> for x, y in datasets.ImageSegments().take(500):
    ...     model.learn_one(x, y)
    >>> found = robustness.certificate(model, x)
    >>> found.label, found.exact
    ('foliage', False)
    >>> found.metric
    0.117

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
    count = engine.state.size(at.PROTOTYPES)
    mine = engine.state["label"][:count] == code
    with np.errstate(all="ignore"):  # what overflows ends as a bound of zero
        view = _look(engine, engine.work[: engine.state.size(at.FEATURES)], slice(count))
        if mine.all() or not view.roots.any():
            bounds = _Bounds(math.inf, math.inf, True)
        elif len(view.roots) == 1:
            bounds = _planes(view, *_sides(mine))
        else:
            bounds = _unlike(view, *_sides(mine))
    return Certificate(model.classes[code], *bounds)


def _check_decides_by_distance(model: Any) -> LVQClassifier:
    if not isinstance(model, LVQClassifier) or not model.decides_by_distance():
        name = type(model).__name__
        raise TypeError(f"expected a model that decides by the closest prototype, got {name}")
    return model


class _View(NamedTuple):
    """A reading as prototypes see it."""

    # Roots of the metrics for perturbations in raw units: a length is that of root @ perturbation.
    # One for all if all measure alike; diagonal ones are written as a single row.
    roots: Floats
    diagonal: bool
    seen: Floats  # root @ (reading - prototype), a row for each prototype
    distances: Floats  # squared
    blur: Floats  # of the distances, here and in the kernels: what may be due to rounding


def _look(engine: Engine, x: Floats, chosen: slice) -> _View:
    """What the kernels measure, for chosen prototypes at once and with all that led to it."""
    offset = x - engine.state["w"][chosen]
    known = ~np.isnan(offset)
    offset[~known] = 0.0
    if not engine.spec.local and (known == known[0]).all():
        known = known[:1]
    omega = _omega(engine, chosen)
    weight = (omega**2).sum(axis=1)
    there = (weight * known).sum(axis=1)
    factor = np.divide(weight.sum(axis=1), there, out=np.zeros_like(there), where=there > 0.0)
    roots = np.sqrt(factor)[:, None, None] * omega * (known * engine.state["inverse"])[:, None]
    diagonal = engine.spec.kind != at.MATRIX
    seen = _forth(roots, offset[:, None], diagonal)[:, 0]
    distances = np.where(factor > 0.0, (seen**2).sum(axis=1), 1.0)  # 1: nothing in common
    distances = np.where(distances < FARTHEST, distances, FARTHEST)
    return _View(roots, diagonal, seen, distances, _blur(roots, offset, distances, diagonal))


def _blur(roots: Floats, offset: Floats, distances: Floats, diagonal: bool) -> Floats:
    """Large differences that cancel in a product leave their rounding errors behind."""
    error = ROUNDING * _lengths(_forth(np.abs(roots), np.abs(offset)[:, None], diagonal)[:, 0])
    blur: Floats = error * (2.0 * np.sqrt(distances) + error) + ROUNDING * TINY
    return blur


def _omega(engine: Engine, chosen: slice) -> Floats:
    """The metrics of these prototypes, or the one that they share, as the kernels keep them."""
    if engine.spec.kind == at.EUCLIDEAN:
        d = engine.state.size(at.FEATURES)
        return np.full((1, 1, d), max(d, 1) ** -0.5)
    omega: Floats = engine.state["omega"][chosen if engine.spec.local else slice(1)]
    return omega


class _Bounds(NamedTuple):
    metric: float
    raw: float
    exact: bool


def _sides(mine: Bools) -> tuple[Ints, Ints]:
    return np.flatnonzero(mine), np.flatnonzero(~mine)


def _margins(view: _View, own: Ints, rivals: Ints) -> Floats:
    """By how much each rival (rows) is certain to be behind each of the class (columns)."""
    near, far = view.distances + view.blur, view.distances - view.blur
    margins: Floats = far[rivals][:, None] - near[own]
    return margins


def _quotients(margins: Floats, reach: Floats) -> Floats:
    return np.nan_to_num(margins / reach, nan=0.0, posinf=np.inf, neginf=-np.inf)


def _decisive(bounds: Floats) -> tuple[int, int]:
    """The rival that comes closest, and the prototype of the class that best holds it off."""
    j = int(bounds.max(axis=1).argmin())
    return j, int(bounds[j].argmax())


def _bound(bounds: Floats) -> float:
    return max(0.0, SAFETY * float(bounds[_decisive(bounds)]))


def _planes(view: _View, own: Ints, rivals: Ints) -> _Bounds:
    """For prototypes that measure alike: the difference of two distances is linear in the reading.

    Its slope is twice the difference of the prototypes, in the metric or turned into raw units.
    """
    seen = view.seen[own]
    margins = _margins(view, own, rivals)
    apart = view.seen[rivals][:, None] - seen
    slope = _back(view.roots, apart, view.diagonal)
    apart_length, slope_length = _lengths(apart), _lengths(slope)
    metric = _quotients(margins, 2.0 * apart_length)
    raw = _quotients(margins, 2.0 * slope_length)
    if _bound(metric) == 0.0:
        return _Bounds(0.0, 0.0, True)
    m, r = _decisive(metric), _decisive(raw)
    to_border = apart[m] * (metric[m] / apart_length[m])
    raw_to_border = _forth(view.roots, slope[r] * (raw[r] / slope_length[r]), view.diagonal)
    exact = _is_border(seen, to_border, m) and _is_border(seen, raw_to_border, r)
    return _Bounds(_bound(metric), _bound(raw), exact)


def _is_border(seen: Floats, step: Floats, pair: tuple[int, int]) -> bool:
    """Whether no third prototype of the class is closer where a step reaches the plane of two."""
    return int(_lengths(seen - step).argmin()) == pair[1]


def _unlike(view: _View, own: Ints, rivals: Ints) -> _Bounds:
    """For prototypes that measure each in its own way: by the triangle inequality, mostly.

    In raw units there is a second bound, and each is the better one for some pairs.
    """
    margins = _margins(view, own, rivals)
    lengths, stretch = np.sqrt(view.distances), _stretch(view)
    between = _sums(lengths, own, rivals)  # turns margins of distances into those of lengths
    metric = _quotients(margins, between * _sums(np.sign(stretch), own, rivals))
    triangles = _quotients(margins, between * _sums(stretch, own, rivals))
    raw = np.maximum(triangles, _parabolas(view, margins, stretch, own, rivals))
    return _Bounds(_bound(metric), _bound(raw), math.isinf(_bound(metric)))


def _parabolas(view: _View, margins: Floats, stretch: Floats, own: Ints, rivals: Ints) -> Floats:
    """The difference of two distances is quadratic: its slope, and the worst that it may bend."""
    pull = _back(view.roots, view.seen[:, None], view.diagonal)[:, 0]
    slope = _lengths(pull[rivals][:, None] - pull[own])
    curved = stretch[own] * np.sqrt(np.maximum(margins, 0.0))
    return _quotients(margins, slope + np.hypot(slope, curved))


def _stretch(view: _View) -> Floats:
    """The most that each root makes of a perturbation of length 1."""
    size = np.abs(view.roots).max(axis=(1, 2))
    if view.diagonal:
        return np.asarray(size)
    unit = view.roots / np.where(size > 0.0, size, 1.0)[:, None, None]
    squared = np.linalg.eigvalsh(unit @ unit.transpose(0, 2, 1))[:, -1]
    stretch: Floats = size * np.sqrt(np.maximum(squared, 0.0))
    return stretch


def _sums(values: Floats, own: Ints, rivals: Ints) -> Floats:
    sums: Floats = values[rivals][:, None] + values[own]
    return sums


def _lengths(vectors: Floats) -> Floats:
    lengths: Floats = np.sqrt((vectors * vectors).sum(axis=-1))
    return lengths


def _forth(roots: Floats, perturbations: Floats, diagonal: bool) -> Floats:
    """Perturbations in raw units as the roots see them."""
    seen: Floats = perturbations * roots if diagonal else perturbations @ roots.transpose(0, 2, 1)
    return seen


def _back(roots: Floats, seen: Floats, diagonal: bool) -> Floats:
    """The transpose of `_forth`."""
    raw: Floats = seen * roots if diagonal else seen @ roots
    return raw
