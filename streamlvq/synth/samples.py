"""Readings of simulated machines, one by one and in columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from streamlvq.arrays import Floats

# A reading, the state that the machine was in, and which device and when.
Sample = tuple[dict[str, float], str, dict[str, Any]]


@dataclass(frozen=True)
class Samples:
    """Consecutive readings of a machine, in columns.

    Parameters
    ----------
    rows
        A row for each reading, a column for each of `FEATURES`; NaN where a value is missing.
    states
        True state of the machine at each reading.
    times
        Seconds since the machine was switched on.
    glitches
        Which readings are nonsense.

    """

    rows: Floats
    states: list[str]
    times: Floats
    glitches: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.states)

    def part(self, start: int, stop: int) -> Samples:
        """Return the readings from `start` to `stop`."""
        some = slice(start, stop)
        return Samples(self.rows[some], self.states[some], self.times[some], self.glitches[some])


def concatenate(parts: Sequence[Samples]) -> Samples:
    """Return the readings of all parts, one part after the other."""
    return Samples(
        np.concatenate([part.rows for part in parts]),
        [state for part in parts for state in part.states],
        np.concatenate([part.times for part in parts]),
        np.concatenate([part.glitches for part in parts]),
    )
