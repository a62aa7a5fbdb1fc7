"""Cells of delimited text, many lines at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from streamlvq_connectors.files import LONGEST, Blocks, count_lines
from streamlvq_connectors.kinds import DELIMITER, ESCAPE, NEWLINE, NUMBER, ODD, QUOTE, QUOTED, TEXT

MOST_ROWS = 1 << 16  # at a time
_PADDING = b"\n" * 8  # the scanner looks ahead


@dataclass(slots=True)
class Scan:
    """What was found in a block of lines.

    Parameters
    ----------
    block
        The lines.
    used
        Bytes of it that were scanned; the rest has to be seen again, with what comes after.
    numbers
        A row for each line, a column for each cell that is a number; NaN where it is missing.
    spans
        Where the texts of each line begin and end.
    lines
        Start, end and state of each line; of an odd one nothing else is known.
    """

    block: bytes
    used: int
    numbers: npt.NDArray[np.float64]
    spans: npt.NDArray[np.int64]
    lines: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.lines)

    @property
    def odd(self) -> list[int]:
        """Which lines have to be looked at by themselves."""
        return np.flatnonzero(self.lines[:, 2] == ODD).tolist()

    def line(self, row: int) -> bytes:
        """The bytes of a line."""
        return self.block[self.lines[row, 0] : self.lines[row, 1]]

    def texts(self, column: int) -> list[bytes]:
        """The cells of a column of texts."""
        block = self.block
        starts, ends = self.spans[:, column, 0].tolist(), self.spans[:, column, 1].tolist()
        cells = [block[a:b] for a, b in zip(starts, ends, strict=True)]
        if b'""' not in block:
            return cells
        # Only quoted ones hold any.
        return [cell.replace(b'""', b'"') if b'""' in cell else cell for cell in cells]

    def line_numbers(self, first: int, rows: Sequence[int]) -> dict[int, int]:
        """The numbers of the lines of these rows; that of the block is `first`."""
        if not rows:
            return {}
        ends = np.flatnonzero(np.frombuffer(self.block, np.uint8) == 10)
        numbers = np.searchsorted(ends, self.lines[list(rows), 0]) + first
        return dict(zip(rows, numbers.tolist(), strict=True))


class Scanner:
    """Scans lines that are all made alike.

    Parameters
    ----------
    kinds
        What each cell is: SKIP, NUMBER, TEXT, QUOTED or CONSTANT.
    separators
        The byte after each cell but the last; one for all, or one for each.
    escape
        A byte that makes the next one ordinary; it stays in texts.
    typed
        Whether the way in which a value is written says what it is: numbers may end in i or u and
        are never missing or in quotes, only QUOTED texts are in quotes.
    shifts
        Powers of ten to multiply the number of each cell by; 0 if not given.
    constants
        What has to stand in each cell that is CONSTANT; b"" for the others.

    Examples
    --------
    >>> from streamlvq_connectors.kinds import NUMBER, SKIP, TEXT
    >>> found = Scanner([TEXT, SKIP, NUMBER]).scan(b'pump,?,1.5\\n"a,b",!,\\nbad\\n', final=True)
    >>> found.texts(0)[:2], found.numbers[:2].tolist(), found.odd
    ([b'pump', b'a,b'], [[1.5], [nan]], [2])
    """

    def __init__(
        self,
        kinds: Sequence[int],
        *,
        separators: bytes = b",",
        escape: bytes = b"",
        typed: bool = False,
        shifts: Sequence[int] | None = None,
        constants: Sequence[bytes] | None = None,
    ) -> None:
        words = [b""] * len(kinds) if constants is None else constants
        self._kinds = np.array(kinds, np.int64)
        self._shifts = np.array([0] * len(kinds) if shifts is None else shifts, np.int64)
        self._words = np.frombuffer(bytearray(b"".join(words)), np.uint8)
        self._bounds = np.cumsum([0, *map(len, words)]).astype(np.int64)
        each = separators if len(separators) > 1 else separators * len(kinds)
        self._separators = np.frombuffer(bytearray(each), np.uint8)
        self._typed = typed
        self._classes = _classes(separators, escape)
        texts = sum(kind in (TEXT, QUOTED) for kind in kinds)
        self._counts = (list(kinds).count(NUMBER), texts)

    def scan_next(self, block: bytes, blocks: Blocks) -> Scan:
        """Scan the block that was just given; what is not used comes with the next one."""
        found = self.scan(block, blocks.final or len(block) > LONGEST)
        if len(found) == MOST_ROWS:
            blocks.give_back(block[found.used :])
        else:
            blocks.keep(block[found.used :])
        return found

    def scan(self, block: bytes, final: bool) -> Scan:
        """Scan lines, the last of which has its newline too."""
        # Numba takes its time; who only asks what kind of file this is need not wait for it.
        from streamlvq_connectors.scan import scan  # noqa: PLC0415

        rows = min(_most_rows(block), MOST_ROWS)
        numbers = np.full((rows, self._counts[0]), np.nan)
        spans = np.zeros((rows, self._counts[1], 2), np.int64)
        lines = np.empty((rows, 3), np.int64)
        found, used = scan(
            np.frombuffer(bytearray(block + _PADDING), np.uint8),
            len(block),
            final,
            self._classes,
            self._kinds,
            self._shifts,
            self._words,
            self._bounds,
            self._separators,
            self._typed,
            numbers,
            spans,
            lines,
        )
        return Scan(block, int(used), numbers[:found], spans[:found], lines[:found])


def _most_rows(block: bytes) -> int:
    count = count_lines(block)
    return count + block.count(b"\r") if b"\r" in block else count


def _classes(separators: bytes, escape: bytes) -> npt.NDArray[np.uint8]:
    classes = np.zeros(256, np.uint8)
    for characters, kind in (
        (separators, DELIMITER),
        (b"\r\n", NEWLINE),
        (b'"', QUOTE),
        (escape, ESCAPE),
    ):
        classes[list(characters)] = kind
    return classes
