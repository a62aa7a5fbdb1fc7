"""Monitors and models in files: a state folder of the service, a checkpoint, a snapshot.

Checkpoints are our own files, so they may be as large as the service can write them; snapshots of
models may come from strangers and are read with the usual limit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from streamlvq.config import Config
from streamlvq.monitor.monitor import Monitor
from streamlvq.snapshot import (
    TRUSTED_MAX_BYTES,
    Snapshot,
    SnapshotError,
    SnapshotFiles,
    decode,
    inspect_text,
    kind_of,
    write_atomically,
)
from streamlvq.text import number

T = TypeVar("T")

SNAPSHOT, CHECKPOINT = "snapshot", "checkpoint"  # kinds of files: of a model, of a monitor
FILE_MODE, FOLDER_MODE = 0o640, 0o750  # of a state folder: readings are not for everybody


def load_start_model(config: Config) -> Snapshot | None:
    """Load the snapshot that new models start from; None if `model.start` is not set."""
    if config.model.start is None:
        return None
    try:
        return Snapshot.load(config.model.start)
    except FileNotFoundError as error:
        raise SnapshotError(
            f"model.start: expected a snapshot, got no such file: {config.model.start!r}"
        ) from error


def restore_newest(
    config: Config, files: SnapshotFiles, start: Snapshot | None
) -> tuple[Monitor, int, Path] | None:
    """Restore a monitor from the newest usable checkpoint of a state folder.

    Return it with its position in the journal and its file; None if there is no usable one.
    """
    return _newest(files, lambda data: Monitor.restore(config, data, start))


def load_monitor(config: Config, path: str | Path | None = None) -> Monitor:
    """Make a monitor that starts with what a file knows.

    From a snapshot of a model every model of the monitor starts; a file that `save_monitor` or the
    service wrote is continued exactly.

    Parameters
    ----------
    config
        What the monitor is to be; the model in the file must fit.
    path
        The file, or the state folder of a service, whose newest good one is taken. None: a new
        monitor.

    """
    if path is None:
        return Monitor(config)
    data = _read(Path(path))
    try:
        if _kind(data) == SNAPSHOT:
            return Monitor(config, Snapshot.from_bytes(data))
        return Monitor.restore(config, data)
    except SnapshotError as error:
        raise SnapshotError(f"{path}: {error}") from error


def save_monitor(monitor: Monitor, path: str | Path) -> None:
    """Write everything that a monitor knows; as a whole or not at all."""
    write_atomically(path, monitor.checkpoint())


def load_snapshots(path: str | Path, node: str | None = None) -> list[Snapshot]:
    """Load what a node has learnt: a snapshot of each of its models.

    Parameters
    ----------
    path
        A snapshot of a model or of a monitor, or the state folder of a service.
    node
        The name to give it. By default as the file says; a monitor, which has no name, is called
        like its file or folder. Of several models each has the name of its group added.

    """
    path = Path(path)
    data = _read(path)
    try:
        if _kind(data) == SNAPSHOT:
            return [_renamed(Snapshot.from_bytes(data), node)]
        name = node or path.resolve().stem
        return [
            Snapshot.of(classifier, node=f"{name}/{group}" if group else name)
            for group, classifier in _models(data).items()
        ]
    except SnapshotError as error:
        raise SnapshotError(f"{path}: {error}") from error


def _renamed(snapshot: Snapshot, node: str | None) -> Snapshot:
    if node is None or node == snapshot.node:
        return snapshot
    return Snapshot.of(
        snapshot.classifier(),
        node=node,
        readings=snapshot.has_readings,
        created=snapshot.created,
    )


def inspect(path: str | Path, width: int | None = None) -> str:
    """Describe what a snapshot has learnt, as tables.

    Parameters
    ----------
    path
        A snapshot of a model or of a monitor, or the state folder of a service.
    width
        Columns of the terminal; None: any.

    """
    data = _read(Path(path))
    try:
        if _kind(data) == SNAPSHOT:
            return _text(Snapshot.from_bytes(data), width)
        return _described(_models(data), width)
    except SnapshotError as error:
        raise SnapshotError(f"{path}: {error}") from error


def _models(data: bytes) -> Mapping[str, Any]:
    """Return the classifiers of a checkpoint, which says itself how they were configured."""
    _, metadata = decode(data, kind=CHECKPOINT, limit=TRUSTED_MAX_BYTES)
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
    """Describe a snapshot, and say why its numbers need not add up."""
    text = inspect_text(snapshot, width=width)
    readings = sum(snapshot.counts.values())
    if snapshot.samples - readings <= len(snapshot.labels):  # counts of fused classes are rounded
        return text
    steps = f"{number(readings)} labelled readings, learnt in {number(snapshot.samples)} steps"
    return f"{text}\n\n{steps}: in several epochs a reading is learnt several times"


def _read(path: Path) -> bytes:
    if not path.is_dir():
        return path.read_bytes()
    newest = _newest(SnapshotFiles(path), _checked)
    if newest is None:
        raise SnapshotError(f"{path}: expected a snapshot in this folder, got none that is good")
    return newest[0]


def _newest(files: SnapshotFiles, check: Callable[[bytes], T]) -> tuple[T, int, Path] | None:
    return files.newest(check, limit=TRUSTED_MAX_BYTES)


def _checked(data: bytes) -> bytes:
    decode(data, kind=_kind(data), limit=TRUSTED_MAX_BYTES)  # else the one before is taken
    return data


def _kind(data: bytes) -> str:
    return kind_of(data, limit=TRUSTED_MAX_BYTES)
