"""Weights of a pool: fitted on opinions about readings before these were learnt.

A node's weights follow its own records, drawn towards a prior; those of the fleet are a trimmed
mean over its nodes; a node departs from the fleet's only where its records leave no doubt.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from streamlvq.arrays import Bools, Floats, Ints
from streamlvq.kernels import kernels
from streamlvq.models.pool import (
    MAX_UNSEEN,
    MAX_WEIGHT,
    PoolClassifier,
    PoolWeights,
    unseen_offsets,
    with_local_opinions,
)

NODE_RIDGE = 10.0  # curvature of the prior under the weights of a node
FLEET_RIDGE = 100.0  # and of the fleet's weights under those that a node has for itself
UNSEEN_RIDGE = 1.0  # of the mass of unseen classes
TRIMMED_WEIGHTS = 0.2  # share of the nodes at either end that the fleet's weights leave out
TRIMMING_NODES = 3  # so many leave out one at either end; with fewer, nothing is trimmed
CLEAR_GAIN = 0.2  # nats, and standard errors, by which a node's own weights must be better
CLEAR_ERRORS = 2.0
MIN_KNOWN_WEIGHT = 1e-3  # of candidates: whoever gives them less says nothing about them
RUN_EVIDENCE = 10.0  # readings that a longer run of one label counts as: they resemble each other

# Mean of what was fitted on fleets of gas sensors, people with phones and machines.
PRIOR_KINDS: Mapping[str, Mapping[str, float]] = {
    "fused": {"none": 0.12, "least_squares": 0.03, "scale_shift": 0.06},
    "ensemble": {"none": 0.22, "least_squares": 0.27, "scale_shift": 0.20},
    "personal": {"none": 0.15, "least_squares": 0.11, "scale_shift": 0.13},
    "round": {"none": 0.28, "least_squares": 0.11, "scale_shift": 0.11},
}
PRIOR_OTHER = 0.1  # of a candidate that is not among them
PRIOR_LOCAL = 0.23
PRIOR_UNSEEN = 0.81
PRIOR_TOTAL = sum(sum(each.values()) for each in PRIOR_KINDS.values())


def prior_weights(names: Sequence[str]) -> PoolWeights:
    """Return the weights of candidates before there are records; they add up to the same always.

    Examples
    --------
    >>> prior_weights(["fused none", "round none"]).candidates
    {'fused none': 0.537, 'round none': 1.253}

    """
    own = {}
    for name in names:
        kind, _, correction = name.partition(" ")
        own[name] = PRIOR_KINDS.get(kind, {}).get(correction, PRIOR_OTHER)
    total = sum(own.values())
    scale = min(PRIOR_TOTAL / total, MAX_WEIGHT / max(own.values())) if total > 0 else 1.0
    return PoolWeights(
        {name: value * scale for name, value in own.items()}, PRIOR_LOCAL, PRIOR_UNSEEN
    )


@dataclass(frozen=True)
class OpinionRecords:
    """Opinions about labelled readings before they were learnt, ready to fit weights on.

    `terms` (readings x classes x weights) is what each weight is multiplied with: logarithms of the
    opinions of candidates and of the local model, and 1 where the local model has not learnt the
    class. `offsets` (readings x classes) is added. `possible` says which classes compete, `worth`
    how much a reading counts.
    """

    names: tuple[str, ...]
    terms: Floats
    offsets: Floats
    codes: Ints
    possible: Bools
    worth: Floats

    @classmethod
    def of(
        cls,
        names: Sequence[str],
        opinions: Floats,
        codes: Ints,
        held: Bools,
        unseen: Floats,
        lacking: Bools | None = None,
    ) -> Self:
        """Return the records of consecutive readings.

        `opinions` are models x readings x classes, the local model last; `held` are the classes
        that it counts as having learnt, `unseen` the offsets of the others. Readings of other
        classes are left out, unless it was made to forget one: then `lacking` are the classes that
        it truly lacks, which do not compete. So are all readings of a model that knows one class:
        whatever says nothing but that class would be best.
        """
        least = kernels("candidates").LEAST_OPINION
        full = with_local_opinions(opinions, held)
        logs = np.log(np.maximum(np.nan_to_num(full), least))
        terms = np.zeros((len(codes), len(held), len(names) + 2))
        terms[:, :, : len(names)] = np.moveaxis(logs[:-1], 0, 2)
        terms[:, held, -2] = logs[-1][:, held]
        terms[:, ~held, -1] = 1.0
        possible = np.ones(len(held), bool) if lacking is None else ~lacking
        usable = held[codes] & (held.sum() > 1) if lacking is None else possible[codes]
        count = int(usable.sum())
        return cls(
            tuple(names),
            terms[usable],
            np.broadcast_to(np.where(held, 0.0, unseen), (count, len(held))),
            codes[usable],
            np.broadcast_to(possible, (count, len(held))),
            run_worth(codes)[usable],
        )

    @classmethod
    def joined(cls, parts: Sequence[OpinionRecords]) -> OpinionRecords:
        """Return several records of the same candidates as one.

        Which column is which class may differ: each reading has its own columns.
        """
        classes = max(each.possible.shape[1] for each in parts)
        wide = [each._widened(classes) for each in parts]
        return OpinionRecords(
            parts[0].names,
            np.concatenate([each.terms for each in wide]),
            np.concatenate([each.offsets for each in wide]),
            np.concatenate([each.codes for each in wide]),
            np.concatenate([each.possible for each in wide]),
            np.concatenate([each.worth for each in wide]),
        )

    def _widened(self, classes: int) -> OpinionRecords:
        """Return the records with columns for more classes, which do not compete."""
        more = (0, classes - self.possible.shape[1])
        return replace(
            self,
            terms=np.pad(self.terms, ((0, 0), more, (0, 0))),
            offsets=np.pad(self.offsets, ((0, 0), more)),
            possible=np.pad(self.possible, ((0, 0), more)),
        )

    def __len__(self) -> int:
        return len(self.codes)

    def only(self, names: Sequence[str]) -> OpinionRecords:
        """Return the records of some candidates."""
        columns = [self.names.index(name) for name in names]
        return replace(self, names=tuple(names), terms=self.terms[:, :, [*columns, -2, -1]])

    def thinned(self, most: int) -> OpinionRecords:
        """Return at most about so many of the readings, evenly spread."""
        return self._rows(slice(None, None, max(1, -(-len(self) // most))))

    def latest(self, most: int) -> OpinionRecords:
        """Return the last so many of the readings."""
        return self._rows(slice(max(0, len(self) - most), None))

    def _rows(self, rows: slice) -> OpinionRecords:
        return OpinionRecords(
            self.names,
            self.terms[rows],
            self.offsets[rows],
            self.codes[rows],
            self.possible[rows],
            self.worth[rows],
        )

    def losses(self, weights: Floats) -> Floats:
        """Return the log loss of each reading with these weights."""
        return self._scores(weights)[0]

    def _scores(self, weights: Floats) -> tuple[Floats, Floats]:
        """Return losses, and the probability of each class for each reading."""
        scores = np.where(self.possible, self.terms @ weights + self.offsets, -np.inf)
        scores -= scores.max(axis=1, keepdims=True)
        chances = np.exp(scores)
        total = chances.sum(axis=1)
        losses = np.log(total) - scores[np.arange(len(self)), self.codes]
        return losses, chances / total[:, None]

    def decisions(self, weights: Floats) -> Ints:
        """Return the class that each reading is taken for with these weights."""
        decided: Ints = self._scores(weights)[1].argmax(axis=1)
        return decided

    def cost(self, weights: Floats) -> tuple[float, Floats]:
        """Return the total loss and its gradient."""
        losses, chances = self._scores(weights)
        rows = np.arange(len(self))
        shares = chances * self.worth[:, None]
        shares[rows, self.codes] -= self.worth
        return float(self.worth @ losses), np.tensordot(shares, self.terms, axes=2)


def run_worth(codes: Ints) -> Floats:
    """Return how much each reading counts: together, a run of one label at most `RUN_EVIDENCE`.

    Examples
    --------
    >>> run_worth(np.array([0, 1] + [0] * 20)).round(2).tolist()[:4]
    [1.0, 1.0, 0.5, 0.5]

    """
    starts = (
        np.flatnonzero(np.r_[True, codes[1:] != codes[:-1]]) if len(codes) else np.zeros(0, int)
    )
    length = np.diff(np.r_[starts, len(codes)])
    worth: Floats = np.repeat(np.minimum(1.0, RUN_EVIDENCE / np.maximum(length, 1)), length)
    return worth


def fit_weights(records: OpinionRecords, prior: Floats) -> Floats:
    """Return the weights with the least loss on records plus a ridge towards a prior."""
    return _fit(records, prior, NODE_RIDGE) if len(records) else prior


def _fit(records: OpinionRecords, prior: Floats, ridge: float) -> Floats:
    """Return the weights with the least loss plus ridge towards a prior: a convex problem.

    Bounds keep opinions from being turned around.
    """
    from scipy.optimize import minimize  # noqa: PLC0415 - slow to import

    curvature = np.full(len(prior), ridge)
    curvature[-1] = UNSEEN_RIDGE
    low, high = np.zeros(len(prior)), np.full(len(prior), MAX_WEIGHT)
    low[-1], high[-1] = -MAX_UNSEEN, MAX_UNSEEN

    def cost(weights: Floats) -> tuple[float, Floats]:
        loss, slope = records.cost(weights)
        apart = weights - prior
        return loss + 0.5 * float(curvature @ apart**2), slope + curvature * apart

    bounds = list(zip(low, high, strict=True))
    found = minimize(cost, prior, jac=True, bounds=bounds, method="L-BFGS-B")
    best: Floats = np.clip(found.x, low, high)
    return best


def fleet_weights(nodes: Sequence[Floats]) -> Floats:
    """Return the mean of the nodes' weights without the extremes of each.

    Examples
    --------
    >>> fleet_weights([np.array([w]) for w in (0.1, 0.2, 0.3, 0.4, 99.0)]).tolist()
    [0.3]

    """
    ordered = np.sort(np.array(nodes), axis=0)
    cut = max(1, int(TRIMMED_WEIGHTS * len(ordered))) if len(ordered) >= TRIMMING_NODES else 0
    mean: Floats = ordered[cut : len(ordered) - cut].mean(axis=0)
    return mean


def believed_weights(fits: Sequence[Floats], told: Sequence[Floats], prior: Floats) -> Floats:
    """Return the weights of a fleet from those fitted here and those that other nodes have told.

    Whoever tells weights may lie. So among few the prior has a voice too, and at least the extremes
    of each weight are left out: one liar moves no weight beyond those of the others. Of a single
    node that tells weights, where none are fitted, nothing is believed.

    Examples
    --------
    >>> honest, lie, prior = np.array([0.5]), np.array([3.0]), np.array([0.2])
    >>> believed_weights([honest], [lie], prior).tolist()
    [0.5]
    >>> believed_weights([], [lie], prior).tolist()
    [0.2]

    """
    if not told:
        return fleet_weights(fits) if fits else prior
    voices = [*fits, *told]
    if len(voices) < TRIMMING_NODES:
        voices.append(prior)
    return fleet_weights(voices) if len(voices) >= TRIMMING_NODES else prior


def projected(told: PoolWeights, names: Sequence[str]) -> Floats | None:
    """Return what another node's weights say about some candidates; None if they say nothing."""
    own = {name: told.candidates.get(name, 0.0) for name in names}
    known, total = sum(own.values()), sum(told.candidates.values())
    if known < MIN_KNOWN_WEIGHT:
        return None
    scale = min(total / known, MAX_WEIGHT / max(own.values()))
    scaled = {name: value * scale for name, value in own.items()}
    return PoolWeights(scaled, told.local, told.unseen).vector(names)


def guarded_weights(
    fit_on: OpinionRecords | None, own: OpinionRecords | None, fleet: Floats
) -> Floats:
    """Return a node's weights: those of the fleet, unless its own are clearly better.

    `own` are the records as served, without hidden classes.
    """
    if fit_on is None or own is None or not len(own):
        return fleet
    mine = _fit(fit_on, fleet, FLEET_RIDGE)
    return mine if clearly_better(own, mine, fleet) else fleet


def clearly_better(records: OpinionRecords, weights: Floats, others: Floats) -> bool:
    """Return True if the losses of some weights are lower than those of others beyond doubt."""
    gains = records.losses(others) - records.losses(weights)
    total = float(records.worth @ gains)
    mean = total / float(records.worth.sum())
    error = float(np.sqrt(records.worth @ (gains - mean) ** 2))
    return total > max(CLEAR_GAIN, CLEAR_ERRORS * error)


def records_of(pool: PoolClassifier) -> OpinionRecords | None:
    """Return the records of what a pool has scored since it was made; None if nothing."""
    scored = pool.scored()
    if not scored:
        return None
    parts = []
    held = np.array([each.held for each in scored])
    # Consecutive readings between which the local model has learnt no class.
    cuts = np.flatnonzero((held[1:] != held[:-1]).any(axis=1)) + 1
    for part in np.split(np.arange(len(scored)), cuts):
        opinions = np.stack([scored[k].opinions for k in part], axis=1)
        codes = np.array([scored[k].code for k in part], np.int64)
        unseen = unseen_offsets(pool.classes, pool.shares)
        parts.append(
            OpinionRecords.of(tuple(pool.candidates), opinions, codes, held[part[0]], unseen)
        )
    return OpinionRecords.joined(parts)
