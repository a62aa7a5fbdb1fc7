"""Shifts and gains of all nodes as a map: a row for each node, a column for each feature."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape

import numpy as np

from streamlvq.fleet.page_names import column_names
from streamlvq.fleet.page_units import Floats, rms
from streamlvq.plot.looks import short

WIDTH, TOP = 1000, 4
LEFT, LEFT_MOST, LETTER = 130, 260, 6.8  # room for names of nodes; of one letter
FULL = 3.0  # deviations: a shift as far makes one class look like another; more looks no worse
TWICE = 1.0  # the same for gains
ROW, ROWS = 20, 60
COLUMNS = 240
NAMED = 30  # features whose names are written; of more only some


def offsets_drawing(features: Sequence[str], offsets: Mapping[str, Floats]) -> str:
    """How far each feature of each node is off, in within-class deviations."""
    reach = 1.0, FULL
    return _map(features, offsets, reach, lambda value: f"{value:+.2f} within-class deviations")


def gains_drawing(features: Sequence[str], gains: Mapping[str, Floats]) -> str:
    """Gains on a scale where twice and half are equally far from none."""
    ratios = {name: np.log2(np.where(gain > 0, gain, np.nan)) for name, gain in gains.items()}
    return _map(features, ratios, (0.1, TWICE), lambda value: f"times {2.0**value:.3f}")


def map_words(features: Sequence[str], nodes: int) -> str:
    """What is not shown, if there is too much."""
    words = ""
    if len(features) > COLUMNS:
        some = -(-len(features) // COLUMNS)
        words += f" A column stands for {some} features and shows the one that is furthest off."
    if nodes > ROWS:
        words += f" The {ROWS} nodes that are furthest off, of {nodes}."
    return words


def _map(
    features: Sequence[str],
    values: Mapping[str, Floats],
    reach: tuple[float, float],
    words: Callable[[float], str],
) -> str:
    """The colours reach as far as the values, within limits.

    Noise stays pale, and one feature that is far off does not bleach all others.
    """
    least, most = reach
    shown = sorted(sorted(values, key=lambda name: -_far(values[name]))[:ROWS])
    blocks = np.array_split(np.arange(len(features)), min(len(features), COLUMNS))
    known = np.abs(np.concatenate([values[name] for name in shown]))
    known = known[np.isfinite(known)]
    limit = float(np.clip(np.quantile(known, 0.99) if len(known) else least, least, most))
    left = min(LEFT_MOST, max(LEFT, round(LETTER * max(map(len, shown), default=0)) + 12))
    letters = int((left - 12) / LETTER)
    parts = []
    for row, name in enumerate(shown):
        y = TOP + ROW * row
        parts.append(f'<text class="row" x="{left - 8}" y="{y + ROW / 2:.0f}">'
                     f"{escape(short(name, letters))}</text>")  # fmt: skip
        parts += _cells(name, values[name], features, blocks, (left, y), limit, words)
    names, space = _feature_names(features, blocks, left, TOP + ROW * len(shown))
    box = f'viewBox="0 0 {WIDTH} {TOP + ROW * len(shown) + space}" role="img"'
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
    width = (WIDTH - left) / len(blocks)
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
        cells.append(f'<rect class="{kind}" {place} height="{ROW - 2}" '
                     f'fill-opacity="{strength:.2f}"><title>{title}</title></rect>')  # fmt: skip
    return cells


def _feature_names(
    features: Sequence[str],
    blocks: Sequence[np.ndarray[tuple[int], np.dtype[np.intp]]],
    left: int,
    y: float,
) -> tuple[str, int]:
    """Names below the columns, and how much space they take."""
    width = (WIDTH - left) / len(blocks)
    every = -(-len(blocks) // NAMED)
    shown = range(0, len(blocks), every)
    places = [left + width * (k + 0.5) for k in shown]
    return column_names([features[int(blocks[k][0])] for k in shown], [places], width * every, y)
