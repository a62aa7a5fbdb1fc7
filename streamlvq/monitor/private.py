"""What of a classifier may leave its owner: the releases of a private model."""

from __future__ import annotations

from typing import Any

from streamlvq.config.schema import PRIVATE_MODEL
from streamlvq.snapshot import Snapshot
from streamlvq.wrappers.base import innermost_model


def is_private(classifier: Any) -> bool:
    """Return whether a classifier learns under differential privacy."""
    return type(innermost_model(classifier)).__name__ == PRIVATE_MODEL


def public_snapshot(classifier: Any, node: str = "n1") -> Snapshot:
    """Return a snapshot of what a private classifier has released, and all of any other.

    Raises `NotLearntYetError` for a private model before its first release.
    """
    if is_private(classifier):
        return Snapshot.of(innermost_model(classifier).released_model(), node, readings=False)
    return Snapshot.of(classifier, node)
