"""One contract for logs of every format."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from streamlvq.connect import Log, UnknownConnectorError, logs, open_log
from streamlvq.events import NO_KEY, DedupWindow, Readings
from support.log_files import FORMATS, Format, batches, new_log, read_rows, rows_of, some_rows

ROWS = some_rows()
every_format = pytest.mark.parametrize("format", FORMATS.values(), ids=list(FORMATS))
every_text = pytest.mark.parametrize(
    "format",
    [f for f in FORMATS.values() if f.holds_lines],
    ids=[n for n, f in FORMATS.items() if f.holds_lines],
)


def expected(format: Format) -> list:
    """What was written; Parquet has one type in a column."""
    if format.name != "parquet":
        return ROWS
    return [r._replace(label=None if r.label is None else str(r.label)) for r in ROWS]


def test_every_installed_log_is_tested() -> None:
    assert set(logs()) == set(FORMATS)
    assert all(issubclass(log, Log) for log in logs().values())


@every_format
def test_all_readings_come_out_as_they_went_in(format: Format, tmp_path: Path) -> None:
    path = format.write_to(tmp_path, ROWS)
    found, refused = read_rows(new_log(format, path), format.fields)
    assert refused == []
    assert found == expected(format)


@every_format
def test_every_format_is_recognised(format: Format, tmp_path: Path) -> None:
    path = format.write_to(tmp_path, ROWS)
    log = open_log(path, format.fields)
    assert type(log) is logs()[format.name]
    log.close()


@every_text
def test_most_are_recognised_by_what_they_hold(format: Format, tmp_path: Path) -> None:
    path = format.write_to(tmp_path, ROWS)
    bare = path.rename(tmp_path / "bare")
    log = open_log(bare, format.fields)
    assert type(log) is logs()[format.name]
    log.close()


@every_text
def test_compressed_files_read_the_same(format: Format, tmp_path: Path) -> None:
    path = format.write_to(tmp_path, ROWS, compressed=True)
    log = open_log(path, format.fields)
    assert type(log) is logs()[format.name]
    assert read_rows(log, format.fields) == (ROWS, [])
    assert log.progress == (path.stat().st_size, path.stat().st_size)


@every_text
def test_compressed_files_that_were_cut_give_what_is_left(format: Format, tmp_path: Path) -> None:
    path = format.write_to(tmp_path, ROWS, compressed=True)
    path.write_bytes(path.read_bytes()[:-400])
    found, refused = read_rows(new_log(format, path), format.fields)
    assert 100 < len(found) < 500
    assert found[:-1] == ROWS[: len(found) - 1]  # the last one may have been cut
    assert any("compressed data ends in the middle" in text for text in refused)


@every_format
def test_progress_grows_and_ends_at_the_size_of_the_file(format: Format, tmp_path: Path) -> None:
    path = format.write_to(tmp_path, ROWS * (1 if format.name == "parquet" else 40))
    log = new_log(format, path)
    log.open()
    seen = [log.progress[0]]
    for _ in batches(log):
        seen.append(log.progress[0])
    assert seen == sorted(seen)
    assert len(seen) > 2
    assert log.progress == (path.stat().st_size, path.stat().st_size)
    log.close()
    assert log.progress == (path.stat().st_size, path.stat().st_size)


@every_format
def test_opening_again_reads_the_same_again(format: Format, tmp_path: Path) -> None:
    log = new_log(format, format.write_to(tmp_path, ROWS))
    first = read_rows(log, format.fields)
    assert read_rows(log, format.fields) == first
    log.open()
    log.read()
    assert read_rows(log, format.fields) == first  # without a close in between
    log.close()
    log.close()


@every_text
def test_an_empty_file_holds_nothing(format: Format, tmp_path: Path) -> None:
    path = tmp_path / f"empty{format.suffix}"
    path.touch()
    assert read_rows(new_log(format, path), format.fields) == ([], [])


@every_format
def test_a_log_without_readings_holds_nothing(format: Format, tmp_path: Path) -> None:
    path = format.write_to(tmp_path, [])
    if format.name == "parquet":
        pytest.skip("a Parquet file without rows has no columns either when made from them")
    assert read_rows(new_log(format, path), format.fields) == ([], [])


@every_text
def test_a_torn_last_line_costs_one_reading(format: Format, tmp_path: Path) -> None:
    path = format.write_to(tmp_path, ROWS)
    path.write_bytes(path.read_bytes()[:-30])
    found, refused = read_rows(new_log(format, path), format.fields)
    assert found[:499] == ROWS[:499]
    assert len(found) == 500 or refused  # half a number may well be one
    assert len(refused) < 20  # a payload of several lines may leave some of them


@every_text
def test_a_last_line_without_its_end_is_read(format: Format, tmp_path: Path) -> None:
    path = format.write_to(tmp_path, ROWS)
    path.write_bytes(path.read_bytes().rstrip(b"\r\n"))
    assert read_rows(new_log(format, path), format.fields) == (ROWS, [])


@every_text
def test_bad_lines_are_refused_by_number_and_the_others_kept(
    format: Format, tmp_path: Path
) -> None:
    path = format.write_to(tmp_path, ROWS)
    lines = path.read_bytes().splitlines(keepends=True)
    per_row, first = (len(lines) // 500, len(lines) % 500)
    spoilt = first + 41 * per_row
    lines.insert(spoilt, b"what is this?\n")
    lines.insert(spoilt, b"\xff\xfe\x00nor this\n")
    path.write_bytes(b"".join(lines))
    found, refused = read_rows(new_log(format, path), format.fields)
    assert found == ROWS
    numbers = sorted(int(re.match(r"line (\d+): .*expected", text)[1]) for text in refused)
    assert numbers == [spoilt + 1, spoilt + 2]


@every_text
@pytest.mark.parametrize("ending", [b"\n", b"\r\n"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_windows_files_read_the_same(
    format: Format, ending: bytes, mark: bytes, tmp_path: Path
) -> None:
    path = format.write_to(tmp_path, ROWS)
    text = path.read_bytes().replace(b"\r\n", b"\n").replace(b"\n", ending)
    path.write_bytes(mark + text)
    log = open_log(path, format.fields)
    assert type(log) is logs()[format.name]
    assert read_rows(log, format.fields) == (ROWS, [])


@every_text
@pytest.mark.parametrize("size", [37, 1000])
def test_where_blocks_are_cut_changes_nothing(
    format: Format, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from streamlvq_connectors.files import Blocks

    path = format.write_to(tmp_path, ROWS[:60])
    begin = Blocks.__init__
    monkeypatch.setattr(Blocks, "__init__", lambda self, path, _: begin(self, path, size))
    assert read_rows(new_log(format, path), format.fields) == (ROWS[:60], [])


@every_format
def test_readings_of_rows_cannot_come_twice(format: Format, tmp_path: Path) -> None:
    log = new_log(format, format.write_to(tmp_path, ROWS))
    log.open()
    for batch in batches(log):
        if log.holds_messages:
            assert all(not m.redelivered and m.key is not None for m in batch)
            continue
        assert isinstance(batch, Readings)
        assert batch.sources == list(range(len(batch)))
        assert set(batch.keys) == {NO_KEY}
        assert set(batch.dedup_windows) == {DedupWindow.NONE}
        assert set(batch.groups) == {""}
        assert len(rows_of(batch)) == len(batch)
    log.close()


@every_format
def test_reading_what_is_not_open_says_so(format: Format, tmp_path: Path) -> None:
    log = new_log(format, format.write_to(tmp_path, ROWS))
    with pytest.raises(ValueError, match="expected an open log"):
        log.read()
    with pytest.raises(FileNotFoundError):
        new_log(format, tmp_path / "absent").open()


def test_unknown_formats_and_files_name_the_known_ones(tmp_path: Path) -> None:
    path = tmp_path / "picture"
    path.write_bytes(b"\x89PNG\r\n\x1a\n\x00\x00")
    with pytest.raises(UnknownConnectorError, match=r"'csv', 'influx'.*begins with .*--format"):
        open_log(path, None)
    with pytest.raises(UnknownConnectorError, match=r"expected a format among .*got 'xls'"):
        open_log(path, None, "xls")
    with pytest.raises(
        UnknownConnectorError, match=r"got 'mosquitto'; did you mean 'mosquitto_sub'\?"
    ):
        open_log(path, None, "mosquitto")
    with pytest.raises(FileNotFoundError):
        open_log(tmp_path / "absent", None)
    path = tmp_path / "not.gz"
    path.write_bytes(b"plain text")
    with pytest.raises(UnknownConnectorError, match="expected gzip data"):
        open_log(path, None)


def test_a_format_can_be_named_whatever_the_file_looks_like(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(gzip.decompress(gzip.compress(b'{"x": 1}\n')))
    log = open_log(path, None, "jsonl")
    assert [m.payload for m in log.read() or ()] == [b'{"x": 1}']  # type: ignore[union-attr]
    log.close()
