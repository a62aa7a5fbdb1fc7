"""Rejectors: `RelSimRejector`, `ProbabilityRejector`, and their base class `Rejector`."""

from __future__ import annotations

import abc
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Self

import numpy as np
from river import base

from streamlvq.arrays import Label, Reading
from streamlvq.errors import ParameterError
from streamlvq.estimator import exclusive, unknown_first
from streamlvq.kernels import kernels
from streamlvq.models.base import ArrayClassifier, LVQClassifier
from streamlvq.models.committee import LVQCommittee
from streamlvq.models.parameters import check_range, documented
from streamlvq.models.pool import prototype_model
from streamlvq.models.vectorizer import Arrays, KernelBatch, no_rejection
from streamlvq.records import Decision
from streamlvq.wrappers.base import ClassifierWrapper, innermost, is_pipeline, unwrap
from streamlvq.wrappers.feature_transform import FeatureTransform
from streamlvq.wrappers.novelty import (
    NoveltyMemory,
    Strangeness,
    answering_engine,
    has_stored_readings,
    is_beyond_ball,
)
from streamlvq.wrappers.thresholds import (
    Adaptive,
    Chow,
    Fixed,
    RejectCost,
    Rule,
    TargetAccuracy,
    TargetRate,
    Thresholds,
)
from streamlvq.wrappers.time_integrator import TimeIntegrator

NO_CERTAINTY = -1.0  # certainty before two classes are known; below every threshold
RULES: dict[str, Callable[[float], Rule]] = {
    "target_rate": TargetRate,
    "target_accuracy": TargetAccuracy,
    "reject_cost": RejectCost,
}
TARGETS = ("threshold", *RULES)

documented_rejector = functools.partial(
    documented,
    descriptions={
        "classifier": "Classifier to wrap, or a pipeline that ends with one.",
        "threshold": (
            "Smallest certainty that is accepted, from 0 to 1. Or a mapping from labels to such "
            "numbers; a label that is not in it gets the largest of them."
        ),
        "target_rate": (
            "Instead of a threshold: the share of readings to reject. The threshold adapts to the "
            "certainties of the last `memory` readings, labelled or not."
        ),
        "target_accuracy": (
            "Instead of a threshold: reject as few readings as possible such that the accepted ones "
            "are this accurate, measured on the last `memory` labelled readings before they were "
            "learnt. Until a threshold achieves this, everything is rejected."
        ),
        "reject_cost": (
            "Instead of a threshold: the cost of a rejection if an error costs 1. A probability "
            "must then be at least 1 - reject_cost (Chow's rule). RelSim is not a probability: its "
            "threshold is the cheapest one on the last `memory` labelled readings."
        ),
        "memory": "Number of recent readings that an adaptive threshold is based on.",
        "per_class": (
            "Separate threshold and memory for each predicted label. Only for adaptive thresholds; "
            "for fixed ones use a mapping."
        ),
        "novelty_rate": (
            "The share of readings of known classes that may be taken for outliers. A reading whose "
            "`Decision.novelty` is at least 1 - novelty_rate is rejected as one, however certain the "
            "model is, and so is one far outside the space between its closest prototypes. None "
            "measures no novelty and rejects by certainty alone."
        ),
    },
)


class Rejector(ClassifierWrapper, abc.ABC):
    """Base class of the rejectors; subclasses define the certainty of a decision."""

    keeps_readings: ClassVar[bool] = True  # certainties and scores of single readings
    _fixed: ClassVar[Mapping[str, type[Fixed]]] = {"threshold": Fixed}  # all others adapt
    _certainty: ClassVar[str] = "PROBABILITY"  # name of the constant in the batch kernel

    def __init__(
        self,
        classifier: base.Classifier,
        threshold: float | Mapping[Label, float] | None = None,
        target_rate: float | None = None,
        target_accuracy: float | None = None,
        reject_cost: float | None = None,
        memory: int = 1000,
        per_class: bool = False,
        novelty_rate: float | None = 0.01,
    ) -> None:
        super().__init__(classifier)
        self.threshold = threshold
        self.target_rate = target_rate
        self.target_accuracy = target_accuracy
        self.reject_cost = reject_cost
        self.memory = memory
        self.per_class = per_class
        self.novelty_rate = novelty_rate
        self._check()
        chain = list(unwrap(classifier))
        self._check_chain(chain)
        # Another wrapper may replace the model inside, and with it the order of its classes.
        self._prototypes = None if _is_delayed(chain) else prototype_model(_asked_directly(chain))
        measures = novelty_rate is not None and self._prototypes is not None
        self._novelty = NoveltyMemory() if measures else None
        self._thresholds = self._make_thresholds(self._target_name())

    # --- parameters ------------------------------------------------------------------------------

    def _target_name(self) -> str:
        """Return the name of the parameter that defines the threshold."""
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
        if self.novelty_rate is not None:
            check_range(owner, "novelty_rate", self.novelty_rate, 0, 1)
        value = getattr(self, target)
        if target != "threshold" or not isinstance(value, Mapping):
            check_range(owner, target, value, 0, 1)
            return
        if not value:
            raise ParameterError(owner, "threshold", f"expected at least one label, got {value!r}")
        for label, number in value.items():
            check_range(owner, "threshold", number, 0, 1, about=f" for {label!r}")

    def _check_chain(self, chain: list[Any]) -> None:
        """Raise `ParameterError` for an unsuitable classifier; `chain` leads to its model."""
        for link in chain:
            if issubclass(type(link), Rejector):  # `isinstance` looks through pipelines
                raise ParameterError(
                    type(self).__name__,
                    "classifier",
                    f"expected a classifier without a rejector of its own, got {link}",
                )
            if issubclass(type(link), FeatureTransform):
                raise ParameterError(
                    type(self).__name__,
                    "classifier",
                    "expected a classifier without FeatureTransform, got one: "
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
                f"expected an adaptive threshold, got {name}={target!r}; "
                "for fixed thresholds per class use a mapping",
            )
        return self._fixed[name](target)

    @property
    def _mutable_attributes(self) -> set[str]:
        return {self._target_name()}

    def mutate(self, new_attrs: dict[str, Any]) -> None:
        """Change the target, but not if another parameter is to change as well."""
        super().mutate(unknown_first(new_attrs, self._mutable_attributes))

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute; the target may change at any time, invalid values change nothing."""
        if "_thresholds" not in self.__dict__ or name not in TARGETS:
            object.__setattr__(self, name, value)
            return
        if value is None and name == self._target_name():
            raise ValueError(
                f"{type(self).__name__}.{name} = None: expected a number, got None (a curve has no "
                f"threshold for an accuracy it never reached: use a lower one, or more readings)"
            )
        before = getattr(self, name)
        object.__setattr__(self, name, value)
        try:
            self._check()
        except Exception:
            object.__setattr__(self, name, before)
            raise
        self._thresholds.set_target(value)

    def threshold_for(self, label: Label = None) -> float:
        """Return the current threshold for a predicted label; infinite if all is rejected."""
        return self._thresholds.find(label)

    # --- decisions -------------------------------------------------------------------------------

    @abc.abstractmethod
    def _judge(self, x: Reading, keywords: dict[str, Any]) -> tuple[Label | None, float]:
        """Return the label of a reading and its certainty, or `NO_CERTAINTY`."""

    @abc.abstractmethod
    def decide_one(self, x: Reading, **kwargs: Any) -> Decision:
        """Return the decision on a reading, with its certainty and the reason of a rejection."""

    @exclusive
    def predict_one(self, x: Reading, **kwargs: Any) -> Label | None:
        """Return the most probable class; None if it is rejected."""
        label, certainty = self._judge(x, kwargs)
        if not (certainty >= self._thresholds.find(label) and certainty > 0.0):
            return None
        return None if self._outlier_by(x, self._strangeness(), False) else label

    def predict_proba_one(self, x: Reading, **kwargs: Any) -> dict[Label, float]:
        """Return the classifier's probabilities, also for rejected readings."""
        keywords = self._chosen("predict_proba_one", kwargs)
        probabilities: dict[Label, float] = self.classifier.predict_proba_one(x, **keywords)
        return probabilities

    # --- outliers --------------------------------------------------------------------------------

    def _strangeness(self) -> Strangeness | None:
        """Return how strange the reading just predicted is; None if that is not measured."""
        if self._novelty is None or self._prototypes is None or self.novelty_rate is None:
            return None
        engine = answering_engine(self._prototypes)
        return None if engine is None else self._novelty.measure(engine)

    def _outlier_by(self, x: Reading, strange: Strangeness | None, rejected: bool) -> str | None:
        """Return what says that the reading just predicted is an outlier."""
        new = (
            strange is not None
            and self.novelty_rate is not None
            and strange.novelty >= 1.0 - self.novelty_rate
        )
        if strange is not None and strange.compared:
            return "novelty" if new else None
        return "ball" if (new or rejected) and self._is_far(x) else None

    def _is_far(self, x: Reading) -> bool:
        """Return True if the reading just predicted is beyond the ball."""
        model = None if self._novelty is None else self._prototypes
        return model is not None and is_beyond_ball(model)

    def _judged(self, x: Reading, certainty: float, threshold: float) -> dict[str, Any]:
        """Return what a decision says of whether and why the reading just predicted is rejected."""
        strange = self._strangeness()
        rejected = not (certainty >= threshold and certainty > 0.0)
        outlier_by = self._outlier_by(x, strange, rejected)
        reason = "outlier" if outlier_by else "ambiguous" if rejected else None
        return {
            "accepted": reason is None,
            "reason": reason,
            "novelty": strange.novelty if strange is not None and strange.ranked else None,
            "outlier_by": outlier_by,
        }

    # --- learning --------------------------------------------------------------------------------

    @exclusive
    def learn_one(self, x: Reading, y: Label, **kwargs: Any) -> None:
        """Update thresholds and novelty with a labelled reading, then learn it."""
        judges = self._thresholds.learns
        label, certainty = self._judge(x, kwargs) if judges else (None, NO_CERTAINTY)
        code = self._measured_before(x, y, asked=judges)
        self.classifier.learn_one(x, y, **self._chosen("learn_one", kwargs))
        if self._novelty is not None and code >= 0:
            self._novelty.add(code)
        if certainty >= 0.0:
            self._thresholds.remember(label, certainty, label == y)

    def _measured_before(self, x: Reading, y: Label, asked: bool) -> int:
        """Measure how strange a labelled reading is; return its class, -1 if it does not count."""
        if self._novelty is None or self._prototypes is None:
            return -1
        code = self._prototypes.class_number(y)
        if code < 0:
            return -1
        if not asked:
            _, x = innermost(self.classifier, x)
            self._prototypes.predict_labels_one(x)
        engine = answering_engine(self._prototypes)
        if engine is None:
            return -1
        self._novelty.measure(engine)
        return code

    @exclusive
    def calibrate_one(self, x: Reading, y: Label) -> None:
        """Update novelty with a labelled reading that the model learns next, on another way.

        Parameters
        ----------
        x
            The reading, as the wrapped classifier gets it.
        y
            Its label.

        """
        code = self._measured_before(x, y, asked=False)
        if self._novelty is not None and code >= 0:
            self._novelty.add(code)

    @exclusive
    def record_outcome(self, label: Label | None, certainty: float, y: Label) -> None:
        """Update the thresholds with the true label of an earlier, unlabelled decision.

        Parameters
        ----------
        label
            Label that was predicted, accepted or not.
        certainty
            Certainty of that decision.
        y
            True label.

        """
        if self._thresholds.needs_labels and certainty >= 0.0:
            self._thresholds.remember(label, certainty, label == y)

    @exclusive
    def observe_one(self, x: Reading, *, scales: bool = True, **kwargs: Any) -> None:
        """Update scales, windows and target rates with an unlabelled reading.

        With `scales=False` the innermost model stays unchanged.
        """
        updates = self._thresholds.learns and not self._thresholds.needs_labels
        label, certainty = self._judge(x, kwargs) if updates else (None, NO_CERTAINTY)
        if scales:
            self._observe(x, kwargs)
        elif issubclass(type(self.classifier), ClassifierWrapper):
            self._observe(x, {**kwargs, "scales": False})
        if certainty >= 0.0:
            self._thresholds.remember(label, certainty, False)

    # --- many readings in one kernel call, see `streamlvq.models.vectorizer.BatchPart` ----------------

    def rows_ready(self, batch: KernelBatch) -> int:
        """Return how many rows the kernel can process: none if it learns and adapts per class."""
        return 0 if batch.learns and self._thresholds.per_class else batch.remaining

    def _applies_afterwards(self, batch: KernelBatch) -> bool:
        """Return True if thresholds need labels or classes that the kernel does not get.

        Predictions of a fixed model do not depend on thresholds, so these can be applied after the
        kernel call, see `settle`.
        """
        thresholds = self._thresholds
        return not batch.learns and (thresholds.needs_labels or thresholds.per_class)

    def lend(self, batch: KernelBatch) -> Arrays:
        """Return settings, thresholds by class, recent certainties and their count."""
        if self._applies_afterwards(batch):
            # Reject all: the kernel measures outliers only for rejected readings.
            lent = no_rejection(len(batch.classes), np.inf)
        else:
            lent = self._thresholds.lend(batch)
        constants = kernels("pipeline")
        lent[0][constants.CERTAINTY] = getattr(constants, self._certainty)
        if self._novelty is None or self.novelty_rate is None:
            return lent
        lent[0][constants.NOVELTY_LIMIT] = 1.0 - self.novelty_rate
        batch.novelty = kernels("novelty").address("measure_novelty")
        return *lent[:4], *self._novelty.lend(len(batch.classes))

    def settle(self, batch: KernelBatch, lent: Arrays) -> None:
        """Update the thresholds after the kernel call, or apply them if it could not."""
        if self._applies_afterwards(batch):
            self._apply_thresholds(batch)
        else:
            self._thresholds.settle(int(lent[3][0]))

    def _apply_thresholds(self, batch: KernelBatch) -> None:
        """Apply thresholds to the decisions in order, updating them after each."""
        constants, thresholds = kernels("pipeline"), self._thresholds
        labels = [batch.classes[code] for code in batch.codes.tolist()]
        certainties = batch.measures[:, constants.OUT_CERTAINTY].tolist()
        judged = (batch.verdicts == constants.REJECTED).tolist()
        given = batch.readings.labels[batch.rows], batch.duplicates[batch.rows]
        current = []
        for label, certainty, is_judged, y, duplicate in zip(
            labels, certainties, judged, *given, strict=True
        ):
            current.append(thresholds.find(label))
            if is_judged and not duplicate and (y is not None or not thresholds.needs_labels):
                thresholds.remember(label, certainty, thresholds.needs_labels and label == y)
        batch.measures[:, constants.OUT_THRESHOLD] = current
        certain = batch.measures[:, constants.OUT_CERTAINTY]
        kept = (certain >= np.array(current)) & (certain > 0.0)
        # The ball is only asked about what is rejected, or new. The kernel asked it about all.
        limit = np.inf if self.novelty_rate is None else 1.0 - self.novelty_rate
        asked = ~kept | (batch.measures[:, constants.OUT_NOVELTY] >= limit)
        outliers = batch.measures[:, constants.OUT_OUTLIER]
        outliers[~asked & (outliers == constants.BY_BALL)] = constants.NO_OUTLIER
        kept &= outliers == constants.NO_OUTLIER
        batch.verdicts[np.array(judged, np.bool_) & kept] = constants.ACCEPTED

    # --- state -----------------------------------------------------------------------------------

    @exclusive
    def memory_state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return a copy of the memory of thresholds and novelty, as arrays."""
        arrays = self._thresholds.memory(self.classes)
        if self._novelty is not None:
            arrays |= self._novelty.state()
        return arrays, {}

    def restore_memory(self, arrays: dict[str, Any], extra: dict[str, Any]) -> None:
        """Restore what `memory_state` returned; raise ValueError if it does not fit.

        Without stored readings, as in a published model, the distances to them are left out.
        """
        if self._novelty is not None and self._prototypes is not None:
            names = self._novelty.state().keys()
            classes = self._prototypes.classes  # a pool may know them in another order
            self._novelty.restore(classes, {name: arrays[name] for name in names})
            arrays = {name: array for name, array in arrays.items() if name not in names}
            if not has_stored_readings(self._prototypes):
                self._novelty.forget_distances()
        self._thresholds.restore(self.classes, arrays)

    def adopt(self, before: Self) -> None:
        """Take over thresholds and novelty of a rejector with the same parameters and model."""
        self.restore_memory(*before.memory_state())

    def _move_memory(self, new: Self) -> None:
        new._thresholds = self._thresholds.moved_to(new.classes)
        ours, theirs = self._prototypes, new._prototypes  # a pool may know classes in another order
        if self._novelty is None or new._novelty is None or ours is None or theirs is None:
            return
        new._novelty = self._novelty.moved(ours.classes, theirs.classes)
        if not has_stored_readings(theirs):
            new._novelty.forget_distances()


def likeliest(probabilities: dict[Label, float]) -> Label | None:
    """Return the most probable label; None if there is none."""
    return max(probabilities, key=probabilities.__getitem__, default=None)


def _asked_directly(chain: list[Any]) -> Any:
    """Return the model at the end of a chain; None if it is not ours or may not be asked each time.

    Pipelines and our own wrappers ask the model once per prediction, so its last answer is about
    the reading just predicted and need not be computed again.
    """
    *wrappers, model = chain
    direct = all(is_pipeline(e) or issubclass(type(e), ClassifierWrapper) for e in wrappers)
    return model if direct and issubclass(type(model), ArrayClassifier) else None


def _is_delayed(chain: list[Any]) -> bool:
    """Return True if decisions are about earlier readings than the one just predicted."""
    return any(issubclass(type(link), TimeIntegrator) and link.delay for link in chain)


def unjudged(
    reason: str, label: Label | None, threshold: float, probabilities: dict[Label, float]
) -> Decision:
    """Return the decision on a reading whose certainty is unknown, see `UNJUDGED`."""
    return Decision(
        label=label,
        certainty=0.0,
        accepted=False,
        reason=reason,
        threshold=threshold,
        winner=label,
        runner_up=None,
        distance=None,
        runner_up_distance=None,
        probabilities=probabilities,
    )


# --- rejectors -----------------------------------------------------------------------------------


@documented_rejector
class RelSimRejector(Rejector):
    """Rejector of readings that are about equally close to two classes, or far from all.

    The certainty of a decision is the relative similarity of the reading to its closest class,
    (d2 - d1) / (d2 + d1) of the squared distances d1 to the closest and d2 to the second closest
    class. It is computed by the innermost model for the current reading, while label and
    probabilities come from the wrapped classifier, which may integrate over time. If the reading is
    closest to another class than that label, the certainty is 0. In a committee the RelSim is that of
    one member, see `LVQCommittee.speaker`.

    `predict_one` returns None for a rejected reading, and `decide_one` gives the reason: "outlier" if
    it is unlike everything that was learnt, else "ambiguous", see `Decision`. Outliers are rejected
    however certain the model is. Fischer et al. reject by certainty alone: `novelty_rate=None`.

    River's ensembles ask their members for probabilities, which a rejector passes on unchanged: as a
    member it rejects nothing. An ensemble has no RelSim; put a `ProbabilityRejector` around it.

    Parameters
    ----------
    {parameters}

    Examples
    --------

    >>> from river import datasets, metrics
    >>> import streamlvq

    >>> model = streamlvq.RelSimRejector(streamlvq.LGMLVQ(), target_rate=0.1, memory=200)
    >>> kept, rejected = metrics.Accuracy(), 0
    >>> for x, y in datasets.ImageSegments():
    ...     label = model.predict_one(x)
    ...     if label is None:
    ...         rejected += 1
    ...     else:
    ...         kept.update(y, label)
    ...     model.learn_one(x, y)
    >>> rejected / 2310, kept.get()  # of all, 0.94 are right
    (0.10, 0.97)

    >>> strange = {name: 2 * value for name, value in x.items()}
    >>> decision = model.decide_one(strange)
    >>> decision.accepted, decision.reason
    (False, 'outlier')

    References
    ----------
    - Fischer, L., Hammer, B., Wersing, H. (2015). Efficient rejection strategies for prototype-based classification. Neurocomputing 169, 334-342.
    - Fischer, L., Hammer, B., Wersing, H. (2016). Optimal local rejection for classifiers. Neurocomputing 214, 445-457.
    - Brinkrolf, J. (2023). Learning vector quantization for the real-world: privacy, robustness, and sparsity. Dissertation, Bielefeld University, sections 4.2 and 4.3.

    """

    _certainty: ClassVar[str] = "RELSIM"

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        from streamlvq.models import GLVQ  # noqa: PLC0415

        yield {"classifier": GLVQ(rehearsal=2), "threshold": 0.2}
        yield {"classifier": GLVQ(rehearsal=2), "target_rate": 0.1, "memory": 50}

    def _check_chain(self, chain: list[Any]) -> None:
        super()._check_chain(chain)
        *wrappers, model = chain
        if not getattr(model, "has_relsim", False):
            raise ParameterError(
                "RelSimRejector",
                "classifier",
                f"expected a model of streamlvq with prototypes, got {model}, which has no RelSim",
                instead="ProbabilityRejector",
            )
        if _is_delayed(wrappers):
            raise ParameterError(
                "RelSimRejector",
                "classifier",
                "expected decisions about the latest reading, whose RelSim is known, "
                "got late ones; use ProbabilityRejector, or leave delay and centered out",
            )
        self._model: LVQClassifier | LVQCommittee | None = _asked_directly(chain)

    def _judge(self, x: Reading, keywords: dict[str, Any]) -> tuple[Label | None, float]:
        model = self._model
        if model is None:
            label = likeliest(self.predict_proba_one(x, **keywords))
            model = self._predicted_model(x)
        else:
            if not self._takes_all:
                keywords = self._chosen("predict_one", keywords)
            label = self.classifier.predict_one(x, **keywords)
        certainty = model.last_relsim(label)
        if certainty == 0.0 and model.last_was_empty():
            return label, NO_CERTAINTY
        return label, certainty

    def _predicted_model(self, x: Reading) -> LVQClassifier | LVQCommittee:
        """Return the innermost model after it has predicted this reading."""
        if self._model is not None:
            return self._model
        model: LVQClassifier | LVQCommittee
        model, x = innermost(self.classifier, x)
        model.predict_labels_one(x)
        return model

    @exclusive
    def decide_one(self, x: Reading, **kwargs: Any) -> Decision:
        """Return the decision on a reading, with its certainty and the reason of a rejection."""
        probabilities = self.predict_proba_one(x, **kwargs)
        label = likeliest(probabilities)
        threshold = self._thresholds.find(label)
        model = self._predicted_model(x)
        pair = model.last_closest()
        if pair is None:
            return unjudged("no_model", label, threshold, probabilities)
        if pair.relsim == 0.0 and model.last_was_empty():
            return unjudged("no_feature", label, threshold, probabilities)
        labels = model.known_labels
        winner, certainty = labels[pair.winner], model.last_relsim(label)
        return Decision(
            label=label,
            certainty=certainty,
            threshold=threshold,
            winner=winner,
            runner_up=labels[pair.runner_up],
            distance=pair.distance,
            runner_up_distance=pair.runner_up_distance,
            probabilities=probabilities,
            **self._judged(x, certainty, threshold),
        )

    def _is_far(self, x: Reading) -> bool:
        model = prototype_model(self._predicted_model(x))
        return model is not None and is_beyond_ball(model)


@documented_rejector
class ProbabilityRejector(Rejector):
    """Rejector of readings whose most probable class is not probable enough.

    Works with any classifier that gives probabilities. Probabilities cannot tell a reading between
    two classes from one that is far from all; for a model of streamlvq its novelty does, see
    `Decision`. For others the reason of a rejection always is "ambiguous". Chow's rule rejects by
    probability alone: `novelty_rate=None`.

    Put it around an ensemble of River, not inside: ensembles ask their members for probabilities,
    which a rejector passes on unchanged, so a member rejects nothing.

    Parameters
    ----------
    {parameters}

    Examples
    --------

    A rejection costs a fifth of an error, so decisions below 80 % are not worth the risk:

    >>> from river import datasets, evaluate, metrics
    >>> import streamlvq

    >>> model = streamlvq.ProbabilityRejector(streamlvq.LGMLVQ(), reject_cost=0.2)
    >>> model.threshold_for("sky")
    0.8
    >>> score = evaluate.progressive_val_score(datasets.ImageSegments(), model, metrics.Accuracy())
    >>> score.get()  # of those that were kept
    0.98

    References
    ----------
    - Chow, C. K. (1970). On optimum recognition error and reject tradeoff. IEEE Transactions on Information Theory 16(1), 41-46.

    """

    _fixed: ClassVar[Mapping[str, type[Fixed]]] = {"threshold": Fixed, "reject_cost": Chow}

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        from streamlvq.models import GLVQ  # noqa: PLC0415

        yield {"classifier": GLVQ(rehearsal=2), "threshold": 0.5}
        yield {"classifier": GLVQ(rehearsal=2), "target_accuracy": 0.9, "memory": 50}

    def _check_chain(self, chain: list[Any]) -> None:
        super()._check_chain(chain)
        *_, model = chain
        if type(model).predict_proba_one is base.Classifier.predict_proba_one:
            raise ParameterError(
                "ProbabilityRejector",
                "classifier",
                f"expected a classifier with predict_proba_one, got {model}, which has none",
            )
        if _is_delayed(chain) and self.target_accuracy is not None:
            raise ParameterError(
                "ProbabilityRejector",
                "target_accuracy",
                "expected decisions about the reading that is learnt, "
                "got late ones; use target_rate, or leave delay and centered out",
            )
        self._model: LVQClassifier | LVQCommittee | None = _asked_directly(chain)

    def _judge(self, x: Reading, keywords: dict[str, Any]) -> tuple[Label | None, float]:
        probabilities = self.predict_proba_one(x, **keywords)
        label = likeliest(probabilities)
        if len(probabilities) < 2 or self._was_empty():
            return label, NO_CERTAINTY
        return label, probabilities[label]

    def _was_empty(self) -> bool:
        """Return True if the model knows no feature of the reading just predicted."""
        return self._model is not None and self._model.last_was_empty()

    @exclusive
    def decide_one(self, x: Reading, **kwargs: Any) -> Decision:
        """Return the decision on a reading, with its certainty and the reason of a rejection."""
        probabilities = self.predict_proba_one(x, **kwargs)
        label = likeliest(probabilities)
        threshold = self._thresholds.find(label)
        if len(probabilities) < 2:
            return unjudged("no_model", label, threshold, probabilities)
        if self._was_empty():
            return unjudged("no_feature", label, threshold, probabilities)
        certainty = probabilities[label]
        return Decision(
            label=label,
            certainty=certainty,
            threshold=threshold,
            winner=label,
            runner_up=likeliest({k: p for k, p in probabilities.items() if k != label}),
            distance=None,
            runner_up_distance=None,
            probabilities=probabilities,
            **self._judged(x, certainty, threshold),
        )
