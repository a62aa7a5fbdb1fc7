"""Journal: every message since the last snapshot, on disk before it is acknowledged."""

from __future__ import annotations

import itertools
import logging
import mmap
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from streamlvq.connect import Message
from streamlvq.daemon.lock import FILE_MODE
from streamlvq.daemon.records import Data, Record, find, pack, unpack
from streamlvq.errors import StreamLVQError

log = logging.getLogger(__name__)


class JournalError(StreamLVQError, OSError):
    """The journal cannot be written, or what it holds is damaged."""


class Journal:
    """An append-only list of batches, in files `journal-<first position>.log`.

    A batch has a position: how many were written before it, ever. A crash may tear the last
    record, which then was never acknowledged: it is cut off. Damage anywhere else is an error,
    because going on would lose readings without saying so.

    Parameters
    ----------
    folder
        Where the files are; it must exist.
    sync
        Whether `append` waits until the disk has it. Without, a crash of the daemon loses
        nothing, one of the machine may.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> journal = Journal(folder)
    >>> journal.append([Message("oven/1", b"20.5", 1.0), Message("oven/2", b"21", 1.5)])
    0
    >>> journal.append([Message("oven/1", b"20.7", 2.0)])
    1
    >>> journal.close()
    >>> [(position, len(batch)) for position, batch in Journal(folder).replay(0)]
    [(0, 2), (1, 1)]

    """

    def __init__(self, folder: Path, *, sync: bool = True) -> None:
        self.folder = folder
        self.sync = sync
        self._file: int | None = None  # the segment that is written to
        self._length = 0  # of that segment: what is whole and durable
        self._older = 0  # bytes of the other segments
        self._dirty = False  # a failed append may have left something behind `_length`
        self._next = self._recover()

    @property
    def next(self) -> int:
        """The position that the next batch gets."""
        return self._next

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return self._older + self._length

    def segments(self) -> list[tuple[int, Path]]:
        """The first position and the file of each segment, oldest first."""
        paths = self.folder.glob("journal-*.log")
        return sorted((int(path.stem.partition("-")[2]), path) for path in paths)

    def append(self, messages: Sequence[Message]) -> int:
        """Write a batch; its position. When it fails, the file is as it was before."""
        data = pack(self._next, messages)
        try:
            file = self._segment()
            self._mend(file)
            self._dirty = True
            _write(file, data)
            if self.sync:
                os.fdatasync(file)
        except OSError as error:
            self._undo()
            raise JournalError(
                error.errno, f"the journal in {self.folder} cannot be written: {error.strerror}"
            ) from error
        self._dirty = False
        self._length += len(data)
        self._next += 1
        return self._next - 1

    def replay(self, start: int) -> Iterator[tuple[int, list[Message]]]:
        """The batches from position `start` on, with their positions."""
        segments = self.segments()
        if start >= self._next:
            return
        if not segments or segments[0][0] > start:
            first = segments[0][0] if segments else self._next
            raise JournalError(
                f"the journal in {self.folder} begins at position {first}, but the newest valid "
                f"snapshot needs it from {start} on; put back an earlier snapshot or journal, or "
                "move the folder away to begin anew"
            )
        ends = [first for first, _ in segments[1:]] + [self._next]
        for (first, path), end in zip(segments, ends, strict=True):
            if end > start:
                for record in _records(path, first, end):
                    if record.position >= start:
                        yield record.position, record.messages

    def skip_to(self, position: int) -> None:
        """Go on at a later position: a snapshot already holds what the disk has lost."""
        if position > self._next:
            self.rotate()
            self._next = position

    def rotate(self) -> None:
        """Let the next batch begin a new segment."""
        if self._file is not None and self._length:
            if self._dirty:
                self._undo()
            self._older += self._length
            self._close()

    def forget(self, before: int) -> None:
        """Delete segments that hold only batches before this position."""
        segments = self.segments()
        for (_, path), (following, _) in itertools.pairwise(segments):
            if following <= before:
                self._older -= path.stat().st_size
                path.unlink()
        if segments and self._file is None and self._next <= before:
            self._older -= segments[-1][1].stat().st_size
            segments[-1][1].unlink()

    def close(self) -> None:
        """Close the file; what was appended stays."""
        if self._file is not None:
            if self._dirty:
                self._undo()
            self._older += self._length
            self._close()

    def _close(self) -> None:
        if self._file is not None:
            os.close(self._file)
        self._file, self._length, self._dirty = None, 0, False

    def _segment(self) -> int:
        """The file to write to; a new one if there is none."""
        if self._file is None:
            path = self.folder / f"journal-{self._next:016d}.log"
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, FILE_MODE)
            self._length = 0
            self._dirty = True  # a file of that name from before holds nothing that is whole
            _sync_folder(self.folder)
        return self._file

    def _mend(self, file: int) -> None:
        if self._dirty:
            os.ftruncate(file, self._length)
            self._dirty = False

    def _undo(self) -> None:
        if self._file is not None:
            try:
                self._mend(self._file)
            except OSError as error:  # the next append tries again before it writes
                log.warning("a failed write to the journal is still there: %s", error)

    def _recover(self) -> int:
        """Cut off a torn record; the position that comes next."""
        segments = self.segments()
        if not segments:
            return 0
        first, path = segments[-1]
        whole, following = _whole(path, first)
        if torn := path.stat().st_size - whole:
            log.warning("cut a torn record of %d bytes off the end of %s", torn, path.name)
            _truncate(path, whole)
        self._older = sum(segment.stat().st_size for _, segment in segments)
        return following


def _whole(path: Path, first: int) -> tuple[int, int]:
    """How much of the last segment is whole, and the position that follows."""
    data, end, expected = _content(path), 0, first
    while (record := unpack(data, end)) and record.position == expected:
        end, expected = record.end, expected + 1
    if end < len(data) and find(data, end):
        raise _damaged(path, end, expected)
    return end, expected


def _records(path: Path, first: int, end: int) -> Iterator[Record]:
    """The records of a segment that must be whole."""
    data, place = _content(path), 0
    for position in range(first, end):
        record = unpack(data, place)
        if record is None or record.position != position:
            raise _damaged(path, place, position)
        yield record
        place = record.end


def _content(path: Path) -> Data:
    """A segment as bytes, in memory only where it is looked at: it may be large."""
    with path.open("rb") as file:
        if path.stat().st_size == 0:
            return b""
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _damaged(path: Path, place: int, position: int) -> JournalError:
    return JournalError(
        f"expected batch {position} at byte {place} of {path}, got something damaged; what comes "
        "after it cannot be trusted. Put back a copy of the file, or move the journal files away "
        "to go on from the last snapshot without these readings"
    )


def _write(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def _truncate(path: Path, length: int) -> None:
    with path.open("r+b") as file:
        file.truncate(length)
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


__all__ = ["Journal", "JournalError"]
