"""From a wrapped classifier inwards: through pipelines and wrappers to the model that learns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from river import base

from streamlvq.vectorize import Reading

# Wrappers that teach copies of the model they were given, which itself never learns.
_COPYING = frozenset({"OneVsOneClassifier", "OneVsRestClassifier", "OutputCodeClassifier"})


def is_pipeline(estimator: Any) -> bool:
    """As River itself asks; `isinstance` would see through a pipeline to its last step."""
    return hasattr(estimator, "_last_step")


def inside(estimator: Any) -> Any:
    """What a pipeline ends with or a wrapper wraps; None for a model."""
    if is_pipeline(estimator):
        return estimator._last_step
    if not isinstance(estimator, base.Wrapper) or isinstance(estimator, base.Ensemble):
        return None
    return None if type(estimator).__name__ in _COPYING else estimator._wrapped_model


def unwrap(estimator: Any) -> Iterator[Any]:
    """The estimator itself, what it wraps, what that wraps ... down to the model."""
    while estimator is not None:
        yield estimator
        estimator = inside(estimator)


def innermost_model(estimator: Any) -> Any:
    """The model inside all pipelines and wrappers."""
    *_, model = unwrap(estimator)
    return model


def innermost(estimator: Any, x: Reading) -> tuple[Any, Reading]:
    """The innermost model, and a reading as it gets there."""
    model = estimator
    for model in unwrap(estimator):
        if is_pipeline(model):
            x = model.transform_one(x)
    return model, x


def observe(estimator: Any, x: Reading, keywords: dict[str, Any]) -> None:
    """Show a reading without a label to whoever can make use of it."""
    while estimator is not None and not hasattr(estimator, "observe_one"):
        if is_pipeline(estimator):
            x = estimator.transform_one(x)
        estimator = inside(estimator)
    if estimator is not None:
        estimator.observe_one(x, **keywords)
