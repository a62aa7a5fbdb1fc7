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
import struct
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from streamlvq.fleet.errors import EnvelopeRefused, shown
from streamlvq.fleet.header import Header

if TYPE_CHECKING:
    from streamlvq.fleet.keys import PrivateKey
    from streamlvq.fleet.trusted import TrustedKeys

MAGIC = b"SLVQENV"
VERSION = 1
CONTEXT = b"streamlvq fleet envelope 1\n"
SIGNATURE_BYTES = 64

_START = struct.Struct(">7sBH")  # magic, version, length of the header


@dataclass(frozen=True, slots=True)
class Sealed:
    """An envelope as it was read; who can have written it is for `check` to say.

    Parameters
    ----------
    header
        What it says about itself.
    payload
        What is inside.
    signature
        64 bytes, or none.

    """

    header: Header
    payload: bytes
    signature: bytes

    @property
    def digest(self) -> str:
        """The same for the same header and payload, and for no others."""
        return digest_of(self.header)

    def check(self, trust: TrustedKeys | None) -> None:
        """Raise `EnvelopeRefused` unless this was written by its author and is undamaged.

        Parameters
        ----------
        trust
            The keys of those who are trusted. None means everyone: then signatures are not looked
            at, and only accidents are noticed.

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
    """Put a payload into an envelope.

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

    >>> from streamlvq.fleet import Header, PrivateKey, TrustedKeys, seal, unseal

    >>> key = PrivateKey.new()
    >>> header = Header("plant", "camera 1", "snapshot", epoch=7, sequence=1, created=1.7e9)
    >>> data = seal(b"what was learnt", header, key)

    On the other side:

    >>> trust = TrustedKeys({"camera 1": key.public})
    >>> sealed = unseal(data, limit=1000)
    >>> sealed.check(trust)
    >>> sealed.header.number, sealed.payload
    ((7, 1), b'what was learnt')

    Somebody else cannot write in the name of camera 1:

    >>> unseal(seal(b"a lie", header, PrivateKey.new()), limit=1000).check(trust)
    Traceback (most recent call last):
    streamlvq.fleet.errors.EnvelopeRefused: expected the signature of 'camera 1' ...

    """
    complete = replace(header, length=len(payload), digest=hashlib.sha256(payload).digest())
    written = complete.to_bytes()
    signature = b"" if key is None else key.sign(signed_bytes(complete))
    start = _START.pack(MAGIC, VERSION, len(written))
    return b"".join((start, written, bytes([len(signature)]), signature, payload))


def unseal(data: bytes, *, limit: int) -> Sealed:
    """Read an envelope; raises `EnvelopeRefused` for what is none. Nothing is trusted yet.

    Parameters
    ----------
    data
        What came.
    limit
        The most bytes to look at.

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
    return Sealed(header, data[start:], data[end + 1 : start])


def _length_of_header(data: bytes) -> int:
    """Look at how an envelope begins."""
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
    """What is signed."""
    return CONTEXT + header.to_bytes()


def digest_of(header: Header) -> str:
    """Stands for a header and, because the header holds its SHA-256, for the payload."""
    return hashlib.sha256(signed_bytes(header)).hexdigest()
