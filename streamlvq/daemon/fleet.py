"""A node's part in a fleet: it shares what it learnt, and decides with what all of them know."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from streamlvq.config import Config, FleetTopics
from streamlvq.connect import Link, Message, Outgoing
from streamlvq.daemon.fleet_author import FOLDER, Author, introduction, key_changes, trusted
from streamlvq.daemon.fleet_deciding import Deciding
from streamlvq.daemon.fleet_figures import FleetFigures
from streamlvq.daemon.fleet_fusing import Fusing
from streamlvq.daemon.fleet_inbox import Inbox
from streamlvq.daemon.fleet_schedule import Schedule
from streamlvq.daemon.fleet_waiting import node_waits_for
from streamlvq.daemon.greeting import Greeting
from streamlvq.daemon.journal import JournalError
from streamlvq.daemon.metrics import Registry
from streamlvq.fleet import Member, Roster, Taken, TrustedKeys
from streamlvq.monitor import Monitor
from streamlvq.snapshot import Snapshot, SnapshotError
from streamlvq.wrappers.chain import unwrap

log = logging.getLogger(__name__)

LOOKING = 0.2  # seconds between two looks at the fleet
GROUP = ""  # the one model that all devices of a node share
Install = Callable[[bytes | None], bool]  # let a model decide from now on; None: our own one


class Fleet:
    """Publishes what the monitor has learnt, and finds the model that it shall decide with.

    The local model stays purely local: what the fleet knows decides, but teaches nothing. So there
    is no echo, and the same snapshots always give the same model.

    Parameters
    ----------
    config
        With a section `fleet` whose role is peer or member.
    folder
        The state folder.
    registry
        Where the metrics go.

    """

    def __init__(self, config: Config, folder: Path, registry: Registry) -> None:
        section = config.fleet
        assert section is not None
        self.config, self.section, self.topics = config, section, FleetTopics(section)
        self.author = Author(config, folder / FOLDER)
        self.node = self.author.name
        self.figures = FleetFigures(registry, section.name, self.node, section.role)
        self.is_peer = section.role == "peer"
        self.roster = Roster(
            section.name,
            trusted(config, self.author),
            limit=section.max_snapshot_bytes,
            max_age_seconds=section.max_age_seconds,
            folder=folder / FOLDER / "roster",
            kind="snapshot" if self.is_peer else "model",
            author=section.hub,
        )
        self.inbox = Inbox(self.topics, self.roster, self._guard, self.figures)
        self.schedule = self._schedule()
        self.fusing = Fusing(section, lambda node: node == self.node)
        self.deciding = Deciding(self.figures, section.serve)
        self._greeting = Greeting()
        self._next = 0.0
        self._source: bytes | None = None  # what the hub's model is known by
        self._wanted: bytes | None = None  # the model that shall decide; nothing: our own
        self._decided = False  # whether we know which
        self._served: bytes | None = None  # the digest of the one that does

    def _schedule(self) -> Schedule:
        """Go on where the last process stopped."""
        schedule, last = Schedule(self.section), self.author.last(self.node)
        if last is None:
            return schedule
        try:
            samples = Snapshot.from_bytes(last.payload).samples
        except SnapshotError as error:
            log.warning("what was published last is of no use: %s", error)
            return schedule
        age = max(0.0, time.time() - last.header.created)
        schedule.published(samples, time.monotonic() - age)
        return schedule

    def begin(self, monitor: Monitor) -> None:
        """Look what the restored monitor decides with."""
        log.info("%s", introduction(self.section, self.node, self.roster.trust))
        if self.is_peer:
            self.fusing.prepare()
        self.deciding.begin(monitor.serving_score(GROUP))
        serving = monitor.serving(GROUP)
        if serving is not None:
            self._served = _digest(shared_bytes(serving, self.node))
        if self.is_peer and (kept := self.author.kept().get(self.node)) is not None:
            self.roster.take(self.node, kept, time.time())  # if it was lost between the two

    # --- messages --------------------------------------------------------------------------------

    def take(self, messages: Sequence[Message], link: Link) -> Sequence[Message]:
        """Take what is the fleet's; the rest is given back, with payloads cut as for readings."""
        others, own = self.inbox.sort(messages)
        if own:
            self.inbox.take(own, link)
        largest = self.config.broker.max_payload_bytes
        return [
            message._replace(payload=message.payload[: largest + 1])
            if len(message.payload) > largest
            else message
            for message in others
        ]

    def _guard(self, kind: str, node: str, payload: bytes) -> Taken | None:
        """Nobody else writes where we do; if somebody did, we say again what is true."""
        if kind != "snapshot" or node != self.node:
            return None
        if payload and self.author.wrote(payload, self.roster.trust):
            if payload not in self.author.kept().values():
                self.schedule.forgotten()  # somebody put an older one back, or an echo came late
            return Taken("same")
        if not self.author.kept():
            return Taken("same")  # of a former life; what we say will be newer
        self.schedule.forgotten()
        if not payload:
            return Taken("same")
        if self.author.resembles(payload):
            text = (
                f"expected our newest snapshot, got one of {self.node!r} from before that was "
                "signed with another key; the newest one is published again"
            )
        else:
            text = (
                f"expected nobody else to publish as {self.node!r}; is there a node of that name?"
            )
        return Taken("refused", "author", text)

    # --- now and then ----------------------------------------------------------------------------

    def tend(self, now: float, link: Link, monitor: Monitor, install: Install) -> None:
        """Publish what is due, fuse what is new, and let the right model decide."""
        self.inbox.tend(now, link)
        if self._greeting.is_due(link):
            link.publish(self._message(data) for data in self.author.kept().values())
        if now < self._next:
            return
        self._next = now + LOOKING
        self._publish(now, link, monitor)
        self._follow(now)
        if self._decided:
            self._install(install)
        self._note(now, monitor)

    def _publish(self, now: float, link: Link, monitor: Monitor) -> None:
        if GROUP not in monitor.models():
            return
        *_, model = unwrap(local := monitor.local(GROUP))
        if not self.schedule.due(model.samples, now):
            return
        try:
            payload = shared_bytes(local, self.node)
            data = self.author.write(self.node, payload, time.time())
        except Exception as error:  # whatever it is, readings go on
            self.schedule.failed(now)
            self.figures.publish_failures.add()
            self.figures.trouble["publish"] = f"what was learnt cannot be published: {error}"
            log.error("what was learnt cannot be published to the fleet: %s", error)
            return
        self.figures.trouble.pop("publish", None)
        self.schedule.published(model.samples, now)
        if self.is_peer:
            self.roster.take(self.node, data, time.time())
        link.publish([self._message(data)])
        self.figures.published.add()
        log.info("published %d samples to the fleet in %d bytes", model.samples, len(data))

    def _message(self, data: bytes) -> Outgoing:
        return Outgoing(self.topics.snapshot(self.node), data, qos=1, retain=True)

    # --- the model that decides ------------------------------------------------------------------

    def _follow(self, now: float) -> None:
        members = self.roster.members(time.time())
        self.figures.created = {
            member.header.author: member.header.created for member in members.values()
        }
        if not self.is_peer:
            self._believe(members.get(self.node))
            return
        self.fusing.consider(members, now)
        fusion = self.fusing.poll()
        if fusion is not None and self.figures.fused(fusion):
            self._wanted, self._decided = fusion.models.get(self.node), True

    def _believe(self, member: Member | None) -> None:
        """The hub knows best."""
        source = None if member is None else member.header.digest
        if self._decided and source == self._source:
            return
        self._source, self._decided = source, True
        self._wanted = None if member is None else member.snapshot.to_bytes()
        self.figures.fused_at = None if member is None else time.monotonic()

    def _install(self, install: Install) -> None:
        """Have the right model decide, if it does not yet."""
        wanted = None if self._wanted is None else _digest(self._wanted)
        if wanted == self._served:
            return
        try:
            works = install(self._wanted)
        except JournalError as error:
            log.error("%s; the former model goes on deciding until it works", error)
            return
        self._served = wanted  # also if it was refused: it would be again
        self.figures.installed.add()
        self.figures.trouble.pop("model", None)
        if not works:
            self.figures.trouble["model"] = "the model of the fleet cannot decide here, see the log"
            return
        self.deciding.arrived()

    def _note(self, now: float, monitor: Monitor) -> None:
        """Leave behind who decides, what is not published yet, and what there is to wait for."""
        has_model = monitor.serving(GROUP) is not None
        self.deciding.look(monitor.serving_score(GROUP), has_model)
        samples = 0
        if GROUP in monitor.models():
            *_, model = unwrap(monitor.local(GROUP))
            samples = model.samples
        self.figures.unpublished = self.schedule.new(samples)
        wait = self.schedule.wait(samples, now)
        self.figures.due_at = None if wait is None else now + wait
        members = self.figures.created
        self.figures.wait_for(node_waits_for(self.section, self.node, samples, members, has_model))

    # --- keys ------------------------------------------------------------------------------------

    def reread(self) -> tuple[TrustedKeys | None, list[str]]:
        """The trusted keys that the file has now, and what has changed; raises if of no use.

        What was refused for want of a key is retained at the broker, and comes after a connect.
        """
        keys = trusted(self.config, self.author)
        return keys, key_changes(self.roster.trust, keys)


def shared_bytes(model: object, node: str) -> bytes:
    """A model as a fleet sees it: without any reading."""
    return Snapshot.of(model, node, readings=False).to_bytes()


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


__all__ = ["Fleet", "shared_bytes"]
