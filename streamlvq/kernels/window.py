"""Windows: product of the class probabilities of successive readings, as sums of logs.

`logs` is the window of a device: one row per reading, the newest last, and their sums in row 0, so
that a prediction needs one addition per class. Unused rows are zero. The last column stands for
all classes that were unknown when a reading arrived: they get its mean probability, 1 / the number
of classes known then.
"""

from __future__ import annotations

from math import inf, log

import numpy as np

from streamlvq.kernels.compile import helper, kernel

FLOOR = 1e-6  # smallest probability; also replaces NaN
LOG_FLOOR = log(FLOOR)


@helper
def floored_log(p):
    return log(p) if p > FLOOR else LOG_FLOOR


@kernel("int64(float64[:, ::1], float64[::1], float64[::1])")
def combine(logs, p, out):
    """Combine a window and a reading into probabilities; return the likeliest class."""
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
    """Add a reading to a window with a column per class and drop the oldest.

    The sums are recomputed, because repeated adding and subtracting would accumulate errors.
    """
    rows, known = logs.shape[0], p.shape[0]
    if rows < 2:  # a window of one reading stores nothing
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
