"""Text for terminals: tables, numbers, ages and sizes, and "did you mean"."""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

COLUMN_GAP = "  "
TERMINAL_WIDTH = 80

# --- tables --------------------------------------------------------------------------------------


def aligned(rows: Sequence[Sequence[str]], left: int = 1) -> list[str]:
    """Return the lines of a table: the first `left` columns to the left, the others to the right.

    Examples
    --------
    >>> print("\\n".join(aligned([["class", "samples"], ["运行", "120"], ["idle", "7"]])))
    class  samples
    运行       120
    idle         7

    """
    widths = [max(map(display_width, column)) for column in zip(*rows, strict=True)]
    return [
        COLUMN_GAP.join(
            _padded(cell, width, k < left)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _padded(cell: str, width: int, left: bool) -> str:
    blanks = " " * (width - display_width(cell))
    return cell + blanks if left else blanks + cell


def display_width(text: str) -> int:
    """Return the number of terminal columns of a text: two for wide characters, none for accents.

    Examples
    --------
    >>> display_width("idle"), display_width("运行"), display_width("e\\u0301")
    (4, 4, 1)

    """
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def entry(name: str, text: str) -> str:
    """Return a line of a summary: a name in a column of its own, and what it says.

    Examples
    --------
    >>> entry("accuracy", "97.5 %")
    'accuracy     97.5 %'

    """
    return f"{name:<12} {text}"


def wrapped(line: str, width: int = TERMINAL_WIDTH) -> str:
    """Return a line broken between words where it is too long, the rest indented further.

    Examples
    --------
    >>> print(wrapped("  press-2: recognised 0.3 s after the first label", width=32))
      press-2: recognised 0.3 s
          after the first label

    """
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    return textwrap.fill(
        line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


# --- numbers -------------------------------------------------------------------------------------


def number(value: int | None) -> str:
    """Return a whole number with groups of three digits, `-` if there is none.

    Examples
    --------
    >>> number(1234567), number(None)
    ('1 234 567', '-')

    """
    if value is None:
        return "-"
    return f"{value:,}".replace(",", " ")


def percent(value: float | None) -> str:
    """Return a share as a percentage, `-` if there is none; 100 % only if nothing is missing.

    Examples
    --------
    >>> percent(0.975), percent(0.9999), percent(None)
    ('97.5 %', '99.9 %', '-')

    """
    if value is None:
        return "-"
    return f"{99.9 if 0.999 < value < 1.0 else 100 * value:.1f} %"


def plural(count: int, noun: str) -> str:
    """Return a count with its noun.

    Examples
    --------
    >>> plural(1, "reading"), plural(12_000, "reading")
    ('1 reading', '12 000 readings')

    """
    return f"{number(count)} {noun}{'' if count == 1 else 's'}"


def age(seconds: float) -> str:
    """Return a time span in its largest fitting unit.

    Examples
    --------
    >>> age(4.2), age(200.0), age(7300.0), age(400_000.0)
    ('4 s', '3 min', '2.0 h', '4.6 d')

    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 172_800 else f"{seconds / 86_400:.1f} d"


def size(count: int) -> str:
    """Return a number of bytes in its largest fitting unit.

    Examples
    --------
    >>> size(700), size(20_000), size(3_000_000)
    ('700 B', '19.5 KiB', '2.9 MiB')

    """
    if count < 1024:
        return f"{count} B"
    return f"{count / 1024:.1f} KiB" if count < 2**20 else f"{count / 2**20:.1f} MiB"


# --- did you mean --------------------------------------------------------------------------------


def nearest(word: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the known word that was probably meant; case and `-` for `_` do not matter.

    Examples
    --------
    >>> nearest("topc", ["format", "topic", "qos"])
    'topic'
    >>> nearest("colour", ["format", "topic", "qos"]) is None
    True

    """
    originals: dict[str, str] = {}
    for each in known:
        originals.setdefault(_folded(each), each)
    found = get_close_matches(_folded(word), originals, n=1, cutoff=cutoff)
    return originals[found[0]] if found else None


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown word: a question, or nothing.

    Examples
    --------
    >>> "unknown key" + suggestion("topc", ["format", "topic", "qos"])
    "unknown key; did you mean 'topic'?"

    """
    near = nearest(word, known)
    return "" if near is None else f"; did you mean {near!r}?"


def _folded(word: str) -> str:
    return word.lower().replace("-", "_")
