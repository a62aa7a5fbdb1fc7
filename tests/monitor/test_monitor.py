"""One deterministic step: the same events give the same decisions and the same state."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamlvq
from streamlvq.config import Config, loads
from streamlvq.events import DedupWindow, LateLabel, Readings
from streamlvq.monitor import Monitor, OtherModelError, Outcome
from streamlvq.monitor.admission import DuplicateFilter
from streamlvq.monitor.checkpoint import _warn_without
from streamlvq.monitor.pipeline import Pipeline
from streamlvq.snapshot import Snapshot, SnapshotError
from streamlvq.wrappers.base import unwrap
from support.streams import assert_decides_like, cut, readings, say

TEXT = """
broker: {receive_maximum: 50}
readings: {topic: "plant/{site}/{device}", sequence: seq, time: t}
labels: {topic: "labels/{site}/{device}", sequence: seq, wait: 200}
decisions: {topic: "out/{site}/{device}"}
model: {type: GLVQ}
integrator: {window: 3}
rejector: {target_rate: 0.1, memory: 50}
state: {duplicates: 100}
"""


def config(text: str = TEXT, **changes: str) -> Config:
    for section, value in changes.items():
        lines = [line for line in text.splitlines() if not line.startswith(f"{section}:")]
        text = "\n".join([*lines, f"{section}: {value}" if value else ""])
    return loads(text)


def refusals(outcome: Outcome) -> list[tuple[int, str]]:
    return [(refused.source, refused.reason) for refused in outcome.refused]


# --- the same, however it comes ------------------------------------------------------------------


@pytest.mark.parametrize("model", ["GLVQ", "LGMLVQ", "LVQCommittee"])
@pytest.mark.parametrize("rejector", ["", "{target_rate: 0.1, memory: 50}"])
def test_batches_make_no_difference(model: str, rejector: str) -> None:
    wanted = config(model=f"{{type: {model}}}", rejector=rejector)
    stream = readings(300, twice=0.1)
    first, second = Monitor(wanted), Monitor(wanted)
    assert say(first, stream, seed=1) == say(second, stream, seed=2)
    assert first.checkpoint() == second.checkpoint()


def test_decisions_are_those_of_the_wrappers() -> None:
    model = streamlvq.RelSimRejector(
        streamlvq.TimeIntegrator(streamlvq.GLVQ(), window=3), target_rate=0.1, memory=50
    )
    stream = readings(250)
    said = say(Monitor(config()), stream)
    assert_decides_like(said, model, stream)


def test_going_on_from_a_checkpoint_is_as_if_nothing_had_happened() -> None:
    before, after = readings(200, twice=0.1), readings(200, seed=7, twice=0.1)
    after.keys = [key + 1000 for key in after.keys]
    never_stopped = Monitor(config())
    say(never_stopped, before)
    stopped = Monitor.restore(config(), never_stopped.checkpoint())
    assert stopped.checkpoint() == never_stopped.checkpoint()
    assert say(stopped, after) == say(never_stopped, after)
    assert stopped.checkpoint() == never_stopped.checkpoint()


def test_a_checkpoint_before_anything_came() -> None:
    empty = Monitor.restore(config(), Monitor(config()).checkpoint())
    assert say(empty, readings(50)) == say(Monitor(config()), readings(50))


def test_before_anything_is_learnt() -> None:
    stream = readings(20, labelled=0.0)
    outcome = Monitor(config()).step(stream)
    assert outcome.learnt == 0
    for record in outcome.decisions.records():
        assert (record.label, record.accepted, record.reason) == (None, False, "no_model")
        assert record.probabilities == {}


# --- duplicates ----------------------------------------------------------------------------------


def test_a_duplicate_changes_nothing_and_is_answered() -> None:
    monitor = Monitor(config())
    stream = readings(150)
    say(monitor, stream)
    before = monitor.checkpoint()
    again = stream.select(list(range(140, 150)))
    outcome = monitor.step(again)
    assert monitor.checkpoint() == before
    assert (outcome.duplicates, outcome.learnt) == (10, 0)
    assert outcome.decisions.sequences == list(range(140, 150))
    assert all(record.duplicate for record in outcome.decisions.records())


def test_a_sensor_at_rest_says_the_same_twice() -> None:
    monitor = Monitor(config())
    stream = readings(100)
    say(monitor, stream)
    same = stream.select([99])
    same.dedup_windows = [DedupWindow.NONE]
    assert monitor.step(same).duplicates == 0
    same.dedup_windows = [DedupWindow.ALL]
    assert monitor.step(same).duplicates == 1


def test_counters_start_over_and_redeliveries_are_told_apart() -> None:
    """A device that counts to 150 and starts over, with a sensor at rest."""
    monitor = Monitor(config(state="{duplicates: 1000}"))
    stream = readings(150)
    stream.dedup_windows = [DedupWindow.RECENT] * 150
    assert monitor.step(stream).duplicates == 0
    assert monitor.step(stream).duplicates == 0  # every reading is 150 readings ago
    assert monitor.step(stream.select([149, 100])).duplicates == 2  # just said
    stream.dedup_windows = [DedupWindow.ALL] * 150
    assert monitor.step(stream).duplicates == 150  # the broker says so


def test_what_comes_again_is_remembered_anew() -> None:
    memory = DuplicateFilter(4)
    assert [memory.seen_before(key, DedupWindow.NONE) for key in (7, 1, 2, 3, 7, 4)] == [False] * 6
    assert memory.seen_before(7, DedupWindow.ALL)
    assert not memory.seen_before(1, DedupWindow.ALL)
    again = DuplicateFilter(4)
    again.restore(np.array(memory.keys()))
    assert again.keys() == memory.keys() == [3, 7, 4, 1]
    assert [again.seen_before(key, DedupWindow.ALL) for key in (3, 7, 4, 1)] == [True] * 4


@given(st.lists(st.integers(1, 12), max_size=60), st.integers(1, 6), st.integers(0, 8))
def test_duplicates_are_those_of_a_list(keys: list[int], room: int, span: int) -> None:
    memory, came = DuplicateFilter(room), []
    for key in keys:
        expected = span > 0 and key in came[-min(span, room) :]
        assert memory.seen_before(key, span) == expected
        if not expected:
            came.append(key)
    assert memory.keys() == came[-room:]


def test_memory_of_duplicates_is_bounded() -> None:
    monitor = Monitor(config())
    stream = readings(300)
    say(monitor, stream)
    assert monitor.step(stream.select([250])).duplicates == 1  # 100 are remembered
    assert monitor.step(stream.select([150])).duplicates == 0


# --- late labels ---------------------------------------------------------------------------------


def late(stream: Readings, k: int, label: str, **changes: Any) -> LateLabel:
    given = LateLabel(stream.devices[k], "", label, None, stream.sequences[k])
    return given._replace(**changes)


def test_a_late_label_is_learnt() -> None:
    monitor = Monitor(config())
    stream = readings(100)
    say(monitor, stream)
    k = max(i for i, y in enumerate(stream.labels) if y is None)
    model = monitor.models()[""].classifier.classifier
    twin = Snapshot.of(model, node="twin").classifier()
    outcome = monitor.step(late(stream, k, "class 1"))
    assert (outcome.learnt, outcome.decisions) == (1, None)
    twin.learn_one(dict(zip(stream.features, stream.rows[k].tolist(), strict=True)), "class 1")
    assert Snapshot.of(model, node="n").to_bytes() == Snapshot.of(twin, node="n").to_bytes()


def test_a_label_that_belongs_to_nothing_is_refused() -> None:
    monitor = Monitor(config())
    stream = readings(100)
    say(monitor, stream)
    k = max(i for i, y in enumerate(stream.labels) if y is None)
    before = monitor.checkpoint()
    for stranger in (
        late(stream, k, "class 1", device="nobody"),
        late(stream, k, "class 1", sequence=4711),
        late(stream, k, "class 1", sequence=None),
        late(stream, max(i for i, y in enumerate(stream.labels) if y), "class 1"),
    ):
        assert refusals(monitor.step(stranger)) == [(0, "label")]
    assert monitor.checkpoint() == before
    assert monitor.step(late(stream, k, "class 1")).learnt == 1
    assert refusals(monitor.step(late(stream, k, "class 1"))) == [(0, "label")]


def test_a_late_label_that_is_delivered_twice_is_no_stranger() -> None:
    monitor = Monitor(config())
    stream = readings(100)
    say(monitor, stream)
    k = max(i for i, y in enumerate(stream.labels) if y is None)
    label = late(stream, k, "class 1", key=987, dedup_window=DedupWindow.ALL)
    assert monitor.step(label).learnt == 1
    assert monitor.step(label) == Outcome(duplicates=1)


def test_a_label_that_came_too_early_may_come_again() -> None:
    monitor = Monitor(config())
    stream = readings(100)
    k = max(i for i, y in enumerate(stream.labels) if y is None)
    early = late(stream, k, "class 1", key=987, dedup_window=DedupWindow.RECENT)
    assert refusals(monitor.step(early)) == [(0, "label")]
    say(monitor, stream)
    assert monitor.step(early).learnt == 1


def test_late_labels_keep_to_the_limits() -> None:
    monitor = Monitor(config(model="{type: GLVQ, max_features: 5, max_classes: 4}"))
    stream = readings(100)
    say(monitor, stream)
    k = max(i for i, y in enumerate(stream.labels) if y is None)
    assert refusals(monitor.step(late(stream, k, "a fifth"))) == [(0, "model")]
    assert monitor.step(late(stream, k, "class 1")).learnt == 1  # it waits still


def test_labels_by_time() -> None:
    monitor = Monitor(config(labels='{topic: "labels/{site}/{device}", time: t, wait: 200}'))
    stream = readings(100)
    say(monitor, stream)
    k = max(i for i, y in enumerate(stream.labels) if y is None)
    label = late(stream, k, "class 1", sequence=None, t=stream.times[k])
    assert monitor.step(label).learnt == 1


def test_readings_wait_in_checkpoints_too_and_not_for_ever() -> None:
    monitor = Monitor(config(labels='{topic: "labels/{site}/{device}", sequence: seq, wait: 5}'))
    stream = readings(100)
    say(monitor, stream)
    monitor = Monitor.restore(monitor.config, monitor.checkpoint())
    assert monitor.waiting == 5
    unlabelled = [i for i, y in enumerate(stream.labels) if y is None]
    assert refusals(monitor.step(late(stream, unlabelled[-6], "class 1"))) == [(0, "label")]
    for k in unlabelled[-5:]:
        assert monitor.step(late(stream, k, "class 1")).learnt == 1


def test_thresholds_hear_of_late_labels() -> None:
    monitor = Monitor(config(rejector="{target_accuracy: 0.9, memory: 50}"))
    stream = readings(200, labelled=0.5)
    say(monitor, stream)
    before = monitor.models()[""]._thresholds.recent(None).seen
    for k in [i for i, y in enumerate(stream.labels) if y is None][-20:]:
        monitor.step(late(stream, k, "class 1"))
    assert monitor.models()[""]._thresholds.recent(None).seen == before + 20


# --- an adaptive window --------------------------------------------------------------------------

ADAPTIVE = {"integrator": "{window: adaptive}", "labels": ""}
WAITING = '{topic: "labels/{site}/{device}", sequence: seq, wait: 60}'


def learnt_by_filter(monitor: Monitor) -> list[float]:
    *_, integrator, _ = unwrap(monitor.models()[""])
    numbers: list[float] = integrator.memory_state()[0]["fitted"].tolist()
    return numbers


@pytest.mark.parametrize("model", ["GLVQ", "LVQCommittee"])
def test_batches_make_no_difference_to_an_adaptive_window(model: str) -> None:
    """Labels come with readings and later, batches are cut anywhere, and it goes on from files."""
    changes = {**ADAPTIVE, "labels": WAITING, "model": f"{{type: {model}}}"}
    if model == "LVQCommittee":
        changes["rejector"] = ""
    wanted = config(**changes)
    stream = readings(300, labelled=0.5, twice=0.1)
    labels = [k for k, y in enumerate(stream.labels) if y is None]
    monitors = [Monitor(wanted), Monitor(wanted)]
    said: list[list[Any]] = [[], []]
    for first in range(0, 300, 50):
        part = stream.select(list(range(first, first + 50)))
        for k, each in enumerate(monitors):
            said[k] += say(each, part, seed=10 * k + first)
            for row in [row for row in labels if first - 20 <= row < first + 30]:
                each.step(late(stream, row, f"class {row % 2}"))
        monitors[1] = Monitor.restore(wanted, monitors[1].checkpoint())
    assert said[0] == said[1]
    assert monitors[0].checkpoint() == monitors[1].checkpoint()
    a, b, *_ = learnt_by_filter(monitors[0])
    assert (a, b) != (0.0, 1.0)


def test_late_labels_teach_an_adaptive_window_what_wrappers_learn() -> None:
    """As with `last_evidence` and `record_label` around a model that learns them as well."""
    monitor = Monitor(config(**{**ADAPTIVE, "labels": WAITING, "rejector": ""}))
    model = streamlvq.TimeIntegrator(streamlvq.GLVQ())
    stream = readings(200, labelled=0.3)
    evidence: dict[int, Any] = {}
    for k in range(200):
        monitor.step(stream.select([k]))
        x = dict(zip(stream.features, stream.rows[k].tolist(), strict=True))
        keywords = {"device": stream.devices[k], "t": stream.times[k]}
        model.predict_one(x, **keywords)
        evidence[k] = model.last_evidence()
        if stream.labels[k] is None:
            model.observe_one(x, scales=False, **keywords)
        else:
            model.learn_one(x, stream.labels[k], **keywords)
        due = k - 10
        if due >= 0 and stream.labels[due] is None and model.classes:
            y = f"class {due % 2}"
            assert monitor.step(late(stream, due, y)).learnt == 1
            row = stream.rows[due].tolist()
            model.classifier.learn_one(dict(zip(stream.features, row, strict=True)), y)
            model.record_label(evidence[due], y, device=stream.devices[due])
    assert learnt_by_filter(monitor) == model.memory_state()[0]["fitted"].tolist()
    assert learnt_by_filter(monitor)[0] != 0.0


def test_evidence_is_dropped_with_the_model_that_gave_it() -> None:
    """Another model has its classes in another order."""
    monitor = Monitor(config(**{**ADAPTIVE, "labels": WAITING, "rejector": ""}))
    stream = readings(100, labelled=0.5)
    say(monitor, stream)
    assert any(reading.local.evidence is not None for _, reading in monitor._pending.items())
    monitor.set_classifier("", monitor.models()[""])
    assert all(reading.local.evidence is None for _, reading in monitor._pending.items())
    k = max(i for i, y in enumerate(stream.labels) if y is None)
    before = learnt_by_filter(monitor)
    assert monitor.step(late(stream, k, "class 1")).learnt == 1
    assert learnt_by_filter(monitor)[:2] == before[:2]


FORGED_EVIDENCE: dict[str, Any] = {
    "too much": lambda a: {**a, "evidence": np.append(a["evidence"], [0.0, 0.0])},
    "positive": lambda a: {**a, "evidence": a["evidence"] + 30.0},
    "nan": lambda a: {**a, "evidence": a["evidence"] * np.nan},
    "too small": lambda a: {**a, "evidence": a["evidence"] - 100.0},
    "for fewer": lambda a: {**a, "evidence_classes": a["evidence_classes"][1:]},
    "negative": lambda a: {**a, "evidence_classes": -a["evidence_classes"]},
    "no classes": lambda a: {n: v for n, v in a.items() if n != "evidence_classes"},
}


@pytest.mark.parametrize("forgery", FORGED_EVIDENCE)
def test_forged_evidence_is_refused(forgery: str) -> None:
    wanted = config(**{**ADAPTIVE, "labels": WAITING, "rejector": ""})
    monitor = Monitor(wanted)
    say(monitor, readings(100, labelled=0.5))
    arrays, extra = monitor._pending.state()
    Monitor(wanted)._pending.restore(arrays, extra)
    with pytest.raises((ValueError, KeyError)):
        Monitor(wanted)._pending.restore(FORGED_EVIDENCE[forgery](arrays), extra)


# --- groups --------------------------------------------------------------------------------------


def test_one_model_per_device_is_as_many_monitors() -> None:
    wanted = config(model="{type: GLVQ, per: device}")
    stream = readings(300, devices=3)
    stream.groups = list(stream.devices)
    together = say(Monitor(wanted), stream)
    for device in sorted(set(stream.devices)):
        own = [k for k, name in enumerate(stream.devices) if name == device]
        alone = say(Monitor(wanted), stream.select(own))
        # of classes that only other models know nothing is said
        assert alone == [together[k] for k in own]


def test_groups_survive_a_checkpoint() -> None:
    wanted = config(model="{type: GLVQ, per: device}")
    stream = readings(200, devices=3)
    stream.groups = list(stream.devices)
    monitor = Monitor(wanted)
    say(monitor, stream)
    twin = Monitor.restore(wanted, monitor.checkpoint())
    assert sorted(twin.models()) == sorted(set(stream.devices))
    assert twin.devices == monitor.devices == 3


# --- limits --------------------------------------------------------------------------------------


def test_too_many_models() -> None:
    monitor = Monitor(config(model="{type: GLVQ, per: device, limit: 2}"))
    stream = readings(6)
    stream.groups = ["a", "b", "c", "a", "d", "b"]
    outcome = monitor.step(stream)
    assert refusals(outcome) == [(2, "model"), (4, "model")]
    assert outcome.decisions.sources == [0, 1, 3, 5]
    assert sorted(monitor.models()) == ["a", "b"]


def test_too_many_classes_and_features() -> None:
    monitor = Monitor(config(model="{type: GLVQ, max_classes: 2, max_features: 5}"))
    stream = readings(5, labelled=1.0, features=4)
    stream.labels = ["a", "b", "c", "a", None]
    assert refusals(monitor.step(stream)) == [(2, "model")]
    wide = readings(3, seed=3, features=6)
    assert refusals(monitor.step(wide)) == [(0, "model"), (1, "model"), (2, "model")]
    assert monitor.models()[""].classifier.classifier.classes == ("a", "b")


@pytest.mark.parametrize("value", [np.inf, -np.inf, 1e61])
def test_absurd_values_are_refused_and_the_rest_is_kept(value: float) -> None:
    monitor, clean = Monitor(config()), Monitor(config())
    stream = readings(100)
    rest = [k for k in range(100) if k != 60]
    say(clean, stream.select(rest))
    stream.rows[60, 2] = value
    outcome = monitor.step(stream)
    assert refusals(outcome) == [(60, "value")]
    assert "sensor 2" in outcome.refused[0].text
    assert monitor.checkpoint() == clean.checkpoint()


def test_what_is_refused_does_not_depend_on_batches() -> None:
    """What is refused for one reason must not use up the room of others."""
    wanted = config(
        model="{type: GLVQ, per: device, limit: 2, max_classes: 2}",
        integrator="{window: 3, max_gap: 5}",
    )
    rng = np.random.default_rng(0)
    for seed in range(20):
        stream = readings(30, seed=seed, labelled=0.8, classes=4)
        stream.groups = list(stream.devices)
        stream.times = [None if rng.random() < 0.2 else t for t in stream.times]
        stream.rows[rng.random(30) < 0.1, 1] = np.inf
        whole, pieces = Monitor(wanted), Monitor(wanted)
        expected = refusals(whole.step(stream))
        assert len({source for source, _ in expected}) == len(expected)
        found = [r for part in cut(stream, seed, 4) for r in refusals(pieces.step(part))]
        assert found == expected
        assert whole.checkpoint() == pieces.checkpoint()


def test_windows_with_gaps_need_times() -> None:
    monitor = Monitor(config(integrator="{window: 3, max_gap: 5}"))
    stream = readings(10)
    stream.times[4] = None
    outcome = monitor.step(stream)
    assert refusals(outcome) == [(4, "field")]
    assert "max_gap" in outcome.refused[0].text


def test_a_defect_hits_one_reading_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monitor, clean = Monitor(config()), Monitor(config())
    for each in (monitor, clean):
        say(each, readings(20))
        each._groups[""].local.batch_parts = None
    stream = readings(30, seed=4)
    stream.keys = [key + 500 for key in stream.keys]
    say(clean, stream.select([k for k in range(30) if k != 17]))
    learn, x = streamlvq.GLVQ.learn_one, stream.rows[17].tolist()

    def defective(model: Any, reading: dict[str, float], y: str) -> None:
        if list(reading.values()) == x:
            raise ZeroDivisionError("for a test")
        learn(model, reading, y)

    stream.labels[17], stream.rows[17] = "class 1", (x := [1.0, 2.0, 3.0, 4.0, 5.0])
    monkeypatch.setattr(streamlvq.GLVQ, "learn_one", defective)
    outcome = monitor.step(stream)
    assert refusals(outcome) == [(17, "failure")]
    assert "ZeroDivisionError: for a test" in outcome.refused[0].text
    assert len(outcome.decisions) == 29
    before, after = (Monitor.restore(m.config, m.checkpoint()) for m in (clean, monitor))
    assert before.models()[""].memory_state()[0]["came"].tobytes() == (
        after.models()[""].memory_state()[0]["came"].tobytes()
    )
    assert before.models()[""].classifier.classifier.samples == (
        after.models()[""].classifier.classifier.samples
    )


# --- checkpoints and configurations --------------------------------------------------------------


def test_other_models_are_refused_and_other_wrappers_begin_anew() -> None:
    monitor = Monitor(config())
    say(monitor, readings(100))
    data = monitor.checkpoint()
    with pytest.raises(OtherModelError, match=r"state is that of GLVQ.*asks for GMLVQ"):
        Monitor.restore(config(model="{type: GMLVQ}"), data)
    with pytest.raises(OtherModelError, match=r"model\.per"):
        Monitor.restore(config(model="{type: GLVQ, per: site}"), data)
    with pytest.raises(
        OtherModelError, match=r"parameters\.seed.*cannot change once a model has learnt"
    ):
        Monitor.restore(config(model="{type: GLVQ, parameters: {seed: 5}}"), data)
    faster = Monitor.restore(config(model="{type: GLVQ, parameters: {learning_rate: 0.1}}"), data)
    assert faster.models()[""].classifier.classifier.learning_rate == 0.1
    assert faster.devices == monitor.devices
    wider = Monitor.restore(config(integrator="{window: 9}"), data)
    assert wider.models()[""].classifier.window == 9
    assert wider.devices == 0
    assert wider.models()[""].classifier.classifier.samples > 50
    braver = Monitor.restore(config(rejector="{target_rate: 0.2, memory: 50}"), data)
    assert braver.models()[""].target_rate == 0.2
    assert braver.devices == monitor.devices
    said = config(model="{type: GLVQ, parameters: {learning_rate: 0.02}}")  # which is the default
    assert Monitor.restore(said, data).devices == monitor.devices


def committee(members: str) -> Config:
    return config(model=f"{{type: LVQCommittee, parameters: {{members: {members}}}}}")


def test_a_committee_goes_on_with_the_members_that_it_had() -> None:
    own = "{learner: {type: GLVQ, parameters: {seed: 5}}, bins: }"
    monitor = Monitor(committee(own))
    stream = readings(100)
    say(monitor, stream)
    data = monitor.checkpoint()
    assert Monitor.restore(committee(own), data).checkpoint() == data
    with pytest.raises(OtherModelError, match=r"parameters\.members: .*'bins': .*cannot change"):
        Monitor.restore(committee("{learner: {type: GLVQ, parameters: {seed: 5}}}"), data)
    with pytest.raises(OtherModelError, match=r"parameters\.members: .* says .*'pairs'"):
        Monitor.restore(committee(own.replace("bins: ", "bins: , pairs: ")), data)
    with pytest.raises(OtherModelError, match=r"members: .*'learner': 'GLVQ'.* says .*'LGMLVQ'"):
        Monitor.restore(committee("[learner, bins]"), data)
    with pytest.raises(OtherModelError, match=r"parameters\.members\.learner\.seed: .* with 5"):
        Monitor.restore(committee("{learner: {type: GLVQ}, bins: }"), data)
    faster = "{learner: {type: GLVQ, parameters: {seed: 5, learning_rate: 0.1}}, bins: }"
    restored = Monitor.restore(committee(faster), data)
    assert restored.local("").parts["learner"].learning_rate == 0.1


def test_a_committee_begins_with_what_others_shared(caplog: pytest.LogCaptureFixture) -> None:
    """Which has neither trees nor bins: these stay at home."""
    _warn_without.cache_clear()  # it warns once in a process
    model = streamlvq.LVQCommittee()
    stream = readings(200, labelled=1.0)
    model.learn_array(stream.rows, stream.labels, features=stream.features)
    shared = Snapshot.of(model, node="trained", readings=False)
    for wanted in (committee("[learner, follower]"), config(model="{type: LVQCommittee}")):
        monitor = Monitor(wanted, shared)
        outcome = monitor.step(readings(50, labelled=0.0))
        assert outcome.decisions.versions.tolist() == [200] * 50
        assert list(monitor.local("").parts) == ["learner", "follower"]
        assert Monitor.restore(wanted, monitor.checkpoint()).checkpoint() == monitor.checkpoint()
    assert "goes on without bins, forest" in caplog.text
    with pytest.raises(OtherModelError, match=r"parameters\.members: the state was written with"):
        Monitor(committee("[learner, pairs]"), shared).step(readings(5))
    whole = Monitor(config(model="{type: LVQCommittee}"), Snapshot.of(model, node="trained"))
    assert list(whole.local("").parts) == ["learner", "follower", "forest", "bins"]


def test_a_snapshot_to_begin_with() -> None:
    model = streamlvq.GLVQ()
    stream = readings(200, labelled=1.0)
    model.learn_array(stream.rows, stream.labels, features=stream.features)
    monitor = Monitor(config(), Snapshot.of(model, node="trained"))
    outcome = monitor.step(readings(50, labelled=0.0))
    assert outcome.decisions.versions.tolist() == [200] * 50
    with pytest.raises(OtherModelError, match=r"is a snapshot of GLVQ, .*asks for GMLVQ"):
        Monitor(config(model="{type: GMLVQ}"), Snapshot.of(model, node="trained"))


def trained_chain(rejector: dict[str, Any], window: Any = "adaptive") -> Snapshot:
    integrator = streamlvq.TimeIntegrator(streamlvq.GLVQ(), window=window)
    pipeline = Pipeline(streamlvq.RelSimRejector(integrator, **rejector))
    for part in cut(readings(600), seed=1):
        assert not pipeline.step(part, [False] * len(part)).failures
    return Snapshot.of(pipeline.classifier)


@pytest.mark.parametrize(
    "rejector",
    [
        {"target_rate": 0.1, "memory": 50},
        {"target_accuracy": 0.9, "per_class": True},
        {"threshold": 0.2},
    ],
    ids=str,
)
def test_wrappers_go_on_with_what_a_snapshot_learnt(
    rejector: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    snapshot = trained_chain(rejector)
    wanted = config(integrator="{window: adaptive}", rejector=json.dumps(rejector))
    monitor = Monitor(wanted, snapshot)
    far = readings(100, seed=7, labelled=0.0)
    far.rows[:] = 1e4 * (1.0 + np.abs(far.rows))
    outcome = monitor.step(far)
    assert outcome.decisions is not None
    records = list(outcome.decisions.records())
    twin = snapshot.classifier()
    twin_integrator = twin.classifier
    for name in list(twin_integrator._windows._slots):  # they belong to devices of another time
        twin_integrator.reset(name)
    x = dict(zip(far.features, far.rows[0].tolist(), strict=True))
    x = {name: value for name, value in x.items() if value == value}
    told = twin.decide_one(x, device="device 0", t=far.times[0])
    threshold = np.inf if records[0].threshold is None else records[0].threshold
    assert threshold == pytest.approx(told.threshold, abs=1e-6)
    assert records[0].novelty == pytest.approx(told.novelty, abs=1e-6)
    assert {record.reason for record in records} == {"outlier"}
    ours = monitor.models()[""].classifier
    fitted = ours.memory_state()[0]["fitted"]
    np.testing.assert_array_equal(fitted, twin_integrator.memory_state()[0]["fitted"])
    assert len(ours._windows) == len(set(far.devices))
    assert caplog.messages == []
    again = Monitor.restore(wanted, monitor.checkpoint(), snapshot)
    assert say(again, readings(60, seed=8)) == say(monitor, readings(60, seed=8))


@pytest.mark.parametrize(
    ("changes", "anew"),
    [
        ({"rejector": "{target_rate: 0.2, memory: 50}"}, "the rejector of"),
        ({"rejector": "{target_rate: 0.1, memory: 50, type: probability}"}, "the rejector of"),
        ({"integrator": "{window: 3}"}, "the integrator and the rejector of"),
        ({"integrator": ""}, "the rejector of"),
    ],
    ids=str,
)
def test_other_wrappers_begin_anew_and_say_so_once(
    changes: dict[str, str], anew: str, caplog: pytest.LogCaptureFixture
) -> None:
    same = {"integrator": "{window: adaptive}", "rejector": "{target_rate: 0.1, memory: 50}"}
    start = trained_chain({"target_rate": 0.1, "memory": 50})
    wanted = config(**{**same, **changes}, model="{type: GLVQ, per: device}")
    monitor = Monitor(wanted, start)
    assert caplog.messages == []  # whoever goes on from a checkpoint loses nothing
    stream = readings(30, seed=7, labelled=0.0)
    stream.groups = list(stream.devices)
    say(monitor, stream)
    assert len(monitor.models()) > 1
    assert len(caplog.messages) == 1
    assert anew in caplog.messages[0]


def test_damaged_checkpoints_are_refused() -> None:
    monitor = Monitor(config())
    say(monitor, readings(60))
    data = monitor.checkpoint()
    rng = np.random.default_rng(0)
    for _ in range(50):
        damaged = bytearray(data)
        damaged[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))
        with pytest.raises(SnapshotError):
            Monitor.restore(config(), bytes(damaged))
    with pytest.raises(SnapshotError):
        Monitor.restore(config(), data[: len(data) // 2])
    with pytest.raises(SnapshotError):
        Monitor.restore(config(), Snapshot.of(streamlvq.GLVQ(), node="n").to_bytes())


def test_compile_leaves_no_trace() -> None:
    monitor = Monitor(config())
    monitor.compile()
    assert monitor.checkpoint() == Monitor(config()).checkpoint()


# --- readings that nobody could judge -------------------------------------------------------------

README = "integrator: {window: 5}\nrejector: {REJECTOR}\nmodel: {type: MODEL}\n"
REJECTORS = {
    "rate": "target_rate: 0.05",
    "zero": "threshold: 0",
    "accuracy": "target_accuracy: 0.5",
    "cost": "reject_cost: 0.9",
    "probability": "type: probability, target_rate: 0.05",
}


def lasting_states(count: int, seed: int = 0) -> Readings:
    """Readings of three states that last for 20 readings each: a window lags at every change."""
    rng = np.random.default_rng(seed)
    y = np.repeat(rng.integers(0, 3, count // 20), 20)
    rows = rng.normal(0, 0.6, (count, 4)) + 3 * np.eye(4)[y]
    return Readings.of(list("abcd"), rows, labels=[f"state {c}" for c in y])


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("rejector", REJECTORS)
def test_what_has_no_certainty_is_not_accepted(rejector: str, alone: bool) -> None:
    text = README.replace("REJECTOR", REJECTORS[rejector]).replace("MODEL", "LGMLVQ")
    monitor, stream = Monitor(loads(text)), lasting_states(1200)
    parts = [[k] for k in range(1200)] if alone else [slice(k, k + 40) for k in range(0, 1200, 40)]
    certainties, accepted, reasons = [], [], []
    for part in parts:
        decisions = monitor.step(stream.select(part)).decisions
        assert decisions is not None
        certainties += decisions.certainties.tolist()
        accepted += decisions.accepted.tolist()
        reasons += decisions.reasons
    assert not any(a for c, a in zip(certainties, accepted, strict=True) if c == 0.0)
    if rejector == "rate":  # more than the share have none: these are rejected, and at a time
        # when fewer had none among the last readings, another one
        zeros = certainties[200:].count(0.0)
        by_certainty = zip(certainties[200:], reasons[200:], strict=True)
        rejected = sum(c == 0.0 or reason not in (None, "outlier") for c, reason in by_certainty)
        assert zeros > 50 and zeros <= rejected <= zeros + 2


@pytest.mark.parametrize("rejector", ["", *REJECTORS])
@pytest.mark.parametrize("model", ["LGMLVQ", "GLVQ", "LVQCommittee"])
def test_a_reading_without_known_features_is_not_accepted(model: str, rejector: str) -> None:
    text = README.replace("MODEL", model).replace("REJECTOR", REJECTORS.get(rejector, ""))
    if not rejector:
        text = text.replace("rejector: {}\n", "")
    monitor = Monitor(loads(text))
    say(monitor, lasting_states(400))
    empty = Readings.of(list("abcd"), np.full((3, 4), np.nan))
    foreign = Readings.of(["speed", "power"], [[1.0, 2.0]] * 3)
    for strange in (foreign, empty):
        decisions = monitor.step(strange).decisions
        assert decisions is not None
        assert decisions.accepted.tolist() == [False] * 3
        assert decisions.reasons == ["no_feature"] * 3
        assert decisions.certainties.tolist() == [0.0] * 3
