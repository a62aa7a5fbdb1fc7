"""Recording through a connection that breaks: the broker keeps what came meanwhile."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import paho.mqtt.client as mqtt
import pytest

from streamlvq.config import Broker, Config, ReadingsSection
from streamlvq.connect import Message, open_log
from streamlvq.replay import record
from streamlvq.replay.live import Recorded
from support.brokers import Mosquitto, Proxy, mosquitto  # noqa: F401
from support.daemons import Client, readings, until


def recorded(path: Path, config: Config) -> list[tuple[str, bytes]]:
    log, found = open_log(path, config.readings), []
    while (batch := log.read()) is not None:
        found += [(m.topic, m.payload) for m in batch if isinstance(m, Message)]
    log.close()
    return found


def remembers(broker: Mosquitto, name: str) -> bool:
    """Whether a broker has a session of this name."""
    found: list[bool] = []
    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, name, clean_session=False)
    client.on_connect = lambda _c, _u, flags, *_: found.append(flags.session_present)
    client.connect(broker.host, broker.port)
    client.loop_start()
    until(lambda: found, 10, "an answer")
    client.disconnect()
    client.loop_stop()
    return found[0]


@pytest.mark.parametrize("protocol", ["5", "3.1.1"])
def test_what_comes_while_the_connection_is_broken_is_recorded(
    protocol: Any,
    mosquitto: Mosquitto,  # noqa: F811
    tmp_path: Path,
) -> None:
    said, path = readings(60), tmp_path / "log.messages"
    with Proxy(mosquitto.port) as proxy, Client(mosquitto) as client:
        config = Config(
            broker=Broker(url=proxy.url, protocol=protocol, reconnect_max_seconds=0.5),
            readings=ReadingsSection(topic="plant/{device}/readings"),
        )
        done: list[Recorded] = []
        run = lambda: done.append(record(config, path, messages=60, seconds=30))  # noqa: E731
        thread = threading.Thread(target=run)
        thread.start()
        until(lambda: "-record-" in mosquitto.log, 20, "the recorder")
        time.sleep(0.5)  # until it has subscribed
        client.send(said[:20])
        until(lambda: path.exists() and len(recorded(path, config)) == 20, 20, "the first part")
        proxy.cut()
        client.send(said[20:40])  # nobody listens
        proxy.heal()
        client.send(said[40:])
        thread.join(40)
    names = set(re.findall(rf"streamlvq-record-{os.getpid()}-[0-9a-f]+", mosquitto.log))
    assert len(names) == 1
    assert not remembers(mosquitto, names.pop()), "the session was ended"
    assert done[0].messages == 60
    assert done[0].breaks == 1
    assert recorded(path, config) == [(m.topic, m.payload) for m in said]


def test_the_command_says_that_the_connection_broke(
    mosquitto: Mosquitto,  # noqa: F811
    tmp_path: Path,
) -> None:
    with Proxy(mosquitto.port) as proxy:
        config = tmp_path / "monitor.yaml"
        config.write_text(f"broker: {{url: '{proxy.url}', reconnect_max_seconds: 0.5}}\n")
        path, log = tmp_path / "log.messages", tmp_path / "said"
        command = [sys.executable, "-m", "streamlvq", "record", "--config", str(config)]
        with (
            log.open("wb") as said,
            subprocess.Popen([*command, "-o", str(path), "--seconds", "6"], stdout=said) as process,
        ):
            until(lambda: "-record-" in mosquitto.log, 20, "the recorder")
            time.sleep(0.5)
            proxy.drop()
            assert process.wait(30) == 0
    assert "the connection broke once: messages may be missing" in log.read_text()
