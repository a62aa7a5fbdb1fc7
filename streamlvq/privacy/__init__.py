"""Learning and sharing without telling about single readings or private features.

`Privacy` says what is promised, `PrivateLVQ` learns a stream under it, and a `ReleaseLedger` keeps
account of what was released. `PrivateMap` hides features, `RandomisedResponse` labels; `leakage`
measures what is still told of a feature.
"""

from streamlvq.privacy.aggregate import sample_and_aggregate
from streamlvq.privacy.attribute import Leakage, leakage
from streamlvq.privacy.noise import integer_gaussian
from streamlvq.privacy.privacy import Privacy
from streamlvq.privacy.private_lvq import PrivateLVQ
from streamlvq.privacy.published import DPGLVQ, DPGMLVQ
from streamlvq.privacy.randomised_response import RandomisedResponse
from streamlvq.privacy.releases import (
    CopyError,
    LedgerExhaustedError,
    LedgerMismatchError,
    MemoryLedger,
    ReleaseLedger,
    Spending,
)
from streamlvq.wrappers.private_map import PrivateMap

__all__ = [
    "DPGLVQ",
    "DPGMLVQ",
    "CopyError",
    "Leakage",
    "LedgerExhaustedError",
    "LedgerMismatchError",
    "MemoryLedger",
    "Privacy",
    "PrivateLVQ",
    "PrivateMap",
    "RandomisedResponse",
    "ReleaseLedger",
    "Spending",
    "integer_gaussian",
    "leakage",
    "sample_and_aggregate",
]
