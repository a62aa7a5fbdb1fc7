"""What a single cell of a text file means: the rules that the fast scanner keeps to as well."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

_NUMBER = re.compile(r"\s*[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\s*", re.ASCII)
_WHOLE = re.compile(r"-?(?:0|[1-9]\d{0,17})", re.ASCII)
_COMMA = re.compile(r"\s*[+-]?(?:\d{1,3}(?:\.\d{3})+|\d+)?,\d+(?:[eE][+-]?\d+)?\s*", re.ASCII)
_BYTES = re.compile("[\udc80-\udcff]")  # as Python keeps bytes that are no text
MISSING = frozenset({"", "nan", "null", "none", "na", "n/a"})


def is_missing(cell: str) -> bool:
    """Whether the cell says that there is nothing."""
    return cell.strip().lower() in MISSING


def is_number(cell: str) -> bool:
    """Whether the cell is a number, with a point for its decimals."""
    return _NUMBER.fullmatch(cell) is not None


def is_comma_number(cell: str) -> bool:
    """Whether the cell is a number with a comma for its decimals: 1,5 or 1.234,5."""
    return _COMMA.fullmatch(cell) is not None


def to_number(cell: str, shift: int = 0) -> float:
    """The number, times a power of ten; NaN if it is missing.

    Examples
    --------
    >>> to_number("1.5e3"), to_number(" NaN "), to_number("1700000000250000000", -9)
    (1500.0, nan, 1700000000.25)
    """
    if is_number(cell):
        return float(cell) if shift == 0 else float(Decimal(cell.strip()).scaleb(shift))
    if is_missing(cell):
        return math.nan
    hint = " (decimals need a point)" if is_comma_number(cell) else ""
    raise ValueError(f"expected a number{hint}, got {cell[:80]!r}")


def to_label(cell: str) -> str | int | None:
    """A class: a whole number if it is written like one, as it would be in JSON; None if missing.

    Examples
    --------
    >>> to_label("pump"), to_label("3"), to_label("03"), to_label("")
    ('pump', 3, '03', None)
    """
    if not cell:
        return None
    return int(cell) if _WHOLE.fullmatch(cell) else cell


class Texts(dict[bytes, Any]):
    """What texts mean; most come again and again.

    Parameters
    ----------
    convert
        From a text to what it means.

    Examples
    --------
    >>> Texts(to_label).all([b"on", b"3", b"on"])
    ['on', 3, 'on']
    """

    def __init__(self, convert: Callable[[str], Any]) -> None:
        super().__init__()
        self._convert = convert

    def __missing__(self, cell: bytes) -> Any:
        # Bytes that are no text are kept, so that they can be refused where they are used.
        value = self[cell] = self._convert(cell.decode(errors="surrogateescape"))
        return value

    def all(self, cells: list[bytes]) -> list[Any]:
        """The meaning of each."""
        return [self[cell] for cell in cells]


def no_text(columns: Mapping[str, Any], block: bytes) -> dict[int, str]:
    """The rows in which a text is none in UTF-8, and what is wrong with them.

    Parameters
    ----------
    columns
        Lists that `Texts` made, and arrays.
    block
        The bytes that they are from.

    Examples
    --------
    >>> cells = Texts(str).all([b"on", bytes([0xE4])])
    >>> {row: text[:45] for row, text in no_text({"state": cells}, bytes([0xE4])).items()}
    {1: "state: expected text in UTF-8, got b'..."}
    """
    try:
        block.decode()
    except UnicodeDecodeError:
        pass
    else:
        return {}
    return {
        row: f"{name}: expected text in UTF-8, got {value.encode(errors='surrogateescape')[:80]!r} "
        "(Latin-1? use iconv -f latin1 -t utf-8)"
        for name, column in columns.items()
        if isinstance(column, list)
        for row, value in enumerate(column)
        if isinstance(value, str) and _BYTES.search(value)
    }
