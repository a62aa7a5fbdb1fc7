"""`streamlvq fleet status`: what it shows of a fleet, and in how much room."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from streamlvq.cli import main
from streamlvq.cli.commands.fleet import words
from streamlvq.config import StatusSection
from streamlvq.connect import Message
from streamlvq.fleet import Header, seal
from streamlvq.fleet.metrics import FleetRecord, PoolRecord
from streamlvq.fleet.status import (
    FleetStatus,
    NodeStatus,
    Presence,
    RefusedMessage,
    evaluate,
    parse_presence,
    status_filter,
)
from streamlvq.models import GLVQ
from streamlvq.models.pool import PoolWeights
from streamlvq.role import RoleStatus
from streamlvq.service.session import StatusWriter
from streamlvq.snapshot import Snapshot
from support.fleet_nodes import config, learnt, sealed
from support.fleets import FLEET, NAMES, ROOT, fused_in_memory


@pytest.fixture(scope="module")
def snapshots() -> dict[str, Snapshot]:
    return {name: learnt(name) for name in NAMES}


def node(name: str = "oven-3", **values: Any) -> NodeStatus:
    given = {"age": 100.0, "bytes": 20_000, "samples": 60, "counts": {"ok": 30, "worn": 30}}
    return NodeStatus(node=name, features=4, **{**given, **values})


def shown(*nodes: NodeStatus, **values: Any) -> list[str]:
    return list(words(FleetStatus(fleet="ovens", nodes=list(nodes), **values)))


# --- who is there --------------------------------------------------------------------------------


def say(name: str, state: Any = "online", **fleet: Any) -> Message:
    """As the node itself would."""
    status = StatusWriter(config(name=name))
    record = FleetRecord(name=FLEET, node=name, role="peer", **fleet) if fleet else None
    message = status.message(state, RoleStatus(fleet=record))
    assert message is not None
    return Message(message.topic, message.payload, 0.0)


def test_nodes_say_whether_they_are_there_and_who_decides() -> None:
    wanted = config()
    assert status_filter(wanted) == "streamlvq/+/status"
    will = StatusWriter(config(name="c")).will()
    assert will is not None
    other = StatusWriter(config(name="x"))._fleet
    assert other is not None
    strangers = [
        Message("streamlvq/y/status", b"rubbish", 0.0),
        Message("streamlvq/z/status", b'{"state": "somewhere"}', 0.0),
        Message("streamlvq/w/status", b'{"state": "online"}', 0.0),
        Message("streamlvq/v/status", b" " * 2**21, 0.0),
        Message("elsewhere", say("a").payload, 0.0),
        Message(
            "streamlvq/x/status",
            msgspec.json.encode({"state": "online", "fleet": {"name": "kilns", "node": "x"}}),
            0.0,
        ),
    ]
    pool = PoolRecord(
        weights={"fused none": 0.5, "local": 0.25, "mine " + "x" * 99: 9.0, "unseen": 0.1},
        losses={"local": 0.5, "pool": 0.25, "x": 1.0},
        records=40,
        dropped=["ensemble none", "nonsense"],
    )
    said = [
        say("a", serving="fused"),
        say("b", serving="local", pool=pool),  # it does not decide, so what it weighs is nothing
        say("d", serving="pool", pool=pool),
        *strangers,
    ]
    found = parse_presence(wanted, [*said, Message(will.topic, will.payload, 0.0)])
    assert found == {
        "a": Presence("online", "fused"),
        "b": Presence("online", "local"),
        "d": Presence(
            "online",
            "pool",
            pool=PoolRecord(
                weights={"fused none": 0.5, "local": 0.25, "unseen": 0.1},
                losses={"local": 0.5, "pool": 0.25},
                records=40,
                dropped=["ensemble none"],
            ),
        ),
        "c": Presence("offline", None),  # the broker said so in its name
    }
    silent = msgspec.structs.replace(wanted, status=StatusSection(topic=None))
    assert status_filter(silent) is None
    assert parse_presence(silent, said) == {}


def test_a_look_shows_who_decides(snapshots: dict[str, Snapshot]) -> None:
    now = time.time()
    messages = [
        *(Message(f"{ROOT}/nodes/{name}", sealed(snapshots[name]), now) for name in NAMES),
        say("a", serving="fused"),
        say("b", "offline"),
        say("d", serving="local"),
        say("e", "offline"),
    ]
    status = evaluate(config(), messages, now)
    assert [(each.state, each.decides) for each in status.nodes] == [
        ("online", "fused"),
        ("offline", None),
        (None, None),
    ]
    rows = {line.split()[0]: line.split() for line in words(status) if line}
    assert rows["node"][1:3] == ["state", "decides"]
    assert rows["a"][1:3] == ["online", "fleet"]
    assert rows["b"][1] == "offline"
    assert status.silent == ["d"]
    assert "online without a snapshot that is believed: d" in words(status)


def test_a_look_shows_who_is_weighed_how_and_why(snapshots: dict[str, Snapshot]) -> None:
    now = time.time()
    weights = PoolWeights({"personal none": 1.0, "mine": 2.0}, 0.5, 0.25)
    state = snapshots["b"].estimator_state()
    telling = {**snapshots, "b": Snapshot(state, "b", readings=False, weights=weights)}
    pool = PoolRecord(
        weights={"fused none": 0.5, "local": 0.25, "unseen": 0.1},
        losses={"local": 0.5, "pool": 0.25},
        records=40,
        dropped=["ensemble none"],
    )
    messages = [
        *(Message(f"{ROOT}/nodes/{name}", sealed(telling[name]), now) for name in NAMES),
        say("a", serving="pool", pool=pool),
        say("c", serving="pool", pool=PoolRecord(weights={"local": 1.0, "unseen": 0.0})),
    ]
    status = evaluate(config(), messages, now)
    lines = [" ".join(line.split()) for line in words(status)]
    assert [line for line in lines if line.startswith("weights")] == [
        "weights a: fused none 0.50, local 0.25, unseen 0.10 (log loss 0.500 alone, 0.250 "
        "together; judged on 40 readings; without ensemble none)",
        "weights b: personal none 1.00, local 0.50, unseen 0.25 (as it tells others)",
        "weights c: local 1.00, unseen 0.00 (no readings to judge by)",
    ]
    assert "note too few nodes to tell a mistake from the truth about worn" in lines
    rows = {line.split()[0]: line.split() for line in lines if line}
    assert rows["a"][2] == "pool"
    assert msgspec.json.decode(msgspec.json.encode(status))["nodes"][0]["pool"]["records"] == 40


def test_a_look_shows_which_nodes_are_alike() -> None:
    now = time.time()
    swapped = {"hot": "worn", "worn": "hot"}
    messages = []
    for k in range(7):
        model, random = GLVQ(), np.random.default_rng(k)
        for n in range(150):
            y = ("ok", "hot", "worn")[n % 3]
            x = {f"x{i}": 2.0 * (n % 3) + 0.5 * float(random.normal()) for i in range(4)}
            model.learn_one(x, swapped.get(y, y) if k > 4 else y)
        snapshot = Snapshot.of(model, f"n{k}", readings=False)
        messages.append(Message(f"{ROOT}/nodes/n{k}", sealed(snapshot), now))
    status = evaluate(config(), messages, now)
    assert status.alike == [["n0", "n1", "n2", "n3", "n4"], ["n5", "n6"]]
    assert any("n5 and n6 decide the classes" in line for line in words(status))


@pytest.mark.parametrize("role", ["member", "hub", "peer"])
def test_what_the_hub_gave_is_what_was_gained(role: str, snapshots: dict[str, Snapshot]) -> None:
    """The hub's model for c knows all classes; that for nobody else is there."""
    now = time.time()
    names = {"hub": "hub"} if role == "member" else {}
    wanted = config(name="hub" if role == "hub" else "a", role=role, **names)
    given = [Message(f"{ROOT}/nodes/{name}", sealed(snapshots[name]), now) for name in NAMES]
    by_itself = evaluate(wanted, given, now).nodes[2].gained
    assert by_itself == (("worn",) if role == "peer" else ())
    header = Header(FLEET, "c", "model", 1, 1, now, author="hub")
    model = fused_in_memory(snapshots.values())["c"]
    message = Message(f"{ROOT}/models/c", seal(model, header, None), now)
    assert evaluate(wanted, [*given, message], now).nodes[2].gained == ("worn",)
    # One that withholds the class: here, what c knows already.
    poor = Message(f"{ROOT}/models/c", seal(snapshots["c"].to_bytes(), header, None), now)
    assert evaluate(wanted, [*given, poor], now).nodes[2].gained == ()


# --- room ----------------------------------------------------------------------------------------


def test_columns_that_say_nothing_are_left_out() -> None:
    lines = shown(node())
    assert lines[0] == "fleet 'ovens', as the broker retains it:"
    assert lines[2].split() == ["node", "fresh", "samples", "classes", "size"]
    assert not any("deviations" in line for line in lines)


def test_a_table_fits_as_long_as_it_can() -> None:
    full = {
        "state": "online",
        "decides": "fused",
        "drift": 1.25,
        "residual": 0.5,
        "model_age": 30.0,
        "hub": "hub",
        "gained": ("hot",),
    }
    few = shown(node(**{**full, "model_age": None, "hub": None}))
    assert max(map(len, few)) <= 80
    assert few[2].split()[-2:] == ["off", "by"]  # room for no more
    assert "ok 30, worn 30 (+ hot)" in few[3]
    many = shown(node(**full, counts={f"class {k}": k for k in range(12)}))
    assert max(map(len, many[:4])) <= 80
    assert "12 (+ 1)" in many[3]
    [named] = [line for line in many if line.startswith("classes")]
    assert named.endswith("class 11 11 (+ hot)")
    long = shown(node("n" * 120, **full))
    assert "12" not in long[2]
    assert "decides" in long[2].split()
    assert "size" not in long[2].split()


def test_nothing_is_said_twice() -> None:
    clipped = "its counts were capped at a third"
    lines = shown(
        node(clipped=(clipped, "something else"), notes=("something else",)),
        node("oven-4", left_out="it is too far from all others"),
        warnings=[
            f"oven-3: {clipped}",
            "oven-4 was left out: it is too far from all others",
            f"oven-3: {clipped}",
        ],
    )
    text = "\n".join(lines)
    assert text.count(clipped) == 1
    assert text.count("too far from all others") == 1
    assert "note         oven-3: something else" in lines


def test_what_does_not_belong_there_can_be_cleared() -> None:
    topic = f"{ROOT}/nodes/stranger"
    lines = shown(node(), refused=[RefusedMessage(topic, "malformed", "expected an envelope")])
    assert lines[-1].endswith(f"`mosquitto_pub -r -n -t '{topic}'`")
    lines = shown(node(), refused=[RefusedMessage(topic, "old", "expected less")])
    assert not any(line.startswith("hint") for line in lines)
    lines = shown(node(), refused=[RefusedMessage(topic, "unknown_key", "expected a key")] * 2)
    assert sum(line.startswith("hint") for line in lines) == 1


def test_a_host_that_nobody_knows_is_said_once(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "node.yaml"
    file.write_text(
        "broker: {url: 'mqtt://nobody.invalid:1883'}\nfleet: {name: ovens, trust: everyone}\n"
    )
    assert main(["fleet", "status", str(file), "--wait", "0.3"]) == 2
    err = capfd.readouterr().err
    assert err.count("nobody.invalid") == 1
    assert len(err.splitlines()) == 1
    assert caplog.text == ""
