"""Screening: class means, prototypes and metrics that contradict those of all other nodes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import msgspec
import numpy as np

from streamlvq.arrays import Bools, Floats
from streamlvq.fusion.aggregators import weighted_mean, weighted_median
from streamlvq.fusion.class_tables import Alignment, ClassTables

QUORUM = 3  # nodes that must have a class before one of them can be said to contradict the others
MIN_DISTANCE = 0.3  # deviations from the others: less is never suspicious
USUAL_RATIO = 5.0  # times as far as is usual between nodes: less is not suspicious either
NOISE_ERRORS = 3.0  # standard errors by which chance may exceed what is expected of it
MAX_BAD_SHARE = 1 / 3  # of a node's classes: if more are bad, nothing of it is believed

ClippingKind = Literal[
    "class_left_out",
    "prototype_left_out",
    "prototype_drawn_back",
    "prototype_implausible",
    "prototype_unsupported",
    "prototype_overreaching",
    "metric_cut",
    "metric_raised",
    "metric_rescaled",
    "scale_cut",
    "counts_capped",
    "features_left_out",
]


class Clipping(msgspec.Struct, frozen=True, omit_defaults=True):
    """A change to, or exclusion of, something that a node contributed.

    Attributes
    ----------
    kind
        What it was, and what was done to it.
    label, deviations
        The class that was left out, and how far its mean is from that of the others.
    count
        How many features were left out, or prototypes did not count.
    ratio
        Readings that it says it has learnt, over those that are believed.
    """

    kind: ClippingKind
    label: str | None = None
    deviations: float | None = None
    count: int | None = None
    ratio: float | None = None

    @property
    def excluded(self) -> bool:
        """Whether something was excluded altogether and should be looked into.

        Values that were merely cut happen to honest nodes too, and so do features of one's own.
        """
        return self.kind in ("class_left_out", "prototype_left_out")

    def __str__(self) -> str:
        match self.kind:
            case "class_left_out":
                return (
                    f"class {self.label!r} was left out: its mean is {self.deviations:.1f} "
                    "deviations away from where all other nodes have it"
                )
            case "prototype_left_out":
                return "a prototype far from all others was left out"
            case "prototype_drawn_back":
                return "a prototype far from the others was drawn back"
            case "prototype_implausible":
                which = "a prototype" if self.count == 1 else f"{self.count} prototypes"
                return (
                    f"{which} of class {self.label!r} did not count: where they are, most other "
                    "nodes that have the class know another one"
                )
            case "prototype_unsupported":
                which = "a prototype" if self.count == 1 else f"{self.count} prototypes"
                return (
                    f"{which} of class {self.label!r} did not count: only this node has any there"
                )
            case "prototype_overreaching":
                which = "a prototype" if self.count == 1 else f"{self.count} prototypes"
                return (
                    f"{which} of class {self.label!r} that hardly any other node has found "
                    "readings near that most know to be of another class: held back"
                )
            case "metric_raised":
                return "a metric that is smaller than all others was raised"
            case "metric_cut":
                return "a metric that is larger than all others was cut"
            case "metric_rescaled":
                return "a metric whose norm is not 1 was scaled to it"
            case "scale_cut":
                return "the scale of a feature far from that of all others was cut"
            case "counts_capped":
                return f"it says that it has learnt {self.ratio:.2g} times what is believed of it"
            case "features_left_out":
                return f"{self.count} features that no other node has were left out"


@dataclass
class ScreeningResult:
    """Which cells (nodes x classes) count, and what was done to nodes, by their number."""

    keep: Bools
    clipped: dict[int, list[Clipping]] = field(default_factory=dict)
    left_out: dict[int, str] = field(default_factory=dict)

    def add(self, other: ScreeningResult) -> None:
        """Add the cells and notes of other nodes."""
        self.keep |= other.keep
        self.clipped.update(other.clipped)
        self.left_out.update(other.left_out)

    def note(self, node: int, clipping: Clipping) -> None:
        """Record what was clipped, once."""
        notes = self.clipped.setdefault(node, [])
        if clipping not in notes:
            notes.append(clipping)


def class_centres(tables: ClassTables, alignment: Alignment) -> Floats:
    """Return class means in common coordinates as most nodes see them; NaN if nobody does."""
    aligned = alignment.align(tables.mean)
    worth = tables.reliability()
    many = (tables.count > 0).sum(axis=0) >= QUORUM
    known = np.where(tables.count > 0, aligned, np.nan)
    return np.where(many, weighted_median(known, worth), weighted_mean(known, worth))


def class_distances(
    tables: ClassTables, alignment: Alignment, relevance: Floats, centre: Floats
) -> Floats:
    """Return how far class means of nodes are from the common ones, in deviations; 0 if unknown."""
    apart = alignment.align(tables.mean) - centre[None]
    known = (tables.count > 0) & np.isfinite(apart)
    worth = np.where(known, relevance, 0.0)
    squares = (worth * np.where(known, apart * apart, 0.0) / tables.spread).sum(axis=2)
    total = worth.sum(axis=2)
    distance: Floats = np.sqrt(squares / np.where(total > 0, total, 1.0))
    return distance


def screen_nodes(
    tables: ClassTables, alignment: Alignment, relevance: Floats, labels: list[str]
) -> ScreeningResult:
    """Leave out class means that are far from where all others have them.

    Far is farther than sensors usually differ here, and than chance allows. A node of which more
    than a third of the classes would be left out is left out altogether.
    """
    held = tables.held
    testable = held & (held.sum(axis=0) >= QUORUM)
    far = class_distances(tables, alignment, relevance, class_centres(tables, alignment))
    # The distance of a mean by chance, over so many features that count.
    chance = 1.0 + NOISE_ERRORS * np.sqrt((relevance**2).sum())
    limit = _limit(far[testable]) + chance / np.sqrt(np.maximum(tables.samples, 1.0))
    bad = testable & (far > limit)
    screened = ScreeningResult(held & ~bad)
    for i in np.flatnonzero(bad.any(axis=1)).tolist():
        _exclude(screened, i, bad[i], testable[i], far[i], labels)
    return screened


def _limit(far: Floats) -> float:
    return max(MIN_DISTANCE, USUAL_RATIO * float(np.median(far))) if len(far) else MIN_DISTANCE


def _exclude(
    screened: ScreeningResult, i: int, bad: Bools, testable: Bools, far: Floats, labels: list[str]
) -> None:
    worst = int(np.argmax(np.where(bad, far, -1.0)))
    if bad.sum() > MAX_BAD_SHARE * testable.sum():
        screened.keep[i] = False
        screened.left_out[i] = (
            f"{bad.sum()} of its {testable.sum()} class means contradict all other nodes, most of "
            f"all that of {labels[worst]!r}: {far[worst]:.1f} deviations away"
        )
        return
    for k in np.flatnonzero(bad).tolist():
        screened.note(i, Clipping("class_left_out", label=labels[k], deviations=float(far[k])))
