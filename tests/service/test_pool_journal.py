"""A pool in the journal: a service that is killed goes on as if nothing had happened."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import streamlvq
from streamlvq.config import Config, loads
from streamlvq.connect import Message
from streamlvq.events import ALL_DEVICES, Decisions
from streamlvq.models.pool import PoolClassifier
from streamlvq.payloads import Encoder
from streamlvq.role import Health
from streamlvq.service.journal import Journal, Received, Serve
from streamlvq.service.metrics import ServiceMetrics
from streamlvq.service.processor import MessageProcessor
from streamlvq.service.state_store import StateStore
from streamlvq.snapshot import Snapshot
from support.serving import other, pool, scored, stream

TEXT = """
readings: {topic: "r/{device}", label: y, sequence: n, time: t, features: [%s]}
labels: {topic: "l/{device}", label: y, sequence: n, wait: 100}
decisions: {topic: "d/{device}"}
model: {type: GLVQ, transform: asinh}
integrator: {max_gap: 9}
rejector: {target_rate: 0.2, memory: 40}
fleet: {name: plant, trust: everyone}
state: {folder: "%s"}
"""


def config_for(folder: Path) -> Config:
    return loads(TEXT % (", ".join(f"sensor {i}" for i in range(5)), folder))


def opened(config: Config) -> StateStore:
    health = Health(config.health)
    return StateStore(config, health, ServiceMetrics(health, 10))


def batches(count: int = 12, rows: int = 15) -> list[Received]:
    """Readings, and from the third batch on late labels of some that came before."""
    whole, made = stream(count * rows, seed=2, twice=0.05), []
    for b in range(count):
        messages = []
        for k in range(b * rows, (b + 1) * rows):
            values = zip(whole.features, whole.rows[k].tolist(), strict=True)
            payload: dict[str, Any] = {name: value for name, value in values if value == value}
            payload |= {"n": whole.sequences[k], "t": whole.times[k]}
            if whole.labels[k] is not None:
                payload["y"] = whole.labels[k]
            messages.append(Message(f"r/{whole.devices[k]}", msgspec.json.encode(payload), 1.0))
        if b > 1:
            k = next(k for k in range((b - 2) * rows, len(whole)) if whole.labels[k] is None)
            label = {"y": "class 1", "n": whole.sequences[k]}
            messages.append(Message(f"l/{whole.devices[k]}", msgspec.json.encode(label), 1.0))
        made.append(Received(messages))
    return made


def snapshot(model: Any) -> bytes:
    return Snapshot.of(streamlvq.FeatureTransform(model, "asinh"), "n").to_bytes()


SERVED = {
    3: snapshot(pool()),
    5: snapshot(pool((4, 1, 0), (2, 3), seed=8)),
    7: b"no snapshot",
    8: snapshot(other()),
    10: snapshot(pool()),
}


def run(
    store: StateStore, processor: MessageProcessor, start: int, stop: int, saves: tuple[int, ...]
) -> list[Decisions]:
    """Process batches as the daemon does: first they are durable, then they take effect."""
    said = []
    for b, received in list(enumerate(batches()))[start:stop]:
        if b in SERVED:
            store.append(Serve(ALL_DEVICES, SERVED[b]))
            works = processor.serve(ALL_DEVICES, SERVED[b])
            assert works == (SERVED[b] != b"no snapshot")
        store.append(received)
        result = processor.process(received.messages)
        assert result.refused == []
        said += result.decisions
        if b in saves:
            store.health.unsaved = True
            assert store.save(processor.monitor)
    return said


def lines(config: Config, decisions: list[Decisions]) -> list[bytes]:
    return [message.payload for each in decisions for message in Encoder(config).encode(each)]


@pytest.mark.parametrize("killed_before", range(1, 12))
@pytest.mark.parametrize("saves", [(), (4,), (2, 6, 9)])
def test_a_killed_service_goes_on_as_if_nothing_had_happened(
    killed_before: int, saves: tuple[int, ...], tmp_path: Path
) -> None:
    config = config_for(tmp_path / "state")
    never = opened(config_for(tmp_path / "never"))
    processor = never.restore(config_for(tmp_path / "never"), print)
    expected = lines(config, run(never, processor, 0, 12, ()))
    state, opinions = processor.monitor.checkpoint(), scored(processor.monitor)
    never.close()

    store = opened(config)
    said = run(store, store.restore(config, print), 0, killed_before, saves)
    shutil.copytree(tmp_path / "state", tmp_path / "killed")
    store.close()
    after = config_for(tmp_path / "killed")
    store = opened(after)
    processor = store.restore(after, print)
    said += run(store, processor, killed_before, 12, saves)
    assert lines(config, said) == expected
    assert scored(processor.monitor) == opinions
    assert processor.monitor.checkpoint() == state
    store.close()


def test_published_decisions_say_that_a_pool_decided(tmp_path: Path) -> None:
    config = config_for(tmp_path)
    store = opened(config)
    processor = store.restore(config, print)
    said = [msgspec.json.decode(each) for each in lines(config, run(store, processor, 0, 12, ()))]
    signed = [(each["model"], each["version"]) for each in said]
    assert list(dict.fromkeys(each for each in signed if each[0] != "local")) == [
        ("pool", 1), ("pool", 2), ("fused", 3), ("pool", 4)
    ]  # fmt: skip
    assert np.all([set(each["probabilities"]) >= {"class 3"} for each in said[-15:]])
    served = processor.monitor.serving(ALL_DEVICES).classifier
    assert isinstance(served, PoolClassifier)
    store.close()
    assert [type(record).__name__ for _, record in Journal(tmp_path).read(0)].count("Serve") == 5
