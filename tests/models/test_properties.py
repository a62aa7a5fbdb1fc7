"""What must hold for any stream, with streams that hypothesis makes up."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.samples import MODELS, blobs, build, frozen, knowledge, readings, taught

modest = settings(
    derandomize=True,
    max_examples=8,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)

seeds = st.integers(0, 10_000)
missing = st.sampled_from([0.0, 0.0, 0.2])
parameters = st.fixed_dictionaries(
    {
        "rehearsal": st.sampled_from([0, 2, 8]),
        "buffer_size": st.integers(1, 40),
        "prototypes_per_class": st.integers(1, 2),
        "max_prototypes_per_class": st.integers(1, 4),
        "half_life": st.sampled_from([None, None, 30.0]),
        "seed": st.integers(0, 100),
    }
)


def predictions(model: Any, X: Any) -> list[dict[Any, float]]:
    return [model.predict_proba_one(x) for x in readings(X)]


@modest
@given(seed=seeds, params=parameters, gaps=missing, order=st.randoms(use_true_random=False))
def test_order_of_features_never_matters(
    name: str, seed: int, params: dict[str, Any], gaps: float, order: Any
) -> None:
    X, y = blobs(80, 5, 3, seed, gaps)
    straight, shuffled = build(name, **params), build(name, **params)
    for x, c in zip(readings(X), y.tolist(), strict=True):
        items = list(x.items())
        order.shuffle(items)
        straight.learn_one(x, c)
        shuffled.learn_one(dict(items), c)
        assert straight.predict_proba_one(x) == shuffled.predict_proba_one(dict(items))
    assert knowledge(straight) == knowledge(shuffled)


@modest
@given(
    seed=seeds,
    params=parameters,
    labels=st.lists(st.text() | st.integers(), min_size=3, max_size=3, unique=True),
)
def test_names_of_labels_never_matter(
    name: str, seed: int, params: dict[str, Any], labels: list[Any]
) -> None:
    X, y = blobs(80, 3, 3, seed)
    numbered = taught(build(name, **params), X, y.tolist())
    named = taught(build(name, **params), X, [labels[c] for c in y])
    for a, b in zip(predictions(numbered, X), predictions(named, X), strict=True):
        assert {labels[c]: p for c, p in a.items()} == b


@modest
@given(
    seed=seeds,
    exponents=st.lists(st.integers(-8, 8), min_size=4, max_size=4),
    signs=st.lists(st.sampled_from([-1.0, 1.0]), min_size=4, max_size=4),
)
def test_powers_of_two_as_units_change_nothing(
    name: str, seed: int, exponents: list[int], signs: list[float]
) -> None:
    """Scaling by powers of two is exact in floating point, so the predictions must be nearly so."""
    X, y = blobs(60, 4, 3, seed)
    factor = np.ldexp(signs, exponents)
    metres = taught(MODELS[name](), X, y.tolist())
    feet = taught(MODELS[name](), X * factor, y.tolist())
    for a, b in zip(predictions(metres, X), predictions(feet, X * factor), strict=True):
        assert a == pytest.approx(b, rel=1e-6, abs=1e-9)


@modest
@given(
    seed=seeds,
    factor=st.lists(st.floats(0.01, 100), min_size=4, max_size=4),
    offset=st.lists(st.floats(-10, 10), min_size=4, max_size=4),
)
def test_affine_units_change_nothing(
    name: str, seed: int, factor: list[float], offset: list[float]
) -> None:
    """Celsius or Fahrenheit; rounding errors grow with every sample, so the stream is short."""
    X, y = blobs(40, 4, 2, seed)
    X = X / X.std(axis=0)
    other = X * factor + offset
    a, b = MODELS[name](rehearsal=0), MODELS[name](rehearsal=0)
    taught(a, X, y.tolist())
    taught(b, other, y.tolist())
    for p, q in zip(predictions(a, X), predictions(b, other), strict=True):
        assert p == pytest.approx(q, abs=1e-4)


@modest
@given(seed=seeds, params=parameters, gaps=missing, classes=st.integers(1, 8))
def test_arrays_are_loops(
    name: str, seed: int, params: dict[str, Any], gaps: float, classes: int
) -> None:
    X, y = blobs(80, 3, classes, seed, gaps)
    names = list(readings(X)[0])
    loop, array, frame = (build(name, **params) for _ in range(3))
    taught(loop, X, y.tolist())
    array.learn_array(X, y, features=names)
    frame.learn_many(pd.DataFrame(readings(X)), pd.Series(y))
    assert knowledge(loop) == knowledge(array) == knowledge(frame)
    assert frozen(loop) == frozen(array)
    answers = array.predict_proba_array(X, features=names)
    expected = [list(p.values()) for p in predictions(loop, X)]
    assert answers.tolist() == expected
    many = frame.predict_proba_many(pd.DataFrame(readings(X)))
    assert many.to_numpy().tolist() == expected
    assert array.predict_array(X, names).tolist() == [loop.predict_one(x) for x in readings(X)]


@modest
@given(seed=seeds, params=parameters, cuts=st.lists(st.integers(0, 80), max_size=4))
def test_chunks_are_the_whole(
    name: str, seed: int, params: dict[str, Any], cuts: list[int]
) -> None:
    X, y = blobs(80, 3, 3, seed, 0.1)
    whole, pieces = build(name, **params), build(name, **params)
    whole.learn_array(X, y)
    for part, labels in zip(np.split(X, sorted(cuts)), np.split(y, sorted(cuts)), strict=True):
        pieces.learn_array(part, labels)
    assert frozen(whole) == frozen(pieces)


@modest
@given(seed=seeds, columns=st.permutations(range(4)))
def test_order_of_columns_never_matters(name: str, seed: int, columns: list[int]) -> None:
    X, y = blobs(60, 4, 3, seed)
    names = ["b", "a", "d", "c"]
    straight, shuffled = MODELS[name](), MODELS[name]()
    straight.learn_array(X, y, names)
    shuffled.learn_array(X[:, columns], y, [names[c] for c in columns])
    assert knowledge(straight) == knowledge(shuffled)


COPIES = {
    "pickle": lambda m: pickle.loads(pickle.dumps(m)),
    "deepcopy": copy.deepcopy,
    "clone": lambda m: m.clone(include_attributes=True),
}


@pytest.mark.parametrize("how", COPIES)
@modest
@given(seed=seeds, params=parameters, gaps=missing)
def test_copies_go_on_like_the_original(
    name: str, how: str, seed: int, params: dict[str, Any], gaps: float
) -> None:
    X, y = blobs(80, 3, 3, seed, gaps)
    original = taught(build(name, **params), X[:50], y[:50].tolist())
    twin = COPIES[how](original)
    assert knowledge(twin) == knowledge(original)
    assert predictions(twin, X) == predictions(original, X)
    before = knowledge(twin)
    taught(original, X[50:], y[50:].tolist())
    assert knowledge(twin) == before, "the copy shares memory with the original"
    taught(twin, X[50:], y[50:].tolist())
    assert knowledge(twin) == knowledge(original)
    assert predictions(twin, X) == predictions(original, X)


@modest
@given(seed=seeds, params=parameters, gaps=missing)
def test_probabilities_are_probabilities(
    name: str, seed: int, params: dict[str, Any], gaps: float
) -> None:
    X, y = blobs(60, 3, 3, seed, gaps)
    model = build(name, **params)
    for x, c in zip(readings(X), y.tolist(), strict=True):
        model.learn_one(x, c)
        p = model.predict_proba_one(x)
        assert sum(p.values()) == pytest.approx(1.0)
        assert min(p.values()) >= 0
        assert p[model.predict_one(x)] == max(p.values())


@pytest.mark.parametrize("name", [n for n, m in MODELS.items() if hasattr(m, "step")])
@modest
@given(seed=seeds)
def test_prototypes_stay_finite_under_constant_steps(name: str, seed: int) -> None:
    X, y = blobs(80, 3, 3, seed)
    model = taught(MODELS[name](step="constant", learning_rate=1.0), X, y.tolist())
    assert all(np.isfinite(list(p.values.values())).all() for p in model.prototypes())
    for p in model.prototypes():
        assert np.trace(model.metric(p.index, raw=False)) == pytest.approx(1.0)
