"""On/off sensors: readings repeat, tie and contradict each other."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import streamlvq
from support.samples import GROWING, MODELS

LEARNERS = ["GLVQ", "GRLVQ", "GMLVQ", "LGMLVQ", "PairwiseLVQ"]


def switches(sensors: int, seed: int, n: int = 1200, noise: float = 0.02) -> tuple[Any, Any]:
    """The label is the first sensor, but for a few mistakes."""
    random = np.random.default_rng(seed)
    X = random.integers(0, 2, (n, sensors)).astype(float)
    return X, X[:, 0].astype(np.int64) ^ (random.random(n) < noise)


def hits(name: str, X: Any, y: Any, **params: Any) -> Any:
    probabilities, codes = MODELS[name](**params).learn_array_watched(X, y)
    return probabilities.argmax(axis=1) == codes


@pytest.mark.parametrize("sensors", [1, 2, 3, 8])
@pytest.mark.parametrize("name", LEARNERS)
def test_models_find_the_switch(name: str, sensors: int) -> None:
    """Opposite prototypes on one place once made it a coin: .50 in most seeds."""
    for seed in range(5):
        X, y = switches(sensors, seed)
        rule = (X[500:, 0] == y[500:]).mean()
        assert hits(name, X, y)[500:].mean() > rule - 0.01


def test_committee_finds_the_switch() -> None:
    for seed in range(3):
        X, y = switches(2, seed)
        model = streamlvq.LVQCommittee()
        model.learn_array(X[:500], y[:500])
        found = []
        for row, label in zip(X[500:].tolist(), y[500:].tolist(), strict=True):
            x = dict(enumerate(row))
            found.append(model.predict_one(x) == label)
            model.learn_one(x, label)
        assert np.mean(found) > (X[500:, 0] == y[500:]).mean() - 0.01


@pytest.mark.parametrize("name", ["GLVQ", "GMLVQ", "LGMLVQ"])
@pytest.mark.parametrize("sensors", [1, 2])
def test_a_switch_that_is_turned_round_is_learnt_anew(name: str, sensors: int) -> None:
    X, y = switches(sensors, 9, 1600)
    y[800:] = 1 - y[800:]
    rule = (X[1200:, 0] != y[1200:]).mean()
    assert hits(name, X, y)[1200:].mean() > rule - 0.01


@pytest.mark.parametrize("limit", [1, 2, 3])
@pytest.mark.parametrize("name", GROWING)
def test_no_class_has_more_prototypes_than_it_may(name: str, limit: int) -> None:
    X, y = switches(3, 4, 600, noise=0.2)
    model = MODELS[name](max_prototypes_per_class=limit)
    model.learn_array(X, y)
    sizes = Counter(p.label for p in model.prototypes())
    assert set(sizes) == {0, 1}
    assert max(sizes.values()) <= limit


@pytest.mark.parametrize("name", GROWING)
def test_every_class_gets_its_first_prototypes(name: str) -> None:
    """Also where a prototype of another class is already."""
    model = MODELS[name](prototypes_per_class=2, max_prototypes_per_class=2)
    for label in ("off", "off", "on", "on"):
        model.learn_one({"a": 0.0}, label)
    assert Counter(p.label for p in model.prototypes()) == {"off": 2, "on": 2}


@pytest.mark.parametrize("name", LEARNERS)
def test_probabilities_of_repeated_readings_are_calibrated(name: str) -> None:
    """On a prototype the distance is 0, but one label in ten is another one."""
    X, y = switches(1, 5, 2000, noise=0.1)
    probabilities, codes = MODELS[name]().learn_array_watched(X, y)
    p = probabilities[1000:][np.arange(1000), codes[1000:]]
    ideal = -0.9 * np.log(0.9) - 0.1 * np.log(0.1)
    assert -np.log(p).mean() < ideal + 0.05
