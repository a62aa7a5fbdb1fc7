"""Maps of shifts and gains: one row per node, one column per feature.

Shifts are in a unit that suits every feature: the within-class deviation.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from streamlvq.arrays import Floats
from streamlvq.plot.style import short
from streamlvq.report.html import DRAWING_WIDTH

if TYPE_CHECKING:
    from streamlvq.fusion import FusionReport, NodeReport
    from streamlvq.snapshot import Snapshot


Offsets = dict[str, Floats]  # of each node, a number per feature of the report

TOP_MARGIN = 4
MIN_NAMES_WIDTH, MAX_NAMES_WIDTH = 130, 260  # of the column of node names
ROW_LETTER_WIDTH = 6.8
FULL_COLOUR_DEVIATIONS = 3.0  # deviations with the full colour: one class then looks like another
MAX_LOG_GAIN = 1.0  # log2 of a gain with the full colour
ROW_HEIGHT, MAX_MAP_ROWS = 20, 60
MAX_MAP_COLUMNS = 240
MAX_COLUMN_NAMES = 30  # of more features, only some are named
COLUMN_LETTER_WIDTH = 6.4
NAME_SLANT = 0.71  # sine of 45 degrees
MAX_COLUMN_LETTERS, MIN_COLUMN_LETTERS = 28, 10


def offsets_drawing(features: Sequence[str], offsets: Mapping[str, Floats]) -> str:
    """Draw how far each feature of each node is off, in within-class deviations."""
    reach = 1.0, FULL_COLOUR_DEVIATIONS
    return _map(features, offsets, reach, lambda value: f"{value:+.2f} within-class deviations")


def gains_drawing(features: Sequence[str], gains: Mapping[str, Floats]) -> str:
    """Draw gains on a logarithmic scale."""
    ratios = {name: np.log2(np.where(gain > 0, gain, np.nan)) for name, gain in gains.items()}
    return _map(features, ratios, (0.1, MAX_LOG_GAIN), lambda value: f"times {2.0**value:.3f}")


def map_words(features: Sequence[str], nodes: int) -> str:
    """Explain what is left out of a map that would be too large."""
    words = ""
    if len(features) > MAX_MAP_COLUMNS:
        some = -(-len(features) // MAX_MAP_COLUMNS)
        words += f" A column stands for {some} features and shows the one that is furthest off."
    if nodes > MAX_MAP_ROWS:
        words += f" The {MAX_MAP_ROWS} nodes that are furthest off, of {nodes}."
    return words


def _map(
    features: Sequence[str],
    values: Mapping[str, Floats],
    reach: tuple[float, float],
    words: Callable[[float], str],
) -> str:
    """Draw a map; the colour scale follows the values, within limits.

    Noise stays pale, and one feature that is far off does not bleach all others.
    """
    least, most = reach
    shown = sorted(sorted(values, key=lambda name: -_far(values[name]))[:MAX_MAP_ROWS])
    blocks = np.array_split(np.arange(len(features)), min(len(features), MAX_MAP_COLUMNS))
    known = np.abs(np.concatenate([values[name] for name in shown]))
    known = known[np.isfinite(known)]
    limit = float(np.clip(np.quantile(known, 0.99) if len(known) else least, least, most))
    left = min(
        MAX_NAMES_WIDTH,
        max(MIN_NAMES_WIDTH, round(ROW_LETTER_WIDTH * max(map(len, shown), default=0)) + 12),
    )
    letters = int((left - 12) / ROW_LETTER_WIDTH)
    parts = []
    for row, name in enumerate(shown):
        y = TOP_MARGIN + ROW_HEIGHT * row
        parts.append(f'<text class="row" x="{left - 8}" y="{y + ROW_HEIGHT / 2:.0f}">'
                     f"{escape(short(name, letters))}</text>")  # fmt: skip
        parts += _cells(name, values[name], features, blocks, (left, y), limit, words)
    names, space = _feature_names(features, blocks, left, TOP_MARGIN + ROW_HEIGHT * len(shown))
    box = f'viewBox="0 0 {DRAWING_WIDTH} {TOP_MARGIN + ROW_HEIGHT * len(shown) + space}" role="img"'
    inside = "".join(parts) + names
    return f'<svg class="map" {box} aria-label="a map of nodes and features">{inside}</svg>'


def _far(values: Floats) -> float:
    size = rms(values)
    return size if np.isfinite(size) else 0.0


def _cells(
    name: str,
    values: Floats,
    features: Sequence[str],
    blocks: Sequence[np.ndarray[tuple[int], np.dtype[np.intp]]],
    corner: tuple[int, int],
    limit: float,
    words: Callable[[float], str],
) -> list[str]:
    left, y = corner
    width = (DRAWING_WIDTH - left) / len(blocks)
    cells = []
    for column, block in enumerate(blocks):
        furthest = block[int(np.argmax(np.nan_to_num(np.abs(values[block]), nan=-1.0)))]
        value = float(values[furthest])
        kind, strength = "unknown", 1.0
        said = "unknown"
        if np.isfinite(value):
            kind, strength = "above" if value > 0 else "below", min(abs(value) / limit, 1.0)
            said = words(value)
        place = f'x="{left + width * column:.1f}" y="{y}" width="{width + 0.3:.1f}"'
        title = escape(f"{name}, {features[furthest]}: {said}")
        cells.append(f'<rect class="{kind}" {place} height="{ROW_HEIGHT - 2}" '
                     f'fill-opacity="{strength:.2f}"><title>{title}</title></rect>')  # fmt: skip
    return cells


def _feature_names(
    features: Sequence[str],
    blocks: Sequence[np.ndarray[tuple[int], np.dtype[np.intp]]],
    left: int,
    y: float,
) -> tuple[str, int]:
    """Return the names below the columns, and the height that they take."""
    width = (DRAWING_WIDTH - left) / len(blocks)
    every = -(-len(blocks) // MAX_COLUMN_NAMES)
    shown = range(0, len(blocks), every)
    places = [left + width * (k + 0.5) for k in shown]
    return column_names([features[int(blocks[k][0])] for k in shown], [places], width * every, y)


# --- names of columns ----------------------------------------------------------------------------


def column_names(
    names: Sequence[str], rows: Sequence[Sequence[float]], slot: float, y: float
) -> tuple[str, int]:
    """Return the names of columns as SVG text, and the height that they take.

    `rows` has the middles of the columns (several rows if the same columns are drawn side by side),
    `slot` is the width of a column and `y` where the columns end.

    Examples
    --------
    >>> from streamlvq.report.fusion_maps import column_names
    >>> column_names(["heat"], [[50]], 100, 0)
    ('<text class="column level" x="50.0" y="14.0">heat</text>', 20)

    """
    longest = max(map(len, names), default=0)
    if COLUMN_LETTER_WIDTH * (longest + 1) <= slot:
        return _level(names, rows, y), 20
    # Aslant they reach to the left, where the first of them has the least room.
    first = min((row[0] for row in rows if len(row)), default=0.0)
    letters = max(
        MIN_COLUMN_LETTERS, min(MAX_COLUMN_LETTERS, int(first / (NAME_SLANT * COLUMN_LETTER_WIDTH)))
    )
    texts = [
        f'<text class="column" transform="translate({x:.1f} {y + 10}) rotate(-45)">'
        f"{escape(short(name, letters))}</text>"
        for row in rows
        for name, x in zip(names, row, strict=True)
    ]
    return "".join(texts), 16 + round(NAME_SLANT * COLUMN_LETTER_WIDTH * min(longest, letters)) + 6


def _level(names: Sequence[str], rows: Sequence[Sequence[float]], y: float) -> str:
    return "".join(
        f'<text class="column level" x="{x:.1f}" y="{y + 14:.1f}">{escape(name)}</text>'
        for row in rows
        for name, x in zip(names, row, strict=True)
    )


# --- units ---------------------------------------------------------------------------------------


def shift_offsets(report: FusionReport, snapshots: Iterable[Snapshot]) -> Offsets:
    """Return how far each feature of each node is off, in within-class deviations.

    Where sensors differ by a gain too, it depends on the reading: this is at their mean reading.
    """
    known = {snapshot.node: snapshot for snapshot in snapshots}
    unit = deviations(report, known.values())
    return {
        name: offset(report.features, node, known.get(name)) / unit
        for name, node in report.nodes.items()
    }


def offset(features: Sequence[str], node: NodeReport, snapshot: Snapshot | None) -> Floats:
    """Return how far the readings of a node are from common coordinates."""
    shift, gain = of_features(features, node.shift, 0.0), of_features(features, node.gain, 1.0)
    if snapshot is None or np.all(gain == 1.0):
        return shift
    middle = _mean_reading(features, snapshot)
    return np.where(gain == 1.0, shift, middle - (middle - shift) / gain)


def deviations(report: FusionReport, snapshots: Iterable[Snapshot]) -> Floats:
    """Return the within-class deviation of each feature: the median over nodes.

    NaN where it is not known or zero: nothing can be measured with it.
    """
    own = [_pooled(report.features, snapshot) for snapshot in snapshots]
    if not own:
        return np.full(len(report.features), np.nan)
    median = np.array([_median(column) for column in np.array(own).T])
    return np.where(median > 0.0, median, np.nan)


def natural(names: Iterable[str]) -> tuple[str, ...]:
    """Sort names by the numbers in them, so that bands of a spectrum are side by side.

    Examples
    --------
    >>> from streamlvq.report.fusion_maps import natural
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
    """Return the root mean square of the finite values; NaN without any."""
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
    """Divide; NaN where the total is zero."""
    ratio = np.full(len(sums), np.nan)
    np.divide(sums, total, out=ratio, where=total > 0)
    return ratio


def _rows(features: Sequence[str], table: Mapping[object, Mapping[object, float]]) -> Floats:
    """Return one row per class; feature names in a report are text."""
    rows = [{str(name): value for name, value in row.items()} for row in table.values()]
    if not rows:
        return np.full((1, len(features)), np.nan)
    return np.array([of_features(features, row, math.nan) for row in rows])


def _median(column: Floats) -> float:
    known = column[np.isfinite(column)]
    return float(np.median(known)) if len(known) else math.nan
