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

if TYPE_CHECKING:
    from streamlvq.fleet.roster import Member
    from streamlvq.fusion import Fused, FusionReport
    from streamlvq.snapshot import Snapshot


log = logging.getLogger(__name__)

MIN_NODES = 2  # with fewer there is nothing to fuse
REST_FACTOR = 10.0  # idle time per working time: in a large fleet some node always has news
FusionKey = tuple[tuple[str, bytes], ...]  # each member, by name, and the digest of what it knows


class FusionResult(NamedTuple):
    """Outcome of fusing the members of a fleet."""

    key: FusionKey
    models: dict[str, bytes]  # a snapshot for each node that one is wanted for
    report: FusionReport | None = None  # None: there was nothing to fuse, or it failed
    error: str | None = None  # why it failed
    seconds: float = 0.0


class FusionWorker:
    """Worker that fuses the members of a fleet in a thread when they change, one run at a time.

    The same members give the same models, bit for bit, no matter who fuses them, when, and in which
    order they arrived. `wanted` selects the members that need a model.
    """

    def __init__(self, section: FleetSection, wanted: Callable[[str], bool]) -> None:
        self.section, self.wanted = section, wanted
        self._tried: FusionKey | None = None
        self._since: float | None = None  # when the members began to differ from those tried
        self._thread: threading.Thread | None = None
        self._done: FusionResult | None = None
        self._effort = 0.0  # seconds of work that it was, not rested from yet
        self._rested = float("-inf")  # when the next one may begin

    def prepare(self) -> None:
        """Import what fusing needs, so that the first run is not slower than the others."""
        import scipy.optimize  # noqa: F401, PLC0415

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
        self._thread = threading.Thread(
            target=self._run, args=(members,), name="fusing", daemon=True
        )
        self._thread.start()

    def _run(self, members: dict[str, Member]) -> None:
        begin = time.thread_time()
        try:
            self._done = fuse_members(self.section, members, self.wanted)
        except BaseException as error:  # reported to the loop; the thread must not end silently
            if not isinstance(error, StreamLVQError):
                log.error("internal error while fusing the fleet", exc_info=error)
            text = str(error) or repr(error)
            self._done = FusionResult(fusion_key(members), {}, error=text)
        self._effort = time.thread_time() - begin


def fuse_members(
    section: FleetSection, members: Mapping[str, Member], wanted: Callable[[str], bool]
) -> FusionResult:
    """Return a snapshot for each wanted member; raise `FusionError` if that fails.

    Members with incompatible models are fused in separate groups.
    """
    from streamlvq.fusion import FusionError  # noqa: PLC0415
    from streamlvq.fusion.node_models import group_compatible  # noqa: PLC0415

    begin, key = time.monotonic(), fusion_key(members)
    groups = group_compatible(member.snapshot for member in members.values())
    asked = [g for g in groups if len(g) >= MIN_NODES and any(wanted(each.node) for each in g)]
    models: dict[str, bytes] = {}
    report, failures = None, []
    for group in asked:
        try:
            fused = fuse_group(section, group)
        except StreamLVQError as error:
            failures.append(error)
            continue
        models |= _models(fused, wanted)
        report = report or fused.report  # that of the largest group
    if failures and report is None:
        raise failures[0]
    notes = [
        *describe_groups(groups),
        *(f"some nodes cannot be fused: {error}" for error in failures),
    ]
    if report is None:
        if notes:
            raise FusionError("; ".join(notes))
        return FusionResult(key, {})
    report = msgspec.structs.replace(report, warnings=(*report.warnings, *notes))
    return FusionResult(key, models, report, None, time.monotonic() - begin)


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


def _models(fused: Fused, wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    for node in fused.nodes:
        if not wanted(node):
            continue
        try:
            yield node, fused.snapshot(node).to_bytes()
        except StreamLVQError as error:  # the other nodes still get their models
            log.warning("the fleet has no model for %r: %s", node, error)


def fusion_key(members: Mapping[str, Member]) -> FusionKey:
    """Return a key of the members' contents, whatever envelopes they came in."""
    return tuple((node, members[node].header.digest) for node in sorted(members))
