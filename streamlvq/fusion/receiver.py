"""What a receiver checks of a fused model: prototypes that do harm on its own stored readings.

Only the receiver has readings, so only it can see that a prototype of somebody else lies among
those of another class. A pure function of the fused model and the stored readings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from streamlvq.arrays import Array, Bools, Floats, Ints, Label
from streamlvq.estimator import EstimatorState, estimator_class
from streamlvq.fusion.personal import StoredReadings
from streamlvq.fusion.plausibility import prototype_distances
from streamlvq.kernels import layout as at
from streamlvq.models.engine import ARRAY_SECTIONS
from streamlvq.models.parameters import ABSENT_VALUES
from streamlvq.models.vectorizer import Vectorizer

HARM_ERRORS = 3.0  # standard errors by which mistakes exceed what a prototype gets right
MIN_HARM_SHARE = 0.05  # of the readings of a class that a prototype wins wrongly
BUFFER_LINKS = ("buffer_right", "buffer_wrong")  # prototypes that rehearsed readings were close to


@dataclass(frozen=True)
class HarmfulPrototype:
    """A prototype that was dropped, and the readings of other classes that it won wrongly."""

    label: Label
    stolen: int
    readings: int  # of the class that it won most of


def without_harmful(
    fused: EstimatorState, stored: StoredReadings
) -> tuple[EstimatorState, tuple[HarmfulPrototype, ...]]:
    """Drop prototypes of a fused model that do harm on the readings that a node has stored.

    A prototype does harm if it wins clearly more readings of other classes that would be right
    without it than readings of its own class that would be wrong. The last one of a class stays,
    and pairwise models, which have one of each class in a pair, are left as they are.

    Parameters
    ----------
    fused
        State of the model for this node: in the coordinates of its sensors.
    stored
        Labelled readings of the node, in the units of its model.

    """
    if fused.parts:
        parts, dropped_parts = dict(fused.parts), list[HarmfulPrototype]()
        for name, part in fused.parts.items():
            parts[name], harmful = without_harmful(part, stored)
            dropped_parts += harmful
        return (replace(fused, parts=parts) if dropped_parts else fused), tuple(dropped_parts)
    if not len(stored) or "w" not in fused.arrays or "platt" in fused.arrays:
        return fused, ()
    jury = _Jury.of(fused, stored)
    dropped, found = np.zeros(len(jury.label), bool), []
    while (worst := jury.worst(dropped)) is not None:
        p, stolen, readings = worst
        dropped[p] = True
        label = fused.extra["classes"][int(jury.label[p])]
        found.append(HarmfulPrototype(label, stolen, readings))
    if not found:
        return fused, ()
    return without_prototypes(fused, np.flatnonzero(dropped)), tuple(found)


class _Jury:
    """Distances of stored readings from the prototypes of a fused model."""

    def __init__(self, distances: Floats, label: Ints, truth: Ints) -> None:
        self.distances, self.label, self.truth = distances, label, truth
        self.sizes = np.bincount(truth[truth >= 0], minlength=int(label.max()) + 1)

    @classmethod
    def of(cls, fused: EstimatorState, stored: StoredReadings) -> _Jury:
        arrays, count = fused.arrays, int(fused.extra["sizes"]["prototypes"])
        blank = estimator_class(fused.kind)
        omega: list[Floats | None] = [None] * count
        if "omega" in arrays:
            metrics = arrays["omega"]
            omega = [metrics[p if blank.has_local_metrics() else 0] for p in range(count)]
        vectorizer = Vectorizer(fused.extra["features"], ABSENT_VALUES[fused.parameters["absent"]])
        rows = vectorizer.arrange(stored.rows, stored.features)
        distances = prototype_distances(
            rows, arrays["w"][:count], omega, arrays["inverse"], blank.metric_kind()
        )
        code = {label: k for k, label in enumerate(fused.extra["classes"])}
        truth = np.array([code.get(label, -1) for label in stored.labels], np.int64)
        return cls(distances, arrays["label"][:count], truth)

    def worst(self, dropped: Bools) -> tuple[int, int, int] | None:
        """Return the prototype that does most harm, what it won wrongly, and of how many."""
        distances = np.where(dropped, np.inf, self.distances)
        several = np.bincount(self.label[~dropped], minlength=len(self.sizes))
        first = distances.argmin(axis=1)
        rows = np.arange(len(distances))
        distances[rows, first] = np.inf
        second = self.label[distances.argmin(axis=1)]
        mine = self.label[first]
        harm = (mine != self.truth) & (second == self.truth)
        good = (mine == self.truth) & (second != self.truth)
        harms = np.bincount(first[harm], minlength=len(dropped))
        goods = np.bincount(first[good], minlength=len(dropped))
        clear = harms - goods > HARM_ERRORS * np.sqrt(harms + goods)
        for p in np.argsort(-(harms - goods), kind="stable").tolist():
            if not clear[p]:
                continue
            stolen = np.bincount(self.truth[harm & (first == p)], minlength=len(self.sizes))
            victim = int(np.argmax(stolen))
            enough = stolen[victim] > MIN_HARM_SHARE * self.sizes[victim]
            if enough and several[self.label[p]] > 1:
                return p, int(stolen.sum()), int(self.sizes[victim])
        return None


def without_prototypes(state: EstimatorState, rows: Ints) -> EstimatorState:
    """Return the state of a model without some prototypes; each class must keep one."""
    local = estimator_class(state.kind).has_local_metrics()
    axes = (at.PROTOTYPE_CAPACITY, at.METRICS) if local else (at.PROTOTYPE_CAPACITY,)
    arrays: dict[str, Array] = dict(state.arrays)
    for name, array in state.arrays.items():
        section = ARRAY_SECTIONS.get(name)
        if section is not None and section.sizes[0] in axes:
            arrays[name] = _shortened(array, rows, _blank(name, state.arrays, section.start))
    for name in BUFFER_LINKS:
        if name in arrays:
            arrays[name] = np.full_like(arrays[name], -1)
    sizes = {**state.extra["sizes"]}
    sizes["prototypes"] -= len(rows)
    return replace(state, arrays=arrays, extra={**state.extra, "sizes": sizes})


def _blank(name: str, arrays: Mapping[str, Array], start: float) -> Any:
    return arrays["start"] if name == "omega" else start


def _shortened(array: Array, rows: Ints, blank: Any) -> Array:
    """Return the array without rows, and with as many blank ones behind."""
    out = np.empty_like(array)
    kept = np.delete(array, rows, axis=0)
    out[: len(kept)] = kept
    out[len(kept) :] = blank
    return out
