"""The daemon when something of its own fails: nothing is lost, and it goes on."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import threading
import time
import urllib.request
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from streamlvq.config import (
    Broker,
    Config,
    DecisionsSection,
    HealthSection,
    LabelsSection,
    ModelSection,
    ReadingsSection,
    ShardSection,
    StateSection,
    StatusSection,
)
from streamlvq.connect import Message, Outgoing
from streamlvq.errors import StreamLVQError
from streamlvq.events import Refused
from streamlvq.monitor import Monitor
from streamlvq.role import Health
from streamlvq.service.daemon import MonitoringRole
from streamlvq.service.health import MAX_REQUESTS, HealthServer, PortError
from streamlvq.service.journal import DecodingHistory, JournalError, Received
from streamlvq.service.metrics import ServiceMetrics
from streamlvq.service.processor import BatchResult
from streamlvq.service.publisher import Publisher, safe_name
from streamlvq.service.service import Service
from streamlvq.service.session import BrokerSession
from streamlvq.service.state_store import StateStore
from streamlvq.service.systemd import Signals
from streamlvq_connectors.memory import MemoryLink, MemorySession
from support.brokers import free_port
from support.daemons import until
from support.service_doubles import Silent, counted, decisions, exposition, service_metrics

# --- defects after the journal, before the acknowledgement -------------------------------------

HALF = "pump \ud800"  # half of a pair, as a careless payload may name a device


def test_a_name_that_cannot_be_encoded_costs_nothing_else() -> None:
    config = Config(
        decisions=DecisionsSection(topic="d/{device}"), status=StatusSection(home_assistant="ha")
    )
    measured = service_metrics()
    publisher = Publisher(config, measured)
    publisher.messages(BatchResult([decisions([HALF])]), [])
    sent = publisher.messages(BatchResult([decisions(["p1"])]), [])
    assert [m.topic for m in sent if m.topic.startswith("d/")] == ["d/p1"]
    assert len([m for m in sent if m.topic.startswith("ha/")]) == 2
    assert len(list(publisher.announcements())) >= 2
    assert measured.readings_count == 2


def test_a_defect_costs_the_part_that_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    config = Config(
        decisions=DecisionsSection(topic="d/{device}", file=str(tmp_path / "out.jsonl")),
        status=StatusSection(home_assistant="ha"),
    )
    measured = service_metrics()
    publisher = Publisher(config, measured)
    broken = {publisher.discovery: "_messages", publisher.file: "write"}
    for part, name in broken.items():
        monkeypatch.setattr(part, name, lambda *_: 1 // 0)
    messages = [Message("sensors/p0/readings", b"\xff", 1.0)]
    result = BatchResult([decisions(["p0", "p1"])], [Refused(0, "payload", "bad")], 1)
    sent = publisher.messages(result, messages)
    assert [m.topic for m in sent] == ["d/p0", "d/p1", "streamlvq/streamlvq/dead"]
    assert counted(measured.registry, "publish_failures_total") == 2
    assert measured.learnt_count == 1
    assert caplog.text.count("ZeroDivisionError") >= 2
    monkeypatch.setattr(publisher._encoder, "encode", lambda _: 1 // 0, raising=False)
    assert [m.topic for m in publisher.messages(result, messages)] == ["streamlvq/streamlvq/dead"]
    assert list(publisher.announcements()) == []


def test_different_halves_stay_different() -> None:
    assert safe_name("a\ud800") != safe_name("a\ud801")
    assert safe_name("a\ud800").isascii()


def test_one_odd_name_does_not_take_the_metrics_away() -> None:
    measured = service_metrics()
    measured.count_decisions(decisions([HALF, "p1", "p1"]))
    server = HealthServer("127.0.0.1", 0, measured.registry, Health(HealthSection()))
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=5) as answer:
        text = answer.read().decode()
    server.close()
    assert 'device_readings_total{device="pump ?"} 1.0' in text
    assert 'device_readings_total{device="p1"} 2.0' in text


class Choosy(MemoryLink):
    """Has a defect that decisions bring out; ends the daemon when it has heard enough."""

    signals: Signals

    def publish(self, messages: Iterable[Outgoing]) -> None:
        messages = list(messages)
        if any("decision" in message.topic for message in messages):
            raise UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed")
        super().publish(messages)

    def acknowledge(self, messages: Sequence[Message]) -> None:
        super().acknowledge(messages)
        self.signals.leave = True


def test_what_brings_out_a_defect_in_publishing_is_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the broker would deliver it again after every start, for ever."""
    monkeypatch.setattr("streamlvq.connect.links", lambda: {"memory": Choosy})
    far = MemoryLink.broker_named(tmp_path.name)
    session = far.sessions["streamlvq"] = MemorySession({"r/+": 1})
    for n in range(3):
        far.publish("r/d", b'{"x": 1, "y": "a", "n": %d}' % n)
    with Signals() as signals:
        Choosy.signals = signals
        service = Service(simple(tmp_path), MonitoringRole, signals, lambda: simple(tmp_path))
        assert service.run() == 0
    registry = service.metrics.registry
    assert counted(registry, "publish_failures_total") == 1
    assert counted(registry, "readings_total") == 3
    monkeypatch.setattr(Monitor, "models", None)  # nobody asks the monitor from another thread
    assert "streamlvq_models " in exposition(registry)
    monkeypatch.undo()
    service.role.tend(time.monotonic() + 60)
    assert "streamlvq_models 1.0\n" in exposition(registry)
    assert (len(session.waiting), len(session.unacknowledged)) == (0, 0)


def simple(folder: Path, **sections: Any) -> Config:
    given: dict[str, Any] = {
        "broker": Broker(url=f"memory://{folder.name}"),
        "model": ModelSection(type="GLVQ"),
        "readings": ReadingsSection(topic="r/{device}", label="y", sequence="n"),
        "state": StateSection(folder=str(folder / "state")),
    }
    return Config(**{**given, **sections})


# --- a configuration that changes while messages wait in the journal ------------------------------


def kept(config: Config) -> StateStore:
    health = Health(config.health)
    return StateStore(config, health, ServiceMetrics(health, 10))


def some(count: int, first: int = 0, topic: str = "r/d{}") -> list[Message]:
    return [
        Message(topic.format(n % 3), b'{"x": %d, "y": "%c", "n": %d}' % (n % 7, 97 + n % 2, n), 1.0)
        for n in range(first, first + count)
    ]


def killed(config: Config, *batches: list[Message]) -> bytes:
    """Take batches as the daemon does, then vanish without a snapshot; what was known."""
    store = kept(config)
    try:
        processor = store.restore(config, print)
        for batch in batches:
            store.append(Received(batch))
            processor.process(batch)
    finally:
        store.close()
    return processor.monitor.checkpoint()


def readings_section(**changed: Any) -> ReadingsSection:
    given: dict[str, Any] = {"topic": "r/{device}", "label": "y", "sequence": "n"}
    return ReadingsSection(**{**given, **changed})


CHANGES = {
    "topic": {"readings": readings_section(topic="other/{device}/x")},
    "format": {"readings": readings_section(format="msgpack")},
    "label": {"readings": readings_section(label="truth")},
    "features": {"readings": readings_section(features=["z"])},
    "labels": {"labels": LabelsSection(topic="l/{device}", sequence="n")},
    "shard": {"shard": ShardSection(index=1, count=2)},
}


@pytest.mark.parametrize("what", CHANGES)
def test_the_journal_is_decoded_as_it_was_meant(
    what: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = killed(simple(tmp_path), some(100), some(100, 100))
    new = simple(tmp_path, **CHANGES[what])
    with caplog.at_level("INFO", "streamlvq"):
        store = kept(new)
        monitor = store.restore(new, print).monitor
    assert monitor.config == new
    assert monitor.checkpoint() == Monitor.restore(new, before).checkpoint()
    assert len(monitor.models()) == 1
    assert counted(store.metrics.registry, "replayed_total") == 200
    assert "they are decoded as then" in caplog.text
    assert "refused" not in caplog.text
    assert store.files.positions() == [2], "saved at once"
    store.close()


def test_payloads_that_were_small_enough_are_so_still(tmp_path: Path) -> None:
    before = killed(simple(tmp_path), some(10))
    url = f"memory://{tmp_path.name}"
    new = simple(tmp_path, broker=Broker(url=url, max_payload_bytes=3))
    assert killed(new) == before


def test_several_changes_and_a_damaged_snapshot(tmp_path: Path) -> None:
    """The journal reaches back to the oldest snapshot, so it may span configurations."""
    first, second = simple(tmp_path), simple(tmp_path, **CHANGES["topic"])
    store = kept(first)
    assert store.files.write(store.restore(first, print).monitor.checkpoint(), 0)
    store.close()
    killed(first, some(20), some(20, 20))
    before = killed(second, some(20, 40, "other/d{}/x"))
    _, newest = sorted(Path(first.state.folder).glob("snapshot-*"))
    newest.write_bytes(b"damaged")
    assert killed(first) == before
    assert killed(second) == before


def test_what_cannot_go_on_says_so_and_loses_nothing(tmp_path: Path) -> None:
    before = killed(simple(tmp_path), some(20))
    other = simple(tmp_path, model=ModelSection(type="GLVQ", per="device"))
    with pytest.raises(StreamLVQError, match=r"model\.per: the state was made with 'all'"):
        killed(other)
    assert killed(simple(tmp_path)) == before


def test_refusals_of_the_journal_are_counted_and_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    killed(simple(tmp_path), [*some(3), *(Message("r/d", b"{", 1.0) for _ in range(4))])
    store = kept(simple(tmp_path))
    store.restore(simple(tmp_path), print)
    store.close()
    assert counted(store.metrics.registry, "replay_refused_total", reason="payload") == 4
    assert caplog.text.count("refused 4 messages of the journal (payload: 4)") == 1


def test_a_folder_from_before_there_was_such_a_file(tmp_path: Path) -> None:
    before = killed(simple(tmp_path), some(20))
    (tmp_path / "state" / "decoding.json").unlink()
    assert killed(simple(tmp_path)) == before


def test_a_damaged_file_is_no_reason_to_guess(tmp_path: Path) -> None:
    killed(simple(tmp_path), some(20))
    (tmp_path / "state" / "decoding.json").write_text("[{")
    with pytest.raises(JournalError, match=r"decoding.json to say how .* delete it if"):
        kept(simple(tmp_path))


def test_the_file_is_written_when_something_changes_and_stays_small(tmp_path: Path) -> None:
    history = DecodingHistory(tmp_path)
    configs = [simple(tmp_path), simple(tmp_path, **CHANGES["topic"])]
    for n in range(10):
        history.record(configs[n % 2], 10 * n, oldest=10 * n - 15)
    found = [DecodingHistory(tmp_path).config_at(n, configs[0]) for n in (79, 80, 89, 90)]
    assert found == [configs[1], configs[0], configs[0], configs[1]]
    assert len(msgspec.json.decode((tmp_path / "decoding.json").read_bytes())["content"]) == 3
    stamp = (tmp_path / "decoding.json").stat().st_mtime_ns
    history.record(configs[1], 95, oldest=75)
    assert (tmp_path / "decoding.json").stat().st_mtime_ns == stamp
    history.record(configs[1], 0)  # someone has emptied the folder
    assert history.config_at(0, configs[0]) == configs[1]


# --- HTTP ----------------------------------------------------------------------------------------


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[HealthServer]:
    monkeypatch.setattr("streamlvq.service.health.REQUEST_SECONDS", 1.0)
    running = HealthServer("127.0.0.1", 0, service_metrics().registry, Health(HealthSection()))
    yield running
    running.close()


def answers(server: HealthServer, host: str = "127.0.0.1") -> bool:
    try:
        with urllib.request.urlopen(f"http://{host}:{server.port}/metrics", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def closed(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True
    except TimeoutError:
        return False


def test_whoever_connects_and_says_nothing_takes_little(server: HealthServer) -> None:
    before, threads = len(os.listdir("/proc/self/fd")), threading.active_count()
    idle = [socket.create_connection(("127.0.0.1", server.port), 5) for _ in range(50)]
    assert all(closed(each) for each in idle[MAX_REQUESTS:]), "turned away at once"
    assert len(os.listdir("/proc/self/fd")) <= before + len(idle) + MAX_REQUESTS + 1
    assert threading.active_count() <= threads + MAX_REQUESTS
    until(lambda: answers(server), 10, "an answer as soon as the others are out of time")
    assert all(closed(each) for each in idle)
    for each in idle:
        each.close()
    until(lambda: len(os.listdir("/proc/self/fd")) <= before, 10, "nothing is left")


def test_dripping_does_not_help(server: HealthServer) -> None:
    begin = time.monotonic()
    with socket.create_connection(("127.0.0.1", server.port), 0.1) as connection:
        connection.sendall(b"GET /metrics HTTP/1.0\r\nX-Slow: ")
        while not closed(connection):
            assert time.monotonic() - begin < 10
            with contextlib.suppress(ConnectionError):
                connection.sendall(b"x")
    assert time.monotonic() - begin > 0.9
    assert answers(server)


def test_when_nobody_can_be_let_in_the_server_takes_a_break(server: HealthServer) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with socket.socket() as waiting:
        used = time.process_time()
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))  # less than are open already
        try:
            waiting.connect(("127.0.0.1", server.port))
            time.sleep(1.0)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert time.process_time() - used < 0.5, "it tried again and again"
    until(lambda: answers(server), 10, "an answer")


def test_a_reload_may_move_to_another_host_with_the_same_port(tmp_path: Path) -> None:
    def on(host: str) -> Config:
        return simple(tmp_path, health=HealthSection(host=host, port=port))

    port = free_port()
    daemon = Service(on("127.0.0.1"), MonitoringRole, Signals(), lambda: on("127.0.0.1"))
    try:
        daemon._move_server(on("0.0.0.0"))
        assert daemon.server is not None
        assert answers(daemon.server, "127.0.0.2")
        daemon.config = on("0.0.0.0")
        with pytest.raises(PortError):
            daemon._move_server(on("192.0.2.1"))  # an address that nobody has
        assert daemon.server is not None
        assert answers(daemon.server, "127.0.0.2"), "it is where it was"
        daemon._move_server(on("127.0.0.1"))
        assert answers(daemon.server)
        assert not answers(daemon.server, "127.0.0.2")
    finally:
        daemon.close()


# --- files ---------------------------------------------------------------------------------------


def test_what_the_folder_holds_is_not_for_everybody(tmp_path: Path) -> None:
    config, before = simple(tmp_path), os.umask(0)
    try:
        store = kept(config)
        monitor = store.restore(config, print).monitor
        store.append(Received(some(3)))
        store.health.unsaved = True
        assert store.save(monitor)
        store.append(Received(some(3, 3)))
        BrokerSession(config, Silent(), store.health, store.metrics)
        store.close()
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in store.folder.iterdir()}
    assert set(modes.values()) == {0o640}, modes
    names = {name.partition("-")[0] for name in modes}
    assert names == {
        "lock",
        "snapshot",
        "journal",
        "journal.json",
        "decoding.json",
        "subscriptions.json",
    }
    assert store.folder.stat().st_mode & 0o777 == 0o750


def connect(config: Config) -> BrokerSession:
    return BrokerSession(config, Silent(), Health(config.health), service_metrics())


def test_subscriptions_are_never_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    state = StateSection(folder=str(tmp_path))
    config = simple(tmp_path, state=state)
    other = simple(tmp_path, state=state, **CHANGES["topic"])
    connect(config)
    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left")))
        connect(other)
    assert "cannot be written" in caplog.text
    assert msgspec.json.decode((tmp_path / "subscriptions.json").read_bytes()) == ["r/+"]
    assert connect(other).link.previous_filters == ["r/+"]
    assert connect(other).link.previous_filters == ["other/+/x", "r/+"]


@pytest.mark.parametrize("data", [b"", b"{", b'"r/+"', b'["r/+\xff"]', b"[1]"])
def test_a_damaged_list_of_subscriptions_is_warned_about_and_written_anew(
    data: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = simple(tmp_path, state=StateSection(folder=str(tmp_path)))
    path = tmp_path / "subscriptions.json"
    path.write_bytes(data)
    assert connect(config).link.previous_filters == []
    assert caplog.text.count(f"expected {path} to hold the topics of earlier subscriptions") == 1
    assert msgspec.json.decode(path.read_bytes()) == ["r/+"]
