"""What single readings leave in a model, and its arrays without that, to be shared.

Whoever has two states of a model one reading apart must not find that reading in optimiser moments,
counts of prototypes, births or extremes. So these are left out, rounded, or made anew from what is
shared anyway: a model that goes on learning from there behaves as `START_SQUARES` says.

Class counts, means and spreads stay as they are: two states one reading apart do tell it. That is
for who publishes to prevent, see `streamlvq.fleet.held_back`. None of this is differential privacy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from streamlvq.arrays import Array, Floats
from streamlvq.kernels import kernels
from streamlvq.kernels import layout as at
from streamlvq.models.engine import ARRAY_SECTIONS, ModelSpec, first_random

if TYPE_CHECKING:
    from streamlvq.models.base import LVQClassifier
    from streamlvq.models.validation import StateSizes

# Mean squared gradient of a feature for each reading that a prototype has won: what prototypes and
# metrics start from. Steps are as long as they were, on segments; digits and cancer agree.
START_SQUARES = 0.5
METRIC_START_SQUARES = 10.0
CLASS_REACH = 3.0  # standard deviations from a class mean to which its readings are taken to reach
PEAK_STEP = 2.0**0.5  # to which largest deviations are rounded; by it GLVQ decides as before
READINGS = ("class_low", "class_high", *(name for name in ARRAY_SECTIONS if "buffer" in name))


def shared_sizes(model: LVQClassifier, sizes: StateSizes) -> StateSizes:
    """Return sizes without stored readings and without what tells random draws."""
    seed = 0 if model.seed is None else sizes.seed
    return msgspec.structs.replace(sizes, stored=0, seed=seed, random=first_random(seed))


def shared_arrays(
    model: LVQClassifier,
    spec: ModelSpec,
    sizes: StateSizes,
    arrays: Mapping[str, Array],
    *,
    same_norms: bool = True,
) -> dict[str, Array]:
    """Return the arrays of a model without what single readings leave in them.

    Doing it again changes nothing. `same_norms`: norms of metrics do not change, though their
    scales do; otherwise they would tell the scales. For sums over nodes that is of no concern.
    """
    shared = {name: array.copy() for name, array in arrays.items() if name not in READINGS}
    settings = model._parameters()
    if "mean" in shared:
        _restart_scales(shared, spec, settings[at.SCALE_FLOOR], sizes.prototypes, same_norms)
    shared["calibration"][at.CURVATURE] = power_of_two(shared["calibration"][at.CURVATURE])
    if "platt" in shared:
        _round_sigmoids(shared["platt"])
    if "wins" in shared:
        _round_counts(shared, settings[at.LEARNING_RATE])
    if "w_moment" in shared:
        _restart_moments(shared, spec, settings[at.STEP_DECAY], sizes.prototypes)
    return shared


def power_of_two(values: Any) -> Any:
    """Round to the nearest powers of two in ratio, with the same sign; 0 stays 0.

    Examples
    --------
    >>> power_of_two(np.array([0.0, 1.0, 5.0, 6.0, -90.0])).tolist()
    [0.0, 1.0, 4.0, 8.0, -64.0]

    """
    size = np.abs(values)
    exponent = np.rint(np.log2(np.where(size > 0.0, size, 1.0)))
    return np.where(size > 0.0, np.sign(values) * np.exp2(np.clip(exponent, -1022, 1023)), 0.0)


def _round_counts(arrays: dict[str, Array], learning_rate: float) -> None:
    """Round what counts readings of a prototype, and its rate in OLVQ1, which counts them too."""
    arrays["wins"] = power_of_two(arrays["wins"])
    arrays["usefulness"] = power_of_two(arrays["usefulness"])
    arrays["born"] = np.zeros_like(arrays["born"])
    if learning_rate > 0.0:
        rate = np.minimum(arrays["rate"], learning_rate)  # as `kernels.learning.lvq1` bounds it
        arrays["rate"] = learning_rate * power_of_two(rate / learning_rate)


def _round_sigmoids(platt: Array) -> None:
    """Round the curvatures and counts of sigmoids of pairs, in place."""
    platt[:, at.PLATT_CURVATURE :] = power_of_two(platt[:, at.PLATT_CURVATURE :])
    platt[:, at.PLATT_CURVATURE + 1] = 0.0


# --- scales --------------------------------------------------------------------------------------


def _restart_scales(
    arrays: dict[str, Array], spec: ModelSpec, floor: float, prototypes: int, same_norms: bool
) -> None:
    """Replace largest deviations, each of a single reading, and scales with them.

    Learnt metrics follow the scales, so that distances stay in proportion, and prototypes and
    classes show what deviations there are. Where scales are the metric, or the length of distances
    counts, the largest deviation is rounded.
    """
    arrays["peak"] = rounded_peaks(arrays) if scales_count(spec) else reach(arrays, prototypes)
    before, arrays["inverse"] = arrays["inverse"], inverse_scales(arrays, spec, floor)
    usable = (before > 0.0) & (arrays["inverse"] > 0.0)
    ratio = np.where(usable, before / np.where(usable, arrays["inverse"], 1.0), 1.0)
    if "omega" not in arrays or (ratio == 1.0).all():
        return
    omega = arrays["omega"][: used_metrics(spec, prototypes)]
    norm = np.linalg.norm(omega, axis=(1, 2), keepdims=True)
    omega *= ratio
    if same_norms:
        largest = np.abs(omega).max(axis=(1, 2), keepdims=True, initial=0.0)
        omega[...] = np.ldexp(omega, -np.frexp(largest)[1])  # squares of others may overflow
        size = np.linalg.norm(omega, axis=(1, 2), keepdims=True)
        omega *= norm / np.where(size > 0.0, size, 1.0)


def scales_count(spec: ModelSpec) -> bool:
    """Return whether decisions depend on the scales of features, whatever the metric is."""
    return spec.kind == at.EUCLIDEAN or spec.rule == at.RULE_RSLVQ


def rounded_peaks(arrays: Mapping[str, Array]) -> Floats:
    """Return largest deviations in standard deviations, rounded to factors of `PEAK_STEP`."""
    deviation = np.sqrt(arrays["variance"])
    unit = np.where(deviation > 0.0, deviation, 1.0)
    ratio = arrays["peak"] / unit
    steps = np.rint(np.log2(np.where(ratio > 0.0, ratio, 1.0)) / np.log2(PEAK_STEP))
    found: Floats = np.where(ratio > 0.0, unit * np.exp2(steps * np.log2(PEAK_STEP)), 0.0)
    return np.minimum(found, 2.0 * at.LARGEST_VALUE)


def reach(arrays: Mapping[str, Array], prototypes: int) -> Floats:
    """Return how far from the mean prototypes and classes are, feature by feature."""
    mean = arrays["mean"]
    own = np.abs(arrays["w"][:prototypes] - mean)
    deviation = CLASS_REACH * np.sqrt(arrays["class_variance"])
    classes = np.abs(arrays["class_mean"] - mean) + deviation
    classes = np.where(arrays["class_weight"] > 0.0, classes, 0.0)
    found: Floats = np.maximum(
        np.fmax.reduce(own, axis=0, initial=0.0), classes.max(axis=0, initial=0.0)
    )
    return np.minimum(found, 2.0 * at.LARGEST_VALUE)


def inverse_scales(arrays: Mapping[str, Array], spec: ModelSpec, floor: float) -> Floats:
    """Return inverse scales as `kernels.statistics` makes them of deviations and peaks."""
    if not spec.standardize:
        return arrays["inverse"].copy()
    constants = kernels("features")
    variance, mean = arrays["variance"], arrays["mean"]
    squared = np.maximum(variance, (floor * arrays["peak"]) ** 2)
    spread = (squared > constants.RELATIVE_ROUNDING * mean * mean) & (arrays["varies"] > 0.0)
    inverse: Floats = np.where(spread, 1.0 / np.sqrt(np.where(spread, squared, 1.0)), 0.0)
    if spec.sparse:
        inverse = np.sqrt(inverse)
    if spec.kind == at.EUCLIDEAN:  # what moves late gets its weight with time
        weight, still = arrays["weight"], np.maximum(arrays["still"], constants.STILL_WEIGHT)
        late = np.sqrt(np.maximum(constants.MIN_LATE_SHARE, weight / still))
        inverse = np.where(weight < arrays["still"], inverse * late, inverse)
    return inverse


# --- optimiser -----------------------------------------------------------------------------------


def used_metrics(spec: ModelSpec, prototypes: int) -> int:
    """Return the number of metrics that so many prototypes use."""
    if spec.kind == at.EUCLIDEAN or prototypes == 0:
        return 0
    return 1 + spec.metric_of(prototypes - 1)


def _restart_moments(
    arrays: dict[str, Array], spec: ModelSpec, decay: float, prototypes: int
) -> None:
    """Start squared gradients as after `wins` readings with gradients of the usual length."""
    lasting = 1.0 / (1.0 - decay) if decay < 1.0 else np.inf
    wins = np.minimum(arrays["wins"][:prototypes], lasting)
    moment = np.zeros_like(arrays["w_moment"])
    moment[:prototypes] = START_SQUARES * wins[:, None]
    arrays["w_moment"] = moment
    if "omega" not in arrays:
        return
    used = used_metrics(spec, prototypes)
    users = np.array([spec.metric_of(p) for p in range(prototypes)], np.int64)
    count = np.minimum(np.bincount(users, wins, minlength=used), lasting)
    rank, width = arrays["row_moment"].shape[1], arrays["column_moment"].shape[1]
    squares = METRIC_START_SQUARES * count
    for name in ("row_moment", "column_moment", "total_moment"):
        arrays[name] = np.zeros_like(arrays[name])
    arrays["column_moment"][:used] = squares[:, None]
    arrays["row_moment"][:used] = squares[:, None] * (width / rank)
    arrays["total_moment"][:used] = squares * width
