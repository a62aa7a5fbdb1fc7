"""The fast ways for shapes of payloads that were seen before; bounded."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from streamlvq.paths import Path, join_path
from streamlvq.payloads.layout import Field, Layout
from streamlvq.payloads.reader import Plan, Reader
from streamlvq.payloads.structs import SCALAR, Shape, Uncompilable

MOST_SHAPES = 64  # for which there is a fast way at a time
MOST_FIELDS = 256  # of a shape with a fast way: msgspec looks for a key among all of them
MOST_SEEN = 256
MOST_TRIES = 4  # of shapes with the same keys at the top
FEW_SHAPES = 3  # that are tried without looking at the keys first
PATIENCE = 1000  # payloads read with care for each way that takes the place of another

Shapes = tuple[tuple[Path, Any], ...]
Keys = frozenset[Any]


class KnownShape:
    """A shape, its plan, and which shape came after it the last time."""

    __slots__ = ("keys", "next", "plan", "shape")

    def __init__(self, shape: Shapes, keys: Keys, plan: Plan) -> None:
        self.shape = shape
        self.keys = keys
        self.plan = plan
        self.next: KnownShape = self


class Plans:
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
        self._known: dict[Shapes, KnownShape] = {}  # the one used last is the last
        self._by_keys: dict[Keys, list[KnownShape]] = {}
        self._seen: set[Shapes] = set()
        self._patience = 0
        self.last: KnownShape | None = None

    def __len__(self) -> int:
        return len(self._known)

    def match(self, payload: bytes, parse: Callable[[bytes], Any]) -> tuple[KnownShape, Any] | None:
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

    def _candidates(self, payload: bytes, parse: Callable[[bytes], Any]) -> list[KnownShape]:
        if len(self._known) <= FEW_SHAPES:
            return list(self._known.values())
        try:
            keys = frozenset(parse(payload))
        except Exception:  # the careful way says what is wrong
            return []
        return self._by_keys.get(keys - self._optional, [])[-MOST_TRIES:]

    def touch(self, known: KnownShape) -> None:
        """Note that a plan is in use."""
        if known.shape in self._known:
            self._known[known.shape] = self._known.pop(known.shape)

    def see(self, kinds: dict[Path, Any]) -> None:
        """Note a payload that there was no plan for: the kind of each of its leaves."""
        self._patience += 1
        if not 0 < len(kinds) <= MOST_FIELDS or float not in kinds.values():
            return
        shape = tuple(sorted(kinds.items(), key=lambda item: item[0]))
        if shape in self._known:
            return
        if shape not in self._seen:
            if len(self._seen) >= MOST_SEEN:
                self._seen.clear()
            self._seen.add(shape)
        elif len(self._known) < MOST_SHAPES or self._patience >= PATIENCE:
            self._patience = 0
            self._learn(shape)

    def _learn(self, shape: Shapes) -> None:
        try:
            plan = self._plan(shape)
        except Uncompilable:
            return
        if len(self._known) >= MOST_SHAPES:
            self._forget(next(iter(self._known)))
        keys = frozenset(path[0] for path, _ in shape) - self._optional
        known = self._known[shape] = KnownShape(shape, keys, plan)
        self._by_keys.setdefault(keys, []).append(known)
        self.last = known

    def _plan(self, shape: Shapes) -> Plan:
        named = [(join_path(path), path) for path, kind in shape if kind is float]
        features = tuple(Field(name, path) for name, path in sorted(named))
        layout: Layout = self._reader.layout._replace(features=features)
        kinds: dict[Path, Any] = {feature.path: float for feature in features}
        kinds |= {path: kind for path, kind in shape if kind is not float}
        kinds |= {field.path: SCALAR for field in layout.designated}
        names = tuple(feature.name for feature in features)
        return Plan(self._reader, Shape(layout, kinds, strict=True), names)

    def _forget(self, shape: Shapes) -> None:
        known = self._known.pop(shape)
        self._by_keys[known.keys].remove(known)
        if not self._by_keys[known.keys]:
            del self._by_keys[known.keys]
        known.next = known  # or forgotten ones would keep each other alive
        if self.last is known:
            self.last = None


__all__ = ["Plans"]
