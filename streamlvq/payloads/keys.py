"""Numbers that tell messages apart, the same in every process and on every machine."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from zlib import adler32, crc32

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]

_ODD = np.array(  # large odd numbers, to spread what differs in few bits
    [
        0x9E3779B97F4A7C15,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0xBF58476D1CE4E5B9,
        0x94D049BB133111EB,
    ],
    dtype=np.uint64,
)
_SHIFTS = np.array([30, 27, 31, 32], dtype=np.uint64)


def stable_hash(text: str) -> int:
    """64 bits of a text, never 0."""
    data = text.encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "little") or 1


def message_keys(
    hashes: Sequence[int],
    payloads: Sequence[bytes],
    sequences: Sequence[int | None] | None,
    times: Sequence[float | None] | None,
) -> list[int]:
    """A key for each message, never 0.

    Parameters
    ----------
    hashes
        Of the topic or device that each came from.
    payloads
        Their bytes, of which a checksum goes in. 32 bits are too few to tell thousands of messages
        apart; the sequence number or the time makes up for it and, where there is neither, another
        checksum.
    sequences, times
        What the payloads say, None if they never do.

    """
    mixed = np.array(hashes, dtype=np.uint64)
    mixed ^= np.array(list(map(crc32, payloads)), dtype=np.uint64) * _ODD[0]
    if sequences is not None:
        known = [0 if s is None else s for s in sequences] if None in sequences else sequences
        mixed ^= np.array(known, dtype=np.int64).view(np.uint64) * _ODD[1]
    if times is not None:
        moments = [0.0 if t is None else t for t in times] if None in times else times
        mixed ^= np.array(moments, dtype=np.float64).view(np.uint64) * _ODD[2]
    bare = _bare(len(mixed), sequences, times)
    if bare:
        mixed[bare] ^= np.array([adler32(payloads[i]) for i in bare], dtype=np.uint64) << _SHIFTS[3]
    return _finish(mixed)


def _bare(
    count: int,
    sequences: Sequence[int | None] | None,
    times: Sequence[float | None] | None,
) -> list[int]:
    """Which have neither sequence number nor time."""
    for column in (sequences, times):
        if column is not None and None not in column:
            return []
    return [
        i
        for i in range(count)
        if (sequences is None or sequences[i] is None) and (times is None or times[i] is None)
    ]


def _finish(mixed: Words) -> list[int]:
    """Let every bit depend on every other; as signed integers."""
    mixed ^= mixed >> _SHIFTS[0]
    mixed *= _ODD[3]
    mixed ^= mixed >> _SHIFTS[1]
    mixed *= _ODD[4]
    mixed ^= mixed >> _SHIFTS[2]
    mixed[mixed == 0] = 1
    keys: list[int] = mixed.view(np.int64).tolist()
    return keys
