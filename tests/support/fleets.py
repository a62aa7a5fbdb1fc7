"""Fleets of real daemons for tests: nodes whose sensors are off, and what fusing must give them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from streamlvq.config import load
from streamlvq.connect import Message
from streamlvq.fleet import Envelope, parse_envelope
from streamlvq.fleet.pools import served_bytes, shared_bytes
from streamlvq.fusion import fuse
from streamlvq.monitor import Monitor
from streamlvq.payloads import Decoder
from streamlvq.service.processor import MessageProcessor
from streamlvq.snapshot import Snapshot, SnapshotFiles
from support.brokers import BrokerProcess
from support.daemons import CLASSES, Daemon, settings, until

FLEET = "ovens"
ROOT = f"streamlvq/fleet/{FLEET}"
NAMES = ("a", "b", "c")
WITHOUT = {"c": "worn"}  # the class that a node never sees
SHIFT = {"a": 0.0, "b": 2.0, "c": -3.0}
FEATURES = 4
PROMPT = {"publish_pause_seconds": 0.2, "publish_seconds": 3600.0, "fuse_seconds": 0.1}
ALL = {"min_new_per_class": 1}  # publish whatever was learnt, as files do


def node_settings(
    broker: BrokerProcess | None, folder: Path, name: str, /, **sections: Any
) -> dict[str, Any]:
    """The configuration of a node; what it publishes is published once, when all is learnt."""
    fleet = {"name": FLEET, "trust": "everyone", **PROMPT, **ALL, **sections.pop("fleet", {})}
    sections["broker"] = {"client_id": name, **sections.get("broker", {})}
    sections["readings"] = {
        "topic": f"plant/{name}/{{device}}/readings",
        **sections.get("readings", {}),
    }
    sections["decisions"] = {"topic": f"plant/{name}/{{device}}/decision"}
    sections["state"] = {"snapshot_seconds": 0.2, **sections.get("state", {})}
    return settings(broker, folder / name, fleet=fleet, **sections)


def hub_settings(broker: BrokerProcess | None, folder: Path, /, **fleet: Any) -> dict[str, Any]:
    """The configuration of a hub: nothing about readings."""
    whole = settings(broker, folder / "hub", broker={"client_id": "hub"})
    section = {"name": FLEET, "trust": "everyone", "role": "hub", **PROMPT, **fleet}
    return {name: whole[name] for name in ("broker", "state", "health")} | {"fleet": section}


def node_readings(
    name: str, count: int, *, first: int = 0, labelled: bool = True, all_classes: bool = False
) -> list[Message]:
    """Readings of a node whose sensors are off by a constant; most nodes see all classes."""
    without = None if all_classes else WITHOUT.get(name)
    known = [k for k, label in enumerate(CLASSES) if label != without]
    messages = []
    for n in range(first, first + count):
        rng = np.random.default_rng([n, *name.encode()])
        y = known[int(rng.integers(len(known)))]
        x = rng.normal(y * 2.0, 0.7, FEATURES) + SHIFT.get(name, 0.0)
        payload: dict[str, Any] = {f"x{i}": round(float(v), 4) for i, v in enumerate(x)}
        payload |= {"t": 1.7e9 + n / 10, "n": n} | ({"y": CLASSES[y]} if labelled else {})
        topic = f"plant/{name}/d{y}/readings"  # a window holds one class only
        messages.append(Message(topic, json.dumps(payload).encode(), 1.7e9))
    return messages


def truth(name: str, message: Message) -> str:
    """The class that a reading of a node is from, by its mean."""
    payload = json.loads(message.payload)
    mean = np.mean([payload[f"x{i}"] for i in range(FEATURES)]) - SHIFT.get(name, 0.0)
    return CLASSES[int(np.clip(np.rint(mean / 2.0), 0, 2))]


def model_alone(path: Path, messages: list[Message]) -> Any:
    """The model that learns from messages, without any daemon, broker or fleet."""
    config = load(path)
    processor = MessageProcessor(Decoder(config), Monitor(config))
    processor.process(messages)
    return processor.monitor.local("")


def learnt_alone(path: Path, messages: list[Message], node: str) -> Snapshot:
    """What a node has learnt from messages, without any daemon, broker or fleet."""
    return Snapshot.from_bytes(shared_bytes(model_alone(path, messages), node))


def fused_in_memory(snapshots: Iterable[Snapshot]) -> dict[str, bytes]:
    """What each node must decide with, bit for bit."""
    fused = fuse(snapshots)
    return {name: shared_bytes(fused.for_node(name), name) for name in fused.nodes}


def pooled_in_memory(models: Mapping[str, Any]) -> dict[str, bytes]:
    """What each peer must put beside its own model, bit for bit."""
    snapshots = [Snapshot.of(model, name, readings=False) for name, model in models.items()]
    return {name: pooled_for(name, model, snapshots) for name, model in models.items()}


def pooled_for(name: str, model: Any, snapshots: Iterable[Snapshot]) -> bytes:
    """What a peer must put beside its own model in a fleet of these, its own among them."""
    return served_bytes(fuse(snapshots).for_node(name, local=model), name)


def state(daemon: Daemon) -> Monitor | None:
    """The newest state of a daemon on disk, None if there is none."""
    config = load(daemon.path)
    found = SnapshotFiles(config.state.folder).newest(lambda data: Monitor.restore(config, data))
    return None if found is None else found[0]


def serving(daemon: Daemon) -> bytes | None:
    """What a daemon decides with besides its own model, by its newest state; None if nothing."""
    monitor = state(daemon)
    model = None if monitor is None else monitor.serving("")
    return None if model is None else served_bytes(model, daemon.config["broker"]["client_id"])


def wait_until_serving(daemons: Mapping[str, Daemon], expected: Mapping[str, bytes]) -> None:
    for name, daemon in daemons.items():
        until(
            lambda d=daemon, n=name: serving(d) == expected[n],
            120,  # seconds: pools are judged in a thread that gets what others leave
            f"{name} decides with {digest(expected[name])}, not {digest(serving(daemon))}",
        )


def digest(data: bytes | None) -> str:
    return "nothing" if data is None else hashlib.sha256(data).hexdigest()[:8]


def retained(got: Iterable[tuple[str, bytes]], kind: str = "nodes") -> dict[str, Envelope]:
    """The newest envelope on each topic of the fleet."""
    start = f"{ROOT}/{kind}/"
    last = {topic.removeprefix(start): data for topic, data in got if topic.startswith(start)}
    return {node: parse_envelope(data, limit=2**24) for node, data in last.items() if data}
