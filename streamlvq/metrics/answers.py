"""Reading predictions: labels, dictionaries of probabilities, or decisions."""

from __future__ import annotations

import math
import numbers
from collections.abc import Hashable
from typing import Any

from streamlvq.records import Decision

Label = Hashable

SLACK = 1e-6  # rounding error allowed above a probability of 1


def check_share(value: Any, what: str) -> float:
    """Return the value; raise ValueError unless it lies between 0 and 1."""
    number = _number(value)
    if -SLACK <= number <= 1 + SLACK:
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
