"""What monitors know, from and to files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from streamlvq.config import Config
from streamlvq.errors import StreamLVQError
from streamlvq.monitor import Monitor
from streamlvq.snapshot import (
    Snapshot,
    SnapshotError,
    Store,
    inspect_text,
    kind_of,
    write_atomically,
)
from streamlvq.wrappers.chain import links

OF_A_MODEL = "snapshot"  # the other kind is of a whole monitor


def load_monitor(config: Config, path: str | Path | None = None) -> Monitor:
    """A monitor that goes on from a file: a snapshot of a model, or of a whole monitor.

    Parameters
    ----------
    config
        What the monitor is to be; the model in the file must fit.
    path
        The file, or the folder of a daemon, whose newest good one is taken. None: a new monitor.

    """
    if path is None:
        return Monitor(config)
    data = _read(Path(path))
    try:
        if kind_of(data) != OF_A_MODEL:
            return Monitor.restore(config, data)
        return _adopted(config, Snapshot.from_bytes(data).classifier())
    except SnapshotError as error:
        raise SnapshotError(f"{path}: {error}") from error


def save_monitor(monitor: Monitor, path: str | Path) -> None:
    """Write all that a monitor knows; into a folder, as the first snapshot of a daemon there."""
    target = Path(path)
    if target.is_dir() or str(path).endswith("/"):
        _start_of_daemon(target).write(monitor.checkpoint(), 0)
    else:
        write_atomically(target, monitor.checkpoint())


def _start_of_daemon(folder: Path) -> Store:
    store = Store(folder)
    if store.paths():
        raise StreamLVQError(
            f"{folder}: expected a folder without snapshots, got {store.paths()[0].name}; a daemon "
            "goes on from that one: choose another folder, or move it away"
        )
    return store


def inspect(path: str | Path) -> str:
    """What a snapshot has learnt, as tables."""
    data = _read(Path(path))
    try:
        if kind_of(data) == OF_A_MODEL:
            return inspect_text(Snapshot.from_bytes(data))
        return "\n\n".join(_described(Monitor.inspect(data)))
    except SnapshotError as error:
        raise SnapshotError(f"{path}: {error}") from error


def _described(models: dict[str, Any]) -> list[str]:
    if not models:
        return ["nothing was learnt yet"]
    return [
        (f"model of {group}\n" if group else "") + inspect_text(Snapshot.of(classifier))
        for group, classifier in models.items()
    ]


def _read(path: Path) -> bytes:
    if not path.is_dir():
        return path.read_bytes()
    newest = Store(path).newest(_checked)
    if newest is None:
        raise SnapshotError(f"{path}: expected a snapshot in this folder, got none that is good")
    return newest[0]


def _checked(data: bytes) -> bytes:
    kind_of(data)
    return data


def _adopted(config: Config, classifier: Any) -> Monitor:
    """A monitor whose one model is this one."""
    if config.model.per != "all":
        raise SnapshotError(
            f"expected a snapshot of a monitor with a model per {config.model.per}, got one model"
        )
    *_, model = links(classifier)
    if type(model).__name__ != config.model.type:
        raise SnapshotError(f"expected a {config.model.type}, got a {type(model).__name__}")
    monitor = Monitor(config)
    monitor.adopt("", classifier)
    return monitor
