"""A model with its wrappers that decides and does not learn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from streamlvq.events import Label, Readings
from streamlvq.monitor.columns import Columns
from streamlvq.monitor.fast_path import FastPath
from streamlvq.monitor.pipeline import Pipeline
from streamlvq.monitor.serving_path import ServingPath
from streamlvq.records import Decision
from streamlvq.wrappers.thresholds import Adaptive


class ServedPipeline(Pipeline):
    """What readings go through that are decided on and not learnt.

    Labels tell the thresholds how decisions ended, as late ones do.
    """

    def __init__(self, classifier: Any, number: int) -> None:
        super().__init__(classifier)
        self.number = number

    def _fast_path(self) -> FastPath | None:
        return ServingPath.through(self.model, self.integrator, self.rejector)

    @property
    def version(self) -> int:
        """Which of the models that were served this is: -1 for the first, -2 for the next.

        Below zero, because from zero up versions are labels that the local model has learnt.
        """
        return -self.number

    def step(self, readings: Readings, duplicates: Sequence[bool]) -> Columns:
        """Decide on each reading; the model stays as it is."""
        columns = super().step(readings, duplicates)
        columns.versions[:] = self.version
        return columns

    def _take_in(
        self, x: dict[str, float], label: Label | None, decision: Decision, keywords: dict[str, Any]
    ) -> None:
        if self._inner is not self.model:
            self._inner.observe_one(x, scales=False, **keywords)
        if label is not None and self.rejector is not None and decision.reason != "no_model":
            self.rejector.record_outcome(decision.label, decision.certainty, label)

    def record_outcome(self, label: Label | None, certainty: float, y: Label) -> None:
        """Tell the thresholds how a decision ended, of this model or of one before it."""
        if self.rejector is None:
            return
        thresholds = self.rejector._thresholds
        per_class = isinstance(thresholds, Adaptive) and thresholds.per_class
        if not per_class or label in self.classes:  # a class that is gone has no threshold
            self.rejector.record_outcome(label, certainty, y)
