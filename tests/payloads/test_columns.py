"""Readings from the columns of a table, by the rules of payloads."""

from __future__ import annotations

import datetime as dt
import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamlvq.config import Config, Fields, ModelSection
from streamlvq.events import DedupWindow
from streamlvq.payloads import FieldsError, group_of
from streamlvq.payloads.columns import readings
from streamlvq.registry import FORMATS


def test_true_is_another_class_than_one() -> None:
    given: list[Any] = [True, 1, False, 0]
    for column in (given, np.array(given, dtype=object)):
        found, refused = readings(Fields(label="c"), {"x": [1.0] * 4, "c": column})
        assert found.labels == ["true", 1, "false", 0]
        assert not refused
    table = {"x": [1.0, 2.0], "c": np.array([True, False])}
    assert readings(Fields(label="c"), table)[0].labels == ["true", "false"]


def test_columns_become_readings() -> None:
    table = {
        "at": [1000, 2000],
        "x": np.array([1, 2], dtype=np.int32),
        "name": ["a", "b"],
        "state": np.array(["ok", "worn"], dtype=object),
        "n": np.array([7, 8]),
        "y": [0.5, None],
    }
    fields = Fields(time="at", time_unit="ms", device="name", label="state", sequence="n")
    found, refused = readings(fields, table)
    assert not refused
    assert found.features == ("x", "y")
    assert np.array_equal(found.rows, [[1, 0.5], [2, math.nan]], equal_nan=True)
    assert found.rows.flags.c_contiguous
    assert found.devices == ["a", "b"]
    assert found.groups == ["", ""]
    assert found.labels == ["ok", "worn"]
    assert found.times == [1.0, 2.0]
    assert found.sequences == [7, 8]
    assert found.keys == [0, 0]
    assert found.dedup_windows == [DedupWindow.NONE, DedupWindow.NONE]
    assert found.sources == [0, 1]


def test_columns_that_are_not_there_say_nothing() -> None:
    fields = Fields(time="at", device="name", label="state", sequence="n", features=["x"])
    found, _ = readings(fields, {"x": [1.0, 2.0], "other": ["a", "b"]})
    assert found.devices == ["device", "device"]
    assert found.labels == found.times == found.sequences == [None, None]


def test_groups_are_those_of_the_models() -> None:
    group = group_of(Config(model=ModelSection(per="device")))
    found, _ = readings(Fields(device="d"), {"x": [1.0, 2.0], "d": ["a", 7]}, group)
    assert found.groups == found.devices == ["a", "7"]


def test_times_of_all_kinds() -> None:
    moments = ["2024-05-01T12:00:00", "2024-05-01T12:00:00.25"]
    expected = [1714564800.0, 1714564800.25]
    table: dict[str, Any] = {"x": [1.0, 2.0]}
    for column, unit in [
        (np.array(moments, dtype="datetime64[ms]"), "s"),
        (np.array(moments, dtype="datetime64[ns]"), "iso"),
        ([dt.datetime.fromisoformat(m) for m in moments], "s"),
        (moments, "iso"),
        (np.array(expected), "s"),
        ([1714564800000000000, 1714564800250000000], "ns"),
    ]:
        found, refused = readings(Fields(time="t", time_unit=unit), table | {"t": column})
        assert not refused
        assert found.times == expected
    found, _ = readings(Fields(time="t"), table | {"t": np.array([math.nan, 1.0])})
    assert found.times == [None, 1.0]
    missing = np.array(["NaT", moments[0]], dtype="datetime64[s]")
    found, _ = readings(Fields(time="t"), table | {"t": missing})
    assert found.times == [None, expected[0]]


def test_rows_that_make_no_sense_are_refused_one_by_one() -> None:
    table = {
        "x": [1.0, "hot", 3.0, math.inf, None, 6.0, 7.0, 10**400, 9.0],
        "y": np.array([math.nan, 1, -1e61, 1, math.nan, 1, 1, 1, 1]),
        "n": [1, 2, 3, 4, 5, 6.5, 7, 8, 9],
        "d": ["a", "a", "a", "a", "a", "a", None, "a", "a"],
    }
    found, refused = readings(Fields(features=["x", "y"], sequence="n", device="d"), table)
    assert found.sources == [0, 8]
    assert found.rows[:, 0].tolist() == [1.0, 9.0]
    assert found.sequences == [1, 9]
    assert [one.source for one in refused] == [1, 2, 3, 4, 5, 6, 7]
    reasons = ["field", "value", "value", "field", "field", "device", "value"]
    assert [one.reason for one in refused] == reasons
    texts = {one.source: one.text for one in refused}
    assert texts[1] == "x: expected a number, got 'hot'"
    assert texts[2] == "y: expected a finite number of at most 1e+60, got -1e+61"
    assert texts[3] == "x: expected a finite number of at most 1e+60, got inf"
    assert texts[4] == "expected at least one feature (x, y), got none"
    assert texts[5] == "n: expected a whole number, got 6.5"
    assert texts[6] == "d: expected a device name (text or a whole number), got None"
    assert texts[7].startswith("x: expected a finite number of at most 1e+60, got 1000")


def test_only_columns_of_numbers_are_found() -> None:
    table = {
        "text": ["1", "2"], "on": [True, False], "some": [None, 2], "none": [None, None],
        "words": ["1", "hot"], "gone": ["n/a", ""], "padded": [" 1e3 ", "nan"], "hex": ["0x1", "1"],
        "flags": np.array([True, False]), "small": np.array([1, 2], dtype=np.uint8),
        "objects": np.array([1.5, None], dtype=object), "when": np.array([1, 2], "datetime64[s]"),
    }  # fmt: skip
    found, _ = readings(Fields(), table)
    assert found.features == ("text", "on", "some", "padded", "flags", "small", "objects")
    assert found.rows[0].tolist()[:2] == [1.0, 1.0]
    named, _ = readings(Fields(features=["on", "flags"]), table)
    assert named.rows.tolist() == [[1.0, 1.0], [0.0, 0.0]]


@pytest.mark.parametrize(
    ("fields", "table", "text"),
    [
        ({"features": ["y"]}, {"x": [1.0]}, r"expected a column 'y', got \['x'\]"),
        ({}, {"x": ["a"]}, r"expected a column of numbers, got \['x'\]"),
        ({}, {"x": [1.0], "y": [1.0, 2.0]}, "expected columns of the same length"),
        ({}, {}, "expected columns of the same length"),
    ],
)
def test_tables_that_make_no_sense(fields: Any, table: Any, text: str) -> None:
    with pytest.raises(FieldsError, match=text):
        readings(Fields(**fields), table)


def test_a_table_may_be_empty() -> None:
    fields = Fields(features=["x"], label="c", time="t", sequence="n", device="d")
    empty: dict[str, Any] = {name: [] for name in "xctnd"}
    found, refused = readings(fields, empty)
    assert found.rows.shape == (0, 1)
    assert found.devices == found.labels == found.times == []
    assert not refused


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**65), 2**65),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=4),
    st.text("0123456789.eE+- naif", max_size=5),
    st.sampled_from(["7", "ok", 3.0, 1e61, 2**63, 10**400]),
)
usual = st.tuples(
    st.floats(-9, 9), st.integers(0, 9), st.just("ok"), st.integers(0, 9), st.just("a")
)
odd = st.tuples(scalars, scalars, scalars, scalars, scalars)


@settings(max_examples=150, deadline=None)
@given(st.lists(usual | odd, min_size=1, max_size=10))
def test_a_table_says_what_the_same_payloads_say(rows: list[tuple[Any, ...]]) -> None:
    fields = Fields(features=["x", "y"], label="c", sequence="n", device="d")
    names = ["x", "y", "c", "n", "d"]
    columns = {
        name: list(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)
    }
    found, refused = readings(fields, columns)
    payloads = [json.dumps(dict(zip(names, row, strict=True))).encode() for row in rows]
    read = FORMATS["json"](fields).read(payloads)
    texts = {one.source: one.text for one in read.refused}
    expected = {}
    for table in read.tables:
        for i, source in enumerate(table.sources):
            assert table.devices is not None
            assert table.labels is not None
            assert table.sequences is not None
            if table.devices[i] is None:  # a payload may have its device from the topic
                texts[source] = "d"
                continue
            values = table.rows[i].tolist()
            expected[source] = repr((values, table.labels[i], table.sequences[i], table.devices[i]))
    assert [one.source for one in refused] == sorted(texts)
    columns_found = (found.rows.tolist(), found.labels, found.sequences, found.devices)
    got = {s: repr(row) for s, *row in zip(found.sources, *columns_found, strict=True)}
    assert got == {s: text.replace("(", "[", 1)[:-1] + "]" for s, text in expected.items()}
