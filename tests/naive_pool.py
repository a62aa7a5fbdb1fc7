"""Oracle of the committee's pools in plain Python: one loop for each sum, nothing compiled."""

from __future__ import annotations

import math

Opinions = list[list[float]]  # of each member, the probability of each class

SPEEDS = [0.95, 0.99, 0.999, 0.999]
CREDIT = 0.995
PRIOR = 2.0
LARGEST = 10.0
SWEEPS = 4


def log_linear(opinions: Opinions, weights: list[float]) -> list[float]:
    """The product of the members' probabilities, each to the power of its weight, normalised."""
    scores = [
        sum(w * math.log(p[c] + 1e-12) for p, w in zip(opinions, weights, strict=True))
        for c in range(len(opinions[0]))
    ]
    top = max(scores)
    total = sum(math.exp(score - top) for score in scores)
    return [math.exp(score - top) / total for score in scores]


def log_loss(opinions: Opinions, weights: list[float], code: int) -> float:
    return -math.log(log_linear(opinions, weights)[code])


def gradient(opinions: Opinions, weights: list[float], code: int) -> list[float]:
    """Of the log loss by the weights."""
    pooled = log_linear(opinions, weights)
    logs = [[math.log(p + 1e-12) for p in opinion] for opinion in opinions]
    means = [sum(q * each for q, each in zip(pooled, row, strict=True)) for row in logs]
    return [mean - row[code] for mean, row in zip(means, logs, strict=True)]


def hessian(opinions: Opinions, weights: list[float]) -> list[list[float]]:
    """Of the log loss by the weights: the covariance of the members' logarithms."""
    pooled = log_linear(opinions, weights)
    logs = [[math.log(p + 1e-12) for p in opinion] for opinion in opinions]
    means = [sum(q * each for q, each in zip(pooled, row, strict=True)) for row in logs]
    return [
        [
            sum(q * (x - a) * (y - b) for q, x, y in zip(pooled, one, other, strict=True))
            for other, b in zip(logs, means, strict=True)
        ]
        for one, a in zip(logs, means, strict=True)
    ]


class NaivePools:
    """What a committee fits: the weights in each of its pools, and how well each predicted."""

    def __init__(self, members: int, core: int) -> None:
        self.members = [list(range(members))] * 3 + [list(range(core))]
        self.credit = [0.0] * 4
        self.weights = [
            [1.0 / len(inside) if m in inside else 0.0 for m in range(members)]
            for inside in self.members
        ]
        self.curvature = [[[0.0] * members for _ in range(members)] for _ in range(4)]

    def shares(self) -> list[float]:
        best = max(self.credit)
        likelihoods = [math.exp(each - best) for each in self.credit]
        return [each / sum(likelihoods) for each in likelihoods]

    def mean_weights(self) -> list[float]:
        return [
            sum(s * w for s, w in zip(self.shares(), column, strict=True))
            for column in zip(*self.weights, strict=True)
        ]

    def pool(self, opinions: Opinions) -> list[float]:
        pooled = [log_linear(opinions, weights) for weights in self.weights]
        return [
            sum(s * p for s, p in zip(self.shares(), column, strict=True))
            for column in zip(*pooled, strict=True)
        ]

    def fit(self, opinions: Opinions, code: int) -> None:
        for pool, speed in enumerate(SPEEDS):
            weights, inside = self.weights[pool], self.members[pool]
            likelihood = math.log(log_linear(opinions, weights)[code] + 1e-12)
            self.credit[pool] = CREDIT * self.credit[pool] + likelihood
            downhill = [-g for g in gradient(opinions, weights, code)]
            fresh, curvature = hessian(opinions, weights), self.curvature[pool]
            for a in inside:
                for b in inside:
                    curvature[a][b] = speed * curvature[a][b] + fresh[a][b]
            step = [0.0] * len(weights)
            for _ in range(SWEEPS):
                for m in inside:
                    others = sum(curvature[m][k] * step[k] for k in inside if k != m)
                    wanted = weights[m] + (downhill[m] - others) / (curvature[m][m] + PRIOR)
                    step[m] = min(LARGEST, max(0.0, wanted)) - weights[m]
            for m in inside:
                weights[m] = min(LARGEST, max(0.0, weights[m] + step[m]))
