"""The daemon before its loop runs: kernels that take long to compile, and models to begin with."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from daemons import Daemon, settings, until

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
from streamlvq import daemon
import streamlvq.daemon.starting as starting
starting.Starting.__init__.__defaults__ = (0.2,)
sys.exit(daemon.run({path!r}, test={test!r}))
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
