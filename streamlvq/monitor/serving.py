"""Models of a group: the local one, which learns, and optionally one served beside it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from streamlvq.arrays import Label
from streamlvq.events import Readings
from streamlvq.models.base import ArrayClassifier
from streamlvq.monitor.late_labels import PendingReading
from streamlvq.monitor.pipeline import DecisionBuffer, Pipeline, ServedAnswer, without_label
from streamlvq.snapshot import TRUSTED_LIMITS, capture
from streamlvq.wrappers.feature_transform import FeatureTransform

SCORE_SPAN_LABELS = 200  # an answer this many labels ago counts 1/e
SCORE_MIN_LABELS = 20  # with fewer, neither model counts as better
LEAD_TO_TAKE_OVER = 0.02  # lead in accuracy that the local model needs to take over
LEAD_TO_KEEP = 0.01  # lead that it needs to keep deciding, so that they do not alternate
_DECAY = 1.0 - 1.0 / SCORE_SPAN_LABELS


@dataclass(slots=True)
class ServingScore:
    """Recent accuracy of the local and the served model.

    Both predict before the local one learns, and older answers count exponentially less. The served
    model decides unless the local one is clearly better: local labels say nothing about classes
    that are known only elsewhere, so the local model may be slightly ahead and still miss all of
    those.

    Examples
    --------

    >>> from streamlvq.monitor.serving import ServingScore

    >>> score = ServingScore()
    >>> for k in range(100):
    ...     score.count(local=k % 2 == 0, fused=k % 4 == 0)
    >>> score.accuracies()
    (0.49, 0.25)
    >>> score.prefers_fused()
    False
    >>> score = ServingScore()
    >>> for k in range(100):
    ...     score.count(local=True, fused=k != 50)
    >>> score.prefers_fused()
    True

    """

    local: float = 0.0  # weights of right answers, summed
    fused: float = 0.0
    weight: float = 0.0  # weights of all answers, summed
    labels: int = 0
    ahead: bool = False  # whether the local model is clearly better

    def count(self, local: bool, fused: bool) -> None:
        """Record which models were right about a label."""
        most = float(SCORE_SPAN_LABELS)
        self.local = min(self.local * _DECAY + local, most)
        self.fused = min(self.fused * _DECAY + fused, most)
        self.weight = min(self.weight * _DECAY + 1.0, most)
        self.labels += 1
        needed = LEAD_TO_KEEP if self.ahead else LEAD_TO_TAKE_OVER
        lead = self.local - self.fused
        self.ahead = self.labels >= SCORE_MIN_LABELS and lead >= needed * self.weight

    def prefers_fused(self) -> bool:
        """Return whether the served model should decide; True also if undecided."""
        return not self.ahead

    def accuracies(self) -> tuple[float | None, float | None]:
        """Return the accuracies of the local and the served model; None before the first label."""
        if self.labels == 0:
            return None, None
        return self.local / self.weight, self.fused / self.weight

    def follow(self, rows: int, judged: Iterable[tuple[int, bool, bool]]) -> npt.NDArray[np.bool_]:
        """Return for each row whether the served model should decide.

        `judged` holds the labelled rows in order, and whether the local and the served model were
        right; each counts from the next row on.
        """
        preferred = np.empty(rows, np.bool_)
        start = 0
        for row, local, fused in judged:
            preferred[start : row + 1] = self.prefers_fused()
            self.count(local, fused)
            start = row + 1
        preferred[start:] = self.prefers_fused()
        return preferred


@dataclass(slots=True)
class Served:
    """Served model in its own wrappers, with its score against the local model."""

    pipeline: Pipeline
    version: int  # n for the n-th model served to the group
    score: ServingScore = field(default_factory=ServingScore)

    def step(self, readings: Readings, duplicates: Sequence[bool]) -> DecisionBuffer:
        """Decide on each reading; the model does not learn."""
        buffer = self.pipeline.step(readings, duplicates)
        buffer.models = ["fused"] * len(readings)
        buffer.versions[:] = self.version
        return buffer

    def decides(self, mode: str) -> bool:
        """Return whether the served model decides on the next reading."""
        return mode == "fused" or (mode == "better" and self.score.prefers_fused())

    def preferred(
        self,
        true_labels: Sequence[Label | None],
        duplicates: Sequence[bool],
        local: DecisionBuffer,
        fused: DecisionBuffer,
        mode: str,
    ) -> npt.NDArray[np.bool_]:
        """Return for each reading whether the served model decides, and update the score."""
        columns = true_labels, duplicates, local.labels(), fused.labels()
        judged = (
            (k, ours == y, theirs == y)
            for k, (y, duplicate, ours, theirs) in enumerate(zip(*columns, strict=True))
            if y is not None and not duplicate
        )
        better = self.score.follow(len(true_labels), judged)
        return better if mode == "better" else np.full(len(true_labels), mode == "fused")

    def learn_late(self, reading: PendingReading, y: Label) -> None:
        """Update score and thresholds with the true label of an earlier reading."""
        if reading.fused is None:
            return
        fused, version = reading.fused
        if version == self.version:  # otherwise another model gave the answer
            self.score.count(reading.local.label == y, fused.label == y)
        self.pipeline.record_outcome(fused, y)


@dataclass(slots=True)
class Group:
    """Models of one group of readings: the one that learns, and one that may decide instead."""

    local: Pipeline
    served: Served | None = None
    served_models: int = 0  # number of models ever served

    @property
    def features(self) -> tuple[Hashable, ...]:
        return self.local.features

    @property
    def classes(self) -> tuple[Label, ...]:
        return self.local.classes

    @property
    def samples(self) -> int:
        return self.local.model.samples

    def step(
        self,
        readings: Readings,
        duplicates: Sequence[bool],
        mode: str,
        remember: bool,
        learnable: Readings | None = None,
    ) -> DecisionBuffer:
        """Let both models decide and the local one learn, then choose between them.

        `mode` is `fleet.serve` of the configuration. With `remember` the buffer also holds the
        answers of both models for readings whose label may come later. `learnable` is what the
        local model sees, without the features and labels that are on probation; None for all.
        """
        local = self.local.step(readings if learnable is None else learnable, duplicates)
        if self.served is None:
            return local
        try:
            fused = self.served.step(readings, duplicates)
        except Exception as error:  # what the local model has learnt stays learnt
            return DecisionBuffer.failed(len(readings), error)
        preferred = self.served.preferred(readings.labels, duplicates, local, fused, mode)
        chosen = _choose(preferred, local, fused)
        chosen.failures = {**fused.failures, **local.failures}
        if remember:
            rows, version = without_label(readings, duplicates), self.served.version
            answers = zip(rows, local.answers_to(rows), fused.answers_to(rows), strict=True)
            chosen.answers = {
                k: (ours, ServedAnswer(theirs, version)) for k, ours, theirs in answers
            }
        return chosen

    def learn_late(self, reading: PendingReading, y: Label) -> None:
        """Learn a reading whose label has arrived, and update all thresholds."""
        self.local.learn_late(reading.features, reading.row, y)
        self.local.record_outcome(reading.local, y)
        if self.served is not None:
            self.served.learn_late(reading, y)

    def hear_late(self, reading: PendingReading, y: Label) -> None:
        """Tell the served model a late label that the local one does not learn yet."""
        if self.served is not None:
            self.served.learn_late(reading, y)

    def learn_held(self, reading: PendingReading, y: Label) -> None:
        """Learn a reading whose class has just been admitted; the served model saw its label."""
        self.local.learn_late(reading.features, reading.row, y)
        self.local.record_outcome(reading.local, y)

    def serve(self, model: Any) -> None:
        """Serve a model from now on, with the windows and thresholds in force.

        Does nothing if that model is served already. The score starts afresh, because the score of
        another model says nothing about this one. Raises ValueError for a model that cannot be
        served.
        """
        model = check_servable(model, self.local)
        deciding = self.local if self.served is None else self.served.pipeline
        if self.served is not None and same(deciding.model, model):
            return
        pipeline = Pipeline(deciding.classifier.moved_to(model), learns=False)
        self.served_models += 1
        self.served = Served(pipeline, self.served_models)


def _choose(
    preferred: npt.NDArray[np.bool_], local: DecisionBuffer, fused: DecisionBuffer
) -> DecisionBuffer:
    if preferred.all():
        return fused
    if not preferred.any():
        return local
    parts = []
    for buffer, rows in ((local, ~preferred), (fused, preferred)):
        indices = np.flatnonzero(rows).tolist()
        parts.append((indices, buffer.select(indices)))
    return DecisionBuffer.merged(len(preferred), parts)


# --- which models may be served ------------------------------------------------------------------


def check_servable(model: Any, local: Pipeline) -> Any:
    """Return the model without its transform; raise ValueError if it cannot be served."""
    inside = model.classifier if type(model) is FeatureTransform else model
    if not isinstance(inside, ArrayClassifier):
        raise ValueError(
            f"expected a streamlvq model without integrator and rejector (the monitor adds its "
            f"own), got {model!r}"
        )
    if inside is local.model:
        raise ValueError(
            "expected a model other than the local one, got the local one itself; pass None "
            "to let it decide"
        )
    if len(inside.classes) < 2:
        raise ValueError(f"expected a model that knows at least 2 classes, got {inside.classes!r}")
    ours, theirs = transform_of(local.classifier), transform_of(model)
    if ours != theirs:
        raise ValueError(
            f"expected a model for readings with the transform {ours!r} (model.transform), "
            f"got {theirs!r}"
        )
    return inside


def transform_of(classifier: Any) -> tuple[str, tuple[Any, ...] | None] | None:
    """Return the name of a classifier's transform and its sorted features (None for all)."""
    if type(classifier) is not FeatureTransform:
        return None
    features = classifier.features
    return classifier.transform, None if features is None else tuple(sorted(features, key=str))


def same(one: Any, other: Any) -> bool:
    """Return whether two models are equal bit for bit."""
    if one is other:
        return True
    first, second = (capture(m, limits=TRUSTED_LIMITS) for m in (one, other))
    return first.same_as(second)
