"""Online monitoring of sensor data with learning vector quantization."""

from __future__ import annotations

import importlib
from typing import Any

from streamlvq.models import (
    GLVQ,
    GMLVQ,
    GRLVQ,
    LGMLVQ,
    LGRLVQ,
    LMRSLVQ,
    LVQ1,
    LVQ3,
    LVQ21,
    MRSLVQ,
    OLVQ1,
    RSLVQ,
    LVQCommittee,
    PairwiseLVQ,
)
from streamlvq.records import Decision, Integrated
from streamlvq.wrappers import ProbabilityRejector, RelSimRejector, TimeIntegrator

__version__ = "0.1.0"

__all__ = [
    "GLVQ",
    "GMLVQ",
    "GRLVQ",
    "LGMLVQ",
    "LGRLVQ",
    "LMRSLVQ",
    "LVQ1",
    "LVQ3",
    "LVQ21",
    "MRSLVQ",
    "OLVQ1",
    "RSLVQ",
    "Decision",
    "Integrated",
    "LVQCommittee",
    "PairwiseLVQ",
    "ProbabilityRejector",
    "RelSimRejector",
    "TimeIntegrator",
]

_ON_DEMAND = ("coupling", "metrics", "plot", "robustness")  # modules not every program needs


def __getattr__(name: str) -> Any:
    if name in _ON_DEMAND:
        return importlib.import_module(f"streamlvq.{name}")
    raise AttributeError(f"module 'streamlvq' has no attribute {name!r}")
