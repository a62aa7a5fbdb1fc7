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
TOPIC_CACHE_SIZE = 100_000
BOM = b"\xef\xbb\xbf"


class LogError(StreamLVQError, ValueError):
    """A file is not the log that it was taken for."""


def count_lines(block: bytes) -> int:
    """How many newlines there are; numpy counts many of them several times as fast as bytes do."""
    return int(np.count_nonzero(np.frombuffer(block, np.uint8) == 10))


def to_text(data: bytes) -> str:
    """Bytes as text; raises a ValueError that says what is wrong."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ValueError(f"expected text in UTF-8, got {data[:80]!r}") from None


class StoredFile:
    """A file read from start to end; `.gz` is decompressed, also if several were put together.

    A compressed file that was cut off (the recorder was killed) gives all that can be recovered;
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
        self._waiting = b""  # compressed bytes not looked at yet
        self._inside = False  # of a compressed part

    @property
    def position(self) -> int:
        """Stored bytes used so far."""
        return self._file.tell() - len(self._waiting)

    def read(self, size: int) -> bytes:
        """Up to about `size` bytes; b"" only at the end."""
        if self._inflate is None:
            return self._file.read(size)
        parts: list[bytes] = []
        length = 0
        while length < size and (part := self._decompress(size - length)) is not None:
            parts.append(part)
            length += len(part)
        return b"".join(parts)

    def _decompress(self, size: int) -> bytes | None:
        """Some bytes, perhaps none; None at the end."""
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
        """Close it; nothing if that was done."""
        self._file.close()

    def __enter__(self) -> StoredFile:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class Blocks:
    """The bytes of a file in blocks of whole lines; the last one ends in a newline if need be.

    What the reader of a block did not use is given again by `give_back`; what goes on in the next
    block is put in front of that by `keep`.

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
        self.final = False  # whether the last block was given
        self.line = 1  # the number of the first line of the block
        self._rest = b""
        self._again = b""
        self._next_line = 1
        self._fresh = True

    def next(self) -> bytes:
        """The next block; b"" at the end."""
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
        """Give this, the end of the block just given, again, as the next block."""
        self._again = rest
        self._next_line -= count_lines(rest)

    def keep(self, rest: bytes) -> None:
        """Begin the next block with this, the end of the one just given."""
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
    """A log of lines; a batch is what a block of them holds."""

    block_bytes = BLOCK_BYTES

    def __init__(self, path: Path, fields: Fields | None = None) -> None:
        super().__init__(path, fields)
        self._blocks: Blocks | None = None
        self._refused: list[str] = []
        self._done = (0, 0)  # progress when it was closed

    def open(self) -> None:
        """Prepare to read from the start; raises if this is no such log."""
        self.close()
        self._refused, self.notes = [], []
        self._blocks = Blocks(self.path, self.block_bytes)
        try:
            self.begin(self._blocks)
        except BaseException:
            self.close()
            raise

    def begin(self, blocks: Blocks) -> None:
        """Look at the start of the file."""

    def read(self) -> Sequence[Message] | Readings | None:
        """The next batch, None at the end; an empty one if all rows of a block were refused."""
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
        """What these lines hold; for those that make no sense, call `refuse`."""

    @property
    def blocks(self) -> Blocks:
        """The lines of the open file."""
        if self._blocks is None:
            raise LogError(f"{self.path}: expected an open log, got one that is not: call open()")
        return self._blocks

    def refuse(self, line: int, text: str) -> None:
        """Note what is wrong with a line."""
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
        """Close the file; nothing if it is not open."""
        if self._blocks is not None:
            self._done = self.progress
            self._blocks.close()
            self._blocks = None


class MessageBlockLog(BlockLog):
    """A log of lines that hold messages."""

    holds_messages = True

    @abc.abstractmethod
    def batch(self, block: bytes) -> list[Message]:
        """The messages in these lines."""


class TopicCache(dict[bytes, str]):
    """Topics as texts; most come again and again. Raises a ValueError for what is no text."""

    def __missing__(self, topic: bytes) -> str:
        if len(self) >= TOPIC_CACHE_SIZE:
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
    """Messages of columns; their keys are the numbers of their lines."""
    return list(map(Message, topics, payloads, received, repeat(False), numbers))
