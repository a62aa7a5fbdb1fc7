"""Probes drawn from class statistics: readings that could be of each class."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np

from streamlvq.arrays import Floats, Ints

PROBE_SEED = 14  # of the sequence, the same on all nodes


def normal_sequence(count: int, width: int) -> Floats:
    """Return points that fill a standard normal distribution evenly, always the same ones.

    A Latin hypercube: in every coordinate one point in each of `count` parts of equal probability.

    Examples
    --------
    >>> points = normal_sequence(256, 3)
    >>> bool(abs(points.mean(axis=0)).max() < 1e-9), points.std(axis=0).round(2).tolist()
    (True, [1.0, 1.0, 1.0])

    """
    normal = NormalDist()
    values = np.array([normal.inv_cdf((k + 0.5) / count) for k in range(count)])
    if count > 1:  # the middles of the parts scatter a little less
        values /= np.sqrt(np.mean(values**2))
    random = np.random.default_rng(PROBE_SEED)
    points: Floats = random.permuted(np.tile(values, (width, 1)), axis=1).T
    return points


def class_probes(
    mean: Floats, deviation: Floats, classes: Ints, per_class: int
) -> tuple[Floats, Ints]:
    """Return probes around the means of some classes, all classes in turn, and their classes."""
    sequence = normal_sequence(per_class, mean.shape[1])
    origin = np.tile(classes, per_class)
    step = np.repeat(sequence, len(classes), axis=0)
    return mean[origin] + deviation[origin] * step, origin


def class_deviations(count: Floats, variance: Floats, spread: Floats) -> Floats:
    """Return deviations of features within classes; the usual ones where too little was seen."""
    deviation: Floats = np.sqrt(np.where((count < 2) | (variance <= 0), spread, variance))
    return deviation
