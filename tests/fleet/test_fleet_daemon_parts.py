"""The parts of a fleet that need no process of their own."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from streamlvq.cli.commands.fleet import words
from streamlvq.config import (
    Broker,
    Config,
    FleetTopics,
)
from streamlvq.config.topics import FleetTopic
from streamlvq.connect import Message, Subscription
from streamlvq.fleet import Header, Member, PrivateKey, TrustedKeys, parse_envelope, seal
from streamlvq.fleet.checks import TrustError, load_trusted_keys
from streamlvq.fleet.fusion_worker import FusionResult, FusionWorker, fuse_members, fusion_key
from streamlvq.fleet.inbox import fleet_subscriptions
from streamlvq.fleet.metrics import FleetMetrics, PoolRecord
from streamlvq.fleet.pools import shared_bytes
from streamlvq.fleet.publication import EnvelopeWriter, Schedule, TooLargeError
from streamlvq.fleet.status import NoFleetError, evaluate, fetch_status
from streamlvq.fusion import FusionError, fuse
from streamlvq.models import GLVQ, GMLVQ, LVQCommittee
from streamlvq.models.pool import PoolClassifier, PoolReport, PoolWeights
from streamlvq.monitor import Monitor
from streamlvq.payloads import Decoder
from streamlvq.role import Health, RoleStatus
from streamlvq.service.daemon import restart_keys, subscriptions
from streamlvq.service.journal import Received, Record, Serve
from streamlvq.service.metrics import ServiceMetrics
from streamlvq.service.probe import as_guest
from streamlvq.service.processor import MessageProcessor
from streamlvq.service.session import SessionTracker, StatusWriter, make_link
from streamlvq.service.state_store import StateStore
from streamlvq.snapshot import Snapshot
from streamlvq_connectors.memory import MemoryBroker, MemoryLink
from support.daemons import CLASSES, until
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
from support.fleets import FLEET, NAMES, ROOT, fused_in_memory, node_readings
from support.service_doubles import OneLink, counted, exposition


@pytest.fixture(scope="module")
def snapshots() -> dict[str, Snapshot]:
    return {name: learnt(name) for name in NAMES}


def member(snapshot: Snapshot, sequence: int = 1) -> Member:
    data = sealed(snapshot, sequence)
    found = parse_envelope(data, limit=10**7)
    return Member(snapshot.node, snapshot, found.header, found.digest)


# --- topics, configuration -----------------------------------------------------------------------


def test_topics_lead_to_names_and_back() -> None:
    topics = FleetTopics(SECTION)
    for node in ("a", "oven 3", "a/b", "+", "50%", "\N{SNOWMAN}", "$SYS", "{x}"):
        for topic, kind in ((topics.snapshot(node), "snapshot"), (topics.model(node), "model")):
            assert topics.parse(topic) == FleetTopic(kind, node)
            assert topic.count("/") == 4
    for topic in (f"{ROOT}/nodes", f"{ROOT}/other/a", f"{ROOT}/nodes/a/b", "a", f"x{ROOT}/nodes/a"):
        assert topics.parse(topic) is None


def test_each_role_listens_to_what_it_needs() -> None:
    readings = Subscription("plant/a/+/readings", 1)
    assert subscriptions(config()) == [readings, (f"{ROOT}/nodes/+", 1, True)]
    assert subscriptions(config(role="member", hub="hub")) == [
        readings,
        (f"{ROOT}/models/a", 1, True),
        (f"{ROOT}/nodes/a", 1, True),
    ]
    assert fleet_subscriptions(config(role="hub")) == [
        (f"{ROOT}/nodes/+", 1, True),
        (f"{ROOT}/models/+", 1, True),
    ]
    assert subscriptions(as_guest(config())) == [("plant/a/+/readings", 0, False)]


def test_the_fleet_has_a_limit_of_its_own() -> None:
    alone = msgspec.structs.replace(config(), fleet=None)
    assert make_link(alone, []).broker.max_payload_bytes == 262_144
    assert make_link(config(), []).broker.max_payload_bytes == 1_048_576
    small = config(max_snapshot_bytes=2000)
    assert make_link(small, []).broker.max_payload_bytes == 262_144


def test_a_fleet_changes_only_with_a_restart() -> None:
    old = config()
    assert restart_keys(old, config(publish_after=7)) == ["fleet.publish_after"]
    assert restart_keys(old, msgspec.structs.replace(old, fleet=None)) == ["fleet"]


# --- when to publish -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("samples", "waited", "due"),
    [
        (20, 299.0, False),  # nothing new
        (21, 299.0, False),
        (21, 300.0, True),  # on schedule
        (219, 299.0, False),
        (220, 20.0, True),  # much was learnt
        (220, 9.9, False),  # but never too often
        (20, 151_199.0, False),
        (20, 151_200.0, True),  # nobody shall believe that we left
        (19, 1e6, False),  # a model that has learnt too little
    ],
)
def test_what_is_due(samples: int, waited: float, due: bool) -> None:
    schedule = Schedule(SECTION)
    schedule.published(20, 1000.0)
    assert schedule.due(samples, 1000.0 + waited) is due


def test_after_a_failure_there_is_a_pause() -> None:
    schedule = Schedule(SECTION)
    assert schedule.due(20, 0.0)
    schedule.failed(0.0)
    assert not schedule.due(500, 9.0)
    assert schedule.due(20, 10.0)


def test_who_was_forgotten_speaks_again_after_the_pause() -> None:
    schedule = Schedule(SECTION)
    schedule.published(20, 0.0)
    schedule.republish()
    assert not schedule.due(20, 9.0)
    assert schedule.due(20, 10.0)


def test_no_second_is_so_busy_that_more_is_published() -> None:
    """However readings come, publications are as far apart as they must be."""
    section = msgspec.structs.replace(SECTION, publish_after=1, publish_pause_seconds=10.0)
    schedule, times = Schedule(section), []
    for step in range(1000):
        if schedule.due(samples=20 + step, now=step / 10):
            schedule.published(20 + step, step / 10)
            times.append(step / 10)
    assert times == [10.0 * k for k in range(10)]


# --- fusing --------------------------------------------------------------------------------------


def wait_for(fusing: FusionWorker) -> FusionResult:
    end = time.monotonic() + 30
    while (fusion := fusing.poll()) is None:
        assert time.monotonic() < end
        time.sleep(0.001)
    return fusion


def test_fusing_waits_for_more_and_then_happens_once(snapshots: dict[str, Snapshot]) -> None:
    fusing = FusionWorker(SECTION, lambda node: node == "a")
    two = {name: member(snapshots[name]) for name in "ab"}
    three = {name: member(snapshots[name]) for name in "cab"}
    fusing.consider(two, now=0.0)
    fusing.consider(three, now=0.09)
    assert fusing.poll() is None
    fusing.consider(three, now=0.11)
    fusion = wait_for(fusing)
    assert fusion.key == fusion_key(three)
    assert fusion.models == {"a": fused_in_memory(snapshots.values())["a"]}
    assert fusion.report is not None
    assert fusion.report.nodes.keys() == {"a", "b", "c"}

    # The same again, in new envelopes, is no news.
    renewed = {name: member(snapshots[name], sequence=9) for name in "abc"}
    for now in (1.0, 2.0, 3.0):
        fusing.consider(renewed, now)
        assert fusing.poll() is None
    fusing.consider(two, now=4.0)
    fusing.consider(two, now=4.2)
    assert wait_for(fusing).models == {"a": fused_in_memory(snapshots[n] for n in "ba")["a"]}


def test_who_is_alone_is_not_fused(snapshots: dict[str, Snapshot]) -> None:
    assert fuse_members(SECTION, {"a": member(snapshots["a"])}, lambda _: True).models == {}
    assert fuse_members(SECTION, {}, lambda _: True) == FusionResult((), {})


def test_what_cannot_be_fused_is_said_once(snapshots: dict[str, Snapshot]) -> None:
    other = GMLVQ()
    for k in range(30):
        other.learn_one({"x0": float(k % 2)}, CLASSES[k % 2])
    strange = Snapshot.of(other, "z", readings=False)
    fusing = FusionWorker(SECTION, lambda _: True)
    members = {"a": member(snapshots["a"]), "z": member(strange)}
    fusing.consider(members, 0.0)
    fusing.consider(members, 1.0)
    fusion = wait_for(fusing)
    assert fusion.error is not None
    assert "GMLVQ" in fusion.error
    assert fusion.models == {}
    fusing.consider(members, 2.0)
    fusing.consider(members, 3.0)
    assert fusing.poll() is None


# --- what is written -----------------------------------------------------------------------------


def test_what_an_author_wrote_is_there_after_a_restart(
    tmp_path: Path, snapshots: dict[str, Snapshot]
) -> None:
    writer = EnvelopeWriter(config(), tmp_path)
    assert writer.kept() == {}
    assert writer.last("a") is None
    first = writer.write("a", snapshots["a"].to_bytes(), 5.0)
    second = writer.write("a", b"later", 6.0)
    again = EnvelopeWriter(config(), tmp_path)
    assert again.kept() == {"a": second}
    last = again.last("a")
    assert last is not None
    assert (last.payload, last.header.created, last.header.kind) == (b"later", 6.0, "snapshot")
    assert last.header == again.last_header("a")
    third = parse_envelope(again.write("a", b"last", 7.0), limit=10**6)
    assert (
        third.header.number > last.header.number > parse_envelope(first, limit=10**6).header.number
    )
    again.forget("a")
    again.forget("a")
    assert EnvelopeWriter(config(), tmp_path).kept() == {}


def test_an_author_knows_what_is_his(tmp_path: Path) -> None:
    writer = EnvelopeWriter(config(), tmp_path)
    first = writer.write("a", b"1", 5.0)
    writer.write("a", b"2", 5.0)
    assert writer.is_ours(first, None)
    assert writer.is_ours(writer.kept()["a"], None)
    number = parse_envelope(writer.kept()["a"], limit=10**6).header.number
    later = Header(FLEET, "a", "snapshot", number[0] + 1, 1, 5.0)
    assert not writer.is_ours(seal(b"x", later, None), None)
    assert not writer.is_ours(seal(b"x", Header(FLEET, "b", "snapshot", 1, 1, 5.0), None), None)
    assert not writer.is_ours(b"rubbish", None)


def test_nothing_is_sent_that_nobody_would_look_at(tmp_path: Path) -> None:
    writer = EnvelopeWriter(config(max_snapshot_bytes=1024), tmp_path)
    with pytest.raises(TooLargeError, match=r"expected at most fleet.max_snapshot_bytes \(1024\)"):
        writer.write("a", bytes(1024), 5.0)
    assert writer.kept() == {}


def test_damaged_files_cost_only_themselves(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    writer = EnvelopeWriter(config(role="hub"), tmp_path)
    writer.write("x", b"1", 5.0)
    writer.write("y", b"2", 5.0)
    writer._path("x").write_bytes(b"torn")
    with caplog.at_level("WARNING", "streamlvq"):
        assert EnvelopeWriter(config(role="hub"), tmp_path).kept().keys() == {"y"}
    assert "cannot be used" in caplog.text
    assert EnvelopeWriter(config(role="hub", name="other"), tmp_path).kept() == {}


def trust_of(writer: EnvelopeWriter) -> TrustedKeys | None:
    return load_trusted_keys(writer.section, writer.name, writer.key)


def test_keys_must_belong_together(tmp_path: Path) -> None:
    key, other = PrivateKey.new(), PrivateKey.new()
    key.save(tmp_path / "a.key")
    keys = {"key_file": str(tmp_path / "a.key"), "trust": str(tmp_path / "trust")}
    TrustedKeys({"b": other.public}, tmp_path / "trust").save()
    writer = EnvelopeWriter(config(**keys), tmp_path)
    assert trust_of(EnvelopeWriter(config(), tmp_path)) is None
    trust = trust_of(writer)
    assert trust is not None
    assert dict(trust) == {"b": other.public, "a": key.public}

    member_of = config(**keys, role="member", hub="hub")
    with pytest.raises(TrustError, match=r"fleet.hub: expected a node whose key is in .*'hub'"):
        trust_of(EnvelopeWriter(member_of, tmp_path))
    TrustedKeys({"a": other.public}, tmp_path / "trust").save()
    with pytest.raises(TrustError, match=r"fleet.key_file: expected the key that .* has for 'a'"):
        trust_of(writer)


def test_envelopes_are_signed(tmp_path: Path) -> None:
    PrivateKey.new().save(tmp_path / "a.key")
    TrustedKeys(path=tmp_path / "trust").save()
    signed = config(key_file=str(tmp_path / "a.key"), trust=str(tmp_path / "trust"))
    writer = EnvelopeWriter(signed, tmp_path)
    parse_envelope(writer.write("a", b"1", 5.0), limit=10**6).check(trust_of(writer))


# --- what is counted -----------------------------------------------------------------------------


def test_figures_are_shown_and_said() -> None:
    registry = CollectorRegistry()
    metrics = FleetMetrics(registry, "ovens", "a", "peer")
    assert "streamlvq_fleet_members 0.0" in exposition(registry)
    metrics.created = {"b": time.time() - 10, "a": time.time() + 5}
    metrics.count("new", None)
    metrics.count("refused", "replayed")
    metrics.count("refused", "replayed")
    metrics.serving_score = {"local": 0.5, "fused": 0.75, "labels": 40}
    metrics.serving, metrics.fused_at = "fused", time.monotonic()
    metrics.fusion = FusionResult((("a", b""), ("b", b"")), {}, seconds=0.25)
    text = exposition(registry)
    for line in (
        "streamlvq_fleet_members 2.0",
        'streamlvq_fleet_member_age_seconds{node="a"} 0.0',  # its clock is ahead
        'streamlvq_fleet_messages_total{status="refused"} 2.0',
        'streamlvq_fleet_refused_total{reason="replayed"} 2.0',
        'streamlvq_fleet_recent_accuracy{model="fused"} 0.75',
        "streamlvq_fleet_serving_fused 1.0",
        "streamlvq_fleet_fusion_seconds 0.25",
    ):
        assert line in text.splitlines()
    metrics.problems["fusion"] = "no"
    record = metrics.record()
    assert record.members == {"a": 0.0, "b": 10.0}
    assert record.fused == ["a", "b"]
    assert record.refused == {"replayed": 2}
    assert record.trouble == metrics.problem() == "no"
    message = StatusWriter(Config()).message("online", RoleStatus(fleet=record))
    assert message is not None
    said = msgspec.json.decode(message.payload)["fleet"]
    assert (said["name"], said["serving"], said["standing"]["labels"]) == ("ovens", "fused", 40)


def test_figures_of_a_pool() -> None:
    registry = CollectorRegistry()
    metrics = FleetMetrics(registry, "ovens", "a", "peer")
    assert "streamlvq_fleet_pool_weight{" not in exposition(registry)
    weights = PoolWeights({"fused none": 0.5, "personal none": 1.25}, 0.25, -1.0)
    blank = {name: GLVQ() for name in weights.candidates}
    metrics.pool, metrics.serving = PoolClassifier(None, blank, weights), "pool"
    assert metrics.record().pool == PoolRecord(weights=weights.named())
    losses = {"local": 0.5, "pool": 0.125, "all candidates": 0.1}
    metrics.note_pool(PoolReport("a", 40, weights.named(), ("ensemble none",), losses))
    lines = exposition(registry).splitlines()
    for line in (
        'streamlvq_fleet_pool_weight{candidate="fused none"} 0.5',
        'streamlvq_fleet_pool_weight{candidate="personal none"} 1.25',
        'streamlvq_fleet_pool_weight{candidate="local"} 0.25',
        'streamlvq_fleet_pool_weight{candidate="unseen"} -1.0',
        'streamlvq_fleet_pool_loss{model="local"} 0.5',
        'streamlvq_fleet_pool_loss{model="pool"} 0.125',
        "streamlvq_fleet_pool_records 40.0",
        "streamlvq_fleet_serving_fused 1.0",
    ):
        assert line in lines
    assert sum(line.startswith("streamlvq_fleet_pool_loss{") for line in lines) == 2
    metrics.pool, metrics.serving = None, "local"  # those of a pool that is gone are gone too
    assert "streamlvq_fleet_pool_weight{" not in exposition(registry)
    assert metrics.record().pool is None


def test_daemons_without_a_fleet_say_nothing_of_it() -> None:
    message = StatusWriter(Config()).message("online")
    assert message is not None
    assert "fleet" not in msgspec.json.decode(message.payload)


def test_trouble_with_the_fleet_is_bad_health() -> None:
    health = Health(Config().health, starting=False, connected=True)
    assert health.problems() == []
    health.fleet = "the fleet cannot be fused: no"
    assert health.problems() == ["fleet: the fleet cannot be fused: no"]


# --- a node, without a process -------------------------------------------------------------------


def test_peers_on_one_broker(tmp_path: Path, snapshots: dict[str, Snapshot]) -> None:
    memory("peers")
    nodes = [Node(config(name=n, broker="peers"), tmp_path / n) for n in NAMES]
    for node in nodes:
        node.learn(node_readings(node.fleet.name, 60))
    for k in range(100):
        for node in nodes:
            node.turn(100.0 + k)
        time.sleep(0.005)
    expected = fused_in_memory(snapshots.values())
    assert {node.fleet.name: node.serving for node in nodes} == expected
    for node in nodes:
        assert (
            shared_bytes(node.processor.monitor.local(""), node.fleet.name)
            == snapshots[node.fleet.name].to_bytes()
        )
        assert refusals(node) == {}
        assert node.fleet.metrics.serving == "fused"
        assert node.installed == [*node.installed[:-1], expected[node.fleet.name]]

    # Nothing happens if nothing happens.
    before = [len(node.installed) for node in nodes]
    for node in nodes:
        node.turns(300.0)
    assert [len(node.installed) for node in nodes] == before

    # A node that leaves is not in it any more.
    MemoryLink.broker_named("peers").publish(f"{ROOT}/nodes/c", b"", retain=True)
    for node in nodes[:2]:
        node.turns(400.0)
    pair = fused_in_memory(snapshots[n] for n in "ab")
    assert {node.fleet.name: node.serving for node in nodes[:2]} == pair
    # The one that is still there notices, says so, and is back.
    nodes[2].turn(500.0)
    nodes[2].turn(501.0)
    for node in nodes:
        node.turns(600.0)
    assert {node.fleet.name: node.serving for node in nodes} == expected


@pytest.mark.parametrize("transform", ["log1p", "asinh"])
def test_nodes_share_what_their_models_see(tmp_path: Path, transform: str) -> None:
    """A transform goes with the model, from the local one to the one that decides."""
    broker = memory("transform")
    node = Node(with_transform(config(broker="transform"), transform), tmp_path)
    node.link.read(0.0)
    processor = MessageProcessor(node.processor.decoder, Monitor(node.config))
    readings = [lifted(message) for message in node_readings("a", 80)]
    processor.process(readings[20:])
    other = Snapshot.from_bytes(shared_bytes(processor.monitor.local(""), "b"))
    broker.publish(f"{ROOT}/nodes/b", sealed(other))
    node.learn(readings[:60])
    node.turns()
    own = Snapshot.from_bytes(shared_bytes(node.processor.monitor.local(""), "a"))
    assert own.transform is not None
    assert own.transform[0] == transform
    assert node.serving == fused_in_memory([own, other])["a"]
    # A node whose model sees something else cannot be fused with them, and is not in their way.
    strange = Snapshot.from_bytes(shared_bytes(learnt("c").classifier(), "c"))
    broker.publish(f"{ROOT}/nodes/c", sealed(strange))
    node.turns(300.0)
    assert counted(node.registry, "fleet_fusions_total") == 2
    assert node.fleet.metrics.fusion is not None
    assert node.fleet.metrics.fusion.report is not None
    assert "2 kinds of models" in node.fleet.metrics.fusion.report.warnings[-1]
    assert node.serving == fused_in_memory([own, other])["a"]


def with_transform(config: Config, transform: str) -> Config:
    model = msgspec.structs.replace(config.model, transform=transform)
    return msgspec.structs.replace(config, model=model)


def lifted(message: Message) -> Message:
    """Readings whose logarithm there is."""
    values = msgspec.json.decode(message.payload)
    raised = {name: v + 10.0 if name.startswith("x") else v for name, v in values.items()}
    return message._replace(payload=msgspec.json.encode(raised))


def test_kinds_of_models_are_fused_kind_by_kind(snapshots: dict[str, Snapshot]) -> None:
    """One node with another model, or half of a fleet that is being changed over."""
    matrices = {}
    for name in "dxy":
        model = GMLVQ()
        for k in range(40):
            model.learn_one({"x0": float(k % 2) + k / 100, "x1": 1.0}, ("low", "high")[k % 2])
        matrices[name] = Snapshot.of(model, name, readings=False)
    section = config().fleet
    assert section is not None
    members = {
        name: Member(name, snapshot, parse_envelope(sealed(snapshot), limit=2**20).header, name)
        for name, snapshot in (snapshots | matrices).items()
    }
    everyone = fuse_members(section, members, lambda node: True)
    expected = fused_in_memory(snapshots.values()) | fused_in_memory(matrices.values())
    assert everyone.models == expected
    for name in members:
        assert fuse_members(section, members, name.__eq__).models == {name: expected[name]}
    alone = {name: members[name] for name in "abd"}
    with pytest.raises(FusionError, match="2 kinds of models"):
        fuse_members(section, alone, lambda node: node == "d")


def test_a_node_with_nothing_to_fuse_is_left_out(snapshots: dict[str, Snapshot]) -> None:
    """Trees and bins stay at home: a committee of them alone comes from no node of ours."""
    model = LVQCommittee(members=["forest", "bins"])
    for k in range(40):
        model.learn_one({"x0": float(k % 2) + k / 100, "x1": 1.0}, ("low", "high")[k % 2])
    nodes = [*snapshots.values(), Snapshot.of(model, "evil")]
    members = {each.node: member(each) for each in nodes}
    found = fuse_members(SECTION, members, lambda node: True)
    assert found.models == fused_in_memory(snapshots.values())
    assert found.report is not None
    assert any("of evil" in warning for warning in found.report.warnings)


def test_a_defect_costs_one_message(
    tmp_path: Path, snapshots: dict[str, Snapshot], caplog: pytest.LogCaptureFixture
) -> None:
    broker = memory("defect")
    node = Node(config(broker="defect"), tmp_path)
    node.link.read(0.0)
    good = node.fleet.roster.accept
    calls: list[str] = []

    def take(node_in_topic: str, data: bytes, now: float) -> Any:
        calls.append(node_in_topic)
        if node_in_topic == "b":
            raise ZeroDivisionError("a defect")
        return good(node_in_topic, data, now)

    node.fleet.roster.accept = take  # type: ignore[method-assign]
    for name in "bc":
        broker.publish(f"{ROOT}/nodes/{name}", sealed(snapshots[name]))
    node.turn(100.0)
    node.turn(200.0)
    assert calls == ["b", "c"]
    assert refusals(node) == {"failure": 1}
    assert "internal error while processing a fleet message" in caplog.text
    assert node.fleet.roster.members(time.time()).keys() == {"c"}
    assert not broker.sessions["a"].unacknowledged


def test_a_restart_changes_nothing(tmp_path: Path, snapshots: dict[str, Snapshot]) -> None:
    broker = memory("restart")
    node = Node(config(broker="restart"), tmp_path)
    node.link.read(0.0)
    broker.publish(f"{ROOT}/nodes/b", sealed(snapshots["b"]), retain=True)
    node.learn(node_readings("a", 60))
    node.turns()
    expected = fused_in_memory(snapshots[n] for n in "ab")["a"]
    assert node.serving == expected
    sent = node.fleet.writer.kept()

    again = Node(config(broker="restart"), tmp_path)
    again.processor.monitor = Monitor.restore(again.config, node.processor.monitor.checkpoint())
    again.fleet.start(OneLink(again.link), again)
    broker.published.clear()
    again.turns()
    assert again.installed == []
    assert counted(again.registry, "fleet_fusions_total") == 1
    assert again.fleet.writer.kept() == sent
    # Said again, but it is the same: the broker may not have heard it in the last moment.
    topic = f"{ROOT}/nodes/a"
    assert [m.payload for m in broker.published if m.topic == topic] == [sent["a"]]

    # Also if the state of the monitor is lost: the roster has everything.
    third = Node(config(broker="restart"), tmp_path)
    third.turns()
    assert third.serving == expected


def test_bad_messages_are_counted_and_readings_go_on(
    tmp_path: Path, snapshots: dict[str, Snapshot], caplog: pytest.LogCaptureFixture
) -> None:
    broker = memory("bad")
    node = Node(config(broker="bad", max_snapshot_bytes=50_000), tmp_path)
    node.link.read(0.0)
    good = sealed(snapshots["b"], sequence=5)
    bad = {
        "malformed": b"rubbish",
        "oversized": bytes(50_001),
        "truncated": good[:-1],
        "replayed": sealed(snapshots["b"], sequence=4),
        "node": sealed(snapshots["c"]),
        "fleet": seal(b"", Header("kilns", "b", "snapshot", 1, 9, time.time()), None),
        "kind": seal(b"", Header(FLEET, "b", "model", 1, 9, time.time()), None),
        "author": seal(b"", Header(FLEET, "b", "snapshot", 1, 9, time.time(), "c"), None),
        "values": seal(b"none", Header(FLEET, "b", "snapshot", 1, 9, time.time()), None),
        "old": sealed(snapshots["b"], 9, created=time.time() - 8 * 86_400),
        "future": sealed(snapshots["b"], 9, created=time.time() + 3600),
        "damaged": good[:-1] + bytes([good[-1] ^ 1]),
    }
    broker.publish(f"{ROOT}/nodes/b", good)
    reading = node_readings("a", 1)[0]
    with caplog.at_level("WARNING", "streamlvq"):
        for data in bad.values():
            broker.publish(f"{ROOT}/nodes/b", data)
            broker.publish(reading.topic, reading.payload)
        others = node.turn(100.0)
    assert refusals(node) == dict.fromkeys(bad, 1)
    assert [message.topic for message in others] == [reading.topic] * len(bad)
    assert counted(node.registry, "fleet_messages_total", status="new") == 1
    for reason in bad:
        assert f"refused a message of the fleet on {ROOT}/nodes/b ({reason})" in caplog.text
    session = broker.sessions["a"]
    node.link.acknowledge(others)
    assert not session.unacknowledged  # all of them, good or bad


def test_readings_that_are_too_large_stay_cut_for_the_decoder(tmp_path: Path) -> None:
    node = Node(config(), tmp_path)
    largest = node.config.broker.max_payload_bytes
    long = Message("plant/a/d/readings", bytes(500_000), 1.0)
    [cut] = node.fleet.handle([long])
    assert len(cut.payload) == largest + 1
    [refused] = node.processor.process([cut]).refused
    assert "262144" in refused.text


def test_who_speaks_in_our_name_is_contradicted(
    tmp_path: Path, snapshots: dict[str, Snapshot]
) -> None:
    broker = memory("impostor")
    node = Node(config(broker="impostor"), tmp_path)
    node.learn(node_readings("a", 60))
    node.turn(100.0)
    [said] = [m for m in broker.published if m.topic.endswith("/nodes/a")]
    lie = seal(
        snapshots["a"].to_bytes(), Header(FLEET, "a", "snapshot", 2**60, 1, time.time()), None
    )
    broker.publish(f"{ROOT}/nodes/a", lie, retain=True)
    node.turn(101.0)
    assert refusals(node) == {"author": 1}
    assert len(broker.published) == 1  # there must be a pause
    node.turn(111.0)
    assert len(broker.published) == 2
    assert broker.retained[f"{ROOT}/nodes/a"].payload == node.fleet.writer.kept()["a"]
    assert node.fleet.writer.kept()["a"] != said.payload


def test_who_puts_back_what_we_said_before_is_contradicted(tmp_path: Path) -> None:
    """It is genuine, but whoever joins later would take it for the newest."""
    broker = memory("history")
    node = Node(config(broker="history"), tmp_path)
    node.learn(node_readings("a", 60))
    node.turn(100.0)
    [old] = [m.payload for m in broker.published if m.topic.endswith("/nodes/a")]
    node.learn(node_readings("a", 300)[60:])
    node.turn(200.0)
    node.turn(201.0)
    newest = broker.retained[f"{ROOT}/nodes/a"].payload
    assert newest != old
    broker.publish(f"{ROOT}/nodes/a", old, retain=True)
    for now in (300.0, 311.0, 322.0, 333.0):
        node.turn(now)
    said = broker.retained[f"{ROOT}/nodes/a"].payload
    assert parse_envelope(said, limit=10**7).payload == parse_envelope(newest, limit=10**7).payload
    assert refusals(node) == {}
    count = len(broker.published)
    node.turn(344.0)
    assert len(broker.published) == count  # once is enough


def test_the_disk_is_full(tmp_path: Path, snapshots: dict[str, Snapshot]) -> None:
    broker = memory("disk")
    node = Node(config(broker="disk"), tmp_path)
    node.link.read(0.0)
    broker.publish(f"{ROOT}/nodes/b", sealed(snapshots["b"]))
    folder = tmp_path / "fleet" / "roster"
    folder.parent.mkdir(exist_ok=True)
    folder.write_text("a file is in the way")
    node.turn(100.0)
    assert refusals(node) == {"unsaved": 1}
    assert broker.sessions["a"].unacknowledged
    assert node.fleet.metrics.problem() is not None
    node.turn(101.5)
    assert refusals(node) == {"unsaved": 1}  # once is enough to know
    folder.unlink()
    node.turn(103.0)
    assert not broker.sessions["a"].unacknowledged
    assert node.fleet.roster.members(time.time()).keys() == {"b"}
    assert node.fleet.metrics.problem() is None


def test_a_model_that_cannot_decide_here_is_not_tried_for_ever(
    tmp_path: Path, snapshots: dict[str, Snapshot], caplog: pytest.LogCaptureFixture
) -> None:
    """The hub sends a model that knows one class only."""
    broker = memory("useless")
    node = Node(config(broker="useless", role="member", hub="hub"), tmp_path)
    node.link.read(0.0)
    model = GLVQ()
    model.learn_one({"x0": 1.0}, "ok")
    data = shared_bytes(model, "a")
    header = Header(FLEET, "a", "model", 1, 1, time.time(), author="hub")
    broker.publish(f"{ROOT}/models/a", seal(data, header, None))
    node.turns()
    assert len(node.installed) == 1
    assert node.serving is None
    assert "cannot decide here" in str(node.fleet.metrics.problem())
    # A good one is welcome all the same, and one of somebody else is not.
    good = fused_in_memory(snapshots.values())["a"]
    header = Header(FLEET, "a", "model", 1, 2, time.time(), author="hub")
    broker.publish(f"{ROOT}/models/a", seal(good, header, None))
    stranger = Header(FLEET, "a", "model", 1, 3, time.time(), author="b")
    broker.publish(f"{ROOT}/models/a", seal(data, stranger, None))
    node.turns(200.0)
    assert node.serving == good
    assert refusals(node) == {"author": 1}
    assert node.fleet.metrics.problem() is None
    # The hub takes it back.
    broker.publish(f"{ROOT}/models/a", b"")
    node.turns(300.0)
    assert node.serving is None


def test_a_model_too_large_to_publish_is_said(tmp_path: Path) -> None:
    memory("large")
    node = Node(config(broker="large", max_snapshot_bytes=1024), tmp_path)
    node.learn(node_readings("a", 60))
    node.turn(100.0)
    node.turn(101.0)
    assert counted(node.registry, "fleet_publish_failures_total") == 1
    assert "cannot be published" in str(node.fleet.metrics.problem())


def test_those_who_are_silent_too_long_fade_out(
    tmp_path: Path, snapshots: dict[str, Snapshot]
) -> None:
    broker = memory("fade")
    fused_in_memory(snapshots[name] for name in "ab")  # compile: nodes rest after long fusions
    limits = {"max_age_seconds": 1.0, "publish_seconds": 0.4, "publish_pause_seconds": 0.1}
    node = Node(config(broker="fade", **limits), tmp_path)
    node.link.read(0.0)
    node.learn(node_readings("a", 60))
    seen, said = set(), []

    def turn() -> bool:
        node.turn(time.monotonic())
        seen.add(tuple(node.fleet.metrics.created))
        return node.serving is not None

    def hear() -> bool:
        said.append(time.time())
        broker.publish(f"{ROOT}/nodes/b", sealed(snapshots["b"], len(said)))
        return turn()

    assert not turn()
    until(hear, what="a model of both")
    until(lambda: not turn(), what="alone again")
    assert time.time() - said[-1] >= 1.0
    # It has been there all the time itself, with nothing new to say.
    assert ("a", "b") in seen
    until(lambda: turn() or counted(node.registry, "fleet_published_total") >= 4)
    assert node.serving is None
    assert node.fleet.roster.members(time.time()).keys() == {"a"}


# --- a hub, without a process --------------------------------------------------------------------


def test_a_hub_tells_each_node_what_has_changed(
    tmp_path: Path, snapshots: dict[str, Snapshot]
) -> None:
    broker = memory("hub")
    settings = config(name="hub", broker="hub", role="hub")
    hub = ByHand(settings, tmp_path)
    hub.link.read(0.0)
    for name in "cab":
        broker.publish(f"{ROOT}/nodes/{name}", sealed(snapshots[name]), retain=True)
    hub.turns(100.0)
    expected = fused_in_memory(snapshots.values())
    assert models(broker) == expected
    count = len(broker.published)
    hub.turns(200.0)
    assert len(broker.published) == count  # it hears itself, and has nothing to add

    # Somebody clears a model, somebody overwrites another: both are set right.
    broker.publish(f"{ROOT}/models/b", b"", retain=True)
    broker.publish(f"{ROOT}/models/c", b"rubbish", retain=True)
    hub.turns(300.0)
    assert models(broker) == expected
    assert refusals(hub) == {"author": 1}

    # Somebody puts back a model of before.
    before = broker.retained[f"{ROOT}/models/a"].payload
    snapshot = changed(snapshots["b"])
    broker.publish(f"{ROOT}/nodes/b", sealed(snapshot, 2), retain=True)
    hub.turns(400.0)
    expected = fused_in_memory([snapshots["a"], snapshot, snapshots["c"]])
    assert models(broker) == expected
    broker.publish(f"{ROOT}/models/a", before, retain=True)
    hub.turns(500.0)
    assert models(broker) == expected

    # A node leaves: the others get another model, and there is none for it.
    broker.publish(f"{ROOT}/nodes/b", b"", retain=True)
    hub.turns(600.0)
    assert models(broker) == fused_in_memory(snapshots[n] for n in "ac")
    assert broker.retained[f"{ROOT}/models/b"].payload == b""
    assert hub.fleet.writer.kept().keys() == {"a", "c"}

    # After a restart it says the same again, with the same numbers.
    before = hub.fleet.writer.kept()
    again = ByHand(settings, tmp_path)
    again.turns(700.0)
    assert again.fleet.writer.kept() == before
    assert models(broker) == fused_in_memory(snapshots[n] for n in "ac")

    # One node alone needs no hub.
    broker.publish(f"{ROOT}/nodes/c", b"", retain=True)
    again.turns(800.0)
    assert models(broker) == {}


def changed(snapshot: Snapshot) -> Snapshot:
    """The same node, a reading later."""
    model = snapshot.classifier()
    reading = next(iter(model.prototypes()))
    model.learn_one(reading.values, reading.label)
    return Snapshot.of(model, snapshot.node, readings=False)


def models(broker: MemoryBroker) -> dict[str, bytes]:
    start = f"{ROOT}/models/"
    return {
        topic.removeprefix(start): parse_envelope(message.payload, limit=10**7).payload
        for topic, message in broker.retained.items()
        if topic.startswith(start) and message.payload
    }


def test_a_hub_keeps_models_fresh(tmp_path: Path, snapshots: dict[str, Snapshot]) -> None:
    broker = memory("fresh")
    limits = {"max_age_seconds": 2.0, "publish_seconds": 0.4, "publish_pause_seconds": 0.1}
    hub = ByHand(config(name="hub", broker="fresh", role="hub", **limits), tmp_path)
    hub.link.read(0.0)
    sequence, begin = 0, time.monotonic()
    while time.monotonic() < begin + 1.5:
        sequence += 1
        for name in "ab":
            broker.publish(f"{ROOT}/nodes/{name}", sealed(snapshots[name], sequence), retain=True)
        hub.turn(time.monotonic())
        time.sleep(0.05)
    assert counted(hub.registry, "fleet_fusions_total") == 1
    assert (
        4 <= counted(hub.registry, "fleet_published_total") <= 8
    )  # each at once, and then now and then
    assert models(broker) == fused_in_memory(snapshots[n] for n in "ab")


def test_a_model_that_is_too_large_is_not_tried_for_ever(
    tmp_path: Path, snapshots: dict[str, Snapshot]
) -> None:
    broker = memory("wide")
    largest = max(len(sealed(snapshot)) for snapshot in snapshots.values())
    hub = ByHand(
        config(name="hub", broker="wide", role="hub", max_snapshot_bytes=largest), tmp_path
    )
    hub.link.read(0.0)
    for name in NAMES:
        broker.publish(f"{ROOT}/nodes/{name}", sealed(snapshots[name]), retain=True)
    hub.turns(100.0)
    wanted = fused_in_memory(snapshots.values())
    room = largest - len(sealed(snapshots["a"])) + len(snapshots["a"].to_bytes()) - len("hub") + 1
    too_large = [name for name, data in wanted.items() if len(data) > room]
    assert counted(hub.registry, "fleet_publish_failures_total") == len(too_large)
    assert models(broker).keys() == wanted.keys() - set(too_large)


# --- the journal ---------------------------------------------------------------------------------


def test_a_crash_changes_no_bit_of_what_was_served(
    tmp_path: Path, snapshots: dict[str, Snapshot]
) -> None:
    settings = config(tmp_path)
    readings = node_readings("a", 300)
    model = fused_in_memory(snapshots.values())["a"]
    records: list[Record] = [
        Received(readings[:100]),
        Serve("", model),
        Received(readings[100:150]),
        Serve("", b"rubbish"),  # refused in the same way each time
        Received(readings[150:200]),
        Serve("", None),
        Received(readings[200:]),
    ]
    processor = MessageProcessor(Decoder(settings), Monitor(settings))
    health = Health(settings.health)
    store = StateStore(settings, health, ServiceMetrics(health, 10))
    for k, record in enumerate(records):
        store.append(record)
        if isinstance(record, Serve):
            assert processor.serve(record.group, record.snapshot) == (k != 3)
        else:
            processor.process(record.messages)
        health.unsaved = True
        if k == 2:
            assert store.save(processor.monitor)  # a snapshot while it is served
    store.close()
    health = Health(settings.health)
    store = StateStore(settings, health, ServiceMetrics(health, 10))
    restored = store.restore(settings, lambda _: None).monitor
    store.close()
    assert restored.checkpoint() == processor.monitor.checkpoint()
    assert counted(store.metrics.registry, "replay_refused_total", reason="failure") == 1
    alone = MessageProcessor(Decoder(settings), Monitor(settings))
    alone.process(readings)
    assert shared_bytes(restored.local(""), "a") == shared_bytes(alone.monitor.local(""), "a")


@pytest.mark.parametrize("received", [1.7e9, 0.0, -1.0])
def test_no_broker_can_serve_a_model(received: float, snapshots: dict[str, Snapshot]) -> None:
    """Only a record of its own kind does; whatever a message says, it is a message."""
    processor = MessageProcessor(Decoder(config()), Monitor(config()))
    model = fused_in_memory(snapshots.values())["a"]
    assert processor.process([Message("$streamlvq/serve", model, received)]).refused
    assert processor.monitor.serving("") is None
    assert processor.serve("", model)
    assert processor.monitor.serving("") is not None


# --- sessions ------------------------------------------------------------------------------------


def test_brokers_are_told_again_only_if_need_be() -> None:
    broker = memory("sessions")
    link = make_link(config(broker="sessions"), subscriptions(config(broker="sessions")))
    tracker = SessionTracker()
    assert tracker.observe(link) is None
    link.read(0.0)
    connect = tracker.observe(link)
    assert connect is not None
    assert connect.is_first
    assert tracker.observe(link) is None
    broker.online = False
    assert tracker.observe(link) is None


# --- looking from outside ------------------------------------------------------------------------


def test_a_look_at_a_fleet(snapshots: dict[str, Snapshot]) -> None:
    now = time.time()
    made = fused_in_memory(snapshots.values())["b"]
    header = Header(FLEET, "b", "model", 1, 1, now - 30, author="hub")
    messages = [
        *(
            Message(f"{ROOT}/nodes/{name}", sealed(snapshots[name], created=now - 300), now)
            for name in NAMES
        ),
        Message(f"{ROOT}/nodes/d", sealed(learnt("d", 30), created=now - 9 * 86_400), now),
        Message(f"{ROOT}/nodes/e", b"rubbish", now),
        Message(f"{ROOT}/models/b", seal(made, header, None), now),
    ]
    status = evaluate(config(), messages, now)
    assert [node.node for node in status.nodes] == list(NAMES)
    report = fuse(snapshots.values()).report
    for node in status.nodes:
        assert round(node.age) == 300
        assert node.samples == 60
        assert node.shift == report.nodes[node.node].shift
    assert status.nodes[2].gained == ("worn",)
    assert (status.nodes[1].hub, round(status.nodes[1].model_age or 0)) == ("hub", 30)
    assert [each.reason for each in status.refused] == ["old", "malformed"]
    assert status.drift == report.drift
    text = "\n".join(words(status))
    assert "5 min" in text
    assert "(+ worn)" in text
    assert f"refused      {ROOT}/nodes/e (malformed)" in text
    assert "30 s by hub" in text


def test_a_look_at_nothing() -> None:
    assert list(words(evaluate(config(), [], 0.0))) == [
        "nobody is in fleet 'ovens', as far as the broker retains it",
        "(a node publishes once it has learnt 1 labelled readings: fleet.min_samples)",
        "",
    ]
    with pytest.raises(NoFleetError, match="section 'fleet:'"):
        fetch_status(Config())
    silent = msgspec.structs.replace(config(), broker=Broker(url="mqtt://127.0.0.1:1"))
    with pytest.raises(NoFleetError, match="expected an answer from the broker"):
        fetch_status(silent, 0.3)


def test_a_look_only_believes_keys(tmp_path: Path, snapshots: dict[str, Snapshot]) -> None:
    key, stranger = PrivateKey.new(), PrivateKey.new()
    TrustedKeys({"b": key.public}, tmp_path / "trust").save()
    settings = config(trust=str(tmp_path / "trust"), key_file=str(tmp_path / "missing.key"))
    messages = [
        Message(f"{ROOT}/nodes/b", sealed(snapshots["b"], key=key), 0.0),
        Message(f"{ROOT}/nodes/a", sealed(snapshots["a"], key=stranger), 0.0),
        Message(f"{ROOT}/nodes/c", sealed(snapshots["c"]), 0.0),
    ]
    status = evaluate(settings, messages, time.time())
    assert [node.node for node in status.nodes] == ["b"]
    assert [each.reason for each in status.refused] == ["unknown_key", "unsigned"]
