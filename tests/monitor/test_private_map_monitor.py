"""Private features from the configuration to the daemon's models, checkpoints and logs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml

import streamlvq
from streamlvq import FeatureTransform, RelSimRejector, TimeIntegrator
from streamlvq.cli import main
from streamlvq.config import Config, ConfigError, loads
from streamlvq.events import LateLabel
from streamlvq.monitor import Monitor, OtherModelError
from streamlvq.privacy import PrivateMap
from streamlvq.replay import train
from streamlvq.snapshot import Snapshot
from support.replays import rows, write_csv
from support.streams import assert_decides_like, readings, say

TEXT = """
readings: {topic: "plant/{device}", time: t, label: state, device: pump}
labels: {topic: "labels/{device}", time: t, wait: 200}
model: {type: GLVQ, private: PRIVATE}
integrator: {window: 3}
rejector: {target_rate: 0.1, memory: 50}
"""


def hiding() -> PrivateMap:
    """A map that hides the first sensor, fitted to another stream; unknown ones do not pass."""
    names = readings(2).features
    return PrivateMap.fit(readings(400, seed=9).rows, [names[0]], names)


def config(private: PrivateMap | None = None) -> Config:
    return loads(TEXT.replace("PRIVATE", str((private or hiding()).to_dict())))


def test_a_monitor_decides_as_the_wrappers_do() -> None:
    inside = RelSimRejector(
        TimeIntegrator(streamlvq.GLVQ(), window=3, max_devices=100_000), target_rate=0.1, memory=50
    )
    model = FeatureTransform(inside, None, private=hiding())
    stream, monitor = readings(300), Monitor(config())
    monitor.compile()
    said = say(monitor, stream, seed=1)
    assert_decides_like(said, model, stream)
    assert Snapshot.of(monitor.models()[""]).to_bytes() == Snapshot.of(model).to_bytes()
    assert stream.features[0] not in monitor.features("")
    assert monitor.newcomers() == ([], [])


def test_batches_make_no_difference() -> None:
    stream = readings(300, twice=0.1)
    first, second = Monitor(config()), Monitor(config())
    assert say(first, stream, seed=1) == say(second, stream, seed=2)
    assert first.checkpoint() == second.checkpoint()
    again = Monitor.restore(config(), first.checkpoint())
    more = readings(100, seed=4)
    assert say(again, more, seed=1) == say(first, more, seed=1)


def test_late_labels_teach_what_the_model_sees() -> None:
    stream = readings(60, labelled=1.0)
    at_once, late = Monitor(config()), Monitor(config())
    at_once.step(stream)
    late.step(stream.select(slice(0, 59)))
    last = stream.select(slice(59, 60))
    late.step(replace(last, labels=[None]))
    label = LateLabel(last.devices[0], "", last.labels[0], last.times[0], None, key=999)
    assert late.step(label).learnt == 1
    means = [Snapshot.of(each.models()[""]).means for each in (at_once, late)]
    assert means[0] == means[1]


def test_another_map_is_refused() -> None:
    monitor = Monitor(config())
    monitor.step(readings(50))
    other = PrivateMap(hiding().means, {name: {} for name in hiding().slopes})
    with pytest.raises(OtherModelError, match="behind another map of private features"):
        Monitor.restore(config(other), monitor.checkpoint())
    with pytest.raises(OtherModelError, match="behind another map of private features"):
        Monitor(config(), Snapshot.of(streamlvq.GLVQ())).step(readings(5))
    elsewhere = streamlvq.GLVQ()
    elsewhere.learn_array(readings(50).rows, ["a", "b"] * 25, readings(2).features)
    with pytest.raises(ValueError, match=r"same map of private features.*got none"):
        monitor.serve("", elsewhere)
    monitor.serve("", FeatureTransform(elsewhere, None, private=hiding()))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{means: {a: 1}}", "expected a map with means and slopes"),
        ("{means: {a: .nan}, slopes: {}}", "finite number"),
        ("{means: {a: 1}, slopes: {b: {c: 1}}}", "got one for 'c'"),
    ],
)
def test_other_maps_are_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=rf"model\.private: .*{message}"):
        loads(TEXT.replace("PRIVATE", text))


def test_the_private_feature_must_be_read() -> None:
    text = TEXT.replace("PRIVATE", "{means: {a: 1}, slopes: {b: {a: 1}}}")
    with pytest.raises(ConfigError, match=r"model\.private: .*'a', which is not among readings"):
        loads(text.replace("device: pump", "device: pump, features: [b, c]"))


def test_a_map_from_a_log_by_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, out = tmp_path / "plant.csv", tmp_path / "private.yaml"
    write_csv(log, rows(400))
    columns = ["--label", "state", "--time", "t", "--device", "pump"]
    name = log.read_text().splitlines()[0].split(",")
    sensor = next(each for each in name if each not in {"state", "t", "pump"})
    assert main(["hide", str(log), *columns, "--private", sensor, "-o", str(out)]) == 0
    said = capsys.readouterr().out
    assert f"as they are  {sensor}: guessed from the other features with R^2" in said
    assert f"mapped       {sensor}: guessed" in said
    section = yaml.safe_load(out.read_text())
    found = PrivateMap.parse(section["model"]["private"])
    assert found.private == (sensor,)
    assert main(["hide", str(log), *columns, "--private", sensor]) == 0
    assert yaml.safe_load(capsys.readouterr().out) == section
    assert main(["hide", str(log), *columns, "--private", "nobody"]) == 2
    assert "expected the private feature 'nobody' among" in capsys.readouterr().err
    text = "readings: {time: t, label: state, device: pump}\nmodel: {type: GLVQ}"
    made = loads(text + "\n" + "")
    plain = yaml.safe_dump({"readings": {"time": "t", "label": "state", "device": "pump"},
                            "model": {"type": "GLVQ", **section["model"]}})  # fmt: skip
    for epochs in (1, 2):
        trained = train(log, loads(plain), epochs=epochs, progress=False).snapshot()
        assert trained.private == (sensor,) and sensor not in trained.features
    assert np.isfinite(train(log, made, progress=False).snapshot().samples)


def test_what_a_map_cannot_hide_is_not_called_hidden(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(1)
    load = rng.normal(size=800)
    age = load**2 + 0.1 * rng.normal(size=800)
    lines = [f"{x!r},{y!r}" for x, y in zip(load.tolist(), age.tolist(), strict=True)]
    log, out = tmp_path / "plant.csv", tmp_path / "map.yaml"
    log.write_text("\n".join(["load,age", *lines]) + "\n")
    assert main(["hide", str(log), "--private", "age", "-o", str(out)]) == 0
    said = capsys.readouterr().out
    assert "warning      age is not hidden from a non-linear attacker" in said
    assert "hidden       age" not in said


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_text_cannot_be_a_private_feature(
    suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / f"plant.{suffix}"
    if suffix == "csv":
        lines = ["speed,operator", *(f"{k % 7},{'ann' if k % 2 else 'bo'}" for k in range(80))]
    else:
        lines = [json.dumps({"speed": k % 7, "operator": "ann"}) for k in range(80)]
    log.write_text("\n".join(lines) + "\n")
    assert main(["hide", str(log), "--private", "operator"]) == 2
    error = capsys.readouterr().err
    assert "'operator' is text: give a column of 0 and 1 for each value" in error
