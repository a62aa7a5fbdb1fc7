"""What the tests share: the models, small streams, and fingerprints of what a model knows."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from functools import cache
from inspect import signature
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from river import checks

from streamlvq import registry
from streamlvq.estimator import DEFAULT_LIMITS, StateLimits, build_estimator
from streamlvq.snapshot import capture, from_arrays, to_arrays

Sample = tuple[dict[str, float], Any]

MODELS = {
    name: registry.MODELS[name]
    for name in registry.MODELS
    if hasattr(registry.MODELS[name], "_rule")
}

GROWTH = {"prototypes_per_class", "max_prototypes_per_class"}
GROWING = [name for name, model in MODELS.items() if set(signature(model).parameters) >= GROWTH]
PAIRS = [name for name in MODELS if name not in GROWING]


def build(name: str, **params: Any) -> Any:
    """A model with parameters that most models have.

    In a model of pairs a class has one prototype in each of its pairs, so it is not asked how many.
    """
    left_out = GROWTH if name in PAIRS else set()
    return MODELS[name](**{key: value for key, value in params.items() if key not in left_out})


@cache
def _image_segments(n: int) -> tuple[Sample, ...]:
    from river import datasets

    return tuple(datasets.ImageSegments().take(n))


def image_segments(n: int = 1000) -> list[Sample]:
    return [(dict(x), y) for x, y in _image_segments(n)]


def blobs(
    n: int, d: int = 4, classes: int = 3, seed: int = 0, missing: float = 0.0
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Overlapping clouds in unlike units; classes are numbered in the order they appear."""
    random = np.random.default_rng(seed)
    centres = random.normal(size=(classes, d))
    y = random.integers(0, classes, n)
    order = list(dict.fromkeys(y.tolist()))
    unit, offset = 10.0 ** random.uniform(-2, 2, d), random.normal(size=d) * 5
    X = (centres[y] + random.normal(size=(n, d))) * unit + offset
    X[random.random((n, d)) < missing] = np.nan
    return X, np.array([order.index(c) for c in y], np.int64)


def readings(X: npt.NDArray[np.float64]) -> list[dict[str, float]]:
    """Rows as dictionaries with the features f00, f01 ...; NaN stays NaN."""
    return [{f"f{i:02}": float(v) for i, v in enumerate(row)} for row in X]


def taught(model: Any, X: npt.NDArray[np.float64], y: Any) -> Any:
    for x, label in zip(readings(X), y, strict=True):
        model.learn_one(x, label)
    return model


def knowledge(model: Any) -> tuple[Any, ...]:
    """All that a model has learnt, for comparisons between models; bit by bit."""
    if model._engine is None:
        return model.features, model.classes, None, None
    state = model._engine.state
    return model.features, model.classes, state.floats.tobytes(), state.ints.tobytes()


def frozen(model: Any) -> bytes:
    return pickle.dumps(model)


def described(
    classifier: Any, *, readings: bool = True, limits: StateLimits = DEFAULT_LIMITS
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The state of a classifier as arrays and JSON."""
    return to_arrays(capture(classifier, readings=readings, limits=limits))


def rebuilt(
    arrays: dict[str, Any], meta: dict[str, Any], *, limits: StateLimits = DEFAULT_LIMITS
) -> Any:
    """The opposite of `described`."""
    return build_estimator(from_arrays(arrays, meta), limits=limits)


def river_checks(estimators: dict[str, Callable[[], Any]]) -> list[Any]:
    """Every check of River for every estimator, as parameters `make, check` of a test."""
    return [
        pytest.param(make, check, id=f"{name}-{k}-{check.__name__}")
        for name, make in estimators.items()
        for k, check in enumerate(checks.yield_checks(make()))
    ]
