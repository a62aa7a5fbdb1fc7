"""Where one node stands when the others agree: its class means and spreads against theirs."""

from __future__ import annotations

import numpy as np

from streamlvq.fusion.drift import LARGEST_GAIN, USUAL_GAIN, gain_of_means, worth_of_spread
from streamlvq.fusion.tables import worth_of_mean
from streamlvq.state import Floats


def stand(
    count: Floats,
    mean: Floats,
    variance: Floats,
    common: Floats,
    common_variance: Floats,
    spread: Floats,
    drift: str,
) -> tuple[Floats, Floats, Floats]:
    """Gain and shift of a node, and the variance of that shift (infinite if nothing is known).

    All but the last two parameters are classes x features.

    Parameters
    ----------
    count, mean, variance
        Of the node; what has no count is not looked at.
    common, common_variance
        Of the others; NaN where they have none.
    spread
        The variance within classes.
    drift
        "none", "scale_shift", or anything else for a shift.

    """
    usable = (count > 0) & np.isfinite(common)
    width = mean.shape[1]
    gain, shift = np.ones(width), np.zeros(width)
    if drift == "none":
        return gain, shift, np.zeros(width)
    common = np.where(usable, common, 0.0)
    worth = np.where(usable, worth_of_mean(count), 0.0) / spread
    total = worth.sum(axis=0)
    safe = np.where(total > 0, total, 1.0)
    if drift == "scale_shift":
        slope, precision = gain_of_means(worth, mean, common)
        ratio, trust = _ratio(count, variance, common_variance)
        logs = precision * np.log(slope) + trust * ratio
        limit = np.log(LARGEST_GAIN)
        gain = np.exp(np.clip(logs / (precision + trust + USUAL_GAIN**-2), -limit, limit))
    shift = (worth * (mean - gain * common)).sum(axis=0) / safe
    return gain, shift, np.where(total > 0, 1.0 / safe, np.inf)


def _ratio(count: Floats, variance: Floats, common: Floats) -> tuple[Floats, Floats]:
    """Logarithm of the node's spreads over the common ones, and how precise it is."""
    with np.errstate(invalid="ignore"):
        usable = (count >= 3) & (variance > 0) & (common > 0)
    logs = 0.5 * np.log(np.where(usable, variance, 1.0) / np.where(usable, common, 1.0))
    worth = np.where(usable, worth_of_spread(count), 0.0)
    total = worth.sum(axis=0)
    return (worth * logs).sum(axis=0) / np.where(total > 0, total, 1.0), total
