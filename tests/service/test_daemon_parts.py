"""The parts of the daemon, each by itself."""

from __future__ import annotations

import io
import json
import logging
import math
import multiprocessing
import os
import random
import re
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from streamlvq.config import (
    Broker,
    Config,
    DecisionsSection,
    HealthSection,
    LabelsSection,
    LoggingSection,
    ModelSection,
    ReadingsSection,
    RejectorSection,
    StateSection,
    StatusSection,
    loads,
)
from streamlvq.connect import Message
from streamlvq.errors import StreamLVQError
from streamlvq.events import Event, Readings, Refused
from streamlvq.kernels.progress import progress
from streamlvq.monitor import Monitor, Outcome
from streamlvq.payloads import Decoder
from streamlvq.role import Health, RoleStatus, changed_keys
from streamlvq.service import logs
from streamlvq.service.daemon import junk_warnings, needs_reconnect, restart_keys, subscriptions
from streamlvq.service.health import HealthServer, PortError
from streamlvq.service.metrics import OTHER_DEVICES, STEP_SECONDS
from streamlvq.service.probe import Probe
from streamlvq.service.processor import BatchResult, MessageProcessor
from streamlvq.service.publisher import (
    MAX_ANNOUNCED_DEVICES,
    MAX_LABEL_WARNINGS,
    MAX_NAMED_FIELDS,
    DecisionFile,
    HomeAssistantDiscovery,
    Publisher,
)
from streamlvq.service.session import BrokerSession, StatusWriter, make_link
from streamlvq.service.state_store import FolderError, FolderLock, StateStore
from streamlvq.service.systemd import Notifier
from streamlvq_connectors.memory import MemoryLink
from support import ROOT
from support.service_doubles import (
    Silent,
    counted,
    decisions,
    exposition,
    parse,
    service_metrics,
)

JUNK_TEXT = """
readings: {label: state}
model: {type: GLVQ}
admission: {commissioning: 20}
"""

steady = settings(derandomize=True, max_examples=60, deadline=None, database=None)


# --- metrics --------------------------------------------------------------------------------------


def test_metrics_refuse_names_that_are_taken() -> None:
    measured = service_metrics()
    for name in ("readings_total", "models", "decisions_total"):
        with pytest.raises(ValueError, match="Duplicated"):
            measured.gauge(name, "Taken.", lambda: 1.0)


@steady
@given(st.dictionaries(st.text(st.characters(codec="utf-8")), st.integers(1, 100), max_size=20))
def test_devices_of_any_name_have_counters(counts: dict[str, int]) -> None:
    measured = service_metrics()
    for device, count in counts.items():
        measured.count_decisions(decisions([device] * count))
    text = exposition(measured.registry)
    if not _strange_lines(text):
        read = parse(text)
        name = "streamlvq_device_readings_total"
        assert {labels[0][1]: v for (n, labels), v in read.items() if n == name} == counts
    lines = text.split("\n")
    assert sum(line.startswith("streamlvq_device_readings_total{") for line in lines) == len(counts)


def _strange_lines(text: str) -> bool:
    """Whether `splitlines` sees more lines than Prometheus, for which only \\n ends one."""
    return len(text.splitlines()) != text.count("\n")


@steady
@given(st.lists(st.floats(0, 10)))
def test_histograms_count_like_a_loop(values: list[float]) -> None:
    measured = service_metrics()
    for value in values:
        measured.latency.observe(value)
    read, name = parse(exposition(measured.registry)), "streamlvq_step_seconds"
    for bound in STEP_SECONDS:
        assert read[f"{name}_bucket", (("le", str(float(bound))),)] == sum(
            v <= bound for v in values
        )
    assert read[f"{name}_bucket", (("le", "+Inf"),)] == read[f"{name}_count", ()] == len(values)
    assert read[f"{name}_sum", ()] == pytest.approx(math.fsum(values))


def test_nothing_says_when_counters_were_made() -> None:
    assert "_created" not in exposition(service_metrics().registry)


def test_the_meaning_of_every_metric_stands_by_itself(tmp_path: Path) -> None:
    measured = service_metrics()
    config = Config(state=StateSection(folder=str(tmp_path)))
    StateStore(config, Health(HealthSection()), measured).close()
    measured.watch_link(dict)
    texts = re.findall(r"^# HELP (\S+) (.*)$", exposition(measured.registry), flags=re.MULTILINE)
    assert len(texts) >= 30
    for name, text in texts:
        assert text.endswith("."), name
        assert len(text.split()) >= 4, f"{name}: {text}"
        if name.endswith("_seconds"):
            assert "econds" in text, f"{name}: {text}"
    assert len({text for _, text in texts}) == len(texts)


def test_the_status_is_as_described() -> None:
    """Also what the documentation shows."""
    page = ROOT / "docs" / "daemon.md"
    (shown,) = re.findall(r'\{"state": "online".*?\}', page.read_text(), flags=re.DOTALL)
    message = StatusWriter(Config()).message("online")
    assert message is not None
    assert list(json.loads(shown)) == list(json.loads(message.payload))
    for word in ("starting", "stopping", "not connected", "silence", "journal", "snapshot", "file"):
        assert f"`{word}`" in page.read_text()


def test_devices_beyond_the_limit_share_a_counter() -> None:
    measured = service_metrics(max_devices=3)
    measured.count_decisions(decisions([f"d{i % 10}" for i in range(100)], ["outlier"] * 100))
    read = parse(exposition(measured.registry))
    own = {dict(labels)["device"]: v for (n, labels), v in read.items() if "device_readings" in n}
    assert own == {"d0": 10, "d1": 10, "d2": 10, OTHER_DEVICES: 70}
    rejected = [v for (name, _), v in read.items() if name == "streamlvq_device_rejected_total"]
    assert sorted(rejected) == [10, 10, 10, 70]
    key = (("accepted", "false"), ("reason", "outlier"))
    assert read["streamlvq_decisions_total", key] == 100
    assert read["streamlvq_outliers_total", (("by", "novelty"),)] == 100
    assert read["process_resident_memory_bytes", ()] > 1e6
    assert read["process_cpu_seconds_total", ()] > 0


def test_metrics_can_be_read_while_they_change() -> None:
    measured = service_metrics(max_devices=10**6)
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            parse(exposition(measured.registry))

    thread = threading.Thread(target=read)
    thread.start()
    for i in range(300):
        measured.count_decisions(decisions([f"device {i} {k}" for k in range(5)]))
        measured.count_refused([Refused(0, f"reason {i}", "")])
    stop.set()
    thread.join()
    assert measured.readings_count == 1500


def test_a_log_published_twice_counts_once() -> None:
    """Duplicates are judged by the window of now; hardly one is accepted, and that says nothing."""
    measured = service_metrics()
    first = decisions(["p1"] * 50)
    again = replace(decisions(["p1"] * 50, ["ambiguous"] * 50), duplicates=[True] * 50)
    mixed = replace(decisions(["p1"] * 3, [None, "outlier", None]), duplicates=[False, True, False])
    for each in (first, again, mixed):
        measured.count_decisions(each)
    read = parse(exposition(measured.registry))
    key = (("accepted", "true"), ("reason", ""))
    assert {k: v for (name, k), v in read.items() if name == "streamlvq_decisions_total"} == {
        key: 52
    }
    device = (("device", "p1"),)
    assert read["streamlvq_device_readings_total", device] == 52
    assert read["streamlvq_device_rejected_total", device] == 0
    assert read["streamlvq_readings_total", ()] == 52


# --- health ---------------------------------------------------------------------------------------


def healthy() -> Health:
    return Health(
        HealthSection(silence_seconds=10, snapshot_age_seconds=20),
        started=100.0,
        starting=False,
        connected=True,
        link_error=None,
        saved=100.0,
        beat=100.0,
    )


def test_health_names_every_reason() -> None:
    assert healthy().problems(100.0) == []
    health = healthy()
    health.beat = 110.5
    assert health.problems(110.5) == ["silence: no reading for 10 s"]
    health.reading = 105.0
    assert health.problems(110.5) == []
    health.connected, health.link_error = False, "connection refused"
    health.journal, health.snapshot, health.file = "full", "read-only", "gone"
    assert health.problems(110.5) == [
        "journal: full",
        "file: gone",
        "not connected: connection refused",
        "snapshot: read-only",
    ]


def test_an_old_snapshot_matters_only_if_something_changed() -> None:
    health = healthy()
    health.reading = health.beat = 125.0
    assert health.problems(125.0) == []
    health.unsaved = True
    assert health.problems(125.0) == ["snapshot: the last one is 25 s old"]


def test_health_sees_a_loop_that_hangs_and_one_that_starts() -> None:
    health = healthy()
    health.reading = 140.0
    assert health.problems(140.0) == ["stuck: no loop iteration for 40 s"]
    health.starting = True
    assert health.problems(140.0) == ["starting: the state is being restored"]


def test_health_says_what_is_being_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    health = Health(HealthSection())
    monkeypatch.setattr(progress, "kernel", "learn_glvq")
    (problem,) = health.problems()
    assert problem.startswith("starting: compiling learn_glvq, ")
    health.starting = False  # compiling later, in mid-stream, is no reason to be unhealthy
    assert not any("compiling" in problem for problem in health.problems())


def fetch(url: str) -> tuple[int, str, bytes]:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers["Content-Type"], error.read()


@pytest.fixture
def server() -> Iterator[HealthServer]:
    health = healthy()
    health.limits = HealthSection(silence_seconds=1e6)
    health.beat = health.started = time.monotonic()
    running = HealthServer("127.0.0.1", 0, service_metrics().registry, health)
    yield running
    running.close()


def test_http_answers(server: HealthServer) -> None:
    url = f"http://127.0.0.1:{server.port}"
    status, kind, content = fetch(f"{url}/metrics")
    assert (status, kind) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert parse(content.decode())["streamlvq_readings_total", ()] == 0
    assert fetch(f"{url}/healthz")[::2] == (200, b'{"healthy":true,"reasons":[]}')
    server.health.journal = "no space"
    status, kind, content = fetch(f"{url}/healthz?verbose=1")
    assert (status, kind) == (503, "application/json")
    assert json.loads(content) == {"healthy": False, "reasons": ["journal: no space"]}
    assert fetch(f"{url}/other")[0] == 404


def test_http_survives_whoever_says_nonsense_or_nothing(server: HealthServer) -> None:
    with socket.create_connection(("127.0.0.1", server.port)) as silent:
        with socket.create_connection(("127.0.0.1", server.port)) as rude:
            rude.sendall(b"\x16\x03\x01 GET / nonsense\r\n\r\n")
            rude.recv(1000)
        assert fetch(f"http://127.0.0.1:{server.port}/healthz")[0] == 200
        silent.sendall(b"HEAD /metrics HTTP/1.0\r\n\r\n")
        assert silent.recv(100).startswith(b"HTTP/1.0 200")


def test_a_port_that_is_taken_is_named(server: HealthServer) -> None:
    with pytest.raises(PortError, match=rf"health.port\), got 127.0.0.1:{server.port}"):
        HealthServer("127.0.0.1", server.port, CollectorRegistry(), healthy())


# --- systemd --------------------------------------------------------------------------------------


@pytest.mark.parametrize("abstract", [False, True])
def test_notifier_speaks_to_a_real_socket(tmp_path: Path, abstract: bool) -> None:
    name = f"@streamlvq-{os.getpid()}" if abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind("\0" + name[1:] if abstract else name)
        listener.settimeout(1)
        notifier = Notifier({"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "2000000"})
        notifier.status("one\ntwo")
        notifier.status("one\ntwo")
        notifier.ready()
        for now in (0.0, 0.5, 0.99, 1.0, 1.5, 2.1):
            notifier.watchdog(now)
        notifier.reloading(5_000_000)
        notifier.extend_timeout(1.5)
        notifier.stopping()
        heard = [listener.recv(200).decode() for _ in range(8)]
    assert heard == ["STATUS=one two", "READY=1", "WATCHDOG=1", "WATCHDOG=1", "WATCHDOG=1",
                     "RELOADING=1\nMONOTONIC_USEC=5000", "EXTEND_TIMEOUT_USEC=1500000",
                     "STOPPING=1"]  # fmt: skip


def test_notifier_without_systemd_and_with_one_that_is_gone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    silent = Notifier({})
    silent.ready()
    silent.watchdog(0.0)
    assert not silent.active
    assert caplog.text == ""
    Notifier({"NOTIFY_SOCKET": "/nowhere/at/all"}).ready()
    assert "could not be told 'READY=1'" in caplog.text


def test_the_watchdog_may_be_meant_for_another_process() -> None:
    other = {"WATCHDOG_USEC": "1000000", "WATCHDOG_PID": str(os.getpid() + 1)}
    assert Notifier(other).interval is None
    assert Notifier(other | {"WATCHDOG_PID": str(os.getpid())}).interval == 0.5
    assert Notifier({"WATCHDOG_USEC": "soon"}).interval is None


# --- logging --------------------------------------------------------------------------------------


@pytest.fixture
def own_logging() -> Iterator[None]:
    names = ("streamlvq", "streamlvq_connectors")
    before = {n: (logging.getLogger(n).handlers[:], logging.getLogger(n).level) for n in names}
    yield
    for name, (handlers, level) in before.items():
        logger = logging.getLogger(name)
        logger.handlers[:], logger.level, logger.propagate = handlers, level, True


@pytest.mark.usefixtures("own_logging")
def test_logs_as_json_lines() -> None:
    stream = io.StringIO()
    logs.set_up(LoggingSection(format="json"), stream)
    logger = logging.getLogger("streamlvq.somewhere")
    logger.debug("not shown")
    logger.info("hello\n%s", "world", extra={"position": 7, "odd": {1, 2}})
    try:
        raise RuntimeError("broken")
    except RuntimeError:
        logger.exception("failed")
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert first["message"] == "hello\nworld"
    assert (first["level"], first["logger"], first["position"]) == ("info", logger.name, 7)
    assert "RuntimeError: broken" in second["exception"]


def listening(sparing: logs.RateLimitFilter) -> io.StringIO:
    stream = io.StringIO()
    handler = logs.set_up(LoggingSection(level="warning"), stream)
    handler.filters[:] = [sparing]
    return stream


def said(stream: io.StringIO) -> list[str]:
    return [line.split(" ", 2)[2] for line in stream.getvalue().splitlines()]


@pytest.mark.usefixtures("own_logging")
def test_logs_for_people_and_what_repeats() -> None:
    stream = listening(logs.RateLimitFilter(burst=2, seconds=0.2))
    logger = logging.getLogger("streamlvq_connectors.x")
    logger.info("not shown")
    for i in range(10):
        logger.warning("refused %d", i)
    logger.warning("something else")
    logs.settle(everything=False)  # too early
    time.sleep(0.25)
    logger.warning("refused %d", 10)
    assert said(stream) == ["warning refused 0", "warning refused 1", "warning something else",
                            "warning refused 10 unsaid=8"]  # fmt: skip


@pytest.mark.usefixtures("own_logging")
def test_what_was_left_out_is_said_when_time_is_up_and_at_the_end() -> None:
    stream = listening(logs.RateLimitFilter(burst=1, seconds=0.2))
    logger = logging.getLogger("streamlvq.x")
    for i in range(4):
        logger.warning("refused %d", i, extra={"device": i})
    time.sleep(0.25)
    for _ in range(2):
        logs.settle(everything=False)
    logger.warning("100 %")  # nothing to fill in
    logger.warning("100 %")
    logs.set_up(LoggingSection(), io.StringIO())  # the end of this one
    assert said(stream) == ["warning refused 0 device=0",
                            "warning 3 more like this were left out: refused 3 device=3",
                            "warning 100 %",
                            "warning 1 more like this were left out: 100 %"]  # fmt: skip


@pytest.mark.usefixtures("own_logging")
def test_the_number_of_kinds_is_limited() -> None:
    stream = listening(logs.RateLimitFilter(burst=1, seconds=60, most=3))
    logger = logging.getLogger("streamlvq.x")
    for i in range(100):
        logger.warning("refused %d", i, extra={"alike": i})
    logger.warning("another line is another matter")
    logs.settle()
    assert len(said(stream)) == 3 + 1 + 1 + 1
    assert said(stream)[-1] == "warning 96 more like this were left out: refused 99"


@pytest.mark.usefixtures("own_logging")
def test_an_old_complaint_does_not_hide_a_new_one() -> None:
    stream = io.StringIO()
    logs.set_up(LoggingSection(), stream)
    publisher = Publisher(Config(), service_metrics())
    messages = [Message("sensors/p/readings", b"", 1.0)]
    texts = [("value", f"x{i}: expected a finite number, got {i}", "finite") for i in range(50)]
    texts += [("value", "x: expected a smaller number, got 1e300", "smaller")]
    texts += [("device", "no usable name", "name")]
    for why in texts:
        publisher.messages(BatchResult(refused=[Refused(0, *why)]), messages)
    logs.settle()
    lines = said(stream)
    assert len(lines) == 5 + 1 + 1 + 1
    assert sum("expected a smaller number" in line for line in lines) == 1
    assert sum("no usable name" in line for line in lines) == 1
    assert "45 more like this were left out: refused a message on sensors/p" in lines[-1]


@pytest.mark.usefixtures("own_logging")
def test_labels_that_nothing_waits_for_do_not_flood_the_log() -> None:
    stream = io.StringIO()
    logs.set_up(LoggingSection(), stream).filters.clear()
    measured = service_metrics()
    publisher = Publisher(Config(), measured)
    strangers = [Refused(0, "label", f"no reading {n} waits for it") for n in range(1000)]
    sent = publisher.messages(BatchResult(refused=strangers), [Message("l/p", b"{}", 1.0)])
    publisher.messages(BatchResult(refused=strangers[:1]), [Message("l/p", b"{}", 1.0)])
    assert len(said(stream)) == MAX_LABEL_WARNINGS + 1
    assert "only counted (streamlvq_refused_total), dead-lettered" in stream.getvalue()
    assert len(sent) == 1000
    assert counted(measured.registry, "refused_total", reason="label") == 1001
    logs.set_up(LoggingSection(level="debug"), stream).filters.clear()
    publisher.messages(BatchResult(refused=strangers[:1]), [Message("l/p", b"{}", 1.0)])
    assert said(stream)[-1].startswith("debug   refused a message on l/p (label): no reading 0")


def test_fields_that_are_left_out_are_counted_and_named_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    config, metrics = Config(decisions=DecisionsSection(topic=None)), service_metrics()
    publisher = Publisher(config, metrics)
    processor = MessageProcessor(Decoder(config), Monitor(config))

    def send(**fields: Any) -> None:
        message = Message("sensors/a/readings", msgspec.json.encode({"power": 41} | fields), 1.7e9)
        publisher.messages(processor.process([message]), [message])

    for _ in range(5):
        send(contact=True, temperature="21.1", firmware="1.2.3", note="none")
    assert counted(metrics.registry, "dropped_fields_total", reason="text") == 5
    assert caplog.text.count("firmware ('1.2.3')") == 1
    assert "temperature" not in caplog.text
    for k in range(2 * MAX_NAMED_FIELDS):  # however many names somebody invents
        send(**{f"f{k}": "x" * 1000})
    total = counted(metrics.registry, "dropped_fields_total", reason="text")
    assert total == 5 + 2 * MAX_NAMED_FIELDS
    assert len(caplog.records) == MAX_NAMED_FIELDS
    assert caplog.records[-1].getMessage().endswith("; further ones are only counted")
    assert len(caplog.text) < 300 * MAX_NAMED_FIELDS


def test_junk_is_counted() -> None:
    config, metrics = loads(JUNK_TEXT), service_metrics()
    publisher = Publisher(config, metrics)
    processor = MessageProcessor(Decoder(config), Monitor(config))

    def send(**fields: Any) -> None:
        message = Message("sensors/a/readings", msgspec.json.encode(fields), 1.7e9)
        publisher.messages(processor.process([message]), [message])

    for k in range(30):
        send(x=k % 2, y=k % 3, state="ab"[k % 2])
    assert junk_warnings(*processor.monitor.newcomers()) == []
    send(x=1, y=1, state="a", **{f"junk{k}": k for k in range(500)})
    for k in range(30):
        send(x=1, y=1, state=f"junk{k}")
    assert counted(metrics.registry, "dropped_fields_total", reason="probation") == 500
    assert counted(metrics.registry, "held_total") == 30
    assert counted(metrics.registry, "learnt_total") == 31
    assert counted(metrics.registry, "refused_total") == 0
    [warning] = junk_warnings(*processor.monitor.newcomers())
    assert warning.startswith("probation: 500 features and 30 classes came too rarely to be learnt")


def test_warnings_stand_beside_the_reasons_and_may_be_reasons(server: HealthServer) -> None:
    url = f"http://127.0.0.1:{server.port}/healthz"
    server.health.warnings = ("probation: junk",)
    status, _, content = fetch(url)
    assert status == 200
    assert json.loads(content) == {"healthy": True, "reasons": [], "warnings": ["probation: junk"]}
    server.health.limits = HealthSection(silence_seconds=1e6, warnings_fail=True)
    status, _, content = fetch(url)
    assert (status, json.loads(content)["reasons"]) == (503, ["probation: junk"])


def test_what_is_watched_stands_in_the_metrics() -> None:
    metrics = service_metrics()
    assert "streamlvq_sensor_problems" in exposition(metrics.registry)
    health = metrics.health
    health.sensors, health.contradicted, health.agreement = {"still": 2, "missing": 0}, 1, 0.5
    assert counted(metrics.registry, "sensor_problems", kind="still") == 2
    assert counted(metrics.registry, "contradicted_models") == 1
    assert counted(metrics.registry, "label_agreement") == 0.5


def test_a_number_as_text_is_learnt_like_the_number() -> None:
    config = Config(readings=ReadingsSection(label="state"), model=ModelSection(type="GLVQ"))
    made = []
    for text in (False, True):
        processor = MessageProcessor(Decoder(config), Monitor(config))
        items = [{"x": k % 7 + 0.5, "on": k % 2, "state": "ab"[k % 2]} for k in range(50)]
        if text:
            items = [item | {"x": str(item["x"]), "on": bool(item["on"])} for item in items]
        batch = [Message("sensors/a/readings", msgspec.json.encode(item), 1.7e9) for item in items]
        processor.process(batch)
        model = processor.monitor.local("")
        assert model.features == ("on", "x")
        made.append(model.prototypes())
    assert made[0] == made[1]


def test_the_size_of_what_was_cut_is_not_made_up() -> None:
    config = Config(broker=Broker(max_payload_bytes=100))
    for size, words in ((101, "more than 100 bytes"), (150, "150")):
        message = Message("sensors/p/readings", b"x" * size, 1.0)
        result = MessageProcessor(Decoder(config), Monitor(config)).process([message])
        (letter,) = Publisher(config, service_metrics()).messages(result, [message])
        assert json.loads(letter.payload)["text"] == f"expected at most 100 bytes, got {words}"


# --- folder ---------------------------------------------------------------------------------------


def test_a_folder_has_one_user_and_the_dead_hold_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    script = (
        "import sys, time; from pathlib import Path;"
        "from streamlvq.service.state_store import FolderLock;"
        f"FolderLock(Path({str(folder)!r})); print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(FolderError, match=f"held by process {holder.pid}; stop it"):
            FolderLock(folder)
        holder.kill()
    FolderLock(folder).release()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FolderError, match="expected a state folder that can be written, got"):
        FolderLock(tmp_path / "file" / "state")


def test_the_decision_file_can_be_moved_away(tmp_path: Path) -> None:
    path = tmp_path / "decisions.jsonl"
    file = DecisionFile(path)
    assert file.write([b"1", b"2"]) == 0
    path.rename(tmp_path / "old")
    assert file.write([b"3"]) == 0
    file.close_if_moved()
    assert file.write([b"4"]) == 0
    file.close_if_moved()
    assert file.write([b"5"]) == 0
    file.close()
    assert ((tmp_path / "old").read_text(), path.read_text()) == ("1\n2\n3\n", "4\n5\n")


def test_the_decision_file_begins_a_new_line_after_a_crash(tmp_path: Path) -> None:
    path = tmp_path / "decisions.jsonl"
    path.write_bytes(b'{"half": ')
    assert DecisionFile(path).write([b"{}"]) == 0
    assert path.read_bytes() == b'{"half": \n{}\n'


def test_a_decision_file_that_cannot_be_written_is_counted(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    file = DecisionFile(tmp_path / "file" / "decisions.jsonl")
    assert file.write([b"1", b"2"]) == 2
    assert "Not a directory" in (file.error or "") or "File exists" in (file.error or "")
    assert file.write([]) == 0


def test_a_decision_file_that_cannot_be_written_is_noticed_at_the_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "folder"
    folder.write_text("")
    config = Config(decisions=DecisionsSection(file=str(folder / "decisions.jsonl")))
    publisher = Publisher(config, service_metrics())
    assert str(folder / "decisions.jsonl") in (publisher.file_error or "")
    assert "(decisions.file)" in caplog.text
    folder.unlink()  # somebody mends it
    publisher.messages(BatchResult([decisions(["a"])]), [Message("sensors/a/readings", b"", 1.0)])
    assert publisher.file_error is None
    assert len((folder / "decisions.jsonl").read_bytes().splitlines()) == 1
    assert Publisher(config, service_metrics()).file_error is None


# --- looking over its shoulder -------------------------------------------------------------------


def test_what_is_not_known_is_said_in_words(tmp_path: Path) -> None:
    config = Config(
        broker=Broker(url="memory://words"),
        state=StateSection(folder=str(tmp_path)),
        readings=ReadingsSection(topic="r/{device}", label="y", time=None, sequence=None),
    )
    payloads = [b'{"x": 1}', b'{"x": 2, "y": "hot"}']
    lines = list(Probe(config).lines([Message("r/oven", each, 1.5) for each in payloads]))
    assert [line.partition(": ")[2] for line in lines] == [
        "x=1 -> nothing learnt yet",
        "x=2 label='hot' -> nothing learnt yet",
    ]
    assert not any("None" in line for line in lines)


# --- messages about the daemon --------------------------------------------------------------------


def test_status_and_will() -> None:
    status = StatusWriter(Config())
    will, online = (
        status.will(),
        status.message("online", RoleStatus(devices=3), snapshot_age=1.23456),
    )
    assert will is not None
    assert online is not None
    assert will.retain
    assert online.retain
    assert will.topic == online.topic == "streamlvq/streamlvq/status"
    assert json.loads(will.payload)["state"] == "offline"
    said = json.loads(online.payload)
    assert (said["state"], said["devices"], said["snapshot_age"]) == ("online", 3, 1.2)
    assert abs(said["since"] - time.time()) < 60
    assert StatusWriter(Config(status=StatusSection(topic=None))).will() is None


def test_home_assistant_finds_devices() -> None:
    config = Config(
        status=StatusSection(home_assistant="ha"),
        decisions=DecisionsSection(topic="plant/{device}/decision"),
    )
    discovery = HomeAssistantDiscovery(config)
    label, certainty = discovery.announce(["pump 7/a"])
    assert re.fullmatch(r"ha/sensor/streamlvq/pump_7_a_[0-9a-f]+_label/config", label.topic)
    assert label.retain
    assert certainty.retain
    said = json.loads(label.payload)
    assert said["state_topic"] == "plant/pump%207%2Fa/decision"
    assert said["availability_topic"] == "streamlvq/streamlvq/status"
    assert said["unique_id"] != json.loads(certainty.payload)["unique_id"]
    assert said["device"] == json.loads(certainty.payload)["device"]
    assert list(discovery.all_devices()) == [label, certainty]
    most = MAX_ANNOUNCED_DEVICES
    assert len(list(discovery.announce(f"d{i}" for i in range(2 * most)))) == 2 * (most - 1)


def test_home_assistant_finds_devices_of_the_same_name_at_two_sites() -> None:
    config = Config(
        readings=ReadingsSection(topic="plant/{site}/{device}/readings"),
        status=StatusSection(home_assistant="ha"),
        decisions=DecisionsSection(topic="plant/{site}/{device}/decision"),
    )
    found = list(HomeAssistantDiscovery(config).announce(["leeds/pump 1", "york/pump 1"]))
    said = [json.loads(message.payload) for message in found]
    assert [each["state_topic"] for each in said[::2]] == [
        "plant/leeds/pump%201/decision",
        "plant/york/pump%201/decision",
    ]
    assert len({message.topic for message in found}) == 4
    assert all(message.topic.count("/") == 4 for message in found)
    assert len({each["unique_id"] for each in said}) == 4


@pytest.mark.parametrize("topic", [None, "plant/{site}/{device}/decision"])
def test_home_assistant_needs_a_topic_per_device(topic: str | None) -> None:
    status = StatusSection(home_assistant="ha")
    discovery = HomeAssistantDiscovery(
        Config(status=status, decisions=DecisionsSection(topic=topic))
    )
    assert not discovery.active
    assert list(discovery.announce(["a"])) == []


def test_publisher_sends_writes_and_counts(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    config = Config(decisions=DecisionsSection(topic="d/{device}", file=str(path)))
    measured = service_metrics()
    publisher = Publisher(config, measured)
    messages = [Message(f"sensors/p{i}/readings", b"\xff", 1.0) for i in range(3)]
    result = BatchResult([decisions(["p0", "p1"])], [Refused(2, "payload", "bad")], 1, 1, 4)
    sent = publisher.messages(result, messages)
    assert [m.topic for m in sent] == ["d/p0", "d/p1", "streamlvq/streamlvq/dead"]
    assert path.read_bytes() == sent[0].payload + b"\n" + sent[1].payload + b"\n"
    assert json.loads(sent[2].payload)["reason"] == "payload"
    read = parse(exposition(measured.registry))
    assert read["streamlvq_refused_total", (("reason", "payload"),)] == 1
    assert read["streamlvq_skipped_total", ()] == 4
    quiet = msgspec.structs.replace(config, decisions=DecisionsSection(topic=None, file=str(path)))
    assert len(Publisher(quiet, service_metrics()).messages(result, messages)) == 1
    assert len(path.read_bytes().splitlines()) == 4


def test_subscriptions_and_links() -> None:
    config = Config(
        readings=ReadingsSection(topic="a/{device}", qos=0),
        labels=LabelsSection(topic="b/{device}"),
    )
    assert subscriptions(config) == [("a/+", 0, False), ("b/+", 1, False)]
    wrong = msgspec.structs.replace(
        config, broker=msgspec.structs.replace(config.broker, url="carrier-pigeon://x")
    )
    with pytest.raises(StreamLVQError, match=r"broker\.url: expected .*mqtt://"):
        make_link(wrong, subscriptions(wrong))


class Telling(MemoryLink):
    """Also says how often its broker still knew it."""

    def _connect(self) -> None:
        known, before = self.broker.client_id in self._far.sessions, self._counters["connects"]
        super()._connect()
        if known and self._counters["connects"] > before:
            self._counters["resumed"] = self._counters.get("resumed", 0) + 1

    @property
    def counters(self) -> dict[str, int]:
        return {"resumed": 0, **super().counters}


class Tended:
    """A connection to a broker inside this process, and how the daemon looks after it."""

    def __init__(self, folder: Path, **broker: Any) -> None:
        config = Config(
            broker=Broker(url=f"memory://{folder.name}", **broker),
            state=StateSection(folder=str(folder)),
        )
        self.far = MemoryLink.broker_named(folder.name)
        measured = service_metrics()
        role = Silent(publisher=Publisher(config, measured))
        self.connection = BrokerSession(config, role, Health(HealthSection()), measured)

    def look(self) -> None:
        self.connection.link.read(0.0)
        self.connection.tend(0.0)

    def reconnect(self, *, forget: bool) -> None:
        self.far.online = False
        if forget:
            self.far.sessions.clear()
        self.far.online = True
        self.look()


@pytest.fixture
def telling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamlvq.connect.links", lambda: {"memory": Telling})


LOST = "the broker did not keep our session: readings that came while we were away may be lost"


@pytest.mark.usefixtures("telling")
def test_a_broker_that_forgets_us_is_noticed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tended = Tended(tmp_path)
    tended.look()  # there was no session before: nothing to lose
    tended.look()
    tended.reconnect(forget=False)
    assert LOST not in caplog.text
    tended.reconnect(forget=True)
    assert caplog.text.count(LOST) == 1
    assert caplog.records[-1].levelname == "WARNING"
    tended.look()
    tended.reconnect(forget=False)
    assert caplog.text.count(LOST) == 1
    tended.connection.replacement(tended.connection.config)()
    tended.look()
    assert caplog.text.count(LOST) == 1, "another link, the same session"


@pytest.mark.usefixtures("telling")
def test_a_broker_that_forgets_us_while_we_are_away_is_noticed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "journal-00000000000000000000").write_bytes(b"")
    Tended(tmp_path).look()
    assert caplog.text.count(LOST) == 1


@pytest.mark.usefixtures("telling")
def test_who_wants_no_session_misses_none(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tended = Tended(tmp_path, session_expiry_seconds=0)
    tended.look()
    tended.reconnect(forget=True)
    assert LOST not in caplog.text


def test_a_link_that_cannot_tell_is_believed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streamlvq.connect.links", lambda: {"memory": Mute})
    tended = Tended(tmp_path)
    tended.look()
    tended.reconnect(forget=True)
    assert LOST not in caplog.text


class Mute(MemoryLink):
    @property
    def counters(self) -> dict[str, int]:
        return {name: count for name, count in super().counters.items() if name != "resumed"}


# --- reload ---------------------------------------------------------------------------------------


def test_what_may_change_while_running() -> None:
    old = Config(rejector=RejectorSection(target_rate=0.1))
    new = msgspec.structs.replace(
        old,
        rejector=RejectorSection(target_rate=0.2),
        health=HealthSection(silence_seconds=1.0),
        decisions=DecisionsSection(topic="x/{device}"),
    )
    assert changed_keys(old, new) == [
        "rejector.target_rate",
        "decisions.topic",
        "health.silence_seconds",
    ]
    assert restart_keys(old, new) == []
    assert not needs_reconnect(old, new)
    moved = msgspec.structs.replace(old, readings=ReadingsSection(topic="x/{device}"))
    assert needs_reconnect(old, moved)
    assert changed_keys(old, old) == []


def test_what_needs_a_restart_is_named() -> None:
    old = Config()
    assert restart_keys(old, Config(model=ModelSection(type="GLVQ", per="device"))) == [
        "model.type",
        "model.per",
    ]
    assert "rejector" in restart_keys(old, Config(rejector=RejectorSection(threshold=0.5)))
    renamed = Config(broker=msgspec.structs.replace(old.broker, client_id="b"))
    assert restart_keys(old, renamed) == ["broker.client_id"]


# --- from messages to their result ----------------------------------------------------------------


class Allergic(Monitor):
    """A monitor with a defect that it does not notice: it raises."""

    def step(self, event: Event) -> Outcome:
        if isinstance(event, Readings) and (event.rows == 13.0).any():
            raise ZeroDivisionError("thirteen")
        if not isinstance(event, Readings) and event.label == "bad":
            raise ZeroDivisionError("a bad label")
        return super().step(event)


CONFIG = Config(
    model=ModelSection(type="GLVQ"),
    readings=ReadingsSection(topic="r/{device}", label="y", sequence="n"),
    labels=LabelsSection(topic="l/{device}", label="y", sequence="n"),
)


def reading(n: int, x: float, y: str | None = None) -> Message:
    return Message("r/d", json.dumps({"x": x, "y": y, "n": n}).encode(), 1.0)


def test_an_event_that_brings_out_a_defect_is_refused_and_the_others_are_not() -> None:
    label = Message("l/d", b'{"y": "a", "n": 1}', 1.0)
    batch = [reading(1, 0.5), label, reading(2, 13.0, "a"), reading(3, 0.5, "b")]
    processor = MessageProcessor(Decoder(CONFIG), Allergic(CONFIG))
    result = processor.process(batch)
    assert [(r.source, r.reason) for r in result.refused] == [(2, "failure"), (3, "failure")]
    assert "please report it: ZeroDivisionError: thirteen" in result.refused[0].text
    assert result.learnt == 1
    again = processor.process([reading(4, 0.5, "b")])
    assert (again.refused, again.learnt) == ([], 1)
    good = MessageProcessor(Decoder(CONFIG), Monitor(CONFIG))
    good.process([*batch[:2], reading(4, 0.5, "b")])
    assert processor.monitor.checkpoint() == good.monitor.checkpoint()


def test_a_label_that_brings_out_a_defect_is_refused() -> None:
    processor = MessageProcessor(Decoder(CONFIG), Allergic(CONFIG))
    label = Message("l/d", b'{"y": "bad", "n": 1}', 1.0)
    result = processor.process([reading(1, 0.5), label, reading(2, 0.5, "a")])
    assert [(r.source, r.reason) for r in result.refused] == [(1, "failure")]
    assert "please report it: ZeroDivisionError: a bad label" in result.refused[0].text
    assert result.learnt == 1


@steady
@given(
    st.lists(
        st.tuples(
            st.sampled_from("abcde"),  # what is missing or wrong
            st.sampled_from("123"),  # the device
            st.sampled_from(["ok", "hot", None]),
        ),
        max_size=40,
    ),
    st.randoms(use_true_random=False),
)
def test_how_messages_are_cut_into_batches_does_not_matter(
    kinds: list[tuple[str, str, str | None]], rng: random.Random
) -> None:
    """The journal is replayed in other batches than the broker delivers again."""
    batch = [_odd_message(n, *kind) for n, kind in enumerate(kinds)]
    whole, parts = (
        MessageProcessor(Decoder(CONFIG), Monitor(CONFIG)),
        MessageProcessor(Decoder(CONFIG), Monitor(CONFIG)),
    )
    expected, refused, said = whole.process(batch), 0, []
    while batch:
        n = rng.randint(1, len(batch))
        result = parts.process(batch[:n])
        refused += len(result.refused)
        said += [r for d in result.decisions for r in d.records()]
        batch = batch[n:]
    assert said == [r for d in expected.decisions for r in d.records()]
    assert refused == len(expected.refused)
    assert parts.monitor.checkpoint() == whole.monitor.checkpoint()


def _odd_message(n: int, kind: str, device: str, label: str | None) -> Message:
    reading: dict[str, object] = {"x": n / 3, "z": n % 5, "n": n, "y": label}
    if kind == "a":
        reading["x"] = None
    elif kind == "b":
        del reading["z"]
    elif kind == "c":
        return Message(f"l/{device}", json.dumps({"y": label or "ok", "n": n - 1}).encode(), 1.0)
    elif kind == "d":
        reading["x"] = "broken"
    return Message(f"r/{device}", json.dumps(reading).encode(), 1.0)


def test_spawned_processes_find_the_daemon_without_loading_it() -> None:
    """`streamlvq.service` is imported by the command line; only running it may load the rest."""
    script = "import streamlvq.service, sys; print('numba' in sys.modules, 'paho' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert answer.stdout == b"False False\n"
    assert multiprocessing.active_children() == []
