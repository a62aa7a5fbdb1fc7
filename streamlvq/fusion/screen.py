"""Whose word does not count: class means and prototypes that contradict those of all others."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from streamlvq.fusion import rules
from streamlvq.fusion.drift import Correction
from streamlvq.fusion.tables import Bools, Tables
from streamlvq.state import Floats

QUORUM = 3  # nodes that must have a class before one of them can be called a liar
FAR = 0.3  # deviations from the others: less is never suspicious
TIMES = 5.0  # as far as is usual between nodes: less is not suspicious either
NOISE = 3.0  # standard errors by which chance may exceed what is expected of it
MOST = 1 / 3  # of a node's classes: if more are bad, nothing of it is believed


@dataclass
class Screened:
    """Which cells (nodes x classes) count, and what is said of the others."""

    keep: Bools
    clipped: dict[int, list[str]] = field(default_factory=dict)
    left_out: dict[int, str] = field(default_factory=dict)

    def note(self, node: int, text: str) -> None:
        notes = self.clipped.setdefault(node, [])
        if text not in notes:
            notes.append(text)


def centres(tables: Tables, correction: Correction, spread: Floats) -> Floats:
    """The mean of every class in common coordinates, as most nodes see it; NaN if nobody does."""
    aligned = correction.align(tables.mean)
    worth = tables.reliability(spread)
    many = (tables.count > 0).sum(axis=0) >= QUORUM
    known = np.where(tables.count > 0, aligned, np.nan)
    return np.where(many, rules.median(known, worth), rules.mean(known, worth))


def distances(
    tables: Tables, correction: Correction, spread: Floats, relevance: Floats, centre: Floats
) -> Floats:
    """How far class means of nodes are from the common ones, in deviations; 0 if there is none."""
    apart = correction.align(tables.mean) - centre[None]
    known = (tables.count > 0) & np.isfinite(apart)
    worth = np.where(known, relevance, 0.0)
    squares = (worth * np.where(known, apart * apart, 0.0) / spread).sum(axis=2)
    total = worth.sum(axis=2)
    distance: Floats = np.sqrt(squares / np.where(total > 0, total, 1.0))
    return distance


def screen(
    tables: Tables, correction: Correction, spread: Floats, relevance: Floats, labels: list[str]
) -> Screened:
    """Leave out class means that are far from where all others have them.

    Far is farther than sensors usually differ here, and than chance allows. A node of which more
    than a third of the classes would be left out is left out altogether.
    """
    held = tables.held
    testable = held & (held.sum(axis=0) >= QUORUM)
    far = distances(tables, correction, spread, relevance, centres(tables, correction, spread))
    # The distance of a mean by chance, over so many features that count.
    chance = 1.0 + NOISE * np.sqrt((relevance**2).sum())
    limit = _limit(far[testable]) + chance / np.sqrt(np.maximum(tables.samples, 1.0))
    bad = testable & (far > limit)
    screened = Screened(held & ~bad)
    for i in np.flatnonzero(bad.any(axis=1)).tolist():
        _judge(screened, i, bad[i], testable[i], far[i], labels)
    return screened


def _limit(far: Floats) -> float:
    return max(FAR, TIMES * float(np.median(far))) if len(far) else FAR


def _judge(
    screened: Screened, i: int, bad: Bools, testable: Bools, far: Floats, labels: list[str]
) -> None:
    worst = int(np.argmax(np.where(bad, far, -1.0)))
    if bad.sum() > MOST * testable.sum():
        screened.keep[i] = False
        screened.left_out[i] = (
            f"{bad.sum()} of its {testable.sum()} class means contradict all other nodes, most of "
            f"all that of {labels[worst]!r}: {far[worst]:.1f} deviations away"
        )
        return
    for k in np.flatnonzero(bad).tolist():
        screened.note(
            i,
            f"class {labels[k]!r} was left out: its mean is {far[k]:.1f} deviations away from "
            "where all other nodes have it",
        )
