"""A pool decides beside the local model that learns: order, exactness, files."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streamlvq
from streamlvq.config import Config, build_classifier, loads
from streamlvq.events import LateLabel, Readings
from streamlvq.models.ensemble import NodeEnsemble
from streamlvq.models.pool import PoolClassifier, PoolWeights
from streamlvq.models.scored import MAX_SCORED
from streamlvq.monitor import Monitor
from streamlvq.snapshot import TRUSTED_MAX_BYTES, Snapshot, SnapshotError, decode, encode
from streamlvq.wrappers.base import unwrap
from support.serving import (
    FEATURES,
    INTEGRATORS,
    LABEL,
    MODEL,
    REJECTORS,
    TEXT,
    VERSION,
    config,
    fingerprint,
    late,
    other,
    per_device,
    pool,
    scored,
    stream,
)
from support.streams import cut, facts, say


def pool_of(monitor: Monitor) -> PoolClassifier:
    model = monitor._groups[""].served.pipeline.model
    assert isinstance(model, PoolClassifier)
    return model


# --- what it decides -----------------------------------------------------------------------------


def by_hand(classifier: Any, local: Any, whole: Readings) -> Iterator[tuple[Any, ...]]:
    """Wrappers around a pool: each reading is answered, noted, and then learnt by its model."""
    *outer, pooled = unwrap(classifier)
    seen = set()
    for k, row in enumerate(whole.rows.tolist()):
        x = dict(zip(whole.features, row, strict=True))
        y, key = whole.labels[k], whole.keys[k]
        keywords = {"device": whole.devices[k], "t": whole.times[k]} if outer else {}
        if hasattr(classifier, "decide_one"):
            decision = classifier.decide_one(x, **keywords)
            yield decision.label, decision.accepted, decision.certainty
        else:
            p = classifier.predict_proba_one(x, **keywords)
            label = max(p, key=p.__getitem__, default=None)
            yield label, len(p) > 1, p.get(label, 0.0)
        if key in seen:
            continue
        seen.add(key)
        if y is not None:
            pooled.score_one(x, y)
        if outer:
            classifier.observe_one(x, scales=False, **keywords)
        if y is not None:
            if hasattr(classifier, "record_outcome"):
                classifier.record_outcome(decision.label, decision.certainty, y)
            local.learn_one(x, y)
            pooled.follow_local()


@pytest.mark.parametrize(
    "rejector", ["none", "rate", "accuracy", "classes accuracy", "probability"]
)
@pytest.mark.parametrize("integrator", ["alone", "window", "gaps"])
def test_decisions_are_those_of_wrappers_around_the_pool(integrator: str, rejector: str) -> None:
    wanted = config(integrator=integrator, rejector=rejector)
    monitor, whole = Monitor(wanted), stream(250, twice=0.05)
    monitor.serve("", pool())
    local = streamlvq.GLVQ()
    travelled = Snapshot.from_bytes(Snapshot.of(pool(), "n").to_bytes()).classifier()
    expected = list(by_hand(build_classifier(wanted, travelled.beside(local)), local, whole))
    said = say(monitor, whole)
    assert [(row[1], row[2], row[5]) for row in said] == expected
    assert {(row[MODEL], row[VERSION]) for row in said} == {("pool", 1)}
    assert len({label for label, *_ in expected}) >= 3


def one_by_one(monitor: Monitor) -> None:
    """Leave decisions of what is served to its wrappers, not to the kernel."""
    monitor._groups[""].served.pipeline.batch_parts = None


def assert_kernel_decides_alike(wanted: Config, served: Callable[[], Any], whole: Readings) -> None:
    fast, slow = Monitor(wanted), Monitor(wanted)
    for each in (fast, slow):
        say(each, stream(60, seed=7))
        each.serve("", served())
    one_by_one(slow)
    outcomes = [each.step(whole) for each in (fast, slow)]
    assert outcomes[0].decisions is not None
    assert outcomes[1].decisions is not None
    assert facts(outcomes[0].decisions) == facts(outcomes[1].decisions)
    assert fast.serving_score("") == slow.serving_score("")
    assert scored(fast) == scored(slow)
    assert fast.checkpoint() == slow.checkpoint()


def gappy(seed: int = 0) -> Readings:
    """Long runs without labels; some readings have nothing, or nothing that some models know."""
    whole = stream(250, seed=seed, twice=0.05, labelled=0.1, classes=(0, 1, 2, 3))
    whole.rows[20:24] = np.nan
    whole.rows[60:63, :2] = np.nan
    whole.rows[90:93, 2:] = np.nan
    whole.rows[120] *= 30.0
    return whole


@pytest.mark.parametrize("rejector", REJECTORS)
@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_the_kernel_does_what_the_wrappers_do(integrator: str, rejector: str) -> None:
    served = pool((3, 1, 0, 2), (1, 0), (2, 0, 3), features=(3, 1))
    assert_kernel_decides_alike(
        config(integrator=integrator, rejector=rejector), lambda: served, gappy()
    )


@pytest.mark.parametrize("local", [0.2, 2.0])
@pytest.mark.parametrize(
    "kind", ["GLVQ", "GRLVQ", "GMLVQ", "LGMLVQ", "RSLVQ", "MRSLVQ", "LVQ1", "LVQ21", "PairwiseLVQ"]
)
def test_the_kernel_does_what_the_wrappers_do_with_any_model(kind: str, local: float) -> None:
    """Whether the local model or a candidate speaks."""
    rejector = "probability" if kind in {"PairwiseLVQ", "RSLVQ", "MRSLVQ"} else "rate"
    wanted = config(model=f"{{type: {kind}}}", integrator="adaptive", rejector=rejector)
    model = getattr(streamlvq, kind)
    assert_kernel_decides_alike(wanted, lambda: pool(local=local, model=model), gappy(1))


def test_what_is_scored_is_what_a_pool_scores_that_teaches_its_model() -> None:
    wanted = config(integrator="alone", rejector="none")
    monitor, whole = Monitor(wanted), stream(300)
    travelled = Snapshot.from_bytes(Snapshot.of(pool(), "n").to_bytes()).classifier()
    alone = travelled.beside(streamlvq.GLVQ())
    monitor.serve("", pool())
    say(monitor, whole)
    for k, row in enumerate(whole.rows.tolist()):
        if whole.labels[k] is not None:
            alone.learn_one(dict(zip(FEATURES, row, strict=True)), whole.labels[k])
    expected = [(s.opinions.tobytes(), s.held.tolist(), s.code, s.run) for s in alone.scored()]
    assert scored(monitor) == expected
    assert len(expected) > 100
    assert fingerprint(monitor.local("")) == fingerprint(alone.local)


def test_a_class_of_the_fleet_is_recognised() -> None:
    monitor = Monitor(config(rejector="none", integrator="alone"))
    say(monitor, stream(200, classes=(0, 1, 5), labelled=1.0))
    monitor.serve("", pool())
    assert set(pool_of(monitor).classes) == {f"class {c}" for c in (0, 1, 2, 3, 5)}
    strange = stream(60, seed=3, classes=(3,), labelled=0.0, missing=0.0)
    outcome = monitor.step(strange)
    assert outcome.decisions is not None
    assert outcome.decisions.labels().count("class 3") > 40
    assert "class 3" not in monitor.local("").classes


@pytest.mark.parametrize("batch", [1, 60])
def test_classes_that_one_side_alone_knows_are_accepted(batch: int) -> None:
    """Class 3 is new to the local model, class 5 to the candidates."""
    monitor = Monitor(config(rejector="rate", integrator="alone"))
    say(monitor, stream(200, classes=(0, 1), labelled=1.0))
    monitor.serve("", pool(local=1.0))
    say(monitor, stream(300, seed=5, classes=(0, 1, 5), labelled=1.0))
    for only in (3, 5):
        strange = stream(60, seed=3, classes=(only,), labelled=0.0, missing=0.0)
        label, right, accepted = f"class {only}", 0, 0
        for start in range(0, 60, batch):
            rows = list(range(start, start + batch))
            decisions = monitor.step(strange.select(rows)).decisions
            assert decisions is not None
            said = decisions.labels()
            right += said.count(label)
            accepted += sum(a for a, y in zip(decisions.accepted, said, strict=True) if y == label)
        assert accepted > 0.5 * right > 10


def test_a_class_that_the_local_model_learns_later_gets_a_column() -> None:
    monitor = Monitor(config(integrator="adaptive", rejector="classes accuracy"))
    monitor.serve("", pool((0, 1), (1, 0), local=2.0, weight=0.05))
    say(monitor, stream(60, classes=(0, 1)))
    before = monitor.devices
    said = say(monitor, stream(200, seed=1, classes=(0, 1, 4), labelled=1.0))
    assert pool_of(monitor).classes == ("class 0", "class 1", "class 4")
    assert "class 4" in {row[LABEL] for row in said}
    assert monitor.devices == before
    assert len(scored(monitor)) > 50
    twin = Monitor.restore(monitor.config, monitor.checkpoint())
    part = stream(50, seed=2, classes=(0, 1, 4))
    assert say(twin, part) == say(monitor, part)


def test_features_that_only_some_models_know() -> None:
    monitor = Monitor(config(rejector="none", integrator="alone"))
    candidates = {"a": other(features=(3, 1)), "b": other(features=(4, 2, 0, 1, 3), seed=7)}
    served = PoolClassifier(None, candidates, PoolWeights({"a": 0.4, "b": 0.4}, 0.5, 0.0))
    monitor.serve("", served)
    whole = stream(80)
    whole.features = ("unheard of", *whole.features[1:])
    travelled = Snapshot.from_bytes(Snapshot.of(served, "n").to_bytes()).classifier()
    alone = travelled.beside(streamlvq.GLVQ())
    said = [row for part in cut(whole, 3) for row in monitor.step(part).decisions.records()]
    for k, row in enumerate(whole.rows.tolist()):
        x = dict(zip(whole.features, row, strict=True))
        assert said[k].probabilities == alone.predict_proba_one(x)
        if whole.labels[k] is not None:
            alone.learn_one(x, whole.labels[k])


@pytest.mark.parametrize("kind", ["LGMLVQ", "RSLVQ", "PairwiseLVQ", "LVQCommittee"])
def test_any_model_can_be_the_local_one(kind: str) -> None:
    """Candidates explain where the local model has no prototypes."""
    wanted = config(model=f"{{type: {kind}}}", rejector="probability")
    first, second, alone = Monitor(wanted), Monitor(wanted), Monitor(wanted)
    for each in (first, second):
        each.serve("", pool())
    said = []
    for k in range(2):
        said.append(
            [say(each, stream(60, seed=k), seed=s) for s, each in enumerate((first, second))]
        )
        second = Monitor.restore(wanted, second.checkpoint())
        say(alone, stream(60, seed=k))
    assert all(one == two for one, two in said)
    assert scored(first) == scored(second)
    assert first.checkpoint() == second.checkpoint()
    assert fingerprint(first.models()[""]) == fingerprint(alone.models()[""])


def test_an_ensemble_may_be_among_the_candidates() -> None:
    models = [other((0, 1)), other((2, 3, 1), seed=4)]
    ones, zeros = [np.ones(5)] * 2, [np.zeros(5)] * 2
    candidates = {"e": NodeEnsemble(models, ones, zeros, FEATURES, [None, "class 1"])}
    monitor = Monitor(config(rejector="probability"))
    monitor.serve("", PoolClassifier(None, candidates, PoolWeights({"e": 1.0}, 0.5, 0.0)))
    say(monitor, stream(80))
    twin = Monitor.restore(monitor.config, monitor.checkpoint())
    assert say(twin, stream(80, seed=1), 4) == say(monitor, stream(80, seed=1), 5)
    assert twin.checkpoint() == monitor.checkpoint()


# --- a plant with everything ---------------------------------------------------------------------

EVERYTHING = """
admission: {commissioning: 40}
model: {type: GLVQ, transform: asinh}
integrator: {max_gap: 9}
rejector: {target_rate: 0.2, memory: 40}
"""


def everything(serve: str = "both") -> Config:
    fleet = f"fleet: {{name: plant, trust: everyone, serve: {serve}}}"
    return loads(f"{TEXT}\n{EVERYTHING}\n{fleet}")


def newcomers() -> Readings:
    """Readings of which some have a new feature, or a class that nobody or only the fleet knows."""
    whole = stream(260, seed=3, twice=0.05, classes=(0, 1, 2), labelled=0.5)
    rng, known = np.random.default_rng(5), np.flatnonzero([y is not None for y in whole.labels])
    for k in known[60:]:
        if rng.random() < 0.3:
            whole.labels[k] = str(rng.choice(["class 3", "class 4", "new"]))
    heat = np.where(np.arange(len(whole)) > 120, rng.normal(size=len(whole)), np.nan)
    whole.features = (*whole.features, "heat")
    whole.rows = np.column_stack([whole.rows, heat])
    return whole


def tell(
    monitor: Monitor, whole: Readings, cuts: set[int], stops: bool = False, serve: bool = True
) -> tuple[list[Any], Monitor]:
    """Step the readings cut at these places; pools and late labels come at fixed ones."""
    said: list[Any] = []
    events: dict[int, Callable[[], Any]] = {
        50: lambda: streamlvq.FeatureTransform(pool(), "asinh"),
        130: lambda: streamlvq.FeatureTransform(pool((4, 1, 0), (2, 3), seed=8), "asinh"),
        200: lambda: streamlvq.FeatureTransform(other((2, 1, 0)), "asinh"),
        230: lambda: streamlvq.FeatureTransform(pool(seed=9), "asinh"),
    }
    lates = (45, 100, 170, 240)
    places = sorted({0, len(whole), *events, *lates, *cuts})
    for start, end in itertools.pairwise(places):
        if start in lates:
            waiting = [k for k in range(start) if whole.labels[k] is None]
            for j, k in enumerate(waiting[-25:]):
                label = LateLabel(whole.devices[k], "", ("class 1", "new")[j % 4 == 3], None,
                                  whole.sequences[k])  # fmt: skip
                outcome = monitor.step(label)
                said.append((outcome.learnt, outcome.held, len(outcome.refused)))
        if start in events and serve:
            monitor.serve("", events[start]())
        if stops:
            monitor = Monitor.restore(monitor.config, monitor.checkpoint())
        outcome = monitor.step(whole.select(slice(start, end)))
        assert outcome.decisions is not None
        said += facts(outcome.decisions)
        said += [(each.reason, each.text) for each in outcome.refused]
    return [*said, monitor.serving_score(""), scored(monitor)], monitor


@settings(max_examples=12, deadline=None)
@given(st.sets(st.integers(1, 259), max_size=60), st.booleans())
def test_readings_may_be_cut_anywhere_and_the_monitor_killed_anywhere(
    cuts: set[int], stops: bool
) -> None:
    whole = newcomers()
    at_once, first = tell(Monitor(everything()), whole, set())
    in_parts, second = tell(Monitor(everything()), whole, cuts, stops)
    assert in_parts == at_once
    assert first.checkpoint() == second.checkpoint()
    assert len(scored(first)) > 5


@pytest.mark.parametrize("mode", ["both", "local"])
def test_the_local_classifier_is_that_of_a_monitor_without_a_pool(mode: str) -> None:
    whole = newcomers()
    said, serving = tell(Monitor(everything(mode)), whole, {10, 20, 77})
    expected, alone = tell(Monitor(everything(mode)), whole, set(), serve=False)
    assert fingerprint(serving.models()[""]) == fingerprint(alone.models()[""])
    assert {"new", "class 3"} & set(alone.local("").classes)
    assert "heat" in alone.features("")
    if mode == "local":
        assert said[:-2] == expected[:-2]
        assert len(scored(serving)) > 5  # it is judged all the same


# --- late labels ---------------------------------------------------------------------------------


def test_a_late_label_is_scored_before_it_is_learnt() -> None:
    monitor = Monitor(config(integrator="alone", rejector="none", model="{type: GLVQ}"))
    say(monitor, stream(100))
    monitor.serve("", pool())
    pooled, whole = pool_of(monitor), stream(40, seed=1, labelled=0.0)
    say(monitor, whole)
    assert scored(monitor) == []
    for k, label in enumerate(["class 0", "class 1", "class 1", "class 2"]):
        x = dict(zip(FEATURES, whole.rows[k].tolist(), strict=True))
        expected = monitor.local("").predict_proba_one(x)
        monitor.step(late(whole, k, label))
        if k:  # the first run of a label is left out
            last = pooled.scored()[-1]
            own = dict(zip(pooled.classes, last.opinions[-1].tolist(), strict=True))
            assert {label: own[label] for label in expected} == expected
    assert [each.run for each in pooled.scored()] == [0, 0, 1]
    assert monitor.serving_score("")["labels"] == 4


def test_late_labels_of_answers_by_other_versions_do_no_harm() -> None:
    monitor = Monitor(config(integrator="adaptive", rejector="accuracy"))
    parts = [stream(30, seed=k, labelled=0.3) for k in range(4)]
    models = [None, pool(), other(), pool((1, 0), (3, 2, 4), seed=3)]
    for part, model in zip(parts, models, strict=True):
        monitor.serve("", model)
        say(monitor, part)
    twin = Monitor.restore(monitor.config, monitor.checkpoint())
    for each in (monitor, twin):
        for part in parts:
            for k in [k for k, y in enumerate(part.labels) if y is None]:
                assert each.step(late(part, k, f"class {k % 3}")).learnt == 1
        assert each.serving_score("")["labels"] == len(parts[-1])
    assert scored(monitor) == scored(twin)
    assert len(scored(monitor)) > 60  # opinions are those of now, whoever answered
    assert monitor.checkpoint() == twin.checkpoint()


@pytest.mark.parametrize("mode", ["both", "local"])
def test_late_labels_are_compared_with_what_was_decided(mode: str) -> None:
    """Also of a class that only the fleet knows."""
    monitor = Monitor(config(mode, integrator="alone"))
    say(monitor, stream(100))
    monitor.serve("", pool())
    whole = stream(60, seed=1, labelled=0.0, classes=(0, 3))
    said = say(monitor, whole)
    outcomes = [monitor.step(late(whole, k, "class 3")).late_right for k in range(60)]
    if mode == "local":  # it does not know the class before it has learnt it
        assert outcomes[0] is None
        assert not any(right for _, right in filter(None, outcomes))
    else:
        assert outcomes == [("", row[LABEL] == "class 3") for row in said]


def test_repeated_readings_are_decided_on_and_not_scored() -> None:
    monitor, whole = Monitor(config()), stream(60, labelled=1.0)
    monitor.serve("", pool())
    say(monitor, whole)
    before, count = monitor.checkpoint(), len(scored(monitor))
    outcome = monitor.step(whole.select(slice(30, 60)))
    assert (outcome.duplicates, outcome.learnt) == (30, 0)
    assert len(scored(monitor)) == count
    assert monitor.checkpoint() == before


# --- who is served -------------------------------------------------------------------------------


def test_the_same_pool_again_changes_nothing_and_another_begins_anew() -> None:
    monitor = Monitor(config())
    monitor.serve("", pool())
    say(monitor, stream(150))
    before = monitor.checkpoint()
    monitor.serve("", pool())
    monitor.serve("", monitor.serving(""))
    monitor.serve("", Snapshot.from_bytes(Snapshot.of(pool(), "n").to_bytes()).classifier())
    assert monitor.checkpoint() == before
    assert monitor.serving_score("")["decides"] == "pool"
    monitor.serve("", pool(local=0.6))  # only the weights differ
    assert scored(monitor) == []
    [row] = say(monitor, stream(1, seed=1))
    assert (row[MODEL], row[VERSION]) == ("pool", 2)
    nothing = {"local": None, "fused": None, "labels": 0, "decides": "pool"}
    monitor.serve("", pool())
    assert monitor.serving_score("") == nothing


def test_the_local_model_of_a_pool_that_is_given_is_that_of_the_group() -> None:
    monitor = Monitor(config())
    say(monitor, stream(80))
    stranger = other((4, 2))
    monitor.serve("", pool().beside(stranger))
    assert pool_of(monitor).local is monitor.local("")
    assert "class 4" not in pool_of(monitor).classes


def test_windows_and_thresholds_carry_over_to_a_pool_and_back() -> None:
    monitor = Monitor(config(rejector="rate"))
    say(monitor, stream(100))
    devices, threshold = monitor.devices, monitor.models()[""].threshold_for("class 1")
    monitor.serve("", pool())
    rejector = monitor._groups[""].served.pipeline.rejector
    assert (monitor.devices, rejector.threshold_for("class 1")) == (devices, threshold)
    monitor.serve("", other())
    rejector = monitor._groups[""].served.pipeline.rejector
    assert (monitor.devices, rejector.threshold_for("class 1")) == (devices, threshold)


def test_novelty_is_that_of_the_speaker_however_its_classes_are_ordered() -> None:
    """The scores of earlier readings follow their classes to the model that speaks."""
    monitor = Monitor(config(integrator="alone", rejector="rate"))
    say(monitor, stream(300, labelled=1.0))
    shared = Snapshot.of(other((3, 2, 1, 0)), "n", readings=False)
    weights = PoolWeights({"a": 2.0}, 0.1, 0.0)
    monitor.serve("", PoolClassifier(None, {"a": shared.classifier()}, weights))
    fused = Monitor.restore(monitor.config, _without_served(monitor))
    fused.serve("", shared.classifier())
    part = stream(60, seed=4, labelled=0.0)
    ours, theirs = ([r.novelty for r in m.step(part).decisions.records()] for m in (monitor, fused))
    assert ours == theirs
    assert monitor.serving("").speaker.classes != monitor.serving("").classes


def _without_served(monitor: Monitor) -> bytes:
    twin = Monitor.restore(monitor.config, monitor.checkpoint())
    twin.serve("", None)
    return twin.checkpoint()


def test_who_speaks_is_chosen_when_a_pool_comes_and_stays() -> None:
    """The local model is the heaviest but knows nothing yet."""
    monitor = Monitor(config(integrator="alone"))
    monitor.serve("", pool(local=2.0))
    assert pool_of(monitor).speaker is pool_of(monitor).candidates["candidate 0"]
    say(monitor, stream(100))
    twin = Monitor.restore(monitor.config, monitor.checkpoint())
    assert pool_of(twin).speaker is pool_of(twin).candidates["candidate 0"]
    assert say(twin, stream(50, seed=1)) == say(monitor, stream(50, seed=1))
    say(monitor, stream(100, seed=2, classes=(0, 1, 2, 3, 4)))  # now it knows all classes
    monitor.serve("", pool(local=2.5))
    assert pool_of(monitor).speaker is monitor.local("")
    twin = Monitor.restore(monitor.config, monitor.checkpoint())
    assert pool_of(twin).speaker is twin.local("")
    assert say(twin, stream(50, seed=2)) == say(monitor, stream(50, seed=2))


@pytest.mark.parametrize(
    ("served", "message"),
    [
        (lambda: pool((1,)), "at least 2 classes"),
        (
            lambda: PoolClassifier(None, {}, PoolWeights({}, 1.0, 0.0)),
            r"at least 2 classes, got \(\)",
        ),
        (lambda: pool(model=streamlvq.PairwiseLVQ), "no RelSim"),
        (lambda: streamlvq.FeatureTransform(pool(), "log"), "transform None"),
        (lambda: streamlvq.TimeIntegrator(pool()), "without integrator and rejector"),
    ],
)
def test_pools_that_cannot_decide_are_refused(served: Callable[[], Any], message: str) -> None:
    monitor = Monitor(config())
    with pytest.raises(ValueError, match=message):
        monitor.serve("", served())
    assert monitor.models() == {}


def test_groups_have_pools_of_their_own() -> None:
    wanted = per_device("both")
    whole = stream(200, devices=3)
    whole.groups = list(whole.devices)
    together, model = Monitor(wanted), pool()
    devices = sorted(set(whole.devices))
    for device in devices:
        together.serve(device, model)
    said = say(together, whole)
    for device in devices:
        alone = Monitor(wanted)
        alone.serve(device, pool())
        own = [k for k, name in enumerate(whole.devices) if name == device]
        assert say(alone, whole.select(own), seed=5) == [said[k] for k in own]
        assert scored(alone, device) == scored(together, device)
    twin = Monitor.restore(wanted, together.checkpoint())
    assert twin.checkpoint() == together.checkpoint()


def test_a_defect_of_a_pool_hits_one_reading_and_not_the_learner(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monitor, alone, whole = Monitor(config()), Monitor(config()), stream(50, labelled=1.0)
    monitor.serve("", pool())
    say(alone, whole)
    score = PoolClassifier.score_one

    def defective(self: PoolClassifier, x: Any, y: Any) -> None:
        if list(x.values()) == whole.rows[17].tolist():
            raise ZeroDivisionError("for a test")
        score(self, x, y)

    whole.rows[17] = np.nan_to_num(whole.rows[17])
    monkeypatch.setattr(PoolClassifier, "score_one", defective)
    alone = Monitor(config())
    say(alone, whole)
    outcome = monitor.step(whole)
    assert [(r.source, r.reason) for r in outcome.refused] == [(17, "failure")]
    assert outcome.decisions is not None
    assert len(outcome.decisions) == 49
    assert fingerprint(monitor.models()[""]) == fingerprint(alone.models()[""])


def test_copies_of_a_monitor_go_their_own_ways() -> None:
    monitor = Monitor(config())
    monitor.serve("", pool())
    say(monitor, stream(80))
    twin = copy.deepcopy(monitor)
    assert pool_of(twin).local is twin.local("")
    assert say(twin, stream(40, seed=1), 3) == say(monitor, stream(40, seed=1))
    assert twin.checkpoint() == monitor.checkpoint()


# --- files ---------------------------------------------------------------------------------------


def test_a_checkpoint_has_the_local_model_once() -> None:
    monitor = Monitor(config(model="{type: LGMLVQ}"))
    say(monitor, stream(100))
    monitor.serve("", pool())
    arrays, meta = decode(monitor.checkpoint(), kind="checkpoint", limit=TRUSTED_MAX_BYTES)
    [group] = meta["groups"]
    assert set(group["served"]) == {"classifier", "standing", "scored"}
    assert {name.partition("/")[0] for name in arrays} >= {"group0", "served0", "scored0"}
    assert not [name for name in arrays if "/local/" in name]
    assert "LGMLVQ" not in str(group["served"])


def test_what_was_scored_is_bounded() -> None:
    monitor = Monitor(config(integrator="alone", rejector="none"))
    monitor.serve("", pool())
    say(monitor, stream(MAX_SCORED + 200, labelled=1.0))
    assert len(scored(monitor)) == MAX_SCORED
    twin = Monitor.restore(monitor.config, monitor.checkpoint())
    assert scored(twin) == scored(monitor)
    for each in (monitor, twin):
        say(each, stream(60, seed=1, labelled=1.0))
    assert scored(twin) == scored(monitor)


def test_other_wrappers_begin_anew_around_a_pool() -> None:
    monitor = Monitor(config())
    monitor.serve("", pool())
    say(monitor, stream(100))
    wider = Monitor.restore(config(integrator="gaps"), monitor.checkpoint())
    assert wider.devices == 0
    assert scored(wider) == scored(monitor)
    assert pool_of(wider).local is wider.local("")
    assert {row[MODEL] for row in say(wider, stream(20, seed=1))} == {"pool"}


def _array(name: str, change: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    def forge(arrays: dict[str, Any], group: dict[str, Any]) -> None:
        arrays[f"scored0/{name}"] = change(arrays[f"scored0/{name}"].copy())

    return forge


def _said(**changes: Any) -> Callable[[Any, Any], Any]:
    return lambda arrays, group: group["served"]["scored"].update(changes)


def _with(place: Any, value: Any) -> Callable[[Any], Any]:
    def change(array: Any) -> Any:
        array[place] = value
        return array

    return change


FORGERIES: dict[str, Callable[[dict[str, Any], dict[str, Any]], Any]] = {
    "no scores": lambda arrays, group: group["served"].pop("scored"),
    "no codes": lambda arrays, group: arrays.pop("scored0/codes"),
    "an array more": lambda arrays, group: arrays.update({"scored0/x": np.zeros(1)}),
    "arrays of the wrong type": _array("codes", lambda codes: codes.astype(np.float64)),
    "a probability of two": _array("opinions", _with((0, 0, 0), 2.0)),
    "an opinion of a class that nobody asked about": _array("opinions", np.nan_to_num),
    "no opinion of a known class": _array("opinions", _with((0, 0), np.nan)),
    "fewer classes": _array("opinions", lambda o: o[:, :, :-1].copy()),
    "fewer models": _array("opinions", lambda o: o[:, :-1].copy()),
    "more readings": _array("codes", lambda codes: np.append(codes, codes[-1])),
    "too many readings": lambda arrays, group: arrays.update(
        {k: np.repeat(v, 20, axis=0) for k, v in arrays.items() if k.startswith("scored0/")}
    ),
    "held twice": _array("held", _with((0, 0), 2)),
    "held and not learnt": _array("held", np.ones_like),
    "an unknown class": _array("codes", _with(0, 99)),
    "a class below none": _array("codes", _with(0, -1)),
    "runs that go back": _array("runs", _with(-1, 0)),
    "runs before the first": _array("runs", _with(0, -1)),
    "a later run than the last": _said(run=0),
    "a run below none": _said(run=-2),
    "half a run": _said(run=10.5),
    "no label before": _said(last_label=None),
    "a label that is a list": _said(last_label=["class 1"]),
    "a speaker beyond": _said(speaks=17),
    "a speaker that is text": _said(speaks="a"),
    "something unheard of": _said(more=1),
    "a fused model with scores": lambda arrays, group: group["served"].update(
        classifier=group["classifier"]
    ),
    "other classes": lambda arrays, group: _model(group)["names"].update(classes=[]),
    "no names": lambda arrays, group: _model(group)["names"].clear(),
    "a candidate with the name of the local model": lambda arrays, group: _model(group)["names"][
        "candidates"
    ].__setitem__(0, _model(group)["names"]["candidates"][1]),
}  # fmt: skip


def _model(group: dict[str, Any]) -> dict[str, Any]:
    meta: dict[str, Any] = group["served"]["classifier"]
    while "classifier" in meta:
        meta = meta["classifier"]
    return meta


@pytest.mark.parametrize("name", FORGERIES)
def test_forged_checkpoints_are_refused(name: str) -> None:
    monitor = Monitor(config())
    monitor.serve("", pool())
    say(monitor, stream(100))
    data = monitor.checkpoint()
    found, meta = decode(data, kind="checkpoint", limit=TRUSTED_MAX_BYTES)
    arrays = dict(found)
    assert encode(arrays, meta, kind="checkpoint", limit=TRUSTED_MAX_BYTES) == data
    FORGERIES[name](arrays, meta["groups"][0])
    forged = encode(arrays, meta, kind="checkpoint", limit=TRUSTED_MAX_BYTES)
    with pytest.raises(SnapshotError):
        Monitor.restore(monitor.config, forged)


def test_a_pool_with_a_local_model_of_its_own_is_refused() -> None:
    monitor = Monitor(config())
    say(monitor, stream(60))
    monitor.serve("", pool())
    found, meta = decode(monitor.checkpoint(), kind="checkpoint", limit=TRUSTED_MAX_BYTES)
    arrays, model = dict(found), _model(meta["groups"][0])
    inner = "served0/" + "classifier/" * 2
    arrays |= {
        name.replace("candidate0", "local"): array
        for name, array in arrays.items()
        if name.startswith(inner + "candidate0/")
    }
    model["parts"]["local"] = model["parts"]["candidate0"]
    model["order"] = [*model["order"], "local"]
    forged = encode(arrays, meta, kind="checkpoint", limit=TRUSTED_MAX_BYTES)
    with pytest.raises(SnapshotError, match="without its local model"):
        Monitor.restore(monitor.config, forged)
