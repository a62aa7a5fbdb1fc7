"""The decoder: from messages to events, whatever else is in the batch."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from itertools import pairwise
from typing import Any
from zlib import crc32

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamlvq.config import (
    Broker,
    Config,
    LabelsSection,
    ModelSection,
    ReadingsSection,
    ShardSection,
)
from streamlvq.connect import Message
from streamlvq.events import DedupWindow, LateLabel, Readings, Refused
from streamlvq.payloads import Decoded, Decoder, FieldsError, group_of
from streamlvq.payloads.routing import (
    TOPIC_CACHE_SIZE,
    DeviceIdentity,
    Routes,
    message_keys,
    stable_hash,
)

LABELS = LabelsSection(topic="plant/{site}/{device}/label", sequence="n", time="t")


def config_of(labels: LabelsSection | None = LABELS, per: str = "all", **readings: Any) -> Config:
    readings = {"topic": "plant/{site}/{device}/readings", "sequence": "n"} | readings
    return Config(readings=ReadingsSection(**readings), labels=labels, model=ModelSection(per=per))


def message(device: str, at: float = 1.7e9, redelivered: bool = False, **values: Any) -> Message:
    topic = f"plant/leeds/{device}/readings"
    return Message(topic, json.dumps(values).encode(), at, redelivered)


def label(device: str, **values: Any) -> Message:
    return Message(f"plant/leeds/{device}/label", json.dumps(values).encode(), 1.7e9)


def readings_in(decoded: Decoded) -> list[Readings]:
    return [event for event in decoded.events if isinstance(event, Readings)]


def flat(decoded: Decoded, start: int = 0) -> list[tuple[Any, ...]]:
    """Every event and refusal by itself, in an order that does not depend on batches."""
    found: list[tuple[Any, ...]] = []
    for event in decoded.events:
        if isinstance(event, LateLabel):
            found.append(("label", *event._replace(source=0), event.source + start))
            continue
        columns = (event.devices, event.groups, event.labels, event.times, event.sequences)
        rows = zip(
            event.rows.tolist(),
            *columns,
            event.keys,
            event.dedup_windows,
            event.sources,
            strict=True,
        )
        found += [("reading", event.features, *row[:-1], row[-1] + start) for row in rows]
    found += [("refused", r.reason, r.text, r.source + start) for r in decoded.refused]
    return [tuple(map(repr, item)) for item in sorted(found, key=lambda item: item[-1])]


# --- order and columns ---------------------------------------------------------------------------


def test_readings_with_the_same_features_are_one_event() -> None:
    batch = [message(f"pump{i % 3}", at=1.7e9 + i, x=i, y=-i, n=i) for i in range(20)]
    for features in (["x", "y"], None):
        decoded = Decoder(config_of(features=features)).decode(batch)
        [event] = readings_in(decoded)
        assert event.features == ("x", "y")
        assert event.rows.tolist() == [[i, -i] for i in range(20)]
        assert event.rows.flags.c_contiguous
        assert event.rows.flags.writeable
        assert event.devices == [f"leeds/pump{i % 3}" for i in range(20)]
        assert event.groups == [""] * 20
        assert event.labels == [None] * 20
        assert event.times == [1.7e9 + i for i in range(20)]
        assert event.sequences == event.sources == list(range(20))
        assert event.dedup_windows == [DedupWindow.RECENT] * 20
        assert len(set(event.keys)) == 20
        assert not decoded.refused
        assert decoded.skipped == 0


def test_events_keep_the_order_of_messages() -> None:
    batch = [
        message("a", x=1, n=1),
        message("a", x=2, n=2),
        label("a", n=1, label="ok"),
        message("a", x=3, y=1, n=3),
        message("b", x=4, n=4),
        label("b", n=4, label="worn"),
        label("b", t=5.5, label=7),
        message("b", x=5, n=5),
    ]
    decoded = Decoder(config_of()).decode(batch)
    shapes = [e.sources if isinstance(e, Readings) else e.source for e in decoded.events]
    assert shapes == [[0, 1], 2, [3], [4], 5, 6, [7]]
    late = [event for event in decoded.events if isinstance(event, LateLabel)]
    assert [event[:6] for event in late] == [
        ("leeds/a", "", "ok", None, 1, 2),
        ("leeds/b", "", "worn", None, 4, 5),
        ("leeds/b", "", 7, 5.5, None, 6),
    ]


def test_features_may_change_inside_a_batch() -> None:
    batch = [message("a", x=i, **({"y": i} if i % 10 >= 5 else {})) for i in range(40)]
    events = readings_in(Decoder(config_of()).decode(batch))
    assert [event.features for event in events] == [("x",), ("x", "y")] * 4
    assert [source for event in events for source in event.sources] == list(range(40))
    assert [row[0] for event in events for row in event.rows.tolist()] == list(range(40))


def test_shapes_that_take_turns_keep_their_order() -> None:
    shapes: list[dict[str, int]] = [{"x": 1}, {"y": 2}, {"x": 1, "y": 2}]
    for order in ([0, 1], [0, 0, 1, 2], [2, 1, 0, 0, 1]):
        decoder = Decoder(config_of(device="d"))
        for size in (1, 7, 60):
            chosen = [shapes[order[i % len(order)]] for i in range(size)]
            batch = [message(f"p{i}", n=i, **shape) for i, shape in enumerate(chosen)]
            events = readings_in(decoder.decode(batch))
            assert [s for event in events for s in event.sources] == list(range(size))
            assert [n for event in events for n in event.sequences] == list(range(size))
            assert [d for e in events for d in e.devices] == [f"leeds/p{i}" for i in range(size)]
            for before, after in pairwise(events):
                assert before.features != after.features
            for event in events:
                for row, source in zip(event.rows.tolist(), event.sources, strict=True):
                    assert dict(zip(event.features, row, strict=True)) == chosen[source]


def test_more_features_than_a_model_may_have_are_refused() -> None:
    config = msgspec.structs.replace(config_of(), model=ModelSection(max_features=100))
    batch = [message("a", **{f"x{i}": i for i in range(n)}) for n in (100, 101, 5000)]
    decoded = Decoder(config).decode(batch)
    assert [event.sources for event in readings_in(decoded)] == [[0]]
    expected = "expected at most 100 features (model.max_features), got "
    assert decoded.refused == [
        Refused(1, "model", f"{expected}101", "features"),
        Refused(2, "model", f"{expected}5000", "features"),
    ]


def test_nothing_comes_of_nothing() -> None:
    assert Decoder(Config()).decode([]) == Decoded()


def test_any_sequence_of_messages_will_do() -> None:
    batch = (message("a", x=1), message("b", x=2))
    assert len(readings_in(Decoder(config_of()).decode(batch))[0]) == 2


# --- times ---------------------------------------------------------------------------------------


def test_the_time_is_the_payload_s_else_when_it_was_received() -> None:
    batch = [message("a", at=50.0, x=1, t=2.5), message("a", at=51.0, x=2)]
    [event] = readings_in(Decoder(config_of(time="t", features=["x"])).decode(batch))
    assert event.times == [2.5, 51.0]
    [event] = readings_in(Decoder(config_of(features=["x"])).decode(batch))
    assert event.times == [50.0, 51.0]


def test_a_row_of_a_file_may_have_no_time() -> None:
    batch = [Message("", b'{"x": 1}', 0.0), Message("", b'{"x": 2, "t": 3}', 0.0)]
    [event] = readings_in(Decoder(config_of(time="t", features=["x"])).decode(batch))
    assert event.times == [None, 3.0]


# --- groups, devices, shards ---------------------------------------------------------------------


@pytest.mark.parametrize(("per", "group"), [("all", ""), ("device", "leeds/a"), ("site", "leeds")])
def test_the_group_is_the_model_s(per: str, group: str) -> None:
    config = config_of(per=per)
    decoded = Decoder(config).decode([message("a", x=1), label("a", n=1, label="ok")])
    reading, late = decoded.events
    assert isinstance(reading, Readings)
    assert isinstance(late, LateLabel)
    assert reading.groups == [group]
    assert late.group == group
    assert group_of(config)("leeds/a", {"site": "leeds"}) == group


def test_the_device_may_be_a_field() -> None:
    config = config_of(per="device", topic="all", device="who.name", features=["x"])
    names = ["pump", 7, "x y"]
    batch = [Message("all", json.dumps({"x": 1, "who": {"name": n}}).encode(), 1.0) for n in names]
    batch.append(Message("all", b'{"x": 1}', 1.0))
    decoded = Decoder(config).decode(batch)
    [event] = readings_in(decoded)
    assert event.devices == event.groups == ["pump", "7", "x y"]
    assert decoded.refused == [
        Refused(3, "device", "who.name: expected a device's name, got nothing", "field")
    ]


def test_a_field_goes_before_the_topic() -> None:
    batch = [message("a", x=1, d="b"), message("a", x=1), message("a", x=1, d="")]
    decoded = Decoder(config_of(device="d", features=["x"])).decode(batch)
    assert readings_in(decoded)[0].devices == ["leeds/b", "leeds/a"]
    assert decoded.refused[0][:2] == (2, "device")


def test_rows_of_files_have_a_device_too() -> None:
    rows = [Message("", b'{"x": 1, "d": "pump"}', 0.0)]
    for device, name in ((None, "device"), ("d", "pump")):
        [event] = readings_in(Decoder(config_of(device=device, per="device")).decode(rows))
        assert event.devices == event.groups == [name]


def test_names_in_topics_are_as_they_were_before_they_were_cleaned() -> None:
    batch = [message("pump%207%2Fnorth", x=1), message("100%", x=1), message("%FF", x=1)]
    [event] = readings_in(Decoder(config_of()).decode(batch))
    assert event.devices == ["leeds/pump 7%2Fnorth", "leeds/100%25", "leeds/%25FF"]
    batch = [Message(one.topic.replace("leeds/", ""), *one[1:]) for one in batch]
    [event] = readings_in(Decoder(config_of(topic="plant/{device}/readings")).decode(batch))
    assert event.devices == ["pump 7/north", "100%", "%FF"]


@pytest.mark.parametrize("by_field", [False, True])
def test_devices_of_the_same_name_at_two_sites_are_two(by_field: bool) -> None:
    labels = LabelsSection(topic="say/{device}/{site}", sequence="n")
    config = config_of(labels=labels, per="device", device="d" if by_field else None)
    batch = [
        Message(f"plant/{site}/{'x' if by_field else 'a'}/readings", b'{"x":1,"n":1,"d":"a"}', 1.0)
        for site in ("leeds", "york")
    ]
    batch += [Message(f"say/a/{site}", b'{"n":1,"label":2}', 1.0) for site in ("leeds", "york")]
    reading, *late = Decoder(config).decode(batch).events
    assert isinstance(reading, Readings)
    assert reading.devices == reading.groups == ["leeds/a", "york/a"]
    assert len(set(reading.keys)) == 2
    found = [(event.device, event.group) for event in late if isinstance(event, LateLabel)]
    assert found == [("leeds/a", "leeds/a"), ("york/a", "york/a")]


def test_a_device_that_only_the_payload_names_comes_last() -> None:
    config = config_of(topic="{hall}/{row}/x", device="d", features=["x"], labels=None)
    batch = [Message("h/r/x", b'{"x": 1, "d": "a/b"}', 1.0), Message("h//x", b'{"x": 1}', 1.0)]
    decoded = Decoder(config).decode(batch)
    assert readings_in(decoded)[0].devices == ["h/r/a%2Fb"]
    assert decoded.refused[0][:2] == (1, "device")


def test_names_that_are_too_long_are_refused() -> None:
    long = "z" * 257
    batch = [message("a", x=1, d="b"), message(long, x=1, d="b"), message(long, x=1)]
    batch.append(Message(f"plant/{long}/a/readings", b'{"x": 1, "d": "b"}', 1.0))
    for device, refused in ((None, [1, 2, 3]), ("d", [2, 3])):
        decoded = Decoder(config_of(device=device, features=["x"])).decode(batch)
        assert [each[:2] for each in decoded.refused] == [(i, "device") for i in refused]


names = st.text(st.sampled_from("a/%2F5"), max_size=4)


@given(names, names, names, names)
def test_different_devices_have_different_identities(a: str, b: str, c: str, d: str) -> None:
    identity = DeviceIdentity("x/{site}/{device}")
    first, second = {"site": a, "device": b}, {"site": c, "device": d}
    assert (identity.join(first) == identity.join(second)) == (first == second)
    assert identity.split(identity.join(first)) == first


@pytest.mark.parametrize("by_field", [False, True])
def test_every_device_is_in_one_shard(by_field: bool) -> None:
    device = "d" if by_field else None
    batch = [message(f"pump{i}", x=i, n=i, d=f"pump{i}") for i in range(50)]
    batch += [label(f"pump{i}", n=i, label="ok") for i in range(50)]
    seen: list[str] = []
    for index in range(3):
        config = config_of(device=device, features=["x"])
        config = msgspec.structs.replace(config, shard=ShardSection(index=index, count=3))
        decoded = Decoder(config).decode(batch)
        ours = [name for event in readings_in(decoded) for name in event.devices]
        late = [event.device for event in decoded.events if isinstance(event, LateLabel)]
        assert ours == late
        assert all(crc32(name.encode()) % 3 == index for name in ours)
        assert decoded.skipped == 100 - 2 * len(ours)
        seen += ours
    assert sorted(seen) == sorted(f"leeds/pump{i}" for i in range(50))


def test_what_belongs_to_other_shards_is_not_even_looked_at() -> None:
    config = msgspec.structs.replace(config_of(), shard=ShardSection(index=0, count=2))
    batch = [Message(f"plant/leeds/pump{i}/readings", b"oops", 1.0) for i in range(50)]
    decoded = Decoder(config).decode(batch)
    assert decoded.skipped + len(decoded.refused) == 50
    assert 0 < decoded.skipped < 50


# --- keys ----------------------------------------------------------------------------------------


def test_an_equal_message_has_an_equal_key_and_others_have_others() -> None:
    batch = [
        message("a", x=1, n=1),
        message("a", at=99.0, redelivered=True, x=1, n=1),
        message("a", x=1, n=2),
        message("a", x=2, n=1),
        message("b", x=1, n=1),
    ]
    [event] = readings_in(Decoder(config_of()).decode(batch))
    assert event.keys[0] == event.keys[1]
    assert len(set(event.keys)) == 4
    assert all(-(2**63) <= key < 2**63 and key != 0 for key in event.keys)


def test_dedup_windows_of_what_has_a_number_or_a_time_or_are_delivered_again() -> None:
    batch = [
        message("a", x=1),
        message("a", x=1, n=1),
        message("a", x=1, t=1),
        message("a", x=1, redelivered=True),
        message("a", x=1, n=1, t=1, redelivered=True),
        message("a", x=1, n=1, t=1),  # a counter and a clock do not start anew together
    ]
    for features in (["x"], None):
        [event] = readings_in(Decoder(config_of(time="t", features=features)).decode(batch))
        assert event.dedup_windows == [
            DedupWindow.NONE,
            DedupWindow.RECENT,
            DedupWindow.RECENT,
            DedupWindow.ALL,
            DedupWindow.ALL,
            DedupWindow.ALL,
        ]
        for one, span in zip(batch, event.dedup_windows, strict=True):  # also by themselves
            [event] = readings_in(Decoder(config_of(time="t", features=features)).decode([one]))
            assert event.dedup_windows == [span]


def test_late_labels_have_keys_too() -> None:
    batch = [
        message("a", x=1, n=1),
        *(label("a", n=n, label=c) for n, c in [(1, 0), (1, 0), (2, 0)]),
    ]
    batch += [label("b", n=1, label=0), label("a", n=1, label=1)]
    reading, *late = Decoder(config_of()).decode(batch).events
    assert isinstance(reading, Readings)
    keys = [event.key for event in late if isinstance(event, LateLabel)]
    assert keys[0] == keys[1]
    assert len({*keys, *reading.keys, 0}) == 6
    assert {event.dedup_window for event in late if isinstance(event, LateLabel)} == {
        DedupWindow.RECENT
    }
    again = batch[1]._replace(redelivered=True)
    [event] = Decoder(config_of()).decode([again]).events
    assert isinstance(event, LateLabel)
    assert (event.key, event.dedup_window) == (keys[0], DedupWindow.ALL)


def test_true_is_another_class_than_one() -> None:
    batch = [message("a", x=i, c=c) for i, c in enumerate([True, 1, False, 0])]
    for some in (batch, batch[:1], batch[2:3], batch[::2]):
        expected = [["true", 1, "false", 0][batch.index(one)] for one in some]
        for features in (["x"], None):
            [event] = readings_in(Decoder(config_of(label="c", features=features)).decode(some))
            assert [repr(c) for c in event.labels] == [repr(c) for c in expected]
    late = Decoder(config_of()).decode([label("a", n=1, label=True), label("a", n=1, label=1)])
    assert [e.label for e in late.events if isinstance(e, LateLabel)] == ["true", 1]


def test_rows_of_files_cannot_come_twice() -> None:
    batch = [Message("", b'{"x": 1, "n": 1}', 0.0), message("a", x=1, n=1)]
    [event] = readings_in(Decoder(config_of(features=["x"])).decode(batch))
    assert event.keys[0] == 0
    assert event.keys[1] != 0
    assert event.dedup_windows == [DedupWindow.NONE, DedupWindow.RECENT]


def test_keys_are_the_same_in_every_process() -> None:
    known = message_keys([stable_hash("a"), stable_hash("b")], [b"x", b"y"], [1, None], None)
    assert known == [6249746323957794118, -1667729327528145674]
    code = (
        "from streamlvq.payloads.routing import *;"
        "print(message_keys([stable_hash('a'), stable_hash('b')], [b'x', b'y'], [1, None], None))"
    )
    for seed in ("1", "2"):
        ran = subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True,
            text=True, check=True,
        )  # fmt: skip
        assert ran.stdout.strip() == repr(known)


def test_keys_of_many_similar_messages_differ() -> None:
    payloads = [f'{{"x": {i / 100}}}'.encode() for i in range(100_000)]
    hashes = [stable_hash("a")] * len(payloads)
    numbers = list(range(len(payloads)))
    moments = [1.7e9 + i / 10 for i in numbers]
    for sequences, times in ((None, None), (numbers, None), (None, moments), (numbers, moments)):
        assert len(set(message_keys(hashes, payloads, sequences, times))) == len(payloads)
    same = [b"{}"] * len(payloads)  # the payload's checksum does not help
    assert len(set(message_keys(hashes, same, numbers, None))) == len(payloads)
    assert len(set(message_keys(hashes, same, None, moments))) == len(payloads)


def test_devices_named_by_a_field_have_keys_of_their_own() -> None:
    config = config_of(topic="all", device="d", features=["x"])
    batch = [Message("all", f'{{"x": 1, "n": 1, "d": "{d}"}}'.encode(), 1.0) for d in range(5000)]
    [event] = readings_in(Decoder(config).decode(batch))
    assert len(set(event.keys)) == 5000


# --- what is refused -----------------------------------------------------------------------------


def test_messages_that_say_nothing_are_refused_in_their_order() -> None:
    config = msgspec.structs.replace(config_of(), broker=Broker(max_payload_bytes=100))
    batch = [
        message("a", x=1),
        Message("elsewhere", b'{"x": 1}', 1.0),
        message("", x=1),
        message("a", x="hot"),
        message("a", x=2),
        message("a", x=1, note="z" * 100),
        label("a", label="ok"),
        label("a", n=1),
        label("a", n=1, label="z" * 99),
        message("a", x=3),
    ]
    decoded = Decoder(config).decode(batch)
    assert [event.sources for event in readings_in(decoded)] == [[0, 4, 9]]
    template = "plant/{site}/{device}/readings or plant/{site}/{device}/label"
    assert decoded.refused == [
        Refused(1, "topic", f"expected a topic like {template}, got 'elsewhere'", "topic"),
        Refused(2, "device", "expected a topic with a device's name, all names of at most 256 "
                "characters, got 'plant/leeds//readings'", "topic"),
        Refused(3, "field", "expected at least one feature (any number), got {'x': 'hot'}",
                "no feature"),
        Refused(5, "payload", f"expected at most 100 bytes, got {len(batch[5].payload)}", "size"),
        Refused(6, "field", "expected n or t to say which reading the label is for, got "
                "{'label': 'ok'}", "which reading"),
        Refused(7, "field", "label: expected a label, got nothing", "a label"),
        Refused(8, "payload", f"expected at most 100 bytes, got {len(batch[8].payload)}", "size"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("payload", "reason", "text", "about"),
    [
        (b"ok", "payload", "expected a JSON object, got b'ok': JSON is malformed: invalid "
         "character (byte 0)", "syntax"),
        (b'"ok"', "payload", "expected a JSON object, got 'ok'", "a JSON object"),
        (b'{"n": 1, "label": null}', "field", "label: expected a label, got None", "a label"),
        (b'{"n": 1, "label": ""}', "field", "label: expected a label, got ''", "a label"),
        (b'{"n": 1, "label": 1.5}', "field", "label: expected a label (text, a whole number, true "
         "or false), got 1.5", "a label (text, a whole number, true or false)"),
        (b'{"n": "x", "label": 1}', "field", "n: expected a whole number, got 'x'",
         "a whole number"),
        (b'{"t": 1e15, "label": 1}', "value", "t: expected a time in s within the years 1 to 9999 "
         "(is `time_unit` right?), got 1000000000000000.0",
         "a time in s within the years 1 to 9999 (is `time_unit` right?)"),
    ],
)  # fmt: skip
def test_late_labels_that_say_nothing(payload: bytes, reason: str, text: str, about: str) -> None:
    decoded = Decoder(config_of()).decode([Message("plant/leeds/a/label", payload, 1.0)])
    assert not decoded.events
    assert decoded.refused == [Refused(0, reason, text, about)]


def test_late_labels_may_name_their_device_and_be_msgpack() -> None:
    labels = LabelsSection(
        topic="labels/{site}", format="msgpack", label="is.a", sequence="n", device="d", time="at",
        time_unit="iso",
    )  # fmt: skip
    decoder = Decoder(config_of(labels=labels, per="device"))
    item = {"is": {"a": "worn"}, "n": 5, "d": "pump", "at": "1970-01-01T00:00:02Z"}
    batch = [Message("labels/leeds", msgspec.msgpack.encode(item), 1.0)]
    batch.append(Message("labels/leeds", msgspec.msgpack.encode(item | {"d": None}), 1.0))
    decoded = decoder.decode(batch)
    [late] = decoded.events
    assert isinstance(late, LateLabel)
    assert late[:6] == ("leeds/pump", "leeds/pump", "worn", 2.0, 5, 0)
    text = "d: expected a device's name, got nothing"
    assert decoded.refused == [Refused(1, "device", text, "label")]


def test_a_defect_of_ours_is_about_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    decoder = Decoder(config_of(features=["x"]))
    found = Routes._find

    def broken(self: Routes, topic: str) -> Any:
        if "cursed" in topic:
            raise ZeroDivisionError("ours")
        return found(self, topic)

    monkeypatch.setattr(Routes, "_find", broken)
    decoded = decoder.decode([message("a", x=1), message("cursed", x=2), message("b", x=3)])
    text = "ZeroDivisionError: 'ours'"
    assert decoded.refused == [Refused(1, "failure", text, "ZeroDivisionError")]
    assert [event.sources for event in readings_in(decoded)] == [[0], [2]]


def test_fields_that_cannot_be_meant_are_said_at_once() -> None:
    with pytest.raises(FieldsError, match="expected distinct features"):
        Decoder(config_of(features=["x", "x"]))


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert TOPIC_CACHE_SIZE <= 10**6
    for name in ("routing", "decoder"):
        monkeypatch.setattr(f"streamlvq.payloads.{name}.TOPIC_CACHE_SIZE", 100)
    by_topic = Decoder(config_of(features=["x"]))
    by_field = Decoder(config_of(features=["x"], device="d"))
    for i in range(1000):
        for decoder in (by_topic, by_field):
            assert not decoder.decode([message(f"pump{i}", x=1, d=f"p{i}")]).refused
    assert len(by_topic._routes) <= 100
    assert len(by_field._hashes) <= 100
    assert len(by_field._identities) <= 100


def test_topics_that_are_refused_are_not_remembered() -> None:
    decoder = Decoder(config_of(topic="plant/{site}/{device}/#", features=["x"], labels=None))
    long = "z" * 60_000
    batch = [message("a", x=1), Message("plant", b"{}", 1.0), Message(f"x/{long}", b"{}", 1.0)]
    batch += [message(long, x=1), Message("plant/leeds//readings", b'{"x": 1}', 1.0)]
    batch.append(Message(f"plant/leeds/a/{long}", b'{"x": 1}', 1.0))  # taken, but long
    for _ in range(2):
        decoded = decoder.decode(batch)
        assert [event.sources for event in readings_in(decoded)] == [[0, 5]]
        assert [one.reason for one in decoded.refused] == ["topic", "topic", "device", "device"]
        assert list(decoder._routes) == [batch[0].topic]


# --- batches do not matter -----------------------------------------------------------------------

numbers = st.floats(-1e6, 1e6) | st.integers(-9, 9) | st.none() | st.sampled_from(["hot", 1e70])
devices = st.sampled_from(["a", "b", "c", ""])
values = st.dictionaries(st.sampled_from(["x", "y", "z"]), numbers, max_size=3)
messages = st.one_of(
    st.builds(lambda d, v, n: message(d, n=n, **v), devices, values, st.integers(0, 5)),
    st.builds(lambda d, v: message(d, x=1.5, c="ok", **v), devices, st.just({})),
    st.builds(lambda d, n: label(d, n=n, label="ok"), devices, st.integers(0, 5)),
    st.builds(lambda p: Message("plant/leeds/a/readings", p, 5.0, True), st.binary(max_size=9)),
    st.just(Message("elsewhere", b"{}", 5.0)),
    st.just(Message("", b'{"x": 1}', 0.0)),
)
CONFIGS = [
    config_of(features=["x", "y"], label="c"),
    config_of(label="c", per="device"),
    config_of(device="d", time="n", per="site"),
    msgspec.structs.replace(config_of(), shard=ShardSection(index=1, count=2)),
]


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(CONFIGS), st.lists(messages, max_size=40), st.data())
def test_batches_do_not_matter(config: Config, batch: list[Message], data: st.DataObject) -> None:
    whole = Decoder(config).decode(batch)
    decoder = Decoder(config)
    parts: list[tuple[Any, ...]] = []
    skipped = start = 0
    while start < len(batch):
        size = data.draw(st.integers(1, len(batch) - start))
        decoded = decoder.decode(batch[start : start + size])
        parts += flat(decoded, start)
        skipped += decoded.skipped
        start += size
    assert parts == flat(whole)
    assert skipped == whole.skipped
    assert len(parts) + skipped == len(batch)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.text(max_size=12), st.binary(max_size=40), st.booleans())))
def test_nothing_raises(raw: list[tuple[str, bytes, bool]]) -> None:
    batch = [Message(topic, payload, 1.0, again) for topic, payload, again in raw]
    for config in CONFIGS:
        decoded = Decoder(config).decode(batch)
        assert all(refused.reason != "failure" for refused in decoded.refused)
        assert len(flat(decoded)) + decoded.skipped == len(batch)


def test_missing_numbers_stay_missing() -> None:
    [event] = readings_in(
        Decoder(config_of(features=["x", "y"])).decode([message("a", x=1), message("a", y=2)])
    )
    assert np.array_equal(event.rows, [[1, math.nan], [math.nan, 2]], equal_nan=True)
