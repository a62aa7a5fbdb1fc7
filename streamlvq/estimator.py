"""States of models and wrappers as data, and the interface to models and wrappers.

A model or wrapper gives its whole state as an `EstimatorState` and is rebuilt from one, bit for
bit. `streamlvq.snapshot` turns states into bytes, `streamlvq.fusion` reads and writes them; neither
looks inside a model.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol, Self, TypeVar, cast

import numpy as np

from streamlvq.arrays import Array
from streamlvq.errors import SnapshotError
from streamlvq.registry import MODELS

# --- one thread at a time ------------------------------------------------------------------------


class ModelLock:
    """Lock of a model or wrapper; copies and unpickled ones are new and free.

    Kernels work on arrays that belong to the model, so calls from several threads must take turns.
    """

    __slots__ = ("acquire", "release")

    def __init__(self) -> None:
        lock = threading.RLock()  # methods call each other
        self.acquire: Callable[[], object] = lock.acquire
        self.release: Callable[[], object] = lock.release

    def __reduce__(self) -> tuple[type[ModelLock], tuple[()]]:
        return ModelLock, ()


Method = TypeVar("Method", bound=Callable[..., Any])


def exclusive(method: Method) -> Method:
    """Decorate a method that must not run in two threads at once; its object has a `_lock`."""

    @functools.wraps(method)
    def locked(self: Any, *args: Any, **kwargs: Any) -> Any:
        lock = self._lock
        lock.acquire()
        try:
            return method(self, *args, **kwargs)
        finally:
            lock.release()

    return cast(Method, locked)


# --- states --------------------------------------------------------------------------------------

MAX_NUMBERS = 2**28  # in one untrusted model, unless the caller allows more: 2 GiB
TRUSTED_MAX_NUMBERS = 2**33  # in a model that this program saved for itself
# Raised by constructors and wrappers that are given an invalid state.
INVALID_STATE_ERRORS = (ValueError, TypeError, OverflowError, KeyError, IndexError, AttributeError)


@dataclass(frozen=True)
class StateLimits:
    """Limits on what a state may make its reader allocate."""

    max_numbers: int = MAX_NUMBERS  # that a model allocates

    def shared(self, models: int) -> StateLimits:
        """Return the limits of each of several models that have these limits together."""
        return StateLimits(self.max_numbers // max(1, models))


DEFAULT_LIMITS = StateLimits()
TRUSTED_LIMITS = StateLimits(TRUSTED_MAX_NUMBERS)


@dataclass(frozen=True)
class EstimatorState:
    """Complete state of a model or wrapper.

    Parameters
    ----------
    kind
        Name of the class, such as `"LGMLVQ"`.
    parameters
        Constructor arguments by name, without the wrapped classifier. Those of a committee are the
        states of blank models, or None.
    arrays
        What was learnt, by name.
    extra
        JSON-compatible values beside the arrays: `features`, `classes`, `columns` and `sizes` of a
        model, `memory` of a wrapper (None if it was left out).
    parts
        `"classifier"` inside a wrapper, or the named members of a committee.

    """

    kind: str
    parameters: Mapping[str, Any]
    arrays: Mapping[str, Array] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)
    parts: Mapping[str, EstimatorState] = field(default_factory=dict)

    @property
    def innermost(self) -> EstimatorState:
        """State of the model or committee inside all wrappers."""
        state = self
        while "classifier" in state.parts:
            state = state.parts["classifier"]
        return state

    def same_as(self, other: EstimatorState) -> bool:
        """Return True if both are equal to the last bit."""
        return (
            (self.kind, self.parts.keys()) == (other.kind, other.parts.keys())
            and _same_value(self.parameters, other.parameters)
            and _same_value(self.extra, other.extra)
            and self.arrays.keys() == other.arrays.keys()
            and all(_same_bits(each, other.arrays[name]) for name, each in self.arrays.items())
            and all(each.same_as(other.parts[name]) for name, each in self.parts.items())
        )


def _same_value(one: Any, other: Any) -> bool:
    """Compare values and their types: 1, 1.0 and True are different labels in a file."""
    if isinstance(one, EstimatorState) and isinstance(other, EstimatorState):
        return one.same_as(other)
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_same_value(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(_same_value, one, other))
    return type(one) is type(other) and (one == other or (one != one and other != other))


def _same_bits(one: Array, other: Array) -> bool:
    alike = one.shape == other.shape and one.dtype == other.dtype
    return alike and one.tobytes() == other.tobytes()


class Estimator(Protocol):
    """A model or wrapper of streamlvq as other packages see it.

    Models also have `features`; a `FeatureTransform` has a parameter of that name, so wrappers do
    not: ask the innermost model.
    """

    @property
    def classes(self) -> tuple[Any, ...]:
        """Labels learnt so far, in the order of their appearance."""

    @property
    def samples(self) -> int:
        """Number of labelled samples learnt so far."""

    def state(
        self, *, readings: bool = True, limits: StateLimits = DEFAULT_LIMITS
    ) -> EstimatorState:
        """Copy the whole state; without `readings` leave out single readings.

        Raises `SnapshotError` for what `from_state` with the same limits would refuse.
        """

    @classmethod
    def from_state(cls, state: EstimatorState, *, limits: StateLimits = DEFAULT_LIMITS) -> Self:
        """Validate, then rebuild bit for bit; raises `SnapshotError` for an impossible state."""

    def moved_to(self, model: Any) -> Any:
        """Return a copy around another model; windows and thresholds follow their classes."""


# --- classes by name ------------------------------------------------------------------------------


@functools.cache
def wrapper_classes() -> Mapping[str, type[Any]]:
    """Return the wrappers of streamlvq, by name."""
    module = importlib.import_module("streamlvq.wrappers")
    return MappingProxyType({name: getattr(module, name) for name in module.__all__})


@functools.cache
def served_classes() -> Mapping[str, type[Any]]:
    """Return the classifiers that fusion makes of several models, by name."""
    names = {"PoolClassifier": "pool", "NodeEnsemble": "ensemble"}
    found = {
        name: getattr(importlib.import_module(f"streamlvq.models.{module}"), name)
        for name, module in names.items()
    }
    return MappingProxyType(found)


@functools.cache
def private_classes() -> Mapping[str, type[Any]]:
    """Return the classifiers that need a `Privacy`, by name; their states are secret."""
    module = importlib.import_module("streamlvq.privacy.private_lvq")
    return MappingProxyType({"PrivateLVQ": module.PrivateLVQ})


def estimator_class(kind: str) -> type[Any]:
    """Return the model or wrapper of this name; raises `SnapshotError` if there is none."""
    if kind in MODELS:
        model: type[Any] = MODELS[kind]
        return model
    if kind in wrapper_classes():
        return wrapper_classes()[kind]
    if kind in served_classes():
        return served_classes()[kind]
    if kind in private_classes():
        return private_classes()[kind]
    known = ", ".join([*MODELS, *wrapper_classes(), *served_classes(), *private_classes()])
    raise SnapshotError(f"expected one of {known}, got {kind[:80]!r}")


def is_ours(estimator: Any) -> bool:
    """Return True for a registered model or a wrapper of streamlvq, not for a subclass of one."""
    # `type`, because `isinstance` sees through pipelines
    name = type(estimator).__name__
    known = name in MODELS or name in wrapper_classes() or name in served_classes()
    known = known or name in private_classes()
    return known and type(estimator) is estimator_class(name)


def check_ours(estimator: Any) -> None:
    """Raise `SnapshotError` unless the estimator is a model or wrapper of streamlvq."""
    if not is_ours(estimator):
        raise SnapshotError(
            f"expected a model of streamlvq, or one in wrappers of streamlvq, got {estimator!r}"
        )


def build_estimator(state: EstimatorState, *, limits: StateLimits = DEFAULT_LIMITS) -> Any:
    """Rebuild the model or wrapper of a state; raises `SnapshotError` if it cannot be.

    Examples
    --------

    >>> from river import datasets
    >>> import streamlvq
    >>> from streamlvq.estimator import build_estimator

    >>> model = streamlvq.GLVQ()
    >>> for x, y in datasets.ImageSegments().take(100):
    ...     model.learn_one(x, y)
    >>> twin = build_estimator(model.state())
    >>> twin.predict_proba_one(x) == model.predict_proba_one(x)
    True

    """
    return estimator_class(state.kind).from_state(state, limits=limits)


def build_around(state: EstimatorState, model: Any) -> Any:
    """Rebuild the wrappers of a state around its model, which is at hand.

    Raises `SnapshotError` for wrappers that cannot be there.
    """
    if "classifier" not in state.parts:
        return model
    inner = build_around(state.parts["classifier"], model)
    wrapper = wrapper_classes().get(state.kind)
    if wrapper is None:
        raise SnapshotError(f"expected a wrapper of streamlvq, got {state.kind[:80]!r}")
    return wrapper.from_state_around(state, inner)


# --- parameters -----------------------------------------------------------------------------------


_PARAMETER_NAMES: dict[type[Any], tuple[str, ...]] = {}  # a cache: inspecting signatures is slow


def parameter_names(cls: type[Any]) -> tuple[str, ...]:
    """Return the constructor arguments of a model or wrapper, without the wrapped classifier."""
    if cls not in _PARAMETER_NAMES:
        names = inspect.signature(cls).parameters
        _PARAMETER_NAMES[cls] = tuple(name for name in names if name != "classifier")
    return _PARAMETER_NAMES[cls]


def parameters_of(estimator: Any) -> dict[str, Any]:
    """Copy the constructor arguments of a model or wrapper, without the wrapped classifier."""
    values = {name: getattr(estimator, name) for name in parameter_names(type(estimator))}
    return {name: _copied(value) for name, value in values.items()}


def unknown_first(changes: Mapping[str, Any], mutable: Collection[str]) -> dict[str, Any]:
    """Return changes of parameters with those that River refuses first, before others are made."""
    return dict(sorted(changes.items(), key=lambda item: item[0] in mutable))


def _copied(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {without_numpy(key): without_numpy(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_numpy(each) for each in value]
    return without_numpy(value)


def construct(cls: type[Any], parameters: Mapping[str, Any], **more: Any) -> Any:
    """Call a constructor with the parameters of a state; raises `SnapshotError` if it refuses."""
    names = parameter_names(cls)
    if parameters.keys() != set(names):
        wrong = sorted(parameters.keys() ^ set(names))
        raise SnapshotError(
            f"{cls.__name__}: expected parameters {list(names)}, differs in {wrong[:9]}"
        )
    try:
        return cls(**more, **parameters)
    except INVALID_STATE_ERRORS as error:
        raise SnapshotError(f"{cls.__name__}: expected other parameters: {error}") from error


# --- checks that models and snapshots share -------------------------------------------------------


def check_between(what: str, value: int, low: int, high: int) -> None:
    """Raise `SnapshotError` unless low <= value <= high."""
    if not low <= value <= high:
        raise SnapshotError(f"{what}: expected {low} to {high}, got {value}")


def check_distinct(names: list[Any], what: str) -> None:
    """Raise `SnapshotError` if a name occurs twice."""
    try:
        distinct = len(set(names)) == len(names)
    except TypeError as error:
        raise SnapshotError(f"{what}s: expected names, got {str(names)[:80]}") from error
    if not distinct:
        raise SnapshotError(f"{what}s: expected names that differ, got {str(names)[:80]}")


def without_numpy(value: Any) -> Any:
    """Convert a numpy scalar to a Python number; return anything else as it is."""
    return value.item() if isinstance(value, np.generic) else value
