"""Online monitoring of sensor data with learning vector quantization."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

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
    BinnedNaiveBayes,
    LVQCommittee,
    PairwiseLVQ,
    WindowForest,
)
from streamlvq.records import Decision, Integrated
from streamlvq.registry import MODELS
from streamlvq.wrappers import FeatureTransform, ProbabilityRejector, RelSimRejector, TimeIntegrator

if TYPE_CHECKING:
    from streamlvq.fusion.fuse import fuse
    from streamlvq.monitor import Monitor
    from streamlvq.snapshot import Snapshot


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
    "BinnedNaiveBayes",
    "Decision",
    "FeatureTransform",
    "Integrated",
    "LVQCommittee",
    "Monitor",
    "PairwiseLVQ",
    "ProbabilityRejector",
    "RelSimRejector",
    "Snapshot",
    "TimeIntegrator",
    "WindowForest",
    "fuse",
]

# What not every program needs: modules, and classes with the modules that they are in.
_MODULES = ("coupling", "fusion", "metrics", "plot", "privacy", "robustness", "synth")
_CLASSES = {"Monitor": "monitor", "Snapshot": "snapshot", "fuse": "fusion"}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"streamlvq.{name}")
    if name in _CLASSES:
        return getattr(importlib.import_module(f"streamlvq.{_CLASSES[name]}"), name)
    if name in MODELS:  # registered, but not imported above for type checkers
        return MODELS[name]
    raise AttributeError(f"module 'streamlvq' has no attribute {name!r}")
