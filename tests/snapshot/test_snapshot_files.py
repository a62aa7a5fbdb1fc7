"""Files of snapshots: whole or not at all, whatever happens; the newest good one is found."""

from __future__ import annotations

import errno
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import streamlvq
from streamlvq.snapshot import (
    Snapshot,
    SnapshotError,
    SnapshotFileError,
    SnapshotFiles,
    write_atomically,
)
from streamlvq.snapshot.files import read
from support.samples import blobs, knowledge, taught

BEFORE = b"what was there before"


@pytest.fixture
def model() -> Any:
    X, y = blobs(50)
    return taught(streamlvq.GLVQ(), X, y.tolist())


def everything_in(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


# --- real file systems that are full or read-only -------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 64 KiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"mounting a file system needs root: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def make_read_only(folder: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)


def test_full_disk_leaves_what_was_there(small_disk: Path) -> None:
    path = small_disk / "model.safetensors"
    write_atomically(path, BEFORE)
    with pytest.raises(
        SnapshotFileError, match=r"No space left on device.*free some space"
    ) as caught:
        write_atomically(path, bytes(200_000))
    assert caught.value.errno == errno.ENOSPC
    assert isinstance(caught.value, OSError)
    assert caught.value.filename == str(path)
    assert path.read_bytes() == BEFORE
    assert everything_in(small_disk) == ["model.safetensors"]


def test_full_disk_keeps_the_snapshots_that_a_store_has(small_disk: Path) -> None:
    store = SnapshotFiles(small_disk, keep=1)
    store.write(BEFORE, 1)
    with pytest.raises(SnapshotFileError, match="No space left"):
        store.write(bytes(200_000), 2)
    assert store.newest(bytes) == (BEFORE, 1, store.paths()[0])
    assert len(everything_in(small_disk)) == 1
    store.write(b"small enough", 3)
    assert [path.name[-14:] for path in store.paths()] == ["03.safetensors"]


def test_read_only_folder(small_disk: Path, model: Any) -> None:
    path = small_disk / "model.safetensors"
    write_atomically(path, BEFORE)
    make_read_only(small_disk)
    with pytest.raises(
        SnapshotFileError, match=r"Read-only file system.*choose a folder"
    ) as caught:
        Snapshot.of(model).save(path)
    assert caught.value.errno == errno.EROFS
    with pytest.raises(SnapshotFileError, match="Read-only"):
        SnapshotFiles(small_disk / "deeper").write(b"data", 1)
    assert path.read_bytes() == BEFORE
    assert everything_in(small_disk) == ["model.safetensors"]


def test_missing_folder_and_folder_in_the_way(tmp_path: Path) -> None:
    with pytest.raises(SnapshotFileError, match="make the folder first"):
        write_atomically(tmp_path / "nowhere" / "x", b"data")
    (tmp_path / "x").mkdir()
    with pytest.raises(SnapshotFileError, match="choose another name"):
        write_atomically(tmp_path / "x", b"data")
    assert everything_in(tmp_path) == ["x"]
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(SnapshotFileError):
        SnapshotFiles(tmp_path / "file").write(b"data", 1)


# --- whole or not at all --------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 1_000_000])
def test_what_is_written_is_there(tmp_path: Path, size: int) -> None:
    data = os.urandom(size)
    write_atomically(tmp_path / "x", BEFORE)
    write_atomically(str(tmp_path / "x"), data)
    assert read(tmp_path / "x") == data
    assert everything_in(tmp_path) == ["x"]


def test_umask_is_respected(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_atomically(tmp_path / "x", b"data")
    finally:
        os.umask(before)
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o640


def test_readers_never_see_half_a_file(tmp_path: Path) -> None:
    path, stop = tmp_path / "x", threading.Event()
    versions = [bytes([k]) * 300_000 for k in range(2)]
    write_atomically(path, versions[0])
    seen: list[bytes] = []

    def look() -> None:
        while not stop.is_set():
            seen.append(path.read_bytes())

    reader = threading.Thread(target=look)
    reader.start()
    for k in range(20):
        write_atomically(path, versions[k % 2])
    stop.set()
    reader.join()
    assert len(seen) > 2
    assert set(seen) <= set(versions)


KILLED = """
import sys
from streamlvq.snapshot import SnapshotFiles
store = SnapshotFiles(sys.argv[1], keep=3)
print("ready", flush=True)
k = 0
while True:
    k += 1
    store.write(b"%020d" % k * 100_000, k)
"""


def test_killed_writers_leave_good_files_and_their_litter_is_removed(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    store = SnapshotFiles(folder, keep=3)

    def whole(data: bytes) -> int:
        if data != data[:20] * 100_000:
            raise SnapshotError("half a file")
        return int(data[:20])

    last = 0
    for k in range(4):
        writer = subprocess.Popen(
            [sys.executable, "-c", KILLED, str(folder)], stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        time.sleep(0.03 + 0.017 * k)
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        for path in store.paths():
            assert whole(path.read_bytes()) == int(path.stem[-20:])
        found = store.newest(whole)
        last = max(last, found[1] if found else 0)
    (folder / ".snapshot-left.0000.unfinished").write_bytes(b"half")
    store.write(b"%020d" % 0 * 100_000, last + 1)
    assert not [name for name in everything_in(folder) if name.startswith(".")]
    assert len(store.paths()) <= 3


def test_litter_that_is_still_being_written_is_left_alone(tmp_path: Path) -> None:
    fcntl = pytest.importorskip("fcntl")
    busy = tmp_path / ".snapshot-busy.0000.unfinished"
    with open(busy, "wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        SnapshotFiles(tmp_path).write(b"data", 1)
        assert busy.exists()
    SnapshotFiles(tmp_path).write(b"data", 2)
    assert not busy.exists()


# --- the store ------------------------------------------------------------------------------------


def positions(store: SnapshotFiles) -> list[int]:
    return [int(path.stem[-20:]) for path in store.paths()]


def good(data: bytes) -> bytes:
    if not data.startswith(b"good"):
        raise SnapshotError(f"expected something good, got {data!r}")
    return data


def test_the_last_few_are_kept(tmp_path: Path) -> None:
    store = SnapshotFiles(tmp_path, keep=3)
    for position in (5, 7, 100, 1000, 10**19):
        assert store.write(b"good", position).parent == tmp_path
    assert positions(store) == [10**19, 1000, 100]
    assert store.newest(good) == (b"good", 10**19, store.paths()[0])


def test_same_position_is_written_again(tmp_path: Path) -> None:
    store = SnapshotFiles(tmp_path)
    store.write(b"good one", 5)
    store.write(b"good other", 5)
    found = store.newest(good)
    assert found is not None
    assert found[0] == b"good other"
    assert positions(store) == [5]


def test_bad_ones_are_skipped_and_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = SnapshotFiles(tmp_path)
    for position in (1, 2):
        store.write(b"good %d" % position, position)
    newest = [store.write(b"bad", 3), store.write(b"", 4)]
    with caplog.at_level(logging.WARNING, "streamlvq"):
        found = store.newest(good)
    assert found is not None
    assert found[:2] == (b"good 2", 2)
    for path, record in zip(reversed(newest), caplog.records, strict=True):
        assert str(path) in record.getMessage()
        assert "expected something good" in record.getMessage()


def test_unreadable_ones_are_skipped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = SnapshotFiles(tmp_path)
    store.write(b"good", 1)
    (tmp_path / f"snapshot-{2:020}.safetensors").mkdir()
    (tmp_path / f"snapshot-{3:020}.safetensors").symlink_to(tmp_path / "nowhere")
    store.write(b"good but large" * 100, 4)
    found = store.newest(good, limit=1000)
    assert found is not None
    assert found[1] == 1
    assert len(caplog.records) == 3


def test_mistakes_of_the_check_are_not_taken_for_bad_files(tmp_path: Path) -> None:
    """Otherwise a mistake in a program would look as if there were no snapshot at all."""
    store = SnapshotFiles(tmp_path)
    store.write(b"good", 1)
    with pytest.raises(ZeroDivisionError):
        store.newest(lambda data: 1 // 0)


def test_nothing_there(tmp_path: Path) -> None:
    assert SnapshotFiles(tmp_path / "nowhere").newest(good) is None
    assert SnapshotFiles(tmp_path / "nowhere").paths() == []
    SnapshotFiles(tmp_path).write(b"bad", 1)
    assert SnapshotFiles(tmp_path).newest(good) is None


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    others = ["snapshot-1.safetensors", "snapshot.safetensors", "notes.txt", "other-" + "0" * 20]
    for name in others:
        (tmp_path / name).write_bytes(b"good")
    one, two = SnapshotFiles(tmp_path, keep=1), SnapshotFiles(tmp_path, keep=1, prefix="model-b")
    for position in range(3):
        one.write(b"good one", position)
        two.write(b"good two", position)
    assert set(others) < set(everything_in(tmp_path))
    assert (positions(one), positions(two)) == ([2], [2])
    found = two.newest(good)
    assert found is not None
    assert found[0] == b"good two"


def test_the_newest_good_one_is_never_removed(tmp_path: Path) -> None:
    """Bad ones with higher positions must not push it out."""
    for position in range(100, 105):
        (tmp_path / f"snapshot-{position:020}.safetensors").write_bytes(b"bad")
    store = SnapshotFiles(tmp_path, keep=2)
    store.write(b"good", 50)
    assert 50 in positions(store)
    found = store.newest(good)
    assert found is not None
    assert found[1] == 50
    store.write(b"good", 60)
    assert 60 in positions(store)


def test_what_was_loaded_is_kept_until_something_newer_is_written(small_disk: Path) -> None:
    store = SnapshotFiles(small_disk, keep=1)
    store.write(b"good", 1)
    found = store.newest(good)
    for position in (2, 3):
        with pytest.raises(SnapshotFileError):
            store.write(bytes(100_000), position)
    assert store.newest(good) == found


def test_writing_from_several_threads(tmp_path: Path) -> None:
    store = SnapshotFiles(tmp_path, keep=4)
    threads = [
        threading.Thread(target=lambda k=k: [store.write(b"good", 10 * k + j) for j in range(5)])
        for k in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(positions(store)) in (4, 5)  # the one written last, if it is not among the newest
    assert positions(store)[0] == 34


@pytest.mark.parametrize("wrong", [{"keep": 0}, {"prefix": ""}, {"prefix": "a/b"}])
def test_impossible_stores_are_refused(tmp_path: Path, wrong: Any) -> None:
    with pytest.raises(ValueError, match="expected"):
        SnapshotFiles(tmp_path, **wrong)


@pytest.mark.parametrize("position", [-1, 10**20])
def test_impossible_positions_are_refused(tmp_path: Path, position: int) -> None:
    with pytest.raises(ValueError, match="position: expected 0 to"):
        SnapshotFiles(tmp_path).write(b"", position)
    assert everything_in(tmp_path) == []


# --- snapshots in files ---------------------------------------------------------------------------


def test_snapshots_are_saved_and_loaded(tmp_path: Path, model: Any) -> None:
    path = tmp_path / "model.safetensors"
    Snapshot.of(model, node="a").save(path)
    loaded = Snapshot.load(str(path))
    assert loaded.node == "a"
    assert knowledge(loaded.classifier()) == knowledge(model)


def test_damaged_files_are_named(tmp_path: Path, model: Any) -> None:
    path = tmp_path / "model.safetensors"
    data = Snapshot.of(model).to_bytes()
    path.write_bytes(data[:-100])
    with pytest.raises(SnapshotError, match=r"model\.safetensors: expected .* bytes of arrays"):
        Snapshot.load(path)
    path.write_bytes(data)
    with pytest.raises(SnapshotError, match=r"model\.safetensors: expected at most 99 bytes"):
        Snapshot.load(path, limit=99)
    with pytest.raises(FileNotFoundError):
        Snapshot.load(tmp_path / "nowhere")
    with pytest.raises(SnapshotError, match="expected a file"):
        Snapshot.load("/dev/null")


def test_store_finds_the_newest_snapshot_that_can_be_rebuilt(tmp_path: Path, model: Any) -> None:
    store = SnapshotFiles(tmp_path)
    data = Snapshot.of(model).to_bytes()
    store.write(data, 10)
    store.write(data[: len(data) // 2], 20)
    store.write(data.replace(b'"node', b'"mode'), 30)
    found = store.newest(Snapshot.from_bytes)
    assert found is not None
    snapshot, position, _ = found
    assert position == 10
    assert knowledge(snapshot.classifier()) == knowledge(model)
