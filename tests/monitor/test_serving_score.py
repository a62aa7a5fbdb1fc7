"""How good two models are, what cannot be served, and what of it all is kept in files."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streamlvq
from streamlvq.config import build_classifier, loads
from streamlvq.monitor import Monitor
from streamlvq.monitor.pipeline import Pipeline
from streamlvq.monitor.serving import (
    SCORE_SPAN_LABELS,
    ServingScore,
)
from streamlvq.snapshot import TRUSTED_MAX_BYTES, Snapshot, SnapshotError, decode, encode
from support.serving import (
    LABEL,
    MODEL,
    MODES,
    TEXT,
    VERSION,
    config,
    fingerprint,
    late,
    liar,
    other,
    per_device,
    pool,
    stream,
)
from support.streams import say

# --- the score -----------------------------------------------------------------------------------


def test_a_served_model_decides_even_if_it_lies_and_its_score_says_so() -> None:
    monitor = Monitor(config())
    monitor.serve("", liar())
    said = say(monitor, stream(200, labelled=1.0), seed=3)
    assert {(row[MODEL], row[VERSION]) for row in said} == {("fused", 1)}
    standing = monitor.serving_score("")
    assert (standing["decides"], standing["labels"]) == ("fused", 200)
    assert standing["local"] > 0.7
    assert standing["fused"] < 0.3


class History:
    """Who was right about each label, all of it remembered."""

    def __init__(self) -> None:
        self.local: list[bool] = []
        self.fused: list[bool] = []

    def recent(self, right: list[bool]) -> float:
        keep = 1.0 - 1.0 / SCORE_SPAN_LABELS
        weights = [keep**age for age in range(len(right))]
        hits = sum(w * hit for w, hit in zip(weights, reversed(right), strict=True))
        return hits / sum(weights)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=400))
def test_standing_is_that_of_all_labels_of_which_old_ones_fade(
    answers: list[tuple[bool, bool]],
) -> None:
    standing, history = ServingScore(), History()
    for local, fused in answers:
        standing.count(local, fused)
        history.local.append(local)
        history.fused.append(fused)
    expected = history.recent(history.local), history.recent(history.fused)
    assert standing.accuracies() == pytest.approx(expected)


def test_a_class_that_no_label_tells_of_is_shown() -> None:
    """Labels are of three classes; the fleet knows a fourth, and is not quite as good here."""
    monitor = Monitor(config("both", rejector="none", integrator="alone"))
    say(monitor, stream(300, labelled=1.0))
    monitor.serve("", other((3, 1, 0, 2), count=2000))
    say(monitor, stream(300, seed=1, labelled=1.0))
    standing = monitor.serving_score("")
    assert standing["decides"] == "fused"
    fourth = say(monitor, stream(100, seed=2, classes=(3,), labelled=0.0))
    assert sum(row[LABEL] == "class 3" for row in fourth) > 80


def test_another_model_begins_anew_and_so_does_what_is_known_of_the_local_one() -> None:
    monitor = Monitor(config("both"))
    monitor.serve("", liar())
    say(monitor, stream(200, labelled=1.0))
    monitor.serve("", other())
    nothing = {"local": None, "fused": None, "labels": 0, "decides": "fused"}
    assert monitor.serving_score("") == nothing
    twin = Monitor.restore(monitor.config, monitor.checkpoint())
    whole = stream(100, seed=1, labelled=1.0)
    assert say(monitor, whole, seed=1) == say(twin, whole, seed=2)
    assert monitor.serving_score("")["labels"] == 100
    assert monitor.checkpoint() == twin.checkpoint()


def test_late_labels_about_what_a_former_model_said_count_for_nobody() -> None:
    monitor = Monitor(config("both"))
    monitor.serve("", liar())
    before = stream(40, labelled=0.0)
    say(monitor, before)
    monitor.serve("", other())
    after = stream(30, seed=1, labelled=0.0)
    say(monitor, after)
    twin = Monitor.restore(monitor.config, monitor.checkpoint())
    for each in (monitor, twin):
        for whole, count in ((before, 0), (after, 30)):
            for k in range(len(whole)):
                assert each.step(late(whole, k, "class 1")).learnt == 1
            assert each.serving_score("")["labels"] == count
    assert monitor.checkpoint() == twin.checkpoint()


def test_a_standing_of_nobody() -> None:
    monitor = Monitor(config())
    nothing = {"local": None, "fused": None, "labels": 0, "decides": "local"}
    assert monitor.serving_score("") == nothing
    monitor.serve("", other())
    assert monitor.serving_score("") == {**nothing, "decides": "fused"}
    assert monitor.serving_score("nobody") == nothing


def test_the_longest_run_does_not_outgrow_its_span() -> None:
    standing = ServingScore()
    for _ in range(20_000):
        standing.count(True, False)
    assert standing.accuracies() == (1.0, 0.0)
    assert SCORE_SPAN_LABELS - 1e-6 < standing.weight <= SCORE_SPAN_LABELS


# --- what cannot be served -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (lambda: streamlvq.TimeIntegrator(other()), "without integrator and rejector"),
        (lambda: streamlvq.RelSimRejector(other(), threshold=0.1), "without integrator"),
        (lambda: "GLVQ", "expected a streamlvq model"),
        (streamlvq.GLVQ, r"at least 2 classes, got \(\)"),
        (lambda: other((1,)), "at least 2 classes"),
        (lambda: other(model=streamlvq.PairwiseLVQ), "no RelSim"),
        (lambda: streamlvq.FeatureTransform(other(), "log"), r"transform None.*got \('log', None"),
    ],
)
def test_what_cannot_decide_is_refused(model: Callable[[], Any], message: str) -> None:
    monitor = Monitor(config())
    monitor.serve("", other())
    say(monitor, stream(50))
    before = monitor.checkpoint()
    with pytest.raises(ValueError, match=message):
        monitor.serve("", model())
    assert monitor.checkpoint() == before
    fresh = Monitor(config())
    with pytest.raises(ValueError, match=message):
        fresh.serve("", model())
    assert fresh.models() == {}


def test_the_local_model_is_not_served_to_itself() -> None:
    monitor = Monitor(config())
    say(monitor, stream(50))
    with pytest.raises(ValueError, match="pass None"):
        monitor.serve("", monitor.local(""))
    monitor.serve("", copy.deepcopy(monitor.local("")))
    assert monitor.serving_score("")["decides"] == "fused"


def test_there_are_no_more_groups_than_allowed() -> None:
    monitor = Monitor(per_device("both", limit=2))
    monitor.serve("a", other())
    monitor.serve("b", other())
    with pytest.raises(ValueError, match=r"at most 2 models .*got another: 'c'"):
        monitor.serve("c", other())
    assert list(monitor.models()) == ["a", "b"]


def test_limits_are_those_of_what_is_learnt_here() -> None:
    wanted = config(model="{type: GLVQ, max_classes: 3, max_features: 5}")
    monitor, alone = Monitor(wanted), Monitor(wanted)
    monitor.serve("", other((0, 1, 2, 3, 4, 5)))
    whole = stream(100, classes=(0, 1, 2, 3, 4), labelled=1.0)
    refused, expected = monitor.step(whole).refused, alone.step(whole).refused
    assert refused == expected
    assert {each.reason for each in refused} == {"model"}


def test_a_defect_of_what_is_served_hits_one_reading_and_not_the_learner(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monitor, alone = Monitor(config()), Monitor(config())
    monitor.serve("", other())
    monitor._groups[""].served.pipeline.batch_parts = None
    whole = stream(50, labelled=1.0)
    say(alone, whole)
    observe, device = streamlvq.TimeIntegrator.observe_one, whole.devices[17]

    def defective(self: Any, x: Any, **keywords: Any) -> None:
        if keywords["t"] == whole.times[17]:
            raise ZeroDivisionError(f"for a test of {device}")
        observe(self, x, **keywords)

    monkeypatch.setattr(streamlvq.TimeIntegrator, "observe_one", defective)
    outcome = monitor.step(whole)
    assert [(r.source, r.reason) for r in outcome.refused] == [(17, "failure")]
    assert len(outcome.decisions) == 49
    assert fingerprint(monitor.models()[""]) == fingerprint(alone.models()[""])


@pytest.mark.parametrize("served", [other, pool])
def test_a_served_model_that_breaks_down_altogether_does_not_keep_the_learner_from_learning(
    served: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monitor, alone = Monitor(config()), Monitor(config())
    monitor.serve("", served())

    advance = Pipeline.advance

    def broken(self: Pipeline, *arguments: Any) -> Any:
        if not self.learns:
            raise ZeroDivisionError("for a test")
        return advance(self, *arguments)

    monkeypatch.setattr(Pipeline, "advance", broken)
    whole = stream(50, labelled=1.0)
    say(alone, whole)
    outcome = monitor.step(whole)
    assert [r.reason for r in outcome.refused] == ["failure"] * 50
    assert fingerprint(monitor.models()[""]) == fingerprint(alone.models()[""])


# --- files ---------------------------------------------------------------------------------------


def test_without_serving_a_checkpoint_is_what_it_was() -> None:
    monitor = Monitor(config())
    say(monitor, stream(50))
    _, meta = decode(monitor.checkpoint(), kind="checkpoint", limit=TRUSTED_MAX_BYTES)
    assert [set(group) for group in meta["groups"]] == [{"name", "classifier"}]
    assert set(meta["pending"]) == {"features", "waiting"}
    monitor.serve("", other())
    _, meta = decode(monitor.checkpoint(), kind="checkpoint", limit=TRUSTED_MAX_BYTES)
    assert [set(group) for group in meta["groups"]] == [{"name", "classifier", "served", "given"}]


def test_a_monitor_without_a_fleet_serves_what_it_is_given() -> None:
    text = f"{TEXT}\nmodel: {{type: GLVQ}}"
    monitor = Monitor(loads(text))
    monitor.serve("", other())
    assert monitor.serving_score("")["decides"] == "fused"


def test_another_mode_goes_on_with_the_same_state() -> None:
    monitor = Monitor(config("both"))
    monitor.serve("", liar())
    say(monitor, stream(100))
    data = monitor.checkpoint()
    decides = {
        mode: Monitor.restore(config(mode), data).serving_score("")["decides"]
        for mode in (*MODES, "fused")
    }
    assert decides == {"both": "fused", "fused": "fused", "local": "local"}


def test_other_wrappers_begin_anew_around_both_models() -> None:
    monitor = Monitor(config())
    say(monitor, stream(50))
    monitor.serve("", other())
    say(monitor, stream(50, seed=1))
    data = monitor.checkpoint()
    wider = Monitor.restore(config(integrator="gaps"), data)
    assert wider.devices == 0
    assert fingerprint(wider.serving("")) == fingerprint(other())
    assert fingerprint(wider.local("")) == fingerprint(monitor.local(""))
    braver = Monitor.restore(config(rejector="rate"), data)
    assert braver.devices == monitor.devices
    assert braver._groups[""].served.pipeline.rejector.target_rate == 0.2
    for each in (wider, braver):
        said = say(each, stream(20, seed=2))
        assert {(row[MODEL], row[VERSION]) for row in said} == {("fused", 1)}


@pytest.mark.parametrize(
    "change",
    [
        lambda group: group.update(given=0),
        lambda group: group.update(given=-1),
        lambda group: group.pop("given"),
        lambda group: group["served"]["standing"].update(local=1e9),
        lambda group: group["served"]["standing"].update(fused=-1.0),
        lambda group: group["served"]["standing"].update(labels=-1),
        lambda group: group["served"].pop("standing"),
        lambda group: group["served"].pop("classifier"),
        lambda group: group.pop("served"),
    ],
)
def test_a_damaged_checkpoint_is_refused(change: Callable[[dict[str, Any]], Any]) -> None:
    monitor = Monitor(config())
    monitor.serve("", other())
    say(monitor, stream(50))
    arrays, meta = decode(monitor.checkpoint(), kind="checkpoint", limit=TRUSTED_MAX_BYTES)
    change(meta["groups"][0])
    data = encode(dict(arrays), meta, kind="checkpoint", limit=TRUSTED_MAX_BYTES)
    with pytest.raises(SnapshotError):
        Monitor.restore(monitor.config, data)


def test_a_trained_classifier_that_is_adopted_decides() -> None:
    monitor = Monitor(config())
    monitor.serve("", other())
    say(monitor, stream(20))
    monitor.set_classifier("", build_classifier(config(), other(seed=4)))
    assert monitor.serving("") is None
    said = say(monitor, stream(20, seed=1))
    assert {row[MODEL] for row in said} == {"local"}
    assert min(row[VERSION] for row in said) > 0


def test_the_local_model_of_a_group_that_nobody_heard_of() -> None:
    monitor = Monitor(config())
    assert monitor.local("").samples == 0
    assert monitor.serving("") is None
    assert monitor.models() == {}
    monitor.serve("", None)
    assert monitor.models() == {}


def test_a_checkpoint_from_before_there_were_transforms_and_fleets() -> None:
    monitor = Monitor(config())
    say(monitor, stream(50))
    arrays, meta = decode(monitor.checkpoint(), kind="checkpoint", limit=TRUSTED_MAX_BYTES)
    del meta["made_of"]["model"]["transform"]
    data = encode(dict(arrays), meta, kind="checkpoint", limit=TRUSTED_MAX_BYTES)
    old = Monitor.restore(monitor.config, data)
    assert old.checkpoint() == monitor.checkpoint()
    assert say(old, stream(50, seed=1)) == say(monitor, stream(50, seed=1))


def test_what_was_fused_can_be_served() -> None:
    nodes = {
        f"node {k}": other(classes, seed=k) for k, classes in enumerate([(0, 1, 2), (2, 1, 3)])
    }
    fused = streamlvq.fuse([Snapshot.of(model, node=node) for node, model in nodes.items()])
    monitor = Monitor(config("both"))
    monitor.set_classifier("", build_classifier(config("both"), nodes["node 0"]))
    monitor.serve("", fused.for_node("node 0"))
    before = fingerprint(monitor.serving(""))
    assert set(monitor.serving("").classes) == {f"class {c}" for c in range(4)}
    whole = stream(300, classes=(0, 1, 2, 3), labelled=0.5)
    said = say(monitor, whole)
    right = [row[LABEL] == y for row, y in zip(said, whole.labels, strict=True) if y is not None]
    assert sum(right) / len(right) > 0.8
    twin = Monitor.restore(monitor.config, monitor.checkpoint())
    twin.serve("", fused.for_node("node 0"))  # nothing new: nothing changes
    assert fingerprint(twin.serving("")) == before
    assert twin.checkpoint() == monitor.checkpoint()
