"""Prototype classifiers: Kohonen's LVQ, the GLVQ and RSLVQ families, pairs and committees."""

from __future__ import annotations

from streamlvq.models.committee import LVQCommittee
from streamlvq.models.glvq import GLVQ, GMLVQ, GRLVQ, LGMLVQ, LGRLVQ
from streamlvq.models.lvq import LVQ1, LVQ3, LVQ21, OLVQ1
from streamlvq.models.pairwise import PairwiseLVQ
from streamlvq.models.rslvq import LMRSLVQ, MRSLVQ, RSLVQ

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
    "PairwiseLVQ",
]
