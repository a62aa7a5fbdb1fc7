"""From payloads to columns: fast for many that are as they should be, with care for the others."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, pairwise
from typing import Any, NamedTuple

import msgspec
import numpy as np

from streamlvq.events import Label, Refused, Rows
from streamlvq.paths import ABSENT, pick
from streamlvq.payloads import checks
from streamlvq.payloads.layout import Layout
from streamlvq.payloads.structs import Shape, Uncompilable, shape_of
from streamlvq.payloads.values import (
    RefusedError,
    shorten,
    to_device,
    to_feature,
    to_label,
    to_sequence,
    to_time,
)

FEW = 8  # payloads that are looked at one by one when something is wrong among them

Decode = Callable[[bytes], Any]


class Reading(NamedTuple):
    """What one payload says."""

    features: tuple[str, ...]
    values: tuple[float, ...]
    label: Label | None
    time: float | None
    sequence: int | None
    device: str | None  # None: the payload does not say


@dataclass(slots=True)
class Table:
    """What payloads with the same features say; None for a column that is in none of them."""

    features: tuple[str, ...]
    rows: Rows
    labels: Sequence[Label | None] | None
    times: Sequence[float | None] | None
    sequences: Sequence[int | None] | None
    devices: Sequence[str | None] | None
    sources: Sequence[int]  # the positions of the payloads

    def take(self, positions: Sequence[int]) -> Table:
        """Some of the rows."""

        def chosen(column: Sequence[Any] | None) -> Any:
            return None if column is None else [column[i] for i in positions]

        columns = (self.labels, self.times, self.sequences, self.devices, self.sources)
        return Table(self.features, self.rows[positions], *map(chosen, columns))


@dataclass(slots=True)
class Read:
    """What came of a list of payloads: a table for all with the same features, and the refused."""

    tables: list[Table] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)


class Reader:
    """Reads the payloads of one layout.

    The fast way decodes a whole list into instances of a type made for the layout. If anything at
    all is unusual, the list is halved until few remain, and those are read with care: the two ways
    agree wherever the fast one succeeds.

    Parameters
    ----------
    layout
        What is wanted.
    decode
        Turns a payload into dictionaries, lists, numbers and text.
    compile
        Makes a faster such function for a type.
    what
        What a payload should be, for error messages.

    """

    most_features: float = math.inf  # of a payload whose features are found out

    def __init__(
        self, layout: Layout, decode: Decode, compile: Callable[[Any], Decode], what: str
    ) -> None:
        self.layout = layout
        self.decode = decode
        self.compile = compile
        self.what = what
        self.seconds = to_time(layout.time_unit)
        self._plan: Plan | None = None
        if layout.features is not None:
            self.names = tuple(feature.name for feature in layout.features)
            with suppress(Uncompilable):  # such paths are rare, and read with care
                self._plan = Plan(self, shape_of(layout), self.names)

    def read(self, payloads: Sequence[bytes]) -> Read:
        """What they say; raises nothing."""
        read = Read()
        self._read(payloads, 0, read)
        if len(read.tables) > 1:
            read.tables = _by_features(read.tables)
        return read

    def _read(self, payloads: Sequence[bytes], start: int, read: Read) -> None:
        table = self.fast(payloads) if payloads else None
        if table is not None:
            table.sources = range(start, start + len(payloads))
            read.tables.append(table)
        elif len(payloads) > FEW:
            middle = len(payloads) // 2
            self._read(payloads[:middle], start, read)
            self._read(payloads[middle:], start + middle, read)
        else:
            self._each(payloads, start, read)

    def _each(self, payloads: Sequence[bytes], start: int, read: Read) -> None:
        for i, payload in enumerate(payloads, start):
            try:
                read.tables.append(self._single(self.careful(payload), i))
            except RefusedError as error:
                read.refused.append(error.at(i))
            except Exception as error:  # a defect of ours must not stop the others
                text = f"{type(error).__name__}: {shorten(str(error))}"
                read.refused.append(Refused(i, "failure", text, type(error).__name__))

    def _single(self, reading: Reading, source: int) -> Table:
        layout = self.layout
        return Table(
            reading.features,
            np.array([reading.values], dtype=np.float64),
            None if layout.label is None else [reading.label],
            None if layout.time is None else [reading.time],
            None if layout.sequence is None else [reading.sequence],
            None if layout.device is None else [reading.device],
            [source],
        )

    def fast(self, payloads: Sequence[bytes]) -> Table | None:
        """All of them as one table; None if something is unusual."""
        return None if self._plan is None else self._plan.table(payloads)

    def careful(self, payload: bytes) -> Reading:
        """One payload; raises `RefusedError` saying what is wrong with it."""
        value = self.parse(payload)
        found = self.find_features(value)
        values = tuple([to_feature(name, number) for name, number in found])
        if all(number != number for number in values):
            names = [name for name, _ in found]
            some = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
            text = f"expected at least one feature ({some or 'any number'}), got {shorten(value)}"
            raise RefusedError("field", text, "no feature")
        layout = self.layout
        device = self._get(value, layout.device, lambda name, it: _optional(to_device, name, it))
        return Reading(
            tuple([name for name, _ in found]),
            values,
            self._get(value, layout.label, to_label),
            self._get(value, layout.time, self.seconds),
            self._get(value, layout.sequence, to_sequence),
            device,
        )

    def find_features(self, value: Any) -> list[tuple[str, Any]]:
        """Names and values of the features in a payload."""
        return [(field.name, pick(value, field.path)) for field in self.layout.features or ()]

    @staticmethod
    def _get(value: Any, field: Any, convert: Callable[[str, Any], Any]) -> Any:
        return None if field is None else convert(field.name, pick(value, field.path))

    def parse(self, payload: bytes) -> dict[Any, Any]:
        """A payload as a dictionary."""
        try:
            value = self.decode(payload)
        except RefusedError:
            raise
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError) as error:
            text = f"expected {self.what}, got {shorten(payload)}: {error}"
            raise RefusedError("payload", text, "syntax") from None
        columns = self.layout.columns
        if isinstance(value, list) and columns is not None:
            if len(value) != len(columns):
                text = f"expected {len(columns)} values ({', '.join(columns)})"
                text += f", got {len(value)}: {shorten(value)}"
                raise RefusedError("payload", text, "columns")
            return dict(zip(columns, value, strict=True))
        if isinstance(value, dict) and columns is None:
            return value
        text = f"expected {self.what}, got {shorten(value)}"
        raise RefusedError("payload", text, self.what)


class Plan:
    """The fast way, for payloads that all have the features of a shape."""

    def __init__(self, reader: Reader, shape: Shape, names: tuple[str, ...]) -> None:
        self.names = names
        self.decode = reader.compile(shape.type)
        self._features = shape.features
        self._pack = struct.Struct(f"{len(names)}d").pack
        layout = reader.layout
        self._label = self._column(shape, layout.label, checks.labels)
        self._time = self._column(shape, layout.time, checks.times(layout.time_unit))
        self._sequence = self._column(shape, layout.sequence, checks.sequences)
        self._device = self._column(shape, layout.device, checks.devices)

    @staticmethod
    def _column(shape: Shape, field: Any, check: Any) -> Callable[[list[Any]], Any]:
        if field is None:
            return lambda parsed: None
        get = shape.column(field.path)
        return lambda parsed: check(field.name, [get(instance) for instance in parsed])

    def table(self, payloads: Sequence[bytes]) -> Table | None:
        """None unless all is as usual. Whatever is wrong, the careful way will say it better."""
        try:
            return self.finish(list(map(self.decode, payloads)))
        except Exception:
            return None

    def finish(self, parsed: list[Any]) -> Table | None:
        """The table of payloads that are decoded."""
        try:
            rows = checks.plain(self._rows(parsed))
            if rows is None:
                return None
            return Table(
                self.names,
                rows,
                self._label(parsed),
                self._time(parsed),
                self._sequence(parsed),
                self._device(parsed),
                (),
            )
        except Exception:
            return None

    def _rows(self, parsed: list[Any]) -> Rows:
        pack, tuples = self._pack, self._features(parsed)
        try:
            joined = bytearray().join([pack(*values) for values in tuples])
            return np.frombuffer(joined, dtype=np.float64).reshape(len(parsed), -1)
        except struct.error:  # null somewhere; numpy makes it NaN
            return np.array(tuples, dtype=np.float64)


def _by_features(tables: list[Table]) -> list[Table]:
    """A table for all that have the same features; within it the order is that of the payloads."""
    groups: dict[tuple[str, ...], list[Table]] = {}
    for table in tables:
        groups.setdefault(table.features, []).append(table)
    return [_joined(group) for group in groups.values()]


def _joined(tables: list[Table]) -> Table:
    if len(tables) == 1:
        return tables[0]

    def joined(name: str) -> Any:
        columns = [getattr(table, name) for table in tables]
        return None if columns[0] is None else list(chain.from_iterable(columns))

    rows = np.concatenate([table.rows for table in tables])
    names = ("labels", "times", "sequences", "devices", "sources")
    whole = Table(tables[0].features, rows, *map(joined, names))
    if all(a < b for a, b in pairwise(whole.sources)):
        return whole
    return whole.take(sorted(range(len(rows)), key=whole.sources.__getitem__))


def _optional(convert: Callable[[str, Any], Any], name: str, value: Any) -> Any:
    return None if value is None or value is ABSENT else convert(name, value)
