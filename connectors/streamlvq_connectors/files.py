"""Reading files in blocks that end with a line, plain or compressed, whole or torn."""

from __future__ import annotations

import os
import zlib
from pathlib import Path
from typing import BinaryIO

import numpy as np

from streamlvq.errors import StreamLVQError

BLOCK = 1 << 20  # bytes at a time; a few thousand rows, and memory stays bounded
LONGEST = 16 << 20  # bytes that a line may have; more is no log
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
        data = self._waiting or self._file.read(min(BLOCK, 1 << 16))
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

    def __init__(self, path: Path, size: int = BLOCK) -> None:
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
        if sum(map(len, parts)) > LONGEST:
            raise LogError(
                f"{self.file.path}: expected lines, got more than {LONGEST} bytes without the end "
                f"of one after line {self._next_line}"
            )

    def close(self) -> None:
        """Close the file."""
        self.file.close()
