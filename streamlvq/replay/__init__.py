"""Recorded logs: how good a monitor would have been, and a start for one that is to run."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamlvq.monitor.files import inspect, load_monitor, load_snapshots, save_monitor
    from streamlvq.replay.core import Replay, UnwrittenError, replay
    from streamlvq.replay.publishing import publish
    from streamlvq.replay.recording import record
    from streamlvq.replay.report import Report, make_report
    from streamlvq.replay.statistics import Statistics
    from streamlvq.replay.text import nothing, summary
    from streamlvq.replay.training import Trained, train

# The module of each name, imported when it is used: River's metrics, which only some of them need,
# take longer to import than all the rest.
_MODULES = {
    "Replay": "streamlvq.replay.core",
    "Report": "streamlvq.replay.report",
    "Statistics": "streamlvq.replay.statistics",
    "Trained": "streamlvq.replay.training",
    "UnwrittenError": "streamlvq.replay.core",
    "inspect": "streamlvq.monitor.files",
    "load_monitor": "streamlvq.monitor.files",
    "load_snapshots": "streamlvq.monitor.files",
    "make_report": "streamlvq.replay.report",
    "nothing": "streamlvq.replay.text",
    "publish": "streamlvq.replay.publishing",
    "record": "streamlvq.replay.recording",
    "replay": "streamlvq.replay.core",
    "save_monitor": "streamlvq.monitor.files",
    "summary": "streamlvq.replay.text",
    "train": "streamlvq.replay.training",
}

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


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)
