"""Recorded logs: how good a monitor would have been, and a start for one that is to run."""

from __future__ import annotations

from streamlvq.monitor.files import inspect, load_monitor, load_snapshots, save_monitor
from streamlvq.replay.core import Replay, UnwrittenError, replay
from streamlvq.replay.publishing import publish
from streamlvq.replay.recording import record
from streamlvq.replay.report import Report, make_report
from streamlvq.replay.statistics import Statistics
from streamlvq.replay.text import nothing, summary
from streamlvq.replay.training import Trained, train

__all__ = [
    "Replay",
    "Report",
    "Statistics",
    "Trained",
    "UnwrittenError",
    "inspect",
    "load_monitor",
    "load_snapshots",
    "make_report",
    "nothing",
    "publish",
    "record",
    "replay",
    "save_monitor",
    "summary",
    "train",
]
