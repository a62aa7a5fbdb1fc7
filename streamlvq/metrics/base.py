"""`MergeableMetric`, the base of the metrics: sums over samples that can be merged."""

from __future__ import annotations

import abc
from collections.abc import Hashable
from typing import Any, ClassVar, Self

import numpy as np
from river import metrics

from streamlvq.metrics.answers import check_weight
from streamlvq.metrics.collection import MetricCollection
from streamlvq.metrics.records import Evidence

Label = Hashable

COUNT, WEIGHT = 0, 1  # first columns of the sums; those of the metric follow


class MergeableMetric(metrics.base.ClassificationMetric):  # type: ignore[misc]
    """Base class of the metrics: a table of sums with one row per bin.

    A subclass defines what a sample adds to the table and how to evaluate it. Memory does not grow
    with the stream, and the table of two streams is the sum of their tables.
    """

    _understands_decisions: ClassVar[bool] = True

    def __init__(self, rows: int, values: int) -> None:
        self._sums = np.zeros((rows, 2 + values))

    @abc.abstractmethod
    def _evidence(self, y_true: Label, y_pred: Any) -> Evidence | None:
        """Return what a sample adds to the sums; None if it is ignored."""

    def update(self, y_true: Label, y_pred: Any, w: float = 1.0) -> None:
        """Add a sample."""
        weight, evidence = check_weight(w), self._evidence(y_true, y_pred)
        if evidence is not None:
            self._sums[evidence.bin] += _amounts(evidence, weight)

    def revert(self, y_true: Label, y_pred: Any, w: float = 1.0) -> None:
        """Remove a sample that was added before."""
        weight, evidence = check_weight(w), self._evidence(y_true, y_pred)
        if evidence is None:
            return
        row = self._sums[evidence.bin]
        if row[COUNT] == 0:
            raise ValueError(f"expected a sample that was added before, got {y_true!r}, {y_pred!r}")
        row -= _amounts(evidence, weight)
        if row[COUNT] == 0:
            row[:] = 0.0  # rounding must not leave a tiny weight behind

    def merge(self, other: Self) -> None:
        """Add the samples of another metric.

        Parameters
        ----------
        other
            Metric of the same class with the same number of bins; it stays unchanged.

        """
        if type(other) is not type(self) or other._sums.shape != self._sums.shape:
            raise ValueError(f"expected another {_expression(self)}, got {_expression(other)}")
        self._sums += other._sums

    def __iadd__(self, other: Self) -> Self:  # type: ignore[misc]
        # River's + makes a collection; += merges instead
        self.merge(other)
        return self

    def __add__(self, other: Any) -> MetricCollection:
        return MetricCollection(list(super().__add__(other)))

    def _mean(self, column: int) -> float:
        """Return the mean of a column over all samples, 0 before any."""
        weight = self._sums[:, WEIGHT].sum()
        return float(self._sums[:, column].sum() / weight) if weight > 0 else 0.0


def _amounts(evidence: Evidence, weight: float) -> list[float]:
    """Return the amounts that a sample adds to each column."""
    return [1.0, weight, *[weight * value for value in evidence.values]]


def _expression(metric: Any) -> str:
    """Return a metric as the expression that creates it."""
    if not isinstance(metric, MergeableMetric):
        return repr(metric)
    given = ", ".join(f"{name}={value!r}" for name, value in metric._get_params().items())
    return f"{type(metric).__name__}({given})"
