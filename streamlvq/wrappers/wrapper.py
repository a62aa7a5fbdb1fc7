"""What all wrappers have in common."""

from __future__ import annotations

import abc
import copy
from typing import Any, ClassVar, Self

from river import base

from streamlvq.errors import ParameterError, SnapshotError
from streamlvq.estimator import (
    DEFAULT_LIMITS,
    INVALID_STATE_ERRORS,
    EstimatorState,
    StateLimits,
    build_estimator,
    check_ours,
    construct,
    parameters_of,
)
from streamlvq.models.array_classifier import Label
from streamlvq.records import Explanation
from streamlvq.vectorize import Reading
from streamlvq.wrappers.chain import innermost, innermost_model, observe
from streamlvq.wrappers.keywords import accepted, chosen

METHODS = ("learn_one", "observe_one", "predict_one", "predict_proba_one")


class ClassifierWrapper(base.Wrapper, base.Classifier, abc.ABC):  # type: ignore[misc]
    """Base of the wrappers: hands on what it is asked, with the keywords that are of use inside."""

    chooses_keywords: ClassVar[bool] = True  # so it may be given all
    keeps_readings: ClassVar[bool] = False  # its memory is about single readings
    goes_outermost: ClassVar[bool] = False  # what is inside sees its readings changed

    def __init__(self, classifier: base.Classifier) -> None:
        if not isinstance(classifier, base.Classifier):
            raise ParameterError(
                type(self).__name__, "classifier", f"expected a classifier, got {classifier!r}"
            )
        self.classifier = classifier
        self._accepted = {method: accepted(classifier, method) for method in METHODS}
        self._takes_all = all(names is None for names in self._accepted.values())

    @property
    def _wrapped_model(self) -> base.Classifier:
        return self.classifier

    def clone(
        self, new_params: dict[str, Any] | None = None, include_attributes: bool = False
    ) -> Self:
        """A fresh wrapper around a fresh classifier, or with its attributes a copy of both.

        River's own clone would keep the wrapper's memory but not that of the classifier, and what
        the one remembers is about the classes of the other. New parameters start afresh.
        """
        if include_attributes and not new_params:
            return copy.deepcopy(self)
        clone: Self = super().clone(new_params)
        return clone

    def _chosen(self, method: str, keywords: dict[str, Any]) -> dict[str, Any]:
        """The keywords that the classifier's method has use for."""
        return chosen(self._accepted[method], keywords) if keywords else keywords

    def _observe(self, x: Reading, keywords: dict[str, Any]) -> None:
        observe(self.classifier, x, self._chosen("observe_one", keywords))

    def explain_one(self, x: Reading) -> Explanation:
        """The explanation of the innermost model, if it is one of ours."""
        model, x = innermost(self.classifier, x)
        explanation: Explanation = model.explain_one(x)
        return explanation

    # --- state -----------------------------------------------------------------------------------

    @property
    def classes(self) -> tuple[Label, ...]:
        """The labels that the innermost model has learnt so far."""
        classes: tuple[Label, ...] = innermost_model(self.classifier).classes
        return classes

    @property
    def samples(self) -> int:
        """Labelled samples that the innermost model has learnt so far."""
        samples: int = innermost_model(self.classifier).samples
        return samples

    @abc.abstractmethod
    def memory_state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Copy what the wrapper itself remembers: arrays, and what JSON can say.

        Raises ValueError for what cannot be kept.
        """

    @abc.abstractmethod
    def restore_memory(self, arrays: dict[str, Any], extra: dict[str, Any]) -> None:
        """Take over what `memory_state` returned, around the classifier that it was about.

        Raises ValueError if it does not fit.
        """

    def _move_memory(self, new: Self) -> None:
        """Copy what this wrapper remembers into a new one around another model."""

    def state(
        self, *, readings: bool = True, limits: StateLimits = DEFAULT_LIMITS
    ) -> EstimatorState:
        """Copy everything that the wrapper and the classifier inside are and know.

        Parameters
        ----------
        readings
            Whether to include readings that are rehearsed and the windows of devices.
        limits
            What `from_state` will be given; raises `SnapshotError` for what it would refuse.

        """
        check_ours(self)
        check_ours(self.classifier)
        kind = type(self).__name__
        _check_order(type(self.classifier))
        inner = self.classifier.state(readings=readings, limits=limits)
        arrays: dict[str, Any] = {}
        memory: dict[str, Any] | None = None
        if readings or not self.keeps_readings:
            try:
                arrays, memory = self.memory_state()
            except ValueError as error:
                raise SnapshotError(f"{kind}: {error}") from error
        extra = {"memory": memory}
        return EstimatorState(kind, parameters_of(self), arrays, extra, {"classifier": inner})

    @classmethod
    def from_state(cls, state: EstimatorState, *, limits: StateLimits = DEFAULT_LIMITS) -> Self:
        """Validate a state, then rebuild the wrapper and the classifier inside bit for bit.

        Parameters
        ----------
        state
            What `state` returned; raises `SnapshotError` for what no wrapper could have returned.
        limits
            How much a model may allocate, whatever the state says.

        """
        if state.kind != cls.__name__ or state.parts.keys() != {"classifier"}:
            raise SnapshotError(f"expected the state of a {cls.__name__}, got {state.kind[:80]!r}")
        memory = state.extra.get("memory")
        if memory is None and state.arrays:
            raise SnapshotError(
                f"{state.kind}: expected no arrays of its own, got {sorted(state.arrays)[:9]}"
            )
        inner = build_estimator(state.parts["classifier"], limits=limits)
        _check_order(type(inner))
        wrapper: Self = construct(cls, state.parameters, classifier=inner)
        if memory is not None:
            wrapper._restore_checked(dict(state.arrays), memory)
        return wrapper

    def _restore_checked(self, arrays: dict[str, Any], extra: dict[str, Any]) -> None:
        """Give a new wrapper its memory back, in arrays of its own."""
        owner = type(self).__name__
        empty, _ = self.memory_state()
        expected = {name: (array.dtype, array.ndim) for name, array in empty.items()}
        found = {name: (array.dtype, array.ndim) for name, array in arrays.items()}
        if found != expected:
            raise SnapshotError(f"{owner}: expected the arrays {expected}, got {found}")
        try:
            self.restore_memory({name: array.copy() for name, array in arrays.items()}, extra)
        except INVALID_STATE_ERRORS as error:
            raise SnapshotError(f"{owner}: expected a memory, got {error!r}") from error

    def moved_to(self, model: Any) -> Self:
        """Return a copy of this wrapper, and of those inside, around another model.

        Devices keep their windows and thresholds their certainties. Columns follow their class to
        its place in the model; a class that is new there counts in windows as one that was unknown
        when their readings came, and what is about a class that the model does not know is
        dropped. Raises ValueError for a model that the wrappers cannot work with.

        Parameters
        ----------
        model
            What to put in the place of the innermost model.

        """
        inside = self.classifier.moved_to(model)
        new = type(self)(inside, **parameters_of(self))
        self._move_memory(new)
        return new


def _check_order(inner: type[Any]) -> None:
    """Refuse a wrapper around one that must be the outermost."""
    if getattr(inner, "goes_outermost", False):
        raise SnapshotError(
            f"expected {inner.__name__} as the outermost wrapper, got another around it"
        )
