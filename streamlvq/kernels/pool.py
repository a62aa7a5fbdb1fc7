"""Two opinions into one: a log-linear pool, fitted on samples before they are learnt.

The same idea as the temperature of a single model, with one temperature for each member. `fitted`
holds the two weights and then the curvature of the log loss along each of them.
"""

from __future__ import annotations

from math import exp, log

from streamlvq.kernels.compile import helper, kernel

TINY = 1e-12
DECAY = 0.999
PRIOR = 0.5
LARGEST = 10.0


@helper
def pool_row(first, second, known, fitted, out):
    """out_c ~ first_c ** weight * second_c ** weight."""
    top = -1e300
    for c in range(known):
        out[c] = fitted[0] * log(first[c] + TINY) + fitted[1] * log(second[c] + TINY)
        top = max(top, out[c])
    total = 0.0
    for c in range(known):
        out[c] = exp(out[c] - top)
        total += out[c]
    for c in range(known):
        out[c] /= total


@helper
def fit_weight(opinion, known, code, fitted, member, out):
    """One Newton step of a member's weight on the log loss of the pool in `out`."""
    mean, square = 0.0, 0.0
    for c in range(known):
        score = log(opinion[c] + TINY)
        mean += out[c] * score
        square += out[c] * score * score
    fitted[2 + member] = DECAY * fitted[2 + member] + square - mean * mean
    step = (log(opinion[code] + TINY) - mean) / (fitted[2 + member] + PRIOR)
    fitted[member] = min(LARGEST, max(0.0, fitted[member] + step))


@helper
def fit_row(first, second, known, code, fitted, out):
    pool_row(first, second, known, fitted, out)
    fit_weight(first, known, code, fitted, 0, out)
    fit_weight(second, known, code, fitted, 1, out)


@kernel("void(float64[::1], float64[::1], float64[::1], float64[::1])")
def pool(first, second, fitted, out):
    """Pool two opinions about one reading."""
    pool_row(first, second, first.shape[0], fitted, out)


@kernel("void(float64[::1], float64[::1], int64, float64[::1], float64[::1])")
def fit(first, second, code, fitted, out):
    """Let one sample of class `code` teach the weights."""
    fit_row(first, second, first.shape[0], code, fitted, out)


@kernel("void(float64[:, ::1], float64[:, ::1], float64[::1], float64[:, ::1])")
def pool_array(first, second, fitted, out):
    for k in range(first.shape[0]):
        pool_row(first[k], second[k], first.shape[1], fitted, out[k])


@kernel(
    "void(float64[:, ::1], float64[:, ::1], int64[::1], int64[::1], float64[::1], float64[:, ::1])"
)
def fit_array(first, second, known, codes, fitted, out):
    """As `fit` for each row, of which the first `known` classes were known; 0 or 1 is skipped."""
    for k in range(first.shape[0]):
        if known[k] > 1:
            fit_row(first[k], second[k], known[k], codes[k], fitted, out[k])
