"""A fleet over a real broker: nodes learn in one pass, share models, decide together.

    python benchmarks/fleet.py                           # 20 daemons, 10 000 readings each: minutes
    python benchmarks/fleet.py --nodes 4 --readings 1000
    python benchmarks/fleet.py --role hub --shift 1

Every node is a daemon of its own that gets JSON readings of 64 features with labels, publishes its
signed snapshot once, and answers test readings with the fused model. Prints the accuracy of every
node's decisions next to that of one model that saw the readings of all of them, and the bytes that
nodes sent to the fleet next to those of their readings.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import numpy as np

from common import Figure, Table, figure_table, progress, show
from daemon import greet, packet
from fusion_fleets import Floats, Node, accuracy
from fusion_stream import (
    FEATURES,
    FEWER,
    MODELS,
    MOST_LOST,
    NODES,
    NUMBER,
    READINGS,
    interleaved,
    one_pass,
    streams,
)
from streamlvq.fleet import PrivateKey, TrustedKeys
from support.brokers import Mosquitto
from support.daemons import Client, Daemon, until

FLEET = "benchmark"
WINDOW = 200  # messages that the broker has not confirmed yet
BLOCK = 250  # readings of a node before it is the next one's turn
HUB = "hub"
PATIENCE = 600.0  # seconds; the machine may be busy


# --- who is who -----------------------------------------------------------------------------------


def keys(names: Iterable[str], folder: Path) -> Path:
    """Write a private key for each node, and the file of trusted keys."""
    path = folder / "trusted"
    trusted = TrustedKeys(path=path)
    for name in names:
        key = PrivateKey.new()
        key.save(folder / f"{name}.key")
        trusted.add(name, key.public)
    trusted.save()
    return path


def configuration(
    broker: Mosquitto, folder: Path, name: str, role: str, model: str, readings: int
) -> dict[str, Any]:
    """Return the configuration of a node or the hub; a node publishes once, at the end."""
    config: dict[str, Any] = {
        "broker": {"url": broker.url, "client_id": name, "protocol": "5"},
        "state": {"folder": str(folder / name / "state"), "snapshot_seconds": 60},
        "health": {"port": 0},
        "fleet": {
            "name": FLEET,
            "role": role,
            "trust": str(folder / "trusted"),
            "key_file": str(folder / f"{name}.key"),
            "fuse_seconds": 1.0,
        },
    }
    if role == "hub":
        return config
    config["fleet"] |= {
        "min_samples": readings,
        "publish_after": readings,
        "publish_pause_seconds": 0.5,
    } | ({"hub": HUB} if role == "member" else {})
    return config | {
        "readings": {"topic": f"plant/{name}/readings/{{device}}", "label": "y"},
        "model": {"type": model, "parameters": MODELS[model]},
        "decisions": {"topic": f"plant/{name}/decisions/{{device}}"},
    }


# --- readings -------------------------------------------------------------------------------------


def payload(row: Floats, label: Any = None) -> bytes:
    """Encode a reading as a gateway would: six digits for each value."""
    reading: dict[str, Any] = {f"s{i:02}": float(f"{v:.6g}") for i, v in enumerate(row.tolist())}
    if label is not None:
        reading["y"] = f"class {label}"
    return json.dumps(reading, separators=(",", ":")).encode()


class Gateway:
    """Publisher of QoS 1 readings at the pace of the broker, which counts bytes."""

    def __init__(self, broker: Mosquitto) -> None:
        self.socket = greet(broker.port)
        self.sent = self.confirmed = self.bytes = 0

    def send(self, name: str, payloads: Iterable[bytes]) -> None:
        topic = f"plant/{name}/readings/line".encode()
        for data in payloads:
            self.socket.sendall(packet(topic, data, 1, self.sent))
            self.sent += 1
            self.bytes += len(data)
            while self.sent - self.confirmed > WINDOW:
                self._hear()

    def finish(self) -> None:
        while self.confirmed < self.sent:
            self._hear()

    def _hear(self) -> None:
        self.confirmed += len(self.socket.recv(4096)) / 4


def teach(gateway: Gateway, nodes: list[Node]) -> None:
    """Publish all readings in turns, so that nodes learn at the same time."""
    starts = range(0, len(nodes[0].y), BLOCK)
    for start in progress(starts, "readings", len(starts)):
        for node in nodes:
            some = slice(start, start + BLOCK)
            pairs = zip(node.X[some], node.y[some], strict=True)
            gateway.send(node.name, (payload(row, label) for row, label in pairs))
    gateway.finish()


# --- what happens ---------------------------------------------------------------------------------


def all_together(daemons: dict[str, Daemon], count: int, role: str) -> bool:
    """Return True if every node decides with a model of the whole fleet."""
    found = {name: daemon.metrics() for name, daemon in daemons.items()}
    who_fuses = found.values() if role == "peer" else [found[HUB]]
    if any(each["streamlvq_fleet_members"] < count for each in who_fuses):
        return False
    return all(each["streamlvq_fleet_serving_fused"] for name, each in found.items() if name != HUB)


def settled(daemons: dict[str, Daemon], count: int, role: str) -> None:
    """Wait until nothing is fused or installed any more."""
    until(lambda: all_together(daemons, count, role), PATIENCE, "all nodes in the fleet")
    before: list[float] = []
    while True:
        now = [
            sum(v for k, v in d.metrics().items() if k.startswith(COUNTED))
            for d in daemons.values()
        ]
        if now == before:
            return
        before = now
        time.sleep(3.0)


COUNTED = ("streamlvq_fleet_fusions_total", "streamlvq_fleet_installed_total")


def decided(client: Client, gateway: Gateway, nodes: list[Node], tests: int) -> Floats:
    """Return the accuracy of every node on test readings without labels."""
    client.got.clear()
    for node in nodes:
        gateway.send(node.name, map(payload, node.test_X[:tests]))
    gateway.finish()
    until(lambda: len(client.got) >= tests * len(nodes), PATIENCE, "all decisions")
    found = []
    for node in nodes:
        topic = f"plant/{node.name}/decisions/line"
        labels = [json.loads(data)["label"] for where, data in client.got if where == topic]
        truth = [f"class {label}" for label in node.test_y[:tests]]
        found.append(np.mean(np.array(labels) == np.array(truth)))
    return np.array(found)


def run(nodes: list[Node], role: str, model: str, tests: int, folder: Path) -> dict[str, Any]:
    """Return accuracies by node, and bytes."""
    names, readings = [node.name for node in nodes], len(nodes[0].y)
    roles = dict.fromkeys(names, "member" if role == "hub" else "peer")
    if role == "hub":
        roles[HUB] = "hub"
    keys(roles, folder)
    with ExitStack() as stack:
        broker = stack.enter_context(Mosquitto())
        fleet = stack.enter_context(Client(broker, f"streamlvq/fleet/{FLEET}/#"))
        client = stack.enter_context(Client(broker, "plant/+/decisions/+"))
        daemons = {}
        for name, part in progress(roles.items(), "daemons", len(roles)):
            config = configuration(broker, folder, name, part, model, readings)
            daemons[name] = stack.enter_context(Daemon(folder / name, config).start(PATIENCE))
        gateway = Gateway(broker)
        teach(gateway, nodes)
        raw = gateway.bytes
        settled(daemons, len(nodes), role)
        published = {topic: len(data) for topic, data in fleet.got if "/nodes/" in topic}
        messages = sum("/nodes/" in topic for topic, _ in fleet.got)
        right = decided(client, gateway, nodes, tests)
        for daemon in daemons.values():
            assert daemon.stop() == 0, daemon.log
    assert messages == len(nodes), f"expected one publication of each node, got {messages}"
    return {"fused": right, "raw": raw, "shared": sum(published.values())}


def study(nodes: list[Node], role: str, model: str, tests: int) -> Iterable[Table]:
    with tempfile.TemporaryDirectory() as folder:
        found = run(nodes, role, model, tests, Path(folder))
    central = one_pass(model, *interleaved(nodes))
    alone = [one_pass(model, node.X, node.y) for node in nodes]
    title = f"{len(nodes)} daemons ({role}), {model}, {len(nodes[0].y)} readings each"
    table = Table(f"{title}: accuracy", ["node", "by itself", "one model of all", "decisions"])
    lost = []
    for node, own, fused in zip(nodes, alone, found["fused"], strict=True):
        X, y = node.test_X[:tests], node.test_y[:tests]
        whole = accuracy(central, X, y)
        lost.append(whole - fused)
        table.add(node.name, f"{accuracy(own, X, y):.3f}", f"{whole:.3f}", f"{fused:.3f}")
    yield table
    bare = sum(node.X.size for node in nodes) * NUMBER
    yield figure_table(
        [
            Figure("lost by any node against one model of all", float(max(lost)), MOST_LOST),
            Figure("bytes of readings (JSON) over those shared", found["raw"] / found["shared"],
                   FEWER, at_least=True, unit="x"),
            Figure("bytes of bare float64 over those shared", bare / found["shared"],
                   FEWER, at_least=True, unit="x"),
        ]
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--readings", type=int, default=READINGS, help="of each node")
    parser.add_argument("--tests", type=int, default=500, help="readings of each node")
    parser.add_argument("--role", choices=["peer", "hub"], default="peer")
    parser.add_argument("--model", choices=list(MODELS), default="GMLVQ")
    parser.add_argument("--shift", type=float, default=0.0, help="between sensors, in deviations")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    nodes = streams(options.nodes, options.readings, options.seed, options.shift, options.tests)
    assert nodes[0].X.shape[1] == FEATURES
    show(study(nodes, options.role, options.model, options.tests), options.markdown)


if __name__ == "__main__":
    main()
