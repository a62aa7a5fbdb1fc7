"""InfluxDB's line protocol."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamlvq.config import Fields
from streamlvq_connectors import line_protocol
from streamlvq_connectors.files import LogError
from streamlvq_connectors.influx_log import InfluxLog
from streamlvq_connectors.line_protocol import (
    Point,
    ends_in_string,
    parse_line,
    split_columns,
    split_line,
)
from support.log_files import IN_INFLUX, Row, influx_line, read_rows


def log_of(folder: Path, text: str, fields: Fields | None = None) -> InfluxLog:
    path = folder / "log.lp"
    path.write_bytes(text.encode())
    return InfluxLog(path, fields)


@pytest.mark.parametrize(
    ("line", "point"),
    [
        ("m x=1", Point("m", {}, {"x": 1.0}, None)),
        ("m x=-1.5e-3,n=2i,u=3u 7", Point("m", {}, {"x": -0.0015, "n": 2, "u": 3}, 7)),
        ("m,a=b,c=d x=.5 -7", Point("m", {"a": "b", "c": "d"}, {"x": 0.5}, -7)),
        ("m a=t,b=F,c=TRUE", Point("m", {}, {"a": True, "b": False, "c": True}, None)),
        (r"a\,b\ c,k\=1=v\ w f\ g=1 1", Point("a,b c", {"k=1": "v w"}, {"f g": 1.0}, 1)),
        (r'm s="a b, c=\"d\" \\ \n" 1', Point("m", {}, {"s": 'a b, c="d" \\ \\n'}, 1)),
        ('m s="two\nlines",x=1 1', Point("m", {}, {"s": "two\nlines", "x": 1.0}, 1)),
        ('m,t="q" s=""', Point("m", {"t": '"q"'}, {"s": ""}, None)),
        ("a=b x=1  5 ", Point("a=b", {}, {"x": 1.0}, 5)),
    ],
)  # fmt: skip
def test_lines(line: str, point: Point) -> None:
    found = parse_line(line)
    assert found == point
    assert {k: type(v) for k, v in found.fields.items()} == {
        k: type(v) for k, v in point.fields.items()
    }


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("", "expected a measurement"),
        (",a=b x=1", "expected a measurement"),
        ("m", "expected a space before the fields"),
        ("m,a x=1", "expected a name and ="),
        ("m,a= x=1", "expected a value of 'a'"),
        ("m ", "expected a name and ="),
        ("m x", "expected a name and ="),
        ("m x=", "expected a value of 'x'"),
        ("m x=abc", "x: expected a number, true, false or a text in quotes, got 'abc'"),
        ("m x=1x", "x: expected a number"),
        ("m x=nan", "x: expected a number"),
        ('m s="open', "expected a value of 's'"),
        ("m x=1 soon", "expected a whole number as the time, got 'soon'"),
        ("m x=1 1.5", "expected a whole number as the time"),
        ("m x=1, 5", "expected a name and ="),
    ],
)
def test_lines_that_are_none(line: str, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        parse_line(line)


@pytest.mark.parametrize(("stamp", "time"), [
    ("1700000000", 1.7e9), ("1700000000250", 1700000000.25), ("1700000000250000", 1700000000.25),
    ("1700000000250000000", 1700000000.25), ("", None),
])  # fmt: skip
def test_the_precision_is_told_by_the_first_timestamp(
    tmp_path: Path, stamp: str, time: float | None
) -> None:
    found, refused = read_rows(log_of(tmp_path, f"m x=1 {stamp}\n" * 3), None)
    assert refused == []
    assert [row.time for row in found] == [time] * 3


def test_devices_come_from_a_tag_or_are_measurements(tmp_path: Path) -> None:
    text = "pump,device=p1 x=1\npump,device=p2 x=2\nfan x=3\nfan,site=a x=4\n"
    found, _ = read_rows(log_of(tmp_path, text), None)
    assert [row.device for row in found] == ["p1", "p2", "fan", "fan"]
    found, refused = read_rows(log_of(tmp_path, text, Fields(device="site")), None)
    assert [row.device for row in found] == ["a"]
    assert [text.partition(": ")[0] for text in refused] == ["line 1", "line 2", "line 3"]


def test_lines_that_are_made_otherwise_are_read_too(tmp_path: Path) -> None:
    text = (
        "# exported\n"
        'pump,site=a x=1,y=2,state="on" 1700000000000000000\n'
        "pump,site=a y=4,x=3 1700000001000000000\n"
        "\n"
        'pump x=5,state="off",z=9 1700000002000000000\n'
        "# in between\n"
        "pump,site=a x=oops,y=1 1700000003000000000\n"
        'pump,site=a x="text",y=1,state="on" 1700000003000000000\n'
        "pump,site=a,zone=b y=6i 1700000004000000000\r\n"
    )
    fields = Fields(label="state", features=["x", "y"])
    found, refused = read_rows(log_of(tmp_path, text, fields), None)
    assert [(row.values, row.label) for row in found] == [
        ((1.0, 2.0), "on"),
        ((3.0, 4.0), None),
        ((5.0, None), "off"),
        ((None, 6.0), None),
    ]
    assert [row.time for row in found] == [1.7e9, 1.7e9 + 1, 1.7e9 + 2, 1.7e9 + 4]
    assert refused == [
        "line 7: x: expected a number, true, false or a text in quotes, got 'oops'",
        "line 8: x: expected a number, got 'text'",
    ]


def test_features_are_the_numbers_of_the_first_lines(tmp_path: Path) -> None:
    text = 'm,a=1 x=1,s="t",b=true 1\nm,a=1 x=1,n=2i,s="t",b=true 2\n'
    log = log_of(tmp_path, text, Fields(label="s"))
    log.open()
    batch = log.read()
    assert batch is not None
    assert batch.features == ("x", "b", "n")  # type: ignore[union-attr]
    log.close()
    with pytest.raises(LogError, match=r"expected a column 'y', got \['a', 'x', 's', 'b', 'n'\]"):
        log_of(tmp_path, text, Fields(features=["y"])).open()


def test_text_that_is_a_number_is_one(tmp_path: Path) -> None:
    text = 'm x=1,temperature="21.1",mode="hot"\nm x=2,temperature="22",mode="cold"\n'
    found, refused = read_rows(log_of(tmp_path, text), None)
    assert refused == []
    assert [row.values for row in found] == [(1.0, 21.1), (2.0, 22.0)]


def test_tags_and_booleans_can_be_features_if_named(tmp_path: Path) -> None:
    text = "m,a=1.5 ok=true\nm,a=2 ok=f\nm ok=T\nm,a=3 ok=maybe\nm,a=4 ok=1\n"
    found, refused = read_rows(log_of(tmp_path, text, Fields(features=["a", "ok"])), None)
    assert [row.values for row in found] == [(1.5, 1.0), (2.0, 0.0), (None, 1.0), (4.0, 1.0)]
    assert len(refused) == 1
    assert refused[0].startswith("line 4: ok: expected")


def test_a_field_can_be_the_time_and_the_sequence(tmp_path: Path) -> None:
    text = "m t=1700000000250i,n=9007199254740993i,x=1,state=4i 5\nm x=2,t=1700000000500i 6\n"
    fields = Fields(time="t", time_unit="ms", sequence="n", label="state")
    found, refused = read_rows(log_of(tmp_path, text, fields), None)
    assert refused == []
    assert found == [
        Row("m", 4, 1700000000.25, 9007199254740993, (1.0,)),
        Row("m", None, 1700000000.5, None, (2.0,)),
    ]
    text = 'm t="2023-11-14T22:13:20.25Z",x=1 5\nm x=2,t="2023-11-14T22:13:20.5Z" 6\n'
    fields = Fields(time="t", time_unit="iso")
    found, _ = read_rows(log_of(tmp_path, text, fields), None)
    assert [row.time for row in found] == [1700000000.25, 1700000000.5]


def test_something_else_is_no_such_log(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="expected lines like"):
        log_of(tmp_path, "a,b\n1,2\n").open()


def test_escapes_and_typed_values_are_read(tmp_path: Path) -> None:
    line = r'a\ b,device=p\,1,site=x t=1.5,n=2i,ok=t,state="so \"so\"" 1700000000000000000'
    fields = Fields(features=["t", "n"], label="state")
    found, refused = read_rows(log_of(tmp_path, (line + "\n") * 3, fields), None)
    assert refused == []
    assert found == [Row("p,1", 'so "so"', 1.7e9, None, (1.5, 2.0))] * 3


def test_strings_of_several_lines(tmp_path: Path) -> None:
    text = (
        'm s="two\nlines",x=1 1\n'
        '# s="a comment\n'
        'm s="three\n\\"lines\\"\n=",x=2 2\n'
        'm,size=5" x=3 3\n'
        'm s="never closed,x=4 4\n'
        "m x=5 5\n"
    )
    fields = Fields(features=["x"], label="s")
    found, refused = read_rows(log_of(tmp_path, text, fields), None)
    assert [(row.values[0], row.label) for row in found] == [
        (1.0, "two\nlines"),
        (2.0, 'three\n"lines"\n='),
        (3.0, None),
        (5.0, None),
    ]
    assert len(refused) == 1
    assert refused[0].startswith("line 8: expected a value of 's'")


names = st.text(
    st.characters(codec="utf-8", exclude_characters='\0\\\r\n"#', exclude_categories=["Cs"]),
    min_size=1,
    max_size=6,
)
texts = st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), min_size=1, max_size=6)
row = st.builds(
    Row,
    device=names,
    label=st.one_of(st.none(), st.integers(-(10**15), 10**15), texts),
    time=st.one_of(st.none(), st.integers(4 * 10**8, 3 * 10**10).map(lambda q: q / 4)),
    sequence=st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)),
    values=st.tuples(st.floats(-1e60, 1e60), *[st.one_of(st.none(), st.floats(-1e60, 1e60))] * 3),
)


@settings(deadline=None, max_examples=100)
@given(st.lists(row, min_size=1, max_size=20))
def test_random_points_come_back(tmp_path_factory: pytest.TempPathFactory, rows: list[Row]) -> None:
    full = Row("d", "on", 1.7e9, 1, (1.0, 1.0, 1.0, 1.0))  # so that all fields are known
    text = "".join(influx_line(r) + "\n" for r in [full, *rows])
    found, refused = read_rows(log_of(tmp_path_factory.mktemp("lp"), text, IN_INFLUX), None)
    assert refused == []
    assert found[1:] == rows


def test_tags_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.lp"
    path.write_bytes(b"m,site=a x=1 1700000000000000000\nm,site=\xfc x=1 1700000000000000000\n")
    found, refused = read_rows(InfluxLog(path, Fields(device="site")), None)
    assert [row.device for row in found] == ["a"]
    assert len(refused) == 1
    assert refused[0].startswith("line 2: ")
    assert "expected text in UTF-8" in refused[0]


plain_lines = st.builds(
    '{},device={} x={},n={}i,s="{}"{}'.format,
    st.sampled_from(["pump", "fan"]),
    st.sampled_from(["a", "b", "\udcfc"]),
    st.floats(-1e9, 1e9).map(repr),
    st.integers(-(10**19), 10**19),
    st.sampled_from(["on", "off", "so so", "a=", "a,b", "x=1,n=2i", ""]),
    st.sampled_from([" 1700000000000000000", " -5", "", " soon", " 1.5", "  7 ", "\r"]),
)
pieces = ["m", ",", "=", " ", '"', "\\", "#", "x=1", "n=2i", 's="', "-0i", "-0", "1_0", "inf", "\t"]


@st.composite
def damaged_lines(draw: st.DrawFn) -> str:
    """A plain line with something put into it, or taken out of it."""
    line = draw(plain_lines)
    at = draw(st.integers(0, len(line)))
    return line[:at] + draw(st.sampled_from(["", *pieces])) + line[at + draw(st.integers(0, 3)) :]


many_lines = st.lists(
    st.one_of(
        plain_lines,
        plain_lines,
        damaged_lines(),
        st.lists(st.sampled_from(pieces), max_size=8).map("".join),
    ),
    max_size=30,
)


@settings(deadline=None, max_examples=300)
@given(many_lines)
def test_lines_split_by_columns_are_as_split_one_by_one(lines: list[str]) -> None:
    lines = [line.rstrip("\r") for line in lines] + ['pump x=1,n=2i,s="on" 7'] * 4
    found = split_columns(lines, ["x", "n", "s"])
    assert None not in found.heads[-4:]
    for i, line in enumerate(lines):
        head = found.heads[i]
        if head is not None:
            fields = {n: cells[i] for n, cells in found.fields.items() if cells[i] is not None}
            parts = split_line(line)
            used = {name: cell for name, cell in parts.fields.items() if name in found.fields}
            assert (head.measurement, head.tags) == (parts.measurement, parts.tags)
            assert (fields, found.times[i] or None) == (used, parts.time)
            assert not ends_in_string(line)
            assert line[0] != "#"


@settings(deadline=None, max_examples=200)
@given(many_lines, st.sampled_from([80, 1 << 20]))
def test_both_roads_read_and_refuse_the_same(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], block_bytes: int
) -> None:
    path = tmp_path_factory.mktemp("lp") / "log.lp"
    lines = ['pump,device=a x=1,n=2i,s="on" 1700000000000000000'] * 5 + lines
    path.write_bytes("".join(line + "\n" for line in lines).encode(errors="surrogateescape"))
    log = InfluxLog(path, Fields(features=["x", "n"], label="s"))
    log.block_bytes = block_bytes
    by_columns = read_rows(log, None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(line_protocol, "LAYOUT_MIN_LINES", 1 << 60)  # one by one
        assert repr(read_rows(log, None)) == repr(by_columns)  # -0.0 is not 0.0
    assert len(by_columns[0]) >= 5


def test_lines_of_several_layouts_are_all_split_by_columns() -> None:
    lines = [line for i in range(4) for line in (f"a x={i},y=1", f"a y=1,x={i}", f"b,t=q x={i}")]
    found = split_columns(lines, ["x"])
    assert None not in found.heads
    assert found.fields["x"] == [str(i // 3) for i in range(12)]
