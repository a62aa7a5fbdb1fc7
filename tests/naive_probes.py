"""Oracle of probe federation in plain Python: one loop for each sum."""

from __future__ import annotations

import math
from collections.abc import Sequence

import naive

FLOOR = 0.001  # of a probability
CUT = 0.25  # of the weight, at either end of a trimmed mean

Answers = dict[str, list[float]]  # by class: the probability at each probe


def moments(values: Sequence[float]) -> tuple[float, float]:
    """Mean and variance."""
    mean = math.fsum(values) / len(values)
    return mean, math.fsum((v - mean) ** 2 for v in values) / len(values)


def pooled(parts: Sequence[tuple[float, float, float]]) -> tuple[float, float]:
    """Mean and variance of all readings together, from (count, mean, variance) of each node."""
    total = sum(n for n, _, _ in parts)
    mean = sum(n * m for n, m, _ in parts) / total
    return mean, sum(n * (v + (m - mean) ** 2) for n, m, v in parts) / total


def consensus(
    answers: Sequence[Answers], counts: Sequence[dict[str, float]], origin: Sequence[str]
) -> list[dict[str, float]]:
    """What nodes say to each probe: trimmed means of logarithms over those who may speak."""
    labels = sorted({label for each in counts for label in each})
    weights = {}
    for label in labels:
        claimed = [each.get(label, 0.0) for each in counts]
        holders = [n for n in claimed if n > 0]
        byzantine = 0 if len(holders) < 2 else max(1, len(holders) // 5)
        believed = naive.capped_weights(holders, byzantine, CUT) if byzantine else holders
        queue = iter(believed)
        weights[label] = [next(queue) if n > 0 else 0.0 for n in claimed]
    found = []
    for r, drawn_from in enumerate(origin):
        scores = {}
        for label in labels:
            values, worth = [], []
            for j, each in enumerate(answers):
                if weights[drawn_from][j] > 0 and weights[label][j] > 0:
                    values.append(math.log(max(each[label][r], FLOOR)))
                    worth.append(weights[label][j])
            if values:
                scores[label] = naive.trimmed_mean(values, worth, CUT)
        total = math.fsum(math.exp(score) for score in scores.values())
        found.append({label: math.exp(scores[label]) / total for label in scores})
    return found


def jensen_shannon(one: Sequence[float], other: Sequence[float]) -> float:
    """In bits: entropy of the mean minus mean of the entropies."""

    def entropy(p: Sequence[float]) -> float:
        return -math.fsum(v * math.log2(v) for v in p if v > 0)

    middle = [0.5 * (a + b) for a, b in zip(one, other, strict=True)]
    return entropy(middle) - 0.5 * (entropy(one) + entropy(other))


def discrepancy(one: Answers, other: Answers, origin: Sequence[str]) -> float:
    """Mean divergence over the probes of shared classes, given that one of these is right."""
    shared = sorted(set(one) & set(other))
    found = []
    for r, drawn_from in enumerate(origin):
        if drawn_from not in shared:
            continue
        rows = []
        for each in (one, other):
            row = [max(each[label][r], FLOOR) for label in shared]
            rows.append([p / sum(row) for p in row])
        found.append(jensen_shannon(*rows))
    return math.fsum(found) / len(found)
