"""Readers of payloads whose features have to be found out, and plans for shapes that were seen."""

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

MAX_PLANS = 64  # for which there is a fast way at a time
MAX_FIELDS = 256  # of a shape with a fast way: msgspec looks for a key among all of them
MAX_SHAPES_SEEN = 256
MAX_TRIES = 4  # of shapes with the same keys at the top
UNSORTED_PLANS = 3  # that are tried without looking at the keys first
REPLACEMENT_PAYLOADS = 1000  # payloads read with care for each way that takes the place of another

Shapes = tuple[tuple[Path, Any], ...]
Keys = frozenset[Any]


class CachedPlan:
    """A shape, its plan, and which shape came after it the last time."""

    __slots__ = ("keys", "next", "plan", "shape")

    def __init__(self, shape: Shapes, keys: Keys, plan: BatchDecoder) -> None:
        self.shape = shape
        self.keys = keys
        self.plan = plan
        self.next: CachedPlan = self


class PlanCache:
    """Plans by shape; those that were used last are kept.

    A shape that is seen twice gets a plan. To make one costs as much as to read some hundred
    payloads with it, so once there are as many as there may be, another takes the place of one only
    now and then, however many shapes there are.

    Parameters
    ----------
    reader
        Whose payloads they are for.

    """

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        # What labels, times and the like are in may be there or not.
        self._optional = {field.path[0] for field in reader.layout.designated}
        self._known: dict[Shapes, CachedPlan] = {}  # the one used last is the last
        self._by_keys: dict[Keys, list[CachedPlan]] = {}
        self._seen: set[Shapes] = set()
        self._patience = 0
        self.last: CachedPlan | None = None

    def __len__(self) -> int:
        return len(self._known)

    def match(self, payload: bytes, parse: Callable[[bytes], Any]) -> tuple[CachedPlan, Any] | None:
        """The shape of a payload that has a plan, and the payload decoded by it.

        What came after the last one the last time is tried first, and is right if shapes take
        turns. Otherwise the keys at the top say which ones to try.
        """
        last = self.last
        if last is None:
            return None
        guess = last.next
        with suppress(Exception):  # the careful way says what is wrong
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
        except Exception:  # the careful way says what is wrong
            return []
        return self._by_keys.get(keys - self._optional, [])[-MAX_TRIES:]

    def touch(self, known: CachedPlan) -> None:
        """Note that a plan is in use."""
        if known.shape in self._known:
            self._known[known.shape] = self._known.pop(known.shape)

    def see(self, kinds: dict[Path, Any]) -> None:
        """Note a payload that there was no plan for: the kind of each of its leaves."""
        self._patience += 1
        if not 0 < len(kinds) <= MAX_FIELDS or float not in kinds.values():
            return
        shape = tuple(sorted(kinds.items(), key=lambda item: item[0]))
        if shape in self._known:
            return
        if shape not in self._seen:
            if len(self._seen) >= MAX_SHAPES_SEEN:
                self._seen.clear()
            self._seen.add(shape)
        elif len(self._known) < MAX_PLANS or self._patience >= REPLACEMENT_PAYLOADS:
            self._patience = 0
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
        known.next = known  # or forgotten ones would keep each other alive
        if self.last is known:
            self.last = None


# --- discovery of features -----------------------------------------------------------------------

PAYLOAD_MAX_DEPTH = 32  # levels of nested objects
IGNORED = str | bool | None


class DiscoveringReader(Reader):
    """Finds the features of each payload.

    Nested objects and arrays are flattened, with names like `motor.vib.x` and `spectrum.0`. Text,
    true, false and null are left out. The features are in the order of their names, so that it
    does not matter in which order a device sends them.

    A shape of payload that was seen twice gets a fast way of its own, see `Plans`. Payloads of
    different shapes that come together are sorted by shape first.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._others = {field.path for field in self.layout.designated}
        self._plans = PlanCache(self)

    def fast(self, payloads: Sequence[bytes]) -> Table | None:
        """All of them as one table, if they have the shape of the last one."""
        last = self._plans.last
        table = None if last is None else last.plan.table(payloads)
        if last is not None and table is not None:
            self._plans.touch(last)
        return table

    def _read(self, payloads: Sequence[bytes], start: int, read: Read) -> None:
        table = self.fast(payloads) if payloads else None
        if table is not None:
            table.sources = range(start, start + len(payloads))
            read.tables.append(table)
            return
        sorted_out: dict[CachedPlan, tuple[list[int], list[Any]]] = {}
        for i, payload in enumerate(payloads, start):
            found = self._plans.match(payload, self.decode)
            if found is None:
                self._each([payload], i, read)
                continue
            known, instance = found
            places, instances = sorted_out.setdefault(known, ([], []))
            places.append(i)
            instances.append(instance)
        for known, (places, instances) in sorted_out.items():
            self._plans.touch(known)
            self._finish(known, places, instances, payloads, start, read)

    def _finish(
        self,
        known: CachedPlan,
        places: list[int],
        instances: list[Any],
        payloads: Sequence[bytes],
        start: int,
        read: Read,
    ) -> None:
        """The table of payloads of one shape; halved while something is wrong among them."""
        table = known.plan.finish(instances)
        if table is not None:
            table.sources = places
            read.tables.append(table)
        elif len(places) > 1:
            middle = len(places) // 2
            for part in (slice(0, middle), slice(middle, None)):
                self._finish(known, places[part], instances[part], payloads, start, read)
        else:
            self._each([payloads[places[0] - start]], places[0], read)

    def find_features(self, value: Any) -> list[tuple[str, Any]]:
        """Names and values, in the order of the names."""
        leaves = list(_leaves(value, ()))
        numbers = [
            (path, number)
            for path, number in leaves
            if type(number) in (int, float) and path not in self._others
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
            if path in self._others:
                continue
            if isinstance(value, list):
                return  # positions in arrays have no fast way
            kinds[path] = float if type(value) in (int, float) else IGNORED
        self._plans.see(kinds)


def _leaves(value: Any, above: Path) -> Iterator[tuple[Path, Any]]:
    """All that is neither object nor array; also each array, as something that is there."""
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
