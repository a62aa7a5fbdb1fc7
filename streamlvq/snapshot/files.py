"""Atomic file writes, and a folder that keeps the newest snapshots."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import re
import secrets
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from streamlvq.errors import SnapshotError, StreamLVQError
from streamlvq.snapshot.container import MAX_SNAPSHOT_BYTES

try:
    import fcntl
except ImportError:  # Windows, where a file that is open cannot be removed anyway
    fcntl = None  # type: ignore[assignment]

T = TypeVar("T")

SNAPSHOT_SUFFIX = ".safetensors"
UNFINISHED_SUFFIX = ".unfinished"
FILE_MODE, FOLDER_MODE = 0o640, 0o750  # of states and fleets: readings and models are not public
POSITION_DIGITS = 20
_LOG = logging.getLogger("streamlvq")
_ADVICE = {
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "free some space, or ask for more",
    errno.EROFS: "choose a folder that can be written to",
    errno.EACCES: "allow this user to write there",
    errno.EPERM: "allow this user to write there",
    errno.ENOENT: "make the folder first",
    errno.ENOTDIR: "choose another folder",
    errno.EISDIR: "choose another name",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.EIO: "check the disk",
}


class SnapshotFileError(StreamLVQError, OSError):
    """A snapshot file that could not be written, such as on a full disk."""


def read(path: str | Path, limit: int = MAX_SNAPSHOT_BYTES) -> bytes:
    """Read a file of at most `limit` bytes."""
    with open(path, "rb") as file:
        about = os.fstat(file.fileno())
        if not stat.S_ISREG(about.st_mode):
            raise SnapshotError("expected a file, got something else")
        if about.st_size > limit:
            raise SnapshotError(f"expected at most {limit} bytes, got {about.st_size}")
        return file.read()


def write_atomically(path: str | Path, data: bytes, mode: int = 0o666) -> None:
    """Write a file so that readers see either all of it or nothing.

    When this returns, the file survives a power failure. If it fails, the previous file is
    unchanged and nothing else is left behind.

    Parameters
    ----------
    path
        The file; an existing one is replaced.
    data
        Its new content.
    mode
        Permissions, restricted by the umask.

    """
    path = Path(path)
    if path.exists() and not path.is_file():
        raise SnapshotFileError(f"{path}: expected a file, got something else; choose another name")
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(4)}{UNFINISHED_SUFFIX}")
    try:
        try:
            _write(unfinished, data, mode)
            os.replace(unfinished, path)
        except BaseException:
            with contextlib.suppress(OSError):  # it may not exist; the first error matters
                os.unlink(unfinished)
            raise
        _sync_folder(path.parent)
    except OSError as error:
        raise _write_error(error, path, len(data)) from error


def _write(path: Path, data: bytes, mode: int) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), mode)
    try:
        if fcntl is not None:  # marks a live writer, see `_remove_unfinished`
            with contextlib.suppress(OSError):  # not on every network drive
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(file, rest) :]
        os.fsync(file)
    finally:
        os.close(file)


def _sync_folder(folder: Path) -> None:
    """Make a new file name durable."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _write_error(error: OSError, path: Path, size: int) -> SnapshotFileError:
    reason = error.strerror or str(error)
    advice = _ADVICE.get(error.errno or 0)
    text = f"expected to write {size} bytes, got {reason!r}" + (f": {advice}" if advice else "")
    return SnapshotFileError(error.errno or errno.EIO, text, str(path))


class SnapshotFiles:
    """Folder with the newest snapshots, each named after its position in a journal.

    Parameters
    ----------
    folder
        The folder, created by the first write. Only one process at a time may write to it.
    keep
        How many files to keep. The newest valid one is always kept.
    prefix
        Start of the file names.
    mode
        File permissions, restricted by the umask.

    Examples
    --------

    >>> import tempfile
    >>> from streamlvq.snapshot import SnapshotFiles

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = SnapshotFiles(folder, keep=2)
    ...     for position in (10, 20, 30):
    ...         path = store.write(b"state %d" % position, position)
    ...     data, position, path = store.newest(check=bytes)
    ...     position, data, [p.name for p in store.paths()]
    (30, b'state 30', ['snapshot-00000000000000000030.safetensors',
     'snapshot-00000000000000000020.safetensors'])

    """

    def __init__(
        self, folder: str | Path, keep: int = 5, prefix: str = "snapshot", mode: int = 0o666
    ) -> None:
        if keep < 1:
            raise ValueError(f"SnapshotFiles(keep=...): expected at least 1, got {keep!r}")
        if not re.fullmatch(r"[A-Za-z0-9_-]+", prefix):
            raise ValueError(
                f"SnapshotFiles(prefix=...): expected letters and digits, got {prefix!r}"
            )
        self.folder = Path(folder)
        self.keep = keep
        self.prefix = prefix
        self.mode = mode
        self._good: Path | None = None  # the newest file known to be valid
        self._lock = threading.Lock()
        digits = f"[0-9]{{{POSITION_DIGITS}}}"
        self._name = re.compile(rf"{re.escape(prefix)}-({digits}){re.escape(SNAPSHOT_SUFFIX)}")

    def paths(self) -> list[Path]:
        """Return the files, newest first."""
        return [path for _, path in sorted(self._found(), reverse=True)]

    def positions(self) -> list[int]:
        """Return the journal positions of the files, newest first."""
        return sorted((position for position, _ in self._found()), reverse=True)

    def _found(self) -> Iterator[tuple[int, Path]]:
        try:
            names = os.listdir(self.folder)
        except FileNotFoundError:
            return
        for name in names:
            match = self._name.fullmatch(name)
            if match:
                yield int(match[1]), self.folder / name

    def write(self, data: bytes, position: int) -> Path:
        """Write the snapshot taken at a position and remove the oldest beyond `keep`."""
        if not 0 <= position < 10**POSITION_DIGITS:
            raise ValueError(f"position: expected 0 to 10**{POSITION_DIGITS}, got {position!r}")
        path = self.folder / f"{self.prefix}-{position:0{POSITION_DIGITS}}{SNAPSHOT_SUFFIX}"
        with self._lock:
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise _write_error(error, path, len(data)) from error
            write_atomically(path, data, self.mode)
            self._good = path
            self._prune()
            self._remove_unfinished()
        return path

    def newest(
        self, check: Callable[[bytes], T], *, limit: int = MAX_SNAPSHOT_BYTES
    ) -> tuple[T, int, Path] | None:
        """Return the newest snapshot that `check` accepts: its result, the position and the path.

        Parameters
        ----------
        check
            Converts the bytes, or raises `SnapshotError`; the next older file is then tried, and a
            warning says why.
        limit
            Larger files are skipped.

        """
        for position, path in sorted(self._found(), reverse=True):
            try:
                found = check(read(path, limit))
            except (SnapshotError, OSError) as error:
                _LOG.warning("snapshot %s is of no use, trying an older one: %s", path, error)
                continue
            with self._lock:
                self._good = path
            return found, position, path
        return None

    def _prune(self) -> None:
        """Remove the oldest files; only warn about a file that cannot be removed."""
        for path in self.paths()[self.keep :]:
            if path != self._good:
                try:
                    path.unlink()
                except OSError as error:
                    _LOG.warning("snapshot %s is old but could not be removed: %s", path, error)

    def _remove_unfinished(self) -> None:
        """Remove files that a killed process left unfinished; a live writer holds a lock."""
        for path in self.folder.glob(f".{self.prefix}-*{UNFINISHED_SUFFIX}"):
            with contextlib.suppress(OSError), open(path, "rb") as file:
                if fcntl is not None:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()
