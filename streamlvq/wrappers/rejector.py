"""What the rejectors have in common."""

from __future__ import annotations

import abc
import functools
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self

import numpy as np
from river import base

from streamlvq.errors import ParameterError
from streamlvq.models.array_classifier import Label
from streamlvq.models.batch import Arrays, Batch, no_rejection
from streamlvq.models.batch import kernels as batch_kernels
from streamlvq.models.parameters import check_range, documented
from streamlvq.records import Decision
from streamlvq.vectorize import Reading
from streamlvq.wrappers.chain import unwrap
from streamlvq.wrappers.feature_transform import FeatureTransform
from streamlvq.wrappers.thresholds import (
    Adaptive,
    Fixed,
    RejectCost,
    Rule,
    TargetAccuracy,
    TargetRate,
    Thresholds,
)
from streamlvq.wrappers.wrapper import ClassifierWrapper

NO_MODEL = -1.0  # a certainty below every threshold: there are not two classes to compare yet
RULES: dict[str, Callable[[float], Rule]] = {
    "target_rate": TargetRate,
    "target_accuracy": TargetAccuracy,
    "reject_cost": RejectCost,
}
TARGETS = ("threshold", *RULES)

documented_rejector = functools.partial(
    documented,
    descriptions={
        "classifier": "What to wrap: a classifier, or a pipeline that ends with one.",
        "threshold": (
            "The least certainty that is accepted, from 0 to 1. Or a mapping from labels to such "
            "numbers; a label that it does not name needs the largest of them."
        ),
        "target_rate": (
            "Instead of a threshold: the share of readings to reject. The threshold follows the "
            "certainties of the last `memory` readings, labelled or not."
        ),
        "target_accuracy": (
            "Instead of a threshold: reject as little as makes the rest this accurate, judged by "
            "the last `memory` labelled readings, before they were learnt. Before the first, and "
            "while no threshold is good enough, everything is rejected."
        ),
        "reject_cost": (
            "Instead of a threshold: what a rejection costs if an error costs 1. A probability "
            "must then be at least 1 - reject_cost (Chow's rule). RelSim is no probability: its "
            "threshold is the one that was cheapest on the last `memory` labelled readings."
        ),
        "memory": "How many readings a threshold that adapts looks back on.",
        "per_class": (
            "A threshold for each predicted label, with a memory of its own. Only for thresholds "
            "that adapt; for a fixed one give a mapping."
        ),
    },
)


class Rejector(ClassifierWrapper, abc.ABC):
    """Base of the rejectors; it does not know how certain a decision is."""

    _fixed: ClassVar[Mapping[str, type[Fixed]]] = {"threshold": Fixed}  # all else adapts
    _certainty: ClassVar[str] = "PROBABILITY"  # the name of its constant in the batch kernel

    def __init__(
        self,
        classifier: base.Classifier,
        threshold: float | Mapping[Label, float] | None = None,
        target_rate: float | None = None,
        target_accuracy: float | None = None,
        reject_cost: float | None = None,
        memory: int = 1000,
        per_class: bool = False,
    ) -> None:
        super().__init__(classifier)
        self.threshold = threshold
        self.target_rate = target_rate
        self.target_accuracy = target_accuracy
        self.reject_cost = reject_cost
        self.memory = memory
        self.per_class = per_class
        self._check()
        self._examine(list(unwrap(classifier)))
        self._thresholds = self._make_thresholds(self._target_name())

    # --- parameters ------------------------------------------------------------------------------

    def _target_name(self) -> str:
        """Return the parameter that says how the threshold is found."""
        given = [name for name in TARGETS if getattr(self, name) is not None]
        if len(given) != 1:
            raise ParameterError(
                type(self).__name__,
                None,
                f"expected exactly one of {', '.join(TARGETS)}, got {' and '.join(given) or 'none'}",
            )
        return given[0]

    def _check(self) -> None:
        owner, target = type(self).__name__, self._target_name()
        check_range(owner, "memory", self.memory, 1, whole=True)
        if not isinstance(self.per_class, bool):
            raise ParameterError(owner, "per_class", f"expected a bool, got {self.per_class!r}")
        value = getattr(self, target)
        if target != "threshold" or not isinstance(value, Mapping):
            check_range(owner, target, value, 0, 1)
            return
        if not value:
            raise ParameterError(owner, "threshold", f"expected at least one label, got {value!r}")
        for label, number in value.items():
            check_range(owner, f"threshold={{{label!r}: ...}}", number, 0, 1)

    def _examine(self, chain: list[Any]) -> None:
        """Refuse what cannot be judged; `chain` leads from the classifier to its model."""
        for link in chain:
            if issubclass(type(link), Rejector):  # `isinstance` sees through pipelines
                raise ParameterError(
                    type(self).__name__,
                    "classifier",
                    f"expected a classifier that rejects nothing itself, got {link}",
                )
            if issubclass(type(link), FeatureTransform):
                raise ParameterError(
                    type(self).__name__,
                    "classifier",
                    "expected a classifier in the coordinates of its model; "
                    "put the FeatureTransform around the rejector",
                )

    def _make_thresholds(self, name: str) -> Thresholds:
        target = getattr(self, name)
        if name not in self._fixed:
            return Adaptive(RULES[name](target), self.memory, self.per_class)
        if self.per_class:
            raise ParameterError(
                type(self).__name__,
                "per_class",
                f"expected a threshold that adapts, got {name}={target!r}; "
                "fixed thresholds for each class are a mapping",
            )
        return self._fixed[name](target)

    @property
    def _mutable_attributes(self) -> set[str]:
        return {self._target_name()}

    def __setattr__(self, name: str, value: Any) -> None:
        """What is aimed at may change at any time; a bad value changes nothing."""
        if "_thresholds" not in self.__dict__ or name not in TARGETS:
            object.__setattr__(self, name, value)
            return
        if value is None and name == self._target_name():
            raise ValueError(
                f"{type(self).__name__}.{name} = None: expected a number (a curve has no threshold "
                f"for an accuracy that it never reached: ask for less, or show it more readings)"
            )
        before = getattr(self, name)
        object.__setattr__(self, name, value)
        try:
            self._check()
        except ValueError:
            object.__setattr__(self, name, before)
            raise
        self._thresholds.set_target(value)

    def threshold_for(self, label: Label = None) -> float:
        """The threshold in force for a predicted label; infinite where everything is rejected."""
        return self._thresholds.find(label)

    # --- decisions -------------------------------------------------------------------------------

    @abc.abstractmethod
    def _judge(self, x: Reading, keywords: dict[str, Any]) -> tuple[Label | None, float]:
        """The label of a reading and how certain it is, or `NO_MODEL`."""

    @abc.abstractmethod
    def decide_one(self, x: Reading, **kwargs: Any) -> Decision:
        """The decision on a reading, with its certainty and, if it is rejected, the reason."""

    def predict_one(self, x: Reading, **kwargs: Any) -> Label | None:
        """The most probable class; None if it is rejected."""
        label, certainty = self._judge(x, kwargs)
        return label if certainty >= self._thresholds.find(label) else None

    def predict_proba_one(self, x: Reading, **kwargs: Any) -> dict[Label, float]:
        """The classifier's probabilities, whether or not it is certain."""
        keywords = self._chosen("predict_proba_one", kwargs)
        probabilities: dict[Label, float] = self.classifier.predict_proba_one(x, **keywords)
        return probabilities

    # --- learning --------------------------------------------------------------------------------

    def learn_one(self, x: Reading, y: Label, **kwargs: Any) -> None:
        """Learn a labelled reading; before that, let the thresholds see how certain it was."""
        label, certainty = self._judge(x, kwargs) if self._thresholds.learns else (None, NO_MODEL)
        self.classifier.learn_one(x, y, **self._chosen("learn_one", kwargs))
        if certainty >= 0.0:
            self._thresholds.remember(label, certainty, label == y)

    def record_outcome(self, label: Label | None, certainty: float, y: Label) -> None:
        """Tell the thresholds how a decision ended whose reading was observed without its label.

        Parameters
        ----------
        label
            What was decided, accepted or not.
        certainty
            How certain it was.
        y
            What would have been right.

        """
        if self._thresholds.needs_labels and certainty >= 0.0:
            self._thresholds.remember(label, certainty, label == y)

    def observe_one(self, x: Reading, *, scales: bool = True, **kwargs: Any) -> None:
        """Let a reading without a label teach the scales, windows and rates of rejection.

        With `scales=False` it leaves the innermost model as it is.
        """
        of_use = self._thresholds.learns and not self._thresholds.needs_labels
        label, certainty = self._judge(x, kwargs) if of_use else (None, NO_MODEL)
        if scales:
            self._observe(x, kwargs)
        elif issubclass(type(self.classifier), ClassifierWrapper):
            self._observe(x, {**kwargs, "scales": False})
        if certainty >= 0.0:
            self._thresholds.remember(label, certainty, False)

    # --- many readings in one kernel call, see `streamlvq.models.batch.BatchPart` ----------------

    def rows_ready(self, batch: Batch) -> int:
        """Return how many rows the kernel can take: none if each class learns its threshold."""
        return 0 if batch.learns and self._thresholds.per_class else batch.remaining

    def _follows(self, batch: Batch) -> bool:
        """Whether thresholds go by labels or classes that the kernel is not told.

        What a model that stays as it is says of a reading does not depend on thresholds, so that
        these can follow afterwards, see `settle`.
        """
        thresholds = self._thresholds
        return not batch.learns and (thresholds.needs_labels or thresholds.per_class)

    def lend(self, batch: Batch) -> Arrays:
        """Lend settings, thresholds by class, certainties, and how many were seen."""
        if self._follows(batch):
            # The kernel measures what tells an outlier only for those that it rejects.
            lent = no_rejection(len(batch.classes), np.inf)
        else:
            lent = self._thresholds.lend(batch.classes)
        constants = batch_kernels()
        lent[0][constants.CERTAINTY] = getattr(constants, self._certainty)
        return lent

    def settle(self, batch: Batch, lent: Arrays) -> None:
        """Take note of the certainties; thresholds that go by labels are applied only now."""
        if self._follows(batch):
            self._follow(batch)
        else:
            self._thresholds.settle(int(lent[3][0]))

    def _follow(self, batch: Batch) -> None:
        """Go through the decisions with thresholds that hear of each before the next one."""
        constants, thresholds = batch_kernels(), self._thresholds
        labels = [batch.classes[code] for code in batch.codes.tolist()]
        certainties = batch.measures[:, constants.OUT_CERTAINTY].tolist()
        judged = (batch.verdicts != constants.NO_MODEL).tolist()
        given = batch.readings.labels[batch.rows], batch.duplicates[batch.rows]
        in_force = []
        for label, certainty, counts, y, again in zip(
            labels, certainties, judged, *given, strict=True
        ):
            in_force.append(thresholds.find(label))
            if counts and not again and (y is not None or not thresholds.needs_labels):
                thresholds.remember(label, certainty, thresholds.needs_labels and label == y)
        batch.measures[:, constants.OUT_THRESHOLD] = in_force
        kept = batch.measures[:, constants.OUT_CERTAINTY] >= np.array(in_force)
        batch.verdicts[np.array(judged, np.bool_) & kept] = constants.ACCEPTED

    def reason_for(
        self, threshold: float, relsim: float, distance: float, separation: float
    ) -> str:
        """Why a decision below the threshold is rejected: "ambiguous" or "outlier"."""
        return "ambiguous"

    # --- state -----------------------------------------------------------------------------------

    def memory_state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Copy what the thresholds remember, as arrays."""
        return self._thresholds.memory(self.classes), {}

    def restore_memory(self, arrays: dict[str, Any], extra: dict[str, Any]) -> None:
        """Take over what `memory_state` returned; raises ValueError if it does not fit."""
        self._thresholds.restore(self.classes, arrays)

    def _move_memory(self, new: Self) -> None:
        new._thresholds = self._thresholds.moved_to(new.classes)


def likeliest(probabilities: dict[Label, float]) -> Label | None:
    return max(probabilities, key=probabilities.__getitem__, default=None)


def no_model(label: Label | None, threshold: float, probabilities: dict[Label, float]) -> Decision:
    """The decision while there are not two classes to compare."""
    return Decision(
        label=label,
        certainty=0.0,
        accepted=False,
        reason="no_model",
        threshold=threshold,
        winner=label,
        runner_up=None,
        distance=None,
        runner_up_distance=None,
        probabilities=probabilities,
    )
