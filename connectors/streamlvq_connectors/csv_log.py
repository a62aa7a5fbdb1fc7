"""CSV files: a row of names, then a row for each reading."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from streamlvq.config import Fields
from streamlvq.connect import Message
from streamlvq.events import Readings
from streamlvq.payloads.values import is_missing, is_number
from streamlvq_connectors.files import LINE_MAX_BYTES, BlockLog, Blocks, LogError
from streamlvq_connectors.tables import (
    TIME_EXPONENTS,
    RowReader,
    check_encoding,
    check_roles,
    choose_features,
    is_comma_number,
    is_feature,
    list_names,
    to_features,
    to_labels,
    to_numbers,
    unused_columns,
    unused_columns_note,
)

MAX_BATCH_ROWS = 1 << 16  # in a batch
DELIMITERS = (",", ";", "\t")
SAMPLE_ROWS = 1000  # looked at to find out what is in the columns

_ISO = re.compile(r"\s*\d{4}-\d\d-\d\d([T ].*)?", re.ASCII)
_END = "end"  # follows the last line: swallowed by a quoted cell that is still open there
_OTHER_FILES = (
    (b"\x89PNG", "a picture (PNG)"),
    (b"\xff\xd8\xff", "a picture (JPEG)"),
    (b"%PDF", "a PDF"),
    (b"PK\x03\x04", "an Excel workbook or a zip file; save the table as CSV"),
    (b"\xd0\xcf\x11\xe0", "an Excel workbook; save the table as CSV"),
    (b"\x1f\x8b", "compressed data; let its name end in .gz"),
    (b"PAR1", "a Parquet file; say --format parquet"),
)

Sample = dict[str, list[str]]  # the first cells of each column, without the missing ones
Converter = Callable[[Sequence[str]], tuple[Any, dict[int, str]]]  # also what is wrong, by row


# --- records


@dataclass(slots=True)
class Records:
    """Records of a block of CSV text, without blank ones.

    `starts[i]` is the index in `lines` of the first line of `rows[i]`; `rest` holds the lines
    that have to be read again together with what follows them.
    """

    rows: list[list[str]]
    starts: list[int]
    lines: list[str]
    rest: bytes

    def line(self, row: int) -> bytes:
        """Return the first line of a record, for error messages."""
        return self.lines[self.starts[row]].rstrip("\r\n").encode(errors="surrogateescape")


def read_records(block: bytes, delimiter: str, final: bool) -> Records:
    r"""Split lines into records; `final`: nothing follows them.

    A quoted cell may hold line ends. If it is still open at the end of the block, it is left in
    `rest`; if nothing follows, it costs its first line, not the whole file. Bytes that are not
    UTF-8 are kept as surrogates, so that they can be refused where they are used.

    Examples
    --------
    >>> found = read_records(b'pump,1.5\n"a,\nb",2\n"c', ",", final=False)
    >>> found.rows, found.starts, found.rest
    ([['pump', '1.5'], ['a,\nb', '2']], [0, 1], b'"c')
    """
    text = block.decode(errors="surrogateescape")
    lines = list(io.StringIO(text, newline=""))
    rows: list[list[str]] = []
    starts: list[int] = []
    used = 0
    limit = csv.field_size_limit(len(text) + len(_END))
    try:
        while used < len(lines) and len(rows) < MAX_BATCH_ROWS:
            used = _append_records(lines, used, delimiter, rows, starts)
            if used == len(lines) or len(rows) == MAX_BATCH_ROWS or not final:
                break
            rows.append(next(csv.reader([lines[used]], delimiter=delimiter)))
            starts.append(used)
            used += 1
    finally:
        csv.field_size_limit(limit)
    return Records(rows, starts, lines, "".join(lines[used:]).encode(errors="surrogateescape"))


def _append_records(
    lines: list[str], used: int, delimiter: str, rows: list[list[str]], starts: list[int]
) -> int:
    """Append the records of `lines[used:]`; return how many lines are used then."""
    lines = [*lines[used:], _END]
    reader = csv.reader(lines, delimiter=delimiter)
    if not used and len(lines) <= MAX_BATCH_ROWS:
        found = list(reader)
        if len(found) == len(lines) and [] not in found:  # nearly always: a record on each line
            rows += found[:-1]
            starts += range(len(rows))
            return len(rows)
        reader = csv.reader(lines, delimiter=delimiter)
    start = 0
    for row in reader:
        end = reader.line_num
        if end == len(lines):
            return used + start
        if row:
            rows.append(row)
            starts.append(used + start)
            if len(rows) == MAX_BATCH_ROWS:
                return used + end
        start = end
    return used + start


def read_next_records(block: bytes, blocks: Blocks, delimiter: str) -> Records:
    """Split the block just read; what is left of it comes again, before or with the next one."""
    found = read_records(block, delimiter, blocks.final or len(block) > LINE_MAX_BYTES)
    if len(found.rows) == MAX_BATCH_ROWS:
        blocks.give_back(found.rest)
    else:
        blocks.keep(found.rest)
    return found


# --- the log


class CsvLog(BlockLog):
    """A CSV file: a row of names, then a row for each reading.

    Cells are separated by commas, semicolons or tabs, whichever gives the first row the most cells,
    and may be in double quotes. Empty cells, and those that say nan, null, none, na or n/a, are
    missing; true is 1 and false is 0. Decimals have a point; a file with decimal commas is refused.
    Times that are texts are read as ISO 8601, whatever `fields.time_unit` says.

    Without `fields.features`, all columns without another role that are mostly numbers in the first
    1000 rows are features. Columns without a name are left out, as is the index that pandas writes.
    Labels that are written like integers are integers, as in JSON. Invalid rows are refused one by
    one.

    Parameters
    ----------
    path
        The file, in UTF-8; one that ends in `.gz` is compressed.
    fields
        Which columns are features, label, time, sequence number and device. All that are named
        must exist.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "log.csv"
    >>> size = path.write_text("t,x,y,state\\n0.5,1,2,on\\n1.5,oops,4,on\\n2.5,5,,off\\n")
    >>> log = CsvLog(path, Fields(label="state", time="t"))
    >>> log.open()
    >>> readings = log.read()
    >>> readings.features, readings.rows.tolist(), readings.labels, readings.times
    (('x', 'y'), [[1.0, 2.0], [5.0, nan]], ['on', 'off'], [0.5, 2.5])
    >>> log.refused
    ["line 3: x: expected a number, got 'oops'"]
    >>> log.close()
    """

    block_bytes = 1 << 18  # cells as Python strings take ten times as much as in the file

    @classmethod
    def recognises(cls, name: str, head: bytes) -> bool:
        """Return True for a name in .csv or .tsv, or a first line of names and delimiters."""
        if name.removesuffix(".gz").endswith((".csv", ".tsv")):
            return True
        try:
            first = head.partition(b"\n")[0].decode("utf-8-sig").rstrip("\r")
        except UnicodeDecodeError:
            return False
        cells = first.split(_delimiter(first))
        printable = first.replace("\t", " ").isprintable()
        return len(cells) > 1 and printable and not any(map(is_number, cells))

    def begin(self, blocks: Blocks) -> None:
        """Read the names and find out what is in each column."""
        block = blocks.next()
        _check_text(self.path, block)
        try:
            self._names, self._delimiter, used = self._header(block)
            while len(block) == used and not blocks.final:
                blocks.keep(block)
                block = blocks.next()
            rows = block[used:]
            sample = _sample(self._names, rows, self._delimiter)
        except csv.Error as error:
            raise LogError(f"{self.path}: expected a table, got one with {error}") from error
        blocks.give_back(rows)
        self._plan(Fields() if self.fields is None else self.fields, sample, bool(rows))

    def _header(self, block: bytes) -> tuple[list[str], str, int]:
        """Return the names, their delimiter, and how many bytes the header takes."""
        try:
            text = block.decode()
        except UnicodeDecodeError as error:
            text = block[: error.start].decode()  # later rows are refused one by one
        delimiter = _delimiter(text.partition("\n")[0])
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
        names = [name.strip() for name in next(reader, [])]
        _check_names(self.path, names)
        lines = text.split("\n", reader.line_num)[:-1]
        return names, delimiter, sum(len(line.encode()) + 1 for line in lines)

    def _plan(self, fields: Fields, sample: Sample, has_rows: bool) -> None:
        """Decide which column is what."""
        names, iso, features = self._names, fields.time_unit == "iso", list[str]()
        if names:
            check_roles(self.path, fields, names)
        if has_rows:
            _check_decimals(self.path, sample, {"", fields.label, fields.device, fields.sequence})
            if fields.time is not None and not iso:
                iso = _times_are_texts(self.path, fields.time, sample[fields.time])
                self.notes += [f"{fields.time}: times are texts (ISO 8601), read as such"] * iso
        if has_rows or (names and fields.features is not None):
            features = choose_features(self.path, fields, names, _numeric(sample))
        if has_rows:
            self.unused = unused_columns(fields, names, features)
            self.notes += unused_columns_note(self.unused)
        elif names:
            self.notes.append("the file has the names of its columns, but no row after them")
        self._converters = self._choose_converters(fields, features, iso)
        self._reader = RowReader(fields, features, iso)

    def _choose_converters(
        self, fields: Fields, features: list[str], iso: bool
    ) -> dict[str, Converter]:
        """Return for each column that is used how to convert it, in the order of the file."""
        chosen: dict[str | None, Converter] = {
            fields.sequence: _keep,
            fields.device: _keep,
            fields.label: lambda cells: (to_labels(cells), {}),
            **dict.fromkeys(features, to_features),
        }
        if iso:
            chosen.setdefault(fields.time, _keep)
        else:
            exponent = TIME_EXPONENTS.get(fields.time_unit, 0)
            chosen[fields.time] = partial(to_numbers, exponent=exponent)
        return {name: chosen[name] for name in self._names if name and name in chosen}

    def batch(self, block: bytes) -> Sequence[Message] | Readings:
        """Return the readings of these rows."""
        first = self.blocks.line
        found = read_next_records(block, self.blocks, self._delimiter)
        bad = self._check_lengths(found)
        columns = self._columns(found.rows, block, bad)
        readings, bad = self._reader.readings(columns, bad)
        for row, text in bad.items():
            self.refuse(first + found.starts[row], text)
        return readings

    def _check_lengths(self, found: Records) -> dict[int, str]:
        """Empty all rows that have too few or too many cells; return what is wrong with them."""
        count = len(self._names)
        bad: dict[int, str] = {}
        if set(map(len, found.rows)) <= {count}:
            return bad
        for i, row in enumerate(found.rows):
            if len(row) != count:
                bad[i] = f"expected {count} cells, got {len(row)}: {found.line(i)[:80]!r}"
                found.rows[i] = [""] * count
        return bad

    def _columns(self, rows: list[list[str]], block: bytes, bad: dict[int, str]) -> dict[str, Any]:
        """Convert the columns that are used; add what is wrong with rows to `bad`."""
        cells = dict(zip(self._names, zip(*rows, strict=True), strict=True)) if rows else {}
        columns: dict[str, Any] = {}
        valid = _is_utf8(block)
        for name, convert in self._converters.items():
            column = cells.get(name, ())
            if not valid:
                _add(bad, name, _encoding_errors(column))
            columns[name], wrong = convert(column)
            _add(bad, name, wrong)
        return columns


def _keep(cells: Sequence[str]) -> tuple[list[str], dict[int, str]]:
    return list(cells), {}


def _add(bad: dict[int, str], name: str, wrong: dict[int, str]) -> None:
    """Add what is wrong with cells of a column, for rows that have been fine so far."""
    for row, text in wrong.items():
        bad.setdefault(row, f"{name}: {text}")


def _is_utf8(block: bytes) -> bool:
    try:
        block.decode()
    except UnicodeDecodeError:
        return False
    return True


def _encoding_errors(cells: Sequence[str]) -> dict[int, str]:
    bad: dict[int, str] = {}
    for row, cell in enumerate(cells):
        try:
            check_encoding(cell)
        except ValueError as error:
            bad[row] = str(error)
    return bad


# --- the beginning of a file


def _check_text(path: Path, block: bytes) -> None:
    """Raise if a file that begins like this is not text in UTF-8."""
    for start, what in _OTHER_FILES:
        if block.startswith(start):
            raise LogError(f"{path}: expected a table in a text file, got {what}")
    if block.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise LogError(f"{path}: expected text in UTF-8, got UTF-16: {_iconv(path, 'utf-16')}")
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
            f"{_iconv(path, 'latin1')}"
        ) from error


def _iconv(path: Path, encoding: str) -> str:
    return f"iconv -f {encoding} -t utf-8 {path.name} > utf8-{path.name}"


def _delimiter(first: str) -> str:
    """Return the delimiter that gives the first line the most cells."""
    return max(DELIMITERS, key=lambda d: len(next(csv.reader([first], delimiter=d), [])))


def _check_names(path: Path, names: Sequence[str]) -> None:
    """Raise if the first row holds values instead of names, or a name twice."""
    values = [name for name in names if is_number(name) or _is_iso(name)]
    twice = sorted({name for name in names if name and names.count(name) > 1})
    only_values = values and all(is_missing(name) or name in values for name in names)
    if only_values or any(map(_is_iso, names)) or set(twice) & set(values):
        raise LogError(
            f"{path}: expected the names of the columns first, got {list_names(names)}; put a row "
            "of names such as t,temperature,state on top"
        )
    if twice:
        raise LogError(f"{path}: expected distinct columns, got {twice} twice")


def _sample(names: Sequence[str], block: bytes, delimiter: str) -> Sample:
    text = io.StringIO(block.decode(errors="replace"), newline="")
    rows = [
        row
        for row in islice(csv.reader(text, delimiter=delimiter), SAMPLE_ROWS)
        if len(row) == len(names)
    ]
    return {
        name: [row[i] for row in rows if not is_missing(row[i])] for i, name in enumerate(names)
    }


def _numeric(sample: Sample) -> list[str]:
    """Return the columns that have a name and mostly hold numbers."""
    return [
        name
        for name, found in sample.items()
        if name and _is_majority(sum(map(is_feature, found)), found)
    ]


def _check_decimals(path: Path, sample: Sample, ignored: Collection[str | None]) -> None:
    """Raise if a column holds numbers with decimal commas, which nobody should guess.

    If it also has decimal points, it is a column of numbers of which some rows are wrong.
    """
    for name, found in sample.items():
        if name in ignored or any("." in cell for cell in found if is_number(cell)):
            continue
        commas = [cell for cell in found if is_comma_number(cell)]
        if commas and _is_majority(len(commas) + sum(map(is_number, found)), found):
            raise LogError(
                f"{path}: {name}: expected decimal points, got decimal commas ({commas[0]!r}); "
                f"write the file with points, such as by sed 's/,/./g' {path.name} > "
                f"points-{path.name} if nothing else in it has commas, or in pandas by "
                f"read_csv({path.name!r}, sep=None, decimal=',').to_csv(...)"
            )


def _times_are_texts(path: Path, name: str, cells: Sequence[str]) -> bool:
    """Return True if times are texts in ISO 8601; raise if none of them is a time at all."""
    if any(map(is_number, cells)) or not cells:
        return False
    if not any(map(_is_iso, cells)):
        raise LogError(
            f"{path}: {name}: expected times as numbers (--time-unit says in what) or as text like "
            f"2024-05-01T12:00:00, got {cells[0][:40]!r}"
        )
    return True


def _is_iso(cell: str) -> bool:
    """Return True if the cell is a time in ISO 8601, with hyphens."""
    if _ISO.fullmatch(cell) is None:
        return False
    try:
        datetime.fromisoformat(cell.strip())
    except ValueError:
        return False
    return True


def _is_majority(count: int, found: Sequence[str]) -> bool:
    return 2 * count > len(found)
