"""Models of many nodes fused into one, corrected for how their sensors differ."""

from __future__ import annotations

from streamlvq.fusion.fuse import fuse
from streamlvq.fusion.fused import Fused, new_node
from streamlvq.fusion.node_models import FusionError
from streamlvq.fusion.report import Edge, FusionReport, NodeReport
from streamlvq.fusion.rounds import fuse_rounds
from streamlvq.fusion.screening import Clipping

__all__ = [
    "Clipping",
    "Edge",
    "Fused",
    "FusionError",
    "FusionReport",
    "NodeReport",
    "fuse",
    "fuse_rounds",
    "new_node",
]
