"""A daemon under privacy: checkpoint, journal and ledger together, whatever happens."""

from __future__ import annotations

import json
import os
import random
import shutil
import threading
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from streamlvq.config import Config, check, load, loads
from streamlvq.connect import Message
from streamlvq.errors import LedgerError
from streamlvq.monitor import Monitor
from streamlvq.payloads import Decoder
from streamlvq.privacy import Spending
from streamlvq.privacy import ledger as ledger_module
from streamlvq.privacy.ledger import read_ledger
from streamlvq.role import Health
from streamlvq.service.daemon import MonitoringRole
from streamlvq.service.journal import Received
from streamlvq.service.metrics import ServiceMetrics
from streamlvq.service.processor import MessageProcessor
from streamlvq.service.releases import OtherLedgerError, open_ledger
from streamlvq.service.service import ServiceContext
from streamlvq.service.state_store import StateStore
from streamlvq.service.systemd import Notifier, Signals
from streamlvq.snapshot import SnapshotFiles
from support.brokers import BrokerProcess, Mosquitto, broker, mosquitto  # noqa: F401
from support.daemons import Client, Daemon, settings, until
from support.private import FEATURES, SECTIONS, readings_of


def private_settings(running: BrokerProcess | None, folder: Path, **more: Any) -> dict[str, Any]:
    sections = {**SECTIONS, "readings": {"features": list(FEATURES)}, **more}
    whole = settings(running, folder, **sections)
    kept = {name: section for name, section in whole.items() if section is not None}
    kept["rejector"].pop("target_rate")
    return kept


def released(daemon: Daemon) -> int:
    return read_ledger(Path(daemon.config["state"]["folder"]) / "privacy.ledger").account.releases


def restored(daemon: Daemon) -> Any:
    """The private model in the newest snapshot."""
    config = load(daemon.path)
    found = SnapshotFiles(config.state.folder).newest(lambda data: Monitor.restore(config, data))
    assert found is not None
    return found[0].local("")


def test_killed_again_and_again_no_release_is_made_twice(
    mosquitto: Mosquitto,  # noqa: F811
    tmp_path: Path,
) -> None:
    config = private_settings(
        mosquitto, tmp_path, broker={"receive_maximum": 20}, state={"snapshot_seconds": 0.3}
    )
    ledger, rng = tmp_path / "state" / "privacy.ledger", random.Random(1)
    known: dict[int, bytes] = {}
    with Client(mosquitto, "plant/+/decision") as client, Daemon(tmp_path, config) as daemon:
        until(lambda: daemon.health()[0] == 200, 30, "healthy")
        daemon.kill()
        for part in range(4):
            client.send(readings_of(250, first=250 * part))  # the broker keeps them
            daemon.start()
            had = len(client.got)
            until(lambda n=had: len(client.got) > n, 30, "decisions")
            time.sleep(rng.uniform(0.0, 0.3))
            daemon.kill()
            note(ledger, known)
        daemon.start()
        numbers = set(range(1000))
        until(lambda: {d["sequence"] for d in client.decisions()} == numbers, 60, "all")
        assert daemon.stop() == 0
        note(ledger, known)
        model = restored(daemon)
    assert model.samples == 1000
    assert model.releases == released(daemon) == 2 + (1000 - 360) // 40
    last = {d["sequence"]: d for d in client.decisions()}
    right = [last[n]["label"] == label(n) for n in range(600, 1000)]
    assert sum(right) > 300  # the model has learnt something


def label(n: int) -> str:
    return str(json.loads(readings_of(1, first=n)[0].payload)["y"])


def note(path: Path, known: dict[int, bytes]) -> None:
    """Compare what the ledger says of each release with what it said before."""
    content, data = read_ledger(path), path.read_bytes()
    for entry in content.entries:
        if entry.kind == 3:
            record = data[entry.start : entry.end]
            assert known.setdefault(entry.number, record) == record


def test_what_does_not_belong_together_is_refused(tmp_path: Path) -> None:
    """A ledger that was put back, one that is newer than the state, another promise."""
    config = convert(private_settings(None, tmp_path))
    state, old = tmp_path / "state", tmp_path / "old"
    learn(config, readings_of(500))
    shutil.copytree(state, old)
    learn(config, readings_of(500, first=500))
    new = (state / "privacy.ledger").read_bytes()
    shutil.copy(old / "privacy.ledger", state / "privacy.ledger")
    with pytest.raises(OtherLedgerError, match="an older ledger was put back"):
        learn(config, [])
    (state / "privacy.ledger").unlink()
    with pytest.raises(OtherLedgerError, match="an older ledger was put back"):
        learn(config, [])
    shutil.rmtree(state)
    shutil.copytree(old, state)
    (state / "privacy.ledger").write_bytes(new)
    with pytest.raises(OtherLedgerError, match="the others are not in the journal"):
        learn(config, [])
    promise = msgspec.structs.replace(config.privacy, epsilon=5.0)
    with pytest.raises(LedgerError, match=r"another one \(epsilon 4\.0 became 5\.0\)"):
        learn(msgspec.structs.replace(config, privacy=promise), [])


def test_a_crash_between_a_release_and_the_next_checkpoint(tmp_path: Path) -> None:
    """What the ledger has is taken, also when the state before it is restored again and again."""
    config = convert(private_settings(None, tmp_path))
    store = opened(config)
    processor = store.restore(config, print)
    for k in range(0, 700, 100):
        messages = readings_of(100, first=k)
        store.append(Received(messages))
        processor.process(messages)
    live = processor.monitor.checkpoint()
    head = read_ledger(tmp_path / "state" / "privacy.ledger").head
    store.close()  # without a snapshot, as after kill -9
    for _ in range(2):
        store = opened(config)
        assert store.restore(config, print).monitor.checkpoint() == live
        store.close()
        assert read_ledger(tmp_path / "state" / "privacy.ledger").head == head


def test_vectors_that_no_snapshot_will_replay_are_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_module, "COMPACTION_BYTES", 0)
    config = convert(private_settings(None, tmp_path, state={"keep": 2}))
    first = []
    for k in range(5):
        learn(config, readings_of(400, first=400 * k))
        first.append(read_ledger(tmp_path / "state" / "privacy.ledger").base.releases)
    assert first[-1] > 10
    assert first == sorted(first)


def convert(settings: dict[str, Any]) -> Config:
    return check(msgspec.convert(settings, Config))


def opened(config: Config) -> StateStore:
    health = Health(config.health)
    return StateStore(config, health, ServiceMetrics(health, 1))


def learn(config: Config, messages: list[Message]) -> None:
    """Restore what there is, learn, save."""
    store = opened(config)
    try:
        processor = store.restore(config, print)
        for k in range(0, len(messages), 100):
            store.append(Received(messages[k : k + 100]))
            processor.process(messages[k : k + 100])
            store.health.unsaved = True
        assert store.save(processor.monitor)
    finally:
        store.close()


def test_labels_outside_the_public_list_are_refused() -> None:

    config = loads(
        "{readings: {topic: 'plant/{device}/readings', label: y, sequence: n, features: [a, b]},"
        "model: {type: PrivateLVQ},"
        "privacy: {epsilon: 1, bounds: {a: [0, 1], b: [0, 1]}, classes: [x, z]}}"
    )
    processor = MessageProcessor(Decoder(config), Monitor(config))
    payloads = [b'{"a": 0.1, "b": 0.2, "y": "%s"}' % y for y in (b"x", b"new", b"z")]
    result = processor.process([Message("plant/d/readings", p, 1.0) for p in payloads])
    assert [(each.reason, each.text) for each in result.refused] == [
        ("label", "expected one of privacy.classes (x, z), got 'new': classes are a public list")
    ]
    assert (result.learnt, result.held) == (2, 0)


def full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ledgers run out of room; the journal has room enough."""
    sync = os.fdatasync

    def full(file: int) -> None:
        if os.readlink(f"/proc/self/fd/{file}").endswith("privacy.ledger"):
            raise OSError(28, "No space left on device")
        sync(file)

    monkeypatch.setattr(os, "fdatasync", full)


def stopped_while_the_disk_is_full(
    config: Config, monkeypatch: pytest.MonkeyPatch, leave: bool = True
) -> tuple[list[int], bool, int, str | None]:
    """Run a daemon's role until its ledger's disk is full; return what it acknowledged and said.

    It learns 50 readings; the first release is due within the 200 that follow.
    """
    signals, acknowledged = Signals(), list[int]()
    health = Health(config.health)
    role = MonitoringRole(
        config, ServiceContext(signals, Notifier(), health, ServiceMetrics(health, 1))
    )

    class Link:
        def publish(self, outgoing: Any) -> None:
            pass

        def acknowledge(self, messages: list[Message]) -> None:
            acknowledged.append(len(messages))

    class Session:
        link = Link()

    try:
        role.start(Session())  # type: ignore[arg-type]
        health.starting = False
        role.handle(readings_of(50))
        with monkeypatch.context() as patched:
            full_disk(patched)
            signals.leave = leave
            role.handle(readings_of(200, first=50))
            role.tend(time.monotonic() + 1000.0)
        return acknowledged, role.stop(), len(role.store.files.paths()), health.ledger
    finally:
        role.close()


def test_a_stop_while_the_disk_is_full_loses_no_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked to stop within a batch: not acknowledged, not saved half, replayed from the journal."""
    config = convert(private_settings(None, tmp_path))
    acknowledged, kept, snapshots, problem = stopped_while_the_disk_is_full(config, monkeypatch)
    assert (acknowledged, kept, snapshots) == ([50], True, 1)  # the first one, with the key
    assert problem is not None
    assert "No space left on device" in problem
    store = opened(config)
    monitor = store.restore(config, print).monitor
    store.close()
    model: Any = monitor.local("")
    assert (model.samples, model.releases) == (250, 1)


def test_a_late_label_or_held_reading_is_not_lost_either(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The monitor and the processor pass the ledger's error on, and refuse nothing."""
    late = {"topic": "plant/{device}/labels", "sequence": "n"}
    config = convert(private_settings(None, tmp_path, labels=late))
    patient = open_ledger(config, tmp_path / "other")
    patient.pause = lambda seconds: False
    processor = MessageProcessor(Decoder(config), Monitor(config, None, patient))
    processor.process(readings_of(59))
    last = json.loads(readings_of(1, first=59)[0].payload)
    label = json.dumps({"n": last["n"], "label": last.pop("y")}).encode()
    processor.process([Message("plant/d2/readings", json.dumps(last).encode(), 1.7e9)])
    full_disk(monkeypatch)
    with pytest.raises(LedgerError, match="No space left"):
        processor.process([Message("plant/d2/labels", label, 1.7e9)])
    assert processor.monitor.local("").samples == 59
    patient.ledger.close()


def test_a_start_while_the_disk_is_full_says_so_and_can_be_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = convert(private_settings(None, tmp_path))
    stopped_while_the_disk_is_full(config, monkeypatch)
    full_disk(monkeypatch)
    signals, health = Signals(), Health(config.health)
    role = MonitoringRole(
        config, ServiceContext(signals, Notifier(), health, ServiceMetrics(health, 1))
    )
    said: list[list[str]] = []

    def stop_later() -> None:
        until(lambda: health.ledger is not None, 30, "waiting")
        beat = health.beat
        until(lambda: health.beat > beat, 30, "a sign of life")
        said.append(health.problems())
        signals.leave = True

    thread = threading.Thread(target=stop_later)
    thread.start()
    with pytest.raises(LedgerError, match="No space left"):
        role.start(None)  # type: ignore[arg-type]
    thread.join()
    role.close()
    assert [text.partition(":")[0] for text in said[0]] == ["ledger", "starting"]


def test_a_ledger_that_cannot_be_written_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full for a while: the release is made when there is room again."""

    config = loads(
        "{readings: {label: y, sequence: n, features: [a, b]}, model: {type: PrivateLVQ},"
        "privacy: {epsilon: 1, bounds: {a: [0, 1], b: [0, 1]}, classes: [x, z]}}"
    )
    patient = open_ledger(config, tmp_path)
    waits: list[float] = []
    sync = os.fdatasync

    def full(file: int) -> None:
        if len(waits) < 3:
            raise OSError(28, "No space left on device")
        sync(file)

    def pause(seconds: float) -> bool:
        waits.append(seconds)
        assert patient.problem is not None
        assert "No space left on device" in patient.problem
        return True

    patient.pause = pause
    monkeypatch.setattr(os, "fdatasync", full)
    patient.reserve(0, Spending("a", 1.0, 1e-5, "reading"))
    assert waits == [0.1, 0.2, 0.4]
    assert patient.problem is None
    assert patient.ledger.account.reserved == 16
