"""A node of a fleet on a real broker that others abuse, or that others leave."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamlvq.cli import main
from streamlvq.fleet import Header, PrivateKey, TrustedKeys, seal
from streamlvq.fleet.pools import shared_bytes
from streamlvq.snapshot import Snapshot, decode, encode
from support.brokers import Mosquitto, find_mosquitto
from support.daemons import Client, Daemon, until
from support.fleets import (
    FLEET,
    ROOT,
    hub_settings,
    learnt_alone,
    model_alone,
    node_readings,
    node_settings,
    pooled_for,
    retained,
    serving,
    state,
)

pytestmark = pytest.mark.skipif(find_mosquitto() is None, reason="needs Mosquitto")

COUNT = 100
ONCE = {"min_samples": COUNT, "publish_after": 10**6}


class Other:
    """A node that the test plays itself."""

    def __init__(self, name: str, snapshot: Snapshot, key: PrivateKey | None = None) -> None:
        self.name, self.snapshot, self.key = name, snapshot, key
        self.sequence = 0

    def envelope(
        self, payload: bytes | None = None, key: PrivateKey | None = None, **header: Any
    ) -> bytes:
        """What it would publish next, with lies where they are given."""
        self.sequence += 1
        values = {"sequence": self.sequence, "created": time.time(), **header}
        written = Header(FLEET, self.name, "snapshot", 1, **values)
        content = self.snapshot.to_bytes() if payload is None else payload
        return seal(content, written, self.key if key is None else key)


def put(client: Client, topic: str, data: bytes) -> None:
    client._client.publish(f"{ROOT}/{topic}", data, 1, True).wait_for_publish(20)


def refused(daemon: Daemon) -> dict[str, float]:
    start, end = 'streamlvq_fleet_refused_total{reason="', '"}'
    return {
        name.removeprefix(start).removesuffix(end): value
        for name, value in daemon.metrics().items()
        if name.startswith(start)
    }


def full_of_nan(snapshot: Snapshot) -> bytes:
    arrays, metadata = decode(snapshot.to_bytes())
    spoilt = {
        name: np.full_like(array, np.nan) if array.dtype.kind == "f" else array
        for name, array in arrays.items()
    }
    return encode(spoilt, metadata)


def test_abuse_is_refused_and_counted_while_readings_go_on(tmp_path: Path) -> None:
    keys = {name: PrivateKey.new() for name in ("a", "b", "x")}
    keys["a"].save(tmp_path / "a.key")
    trust = TrustedKeys({name: keys[name].public for name in "ab"}, tmp_path / "trust")
    trust.save()
    fleet = {
        **ONCE,
        "trust": str(tmp_path / "trust"),
        "key_file": str(tmp_path / "a.key"),
        "max_snapshot_bytes": 400_000,
    }
    with (
        Mosquitto() as broker,
        Client(broker, f"{ROOT}/#", "plant/+/+/decision", "streamlvq/a/#") as client,
        Daemon(tmp_path, node_settings(broker, tmp_path, "a", fleet=fleet)) as daemon,
    ):
        model = model_alone(daemon.path, node_readings("a", COUNT))
        own = Snapshot.of(model, "a", readings=False)
        # The same knowledge will do.
        b = Other("b", Snapshot.from_bytes(shared_bytes(own.classifier(), "b")), keys["b"])
        genuine = b.envelope()
        put(client, "nodes/b", genuine)
        client.send(node_readings("a", COUNT))
        expected = pooled_for("a", model, [own, b.snapshot])
        until(lambda: serving(daemon) == expected, 120, "pooled")
        published = retained(client.got)["a"]
        published.check(trust)  # signed with its own key

        latest = b.envelope()
        put(client, "nodes/b", latest)
        until(lambda: daemon.metrics()['streamlvq_fleet_messages_total{status="new"}'] == 2)
        stranger = Other("x", Snapshot.from_bytes(shared_bytes(own.classifier(), "x")), keys["x"])
        abuse = {
            "signature": [("nodes/b", b.envelope(key=keys["x"]))],  # forged
            "replayed": [("nodes/b", genuine)],
            "oversized": [("nodes/b", bytes(400_001)), ("nodes/c", bytes(420_000))],
            "truncated": [("nodes/b", b.envelope()[:-7])],
            "malformed": [("nodes/b", b"{}"), ("nodes/c", b"rubbish" * 50_000)],
            "values": [("nodes/b", b.envelope(full_of_nan(b.snapshot)))],
            "unknown_key": [("nodes/x", stranger.envelope())],
            "node": [("nodes/y", b.envelope())],
            "future": [("nodes/b", b.envelope(created=time.time() + 1e5))],
        }
        unsigned = Other("b", b.snapshot)
        unsigned.sequence = 1000
        abuse["unsigned"] = [("nodes/b", unsigned.envelope())]
        put(client, "nodes/c", bytes(900_000))  # so much that the broker does not even deliver it
        client.got.clear()
        more = iter(node_readings("a", 100, first=1000, labelled=False))
        for attempts in abuse.values():
            for topic, data in attempts:
                put(client, topic, data)
                client.send([next(more)])
        expected_counts = {reason: len(attempts) for reason, attempts in abuse.items()}
        until(lambda: refused(daemon) == expected_counts, what=f"{refused(daemon)}")
        until(lambda: len(client.decisions()) == sum(expected_counts.values()), what="decisions")
        for reason in abuse:
            assert f"({reason}): " in daemon.log

        # They changed nothing, and are neither in the journal nor among the dead letters.
        assert client.on("/dead") == []
        assert daemon.metrics()["streamlvq_fleet_fusions_total"] == 1
        assert refused_of_readings(daemon) == 0
        assert not any(
            b"rubbish" in path.read_bytes()
            for path in Path(daemon.config["state"]["folder"]).glob("journal-*")
        )

        # What needs a restart is refused; a key that is trusted from now on is not.
        changed = {**daemon.config, "fleet": {**daemon.config["fleet"], "drift": "none"}}
        before = daemon.config
        daemon.write(changed)
        daemon.reload()
        until(lambda: "fleet.drift can only change with a restart" in daemon.log)
        daemon.write(before)
        trust.add("x", keys["x"].public)
        trust.save()
        daemon.reload()
        until(lambda: "configuration read again: 1 new key: x" in daemon.log)
        three = pooled_for("a", model, [own, b.snapshot, stranger.snapshot])
        until(lambda: serving(daemon) == three, 120, "pooled with what was refused before")
        assert "'ovens': peer 'a', believes 2 trusted keys, its own among them" in daemon.log
        daemon.reload()
        until(lambda: "read again: nothing has changed" in daemon.log)


def refused_of_readings(daemon: Daemon) -> float:
    start = "streamlvq_refused_total"
    return sum(value for name, value in daemon.metrics().items() if name.startswith(start))


def test_who_is_silent_or_leaves_is_left_out(tmp_path: Path) -> None:
    fleet = {**ONCE, "max_age_seconds": 20.0, "publish_seconds": 2.0}
    with (
        Mosquitto() as broker,
        Client(broker, "streamlvq/a/status") as client,
        Daemon(tmp_path, node_settings(broker, tmp_path, "a", fleet=fleet)) as daemon,
    ):
        model = model_alone(daemon.path, node_readings("a", COUNT))
        own = Snapshot.of(model, "a", readings=False)
        others = {
            name: Other(name, learnt_alone(daemon.path, as_if_of_a(name), name)) for name in "bc"
        }
        put(client, "nodes/b", others["b"].envelope())
        put(client, "nodes/c", others["c"].envelope(created=time.time() + 60))
        client.send(node_readings("a", COUNT))
        everyone = [own, *(each.snapshot for each in others.values())]
        all_three = pooled_for("a", model, everyone)
        until(lambda: serving(daemon) == all_three, 120, "all three")
        metrics = daemon.metrics()
        assert metrics["streamlvq_fleet_members"] == 3
        assert metrics['streamlvq_fleet_member_age_seconds{node="b"}'] < 21
        assert metrics["streamlvq_fleet_serving_fused"] == 1

        # b falls silent; c and the daemon itself are still there, with nothing new to say.
        pair = pooled_for("a", model, [own, others["c"].snapshot])
        until(lambda: serving(daemon) == pair, 120, "without b")
        put(client, "nodes/c", b"")
        until(lambda: serving(daemon) is None and installed(daemon) >= 3, what="alone")
        assert "'c' left the fleet" in daemon.log
        assert daemon.metrics()["streamlvq_fleet_members"] == 1
        put(client, "nodes/b", others["b"].envelope())
        back = pooled_for("a", model, [own, others["b"].snapshot])
        until(lambda: serving(daemon) == back, 120, "b is back")

        # Without a fleet, what it said before does not matter any more.
        assert daemon.stop() == 0
        [*_, last] = client.on("/status")
        assert last["fleet"]["members"].keys() == {"a", "b"}
        assert last["fleet"]["serving"] == "pool"
        assert last["fleet"]["pool"]["weights"].keys() >= {"local", "unseen"}
        daemon.write({k: v for k, v in daemon.config.items() if k != "fleet"})
        daemon.start()
        until(lambda: "our own model decides" in daemon.log)
        assert daemon.stop() == 0
        monitor = state(daemon)
        assert monitor is not None
        assert monitor.serving("") is None
        assert shared_bytes(monitor.local(""), "a") == own.to_bytes()


def as_if_of_a(name: str) -> list[Any]:
    """Readings of another node, on topics that the configuration of a knows."""
    return [
        message._replace(topic=message.topic.replace(f"/{name}/", "/a/"))
        for message in node_readings(name, COUNT)
    ]


def installed(daemon: Daemon) -> float:
    return daemon.metrics()["streamlvq_fleet_installed_total"]


def test_the_command_shows_a_fleet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with (
        Mosquitto() as broker,
        Client(broker, f"{ROOT}/models/#") as client,
        Daemon(tmp_path, hub_settings(broker, tmp_path)) as hub,
    ):
        node = tmp_path / "node.yaml"
        node.write_text(json.dumps(node_settings(broker, tmp_path, "a")))
        for name in ("a", "c"):
            snapshot = learnt_alone(node, as_if_of_a(name), name)
            put(client, f"nodes/{name}", Other(name, snapshot).envelope())
        until(lambda: len(retained(client.got, "models")) == 2, what="models")
        put(client, "nodes/z", b"rubbish")
        assert main(["fleet", "status", str(hub.path)]) == 0
        text = capsys.readouterr().out
        rows = {line.split()[0]: line for line in text.splitlines() if line}
        assert "(+ worn)" in rows["c"]
        assert rows["a"].endswith("by hub")
        assert "nodes/z (malformed)" in rows["refused"]
        assert rows["correction"]

        assert main(["fleet", "status", str(node), "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert [each["node"] for each in found["nodes"]] == ["a", "c"]
        assert [each["samples"] for each in found["nodes"]] == [COUNT, COUNT]
        assert found["nodes"][1]["gained"] == ["worn"]
        assert [each["reason"] for each in found["refused"]] == ["malformed"]

        # A hub has no readings to show, and changes hardly anything while it runs.
        assert main(["run", str(hub.path), "--test"]) == 2
        assert "a hub has no readings" in capsys.readouterr().err
        hub.write({**hub.config, "fleet": {**hub.config["fleet"], "aggregator": "median"}})
        hub.reload()
        until(lambda: "fleet.aggregator can only change with a restart" in hub.log)
        assert hub.health() == (200, [])
        assert hub.stop() == 0

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        (tmp_path / "alone.yaml").write_text("{}")
        assert main(["fleet", "status", "alone.yaml"]) == 2
    assert "expected a configuration with a section 'fleet:'" in capsys.readouterr().err


def test_a_hub_hears_again_what_it_had_no_key_for(tmp_path: Path) -> None:
    keys = {name: PrivateKey.new() for name in ("a", "b", "hub")}
    keys["hub"].save(tmp_path / "hub.key")
    trust = TrustedKeys({name: keys[name].public for name in ("a", "hub")}, tmp_path / "trust")
    trust.save()
    files = {"trust": str(tmp_path / "trust"), "key_file": str(tmp_path / "hub.key")}
    with (
        Mosquitto() as broker,
        Client(broker, f"{ROOT}/models/#", "streamlvq/hub/status") as client,
        Daemon(tmp_path, hub_settings(broker, tmp_path, **files)) as hub,
    ):
        node = tmp_path / "node.yaml"
        node.write_text(json.dumps(node_settings(broker, tmp_path, "a")))
        for name in ("a", "b"):
            snapshot = learnt_alone(node, as_if_of_a(name), name)
            put(client, f"nodes/{name}", Other(name, snapshot, keys[name]).envelope())
        until(lambda: refused(hub) == {"unknown_key": 1}, what="refused")
        assert "'ovens': hub 'hub', believes 2 trusted keys" in hub.log
        until(lambda: "waiting in the fleet for nodes: 1 of at least 2" in hub.log)
        since = client.on("/status")[-1]["since"]
        trust.add("b", keys["b"].public)
        trust.save()
        hub.reload()
        until(lambda: "configuration read again: 1 new key: b" in hub.log)
        until(lambda: retained(client.got, "models").keys() == {"a", "b"}, what="models")
        until(lambda: "waiting" not in client.on("/status")[-1]["fleet"], what="a status at once")
        assert client.on("/status")[-1]["since"] == since
        assert hub.health() == (200, [])
