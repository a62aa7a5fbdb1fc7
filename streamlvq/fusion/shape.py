"""What all models of a fleet have in common before they have learnt anything."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from streamlvq.estimator import estimator_class
from streamlvq.fusion.brought import Model
from streamlvq.kernels import layout as at


@dataclass(frozen=True)
class Shape:
    """Of a model, or of a member of committees."""

    kind: int  # of metric, as `layout` numbers them
    local: bool  # a metric for each prototype
    rank: int  # rows of a metric
    standardize: bool
    floor: float  # of scales, as a share of the largest deviation

    @classmethod
    def of(cls, models: Sequence[Model], width: int, rank: str | int) -> Shape:
        """What most nodes have, where they need not have the same.

        Parameters
        ----------
        models
            Of all nodes.
        width
            How many features they know together.
        rank
            "keep" the largest of any node, "full", or a number.

        """
        blank = estimator_class(models[0].type)
        given = [model.state.parameters for model in models]
        return cls(
            kind=blank.metric_kind(),
            local=blank.has_local_metrics(),
            rank=_rank(blank.metric_kind(), given, width, rank),
            standardize=2 * sum(bool(each["standardize"]) for each in given) >= len(given),
            floor=statistics.median_low(float(each["scale_floor"]) for each in given),
        )

    def parameters(self, given: Mapping[str, Any], width: int) -> dict[str, Any]:
        """Those of a node, with what has become common to all."""
        common = {"standardize": self.standardize, "scale_floor": self.floor}
        if "rank" in given and min(given["rank"] or width, width) != min(self.rank, width):
            common["rank"] = self.rank
        return {**given, **common}


def _rank(kind: int, given: list[Mapping[str, Any]], width: int, wanted: str | int) -> int:
    if kind != at.MATRIX:
        return 1 if kind == at.DIAGONAL else 0
    if wanted == "full":
        return width
    if wanted == "keep":
        return min(max(each["rank"] or width for each in given), width)
    return min(int(wanted), width)
