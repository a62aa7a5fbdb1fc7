"""Parquet files: a row for each reading."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from streamlvq.config import Fields
from streamlvq.connect import Log
from streamlvq.errors import MissingExtraError
from streamlvq.events import Readings
from streamlvq.payloads.values import UNITS_PER_SECOND
from streamlvq_connectors.files import LogError
from streamlvq_connectors.tables import (
    RowReader,
    check_roles,
    choose_features,
    unused_columns,
    unused_columns_note,
)

_BATCH_ROWS = 1 << 14


class ParquetLog(Log):
    """A table in a Parquet file; needs the extra `parquet` (pyarrow).

    Columns of numbers and booleans are features; nulls are missing. A
    time may be a timestamp, whatever its unit, text in ISO 8601, or a number in the unit that
    `fields` says. Row groups are read one after the other, so that memory is that of the largest.

    Parameters
    ----------
    path
        The file.
    fields
        Which columns are features, label, time, sequence number and device. All that are named
        must be there.
    """

    def __init__(self, path: Path, fields: Fields | None = None) -> None:
        super().__init__(path, fields)
        self._file: Any = None
        self._batches: Iterator[Any] = iter(())
        self._refused: list[str] = []
        self.notes: list[str] = []  # for the user: how columns were interpreted
        self._done = (0, 0)

    @classmethod
    def recognises(cls, name: str, head: bytes) -> bool:
        """Return True if the file begins as Parquet files do."""
        return head.startswith(b"PAR1")

    def open(self) -> None:
        """Prepare to read from the start; raise LogError if it is not a Parquet file."""
        try:
            import pyarrow  # noqa: PLC0415
            import pyarrow.parquet  # noqa: PLC0415
        except ImportError as error:
            raise MissingExtraError("pyarrow", "parquet") from error
        self.close()
        self._refused = []
        try:
            self._file = pyarrow.parquet.ParquetFile(self.path, memory_map=False)
        except pyarrow.ArrowInvalid as error:
            raise LogError(f"{self.path}: expected a Parquet file, got {error}") from error
        try:
            self._plan(self._file.schema_arrow, pyarrow.types)
        except LogError:
            self.close()
            raise
        self._done = (0, self.path.stat().st_size)
        self._row = 0
        self._batches = self._all_batches()

    def _plan(self, schema: Any, types: Any) -> None:
        fields = Fields() if self.fields is None else self.fields
        others = {fields.label, fields.time, fields.sequence, fields.device}
        numeric = [
            field.name
            for field in schema
            if types.is_integer(field.type)
            or types.is_floating(field.type)
            or types.is_decimal(field.type)
            or types.is_boolean(field.type)
        ]
        check_roles(self.path, fields, schema.names)
        features = choose_features(self.path, fields, schema.names, numeric)
        self.unused = unused_columns(fields, schema.names, features)
        self.notes = unused_columns_note(self.unused)
        self._names = [n for n in schema.names if n in others or n in features]
        self._times = {
            field.name: field.type.unit for field in schema if types.is_timestamp(field.type)
        }
        self._fields = fields
        self._iso = fields.time not in self._times and (
            fields.time_unit == "iso" or self._is_text(schema, types, fields.time)
        )
        self._reader = RowReader(fields, features, self._iso)

    def _is_text(self, schema: Any, types: Any, name: str | None) -> bool:
        """Return True, and add a note, if times are text: it can only be ISO 8601."""
        if name is None:
            return False
        kind = schema.field(name).type
        if not (types.is_string(kind) or types.is_large_string(kind)):
            return False
        self.notes.append(f"{name}: times are texts (ISO 8601), read as such")
        return True

    def _all_batches(self) -> Iterator[Any]:
        """Yield batches; update the progress after each row group."""
        metadata = self._file.metadata
        sizes = [
            sum(
                metadata.row_group(i).column(j).total_compressed_size
                for j in range(metadata.num_columns)
            )
            for i in range(metadata.num_row_groups)
        ]
        for i, size in enumerate(sizes):
            yield from self._file.iter_batches(_BATCH_ROWS, row_groups=[i], columns=self._names)
            self._done = (min(self._done[0] + size, self._done[1]), self._done[1])

    def read(self) -> Readings | None:
        """Return the next rows; None at the end."""
        if self._file is None:
            raise LogError(f"{self.path}: expected an open log, got one that is not: call open()")
        self._refused = []
        batch = next(self._batches, None)
        if batch is None:
            self._done = (self._done[1], self._done[1])
            return None
        columns = {name: self._column(name, batch.column(name)) for name in self._names}
        readings, bad = self._reader.readings(columns, {})
        self._refused = [f"row {self._row + i + 1}: {text}" for i, text in bad.items()]
        self._row += batch.num_rows
        return readings

    def _column(self, name: str, column: Any) -> Any:
        """Convert features to floats and times to seconds; leave the rest as it is."""
        if name in self._reader.features:
            return _floats(column)
        if name == self._fields.time and name in self._times:
            return _seconds(column, self._times[name])
        if name == self._fields.time and not self._iso:
            return _seconds(column, self._fields.time_unit)
        return column.to_pylist()

    @property
    def progress(self) -> tuple[int, int]:
        """Bytes of the row groups read so far, and of the file."""
        return self._done

    @property
    def refused(self) -> list[str]:
        """What was wrong with rows of the last batch, with their numbers from 1."""
        return self._refused

    def close(self) -> None:
        """Close the file, if it is open."""
        if self._file is not None:
            self._file.close()
            self._file = None
            self._batches = iter(())


def _floats(column: Any) -> Any:
    """Return numbers as floats, nulls as NaN."""
    if str(column.type) == "halffloat":
        return np.array(column.to_pylist(), np.float64)
    return column.cast("float64").fill_null(np.nan).to_numpy(zero_copy_only=False)


def _seconds(column: Any, unit: str) -> Any:
    """Convert times to seconds; whole seconds first, since floats cannot hold nanoseconds."""
    if "int" not in str(column.type) and "timestamp" not in str(column.type):
        return _floats(column) / UNITS_PER_SECOND[unit]
    missing = column.is_null().to_numpy(zero_copy_only=False)
    times = column.cast("int64").fill_null(0).to_numpy(zero_copy_only=False)
    seconds = (
        times // UNITS_PER_SECOND[unit] + times % UNITS_PER_SECOND[unit] / UNITS_PER_SECOND[unit]
    )
    return np.where(missing, np.nan, seconds)
