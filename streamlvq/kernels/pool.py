"""Several opinions into one: a log-linear pool, fitted on samples before they are learnt.

The same idea as the temperature of a single model, with one temperature for each member.
"""

from __future__ import annotations

from math import exp, log

from streamlvq.kernels.compile import helper, kernel

TINY = 1e-12
DECAY = 0.999
PRIOR = 0.5
LARGEST = 10.0


@helper
def pool_row(opinions, k, known, weights, out):
    """out_c ~ product over members of p_mc ** weight_m."""
    top = -1e300
    for c in range(known):
        score = 0.0
        for m in range(opinions.shape[0]):
            score += weights[m] * log(opinions[m, k, c] + TINY)
        out[k, c] = score
        top = max(top, score)
    total = 0.0
    for c in range(known):
        out[k, c] = exp(out[k, c] - top)
        total += out[k, c]
    for c in range(known):
        out[k, c] /= total


@kernel("void(float64[:, :, ::1], int64, float64[:, ::1], float64[:, ::1])")
def pool(opinions, known, fitted, out):
    """Pool the opinions (members x rows x classes) with the weights `fitted[0]`."""
    for k in range(opinions.shape[1]):
        pool_row(opinions, k, known, fitted[0], out)


@kernel("void(float64[:, :, ::1], int64[::1], int64[::1], float64[:, ::1], float64[:, ::1])")
def fit(opinions, known, classes, fitted, out):
    """One Newton step on the log loss of each row; `fitted` holds weights and curvatures."""
    weights, curvature = fitted[0], fitted[1]
    for k in range(opinions.shape[1]):
        if known[k] < 2 or classes[k] >= known[k]:
            continue
        pool_row(opinions, k, known[k], weights, out)
        for m in range(opinions.shape[0]):
            mean, square = 0.0, 0.0
            for c in range(known[k]):
                score = log(opinions[m, k, c] + TINY)
                mean += out[k, c] * score
                square += out[k, c] * score * score
            curvature[m] = DECAY * curvature[m] + square - mean * mean
            step = log(opinions[m, k, classes[k]] + TINY) - mean
            weights[m] = min(LARGEST, max(0.0, weights[m] + step / (curvature[m] + PRIOR)))
