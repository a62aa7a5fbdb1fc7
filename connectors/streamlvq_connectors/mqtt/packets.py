"""Bytes of MQTT packets, as far as the fast way needs them."""

from __future__ import annotations

from functools import lru_cache

LONGEST = 268_435_455  # what four bytes of seven bits can say
_FORMAT, _EXPIRY = 0x01, 0x02  # of the payload: one byte, 0 or 1; of the message: four bytes
_TEXTS = {0x03: 1, 0x08: 1, 0x26: 2}  # content type, response topic, user property (a pair)
_REPEATABLE = 0x26


class TooLongError(ValueError):
    """A length of more than four bytes."""


@lru_cache(4096)
def varint(value: int) -> bytes:
    """A length as MQTT writes it.

    Examples
    --------
    >>> varint(127).hex(), varint(321).hex()
    ('7f', 'c102')
    """
    if not 0 <= value <= LONGEST:
        raise ValueError(f"expected a length of at most {LONGEST} bytes, got {value!r}")
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_varint(data: bytes, pos: int, end: int) -> tuple[int, int] | None:
    """The length at `pos` and where it ends; None if `data` ends before it does.

    Examples
    --------
    >>> read_varint(bytes.fromhex("c10255"), 0, 3)
    (321, 2)
    """
    value = 0
    for shift in (0, 7, 14, 21):
        if pos >= end:
            return None
        byte = data[pos]
        pos += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, pos
    if pos >= end:
        return None
    raise TooLongError("expected a length of at most four bytes")


def skip_properties(data: bytes, pos: int, stop: int) -> int:
    """Where the properties of a PUBLISH end that begin at `pos`; 0 if they are not quite usual.

    "Not quite usual" is left to paho: topic aliases, text beyond ASCII, anything malformed.
    """
    try:
        found = read_varint(data, pos, stop)
    except TooLongError:
        return 0
    if found is None:
        return 0
    length, pos = found
    end = pos + length
    if end > stop:
        return 0
    seen = 0
    while pos < end:
        kind = data[pos]
        if kind != _REPEATABLE:
            if kind > 63 or seen >> kind & 1:
                return 0
            seen |= 1 << kind
        pos = _skip_value(data, kind, pos + 1, end)
        if not pos or pos > end:
            return 0
    return end


def _skip_value(data: bytes, kind: int, pos: int, end: int) -> int:
    if kind == _EXPIRY:
        return pos + 4
    if kind == _FORMAT:
        return pos + 1 if pos < end and data[pos] <= 1 else 0
    for _ in range(_TEXTS.get(kind, 0)):
        if pos + 2 > end:
            return 0
        text = pos + 2
        pos = text + (data[pos] << 8 | data[pos + 1])
        value = data[text:pos]
        if pos > end or not value.isascii() or 0 in value:
            return 0
    return pos if kind in _TEXTS else 0
