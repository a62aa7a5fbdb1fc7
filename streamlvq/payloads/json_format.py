"""JSON: objects, or arrays with named columns.

NaN, Infinity and numbers such as 1e999 are no JSON and refused. Of duplicate keys the last counts.
"""

from __future__ import annotations

from typing import Any

import msgspec

from streamlvq.config import Fields
from streamlvq.payloads.discover import DiscoveringReader
from streamlvq.payloads.layout import array_layout_of, layout_of
from streamlvq.payloads.reader import Decode, Reader


def _decoder(kind: Any) -> Decode:
    return msgspec.json.Decoder(kind).decode


def json_reader(fields: Fields) -> Reader:
    """A reader of objects.

    Examples
    --------
    >>> from streamlvq.config import Fields
    >>> from streamlvq.payloads.json_format import json_reader
    >>> reader = json_reader(Fields(features=["motor.vib.x", "motor.rpm"], sequence="n"))
    >>> reader.careful(b'{"n": 7, "motor": {"vib": {"x": 0.25}, "rpm": 1500}}').values
    (0.25, 1500.0)

    """
    layout = layout_of(fields)
    kind = DiscoveringReader if layout.features is None else Reader
    return kind(layout, _decoder(Any), _decoder, "a JSON object")


def json_array_reader(fields: Fields) -> Reader:
    """A reader of arrays that have a value for each of `columns`, null where there is none.

    Examples
    --------
    >>> from streamlvq.config import Fields
    >>> from streamlvq.payloads.json_format import json_array_reader
    >>> fields = Fields(format="json_array", columns=["n", "x", "y"], sequence="n")
    >>> reader = json_array_reader(fields)
    >>> reader.careful(b"[7, 0.25, 1500]").values
    (0.25, 1500.0)

    """
    return Reader(array_layout_of(fields), _decoder(Any), _decoder, "a JSON array")
