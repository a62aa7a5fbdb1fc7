"""What was said of a reading beside what was true, whichever comes first."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from streamlvq.demo.wire import Said, Truth

WAITING = 2000  # messages of a device whose other half has not come


@dataclass
class Seen:
    """A decision and the truth."""

    said: Said
    truth: Truth

    @property
    def right(self) -> bool:
        return self.said.label == self.truth.state


@dataclass
class Pairs:
    """Brings decisions and truths of one device together; brokers keep no order between topics.

    Examples
    --------
    >>> from streamlvq.demo.pairs import Pairs
    >>> from streamlvq.demo.wire import Said, Truth

    >>> pairs = Pairs()
    >>> pairs.hear(Said("press-1", "idle", True, None, 0.8, None, sequence=7, version=1))
    >>> pairs.know(Truth("press-1", 7, "idle", False)).right
    True

    """

    truths: dict[int, Truth] = field(default_factory=dict)
    early: dict[int, Said] = field(default_factory=dict)  # decisions that overtook their truth

    def know(self, truth: Truth) -> Seen | None:
        """Take a truth; gives the pair if its decision is there."""
        said = self.early.pop(truth.sequence, None)
        if said is not None:
            return Seen(said, truth)
        _keep(self.truths, truth.sequence, truth)
        return None

    def hear(self, said: Said) -> Seen | None:
        """Take a decision; gives the pair if its truth is there."""
        if said.duplicate:
            return None
        truth = self.truths.pop(said.sequence, None)
        if truth is not None:
            return Seen(said, truth)
        _keep(self.early, said.sequence, said)
        return None


def _keep(waiting: dict[int, Any], sequence: int, one: Truth | Said) -> None:
    waiting[sequence] = one
    if len(waiting) > WAITING:
        del waiting[next(iter(waiting))]
