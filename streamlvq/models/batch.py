"""Batch protocol: how model, window and rejector share one kernel call over many readings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from streamlvq.arrays import Floats, Ints, Label
from streamlvq.events import Readings

Arrays = tuple[npt.NDArray[Any], ...]

# Placeholders that the kernel never calls or writes to.
NO_ADDRESS = 0
_NO_LOGS = (np.zeros((1, 1, 1)), np.zeros(1, np.int64))
_NO_CERTAINTIES = (np.zeros((4, 1)), np.zeros(1, np.int64))


@dataclass(slots=True)
class KernelBatch:
    """Consecutive readings for one kernel call, and its results."""

    readings: Readings
    duplicates: Sequence[bool]  # decided on, but change no state
    learns: bool  # False: the model is fixed; labels only update thresholds
    start: int = 0
    remaining: int = field(init=False)  # readings from `start` on
    # Set for each kernel call:
    rows: slice = field(init=False)  # rows of this call among the readings
    count: int = field(init=False)  # number of these rows
    done: int = field(init=False)  # number of them that the kernel has processed
    classes: Sequence[Label] = field(init=False)  # of the model, see `LVQClassifier.known_labels`
    codes: Ints = field(init=False)
    verdicts: Ints = field(init=False)
    measures: Floats = field(init=False)
    # Addresses of kernels, set by model and rejector:
    predict: Any = field(init=False)
    learn: Any = field(init=False)
    adapt: Any = NO_ADDRESS  # rule of an adaptive threshold

    def __post_init__(self) -> None:
        self.remaining = len(self.readings) - self.start

    def take(self, count: int) -> None:
        """Select the next `count` rows for a kernel call."""
        self.rows = slice(self.start, self.start + count)
        self.count, self.done = count, 0

    def move_on(self, count: int) -> None:
        """Skip `count` rows that have been processed."""
        self.start += count
        self.remaining -= count


@runtime_checkable
class BatchPart(Protocol):
    """A model, window or rejector that takes part in one kernel call over many rows.

    Optional: a chain with a part that lacks it is processed one reading at a time.
    """

    def rows_ready(self, batch: KernelBatch) -> int:
        """Return how many rows from `batch.start` on the kernel can process."""

    def lend(self, batch: KernelBatch) -> Arrays:
        """Prepare for the rows and return the arrays that the kernel reads and writes.

        A model also sets `batch.predict` and `batch.learn`, an adaptive rejector `batch.adapt`.
        """

    def settle(self, batch: KernelBatch, lent: Arrays) -> None:
        """Update the part after the kernel call: capacity, counters, thresholds."""


def no_window(rows: int) -> Arrays:
    """Return the window arrays for a chain without a window."""
    return np.zeros(rows, np.int64), np.zeros(rows, np.int64), *_NO_LOGS


def no_rejection(classes: int, threshold: float = 0.0) -> Arrays:
    """Return the rejection arrays for one fixed threshold for all classes."""
    return np.zeros(4), np.full(classes, threshold), *_NO_CERTAINTIES
