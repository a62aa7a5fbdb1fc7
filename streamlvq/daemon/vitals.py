"""How the daemon is: written by its loop, read by whoever asks."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from streamlvq.config import HealthSection


@dataclass(slots=True)
class Vitals:
    """Plain values, each replaced as a whole, so nobody has to wait for anybody.

    Times are monotonic: the wall clock may jump, and must not make anything sick or well.
    """

    limits: HealthSection
    started: float = field(default_factory=time.monotonic)
    starting: bool = True
    stopping: bool = False
    connected: bool = False
    trouble: str | None = "not connected yet"  # of the link
    journal: str | None = None  # why the journal cannot be written
    snapshot: str | None = None  # why the last snapshot failed
    file: str | None = None  # why decisions cannot be written to their file
    fleet: str | None = None  # what is wrong with our part in it
    reading: float | None = None  # when the last one came
    saved: float = field(default_factory=time.monotonic)  # when all was last on disk
    unsaved: bool = False  # something changed since
    devices: int = 0  # that have a window of readings
    models: int = 0  # that are learning
    beat: float = field(default_factory=time.monotonic)  # when the loop last came round

    def complaints(self, now: float | None = None) -> list[str]:
        """Why the daemon is not well; empty if it is."""
        now = time.monotonic() if now is None else now
        found = [f"journal: {self.journal}"] if self.journal else []
        found += [f"file: {self.file}"] if self.file else []
        found += [f"fleet: {self.fleet}"] if self.fleet else []
        if self.starting:
            return [*found, "starting: the state is being restored"]
        if self.stopping:
            found.append("stopping")
        if not self.connected:
            found.append(f"not connected: {self.trouble or 'the broker has not answered yet'}")
        return found + self._silence(now) + self._snapshot(now) + self._stuck(now)

    def _silence(self, now: float) -> list[str]:
        quiet = now - (self.started if self.reading is None else self.reading)
        if quiet <= self.limits.silence_seconds:
            return []
        return [f"silence: no reading for {quiet:.0f} s"]

    def _snapshot(self, now: float) -> list[str]:
        age = now - self.saved
        if self.snapshot is not None:
            return [f"snapshot: {self.snapshot}"]
        if self.unsaved and age > self.limits.snapshot_age_seconds:
            return [f"snapshot: the last one is {age:.0f} s old"]
        return []

    def _stuck(self, now: float) -> list[str]:
        still = now - self.beat
        return [f"stuck: the loop has not come round for {still:.0f} s"] if still > 30.0 else []


__all__ = ["Vitals"]
