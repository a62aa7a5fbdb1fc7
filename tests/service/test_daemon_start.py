"""The daemon before its loop runs: kernels that take long to compile, and models to begin with."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import streamlvq
from streamlvq.config import Config, ModelSection, ReadingsSection
from streamlvq.connect import Message
from streamlvq.role import Health
from streamlvq.service.metrics import ServiceMetrics
from streamlvq.service.processor import (
    GIVE_UP_AFTER_READINGS,
    WARN_AFTER_READINGS,
    MessageProcessor,
)
from streamlvq.service.state_store import StateStore
from streamlvq.snapshot import Snapshot
from support.brokers import Mosquitto, mosquitto  # noqa: F401
from support.daemons import Client, Daemon, readings, settings, until

# Compiling as the real thing does it, in the main thread: here in C, where no handler can run, or
# in Python. Slow machines are rare where tests run, and a cache would make the real thing fast.
SLOW = {
    "in C": "import ctypes; ctypes.CDLL(None).sleep(60)",  # goes on after signals of other threads
    "in Python": "import time; end = time.monotonic() + 60\nwhile time.monotonic() < end: pass",
}
RUN = """
import sys
from streamlvq.monitor import Monitor
def compile(self):
    print("compiling", flush=True)
    exec({slow!r})
Monitor.compile = compile
from streamlvq import service
import streamlvq.service.systemd as systemd
systemd.StartupGuard.__init__.__defaults__ = (0.2,)
sys.exit(service.run({path!r}, test={test!r}))
"""


def slow_daemon(path: Path, slow: str, test: bool = False, **more: str) -> subprocess.Popen[str]:
    script = RUN.format(slow=SLOW[slow], path=str(path), test=test)
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **more},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "compiling\n"
    return process


@pytest.mark.parametrize("slow", SLOW)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("test", [False, True])
def test_who_is_asked_to_leave_while_compiling_leaves_at_once(
    slow: str, number: signal.Signals, test: bool, tmp_path: Path
) -> None:
    daemon = Daemon(tmp_path, settings(None, tmp_path))
    with slow_daemon(daemon.path, slow, test) as process:
        time.sleep(0.1)
        asked = time.monotonic()
        process.send_signal(number)
        _, errors = process.communicate(timeout=20)
    assert time.monotonic() - asked < 5
    assert process.returncode == 0, errors
    assert errors.count("left before the start was over: nothing was read") == 1
    assert "Traceback" not in errors
    assert not list((tmp_path / "state").glob("snapshot-*"))


def test_a_reload_while_compiling_does_not_end_it(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, settings(None, tmp_path))
    with slow_daemon(daemon.path, "in Python") as process:
        process.send_signal(signal.SIGHUP)
        time.sleep(0.5)
        assert process.poll() is None
        process.terminate()
        assert process.wait(20) == 0


def test_systemd_is_asked_for_patience_while_compiling(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, settings(None, tmp_path))
    name = "@" + daemon._socket.getsockname()[1:].decode()
    with slow_daemon(daemon.path, "in C", NOTIFY_SOCKET=name) as process:
        until(lambda: daemon.heard.count("EXTEND_TIMEOUT_USEC=60000000") >= 4, 10, "patience")
        assert "READY=1" not in daemon.heard
        assert any(text.startswith("STATUS=making the kernels ready, ") for text in daemon.heard)
        process.terminate()
        assert process.wait(20) == 0
    until(lambda: daemon.heard[-1] == "STOPPING=1", 10, "a goodbye")


def test_after_the_start_nobody_is_asked_any_more(tmp_path: Path) -> None:
    with Daemon(tmp_path, settings(None, tmp_path)) as daemon:
        assert daemon.heard.count("EXTEND_TIMEOUT_USEC=60000000") >= 1
        assert daemon.process is not None
        threads = Path(f"/proc/{daemon.process.pid}/task").glob("*/comm")
        assert "starting" not in [path.read_text().strip() for path in threads]
        assert daemon.stop() == 0
        assert "left readings=0" in daemon.log


# --- a model to begin with -----------------------------------------------------------------------


def trained(path: Path, *features: str) -> Path:
    model = streamlvq.GLVQ()
    for n in range(30):
        model.learn_one({name: float(n % 2) for name in features}, "ab"[n % 2])
    Snapshot.of(model).save(path)
    return path


def meeting(folder: Path, *features: str) -> MessageProcessor:
    """What a daemon makes of a model of these features; its readings have x0 to x3."""
    config = Config(
        model=ModelSection(type="GLVQ", start=str(trained(folder / "first.slvq", *features))),
        readings=ReadingsSection(
            topic="plant/{device}/readings", label="y", time="t", sequence="n"
        ),
        state=type(Config().state)(folder=str(folder / "state")),
    )
    health = Health(config.health)
    store = StateStore(config, health, ServiceMetrics(health, 10))
    processor = store.restore(config, print)
    store.close()
    return processor


def said(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """What is amiss with the model; that kernels are compiled meanwhile is another matter."""
    return [record for record in caplog.records if record.name.endswith(".processor")]


def test_the_model_to_begin_with_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "streamlvq"):
        processor = meeting(tmp_path, "x0", "x1", "x2", "x3")
    assert "begins with first.slvq (GLVQ, 30 samples, 4 features)" in caplog.text
    processor.process(readings(1))
    assert processor.feature_check is None  # all is well, as the first reading shows
    processor.process(readings(2 * GIVE_UP_AFTER_READINGS))
    assert said(caplog) == []


def test_readings_that_have_nothing_in_common_with_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    processor = meeting(tmp_path, *(f"sensor{i}" for i in range(10)))
    processor.process(readings(WARN_AFTER_READINGS - 1))
    assert said(caplog) == []
    processor.process(readings(2 * GIVE_UP_AFTER_READINGS))
    (record,) = said(caplog)
    assert record.levelname == "WARNING"
    assert "no feature in common with first.slvq (model.start)" in record.getMessage()
    assert "sensor7 and 2 more, the readings have x0, x1, x2, x3" in record.getMessage()


def test_features_of_it_that_never_come(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    processor = meeting(tmp_path, "x0", "x1", "humidity", "power")
    for n in range(0, GIVE_UP_AFTER_READINGS - 10, 10):
        processor.process(readings(10, first=n))
    assert said(caplog) == []
    processor.process(readings(100, first=GIVE_UP_AFTER_READINGS))
    (record,) = said(caplog)
    assert record.getMessage().startswith(
        "2 of the 4 features of first.slvq (model.start) have not"
    )
    assert record.getMessage().endswith("humidity, power")
    assert processor.feature_check is None


def test_features_may_come_one_by_one(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    processor = meeting(tmp_path, "x0", "x1")
    for n, name in enumerate(["x0"] * 100 + ["x1"]):
        processor.process([Message("plant/d/readings", f'{{"{name}": 1, "n": {n}}}'.encode(), 1.0)])
    assert processor.feature_check is None
    assert said(caplog) == []


def test_the_daemon_says_it_and_a_restart_needs_no_introduction(
    mosquitto: Mosquitto,  # noqa: F811
    tmp_path: Path,
) -> None:
    start = trained(tmp_path / "first.slvq", "pressure")
    config = settings(mosquitto, tmp_path, model={"type": "GLVQ", "start": str(start)})
    with Client(mosquitto, "plant/+/decision") as client, Daemon(tmp_path, config) as daemon:
        assert "begins with first.slvq (GLVQ, 30 samples, 1 features)" in daemon.log
        until(lambda: daemon.health()[0] == 200, 20, "healthy")
        client.send(readings(20))
        until(lambda: "no feature in common with first.slvq" in daemon.log, 20, "a warning")
        assert daemon.stop() == 0
        daemon.start()
        assert daemon.log.count("begins with") == 1
