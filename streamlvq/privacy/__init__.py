"""Learning under differential privacy.

`Privacy` says what is promised, `PrivateLVQ` learns a stream under it, and a `ReleaseLedger` keeps
account of what was released.
"""

from streamlvq.privacy.aggregate import sample_and_aggregate
from streamlvq.privacy.noise import integer_gaussian
from streamlvq.privacy.privacy import Privacy
from streamlvq.privacy.private_lvq import PrivateLVQ
from streamlvq.privacy.published import DPGLVQ, DPGMLVQ
from streamlvq.privacy.releases import (
    LedgerExhaustedError,
    LedgerMismatchError,
    MemoryLedger,
    ReleaseLedger,
    Spending,
)

__all__ = [
    "DPGLVQ",
    "DPGMLVQ",
    "LedgerExhaustedError",
    "LedgerMismatchError",
    "MemoryLedger",
    "Privacy",
    "PrivateLVQ",
    "ReleaseLedger",
    "Spending",
    "integer_gaussian",
    "sample_and_aggregate",
]
