"""Pools for the nodes of a fleet: which candidates a node keeps, and how much each counts."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from streamlvq.arrays import Floats, Label
from streamlvq.fusion.candidates import (
    ROUND_MAX_NODES,
    FleetMoment,
    build_candidate,
    candidate_names,
    class_shares,
)
from streamlvq.fusion.corrections import get_correction
from streamlvq.fusion.crossfit import CrossFit, NodeRecords
from streamlvq.fusion.node_models import FusionError
from streamlvq.fusion.options import FusionOptions
from streamlvq.fusion.personal import StoredReadings, stored_readings
from streamlvq.fusion.sharing import components
from streamlvq.fusion.weights import (
    OpinionRecords,
    believed_weights,
    fit_weights,
    guarded_weights,
    prior_weights,
    projected,
    records_of,
)
from streamlvq.models.pool import PoolClassifier, PoolReport, PoolWeights
from streamlvq.models.vectorizer import name_order
from streamlvq.registry import CANDIDATES
from streamlvq.snapshot import Snapshot
from streamlvq.wrappers.base import innermost_model, unwrap

DEFAULT_MAX_CANDIDATES = 3
SELECTION_MAX_RECORDS = 3000  # of all nodes together, evenly spread
JUDGED_MAX_NODES = 16  # in larger fleets candidates are judged as made from an even sample of them

NO_CANDIDATES = PoolWeights({}, 1.0, 0.0)  # of a local model without candidates


class FleetPool:
    """Candidates and weights for the nodes of a fleet, from their snapshots.

    `corrections` are those whose candidates compete, but for some if nodes share no classes (see
    `_with_all_classes`); `left_out` says of which nodes nothing is
    believed: such a node decides by itself. `preferred` is the correction that the fusion chose.
    """

    def __init__(
        self,
        snapshots: Sequence[Snapshot],
        options: FusionOptions,
        corrections: Sequence[str],
        left_out: Callable[[str], bool],
        preferred: str | None = None,
    ) -> None:
        self.snapshots = {snapshot.node: snapshot for snapshot in snapshots}
        self.options, self.corrections = options, _with_all_classes(corrections, snapshots)
        self._left_out, self.preferred = left_out, preferred
        self.labels: list[Label] = name_order(
            {label for snapshot in snapshots for label in snapshot.labels}
        )
        self._judged: dict[tuple[str, ...], tuple[list[str], dict[str, NodeRecords]]] = {}

    @functools.cached_property
    def _stored(self) -> dict[str, StoredReadings]:
        """Readings that came with snapshots."""
        found = {
            name: stored_readings(snapshot.estimator_state())
            for name, snapshot in self.snapshots.items()
            if snapshot.has_readings
        }
        return {name: stored for name, stored in found.items() if len(stored)}

    def for_node(
        self,
        name: str,
        local: Any,
        max_candidates: int | None = DEFAULT_MAX_CANDIDATES,
        kinds: Sequence[str] | None = None,
    ) -> Any:
        """Return the local model in a pool with candidates of the fleet, in its own wrappers."""
        *_, inner = unwrap(local)
        former = inner if isinstance(inner, PoolClassifier) else None
        model = inner if former is None else former.local
        live = [] if former is None else [records_of(former)]
        pool = self.make(name, model, live, max_candidates, kinds)
        return pool if inner is local else local.moved_to(pool)

    def reports(self) -> dict[str, PoolReport]:
        """Return how the pools of nodes are weighed whose readings came with their snapshots.

        Of a fleet with more than `ROUND_MAX_NODES` none: that would take too long.
        """
        names = sorted(self._stored) if len(self.snapshots) <= ROUND_MAX_NODES else []
        local = {name: self.snapshots[name].classifier() for name in names}
        return {name: innermost_model(self.for_node(name, local[name])).report for name in names}

    def make(
        self,
        name: str,
        model: Any,
        live: Sequence[OpinionRecords | None] = (),
        max_candidates: int | None = DEFAULT_MAX_CANDIDATES,
        kinds: Sequence[str] | None = None,
    ) -> PoolClassifier:
        """Return the pool of a node around its model without wrappers, None if that is elsewhere.

        `live` are records of what former candidates of the same names said about its readings.
        """
        _check_choices(max_candidates, kinds)
        if self._left_out(name):
            return _by_itself(name, model)
        readings = self._readings(name, model)
        names = candidate_names(
            self.corrections,
            kinds,
            nodes=len(self.snapshots),
            own_readings=name in readings,
            all_readings=readings.keys() == self.snapshots.keys(),
        )
        judged = self._believed(self._records(names, readings))
        chosen = _chosen(names, judged, max_candidates, self.preferred)
        own = judged.get(name, NodeRecords())
        everything, served = _with_live(own, live, chosen)
        fit, fleet = self._weights(name, chosen, judged, everything)
        weights = PoolWeights.of(chosen, guarded_weights(everything, served, fleet))
        pool = PoolClassifier(
            model,
            self._candidates(name, chosen, readings),
            weights if chosen else NO_CANDIDATES,
            class_shares(self.snapshots, name),
            None if fit is None else PoolWeights.of(chosen, fit),
        )
        pool.report = _report(name, pool, names, own.all(names), everything, served)
        return pool

    def _candidates(
        self, name: str, chosen: Sequence[str], readings: Mapping[str, StoredReadings]
    ) -> dict[str, Any]:
        moment = self._blind
        if readings:
            moment = FleetMoment(self.snapshots, readings, self.options, {})
        return {each: build_candidate(each, moment, name) for each in chosen}

    @functools.cached_property
    def _blind(self) -> FleetMoment:
        """The fleet without any readings: the same for all nodes."""
        return FleetMoment(self.snapshots, {}, self.options, {})

    def _readings(self, name: str, model: Any) -> dict[str, StoredReadings]:
        """Return the readings at hand; those of the node itself may be in its model."""
        readings = dict(self._stored)
        if name not in readings and hasattr(model, "state"):
            own = stored_readings(model.state())
            if len(own):
                readings[name] = own
        if len(readings) > ROUND_MAX_NODES:
            return {name: readings[name]} if name in readings else {}
        return readings

    def _records(
        self, names: Sequence[str], readings: Mapping[str, StoredReadings]
    ) -> dict[str, NodeRecords]:
        """Return what candidates said about readings; kept for the latest readings of each node."""
        key = (*names, *sorted(readings))
        judged = [readings[name].digest for name in sorted(readings)]
        if key not in self._judged or self._judged[key][0] != judged:
            sample = _sampled(self.snapshots, readings)
            # What a node has just learnt is in nobody's snapshot yet.
            stored = {label for each in readings.values() for label in each.labels}
            labels = name_order(stored.union(self.labels))
            fit = CrossFit(sample, readings, self.options, labels, names)
            self._judged[key] = judged, fit.run()
        return self._judged[key][1]

    def _believed(self, judged: Mapping[str, NodeRecords]) -> dict[str, NodeRecords]:
        """Return the records without those of nodes that are left out."""
        return {name: each for name, each in judged.items() if not self._left_out(name)}

    def _weights(
        self,
        name: str,
        chosen: Sequence[str],
        judged: Mapping[str, NodeRecords],
        everything: OpinionRecords | None,
    ) -> tuple[Floats | None, Floats]:
        """Return the weights that suit a node's records alone, and those of the fleet.

        Of the other nodes they are fitted here, or as they were published.
        """
        prior = prior_weights(chosen).vector(chosen)
        own = None if everything is None else fit_weights(everything, prior)
        fits = [] if own is None else [own]
        fits += [
            fit_weights(found, prior)
            for other, each in judged.items()
            if other != name and (found := each.all(chosen)) is not None and len(found)
        ]
        told = [
            said
            for other, snapshot in sorted(self.snapshots.items())
            if other != name and other not in judged and not self._left_out(other)
            if snapshot.pool_weights is not None
            if (said := projected(snapshot.pool_weights, chosen)) is not None
        ]
        return own, believed_weights(fits, told, prior)


def _by_itself(name: str, model: Any) -> PoolClassifier:
    """Return a pool without candidates, for a node that is left out."""
    pool = PoolClassifier(model, {}, NO_CANDIDATES)
    pool.report = PoolReport(name, 0, pool.weights.named(), (), {}, left_out=True)
    return pool


def _sampled(snapshots: Mapping[str, Snapshot], always: Collection[str]) -> dict[str, Snapshot]:
    """Return the nodes that candidates are judged with: of a large fleet an even sample."""
    others = [name for name in sorted(snapshots) if name not in always]
    room = max(0, JUDGED_MAX_NODES - len(always))
    if len(others) > room:
        others = [others[k * len(others) // room] for k in range(room)]
    return {name: snapshots[name] for name in (*always, *others)}


def _with_all_classes(corrections: Sequence[str], snapshots: Sequence[Snapshot]) -> tuple[str, ...]:
    """Return the corrections whose candidates know the classes of all nodes.

    Where nodes fall into parts that share no class, a correction estimated from shared classes
    leaves each part alone. A node could not find out what its candidates lack: it has never seen
    those classes. Without any other correction all are returned.
    """
    labels = list({label for snapshot in snapshots for label in snapshot.labels})
    held = np.array([[label in each.labels for label in labels] for each in snapshots], bool)
    parts = components(held[held.any(axis=1)])
    whole = tuple(name for name in corrections if get_correction(name).one_frame)
    return whole if whole and len(np.unique(parts)) > 1 else tuple(corrections)


def _check_choices(most: int | None, kinds: Sequence[str] | None) -> None:
    whole = isinstance(most, int) and not isinstance(most, bool) and most >= 0
    if most is not None and not whole:
        raise FusionError(f"max_candidates: expected a whole number or None, got {most!r}")
    wrong = [kind for kind in kinds or () if kind not in CANDIDATES.names]
    if wrong:
        known = ", ".join(CANDIDATES.names)
        raise FusionError(f"candidates: expected some of {known}, got {wrong[0]!r}")


def _chosen(
    names: Sequence[str],
    judged: Mapping[str, NodeRecords],
    most: int | None,
    preferred: str | None,
) -> list[str]:
    """Return the candidates that explain the records best, added one by one.

    Without records, those of the correction that the fusion chose.
    """
    if most is None or len(names) <= most:
        return list(names)
    found = [each.all(names) for each in judged.values()]
    parts = [each for each in found if each is not None and len(each)]
    if not parts:
        return by_prior(names, preferred)[:most]
    every = OpinionRecords.joined(parts).thinned(SELECTION_MAX_RECORDS)
    chosen: list[str] = []
    while len(chosen) < most:
        rest = [name for name in names if name not in chosen]
        chosen.append(min(rest, key=lambda name: _loss(every, [*chosen, name])))
    return chosen


def by_prior(names: Sequence[str], correction: str | None) -> list[str]:
    """Return candidates by their prior weight, but those of one correction before all others.

    Examples
    --------
    >>> by_prior(["fused none", "ensemble none", "fused scale_shift"], "scale_shift")
    ['fused scale_shift', 'ensemble none', 'fused none']

    """
    prior = prior_weights(names).candidates
    return sorted(names, key=lambda name: (name.partition(" ")[2] != correction, -prior[name]))


def _loss(records: OpinionRecords, names: Sequence[str]) -> float:
    """Return the loss of some candidates with weights fitted on the same records."""
    part, prior = records.only(names), prior_weights(names).vector(names)
    return part.cost(fit_weights(part, prior))[0]


def _with_live(
    own: NodeRecords, live: Sequence[OpinionRecords | None], chosen: Sequence[str]
) -> tuple[OpinionRecords | None, OpinionRecords | None]:
    """Return all records of a node with those of its former pools, and those as served.

    What its former pools said may be about the readings that it has stored: evidence must not
    count twice, so those served are of either, of whichever there is more.
    """
    scored = [each.only(chosen) for each in live if each and set(chosen) <= set(each.names)]
    stored = own.all(chosen)
    parts = [*([stored] if stored else []), *scored]
    judged = own.served(chosen)
    served = [*([OpinionRecords.joined(scored)] if scored else []), *([judged] if judged else [])]
    return (
        OpinionRecords.joined(parts) if parts else None,
        max(served, key=lambda each: float(each.worth.sum()), default=None),
    )


def _report(
    name: str,
    pool: PoolClassifier,
    names: Sequence[str],
    judged: OpinionRecords | None,
    everything: OpinionRecords | None,
    served: OpinionRecords | None,
) -> PoolReport:
    """Return the report; losses are of the records of all candidates, if there are any."""
    chosen = tuple(pool.candidates)
    losses = {} if everything is None else pool_losses(pool, everything)
    if judged is not None and len(judged):
        every = _loss(judged, judged.names) / float(judged.worth.sum())
        losses = {**pool_losses(pool, judged.only(chosen)), "all candidates": every}
    dropped = tuple(each for each in names if each not in pool.candidates)
    count = 0 if served is None else len(served)
    return PoolReport(name, count, pool.weights.named(), dropped, losses)


def pool_losses(pool: PoolClassifier, records: OpinionRecords) -> dict[str, float]:
    """Return the log loss per reading of the local model alone, and of the pool."""
    weight = float(records.worth.sum())
    return {
        "local": _loss(records, []) / weight,
        "pool": records.cost(pool.weights.vector(records.names))[0] / weight,
    }
