"""What models say about themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import streamlvq
from streamlvq.errors import NotLearntYetError, StreamLVQError
from streamlvq.records import Explanation
from support.samples import GROWING, MODELS, blobs, readings, taught

# The likeliest class need not have the closest prototype where it is the sum of many prototypes,
# or of the opinions of many pairs.
SUMS = [name for name, model in MODELS.items() if not model.decides_by_distance()]


def learnt(name: str, missing: float = 0.0, n: int = 150, **params: Any) -> tuple[Any, Any]:
    X, y = blobs(n, 4, 3, seed=30, missing=missing)
    return taught(MODELS[name](**params), X, [f"class {c}" for c in y]), X


def test_prototypes_are_in_raw_units(name: str) -> None:
    model, X = learnt(name)
    low, high = X.min(axis=0), X.max(axis=0)
    reach = high - low
    for k, p in enumerate(model.prototypes()):
        assert p.index == k
        assert p.label in model.classes
        assert tuple(p.values) == model.features
        values = np.array(list(p.values.values()))
        assert np.all((values > low - reach) & (values < high + reach))


@pytest.mark.parametrize("name", GROWING)  # a pair takes two classes
def test_first_prototype_is_the_first_reading(name: str) -> None:
    model = MODELS[name]()
    model.learn_one({"temperature": 21.5, "humidity": 40.0}, "dry")
    (p,) = model.prototypes()
    assert (p.label, p.values, p.count, p.age) == (
        "dry",
        {"humidity": 40.0, "temperature": 21.5},
        1,
        1,
    )


def test_prototypes_of_a_class_average_its_readings() -> None:
    """LVQ1 with one prototype and one far-off rival is a running average."""
    random = np.random.default_rng(31)
    model = streamlvq.LVQ1(max_prototypes_per_class=1, rehearsal=0)
    for k in range(600):
        model.learn_one({"volts": 230 * (k % 2) + random.normal()}, k % 2)
    off, on = model.prototypes()
    assert off.values["volts"] == pytest.approx(0, abs=1)
    assert on.values["volts"] == pytest.approx(230, abs=1)
    assert off.count + on.count > 590
    assert (off.age, on.age) == (600, 599)


def test_relevances_add_up_to_one(name: str) -> None:
    model, _ = learnt(name)
    for label in (None, *model.classes):
        for raw in (False, True):
            relevances = model.relevances(label, raw=raw)
            assert tuple(relevances) == model.features
            assert sum(relevances.values()) == pytest.approx(1.0)
            assert min(relevances.values()) >= 0


@pytest.mark.parametrize(
    "name", ["GRLVQ", "LGRLVQ", "GMLVQ", "LGMLVQ", "MRSLVQ", "LMRSLVQ", "PairwiseLVQ"]
)
def test_relevances_find_the_feature_that_matters(name: str) -> None:
    random = np.random.default_rng(32)
    model = MODELS[name]()
    for k in range(500):
        noise = {f"noise {i}": random.normal() for i in range(4)}
        model.learn_one({"signal": 3.0 * (k % 2) + random.normal() * 0.5, **noise}, k % 2)
    relevances = model.relevances()
    assert max(relevances, key=lambda f: relevances[f]) == "signal"
    assert relevances["signal"] > 0.3


@pytest.mark.parametrize("name", ["LVQ1", "OLVQ1", "LVQ21", "LVQ3", "GLVQ", "RSLVQ"])
def test_euclidean_models_weigh_features_alike(name: str) -> None:
    model, _ = learnt(name)
    assert list(model.relevances().values()) == pytest.approx([0.25] * 4)


def test_metric_in_raw_and_in_scaled_units(name: str) -> None:
    model, _ = learnt(name)
    scale = model._engine.state["inverse"]
    for p in model.prototypes():
        scaled, raw = model.metric(p.index, raw=False), model.metric(p.index)
        np.testing.assert_allclose(raw, scaled * np.outer(scale, scale))
        np.testing.assert_allclose(scaled, scaled.T, atol=1e-15)
        assert np.trace(scaled) == pytest.approx(1.0)
    mean = np.mean([model.metric(p.index) for p in model.prototypes()], axis=0)
    np.testing.assert_allclose(model.metric(), mean)


def test_distances_can_be_recomputed_from_prototypes_and_metric(name: str) -> None:
    model, X = learnt(name)
    for row, x in zip(X[:30], readings(X[:30]), strict=True):
        distances = {}
        for p in model.prototypes():
            z = row - np.array(list(p.values.values()))
            distances[p.index] = z @ model.metric(p.index) @ z
        explanation = model.explain_one(x)
        assert explanation.runner_up is not None
        assert explanation.distance == pytest.approx(distances[explanation.winner.index], rel=1e-9)
        runner_up = distances[explanation.runner_up.index]
        assert explanation.runner_up_distance == pytest.approx(runner_up, rel=1e-9)
        if name not in SUMS:
            assert explanation.winner.index == min(distances, key=lambda i: distances[i])


def test_contributions_add_up(name: str) -> None:
    model, X = learnt(name, missing=0.2)
    for x in readings(X[:40]):
        e = model.explain_one(x)
        assert e.label == e.winner.label == model.predict_one(x)
        assert e.runner_up is not None
        assert e.runner_up.label != e.label
        difference = e.runner_up_distance - e.distance
        assert sum(e.features.values()) == pytest.approx(difference, rel=1e-9, abs=1e-12)
        assert set(e.features) == set(model.features)
        strengths = [abs(v) for v in e.features.values()]
        assert strengths == sorted(strengths, reverse=True)
        total = e.runner_up_distance + e.distance
        assert e.relsim == pytest.approx(max(0.0, difference / total))
        if name not in SUMS:
            assert 0 <= e.relsim <= 1


def test_explanation_reads_as_a_sentence() -> None:
    model, X = learnt("GMLVQ")
    text = str(model.explain_one(readings(X)[0]))
    assert "rather than" in text
    assert "f0" in text


def test_questions_with_one_class(name: str) -> None:
    model = MODELS[name]()
    model.learn_one({"a": 1.0, "b": 5.0}, "only")
    model.observe_one({"a": 3.0, "b": 6.0})
    e = model.explain_one({"a": 2.0, "b": 5.0})
    assert (e.label, e.runner_up, e.features) == ("only", None, {})
    assert e.winner.values == {"a": 1.0, "b": 5.0}
    assert e.distance == pytest.approx(0.5)  # by one deviation in one of two features
    assert "only class" in str(e)
    assert model.relevances() == model.relevances("only") == pytest.approx({"a": 0.5, "b": 0.5})
    np.testing.assert_allclose(model.metric(raw=False), np.eye(2) / 2)
    np.testing.assert_allclose(model.metric(), np.diag([1.0, 4.0]) / 2)


def test_explanation_of_a_reading_with_nothing_to_compare(name: str) -> None:
    """Everything is one deviation off; a prototype that has a feature in common may be closer."""
    model = MODELS[name](rehearsal=0)
    for k in range(20):
        model.learn_one({"a": float(k % 2) + k % 3, "b": None}, "left" if k % 2 else "right")
    for missing in ({}, {"b": 1.0}):
        e = model.explain_one(missing)
        assert (e.distance, e.runner_up_distance, e.relsim) == pytest.approx((1.0, 1.0, 0.0))
        assert set(e.features.values()) == {0.0}
    model.learn_one({"a": None, "b": 1.0}, "right")
    model.observe_one({"b": 3.0})
    e = model.explain_one({"b": 1.0})
    assert sorted((e.distance, e.runner_up_distance)) == pytest.approx([0.0, 1.0])
    assert sum(e.features.values()) == pytest.approx(e.runner_up_distance - e.distance)


QUESTIONS: dict[str, Callable[[Any], Any]] = {
    "metric": lambda m: m.metric(),
    "relevances": lambda m: m.relevances(),
    "explain_one": lambda m: m.explain_one({"a": 1.0}),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_questions_before_learning(name: str, question: str) -> None:
    model = MODELS[name]()
    assert model.prototypes() == []
    for _ in range(2):
        with pytest.raises(NotLearntYetError, match="learnt nothing yet"):
            QUESTIONS[question](model)
        model.observe_one({"a": 1.0})


def test_not_learnt_yet_is_both_ours_and_a_value_error() -> None:
    assert issubclass(NotLearntYetError, StreamLVQError)
    assert issubclass(NotLearntYetError, ValueError)


def test_no_such_prototype(name: str) -> None:
    model, _ = learnt(name, n=20)
    count = len(model.prototypes())
    for index in (-1, count):
        with pytest.raises(IndexError, match=f"from 0 to {count - 1}, got {index}"):
            model.metric(index)


def test_no_such_class() -> None:
    model, _ = learnt("GLVQ", n=20)
    with pytest.raises(ValueError, match=r"expected one of the labels .*, got 'unheard of'"):
        model.relevances("unheard of")


def test_records_are_frozen() -> None:
    model, X = learnt("GLVQ", n=30)
    explanation = model.explain_one(readings(X)[0])
    assert isinstance(explanation, Explanation)
    with pytest.raises(AttributeError):
        explanation.label = "other"  # type: ignore[misc]
