"""`ScoredOpinions`: what the models of a pool said about labelled readings before they were learnt."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from types import NoneType
from typing import Any, NamedTuple, Self

import numpy as np

from streamlvq.arrays import Bools, Floats, Ints, Label, Rows
from streamlvq.errors import SnapshotError

MAX_SCORED = 500  # readings whose opinions are kept to fit the weights
MAX_RUN = 2**53  # of equal labels: beyond it JSON loses digits
SCORED_TYPES = {"opinions": "float64", "held": "uint8", "codes": "int64", "runs": "int64"}
_ROUNDING = 1e-9  # of a probability above 1


class Scored(NamedTuple):
    """Opinions about a labelled reading before it was learnt.

    Of each candidate, and last of the local model, over the classes of the pool; NaN where one does
    not know a class.
    """

    opinions: Floats
    held: Bools  # classes that the local model had learnt
    code: int
    run: int  # readings of the same label in a row resemble each other


class ScoredOpinions:
    """Opinions about the latest labelled readings, and the runs of equal labels they are from.

    The first run of equal labels is left out: what came before the candidates were fixed may have
    been a part of the same segment.
    """

    def __init__(self) -> None:
        self.readings: deque[Scored] = deque(maxlen=MAX_SCORED)
        self._last_label: Label | None = None
        self._run = -1  # the first one

    def begins(self, y: Label, known: bool) -> bool:
        """Note that a label has come; return whether opinions about its reading are to be kept.

        `known` says whether any model knows the class.
        """
        if self._last_label is None or y != self._last_label:
            self._run += self._last_label is not None
            self._last_label = y
        return self._run >= 0 and known

    def add(self, opinions: Rows, held: Ints, code: int) -> None:
        """Keep a copy of the opinions about a reading of a class."""
        self.readings.append(Scored(opinions.copy(), held.astype(bool), code, self._run))

    def clear(self) -> None:
        """Forget the opinions: there is a new class, for which they have no column."""
        self.readings.clear()

    # --- state -----------------------------------------------------------------------------------

    def state(self, models: int, classes: int) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return a copy: arrays, and values for JSON."""
        kept, count = self.readings, len(self.readings)
        opinions = np.array([each.opinions for each in kept], np.float64)
        held = np.array([each.held for each in kept], np.uint8)
        arrays = {
            "opinions": opinions.reshape(count, models, classes),
            "held": held.reshape(count, classes),
            "codes": np.array([each.code for each in kept], np.int64),
            "runs": np.array([each.run for each in kept], np.int64),
        }
        return arrays, {"last_label": self._last_label, "run": self._run}

    @classmethod
    def restored(cls, arrays: Mapping[str, Any], extra: Mapping[str, Any], known: Bools) -> Self:
        """Return what `state` was taken of; raise `SnapshotError` if these models never said so.

        `known` are the classes that each model knows now, the local one in the last row.
        """
        if extra.keys() != {"last_label", "run"}:
            raise SnapshotError(f"pool: expected a memory, got {sorted(extra)[:9]}")
        last, run = extra["last_label"], extra["run"]
        if not isinstance(last, (str, int, float, NoneType)):
            raise SnapshotError(f"pool: expected a label, got {str(last)[:80]!r}")
        if type(run) is not int or not -1 <= run <= MAX_RUN or (last is None and run >= 0):
            raise SnapshotError(f"pool: expected the number of a run, got {str(run)[:80]!r}")
        found = {name: str(array.dtype) for name, array in arrays.items()}
        if found != SCORED_TYPES:
            raise SnapshotError(f"pool: expected the arrays {SCORED_TYPES}, got {str(found)[:200]}")
        opinions, held, codes, runs = (arrays[name] for name in SCORED_TYPES)
        _check_shapes(opinions, held, codes, runs, known.shape)
        steps = np.diff(runs, prepend=0, append=run) if len(runs) else runs
        if np.any(steps < 0) or np.any((codes < 0) | (codes >= known.shape[1])):
            raise SnapshotError("pool: expected known classes, in runs that follow each other")
        _check_opinions(opinions, held, known)
        scored = cls()
        scored._last_label, scored._run = last, run
        columns = codes.tolist(), runs.tolist()
        rows = zip(opinions.copy(), held.astype(bool), *columns, strict=True)
        scored.readings.extend(Scored(*row) for row in rows)
        return scored


def _check_shapes(
    opinions: Floats, held: Ints, codes: Ints, runs: Ints, shape: tuple[int, ...]
) -> None:
    count, (models, classes) = len(codes), shape
    shapes = ((count, models, classes), (count, classes), (count,), (count,))
    if (opinions.shape, held.shape, codes.shape, runs.shape) != shapes or count > MAX_SCORED:
        raise SnapshotError(
            f"pool: expected up to {MAX_SCORED} readings of {models} models and {classes} classes, "
            f"got {opinions.shape}"
        )


def _check_opinions(opinions: Floats, held: Ints, known: Bools) -> None:
    """Raise `SnapshotError` unless each model has an opinion about the classes that it knew."""
    if np.any(held > 1):
        raise SnapshotError("pool: expected classes that are held or not, got other numbers")
    has_said = np.broadcast_to(known, opinions.shape).copy()
    has_said[:, -1] = held
    likely = (opinions >= 0.0) & (opinions <= 1.0 + _ROUNDING)
    right = np.where(has_said, likely, np.isnan(opinions))
    # The local model forgets no class.
    learnt = not np.any((held == 1) & ~known[-1]) and not np.any(held[:-1] > held[1:])
    if not right.all() or not learnt:
        raise SnapshotError("pool: expected probabilities of the classes that each model knows")
