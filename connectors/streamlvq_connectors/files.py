"""Files read in blocks of whole lines, plain or gzipped, whole or torn; logs based on them."""

from __future__ import annotations

import abc
import os
import zlib
from collections.abc import Iterable, Sequence
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from streamlvq.connect import Log, Message
from streamlvq.errors import StreamLVQError
from streamlvq.events import Readings

if TYPE_CHECKING:
    from streamlvq.config import Fields


BLOCK_BYTES = 1 << 20  # read at a time: a few thousand rows, and memory stays bounded
LINE_MAX_BYTES = 16 << 20  # a file with a longer line is not a log
TEXT_CACHE_SIZE = 100_000
BOM = b"\xef\xbb\xbf"


class LogError(StreamLVQError, ValueError):
    """A file is not the log that it was taken for."""


def count_lines(block: bytes) -> int:
    """Count newlines; with numpy, several times as fast as `bytes.count` if there are many."""
    return int(np.count_nonzero(np.frombuffer(block, np.uint8) == 10))


class StoredFile:
    """A file read from start to end; `.gz` is decompressed, also if it has several members.

    A compressed file that was cut off (the recorder was killed) yields all that can be recovered;
    `torn` then says so.

    Parameters
    ----------
    path
        The file.

    Examples
    --------
    >>> import gzip, pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "two.csv.gz"
    >>> size = path.write_bytes(gzip.compress(b"a,b\\n") + gzip.compress(b"1,2\\n"))
    >>> with StoredFile(path) as file:
    ...     file.read(100), file.position == file.size
    (b'a,b\\n1,2\\n', True)
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.torn: str | None = None
        self._file: BinaryIO = path.open("rb")
        self.size = os.fstat(self._file.fileno()).st_size
        self._inflate = zlib.decompressobj(31) if path.suffix == ".gz" else None
        self._waiting = b""  # compressed bytes not used yet
        self._inside = False  # of a compressed part

    @property
    def position(self) -> int:
        """Bytes of the stored file used so far."""
        return self._file.tell() - len(self._waiting)

    def read(self, size: int) -> bytes:
        """Return about `size` bytes or fewer; b"" only at the end."""
        if self._inflate is None:
            return self._file.read(size)
        parts: list[bytes] = []
        length = 0
        while length < size and (part := self._decompress(size - length)) is not None:
            parts.append(part)
            length += len(part)
        return b"".join(parts)

    def _decompress(self, size: int) -> bytes | None:
        """Return some bytes, perhaps none; None at the end."""
        assert self._inflate is not None
        data = self._waiting or self._file.read(min(BLOCK_BYTES, 1 << 16))
        if not data or self.torn:
            if self._inside and not self.torn:
                self.torn = "the compressed data ends in the middle; what came before was read"
            return None
        try:
            part = self._inflate.decompress(data, size)
        except zlib.error as error:
            self.torn = f"expected gzip data, got something else ({error}); it was read up to there"
            self._waiting = b""
            return None
        self._inside = not self._inflate.eof
        self._waiting = self._inflate.unused_data or self._inflate.unconsumed_tail
        if self._inflate.eof:
            self._inflate = zlib.decompressobj(31)
        return part

    def close(self) -> None:
        """Close the file, if it is open."""
        self._file.close()

    def __enter__(self) -> StoredFile:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class Blocks:
    """A file in blocks of whole lines, of which the last always ends in a newline.

    A reader returns the part of a block that it did not use: `give_back` makes it a block of its
    own, `keep` puts it in front of the next one.

    Parameters
    ----------
    path
        The file; a byte order mark at its start is skipped.
    size
        Bytes in a block, about.
    """

    def __init__(self, path: Path, size: int = BLOCK_BYTES) -> None:
        self.file = StoredFile(path)
        self.size = size
        self.final = False  # True once the end of the file was reached
        self.line = 1  # the number of the first line of the block
        self._rest = b""
        self._again = b""
        self._next_line = 1
        self._fresh = True

    def next(self) -> bytes:
        """Return the next block; b"" at the end."""
        if self._again:
            block, self._again = self._again, b""
            return self._given(block)
        parts = [self._rest]
        self._rest = b""
        while not self.final:
            data = self._read()
            if not data:
                self.final = True
            cut = data.rfind(b"\n") + 1
            if cut:
                parts.append(data[:cut])
                self._rest = data[cut:]
                break
            parts.append(data)
            self._check(parts)
        block = b"".join(parts)
        if block and not block.endswith(b"\n"):
            block += b"\n"
        return self._given(block)

    def _given(self, block: bytes) -> bytes:
        self.line = self._next_line
        self._next_line += count_lines(block)
        return block

    def give_back(self, rest: bytes) -> None:
        """Make the unused end of the last block the next block."""
        self._again = rest
        self._next_line -= count_lines(rest)

    def keep(self, rest: bytes) -> None:
        """Begin the next block with the unused end of the last one."""
        self._rest = rest + self._rest
        self._next_line -= count_lines(rest)

    def _read(self) -> bytes:
        data = self.file.read(self.size)
        if self._fresh:
            self._fresh = False
            return data.removeprefix(BOM)
        return data

    def _check(self, parts: list[bytes]) -> None:
        if sum(map(len, parts)) > LINE_MAX_BYTES:
            raise LogError(
                f"{self.file.path}: expected lines of at most {LINE_MAX_BYTES} bytes, got a longer "
                f"one after line {self._next_line}"
            )

    def close(self) -> None:
        """Close the file."""
        self.file.close()


class BlockLog(Log):
    """Base class of logs made of lines, which are read a block at a time."""

    block_bytes = BLOCK_BYTES

    def __init__(self, path: Path, fields: Fields | None = None) -> None:
        super().__init__(path, fields)
        self._blocks: Blocks | None = None
        self._refused: list[str] = []
        self._done = (0, 0)  # progress when it was closed

    def open(self) -> None:
        """Prepare to read from the start; raise LogError if the file is not such a log."""
        self.close()
        self._refused, self.notes = [], []
        self._blocks = Blocks(self.path, self.block_bytes)
        try:
            self.begin(self._blocks)
        except BaseException:
            self.close()
            raise

    def begin(self, blocks: Blocks) -> None:
        """Inspect the start of the file (default: nothing)."""

    def read(self) -> Sequence[Message] | Readings | None:
        """Return the next batch; None at the end, an empty one if a whole block was refused."""
        self._refused = []
        blocks = self.blocks
        block = blocks.next()
        torn, blocks.file.torn = blocks.file.torn, None
        if not block and torn is None:
            return None
        batch = self.batch(block)
        if torn is not None:
            self.refuse(blocks.line + count_lines(block), torn)
        return batch

    @abc.abstractmethod
    def batch(self, block: bytes) -> Sequence[Message] | Readings:
        """Return what these lines hold; call `refuse` for lines that are not valid."""

    @property
    def blocks(self) -> Blocks:
        """Blocks of the open file."""
        if self._blocks is None:
            raise LogError(f"{self.path}: expected an open log, got one that is not: call open()")
        return self._blocks

    def refuse(self, line: int, text: str) -> None:
        """Record what is wrong with a line."""
        self._refused.append(f"line {line}: {text}")

    @property
    def refused(self) -> list[str]:
        """What was wrong with lines of the last batch, with their numbers."""
        return self._refused

    @property
    def progress(self) -> tuple[int, int]:
        """Bytes of the file (as stored) read so far, and in all."""
        if self._blocks is not None:
            self._done = (self._blocks.file.position, self._blocks.file.size)
        return self._done

    def close(self) -> None:
        """Close the file, if it is open."""
        if self._blocks is not None:
            self._done = self.progress
            self._blocks.close()
            self._blocks = None


class MessageBlockLog(BlockLog):
    """Base class of logs whose lines hold messages."""

    holds_messages = True

    @abc.abstractmethod
    def batch(self, block: bytes) -> list[Message]:
        """Return the messages in these lines."""


class TopicCache(dict[bytes, str]):
    """Decoded topics, since most occur again and again; a ValueError if one is not UTF-8."""

    def __missing__(self, topic: bytes) -> str:
        if len(self) >= TEXT_CACHE_SIZE:
            self.clear()
        if not topic:
            raise ValueError("expected a topic")
        text = self[topic] = topic.decode()
        return text


def make_messages(
    topics: Iterable[str],
    payloads: Iterable[bytes],
    received: Iterable[float],
    numbers: Iterable[int],
) -> list[Message]:
    """Build messages from columns; the key of each is its line number."""
    return list(map(Message, topics, payloads, received, repeat(False), numbers))
