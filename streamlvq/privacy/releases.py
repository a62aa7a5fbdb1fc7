"""What a series of releases costs, and the ledger that keeps account of them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Protocol

from streamlvq.arrays import Ints
from streamlvq.errors import StreamLVQError


class LedgerExhaustedError(StreamLVQError, RuntimeError):
    """Nothing more may be released: the promise is used up."""


class LedgerMismatchError(StreamLVQError, RuntimeError):
    """Other readings came under a release number than those it was made of."""


class CopyError(StreamLVQError, RuntimeError):
    """A copy of a private model would release readings that the other may release as well."""


@dataclass(frozen=True)
class Spending:
    """What the whole series costs that a release belongs to.

    Releases of one series share one promise: all of them together cost (epsilon, delta) once.
    Another series (a model begun anew, a recorded log) costs its own.

    Parameters
    ----------
    series
        Name of the series, drawn at random.
    epsilon, delta
        What all releases of the series cost together.
    unit
        What they protect: `"reading"`, or `"segment of 20"`.
    mu
        The same as a Gaussian trade-off: telling two streams apart that differ by one unit is as
        hard as telling N(0, 1) from N(mu, 1). None where another accountant was used.

    """

    series: str
    epsilon: float
    delta: float
    unit: str
    mu: float | None = None

    def no_lower_than(self, before: Spending | None) -> Spending:
        """Return this with at least the costs that were reserved for the series before."""
        if before is None:
            return self
        mu = None if self.mu is None or before.mu is None else max(self.mu, before.mu)
        epsilon, delta = max(self.epsilon, before.epsilon), max(self.delta, before.delta)
        return replace(self, epsilon=epsilon, delta=delta, mu=mu)


class ReleaseLedger(Protocol):
    """A durable account of what was released.

    For each release: `reserve`, then the noise is drawn, then `record`, then it is used. What was
    reserved is spent, whether it was recorded or not. A number that was recorded is never drawn
    again: `recorded` says what it was. Reserving a number that was reserved but not recorded is
    allowed: nobody has seen what was drawn for it.
    """

    @property
    def head(self) -> bytes:
        """Hash of the newest record, and through it of all before."""

    def reserve(self, number: int, spending: Spending) -> None:
        """Announce a release, durably; raises `LedgerExhaustedError` if there is no room for it."""

    def record(self, number: int, released: Ints) -> None:
        """Keep a release that was reserved, durably."""

    def recorded(self, number: int) -> Ints | None:
        """Return what a release said; None if it was not made yet."""

    def is_reserved(self, number: int, series: str) -> bool:
        """Return whether a release was announced, in a ledger that knows the series."""


class MemoryLedger:
    """A ledger that ends with the process, for experiments and tests.

    Parameters
    ----------
    epsilon, delta
        What all series may cost together; None for no limit.

    Examples
    --------

    >>> import numpy as np
    >>> from streamlvq.privacy import MemoryLedger, Spending

    >>> ledger = MemoryLedger(epsilon=1.0)
    >>> ledger.reserve(0, Spending("a", 1.0, 1e-5, "reading"))
    >>> ledger.record(0, np.array([3, 5]))
    >>> ledger.recorded(0).tolist()
    [3, 5]
    >>> ledger.reserve(1, Spending("b", 1.0, 1e-5, "reading"))
    Traceback (most recent call last):
    ...
    streamlvq.privacy.releases.LedgerExhaustedError: expected a total of at most epsilon 1, got 2

    """

    def __init__(self, epsilon: float | None = None, delta: float | None = None) -> None:
        self.epsilon, self.delta = epsilon, delta
        self.series: dict[str, Spending] = {}
        self._head = hashlib.sha256(b"streamlvq release ledger").digest()
        self._released: dict[int, Ints] = {}
        self._reserved: set[int] = set()

    @property
    def head(self) -> bytes:
        """Hash of the newest record, and through it of all before."""
        return self._head

    def reserve(self, number: int, spending: Spending) -> None:
        """Announce a release; raises `LedgerExhaustedError` if there is no room for it."""
        if number in self._released:
            raise ValueError(f"expected a release that was not made yet, got {number}")
        spending = spending.no_lower_than(self.series.get(spending.series))
        series = {**self.series, spending.series: spending}
        for name in ("epsilon", "delta"):
            limit, total = getattr(self, name), sum(getattr(each, name) for each in series.values())
            if limit is not None and total > limit * (1 + 1e-9):
                raise LedgerExhaustedError(
                    f"expected a total of at most {name} {limit:g}, got {total:g}"
                )
        self.series = series
        self._reserved.add(number)
        self._chain(b"reserve", number, repr(spending).encode())

    def record(self, number: int, released: Ints) -> None:
        """Keep a release that was reserved."""
        if number not in self._reserved or number in self._released:
            raise ValueError(f"expected a release that was reserved once, got {number}")
        self._released[number] = released.copy()
        self._chain(b"record", number, released.tobytes())

    def recorded(self, number: int) -> Ints | None:
        """Return what a release said; None if it was not made yet."""
        found = self._released.get(number)
        return None if found is None else found.copy()

    def is_reserved(self, number: int, series: str) -> bool:
        """Return whether a release was announced, in a ledger that knows the series."""
        return number in self._reserved and series in self.series

    def _chain(self, kind: bytes, number: int, content: bytes) -> None:
        text = b"%s %d %s" % (kind, number, hashlib.sha256(content).digest())
        self._head = hashlib.sha256(self._head + text).digest()
