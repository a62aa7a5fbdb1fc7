"""The daemon when something of its own fails: nothing is lost, and it goes on."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from streamlvq.config import (
    Broker,
    Config,
    DecisionsSection,
    HealthSection,
    ModelSection,
    ReadingsSection,
    StateSection,
    StatusSection,
)
from streamlvq.connect import Message, Outgoing
from streamlvq.daemon.daemon import Daemon
from streamlvq.daemon.discovery import fit
from streamlvq.daemon.http import HealthServer
from streamlvq.daemon.intake import Effect
from streamlvq.daemon.publisher import Publisher
from streamlvq.daemon.signals import Signals
from streamlvq.daemon.vitals import Vitals
from streamlvq.events import Refused
from streamlvq_connectors.memory import MemoryLink, Session
from test_daemon_parts import decisions, instruments

# --- defects after the journal, before the acknowledgement -------------------------------------

HALF = "pump \ud800"  # half of a pair, as a careless payload may name a device


def test_a_name_that_cannot_be_encoded_costs_nothing_else() -> None:
    config = Config(
        decisions=DecisionsSection(topic="d/{device}"), status=StatusSection(home_assistant="ha")
    )
    measured = instruments()
    publisher = Publisher(config, measured)
    publisher.messages(Effect([decisions([HALF])]), [])
    sent = publisher.messages(Effect([decisions(["p1"])]), [])
    assert [m.topic for m in sent if m.topic.startswith("d/")] == ["d/p1"]
    assert len([m for m in sent if m.topic.startswith("ha/")]) == 2
    assert len(list(publisher.greetings())) >= 2
    assert measured.readings.value() == 2


def test_a_defect_costs_the_part_that_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    config = Config(
        decisions=DecisionsSection(topic="d/{device}", file=str(tmp_path / "out.jsonl")),
        status=StatusSection(home_assistant="ha"),
    )
    measured = instruments()
    publisher = Publisher(config, measured)
    broken = {publisher.discovery: "_messages", publisher.file: "write"}
    for part, name in broken.items():
        monkeypatch.setattr(part, name, lambda *_: 1 // 0)
    messages = [Message("sensors/p0/readings", b"\xff", 1.0)]
    effect = Effect([decisions(["p0", "p1"])], [Refused(0, "payload", "bad")], 1)
    sent = publisher.messages(effect, messages)
    assert [m.topic for m in sent] == ["d/p0", "d/p1", "streamlvq/streamlvq/dead"]
    assert measured.publish_failures.value() == 2
    assert measured.learnt.value() == 1
    assert caplog.text.count("ZeroDivisionError") >= 2
    monkeypatch.setattr(publisher._encoder, "encode", lambda _: 1 // 0, raising=False)
    assert [m.topic for m in publisher.messages(effect, messages)] == ["streamlvq/streamlvq/dead"]
    assert list(publisher.greetings()) == []


def test_different_halves_stay_different() -> None:
    assert fit("a\ud800") != fit("a\ud801")
    assert fit("a\ud800").isascii()


def test_one_odd_name_does_not_take_the_metrics_away() -> None:
    measured = instruments()
    measured.by_device.add(1, HALF)
    measured.by_device.add(2, "p1")
    server = HealthServer("127.0.0.1", 0, measured.registry, Vitals(HealthSection()))
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=5) as answer:
        text = answer.read().decode()
    server.close()
    assert 'device_readings_total{device="pump ?"} 1' in text
    assert 'device_readings_total{device="p1"} 2' in text


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
    monkeypatch.setattr("streamlvq.daemon.connection.links", lambda: {"memory": Choosy})
    far = MemoryLink.broker_named(tmp_path.name)
    session = far.sessions["streamlvq"] = Session({"r/+": 1})
    for n in range(3):
        far.publish("r/d", b'{"x": 1, "y": "a", "n": %d}' % n)
    with Signals() as signals:
        Choosy.signals = signals
        daemon = Daemon(simple(tmp_path), signals, lambda: simple(tmp_path))
        assert daemon.run() == 0
    assert daemon.instruments.publish_failures.value() == 1
    assert daemon.instruments.readings.value() == 3
    assert (len(session.waiting), len(session.unacknowledged)) == (0, 0)


def simple(folder: Path, **sections: Any) -> Config:
    given: dict[str, Any] = {
        "broker": Broker(url=f"memory://{folder.name}"),
        "model": ModelSection(type="GLVQ"),
        "readings": ReadingsSection(topic="r/{device}", label="y", sequence="n"),
        "state": StateSection(folder=str(folder / "state")),
    }
    return Config(**{**given, **sections})
