"""A model that was fused decides; the local one learns as if there were no other."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streamlvq
from streamlvq.config import build_classifier, loads
from streamlvq.events import Readings
from streamlvq.models.vectorizer import KernelBatch
from streamlvq.monitor import Monitor
from streamlvq.monitor.pipeline import Pipeline
from streamlvq.monitor.serving import same
from streamlvq.wrappers.base import unwrap
from support.samples import described, rebuilt
from support.serving import (
    CERTAINTY,
    FEATURES,
    INTEGRATORS,
    LABEL,
    MODES,
    REJECTORS,
    TEXT,
    config,
    fingerprint,
    late,
    monitor_records,
    other,
    per_device,
    pool,
    scored,
    stream,
)
from support.streams import say

# --- the local model stays local -----------------------------------------------------------------

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("readings"), st.integers(1, 60)),
        st.tuples(st.just("serve"), st.integers(0, 7)),
        st.tuples(st.just("late"), st.integers(0, 30)),
        st.tuples(st.just("restart"), st.just(0)),
    ),
    min_size=3,
    max_size=12,
)


def served_by_number(number: int) -> Any:
    """A model, a pool, or None for the local model alone."""
    if number == 5:
        return None
    if number > 5:
        return pool((0, 1), (2, 4, number - 6), seed=number, count=60)
    classes = [(0, 1), (2, 1, 0, 3), (4, 3, 2, 1, 0), (5, 4), (1, 2, 0)]
    return other(classes[number], seed=number, count=60)


def play(monitor: Monitor, steps: list[tuple[str, int]], serves: bool) -> Monitor:
    """Go through a story, with or without what it says about other models."""
    whole = stream(1000, seed=4, twice=0.05)
    done, waiting = 0, []
    for what, number in steps:
        if what == "readings":
            part = whole.select(slice(done, done + number))
            done += number
            monitor.step(part)
            waiting += [late(part, k, "class 1") for k, y in enumerate(part.labels) if y is None]
        elif what == "late" and number < len(waiting):
            monitor.step(waiting[number])
        elif what == "serve" and serves:
            monitor.serve("", served_by_number(number))
        elif what == "restart" and serves:
            monitor = Monitor.restore(monitor.config, monitor.checkpoint())
    return monitor


@settings(max_examples=25, deadline=None)
@given(
    STEPS,
    st.sampled_from(MODES),
    st.sampled_from(list(INTEGRATORS)),
    st.sampled_from(list(REJECTORS)),
)
def test_the_local_classifier_is_that_of_a_monitor_that_serves_nothing(
    steps: list[tuple[str, int]], mode: str, integrator: str, rejector: str
) -> None:
    """Not only the model: its windows and thresholds as well."""
    wanted = config(mode, integrator=integrator, rejector=rejector)
    serving = play(Monitor(wanted), steps, serves=True)
    alone = play(Monitor(wanted), steps, serves=False)
    assert serving.models().keys() - alone.models().keys() <= {""}
    for group, classifier in alone.models().items():
        assert fingerprint(serving.models()[group]) == fingerprint(classifier)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["GLVQ", "LGMLVQ", "RSLVQ", "PairwiseLVQ", "LVQCommittee"])
def test_no_model_learns_from_what_is_served(kind: str, mode: str) -> None:
    model, rejector = f"{{type: {kind}}}", "rate"
    if kind == "PairwiseLVQ":
        rejector = "probability"
    wanted = config(mode, model=model, rejector=rejector)
    alone, serving = Monitor(wanted), Monitor(wanted)
    served = other(model=getattr(streamlvq, kind), count=100)
    before = fingerprint(served)
    for k in range(3):
        serving.serve("", served if k < 2 else other((1, 0), model=getattr(streamlvq, kind)))
        part = stream(150, seed=k)
        say(alone, part, seed=1)
        say(serving, part, seed=2)
    assert fingerprint(serving.local("")) == fingerprint(alone.local(""))
    assert fingerprint(served) == before


@pytest.mark.parametrize("mode", ["both", "fused"])
def test_nothing_is_left_when_the_local_model_decides_again(mode: str) -> None:
    wanted = config(mode)
    alone, serving = Monitor(wanted), Monitor(wanted)
    say(alone, stream(100))
    say(serving, stream(100))
    serving.serve("", other())
    say(alone, stream(150, seed=1))
    say(serving, stream(150, seed=1))
    serving.serve("", None)
    assert serving.serving("") is None
    assert say(serving, stream(100, seed=2)) == say(alone, stream(100, seed=2))


def test_local_mode_decides_as_if_nothing_were_served_and_keeps_an_eye_on_the_other() -> None:
    alone, serving = Monitor(config("local")), Monitor(config("local"))
    serving.serve("", other())
    assert say(serving, stream(200), seed=1) == say(alone, stream(200), seed=2)
    standing = serving.serving_score("")
    assert standing["decides"] == "local"
    assert standing["fused"] > 0.5
    assert standing["labels"] == sum(y is not None for y in stream(200).labels)


# --- decisions are those of the served model -----------------------------------------------------


def by_wrappers(classifier: Any, whole: Readings) -> Iterator[tuple[Any, ...]]:
    """What wrappers say that hear of labels as if they came late: the model never learns."""
    *outer, _ = unwrap(classifier)
    rejects = hasattr(classifier, "decide_one")
    seen = set()
    for k, row in enumerate(whole.rows.tolist()):
        x = dict(zip(whole.features, row, strict=True))
        keywords = {"device": whole.devices[k], "t": whole.times[k]} if outer else {}
        if rejects:
            decision = classifier.decide_one(x, **keywords)
            label, certainty, accepted, reason = decision[:4]
            yield label, accepted, reason, decision.outlier_by, certainty
        else:
            p = classifier.predict_proba_one(x, **keywords)
            label = max(p, key=p.__getitem__)
            yield label, True, None, None, p[label]
        again = whole.keys[k] in seen
        seen.add(whole.keys[k])
        if outer and not again:
            integrator = next((each for each in outer if hasattr(each, "last_evidence")), None)
            evidence = None if integrator is None else integrator.last_evidence()
            classifier.observe_one(x, scales=False, **keywords)
            if integrator is not None and whole.labels[k] is not None:
                integrator.record_label(evidence, whole.labels[k], whole.devices[k])
            if rejects and whole.labels[k] is not None:
                classifier.record_outcome(decision.label, decision.certainty, whole.labels[k])


@pytest.mark.parametrize("rejector", REJECTORS)
@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_decisions_are_those_of_wrappers_around_the_served_model(
    integrator: str, rejector: str
) -> None:
    wanted = config(integrator=integrator, rejector=rejector)
    monitor, whole = Monitor(wanted), stream(250, twice=0.05)
    monitor.serve("", other())
    expected = list(by_wrappers(build_classifier(wanted, other()), whole))
    assert [row[1:6] for row in say(monitor, whole)] == expected
    assert len({label for label, *_ in expected}) == 4


@pytest.mark.parametrize("rejector", REJECTORS)
@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_the_kernel_does_what_the_wrappers_do(integrator: str, rejector: str) -> None:
    wanted = config(integrator=integrator, rejector=rejector)
    fast, slow = Monitor(wanted), Monitor(wanted)
    for each in (fast, slow):
        each.serve("", other())
    assert fast._groups[""].served.pipeline.batch_parts is not None
    slow._groups[""].served.pipeline.batch_parts = None
    whole = stream(250, twice=0.05)
    assert say(fast, whole) == say(slow, whole)
    assert fast.checkpoint() == slow.checkpoint()


def test_a_class_that_this_node_has_never_seen_is_recognised() -> None:
    monitor = Monitor(config(rejector="none", integrator="alone"))
    say(monitor, stream(200))
    monitor.serve("", other())
    strange = stream(60, seed=1, classes=(3,), labelled=0.0, missing=0.0)
    outcome = monitor.step(strange)
    assert outcome.decisions.classes == ("class 3", "class 1", "class 0", "class 2")
    assert outcome.decisions.labels().count("class 3") > 45
    assert set(outcome.decisions.records()[0].probabilities) == set(outcome.decisions.classes)
    assert "class 3" not in monitor.local("").classes


@pytest.mark.parametrize("features", [(4, 2, 0, 1, 3), (3, 1), (0, 1, 2, 3, 4)], ids=str)
@pytest.mark.parametrize("given", [(0, 1, 2, 3, 4), (2, 4, 1)], ids=str)
def test_features_are_found_by_name(features: tuple[int, ...], given: tuple[int, ...]) -> None:
    model = other(features=features)
    monitor = Monitor(config(rejector="none", integrator="alone"))
    monitor.serve("", model)
    whole = stream(80)
    whole.features = tuple(FEATURES[i] for i in given)
    whole.rows = np.ascontiguousarray(whole.rows[:, list(given)])
    for row, record in zip(
        whole.rows.tolist(), monitor.step(whole).decisions.records(), strict=True
    ):
        x = dict(zip(whole.features, row, strict=True))
        assert record.probabilities == model.predict_proba_one(x)
    assert set(monitor.local("").features) == set(whole.features)


def test_a_node_that_has_seen_nothing_decides_at_once() -> None:
    monitor = Monitor(config(rejector="none"))
    monitor.serve("", other())
    outcome = monitor.step(stream(40, labelled=0.0))
    assert outcome.decisions.accepted.all()
    assert monitor.local("").samples == 0
    assert list(monitor.models()) == [""]


def test_a_label_nobody_knows_is_learnt_by_the_local_model_alone() -> None:
    monitor = Monitor(config())
    monitor.serve("", other((0, 1)))
    outcome = monitor.step(stream(100, classes=(0, 1, 5), labelled=1.0))
    assert outcome.learnt == 100
    assert outcome.decisions.classes == ("class 0", "class 1")
    assert set(monitor.local("").classes) == {"class 0", "class 1", "class 5"}
    assert monitor.serving("").classes == ("class 0", "class 1")


# --- however it comes, whenever it stops ---------------------------------------------------------


def story(monitor: Monitor, seed: int, stop: bool = False) -> tuple[list[Any], Monitor]:
    """Readings, late labels and models in turn; with a restart in the middle of each part."""
    said: list[Any] = []
    models = [other((0, 1)), pool(), other((2, 0, 4, 1), seed=7), None, pool((1, 2), (0, 3))]
    for k, model in enumerate(models):
        whole = stream(120, seed=k, twice=0.05)
        said += say(monitor, whole.select(slice(0, 60)), seed)
        if stop:
            monitor = Monitor.restore(monitor.config, monitor.checkpoint())
        monitor.serve("", model)
        said += say(monitor, whole.select(slice(60, None)), seed + 1)
        if stop:
            monitor = Monitor.restore(monitor.config, monitor.checkpoint())
        unlabelled = [i for i, y in enumerate(whole.labels) if y is None]
        said += [monitor.step(late(whole, i, "class 1")).learnt for i in unlabelled[::3]]
        said += [monitor.serving_score(""), scored(monitor)]
    return said, monitor


@pytest.mark.parametrize("rejector", ["none", "rate", "accuracy", "classes accuracy"])
@pytest.mark.parametrize("mode", MODES)
def test_batches_make_no_difference(mode: str, rejector: str) -> None:
    wanted = config(mode, rejector=rejector)
    (first, one), (second, two) = (story(Monitor(wanted), seed) for seed in (1, 20))
    assert first == second
    assert one.checkpoint() == two.checkpoint()


@pytest.mark.parametrize("rejector", ["none", "rate", "accuracy", "classes accuracy"])
@pytest.mark.parametrize("integrator", INTEGRATORS)
@pytest.mark.parametrize("mode", MODES)
def test_going_on_from_a_checkpoint_is_as_if_nothing_had_happened(
    mode: str, integrator: str, rejector: str
) -> None:
    wanted = config(mode, integrator=integrator, rejector=rejector)
    never, stopped = (story(Monitor(wanted), 1, stop) for stop in (False, True))
    assert never[0] == stopped[0]
    assert never[1].checkpoint() == stopped[1].checkpoint()


@pytest.mark.parametrize("rejector", ["probability", "rate"])
def test_committees_can_be_served(rejector: str) -> None:
    wanted = config(model="{type: LVQCommittee}", rejector=rejector)
    said = []
    for seed, stop in ((1, False), (9, True)):
        monitor = Monitor(wanted)
        monitor.serve("", other(model=streamlvq.LVQCommittee, count=100))
        facts_before = say(monitor, stream(80), seed)
        if stop:
            monitor = Monitor.restore(wanted, monitor.checkpoint())
        said.append([facts_before, say(monitor, stream(80, seed=1), seed), monitor.checkpoint()])
    assert said[0] == said[1]


def test_a_centred_window_is_served_without_the_kernel() -> None:
    """Nobody can configure one, but a classifier with one may be adopted."""
    alone, serving = Monitor(config(rejector="none")), Monitor(config(rejector="none"))
    for each in (alone, serving):
        each.set_classifier("", streamlvq.TimeIntegrator(streamlvq.GLVQ(), window=5, centered=True))
        say(each, stream(60))
    serving.serve("", other())
    served, part = serving._groups[""].served.pipeline, stream(60, seed=1)
    assert served.rows_ready(KernelBatch(part, [False] * 60, learns=False)) == 0
    say(alone, stream(60, seed=1))
    assert {row[1] for row in say(serving, stream(60, seed=1))} >= {"class 0", "class 1"}
    assert fingerprint(serving.models()[""]) == fingerprint(alone.models()[""])


@pytest.mark.parametrize("mode", MODES)
def test_groups_are_as_many_monitors(mode: str) -> None:
    wanted = per_device(mode)
    whole = stream(300, devices=3)
    whole.groups = list(whole.devices)
    models = {"device 0": other(), "device 1": other((2, 1), seed=3), "device 2": None}
    together = Monitor(wanted)
    for device, model in models.items():
        together.serve(device, model)
    said = say(together, whole)
    for device, model in models.items():
        alone = Monitor(wanted)
        alone.serve(device, model)
        own = [k for k, name in enumerate(whole.devices) if name == device]
        assert say(alone, whole.select(own), seed=5) == [said[k] for k in own]
        assert fingerprint(alone.local(device)) == fingerprint(together.local(device))
    twin = Monitor.restore(wanted, together.checkpoint())
    assert twin.serving("device 2") is None
    assert twin.serving_score("device 1") == together.serving_score("device 1")
    assert twin.checkpoint() == together.checkpoint()


def test_groups_may_share_what_is_served() -> None:
    wanted = per_device("both")
    shared, model = Monitor(wanted), other()
    own = Monitor(wanted)
    whole = stream(200, devices=3)
    whole.groups = list(whole.devices)
    for device in sorted(set(whole.devices)):
        shared.serve(device, model)
        own.serve(device, other())
    assert say(shared, whole) == say(own, whole)
    assert shared.checkpoint() == own.checkpoint()


# --- another model is served while windows are half full ------------------------------------------


class Window:
    """An integrator in plain Python: of each reading its opinion, and what it says of the rest."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.past: dict[str, list[tuple[dict[str, float], float]]] = {}

    def combine(self, device: str, p: dict[str, float]) -> dict[str, float]:
        logs = {label: math.log(max(value, 1e-6)) for label, value in p.items()}
        for opinion, unknown in self.past.get(device, []):
            logs = {label: value + opinion.get(label, unknown) for label, value in logs.items()}
        top = max(logs.values())
        total = sum(math.exp(value - top) for value in logs.values())
        return {label: math.exp(value - top) / total for label, value in logs.items()}

    def enter(self, device: str, p: dict[str, float]) -> None:
        opinion = {label: math.log(max(value, 1e-6)) for label, value in p.items()}
        past = [*self.past.get(device, []), (opinion, -math.log(len(p)))]
        self.past[device] = past[-(self.size - 1) :]

    def swap(self, classes: Sequence[str]) -> None:
        """Only what is about these classes lives on."""
        for past in self.past.values():
            past[:] = [
                ({label: said for label, said in opinion.items() if label in classes}, unknown)
                for opinion, unknown in past
            ]


def half_full(whole: Readings) -> list[slice]:
    """Parts that end while windows hold one, two or three readings."""
    return [slice(0, 2), slice(2, 9), slice(9, 14), slice(14, 40), slice(40, 43), slice(43, 80)]


def test_windows_live_on_when_another_model_is_served() -> None:
    """Classes come, go, come back, and change places."""
    models = [
        other((0, 1)),
        other((1, 0)),
        other((3, 2, 1, 0)),
        other((2, 4)),
        other((4, 2, 0)),
        other((5, 0, 1, 2, 3, 4)),
    ]
    monitor, window = Monitor(config(rejector="none")), Window(4)
    whole = stream(80, devices=4, labelled=0.3)
    for part, model in zip(half_full(whole), models, strict=True):
        devices = monitor.devices
        monitor.serve("", model)
        window.swap(model.classes)
        assert monitor.devices == devices == len(window.past)
        chosen = whole.select(part)
        for k, record in enumerate(monitor.step(chosen).decisions.records()):
            x = dict(zip(FEATURES, chosen.rows[k].tolist(), strict=True))
            p = model.predict_proba_one(x)
            expected = window.combine(record.device, p)
            assert list(record.probabilities) == list(model.classes)
            assert record.probabilities == pytest.approx(expected, rel=1e-9)
            window.enter(record.device, p)


def test_the_first_windows_are_those_of_the_local_model() -> None:
    monitor, window, whole = Monitor(config(rejector="none")), Window(4), stream(90, labelled=0.5)
    first = whole.select(slice(0, 60))
    local = streamlvq.GLVQ()
    for k, row in enumerate(first.rows.tolist()):
        x = dict(zip(FEATURES, row, strict=True))
        p = local.predict_proba_one(x)
        if p:
            window.enter(first.devices[k], p)
        if first.labels[k] is not None:
            local.learn_one(x, first.labels[k])
    monitor.step(first)
    model = other()
    monitor.serve("", model)
    window.swap(model.classes)
    rest = whole.select(slice(60, None))
    for k, record in enumerate(monitor.step(rest).decisions.records()):
        x = dict(zip(FEATURES, rest.rows[k].tolist(), strict=True))
        p = model.predict_proba_one(x)
        assert record.probabilities == pytest.approx(window.combine(record.device, p), rel=1e-9)
        window.enter(record.device, p)


def permuted(model: Any, order: Sequence[int]) -> Any:
    """The same model with its classes in another order."""
    arrays, meta = described(model)
    place = np.argsort(np.array(order))
    meta = copy.deepcopy(meta)
    meta["labels"] = [meta["labels"][c] for c in order]
    for name in ("label", "buffer_y"):
        codes = arrays[name]
        arrays[name] = np.where(codes >= 0, place[codes], codes)
    for name in ("class_count", "class_weight", "class_mean", "class_variance"):
        rows = arrays[name].copy()
        rows[: len(order)] = arrays[name][list(order)]
        arrays[name] = rows
    return rebuilt(arrays, meta)


@pytest.mark.parametrize("rejector", REJECTORS)
def test_a_model_whose_classes_changed_places_decides_alike(rejector: str) -> None:
    """Windows and thresholds both: were one column mixed up, decisions would differ."""
    wanted = config(rejector=rejector)
    stays, swaps = Monitor(wanted), Monitor(wanted)
    for each in (stays, swaps):
        each.serve("", other())
    said: dict[Monitor, list[Any]] = {stays: [], swaps: []}
    model, rng = other(), np.random.default_rng(3)
    for k in range(6):
        part = stream(40, seed=k)
        for each in (stays, swaps):
            said[each] += monitor_records(each, part)
        model = permuted(model, rng.permutation(4).tolist())
        swaps.serve("", model)
    for one, two in zip(said[stays], said[swaps], strict=True):
        assert (one.label, one.accepted, one.reason) == (two.label, two.accepted, two.reason)
        assert one.probabilities == pytest.approx(two.probabilities, rel=1e-9)
        assert (one.certainty, one.threshold) == pytest.approx((two.certainty, two.threshold))


def test_thresholds_live_on() -> None:
    monitor = Monitor(config(rejector="rate"))
    monitor.serve("", other())
    say(monitor, stream(100))
    before = monitor._groups[""].served.pipeline.rejector.threshold_for("class 1")
    monitor.serve("", other((1, 2, 0), seed=9))
    assert monitor._groups[""].served.pipeline.rejector.threshold_for("class 1") == before > 0.0
    assert monitor.models()[""].threshold_for("class 1") != before


def test_thresholds_of_a_class_that_vanished_are_dropped() -> None:
    monitor = Monitor(config(rejector="classes accuracy"))
    monitor.serve("", other())
    whole = stream(200, classes=(0, 1, 2, 3))
    say(monitor, whole)
    assert "class 3" in monitor._groups[""].served.pipeline.rejector._thresholds._recent
    monitor.serve("", other((2, 1, 0)))
    kept = monitor._groups[""].served.pipeline.rejector._thresholds._recent
    assert set(kept) <= {"class 0", "class 1", "class 2"}
    for k in [i for i, y in enumerate(whole.labels) if y is None]:  # some were called class 3
        assert monitor.step(late(whole, k, "class 1")).learnt == 1
    assert "class 3" not in kept
    twin = Monitor.restore(monitor.config, monitor.checkpoint())
    assert say(twin, stream(50, seed=1)) == say(monitor, stream(50, seed=1))


def test_what_is_carried_is_a_copy() -> None:
    monitor = Monitor(config(rejector="rate"))
    say(monitor, stream(100))
    local = monitor.models()[""]
    before = fingerprint(local)
    twin = Pipeline(local.moved_to(other()), learns=False)
    twin.step(stream(100, seed=1), [False] * 100)
    assert fingerprint(local) == before


@pytest.mark.parametrize("integrator", ["window", "gaps"])
def test_devices_are_forgotten_in_the_same_order(integrator: str) -> None:
    text = INTEGRATORS[integrator].replace("}", ", max_devices: 3}")
    wanted = loads(f"{TEXT}\nmodel: {{type: GLVQ}}\nintegrator: {text}")
    monitor = Monitor(wanted)
    say(monitor, stream(60))
    monitor.serve("", other())
    say(monitor, stream(30, seed=1))
    assert monitor.devices == 3
    local = monitor.models()[""]._windows._slots
    assert list(monitor._groups[""].served.pipeline.integrator._windows._slots) == list(local)


# --- versions -------------------------------------------------------------------------------------


def deciders(monitor: Monitor, whole: Readings) -> list[tuple[str, int]]:
    return [(row.model, row.version) for row in monitor_records(monitor, whole)]


def test_model_and_version_tell_who_decides() -> None:
    monitor = Monitor(config())
    said = deciders(monitor, stream(3, labelled=1.0))
    assert said == [("local", 0), ("local", 1), ("local", 2)]
    monitor.serve("", other())
    assert set(deciders(monitor, stream(20, seed=1))) == {("fused", 1)}
    monitor.serve("", other())  # just the same
    assert set(deciders(monitor, stream(20, seed=2))) == {("fused", 1)}
    monitor.serve("", other(seed=5))
    assert set(deciders(monitor, stream(20, seed=3))) == {("fused", 2)}
    monitor.serve("", None)
    [(model, version)] = deciders(monitor, stream(1, seed=4))
    assert model == "local"
    assert version == monitor.local("").samples - (stream(1, seed=4).labels[0] is not None)
    monitor = Monitor.restore(monitor.config, monitor.checkpoint())
    monitor.serve("", other())
    assert set(deciders(monitor, stream(20, seed=5))) == {("fused", 3)}


def test_what_is_served_already_changes_nothing() -> None:
    monitor = Monitor(config())
    monitor.serve("", other())
    say(monitor, stream(80))
    before = monitor.checkpoint()
    monitor.serve("", other())
    monitor.serve("", monitor.serving(""))
    assert monitor.checkpoint() == before
    assert same(other(), other())
    assert not same(other(), other((1, 3, 0, 2)))
    assert not same(other(), other(model=streamlvq.GMLVQ))


# --- late labels ---------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_late_labels_teach_the_local_model_and_inform_both(mode: str) -> None:
    wanted = config(mode)
    monitor, alone = Monitor(wanted), Monitor(wanted)
    say(monitor, stream(100))
    say(alone, stream(100))
    monitor.serve("", other())
    whole = stream(60, seed=1, labelled=0.0)
    said = say(monitor, whole)
    say(alone, whole)
    before = [p.rejector._thresholds.recent(None).seen for p in both(monitor)]
    served = fingerprint(monitor.serving(""))
    for k in range(60):
        assert monitor.step(late(whole, k, "class 1")).learnt == 1
        alone.step(late(whole, k, "class 1"))
    assert [p.rejector._thresholds.recent(None).seen for p in both(monitor)] == [
        seen + 60 for seen in before
    ]
    assert fingerprint(monitor.models()[""]) == fingerprint(alone.models()[""])
    assert fingerprint(monitor.serving("")) == served
    assert monitor.serving_score("")["labels"] == 60
    if mode == "both":  # what the thresholds heard is what was said
        came = both(monitor)[1].rejector._thresholds.recent(None).in_order()[:, -60:]
        np.testing.assert_array_equal(came[0][-40:], [row[CERTAINTY] for row in said][-40:])
        right = [float(row[LABEL] == "class 1") for row in said]
        np.testing.assert_array_equal(came[1][-40:], right[-40:])


def both(monitor: Monitor) -> tuple[Any, Any]:
    return monitor._groups[""].local, monitor._groups[""].served.pipeline


def test_what_was_decided_before_says_nothing_about_what_is_served_now() -> None:
    monitor = Monitor(config())
    whole = stream(60, labelled=0.5)
    say(monitor, whole)
    monitor.serve("", other())
    for k in [i for i, y in enumerate(whole.labels) if y is None]:
        assert monitor.step(late(whole, k, "class 1")).learnt == 1
    assert monitor.serving_score("")["labels"] == 0
