"""Which of two models has been right more often of late."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

SPAN = 200  # labels: what is this long ago counts 1/e
LEAST = 20  # labels: before that, nobody can say
LEAD = 0.02  # of accuracy: by so much the local model must be ahead to decide
KEEP_LEAD = 0.01  # and by so much to go on deciding, so that they do not take turns
_KEEP = 1.0 - 1.0 / SPAN


@dataclass(slots=True)
class Standing:
    """The recent accuracy of the local model and of the one that is served.

    Both are asked before the local one learns. An answer counts a little less with every label
    that comes after it. The served model decides unless the local one is clearly better: labels
    that come here say nothing about classes that are known only elsewhere, so the local model may
    be ahead by a hair and still miss them all.

    Examples
    --------

    >>> from streamlvq.monitor.standing import Standing

    >>> standing = Standing()
    >>> for k in range(100):
    ...     standing.count(local=k % 2 == 0, fused=k % 4 == 0)
    >>> standing.accuracies()
    (0.49, 0.25)
    >>> standing.prefers_fused()
    False
    >>> standing = Standing()
    >>> for k in range(100):
    ...     standing.count(local=True, fused=k != 50)
    >>> standing.prefers_fused()
    True

    """

    local: float = 0.0  # sums of what answers that were right count
    fused: float = 0.0
    weight: float = 0.0  # and of what all count
    labels: int = 0
    ahead: bool = False  # whether the local model is clearly better

    def count(self, local: bool, fused: bool) -> None:
        """Take note of who was right about a label."""
        self.local = min(self.local * _KEEP + local, float(SPAN))
        self.fused = min(self.fused * _KEEP + fused, float(SPAN))
        self.weight = min(self.weight * _KEEP + 1.0, float(SPAN))
        self.labels += 1
        needed = KEEP_LEAD if self.ahead else LEAD
        self.ahead = self.labels >= LEAST and self.local - self.fused >= needed * self.weight

    def prefers_fused(self) -> bool:
        """Whether to go by the served model; also while little is known, and if both are alike."""
        return not self.ahead

    def accuracies(self) -> tuple[float | None, float | None]:
        """Of the local and of the served model, from 0 to 1; None before the first label."""
        if self.labels == 0:
            return None, None
        return self.local / self.weight, self.fused / self.weight

    def follow(self, rows: int, judged: Iterable[tuple[int, bool, bool]]) -> npt.NDArray[np.bool_]:
        """Whether to go by the served model in each of so many rows.

        Parameters
        ----------
        rows
            How many there are.
        judged
            The rows that have a label, in order, and whether the local and the served model were
            right about them; each counts from the next row on.

        """
        preferred = np.empty(rows, np.bool_)
        start = 0
        for row, local, fused in judged:
            preferred[start : row + 1] = self.prefers_fused()
            self.count(local, fused)
            start = row + 1
        preferred[start:] = self.prefers_fused()
        return preferred
