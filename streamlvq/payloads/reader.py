"""Readers of payloads whose fields are known: many at once by a compiled schema, or one by one.

A schema is a type made for a field map, so that msgspec takes just the wanted fields out of a
payload.
"""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, pairwise
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

import msgspec
import numpy as np

from streamlvq.arrays import Label, Rows
from streamlvq.events import DroppedFields, Refused
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

FEATURE = float | bool | str | None
REQUIRED = (float, bool, str)  # types of discovered features
SCALAR = int | float | str | bool | None
MAX_ITEMS = 4096  # of an array with a configured path into it

Tree = dict[str, Any]  # from a path step to a type or a subtree


class UnsupportedSchema(Exception):
    """Layout that no msgspec type can express; the slower reader is used instead."""


class PayloadSchema:
    """msgspec type for the payloads of a layout, and access to the values of its instances.

    `kinds` are the types of the leaves, features first. With `strict` a payload must have exactly
    these features and nothing outside `kinds`.
    """

    def __init__(self, layout: FieldMap, kinds: dict[Path, Any], strict: bool = False) -> None:
        assert layout.features is not None
        tree: Tree = {}
        for path, kind in kinds.items():
            _insert(tree, path, kind)
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
                needed = strict and _has_required_feature(kind)
                fields.append((name, inner) if needed else (name, inner, _factory(inner)))
            else:
                fields.append((name, kind) if kind in REQUIRED else (name, kind, _default(kind)))
        return _define(fields, rename=rename, kw_only=True, forbid_unknown_fields=strict)

    def _positions(self, tree: Tree, above: Path) -> Any:
        """Return the positions if all keys are numbers, which means an array.

        Should the payload be an object with such keys after all, the slower reader handles it.
        """
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
                fields.append((f"f{i}", inner, _factory(inner)))
            else:
                fields.append((f"f{i}", kind, _default(kind)))
        return _define(fields, array_like=True)

    def _array(self, columns: Sequence[str], tree: Tree) -> Any:
        fields = [(f"f{i}", tree.get(name, Any)) for i, name in enumerate(columns)]
        self._names = {(name,): f"f{i}" for i, name in enumerate(columns)}
        return _define(fields, array_like=True, forbid_unknown_fields=True)

    def column(self, path: Path) -> Callable[[Any], Any]:
        """Return the function that reads a leaf from an instance."""
        return attrgetter(self._attribute(path))

    def _attribute(self, path: Path) -> str:
        return ".".join(self._names[path[: i + 1]] for i in range(len(path)))

    def _features(self, features: Sequence[FieldPath]) -> Tuples:
        """Return the features of many instances; `astuple` is far faster than attribute access."""
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
    """Return the schema of payloads whose features are known."""
    kinds: dict[Path, Any] = {feature.path: FEATURE for feature in layout.features or ()}
    kinds |= {field.path: SCALAR for field in layout.designated}
    return PayloadSchema(layout, kinds)


def _insert(tree: Tree, path: Path, kind: Any) -> None:
    for step in path[:-1]:
        tree = tree.setdefault(step, {})
        if not isinstance(tree, dict):
            raise UnsupportedSchema  # a leaf that also has children
    if path[-1] in tree:
        raise UnsupportedSchema
    tree[path[-1]] = kind


def _has_required_feature(tree: Tree) -> bool:
    """Return whether at least one feature is required."""
    return any(
        _has_required_feature(kind) if isinstance(kind, dict) else kind in REQUIRED
        for kind in tree.values()
    )


def _is_index(step: str) -> bool:
    return step.isascii() and step.isdigit() and len(step) < 10 and str(int(step)) == step


def _mapped(getter: Callable[[Any], Any], count: int) -> Tuples:
    if count > 1:
        return lambda instances: list(map(getter, instances))
    return lambda instances: [(getter(instance),) for instance in instances]


def _default(kind: Any) -> Any:
    return math.nan if kind is FEATURE else None


def _factory(inner: Any) -> Any:
    return msgspec.field(default_factory=inner)


def _define(fields: list[Any], **options: Any) -> Any:
    try:
        return msgspec.defstruct("Payload", fields, gc=False, **options)
    except ValueError as error:  # keys with quotes or backslashes are not supported
        raise UnsupportedSchema from error


# --- readers -------------------------------------------------------------------------------------

SMALL_GROUP = 8  # payloads that are decoded one by one if any of them is bad

Decode = Callable[[bytes], Any]


class Reading(NamedTuple):
    """Values of one payload."""

    features: tuple[str, ...]
    values: tuple[float, ...]
    label: Label | None
    time: float | None
    sequence: int | None
    device: str | None  # None if the payload does not name it


@dataclass(slots=True)
class Table:
    """Values of payloads with the same features; None for a column that none of them has."""

    features: tuple[str, ...]
    rows: Rows
    labels: Sequence[Label | None] | None
    times: Sequence[float | None] | None
    sequences: Sequence[int | None] | None
    devices: Sequence[str | None] | None
    sources: Sequence[int]  # the positions of the payloads

    def take(self, positions: Sequence[int]) -> Table:
        """Return the rows at these positions."""

        def chosen(column: Sequence[Any] | None) -> Any:
            return None if column is None else [column[i] for i in positions]

        columns = (self.labels, self.times, self.sequences, self.devices, self.sources)
        return Table(self.features, self.rows[positions], *map(chosen, columns))


@dataclass(slots=True)
class Read:
    """Result of reading payloads: a table for each set of features, and the refused payloads."""

    tables: list[Table] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    dropped: DroppedFields = field(default_factory=DroppedFields)


class Reader:
    """Reader of the payloads of one layout.

    The fast path (`decode_batch`) decodes a whole list into instances of a type made for the
    layout. If anything is unusual, the list is halved until few payloads remain, and those are
    decoded one by one with full checks (`decode_one`). Both agree wherever the fast path succeeds.

    `decode` turns a payload into dictionaries, lists, numbers and text; `compile` returns a faster
    such function for a type (None: convert what `decode` returns); `what` names the expected
    payload in error messages.
    """

    most_features: float = math.inf  # limit for discovered features
    # makes payloads valid that have something else than their format; None if none of them has
    repair: Callable[[Sequence[bytes]], list[bytes] | None] | None = None

    def __init__(
        self, layout: FieldMap, decode: Decode, compile: Callable[[Any], Decode] | None, what: str
    ) -> None:
        self.layout = layout
        self.decode = decode
        self.compile = self._converter if compile is None else compile
        self.what = what
        self.seconds = to_time(layout.time_unit)
        self.dropped = DroppedFields()  # of the payloads being read
        self._plan: BatchDecoder | None = None
        if layout.features is not None:
            self.names = tuple(feature.name for feature in layout.features)
            with suppress(UnsupportedSchema):  # such paths are rare; `decode_one` reads them
                self._plan = BatchDecoder(self, schema_of(layout), self.names)

    def _converter(self, kind: Any) -> Decode:
        return lambda payload: msgspec.convert(self.decode(payload), kind)

    def read(self, payloads: Sequence[bytes]) -> Read:
        """Read payloads into tables; never raises."""
        read = Read()
        self.dropped = read.dropped
        if payloads and not self._read_whole(payloads, 0, read):
            repaired = None if self.repair is None else self.repair(payloads)
            if repaired is None:
                self._read_apart(payloads, 0, read)
            else:
                self._read(repaired, 0, read)
                refused, read.refused = read.refused, []
                for one in refused:  # say what came, not what we made of it
                    self._read_each([payloads[one.source]], one.source, read)
        if len(read.tables) > 1:
            read.tables = _by_features(read.tables)
        return read

    def _read(self, payloads: Sequence[bytes], start: int, read: Read) -> None:
        if not self._read_whole(payloads, start, read):
            self._read_apart(payloads, start, read)

    def _read_whole(self, payloads: Sequence[bytes], start: int, read: Read) -> bool:
        table = self.decode_batch(payloads)
        if table is not None:
            table.sources = range(start, start + len(payloads))
            read.tables.append(table)
        return table is not None

    def _read_apart(self, payloads: Sequence[bytes], start: int, read: Read) -> None:
        if len(payloads) > SMALL_GROUP:
            middle = len(payloads) // 2
            self._read(payloads[:middle], start, read)
            self._read(payloads[middle:], start + middle, read)
        else:
            self._read_each(payloads, start, read)

    def _read_each(self, payloads: Sequence[bytes], start: int, read: Read) -> None:
        for i, payload in enumerate(payloads, start):
            try:
                read.tables.append(self._single(self.decode_one(payload), i))
            except RefusedError as error:
                read.refused.append(error.at(i))
            except Exception as error:  # a bug must not stop the other payloads
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

    def decode_batch(self, payloads: Sequence[bytes]) -> Table | None:
        """Return all payloads as one table; None if any of them is unusual."""
        return None if self._plan is None else self._plan.table(payloads)

    def decode_one(self, payload: bytes) -> Reading:
        """Return the values of one payload; raise `RefusedError` that says what is wrong."""
        value = self.parse(payload)
        dropped = DroppedFields()
        found = self.find_features(value, dropped)
        values = tuple([to_feature(name, number) for name, number in found])
        if all(number != number for number in values):
            names = [name for name, _ in found]
            some = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
            text = f"expected at least one feature ({some or 'any number'}), got {shorten(value)}"
            raise RefusedError("field", text, "no feature")
        layout = self.layout
        device = self._get(value, layout.device, lambda name, it: _optional(to_device, name, it))
        reading = Reading(
            tuple([name for name, _ in found]),
            values,
            self._get(value, layout.label, to_label),
            self._get(value, layout.time, self.seconds),
            self._get(value, layout.sequence, to_sequence),
            device,
        )
        if dropped.counts:
            self.dropped.update(dropped)
        return reading

    def find_features(self, value: Any, dropped: DroppedFields) -> list[tuple[str, Any]]:
        """Return the names and values of the features in a payload; record what is left out."""
        return [(field.name, pick(value, field.path)) for field in self.layout.features or ()]

    @staticmethod
    def _get(value: Any, field: Any, convert: Callable[[str, Any], Any]) -> Any:
        return None if field is None else convert(field.name, pick(value, field.path))

    def _decode_repaired(self, payload: bytes) -> Any:
        repaired = None if self.repair is None else self.repair([payload])
        return self.decode(payload if repaired is None else repaired[0])

    def parse(self, payload: bytes) -> dict[Any, Any]:
        """Return a payload as a dictionary."""
        try:
            value = self._decode_repaired(payload)
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
    """Fast decoder for payloads that all have the features of one schema.

    `ignored` are the fields of discovered payloads that are no features: text and null. None if the
    features are named, and other fields do not matter.
    """

    def __init__(
        self,
        reader: Reader,
        shape: PayloadSchema,
        names: tuple[str, ...],
        ignored: Sequence[FieldPath] | None = None,
    ) -> None:
        self.names = names
        self.decode = reader.compile(shape.type)
        self._reader = reader
        self._named = ignored is None
        self._ignored = [(field.name, shape.column(field.path)) for field in ignored or ()]
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
        """Return the payloads as a table; None if any is unusual and needs `decode_one`."""
        try:
            return self.build_table(list(map(self.decode, payloads)))
        except Exception:
            return None

    def build_table(self, parsed: list[Any]) -> Table | None:
        """Return the table of decoded payloads; None if a value is unusual."""
        try:
            rows = values.plain(self._rows(parsed))
            if rows is None:
                return None
            texts = [(name, list(map(get, parsed))) for name, get in self._ignored]
            if any(map(_holds_number, texts)):
                return None
            table = Table(
                self.names,
                rows,
                self._label(parsed),
                self._time(parsed),
                self._sequence(parsed),
                self._device(parsed),
                (),
            )
            for name, column in texts:
                _drop_texts(name, column, self._reader.dropped)
            return table
        except Exception:
            return None

    def _rows(self, parsed: list[Any]) -> Rows:
        pack, tuples = self._pack, self._features(parsed)
        try:
            joined = bytearray().join([pack(*values) for values in tuples])
            return np.frombuffer(joined, dtype=np.float64).reshape(len(parsed), -1)
        except struct.error:  # null or text somewhere; numpy makes NaN of null
            return values.number_rows(tuples, missing=self._named)


def _holds_number(text: tuple[str, list[str | None]]) -> bool:
    """Return whether a column of text and null has a number after all."""
    return any(values.is_number(each) for each in set(text[1]) if each is not None)


def _drop_texts(name: str, column: list[str | None], dropped: DroppedFields) -> None:
    for text, times in Counter(column).items():
        if text is not None and not values.is_missing(text):
            dropped.add("text", name, shorten(text), times)


def _by_features(tables: list[Table]) -> list[Table]:
    """Return a table for each set of features; each table keeps the order of the payloads."""
    groups: dict[tuple[str, ...], list[Table]] = {}
    for table in tables:
        groups.setdefault(table.features, []).append(table)
    return [_concatenate(group) for group in groups.values()]


def _concatenate(tables: list[Table]) -> Table:
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
