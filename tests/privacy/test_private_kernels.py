"""What a batch adds to a release: kernels against plain Python, and how far a reading moves it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from naive_private import GRID, WEIGHTS, Naive
from streamlvq.kernels import kernels
from streamlvq.privacy.vector import BatchVector

D, N = 3, 4


def naive(local: bool, seed: int = 0, prototypes: bool = True) -> Naive:
    rng = np.random.default_rng(seed)
    metrics = rng.normal(size=(N if local else 1, D, D))
    return Naive(
        low=[-1.0, 0.0, -5.0],
        high=[1.0, 10.0, 5.0],
        centre=rng.normal(size=D).tolist(),
        inverse=rng.uniform(0.2, 2.0, D).tolist(),
        radius=1.5,
        clip=0.7,
        missing=rng.normal(size=(N, D)).tolist(),
        metrics=metrics.tolist(),
        prototypes=rng.normal(size=(N, D)).tolist() if prototypes else [],
        local=local,
    )


def arrays(model: Naive) -> tuple[Any, ...]:
    per_feature = (model.low, model.high, model.centre, model.inverse)
    return (
        *map(np.array, per_feature),
        np.array(model.missing),
        np.array(model.metrics),
        np.array(model.prototypes).reshape(-1, D),
    )


def floats(model: Naive) -> Any:
    return np.array([model.radius, model.clip, GRID, *WEIGHTS, 0.5])


def vector(model: Naive) -> BatchVector:
    return BatchVector(D, N, model.local, model.radius, model.clip)


def added(model: Naive, rows: Any, codes: Any) -> Any:
    out = np.zeros(vector(model).size)
    arguments = (floats(model), np.array(rows, float), np.array(codes), *arrays(model))
    kernels("private").add_private_rows(*arguments, np.zeros(5 * D + 3 * N), out)
    return out


@pytest.mark.parametrize("local", [False, True])
@pytest.mark.parametrize("prototypes", [False, True])
def test_contributions_are_those_of_the_oracle(local: bool, prototypes: bool) -> None:
    model = naive(local, prototypes=prototypes)
    rng = np.random.default_rng(1)
    rows, codes = rng.normal(size=(40, D)) * 4, rng.integers(N, size=40)
    rows[rng.random(rows.shape) < 0.15] = np.nan
    expected = np.sum([model.contribution(x, c) for x, c in zip(rows, codes, strict=True)], axis=0)
    found = added(model, rows, codes)
    assert np.array_equal(found, np.rint(found))
    assert np.abs(found - expected).max() <= len(rows)  # a step of the grid for each reading


def test_gradients_are_those_of_the_oracle() -> None:
    model, rng = naive(False), np.random.default_rng(2)
    rows, codes = rng.normal(size=(30, D)) * 4, rng.integers(N, size=30)
    out = np.zeros(N * D)
    arguments = (floats(model), rows, codes, *arrays(model), np.zeros(5 * D + 3 * N))
    kernels("private").add_gradient_rows(*arguments, out)
    assert np.array_equal(out, added(model, rows, codes)[-N * D :])


def test_the_gradient_is_that_of_the_log_probability() -> None:
    model, step = naive(False), 1e-6
    model.clip = 1e9
    u, label = [0.3, -0.8, 0.5], 2
    for c in range(N):
        for k in range(D):
            kept = model.prototypes[c][k]
            sides = []
            for shifted in (kept + step, kept - step):
                model.prototypes[c][k] = shifted
                sides.append(model.log_probability(u, label))
            model.prototypes[c][k] = kept
            slope = (sides[0] - sides[1]) / (2 * step)
            assert model.gradient(u, label)[c][k] * 1e9 == pytest.approx(slope, rel=1e-4, abs=1e-7)


@pytest.mark.parametrize("local", [False, True])
def test_probabilities_are_those_of_the_oracle(local: bool) -> None:
    model, rng = naive(local), np.random.default_rng(3)
    rows = rng.normal(size=(20, D)) * 3
    out = np.empty((20, N))
    ints = np.zeros(kernels("private").PRIVATE_HEADER, np.int64)
    ints[0] = D
    store = (floats(model), ints, np.zeros(5 * D + 3 * N), np.zeros((1, D)), np.zeros(1, np.int64))
    kernels("private").predict_private_rows(*store, *arrays(model), rows, out)
    assert np.allclose(out, [model.predict(x) for x in rows], rtol=1e-9)


# --- sensitivity ----------------------------------------------------------------------------------

anything = st.one_of(
    st.floats(-1e50, 1e50), st.sampled_from([math.nan, 0.0, -1.0, 1.0, 10.0, -5.0, 5.0, 1e9])
)


@given(st.lists(anything, min_size=D, max_size=D), st.integers(0, N - 1), st.integers(0, 5))
@settings(max_examples=200, deadline=None)
@pytest.mark.parametrize("local", [False, True])
def test_no_reading_moves_the_vector_further_than_the_sensitivity(
    local: bool, x: list[float], c: int, seed: int
) -> None:
    """Block by block, whatever the reading, its label and the model are."""
    model = naive(local, seed)
    shape = vector(model)
    moved = added(model, [x], [c])
    blocks = np.split(moved / GRID, np.cumsum(shape.sizes)[:-1])
    for block, weight in zip(blocks, shape.weights, strict=True):
        assert np.linalg.norm(block) <= weight
    assert np.linalg.norm(moved) <= shape.sensitivity * GRID


@pytest.mark.parametrize("local", [False, True])
def test_a_corner_reaches_the_sensitivity(local: bool) -> None:
    """Without the factor of one block the noise would be too small for this reading."""
    model = naive(local)
    model.prototypes = [[50.0 * (c == 1)] * D for c in range(N)]
    shape = vector(model)
    moved = added(model, [[1.0, 10.0, 5.0]], [1]) / GRID
    blocks = np.split(moved, np.cumsum(shape.sizes)[:-1])
    norms = [float(np.linalg.norm(block)) for block in blocks]
    assert norms == pytest.approx(shape.weights, rel=1e-5)
    for left_out in range(len(norms)):
        rest = math.sqrt(sum(w * w for k, w in enumerate(shape.weights) if k != left_out))
        assert np.linalg.norm(moved) > 1.01 * rest


@given(st.lists(anything, min_size=D, max_size=D))
@settings(max_examples=100, deadline=None)
def test_no_reading_moves_the_scales_further_than_one(x: list[float]) -> None:
    model, out = naive(False), np.zeros(2 * D)
    kernels("private").add_scale_rows(
        float(GRID), np.array([x]), np.array(model.low), np.array(model.high), out
    )
    assert np.linalg.norm(out) <= GRID


def test_a_corner_reaches_the_sensitivity_of_scales() -> None:
    model, out = naive(False), np.zeros(2 * D)
    kernels("private").add_scale_rows(
        float(GRID), np.array([model.high]), np.array(model.low), np.array(model.high), out
    )
    assert np.linalg.norm(out) == pytest.approx(GRID)


def test_vectors_are_unpacked_to_what_readings_say() -> None:
    model = naive(False)
    x, c = [0.5, 3.0, -2.0], 2
    u = np.array(model.clipped(model.standardised(x, model.missing[c])))
    sums = vector(model).unpack(added(model, [x, x], [c, c]))
    assert np.allclose(sums.sums[c], 2 * u, atol=1e-6)
    assert np.allclose(sums.counts, [0, 0, 2, 0], atol=1e-6)
    assert np.allclose(sums.moments[0], 2 * np.outer(u, u), atol=1e-5)
    assert np.allclose(sums.gradient, 2 * np.array(model.gradient(u.tolist(), c)) * 0.7, atol=1e-6)
