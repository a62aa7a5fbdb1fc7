"""`ExpectedCalibrationError`: difference between predicted probabilities and accuracy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from streamlvq import plot
from streamlvq.arrays import Label
from streamlvq.metrics.base import (
    WEIGHT,
    Evidence,
    MergeableMetric,
    Reliability,
    label_and_probability,
)
from streamlvq.models.parameters import check_range

if TYPE_CHECKING:
    from matplotlib.axes import Axes


RIGHT, CONFIDENCE = 2, 3


class ExpectedCalibrationError(MergeableMetric):
    """Mean difference between the probability of the predicted class and its accuracy.

    Of the predictions made with a probability of about 0.8, eight in ten should be right. The
    samples are put into bins of equal width by the probability of the predicted class, and the
    differences between the mean probability and the accuracy of each bin are averaged, weighted
    by the samples there. A probability on the border of two bins belongs to the upper one.

    Predictions are dictionaries of probabilities, or decisions, accepted or not. A `Decision`
    without a label, from a model that has learnt nothing yet, is left out.

    Parameters
    ----------
    bins
        Number of bins. More bins reveal differences that fewer would average out, but need more
        samples.

    Examples
    --------

    >>> from river import datasets, evaluate
    >>> import streamlvq
    >>> from streamlvq import metrics

    >>> model = streamlvq.GLVQ()
    >>> metric = metrics.ExpectedCalibrationError()
    >>> evaluate.progressive_val_score(datasets.Phishing(), model, metric)
    ExpectedCalibrationError: 1.93%

    The least confident predictions were right more often than the model thought:

    >>> table = metric.reliability()
    >>> float(table.confidence[0]), float(table.accuracy[0])
    (0.517, 0.703)

    References
    ----------
    - Naeini, M. P., Cooper, G. F., Hauskrecht, M. (2015). Obtaining well calibrated probabilities
      using Bayesian binning. AAAI, 2901-2907.
    - Guo, C., Pleiss, G., Sun, Y., Weinberger, K. Q. (2017). On calibration of modern neural
      networks. ICML, PMLR 70, 1321-1330.

    """

    def __init__(self, bins: int = 15) -> None:
        check_range(type(self).__name__, "bins", bins, 1, whole=True)
        super().__init__(rows=bins, values=2)
        self.bins = bins

    def _evidence(self, y_true: Label, y_pred: Any) -> Evidence | None:
        prediction = label_and_probability(y_pred)
        if prediction is None:
            return None
        label, confidence = prediction
        bin_index = min(int(confidence * self.bins), self.bins - 1)
        return Evidence(bin_index, (float(bool(y_true == label)), confidence))

    @property
    def bigger_is_better(self) -> bool:
        return False

    @property
    def requires_labels(self) -> bool:
        return False

    def get(self) -> float:
        """Return the mean difference between confidence and accuracy, 0 before any sample."""
        confidence, accuracy, weight = self.reliability()
        total = weight.sum()
        return float(weight @ np.abs(accuracy - confidence) / total) if total > 0 else 0.0

    def reliability(self) -> Reliability:
        """Return mean confidence, accuracy and weight of every bin that is not empty."""
        sums = self._sums[self._sums[:, WEIGHT] > 0]
        weight = sums[:, WEIGHT]
        return Reliability(sums[:, CONFIDENCE] / weight, sums[:, RIGHT] / weight, weight)

    def plot(self, ax: Axes | None = None, label: str | None = None) -> Axes:
        """Draw the reliability diagram (extra `plot`).

        Parameters
        ----------
        ax
            Axes to draw on; a new figure by default.
        label
            Name in the legend.

        """
        return plot.reliability_diagram(self, ax, label)
