"""What metrics are told, and what they answer when one number is not enough."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


class Evidence(NamedTuple):
    """What a sample says to a metric.

    Parameters
    ----------
    bin
        The row of the sums that it belongs to.
    values
        What it adds there if its weight is one.

    """

    bin: int
    values: tuple[float, ...]


class CurvePoints(NamedTuple):
    """The points of an accuracy-reject curve, from nothing rejected to everything.

    Parameters
    ----------
    reject_rates
        The share of the samples that is rejected.
    accuracies
        The accuracy of the others.
    thresholds
        The certainty below which samples are rejected.

    """

    reject_rates: Floats
    accuracies: Floats
    thresholds: Floats


class Reliability(NamedTuple):
    """How often predictions of about the same confidence are right, the least confident first.

    Parameters
    ----------
    confidence
        The mean probability that was predicted.
    accuracy
        The share that was right.
    weight
        The weight of the samples.

    """

    confidence: Floats
    accuracy: Floats
    weight: Floats
