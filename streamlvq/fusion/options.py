"""`FusionOptions`: the parameters of `fuse`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from streamlvq.fusion.aggregators import Aggregator
from streamlvq.fusion.condense import AUTO
from streamlvq.fusion.trials import DriftChoice


@dataclass(frozen=True)
class RoundStart:
    """What the fusion before a round has found out, and what stays in all rounds.

    `refused` says of nodes, by name, what in their numbers no model can have learnt.
    """

    choice: DriftChoice
    refused: Mapping[str, str]


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
    after: RoundStart | None = None
