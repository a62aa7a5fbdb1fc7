"""Models of many nodes fused into one, corrected for how their sensors differ."""

from __future__ import annotations

from streamlvq.fusion.class_moments import ClassMoments
from streamlvq.fusion.fuse import fuse
from streamlvq.fusion.fused import Fused, new_node
from streamlvq.fusion.node_models import FusionError
from streamlvq.fusion.probe_answers import (
    ProbeAnswers,
    ProbeConsensus,
    consensus,
    discrepancy,
    learn_from_probes,
)
from streamlvq.fusion.probes import ProbeSet
from streamlvq.fusion.report import Edge, FusionReport, NodeReport
from streamlvq.fusion.rounds import fuse_rounds
from streamlvq.fusion.screening import Clipping

__all__ = [
    "ClassMoments",
    "Clipping",
    "Edge",
    "Fused",
    "FusionError",
    "FusionReport",
    "NodeReport",
    "ProbeAnswers",
    "ProbeConsensus",
    "ProbeSet",
    "consensus",
    "discrepancy",
    "fuse",
    "fuse_rounds",
    "learn_from_probes",
    "new_node",
]
