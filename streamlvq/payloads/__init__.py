r"""Payloads: from messages to readings and labels, from decisions to messages.

A payload is in one of four formats: `json` (an object), `json_array` (an array, whose values
`columns` names), `msgpack` (a map or, with `columns`, an array) and `float32` (raw little-endian
numbers, named by `columns`). In all of them the same holds:

- A field is named by its path. A dot leads into an object (`motor.vib.x`) or to a position in an
  array (`spectrum.0`); a key that holds a dot is written as `"vib.x"` or `vib\.x`. Columns are
  named as they are.
- Without `features` every number is one that is nothing else, and they are in the order of their
  names. Text, true, false and null are then left out.
- A feature that is absent, null or NaN is missing. Named features may be true (1) or false (0), but
  not text. A payload without any feature is refused, as are infinities and numbers beyond 1e60.
- Whole numbers beyond 2**53 become the nearest float. Of duplicate keys the last counts.
- A label is text of at most 256 characters, a whole number (3.0 is 3), true or false (which
  become the texts "true" and "false"); null and "" mean that there is none.
- A time is a number in `time_unit` since 1970 or, with `iso`, text; one without a zone is in UTC.
  Where the payload says none, the reading was taken when its message was received.
- A sequence number is whole and has at most 64 bits with its sign; 3.0 and "3" will do.
- A device's name is text of 1 to 256 characters or a whole number. A field goes before the topic.
  Devices are told apart by all that their topics name, see `streamlvq.payloads.routing`.

What breaks these rules is refused with a reason to count by and a text to read, and nothing else is
affected.
"""

from __future__ import annotations

from streamlvq.paths import FieldsError, join_path, parse_path
from streamlvq.payloads.decoder import Decoded, Decoder
from streamlvq.payloads.encoder import Encoder, dead_letter, encode_decisions
from streamlvq.payloads.routing import group_of

__all__ = [
    "Decoded",
    "Decoder",
    "Encoder",
    "FieldsError",
    "dead_letter",
    "encode_decisions",
    "group_of",
    "join_path",
    "parse_path",
]
