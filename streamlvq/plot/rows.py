"""From models and readings to arrays without gaps."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamlvq.errors import NotLearntYetError
from streamlvq.models.base import LVQClassifier
from streamlvq.plot.looks import Floats
from streamlvq.vectorize import Vectorizer, to_rows


def prototype_rows(model: LVQClassifier) -> Floats:
    """Prototypes in raw units; what one has never seen is the mean over the others."""
    model.metric()  # says so if nothing was learnt yet
    rows = np.array([list(prototype.values.values()) for prototype in model.prototypes()])
    if not len(rows):
        raise NotLearntYetError("no prototypes yet: a model of pairs has them from two classes on")
    return _filled(rows, _column_means(rows))


def reading_rows(model: LVQClassifier, X: Any) -> Floats:
    """Readings in the order of the model's features, without gaps."""
    rows, names = to_rows(X, None)
    if names is not None:
        rows = Vectorizer(model.features).arrange(rows, names)
    if rows.shape[1] != len(model.features):
        raise ValueError(f"expected {len(model.features)} columns, got {rows.shape[1]}")
    return _filled(rows, _column_means(np.concatenate([rows, prototype_rows(model)])))


def _column_means(rows: Floats) -> Floats:
    seen = ~np.isnan(rows)
    means: Floats = np.where(seen, rows, 0.0).sum(axis=0) / np.maximum(seen.sum(axis=0), 1)
    return means


def _filled(rows: Floats, values: Floats) -> Floats:
    return np.where(np.isnan(rows), values, rows)


def inverse_scales(model: LVQClassifier) -> Floats:
    """One over the unit of each feature; zero for those that never changed."""
    return np.array([1.0 / scale for scale in model.scales().values()])
