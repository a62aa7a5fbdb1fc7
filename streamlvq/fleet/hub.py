"""Hub role: fuses the models of the nodes and publishes a model for each of them."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from prometheus_client import CollectorRegistry

from streamlvq.config import Config
from streamlvq.connect import Message, Subscription
from streamlvq.fleet.checks import introduction
from streamlvq.fleet.fusion_worker import MIN_NODES
from streamlvq.fleet.inbox import fleet_subscriptions
from streamlvq.fleet.participant import FleetParticipant
from streamlvq.fleet.publication import RENEWALS_PER_MAX_AGE, TooLargeError
from streamlvq.fleet.roster import Receipt
from streamlvq.role import Health, Reload, RoleStatus, Session, changed_keys, is_among
from streamlvq.snapshot import SnapshotFileError

log = logging.getLogger(__name__)

RELOADABLE_KEYS = (
    "logging",
    "health.silence_seconds",
    "health.snapshot_age_seconds",
    "health.max_devices",
)


class HubRole(FleetParticipant):
    """Role that collects the nodes' snapshots, fuses them and publishes the models that changed.

    Everything a hub knows is on disk before it is acknowledged or published, so it may be killed at
    any moment. `release` unlocks the state folder, which the caller has locked.
    """

    def __init__(
        self,
        config: Config,
        health: Health,
        registry: CollectorRegistry,
        release: Callable[[], None],
    ) -> None:
        folder = Path(config.state.folder)
        super().__init__(config, folder, registry, collects="snapshot", wanted=lambda node: True)
        self.health, self._release = health, release
        self._wanted: dict[str, bytes] | None = None  # models by node; None: not known yet
        self._digests: dict[str, bytes] = {}  # of these
        self._disturbed: set[str] = set()  # nodes whose topic somebody else has written to
        self._clearing: set[str] = set()  # nodes that the broker is being told to forget
        self._refused: dict[str, bytes] = {}  # digests of models that cannot be published
        self._restored: dict[str, float] = {}  # when a topic was last set right

    def subscriptions(self, config: Config) -> list[Subscription]:
        """Return the subscriptions to the snapshots and models of all nodes."""
        return fleet_subscriptions(config)

    def start(self, session: Session) -> None:
        """Log who we are, and prepare for fusing."""
        log.info("%s", introduction(self.section, self.name, self.roster.trust))
        self._session = session
        self.worker.prepare()

    def handle(self, messages: Sequence[Message]) -> None:
        """Apply messages, then acknowledge them."""
        self.inbox.handle(messages, self.link)

    def tend(self, now: float) -> None:
        """Fuse new snapshots, and publish models that the nodes do not have yet."""
        self.health.saved = self.health.reading = now  # it saves at once, and expects no readings
        self.inbox.tend(now, self.link)
        if self._is_due(now):
            self._fuse(now)
            if self._wanted is not None:
                self._tell(now, self._wanted)
        self.health.fleet = self.metrics.problem()
        self._publish_news()

    def _fuse(self, now: float) -> None:
        members = self.roster.members(time.time())
        self.metrics.created = {node: each.header.created for node, each in members.items()}
        self.metrics.set_waiting(hub_waiting_reason(members))
        self.worker.consider(members, now)
        result = self.worker.poll()
        if result is not None and self.metrics.note_fusion(result):
            self._wanted = result.models
            self._digests = {
                node: hashlib.sha256(model).digest() for node, model in result.models.items()
            }

    def status(self) -> RoleStatus:
        """Return the state of the fleet; a hub has no devices and no models of its own."""
        return RoleStatus(fleet=self.metrics.record())

    def restart_keys(self, old: Config, new: Config) -> list[str]:
        """Return all changed keys except the few that can be reloaded."""
        return [key for key in changed_keys(old, new) if not is_among(key, RELOADABLE_KEYS)]

    def prepare(self, new: Config) -> Reload:
        """Read the trusted keys again."""
        keys = self.prepare_keys()
        reconnect = bool(keys.notes)

        def commit() -> None:
            self.config = new
            keys.commit(reconnect)

        return Reload(commit, reconnect=reconnect, notes=keys.notes)

    def stop(self) -> bool:
        """Return True: everything was saved at once."""
        return True

    def close(self) -> None:
        """Release the state folder."""
        self._release()

    # --- what nodes are told ---------------------------------------------------------------------

    def _check_own_topic(self, kind: str, node: str, payload: bytes) -> Receipt | None:
        """Republish our model if somebody else wrote to its topic."""
        if kind != "model":
            return None
        if payload and self.writer.is_ours(payload, self.roster.trust):
            if payload != self.writer.kept().get(node, payload):
                self._disturbed.add(node)  # somebody put an older one back, or an echo came late
            return Receipt("same")
        if node in self.writer.kept() and node not in self._clearing:
            self._disturbed.add(node)
        if not payload:
            return Receipt("same")
        text = f"expected nobody but the hub {self.name!r} to write models"
        return Receipt("refused", "author", text)

    def _tell(self, now: float, models: dict[str, bytes]) -> None:
        for node, payload in models.items():
            if self._must_publish(node, now):
                self._publish(node, payload, now)
        link, gone = self.link, self.writer.kept().keys() - models.keys()
        for node in sorted(gone - self._clearing):
            log.info("no model for %r any more", node)
            link.publish([self._outgoing(node, b"")])
        self._clearing = set(gone)
        if gone and link.connected and not link.counters.get("outgoing", 0):
            for node in gone:  # the broker has heard it
                self.writer.forget(node)
            self._clearing.clear()

    def _must_publish(self, node: str, now: float) -> bool:
        digest = self._digests[node]
        if self._refused.get(node) == digest:
            return False
        last = self.writer.last_header(node)
        if last is None or last.digest != digest:
            return True
        if node in self._disturbed:
            pause = self.section.publish_pause_seconds
            return now - self._restored.get(node, float("-inf")) >= pause
        # Also if it comes from the future: the clock was wrong then, and members refuse it.
        renewal = self.section.max_age_seconds / RENEWALS_PER_MAX_AGE
        return not 0 <= time.time() - last.created < renewal

    def _publish(self, node: str, payload: bytes, now: float) -> None:
        try:
            data = self.writer.write(node, payload, time.time())
        except (TooLargeError, SnapshotFileError, OSError) as error:
            self.metrics.publish_failures.inc()
            self.metrics.problems[f"publish {node}"] = f"no model for {node!r}: {error}"
            log.error("the model for %r cannot be published: %s", node, error)
            if isinstance(error, TooLargeError):  # and will be as long as it is the same
                self._refused[node] = self._digests[node]
            return
        self.metrics.problems.pop(f"publish {node}", None)
        self._refused.pop(node, None)
        if node in self._disturbed:
            self._disturbed.discard(node)
            self._restored[node] = now
        self.link.publish([self._outgoing(node, data)])
        self.metrics.published.inc()


def hub_waiting_reason(members: Collection[str]) -> str | None:
    """Return what a hub is waiting for before it can fuse; None if nothing.

    Examples
    --------
    >>> hub_waiting_reason(["a"])
    'nodes: 1 of at least 2 has published something that we believe'
    >>> hub_waiting_reason(["a", "b"]) is None
    True

    """
    if len(members) >= MIN_NODES:
        return None
    who = f"{len(members) or 'none'} of at least {MIN_NODES} has"
    return f"nodes: {who} published something that we believe"
