r"""Payloads: messages to readings and labels, decisions to messages.

A payload has one of four formats: `json` (an object), `json_array` (an array of values named by
`columns`), `msgpack` (a map or, with `columns`, an array) and `float32` (raw little-endian numbers
named by `columns`). The same rules apply to all of them:

- A field is named by its path. A dot leads into an object (`motor.vib.x`) or to a position in an
  array (`spectrum.0`); a key that contains a dot is written as `"vib.x"` or `vib\.x`. Columns are
  named as they are.
- Without `features`, every number that has no other role is a feature, sorted by name. Other text
  is left out; such fields are counted, and each is named once in the log.
- True is 1, false is 0, and text that is a decimal number, with a point and perhaps an exponent and
  blanks around it, is that number ("21.1", not "0x10", "1,5" or "inf").
- A feature that is absent, null or NaN is missing, as is text that is empty or says nan, null,
  none, na or n/a. A payload without any feature is refused, as are infinities, numbers beyond 1e60
  and, if it is named as a feature, other text.
- Whole numbers beyond 2**53 become the nearest float. Of duplicate keys the last one counts.
- A label is text of at most 256 characters, a whole number (3.0 is 3), true or false (which
  become the texts "true" and "false"); null and "" mean that there is no label.
- A time is a number in `time_unit` since 1970, or text in ISO 8601 whatever the unit; without a
  zone it is in UTC. If the payload has no time, the time of receipt is used.
- A sequence number is a signed whole number of at most 64 bits; 3.0 and "3" are accepted.
- A device name is text of 1 to 256 characters or a whole number. A name in the payload takes
  precedence over one in the topic. Devices are identified by all placeholders of their topic, see
  `streamlvq.payloads.routing`.

A payload that breaks these rules is refused, with a reason to count and a text to read; other
payloads are not affected.
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
