"""`RejectRate`: share of rejected samples."""

from __future__ import annotations

from typing import Any

from streamlvq.metrics.answers import accepted_label
from streamlvq.metrics.base import Label, MergeableMetric
from streamlvq.metrics.records import Evidence

REJECTED = 2


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
    0.231

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
        return self._mean(REJECTED)
