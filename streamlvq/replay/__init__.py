"""Recorded logs: how good a monitor would have been, and a start for one that is to run."""

from __future__ import annotations

from streamlvq.replay.statistics import Statistics

__all__ = ["Statistics"]
