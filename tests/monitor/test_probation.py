"""New features and classes: who is admitted, what is learnt meanwhile, and what is forgotten."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import streamlvq
from streamlvq.config import AdmissionSection, Config, loads
from streamlvq.events import LateLabel, Readings
from streamlvq.monitor import Monitor, probation
from streamlvq.monitor.probation import Probation
from streamlvq.snapshot import SnapshotError
from support.streams import cut, facts, readings

TEXT = """
readings: {topic: "plant/{site}/{device}", sequence: seq, time: t}
labels: {topic: "labels/{site}/{device}", sequence: seq, wait: 200}
decisions: {topic: "out/{site}/{device}"}
model: {type: GLVQ}
integrator: {window: 3}
rejector: {target_rate: 0.1, memory: 50}
state: {duplicates: 2000}
admission: {commissioning: 100}
"""


def config(**changes: str) -> Config:
    text = TEXT
    for section, value in changes.items():
        lines = [line for line in text.splitlines() if not line.startswith(f"{section}:")]
        text = "\n".join([*lines, f"{section}: {value}"])
    return loads(text)


def trained(wanted: Config | None = None, count: int = 200) -> Monitor:
    monitor = Monitor(config() if wanted is None else wanted)
    monitor.step(readings(count, labelled=1.0))
    return monitor


def more(count: int, seed: int = 5, **options: Any) -> Readings:
    stream = readings(count, seed=seed, **options)
    return replace(
        stream,
        keys=[key + 10_000 * seed for key in stream.keys],
        sequences=[10_000 * seed + k for k in range(len(stream))],
    )


def with_features(stream: Readings, columns: dict[str, Any]) -> Readings:
    values = np.column_stack([np.broadcast_to(v, len(stream)) for v in columns.values()])
    rows = np.hstack([stream.rows, values])
    return replace(stream, features=(*stream.features, *columns), rows=rows)


def with_labels(stream: Readings, labels: dict[int, Any]) -> Readings:
    found = list(stream.labels)
    for k, label in labels.items():
        found[k] = label
    return replace(stream, labels=found)


def features(monitor: Monitor) -> tuple[Any, ...]:
    return monitor.local("").features


# --- junk ----------------------------------------------------------------------------------------


def test_one_message_of_invented_fields_leaves_the_model_as_it_is() -> None:
    monitor, other = trained(), trained()
    junk = {f"junk {k}": 1.5 * k for k in range(4078)}
    one = more(1, labelled=1.0, missing=0.0)
    outcome = monitor.step(with_features(one, junk))
    other.step(one)
    assert outcome.learnt == 1
    assert outcome.dropped.counts == {"probation": 4078}
    assert features(monitor) == features(other)
    assert monitor.local("").prototypes() == other.local("").prototypes()
    assert len(monitor.newcomers()[0]) == 4078


def test_invented_labels_leave_the_model_as_it_is() -> None:
    monitor = trained()
    before = monitor.local("")
    known, samples = before.classes, before.samples
    stream = more(300, labelled=1.0)
    outcome = monitor.step(with_labels(stream, {k: f"junk {k}" for k in range(300)}))
    assert (outcome.learnt, outcome.held, outcome.refused) == (0, 300, [])
    assert outcome.decisions is not None
    assert outcome.decisions.true_labels[7] == "junk 7"
    assert len(outcome.decisions) == 300
    assert monitor.local("").classes == known
    assert monitor.local("").samples == samples
    assert len(monitor.newcomers()[1]) == 199  # that came lately, of the 256 that are kept


def test_junk_that_does_not_come_again_is_forgotten() -> None:
    monitor = trained()
    monitor.step(with_features(more(1, labelled=1.0), {f"junk {k}": 1.0 for k in range(99)}))
    assert len(monitor.newcomers()[0]) == 99
    assert len(monitor.checkpoint()) > len(trained().checkpoint())
    monitor.step(more(200, seed=6, labelled=1.0))
    assert monitor.newcomers() == ([], [])
    assert b"junk" not in monitor.checkpoint()


def test_memory_is_bounded_whatever_comes() -> None:
    monitor = trained()
    for turn in range(5):
        junk = {f"junk {turn} {k}": 1.0 for k in range(4000)}
        monitor.step(with_features(more(1, seed=6 + turn, labelled=1.0), junk))
    assert len(monitor.newcomers()[0]) == probation.MAX_NEW_FEATURES
    assert len(features(monitor)) == 5


# --- what is real --------------------------------------------------------------------------------


def test_a_real_feature_is_learnt_when_it_has_come_five_times() -> None:
    monitor = trained()
    stream = with_features(more(10, labelled=1.0), {"heat": np.arange(10.0)})
    for k in range(10):
        outcome = monitor.step(stream.select([k]))
        assert outcome.learnt == 1
        assert ("heat" in features(monitor)) == (k >= 4)
        assert outcome.dropped.counts == ({"probation": 1} if k < 4 else {})


def test_a_feature_that_does_not_move_is_admitted_when_it_does() -> None:
    monitor = trained()
    values = [1.0] * 20 + [2.0]
    stream = with_features(more(21, labelled=1.0), {"setpoint": values})
    monitor.step(stream.select(slice(0, 20)))
    assert "setpoint" not in features(monitor)
    monitor.step(stream.select([20]))
    assert "setpoint" in features(monitor)


def test_missing_values_and_unlabelled_readings_do_not_count() -> None:
    monitor = trained()
    stream = with_features(more(40, labelled=0.0), {"heat": np.arange(40.0)})
    assert monitor.step(stream).dropped.counts == {}
    monitor.step(with_features(more(40, seed=6, labelled=1.0), {"heat": np.nan}))
    assert monitor.newcomers() == ([], [])
    assert "heat" not in features(monitor)


@pytest.mark.parametrize("model", ["GLVQ", "LGMLVQ", "LVQCommittee"])
def test_a_real_class_is_learnt_with_all_its_readings(model: str) -> None:
    rejector = "{type: probability, target_rate: 0.1}"
    monitor = trained(config(model=f"{{type: {model}}}", rejector=rejector))
    samples = monitor.local("").samples
    stream = with_labels(more(40, labelled=1.0), dict.fromkeys(range(0, 40, 4), "new"))
    learnt = held = 0
    for k in range(40):
        outcome = monitor.step(stream.select([k]))
        learnt, held = learnt + outcome.learnt, held + outcome.held
        assert ("new" in monitor.local("").classes) == (k >= 16)
    assert (learnt, held) == (40, 4)
    assert monitor.local("").samples == samples + 40
    assert monitor.newcomers() == ([], [])


def test_a_rare_class_is_learnt_too() -> None:
    monitor = trained()
    for turn in range(5):
        stream = more(300, seed=6 + turn, labelled=1.0)
        monitor.step(with_labels(stream, {299: "rare"}))
    assert "rare" in monitor.local("").classes
    assert monitor.local("").samples == 1700


def test_a_device_of_which_all_is_new() -> None:
    monitor = trained()
    rng = np.random.default_rng(1)
    for k in range(30):
        row = rng.standard_normal((1, 2))
        monitor.step(Readings.of(["volt", "ampere"], row, labels=["new"], keys=[5000 + k]))
    assert {"volt", "ampere"} < set(features(monitor))
    assert "new" in monitor.local("").classes
    assert monitor.local("").samples == 200 + 30 - 4  # of which nothing could be learnt at first


# --- at once -------------------------------------------------------------------------------------


def test_a_new_model_learns_at_once() -> None:
    monitor = Monitor(config())
    stream = with_labels(readings(99, labelled=1.0), {50: "new"})
    monitor.step(with_features(stream, {"heat": 1.0}))
    assert "heat" in features(monitor)
    assert "new" in monitor.local("").classes
    assert monitor.newcomers() == ([], [])


def test_probation_can_be_switched_off() -> None:
    monitor = trained(config(admission="{after: 1}"))
    stream = with_labels(more(2, labelled=1.0), {1: "new"})
    monitor.step(with_features(stream, {"heat": 1.0}))
    assert "heat" in features(monitor)
    assert "new" in monitor.local("").classes


@pytest.mark.parametrize("admission", ["{commissioning: 0}", "{after: 2, commissioning: 0}"])
def test_probation_may_begin_with_the_first_reading(admission: str) -> None:
    monitor = Monitor(config(admission=admission))
    stream = readings(100, labelled=1.0, missing=0.0)
    learnt = sum(monitor.step(part).learnt for part in cut(stream, 1))
    assert len(features(monitor)) == 5
    assert len(monitor.local("").classes) == 4
    assert 80 <= learnt <= 100


def test_features_that_the_configuration_names_are_admitted_at_once() -> None:
    named = ", ".join([f"sensor {k}" for k in range(5)])
    text = f"{{topic: 'plant/{{site}}/{{device}}', sequence: seq, features: [{named}, heat]}}"
    monitor = trained(config(readings=text))
    monitor.step(with_features(more(1, labelled=1.0), {"heat": 1.0, "junk": 2.0}))
    assert "heat" in features(monitor)
    assert "junk" not in features(monitor)


# --- limits --------------------------------------------------------------------------------------


def test_limits_stay() -> None:
    monitor = trained(config(model="{type: GLVQ, max_classes: 4, max_features: 5}"))
    junk = more(20, labelled=1.0, missing=0.0)
    outcome = monitor.step(with_features(junk, {"heat": np.arange(20.0)}))
    assert [one.reason for one in outcome.refused] == ["model"] * 16  # from the fifth on
    stream = with_labels(more(20, seed=6, labelled=1.0), dict.fromkeys(range(20), "new"))
    outcome = monitor.step(stream)
    assert [one.reason for one in outcome.refused] == ["model"] * 16
    assert "expected at most 4 classes (model.max_classes)" in outcome.refused[0].text


# --- the same, however it comes ------------------------------------------------------------------


def mixed(seed: int, count: int = 400) -> list[Readings]:
    """Known readings, junk, real new features and classes, duplicates, in runs of features."""
    rng = np.random.default_rng(seed)
    runs = []
    for turn in range(8):
        stream = more(count // 8, seed=20 + turn + 100 * seed, labelled=0.7, twice=0.1)
        which = rng.random(len(stream))
        labels = {
            k: "new" if p < 0.1 else f"junk {int(rng.integers(60))}"
            for k, p in enumerate(which)
            if p < 0.3 and stream.labels[k] is not None
        }
        stream = with_labels(stream, labels)
        if turn % 2:
            values = np.where(rng.random(len(stream)) < 0.5, rng.random(len(stream)), np.nan)
            stream = with_features(stream, {"heat": values, f"junk {turn}": 1.0, "still": 2.0})
        runs.append(stream)
    return runs


SETTINGS = {
    "one model": {},
    "a model for each device": {
        "model": "{type: GLVQ, per: device}", "admission": "{commissioning: 20, after: 3}",
    },
    "small windows": {
        "admission": "{after: 3, feature_window: 7, class_window: 9, commissioning: 3}",
    },
    "transform": {"model": "{type: GLVQ, transform: asinh}"},
}  # fmt: skip


def run(monitor: Monitor, runs: list[Readings], seed: int, per_device: bool) -> list[Any]:
    said = []
    for stream in runs:
        if per_device:
            stream.groups = list(stream.devices)
        for part in cut(stream, seed):
            outcome = monitor.step(part)
            assert outcome.refused == []
            assert outcome.decisions is not None
            said += facts(outcome.decisions)
    return said


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_batches_make_no_difference(name: str, seed: int) -> None:
    wanted, per_device = config(**SETTINGS[name]), "per" in SETTINGS[name].get("model", "")
    first, second = Monitor(wanted), Monitor(wanted)
    runs = [readings(150, labelled=1.0), *mixed(seed)]
    assert run(first, runs, 1, per_device) == run(second, runs, 2, per_device)
    assert first.checkpoint() == second.checkpoint()
    if not per_device:
        assert "new" in first.local("").classes


@pytest.mark.parametrize("name", SETTINGS)
def test_going_on_from_a_checkpoint_is_as_if_nothing_had_happened(name: str) -> None:
    wanted, per_device = config(**SETTINGS[name]), "per" in SETTINGS[name].get("model", "")
    never_stopped = Monitor(wanted)
    run(never_stopped, [readings(150, labelled=1.0)], 1, per_device)
    stopped, waited = never_stopped, 0
    for stream in mixed(4):
        stopped = Monitor.restore(wanted, stopped.checkpoint())
        assert stopped.checkpoint() == never_stopped.checkpoint()
        waited += len(stopped.newcomers()[1])
        assert run(stopped, [stream], 1, per_device) == run(never_stopped, [stream], 1, per_device)
    assert stopped.checkpoint() == never_stopped.checkpoint()
    assert waited > 0


def test_duplicates_do_not_count() -> None:
    monitor = trained()
    stream = with_labels(with_features(more(2, labelled=1.0), {"heat": [1.0, 2.0]}), {0: "new"})
    for _ in range(10):
        outcome = monitor.step(stream)
    assert outcome.duplicates == 2
    assert "heat" not in features(monitor)
    assert "new" not in monitor.local("").classes


# --- late labels ---------------------------------------------------------------------------------


def test_late_labels_of_a_new_class_are_held_and_learnt() -> None:
    monitor = trained()
    samples = monitor.local("").samples
    stream = with_features(more(8, labelled=0.0), {"heat": np.arange(8.0)})
    monitor.step(stream)
    learnt = []
    for k in range(8):
        late = LateLabel(stream.devices[k], "", "new", None, stream.sequences[k])
        outcome = monitor.step(late)
        learnt.append((outcome.learnt, outcome.held))
        assert monitor.step(late).refused  # it has its label
        restored = Monitor.restore(monitor.config, monitor.checkpoint())
        assert restored.checkpoint() == monitor.checkpoint()
    assert learnt == [(0, 1)] * 4 + [(5, 0)] + [(1, 0)] * 3
    assert monitor.local("").samples == samples + 8
    assert "heat" in features(monitor)


# --- a served model ------------------------------------------------------------------------------


def test_a_served_model_sees_what_is_on_probation() -> None:
    monitor = trained(config(integrator="{window: 1}"))
    stream = with_features(more(60, labelled=1.0, missing=0.0), {"heat": np.arange(60.0)})
    served = streamlvq.GLVQ()
    for k, row in enumerate(stream.rows.tolist()):
        x = dict(zip(stream.features, row, strict=True))
        served.learn_one(x, "new" if k % 2 else "class 0")
    monitor.serve("", served)
    one = with_labels(stream.select([31]), {0: "new"})
    outcome = monitor.step(one)
    assert outcome.decisions is not None
    [record] = outcome.decisions.records()
    x = dict(zip(one.features, one.rows[0].tolist(), strict=True))
    assert record.probabilities["new"] == pytest.approx(served.predict_proba_one(x)["new"])
    assert (outcome.held, monitor.serving_score("")["labels"]) == (1, 1)
    assert "heat" not in features(monitor)


# --- files ---------------------------------------------------------------------------------------


def test_a_checkpoint_without_newcomers_has_no_such_section() -> None:
    assert b"probation" not in trained().checkpoint()


@pytest.mark.parametrize(
    "change",
    [
        {"features": [["", "x", [-1], [1.0]]]},
        {"features": [["", "x", [1, 2], [1.0, 2.0]]]},
        {"features": [["", "x", [], []]]},
        {"features": [["", "x", [2], [1.0, 2.0]]]},
        {"classes": [["", "x", [2], [7]]]},
        {"classes": [[1, "x", [2], [0]]]},
        {"more": []},
        {"held": {"features": [], "waiting": [["", 0, "", 0, None]]}},
    ],
)
def test_what_makes_no_sense_is_refused(change: dict[str, Any]) -> None:
    arrays = {"values": np.empty(0), "certainty": np.empty(0)}
    data = {"features": [], "classes": [], "held": {"features": [], "waiting": []}}
    memory = Probation(AdmissionSection())
    memory.restore(arrays, data, lambda group: 100)
    with pytest.raises((ValueError, TypeError, KeyError, IndexError)):
        memory.restore(arrays, data | change, lambda group: 100)


def test_a_damaged_checkpoint_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monitor = trained()
    monitor.step(with_features(more(1, labelled=1.0), {"heat": 1.0}))
    state = Probation.state

    def damaged(self: Probation, clock_of: Any) -> Any:
        arrays, data = state(self, clock_of)
        assert data is not None
        return arrays, data | {"features": [["", "x", [], []]]}

    monkeypatch.setattr(Probation, "state", damaged)
    with pytest.raises(SnapshotError, match="checkpoint: probation: expected an age for each item"):
        Monitor.restore(monitor.config, monitor.checkpoint())
