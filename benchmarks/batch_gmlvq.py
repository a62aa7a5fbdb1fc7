"""GMLVQ in batches: the cost with the identity as activation, minimised by L-BFGS.

So do the tools that the thesis used, though not in every detail: see docs/benchmarks.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

Floats = NDArray[np.float64]
Labels = NDArray[Any]
ITERATIONS = 100  # of L-BFGS; ten times as many changed F1 by .001 at one place


class BatchGMLVQ:
    """One prototype per class and one metric, `(x - w)' metric (x - w)`.

    Examples
    --------
    >>> X = np.array([[0.0, 9.0], [1.0, -9.0], [4.0, 9.0], [5.0, -9.0]])
    >>> model = BatchGMLVQ.trained(X, np.array(["left", "left", "right", "right"]))
    >>> model.predict_array(np.array([[2.0, -9.0], [3.0, -9.0]])).tolist()
    ['left', 'right']

    """

    def __init__(self, labels: Labels, prototypes: Floats, metric: Floats) -> None:
        self.labels = labels
        self.prototypes = prototypes
        self.metric = metric

    @classmethod
    def trained(cls, X: Floats, y: Labels, iterations: int = ITERATIONS) -> BatchGMLVQ:
        """Return a model that begins at the class means with the Euclidean distance."""
        labels, codes = np.unique(y, return_inverse=True)
        count, d = len(labels), X.shape[1]
        means = [X[codes == code].mean(axis=0) for code in range(count)]
        start = np.concatenate([*means, (np.eye(d) / np.sqrt(d)).ravel()])
        found = minimize(
            cost, start, (X, codes, count), "L-BFGS-B", jac=True, options={"maxiter": iterations}
        )
        prototypes, omega = _unpacked(found.x, count, d)
        metric = omega.T @ omega
        return cls(labels, prototypes, metric / np.trace(metric))

    @classmethod
    def fused(cls, models: Sequence[BatchGMLVQ]) -> BatchGMLVQ:
        """Return the fused model of (6.1) and (6.2): means over the nodes that have a class."""
        labels = np.unique(np.concatenate([model.labels for model in models]))
        places = []
        for label in labels:
            holders = [model for model in models if label in model.labels]
            places.append(np.mean([m.prototypes[m.labels == label][0] for m in holders], axis=0))
        return cls(labels, np.array(places), np.mean([model.metric for model in models], axis=0))

    def predict_array(self, X: Floats) -> Labels:
        apart = [X - w for w in self.prototypes]
        distances = [np.einsum("nd,de,ne->n", a, self.metric, a) for a in apart]
        answers: Labels = self.labels[np.argmin(distances, axis=0)]
        return answers


def cost(
    parameters: Floats, X: Floats, codes: NDArray[np.intp], count: int
) -> tuple[float, Floats]:
    """Return the sum of relative distance differences, and its gradient."""
    w, omega = _unpacked(parameters, count, X.shape[1])
    distances = ((X @ omega.T)[:, None] - w @ omega.T) ** 2
    total = distances.sum(axis=2)
    rows = np.arange(len(X))
    right = total[rows, codes]
    others = total.copy()
    others[rows, codes] = np.inf
    closest = others.argmin(axis=1)
    wrong = others[rows, closest]
    both = right + wrong
    slope = np.zeros_like(total)  # of the cost, by each distance
    slope[rows, codes] = 2.0 * wrong / both**2
    slope[rows, closest] = -2.0 * right / both**2
    pulled, sums = slope.T @ X, slope.sum(axis=0)[:, None]
    by_w = -2.0 * (pulled - sums * w) @ omega.T @ omega
    spread = X.T @ (slope.sum(axis=1)[:, None] * X) - pulled.T @ w - w.T @ pulled + w.T @ (sums * w)
    by_omega = 2.0 * omega @ spread
    value = float(((right - wrong) / both).sum())
    return value, np.concatenate([by_w.ravel(), by_omega.ravel()])


def _unpacked(parameters: Floats, count: int, d: int) -> tuple[Floats, Floats]:
    w, omega = np.split(parameters, [count * d])
    return w.reshape(count, d), omega.reshape(d, d)
