"""Sensors that stand still, are missing or left their range; labels that contradict a model."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
import pytest

from streamlvq.config import Config, HealthSection, ModelSection, loads
from streamlvq.events import LateLabel, Readings
from streamlvq.monitor import Monitor, Outcome
from streamlvq.monitor.watch import (
    MIN_LABELS,
    RECENT_LABELS,
    AgreementScore,
    LabelAgreement,
    SensorHealth,
    Watch,
    sensor_warnings,
)
from streamlvq.payloads import Decoder
from streamlvq.service.processor import MessageProcessor

FEATURES = ("heat", "noise", "on")


def batch(rng: np.random.Generator, count: int = 60, devices: int = 3, **columns: Any) -> Readings:
    """Readings of devices that take turns; columns replace those at random."""
    values = {
        "heat": rng.standard_normal(count),
        "noise": rng.random(count),
        "on": (rng.random(count) < 0.5).astype(float),
    }
    values |= {name: np.broadcast_to(column, count) for name, column in columns.items()}
    names = [f"device {k % devices}" for k in range(count)]
    return Readings.of(list(values), np.column_stack(list(values.values())), devices=names)


def watched(turns: int = 30, **section: Any) -> tuple[SensorHealth, np.random.Generator]:
    rng = np.random.default_rng(1)
    sensors = SensorHealth(HealthSection(**section))
    for _ in range(turns):
        sensors.see(batch(rng), FEATURES)
    return sensors, rng


def found(sensors: SensorHealth) -> set[tuple[str, str, str]]:
    return {(each.kind, each.device, each.feature) for each in sensors.problems()}


def test_healthy_sensors_are_not_complained_about() -> None:
    sensors, rng = watched(500)
    assert found(sensors) == set()
    for _ in range(50):  # some values are missing, and a device sends less often
        values = np.where(rng.random(60) < 0.3, np.nan, rng.standard_normal(60))
        sensors.see(batch(rng, heat=values), FEATURES)
    assert found(sensors) == set()


def test_a_sensor_that_stopped_moving() -> None:
    sensors, rng = watched(still_readings=300)
    for turn in range(20):
        heat = np.where(np.arange(60) % 3 == 1, 0.5, rng.standard_normal(60))
        sensors.see(batch(rng, heat=heat), FEATURES)
        if turn == 10:
            assert found(sensors) == set()
    assert found(sensors) == {("still", "device 1", "heat")}
    [problem] = sensors.problems()
    assert 300 <= problem.readings <= 400
    assert sensor_warnings([problem]) == [
        f"still: heat of device 1 has not moved for {problem.readings} readings"
    ]
    sensors.see(batch(rng), FEATURES)
    assert found(sensors) == set()  # it moves again


def test_a_sensor_that_never_moved_or_seldom_does_is_fine() -> None:
    rng = np.random.default_rng(2)
    sensors = SensorHealth(HealthSection(still_readings=100))
    for turn in range(300):  # `on` changes every 20 batches, 400 readings of a device
        sensors.see(batch(rng, noise=1.0, on=float(turn // 20 % 2)), FEATURES)
    assert found(sensors) == set()


def test_a_feature_that_never_came_again() -> None:
    sensors, rng = watched(missing_readings=200)
    rest = batch(rng)
    for _ in range(9):
        part = batch(rng)
        sensors.see(
            Readings.of(part.features[1:], part.rows[:, 1:], devices=part.devices), FEATURES
        )
    assert found(sensors) == set()
    for _ in range(3):
        part = batch(rng, heat=np.nan)
        sensors.see(part, FEATURES)
    assert found(sensors) == {("missing", f"device {k}", "heat") for k in range(3)}
    sensors.see(rest, FEATURES)
    assert found(sensors) == set()


def test_a_sensor_that_left_its_range_until_that_is_the_range() -> None:
    sensors, rng = watched()
    sensors.see(batch(rng, heat=rng.standard_normal(60) * 1.5), FEATURES)
    assert found(sensors) == set()  # a little further is no alarm
    sensors.see(batch(rng, noise=1000.0 + rng.random(60)), FEATURES)
    assert found(sensors) == {("range", f"device {k}", "noise") for k in range(3)}
    sensors.see(batch(rng), FEATURES)
    assert found(sensors) == set()
    for turn in range(60):
        sensors.see(batch(rng, noise=1000.0 + rng.random(60)), FEATURES)
        sensors.digest()
        assert bool(found(sensors)) == (turn < 50)


def test_kinds_can_be_switched_off() -> None:
    sensors, rng = watched(still_readings=0, missing_readings=0, range_margin=0.0)
    for _ in range(200):
        sensors.see(batch(rng, heat=0.5, noise=np.nan, on=1e9), FEATURES)
    assert found(sensors) == set()


def test_junk_is_not_watched_and_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    sensors, rng = watched()
    for turn in range(20):
        junk = {f"junk {turn} {k}": rng.random(60) for k in range(100)}
        sensors.see(batch(rng, **junk), FEATURES)
    sensors.digest()
    assert sensors._state.low.shape[1] <= 4
    monkeypatch.setattr("streamlvq.monitor.watch.MAX_WATCHED", 30)
    sensors = SensorHealth(HealthSection())
    for _ in range(10):
        sensors.see(batch(rng, devices=50), FEATURES)
    assert found(sensors) == set()
    assert len(sensors._devices) == 10


def test_how_readings_are_split_matters_little() -> None:
    whole, parts = SensorHealth(HealthSection()), SensorHealth(HealthSection())
    rng = np.random.default_rng(3)
    for turn in range(150):
        made = batch(rng, heat=0.5 if turn > 60 else rng.standard_normal(60))
        whole.see(made, FEATURES)
        for k in range(60):
            parts.see(made.select([k]), FEATURES)
    assert found(whole) == found(parts) == {("still", f"device {k}", "heat") for k in range(3)}


def test_a_reading_costs_little() -> None:
    sensors, rng = watched()
    many = [batch(rng, 256, 64) for _ in range(40)]
    best = math.inf
    for _ in range(5):
        start = time.process_time()
        for each in many:
            sensors.see(each, FEATURES)
        best = min(best, time.process_time() - start)
    assert best / (40 * 256) < 5e-6  # some tenths of a microsecond on an idle machine


# --- labels --------------------------------------------------------------------------------------


def test_labels_that_contradict_a_model_that_was_right() -> None:
    agreement = LabelAgreement()
    for k in range(MIN_LABELS + RECENT_LABELS):
        agreement.count("a", k % 20 > 0)
        agreement.count("b", k % 2 > 0)  # never was any good
    assert agreement.contradicted() == {}
    for _ in range(15):
        agreement.count("a", False)
        agreement.count("b", False)
    assert list(agreement.contradicted()) == ["a"]
    [warning] = agreement.warnings()
    assert warning.startswith(
        "labels: the last 30 contradict the model of a, which was right about"
    )
    assert agreement.lowest == 8 / 30
    for _ in range(RECENT_LABELS):
        agreement.count("a", True)
    assert agreement.warnings() == []


@pytest.mark.parametrize("accuracy", [0.5, 0.7, 0.9, 0.97, 1.0])
def test_chance_is_no_contradiction(accuracy: float) -> None:
    rng = np.random.default_rng(1)
    score, alarms = AgreementScore(), 0
    for right in (rng.random(20_000) < accuracy).tolist():
        score.count(right)
        alarms += score.contradicts
    assert alarms <= 20


def plant(swapped: bool, count: int, seed: int) -> Readings:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, count)
    rows = np.column_stack([y * 4.0, -y]) + rng.standard_normal((count, 2)) * 0.5
    names = ["ok", "worn"][:: -1 if swapped else 1]
    return Readings.of(["x", "y"], rows, labels=[names[c] for c in y], sequences=range(count))


def test_swapped_labels_are_noticed_by_the_service() -> None:
    config = Config(model=ModelSection(type="GLVQ"))
    processor = MessageProcessor(Decoder(config), Monitor(config))
    monitor, watch = processor.monitor, processor.watch

    def send(readings: Readings) -> None:
        watch.see(readings, monitor.step(readings), monitor)

    for k in range(6):
        send(plant(False, 50, k))
    assert watch.agreement.warnings() == []
    assert watch.agreement.lowest > 0.9
    send(plant(True, 20, 9))
    assert len(watch.agreement.warnings()) == 1
    new = plant(False, 20, 10)
    new.labels = ["never seen"] * 20
    before = watch.agreement.lowest
    send(new.select(slice(0, 4)))
    assert watch.agreement.lowest == before  # on probation: nobody knows it


def test_a_defect_of_the_watch_costs_no_decision(caplog: pytest.LogCaptureFixture) -> None:
    config = Config(model=ModelSection(type="GLVQ"))
    monitor, watch = Monitor(config), Watch(config.health)
    for _ in range(12):
        readings = plant(False, 50, 1)
        watch.see(readings, monitor.step(readings), monitor)
    readings.devices = [["no name"]] * 50  # type: ignore[list-item]
    watch.sensors.see(readings, ["x"])
    assert watch.problems() == []
    watch.see(readings, Outcome(decisions=readings), monitor)  # type: ignore[arg-type]
    assert caplog.text.count("the watch over sensors begins anew") == 2
    watch.see(plant(False, 50, 1), Outcome(), monitor)
    assert watch.problems() == []


def test_late_labels_count_too() -> None:
    config = loads(
        "readings: {sequence: n}\nlabels: {topic: 'l/{device}', sequence: n}\nmodel: {type: GLVQ}"
    )
    processor = MessageProcessor(Decoder(config), Monitor(config))
    monitor, watch = processor.monitor, processor.watch
    watch.see(first := plant(False, 200, 1), monitor.step(first), monitor)
    later = plant(False, 150, 2)
    labels, later.labels = later.labels, [None] * 150
    later.sequences = list(range(1000, 1150))
    monitor.step(later)
    for k in range(150):
        label = labels[k] if k < 120 else {"ok": "worn", "worn": "ok"}[str(labels[k])]
        late = LateLabel("device", "", label, None, 1000 + k)
        watch.see(late, monitor.step(late), monitor)
        assert bool(watch.agreement.warnings()) == (k >= 129), k
