"""Pools for the nodes of a fleet: which candidates a node keeps, and how much each counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from streamlvq.arrays import Floats, Label
from streamlvq.fusion.candidates import FleetMoment, build_candidate, candidate_names
from streamlvq.fusion.crossfit import CrossFit, NodeRecords
from streamlvq.fusion.fuse import FusionOptions
from streamlvq.fusion.personal import StoredReadings, stored_readings
from streamlvq.fusion.weights import (
    Records,
    fit_weights,
    fleet_weights,
    guarded_weights,
    prior_weights,
)
from streamlvq.models.pool import PoolClassifier, PoolWeights
from streamlvq.models.vectorizer import name_order
from streamlvq.snapshot import Snapshot
from streamlvq.wrappers.base import unwrap

DEFAULT_MAX_CANDIDATES = 3
SELECTION_MAX_RECORDS = 3000


class FleetPool:
    """Candidates and weights for the nodes of a fleet, from their snapshots."""

    def __init__(
        self, snapshots: Sequence[Snapshot], options: FusionOptions, corrections: Sequence[str]
    ) -> None:
        self.snapshots = {snapshot.node: snapshot for snapshot in snapshots}
        self.options, self.corrections = options, tuple(corrections)
        self.labels: list[Label] = name_order(
            {label for snapshot in snapshots for label in snapshot.labels}
        )
        self._stored = {
            name: stored
            for name, snapshot in self.snapshots.items()
            if snapshot.has_readings and len(stored := _stored(snapshot))
        }
        self._fleet: dict[tuple[str, ...], dict[str, NodeRecords]] = {}

    def for_node(
        self,
        name: str,
        local: Any,
        max_candidates: int | None = DEFAULT_MAX_CANDIDATES,
        kinds: Sequence[str] | None = None,
    ) -> Any:
        """Return the local model in a pool with candidates of the fleet."""
        *_, inner = unwrap(local)
        former = inner if isinstance(inner, PoolClassifier) else None
        model = inner.local if former is not None else inner
        readings = dict(self._stored)
        if hasattr(model, "state") and name not in readings:
            own = stored_readings(model.state())
            if len(own):
                readings[name] = own
        names = candidate_names(
            self.corrections,
            kinds,
            nodes=len(self.snapshots),
            own_readings=name in readings,
            all_readings=readings.keys() == self.snapshots.keys(),
        )
        records = self._records(names, readings)
        chosen = self._chosen(names, records, max_candidates)
        weights = self._weights(name, chosen, records)
        moment = FleetMoment(self.snapshots, readings, self.options, {})
        candidates = {each: build_candidate(each, moment, name) for each in chosen}
        pool = PoolClassifier(model, candidates, weights)
        return pool if inner is local else local.moved_to(pool)

    def _records(
        self, names: Sequence[str], readings: Mapping[str, StoredReadings]
    ) -> dict[str, NodeRecords]:
        key = (*names, *sorted(readings))
        if key not in self._fleet:
            fit = CrossFit(self.snapshots, readings, self.options, self.labels, names)
            self._fleet[key] = fit.run()
        return self._fleet[key]

    def _chosen(
        self, names: Sequence[str], records: Mapping[str, NodeRecords], most: int | None
    ) -> list[str]:
        """Return the candidates that explain the records best, added one by one."""
        if most is None or len(names) <= most:
            return list(names)
        parts = [found for each in records.values() if (found := each.all(names)) is not None]
        if not parts:
            prior = prior_weights(names).candidates
            return sorted(names, key=lambda name: -prior[name])[:most]
        every = Records.joined(parts).thinned(SELECTION_MAX_RECORDS)
        chosen: list[str] = []
        while len(chosen) < most:
            rest = [name for name in names if name not in chosen]
            chosen.append(min(rest, key=lambda name: _loss(every, [*chosen, name])))
        return chosen

    def _weights(
        self, name: str, chosen: Sequence[str], records: Mapping[str, NodeRecords]
    ) -> PoolWeights:
        prior = prior_weights(chosen).vector(chosen)
        fits: list[Floats] = []
        for each in records.values():
            found = each.all(chosen)
            if found is not None and len(found):
                fits.append(fit_weights(found, prior))
        fleet = fleet_weights(fits) if fits else prior
        found = records[name].all(chosen) if name in records else None
        served = records[name].served(chosen) if name in records else None
        if found is not None and served is not None:
            fleet = guarded_weights(found, served, fleet)
        return PoolWeights.of(chosen, fleet)


def _loss(records: Records, names: Sequence[str]) -> float:
    part, prior = records.only(names), prior_weights(names).vector(names)
    weights = fit_weights(part, prior)
    return part.cost(weights)[0]


def _stored(snapshot: Snapshot) -> StoredReadings:
    return stored_readings(snapshot.estimator_state())


_ = np
