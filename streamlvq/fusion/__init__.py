"""Models of many nodes fused into one, corrected for how their sensors differ."""

from __future__ import annotations

from streamlvq.fusion.class_moments import ClassMoments
from streamlvq.fusion.fuse import fuse
from streamlvq.fusion.fused import Fused, new_node
from streamlvq.fusion.network import (
    FusionNetwork,
    NetworkModels,
    labelled_loss,
    network_models,
)
from streamlvq.fusion.node_models import FusionError
from streamlvq.fusion.probe_answers import (
    ProbeAnswers,
    ProbeConsensus,
    consensus,
    discrepancy,
    learn_from_probes,
)
from streamlvq.fusion.probe_pool import HiddenTrial, pool_taught
from streamlvq.fusion.probes import ProbeSet
from streamlvq.fusion.report import ClusterReport, Edge, FusionReport, NodeReport
from streamlvq.fusion.rounds import fuse_rounds
from streamlvq.fusion.screening import Clipping
from streamlvq.fusion.variation import fedrelax, total_variation

__all__ = [
    "ClassMoments",
    "Clipping",
    "ClusterReport",
    "Edge",
    "Fused",
    "FusionError",
    "FusionNetwork",
    "FusionReport",
    "HiddenTrial",
    "NetworkModels",
    "NodeReport",
    "ProbeAnswers",
    "ProbeConsensus",
    "ProbeSet",
    "consensus",
    "discrepancy",
    "fedrelax",
    "fuse",
    "fuse_rounds",
    "labelled_loss",
    "learn_from_probes",
    "network_models",
    "new_node",
    "pool_taught",
    "total_variation",
]
