"""Reference for speed: a bare GLVQ step in one compiled loop."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

RATE = 0.05


# Keeps NaN and infinities meaningful, as the library's kernels have to.
@njit(fastmath={"reassoc", "contract"})
def glvq_loop(
    X: NDArray[np.float64],
    y: NDArray[np.int64],
    mean: NDArray[np.float64],
    m2: NDArray[np.float64],
    W: NDArray[np.float64],
    seen: int,
) -> int:
    """Learn every row with one prototype per class (row of `W`); return the number of hits."""
    n, d = X.shape
    z = np.empty(d)
    hits = 0
    for i in range(n):
        # Standardise by the running mean and deviation.
        share = 1.0 / (seen + i + 1)
        for j in range(d):
            delta = X[i, j] - mean[j]
            mean[j] += delta * share
            m2[j] += delta * (X[i, j] - mean[j])
            z[j] = (X[i, j] - mean[j]) / np.sqrt(m2[j] * share + 1e-12)
        # Distances: the prototype of the right class and the closest of the others.
        right, wrong = y[i], -1
        d_right, d_wrong = 0.0, np.inf
        for k in range(W.shape[0]):
            distance = 0.0
            for j in range(d):
                difference = z[j] - W[k, j]
                distance += difference * difference
            if k == right:
                d_right = distance
            elif distance < d_wrong:
                wrong, d_wrong = k, distance
        hits += d_right < d_wrong
        # Gradient of mu = (d+ - d-)/(d+ + d-): attract the one, repel the other.
        scale = 4.0 * RATE / ((d_right + d_wrong) ** 2 + 1e-12)
        pull, push = scale * d_wrong, scale * d_right
        for j in range(d):
            W[right, j] += pull * (z[j] - W[right, j])
            W[wrong, j] -= push * (z[j] - W[wrong, j])
    return hits


class BareGLVQ:
    """State for `glvq_loop`."""

    def __init__(self, d: int, classes: int) -> None:
        self.mean, self.m2 = np.zeros(d), np.zeros(d)
        self.W = np.random.default_rng(42).normal(scale=0.1, size=(classes, d))
        self.seen = 0

    def learn_array(self, X: NDArray[np.float64], y: NDArray[np.int64]) -> int:
        hits = glvq_loop(X, y, self.mean, self.m2, self.W, self.seen)
        self.seen += len(X)
        return int(hits)
