"""Private nodes in a fleet: what they publish, when, and what receivers notice."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from streamlvq.cli.commands.fleet import words
from streamlvq.config import (
    Broker,
    Config,
    ModelSection,
    PrivacySection,
    ReadingsSection,
    StateSection,
    check,
)
from streamlvq.connect import Message
from streamlvq.estimator import EstimatorState
from streamlvq.fleet import Header, Roster, parse_envelope, seal
from streamlvq.fleet.envelope import Kind
from streamlvq.fleet.node import FleetNode
from streamlvq.fleet.private import ReleasePublisher, check_goes_on
from streamlvq.fleet.status import evaluate
from streamlvq.fusion import fuse
from streamlvq.models import GLVQ, LGMLVQ, LVQCommittee
from streamlvq.monitor import Monitor
from streamlvq.payloads import Decoder
from streamlvq.privacy import LedgerExhaustedError, PrivateLVQ, Spending
from streamlvq.privacy.budget import NoisePlan
from streamlvq.privacy.ledger import Ledger
from streamlvq.role import RoleStatus
from streamlvq.service.daemon import subscriptions
from streamlvq.service.processor import MessageProcessor
from streamlvq.service.releases import open_ledger
from streamlvq.service.session import SessionTracker, StatusWriter, make_link
from streamlvq.snapshot import Snapshot
from streamlvq.snapshot.statement import PrivacyStatement, SuccessionError
from streamlvq.wrappers import TimeIntegrator
from support.fleet_nodes import SECTION, Node, memory
from support.fleets import FLEET, ROOT
from support.private import FEATURES, FIRST_MODEL, PRIVACY, readings_of
from support.service_doubles import OneLink

SHIFT = {"a": 0.0, "b": 0.5, "c": -0.5}


def config(folder: Path, name: str, broker: str = "private", **fleet: Any) -> Config:
    section = msgspec.structs.replace(SECTION, publish_pause_seconds=0.5, **fleet)
    return check(
        Config(
            broker=Broker(url=f"memory://{broker}", client_id=name),
            readings=ReadingsSection(
                topic=f"plant/{name}/{{device}}/readings",
                features=list(FEATURES),
                label="y",
                time="t",
                sequence="n",
            ),
            model=ModelSection(type="PrivateLVQ"),
            privacy=PrivacySection(**PRIVACY),
            state=StateSection(folder=str(folder)),
            fleet=section,
        )
    )


class PrivateNode(Node):
    """A private monitor in a fleet, run by hand."""

    def __init__(self, config: Config, folder: Path) -> None:
        self.config, self.name = config, config.broker.client_id
        self.registry, self.installed = CollectorRegistry(), []
        self.ledger = open_ledger(config, folder)
        self.fleet = FleetNode(config, folder, self.registry, self.ledger.ledger)
        self.processor = MessageProcessor(Decoder(config), Monitor(config, None, self.ledger))
        self.link = make_link(config, subscriptions(config))
        self.tracker = SessionTracker()
        self.fleet.start(OneLink(self.link), self)

    def learn_private(self, count: int, first: int = 0) -> None:
        topic = f"plant/{self.name}/{{device}}/readings"
        shift = SHIFT.get(self.name, 0.0)
        self.learn(readings_of(count, first=first, topic=topic, shift=shift))

    @property
    def has_fused(self) -> bool:
        """Whether it decides with what all three know."""
        fusion = self.fleet.metrics.fusion
        known = fusion is not None and len(fusion.key) == len(SHIFT)
        return known and self.monitor.serving("") is not None

    def close(self) -> None:
        self.link.close()
        self.ledger.ledger.close()


def published(broker: Any, name: str) -> Snapshot | None:
    found = broker.retained.get(f"{ROOT}/nodes/{name}")
    if found is None:
        return None
    envelope = parse_envelope(found.payload, limit=len(found.payload))
    return Snapshot.from_bytes(envelope.payload)


# --- what is published ---------------------------------------------------------------------------


def test_three_private_nodes_fuse(tmp_path: Path) -> None:
    broker = memory("private")
    nodes = [PrivateNode(config(tmp_path / name, name), tmp_path / name) for name in SHIFT]
    try:
        for node in nodes:
            node.learn_private(FIRST_MODEL + 400)
        end, now = time.monotonic() + 60.0, 100.0
        while not all(each.has_fused for each in nodes):
            assert time.monotonic() < end
            now += 1.0
            for node in nodes:
                node.turn(now)
            time.sleep(0.01)
        snapshots = {name: published(broker, name) for name in SHIFT}
        assert all(each is not None for each in snapshots.values())
        shared = [each for each in snapshots.values() if each is not None]
        for node, snapshot in zip(nodes, shared, strict=True):
            assert not snapshot.has_readings
            assert snapshot.type_name == "GMLVQ"
            assert snapshot.pool_weights is None
            statement = snapshot.privacy
            assert statement is not None
            assert (statement.epsilon, statement.delta) == (4.0, 1e-5)
            assert statement.releases == node.ledger.ledger.releases == 12
            assert bytes.fromhex(statement.head) == node.ledger.ledger.head_at(12)
        expected = fuse(shared)
        for node in nodes:
            serving = node.monitor.serving("")
            assert serving is not None
            model = expected.for_node(node.name)
            x = dict.fromkeys(FEATURES, 0.5)
            assert serving.predict_proba_one(x) == model.predict_proba_one(x)
            assert node.fleet.metrics.record().serving == "fused"
    finally:
        for node in nodes:
            node.close()


def test_what_others_get_says_nothing_of_the_current_batch(tmp_path: Path) -> None:
    """The bytes that a node publishes are the same whatever it read since its last release."""
    broker = memory("private")
    node = PrivateNode(config(tmp_path, "a"), tmp_path)
    node.learn_private(FIRST_MODEL + 40)
    publisher = node.fleet._releases
    assert publisher is not None
    before = publisher.payload(node.monitor.local(""), "a", None)
    node.learn_private(39, first=900)
    assert publisher.payload(node.monitor.local(""), "a", None) == before
    node.turn(100.0)
    assert published(broker, "a") is not None
    node.learn_private(1, first=1000)
    assert publisher.payload(node.monitor.local(""), "a", None) != before
    node.close()


def test_publications_go_by_releases_and_the_clock(tmp_path: Path) -> None:
    broker = memory("private")
    node = PrivateNode(config(tmp_path, "a", publish_after=100), tmp_path)
    node.learn_private(FIRST_MODEL - 1)
    node.turn(100.0)
    assert published(broker, "a") is None
    node.learn_private(1, first=FIRST_MODEL - 1)
    node.turn(101.0)
    first = published(broker, "a")
    assert first is not None
    node.learn_private(119, first=FIRST_MODEL)  # two releases: 80 of at least 100 readings
    node.turn(110.0)
    again = published(broker, "a")
    assert again is not None
    assert again.privacy == first.privacy
    assert node.fleet.metrics.unpublished == 80
    node.learn_private(1, first=FIRST_MODEL + 119)
    node.turn(120.0)
    third = published(broker, "a")
    assert third is not None
    assert third.privacy is not None
    assert third.privacy.releases == 5
    assert third.privacy.earlier == [(2, first.privacy.head if first.privacy else "")]
    node.close()


def test_status_messages_say_nothing_of_readings(tmp_path: Path) -> None:
    memory("private")
    node = PrivateNode(config(tmp_path, "a"), tmp_path)
    node.learn_private(500)
    node.turn(100.0)
    node.fleet.metrics.serving_score = {"local": 0.91, "fused": 0.95, "labels": 500}
    record = RoleStatus(3, 1, node.fleet.metrics.record())
    message = StatusWriter(node.config).message("online", record, readings=500, learnt=500)
    assert message is not None
    said = json.loads(message.payload)
    assert not {"devices", "models", "readings", "learnt"} & said.keys()
    assert said["fleet"]["private"]
    assert not {"standing", "pool"} & said["fleet"].keys()
    assert "500" not in message.payload.decode().replace(str(said["since"]), "")
    node.close()


def test_only_a_private_model_is_published(tmp_path: Path) -> None:
    with Ledger(tmp_path / "l", {"epsilon": 4.0}) as ledger:
        publisher = ReleasePublisher(PrivacySection(**PRIVACY), ledger)
        with pytest.raises(ValueError, match="expected a PrivateLVQ to publish, got GLVQ"):
            publisher.payload(GLVQ(), "a", None)


def test_exhausted_means_that_nothing_is_published_and_decisions_go_on(tmp_path: Path) -> None:
    promise = {**PRIVACY, "horizon": 12}
    with Ledger(tmp_path / "l", {"epsilon": 4.0}) as ledger:
        model = PrivateLVQ(promise)
        model.use_ledger(ledger)
        for message in readings_of(900):
            payload = json.loads(message.payload)
            model.learn_one({name: payload[name] for name in FEATURES}, payload["y"])
        assert model.exhausted is not None
        publisher = ReleasePublisher(PrivacySection(**promise), ledger)
        with pytest.raises(LedgerExhaustedError, match="nothing is published any more"):
            publisher.payload(model, "a", None)
        assert len(model.predict_proba_one(dict.fromkeys(FEATURES, 0.1))) == 3


# --- ledgers that were put back ------------------------------------------------------------------


def ledger_at(path: Path, releases: int) -> Ledger:
    ledger = Ledger(path, {"epsilon": 4.0})
    for number in range(ledger.releases, releases):
        ledger.reserve(number, Spending("a", 4.0, 1e-5, "reading"))
        ledger.record(number, np.frombuffer(os.urandom(16), np.int64))
    return ledger


def said(ledger: Ledger, earlier: list[tuple[int, str]] | None = None) -> PrivacyStatement:
    head = ledger.head_at(ledger.releases)
    assert head is not None
    return PrivacyStatement(
        4.0, 1e-5, "reading", ledger.identity, ledger.releases, head.hex(), earlier or []
    )


def test_a_node_notices_that_its_ledger_was_put_back(tmp_path: Path) -> None:
    with ledger_at(tmp_path / "l", 4) as ledger:
        old = (tmp_path / "l").read_bytes()
    with ledger_at(tmp_path / "l", 7) as ledger:
        statement = said(ledger)
        check_goes_on(ledger, statement)
    (tmp_path / "l").write_bytes(old)
    with (
        ledger_at(tmp_path / "l", 4) as ledger,
        pytest.raises(
            SuccessionError, match=r"at least 7 releases, which were published, got 4: it seems"
        ),
    ):
        check_goes_on(ledger, statement)
    with (
        ledger_at(tmp_path / "l", 9) as ledger,
        pytest.raises(SuccessionError, match="got another history"),
    ):
        check_goes_on(ledger, statement)
    with (
        ledger_at(tmp_path / "m", 9) as ledger,
        pytest.raises(SuccessionError, match="put back the first one"),
    ):
        check_goes_on(ledger, statement)


def envelope(snapshot: Snapshot, statement: PrivacyStatement | None, sequence: int) -> bytes:
    state = snapshot.estimator_state()
    payload = Snapshot(state, "a", readings=False, privacy=statement).to_bytes()
    return seal(payload, Header(FLEET, "a", "snapshot", 1, sequence, 1000.0 + sequence), None)


def test_receivers_notice_that_a_ledger_was_put_back(tmp_path: Path) -> None:
    snapshot = Snapshot.of(learnt_model(), "a", readings=False)
    heads = {n: f"{n:064x}" for n in range(20)}
    say = PrivacyStatement
    name, other = "ab" * 16, "cd" * 16
    first = say(4.0, 1e-5, "reading", name, 5, heads[5], [(3, heads[3])])
    refused = {
        "got 4: it seems that a backup": say(4.0, 1e-5, "reading", name, 4, heads[4]),
        "got another history": say(4.0, 1e-5, "reading", name, 9, heads[9], [(3, heads[3])]),
        "after 5 releases": say(4.0, 1e-5, "reading", name, 5, heads[6]),
        "got cdcdcdcd: a new ledger": say(4.0, 1e-5, "reading", other, 9, heads[9]),
        "by the same ledger": say(5.0, 1e-5, "reading", name, 9, heads[9], [(5, heads[5])]),
    }
    good = say(4.0, 1e-5, "reading", name, 9, heads[9], [(3, heads[3]), (5, heads[5])])
    late = say(4.0, 1e-5, "reading", name, 19, heads[19], [(15, heads[15])])  # cannot be told
    roster = Roster(FLEET, None, max_age_seconds=100.0, folder=tmp_path)
    assert roster.accept("a", envelope(snapshot, first, 1), 1001.0).status == "new"
    for k, (text, statement) in enumerate(refused.items()):
        receipt = roster.accept("a", envelope(snapshot, statement, 2 + k), 1010.0)
        assert (receipt.status, receipt.reason) == ("refused", "ledger")
        assert text in receipt.text
        roster = Roster(FLEET, None, max_age_seconds=100.0, folder=tmp_path)  # it remembers
    assert roster.accept("a", envelope(snapshot, good, 20), 1020.0).status == "new"
    assert roster.accept("a", envelope(snapshot, late, 21), 1021.0).status == "new"
    for again in (roster, Roster(FLEET, None, max_age_seconds=100.0, folder=tmp_path)):
        receipt = again.accept("a", envelope(snapshot, None, 22), 1022.0)
        assert (receipt.status, receipt.reason) == ("refused", "ledger")
        assert "expected a statement of privacy, as in the publication before" in receipt.text
    assert roster.accept("a", envelope(snapshot, None, 200), 1200.0).status == "new"  # forgotten
    forgotten = Roster(FLEET, None, max_age_seconds=5.0)
    assert forgotten.accept("a", envelope(snapshot, first, 1), 1001.0).status == "new"
    begun = refused["got cdcdcdcd: a new ledger"]
    assert forgotten.accept("a", envelope(snapshot, begun, 20), 1020.0).status == "new"


# --- secret states -------------------------------------------------------------------------------


def secret_states() -> dict[str, EstimatorState]:
    """States of private models, as a liar would send them: alone, in wrappers, in other models."""
    blank = PrivateLVQ(PRIVACY)
    trained = PrivateLVQ(PRIVACY)
    messages = [json.loads(each.payload) for each in readings_of(FIRST_MODEL + 40)]
    rows = np.array([[payload[name] for name in FEATURES] for payload in messages])
    trained.learn_array(rows, [payload["y"] for payload in messages], features=FEATURES)
    wrapped = TimeIntegrator(trained, window=3).state()
    committee = LVQCommittee(members={"one": GLVQ(), "other": LGMLVQ()})
    for payload in messages[:60]:
        committee.learn_one({name: payload[name] for name in FEATURES}, payload["y"])
    members = committee.state(readings=False)
    name = next(iter(members.parts))
    return {
        "blank": blank.state(),
        "trained": trained.state(),
        "wrapped": wrapped,
        "member": replace(members, parts={**members.parts, name: trained.state()}),
        "blank member": replace(
            members,
            parameters={
                **members.parameters,
                "members": {**members.parameters["members"], name: blank.blank_state()},
            },
        ),
        "node of an ensemble": EstimatorState("NodeEnsemble", {}, {}, {}, {"a": trained.state()}),
        "candidate": EstimatorState(
            "PoolClassifier",
            {},
            {},
            {"candidates": ["fused hub"]},
            {"candidate0": EstimatorState("NodeEnsemble", {}, {}, {}, {"a": trained.state()})},
        ),
    }


@pytest.mark.parametrize("kind", ["snapshot", "model"])
def test_secret_states_of_others_are_refused_before_anything_is_built(
    kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A short snapshot of a private model would take a minute to plan its noise."""
    payloads = {
        name: Snapshot(state, "a", readings=False).to_bytes()
        for name, state in secret_states().items()
    }

    def plan(*_: Any) -> None:
        raise AssertionError("the noise of a stranger's model is planned")

    monkeypatch.setattr(NoisePlan, "of", plan)
    roster = Roster(FLEET, None, max_age_seconds=100.0, kind=kind)
    for k, (name, payload) in enumerate(payloads.items()):
        data = seal(payload, Header(FLEET, "a", kind, 1, 1 + k, 1000.0), None)
        receipt = roster.accept("a", data, 1001.0)
        assert (receipt.status, receipt.reason) == ("refused", "values"), name
        assert "expected a released model, got the secret state of a PrivateLVQ" in receipt.text


def test_status_goes_on_whatever_is_sent(tmp_path: Path) -> None:
    """A secret state on a node's topic is a refusal, not a traceback."""
    node = config(tmp_path, "b")
    messages = [
        Message(
            f"{ROOT}/nodes/a",
            seal(
                Snapshot(state, "a", readings=False).to_bytes(),
                Header(FLEET, "a", "snapshot", 1, 1, time.time()),
                None,
            ),
            0.0,
        )
        for state in secret_states().values()
    ]
    for message in messages:
        status = evaluate(node, [message], time.time())
        assert not status.nodes
        assert any("secret state" in line for line in words(status))


def test_an_own_snapshot_can_be_looked_at() -> None:
    """A private model counts no class exactly; its snapshot says so instead of failing."""
    for name in ("blank", "trained"):
        snapshot = Snapshot(secret_states()[name], "a")
        assert snapshot.counts == {}
        assert snapshot.means == snapshot.spreads == snapshot.seen
        assert list(snapshot.means) == list(snapshot.labels)
        assert (snapshot.prototypes, snapshot.relevances) == ([], {})
    assert snapshot.samples == FIRST_MODEL + 40


def learnt_model() -> Any:
    model = GLVQ()
    for message in readings_of(60):
        payload = json.loads(message.payload)
        model.learn_one({name: payload[name] for name in FEATURES}, payload["y"])
    return model


# --- what people are told ------------------------------------------------------------------------


def test_fleet_status_names_the_guarantee(tmp_path: Path) -> None:
    broker = memory("private")
    node = PrivateNode(config(tmp_path, "a"), tmp_path)
    node.learn_private(FIRST_MODEL)
    node.turn(100.0)
    messages = [Message(topic, m.payload, 0.0) for topic, m in broker.retained.items()]
    status = evaluate(node.config, messages, time.time())
    text = "\n".join(words(status))
    ledger = node.ledger.ledger.identity[:8]
    assert (
        f"private a: (4, 1e-05)-private for each reading, after 2 releases of ledger {ledger}"
        in " ".join(text.split())
    )
    node.close()
