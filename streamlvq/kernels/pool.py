"""Log-linear pool of members' probabilities, fitted on samples before they are learnt.

Like the temperature of a single model, with one weight per member. `opinions` are probabilities,
members x rows x classes. `fitted` holds the weight of each member, then the curvature of the log
loss along each of them.
"""

from __future__ import annotations

from math import exp, log

from streamlvq.kernels.compile import helper, kernel

TINY = 1e-12
WEIGHT_DECAY = 0.999
WEIGHT_PRIOR = 0.5
LARGEST_WEIGHT = 10.0


@helper
def pool_row(opinions, k, known, fitted, out):
    """Compute out_c ~ product over the members of opinion_c ** weight; at least two classes."""
    top = -1e300
    for c in range(known):
        out[k, c] = fitted[0] * log(opinions[0, k, c] + TINY) + fitted[1] * log(
            opinions[1, k, c] + TINY
        )
        for m in range(2, opinions.shape[0]):
            out[k, c] += fitted[m] * log(opinions[m, k, c] + TINY)
        top = max(top, out[k, c])
    total = 0.0
    for c in range(known):
        out[k, c] = exp(out[k, c] - top)
        total += out[k, c]
    for c in range(known):
        out[k, c] /= total


@helper
def fit_weight(opinions, k, known, code, fitted, member, out):
    """Take one Newton step of a member's weight on the log loss of the pool in `out`."""
    mean, square = 0.0, 0.0
    for c in range(known):
        score = log(opinions[member, k, c] + TINY)
        mean += out[k, c] * score
        square += out[k, c] * score * score
    slot = opinions.shape[0] + member
    fitted[slot] = WEIGHT_DECAY * fitted[slot] + square - mean * mean
    step = (log(opinions[member, k, code] + TINY) - mean) / (fitted[slot] + WEIGHT_PRIOR)
    fitted[member] = min(LARGEST_WEIGHT, max(0.0, fitted[member] + step))


@kernel("void(float64[:, :, ::1], float64[::1], float64[:, ::1])")
def pool(opinions, fitted, out):
    """Pool the probabilities of each row."""
    for k in range(opinions.shape[1]):
        pool_row(opinions, k, opinions.shape[2], fitted, out)


@kernel("void(float64[:, :, ::1], int64[::1], int64[::1], float64[::1], float64[:, ::1])")
def fit(opinions, known, codes, fitted, out):
    """Fit the weights on each row with two or more `known` classes; only these count."""
    for k in range(opinions.shape[1]):
        if known[k] > 1:
            pool_row(opinions, k, known[k], fitted, out)
            for member in range(opinions.shape[0]):
                fit_weight(opinions, k, known[k], codes[k], fitted, member, out)
