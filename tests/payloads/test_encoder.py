"""What is sent: decisions, and reports about messages that were refused."""

from __future__ import annotations

import base64
import json
import math
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamlvq.config import Config, DecisionsSection, ModelSection, ReadingsSection
from streamlvq.connect import Message, Outgoing
from streamlvq.events import DecisionRecord, Decisions, Refused
from streamlvq.payloads import Decoder, Encoder, dead_letter
from streamlvq.topics import TemplateError


def decisions_of(devices: list[str], **columns: Any) -> Decisions:
    n = len(devices)
    given: dict[str, Any] = {
        "classes": ("ok", "worn"),
        "devices": devices,
        "groups": [""] * n,
        "times": [1.7e9 + i for i in range(n)],
        "sequences": list(range(n)),
        "true_labels": [None] * n,
        "codes": np.zeros(n, dtype=np.int64),
        "certainties": np.full(n, 0.5),
        "thresholds": np.full(n, 0.25),
        "accepted": np.ones(n, dtype=np.bool_),
        "reasons": [None] * n,
        "novelties": np.full(n, np.nan),
        "outliers_by": [None] * n,
        "probabilities": np.tile([0.75, 0.25], (n, 1)),
        "models": ["local"] * n,
        "versions": np.arange(n),
        "duplicates": [False] * n,
        "sources": list(range(n)),
    }
    return Decisions(**(given | columns))


def encoder_of(per: str = "all", readings: str | None = None, **section: Any) -> Encoder:
    topic = readings or "sensors/{device}/readings"
    return Encoder(
        Config(
            decisions=DecisionsSection(**section),
            model=ModelSection(per=per),
            readings=ReadingsSection(topic=topic),
        )
    )


def sent(outgoing: list[Outgoing]) -> list[dict[str, Any]]:
    return [json.loads(message.payload) for message in outgoing]


# --- decisions -----------------------------------------------------------------------------------


def test_a_decision_says_all_that_is_known() -> None:
    decisions = decisions_of(
        ["a"],
        codes=np.array([1]),
        accepted=np.array([False]),
        reasons=["outlier"],
        novelties=np.array([0.9999994]),
        outliers_by=["novelty"],
        certainties=np.array([0.123456789]),
        probabilities=np.array([[1 / 3, 2 / 3]]),
        duplicates=[True],
    )
    [message] = encoder_of(qos=1, retain=True).encode(decisions)
    assert message[0] == "sensors/a/decision"
    assert message[2:] == (1, True)
    assert sent([message]) == [
        {
            "device": "a",
            "label": "worn",
            "accepted": False,
            "reason": "outlier",
            "outlier_by": "novelty",
            "certainty": 0.123457,
            "threshold": 0.25,
            "novelty": 0.999999,
            "probabilities": {"ok": 0.333333, "worn": 0.666667},
            "t": 1.7e9,
            "sequence": 0,
            "model": "local",
            "version": 0,
            "duplicate": True,
        }
    ]


def test_it_is_the_record_of_the_decision() -> None:
    decisions = decisions_of(["a", "b", "a"], codes=np.array([0, 1, -1]), classes=(3, True))
    records = [
        msgspec.json.decode(message.payload, type=dict[str, Any])
        for message in encoder_of().encode(decisions)
    ]
    assert records == [msgspec.to_builtins(record) for record in decisions.records()]
    fields = [field.name for field in msgspec.structs.fields(DecisionRecord)]
    assert all(list(record) == fields for record in records)  # also in their order


def test_nothing_is_certain_yet() -> None:
    decisions = decisions_of(
        ["a", "b", "c"],
        codes=np.array([-1, 0, 0]),
        thresholds=np.array([math.nan, math.inf, -math.inf]),
        certainties=np.array([math.nan, 0.5, 1.0]),
        probabilities=np.array([[math.nan, math.nan], [1.0, math.nan], [0.5, 0.5]]),
        times=[None, None, 1.5],
        sequences=[None, None, 1],
        reasons=["no_model", None, None],
    )
    first, second, third = sent(encoder_of().encode(decisions))
    assert (first["label"], first["certainty"], first["probabilities"]) == (None, 0.0, {})
    assert [first["threshold"], second["threshold"], third["threshold"]] == [None] * 3
    assert second["probabilities"] == {"ok": 1.0}
    assert third["probabilities"] == {"ok": 0.5, "worn": 0.5}
    assert (first["t"], first["sequence"], third["t"]) == (None, None, 1.5)


@pytest.mark.parametrize(
    ("classes", "keys"),
    [
        ((1, 2), ["1", "2"]),
        ((True, "a"), ["True", "a"]),
        (('say "hi"', "back\\slash"), ['say "hi"', "back\\slash"]),
        (("", "ü\n"), ["", "ü\n"]),
        ((("a", 1), 2.5), ["('a', 1)", "2.5"]),
        ((1, "1"), ["1"]),
    ],
)
def test_classes_of_all_kinds_can_be_said(classes: tuple[Any, ...], keys: list[str]) -> None:
    [record] = sent(encoder_of().encode(decisions_of(["a"], classes=classes)))
    assert list(record["probabilities"]) == keys


def test_names_that_utf8_cannot_say_do_not_stop_the_others() -> None:
    decisions = decisions_of(["a\udcff", "b"], classes=("ok\udc80", "worn"))
    first, second = encoder_of().encode(decisions)
    assert json.loads(first.payload)["device"] == "a?"
    assert json.loads(second.payload)["probabilities"] == {"ok?": 0.75, "worn": 0.25}
    first.topic.encode()


def test_no_topic_no_messages() -> None:
    assert encoder_of(topic=None).encode(decisions_of(["a"])) == []
    assert encoder_of().encode(decisions_of([])) == []


# --- topics --------------------------------------------------------------------------------------


def test_no_name_breaks_a_topic() -> None:
    names = ["a/b", "#", "+", "", "$SYS", "\x00", "x" * 5000]
    topics = [message.topic for message in encoder_of(topic="{device}").encode(decisions_of(names))]
    assert len(set(topics)) == len(names)
    for topic in topics:
        assert topic
        assert not set(topic) & set("/#+\x00 ")
        assert not topic.startswith("$")
        assert len(topic) < 2000


def test_a_decision_goes_where_the_reading_came_from() -> None:
    readings = "plant/{site}/{line}/{device}/readings"
    encoder = encoder_of(readings=readings, topic="plant/{site}/{device}/decision")
    decisions = decisions_of(["york/1/a b", "leeds/1/a b"])
    for _ in range(2):  # also when the topics are known
        topics = [message.topic for message in encoder.encode(decisions)]
        assert topics == ["plant/york/a%20b/decision", "plant/leeds/a%20b/decision"]


def test_sites_with_odd_names_keep_them() -> None:
    readings = "plant/{site}/{device}/readings"
    config = Config(
        readings=ReadingsSection(topic=readings),
        decisions=DecisionsSection(topic="plant/{site}/{device}/decision"),
    )
    messages = [Message("plant/new%20york/a%2Fb/readings", b'{"x": 1}', 1.0)]
    [event] = Decoder(config).decode(messages).events
    decisions = decisions_of(event.devices)  # type: ignore[union-attr]
    [message] = Encoder(config).encode(decisions)
    assert message.topic == "plant/new%20york/a%2Fb/decision"
    assert sent([message])[0]["device"] == "new york/a%2Fb"


@pytest.mark.parametrize(("name", "value"), [("site", "leeds"), ("device", "a")])
def test_a_topic_may_hold_some_of_the_names(name: str, value: str) -> None:
    encoder = encoder_of(readings="plant/{site}/{device}", topic=f"out/{{{name}}}/{{client_id}}")
    [message] = encoder.encode(decisions_of(["leeds/a"]))
    assert message.topic == f"out/{value}/streamlvq"


def test_a_device_that_a_file_names_has_no_site() -> None:
    encoder = encoder_of(readings="plant/{site}/{device}", topic="out/{site}/{device}")
    assert encoder.encode(decisions_of(["a"]))[0].topic == "out/%/a"


def test_devices_of_the_same_name_at_two_sites_change_by_themselves() -> None:
    encoder = encoder_of(
        readings="plant/{site}/{device}", topic="out/{site}/{device}", when="change"
    )
    devices = ["leeds/a", "york/a", "leeds/a", "york/a"]
    said = encoder.encode(decisions_of(devices, codes=np.array([0, 1, 0, 1])))
    assert [message.topic for message in said] == ["out/leeds/a", "out/york/a"]


def test_placeholders_that_nobody_fills_are_said_at_once() -> None:
    with pytest.raises(TemplateError, match="got town in the topic of decisions"):
        encoder_of(topic="x/{town}/{device}")


# --- when ----------------------------------------------------------------------------------------


def test_only_rejections() -> None:
    decisions = decisions_of(["a", "b", "c"], accepted=np.array([True, False, False]))
    assert [r["device"] for r in sent(encoder_of(when="rejection").encode(decisions))] == ["b", "c"]


def test_only_changes() -> None:
    encoder = encoder_of(when="change")
    first = decisions_of(["a", "a", "b", "a"], codes=np.array([0, 0, 0, 1]))
    assert [r["sequence"] for r in sent(encoder.encode(first))] == [0, 2, 3]
    again = decisions_of(
        ["a", "b", "b", "b"],
        codes=np.array([1, 0, 0, 0]),
        accepted=np.array([True, True, False, False]),
        reasons=[None, None, "outlier", "ambiguous"],
    )
    assert [r["sequence"] for r in sent(encoder.encode(again))] == [2, 3]
    other = encoder_of(when="change")  # one that knows nothing says it once more
    assert [r["sequence"] for r in sent(other.encode(again))] == [0, 1, 2, 3]


def test_changes_are_said_again_where_they_may_have_been_lost() -> None:
    encoder = encoder_of(when="change")
    same = decisions_of(["a", "a"], duplicates=[False, True])
    assert [r["sequence"] for r in sent(encoder.encode(same))] == [0, 1]
    assert encoder.encode(decisions_of(["a"])) == []
    encoder.forget()  # as after a new connection
    assert len(encoder.encode(decisions_of(["a"]))) == 1


def test_what_was_said_last_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamlvq.payloads.encoder.TOPIC_CACHE_SIZE", 100)
    encoder = encoder_of(when="change")
    for i in range(1000):
        assert len(encoder.encode(decisions_of([f"pump{i}"]))) == 1
    assert len(encoder._last_sent) <= 100
    assert len(encoder._topics) <= 100
    assert encoder.encode(decisions_of(["pump999"])) == []
    assert len(encoder.encode(decisions_of(["pump0"]))) == 1


def test_batches_do_not_matter_to_changes() -> None:
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 2, 60)
    devices = [f"d{i}" for i in rng.integers(0, 3, 60)]
    whole = sent(encoder_of(when="change").encode(decisions_of(devices, codes=codes)))
    encoder = encoder_of(when="change")
    parts: list[tuple[str, str]] = []
    for i in range(60):
        one = decisions_of([devices[i]], codes=codes[i : i + 1])
        parts += [(r["device"], r["label"]) for r in sent(encoder.encode(one))]
    assert parts == [(r["device"], r["label"]) for r in whole]


# --- dead letters --------------------------------------------------------------------------------


def test_a_dead_letter_says_what_came_and_why_it_was_refused() -> None:
    message = Message("sensors/a/readings", '{"x": "heiß"}'.encode(), 5.5, True)
    assert json.loads(dead_letter(message, Refused(0, "field", "x: expected a number"))) == {
        "reason": "field",
        "text": "x: expected a number",
        "topic": "sensors/a/readings",
        "received": 5.5,
        "redelivered": True,
        "size": 14,
        "encoding": "utf-8",
        "payload": '{"x": "heiß"}',
    }


def test_bytes_that_are_no_text_come_back_whole() -> None:
    letter = json.loads(dead_letter(Message("t", b"\xff\x00", 1.0), Refused(0, "payload", "")))
    assert letter["encoding"] == "base64"
    assert base64.b64decode(letter["payload"]) == b"\xff\x00"


def test_a_long_payload_is_cut_between_characters() -> None:
    long = b"x" + "ü".encode() * 100_000  # the cut would be in the middle of one
    letter = json.loads(dead_letter(Message("t", long, 1.0), Refused(0, "payload", "")))
    assert letter["size"] == 200_001
    assert letter["encoding"] == "utf-8"
    assert letter["payload"] == "x" + "ü" * 8191


@settings(max_examples=100, deadline=None)
@given(st.text(st.characters()), st.binary(max_size=50), st.text(st.characters()))
def test_any_message_can_be_reported(topic: str, payload: bytes, text: str) -> None:
    letter = json.loads(dead_letter(Message(topic, payload, 1.0), Refused(0, "payload", text)))
    if letter["encoding"] == "utf-8":
        assert letter["payload"].encode() == payload
    else:
        assert base64.b64decode(letter["payload"]) == payload
