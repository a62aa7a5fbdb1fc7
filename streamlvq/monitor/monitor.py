"""`Monitor`: one deterministic step from readings and late labels to decisions."""

from __future__ import annotations

import logging
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from streamlvq.arrays import Label
from streamlvq.config import Config
from streamlvq.config.build import build_full_classifier, build_transform
from streamlvq.errors import LedgerError
from streamlvq.estimator import ModelLock, exclusive
from streamlvq.events import (
    ALL_DEVICES,
    Decisions,
    DedupWindow,
    DroppedFields,
    Event,
    LateLabel,
    Readings,
    Refused,
    internal_error,
)
from streamlvq.kernels import kernels
from streamlvq.monitor import checkpoint
from streamlvq.monitor.admission import (
    Admission,
    Admitted,
    AdmittedPart,
    BlankModel,
    without,
)
from streamlvq.monitor.checkpoint import Checkpoint
from streamlvq.monitor.late_labels import PendingReading, PendingReadings
from streamlvq.monitor.pipeline import DecisionBuffer, Pipeline, by_group, without_label
from streamlvq.monitor.probation import HeldReading
from streamlvq.monitor.serving import Group, Served
from streamlvq.snapshot import Snapshot
from streamlvq.wrappers.feature_transform import Transform

if TYPE_CHECKING:
    from streamlvq.privacy import ReleaseLedger

_LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class Outcome:
    """Outcome of one event: decisions, refusals and counts."""

    decisions: Decisions | None = None  # None for late labels
    refused: list[Refused] = field(default_factory=list)
    learnt: int = 0  # labelled readings, now or late
    duplicates: int = 0
    late_right: tuple[str, bool] | None = None  # of a late label: group, whether we decided so
    held: int = 0  # labelled readings that are not learnt now, because their class is new
    dropped: DroppedFields = field(default_factory=DroppedFields)  # features on probation


class Monitor:
    """Deterministic step from state and event to next state and outcome.

    A monitor does no input or output and reads no clock: the same events give the same decisions
    and the same state, bit for bit, however they are split into batches. `step` raises nothing
    but the `LedgerError` of a private model, whose state is then that within the event: go back to
    a checkpoint. A reading that triggers another error is refused with reason "failure".

    Parameters
    ----------
    config
        Model, integrator and rejector, which devices share a model, and how much to remember.
    start
        Snapshot that every model starts from; None to start untrained. Its integrator and rejector
        go on with what labels taught them if they are configured as they were, else they begin
        anew. Windows of devices begin anew.
    ledger
        Account of what a private model releases; None: it keeps none.

    """

    def __init__(
        self, config: Config, start: Snapshot | None = None, ledger: ReleaseLedger | None = None
    ) -> None:
        self._lock = ModelLock()
        self.config = config
        self._start = start
        self._ledger = ledger
        self._mode = "both" if config.fleet is None else config.fleet.serve
        section = config.model
        plain = section.transform is None and section.private is None
        self._transform = None if plain else Transform(section.transform, private=section.private)
        self._groups: dict[str, Group] = {}
        self._anew: list[str] = []  # wrappers that `start` has no memory for
        self._told = False
        # A snapshot that does not fit fails now rather than at the first reading.
        blank = BlankModel() if start is None else self._new_group()
        self._admission = Admission(config, self._groups, blank, self._transform)
        if config.privacy is not None:  # its key must be saved before its first release
            self._groups[ALL_DEVICES] = self._new_group()
        labels = config.labels
        self._pending = (
            None if labels is None else PendingReadings(labels.wait, labels.sequence is not None)
        )

    # --- events ----------------------------------------------------------------------------------

    @exclusive
    def step(self, event: Event) -> Outcome:
        """Decide on readings and learn the labelled ones, or learn a late label."""
        if isinstance(event, LateLabel):
            return self._learn_late(event)
        return self._decide(event)

    def _decide(self, readings: Readings) -> Outcome:
        readings.check()
        admitted = self._admission.admit(readings)
        readings, duplicates, refused = admitted.readings, admitted.duplicates, admitted.refused
        outcome = Outcome(refused=refused, dropped=admitted.dropped)
        if admitted.parts is None:
            buffer = self._step_groups(readings, duplicates)
        else:
            buffer = self._step_parts(admitted, admitted.parts, outcome)
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
        outcome.decisions, outcome.duplicates = decisions, sum(duplicates)
        outcome.learnt += len(readings) - outcome.duplicates - len(unlabelled) - outcome.held
        return outcome

    def _step_parts(
        self, admitted: Admitted, parts: list[AdmittedPart], outcome: Outcome
    ) -> DecisionBuffer:
        """Step readings of which something is on probation, part by part."""
        done = []
        for part in parts:
            for group, label, held in part.released:
                outcome.learnt += self._learn_held(group, label, held)
            duplicates = [admitted.duplicates[k] for k in part.rows]
            readings = admitted.readings.select(part.rows)
            buffer = self._step_groups(readings, duplicates, part)
            done.append((part.rows, buffer))
            places = [(i, part.held[k]) for i, k in enumerate(part.rows) if k in part.held]
            outcome.held += len(places)
            answers = zip(places, buffer.all_answers([i for i, _ in places]), strict=True)
            for (i, place), (answer, _) in answers:
                if place is not None and i not in buffer.failures:
                    row, group = readings.rows[i].copy(), readings.groups[i]
                    place.reading = PendingReading(group, readings.features, row, answer)
        return DecisionBuffer.merged(len(admitted.readings), done)

    def _learn_held(self, name: str, label: Label, held: HeldReading) -> int:
        """Learn a reading of a class that was on probation; return how many were learnt."""
        if held.reading is None:  # deciding on it failed
            return 0
        group = self._group(name)
        unknown = set(self._admission.passing(held.reading.features)).difference(group.features)
        reading = without(held.reading, unknown)
        try:
            group.learn_held(reading, label)
        except LedgerError:
            raise
        except Exception as error:  # a bug must not affect the reading that came now
            _LOG.error("internal error while learning an earlier reading", exc_info=error)
            return 0
        return 1

    def _step_groups(
        self, readings: Readings, duplicates: list[bool], part: AdmittedPart | None = None
    ) -> DecisionBuffer:
        """Step each group with its readings; return the decisions in the original order.

        `part` says what its model may learn of them; None for everything.
        """
        learnable = None if part is None else _learnable(readings, part)
        parts = []
        for name, rows in by_group(readings.groups):
            kept = None if part is None else part.features.get(name)
            if rows is None:
                return self._step_group(name, readings, duplicates, learnable, kept)
            again = [duplicates[k] for k in rows]
            own = None if learnable is None else learnable.select(rows)
            buffer = self._step_group(name, readings.select(rows), again, own, kept)
            parts.append((rows, buffer))
        return DecisionBuffer.merged(len(readings), parts)

    def _step_group(
        self,
        name: str,
        readings: Readings,
        duplicates: list[bool],
        learnable: Readings | None = None,
        kept: list[int] | None = None,
    ) -> DecisionBuffer:
        try:
            remember = self._pending is not None
            if learnable is not None and kept:
                names = tuple(learnable.features[j] for j in kept)
                rows = np.ascontiguousarray(learnable.rows[:, kept])
                learnable = replace(learnable, features=names, rows=rows)
            return self._group(name).step(readings, duplicates, self._mode, remember, learnable)
        except LedgerError:
            raise
        except Exception as error:  # a bug must not affect other groups
            return DecisionBuffer.failed(len(readings), error)

    def _group(self, name: str) -> Group:
        group = self._groups.get(name)
        if group is None:
            group = self._groups[name] = self._new_group()
            self._tell_anew()
        return group

    def _new_group(self) -> Group:
        if self._start is None:
            group = Group(Pipeline(build_full_classifier(self.config)))
            self._keep_account(group)
            return group
        classifier, self._anew = checkpoint.begun_with(
            self.config, self._start.classifier(), "model.start: this is a snapshot"
        )
        return Group(Pipeline(classifier))

    def _keep_account(self, group: Group) -> None:
        """Let a private model write its releases into the ledger."""
        if self.config.privacy is not None and self._ledger is not None:
            private: Any = group.local.model
            private.use_ledger(self._ledger)
            private.spending()  # makes the key

    def _tell_anew(self) -> None:
        """Say once, and only if a group begins, what `model.start` has no memory for."""
        if self._anew and not self._told:
            self._told = True
            _LOG.warning(
                "model.start: the model goes on, but the %s of the configuration begins anew and "
                "needs labels, because the snapshot has none with the same settings",
                " and the ".join(self._anew),
            )

    def _learn_late(self, late: LateLabel) -> Outcome:
        reading = None if self._pending is None else self._pending.find(late)
        if reading is None:
            return self._unmatched_label(late)
        try:
            group = self._group(reading.group)
            admitted = self._admission.admit_late(reading, late.label)
            if admitted.problem is not None:
                return Outcome(refused=[Refused(late.source, *admitted.problem)])
            outcome = Outcome(dropped=admitted.dropped)
            if late.label in group.deciding(self._mode).classes:
                decided = reading.decided(self._mode)
                outcome.late_right = reading.group, decided.label == late.label
            for held in admitted.released:
                outcome.learnt += self._learn_held(reading.group, late.label, held)
            try:
                group.hear_late(reading, late.label, late.device)
            except Exception as error:  # a bug there must not keep the local model from learning
                _LOG.error("internal error while judging by a late label", exc_info=error)
            if admitted.reading is None:
                outcome.held = 1
            else:
                group.learn_late(admitted.reading, late.label, late.device)
                outcome.learnt += 1
        except LedgerError:
            raise
        except Exception as error:
            return Outcome(refused=[_internal_error(late.source, error)])
        assert self._pending is not None
        self._pending.pop(late)
        self._admission.duplicates.seen_before(late.key, DedupWindow.NONE)
        return outcome

    def _unmatched_label(self, late: LateLabel) -> Outcome:
        """Return the outcome for a label without a pending reading: duplicate or refused."""
        if self._admission.duplicates.knows(late.key, late.dedup_window):
            return Outcome(duplicates=1)
        mark = late.t if late.sequence is None else late.sequence
        text = (
            f"no reading {mark!r} of device {late.device!r} is waiting for the label "
            f"{late.label!r}: it already has one, never arrived, or is too old"
        )
        return Outcome(refused=[Refused(late.source, "label", text)])

    # --- serving ---------------------------------------------------------------------------------

    @exclusive
    def serve(self, group: str, model: Any) -> None:
        """Decide on the readings of a group with another model from now on.

        The local model keeps learning every label as if nothing were served, and never receives
        anything from the served model. Device windows and thresholds carry over: their columns
        follow each class to its place in the new model. The served model decides, unless
        `fleet.serve` of the configuration is local.

        A `PoolClassifier` is put beside the local model of the group, which it asks about each
        reading before that is learnt; what its models say about labelled readings is in
        `PoolClassifier.scored`.

        Decisions of the n-th model served to a group have model "fused", or "pool", and version n.
        Serving the same model again changes nothing. Raises ValueError for a model that cannot be
        served here.

        Parameters
        ----------
        group
            Name of the local model; "" for the shared one.
        model
            Model with at least two classes, in a `FeatureTransform` if one is configured and
            without other wrappers. It is not copied, so do not train it further; of a pool its
            candidates are, and its local model is replaced by that of the group. None lets the
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
        model was first served; `decides` is "local", "fused" or "pool". `fused` is the accuracy of
        whatever is served, a pool as well.
        """
        served = self._served(group)
        if served is None:
            return {"local": None, "fused": None, "labels": 0, "decides": "local"}
        local, fused = served.score.accuracies()
        decides = "local" if self._mode == "local" else served.name
        return {"local": local, "fused": fused, "labels": served.score.labels, "decides": decides}

    # --- state -----------------------------------------------------------------------------------

    def compile(self) -> None:
        """Compile the kernels, so that the first reading does not have to wait."""
        names: tuple[str, ...] = ("a", "b")
        rows = np.array([[1.0, 2.0], [2.0, 1.0], [1.5, 1.2], [1.1, 1.9]])  # valid for any transform
        times: list[float | None] = [0.0, 1.0, 2.0, 3.0]
        labels: list[Label | None] = ["x", "y", None, "x"]
        hiding = None if self._transform is None else self._transform.private
        if hiding is not None:
            names = tuple(map(str, (*hiding.private, *hiding.slopes)))
        if (privacy := self.config.privacy) is not None:
            names = tuple(privacy.bounds)
            labels = [*privacy.classes[:2], None, privacy.classes[0]]
            kernels("private").load("add_scale_rows", "add_private_rows")
        blank, numbers = [""] * 4, [0] * 4
        rows = np.ascontiguousarray(np.tile(rows, -(-len(names) // 2))[:, : len(names)])
        readings = Readings(
            names, rows, blank, blank, labels, times, [None] * 4, numbers, numbers, numbers
        )
        Pipeline(build_full_classifier(self.config)).step(readings, [False] * 4)
        if self.config.rejector is not None:  # what only some readings need
            kernels("pipeline").load("remember")
            kernels("novelty").load("beyond_ball", "measure_novelty", "add_scores")
        if self.config.fleet is not None and self._mode == "both":
            kernels("candidates").load("pool_candidates")

    @property
    def devices(self) -> int:
        """Number of devices that have a window."""
        deciding = (
            group.local if group.served is None else group.served.pipeline
            for group in self._groups.values()
        )
        integrators = (pipeline.integrator for pipeline in deciding)
        return sum(each.tracked_devices for each in integrators if each is not None)

    def features(self, group: str) -> tuple[Hashable, ...]:
        """Return the features that the local model of a group has learnt."""
        known = self._groups.get(group)
        return () if known is None else known.features

    def newcomers(self) -> tuple[list[Label], list[Label]]:
        """Return the features and classes that came lately but not often enough to be learnt."""
        return self._admission.probation.waiting(self._admission.clock)

    @property
    def waiting(self) -> int:
        """Number of readings that wait for a label."""
        return 0 if self._pending is None else len(self._pending)

    def models(self) -> dict[str, Any]:
        """Return the wrapped classifier that learns in each group; "" is the shared one."""
        return {name: group.local.classifier for name, group in self._groups.items()}

    @exclusive
    def set_classifier(self, group: str, classifier: Any) -> None:
        """Replace the classifier that learns in a group; stop serving another model to it."""
        checkpoint.check_transform(self.config.model, classifier, "this is a classifier")
        known, local = self._groups.get(group), Pipeline(classifier)
        self._groups[group] = Group(local, None, 0 if known is None else known.served_models)
        self._admission.probation.forget(group)
        if self._pending is not None:
            self._pending.forget_evidence(group)

    def checkpoint(self) -> bytes:
        """Return the complete state as bytes; equal state gives equal bytes."""
        return self.capture().to_bytes()

    @exclusive
    def capture(self) -> Checkpoint:
        """Copy the complete state, which is faster; another thread may encode the copy."""
        return checkpoint.capture(self.config, self._groups, self._admission, self._pending)

    @classmethod
    def restore(
        cls,
        config: Config,
        data: bytes,
        start: Snapshot | None = None,
        ledger: ReleaseLedger | None = None,
    ) -> Monitor:
        """Return a monitor that continues from a checkpoint.

        Raises `SnapshotError` if the checkpoint is damaged, `OtherModelError` if its model differs
        from the configured one. Wrappers whose configuration has changed start afresh around the
        old model.
        """
        monitor = cls(config, start, ledger)
        checkpoint.load(config, data, monitor._groups, monitor._admission, monitor._pending)
        for group in monitor._groups.values():
            monitor._keep_account(group)
        return monitor


def _learnable(readings: Readings, part: AdmittedPart) -> Readings:
    """Return readings without the labels that are on probation."""
    labels = [
        None if k in part.held else y for k, y in zip(part.rows, readings.labels, strict=True)
    ]
    return replace(readings, labels=labels)


def _internal_error(source: int, error: Exception) -> Refused:
    _LOG.error("internal error while processing a reading or label", exc_info=error)
    return internal_error(source, error)
