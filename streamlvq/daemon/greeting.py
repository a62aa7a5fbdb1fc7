"""Whether a broker has to be told again what it should have retained."""

from __future__ import annotations

from streamlvq.connect import Link


class Greeting:
    """True once after the first connect, and after every one where the broker had forgotten us.

    A broker that kept our session kept what it retained as well, and what was on its way to it is
    sent again by the link. But what a former process sent in its last moment may be lost.
    """

    def __init__(self) -> None:
        self._connects = self._resumed = 0
        self._greeted = False

    def is_due(self, link: Link) -> bool:
        """Whether to say everything again now."""
        counters = link.counters
        connects, resumed = counters["connects"], counters.get("resumed", 0)
        if not link.connected or connects == self._connects:
            return False
        if connects < self._connects:  # another link
            self._connects = self._resumed = 0
        kept = resumed - self._resumed == connects - self._connects
        self._connects, self._resumed = connects, resumed
        due = not (kept and self._greeted)
        self._greeted = True
        return due


__all__ = ["Greeting"]
