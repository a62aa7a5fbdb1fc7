"""Envelopes: a header that says what is inside, a signature, and the payload.

    8 bytes     SLVQENV and the version, one byte
    2 bytes     the length of the header
    ...         the header, see `Header`; it holds the length and the SHA-256 of the payload
    1 byte      the length of the signature: 64, or 0 without one
    ...         the signature (Ed25519)
    ...         the payload, up to the end

Signed are the words `CONTEXT`, so that no signature made for another purpose can be taken for one
of ours, and the bytes of the header. The payload is covered through its SHA-256: strangers are
turned away before a large payload is even looked at.
"""

from __future__ import annotations

import hashlib
import math
import struct
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, cast, get_args

from streamlvq.errors import StreamLVQError

if TYPE_CHECKING:
    from streamlvq.fleet.keys import PrivateKey, TrustedKeys


MAGIC = b"SLVQENV"
VERSION = 1
CONTEXT = b"streamlvq fleet envelope 1\n"
SIGNATURE_BYTES = 64

_START = struct.Struct(">7sBH")  # magic, version, length of the header

Kind = Literal["snapshot", "model"]
KINDS: tuple[Kind, ...] = get_args(Kind)

NUMBER_MAX = 2**63 - 1  # of epochs and sequences
CREATED_MAX = 253_402_300_800.0  # the year 10000, where calendars end
NAME_MAX_CHARACTERS = 200  # characters, as in a snapshot
NAME_MAX_BYTES = 255  # so that a topic holds it uncut, whatever must be escaped in it
DIGEST_BYTES = 32

_NUMBERS = struct.Struct(f">BQQdQ{DIGEST_BYTES}s")  # kind, epoch, sequence, created, length, digest
_LENGTH = struct.Struct(">H")
ENVELOPE_HEADER_MAX_BYTES = _NUMBERS.size + 3 * (_LENGTH.size + NAME_MAX_BYTES)
ENVELOPE_MAX_OVERHEAD = _START.size + ENVELOPE_HEADER_MAX_BYTES + 1 + SIGNATURE_BYTES


# --- refusals -------------------------------------------------------------------------------------

MEANINGS = {
    "oversized": "more bytes than are allowed",
    "truncated": "fewer bytes than it says itself",
    "malformed": "no envelope, or one with a header that makes no sense",
    "schema": "a version of the envelope or the snapshot that is not known here",
    "fleet": "made for another fleet",
    "kind": "a model where a snapshot is expected, or the other way round",
    "node": "about another node than its topic or its content says",
    "author": "written by somebody who may not write this",
    "unsigned": "no signature where one is needed",
    "unknown_key": "signed by somebody whose key is not trusted",
    "signature": "a signature that does not fit the header",
    "damaged": "a payload that is not the one that the header speaks of",
    "replayed": "a number that is not above the last one",
    "old": "made too long ago",
    "future": "made at a time that has not come yet",
    "crowded": "one node more than there is room for",
    "values": "a payload that is no snapshot, or one with content that cannot be",
    "ledger": "a ledger of private releases that does not go on where the last one ended",
    "unsaved": "good, but its number could not be written to the disk",
}
REASONS = tuple(MEANINGS)


class EnvelopeRefused(StreamLVQError, ValueError):
    """Envelope that is not accepted.

    `reason` is one of `REASONS`, to count by; `text` says what was expected, what was found, and
    what to do.

    Examples
    --------
    >>> from streamlvq.fleet import EnvelopeRefused
    >>> error = EnvelopeRefused("oversized", "expected at most 10 bytes, got 20")
    >>> error.reason, str(error)
    ('oversized', 'expected at most 10 bytes, got 20')

    """

    def __init__(self, reason: str, text: str) -> None:
        if reason not in MEANINGS:
            raise ValueError(f"reason: expected one of {', '.join(REASONS)}, got {reason!r}")
        super().__init__(text)
        self.reason = reason


def shown(value: object) -> str:
    """Return untrusted text in a form that is short and safe for a log."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


# --- the header -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Header:
    """Signed description of a payload.

    Parameters
    ----------
    fleet
        The name of the fleet.
    node
        Whom it is about: who learnt a snapshot, whom a model is for.
    kind
        "snapshot": what a node has learnt. "model": what a hub has made of all of them for a node.
    epoch, sequence
        The number of what an author publishes, see `SequenceNumbers`.
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
            if type(value) is not int or not 0 <= value <= NUMBER_MAX:
                raise _malformed(what, f"a whole number from 0 to {NUMBER_MAX}", value)
        if not isinstance(self.created, (int, float)) or not 0 <= self.created < CREATED_MAX:
            raise _malformed("created", "seconds since 1970", self.created)
        if not isinstance(self.digest, bytes) or len(self.digest) != DIGEST_BYTES:
            raise _malformed("digest", f"{DIGEST_BYTES} bytes", self.digest)

    @property
    def number(self) -> tuple[int, int]:
        """Epoch and sequence; the later of two envelopes has the higher number."""
        return self.epoch, self.sequence

    def speaks_of(self, payload: bytes) -> bool:
        """Return whether this is the header of such a payload."""
        return self.digest == hashlib.sha256(payload).digest()

    def to_bytes(self) -> bytes:
        """Return the canonical encoding of the header."""
        kind = KINDS.index(self.kind) + 1
        numbers = _NUMBERS.pack(
            kind, self.epoch, self.sequence, self.created, self.length, self.digest
        )
        names = (name.encode() for name in (self.fleet, self.node, self.author))
        return numbers + b"".join(_LENGTH.pack(len(name)) + name for name in names)

    @classmethod
    def from_bytes(cls, data: bytes) -> Header:
        """Parse what `to_bytes` returned; raise `EnvelopeRefused` for anything else."""
        if not _NUMBERS.size <= len(data) <= ENVELOPE_HEADER_MAX_BYTES:
            raise _malformed(
                "header", f"at most {ENVELOPE_HEADER_MAX_BYTES} bytes, whole", len(data)
            )
        code, epoch, sequence, created, length, digest = _NUMBERS.unpack_from(data)
        fleet, node, author = _names(data[_NUMBERS.size :])
        if author == "":  # would be read as the node, and there must be one way to say that
            raise _malformed("author", "a name", author)
        kind = KINDS[code - 1] if 1 <= code <= len(KINDS) else cast(Kind, code)
        return cls(fleet, node, kind, epoch, sequence, created, author, length, digest)


def check_name(what: str, name: object) -> str:
    """Return the name of a fleet or node; raise `EnvelopeRefused` if a header cannot hold it."""
    good = isinstance(name, str) and 1 <= len(name) <= NAME_MAX_CHARACTERS and name.isprintable()
    if not good or len(str(name).encode()) > NAME_MAX_BYTES:
        raise _malformed(
            what,
            f"1 to {NAME_MAX_CHARACTERS} printable characters, at most {NAME_MAX_BYTES} bytes",
            name,
        )
    return str(name)


def _names(data: bytes) -> list[str]:
    """Return the three names at the end of a header; nothing may follow them."""
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


# --- the envelope ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Envelope:
    """Envelope as it was read, not verified yet; `check` verifies its author."""

    header: Header
    payload: bytes
    signature: bytes

    @property
    def digest(self) -> str:
        """Digest of header and payload."""
        return digest_of(self.header)

    def check(self, trust: TrustedKeys | None) -> None:
        """Raise `EnvelopeRefused` unless the author wrote this and it is undamaged.

        `trust` holds the trusted keys. None means that everyone is trusted: signatures are then
        ignored, and only accidental damage is noticed.
        """
        if trust is not None:
            self._check_signature(trust)
        if hashlib.sha256(self.payload).digest() != self.header.digest:
            raise EnvelopeRefused(
                "damaged", "expected the payload that the header speaks of, got another one"
            )

    def _check_signature(self, trust: TrustedKeys) -> None:
        author = self.header.author
        if not self.signature:
            raise EnvelopeRefused(
                "unsigned",
                f"expected a signature of {shown(author)}, got none; give that node a key with "
                "`streamlvq keys new`",
            )
        public = trust.get(author)
        if public is None:
            raise EnvelopeRefused(
                "unknown_key",
                f"expected somebody who is trusted, got {shown(author)}; if you know that node, "
                "add its key with `streamlvq keys trust`",
            )
        from streamlvq.fleet.keys import verify  # noqa: PLC0415

        if not verify(public, self.signature, signed_bytes(self.header)):
            raise EnvelopeRefused(
                "signature",
                f"expected the signature of {shown(author)} (key {public}), got another one; if "
                "that node has a new key, trust it with `streamlvq keys trust --replace`",
            )


def seal(payload: bytes, header: Header, key: PrivateKey | None) -> bytes:
    """Return an envelope with a payload, as bytes.

    Parameters
    ----------
    payload
        What to send.
    header
        What to write on it; `length` and `digest` are filled in.
    key
        What to sign with; None: no signature, for fleets that trust everyone.

    Examples
    --------

    >>> from streamlvq.fleet import Header, PrivateKey, TrustedKeys, seal, parse_envelope

    >>> key = PrivateKey.new()
    >>> header = Header("plant", "camera 1", "snapshot", epoch=7, sequence=1, created=1.7e9)
    >>> data = seal(b"what was learnt", header, key)

    On the other side:

    >>> trust = TrustedKeys({"camera 1": key.public})
    >>> envelope = parse_envelope(data, limit=1000)
    >>> envelope.check(trust)
    >>> envelope.header.number, envelope.payload
    ((7, 1), b'what was learnt')

    Somebody else cannot write in the name of camera 1:

    >>> parse_envelope(seal(b"a lie", header, PrivateKey.new()), limit=1000).check(trust)
    Traceback (most recent call last):
    streamlvq.fleet.envelope.EnvelopeRefused: expected the signature of 'camera 1' ...

    """
    complete = replace(header, length=len(payload), digest=hashlib.sha256(payload).digest())
    written = complete.to_bytes()
    signature = b"" if key is None else key.sign(signed_bytes(complete))
    start = _START.pack(MAGIC, VERSION, len(written))
    return b"".join((start, written, bytes([len(signature)]), signature, payload))


def parse_envelope(data: bytes, *, limit: int) -> Envelope:
    """Parse an envelope of at most `limit` bytes without verifying it.

    Raises `EnvelopeRefused` if the bytes are not an envelope.
    """
    if len(data) > limit:
        raise EnvelopeRefused("oversized", f"expected at most {limit} bytes, got {len(data)}")
    begin = _START.size
    end = begin + _length_of_header(data)
    if len(data) <= end:
        raise _truncated(end + 1, data)
    header = Header.from_bytes(data[begin:end])
    if header.length > limit:
        raise EnvelopeRefused(
            "oversized", f"expected a payload of at most {limit} bytes, got {header.length}"
        )
    if data[end] not in (0, SIGNATURE_BYTES):
        raise EnvelopeRefused(
            "malformed", f"expected a signature of {SIGNATURE_BYTES} bytes or none, got {data[end]}"
        )
    start = end + 1 + data[end]
    _check_end(header, data, start)
    return Envelope(header, data[start:], data[end + 1 : start])


def _length_of_header(data: bytes) -> int:
    """Check how an envelope begins and return the length of its header."""
    if not data.startswith(MAGIC[: len(data)]):
        raise EnvelopeRefused(
            "malformed", f"expected an envelope of streamlvq, got {shown(data[:16])}"
        )
    if len(data) < _START.size:
        raise _truncated(_START.size, data)
    _, version, length = _START.unpack_from(data)
    if version != VERSION:
        raise EnvelopeRefused(
            "schema",
            f"expected an envelope of version {VERSION}, got {version}; a newer one needs a newer "
            "streamlvq",
        )
    return int(length)


def _check_end(header: Header, data: bytes, start: int) -> None:
    end = start + header.length
    if len(data) < end:
        raise _truncated(end, data)
    if len(data) > end:
        raise EnvelopeRefused(
            "malformed", f"expected {end} bytes, got {len(data)}: something follows the payload"
        )


def _truncated(expected: int, data: bytes) -> EnvelopeRefused:
    return EnvelopeRefused("truncated", f"expected at least {expected} bytes, got {len(data)}")


def signed_bytes(header: Header) -> bytes:
    """Return the bytes that are signed."""
    return CONTEXT + header.to_bytes()


def digest_of(header: Header) -> str:
    """Return a digest of a header and, because that holds its SHA-256, of the payload."""
    return hashlib.sha256(signed_bytes(header)).hexdigest()
