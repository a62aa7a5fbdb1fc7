"""The classifiers that a configuration asks for, as a monitor needs them."""

from __future__ import annotations

from typing import Any

from streamlvq.config import Config, ModelSection, build_classifier
from streamlvq.config.build import build_transform
from streamlvq.models import GLVQ
from streamlvq.wrappers import FeatureTransform


def build_whole(config: Config, model: Any = None) -> Any:
    """A classifier for readings in the units of the sensors; see `build_classifier`."""
    return build_transform(config.model, build_classifier(config, model))


def empty_transform(section: ModelSection) -> FeatureTransform | None:
    """The transform alone, around a model that nobody asks; None if there is none."""
    wrapper = build_transform(section, GLVQ())
    return wrapper if type(wrapper) is FeatureTransform else None
