"""What classifiers are constructed with, in JSON."""

from __future__ import annotations

import inspect
from typing import Any

from streamlvq.config.schema import MOST
from streamlvq.snapshot.errors import SnapshotError
from streamlvq.snapshot.tags import pack, unpack
from streamlvq.snapshot.verify import between

# What a constructor, or a memory that is handed back, may say about numbers that are lies.
COMPLAINTS = (ValueError, TypeError, OverflowError, KeyError, IndexError, AttributeError)


_NAMES: dict[type[Any], list[str]] = {}  # to look at a signature takes longer than all the rest


def names_of(cls: type[Any]) -> list[str]:
    """The parameters of a class, without what it wraps."""
    if cls not in _NAMES:
        _NAMES[cls] = [name for name in inspect.signature(cls).parameters if name != "classifier"]
    return _NAMES[cls]


def pack_parameters(estimator: Any) -> dict[str, Any]:
    """The parameters of a model or wrapper for JSON."""
    owner = type(estimator).__name__
    values = {name: getattr(estimator, name) for name in names_of(type(estimator))}
    _check_limits(owner, values)
    return {name: pack(value, f"{owner}({name}=...)") for name, value in values.items()}


def construct(cls: type[Any], parameters: dict[str, Any], **more: Any) -> Any:
    """The opposite: a new model or wrapper."""
    names = names_of(cls)
    if parameters.keys() != set(names):
        wrong = sorted(parameters.keys() ^ set(names))
        raise SnapshotError(f"{cls.__name__}: expected parameters {names}, differs in {wrong[:9]}")
    values = {name: unpack(value, name) for name, value in parameters.items()}
    _check_limits(cls.__name__, values)
    try:
        return cls(**more, **values)
    except COMPLAINTS as error:
        raise SnapshotError(f"{cls.__name__}: expected other parameters: {error}") from error


def _check_limits(owner: str, values: dict[str, Any]) -> None:
    for name, most in MOST.items():
        if isinstance(values.get(name), int):
            between(f"{owner}({name}=...)", values[name], 0, most)
