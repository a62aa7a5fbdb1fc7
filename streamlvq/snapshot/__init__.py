"""What a classifier has learnt, as bytes and files: complete, checked, never executable."""

from __future__ import annotations

from streamlvq.snapshot.classifiers import describe, rebuild
from streamlvq.snapshot.container import LIMIT, OWN_LIMIT, decode, encode, kind_of
from streamlvq.snapshot.errors import SnapshotError, SnapshotFileError
from streamlvq.snapshot.files import Store, write_atomically
from streamlvq.snapshot.snapshot import Snapshot
from streamlvq.snapshot.table import inspect_text
from streamlvq.snapshot.verify import OWN_ROOM

__all__ = [
    "LIMIT",
    "OWN_LIMIT",
    "OWN_ROOM",
    "Snapshot",
    "SnapshotError",
    "SnapshotFileError",
    "Store",
    "decode",
    "describe",
    "encode",
    "inspect_text",
    "kind_of",
    "rebuild",
    "write_atomically",
]
