"""What models answer when they are asked about themselves."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass


@dataclass(frozen=True)
class Prototype:
    """A typical reading of a class, in the units of the sensors.

    Parameters
    ----------
    label
        The class it stands for.
    values
        The value of each feature; NaN where it has never seen one.
    count
        Samples it has won for its class.
    age
        Labelled samples that the model has learnt since this prototype was born.
    index
        Its place in the model.

    """

    label: Hashable
    values: dict[Hashable, float]
    count: int
    age: int
    index: int


@dataclass(frozen=True)
class Explanation:
    """Why a reading was given its label.

    Parameters
    ----------
    label
        The most probable class.
    winner
        The closest prototype of that class.
    runner_up
        The closest prototype of another class; None while there is only one class.
    distance
        Squared distance to the winner: the mean squared deviation per feature, in units of the
        feature scales and weighted by the metric.
    runner_up_distance
        Squared distance to the runner-up.
    relsim
        (runner_up_distance - distance) / (runner_up_distance + distance): 0 on the border, 1 on
        the winner.
    features
        How much each feature spoke for the winner (positive) or for the runner-up (negative),
        strongest first. The contributions add up to `runner_up_distance - distance`.
    reading
        The values that were explained; NaN where one was missing.

    """

    label: Hashable
    winner: Prototype
    runner_up: Prototype | None
    distance: float
    runner_up_distance: float
    relsim: float
    features: dict[Hashable, float]
    reading: dict[Hashable, float]

    def __str__(self) -> str:
        if self.runner_up is None:
            return f"{self.label!r}: the only class learnt so far"
        lines = [
            f"{self.label!r} rather than {self.runner_up.label!r} "
            f"(distance {self.distance:.3g} against {self.runner_up_distance:.3g}, "
            f"RelSim {self.relsim:.2f})"
        ]
        for name, share in list(self.features.items())[:5]:
            typical = f"{self.winner.values[name]:.4g} or {self.runner_up.values[name]:.4g}"
            reads = f"reads {self.reading[name]:.4g}, typical {typical}"
            lines.append(f"  {name!s:>20} {share:+.3g} ({reads})")
        return "\n".join(lines)
