"""Recognises readings that come twice."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Keys = npt.NDArray[np.int64]


class Duplicates:
    """The last keys, so many and no more.

    A broker delivers again what was not acknowledged, and that is never more than its window of
    messages under way, so a memory of some thousand keys misses nothing.
    """

    def __init__(self, room: int) -> None:
        self.room = room
        self._ring: list[int] = []  # grows up to `room`, then the oldest is overwritten
        self._count = 0  # keys that ever came
        self._last: dict[int, int] = {}  # when each came last

    def came_before(self, key: int, span: int) -> bool:
        """Whether this key is among the last `span` ones that came; from now on it is. 0 never is.

        See `Readings.suspects` for the span.
        """
        if key == 0:
            return False
        if self.knows(key, span):
            return True
        count = self._count
        self._count = count + 1
        self._last[key] = count
        if count < self.room:
            self._ring.append(key)
            return False
        place = count % self.room
        oldest, self._ring[place] = self._ring[place], key
        if self._last.get(oldest) == count - self.room:
            del self._last[oldest]
        return False

    def knows(self, key: int, span: int) -> bool:
        """The same, and nothing changes."""
        last = self._last.get(key)
        return last is not None and self._count - last <= span

    def __len__(self) -> int:
        return len(self._last)

    def copy(self) -> list[int]:
        """All that is remembered, the oldest first."""
        place = self._count % self.room if self._count > self.room else 0
        return self._ring[place:] + self._ring[:place]

    def restore(self, keys: Keys) -> None:
        """Remember these instead, the last `room` of them."""
        self._ring, self._count, self._last = [], 0, {}
        for key in keys.tolist():
            self.came_before(key, 0)
