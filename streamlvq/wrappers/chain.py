"""Unwrapping: from pipelines and wrappers inwards to the model that learns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from river import base

from streamlvq.vectorize import Reading

# River wrappers that train copies of the given model, which itself never learns.
_COPYING = frozenset({"OneVsOneClassifier", "OneVsRestClassifier", "OutputCodeClassifier"})


def is_pipeline(estimator: Any) -> bool:
    """Return True for a River pipeline; `isinstance` would look through it to its last step."""
    return hasattr(estimator, "_last_step")


def inside(estimator: Any) -> Any:
    """Return the last step of a pipeline or the wrapped classifier; None for a model."""
    if is_pipeline(estimator):
        return estimator._last_step
    if not isinstance(estimator, base.Wrapper) or isinstance(estimator, base.Ensemble):
        return None
    return None if type(estimator).__name__ in _COPYING else estimator._wrapped_model


def unwrap(estimator: Any) -> Iterator[Any]:
    """Yield the estimator, then what it wraps, down to the model."""
    while estimator is not None:
        yield estimator
        estimator = inside(estimator)


def innermost_model(estimator: Any) -> Any:
    """Return the model inside all pipelines and wrappers."""
    *_, model = unwrap(estimator)
    return model


def innermost(estimator: Any, x: Reading) -> tuple[Any, Reading]:
    """Return the innermost model, and the reading as transformed on the way there."""
    model = estimator
    for model in unwrap(estimator):
        if is_pipeline(model):
            x = model.transform_one(x)
    return model, x


def observe(estimator: Any, x: Reading, keywords: dict[str, Any]) -> None:
    """Pass an unlabelled reading to the outermost estimator that has `observe_one`."""
    while estimator is not None and not hasattr(estimator, "observe_one"):
        if is_pipeline(estimator):
            x = estimator.transform_one(x)
        estimator = inside(estimator)
    if estimator is not None:
        estimator.observe_one(x, **keywords)
