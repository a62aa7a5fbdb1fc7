"""The formats of payloads, by the names they have in configurations.

A new one is a function in a file of its own, and a line here.
"""

from __future__ import annotations

from collections.abc import Callable

from streamlvq.config import Fields
from streamlvq.payloads.float32_format import float32_reader
from streamlvq.payloads.json_format import json_array_reader, json_reader
from streamlvq.payloads.msgpack_format import msgpack_reader
from streamlvq.payloads.reader import Reader

FORMATS: dict[str, Callable[[Fields], Reader]] = {
    "json": json_reader,
    "json_array": json_array_reader,
    "msgpack": msgpack_reader,
    "float32": float32_reader,
}
