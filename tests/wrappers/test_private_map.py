"""Private features: what the map removes, and what models, people and files see of it."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

import streamlvq
from streamlvq import FeatureTransform, RelSimRejector, Snapshot, TimeIntegrator, fuse
from streamlvq.errors import SnapshotError
from streamlvq.fusion import FusionError, new_node
from streamlvq.fusion.node_models import group_compatible
from streamlvq.privacy import PrivateMap
from streamlvq.snapshot import inspect_text
from streamlvq.snapshot.state import from_arrays, to_arrays
from streamlvq.wrappers.feature_transform import Transform

NAMES = ["flow", "site", "heat", "age", "noise"]
PRIVATE = ["age", "site"]


def log(count: int = 400, seed: int = 0, gaps: float = 0.0) -> tuple[np.ndarray, list[str]]:
    """Readings of two classes whose features grow with two private ones."""
    random = np.random.default_rng(seed)
    age, site = random.normal(40.0, 9.0, count), random.integers(0, 2, count)
    y = random.integers(0, 2, count)
    flow = 3.0 * y + 0.2 * age + random.normal(size=count)
    heat = 20.0 - 2.0 * y + 4.0 * site - 0.1 * age + random.normal(size=count)
    X = np.column_stack([flow, site, heat, age, random.normal(size=count)])
    X[random.random(X.shape) < gaps] = np.nan
    return X, ["off" if each else "on" for each in y]


def dictionaries(X: np.ndarray) -> list[dict[str, float]]:
    return [dict(zip(NAMES, row, strict=True)) for row in X.tolist()]


def fitted(seed: int = 0) -> PrivateMap:
    return PrivateMap.fit(log(seed=seed)[0], PRIVATE, NAMES)


def naive(hiding: PrivateMap, x: dict[str, float]) -> dict[str, float]:
    """The definition, in plain Python."""
    left = {}
    for name, slopes in hiding.slopes.items():
        value = x[name]
        for s, mean in hiding.means.items():
            if slopes.get(s, 0.0):
                value -= (x.get(s, math.nan) - mean) * slopes[s]
        left[name] = value
    return left


def wrapped(**more: Any) -> FeatureTransform:
    return FeatureTransform(streamlvq.GMLVQ(seed=1, **more), None, private=fitted())


# --- the map --------------------------------------------------------------------------------------


def test_nothing_linear_is_left() -> None:
    X, _ = log()
    left = fitted().rows(X, NAMES)
    across = np.cov(np.column_stack([left, X[:, [1, 3]]]).T)[:3, 3:]
    assert np.abs(across).max() < 1e-12
    assert np.abs(np.cov(X.T)[[0, 2]][:, [1, 3]]).max() > 1.0


def test_it_is_the_regression_of_textbooks() -> None:
    X, _ = log()
    hiding = fitted()
    for column, name in ((0, "flow"), (2, "heat"), (4, "noise")):
        design = np.column_stack([np.ones(len(X)), X[:, 3], X[:, 1]])
        found = np.linalg.lstsq(design, X[:, column], rcond=None)[0][1:]
        assert list(hiding.slopes[name].values()) == pytest.approx(found.tolist(), abs=1e-12)


def test_moments_give_the_same_map() -> None:
    X, _ = log()
    covariance = np.cov(X.T, bias=True)
    table = {
        name: {s: covariance[NAMES.index(name), NAMES.index(s)] for s in PRIVATE} for name in NAMES
    }
    made = PrivateMap.from_moments(dict(zip(NAMES, X.mean(axis=0), strict=True)), table, PRIVATE)
    assert made.means == pytest.approx(fitted().means)
    for name, slopes in fitted().slopes.items():
        assert made.slopes[name] == pytest.approx(slopes, abs=1e-12)


@pytest.mark.parametrize("gaps", [0.0, 0.3])
def test_rows_and_readings_agree_bit_for_bit_with_the_definition(gaps: float) -> None:
    X, _ = log(gaps=gaps)
    hiding = fitted()
    rows = hiding.rows(X, NAMES)
    for row, x in zip(rows.tolist(), dictionaries(X), strict=True):
        expected = naive(hiding, x)
        assert np.array_equal(row, list(expected.values()), equal_nan=True)
        one = hiding.one(x)
        assert list(one) == hiding.passing(NAMES) == ["flow", "heat", "noise"]
        assert np.array_equal(list(one.values()), row, equal_nan=True)


def test_what_would_tell_of_a_missing_value_is_missing() -> None:
    hiding = PrivateMap({"age": 40.0}, {"flow": {"age": 0.2}, "noise": {"age": 0.0}, "dust": {}})
    said = hiding.one({"flow": 3.0, "noise": 1.0, "dust": 2.0})
    assert math.isnan(said.pop("flow")) and said == {"noise": 1.0, "dust": 2.0}
    for absent in (None, math.nan):
        assert math.isnan(hiding.one({"flow": 3.0, "age": absent})["flow"])
    row = hiding.rows(np.array([[3.0, 1.0]]), ["flow", "noise"])
    assert np.array_equal(row, [[np.nan, 1.0]], equal_nan=True)


def test_constant_and_dependent_private_features() -> None:
    X, _ = log()
    more = np.column_stack([X, np.full(len(X), 7.3), 2.0 * X[:, 3] - 1.0])
    names = [*NAMES, "plant", "birth"]
    hiding = PrivateMap.fit(more, [*PRIVATE, "plant", "birth"], names)
    assert all(slopes["plant"] == 0.0 for slopes in hiding.slopes.values())
    assert np.allclose(hiding.rows(more, names), fitted().rows(X, NAMES), atol=1e-9)
    alone = PrivateMap.fit(more, ["plant"], names)
    assert np.array_equal(alone.rows(more, names), np.delete(more, 5, axis=1))


def test_units_do_not_matter() -> None:
    X, _ = log()
    scale = np.array([1e-9, 1.0, 1e12, 1e-7, 1.0])
    hiding = PrivateMap.fit(X * scale, PRIVATE, NAMES)
    left = hiding.rows(X * scale, NAMES) / scale[[0, 2, 4]]
    assert np.allclose(left, fitted().rows(X, NAMES), atol=1e-9)


def test_new_features_do_not_pass() -> None:
    assert "new" not in fitted().one({**dictionaries(log()[0])[0], "new": 1.0})


def test_numbers_that_are_too_large_are_refused() -> None:
    hiding = fitted()
    X = np.ones((3, 5))
    X[1, 3], X[2, 0] = 1e61, np.inf
    assert [*hiding.refusals(X, NAMES)] == [1, 2]
    with pytest.raises(ValueError, match="finite number of at most 1e"):
        hiding.rows(X, NAMES)
    for x in dictionaries(X)[1:]:
        with pytest.raises(ValueError, match="finite number of at most 1e"):
            hiding.one(x)


FORGED: dict[str, tuple[Any, str]] = {
    "text": ("age", "expected a map with means and slopes"),
    "no slopes": ({"means": {"a": 1.0}}, "expected a map with means and slopes"),
    "flat": ({"means": {"a": 1.0}, "slopes": {"b": 2.0}}, "expected a map with means and slopes"),
    "nobody": ({"means": {}, "slopes": {}}, "at least one private feature"),
    "NaN": ({"means": {"a": math.nan}, "slopes": {}}, "mean of 'a': expected a finite number"),
    "truth": ({"means": {"a": True}, "slopes": {}}, "mean of 'a': expected a finite number"),
    "huge": ({"means": {"a": 1.0}, "slopes": {"b": {"a": 1e99}}}, "slope of 'b'"),
    "private": ({"means": {"a": 1.0}, "slopes": {"a": {"a": 1.0}}}, "no slopes of the private"),
    "unknown": ({"means": {"a": 1.0}, "slopes": {"b": {"c": 1.0}}}, "got one for 'c'"),
}


@pytest.mark.parametrize("name", FORGED)
def test_other_maps_are_refused(name: str) -> None:
    given, message = FORGED[name]
    with pytest.raises(ValueError, match=message):
        FeatureTransform(streamlvq.GLVQ(), None, private=given)


def test_parameters_that_do_not_go_together_are_refused() -> None:
    hiding = fitted()
    with pytest.raises(ValueError, match="transform"):
        FeatureTransform(streamlvq.GLVQ(), None)
    with pytest.raises(ValueError, match="expected None with transform=None"):
        FeatureTransform(streamlvq.GLVQ(), None, ["flow"], hiding)
    with pytest.raises(ValueError, match="absent='missing'"):
        FeatureTransform(streamlvq.GLVQ(absent="zero"), None, private=hiding)
    with pytest.raises(ValueError, match="distinct names of private features"):
        PrivateMap.fit(log()[0], "age", NAMES)
    with pytest.raises(ValueError, match="'size' among"):
        PrivateMap.fit(log()[0], ["size"], NAMES)
    with pytest.raises(ValueError, match="names of the columns"):
        PrivateMap.fit(log()[0], ["age"])
    with pytest.raises(ValueError, match="at least 2 readings"):
        PrivateMap.fit(log()[0][:1], ["age"], NAMES)


def test_it_is_plain_numbers() -> None:
    hiding = fitted()
    again = PrivateMap.parse(json.loads(json.dumps(hiding.to_dict())))
    assert again == hiding and again != fitted(seed=1)


# --- models ---------------------------------------------------------------------------------------


def test_the_model_sees_what_is_left() -> None:
    X, y = log()
    model, alone = wrapped(), streamlvq.GMLVQ(seed=1)
    for x, label in zip(dictionaries(X), y, strict=True):
        model.learn_one(x, label)
        alone.learn_one(fitted().one(x), label)
    assert model.classifier.features == ("flow", "heat", "noise")
    x = dictionaries(X)[5]
    assert model.predict_proba_one(x) == alone.predict_proba_one(fitted().one(x))


def test_all_ways_to_learn_agree() -> None:
    pandas = pytest.importorskip("pandas")
    X, y = log(gaps=0.05)
    models = [wrapped() for _ in range(3)]
    for x, label in zip(dictionaries(X), y, strict=True):
        models[0].learn_one(x, label)
    models[1].learn_array(X, y, NAMES)
    frame = pandas.DataFrame(X, columns=NAMES)
    models[2].learn_many(frame, pandas.Series(y))
    first, *others = (Snapshot.of(model).to_bytes() for model in models)
    assert all(other == first for other in others)
    one = np.array([list(models[0].predict_proba_one(x).values()) for x in dictionaries(X)])
    assert np.array_equal(one, models[0].predict_proba_array(X, NAMES))
    with pytest.raises(ValueError, match="names of the columns"):
        models[0].predict_array(X)


def test_a_function_comes_first_and_leaves_private_ones() -> None:
    X, _ = log()
    X[:, [0, 2, 4]] = np.exp(X[:, [0, 2, 4]] / 5)
    hiding = FeatureTransform.fit_private(X, PRIVATE, "log", names=NAMES)
    expected = X.copy()
    expected[:, [0, 2, 4]] = np.log(X[:, [0, 2, 4]])
    assert hiding == PrivateMap.fit(expected, PRIVATE, NAMES)
    transform = Transform("log", private=hiding)
    assert np.array_equal(transform.rows(X, NAMES), hiding.rows(expected, NAMES))
    for x, row in zip(dictionaries(X), transform.rows(X, NAMES).tolist(), strict=True):
        assert list(transform.one(x).values()) == row
    X[3, 0] = -1.0
    assert [*transform.refusals(X, NAMES)] == [3]
    some = Transform("log", ["flow"], hiding)
    assert some.passing(NAMES) == ["flow", "heat", "noise"]


def test_explanations_do_not_tell() -> None:
    X, y = log()
    model = wrapped()
    model.learn_array(X, y, NAMES)
    x = dictionaries(X)[7]
    explanation = model.explain_one(x)
    assert set(explanation.reading) == {"flow", "heat", "noise"}
    assert explanation.reading == pytest.approx(fitted().one(x))
    inside = model.classifier.prototypes()
    assert [p.values for p in model.prototypes()] == [p.values for p in inside]


def test_nothing_of_a_private_value_is_in_a_snapshot() -> None:
    """The same readings of other people give the same bytes, but for rounding."""
    X, y = log()
    model, other = wrapped(), wrapped()
    left = fitted().rows(X, NAMES)
    model.learn_array(X, y, NAMES)
    moved = X.copy()
    moved[:, 3] += 5.0
    for column, name in ((0, "flow"), (2, "heat"), (4, "noise")):
        moved[:, column] += 5.0 * fitted().slopes[name]["age"]
    assert np.allclose(fitted().rows(moved, NAMES), left, atol=1e-12)
    other.learn_array(moved, y, NAMES)
    one, two = (Snapshot.of(each).means for each in (model, other))
    for label in one:
        assert one[label] == pytest.approx(two[label], abs=1e-9)


# --- snapshots and fleets -------------------------------------------------------------------------


def chain() -> FeatureTransform:
    inside = RelSimRejector(TimeIntegrator(streamlvq.GLVQ(), window=3), threshold=0.1)
    return FeatureTransform(inside, None, private=fitted())


def test_snapshots_go_on_exactly() -> None:
    X, y = log()
    model = chain()
    for x, label in zip(dictionaries(X[:200]), y, strict=False):
        model.learn_one(x, label)
    snapshot = Snapshot.from_bytes(Snapshot.of(model).to_bytes())
    again = snapshot.classifier()
    assert again.private == model.private and again.transform is None
    for x, label in zip(dictionaries(X[200:]), y[200:], strict=True):
        assert again.predict_proba_one(x) == model.predict_proba_one(x)
        model.learn_one(x, label)
        again.learn_one(x, label)
    assert Snapshot.of(model).to_bytes() == Snapshot.of(again).to_bytes()
    assert snapshot.private == ("age", "site") and snapshot.transform is None
    text = inspect_text(snapshot)
    assert "private: age, site; removed" in text and "the mean private values" in text
    assert snapshot.in_sensor_units({"flow": 1.0}) == {"flow": 1.0}


def test_without_a_map_a_snapshot_is_as_before() -> None:
    _, meta = to_arrays(FeatureTransform(streamlvq.GLVQ()).state())
    assert meta["parameters"].keys() == {"transform", "features"}
    assert from_arrays({}, meta).parameters.keys() == {"transform", "features"}


@pytest.mark.parametrize("name", FORGED)
def test_forged_maps_are_refused(name: str) -> None:
    state = wrapped().state()
    parameters = {**state.parameters, "private": FORGED[name][0]}
    with pytest.raises(SnapshotError):
        FeatureTransform.from_state(
            type(state)(state.kind, parameters, {}, state.extra, state.parts)
        )


def snapshot_of(node: str, hiding: PrivateMap | None, shift: float = 0.0) -> Snapshot:
    X, y = log(seed=len(node))
    X[:, 0] += shift
    model = FeatureTransform(streamlvq.GMLVQ(seed=1), None if hiding else "asinh", private=hiding)
    model.learn_array(X, y, NAMES)
    return Snapshot.of(model, node, readings=False)


def test_nodes_with_the_same_map_are_fused() -> None:
    fused = fuse([snapshot_of("a", fitted()), snapshot_of("bb", fitted(), 0.5)])
    model = fused.for_node("a")
    assert isinstance(model, FeatureTransform) and model.private == fitted().to_dict()
    X, y = log(seed=9)
    right = np.mean(model.predict_array(X, NAMES) == np.array(y))
    assert right > 0.9
    new = new_node(fused, dictionaries(X[:40]), y[:40])
    assert np.mean(new.predict_array(X, NAMES) == np.array(y)) > 0.9


def test_nodes_with_another_map_are_refused() -> None:
    mixed = [snapshot_of("a", fitted()), snapshot_of("bb", fitted(seed=1))]
    with pytest.raises(FusionError, match=r"same map of private features everywhere.*'bb'"):
        fuse(mixed)
    with pytest.raises(FusionError, match="same map of private features"):
        fuse([snapshot_of("a", fitted()), snapshot_of("bb", None)])
    assert [len(group) for group in group_compatible(mixed)] == [1, 1]
