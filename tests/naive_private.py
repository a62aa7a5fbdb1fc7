"""Plain Python oracle of what a batch adds to a private release, slow and without arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

Vector = list[float]
WEIGHTS = (1.0, 0.25, 0.7, 1.0)  # of class sums, counts, second moments, gradients
GRID = 2**26
SHRINK = 1.0 - 1e-9


@dataclass
class Naive:
    """A released model, and the bounds and scales of features."""

    low: Vector
    high: Vector
    centre: Vector
    inverse: Vector
    radius: float
    clip: float
    missing: list[Vector]
    metrics: list[list[Vector]]
    prototypes: list[Vector]
    local: bool = False

    def standardised(self, x: Sequence[float], missing: Sequence[float]) -> Vector:
        u = []
        for k, value in enumerate(x):
            inside = min(max(value, self.low[k]), self.high[k])
            u.append(
                missing[k] if math.isnan(value) else (inside - self.centre[k]) * self.inverse[k]
            )
        return u

    def clipped(self, u: Vector) -> Vector:
        norm = math.hypot(*u)
        return [each * self.radius / norm for each in u] if norm > self.radius else u

    def projected(self, u: Vector, c: int) -> Vector:
        metric = self.metrics[c if self.local else 0]
        return [sum(a * b for a, b in zip(row, u, strict=True)) for row in metric]

    def distance(self, u: Vector, c: int) -> float:
        pairs = zip(self.projected(u, c), self.prototypes[c], strict=True)
        return sum((a - b) ** 2 for a, b in pairs)

    def probabilities(self, u: Vector) -> Vector:
        odds = [math.exp(-0.5 * self.distance(u, c)) for c in range(len(self.prototypes))]
        return [each / sum(odds) for each in odds]

    def log_probability(self, u: Vector, c: int) -> float:
        return math.log(self.probabilities(u)[c])

    def predict(self, x: Sequence[float]) -> Vector:
        return self.probabilities(self.standardised(x, [0.0] * len(x)))

    def gradient(self, u: Vector, label: int) -> list[Vector]:
        """Return the derivative of `log p(label | u)` by each prototype, then clipped."""
        p, point = self.probabilities(u), self.projected(u, 0)
        whole = [
            [((c == label) - p[c]) * (a - w) for a, w in zip(point, prototype, strict=True)]
            for c, prototype in enumerate(self.prototypes)
        ]
        norm = math.sqrt(sum(g * g for row in whole for g in row))
        return [[g / max(self.clip, norm) for g in row] for row in whole]

    def contribution(self, x: Sequence[float], label: int) -> list[int]:
        """Return what one reading adds to the vector, in steps of the grid."""
        d, n = len(x), len(self.missing)
        u = self.clipped(self.standardised(x, self.missing[label]))
        sums = [
            WEIGHTS[0] * u[k] / self.radius if c == label else 0.0
            for c in range(n)
            for k in range(d)
        ]
        counts = [WEIGHTS[1] / SHRINK if c == label else 0.0 for c in range(n)]
        moments = [
            WEIGHTS[2] * (u[i] * u[j] * (1.0 if i == j else math.sqrt(2.0))) / self.radius**2
            for i in range(d)
            for j in range(i, d)
        ]
        if self.local:
            none = [0.0] * len(moments)
            moments = [each for c in range(n) for each in (moments if c == label else none)]
        gradient: list[float] = []
        if not self.local:
            gradient = [0.0] * (n * d)
            if self.prototypes:
                gradient = [WEIGHTS[3] * g for row in self.gradient(u, label) for g in row]
        return [math.trunc(GRID * SHRINK * each) for each in (*sums, *counts, *moments, *gradient)]
