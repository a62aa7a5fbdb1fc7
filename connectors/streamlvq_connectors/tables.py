"""Tables of text: what a cell means, what a column is for, and how columns become readings."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from streamlvq.config import Fields
from streamlvq.events import Readings
from streamlvq.payloads.columns import Column, readings
from streamlvq.payloads.values import UNITS_PER_SECOND, is_missing, is_number
from streamlvq.text import suggestion
from streamlvq_connectors.files import LogError

TIME_EXPONENTS = {
    unit: -len(str(count)[1:]) for unit, count in UNITS_PER_SECOND.items()
}  # to make seconds
NAMES_SHOWN = 30  # column names in an error message
BOOLEANS = {"true": 1.0, "false": 0.0}  # as features

_WHOLE = re.compile(r"-?(?:0|[1-9]\d{0,17})", re.ASCII)
_COMMA = re.compile(r"\s*[+-]?(?:\d{1,3}(?:\.\d{3})+|\d+)?,\d+(?:[eE][+-]?\d+)?\s*", re.ASCII)
_NUMBER_CHARACTERS = b"0123456789+-.eE \t"
_INTEGER_CHARACTERS = b"0123456789+- \t"
_JSON_NUMBERS = msgspec.json.Decoder(list[float])
_NEGATIVE_ZERO = re.compile(r"-0[,\s\]]")  # JSON has an integer there, without a sign
_UNDECODED = re.compile("[\udc80-\udcff]")  # how Python keeps bytes that are not UTF-8


# --- cells


def is_feature(cell: str) -> bool:
    """Return True if the cell is a number with a decimal point, true or false."""
    return is_number(cell) or cell.strip().lower() in BOOLEANS


def is_comma_number(cell: str) -> bool:
    """Return True if the cell is a number with a decimal comma: 1,5 or 1.234,5."""
    return _COMMA.fullmatch(cell) is not None


def to_number(cell: str, exponent: int = 0) -> float:
    """Return the number times a power of ten; NaN if it is missing.

    Examples
    --------
    >>> to_number("1.5e3"), to_number(" NaN "), to_number("1700000000250000000", -9)
    (1500.0, nan, 1700000000.25)
    """
    if is_number(cell):
        return float(cell) if exponent == 0 else float(Decimal(cell.strip()).scaleb(exponent))
    if is_missing(cell):
        return math.nan
    hint = " (decimals need a point)" if is_comma_number(cell) else ""
    raise ValueError(f"expected a number{hint}, got {cell[:80]!r}")


def to_numbers(
    cells: Sequence[str], exponent: int = 0
) -> tuple[npt.NDArray[np.float64], dict[int, str]]:
    """Convert a column as `to_number` converts each cell; also return what is wrong, by row.

    Examples
    --------
    >>> to_numbers(["1.5", "", "oops"])
    (array([1.5, nan, nan]), {2: "expected a number, got 'oops'"})
    """
    try:
        return np.array(_plain_numbers(cells, exponent), np.float64), {}
    except ValueError:
        pass  # not all of them are plain numbers: look at each
    numbers = np.full(len(cells), np.nan)
    bad: dict[int, str] = {}
    for row, cell in enumerate(cells):
        try:
            numbers[row] = to_number(cell, exponent)
        except ValueError as error:
            bad[row] = str(error)
    return numbers, bad


def _plain_numbers(cells: Sequence[str], exponent: int) -> list[float]:
    """Convert a column of plain numbers and empty cells, several times as fast as one by one.

    `float` also takes `1_000`, `inf` and digits of other scripts, which `to_number` refuses; of
    these characters it takes exactly what `to_number` takes. Raises a ValueError otherwise.
    """
    expected = _NUMBER_CHARACTERS if exponent == 0 else _INTEGER_CHARACTERS
    if "".join(cells).encode(errors="surrogateescape").translate(None, expected):
        raise ValueError("expected plain numbers")
    if exponent:
        divisor = 10**-exponent  # division of integers rounds once
        return [int(cell) / divisor if cell else math.nan for cell in cells]
    if "" in cells:
        return [float(cell) if cell else math.nan for cell in cells]
    text = f"[{','.join(cells)}]"
    if not _NEGATIVE_ZERO.search(text):
        try:  # reading them as JSON takes less than half the time, but 1., .5, +1 and 007 are none
            numbers = _JSON_NUMBERS.decode(text)
        except msgspec.MsgspecError:
            pass
        else:
            if len(numbers) == len(cells):  # one cell of nothing but blanks makes an empty array
                return numbers
    return list(map(float, cells))


def to_features(cells: Sequence[str]) -> tuple[npt.NDArray[np.float64], dict[int, str]]:
    """Convert a column as `to_numbers` does; true is 1 and false is 0.

    Examples
    --------
    >>> to_features(["1.5", "True", "oops"])
    (array([1.5, 1. , nan]), {2: "expected a number, got 'oops'"})
    """
    numbers, bad = to_numbers(cells)
    for row in list(bad):
        number = BOOLEANS.get(cells[row].strip().lower())
        if number is not None:
            numbers[row] = number
            del bad[row]
    return numbers, bad


def to_label(cell: str) -> str | int | None:
    """Return the class: an integer if written like one, as in JSON; None if missing.

    Examples
    --------
    >>> to_label("pump"), to_label("3"), to_label("03"), to_label("")
    ('pump', 3, '03', None)
    """
    if not cell:
        return None
    return int(cell) if _WHOLE.fullmatch(cell) else cell


def to_labels(cells: Sequence[str]) -> list[str | int | None]:
    """Convert a column of labels, of which most occur again and again.

    Examples
    --------
    >>> to_labels(["on", "3", "on"])
    ['on', 3, 'on']
    """
    known = {cell: to_label(cell) for cell in set(cells)}
    return [known[cell] for cell in cells]


def check_encoding(cell: str) -> None:
    """Raise a ValueError if the text, decoded with `surrogateescape`, was not UTF-8."""
    if _UNDECODED.search(cell):
        raise ValueError(
            f"expected text in UTF-8, got {cell.encode(errors='surrogateescape')[:80]!r} "
            "(Latin-1? use iconv -f latin1 -t utf-8)"
        )


# --- what columns are for


def check_roles(path: Path, fields: Fields, names: Sequence[str]) -> None:
    """Raise if a column that `fields` names does not exist: it would silently be ignored."""
    for role in ("label", "device", "time", "sequence"):
        name = getattr(fields, role)
        if name is not None and name not in names:
            raise LogError(
                f"{path}: expected a column {name!r} (the {role}), got {list_names(names)}"
                f"{suggestion(name, names) or '.'} Name it with --{role}; "
                f"if there is none say --{role} ''"
            )


def list_names(names: Sequence[str]) -> str:
    """Return column names as a list, shortened."""
    listed = ", ".join(map(repr, names[:NAMES_SHOWN]))
    more = len(names) - NAMES_SHOWN
    return f"[{listed}, and {more} more]" if more > 0 else f"[{listed}]"


def choose_features(
    path: Path, fields: Fields, names: Sequence[str], numeric: Sequence[str]
) -> list[str]:
    """Return the features: those that `fields` names, or all numeric columns without a role."""
    if fields.features is not None:
        for name in fields.features:
            if name not in names:
                raise LogError(
                    f"{path}: expected a column {name!r}, got {list_names(names)}"
                    f"{suggestion(name, names) or '.'}"
                )
        return list(fields.features)
    found = [name for name in numeric if name not in _roles(fields)]
    if not found:
        raise LogError(f"{path}: expected columns of numbers, got none among {list_names(names)}")
    return found


def unused_columns(fields: Fields, names: Sequence[str], features: Sequence[str]) -> list[str]:
    """Return the columns left out because they are not numeric."""
    used = {*features, *_roles(fields), ""}
    return [] if fields.features is not None else [name for name in names if name not in used]


def unused_columns_note(unused: Sequence[str]) -> list[str]:
    """Return a note on the columns left out; none if all are used."""
    if not unused:
        return []
    more = f" and {len(unused) - 8} more" if len(unused) > 8 else ""
    return [f"left out, because they are not numbers: {', '.join(unused[:8])}{more}"]


def _roles(fields: Fields) -> set[str | None]:
    return {fields.label, fields.time, fields.sequence, fields.device}


# --- rows


class RowReader:
    """Makes readings from columns, by the rules for payloads.

    `fields` says what each column is for; numeric times are in seconds, whatever its unit. `iso`:
    times are texts. There may be no `features` only if there are no rows.
    """

    def __init__(self, fields: Fields, features: Sequence[str], iso: bool) -> None:
        self.features = tuple(features)
        self._fields = msgspec.structs.replace(
            fields, features=list(features), time_unit="iso" if iso else "s"
        )

    def readings(
        self, columns: Mapping[str, Column], bad: Mapping[int, str]
    ) -> tuple[Readings, dict[int, str]]:
        """Return the readings, and for each row without one what is wrong (`bad` included)."""
        if not self.features:
            return Readings.of((), np.empty((0, 0))), dict(bad)
        for row in bad:
            for name in self.features:
                columns[name][row] = np.nan  # type: ignore[index]  # so that it is refused
        found, refused = readings(self._fields, columns)
        return found, {one.source: bad.get(one.source, one.text) for one in refused}
