"""Names below the columns of a drawing: as long as there is room for, aslant if need be."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from streamlvq.plot.looks import short

LETTER = 6.4  # units of the drawing, of a font of 11
SLANT = 0.71
LONGEST, SHORTEST = 28, 10


def column_names(
    names: Sequence[str], rows: Sequence[Sequence[float]], slot: float, y: float
) -> tuple[str, int]:
    """The names, and how much space they take.

    Parameters
    ----------
    names
        Of the columns.
    rows
        Where their middles are; several, if the same columns are drawn side by side.
    slot
        How wide a column is.
    y
        Where the columns end.

    Examples
    --------
    >>> from streamlvq.fleet.page_names import column_names
    >>> column_names(["heat"], [[50]], 100, 0)
    ('<text class="column level" x="50.0" y="14.0">heat</text>', 20)

    """
    longest = max(map(len, names), default=0)
    if LETTER * (longest + 1) <= slot:
        return _level(names, rows, y), 20
    # Aslant they reach to the left, where the first of them has the least room.
    first = min((row[0] for row in rows if len(row)), default=0.0)
    letters = max(SHORTEST, min(LONGEST, int(first / (SLANT * LETTER))))
    texts = [
        f'<text class="column" transform="translate({x:.1f} {y + 10}) rotate(-45)">'
        f"{escape(short(name, letters))}</text>"
        for row in rows
        for name, x in zip(names, row, strict=True)
    ]
    return "".join(texts), 16 + round(SLANT * LETTER * min(longest, letters)) + 6


def _level(names: Sequence[str], rows: Sequence[Sequence[float]], y: float) -> str:
    return "".join(
        f'<text class="column level" x="{x:.1f}" y="{y + 14:.1f}">{escape(name)}</text>'
        for row in rows
        for name, x in zip(names, row, strict=True)
    )
