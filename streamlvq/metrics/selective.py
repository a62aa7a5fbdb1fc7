"""Selective classification: `CoveredAccuracy`, `RejectRate` and `AccuracyRejectCurve`."""

from __future__ import annotations

import functools
import math
from bisect import bisect_right
from typing import TYPE_CHECKING, Any

import numpy as np

from streamlvq import plot
from streamlvq.arrays import Floats, Label
from streamlvq.metrics.base import (
    COUNT,
    PROBABILITY_SLACK,
    WEIGHT,
    CurvePoints,
    Evidence,
    MergeableMetric,
    accepted_label,
    check_weight,
    label_and_certainty,
)
from streamlvq.models.parameters import check_range

if TYPE_CHECKING:
    from matplotlib.axes import Axes


RIGHT_COLUMN = 2


class CoveredAccuracy(MergeableMetric):
    """Accuracy over the accepted samples; rejected ones do not count.

    A prediction of None and a `Decision` that is not accepted are rejections. Use it together with
    `RejectRate`: a classifier that rejects nearly everything is easily right.

    Examples
    --------

    >>> from river import datasets
    >>> import streamlvq
    >>> from streamlvq import metrics

    >>> model = streamlvq.GLVQ()
    >>> both = metrics.CoveredAccuracy() + metrics.RejectRate()
    >>> for x, y in datasets.Phishing():
    ...     probabilities = model.predict_proba_one(x)
    ...     sure = max(probabilities.values(), default=0.0) >= 0.8
    ...     both.update(y, max(probabilities, key=probabilities.get) if sure else None)
    ...     model.learn_one(x, y)
    >>> both
    CoveredAccuracy: 94.76%
    RejectRate: 20.64%

    References
    ----------
    - Chow, C. K. (1970). On optimum recognition error and reject tradeoff. IEEE Transactions on
      Information Theory 16(1), 41-46.

    """

    def __init__(self) -> None:
        super().__init__(rows=1, values=1)

    def _evidence(self, y_true: Label, y_pred: Any) -> Evidence | None:
        accepted, label = accepted_label(y_pred)
        return Evidence(0, (float(bool(y_true == label)),)) if accepted else None

    def get(self) -> float:
        """Return the accuracy over the accepted samples, 0 before any."""
        return self._mean(RIGHT_COLUMN)


REJECTED_COLUMN = 2


class RejectRate(MergeableMetric):
    """Share of the samples that were rejected.

    A prediction of None and a `Decision` that is not accepted are rejections, anything else is
    not. River's `evaluate.progressive_val_score` does not pass predictions of None to metrics, so
    write the loop yourself, as below.

    Examples
    --------

    >>> from river import datasets
    >>> import streamlvq
    >>> from streamlvq import metrics

    >>> model = streamlvq.GLVQ()
    >>> rejected = metrics.RejectRate()
    >>> for x, y in datasets.Phishing():
    ...     probabilities = model.predict_proba_one(x)
    ...     sure = max(probabilities.values(), default=0.0) >= 0.8
    ...     rejected.update(y, max(probabilities, key=probabilities.get) if sure else None)
    ...     model.learn_one(x, y)
    >>> rejected.get()
    0.206

    References
    ----------
    - Chow, C. K. (1970). On optimum recognition error and reject tradeoff. IEEE Transactions on
      Information Theory 16(1), 41-46.

    """

    def __init__(self) -> None:
        super().__init__(rows=1, values=1)

    def _evidence(self, y_true: Label, y_pred: Any) -> Evidence:
        accepted, _ = accepted_label(y_pred)
        return Evidence(0, (0.0 if accepted else 1.0,))

    @property
    def bigger_is_better(self) -> bool:
        return False

    def get(self) -> float:
        """Return the share that was rejected, 0 before any sample."""
        return self._mean(REJECTED_COLUMN)


LOG_WEIGHT = 0.02  # weight of an e-fold closer to 1, relative to a step from 0 to 1
MAX_LOG_CERTAINTY = 53 * math.log(2)  # e-folds from 0 to the last float before 1


class AccuracyRejectCurve(MergeableMetric):
    """Accuracy of the accepted samples for every possible reject rate.

    Samples are rejected in order of certainty, those of equal certainty together. The curve starts
    at the accuracy of all samples and ends, by convention, at an accuracy of 1 where everything is
    rejected. The value of the metric is the area under the curve, by the trapezoidal rule.

    Predictions are dictionaries of probabilities, whose certainty is the largest one, or
    decisions: their label and certainty count whether they were accepted or not. A `Decision`
    without a label, from a model that has learnt nothing yet, is a wrong one of certainty 0.

    Memory does not grow with the stream: certainties are put into bins, which are finer towards
    1. Of the default 2048 bins those at 0 are 0.0008 wide, those at 0.9 are 0.0007, and near 1
    each spans 4 % of what is missing to 1; a certainty of exactly 1 has a bin of its own. The
    thresholds are borders of bins, so rates and accuracies at a threshold are exact. The area is
    that of a curve without the points inside of bins. For certainties that are not all in a few
    bins it is off by 6e-5 or less on average after 300 samples, 2e-5 after 2000 and 5e-6 after
    20000, seldom by five times as much: a small part of what chance does to it.

    A model that knows one class so far is certain of it. Such predictions at the start of a
    stream are the last to be rejected, and can pull down the end of the curve.

    Parameters
    ----------
    bins
        Number of bins.

    Examples
    --------

    >>> from river import datasets, evaluate
    >>> import streamlvq
    >>> from streamlvq import metrics

    >>> model = streamlvq.GLVQ()
    >>> curve = metrics.AccuracyRejectCurve()
    >>> evaluate.progressive_val_score(datasets.Phishing(), model, curve)
    AccuracyRejectCurve: 96.62%

    What would the accuracy be without the least certain fifth, and how much must be rejected to
    be right in 95 % of the cases?

    >>> curve.accuracy_at(0.2)
    0.95
    >>> curve.reject_rate_for(0.95)
    0.212
    >>> curve.threshold_for(0.95)
    0.805

    Curves of several streams add up:

    >>> other = metrics.AccuracyRejectCurve()
    >>> evaluate.progressive_val_score(datasets.Bananas(), streamlvq.GLVQ(), other)
    AccuracyRejectCurve: 96.19%
    >>> curve.merge(other)
    >>> curve.area
    0.963

    References
    ----------
    - Nadeem, M. S. A., Zucker, J.-D., Hanczar, B. (2009). Accuracy-rejection curves (ARCs) for
      comparing classification methods with a reject option. MLSB, PMLR 8, 65-81.
    - Fischer, L., Hammer, B., Wersing, H. (2015). Efficient rejection strategies for
      prototype-based classification. Neurocomputing 169, 334-342.

    """

    def __init__(self, bins: int = 2048) -> None:
        check_range(type(self).__name__, "bins", bins, 2, whole=True)
        super().__init__(rows=bins, values=1)
        self.bins = bins

    # --- evidence --------------------------------------------------------------------------------

    def _evidence(self, y_true: Label, y_pred: Any) -> Evidence:
        label, certainty = label_and_certainty(y_pred)
        place = bisect_right(_border_list(self.bins), certainty) - 1
        return Evidence(place, (float(bool(y_true == label)),))

    def update_many(self, y_true: Any, y_pred: Any, certainty: Any, w: float = 1.0) -> None:
        """Add many samples at once.

        Parameters
        ----------
        y_true
            True labels.
        y_pred
            Predicted labels.
        certainty
            Certainties of the predictions, from 0 to 1.
        w
            Weight of each sample.

        """
        weight, certainties = check_weight(w), _checked(certainty)
        if not len(y_true) == len(y_pred) == len(certainties):
            lengths = f"{len(y_true)}, {len(y_pred)} and {len(certainties)}"
            raise ValueError(f"expected as many classes as labels and certainties, got {lengths}")
        # One by one: an array of mixed labels would turn them into strings
        right = np.array([bool(a == b) for a, b in zip(y_true, y_pred, strict=True)], float)
        places = np.searchsorted(_borders(self.bins), certainties, side="right") - 1
        counts = np.bincount(places, minlength=self.bins)
        self._sums[:, COUNT] += counts
        self._sums[:, WEIGHT] += weight * counts
        self._sums[:, RIGHT_COLUMN] += weight * np.bincount(places, right, minlength=self.bins)

    # --- the curve -------------------------------------------------------------------------------

    @property
    def requires_labels(self) -> bool:
        return False

    def get(self) -> float:
        """Return the area under the curve, 0 before any sample."""
        rates, accuracies, _ = self.points()
        return float(np.trapezoid(accuracies, rates))

    @property
    def area(self) -> float:
        """Area under the curve, 0 before any sample."""
        return self.get()

    def points(self) -> CurvePoints:
        """Return reject rates, accuracies and thresholds, from nothing to everything rejected.

        The first threshold is 0; the last one, which rejects everything, is infinite.
        """
        used = np.flatnonzero(self._sums[:, WEIGHT] > 0)
        if not len(used):
            return CurvePoints(np.ones(1), np.ones(1), np.full(1, np.inf))
        weight, right = self._sums[used, WEIGHT], self._sums[used, RIGHT_COLUMN]
        rejected = np.append(0.0, np.cumsum(weight))
        kept, kept_right = np.cumsum(weight[::-1])[::-1], np.cumsum(right[::-1])[::-1]
        accuracies = np.append(np.clip(kept_right / kept, 0.0, 1.0), 1.0)
        thresholds = np.append(_borders(self.bins)[used], np.inf)
        thresholds[0] = 0.0  # must also accept less certain samples to come
        return CurvePoints(rejected / rejected[-1], accuracies, thresholds)

    def accuracy_at(self, reject_rate: float) -> float:
        """Return the accuracy of accepted samples at a reject rate, 0 before any sample."""
        check_range("accuracy_at", "reject_rate", reject_rate, 0, 1)
        rates, accuracies, _ = self.points()
        return float(np.interp(reject_rate, rates, accuracies)) if len(rates) > 1 else 0.0

    def threshold_at(self, reject_rate: float) -> float:
        """Return the largest threshold that rejects at most this share of samples."""
        check_range("threshold_at", "reject_rate", reject_rate, 0, 1)
        rates, _, thresholds = self.points()
        if len(rates) == 1:
            return 0.0
        return float(thresholds[np.searchsorted(rates, reject_rate, side="right") - 1])

    def threshold_for(self, accuracy: float) -> float | None:
        """Return the smallest threshold that reaches an accuracy; None if there is none."""
        check_range("threshold_for", "accuracy", accuracy, 0, 1)
        found = self._first(accuracy)
        return None if found is None else float(self.points().thresholds[found])

    def reject_rate_for(self, accuracy: float) -> float | None:
        """Return the reject rate of `threshold_for` an accuracy; None if there is none."""
        check_range("reject_rate_for", "accuracy", accuracy, 0, 1)
        found = self._first(accuracy)
        return None if found is None else float(self.points().reject_rates[found])

    def _first(self, accuracy: float) -> int | None:
        """Return the first point with this accuracy, except the conventional last one."""
        good = np.flatnonzero(self.points().accuracies[:-1] >= accuracy)
        return int(good[0]) if len(good) else None

    def plot(self, ax: Axes | None = None, label: str | None = None) -> Axes:
        """Draw the curve (extra `plot`).

        Parameters
        ----------
        ax
            Axes to draw on; a new figure by default. Several curves can share them.
        label
            Name in the legend.

        """
        return plot.accuracy_reject_curve(self, ax, label)


@functools.lru_cache(maxsize=8)
def _borders(bins: int) -> Floats:
    """Return the smallest certainty of each bin; the last bin is for exactly 1.

    Certainties spread over [0, 1] but also crowd near 1, where 1 - 1e-6 and 1 - 1e-12 are as
    different as 0.1 and 0.9. So bins are equal steps on the sum of a linear and a log scale,
    c - LOG_WEIGHT * log(1 - c), written here in folds = -log(1 - c).
    """
    folds = np.linspace(0.0, MAX_LOG_CERTAINTY, 100_001)
    scale = -np.expm1(-folds) + LOG_WEIGHT * folds
    steps = np.linspace(0.0, scale[-1], bins)
    borders: Floats = -np.expm1(-np.interp(steps, scale, folds))
    borders[-1] = 1.0
    borders.flags.writeable = False  # shared by all curves with this number of bins
    return borders


@functools.lru_cache(maxsize=8)
def _border_list(bins: int) -> list[float]:
    """Return the borders as a list, which bisects faster than an array for single numbers."""
    return [float(border) for border in _borders(bins)]


def _checked(certainty: Any) -> Floats:
    certainties = np.asarray(certainty, dtype=float)
    good = (certainties >= -PROBABILITY_SLACK) & (certainties <= 1 + PROBABILITY_SLACK)
    if certainties.ndim != 1 or not good.all():
        got = f"{certainties.ndim} dimensions" if certainties.ndim != 1 else certainties[~good][0]
        raise ValueError(f"expected a list of certainties from 0 to 1, got {got}")
    clipped: Floats = np.clip(certainties, 0.0, 1.0)
    return clipped
