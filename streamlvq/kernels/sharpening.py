"""Probabilities from scores with an exponent that is fitted on each sample before it is learnt.

Trees agree too rarely and independent features too often: the first are too cautious, the second
too sure. `fit` holds the logarithm of the exponent and the curvature of the log loss along it.
"""

from __future__ import annotations

from math import exp

from streamlvq.kernels.compile import helper

EXPONENT, CURVATURE_SEEN = 0, 1
FIT_NUMBERS = 2
FIT_DECAY = 0.995
FIT_PRIOR = 1.0  # curvature before the first sample
MAX_FIT_STEP = 0.5
MAX_LOG_EXPONENT = 7.0  # of either sign
LEAST_CHANCE = 1e-9  # probability that no class falls below


@helper
def to_chances(score, known, fit, p):
    """Compute probabilities p_c ~ exp(score_c) ** exponent."""
    exponent = exp(fit[EXPONENT])
    top = score[0]
    for c in range(1, known):
        top = max(top, score[c])
    total = 0.0
    for c in range(known):
        p[c] = max(LEAST_CHANCE, exp(exponent * (score[c] - top)))
        total += p[c]
    for c in range(known):
        p[c] /= total


@helper
def remember_answer(x, answered):
    """Note which reading probabilities and scores are about; it is usually learnt next."""
    answered[0] = 1.0
    for i in range(x.shape[0]):
        answered[1 + i] = x[i]


@helper
def is_answered(x, answered):
    """Return whether probabilities and scores are about this reading already."""
    if answered[0] == 0.0:
        return False
    for i in range(x.shape[0]):
        both_missing = x[i] != x[i] and answered[1 + i] != answered[1 + i]
        if x[i] != answered[1 + i] and not both_missing:
            return False
    return True


@helper
def fit_exponent(score, known, fit, p, code, weight):
    """Take one Newton step of the exponent's logarithm on a sample that is not learnt yet."""
    exponent = exp(fit[EXPONENT])
    mean, square = 0.0, 0.0
    for c in range(known):
        mean += p[c] * score[c]
        square += p[c] * score[c] * score[c]
    curvature = exponent * exponent * max(0.0, square - mean * mean)
    fit[CURVATURE_SEEN] = FIT_DECAY * fit[CURVATURE_SEEN] + weight * curvature
    step = weight * exponent * (score[code] - mean) / (fit[CURVATURE_SEEN] + FIT_PRIOR)
    step = min(MAX_FIT_STEP, max(-MAX_FIT_STEP, step))
    fit[EXPONENT] = min(MAX_LOG_EXPONENT, max(-MAX_LOG_EXPONENT, fit[EXPONENT] + step))
