"""Numbering."""

from __future__ import annotations

import logging
import re
import time
from pathlib import Path

from streamlvq.fleet.header import HIGHEST
from streamlvq.snapshot.files import UNFINISHED_SUFFIX, write_atomically

FILE = "numbering"
MODE = 0o640
_LARGEST = 100  # bytes that two numbers can have
_TEXT = re.compile(rb"([0-9]{1,19}) ([0-9]{1,19})\n")
_LOG = logging.getLogger("streamlvq")


class Numbering:
    """Numbers that rise for ever, also over restarts: no two things get the same one.

    A number is on the disk before it is used. Whoever loses the folder begins a new epoch, named
    after the time in microseconds, which is above the old one as long as the clock is right.

    Parameters
    ----------
    folder
        Where the last number is kept; made if it does not exist. One process at a time uses it.

    Examples
    --------

    >>> import tempfile
    >>> from streamlvq.fleet import Numbering

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     first, second = Numbering(folder).next(), Numbering(folder).next()
    >>> first[0] == second[0], first[1], second[1]
    (True, 1, 2)

    """

    def __init__(self, folder: str | Path) -> None:
        self.path = Path(folder) / FILE
        self._last = self._read()
        for litter in self.path.parent.glob(f".{FILE}.*{UNFINISHED_SUFFIX}"):
            litter.unlink(missing_ok=True)

    @property
    def last(self) -> tuple[int, int] | None:
        """The number that was given out last; None before the first."""
        return self._last

    def next(self) -> tuple[int, int]:
        """Epoch and sequence, above all that were given out before.

        Raises `OSError` if they cannot be written; then nothing is given out.
        """
        number = self._after(self._last)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(self.path, b"%d %d\n" % number, MODE)
        self._last = number
        return number

    @staticmethod
    def _after(last: tuple[int, int] | None) -> tuple[int, int]:
        if last is None:
            return time.time_ns() // 1000, 1
        epoch, sequence = last
        return (epoch, sequence + 1) if sequence < HIGHEST else (epoch + 1, 1)

    def _read(self) -> tuple[int, int] | None:
        try:
            with self.path.open("rb") as file:
                data = file.read(_LARGEST)
        except FileNotFoundError:
            return None
        found = _TEXT.fullmatch(data)
        if found is None or max(int(found[1]), int(found[2])) > HIGHEST:
            _LOG.warning(
                "%s: expected two numbers, got %r; numbers go on with the time of day",
                self.path,
                data,
            )
            return None
        return int(found[1]), int(found[2])
