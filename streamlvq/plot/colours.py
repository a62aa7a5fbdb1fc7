"""A colour for each label, the same on all pictures of a page."""

from __future__ import annotations

import colorsys
from collections.abc import Sequence

from streamlvq.plot.looks import COLOURS

LIGHTER, DARKER = 0.45, -0.35


def colours_of(labels: Sequence[str]) -> dict[str, str]:
    """Those of the plots first; then lighter and darker ones of the same."""
    return {label: _colour(k) for k, label in enumerate(labels)}


def _colour(number: int) -> str:
    base, turn = COLOURS[number % len(COLOURS)], number // len(COLOURS) % 3
    if turn == 0:
        return base
    rgb = [int(base[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    hue, light, saturation = colorsys.rgb_to_hls(*rgb)
    change = LIGHTER if turn == 1 else DARKER
    light += change * ((1 - light) if change > 0 else light)
    shifted = colorsys.hls_to_rgb(hue, light, saturation)
    return "#" + "".join(f"{round(255 * part):02X}" for part in shifted)
