"""Models of many nodes fused into one, corrected for how their sensors differ."""

from __future__ import annotations

from streamlvq.fusion.fuse import fuse
from streamlvq.fusion.fused import Fused, new_node
from streamlvq.fusion.network import (
    FusionNetwork,
    NetworkModels,
    labelled_loss,
    network_models,
)
from streamlvq.fusion.node_models import FusionError
from streamlvq.fusion.report import ClusterReport, Edge, FusionReport, NodeReport
from streamlvq.fusion.screening import Clipping
from streamlvq.fusion.variation import fedrelax, total_variation

__all__ = [
    "Clipping",
    "ClusterReport",
    "Edge",
    "Fused",
    "FusionError",
    "FusionNetwork",
    "FusionReport",
    "NetworkModels",
    "NodeReport",
    "fedrelax",
    "fuse",
    "labelled_loss",
    "network_models",
    "new_node",
    "total_variation",
]
