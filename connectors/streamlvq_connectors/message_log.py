"""Messages as they came, byte for byte: the format that `streamlvq record` writes.

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

VERSION = 1


class _Header(msgspec.Struct):
    streamlvq: str
    version: int


class _Line(msgspec.Struct, omit_defaults=True):
    received: float
    topic: str
    payload: str | None = None
    base64: str | None = None
    redelivered: bool = False


HEADER = msgspec.json.encode(_Header("messages", VERSION)) + b"\n"


class MessageLog(MessageBlockLog):
    """A recording of messages: when each was received, its topic and its payload.

    Parameters
    ----------
    path
        The file; one that ends in `.gz` is compressed.
    fields
        Not looked at here: the payloads are decoded like those of a broker.

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
        self._decoder = msgspec.json.Decoder(_Line)

    @classmethod
    def writer(cls, path: Path) -> MessageLogWriter:
        """Appends to a recording, which is begun if there is none."""
        return MessageLogWriter(path)

    @classmethod
    def recognises(cls, name: str, head: bytes) -> bool:
        """By its first line."""
        try:
            header = msgspec.json.decode(_first_line(head.removeprefix(BOM)), type=_Header)
        except msgspec.MsgspecError:
            return False
        return header.streamlvq == "messages"

    def begin(self, blocks: Blocks) -> None:
        """Skip the first line; raises if it is none of ours."""
        block = blocks.next()
        first = _first_line(block)
        if block and not self.recognises(self.path.name, first):
            raise LogError(f"{self.path}: expected {HEADER[:-1]!r} first, got {first[:80]!r}")
        if block and msgspec.json.decode(first, type=_Header).version > VERSION:
            raise LogError(
                f"{self.path}: expected version {VERSION} or lower, got {first!r}: it was recorded "
                "by a newer streamlvq, which can read it"
            )
        blocks.give_back(block[len(first) + 1 :])

    def batch(self, block: bytes) -> list[Message]:
        """The messages of these lines; later headers are there because recording was resumed."""
        try:
            decoded = self._decoder.decode_lines(block)
            if len(decoded) == count_lines(block):  # there are no empty ones
                return [_message(line, i) for i, line in enumerate(decoded, self.blocks.line)]
        except ValueError:
            pass  # some are otherwise: look at each
        found: list[Message] = []
        for number, line in enumerate(block.split(b"\n"), self.blocks.line):
            if not line:
                continue
            try:
                found.append(_message(self._decoder.decode(line), number))
            except ValueError as error:  # msgspec's and base64's are such
                if line + b"\n" != HEADER:
                    self.refuse(number, f"expected a message, got {line[:80]!r} ({error})")
        return found


def _first_line(data: bytes) -> bytes:
    return data.partition(b"\n")[0]


def _message(line: _Line, number: int) -> Message:
    if line.payload is not None:
        payload = line.payload.encode()
    elif line.base64 is not None:
        payload = b64decode(line.base64, validate=True)
    else:
        raise ValueError("it has neither payload nor base64")
    return Message(line.topic, payload, line.received, line.redelivered, number)


def _line(message: Message) -> _Line:
    line = _Line(message.received, message.topic, redelivered=message.redelivered)
    try:
        line.payload = message.payload.decode()
    except UnicodeDecodeError:
        line.base64 = b64encode(message.payload).decode()
    return line


class MessageLogWriter(LogWriter):
    """Appends messages to a recording, which is begun if there is none.

    Whatever is killed while it writes leaves at most a torn last line, which a reader refuses; one
    who goes on writing begins a new line first.

    Parameters
    ----------
    path
        The file; if it ends in `.gz` each opening adds a compressed part.
    flush_bytes
        Write to the file when this much has come together (and on `flush` and `close`). Whoever
        records something slow calls `flush` now and then.
    sync
        Whether `flush` also waits until the disk has it.
    """

    def __init__(self, path: Path, *, flush_bytes: int = 1 << 16, sync: bool = False) -> None:
        self.path = path
        self.flush_bytes = flush_bytes
        self.sync = sync
        self._encoder = msgspec.json.Encoder()
        self._deflate = zlib.compressobj(6, wbits=31) if path.suffix == ".gz" else None
        self._begun = False  # whether the compressed part holds anything
        self._waiting = bytearray(_opening(path))
        self._ready = bytearray()  # as it has to be in the file
        self._file = path.open("ab", buffering=0)

    def write(self, messages: Iterable[Message]) -> None:
        """Add these, in this order."""
        for message in messages:
            self._waiting += self._encoder.encode(_line(message))
            self._waiting += b"\n"
        if len(self._waiting) >= self.flush_bytes:
            self.flush()

    def flush(self) -> None:
        """Give the file all that came so far; after this, being killed loses none of it.

        On a full disk it raises, and keeps what was not written for the next time.
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
    """What has to be written before the first message."""
    if not path.exists() or path.stat().st_size == 0:
        return HEADER
    log = MessageLog(path)
    log.open()  # refuses to append to something else
    log.close()
    if path.suffix == ".gz":
        return _mend(path)
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return b"" if file.read(1) == b"\n" else b"\n"


def _mend(path: Path) -> bytes:
    """Nothing can follow compressed data that was cut off: write it anew, as far as it goes."""
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
