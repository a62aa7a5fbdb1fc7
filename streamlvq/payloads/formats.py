"""Formats of payloads: JSON, MessagePack and raw 32-bit floats; features known or discovered."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from operator import itemgetter
from typing import Any

import msgspec
import numpy as np

from streamlvq.arrays import Rows
from streamlvq.config import Fields
from streamlvq.events import DroppedFields
from streamlvq.paths import Path, join_path
from streamlvq.payloads import values
from streamlvq.payloads.fields import FieldMap, FieldPath, array_field_map, field_map
from streamlvq.payloads.reader import (
    REQUIRED,
    SCALAR,
    BatchDecoder,
    Decode,
    PayloadSchema,
    Read,
    Reader,
    Table,
    UnsupportedSchema,
)
from streamlvq.payloads.values import RefusedError, shorten

# --- plans for shapes ----------------------------------------------------------------------------

MAX_PLANS = 64  # cached at a time
MAX_FIELDS = 256  # of a shape with a plan: msgspec searches all of them for each key
MAX_SHAPES_SEEN = 256
MAX_TRIES = 4  # plans with the same top-level keys
UNSORTED_PLANS = 3  # tried without comparing top-level keys
REPLACEMENT_PAYLOADS = 1000  # payloads without a plan for each plan that is replaced

Shapes = tuple[tuple[Path, Any], ...]
Keys = frozenset[Any]


class CachedPlan:
    """Payload shape with its plan, and the shape that followed it last time."""

    __slots__ = ("keys", "next", "plan", "shape")

    def __init__(self, shape: Shapes, keys: Keys, plan: BatchDecoder) -> None:
        self.shape = shape
        self.keys = keys
        self.plan = plan
        self.next: CachedPlan = self


class PlanCache:
    """Bounded cache of decoding plans by payload shape, least recently used out first.

    A shape gets a plan when it is seen for the second time. Making a plan costs as much as reading
    some hundred payloads with it, so once the cache is full, plans are replaced only now and then,
    however many shapes arrive.
    """

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        # Labels, times and the like may be absent.
        self._optional = {field.path[0] for field in reader.layout.designated}
        self._known: dict[Shapes, CachedPlan] = {}  # most recently used last
        self._by_keys: dict[Keys, list[CachedPlan]] = {}
        self._seen: set[Shapes] = set()
        self._unplanned = 0
        self.last: CachedPlan | None = None

    def __len__(self) -> int:
        return len(self._known)

    def match(self, payload: bytes, parse: Callable[[bytes], Any]) -> tuple[CachedPlan, Any] | None:
        """Return the cached plan for a payload, and the payload decoded with it.

        The shape that followed the previous one last time is tried first, which is right if shapes
        alternate. Otherwise the top-level keys tell which plans to try.
        """
        last = self.last
        if last is None:
            return None
        guess = last.next
        with suppress(Exception):  # `decode_one` says what is wrong
            found = guess.plan.decode(payload)
            self.last = guess
            return guess, found
        for known in self._candidates(payload, parse):
            if known is guess:
                continue
            with suppress(Exception):
                found = known.plan.decode(payload)
                last.next = self.last = known
                return known, found
        return None

    def _candidates(self, payload: bytes, parse: Callable[[bytes], Any]) -> list[CachedPlan]:
        if len(self._known) <= UNSORTED_PLANS:
            return list(self._known.values())
        try:
            keys = frozenset(parse(payload))
        except Exception:  # `decode_one` says what is wrong
            return []
        return self._by_keys.get(keys - self._optional, [])[-MAX_TRIES:]

    def touch(self, known: CachedPlan) -> None:
        """Mark a plan as used."""
        if known.shape in self._known:
            self._known[known.shape] = self._known.pop(known.shape)

    def see(self, kinds: dict[Path, Any]) -> None:
        """Record the leaf types of a payload that has no plan yet."""
        self._unplanned += 1
        if not 0 < len(kinds) <= MAX_FIELDS or not set(REQUIRED) & set(kinds.values()):
            return
        shape = tuple(sorted(kinds.items(), key=lambda item: item[0]))
        if shape in self._known:
            return
        if shape not in self._seen:
            if len(self._seen) >= MAX_SHAPES_SEEN:
                self._seen.clear()
            self._seen.add(shape)
        elif len(self._known) < MAX_PLANS or self._unplanned >= REPLACEMENT_PAYLOADS:
            self._unplanned = 0
            self._learn(shape)

    def _learn(self, shape: Shapes) -> None:
        try:
            plan = self._plan(shape)
        except UnsupportedSchema:
            return
        if len(self._known) >= MAX_PLANS:
            self._forget(next(iter(self._known)))
        keys = frozenset(path[0] for path, _ in shape) - self._optional
        known = self._known[shape] = CachedPlan(shape, keys, plan)
        self._by_keys.setdefault(keys, []).append(known)
        self.last = known

    def _plan(self, shape: Shapes) -> BatchDecoder:
        known = dict(shape)
        fields = sorted(FieldPath(join_path(path), path) for path in known)
        features = tuple(field for field in fields if known[field.path] in REQUIRED)
        ignored = [field for field in fields if known[field.path] is IGNORED]
        layout: FieldMap = self._reader.layout._replace(features=features)
        kinds: dict[Path, Any] = {field.path: known[field.path] for field in [*features, *ignored]}
        kinds |= {field.path: SCALAR for field in layout.designated}
        names = tuple(feature.name for feature in features)
        schema = PayloadSchema(layout, kinds, strict=True)
        return BatchDecoder(self._reader, schema, names, ignored)

    def _forget(self, shape: Shapes) -> None:
        known = self._known.pop(shape)
        self._by_keys[known.keys].remove(known)
        if not self._by_keys[known.keys]:
            del self._by_keys[known.keys]
        known.next = known  # otherwise removed plans would keep each other alive
        if self.last is known:
            self.last = None


# --- discovery of features -----------------------------------------------------------------------

PAYLOAD_MAX_DEPTH = 32  # levels of nested objects
IGNORED = str | None  # types of fields that are no features: text that is no number, and null


class DiscoveringReader(Reader):
    """Reader that discovers the features of each payload.

    Nested objects and arrays are flattened, with names like `motor.vib.x` and `spectrum.0`.
    Numbers, true, false and text that is a number are features, sorted by name, so the order in
    which a device sends them does not matter. Null and text that says so are missing; everything
    else is left out and recorded in `Read.dropped`.

    A shape that was seen twice gets a plan for fast decoding, see `PlanCache`. Payloads of
    different shapes that arrive together are first sorted by shape.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._designated = {field.path for field in self.layout.designated}
        self._plans = PlanCache(self)

    def decode_batch(self, payloads: Sequence[bytes]) -> Table | None:
        """Return all payloads as one table if they have the shape of the last one."""
        last = self._plans.last
        table = None if last is None else last.plan.table(payloads)
        if last is not None and table is not None:
            self._plans.touch(last)
        return table

    def _read_apart(self, payloads: Sequence[bytes], start: int, read: Read) -> None:
        by_plan: dict[CachedPlan, tuple[list[int], list[Any]]] = {}
        for i, payload in enumerate(payloads, start):
            found = self._plans.match(payload, self.decode)
            if found is None:
                self._read_each([payload], i, read)
                continue
            known, instance = found
            positions, instances = by_plan.setdefault(known, ([], []))
            positions.append(i)
            instances.append(instance)
        for known, (positions, instances) in by_plan.items():
            self._plans.touch(known)
            self._add_tables(known, positions, instances, payloads, start, read)

    def _add_tables(
        self,
        known: CachedPlan,
        positions: list[int],
        instances: list[Any],
        payloads: Sequence[bytes],
        start: int,
        read: Read,
    ) -> None:
        """Return the tables of payloads of one shape; halve the batch while a payload is bad."""
        table = known.plan.build_table(instances)
        if table is not None:
            table.sources = positions
            read.tables.append(table)
        elif len(positions) > 1:
            middle = len(positions) // 2
            for part in (slice(0, middle), slice(middle, None)):
                self._add_tables(known, positions[part], instances[part], payloads, start, read)
        else:
            self._read_each([payloads[positions[0] - start]], positions[0], read)

    def find_features(self, value: Any, dropped: DroppedFields) -> list[tuple[str, Any]]:
        """Return the names and values of features, sorted by name; record what is left out."""
        kinds: dict[Path, Any] = {}
        numbers: list[tuple[Path, Any]] = []
        others: list[tuple[Path, Any]] = []
        for path, leaf in _leaves(value, (), dropped):
            if path not in self._designated:
                kind = kinds[path] = float if type(leaf) in (int, float) else _kind(leaf)
                (numbers if kind in REQUIRED else others).append((path, leaf))
        if len(numbers) > self.most_features:
            text = f"expected at most {self.most_features} features (model.max_features)"
            raise RefusedError("model", f"{text}, got {len(numbers)}", "features")
        for path, other in others:
            if (reason := _drop_reason(other)) is not None:
                dropped.add(reason, join_path(path), shorten(other))
        if None not in kinds.values():  # arrays of varying length and the like have no plan
            self._plans.see(kinds)
        found = [(join_path(path), number) for path, number in numbers]
        return sorted(found, key=itemgetter(0))


def _kind(value: Any) -> Any:
    """Return the type of a leaf in a plan; None if it has none."""
    if isinstance(value, str):
        return str if values.is_number(value) else IGNORED
    if isinstance(value, bool):
        return bool
    return float if isinstance(value, (int, float)) else IGNORED if value is None else None


def _drop_reason(value: Any) -> str | None:
    """Return why a leaf without number is left out (`DROP_REASONS`); None if it is missing."""
    if isinstance(value, str):
        return None if values.is_missing(value) else "text"
    return None if value is None or isinstance(value, list) else "type"


def _leaves(value: Any, above: Path, dropped: DroppedFields) -> Iterator[tuple[Path, Any]]:
    """Yield every leaf value, and each array itself as present."""
    if len(above) > PAYLOAD_MAX_DEPTH:
        text = f"expected at most {PAYLOAD_MAX_DEPTH} levels of nesting, got more"
        raise RefusedError("payload", text, "nesting")
    if isinstance(value, dict):
        for key, inner in value.items():
            if isinstance(key, str):
                yield from _leaves(inner, (*above, key), dropped)
            else:  # MessagePack allows them
                dropped.add("key", join_path((*above, shorten(key))), shorten(inner))
    elif isinstance(value, list):
        yield above, value
        for i, inner in enumerate(value):
            yield from _leaves(inner, (*above, str(i)), dropped)
    else:
        yield above, value


# --- JSON ----------------------------------------------------------------------------------------
#
# NaN, which is no JSON but which Python and others write, means missing. Infinity and numbers such
# as 1e999 are refused. Of duplicate keys the last counts.

_NAN = re.compile(rb'"(?:[^"\\]|\\.)*"|(?<![-\w])NaN\b', re.DOTALL)


def without_nan(payloads: Sequence[bytes]) -> list[bytes] | None:
    r"""Return JSON payloads with null for every NaN outside of text; None if there can be none.

    Examples
    --------
    >>> without_nan([b'{"x": NaN, "note": "NaN"}'])
    [b'{"x": null, "note": "NaN"}']
    >>> without_nan([b'{"x": 1}'])

    """
    whole = b" ".join(payloads)
    if b"N" not in whole or b"NaN" not in whole:  # a search for one byte is ten times as fast
        return None
    return [_NAN.sub(_null_for_nan, payload) for payload in payloads]


def _null_for_nan(found: re.Match[bytes]) -> bytes:
    return b"null" if found[0] == b"NaN" else found[0]


def _json_decoder(kind: Any) -> Decode:
    return msgspec.json.Decoder(kind).decode


def json_reader(fields: Fields) -> Reader:
    """Return a reader of JSON objects.

    Examples
    --------
    >>> from streamlvq.config import Fields
    >>> from streamlvq.payloads.formats import json_reader
    >>> reader = json_reader(Fields(features=["motor.vib.x", "motor.rpm"], sequence="n"))
    >>> reader.decode_one(b'{"n": 7, "motor": {"vib": {"x": 0.25}, "rpm": 1500}}').values
    (0.25, 1500.0)

    """
    layout = field_map(fields)
    kind = DiscoveringReader if layout.features is None else Reader
    reader = kind(layout, _json_decoder(Any), _json_decoder, "a JSON object")
    reader.repair = without_nan
    return reader


def json_array_reader(fields: Fields) -> Reader:
    """Return a reader of JSON arrays with one value for each of `columns`, or null.

    Examples
    --------
    >>> from streamlvq.config import Fields
    >>> from streamlvq.payloads.formats import json_array_reader
    >>> fields = Fields(format="json_array", columns=["n", "x", "y"], sequence="n")
    >>> reader = json_array_reader(fields)
    >>> reader.decode_one(b"[7, 0.25, 1500]").values
    (0.25, 1500.0)

    """
    reader = Reader(array_field_map(fields), _json_decoder(Any), _json_decoder, "a JSON array")
    reader.repair = without_nan
    return reader


# --- MessagePack ---------------------------------------------------------------------------------
#
# NaN means missing, infinities are refused. A time may also be a MessagePack timestamp.


def _msgpack_decoder(kind: Any) -> Decode:
    return msgspec.msgpack.Decoder(kind).decode


def msgpack_reader(fields: Fields) -> Reader:
    """Return a reader of MessagePack maps or arrays.

    Examples
    --------
    >>> import msgspec
    >>> from streamlvq.config import Fields
    >>> from streamlvq.payloads.formats import msgpack_reader
    >>> reader = msgpack_reader(Fields(format="msgpack", label="state"))
    >>> reading = reader.decode_one(msgspec.msgpack.encode({"y": 2, "x": 1.5, "state": "ok"}))
    >>> reading.features, reading.values, reading.label
    (('x', 'y'), (1.5, 2.0), 'ok')

    """
    if fields.columns is not None:
        return Reader(
            array_field_map(fields), _msgpack_decoder(Any), _msgpack_decoder, "a MessagePack array"
        )
    layout = field_map(fields)
    kind = DiscoveringReader if layout.features is None else Reader
    what = "a MessagePack map (for arrays, name their values in `columns`)"
    return kind(layout, _msgpack_decoder(Any), _msgpack_decoder, what)


# --- 32-bit floats -------------------------------------------------------------------------------
#
# NaN means missing, infinities are refused. Labels are whole numbers. A 32-bit float cannot tell
# seconds of these years apart and counts to 16 777 216 only, so times and sequence numbers are
# better sent in another format.

FLOAT32_BYTES = 4


def float32_reader(fields: Fields) -> Reader:
    """Return a reader of raw little-endian 32-bit floats.

    Examples
    --------
    >>> import numpy as np
    >>> from streamlvq.config import Fields
    >>> from streamlvq.payloads.formats import float32_reader
    >>> reader = float32_reader(Fields(format="float32", columns=["x", "y"]))
    >>> reader.decode_one(np.array([0.25, 1500], dtype="<f4").tobytes()).values
    (0.25, 1500.0)

    """
    return Float32Reader(array_field_map(fields))


class Float32Reader(Reader):
    """Reader that decodes many payloads of raw floats as one array."""

    def __init__(self, layout: FieldMap) -> None:
        assert layout.columns is not None
        assert layout.features is not None
        self._width = len(layout.columns)
        self._at = {name: i for i, name in enumerate(layout.columns)}
        self._features = [self._at[feature.name] for feature in layout.features]
        self._whole = self._features == list(range(self._width))
        self._times = values.times(layout.time_unit)
        super().__init__(layout, self._list, _no_types, "32-bit floats")

    def _list(self, payload: bytes) -> list[float]:
        size = self._width * FLOAT32_BYTES
        if len(payload) != size:
            raise RefusedError(
                "payload",
                f"expected {size} bytes ({self._width} floats of 32 bits), got {len(payload)}",
                "width",
            )
        values: list[float] = np.frombuffer(payload, dtype="<f4").tolist()
        return values

    def decode_batch(self, payloads: Sequence[bytes]) -> Table | None:
        """Return all payloads as one table; None if any of them is unusual."""
        size = self._width * FLOAT32_BYTES
        if any(len(payload) != size for payload in payloads):
            return None
        with np.errstate(invalid="ignore"):  # signalling NaNs raise the invalid flag
            numbers = np.frombuffer(b"".join(payloads), dtype="<f4").astype(np.float64)
        numbers = numbers.reshape(len(payloads), self._width)
        rows = numbers if self._whole else np.ascontiguousarray(numbers[:, self._features])
        try:
            return None if values.plain(rows) is None else self._table(numbers, rows)
        except RefusedError:
            return None

    def _table(self, numbers: Rows, rows: Rows) -> Table:
        def column(field: FieldPath | None, check: Any) -> Any:
            if field is None:
                return None
            return check(field.name, numbers[:, self._at[field.name]].tolist())

        layout = self.layout
        return Table(
            self.names,
            rows,
            column(layout.label, values.labels),
            column(layout.time, self._times),
            column(layout.sequence, values.sequences),
            column(layout.device, values.devices),
            (),
        )


def _no_types(kind: Any) -> Any:
    return None  # numpy is faster than msgspec types
