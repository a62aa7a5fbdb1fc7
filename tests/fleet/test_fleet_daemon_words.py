"""What a node of a fleet says of itself: who decides, what it waits for, whose keys it believes."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from streamlvq.fleet import PrivateKey, TrustedKeys
from streamlvq.fleet.checks import TrustError, introduction, key_changes, load_trusted_keys
from streamlvq.fleet.metrics import FleetMetrics
from streamlvq.fleet.node import ServingReporter
from streamlvq.fleet.publication import EnvelopeWriter, Schedule
from streamlvq.role import Health, RoleStatus
from streamlvq.service.metrics import ServiceMetrics
from streamlvq.service.session import BrokerSession
from support.fleet_nodes import (
    SECTION,
    ByHand,
    Node,
    config,
    learnt,
    memory,
    refusals,
    sealed,
)
from support.fleets import ROOT, node_readings
from support.service_doubles import Silent


@pytest.fixture(autouse=True)
def everything_is_heard(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "streamlvq")


def said(caplog: pytest.LogCaptureFixture, *, start: str = "") -> list[str]:
    return [
        record.getMessage()
        for record in caplog.records
        if record.levelno <= logging.INFO and record.getMessage().startswith(start)
    ]


# --- who decides ---------------------------------------------------------------------------------


def standing(decides: str, local: float | None, fused: float | None, labels: int) -> dict[str, Any]:
    return {"decides": decides, "local": local, "fused": fused, "labels": labels}


def test_who_decides_is_said_when_it_changes_and_only_then(
    caplog: pytest.LogCaptureFixture,
) -> None:
    metrics = FleetMetrics(CollectorRegistry(), "ovens", "a", "peer")
    reporter = ServingReporter(metrics, "both")
    reporter.start(standing("local", None, None, 0))
    reporter.report(standing("local", None, None, 0), has_model=False)
    assert (said(caplog), metrics.take_news()) == ([], False)
    reporter.model_changed()
    reporter.report(standing("pool", None, None, 0), has_model=True)
    assert (metrics.take_news(), metrics.take_news()) == (True, False)
    for k in range(20):
        reporter.report(standing("pool", 0.9, 0.9, k), has_model=True)
    reporter.report(standing("pool", 0.969, 0.961, 400), has_model=True)
    assert (metrics.serving, metrics.serving_score["labels"]) == ("pool", 400)
    reporter.model_changed()
    reporter.report(standing("pool", None, None, 0), has_model=True)
    reporter.model_changed()
    reporter.report(standing("fused", None, None, 0), has_model=True)
    reporter.model_changed()
    reporter.report(standing("local", None, None, 0), has_model=False)
    assert said(caplog) == [
        "our own model and those of the fleet decide from now on",
        "our own model and those of the fleet go on deciding, with new models of the fleet",
        "the fleet's model decides from now on",
        "our own model decides from now on",
    ]


def test_the_fleet_is_not_said_to_decide_where_it_may_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broker = memory("watched")
    node = Node(config(broker="watched", serve="local"), tmp_path)
    node.link.read(0.0)
    node.learn(node_readings("a", 60))
    broker.publish(f"{ROOT}/nodes/b", sealed(learnt("b")))
    node.turns()
    assert node.serving is not None
    assert said(caplog, start="the fleet has") == [
        "the fleet has a new model for us; our own decides (fleet.serve: local)"
    ]
    assert "from now on" not in caplog.text
    assert node.fleet.metrics.serving == "local"


# --- what it waits for ---------------------------------------------------------------------------


def test_a_peer_says_once_what_it_waits_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broker = memory("waits")
    node = Node(config(broker="waits", min_samples=50), tmp_path)
    for k in range(5):
        node.turn(100.0 + k)
    record = node.fleet.metrics.record()
    assert str(record.waiting).startswith("labelled readings: nothing is published before 50")
    assert (record.unpublished, record.next_publication) == (0, None)
    node.learn(node_readings("a", 60))
    for k in range(5):
        node.turn(200.0 + k)
    assert str(node.fleet.metrics.record().waiting).startswith("other nodes: none")
    broker.publish(f"{ROOT}/nodes/b", sealed(learnt("b")))
    node.turns(300.0)
    assert node.fleet.metrics.record().waiting is None
    assert said(caplog, start="waiting in the fleet for") == [
        "waiting in the fleet for labelled readings: nothing is published before 50 are learnt "
        "(fleet.min_samples)",
        "waiting in the fleet for other nodes: none of them has published anything that we believe",
    ]


def test_a_member_waits_for_its_hub_and_a_hub_for_nodes(tmp_path: Path) -> None:
    memory("both")
    node = Node(config(broker="both", role="member", hub="site"), tmp_path / "a")
    hub = ByHand(config(broker="both", name="site", role="hub"), tmp_path / "hub")
    node.learn(node_readings("a", 60))
    hub.turns(100.0)
    assert hub.fleet.metrics.record().waiting == (
        "nodes: none of at least 2 has published something that we believe"
    )
    node.turn(100.0)
    assert node.fleet.metrics.record().waiting == "a model from the hub 'site'"
    hub.turns(200.0)
    assert str(hub.fleet.metrics.record().waiting).startswith("nodes: 1 of at least 2 has")


def test_what_is_not_published_yet_is_said(tmp_path: Path) -> None:
    memory("unpublished")
    node = Node(config(broker="unpublished"), tmp_path)
    node.learn(node_readings("a", 60))
    begin = time.monotonic()
    node.turn(begin)
    node.learn(node_readings("a", 7, first=60))
    node.turn(begin + 1.0)
    record = node.fleet.metrics.record()
    assert record.unpublished == 7
    assert record.next_publication == pytest.approx(300.0, abs=2.0)


def test_waiting_ends_just_when_it_is_due() -> None:
    schedule = Schedule(SECTION)
    assert schedule.wait(19, 0.0) is None
    assert schedule.wait(20, 0.0) == 0.0
    schedule.published(20, 1000.0)
    for samples, seconds in ((20, 151_200.0), (21, 300.0), (219, 300.0), (220, 10.0)):
        assert schedule.wait(samples, 1000.0) == seconds
        assert not schedule.due(samples, 1000.0 + seconds - 0.001)
        assert schedule.due(samples, 1000.0 + seconds)
        assert schedule.wait(samples, 1e6) == 0.0
    assert schedule.new(27) == 7


# --- keys ----------------------------------------------------------------------------------------


def keys_of(tmp_path: Path, **trust: PrivateKey) -> dict[str, str]:
    TrustedKeys({n: key.public for n, key in trust.items()}, tmp_path / "trust").save()
    return {"key_file": str(tmp_path / "a.key"), "trust": str(tmp_path / "trust")}


def test_who_is_not_in_its_own_file_is_warned(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    own, other = PrivateKey.new(), PrivateKey.new()
    own.save(tmp_path / "a.key")
    wanted = config(**keys_of(tmp_path, b=other))
    writer = EnvelopeWriter(wanted, tmp_path)
    trust = load_trusted_keys(writer.section, writer.name, writer.key)
    assert (
        f"has no key of 'a': nodes that have the same file do not believe us; add ours with "
        f"`streamlvq keys trust {tmp_path / 'trust'} a {own.public}`" in caplog.text
    )
    assert introduction(writer.section, "a", trust) == (
        "fleet 'ovens': peer 'a', believes 2 trusted keys, its own among them"
    )
    caplog.clear()
    keys_of(tmp_path, a=own, b=other)
    load_trusted_keys(writer.section, writer.name, writer.key)
    assert caplog.text == ""
    keys_of(tmp_path, a=other)
    with pytest.raises(TrustError, match=rf"trust a {own.public.replace('+', '.')} --replace`"):
        load_trusted_keys(writer.section, writer.name, writer.key)


def test_what_has_changed_among_keys() -> None:
    keys = {f"n{k:02}": PrivateKey.new().public for k in range(14)}
    none, all_ = TrustedKeys(), TrustedKeys(keys)
    [new] = key_changes(none, all_)
    assert new.startswith("14 new keys: n00, n01")
    assert new.endswith("n09 and 4 more")
    assert key_changes(all_, all_) == []
    assert key_changes(all_, TrustedKeys({**keys, "n03": PrivateKey.new().public})) == [
        "1 other key: n03"
    ]
    assert key_changes(None, None) == []


def test_after_a_change_of_key_the_newest_is_published_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broker = memory("rekeyed")
    old, new = PrivateKey.new(), PrivateKey.new()
    old.save(tmp_path / "a.key")
    node = Node(config(broker="rekeyed", **keys_of(tmp_path, a=old)), tmp_path / "state")
    node.learn(node_readings("a", 60))
    node.turn(100.0)
    before = broker.retained[f"{ROOT}/nodes/a"].payload
    node.link.close()

    (tmp_path / "a.key").unlink()
    new.save(tmp_path / "a.key")
    again = Node(config(broker="rekeyed", **keys_of(tmp_path, a=new)), tmp_path / "state")
    assert "had another key; it will be published again" in caplog.text
    again.learn(node_readings("a", 60))
    again.turn(100.0)
    assert broker.retained[f"{ROOT}/nodes/a"].payload != before
    broker.publish(f"{ROOT}/nodes/a", before, retain=True)  # as if the old one came late
    again.turn(101.0)
    assert refusals(again) == {"author": 1}
    assert "got one of 'a' from before that was signed with another key" in caplog.text
    assert "nobody else" not in caplog.text
    again.turn(120.0)
    broker_has = broker.retained[f"{ROOT}/nodes/a"].payload
    assert broker_has == again.fleet.writer.kept()["a"]


# --- the status ----------------------------------------------------------------------------------


def test_news_are_said_at_once(tmp_path: Path) -> None:
    broker = memory("news")
    wanted = config(tmp_path, broker="news")
    health = Health(wanted.health)
    metrics = FleetMetrics(CollectorRegistry(), "ovens", "a", "peer")
    role = Silent(RoleStatus(fleet=metrics.record()))
    session = BrokerSession(wanted, role, health, ServiceMetrics(health, 10))

    def count() -> int:
        return sum(message.topic.endswith("/status") for message in broker.published)

    session.link.read(0.0)
    session.tend(100.0)
    first = count()
    session.tend(101.0)
    assert count() == first
    session.publish_status_soon()
    session.tend(101.1)
    assert count() == first + 1
    session.tend(102.0)
    assert count() == first + 1
