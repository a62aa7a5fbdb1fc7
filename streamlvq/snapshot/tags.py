"""Names, labels and parameters in JSON, such that 1, 1.0, True and "1" stay what they are."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from datetime import timedelta
from typing import Any

import numpy as np

from streamlvq.snapshot.errors import SnapshotError

LONGEST = 10_000  # characters of a name
_EXPECTED = "expected text, a whole or other number, a bool or None"


def tag(value: Hashable, what: str) -> list[Any]:
    """A name or label for JSON.

    Examples
    --------

    >>> from streamlvq.snapshot.tags import tag, untag

    >>> [tag(label, "label") for label in (1, 1.0, True, "1", None)]
    [['int', '1'], ['float', '0x1.0000000000000p+0'], ['bool', True], ['str', '1'], ['none', None]]
    >>> untag(["float", "0x1.8p+1"], "label")
    3.0

    """
    if isinstance(value, np.generic):
        value = value.item()
    kind = type(value)
    if kind is str and len(str(value)) <= LONGEST:
        return ["str", value]
    if kind is bool:
        return ["bool", value]
    if isinstance(value, int) and kind is int and abs(value) < 2**256:
        return ["int", str(value)]  # readers in other languages have no integers beyond 2**53
    if isinstance(value, float) and kind is float and not math.isnan(value):
        return ["float", value.hex()]
    if value is None:
        return ["none", None]
    raise SnapshotError(f"{what}: {_EXPECTED} to put into a snapshot, got {str(value)[:80]!r}")


def untag(tagged: Any, what: str) -> Hashable:
    """The opposite of `tag`."""
    if isinstance(tagged, list) and len(tagged) == 2:
        kind, value = tagged
        if kind == "str" and type(value) is str and len(value) <= LONGEST:
            return value  # by far the most
        try:
            restored = _restore(kind, value)
            if tag(restored, what) == tagged or kind == "float":
                return restored
        except (ValueError, OverflowError):
            pass
    raise SnapshotError(f"{what}: {_EXPECTED} with its type, got {str(tagged)[:80]!r}")


def _restore(kind: Any, value: Any) -> Hashable:
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
    raise ValueError("unknown tag")


def untag_all(tagged: list[Any], what: str) -> list[Hashable]:
    """Names that must differ from each other."""
    names = [untag(each, what) for each in tagged]
    if len(set(names)) < len(names):
        raise SnapshotError(f"{what}s: expected names that differ, got {str(names)[:80]}")
    return names


# --- parameters of classifiers --------------------------------------------------------------------


def pack(value: Any, what: str) -> Any:
    """The value of a parameter for JSON: a number or text as it is, others by their type."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, timedelta):
        return {"timedelta": [value.days, value.seconds, value.microseconds]}
    if isinstance(value, Mapping):
        return {"mapping": [[tag(key, what), pack(each, what)] for key, each in value.items()]}
    if value is None or type(value) in {bool, int, float, str}:
        return value
    if isinstance(value, (list, tuple)):
        return {"names": [tag(name, what) for name in value]}
    raise SnapshotError(f"{what}: {_EXPECTED} to put into a snapshot, got {str(value)[:80]!r}")


def unpack(packed: Any, what: str) -> Any:
    """The opposite of `pack`."""
    if not isinstance(packed, (dict, list)):
        return packed
    try:
        if isinstance(packed, dict) and packed.keys() == {"timedelta"}:
            days, seconds, microseconds = packed["timedelta"]
            return timedelta(days, seconds, microseconds)
        if isinstance(packed, dict) and packed.keys() == {"mapping"}:
            return {untag(key, what): unpack(each, what) for key, each in packed["mapping"]}
        if isinstance(packed, dict) and packed.keys() == {"names"}:
            return untag_all(packed["names"], what)
    except (TypeError, ValueError, OverflowError) as error:
        raise SnapshotError(f"{what}: expected a parameter, got {packed!r}") from error
    raise SnapshotError(f"{what}: expected a parameter, got {str(packed)[:80]!r}")
