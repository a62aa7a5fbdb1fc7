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
        self._ring = [0] * room
        self._place = 0
        self._known: set[int] = set()

    def came_before(self, key: int, suspect: bool) -> bool:
        """Whether this key is known, if that is suspect; from now on it is. 0 is never known."""
        if key == 0:
            return False
        known = self._known
        if key in known:
            return suspect
        ring, place = self._ring, self._place
        known.discard(ring[place])
        ring[place] = key
        known.add(key)
        self._place = place + 1 if place + 1 < self.room else 0
        return False

    def __len__(self) -> int:
        return len(self._known)

    def keys(self) -> Keys:
        """All that is remembered, the oldest first."""
        ring = self._ring[self._place :] + self._ring[: self._place]
        return np.array([key for key in ring if key], np.int64)

    def restore(self, keys: Keys) -> None:
        """Remember these instead, the last `room` of them."""
        self.__init__(self.room)  # type: ignore[misc]
        for key in keys.tolist():
            self.came_before(key, False)
