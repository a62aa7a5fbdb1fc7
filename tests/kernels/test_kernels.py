"""The compiled kernels against the oracle of `naive`, and the oracle against finite differences.

Runs compiled and, with NUMBA_DISABLE_JIT=1, as plain Python.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import naive
import streamlvq
from naive import Array, NaiveLVQ, oracle_of
from streamlvq.kernels import layout as at
from streamlvq.models.engine import Engine, ModelSpec
from support.agreement import assert_close, assert_same_state
from support.samples import MODELS, blobs, build, knowledge, readings

INTERPRETED = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")
SAMPLES = 60 if INTERPRETED else 300
D = 4

GRADIENT = [n for n in MODELS if naive.MODELS[n][0] in ("glvq", "rslvq", "pairs")]
ACTIVATED = [n for n in MODELS if naive.MODELS[n][0] in ("glvq", "pairs")]
MATRIX = [n for n in MODELS if naive.MODELS[n][1] == naive.MATRIX]
METRIC = [n for n in MODELS if naive.MODELS[n][1] != naive.EUCLIDEAN]
ALL = list(MODELS)

QUIET: dict[str, Any] = {"rehearsal": 0}
SMALL: dict[str, Any] = {"rehearsal": 2, "buffer_size": 25, "max_prototypes_per_class": 3}
CONSTANT: dict[str, Any] = {"step": "constant", "learning_rate": 0.02}
PUBLISHED: dict[str, Any] = {"step": "published", "learning_rate": 0.02}

# Steps as long as the clips allow: rounding errors grow tenfold every few samples.
WILD: list[dict[str, Any]] = [
    {**SMALL, **CONSTANT, "learning_rate": 2.0},
    {**SMALL, **CONSTANT, "metric_learning_rate": 50.0},
]

CASES: list[tuple[list[str], dict[str, Any]]] = [
    (ALL, {"rehearsal": 8}),
    (ALL, QUIET),
    (ALL, {**SMALL, "half_life": 40.0}),
    (ALL, {**SMALL, "prototypes_per_class": 2, "max_prototypes_per_class": 2}),
    (ALL, {**SMALL, "standardize": False, "scale_floor": 0.0}),
    (ALL, {**SMALL, "class_weight": "balanced"}),
    (ALL, {**SMALL, "class_weight": {0: 0.5, 2: 3.0}}),
    (ALL, {**SMALL, "absent": "zero"}),
    (ALL, {**SMALL, "absent": "zero", "half_life": 40.0}),
    (GRADIENT, {**SMALL, **CONSTANT}),
    (GRADIENT, WILD[0]),
    (GRADIENT, {**SMALL, "step_decay": 0.9, "half_life": 100.0}),
    (GRADIENT, {**SMALL, **PUBLISHED}),
    (GRADIENT, {**SMALL, **PUBLISHED, "standardize": False, "half_life": 40.0}),
    (ACTIVATED, {**SMALL, "activation": "sigmoid", "slope": 5.0}),
    (ACTIVATED, {**QUIET, **CONSTANT, "activation": "sigmoid"}),
    (MATRIX, {**SMALL, "rank": 2}),
    (MATRIX, {**SMALL, **CONSTANT, "rank": 2, "seed": 7}),
    (MATRIX, {**SMALL, "rank": None}),
    (METRIC, WILD[1]),
    (["RSLVQ", "MRSLVQ", "LMRSLVQ"], {**SMALL, "sigma": 0.5}),
    (["LVQ21", "LVQ3"], {**SMALL, "window": 0.6, "learning_rate": 0.1}),
    (["LVQ3"], {**SMALL, "epsilon": 0.5, "prototypes_per_class": 3}),
    (["OLVQ1"], {**SMALL, "learning_rate": 0.7}),
]


def pinned(name: str, params: dict[str, Any]) -> dict[str, Any]:
    """Gentle rates where a case asks for none, so that rounding errors stay what they are.

    The defaults are tuned for accuracy; some of them are chaotic under constant steps.
    """
    gentle: dict[str, Any] = {}
    if naive.MODELS[name][0] == "rslvq":
        gentle["sigma"] = 0.2
    if name in METRIC and params.get("step") in ("constant", "published"):
        gentle["metric_learning_rate"] = 0.01
    return gentle | params


def case_id(case: tuple[str, dict[str, Any]]) -> str:
    return case[0] + "".join(f"-{k}={v}" for k, v in case[1].items())


EVERY_CASE = [(name, params) for names, params in CASES for name in names]


def run_both(
    name: str, params: dict[str, Any], X: Array, y: Any, weights: Array | None = None
) -> tuple[Any, NaiveLVQ]:
    """Teach a model and its oracle; every sample is predicted before it is learnt."""
    each = np.ones(len(X)) if weights is None else weights
    model = build(name, **params)
    oracle = oracle_of(model, X.shape[1])
    for x, row, c, w in zip(readings(X), X, y.tolist(), each.tolist(), strict=True):
        if oracle.known:
            expected = oracle.predict(row)
            actual = [model.predict_proba_one(x)[k] for k in range(oracle.known)]
            assert_close(actual, expected, f"probabilities of {x}")
        model.learn_one(x, c, w)
        oracle.learn(row, c, w)
    assert_same_state(model, oracle)
    return model, oracle


def test_kernel_equals_oracle_with_weights(name: str) -> None:
    X, y = blobs(SAMPLES // 2, D, 3, seed=11)
    weights = np.random.default_rng(1).choice([0.25, 1.0, 4.0], len(X))
    run_both(name, pinned(name, SMALL), X, y, weights)


def test_kernel_equals_oracle_with_a_rare_class(name: str) -> None:
    X, y = blobs(SAMPLES // 2, D, 3, seed=12)
    kept = (y != 2) | (np.arange(len(y)) % 10 == 0)
    run_both(name, pinned(name, SMALL), X[kept], y[kept])


@pytest.mark.parametrize("case", EVERY_CASE, ids=case_id)
def test_kernel_equals_oracle(case: tuple[str, dict[str, Any]]) -> None:
    name, params = case
    n = 20 if params in WILD else SAMPLES if params["rehearsal"] == 0 else SAMPLES // 3
    X, y = blobs(n, D, 3, seed=3)
    if params.get("standardize") is False:
        X = (X - X.mean(axis=0)) / X.std(axis=0)
    run_both(name, pinned(name, params), X, y)


@pytest.mark.parametrize("step", ["adagrad", "constant", "published"])
def test_kernel_equals_oracle_with_missing_values(name: str, step: str) -> None:
    params = dict(SMALL)
    if name in GRADIENT:
        params |= {"step": step, "learning_rate": 0.03 if step == "adagrad" else 0.005}
    if step != "adagrad" and name not in GRADIENT:
        pytest.skip("has no choice of steps")
    X, y = blobs(SAMPLES // 2, D, 3, seed=5, missing=0.3)
    # Without a feature in common all distances are 1, and any of them may win.
    X[:, 0] = np.where(np.isnan(X[:, 0]), 0.5, X[:, 0])
    run_both(name, pinned(name, params), X, y)


def test_nothing_in_common_is_a_distance_of_one(name: str) -> None:
    model = MODELS[name](rehearsal=0)
    for k in range(6):
        model.learn_one({"a": float(k), "b": None}, k % 2)
    explanation = model.explain_one({"b": 3.0})
    assert (explanation.distance, explanation.runner_up_distance) == (1.0, 1.0)


def test_kernel_equals_oracle_on_one_feature_and_two_classes(name: str) -> None:
    X, y = blobs(SAMPLES // 2, 1, 2, seed=6)
    run_both(name, SMALL, X, y)


def test_kernel_equals_oracle_with_a_constant_feature(name: str) -> None:
    X, y = blobs(SAMPLES // 2, D, 3, seed=7)
    X[:, 2] = 41.7
    run_both(name, SMALL, X, y)


@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("half_life", [None, 60.0])
def test_kernel_equals_oracle_when_a_constant_feature_moves(
    name: str, standardize: bool, half_life: float | None
) -> None:
    X, y = blobs(SAMPLES // 3, D, 3, seed=21)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    X[: SAMPLES // 6, 2] = 41.7
    X[3:8, 0] = np.nan
    X[-20:, 3] = np.nan
    params = {**SMALL, "standardize": standardize, "half_life": half_life}
    if naive.MODELS[name][0] == "rslvq":
        params["sigma"] = 1.0
    run_both(name, params, X, y)


@pytest.mark.parametrize("step", ["adagrad", "constant"])
def test_a_constant_feature_changes_nothing(name: str, step: str) -> None:
    """Whatever it reads, a model decides and learns as if it had never had that sensor."""
    X, y = blobs(SAMPLES // 3, D, 3, seed=22)
    params: dict[str, Any] = {**SMALL}
    if name in GRADIENT:
        params = pinned(name, {**SMALL, "step": step, "learning_rate": 0.01})
    if name in MATRIX:
        params["rank"] = None
    without, constant = build(name, **params), build(name, **params)
    names = [f"f{i:02}" for i in range(D)]
    for row, label in zip(X, y.tolist(), strict=True):
        x = dict(zip(names, row.tolist(), strict=True))
        expected = list(without.predict_proba_one(x).values())
        assert_close(list(constant.predict_proba_one({**x, "z": 41.7}).values()), expected, "z")
        without.learn_one(x, label)
        constant.learn_one({**x, "z": 41.7}, label)
    assert constant.relevances()["z"] == 0.0
    assert sum(constant.relevances().values()) == pytest.approx(1.0)


@pytest.mark.parametrize("half_life", [None, 40.0])
def test_kernel_equals_oracle_on_binary_features(name: str, half_life: float | None) -> None:
    """Readings repeat, prototypes lie on them, and labels contradict each other."""
    random = np.random.default_rng(24)
    X = random.integers(0, 2, (SAMPLES // 4, 2)).astype(float)
    y = X[:, 0].astype(np.int64) ^ (random.random(len(X)) < 0.1)
    y ^= y[0]
    run_both(name, pinned(name, {**SMALL, "half_life": half_life}), X, y)


def test_kernel_equals_oracle_when_features_appear(name: str) -> None:
    X, y = blobs(SAMPLES // 2, 5, 3, seed=8)
    model = build(name, **SMALL)
    oracle = oracle_of(model, 2)
    for k, (x, row, c) in enumerate(zip(readings(X), X, y.tolist(), strict=True)):
        width = 2 if k < 20 else 5
        if width > oracle.d:
            oracle.widen(width - oracle.d)
        model.learn_one({f: x[f] for f in list(x)[:width]}, c)
        oracle.learn(row[:width], c)
    assert_same_state(model, oracle)


def test_oracle_has_every_model() -> None:
    assert set(naive.MODELS) == set(MODELS)


# --- the gradients are those of the costs ---------------------------------------------------------


def numeric(cost: Callable[[Array], float], at_point: Array, h: float = 1e-6) -> Array:
    """Central differences."""
    gradient = np.zeros_like(at_point)
    for k in np.ndindex(at_point.shape):
        step = np.zeros_like(at_point)
        step[k] = h
        gradient[k] = (cost(at_point + step) - cost(at_point - step)) / (2 * h)
    return gradient


class Scene:
    """A random reading among random prototypes, several for each class."""

    def __init__(self, kind: str, seed: int, rank: int = 3, missing: bool = False) -> None:
        random = np.random.default_rng(seed)
        self.kind = kind
        self.x = random.normal(size=D)
        if missing:
            self.x[1] = np.nan
        self.V = random.normal(size=(5, D))
        self.labels = np.array([0, 0, 1, 1, 2])
        rows = {naive.EUCLIDEAN: 0, naive.DIAGONAL: 1, naive.MATRIX: rank}[kind]
        self.omegas = random.normal(size=(5, rows, D))

    def omega(self, omegas: Array, j: int) -> Array | None:
        return None if self.kind == naive.EUCLIDEAN else omegas[j]

    def distances(self, V: Array, omegas: Array) -> Array:
        lams = [naive.quadratic_form(self.kind, self.omega(omegas, j), D) for j in range(5)]
        return np.array([naive.distance(lam, self.x - v) for lam, v in zip(lams, V, strict=True)])


COSTS = {
    "identity": (naive.glvq_cost, naive.glvq_slopes, 0.0),
    "sigmoid": (naive.glvq_cost, naive.glvq_slopes, 4.0),
    "likelihood": (naive.rslvq_cost, naive.rslvq_slopes, 0.4),
}
KINDS = [naive.EUCLIDEAN, naive.DIAGONAL, naive.MATRIX]


@pytest.mark.parametrize("which", COSTS)
@pytest.mark.parametrize("seed", range(5))
def test_slopes_are_derivatives_of_the_cost(which: str, seed: int) -> None:
    cost, slopes, parameter = COSTS[which]
    scene = Scene(naive.EUCLIDEAN, seed)
    d = scene.distances(scene.V, scene.omegas)
    expected = numeric(lambda v: cost(v, scene.labels, 0, parameter), d)
    np.testing.assert_allclose(slopes(d, scene.labels, 0, parameter), expected, atol=1e-7)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("which", COSTS)
@pytest.mark.parametrize("missing", [False, True])
def test_prototype_gradient(which: str, kind: str, missing: bool) -> None:
    cost, slopes, parameter = COSTS[which]
    scene = Scene(kind, 11, missing=missing)
    d = scene.distances(scene.V, scene.omegas)
    s = slopes(d, scene.labels, 1, parameter)
    actual = [
        s[j] * naive.distance_gradients(kind, scene.omega(scene.omegas, j), scene.x - v)[0]
        for j, v in enumerate(scene.V)
    ]
    expected = numeric(
        lambda V: cost(scene.distances(V, scene.omegas), scene.labels, 1, parameter), scene.V
    )
    np.testing.assert_allclose(actual, expected, atol=1e-7)


@pytest.mark.parametrize("kind", [naive.DIAGONAL, naive.MATRIX])
@pytest.mark.parametrize("which", COSTS)
def test_metric_gradient_of_every_prototype(which: str, kind: str) -> None:
    """Two prototypes of a class have two metrics: the gradient of one is not that of the other."""
    cost, slopes, parameter = COSTS[which]
    scene = Scene(kind, 12)
    d = scene.distances(scene.V, scene.omegas)
    s = slopes(d, scene.labels, 1, parameter)
    actual = [
        s[j] * naive.distance_gradients(kind, scene.omegas[j], scene.x - v)[1]
        for j, v in enumerate(scene.V)
    ]
    expected = numeric(
        lambda m: cost(scene.distances(scene.V, m), scene.labels, 1, parameter), scene.omegas
    )
    np.testing.assert_allclose(actual, expected, atol=1e-7)


def test_sigmoid_has_slope_one_at_the_border() -> None:
    d, labels = np.array([0.7, 0.7]), np.array([0, 1])
    assert naive.glvq_slopes(d, labels, 0, 9.0) == pytest.approx(
        naive.glvq_slopes(d, labels, 0, 0.0)
    )


def test_temperature_step_descends_the_log_loss() -> None:
    """Gradient and expected curvature along the logarithm, by finite differences."""
    scores, temperature = np.array([0.9, -1.0, -0.4]), 1.3

    def loss(u: Array, c: int) -> float:
        return -float(np.log(naive.softmax(math.exp(u[0]) * scores)[c]))

    u, h = np.array([math.log(temperature)]), 1e-4
    bends = [(loss(u + h, c) - 2 * loss(u, c) + loss(u - h, c)) / h**2 for c in range(3)]
    bend = float(naive.softmax(temperature * scores) @ bends)  # as expected before c is known
    for c in range(3):
        slope = numeric(lambda u, c=c: loss(u, c), u)[0]
        new, curvature = naive.newton(temperature, 10.0, scores, c)
        assert curvature == pytest.approx(9.8 + bend / temperature**2, rel=1e-5)
        step = slope / (temperature**2 * (9.8 + 2.0) + bend)
        shortened = math.copysign(math.log1p(abs(step)), step)
        assert math.log(new / temperature) == pytest.approx(-shortened, rel=1e-5)
        assert abs(shortened) > 0.001


@pytest.mark.parametrize("weight", [1.0, 0.25, 1e6])
@pytest.mark.parametrize("surprise", [-300.0, -3.0, 0.0, 3.0, 300.0])
def test_temperature_after_a_surprise(weight: float, surprise: float) -> None:
    """Kernel and oracle after a sample that scores far below or above the other class."""
    model = MODELS["GLVQ"](rehearsal=0, prototypes_per_class=1)
    model.learn_array(np.array([[0.0], [1.0], [0.2], [0.7]]), [0, 1, 0, 1], features=["f"])
    model.predict_proba_one({"f": 0.4})
    engine = model._engine
    before = engine.state["calibration"].copy()
    scores = np.array([surprise, 0.0])
    room = engine.state.size(at.CLASS_CAPACITY)
    engine.work[1 + 3 * room : 1 + 3 * room + 2] = scores
    model.learn_one({"f": 0.4}, 0, w=weight)
    expected = naive.newton(before[at.TEMPERATURE], before[at.CURVATURE], scores, 0, weight)
    np.testing.assert_allclose(engine.state["calibration"], expected, rtol=1e-12)
    assert 0.01 <= engine.state["calibration"][at.TEMPERATURE] <= 100.0


# --- and the kernels go down the costs ------------------------------------------------------------


class Snapshot:
    """What a model's cost depends on, read from its memory in units of the feature scales."""

    def __init__(self, model: Any) -> None:
        state = model._engine.state
        self.n = state.size(at.N_PROTOTYPES)
        self.inverse = state["inverse"].copy()
        self.V = state["w"][: self.n] * self.inverse
        self.labels = state["label"][: self.n].copy()
        self.omegas = state["omega"][: self.n].copy()
        self.rule, self.kind, _ = naive.MODELS[type(model).__name__]
        self.metric_of = model._engine.spec.metric_of
        self.parameter = getattr(model, "sigma", 0.0)

    def cost(self, x: Array, c: int, V: Array, omegas: Array) -> float:
        lams = [
            naive.quadratic_form(self.kind, omegas[self.metric_of(j)] if len(omegas) else None, D)
            for j in range(self.n)
        ]
        z = x * self.inverse - V
        d = np.array(
            [naive.distance(lam, difference) for lam, difference in zip(lams, z, strict=True)]
        )
        function = naive.rslvq_cost if self.rule == "rslvq" else naive.glvq_cost
        return function(d, self.labels, c, self.parameter)


RATE = 1e-5


@pytest.mark.parametrize("name", GRADIENT)
@pytest.mark.parametrize("c", [0, 1])
def test_constant_step_goes_down_the_cost(name: str, c: int) -> None:
    """A small step of the kernel is minus the numeric gradient, for prototypes and metrics."""
    params: dict[str, Any] = {
        "step": "constant", "learning_rate": RATE, "rehearsal": 0,
        "prototypes_per_class": 2, "max_prototypes_per_class": 2,
    }  # fmt: skip
    if name in METRIC:
        params["metric_learning_rate"] = 0.02
    if naive.MODELS[name][0] == "rslvq":
        params["sigma"] = 0.4
    X, y = blobs(40, D, 2, seed=13)
    model = build(name, **params)
    for x, label in zip(readings(X), y.tolist(), strict=True):
        model.learn_one(x, label)
    if name in METRIC:
        model.metric_learning_rate = RATE
    before = Snapshot(model)
    pair = before.V[[np.argmax(before.labels == k) for k in (0, 1)]]
    reading = (np.array([0.55, 0.45]) @ pair + 0.1) / before.inverse  # near a border
    model.learn_one(readings(reading[None])[0], c)
    after = Snapshot(model)
    # The scales moved on after the step: compare in the old ones.
    moved = after.V / after.inverse * before.inverse - before.V
    rows = model._engine.state.size(at.METRIC_RANK) if before.kind == naive.MATRIX else D
    slope = numeric(lambda V: before.cost(reading, c, V, before.omegas), before.V)
    assert np.abs(slope).max() > 1e-3
    np.testing.assert_allclose(moved / RATE / rows, -slope, rtol=1e-4, atol=1e-5)
    if name in METRIC:
        slope = numeric(lambda m: before.cost(reading, c, before.V, m), before.omegas)
        for old, new, gradient in zip(before.omegas, after.omegas, slope, strict=True):
            expected = naive.unit(old - RATE * gradient)
            np.testing.assert_allclose(new, expected, rtol=0, atol=1e-9)
            assert np.abs(new - old).max() > 1e-8 or np.abs(gradient).max() < 1e-2


def test_metrics_keep_their_norm_and_distances_stay_positive(name: str) -> None:
    X, y = blobs(SAMPLES, D, 3, seed=14)
    model = build(name, **SMALL)
    for x, label in zip(readings(X), y.tolist(), strict=True):
        model.learn_one(x, label)
    for p in model.prototypes():
        matrix = model.metric(p.index, raw=False)
        assert np.trace(matrix) == pytest.approx(1.0)
        assert np.linalg.eigvalsh(matrix).min() > -1e-12
    for x in readings(X[:30]):
        explanation = model.explain_one(x)
        assert explanation.distance >= 0
        assert explanation.runner_up_distance >= 0


@pytest.mark.parametrize("name", ["RSLVQ", "MRSLVQ", "LMRSLVQ"])
def test_narrow_components_still_learn_from_errors(name: str) -> None:
    """Far from its own prototypes a sample must pull them, however small sigma is."""
    X, y = blobs(100, D, 3, seed=15)
    run_both(name, {**QUIET, "sigma": 1e-3, "max_prototypes_per_class": 1}, X, y)


# --- the kernels as functions ---------------------------------------------------------------------


def test_array_kernels_equal_the_single_ones() -> None:
    def engine() -> Engine:
        design = ModelSpec(at.RULE_GLVQ, at.MATRIX, True, 2, True, 20, 1, 3)
        built = Engine(design, D, 2.0)
        built.set_parameters(model._parameters(), model._switches())
        return built

    model = streamlvq.LGMLVQ(rehearsal=2, buffer_size=20, rank=2, seed=3)
    X, y = blobs(SAMPLES, D, 3, seed=16)
    one, many = engine(), engine()
    for row, c in zip(X, y.tolist(), strict=True):
        one.work[:D] = row
        assert one.learn(c) == at.DONE
    many.learn_rows(X, y)
    assert one.floats.tobytes() == many.floats.tobytes()
    assert one.ints.tobytes() == many.ints.tobytes()


def test_learn_reports_an_infinite_feature_and_changes_nothing() -> None:
    X, y = blobs(20, D, 2, seed=17)
    model = streamlvq.GLVQ()
    for x, label in zip(readings(X), y.tolist(), strict=True):
        model.learn_one(x, label)
    engine = model._engine
    before = engine.floats.tobytes(), engine.ints.tobytes()
    engine.work[:D] = [0.0, 1.0, -np.inf, 2.0]
    assert engine.learn(0) == 3
    assert engine.observe() == 3
    assert engine.predict_kernel(*engine.memory) == 3
    assert (engine.floats.tobytes(), engine.ints.tobytes()) == before


def test_needs_slot_changes_nothing() -> None:
    engine = Engine(ModelSpec(at.RULE_GLVQ, at.EUCLIDEAN, False, None, True, 0, 1, 1), D, 2.0)
    model = streamlvq.GLVQ()
    engine.set_parameters(model._parameters(), model._switches())
    engine.make_room_for_classes(9)
    learn = engine.learn_kernel
    for c in range(4):
        engine.work[:D] = np.arange(D) * c
        assert learn(engine.floats, engine.ints, engine.work, c) == at.DONE
    before = engine.floats.tobytes(), engine.ints.tobytes()
    engine.work[:D] = 9.0
    assert learn(engine.floats, engine.ints, engine.work, 4) == at.NEEDS_SLOT
    assert (engine.floats.tobytes(), engine.ints.tobytes()) == before
    assert engine.learn(4) == at.DONE
    assert engine.known == 5


# --- answers that learning takes over from a prediction ------------------------------------------


@pytest.mark.parametrize("between", ["nothing", "observe", "other", "array", "parameter", "gap"])
def test_learning_after_a_prediction_is_learning(name: str, between: str) -> None:
    """Distances may be taken over from a prediction only while they are what they would be."""
    X, y = blobs(SAMPLES // 2, D, 3, seed=8)
    rows = readings(X)
    predicting, learning = build(name, rehearsal=2), build(name, rehearsal=2)
    for k, (x, label) in enumerate(zip(rows, y.tolist(), strict=True)):
        for model in (predicting, learning):
            if between == "gap" and k % 3 == 0:
                x = {**x, "f01": math.nan}
            if model is predicting:
                model.predict_proba_one(x)
            if between == "observe":
                model.observe_one(rows[k - 1])
            elif between == "parameter":
                model.half_life = 50.0 + k
            elif between == "other" and model is predicting:
                model.predict_one(rows[k - 1])
            elif between == "array" and model is predicting:
                model.predict_proba_array(X[:2])
            model.learn_one(x, label)
    assert knowledge(predicting) == knowledge(learning)


def test_learning_takes_over_the_answer_of_a_prediction(name: str) -> None:
    """Otherwise the test above would test nothing: here the answer is falsified on the way."""
    X, y = blobs(30, D, 3, seed=9)
    honest, deceived = build(name, rehearsal=0), build(name, rehearsal=0)
    for model in (honest, deceived):
        model.learn_array(X[:-1], y[:-1], features=[f"f{i:02}" for i in range(D)])
        model.predict_proba_one(readings(X)[-1])
    engine = deceived._engine
    room, known = engine.state.size(at.CLASS_CAPACITY), engine.known
    engine.work[D + 3 * room : D + 3 * room + known] = [5.0, -5.0, 0.0]  # the scores of the classes
    for model in (honest, deceived):
        model.learn_one(readings(X)[-1], int(y[-1]))
    temperatures = [m._engine.state["calibration"][at.TEMPERATURE] for m in (honest, deceived)]
    assert temperatures[0] != temperatures[1]
