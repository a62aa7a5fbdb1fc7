"""What goes wrong in a plant: with machines (`Fault`) and with their sensors (the others)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from streamlvq.synth.physics import FEATURES, SPIKES, Floats


@dataclass(frozen=True, kw_only=True)
class Period:
    """From `start` until just before `end`, in seconds."""

    start: float = 0.0
    end: float = math.inf

    def __post_init__(self) -> None:
        if not 0 <= self.start < self.end:
            raise ValueError(
                f"{type(self).__name__}(start=..., end=...): expected 0 <= start < end, "
                f"got {self.start!r} and {self.end!r}"
            )

    def holds(self, times: Floats) -> npt.NDArray[np.bool_]:
        return (times >= self.start) & (times < self.end)


@dataclass(frozen=True, kw_only=True)
class Fault(Period):
    """The machine is in one state from start to end, whatever it did before.

    Parameters
    ----------
    start
        When it begins, in seconds.
    end
        When it is repaired.
    state
        A name among the machine's states; it need not be one that it visits by itself.

    """

    state: str


@dataclass(frozen=True, kw_only=True)
class Drift(Period):
    """A sensor goes wrong by `slope` more every second; at the end it is replaced by a good one.

    Examples
    --------
    >>> import numpy as np
    >>> from streamlvq.synth import Drift

    >>> Drift(feature="sound", slope=0.1, start=60).error(np.array([50.0, 60.0, 90.0]))
    array([0., 0., 3.])

    """

    feature: str
    slope: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.feature not in FEATURES:
            raise ValueError(
                f"Drift(feature=...): expected one of {', '.join(FEATURES)}, got {self.feature!r}"
            )

    def error(self, times: Floats) -> Floats:
        """How wrong the sensor is at these times."""
        return np.where(self.holds(times), self.slope * (times - self.start), 0.0)


@dataclass(frozen=True, kw_only=True)
class Glitches(Period):
    """A share of the readings is nonsense, as from a loose plug: spikes in some of the sensors."""

    share: float

    def __post_init__(self) -> None:
        super().__post_init__()
        check_share("Glitches(share=...)", self.share)


def check_share(what: str, share: float) -> None:
    if not 0 <= share <= 1:
        raise ValueError(f"{what}: expected a number from 0 to 1, got {share!r}")


def spoilt(times: Floats, glitches: Iterable[Glitches], chance: Floats) -> npt.NDArray[np.bool_]:
    """Which readings are glitches; `chance` has a uniform number for each."""
    share = np.zeros(len(times))
    for glitch in glitches:
        np.maximum(share, np.where(glitch.holds(times), glitch.share, 0.0), out=share)
    return chance < share


def spikes(chance: Floats) -> Floats:
    """Spikes up and down in about a third of the sensors; `chance` has a uniform number for each.

    At least one sensor is hit.
    """
    hit = chance <= np.maximum(1 / 3, chance.min(axis=1, keepdims=True))
    size = SPIKES * (0.7 + 1.8 * (chance % (1 / 6)) * 2)
    return np.where(hit, np.where(chance % (1 / 3) < 1 / 6, size, -size), 0.0)
