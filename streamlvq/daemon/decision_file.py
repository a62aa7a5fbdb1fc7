"""Decisions in a file of JSON lines."""

from __future__ import annotations

import logging
import os
from pathlib import Path

log = logging.getLogger(__name__)


class DecisionFile:
    """Appends lines; begins the file anew when someone has moved it away (logrotate).

    A file that cannot be written loses decisions, not readings: it is said and counted, and the
    daemon goes on.

    Parameters
    ----------
    path
        Where; the folder is made if need be.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "out" / "decisions.jsonl"
    >>> file = DecisionFile(path)
    >>> file.write([b'{"label":"ok"}', b'{"label":"hot"}'])
    0
    >>> path.read_text()
    '{"label":"ok"}\\n{"label":"hot"}\\n'

    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.trouble: str | None = None
        self._file: int | None = None
        self._torn = False  # part of a line may have been written

    def write(self, lines: list[bytes]) -> int:
        """Append the lines; how many of them were lost."""
        if not lines:
            return 0
        try:
            file = self._open()
            data = (b"\n" if self._torn else b"") + b"\n".join(lines) + b"\n"
            self._torn = True
            view = memoryview(data)
            while view:
                view = view[os.write(file, view) :]
        except OSError as error:
            self.trouble = f"{self.path}: {error.strerror}"
            log.error("%d decisions could not be written to %s", len(lines), self.trouble)
            return len(lines)
        self._torn, self.trouble = False, None
        return 0

    def check(self) -> None:
        """Open the file before there is anything to write: better a complaint now than a loss."""
        try:
            self._open()
        except OSError as error:
            self.trouble = f"{self.path}: {error.strerror}"
            log.error("decisions cannot be written to %s (decisions.file)", self.trouble)
        else:
            self.trouble = None

    def look(self) -> None:
        """Notice that the file was moved away or deleted."""
        if self._file is None:
            return
        try:
            if os.path.samestat(os.stat(self.path), os.fstat(self._file)):
                return
        except FileNotFoundError:
            pass
        except OSError as error:
            log.warning("%s cannot be looked at: %s", self.path, error)
            return
        self.close()

    def close(self) -> None:
        """Close the file; the next line opens it again."""
        if self._file is not None:
            os.close(self._file)
        self._file, self._torn = None, False

    def _open(self) -> int:
        if self._file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self._file = os.open(self.path, flags, 0o640)
            self._torn = not _ends_line(self._file)
        return self._file


def _ends_line(file: int) -> bool:
    """Whether a file is empty or ends with a whole line: a crash may have cut the last one."""
    size = os.fstat(file).st_size
    return size == 0 or os.pread(file, 1, size - 1) == b"\n"


__all__ = ["DecisionFile"]
