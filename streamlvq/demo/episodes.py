"""How a fault was met: noticed, labelled, recognised."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from streamlvq.demo.story import BEARING
from streamlvq.demo.wire import Said, Truth

ENOUGH = 5  # decisions in a row that convince


@dataclass
class Episode:
    """A fault from its beginning to its repair; times in seconds since the start of the demo."""

    device: str
    began: float
    known: bool  # whether such a fault was recognised before
    labelled: float | None = None
    noticed: float | None = None  # the model refused to give it another name
    recognised: float | None = None
    ended: float | None = None
    _last: deque[str] = field(default_factory=lambda: deque(maxlen=ENOUGH))

    def follow(self, said: Said, truth: Truth, now: float) -> str | None:
        """Take a decision on this machine into account; says what is new about it, if anything."""
        if truth.state != BEARING:
            return None
        right = said.label == truth.state
        self._last.append(("right" if right else "wrong") if said.accepted else "rejected")
        if self.noticed is None and self._agree("rejected"):
            self.noticed = now
            if not self.known:
                delay = now - self.began
                return f"noticed after {delay:.1f} s: the model says that it does not know this"
        if self.recognised is None and self._agree("right"):
            self.recognised = now
            return f"recognised on {self.device}, {self._since(now)}"
        return None

    def _since(self, now: float) -> str:
        if self.labelled is not None:
            return f"{now - self.labelled:.1f} s after the first label"
        return f"{now - self.began:.1f} s after it began, without a label from there"

    def _agree(self, what: str) -> bool:
        return len(self._last) == ENOUGH and set(self._last) == {what}

    def words(self) -> str:
        """The whole of it in a line."""
        parts = [f"{BEARING} on {self.device}:"]
        if self.noticed is not None and not self.known:
            parts.append(f"refused as unknown after {self.noticed - self.began:.1f} s,")
        if self.recognised is None:
            parts.append("not recognised")
            parts.append("yet" if self.ended is None else "before it was repaired")
        else:
            parts.append(f"recognised {self._since(self.recognised)}")
        return " ".join(parts)
