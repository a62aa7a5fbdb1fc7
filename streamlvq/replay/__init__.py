"""Recorded logs: how good a monitor would have been, and a start for one that is to run."""

from __future__ import annotations

from streamlvq.replay.core import Replay, replay
from streamlvq.replay.page import page
from streamlvq.replay.report import Report, make_report
from streamlvq.replay.statistics import Statistics
from streamlvq.replay.text import summary

__all__ = ["Replay", "Report", "Statistics", "make_report", "page", "replay", "summary"]
