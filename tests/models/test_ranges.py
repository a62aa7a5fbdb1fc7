"""Prototypes of relevance and matrix models stay among the readings of their class."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from streamlvq.snapshot import Snapshot
from support.samples import MODELS, image_segments

RANGED = ["GRLVQ", "LGRLVQ", "GMLVQ", "LGMLVQ"]


def segments(n: int = 1500) -> tuple[Any, list[str]]:
    samples = image_segments(n)
    return np.array([list(x.values()) for x, _ in samples]), [y for _, y in samples]


def outside(model: Any, X: Any, y: list[str]) -> list[tuple[str, str, float]]:
    """Coordinates of prototypes that no reading of their class reaches."""
    found = []
    for p in model.prototypes():
        rows = X[np.array(y) == p.label]
        w = np.array(list(p.values.values()))
        beyond = (w < rows.min(axis=0)) | (w > rows.max(axis=0))
        found += [(p.label, i, w[i]) for i in np.flatnonzero(beyond).tolist()]
    return found


@pytest.mark.parametrize("name", RANGED)
def test_every_coordinate_is_among_the_readings_of_its_class(name: str) -> None:
    """12 of 36 prototypes of LGMLVQ had negative standard deviations."""
    X, y = segments()
    model = MODELS[name]()
    model.learn_array(X, y)
    assert outside(model, X, y) == []


@pytest.mark.parametrize("name", RANGED)
def test_training_in_epochs_keeps_to_the_ranges(name: str) -> None:
    X, y = segments(400)
    model = MODELS[name](prototypes_per_class=2)
    model.train(X, y, epochs=5)
    assert outside(model, X, y) == []


@pytest.mark.parametrize("name", RANGED)
def test_missing_features_have_no_range(name: str) -> None:
    random = np.random.default_rng(0)
    X, y = segments(600)
    X[random.random(X.shape) < 0.3] = np.nan
    X[np.array(y) == y[0], 3] = np.nan
    model = MODELS[name]()
    model.learn_array(X, y)
    for p in model.prototypes():
        rows = X[np.array(y) == p.label]
        w = np.array(list(p.values.values()))
        known = ~np.isnan(w)
        assert known.any() and not (p.label == y[0] and known[3])
        low, high = np.fmin.reduce(rows, axis=0), np.fmax.reduce(rows, axis=0)
        assert (low[known] <= w[known]).all() and (w[known] <= high[known]).all()


@pytest.mark.parametrize("name", RANGED)
def test_a_published_snapshot_has_no_ranges(name: str) -> None:
    """They are readings; the copy starts from the ranges of the prototypes and learns on."""
    X, y = segments(500)
    model = MODELS[name]()
    model.learn_array(X[:300], y[:300])
    published = Snapshot.of(model, readings=False)
    assert not {"class_low", "class_high"} & set(published.estimator_state().arrays)
    copy = published.classifier()
    w = np.array([list(p.values.values()) for p in copy.prototypes()])
    labels = np.array([p.label for p in copy.prototypes()])
    for c, label in enumerate(copy.classes):
        low = copy.engine.state["class_low"][c]
        np.testing.assert_array_equal(low, w[labels == label].min(axis=0))
    copy.learn_array(X[300:], y[300:])
    everything = np.concatenate([w, X[300:]]), [*labels, *y[300:]]
    assert outside(copy, *everything) == []
