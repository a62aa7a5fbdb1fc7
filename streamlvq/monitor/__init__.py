"""Monitor: readings to decisions, labels to learning."""

from __future__ import annotations

from streamlvq.monitor.checkpoint import Checkpoint, OtherModelError
from streamlvq.monitor.monitor import Monitor, Outcome

__all__ = ["Checkpoint", "Monitor", "OtherModelError", "Outcome"]
