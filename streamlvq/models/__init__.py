"""Classifiers: Kohonen's LVQ, the GLVQ and RSLVQ families, pairs, committees, trees and bins."""

from __future__ import annotations

from streamlvq.models.binned_naive_bayes import BinnedNaiveBayes
from streamlvq.models.committee import LVQCommittee
from streamlvq.models.glvq import GLVQ, GMLVQ, GRLVQ, LGMLVQ, LGRLVQ
from streamlvq.models.lvq import LVQ1, LVQ3, LVQ21, OLVQ1
from streamlvq.models.pairwise import PairwiseLVQ
from streamlvq.models.rslvq import LMRSLVQ, MRSLVQ, RSLVQ
from streamlvq.models.window_forest import WindowForest

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
    "LVQCommittee",
    "PairwiseLVQ",
    "WindowForest",
]
