"""Class probabilities: softmax of scores with a temperature fitted before each sample is learnt.

Rules that decide by the closest prototype score a class by minus the logarithm of its distance,
so that `p_c ~ d_c ** -temperature` in any unit of the distances. Robust soft LVQ has its own
likelihood and scores by its logarithm.
"""

from __future__ import annotations

from math import exp, log

from streamlvq.kernels import layout as at
from streamlvq.kernels import views
from streamlvq.kernels.compile import helper
from streamlvq.kernels.views import vector

TINY = 1e-12  # keeps the logarithm finite on a prototype
DECAY = 0.999
PRIOR = 0.5  # initial curvature of the fit, in samples
COLDEST, HOTTEST = 0.01, 100.0
SHARPEST = 1e100


@helper
def score_by_distance(ints, work):
    best = views.class_distance(work, ints)
    score = views.class_score(work, ints)
    for c in range(ints[at.KNOWN]):
        score[c] = -log(best[c] + TINY)


@helper
def score_by_likelihood(floats, ints, work):
    """Score each class by log sum_j exp(-d_j / 2 sigma) over its prototypes."""
    precision = 0.5 / floats[at.SIGMA]
    labels = vector(ints, ints, at.LABEL, ints[at.SLOTS])
    distances = views.slot_distance(work, ints)
    best = views.class_distance(work, ints)
    score = views.class_score(work, ints)
    for c in range(ints[at.KNOWN]):
        score[c] = 0.0
    for p in range(ints[at.PROTOTYPES]):
        c = labels[p]
        score[c] += exp(precision * (best[c] - distances[p]))
    for c in range(ints[at.KNOWN]):
        score[c] = log(score[c]) - precision * best[c]


@helper
def to_probabilities(floats, ints, work):
    """Compute the softmax of scores times temperature."""
    temperature = vector(floats, ints, at.CALIBRATION, at.CALIBRATION_COUNT)[at.TEMPERATURE]
    score = views.class_score(work, ints)
    p = views.probabilities(work, ints)
    known = ints[at.KNOWN]
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
    """Take one Newton step of the temperature on the log loss of a sample not learnt yet."""
    state = vector(floats, ints, at.CALIBRATION, at.CALIBRATION_COUNT)
    score = views.class_score(work, ints)
    p = views.probabilities(work, ints)
    mean = 0.0
    for k in range(ints[at.KNOWN]):
        mean += p[k] * score[k]
    curvature = 0.0
    for k in range(ints[at.KNOWN]):
        curvature += p[k] * (score[k] - mean) ** 2
    if not curvature <= SHARPEST:  # skip distances that overflow or are NaN
        return
    state[at.CURVATURE] = DECAY * state[at.CURVATURE] + curvature
    step = (score[c] - mean) / (state[at.CURVATURE] + PRIOR)
    state[at.TEMPERATURE] = min(HOTTEST, max(COLDEST, state[at.TEMPERATURE] + step))
