"""What the metrics have in common: sums over samples, which can be added up."""

from __future__ import annotations

import abc
from collections.abc import Hashable
from typing import Any, ClassVar, Self

import numpy as np
from river import metrics

from streamlvq.metrics.answers import check_weight
from streamlvq.metrics.collection import Metrics
from streamlvq.metrics.records import Evidence

Label = Hashable

COUNT, WEIGHT = 0, 1  # columns of the sums; what a metric adds up follows


class MergeableMetric(metrics.base.ClassificationMetric):  # type: ignore[misc]
    """Base of the metrics: a table of sums with a row for each bin.

    A metric says what a sample adds to the table and what the table means. Memory does not grow
    with the stream, and the table of two streams is the sum of their tables.
    """

    _understands_decisions: ClassVar[bool] = True

    def __init__(self, rows: int, values: int) -> None:
        self._sums = np.zeros((rows, 2 + values))

    @abc.abstractmethod
    def _evidence(self, y_true: Label, y_pred: Any) -> Evidence | None:
        """What a sample adds; None if it says nothing."""

    def update(self, y_true: Label, y_pred: Any, w: float = 1.0) -> None:
        """Add a sample."""
        weight, evidence = check_weight(w), self._evidence(y_true, y_pred)
        if evidence is not None:
            self._sums[evidence.bin] += _amounts(evidence, weight)

    def revert(self, y_true: Label, y_pred: Any, w: float = 1.0) -> None:
        """Take back a sample that was added."""
        weight, evidence = check_weight(w), self._evidence(y_true, y_pred)
        if evidence is None:
            return
        row = self._sums[evidence.bin]
        if row[COUNT] == 0:
            raise ValueError(f"expected a sample that was added before, got {y_true!r}, {y_pred!r}")
        row -= _amounts(evidence, weight)
        if row[COUNT] == 0:
            row[:] = 0.0  # rounding must not leave a sample behind that weighs next to nothing

    def merge(self, other: Self) -> None:
        """Add what another metric has seen.

        Parameters
        ----------
        other
            A metric of the same class and with as many bins; it stays as it is.

        """
        if type(other) is not type(self) or other._sums.shape != self._sums.shape:
            raise ValueError(f"expected another {_written(self)}, got {_written(other)}")
        self._sums += other._sums

    def __iadd__(self, other: Self) -> Self:  # type: ignore[misc]
        # River's + makes a collection, which is not what += is for
        self.merge(other)
        return self

    def __add__(self, other: Any) -> Metrics:
        return Metrics(list(super().__add__(other)))

    def _mean(self, column: int) -> float:
        """The mean of a column over all samples, 0 before any."""
        weight = self._sums[:, WEIGHT].sum()
        return float(self._sums[:, column].sum() / weight) if weight > 0 else 0.0


def _amounts(evidence: Evidence, weight: float) -> list[float]:
    """What a sample adds to each column."""
    return [1.0, weight, *[weight * value for value in evidence.values]]


def _written(metric: Any) -> str:
    """A metric as one would write it in a program."""
    if not isinstance(metric, MergeableMetric):
        return repr(metric)
    given = ", ".join(f"{name}={value!r}" for name, value in metric._get_params().items())
    return f"{type(metric).__name__}({given})"
