"""Shifts and gains of all nodes as a map: a row for each node, a column for each feature."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape

import numpy as np

from streamlvq.fleet.page_units import Floats, rms
from streamlvq.plot.looks import short

WIDTH, LEFT, TOP = 1000, 130, 4
ROW, ROWS = 20, 60
COLUMNS = 240
NAMED = 30  # features whose names are written; of more only some


def offsets_drawing(features: Sequence[str], offsets: Mapping[str, Floats]) -> str:
    """How far each feature of each node is off, in within-class deviations."""
    return _map(features, offsets, 1.0, lambda value: f"{value:+.2f} within-class deviations")


def gains_drawing(features: Sequence[str], gains: Mapping[str, Floats]) -> str:
    """Gains on a scale where twice and half are equally far from none."""
    ratios = {name: np.log2(np.where(gain > 0, gain, np.nan)) for name, gain in gains.items()}
    return _map(features, ratios, 0.1, lambda value: f"times {2.0**value:.3f}")


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
    least: float,
    words: Callable[[float], str],
) -> str:
    """The colours reach as far as the values, but `least` at the least: noise stays pale."""
    shown = sorted(sorted(values, key=lambda name: -_far(values[name]))[:ROWS])
    blocks = np.array_split(np.arange(len(features)), min(len(features), COLUMNS))
    known = np.abs(np.concatenate([values[name] for name in shown]))
    known = known[np.isfinite(known)]
    limit = max(least, float(np.quantile(known, 0.99)) if len(known) else least)
    parts = []
    for row, name in enumerate(shown):
        y = TOP + ROW * row
        parts.append(f'<text class="row" x="{LEFT - 8}" y="{y + ROW / 2:.0f}">'
                     f"{escape(short(name, 16))}</text>")  # fmt: skip
        parts += _cells(name, values[name], features, blocks, y, limit, words)
    names, space = _feature_names(features, blocks, TOP + ROW * len(shown))
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
    y: float,
    limit: float,
    words: Callable[[float], str],
) -> list[str]:
    width = (WIDTH - LEFT) / len(blocks)
    cells = []
    for column, block in enumerate(blocks):
        furthest = block[int(np.argmax(np.nan_to_num(np.abs(values[block]), nan=-1.0)))]
        value = float(values[furthest])
        kind, strength = "unknown", 1.0
        said = "unknown"
        if np.isfinite(value):
            kind, strength = "above" if value > 0 else "below", min(abs(value) / limit, 1.0)
            said = words(value)
        place = f'x="{LEFT + width * column:.1f}" y="{y}" width="{width + 0.3:.1f}"'
        title = escape(f"{name}, {features[furthest]}: {said}")
        cells.append(f'<rect class="{kind}" {place} height="{ROW - 2}" '
                     f'fill-opacity="{strength:.2f}"><title>{title}</title></rect>')  # fmt: skip
    return cells


def _feature_names(
    features: Sequence[str],
    blocks: Sequence[np.ndarray[tuple[int], np.dtype[np.intp]]],
    y: float,
) -> tuple[str, int]:
    """Names below the columns, and how much space they take."""
    width = (WIDTH - LEFT) / len(blocks)
    every = -(-len(blocks) // NAMED)
    shown = {k: short(features[int(blocks[k][0])], 18) for k in range(0, len(blocks), every)}
    texts = [
        f'<text class="column" transform="translate({LEFT + width * (k + 0.5):.1f} {y + 10}) '
        f'rotate(-45)">{escape(text)}</text>'
        for k, text in shown.items()
    ]
    return "".join(texts), 16 + round(5.2 * max(map(len, shown.values()), default=0))
