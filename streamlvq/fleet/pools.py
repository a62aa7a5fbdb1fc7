"""Pools on their way to a node: what travels, what is refused, and what the node adds.

A pool travels without its local model: the receiver puts its own in, which nobody else can replace.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from streamlvq.errors import SnapshotError
from streamlvq.estimator import (
    TRUSTED_LIMITS,
    EstimatorState,
    build_estimator,
    private_classes,
    served_classes,
)
from streamlvq.events import ALL_DEVICES
from streamlvq.models.pool import PoolClassifier, PoolWeights
from streamlvq.models.scored import MAX_SCORED
from streamlvq.monitor import Monitor
from streamlvq.registry import CANDIDATES, CORRECTIONS
from streamlvq.snapshot import Snapshot, capture
from streamlvq.wrappers.base import unwrap

if TYPE_CHECKING:
    from streamlvq.fusion.personal import StoredReadings
    from streamlvq.fusion.weights import OpinionRecords

POOL, ENSEMBLE = "PoolClassifier", "NodeEnsemble"
FROM_HUB = "hub"  # the correction of a model whose hub does not say which it used
MAX_POOL_CANDIDATES = 36  # of a pool from outside: as many as `fleet.max_candidates` allows


# --- bytes ---------------------------------------------------------------------------------------


def shared_bytes(model: Any, node: str, weights: PoolWeights | None = None) -> bytes:
    """Return the snapshot of a model to share with the fleet: without single readings."""
    return Snapshot(
        capture(model, readings=False), node, readings=False, weights=weights
    ).to_bytes()


def served_bytes(model: Any, node: str) -> bytes:
    """Return a served model as it came: a pool without the local model beside it."""
    pool = pool_of(model)
    if pool is None:
        return shared_bytes(model, node)
    alone = pool.beside(None)
    return shared_bytes(alone if pool is model else model.moved_to(alone), node)


def pool_bytes(pool: PoolClassifier, around: EstimatorState, node: str) -> bytes:
    """Return a pool without its local model, in the transform of a state of the node."""
    inside = pool.beside(None).state(readings=False)
    return Snapshot(with_innermost(around, inside), node, readings=False).to_bytes()


def with_innermost(state: EstimatorState, innermost: EstimatorState) -> EstimatorState:
    """Return the wrappers of a state around another model."""
    if "classifier" not in state.parts:
        return innermost
    inner = with_innermost(state.parts["classifier"], innermost)
    return replace(state, parts={**state.parts, "classifier": inner})


def pool_of(model: Any) -> PoolClassifier | None:
    """Return the pool inside a served model; None if it is none."""
    if model is None:
        return None
    *_, inner = unwrap(model)
    return inner if isinstance(inner, PoolClassifier) else None


# --- what comes from outside ---------------------------------------------------------------------


def check_no_secrets(state: EstimatorState) -> None:
    """Raise `SnapshotError` for a private model anywhere in a state, before it is built.

    Its state is secret, so no node sends one; and its noise alone takes long to plan.
    """
    if state.kind in private_classes():
        raise SnapshotError(f"expected a released model, got the secret state of a {state.kind}")
    members = state.parameters.get("members")  # of a committee: blank models
    blanks = members.values() if isinstance(members, dict) else ()
    for part in (*state.parts.values(), *blanks):
        if isinstance(part, EstimatorState):
            check_no_secrets(part)


def check_node_state(state: EstimatorState) -> None:
    """Raise `SnapshotError` unless a node may publish this as what it has learnt itself."""
    if state.innermost.kind in served_classes():
        raise SnapshotError(
            f"expected a model that a node has learnt, got several in a {state.innermost.kind}"
        )


def check_hub_state(state: EstimatorState) -> None:
    """Raise `SnapshotError` unless a hub may give this to a node to decide with."""
    pool = state.innermost
    if pool.kind not in served_classes():
        return
    if pool.kind != POOL:
        raise SnapshotError(f"expected a model or a pool, got a {pool.kind}")
    if "local" in pool.parts:
        raise SnapshotError("pool: expected candidates alone, got a local model as well")
    names = pool.extra["candidates"]
    if not 1 <= len(names) <= MAX_POOL_CANDIDATES:
        raise SnapshotError(
            f"pool: expected 1 to {MAX_POOL_CANDIDATES} candidates, got {len(names)}"
        )
    for k, name in enumerate(names):
        _check_candidate(name, pool.parts[f"candidate{k}"])


def _check_candidate(name: Any, state: EstimatorState) -> None:
    """Raise unless a candidate has a name of ours, and is a model or a small ensemble of some."""
    from streamlvq.fusion.candidates import ENSEMBLE_MAX_NODES  # noqa: PLC0415 - slow to import

    if not is_candidate_name(name):
        raise SnapshotError(
            f"pool: expected candidates named by kind and correction, got {str(name)[:80]!r}"
        )
    several = state.kind == ENSEMBLE
    if several and len(state.parts) > ENSEMBLE_MAX_NODES:
        raise SnapshotError(
            f"pool: expected ensembles of at most {ENSEMBLE_MAX_NODES} nodes, got one of "
            f"{len(state.parts)}"
        )
    inside = state.parts.values() if several else [state]
    wrong = [each.kind for each in inside if each.innermost.kind in served_classes()]
    if wrong:
        raise SnapshotError(f"pool: expected models as candidates, got a {wrong[0]}")


def is_candidate_name(name: Any) -> bool:
    """Return whether a candidate is called by a kind and a correction that there are.

    Examples
    --------
    >>> is_candidate_name("fused least_squares"), is_candidate_name("fused hub")
    (True, True)
    >>> is_candidate_name("mine"), is_candidate_name("fused by me")
    (False, False)

    """
    if not isinstance(name, str):
        return False
    kind, _, correction = name.partition(" ")
    return kind in CANDIDATES and (correction in CORRECTIONS or correction == FROM_HUB)


# --- what a node adds ----------------------------------------------------------------------------


@dataclass(frozen=True)
class OwnModel:
    """The local model of a node and how its pools did, copied for the thread that fuses."""

    node: str
    state: EstimatorState  # without wrappers, with stored readings
    live: tuple[OpinionRecords, ...] = ()

    def build(self) -> Any:
        """Return the model, independent of the one that goes on learning."""
        return build_estimator(self.state, limits=TRUSTED_LIMITS)

    def readings(self) -> StoredReadings:
        """Return the labelled readings that the model has stored."""
        from streamlvq.fusion.personal import stored_readings  # noqa: PLC0415

        return stored_readings(self.state)


@dataclass
class LiveRecords:
    """What the pools of a node thought of its latest labelled readings before they were learnt."""

    _former: list[OpinionRecords] = field(default_factory=list)  # the latest last

    def retire(self, pool: PoolClassifier | None) -> None:
        """Keep what a pool has scored before it is replaced."""
        self._former = list(self.with_pool(pool))

    def with_pool(self, pool: PoolClassifier | None) -> tuple[OpinionRecords, ...]:
        """Return the latest records, with those of the pool that decides now."""
        from streamlvq.fusion.weights import records_of  # noqa: PLC0415

        now = None if pool is None else records_of(pool)
        found, room = list[Any](), MAX_SCORED
        for records in reversed([*self._former, *([] if now is None else [now])]):
            if room > 0 and len(records):
                found.append(records.latest(room))
                room -= len(found[-1])
        return tuple(reversed(found))


def capture_own(monitor: Monitor, node: str, live: LiveRecords) -> OwnModel | None:
    """Copy what the fusing thread needs of a node; None before its model has learnt anything."""
    if ALL_DEVICES not in monitor.models():
        return None
    *_, model = unwrap(monitor.local(ALL_DEVICES))
    records = live.with_pool(pool_of(monitor.serving(ALL_DEVICES)))
    return OwnModel(node, model.state(readings=True, limits=TRUSTED_LIMITS), records)
