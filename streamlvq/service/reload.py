"""Reloads: which keys of a monitoring configuration can change while it runs."""

from __future__ import annotations

from streamlvq.config import Config
from streamlvq.role import changed_keys, is_among

# What the state on disk, the session at the broker or the model itself was made for.
RESTART_KEYS = (
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
CONNECTION_KEYS = ("broker", "readings.topic", "readings.qos", "labels", "status.topic")


def restart_keys(old: Config, new: Config) -> list[str]:
    """Return the changed keys that need a restart.

    Examples
    --------
    >>> from streamlvq.config import HealthSection, ModelSection
    >>> new = Config(model=ModelSection(type="GLVQ"), health=HealthSection(silence_seconds=9.0))
    >>> restart_keys(Config(), new)
    ['model.type']

    """
    names = [name for name in changed_keys(old, new) if is_among(name, RESTART_KEYS)]
    if (old.rejector is None) != (new.rejector is None):
        names.append("rejector")
    if (old.labels is None) != (new.labels is None):
        names.append("labels")
    return names


def needs_reconnect(old: Config, new: Config) -> bool:
    """Return whether the changes need a new link to the broker."""
    return any(is_among(name, CONNECTION_KEYS) for name in changed_keys(old, new))
