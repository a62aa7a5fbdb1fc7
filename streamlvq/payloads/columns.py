"""Readings from named columns, as in a table, by the same rules as payloads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from streamlvq.arrays import Rows
from streamlvq.config import Fields
from streamlvq.events import Readings, Refused
from streamlvq.kernels.layout import LARGEST_VALUE
from streamlvq.paths import FieldsError
from streamlvq.payloads import values
from streamlvq.payloads.routing import NO_PLACEHOLDERS, GroupOf
from streamlvq.payloads.values import (
    RefusedError,
    to_device,
    to_feature,
    to_label,
    to_sequence,
    to_time,
)

Column = Sequence[Any] | npt.NDArray[Any]
RefusedRows = dict[int, Refused]

_NUMBERS = {int, float, bool, type(None)}


def readings(
    fields: Fields, columns: Mapping[str, Column], group_of: GroupOf | None = None
) -> tuple[Readings, list[Refused]]:
    """Return the readings in a table's rows and the refused rows, both in row order.

    Names are column names, not paths. Columns for label, time, sequence number and device may be
    absent; features may not. Without `fields.features`, every column of numbers, true and false, or
    of text that is numbers, is a feature if it has no other role, in column order. A reading from a
    table cannot be delivered twice, so it has no key. `columns` maps names to lists or arrays of
    equal length, with None or NaN for missing values; `group_of` is as
    `streamlvq.payloads.group_of(config)`, None for one shared model.

    Examples
    --------
    >>> import numpy as np
    >>> from streamlvq.config import Fields
    >>> from streamlvq.payloads.columns import readings
    >>> table = {"t": [0.5, 1.5, 2.5], "x": np.array([1.0, np.inf, 3.0]), "state": ["on", None, ""]}
    >>> found, refused = readings(Fields(time="t", label="state"), table)
    >>> found.features, found.rows.tolist(), found.labels, found.sources
    (('x',), [[1.0], [3.0]], ['on', None], [0, 2])
    >>> [(one.source, one.text) for one in refused]
    [(1, 'x: expected a finite number of at most 1e+60, got inf')]

    """
    count = _length(columns)
    refused: RefusedRows = {}
    names = _features(fields, columns)
    rows = np.empty((count, len(names)))
    for j, name in enumerate(names):
        rows[:, j] = _feature_column(name, columns[name], refused)
    _refuse_empty(rows, names, refused)

    def column(name: str | None, check: Any, convert: Any) -> list[Any] | None:
        if name is None or name not in columns:
            return None
        return _convert_column(name, columns[name], check, convert, refused)

    unit = fields.time_unit
    labels = column(fields.label, values.labels, to_label)
    times = column(fields.time, values.times(unit), to_time(unit))
    sequences = column(fields.sequence, values.sequences, to_sequence)
    devices = column(fields.device, values.all_devices, to_device)
    kept = range(count) if not refused else [i for i in range(count) if i not in refused]

    def chosen(values: list[Any] | None) -> list[Any] | None:
        return values if values is None or len(kept) == count else [values[i] for i in kept]

    found = Readings.of(
        names,
        rows if len(kept) == count else rows[list(kept)],
        devices=chosen(devices),
        labels=chosen(labels),
        times=chosen(times),
        sequences=chosen(sequences),
        sources=kept,
    )
    if group_of is not None:
        found.groups = [group_of(device, NO_PLACEHOLDERS) for device in found.devices]
    return found, sorted(refused.values())


def _length(columns: Mapping[str, Column]) -> int:
    """Return the common length of the columns."""
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) != 1:
        raise FieldsError(f"expected columns of the same length, got {lengths}")
    return next(iter(lengths.values()))


def _features(fields: Fields, columns: Mapping[str, Column]) -> tuple[str, ...]:
    """Return the names of the feature columns."""
    if fields.features is not None:
        for name in fields.features:
            if name not in columns:
                raise FieldsError(f"expected a column {name!r}, got {list(columns)}")
        return tuple(fields.features)
    others = (fields.label, fields.time, fields.sequence, fields.device)
    names = [n for n, column in columns.items() if n not in others and _is_numeric(column)]
    if not names:
        raise FieldsError(f"expected a column of numbers, got {list(columns)}")
    return tuple(names)


def _is_numeric(column: Column) -> bool:
    if isinstance(column, np.ndarray):
        if column.dtype.kind != "O":
            return column.dtype.kind in "fiub"
        column = column.tolist()
    kinds = set(map(type, column))
    if str in kinds:
        texts = {value for value in column if isinstance(value, str)}
        texts = {text for text in texts if not values.is_missing(text)}
        if not all(map(values.is_number, texts)):
            return False
        kinds = kinds - {str} | {float if texts else type(None)}
    return kinds <= _NUMBERS and kinds != {type(None)}


def _feature_column(name: str, column: Column, refused: RefusedRows) -> Rows:
    """Return a feature column as floats; NaN where a value is missing or refused."""
    numeric = isinstance(column, np.ndarray) and column.dtype.kind in "fiub"
    if not numeric:
        column = _to_list(column)
        if not set(map(type, column)) <= _NUMBERS:
            return np.array(_convert_each(name, column, to_feature, refused), dtype=np.float64)
    try:
        numbers = np.array(column, dtype=np.float64)
    except OverflowError:  # an integer that is larger than any float
        return np.array(
            _convert_each(name, _to_list(column), to_feature, refused), dtype=np.float64
        )
    for i in np.flatnonzero(np.abs(numbers) > LARGEST_VALUE).tolist():
        _convert_each(name, [numbers[i].item()], to_feature, refused, i)
    return numbers


def _refuse_empty(rows: Rows, names: tuple[str, ...], refused: RefusedRows) -> None:
    for i in np.flatnonzero(np.isnan(rows).all(axis=1)).tolist():
        some = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
        text = f"expected at least one feature ({some}), got none"
        refused.setdefault(i, Refused(i, "field", text, "no feature"))


def _convert_column(
    name: str, column: Column, check: Any, convert: Callable[[str, Any], Any], refused: RefusedRows
) -> list[Any]:
    values = _to_list(column)
    try:
        checked: list[Any] = check(name, values) if values else values
        return checked
    except RefusedError:
        return _convert_each(name, values, convert, refused)


def _convert_each(
    name: str,
    values: list[Any],
    convert: Callable[[str, Any], Any],
    refused: RefusedRows,
    start: int = 0,
) -> list[Any]:
    converted: list[Any] = []
    for i, value in enumerate(values, start):
        try:
            converted.append(convert(name, value))
        except RefusedError as error:
            refused.setdefault(i, error.at(i))
            converted.append(None)
    return converted


def _to_list(column: Column) -> list[Any]:
    if isinstance(column, np.ndarray):
        if column.dtype.kind == "M":  # as datetime objects; floats of seconds are not finer
            column = column.astype("datetime64[us]")
        values: list[Any] = column.tolist()
        return values
    return column if isinstance(column, list) else list(column)
