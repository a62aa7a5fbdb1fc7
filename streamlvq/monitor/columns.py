"""Decisions while they are made."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streamlvq.events import Label, Rows

Ints = npt.NDArray[np.int64]
Opinion = tuple[Label | None, float]  # a label and how certain it was; -1: there was no model


class Opinions(NamedTuple):
    """What two models say of a reading, whoever decides."""

    local: Opinion
    fused: Opinion


@dataclass(slots=True)
class Columns:
    """Decisions on rows, as they are filled in; see `streamlvq.events.Decisions`."""

    codes: Ints
    certainties: npt.NDArray[np.float64]
    thresholds: npt.NDArray[np.float64]
    accepted: npt.NDArray[np.bool_]
    reasons: list[str | None]
    probabilities: Rows
    versions: Ints
    failures: dict[int, Exception] = field(default_factory=dict)  # by row: a defect of ours
    opinions: dict[int, Opinions] = field(default_factory=dict)  # by row, if two were asked

    @classmethod
    def empty(cls, rows: int, classes: int) -> Columns:
        return cls(
            codes=np.full(rows, -1, np.int64),
            certainties=np.zeros(rows),
            thresholds=np.zeros(rows),
            accepted=np.zeros(rows, np.bool_),
            reasons=[None] * rows,
            probabilities=np.full((rows, classes), np.nan),
            versions=np.zeros(rows, np.int64),
        )

    @classmethod
    def failed(cls, rows: int, error: Exception) -> Columns:
        """No decisions at all, because of a defect."""
        columns = cls.empty(rows, 0)
        columns.failures = dict.fromkeys(range(rows), error)
        return columns

    def select(self, rows: list[int]) -> Columns:
        """Only these rows, without failures and opinions."""
        return Columns(
            codes=self.codes[rows],
            certainties=self.certainties[rows],
            thresholds=self.thresholds[rows],
            accepted=self.accepted[rows],
            reasons=[self.reasons[k] for k in rows],
            probabilities=self.probabilities[rows],
            versions=self.versions[rows],
        )
