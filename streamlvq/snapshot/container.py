"""Arrays and metadata as bytes: safetensors, with a version, a kind and a checksum.

All metadata is one JSON text under the key "streamlvq". It starts with the SHA-256 of the whole
file, taken while zeros were in its place: whatever is changed, in any place, will be noticed.
Headers cannot be large; what a caller says in more than `LONGEST_INLINE` characters becomes an
array of bytes, and null stands in its place.

What is too large to be read is not written either: both ways have the same limits.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from typing import Any

import numpy as np
import numpy.typing as npt
import safetensors
from safetensors.numpy import save

from streamlvq.snapshot.errors import SnapshotError, SnapshotSchemaError
from streamlvq.snapshot.header import (
    MOST_ARRAYS,
    Header,
    Span,
    check_name,
    largest_header,
    largest_text,
    parse_json,
    read_header,
)

Arrays = dict[str, npt.NDArray[Any]]

SCHEMA = 1
KEY = "streamlvq"
LIMIT = 2**30  # bytes of a file, if nobody says otherwise: it may come from a stranger
OWN_LIMIT = 64 * 2**30  # of files that this program wrote for itself
LONGEST_INLINE = 2**20
METADATA = "metadata"  # the array that holds longer ones
DTYPES = {"F64": "<f8", "I64": "<i8", "U8": "u1"}
KINDS = frozenset({"float64", "int64", "uint8"})

_NO_CHECKSUM = "0" * 64
_BEFORE = '{"checksum":"'
_IN_HEADER = json.dumps(_BEFORE)[1:-1].encode()
_CHECKSUM = re.compile(re.escape(_BEFORE) + '([0-9a-f]{64})"')


def encode(
    arrays: Arrays, metadata: dict[str, Any], *, kind: str = "snapshot", limit: int = LIMIT
) -> bytes:
    """Arrays and metadata as one file; the same ones always give the same bytes.

    Raises `SnapshotError` for what `decode` with the same limit would refuse to read.

    Parameters
    ----------
    arrays
        By name; float64, int64 or uint8.
    metadata
        What JSON can say. Keys must be text.
    kind
        What it is, so that one kind of file is not taken for another.
    limit
        The most bytes that the file may have.

    Examples
    --------

    >>> import numpy as np
    >>> from streamlvq.snapshot.container import decode, encode

    >>> data = encode({"mean": np.array([20.5, 1.2])}, {"sensor": "bearing 3"})
    >>> arrays, metadata = decode(data)
    >>> arrays["mean"], metadata
    (array([20.5,  1.2]), {'sensor': 'bearing 3'})

    One bit is enough:

    >>> decode(data[:-1] + bytes([data[-1] ^ 1]))
    Traceback (most recent call last):
    streamlvq.snapshot.errors.SnapshotError: expected checksum ..., got ...: the file is damaged

    """
    arrays, text = _with_text(arrays, _to_json(metadata), limit)
    _check_size(arrays, limit)
    blank = _save(arrays, _envelope(text, kind), limit)
    end = 8 + int.from_bytes(blank[:8], "little")
    body = memoryview(blank)[end:]
    checksum = _checksum(blank[:end], body)
    zeros = _IN_HEADER + _NO_CHECKSUM.encode()
    return b"".join((blank[:end].replace(zeros, _IN_HEADER + checksum.encode(), 1), body))


def decode(
    data: bytes, *, kind: str = "snapshot", limit: int = LIMIT
) -> tuple[Arrays, dict[str, Any]]:
    """The opposite of `encode`; raises `SnapshotError` for anything that it did not make.

    Nothing as large as the header says is made before all that it says was checked. What arrays
    and metadata mean is for the caller to check: a checksum keeps out accidents, not liars.

    Parameters
    ----------
    data
        The bytes of a file.
    kind
        What is expected.
    limit
        The most bytes that are looked at.

    """
    header, envelope = _open(data, limit)
    if envelope.get("kind") != kind:
        raise SnapshotError(f"expected a {kind}, got a {envelope.get('kind')!r}")
    _verify(data, header)
    arrays, metadata = _arrays(data, header), envelope.get("metadata")
    if metadata is None and METADATA in arrays:
        metadata = _long_metadata(arrays.pop(METADATA), limit)
    if not isinstance(metadata, dict):
        raise SnapshotError(f"metadata: expected an object, got {type(metadata).__name__}")
    return arrays, metadata


def kind_of(data: bytes, *, limit: int = LIMIT) -> str:
    """What kind of file this claims to be; raises `SnapshotError` if it is none of ours."""
    return str(_open(data, limit)[1].get("kind"))


def _check_kind(name: str, array: npt.NDArray[Any]) -> None:
    if not isinstance(array, np.ndarray) or array.dtype.name not in KINDS:
        kind = getattr(array, "dtype", type(array).__name__)
        raise SnapshotError(
            f"array {name!r}: expected one of {', '.join(sorted(KINDS))}, got {kind}"
        )


def _in_order(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    # `ascontiguousarray` would make a vector of a single number.
    return array if array.flags.c_contiguous else array.copy(order="C")


def _to_json(metadata: dict[str, Any]) -> str:
    try:
        return json.dumps(metadata, sort_keys=True, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise SnapshotError(f"metadata: expected what JSON can say, got {error}") from error


def _with_text(arrays: Arrays, text: str, limit: int) -> tuple[Arrays, str]:
    """All arrays to write, and the text that goes into the header."""
    for name, array in arrays.items():
        check_name(name)
        _check_kind(name, array)
    if METADATA in arrays:
        raise SnapshotError(f"expected no array of the name {METADATA!r}: it is taken")
    if len(text) <= LONGEST_INLINE:
        return arrays, text
    _check_text(len(text), limit)
    return {**arrays, METADATA: np.frombuffer(text.encode(), np.uint8)}, "null"


def _check_text(length: int, limit: int) -> None:
    most = largest_text(limit, LIMIT)
    if length > most:
        raise SnapshotError(f"metadata: expected at most {most} bytes of JSON, got {length}")


def _long_metadata(array: npt.NDArray[Any], limit: int) -> Any:
    if array.dtype != np.uint8 or array.ndim != 1:
        raise SnapshotError(f"metadata: expected a row of bytes, got {array.dtype}")
    _check_text(array.size, limit)
    return parse_json(array.tobytes(), "metadata")


def _check_size(arrays: Arrays, limit: int) -> None:
    """Before anything of that size is made."""
    if len(arrays) > MOST_ARRAYS:
        raise SnapshotError(f"expected at most {MOST_ARRAYS} arrays, got {len(arrays)}")
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
    most = largest_header(limit, LIMIT)
    try:
        blank = save({name: _in_order(array) for name, array in arrays.items()}, {KEY: envelope})
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
    rest = f'"kind":{json.dumps(kind)},"schema":{SCHEMA},"metadata":{text}}}'
    return f'{_BEFORE}{_NO_CHECKSUM}",{rest}'


def _open(data: bytes, limit: int) -> tuple[Header, dict[str, Any]]:
    if not isinstance(data, bytes):
        raise SnapshotError(f"expected bytes, got {type(data).__name__}")
    header = read_header(data, KEY, limit, largest_header(limit, LIMIT))
    envelope = parse_json(header.text, "metadata")
    if not isinstance(envelope, dict):
        raise SnapshotError(f"metadata: expected an object, got {type(envelope).__name__}")
    schema = envelope.get("schema")
    if type(schema) is not int or schema != SCHEMA:
        raise SnapshotSchemaError(
            f"expected schema {SCHEMA}, got {schema!r}; a newer one needs a newer streamlvq"
        )
    return header, envelope


def _checksum(header: bytes, body: memoryview) -> str:
    digest = hashlib.sha256(header)
    digest.update(body)
    return digest.hexdigest()


def _verify(data: bytes, header: Header) -> None:
    found = _CHECKSUM.match(header.text)
    if found is None:
        raise SnapshotError(f"expected a checksum first, got {header.text[:20]!r}")
    written = _IN_HEADER + found[1].encode()
    blank = data[: header.end].replace(written, _IN_HEADER + _NO_CHECKSUM.encode(), 1)
    checksum = _checksum(blank, memoryview(data)[header.end :])
    if checksum != found[1]:
        raise SnapshotError(f"expected checksum {checksum}, got {found[1]}: the file is damaged")


def _arrays(data: bytes, header: Header) -> Arrays:
    """Views of the data, which cannot be written to: the header has said where each is."""
    return {
        span.name: _aligned(data, header.end + span.begin, span)
        for span in sorted(header.spans, key=lambda span: span.name)
    }


def _aligned(data: bytes, place: int, span: Span) -> npt.NDArray[Any]:
    array = np.frombuffer(data, DTYPES[span.dtype], math.prod(span.shape), place)
    shaped = array.reshape(span.shape)
    # Others may have written this file, with arrays at odd places; not all code is fond of those.
    return shaped if shaped.flags.aligned else shaped.copy()
