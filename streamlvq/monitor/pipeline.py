"""A classifier with its wrappers, as a step from readings to decisions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from streamlvq.events import Label, Readings
from streamlvq.models import LVQCommittee
from streamlvq.models.base import LVQClassifier
from streamlvq.monitor.columns import Columns
from streamlvq.monitor.fast_path import FastPath
from streamlvq.monitor.pending import Waiting
from streamlvq.records import Decision
from streamlvq.wrappers import TimeIntegrator
from streamlvq.wrappers.chain import unwrap
from streamlvq.wrappers.feature_transform import FeatureTransform
from streamlvq.wrappers.rejector import Rejector, no_model


class Pipeline:
    """What the readings of a group go through.

    Parameters
    ----------
    classifier
        A model of streamlvq, alone or in a `TimeIntegrator`, a rejector, or both; all of it may be
        in a `FeatureTransform`.

    """

    def __init__(self, classifier: Any) -> None:
        self.classifier = classifier
        chain = list(unwrap(classifier))
        # `type`, because `isinstance` sees through pipelines
        self.transform: FeatureTransform | None = (
            chain.pop(0) if type(classifier) is FeatureTransform else None
        )
        self._inner = chain[0]  # what sees readings as they are once they are transformed
        self.model: LVQClassifier | LVQCommittee = chain[-1]
        self.rejector = next((link for link in chain if isinstance(link, Rejector)), None)
        self.integrator = next((link for link in chain if isinstance(link, TimeIntegrator)), None)
        self._fast = self._fast_path()

    def _fast_path(self) -> FastPath | None:
        return FastPath.through(self.model, self.integrator, self.rejector)

    @property
    def classes(self) -> tuple[Label, ...]:
        return self.model.classes

    @property
    def version(self) -> int:
        """Labelled samples learnt so far."""
        return self.model.samples

    # --- readings --------------------------------------------------------------------------------

    def step(self, readings: Readings, duplicates: Sequence[bool]) -> Columns:
        """Decide on each reading, then learn it if it has a label; duplicates change nothing."""
        readings = self._transformed(readings)
        new = {y for y in readings.labels if y is not None}.difference(self.classes)
        columns = Columns.empty(len(readings), len(self.classes) + len(new))
        k = 0
        while k < len(readings):
            if self._fast is not None and self._fast.is_ready(readings, k):
                k = self._fast.run(columns, k, readings, duplicates)
            else:
                try:
                    self._step_one(columns, k, readings, duplicates[k])
                except Exception as error:  # the other readings shall not suffer from a defect
                    columns.failures[k] = error
                k += 1
        # A class that was announced may have failed to come.
        columns.probabilities = columns.probabilities[:, : len(self.classes)]
        return columns

    def _transformed(self, readings: Readings) -> Readings:
        """Readings as the model sees them; those that cannot be were refused before."""
        if self.transform is None or not len(readings):
            return readings
        rows = self.transform.transform_rows(readings.rows, readings.features)
        return replace(readings, rows=rows)

    def _step_one(self, columns: Columns, k: int, readings: Readings, duplicate: bool) -> None:
        x = dict(zip(readings.features, readings.rows[k].tolist(), strict=True))
        label = readings.labels[k]
        keywords: dict[str, Any] = {}
        if self._inner is not self.model:
            keywords = {"device": readings.devices[k], "t": readings.times[k]}
        decision = self._decide(x, keywords)
        known = len(self.classes)
        if decision.label is not None:
            columns.codes[k] = self.classes.index(decision.label)
            columns.probabilities[k, :known] = list(decision.probabilities.values())
        columns.certainties[k] = decision.certainty
        columns.thresholds[k] = decision.threshold
        columns.accepted[k] = decision.accepted
        columns.reasons[k] = decision.reason
        columns.versions[k] = self.version
        if not duplicate:
            self._take_in(x, label, decision, keywords)

    def _take_in(
        self, x: dict[str, float], label: Label | None, decision: Decision, keywords: dict[str, Any]
    ) -> None:
        """Learn a reading that was decided on; one without a label moves its window on."""
        if label is not None:
            self._inner.learn_one(x, label, **keywords)
        elif self._inner is not self.model:
            self._inner.observe_one(x, scales=False, **keywords)

    def _decide(self, x: dict[str, float], keywords: dict[str, Any]) -> Decision:
        if self.rejector is not None:
            return self.rejector.decide_one(x, **keywords)
        probabilities = self._inner.predict_proba_one(x, **keywords)
        label = max(probabilities, key=probabilities.__getitem__, default=None)
        if len(probabilities) < 2:
            return no_model(label, 0.0, probabilities)
        return Decision(
            label=label,
            certainty=probabilities[label],
            accepted=True,
            reason=None,
            threshold=0.0,
            winner=label,
            runner_up=None,
            distance=None,
            runner_up_distance=None,
            probabilities=probabilities,
        )

    # --- late labels -----------------------------------------------------------------------------

    def learn_late(self, waiting: Waiting, y: Label) -> None:
        """Learn a reading whose window has moved on since; thresholds hear how it ended."""
        x: Any = dict(zip(waiting.features, waiting.row.tolist(), strict=True))
        if self.transform is not None:
            x = self.transform.transform_one(x)
        self.model.learn_one(x, y)
        if self.rejector is not None:
            self.rejector.record_outcome(waiting.label, waiting.certainty, y)
