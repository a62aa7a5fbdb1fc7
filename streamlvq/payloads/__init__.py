"""Payloads: from messages to readings and labels, from decisions to messages."""

from __future__ import annotations

from streamlvq.payloads.decoder import Decoded, Decoder
from streamlvq.payloads.encode import Encoder, dead_letter
from streamlvq.payloads.paths import FieldsError, join_path, parse_path
from streamlvq.payloads.routes import group_of

__all__ = [
    "Decoded",
    "Decoder",
    "Encoder",
    "FieldsError",
    "dead_letter",
    "group_of",
    "join_path",
    "parse_path",
]
