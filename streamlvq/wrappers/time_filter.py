"""`TimeFilter`: what a `TimeIntegrator` with an adaptive window learns from labels."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from streamlvq.arrays import Floats, Label
from streamlvq.kernels import kernels
from streamlvq.kernels import layout as at
from streamlvq.models.vectorizer import Arrays, KernelBatch

_ROUNDING = 1e-6


class TimeFilter:
    """Forward filter over the readings of each device, and how much it trusts the past.

    `streamlvq.kernels.filtering` has the formulas. `fitted` is shared by all devices; their
    posteriors are in the windows of the integrator. `evidence` is that of the last reading: the logs
    of what its past let expect and of the classifier's probabilities.
    """

    def __init__(self, delay: int) -> None:
        self.delay = delay
        self.fitted: Floats = np.array(at.UNFITTED_FILTER)
        self._codes: dict[Label, int] = {}
        self._make_scratch(0)

    def _make_scratch(self, classes: int) -> None:
        self._evidence: Floats = np.full((2, classes), np.nan)
        self._out: Floats = np.empty(classes)

    def __getstate__(self) -> dict[str, Any]:
        # Predictions must not change the pickle.
        return {**self.__dict__, "_evidence": np.empty((2, 0)), "_out": np.empty(0)}

    # --- classes ---------------------------------------------------------------------------------

    def set_labels(self, labels: Sequence[Label]) -> None:
        """Set the classes in the order of their columns; new ones come last."""
        self._codes = {label: code for code, label in enumerate(labels)}
        missing = at.CLASS_COUNTS + len(labels) - len(self.fitted)
        if missing > 0:
            self.fitted = np.append(self.fitted, np.zeros(missing))

    def code(self, y: Label | None) -> int:
        """Return the code of a label for the kernel; None means that there is none."""
        if y is None:
            unlabelled: int = kernels("pipeline").UNLABELLED
            return unlabelled
        code: int = self._codes.get(y, kernels("filtering").UNKNOWN_CLASS)
        return code

    def moved_to(self, before: Sequence[Hashable], after: Sequence[Hashable]) -> TimeFilter:
        """Return a copy with the counts of classes in another order; 0 for those not in `before`."""
        counts = dict(zip(before, self.fitted[at.CLASS_COUNTS :].tolist(), strict=False))
        new = TimeFilter(self.delay)
        shared = self.fitted[: at.CLASS_COUNTS]
        new.fitted = np.append(shared, [counts.get(label, 0.0) for label in after])
        new.set_labels(after)
        return new

    # --- predictions -----------------------------------------------------------------------------

    def posterior(self, logs: Floats, count: int, p: Floats) -> tuple[Floats, int]:
        """Return the posterior that a decision rests on, and the likeliest class.

        `logs` and `count` are the memory of the device. The array is valid until the next call.
        """
        best = self.meet(logs, count, p)
        if not self.delay:
            return self._out, best
        return self._smooth(logs, count, p, self.delay, current=True)

    def meet(self, logs: Floats, count: int, p: Floats, moves_on: bool = False) -> int:
        """Compute the evidence of a reading; return the likeliest class.

        With `moves_on` the reading is added to the memory of its device.
        """
        if len(self._out) != len(p):
            self._make_scratch(len(p))
        best: int = kernels("filtering").filter_reading(
            logs, count, self.fitted, p, int(moves_on), self._evidence, self._out
        )
        return best

    def outstanding(self, logs: Floats, count: int, ago: int, classes: int) -> tuple[Floats, int]:
        """Return the posterior of a reading when no more will follow, and the likeliest class."""
        return self._smooth(logs, count, np.zeros(classes), ago, current=False)

    def _smooth(
        self, logs: Floats, count: int, p: Floats, ago: int, current: bool
    ) -> tuple[Floats, int]:
        out, evidence = np.empty(len(p)), np.empty((2, len(p)))
        best = kernels("filtering").smooth_reading(
            logs, count, self.fitted, p, int(current), ago, evidence, out
        )
        return out, best

    # --- moving on and learning ------------------------------------------------------------------

    def evidence(self) -> Floats | None:
        """Return the evidence of the last reading; None if it had no past."""
        evidence = self._evidence
        if not evidence.size or evidence[0, 0] != evidence[0, 0]:
            return None
        return evidence.copy()

    def forget_evidence(self) -> None:
        """Have no evidence, because there is no decision that a label could be compared with."""
        self._evidence[:] = np.nan

    def learn(self, y: Label | None, last: npt.NDArray[np.int64], slot: int) -> None:
        """Fit the filter to the label of the reading that was just added."""
        self._learn(self._evidence, y, last, slot)

    def learn_late(
        self, evidence: Floats, y: Label, last: npt.NDArray[np.int64], slot: int
    ) -> None:
        """Fit the filter to the label of an earlier reading."""
        self._learn(evidence, y, last, slot)

    def _learn(
        self, evidence: Floats, y: Label | None, last: npt.NDArray[np.int64], slot: int
    ) -> None:
        code, out = self.code(y), np.empty(evidence.shape[1])
        kernels("filtering").learn_filter(self.fitted, evidence, code, last, slot, out)

    # --- many readings in one kernel call --------------------------------------------------------

    def lend(self, batch: KernelBatch) -> Arrays:
        """Return what was fitted, the label codes of the rows, and room for their evidence.

        Labels teach the filter also where the model is fixed.
        """
        kernel = kernels("filtering")
        batch.filter_reading = kernel.address("filter_reading")
        batch.learn_filter = kernel.address("learn_filter")
        codes = np.array([self.code(y) for y in batch.readings.labels[batch.rows]], np.int64)
        batch.evidence = np.empty((batch.count, 2, len(batch.classes)))
        return self.fitted, codes, batch.evidence

    # --- state -----------------------------------------------------------------------------------

    def restore(self, fitted: Floats, classes: int) -> None:
        """Restore `fitted`; raise ValueError if no labels can have led to it."""
        if fitted.shape != (at.CLASS_COUNTS + classes,) or not np.isfinite(fitted).all():
            raise ValueError(f"filter: expected {at.CLASS_COUNTS + classes} finite numbers")
        if not _is_fitted(*fitted[: at.CLASS_COUNTS].tolist()):
            raise ValueError("filter: expected what labels can teach, got other numbers")
        counts = fitted[at.CLASS_COUNTS :]
        most = kernels("filtering").MAX_COUNT + _ROUNDING
        if np.any(counts < 0.0) or counts.sum() > most:
            raise ValueError(f"filter: expected class counts up to {most:g} in all")
        self.fitted = np.array(fitted, np.float64)


def _is_fitted(
    past: float, reading: float, aa: float, ab: float, bb: float, changes: float, pairs: float
) -> bool:
    """Return True for weights, curvatures and counts in the range of the kernel's."""
    constants = kernels("filtering")
    most = constants.MAX_COUNT + _ROUNDING
    # Scores are logs of at least the floor, so that their variance is bounded.
    widest = most * kernels("pipeline").LOG_PROBABILITY_FLOOR ** 2
    return (
        0.0 <= past <= constants.MAX_EXPONENT
        and 0.0 <= reading <= constants.MAX_EXPONENT
        and 0.0 <= aa <= widest
        and 0.0 <= bb <= widest
        and abs(ab) <= math.sqrt(aa * bb) + 1.0
        and 0.0 <= changes <= pairs + _ROUNDING
        and 1.0 <= pairs <= most
    )
