"""Attacks on running statistics: counts, means and variances of classes and features.

A running mean m of n readings is their sum over n: what two publications say about it differs by
the readings in between. With forgetting, n is the sum of weights, of which a new reading has 1.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from streamlvq.arrays import Floats
from streamlvq.audit.attack import Attack, Case
from streamlvq.audit.findings import (
    AuditVerdict,
    Finding,
    Reconstruction,
    best_first,
    not_applicable,
)
from streamlvq.audit.publications import ClassChange, Step
from streamlvq.text import number, percent, plural

CHECK_TOLERANCE = 1e-6  # of a variance that a reconstructed reading has to explain
NO_STATISTICS = "no class statistics are published"
RAISE_MINIMUM = (
    "publish a class only after at least 10 new readings of it (fleet.min_new_per_class), or under "
    "differential privacy"
)


class CountsAndMeans(Attack):
    """A class with one new reading between two publications: n1 m1 - n0 m0 is that reading.

    The variance has to agree with it, so an outsider knows that it is right.
    """

    each = 1  # readings that one reconstruction stands for

    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self._found: list[Reconstruction] = []
        self._exact = self._close = self._readings = 0
        self._rounds: Counter[bool] = Counter()  # publications, by whether a reading was recovered
        self._tried = self._first = False
        self._fewest: int | None = None

    def see(self, step: Step) -> None:
        self._tried |= "class_mean" in step.after.arrays
        self._first |= step.before is None
        changes = list(step.class_changes())
        if not changes:
            return
        recovered = 0
        for change in changes:
            self._readings += max(0, change.new)
            self._fewest = min(change.new, self._fewest or change.new)
            found = self._recover(step, change)
            recovered += self.each * sum(one.is_exact for one in found)
            self._close += self.each * sum(one.is_close and not one.is_exact for one in found)
            self._found = list(best_first([*self._found, *found]))
        self._exact += recovered
        self._rounds[recovered > 0] += 1

    def _recover(self, step: Step, change: ClassChange) -> list[Reconstruction]:
        values = single_reading(change) if change.new == 1 else None
        if values is None:
            return []
        return [step.reconstruction(change.label, values, self.case.truth)]

    def finding(self) -> Finding:
        if not self._tried:
            return not_applicable(NO_STATISTICS)
        rounds = sum(self._rounds.values())
        if not rounds:
            return not_applicable("no class changed between the publications")
        figures = {
            "readings": self._readings,
            "exact": self._exact,
            "publications": rounds,
            "publications_with_one": self._rounds[True],
        }
        measure = (
            f"{number(self._exact)} of {plural(self._readings, 'labelled reading')} exactly; at "
            f"least one in {number(self._rounds[True])} of {plural(rounds, 'publication')}"
        )
        assumes = "two publications of a node in a row, or one with a class of few readings"
        if self._exact or self._close:
            verdict = AuditVerdict.EXACT if self._exact else AuditVerdict.CLOSE
            if self._close:
                measure += f"; {number(self._close)} nearly"
            return Finding(verdict, measure, assumes, RAISE_MINIMUM, tuple(self._found), figures)
        if self.case.private is None:  # counts of a private model hold noise
            measure += f"; a class always had at least {self._fewest} new readings"
        return Finding(AuditVerdict.NOTHING, measure, assumes, "", tuple(self._found), figures)


class PairFromSpread(CountsAndMeans):
    """Two new readings of a class: their sum and sum of squares give both, feature by feature.

    Which of the two values of a feature belongs to which reading stays open. With forgetting the
    order of the two matters, which is not known: then values are only nearly right.
    """

    each = 2

    def _recover(self, step: Step, change: ClassChange) -> list[Reconstruction]:
        if change.new != 2:
            return []
        pair = two_readings(change, step.forget)
        if pair is None:
            return []
        truth, forgetful = self.case.truth, step.forget < 1.0
        return [
            step.reconstruction(change.label, pair[0], truth, other=pair[1], approximate=forgetful)
        ]


def single_reading(change: ClassChange) -> Floats | None:
    """Return the one reading that explains a change; None if its variance shows that none does.

    A feature that the reading lacked is NaN.

    Examples
    --------
    >>> import numpy as np
    >>> from streamlvq.audit.publications import ClassChange
    >>> one = np.ones(1)  # 3 and 5, then 7
    >>> change = ClassChange("ok", (2, 3), (2 * one, 3 * one), (4 * one, 5 * one),
    ...                      (1 * one, 8 / 3 * one))
    >>> single_reading(change)
    array([7.])

    """
    (n0, n1), (m0, m1), (v0, v1) = change.seen, change.mean, change.variance
    present = (n1 != n0) | ((n0 == 0.0) & (n1 > 0.0))
    share = 1.0 / np.maximum(n1, 1.0)
    moved = (m1 - m0) / share
    wanted = (1.0 - share) * (v0 + share * moved**2)
    scale = np.abs(v1) + np.abs(wanted) + 1e-9 * m1**2
    agrees = np.abs(v1 - wanted) <= CHECK_TOLERANCE * scale
    if not present.any() or not agrees[present].all():
        return None
    reading: Floats = np.where(present, m0 + moved, np.nan)
    return reading


def two_readings(change: ClassChange, forget: float = 1.0) -> tuple[Floats, Floats] | None:
    """Return the lower and the higher value of two readings that explain a change of each feature.

    None if there are none. A feature that not both readings had is NaN. With forgetting, the first
    of the two is taken to have the lower values.

    Examples
    --------
    >>> import numpy as np
    >>> from streamlvq.audit.publications import ClassChange
    >>> zero, one = np.zeros(1), np.ones(1)  # 3 and 5
    >>> two_readings(ClassChange("ok", (0, 2), (zero, 2 * one), (zero, 4 * one), (zero, one)))
    (array([3.]), array([5.]))

    """
    (n0, n1), (m0, m1), (v0, v1) = change.seen, change.mean, change.variance
    kept = forget * forget
    both = np.abs(n1 - (kept * n0 + forget + 1.0)) < 1e-6
    # Around the old mean (or the new one if there is no old one) large means cost no digits.
    centre = np.where(n0 > 0.0, m0, m1)
    total = n1 * (m1 - centre) - kept * n0 * (m0 - centre)
    squares = n1 * (v1 + (m1 - centre) ** 2) - kept * n0 * (v0 + (m0 - centre) ** 2)
    # forget a + b = total and forget a^2 + b^2 = squares
    root = squares * (1.0 + forget) - total**2
    floor = -CHECK_TOLERANCE * (np.abs(squares) * (1.0 + forget) + total**2 + 1e-12)
    if not both.any() or (root[both] < floor[both]).any():
        return None
    apart = np.sqrt(np.maximum(root, 0.0) / forget)
    first = (total - apart) / (1.0 + forget)
    second = total - forget * first
    low = np.where(both, centre + np.minimum(first, second), np.nan)
    high = np.where(both, centre + np.maximum(first, second), np.nan)
    return low, high


class FeatureMeans(Attack):
    """Running means of all readings, labelled or not: one reading apart they give it exactly.

    They also give the one reading without a label among any number of labelled ones, by taking
    away what the classes say.
    """

    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self._found: list[Reconstruction] = []
        self._tried = False
        self._steps = self._exact = self._unlabelled = 0

    def see(self, step: Step) -> None:
        arrays = step.after.arrays
        if step.before is None or any(name not in arrays for name in ("weight", "mean")):
            return
        old = [step.old(name) for name in ("weight", "mean", "variance")]
        if any(each is None for each in old):
            return
        self._tried = True
        if np.array_equal(old[1], arrays["mean"]):
            return
        self._steps += 1
        new = tuple(np.asarray(arrays[name]) for name in ("weight", "mean", "variance"))
        (n0, m0, v0), (n1, m1, v1) = old, new
        arrived = n1 - step.forget * n0  # 1 if one reading came, with forgetting as without
        labelled = [change for change in step.class_changes() if change.new > 0]
        if np.allclose(arrived, 1.0, atol=1e-6):
            whole = ClassChange(None, (0.0, 1.0), (n0, n1), (m0, m1), (v0, v1))
            values = single_reading(whole)
            label = labelled[0].label if len(labelled) == 1 else None
        elif step.forget == 1.0 and labelled:
            values, label = self._rest(n1 - n0, n1 * m1 - n0 * m0, labelled), None
            self._unlabelled += values is not None
        else:
            return
        if values is not None:
            truth = None if label is None else self.case.truth  # logs of labels lack the others
            found = step.reconstruction(label, values, truth)
            self._exact += found.is_exact
            self._found = list(best_first([*self._found, found]))

    @staticmethod
    def _rest(arrived: Floats, total: Floats, labelled: list[ClassChange]) -> Floats | None:
        """Return the reading that no class accounts for; None unless there is exactly one."""
        for change in labelled:
            (n0, n1), (m0, m1) = change.seen, change.mean
            arrived, total = arrived - (n1 - n0), total - (n1 * m1 - n0 * m0)
        return total if np.allclose(arrived, 1.0, atol=1e-6) else None

    def finding(self) -> Finding:
        if not self._tried:
            return not_applicable("needs two publications of a node with running feature means")
        if not self._steps:
            return not_applicable("no feature mean changed between the publications")
        measure = f"{number(self._exact)} readings exactly in {plural(self._steps, 'step')}"
        if self._unlabelled:
            measure += f", {number(self._unlabelled)} of them without a label"
        figures = {"exact": self._exact, "steps": self._steps, "unlabelled": self._unlabelled}
        assumes = "two publications of a node in a row"
        if self._exact:
            shown = tuple(self._found)
            return Finding(AuditVerdict.EXACT, measure, assumes, RAISE_MINIMUM, shown, figures)
        return Finding(AuditVerdict.NOTHING, measure, assumes, "", (), figures)


class ReadingsInFile(Attack):
    """Readings that a file holds as they are: for rehearsal, windows of trees, samples to judge by.

    Nodes never publish them; a file of `train`, or of a daemon's state, has them.
    """

    def finding(self) -> Finding:
        if not self.case.stored:
            return Finding(AuditVerdict.NOTHING, "no reading is stored in what is published")
        return Finding(
            AuditVerdict.EXACT,
            f"{plural(self.case.stored, 'reading')} as they are",
            "the file itself",
            "pass on Snapshot.of(model, readings=False), never this file; nodes of a fleet do so",
            figures={"exact": self.case.stored},
        )


def share_text(part: int, whole: int) -> str:
    """Return "3 of 8 (37.5 %)"."""
    return f"{number(part)} of {number(whole)} ({percent(part / whole if whole else None)})"
