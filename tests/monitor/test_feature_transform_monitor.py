"""The transform from the configuration to the daemon's models, logs and snapshots."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import streamlvq
from streamlvq import FeatureTransform, RelSimRejector, TimeIntegrator
from streamlvq.cli import main
from streamlvq.config import Config, ConfigError, build_classifier, loads
from streamlvq.config.build import build_transform
from streamlvq.errors import StreamLVQError
from streamlvq.events import DedupWindow, LateLabel, Readings
from streamlvq.monitor import Monitor, OtherModelError
from streamlvq.replay import inspect, load_monitor, save_monitor, train
from streamlvq.snapshot import Snapshot
from streamlvq.wrappers.feature_transform import MONOTONE
from support.replays import FEATURES, Row, rows, write_csv
from support.streams import assert_decides_like, readings, say

TEXT = """
readings: {topic: "plant/{device}", time: t, label: state, device: pump}
labels: {topic: "labels/{device}", time: t, wait: 200}
model: {type: GLVQ, transform: TRANSFORM}
integrator: {window: 3}
rejector: {target_rate: 0.1, memory: 50}
"""


def config(transform: str = "log", **model: Any) -> Config:
    found = loads(TEXT.replace("TRANSFORM", transform))
    return msgspec.structs.replace(found, model=msgspec.structs.replace(found.model, **model))


def positive(count: int, seed: int = 0, **more: Any) -> Readings:
    """Readings above 0."""
    made = readings(count, seed=seed, **more)
    return replace(made, rows=np.exp(made.rows))


def positive_log(count: int, bad: int = 0) -> list[Row]:
    """A log of pumps whose sensors read above 0, except in the first rows."""
    log = [row._replace(values=tuple(np.exp(row.values).round(6))) for row in rows(count)]
    return [
        row._replace(values=(0.0, *row.values[1:])) if k < bad else row for k, row in enumerate(log)
    ]


# --- configuration -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MONOTONE)
def test_the_configuration_knows_every_transform(name: str) -> None:
    section = config(name).model
    assert section.transform == name
    wrapped = build_transform(section, build_classifier(config(name)))
    assert (type(wrapped), wrapped.transform, wrapped.features) == (FeatureTransform, name, None)
    assert type(build_classifier(config(name))) is RelSimRejector  # readings are transformed before


def test_without_a_transform_there_is_none() -> None:
    for text in ("null", "~"):
        plain = config(text)
        assert plain.model.transform is None
        classifier = build_classifier(plain)
        assert build_transform(plain.model, classifier) is classifier
    assert Config().model.transform is None


def test_other_transforms_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"model.transform: expected .*log.*sqrt.*got 'cube'"):
        config("cube")


# --- the monitor ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MONOTONE)
def test_a_monitor_decides_as_the_wrappers_do(name: str) -> None:
    model = FeatureTransform(
        RelSimRejector(
            TimeIntegrator(streamlvq.GLVQ(), window=3, max_devices=100_000),
            target_rate=0.1,
            memory=50,
        ),
        name,
    )
    stream, monitor = positive(250), Monitor(config(name))
    said = say(monitor, stream, seed=1)
    assert_decides_like(said, model, stream)
    assert Snapshot.of(monitor.models()[""]).to_bytes() == Snapshot.of(model).to_bytes()


def test_batches_make_no_difference() -> None:
    stream = positive(300, twice=0.1)
    first, second = Monitor(config()), Monitor(config())
    assert say(first, stream, seed=1) == say(second, stream, seed=2)
    assert first.checkpoint() == second.checkpoint()


def test_it_compiles_whatever_the_transform() -> None:
    for name in MONOTONE:
        Monitor(config(name)).compile()


def test_readings_outside_are_refused_alone_and_leave_no_trace() -> None:
    good = positive(120)
    spoilt = good.rows.copy()
    spoilt[40, 2], spoilt[41, 0], spoilt[41, 1] = 0.0, -1.0, np.inf
    bad = replace(good, rows=spoilt)
    monitor, other = Monitor(config()), Monitor(config())
    outcome = monitor.step(bad)
    assert [(r.source, r.reason) for r in outcome.refused] == [(40, "value"), (41, "value")]
    assert "feature 'sensor 2': expected a number above 0" in outcome.refused[0].text
    assert "got 0.0" in outcome.refused[0].text
    other.step(good.select([k for k in range(120) if k not in (40, 41)]))
    assert monitor.checkpoint() == other.checkpoint()


def test_late_labels_teach_what_the_model_sees() -> None:
    stream = positive(60, labelled=1.0)
    at_once, late = Monitor(config()), Monitor(config())
    at_once.step(stream)
    late.step(stream.select(slice(0, 59)))
    last = stream.select(slice(59, 60))
    late.step(replace(last, labels=[None]))
    label = LateLabel(last.devices[0], "", last.labels[0], last.times[0], None, key=999)
    assert late.step(label).learnt == 1
    models = [each.models()[""].classifier for each in (at_once, late)]
    means = [Snapshot.of(model.classifier.classifier).means for model in models]
    assert means[0] == means[1]


# --- files ---------------------------------------------------------------------------------------


def test_checkpoints_go_on_exactly_and_only_with_the_same_transform() -> None:
    stream = positive(200)
    monitor = Monitor(config("sqrt"))
    say(monitor, stream.select(slice(0, 120)), seed=3)
    data = monitor.checkpoint()
    twin = Monitor.restore(config("sqrt"), data)
    rest = stream.select(slice(120, 200))
    assert say(twin, rest, seed=4) == say(monitor, rest, seed=5)
    assert twin.checkpoint() == monitor.checkpoint()
    for other in ("log", "null"):
        with pytest.raises(OtherModelError, match=r"sqrt.*model\.transform"):
            Monitor.restore(config(other), data)
    plain = Monitor(config("null"))
    say(plain, stream, seed=3)
    with pytest.raises(OtherModelError, match=r"None.*log.*model\.transform"):
        Monitor.restore(config("log"), plain.checkpoint())


@pytest.mark.parametrize("epochs", [1, 3])
def test_train_writes_what_a_monitor_can_begin_with(tmp_path: Path, epochs: int) -> None:
    log = write_csv(tmp_path / "log.csv", positive_log(400, bad=3))
    trained = train(log, config(), epochs=epochs, progress=False)
    assert trained.held_out is not None
    assert trained.held_out.accuracy is not None
    assert trained.held_out.accuracy > 0.8
    snapshot = trained.snapshot("first")
    assert snapshot.transform == ("log", None)
    assert set(snapshot.features) == set(FEATURES)
    # It learnt logarithms, as many as were not refused.
    assert sum(snapshot.counts.values()) == 397
    seen = np.array([row.values for row in positive_log(400) if row.state == "worn"])
    mean = [snapshot.means["worn"][name] for name in FEATURES]
    np.testing.assert_allclose(mean, np.log(seen).mean(axis=0), atol=0.05)
    path = tmp_path / "first.slvq"
    snapshot.save(path)
    stream = load_monitor(config(), path)
    assert stream.models() == {}
    Monitor(config(per="device"), Snapshot.load(path))
    for other in ("sqrt", "null"):
        with pytest.raises(OtherModelError, match=r"log.*model\.transform"):
            load_monitor(config(other), path)


def test_several_epochs_count_what_they_refuse(tmp_path: Path) -> None:
    log = write_csv(tmp_path / "log.csv", positive_log(100, bad=3))
    trained = train(log, config(), epochs=2, progress=False)
    assert trained.refused == {"value": 3}
    assert "expected a number above 0" in trained.examples[0]
    nothing = write_csv(tmp_path / "bad.csv", positive_log(100, bad=100))
    with pytest.raises(StreamLVQError, match=r"that model\.transform takes, got no"):
        train(nothing, config(), epochs=2, hold_out=0.0, progress=False)


def test_a_snapshot_of_some_features_is_another_transform() -> None:
    model = FeatureTransform(streamlvq.GLVQ(), "log", ["sensor 0"])
    model.learn_one({"sensor 0": 1.0, "sensor 1": 2.0}, "a")
    with pytest.raises(OtherModelError, match="sensor 0"):
        Monitor(config(), Snapshot.of(model))


def test_a_start_decides_in_sensor_units_from_the_first_reading(tmp_path: Path) -> None:
    log = positive_log(400)
    trained = train(write_csv(tmp_path / "log.csv", log), config(), progress=False)
    bare = Monitor(config(), trained.snapshot())
    stream = Readings.of(
        FEATURES,
        [row.values for row in log],
        devices=[f"new {k}" for k in range(400)],
        times=[row.t for row in log],
        sequences=range(400),
        keys=range(1, 401),
        dedup_windows=[DedupWindow.ALL] * 400,
    )
    decisions = bare.step(stream).decisions
    assert decisions is not None
    right = [said == row.state for said, row in zip(decisions.labels(), log, strict=True)]
    assert np.mean(right) > 0.85


# --- the command line ----------------------------------------------------------------------------


def test_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = write_csv(tmp_path / "log.csv", positive_log(300))
    settings, snapshot = tmp_path / "monitor.yaml", tmp_path / "first.slvq"
    settings.write_text(TEXT.replace("TRANSFORM", "log"))
    arguments = ["--config", str(settings), "--quiet"]
    assert main(["train", str(log), *arguments, "-o", str(snapshot)]) == 0
    assert main(["inspect", str(snapshot)]) == 0
    text = capsys.readouterr().out
    assert "FeatureTransform(RelSimRejector(TimeIntegrator(GLVQ)))" in text
    assert "learnt from log of all features" in text
    expected = Snapshot.load(snapshot)
    for prototype in expected.prototypes:
        shown = expected.in_sensor_units(prototype.values)
        assert all(value > 0 for value in shown.values())
        assert all(f"{value:.4g}" in text for value in shown.values())


def test_inspection_of_a_monitor(tmp_path: Path) -> None:
    monitor = Monitor(config("asinh"))
    monitor.step(positive(100))
    save_monitor(monitor, tmp_path / "state.slvq")
    assert "learnt from asinh of all features" in inspect(tmp_path / "state.slvq")
