"""Models of a group: the local one, which learns, and optionally one served beside it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from streamlvq.arrays import Label
from streamlvq.events import Model, Readings
from streamlvq.models.base import ArrayClassifier
from streamlvq.models.pool import PoolClassifier
from streamlvq.monitor.late_labels import PendingReading
from streamlvq.monitor.pipeline import (
    DecisionBuffer,
    Pipeline,
    Progress,
    ServedAnswer,
    without_label,
)
from streamlvq.snapshot import TRUSTED_LIMITS, capture
from streamlvq.wrappers.feature_transform import FeatureTransform

SCORE_SPAN_LABELS = 200  # an answer this many labels ago counts 1/e
_DECAY = 1.0 - 1.0 / SCORE_SPAN_LABELS


@dataclass(slots=True)
class ServingScore:
    """Recent accuracy of the local and the served model.

    Both predict before the local one learns, and older answers count exponentially less. It is
    shown and decides nothing: labels of this node say nothing about classes that only others know.

    Examples
    --------

    >>> from streamlvq.monitor.serving import ServingScore

    >>> score = ServingScore()
    >>> for k in range(100):
    ...     score.count(local=k % 2 == 0, fused=k % 4 == 0)
    >>> score.accuracies()
    (0.49, 0.25)

    """

    local: float = 0.0  # weights of right answers, summed
    fused: float = 0.0
    weight: float = 0.0  # weights of all answers, summed
    labels: int = 0

    def count(self, local: bool, fused: bool) -> None:
        """Record which models were right about a label."""
        most = float(SCORE_SPAN_LABELS)
        self.local = min(self.local * _DECAY + local, most)
        self.fused = min(self.fused * _DECAY + fused, most)
        self.weight = min(self.weight * _DECAY + 1.0, most)
        self.labels += 1

    def accuracies(self) -> tuple[float | None, float | None]:
        """Return the accuracies of the local and the served model; None before the first label."""
        if self.labels == 0:
            return None, None
        return self.local / self.weight, self.fused / self.weight


@dataclass(slots=True)
class Served:
    """Served model in its own wrappers, with its score beside that of the local model."""

    pipeline: Pipeline
    version: int  # n for the n-th model served to the group
    score: ServingScore = field(default_factory=ServingScore)

    @property
    def name(self) -> Model:
        """What decisions call it."""
        return "fused" if self.pipeline.pool is None else "pool"

    def run_ends(self, readings: Readings, duplicates: Sequence[bool]) -> list[int]:
        """Return where runs end in which this model can decide on all readings at once.

        A pool asks the local model, which stays the same until it learns the next label.
        """
        ends = {len(readings)}
        if self.pipeline.pool is not None:
            labels = enumerate(zip(readings.labels, duplicates, strict=True))
            ends |= {k + 1 for k, (y, again) in labels if y is not None and not again}
        return sorted(ends)

    def follow_local(self) -> None:
        """Let a pool have columns for all classes that the local model has learnt."""
        if self.pipeline.pool is not None:
            self.pipeline.pool.follow_local()

    def finish(self, progress: Progress) -> DecisionBuffer:
        """Return the decisions of a step, signed by this model."""
        buffer = self.pipeline.finish(progress)
        buffer.models = [self.name] * len(buffer.codes)
        buffer.versions[:] = self.version
        return buffer

    def judge(
        self,
        true_labels: Sequence[Label | None],
        duplicates: Sequence[bool],
        local: DecisionBuffer,
        fused: DecisionBuffer,
    ) -> None:
        """Update the score with the labels that came with readings."""
        columns = true_labels, duplicates, local.labels(), fused.labels()
        for y, duplicate, ours, theirs in zip(*columns, strict=True):
            if y is not None and not duplicate:
                self.score.count(ours == y, theirs == y)

    def hear_late(self, reading: PendingReading, y: Label, device: str) -> None:
        """Note opinions on an earlier reading whose label has come; update score and thresholds.

        Opinions are those of now: the reading has not been learnt, whichever model answered.
        """
        self.pipeline.score_late(reading.features, reading.row, y)
        if reading.fused is None:
            return
        fused, version = reading.fused
        if version == self.version:
            self.score.count(reading.local.label == y, fused.label == y)
        else:  # another model gave the answer
            fused = fused._replace(evidence=None)
        self.pipeline.record_outcome(fused, y, device)


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

    def deciding(self, mode: str) -> Pipeline:
        """Return the pipeline that decides; `mode` is `fleet.serve` of the configuration."""
        return self.local if self.served is None or mode == "local" else self.served.pipeline

    def step(
        self,
        readings: Readings,
        duplicates: Sequence[bool],
        mode: str,
        remember: bool,
        learnable: Readings | None = None,
    ) -> DecisionBuffer:
        """Let both models decide and the local one learn; return the decisions of one of them.

        `mode` is `fleet.serve` of the configuration. With `remember` the buffer also holds the
        answers of both models for readings whose label may come later, or is on probation.
        `learnable` is what the local model sees, without the features and labels that are on
        probation; None for all.
        """
        seen = readings if learnable is None else learnable
        if self.served is None:
            return self.local.step(seen, duplicates, remember)
        local, fused = self._step_both(self.served, readings, seen, duplicates, remember)
        if isinstance(fused, Exception):  # what the local model has learnt stays learnt
            return DecisionBuffer.failed(len(readings), fused)
        self.served.judge(readings.labels, duplicates, local, fused)
        chosen = local if mode == "local" else fused
        chosen.failures = {**fused.failures, **local.failures}
        if remember or learnable is not None:  # also of readings whose class is on probation
            rows, version = without_label(seen, duplicates), self.served.version
            answers = zip(rows, local.answers_to(rows), fused.answers_to(rows), strict=True)
            chosen.answers = {
                k: (ours, ServedAnswer(theirs, version)) for k, ours, theirs in answers
            }
        return chosen

    def _step_both(
        self,
        served: Served,
        readings: Readings,
        seen: Readings,
        duplicates: Sequence[bool],
        remember: bool,
    ) -> tuple[DecisionBuffer, DecisionBuffer | Exception]:
        """Step both models; a pool, which asks the local one, is ahead of it by a run."""
        ours = self.local.begin(seen, duplicates, remember)
        theirs = served.pipeline.begin(readings, duplicates, remember)
        failed: Exception | None = None
        for stop in served.run_ends(readings, duplicates):
            try:
                if failed is None:
                    served.pipeline.advance(theirs, stop)
            except Exception as error:  # the local model goes on
                failed = error
            self.local.advance(ours, stop)
            served.follow_local()
        local = self.local.finish(ours)
        return local, served.finish(theirs) if failed is None else failed

    def learn_late(self, reading: PendingReading, y: Label, device: str) -> None:
        """Learn a reading whose label has arrived, after `hear_late`."""
        self.local.learn_late(reading.features, reading.row, y)
        self.local.record_outcome(reading.local, y, device)
        self._follow_local()

    def hear_late(self, reading: PendingReading, y: Label, device: str) -> None:
        """Tell the served model a late label before the local one learns it, if it does."""
        if self.served is not None:
            self.served.hear_late(reading, y, device)

    def learn_held(self, reading: PendingReading, y: Label) -> None:
        """Learn a reading whose class has just been admitted; the served model saw its label."""
        self.local.learn_late(reading.features, reading.row, y)
        # Where the device has been since is not compared with a label that comes from before.
        self.local.record_outcome(reading.local, y, None)
        self._follow_local()

    def _follow_local(self) -> None:
        if self.served is not None:
            self.served.follow_local()

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


# --- which models may be served ------------------------------------------------------------------


def check_servable(model: Any, local: Pipeline) -> Any:
    """Return the model without its transform; raise ValueError if it cannot be served.

    A pool is returned as a copy beside the local model.
    """
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
    if type(inside) is PoolClassifier:
        # As it travels and is stored: its candidates do not keep readings.
        fixed = capture(inside.beside(None), limits=TRUSTED_LIMITS)
        inside = PoolClassifier.from_state(fixed, limits=TRUSTED_LIMITS).beside(local.model)
    if len(inside.classes) < 2:
        raise ValueError(f"expected a model that knows at least 2 classes, got {inside.classes!r}")
    ours, theirs = transform_of(local.classifier), transform_of(model)
    if ours != theirs:
        raise ValueError(
            f"expected a model for readings with the transform {ours!r} (model.transform), "
            f"got {theirs!r}"
        )
    if private_of(local.classifier) != private_of(model):
        raise ValueError(
            "expected a model behind the same map of private features (model.private), got "
            f"{private_names(model)} in place of {private_names(local.classifier)}"
        )
    return inside


def transform_of(classifier: Any) -> tuple[str, tuple[Any, ...] | None] | None:
    """Return the name of a classifier's transform and its sorted features (None for all)."""
    if type(classifier) is not FeatureTransform or classifier.transform is None:
        return None
    features = classifier.features
    return classifier.transform, None if features is None else tuple(sorted(features, key=str))


def private_of(classifier: Any) -> Mapping[str, Any] | None:
    """Return a classifier's map of private features; None if it has none."""
    return classifier.private if type(classifier) is FeatureTransform else None


def private_names(classifier: Any) -> str:
    """Say which map of private features a classifier has."""
    if private_of(classifier) is None:
        return "none"
    return f"one of {', '.join(map(repr, classifier.private_features))}"


def same(one: Any, other: Any) -> bool:
    """Return whether two models are equal bit for bit; pools, without their local models."""
    if one is other:
        return True
    fixed = (m.beside(None) if type(m) is PoolClassifier else m for m in (one, other))
    first, second = (capture(m, limits=TRUSTED_LIMITS) for m in fixed)
    return first.same_as(second)
