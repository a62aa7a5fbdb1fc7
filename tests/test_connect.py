"""Where connectors are found."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from streamlvq.connect import UnknownConnectorError, links, logs, open_log
from support import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


@pytest.mark.parametrize(
    ("group", "find"), [("streamlvq.links", links), ("streamlvq.logs", logs)], ids=["links", "logs"]
)
def test_all_that_the_project_announces_is_there(group: str, find: object) -> None:
    announced = PROJECT["project"]["entry-points"][group]
    found = find()  # type: ignore[operator]
    assert {name: f"{c.__module__.partition('.')[0]}" for name, c in found.items()} == {
        name: place.partition(".")[0] for name, place in announced.items()
    }


def test_a_broken_package_does_not_take_the_others_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    info = tmp_path / "broken-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[streamlvq.logs]\nweird = broken_package:Log\n")
    monkeypatch.syspath_prepend(tmp_path)
    found = logs()
    assert "csv" in found
    assert "weird" not in found
    assert "the connector weird (broken_package:Log) cannot be used" in caplog.text


def test_formats_that_can_only_be_read(tmp_path: Path) -> None:
    with pytest.raises(UnknownConnectorError, match="CsvLog can only be read"):
        logs()["csv"].writer(tmp_path / "x.csv")


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_tables_are_recognised_whatever_their_name(
    tmp_path: Path, delimiter: str, end: str
) -> None:
    path = tmp_path / "export.dat"
    rows = [["rms", "temperature"], ["0.5", "20"], ["0.7", "21"]]
    path.write_bytes(end.join(delimiter.join(row) for row in rows).encode())
    log = open_log(path, None)
    rows_read = [row for batch in iter(log.read, None) for row in batch.rows.tolist()]
    log.close()
    assert log.format == "csv"
    assert rows_read == [[0.5, 20.0], [0.7, 21.0]]
