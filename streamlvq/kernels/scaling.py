"""Running mean, deviation and scale of every feature.

The scale of a feature is its standard deviation, but never less than `SCALE_FLOOR` of the largest
deviation from the mean seen so far: a pixel or a flag that is almost always zero would otherwise be
blown up to tens of deviations whenever it speaks. Like the standard deviation itself this follows
any affine change of units.
"""

from __future__ import annotations

from math import sqrt

from streamlvq.kernels import layout as at
from streamlvq.kernels.compile import helper
from streamlvq.kernels.views import row, vector

# A deviation this much smaller than the mean is rounding, not information.
RELATIVE_ROUNDING = 1e-20


@helper
def observe(floats, ints, x):
    """Let one reading teach the scales; a missing feature (NaN) teaches nothing."""
    d = ints[at.FEATURES]
    forget = floats[at.FORGET]
    floor = floats[at.SCALE_FLOOR]
    mean = vector(floats, ints, at.MEAN, d)
    variance = vector(floats, ints, at.VARIANCE, d)
    peak = vector(floats, ints, at.PEAK, d)
    weight = vector(floats, ints, at.WEIGHT, d)
    inverse = vector(floats, ints, at.INVERSE, d)
    standardize = ints[at.STANDARDIZE]
    for i in range(d):
        if x[i] != x[i]:
            continue
        weight[i] = forget * weight[i] + 1.0
        share = 1.0 / weight[i]
        delta = x[i] - mean[i]
        mean[i] += share * delta
        variance[i] = (1.0 - share) * (variance[i] + share * delta * delta)
        peak[i] = max(forget * peak[i], abs(x[i] - mean[i]))
        squared = max(variance[i], floor * floor * peak[i] * peak[i])
        if standardize == 0:
            inverse[i] = 1.0
        elif squared > RELATIVE_ROUNDING * mean[i] * mean[i]:
            inverse[i] = 1.0 / sqrt(squared)
        else:
            inverse[i] = 0.0  # constant so far: says nothing


@helper
def observe_class(floats, ints, x, c):
    """Count, mean and spread of the readings of one class, in raw units."""
    d = ints[at.FEATURES]
    n = ints[at.CLASSES]
    forget = floats[at.FORGET]
    vector(floats, ints, at.CLASS_COUNT, n)[c] += 1.0
    weight = row(floats, ints, at.CLASS_WEIGHT, c, d)
    mean = row(floats, ints, at.CLASS_MEAN, c, d)
    variance = row(floats, ints, at.CLASS_VARIANCE, c, d)
    for i in range(d):
        if x[i] != x[i]:
            continue
        weight[i] = forget * weight[i] + 1.0
        share = 1.0 / weight[i]
        delta = x[i] - mean[i]
        mean[i] += share * delta
        variance[i] = (1.0 - share) * (variance[i] + share * delta * delta)
