"""Arrays and metadata as bytes: safetensors, with a version, a kind and a checksum.

All metadata is one JSON text under the key "streamlvq". It starts with the SHA-256 of the whole
file, taken while zeros were in its place: whatever is changed, in any place, will be noticed.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

import numpy as np
import numpy.typing as npt
import safetensors
from safetensors.numpy import save

from streamlvq.snapshot.errors import SnapshotError
from streamlvq.snapshot.header import Header, check_name, parse_json, read_header

Arrays = dict[str, npt.NDArray[Any]]

SCHEMA = 1
KEY = "streamlvq"
LIMIT = 2**30  # bytes that are looked at if nobody says otherwise
DTYPES = {"F64": "<f8", "I64": "<i8", "U8": "u1"}
KINDS = frozenset({"float64", "int64", "uint8"})

_NO_CHECKSUM = "0" * 64
_BEFORE = '{"checksum":"'
_IN_HEADER = json.dumps(_BEFORE)[1:-1].encode()
_CHECKSUM = re.compile(re.escape(_BEFORE) + '([0-9a-f]{64})"')


def encode(arrays: Arrays, metadata: dict[str, Any], *, kind: str = "snapshot") -> bytes:
    """Arrays and metadata as one file; the same ones always give the same bytes.

    Parameters
    ----------
    arrays
        By name; float64, int64 or uint8.
    metadata
        What JSON can say. Keys must be text.
    kind
        What it is, so that one kind of file is not taken for another.

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
    for name in arrays:
        check_name(name)
    ready = {name: _ready(name, array) for name, array in arrays.items()}
    blank = save(ready, {KEY: _envelope(metadata, kind)})
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
    metadata = envelope.get("metadata")
    if not isinstance(metadata, dict):
        raise SnapshotError(f"metadata: expected an object, got {type(metadata).__name__}")
    return _arrays(data), metadata


def kind_of(data: bytes, *, limit: int = LIMIT) -> str:
    """What kind of file this claims to be; raises `SnapshotError` if it is none of ours."""
    return str(_open(data, limit)[1].get("kind"))


def _ready(name: str, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if not isinstance(array, np.ndarray) or array.dtype.name not in KINDS:
        kind = getattr(array, "dtype", type(array).__name__)
        raise SnapshotError(
            f"array {name!r}: expected one of {', '.join(sorted(KINDS))}, got {kind}"
        )
    # `ascontiguousarray` would make a vector of a single number.
    return array if array.flags.c_contiguous else array.copy(order="C")


def _envelope(metadata: dict[str, Any], kind: str) -> str:
    try:
        text = json.dumps(metadata, sort_keys=True, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise SnapshotError(f"metadata: expected what JSON can say, got {error}") from error
    rest = f'"kind":{json.dumps(kind)},"schema":{SCHEMA},"metadata":{text}}}'
    return f'{_BEFORE}{_NO_CHECKSUM}",{rest}'


def _open(data: bytes, limit: int) -> tuple[Header, dict[str, Any]]:
    if not isinstance(data, bytes):
        raise SnapshotError(f"expected bytes, got {type(data).__name__}")
    header = read_header(data, KEY, limit)
    envelope = parse_json(header.text, "metadata")
    if not isinstance(envelope, dict):
        raise SnapshotError(f"metadata: expected an object, got {type(envelope).__name__}")
    schema = envelope.get("schema")
    if type(schema) is not int or schema != SCHEMA:
        raise SnapshotError(
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


def _arrays(data: bytes) -> Arrays:
    try:
        found = safetensors.deserialize(data)  # type: ignore[no-untyped-call]
    except safetensors.SafetensorError as error:
        raise SnapshotError(f"expected arrays as safetensors, got {error}") from error
    return {
        name: np.frombuffer(each["data"], DTYPES[each["dtype"]]).reshape(each["shape"])
        for name, each in sorted(found)
    }
