"""Collection of metrics that accepts decisions."""

from __future__ import annotations

from typing import Any

from river import metrics

from streamlvq.records import Decision


class MetricCollection(metrics.base.Metrics):  # type: ignore[misc]
    """River's collection of metrics, extended to decisions.

    River's own collection cannot handle a `Decision`. `+` creates this one if one of our metrics
    comes first; River's metrics use the label of a decision, also of a rejected one.
    """

    def update(self, y_true: Any, y_pred: Any, w: float = 1.0) -> None:
        if not isinstance(y_pred, Decision):
            super().update(y_true, y_pred, w)
            return
        for metric, prediction in self._adapted(y_pred):
            metric.update(y_true, prediction, w)

    def revert(self, y_true: Any, y_pred: Any, w: float = 1.0) -> None:
        if not isinstance(y_pred, Decision):
            super().revert(y_true, y_pred, w)
            return
        for metric, prediction in self._adapted(y_pred):
            metric.revert(y_true, prediction, w)

    def _adapted(self, decision: Decision) -> list[tuple[Any, Any]]:
        """Return each metric with the form of the decision that it accepts."""
        ours: list[tuple[Any, Any]] = [(metric, decision) for metric in self if _is_ours(metric)]
        if decision.label is None:  # River ignores predictions without a label
            return ours
        label, probabilities = decision.label, decision.probabilities
        others = [metric for metric in self if not _is_ours(metric)]
        return ours + [
            (other, label if other.requires_labels else probabilities) for other in others
        ]


def _is_ours(metric: Any) -> bool:
    return bool(getattr(metric, "_understands_decisions", False))
