"""The ledger of releases: chain, torn and damaged files, kills, locks, bounds."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privacy_kill
from streamlvq.errors import LedgerError
from streamlvq.privacy import ledger as module
from streamlvq.privacy.ledger import Ledger, describe, read_ledger
from streamlvq.privacy.releases import LedgerExhaustedError, Spending

PROMISE = {"epsilon": 1.0, "delta": 1e-5, "unit": "reading"}
SPENDING = Spending("a", 1.0, 1e-5, "reading")
vectors = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=5).map(
    lambda values: np.array(values, np.int64)
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "privacy.ledger"


def release(ledger: Ledger, values: list[int]) -> None:
    number = ledger.releases
    ledger.reserve(number, SPENDING)
    ledger.record(number, np.array(values, np.int64))


# --- the chain -----------------------------------------------------------------------------------


def naive_heads(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the digest that each record after the first tells, and the one that it should."""
    length = int.from_bytes(data[13:17])
    place = 21 + length + 33
    head = bytes.fromhex(json.loads(data[21 : 21 + length])["head"])
    while place < len(data):
        end = place + 21 + int.from_bytes(data[place + 13 : place + 17])
        expected = hashlib.sha256(head + data[place:end]).digest()
        head = data[end : end + 32]
        place = end + 33
        yield head, expected


@settings(max_examples=30, deadline=None)
@given(st.lists(st.one_of(vectors, st.sampled_from(["open", "reserve", "forget"])), max_size=25))
def test_whatever_happens_each_release_stays_what_it_was(
    tmp_path_factory: pytest.TempPathFactory, steps: list[object]
) -> None:
    path = tmp_path_factory.mktemp("ledger") / "privacy.ledger"
    ledger, said, forgotten = Ledger(path, PROMISE, keep=None), list[list[int]](), 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "COMPACTION_BYTES", 200)
        for step in steps:
            if isinstance(step, np.ndarray):
                ledger.reserve(len(said), SPENDING)
                ledger.record(len(said), step)
                said.append(step.tolist())
            elif step == "reserve":
                ledger.reserve(len(said), SPENDING)
            elif step == "forget":
                forgotten = max(forgotten, len(said) - 2)
                ledger.forget(forgotten)
            else:
                head = ledger.head
                ledger.close()
                ledger = Ledger(path, PROMISE, keep=None)
                assert ledger.head == head
    assert ledger.releases == len(said)
    assert ledger.recorded(len(said)) is None
    for number in range(forgotten, len(said)):
        released = ledger.recorded(number)
        assert released is not None
        assert released.tolist() == said[number]
    heads = list(naive_heads(path.read_bytes()))
    assert all(told == expected for told, expected in heads)
    assert ledger.head == (heads[-1][0] if heads else ledger.head_at(ledger.releases))
    assert ledger.account == read_ledger(path).account
    ledger.close()


def test_other_histories_have_other_heads(tmp_path: Path) -> None:
    heads = set()
    for name, values in {"a": [1, 2], "b": [1, 3], "c": [2, 1]}.items():
        with Ledger(tmp_path / name, PROMISE) as ledger:
            begin = ledger.head_at(0)
            for value in values:
                release(ledger, [value])
            heads |= {begin, ledger.head}
    assert len(heads) == 6  # even those that promise the same begin differently


def test_the_head_after_each_release_is_known_until_it_is_forgotten(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "COMPACTION_BYTES", 0)
    with Ledger(path, PROMISE, keep=None) as ledger:
        heads = [ledger.head]
        for k in range(40):
            release(ledger, [k])
            heads.append(ledger.head)
        assert [ledger.head_at(k) for k in range(1, 41)] == heads[1:]
        ledger.forget(30)
        assert [ledger.head_at(k) for k in range(30, 41)] == heads[30:]
        assert ledger.head_at(29) is None
        assert ledger.head_at(41) is None
        with pytest.raises(LedgerError, match="expected release 30 or a later one, got 29"):
            ledger.recorded(29)
    assert read_ledger(path).head == heads[-1]


# --- durable before it is used -------------------------------------------------------------------


def test_everything_is_on_disk_when_a_method_returns(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    sync = os.fdatasync

    def watched(file: int) -> None:
        sync(file)
        synced.append(os.fstat(file).st_size)

    monkeypatch.setattr(os, "fdatasync", watched)
    with Ledger(path, PROMISE) as ledger:
        before = ledger.size
        ledger.reserve(0, SPENDING)
        assert before < synced[-1] == ledger.size == path.stat().st_size
        ledger.record(0, np.arange(9))
        assert synced[-1] == ledger.size == path.stat().st_size
        size = ledger.size
        ledger.reserve(1, SPENDING)  # was reserved with the first
        assert ledger.size == size
        assert ledger.account.reserved == 16


def test_a_full_disk_changes_nothing(path: Path) -> None:
    with Ledger(path, PROMISE) as ledger:
        release(ledger, [1])
        size, head = ledger.size, ledger.head
    script = f"""
        import resource, signal, numpy as np
        from streamlvq.errors import LedgerError
        from streamlvq.privacy.ledger import Ledger
        from streamlvq.privacy.releases import Spending
        ledger = Ledger({str(path)!r}, {PROMISE!r})
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, ({size + 100}, {resource.RLIM_INFINITY}))
        try:
            ledger.record(1, np.arange(10_000))
        except LedgerError as error:
            print(error)
        resource.setrlimit(resource.RLIMIT_FSIZE, ({resource.RLIM_INFINITY},) * 2)
        assert ledger.releases == 1 and ledger.head.hex() == {head.hex()!r}
        ledger.record(1, np.array([2]))
    """
    run = [sys.executable, "-c", textwrap.dedent(script)]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    assert done.stdout == f"the ledger {path} cannot be written: File too large\n"
    with Ledger(path, PROMISE) as ledger:
        assert [ledger.recorded(k) for k in range(2)] == [[1], [2]]


def test_processes_that_are_killed_lose_no_release_and_make_none_twice(tmp_path: Path) -> None:
    result = privacy_kill.kill_often(tmp_path, kills=4)
    assert result.releases >= 4
    assert (result.unrecorded, result.twice) == (0, 0)


# --- torn and damaged files ----------------------------------------------------------------------


def test_a_file_that_ends_anywhere_is_what_was_complete(path: Path) -> None:
    with Ledger(path, PROMISE) as ledger:
        ends, heads = [ledger.size], [ledger.head]
        ledger.reserve(0, SPENDING)
        ends.append(ledger.size)
        heads.append(ledger.head)
        for k in range(3):
            release(ledger, [k, -k])
            ends.append(ledger.size)
            heads.append(ledger.head)
    data = path.read_bytes()
    for length in range(len(data) + 1):
        for tail in (b"", bytes(3), bytes(300)):
            path.write_bytes(data[:length] + tail)
            if length < ends[0]:
                with pytest.raises(LedgerError, match="damaged"):
                    read_ledger(path)
                continue
            complete = max(k for k, end in enumerate(ends) if end <= length)
            content = read_ledger(path)
            assert content.head == heads[complete], (length, tail)
            assert content.account.releases == max(0, complete - 1)


def test_a_ledger_that_was_torn_goes_on(path: Path) -> None:
    with Ledger(path, PROMISE) as ledger:
        release(ledger, [1])
        head, size = ledger.head, ledger.size
        release(ledger, [2])
    data = path.read_bytes()
    for length in range(size, len(data), 7):
        path.write_bytes(data[:length] + bytes(length % 2 * 50))
        with Ledger(path, PROMISE) as ledger:
            assert ledger.head == head
            release(ledger, [7])
        assert read_ledger(path).account.releases == 2
    with Ledger(path, PROMISE) as ledger:
        assert ledger.recorded(1) == [7]


@pytest.mark.parametrize("bit", [0, 3, 7])
def test_a_bit_that_flips_anywhere_is_noticed(path: Path, bit: int) -> None:
    with Ledger(path, PROMISE) as ledger:
        for k in range(2):
            release(ledger, [k, 500 - k])
    data = path.read_bytes()
    for place in range(len(data)):
        garbled = bytearray(data)
        garbled[place] ^= 1 << bit
        path.write_bytes(garbled)
        with pytest.raises(LedgerError, match="expected an intact record at byte"):
            read_ledger(path)
    with pytest.raises(LedgerError, match="Put back the file as it was last"):
        Ledger(path, PROMISE)
    assert path.read_bytes() == garbled  # for whoever looks into it


def forged(records: list[tuple[int, int, bytes]]) -> bytes:
    """A file with a chain that holds: it has no key, so anybody can make one."""
    first, *others = records
    data = module._packed(b"", *first)
    head = bytes(module.DIGEST_BYTES)
    for kind, number, body in others:
        record = module._packed(head, kind, number, body)
        head, data = module._digest(record), data + record
    return data


FORGED_BASE: dict[str, object] = {"identity": "a", "promise": PROMISE, "head": "00" * 32}
RESERVED = {
    "spending": {"series": "a", "epsilon": 1.0, "delta": 1e-5, "unit": "reading"},
    "until": 16,
}


@pytest.mark.parametrize(
    ("base", "records", "words"),
    [
        ({}, [(2, 0, b"{}")], "intact record at byte"),
        ({}, [(2, 0, b"\xff")], "intact record at byte"),
        ({}, [(2, 0, json.dumps(RESERVED).encode()), (3, 0, b"1234567")], "intact record at byte"),
        ({"promise": {"epsilon": "a lot"}}, [], "expected a number as epsilon in the ledger"),
        ({"promise": {"delta": [1]}}, [], "expected a number as delta in the ledger"),
        ({"promise": {"delta": True}}, [], "expected a number as delta in the ledger"),
        ({"head": "xyz"}, [], "intact record at byte 0"),
        ({"series": [1]}, [], "intact record at byte 0"),
    ],
)
def test_a_forged_ledger_is_refused(
    path: Path, base: dict[str, object], records: list[tuple[int, int, bytes]], words: str
) -> None:
    whole = json.dumps({**FORGED_BASE, **base}).encode()
    path.parent.mkdir()
    path.write_bytes(forged([(1, 0, whole), *records]))
    for read in (read_ledger, describe, lambda path: Ledger(path, PROMISE)):
        with pytest.raises(LedgerError, match=words):
            read(path)
    path.write_bytes(forged([(1, 0, json.dumps(FORGED_BASE).encode())]))
    assert "epsilon 1, delta 1e-05" in describe(path)  # what is well formed is read


def test_a_folder_that_is_not_writable_is_an_error_of_the_ledger(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mending what was torn, and opening, fail like writing does."""
    with Ledger(path, PROMISE) as ledger:
        release(ledger, [7])
    path.write_bytes(path.read_bytes() + b"torn")

    def fail(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system")

    with monkeypatch.context() as patched:
        patched.setattr(os, "ftruncate", fail)
        with pytest.raises(LedgerError, match="cannot be written: Read-only file system"):
            Ledger(path, PROMISE)
    (path.parent / f".{path.name}.1.unfinished").touch()
    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", fail)
        Ledger(path, PROMISE).close()  # litter is no reason to stop
    with Ledger(path, PROMISE) as ledger:
        assert ledger.recorded(0) == [7]


def test_records_that_are_left_out_or_change_places_are_noticed(path: Path) -> None:
    ends = []
    with Ledger(path, PROMISE) as ledger:
        for k in range(3):
            release(ledger, [k])
            ends.append(ledger.size)
    data = path.read_bytes()
    first, second, third = ends
    for changed in (
        data[:first] + data[second:],
        data[:first] + data[second:] + data[first:second],
        data[:second] + data[first:],
        data + data[second:third],
    ):
        path.write_bytes(changed)
        with pytest.raises(LedgerError, match="damaged"):
            Ledger(path, PROMISE)


# --- who may use it, and for how long ------------------------------------------------------------


def test_one_process_at_a_time(path: Path) -> None:
    with Ledger(path, PROMISE) as ledger:
        release(ledger, [1])
        with pytest.raises(LedgerError, match="is in use by another process; stop that one first"):
            Ledger(path, PROMISE)
        assert read_ledger(path).account.releases == 1  # reading it is free
    Ledger(path, PROMISE).close()


def test_another_promise_is_refused(path: Path) -> None:
    Ledger(path, PROMISE).close()
    with pytest.raises(LedgerError, match=r"another one \(epsilon 1\.0 became 2\.0\)"):
        Ledger(path, {**PROMISE, "epsilon": 2.0})
    Ledger(path, PROMISE).close()  # the lock was released


def test_nothing_more_than_promised(path: Path) -> None:
    with Ledger(path, PROMISE) as ledger:
        release(ledger, [1])
        size = ledger.size
        with pytest.raises(LedgerExhaustedError, match="at most epsilon 1, got 2"):
            ledger.reserve(1, Spending("b", 1.0, 1e-6, "reading"))
        assert ledger.size == size
        release(ledger, [2])  # its own series goes on


def test_numbers_come_in_order_and_reserved(path: Path) -> None:
    with Ledger(path, PROMISE) as ledger:
        with pytest.raises(ValueError, match="reserved and comes next, got 0"):
            ledger.record(0, np.array([1]))
        with pytest.raises(ValueError, match="expected release 0 to come next, got 1"):
            ledger.reserve(1, SPENDING)
        release(ledger, [1])
        with pytest.raises(ValueError, match="reserved and comes next, got 0"):
            ledger.record(0, np.array([2]))


def test_a_stream_that_never_ends_has_a_file_that_does(path: Path) -> None:
    sizes = []
    with Ledger(path, PROMISE, keep=10) as ledger:
        for k in range(150):
            release(ledger, [2**62 + k] * 5000)
            sizes.append(ledger.size)
        assert max(sizes) < 2**21
        assert ledger.releases == 150
        for k in range(140, 150):
            assert ledger.recorded(k) == pytest.approx([2**62 + k] * 5000)
    assert path.stat().st_size == sizes[-1]


def test_a_shorter_file_whose_name_is_not_durable_is_not_written_to(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its folder cannot be flushed for a while: records wait, and none goes to the old file."""
    monkeypatch.setattr(module, "COMPACTION_BYTES", 0)
    flush, broken = module._sync_folder, [False]

    def flaky(folder: Path) -> None:
        if broken[0]:
            raise OSError(5, "Input/output error")
        flush(folder)

    monkeypatch.setattr(module, "_sync_folder", flaky)
    with Ledger(path, PROMISE, keep=3) as ledger:
        release(ledger, [0])
        broken[0] = True
        with pytest.raises(LedgerError, match="cannot be written: Input/output error"):
            for k in range(1, 20):
                release(ledger, [k])
        count, head = ledger.releases, ledger.head
        assert 3 < count < 19
        with pytest.raises(LedgerError, match="cannot be written"):
            release(ledger, [count])
        assert (ledger.releases, ledger.head) == (count, head)
        broken[0] = False
        release(ledger, [count])
        head = ledger.head
    with Ledger(path, PROMISE, keep=3) as ledger:
        assert ledger.head == head
        assert [ledger.recorded(k) for k in (count - 1, count)] == [[count - 1], [count]]


def test_a_file_that_was_not_finished_is_removed(path: Path) -> None:
    Ledger(path, PROMISE).close()
    litter = path.with_name(f".{path.name}.12ab.unfinished")
    litter.write_bytes(b"half")
    Ledger(path, PROMISE).close()
    assert not litter.exists()


def test_a_folder_in_place_of_a_file_is_refused(path: Path) -> None:
    path.mkdir(parents=True)
    with pytest.raises(LedgerError, match="cannot be read: Is a directory"):
        Ledger(path, PROMISE)
