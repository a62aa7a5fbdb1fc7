"""How a batch of messages looks on disk, and what in a file is such a record."""

from __future__ import annotations

import mmap
import struct
import zlib
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from streamlvq.connect import Message

MAGIC = b"SLJ1"  # begins every record, so that one can be found again after a damaged one
_HEAD = struct.Struct("<4sIQI")  # magic, length of the body, position, checksum
Data = bytes | mmap.mmap
_Body = list[tuple[str, bytes, float, bool]]
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Body).decode


class Record(NamedTuple):
    """A batch of messages, its number in the journal, and where the next record begins."""

    position: int
    messages: list[Message]
    end: int


def pack(position: int, messages: Sequence[Message]) -> bytes:
    """A record: header and body.

    Examples
    --------
    >>> data = pack(7, [Message("a/b", b"1", 0.5, True, key=object())])
    >>> position, messages, end = unpack(data, 0)
    >>> position, end == len(data), messages[0]
    (7, True, Message(topic='a/b', payload=b'1', received=0.5, redelivered=True, key=None))
    >>> unpack(data[:-1], 0)

    """
    body = _encode([m[:4] for m in messages])  # the link's key means nothing to another process
    return _HEAD.pack(MAGIC, len(body), position, _checksum(position, body)) + body


def unpack(data: Data, start: int) -> Record | None:
    """The record that begins at `start`, None if what is there is no whole record."""
    if start + _HEAD.size > len(data):
        return None
    magic, length, position, checksum = _HEAD.unpack_from(data, start)
    end = start + _HEAD.size + length
    if magic != MAGIC or end > len(data):
        return None
    body = data[start + _HEAD.size : end]
    if _checksum(position, body) != checksum:
        return None
    return Record(position, [Message(*fields) for fields in _decode(body)], end)


def find(data: Data, start: int) -> Record | None:
    """The first whole record that begins at `start` or later."""
    while (start := data.find(MAGIC, start)) >= 0:
        if record := unpack(data, start):
            return record
        start += 1
    return None


def _checksum(position: int, body: bytes) -> int:
    return zlib.crc32(body, zlib.crc32(position.to_bytes(8, "little")))
