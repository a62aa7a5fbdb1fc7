"""How long to wait before the next attempt to connect."""

from __future__ import annotations

import random
import time

FIRST = 0.5  # seconds


class Backoff:
    """Delays that double up to a limit, each shortened by chance so that clients do not march in
    step after a broker comes back. Runs on the monotonic clock.

    Parameters
    ----------
    limit
        The longest delay in seconds.

    Examples
    --------
    >>> backoff = Backoff(limit=60.0)
    >>> backoff.remaining()
    0.0
    >>> backoff.fail()
    >>> 0.1 < backoff.remaining() <= 0.5
    True
    >>> backoff.fail(full=True)
    >>> 50 < backoff.remaining() <= 60
    True
    """

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self._delay = FIRST
        self._until = 0.0

    def remaining(self) -> float:
        """Seconds until the next attempt is due."""
        return max(0.0, self._until - time.monotonic())

    def fail(self, full: bool = False) -> None:
        """An attempt failed, or a connection was lost; `full`: wait as long as ever."""
        delay = self.limit if full else min(self._delay, self.limit) * random.uniform(0.5, 1.0)
        self._until = time.monotonic() + delay
        self._delay = min(self._delay * 2, self.limit)

    def succeed(self) -> None:
        """A connection has proved itself; the next delay is a short one again."""
        self._delay = FIRST
