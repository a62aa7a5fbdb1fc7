"""Formats of payloads: JSON, MessagePack and raw 32-bit floats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from streamlvq.arrays import Rows
from streamlvq.config import Fields
from streamlvq.payloads import values
from streamlvq.payloads.fields import FieldMap, FieldPath, array_field_map, field_map
from streamlvq.payloads.plans import DiscoveringReader
from streamlvq.payloads.reader import Decode, Reader, Table
from streamlvq.payloads.values import RefusedError

# --- JSON ----------------------------------------------------------------------------------------
#
# NaN, Infinity and numbers such as 1e999 are no JSON and refused. Of duplicate keys the last
# counts.


def _json_decoder(kind: Any) -> Decode:
    return msgspec.json.Decoder(kind).decode


def json_reader(fields: Fields) -> Reader:
    """A reader of objects.

    Examples
    --------
    >>> from streamlvq.config import Fields
    >>> from streamlvq.payloads.formats import json_reader
    >>> reader = json_reader(Fields(features=["motor.vib.x", "motor.rpm"], sequence="n"))
    >>> reader.careful(b'{"n": 7, "motor": {"vib": {"x": 0.25}, "rpm": 1500}}').values
    (0.25, 1500.0)

    """
    layout = field_map(fields)
    kind = DiscoveringReader if layout.features is None else Reader
    return kind(layout, _json_decoder(Any), _json_decoder, "a JSON object")


def json_array_reader(fields: Fields) -> Reader:
    """A reader of arrays that have a value for each of `columns`, null where there is none.

    Examples
    --------
    >>> from streamlvq.config import Fields
    >>> from streamlvq.payloads.formats import json_array_reader
    >>> fields = Fields(format="json_array", columns=["n", "x", "y"], sequence="n")
    >>> reader = json_array_reader(fields)
    >>> reader.careful(b"[7, 0.25, 1500]").values
    (0.25, 1500.0)

    """
    return Reader(array_field_map(fields), _json_decoder(Any), _json_decoder, "a JSON array")


# --- MessagePack ---------------------------------------------------------------------------------
#
# NaN means missing, infinities are refused. A time may also be a MessagePack timestamp.


def _msgpack_decoder(kind: Any) -> Decode:
    return msgspec.msgpack.Decoder(kind).decode


def msgpack_reader(fields: Fields) -> Reader:
    """A reader of maps or arrays.

    Examples
    --------
    >>> import msgspec
    >>> from streamlvq.config import Fields
    >>> from streamlvq.payloads.formats import msgpack_reader
    >>> reader = msgpack_reader(Fields(format="msgpack", label="state"))
    >>> reading = reader.careful(msgspec.msgpack.encode({"y": 2, "x": 1.5, "state": "ok"}))
    >>> reading.features, reading.values, reading.label
    (('x', 'y'), (1.5, 2.0), 'ok')

    """
    if fields.columns is not None:
        return Reader(
            array_field_map(fields), _msgpack_decoder(Any), _msgpack_decoder, "a MessagePack array"
        )
    layout = field_map(fields)
    kind = DiscoveringReader if layout.features is None else Reader
    what = "a MessagePack map (for arrays, name their values in `columns`)"
    return kind(layout, _msgpack_decoder(Any), _msgpack_decoder, what)


# --- 32-bit floats -------------------------------------------------------------------------------
#
# NaN means missing, infinities are refused. Labels are whole numbers. A 32-bit float cannot tell
# seconds of these years apart and counts to 16 777 216 only, so times and sequence numbers are
# better sent in another format.

FLOAT32_BYTES = 4


def float32_reader(fields: Fields) -> Reader:
    """A reader of raw numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from streamlvq.config import Fields
    >>> from streamlvq.payloads.formats import float32_reader
    >>> reader = float32_reader(Fields(format="float32", columns=["x", "y"]))
    >>> reader.careful(np.array([0.25, 1500], dtype="<f4").tobytes()).values
    (0.25, 1500.0)

    """
    return Float32Reader(array_field_map(fields))


class Float32Reader(Reader):
    """Reads many payloads as one array."""

    def __init__(self, layout: FieldMap) -> None:
        assert layout.columns is not None
        assert layout.features is not None
        self._width = len(layout.columns)
        self._at = {name: i for i, name in enumerate(layout.columns)}
        self._features = [self._at[feature.name] for feature in layout.features]
        self._whole = self._features == list(range(self._width))
        self._times = values.times(layout.time_unit)
        super().__init__(layout, self._list, _no_types, "32-bit floats")

    def _list(self, payload: bytes) -> list[float]:
        size = self._width * FLOAT32_BYTES
        if len(payload) != size:
            raise RefusedError(
                "payload",
                f"expected {size} bytes ({self._width} floats of 32 bits), got {len(payload)}",
                "width",
            )
        values: list[float] = np.frombuffer(payload, dtype="<f4").tolist()
        return values

    def fast(self, payloads: Sequence[bytes]) -> Table | None:
        """All of them as one table; None if something is unusual."""
        size = self._width * FLOAT32_BYTES
        if any(len(payload) != size for payload in payloads):
            return None
        with np.errstate(invalid="ignore"):  # there are NaNs that make processors complain
            numbers = np.frombuffer(b"".join(payloads), dtype="<f4").astype(np.float64)
        numbers = numbers.reshape(len(payloads), self._width)
        rows = numbers if self._whole else np.ascontiguousarray(numbers[:, self._features])
        try:
            return None if values.plain(rows) is None else self._table(numbers, rows)
        except RefusedError:
            return None

    def _table(self, numbers: Rows, rows: Rows) -> Table:
        def column(field: FieldPath | None, check: Any) -> Any:
            if field is None:
                return None
            return check(field.name, numbers[:, self._at[field.name]].tolist())

        layout = self.layout
        return Table(
            self.names,
            rows,
            column(layout.label, values.labels),
            column(layout.time, self._times),
            column(layout.sequence, values.sequences),
            column(layout.device, values.devices),
            (),
        )


def _no_types(kind: Any) -> Any:
    return None  # there is a faster way than types
