"""Monitors and models in files: state folders of the service, checkpoints, snapshots.

Checkpoints are our own files and may be as large as the service writes them; snapshots of models
may come from untrusted sources and are read with the usual size limit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from streamlvq.config import Config
from streamlvq.errors import NotLearntYetError
from streamlvq.monitor.monitor import Monitor
from streamlvq.monitor.private import is_private, public_snapshot
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
from streamlvq.wrappers.base import innermost_model

if TYPE_CHECKING:
    from streamlvq.privacy import ReleaseLedger

T = TypeVar("T")

SNAPSHOT, CHECKPOINT = "snapshot", "checkpoint"  # kinds of files: of a model, of a monitor


def load_start_model(config: Config) -> Snapshot | None:
    """Load the snapshot that new models start from; None if `model.start` is not set."""
    if config.model.start is None:
        return None
    try:
        return Snapshot.load(config.model.start)
    except FileNotFoundError as error:
        raise SnapshotError(
            f"model.start: expected a snapshot, got {config.model.start!r}, which does not exist"
        ) from error


def restore_newest(
    config: Config,
    files: SnapshotFiles,
    start: Snapshot | None,
    ledger: ReleaseLedger | None = None,
) -> tuple[Monitor, int, Path] | None:
    """Restore a monitor from the newest usable checkpoint of a state folder.

    Return it with its position in the journal and its file; None if there is no usable one.
    """
    return _newest(files, lambda data: Monitor.restore(config, data, start, ledger))


def load_monitor(config: Config, path: str | Path | None = None) -> Monitor:
    """Return a monitor that starts from the contents of a file.

    With a model snapshot, every model of the monitor starts from it; a monitor that was written by
    `save_monitor` or the service continues exactly where it stopped.

    Parameters
    ----------
    config
        Configuration of the monitor; the model in the file must match it.
    path
        File, or state folder of a service, of which the newest valid checkpoint is used. None
        for a new monitor.

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
    """Write the complete state of a monitor, atomically."""
    write_atomically(path, monitor.checkpoint())


def load_snapshots(path: str | Path, node: str | None = None) -> list[Snapshot]:
    """Return a snapshot of each model in a file or in the state folder of a service.

    `node` names the snapshots. By default the name in the file is used; a monitor, which has no
    name, gets the name of its file or folder. With several models the group name is appended.
    """
    path = Path(path)
    data = _read(path)
    try:
        if _kind(data) == SNAPSHOT:
            return [_renamed(Snapshot.from_bytes(data), node)]
        name = node or path.resolve().stem
        return [
            public_snapshot(classifier, f"{name}/{group}" if group else name)
            for group, classifier in _models(data).items()
        ]
    except SnapshotError as error:
        raise SnapshotError(f"{path}: {error}") from error


def load_config(path: str | Path) -> Config | None:
    """Return the configuration that a checkpoint, or a state folder's newest, was made of.

    None for the snapshot of a model.
    """
    data = _read(Path(path))
    try:
        return None if _kind(data) == SNAPSHOT else _made_of(data)
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
    """Describe the models in a snapshot, checkpoint or state folder, as tables.

    `width` is the number of terminal columns; None for no limit.
    """
    data = _read(Path(path))
    try:
        if _kind(data) == SNAPSHOT:
            return _text(Snapshot.from_bytes(data), width)
        return _described(_models(data), width)
    except SnapshotError as error:
        raise SnapshotError(f"{path}: {error}") from error


def _models(data: bytes) -> Mapping[str, Any]:
    """Return the classifiers of a checkpoint, built from the configuration stored in it."""
    return Monitor.restore(_made_of(data), data).models()


def _made_of(data: bytes) -> Config:
    _, metadata = decode(data, kind=CHECKPOINT, limit=TRUSTED_MAX_BYTES)
    try:
        return msgspec.convert(metadata.get("made_of"), Config)
    except msgspec.ValidationError as error:
        raise SnapshotError(f"made_of: {error}") from error


def _described(models: Mapping[str, Any], width: int | None) -> str:
    if not models:
        return "nothing has been learnt yet"
    texts = [
        _model_text(classifier, width, owner=group or "all devices")
        for group, classifier in models.items()
    ]
    return "\n\n".join(texts)


def _model_text(classifier: Any, width: int | None, owner: str) -> str:
    if not is_private(classifier):
        return _text(Snapshot.of(classifier), width, owner)
    model = innermost_model(classifier)
    counts = f"{number(model.samples)} labelled readings, {number(model.releases)} releases"
    try:
        released = public_snapshot(model)
    except NotLearntYetError:
        return f"PrivateLVQ of {owner}\n{counts}: too few for a model"
    return f"PrivateLVQ of {owner}\n{counts}; released:\n\n{inspect_text(released, width=width)}"


def _text(snapshot: Snapshot, width: int | None, owner: str | None = None) -> str:
    """Describe a snapshot, and explain why its numbers need not add up."""
    text = inspect_text(snapshot, width=width, owner=owner)
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
        raise SnapshotError(f"{path}: expected a valid snapshot in this folder, got none")
    return newest[0]


def _newest(files: SnapshotFiles, check: Callable[[bytes], T]) -> tuple[T, int, Path] | None:
    return files.newest(check, limit=TRUSTED_MAX_BYTES)


def _checked(data: bytes) -> bytes:
    decode(data, kind=_kind(data), limit=TRUSTED_MAX_BYTES)  # raises, and the one before is used
    return data


def _kind(data: bytes) -> str:
    return kind_of(data, limit=TRUSTED_MAX_BYTES)
