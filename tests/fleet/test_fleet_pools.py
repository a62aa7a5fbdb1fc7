"""Pools of a fleet, without processes: what travels, counts, is left out and is refused."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from streamlvq import Snapshot, fuse
from streamlvq.connect import Message
from streamlvq.estimator import EstimatorState
from streamlvq.fleet import Header, Member, parse_envelope, seal
from streamlvq.fleet.adoption import adopt, heaviest_fused
from streamlvq.fleet.fusion_worker import FusionResult, FusionWorker, fuse_members
from streamlvq.fleet.pools import (
    LiveRecords,
    OwnModel,
    capture_own,
    pool_bytes,
    pool_of,
    served_bytes,
    shared_bytes,
)
from streamlvq.fleet.status import evaluate
from streamlvq.models import GLVQ
from streamlvq.models.ensemble import NodeEnsemble
from streamlvq.models.pool import PoolClassifier, PoolWeights
from streamlvq.monitor import Monitor
from streamlvq.payloads import Decoder
from streamlvq.service.processor import MessageProcessor
from streamlvq.snapshot import SnapshotError
from streamlvq.wrappers.base import unwrap
from streamlvq_connectors.memory import MemoryBroker
from support.fleet_nodes import (
    SECTION,
    ByHand,
    Node,
    config,
    memory,
    refusals,
    sealed,
)
from support.fleets import FLEET, NAMES, ROOT, node_readings, pooled_in_memory, truth
from support.service_doubles import OneLink, counted, exposition

BOTH = msgspec.structs.replace(SECTION, serve="both")


COUNT = 120  # readings of each node


def taught(name: str, count: int = COUNT) -> Any:
    """The model of a node that has learnt alone, with its stored readings."""
    settings = config(name=name)
    processor = MessageProcessor(Decoder(settings), Monitor(settings))
    processor.process(node_readings(name, count))
    return processor.monitor.local("")


@pytest.fixture(scope="module")
def models() -> dict[str, Any]:
    return {name: taught(name) for name in NAMES}


@pytest.fixture(scope="module")
def snapshots(models: dict[str, Any]) -> dict[str, Snapshot]:
    return {name: Snapshot.of(model, name, readings=False) for name, model in models.items()}


def own(model: Any, node: str) -> OwnModel:
    *_, inner = unwrap(model)
    return OwnModel(node, inner.state(readings=True))


def member(snapshot: Snapshot) -> Member:
    found = parse_envelope(sealed(snapshot), limit=10**7)
    return Member(snapshot.node, snapshot, found.header, found.digest)


def told(snapshot: Snapshot, weights: PoolWeights) -> Snapshot:
    state = snapshot.estimator_state()
    return Snapshot(state, snapshot.node, readings=False, weights=weights)


def contents(data: bytes) -> EstimatorState:
    return Snapshot.from_bytes(data).estimator_state().innermost


def names_in(data: bytes) -> list[str]:
    return list(contents(data).extra["candidates"])


def until_pooled(nodes: list[Node], start: float = 100.0, count: int = 1) -> None:
    """Turn until each node has installed so many models, or one minute is over."""
    end, k = time.monotonic() + 60.0, 0
    while any(len(node.installed) < count for node in nodes) and time.monotonic() < end:
        for node in nodes:
            node.turn(start + k)
        time.sleep(0.01)
        k += 1
    assert all(len(node.installed) >= count for node in nodes)


# --- peers ---------------------------------------------------------------------------------------


def test_peers_put_the_same_bits_beside_their_models(
    tmp_path: Path, models: dict[str, Any], snapshots: dict[str, Snapshot]
) -> None:
    memory("pools")
    nodes = [Node(config(name=n, broker="pools", serve="both"), tmp_path / n) for n in NAMES]
    for node in nodes:
        node.learn(node_readings(node.fleet.name, COUNT))
    until_pooled(nodes)
    expected = pooled_in_memory(models)
    for node in nodes:
        name = node.fleet.name
        assert node.serving == expected[name] == node.installed[-1]
        assert "local" not in contents(expected[name]).parts
        pool = pool_of(node.monitor.serving(""))
        assert pool is not None
        *_, local = unwrap(node.monitor.local(""))
        assert pool.local is local  # the live one, not a copy
        assert shared_bytes(node.monitor.local(""), name) == snapshots[name].to_bytes()
        assert refusals(node) == {}

    # The one that never saw a class recognises it, and goes on learning by itself.
    last = nodes[-1]
    more = node_readings("c", 60, first=5000, labelled=False, all_classes=True)
    found = last.processor.process(more).decisions
    labels = [each.classes[code] for each in found for code in each.codes]
    right = sum(label == truth("c", message) for label, message in zip(labels, more, strict=True))
    assert right >= 0.8 * len(more)
    assert {model for each in found for model in each.models} == {"pool"}


def test_candidates_are_the_same_in_whatever_order_nodes_arrive(
    models: dict[str, Any], snapshots: dict[str, Snapshot]
) -> None:
    mine = own(models["c"], "c")
    expected = None
    for order in permutations(NAMES):
        members = {name: member(snapshots[name]) for name in order}
        found = fuse_members(BOTH, members, "c".__eq__, mine)
        assert found.models.keys() == {"c"}
        expected = expected or found.models["c"]
        assert found.models["c"] == expected
    # Weights are the node's: what others say moves them, and no candidate.
    others = {
        name: told(snapshot, PoolWeights({"fused none": 1.5}, 0.01, 3.0))
        for name, snapshot in snapshots.items()
    }
    members = {name: member(each) for name, each in others.items()}
    moved = contents(fuse_members(BOTH, members, "c".__eq__, mine).models["c"])
    before = contents(str_or_fail(expected))
    assert moved.extra["candidates"] == before.extra["candidates"]
    for name, part in before.parts.items():
        assert moved.parts[name].same_as(part)


def str_or_fail(data: bytes | None) -> bytes:
    assert data is not None
    return data


def test_readings_that_others_publish_are_not_used(
    models: dict[str, Any], snapshots: dict[str, Snapshot]
) -> None:
    """They would be judged by, and nobody knows whether they are true."""
    mine = own(models["c"], "c")
    plain = {name: member(snapshots[name]) for name in NAMES}
    chatty = plain | {"a": member(Snapshot.of(models["a"], "a"))}
    assert chatty["a"].snapshot.has_readings
    expected = fuse_members(BOTH, plain, "c".__eq__, mine)
    assert fuse_members(BOTH, chatty, "c".__eq__, mine).models == expected.models


def test_a_restart_goes_on_with_the_same_pool(
    tmp_path: Path, models: dict[str, Any], snapshots: dict[str, Snapshot]
) -> None:
    broker = memory("again")
    settings = config(broker="again", serve="both")
    node = Node(settings, tmp_path)
    node.link.read(0.0)
    broker.publish(f"{ROOT}/nodes/b", sealed(snapshots["b"]), retain=True)
    node.learn(node_readings("a", COUNT))
    until_pooled([node])
    served = node.serving
    assert served == pooled_in_memory({name: models[name] for name in "ab"})["a"]

    again = Node(settings, tmp_path)
    again.processor.monitor = Monitor.restore(settings, node.monitor.checkpoint())
    again.fleet.start(OneLink(again.link), again)
    end = time.monotonic() + 60.0
    while not counted(again.registry, "fleet_fusions_total") and time.monotonic() < end:
        again.turn(time.monotonic())
        time.sleep(0.01)
    again.turn(time.monotonic() + 1.0)
    assert again.installed == []
    assert again.serving == served


def test_the_fusing_thread_never_sees_the_live_model(models: dict[str, Any]) -> None:
    settings = config(serve="both")
    monitor = Monitor(settings)
    processor = MessageProcessor(Decoder(settings), monitor)
    assert capture_own(monitor, "a", LiveRecords()) is None
    processor.process(node_readings("a", 60))
    mine = capture_own(monitor, "a", LiveRecords())
    assert mine is not None
    before = shared_bytes(mine.build(), "a")
    processor.process(node_readings("a", 40, first=60))
    assert shared_bytes(mine.build(), "a") == before
    assert shared_bytes(monitor.local(""), "a") != before
    *_, live = unwrap(monitor.local(""))
    for name, array in live.state().arrays.items():
        assert not np.shares_memory(array, mine.state.arrays.get(name, np.empty(0)))


# --- what is scored and what is told -------------------------------------------------------------


def test_what_pools_have_scored_counts_in_the_next_and_is_not_lost(
    tmp_path: Path, snapshots: dict[str, Snapshot]
) -> None:
    broker = memory("scored")
    node = Node(config(broker="scored", serve="both", publish_after=50), tmp_path)
    node.link.read(0.0)
    broker.publish(f"{ROOT}/nodes/b", sealed(snapshots["b"]), retain=True)
    node.learn(node_readings("a", 60))
    until_pooled([node])
    node.learn(node_readings("a", 60, first=60))
    pool = pool_of(node.monitor.serving(""))
    assert pool is not None
    scored = len(pool.scored())
    assert scored >= 50
    until_pooled([node], 200.0, count=2)  # it has published what it learnt, so all is fused again
    assert sum(len(each) for each in node.fleet._live.with_pool(None)) == scored
    report = node.fleet.metrics.pool_report
    assert report is not None
    assert report.records > 0
    node.learn(node_readings("a", 600, first=120))
    latest = node.fleet._live.with_pool(pool_of(node.monitor.serving("")))
    assert sum(len(each) for each in latest) == 500  # and no more, however long it runs


def test_a_node_publishes_its_own_fit_and_hears_no_echo(
    tmp_path: Path, snapshots: dict[str, Snapshot]
) -> None:
    """Whatever others tell, it tells the same: the mean of the fleet cannot feed itself."""
    said = {}
    for lie in (0.0, 2.9):
        broker = memory("echo")
        folder = tmp_path / str(lie)
        node = Node(config(broker="echo", serve="both", publish_after=30), folder)
        node.link.read(0.0)
        weights = PoolWeights({"fused none": lie, "personal none": 0.1}, lie, -lie)
        for name in "bc":
            broker.publish(f"{ROOT}/nodes/{name}", sealed(told(snapshots[name], weights)))
        node.learn(node_readings("a", 60))
        node.turn(100.0)
        first = _published(broker)
        assert first.pool_weights is None  # nothing has been judged yet
        until_pooled([node], 101.0)
        fitted = contents(node.installed[-1]).arrays["fitted"]
        node.learn(node_readings("a", 40, first=60))
        node.turn(1000.0)
        second = _published(broker)
        assert second.samples == 100
        assert second.pool_weights is not None
        names = names_in(node.installed[-1])
        assert second.pool_weights.vector(names).tolist() == fitted.tolist()
        said[lie] = second.pool_weights
    assert said[0.0] == said[2.9]


def _published(broker: MemoryBroker) -> Snapshot:
    data = broker.retained[f"{ROOT}/nodes/a"].payload
    return Snapshot.from_bytes(parse_envelope(data, limit=10**7).payload)


@pytest.mark.parametrize("serve", ["fused", "local"])
def test_without_pools_no_weights_are_published(
    serve: str, tmp_path: Path, snapshots: dict[str, Snapshot]
) -> None:
    broker = memory("silent")
    node = Node(config(broker="silent", serve=serve), tmp_path)
    node.link.read(0.0)
    broker.publish(f"{ROOT}/nodes/b", sealed(snapshots["b"]))
    node.learn(node_readings("a", 60))
    until_pooled([node])
    node.learn(node_readings("a", 300, first=60))
    node.turn(1000.0)
    assert _published(broker).samples == 360
    assert _published(broker).pool_weights is None
    assert "local" not in {each.name for each in node.registry.collect()}
    assert "streamlvq_fleet_pool_weight{" not in exposition(node.registry)


def test_one_liar_cannot_take_the_local_model_out(snapshots: dict[str, Snapshot]) -> None:
    """A node without readings to judge by, and one that claims that only its models are right."""
    lie = PoolWeights({"fused none": 3.0}, 0.0, 6.0)
    blind = snapshots["c"].classifier()
    fair = fuse(snapshots.values()).for_node("c", local=blind).weights
    deceived = {**snapshots, "a": told(snapshots["a"], lie)}
    assert fuse(deceived.values()).for_node("c", local=blind).weights == fair


# --- who is left out -----------------------------------------------------------------------------


def contrary(name: str, seed: int = 0) -> Snapshot:
    """A node that has learnt a lot and contradicts all others about every class."""
    model, random = GLVQ(), np.random.default_rng(seed)
    for k in range(300):
        x = {f"x{i}": 1e4 * (3 - k % 3) + float(random.normal()) for i in range(4)}
        model.learn_one(x, ("ok", "hot", "worn")[k % 3])
    return Snapshot.of(model, name, readings=False)


def seven(models: dict[str, Any]) -> dict[str, Snapshot]:
    """Seven honest nodes with the same sensors."""
    found = {}
    for k in range(7):
        settings = config(name="a")
        processor = MessageProcessor(Decoder(settings), Monitor(settings))
        processor.process(node_readings("a", 60, first=100 * k))
        found[f"n{k}"] = Snapshot.of(processor.monitor.local(""), f"n{k}", readings=False)
    return found


@pytest.mark.parametrize("serve", ["both", "fused"])
@pytest.mark.parametrize("role", ["peer", "hub"])
def test_who_is_left_out_decides_by_itself(role: str, serve: str, models: dict[str, Any]) -> None:
    snapshots = seven(models) | {"z": contrary("z")}
    section = msgspec.structs.replace(SECTION, serve=serve, role=role)
    members = {name: member(each) for name, each in snapshots.items()}
    found = fuse_members(section, members, lambda node: node in ("n0", "z"))
    assert found.report is not None
    assert found.report.nodes["z"].left_out is not None
    assert found.models.keys() == {"n0"}
    if serve == "both":
        assert found.pools["z"].left_out


def test_who_is_left_out_says_so(tmp_path: Path, models: dict[str, Any]) -> None:
    broker = memory("out")
    node = Node(config(name="z", broker="out", serve="both"), tmp_path)
    node.link.read(0.0)
    for k in range(200):
        values = {f"x{i}": 1e4 * (3 - k % 3) + i + k % 7 for i in range(4)}
        body = {**values, "y": ("ok", "hot", "worn")[k % 3], "t": 1.7e9 + k, "n": k}
        node.learn([node_readings("z", 1)[0]._replace(payload=msgspec.json.encode(body))])
    for name, snapshot in seven(models).items():
        broker.publish(f"{ROOT}/nodes/{name}", sealed(snapshot))
    end = time.monotonic() + 60.0
    while not counted(node.registry, "fleet_fusions_total") and time.monotonic() < end:
        node.turn(time.monotonic())
        time.sleep(0.01)
    record = node.fleet.metrics.record()
    assert record.left_out.keys() == {"z"}
    assert record.serving == "local"
    assert record.pool is None
    assert node.installed == []
    assert node.monitor.serving("") is None
    assert any("'z' was left out" in text for text in record.vetted)


# --- hub and members -----------------------------------------------------------------------------


def hub_pools(snapshots: dict[str, Snapshot], section: Any = None) -> dict[str, bytes]:
    section = section or msgspec.structs.replace(BOTH, role="hub")
    members = {name: member(snapshot) for name, snapshot in snapshots.items()}
    return fuse_members(section, members, lambda node: True).models


def test_a_hub_gives_candidates_and_a_member_adds_its_own(
    tmp_path: Path, models: dict[str, Any], snapshots: dict[str, Snapshot]
) -> None:
    broker = memory("hub pools")
    hub = ByHand(config(name="hub", broker="hub pools", role="hub", serve="both"), tmp_path / "hub")
    names = {"role": "member", "hub": "hub", "serve": "both"}
    node = Node(config(name="c", broker="hub pools", **names), tmp_path / "c")
    hub.link.read(0.0)
    node.learn(node_readings("c", COUNT))
    for name in "ab":
        broker.publish(f"{ROOT}/nodes/{name}", sealed(snapshots[name]), retain=True)
    end = time.monotonic() + 60.0
    while not node.installed and time.monotonic() < end:
        node.turn(time.monotonic())
        hub.turn(time.monotonic())
        time.sleep(0.01)
    given = {
        topic.rpartition("/")[2]: parse_envelope(message.payload, limit=10**7).payload
        for topic, message in broker.retained.items()
        if "/models/" in topic
    }
    assert given == hub_pools(snapshots)
    kinds = [name.split()[0] for name in names_in(given["c"])]
    assert set(kinds) == {"fused", "ensemble"}
    assert len(kinds) == 3
    mine = own(models["c"], "c")
    expected, report = adopt(BOTH, Snapshot.from_bytes(given["c"]), mine)
    assert node.installed == [expected]
    assert node.serving == expected
    assert [name.split()[0] for name in names_in(expected)].count("personal") == 1
    assert len(names_in(expected)) == 3
    assert len(report.dropped) == 1
    assert node.fleet.metrics.serving == "pool"
    more = node_readings("c", 60, first=5000, labelled=False, all_classes=True)
    found = node.processor.process(more).decisions
    labels = [each.classes[code] for each in found for code in each.codes]
    assert sum(y == truth("c", m) for y, m in zip(labels, more, strict=True)) >= 0.8 * len(more)


def test_a_member_weighs_by_what_its_pools_have_scored(
    models: dict[str, Any], snapshots: dict[str, Snapshot]
) -> None:
    given = Snapshot.from_bytes(hub_pools(snapshots)["c"])
    blank, _ = adopt(BOTH, given, own(models["c"], "c"))
    pool = Snapshot.from_bytes(blank).classifier()
    assert pool.fitted is None
    beside = pool.beside(models["c"])
    local = models["c"]
    for message in node_readings("c", 120, first=300):
        body = msgspec.json.decode(message.payload)
        x = {f"x{i}": body[f"x{i}"] for i in range(4)}
        beside.score_one(x, body["y"])
    live = LiveRecords()
    live.retire(beside)
    records = live.with_pool(None)
    assert sum(map(len, records)) > 100
    later, report = adopt(BOTH, given, replace(own(local, "c"), live=records))
    assert names_in(later) == names_in(blank)
    assert report.records == sum(map(len, records))
    assert report.losses["pool"] <= report.losses["local"] + 0.01
    assert Snapshot.from_bytes(later).classifier().fitted is not None


@pytest.mark.parametrize("serve", ["fused", "local"])
def test_a_member_that_wants_one_model_takes_the_best_fused_one(
    serve: str, tmp_path: Path, snapshots: dict[str, Snapshot]
) -> None:
    broker = memory("one")
    node = Node(config(name="c", broker="one", role="member", hub="hub", serve=serve), tmp_path)
    node.link.read(0.0)
    data = hub_pools(snapshots)["c"]
    put_model(broker, data, 1)
    node.turns()
    pool = Snapshot.from_bytes(data).classifier()
    fused = {n: w for n, w in pool.weights.candidates.items() if n.startswith("fused")}
    best = max(fused, key=fused.__getitem__)
    assert node.serving == shared_bytes(pool.candidates[best], "c")
    # A pool of ensembles alone is of no use to it.
    ensembles = {n: m for n, m in pool.candidates.items() if n.startswith("ensemble")}
    weights = PoolWeights(dict.fromkeys(ensembles, 0.5), 0.5, 0.0)
    alone = PoolClassifier(None, ensembles, weights)
    put_model(broker, shared_bytes(alone, "c"), 2)
    node.turns(200.0)
    assert node.serving is None
    assert "expected a fused model for fleet.serve other than both" in str(
        node.fleet.metrics.problem()
    )
    put_model(broker, data, 3)
    node.turns(300.0)
    assert node.serving is not None
    assert node.fleet.metrics.problem() is None


def test_a_member_pools_a_plain_model_too(
    models: dict[str, Any], snapshots: dict[str, Snapshot]
) -> None:
    """Of a hub that fuses for members of any kind."""
    fused = fuse(snapshots.values()).snapshot("c")
    data, report = adopt(BOTH, fused, own(models["c"], "c"))
    assert names_in(data) == ["fused hub", "personal hub"]
    assert contents(data).parts["candidate0"].kind == "GLVQ"
    assert report.records == 0
    without, _ = adopt(BOTH, fused, None)
    assert names_in(without) == ["fused hub"]
    assert heaviest_fused(fused) is fused


def put_model(broker: MemoryBroker, data: bytes, sequence: int, author: str = "hub") -> None:
    header = Header(FLEET, "c", "model", 1, sequence, time.time(), author=author)
    broker.publish(f"{ROOT}/models/c", seal(data, header, None))


def test_a_hub_sends_as_many_candidates_as_there_is_room_for(
    snapshots: dict[str, Snapshot],
) -> None:
    """Ensembles, which hold the models of all nodes, go first."""
    section = msgspec.structs.replace(BOTH, role="hub")
    whole = hub_pools(snapshots, section)
    size, kinds = max(map(len, whole.values())), []
    members = {name: member(snapshot) for name, snapshot in snapshots.items()}
    for _ in range(4):  # each time there is no room for the envelope around what there was
        small = msgspec.structs.replace(section, max_snapshot_bytes=size)
        found = fuse_members(small, members, lambda node: True)
        assert found.models.keys() == set(NAMES)
        assert found.report is not None
        [note] = [text for text in found.report.warnings if "fewer candidates for" in text]
        assert note.endswith(f"got up to {max(map(len, whole.values()))}")
        largest = max(found.models.values(), key=len)
        size = len(largest)
        kinds.append(names_in(largest))
    assert all(name.startswith("fused") for names in kinds for name in names)
    assert [len(names) for names in kinds] == [3, 2, 1, 1]
    assert kinds[-1] == ["fused least_squares"]  # the correction that the fusion chose


def test_a_look_knows_what_a_pool_of_the_hub_brings(snapshots: dict[str, Snapshot]) -> None:
    now, data = time.time(), hub_pools(snapshots)["c"]
    header = Header(FLEET, "c", "model", 1, 1, now, author="hub")
    messages = [
        *(Message(f"{ROOT}/nodes/{name}", sealed(snapshots[name]), now) for name in NAMES),
        Message(f"{ROOT}/models/c", seal(data, header, None), now),
    ]
    status = evaluate(config(name="a", role="member", hub="hub", serve="both"), messages, now)
    assert status.refused == []
    assert status.nodes[2].gained == ("worn",)
    assert status.nodes[2].hub == "hub"


# --- what is forged ------------------------------------------------------------------------------


def _changed(state: EstimatorState, **changes: Any) -> EstimatorState:
    return replace(state, **{k: {**getattr(state, k), **v} for k, v in changes.items()})


def _weights(state: EstimatorState) -> EstimatorState:
    return _changed(state, arrays={"weights": np.full_like(state.arrays["weights"], 99.0)})


def _with_local(state: EstimatorState) -> EstimatorState:
    return _changed(state, parts={"local": state.parts["candidate0"]})


def _renamed(state: EstimatorState) -> EstimatorState:
    names = [f"mine {k}" for k in range(len(state.extra["candidates"]))]
    return _changed(state, extra={"candidates": names})


def _nested(state: EstimatorState) -> EstimatorState:
    return _changed(state, parts={"candidate0": replace(state)})


def _oversized(state: EstimatorState) -> EstimatorState:
    """An ensemble of more nodes than anybody would ask."""
    k = next(k for k, each in state.parts.items() if each.kind == "NodeEnsemble")
    model = next(iter(state.parts[k].parts.values()))
    features = list(model.extra["features"])
    from streamlvq.estimator import build_estimator

    ones, zeros = [np.ones(len(features))] * 40, [np.zeros(len(features))] * 40
    many = NodeEnsemble([build_estimator(model) for _ in range(40)], ones, zeros, features)
    return _changed(state, parts={k: many.state()})


def _ensemble(state: EstimatorState) -> EstimatorState:
    return next(each for each in state.parts.values() if each.kind == "NodeEnsemble")


FORGED: dict[str, tuple[Callable[[EstimatorState], EstimatorState], str]] = {
    "weights out of bounds": (_weights, "expected weights from 0 to 3"),
    "a local model": (_with_local, "expected candidates alone, got a local model as well"),
    "names of its own": (_renamed, "candidates named by kind and correction, got 'mine 0'"),
    "a pool in the pool": (_nested, "expected models as candidates"),
    "an ensemble of forty": (_oversized, "expected ensembles of at most 12 nodes, got one of 40"),
    "an ensemble alone": (_ensemble, "expected a model or a pool, got a NodeEnsemble"),
}


@pytest.mark.parametrize("lie", FORGED)
def test_forged_pools_change_nothing(
    lie: str,
    tmp_path: Path,
    snapshots: dict[str, Snapshot],
    caplog: pytest.LogCaptureFixture,
) -> None:
    forge, words = FORGED[lie]
    broker = memory("forged")
    settings = config(name="c", broker="forged", role="member", hub="hub", serve="both")
    node = Node(settings, tmp_path)
    node.link.read(0.0)
    node.learn(node_readings("c", 60))
    good = hub_pools(snapshots)["c"]
    put_model(broker, good, 1)
    until_pooled([node])
    served, mine = node.serving, shared_bytes(node.monitor.local(""), "c")
    bad = Snapshot(forge(contents(good)), "c", readings=False).to_bytes()
    put_model(broker, bad, 2)
    put_model(broker, good, 9, author="b")  # no hub of ours
    node.turns(300.0)
    assert refusals(node) == {"values": 1, "author": 1}
    assert words in caplog.text
    assert (node.serving, len(node.installed)) == (served, 1)
    assert shared_bytes(node.monitor.local(""), "c") == mine


def test_no_node_publishes_a_pool_as_its_own(
    tmp_path: Path, models: dict[str, Any], snapshots: dict[str, Snapshot]
) -> None:
    """Else one message would keep all from fusing, or bring in models of others twice."""
    broker = memory("not its own")
    node = Node(config(broker="not its own", serve="both"), tmp_path)
    node.link.read(0.0)
    pool = fuse(snapshots.values()).for_node("b", local=models["b"])
    forged = [
        Snapshot.of(pool, "b"),
        Snapshot(pool.beside(None).state(), "b", readings=False),
        Snapshot(_ensemble(contents(hub_pools(snapshots)["b"])), "b", readings=False),
    ]
    for k, snapshot in enumerate(forged):
        broker.publish(f"{ROOT}/nodes/b", sealed(snapshot, 1 + k))
    node.turn(100.0)
    assert refusals(node) == {"values": 3}


def test_the_local_model_is_put_beside_whatever_comes(
    models: dict[str, Any], snapshots: dict[str, Snapshot]
) -> None:
    """Even if a pool with a local model were handed over, the daemon's own one decides."""
    settings = config(name="c", serve="both")
    processor = MessageProcessor(Decoder(settings), Monitor(settings))
    processor.process(node_readings("c", 60))
    pool = fuse(snapshots.values()).for_node("c", local=models["a"])
    assert processor.serve("", Snapshot.of(pool, "c").to_bytes())
    *_, local = unwrap(processor.monitor.local(""))
    served = pool_of(processor.monitor.serving(""))
    assert served is not None
    assert served.local is local


# --- how long it takes ---------------------------------------------------------------------------


def test_twenty_nodes_are_weighed_in_a_thread_while_the_loop_goes_on() -> None:
    """Six classes, twenty features; what it costs is bounded, and its own thread pays."""
    snapshots, mine = {}, None
    for k in range(20):
        model = large(k)
        snapshots[f"n{k:02}"] = Snapshot.of(model, f"n{k:02}", readings=False)
        if k == 0:
            mine = OwnModel("n00", model.state())
    worker = FusionWorker(BOTH, "n00".__eq__, lambda: mine)
    worker.prepare()
    members = {name: member(each) for name, each in snapshots.items()}
    worker.consider(members, 0.0)
    begin = time.perf_counter()
    worker.consider(members, 1.0)
    started = time.perf_counter() - begin
    result: FusionResult | None = None
    while (result := worker.poll()) is None:
        time.sleep(0.001)
        assert time.perf_counter() - begin < 120.0
    assert started < 0.5
    assert result.error is None
    assert result.pools["n00"].records > 0
    assert result.cpu_seconds < 20.0  # 2 to 5 seconds where nothing else runs


def large(seed: int) -> GLVQ:
    random = np.random.default_rng(seed)
    centres = np.random.default_rng(99).normal(0.0, 1.2, (6, 20))
    y = np.repeat(random.integers(0, 6, 50), 8)
    X = centres[y] + random.normal(size=(400, 20)) + random.normal(0.0, 0.3, 20)
    model = GLVQ()
    model.learn_array(X, [f"class {k}" for k in y], [f"x{k}" for k in range(20)])
    return model


def test_pool_bytes_hold_the_transform_of_the_node(models: dict[str, Any]) -> None:
    pool = PoolClassifier(None, {"fused none": models["a"]}, PoolWeights({"fused none": 1.0}, 0, 0))
    data = pool_bytes(pool, models["a"].state(), "a")
    assert served_bytes(Snapshot.from_bytes(data).classifier(), "a") == data
    with pytest.raises(SnapshotError, match="expected a local model, got candidates alone"):
        Snapshot.of(pool, "a", readings=False)
