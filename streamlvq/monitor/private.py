"""What of a classifier may leave its owner: the releases of a private model."""

from __future__ import annotations

from typing import Any

from streamlvq.config.schema import PRIVATE_MODEL
from streamlvq.wrappers.base import innermost_model


def is_private(classifier: Any) -> bool:
    """Return whether a classifier learns under differential privacy."""
    return type(innermost_model(classifier)).__name__ == PRIVATE_MODEL


def public_model(classifier: Any) -> Any:
    """Return the released model of a private classifier, and any other classifier as it is.

    Raises `NotLearntYetError` for a private model before its first release.
    """
    return innermost_model(classifier).released_model() if is_private(classifier) else classifier
