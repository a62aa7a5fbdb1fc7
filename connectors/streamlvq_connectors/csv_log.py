"""Rows of comma-separated values."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

from streamlvq.config import Fields
from streamlvq.connect import Message
from streamlvq.events import Readings
from streamlvq_connectors.block_log import BlockLog
from streamlvq_connectors.cells import Texts, is_number, no_text, to_label, to_number
from streamlvq_connectors.csv_head import (
    Cells,
    check_decimals,
    check_names,
    check_text,
    delimiter_of,
    numeric,
    sample,
    times_are_texts,
)
from streamlvq_connectors.files import Blocks, LogError, to_text
from streamlvq_connectors.kinds import NUMBER, SKIP, TEXT
from streamlvq_connectors.rows import SHIFTS, RowReader, check_roles, features_of, left_out
from streamlvq_connectors.scanner import Scan, Scanner


class CsvLog(BlockLog):
    """A table in a text file: a row of names, then a row for each reading.

    Cells are separated by commas, semicolons or tabs, whichever gives the first row the most cells,
    and may be in double quotes. Empty cells, and those that say nan, null, none, na or n/a, are
    missing. Decimals have a point; a file with decimal commas is refused. Times that are texts are
    taken for ISO 8601, whatever `fields.time_unit` says.

    Without `fields.features` the features are the columns that are nothing else and mostly numbers
    in the first 1000 rows. Columns without a name are left out, as is the index that pandas writes.
    Labels that are written like whole numbers are whole numbers, as in JSON. Rows that make no
    sense are refused one by one.

    Parameters
    ----------
    path
        The file, in UTF-8; one that ends in `.gz` is compressed.
    fields
        Which columns are features, label, time, sequence number and device. All that are named
        must be there.

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

    @classmethod
    def recognises(cls, name: str, head: bytes) -> bool:
        """By its name, or because its first line has names and delimiters."""
        if name.removesuffix(".gz").endswith((".csv", ".tsv")):
            return True
        try:
            first = head.partition(b"\n")[0].decode("utf-8-sig").rstrip("\r")
        except UnicodeDecodeError:
            return False
        cells = first.split(delimiter_of(first))
        printable = first.replace("\t", " ").isprintable()
        return len(cells) > 1 and printable and not any(map(is_number, cells))

    def begin(self, blocks: Blocks) -> None:
        """Read the names and find out what is in each column."""
        block = blocks.next()
        check_text(self.path, block)
        try:
            self._names, self._delimiter, used = self._header(block)
            while len(block) == used and not blocks.final:
                blocks.keep(block)
                block = blocks.next()
            rows = block[used:]
            cells = sample(self._names, rows, self._delimiter)
        except csv.Error as error:
            raise LogError(f"{self.path}: expected a table, got one with {error}") from error
        blocks.give_back(rows)
        self._plan(Fields() if self.fields is None else self.fields, cells, bool(rows))

    def _header(self, block: bytes) -> tuple[list[str], str, int]:
        """The names, what separates them, and how many bytes they take."""
        try:
            text = block.decode()
        except UnicodeDecodeError as error:
            text = block[: error.start].decode()  # later rows are refused by themselves
        delimiter = delimiter_of(text.partition("\n")[0])
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
        names = [name.strip() for name in next(reader, [])]
        check_names(self.path, names)
        lines = text.split("\n", reader.line_num)[:-1]
        return names, delimiter, sum(len(line.encode()) + 1 for line in lines)

    def _plan(self, fields: Fields, cells: Cells, some: bool) -> None:
        """Which cell is what; `some`: whether there are rows."""
        names, iso, features = self._names, fields.time_unit == "iso", list[str]()
        if names:
            check_roles(self.path, fields, names)
        if some:
            check_decimals(self.path, cells, {"", fields.label, fields.device, fields.sequence})
            if fields.time is not None and not iso:
                iso = times_are_texts(self.path, fields.time, cells[fields.time])
                self.notes += [f"{fields.time}: times are texts (ISO 8601), read as such"] * iso
        if some or (names and fields.features is not None):
            features = features_of(self.path, fields, names, numeric(cells))
        if some:
            self.notes += left_out(fields, names, features)
        elif names:
            self.notes.append("the file has the names of its columns, but no row after them")
        self._prepare(fields, features, iso)

    def _prepare(self, fields: Fields, features: list[str], iso: bool) -> None:
        numbers, texts = set(features), {fields.label, fields.sequence, fields.device}
        (texts if iso else numbers).add(fields.time or "")
        self._kinds = [
            NUMBER if n in numbers - {""} else TEXT if n in texts - {""} else SKIP
            for n in self._names
        ]
        shift = 0 if iso else SHIFTS.get(fields.time_unit, 0)
        self._shifts = [shift if n == fields.time else 0 for n in self._names]
        self._label = fields.label
        self._scanner = Scanner(
            self._kinds, separators=self._delimiter.encode(), shifts=self._shifts
        )
        self._reader = RowReader(fields, features, iso)

    def batch(self, block: bytes) -> Sequence[Message] | Readings:
        """The readings in these rows."""
        blocks = self.blocks
        found = self._scanner.scan_next(block, blocks)
        columns = self._columns(found)
        bad = self._look_closely(found, columns)
        readings, bad = self._reader.readings(columns, bad)
        numbers = found.line_numbers(blocks.line, list(bad))
        for row, text in bad.items():
            self.refuse(numbers[row], text)
        return readings

    def _columns(self, found: Scan) -> dict[str, Any]:
        columns: dict[str, Any] = {}
        number = text = 0
        for name, kind in zip(self._names, self._kinds, strict=True):
            if kind == NUMBER:
                columns[name] = found.numbers[:, number]
                number += 1
            elif kind == TEXT:
                convert = to_label if name == self._label else str
                columns[name] = Texts(convert).all(found.texts(text))
                text += 1
        return columns

    def _look_closely(self, found: Scan, columns: dict[str, Any]) -> dict[int, str]:
        """Read odd rows one by one; gives what is wrong with those that cannot be."""
        bad = no_text(columns, found.block)
        for row in found.odd:
            try:
                for name, value in self._cells(found.line(row)):
                    columns[name][row] = value
            except ValueError as error:
                bad[row] = str(error)
        return bad

    def _cells(self, line: bytes) -> list[tuple[str, Any]]:
        reader = csv.reader(io.StringIO(to_text(line), newline=""), delimiter=self._delimiter)
        try:
            cells = next(reader)
        except csv.Error as error:
            raise ValueError(f"{error}: {line[:80]!r}") from None
        if len(cells) != len(self._names):
            raise ValueError(f"expected {len(self._names)} cells, got {len(cells)}: {line[:80]!r}")
        values: list[tuple[str, Any]] = []
        for name, kind, shift, cell in zip(
            self._names, self._kinds, self._shifts, cells, strict=True
        ):
            if kind == NUMBER:
                try:
                    values.append((name, to_number(cell, shift)))
                except ValueError as error:
                    raise ValueError(f"{name}: {error}") from None
            elif kind == TEXT:
                values.append((name, to_label(cell) if name == self._label else cell))
        return values
