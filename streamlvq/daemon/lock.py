"""One daemon for each state folder."""

from __future__ import annotations

import fcntl
import logging
import os
from pathlib import Path
from types import TracebackType

from streamlvq.errors import StreamLVQError

log = logging.getLogger(__name__)

FILE_MODE, FOLDER_MODE = 0o640, 0o750  # what readings say is not for everybody


class FolderError(StreamLVQError, OSError):
    """The state folder cannot be used."""


class FolderLock:
    """Held while a daemon uses a folder; the system releases it when the process ends.

    Parameters
    ----------
    folder
        Made if it does not exist.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with FolderLock(folder):
    ...     FolderLock(folder)
    Traceback (most recent call last):
    ...
    streamlvq.daemon.lock.FolderError: .../lock is held by process ...; stop it, or give ...

    """

    def __init__(self, folder: Path) -> None:
        path = folder / "lock"
        try:
            folder.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
            self._file = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        except OSError as error:
            raise FolderError(
                f"expected a state folder that can be written, got {folder}: {error.strerror}"
            ) from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(self._file, 20, 0).decode("ascii", "replace").strip() or "?"
            os.close(self._file)
            raise FolderError(
                f"{path} is held by process {holder}; stop it, or give this one another "
                "state.folder"
            ) from error
        self._sign(path)

    def _sign(self, path: Path) -> None:
        """Leave our number for whoever is refused; the lock holds without it."""
        try:
            path.write_text(f"{os.getpid()}\n")
        except OSError as error:
            log.warning("the lock in the state folder does not say who holds it: %s", error)

    def release(self) -> None:
        """Let others use the folder."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> FolderLock:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()
