"""The daemon as a process of its own, for tests and benchmarks, and clients to talk to it through.

`Daemon(folder, config)` writes the configuration and starts `python -m streamlvq run` on demand; a
socket of its own hears what the daemon tells systemd, so `start` returns when it is ready.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Self

import numpy as np
import paho.mqtt.client as mqtt
import yaml

from streamlvq.config import Config, load
from streamlvq.connect import Message
from streamlvq.monitor import Monitor
from streamlvq.payloads import Decoder
from streamlvq.service.processor import MessageProcessor
from streamlvq.snapshot import SnapshotFiles
from support.brokers import BrokerProcess

READINGS = "plant/{device}/readings"
LABELS = "plant/{device}/labels"
DECISIONS = "plant/{device}/decision"
CLASSES = ("ok", "hot", "worn")


def until(condition: Callable[[], Any], seconds: float = 20.0, what: str = "") -> Any:
    """Wait until something holds, and fail if it does not."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, f"not within {seconds} s: {what or condition}"
        time.sleep(0.01)
    return found


def settings(broker: BrokerProcess | None, folder: Path, /, **sections: Any) -> dict[str, Any]:
    """A configuration with short times; sections are merged into it."""
    config: dict[str, Any] = {
        "broker": {
            "url": broker.url if broker else "mqtt://127.0.0.1:1",
            "client_id": "daemon",
            "protocol": broker.protocols[0] if broker else "5",
            "reconnect_max_seconds": 0.5,
        },
        "readings": {"topic": READINGS, "label": "y", "time": "t", "sequence": "n"},
        "model": {"type": "GLVQ"},
        "integrator": {"window": 3},
        "rejector": {"target_rate": 0.1},
        "decisions": {"topic": DECISIONS},
        "state": {"folder": str(folder / "state"), "snapshot_seconds": 0.5},
        "health": {"port": 0, "silence_seconds": 60},
    }
    for name, section in sections.items():
        config[name] = {**config.get(name, {}), **section} if section is not None else None
    return config


class Daemon:
    """A daemon that can be started, killed and asked.

    Parameters
    ----------
    folder
        For configuration, state and log.
    config
        What the YAML file says.
    environment
        More environment variables.
    """

    def __init__(self, folder: Path, config: dict[str, Any], **environment: str) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "monitor.yaml"
        self.heard: list[str] = []
        self.process: subprocess.Popen[bytes] | None = None
        self._environment = environment
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(f"\0streamlvq-{os.getpid()}-{id(self)}")
        threading.Thread(target=self._listen, daemon=True).start()
        self.write(config)

    def write(self, config: dict[str, Any] | str) -> None:
        """Change the configuration file."""
        text = config if isinstance(config, str) else yaml.safe_dump(config)
        self.path.write_text(text)
        if not isinstance(config, str):
            self.config = config

    @property
    def log(self) -> str:
        path = self.folder / "daemon.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def launch(self) -> Self:
        """Start it without waiting for anything."""
        self.heard.clear()
        environment = {
            **os.environ,
            "NOTIFY_SOCKET": "@" + self._socket.getsockname()[1:].decode(),
            **self._environment,
        }
        with (self.folder / "daemon.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "streamlvq", "run", str(self.path)],
                stdout=log,
                stderr=log,
                env=environment,
            )
        return self

    def start(self, seconds: float = 120.0) -> Self:
        """Start it and wait until it is ready; kernels may have to be compiled first."""
        self.launch()
        until(lambda: "READY=1" in self.heard or self.ended(), seconds, "ready")
        assert not self.ended(), self.log
        return self

    def ended(self) -> bool:
        return self.process is not None and self.process.poll() is not None

    def wait(self, seconds: float = 30.0) -> int:
        """Its status, when it has ended."""
        assert self.process is not None
        status = self.process.wait(seconds)
        self.process = None
        return status

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.wait()

    def stop(self) -> int:
        """Ask it to leave; its status."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.wait()

    def reload(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGHUP)

    def __enter__(self) -> Self:
        return self if self.process is not None else self.start()

    def __exit__(self, *_: object) -> None:
        if self.process is not None:
            self.kill()
        self._socket.close()

    def health(self) -> tuple[int, list[str]]:
        """The status of `/healthz` and its reasons; 0 if nobody answers."""
        try:
            with urllib.request.urlopen(self._url("healthz"), timeout=5) as answer:
                return answer.status, json.load(answer)["reasons"]
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)["reasons"]
        except (OSError, IndexError):  # it does not listen yet
            return 0, []

    def metrics(self) -> dict[str, float]:
        """Values by what stands before them."""
        with urllib.request.urlopen(self._url("metrics"), timeout=5) as answer:
            lines = answer.read().decode().splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        return {name: float(value) for name, value in pairs}

    def snapshot(self) -> bytes:
        """The newest snapshot."""
        found = SnapshotFiles(self.config["state"]["folder"]).newest(bytes)
        assert found is not None, self.log
        return found[0]

    def _url(self, page: str) -> str:
        ports = re.findall(r"listening on http://127.0.0.1:(\d+)", self.log)
        return f"http://127.0.0.1:{ports[-1]}/{page}"

    def _listen(self) -> None:
        while True:
            try:
                self.heard += self._socket.recv(4096).decode().splitlines()
            except OSError:
                return


class Client:
    """Publishes readings, and collects what is published on all topics."""

    def __init__(self, broker: BrokerProcess, *filters: str) -> None:
        self.got: list[tuple[str, bytes]] = []
        self._client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
        self._client.max_queued_messages_set(0)
        self._client.max_inflight_messages_set(1000)
        self._client.on_message = lambda _c, _u, m: self.got.append((m.topic, m.payload))
        listening = threading.Event()
        self._client.on_subscribe = lambda *_: listening.set()
        wanted = [(filter, 0) for filter in filters]
        self._client.on_connect = lambda c, *_: wanted and c.subscribe(wanted)
        self._client.connect(broker.host, broker.port)
        self._client.loop_start()
        assert not filters or listening.wait(10)

    def send(self, messages: Iterable[Message], qos: int = 1, seconds: float = 60.0) -> None:
        """Publish, and wait until the broker has all of them."""
        tokens = [self._client.publish(m.topic, m.payload, qos) for m in messages]
        for token in tokens:
            token.wait_for_publish(seconds)
            assert token.is_published()

    def decisions(self) -> list[dict[str, Any]]:
        return [json.loads(p) for topic, p in self.got.copy() if topic.endswith("/decision")]

    def on(self, end: str) -> list[dict[str, Any]]:
        """What came on topics that end like this."""
        return [json.loads(p) for topic, p in self.got.copy() if topic.endswith(end)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.disconnect()
        self._client.loop_stop()


def readings(
    count: int,
    *,
    first: int = 0,
    devices: int = 7,
    features: int = 4,
    labelled: float = 0.7,
    late: bool = False,
) -> list[Message]:
    """Readings of three classes, numbered and timed; some labels come later and by themselves."""
    messages = []
    for n in range(first, first + count):
        rng = np.random.default_rng(n)
        y = int(rng.integers(len(CLASSES)))
        x = rng.normal(y, 1.0, features)
        device = f"d{n % devices}"
        payload: dict[str, Any] = {f"x{i}": round(float(v), 4) for i, v in enumerate(x)}
        payload |= {"t": 1.7e9 + n / 10, "n": n}
        chance = rng.random()
        if chance < labelled:
            payload["y"] = CLASSES[y]
        messages.append(
            Message(READINGS.format(device=device), json.dumps(payload).encode(), 1.7e9)
        )
        if late and chance >= labelled and chance < 0.95:
            label = json.dumps({"label": CLASSES[y], "n": n}).encode()
            messages.append(Message(LABELS.format(device=device), label, 1.7e9))
    return messages


def undisturbed(config: Config | Path, messages: list[Message]) -> bytes:
    """The state after these messages if nothing ever happens."""
    config = config if isinstance(config, Config) else load(config)
    processor = MessageProcessor(Decoder(config), Monitor(config))
    for i in range(0, len(messages), 500):
        processor.process(messages[i : i + 500])
    return processor.monitor.checkpoint()
