"""Weights of samples and classes, and classes so rare that they would be drowned."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from river import datasets

import streamlvq
from streamlvq.errors import ParameterError
from streamlvq.snapshot import Snapshot
from support.samples import MODELS, blobs, knowledge, readings, taught

EVERY = [*MODELS, "LVQCommittee"]


def make(name: str, **params: Any) -> Any:
    return getattr(streamlvq, name)(**params)


def rare(n: int, seed: int, share: float = 0.02) -> tuple[Any, Any]:
    """Two clouds of positives on either side of the others."""
    random = np.random.default_rng(seed)
    y = (random.random(n) < share).astype(int)
    X = random.normal(size=(n, 6))
    side = random.integers(0, 2, n) * 2 - 1
    X[:, 0] += 2.5 * side * y
    X[:, 1] -= 2.5 * side * y
    return X, y


def recall_and_precision(model: Any, X: Any, y: Any) -> tuple[float, float]:
    predicted = []
    for x, label in zip(readings(X), y.tolist(), strict=True):
        predicted.append(model.predict_one(x) == 1)
        model.learn_one(x, label)
    found, true = np.array(predicted)[1000:], y[1000:] == 1
    hits = (found & true).sum()
    return hits / true.sum(), hits / max(1, found.sum())


@pytest.mark.parametrize("name", ["LGMLVQ", "LVQCommittee"])
def test_the_default_model_does_not_drown_a_rare_class(name: str) -> None:
    """F1 was .32 for LGMLVQ and .20 for the committee."""
    scores = [recall_and_precision(make(name), *rare(6000, seed)) for seed in range(2)]
    f1 = np.mean([2 * r * p / (r + p) if r + p else 0.0 for r, p in scores])
    assert f1 > 0.45


@pytest.mark.parametrize("name", ["GLVQ", "GMLVQ", "LGMLVQ", "MRSLVQ", "PairwiseLVQ"])
def test_more_weight_finds_more_of_a_class(name: str) -> None:
    recalls = [
        recall_and_precision(make(name, class_weight=weight), *rare(4000, 1))[0]
        for weight in (None, {1: 5.0}, {1: 50.0})
    ]
    assert recalls[0] < recalls[1] < recalls[2]


@pytest.mark.parametrize("name", list(MODELS))
def test_equal_classes_are_weighted_alike(name: str) -> None:
    """Only classes with less than a third of a fair share are rare."""
    X, y = blobs(300)
    plain = taught(make(name, class_weight=None), X, y)
    assert taught(make(name), X, y).prototypes() == plain.prototypes()


@pytest.mark.parametrize("name", ["GRLVQ", "LGRLVQ"])
def test_few_samples_do_not_turn_relevances(name: str) -> None:
    """Two or three samples of a class weighed 50 times as much as others."""
    X, y = blobs(300)
    strange = X[:3] + 3.0 * X.std(axis=0)
    auto, plain = (make(name, rehearsal=0, class_weight=how) for how in ("auto", None))
    for model in taught(auto, X, y), taught(plain, X, y):
        model.learn_one(readings(strange)[0], 3)
    for k, count in (1, 1.0), (2, 2.0):
        auto.learn_one(readings(strange)[k], 3)
        plain.learn_one(readings(strange)[k], 3, w=1.0 + 0.1 * count)
    assert auto.relevances() == pytest.approx(plain.relevances(), abs=1e-12)
    for one, other in zip(auto.prototypes(), plain.prototypes(), strict=True):
        assert one.values == pytest.approx(other.values)


@pytest.mark.parametrize("name", EVERY)
def test_arrays_and_single_readings_weigh_the_same(name: str) -> None:
    X, y = blobs(200)
    w = np.random.default_rng(0).uniform(0.2, 3.0, len(X))
    one_by_one, at_once = make(name), make(name)
    for x, label, weight in zip(readings(X), y.tolist(), w.tolist(), strict=True):
        one_by_one.learn_one(x, label, weight)
    at_once.learn_array(X, y, features=list(readings(X[:1])[0]), w=w)
    test = readings(X[:20])
    assert [one_by_one.predict_proba_one(x) for x in test] == [
        at_once.predict_proba_one(x) for x in test
    ]


@pytest.mark.parametrize("name", EVERY)
def test_weight_zero_learns_nothing(name: str) -> None:
    X, y = blobs(60)
    model = taught(make(name), X, y.tolist())
    before = [model.predict_proba_one(x) for x in readings(X)]
    model.learn_one(readings(X)[0], "never seen", 0.0)
    model.learn_one(readings(X)[0], 1, w=0)
    assert [model.predict_proba_one(x) for x in readings(X)] == before
    assert "never seen" not in model.classes


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("w", [-1.0, float("nan"), float("inf"), 1e7, "2", True])
def test_bad_weights_change_nothing(name: str, w: Any) -> None:
    X, y = blobs(60)
    model = taught(make(name), X, y.tolist())
    before = [model.predict_proba_one(x) for x in readings(X)]
    if w is not True:  # as good as 1 for Python
        with pytest.raises(ValueError, match="expected a weight w from 0 to"):
            model.learn_one(readings(X)[0], 0, w)
    if isinstance(w, float):
        with pytest.raises(ValueError, match="expected weights w above 0"):
            model.learn_array(X, y, features=list(readings(X[:1])[0]), w=[w] * len(X))
    assert [model.predict_proba_one(x) for x in readings(X)] == before


def test_a_weight_is_forgotten_after_an_error() -> None:
    X, y = blobs(60)
    model = taught(streamlvq.GLVQ(), X, y.tolist())
    with pytest.raises(ValueError, match="expected a label"):
        model.learn_one(readings(X)[0], None, 3.0)
    with pytest.raises(ValueError, match="f00"):
        model.learn_one({**readings(X)[0], "f00": float("inf")}, 0, 3.0)
    other = taught(streamlvq.GLVQ(), X, y.tolist())
    for each in (model, other):
        each.learn_one(readings(X)[1], 0)
    assert knowledge(model) == knowledge(other)


@pytest.mark.parametrize("wrong", ["fair", 3, {"a": -1.0}, {"a": "much"}, ["a"]])
def test_bad_class_weights_are_refused(wrong: Any) -> None:
    with pytest.raises(ParameterError, match="class_weight"):
        streamlvq.GLVQ(class_weight=wrong)


@pytest.mark.parametrize("name", list(MODELS))
def test_class_weights_survive_a_snapshot(name: str) -> None:
    X, y = blobs(200)
    model = make(name, class_weight={0: 3.0, 2: 0.5})
    half = taught(model, X[:100], y[:100].tolist())
    restored = Snapshot.from_bytes(Snapshot.of(half).to_bytes()).classifier()
    for each in (half, restored):
        taught(each, X[100:], y[100:].tolist())
    assert knowledge(half) == knowledge(restored)


def test_river_passes_weights_through_a_pipeline() -> None:
    from river import preprocessing

    plain, weighted = (preprocessing.StandardScaler() | streamlvq.GLVQ() for _ in range(2))
    for k, (x, y) in enumerate(datasets.ImageSegments().take(200)):
        plain.learn_one(x, y)
        weighted.learn_one(x, y, w=0.1 + k % 3)
    x = next(iter(datasets.ImageSegments()))[0]
    assert plain.predict_proba_one(x) != weighted.predict_proba_one(x)
