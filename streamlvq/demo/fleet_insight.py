"""What the messages of the fleet say: who has joined, and how far sensors are off.

The view listens like a node does, and fuses what it hears: the same snapshots give the same fusion,
whoever does it. It tells the nodes nothing.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from streamlvq.demo.fleet_story import HALLS
from streamlvq.demo.fleet_wire import FLEET
from streamlvq.synth import FEATURES, UNITS
from streamlvq.synth.physics import OFFSETS

if TYPE_CHECKING:
    from streamlvq.fleet import Receipt, Roster, TrustedKeys
    from streamlvq.fusion import FusionReport

LONGER_THAN_ANY_DEMO = 86_400.0  # seconds that a snapshot stays fresh
SHOWN = 3  # sensors of a node


@dataclass(frozen=True)
class Off:
    """How far a sensor is off against that of the first node; in brackets what is true.

    Examples
    --------
    >>> from streamlvq.demo.fleet_insight import Off
    >>> print(Off("bearing_temperature", 6.2, 6.0))
    bearing temperature +6.2 °C (+6.0)

    """

    feature: str
    found: float  # by the fusion
    true: float  # as the machine was built

    def __str__(self) -> str:
        name = self.feature.replace("_", " ")
        return f"{name} {self.found:+.1f} {UNITS[self.feature]} ({self.true:+.1f})"


class Insight:
    """Collects signed snapshots and fuses them."""

    def __init__(self) -> None:
        self.report: FusionReport | None = None  # None: there is nothing to fuse yet
        self._roster: Roster | None = None

    def begin(self, trust: TrustedKeys) -> None:
        """Believe the owners of these keys, and nobody before."""
        # Imports that take a second or two: now, while daemons start, not in mid-picture.
        import scipy.optimize  # noqa: F401, PLC0415  (what fusing needs)

        from streamlvq.fleet import Roster  # noqa: PLC0415

        self._roster = Roster(FLEET, trust, max_age_seconds=LONGER_THAN_ANY_DEMO)

    def take(self, node: str, envelope: bytes) -> Receipt:
        """Look at a message of a node; if it is new, fuse all that there is."""
        if self._roster is None:
            raise RuntimeError("Insight: expected begin() before the first message, got a message")
        taken = self._roster.accept(node, envelope, time.time())
        if taken.status == "new":
            self._fuse(self._roster)
        return taken

    def _fuse(self, roster: Roster) -> None:
        from streamlvq.fusion import fuse  # noqa: PLC0415

        members = roster.members(time.time())
        if len(members) > 1:
            self.report = fuse(member.snapshot for member in members.values()).report

    # --- what it says ----------------------------------------------------------------------------

    def size(self, node: str) -> float | None:
        """How far the sensors of a node are off the common ones, in deviations within a class."""
        if self.report is None or node not in self.report.nodes:
            return None
        return self.report.nodes[node].drift

    def gained(self, node: str) -> tuple[str, ...]:
        """Classes that a node knows only from others."""
        if self.report is None or node not in self.report.nodes:
            return ()
        return self.report.nodes[node].gained

    def off(self, node: str) -> list[Off]:
        """The sensors of a node that differ most from those of the first, the worst first.

        Nothing while there is nothing to compare, or if sensors turn out to differ by more than a
        shift.
        """
        first = next(iter(HALLS))
        if self.report is None or not {first, node} <= self.report.nodes.keys() or node == first:
            return []
        ours, theirs = self.report.nodes[node], self.report.nodes[first]
        if {*ours.gain.values(), *theirs.gain.values()} != {1.0}:
            return []
        found = [
            Off(name, ours.shift[name] - theirs.shift[name], _true(node, name) - _true(first, name))
            for name in FEATURES
        ]
        usual = dict(zip(FEATURES, OFFSETS.tolist(), strict=True))
        return sorted(found, key=lambda off: -abs(off.found) / usual[off.feature])[:SHOWN]


def _true(node: str, feature: str) -> float:
    return HALLS[node].get(feature, 0.0)
