"""FeatureTransform: what models see of readings, and what people see of models."""

from __future__ import annotations

import copy
import math
import pickle
import re
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from river import naive_bayes, preprocessing

import streamlvq
from streamlvq import FeatureTransform, ProbabilityRejector, RelSimRejector, TimeIntegrator
from streamlvq.kernels.layout import LARGEST_VALUE
from streamlvq.snapshot import Snapshot, SnapshotError, inspect_text
from streamlvq.wrappers.feature_transform import MONOTONE, Transform
from support.samples import described, frozen, knowledge, rebuilt, river_checks

steady = settings(derandomize=True, max_examples=150, deadline=None, database=None)
Make = Callable[[], Any]

ORACLES: dict[str, Callable[[float], float]] = {
    "log": math.log,
    "log1p": math.log1p,
    "sqrt": math.sqrt,
    "asinh": math.asinh,
}
NAMES = ("f00", "f01", "f02")
OUTSIDE = [
    ("log", 0.0, "a number above 0"),
    ("log", -0.0, "a number above 0"),
    ("log", -3.5, "a number above 0"),
    ("log1p", -1.0, "a number above -1"),
    ("log1p", -7.0, "a number above -1"),
    ("sqrt", -1e-300, "a number of at least 0"),
    *((name, value, "a finite number") for name in ORACLES for value in (math.inf, -math.inf)),
    *((name, 1.1 * LARGEST_VALUE, "a finite number") for name in ORACLES),
    ("asinh", -1.1 * LARGEST_VALUE, "a finite number"),
]


@pytest.fixture(params=ORACLES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def small() -> streamlvq.LGMLVQ:
    return streamlvq.LGMLVQ(rank=3, rehearsal=2, buffer_size=50)


def pipeline() -> Any:
    return preprocessing.StandardScaler() | small()


def chain() -> Any:
    return RelSimRejector(TimeIntegrator(small(), window=3, max_gap=10.0), target_rate=0.1)


def positive(n: int = 90, seed: int = 3, missing: float = 0.0) -> tuple[Any, list[str]]:
    """Readings above 0 of three classes in unlike units."""
    random = np.random.default_rng(seed)
    typical = np.array([[2.0, 300.0, 0.5], [5.0, 200.0, 0.7], [3.0, 900.0, 0.1]])
    y = np.arange(n) % 3
    X = random.lognormal(np.log(typical[y]), 0.15)
    X[random.random(X.shape) < missing] = np.nan
    return X, [f"class {c}" for c in y]


def dictionaries(X: Any) -> list[dict[str, float]]:
    return [dict(zip(NAMES, row, strict=True)) for row in X.tolist()]


def learnt(model: Any, X: Any, y: list[str], **keywords: Any) -> Any:
    for x, label in zip(dictionaries(X), y, strict=True):
        model.learn_one(x, label, **keywords)
    return model


# --- River ---------------------------------------------------------------------------------------

ESTIMATORS: dict[str, Make] = {
    "model": lambda: FeatureTransform(streamlvq.GLVQ(rehearsal=2), "asinh"),
    "some-features": lambda: FeatureTransform(small(), "asinh", ["length_url", "hue-mean"]),
    "chain": lambda: FeatureTransform(
        ProbabilityRejector(TimeIntegrator(small(), window=2), threshold=0.4), "asinh"
    ),
    "behind-scaler": lambda: preprocessing.StandardScaler() | FeatureTransform(small(), "asinh"),
    "around-pipeline": lambda: FeatureTransform(pipeline(), "asinh"),
    "around-river": lambda: FeatureTransform(naive_bayes.GaussianNB(), "asinh"),
    "around-committee": lambda: FeatureTransform(streamlvq.LVQCommittee(), "asinh"),
}


@pytest.mark.parametrize("make, check", river_checks(ESTIMATORS))
def test_river_check(make: Make, check: Callable[[Any], None]) -> None:
    check(make())


# --- the functions -------------------------------------------------------------------------------


def numbers_for(title: str) -> st.SearchStrategy[float]:
    low = MONOTONE[title].low
    return st.floats(low, LARGEST_VALUE, allow_nan=False) | st.floats(max(low, -9.0), 9.0)


@steady
@given(st.sampled_from(list(ORACLES)), st.data())
def test_the_function_is_what_it_is_called(title: str, data: st.DataObject) -> None:
    values = data.draw(st.lists(numbers_for(title), min_size=1, max_size=9))
    seen = Transform(title).rows(np.array([values])).ravel()
    expected = [ORACLES[title](v) for v in values]
    np.testing.assert_allclose(seen, expected, rtol=1e-14, atol=1e-300)


@steady
@given(st.sampled_from(list(ORACLES)), st.data())
def test_it_keeps_the_order_and_can_be_undone(title: str, data: st.DataObject) -> None:
    low, high = sorted([data.draw(numbers_for(title)), data.draw(numbers_for(title))])
    transform = Transform(title)
    seen = transform.rows(np.array([[low, high]]))
    assert seen[0, 0] <= seen[0, 1]
    back = transform.inverse_rows(seen)
    # An error of one bit in a logarithm of 700 is one of 700 bits in the number.
    np.testing.assert_allclose(back, [[low, high]], rtol=1e-12, atol=1e-15 if low < 0 else 1e-305)


@steady
@given(st.sampled_from(list(ORACLES)), st.floats(allow_nan=True))
def test_whatever_a_prototype_says_is_shown_as_a_reading(title: str, value: float) -> None:
    shown = Transform(title).inverse_rows(np.array([[value]]))
    assert np.isnan(shown[0, 0]) == math.isnan(value)
    assert not Transform(title).outside(shown).any()


@steady
@given(
    st.sampled_from(list(ORACLES)),
    st.lists(st.sampled_from([math.nan, -2.0, -1.0, 0.0, 0.5, 3.0, math.inf]), max_size=5),
)
def test_single_readings_are_judged_as_rows_are(title: str, values: list[float]) -> None:
    transform = Transform(title)
    names = [f"f{k}" for k in range(len(values))]
    refused = transform.refusals(np.array([values]).reshape(1, -1), names)
    x = dict(zip(names, values, strict=True))
    if refused:
        with pytest.raises(ValueError, match=re.escape(refused[0])):
            transform.one(x)
    else:
        assert transform.one(x).keys() == x.keys()


@pytest.mark.filterwarnings("error")
def test_nothing_warns(name: str) -> None:
    transform = Transform(name)
    transform.rows(np.array([[np.nan, 1e-300, 1e59], [1.0, 0.5, np.nan]]))
    transform.inverse_rows(np.array([[np.nan, -1e66, 1e66]]))


def test_prototypes_beyond_all_readings_are_shown_at_the_edge() -> None:
    assert Transform("sqrt").inverse_one({"a": -0.5, "b": 3.0}) == {"a": 0.0, "b": 9.0}
    assert Transform("log").inverse_one({"a": 1e5}) == {"a": LARGEST_VALUE}


def test_bits_do_not_depend_on_how_readings_come(name: str) -> None:
    X = np.random.default_rng(2).lognormal(0.0, 3.0, (57, 3))
    X[5, 1] = np.nan
    transform = Transform(name)
    whole = transform.rows(X)
    for size in (1, 2, 5, 16):
        parts = [transform.rows(X[k : k + size]) for k in range(0, len(X), size)]
        assert np.concatenate(parts).tobytes() == whole.tobytes()
    assert transform.rows(np.asfortranarray(X)).tobytes() == whole.tobytes()
    assert transform.rows(X[::-1])[::-1].tobytes() == whole.tobytes()
    ones = [list(transform.one(x).values()) for x in dictionaries(X)]
    assert np.array(ones).tobytes() == whole.tobytes()
    some = Transform(name, ["f02", "f00"]).rows(X, NAMES)
    assert some[:, [0, 2]].tobytes() == whole[:, [0, 2]].tobytes()


def test_arrays_stay_as_they_are(name: str) -> None:
    X, _ = positive(9)
    before = X.copy()
    for transform in (Transform(name), Transform(name, ["f01"])):
        transform.rows(X, NAMES)
        transform.inverse_rows(X, NAMES)
        np.testing.assert_array_equal(X, before)


# --- gain becomes shift --------------------------------------------------------------------------

GAINS = np.array([1.3, 0.25, 8.0])


def differences(wrap: Callable[[Any], Any]) -> Any:
    """How far the class means of two sensors are apart that differ by gain; a row for a class."""
    X, y = positive(300)
    one, other = (
        Snapshot.of(learnt(wrap(streamlvq.GLVQ()), X * gain, y)).means for gain in (1.0, GAINS)
    )
    return np.array([[other[c][f] - one[c][f] for f in NAMES] for c in one])


def test_nodes_that_differ_by_gain_differ_by_a_shift_of_logarithms() -> None:
    shifts = differences(lambda model: FeatureTransform(model, "log"))
    np.testing.assert_allclose(shifts, np.tile(np.log(GAINS), (3, 1)), rtol=0, atol=1e-9)


def test_in_raw_units_no_shift_is_right_for_all_classes() -> None:
    shifts = differences(lambda model: model)
    spread = np.ptp(shifts, axis=0) / np.abs(shifts).mean(axis=0)
    assert (spread > 0.3).all()


def test_a_model_that_is_shifted_by_the_gain_serves_the_other_sensor() -> None:
    """The same probabilities: one model sees what the other does, moved by log(gain)."""
    X, y = positive(300)
    one = learnt(FeatureTransform(streamlvq.GLVQ()), X, y)
    other = learnt(FeatureTransform(streamlvq.GLVQ()), X * GAINS, y)
    for p, q in zip(one.classifier.prototypes(), other.classifier.prototypes(), strict=True):
        moved = [q.values[f] - p.values[f] for f in NAMES]
        np.testing.assert_allclose(moved, np.log(GAINS), rtol=0, atol=1e-6)
    Z, _ = positive(150, seed=11)
    for x, gained in zip(dictionaries(Z), dictionaries(Z * GAINS), strict=True):
        assert other.predict_proba_one(gained) == pytest.approx(one.predict_proba_one(x), abs=1e-6)


# --- the same as inside --------------------------------------------------------------------------


def test_it_learns_what_the_model_would_learn_of_transformed_readings(name: str) -> None:
    X, y = positive(missing=0.1)
    wrapped = learnt(FeatureTransform(small(), name), X, y)
    alone = learnt(small(), Transform(name).rows(X), y)
    assert knowledge(wrapped.classifier) == knowledge(alone)
    x, inside = dictionaries(X)[4], Transform(name).one(dictionaries(X)[4])
    assert wrapped.predict_one(x) == alone.predict_one(inside)
    assert wrapped.predict_proba_one(x) == alone.predict_proba_one(inside)
    assert wrapped.relsim_one(x) == alone.relsim_one(inside)


def test_integrator_and_rejector_answer_through_it() -> None:
    X, y = positive(missing=0.05)
    wrapped, alone = FeatureTransform(chain()), chain()
    for k, (x, label) in enumerate(zip(dictionaries(X), y, strict=True)):
        inside, keywords = wrapped.transform_one(x), {"device": k % 2, "t": float(k)}
        assert wrapped.predict_one(x, **keywords) == alone.predict_one(inside, **keywords)
        assert wrapped.predict_proba_one(x, **keywords) == alone.predict_proba_one(
            inside, **keywords
        )
        assert wrapped.decide_one(x, **keywords) == alone.decide_one(inside, **keywords)
        answer = wrapped.integrated_one(x, **keywords)
        assert answer == alone.classifier.integrated_one(inside, **keywords)
        if k % 4 == 0:
            wrapped.observe_one(x, **keywords)
            alone.observe_one(inside, **keywords)
        elif k % 4 == 1:
            wrapped.observe_one(x, scales=False, **keywords)
            alone.observe_one(inside, scales=False, **keywords)
        else:
            wrapped.learn_one(x, label, **keywords)
            alone.learn_one(inside, label, **keywords)
        assert wrapped.threshold_for(label) == alone.threshold_for(label)
    assert frozen(wrapped.classifier) == frozen(alone)
    assert not wrapped.starts_segment(0, 90.0)
    assert wrapped.starts_segment(0, 900.0)
    wrapped.reset(0)
    assert wrapped.starts_segment(0, 90.0)
    assert wrapped.finish(1) == []


def test_answers_that_a_centred_window_owes() -> None:
    X, y = positive(30)
    wrapped = FeatureTransform(TimeIntegrator(small(), window=5, centered=True))
    learnt(wrapped, X, y, device="a", t=1.0)
    assert [late.delay for late in wrapped.finish("a")] == [1, 0]
    assert wrapped.starts_segment("a", 2.0)


def test_thresholds_record_outcome_labels_through_it() -> None:
    X, y = positive()
    wrapped = FeatureTransform(RelSimRejector(small(), target_accuracy=0.8, memory=20))
    learnt(wrapped, X, y)
    before = frozen(wrapped)
    wrapped.record_outcome("class 0", 0.9, "class 1")
    assert frozen(wrapped) != before


def test_observing_teaches_the_scales_unless_told_otherwise() -> None:
    X, y = positive()
    model = learnt(FeatureTransform(small()), X, y)
    before = frozen(model)
    model.observe_one(dictionaries(X)[0], scales=False)
    assert frozen(model) == before
    model.observe_one(dictionaries(X * 3.0)[0])
    assert frozen(model) != before


def test_pipelines_inside_and_outside() -> None:
    """A scaler inside sees logarithms; one outside sees what the sensors read."""
    X, y = positive()
    inside = learnt(FeatureTransform(pipeline()), X, y)
    alone = learnt(pipeline(), np.log(X), y)
    assert frozen(inside.classifier["LGMLVQ"]) == frozen(alone["LGMLVQ"])
    outside = preprocessing.StandardScaler() | FeatureTransform(small(), "asinh")
    learnt(outside, X, y)
    for x in dictionaries(X[:9]):
        x_inside = inside.transform_one(x)
        assert inside.predict_one(x) == alone.predict_one(x_inside)
        assert inside.relsim_one(x) == alone["LGMLVQ"].relsim_one(alone.transform_one(x_inside))
        assert outside.predict_one(x) is not None


def test_a_rejector_behind_a_scaler_is_found() -> None:
    X, y = positive()
    model = FeatureTransform(
        preprocessing.StandardScaler() | RelSimRejector(small(), threshold=0.1)
    )
    learnt(model, X, y)
    x = dictionaries(X)[0]
    scaled = model.classifier.transform_one(model.transform_one(x))
    assert model.decide_one(x) == model.classifier["RelSimRejector"].decide_one(scaled)
    assert model.threshold_for() == 0.1


def test_it_offers_what_is_inside_and_nothing_else() -> None:
    of_rejectors = {"decide_one", "threshold_for", "record_outcome"}
    of_integrators = {
        *("integrated_one", "starts_segment", "finish", "reset"),
        *("last_evidence", "record_label"),
    }
    of_models = {"relsim_one", "prototypes"}
    of_arrays = {"learn_array", "predict_array", "predict_proba_array", "learn_many", "train"}
    everything = of_rejectors | of_integrators | of_models | of_arrays
    cases: list[tuple[Any, set[str]]] = [
        (small(), of_models | of_arrays),
        (TimeIntegrator(small()), of_models | of_integrators),
        (RelSimRejector(small(), threshold=0.1), of_models | of_rejectors),
        (chain(), of_models | of_integrators | of_rejectors),
        (naive_bayes.GaussianNB(), {"learn_many"}),
    ]
    for classifier, expected in cases:
        model = FeatureTransform(classifier)
        assert {method for method in everything if hasattr(model, method)} == expected
    with pytest.raises(
        AttributeError, match=r"decide_one: expected a wrapped classifier with decide_one, got GLVQ"
    ):
        FeatureTransform(streamlvq.GLVQ()).decide_one({"a": 1.0})
    assert callable(FeatureTransform.decide_one)


# --- arrays --------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", [small, streamlvq.LVQCommittee])
@pytest.mark.parametrize("features", [None, ["f02", "f00"]])
def test_arrays_frames_and_readings_give_the_same(model: Make, features: list[str] | None) -> None:
    X, y = positive(missing=0.1)
    frame = pd.DataFrame(X, columns=list(NAMES))
    models = [FeatureTransform(model(), "log1p", features) for _ in range(4)]
    learnt(models[0], X, y)
    models[1].learn_array(X, y, features=NAMES)
    models[2].learn_many(frame, pd.Series(y))
    models[3].learn_array(dictionaries(X), y)
    for other in models[1:]:
        assert Snapshot.of(other).to_bytes() == Snapshot.of(models[0]).to_bytes()
    p = models[1].predict_proba_array(X, features=NAMES)
    ones = [list(models[0].predict_proba_one(x).values()) for x in dictionaries(X)]
    np.testing.assert_array_equal(p, ones)
    np.testing.assert_array_equal(models[2].predict_proba_many(frame).to_numpy(), ones)
    said = [models[0].predict_one(x) for x in dictionaries(X)]
    assert models[1].predict_array(X, features=NAMES).tolist() == said
    assert models[2].predict_many(frame).tolist() == said


def test_columns_without_names_are_those_of_the_model() -> None:
    X, y = positive()
    numbered = FeatureTransform(small(), features=[1])
    numbered.learn_array(X, y)
    np.testing.assert_allclose(numbered.classifier.prototypes()[0].values[0], X[:, 0].mean(), 1)
    assert numbered.classifier.prototypes()[0].values[1] < 10  # a logarithm of hundreds
    named = FeatureTransform(small(), features=["f01"])
    named.learn_array(X, y, features=NAMES)
    np.testing.assert_array_equal(
        named.predict_proba_array(X), named.predict_proba_array(X, features=NAMES)
    )
    with pytest.raises(ValueError, match="expected the names of the columns because of features"):
        named.transform_rows(X)


def test_epochs_over_transformed_readings() -> None:
    X, y = positive()
    model, alone = FeatureTransform(small()), small()
    model.train(X, y, epochs=3, features=NAMES)
    alone.train(np.log(X), y, epochs=3, features=NAMES)
    assert knowledge(model.classifier) == knowledge(alone)


def test_frames_bring_keywords_to_those_who_know_them() -> None:
    class Weighted(naive_bayes.GaussianNB):
        weights: list[Any]

        def learn_many(self, X: Any, y: Any, *, weight: float = 1.0) -> None:
            self.weights = [*getattr(self, "weights", []), weight]

    model = FeatureTransform(Weighted())
    frame, y = pd.DataFrame({"a": [1.0, 2.0]}), pd.Series(["x", "y"])
    model.learn_many(frame, y, weight=3.0, device="a")
    model.learn_many(frame, y)
    assert model.classifier.weights == [3.0, 1.0]


def test_empty_batches() -> None:
    model = FeatureTransform(small())
    model.learn_array([], [])
    X, y = positive()
    model.learn_array(X, y)
    assert model.predict_proba_array(np.empty((0, 3))).shape == (0, 3)


def test_columns_that_are_not_transformed_may_hold_anything() -> None:
    frame = pd.DataFrame({"a": [1, 4], "site": ["north", "south"], "b": [9.0, np.nan]})
    seen = Transform("sqrt", ["a", "b", "absent"]).frame(frame)
    assert seen["a"].tolist() == [1.0, 2.0]
    assert seen["site"].tolist() == ["north", "south"]
    np.testing.assert_array_equal(seen["b"], [3.0, np.nan])
    assert frame["a"].tolist() == [1, 4]


# --- what is refused -----------------------------------------------------------------------------

WAYS: dict[str, Callable[[Any, dict[str, Any]], Any]] = {
    "learn": lambda model, x: model.learn_one(x, "class 0", device="a", t=1.0),
    "learn a new class": lambda model, x: model.learn_one(x, "new", device="a", t=1.0),
    "learn a new feature": lambda model, x: model.learn_one({**x, "g": 1.0}, "class 0"),
    "observe": lambda model, x: model.observe_one(x, device="a", t=1.0),
    "predict": lambda model, x: model.predict_one(x, device="a", t=1.0),
    "predict_proba": lambda model, x: model.predict_proba_one(x, device="a", t=1.0),
    "decide": lambda model, x: model.decide_one(x, device="a", t=1.0),
    "integrate": lambda model, x: model.integrated_one(x, device="a", t=1.0),
    "explain": lambda model, x: model.explain_one(x),
    "relsim": lambda model, x: model.relsim_one(x),
}


@pytest.fixture(scope="module")
def chains() -> dict[str, Any]:
    """A chain for each transform that has learnt something."""
    X, y = positive(30)
    return {
        title: learnt(
            FeatureTransform(
                RelSimRejector(TimeIntegrator(small(), window=3), target_rate=0.1), title
            ),
            X,
            y,
            device="a",
            t=0.0,
        )
        for title in ORACLES
    }


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("title, value, expected", OUTSIDE)
def test_readings_outside_are_refused_and_change_nothing(
    chains: dict[str, Any], way: str, title: str, value: float, expected: str
) -> None:
    model = chains[title]
    before = frozen(model)
    with pytest.raises(
        ValueError, match=f"feature 'f01': expected {expected}.* got {re.escape(repr(value))}"
    ):
        WAYS[way](model, {"f00": 1.0, "f01": value, "f02": 2.0})
    assert frozen(model) == before


@pytest.mark.parametrize("title, value, expected", OUTSIDE)
def test_arrays_with_one_bad_number_are_refused_as_a_whole(
    title: str, value: float, expected: str
) -> None:
    X, y = positive(30)
    model = FeatureTransform(small(), title)
    model.learn_array(X, y, features=NAMES)
    before, bad = frozen(model), X.copy()
    bad[17, 2] = value
    asks: list[Callable[[], Any]] = [
        lambda: model.learn_array(bad, y, features=NAMES),
        lambda: model.learn_many(pd.DataFrame(bad, columns=list(NAMES)), pd.Series(y)),
        lambda: model.train(bad, y, epochs=2, features=NAMES),
        lambda: model.predict_proba_array(bad, features=NAMES),
        lambda: model.transform_rows(bad, NAMES),
    ]
    for ask in asks:
        with pytest.raises(ValueError, match=f"feature 'f02' of row 17: expected {expected}"):
            ask()
    assert frozen(model) == before
    assert list(model.refusals(bad, NAMES)) == [17]
    assert expected in model.refusals(bad, NAMES)[17]
    assert np.argwhere(model.outside(bad, NAMES)).tolist() == [[17, 2]]


def test_it_says_what_to_do() -> None:
    model = FeatureTransform(small(), "log")
    with pytest.raises(ValueError, match=r"transform='log', got 0\.0; 'log1p' takes 0 as well"):
        model.learn_one({"a": 0.0}, "x")
    with pytest.raises(ValueError, match="feature 'a': expected a number, got '3': convert it"):
        model.learn_one({"a": "3"}, "x")
    with pytest.raises(TypeError, match="expected a dictionary of features, got 3"):
        model.learn_one(3, "x")  # type: ignore[arg-type]
    assert model.classifier.features == ()


def test_features_that_stay_as_they_are_may_be_anything_a_model_takes() -> None:
    model = FeatureTransform(small(), "log", features=["a"])
    for k in range(8):
        model.learn_one({"a": 1.0 + k, "b": -5.0 * k}, k % 2)
    inside = model.transform_one({"a": math.e, "b": -5.0, "c": 0.0})
    assert inside == {"a": 1.0, "b": -5.0, "c": 0.0}
    with pytest.raises(ValueError, match="feature 'a'"):
        model.predict_one({"a": -1.0, "b": 1.0})


def test_what_is_missing_stays_missing(name: str) -> None:
    X, y = positive()
    model = learnt(FeatureTransform(small(), name), X, y)
    for missing in (None, math.nan, np.float64("nan")):
        inside = model.transform_one({"f00": 2.0, "f01": missing})
        assert math.isnan(inside["f01"])
    assert model.transform_one({}) == {}
    absent = model.predict_proba_one({"f00": 2.0})
    assert absent == model.predict_proba_one({"f00": 2.0, "f01": None, "f02": math.nan})
    model.learn_one({"f00": 2.0, "f01": None}, "class 0")
    assert model.refusals(np.full((2, 3), np.nan), NAMES) == {}


@pytest.mark.parametrize(
    "parameters, message",
    [
        ({"transform": "cube"}, r"\(transform=...\): expected one of log, log1p, sqrt, asinh, got"),
        ({"transform": None}, "expected one of"),
        ({"transform": ["log"]}, "expected one of"),
        ({"features": "abc"}, r"\(features=...\): expected distinct feature names.*'abc'"),
        ({"features": []}, "expected distinct feature names"),
        ({"features": ["a", "a"]}, "expected distinct feature names"),
        ({"features": 3}, "expected distinct feature names"),
        ({"features": [["a"]]}, "expected distinct feature names"),
    ],
)
def test_impossible_parameters(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        FeatureTransform(small(), **parameters)
    assert str(caught.value).startswith("FeatureTransform(")


def test_impossible_classifiers() -> None:
    with pytest.raises(ValueError, match=r"FeatureTransform\(classifier=...\): expected a class"):
        FeatureTransform(preprocessing.StandardScaler())
    inner = FeatureTransform(small())
    for wrapped in (inner, preprocessing.StandardScaler() | inner):
        with pytest.raises(ValueError, match="expected a classifier without a FeatureTransform"):
            FeatureTransform(wrapped)
    with pytest.raises(ValueError, match="expected a classifier without an integrator or rejector"):
        TimeIntegrator(inner)


# --- what people see -----------------------------------------------------------------------------


def test_prototypes_are_in_the_units_of_the_sensors(name: str) -> None:
    X, y = positive(300)
    model = learnt(FeatureTransform(streamlvq.GLVQ(), name), X, y)
    shown, inside = model.prototypes(), model.classifier.prototypes()
    for p, q in zip(shown, inside, strict=True):
        assert p.values == Transform(name).inverse_one(q.values)
        assert {**asdict(p), "values": 0} == {**asdict(q), "values": 0}
        lowest, highest = X.min(axis=0), X.max(axis=0)
        assert all(lowest[k] < p.values[f] < highest[k] for k, f in enumerate(NAMES))


def test_explanations_are_in_the_units_of_the_sensors() -> None:
    X, y = positive(300)
    for model in (FeatureTransform(small()), FeatureTransform(chain())):
        learnt(model, X, y, **({} if hasattr(model, "learn_array") else {"t": 1.0}))
        x = {**dictionaries(X)[7], "f02": None}
        explanation = model.explain_one(x)
        assert explanation.label == y[7]
        assert {k: v for k, v in explanation.reading.items() if k != "f02"} == {
            "f00": x["f00"],
            "f01": x["f01"],
        }
        assert math.isnan(explanation.reading["f02"])
        by_index = {p.index: p for p in model.prototypes()}
        assert explanation.winner == by_index[explanation.winner.index]
        assert explanation.runner_up == by_index[explanation.runner_up.index]
        gap = explanation.runner_up_distance - explanation.distance
        assert sum(explanation.features.values()) == pytest.approx(gap)
        assert f"reads {x['f01']:.4g}" in str(explanation)


def test_explanation_while_there_is_one_class() -> None:
    model = FeatureTransform(small())
    model.learn_one({"a": 2.0}, "only")
    explanation = model.explain_one({"a": 3.0})
    assert explanation.runner_up is None
    assert explanation.winner.values == {"a": pytest.approx(2.0)}


def test_units_of_a_pipeline_inside_are_left_alone() -> None:
    X, y = positive()
    model = learnt(FeatureTransform(pipeline()), X, y)
    assert model.prototypes() == model.classifier["LGMLVQ"].prototypes()
    assert abs(model.explain_one(dictionaries(X)[0]).reading["f01"]) < 5  # scaled


def test_copies_pickles_and_clones() -> None:
    X, y = positive()
    model = learnt(FeatureTransform(chain(), "sqrt", ["f00"]), X, y, device="a", t=1.0)
    x = dictionaries(X)[3]
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert twin.predict_proba_one(x, t=2.0) == model.predict_proba_one(x, t=2.0)
    clone = model.clone()
    assert (clone.transform, clone.features) == ("sqrt", ["f00"])
    assert clone.predict_one(x, t=2.0) is None
    assert model.clone({"transform": "log"}).transform == "log"


# --- snapshots -----------------------------------------------------------------------------------


def everything() -> Any:
    X, y = positive(missing=0.05)
    model = FeatureTransform(chain(), "log1p", ["f02", "f00"])
    for k, (x, label) in enumerate(zip(dictionaries(X), y, strict=True)):
        model.learn_one(x, label, device=f"d{k % 2}", t=float(k))
    return model


@pytest.mark.parametrize("readings", [True, False])
def test_snapshots_go_on_exactly(readings: bool) -> None:
    model = everything()
    data = Snapshot.of(model, readings=readings).to_bytes()
    snapshot = Snapshot.from_bytes(data)
    assert snapshot.to_bytes() == data
    assert snapshot.type_name == "FeatureTransform(RelSimRejector(TimeIntegrator(LGMLVQ)))"
    assert snapshot.transform == ("log1p", ("f00", "f02"))
    twin = snapshot.classifier()
    assert (twin.transform, twin.features) == ("log1p", ["f02", "f00"])
    if not readings:
        return
    X, y = positive(40, seed=8)
    for k, (x, label) in enumerate(zip(dictionaries(X), y, strict=True)):
        keywords = {"device": f"d{k % 3}", "t": 90.0 + k}
        assert twin.decide_one(x, **keywords) == model.decide_one(x, **keywords)
        twin.learn_one(x, label, **keywords)
        model.learn_one(x, label, **keywords)
    assert Snapshot.of(twin).to_bytes() == Snapshot.of(model).to_bytes()


def test_transform_of_a_snapshot(name: str) -> None:
    X, y = positive()
    snapshot = Snapshot.of(learnt(FeatureTransform(streamlvq.GLVQ(), name), X, y))
    assert snapshot.transform == (name, None)
    plain = Snapshot.of(learnt(streamlvq.GLVQ(), Transform(name).rows(X), y))
    assert plain.transform is None
    assert (snapshot.means, snapshot.spreads) == (plain.means, plain.spreads)
    assert snapshot.prototypes == plain.prototypes
    values = snapshot.prototypes[0].values
    assert snapshot.in_sensor_units(values) == Transform(name).inverse_one(values)
    assert plain.in_sensor_units(values) == values
    assert plain.in_sensor_units(values) is not values


def test_names_of_features_keep_their_type_in_files() -> None:
    model = FeatureTransform(streamlvq.GLVQ(), features=(1, "1", 1.5, None))
    twin = rebuilt(*described(model))
    assert twin.features == [1, "1", 1.5, None]
    again = FeatureTransform(streamlvq.GLVQ(), features=["1", None, 1.5, 1])
    assert Snapshot.of(model).transform == Snapshot.of(again).transform


def test_rejectors_judge_inside_a_transform() -> None:
    with pytest.raises(ValueError, match="put the FeatureTransform around the rejector"):
        RelSimRejector(FeatureTransform(small()), threshold=0.1)
    with pytest.raises(ValueError, match="TimeIntegrator"):
        TimeIntegrator(FeatureTransform(small()))


Lie = Callable[[dict[str, Any]], Any]
LIES: dict[str, tuple[Lie, str]] = {
    "unknown": (lambda m: m["parameters"].update(transform="cube"), "expected one of log"),
    "no name": (lambda m: m["parameters"].update(transform=3), "expected one of log"),
    "left out": (lambda m: m["parameters"].pop("features"), "expected parameters"),
    "text": (lambda m: m["parameters"].update(features="abc"), "expected distinct feature names"),
    "list": (lambda m: m["parameters"].update(features=["a"]), "expected a parameter"),
    "no names": (lambda m: m["parameters"].update(features={"names": 3}), "expected a parameter"),
    "none": (
        lambda m: m["parameters"].update(features={"names": []}),
        "expected distinct feature names",
    ),
    "twice": (
        lambda m: m["parameters"].update(features={"names": [["str", "a"], ["str", "a"]]}),
        "expected a parameter",
    ),
    "bare name": (
        lambda m: m["parameters"].update(features={"names": ["a"]}),
        "expected a parameter",
    ),
    "memory": (lambda m: m.update(memory={"a": 1}), "expected nothing to remember"),
}


@pytest.mark.parametrize("lie", LIES)
def test_lies_about_transforms_are_refused(lie: str) -> None:
    arrays, meta = described(FeatureTransform(streamlvq.GLVQ(), features=["a"]))
    tell, message = LIES[lie]
    tell(meta)
    with pytest.raises(SnapshotError, match=message):
        rebuilt(arrays, meta)


def test_nesting_that_cannot_be_is_refused() -> None:
    _, meta = described(FeatureTransform(streamlvq.GLVQ()))
    nested = {**meta, "classifier": meta}
    with pytest.raises(SnapshotError, match="as the outermost wrapper"):
        rebuilt({}, nested)
    blank = described(chain())[1]
    for _ in range(9):
        blank = {**blank, "classifier": blank}
    with pytest.raises(SnapshotError, match="expected at most 5 wrappers"):
        rebuilt({}, blank)


def test_inspection_shows_sensor_units_and_says_so() -> None:
    X, y = positive(300)
    model = learnt(FeatureTransform(streamlvq.GLVQ(), "log"), X, y)
    text = inspect_text(Snapshot.of(model, node="boiler"))
    assert "FeatureTransform(GLVQ) of node boiler" in text
    assert "learnt from log of all features; prototypes are shown in the units of the se" in text
    for prototype in model.prototypes():
        assert f"{prototype.values['f01']:.4g}" in text
    some = FeatureTransform(streamlvq.GLVQ(), "sqrt", ["f00", "f\n01"])
    some.learn_one({"f00": 9.0, "f\n01": 1.0}, "a")
    assert "learnt from sqrt of f?01, f00; prototypes" in inspect_text(Snapshot.of(some))
    many = FeatureTransform(streamlvq.GLVQ(), "sqrt", [f"f{k}" for k in range(9)])
    assert "sqrt of f0, f1, f2, f3 and 5 more features;" in inspect_text(Snapshot.of(many))
    assert "learnt from" not in inspect_text(Snapshot.of(learnt(streamlvq.GLVQ(), X, y)))


def test_late_labels_reach_the_integrator_inside() -> None:
    X, y = positive()
    wrapped, alone = FeatureTransform(TimeIntegrator(small())), TimeIntegrator(small())
    for x, label in zip(dictionaries(X), y, strict=True):
        inner = wrapped.transform_one(x)
        for model, reading in ((wrapped, x), (alone, inner)):
            model.predict_one(reading, device="d")
            evidence = model.last_evidence()
            model.learn_one(reading, label, device="d")
            model.record_label(evidence, label, device="d")
    ours, theirs = wrapped.classifier.memory_state()[0], alone.memory_state()[0]
    assert np.array_equal(ours["fitted"], theirs["fitted"])
