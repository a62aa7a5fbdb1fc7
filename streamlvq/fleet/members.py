"""What a roster answers: what became of an envelope, and who is in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from streamlvq.fleet.header import Header
from streamlvq.snapshot import Snapshot

Status = Literal["new", "same", "refused"]


class Taken(NamedTuple):
    """What became of an envelope.

    Parameters
    ----------
    status
        "new": it is used from now on. "same": it is used already. "refused": nothing was changed.
    reason
        Why it was refused, one of `REASONS`; nothing otherwise.
    text
        The same in words.

    """

    status: Status
    reason: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class Member:
    """A node and the newest valid envelope about it.

    Parameters
    ----------
    node
        Its name.
    snapshot
        What was inside.
    header
        What was written on it.
    digest
        Stands for header and content: as long as it is the same, so are they.

    """

    node: str
    snapshot: Snapshot
    header: Header
    digest: str
