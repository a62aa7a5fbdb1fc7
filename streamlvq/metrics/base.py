"""Base of the metrics: mergeable sums, how predictions are read, and collections of metrics."""

from __future__ import annotations

import abc
import math
import numbers
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from river import metrics

from streamlvq.arrays import Floats, Label
from streamlvq.records import Decision

# --- records -------------------------------------------------------------------------------------


class Evidence(NamedTuple):
    """Contribution of one sample: its row of the sums, and what it adds at weight one."""

    bin: int
    values: tuple[float, ...]


class CurvePoints(NamedTuple):
    """Points of an accuracy-reject curve, from nothing to everything rejected.

    Parameters
    ----------
    reject_rates
        Share of rejected samples.
    accuracies
        Accuracy of the accepted samples.
    thresholds
        Certainty below which samples are rejected.

    """

    reject_rates: Floats
    accuracies: Floats
    thresholds: Floats


class Reliability(NamedTuple):
    """Accuracy of predictions of similar confidence, the least confident first.

    Parameters
    ----------
    confidence
        Mean predicted probability.
    accuracy
        Share of right predictions.
    weight
        Total weight of the samples.

    """

    confidence: Floats
    accuracy: Floats
    weight: Floats


# --- predictions and decisions as arguments ------------------------------------------------------

PROBABILITY_SLACK = 1e-6  # rounding error allowed above a probability of 1


def check_share(value: Any, what: str) -> float:
    """Return the value; raise ValueError unless it lies between 0 and 1."""
    number = _number(value)
    if -PROBABILITY_SLACK <= number <= 1 + PROBABILITY_SLACK:
        return min(max(number, 0.0), 1.0)
    raise ValueError(f"expected {what} from 0 to 1, got {value!r}")


def check_weight(w: Any) -> float:
    """Return the weight; raise ValueError unless it is finite and not negative."""
    number = _number(w)
    if 0 <= number < math.inf:
        return number
    raise ValueError(f"expected a weight that is finite and not negative, got {w!r}")


def label_and_certainty(y_pred: Any) -> tuple[Label, float]:
    """Return the predicted label and its certainty."""
    if isinstance(y_pred, dict):
        return _most_probable(y_pred)
    if not isinstance(y_pred, Decision):
        raise ValueError(f"expected class probabilities or a Decision, got {y_pred!r}")
    if y_pred.label is None:  # nothing learnt yet: certainty 0
        return None, 0.0
    return y_pred.label, check_share(y_pred.certainty, "a certainty")


def label_and_probability(y_pred: Any) -> tuple[Label, float] | None:
    """Return the label and its probability; None for a decision without a label."""
    if not isinstance(y_pred, Decision):
        return label_and_certainty(y_pred)
    if y_pred.label is None:
        return None
    if y_pred.label not in y_pred.probabilities:
        expected = f"expected the probability of {y_pred.label!r}"
        raise ValueError(f"{expected}, got probabilities={y_pred.probabilities!r}")
    return y_pred.label, check_share(y_pred.probabilities[y_pred.label], "a probability")


def accepted_label(y_pred: Any) -> tuple[bool, Label]:
    """Return whether the prediction was accepted, and its label."""
    if isinstance(y_pred, Decision):
        return bool(y_pred.accepted), y_pred.label
    if isinstance(y_pred, dict):
        return True, _most_probable(y_pred)[0]
    return y_pred is not None, y_pred


def _number(value: Any) -> float:
    if type(value) is float:  # the common case; testing for Real is slow
        return value
    return float(value) if isinstance(value, numbers.Real) else math.nan


def _most_probable(probabilities: dict[Label, float]) -> tuple[Label, float]:
    if not probabilities:
        raise ValueError("expected the probability of at least one class, got {}")
    if math.isnan(sum(probabilities.values())):  # max() misses a NaN unless it comes first
        raise ValueError(f"expected probabilities from 0 to 1, got {probabilities!r}")
    label = max(probabilities, key=probabilities.__getitem__)
    return label, check_share(probabilities[label], "probabilities")


# --- mergeable sums ------------------------------------------------------------------------------

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


# --- collections ---------------------------------------------------------------------------------


class MetricCollection(metrics.base.Metrics):  # type: ignore[misc]
    """River's collection of metrics, extended to decisions.

    River's own collection cannot handle a `Decision`. `+` creates this one if one of our metrics
    comes first; River's metrics use the label of a decision, also of a rejected one.
    """

    def update(self, y_true: Any, y_pred: Any, w: float = 1.0) -> None:
        if not isinstance(y_pred, Decision):
            super().update(y_true, y_pred, w)
            return
        for metric, prediction in self._adapted(y_pred):
            metric.update(y_true, prediction, w)

    def revert(self, y_true: Any, y_pred: Any, w: float = 1.0) -> None:
        if not isinstance(y_pred, Decision):
            super().revert(y_true, y_pred, w)
            return
        for metric, prediction in self._adapted(y_pred):
            metric.revert(y_true, prediction, w)

    def _adapted(self, decision: Decision) -> list[tuple[Any, Any]]:
        """Return each metric with the form of the decision that it accepts."""
        ours: list[tuple[Any, Any]] = [(metric, decision) for metric in self if _is_ours(metric)]
        if decision.label is None:  # River ignores predictions without a label
            return ours
        label, probabilities = decision.label, decision.probabilities
        others = [metric for metric in self if not _is_ours(metric)]
        return ours + [
            (other, label if other.requires_labels else probabilities) for other in others
        ]


def _is_ours(metric: Any) -> bool:
    return bool(getattr(metric, "_understands_decisions", False))
