"""Journal: what was appended is there after anything that may happen to a machine."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamlvq.connect import Message
from streamlvq.service.journal import (
    RECORD_MAGIC,
    Journal,
    JournalError,
    Received,
    Record,
    Serve,
    find,
    pack,
    unpack,
)

messages = st.builds(
    Message,
    st.text(max_size=20),
    st.binary(max_size=60),
    st.floats(0, 1e10),
    st.booleans(),
    st.none(),
)
records = st.lists(
    st.builds(Received, st.lists(messages, max_size=5))
    | st.builds(Serve, st.text(max_size=5), st.none() | st.binary(max_size=60)),
    max_size=8,
)


START = 20  # where the first record of a file begins


def batch(n: int) -> Received:
    return Received([Message(f"oven/{n}", f"payload {n}".encode() * 3, n + 0.5, n % 2 == 1)])


def filled(folder: Path, count: int, *, rotate_at: tuple[int, ...] = ()) -> Journal:
    journal = Journal(folder)
    for n in range(count):
        if n in rotate_at:
            journal.rotate()
        assert journal.append(batch(n)) == n
    return journal


def content(folder: Path, start: int = 0) -> list[tuple[int, Record]]:
    return list(Journal(folder).read(start))


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("journal-*"))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting a file system of its own needs to be allowed")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@settings(derandomize=True, max_examples=60, deadline=None, database=None)
@given(records, st.sets(st.integers(0, 8)), st.integers(0, 8))
def test_gives_back_what_was_appended(
    tmp_path_factory: pytest.TempPathFactory,
    parts: list[Record],
    rotations: set[int],
    start: int,
) -> None:
    folder = tmp_path_factory.mktemp("journal")
    journal = Journal(folder)
    for n, part in enumerate(parts):
        if n in rotations:
            journal.rotate()
        journal.append(part)
    assert list(journal.read(start)) == list(enumerate(parts))[start:]
    journal.close()
    again = Journal(folder)
    assert again.next == len(parts)
    assert list(again.read(start)) == list(enumerate(parts))[start:]
    assert again.size == sum(path.stat().st_size for path in folder.glob("journal-*"))


def test_the_key_of_the_link_is_left_out(tmp_path: Path) -> None:
    Journal(tmp_path).append(Received([Message("a", b"b", 1.0, True, key=object())]))
    assert content(tmp_path) == [(0, Received([Message("a", b"b", 1.0, True, None)]))]


def test_goes_on_in_a_new_file(tmp_path: Path) -> None:
    filled(tmp_path, 3).close()
    journal = Journal(tmp_path)
    assert journal.append(batch(3)) == 3
    assert files(tmp_path) == ["journal-0000000000000000.log", "journal-0000000000000003.log"]
    assert [position for position, _ in journal.read(2)] == [2, 3]


def test_a_record_torn_at_any_byte_is_cut_off(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    filled(tmp_path, 3)  # killed: a journal that was closed is known to be complete
    path = tmp_path / files(tmp_path)[0]
    whole = path.read_bytes()
    second = unpack(whole, START).end  # type: ignore[union-attr]
    third = unpack(whole, second).end  # type: ignore[union-attr]
    for length in range(third, len(whole)):
        path.write_bytes(whole[:length])
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            assert [position for position, _ in content(tmp_path)] == [0, 1]
        assert ("torn record" in caplog.text) == (length > third)
        assert path.stat().st_size == third


@pytest.mark.parametrize(
    "tail", [b"\0" * 5000, RECORD_MAGIC, RECORD_MAGIC + b"\xff" * 40, b"noise" * 100]
)
def test_what_a_power_cut_leaves_behind_is_cut_off(tmp_path: Path, tail: bytes) -> None:
    filled(tmp_path, 2).close()
    path = tmp_path / files(tmp_path)[0]
    path.write_bytes(path.read_bytes() + tail)
    journal = Journal(tmp_path)
    assert journal.append(batch(2)) == 2
    assert [position for position, _ in journal.read(0)] == [0, 1, 2]


def test_damage_in_the_middle_is_an_error(tmp_path: Path) -> None:
    filled(tmp_path, 3).close()
    path = tmp_path / files(tmp_path)[0]
    whole = path.read_bytes()
    last = unpack(whole, unpack(whole, START).end).end  # type: ignore[union-attr]
    for place in range(START, last, 7):
        damaged = bytearray(whole)
        damaged[place] ^= 0x40
        path.write_bytes(damaged)
        with pytest.raises(JournalError, match=r"expected record [01] at byte \d+ of .*damaged"):
            Journal(tmp_path)


def test_damage_in_an_older_file_is_an_error(tmp_path: Path) -> None:
    filled(tmp_path, 4, rotate_at=(2,)).close()
    path = tmp_path / files(tmp_path)[0]
    path.write_bytes(path.read_bytes()[:-1])
    journal = Journal(tmp_path)
    with pytest.raises(JournalError, match=r"expected record 1 at byte .* of .*damaged"):
        list(journal.read(0))
    assert [position for position, _ in journal.read(2)] == [2, 3]


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    filled(tmp_path, 6, rotate_at=(2, 4)).close()
    first = (tmp_path / files(tmp_path)[0]).read_bytes()
    (tmp_path / files(tmp_path)[0]).unlink()
    journal = Journal(tmp_path)
    with pytest.raises(JournalError, match=r"begins at position 2, but .* needs it from 1 on"):
        list(journal.read(1))
    (tmp_path / "journal-0000000000000002.log").rename(tmp_path / "elsewhere")
    cut = first[: unpack(first, START).end]  # type: ignore[union-attr]
    (tmp_path / "journal-0000000000000000.log").write_bytes(cut)
    with pytest.raises(JournalError, match=r"journal-0{16}.log, got none from record 1 on"):
        list(Journal(tmp_path).read(0))


def test_a_record_is_only_valid_at_its_own_position() -> None:
    data = bytearray(pack(5, batch(5)))
    data[8] ^= 1
    assert unpack(bytes(data), 0) is None
    assert find(b"SLJ2 is not a record" + pack(3, batch(3)), 0).position == 3  # type: ignore[union-attr]


def test_forgets_only_files_that_no_snapshot_needs(tmp_path: Path) -> None:
    journal = filled(tmp_path, 6, rotate_at=(2, 4))
    journal.trim(3)
    assert [position for position, _ in journal.read(2)] == [2, 3, 4, 5]
    journal.trim(100)
    assert files(tmp_path) == ["journal-0000000000000004.log"]  # it is written to
    journal.rotate()
    journal.trim(5)
    assert len(files(tmp_path)) == 1
    journal.trim(6)
    assert files(tmp_path) == []
    assert journal.size == 0
    assert journal.append(batch(6)) == 6


def test_skips_what_a_snapshot_knows_and_the_disk_lost(tmp_path: Path) -> None:
    filled(tmp_path, 3).close()
    journal = Journal(tmp_path)
    journal.skip_to(2)
    assert journal.next == 3
    journal.skip_to(8)
    assert journal.append(batch(8)) == 8
    assert [position for position, _ in content(tmp_path, 8)] == [8]
    with pytest.raises(
        JournalError, match=r"expected records up to 7 .* got none from record 3 on"
    ):
        content(tmp_path, 2)


def test_a_full_disk_leaves_the_file_as_it_was(small_disk: Path) -> None:
    journal = filled(small_disk, 3)
    path = small_disk / files(small_disk)[0]
    before = path.read_bytes()
    large = Received([Message("oven", b"x" * 200_000, 1.0)])
    for _ in range(3):
        with pytest.raises(JournalError, match="cannot be written: No space left"):
            journal.append(large)
        assert path.read_bytes() == before
    assert journal.append(batch(3)) == 3
    assert [position for position, _ in content(small_disk)] == [0, 1, 2, 3]


def test_a_full_disk_when_a_file_begins(small_disk: Path) -> None:
    journal = filled(small_disk, 2)
    journal.rotate()
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * 56_000)
    with pytest.raises(JournalError):
        journal.append(Received([Message("oven", b"x" * 20_000, 1.0)]))
    ballast.unlink()
    assert journal.append(Received([Message("oven", b"x" * 20_000, 1.0)])) == 2
    assert [position for position, _ in content(small_disk)] == [0, 1, 2]


def test_a_disk_that_turns_read_only(small_disk: Path) -> None:
    journal = filled(small_disk, 2)
    journal.close()
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(JournalError, match="Read-only file system"):
        journal.append(batch(2))
    subprocess.run(["mount", "-o", "remount,rw", str(small_disk)], check=True)
    assert journal.append(batch(2)) == 2


def test_a_file_size_limit_counts_as_full(tmp_path: Path) -> None:
    """EFBIG instead of ENOSPC, after part of the record was written."""
    script = f"""
import resource, signal
from pathlib import Path
from streamlvq.connect import Message
from streamlvq.service.journal import Journal, JournalError, Received
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, resource.RLIM_INFINITY))
journal = Journal(Path({str(tmp_path)!r}))
journal.append(Received([Message("a", b"1", 1.0)]))
size = journal.size
try:
    journal.append(Received([Message("a", b"x" * 20_000, 1.0)]))
except JournalError:
    assert journal.size == size == next(Path({str(tmp_path)!r}).glob("journal-*")).stat().st_size
    journal.append(Received([Message("a", b"2", 1.0)]))
"""
    subprocess.run([sys.executable, "-c", script], check=True)
    assert [
        part.messages[0].payload for _, part in content(tmp_path) if isinstance(part, Received)
    ] == [b"1", b"2"]


def test_survives_kill_at_any_moment(tmp_path: Path) -> None:
    """A process that appends until it is killed; what it reported as durable is there."""
    script = f"""
from pathlib import Path
from streamlvq.connect import Message
from streamlvq.service.journal import Journal, Received
journal = Journal(Path({str(tmp_path)!r}), sync=False)
n = journal.next
while True:
    journal.append(Received([Message("a", str(n).encode() * 500, 1.0)] * 3))
    if n % 50 == 0:
        journal.rotate()
    n += 1
    print(n, flush=True)
"""
    durable = 0
    for round_ in range(4):
        process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
        assert process.stdout is not None
        for _ in range(120 + 37 * round_):
            durable = int(process.stdout.readline())
        process.kill()
        durable = max([durable, *map(int, process.stdout.read().split()[:-1])])
        process.wait()
        positions = [position for position, _ in content(tmp_path)]
        assert positions == list(range(len(positions)))
        assert len(positions) >= durable
    shutil.rmtree(tmp_path)
