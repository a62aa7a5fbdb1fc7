"""What a hub knows of its fleet, and what it tells each node."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Sequence
from pathlib import Path

from streamlvq.config import Config, FleetTopics
from streamlvq.connect import Link, Message, Outgoing
from streamlvq.daemon.fleet_author import (
    Author,
    TooLargeError,
    introduction,
    key_changes,
    trusted,
)
from streamlvq.daemon.fleet_figures import FleetFigures
from streamlvq.daemon.fleet_fusing import Fusing
from streamlvq.daemon.fleet_inbox import Inbox
from streamlvq.daemon.fleet_schedule import RENEWALS
from streamlvq.daemon.fleet_waiting import hub_waits_for
from streamlvq.daemon.greeting import Greeting
from streamlvq.daemon.metrics import Registry
from streamlvq.fleet import Roster, Taken, TrustedKeys
from streamlvq.snapshot import SnapshotFileError

log = logging.getLogger(__name__)

LOOKING = 0.2  # seconds between two looks at the fleet


class FleetHub:
    """Fuses whatever members have changed, and publishes what has changed for them.

    Parameters
    ----------
    config
        With a section `fleet` whose role is hub.
    folder
        Where to keep what nodes said and what they were told.
    registry
        Where the metrics go.

    """

    def __init__(self, config: Config, folder: Path, registry: Registry) -> None:
        section = config.fleet
        assert section is not None
        self.config, self.section, self.topics = config, section, FleetTopics(section)
        self.author = Author(config, folder)
        self.figures = FleetFigures(registry, section.name, self.author.name, section.role)
        self.roster = Roster(
            section.name,
            trusted(config, self.author),
            limit=section.max_snapshot_bytes,
            max_age_seconds=section.max_age_seconds,
            folder=folder / "roster",
        )
        self.inbox = Inbox(self.topics, self.roster, self._guard, self.figures)
        self.fusing = Fusing(section, lambda node: True)
        self._greeting = Greeting()
        self._wanted: dict[str, bytes] | None = None  # models by node; None: not known yet
        self._digests: dict[str, bytes] = {}  # of these
        self._disturbed: set[str] = set()  # nodes whose topic somebody else has written to
        self._clearing: set[str] = set()  # nodes that the broker is being told to forget
        self._refused: dict[str, bytes] = {}  # digests of models that cannot be published
        self._restored: dict[str, float] = {}  # when a topic was last set right
        self._next = 0.0

    def begin(self) -> None:
        """Say who we are, and be ready to fuse."""
        log.info("%s", introduction(self.section, self.author.name, self.roster.trust))
        self.fusing.prepare()

    def take(self, messages: Sequence[Message], link: Link) -> None:
        """Let messages have their effect, and acknowledge them."""
        self.inbox.take(messages, link)

    def _guard(self, kind: str, node: str, payload: bytes) -> Taken | None:
        """Nobody else writes models; if somebody did, we say again what is true."""
        if kind != "model":
            return None
        if payload and self.author.wrote(payload, self.roster.trust):
            if payload != self.author.kept().get(node, payload):
                self._disturbed.add(node)  # somebody put an older one back, or an echo came late
            return Taken("same")
        if node in self.author.kept() and node not in self._clearing:
            self._disturbed.add(node)
        if not payload:
            return Taken("same")
        text = f"expected nobody but the hub {self.author.name!r} to write models"
        return Taken("refused", "author", text)

    def tend(self, now: float, link: Link) -> None:
        """Fuse what is new, and tell nodes what they do not know yet."""
        self.inbox.tend(now, link)
        if self._greeting.is_due(link):
            link.publish(self._message(node, data) for node, data in self.author.kept().items())
        if now < self._next:
            return
        self._next = now + LOOKING
        members = self.roster.members(time.time())
        self.figures.created = {node: each.header.created for node, each in members.items()}
        self.figures.wait_for(hub_waits_for(members))
        self.fusing.consider(members, now)
        fusion = self.fusing.poll()
        if fusion is not None and self.figures.fused(fusion):
            self._wanted = fusion.models
            self._digests = {
                node: hashlib.sha256(model).digest() for node, model in fusion.models.items()
            }
        if self._wanted is not None:
            self._tell(now, link, self._wanted)

    # --- what nodes are told ---------------------------------------------------------------------

    def _tell(self, now: float, link: Link, models: dict[str, bytes]) -> None:
        for node, payload in models.items():
            if self._is_due(node, now):
                self._publish(node, payload, now, link)
        gone = self.author.kept().keys() - models.keys()
        for node in sorted(gone - self._clearing):
            log.info("no model for %r any more", node)
            link.publish([self._message(node, b"")])
        self._clearing = set(gone)
        if gone and link.connected and not link.counters.get("outgoing", 0):
            for node in gone:  # the broker has heard it
                self.author.forget(node)
            self._clearing.clear()

    def _is_due(self, node: str, now: float) -> bool:
        digest = self._digests[node]
        if self._refused.get(node) == digest:
            return False
        last = self.author.last_header(node)
        if last is None or last.digest != digest:
            return True
        if node in self._disturbed:
            pause = self.section.publish_pause_seconds
            return now - self._restored.get(node, float("-inf")) >= pause
        # Also if it comes from the future: the clock was wrong then, and members refuse it.
        return not 0 <= time.time() - last.created < self.section.max_age_seconds / RENEWALS

    def _publish(self, node: str, payload: bytes, now: float, link: Link) -> None:
        try:
            data = self.author.write(node, payload, time.time())
        except (TooLargeError, SnapshotFileError, OSError) as error:
            self.figures.publish_failures.add()
            self.figures.trouble[f"publish {node}"] = f"no model for {node!r}: {error}"
            log.error("the model for %r cannot be published: %s", node, error)
            if isinstance(error, TooLargeError):  # and will be as long as it is the same
                self._refused[node] = self._digests[node]
            return
        self.figures.trouble.pop(f"publish {node}", None)
        self._refused.pop(node, None)
        if node in self._disturbed:
            self._disturbed.discard(node)
            self._restored[node] = now
        link.publish([self._message(node, data)])
        self.figures.published.add()

    def _message(self, node: str, data: bytes) -> Outgoing:
        return Outgoing(self.topics.model(node), data, qos=1, retain=True)

    def reread(self) -> tuple[TrustedKeys | None, list[str]]:
        """The trusted keys that the file has now, and what has changed; raises if of no use.

        What was refused for want of a key is retained at the broker, and comes after a connect.
        """
        keys = trusted(self.config, self.author)
        return keys, key_changes(self.roster.trust, keys)


__all__ = ["FleetHub"]
