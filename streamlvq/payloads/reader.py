"""Readers of payloads whose fields are known: many at once by a compiled schema, or one by one.

A schema is a type made for a field map, so that msgspec takes just the wanted fields out of a
payload.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, pairwise
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

import msgspec
import numpy as np

from streamlvq.arrays import Label, Rows
from streamlvq.events import Refused
from streamlvq.paths import ABSENT, Path, pick
from streamlvq.payloads import values
from streamlvq.payloads.fields import FieldMap, FieldPath
from streamlvq.payloads.values import (
    RefusedError,
    shorten,
    to_device,
    to_feature,
    to_label,
    to_sequence,
    to_time,
)

# --- schemas -------------------------------------------------------------------------------------

Tuples = Callable[[Iterable[Any]], list[tuple[Any, ...]]]

FEATURE = float | bool | None
SCALAR = int | float | str | bool | None
MAX_ITEMS = 4096  # of an array that a path points into

Tree = dict[str, Any]  # from a step to a type, or to a tree


class UnsupportedSchema(Exception):
    """No type can say what is wanted. That is no error: there is a slower way."""


class PayloadSchema:
    """The type of payloads of a layout, and how to get at what its instances hold.

    Parameters
    ----------
    layout
        What is wanted; with features.
    kinds
        The type of each leaf; those of features come first.
    strict
        Whether a payload must have just these features, and nothing else than `kinds`.

    """

    def __init__(self, layout: FieldMap, kinds: dict[Path, Any], strict: bool = False) -> None:
        assert layout.features is not None
        tree: Tree = {}
        for path, kind in kinds.items():
            _plant(tree, path, kind)
        self._names: dict[Path, str] = {}
        if layout.columns is None:
            self.type = self._object(tree, (), strict)
        else:
            self.type = self._array(layout.columns, tree)
        self.features = self._features(layout.features)

    def _object(self, tree: Tree, above: Path, strict: bool) -> Any:
        if above and not strict and tree and all(map(_is_index, tree)):
            return self._positions(tree, above)
        fields: list[Any] = []
        rename: dict[str, str] = {}
        for i, (step, kind) in enumerate(tree.items()):
            name, path = f"f{i}", (*above, step)
            self._names[path] = name
            rename[name] = step
            if isinstance(kind, dict):
                inner = self._object(kind, path, strict)
                needed = strict and _needed(kind)
                fields.append((name, inner) if needed else (name, inner, _made_by(inner)))
            else:
                fields.append((name, kind) if kind is float else (name, kind, _default(kind)))
        return _define(fields, rename=rename, kw_only=True, forbid_unknown_fields=strict)

    def _positions(self, tree: Tree, above: Path) -> Any:
        """Keys that are all numbers mean an array; should it be an object, the slow way knows."""
        count = max(map(int, tree)) + 1
        if count > MAX_ITEMS:
            raise UnsupportedSchema
        kinds = {int(step): (step, kind) for step, kind in tree.items()}
        fields: list[Any] = []
        for i in range(count):
            step, kind = kinds.get(i, (None, Any))
            if step is not None:
                self._names[(*above, step)] = f"f{i}"
            if isinstance(kind, dict):
                inner = self._object(kind, (*above, str(step)), False)
                fields.append((f"f{i}", inner, _made_by(inner)))
            else:
                fields.append((f"f{i}", kind, _default(kind)))
        return _define(fields, array_like=True)

    def _array(self, columns: Sequence[str], tree: Tree) -> Any:
        fields = [(f"f{i}", tree.get(name, Any)) for i, name in enumerate(columns)]
        self._names = {(name,): f"f{i}" for i, name in enumerate(columns)}
        return _define(fields, array_like=True, forbid_unknown_fields=True)

    def column(self, path: Path) -> Callable[[Any], Any]:
        """The function that gets a leaf."""
        return attrgetter(self._attribute(path))

    def _attribute(self, path: Path) -> str:
        return ".".join(self._names[path[: i + 1]] for i in range(len(path)))

    def _features(self, features: Sequence[FieldPath]) -> Tuples:
        """The features of many instances; `astuple` is far faster than asking for each."""
        count = len(features)
        order = [self._attribute(feature.path) for feature in features]
        if any("." in name for name in order):
            return _mapped(attrgetter(*order), count)
        every = msgspec.structs.astuple
        positions = [int(name[1:]) for name in order]
        if positions != list(range(count)):
            chosen = _mapped(itemgetter(*positions), count)
            return lambda instances: chosen(map(every, instances))
        if count == len(self.type.__struct_fields__):
            return lambda instances: list(map(every, instances))
        return lambda instances: [every(instance)[:count] for instance in instances]


def schema_of(layout: FieldMap) -> PayloadSchema:
    """The shape of payloads whose features are known."""
    kinds: dict[Path, Any] = {feature.path: FEATURE for feature in layout.features or ()}
    kinds |= {field.path: SCALAR for field in layout.designated}
    return PayloadSchema(layout, kinds)


def _plant(tree: Tree, path: Path, kind: Any) -> None:
    for step in path[:-1]:
        tree = tree.setdefault(step, {})
        if not isinstance(tree, dict):
            raise UnsupportedSchema  # a leaf that has something below it
    if path[-1] in tree:
        raise UnsupportedSchema
    tree[path[-1]] = kind


def _needed(tree: Tree) -> bool:
    """Whether there is a number that must be there."""
    return any(_needed(kind) if isinstance(kind, dict) else kind is float for kind in tree.values())


def _is_index(step: str) -> bool:
    return step.isascii() and step.isdigit() and len(step) < 10 and str(int(step)) == step


def _mapped(getter: Callable[[Any], Any], count: int) -> Tuples:
    if count > 1:
        return lambda instances: list(map(getter, instances))
    return lambda instances: [(getter(instance),) for instance in instances]


def _default(kind: Any) -> Any:
    return math.nan if kind is FEATURE else None


def _made_by(inner: Any) -> Any:
    return msgspec.field(default_factory=inner)


def _define(fields: list[Any], **options: Any) -> Any:
    try:
        return msgspec.defstruct("Payload", fields, gc=False, **options)
    except ValueError as error:  # keys with quotes or backslashes are beyond it
        raise UnsupportedSchema from error


# --- readers -------------------------------------------------------------------------------------

SMALL_GROUP = 8  # payloads that are looked at one by one when something is wrong among them

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
        Makes a faster such function for a type; None: one that converts what `decode` returns.
    what
        What a payload should be, for error messages.

    """

    most_features: float = math.inf  # of a payload whose features are found out

    def __init__(
        self, layout: FieldMap, decode: Decode, compile: Callable[[Any], Decode] | None, what: str
    ) -> None:
        self.layout = layout
        self.decode = decode
        self.compile = self._converter if compile is None else compile
        self.what = what
        self.seconds = to_time(layout.time_unit)
        self._plan: BatchDecoder | None = None
        if layout.features is not None:
            self.names = tuple(feature.name for feature in layout.features)
            with suppress(UnsupportedSchema):  # such paths are rare, and read with care
                self._plan = BatchDecoder(self, schema_of(layout), self.names)

    def _converter(self, kind: Any) -> Decode:
        return lambda payload: msgspec.convert(self.decode(payload), kind)

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
        elif len(payloads) > SMALL_GROUP:
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


class BatchDecoder:
    """The fast way, for payloads that all have the features of a shape."""

    def __init__(self, reader: Reader, shape: PayloadSchema, names: tuple[str, ...]) -> None:
        self.names = names
        self.decode = reader.compile(shape.type)
        self._features = shape.features
        self._pack = struct.Struct(f"{len(names)}d").pack
        layout = reader.layout
        self._label = self._column(shape, layout.label, values.labels)
        self._time = self._column(shape, layout.time, values.times(layout.time_unit))
        self._sequence = self._column(shape, layout.sequence, values.sequences)
        self._device = self._column(shape, layout.device, values.devices)

    @staticmethod
    def _column(shape: PayloadSchema, field: Any, check: Any) -> Callable[[list[Any]], Any]:
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
            rows = values.plain(self._rows(parsed))
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
