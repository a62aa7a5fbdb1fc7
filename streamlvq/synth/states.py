"""The states that a machine can be in."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from streamlvq.synth.physics import Floats

SHAPE = 4.0  # of the gamma distribution of stays: half their mean is the usual deviation


@dataclass(frozen=True, kw_only=True)
class State:
    """What a machine does for a while.

    The first four are means; each stay in a state has a working point of its own around them.

    Parameters
    ----------
    speed
        Share of the nominal speed of rotation.
    load
        Share of the greatest load.
    imbalance
        Extra vibration at nominal speed, in mm/s: something sits off centre.
    damage
        Of the bearing: 0 for a sound one, 1 for one that should be replaced soon.
    seconds
        How long a stay lasts on average.
    weight
        How likely it comes next, relative to the other states.

    """

    speed: float
    load: float
    imbalance: float = 0.15
    damage: float = 0.02
    seconds: float = 60.0
    weight: float = 1.0

    def stay(self, random: np.random.Generator) -> float:
        """How long the next stay lasts, in seconds."""
        return float(random.gamma(SHAPE, self.seconds / SHAPE))

    def working_point(self, random: np.random.Generator) -> Floats:
        """Speed, load, imbalance and damage of a stay: within a few percent of the means."""
        means = np.array([self.speed, self.load, self.imbalance, self.damage])
        return means * np.exp(SPREADS * random.normal(size=4))


SPREADS = np.array([0.005, 0.06, 0.12, 0.12])  # relative, from one stay to the next

STATES = {
    "idle": State(speed=0.4, load=0.06, seconds=100),
    "running": State(speed=1.0, load=0.45, seconds=180, weight=2),
    "heavy load": State(speed=1.0, load=0.75, seconds=120),
    "imbalance": State(speed=1.0, load=0.5, imbalance=2.0, seconds=120),
    "bearing fault": State(speed=1.0, load=0.5, damage=1.0, seconds=120),
}
