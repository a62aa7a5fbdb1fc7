"""Payloads whose features are not named beforehand: every number that is nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any

from streamlvq.paths import Path, join_path
from streamlvq.payloads.layout import Field, Layout
from streamlvq.payloads.reader import Plan, Reader, Table
from streamlvq.payloads.structs import SCALAR, Shape, Uncompilable
from streamlvq.payloads.values import RefusedError

DEEPEST = 32  # levels of nested objects
MOST_SHAPES = 16  # for which there is a fast way at a time
MOST_SEEN = 256
IGNORED = str | bool | None

Shapes = tuple[tuple[Path, Any], ...]


class DiscoveringReader(Reader):
    """Finds the features of each payload.

    Nested objects and arrays are flattened, with names like `motor.vib.x` and `spectrum.0`. Text,
    true, false and null are left out. The features are in the order of their names, so that it
    does not matter in which order a device sends them.

    A shape of payload that was seen twice gets a fast way of its own.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._others = {field.path for field in self.layout.designated}
        self._plans: dict[Shapes, Plan] = {}  # the one used last is the last
        self._seen: set[Shapes] = set()

    def fast(self, payloads: Sequence[bytes]) -> Table | None:
        """All of them as one table, if they have the same features as some before."""
        for shape, plan in reversed(self._plans.items()):
            table = plan.table(payloads)
            if table is not None:
                if shape is not next(reversed(self._plans)):
                    self._plans[shape] = self._plans.pop(shape)
                return table
        return None

    def find_features(self, value: Any) -> list[tuple[str, Any]]:
        """Names and values, in the order of the names."""
        leaves = list(_leaves(value, ()))
        self._remember(leaves)
        found = [
            (join_path(path), number)
            for path, number in leaves
            if type(number) in (int, float) and path not in self._others
        ]
        return sorted(found, key=itemgetter(0))

    def _remember(self, leaves: list[tuple[Path, Any]]) -> None:
        kinds: dict[Path, Any] = {}
        for path, value in leaves:
            if path in self._others:
                continue
            if isinstance(value, list):
                return  # positions in arrays have no fast way
            kinds[path] = float if type(value) in (int, float) else IGNORED
        if float not in kinds.values():
            return
        shape = tuple(sorted(kinds.items(), key=itemgetter(0)))
        if shape in self._seen and shape not in self._plans:
            self._learn(shape)
        else:
            if len(self._seen) >= MOST_SEEN:
                self._seen.clear()
            self._seen.add(shape)

    def _learn(self, shape: Shapes) -> None:
        named = [(join_path(path), path) for path, kind in shape if kind is float]
        features = tuple(Field(name, path) for name, path in sorted(named))
        layout: Layout = self.layout._replace(features=features)
        kinds: dict[Path, Any] = {feature.path: float for feature in features}
        kinds |= {path: kind for path, kind in shape if kind is not float}
        kinds |= {field.path: SCALAR for field in layout.designated}
        try:
            plan = Plan(self, Shape(layout, kinds, strict=True), tuple(f.name for f in features))
        except Uncompilable:
            return
        if len(self._plans) >= MOST_SHAPES:
            del self._plans[next(iter(self._plans))]
        self._plans[shape] = plan


def _leaves(value: Any, above: Path) -> Iterator[tuple[Path, Any]]:
    """All that is neither object nor array; also each array, as something that is there."""
    if len(above) > DEEPEST:
        raise RefusedError("payload", f"expected at most {DEEPEST} levels of nesting, got more")
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
