"""Recording from and publishing to real brokers; what was recorded replays as it was decided."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from streamlvq.config import Broker, Config, LabelsSection, ReadingsSection
from streamlvq.connect import Message, open_log
from streamlvq.errors import StreamLVQError
from streamlvq.events import Readings
from streamlvq.payloads import Decoder
from streamlvq.payloads.encoder import ReadingEncoder
from streamlvq.replay import publish, record, replay
from streamlvq.replay.live import NotConnectedError, filters, open_writer
from support.brokers import Mosquitto, available, free_port
from support.replays import FEATURES, Row, as_object, chain_config, rows, write_csv, write_jsonl

PATIENCE = 30.0


def with_broker(config: Config, url: str, protocol: str = "3.1.1") -> Config:
    where = Broker(url=url, protocol=protocol)  # type: ignore[arg-type]
    return msgspec.structs.replace(config, broker=where)


class Listener:
    """A plain client that keeps what it hears."""

    def __init__(self, url: str, topic: str) -> None:
        self.url = url
        self.heard: list[tuple[str, bytes, float]] = []
        self.client = mqtt.Client(CallbackAPIVersion.VERSION2)
        self.client.on_message = self._hear
        host, _, port = url.partition("://")[2].partition(":")
        self.client.connect(host, int(port))
        self.client.subscribe(topic, qos=1)
        self.client.loop_start()
        time.sleep(0.5)

    def _hear(self, _: Any, __: Any, message: Any) -> None:
        self.heard.append((message.topic, bytes(message.payload), time.monotonic()))

    def wait(self, count: int) -> list[tuple[str, bytes, float]]:
        deadline = time.monotonic() + PATIENCE
        while len(self.heard) < count and time.monotonic() < deadline:
            time.sleep(0.02)
        return list(self.heard)

    def say(self, topic: str, payload: bytes) -> None:
        self.client.publish(topic, payload, qos=1).wait_for_publish(PATIENCE)

    def __enter__(self) -> Listener:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.disconnect()
        self.client.loop_stop()


@pytest.fixture(name="mosquitto")
def running_mosquitto() -> Iterator[Mosquitto]:
    if not Mosquitto.installed():
        pytest.skip("Mosquitto is not installed")
    with Mosquitto() as one:
        yield one


@pytest.fixture(params=available(), ids=lambda kind: kind.__name__)
def listener(request: pytest.FixtureRequest) -> Iterator[Listener]:
    with request.param() as broker, Listener(broker.url, "sensors/#") as one:
        yield one


# --- publish -------------------------------------------------------------------------------------


@pytest.mark.parametrize("write", [write_csv, write_jsonl], ids=["csv", "jsonl"])
def test_published_rows_decode_to_the_same_readings(
    tmp_path: Path,
    listener: Listener,
    write: Any,
) -> None:
    log, config = rows(500, labelled=0.5), with_broker(chain_config(), listener.url)
    path = write(tmp_path / f"log.{write.__name__[6:]}", log)
    sent = publish(path, config, speed=float("inf"))
    assert sent.messages == 500
    heard = listener.wait(500)
    assert len(heard) == 500
    messages = [Message(topic, payload, 0.0) for topic, payload, _ in heard]
    decoded = Decoder(config).decode(messages)
    assert decoded.refused == []
    assert in_rows(decoded.events) == log


def in_rows(events: list[Any]) -> list[Row]:
    found: dict[int, Row] = {}
    for event in events:
        assert isinstance(event, Readings)
        order = [event.features.index(name) for name in FEATURES]
        for k, source in enumerate(event.sources):
            values = tuple(event.rows[k][order].tolist())
            label: Any = event.labels[k]
            found[source] = Row(event.times[k] or 0.0, event.devices[k], values, label)
    return [found[source] for source in sorted(found)]


def test_messages_keep_topic_and_payload(
    tmp_path: Path,
    listener: Listener,
) -> None:
    messages = [Message(f"sensors/{k % 3}/raw", bytes([k, 255]), 100.0 + k) for k in range(50)]
    with open_writer(tmp_path / "log.messages") as writer:
        writer.write(messages)
    config = with_broker(Config(), listener.url)
    assert publish(tmp_path / "log.messages", config, speed=float("inf"), limit=40).messages == 40
    heard = [(topic, payload) for topic, payload, _ in listener.wait(40)]
    assert heard == [(message.topic, message.payload) for message in messages[:40]]


@pytest.mark.parametrize("begin", [1.7e9, 0.0])
def test_pace_follows_the_recorded_times(
    begin: float,
    tmp_path: Path,
    listener: Listener,
) -> None:
    log = [row._replace(t=begin + k * 2.0) for k, row in enumerate(rows(11))]
    config = with_broker(chain_config(), listener.url)
    sent = publish(write_csv(tmp_path / "log.csv", log), config, speed=10.0)
    moments = [moment for *_, moment in listener.wait(11)]
    assert sent.seconds >= 1.9
    assert moments[-1] - moments[0] == pytest.approx(2.0, abs=0.7)
    assert np.diff(moments).max() < 1.0
    assert sent.late < 1.0


def test_without_times_only_max_is_possible(
    tmp_path: Path,
    listener: Listener,
) -> None:
    config = with_broker(Config(readings=ReadingsSection(device="pump")), listener.url)
    path = write_csv(tmp_path / "log.csv", rows(20))
    with pytest.raises(StreamLVQError, match="--speed max"):
        publish(path, config)
    assert publish(path, config, speed=float("inf")).messages == 20
    assert len(listener.wait(20)) == 20


def test_more_than_the_queue_holds_is_not_lost(
    tmp_path: Path,
    listener: Listener,
) -> None:
    config = with_broker(chain_config(), listener.url)
    small = msgspec.structs.replace(config.broker, outgoing_limit=100)
    config = msgspec.structs.replace(config, broker=small)
    path = write_csv(tmp_path / "log.csv", rows(3000))
    assert publish(path, config, speed=float("inf")).messages == 3000
    assert len(listener.wait(3000)) == 3000


def test_no_broker_is_an_error_in_time(tmp_path: Path) -> None:
    nobody = Broker(url=f"mqtt://127.0.0.1:{free_port()}", connect_timeout_seconds=1.0)
    config = msgspec.structs.replace(chain_config(), broker=nobody)
    path = write_csv(tmp_path / "log.csv", rows(5))
    start = time.monotonic()
    with pytest.raises(NotConnectedError, match=r"127\.0\.0\.1"):
        publish(path, config, speed=float("inf"))
    with pytest.raises(NotConnectedError, match=r"127\.0\.0\.1"):
        record(config, tmp_path / "log.messages")
    assert time.monotonic() - start < 20


def test_topics_that_rows_cannot_fill(tmp_path: Path, mosquitto: Mosquitto) -> None:
    readings = ReadingsSection(topic="plant/{site}/{device}", device="pump", time="t")
    config = with_broker(Config(readings=readings), mosquitto.url)
    with pytest.raises(StreamLVQError, match="says nothing about site"):
        publish(write_csv(tmp_path / "log.csv", rows(5)), config, speed=float("inf"))


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns", "iso"])
@pytest.mark.parametrize("format", ["json", "msgpack", "json_array", "float32"])
def test_payloads_of_every_format_and_unit(format: str, unit: str) -> None:
    columns = [*FEATURES, "state", "t", "n"] if format == "json_array" else list(FEATURES)
    named = format != "float32"
    fields = ReadingsSection(
        format=format,  # type: ignore[arg-type]
        columns=columns if format in ("json_array", "float32") else None,
        features=list(FEATURES),
        label="state" if named else None,
        time="t" if named else None,
        time_unit=unit if named else "s",  # type: ignore[arg-type]
        sequence="n" if named else None,
    )
    values = np.array([[1.5, -2.25, 1000.0, 0.125], [0.5, np.nan, 3.0, 4.0]])
    readings = Readings.of(
        FEATURES,
        values,
        devices=["p1", "p1"],
        labels=["ok", None],
        times=[1.7e9 + 0.25, 1.7e9],
        sequences=[1, 2],
    )
    payloads = ReadingEncoder(fields).encode(readings)
    messages = [Message("sensors/p1/readings", payload, 0.0) for payload in payloads]
    decoded = Decoder(Config(readings=fields)).decode(messages)
    assert decoded.refused == []
    rows_back = [
        {name: value for name, value in zip(e.features, row, strict=True) if value == value}
        for e in decoded.events if isinstance(e, Readings) for row in e.rows.tolist()
    ]  # fmt: skip
    wanted = [
        {n: v for n, v in zip(FEATURES, row, strict=True) if v == v} for row in values.tolist()
    ]
    assert rows_back == wanted
    if named:
        columns_back = [(e.labels, e.times, e.sequences) for e in decoded.events]
        flat = [[v for part in parts for v in part] for parts in zip(*columns_back, strict=True)]
        assert flat == [["ok", None], [1.7e9 + 0.25, 1.7e9], [1, 2]]


# --- record --------------------------------------------------------------------------------------


def record_while(config: Config, path: Path, messages: int, act: Any, **options: Any) -> int:
    """Record in a thread while `act` runs; gives the number of messages."""
    found: list[int] = []

    def run() -> None:
        found.append(record(config, path, messages=messages, seconds=PATIENCE, **options).messages)

    thread = threading.Thread(target=run)
    thread.start()
    time.sleep(1.5)  # until it listens
    act()
    thread.join(2 * PATIENCE)
    return found[0]


@pytest.mark.parametrize("name", ["log.messages", "log.messages.gz"])
def test_record_keeps_every_byte(
    tmp_path: Path,
    listener: Listener,
    name: str,
) -> None:
    config = with_broker(Config(), listener.url)
    said = [(f"sensors/p{k % 2}/readings", bytes([k, 0, 255])) for k in range(30)]

    def act() -> None:
        for topic, payload in said:
            listener.say(topic, payload)

    before = time.time()
    assert record_while(config, tmp_path / name, 30, act) == 30
    log = open_log(tmp_path / name, config.readings)
    batch = log.read()
    log.close()
    assert not isinstance(batch, Readings)
    assert batch is not None
    assert [(m.topic, m.payload) for m in batch] == said
    assert all(before - 5 < m.received < time.time() + 5 for m in batch)


def test_record_other_topics_and_go_on(
    tmp_path: Path,
    listener: Listener,
) -> None:
    config, path = with_broker(Config(), listener.url), tmp_path / "log.messages"
    for _ in range(2):
        act = lambda: [listener.say("sensors/x/other", b"hi") for _ in range(5)]  # noqa: E731
        assert record_while(config, path, 5, act, topics=["sensors/+/other"]) == 5
    log = open_log(path, config.readings)
    batches = []
    while (batch := log.read()) is not None:
        batches += list(batch)  # type: ignore[arg-type]
    log.close()
    assert len(batches) == 10


def test_record_ends_in_time(tmp_path: Path, mosquitto: Mosquitto) -> None:
    start = time.monotonic()
    done = record(with_broker(Config(), mosquitto.url), tmp_path / "log.messages", seconds=1.0)
    assert done.messages == 0
    assert time.monotonic() - start < 10


def test_filters_are_those_of_the_daemon() -> None:
    config = Config(labels=LabelsSection(topic="labels/{device}", time="t"))
    assert filters(config) == ["sensors/+/readings", "labels/+"]


# --- the daemon ----------------------------------------------------------------------------------


def test_a_recording_replays_what_the_daemon_decided(
    tmp_path: Path,
    mosquitto: Mosquitto,
) -> None:
    """A daemon and a recorder listen to the same readings; the replay decides what it did."""
    config = with_broker(chain_config(), mosquitto.url)
    text = msgspec.yaml.encode(msgspec.to_builtins(config)).decode()
    folder = {"state": {"folder": str(tmp_path / "state")}}
    values = {**msgspec.yaml.decode(text), **folder}
    (tmp_path / "c.yaml").write_bytes(msgspec.yaml.encode(values))
    log = rows(400, labelled=0.8)
    daemon = subprocess.Popen(
        [sys.executable, "-m", "streamlvq", "run", str(tmp_path / "c.yaml")],
        cwd=tmp_path, env=dict(os.environ), stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        with Listener(mosquitto.url, "streamlvq/+/status") as status:
            status.wait(1)
            with Listener(mosquitto.url, "sensors/+/decision") as hears:

                def act() -> None:
                    for row in log:
                        payload = json.dumps(as_object(row)).encode()
                        hears.client.publish(f"sensors/{row.pump}/readings", payload, qos=1)
                    hears.wait(len(log))

                assert record_while(config, tmp_path / "log.messages", len(log), act) == len(log)
                live = [json.loads(payload) for _, payload, _ in hears.wait(len(log))]
    finally:
        daemon.send_signal(signal.SIGTERM)
        daemon.wait(60)
    report = replay(tmp_path / "log.messages", config, decisions=tmp_path / "d.jsonl")
    assert report.readings == len(live) == len(log)
    again = [json.loads(line) for line in (tmp_path / "d.jsonl").read_text().splitlines()]
    for one, other in zip(live, again, strict=True):
        assert one.keys() - {"duplicate"} <= other.keys()
        for key in ("device", "label", "accepted", "reason", "t", "version"):
            assert one[key] == other[key]
        assert one["certainty"] == pytest.approx(other["certainty"], abs=1e-6)
        assert one["probabilities"] == pytest.approx(other["probabilities"], abs=1e-6)
