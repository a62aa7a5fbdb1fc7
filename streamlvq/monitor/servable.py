"""Which models may be served beside a local one."""

from __future__ import annotations

from typing import Any

from streamlvq.models import LVQCommittee
from streamlvq.models.base import LVQClassifier
from streamlvq.monitor.pipeline import Pipeline
from streamlvq.snapshot import TRUSTED_LIMITS, capture
from streamlvq.wrappers.feature_transform import FeatureTransform


def _unwrapped(model: Any) -> Any:
    return model.classifier if type(model) is FeatureTransform else model


def bare(model: Any, local: Pipeline) -> Any:
    """The model without its transform; raises ValueError if it cannot be served."""
    inside = _unwrapped(model)
    if not isinstance(inside, (LVQClassifier, LVQCommittee)):
        raise ValueError(
            f"expected a model of streamlvq without integrator and rejector, which the monitor has "
            f"itself, got {model!r}"
        )
    if inside is local.model:
        raise ValueError(
            "expected a model to serve beside the local one, got the local one itself: pass None "
            "to let it decide"
        )
    if len(inside.classes) < 2:
        raise ValueError(f"expected a model that knows at least 2 classes, got {inside.classes!r}")
    ours, theirs = transform_of(local.classifier), transform_of(model)
    if ours != theirs:
        raise ValueError(
            f"expected a model for readings with the transform {ours!r} (model.transform), "
            f"got {theirs!r}"
        )
    return inside


def transform_of(classifier: Any) -> tuple[str, tuple[Any, ...] | None] | None:
    """The name of a classifier's transform and the features it is for, sorted; None for all."""
    if type(classifier) is not FeatureTransform:
        return None
    features = classifier.features
    return classifier.transform, None if features is None else tuple(sorted(features, key=str))


def same(one: Any, other: Any) -> bool:
    """Whether two models are alike to the last bit."""
    if one is other:
        return True
    first, second = (capture(m, limits=TRUSTED_LIMITS) for m in (one, other))
    return first.same_as(second)
