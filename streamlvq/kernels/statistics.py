"""Running statistics: scales of features, means of classes, temperature of probabilities.

The scale of a feature is its standard deviation, but never less than `SCALE_FLOOR` of the largest
deviation from the mean seen so far: a pixel or a flag that is almost always zero would otherwise be
tens of deviations off whenever it is not. Like the standard deviation, this scale is equivariant
under affine changes of units.

Sparse readings (counts of words, one-hot codes) have one unit for all features, and their scale is
the root of the deviation: without scaling the commonest words decide, and in units of deviations
the rarest do.
"""

from __future__ import annotations

from math import exp, log, sqrt

from streamlvq.kernels import layout as at
from streamlvq.kernels import views
from streamlvq.kernels.compile import helper
from streamlvq.kernels.features import RELATIVE_ROUNDING, note_first_moves, update_varying
from streamlvq.kernels.views import row, vector

# --- scales and class statistics -----------------------------------------------------------------


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
    d = ints[at.N_FEATURES]
    forget = floats[at.FORGET]
    floor = floats[at.SCALE_FLOOR]
    mean = vector(floats, ints, at.MEAN, d)
    variance = vector(floats, ints, at.VARIANCE, d)
    peak = vector(floats, ints, at.MAX_DEVIATION, d)
    inverse = vector(floats, ints, at.INVERSE, d)
    if ints[at.ALL_SETTLED] == 0:
        note_first_moves(floats, ints, x)
    running(x, forget, vector(floats, ints, at.WEIGHT, d), mean, variance)
    for i in range(d):
        if x[i] == x[i]:
            peak[i] = max(forget * peak[i], abs(x[i] - mean[i]))
    varying = 0
    for i in range(d):
        largest = floor * peak[i]
        squared = max(variance[i], largest * largest)
        spread = squared > RELATIVE_ROUNDING * mean[i] * mean[i]
        varying += 1 if spread else 0
        inverse[i] = 1.0 / sqrt(squared) if spread else 0.0  # 0: constant so far
    if ints[at.STANDARDIZE] == 0:
        for i in range(d):
            inverse[i] = 1.0
    elif ints[at.SPARSE] == 1:
        for i in range(d):
            inverse[i] = sqrt(inverse[i])
    if (ints[at.ALL_SETTLED] == 0 or varying < d) and ints[at.STEPS] != at.PUBLISHED_STEPS:
        update_varying(floats, ints)


@helper
def observe_class(floats, ints, x, c):
    """Update count, mean and variance of one class, in raw units."""
    d = ints[at.N_FEATURES]
    n = ints[at.CLASS_CAPACITY]
    forget = floats[at.FORGET]
    vector(floats, ints, at.CLASS_COUNT, n)[c] += 1.0
    floats[at.CLASS_TOTAL] += 1.0
    weight = row(floats, ints, at.CLASS_WEIGHT, c, d)
    mean = row(floats, ints, at.CLASS_MEAN, c, d)
    running(x, forget, weight, mean, row(floats, ints, at.CLASS_VARIANCE, c, d))


# --- calibration ---------------------------------------------------------------------------------
#
# Probabilities are the softmax of scores with a temperature that is fitted on each sample before
# it is learnt. Rules that decide by the closest prototype score a class by minus the logarithm of
# its distance, so that `p_c ~ d_c ** -temperature` in any unit of the distances. Robust soft LVQ
# has its own likelihood and scores by its logarithm.

TINY = 1e-12  # keeps the logarithm finite on a prototype
TEMPERATURE_DECAY = 0.98  # labels that come in runs make a model sure and then wrong
RECORDED_DECAY = 0.999  # `train` shuffles: no sample is newer than another
TEMPERATURE_PRIOR = 2.0  # curvature that is added to that of the samples
COLDEST, HOTTEST = 0.01, 100.0
MAX_SHARPNESS = 1e100


@helper
def score_by_distance(ints, work):
    best = views.class_distance(work, ints)
    score = views.class_score(work, ints)
    for c in range(ints[at.N_CLASSES]):
        score[c] = -log(best[c] + TINY)


@helper
def score_by_likelihood(floats, ints, work):
    """Score each class by log sum_j exp(-d_j / 2 sigma) over its prototypes."""
    precision = 0.5 / floats[at.SIGMA]
    labels = vector(ints, ints, at.LABEL, ints[at.PROTOTYPE_CAPACITY])
    distances = views.slot_distance(work, ints)
    best = views.class_distance(work, ints)
    score = views.class_score(work, ints)
    for c in range(ints[at.N_CLASSES]):
        score[c] = 0.0
    for p in range(ints[at.N_PROTOTYPES]):
        c = labels[p]
        score[c] += exp(precision * (best[c] - distances[p]))
    for c in range(ints[at.N_CLASSES]):
        score[c] = log(score[c]) - precision * best[c]


@helper
def to_probabilities(floats, ints, work):
    """Compute the softmax of scores times temperature."""
    temperature = vector(floats, ints, at.CALIBRATION, at.CALIBRATION_COUNT)[at.TEMPERATURE]
    score = views.class_score(work, ints)
    p = views.probabilities(work, ints)
    known = ints[at.N_CLASSES]
    top = score[0]
    for c in range(1, known):
        top = max(top, score[c])
    total = 0.0
    for c in range(known):
        p[c] = exp(temperature * (score[c] - top))
        total += p[c]
    for c in range(known):
        p[c] /= total


@helper
def calibrate(floats, ints, work, c):
    """Take one Newton step of the log temperature on the log loss of a sample not learnt yet.

    Its gradient and expected curvature are T and T ** 2 times those along the temperature T, whose
    past curvature therefore stays valid when T moves. A step x is shortened to log(1 + |x|): where
    it is long, curvature says little about the way. So T grows by no more than a Newton step of its
    own, and stays positive when it falls.

    The sample counts with its weight, whatever that of its class is: a temperature favours no
    class.
    """
    state = vector(floats, ints, at.CALIBRATION, at.CALIBRATION_COUNT)
    score = views.class_score(work, ints)
    p = views.probabilities(work, ints)
    mean = 0.0
    for k in range(ints[at.N_CLASSES]):
        mean += p[k] * score[k]
    curvature = 0.0
    for k in range(ints[at.N_CLASSES]):
        curvature += p[k] * (score[k] - mean) ** 2
    if not curvature <= MAX_SHARPNESS:  # skip distances that overflow or are NaN
        return
    weight = floats[at.SAMPLE_WEIGHT]
    temperature = state[at.TEMPERATURE]
    decay = TEMPERATURE_DECAY if ints[at.PASSIVE] == 0 else RECORDED_DECAY
    state[at.CURVATURE] = decay * state[at.CURVATURE] + weight * curvature
    step = weight * (score[c] - mean) / (state[at.CURVATURE] + TEMPERATURE_PRIOR) / temperature
    temperature = temperature * (1.0 + step) if step > 0.0 else temperature / (1.0 - step)
    state[at.TEMPERATURE] = min(HOTTEST, max(COLDEST, temperature))
