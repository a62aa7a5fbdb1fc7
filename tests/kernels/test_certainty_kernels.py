"""The kernels behind windows, RelSim and thresholds against the oracle of `naive`.

Runs compiled and, with NUMBA_DISABLE_JIT=1, as plain Python.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from streamlvq.kernels import kernels
from streamlvq.kernels import layout as at
from support.samples import MODELS, blobs, readings, taught

distance, pipeline = kernels("distance"), kernels("pipeline")
steady = settings(derandomize=True, max_examples=60, deadline=None, database=None)
certainties = st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.5000001, 0.75, 1.0]) | st.floats(0, 1)
decisions = st.lists(st.tuples(certainties, st.booleans()), max_size=40)


def opinion(raw: list[float]) -> npt.NDArray[np.float64]:
    return np.array(raw) / sum(raw)


opinions = st.lists(st.floats(1e-9, 1), min_size=3, max_size=3).map(opinion)


# --- windows -------------------------------------------------------------------------------------


@steady
@given(st.lists(opinions, min_size=1, max_size=9), st.integers(1, 6))
def test_combine_and_advance(stream: list[npt.NDArray[np.float64]], size: int) -> None:
    logs, out = np.zeros((size, 4)), np.empty(3)
    for k, p in enumerate(stream):
        best = pipeline.combine(logs, p, out)
        last = [dict(enumerate(q)) for q in stream[max(0, k - size + 1) : k + 1]]
        assert dict(enumerate(out)) == pytest.approx(naive.integrated(last), rel=1e-9)
        assert best == out.argmax()
        pipeline.advance(logs, p)
    assert logs[0] == pytest.approx(logs[1:].sum(axis=0))


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan])
def test_what_is_no_probability_counts_as_the_floor(bad: float) -> None:
    out = np.empty(2)
    best = pipeline.combine(np.zeros((1, 1)), np.array([bad, 1.0]), out)
    assert best == 1
    assert out == pytest.approx([naive.FLOOR, 1.0])


def test_classes_without_a_column_take_the_last_one() -> None:
    logs, out = np.array([[math.log(0.5), math.log(0.25)]]), np.empty(3)
    pipeline.combine(logs, np.array([0.4, 0.4, 0.2]), out)
    assert out == pytest.approx(np.array([0.2, 0.1, 0.05]) / 0.35)


def test_sums_do_not_drift() -> None:
    logs = np.zeros((4, 3))
    random = np.random.default_rng(1)
    for p in random.dirichlet([0.1, 0.1], 2000):
        pipeline.advance(logs, p)
    assert logs[0, 0] == logs[1, 0] + logs[2, 0] + logs[3, 0]


# --- the two closest classes ---------------------------------------------------------------------


def test_closest_classes(with_relsim: str) -> None:
    X, y = blobs(80, 4, 5, seed=3, missing=0.1)
    model = taught(MODELS[with_relsim](rehearsal=2), X, y.tolist())
    for x in readings(X[:20]):
        model.predict_one(x)
        engine = model._engine
        d, room = len(model.features), engine.state.size(at.CLASS_CAPACITY)
        distances = engine.work[d + room : d + room + 5].tolist()
        relsim, near, other, winner, runner_up = distance.closest_classes(engine.ints, engine.work)
        order = np.argsort(distances, kind="stable")
        assert (winner, runner_up) == (order[0], order[1])
        assert (near, other) == (distances[winner], distances[runner_up])
        assert relsim == pytest.approx(naive.relsim(distances))
        for c in range(-1, 5):
            expected = relsim if c in (-1, winner) else 0.0
            assert distance.relsim(engine.ints, engine.work, c) == expected


def test_separation(with_relsim: str) -> None:
    X, y = blobs(80, 4, 5, seed=4, missing=0.1)
    model = taught(MODELS[with_relsim](rehearsal=2), X, y.tolist())
    prototypes, scale = model.prototypes(), model._engine.state["inverse"]
    for row, x in zip(X[:20], readings(X[:20]), strict=True):
        model.predict_one(x)
        engine = model._engine
        winners = engine.work[len(row) + 2 * engine.state.size(at.CLASS_CAPACITY) :]
        first, second = (prototypes[int(winners[c])] for c in (3, 1))
        way = [second.values[f] - first.values[f] for f in model.features]
        z = np.where(np.isnan(row), np.nan, way) * scale
        square = naive.distance(model.metric(first.index, raw=False), z)
        expected = 0.0 if np.isnan(z).all() else math.sqrt(square)
        assert distance.separation(*engine.memory, 3, 1) == pytest.approx(expected, rel=1e-9)


# --- thresholds ----------------------------------------------------------------------------------


def remembered(stream: list[tuple[float, bool]], room: int) -> npt.NDArray[np.float64]:
    memory = np.zeros((4, room))
    for seen, (certainty, right) in enumerate(stream):
        pipeline.remember(memory, seen, certainty, float(right))
    return memory


@steady
@given(decisions, st.integers(1, 15))
def test_memory_is_sorted_and_recent(stream: list[tuple[float, bool]], room: int) -> None:
    memory, last = remembered(stream, room), stream[-room:]
    kept = memory[pipeline.SORTED, : len(last)].tolist()
    assert kept == sorted(kept)
    right = memory[pipeline.SORTED_RIGHT, : len(last)].astype(bool).tolist()
    assert sorted(zip(kept, right, strict=True)) == sorted(last)


@steady
@given(decisions, st.integers(1, 15), st.sampled_from([0.0, 0.5, 0.9, 0.99, 1.0]))
def test_accurate_threshold(stream: list[tuple[float, bool]], room: int, target: float) -> None:
    memory, last = remembered(stream, room), stream[-room:]
    found = pipeline.accurate_threshold(memory, len(last), target, len(stream))
    assert found == naive.accurate_threshold(last, target)


@steady
@given(decisions, st.integers(1, 15), st.sampled_from([0.0, 0.125, 0.25, 0.5, 1.0]))
def test_cheapest_threshold(stream: list[tuple[float, bool]], room: int, cost: float) -> None:
    """No threshold is cheaper, and none of those that cost as much rejects less."""
    memory, last = remembered(stream, room), stream[-room:]
    found = pipeline.cheapest_threshold(memory, len(last), cost, len(stream))
    costs = {t: naive.cost_of(last, t, cost) for t in [*(c for c, _ in last), math.inf]}
    assert costs[found] == min(costs.values())
    assert found == min(t for t in costs if costs[t] == costs[found])
