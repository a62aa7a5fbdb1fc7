"""What the beginning of a table in a text file says, and what is wrong with it."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Sequence
from datetime import datetime
from itertools import islice
from pathlib import Path

from streamlvq_connectors.cells import is_comma_number, is_missing, is_number
from streamlvq_connectors.files import LogError
from streamlvq_connectors.rows import shown

DELIMITERS = (",", ";", "\t")
_SAMPLE = 1000  # rows to find out what is in the columns
_ISO = re.compile(r"\s*\d{4}-\d\d-\d\d([T ].*)?", re.ASCII)
_KNOWN = (
    (b"\x89PNG", "a picture (PNG)"),
    (b"\xff\xd8\xff", "a picture (JPEG)"),
    (b"%PDF", "a PDF"),
    (b"PK\x03\x04", "an Excel workbook or a zip file; save the table as CSV"),
    (b"\xd0\xcf\x11\xe0", "an Excel workbook; save the table as CSV"),
    (b"\x1f\x8b", "compressed data; let its name end in .gz"),
    (b"PAR1", "a Parquet file; say --format parquet"),
)

Cells = dict[str, list[str]]  # of each column, without the missing ones


def check_text(path: Path, block: bytes) -> None:
    """Raise if a file that begins like this is no text in UTF-8."""
    for start, what in _KNOWN:
        if block.startswith(start):
            raise LogError(f"{path}: expected a table in a text file, got {what}")
    if block.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise LogError(f"{path}: expected text in UTF-8, got UTF-16: {_convert(path, 'utf-16')}")
    first = block.partition(b"\n")[0]
    if b"\0" in first:
        raise LogError(
            f"{path}: expected a table in a text file, got something else, which begins with "
            f"{first[:40]!r}"
        )
    try:
        first.decode()
    except UnicodeDecodeError as error:
        got = first[max(error.start - 10, 0) : error.end + 10]
        raise LogError(
            f"{path}: expected names in UTF-8, got {got!r}; if it is Latin-1: "
            f"{_convert(path, 'latin1')}"
        ) from error


def _convert(path: Path, encoding: str) -> str:
    return f"iconv -f {encoding} -t utf-8 {path.name} > utf8-{path.name}"


def delimiter_of(first: str) -> str:
    """What gives the first line the most cells."""
    return max(DELIMITERS, key=lambda d: len(next(csv.reader([first], delimiter=d), [])))


def check_names(path: Path, names: Sequence[str]) -> None:
    """Raise if the first row holds no names, or some twice."""
    values = [name for name in names if is_number(name) or is_iso(name)]
    twice = sorted({name for name in names if name and names.count(name) > 1})
    none = values and all(is_missing(name) or name in values for name in names)
    if none or any(map(is_iso, names)) or set(twice) & set(values):
        raise LogError(
            f"{path}: expected the names of the columns first, got {shown(names)}; put a row of "
            "names such as t,temperature,state on top"
        )
    if twice:
        raise LogError(f"{path}: expected distinct columns, got {twice} twice")


def sample(names: Sequence[str], block: bytes, delimiter: str) -> Cells:
    """The cells of the first rows, without those that are missing."""
    text = io.StringIO(block.decode(errors="replace"), newline="")
    rows = [
        row
        for row in islice(csv.reader(text, delimiter=delimiter), _SAMPLE)
        if len(row) == len(names)
    ]
    return {
        name: [row[i] for row in rows if not is_missing(row[i])] for i, name in enumerate(names)
    }


def numeric(cells: Cells) -> list[str]:
    """The columns that have a name and in which most of the first cells are numbers."""
    return [
        name for name, found in cells.items() if name and _most(found, sum(map(is_number, found)))
    ]


def check_decimals(path: Path, cells: Cells, but: Collection[str | None]) -> None:
    """Raise if columns (but those) are numbers with decimal commas, which nobody should guess.

    One that also has decimal points is a column of numbers, some rows of which are wrong.
    """
    for name, found in cells.items():
        if name in but or any("." in cell for cell in found if is_number(cell)):
            continue
        commas = [cell for cell in found if is_comma_number(cell)]
        if commas and _most(found, len(commas) + sum(map(is_number, found))):
            raise LogError(
                f"{path}: {name}: expected decimal points, got decimal commas ({commas[0]!r}); "
                f"write the file with points, such as by sed 's/,/./g' {path.name} > "
                f"points-{path.name} if nothing else in it has commas, or in pandas by "
                f"read_csv({path.name!r}, sep=None, decimal=',').to_csv(...)"
            )


def times_are_texts(path: Path, name: str, cells: Sequence[str]) -> bool:
    """Whether these times are texts in ISO 8601; raises if none of them is a time at all."""
    if any(map(is_number, cells)) or not cells:
        return False
    if not any(map(is_iso, cells)):
        raise LogError(
            f"{path}: {name}: expected times as numbers (--time-unit says in what) or as text like "
            f"2024-05-01T12:00:00, got {cells[0][:40]!r}"
        )
    return True


def is_iso(cell: str) -> bool:
    """Whether the cell is a time in ISO 8601, with hyphens."""
    if _ISO.fullmatch(cell) is None:
        return False
    try:
        datetime.fromisoformat(cell.strip())
    except ValueError:
        return False
    return True


def _most(found: Sequence[str], count: int) -> bool:
    return 2 * count > len(found)
