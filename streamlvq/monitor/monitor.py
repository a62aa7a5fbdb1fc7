"""`Monitor`: one deterministic step from readings and late labels to decisions."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from streamlvq.arrays import Label
from streamlvq.config import Config
from streamlvq.config.build import build_full_classifier, build_transform
from streamlvq.events import (
    Decisions,
    DedupWindow,
    Event,
    LateLabel,
    Readings,
    Refused,
    internal_error,
)
from streamlvq.kernels import kernels
from streamlvq.monitor import checkpoint
from streamlvq.monitor.admission import check_admission, check_late_label
from streamlvq.monitor.checkpoint import Checkpoint
from streamlvq.monitor.memory import DuplicateFilter, PendingReadings
from streamlvq.monitor.pipeline import DecisionBuffer, Pipeline, by_group, without_label
from streamlvq.monitor.serving import Group, Served
from streamlvq.snapshot import Snapshot
from streamlvq.wrappers.base import unwrap
from streamlvq.wrappers.feature_transform import Transform

_LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class Outcome:
    """Outcome of one event: decisions, refusals and counts."""

    decisions: Decisions | None = None  # None for late labels
    refused: list[Refused] = field(default_factory=list)
    learnt: int = 0  # labelled readings, now or late
    duplicates: int = 0


class Monitor:
    """Deterministic step from state and event to next state and outcome.

    A monitor does no input or output and reads no clock: the same events give the same decisions
    and the same state, bit for bit, however they are split into batches. `step` never raises: a
    reading that triggers an internal error is refused with reason "failure".

    Parameters
    ----------
    config
        Model, integrator and rejector, which devices share a model, and how much to remember.
    start
        Snapshot that every model starts from; None to start untrained.

    """

    def __init__(self, config: Config, start: Snapshot | None = None) -> None:
        self.config = config
        self._start = start
        fleet = getattr(config, "fleet", None)
        self._mode = "fused" if fleet is None else fleet.serve
        transform = config.model.transform
        self._transform = None if transform is None else Transform(transform)
        if start is not None:
            self._new_group()  # fail now rather than at the first reading
        self._groups: dict[str, Group] = {}
        self._duplicates = DuplicateFilter(config.state.duplicates)
        labels = config.labels
        self._pending = (
            None if labels is None else PendingReadings(labels.wait, labels.sequence is not None)
        )

    # --- events ----------------------------------------------------------------------------------

    def step(self, event: Event) -> Outcome:
        """Decide on readings and learn the labelled ones, or learn a late label."""
        if isinstance(event, LateLabel):
            return self._learn_late(event)
        return self._decide(event)

    def _decide(self, readings: Readings) -> Outcome:
        refused = check_admission(self.config, self._groups, readings, self._transform)
        if refused:
            bad = {r.source for r in refused}
            keep = [k for k, source in enumerate(readings.sources) if source not in bad]
            readings = readings.select(keep)
        duplicates = [
            self._duplicates.seen_before(key, window)
            for key, window in zip(readings.keys, readings.dedup_windows, strict=True)
        ]
        buffer = self._step_groups(readings, duplicates)
        if buffer.failures:
            failures, answers = buffer.failures, buffer.answers
            refused += [
                _internal_error(readings.sources[k], error) for k, error in failures.items()
            ]
            keep = [k for k in range(len(readings)) if k not in failures]
            readings, buffer = readings.select(keep), buffer.select(keep)
            duplicates = [duplicates[k] for k in keep]
            buffer.answers = {new: answers[k] for new, k in enumerate(keep) if k in answers}
        decisions = buffer.decisions(readings, duplicates)
        unlabelled = without_label(readings, duplicates)
        if self._pending is not None:
            self._pending.remember(readings, unlabelled, buffer.all_answers(unlabelled))
        again = sum(duplicates)
        learnt = len(readings) - again - len(unlabelled)
        return Outcome(decisions, refused, learnt, again)

    def _step_groups(self, readings: Readings, duplicates: list[bool]) -> DecisionBuffer:
        """Step each group with its readings; return the decisions in the original order."""
        parts = []
        for name, rows in by_group(readings.groups):
            if rows is None:
                return self._step_group(name, readings, duplicates)
            again = [duplicates[k] for k in rows]
            parts.append((rows, self._step_group(name, readings.select(rows), again)))
        return DecisionBuffer.merged(len(readings), parts)

    def _step_group(self, name: str, readings: Readings, duplicates: list[bool]) -> DecisionBuffer:
        try:
            remember = self._pending is not None
            return self._group(name).step(readings, duplicates, self._mode, remember)
        except Exception as error:  # a bug must not affect other groups
            return DecisionBuffer.failed(len(readings), error)

    def _group(self, name: str) -> Group:
        group = self._groups.get(name)
        if group is None:
            group = self._groups[name] = self._new_group()
        return group

    def _new_group(self) -> Group:
        if self._start is None:
            return Group(Pipeline(build_full_classifier(self.config)))
        classifier = self._start.classifier()
        what = "model.start: this is a snapshot"
        checkpoint.check_transform(self.config.model, classifier, what)
        *_, model = unwrap(classifier)
        checkpoint.adapt(self.config.model, model, f"{what} of")
        return Group(Pipeline(build_full_classifier(self.config, model)))

    def _learn_late(self, late: LateLabel) -> Outcome:
        reading = None if self._pending is None else self._pending.find(late)
        if reading is None:
            return self._unmatched_label(late)
        try:
            group = self._group(reading.group)
            wrong = check_late_label(self.config.model, group, reading.features, late.label)
            if wrong is not None:
                return Outcome(refused=[Refused(late.source, *wrong)])
            group.learn_late(reading, late.label)
        except Exception as error:
            return Outcome(refused=[_internal_error(late.source, error)])
        assert self._pending is not None
        self._pending.pop(late)
        self._duplicates.seen_before(late.key, DedupWindow.NONE)
        return Outcome(learnt=1)

    def _unmatched_label(self, late: LateLabel) -> Outcome:
        """Return the outcome for a label without a pending reading: duplicate or refused."""
        if self._duplicates.knows(late.key, late.dedup_window):
            return Outcome(duplicates=1)
        mark = late.t if late.sequence is None else late.sequence
        text = (
            f"no reading {mark!r} of device {late.device!r} is waiting for the label "
            f"{late.label!r}: it already has one, never arrived, or is too old"
        )
        return Outcome(refused=[Refused(late.source, "label", text)])

    # --- serving ---------------------------------------------------------------------------------

    def serve(self, group: str, model: Any) -> None:
        """Decide on the readings of a group with another model from now on.

        The local model keeps learning every label as if nothing were served, and never receives
        anything from the served model. Device windows and thresholds carry over: their columns
        follow each class to its place in the new model. Which model decides is set by `fleet.serve`
        in the configuration; without that section it is the served model.

        Decisions of the n-th model served to a group have model "fused" and version n. Serving the
        same model again changes nothing. Raises ValueError for a model that cannot be served here.

        Parameters
        ----------
        group
            Name of the local model; "" for the shared one.
        model
            Model with at least two classes, in a `FeatureTransform` if one is configured and
            without other wrappers. It is not copied, so do not train it further. None lets the
            local model decide again.

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
        >>> monitor.serving_score("")["decides"]
        'fused'

        """
        known = self._groups.get(group)
        if model is None:
            if known is not None:
                known.served = None
            return
        limit = self.config.model.limit
        if known is None and len(self._groups) >= limit:
            raise ValueError(
                f"expected at most {limit} models (model.limit), got another: {group!r}"
            )
        serving = self._new_group() if known is None else known
        serving.serve(model)
        self._groups[group] = serving

    def local(self, group: str) -> Any:
        """Return the model that learns in a group, in its `FeatureTransform` if there is one.

        For an unknown group this is the model that it would start with.
        """
        known = self._groups.get(group)
        known = self._new_group() if known is None else known
        return build_transform(self.config.model, known.local.model)

    def _served(self, group: str) -> Served | None:
        known = self._groups.get(group)
        return None if known is None else known.served

    def serving(self, group: str) -> Any:
        """Return the model served to a group, whether or not it decides; None if there is none."""
        served = self._served(group)
        return None if served is None else build_transform(self.config.model, served.pipeline.model)

    def serving_score(self, group: str) -> dict[str, Any]:
        """Return the recent accuracies of the local and the served model, and which one decides.

        `local` and `fused` are the accuracies on about the last 200 labelled readings, predicted
        before learning them; None before the first label. `labels` counts the labels since this
        model was first served; `decides` is "local" or "fused". With `serve: better` the served
        model decides unless the local one is ahead by .02 after at least 20 labels; the served
        model decides again when that lead falls below .01.
        """
        served = self._served(group)
        if served is None:
            return {"local": None, "fused": None, "labels": 0, "decides": "local"}
        local, fused = served.score.accuracies()
        decides = "fused" if served.decides(self._mode) else "local"
        return {"local": local, "fused": fused, "labels": served.score.labels, "decides": decides}

    # --- state -----------------------------------------------------------------------------------

    def compile(self) -> None:
        """Compile the kernels, so that the first reading does not have to wait."""
        rows = np.array([[1.0, 2.0], [2.0, 1.0], [1.5, 1.2], [1.1, 1.9]])  # valid for any transform
        times: list[float | None] = [0.0, 1.0, 2.0, 3.0]
        labels: list[Label | None] = ["x", "y", None, "x"]
        blank, numbers = [""] * 4, [0] * 4
        readings = Readings(
            ("a", "b"), rows, blank, blank, labels, times, [None] * 4, numbers, numbers, numbers
        )
        Pipeline(build_full_classifier(self.config)).step(readings, [False] * 4)
        if self.config.rejector is not None:  # what only some readings need
            kernels("pipeline").load("remember")
            kernels("distance").load("separation")

    @property
    def devices(self) -> int:
        """Number of devices that have a window."""
        deciding = (
            group.local if group.served is None else group.served.pipeline
            for group in self._groups.values()
        )
        integrators = (pipeline.integrator for pipeline in deciding)
        return sum(each.tracked_devices for each in integrators if each is not None)

    @property
    def waiting(self) -> int:
        """Number of readings that wait for a label."""
        return 0 if self._pending is None else len(self._pending)

    def models(self) -> dict[str, Any]:
        """Return the wrapped classifier that learns in each group; "" is the shared one."""
        return {name: group.local.classifier for name, group in self._groups.items()}

    def set_classifier(self, group: str, classifier: Any) -> None:
        """Replace the classifier that learns in a group; stop serving another model to it."""
        checkpoint.check_transform(self.config.model, classifier, "this is a classifier")
        known, local = self._groups.get(group), Pipeline(classifier)
        self._groups[group] = Group(local, None, 0 if known is None else known.served_models)

    def checkpoint(self) -> bytes:
        """Return the complete state as bytes; equal state gives equal bytes."""
        return self.capture().to_bytes()

    def capture(self) -> Checkpoint:
        """Copy the complete state, which is faster; another thread may encode the copy."""
        return checkpoint.capture(self.config, self._groups, self._duplicates, self._pending)

    @classmethod
    def restore(cls, config: Config, data: bytes, start: Snapshot | None = None) -> Monitor:
        """Return a monitor that continues from a checkpoint.

        Raises `SnapshotError` if the checkpoint is damaged, `OtherModelError` if its model differs
        from the configured one. Wrappers whose configuration has changed start afresh around the
        old model.
        """
        monitor = cls(config, start)
        monitor._groups = checkpoint.load(config, data, monitor._duplicates, monitor._pending)
        return monitor


def _internal_error(source: int, error: Exception) -> Refused:
    _LOG.error("internal error while processing a reading or label", exc_info=error)
    return internal_error(source, error)
