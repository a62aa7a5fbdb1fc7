"""Why something from the fleet is refused, and what can go wrong with keys."""

from __future__ import annotations

from streamlvq.errors import StreamLVQError

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
    "unsaved": "good, but its number could not be written to the disk",
}
REASONS = tuple(MEANINGS)


class EnvelopeRefused(StreamLVQError, ValueError):
    """An envelope that is not accepted.

    Parameters
    ----------
    reason
        One of `REASONS`, to be counted.
    text
        What was expected, what came, and what to do.

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


class KeyFileError(StreamLVQError, ValueError):
    """A key, or a file of keys, that cannot be used."""


def shown(value: object) -> str:
    """What a stranger wrote, short enough for a log and without tricks."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
