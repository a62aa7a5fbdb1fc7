"""The kernels of the model of pairs against its oracle, after every sample.

Runs compiled and, with NUMBA_DISABLE_JIT=1, as plain Python.
"""

from __future__ import annotations

import math
import os
from typing import Any

import numba
import numpy as np
import pytest

import naive
import streamlvq
from naive import Array, NaivePairs, Platt
from streamlvq.kernels import layout as at
from streamlvq.kernels import views
from streamlvq.kernels.layout import COUPLINGS
from streamlvq.kernels.learning import (
    clear,
    move,
    move_both,
    step_collected,
    step_metric_adaptive,
    step_metric_both,
)
from streamlvq.kernels.views import metric_number
from support.agreement import assert_close, assert_same_state
from support.samples import blobs, readings

INTERPRETED = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")
SAMPLES = 40 if INTERPRETED else 120
D = 5

SMALL: dict[str, Any] = {"rehearsal": 2, "buffer_size": 25}
QUIET: dict[str, Any] = {"rehearsal": 0}
CONSTANT: dict[str, Any] = {
    "step": "constant", "learning_rate": 0.02, "metric_learning_rate": 0.01,
}  # fmt: skip

CASES: list[dict[str, Any]] = [
    {},
    QUIET,
    {"rehearsal": 8},
    {**SMALL, "half_life": 20.0},
    {**SMALL, "activation": "sigmoid", "slope": 5.0},
    {**SMALL, "step_decay": 0.9},
    {**SMALL, **CONSTANT},
    {**SMALL, **CONSTANT, "step": "published"},
    {**QUIET, **CONSTANT, "activation": "sigmoid"},
    {**SMALL, "rank": 1},
    {**SMALL, "rank": 2},
    {**SMALL, "rank": 3, "seed": 7},
    {**SMALL, "rank": None},
    {**SMALL, **CONSTANT, "rank": 3},
    {**SMALL, "standardize": False, "scale_floor": 0.0},
]


def case_id(params: dict[str, Any]) -> str:
    return "-".join(f"{key}={value}" for key, value in params.items()) or "defaults"


def new_pair(params: dict[str, Any], d: int) -> tuple[streamlvq.PairwiseLVQ, NaivePairs]:
    model = streamlvq.PairwiseLVQ(**params)
    return model, NaivePairs(model, d)


def learn_both(model: streamlvq.PairwiseLVQ, oracle: NaivePairs, X: Array, y: Any) -> None:
    """Each sample is predicted, then learnt, and then all that is known is compared."""
    for x, row, c in zip(readings(X), X, np.asarray(y).tolist(), strict=True):
        if oracle.known:
            p = model.predict_proba_one(x)
            assert_close([p[k] for k in range(oracle.known)], oracle.predict(row), f"p of {x}")
        model.learn_one(x, c)
        oracle.learn(row, c)
        assert_same_state(model, oracle)


@pytest.mark.parametrize("missing", [0.0, 0.25], ids=["complete", "gaps"])
@pytest.mark.parametrize("params", CASES, ids=case_id)
def test_every_step_equals_the_oracle(params: dict[str, Any], missing: float) -> None:
    X, y = blobs(SAMPLES, D, 3, seed=3, missing=missing)
    if params.get("standardize") is False:
        X = (X - np.nanmean(X, axis=0)) / np.nanstd(X, axis=0)
    learn_both(*new_pair(params, D), X, y)


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("coupling", COUPLINGS)
def test_couplings_equal_the_oracle(coupling: str, classes: int) -> None:
    X, y = blobs(SAMPLES // 3, D, classes, seed=4)
    learn_both(*new_pair({**SMALL, "coupling": coupling}, D), X, y)


def test_coupling_may_change_on_the_way() -> None:
    X, y = blobs(SAMPLES // 3, D, 3, seed=5)
    model, oracle = new_pair(SMALL, D)
    for k, coupling in enumerate([*COUPLINGS, "pkpd"]):
        model.coupling = coupling
        part = slice(k * len(X) // 6, (k + 1) * len(X) // 6)
        learn_both(model, oracle, X[part], y[part])


@pytest.mark.parametrize("rehearsal", [0, 2])
def test_classes_that_appear_equal_the_oracle(rehearsal: int) -> None:
    """One after the other, past the room that a model starts with."""
    X, y = blobs(SAMPLES, D, 6, seed=6)
    order = np.argsort(np.maximum(y, np.arange(SAMPLES) * 6 // SAMPLES), kind="stable")
    learn_both(*new_pair({"rehearsal": rehearsal}, D), X[order], y[order])


@pytest.mark.parametrize("rank", [2, 12])
def test_features_that_appear_equal_the_oracle(rank: int) -> None:
    """While a class is new, and after.

    From two on: the gradient of a metric of one feature is zero, and what rounding leaves of it
    (1e-17 here, 1e-33 there) would be its first squares.
    """
    X, y = blobs(SAMPLES, D, 3, seed=7)
    model, oracle = new_pair({**SMALL, "rank": rank}, 2)
    for d, part in zip(range(2, D + 1), np.array_split(np.arange(SAMPLES), D - 1), strict=True):
        oracle.widen(d - oracle.d)
        learn_both(model, oracle, X[part, :d], y[part])


@pytest.mark.parametrize("d", [1, 2])
def test_few_features_equal_the_oracle(d: int) -> None:
    X, y = blobs(SAMPLES, d, 2, seed=8)
    learn_both(*new_pair(SMALL, d), X, y)


def test_readings_without_any_feature_equal_the_oracle() -> None:
    X, y = blobs(SAMPLES // 2, D, 3, seed=9)
    X[::4] = np.nan
    learn_both(*new_pair(SMALL, D), X, y)


# --- recorded training sets -----------------------------------------------------------------------


@pytest.mark.parametrize("missing", [0.0, 0.2], ids=["complete", "gaps"])
@pytest.mark.parametrize("n", [20, 60], ids=["few", "held-out"])
@pytest.mark.parametrize("epochs", [1, 3])
def test_training_equals_the_oracle(n: int, epochs: int, missing: float) -> None:
    X, y = blobs(n, D, 3, seed=10, missing=missing)
    model, oracle = new_pair(SMALL, D)
    model.train(readings(X), y, epochs=epochs, seed=4)
    oracle.train(X, y.tolist(), epochs, seed=4)
    assert_same_state(model, oracle)
    learn_both(model, oracle, X[:20], y[:20])


def test_training_after_learning_equals_the_oracle() -> None:
    """Two classes are known already, one is new."""
    X, y = blobs(60, D, 3, seed=11)
    model, oracle = new_pair(SMALL, D)
    early = np.flatnonzero(y < 2)[:15]
    learn_both(model, oracle, X[early], y[early])
    model.train(readings(X), y, epochs=2, seed=4)
    oracle.train(X, y.tolist(), 2, seed=4)
    assert_same_state(model, oracle)


# --- the sigmoids ---------------------------------------------------------------------------------


def test_sigmoid_step_descends_the_log_loss() -> None:
    """Against gradient and Hessian by finite differences."""
    score, h = 0.3, 1e-4
    target = 1 - (4 + 1) / (4 + 2)

    def loss(slope: float, offset: float) -> float:
        p = 1 / (1 + math.exp(slope * score + offset))
        return -target * math.log(p) - (1 - target) * math.log(1 - p)

    def bend(i: int, j: int) -> float:
        steps = np.eye(2) * h
        corners = [(a, b) for a in (1, -1) for b in (1, -1)]
        return sum(a * b * loss(*(at_point + a * steps[i] + b * steps[j])) for a, b in corners) / (
            4 * h * h
        )

    at_point = np.array([-3.0, 0.5])
    slope = [(loss(*(at_point + s)) - loss(*(at_point - s))) / (2 * h) for s in np.eye(2) * h]
    before = np.array([[5.0, 1.0], [1.0, 7.0]])
    sigmoid = Platt(*at_point.tolist(), before, [9, 4])
    sigmoid.fit(score, first=False)
    hessian = 0.999 * before + [[bend(i, j) for j in range(2)] for i in range(2)]
    np.testing.assert_allclose(sigmoid.hessian, hessian, rtol=1e-6)
    expected = at_point - np.linalg.solve(hessian + np.eye(2), slope)
    assert [sigmoid.slope, sigmoid.offset] == pytest.approx(expected.tolist(), rel=1e-6)
    assert sigmoid.seen == [9, 5]


def test_sigmoids_stay_in_their_bounds() -> None:
    """However easy, one-sided or contradictory a pair is, and then couplings are finite."""
    random = np.random.default_rng(12)
    n = 50 if INTERPRETED else 2000
    for rare, swap in ((2, 0), (n, 0), (2, 2)):
        model = streamlvq.PairwiseLVQ(rehearsal=0)
        for k in range(n):
            c = int(k % rare == 0)
            place = 1 - c if swap and k % swap else c
            model.learn_one({"a": 9.0 * place + random.normal() * 0.01}, c)
        slope, offset = model._engine.state["platt"][0, :2]
        assert -100.0 <= slope <= -0.01
        assert -30.0 <= offset <= 30.0
        for coupling in COUPLINGS:
            model.coupling = coupling
            assert sum(model.predict_proba_one({"a": 0.0}).values()) == pytest.approx(1.0)


# --- two prototypes with a matrix in common -------------------------------------------------------


@pytest.mark.parametrize("rank", [1, 2, 3, 6])
@pytest.mark.parametrize("decay", [1.0, 0.9])
def test_step_of_two_outer_products_is_the_general_step(rank: int, decay: float) -> None:
    """The gradient u z' + v y', written out or not; of the second of three metrics."""
    random = np.random.default_rng(rank)
    d, rate = 6, 0.07
    both = getattr(step_metric_both, "py_func", step_metric_both)
    adaptive = getattr(step_metric_adaptive, "py_func", step_metric_adaptive)
    omega = np.array([naive.unit(random.normal(size=(rank, d))) for _ in range(3)])
    sums = random.random((3, rank)), random.random((3, d)), random.random(3)
    fast = [array.copy() for array in (omega, *sums)]
    slow = [array.copy() for array in (omega, *sums)]
    for _ in range(3):
        u, v, z, y = (random.normal(size=size) for size in (rank, rank, d, d))
        gradient = (np.outer(u, z) + np.outer(v, y)).ravel()
        _, rows, columns, total = slow
        flat = slow[0][1].reshape(-1)
        adaptive(flat, gradient, rate, decay, rows[1], columns[1], total, 1, np.empty(d))
        slow[0][1] = naive.unit(slow[0][1])
        table = fast[0].reshape(3 * rank, d)
        both(table, 1, rank, u, v, z, y, rate, decay, *fast[1:])
        for actual, expected in zip(fast, slow, strict=True):
            np.testing.assert_allclose(actual, expected, rtol=1e-12)


@numba.njit
def move_one_by_one(floats, ints, work, x, right, wrong, pull, push, gaps):  # type: ignore[no-untyped-def]
    clear(views.metric_gradient(work, ints))
    move(floats, ints, work, x, right, pull, gaps)
    move(floats, ints, work, x, wrong, push, gaps)
    step_collected(floats, ints, work, metric_number(ints, right))


@numba.njit
def move_together(floats, ints, work, x, right, wrong, pull, push, gaps):  # type: ignore[no-untyped-def]
    move_both(floats, ints, work, x, right, wrong, pull, push, gaps)


@pytest.mark.parametrize("name", ["GMLVQ", "PairwiseLVQ"])
@pytest.mark.parametrize("rank", [1, 2, 12])
@pytest.mark.parametrize("missing", [0, 2, D], ids=["complete", "gaps", "empty"])
def test_moving_two_prototypes_together_is_moving_both(name: str, rank: int, missing: int) -> None:
    X, y = blobs(30, D, 3, seed=13)
    model = getattr(streamlvq, name)(rank=rank, rehearsal=0)
    model.learn_array(X, y)
    engine = model._engine
    x = X[7].copy()
    x[:missing] = np.nan
    answers = []
    for act in (move_together, move_one_by_one):
        floats, work = engine.floats.copy(), engine.work.copy()
        act(floats, engine.ints.copy(), work, x, 3, 2, 0.7, -0.4, int(missing > 0))
        answers.append(floats)
    assert missing == D or not np.array_equal(answers[0], engine.floats)
    np.testing.assert_allclose(answers[0], answers[1], rtol=1e-11, atol=1e-13)
    assert engine.state.size(at.N_PROTOTYPES) > 3
