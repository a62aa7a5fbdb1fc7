"""Sharing between nodes that need not trust the way: signed envelopes, keys, numbers, a roster."""

from __future__ import annotations

from streamlvq.fleet.envelope import Sealed, seal, unseal
from streamlvq.fleet.errors import MEANINGS, REASONS, EnvelopeRefused, KeyFileError
from streamlvq.fleet.header import Header, Kind
from streamlvq.fleet.keys import PrivateKey
from streamlvq.fleet.members import Member, Taken
from streamlvq.fleet.numbering import Numbering
from streamlvq.fleet.roster import Roster
from streamlvq.fleet.trusted import TrustedKeys

__all__ = [
    "MEANINGS",
    "REASONS",
    "EnvelopeRefused",
    "Header",
    "KeyFileError",
    "Kind",
    "Member",
    "Numbering",
    "PrivateKey",
    "Roster",
    "Sealed",
    "Taken",
    "TrustedKeys",
    "seal",
    "unseal",
]
