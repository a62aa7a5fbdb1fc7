"""Several metrics at once."""

from __future__ import annotations

from typing import Any

from river import metrics

from streamlvq.records import Decision


class Metrics(metrics.base.Metrics):  # type: ignore[misc]
    """River's collection of metrics, for decisions too.

    River asks a prediction for what each metric needs, and a `Decision` would not understand.
    This is what `+` makes if one of our metrics stands first; rejected decisions count for River's
    by their labels.
    """

    def update(self, y_true: Any, y_pred: Any, w: float = 1.0) -> None:
        if not isinstance(y_pred, Decision):
            super().update(y_true, y_pred, w)
            return
        for metric, said in self._understood(y_pred):
            metric.update(y_true, said, w)

    def revert(self, y_true: Any, y_pred: Any, w: float = 1.0) -> None:
        if not isinstance(y_pred, Decision):
            super().revert(y_true, y_pred, w)
            return
        for metric, said in self._understood(y_pred):
            metric.revert(y_true, said, w)

    def _understood(self, decision: Decision) -> list[tuple[Any, Any]]:
        """The metrics, with what each of them understands of the decision."""
        ours: list[tuple[Any, Any]] = [(metric, decision) for metric in self if _is_ours(metric)]
        if decision.label is None:  # River leaves out predictions that say nothing
            return ours
        label, probabilities = decision.label, decision.probabilities
        others = [metric for metric in self if not _is_ours(metric)]
        return ours + [
            (other, label if other.requires_labels else probabilities) for other in others
        ]


def _is_ours(metric: Any) -> bool:
    return bool(getattr(metric, "_understands_decisions", False))
