"""When to publish what was learnt: after a while, after much, never too often."""

from __future__ import annotations

from streamlvq.config import FleetSection

RENEWALS = 4  # publications within the time that others remember us, even with nothing new


class Schedule:
    """Decides when the model of a node is to be published; by the monotonic clock.

    Parameters
    ----------
    section
        How often, and after how much.

    Examples
    --------
    >>> section = FleetSection(name="ovens", trust="everyone")
    >>> schedule = Schedule(section)
    >>> schedule.due(samples=19, now=0.0), schedule.due(samples=20, now=0.0)
    (False, True)
    >>> schedule.published(samples=20, now=0.0)

    A few more samples wait for the time to come, many do not; but a pause there must be.

    >>> schedule.due(samples=25, now=299.0), schedule.due(samples=25, now=300.0)
    (False, True)
    >>> schedule.due(samples=220, now=9.0), schedule.due(samples=220, now=10.0)
    (False, True)

    """

    def __init__(self, section: FleetSection) -> None:
        self.section = section
        self._renewal = max(
            section.max_age_seconds / RENEWALS,
            section.publish_pause_seconds,
        )
        self._samples: int | None = None  # that others know of; None: nothing was published
        self._last = float("-inf")  # when it was tried

    def due(self, samples: int, now: float) -> bool:
        """Whether it is time to publish a model that has learnt so many samples."""
        wait = self.wait(samples, now)
        return wait is not None and wait <= 0.0

    def wait(self, samples: int, now: float) -> float | None:
        """Seconds until it is, if nothing more is learnt; None: not before more is."""
        section = self.section
        if samples < section.min_samples:
            return None
        pause = section.publish_pause_seconds
        if self._samples is not None and samples == self._samples:
            pause = self._renewal  # others must not believe that we left
        elif self.new(samples) < section.publish_after and self._samples is not None:
            pause = max(pause, section.publish_seconds)
        return max(0.0, pause - (now - self._last))

    def new(self, samples: int) -> int:
        """How many of so many samples others do not know of."""
        return abs(samples - (self._samples or 0))

    def published(self, samples: int, now: float) -> None:
        """Others can know of so many samples now."""
        self._samples, self._last = samples, now

    def forgotten(self) -> None:
        """Others may not know of us any more; they shall, after the pause."""
        self._samples = None

    def failed(self, now: float) -> None:
        """It could not be published; another try comes after the pause."""
        self._last = now


__all__ = ["RENEWALS", "Schedule"]
