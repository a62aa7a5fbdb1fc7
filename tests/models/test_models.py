"""What every model promises through River's interface and its own."""

from __future__ import annotations

import inspect
import itertools
import math
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from river import checks, metrics, preprocessing

import streamlvq
from support.samples import (
    GROWING,
    GROWTH,
    MODELS,
    blobs,
    build,
    frozen,
    image_segments,
    knowledge,
    readings,
    taught,
)

Act = Callable[[Any, dict[str, Any]], Any]

# Models whose memory is laid out differently, for tests of what is the same code in all of them.
LAYOUTS = ["GLVQ", "LGMLVQ", "PairwiseLVQ"]


def river_checks() -> list[Any]:
    """Every check of River for every model, alone and behind a scaler."""
    cases = []
    for name, scaled in itertools.product(MODELS, (False, True)):
        model = MODELS[name]()
        estimator = preprocessing.StandardScaler() | model if scaled else model
        for k, check in enumerate(checks.yield_checks(estimator)):
            # A scaler sees a whole batch before it scales the first of its rows, so that no learner
            # behind it can be the same in batches and one by one.
            skips = {"check_learn_many_matches_learn_one"} if scaled else set()
            if check.__name__ not in skips | set(estimator._unit_test_skips()):
                prefix = "scaled-" if scaled else ""
                cases.append(
                    pytest.param(estimator, check, id=f"{prefix}{name}-{k}-{check.__name__}")
                )
    return cases


@pytest.mark.parametrize("estimator, check", river_checks())
def test_river_check(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator.clone())


# --- learning ------------------------------------------------------------------------------------


def test_defaults_learn_image_segments(name: str) -> None:
    model, accuracy, loss = MODELS[name](), metrics.Accuracy(), metrics.LogLoss()
    for x, y in image_segments():
        p = model.predict_proba_one(x)
        if y in p:
            loss.update(True, p[y])
        accuracy.update(y, model.predict_one(x))
        model.learn_one(x, y)
    assert accuracy.get() > 0.82
    assert loss.get() < 0.75


def test_classes_may_appear_at_any_time(name: str) -> None:
    model = MODELS[name]()
    X, y = blobs(200, 4, 2, seed=1)
    taught(model, X, y.tolist())
    for k in range(30):
        model.learn_one(dict.fromkeys(readings(X)[0], 100.0 + k % 3), "late")
    assert model.classes == (0, 1, "late")
    assert model.predict_one(dict.fromkeys(readings(X)[0], 101.0)) == "late"


def test_many_classes(name: str) -> None:
    """Memory grows with the classes, past every size it starts with."""
    model = MODELS[name](rehearsal=0)
    for c in range(40):
        model.learn_one({"a": float(c), "b": float(c * c)}, c)
    p = model.predict_proba_one({"a": 7.0, "b": 49.0})
    assert list(p) == list(range(40))
    assert model.predict_one({"a": 7.0, "b": 49.0}) == 7


def test_binary(name: str) -> None:
    model = MODELS[name]()
    X, y = blobs(300, 3, 2, seed=2)
    taught(model, X, [bool(c) for c in y])
    hits = [model.predict_one(x) == bool(c) for x, c in zip(readings(X), y, strict=True)]
    assert np.mean(hits) > 0.85
    assert set(model.predict_proba_one(readings(X)[0])) == {False, True}


def test_one_feature(name: str) -> None:
    model = MODELS[name]()
    for k in range(100):
        model.learn_one({"only": k % 2 * 10.0 + k % 7 * 0.1}, k % 2)
    assert model.predict_one({"only": 0.2}) == 0
    assert model.predict_one({"only": 10.2}) == 1


def test_one_class(name: str) -> None:
    model = MODELS[name]()
    for k in range(20):
        model.learn_one({"a": float(k)}, "only")
    assert model.predict_proba_one({"a": 3.0}) == {"only": 1.0}


def test_identical_readings_of_two_classes(name: str) -> None:
    model = MODELS[name]()
    for k in range(60):
        model.learn_one({"a": 1.0, "b": 2.0}, k % 2)
    p = model.predict_proba_one({"a": 1.0, "b": 2.0})
    assert sum(p.values()) == pytest.approx(1.0)


@pytest.mark.parametrize("name", GROWING)
def test_prototypes_are_capped(name: str) -> None:
    X, y = blobs(300, 3, 2, seed=3)
    model = taught(MODELS[name](max_prototypes_per_class=3), X, y.tolist())
    labels = [p.label for p in model.prototypes()]
    assert max(labels.count(0), labels.count(1)) <= 3


@pytest.mark.parametrize("name", GROWING)
def test_prototypes_per_class_are_born_first(name: str) -> None:
    model = MODELS[name](prototypes_per_class=3, max_prototypes_per_class=1)
    X, y = blobs(100, 3, 2, seed=4)
    taught(model, X, y.tolist())
    assert sorted(p.label for p in model.prototypes()) == [0, 0, 0, 1, 1, 1]


def test_half_life_follows_a_swap_of_the_classes(name: str) -> None:
    X, y = blobs(400, 3, 2, seed=5)
    drifting = build(name, half_life=40.0, max_prototypes_per_class=3)
    taught(drifting, X, y.tolist())
    taught(drifting, X, (1 - y).tolist())
    hits = [drifting.predict_one(x) == 1 - c for x, c in zip(readings(X), y, strict=True)]
    assert np.mean(hits) > 0.6


def test_probabilities_beat_a_softmax_of_distances(name: str) -> None:
    """Log loss of p ~ d**-temperature against that of p ~ exp(-d), on samples not learnt yet."""
    model = MODELS[name]()
    ours, softmax = [], []
    for k, (x, y) in enumerate(image_segments()):
        if k >= 300:
            p = model.predict_proba_one(x)
            ours.append(-math.log(max(p[y], 1e-15)))
            row = np.array([x[f] for f in model.features])
            best = dict.fromkeys(model.classes, math.inf)
            for proto in model.prototypes():
                z = row - np.array([proto.values[f] for f in model.features])
                best[proto.label] = min(best[proto.label], float(z @ model.metric(proto.index) @ z))
            e = np.exp([-d for d in best.values()])
            softmax.append(-math.log(dict(zip(best, e / e.sum(), strict=True))[y]))
            if k == 600:
                break
        model.learn_one(x, y)
    assert np.mean(ours) < 0.9 * np.mean(softmax)


@pytest.mark.parametrize("name", ["LGMLVQ", "LGRLVQ", "LMRSLVQ"])
def test_local_metrics_belong_to_prototypes_not_to_classes(name: str) -> None:
    """One class in two places, with another feature deciding in each."""
    random = np.random.default_rng(6)
    model = MODELS[name](
        prototypes_per_class=2, max_prototypes_per_class=2, standardize=False, rehearsal=0
    )
    hits = []
    for _ in range(3000):
        place, c = random.integers(2), random.integers(2)
        x = {"place": 20.0 * place, "a": random.normal() * 0.5, "b": random.normal() * 0.5}
        x["a" if place else "b"] += 2.0 * c
        hits.append(model.predict_one(x) == c)
        model.learn_one(x, int(c))
    assert np.mean(hits[-500:]) > 0.8
    matrices = [model.metric(p.index) for p in model.prototypes() if p.label == 0]
    assert len(matrices) == 2
    assert not np.allclose(matrices[0], matrices[1], atol=0.01)


# --- labels --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "labels",
    [("up", "down"), (3, 7), (True, False), (1.5, 2.5), ((0, 1), (1, 0)), ("a", 1)],
    ids=str,
)
def test_labels_come_back_as_they_went_in(labels: tuple[Any, Any]) -> None:
    X, y = blobs(100, 3, 2, seed=7)
    model = taught(streamlvq.GLVQ(), X, [labels[c] for c in y])
    assert set(model.classes) == set(labels)
    assert type(model.predict_one(readings(X)[0])) in {type(label) for label in labels}
    many = model.predict_many(pd.DataFrame(readings(X)))
    assert many.tolist() == [model.predict_one(x) for x in readings(X)]


@pytest.mark.parametrize("bad", [None, math.nan, np.float64("nan"), pd.NaT], ids=str)
@pytest.mark.parametrize("name", LAYOUTS)
def test_missing_labels_are_refused(name: str, bad: Any) -> None:
    X, y = blobs(30, 3, 2, seed=8)
    model = taught(MODELS[name](), X, y.tolist())
    before = frozen(model)
    with pytest.raises(ValueError, match=r"expected a label, got .*observe_one"):
        model.learn_one(readings(X)[0], bad)
    with pytest.raises(ValueError, match="expected a label"):
        model.learn_array(X, [0] * 29 + [bad])
    assert frozen(model) == before


@pytest.mark.parametrize("method", ["learn_array", "train"])
def test_missing_labels_leave_a_new_model_new(method: str) -> None:
    model = streamlvq.GLVQ()
    before = frozen(model)
    with pytest.raises(ValueError, match="expected a label"):
        getattr(model, method)(np.zeros((3, 2)), [0, 1, None])
    assert frozen(model) == before


@pytest.mark.parametrize("value", [math.inf, "text", object()], ids=["infinite", "text", "object"])
def test_label_of_a_refused_reading_is_not_registered(value: Any) -> None:
    model = streamlvq.GLVQ()
    model.learn_one({"a": 1.0}, "known")
    before = frozen(model)
    with pytest.raises(ValueError, match="'a'"):
        model.learn_one({"a": value}, "new")
    assert model.classes == ("known",)
    assert frozen(model) == before


# --- infinities and strings ----------------------------------------------------------------------

ONE_BY_ONE: dict[str, Act] = {
    "learn_one": lambda m, x: m.learn_one(x, 0),
    "learn_one-new-class": lambda m, x: m.learn_one(x, "new"),
    "observe_one": lambda m, x: m.observe_one(x),
    "predict_one": lambda m, x: m.predict_one(x),
    "predict_proba_one": lambda m, x: m.predict_proba_one(x),
    "explain_one": lambda m, x: m.explain_one(x),
}
BATCHES: dict[str, Act] = {
    "learn_array": lambda m, x: m.learn_array([list(x.values())] * 2, [0, 0], list(x)),
    "learn_many": lambda m, x: m.learn_many(pd.DataFrame([x, x]), pd.Series([0, 0])),
    "train": lambda m, x: m.train([x, x], [0, 0]),
    "predict_proba_array": lambda m, x: m.predict_proba_array([list(x.values())], list(x)),
    "predict_proba_many": lambda m, x: m.predict_proba_many(pd.DataFrame([x])),
}
ACTS = ONE_BY_ONE | BATCHES


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize(
    "value", [math.inf, -math.inf, np.float32("inf")], ids=["inf", "-inf", "float32"]
)
@pytest.mark.parametrize("name", LAYOUTS)
def test_infinities_are_refused_and_change_nothing(name: str, act: str, value: float) -> None:
    X, y = blobs(60, 3, 2, seed=9)
    model = taught(MODELS[name](), X, y.tolist())
    before = frozen(model)
    with pytest.raises(ValueError, match=r"feature 'f01'.*expected a finite .*, got -?inf"):
        ACTS[act](model, {"f00": 1.0, "f01": value, "f02": 1.0})
    assert frozen(model) == before


@pytest.mark.parametrize(
    "act", ["learn_one", "learn_one-new-class", "observe_one", "learn_array", "train"]
)
@pytest.mark.parametrize("name", LAYOUTS)
def test_infinities_in_a_new_feature_change_nothing(name: str, act: str) -> None:
    X, y = blobs(60, 3, 2, seed=9)
    model = taught(MODELS[name](), X, y.tolist())
    before = frozen(model)
    with pytest.raises(ValueError, match=r"feature 'new'.*expected a finite number"):
        ACTS[act](model, {"f00": 1.0, "new": np.float32("inf")})
    assert frozen(model) == before


@pytest.mark.parametrize("name", LAYOUTS)
def test_infinity_with_one_class_too_many_changes_nothing(name: str) -> None:
    model = MODELS[name]()
    for c in range(4):
        model.learn_one({"a": float(c)}, c)
    before = frozen(model)
    with pytest.raises(ValueError, match="'a'"):
        model.learn_one({"a": math.inf}, "fifth")
    assert frozen(model) == before


@pytest.mark.parametrize("ask", ["predict_one", "predict_proba_one", "explain_one"])
@pytest.mark.parametrize("x", [[1.0, 2.0], np.zeros(2), (1.0,), 3.0, None, "ab"], ids=repr)
def test_only_dictionaries_are_readings(name: str, ask: str, x: Any) -> None:
    model = build(name)
    model.learn_one({"a": 1.0, "b": 2.0}, "one")
    model.learn_one({"a": 2.0, "b": 1.0}, "two")
    before = knowledge(model)
    with pytest.raises(TypeError, match="expected a dictionary of features, got"):
        getattr(model, ask)(x)
    with pytest.raises(TypeError):
        model.learn_one(x, "one")
    with pytest.raises(TypeError, match="expected a hashable label"):
        model.learn_one("one", {"a": 1.0})
    assert knowledge(model) == before


@pytest.mark.parametrize("act", ONE_BY_ONE)
@pytest.mark.parametrize("value", ["1.5", b"1", [1.0, 2.0], {}], ids=str)
@pytest.mark.parametrize("name", LAYOUTS)
def test_values_that_are_no_numbers_are_refused(name: str, act: str, value: Any) -> None:
    X, y = blobs(60, 3, 2, seed=10)
    model = taught(MODELS[name](), X, y.tolist())
    before = frozen(model)
    with pytest.raises(ValueError, match="feature 'f01': expected a number, got"):
        ACTS[act](model, {"f00": 1.0, "f01": value, "f02": 1.0})
    assert frozen(model) == before


def test_strings_in_a_new_feature_change_nothing() -> None:
    model = streamlvq.GLVQ()
    before = frozen(model)
    with pytest.raises(ValueError, match="feature 'b': expected a number, got 'text'"):
        model.learn_one({"a": 1.0, "b": "text"}, "y")
    assert frozen(model) == before


@pytest.mark.parametrize("act", ["learn_array", "learn_many", "train"])
def test_batches_refuse_text(act: str) -> None:
    with pytest.raises(ValueError, match="text"):
        ACTS[act](streamlvq.GLVQ(), {"a": 1.0, "b": "text"})


@pytest.mark.parametrize("value", [1, True, np.float32(1), np.int64(1), np.bool_(True)], ids=repr)
def test_all_kinds_of_numbers_are_taken(value: Any) -> None:
    X, y = blobs(60, 3, 2, seed=10)
    model = taught(streamlvq.GLVQ(), X, y.tolist())
    rest = {"f01": 0.0, "f02": 0.0}
    assert model.predict_proba_one({"f00": value, **rest}) == model.predict_proba_one(
        {"f00": 1.0, **rest}
    )


@pytest.mark.parametrize("value", [1e30, -1e59])
def test_large_readings_have_probabilities(name: str, value: float) -> None:
    X, y = blobs(60, 3, 2, seed=10)
    model = taught(MODELS[name](), X, y.tolist())
    p = model.predict_proba_one({"f00": value, "f01": 0.0, "f02": 0.0})
    assert sum(p.values()) == pytest.approx(1.0)
    model.learn_one({"f00": value, "f01": 0.0, "f02": 0.0}, 0)
    assert np.isfinite([list(w.values.values()) for w in model.prototypes()]).all()


@pytest.mark.parametrize("value", [1e61, -1e160, 1e308])
def test_absurd_readings_are_refused_like_infinities(name: str, value: float) -> None:
    """Their squares would overflow and take the scales with them."""
    X, y = blobs(60, 3, 2, seed=10)
    model = taught(MODELS[name](), X, y.tolist())
    before = frozen(model)
    bad = {"f00": value, "f01": 0.0, "f02": 0.0}
    for act in (model.predict_proba_one, model.observe_one, lambda x: model.learn_one(x, 0)):
        with pytest.raises(ValueError, match="'f00': expected a finite number"):
            act(bad)
    with pytest.raises(ValueError, match="expected a finite number"):
        model.learn_array(np.array([[value, 0.0, 0.0]]), [0])
    assert frozen(model) == before


# --- prediction and observation change what they should -------------------------------------------


def test_prediction_changes_nothing(name: str) -> None:
    X, y = blobs(100, 3, 2, seed=11, missing=0.1)
    model = taught(MODELS[name](), X, y.tolist())
    before = frozen(model)
    for x in readings(X[:20]):
        for changed in (x, {**x, "new": 1.0}, {"f00": 1.0}, {}):
            model.predict_one(changed)
            model.predict_proba_one(changed)
            model.explain_one(changed)
    model.predict_proba_array(X)
    model.predict_many(pd.DataFrame(readings(X)))
    model.prototypes(), model.relevances(), model.metric()
    assert frozen(model) == before


def test_prediction_of_a_new_model_changes_nothing(name: str) -> None:
    model = MODELS[name]()
    before = frozen(model)
    assert model.predict_one({"a": 1.0}) is None
    assert model.predict_proba_one({"a": 1.0}) == {}
    assert model.predict_proba_array(np.zeros((2, 1))).shape == (2, 0)
    assert model.predict_array(np.zeros((2, 1))).tolist() == [None, None]
    assert frozen(model) == before


def test_observing_teaches_scales_only(name: str) -> None:
    X, y = blobs(100, 3, 2, seed=12)
    model = taught(MODELS[name](), X, y.tolist())
    before = {
        key: model._engine.state[key].copy() for key in ("w", "omega", "class_count", "calibration")
    }
    prototypes = model.prototypes()
    for x in readings(X * 3 + 1):
        model.observe_one(x)
    for key, value in before.items():
        np.testing.assert_array_equal(model._engine.state[key], value)
    assert model.prototypes() == prototypes
    both = np.concatenate([X, X * 3 + 1])
    np.testing.assert_allclose(model._engine.state["mean"], both.mean(axis=0))
    np.testing.assert_allclose(model._engine.state["variance"], both.var(axis=0))


def test_observing_first_gives_the_first_samples_a_scale() -> None:
    X, _ = blobs(100, 3, 2, seed=12)
    model = streamlvq.GLVQ()
    for x in readings(X):
        model.observe_one(x)
    assert model.predict_one(readings(X)[0]) is None
    assert model.prototypes() == []
    model.learn_one(readings(X)[0], "a")
    model.learn_one(readings(X)[1], "b")
    assert model.predict_one(readings(X)[1]) == "b"


# --- features come and go -------------------------------------------------------------------------


def test_absent_none_and_nan_are_the_same(name: str) -> None:
    X, y = blobs(120, 4, 3, seed=13, missing=0.3)
    X[0] = 1.0  # so that the first reading has all the features
    models = [MODELS[name]() for _ in range(3)]
    for x, c in zip(readings(X), y.tolist(), strict=True):
        as_none = {f: None if math.isnan(v) else v for f, v in x.items()}
        absent = {f: v for f, v in x.items() if not math.isnan(v)}
        views = (x, as_none, absent)
        answers = [m.predict_proba_one(v) for m, v in zip(models, views, strict=True)]
        assert answers[0] == answers[1] == answers[2]
        for model, view in zip(models, views, strict=True):
            model.learn_one(view, c)
    assert knowledge(models[0]) == knowledge(models[1]) == knowledge(models[2])


def test_features_appear(name: str) -> None:
    """A feature that appears late and decides everything is learnt."""
    random = np.random.default_rng(14)
    model = MODELS[name]()
    for _ in range(100):
        model.learn_one({"noise": random.normal()}, int(random.integers(2)))
    for _ in range(400):
        c = int(random.integers(2))
        model.learn_one({"noise": random.normal(), "new": 5.0 * c + random.normal()}, c)
    assert model.features == ("noise", "new")
    hits = [
        model.predict_one({"noise": random.normal(), "new": 5.0 * (k % 2)}) == k % 2
        for k in range(100)
    ]
    assert np.mean(hits) > 0.85


def test_unknown_features_are_ignored_in_predictions(name: str) -> None:
    X, y = blobs(60, 3, 2, seed=15)
    model = taught(MODELS[name](), X, y.tolist())
    x = readings(X)[5]
    assert model.predict_proba_one({**x, "other": 9.0}) == model.predict_proba_one(x)


def test_nothing_known_means_no_preference_but_probabilities(name: str) -> None:
    X, y = blobs(60, 3, 2, seed=15)
    model = taught(MODELS[name](), X, y.tolist())
    assert sum(model.predict_proba_one({}).values()) == pytest.approx(1.0)


def test_readings_without_features(name: str) -> None:
    model = MODELS[name]()
    for label in "aba":
        model.learn_one({}, label)
    assert sum(model.predict_proba_one({}).values()) == pytest.approx(1.0)
    model.learn_one({"late": 1.0}, "a")
    assert model.features == ("late",)


# --- parameters -----------------------------------------------------------------------------------


def refusal(name: str, parameter: str) -> str:
    return re.escape(f"{name}({parameter}=...): expected")


@pytest.mark.parametrize(
    "parameter, value",
    [
        ("prototypes_per_class", 0),
        ("prototypes_per_class", 1.5),
        ("max_prototypes_per_class", 0),
        ("learning_rate", -0.1),
        ("learning_rate", math.nan),
        ("learning_rate", "fast"),
        ("learning_rate", None),
        ("learning_rate", True),
        ("scale_floor", -0.1),
        ("scale_floor", 1.1),
        ("rehearsal", -1),
        ("rehearsal", 2.0),
        ("buffer_size", 0),
        ("half_life", 0.5),
        ("half_life", "week"),
    ],
)
def test_bad_parameters_are_refused(name: str, parameter: str, value: Any) -> None:
    if parameter in GROWTH and name not in GROWING:
        pytest.skip("has no such parameter")
    with pytest.raises(
        ValueError, match=refusal(name, parameter) + f".*got {re.escape(repr(value))}"
    ):
        MODELS[name](**{parameter: value})


@pytest.mark.parametrize(
    "model, parameter, value",
    [
        ("GLVQ", "step", "adam"),
        ("GLVQ", "step_decay", 1.5),
        ("GLVQ", "activation", "relu"),
        ("GLVQ", "slope", 0),
        ("GRLVQ", "metric_learning_rate", -1),
        ("GMLVQ", "rank", 0),
        ("LGMLVQ", "rank", 2.5),
        ("RSLVQ", "sigma", 0.0),
        ("LVQ21", "window", 1.5),
        ("LVQ3", "epsilon", -0.1),
        ("PairwiseLVQ", "coupling", "HT"),
        ("PairwiseLVQ", "coupling", None),
    ],
)
def test_bad_parameters_of_some_models_are_refused(model: str, parameter: str, value: Any) -> None:
    with pytest.raises(ValueError, match=refusal(model, parameter)):
        MODELS[model](**{parameter: value})


def test_infinite_learning_rate_is_refused() -> None:
    with pytest.raises(ValueError, match="learning_rate"):
        streamlvq.GLVQ(learning_rate=math.inf)


@pytest.mark.parametrize(
    "parameter, value", [("seed", "abc"), ("seed", 1.5), ("seed", -1), ("standardize", "no")]
)
def test_bad_seed_and_standardize_are_refused(parameter: str, value: Any) -> None:
    with pytest.raises(ValueError, match=parameter):
        streamlvq.GMLVQ(**{parameter: value})


@pytest.mark.parametrize(
    "rate",
    [
        0.9,
        1.0,
        1.5,
    ],
)
def test_olvq1_refuses_a_rate_or_keeps_to_it(rate: float) -> None:
    try:
        model = streamlvq.OLVQ1(learning_rate=rate, max_prototypes_per_class=1, rehearsal=0)
    except ValueError:
        return
    for value, label in [(0.0, "a"), (1.0, "b"), (0.9, "a")]:
        model.learn_one({"x": value}, label)
    rates = model._engine.state["rate"][:2]
    assert np.all((rates >= 0) & (rates <= rate))


def test_parameters_are_keyword_only_and_unknown_ones_refused(name: str) -> None:
    with pytest.raises(TypeError):
        MODELS[name](1)
    with pytest.raises(TypeError):
        MODELS[name](no_such_parameter=1)


def test_every_parameter_is_documented(name: str) -> None:
    doc = inspect.getdoc(MODELS[name])
    assert doc is not None
    assert "{" not in doc.partition("Examples")[0]
    for parameter in inspect.signature(MODELS[name]).parameters:
        description = re.search(rf"^{parameter}\n +(\S.*)$", doc, re.MULTILINE)
        assert description is not None, f"{name} does not document {parameter}"
        assert len(description.group(1)) > 15


MUTATIONS = {
    "learning_rate": 0.2, "max_prototypes_per_class": 1, "rehearsal": 1, "half_life": 20.0,
    "step_decay": 0.5, "metric_learning_rate": 0.5, "slope": 9.0, "sigma": 1.0, "window": 0.9,
    "epsilon": 0.9, "coupling": "wlw2",
}  # fmt: skip


# Without these the parameter has nothing to act on.
NEEDED: dict[str, dict[str, Any]] = {
    "slope": {"activation": "sigmoid"},
    "epsilon": {"prototypes_per_class": 2},
}


@pytest.mark.parametrize("how", ["mutate", "assignment"])
def test_mutable_parameters_take_effect(name: str, how: str) -> None:
    """A model changed in mid-stream goes another way than one that was not."""
    X, y = blobs(120, 4, 3, seed=16)
    for parameter in MODELS[name]()._mutable_attributes:
        start = NEEDED.get(parameter, {})
        same, changed = MODELS[name](**start), MODELS[name](**start)
        taught(same, X[:60], y[:60].tolist())
        taught(changed, X[:60], y[:60].tolist())
        if how == "mutate":
            changed.mutate({parameter: MUTATIONS[parameter]})
        else:
            setattr(changed, parameter, MUTATIONS[parameter])
        assert getattr(changed, parameter) == MUTATIONS[parameter]
        taught(same, X[60:], y[60:].tolist())
        taught(changed, X[60:], y[60:].tolist())
        # How pairs are coupled decides what is said of a reading, not what is learnt from it.
        section = "calibration" if parameter == "coupling" else "w"
        learnt = [m._engine.state[section][:3].tolist() for m in (same, changed)]
        assert learnt[0] != learnt[1], parameter


def test_bad_mutations_change_nothing(name: str) -> None:
    X, y = blobs(60, 3, 2, seed=17)
    model = taught(MODELS[name](), X, y.tolist())
    before = frozen(model)
    for parameter in model._mutable_attributes:
        with pytest.raises(ValueError, match=refusal(name, parameter)):
            setattr(model, parameter, -1)
        with pytest.raises(ValueError, match=refusal(name, parameter)):
            model.mutate({parameter: -1})
    assert frozen(model) == before


def test_bad_mutations_are_refused_before_learning() -> None:
    model = streamlvq.GLVQ()
    with pytest.raises(ValueError, match="learning_rate"):
        model.learning_rate = -1


def test_rehearsal_can_be_switched_on_later() -> None:
    X, y = blobs(120, 3, 2, seed=18)
    same, changed = streamlvq.GLVQ(rehearsal=0), streamlvq.GLVQ(rehearsal=0)
    taught(same, X, y.tolist())
    taught(changed, X, y.tolist())
    changed.mutate({"rehearsal": 5})
    taught(same, X, y.tolist())
    taught(changed, X, y.tolist())
    assert same.prototypes() != changed.prototypes()


def test_other_parameters_cannot_be_mutated() -> None:
    with pytest.raises(ValueError, match="activation"):
        streamlvq.GLVQ().mutate({"activation": "sigmoid"})


# --- randomness and memory ------------------------------------------------------------------------


def test_seeds_are_reproducible(name: str) -> None:
    X, y = blobs(120, 4, 3, seed=19)
    a, b, c = (taught(MODELS[name](seed=s), X, y.tolist()) for s in (5, 5, 6))
    assert knowledge(a) == knowledge(b)
    assert a._engine.state["w"].tobytes() != c._engine.state["w"].tobytes()


def test_no_seed_differs_between_runs(name: str) -> None:
    X, y = blobs(120, 4, 3, seed=19)
    runs = {
        taught(MODELS[name](seed=None), X, y.tolist())._engine.state["w"].tobytes()
        for _ in range(3)
    }
    assert len(runs) > 1


def test_low_rank_start_is_a_random_projection() -> None:
    model = streamlvq.GMLVQ(rank=2)
    model.learn_one({"a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0}, 0)
    omega = model._engine.state["omega"][0]
    np.testing.assert_allclose(omega @ omega.T, np.eye(2) / 2, atol=1e-12)


def test_memory_is_flat(name: str) -> None:
    """Once classes, prototypes and the buffer are there, nothing grows."""
    X, y = blobs(400, 4, 3, seed=20)
    model = taught(build(name, buffer_size=50, max_prototypes_per_class=2), X, y.tolist())
    pickled = len(frozen(model))  # before measuring: Python gives a pickled object its __dict__
    before = model._raw_memory_usage
    taught(model, X, y.tolist())
    assert model._raw_memory_usage == before
    assert len(frozen(model)) == pickled


# --- arrays ---------------------------------------------------------------------------------------


def test_read_only_arrays() -> None:
    X, y = blobs(60, 3, 2, seed=21)
    X.setflags(write=False)
    model = streamlvq.GLVQ()
    model.learn_array(X, y)
    assert model.predict_proba_array(X).shape == (60, 2)


@pytest.mark.parametrize("order", ["F", "strided", "float32", "list"])
def test_arrays_of_any_layout(order: str) -> None:
    X, y = blobs(60, 3, 2, seed=21)
    X = X.astype(np.float32).astype(np.float64)
    other: Any = {
        "F": np.asfortranarray(X),
        "strided": np.repeat(X, 2, axis=1)[:, ::2],
        "float32": X.astype(np.float32),
        "list": X.tolist(),
    }[order]
    a, b = streamlvq.GMLVQ(), streamlvq.GMLVQ()
    a.learn_array(X, y)
    b.learn_array(other, y)
    assert knowledge(a) == knowledge(b)
    np.testing.assert_array_equal(a.predict_proba_array(X), b.predict_proba_array(other))


def test_array_errors_say_what_was_expected() -> None:
    X, y = blobs(30, 3, 2, seed=22)
    model = streamlvq.GLVQ()
    with pytest.raises(ValueError, match=r"as many labels as rows \(30\), got 29"):
        model.learn_array(X, y[:29])
    with pytest.raises(ValueError, match="3 feature names, got 2"):
        model.learn_array(X, y, features=["a", "b"])
    with pytest.raises(ValueError, match="two-dimensional"):
        model.learn_array(X[0], y[:3])
    model.learn_array(X, y)
    with pytest.raises(ValueError, match=r"expected 3 columns.*got 2"):
        model.predict_proba_array(X[:, :2])


def test_empty_arrays_teach_nothing() -> None:
    model = streamlvq.GLVQ()
    before = frozen(model)
    model.learn_array(np.empty((0, 3)), [])
    model.learn_many(pd.DataFrame({"a": []}), pd.Series([], dtype=float))
    assert frozen(model) == before


def test_duplicate_feature_names_are_refused() -> None:
    with pytest.raises(ValueError, match="expected distinct feature names"):
        streamlvq.GLVQ().learn_array(np.zeros((2, 3)), [0, 1], features=["a", "a", "b"])


# --- things that once went wrong -----------------------------------------------------------------


def test_labels_in_a_frame_are_refused() -> None:
    """Its length is that of the rows, its items are column names."""
    X, y = blobs(60, 3, 2, seed=30)
    with pytest.raises(ValueError, match="one label for each row"):
        streamlvq.GLVQ().learn_array(X, pd.DataFrame({"label": y}))


def test_interrupted_learning_keeps_what_was_learnt() -> None:
    code = """
import os, signal, threading, numpy as np, streamlvq
model = streamlvq.GLVQ()
random = np.random.default_rng(1)
X, y = random.normal(size=(200_000, 4)), random.choice(["a", "b"], 200_000)
model.learn_array(X[:10], y[:10])
threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    for _ in range(50):
        model.learn_array(X, y)
except KeyboardInterrupt:
    assert sorted(model.classes) == ["a", "b"]
    assert len(model.predict_proba_one({0: 0.0, 1: 0.0, 2: 0.0, 3: 0.0})) == 2
    print("kept")
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.strip() == "kept"


def test_half_life_does_not_replace_the_only_prototype() -> None:
    X, y = blobs(300, 4, 3, seed=31)
    model = streamlvq.GLVQ(max_prototypes_per_class=1, half_life=100)
    model.learn_array(X, y)
    assert {prototype.age for prototype in model.prototypes()} >= {300}


def test_unnamed_columns_are_those_of_the_last_named_array() -> None:
    X, y = blobs(200, 3, 2, seed=32)
    model = streamlvq.GLVQ()
    model.learn_array(X, y, features=["z", "m", "a"])
    named = model.predict_proba_array(X, features=["z", "m", "a"])
    assert np.array_equal(model.predict_proba_array(X), named)
    twin = pickle.loads(pickle.dumps(model))
    assert np.array_equal(twin.predict_proba_array(X), named)


@pytest.mark.parametrize("model", ["GMLVQ", "LGMLVQ", "PairwiseLVQ"])
def test_new_features_leave_what_was_learnt_of_the_old_ones(model: str) -> None:
    """Also when the metric gains rows by it."""
    X, y = blobs(600, 10, 3, seed=33)
    taught_model = MODELS[model](rank=12)
    taught_model.learn_array(X, y)
    before = taught_model.predict_array(X)
    taught_model.observe_one({"new1": 1.0, "new2": 2.0, "new3": 0.5})
    assert np.mean(taught_model.predict_array(X, features=list(range(10))) == before) > 0.99


def test_labels_of_any_shape() -> None:
    X, y = blobs(60, 3, 2, seed=34)
    labels = [("a",), ("b", "c")]
    model = streamlvq.GLVQ()
    model.learn_array(X, [labels[c] for c in y])
    assert set(model.predict_array(X)) <= set(labels)


def test_a_reading_that_is_no_dictionary_is_refused() -> None:
    model = streamlvq.GLVQ()
    for label in "ab":
        with pytest.raises(TypeError, match="expected a dictionary of features, got"):
            model.learn_one([1.0, 2.0], label)  # type: ignore[arg-type]
    assert model.classes == ()


@pytest.mark.parametrize("name", ["GLVQ", "GRLVQ", "GMLVQ", "LGMLVQ", "LGRLVQ", "PairwiseLVQ"])
@pytest.mark.parametrize("step", ["adagrad", "constant", "published"])
def test_a_model_survives_a_spike(name: str, step: str) -> None:
    """Scales are then so wide that all distances are next to nothing."""
    model = build(name, step=step, rehearsal=0)
    samples = [
        ((0.975, 1.0), "r"), ((9e59, -0.258), "q"), ((1.0, 0.0), "p"), ((-0.128, 1.0), "r"),
        ((1.0, 0.0), "r"), ((1.0, 0.0), "r"),
    ]  # fmt: skip
    for (a, b), y in samples:
        model.learn_one({"a": a, "b": b}, y)
    for prototype in model.prototypes():
        assert np.isfinite(list(prototype.values.values())).all()
    assert np.isfinite(model.metric()).all()
