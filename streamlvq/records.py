"""Answers of models and wrappers: prototypes, explanations and decisions."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple


@dataclass(frozen=True)
class Prototype:
    """A point that stands for readings of a class, in the units of the sensors.

    In relevance and matrix models (`GRLVQ` to `LGMLVQ`) each value lies within the range of the
    readings of the class. In the others a prototype may be pushed beyond all of them: it marks a
    border then, not a typical reading.

    Parameters
    ----------
    label
        The class it stands for.
    values
        The value of each feature; NaN where it has never seen one.
    count
        Samples it has won for its class; in a shared model rounded to a power of two.
    age
        Labelled samples that the model has learnt since this prototype was born; in a shared model
        all that it has learnt.
    index
        Its place in the model.
    against
        The class that it is to be told from, in a model of pairs; None in the others.

    """

    label: Hashable
    values: dict[Hashable, float]
    count: int
    age: int
    index: int
    against: Hashable = None


@dataclass(frozen=True)
class Explanation:
    """Explanation of a prediction: the prototypes and features that decided it.

    Parameters
    ----------
    label
        The most probable class.
    winner
        The closest prototype of that class; in a model of pairs, that of its pair with the
        runner-up.
    runner_up
        The closest prototype of another class; in a model of pairs, that of the second most
        probable class. None while there is only one class.
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
    decision
        What the committee decided, if the model that explains it is a member and would have decided
        otherwise; else None.

    """

    label: Hashable
    winner: Prototype
    runner_up: Prototype | None
    distance: float
    runner_up_distance: float
    relsim: float
    features: dict[Hashable, float]
    reading: dict[Hashable, float]
    decision: Hashable = None

    def __str__(self) -> str:
        if self.runner_up is None:
            return f"{self.label!r}: the only class learnt so far"
        lines = [] if self.decision is None else [f"decided otherwise: {self.decision!r}"]
        lines += [
            f"{self.label!r} rather than {self.runner_up.label!r} "
            f"(distance {self.distance:.3g} against {self.runner_up_distance:.3g}, "
            f"RelSim {self.relsim:.2f})"
        ]
        for name, share in list(self.features.items())[:5]:
            values = f"{self.winner.values[name]:.4g} or {self.runner_up.values[name]:.4g}"
            value = self.reading[name]
            reads = f"{'missing' if value != value else f'reads {value:.4g}'}, prototypes {values}"
            lines.append(f"  {name!s:>20} {share:+.3g} ({reads})")
        return "\n".join(lines)


class Integrated(NamedTuple):
    """Combined answer for successive readings of a device.

    Parameters
    ----------
    label
        The most probable class.
    probabilities
        The probability of every class.
    delay
        The decision is about the reading this many readings ago; 0 for the latest one.
    t
        The time of that reading as it was given: a number, a datetime, or None.
    readings
        How many were combined.

    """

    label: Hashable
    probabilities: dict[Hashable, float]
    delay: int
    t: float | datetime | None
    readings: int


UNJUDGED = ("no_model", "no_feature")  # reasons of decisions that have no certainty


class Decision(NamedTuple):
    """Label of a reading, or the reason why it was rejected.

    Parameters
    ----------
    label
        What the classifier would say, also when it is rejected; None if it knows no class yet.
    certainty
        What was compared with the threshold: RelSim or the largest probability.
    accepted
        Whether the label is to be trusted.
    reason
        Why not: `"ambiguous"` (another class is about as likely), `"outlier"` (unlike everything
        that was learnt, see `outlier_by`), `"no_feature"` (it has no feature that the model
        knows), `"no_model"` (too few classes learnt yet to compare any); None if accepted.
    threshold
        The certainty that was asked for.
    winner
        The class of the closest prototype, or the most probable class.
    runner_up
        The next best class; None while there is only one.
    distance
        Squared distance to the winner; None where certainty is a probability.
    runner_up_distance
        Squared distance to the runner-up; None where certainty is a probability.
    probabilities
        The probability of every class.
    novelty
        Share of earlier readings of known classes that were less strange: 0 like what is known,
        towards 1 unlike anything learnt. Of known readings a share of at most about r has a
        novelty of 1 - r or more. None where nothing was compared: unknown features only, fewer
        than two classes, no label that the rejector has seen, no model of streamlvq, or
        `novelty_rate=None`.
    outlier_by
        What says that it is an outlier: `"novelty"` if that is at least 1 - `novelty_rate`; where
        there is no stored reading to compare it with, or the rejector has seen fewer than 100
        labels, `"ball"` if RelSim is low and the reading more than 4.4 times as far from the winner
        as the runner-up is. None otherwise.

    """

    label: Hashable
    certainty: float
    accepted: bool
    reason: str | None
    threshold: float
    winner: Hashable
    runner_up: Hashable
    distance: float | None
    runner_up_distance: float | None
    probabilities: dict[Hashable, float]
    novelty: float | None = None
    outlier_by: str | None = None
