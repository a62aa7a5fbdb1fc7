"""Whether our own model or the fleet's decides, and how to say so when that changes."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from streamlvq.daemon.fleet_figures import FleetFigures
from streamlvq.monitor.serving import SCORE_SPAN_LABELS

log = logging.getLogger(__name__)


class Deciding:
    """Looks now and then who decides, and says so once whenever it is somebody else.

    Parameters
    ----------
    figures
        Where to leave it for others.
    serve
        Who is meant to decide: fused, local or better.

    """

    def __init__(self, figures: FleetFigures, serve: str) -> None:
        self.figures, self.serve = figures, serve
        self._arrived = False  # whether there is another model since the last look

    def begin(self, standing: Mapping[str, Any]) -> None:
        """What a former process has said already need not be said again."""
        self._leave(standing)

    def arrived(self) -> None:
        """Another model of the fleet has come, or the last one was taken away."""
        self._arrived = True

    def look(self, standing: Mapping[str, Any], has_model: bool) -> None:
        """Say what is new.

        Parameters
        ----------
        standing
            As `Monitor.serving_score` has it.
        has_model
            Whether the fleet has a model for us at all.

        """
        before, arrived = self.figures.serving, self._arrived
        self._leave(standing)
        self._arrived = False
        if arrived or standing["decides"] != before:
            self.figures.changed = True
            log.info("%s", self._words(standing, has_model, arrived, before))

    def _words(
        self, standing: Mapping[str, Any], has_model: bool, arrived: bool, before: str
    ) -> str:
        fused = standing["decides"] == "fused"
        if not has_model:
            return "our own model decides from now on"
        if not arrived:
            return f"{'the fleet' if fused else 'the local model'} decides again: {score(standing)}"
        if fused and before == "fused":
            return "the fleet goes on deciding, with a new model"
        if fused:
            return "the fleet decides from now on"
        return f"the fleet has a new model for us; our own decides (fleet.serve: {self.serve})"

    def _leave(self, standing: Mapping[str, Any]) -> None:
        self.figures.serving = standing["decides"]
        self.figures.standing = {
            which: round(standing[which], 6)
            for which in ("local", "fused", "labels")
            if standing[which] is not None
        }


def score(standing: Mapping[str, Any]) -> str:
    """How both have done, the one that decides first.

    Examples
    --------
    >>> score({"local": 0.981, "fused": 0.907, "labels": 143, "decides": "local"})
    '0.98 against 0.91 of the last 143 labels'
    >>> score({"local": 0.9994, "fused": 0.9912, "labels": 9143, "decides": "fused"})
    '0.991 against 0.999 of about the last 200 labels'

    """
    first, second = ("fused", "local") if standing["decides"] == "fused" else ("local", "fused")
    digits = 2 if abs(standing[first] - standing[second]) >= 0.02 else 3
    labels = standing["labels"]
    last = (
        f"the last {labels}"
        if labels <= SCORE_SPAN_LABELS
        else f"about the last {SCORE_SPAN_LABELS}"
    )
    return f"{standing[first]:.{digits}f} against {standing[second]:.{digits}f} of {last} labels"


__all__ = ["Deciding", "score"]
