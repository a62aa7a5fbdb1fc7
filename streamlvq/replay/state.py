"""What monitors know, from and to files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from streamlvq.config import Config
from streamlvq.monitor import Monitor
from streamlvq.snapshot import (
    Snapshot,
    SnapshotError,
    Store,
    decode,
    inspect_text,
    kind_of,
    write_atomically,
)
from streamlvq.text import number

OF_A_MODEL, OF_A_MONITOR = "snapshot", "checkpoint"


def load_monitor(config: Config, path: str | Path | None = None) -> Monitor:
    """A monitor that begins with what a file knows.

    From a snapshot of a model every model of the monitor begins; a file that `save_monitor` or a
    daemon wrote is continued exactly.

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
        if kind_of(data) == OF_A_MODEL:
            return Monitor(config, Snapshot.from_bytes(data))
        return Monitor.restore(config, data)
    except SnapshotError as error:
        raise SnapshotError(f"{path}: {error}") from error


def save_monitor(monitor: Monitor, path: str | Path) -> None:
    """Write all that a monitor knows; as a whole or not at all."""
    write_atomically(path, monitor.checkpoint())


def load_snapshots(path: str | Path, node: str | None = None) -> list[Snapshot]:
    """What a node has learnt: of each of its models a snapshot.

    Parameters
    ----------
    path
        A snapshot of a model or of a monitor, or the folder of a daemon.
    node
        What to call it. By default as the file says; a monitor, which has no name, is called like
        its file or folder. Of several models each has the name of its group added.

    """
    path = Path(path)
    data = _read(path)
    try:
        if kind_of(data) == OF_A_MODEL:
            return [_called(Snapshot.from_bytes(data), node)]
        found = _models(data)
        name = node or path.resolve().stem
        return [
            Snapshot.of(classifier, node=f"{name}/{group}" if group else name)
            for group, classifier in found.items()
        ]
    except SnapshotError as error:
        raise SnapshotError(f"{path}: {error}") from error


def _called(snapshot: Snapshot, node: str | None) -> Snapshot:
    if node is None or node == snapshot.node:
        return snapshot
    return Snapshot.of(
        snapshot.classifier(),
        node=node,
        readings=snapshot.has_readings,
        created=snapshot.created,
    )


def inspect(path: str | Path, width: int | None = None) -> str:
    """What a snapshot has learnt, as tables.

    Parameters
    ----------
    path
        A snapshot of a model or of a monitor, or the folder of a daemon.
    width
        Columns of the terminal; None: any.

    """
    data = _read(Path(path))
    try:
        if kind_of(data) == OF_A_MODEL:
            return _text(Snapshot.from_bytes(data), width)
        return _described(_models(data), width)
    except SnapshotError as error:
        raise SnapshotError(f"{path}: {error}") from error


def _models(data: bytes) -> Mapping[str, Any]:
    """The classifiers in a file of a monitor, which says itself how they were configured."""
    _, metadata = decode(data, kind=OF_A_MONITOR)
    try:
        config = msgspec.convert(metadata.get("made_of"), Config)
    except msgspec.ValidationError as error:
        raise SnapshotError(f"made_of: {error}") from error
    return Monitor.restore(config, data).models()


def _described(models: Mapping[str, Any], width: int | None) -> str:
    if not models:
        return "nothing was learnt yet"
    texts = [
        _text(Snapshot.of(classifier, node=group or "all devices"), width)
        for group, classifier in models.items()
    ]
    return "\n\n".join(texts)


def _text(snapshot: Snapshot, width: int | None) -> str:
    """What it has learnt, and why its numbers need not add up."""
    text = inspect_text(snapshot, width=width)
    readings = sum(snapshot.counts.values())
    if snapshot.samples - readings <= len(snapshot.labels):  # counts of fused classes are rounded
        return text
    steps = f"{number(readings)} labelled readings, learnt in {number(snapshot.samples)} steps"
    return f"{text}\n\n{steps}: in several epochs a reading is learnt several times"


def _read(path: Path) -> bytes:
    if not path.is_dir():
        return path.read_bytes()
    newest = Store(path).newest(_checked)
    if newest is None:
        raise SnapshotError(f"{path}: expected a snapshot in this folder, got none that is good")
    return newest[0]


def _checked(data: bytes) -> bytes:
    decode(data, kind=kind_of(data))  # a damaged one raises, and the one before is taken
    return data
