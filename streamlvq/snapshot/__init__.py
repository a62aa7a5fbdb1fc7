"""Snapshots of classifiers as bytes and files: complete, checked, free of executable code."""

from __future__ import annotations

from streamlvq.errors import SnapshotError
from streamlvq.estimator import TRUSTED_LIMITS, TRUSTED_MAX_NUMBERS, StateLimits, build_estimator
from streamlvq.snapshot.container import (
    MAX_SNAPSHOT_BYTES,
    TRUSTED_MAX_BYTES,
    SnapshotSchemaError,
    decode,
    encode,
    kind_of,
)
from streamlvq.snapshot.files import SnapshotFileError, SnapshotFiles, write_atomically
from streamlvq.snapshot.inspect import inspect_text
from streamlvq.snapshot.snapshot import Snapshot
from streamlvq.snapshot.state import capture, from_arrays, to_arrays

__all__ = [
    "MAX_SNAPSHOT_BYTES",
    "TRUSTED_LIMITS",
    "TRUSTED_MAX_BYTES",
    "TRUSTED_MAX_NUMBERS",
    "Snapshot",
    "SnapshotError",
    "SnapshotFileError",
    "SnapshotFiles",
    "SnapshotSchemaError",
    "StateLimits",
    "build_estimator",
    "capture",
    "decode",
    "encode",
    "from_arrays",
    "inspect_text",
    "kind_of",
    "to_arrays",
    "write_atomically",
]
