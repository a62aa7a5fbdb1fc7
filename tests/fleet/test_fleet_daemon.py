"""Fleets over a real broker: the same bits whatever happens on the way."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from streamlvq.config import load
from streamlvq.fleet import Member, parse_envelope
from streamlvq.fleet.adoption import adopt
from streamlvq.fleet.fusion_worker import fuse_members
from streamlvq.fleet.pools import OwnModel, served_bytes, shared_bytes
from streamlvq.fusion import fuse
from streamlvq.snapshot import Snapshot
from streamlvq.wrappers.base import unwrap
from support.brokers import BrokerProcess, broker  # noqa: F401
from support.daemons import Client, Daemon, until
from support.fleet_nodes import sealed
from support.fleets import (
    NAMES,
    ROOT,
    hub_settings,
    learnt_alone,
    model_alone,
    node_readings,
    node_settings,
    pooled_in_memory,
    retained,
    serving,
    state,
    truth,
    wait_until_serving,
)

COUNT = 120  # readings of each node


# With trees and bins, which stay at home; it decides with the RelSim of its learner.
COMMITTEE = {"model": {"type": "LVQCommittee"}}


def nodes(
    running: BrokerProcess, folder: Path, sections: dict[str, Any] | None = None, **fleet: object
) -> dict[str, Daemon]:
    """Daemons that publish once they have learnt all readings, started at the same time."""
    wanted = {"fleet": {"min_samples": COUNT, "publish_after": 10**6, **fleet}, **(sections or {})}
    daemons = {
        name: Daemon(folder / name, node_settings(running, folder, name, **wanted))
        for name in NAMES
    }
    start(daemons)
    return daemons


def start(daemons: dict[str, Daemon]) -> None:
    for daemon in daemons.values():
        daemon.launch()
    for daemon in daemons.values():
        until(lambda d=daemon: "READY=1" in d.heard or d.ended(), 120, "ready")
        assert not daemon.ended(), daemon.log


def end(daemons: dict[str, Daemon]) -> None:
    for daemon in daemons.values():
        daemon.__exit__()


def by_themselves(daemons: dict[str, Daemon]) -> dict[str, Snapshot]:
    return {
        name: learnt_alone(daemon.path, node_readings(name, COUNT), name)
        for name, daemon in daemons.items()
    }


def own_models(daemons: dict[str, Daemon]) -> dict[str, Any]:
    return {
        name: model_alone(daemon.path, node_readings(name, COUNT))
        for name, daemon in daemons.items()
    }


def through_files(models: dict[str, Any], folder: Path) -> dict[str, bytes]:
    """What each node decides with besides its own model, by way of files."""
    for name, model in models.items():
        Snapshot.of(model, name, readings=False).save(folder / f"{name}.slvq")
    fused = fuse(Snapshot.load(folder / f"{name}.slvq") for name in sorted(models)[::-1])
    for name, model in models.items():
        Snapshot.of(fused.for_node(name, local=model), name).save(folder / f"for-{name}.slvq")
    return {
        name: served_bytes(Snapshot.load(folder / f"for-{name}.slvq").classifier(), name)
        for name in models
    }


@pytest.mark.parametrize("sections", [{}, COMMITTEE], ids=["one model", "committee"])
def test_peers_pool_the_same_bits_as_memory_and_files(
    sections: dict[str, Any],
    tmp_path: Path,
    broker: BrokerProcess,  # noqa: F811
) -> None:
    order = random.sample(NAMES, len(NAMES))  # any
    with Client(broker, f"{ROOT}/#", "plant/+/+/decision") as client:
        daemons = nodes(broker, tmp_path, sections)
        try:
            alone, models = by_themselves(daemons), own_models(daemons)
            expected = pooled_in_memory({name: models[name] for name in order})
            assert through_files(models, tmp_path) == expected

            for name in order:
                client.send(node_readings(name, COUNT))
            wait_until_serving(daemons, expected)
            published = retained(client.got)
            assert {n: s.payload for n, s in published.items()} == {
                n: s.to_bytes() for n, s in alone.items()
            }

            # Every party goes, each in its own way, and comes back.
            daemons["a"].kill()
            daemons["b"].stop()
            broker.restart()
            daemons["c"].kill()
            start(daemons)
            until(lambda: all(d.health()[0] == 200 for d in daemons.values()), what="health")
            until(lambda: all(fusions(d) == 1 for d in daemons.values()), what="fused again")
            wait_until_serving(daemons, expected)
            assert not any(installed(d) for d in daemons.values())  # the same, to the last bit

            # The node that never saw a class knows it now, and its local learner does not.
            more = node_readings("c", 60, first=5000, labelled=False, all_classes=True)
            client.got.clear()
            client.send(more)
            until(lambda: len(client.decisions()) == len(more), what="decisions")
            right = [
                decision["label"] == truth("c", message)
                for decision, message in zip(client.decisions(), more, strict=True)
            ]
            assert sum(right) >= 0.8 * len(right)
            assert any(decision["label"] == "worn" for decision in client.decisions())
            for name, daemon in daemons.items():
                assert daemon.stop() == 0, daemon.log
                monitor = state(daemon)
                assert monitor is not None
                assert shared_bytes(monitor.local(""), name) == alone[name].to_bytes()
        finally:
            end(daemons)


def fusions(daemon: Daemon) -> float:
    return daemon.metrics()["streamlvq_fleet_fusions_total"]


def test_a_hub_gives_the_same_bits_even_if_it_is_killed(
    tmp_path: Path,
    broker: BrokerProcess,  # noqa: F811
) -> None:
    with Client(broker, f"{ROOT}/#") as client:
        hub = Daemon(tmp_path / "hub", hub_settings(broker, tmp_path))
        hub.launch()
        daemons = nodes(broker, tmp_path, role="member", hub="hub")
        everyone = {**daemons, "hub": hub}
        try:
            alone, models = by_themselves(daemons), own_models(daemons)
            given_two = from_the_hub(hub, {name: alone[name] for name in "cb"})
            two = adopted(daemons, models, given_two)
            given = from_the_hub(hub, alone)
            expected = adopted(daemons, models, given)

            client.send(node_readings("c", COUNT))
            client.send(node_readings("b", COUNT))
            wait_until_serving({n: daemons[n] for n in "bc"}, two)
            hub.kill()
            client.send(node_readings("a", COUNT))
            until(lambda: "a" in retained(client.got), what="a has published")
            assert serving(daemons["a"]) is None
            hub.start()
            wait_until_serving(daemons, expected)
            sent = retained(client.got, "models")
            assert {n: s.payload for n, s in sent.items()} == given
            assert {s.header.author for s in sent.values()} == {"hub"}

            # Once more, with nothing new: nobody is told anything that he does not know.
            hub.kill()
            daemons["b"].kill()
            hub.start()
            daemons["b"].start()
            until(lambda: fusions(hub) == 1, what="fused again")
            until(lambda: hub.health()[0] == 200, what="health")
            assert {n: s.header for n, s in retained(client.got, "models").items()} == {
                n: s.header for n, s in sent.items()
            }
            assert installed(daemons["b"]) == 0
            assert hub.stop() == 0, hub.log
        finally:
            end(everyone)


def from_the_hub(hub: Daemon, snapshots: dict[str, Snapshot]) -> dict[str, bytes]:
    """The pools that a hub makes of these, fused in this process."""
    section = load(hub.path).fleet
    assert section is not None
    members = {}
    for name, snapshot in snapshots.items():
        envelope = parse_envelope(sealed(snapshot), limit=10**7)
        members[name] = Member(name, snapshot, envelope.header, envelope.digest)
    return fuse_members(section, members, lambda node: True).models


def adopted(
    daemons: dict[str, Daemon], models: dict[str, Any], given: dict[str, bytes]
) -> dict[str, bytes]:
    """What members make of what a hub gave them."""
    found = {}
    for name, data in given.items():
        section = load(daemons[name].path).fleet
        assert section is not None
        *_, model = unwrap(models[name])
        own = OwnModel(name, model.state())
        found[name], _ = adopt(section, Snapshot.from_bytes(data), own)
    return found


def installed(daemon: Daemon) -> float:
    return daemon.metrics()["streamlvq_fleet_installed_total"]
