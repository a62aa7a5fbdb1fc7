"""What a member of a fleet makes of the model or pool that its hub gave it."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from streamlvq.arrays import Label
from streamlvq.config import FleetSection
from streamlvq.errors import SnapshotError, StreamLVQError
from streamlvq.estimator import EstimatorState, build_estimator
from streamlvq.fleet.pools import FROM_HUB, POOL, OwnModel, pool_bytes, with_innermost
from streamlvq.fusion.personal import learnt_on
from streamlvq.fusion.pooling import by_prior, pool_losses
from streamlvq.fusion.receiver import without_harmful
from streamlvq.fusion.weights import (
    OpinionRecords,
    fit_weights,
    guarded_weights,
    prior_weights,
)
from streamlvq.models.pool import MAX_WEIGHT, PoolClassifier, PoolReport, PoolWeights
from streamlvq.snapshot import Snapshot

log = logging.getLogger(__name__)

FUSED, PERSONAL = "fused", "personal"  # kinds of candidates


def heaviest_fused(snapshot: Snapshot) -> Snapshot:
    """Return the fused model that counts most in a hub's pool; another model as it is.

    Raises `SnapshotError` if the pool has none.
    """
    state = snapshot.estimator_state()
    if state.innermost.kind != POOL:
        return snapshot
    parts, weights = _contents(state.innermost)
    best = _best_fused(list(parts), weights)
    if best is None:
        raise SnapshotError(
            f"expected a fused model for fleet.serve other than both, got {', '.join(parts)}"
        )
    return Snapshot(with_innermost(state, parts[best]), snapshot.node, readings=False)


def _contents(pool: EstimatorState) -> tuple[dict[str, EstimatorState], PoolWeights]:
    """Return the candidates of a checked pool, and their weights."""
    names = [str(name) for name in pool.extra["candidates"]]
    parts = {name: pool.parts[f"candidate{k}"] for k, name in enumerate(names)}
    return parts, PoolWeights.of(names, pool.arrays["weights"])


def _shares(pool: EstimatorState) -> dict[Label, float] | None:
    found = zip(pool.extra["shared"], pool.arrays["shares"].tolist(), strict=True)
    return dict(found) or None


def _best_fused(names: Sequence[str], weights: PoolWeights | None) -> str | None:
    """Return the fused model with the most weight; None if there is none."""
    fused = [name for name in names if name.startswith(f"{FUSED} ")]
    known = {} if weights is None else weights.candidates
    return max(fused, key=lambda name: known.get(name, 0.0), default=None)


def adopt(
    section: FleetSection, snapshot: Snapshot, own: OwnModel | None
) -> tuple[bytes, PoolReport]:
    """Make a member's pool of the model or pool that its hub gave it.

    A personal candidate is added where the member has readings of its own. Weights are those of the
    hub, refitted by what the member's pools have scored.
    """
    state, node = snapshot.estimator_state(), snapshot.node
    parts: Mapping[str, EstimatorState] = {f"{FUSED} {FROM_HUB}": state.innermost}
    told, shares = None, None
    if state.innermost.kind == POOL:
        (parts, told), shares = _contents(state.innermost), _shares(state.innermost)
    candidates = _with_personal(parts, told, own)
    best = _best_fused(list(parts), told)
    correction = None if best is None else best.partition(" ")[2]
    names = by_prior(list(candidates), correction)[: section.max_candidates]
    fleet = _fleet_weights(names, told)
    models = {name: build_estimator(candidates[name]) for name in names}
    records = _joined([] if own is None else own.live, names)
    pool = _weighed(models, fleet, shares, records)
    dropped = tuple(name for name in candidates if name not in names)
    return pool_bytes(pool, state, node), _report(node, pool, records, dropped)


def _with_personal(
    parts: Mapping[str, EstimatorState], told: PoolWeights | None, own: OwnModel | None
) -> dict[str, EstimatorState]:
    """Test foreign prototypes on the member's readings, and add what these make of the best."""
    found, best = dict(parts), _best_fused(list(parts), told)
    if own is None or best is None or not len(readings := own.readings()):
        return found
    try:
        for name in parts:
            if name.startswith(f"{FUSED} "):
                found[name], _ = without_harmful(parts[name], readings)
        personal = f"{PERSONAL} {best.partition(' ')[2]}"
        found.setdefault(personal, learnt_on(parts[best], readings))
    except StreamLVQError as error:
        log.warning("the model of the hub cannot learn the readings of this node: %s", error)
    return found


def _fleet_weights(names: Sequence[str], told: PoolWeights | None) -> PoolWeights:
    """Return the hub's weights for the candidates at hand; those that it lacks as in the prior."""
    prior = prior_weights(names)
    if told is None or not (common := prior.candidates.keys() & told.candidates.keys()):
        return prior
    size = sum(prior.candidates[name] for name in common)
    said = sum(told.candidates[name] for name in common)
    own = {
        name: told.candidates[name] if name in common else value * said / size
        for name, value in prior.candidates.items()
    }
    scale = sum(told.candidates.values()) / sum(own.values()) if said > 0.0 else 0.0
    bounded = {name: min(MAX_WEIGHT, scale * value) for name, value in own.items()}
    return PoolWeights(bounded, told.local, told.unseen)


def _joined(live: Sequence[OpinionRecords], names: Sequence[str]) -> OpinionRecords | None:
    parts = [each.only(names) for each in live if set(names) <= set(each.names)]
    return OpinionRecords.joined(parts) if parts else None


def _weighed(
    models: Mapping[str, Any],
    fleet: PoolWeights,
    shares: Mapping[Label, float] | None,
    records: OpinionRecords | None,
) -> PoolClassifier:
    """Return the pool with weights after what was scored, and those that suit that alone."""
    names = list(models)
    weights = guarded_weights(records, records, fleet.vector(names))
    own = None
    if records is not None:
        own = PoolWeights.of(names, fit_weights(records, prior_weights(names).vector(names)))
    return PoolClassifier(None, models, PoolWeights.of(names, weights), shares, own)


def _report(
    node: str, pool: PoolClassifier, records: OpinionRecords | None, dropped: tuple[str, ...]
) -> PoolReport:
    losses = {} if records is None else pool_losses(pool, records)
    count = 0 if records is None else len(records)
    return PoolReport(node, count, pool.weights.named(), dropped, losses)
