"""Running mean, deviation and scale of every feature.

The scale of a feature is its standard deviation, but never less than `SCALE_FLOOR` of the largest
deviation from the mean seen so far: a pixel or a flag that is almost always zero would otherwise be
tens of deviations off whenever it is not. Like the standard deviation, this scale is equivariant
under affine changes of units.
"""

from __future__ import annotations

from math import sqrt

from streamlvq.kernels import layout as at
from streamlvq.kernels.compile import helper
from streamlvq.kernels.views import row, vector

# A deviation this much smaller than the mean is rounding error.
RELATIVE_ROUNDING = 1e-20


@helper
def running(x, forget, weight, mean, variance):
    """Update a running weight, mean and variance; NaN (missing) changes nothing."""
    for i in range(x.shape[0]):
        here = 1.0 if x[i] == x[i] else 0.0
        delta = x[i] - mean[i] if x[i] == x[i] else 0.0
        weight[i] = weight[i] + here * (1.0 - (1.0 - forget) * weight[i])
        share = here / max(weight[i], 1.0)
        mean[i] += share * delta
        variance[i] = (1.0 - share) * (variance[i] + share * delta * delta)


@helper
def observe(floats, ints, x):
    """Update the scales with one reading; missing features (NaN) change nothing."""
    d = ints[at.FEATURES]
    forget = floats[at.FORGET]
    floor = floats[at.SCALE_FLOOR]
    mean = vector(floats, ints, at.MEAN, d)
    variance = vector(floats, ints, at.VARIANCE, d)
    peak = vector(floats, ints, at.PEAK, d)
    inverse = vector(floats, ints, at.INVERSE, d)
    running(x, forget, vector(floats, ints, at.WEIGHT, d), mean, variance)
    for i in range(d):
        if x[i] == x[i]:
            peak[i] = max(forget * peak[i], abs(x[i] - mean[i]))
    if ints[at.STANDARDIZE] == 0:
        for i in range(d):
            inverse[i] = 1.0
        return
    for i in range(d):
        squared = max(variance[i], floor * floor * peak[i] * peak[i])
        rounding = RELATIVE_ROUNDING * mean[i] * mean[i]
        # Constant so far: no information.
        inverse[i] = 1.0 / sqrt(squared) if squared > rounding else 0.0


@helper
def observe_class(floats, ints, x, c):
    """Update count, mean and variance of one class, in raw units."""
    d = ints[at.FEATURES]
    n = ints[at.CLASSES]
    forget = floats[at.FORGET]
    vector(floats, ints, at.CLASS_COUNT, n)[c] += 1.0
    weight = row(floats, ints, at.CLASS_WEIGHT, c, d)
    mean = row(floats, ints, at.CLASS_MEAN, c, d)
    running(x, forget, weight, mean, row(floats, ints, at.CLASS_VARIANCE, c, d))
