"""Numbers for names, in the order in which they appear."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


class Numbering(dict[Hashable, int]):
    """0 for the first name that is looked up, 1 for the next ...; beyond `limit` all are `limit`.

    None has no number: it is -1. A dictionary that fills itself, because asking one is the
    cheapest thing to do with a name.

    Examples
    --------

    >>> from streamlvq.replay.numbering import Numbering
    >>> pumps = Numbering(limit=2)
    >>> pumps.numbers(["p7", "p3", "p7", "p5"])
    array([0, 1, 0, 2])
    >>> pumps.names
    ['p7', 'p3']

    """

    def __init__(self, limit: int) -> None:
        super().__init__({None: -1})
        self.limit = limit

    def __missing__(self, name: Hashable) -> int:
        number = len(self) - 1
        if number >= self.limit:
            return self.limit
        self[name] = number
        return number

    @property
    def names(self) -> list[Hashable]:
        """The names that have a number of their own."""
        return list(self)[1:]

    def numbers(self, names: Sequence[Hashable]) -> Ints:
        """The number of each."""
        return np.fromiter(map(self.__getitem__, names), np.int64, len(names))
