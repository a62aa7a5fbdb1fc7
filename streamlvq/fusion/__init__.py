"""Models of many nodes made one, corrected for how their sensors differ."""

from __future__ import annotations

from streamlvq.fusion.errors import FusionError
from streamlvq.fusion.fused import Fused
from streamlvq.fusion.fusing import fuse
from streamlvq.fusion.joining import new_node
from streamlvq.fusion.report import Edge, FusionReport, NodeReport

__all__ = ["Edge", "Fused", "FusionError", "FusionReport", "NodeReport", "fuse", "new_node"]
