"""Recordings of messages, byte for byte: the format that `streamlvq record` writes.

The first line is `{"streamlvq":"messages","version":1}`, each of the others a message. A payload
that is text is written as it is, so that people can read and search the file; anything else in
base64.
"""

from __future__ import annotations

import gzip
import os
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from streamlvq.connect import LogWriter, Message
from streamlvq_connectors.files import (
    BLOCK_BYTES,
    BOM,
    Blocks,
    LogError,
    MessageBlockLog,
    StoredFile,
    count_lines,
)

if TYPE_CHECKING:
    from streamlvq.config import Fields


RECORDING_VERSION = 1


class _RecordingHeader(msgspec.Struct):
    """First line of a recording."""

    streamlvq: str
    version: int


class _RecordedLine(msgspec.Struct, omit_defaults=True):
    """A message as a line of JSON; either `payload` or `base64` is set."""

    received: float
    topic: str
    payload: str | None = None
    base64: str | None = None
    redelivered: bool = False


RECORDING_HEADER = msgspec.json.encode(_RecordingHeader("messages", RECORDING_VERSION)) + b"\n"


class MessageLog(MessageBlockLog):
    """A recording of messages: when each was received, its topic and its payload.

    Parameters
    ----------
    path
        The file; one that ends in `.gz` is compressed.
    fields
        Not used here: payloads are decoded like those of a broker.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "log.messages"
    >>> with MessageLogWriter(path) as writer:
    ...     writer.write([Message("pump", b"\\xff\\x00", 1.5), Message("fan", b"{}", 2.0)])
    >>> log = MessageLog(path)
    >>> log.open()
    >>> [(m.received, m.topic, m.payload) for m in log.read()]
    [(1.5, 'pump', b'\\xff\\x00'), (2.0, 'fan', b'{}')]
    >>> log.close()
    """

    def __init__(self, path: Path, fields: Fields | None = None) -> None:
        super().__init__(path, fields)
        self._decoder = msgspec.json.Decoder(_RecordedLine)

    @classmethod
    def writer(cls, path: Path) -> MessageLogWriter:
        """Return a writer that appends to a recording and creates the file if necessary."""
        return MessageLogWriter(path)

    @classmethod
    def recognises(cls, name: str, head: bytes) -> bool:
        """Return True if the first line is the header of a recording."""
        try:
            header = msgspec.json.decode(_first_line(head.removeprefix(BOM)), type=_RecordingHeader)
        except msgspec.MsgspecError:
            return False
        return header.streamlvq == "messages"

    def begin(self, blocks: Blocks) -> None:
        """Check and skip the header."""
        block = blocks.next()
        first = _first_line(block)
        if block and not self.recognises(self.path.name, first):
            raise LogError(
                f"{self.path}: expected {RECORDING_HEADER[:-1]!r} first, got {first[:80]!r}"
            )
        if block and msgspec.json.decode(first, type=_RecordingHeader).version > RECORDING_VERSION:
            raise LogError(
                f"{self.path}: expected version {RECORDING_VERSION} or lower, got {first!r}: it "
                "was recorded by a newer streamlvq, which can read it"
            )
        blocks.give_back(block[len(first) + 1 :])

    def batch(self, block: bytes) -> list[Message]:
        """Return the messages in these lines; skip the headers that resumed recordings repeat."""
        try:
            decoded = self._decoder.decode_lines(block)
            if len(decoded) == count_lines(block):  # there are no empty ones
                return [_message(line, i) for i, line in enumerate(decoded, self.blocks.line)]
        except ValueError:
            pass  # some lines are not messages: decode one by one
        found: list[Message] = []
        for number, line in enumerate(block.split(b"\n"), self.blocks.line):
            if not line:
                continue
            try:
                found.append(_message(self._decoder.decode(line), number))
            except ValueError as error:  # also those of msgspec and base64
                if line + b"\n" != RECORDING_HEADER:
                    self.refuse(number, f"expected a message, got {line[:80]!r} ({error})")
        return found


def _first_line(data: bytes) -> bytes:
    return data.partition(b"\n")[0]


def _message(line: _RecordedLine, number: int) -> Message:
    if line.payload is not None:
        payload = line.payload.encode()
    elif line.base64 is not None:
        payload = b64decode(line.base64, validate=True)
    else:
        raise ValueError("it has neither payload nor base64")
    return Message(line.topic, payload, line.received, line.redelivered, number)


def _line(message: Message) -> _RecordedLine:
    line = _RecordedLine(message.received, message.topic, redelivered=message.redelivered)
    try:
        line.payload = message.payload.decode()
    except UnicodeDecodeError:
        line.base64 = b64encode(message.payload).decode()
    return line


class MessageLogWriter(LogWriter):
    """Writer that appends messages to a recording and creates the file if necessary.

    A process killed while writing leaves at most a torn last line, which readers refuse; the next
    writer starts on a new line.

    Parameters
    ----------
    path
        The file; if it ends in `.gz` each opening adds a compressed part.
    flush_bytes
        Write to the file when this many bytes are waiting (and on `flush` and `close`). For slow
        sources call `flush` now and then.
    sync
        Whether `flush` also waits until the data is on disk.
    """

    def __init__(self, path: Path, *, flush_bytes: int = 1 << 16, sync: bool = False) -> None:
        self.path = path
        self.flush_bytes = flush_bytes
        self.sync = sync
        self._encoder = msgspec.json.Encoder()
        self._deflate = zlib.compressobj(6, wbits=31) if path.suffix == ".gz" else None
        self._begun = False  # whether the compressed part holds anything
        self._waiting = bytearray(_opening(path))
        self._ready = bytearray()  # ready to write, compressed if need be
        self._file = path.open("ab", buffering=0)

    def write(self, messages: Iterable[Message]) -> None:
        """Append messages in this order."""
        for message in messages:
            self._waiting += self._encoder.encode(_line(message))
            self._waiting += b"\n"
        if len(self._waiting) >= self.flush_bytes:
            self.flush()

    def flush(self) -> None:
        """Write everything so far to the file, so that a killed process loses none of it.

        On a full disk it raises, and keeps what was not written for the next call.
        """
        data = bytes(self._waiting)
        self._waiting.clear()
        if self._deflate is not None and data:
            data = self._deflate.compress(data) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
            self._begun = True
        self._append(data)
        if self.sync:
            os.fsync(self._file.fileno())

    def _append(self, data: bytes) -> None:
        self._ready += data
        while self._ready:
            del self._ready[: self._file.write(self._ready) or 0]

    def close(self) -> None:
        """Write what is left and close the file."""
        if self._file.closed:
            return
        try:
            self.flush()
            if self._deflate is not None and self._begun:
                self._begun = False
                self._append(self._deflate.flush())
        finally:
            self._file.close()


def _opening(path: Path) -> bytes:
    """Return what to write before the first message."""
    if not path.exists() or path.stat().st_size == 0:
        return RECORDING_HEADER
    log = MessageLog(path)
    log.open()  # refuses to append to something else
    log.close()
    if path.suffix == ".gz":
        return _mend(path)
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return b"" if file.read(1) == b"\n" else b"\n"


def _mend(path: Path) -> bytes:
    """Rewrite compressed data that was cut off, since nothing can follow it."""
    with StoredFile(path) as old:
        last = b"\n"
        while data := old.read(BLOCK_BYTES):
            last = data[-1:]
    if old.torn is not None:
        mended = path.with_name(path.name + ".mended")
        with StoredFile(path) as old, gzip.open(mended, "wb") as new:
            while data := old.read(BLOCK_BYTES):
                new.write(data)
        mended.replace(path)
    return b"" if last == b"\n" else b"\n"
