"""Online monitoring of sensor data with learning vector quantization."""

from __future__ import annotations

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
)

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
    "LVQCommittee",
]
