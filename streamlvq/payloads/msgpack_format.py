"""MessagePack: maps with text as keys or, if `columns` are named, arrays.

NaN means missing, infinities are refused. A time may also be a MessagePack timestamp.
"""

from __future__ import annotations

from typing import Any

import msgspec

from streamlvq.config import Fields
from streamlvq.payloads.discover import DiscoveringReader
from streamlvq.payloads.layout import array_layout_of, layout_of
from streamlvq.payloads.reader import Decode, Reader


def _decoder(kind: Any) -> Decode:
    return msgspec.msgpack.Decoder(kind).decode


def msgpack_reader(fields: Fields) -> Reader:
    """A reader of maps or arrays.

    Examples
    --------
    >>> import msgspec
    >>> from streamlvq.config import Fields
    >>> from streamlvq.payloads.msgpack_format import msgpack_reader
    >>> reader = msgpack_reader(Fields(format="msgpack", label="state"))
    >>> reading = reader.careful(msgspec.msgpack.encode({"y": 2, "x": 1.5, "state": "ok"}))
    >>> reading.features, reading.values, reading.label
    (('x', 'y'), (1.5, 2.0), 'ok')

    """
    if fields.columns is not None:
        return Reader(array_layout_of(fields), _decoder(Any), _decoder, "a MessagePack array")
    layout = layout_of(fields)
    kind = DiscoveringReader if layout.features is None else Reader
    what = "a MessagePack map (for arrays, name their values in `columns`)"
    return kind(layout, _decoder(Any), _decoder, what)
