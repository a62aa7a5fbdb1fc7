"""Recorded logs: replay, training, publishing and recording."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamlvq.monitor.files import inspect, load_monitor, load_snapshots, save_monitor
    from streamlvq.replay.hiding import Hidden, hide
    from streamlvq.replay.live import publish, record
    from streamlvq.replay.report import Report, explain_empty, make_report, summary
    from streamlvq.replay.run import ReplayRun, UnwrittenError, replay
    from streamlvq.replay.statistics import Statistics
    from streamlvq.replay.suppression import suppress
    from streamlvq.replay.training import Trained, train


# The module of each name, imported when it is used: River's metrics, which only some of them need,
# take longer to import than all the rest.
_MODULES = {
    "Hidden": "streamlvq.replay.hiding",
    "ReplayRun": "streamlvq.replay.run",
    "Report": "streamlvq.replay.report",
    "Statistics": "streamlvq.replay.statistics",
    "Trained": "streamlvq.replay.training",
    "UnwrittenError": "streamlvq.replay.run",
    "explain_empty": "streamlvq.replay.report",
    "hide": "streamlvq.replay.hiding",
    "inspect": "streamlvq.monitor.files",
    "load_monitor": "streamlvq.monitor.files",
    "load_snapshots": "streamlvq.monitor.files",
    "make_report": "streamlvq.replay.report",
    "publish": "streamlvq.replay.live",
    "record": "streamlvq.replay.live",
    "replay": "streamlvq.replay.run",
    "save_monitor": "streamlvq.monitor.files",
    "summary": "streamlvq.replay.report",
    "suppress": "streamlvq.replay.suppression",
    "train": "streamlvq.replay.training",
}

__all__ = [
    "Hidden",
    "ReplayRun",
    "Report",
    "Statistics",
    "Trained",
    "UnwrittenError",
    "explain_empty",
    "hide",
    "inspect",
    "load_monitor",
    "load_snapshots",
    "make_report",
    "publish",
    "record",
    "replay",
    "save_monitor",
    "summary",
    "suppress",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)
