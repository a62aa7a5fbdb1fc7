"""The roster and the numbers: over restarts, kills, half-written files, and 1000s of lies."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import streamlvq
from streamlvq.fleet import (
    REASONS,
    Header,
    Member,
    PrivateKey,
    Receipt,
    Roster,
    SequenceNumbers,
    TrustedKeys,
    seal,
)
from streamlvq.fleet import roster as roster_module
from streamlvq.fleet.roster import EnvelopeStore
from streamlvq.snapshot import Snapshot, SnapshotFileError
from support import ROOT, forgeries
from support.forgeries import (
    ALL,
    FLEET,
    INSIDE,
    LIMIT,
    MAX_AGE,
    NOW,
    OUTSIDE,
    Envelope,
    Fuzz,
    World,
)

TESTS = ROOT / "tests"


@pytest.fixture(scope="module")
def shared_world() -> World:
    return World.new(seed=1)


@pytest.fixture
def world(shared_world: World) -> World:
    """The same keys and models, another fate."""
    return replace(shared_world, random=random.Random(2), sequence=10, sent=[])


def open_roster(world: World, folder: Path | None, **other: Any) -> Roster:
    given: dict[str, Any] = {
        "trust": world.trust,
        "limit": LIMIT,
        "max_age_seconds": MAX_AGE,
        "folder": folder,
    }
    return Roster(FLEET, **(given | other))


def digests(roster: Roster, now: float = NOW) -> dict[str, str]:
    return {node: member.digest for node, member in roster.members(now).items()}


def only_file(folder: Path) -> Path:
    (path,) = folder.iterdir()
    return path


# --- who is in -----------------------------------------------------------------------------------


def test_the_newest_of_each_node(world: World) -> None:
    roster = open_roster(world, None)
    assert roster.members(NOW) == {}
    forgeries.let_in(world, roster, rounds=2)
    members = roster.members(NOW)
    assert list(members) == sorted(forgeries.MODELS)
    for node, member in members.items():
        assert isinstance(member, Member)
        assert member.node == member.header.node == member.snapshot.node == node
        assert member.snapshot.to_bytes() == world.payloads[node]
    assert roster.counts == {"new": 10}


def test_the_same_again_changes_nothing(world: World, tmp_path: Path) -> None:
    roster = open_roster(world, tmp_path)
    envelope = world.genuine("camera 1")
    assert roster.accept(*envelope, NOW) == Receipt("new")
    with forgeries.unchanged(roster, tmp_path):
        assert roster.accept(*envelope, NOW + 1) == Receipt("same")
    assert roster.counts == {"new": 1, "same": 1}


def test_numbers_rise_by_epoch_first(world: World) -> None:
    roster, payload = open_roster(world, None), world.payloads["camera 1"]

    def status(epoch: int, sequence: int) -> str:
        receipt = roster.accept(
            *world.sealed("camera 1", payload, epoch=epoch, sequence=sequence), NOW
        )
        return receipt.reason or receipt.status

    assert status(2, 5) == "new"
    assert status(2, 4) == "replayed"
    assert status(1, 9) == "replayed"
    assert status(2, 6) == "new"
    assert status(3, 0) == "new"
    assert status(2, 7) == "replayed"
    assert roster.members(NOW)["camera 1"].header.number == (3, 0)


def test_numbers_are_each_nodes_own(world: World) -> None:
    roster = open_roster(world, None)
    for node, epoch in (("camera 1", 9), ("camera 2", 1)):
        receipt = roster.accept(*world.sealed(node, world.payloads[node], epoch=epoch), NOW)
        assert receipt.status == "new"


def test_two_machines_with_one_name_are_told_apart(world: World) -> None:
    roster, payload = open_roster(world, None), world.payloads["camera 1"]
    first = world.sealed("camera 1", payload, sequence=50)
    second = world.sealed("camera 1", payload, sequence=50, created=NOW - 9)
    assert roster.accept(*first, NOW).status == "new"
    receipt = roster.accept(*second, NOW)
    assert receipt.reason == "replayed"
    assert "do two nodes have the same name and state?" in receipt.text


def test_who_is_silent_fades_out_but_is_remembered(world: World, tmp_path: Path) -> None:
    roster = open_roster(world, tmp_path)
    old = world.genuine("camera 1")
    envelope = world.genuine("camera 1")
    assert roster.accept(*envelope, NOW).status == "new"
    assert list(roster.members(NOW + MAX_AGE)) == ["camera 1"]
    later = NOW + MAX_AGE + 1
    assert roster.members(later) == {}
    for again in (roster, open_roster(world, tmp_path)):
        assert again.members(later) == {}
        assert again.accept(*envelope, later).status == "same"
        assert again.accept(*old, later).reason == "replayed"
    fresh = world.sealed("camera 1", world.payloads["camera 1"], created=later)
    assert roster.accept(*fresh, later).status == "new"
    assert list(roster.members(later)) == ["camera 1"]


def test_what_is_old_or_not_yet_is_refused(world: World) -> None:
    roster = open_roster(world, None)
    envelope = world.genuine("camera 1")
    receipt = roster.accept(*envelope, NOW + MAX_AGE + 1)
    assert (receipt.reason, receipt.text) == (
        "old",
        "expected an age of at most 3600 s, got 3601 s",
    )
    receipt = roster.accept(*envelope, NOW - 301)
    assert receipt.reason == "future"
    assert "look at the clock of 'camera 1', or at ours" in receipt.text
    assert roster.accept(*envelope, NOW - 299).status == "new"


def test_no_epoch_locks_a_name_for_ever(world: World, tmp_path: Path) -> None:
    roster = open_roster(world, tmp_path)
    far = world.sealed("camera 1", world.payloads["camera 1"], epoch=2**63 - 1)
    receipt = roster.accept(*far, NOW)
    assert (receipt.status, receipt.reason) == ("refused", "future")
    assert "expected an epoch that has come" in receipt.text
    assert roster.accept(*world.genuine("camera 1"), NOW).status == "new"


def test_who_leaves_comes_back_only_with_something_new(world: World, tmp_path: Path) -> None:
    roster = open_roster(world, tmp_path)
    envelope, other = world.genuine("camera 1"), world.genuine("camera 2")
    roster.accept(*envelope, NOW)
    roster.accept(*other, NOW)
    assert roster.forget("camera 1")
    assert not roster.forget("camera 1")
    assert not roster.forget("a stranger")
    for again in (roster, open_roster(world, tmp_path)):
        assert list(again.members(NOW)) == ["camera 2"]
        assert again.accept(*envelope, NOW).reason == "replayed"
    again = open_roster(world, tmp_path)
    assert again.accept(*world.genuine("camera 1"), NOW).status == "new"
    assert list(open_roster(world, tmp_path).members(NOW)) == ["camera 1", "camera 2"]


def test_there_is_room_for_so_many(world: World) -> None:
    """Who trusts everyone must not be flooded with names."""
    roster = open_roster(world, None, trust=None, max_nodes=2)
    assert roster.accept(*world.genuine("camera 1"), NOW).status == "new"
    assert roster.accept(*world.genuine("camera 2"), NOW).status == "new"
    assert roster.accept(*world.genuine("press"), NOW).reason == "crowded"
    assert roster.accept(*world.genuine("camera 1"), NOW).status == "new"


def test_who_trusts_everyone_takes_signed_and_unsigned_ones(world: World) -> None:
    roster = open_roster(world, None, trust=None)
    payload = world.payloads["camera 1"]
    for key in (None, world.keys["camera 1"], PrivateKey.new()):
        data = seal(payload, world.header("camera 1"), key)
        assert roster.accept("camera 1", data, NOW).status == "new"


# --- models of a hub -----------------------------------------------------------------------------


def model_for(world: World, node: str, author: str, key: PrivateKey) -> Envelope:
    header = world.header(node, kind="model", author=author)
    return node, seal(world.payloads[node], header, key)


def test_models_come_from_the_hub_alone(world: World, tmp_path: Path) -> None:
    hub, other = PrivateKey.new(), PrivateKey.new()
    trust = TrustedKeys({**world.trust, "hub": hub.public, "other": other.public})
    roster = open_roster(world, tmp_path, trust=trust, kind="model", author="hub")
    good = model_for(world, "camera 1", "hub", hub)
    assert roster.accept(*good, NOW).status == "new"
    assert roster.members(NOW)["camera 1"].header.author == "hub"
    assert roster.accept(*model_for(world, "camera 1", "other", other), NOW).reason == "author"
    assert roster.accept(*model_for(world, "camera 1", "hub", other), NOW).reason == "signature"
    own = model_for(world, "camera 1", "camera 1", world.keys["camera 1"])
    assert roster.accept(*own, NOW).reason == "author"
    assert roster.accept(*world.genuine("camera 1"), NOW).reason == "kind"
    again = open_roster(world, tmp_path, trust=trust, kind="model", author="hub")
    assert again.accept(*good, NOW).status == "same"


def test_snapshots_and_models_share_a_folder(world: World, tmp_path: Path) -> None:
    hub = PrivateKey.new()
    trust = TrustedKeys({**world.trust, "hub": hub.public})
    kinds: dict[str, dict[str, Any]] = {
        "snapshot": {"trust": trust},
        "model": {"trust": trust, "kind": "model", "author": "hub"},
    }
    snapshot, model = world.genuine("press"), model_for(world, "press", "hub", hub)
    assert open_roster(world, tmp_path, **kinds["snapshot"]).accept(*snapshot, NOW).status == "new"
    assert open_roster(world, tmp_path, **kinds["model"]).accept(*model, NOW).status == "new"
    assert open_roster(world, tmp_path, **kinds["snapshot"]).accept(*snapshot, NOW).status == "same"
    assert open_roster(world, tmp_path, **kinds["model"]).accept(*model, NOW).status == "same"
    another = Roster("another fleet", trust, folder=tmp_path)
    assert another.members(NOW) == {} and not another._known


# --- from the outside to the inside --------------------------------------------------------------


def test_nothing_is_parsed_before_it_is_trusted(world: World) -> None:
    roster = open_roster(world, None)
    forgeries.let_in(world, roster, rounds=2)
    early = set(ALL) - set(INSIDE)
    with mock.patch.object(Snapshot, "from_bytes", side_effect=AssertionError("parsed")):
        for forge in early:
            for _ in range(5):
                Fuzz(world, roster).attempt(forge)


def test_the_first_thing_that_is_wrong_is_the_reason(world: World) -> None:
    """An envelope with every fault; repaired from the outside to the inside."""
    roster = open_roster(world, None)
    forgeries.let_in(world, roster, rounds=1)
    key, stranger = world.keys["camera 1"], PrivateKey.new()
    bad = Header("other", "camera 1", "model", 1, 1, 0.0, author="stranger")

    def reason(
        header: Header, key: PrivateKey | None, node: str, payload: bytes = b"?"
    ) -> str | None:
        return roster.accept(node, seal(payload, header, key), NOW).reason

    assert reason(bad, None, "x", bytes(LIMIT)) == "oversized"
    assert reason(bad, None, "x") == "fleet"
    bad = replace(bad, fleet=FLEET)
    assert reason(bad, None, "x") == "kind"
    bad = replace(bad, kind="snapshot")
    assert reason(bad, None, "x") == "author"
    bad = replace(bad, author="camera 1")
    assert reason(bad, None, "x") == "node"
    assert reason(bad, None, "camera 1") == "unsigned"
    assert reason(bad, stranger, "camera 1") == "signature"
    assert reason(bad, key, "camera 1") == "replayed"
    bad = replace(bad, epoch=99)
    assert reason(bad, key, "camera 1") == "old"
    bad = replace(bad, created=NOW)
    assert reason(bad, key, "camera 1") == "values"
    assert reason(bad, key, "camera 1", world.payloads["camera 2"]) == "node"
    assert reason(bad, key, "camera 1", world.payloads["camera 1"]) is None


def test_a_small_snapshot_cannot_ask_for_much_memory(world: World) -> None:
    """Nor for time: the memory would have to be filled."""
    roster = open_roster(world, None)
    begin = time.process_time()
    for _ in range(20):
        receipt = roster.accept(*forgeries.asks_for_memory(world), NOW)
        assert "expected a model of at most" in receipt.text
    assert time.process_time() - begin < 1.0


def test_a_snapshot_may_ask_for_what_is_allowed(world: World) -> None:
    """The same model passes or not by `max_numbers` alone."""
    envelope = world.genuine("camera 1")
    assert open_roster(world, None, max_numbers=500).accept(*envelope, NOW).reason == "values"
    assert open_roster(world, None, max_numbers=50_000).accept(*envelope, NOW).status == "new"


# --- lies ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("forge", ALL, ids=lambda forge: forge.__name__)
def test_lies_are_refused_and_change_nothing(
    world: World, tmp_path: Path, forge: Callable[[World], Envelope]
) -> None:
    roster = open_roster(world, tmp_path)
    forgeries.let_in(world, roster, rounds=2)
    fuzz = Fuzz(world, roster)
    with forgeries.unchanged(roster, tmp_path):
        for _ in range(15):
            fuzz.attempt(forge)
    assert sum(fuzz.tally[forge.__name__].values()) == 15
    forgeries.let_in(world, roster, rounds=1)


@pytest.mark.parametrize("forge", OUTSIDE | INSIDE, ids=lambda forge: forge.__name__)
def test_so_are_they_by_who_trusts_everyone(
    world: World, tmp_path: Path, forge: Callable[[World], Envelope]
) -> None:
    roster = open_roster(world, tmp_path, trust=None)
    forgeries.let_in(world, roster, rounds=2)
    with forgeries.unchanged(roster, tmp_path):
        for _ in range(5):
            Fuzz(world, roster).attempt(forge)


def test_all_reasons_are_tried() -> None:
    """Those that are left have tests of their own."""
    assert set().union(*ALL.values()) == set(REASONS) - {"crowded", "ledger", "unsaved"}


# --- on the disk ---------------------------------------------------------------------------------


def test_a_restart_forgets_nothing(world: World, tmp_path: Path) -> None:
    roster = open_roster(world, tmp_path)
    forgeries.let_in(world, roster, rounds=3)
    again = open_roster(world, tmp_path)
    assert digests(again) == digests(roster)
    for node, member in again.members(NOW).items():
        assert member.snapshot.to_bytes() == world.payloads[node]
        assert member.header == roster.members(NOW)[node].header
    newest = world.sent[-len(world.keys) :]
    with forgeries.unchanged(again, tmp_path):
        assert [again.accept(*each, NOW).status for each in newest] == ["same"] * len(newest)
        older = world.sent[: -len(world.keys)]
        assert {again.accept(*each, NOW).reason for each in older} == {"replayed"}
    assert len(list(tmp_path.iterdir())) == len(world.keys)


def test_without_a_folder_nothing_is_kept(world: World) -> None:
    envelope = world.genuine("camera 1")
    assert open_roster(world, None).accept(*envelope, NOW).status == "new"
    assert open_roster(world, None).accept(*envelope, NOW).status == "new"


def test_whose_key_is_taken_away_is_out_after_a_restart(
    world: World, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    roster = open_roster(world, tmp_path)
    older, newer = world.genuine("camera 1"), world.genuine("camera 1")
    roster.accept(*newer, NOW)
    roster.accept(*world.genuine("press"), NOW)
    trust = TrustedKeys({node: key for node, key in world.trust.items() if node != "camera 1"})
    strict = open_roster(world, tmp_path, trust=trust)
    assert list(strict.members(NOW)) == ["press"]
    assert "what 'camera 1' sent before is not used any more (unknown_key)" in caplog.text
    restored = open_roster(world, tmp_path)  # trusted again
    assert list(restored.members(NOW)) == ["camera 1", "press"]
    assert restored.accept(*older, NOW).reason == "replayed"


def test_whose_key_is_taken_away_is_out_at_once(world: World, tmp_path: Path) -> None:
    roster = open_roster(world, tmp_path)
    older, newer = world.genuine("camera 1"), world.genuine("camera 1")
    roster.accept(*newer, NOW)
    roster.accept(*world.genuine("press"), NOW)
    without = {node: key for node, key in world.trust.items() if node != "camera 1"}
    roster.set_trusted_keys(TrustedKeys({**without, "camera 1": PrivateKey.new().public}))
    assert list(roster.members(NOW)) == ["press"]
    roster.set_trusted_keys(TrustedKeys(without))
    assert list(roster.members(NOW)) == ["press"]
    assert roster.accept(*newer, NOW).reason == "unknown_key"
    roster.set_trusted_keys(world.trust)  # trusted again
    assert list(roster.members(NOW)) == ["press"]
    assert roster.accept(*older, NOW).reason == "replayed"
    assert roster.accept(*newer, NOW).status == "new"
    roster.set_trusted_keys(None)
    assert list(roster.members(NOW)) == ["camera 1", "press"]


def test_a_file_cut_anywhere_is_survived(
    world: World, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The number outlives the loss of the rest; the same message is then welcome again."""
    older, newest = world.genuine("camera 1"), world.genuine("camera 1")
    open_roster(world, tmp_path).accept(*newest, NOW)
    path = only_file(tmp_path)
    whole = path.read_bytes()
    start = len(whole) - len(newest[1])
    lengths = [*range(start), *range(start + 1, len(whole), 97), len(whole) - 1]
    for length in lengths:
        path.write_bytes(whole[:length])
        roster = open_roster(world, tmp_path)
        assert roster.members(NOW) == {}
        if length > start:
            assert roster.accept(*older, NOW).reason == "replayed"
        assert roster.accept(*newest, NOW).status == "new"
        assert path.read_bytes() == whole
    assert "cannot be used" in caplog.text


def test_a_file_with_other_bits_is_survived(world: World, tmp_path: Path) -> None:
    newest = world.genuine("camera 1")
    open_roster(world, tmp_path).accept(*newest, NOW)
    path = only_file(tmp_path)
    whole = path.read_bytes()
    for _ in range(200):
        path.write_bytes(world.flipped(whole))
        roster = open_roster(world, tmp_path)
        assert roster.members(NOW) == {}
        assert roster.accept(*newest, NOW).status == "new"
        assert path.read_bytes() == whole


def test_a_smaller_limit_forgets_no_number(world: World, tmp_path: Path) -> None:
    older, newest = world.genuine("camera 1"), world.genuine("camera 1")
    open_roster(world, tmp_path).accept(*newest, NOW)
    small = open_roster(world, tmp_path, limit=1000)
    assert small.members(NOW) == {}
    assert small._known["camera 1"].number == (5, 12)
    assert open_roster(world, tmp_path).accept(*older, NOW).reason == "replayed"


def test_litter_is_swept_up(world: World, tmp_path: Path) -> None:
    roster = open_roster(world, tmp_path)
    roster.accept(*world.genuine("camera 1"), NOW)
    name = only_file(tmp_path).name
    (tmp_path / f".{name}.12345678.unfinished").write_bytes(b"half")
    (tmp_path / "notes.txt").write_text("not ours")
    open_roster(world, tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([name, "notes.txt"])


def test_what_cannot_be_remembered_is_not_accepted(world: World, tmp_path: Path) -> None:
    """Otherwise something older could be accepted after a restart."""
    blocked = tmp_path / "folder"
    blocked.write_text("a file in the way")
    roster = open_roster(world, blocked)
    envelope = world.genuine("camera 1")
    receipt = roster.accept(*envelope, NOW)
    assert (receipt.status, receipt.reason) == ("refused", "unsaved")
    assert roster.members(NOW) == {}
    blocked.unlink()
    assert roster.accept(*envelope, NOW).status == "new"
    assert digests(open_roster(world, blocked)) == digests(roster)


def test_who_leaves_while_the_disk_is_full_stays(world: World, tmp_path: Path) -> None:
    roster = open_roster(world, tmp_path)
    roster.accept(*world.genuine("camera 1"), NOW)
    full = SnapshotFileError("disk full")
    with (
        mock.patch.object(EnvelopeStore, "write", side_effect=full),
        pytest.raises(SnapshotFileError, match="disk full"),
    ):
        roster.forget("camera 1")
    assert list(roster.members(NOW)) == ["camera 1"]


def test_names_that_are_alike_have_files_of_their_own(tmp_path: Path) -> None:
    store = EnvelopeStore(tmp_path, FLEET, "snapshot", LIMIT)
    nodes = ["a b", "a_b", "a/b", "../a", "A b", "ü" * 120, "ü" * 119 + "x", "."]
    paths = {store.path(node).name.lower() for node in nodes}
    assert len(paths) == len(nodes)
    assert all(store.path(node).parent == tmp_path for node in nodes)
    assert EnvelopeStore(tmp_path, "other", "snapshot", LIMIT).path("a") != store.path("a")


def test_the_name_of_the_fleet_is_checked(world: World) -> None:
    with pytest.raises(ValueError, match="fleet: expected 1 to 200 printable"):
        Roster("", world.trust)


# --- kill -9 -------------------------------------------------------------------------------------

TAKER = """
import sys
sys.path.insert(0, {tests!r})
from pathlib import Path
from support.forgeries import FLEET, LIMIT, MAX_AGE, NOW
from streamlvq.fleet import Header, PrivateKey, Roster, TrustedKeys, seal
from streamlvq.snapshot import Snapshot
folder = Path(sys.argv[1])
key = PrivateKey.load(folder / "n.key")
payload = (folder / "payload").read_bytes()
roster = Roster(FLEET, TrustedKeys({{"n": key.public}}), limit=LIMIT, max_age_seconds=MAX_AGE,
                folder=folder / "roster")
first = roster._known["n"].number[1] if "n" in roster._known else 0
for sequence in range(first + 1, first + 100_000):
    data = seal(payload, Header(FLEET, "n", "snapshot", 1, sequence, NOW), key)
    assert roster.accept("n", data, NOW).status == "new"
    print(sequence, flush=True)
"""
COUNTER = """
import sys
from streamlvq.fleet import SequenceNumbers
numbering = SequenceNumbers(sys.argv[1])
while True:
    print(*numbering.next(), flush=True)
"""


def killed(code: str, folder: Path, seconds: float) -> list[str]:
    """What a process had said when it was killed, some time after its first word."""
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(folder)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    first = process.stdout.readline()
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    said = [first, *process.stdout.read().splitlines(keepends=True)]
    assert process.wait() == -signal.SIGKILL
    return [line for line in said if line.endswith("\n")]


def kills() -> Iterator[float]:
    chance = random.Random(5)
    for _ in range(4):
        yield chance.uniform(0.0, 0.2)


def test_kill_the_taker_at_any_moment(world: World, tmp_path: Path) -> None:
    """What it had said to be accepted is known, and nothing before that gets in."""
    X, y = forgeries.blobs(60)
    model = forgeries.taught(streamlvq.GLVQ(**forgeries.SIZES), X, y.tolist())
    payload = Snapshot.of(model, "n", readings=False).to_bytes()
    (tmp_path / "payload").write_bytes(payload)
    key = PrivateKey.new()
    key.save(tmp_path / "n.key")
    trust, last = TrustedKeys({"n": key.public}), 0
    for seconds in kills():
        said = killed(TAKER.format(tests=str(TESTS)), tmp_path, seconds)
        assert said
        roster = open_roster(world, tmp_path / "roster", trust=trust)
        member = roster.members(NOW)["n"]
        assert member.header.sequence in (int(said[-1]), int(said[-1]) + 1)
        assert member.snapshot.to_bytes() == payload
        for sequence in (last, int(said[0]), int(said[-1]) - 1):
            replay = seal(payload, Header(FLEET, "n", "snapshot", 1, sequence, NOW), key)
            assert roster.accept("n", replay, NOW).reason == "replayed"
        last = member.header.sequence
    assert len(list((tmp_path / "roster").iterdir())) == 1  # and no litter


def test_kill_the_counter_at_any_moment(tmp_path: Path) -> None:
    last = (0, 0)
    for seconds in kills():
        said = [tuple(map(int, line.split())) for line in killed(COUNTER, tmp_path, seconds)]
        assert said
        assert said == sorted(set(said))
        assert said[0] > last
        last = said[-1]  # type: ignore[assignment]
    assert SequenceNumbers(tmp_path).next() > last
    assert [path.name for path in tmp_path.iterdir()] == ["numbering"]


# --- numbers -------------------------------------------------------------------------------------


def test_numbers_go_on_after_a_restart(tmp_path: Path) -> None:
    first = SequenceNumbers(tmp_path / "state")
    assert first.last is None
    given = [first.next() for _ in range(3)]
    given += [SequenceNumbers(tmp_path / "state").next() for _ in range(3)]
    epoch = given[0][0]
    assert given == [(epoch, sequence) for sequence in range(1, 7)]
    assert SequenceNumbers(tmp_path / "state").last == given[-1]


def test_a_lost_folder_begins_a_later_epoch(tmp_path: Path) -> None:
    numbering = SequenceNumbers(tmp_path)
    before = [numbering.next() for _ in range(5)][-1]
    (tmp_path / "numbering").unlink()
    after = SequenceNumbers(tmp_path).next()
    assert after > before
    assert after[1] == 1
    assert abs(after[0] / 1e6 - time.time()) < 60


@pytest.mark.parametrize(
    "content",
    [b"", b"7", b"7 8", b"7 8\n9", b"-7 8\n", b"x y\n", b"7 9999999999999999999\n", b"\0" * 50],
)
def test_a_file_that_is_no_number_begins_a_later_epoch(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    before = SequenceNumbers(tmp_path).next()
    (tmp_path / "numbering").write_bytes(content)
    assert SequenceNumbers(tmp_path).next() > before
    assert "numbers go on with the time of day" in caplog.text


def test_the_highest_sequence_is_followed_by_an_epoch(tmp_path: Path) -> None:
    (tmp_path / "numbering").write_text(f"7 {2**63 - 1}\n")
    assert SequenceNumbers(tmp_path).next() == (8, 1)


def test_what_cannot_be_written_is_not_given_out(tmp_path: Path) -> None:
    numbering = SequenceNumbers(tmp_path / "state")
    first = numbering.next()
    os.rename(tmp_path / "state", tmp_path / "away")
    (tmp_path / "state").write_text("a file in the way")
    with pytest.raises(OSError, match=r"state"):
        numbering.next()
    assert numbering.last == first
    (tmp_path / "state").unlink()
    os.rename(tmp_path / "away", tmp_path / "state")
    assert numbering.next() == (first[0], first[1] + 1)


def test_the_roster_accepts_what_numbering_gives(world: World, tmp_path: Path) -> None:
    roster, payload = open_roster(world, None), world.payloads["press"]
    for lost in (False, False, True, False):
        if lost:
            (tmp_path / "numbering").unlink()
        epoch, sequence = SequenceNumbers(tmp_path).next()
        envelope = world.sealed("press", payload, epoch=epoch, sequence=sequence)
        assert roster.accept(*envelope, NOW).status == "new"


def test_defaults_are_those_of_the_module() -> None:
    roster = Roster("plant", None)
    assert roster.limit == roster_module.ENVELOPE_MAX_BYTES
    assert (roster.kind, roster.author, roster.members(0.0)) == ("snapshot", None, {})
