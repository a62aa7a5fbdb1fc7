"""Pools for the nodes of a fleet: which candidates a node keeps, and how much each counts."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from streamlvq.arrays import Floats, Label
from streamlvq.fusion.candidates import (
    ROUND_MAX_NODES,
    FleetMoment,
    build_candidate,
    candidate_names,
    class_shares,
)
from streamlvq.fusion.crossfit import CrossFit, NodeRecords
from streamlvq.fusion.node_models import FusionError
from streamlvq.fusion.options import FusionOptions
from streamlvq.fusion.personal import StoredReadings, stored_readings
from streamlvq.fusion.weights import (
    OpinionRecords,
    fit_weights,
    fleet_weights,
    guarded_weights,
    prior_weights,
    projected,
    records_of,
)
from streamlvq.models.pool import PoolClassifier, PoolReport, PoolWeights
from streamlvq.models.vectorizer import name_order
from streamlvq.registry import CANDIDATES
from streamlvq.snapshot import Snapshot
from streamlvq.wrappers.base import unwrap

DEFAULT_MAX_CANDIDATES = 3
SELECTION_MAX_RECORDS = 3000  # of all nodes together, evenly spread


class FleetPool:
    """Candidates and weights for the nodes of a fleet, from their snapshots.

    `corrections` are those whose candidates compete; `left_out` says of which nodes nothing is
    believed: such a node decides by itself.
    """

    def __init__(
        self,
        snapshots: Sequence[Snapshot],
        options: FusionOptions,
        corrections: Sequence[str],
        left_out: Callable[[str], bool],
    ) -> None:
        self.snapshots = {snapshot.node: snapshot for snapshot in snapshots}
        self.options, self.corrections = options, tuple(corrections)
        self._left_out = left_out
        self.labels: list[Label] = name_order(
            {label for snapshot in snapshots for label in snapshot.labels}
        )
        self._judged: dict[tuple[str, ...], dict[str, NodeRecords]] = {}

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
        _check_choices(max_candidates, kinds)
        *_, inner = unwrap(local)
        former = inner if isinstance(inner, PoolClassifier) else None
        model = inner if former is None else former.local
        if self._left_out(name):
            pool = PoolClassifier(model, {}, PoolWeights({}, 1.0, 0.0))
            pool.report = PoolReport(name, 0, pool.weights.named(), (), {}, left_out=True)
        else:
            pool = self._pool(name, model, former, max_candidates, kinds)
        return pool if inner is local else local.moved_to(pool)

    def _pool(
        self,
        name: str,
        model: Any,
        former: PoolClassifier | None,
        most: int | None,
        kinds: Sequence[str] | None,
    ) -> PoolClassifier:
        readings = self._readings(name, model)
        names = candidate_names(
            self.corrections,
            kinds,
            nodes=len(self.snapshots),
            own_readings=name in readings,
            all_readings=readings.keys() == self.snapshots.keys(),
        )
        judged = self._records(names, readings)
        chosen = _chosen(names, judged, most)
        fleet = self._fleet_weights(name, chosen, judged)
        own = judged.get(name, NodeRecords())
        weights = guarded_weights(*_with_scored(own, former, chosen), fleet)
        moment = FleetMoment(self.snapshots, readings, self.options, {})
        candidates = {each: build_candidate(each, moment, name) for each in chosen}
        shares = class_shares(self.snapshots, name)
        pool = PoolClassifier(model, candidates, PoolWeights.of(chosen, weights), shares)
        pool.report = _report(name, pool, names, own)
        return pool

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
        key = (*names, *sorted(readings))
        if key not in self._judged:
            fit = CrossFit(self.snapshots, readings, self.options, self.labels, names)
            self._judged[key] = fit.run()
        return self._judged[key]

    def _fleet_weights(
        self, name: str, chosen: Sequence[str], judged: Mapping[str, NodeRecords]
    ) -> Floats:
        """Return the mean of the weights that nodes fit, or published; the prior without any."""
        prior = prior_weights(chosen).vector(chosen)
        fits = [
            fit_weights(found, prior)
            for each in judged.values()
            if (found := each.all(chosen)) is not None and len(found)
        ]
        for other, snapshot in self.snapshots.items():
            if other != name and other not in judged and snapshot.pool_weights is not None:
                told = projected(snapshot.pool_weights, chosen)
                fits += [] if told is None else [told]
        return fleet_weights(fits) if fits else prior


def _check_choices(most: int | None, kinds: Sequence[str] | None) -> None:
    whole = isinstance(most, int) and not isinstance(most, bool) and most >= 0
    if most is not None and not whole:
        raise FusionError(f"max_candidates: expected a whole number or None, got {most!r}")
    wrong = [kind for kind in kinds or () if kind not in CANDIDATES.names]
    if wrong:
        known = ", ".join(CANDIDATES.names)
        raise FusionError(f"candidates: expected some of {known}, got {wrong[0]!r}")


def _chosen(names: Sequence[str], judged: Mapping[str, NodeRecords], most: int | None) -> list[str]:
    """Return the candidates that explain the records best, added one by one."""
    if most is None or len(names) <= most:
        return list(names)
    parts = [found for each in judged.values() if (found := each.all(names)) is not None]
    if not parts:
        prior = prior_weights(names).candidates
        return sorted(names, key=lambda name: -prior[name])[:most]
    every = OpinionRecords.joined(parts).thinned(SELECTION_MAX_RECORDS)
    chosen: list[str] = []
    while len(chosen) < most:
        rest = [name for name in names if name not in chosen]
        chosen.append(min(rest, key=lambda name: _loss(every, [*chosen, name])))
    return chosen


def _loss(records: OpinionRecords, names: Sequence[str]) -> float:
    """Return the loss of some candidates with weights fitted on the same records."""
    part, prior = records.only(names), prior_weights(names).vector(names)
    return part.cost(fit_weights(part, prior))[0]


def _with_scored(
    own: NodeRecords, former: PoolClassifier | None, chosen: Sequence[str]
) -> tuple[OpinionRecords | None, OpinionRecords | None]:
    """Return all records of a node and those as served, with what its former pool has scored."""
    everything, served = own.all(chosen), own.served(chosen)
    live = None if former is None else records_of(former)
    if live is None or not set(chosen) <= set(live.names):
        return everything, served
    live = live.only(chosen)
    if served is None or everything is None:
        return live, live
    if served.terms.shape[1] != live.terms.shape[1]:  # other classes than the fleet knows now
        return everything, served
    return OpinionRecords.joined([everything, live]), OpinionRecords.joined([served, live])


def _report(name: str, pool: PoolClassifier, names: Sequence[str], own: NodeRecords) -> PoolReport:
    chosen = tuple(pool.candidates)
    losses: dict[str, float] = {}
    count = 0
    found, served = own.all(names), own.served(names)
    if found is not None and served is not None and len(found):
        count = len(served)
        weight = float(found.worth.sum())
        losses = {
            "local": _loss(found, []) / weight,
            "pool": found.only(chosen).cost(pool.weights.vector(chosen))[0] / weight,
            "all candidates": _loss(found, names) / weight,
        }
    dropped = tuple(each for each in names if each not in pool.candidates)
    return PoolReport(name, count, pool.weights.named(), dropped, losses)
