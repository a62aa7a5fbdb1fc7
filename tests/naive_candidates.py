"""Oracle of the pool of a local model with candidates, in plain Python."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

Opinion = Mapping[str, float]  # the probability of each class that is known
LEAST = 1e-3


def pooled(
    labels: Sequence[str],
    candidates: Sequence[Opinion],
    weights: Sequence[float],
    local: Opinion,
    local_weight: float,
    unseen: Mapping[str, float],
) -> dict[str, float]:
    """The product of all opinions, each to the power of its weight; `local` holds what it knows.

    A candidate that lacks a class of `local` lets it speak: of what the candidate gives to classes
    of `local`, such a class gets the share that it has there.
    """
    scores, full = {}, []
    for opinion in candidates:
        lacking = {label: p for label, p in local.items() if label not in opinion}
        rest = 1.0 - sum(lacking.values())
        inside = 1.0 - sum(p for label, p in opinion.items() if label not in local)
        known = {label: rest * p if label in local else p for label, p in opinion.items()}
        full.append(known | {label: inside * p for label, p in lacking.items()})
    for label in labels:
        if label in local:
            score = local_weight * math.log(max(local[label], LEAST))
        else:
            score = unseen[label]
        for opinion, weight in zip(full, weights, strict=True):
            score += weight * math.log(max(opinion.get(label, 0.0), LEAST))
        scores[label] = score
    top = max(scores.values())
    total = sum(math.exp(score - top) for score in scores.values())
    return {label: math.exp(score - top) / total for label, score in scores.items()}


def mean_of_holders(opinions: Sequence[Opinion]) -> dict[str, float]:
    """The mean probability of each class over those that know it, normalised."""
    labels = {label: None for opinion in opinions for label in opinion}
    means = {
        label: sum(opinion[label] for opinion in opinions if label in opinion)
        / sum(label in opinion for opinion in opinions)
        for label in labels
    }
    total = sum(means.values())
    return {label: mean / total for label, mean in means.items()}
