"""One kernel call over many readings: what model, window and rejector lend to it."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from streamlvq.events import Label, Readings

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Arrays = tuple[npt.NDArray[Any], ...]

# Never written to: the kernel leaves alone what its settings do not name.
_NO_LOGS = (np.zeros((1, 1, 1)), np.zeros(1, np.int64))
_NO_CERTAINTIES = (np.zeros((4, 1)), np.zeros(1, np.int64))


@functools.cache
def kernels() -> ModuleType:
    """The compiled batch kernel and its constants; imported late, because compiling takes time."""
    from streamlvq.kernels import watch  # noqa: PLC0415

    return watch


@dataclass(slots=True)
class Batch:
    """Consecutive rows of readings on their way through the kernel, and what it finds out."""

    readings: Readings
    duplicates: Sequence[bool]  # rows that came before: they are decided on and leave no trace
    learns: bool  # False: the model stays as it is, labels only tell thresholds who was right
    start: int = 0
    end: int = 0
    done: int = 0  # rows after `start` that the kernel has been through
    # From here on there is nothing before a kernel call:
    classes: Sequence[Label] = field(init=False)  # of the model, see `LVQClassifier.known_labels`
    codes: Ints = field(init=False)
    verdicts: Ints = field(init=False)
    measures: Floats = field(init=False)

    @property
    def rows(self) -> slice:
        """The rows of this call among the readings."""
        return slice(self.start, self.end)

    @property
    def remaining(self) -> int:
        """How many readings there are from `start` on."""
        return len(self.readings) - self.start


@runtime_checkable
class BatchPart(Protocol):
    """A model, window or rejector that takes part in one kernel call over many rows.

    Optional: a chain with a part that lacks it is stepped one reading at a time.
    """

    def rows_ready(self, batch: Batch) -> int:
        """Return how many rows from `batch.start` on the kernel can take as they are."""

    def lend(self, batch: Batch) -> Arrays:
        """Enter the rows and lend the arrays that the kernel reads and writes."""

    def settle(self, batch: Batch, lent: Arrays) -> None:
        """Take note of what the kernel changed: room needed, counters, thresholds in force."""


def no_window(rows: int) -> Arrays:
    """Return what a window would lend, for a chain without one."""
    return np.zeros(rows, np.int64), np.zeros(rows, np.int64), *_NO_LOGS


def no_rejection(classes: int, threshold: float = 0.0) -> Arrays:
    """Return what a rejector would lend whose thresholds are all the same and never change."""
    return np.zeros(4), np.full(classes, threshold), *_NO_CERTAINTIES
