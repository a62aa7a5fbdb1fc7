"""Common base of nodes and the hub of a fleet: keys, roster, inbox, publications, fusion."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import CollectorRegistry

from streamlvq.config import Config, FleetTopics
from streamlvq.connect import Link, Outgoing
from streamlvq.fleet.checks import key_changes, load_trusted_keys
from streamlvq.fleet.envelope import Kind
from streamlvq.fleet.fusion_worker import FusionWorker
from streamlvq.fleet.inbox import Inbox
from streamlvq.fleet.metrics import FleetMetrics
from streamlvq.fleet.pools import OwnModel
from streamlvq.fleet.publication import EnvelopeWriter
from streamlvq.fleet.roster import MODEL_MAX_NUMBERS, POOL_MAX_NUMBERS, Receipt, Roster
from streamlvq.role import Session

FLEET_FOLDER = "fleet"  # in the state folder
FLEET_CHECK_SECONDS = 0.2  # between two looks at the fleet


@dataclass(frozen=True, slots=True)
class KeyReload:
    """Trusted keys that were read again and can be applied."""

    commit: Callable[[bool], None]  # told whether the link is replaced as well
    notes: tuple[str, ...]  # what has changed, for the log


class FleetParticipant:
    """Participant that publishes envelopes, keeps those of others, and fuses them.

    `collects` is what is kept of others: snapshots of nodes, or models of a hub. `wanted` selects
    the nodes that need a fused model from us. `own` copies our own model for a pool.
    """

    def __init__(
        self,
        config: Config,
        folder: Path,
        registry: CollectorRegistry,
        *,
        collects: Kind,
        wanted: Callable[[str], bool],
        own: Callable[[], OwnModel | None] = lambda: None,
    ) -> None:
        section = config.fleet
        assert section is not None
        self.config, self.section, self.topics = config, section, FleetTopics(section)
        self.writer = EnvelopeWriter(config, folder / FLEET_FOLDER)
        self.name = self.writer.name
        self.metrics = FleetMetrics(registry, section.name, self.name, section.role)
        self.roster = Roster(
            section.name,
            load_trusted_keys(section, self.name, self.writer.key),
            limit=section.max_snapshot_bytes,
            max_age_seconds=section.max_age_seconds,
            folder=folder / FLEET_FOLDER / "roster",
            kind=collects,
            author=section.hub,
            max_numbers=MODEL_MAX_NUMBERS if collects == "snapshot" else POOL_MAX_NUMBERS,
        )
        self.inbox = Inbox(self.topics, self.roster, self._check_own_topic, self.metrics)
        self.worker = FusionWorker(section, wanted, own)
        self._session: Session | None = None
        self._next_check = 0.0

    @property
    def link(self) -> Link:
        """Link in use, available after the start."""
        assert self._session is not None
        return self._session.link

    def announcements(self, session_lost: bool) -> Iterator[Outgoing]:
        """Yield the newest envelopes again if the broker may have lost them."""
        if session_lost:
            for node, data in self.writer.kept().items():
                yield self._outgoing(node, data)

    def _outgoing(self, node: str, data: bytes) -> Outgoing:
        is_hub = self.section.role == "hub"
        topic = self.topics.model(node) if is_hub else self.topics.snapshot(node)
        return Outgoing(topic, data, qos=1, retain=True)

    def _check_own_topic(self, kind: str, node: str, payload: bytes) -> Receipt | None:
        """Judge a message on a topic that only we may write to; None for other topics."""
        raise NotImplementedError

    def _is_due(self, now: float) -> bool:
        """Return True a few times a second, when it is time to tend the fleet."""
        if now < self._next_check:
            return False
        self._next_check = now + FLEET_CHECK_SECONDS
        return True

    def _publish_news(self) -> None:
        """Request a status message if something has changed that others should hear at once."""
        if self.metrics.take_news() and self._session is not None:
            self._session.publish_status_soon()

    def prepare_keys(self) -> KeyReload:
        """Read the trusted keys again; raise if they cannot be used.

        Messages that were refused for lack of a key are retained at the broker and come back after
        a reconnect.
        """
        keys = load_trusted_keys(self.section, self.name, self.writer.key)

        def commit(link_is_replaced: bool) -> None:
            self.roster.set_trusted_keys(keys)
            if link_is_replaced:
                self.inbox.drop()

        return KeyReload(commit, tuple(key_changes(self.roster.trust, keys)))
