"""`Pipeline`: a classifier with its wrappers as a step from readings to decisions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streamlvq.arrays import Floats, Ints, Label, Rows
from streamlvq.errors import LedgerError
from streamlvq.events import Decisions, Model, Readings
from streamlvq.kernels import kernels
from streamlvq.models import LVQCommittee
from streamlvq.models.base import LVQClassifier
from streamlvq.models.pool import PoolClassifier
from streamlvq.models.vectorizer import Arrays, BatchPart, KernelBatch, no_rejection, no_window
from streamlvq.records import UNJUDGED, Decision
from streamlvq.wrappers import TimeIntegrator
from streamlvq.wrappers.base import unwrap
from streamlvq.wrappers.feature_transform import FeatureTransform
from streamlvq.wrappers.rejectors import Rejector, unjudged

# --- decisions while they are made ---------------------------------------------------------------


class Answer(NamedTuple):
    """A model's label for a reading, accepted or not, and its certainty."""

    label: Label | None
    certainty: float | None  # None: it knew fewer than two classes
    evidence: Floats | None = None  # see `TimeIntegrator.last_evidence`


class ServedAnswer(NamedTuple):
    """Answer of a served model, and the version of that model."""

    answer: Answer
    version: int  # n for the n-th model served to the group


Answers = tuple[Answer, ServedAnswer | None]  # of the local model and of the served one, if any


@dataclass(slots=True)
class DecisionBuffer:
    """Buffer that decisions are written to, row by row; see `streamlvq.events.Decisions`."""

    classes: tuple[Label, ...]
    codes: Ints
    certainties: npt.NDArray[np.float64]
    thresholds: npt.NDArray[np.float64]
    accepted: npt.NDArray[np.bool_]
    reasons: list[str | None]
    novelties: npt.NDArray[np.float64]
    outliers_by: list[str | None]
    probabilities: Rows
    models: list[Model]
    versions: Ints
    failures: dict[int, Exception] = field(default_factory=dict)  # by row: an internal error
    answers: dict[int, Answers] = field(default_factory=dict)  # by row, where two models decided
    evidence: dict[int, Floats] = field(default_factory=dict)  # by row, for labels that come later

    @classmethod
    def empty(cls, rows: int, columns: int, classes: tuple[Label, ...] = ()) -> DecisionBuffer:
        """Return a buffer without decisions, with probability columns for `columns` classes."""
        codes, probabilities = np.empty(rows, np.int64), np.empty((rows, columns))
        codes.fill(-1)
        probabilities.fill(np.nan)
        return cls(
            classes=classes,
            codes=codes,
            certainties=np.zeros(rows),
            thresholds=np.zeros(rows),
            accepted=np.zeros(rows, np.bool_),
            reasons=[None] * rows,
            novelties=np.full(rows, np.nan),
            outliers_by=[None] * rows,
            probabilities=probabilities,
            models=["local"] * rows,
            versions=np.zeros(rows, np.int64),
        )

    @classmethod
    def failed(cls, rows: int, error: Exception) -> DecisionBuffer:
        """Return a buffer without decisions because of an internal error."""
        buffer = cls.empty(rows, 0)
        buffer.failures = dict.fromkeys(range(rows), error)
        return buffer

    @classmethod
    def merged(cls, rows: int, parts: Sequence[tuple[list[int], DecisionBuffer]]) -> DecisionBuffer:
        """Return one buffer from several; each comes with the positions of its rows."""
        classes = tuple(dict.fromkeys(label for _, part in parts for label in part.classes))
        column = {label: code for code, label in enumerate(classes)}
        merged = cls.empty(rows, len(classes), classes)
        for positions, part in parts:
            columns = np.array([column[label] for label in part.classes], np.int64)
            if len(columns):
                merged.codes[positions] = np.where(part.codes >= 0, columns[part.codes], -1)
                merged.probabilities[np.ix_(np.array(positions), columns)] = part.probabilities
            merged.certainties[positions] = part.certainties
            merged.thresholds[positions] = part.thresholds
            merged.accepted[positions] = part.accepted
            merged.versions[positions] = part.versions
            merged.failures |= {positions[k]: error for k, error in part.failures.items()}
            merged.answers |= {positions[k]: said for k, said in part.answers.items()}
            merged.evidence |= {positions[k]: each for k, each in part.evidence.items()}
            merged.novelties[positions] = part.novelties
            lists = zip(positions, part.reasons, part.outliers_by, part.models, strict=True)
            for k, reason, by, model in lists:
                merged.reasons[k], merged.outliers_by[k], merged.models[k] = reason, by, model
        return merged

    def select(self, rows: list[int]) -> DecisionBuffer:
        """Return these rows only, without failures and answers."""
        return DecisionBuffer(
            classes=self.classes,
            codes=self.codes[rows],
            certainties=self.certainties[rows],
            thresholds=self.thresholds[rows],
            accepted=self.accepted[rows],
            reasons=[self.reasons[k] for k in rows],
            novelties=self.novelties[rows],
            outliers_by=[self.outliers_by[k] for k in rows],
            probabilities=self.probabilities[rows],
            models=[self.models[k] for k in rows],
            versions=self.versions[rows],
            evidence={new: self.evidence[k] for new, k in enumerate(rows) if k in self.evidence},
        )

    def labels(self) -> list[Label | None]:
        """Return the label of each row, accepted or not."""
        classes = self.classes
        return [classes[code] if code >= 0 else None for code in self.codes.tolist()]

    def answers_to(self, rows: list[int]) -> list[Answer]:
        """Return the answers for these rows, accepted or not."""
        labels, certainties, reasons = self.labels(), self.certainties.tolist(), self.reasons
        evidence = self.evidence
        return [
            Answer(labels[k], None if reasons[k] in UNJUDGED else certainties[k], evidence.get(k))
            for k in rows
        ]

    def all_answers(self, rows: list[int]) -> list[Answers]:
        """Return the answers of all models that were asked about these rows."""
        alone = [k for k in rows if k not in self.answers]
        local = zip(alone, self.answers_to(alone), strict=True)
        answers = {k: (answer, None) for k, answer in local} | self.answers
        return [answers[k] for k in rows]

    def decisions(self, readings: Readings, duplicates: list[bool]) -> Decisions:
        """Return the decisions on these readings."""
        return Decisions(
            classes=self.classes,
            devices=readings.devices,
            groups=readings.groups,
            times=readings.times,
            sequences=readings.sequences,
            true_labels=readings.labels,
            codes=self.codes,
            certainties=self.certainties,
            thresholds=self.thresholds,
            accepted=self.accepted,
            reasons=self.reasons,
            novelties=self.novelties,
            outliers_by=self.outliers_by,
            probabilities=self.probabilities,
            models=self.models,
            versions=self.versions,
            duplicates=duplicates,
            sources=readings.sources,
        )


# --- the pipeline --------------------------------------------------------------------------------


@dataclass(slots=True)
class Progress:
    """Step of a pipeline that is under way: what has been decided, and what comes next."""

    buffer: DecisionBuffer
    batch: KernelBatch
    remember: bool


class Pipeline:
    """Chain of model and wrappers for one group, with many readings in one kernel call.

    The kernel works directly on the arrays of model and wrappers, so each reading can take either
    path. What the kernel cannot do is left to the wrappers, one reading at a time: the very first
    readings, new classes, new features, and parts that are not a `BatchPart`.

    `classifier` is a model of streamlvq, alone or in a `TimeIntegrator`, a rejector or both, all of
    it optionally in a `FeatureTransform`. With `learns=False` the model stays unchanged, and labels
    only update the thresholds; a pool also notes what it says about labelled readings.
    """

    def __init__(self, classifier: Any, learns: bool = True) -> None:
        self.classifier = classifier
        self.learns = learns
        chain = list(unwrap(classifier))
        # `type`, because `isinstance` looks through wrappers
        self.transform: FeatureTransform | None = (
            chain.pop(0) if type(classifier) is FeatureTransform else None
        )
        self._inner = chain[0]  # sees transformed readings
        self.model: LVQClassifier | LVQCommittee | PoolClassifier = chain[-1]
        self.pool: PoolClassifier | None = chain[-1] if type(chain[-1]) is PoolClassifier else None
        # A private model learns all of its public classes at once.
        promise = getattr(self.model, "privacy", None)
        self._public: tuple[Label, ...] = () if promise is None else tuple(promise.classes)
        self.rejector = next((link for link in chain if isinstance(link, Rejector)), None)
        self.integrator = next((link for link in chain if isinstance(link, TimeIntegrator)), None)
        wrappers = [part for part in (self.rejector, self.integrator) if part is not None]
        parts = [*wrappers, self.model]
        self.batch_parts: list[BatchPart] | None = (
            parts if all(isinstance(part, BatchPart) for part in parts) else None
        )

    @property
    def features(self) -> tuple[Any, ...]:
        return self.model.features

    @property
    def classes(self) -> tuple[Label, ...]:
        return self.model.classes

    # --- readings --------------------------------------------------------------------------------

    def step(
        self, readings: Readings, duplicates: Sequence[bool], remember: bool = False
    ) -> DecisionBuffer:
        """Decide on each reading, then learn it if it is labelled; duplicates change nothing.

        With `remember` the buffer also holds the evidence for labels that may come later.
        """
        progress = self.begin(readings, duplicates, remember)
        self.advance(progress, len(readings))
        return self.finish(progress)

    def begin(
        self, readings: Readings, duplicates: Sequence[bool], remember: bool = False
    ) -> Progress:
        """Begin a step that `advance` goes on with part by part, and `finish` ends."""
        readings = self._transformed(readings)
        known = self.classes
        new = {y for y in readings.labels if y is not None}.difference(known)
        columns = max(len(known) + len(new), len(self._public))
        buffer = DecisionBuffer.empty(len(readings), columns)
        return Progress(buffer, KernelBatch(readings, duplicates, self.learns), remember)

    def advance(self, progress: Progress, stop: int) -> None:
        """Decide on the readings before row `stop` that are left, and learn them."""
        buffer, batch, remember = progress.buffer, progress.batch, progress.remember
        batch.remaining = stop - batch.start
        while batch.remaining:
            ready = self.rows_ready(batch)
            if ready:
                batch.take(ready)
                self._step_rows(buffer, batch)
                if remember:
                    self._remember_evidence(buffer, batch)
                batch.move_on(ready)
            else:
                try:
                    self._step_one(buffer, batch.start, batch, remember)
                except LedgerError:
                    raise
                except Exception as error:  # a bug must not affect the other readings
                    buffer.failures[batch.start] = error
                batch.move_on(1)

    def finish(self, progress: Progress) -> DecisionBuffer:
        """Return the decisions of a step."""
        buffer = progress.buffer
        # Learning a new class may have failed.
        buffer.classes = self.classes
        buffer.probabilities = buffer.probabilities[:, : len(buffer.classes)]
        return buffer

    def _transformed(self, readings: Readings) -> Readings:
        """Return the transformed readings; admission refused values outside the domain."""
        if self.transform is None or not len(readings):
            return readings
        rows = self.transform.transform_rows(readings.rows, readings.features)
        features = tuple(map(str, self.transform.passing(readings.features)))
        return replace(readings, rows=rows, features=features)

    # --- many at once ----------------------------------------------------------------------------

    def rows_ready(self, batch: KernelBatch) -> int:
        """Return how many rows from `batch.start` on can go through one kernel call."""
        ready = 0
        for part in self.batch_parts or ():
            ready = part.rows_ready(batch)
            if not ready:
                break
        return ready  # only the model, which comes last, may ask for fewer rows than there are

    def _step_rows(self, buffer: DecisionBuffer, batch: KernelBatch) -> None:
        """Run the kernel over the rows of a batch."""
        model, integrator, rejector = self.model, self.integrator, self.rejector
        assert not isinstance(model, LVQCommittee)
        kernel, rows, count = kernels("pipeline"), batch.rows, batch.count
        batch.classes = model.known_labels
        batch.codes = buffer.codes[rows]
        batch.verdicts = np.zeros(count, np.int64)
        batch.measures = np.zeros((count, kernel.MEASURES))
        window = no_window(count) if integrator is None else integrator.lend(batch)
        rejection = no_rejection(len(batch.classes)) if rejector is None else rejector.lend(batch)
        settings, thresholds, *_ = rejection
        settings[kernel.WINDOWED] = integrator is not None
        outputs: Arrays = (
            np.empty(len(thresholds)),
            batch.codes,
            batch.verdicts,
            buffer.versions[rows],
            batch.measures,
            buffer.probabilities[rows],
        )
        while batch.done < count:
            lent = model.lend(batch)
            batch.done = kernel.step_batch(
                *lent,
                batch.done,
                count,
                *window,
                *rejection,
                *outputs,
                batch.predict,
                batch.learn,
                batch.adapt,
                batch.novelty,
                batch.filter_reading,
                batch.learn_filter,
            )
            model.settle(batch, lent)
        if integrator is not None:
            integrator.settle(batch, window)
        if rejector is not None:
            rejector.settle(batch, rejection)
        self._conclude(buffer, batch)

    def _conclude(self, buffer: DecisionBuffer, batch: KernelBatch) -> None:
        """Derive acceptance and reasons from what the kernel measured."""
        kernel, rows, verdicts = kernels("pipeline"), batch.rows, batch.verdicts
        buffer.certainties[rows] = batch.measures[:, kernel.OUT_CERTAINTY]
        buffer.thresholds[rows] = batch.measures[:, kernel.OUT_THRESHOLD]
        buffer.accepted[rows] = verdicts == kernel.ACCEPTED
        strange = batch.measures[:, kernel.OUT_NOVELTY :]
        ranked = strange[:, kernels("novelty").OUT_EARLIER] > 0.0
        buffer.novelties[rows] = np.where(ranked, strange[:, 0], np.nan)
        outliers = batch.measures[:, kernel.OUT_OUTLIER]
        for k in verdicts.nonzero()[0].tolist():
            if verdicts[k] == kernel.NO_MODEL:
                reason = "no_model"
            elif verdicts[k] == kernel.NO_FEATURE:
                reason = "no_feature"
            elif outliers[k] == kernel.NO_OUTLIER:
                reason = "ambiguous"
            else:
                reason = "outlier"
                by = "novelty" if outliers[k] == kernel.BY_NOVELTY else "ball"
                buffer.outliers_by[batch.start + k] = by
            buffer.reasons[batch.start + k] = reason

    def _remember_evidence(self, buffer: DecisionBuffer, batch: KernelBatch) -> None:
        """Keep the evidence of rows without a label that have a past."""
        if self.integrator is None or not self.integrator.learns_weights:
            return
        labels, past = batch.readings.labels, batch.evidence[:, 0, 0]
        for k in np.flatnonzero(past == past).tolist():
            row = batch.start + k
            if labels[row] is None and not batch.duplicates[row]:
                buffer.evidence[row] = batch.evidence[k].copy()

    # --- one by one ------------------------------------------------------------------------------

    def _step_one(self, buffer: DecisionBuffer, k: int, batch: KernelBatch, remember: bool) -> None:
        readings = batch.readings
        x = dict(zip(readings.features, readings.rows[k].tolist(), strict=True))
        if self.pool is not None:
            self.pool.keep_answers(x)
        keywords: dict[str, Any] = {}
        if self._inner is not self.model:
            keywords = {"device": readings.devices[k], "t": readings.times[k]}
        decision = self._decide(x, keywords)
        known = len(self.classes)
        if decision.label is not None:
            buffer.codes[k] = self.classes.index(decision.label)
            buffer.probabilities[k, :known] = list(decision.probabilities.values())
        buffer.certainties[k] = decision.certainty
        buffer.thresholds[k] = decision.threshold
        buffer.accepted[k] = decision.accepted
        buffer.reasons[k] = decision.reason
        buffer.novelties[k] = np.nan if decision.novelty is None else decision.novelty
        buffer.outliers_by[k] = decision.outlier_by
        buffer.versions[k] = self.model.samples
        if not batch.duplicates[k]:
            evidence = None if self.integrator is None else self.integrator.last_evidence()
            if remember and evidence is not None and readings.labels[k] is None:
                buffer.evidence[k] = evidence
            self._learn_one(x, readings.labels[k], decision, evidence, keywords)

    def _learn_one(
        self,
        x: dict[str, float],
        label: Label | None,
        decision: Decision,
        evidence: Floats | None,
        keywords: dict[str, Any],
    ) -> None:
        """Learn a reading after its decision; without a label only its window moves on."""
        if self.learns and label is not None:
            self._inner.learn_one(x, label, **keywords)
            return
        if self.pool is not None and label is not None:
            self.pool.score_one(x, label)
        if self._inner is not self.model:
            self._inner.observe_one(x, scales=False, **keywords)
        if label is not None and self.integrator is not None:
            self.integrator.record_label(evidence, label, keywords["device"])
        if label is not None and self.rejector is not None and decision.reason not in UNJUDGED:
            self.rejector.record_outcome(decision.label, decision.certainty, label)

    def _decide(self, x: dict[str, float], keywords: dict[str, Any]) -> Decision:
        if self.rejector is not None:
            return self.rejector.decide_one(x, **keywords)
        probabilities = self._inner.predict_proba_one(x, **keywords)
        label = max(probabilities, key=probabilities.__getitem__, default=None)
        if len(probabilities) < 2:
            return unjudged("no_model", label, 0.0, probabilities)
        if self.model.last_was_empty():
            return unjudged("no_feature", label, 0.0, probabilities)
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

    def _late_reading(self, features: tuple[str, ...], row: Rows) -> Any:
        x: Any = dict(zip(features, row.tolist(), strict=True))
        return x if self.transform is None else self.transform.transform_one(x)

    def score_late(self, features: tuple[str, ...], row: Rows, y: Label) -> None:
        """Note what a pool says about a reading whose label has come, before it is learnt."""
        if self.pool is not None:
            self.pool.score_one(self._late_reading(features, row), y)

    def learn_late(self, features: tuple[str, ...], row: Rows, y: Label) -> None:
        """Learn a reading whose window has since moved on."""
        x = self._late_reading(features, row)
        if self.rejector is not None:
            self.rejector.calibrate_one(x, y)
        self.model.learn_one(x, y)

    def record_outcome(self, answer: Answer, y: Label, device: str | None) -> None:
        """Tell integrator and thresholds the true label of an earlier decision.

        The thresholds also take that of another model, the integrator takes evidence of this one.
        """
        if self.integrator is not None:
            self.integrator.record_label(answer.evidence, y, device)
        if self.rejector is None or answer.certainty is None:
            return
        if self.rejector.per_class and answer.label not in self.classes:
            return  # a class that the model no longer has
        self.rejector.record_outcome(answer.label, answer.certainty, y)


def without_label(readings: Readings, duplicates: Sequence[bool]) -> list[int]:
    """Return the positions of readings whose label may still come: unlabelled, not duplicates."""
    rows = enumerate(zip(readings.labels, duplicates, strict=True))
    return [k for k, (y, duplicate) in rows if y is None and not duplicate]


def by_group(groups: list[str]) -> list[tuple[str, list[int] | None]]:
    """Return each group with the positions of its readings; None stands for all positions."""
    if not groups:
        return []
    if groups.count(groups[0]) == len(groups):
        return [(groups[0], None)]
    indices: dict[str, list[int]] = {}
    for k, group in enumerate(groups):
        indices.setdefault(group, []).append(k)
    return list(indices.items())
