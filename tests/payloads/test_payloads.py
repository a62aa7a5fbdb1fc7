"""Payloads: each format, what is refused in which words, the fast way against the careful one."""

# ruff: noqa: E501 the tables of what is refused read better this way

from __future__ import annotations

import datetime as dt
import json
import math
import struct
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from streamlvq.config import Fields
from streamlvq.events import DROP_REASONS, REFUSAL_REASONS
from streamlvq.kernels.layout import LARGEST_VALUE
from streamlvq.paths import ABSENT, pick
from streamlvq.payloads import FieldsError, formats, join_path, parse_path
from streamlvq.payloads.formats import MAX_FIELDS, MAX_PLANS, MAX_SHAPES_SEEN, REPLACEMENT_PAYLOADS
from streamlvq.payloads.reader import Reader, Reading, Table
from streamlvq.payloads.values import RefusedError, shorten, to_label, to_sequence, to_time
from streamlvq.registry import FORMATS


def reader_of(**fields: Any) -> Reader:
    section = Fields(**fields)
    return FORMATS[section.format](section)


def read_one(reader: Reader, payload: bytes) -> Reading | tuple[str, str]:
    """What `read` says about a payload that is alone: the reading, or reason and text."""
    read = reader.read([payload])
    if read.refused:
        assert not read.tables
        [refused] = read.refused
        assert refused.source == 0
        return refused.reason, refused.text
    [table] = read.tables
    return reading_at(table, 0)


def reading_at(table: Table, i: int) -> Reading:
    columns = (table.labels, table.times, table.sequences, table.devices)
    label, time, sequence, device = (None if c is None else c[i] for c in columns)
    return Reading(table.features, tuple(table.rows[i].tolist()), label, time, sequence, device)


def same(first: Reading, second: Reading) -> bool:
    return repr(first) == repr(second)  # NaN is not equal to itself, True is equal to 1


# --- paths ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("x", ("x",)),
        ("motor.vib.x", ("motor", "vib", "x")),
        (r"motor.vib\.x", ("motor", "vib.x")),
        ('motor."vib.x"', ("motor", "vib.x")),
        ('"a.b"."c.d".e', ("a.b", "c.d", "e")),
        (r'"say \"hi\""', ('say "hi"',)),
        (r"back\\slash", ("back\\slash",)),
        ('""', ("",)),
        ("temp °C", ("temp °C",)),
    ],
)
def test_a_path_has_steps(text: str, steps: tuple[str, ...]) -> None:
    assert parse_path(text) == steps


@pytest.mark.parametrize("text", ["", ".", "a.", ".a", "a..b", '"a', 'a"b', '"a"b', "a\\"])
def test_a_path_that_makes_no_sense_says_how_to_write_it(text: str) -> None:
    with pytest.raises(FieldsError, match=r"expected a path like motor\.vib\.x, got"):
        parse_path(text)


@given(st.lists(st.text(), min_size=1))
def test_every_path_can_be_written(steps: list[str]) -> None:
    assert parse_path(join_path(steps)) == tuple(steps)


def test_a_path_leads_through_objects_and_arrays() -> None:
    value = {"motor": {"vib": [1, {"x": 2}]}, "a.b": 3, "null": None}
    assert pick(value, ("motor", "vib", "0")) == 1
    assert pick(value, ("motor", "vib", "1", "x")) == 2
    assert pick(value, ("a.b",)) == 3
    assert pick(value, ("null",)) is None
    for path in (
        ("a",),
        ("motor", "vib", "2"),
        ("motor", "vib", "-1"),
        ("a.b", "c"),
        ("null", "x"),
    ):
        assert pick(value, path) is ABSENT


# --- formats -------------------------------------------------------------------------------------


def test_json_takes_the_named_features_and_nothing_else() -> None:
    reader = reader_of(
        features=["y", "motor.vib.x"], label="state", time="at", sequence="n", device="name"
    )
    payload = {"x": 9, "y": 2, "motor": {"vib": {"x": 0.5, "y": 1}}, "state": "ok", "at": 7, "n": 3}
    reading = read_one(reader, json.dumps(payload | {"name": "pump"}).encode())
    assert reading == Reading(("y", "motor.vib.x"), (2.0, 0.5), "ok", 7.0, 3, "pump")


def test_json_finds_every_number_that_is_nothing_else() -> None:
    reader = reader_of(label="state", time="at", sequence="n")
    payload = {
        "z": 1, "a": {"c": 2.5, "b": {"d": -1}, "text": "hot"}, "spectrum": [0.5, 0.25], "on": True,
        "note": "1.5", "gone": None, "nan": "NaN", "version": "1.2.3", "state": 3, "at": 12.5, "n": 8, "a.b": 4, "": 5,
    }  # fmt: skip
    reading = read_one(reader, json.dumps(payload).encode())
    assert isinstance(reading, Reading)
    assert dict(zip(reading.features, reading.values, strict=True)) == {
        "z": 1.0, "a.c": 2.5, "a.b.d": -1.0, "spectrum.0": 0.5, "spectrum.1": 0.25, r"a\.b": 4.0,
        '""': 5.0, "on": 1.0, "note": 1.5,
    }  # fmt: skip
    assert reading.features == tuple(sorted(reading.features))
    assert (reading.label, reading.time, reading.sequence) == (3, 12.5, 8)


def test_a_name_that_was_found_finds_the_same_number() -> None:
    payload = json.dumps({"a.b": 1, "a": {"b": 2, '"': 3}, "c\\": 4, "": 5}).encode()
    found = read_one(reader_of(), payload)
    assert isinstance(found, Reading)
    named = read_one(reader_of(features=list(found.features)), payload)
    assert named == found


def test_the_order_of_keys_does_not_matter() -> None:
    reader = reader_of()
    for payload in (b'{"b": 2, "a": 1}', b'{"a": 1, "b": 2}') * 3:
        assert read_one(reader, payload) == Reading(("a", "b"), (1, 2), None, None, None, None)


def test_null_and_absent_features_are_missing() -> None:
    reader = reader_of(features=["x", "y", "z.a"])
    for payload in (
        b'{"x": 1, "y": null}',
        b'{"x": 1}',
        b'{"x": 1, "z": {}}',
        b'{"x": 1, "z": null}',
    ):
        reading = read_one(reader, payload)
        assert isinstance(reading, Reading)
        assert reading.values[0] == 1.0
        assert all(map(math.isnan, reading.values[1:]))


NUMBER_TEXTS = [
    ("21.1", 21.1), (" 7 ", 7.0), ("-.5", -0.5), ("+2.", 2.0), ("1E-3", 0.001), ("007", 7.0),
    ("\t1e3\n", 1000.0), ("9" * 40, 1e40), ("nan", math.nan), (" NaN ", math.nan), ("", math.nan),
    ("n/a", math.nan), ("None", math.nan), ("null", math.nan),
]  # fmt: skip
OTHER_TEXTS = [
    "inf",
    "-Infinity",
    "0x10",
    "1_000",
    "1,5",
    "1e",
    ".",
    "--1",
    "-nan",
    "\u0661",
    "1 2",
]


@pytest.mark.parametrize(("text", "number"), NUMBER_TEXTS)
@pytest.mark.parametrize("format", ["json", "msgpack"])
def test_text_that_is_a_number_is_one(text: str, number: float, format: str) -> None:
    encode = msgspec.json.encode if format == "json" else msgspec.msgpack.encode
    payload = encode({"x": text, "y": 1})
    for features in (["x", "y"], None):
        reader = reader_of(format=format, features=features)
        for _ in range(3):  # found out with care, then fast
            reading = read_one(reader, payload)
            assert isinstance(reading, Reading)
            found = dict(zip(reading.features, reading.values, strict=True))
            assert repr(found.get("x", math.nan)) == repr(number)
            assert not reader.dropped.counts


@pytest.mark.parametrize("text", OTHER_TEXTS)
def test_other_text_is_refused_where_named_and_else_left_out(text: str) -> None:
    payload = msgspec.json.encode({"x": text, "y": 1})
    named = read_one(reader_of(features=["x", "y"]), payload)
    assert named == ("field", f"x: expected a number, got {text!r}")
    reader = reader_of()
    for _ in range(4):
        read = reader.read([payload] * 3)
        [table] = read.tables
        assert table.features == ("y",)
        assert read.dropped.counts == {"text": 3}
        assert read.dropped.examples == {"x": ("text", repr(text))}


def test_a_number_as_text_is_refused_if_it_is_too_large() -> None:
    for features in (["x"], None):
        for text in ("1e61", "-1e999", "9" * 5000):
            reason, said = read_one(reader_of(features=features), f'{{"x": "{text}"}}'.encode())
            assert reason == "value"
            assert str(said).startswith("x: expected a finite number of at most 1e+60, got")


def test_everything_that_is_left_out_is_counted() -> None:
    item = {"x": 1, "raw": b"12", "at": dt.datetime(2024, 5, 1, tzinfo=dt.UTC), 7: 2.0, "s": "hot"}
    item |= {"deep": {"list": ["a", 2, None, "nan"]}, "label": "ok"}
    reader = reader_of(format="msgpack", label="label")
    for _ in range(3):
        read = reader.read([msgspec.msgpack.encode(item)] * 2)
        assert read.tables[0].features == ("deep.list.1", "x")
        assert read.dropped.counts == {"type": 4, "key": 2, "text": 4}
        assert set(read.dropped.examples) == {"raw", "at", "7", "s", "deep.list.0"}
        assert set(read.dropped.counts) == set(DROP_REASONS) - {"probation"}


def test_nothing_is_left_out_of_a_refused_payload() -> None:
    read = reader_of(label="c").read([b'{"x": 1, "s": "hot", "c": [1]}', b'{"s": "hot"}'])
    assert len(read.refused) == 2
    assert not read.dropped.counts


def test_nan_in_json_is_missing() -> None:
    text = b'{"x": NaN, "y": [1, NaN], "s": "NaN, \\" NaN", "n": 3, "t": NaN}'
    for features in (["x", "y.0", "y.1"], None):
        reader = reader_of(features=features, sequence="n", time="t")
        payloads = [b'{"x": 1, "y": [1, 2], "n": 3}', text] * 10
        for _ in range(3):
            read = reader.read(payloads)
            assert not read.refused
            for table in read.tables:
                for k, source in enumerate(table.sources):
                    reading = reading_at(table, k)
                    found = dict(zip(reading.features, reading.values, strict=True))
                    found = {name: value for name, value in found.items() if value == value}
                    whole = {"x": 1.0, "y.0": 1.0, "y.1": 2.0}
                    assert found == ({"y.0": 1.0} if source % 2 else whole)
                    assert (reading.time, reading.sequence) == (None, 3)
    arrays = reader_of(format="json_array", columns=["x", "y"])
    reading = read_one(arrays, b"[NaN, 2]")
    assert isinstance(reading, Reading)
    assert repr(reading.values) == "(nan, 2.0)"


def test_named_features_may_be_true_or_false() -> None:
    assert read_one(reader_of(features=["on", "off"]), b'{"on": true, "off": false}') == Reading(
        ("on", "off"), (1.0, 0.0), None, None, None, None
    )


def test_of_duplicate_keys_the_last_counts() -> None:
    for features in (["x"], None):
        reading = read_one(reader_of(features=features), b'{"x": 1, "x": 2}')
        assert isinstance(reading, Reading)
        assert reading.values == (2.0,)


def test_large_integers_become_the_nearest_float() -> None:
    for features in (["x"], None):
        for number in (2**53 + 1, 2**63, 2**64 + 1, -(2**64), 10**40 + 1):
            reader = reader_of(features=features)
            for _ in range(3):  # the first two with care, the third fast
                reading = read_one(reader, f'{{"x": {number}}}'.encode())
                assert isinstance(reading, Reading)
                assert reading.values == (float(number),)


def test_positions_in_arrays_can_be_features() -> None:
    reader = reader_of(features=["fft.2", "fft.0", "more.1.x"])
    payload = b'{"fft": [1, 2, 3, 4], "more": [{}, {"x": 5}]}'
    assert reader.decode_batch([payload]) is not None
    reading = read_one(reader, payload)
    assert isinstance(reading, Reading)
    assert reading.values == (3.0, 1.0, 5.0)
    as_object = read_one(reader, b'{"fft": {"0": 7}}')  # digits may be keys after all
    assert isinstance(as_object, Reading)
    assert as_object.values[1] == 7.0


def test_json_array_has_a_value_for_each_column() -> None:
    reader = reader_of(
        format="json_array", columns=["n", "x", "note", "y"], sequence="n", features=["y", "x"]
    )
    assert read_one(reader, b'[7, 1, "whatever", 2]') == Reading(
        ("y", "x"), (2, 1), None, None, 7, None
    )


def test_columns_that_are_nothing_else_are_features() -> None:
    for format in ("json_array", "msgpack", "float32"):
        reader = reader_of(format=format, columns=["t", "a", "b.c"], time="t")
        assert reader.names == ("a", "b.c")


def test_features_in_their_order_may_be_the_columns() -> None:
    reader = reader_of(format="float32", features=["b", "a"])
    assert read_one(reader, struct.pack("<2f", 1, 2)) == Reading(
        ("b", "a"), (1, 2), None, None, None, None
    )


def test_msgpack_maps_and_arrays() -> None:
    item = {"x": 1.5, "deep": {"y": 2}, "state": True, "at": 3.0}
    expected = Reading(("deep.y", "x"), (2.0, 1.5), "true", 3.0, None, None)
    reader = reader_of(format="msgpack", label="state", time="at")
    assert read_one(reader, msgspec.msgpack.encode(item)) == expected
    reader = reader_of(format="msgpack", label="s", columns=["y", "s", "x"])
    assert read_one(reader, msgspec.msgpack.encode([2, "on", None])).__class__ is Reading


def test_msgpack_knows_times_and_nan() -> None:
    reader = reader_of(format="msgpack", time="at", features=["x", "y"])
    moment = dt.datetime(2024, 5, 1, 12, tzinfo=dt.UTC)
    reading = read_one(reader, msgspec.msgpack.encode({"x": math.nan, "y": 1, "at": moment}))
    assert isinstance(reading, Reading)
    assert math.isnan(reading.values[0])
    assert reading.time == moment.timestamp()


def test_float32_is_little_endian_and_nan_is_missing() -> None:
    reader = reader_of(
        format="float32", columns=["x", "label", "y", "n"], label="label", sequence="n"
    )
    reading = read_one(reader, struct.pack("<4f", 0.1, 3, math.nan, 12))
    assert isinstance(reading, Reading)
    assert reading.values[0] == np.float32(0.1)
    assert math.isnan(reading.values[1])
    assert (reading.label, reading.sequence) == (3, 12)
    assert type(reading.label) is int


def test_rows_are_ready_for_kernels() -> None:
    cases = {
        "json": b'{"b": 1, "a": 2}', "json_array": b"[1, 2]",
        "msgpack": msgspec.msgpack.encode({"b": 1, "a": 2}), "float32": struct.pack("<2f", 1, 2),
    }  # fmt: skip
    for format, payload in cases.items():
        columns = ["b", "a"] if format in ("json_array", "float32") else None
        for features in (["a", "b"], ["a"], None):
            reader = reader_of(format=format, columns=columns, features=features)
            for table in reader.read([payload] * 30).tables:
                assert table.rows.dtype == np.float64
                assert table.rows.flags.c_contiguous
                assert table.rows.flags.writeable


# --- roles ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "label"),
    [
        ('"ok"', "ok"), ("3", 3), ("3.0", 3), ("-0.0", 0), ("true", "true"), ("false", "false"),
        ("null", None), ('""', None), ('"3"', "3"), ('"' + "x" * 256 + '"', "x" * 256),
        (str(2**63 - 1), 2**63 - 1),
    ],
)  # fmt: skip
def test_labels(raw: str, label: object) -> None:
    reading = read_one(reader_of(label="c", features=["x"]), f'{{"x": 1, "c": {raw}}}'.encode())
    assert isinstance(reading, Reading)
    assert reading.label == label
    assert type(reading.label) is type(label)


@pytest.mark.parametrize(
    ("unit", "raw", "seconds"),
    [
        ("s", "1700000000", 1.7e9), ("s", "1700000000.25", 1.7e9 + 0.25), ("s", "-1.5", -1.5),
        ("ms", "1700000000250", 1.7e9 + 0.25), ("us", "1700000000250000", 1.7e9 + 0.25),
        ("ns", "1700000000250000000", 1.7e9 + 0.25), ("s", "null", None),
        ("iso", '"2024-05-01T12:00:00Z"', 1714564800.0), ("iso", '"2024-05-01 12:00"', 1714564800.0),
        ("iso", '"2024-05-01T14:00:00.5+02:00"', 1714564800.5), ("iso", '""', None),
        ("iso", '" 2024-05-01T12:00:00Z "', 1714564800.0), ("iso", '"nan"', None),
        ("s", '"2024-05-01T12:00:00Z"', 1714564800.0), ("ms", '"2024-05-01 12:00"', 1714564800.0),
        ("s", '"1700000000.25"', 1.7e9 + 0.25), ("ms", '" 1700000000250"', 1.7e9 + 0.25),
        ("ns", '"1700000000250000000"', 1.7e9 + 0.25), ("s", '""', None), ("ms", '"n/a"', None),
    ],
)  # fmt: skip
def test_times(unit: str, raw: str, seconds: float | None) -> None:
    reader = reader_of(time="t", time_unit=unit, features=["x"])
    reading = read_one(reader, f'{{"x": 1, "t": {raw}}}'.encode())
    assert isinstance(reading, Reading)
    assert reading.time == seconds


def test_times_without_a_zone_are_utc_wherever_this_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        for unit in ("iso", "s"):
            assert to_time(unit)("t", dt.datetime(2024, 5, 1, 12)) == 1714564800.0
        assert to_time("iso")("t", "2024-05-01T12:00:00") == 1714564800.0
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    ("raw", "number"),
    [
        ("7", 7), ("7.0", 7), ('"0042"', 42), ('"-3"', -3), ("null", None), ('""', None),
        (str(2**63 - 1), 2**63 - 1), (f'"{-(2**63)}"', -(2**63)),
    ],
)  # fmt: skip
def test_sequences(raw: str, number: int | None) -> None:
    reader = reader_of(sequence="n", features=["x"])
    reading = read_one(reader, f'{{"x": 1, "n": {raw}}}'.encode())
    assert isinstance(reading, Reading)
    assert reading.sequence == number
    assert type(reading.sequence) is type(number)


@pytest.mark.parametrize(
    ("raw", "name"), [('"pump 7/ä"', "pump 7/ä"), ("7", "7"), ("7.0", "7"), ("null", None)]
)
def test_devices(raw: str, name: str | None) -> None:
    reader = reader_of(device="d", features=["x"])
    reading = read_one(reader, f'{{"x": 1, "d": {raw}}}'.encode())
    assert isinstance(reading, Reading)
    assert reading.device == name


def test_one_field_may_be_two_things() -> None:
    for features in (["x"], None):
        reader = reader_of(sequence="t", time="t", features=features)
        for _ in range(3):
            reading = read_one(reader, b'{"x": 1, "t": 5}')
            assert reading == Reading(("x",), (1,), None, 5.0, 5, None)


# --- what is refused -----------------------------------------------------------------------------

ROLES = {"label": "c", "time": "t", "sequence": "n", "device": "d"}
LONG = "x" * 300

BAD_JSON = [
    (b"", "payload", "expected a JSON object, got b'': Input data was truncated"),
    (b"oops", "payload", "expected a JSON object, got b'oops': JSON is malformed: invalid character "
     "(byte 0)"),
    (b'{"x": 1', "payload", "expected a JSON object, got b'{\"x\": 1': Input data was truncated"),
    (b"[1, 2]", "payload", "expected a JSON object, got [1, 2]"),
    (b"1.5", "payload", "expected a JSON object, got 1.5"),
    (b"null", "payload", "expected a JSON object, got None"),
    (b'{"x": NaN}', "field", "expected at least one feature (x, m.y), got {'x': None}"),
    (b'{"x": -NaN}', "payload", "expected a JSON object, got b'{\"x\": -NaN}': JSON is malformed: "
     "invalid character (byte 7)"),
    (b'{"x": Infinity}', "payload", "expected a JSON object, got b'{\"x\": Infinity}': JSON is "
     "malformed: invalid character (byte 6)"),
    (b'{"x": 1e999}', "payload", "expected a JSON object, got b'{\"x\": 1e999}': Number out of range"
     " - at `$[...]`"),
    (b"{}", "field", "expected at least one feature (x, m.y), got {}"),
    (b'{"x": null, "m": {}}', "field", "expected at least one feature (x, m.y), got "
     "{'x': None, 'm': {}}"),
    (b'{"x": "hot"}', "field", "x: expected a number, got 'hot'"),
    (b'{"x": "1,5"}', "field", "x: expected a number, got '1,5'"),
    (b'{"x": "nan"}', "field", "expected at least one feature (x, m.y), got {'x': 'nan'}"),
    (b'{"x": [1]}', "field", "x: expected a number, got [1]"),
    (b'{"m": {"y": {"z": 1}}}', "field", "m.y: expected a number, got {'z': 1}"),
    (b'{"x": 1e61}', "value", "x: expected a finite number of at most 1e+60, got 1e+61"),
    (b'{"x": -1e61}', "value", "x: expected a finite number of at most 1e+60, got -1e+61"),
    (b'{"x": 1, "c": 2.5}', "field", "c: expected a label (text, a whole number, true or false), "
     "got 2.5"),
    (b'{"x": 1, "c": ["a"]}', "field", "c: expected a label (text, a whole number, true or false), "
     "got ['a']"),
    (b'{"x": 1, "c": 9223372036854775808}', "field", "c: expected a label of at most 64 bits, got "
     "9223372036854775808"),
    (f'{{"x": 1, "c": "{LONG}"}}'.encode(), "field", "c: expected a label of at most 256 characters"
     ", got 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...xxxxxxxxxxxxxxxx'"),
    (b'{"x": 1, "t": "noon"}', "field", "t: expected a time in s (a number) or in ISO 8601, got "
     "'noon'"),
    (b'{"x": 1, "t": true}', "field", "t: expected a time in s (a number) or in ISO 8601, got True"),
    (b'{"x": 1, "t": "1e999"}', "value", "t: expected a time in s within the years 1 to 9999 (is "
     "`time_unit` right?), got '1e999'"),
    (b'{"x": 1, "t": 1700000000000}', "value", "t: expected a time in s within the years 1 to 9999 "
     "(is `time_unit` right?), got 1700000000000"),
    (b'{"x": 1, "n": 1.5}', "field", "n: expected a whole number, got 1.5"),
    (b'{"x": 1, "n": true}', "field", "n: expected a whole number, got True"),
    (b'{"x": 1, "n": "7a"}', "field", "n: expected a whole number, got '7a'"),
    (b'{"x": 1, "n": 9223372036854775808}', "field", "n: expected a whole number of at most 64 bits"
     ", got 9223372036854775808"),
    (b'{"x": 1, "d": ""}', "device", "d: expected a device name (text or a whole number), got ''"),
    (b'{"x": 1, "d": true}', "device", "d: expected a device name (text or a whole number), got "
     "True"),
    (b'{"x": 1, "d": 1.5}', "device", "d: expected a device name (text or a whole number), got "
     "1.5"),
    (f'{{"x": 1, "d": "{LONG}"}}'.encode(), "device", "d: expected a device name of at most 256 "
     "characters, got 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx..."
     "xxxxxxxxxxxxxxxx'"),
]  # fmt: skip


@pytest.mark.parametrize(("payload", "reason", "text"), BAD_JSON)
def test_bad_json_is_refused_in_these_words(payload: bytes, reason: str, text: str) -> None:
    assert reason in REFUSAL_REASONS
    assert read_one(reader_of(features=["x", "m.y"], **ROLES), payload) == (reason, text)


@pytest.mark.parametrize(("payload", "reason", "text"), BAD_JSON)
def test_one_bad_payload_does_not_affect_the_others(payload: bytes, reason: str, text: str) -> None:
    reader = reader_of(features=["x", "m.y"], **ROLES)
    payloads = [f'{{"x": {i}, "n": {i}}}'.encode() for i in range(40)]
    payloads[17] = payload
    read = reader.read(payloads)
    [table] = read.tables
    assert list(table.sources) == [i for i in range(40) if i != 17]
    assert table.rows[:, 0].tolist() == list(table.sources) == list(table.sequences or ())
    assert [one[:3] for one in read.refused] == [(17, reason, text)]


BAD_OTHERS = [
    ({}, b'{"s": "hot", "on": null}', "field", "expected at least one feature (any number), got "
     "{'s': 'hot', 'on': None}"),
    ({}, b'{"a":' * 40 + b"1" + b"}" * 40, "payload", "expected at most 32 levels of nesting, got "
     "more"),
    ({"format": "json_array", "columns": ["x", "y"]}, b"[1]", "payload", "expected 2 values (x, y), "
     "got 1: [1]"),
    ({"format": "json_array", "columns": ["x", "y"]}, b"[1, 2, 3]", "payload", "expected 2 values "
     "(x, y), got 3: [1, 2, 3]"),
    ({"format": "json_array", "columns": ["x", "y"]}, b'{"x": 1}', "payload", "expected a JSON array"
     ", got {'x': 1}"),
    ({"format": "json_array", "columns": ["x", "y"]}, b'[1, "a"]', "field", "y: expected a number, "
     "got 'a'"),
    ({"format": "json_array", "columns": ["x", "y"]}, b"[null, null]", "field", "expected at least "
     "one feature (x, y), got {'x': None, 'y': None}"),
    ({"format": "msgpack"}, b"\xc1", "payload", "expected a MessagePack map (for arrays, name their "
     "values in `columns`), got b'\\xc1': MessagePack data is malformed: invalid opcode '\\xc1' "
     "(byte 0)"),
    ({"format": "msgpack"}, b"\x92\x01\x02", "payload", "expected a MessagePack map (for arrays, "
     "name their values in `columns`), got [1, 2]"),
    ({"format": "msgpack"}, msgspec.msgpack.encode({"x": math.inf}), "value", "x: expected a finite "
     "number of at most 1e+60, got inf"),
    ({"format": "msgpack"}, msgspec.msgpack.encode({"x": math.nan}), "field", "expected at least one"
     " feature (x), got {'x': nan}"),
    ({"format": "msgpack"}, msgspec.msgpack.encode({1: 2.5}), "field", "expected at least one "
     "feature (any number), got {1: 2.5}"),
    ({"format": "float32", "columns": ["x", "y"]}, b"\0" * 7, "payload", "expected 8 bytes (2 floats"
     " of 32 bits), got 7"),
    ({"format": "float32", "columns": ["x", "y"]}, b"", "payload", "expected 8 bytes (2 floats of 32"
     " bits), got 0"),
    ({"format": "float32", "columns": ["x", "y"]}, struct.pack("<2f", 1, -math.inf), "value", "y: "
     "expected a finite number of at most 1e+60, got -inf"),
    ({"format": "float32", "columns": ["x", "y"]}, struct.pack("<2f", math.nan, math.nan), "field",
     "expected at least one feature (x, y), got {'x': nan, 'y': nan}"),
    ({"format": "float32", "columns": ["x", "c"], "label": "c"}, struct.pack("<2f", 1, 2.5), "field",
     "c: expected a label (text, a whole number, true or false), got 2.5"),
    ({"time": "t", "time_unit": "iso"}, b'{"x": 1, "t": "noon"}', "field", "t: expected a time in "
     "ISO 8601 like 2024-05-01T12:00:00Z, got 'noon'"),
    ({"time": "t", "time_unit": "iso"}, b'{"x": 1, "t": 5}', "field", "t: expected a time in "
     "ISO 8601 like 2024-05-01T12:00:00Z, got 5"),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "payload", "reason", "text"), BAD_OTHERS)
def test_other_bad_payloads(fields: dict[str, Any], payload: bytes, reason: str, text: str) -> None:
    assert read_one(reader_of(**fields), payload) == (reason, text)


@pytest.mark.parametrize("format", sorted(FORMATS))
def test_no_depth_or_size_breaks_a_reader(format: str) -> None:
    reader = reader_of(
        format=format, columns=["x", "y"] if format in ("json_array", "float32") else None
    )
    evil = (b"[" * 100_000, b'{"a":' * 100_000, b"\x91" * 100_000, b"\x81\xa1a" * 100_000)
    evil += (b"1" * 100_000, b'{"x": ' + b"9" * 5000 + b"}", b"\xff" * 1000, b'{"\\ud800": 1}')
    for payload in evil:
        answer = read_one(reader, payload)
        assert isinstance(answer[0], str)
        assert answer[0] in ("payload", "value", "field")


def test_what_came_is_shortened() -> None:
    assert shorten("a") == "'a'"
    assert shorten("x" * 10**6).endswith("x'")
    assert len(shorten("x" * 10**6)) == 80
    assert len(shorten(list(range(1000)))) == 80
    assert shorten(10**5000) == "an enormous integer"


# --- what cannot be meant ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"features": []}, "expected at least one feature"),
        ({"features": ["a", "b", "a"]}, r"expected distinct features, got \('a',\) twice"),
        ({"features": ["a", '"a"']}, "expected distinct features"),
        ({"features": ["a"], "label": "a"}, "expected features that are nothing else, got 'a'"),
        ({"features": ["a..b"]}, r"expected a path like motor\.vib\.x"),
        ({"format": "float32"}, "format float32: expected the names of the values in `columns`"),
        (
            {"format": "json_array", "columns": ["a", "a"]},
            "expected distinct columns, got 'a' twice",
        ),
        ({"format": "json_array", "columns": ["a"], "time": "t"}, "expected one of the columns"),
        ({"format": "json_array", "columns": ["t"], "time": "t"}, "expected a column that is a"),
    ],
)
def test_fields_that_cannot_be_meant(fields: dict[str, Any], text: str) -> None:
    with pytest.raises(FieldsError, match=text):
        reader_of(**fields)


# --- the fast way agrees with the careful one ----------------------------------------------------

NAMES = ["a", "b", "c", "t", "n", "d", "m"]
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(2**70), 2**70),
    st.sampled_from([10**400, 1e60, 1.0000001e60, 1e308, 3.0, "7", "", "ok", LONG, 2**63, 1.7e12]),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5),
    st.text("0123456789.eE+- naif", max_size=5),
    st.sampled_from(["1.5", " 2 ", "nan", "2024-05-01", "1e61", True]),
)
items = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*NAMES, "0", "1", "", "a.b"]), inner, max_size=5)
    ),
    max_leaves=8,
)
objects = st.dictionaries(st.sampled_from([*NAMES, "", "a.b", "other"]), items, max_size=7)
usual = st.fixed_dictionaries(
    {"a": st.floats(-1e9, 1e9), "b": st.integers(-100, 100), "t": st.integers(0, 2**31)},
    optional={
        "c": st.sampled_from(["ok", "worn"]),
        "n": st.integers(0, 99),
        "m": st.just({"y": 1}),
    },
)
ROLE_SETS: list[dict[str, Any]] = [
    {},
    {"label": "c", "time": "t", "sequence": "n", "device": "d"},
    {"label": "m.c", "time": "m.t", "time_unit": "ms", "sequence": "t"},
    {"time": "t", "time_unit": "iso", "label": "d"},
]
FEATURE_SETS = [None, ["a"], ["b", "a"], ["m.a", "b", "m.b.a"], ["a.0", "a.1.b"], ["a", "a.b"]]
READERS = {
    (format, i, j): reader_of(format=format, features=features, **roles)
    for format in ("json", "msgpack")
    for i, roles in enumerate(ROLE_SETS)
    for j, features in enumerate(FEATURE_SETS)
}


def check_agreement(reader: Reader, payloads: list[bytes]) -> None:
    """All at once, in two halves and one by one give what the careful way gives."""
    expected: list[Reading | tuple[str, str]] = []
    for payload in payloads:
        try:
            expected.append(reader.decode_one(payload))
        except RefusedError as error:
            assert error.reason in REFUSAL_REASONS
            expected.append((error.reason, error.text))
    for batches in ([payloads], [payloads[:1], payloads[1:]], [[p] for p in payloads]):
        found: list[Reading | tuple[str, str]] = []
        for batch in batches:
            found += answers(reader, batch)
        assert list(map(repr, found)) == list(map(repr, expected))


def answers(reader: Reader, payloads: list[bytes]) -> list[Reading | tuple[str, str]]:
    read = reader.read(payloads)
    found: dict[int, Reading | tuple[str, str]] = {
        one.source: (one.reason, one.text) for one in read.refused
    }
    for table in read.tables:
        sizes = np.abs(table.rows)
        assert (np.isnan(sizes) | (sizes <= LARGEST_VALUE)).all()
        for position, source in enumerate(table.sources):
            assert source not in found
            found[source] = reading_at(table, position)
    assert sorted(found) == list(range(len(payloads)))
    return [found[i] for i in range(len(payloads))]


@settings(max_examples=120, deadline=None)
@given(st.sampled_from(sorted(READERS)), st.lists(usual | objects, min_size=1, max_size=12))
def test_the_fast_way_agrees_with_the_careful_one(key: Any, values: list[Any]) -> None:
    if key[0] == "msgpack":
        values = [_within_64_bits(value) for value in values]
        payloads = [msgspec.msgpack.encode(value) for value in values]
    else:
        payloads = [json.dumps(value).encode() for value in values]
    check_agreement(READERS[key], payloads)


def _within_64_bits(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _within_64_bits(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_within_64_bits(inner) for inner in value]
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return math.inf if value % 2 else math.nan
    return value


ARRAYS = reader_of(
    format="json_array", columns=["a", "c", "t", "b"], features=["b", "a"], label="c", time="t"
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(scalars, scalars, scalars, scalars), min_size=1, max_size=10))
def test_arrays_agree_too(rows: list[Any]) -> None:
    check_agreement(ARRAYS, [json.dumps(row).encode() for row in rows])


RAW = reader_of(format="float32", columns=["a", "c", "b", "n"], label="c", sequence="n")
words = st.floats(width=32) | st.integers(-5, 5).map(float)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.lists(words, min_size=3, max_size=5), min_size=1, max_size=10))
def test_raw_numbers_agree_too(rows: list[list[float]]) -> None:
    check_agreement(RAW, [struct.pack(f"<{len(row)}f", *row) for row in rows])


@settings(max_examples=120, deadline=None)
@given(st.sampled_from(sorted(READERS)), st.lists(st.binary(max_size=60), max_size=10))
@example(("json", 0, 0), [b'{"a": 1}', b'{"a": 1}', b'{"a": true}', b'{"a": 1, "b": "x"}'])
@example(("json", 1, 0), [b'{"a": 1, "m": {}}'] * 4)
def test_random_bytes_are_refused_or_read(key: Any, payloads: list[bytes]) -> None:
    check_agreement(READERS[key], payloads)


@settings(max_examples=100, deadline=None)
@given(
    st.dictionaries(
        st.text(max_size=4), st.floats(-LARGEST_VALUE, LARGEST_VALUE), min_size=1, max_size=6
    ),
    st.sampled_from(["json", "msgpack"]),
)
def test_what_is_written_is_read(values: dict[str, float], format: str) -> None:
    encode = msgspec.json.encode if format == "json" else msgspec.msgpack.encode
    for features in (None, [join_path([name]) for name in values]):
        reader = reader_of(format=format, features=features)
        for _ in range(3):
            reading = read_one(reader, encode(values))
            assert isinstance(reading, Reading)
            found = dict(zip(reading.features, reading.values, strict=True))
            assert found == {join_path([name]): value for name, value in values.items()}


def test_shapes_seen_twice_have_a_fast_way_and_there_are_only_so_many() -> None:
    reader = reader_of()
    payload = b'{"x": 1, "note": "a", "m": {"y": 2}}'
    assert reader.decode_batch([payload]) is None
    reader.read([payload] * 2)
    table = reader.decode_batch([payload] * 3)
    assert table is not None
    assert table.features == ("m.y", "x")
    for i in range(1000):
        reader.read([f'{{"x{i}": 1}}'.encode()] * 2)
    assert len(reader._plans) <= MAX_PLANS  # type: ignore[attr-defined]
    assert len(reader._plans._seen) <= MAX_SHAPES_SEEN  # type: ignore[attr-defined]


def compiled(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """The features of every plan that is made from now on."""
    made: list[tuple[str, ...]] = []
    make = formats.BatchDecoder

    def counting(reader: Any, shape: Any, names: tuple[str, ...], ignored: Any) -> Any:
        made.append(names)
        return make(reader, shape, names, ignored)

    monkeypatch.setattr(formats, "BatchDecoder", counting)
    return made


def test_a_plan_is_made_once_for_each_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    made = compiled(monkeypatch)
    reader = reader_of()
    payloads = [f'{{"x{i % 40}": {i}, "y": 1}}'.encode() for i in range(400)]
    for _ in range(5):
        read = reader.read(payloads)
        assert len(read.tables) == 40
        for table in read.tables:
            assert list(table.sources) == sorted(table.sources)
            assert table.rows[:, 0].tolist() == [float(source) for source in table.sources]
    assert len(made) == len(set(made)) == 40


def test_more_shapes_than_plans_are_not_made_again_and_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = compiled(monkeypatch)
    reader = reader_of()
    count = 2 * MAX_PLANS
    payloads = [f'{{"x{i % count}": {i}}}'.encode() for i in range(2000)]
    for _ in range(3):
        read = reader.read(payloads)
        assert not read.refused
        assert sum(len(table.rows) for table in read.tables) == 2000
    assert MAX_PLANS <= len(made) <= MAX_PLANS + 6000 // REPLACEMENT_PAYLOADS


def test_large_payloads_get_no_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    made = compiled(monkeypatch)
    reader = reader_of()
    for count in (MAX_FIELDS, MAX_FIELDS + 1):
        payload = json.dumps({f"x{i}": i for i in range(count)}).encode()
        for _ in range(3):
            [table] = reader.read([payload]).tables
            assert len(table.features) == count
    assert [len(names) for names in made] == [MAX_FIELDS]


def test_a_bad_one_among_shapes_that_take_turns_is_alone() -> None:
    reader = reader_of(label="c")
    good = [b'{"x": 1, "c": "a"}', b'{"y": 1, "m": {"z": 2}}', b'{"x": 2, "note": null}']
    bad = [b'{"x": 1e70}', b'{"x": 1, "c": [1]}', b'{"y": "hot", "m": {}}', b"oops"]
    reader.read(good * 3)
    payloads = (good * 9 + bad) * 2
    read = reader.read(payloads)
    assert sorted(one.source for one in read.refused) == [27, 28, 29, 30, 58, 59, 60, 61]
    alone = [reader.decode_one(payload) for payload in good]
    for table in read.tables:
        for k, source in enumerate(table.sources):
            expected = alone[source % 31 % 3]
            assert (table.features, tuple(table.rows[k])) == (expected.features, expected.values)


def test_a_defect_of_ours_is_said_to_be_one(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = reader_of(features=["x"])
    monkeypatch.setattr(reader, "find_features", lambda value, dropped: 1 / 0)
    read = reader.read([b'{"x": 1}', b'{"x": "a"}'])
    assert read.refused[0].reason == "failure"
    assert read.refused[0].text == "ZeroDivisionError: 'division by zero'"


def test_single_values_in_words() -> None:
    assert to_label("c", float("nan")) is None
    with pytest.raises(RefusedError, match="n: expected a whole number, got inf"):
        to_sequence("n", math.inf)
