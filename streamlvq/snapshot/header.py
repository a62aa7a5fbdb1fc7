"""What a safetensors file says about itself, checked before anything is made of it.

The file starts with the length of its header (8 bytes), then comes the header: a JSON object that
gives the type, the shape and the place of every array. The rest is the arrays, without gaps.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, NamedTuple

from streamlvq.snapshot.errors import SnapshotError

LENGTH = 8  # bytes that hold the length of the header
LARGEST_HEADER = 64 * 2**20  # of a file that a stranger may have made: JSON takes far more room
LARGEST_OWN_HEADER = 100_000_000  # what the format allows
MOST_ARRAYS = 1_000_000
MOST_DIMENSIONS = 4
NAME = re.compile(r"\w[\w.:-]*(?:/\w[\w.:-]*)*", re.ASCII)
LONGEST_NAME = 250
SIZES = {"F64": 8, "I64": 8, "U8": 1}
METADATA = "__metadata__"
STRANGE = "not a snapshot of streamlvq"
SHOWN = 20  # bytes of a file that is none


class Span(NamedTuple):
    """Where an array is, counted from where the arrays begin."""

    begin: int
    end: int
    name: str
    dtype: str
    shape: tuple[int, ...]


class Header(NamedTuple):
    """What was read: the text of the only piece of metadata, where the arrays begin, and each."""

    text: str
    end: int
    spans: list[Span]


def largest_header(limit: int, strangers: int) -> int:
    """The most bytes of a header, in files up to `limit`; less in those of strangers."""
    return LARGEST_HEADER if limit <= strangers else LARGEST_OWN_HEADER


def largest_text(limit: int, strangers: int) -> int:
    """The same for JSON outside of the header."""
    return LARGEST_HEADER if limit <= strangers else limit


def read_header(data: bytes, key: str, limit: int, largest: int = LARGEST_HEADER) -> Header:
    """Read and check the header of a file that holds metadata under just this key."""
    if len(data) > limit:
        raise SnapshotError(f"expected at most {limit} bytes, got {len(data)}")
    if len(data) < LENGTH:
        raise SnapshotError(f"{STRANGE}: expected at least {LENGTH} bytes, got {len(data)}")
    length = int.from_bytes(data[:LENGTH], "little")
    end = LENGTH + length
    if not 2 <= length <= min(largest, len(data) - LENGTH):
        if data[LENGTH : LENGTH + 1] != b"{":
            start = data[:SHOWN].decode("ascii", "replace")
            raise SnapshotError(f"{STRANGE}: expected a header, got a file that begins {start!r}")
        raise SnapshotError(
            f"expected a header of at most {largest} bytes in a file of {len(data)}, got one of "
            f"{length}: the file is cut short or damaged"
        )
    entries = _parse(data[LENGTH:end])
    text = _only_text(entries.pop(METADATA, None), key)
    return Header(text, end, _spans(entries, len(data) - end))


def _parse(header: bytes) -> dict[str, Any]:
    entries = parse_json(header, "header")
    if not isinstance(entries, dict):
        raise SnapshotError(f"header: expected an object, got {type(entries).__name__}")
    return entries


def parse_json(text: bytes | str, what: str) -> Any:
    """As `json.loads`, but a name that comes twice is refused: readers differ in which to take."""
    try:
        # As text: of bytes `json.loads` would take encodings that no other reader knows.
        plain = text if isinstance(text, str) else text.decode()
        return json.loads(plain, object_pairs_hook=_distinct)
    except (ValueError, RecursionError) as error:
        raise SnapshotError(f"{what}: expected JSON, got something else: {error}") from error


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name comes twice")
    return found


def _only_text(metadata: Any, key: str) -> str:
    text = metadata.get(key) if isinstance(metadata, dict) and len(metadata) == 1 else None
    if not isinstance(text, str):
        raise SnapshotError(f"expected a file of streamlvq, with metadata {key!r}, got another one")
    return text


def check_name(name: Any) -> None:
    if not isinstance(name, str) or len(name) > LONGEST_NAME or not NAME.fullmatch(name):
        raise SnapshotError(
            f"expected names of arrays made of up to {LONGEST_NAME} letters, digits and _.:-/, "
            f"got {str(name)[:80]!r}"
        )


def _spans(entries: dict[str, Any], size: int) -> list[Span]:
    """Arrays must fill the rest of the file: no overlap, no gap, nothing beyond the end."""
    if len(entries) > MOST_ARRAYS:
        raise SnapshotError(f"expected at most {MOST_ARRAYS} arrays, got {len(entries)}")
    spans = sorted(_span(name, entry) for name, entry in entries.items())
    place = 0
    for span in spans:
        if span.begin != place:
            raise SnapshotError(
                f"array {span.name!r}: expected to begin at {place}, got {span.begin}"
            )
        place = span.end
    if place != size:
        raise SnapshotError(f"expected {place} bytes of arrays, got {size}")
    return spans


def _span(name: str, entry: Any) -> Span:
    """Where an array begins and ends."""
    check_name(name)
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
        raise SnapshotError(f"array {name!r}: expected dtype, shape and data_offsets, got {entry}")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in SIZES:
        raise SnapshotError(f"array {name!r}: expected one of {', '.join(SIZES)}, got {dtype!r}")
    if not _are_sizes(shape) or len(shape) > MOST_DIMENSIONS:
        raise SnapshotError(f"array {name!r}: expected a shape, got {shape!r}")
    if not _are_sizes(offsets) or len(offsets) != 2:
        raise SnapshotError(f"array {name!r}: expected two offsets, got {offsets!r}")
    begin, end = offsets
    size = math.prod(shape) * SIZES[dtype]
    if end - begin != size:
        raise SnapshotError(
            f"array {name!r}: expected {size} bytes for shape {shape}, got {end - begin}"
        )
    return Span(begin, end, name, dtype, tuple(shape))


def _are_sizes(values: Any) -> bool:
    return isinstance(values, list) and all(type(v) is int and 0 <= v < 2**48 for v in values)
