"""Comparison of classifiers over many streams: mean ranks, wins and Wilcoxon's test."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

import numpy as np
from scipy.stats import rankdata, wilcoxon

from progressive import Result

TIE = 0.001  # accuracies that differ by less are equal

Scores = Mapping[str, Result]  # of one model, by stream


@dataclass(frozen=True)
class Duel:
    """One model against another on the streams that both finished."""

    wins: int
    ties: int
    losses: int
    p: float
    cost: float  # median of cost ratios

    @property
    def streams(self) -> int:
        return self.wins + self.ties + self.losses


def finished(scores: Scores) -> dict[str, Result]:
    return {stream: result for stream, result in scores.items() if result.finished}


def block(models: Mapping[str, Scores], least: int) -> tuple[list[str], list[str]]:
    """Return the models to rank and the streams that all of them finished.

    A rank depends on who else is ranked, so all have to be on the same streams. A model that
    finished fewer than `least` is left out rather than those streams.
    """
    ranked = [model for model, scores in models.items() if len(finished(scores)) >= least]
    streams = [
        stream
        for stream in dict.fromkeys(stream for model in ranked for stream in models[model])
        if all(stream in finished(models[model]) for model in ranked)
    ]
    return ranked, streams


def mean_ranks(
    models: Mapping[str, Scores], ranked: Sequence[str], streams: Sequence[str]
) -> dict[str, float]:
    """Return mean ranks by accuracy; 1 is the best, equals share theirs."""
    if not ranked or not streams:
        return {}
    accuracies = np.array([[models[m][stream].accuracy for m in ranked] for stream in streams])
    means = rankdata(-accuracies, axis=1).mean(axis=0)
    return dict(zip(ranked, means.tolist(), strict=True))


def duel(ours: Scores, theirs: Scores) -> Duel:
    both = [(ours[s], theirs[s]) for s in finished(ours).keys() & finished(theirs).keys()]
    differences = [mine.accuracy - peers.accuracy for mine, peers in both]
    return Duel(
        wins=sum(difference >= TIE for difference in differences),
        ties=sum(abs(difference) < TIE for difference in differences),
        losses=sum(difference <= -TIE for difference in differences),
        p=signed_rank_p(differences),
        cost=median([mine.us / peers.us for mine, peers in both]) if both else math.nan,
    )


def signed_rank_p(differences: Sequence[float]) -> float:
    """Return the two-sided p of Wilcoxon's signed-rank test; 1 where nothing differs."""
    return float(wilcoxon(differences).pvalue) if any(differences) else 1.0


def mean_accuracy(scores: Scores, streams: Sequence[str]) -> float:
    return fmean(scores[stream].accuracy for stream in streams)
