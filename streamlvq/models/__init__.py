"""Prototype classifiers: Kohonen's LVQ, the GLVQ and RSLVQ families, pairs and committees."""

from __future__ import annotations

from streamlvq.models.committee import LVQCommittee
from streamlvq.models.glvq import GLVQ
from streamlvq.models.gmlvq import GMLVQ
from streamlvq.models.grlvq import GRLVQ
from streamlvq.models.lgmlvq import LGMLVQ
from streamlvq.models.lgrlvq import LGRLVQ
from streamlvq.models.lmrslvq import LMRSLVQ
from streamlvq.models.lvq1 import LVQ1
from streamlvq.models.lvq3 import LVQ3
from streamlvq.models.lvq21 import LVQ21
from streamlvq.models.mrslvq import MRSLVQ
from streamlvq.models.olvq1 import OLVQ1
from streamlvq.models.pairwise import PairwiseLVQ
from streamlvq.models.rslvq import RSLVQ

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
