"""Which changes of a configuration can be made while the daemon runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from streamlvq.config import Config

# What the state on disk, the session at the broker or the model itself is made for.
FIXED = (
    "broker.client_id",
    "broker.protocol",
    "state.folder",
    "state.journal",
    "state.duplicates",
    "model",
    "integrator",
    "rejector.type",
    "rejector.memory",
    "rejector.per_class",
    "labels.wait",
    "labels.sequence",
    "labels.time",
    "shard",
    "fleet",
)
# What makes the connection what it is; another one is made when these change.
CONNECTION = ("broker", "readings.topic", "readings.qos", "labels", "status.topic")


def changes(old: Config, new: Config) -> list[str]:
    """The keys whose values differ.

    Examples
    --------
    >>> from streamlvq.config import HealthSection, ModelSection
    >>> new = Config(model=ModelSection(type="GLVQ"), health=HealthSection(silence_seconds=9.0))
    >>> changes(Config(), new)
    ['model.type', 'health.silence_seconds']
    >>> fixed(Config(), new)
    ['model.type']

    """
    return list(_differences(msgspec.to_builtins(old), msgspec.to_builtins(new), ""))


def fixed(old: Config, new: Config) -> list[str]:
    """Those of the changed keys that need a restart."""
    names = [name for name in changes(old, new) if touches(name, FIXED)]
    if (old.rejector is None) != (new.rejector is None):
        names.append("rejector")
    if (old.labels is None) != (new.labels is None):
        names.append("labels")
    return names


def reconnects(old: Config, new: Config) -> bool:
    """Whether the changes need another connection."""
    return any(touches(name, CONNECTION) for name in changes(old, new))


def touches(name: str, keys: tuple[str, ...]) -> bool:
    """Whether a key is one of these or inside one of them."""
    return any(name == key or name.startswith(f"{key}.") for key in keys)


def _differences(old: Any, new: Any, path: str) -> Iterator[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        for name in {**old, **new}:
            inner = f"{path}.{name}" if path else name
            yield from _differences(old.get(name), new.get(name), inner)
    elif old != new:
        yield path


__all__ = ["changes", "fixed", "reconnects"]
