"""Plots of models, their metrics and their decisions (extra `plot`).

Every function takes a model that has learnt something, a metric, decisions or a report, and returns
matplotlib axes. The colours suit colour-blind readers (Okabe and Ito), and each class has its own
marker.
"""

from __future__ import annotations

from streamlvq.plot.curves import accuracy_reject_curve, reliability_diagram
from streamlvq.plot.graphs import sharing_graph
from streamlvq.plot.maps import decision_map
from streamlvq.plot.prototypes import projection, prototype_profiles, relevance_profile
from streamlvq.plot.timelines import decisions_over_time

__all__ = [
    "accuracy_reject_curve",
    "decision_map",
    "decisions_over_time",
    "projection",
    "prototype_profiles",
    "relevance_profile",
    "reliability_diagram",
    "sharing_graph",
]
