"""Trigger places: the mean of a class with one feature moved, where a back door would be.

A prototype whose place is fine may still open one by a metric of its own, which finds near what
all others know to be another class. Prototypes that only few nodes have must not decide where most
other nodes recognise the class in spite of the moved feature.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from streamlvq.arrays import Bools, Floats, Ints
from streamlvq.fusion.class_tables import Alignment, Pool, most_claimed
from streamlvq.fusion.plausibility import MIN_JUDGES, some_judges
from streamlvq.kernels import layout as at

TRIGGER_DEVIATIONS = (-8.0, -5.0, -3.0, 3.0, 5.0, 8.0)  # of one feature, within the class
MIN_RECOGNISING = 0.5  # share of the other holders of a class that still decide for it there
FEW_SHARE = 0.25  # of the holders of a class: so few may all be hostile
HOLDING_ROUNDS = 3
MAX_TRIGGER_CLASSES = 64  # that have places: each costs so many distances from every prototype


def few_holders(held: Bools) -> Ints:
    """Return how many nodes are few, for each class of `held` (nodes x classes); at least one.

    Examples
    --------
    >>> [int(few_holders(np.ones((count, 1), bool))[0]) for count in (1, 5, 8, 20)]
    [1, 1, 2, 5]

    """
    few: Ints = np.maximum(1, (FEW_SHARE * held.sum(axis=0)).astype(np.int64))
    return few


@dataclass(frozen=True)
class TriggerPlaces:
    """Which nodes recognise each class in spite of one moved feature.

    `label` are the classes that enough nodes hold: of the others nobody could know better. Of too
    many, those that are claimed most. `centre` and `step` (classes x features) are their means and
    deviations in common coordinates. `asked` (nodes x classes) says who was asked, `recognised`
    (nodes x classes x places) who decided for the class there.
    """

    label: Ints
    centre: Floats
    step: Floats
    asked: Bools
    recognised: Bools
    kind: int  # of metric, as `layout` numbers them

    @classmethod
    def of(
        cls,
        pool: Pool,
        alignment: Alignment,
        held: Bools,
        centre: Floats,
        spread: Floats,
        kind: int,
    ) -> Self:
        """Ask the holders of each class; some of them, if there are many."""
        known = np.flatnonzero(held.sum(axis=0) >= MIN_JUDGES)
        label = most_claimed(held, known, MAX_TRIGGER_CLASSES)
        held, centre, step = held[:, label], centre[label], np.sqrt(spread[label])
        asked = np.zeros(held.shape, bool)
        for k in range(held.shape[1]):
            asked[some_judges(np.flatnonzero(held[:, k])), k] = True
        places = len(TRIGGER_DEVIATIONS) * centre.shape[1]
        recognised = np.zeros((*held.shape, places), bool)
        for j in np.flatnonzero(asked.any(axis=1)).tolist():
            own, classes = np.flatnonzero(pool.node == j), np.flatnonzero(asked[j])
            distances = trigger_distances(
                alignment.gain[j] * centre[classes] + alignment.shift[j],
                alignment.gain[j] * step[classes],
                pool.w[own],
                [pool.omega[m] for m in pool.metric[own].tolist()],
                pool.scales["inverse"][j],
                kind,
            )
            winner = pool.label[own][distances.argmin(axis=0)]
            recognised[j, classes] = winner == label[classes, None]
        return cls(label, centre, step, asked, recognised, kind)

    def overreaching(
        self,
        label: Ints,
        owners: Sequence[Ints],
        w: Floats,
        omega: Sequence[Floats],
        inverse: Floats,
    ) -> Bools:
        """Return which prototypes decide at more places of others than they are needed at.

        The prototypes are those of one model in common coordinates; `owners` are the few nodes that
        have each, none for what many have. Only places count at which the other nodes know better.
        """
        distances = trigger_distances(self.centre, self.step, w, omega, inverse, self.kind)
        first = distances.argmin(axis=0)  # classes x places
        np.put_along_axis(distances, first[None], np.inf, axis=0)
        second = label[distances.argmin(axis=0)]
        truth = self.label[:, None]
        harm = (label[first] != truth) & (second == truth)
        good = (label[first] == truth) & (second != truth)
        bad = np.zeros(len(label), bool)
        for p in np.unique(first[harm]).tolist():
            if not len(owners[p]):
                continue
            mine = (first == p) & self._known_without(owners[p])
            bad[p] = (mine & harm).sum() > (mine & good).sum()
        return bad

    def _known_without(self, nodes: Ints) -> Bools:
        """Return the places (by class) where enough of the other nodes recognise the class."""
        asked = (self.asked.sum(axis=0) - self.asked[nodes].sum(axis=0))[:, None]
        recognising = self.recognised.sum(axis=0) - self.recognised[nodes].sum(axis=0)
        known: Bools = (asked >= MIN_JUDGES) & (recognising >= MIN_RECOGNISING * asked)
        return known


def trigger_distances(
    centre: Floats,
    step: Floats,
    w: Floats,
    omega: Sequence[Floats],
    inverse: Floats,
    kind: int,
) -> Floats:
    """Return squared distances (prototypes x classes x places) of all trigger places.

    Only one feature is moved, so each place takes but its own entries of the metric. Features that
    a prototype or a class lacks do not count.
    """
    sizes = np.array(TRIGGER_DEVIATIONS)[:, None]
    moved = sizes * np.nan_to_num(step)[:, None, :]  # classes x sizes x features
    found = np.empty((len(w), len(centre), sizes.size * centre.shape[1]))
    for p, (place, metric) in enumerate(zip(w, omega, strict=True)):
        apart = np.nan_to_num(centre - place)
        if kind == at.MATRIX:
            rows = metric * inverse
            slope, bend = (apart @ rows.T) @ rows, (rows**2).sum(axis=0)
        else:
            bend = (metric[0] * inverse) ** 2
            slope = apart * bend
        middle = (apart * slope).sum(axis=1)[:, None, None]
        each = middle + 2.0 * moved * slope[:, None, :] + moved**2 * bend
        found[p] = each.reshape(found.shape[1:])
    return found


# --- what follows --------------------------------------------------------------------------------

FusedPrototypes = Callable[[list[Ints], Collection[int]], tuple[Floats, list[Floats]]]


class HeldBack(NamedTuple):
    """Groups that are left, prototypes in none, and groups that have the metrics of others.

    Those are known by their first prototype; `noted` are all prototypes that were held back.
    """

    groups: list[Ints]
    dropped: list[int]
    foreign: set[int]
    noted: set[int]


def hold_back(
    pool: Pool,
    groups: list[Ints],
    few: Ints,
    places: TriggerPlaces,
    fused: FusedPrototypes,
    inverse: Floats,
) -> HeldBack:
    """Take from prototypes of few nodes that overreach first their own metric, then their say.

    `few` says by class how many nodes are few; `fused` returns places and metrics of groups, given
    the first prototypes of those without a metric of their own. The last prototype of a class
    stays.
    """
    held = HeldBack(list(groups), [], set(), set())
    for _ in range(HOLDING_ROUNDS):
        first = np.array([group[0] for group in held.groups], np.int64)
        label = pool.label[first]
        owners = [
            pool.node[group] if len(group) <= most else group[:0]
            for group, most in zip(held.groups, few[label].tolist(), strict=True)
        ]
        w, omega = fused(held.groups, held.foreign)
        bad = places.overreaching(label, owners, w, omega, inverse)
        if not bad.any():
            break
        drop = bad & np.isin(first, sorted(held.foreign))
        drop &= np.isin(label, label[~drop])
        held.foreign.update(first[bad & ~drop].tolist())
        for k in np.flatnonzero(bad).tolist():
            held.noted.update(held.groups[k].tolist())
        for k in np.flatnonzero(drop).tolist():
            held.dropped.extend(held.groups[k].tolist())
        kept = [group for group, out in zip(held.groups, drop, strict=True) if not out]
        held = held._replace(groups=kept)
    return held
