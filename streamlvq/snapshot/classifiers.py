"""Classifiers as arrays and JSON, and back: our models, and our wrappers around them.

What is rebuilt behaves as the original, bit by bit, whatever it learns afterwards.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import msgspec
import numpy as np

from streamlvq import models, wrappers
from streamlvq.models import LVQCommittee
from streamlvq.models.base import LVQClassifier
from streamlvq.snapshot.errors import SnapshotError
from streamlvq.snapshot.memory import check_memory, describe_memory, rebuild_memory
from streamlvq.snapshot.parameters import COMPLAINTS, construct, pack_parameters
from streamlvq.snapshot.tags import tag, untag_all
from streamlvq.snapshot.verify import MOST_ROOM, Array, Numbers
from streamlvq.vectorize import Vectorizer
from streamlvq.wrappers import FeatureTransform, TimeIntegrator
from streamlvq.wrappers.wrapper import ClassifierWrapper

Arrays = dict[str, Array]
Meta = dict[str, Any]
S = TypeVar("S", bound=msgspec.Struct)

MODELS: dict[str, type[Any]] = {
    name: getattr(models, name) for name in models.__all__ if name != "LVQCommittee"
}
WRAPPERS: dict[str, type[Any]] = {name: getattr(wrappers, name) for name in wrappers.__all__}
MEMBERS = ("learner", "follower")
DEEPEST = 4  # transform, rejector, integrator, model


class BlankMeta(msgspec.Struct, forbid_unknown_fields=True):
    """A model without what it learnt."""

    type: str
    parameters: Meta


class ModelMeta(msgspec.Struct, forbid_unknown_fields=True):
    """A model; `memory` is None before its first reading."""

    type: str
    parameters: Meta
    features: list[Any]
    labels: list[Any]
    columns: list[Any] | None
    memory: Numbers | None


class CommitteeMeta(msgspec.Struct, forbid_unknown_fields=True):
    """A committee; its parameters are models that learn nothing."""

    type: str
    parameters: dict[str, BlankMeta | None]
    members: dict[str, ModelMeta]


class WrapperMeta(msgspec.Struct, forbid_unknown_fields=True):
    """A wrapper; `memory` is None where it was left out."""

    type: str
    parameters: Meta
    classifier: Meta
    memory: Meta | None


def describe(
    classifier: Any, *, readings: bool = True, room: int = MOST_ROOM
) -> tuple[Arrays, Meta]:
    """All that a classifier is and knows; the arrays are copies.

    Parameters
    ----------
    classifier
        A model of streamlvq, or a wrapper of streamlvq around one.
    readings
        Whether to include what is about single readings: those that are rehearsed, and the windows
        of devices. Without them unused room is left out as well.
    room
        The most numbers that a model may hold; `rebuild` must be given no less.

    """
    # `type`, because `isinstance` sees through pipelines
    if type(classifier) in WRAPPERS.values():
        return _describe_wrapper(classifier, readings, room)
    if type(classifier) is LVQCommittee:
        return _describe_committee(classifier, readings, room)
    if type(classifier) in MODELS.values():
        return _describe_model(classifier, readings, room)
    raise SnapshotError(
        f"expected a model of streamlvq, or one in wrappers of streamlvq, got {classifier!r}"
    )


def rebuild(arrays: Arrays, meta: Meta, *, room: int = MOST_ROOM) -> Any:
    """The opposite of `describe`; raises `SnapshotError` for what cannot be.

    Parameters
    ----------
    arrays, meta
        What `describe` returned.
    room
        The most numbers that a model may ask memory for, whatever is said about it.

    Examples
    --------

    >>> from river import datasets
    >>> import streamlvq
    >>> from streamlvq.snapshot import describe, rebuild

    >>> model = streamlvq.GLVQ()
    >>> for x, y in datasets.ImageSegments().take(100):
    ...     model.learn_one(x, y)
    >>> twin = rebuild(*describe(model))
    >>> twin.predict_proba_one(x) == model.predict_proba_one(x)
    True

    """
    return _rebuild(arrays, meta, DEEPEST, room)


def check(arrays: Arrays, meta: Meta, *, room: int = MOST_ROOM) -> Any:
    """Raise `SnapshotError` unless `rebuild` would succeed.

    Gives the classifier if it had to be rebuilt to know that. A model without wrappers has not:
    this takes half the time, and no memory for what it has room for.

    Parameters
    ----------
    arrays, meta, room
        As for `rebuild`.

    """
    kind = meta.get("type")
    if not isinstance(kind, str) or kind not in MODELS:
        return rebuild(arrays, meta, room=room)
    _check_model(arrays, _convert(meta, ModelMeta), room)
    return None


def _rebuild(arrays: Arrays, meta: Meta, depth: int, room: int) -> Any:
    kind = meta.get("type") if isinstance(meta, dict) else None
    if not isinstance(kind, str):
        raise SnapshotError(f"expected the type of a classifier, got {str(kind)[:80]!r}")
    if depth == 0:
        raise SnapshotError(f"expected at most {DEEPEST - 1} wrappers around a model, got more")
    if kind in WRAPPERS:
        return _rebuild_wrapper(arrays, _convert(meta, WrapperMeta), depth, room)
    if kind == LVQCommittee.__name__:
        return _rebuild_committee(arrays, _convert(meta, CommitteeMeta), room)
    return _rebuild_model(arrays, _convert(meta, ModelMeta), room)


# --- models ---------------------------------------------------------------------------------------


def _describe_model(model: LVQClassifier, readings: bool, room: int) -> tuple[Arrays, Meta]:
    columns = model._column_names
    meta: Meta = {
        **_describe_blank(model),
        "features": [tag(name, "feature") for name in model.features],
        "labels": [tag(label, "label") for label in model.classes],
        "columns": None if columns is None else [tag(name, "feature") for name in columns],
        "memory": None,
    }
    if model._engine is None:
        return {}, meta
    arrays, numbers = describe_memory(model, model._engine, readings, room)
    meta["memory"] = msgspec.structs.asdict(numbers)
    return arrays, meta


def _rebuild_model(arrays: Arrays, meta: ModelMeta, room: int) -> LVQClassifier:
    model = _named_model(arrays, meta)
    if meta.memory is not None:
        with _ordinary_size():
            model._engine = rebuild_memory(model, meta.memory, arrays, room)
    return model


def _check_model(arrays: Arrays, meta: ModelMeta, room: int) -> None:
    model = _named_model(arrays, meta)
    if meta.memory is not None:
        with _ordinary_size():
            check_memory(model, meta.memory, arrays, room)


@contextlib.contextmanager
def _ordinary_size() -> Iterator[None]:
    try:
        yield
    except OverflowError as error:
        raise SnapshotError(f"expected parameters of ordinary size, got {error}") from error


def _named_model(arrays: Arrays, meta: ModelMeta) -> LVQClassifier:
    """A model that knows its features and classes, but has no memory yet."""
    model = _rebuild_blank(meta)
    if meta.memory is None:
        if meta.features or meta.labels or meta.columns or arrays:
            raise SnapshotError("expected a memory with features and labels, got none")
        return model
    model._vectorizer = Vectorizer(untag_all(meta.features, "feature"))
    model._labels = untag_all(meta.labels, "label")
    if None in model._labels:
        raise SnapshotError("label: expected one that is not None, which means unknown")
    model._codes = {label: code for code, label in enumerate(model._labels)}
    model._column_names = _columns(model, meta.columns)
    return model


def _columns(model: LVQClassifier, columns: list[Any] | None) -> list[Any] | None:
    if columns is None:
        return None
    names = untag_all(columns, "column")
    if not set(names) <= set(model.features):
        raise SnapshotError(f"columns: expected known features, got {str(names)[:80]}")
    return names


def _describe_blank(model: LVQClassifier) -> Meta:
    """A model without what it learnt."""
    if type(model) not in MODELS.values():
        raise SnapshotError(f"expected a model of streamlvq, got {model!r}")
    return {"type": type(model).__name__, "parameters": pack_parameters(model)}


def _rebuild_blank(meta: BlankMeta | ModelMeta) -> LVQClassifier:
    cls = MODELS.get(meta.type)
    if cls is None:
        raise SnapshotError(f"expected one of {', '.join(MODELS)}, got {meta.type[:80]!r}")
    model: LVQClassifier = construct(cls, meta.parameters)
    return model


# --- committees -----------------------------------------------------------------------------------


def _describe_committee(committee: LVQCommittee, readings: bool, room: int) -> tuple[Arrays, Meta]:
    arrays: Arrays = {"fitted": committee._fitted.copy()}
    given = {name: getattr(committee, name) for name in MEMBERS}
    meta: Meta = {
        "type": LVQCommittee.__name__,
        "parameters": {
            name: None if model is None else _describe_blank(model) for name, model in given.items()
        },
        "members": {},
    }
    for name, member in zip(MEMBERS, committee.members, strict=True):
        inner, meta["members"][name] = _describe_model(member, readings, room)
        arrays |= prefixed(name, inner)
    _check_fitted(arrays["fitted"])
    return arrays, meta


def _rebuild_committee(arrays: Arrays, meta: CommitteeMeta, room: int) -> LVQCommittee:
    given = {name: meta.parameters.get(name) for name in MEMBERS}
    if meta.parameters.keys() != given.keys() or meta.members.keys() != given.keys():
        raise SnapshotError(f"committee: expected {MEMBERS}, got {sorted(meta.members)}")
    committee = LVQCommittee(
        **{name: None if each is None else _rebuild_blank(each) for name, each in given.items()}
    )
    own, parts = split(arrays, MEMBERS)
    learner, follower = (_rebuild_model(parts[name], meta.members[name], room) for name in MEMBERS)
    if learner.classes != follower.classes:
        raise SnapshotError("committee: expected members that know the same classes, got others")
    if own.keys() != {"fitted"}:
        raise SnapshotError(f"committee: expected an array 'fitted', got {sorted(own)[:9]}")
    _check_fitted(own["fitted"])
    committee._members = learner, follower
    committee._fitted = own["fitted"].copy()
    return committee


def _check_fitted(fitted: Array) -> None:
    good = fitted.shape == (4,) and fitted.dtype == np.float64
    # Curvatures are differences and may miss zero by their rounding.
    if not good or not np.all((fitted >= [0, 0, -0.01, -0.01]) & (fitted <= [10, 10, 1e9, 1e9])):
        raise SnapshotError(f"fitted: expected two weights up to 10, got {fitted.tolist()}")


# --- wrappers -------------------------------------------------------------------------------------


def _describe_wrapper(wrapper: ClassifierWrapper, readings: bool, room: int) -> tuple[Arrays, Meta]:
    _refuse_transform(type(wrapper.classifier).__name__)
    arrays, inner = describe(wrapper.classifier, readings=readings, room=room)
    meta: Meta = {
        "type": type(wrapper).__name__,
        "parameters": pack_parameters(wrapper),
        "classifier": inner,
        "memory": None,
    }
    if not readings and isinstance(wrapper, TimeIntegrator):
        return prefixed("classifier", arrays), meta
    try:
        memory, meta["memory"] = wrapper._memory()
    except ValueError as error:
        raise SnapshotError(f"{type(wrapper).__name__}: {error}") from error
    return prefixed("classifier", arrays) | prefixed("memory", memory), meta


def _rebuild_wrapper(arrays: Arrays, meta: WrapperMeta, depth: int, room: int) -> ClassifierWrapper:
    own, parts = split(arrays, ("classifier", "memory"))
    if own or (parts["memory"] and meta.memory is None):
        raise SnapshotError(f"{meta.type}: expected no arrays of its own, got {sorted(own)[:9]}")
    _refuse_transform(meta.classifier.get("type"))
    inner = _rebuild(parts["classifier"], meta.classifier, depth - 1, room)
    cls = WRAPPERS[meta.type]
    wrapper: ClassifierWrapper = construct(cls, meta.parameters, classifier=inner)
    if meta.memory is not None:
        _restore(wrapper, parts["memory"], meta.memory)
    return wrapper


def _refuse_transform(inner: Any) -> None:
    """What is inside a wrapper sees readings as the transform makes them, so that comes first."""
    if inner == FeatureTransform.__name__:
        raise SnapshotError(f"expected {inner} as the outermost wrapper, got another around it")


def _restore(wrapper: Any, arrays: Arrays, extra: Meta) -> None:
    """Give a new wrapper its memory back, in arrays of its own."""
    owner = type(wrapper).__name__
    empty, _ = wrapper._memory()
    expected = {name: (array.dtype, array.ndim) for name, array in empty.items()}
    found = {name: (array.dtype, array.ndim) for name, array in arrays.items()}
    if found != expected:
        raise SnapshotError(f"{owner}: expected the arrays {expected}, got {found}")
    try:
        wrapper._restore_memory({name: array.copy() for name, array in arrays.items()}, extra)
    except COMPLAINTS as error:
        raise SnapshotError(f"{owner}: expected a memory, got {error!r}") from error


# --- helpers --------------------------------------------------------------------------------------


def _convert(meta: Meta, shape: type[S]) -> S:
    try:
        return msgspec.convert(meta, shape)
    except (msgspec.ValidationError, OverflowError, RecursionError) as error:
        raise SnapshotError(f"metadata: {error}") from error


def prefixed(prefix: str, arrays: Arrays) -> Arrays:
    """The same arrays in a folder, so to say."""
    return {f"{prefix}/{name}": array for name, array in arrays.items()}


def split(arrays: Arrays, prefixes: Iterable[str]) -> tuple[Arrays, dict[str, Arrays]]:
    """The opposite of `prefixed`: those in no folder, and those in each of the folders."""
    parts: dict[str, Arrays] = {prefix: {} for prefix in prefixes}
    own: Arrays = {}
    for name, array in arrays.items():
        prefix, _, rest = name.partition("/")
        if rest and prefix in parts:
            parts[prefix][rest] = array
        else:
            own[name] = array
    return own, parts
