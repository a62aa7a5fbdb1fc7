"""Node of a fleet, peer or member: shares its local model, and may decide with the fused one."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from prometheus_client import CollectorRegistry

from streamlvq.config import Config, FleetSection
from streamlvq.connect import Message
from streamlvq.estimator import TRUSTED_LIMITS
from streamlvq.events import ALL_DEVICES
from streamlvq.fleet.checks import introduction
from streamlvq.fleet.held_back import next_publication
from streamlvq.fleet.metrics import FleetMetrics
from streamlvq.fleet.participant import FleetParticipant
from streamlvq.fleet.pools import (
    LiveRecords,
    OwnModel,
    capture_own,
    pool_of,
    served_bytes,
)
from streamlvq.fleet.publication import Schedule
from streamlvq.fleet.roster import Member, Receipt
from streamlvq.models.pool import PoolWeights
from streamlvq.monitor import Monitor
from streamlvq.role import Session
from streamlvq.snapshot import Snapshot, SnapshotError, capture
from streamlvq.snapshot.statement import PrivacyStatement
from streamlvq.wrappers.base import unwrap

if TYPE_CHECKING:
    from streamlvq.fleet.private import ReleasePublisher
    from streamlvq.privacy.ledger import Ledger

log = logging.getLogger(__name__)


# --- the node ------------------------------------------------------------------------------------


class Host(Protocol):
    """Owner of the monitor that a node belongs to."""

    @property
    def monitor(self) -> Monitor:
        """Monitor that decides and learns; a reload may replace it."""

    def serve(self, model: bytes | None) -> bool:
        """Decide with this snapshot from now on; None for the local model.

        Return False if the model cannot decide here; raise OSError, and change nothing, if the
        change cannot be made durable.
        """


class FleetNode(FleetParticipant):
    """Node that publishes what the monitor has learnt and installs what the fleet makes of it.

    The local model stays purely local: the models of the fleet decide, alone or in a pool with it,
    but teach nothing. So there is no feedback loop, and the same snapshots always give the same
    models. Nor do weights echo: a node publishes those that suit its own readings.
    """

    def __init__(
        self,
        config: Config,
        folder: Path,
        registry: CollectorRegistry,
        ledger: Ledger | None = None,
    ) -> None:
        assert config.fleet is not None
        self.is_peer = config.fleet.role == "peer"
        super().__init__(
            config,
            folder,
            registry,
            collects="snapshot" if self.is_peer else "model",
            wanted=lambda node: node == self.name,
            own=self._capture,
        )
        self._live = LiveRecords()
        self._releases: ReleasePublisher | None = None
        if config.privacy is not None and ledger is not None:
            from streamlvq.fleet.private import ReleasePublisher  # noqa: PLC0415 - slow to import

            self._releases = ReleasePublisher(config.privacy, ledger)
            self.metrics.is_private = True
        self.schedule = self._resume_schedule()
        self.reporter = ServingReporter(self.metrics, self.section.serve)
        self._source: bytes | None = None  # digest of what the hub sent
        self._wanted: bytes | None = None  # the model that shall decide; None: the local one
        self._knows_wanted = False  # before that, the restored model goes on deciding
        self._served: bytes | None = None  # digest of the model that decides

    def _resume_schedule(self) -> Schedule:
        """Continue where the last process stopped."""
        schedule, last = Schedule(self.section), self.writer.last(self.name)
        if last is None:
            return schedule
        try:
            snapshot = Snapshot.from_bytes(last.payload)
        except SnapshotError as error:
            log.warning("the last publication cannot be used: %s", error)
            return schedule
        samples = snapshot.samples
        if self._releases is not None:
            samples = self._releases.published(snapshot.privacy)
        age = max(0.0, time.time() - last.header.created)
        schedule.published(samples, time.monotonic() - age)
        return schedule

    def start(self, session: Session, host: Host) -> None:
        """Join the fleet with the model that the restored monitor decides with."""
        log.info("%s", introduction(self.section, self.name, self.roster.trust))
        self._session, self._host = session, host
        if self.is_peer or self._pools:
            self.worker.prepare()
        self.reporter.start(host.monitor.serving_score(ALL_DEVICES))
        serving = host.monitor.serving(ALL_DEVICES)
        if serving is not None:
            self._served = _digest(served_bytes(serving, self.name))
        self.metrics.pool = pool_of(serving)
        if self.is_peer and (kept := self.writer.kept().get(self.name)) is not None:
            self.roster.accept(self.name, kept, time.time())  # if it was lost between the two

    # --- messages --------------------------------------------------------------------------------

    def handle(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Handle the fleet's messages; return the others, truncated as for readings."""
        others, own = self.inbox.sort(messages)
        if own:
            self.inbox.handle(own, self.link)
        largest = self.config.broker.max_payload_bytes
        return [
            message._replace(payload=message.payload[: largest + 1])
            if len(message.payload) > largest
            else message
            for message in others
        ]

    def _check_own_topic(self, kind: str, node: str, payload: bytes) -> Receipt | None:
        """Republish our snapshot if somebody else wrote to its topic."""
        if kind != "snapshot" or node != self.name:
            return None
        if payload and self.writer.is_ours(payload, self.roster.trust):
            if payload not in self.writer.kept().values():
                self.schedule.republish()  # somebody put an older one back, or an echo came late
            return Receipt("same")
        if not self.writer.kept():
            return Receipt("same")  # from before our folder was lost; the next one will be newer
        self.schedule.republish()
        if not payload:
            return Receipt("same")
        if self.writer.is_ours_with_old_key(payload):
            text = (
                f"expected our newest snapshot, got one of {self.name!r} from before that was "
                "signed with another key; the newest one is published again"
            )
        else:
            text = (
                f"expected nobody else to publish as {self.name!r}; is there a node of that name?"
            )
        return Receipt("refused", "author", text)

    # --- now and then ----------------------------------------------------------------------------

    def tend(self, now: float) -> None:
        """Publish what is due, fuse new snapshots, and install the right model."""
        self.inbox.tend(now, self.link)
        if self._is_due(now):
            monitor = self._host.monitor
            self._publish(now, monitor)
            self._follow(now)
            if self._knows_wanted:
                self._install()
            self._report(now, monitor)
        self._publish_news()

    def _publish(self, now: float, monitor: Monitor) -> None:
        if ALL_DEVICES not in monitor.models():
            return
        samples = self._progress(monitor)
        if not self.schedule.due(samples, now):
            return
        try:
            payload = self._payload(monitor)
            if payload is None or self._is_known(payload):
                self.schedule.held_back(now)
                return
            data = self.writer.write(self.name, payload, time.time())
        except Exception as error:  # readings must go on in any case
            self.schedule.failed(now)
            self.metrics.publish_failures.inc()
            problem = f"what was learnt cannot be published: {error}"
            if self.metrics.problems.get("publish") != problem:
                log.error("the local model cannot be published to the fleet: %s", error)
            self.metrics.problems["publish"] = problem
            return
        self.metrics.problems.pop("publish", None)
        self.schedule.published(samples, now)
        if self.is_peer:
            self.roster.accept(self.name, data, time.time())
        self.link.publish([self._outgoing(self.name, data)])
        self.metrics.published.inc()
        log.info("published %d samples to the fleet in %d bytes", samples, len(data))

    def _progress(self, monitor: Monitor) -> int:
        """Return the number of labelled readings that publications go by."""
        *_, model = unwrap(monitor.local(ALL_DEVICES))
        return int(model.samples) if self._releases is None else self._releases.progress(model)

    def _last_statement(self) -> PrivacyStatement | None:
        """Return what our last publication said of its privacy."""
        payload = self.writer.published(self.name)
        return None if payload is None else Snapshot.from_bytes(payload).privacy

    def _payload(self, monitor: Monitor) -> bytes | None:
        """Return what others get of our own model; None if too little of it is new."""
        local = monitor.local(ALL_DEVICES)
        if self._releases is not None:
            *_, model = unwrap(local)
            return self._releases.payload(model, self.name, self._last_statement())
        if self.config.privacy is not None:
            raise SnapshotError("expected a ledger of releases with privacy, got none")
        pool = pool_of(monitor.serving(ALL_DEVICES)) if self._pools else None
        return self._next_payload(local, None if pool is None else pool.fitted)

    def _next_payload(self, local: Any, weights: PoolWeights | None) -> bytes | None:
        """Return what to publish now, see `held_back`; None if no class has readings enough."""
        state, k = capture(local, readings=False), self.section.min_new_per_class
        if k == 1:  # everything is new enough
            return Snapshot(state, self.name, readings=False, weights=weights).to_bytes()
        published = self._published()
        former = None if published is None else published.estimator_state()
        found = next_publication(former, state, k)
        if found is None:
            return None
        if not found.shares_new:
            weights = None if published is None else published.pool_weights
        return Snapshot(found.state, self.name, readings=False, weights=weights).to_bytes()

    def _published(self) -> Snapshot | None:
        """Return what others know of us; None if nothing, or if that cannot be read any more."""
        payload = self.writer.published(self.name)
        if payload is None:
            return None
        try:
            snapshot = Snapshot.from_bytes(payload, limits=TRUSTED_LIMITS)
        except SnapshotError as error:
            log.warning("the last publication cannot be used: %s", error)
            return None
        return snapshot.without_traces()

    def _is_known(self, payload: bytes) -> bool:
        """Return whether others have this already, and need not be reminded that we are here."""
        last = self.writer.last_header(self.name)
        if last is None or not self.schedule.is_known or not last.speaks_of(payload):
            return False
        return 0 <= time.time() - last.created < self.schedule.renewal_seconds

    # --- the model that decides ------------------------------------------------------------------

    @property
    def _pools(self) -> bool:
        return self.section.serve == "both"

    def _capture(self) -> OwnModel | None:
        """Copy what a pool needs of our own model, for the thread that makes it."""
        if not self._pools:
            return None
        begin = time.perf_counter()
        own = capture_own(self._host.monitor, self.name, self._live)
        log.debug("copied our own model in %.1f ms", 1e3 * (time.perf_counter() - begin))
        return own

    def _follow(self, now: float) -> None:
        members = self.roster.members(time.time())
        self.metrics.created = {
            member.header.author: member.header.created for member in members.values()
        }
        if not self.is_peer and not self._pools:
            self._follow_hub(members.get(self.name))
            return
        self.worker.consider(members, now)
        result = self.worker.poll()
        if result is not None and self.metrics.note_fusion(result):
            self._wanted, self._knows_wanted = result.models.get(self.name), True
            self.metrics.note_pool(result.pools.get(self.name))

    def _follow_hub(self, member: Member | None) -> None:
        """Decide with a hub's model; of a pool, with the fused model that counts most."""
        source = None if member is None else member.header.digest
        if self._knows_wanted and source == self._source:
            return
        self._source, self._knows_wanted, self._wanted = source, True, None
        self.metrics.problems.pop("hub", None)
        self.metrics.fused_at = None if member is None else time.monotonic()
        if member is None:
            return
        from streamlvq.fleet.adoption import heaviest_fused  # noqa: PLC0415 - slow to import

        try:
            self._wanted = heaviest_fused(member.snapshot).to_bytes()
        except SnapshotError as error:
            self.metrics.problems["hub"] = f"the pool of the hub is of no use here: {error}"
            log.error("the pool of the hub is of no use here: %s", error)

    def _install(self) -> None:
        """Install the model that should decide, unless it is in place already."""
        wanted = None if self._wanted is None else _digest(self._wanted)
        if wanted == self._served:
            return
        former = pool_of(self._host.monitor.serving(ALL_DEVICES))
        try:
            works = self._host.serve(self._wanted)
        except OSError as error:
            log.error("%s; the previous model decides until it works", error)
            return
        self._served = wanted  # also if refused: it would be refused again
        self.metrics.installed.inc()
        self.metrics.problems.pop("model", None)
        if not works:
            self.metrics.problems["model"] = (
                "the model of the fleet cannot decide here, see the log"
            )
            return
        self._live.retire(former)
        self.metrics.pool = pool_of(self._host.monitor.serving(ALL_DEVICES))
        self.reporter.model_changed()

    def _report(self, now: float, monitor: Monitor) -> None:
        """Report which model decides, what is not published yet, and what we are waiting for."""
        has_model = monitor.serving(ALL_DEVICES) is not None
        self.reporter.report(monitor.serving_score(ALL_DEVICES), has_model)
        samples = 0
        if ALL_DEVICES in monitor.models():
            samples = self._progress(monitor)
        self.metrics.unpublished = self.schedule.new(samples)
        wait = self.schedule.wait(samples, now)
        self.metrics.due_at = None if wait is None else now + wait
        members = self.metrics.created
        self.metrics.set_waiting(
            waiting_reason(
                self.section,
                self.name,
                samples,
                members,
                has_model,
                is_published=self.config.privacy is not None
                or self.writer.last_header(self.name) is not None,
            )
        )


# --- what is logged and said of it ---------------------------------------------------------------


SCORES = ("local", "fused", "labels")
STARTS = {
    "fused": "the fleet's model decides from now on",
    "pool": "our own model and those of the fleet decide from now on",
}
GOES_ON = {
    "fused": "the fleet goes on deciding, with a new model",
    "pool": "our own model and those of the fleet go on deciding, with new models of the fleet",
}


class ServingReporter:
    """Reporter that logs each change between the local and the fleet's model."""

    def __init__(self, metrics: FleetMetrics, serve: str) -> None:
        self.metrics, self.serve = metrics, serve
        self._model_changed = False  # since the last report

    def start(self, scores: Mapping[str, Any]) -> None:
        """Start from what the previous process has logged already."""
        self._store(scores)

    def model_changed(self) -> None:
        """Note that the fleet's model was replaced or removed."""
        self._model_changed = True

    def report(self, scores: Mapping[str, Any], has_model: bool) -> None:
        """Log what is new.

        `scores` is the result of `Monitor.serving_score`; `has_model` says whether the fleet has
        a model for us.
        """
        before, changed = self.metrics.serving, self._model_changed
        self._store(scores)
        self._model_changed = False
        if changed or scores["decides"] != before:
            self.metrics.has_news = True
            log.info("%s", self._sentence(scores, has_model, changed, before))

    def _sentence(
        self, scores: Mapping[str, Any], has_model: bool, changed: bool, before: str
    ) -> str:
        decides = scores["decides"]
        if not has_model:
            return "our own model decides from now on"
        if decides == "local":
            return f"the fleet has a new model for us; our own decides (fleet.serve: {self.serve})"
        if changed and decides == before:
            return GOES_ON[decides]
        return STARTS[decides]

    def _store(self, scores: Mapping[str, Any]) -> None:
        self.metrics.serving = scores["decides"]
        self.metrics.serving_score = {
            which: round(scores[which], 6) for which in SCORES if scores[which] is not None
        }


def waiting_reason(
    section: FleetSection,
    node: str,
    samples: int,
    members: Collection[str],
    has_model: bool,
    *,
    is_published: bool = True,
) -> str | None:
    """Return what a node is waiting for before the fleet is of use to it; None if nothing.

    `samples` counts what the local model has learnt; `members` are the authors of the envelopes at
    hand (nodes, or the hub); `has_model` says whether the fleet has a model for us, `is_published`
    whether it has ours.

    Examples
    --------
    >>> section = FleetSection(name="ovens", trust="everyone")
    >>> waiting_reason(section, "a", 3, [], has_model=False)
    'labelled readings: nothing is published before 20 are learnt (fleet.min_samples)'
    >>> waiting_reason(section, "a", 30, ["a"], has_model=False)
    'other nodes: none of them has published anything that we believe'
    >>> waiting_reason(section, "a", 30, ["a", "b"], has_model=True) is None
    True

    """
    if samples < section.min_samples:
        return (
            f"labelled readings: nothing is published before {section.min_samples} are learnt "
            "(fleet.min_samples)"
        )
    if not is_published and section.min_new_per_class > 1:
        return (
            f"labelled readings: nothing is published before a class has "
            f"{section.min_new_per_class} (fleet.min_new_per_class)"
        )
    if has_model:
        return None
    if section.role == "member":
        return f"a model from the hub {section.hub!r}"
    if not set(members) - {node}:
        return "other nodes: none of them has published anything that we believe"
    return None  # it is being fused, or it is said why not


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()
