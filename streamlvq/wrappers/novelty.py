"""Memory of how strange readings of known classes were, which novelty is measured by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from streamlvq.arrays import Floats, Ints, Label
from streamlvq.kernels import kernels
from streamlvq.kernels import layout as at
from streamlvq.models.base import LVQClassifier
from streamlvq.models.engine import Engine
from streamlvq.models.vectorizer import Arrays
from streamlvq.wrappers.thresholds import MAX_SEEN


class Strangeness(NamedTuple):
    """How strange the last predicted reading is."""

    novelty: float  # see `Decision`
    compared: bool  # with a stored reading, when enough is known about such distances
    ranked: bool  # among earlier readings; without any, novelty says nothing


class NoveltyMemory:
    """Scores of the latest readings of each known class, taken before they were learnt.

    Its size depends on the number of classes alone, see `streamlvq.kernels.novelty`.
    """

    def __init__(self) -> None:
        self._scores: Floats = np.zeros((0, 2, at.CLASS_SCORES))
        self._sums: Floats = np.zeros((2, at.SUMS))
        self._counts: Ints = np.zeros(1, np.int64)  # by class, then all
        self._out: Floats = np.zeros(at.STRANGENESS_COUNT)

    def lend(self, classes: int) -> Arrays:
        """Return scores, sums and counts, with room for so many classes."""
        if classes > len(self._scores):
            room = max(classes, 2 * len(self._scores))
            self._scores = np.concatenate(
                [self._scores, np.zeros((room - len(self._scores), *self._scores.shape[1:]))]
            )
            counts = np.zeros(room + 1, np.int64)
            counts[: len(self._counts) - 1], counts[-1] = self._counts[:-1], self._counts[-1]
            self._counts = counts
        return self._scores, self._sums, self._counts

    def measure(self, engine: Engine) -> Strangeness:
        """Return how strange the last predicted reading of a model is."""
        kernel = kernels("novelty")
        novelty = kernel.measure_novelty(*engine.memory, *self.lend(0), self._out)
        compared, ranked = self._out[kernel.OUT_COMPARED] == 1.0, self._out[kernel.OUT_EARLIER] > 0
        return Strangeness(float(novelty), bool(compared), bool(ranked))

    def add(self, code: int) -> None:
        """Remember the reading measured last, which is of this known class."""
        kernels("novelty").add_scores(*self.lend(code + 1), self._out, code)

    # --- state -----------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_out"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._out = np.zeros(at.STRANGENESS_COUNT)

    def state(self) -> dict[str, Any]:
        """Return a copy as arrays, without unused capacity."""
        known = int(np.flatnonzero(self._counts[:-1]).max(initial=-1)) + 1
        counts = np.append(self._counts[:known], self._counts[-1])
        stored = int(min(counts[:-1].max(initial=0), self._scores.shape[2]))
        summed = int(min(counts[-1], self._sums.shape[1]))
        return {
            "scores": self._scores[:known, :, :stored].copy(),
            "sums": self._sums[:, :summed].copy(),
            "scored": counts,
        }

    def restore(self, classes: Sequence[Label], arrays: dict[str, Any]) -> None:
        """Restore what `state` returned; raise ValueError if it does not fit."""
        scores, sums, counts = (arrays[name] for name in ("scores", "sums", "scored"))
        kernel = kernels("novelty")
        if counts.ndim != 1 or not 1 <= len(counts) <= len(classes) + 1:
            raise ValueError("novelty: expected counts of known classes and of all readings")
        if np.any((counts < 0) | (counts > MAX_SEEN)) or counts[:-1].sum() > counts[-1]:
            raise ValueError("novelty: expected counts of readings that add up")
        stored = np.minimum(counts[:-1], at.CLASS_SCORES)
        summed = min(int(counts[-1]), at.SUMS)
        if scores.shape != (len(stored), 2, stored.max(initial=0)) or sums.shape != (2, summed):
            raise ValueError(
                f"novelty: expected {len(stored)} x 2 x {stored.max(initial=0)} scores and "
                f"2 x {summed} sums, got {scores.shape} and {sums.shape}"
            )
        used = np.arange(scores.shape[2]) < stored[:, None]
        border, distance = scores[:, kernel.BORDER], scores[:, kernel.DISTANCE]
        right = (border >= 1.0) & (border <= 1.0 / kernel.MIN_RELSIM)
        right &= np.isnan(distance) | ((distance >= 0.0) & (distance <= kernel.MAX_DISTANCE))
        if not np.all(right[used]) or np.any(scores.transpose(0, 2, 1)[~used]):
            raise ValueError("novelty: expected scores of known readings, got others")
        if not np.all((sums >= 0.0) & (sums <= kernel.MAX_SUM)):
            raise ValueError("novelty: expected sums of logarithms, got others")
        self.lend(len(stored))
        self._scores[: len(stored), :, : scores.shape[2]] = scores
        self._sums[:, :summed] = sums
        self._counts[: len(stored)], self._counts[-1] = counts[:-1], counts[-1]

    def moved(self, before: Sequence[Label], after: Sequence[Label]) -> NoveltyMemory:
        """Return a copy for a model with other classes; those that it lacks are dropped."""
        moved = NoveltyMemory()
        _, sums, counts = moved.lend(len(after))
        sums[:], counts[-1] = self._sums, self._counts[-1]
        place = {label: code for code, label in enumerate(after)}
        for code, label in enumerate(before[: len(self._scores)]):
            if label in place:
                moved._scores[place[label]] = self._scores[code]
                moved._counts[place[label]] = self._counts[code]
        return moved

    def forget_distances(self) -> None:
        """Go on without the distances to stored readings, for a model that has none of them."""
        kernel = kernels("novelty")
        for code, count in enumerate(self._counts[:-1].tolist()):
            self._scores[code, kernel.DISTANCE, : min(count, at.CLASS_SCORES)] = np.nan
        self._sums[kernel.BOTH] = self._sums[kernel.BORDER_ONLY]


def answering_engine(model: LVQClassifier) -> Engine | None:
    """Return the arrays of a model that has just predicted a reading.

    None if it had no feature of the reading to go by, or knows fewer than two classes.
    """
    engine = model.engine
    if engine is None or engine.known < 2 or model.last_was_empty():
        return None
    return engine


def is_beyond_ball(model: LVQClassifier) -> bool:
    """Return True if the last predicted reading is far outside the space between its classes."""
    engine = answering_engine(model)
    return engine is not None and bool(kernels("novelty").beyond_ball(*engine.memory))


def has_stored_readings(model: LVQClassifier) -> bool:
    """Return True if a model keeps readings that others can be compared with."""
    engine = model.engine
    return (
        engine is not None and min(engine.state.size(at.STORED), engine.state.size(at.BUFFER)) > 0
    )
