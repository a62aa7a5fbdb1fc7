"""What can go wrong with snapshots."""

from __future__ import annotations

from streamlvq.errors import StreamLVQError


class SnapshotError(StreamLVQError, ValueError):
    """Something that cannot be a snapshot, or cannot be put into one."""


class SnapshotSchemaError(SnapshotError):
    """Something of another version, which may well be a snapshot there."""


class SnapshotFileError(StreamLVQError, OSError):
    """A snapshot could not be written: the disk is full, the folder is read-only ..."""
