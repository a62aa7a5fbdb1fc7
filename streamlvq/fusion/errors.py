"""What can go wrong when models are fused."""

from __future__ import annotations

from streamlvq.errors import StreamLVQError


class FusionError(StreamLVQError, ValueError):
    """Snapshots that cannot be fused, or a question about a node that took no part."""
