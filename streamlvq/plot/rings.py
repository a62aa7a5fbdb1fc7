"""Where the nodes of a graph are drawn: every connected part as a ring of its own."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

Spot = tuple[float, float]
SPACE = 1.5  # around a ring, for names; neighbours on a ring are 1 apart or more


def ring_spots(components: Sequence[Sequence[str]]) -> dict[str, Spot]:
    """A place for every node, y upwards; parts stand side by side and in rows if they are many.

    Parameters
    ----------
    components
        The nodes of each connected part. Each ring begins at its top and goes on clockwise.

    Examples
    --------
    >>> from streamlvq.plot.rings import ring_spots
    >>> spots = ring_spots([["a", "b", "c", "d"], ["e"]])
    >>> {name: (round(x, 2), round(y, 2)) for name, (x, y) in spots.items()}
    {'a': (2.3, -1.5), 'b': (3.1, -2.3), 'c': (2.3, -3.1), 'd': (1.5, -2.3), 'e': (6.1, -1.5)}

    """
    rings = [_ring(len(members)) for members in components]
    boxes = [2 * (_reach(ring) + SPACE) for ring in rings]
    widest = max(math.sqrt(2.5 * sum(box * box for box in boxes)), *boxes, 0.0)
    spots: dict[str, Spot] = {}
    left = top = deepest = 0.0
    for members, ring, box in zip(components, rings, boxes, strict=True):
        if left and left + box > widest:
            left, top, deepest = 0.0, top - deepest, 0.0
        for name, (x, y) in zip(members, ring, strict=True):
            spots[name] = (left + box / 2 + x, top - box / 2 + y)
        left, deepest = left + box, max(deepest, box)
    return spots


def upper_nodes(components: Sequence[Sequence[str]], spots: Mapping[str, Spot]) -> set[str]:
    """Those in the upper half of a ring, whose names go above them, where no lines are."""
    upper = set()
    for members in components:
        heights = [spots[name][1] for name in members]
        middle = (max(heights) + min(heights)) / 2 if heights else 0.0
        upper |= {name for name in members if spots[name][1] > middle + 1e-6}
    return upper


def _ring(size: int) -> list[Spot]:
    if size == 1:
        return [(0.0, 0.0)]
    radius = max(0.8, 0.5 / math.sin(math.pi / size))
    start = math.pi / 2 if size > 2 else math.pi  # two nodes lie, so that their names do
    angles = (start - 2 * math.pi * k / size for k in range(size))
    return [(radius * math.cos(angle), radius * math.sin(angle)) for angle in angles]


def _reach(ring: Sequence[Spot]) -> float:
    return max((math.hypot(x, y) for x, y in ring), default=0.0)
