"""Snapshot files: arrays and metadata as safetensors with a version, a kind and a checksum.

A file starts with the length of its header (8 bytes), followed by the header: a JSON object with
the type, shape and offsets of every array. The arrays follow without gaps. All of this is checked
before anything is allocated, because files may come from untrusted sources; by hand on purpose:
safetensors itself would first read a header of any size and accept any names, types and shapes.

All metadata is one JSON text under the key "streamlvq". It starts with the SHA-256 of the whole
file, computed with zeros in place of the checksum, so any changed byte is detected.
Headers must stay small: metadata longer than `MAX_INLINE_CHARACTERS` is stored as an array of
bytes, with null in its place.

Writing has the same size limits as reading.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import safetensors
from safetensors.numpy import save

from streamlvq.errors import SnapshotError

Arrays = dict[str, npt.NDArray[Any]]

SCHEMA_VERSION = 3  # 3: weights of samples, ranges of classes
METADATA_KEY = "streamlvq"
MAX_SNAPSHOT_BYTES = 2**30  # of an untrusted file, unless the caller allows more
TRUSTED_MAX_BYTES = 64 * 2**30  # of a file that this program wrote for itself
MAX_INLINE_CHARACTERS = 2**20
LONG_METADATA = "metadata"  # name of the array that holds longer metadata
DTYPES = {"F64": "<f8", "I64": "<i8", "U8": "u1"}
DTYPE_NAMES = frozenset({"float64", "int64", "uint8"})
LENGTH_BYTES = 8  # size of the header's length field
MAX_HEADER_BYTES = 64 * 2**20  # of an untrusted file: parsed JSON takes far more memory
TRUSTED_MAX_HEADER_BYTES = 100_000_000  # limit of safetensors
MAX_ARRAYS = 1_000_000
MAX_DIMENSIONS = 4
ARRAY_NAME = re.compile(r"\w[\w.:-]*(?:/\w[\w.:-]*)*", re.ASCII)
MAX_ARRAY_NAME_LENGTH = 250
ITEM_BYTES = {"F64": 8, "I64": 8, "U8": 1}
HEADER_METADATA = "__metadata__"
NOT_A_SNAPSHOT = "not a snapshot of streamlvq"
SHOWN_BYTES = 20  # of a file that is not a snapshot

_NO_CHECKSUM = "0" * 64
_CHECKSUM_PREFIX = '{"checksum":"'
_ESCAPED_PREFIX = json.dumps(_CHECKSUM_PREFIX)[1:-1].encode()
_CHECKSUM = re.compile(re.escape(_CHECKSUM_PREFIX) + '([0-9a-f]{64})"')


class SnapshotSchemaError(SnapshotError):
    """A file of another schema version; another version of streamlvq may be able to read it."""


def encode(
    arrays: Arrays,
    metadata: dict[str, Any],
    *,
    kind: str = "snapshot",
    limit: int = MAX_SNAPSHOT_BYTES,
) -> bytes:
    """Encode arrays and metadata as the bytes of one file; equal input gives equal bytes.

    Raises `SnapshotError` for what `decode` with the same limit would refuse to read.

    Parameters
    ----------
    arrays
        By name; float64, int64 or uint8.
    metadata
        Anything that JSON can express. Keys must be text.
    kind
        Type of content, so that one kind of file is not mistaken for another.
    limit
        Maximum size of the file, in bytes.

    Examples
    --------

    >>> import numpy as np
    >>> from streamlvq.snapshot.container import decode, encode

    >>> data = encode({"mean": np.array([20.5, 1.2])}, {"sensor": "bearing 3"})
    >>> arrays, metadata = decode(data)
    >>> arrays["mean"], metadata
    (array([20.5,  1.2]), {'sensor': 'bearing 3'})

    A single changed bit is detected:

    >>> decode(data[:-1] + bytes([data[-1] ^ 1]))
    Traceback (most recent call last):
    streamlvq.errors.SnapshotError: expected checksum ..., got ...: the file is damaged

    """
    arrays, text = _add_metadata(arrays, _to_json(metadata), limit)
    _check_size(arrays, limit)
    blank = _save(arrays, _envelope(text, kind), limit)
    end = 8 + int.from_bytes(blank[:8], "little")
    body = memoryview(blank)[end:]
    checksum = _checksum(blank[:end], body)
    zeros = _ESCAPED_PREFIX + _NO_CHECKSUM.encode()
    return b"".join((blank[:end].replace(zeros, _ESCAPED_PREFIX + checksum.encode(), 1), body))


def decode(
    data: bytes, *, kind: str = "snapshot", limit: int = MAX_SNAPSHOT_BYTES
) -> tuple[Arrays, dict[str, Any]]:
    """Decode what `encode` returned; raises `SnapshotError` for anything else.

    The header is checked before anything is allocated. The caller must check what the arrays and
    metadata mean: a checksum detects accidents, not forgeries.

    Parameters
    ----------
    data
        The bytes of a file.
    kind
        The expected kind.
    limit
        Maximum size of the file, in bytes.

    """
    header, envelope = _open(data, limit)
    if envelope.get("kind") != kind:
        raise SnapshotError(f"expected a {kind}, got a {envelope.get('kind')!r}")
    _verify_checksum(data, header)
    arrays, metadata = _view_arrays(data, header), envelope.get("metadata")
    if metadata is None and LONG_METADATA in arrays:
        metadata = _long_metadata(arrays.pop(LONG_METADATA), limit)
    if not isinstance(metadata, dict):
        raise SnapshotError(f"metadata: expected an object, got {type(metadata).__name__}")
    return arrays, metadata


def kind_of(data: bytes, *, limit: int = MAX_SNAPSHOT_BYTES) -> str:
    """Return the kind that a file claims to be; raises `SnapshotError` if it is not one of ours."""
    return str(_open(data, limit)[1].get("kind"))


def _check_dtype(name: str, array: npt.NDArray[Any]) -> None:
    if not isinstance(array, np.ndarray) or array.dtype.name not in DTYPE_NAMES:
        kind = getattr(array, "dtype", type(array).__name__)
        raise SnapshotError(
            f"array {name!r}: expected one of {', '.join(sorted(DTYPE_NAMES))}, got {kind}"
        )


def _contiguous(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    # `ascontiguousarray` would turn a 0-d array into a vector.
    return array if array.flags.c_contiguous else array.copy(order="C")


def _to_json(metadata: dict[str, Any]) -> str:
    try:
        return json.dumps(metadata, sort_keys=True, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise SnapshotError(f"metadata: expected what JSON can express, got {error}") from error


def _add_metadata(arrays: Arrays, text: str, limit: int) -> tuple[Arrays, str]:
    """Return all arrays to write and the metadata text for the header."""
    for name, array in arrays.items():
        _check_name(name)
        _check_dtype(name, array)
    if LONG_METADATA in arrays:
        raise SnapshotError(f"expected no array of the name {LONG_METADATA!r}: it is taken")
    if len(text) <= MAX_INLINE_CHARACTERS:
        return arrays, text
    _check_text_size(len(text), limit)
    return {**arrays, LONG_METADATA: np.frombuffer(text.encode(), np.uint8)}, "null"


def _check_text_size(length: int, limit: int) -> None:
    most = _max_text_bytes(limit)
    if length > most:
        raise SnapshotError(f"metadata: expected at most {most} bytes of JSON, got {length}")


def _long_metadata(array: npt.NDArray[Any], limit: int) -> Any:
    if array.dtype != np.uint8 or array.ndim != 1:
        raise SnapshotError(f"metadata: expected a row of bytes, got {array.dtype}")
    _check_text_size(array.size, limit)
    return _parse_json(array.tobytes(), "metadata")


def _check_size(arrays: Arrays, limit: int) -> None:
    """Check the total size before any copy is made."""
    if len(arrays) > MAX_ARRAYS:
        raise SnapshotError(f"expected at most {MAX_ARRAYS} arrays, got {len(arrays)}")
    size = sum(array.nbytes for array in arrays.values())
    if size > limit:
        raise _too_large(arrays, size, limit)


def _too_large(arrays: Arrays, size: int, limit: int) -> SnapshotError:
    largest = max(arrays, key=lambda name: arrays[name].nbytes)
    return SnapshotError(
        f"expected at most {limit} bytes, got {size}; the largest of {len(arrays)} arrays is "
        f"{largest!r} of shape {arrays[largest].shape} with {arrays[largest].nbytes}"
    )


def _save(arrays: Arrays, envelope: str, limit: int) -> bytes:
    most = _max_header_bytes(limit)
    try:
        blank = save(
            {name: _contiguous(array) for name, array in arrays.items()}, {METADATA_KEY: envelope}
        )
    except safetensors.SafetensorError as error:
        raise SnapshotError(f"expected a header of at most {most} bytes, got {error}") from error
    header = int.from_bytes(blank[:8], "little")
    if header > most:
        raise SnapshotError(
            f"expected a header of at most {most} bytes, got {header} for {len(arrays)} arrays"
        )
    if len(blank) > limit:
        raise _too_large(arrays, len(blank), limit)
    return blank


def _envelope(text: str, kind: str) -> str:
    rest = f'"kind":{json.dumps(kind)},"schema":{SCHEMA_VERSION},"metadata":{text}}}'
    return f'{_CHECKSUM_PREFIX}{_NO_CHECKSUM}",{rest}'


def _open(data: bytes, limit: int) -> tuple[_ContainerHeader, dict[str, Any]]:
    if not isinstance(data, bytes):
        raise SnapshotError(f"expected bytes, got {type(data).__name__}")
    header = _read_header(data, METADATA_KEY, limit, _max_header_bytes(limit))
    envelope = _parse_json(header.text, "metadata")
    if not isinstance(envelope, dict):
        raise SnapshotError(f"metadata: expected an object, got {type(envelope).__name__}")
    schema = envelope.get("schema")
    if type(schema) is not int or schema != SCHEMA_VERSION:
        raise SnapshotSchemaError(
            f"expected schema {SCHEMA_VERSION}, got {schema!r}; an older one holds a model with "
            "other arrays, which must be learnt again; a newer one needs a newer streamlvq"
        )
    return header, envelope


def _checksum(header: bytes, body: memoryview) -> str:
    digest = hashlib.sha256(header)
    digest.update(body)
    return digest.hexdigest()


def _verify_checksum(data: bytes, header: _ContainerHeader) -> None:
    found = _CHECKSUM.match(header.text)
    if found is None:
        raise SnapshotError(f"expected a checksum first, got {header.text[:20]!r}")
    written = _ESCAPED_PREFIX + found[1].encode()
    blank = data[: header.end].replace(written, _ESCAPED_PREFIX + _NO_CHECKSUM.encode(), 1)
    checksum = _checksum(blank, memoryview(data)[header.end :])
    if checksum != found[1]:
        raise SnapshotError(f"expected checksum {checksum}, got {found[1]}: the file is damaged")


def _view_arrays(data: bytes, header: _ContainerHeader) -> Arrays:
    """Return read-only views of the data, by name."""
    return {
        span.name: _view_array(data, header.end + span.begin, span)
        for span in sorted(header.spans, key=lambda span: span.name)
    }


def _view_array(data: bytes, place: int, span: _ArraySpan) -> npt.NDArray[Any]:
    array = np.frombuffer(data, DTYPES[span.dtype], math.prod(span.shape), place)
    shaped = array.reshape(span.shape)
    # Files written by other programs may have unaligned arrays, which not all code accepts.
    return shaped if shaped.flags.aligned else shaped.copy()


# --- headers: checked before anything is made of them ---------------------------------------------


class _ArraySpan(NamedTuple):
    """Position of an array, counted from the end of the header."""

    begin: int
    end: int
    name: str
    dtype: str
    shape: tuple[int, ...]


class _ContainerHeader(NamedTuple):
    """A parsed header: the metadata text, where the header ends, and the spans of the arrays."""

    text: str
    end: int
    spans: list[_ArraySpan]


def _max_header_bytes(limit: int) -> int:
    """Return the largest allowed header in files of up to `limit` bytes."""
    return MAX_HEADER_BYTES if limit <= MAX_SNAPSHOT_BYTES else TRUSTED_MAX_HEADER_BYTES


def _max_text_bytes(limit: int) -> int:
    """Return the largest allowed metadata outside of the header."""
    return MAX_HEADER_BYTES if limit <= MAX_SNAPSHOT_BYTES else limit


def _read_header(
    data: bytes, key: str, limit: int, largest: int = MAX_HEADER_BYTES
) -> _ContainerHeader:
    """Read and check the header of a file whose only metadata key is `key`."""
    if len(data) > limit:
        raise SnapshotError(f"expected at most {limit} bytes, got {len(data)}")
    if len(data) < LENGTH_BYTES:
        raise SnapshotError(
            f"{NOT_A_SNAPSHOT}: expected at least {LENGTH_BYTES} bytes, got {len(data)}"
        )
    length = int.from_bytes(data[:LENGTH_BYTES], "little")
    end = LENGTH_BYTES + length
    if not 2 <= length <= min(largest, len(data) - LENGTH_BYTES):
        if data[LENGTH_BYTES : LENGTH_BYTES + 1] != b"{":
            start = data[:SHOWN_BYTES].decode("ascii", "replace")
            raise SnapshotError(
                f"{NOT_A_SNAPSHOT}: expected a header, got a file that begins {start!r}"
            )
        raise SnapshotError(
            f"expected a header of at most {largest} bytes in a file of {len(data)}, got one of "
            f"{length}: the file is cut short or damaged"
        )
    entries = _parse(data[LENGTH_BYTES:end])
    text = _metadata_text(entries.pop(HEADER_METADATA, None), key)
    return _ContainerHeader(text, end, _spans(entries, len(data) - end))


def _parse(header: bytes) -> dict[str, Any]:
    entries = _parse_json(header, "header")
    if not isinstance(entries, dict):
        raise SnapshotError(f"header: expected an object, got {type(entries).__name__}")
    return entries


def _parse_json(text: bytes | str, what: str) -> Any:
    """Parse JSON like `json.loads`, but refuse duplicate names."""
    try:
        # As text: given bytes, `json.loads` would also accept UTF-16 and UTF-32.
        plain = text if isinstance(text, str) else text.decode()
        return json.loads(plain, object_pairs_hook=_reject_duplicates)
    except (ValueError, RecursionError) as error:
        raise SnapshotError(f"{what}: expected JSON, got something else: {error}") from error


def _reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name occurs twice")
    return found


def _metadata_text(metadata: Any, key: str) -> str:
    text = metadata.get(key) if isinstance(metadata, dict) and len(metadata) == 1 else None
    if not isinstance(text, str):
        raise SnapshotError(f"expected a file of streamlvq, with metadata {key!r}, got another one")
    return text


def _check_name(name: Any) -> None:
    if (
        not isinstance(name, str)
        or len(name) > MAX_ARRAY_NAME_LENGTH
        or not ARRAY_NAME.fullmatch(name)
    ):
        raise SnapshotError(
            f"expected names of arrays made of up to {MAX_ARRAY_NAME_LENGTH} letters, "
            f"digits and _.:-/, got {str(name)[:80]!r}"
        )


def _spans(entries: dict[str, Any], size: int) -> list[_ArraySpan]:
    """Check that the arrays fill the rest of the file without overlaps or gaps."""
    if len(entries) > MAX_ARRAYS:
        raise SnapshotError(f"expected at most {MAX_ARRAYS} arrays, got {len(entries)}")
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


def _span(name: str, entry: Any) -> _ArraySpan:
    """Check the header entry of one array."""
    _check_name(name)
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
        raise SnapshotError(f"array {name!r}: expected dtype, shape and data_offsets, got {entry}")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in ITEM_BYTES:
        known = ", ".join(ITEM_BYTES)
        raise SnapshotError(f"array {name!r}: expected one of {known}, got {dtype!r}")
    if not _are_sizes(shape) or len(shape) > MAX_DIMENSIONS:
        raise SnapshotError(f"array {name!r}: expected a shape, got {shape!r}")
    if not _are_sizes(offsets) or len(offsets) != 2:
        raise SnapshotError(f"array {name!r}: expected two offsets, got {offsets!r}")
    begin, end = offsets
    size = math.prod(shape) * ITEM_BYTES[dtype]
    if end - begin != size:
        raise SnapshotError(
            f"array {name!r}: expected {size} bytes for shape {shape}, got {end - begin}"
        )
    return _ArraySpan(begin, end, name, dtype, tuple(shape))


def _are_sizes(values: Any) -> bool:
    return isinstance(values, list) and all(type(v) is int and 0 <= v < 2**48 for v in values)
