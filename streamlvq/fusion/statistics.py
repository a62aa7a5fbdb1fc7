"""What all nodes know of their classes, as one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from streamlvq.fusion.drift import Correction
from streamlvq.fusion.rules import Rule, mean
from streamlvq.fusion.tables import Tables
from streamlvq.state import Floats


@dataclass(frozen=True)
class Statistics:
    """Of classes in common coordinates: samples, and weight, mean and variance of features."""

    samples: Floats
    weight: Floats
    mean: Floats
    variance: Floats


def statistics_of(
    tables: Tables, correction: Correction, cells: Floats, counts: Floats, rule: Rule
) -> Statistics:
    """Counts, means and variances of classes over all nodes that have a say.

    Parameters
    ----------
    tables, correction
        What nodes know, and how their sensors differ.
    cells, counts
        How much each node has to say about each class, and how many samples of it count.
    rule
        How values of nodes become one.

    """
    with np.errstate(invalid="ignore", divide="ignore"):
        cut = np.where(tables.samples > 0, counts / tables.samples, 0.0)
    weight = tables.count * cut[:, :, None]
    share = np.where(weight > 0, cells[:, :, None], 0.0)
    if rule is mean:  # as if all readings had been in one place
        share = np.where(cells[:, :, None] > 0, weight, 0.0)
    place = np.where(share > 0, correction.align(tables.mean), np.nan)
    inner = np.where(share > 0, tables.variance / correction.gain[:, None, :] ** 2, np.nan)
    middle = rule(place, share)
    variance = rule(inner, share) + rule((place - middle) ** 2, share)
    return Statistics(
        samples=counts.sum(axis=0),
        weight=weight.sum(axis=0),
        mean=np.nan_to_num(middle),
        variance=np.nan_to_num(variance),
    )
