"""Recorded logs: how good a monitor would have been, and a start for one that is to run."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamlvq.replay.core import Replay, UnwrittenError, replay
    from streamlvq.replay.page import page
    from streamlvq.replay.publishing import publish
    from streamlvq.replay.recording import record
    from streamlvq.replay.report import Report, make_report
    from streamlvq.replay.state import inspect, load_monitor, load_snapshots, save_monitor
    from streamlvq.replay.statistics import Statistics
    from streamlvq.replay.text import nothing, summary
    from streamlvq.replay.training import Trained, train

# The module of each name, imported when it is used: River's metrics, which only some of them need,
# take longer to import than all the rest.
_MODULES = {
    "Replay": "core",
    "Report": "report",
    "Statistics": "statistics",
    "Trained": "training",
    "UnwrittenError": "core",
    "inspect": "state",
    "load_monitor": "state",
    "load_snapshots": "state",
    "make_report": "report",
    "nothing": "text",
    "page": "page",
    "publish": "publishing",
    "record": "recording",
    "replay": "core",
    "save_monitor": "state",
    "summary": "text",
    "train": "training",
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
    "page",
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
    found = getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = found  # in place of a module of the same name
    return found
