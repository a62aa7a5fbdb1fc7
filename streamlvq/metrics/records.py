"""Records of the metrics: contributions of samples, curves and reliability tables."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


class Evidence(NamedTuple):
    """Contribution of one sample: its row of the sums, and what it adds at weight one."""

    bin: int
    values: tuple[float, ...]


class CurvePoints(NamedTuple):
    """Points of an accuracy-reject curve, from nothing to everything rejected.

    Parameters
    ----------
    reject_rates
        Share of rejected samples.
    accuracies
        Accuracy of the accepted samples.
    thresholds
        Certainty below which samples are rejected.

    """

    reject_rates: Floats
    accuracies: Floats
    thresholds: Floats


class Reliability(NamedTuple):
    """Accuracy of predictions of similar confidence, the least confident first.

    Parameters
    ----------
    confidence
        Mean predicted probability.
    accuracy
        Share of right predictions.
    weight
        Total weight of the samples.

    """

    confidence: Floats
    accuracy: Floats
    weight: Floats
