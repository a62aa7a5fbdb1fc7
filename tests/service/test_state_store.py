"""State folder: whatever happens to its files is noticed, and the message names the file."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from streamlvq.config import Config, ModelSection, ReadingsSection, StateSection
from streamlvq.connect import Message
from streamlvq.errors import StreamLVQError
from streamlvq.monitor import Monitor
from streamlvq.monitor.files import inspect, load_monitor, load_snapshots
from streamlvq.role import Health
from streamlvq.service.journal import DecodingHistory, Journal, JournalError, Received
from streamlvq.service.metrics import ServiceMetrics
from streamlvq.service.probe import newest_monitor
from streamlvq.service.state_store import FolderError, StateStore
from streamlvq.snapshot import Snapshot, SnapshotError, SnapshotFiles
from streamlvq.snapshot import container as containers

FLIPS = 60  # for each file


def config_for(folder: Path, **readings: Any) -> Config:
    section = {"topic": "r/{device}", "label": "y", "sequence": "n", **readings}
    return Config(
        model=ModelSection(type="GLVQ"),
        readings=ReadingsSection(**section),
        state=StateSection(folder=str(folder)),
    )


def opened(config: Config) -> StateStore:
    health = Health(config.health)
    return StateStore(config, health, ServiceMetrics(health, 10))


def readings(first: int, count: int) -> Received:
    numbers = range(first, first + count)
    return Received(
        [
            Message(f"r/d{n % 3}", b'{"x": %d, "y": "%c", "n": %d}' % (n % 7, 97 + n % 2, n), 1.0)
            for n in numbers
        ]
    )


def filled(folder: Path, killed: Path | None = None) -> bytes:
    """Two snapshots, with readings before, between and after them; return the final state.

    `killed` becomes a copy as a kill would have left it.
    """
    config = config_for(folder)
    store = opened(config)
    processor = store.restore(config, print)
    for n in range(9):
        record = readings(10 * n, 10)
        store.append(record)
        processor.process(record.messages)
        store.health.unsaved = True
        if n in {2, 5}:
            assert store.save(processor.monitor)
    if killed is not None:
        shutil.copytree(folder, killed)
    store.close()
    assert len(list(folder.glob("snapshot-*"))) == 2
    assert len(list(folder.glob("journal-*.log"))) == 2, "the oldest is not needed any more"
    return processor.monitor.checkpoint()


def restored(folder: Path) -> bytes:
    config = config_for(folder)
    store = opened(config)
    try:
        return store.restore(config, print).monitor.checkpoint()
    finally:
        store.close()


def newest_journal(folder: Path) -> Path:
    return max(folder.glob("journal-*.log"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    filled(tmp_path / "state")
    return tmp_path / "state"


# --- flipped bits ---------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["closed", "killed"])
def test_flipped_bits_are_noticed_or_do_not_matter(
    ending: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    killed = tmp_path / "killed"
    expected = filled(tmp_path / "closed", killed)
    original, copy, rng = tmp_path / ending, tmp_path / "copy", random.Random(1)
    outcomes: dict[str, set[str]] = {}
    for path in sorted(original.iterdir()):
        size = 8 * path.stat().st_size
        for bit in rng.sample(range(size), min(size, FLIPS)):
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(original, copy)
            data = bytearray(path.read_bytes())
            data[bit // 8] ^= 1 << bit % 8
            (copy / path.name).write_bytes(data)
            caplog.clear()
            outcome = _outcome(copy, path.name, expected, caplog)
            outcomes.setdefault(path.name.partition("-")[0], set()).add(outcome)
    assert outcomes.pop("journal") <= {"same", "refused", *(["cut"] if ending == "killed" else [])}
    assert outcomes == {
        "decoding.json": {"refused"},
        "journal.json": {"refused"},
        "lock": {"same"},
        "snapshot": {"same"},
    }


def _outcome(folder: Path, name: str, expected: bytes, caplog: pytest.LogCaptureFixture) -> str:
    try:
        state = restored(folder)
    except StreamLVQError as error:
        assert name in str(error)
        return "refused"
    if state == expected:
        return "same"
    assert f"cut a torn record of {_torn(caplog)} bytes off the end of {folder / name}" in (
        caplog.text
    )
    return "cut"


def _torn(caplog: pytest.LogCaptureFixture) -> object:
    (record,) = (each for each in caplog.records if "torn" in each.msg)
    assert isinstance(record.args, tuple)
    return record.args[0]


def test_every_bit_of_the_decoding_history_counts(tmp_path: Path) -> None:
    """Some used to change the state silently, some crashed with UnicodeDecodeError."""
    DecodingHistory(tmp_path).record(config_for(tmp_path), 0)
    path = tmp_path / "decoding.json"
    good = path.read_bytes()
    for place in range(len(good)):
        for bit in (0, 5, 7):
            data = bytearray(good)
            data[place] ^= 1 << bit
            path.write_bytes(data)
            with pytest.raises(JournalError, match=r"decoding\.json to say how .* checksum"):
                DecodingHistory(tmp_path)
    for length in (0, 1, len(good) - 1):
        path.write_bytes(good[:length])
        with pytest.raises(JournalError, match=r"decoding\.json to say how .* checksum"):
            DecodingHistory(tmp_path)
    path.write_bytes(good)
    assert len(DecodingHistory(tmp_path)) == 1


# --- files that are missing, strange or in the way ------------------------------------------------


@pytest.mark.parametrize("name", ["journal-x.log", "journal-3.log", "journal-0000000000000006.bak"])
def test_a_stray_journal_file_is_ignored_with_a_warning(
    name: str, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    expected = restored(folder)
    assert caplog.text == ""
    (folder / name).write_bytes(b"whatever")
    assert restored(folder) == expected
    assert caplog.text.count(f"ignoring {folder / name}: expected a name like journal-0000") == 1


@pytest.mark.parametrize("which", [min, max])
def test_a_folder_where_a_journal_file_should_be(which: Any, folder: Path) -> None:
    path = which(folder.glob("journal-*.log"))
    path.unlink()
    path.mkdir()
    with pytest.raises(JournalError, match=rf"expected .*{path.name} to be a journal file"):
        restored(folder)


@pytest.mark.parametrize("name", ["decoding.json", "journal.json", "lock"])
def test_a_folder_where_another_file_should_be(name: str, folder: Path) -> None:
    (folder / name).unlink()
    (folder / name).mkdir()
    with pytest.raises((JournalError, FolderError), match=rf"{name}.*"):
        restored(folder)


def test_a_lost_newest_journal_file(folder: Path) -> None:
    path = newest_journal(folder)
    path.unlink()
    for _ in range(2):  # it stays refused
        with pytest.raises(JournalError, match=rf"expected .*{path.name}, the newest .* got none"):
            restored(folder)


def test_a_lost_newest_journal_file_after_a_kill(tmp_path: Path) -> None:
    filled(tmp_path / "state", tmp_path / "killed")
    path = newest_journal(tmp_path / "killed")
    path.unlink()
    with pytest.raises(JournalError, match=rf"expected .*{path.name}, the newest .* got none"):
        restored(tmp_path / "killed")


def test_an_emptied_newest_journal_file(tmp_path: Path) -> None:
    filled(tmp_path / "state", tmp_path / "killed")
    for folder in (tmp_path / "state", tmp_path / "killed"):
        path = newest_journal(folder)
        path.write_bytes(b"")
        with pytest.raises(JournalError, match=rf"{path.name} to begin .* got an empty file"):
            restored(folder)
        assert path.read_bytes() == b"", "nothing is repaired by guessing"


def test_a_newest_journal_file_that_was_cut_after_it_was_closed(folder: Path) -> None:
    path = newest_journal(folder)
    whole = path.read_bytes()
    for length in range(20, len(whole), 97):
        path.write_bytes(whole[:length])
        with pytest.raises(JournalError, match=rf"expected records up to 8 in .*{path.name}"):
            restored(folder)
        assert path.stat().st_size == length


def test_the_advice_to_go_on_without_the_journal_works(folder: Path) -> None:
    newest_journal(folder).unlink()
    with pytest.raises(JournalError, match=r"delete journal.json and all journal-\*\.log files"):
        restored(folder)
    for path in (folder / "journal.json", *folder.glob("journal-*.log")):
        path.unlink()
    found = SnapshotFiles(folder).newest(bytes)
    assert found is not None
    assert restored(folder) == found[0]


def test_lost_small_files_are_missed(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    expected = restored(folder)
    for name in ("journal.json", "decoding.json"):
        (folder / name).unlink()
        assert restored(folder) == expected
        assert caplog.text.count(f"{folder / name} is missing") == 1


def test_lost_snapshots_are_missed(folder: Path) -> None:
    for path in folder.glob("snapshot-*"):
        path.unlink()
    with pytest.raises(JournalError, match=r"begins at position 3, but .* needs it from 0 on"):
        restored(folder)
    for path in folder.glob("journal-*.log"):
        path.unlink()
    with pytest.raises(JournalError, match=r"the newest file of the journal, got none"):
        restored(folder)


def test_lost_snapshots_are_missed_even_if_the_journal_was_trimmed(tmp_path: Path) -> None:
    config = config_for(tmp_path)
    store = opened(config)
    store.files.keep = 1
    processor = store.restore(config, print)
    store.append(readings(0, 10))
    store.health.unsaved = True
    assert store.save(processor.monitor)
    store.close()
    assert list(tmp_path.glob("journal-*.log")) == []
    restored(tmp_path)
    (snapshot,) = tmp_path.glob("snapshot-*")
    snapshot.unlink()
    with pytest.raises(JournalError, match=r"begins at position 1, but .* needs it from 0 on"):
        restored(tmp_path)


def test_unusable_snapshots_are_named(folder: Path) -> None:
    paths = sorted(folder.glob("snapshot-*"))
    for path in paths:
        path.write_bytes(b"damaged")
    with pytest.raises(SnapshotError, match=rf"{paths[1].name}, {paths[0].name}; see above"):
        restored(folder)


def test_a_refusal_lets_go_of_the_folder(folder: Path) -> None:
    path = newest_journal(folder)
    data = path.read_bytes()
    path.write_bytes(b"")
    with pytest.raises(JournalError):
        opened(config_for(folder))
    path.write_bytes(data)
    opened(config_for(folder)).close()


def test_unfinished_files_of_a_killed_process_are_removed(folder: Path) -> None:
    litter = [folder / f".{name}.0a1b.unfinished" for name in ("journal.json", "decoding.json")]
    litter.append(folder / ".journal-0000000000000003.log.0a1b.unfinished")
    for path in litter:
        path.write_bytes(b"half")
    restored(folder)
    assert not any(path.exists() for path in litter)


# --- files of the version before ------------------------------------------------------------------


def test_a_journal_of_version_0_1_0_is_refused(folder: Path) -> None:
    path = newest_journal(folder)
    path.write_bytes(b"SLJ1" + bytes(40))
    with pytest.raises(JournalError, match=rf"{path.name} was written by streamlvq 0\.1\.0, .*"):
        restored(folder)


def test_a_decoding_history_of_version_0_1_0_is_refused(folder: Path) -> None:
    (folder / "decoding.json").write_bytes(b'[{"since":0,"readings":{}}]')
    with pytest.raises(
        JournalError, match=r"decoding.json .* streamlvq 0\.1\.0, .* Start and stop"
    ):
        restored(folder)


def test_a_record_of_a_newer_version_is_not_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path)
    with monkeypatch.context() as newer:
        newer.setattr("streamlvq.service.journal._RECEIVED", 9)
        journal.append(readings(0, 1))
    with pytest.raises(JournalError, match=r"got an intact one of kind 9: .* newer streamlvq"):
        Journal(tmp_path)


# --- one limit for our own files ------------------------------------------------------------------


def test_whatever_the_service_writes_can_be_opened(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`run --test`, `inspect` and `fuse` used to refuse states beyond the limit for strangers."""
    expected = restored(folder)
    newest = max(folder.glob("snapshot-*"))
    for function in (
        containers.decode,
        containers.kind_of,
        SnapshotFiles.newest,
        Snapshot.from_bytes,
    ):
        function = getattr(function, "__func__", function)
        assert function.__kwdefaults__["limit"] == 2**30
        small = {**function.__kwdefaults__, "limit": newest.stat().st_size - 1}
        monkeypatch.setattr(function, "__kwdefaults__", small)
    with pytest.raises(SnapshotError, match="expected at most"):
        containers.decode(newest.read_bytes(), kind="checkpoint")
    config = config_for(folder)
    assert restored(folder) == expected
    monitor, origin = newest_monitor(config)
    assert origin == str(newest)
    state = Monitor.restore(config, newest.read_bytes()).checkpoint()
    assert monitor.checkpoint() == state
    for path in (folder, newest):
        assert load_monitor(config, path).checkpoint() == state
        (snapshot,) = load_snapshots(path, "hull")
        assert (snapshot.node, snapshot.samples) == ("hull", 60)
        assert "60 samples" in inspect(path)
