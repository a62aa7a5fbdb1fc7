"""Attack on where prototypes are: they are born on a reading and stay near it for a while."""

from __future__ import annotations

import numpy as np
from scipy.stats import binomtest

from streamlvq.audit.attack import Attack, Case
from streamlvq.audit.class_statistics import share_text
from streamlvq.audit.findings import (
    AuditVerdict,
    Finding,
    Reconstruction,
    best_first,
    not_applicable,
)
from streamlvq.audit.publications import Step, Truth
from streamlvq.text import plural

SIGNIFICANT = 1e-3  # chance that prototypes without a trace of their birth look like it
BIRTH_ADVICE = (
    "let prototypes learn more before they are published, allow fewer of them "
    "(max_prototypes_per_class), or learn under differential privacy"
)


class NearestToBorn(Attack):
    """Prototypes of one publication, taken for readings: they are born on one.

    A prototype whose gradients are still zero has not moved: it is that reading. How near the
    others are takes a log to tell; a published index of birth says which reading of the log it is.
    """

    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self._last: dict[str, Step] = {}  # by node
        self._unmoved: dict[tuple[str, int, int], Reconstruction] = {}
        self._indexed = False

    def see(self, step: Step) -> None:
        if step.after.prototypes == 0 or "w" not in step.after.arrays:
            return
        self._last[step.node] = step
        self._indexed |= bool(np.any(step.after.arrays.get("born", 0.0)))
        for p in unmoved(step):
            label = step.after.labels[int(step.after.arrays["label"][p])]
            place = step.after.arrays["w"][p]
            key = (step.node, p, hash(place.tobytes()))
            if key not in self._unmoved:
                self._unmoved[key] = step.reconstruction(label, place, self.case.truth)

    def finding(self) -> Finding:
        if not self._last:
            return not_applicable("no prototypes are published")
        exact = [one for one in self._unmoved.values() if one.is_exact]
        near, born, chance, shown = 0, 0, 0.0, list[Reconstruction]()
        for step in self._last.values():
            if self.case.truth is not None:
                found = _measure(step, self.case.truth)
                near, born, chance = near + found[0], born + found[1], chance + found[2]
                shown += found[3]
        count = sum(step.after.prototypes for step in self._last.values())
        figures: dict[str, float] = {"prototypes": count, "exact": len(exact)}
        parts = [f"{len(exact)} prototypes that had not moved"] if exact else []
        close = False
        if born:
            figures |= {"near": near, "born": born, "expected_near": chance}
            parts.append(
                f"{share_text(near, born)} nearest to the reading they were born on, by chance "
                f"{chance:.2g}"
            )
            mean = min(max(chance / born, 1e-12), 1.0)
            close = binomtest(near, born, mean, alternative="greater").pvalue < SIGNIFICANT
        if self._indexed:
            parts.append("indices of birth are published")
        assumes = "one publication"
        if exact or close:
            verdict = AuditVerdict.EXACT if exact else AuditVerdict.CLOSE
            best = best_first([*exact, *shown])
            return Finding(verdict, "; ".join(parts), assumes, BIRTH_ADVICE, best, figures)
        if not born:
            parts.append(f"{plural(count, 'prototype')} have moved; with a log, how near they are")
        return Finding(
            AuditVerdict.NOTHING, "; ".join(parts), assumes, "", best_first(shown), figures
        )


def unmoved(step: Step) -> list[int]:
    """Return the prototypes that are still the reading they were born on.

    Their squared gradients, which are published for adaptive steps, are zero.
    """
    arrays, count = step.after.arrays, step.after.prototypes
    moments = arrays.get("w_moment")
    adaptive = step.parameters.get("step") == "adagrad" and step.parameters.get("absent") != "zero"
    if moments is None or not adaptive or not moments[:count].any():
        return []  # all zero: they were left out
    whole = np.isfinite(arrays["w"][:count]).all(axis=1)
    return np.flatnonzero(whole & ~moments[:count].any(axis=1)).tolist()


def _measure(step: Step, truth: Truth) -> tuple[int, int, float, list[Reconstruction]]:
    """Return how many prototypes are nearest to their birth, of how many, and how many by chance.

    Nearest of all readings of the class, in feature spreads.
    """
    births = step.births
    if births is None:
        born = step.after.arrays.get("born")
        if born is None or not born.any():
            return 0, 0, 0.0, []
        births = [round(each) for each in born[: step.after.prototypes].tolist()]
    known = [k for k, name in enumerate(step.after.features) if name in truth.features]
    columns = [list(truth.features).index(step.after.features[k]) for k in known]
    spreads = step.sensor_spreads(None)
    unit = np.array([spreads[step.after.features[k]] for k in known])
    near, count, chance, shown = 0, 0, 0.0, []
    for p, born_on in enumerate(births):
        label = step.after.labels[int(step.after.arrays["label"][p])]
        own = truth.of_class(label)
        if not 0 <= born_on < len(truth.labels) or truth.labels[born_on] != label or len(own) < 2:
            continue
        place = step.after.arrays["w"][p]
        found = step.reconstruction(label, place, None)
        sensor = np.array([found.values.get(truth.features[k], np.nan) for k in columns])
        apart = np.nansum(((truth.rows[own][:, columns] - sensor) / unit) ** 2, axis=1)
        nearest = int(own[int(np.argmin(apart))])
        near, count, chance = near + (nearest == born_on), count + 1, chance + 1.0 / len(own)
        if nearest == born_on:
            shown.append(truth.judge(found, step.sensor_spreads(label)))
    return near, count, chance, shown
