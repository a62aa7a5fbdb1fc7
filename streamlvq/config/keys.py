"""All keys of a configuration in the order in which they are documented, with their types."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
from msgspec import inspect

from streamlvq.config.schema import Config
from streamlvq.config.words import KEYS

REQUIRED = msgspec.NODEFAULT


class Key(NamedTuple):
    """A key that holds a value, or a section that holds keys."""

    path: str  # with dots
    kind: Any  # its type, as `msgspec.inspect` sees it
    default: Any  # `REQUIRED` if there is none
    section: bool

    @property
    def name(self) -> str:
        """Last part of the path."""
        return self.path.rpartition(".")[2]

    @property
    def depth(self) -> int:
        """Number of sections around it."""
        return self.path.count(".")


def all_keys() -> list[Key]:
    """Return every section followed by its keys; nested sections come last."""
    return list(_keys(inspect.type_info(Config), ""))


def _keys(kind: Any, prefix: str) -> Iterator[Key]:
    order = {path: i for i, path in enumerate(KEYS)}
    for field in sorted(kind.fields, key=lambda f: order.get(prefix + f.name, len(order))):
        path = prefix + field.name
        inner = _struct(field.type)
        yield Key(path, field.type, _default(field), inner is not None)
        if inner is not None:
            yield from _keys(inner, f"{path}.")


def _struct(kind: Any) -> Any:
    """Return the struct of a section; None for a key that holds a value."""
    kinds = kind.types if isinstance(kind, inspect.UnionType) else (kind,)
    return next((k for k in kinds if isinstance(k, inspect.StructType)), None)


def _default(field: Any) -> Any:
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return field.default
