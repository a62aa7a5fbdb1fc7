"""A model that decides in the place of the local one, which goes on learning by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from streamlvq.events import Label, Readings
from streamlvq.monitor.carrying import carried
from streamlvq.monitor.columns import Columns, Opinions
from streamlvq.monitor.grouping import Decided, merge
from streamlvq.monitor.pending import Waiting
from streamlvq.monitor.pipeline import Pipeline
from streamlvq.monitor.servable import bare, same
from streamlvq.monitor.served_pipeline import ServedPipeline
from streamlvq.monitor.standing import Standing


class Served:
    """A served model beside the local one: who decides on a reading, and how both have done.

    Parameters
    ----------
    pipeline
        The served model, in wrappers of its own.
    standing
        How both have done so far.

    """

    def __init__(self, pipeline: ServedPipeline, standing: Standing) -> None:
        self.pipeline = pipeline
        self.standing = standing

    @classmethod
    def beside(cls, local: Pipeline, before: Served | None, model: Any, number: int) -> Served:
        """Serve a model from now on; windows and thresholds are those that were in force.

        Returns `before` if that is just what is served already. Raises ValueError for a model that
        cannot be served.
        """
        model = bare(model, local)
        if before is None:
            return cls(ServedPipeline(carried(local.classifier, model), number), Standing())
        if same(before.pipeline.model, model):
            return before
        pipeline = ServedPipeline(carried(before.pipeline.classifier, model), number)
        return cls(pipeline, before.standing)

    def decides(self, mode: str) -> bool:
        """Whether the served model is to decide on the next reading."""
        return mode == "fused" or (mode == "better" and self.standing.prefers_fused())

    def step(
        self,
        local: Pipeline,
        readings: Readings,
        duplicates: Sequence[bool],
        mode: str,
        remember: bool,
    ) -> Decided:
        """Let both decide, the local model also learn, and choose."""
        said = local.step(readings, duplicates)
        try:
            fused = self.pipeline.step(readings, duplicates)
        except Exception as error:  # what the local model has learnt stays learnt
            fused = Columns.failed(len(readings), error)
        local_labels, fused_labels = _labels(local, said), _labels(self.pipeline, fused)
        judged = (
            (k, local_labels[k] == y, fused_labels[k] == y)
            for k, (y, again) in enumerate(zip(readings.labels, duplicates, strict=True))
            if y is not None and not again
        )
        preferred = self.standing.follow(len(readings), judged)
        if mode != "better":
            preferred[:] = mode == "fused"
        classes, columns = _chosen(preferred, (local.classes, said), (self.pipeline.classes, fused))
        columns.failures = {**fused.failures, **said.failures}
        if remember:
            columns.opinions = {
                k: Opinions(
                    (local_labels[k], _certainty(said, k)), (fused_labels[k], _certainty(fused, k))
                )
                for k, (y, again) in enumerate(zip(readings.labels, duplicates, strict=True))
                if y is None and not again
            }
        return classes, columns

    def learn_late(self, waiting: Waiting, y: Label) -> None:
        """Hear how a reading ended that both have decided on."""
        if waiting.fused is not None:
            label, certainty = waiting.fused
            self.standing.count(waiting.label == y, label == y)
            self.pipeline.hear_late(label, certainty, y)


def _chosen(preferred: Any, local: Decided, fused: Decided) -> Decided:
    if preferred.all():
        return fused
    if not preferred.any():
        return local
    parts = []
    for (classes, columns), rows in ((local, ~preferred), (fused, preferred)):
        indices = np.flatnonzero(rows).tolist()
        parts.append((indices, (classes, columns.select(indices))))
    return merge(len(preferred), parts)


def _labels(pipeline: Pipeline, columns: Columns) -> list[Label | None]:
    classes = pipeline.classes
    return [classes[code] if code >= 0 else None for code in columns.codes.tolist()]


def _certainty(columns: Columns, k: int) -> float:
    return -1.0 if columns.reasons[k] == "no_model" else float(columns.certainties[k])
