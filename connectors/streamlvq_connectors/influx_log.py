"""Files in InfluxDB's line protocol."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import islice
from typing import Any

import msgspec
import numpy as np

from streamlvq.config import Fields
from streamlvq.events import Readings
from streamlvq.payloads.values import is_number
from streamlvq_connectors.files import BOM, LINE_MAX_BYTES, BlockLog, Blocks, LogError
from streamlvq_connectors.line_protocol import (
    Head,
    LineColumns,
    Point,
    ends_in_string,
    field_value,
    parse_line,
    split_columns,
    split_line,
    unescape,
)
from streamlvq_connectors.tables import (
    TIME_EXPONENTS,
    RowReader,
    check_encoding,
    choose_features,
    to_label,
    to_number,
    to_numbers,
)

SAMPLE_LINES = 250  # looked at to find out which fields there are
TIMESTAMP_COLUMN, DEVICE_COLUMN = (
    "the timestamp",
    "the device",
)  # columns that are neither tag nor field

_LINE_START = re.compile(rb'[^\s{}\[\]"]+ +[^\s={}\[\]"]+=\S')
_INTEGERS = re.compile(r"(?:(?:[+-]?\d{1,20}i)?+,)*+(?:[+-]?\d{1,20}i)?+", re.ASCII)
# Between 1973 and 5138 the number of digits tells the unit.
_PRECISIONS = ((10**11, 0), (10**14, -3), (10**17, -6))


class InfluxLog(BlockLog):
    """A file in InfluxDB's line protocol, as its export and Telegraf's file output write it.

    Tags and fields are columns. The features are those fields that are numbers, true or false in
    the first 250 lines, unless `fields` names them; one that a line does not have is missing there.
    The device is the tag (or field) that `fields.device` names; if it names none the tag `device`,
    and where there is no such tag, the measurement. The time is the timestamp unless `fields.time`
    names a field. Timestamps are in nanoseconds, or in micro-, milli- or whole seconds if the first
    one has as few digits as that. Tags are texts, but a label that is written like a whole number
    is one.

    Parameters
    ----------
    path
        The file; one that ends in `.gz` is compressed.
    fields
        Which columns are features, label, time, sequence number and device.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "log.lp"
    >>> size = path.write_text('pump,site=leeds x=1.5,n=2i,state="on" 1700000000250000000\\n')
    >>> log = InfluxLog(path, Fields(label="state"))
    >>> log.open()
    >>> found = log.read()
    >>> found.features, found.rows.tolist(), found.devices, found.labels, found.times
    (('x', 'n'), [[1.5, 2.0]], ['pump'], ['on'], [1700000000.25])
    >>> log.close()
    """

    @classmethod
    def recognises(cls, name: str, head: bytes) -> bool:
        """Return True if the name says so, or the first line is line protocol."""
        if name.removesuffix(".gz").endswith((".lp", ".influx", ".line")):
            return True
        lines = head.removeprefix(BOM).split(b"\n")
        first = next((line for line in lines if line.strip() and line[:1] != b"#"), b"")
        return _LINE_START.match(first) is not None

    def begin(self, blocks: Blocks) -> None:
        """Find the fields in the first lines."""
        block = blocks.next()
        blocks.give_back(block)
        lines = [line for line in block[: 1 << 18].split(b"\n") if line.strip()]
        parsed = (point for line in lines if (point := _try(line)) is not None)
        points = list(islice(parsed, SAMPLE_LINES))
        if lines and not points:
            raise LogError(
                f"{self.path}: expected lines like 'pump,site=a x=1.5 1700000000000000000', "
                f"got {lines[0][:80]!r}"
            )
        self._fields = Fields() if self.fields is None else self.fields
        self._plan(points)

    def _plan(self, points: list[Point]) -> None:
        """Decide which columns are used, and what for."""
        fields = self._fields
        names = list(dict.fromkeys(key for p in points for key in (*p.tags, *p.fields)))
        features = choose_features(self.path, fields, names, _numeric(points)) if points else []
        iso = fields.time is not None and fields.time_unit == "iso"
        self._numbers = set(features)
        if fields.time is not None and not iso:
            self._numbers.add(fields.time)
        self._others = {
            name
            for name in (fields.label, fields.sequence, fields.time, fields.device)
            if name is not None and name not in self._numbers
        }
        self._time_exponent = TIME_EXPONENTS.get(fields.time_unit, 0)
        self._timestamp_exponent = _precision(points)
        time, device = fields.time or TIMESTAMP_COLUMN, fields.device or DEVICE_COLUMN
        self._reader = RowReader(
            msgspec.structs.replace(fields, time=time, device=device), features, iso
        )

    def batch(self, block: bytes) -> Readings:
        """Return the readings of these lines."""
        numbers, columns = self._records(block)
        bad: dict[int, str] = {}
        readings, bad = self._reader.readings(self._converted(columns, bad), bad)
        for row, text in bad.items():
            self.refuse(numbers[row], text)
        return readings

    def _records(self, block: bytes) -> tuple[list[int], LineColumns]:
        """Split lines; also return the number of the line where each record begins.

        Most lines are split by columns. The others are split one by one, and refused if they make
        no sense. A string may go on in the next line, and in the next block.
        """
        text = block.decode(errors="surrogateescape")
        lines = text.split("\n")[:-1]
        stripped = [line.rstrip("\r") for line in lines] if "\r" in text else lines
        columns = split_columns(stripped, self._numbers | self._others)
        heads = columns.heads
        final = self.blocks.final or len(block) > LINE_MAX_BYTES
        first = self.blocks.line
        end = 0
        for at in [line for line, head in enumerate(heads) if head is None]:
            if at < end:
                continue  # in a string
            end = _record_end(lines, at)
            if end > len(lines):
                if not final:
                    self.blocks.keep(_joined(lines[at:]))
                    heads[at:] = [None] * (len(lines) - at)
                    break
                end = at + 1  # never closed: costs this line only
            record = "\n".join(lines[at:end]).rstrip("\r")
            heads[at:end] = [None] * (end - at)
            if record and record[0] != "#":
                try:
                    columns.add(at, split_line(record))
                except ValueError as error:
                    self.refuse(first + at, str(error))
        used, found = columns.compact()
        return [first + line for line in used], found

    def _converted(self, columns: LineColumns, bad: dict[int, str]) -> dict[str, Any]:
        """Convert the columns that are used; add what is wrong with rows to `bad`."""
        converted: dict[str, Any] = {}
        for name in self._numbers:
            converted[name] = self._number_column(name, columns, bad)
        for name in self._others:
            tags = [head.tags.get(name) for head in columns.heads]
            cells = list(zip(columns.fields[name], tags, strict=True))
            converted[name] = _each(partial(self._other, name), cells, bad)
        if self._fields.time is None:
            converted[TIMESTAMP_COLUMN], _ = to_numbers(columns.times, self._timestamp_exponent)
        if self._fields.device is None:
            converted[DEVICE_COLUMN] = _each(_device, columns.heads, bad)
        return converted

    def _number_column(self, name: str, columns: LineColumns, bad: dict[int, str]) -> Any:
        exponent = self._time_exponent if name == self._fields.time else 0
        cells = columns.fields[name]
        texts = [cell for cell in cells if cell is not None]
        if len(texts) < len(cells):
            tags = (head.tags.get(name, "") for head in columns.heads)
            texts = [cell or tag for cell, tag in zip(cells, tags, strict=True)]
        numbers, wrong = _to_numbers(texts, exponent)
        for row in wrong:  # typed values, such as 2i and true; or indeed no number
            try:
                numbers[row] = _number(name, cells[row], texts[row], exponent)
            except ValueError as error:
                bad.setdefault(row, str(error))
        return numbers

    def _other(self, name: str, cell: tuple[str | None, str | None]) -> Any:
        field, tag = cell
        if field is not None:
            value = field_value(field, name)
        elif tag is not None:
            value = unescape(tag)
        else:
            return None
        if isinstance(value, str):
            check_encoding(value)
            if name == self._fields.label and field is None:
                return to_label(value)
        return value


def _joined(lines: list[str]) -> bytes:
    return "".join(line + "\n" for line in lines).encode(errors="surrogateescape")


def _record_end(lines: list[str], at: int) -> int:
    """Return where a record that begins at `at` ends; more than there are lines if it is open."""
    end = at + 1
    if '"' not in lines[at] or lines[at][:1] == "#":
        return end
    inside = ends_in_string(lines[at])
    while inside and end < len(lines):
        inside = ends_in_string(lines[end], inside)
        end += 1
    return end + inside


def _each(convert: Callable[[Any], Any], cells: Iterable[Any], bad: dict[int, str]) -> list[Any]:
    """Convert a column, equal cells only once; add what is wrong to `bad`."""
    known: dict[Any, Any] = {}
    values: list[Any] = []
    for row, cell in enumerate(cells):
        if cell not in known:
            try:
                known[cell] = convert(cell)
            except ValueError as error:
                bad.setdefault(row, str(error))
                values.append(None)
                continue
        values.append(known[cell])
    return values


def _device(head: Head) -> str:
    device = unescape(head.tags.get("device") or head.measurement)
    check_encoding(device)
    return device


def _to_numbers(cells: Sequence[str], exponent: int) -> tuple[Any, dict[int, str]]:
    """Convert a column as `to_numbers` does, or one of integers such as 2i."""
    first = next(filter(None, cells), "")
    if first[-1:] != "i" or not _INTEGERS.fullmatch(",".join(cells)):
        return to_numbers(cells, exponent)
    divisor = 10**-exponent  # division of integers rounds once
    numbers = [int(cell[:-1]) / divisor if cell else math.nan for cell in cells]
    return np.array(numbers, np.float64), {}


def _number(name: str, field: str | None, text: str, exponent: int) -> float:
    if field is None:
        return to_number(unescape(text), exponent)
    value = field_value(field, name)
    if isinstance(value, str) and not is_number(value):
        raise ValueError(f"{name}: expected a number, got {value[:80]!r}")
    return to_number(str(float(value) if isinstance(value, bool) else value), exponent)


def _try(line: bytes) -> Point | None:
    try:
        return None if line.startswith(b"#") else parse_line(line.decode().rstrip("\r"))
    except ValueError:
        return None


def _numeric(points: list[Point]) -> list[str]:
    """The fields that are always numbers: true and false are, and text such as "21.1"."""
    kinds: dict[str, set[type]] = {}
    for point in points:
        for key, value in point.fields.items():
            number = isinstance(value, str) and is_number(value)
            kinds.setdefault(key, set()).add(float if number else type(value))
    return [key for key, found in kinds.items() if found <= {int, float, bool}]


def _precision(points: list[Point]) -> int:
    """The power of ten that makes seconds of timestamps, by the size of the first one."""
    first = next((abs(point.time) for point in points if point.time is not None), 0)
    return next((shift for limit, shift in _PRECISIONS if 0 < first < limit), -9)
