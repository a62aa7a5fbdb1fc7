"""How far sensors are apart, in a unit that suits every feature: the within-class deviation."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from streamlvq.fusion import FusionReport, NodeReport
    from streamlvq.snapshot import Snapshot

Floats = npt.NDArray[np.float64]
Offsets = dict[str, Floats]  # of each node, a number per feature of the report


def shift_offsets(report: FusionReport, snapshots: Iterable[Snapshot]) -> Offsets:
    """How far each feature of each node is off, in within-class deviations.

    Where sensors differ by a gain too, it depends on the reading: this is at their mean reading.
    """
    known = {snapshot.node: snapshot for snapshot in snapshots}
    unit = deviations(report, known.values())
    return {
        name: offset(report.features, node, known.get(name)) / unit
        for name, node in report.nodes.items()
    }


def offset(features: Sequence[str], node: NodeReport, snapshot: Snapshot | None) -> Floats:
    """How far readings of a node are from where they would be in the common coordinates."""
    shift, gain = of_features(features, node.shift, 0.0), of_features(features, node.gain, 1.0)
    if snapshot is None or np.all(gain == 1.0):
        return shift
    middle = _mean_reading(features, snapshot)
    return np.where(gain == 1.0, shift, middle - (middle - shift) / gain)


def deviations(report: FusionReport, snapshots: Iterable[Snapshot]) -> Floats:
    """The within-class deviation of each feature: the median of the nodes, so that none can lie.

    NaN where it is not known or zero: nothing can be measured with it.
    """
    own = [_pooled(report.features, snapshot) for snapshot in snapshots]
    if not own:
        return np.full(len(report.features), np.nan)
    median = np.array([_median(column) for column in np.array(own).T])
    return np.where(median > 0.0, median, np.nan)


def natural(names: Iterable[str]) -> tuple[str, ...]:
    """In the order of the numbers in them: bands of a spectrum belong side by side.

    Examples
    --------
    >>> from streamlvq.fleet.page_units import natural
    >>> natural(["band 10", "band 9", "heat"])
    ('band 9', 'band 10', 'heat')

    """

    def parts(name: str) -> list[tuple[str, int]]:
        found = re.findall(r"([0-9]{1,18})|([^0-9]+)", name)
        return [(word, int(digits or 0)) for digits, word in found]  # digits come first

    return tuple(sorted(names, key=lambda name: (parts(name), name)))


def of_features(features: Sequence[str], values: Mapping[str, float], absent: float) -> Floats:
    return np.array([values.get(name, absent) for name in features], np.float64)


def rms(values: Floats) -> float:
    """NaN if nothing is known."""
    known = values[np.isfinite(values)]
    return float(np.sqrt(np.mean(known**2))) if len(known) else math.nan


def _pooled(features: Sequence[str], snapshot: Snapshot) -> Floats:
    weights, spreads = (_rows(features, table) for table in (snapshot.seen, snapshot.spreads))
    known = np.isfinite(spreads) & (weights > 0.0)
    total: Floats = np.sum(np.where(known, weights, 0.0), axis=0)
    squares: Floats = np.sum(np.where(known, weights * spreads**2, 0.0), axis=0)
    return np.sqrt(_divided(squares, total))


def _mean_reading(features: Sequence[str], snapshot: Snapshot) -> Floats:
    weights, means = (_rows(features, table) for table in (snapshot.seen, snapshot.means))
    known = np.isfinite(means) & (weights > 0.0)
    total: Floats = np.sum(np.where(known, weights, 0.0), axis=0)
    sums: Floats = np.sum(np.where(known, weights * means, 0.0), axis=0)
    return _divided(sums, total)


def _divided(sums: Floats, total: Floats) -> Floats:
    """NaN where there is nothing."""
    ratio = np.full(len(sums), np.nan)
    np.divide(sums, total, out=ratio, where=total > 0)
    return ratio


def _rows(features: Sequence[str], table: Mapping[object, Mapping[object, float]]) -> Floats:
    """A row for each class; names in a report are texts."""
    rows = [{str(name): value for name, value in row.items()} for row in table.values()]
    if not rows:
        return np.full((1, len(features)), np.nan)
    return np.array([of_features(features, row, math.nan) for row in rows])


def _median(column: Floats) -> float:
    known = column[np.isfinite(column)]
    return float(np.median(known)) if len(known) else math.nan
