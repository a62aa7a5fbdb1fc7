"""`RandomisedResponse`: labels that nobody need believe, and unbiased results from many of them."""

from __future__ import annotations

import math
import secrets
from collections.abc import Hashable, Mapping, Sequence

from streamlvq.arrays import Label
from streamlvq.errors import ParameterError

DRAW_GRID = (
    2**60
)  # probabilities are multiples of 1 / DRAW_GRID: no rounding of theirs can break the promise
DRAW_ROUNDING = 2.0**-40  # a share of the truth that is given up for errors of floating point
MAX_LABEL_EPSILON = 20.0

ByFeature = Mapping[Hashable, float]


class RandomisedResponse:
    """Randomised response for labels, and the unbiased correction of what is learnt from them.

    Each label is told truthfully with probability `e^epsilon / (e^epsilon + k - 1)`, otherwise as
    one of the other k - 1, chosen evenly. Whoever sees the told label learns at most epsilon about
    the true one, whatever else is known (local differential privacy of the label, delta = 0). The
    randomness is that of the operating system. A label told twice costs twice.

    Parameters
    ----------
    labels
        All classes there are; the list must be public.
    epsilon
        What may be learnt about a label, above 0.

    Examples
    --------

    >>> from streamlvq.privacy import RandomisedResponse
    >>> answers = RandomisedResponse(["ill", "well"], epsilon=1.0)
    >>> answers.truth
    0.73
    >>> answers.randomise("ill") in {"ill", "well"}
    True

    If 400 of 1000 told that they are ill, then about 284 are:

    >>> answers.correct_counts({"ill": 400, "well": 600})
    {'ill': 283.6, 'well': 716.3}

    """

    def __init__(self, labels: Sequence[Label], epsilon: float) -> None:
        owner = type(self).__name__
        if isinstance(labels, str) or not len(labels) == len(set(labels)) >= 2:
            raise ParameterError(
                owner, "labels", f"expected at least 2 distinct labels, got {labels!r}"
            )
        if not 0.0 < epsilon <= MAX_LABEL_EPSILON:
            raise ParameterError(
                owner,
                "epsilon",
                f"expected more than 0, up to {MAX_LABEL_EPSILON:g}, got {epsilon!r}",
            )
        self.labels, self.epsilon = tuple(labels), float(epsilon)
        self._known = frozenset(self.labels)
        gain = math.expm1(self.epsilon)
        self._kept = math.floor(
            DRAW_GRID * (1.0 - DRAW_ROUNDING) * gain / (gain + len(self.labels))
        )

    @property
    def truth(self) -> float:
        """Probability that a label is told as it is."""
        return self._share + self.lie

    @property
    def lie(self) -> float:
        """Probability that a label is told as a certain other one."""
        return (1.0 - self._share) / len(self.labels)

    @property
    def _share(self) -> float:
        """Share of labels that are kept without a draw; the others are drawn evenly from all."""
        return self._kept / DRAW_GRID

    # --- telling ---------------------------------------------------------------------------------

    def randomise(self, label: Label) -> Label:
        """Return the label to tell."""
        self._check(label)
        kept = secrets.randbelow(DRAW_GRID) < self._kept
        drawn = self.labels[
            secrets.randbelow(len(self.labels))
        ]  # always, so that time tells nothing
        return label if kept else drawn

    def _check(self, label: Label) -> None:
        if label not in self._known:
            raise ValueError(f"expected one of the labels {self.labels!r}, got {label!r}")

    # --- correcting ------------------------------------------------------------------------------

    def _corrected(self, told: float, every: float) -> float:
        return (told - self.lie * every) / self._share

    def correct_counts(self, told: Mapping[Label, float]) -> dict[Label, float]:
        """Return unbiased estimates of how many readings have each label.

        They may be below 0, as noise is.

        Parameters
        ----------
        told
            How many readings told each label; 0 for those not mentioned.

        """
        for label in told:
            self._check(label)
        every = sum(told.values())
        return {label: self._corrected(told.get(label, 0.0), every) for label in self.labels}

    def correct_sums(self, told: Mapping[Label, ByFeature]) -> dict[Label, dict[Hashable, float]]:
        """Return unbiased estimates of the sums of features (or of anything) over each class.

        Parameters
        ----------
        told
            For each told label the sums over the readings that told it.

        """
        for label in told:
            self._check(label)
        names = list(dict.fromkeys(name for sums in told.values() for name in sums))
        every = {name: sum(sums.get(name, 0.0) for sums in told.values()) for name in names}
        return {
            label: {
                name: self._corrected(told.get(label, {}).get(name, 0.0), every[name])
                for name in names
            }
            for label in self.labels
        }

    def correct_means(
        self, counts: Mapping[Label, float], means: Mapping[Label, ByFeature]
    ) -> dict[Label, dict[Hashable, float]]:
        """Return class means: corrected sums over corrected counts.

        Both are unbiased, their ratio is consistent. A class whose corrected count is not above 0
        has no mean and is left out.

        Parameters
        ----------
        counts, means
            Those of the readings by told label, such as a snapshot's.

        """
        sums = {
            label: {name: counts[label] * mean for name, mean in found.items()}
            for label, found in means.items()
        }
        corrected = self.correct_counts(counts)
        return {
            label: {name: total / corrected[label] for name, total in found.items()}
            for label, found in self.correct_sums(sums).items()
            if corrected[label] > 0.0
        }

    def correct_probabilities(self, told: Mapping[Label, float]) -> dict[Label, float]:
        """Return the probabilities of the true labels from a model's of the told ones.

        The linear correction is unbiased if the model's probabilities are; then they are moved to
        the nearest probabilities there are, which brings them nearer to the truth in every case.

        Parameters
        ----------
        told
            What a model that has learnt told labels says, as by `predict_proba_one`. Labels not
            mentioned have probability 0; without any label there is none.

        """
        if not told:
            return {}
        corrected = self.correct_counts(told)
        nearest = _nearest_distribution(list(corrected.values()))
        return dict(zip(corrected, nearest, strict=True))


def _nearest_distribution(values: Sequence[float]) -> list[float]:
    """Return the nearest values of at least 0 with sum 1 (Euclidean projection)."""
    total, level = 0.0, 0.0
    for count, value in enumerate(sorted(values, reverse=True), 1):
        total += value
        shifted = (total - 1.0) / count
        if value <= shifted:
            break
        level = shifted
    return [max(value - level, 0.0) for value in values]
