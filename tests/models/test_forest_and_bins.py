"""`WindowForest` and `BinnedNaiveBayes` as classifiers: River's interface, arrays, states."""

from __future__ import annotations

import copy
import math
import pickle
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from river import checks, compose, preprocessing

import streamlvq
from streamlvq.config import ConfigError, loads
from streamlvq.errors import ParameterError, SnapshotError
from streamlvq.estimator import EstimatorState, StateLimits, build_estimator
from streamlvq.snapshot import Snapshot
from streamlvq.snapshot.inspect import inspect_text
from support import streams
from support.samples import blobs, described, image_segments, readings, rebuilt, taught

MODELS: dict[str, Callable[..., Any]] = {
    "WindowForest": streamlvq.WindowForest,
    "BinnedNaiveBayes": streamlvq.BinnedNaiveBayes,
}
SMALL: dict[str, dict[str, Any]] = {
    "WindowForest": {"trees": 5, "longest_window": 80, "shortest_window": 80, "regrow_every": 9},
    "BinnedNaiveBayes": {"bins": 6, "half_life": 50},
}
QUICK = {"WindowForest": {"longest_window": 400}, "BinnedNaiveBayes": {"half_life": 100}}
pytestmark = pytest.mark.parametrize("name", MODELS)


def small(name: str, n: int = 120, missing: float = 0.1, **parameters: Any) -> Any:
    X, y = blobs(n, d=5, missing=missing)
    labels = [f"class {c}" for c in y.tolist()]
    return taught(MODELS[name](**SMALL[name] | parameters), X, labels)


def later(n: int = 60) -> list[tuple[dict[str, float], str]]:
    X, y = blobs(n, d=5, seed=9, missing=0.1)
    return [(x, f"class {c}") for x, c in zip(readings(X), y.tolist(), strict=True)]


def go_on_alike(one: Any, other: Any) -> None:
    """Both predict and learn the same to the last bit."""
    for x, y in later():
        assert one.predict_proba_one(x) == other.predict_proba_one(x)
        one.learn_one(x, y)
        other.learn_one(x, y)
    assert one.state().same_as(other.state())


# --- River ---------------------------------------------------------------------------------------


def test_river_checks(name: str) -> None:
    model = MODELS[name]()
    for check in checks.yield_checks(model):
        check(model.clone())


def test_image_segments(name: str) -> None:
    model, hits, loss = MODELS[name](), [], []
    for x, y in image_segments():
        p = model.predict_proba_one(x)
        assert not p or math.isclose(sum(p.values()), 1.0)
        hits.append(model.predict_one(x) == y)
        loss.append(-math.log(p.get(y, 1e-9)))
        model.learn_one(x, y)
    assert np.mean(hits[300:]) > {"WindowForest": 0.93, "BinnedNaiveBayes": 0.86}[name]
    assert np.mean(loss[300:]) < {"WindowForest": 0.25, "BinnedNaiveBayes": 0.5}[name]


def test_river_wrappers_see_a_classifier(name: str) -> None:
    model = compose.Pipeline(preprocessing.StandardScaler(), MODELS[name](**SMALL[name]))
    for x, y in later(40):
        model.learn_one({k: v for k, v in x.items() if v == v}, y)
    assert model.predict_one(later(1)[0][0]) in ("class 0", "class 1", "class 2")


def test_a_rule_is_learnt(name: str) -> None:
    """Bins see each feature alone; trees see a rule of two."""
    random = np.random.default_rng(0)
    model, hits = MODELS[name](), []
    for x in random.uniform(size=(1500, 4)):
        y = bool(x[0] > 0.6) != bool(x[2] > 0.5) if name == "WindowForest" else bool(x[1] > 0.7)
        hits.append(model.predict_one(dict(enumerate(x.tolist()))) == y)
        model.learn_one(dict(enumerate(x.tolist())), y)
    assert np.mean(hits[500:]) > 0.95


def test_it_follows_a_change(name: str) -> None:
    X, y = blobs(1600, d=4, classes=2)
    labels = np.where(np.arange(1600) < 800, y, 1 - y)
    model = MODELS[name](**QUICK[name])
    p, codes = model.learn_array_watched(X, labels.tolist())
    right = p.argmax(axis=1) == codes
    assert right[300:800].mean() > 0.7
    assert right[800:900].mean() < 0.6
    assert right[1300:].mean() > right[300:800].mean() - 0.05


# --- one reading at a time -----------------------------------------------------------------------


def test_nothing_learnt(name: str) -> None:
    model = MODELS[name]()
    assert model.predict_proba_one({"a": 1.0}) == {}
    assert model.predict_one({"a": 1.0}) is None
    assert model.predict_labels_one({"a": 1.0}) is None
    assert model.predict_proba_array(np.zeros((2, 3))).shape == (2, 0)
    assert (model.features, model.classes, model.samples) == ((), (), 0)
    model.learn_one({"a": 1.0}, "only")
    assert model.predict_proba_one({"a": 1.0}) == {"only": 1.0}


def test_new_features_and_classes_at_any_time(name: str) -> None:
    model = small(name)
    model.learn_one({"f00": 1.0, "late": 5.0}, "new")
    assert model.features[-1] == "late" and model.classes[-1] == "new"
    for c in range(40):
        model.learn_one({"late": 100.0 + c, "later": float(-c)}, c)
        model.learn_one({"late": 100.0 + c, "later": float(-c)}, c)
    assert len(model.classes) == 44
    p = model.predict_proba_one({"late": 120.0, "later": -20.0})
    assert list(p) == list(model.classes) and math.isclose(sum(p.values()), 1.0)
    go_on_alike(model, rebuilt(*described(model)))


def test_missing_values(name: str) -> None:
    """None, NaN and a feature not mentioned are the same; of nothing known nothing follows."""
    one, other, third = (small(name) for _ in range(3))
    for x, y in later():
        present = {k: v for k, v in x.items() if v == v}
        one.learn_one(x, y)
        other.learn_one(present, y)
        third.learn_one({k: v if v == v else None for k, v in x.items()}, y)
        assert one.predict_proba_one(x) == other.predict_proba_one(present)
    assert one.state().same_as(other.state()) and one.state().same_as(third.state())
    one.predict_proba_one({"foreign": 1.0})
    assert one.last_was_empty()
    one.predict_proba_one({"f00": 1.0})
    assert not one.last_was_empty()


@pytest.mark.parametrize("value", [math.inf, -math.inf, 1e61, "3", object()])
@pytest.mark.parametrize("feature", ["f02", "new"])
@pytest.mark.parametrize("label", ["class 1", "new"])
def test_bad_values_change_nothing(name: str, value: Any, feature: str, label: str) -> None:
    model, twin = small(name), small(name)
    x = later(1)[0][0] | {feature: value}
    with pytest.raises(ValueError, match="expected a"):
        model.learn_one(x, label)
    if feature == "f02":
        with pytest.raises(ValueError, match="expected a"):
            model.observe_one(x)
        with pytest.raises(ValueError, match="expected a"):
            model.predict_proba_one(x)
        rows = np.zeros((3, 5))
        rows[2, 2] = np.inf
        with pytest.raises(ValueError, match="expected a finite"):
            model.learn_array(rows, ["class 0", "class 1", "class 2"])
    for bad in (None, math.nan, []):
        with pytest.raises((ValueError, TypeError)):
            model.learn_one(later(1)[0][0], bad)
    with pytest.raises(TypeError, match="dictionary"):
        model.learn_one([1.0], "class 0")
    go_on_alike(model, twin)


def test_prediction_and_observation_change_nothing(name: str) -> None:
    model = small(name)
    before = pickle.dumps(model)
    model.predict_proba_one(later(1)[0][0])
    model.predict_one(later(1)[0][0])
    assert pickle.dumps(model) == before
    model.observe_one(later(1)[0][0])
    assert model.state().same_as(pickle.loads(before).state())


def test_weights(name: str) -> None:
    """Arrays weigh like single readings; a weight of 0 teaches nothing; bad ones are refused."""
    one, other, idle = small(name), small(name), small(name)
    weights = [0.5, 2.0, 7.0] * 20
    for (x, y), w in zip(later(), weights, strict=True):
        one.learn_one(x, y, w)
        idle.learn_one(x, y, w=0.0)
    X = np.array([[x[f] for f in one.features] for x, _ in later()])
    other.learn_array(X, [y for _, y in later()], one.features, w=weights)
    assert one.predict_proba_one(later()[3][0]) == other.predict_proba_one(later()[3][0])
    assert idle.state().same_as(small(name).state())
    for bad in (-1.0, math.nan, 1e7, "2"):
        with pytest.raises((ValueError, TypeError)):
            idle.learn_one(*later()[0], w=bad)
    assert idle.state().same_as(small(name).state())
    heavy = small(name)
    for _ in range(5):
        heavy.learn_one(later()[0][0], "class 2", 1000.0)
    assert heavy.predict_one(later()[0][0]) == "class 2"


def test_last_probabilities_are_those_before_learning(name: str) -> None:
    model = small(name)
    for x, y in later(20):
        expected = list(model.predict_proba_one(x).values())
        model.learn_one(x, y)
        assert model.last_probabilities().tolist() == expected


def test_an_answer_is_given_once(name: str) -> None:
    """A reading that is predicted and then learnt is judged once, unless another comes between."""
    patient, hasty, odd = small(name), small(name), small(name)
    rows = np.random.default_rng(1).normal(size=(3, 5))
    for k, ((x, y), (z, _)) in enumerate(zip(later(), later()[::-1], strict=True)):
        hasty.learn_one(x, y)
        patient.predict_proba_one(x)
        patient.learn_one(x, y)
        odd.predict_proba_one(x)
        if k % 3 == 0:
            odd.predict_proba_one(z)
        elif k % 3 == 1:
            odd.predict_proba_array(rows)
        else:
            odd.observe_one(z)
        odd.learn_one(x, y)
        assert patient.last_probabilities().tolist() == hasty.last_probabilities().tolist()
        assert odd.last_probabilities().tolist() == hasty.last_probabilities().tolist()
    assert patient.state().same_as(hasty.state()) and odd.state().same_as(hasty.state())


def test_threads_take_turns(name: str) -> None:
    model, errors = small(name), []

    def work(k: int) -> None:
        try:
            for x, y in later(40):
                model.learn_one(x | {f"of thread {k}": 1.0}, y)
                assert math.isclose(sum(model.predict_proba_one(x).values()), 1.0)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert model.samples == 120 + 4 * 40


def test_memory_is_flat(name: str) -> None:
    """Nothing grows with the stream once window and bins are full."""
    model = small(name, 300)
    before = model._raw_memory_usage
    X, y = blobs(3000, d=5, missing=0.1)
    model.learn_array(X, [f"class {c}" for c in y.tolist()], model.features)
    assert model._raw_memory_usage == before


# --- arrays --------------------------------------------------------------------------------------


def test_arrays_are_learnt_like_single_readings(name: str) -> None:
    one, other, third = (MODELS[name](**SMALL[name]) for _ in range(3))
    X, y = blobs(150, d=4, missing=0.1)
    expected = np.full((150, 3), -1.0)
    for k, (x, label) in enumerate(zip(X.tolist(), y.tolist(), strict=True)):
        known = len(one.classes)
        new = label not in one.classes
        one.learn_one(dict(enumerate(x)), label)
        if known > 1 and not new:
            expected[k, :known] = one.last_probabilities()[:known]
    before, codes = other.learn_array_watched(X, y)
    assert np.array_equal(before, expected)
    assert [other.classes[c] for c in codes.tolist()] == y.tolist()
    third.learn_many(pd.DataFrame(X), pd.Series(y))
    assert one.state().same_as(replace_columns(other.state()))
    assert one.predict_proba_array(X).tolist() == third.predict_proba_array(X).tolist()
    single = [list(one.predict_proba_one(dict(enumerate(x))).values()) for x in X.tolist()]
    assert one.predict_proba_array(X).tolist() == single
    assert one.predict_array(X).tolist() == [
        one.predict_one(dict(enumerate(x))) for x in X.tolist()
    ]
    assert list(third.predict_many(pd.DataFrame(X))) == one.predict_array(X).tolist()


def replace_columns(state: EstimatorState) -> EstimatorState:
    return replace(state, extra={**state.extra, "columns": None})


def test_masked_values_are_missing(name: str) -> None:
    X, y = blobs(100, d=4)
    mask = np.random.default_rng(0).random(X.shape) < 0.2
    one, other = MODELS[name](**SMALL[name]), MODELS[name](**SMALL[name])
    one.learn_array(np.ma.array(X, mask=mask), y)
    other.learn_array(np.where(mask, np.nan, X), y)
    assert one.state().same_as(other.state())


def test_shapes_are_checked(name: str) -> None:
    model = small(name)
    with pytest.raises(ValueError, match="expected 5 columns"):
        model.learn_array(np.zeros((2, 4)), ["class 0", "class 1"])
    with pytest.raises(ValueError, match="as many labels"):
        model.learn_array(np.zeros((2, 5)), ["class 0"])
    with pytest.raises(ValueError, match="expected 5 columns"):
        model.predict_proba_array(np.zeros((2, 6)))
    assert model.state().same_as(small(name).state())


def test_train_learns_a_recorded_set_once(name: str) -> None:
    X, y = blobs(400, d=5)
    model = MODELS[name]()
    model.train(X, y, epochs=3, seed=2)
    assert model.samples == 400
    assert model.classes == (0, 1, 2)
    assert (model.predict_array(X) == y).mean() > 0.8
    again = MODELS[name]()
    again.train(X, y, seed=2)
    assert again.state().same_as(model.state())


def test_absent_features_may_be_zero(name: str) -> None:
    """A sparse reading is one whose other features are 0, also of features that come later."""
    random = np.random.default_rng(4)
    words = [f"w{k}" for k in range(12)]
    sparse, full = (MODELS[name](**SMALL[name], absent="zero") for _ in range(2))
    known: set[str] = set()
    for k in range(150):
        y = k % 2
        x = dict.fromkeys(random.choice(words[6 * y :], 3, replace=False), 1.0)
        known |= x.keys()
        sparse.learn_one(x, y)
        full.learn_one({w: x.get(w, 0.0) for w in sorted(known)}, y)
        asked = dict.fromkeys(random.choice(words, 3), 1.0)
        p = sparse.predict_proba_one(asked)
        assert p == pytest.approx(full.predict_proba_one({w: asked.get(w, 0.0) for w in known}))
    go = rebuilt(*described(sparse))
    assert go.predict_proba_one({"w1": 1.0}) == sparse.predict_proba_one({"w1": 1.0})


# --- copies and changes --------------------------------------------------------------------------


def test_copies_go_on_alike(name: str) -> None:
    model = small(name)
    for copied in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        go_on_alike(copy.deepcopy(model), copied)
    clone = model.clone()
    assert clone.samples == 0 and clone.state().parameters == model.state().parameters


def test_a_pickle_of_another_layout_is_refused(name: str) -> None:
    state = small(name)._engine.__getstate__() | {"layout": {}}
    engine = small(name)._engine
    with pytest.raises(ValueError, match="another version"):
        engine.__setstate__(state)


def test_parameters_are_checked(name: str) -> None:
    wrong: dict[str, list[Any]] = {
        "WindowForest": [
            *({"trees": v} for v in (0, 1001, 2.5, True, "3")),
            *({"longest_window": v} for v in (0, 2**25)),
            *({key: 0} for key in ("shortest_window", "regrow_every", "max_leaves", "min_leaf")),
            {"shortest_window": 5000, "longest_window": 100},
            {"shortest_window": 2001},
            {"max_depth": -1},
            {"seed": -1},
        ],
        "BinnedNaiveBayes": [
            *({"bins": v} for v in (1, 1025, 2.5)),
            *({"half_life": v} for v in (0.5, math.nan, "x")),
        ],
    }
    for parameters in [*wrong[name], {"absent": "null"}]:
        with pytest.raises(ParameterError, match=f"{name}.{next(iter(parameters))}=.*expected"):
            MODELS[name](**parameters)


def test_mutable_parameters_take_effect(name: str) -> None:
    change = {"WindowForest": {"max_depth": 1}, "BinnedNaiveBayes": {"half_life": 5.0}}[name]
    (key, value), model, twin = next(iter(change.items())), small(name), small(name)
    model.mutate(change)
    changed = False
    for x, y in later():
        model.learn_one(x, y)
        twin.learn_one(x, y)
        changed = changed or model.predict_proba_one(x) != twin.predict_proba_one(x)
    assert changed
    restored = rebuilt(*described(model))
    assert getattr(restored, key) == value
    go_on_alike(model, restored)
    with pytest.raises(ParameterError):
        setattr(model, key, -1)
    assert getattr(model, key) == value


def test_seeds(name: str) -> None:
    if name == "BinnedNaiveBayes":  # draws nothing at random
        return
    X, y = blobs(100, d=4)
    asked = readings(X)[0]
    default, same, other = (
        taught(MODELS[name](seed=seed), X, y.tolist()).predict_proba_one(asked)
        for seed in (1, 1, 2)
    )
    assert default == same != other
    none = {
        tuple(taught(MODELS[name](seed=None), X, y.tolist()).predict_proba_one(asked).values())
        for _ in range(3)
    }
    assert len(none) > 1


# --- states --------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [0, 1, 3, 20, 79, 80, 81, 300])
def test_states_come_back_bit_for_bit(name: str, n: int) -> None:
    model = small(name, n)
    for twin in (
        MODELS[name].from_state(model.state()),  # type: ignore[attr-defined]
        build_estimator(model.state()),
        rebuilt(*described(model)),
    ):
        assert twin.state().same_as(model.state())
        go_on_alike(small(name, n), twin)


def test_files_come_back(name: str) -> None:
    model = small(name)
    snapshot = Snapshot.from_bytes(Snapshot.of(model, node="a").to_bytes())
    assert snapshot.estimator_state().same_as(model.state())
    assert snapshot.samples == 120
    assert sum(snapshot.counts.values()) == 120
    assert snapshot.prototypes == [] and snapshot.relevances == {}
    text = inspect_text(snapshot)
    assert name in text and {"WindowForest": "5 trees", "BinnedNaiveBayes": "6 bins"}[name] in text


def test_readings_are_not_shared(name: str) -> None:
    model = small(name)
    with pytest.raises(SnapshotError, match=f"leave out readings, got a {name}"):
        model.state(readings=False)
    with pytest.raises(SnapshotError, match="readings"):
        Snapshot.of(model, node="a", readings=False)
    fresh = MODELS[name]()
    assert fresh.state(readings=False).same_as(fresh.state())


def test_fusion_says_why_not(name: str) -> None:
    nodes = [Snapshot.of(small(name, seed), node=f"n{seed}") for seed in (60, 80)]
    with pytest.raises(ValueError, match=f"prototypes.*got a {name}"):
        streamlvq.fuse(nodes)


def test_limits_are_kept(name: str) -> None:
    model = small(name)
    limits = StateLimits(max_numbers=200)
    with pytest.raises(SnapshotError, match="at most 200"):
        model.state(limits=limits)
    for check in (MODELS[name].from_state, MODELS[name].check_state):  # type: ignore[attr-defined]
        with pytest.raises(SnapshotError, match="at most 200"):
            check(model.state(), limits=limits)
    huge = {
        "WindowForest": {"trees": 1000, "max_leaves": 2**15},
        "BinnedNaiveBayes": {"bins": 1024},
    }
    parameters = {**model.state().parameters, **huge[name]}
    with pytest.raises(SnapshotError):
        build_estimator(replace(model.state(), parameters=parameters))


LIES: dict[str, list[tuple[str, Callable[[Any], Any]]]] = {
    "WindowForest": [
        ("nodes", lambda a: a[:-1]),
        ("nodes", lambda a: changed(a, (0, 0), 5)),
        ("nodes", lambda a: changed(a, (0, 0), -1)),
        ("nodes", lambda a: changed(a, (0, 1), 0)),
        ("nodes", lambda a: changed(a, (0, 1), 10**6)),
        ("nodes", lambda a: changed(a, (0, 1), -1)),
        ("nodes", lambda a: changed(a, (0, 2), 2)),
        ("nodes", lambda a: changed(a, (0, 3), 1)),
        ("nodes", lambda a: changed(a, (-1, 3), 10**6)),
        ("nodes", lambda a: a.astype(np.float64)),
        ("cuts", lambda a: changed(a, 0, math.nan)),
        ("cuts", lambda a: changed(a, 0, 1e61)),
        ("counts", lambda a: changed(a, (0, 0), -1.0)),
        ("counts", lambda a: changed(a, (0, 0), math.inf)),
        ("counts", lambda a: a[:, :-1].copy()),
        ("tree_sizes", lambda a: changed(a, 0, a[0] + 2)),
        ("tree_sizes", lambda a: changed(a, 0, a[0] + 1)),
        ("tree_sizes", lambda a: changed(a, 0, -1)),
        ("tree_sizes", lambda a: changed(a, 0, 2**62)),
        ("tree_sizes", lambda a: a[:-1].copy()),
        ("tree_sizes", lambda a: np.concatenate([a, a])),
        ("window_y", lambda a: changed(a, 0, 3)),
        ("window_y", lambda a: changed(a, 0, -1)),
        ("window_w", lambda a: changed(a, 0, 0.0)),
        ("window_w", lambda a: changed(a, 0, math.nan)),
        ("window_x", lambda a: changed(a, (0, 0), math.inf)),
        ("window_x", lambda a: a[:, :-1].copy()),
        ("class_count", lambda a: changed(a, 0, -1.0)),
        ("fit", lambda a: changed(a, 0, 8.0)),
        ("fit", lambda a: changed(a, 1, math.nan)),
    ],
    "BinnedNaiveBayes": [
        ("used", lambda a: changed(a, 0, 7)),
        ("used", lambda a: changed(a, 0, -1)),
        ("used", lambda a: changed(a, 0, 0)),
        ("used", lambda a: a.astype(np.float64)),
        ("lows", lambda a: changed(a, (0, 0), math.nan)),
        ("lows", lambda a: a[:, ::-1].copy()),
        ("highs", lambda a: changed(a, (0, 0), 1e50)),
        ("highs", lambda a: a[:-1].copy()),
        ("masses", lambda a: changed(a, (0, 0), -1.0)),
        ("counts", lambda a: changed(a, (0, 0, 0), math.inf)),
        ("counts", lambda a: a[:, :, :-1].copy()),
        ("present", np.zeros_like),
        ("prior", lambda a: changed(a, 0, math.nan)),
        ("unit", lambda a: changed(a, 0, 0.0)),
        ("unit", lambda a: changed(a, 0, 1e300)),
        ("class_count", lambda a: changed(a, 0, math.nan)),
        ("fit", lambda a: changed(a, 0, math.nan)),
    ],
}


def changed(array: Any, place: Any, value: Any) -> Any:
    array = array.copy()
    array[place] = value
    return array


def test_forged_arrays_are_refused(name: str) -> None:
    state = small(name).state()
    for array, lie in LIES[name]:
        forged = replace(state, arrays={**state.arrays, array: lie(state.arrays[array])})
        for check in (MODELS[name].check_state, MODELS[name].from_state):  # type: ignore[attr-defined]
            with pytest.raises(SnapshotError):
                check(forged)
    for array in state.arrays:
        rest = {key: value for key, value in state.arrays.items() if key != array}
        with pytest.raises(SnapshotError):
            build_estimator(replace(state, arrays=rest))
    with pytest.raises(SnapshotError, match="unknown"):
        build_estimator(replace(state, arrays={**state.arrays, "more": np.zeros(3)}))


def test_forged_sizes_are_refused(name: str) -> None:
    state = small(name).state()
    sizes = state.extra["sizes"]
    for key, value in sizes.items():
        for lie in (-1, 2**70, "x", None, value + 0.5):
            forged = replace(state, extra={**state.extra, "sizes": {**sizes, key: lie}})
            with pytest.raises(SnapshotError):
                build_estimator(forged)
    for lie in ({}, {**sizes, "more": 1}, None):
        with pytest.raises(SnapshotError):
            build_estimator(replace(state, extra={**state.extra, "sizes": lie}))


def test_random_lies_do_not_crash(name: str) -> None:
    """What is accepted can predict and learn."""
    random, accepted = np.random.default_rng(0), 0
    for _ in range(150):
        state = small(name, 90).state()
        arrays = {key: value.copy() for key, value in state.arrays.items()}
        key = sorted(arrays)[int(random.integers(len(arrays)))]
        flat = arrays[key].reshape(-1)
        lies = [0, 1, -1, 2, 7, 1e-300, 1e59, 10**9, flat[int(random.integers(len(flat)))]]
        for _ in range(int(random.integers(1, 4))):
            lie = lies[int(random.integers(len(lies)))]
            whole = flat.dtype == np.int64
            flat[int(random.integers(len(flat)))] = (
                int(np.clip(np.nan_to_num(lie), -1e18, 1e18)) if whole else lie
            )
        try:
            model = build_estimator(replace(state, arrays=arrays))
        except SnapshotError:
            continue
        accepted += 1
        for x, y in later(40):
            p = model.predict_proba_one(x)
            assert all(0.0 <= v <= 1.0 for v in p.values())
            model.learn_one(x, y)
    assert accepted > 5


# --- where they are used -------------------------------------------------------------------------


def test_members_of_wrappers(name: str) -> None:
    """A window and a rejector take their probabilities."""
    model = streamlvq.ProbabilityRejector(
        streamlvq.TimeIntegrator(MODELS[name](**SMALL[name]), window=3, centered=False),
        target_rate=0.1,
    )
    for k, (x, y) in enumerate(later() * 3):
        model.learn_one(x, y, device="d", t=float(k))
    decision = model.decide_one(later()[0][0], device="d", t=999.0)
    assert decision.label in decision.probabilities
    twin = rebuilt(*described(model))
    assert twin.decide_one(later()[0][0], device="d", t=999.0) == decision
    with pytest.raises(ParameterError, match=r"no RelSim.*ProbabilityRejector"):
        streamlvq.RelSimRejector(MODELS[name](), threshold=0.1)


MONITOR = """
readings: {{topic: "plant/{{site}}/{{device}}", sequence: seq, time: t}}
decisions: {{topic: "out/{{site}}/{{device}}"}}
model: {{type: {0}}}
integrator: {{window: 3}}
rejector: {{type: probability, target_rate: 0.1, memory: 50}}
"""


def test_a_monitor_serves_them(name: str) -> None:
    """However readings come together, decisions and states are the same, also after a restart."""
    config = loads(MONITOR.format(name))
    before, after = streams.readings(200, twice=0.1), streams.readings(100, seed=7)
    after.keys = [key + 1000 for key in after.keys]
    first, second = streamlvq.Monitor(config), streamlvq.Monitor(config)
    said = streams.say(first, before, seed=1)
    assert said == streams.say(second, before, seed=2)
    assert sum(accepted for _, _, accepted, *_ in said) > 50
    assert first.checkpoint() == second.checkpoint()
    restored = streamlvq.Monitor.restore(config, first.checkpoint())
    assert streams.say(restored, after) == streams.say(second, after)
    assert restored.checkpoint() == second.checkpoint()


def test_a_fleet_refuses_them(name: str) -> None:
    text = MONITOR.format(name) + "fleet: {name: f, trust: everyone}"
    with pytest.raises(ConfigError, match=f"model.type: .*share, got {name}"):
        loads(text)
