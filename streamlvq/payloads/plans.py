"""Reader that discovers the features of payloads, with cached plans for known shapes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from operator import itemgetter
from typing import Any

from streamlvq.paths import Path, join_path
from streamlvq.payloads.fields import FieldMap, FieldPath
from streamlvq.payloads.reader import (
    SCALAR,
    BatchDecoder,
    PayloadSchema,
    Read,
    Reader,
    Table,
    UnsupportedSchema,
)
from streamlvq.payloads.values import RefusedError

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
        if not 0 < len(kinds) <= MAX_FIELDS or float not in kinds.values():
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
        named = [(join_path(path), path) for path, kind in shape if kind is float]
        features = tuple(FieldPath(name, path) for name, path in sorted(named))
        layout: FieldMap = self._reader.layout._replace(features=features)
        kinds: dict[Path, Any] = {feature.path: float for feature in features}
        kinds |= {path: kind for path, kind in shape if kind is not float}
        kinds |= {field.path: SCALAR for field in layout.designated}
        names = tuple(feature.name for feature in features)
        return BatchDecoder(self._reader, PayloadSchema(layout, kinds, strict=True), names)

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
IGNORED = str | bool | None


class DiscoveringReader(Reader):
    """Reader that discovers the features of each payload.

    Nested objects and arrays are flattened, with names like `motor.vib.x` and `spectrum.0`. Text,
    true, false and null are left out. Features are sorted by name, so the order in which a device
    sends them does not matter.

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

    def _read(self, payloads: Sequence[bytes], start: int, read: Read) -> None:
        table = self.decode_batch(payloads) if payloads else None
        if table is not None:
            table.sources = range(start, start + len(payloads))
            read.tables.append(table)
            return
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

    def find_features(self, value: Any) -> list[tuple[str, Any]]:
        """Return the names and values of features, sorted by name."""
        leaves = list(_leaves(value, ()))
        numbers = [
            (path, number)
            for path, number in leaves
            if type(number) in (int, float) and path not in self._designated
        ]
        if len(numbers) > self.most_features:
            text = f"expected at most {self.most_features} features (model.max_features)"
            raise RefusedError("model", f"{text}, got {len(numbers)}", "features")
        self._remember(leaves)
        found = [(join_path(path), number) for path, number in numbers]
        return sorted(found, key=itemgetter(0))

    def _remember(self, leaves: list[tuple[Path, Any]]) -> None:
        if len(leaves) > MAX_FIELDS:
            return
        kinds: dict[Path, Any] = {}
        for path, value in leaves:
            if path in self._designated:
                continue
            if isinstance(value, list):
                return  # no plans for arrays of varying length
            kinds[path] = float if type(value) in (int, float) else IGNORED
        self._plans.see(kinds)


def _leaves(value: Any, above: Path) -> Iterator[tuple[Path, Any]]:
    """Yield every leaf value, and each array itself as present."""
    if len(above) > PAYLOAD_MAX_DEPTH:
        text = f"expected at most {PAYLOAD_MAX_DEPTH} levels of nesting, got more"
        raise RefusedError("payload", text, "nesting")
    if isinstance(value, dict):
        for key, inner in value.items():
            if isinstance(key, str):  # MessagePack allows others
                yield from _leaves(inner, (*above, key))
    elif isinstance(value, list):
        yield above, value
        for i, inner in enumerate(value):
            yield from _leaves(inner, (*above, str(i)))
    else:
        yield above, value
