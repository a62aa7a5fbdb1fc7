"""Monitor."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from streamlvq.config import Config
from streamlvq.config.build import build_transform
from streamlvq.events import NEVER, Decisions, Event, Label, LateLabel, Readings, Refused, failure
from streamlvq.monitor import checkpoint, limits
from streamlvq.monitor.building import build_whole, empty_transform
from streamlvq.monitor.checkpoint import Checkpoint, Groups
from streamlvq.monitor.columns import Columns, Opinions
from streamlvq.monitor.duplicates import Duplicates
from streamlvq.monitor.grouping import Decided, assemble, by_group, without
from streamlvq.monitor.pending import Pending
from streamlvq.monitor.pipeline import Pipeline
from streamlvq.monitor.served import Served
from streamlvq.snapshot import Snapshot
from streamlvq.wrappers.chain import unwrap

_LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class Outcome:
    """What came of an event."""

    decisions: Decisions | None = None  # None for late labels
    refused: list[Refused] = field(default_factory=list)
    learnt: int = 0  # labelled readings, now or late
    duplicates: int = 0


class Monitor:
    """A deterministic step from state and event to next state and outcome.

    It does no input or output and looks at no clock: the same events give the same decisions and
    the same state, bit for bit, however they are cut into batches. `step` raises nothing: what
    brings out a defect is refused as "failure".

    Parameters
    ----------
    config
        Which model, integrator and rejector, one for all devices or more, and how much to
        remember.
    start
        What every model knows when it begins; None for nothing.

    """

    def __init__(self, config: Config, start: Snapshot | None = None) -> None:
        self.config = config
        self._start = start
        fleet = getattr(config, "fleet", None)
        self._mode = "fused" if fleet is None else fleet.serve
        self._transform = empty_transform(config.model)
        if start is not None:
            self._fresh()  # whether it can be, better now than with the first reading
        self._pipelines: dict[str, Pipeline] = {}
        self._served: dict[str, Served] = {}
        self._given: dict[str, int] = {}  # models that were ever served, by group
        self._duplicates = Duplicates(config.state.duplicates)
        labels = config.labels
        self._pending = (
            None if labels is None else Pending(labels.wait, labels.sequence is not None)
        )

    # --- events ----------------------------------------------------------------------------------

    def step(self, event: Event) -> Outcome:
        """Decide on readings and learn those that have a label; or learn a late label."""
        if isinstance(event, LateLabel):
            return self._learn_late(event)
        return self._decide(event)

    def _decide(self, readings: Readings) -> Outcome:
        refused = limits.refuse(self.config, self._pipelines, readings, self._transform)
        if refused:
            bad = {r.source for r in refused}
            keep = [k for k, source in enumerate(readings.sources) if source not in bad]
            readings = readings.select(keep)
        twice = [
            self._duplicates.came_before(key, suspect)
            for key, suspect in zip(readings.keys, readings.suspects, strict=True)
        ]
        parts = [
            (indices, self._step_group(group, readings, indices, twice))
            for group, indices in by_group(readings.groups)
        ]
        decisions, columns = assemble(readings, twice, parts)
        failures, opinions = columns.failures, columns.opinions
        if failures:
            refused += [_failure(readings.sources[k], error) for k, error in failures.items()]
            keep = [k for k in range(len(readings)) if k not in failures]
            readings, decisions = readings.select(keep), without(decisions, keep)
            opinions = {new: opinions[k] for new, k in enumerate(keep) if k in opinions}
        if self._pending is not None:
            self._remember(readings, decisions, opinions)
        learnt = sum(
            y is not None and not again
            for y, again in zip(readings.labels, decisions.duplicates, strict=True)
        )
        return Outcome(decisions, refused, learnt, sum(decisions.duplicates))

    def _step_group(
        self, group: str, readings: Readings, indices: list[int] | None, twice: list[bool]
    ) -> Decided:
        part = readings if indices is None else readings.select(indices)
        again = twice if indices is None else [twice[k] for k in indices]
        try:
            pipeline = self._pipeline(group)
            served = self._served.get(group)
            if served is not None:
                return served.step(pipeline, part, again, self._mode, self._pending is not None)
            columns = pipeline.step(part, again)
        except Exception as error:  # other groups shall not suffer from a defect
            return (), Columns.failed(len(part), error)
        return pipeline.classes, columns

    def _pipeline(self, group: str) -> Pipeline:
        pipeline = self._pipelines.get(group)
        if pipeline is None:
            pipeline = self._pipelines[group] = self._fresh()
        return pipeline

    def _fresh(self) -> Pipeline:
        if self._start is None:
            return Pipeline(build_whole(self.config))
        classifier = self._start.classifier()
        checkpoint.check_transform(self._transform, classifier, "model.start: this is a snapshot")
        *_, model = unwrap(classifier)
        checkpoint.adapt(self.config.model, model, "model.start: this is a snapshot of")
        return Pipeline(build_whole(self.config, model))

    def _remember(
        self, readings: Readings, decisions: Decisions, opinions: dict[int, Opinions]
    ) -> None:
        assert self._pending is not None
        labels, certainties = decisions.labels(), decisions.certainties.tolist()
        for k, (y, again) in enumerate(zip(readings.labels, decisions.duplicates, strict=True)):
            if y is not None or again:
                continue
            if k in opinions:
                number = self._given.get(readings.groups[k], 0)
                self._pending.remember(readings, k, *opinions[k], number)
            else:
                certainty = certainties[k] if decisions.reasons[k] != "no_model" else -1.0
                self._pending.remember(readings, k, (labels[k], certainty))

    def _learn_late(self, late: LateLabel) -> Outcome:
        waiting = None if self._pending is None else self._pending.find(late)
        if waiting is None:
            return self._stranger(late)
        try:
            pipeline = self._pipeline(waiting.group)
            wrong = limits.refuse_late(self.config, pipeline, waiting.features, late.label)
            if wrong is not None:
                return Outcome(refused=[Refused(late.source, *wrong)])
            pipeline.learn_late(waiting, late.label)
            if waiting.group in self._served:
                self._served[waiting.group].learn_late(waiting, late.label)
        except Exception as error:
            return Outcome(refused=[_failure(late.source, error)])
        assert self._pending is not None
        self._pending.forget(late)
        self._duplicates.came_before(late.key, NEVER)
        return Outcome(learnt=1)

    def _stranger(self, late: LateLabel) -> Outcome:
        """A label that no reading waits for: one that was learnt before, or nobody's."""
        if self._duplicates.knows(late.key, late.suspect):
            return Outcome(duplicates=1)
        mark = late.t if late.sequence is None else late.sequence
        text = (
            f"no reading {mark!r} of device {late.device!r} waits for the label "
            f"{late.label!r}: it has one already, never came, or is too long ago"
        )
        return Outcome(refused=[Refused(late.source, "label", text)])

    # --- serving ---------------------------------------------------------------------------------

    def serve(self, group: str, model: Any) -> None:
        """Decide on the readings of a group with another model from now on.

        The local model goes on learning every label, just as if nothing were served, and nothing
        of the served model ever gets into it. Windows of devices and thresholds live on: their
        columns follow each class to its place in the new model. Who decides is said by
        `fleet.serve` of the configuration; without that section it is the served model.

        Decisions of the n-th model that a group is served have the version -n; to serve again just
        what is served changes nothing. Raises ValueError for a model that cannot decide here.

        Parameters
        ----------
        group
            The name of the local model; "" for the one that all share.
        model
            A model that knows at least two classes, in a `FeatureTransform` if the configuration
            says so, and in nothing else. It is not copied: teach it no more. None: the local model
            decides again.

        Examples
        --------

        >>> from river import datasets
        >>> import streamlvq
        >>> from streamlvq.config import loads

        >>> elsewhere = streamlvq.GLVQ()
        >>> for x, y in datasets.ImageSegments().take(500):
        ...     elsewhere.learn_one(x, y)

        >>> monitor = streamlvq.Monitor(loads("model: {type: GLVQ}"))
        >>> monitor.serve("", elsewhere)
        >>> len(monitor.serving("").classes), len(monitor.local("").classes)
        (7, 0)
        >>> monitor.standing("")["decides"]
        'fused'

        """
        if model is None:
            self._served.pop(group, None)
            return
        limit = self.config.model.limit
        if group not in self._pipelines and len(self._pipelines) >= limit:
            raise ValueError(f"expected at most {limit} models (model.limit), got also {group!r}")
        local, before = self._pipelines.get(group), self._served.get(group)
        local = self._fresh() if local is None else local
        number = self._given.get(group, 0) + 1
        served = Served.beside(local, before, model, number)
        if served is not before:
            self._served[group], self._pipelines[group] = served, local
            self._given[group] = number

    def local(self, group: str) -> Any:
        """The model that learns in a group, in its `FeatureTransform` if there is one.

        For a group that nothing was heard of it is the model that it would begin with.
        """
        pipeline = self._pipelines.get(group)
        pipeline = self._fresh() if pipeline is None else pipeline
        return build_transform(self.config.model, pipeline.model)

    def serving(self, group: str) -> Any:
        """The model that is served to a group, whether or not it decides; None if there is none."""
        served = self._served.get(group)
        return None if served is None else build_transform(self.config.model, served.pipeline.model)

    def standing(self, group: str) -> dict[str, Any]:
        """How well the local and the served model have done of late, and which one decides.

        `local` and `fused` are their accuracies on labelled readings, about the last 200 of them,
        before these were learnt; None before the first label. `labels` is how many labels have
        come since this model is served, `decides` is "local" or "fused". With `serve: better` the
        served model decides, unless the local one is ahead by .02 after at least 20 labels; it
        decides again when that lead falls below .01.
        """
        served = self._served.get(group)
        if served is None:
            return {"local": None, "fused": None, "labels": 0, "decides": "local"}
        local, fused = served.standing.accuracies()
        decides = "fused" if served.decides(self._mode) else "local"
        return {
            "local": local,
            "fused": fused,
            "labels": served.standing.labels,
            "decides": decides,
        }

    # --- state -----------------------------------------------------------------------------------

    def compile(self) -> None:
        """Make the kernels ready, so that the first reading need not wait."""
        rows = np.array([[1.0, 2.0], [2.0, 1.0], [1.5, 1.2], [1.1, 1.9]])  # to any transform
        times: list[float | None] = [0.0, 1.0, 2.0, 3.0]
        labels: list[Label | None] = ["x", "y", None, "x"]
        blank, numbers = [""] * 4, [0] * 4
        readings = Readings(
            ("a", "b"), rows, blank, blank, labels, times, [None] * 4, numbers, numbers, numbers
        )
        Pipeline(build_whole(self.config)).step(readings, [False] * 4)

    @property
    def devices(self) -> int:
        """Devices that have a window."""
        deciding = {**self._pipelines, **{g: s.pipeline for g, s in self._served.items()}}
        integrators = (pipeline.integrator for pipeline in deciding.values())
        return sum(len(each._windows) for each in integrators if each is not None)

    @property
    def waiting(self) -> int:
        """Readings that wait for a label."""
        return 0 if self._pending is None else len(self._pending)

    def models(self) -> dict[str, Any]:
        """The classifier (with its wrappers) that learns in each group; "" is the one of all."""
        return {group: pipeline.classifier for group, pipeline in self._pipelines.items()}

    def adopt(self, group: str, classifier: Any) -> None:
        """Let a group learn with this classifier, and nothing be served to it, from now on."""
        checkpoint.check_transform(self._transform, classifier, "this is a classifier")
        self._pipelines[group] = Pipeline(classifier)
        self._served.pop(group, None)

    def checkpoint(self) -> bytes:
        """All that it knows; the same knowledge always gives the same bytes."""
        return self.capture().to_bytes()

    def capture(self) -> Checkpoint:
        """The same as copies, which takes less time; another thread may put them into bytes."""
        groups = Groups(self._pipelines, self._served, self._given)
        return checkpoint.capture(self.config, groups, self._duplicates, self._pending)

    @classmethod
    def restore(cls, config: Config, data: bytes, start: Snapshot | None = None) -> Monitor:
        """A monitor that goes on where a checkpoint was taken.

        Raises `SnapshotError` if the checkpoint is damaged, `OtherModelError` if it is of a model
        that the configuration does not ask for. Wrappers that the configuration has changed begin
        anew around the old model.
        """
        monitor = cls(config, start)
        monitor._pipelines, monitor._served, monitor._given = checkpoint.load(
            config, data, monitor._duplicates, monitor._pending
        )
        return monitor


def _failure(source: int, error: Exception) -> Refused:
    _LOG.error("a reading or a label brought out a defect", exc_info=error)
    return failure(source, error)
