"""Rows in InfluxDB's line protocol."""

from __future__ import annotations

import re
from itertools import islice
from typing import Any

import msgspec
import numpy as np

from streamlvq.config import Fields
from streamlvq.events import Readings
from streamlvq_connectors.block_log import BlockLog
from streamlvq_connectors.cells import no_text, to_label, to_number
from streamlvq_connectors.files import BOM, Blocks, LogError, to_text
from streamlvq_connectors.influx_template import MEASUREMENT, TIMESTAMP, Template
from streamlvq_connectors.line_protocol import Point, parse_line, split_line
from streamlvq_connectors.rows import SHIFTS, RowReader, features_of
from streamlvq_connectors.scanner import Scan

_SAMPLE = 250  # lines to find out which fields there are
_LINE = re.compile(rb'[^\s{}\[\]"]+ +[^\s={}\[\]"]+=\S')
# Between 1973 and 5138 the number of digits tells the unit.
_PRECISIONS = ((10**11, 0), (10**14, -3), (10**17, -6))
_COMMENT = ""  # what is wrong with a comment
_DEVICE = "the device"


class InfluxLog(BlockLog):
    """A file in InfluxDB's line protocol, as its export and Telegraf's file output write it.

    Tags and fields are columns. The features are those fields that are numbers in the first 250
    lines, unless `fields` names them; one that a line does not have is missing there. The device is
    the tag (or field) that `fields.device` names; if it names none the tag `device`, and where
    there is no such tag, the measurement. The time is the timestamp unless `fields.time` names a
    field. Timestamps are in nanoseconds, or in micro-, milli- or whole seconds if the first one has
    as few digits as that. Tags are texts, but a label that is written like a whole number is one.

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
        """By its name, or because the first line that is no comment is such a line."""
        if name.removesuffix(".gz").endswith((".lp", ".influx", ".line")):
            return True
        lines = head.removeprefix(BOM).split(b"\n")
        first = next((line for line in lines if line.strip() and line[:1] != b"#"), b"")
        return _LINE.match(first) is not None

    def begin(self, blocks: Blocks) -> None:
        """Find out which fields there are, and how the first line is made."""
        block = blocks.next()
        blocks.give_back(block)
        lines = [line for line in block[: 1 << 18].split(b"\n") if line.strip()]
        pairs = ((line, point) for line in lines if (point := _try(line)) is not None)
        points = list(islice(pairs, _SAMPLE))
        if lines and not points:
            raise LogError(
                f"{self.path}: expected lines like 'pump,site=a x=1.5 1700000000000000000', "
                f"got {lines[0][:80]!r}"
            )
        self._fields = Fields() if self.fields is None else self.fields
        self._plan([point for _, point in points])
        self._template: Template | None = None
        if points:
            first = split_line(points[0][0].decode().rstrip("\r"))
            self._template = Template(first, self._numbers, self._others, self._shifts)

    def _plan(self, points: list[Point]) -> None:
        """Which columns are wanted, and what for."""
        fields = self._fields
        names = list(dict.fromkeys(key for p in points for key in (*p.tags, *p.fields)))
        features = features_of(self.path, fields, names, _numeric(points)) if points else []
        time, device = fields.time or TIMESTAMP, fields.device or _DEVICE
        self._shifts = {TIMESTAMP: _precision(points), time: SHIFTS.get(fields.time_unit, 0)}
        if fields.time is None:
            self._shifts[time] = _precision(points)
        self._others = [
            name
            for name in (fields.label, fields.sequence, fields.time, fields.device or "device")
            if name is not None
        ]
        iso = fields.time is not None and fields.time_unit == "iso"
        self._numbers = {*features, *(() if iso else (time,))}
        self._reader = RowReader(
            msgspec.structs.replace(fields, time=time, device=device), features, iso
        )

    def batch(self, block: bytes) -> Readings:
        """The readings in these lines."""
        if self._template is None:
            return self._reader.readings({}, {})[0]
        blocks = self.blocks
        found = self._template.scanner.scan_next(block, blocks)
        columns, doubtful = self._columns(found, self._template)
        bad = self._look_closely(found, doubtful, columns)
        if self._fields.device is None:
            pairs = zip(columns["device"], columns[MEASUREMENT], strict=True)
            columns[_DEVICE] = [tag or measurement for tag, measurement in pairs]
        readings, bad = self._reader.readings(columns, bad)
        numbers = found.line_numbers(blocks.line, list(bad))
        for row, text in bad.items():
            if text != _COMMENT:
                self.refuse(numbers[row], text)
        return readings

    def _columns(self, found: Scan, template: Template) -> tuple[dict[str, Any], list[int]]:
        """The columns, and the rows to be looked at by themselves."""
        columns, doubtful = template.columns(found)
        for name in (*self._numbers, *self._others, MEASUREMENT):
            if name not in columns:
                count = len(found)
                columns[name] = np.full(count, np.nan) if name in self._numbers else [None] * count
        return columns, doubtful

    def _look_closely(
        self, found: Scan, rows: list[int], columns: dict[str, Any]
    ) -> dict[int, str]:
        """Read lines one by one; gives what is wrong with those that cannot be."""
        bad = no_text(columns, found.block)
        for row in rows:
            line = found.line(row)
            try:
                if line.startswith(b"#"):
                    bad[row] = _COMMENT
                else:
                    self._put(parse_line(to_text(line)), row, columns)
            except ValueError as error:
                bad[row] = str(error)
        return bad

    def _put(self, point: Point, row: int, columns: dict[str, Any]) -> None:
        columns[MEASUREMENT][row] = point.measurement
        for name in self._numbers:
            columns[name][row] = self._number(point, name)
        for name in self._others:
            if name not in self._numbers:
                columns[name][row] = self._other(point, name)

    def _number(self, point: Point, name: str) -> float:
        value: Any = point.time if name == TIMESTAMP else point.fields.get(name)
        if value is None:
            value = point.tags.get(name, "")
        if isinstance(value, str) and name in point.fields:
            raise ValueError(f"{name}: expected a number, got {value[:80]!r}")
        return to_number(str(float(value) if isinstance(value, bool) else value), self._shift(name))

    def _shift(self, name: str) -> int:
        return self._shifts.get(name, 0)

    def _other(self, point: Point, name: str) -> Any:
        if name in point.fields:
            return point.fields[name]
        tag = point.tags.get(name)
        return to_label(tag) if tag is not None and name == self._fields.label else tag


def _try(line: bytes) -> Point | None:
    try:
        return None if line.startswith(b"#") else parse_line(line.decode().rstrip("\r"))
    except ValueError:
        return None


def _numeric(points: list[Point]) -> list[str]:
    """The fields that are always numbers."""
    kinds: dict[str, set[type]] = {}
    for point in points:
        for key, value in point.fields.items():
            kinds.setdefault(key, set()).add(type(value))
    return [key for key, found in kinds.items() if found <= {int, float}]


def _precision(points: list[Point]) -> int:
    """The power of ten that makes seconds of timestamps, by the size of the first one."""
    first = next((abs(point.time) for point in points if point.time is not None), 0)
    return next((shift for limit, shift in _PRECISIONS if 0 < first < limit), -9)
