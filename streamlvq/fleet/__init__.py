"""Fleets: signed envelopes, keys, the roster, and the roles of peer, member and hub."""

from __future__ import annotations

from streamlvq.fleet.envelope import (
    MEANINGS,
    REASONS,
    Envelope,
    EnvelopeRefused,
    Header,
    Kind,
    parse_envelope,
    seal,
)
from streamlvq.fleet.keys import KeyFileError, PrivateKey, TrustedKeys
from streamlvq.fleet.publication import SequenceNumbers
from streamlvq.fleet.roster import Member, Receipt, Roster

__all__ = [
    "MEANINGS",
    "REASONS",
    "Envelope",
    "EnvelopeRefused",
    "Header",
    "KeyFileError",
    "Kind",
    "Member",
    "PrivateKey",
    "Receipt",
    "Roster",
    "SequenceNumbers",
    "TrustedKeys",
    "parse_envelope",
    "seal",
]
