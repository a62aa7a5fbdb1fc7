"""Fusion worker: fuses the members of a fleet in a thread, when they have changed."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from streamlvq.config import FleetSection
from streamlvq.errors import StreamLVQError
from streamlvq.fleet.envelope import ENVELOPE_MAX_OVERHEAD
from streamlvq.fleet.pools import OwnModel, pool_bytes
from streamlvq.models.pool import PoolReport
from streamlvq.snapshot import Snapshot

if TYPE_CHECKING:
    from streamlvq.fleet.roster import Member
    from streamlvq.fusion import Fused, FusionReport


log = logging.getLogger(__name__)

MIN_NODES = 2  # with fewer there is nothing to fuse
REST_FACTOR = 10.0  # idle time per working time: in a large fleet some node always has news
FusionKey = tuple[tuple[str, bytes], ...]  # each member, by name, and the digest of what it knows


MAX_NAMES = 5  # of nodes in one sentence
HUB_KINDS = ("fused", "ensemble")  # candidates that need no readings


class ServedModel(NamedTuple):
    """What a node is to decide with: a snapshot, and how it was weighed if it is a pool."""

    data: bytes | None  # None: its own model alone
    pool: PoolReport | None = None
    oversized: int = 0  # bytes that its pool would have had with all its candidates; 0: it has


class FusionResult(NamedTuple):
    """Outcome of fusing the members of a fleet."""

    key: FusionKey
    models: dict[str, bytes]  # a snapshot for each node that one is wanted for
    report: FusionReport | None = None  # None: there was nothing to fuse, or it failed
    error: str | None = None  # why it failed
    seconds: float = 0.0
    pools: Mapping[str, PoolReport] = {}  # how the models of each pool are weighed
    cpu_seconds: float = 0.0  # of the thread


class FusionWorker:
    """Worker that fuses the members of a fleet in a thread when they change, one run at a time.

    The same members give the same models, bit for bit, no matter who fuses them, when, and in which
    order they arrived; the weights of a pool are the node's. `wanted` selects the members that need
    a model. `own` copies our own model and what our pool has scored, on the caller's thread.
    """

    def __init__(
        self,
        section: FleetSection,
        wanted: Callable[[str], bool],
        own: Callable[[], OwnModel | None] = lambda: None,
    ) -> None:
        self.section, self.wanted, self.own = section, wanted, own
        self._tried: FusionKey | None = None
        self._since: float | None = None  # when the members began to differ from those tried
        self._thread: threading.Thread | None = None
        self._done: FusionResult | None = None
        self._effort = 0.0  # seconds of work that it was, not rested from yet
        self._rested = float("-inf")  # when the next one may begin

    def prepare(self) -> None:
        """Import what fusing needs, so that the first run is not slower than the others."""
        import scipy.optimize  # noqa: F401, PLC0415

        import streamlvq.fleet.adoption  # noqa: PLC0415
        import streamlvq.fusion  # noqa: F401, PLC0415

    def consider(self, members: Mapping[str, Member], now: float) -> None:
        """Start a fusion if members have changed and the waiting time for more changes is over."""
        if self._thread is None and self._effort > 0.0:
            self._rested, self._effort = now + REST_FACTOR * self._effort, 0.0
        if fusion_key(members) == self._tried:
            self._since = None
            return
        if self._since is None:
            self._since = now
        waited = now - self._since >= self.section.fuse_seconds and now >= self._rested
        if self._thread is None and waited:
            self._begin(dict(members))

    def poll(self) -> FusionResult | None:
        """Return the result of a finished fusion, once."""
        if self._thread is None or self._thread.is_alive():
            return None
        self._thread.join()
        self._thread, done, self._done = None, self._done, None
        return done

    def _begin(self, members: dict[str, Member]) -> None:
        self._tried, self._since = fusion_key(members), None
        try:
            own = self.own()
        except Exception as error:  # readings must go on in any case
            log.error("internal error: our own model cannot be copied", exc_info=error)
            own = None
        self._thread = threading.Thread(
            target=self._run, args=(members, own), name="fusing", daemon=True
        )
        self._thread.start()

    def _run(self, members: dict[str, Member], own: OwnModel | None) -> None:
        begin = time.thread_time()
        try:
            if self.section.role == "member":
                done = adopt_model(self.section, members, own)
            else:
                done = fuse_members(self.section, members, self.wanted, own)
        except BaseException as error:  # reported to the loop; the thread must not end silently
            if not isinstance(error, StreamLVQError):
                log.error("internal error while fusing the fleet", exc_info=error)
            text = str(error) or repr(error)
            done = FusionResult(fusion_key(members), {}, error=text)
        self._effort = time.thread_time() - begin
        self._done = done._replace(cpu_seconds=self._effort)


def fuse_members(
    section: FleetSection,
    members: Mapping[str, Member],
    wanted: Callable[[str], bool],
    own: OwnModel | None = None,
) -> FusionResult:
    """Return a snapshot for each wanted member; raise `FusionError` if that fails.

    Members with incompatible models are fused in separate groups. `own` is the model of the node
    that wants it, for a pool; a hub has none.
    """
    from streamlvq.fusion import FusionError  # noqa: PLC0415
    from streamlvq.fusion.node_models import group_compatible  # noqa: PLC0415

    begin, key = time.monotonic(), fusion_key(members)
    groups = group_compatible(_without_readings(member.snapshot) for member in members.values())
    asked = [g for g in groups if len(g) >= MIN_NODES and any(wanted(each.node) for each in g)]
    found: dict[str, ServedModel] = {}
    report, failures = None, []
    for group in asked:
        try:
            fused = fuse_group(section, group)
        except StreamLVQError as error:
            failures.append(error)
            continue
        found |= _models(section, fused, wanted, own)
        report = report or fused.report  # that of the largest group
    if failures and report is None:
        raise failures[0]
    notes = [
        *describe_groups(groups),
        *(f"some nodes cannot be fused: {error}" for error in failures),
        *describe_sizes(section, found),
    ]
    if report is None:
        if notes:
            raise FusionError("; ".join(notes))
        return FusionResult(key, {})
    report = msgspec.structs.replace(report, warnings=(*report.warnings, *notes))
    models = {node: each.data for node, each in found.items() if each.data is not None}
    pools = {node: each.pool for node, each in found.items() if each.pool is not None}
    return FusionResult(key, models, report, None, time.monotonic() - begin, pools)


def adopt_model(
    section: FleetSection, members: Mapping[str, Member], own: OwnModel | None
) -> FusionResult:
    """Return the pool that a member makes of what its hub gave it, if that gave it anything."""
    from streamlvq.fleet.adoption import adopt  # noqa: PLC0415

    begin, key = time.monotonic(), fusion_key(members)
    models, pools = {}, {}
    for node, member in members.items():
        models[node], pools[node] = adopt(section, member.snapshot, own)
    return FusionResult(key, models, seconds=time.monotonic() - begin, pools=pools)


def _without_readings(snapshot: Snapshot) -> Snapshot:
    """Return a snapshot that nobody takes readings from: those of others are not ours to use."""
    if not snapshot.has_readings:
        return snapshot
    return Snapshot(
        snapshot.estimator_state(),
        snapshot.node,
        readings=False,
        created=snapshot.created_seconds,
        weights=snapshot.pool_weights,
    )


def fuse_group(section: FleetSection, snapshots: Sequence[Snapshot]) -> Fused:
    """Fuse compatible snapshots as configured; raise `FusionError` if that fails."""
    from streamlvq.fusion import fuse  # noqa: PLC0415

    return fuse(
        snapshots, weighting=section.weighting, drift=section.drift, aggregator=section.aggregator
    )


def describe_groups(groups: Sequence[Sequence[Snapshot]]) -> list[str]:
    """Return a warning if the nodes' models are not all compatible."""
    from streamlvq.fusion.node_models import unpack  # noqa: PLC0415

    if len(groups) < 2:
        return []
    kinds = [node.kind for node in unpack(group[0] for group in groups[:5])]
    nodes = [", ".join(each.node for each in group[:5]) for group in groups[:5]]
    names = "; ".join(f"{kind} of {some}" for kind, some in zip(kinds, nodes, strict=True))
    return [
        f"the nodes have {len(groups)} kinds of models, or transforms of features, that cannot be "
        f"fused with each other ({names}): each kind is fused by itself"
    ]


def _models(
    section: FleetSection, fused: Fused, wanted: Callable[[str], bool], own: OwnModel | None
) -> Iterator[tuple[str, ServedModel]]:
    for node in fused.nodes:
        if not wanted(node):
            continue
        try:
            yield node, _model(section, fused, node, own)
        except StreamLVQError as error:  # the other nodes still get their models
            log.warning("the fleet has no model for %r: %s", node, error)


def _model(section: FleetSection, fused: Fused, node: str, own: OwnModel | None) -> ServedModel:
    """Return what a node decides with; whoever is left out, with its own model."""
    if section.serve != "both":
        left_out = fused.is_left_out(node)
        return ServedModel(None if left_out else fused.snapshot(node).to_bytes())
    if section.role != "hub":
        return _pool(section, fused, node, own, None)
    pool = whole = _pool(section, fused, node, None, HUB_KINDS)
    most, room = section.max_candidates, _room(section)
    while pool.data is not None and len(pool.data) > room and most > 0:  # ensembles go first
        smaller = msgspec.structs.replace(section, max_candidates=most)
        pool, most = _pool(smaller, fused, node, None, HUB_KINDS[:1]), most - 1
    return pool if pool is whole else pool._replace(oversized=len(whole.data or b""))


def _room(section: FleetSection) -> int:
    return section.max_snapshot_bytes - ENVELOPE_MAX_OVERHEAD


def describe_sizes(section: FleetSection, models: Mapping[str, ServedModel]) -> list[str]:
    """Return a warning if pools had to become smaller to be sent."""
    large = {node: each.oversized for node, each in models.items() if each.oversized}
    if not large:
        return []
    some, more = sorted(large)[:MAX_NAMES], len(large) - MAX_NAMES
    names = ", ".join(some) + (f" and {more} more" if more > 0 else "")
    return [
        f"fewer candidates for {names}, above all no ensembles, which hold the models of all "
        f"nodes: expected pools of at most {_room(section)} bytes (fleet.max_snapshot_bytes), got "
        f"up to {max(large.values())}"
    ]


def _pool(
    section: FleetSection,
    fused: Fused,
    node: str,
    own: OwnModel | None,
    kinds: Sequence[str] | None,
) -> ServedModel:
    from streamlvq.fusion.node_models import TRANSFORM  # noqa: PLC0415

    model, live = (None, ()) if own is None else (own.build(), own.live)
    pool = fused.pool.make(node, model, live, section.max_candidates, kinds)
    if pool.report.left_out:
        return ServedModel(None, pool.report)
    state = fused.pool.snapshots[node].estimator_state()
    around = state if state.kind == TRANSFORM else state.innermost
    return ServedModel(pool_bytes(pool, around, node), pool.report)


def fusion_key(members: Mapping[str, Member]) -> FusionKey:
    """Return a key of the members' contents, whatever envelopes they came in."""
    return tuple((node, members[node].header.digest) for node in sorted(members))
