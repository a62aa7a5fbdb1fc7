"""Values of payloads: what is a feature, label, time, device or number, singly and in columns.

These functions define the rules; the fast paths elsewhere must agree with them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from itertools import chain
from typing import Any

import numpy as np

from streamlvq.arrays import Label, Rows
from streamlvq.errors import StreamLVQError
from streamlvq.events import Hint, Refused
from streamlvq.kernels.layout import LARGEST_VALUE
from streamlvq.paths import ABSENT

MAX_NAME_CHARACTERS = 256  # characters of a label or a device's name
LOWEST_INT, HIGHEST_INT = -(2**63), 2**63 - 1
EARLIEST, LATEST = -62_135_596_800.0, 253_402_300_800.0  # seconds; the years 1 to 9999
# Integers, because Python divides them exactly where floats would be rounded twice.
UNITS_PER_SECOND = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}


class RefusedError(StreamLVQError, ValueError):
    """Payload that cannot be used.

    `reason` is one of `streamlvq.events.REFUSAL_REASONS`; `about` says what was expected without
    values, and `hint` what is probably wrong in the configuration, as in
    `streamlvq.events.Refused`.
    """

    def __init__(self, reason: str, text: str, about: str, hint: Hint | None = None) -> None:
        super().__init__(text)
        self.reason = reason
        self.text = text
        self.about = about
        self.hint = hint

    def at(self, source: int) -> Refused:
        """Return the refusal as a record for the message at this position."""
        return Refused(source, self.reason, self.text, self.about, self.hint)


_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_NUMBER = re.compile(r"\s*[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\s*", re.ASCII)

MISSING_WORDS = frozenset({"", "nan", "null", "none", "na", "n/a"})


def is_number(text: str) -> bool:
    """Return whether a text is a finite number: decimal, with a point, blanks around it allowed.

    Examples
    --------
    >>> [is_number(text) for text in ("21.1", " -3e2 ", ".5", "1,5", "0x10", "nan", "inf", "1_000")]
    [True, True, True, False, False, False, False, False]

    """
    return _NUMBER.fullmatch(text) is not None


def is_missing(text: str) -> bool:
    """Return whether a text says that there is no value: empty, nan, null, none, na or n/a."""
    return text.strip().lower() in MISSING_WORDS


def shorten(value: Any, limit: int = 80) -> str:
    """Return the repr of a value, with the middle cut out if it is long."""
    if isinstance(value, (str, bytes)):
        value = value[: 4 * limit]  # its repr may be large
    try:
        # Without memory addresses: the same message is always refused with the same text.
        text = _ADDRESS.sub("", repr(value))
    except ValueError:  # an integer of thousands of digits
        return "an enormous integer"
    return text if len(text) <= limit else f"{text[: limit - 20]}...{text[-17:]}"


def wrong(
    path: str, expected: str, value: Any, reason: str = "field", hint: Hint | None = None
) -> RefusedError:
    """Return the error for a field with an unexpected value."""
    text = f"{path}: expected {expected}, got {shorten(value)}"
    return RefusedError(reason, text, expected, hint)


def to_feature(path: str, value: Any) -> float:
    """Convert to a number; NaN if missing. True is 1, False is 0, and "21.1" is 21.1."""
    if value is None or value is ABSENT:
        return math.nan
    number = value
    if isinstance(value, str):
        number = float(value) if is_number(value) else math.nan if is_missing(value) else None
    if not isinstance(number, (int, float)):
        raise wrong(path, "a number", value)
    if abs(number) > LARGEST_VALUE:
        raise wrong(path, f"a finite number of at most {LARGEST_VALUE:g}", value, "value")
    return float(number)


def to_label(path: str, value: Any) -> Label | None:
    """Convert to a class label; None if missing.

    Text, whole numbers, true and false are labels. 3.0 is the label 3, because many encoders do not
    distinguish the two. True and false become text: in Python 1 == True, so the labels 1 and true
    would be the same. Null, "" and NaN mean that there is no label.
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
    """Convert to a whole number of at most 64 bits with sign; None if missing.

    Text of digits and 3.0 are accepted too: some encoders have no integers of that size.
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
    """Convert text or a whole number to a device name."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value) if LOWEST_INT <= value <= HIGHEST_INT else value
    if not isinstance(value, str) or not value:
        raise wrong(path, "a device name (text or a whole number)", value, "device")
    if len(value) > MAX_NAME_CHARACTERS:
        raise wrong(
            path, f"a device name of at most {MAX_NAME_CHARACTERS} characters", value, "device"
        )
    return value


def to_time(unit: str) -> Callable[[str, Any], float | None]:
    """Return the function that converts times in this unit to seconds since 1970."""
    if unit == "iso":
        return _iso
    scale = UNITS_PER_SECOND[unit]

    def seconds(path: str, value: Any) -> float | None:
        if _no_time(value):
            return None
        if isinstance(value, datetime):  # MessagePack and tables have a type for it
            return _timestamp(value)
        if isinstance(value, bool) or not isinstance(value, (int, float, str)):
            raise wrong(path, f"a time in {unit} (a number) or in ISO 8601", value)
        if isinstance(value, str) and not is_number(value):
            return _iso_text(path, value, f"a time in {unit} (a number) or in ISO 8601")
        number = _number(value) if isinstance(value, str) else value
        if abs(number) > LARGEST_VALUE or not EARLIEST <= number / scale < LATEST:
            expected = f"a time in {unit} within the years 1 to 9999 (is `time_unit` right?)"
            raise wrong(path, expected, value, "value")
        return number / scale

    return seconds


def _no_time(value: Any) -> bool:
    missing = value is None or value is ABSENT or value != value
    return missing or (isinstance(value, str) and is_missing(value))


def _number(text: str) -> int | float:
    """Return the number in a text as JSON would give it: an integer if it is written like one."""
    whole = len(text) <= 80 and text.strip().lstrip("+-").isdecimal()
    return int(text) if whole else float(text)


def _iso(path: str, value: Any) -> float | None:
    if _no_time(value):
        return None
    expected = "a time in ISO 8601 like 2024-05-01T12:00:00Z"
    if isinstance(value, datetime):
        return _timestamp(value)
    if not isinstance(value, str):
        hint: Hint | None = "numeric_time" if isinstance(value, (int, float)) else None
        raise wrong(path, expected, value, hint=hint)
    return _iso_text(path, value, expected)


def _iso_text(path: str, text: str, expected: str) -> float:
    try:
        return _timestamp(datetime.fromisoformat(text.strip()))
    except (ValueError, OverflowError):
        hint: Hint | None = "numeric_time" if is_number(text) else None
        raise wrong(path, expected, text, hint=hint) from None


def _timestamp(moment: datetime) -> float:
    """Return seconds since 1970; a time without a zone is in UTC, whatever the local zone."""
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


# --- whole columns -------------------------------------------------------------------------------

TEXT, WHOLE, NUMBERS = {str}, {int}, ({int}, {float}, {int, float})


def plain(rows: Rows) -> Rows | None:
    """Return the rows; None if a row has no number at all or one that is too large."""
    sizes = np.abs(rows)
    if sizes.max() <= LARGEST_VALUE:  # False if there is a NaN
        return rows
    missing = np.isnan(sizes)
    if (missing | (sizes <= LARGEST_VALUE)).all() and not missing.all(axis=1).any():
        return rows
    return None


def number_rows(tuples: Sequence[tuple[Any, ...]], missing: bool) -> Rows:
    """Convert numbers, true, false, null and numeric text; raise `RefusedError` for other text.

    With `missing`, words such as "nan" are missing values; otherwise they are other text.
    """
    if str in set(map(type, chain.from_iterable(tuples))):
        tuples = [tuple([_feature(value, missing) for value in row]) for row in tuples]
    return np.array(tuples, dtype=np.float64)


def _feature(value: Any, missing: bool) -> Any:
    if type(value) is not str:
        return value
    if not missing and not is_number(value):
        raise wrong("a feature", "a number", value)
    return to_feature("a feature", value)


def labels(name: str, values: list[Any]) -> list[Label | None]:
    """Convert many values as `to_label` does."""
    if values.count(None) == len(values):
        return values
    kinds = set(map(type, values))
    if kinds == TEXT and max(map(len, values)) <= MAX_NAME_CHARACTERS and "" not in values:
        return values
    if kinds == WHOLE and min(values) >= LOWEST_INT and max(values) <= HIGHEST_INT:
        return values
    return [None if value is None else to_label(name, value) for value in values]


def sequences(name: str, values: list[Any]) -> list[int | None]:
    """Convert many values as `to_sequence` does."""
    if set(map(type, values)) == WHOLE and min(values) >= LOWEST_INT and max(values) <= HIGHEST_INT:
        return values
    return [None if value is None else to_sequence(name, value) for value in values]


def devices(name: str, values: list[Any]) -> list[str | None]:
    """Convert many values as `to_device` does; None stays None."""
    if (
        set(map(type, values)) == TEXT
        and max(map(len, values)) <= MAX_NAME_CHARACTERS
        and "" not in values
    ):
        return values
    return [None if value is None else to_device(name, value) for value in values]


def all_devices(name: str, values: list[Any]) -> list[str | None]:
    """Convert many values as `to_device` does; every value must be a name."""
    found = devices(name, values)
    if None in found:
        to_device(name, None)  # raises
    return found


def times(unit: str) -> Callable[[str, list[Any]], list[float | None]]:
    """Return the function that converts many values as `to_time` does."""
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
    """Return whether all times are in the years 1 to 9999."""
    total = sum(seconds)  # NaN if one of them is
    return bool(total == total and min(seconds) >= EARLIEST and max(seconds) < LATEST)
