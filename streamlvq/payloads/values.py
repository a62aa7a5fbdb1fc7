"""Values of payloads: what is a feature, label, time, device or number, singly and in columns.

These functions say what holds; the fast paths elsewhere must agree with them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import numpy as np

from streamlvq.arrays import Label, Rows
from streamlvq.errors import StreamLVQError
from streamlvq.events import Hint, Refused
from streamlvq.kernels.layout import LARGEST_VALUE
from streamlvq.paths import ABSENT

MAX_NAME_CHARACTERS = 256  # characters of a label or a device's name
LOWEST_INT, HIGHEST_INT = -(2**63), 2**63 - 1
EARLIEST, LATEST = -62_135_596_800.0, 253_402_300_800.0  # the years 1 to 9999
# Whole numbers, as Python divides these exactly where floats would be rounded twice.
UNITS_PER_SECOND = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}


class RefusedError(StreamLVQError, ValueError):
    """A payload that nothing can be learnt from.

    Parameters
    ----------
    reason
        One of `streamlvq.events.REFUSAL_REASONS`.
    text
        What was expected, and what came.
    about
        What was expected, without values; as in `streamlvq.events.Refused`.
    hint
        What is probably wrong with the configuration; likewise.

    """

    def __init__(self, reason: str, text: str, about: str, hint: Hint | None = None) -> None:
        super().__init__(text)
        self.reason = reason
        self.text = text
        self.about = about
        self.hint = hint

    def at(self, source: int) -> Refused:
        """Return the record of this refusal, of the message at a position."""
        return Refused(source, self.reason, self.text, self.about, self.hint)


_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")


def shorten(value: Any, limit: int = 80) -> str:
    """How a value looks, without the middle if that is long."""
    if isinstance(value, (str, bytes)):
        value = value[: 4 * limit]  # the whole of it may be large
    try:
        # Without addresses in memory: the same message is always refused in the same words.
        text = _ADDRESS.sub("", repr(value))
    except ValueError:  # an integer of thousands of digits
        return "an enormous integer"
    return text if len(text) <= limit else f"{text[: limit - 20]}...{text[-17:]}"


def wrong(
    path: str, expected: str, value: Any, reason: str = "field", hint: Hint | None = None
) -> RefusedError:
    """The error about a field that is not as expected."""
    text = f"{path}: expected {expected}, got {shorten(value)}"
    return RefusedError(reason, text, expected, hint)


def to_feature(path: str, value: Any) -> float:
    """A number; NaN where there is none. True is 1, False is 0."""
    if value is None or value is ABSENT:
        return math.nan
    if not isinstance(value, (int, float)):
        raise wrong(path, "a number", value)
    if abs(value) > LARGEST_VALUE:
        raise wrong(path, f"a finite number of at most {LARGEST_VALUE:g}", value, "value")
    return float(value)


def to_label(path: str, value: Any) -> Label | None:
    """A class, None if there is none.

    Text, whole numbers, true and false are classes. 3.0 is the class 3, because many encoders make
    no difference between the two. True and false become text: in Python 1 is True, and so the class
    1 and the class true would be one. Null, "" and NaN are none.
    """
    if value is None or value is ABSENT or value == "" or value != value:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, str):
        if len(value) > MAX_NAME_CHARACTERS:
            raise wrong(path, f"a label of at most {MAX_NAME_CHARACTERS} characters", value)
        return value
    if not isinstance(value, int):
        raise wrong(path, "a label (text, a whole number, true or false)", value)
    if not LOWEST_INT <= value <= HIGHEST_INT:
        raise wrong(path, "a label of at most 64 bits", value)
    return value


def to_sequence(path: str, value: Any) -> int | None:
    """A whole number of at most 64 bits with sign, None if there is none.

    Also as text of digits or as 3.0: some encoders have no integers of that size.
    """
    if value is None or value is ABSENT or value == "" or value != value:
        return None
    number: Any = value
    if isinstance(value, str) and len(value) <= 20:
        number = int(value) if value.removeprefix("-").isdecimal() and value.isascii() else None
    elif isinstance(value, float) and value.is_integer():
        number = int(value)
    if isinstance(number, bool) or not isinstance(number, int):
        raise wrong(path, "a whole number", value)
    if not LOWEST_INT <= number <= HIGHEST_INT:
        raise wrong(path, "a whole number of at most 64 bits", value)
    return number


def to_device(path: str, value: Any) -> str:
    """A name: text or a whole number."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value) if LOWEST_INT <= value <= HIGHEST_INT else value
    if not isinstance(value, str) or not value:
        raise wrong(path, "a device's name (text or a whole number)", value, "device")
    if len(value) > MAX_NAME_CHARACTERS:
        raise wrong(
            path, f"a device's name of at most {MAX_NAME_CHARACTERS} characters", value, "device"
        )
    return value


def to_time(unit: str) -> Callable[[str, Any], float | None]:
    """The function that turns times of this unit into seconds since 1970."""
    if unit == "iso":
        return _iso
    scale = UNITS_PER_SECOND[unit]

    def seconds(path: str, value: Any) -> float | None:
        if value is None or value is ABSENT or value != value:
            return None
        if isinstance(value, datetime):  # MessagePack has a type for it, and so have tables
            return _timestamp(value)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            hint: Hint | None = "iso_time" if _looks_like_iso(value) else None
            raise wrong(path, f"a time in {unit} (a number)", value, hint=hint)
        if abs(value) > LARGEST_VALUE or not EARLIEST <= value / scale < LATEST:
            expected = f"a time in {unit} within the years 1 to 9999 (is `time_unit` right?)"
            raise wrong(path, expected, value, "value")
        return value / scale

    return seconds


def _looks_like_iso(value: Any) -> bool:
    return isinstance(value, str) and _DATE.match(value) is not None


def _iso(path: str, value: Any) -> float | None:
    if value is None or value is ABSENT or value == "":
        return None
    try:
        return _timestamp(value if isinstance(value, datetime) else datetime.fromisoformat(value))
    except (TypeError, ValueError, OverflowError):
        expected = "a time in ISO 8601 like 2024-05-01T12:00:00Z"
        raise wrong(path, expected, value) from None


def _timestamp(moment: datetime) -> float:
    """Seconds since 1970; a time without a zone is in UTC, wherever this runs."""
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


# --- whole columns -------------------------------------------------------------------------------

TEXT, WHOLE, NUMBERS = {str}, {int}, ({int}, {float}, {int, float})


def plain(rows: Rows) -> Rows | None:
    """The rows, None if one is without any number or has one that is too large."""
    sizes = np.abs(rows)
    if sizes.max() <= LARGEST_VALUE:  # not so if there is a NaN
        return rows
    missing = np.isnan(sizes)
    if (missing | (sizes <= LARGEST_VALUE)).all() and not missing.all(axis=1).any():
        return rows
    return None


def labels(name: str, values: list[Any]) -> list[Label | None]:
    """As `to_label`."""
    if values.count(None) == len(values):
        return values
    kinds = set(map(type, values))
    if kinds == TEXT and max(map(len, values)) <= MAX_NAME_CHARACTERS and "" not in values:
        return values
    if kinds == WHOLE and min(values) >= LOWEST_INT and max(values) <= HIGHEST_INT:
        return values
    return [None if value is None else to_label(name, value) for value in values]


def sequences(name: str, values: list[Any]) -> list[int | None]:
    """As `to_sequence`."""
    if set(map(type, values)) == WHOLE and min(values) >= LOWEST_INT and max(values) <= HIGHEST_INT:
        return values
    return [None if value is None else to_sequence(name, value) for value in values]


def devices(name: str, values: list[Any]) -> list[str | None]:
    """As `to_device`; None where there is none."""
    if (
        set(map(type, values)) == TEXT
        and max(map(len, values)) <= MAX_NAME_CHARACTERS
        and "" not in values
    ):
        return values
    return [None if value is None else to_device(name, value) for value in values]


def all_devices(name: str, values: list[Any]) -> list[str | None]:
    """As `devices`, but there must be one everywhere."""
    found = devices(name, values)
    if None in found:
        to_device(name, None)  # raises
    return found


def times(unit: str) -> Callable[[str, list[Any]], list[float | None]]:
    """As `to_time`."""
    convert = to_time(unit)
    scale = UNITS_PER_SECOND.get(unit)

    def check(name: str, values: list[Any]) -> list[float | None]:
        if scale is not None and set(map(type, values)) in NUMBERS:
            seconds: list[float | None] = [value / scale for value in values]
            if _within(seconds):
                return seconds
        return [convert(name, value) for value in values]

    return check


def _within(seconds: list[Any]) -> bool:
    """Whether all are times of the years 1 to 9999."""
    total = sum(seconds)  # NaN if one of them is
    return bool(total == total and min(seconds) >= EARLIEST and max(seconds) < LATEST)
