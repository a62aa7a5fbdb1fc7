"""Successive readings of a device into one opinion: a product of probabilities, as sums of logs.

`logs` is what is remembered of a device: a row for each reading, the newest last, and in row 0
their sums, so that a prediction is one addition for each class. Rows that no reading has filled yet
are zero. The last column stands for all classes that were not known when a reading came: it says
nothing about them, so they are given its average over the classes, 1 / their number.
"""

from __future__ import annotations

from math import inf, log

import numpy as np

from streamlvq.kernels.compile import helper, kernel

FLOOR = 1e-6  # a probability of zero, or one that is not a number, counts as this
LOG_FLOOR = log(FLOOR)


@helper
def floored_log(p):
    return log(p) if p > FLOOR else LOG_FLOOR


@kernel("int64(float64[:, ::1], float64[::1], float64[::1])")
def combine(logs, p, out):
    """The probabilities of a window and a reading together; returns the likeliest class."""
    unknown = logs.shape[1] - 1
    top = -inf
    for c in range(p.shape[0]):
        out[c] = floored_log(p[c]) + logs[0, min(c, unknown)]
        top = max(top, out[c])
    total = 0.0
    for c in range(p.shape[0]):
        out[c] = np.exp(out[c] - top)
        total += out[c]
    best = 0
    for c in range(p.shape[0]):
        out[c] /= total
        if out[c] > out[best]:
            best = c
    return best


@kernel("void(float64[:, ::1], float64[::1])")
def advance(logs, p):
    """Put a reading into a window that has a column for each class; the oldest one leaves it.

    The sums are made anew: what is added and subtracted for ever drifts away.
    """
    rows, known = logs.shape[0], p.shape[0]
    if rows < 2:  # a window of one reading remembers nothing
        return
    for r in range(1, rows - 1):
        for c in range(known + 1):
            logs[r, c] = logs[r + 1, c]
    for c in range(known):
        logs[rows - 1, c] = floored_log(p[c])
    logs[rows - 1, known] = -log(known)
    for c in range(known + 1):
        total = 0.0
        for r in range(1, rows):
            total += logs[r, c]
        logs[0, c] = total
