"""CSV files: numbers, records, and what can be wrong with them."""

from __future__ import annotations

import csv
import io
import itertools
import math
import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from streamlvq.config import Fields
from streamlvq.events import Readings
from streamlvq.payloads.values import is_missing
from streamlvq_connectors.csv_log import MAX_BATCH_ROWS, CsvLog, read_records
from streamlvq_connectors.files import BLOCK_BYTES, LogError
from streamlvq_connectors.tables import to_number, to_numbers
from support.log_files import batches, read_rows, rows_of


def log_of(folder: Path, text: str | bytes, fields: Fields | None = None) -> CsvLog:
    path = folder / "log.csv"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return CsvLog(path, fields)


def all_of(log: CsvLog) -> tuple[Readings, list[str]]:
    """The only batch of a small log."""
    log.open()
    [found] = list(batches(log))
    log.open()
    log.read()
    refused = log.refused
    log.close()
    assert isinstance(found, Readings)
    return found, refused


# --- numbers ---------------------------------------------------------------------------------


patient = settings(deadline=None)  # the machine may be busy


def same(a: float, b: float) -> bool:
    return struct.pack("d", a) == struct.pack("d", b) or (a != a and b != b)


@patient
@given(st.lists(st.floats(allow_infinity=False, width=64), min_size=1, max_size=50))
def test_shortest_forms_of_floats_are_read_to_the_last_bit(values: list[float]) -> None:
    found, bad = to_numbers([repr(value) for value in values])
    assert bad == {}
    assert all(map(same, found, values))


digits = st.text("0123456789", min_size=1, max_size=40)
written = st.builds(
    "{}{}{}{}{}".format,
    st.sampled_from(["", "-", "+"]),
    digits,
    st.sampled_from(["", "."]),
    st.one_of(st.just(""), digits),
    st.one_of(st.just(""), st.builds("{}{}".format, st.sampled_from("eE"), st.integers(-30, 30))),
)


@patient
@given(st.lists(written, min_size=1, max_size=50))
@example(["9007199254740993", "9007199254740992.5", "0.1", "1e23", "8.5e-22", "-0", "00012.50"])
@example(
    ["1" + "0" * 17, "1" + "0" * 18, "123456789012345678901234567890.5", "0." + "0" * 30 + "7"]
)
def test_any_way_of_writing_a_number_is_read_like_float(cells: list[str]) -> None:
    found, bad = to_numbers(cells)
    assert bad == {}
    for cell, number in zip(cells, found, strict=True):
        assert same(number, float(cell))
        assert same(to_number(cell), float(cell))


def test_halfway_cases_are_rounded_to_even() -> None:
    values = [1.0, 1.5, 3.14159, 1e10, 123456789.123]
    halves = []
    for value in values:
        low = int(struct.unpack("q", struct.pack("d", value))[0])
        up = struct.unpack("d", struct.pack("q", low + 1))[0]
        top, bottom = value.as_integer_ratio()
        top2, bottom2 = up.as_integer_ratio()
        numerator, denominator = top * bottom2 + top2 * bottom, 2 * bottom * bottom2
        while denominator % 2 == 0 and numerator % 2 == 0:
            numerator, denominator = numerator // 2, denominator // 2
        power = denominator.bit_length() - 1
        text = str(numerator * 5**power).zfill(power + 1)
        halves.append(f"{text[:-power]}.{text[-power:]}")
    found, bad = to_numbers(halves)
    assert bad == {}
    assert found.tolist() == [float(cell) for cell in halves]


@patient
@given(
    st.lists(st.text('0123456789.eE+-_ naif,"x\t\x1c\u0661\udcff', max_size=8), min_size=1),
    st.sampled_from([0, -3, -9]),
)
@example(["1", "", " 2", "3 ", " ", "nan"], 0)
@example(["1", "", " 2", "3 ", " ", "1.5"], -3)
@example([" "], 0)
def test_a_column_is_read_like_its_cells(cells: list[str], exponent: int) -> None:
    found, bad = to_numbers(cells, exponent)
    assert len(found) == len(cells)
    for row, cell in enumerate(cells):
        try:
            number = to_number(cell, exponent)
        except ValueError as error:
            assert bad.pop(row) == str(error)
            assert math.isnan(found[row])
        else:
            assert found[row] == number or (math.isnan(found[row]) and math.isnan(number))
    assert bad == {}


@pytest.mark.parametrize(
    "cell", ["1_000", "0x10", "١٢", "inf", "-Infinity", "-nan", "1e", ".", "1.2.3", "--1", "\x1c1"]
)
def test_python_would_take_some_that_nobody_means(cell: str) -> None:
    found, bad = to_numbers(["1", cell])
    assert found[0] == 1
    assert list(bad) == [1]
    with pytest.raises(ValueError, match="expected a number"):
        to_number(cell)


@patient
@given(st.integers(-(10**18), 10**18), st.sampled_from([-3, -6, -9]))
def test_times_are_scaled_without_rounding_twice(time: int, exponent: int) -> None:
    found, bad = to_numbers([str(time)], exponent)
    assert bad == {}
    assert found[0] == time / 10**-exponent  # integers divide exactly
    assert to_number(str(time), exponent) == time / 10**-exponent


# --- records ---------------------------------------------------------------------------------

cell_text = st.text(
    st.characters(codec="utf-8", exclude_characters="\0", exclude_categories=["Cs"]), max_size=8
)


@patient
@given(st.lists(st.lists(cell_text, min_size=3, max_size=3), min_size=1, max_size=20))
def test_texts_come_back_whatever_they_hold(rows: list[list[str]]) -> None:
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL).writerows(rows)
    found = read_records(text.getvalue().encode(), ",", final=True)
    assert (found.rows, found.rest) == (rows, b"")


@patient
@given(st.binary(max_size=200), st.booleans())
def test_garbage_is_read_to_its_end(data: bytes, final: bool) -> None:
    block = data + b"\n"
    found = read_records(block, ",", final)
    assert found.rest == b"" or not final
    assert "".join(found.lines).encode(errors="surrogateescape") == block  # nothing is lost
    rest = io.StringIO(found.rest.decode(errors="surrogateescape"), newline="")
    used = len(found.lines) - len(list(rest))
    starts = [*found.starts, used]
    assert starts == sorted(set(starts))
    blank = set(range(used)) - {k for a, b in itertools.pairwise(starts) for k in range(a, b)}
    assert all(found.lines[k] in ("\n", "\r", "\r\n") for k in blank)


def test_a_record_with_an_open_quote_waits_for_the_rest() -> None:
    found = read_records(b'a,1\n"b\n', ",", final=False)
    assert (found.rows, found.rest) == ([["a", "1"]], b'"b\n')
    found = read_records(b'"b\n",2\n', ",", final=False)
    assert (found.rows, found.rest) == ([["b\n", "2"]], b"")


def test_a_quote_that_nobody_closes_takes_one_line_with_it() -> None:
    found = read_records(b'"a,1\nb,2\nc,3\n', ",", final=True)
    assert found.rows == [["a,1\n"], ["b", "2"], ["c", "3"]]
    assert found.starts == [0, 1, 2]


def test_large_cells_are_read_and_the_limit_of_csv_stays() -> None:
    limit = csv.field_size_limit()
    large = "x" * (limit + 1)
    found = read_records(f'"{large}",1\n"{large}\n'.encode(), ",", final=True)
    assert found.rows == [[large, "1"], [large + "\n"]]
    assert csv.field_size_limit() == limit


# --- the log ---------------------------------------------------------------------------------


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_delimiters_are_found_out(tmp_path: Path, delimiter: str) -> None:
    text = "x,y,state\n1.5,2,on\n,3,\n".replace(",", delimiter)
    found, refused = all_of(log_of(tmp_path, text, Fields(label="state")))
    assert refused == []
    assert found.features == ("x", "y")
    assert [row.values for row in rows_of(found)] == [(1.5, 2.0), (None, 3.0)]
    assert found.labels == ["on", None]


@pytest.mark.parametrize("cells", ["1,5;2\n2,5;3\n", "1;1.234,5\n2;2,5e3\n", "-,5;1\n;2\n"])
@pytest.mark.parametrize("features", [None, ["x"]])
def test_decimal_commas_are_refused_not_guessed(
    tmp_path: Path, cells: str, features: list[str] | None
) -> None:
    with pytest.raises(LogError, match=r"[xy]: expected decimal points, .* \('.*,5.*pandas"):
        log_of(tmp_path, "x;y\n" + cells, Fields(features=features)).open()


def test_rows_with_commas_among_others_are_refused(tmp_path: Path) -> None:
    found, refused = all_of(log_of(tmp_path, "x;y\n1,5;2,5\n1.5;2.5\n", Fields(features=["x"])))
    assert found.rows.tolist() == [[1.5]]
    assert refused == ["line 2: x: expected a number (decimals need a point), got '1,5'"]


def test_commas_in_texts_and_labels_are_no_decimals(tmp_path: Path) -> None:
    text = "x;state;note\n1.5;1,5;3, or 4\n2;2,5;7\n"
    found, _ = all_of(log_of(tmp_path, text, Fields(label="state")))
    assert (found.features, found.labels) == (("x",), ["1,5", "2,5"])


def test_columns_are_told_apart_by_their_first_rows(tmp_path: Path) -> None:
    text = "x,note,empty,y\n1,ok,,2\nbroken,3,,4\n5,fine,,n/a\n"
    found, refused = all_of(log_of(tmp_path, text))
    assert found.features == ("x", "y")
    assert [row.values for row in rows_of(found)] == [(1.0, 2.0), (5.0, None)]
    assert refused == ["line 3: x: expected a number, got 'broken'"]


def test_true_is_one_and_false_is_zero(tmp_path: Path) -> None:
    text = "x,contact,note\n1,true,a\n2,False,b\n3,,true\n4,open,c\n"
    found, refused = all_of(log_of(tmp_path, text))
    assert found.features == ("x", "contact")
    assert [row.values for row in rows_of(found)] == [(1.0, 1.0), (2.0, 0.0), (3.0, None)]
    assert refused == ["line 5: contact: expected a number, got 'open'"]


def test_named_features_come_in_the_order_named(tmp_path: Path) -> None:
    found, _ = all_of(log_of(tmp_path, "a,b,c\n1,2,3\n", Fields(features=["c", "a"])))
    assert (found.features, found.rows.tolist()) == (("c", "a"), [[3.0, 1.0]])


def test_all_roles_by_name(tmp_path: Path) -> None:
    text = (
        'when,who,n,state,"a, b"\n'
        '2024-05-01T12:00:00Z,7,9007199254740993,"on, ""hot""",1e3\n'
        "2024-05-01T12:00:00.250+02:00,fan,2,4,2\n"
    )
    fields = Fields(label="state", time="when", time_unit="iso", sequence="n", device="who")
    found, refused = all_of(log_of(tmp_path, text, fields))
    assert refused == []
    assert found.features == ("a, b",)
    assert found.devices == ["7", "fan"]
    assert found.sequences == [9007199254740993, 2]
    assert found.labels == ['on, "hot"', 4]
    assert found.times == [1714564800.0, 1714557600.25]


@pytest.mark.parametrize(("unit", "text"), [("s", "1700000000.25"), ("ms", "1700000000250"),
                                            ("us", "1700000000250000"),
                                            ("ns", "1700000000250000000")])  # fmt: skip
def test_units_of_time(tmp_path: Path, unit: str, text: str) -> None:
    fields = Fields(time="t", time_unit=unit)  # type: ignore[arg-type]
    found, _ = all_of(log_of(tmp_path, f"t,x\n{text},1\n,2\n", fields))
    assert found.times == [1700000000.25, None]


@pytest.mark.parametrize("role", ["label", "time", "sequence", "device"])
def test_columns_that_are_absent(tmp_path: Path, role: str) -> None:
    log = log_of(tmp_path, "x,Machine State\n1,on\n", Fields(**{role: "machine state"}))
    with pytest.raises(LogError) as caught:
        log.open()
    for words in (
        f"expected a column 'machine state' (the {role})",
        "got ['x', 'Machine State']; did you mean 'Machine State'?",
        f"--{role} ''",
    ):
        assert words in str(caught.value)
    with pytest.raises(
        LogError, match=r"expected a column 'temprature'.*did you mean 'temperature'\?"
    ):
        log_of(tmp_path, "temperature\n1\n", Fields(features=["temprature"])).open()


def test_texts_that_are_none_are_refused_by_row(tmp_path: Path) -> None:
    data = b"x,state,note\n1,k\xfchl,\n2,on,\xff\n3,h\xc3\xb6her,\n"
    found, refused = all_of(log_of(tmp_path, data, Fields(label="state")))
    assert found.labels == ["on", "höher"]  # what nobody reads may be anything
    assert len(refused) == 1
    assert refused[0].startswith("line 2: state: expected text in UTF-8, got b'k\\xfchl'")


def test_many_columns_are_not_all_named(tmp_path: Path) -> None:
    names = [f"sensor number {i}" for i in range(500)]
    text = ",".join(names) + "\n" + ",".join(["1"] * 500) + "\n"
    with pytest.raises(LogError, match="and 470 more") as caught:
        log_of(tmp_path, text, Fields(label="state")).open()
    assert len(str(caught.value)) < 1200


def test_what_is_left_out_is_noted(tmp_path: Path) -> None:
    text = "x,note,state,empty,\n1,ok,on,,\n2,hm,off,,\n"
    log = log_of(tmp_path, text, Fields(label="state"))
    log.open()
    assert log.notes == ["left out, because they are not numbers: note, empty"]
    log = log_of(tmp_path, text, Fields(features=["x"]))
    log.open()
    assert log.notes == []
    many = ",".join(f"n{i}" for i in range(20))
    log = log_of(tmp_path, f"x,{many}\n1{',a' * 20}\n")
    log.open()
    assert log.notes[0].endswith("n6, n7 and 12 more")
    log.close()


@pytest.mark.parametrize("unit", ["s", "ms", "iso"])
def test_times_that_are_texts_are_recognised(tmp_path: Path, unit: str) -> None:
    fields = Fields(time="t", time_unit=unit)  # type: ignore[arg-type]
    log = log_of(tmp_path, "t,x\n2024-05-01 12:00:00,1\n,2\n2024-05-01T12:00:01Z,3\n", fields)
    found, refused = all_of(log)
    assert refused == []
    assert found.times == [1714564800.0, None, 1714564801.0]
    assert log.notes == ["t: times are texts (ISO 8601), read as such"] * (unit != "iso")


def test_times_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(LogError, match=r"t: expected times as numbers .* got '01\.05\.2024'"):
        log_of(tmp_path, "t,x\n01.05.2024,1\n", Fields(time="t")).open()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", "a picture"),
        (b"PK\x03\x04\x14\x00", "save the table as CSV"),
        (b"\x1f\x8b\x08\x00", "end in .gz"),
        (b"\x7fELF\x02\x01\x01\x00\x00\n", "something else, which begins with"),
        ("t;k\xfchl\n1;2\n".encode("latin-1"), "iconv -f latin1 -t utf-8 log.csv > utf8-log.csv"),
        ("t;x\n1;2\n".encode("utf-16"), "iconv -f utf-16"),
        (b"x,y\n" + b'"' + b"1" * 200_000 + b'",2\n', "expected a table"),
    ],
    ids=["png", "excel", "gzip", "elf", "latin-1", "utf-16", "endless"],
)
def test_files_that_are_no_tables(tmp_path: Path, data: bytes, words: str) -> None:
    with pytest.raises(LogError) as caught:
        log_of(tmp_path, data).open()
    assert words in str(caught.value)


def test_bad_rows_are_refused_with_their_line_numbers(tmp_path: Path) -> None:
    rows = [
        ("pump,1,2", None),
        ("pump,1", "expected 3 cells, got 2"),
        ("pump,1,2,3", "expected 3 cells, got 4"),
        ('"pu\nmp",1,2', None),
        ("pump,x,2", "x: expected a number, got 'x'"),
        ("", None),
        ("pump,1e99,2", "x: expected a finite number of at most 1e+60, got 1e+99"),
        ("pump,inf,2", "x: expected a number, got 'inf'"),
        (",1,2", "who: expected a device name"),
        ("pump,,", "expected at least one feature"),
        ("pump,\xff,2", "x: expected a number"),
        ("fan,3,4", None),
    ]
    text = "who,x,y\n" + "".join(row + "\n" for row, _ in rows)
    log = log_of(tmp_path, text, Fields(device="who", features=["x", "y"]))
    found, refused = all_of(log)
    assert found.devices == ["pump", "pu\nmp", "fan"]
    assert found.sources == [0, 3, 10]
    line = 2
    expected = []
    for row, error in rows:
        expected += [f"line {line}: {error}"] if error else []
        line += row.count("\n") + 1
    assert len(refused) == len(expected)
    for got, start in zip(refused, expected, strict=True):
        assert got.startswith(start)


def test_headers_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="expected the names of the columns first"):
        log_of(tmp_path, "1,2\n3,4\n").open()
    for first in ("2024-05-01T12:00:00,on,1.5", "1.5,on,1.5", "1,,2"):
        with pytest.raises(LogError, match=r"names of the columns first.* on top"):
            log_of(tmp_path, f"{first}\n{first}\n").open()
    log = log_of(tmp_path, "400,410,state\n1,2,on\n")  # a spectrum may well have such names
    log.open()
    log.close()
    with pytest.raises(LogError, match=r"expected distinct columns, got \['x'\] twice"):
        log_of(tmp_path, "x,y,x\n1,2,3\n").open()


def test_an_index_without_a_name_is_no_feature(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"x": [1.5, None], "y": [2, 3], "state": ["on", None]})
    found, _ = all_of(log_of(tmp_path, frame.to_csv(), Fields(label="state")))
    assert found.features == ("x", "y")
    assert found.labels == ["on", None]


def test_numpys_own_format_is_read_exactly(tmp_path: Path) -> None:
    values = np.random.default_rng(1).normal(size=(200, 3)) * [1, 1e-9, 1e12]
    text = io.StringIO()
    np.savetxt(text, values, delimiter=",", header="a,b,c", comments="")
    log = log_of(tmp_path, text.getvalue())
    found, _ = all_of(log)
    assert np.array_equal(found.rows, values)


def test_files_of_many_short_rows_come_in_several_batches(tmp_path: Path) -> None:
    count = MAX_BATCH_ROWS + 1000
    log = log_of(tmp_path, "x\n" + "".join(f"{i % 10}\n" for i in range(count)) + "bad\n")
    log.open()
    sizes, refused = [], []
    for batch in batches(log):
        sizes.append(len(batch))
        refused += log.refused
    log.close()
    assert max(sizes) <= MAX_BATCH_ROWS
    assert sum(sizes) == count
    assert refused == [f"line {count + 2}: x: expected a number, got 'bad'"]


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    row = ",".join(["1.25"] * 18) + "\n"
    header = ",".join(f"s{i}" for i in range(18)) + "\n"
    log = log_of(tmp_path, header + row * (20 * BLOCK_BYTES // len(row)))
    log.open()
    log.read()
    tracemalloc.start()
    for _ in batches(log):
        pass
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    log.close()
    assert peak < 16 * BLOCK_BYTES


values = st.one_of(st.none(), st.floats(-1e60, 1e60, allow_nan=False))
labels = st.one_of(
    st.none(),
    st.integers(-(10**17), 10**17),
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=5).filter(
        lambda s: not s.removeprefix("-").isdecimal()
    ),
)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.tuples(st.floats(-1e60, 1e60), values, labels), min_size=1, max_size=30),
    st.sampled_from([",", ";", "\t"]),
    st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]),
    st.sampled_from(["\n", "\r\n"]),
)
def test_random_tables_come_back(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[float, float | None, str | int | None]],
    delimiter: str,
    quoting: int,
    ending: str,
) -> None:
    # Python 3.11 writes such an end of a line without quotes, so nobody could tell
    assume(quoting == csv.QUOTE_ALL or not any("\r" in str(row[2]) for row in rows))
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=delimiter, quoting=quoting, lineterminator=ending)
    writer.writerow(["x", "y", "state"])
    writer.writerows(rows)
    fields = Fields(features=["x", "y"], label="state")
    log = log_of(tmp_path_factory.mktemp("csv"), text.getvalue(), fields)
    found, refused = read_rows(log, None)
    assert refused == []
    assert [(*row.values, row.label) for row in found] == rows


def test_missing_is_what_people_write_for_it() -> None:
    assert all(map(is_missing, ["", " ", "nan", "NaN", "NULL", "None", "NA", "n/a"]))
    assert not any(map(is_missing, ["0", "-", "x"]))
