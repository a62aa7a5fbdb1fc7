"""`ClassifierWrapper`, the base of all wrappers, and how to reach the model inside them."""

from __future__ import annotations

import abc
import copy
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Self, TypeVar, cast

import numpy as np
from river import base

from streamlvq.arrays import Floats, Label, Reading
from streamlvq.errors import ParameterError, SnapshotError
from streamlvq.estimator import (
    DEFAULT_LIMITS,
    INVALID_STATE_ERRORS,
    EstimatorState,
    ModelLock,
    StateLimits,
    build_estimator,
    check_ours,
    construct,
    parameters_of,
)
from streamlvq.models.base import CompiledClassifier
from streamlvq.records import Explanation

# --- unwrapping ----------------------------------------------------------------------------------

# River wrappers that train copies of the given model, which itself never learns.
_COPYING = frozenset({"OneVsOneClassifier", "OneVsRestClassifier", "OutputCodeClassifier"})


def is_pipeline(estimator: Any) -> bool:
    """Return True for a River pipeline; `isinstance` would look through it to its last step."""
    return hasattr(estimator, "_last_step")


def inside(estimator: Any) -> Any:
    """Return the last step of a pipeline or the wrapped classifier; None for a model."""
    if is_pipeline(estimator):
        return estimator._last_step
    if not isinstance(estimator, base.Wrapper) or isinstance(estimator, base.Ensemble):
        return None
    return None if type(estimator).__name__ in _COPYING else estimator._wrapped_model


def unwrap(estimator: Any) -> Iterator[Any]:
    """Yield the estimator, then what it wraps, down to the model."""
    while estimator is not None:
        yield estimator
        estimator = inside(estimator)


def innermost_model(estimator: Any) -> Any:
    """Return the model inside all pipelines and wrappers."""
    *_, model = unwrap(estimator)
    return model


def innermost(estimator: Any, x: Reading) -> tuple[Any, Reading]:
    """Return the innermost model, and the reading as transformed on the way there."""
    model = estimator
    for model in unwrap(estimator):
        if is_pipeline(model):
            x = model.transform_one(x)
    return model, x


def observe(estimator: Any, x: Reading, keywords: dict[str, Any]) -> None:
    """Pass an unlabelled reading to the outermost estimator that has `observe_one`."""
    while estimator is not None and not hasattr(estimator, "observe_one"):
        if is_pipeline(estimator):
            x = estimator.transform_one(x)
        estimator = inside(estimator)
    if estimator is not None:
        estimator.observe_one(x, **keywords)


# --- keywords that a method accepts --------------------------------------------------------------
#
# Streams may carry more than features and a label: a device, a time, a weight. River's pipelines
# pass such a keyword to the steps whose methods name it, and wrappers do the same.

Names = frozenset[str] | None  # None: any


def accepted(estimator: Any, method: str) -> Names:
    """Return the keywords that a method accepts, including those of inner estimators.

    Our own wrappers select keywords themselves, so they accept all.
    """
    if getattr(estimator, "chooses_keywords", False):
        return None
    names, any_name = _named(estimator, method)
    parts = _parts(estimator, method)
    if any_name and not parts:
        return None
    for part in parts:
        inner = accepted(part, method)
        if inner is None:
            return None
        names |= inner
    return names


def chosen(names: Names, keywords: dict[str, Any]) -> dict[str, Any]:
    """Return the keywords whose names are accepted."""
    if names is None or keywords.keys() <= names:
        return keywords
    return {name: value for name, value in keywords.items() if name in names}


def _named(estimator: Any, method: str) -> tuple[frozenset[str], bool]:
    """Return the keywords in a method's signature, and whether it accepts any others."""
    function: Any = getattr(type(estimator), method, None)
    if function is base.Classifier.predict_one:  # River's default forwards all keywords
        function = type(estimator).predict_proba_one
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # no such method, or no signature
        return frozenset(), False
    any_name = any(p.kind is p.VAR_KEYWORD for p in parameters)
    names = frozenset(p.name for p in parameters if p.kind is not p.VAR_KEYWORD)
    return names - {"self", "x", "y"}, any_name


def _parts(estimator: Any, method: str) -> list[Any]:
    """Return the estimators to which an estimator forwards its keywords."""
    if is_pipeline(estimator):
        steps = list(estimator.steps.values())
        return steps if method == "learn_one" else steps[-1:]
    if hasattr(estimator, "transformers"):
        return list(estimator.transformers.values())
    if isinstance(estimator, base.Wrapper):
        return [estimator._wrapped_model]
    return []


# --- probabilities of the wrapped classifier -----------------------------------------------------

LabelProbabilities = tuple[Sequence[Any], Floats]  # labels and their probabilities
ProbabilityGetter = Callable[
    [Any, Sequence[Any], Reading, dict[str, Any]], LabelProbabilities | None
]


def probability_getter(classifier: Any) -> ProbabilityGetter:
    """Return the fastest way to get probabilities: arrays of our models, else dictionaries."""
    ours = issubclass(type(classifier), CompiledClassifier)  # `isinstance` looks through pipelines
    if ours and type(classifier).predict_proba_one is CompiledClassifier.predict_proba_one:
        return engine_probabilities
    return dictionary_probabilities


def engine_probabilities(
    classifier: Any, known: Sequence[Any], x: Reading, keywords: dict[str, Any]
) -> LabelProbabilities | None:
    """Return labels and the engine's own array, valid until the next call of the classifier."""
    answer: LabelProbabilities | None = classifier.predict_labels_one(x)
    return answer


def dictionary_probabilities(
    classifier: Any, known: Sequence[Any], x: Reading, keywords: dict[str, Any]
) -> LabelProbabilities | None:
    """Return labels, `known` ones first, and probabilities; 0 for those not mentioned."""
    probabilities = classifier.predict_proba_one(x, **keywords)
    if not probabilities:
        return None
    labels: Sequence[Any] = list(dict.fromkeys((*known, *probabilities)))
    if len(labels) == len(known):
        labels = known
    return labels, np.array([probabilities.get(label, 0.0) for label in labels], np.float64)


# --- methods that depend on the wrapped classifier -----------------------------------------------

F = TypeVar("F", bound=Callable[..., Any])
Candidates = Callable[[Any], Iterator[Any]]


class _ConditionalMethod:
    """Descriptor of a method that exists only if a wrapped estimator has one of that name."""

    def __init__(self, method: Callable[..., Any], candidates: Candidates) -> None:
        self._method = method
        self._candidates = candidates

    def __get__(self, wrapper: Any, owner: type[Any]) -> Any:
        if wrapper is None:
            return self._method
        name = self._method.__name__
        if not any(hasattr(link, name) for link in self._candidates(wrapper.classifier)):
            raise AttributeError(
                f"{owner.__name__}.{name}: expected a wrapped classifier with {name}, got "
                f"{type(wrapper.classifier).__name__}"
            )
        return self._method.__get__(wrapper, owner)


def available_if(method: F) -> F:
    """Provide a method only if some estimator inside has it, so that `hasattr` is correct."""
    return cast(F, _ConditionalMethod(method, unwrap))


def if_wrapped(method: F) -> F:
    """Provide a method only if the wrapped classifier itself has it."""
    return cast(F, _ConditionalMethod(method, lambda classifier: iter((classifier,))))


# --- the base of all wrappers --------------------------------------------------------------------

METHODS = ("learn_one", "observe_one", "predict_one", "predict_proba_one")


class ClassifierWrapper(base.Wrapper, base.Classifier, abc.ABC):  # type: ignore[misc]
    """Base class of the wrappers: forwards calls with the keywords that the classifier accepts."""

    chooses_keywords: ClassVar[bool] = True  # selects keywords itself, so callers may pass all
    keeps_readings: ClassVar[bool] = False  # its memory holds data of single readings
    goes_outermost: ClassVar[bool] = False  # classifiers inside get transformed readings

    def __init__(self, classifier: base.Classifier) -> None:
        if not isinstance(classifier, base.Classifier):
            raise ParameterError(
                type(self).__name__, "classifier", f"expected a classifier, got {classifier!r}"
            )
        self.classifier = classifier
        self._lock = ModelLock()
        self._accepted = {method: accepted(classifier, method) for method in METHODS}
        self._takes_all = all(names is None for names in self._accepted.values())

    @property
    def _wrapped_model(self) -> base.Classifier:
        return self.classifier

    def clone(
        self, new_params: dict[str, Any] | None = None, include_attributes: bool = False
    ) -> Self:
        """Return an untrained copy, or with `include_attributes` a trained one.

        River's own clone would keep the wrapper's memory but not the classifier's, although they
        belong together. With new parameters the copy is untrained.
        """
        if include_attributes and not new_params:
            return copy.deepcopy(self)
        clone: Self = super().clone(new_params)
        return clone

    def _chosen(self, method: str, keywords: dict[str, Any]) -> dict[str, Any]:
        """Return the keywords that the classifier's method accepts."""
        return chosen(self._accepted[method], keywords) if keywords else keywords

    def _observe(self, x: Reading, keywords: dict[str, Any]) -> None:
        observe(self.classifier, x, self._chosen("observe_one", keywords))

    def explain_one(self, x: Reading) -> Explanation:
        """Return the explanation of the innermost model, which must be one of streamlvq."""
        model, x = innermost(self.classifier, x)
        explanation: Explanation = model.explain_one(x)
        return explanation

    # --- state -----------------------------------------------------------------------------------

    @property
    def classes(self) -> tuple[Label, ...]:
        """Labels that the innermost model has learnt so far."""
        classes: tuple[Label, ...] = innermost_model(self.classifier).classes
        return classes

    @property
    def samples(self) -> int:
        """Number of labelled samples that the innermost model has learnt so far."""
        samples: int = innermost_model(self.classifier).samples
        return samples

    @abc.abstractmethod
    def memory_state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return a copy of the wrapper's own memory: arrays, and values for JSON.

        Raises ValueError for values that cannot be saved.
        """

    @abc.abstractmethod
    def restore_memory(self, arrays: dict[str, Any], extra: dict[str, Any]) -> None:
        """Restore what `memory_state` returned; the classifier must be restored already.

        Raises ValueError if it does not fit.
        """

    def _move_memory(self, new: Self) -> None:
        """Copy the memory of this wrapper to a new one around another model."""

    def adopt(self, before: Self) -> None:
        """Take over what another wrapper has learnt around the same model, but no window.

        Parameters
        ----------
        before
            Wrapper with the same parameters.

        """

    def state(
        self, *, readings: bool = True, limits: StateLimits = DEFAULT_LIMITS
    ) -> EstimatorState:
        """Return a copy of the wrapper and the classifier inside.

        Parameters
        ----------
        readings
            Include readings kept for rehearsal, and memories of single readings: windows of
            devices, certainties of adaptive thresholds, scores of novelty.
        limits
            Limits that `from_state` will use; raises `SnapshotError` if the state exceeds them.

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
            A state returned by `state`; raises `SnapshotError` if no wrapper could have it.
        limits
            Upper bound on what the model may allocate.

        """
        if state.kind != cls.__name__ or state.parts.keys() != {"classifier"}:
            raise SnapshotError(f"expected the state of a {cls.__name__}, got {state.kind[:80]!r}")
        return cls.from_state_around(
            state, build_estimator(state.parts["classifier"], limits=limits)
        )

    @classmethod
    def from_state_around(cls, state: EstimatorState, inner: Any) -> Self:
        """Validate a state, then rebuild the wrapper around what it wrapped, which is at hand.

        Parameters
        ----------
        state
            A state returned by `state`; that of the classifier inside is not used.
        inner
            The classifier inside, as it was when the state was taken.

        """
        memory = state.extra.get("memory")
        if memory is None and state.arrays:
            raise SnapshotError(
                f"{state.kind}: expected no arrays of its own, got {sorted(state.arrays)[:9]}"
            )
        _check_order(type(inner))
        wrapper: Self = construct(cls, state.parameters, classifier=inner)
        if memory is not None:
            wrapper._restore_checked(dict(state.arrays), memory)
        return wrapper

    def _restore_checked(self, arrays: dict[str, Any], extra: dict[str, Any]) -> None:
        """Restore the memory of a new wrapper, in its own arrays."""
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

        Devices keep their windows and thresholds their certainties. Columns are reordered to the
        classes of the model: classes new to the windows count as unknown to their readings, and
        classes unknown to the model are dropped. Raises ValueError for a model that does not suit
        the wrappers.

        Parameters
        ----------
        model
            Model that replaces the innermost one.

        """
        inside = self.classifier.moved_to(model)
        new = type(self)(inside, **parameters_of(self))
        self._move_memory(new)
        return new


def _check_order(inner: type[Any]) -> None:
    """Raise if a wrapper that must be outermost is inside another."""
    if getattr(inner, "goes_outermost", False):
        raise SnapshotError(
            f"expected {inner.__name__} as the outermost wrapper, got another around it"
        )
