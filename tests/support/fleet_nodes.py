"""Nodes of a fleet inside this process, and what they have learnt."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry

from streamlvq.config import (
    Broker,
    Config,
    FleetSection,
    IntegratorSection,
    ModelSection,
    ReadingsSection,
    RejectorSection,
    StateSection,
)
from streamlvq.connect import Link, Message
from streamlvq.fleet import Header, PrivateKey, seal
from streamlvq.fleet.hub import HubRole
from streamlvq.fleet.node import FleetNode
from streamlvq.fleet.participant import FleetParticipant
from streamlvq.fleet.pools import served_bytes, shared_bytes
from streamlvq.monitor import Monitor
from streamlvq.payloads import Decoder
from streamlvq.role import Health
from streamlvq.service.daemon import subscriptions
from streamlvq.service.processor import MessageProcessor
from streamlvq.service.session import SessionTracker, make_link
from streamlvq.snapshot import Snapshot
from streamlvq_connectors.memory import MemoryBroker, MemoryLink
from support.fleets import FLEET, node_readings
from support.service_doubles import OneLink

# Of tests about what travels; those in test_fleet_pools.py have the default, serve: both.
SECTION = FleetSection(name=FLEET, trust="everyone", fuse_seconds=0.1, serve="fused")


def config(
    folder: Path | str = "state", name: str = "a", broker: str = "nowhere", **fleet: Any
) -> Config:
    """A node that learns from JSON, with a window and a threshold; it holds nothing back."""
    section = msgspec.structs.replace(
        SECTION, **{"min_samples": 1, "min_new_per_class": 1, **fleet}
    )
    return Config(
        broker=Broker(url=f"memory://{broker}", client_id=name),
        readings=ReadingsSection(
            topic=f"plant/{name}/{{device}}/readings", label="y", time="t", sequence="n"
        ),
        model=ModelSection(type="GLVQ"),
        integrator=IntegratorSection(window=3),
        rejector=RejectorSection(target_rate=0.1),
        state=StateSection(folder=str(folder), sync=False),
        fleet=section,
    )


def learnt(name: str, count: int = 60) -> Snapshot:
    """What a node has learnt alone."""
    processor = MessageProcessor(Decoder(config(name=name)), Monitor(config(name=name)))
    processor.process(node_readings(name, count))
    return Snapshot.from_bytes(shared_bytes(processor.monitor.local(""), name))


def sealed(
    snapshot: Snapshot,
    sequence: int = 1,
    *,
    key: PrivateKey | None = None,
    created: float | None = None,
) -> bytes:
    when = time.time() if created is None else created
    header = Header(FLEET, snapshot.node, "snapshot", 1, sequence, when)
    return seal(snapshot.to_bytes(), header, key)


def announce(tracker: SessionTracker, link: Link, fleet: FleetParticipant) -> None:
    """Publish after a connect what a session would."""
    if (connect := tracker.observe(link)) is not None:
        link.publish(fleet.announcements(connect.is_first or not connect.kept))


class Node:
    """A monitor in a fleet, run by hand on a broker in this process."""

    def __init__(self, config: Config, folder: Path) -> None:
        self.config = config
        self.registry = CollectorRegistry()
        self.fleet = FleetNode(config, folder, self.registry)
        self.processor = MessageProcessor(Decoder(config), Monitor(config))
        self.link = make_link(config, subscriptions(config))
        self.tracker = SessionTracker()
        self.installed: list[bytes | None] = []
        self.fleet.start(OneLink(self.link), self)

    @property
    def monitor(self) -> Monitor:
        return self.processor.monitor

    @property
    def serving(self) -> bytes | None:
        model = self.processor.monitor.serving("")
        return None if model is None else served_bytes(model, self.fleet.name)

    def serve(self, model: bytes | None) -> bool:
        self.installed.append(model)
        return self.processor.serve("", model)

    def learn(self, messages: list[Message]) -> None:
        self.processor.process(messages)

    def turn(self, now: float) -> list[Message]:
        """Once round the loop; what is not the fleet's is given back."""
        others = self.fleet.handle(self.link.read(0.0))
        announce(self.tracker, self.link, self.fleet)
        self.fleet.tend(now)
        return list(others)

    def turns(self, start: float = 100.0) -> None:
        """Until fusing is over."""
        for k in range(60):
            self.turn(start + k)
            time.sleep(0.005)


def memory(name: str) -> MemoryBroker:
    MemoryLink._brokers.pop(name, None)
    return MemoryLink.broker_named(name)


def refusals(node: Any) -> dict[str, float]:
    return dict(node.fleet.metrics.refused)


class ByHand:
    """A hub run by hand."""

    def __init__(self, config: Config, folder: Path) -> None:
        state = msgspec.structs.replace(config.state, folder=str(folder))
        config = msgspec.structs.replace(config, state=state)
        self.registry = CollectorRegistry()
        self.fleet = HubRole(config, Health(config.health), self.registry, lambda: None)
        self.link = make_link(config, self.fleet.subscriptions(config))
        self.tracker = SessionTracker()
        self.fleet.start(OneLink(self.link))

    def turn(self, now: float) -> None:
        self.fleet.handle(self.link.read(0.0))
        announce(self.tracker, self.link, self.fleet)
        self.fleet.tend(now)

    def turns(self, start: float) -> None:
        for k in range(60):
            self.turn(start + k)
            time.sleep(0.005)
