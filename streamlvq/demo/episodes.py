"""How trouble was met: a fault noticed, labelled, recognised; bad sensors refused."""

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


@dataclass
class Trial:
    """What came of a machine's readings while one of its sensors could not be trusted."""

    device: str
    kind: str  # plug or drift
    decided: int = 0
    accepted: int = 0
    right: int = 0  # among the accepted
    nonsense: int = 0
    refused: int = 0  # among the nonsense

    def follow(self, said: Said, truth: Truth) -> None:
        """Take a decision on this machine into account."""
        self.decided += 1
        self.nonsense += truth.glitch
        self.refused += truth.glitch and not said.accepted
        self.accepted += said.accepted
        self.right += said.accepted and said.label == truth.state

    def words(self) -> str:
        """What came of it."""
        if self.kind == "plug":
            return f"{self.refused} of {self.nonsense} readings that made no sense were rejected"
        rejected = self.decided - self.accepted
        return (
            f"of {self.decided} readings with a drifting sensor {rejected} were rejected, "
            f"{self.right} of the other {self.accepted} are right"
        )
