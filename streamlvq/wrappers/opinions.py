"""Class probabilities of any classifier as an array, one entry per label."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from streamlvq.models.base import LVQClassifier
from streamlvq.state import Floats
from streamlvq.vectorize import Reading

LabelProbabilities = tuple[Sequence[Any], Floats]  # labels and their probabilities
ProbabilityGetter = Callable[
    [Any, Sequence[Any], Reading, dict[str, Any]], LabelProbabilities | None
]


def probability_getter(classifier: Any) -> ProbabilityGetter:
    """Return the fastest way to get probabilities: arrays of our models, else dictionaries."""
    ours = issubclass(type(classifier), LVQClassifier)  # `isinstance` looks through pipelines
    if ours and type(classifier).predict_proba_one is LVQClassifier.predict_proba_one:
        return engine_probabilities
    return dictionary_probabilities


def engine_probabilities(
    classifier: Any, known: Sequence[Any], x: Reading, keywords: dict[str, Any]
) -> LabelProbabilities | None:
    """Return labels and the engine's own array, valid until the next call of the classifier."""
    answer: LabelProbabilities | None = classifier.predict_labels_one(x)
    return answer


def dictionary_probabilities(
    classifier: Any, known: Sequence[Any], x: Reading, keywords: dict[str, Any]
) -> LabelProbabilities | None:
    """Return labels, `known` ones first, and probabilities; 0 for those not mentioned."""
    probabilities = classifier.predict_proba_one(x, **keywords)
    if not probabilities:
        return None
    labels: Sequence[Any] = list(dict.fromkeys((*known, *probabilities)))
    if len(labels) == len(known):
        labels = known
    return labels, np.array([probabilities.get(label, 0.0) for label in labels], np.float64)
