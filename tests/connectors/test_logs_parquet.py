"""Parquet files."""

from __future__ import annotations

import datetime
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from streamlvq.config import Fields
from streamlvq_connectors.files import LogError
from streamlvq_connectors.parquet_log import ParquetLog
from support.log_files import batches, read_rows

pyarrow = pytest.importorskip("pyarrow")
pytest.importorskip("pyarrow.parquet")


def log_of(folder: Path, columns: dict[str, Any], fields: Fields | None = None) -> ParquetLog:
    path = folder / "log.parquet"
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    return ParquetLog(path, fields)


@pytest.mark.parametrize(
    "kind", ["int8", "uint16", "int32", "int64", "float16", "float32", "float64", "decimal"]
)
def test_numbers_of_any_type(tmp_path: Path, kind: str) -> None:
    type_ = pyarrow.decimal128(10, 2) if kind == "decimal" else pyarrow.type_for_alias(kind)
    column = pyarrow.array([1.0, 2.0, None]).cast(type_, safe=False)
    found, refused = read_rows(log_of(tmp_path, {"x": column, "y": [4.0, 5.0, 6.0]}), None)
    assert refused == []
    assert [row.values for row in found] == [(1.0, 4.0), (2.0, 5.0), (None, 6.0)]


def test_booleans_are_features(tmp_path: Path) -> None:
    columns = {"x": [1.5, 2.5], "ok": [True, None]}
    found, _ = read_rows(log_of(tmp_path, columns), None)
    assert [row.values for row in found] == [(1.5, 1.0), (2.5, None)]
    found, _ = read_rows(log_of(tmp_path, columns, Fields(features=["ok", "x"])), None)
    assert [row.values for row in found] == [(1.0, 1.5), (None, 2.5)]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
def test_timestamps_whatever_the_unit(tmp_path: Path, unit: str, zone: str | None) -> None:
    scale = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    stamps = [1_700_000_000 * scale + 123456789 * scale // 10**9, None]
    column = pyarrow.array(stamps, pyarrow.timestamp(unit, zone))
    for configured in ("s", "iso"):
        fields = Fields(time="t", time_unit=configured)  # type: ignore[arg-type]
        found, refused = read_rows(log_of(tmp_path, {"t": column, "x": [1.0, 2.0]}, fields), None)
        assert refused == []
        assert [row.time for row in found] == [stamps[0] / scale, None]  # type: ignore[operator]


@pytest.mark.parametrize(("unit", "value", "time"), [
    ("s", 1.7e9 + 0.25, 1.7e9 + 0.25), ("ms", 1_700_000_000_250, 1.7e9 + 0.25),
    ("ns", 1_700_000_000_123_456_789, 1_700_000_000_123_456_789 / 10**9),
    ("iso", "2023-11-14T22:13:20.25Z", 1.7e9 + 0.25),
])  # fmt: skip
def test_times_as_numbers_and_texts(tmp_path: Path, unit: str, value: Any, time: float) -> None:
    fields = Fields(time="t", time_unit=unit)  # type: ignore[arg-type]
    found, _ = read_rows(log_of(tmp_path, {"t": [value, None], "x": [1.0, 2.0]}, fields), None)
    assert [row.time for row in found] == [time, None]


def test_all_roles(tmp_path: Path) -> None:
    columns = {
        "who": pyarrow.array(["a", "b", "a"]).dictionary_encode(),
        "n": [1, None, 2**62 + 1],
        "state": [3, None, 4],
        "x": [1.0, 2.0, 3.0],
        "day": [datetime.date(2024, 1, 1)] * 3,
    }
    fields = Fields(device="who", sequence="n", label="state")
    found, refused = read_rows(log_of(tmp_path, columns, fields), None)
    assert refused == []
    assert [row.device for row in found] == ["a", "b", "a"]
    assert [row.sequence for row in found] == [1, None, 2**62 + 1]
    assert [row.label for row in found] == [3, None, 4]


def test_bad_rows_are_refused_with_their_numbers(tmp_path: Path) -> None:
    columns = {"who": ["a", None, "b", "c"], "x": [1.0, 2.0, float("inf"), 4.0]}
    found, refused = read_rows(log_of(tmp_path, columns, Fields(device="who")), None)
    assert [row.device for row in found] == ["a", "c"]
    assert [text.partition(":")[0] for text in refused] == ["row 2", "row 3"]


def test_row_groups_come_one_after_the_other(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    table = pyarrow.table({"x": list(range(50_000)), "y": [float("inf")] + [1.0] * 49_999})
    pyarrow.parquet.write_table(table, path, row_group_size=20_000)
    log = ParquetLog(path)
    log.open()
    sizes = [len(batch) for batch in batches(log)]
    assert sum(sizes) == 49_999
    assert max(sizes) <= 1 << 14
    log.close()


def test_no_rows_and_no_such_files(tmp_path: Path) -> None:
    assert read_rows(log_of(tmp_path, {"x": pyarrow.array([], "float64")}), None) == ([], [])
    with pytest.raises(LogError, match=r"expected a column 'y', got \['x'\]"):
        log_of(tmp_path, {"x": [1.0]}, Fields(features=["y"])).open()
    with pytest.raises(LogError, match="expected columns of numbers"):
        log_of(tmp_path, {"x": ["a"]}).open()
    path = tmp_path / "other"
    path.write_bytes(b"PAR1 is how it begins")
    with pytest.raises(LogError, match="expected a Parquet file"):
        ParquetLog(path).open()


def test_without_pyarrow_it_says_what_to_install(tmp_path: Path) -> None:
    program = f"""
import sys
sys.modules["pyarrow"] = None
from pathlib import Path
from streamlvq.connect import logs
try:
    logs()["parquet"](Path({str(tmp_path)!r})).open()
except ImportError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "this needs pyarrow: pip install 'streamlvq[parquet]'\n"


def test_columns_that_are_absent_or_left_out(tmp_path: Path) -> None:
    columns = {"x": [1.0], "Machine State": ["on"], "note": ["a"]}
    with pytest.raises(LogError, match=r"\(the label\).*did you mean 'Machine State'\?"):
        log_of(tmp_path, columns, Fields(label="machine state")).open()
    log = log_of(tmp_path, columns, Fields(label="Machine State"))
    log.open()
    assert log.notes == ["left out, because they are not numbers: note"]
    log.close()


def test_times_that_are_texts_are_recognised(tmp_path: Path) -> None:
    columns = {"t": ["2024-05-01T12:00:00Z", None], "x": [1.0, 2.0]}
    log = log_of(tmp_path, columns, Fields(time="t"))
    found, refused = read_rows(log, None)
    assert ([row.time for row in found], refused) == ([1714564800.0, None], [])
    assert log.notes == ["t: times are texts (ISO 8601), read as such"]
