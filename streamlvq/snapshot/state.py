"""Conversion of estimator states to arrays and JSON, and back.

Names and labels are stored with their type, so that 1, 1.0, True and "1" stay distinct. Input may
be hostile: everything is checked here or by the `from_state` of its class before kernels see it.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from datetime import timedelta
from typing import Any, TypeVar

import msgspec

from streamlvq.arrays import Array
from streamlvq.config.schema import MAX_VALUES as MAX_PARAMETERS
from streamlvq.errors import SnapshotError
from streamlvq.estimator import (
    DEFAULT_LIMITS,
    EstimatorState,
    StateLimits,
    build_estimator,
    check_between,
    check_distinct,
    check_ours,
    estimator_class,
    private_classes,
    served_classes,
    without_numpy,
    wrapper_classes,
)
from streamlvq.models import LVQCommittee
from streamlvq.registry import MODELS

Arrays = dict[str, Array]
Meta = dict[str, Any]
S = TypeVar("S", bound=msgspec.Struct)

COMMITTEE = LVQCommittee.__name__
WRAPPER_CLASSES = wrapper_classes()
MAX_NESTING = 6  # transform, rejector, integrator, pool, ensemble, model
MAX_NAME_LENGTH = 10_000
_EXPECTED_VALUE = "expected text, a whole or other number, a bool or None"


def model_names() -> list[str]:
    """Return the names of all models that are not committees."""
    return [*(name for name in MODELS if name != COMMITTEE), *private_classes()]


class BlankMeta(msgspec.Struct, forbid_unknown_fields=True):
    """Metadata of a model that has learnt nothing."""

    type: str
    parameters: Meta


class ModelMeta(msgspec.Struct, forbid_unknown_fields=True):
    """Metadata of a model; `memory` are its sizes, None before its first reading."""

    type: str
    parameters: Meta
    features: list[Any]
    labels: list[Any]
    columns: list[Any] | None
    memory: dict[str, int] | None


class CommitteeMeta(msgspec.Struct, forbid_unknown_fields=True):
    """Metadata of a committee; its parameters are blank models by name."""

    type: str
    absent: str
    parameters: dict[str, BlankMeta | None]
    members: dict[str, ModelMeta]
    order: list[str]


class WrapperMeta(msgspec.Struct, forbid_unknown_fields=True):
    """Metadata of a wrapper; `memory` is None if it was left out."""

    type: str
    parameters: Meta
    classifier: Meta
    memory: Meta | None


class ServedMeta(msgspec.Struct, forbid_unknown_fields=True):
    """Metadata of a pool or an ensemble: lists of names, and its models in order."""

    type: str
    names: dict[str, list[Any]]
    parts: dict[str, Meta]
    order: list[str]


# --- classifiers ----------------------------------------------------------------------------------


def capture(
    classifier: Any, *, readings: bool = True, limits: StateLimits = DEFAULT_LIMITS
) -> EstimatorState:
    """Copy the state of a model or wrapper of streamlvq; raises `SnapshotError` for others.

    Parameters
    ----------
    classifier
        A model of streamlvq, or a wrapper of streamlvq around one.
    readings
        Whether to include single readings: those for rehearsal, and the windows of devices. Without
        them unused capacity is left out as well.
    limits
        How much a model may allocate; rebuilding it needs the same limits.

    """
    check_ours(classifier)
    state: EstimatorState = classifier.state(readings=readings, limits=limits)
    return state


def check(state: EstimatorState, *, limits: StateLimits = DEFAULT_LIMITS) -> Any:
    """Raise `SnapshotError` unless a state can be rebuilt.

    Return the classifier if the check had to build it. A model without wrappers is checked without
    building it, which takes half the time and no memory.
    """
    if state.kind not in model_names():
        return build_estimator(state, limits=limits)
    estimator_class(state.kind).check_state(state, limits=limits)
    return None


# --- a state as arrays and JSON -------------------------------------------------------------------


def to_arrays(state: EstimatorState) -> tuple[Arrays, Meta]:
    """Flatten a state into named arrays and JSON-compatible metadata.

    Examples
    --------

    >>> import streamlvq
    >>> from streamlvq.snapshot import to_arrays

    >>> arrays, meta = to_arrays(streamlvq.TimeIntegrator(streamlvq.GLVQ(), window=3).state())
    >>> sorted(arrays), meta["classifier"]["type"]
    (['memory/counts', 'memory/logs', 'memory/times'], 'GLVQ')

    """
    if state.kind in WRAPPER_CLASSES:
        arrays, inner = to_arrays(state.parts["classifier"])
        meta = {
            "type": state.kind,
            "parameters": _encode_parameters(state),
            "classifier": inner,
            "memory": state.extra["memory"],
        }
        return prefixed("classifier", arrays) | prefixed("memory", state.arrays), meta
    if state.kind == COMMITTEE:
        return _committee_to_arrays(state)
    if state.kind in served_classes():
        return _served_to_arrays(state)
    return dict(state.arrays), _model_to_json(state)


def _model_to_json(state: EstimatorState) -> Meta:
    columns = state.extra["columns"]
    return {
        "type": state.kind,
        "parameters": _encode_parameters(state),
        "features": [encode_name(name, "feature") for name in state.extra["features"]],
        "labels": [encode_name(label, "label") for label in state.extra["classes"]],
        "columns": None if columns is None else [encode_name(name, "feature") for name in columns],
        "memory": state.extra["sizes"],
    }


def _committee_to_arrays(state: EstimatorState) -> tuple[Arrays, Meta]:
    arrays = dict(state.arrays)
    for name, member in state.parts.items():
        arrays |= prefixed(name, member.arrays)
    blanks = {
        name: None
        if blank is None
        else {"type": blank.kind, "parameters": _encode_parameters(blank)}
        for name, blank in state.parameters["members"].items()
    }
    return arrays, {
        "type": state.kind,
        "absent": state.parameters["absent"],
        "parameters": blanks,
        "members": {name: _model_to_json(member) for name, member in state.parts.items()},
        "order": list(state.parts),  # JSON is sorted by key; the weights have this order
    }


def _served_to_arrays(state: EstimatorState) -> tuple[Arrays, Meta]:
    arrays, parts = dict(state.arrays), {}
    for name, part in state.parts.items():
        own, parts[name] = to_arrays(part)
        arrays |= prefixed(name, own)
    names = {
        what: [encode_name(each, what) for each in given] for what, given in state.extra.items()
    }
    return arrays, {"type": state.kind, "names": names, "parts": parts, "order": list(parts)}


def from_arrays(arrays: Mapping[str, Array], meta: Meta) -> EstimatorState:
    """Restore a state from what `to_arrays` returned; raises `SnapshotError` for anything else.

    `check` and `build_estimator` validate the numbers themselves.
    """
    return _from_arrays(arrays, meta, MAX_NESTING)


def _from_arrays(arrays: Mapping[str, Array], meta: Meta, depth: int) -> EstimatorState:
    kind = meta.get("type") if isinstance(meta, dict) else None
    if not isinstance(kind, str):
        raise SnapshotError(f"expected the type of a classifier, got {str(kind)[:80]!r}")
    if depth == 0:
        raise SnapshotError(f"expected at most {MAX_NESTING - 1} wrappers around a model, got more")
    if kind in WRAPPER_CLASSES:
        return _wrapper_from_arrays(arrays, _convert(meta, WrapperMeta), depth)
    if kind == COMMITTEE:
        return _committee_from_arrays(arrays, _convert(meta, CommitteeMeta))
    if kind in served_classes():
        return _served_from_arrays(arrays, _convert(meta, ServedMeta), depth)
    return _model_from_json(dict(arrays), _convert(meta, ModelMeta))


def _model_from_json(arrays: Arrays, meta: ModelMeta) -> EstimatorState:
    blank = _blank(meta)
    extra = {
        "features": decode_names(meta.features, "feature"),
        "classes": decode_names(meta.labels, "label"),
        "columns": None if meta.columns is None else decode_names(meta.columns, "column"),
        "sizes": meta.memory,
    }
    return EstimatorState(blank.kind, blank.parameters, arrays, extra)


def _blank(meta: BlankMeta | ModelMeta) -> EstimatorState:
    if meta.type not in model_names():
        raise SnapshotError(f"expected one of {', '.join(model_names())}, got {meta.type[:80]!r}")
    return EstimatorState(meta.type, _decode_parameters(meta.type, meta.parameters))


def _committee_from_arrays(arrays: Mapping[str, Array], meta: CommitteeMeta) -> EstimatorState:
    own, parts = split(arrays, meta.members)
    names = meta.order
    if sorted(names) != sorted(meta.members) or meta.parameters.keys() != meta.members.keys():
        raise SnapshotError(
            f"committee: expected the members {sorted(meta.members)[:9]}, got the order {names[:9]}"
        )
    blanks = {name: meta.parameters[name] for name in names}
    parameters = {
        "absent": meta.absent,
        "members": {k: None if blank is None else _blank(blank) for k, blank in blanks.items()},
    }
    members = {name: _model_from_json(parts[name], meta.members[name]) for name in names}
    return EstimatorState(meta.type, parameters, own, {}, members)


def _served_from_arrays(
    arrays: Mapping[str, Array], meta: ServedMeta, depth: int
) -> EstimatorState:
    if sorted(meta.order) != sorted(meta.parts):
        raise SnapshotError(
            f"{meta.type}: expected the models {sorted(meta.parts)[:9]}, got the order "
            f"{meta.order[:9]}"
        )
    own, parts = split(arrays, meta.order)
    extra = {
        what: [decode_name(each, what) for each in encoded] for what, encoded in meta.names.items()
    }
    models = {name: _from_arrays(parts[name], meta.parts[name], depth - 1) for name in meta.order}
    return EstimatorState(meta.type, {}, own, extra, models)


def _wrapper_from_arrays(
    arrays: Mapping[str, Array], meta: WrapperMeta, depth: int
) -> EstimatorState:
    own, parts = split(arrays, ("classifier", "memory"))
    if own:
        raise SnapshotError(f"{meta.type}: expected no arrays of its own, got {sorted(own)[:9]}")
    inner = _from_arrays(parts["classifier"], meta.classifier, depth - 1)
    return EstimatorState(
        meta.type,
        _decode_parameters(meta.type, meta.parameters),
        parts["memory"],
        {"memory": meta.memory},
        {"classifier": inner},
    )


def _convert(meta: Meta, shape: type[S]) -> S:
    try:
        return msgspec.convert(meta, shape)
    except (msgspec.ValidationError, OverflowError, RecursionError) as error:
        raise SnapshotError(f"metadata: {error}") from error


def prefixed(prefix: str, arrays: Mapping[str, Array]) -> Arrays:
    """Return the arrays with a prefix before their names, as if in a folder."""
    return {f"{prefix}/{name}": array for name, array in arrays.items()}


def split(arrays: Mapping[str, Array], prefixes: Iterable[str]) -> tuple[Arrays, dict[str, Arrays]]:
    """Undo `prefixed`: return the arrays without any of the prefixes, and those of each prefix."""
    parts: dict[str, Arrays] = {prefix: {} for prefix in prefixes}
    own: Arrays = {}
    for name, array in arrays.items():
        prefix, _, rest = name.partition("/")
        if rest and prefix in parts:
            parts[prefix][rest] = array
        else:
            own[name] = array
    return own, parts


# --- names and labels -----------------------------------------------------------------------------


def encode_name(value: Hashable, what: str) -> list[Any]:
    """Encode a name or label for JSON, with its type.

    Examples
    --------

    >>> from streamlvq.snapshot.state import decode_name, encode_name

    >>> [encode_name(label, "label") for label in (1, 1.0, True, "1", None)]
    [['int', '1'], ['float', '0x1.0000000000000p+0'], ['bool', True], ['str', '1'], ['none', None]]
    >>> decode_name(["float", "0x1.8p+1"], "label")
    3.0

    """
    value = without_numpy(value)
    kind = type(value)
    if kind is str and len(str(value)) <= MAX_NAME_LENGTH:
        return ["str", value]
    if kind is bool:
        return ["bool", value]
    if isinstance(value, int) and kind is int and abs(value) < 2**256:
        return ["int", str(value)]  # readers in other languages have no integers beyond 2**53
    if isinstance(value, float) and kind is float and not math.isnan(value):
        return ["float", value.hex()]
    if value is None:
        return ["none", None]
    raise SnapshotError(
        f"{what}: {_EXPECTED_VALUE} to put into a snapshot, got {str(value)[:80]!r}"
    )


def decode_name(encoded: Any, what: str) -> Hashable:
    """Decode what `encode_name` returned; raises `SnapshotError` for anything else."""
    if isinstance(encoded, list) and len(encoded) == 2:
        kind, value = encoded
        if kind == "str" and type(value) is str and len(value) <= MAX_NAME_LENGTH:
            return value  # by far the most common
        try:
            restored = _decode_value(kind, value)
            if encode_name(restored, what) == encoded or kind == "float":
                return restored
        except (ValueError, OverflowError):
            pass
    raise SnapshotError(f"{what}: {_EXPECTED_VALUE} with its type, got {str(encoded)[:80]!r}")


def _decode_value(kind: Any, value: Any) -> Hashable:
    if kind == "int" and isinstance(value, str) and len(value) < 100:
        return int(value)
    if kind == "float" and isinstance(value, str):
        number = float.fromhex(value)
        if not math.isnan(number):
            return number
    if kind == "str" and isinstance(value, str):
        return value
    if kind == "bool" and isinstance(value, bool):
        return value
    if kind == "none" and value is None:
        return None
    raise ValueError("unknown type of a name")


def decode_names(encoded: list[Any], what: str) -> list[Hashable]:
    """Decode names and check that they are distinct."""
    names = [decode_name(each, what) for each in encoded]
    check_distinct(names, what)
    return names


# --- parameters -----------------------------------------------------------------------------------


def _encode_parameters(state: EstimatorState) -> Meta:
    _check_limits(state.kind, state.parameters)
    return {
        name: encode_parameter(value, f"{state.kind}({name}=...)")
        for name, value in state.parameters.items()
    }


def _decode_parameters(owner: str, parameters: Meta) -> Meta:
    values = {name: decode_parameter(value, name) for name, value in parameters.items()}
    _check_limits(owner, values)
    return values


def _check_limits(owner: str, values: Mapping[str, Any]) -> None:
    for name, most in MAX_PARAMETERS.items():
        if isinstance(values.get(name), int):
            check_between(f"{owner}({name}=...)", values[name], 0, most)


def encode_parameter(value: Any, what: str) -> Any:
    """Encode a parameter for JSON: numbers and text as they are, others with their type."""
    value = without_numpy(value)
    if isinstance(value, timedelta):
        return {"timedelta": [value.days, value.seconds, value.microseconds]}
    if isinstance(value, Mapping):
        pairs = value.items()
        return {"mapping": [[encode_name(k, what), encode_parameter(v, what)] for k, v in pairs]}
    if value is None or type(value) in {bool, int, float, str}:
        return value
    if isinstance(value, (list, tuple)):
        return {"names": [encode_name(name, what) for name in value]}
    raise SnapshotError(
        f"{what}: {_EXPECTED_VALUE} to put into a snapshot, got {str(value)[:80]!r}"
    )


def decode_parameter(encoded: Any, what: str) -> Any:
    """Decode what `encode_parameter` returned; raises `SnapshotError` for anything else."""
    if not isinstance(encoded, (dict, list)):
        return encoded
    try:
        if isinstance(encoded, dict) and encoded.keys() == {"timedelta"}:
            days, seconds, microseconds = encoded["timedelta"]
            return timedelta(days, seconds, microseconds)
        if isinstance(encoded, dict) and encoded.keys() == {"mapping"}:
            pairs = encoded["mapping"]
            return {decode_name(k, what): decode_parameter(v, what) for k, v in pairs}
        if isinstance(encoded, dict) and encoded.keys() == {"names"}:
            return decode_names(encoded["names"], what)
    except (TypeError, ValueError, OverflowError) as error:
        raise SnapshotError(f"{what}: expected a parameter, got {encoded!r}") from error
    raise SnapshotError(f"{what}: expected a parameter, got {str(encoded)[:80]!r}")
