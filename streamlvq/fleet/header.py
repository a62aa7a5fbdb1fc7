"""What is written on an envelope, in one way only.

The bytes of a header are what is signed, so there must be just one header for them and just one
way to write it: numbers of a fixed size (big-endian), then the three names, each after its length.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import Literal, cast, get_args

from streamlvq.fleet.errors import EnvelopeRefused, shown

Kind = Literal["snapshot", "model"]
KINDS: tuple[Kind, ...] = get_args(Kind)

HIGHEST = 2**63 - 1  # of epochs and sequences
LATEST = 253_402_300_800.0  # the year 10000, where calendars end
LONGEST_NAME = 200  # characters, as in a snapshot
LONGEST_NAME_BYTES = 255  # so that a topic holds it uncut, whatever must be escaped in it
DIGEST_BYTES = 32

_NUMBERS = struct.Struct(f">BQQdQ{DIGEST_BYTES}s")  # kind, epoch, sequence, created, length, digest
_LENGTH = struct.Struct(">H")
LARGEST_HEADER = _NUMBERS.size + 3 * (_LENGTH.size + LONGEST_NAME_BYTES)


@dataclass(frozen=True, slots=True)
class Header:
    """What is said about a payload.

    Parameters
    ----------
    fleet
        The name of the fleet.
    node
        Whom it is about: who learnt a snapshot, whom a model is for.
    kind
        "snapshot": what a node has learnt. "model": what a hub has made of all of them for a node.
    epoch, sequence
        The number of what an author publishes, see `Numbering`.
    created
        When, in seconds since 1970.
    author
        Who wrote and signed it; the node itself if nothing is said.
    length, digest
        Of the payload: how many bytes, and their SHA-256. `seal` fills these in.

    Examples
    --------
    >>> from streamlvq.fleet import Header
    >>> header = Header("plant", "camera 1", "snapshot", epoch=7, sequence=1, created=1.7e9)
    >>> Header.from_bytes(header.to_bytes()) == header
    True

    """

    fleet: str
    node: str
    kind: Kind
    epoch: int
    sequence: int
    created: float
    author: str = ""
    length: int = 0
    digest: bytes = bytes(DIGEST_BYTES)

    def __post_init__(self) -> None:
        if self.author == "":
            object.__setattr__(self, "author", self.node)
        for what in ("fleet", "node", "author"):
            check_name(what, getattr(self, what))
        if self.kind not in KINDS:
            raise _malformed("kind", f"one of {', '.join(KINDS)}", self.kind)
        for what in ("epoch", "sequence", "length"):
            value = getattr(self, what)
            if type(value) is not int or not 0 <= value <= HIGHEST:
                raise _malformed(what, f"a whole number from 0 to {HIGHEST}", value)
        if not isinstance(self.created, (int, float)) or not 0 <= self.created < LATEST:
            raise _malformed("created", "seconds since 1970", self.created)
        if not isinstance(self.digest, bytes) or len(self.digest) != DIGEST_BYTES:
            raise _malformed("digest", f"{DIGEST_BYTES} bytes", self.digest)

    @property
    def number(self) -> tuple[int, int]:
        """Epoch and sequence; the later of two is the higher one."""
        return self.epoch, self.sequence

    def to_bytes(self) -> bytes:
        """The only way to write this header."""
        kind = KINDS.index(self.kind) + 1
        numbers = _NUMBERS.pack(
            kind, self.epoch, self.sequence, self.created, self.length, self.digest
        )
        names = (name.encode() for name in (self.fleet, self.node, self.author))
        return numbers + b"".join(_LENGTH.pack(len(name)) + name for name in names)

    @classmethod
    def from_bytes(cls, data: bytes) -> Header:
        """The opposite of `to_bytes`; raises `EnvelopeRefused` for what it cannot have made."""
        if not _NUMBERS.size <= len(data) <= LARGEST_HEADER:
            raise _malformed("header", f"at most {LARGEST_HEADER} bytes, whole", len(data))
        code, epoch, sequence, created, length, digest = _NUMBERS.unpack_from(data)
        fleet, node, author = _names(data[_NUMBERS.size :])
        if author == "":  # would be read as the node, and there must be one way to say that
            raise _malformed("author", "a name", author)
        kind = KINDS[code - 1] if 1 <= code <= len(KINDS) else cast(Kind, code)
        return cls(fleet, node, kind, epoch, sequence, created, author, length, digest)


def check_name(what: str, name: object) -> str:
    """A name of a fleet or node that a header can carry; raises `EnvelopeRefused` for others."""
    good = isinstance(name, str) and 1 <= len(name) <= LONGEST_NAME and name.isprintable()
    if not good or len(str(name).encode()) > LONGEST_NAME_BYTES:
        raise _malformed(
            what,
            f"1 to {LONGEST_NAME} printable characters, at most {LONGEST_NAME_BYTES} bytes",
            name,
        )
    return str(name)


def _names(data: bytes) -> list[str]:
    """Three names and nothing after them."""
    names, place = [], 0
    for _ in range(3):
        begin = place + _LENGTH.size
        if begin > len(data):
            raise _malformed("header", "three names", len(data))
        place = begin + _LENGTH.unpack_from(data, place)[0]
        if place > len(data):
            raise _malformed("header", "three whole names", len(data))
        try:
            names.append(data[begin:place].decode())
        except UnicodeDecodeError as error:
            raise _malformed("header", "names in UTF-8", data[begin:place]) from error
    if place != len(data):
        raise _malformed("header", f"{place} bytes of names", len(data))
    return names


def _malformed(what: str, expected: str, value: object) -> EnvelopeRefused:
    if isinstance(value, float) and math.isnan(value):
        value = "NaN"
    return EnvelopeRefused("malformed", f"{what}: expected {expected}, got {shown(value)}")
