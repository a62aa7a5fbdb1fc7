"""`FusionOptions`: the parameters of `fuse`."""

from __future__ import annotations

from dataclasses import dataclass

from streamlvq.fusion.aggregators import Aggregator
from streamlvq.fusion.condense import AUTO
from streamlvq.fusion.trials import DriftChoice


@dataclass(frozen=True)
class FusionOptions:
    """Parameters of `fuse`."""

    weighting: str
    drift: str
    aggregator_name: str
    aggregator: Aggregator
    rank: str | int
    screen: bool
    byzantine: int | str | None
    quorum: int
    budget: str | int = AUTO
    after: DriftChoice | None = None  # the correction of the rounds before, which stays
