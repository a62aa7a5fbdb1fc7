"""Types made for a layout, so that msgspec takes just the wanted fields out of a payload."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter, itemgetter
from typing import Any

import msgspec

from streamlvq.paths import Path
from streamlvq.payloads.layout import Field, Layout

Tuples = Callable[[Iterable[Any]], list[tuple[Any, ...]]]

FEATURE = float | bool | None
SCALAR = int | float | str | bool | None
MOST_ITEMS = 4096  # of an array that a path points into

Tree = dict[str, Any]  # from a step to a type, or to a tree


class Uncompilable(Exception):
    """No type can say what is wanted. That is no error: there is a slower way."""


class Shape:
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

    def __init__(self, layout: Layout, kinds: dict[Path, Any], strict: bool = False) -> None:
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
        if count > MOST_ITEMS:
            raise Uncompilable
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

    def _features(self, features: Sequence[Field]) -> Tuples:
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


def shape_of(layout: Layout) -> Shape:
    """The shape of payloads whose features are known."""
    kinds: dict[Path, Any] = {feature.path: FEATURE for feature in layout.features or ()}
    kinds |= {field.path: SCALAR for field in layout.designated}
    return Shape(layout, kinds)


def _plant(tree: Tree, path: Path, kind: Any) -> None:
    for step in path[:-1]:
        tree = tree.setdefault(step, {})
        if not isinstance(tree, dict):
            raise Uncompilable  # a leaf that has something below it
    if path[-1] in tree:
        raise Uncompilable
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
        raise Uncompilable from error
