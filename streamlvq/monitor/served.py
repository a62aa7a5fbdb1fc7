"""A model that decides in the place of the local one, which goes on learning by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from streamlvq.events import Label, Readings
from streamlvq.monitor.carrying import carried
from streamlvq.monitor.columns import Columns, Opinion, Opinions
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

        Returns `before` if that is just what is served already. How well another model did says
        nothing about this one, so both begin anew, to be judged on the same labels. Raises
        ValueError for a model that cannot be served.
        """
        model = bare(model, local)
        if before is None:
            return cls(ServedPipeline(carried(local.classifier, model), number), Standing())
        if same(before.pipeline.model, model):
            return before
        pipeline = ServedPipeline(carried(before.pipeline.classifier, model), number)
        return cls(pipeline, Standing())

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
            return (), Columns.failed(len(readings), error)
        opinions = list(zip(_opinions(local, said), _opinions(self.pipeline, fused), strict=True))
        preferred = self._preferred(readings.labels, duplicates, opinions, mode)
        classes, columns = _chosen(preferred, (local.classes, said), (self.pipeline.classes, fused))
        columns.failures = {**fused.failures, **said.failures}
        if remember:
            columns.opinions = {
                k: Opinions(*both)
                for k, both in enumerate(opinions)
                if readings.labels[k] is None and not duplicates[k]
            }
        return classes, columns

    def _preferred(
        self,
        truths: Sequence[Label | None],
        duplicates: Sequence[bool],
        opinions: Sequence[tuple[Opinion, Opinion]],
        mode: str,
    ) -> npt.NDArray[np.bool_]:
        """Whether the served model decides on each reading; labels tell who was right."""
        judged = (
            (k, local == y, fused == y)
            for k, (y, again, ((local, _), (fused, _))) in enumerate(
                zip(truths, duplicates, opinions, strict=True)
            )
            if y is not None and not again
        )
        better = self.standing.follow(len(truths), judged)
        return better if mode == "better" else np.full(len(truths), mode == "fused")

    def learn_late(self, waiting: Waiting, y: Label) -> None:
        """Hear how a reading ended that both have decided on."""
        if waiting.fused is not None:
            label, certainty = waiting.fused
            if waiting.number == self.pipeline.number:  # otherwise it was said by another model
                self.standing.count(waiting.label == y, label == y)
            self.pipeline.record_outcome(label, certainty, y)


def _chosen(preferred: npt.NDArray[np.bool_], local: Decided, fused: Decided) -> Decided:
    if preferred.all():
        return fused
    if not preferred.any():
        return local
    parts = []
    for (classes, columns), rows in ((local, ~preferred), (fused, preferred)):
        indices = np.flatnonzero(rows).tolist()
        parts.append((indices, (classes, columns.select(indices))))
    return merge(len(preferred), parts)


def _opinions(pipeline: Pipeline, columns: Columns) -> list[Opinion]:
    """The label of each row, accepted or not, and how certain it is."""
    classes = pipeline.classes
    rows = zip(columns.codes.tolist(), columns.certainties.tolist(), columns.reasons, strict=True)
    return [
        (classes[code] if code >= 0 else None, -1.0 if reason == "no_model" else certainty)
        for code, certainty, reason in rows
    ]
