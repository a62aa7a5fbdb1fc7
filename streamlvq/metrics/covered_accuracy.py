"""`CoveredAccuracy`: accuracy of the accepted samples."""

from __future__ import annotations

from typing import Any

from streamlvq.metrics.answers import accepted_label
from streamlvq.metrics.base import Label, MergeableMetric
from streamlvq.metrics.records import Evidence

RIGHT = 2


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
    CoveredAccuracy: 95.21%
    RejectRate: 23.12%

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
        return self._mean(RIGHT)
