"""TimeIntegrator: successive readings of a device into one decision."""

from __future__ import annotations

import copy
import datetime as dt
import math
import pickle
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from river import base, evaluate, imblearn, metrics, naive_bayes, preprocessing

import naive
import streamlvq
from streamlvq import Integrated, TimeIntegrator
from streamlvq.wrappers.time_integrator import Windows
from support.samples import blobs, frozen, image_segments, readings, river_checks, taught

steady = settings(derandomize=True, max_examples=80, deadline=None, database=None)


class Parrot(base.Classifier):
    """Gives the features of a reading as its probabilities, and writes down what it is taught."""

    def __init__(self) -> None:
        self.learnt: list[tuple[Any, Any, dict[str, Any]]] = []
        self.observed: list[Any] = []

    @property
    def _multiclass(self) -> bool:
        return True

    def learn_one(self, x: Any, y: Any, **kwargs: Any) -> None:
        if y is None:
            raise ValueError("expected a label")
        self.learnt.append((x, y, kwargs))

    def observe_one(self, x: Any) -> None:
        self.observed.append(x)

    def predict_proba_one(self, x: Any) -> Any:
        return dict(x)


def small() -> streamlvq.LGMLVQ:
    return streamlvq.LGMLVQ(rank=4, rehearsal=2, buffer_size=50)


def pipeline() -> Any:
    return preprocessing.StandardScaler() | small()


# --- River ---------------------------------------------------------------------------------------

ESTIMATORS: dict[str, Callable[[], Any]] = {
    "model": lambda: TimeIntegrator(streamlvq.GLVQ(rehearsal=2), window=5),
    "behind-scaler": lambda: preprocessing.StandardScaler() | TimeIntegrator(small(), window=5),
    "around-pipeline": lambda: TimeIntegrator(pipeline(), window=3),
    "around-river": lambda: TimeIntegrator(naive_bayes.GaussianNB(), window=5),
    "around-committee": lambda: TimeIntegrator(streamlvq.LVQCommittee(), window=2),
}


@pytest.mark.parametrize("make, check", river_checks(ESTIMATORS))
def test_river_check(make: Callable[[], Any], check: Callable[[Any], None]) -> None:
    check(make())


# --- against the oracle --------------------------------------------------------------------------


@st.composite
def opinions(draw: st.DrawFn) -> list[dict[str, float]]:
    """Opinions of a classifier that gets to know one class after the other."""
    known, stream = 1, []
    for _ in range(draw(st.integers(1, 14))):
        known = min(4, known + draw(st.sampled_from([0, 0, 1])))
        raw = [draw(st.sampled_from([0.0, 0.01, 0.3, 1.0])) for _ in range(known)]
        raw[draw(st.integers(0, known - 1))] += 0.5
        stream.append({"abcd"[c]: p / sum(raw) for c, p in enumerate(raw)})
    return stream


def same(answer: Integrated | None, expected: dict[str, float]) -> bool:
    assert answer is not None
    assert answer.probabilities == pytest.approx(expected, rel=1e-9)
    assert answer.label in expected
    assert answer.probabilities[answer.label] == max(answer.probabilities.values())
    return True


@steady
@given(opinions(), st.integers(1, 7))
def test_causal_window(stream: list[dict[str, float]], window: int) -> None:
    model = TimeIntegrator(Parrot(), window=window)
    for k, x in enumerate(stream):
        answer = model.integrated_one(x, t=k)
        assert same(answer, naive.decision(stream[: k + 1], k, window, centered=False))
        assert answer is not None
        assert (answer.delay, answer.t, answer.readings) == (0, k, min(k + 1, window))
        assert model.predict_proba_one(x) == answer.probabilities
        assert model.predict_one(x) == answer.label
        model.observe_one(x, t=k)
    assert model.finish() == []


@steady
@given(opinions(), st.integers(1, 7))
def test_centred_window(stream: list[dict[str, float]], window: int) -> None:
    """Every reading gets its decision, the last ones from `finish`, each from its own window."""
    model = TimeIntegrator(Parrot(), window=window, centered=True)
    assert model.delay == (window - 1) // 2
    decided = []
    for k, x in enumerate(stream):
        answer = model.integrated_one(x, t=k)
        if k < model.delay:
            assert answer is None
            assert model.predict_one(x) is None
            assert model.predict_proba_one(x) == {}
        else:
            about = k - model.delay
            assert same(answer, naive.decision(stream[: k + 1], about, window, centered=True))
            assert answer is not None
            assert (answer.delay, answer.t) == (model.delay, about)
            assert model.predict_one(x) == answer.label
            decided.append(answer)
        model.learn_one(x, "a", t=k)
    for late in model.finish():
        assert late.t == len(stream) - 1 - late.delay
        assert same(late, naive.decision(stream, len(decided), window, centered=True))
        decided.append(late)
    assert [answer.t for answer in decided] == list(range(len(stream)))
    for k, answer in enumerate(decided):
        within = [r for r in naive.around(k, window, True) if 0 <= r < len(stream)]
        assert answer.readings == len(within)
    assert model.finish() == []
    assert model.integrated_one(stream[-1]) is None or model.delay == 0


@steady
@given(
    st.lists(
        st.tuples(st.sampled_from(["x", "y"]), st.integers(-2, 9), st.floats(0.05, 0.95)),
        max_size=25,
    ),
    st.integers(1, 5),
    st.booleans(),
    st.sampled_from([None, 0, 3]),
)
def test_devices_and_gaps(
    stream: list[tuple[str, int, float]], window: int, centered: bool, max_gap: int | None
) -> None:
    """The segment of a device is what came since the last jump in time, forwards or backwards."""
    model = TimeIntegrator(Parrot(), window=window, centered=centered, max_gap=max_gap)
    segment: dict[str, list[dict[str, float]]] = {"x": [], "y": []}
    last: dict[str, int] = {}
    t = 0
    for device, step, p in stream:
        t += step
        opinion = {"a": p, "b": 1 - p}
        if max_gap is not None and abs(t - last.get(device, t)) > max_gap:
            assert model.starts_segment(device, t)
            segment[device] = []
        segment[device].append(opinion)
        last[device] = t
        about = len(segment[device]) - 1 - model.delay
        answer = model.integrated_one(opinion, device=device, t=t)
        if about < 0:
            assert answer is None
        else:
            assert same(answer, naive.decision(segment[device], about, window, centered))
        model.observe_one(opinion, device=device, t=t)
        assert not model.starts_segment(device, t)


@pytest.mark.parametrize("centered", [False, True])
@pytest.mark.parametrize("window", [2, 5])
def test_arrays_of_our_models_give_what_their_dictionaries_give(
    window: int, centered: bool
) -> None:
    """A model inside a pipeline of one is asked for dictionaries instead."""
    fast = TimeIntegrator(small(), window=window, centered=centered)
    slow = TimeIntegrator(Dictionaries(), window=window, centered=centered)
    for k, (x, y) in enumerate(image_segments(200)):
        device = k % 3
        assert fast.predict_proba_one(x, device=device) == slow.predict_proba_one(x, device=device)
        assert fast.predict_one(x, device=device) == slow.predict_one(x, device=device)
        for model in (fast, slow):
            if k % 5 == 4:
                model.observe_one(x, device=device)
            else:
                model.learn_one(x, y, device=device)
    assert fast.finish(1) == slow.finish(1)


class Dictionaries(streamlvq.LGMLVQ):
    """A model of ours that has its own idea of probabilities, so it must be asked for them."""

    def __init__(self) -> None:
        super().__init__(rank=4, rehearsal=2, buffer_size=50)

    def predict_proba_one(self, x: Any) -> Any:
        return dict(super().predict_proba_one(x))


def test_stored_probabilities_are_those_before_learning() -> None:
    model, before = TimeIntegrator(small(), window=3), []
    for x, y in image_segments(60):
        before.append(model.classifier.predict_proba_one(x))
        if before[-1]:
            assert model.predict_proba_one(x) == pytest.approx(
                naive.integrated([p for p in before if p][-3:]), rel=1e-9
            )
        model.learn_one(x, y)


def test_window_of_one_is_the_classifier_alone() -> None:
    model = TimeIntegrator(small(), window=1)
    for x, y in image_segments(60):
        alone = model.classifier.predict_proba_one(x)
        assert model.predict_proba_one(x) == pytest.approx(alone, abs=1e-5)
        model.learn_one(x, y)


# --- what goes in --------------------------------------------------------------------------------


def test_nothing_learnt_yet() -> None:
    model = TimeIntegrator(small(), window=5)
    assert model.predict_proba_one({"a": 1.0}) == {}
    assert model.predict_one({"a": 1.0}) is None
    assert model.integrated_one({"a": 1.0}) is None
    model.observe_one({"a": 1.0}, device="x")
    model.learn_one({"a": 1.0}, "only", device="x")
    answer = model.integrated_one({"a": 1.0}, device="x")
    assert answer == Integrated("only", {"only": 1.0}, 0, None, 1)


def test_agreement_grows_and_one_reading_can_be_outvoted() -> None:
    model = TimeIntegrator(Parrot(), window=3)
    mild, sure = {"a": 0.7, "b": 0.3}, {"a": 0.01, "b": 0.99}
    assert model.predict_proba_one(mild)["a"] == pytest.approx(0.7)
    model.observe_one(mild)
    assert model.predict_proba_one(mild)["a"] == pytest.approx(0.49 / 0.58)
    strong = {"a": 0.95, "b": 0.05}
    model.observe_one(strong)
    model.observe_one(strong)
    assert model.predict_one(sure) == "a"


def test_zero_does_not_veto() -> None:
    model = TimeIntegrator(Parrot(), window=4)
    model.observe_one({"a": 1.0, "b": 0.0})
    for _ in range(2):
        model.observe_one({"a": 0.001, "b": 0.999})
    assert model.predict_one({"a": 0.001, "b": 0.999}) == "b"
    assert min(model.predict_proba_one({"a": 0.0, "b": 1.0}).values()) > 0


def test_new_class_is_neither_vetoed_nor_favoured() -> None:
    """Readings that could not know a class count as average for it."""
    model = TimeIntegrator(Parrot(), window=5)
    for _ in range(4):
        model.observe_one({"a": 0.97, "b": 0.02, "c": 0.01})
    undecided = dict.fromkeys("abcd", 0.25)
    p = model.predict_proba_one(undecided)
    assert p["a"] > p["d"] > p["b"] > p["c"]
    clear = {"a": 0.05, "b": 0.03, "c": 0.02, "d": 0.9}
    assert model.predict_one(clear) == "a"  # one reading against four
    model.observe_one(clear)
    assert model.predict_one(clear) == "d"  # two against three: no need to wait for a whole window


def test_readings_that_know_nothing_leave_a_new_class_to_the_others() -> None:
    model = TimeIntegrator(Parrot(), window=5)
    for _ in range(4):
        model.observe_one({"a": 1 / 3, "b": 1 / 3, "c": 1 / 3})
    latest = {"a": 0.1, "b": 0.2, "c": 0.3, "d": 0.4}
    assert model.predict_proba_one(latest) == pytest.approx(latest)


def test_classes_that_come_one_by_one_seldom_copy_all_windows() -> None:
    """Columns are added ahead of need, and hold what a window without them would."""
    windows, rng, copies = Windows(3, 1, None, max_devices=9), np.random.default_rng(3), 0
    for known in range(1, 81):
        twin = Windows(3, 1, None, max_devices=9)  # with no column to spare
        twin.restore(*windows.memory())
        before, p = windows.logs, rng.dirichlet(np.ones(known))
        for each in (windows, twin):
            each.advance(known % 4, None, each.find(known % 4, None), p)
        arrays, extra = windows.memory()
        expected, names = twin.memory()
        assert extra == names
        np.testing.assert_array_equal(arrays["logs"], expected["logs"])
        copies += windows.logs is not before
    assert arrays["logs"].shape == (4, 4, 81)
    assert copies < 16


def test_classes_that_a_classifier_stops_mentioning_have_probability_zero() -> None:
    model = TimeIntegrator(Parrot(), window=2)
    model.observe_one({"a": 0.5, "b": 0.5})
    p = model.predict_proba_one({"b": 1.0})
    assert p == pytest.approx({"a": 1e-6, "b": 1.0}, rel=1e-5)


def test_one_window_for_each_device() -> None:
    model = TimeIntegrator(Parrot(), window=5)
    model.observe_one({"a": 0.9, "b": 0.1}, device="left")
    model.observe_one({"a": 0.1, "b": 0.9}, device="right")
    even = {"a": 0.5, "b": 0.5}
    assert model.predict_one(even, device="left") == "a"
    assert model.predict_one(even, device="right") == "b"
    assert model.predict_proba_one(even, device="new") == even
    model.reset("left")
    assert model.predict_proba_one(even, device="left") == even
    assert model.predict_one(even, device="right") == "b"
    model.reset("never seen")


def test_labelled_readings_teach_the_classifier_others_are_shown_to_it() -> None:
    for centered in (False, True):
        model = TimeIntegrator(Parrot(), window=5, centered=centered)
        model.learn_one({"a": 1.0}, "a")
        model.observe_one({"a": 0.5, "b": 0.5})
        assert model.classifier.learnt == [({"a": 1.0}, "a", {})]
        assert model.classifier.observed == [{"a": 0.5, "b": 0.5}]


def test_observe_reaches_the_model_behind_a_scaler() -> None:
    X, y = blobs(40, 3, 2, seed=1)
    model = taught(TimeIntegrator(pipeline(), window=5), X, y.tolist())
    inner = model.classifier["LGMLVQ"]
    before = frozen(inner)
    model.observe_one({name: 50 * value for name, value in readings(X)[0].items()})
    assert frozen(inner) != before


def test_observe_a_classifier_that_learns_nothing_from_it() -> None:
    model = TimeIntegrator(naive_bayes.GaussianNB(), window=3)
    X, y = blobs(30, 3, 2, seed=2)
    taught(model, X, y.tolist())
    before = frozen(model.classifier)
    model.observe_one(readings(X)[0])
    assert frozen(model.classifier) == before


# --- time ----------------------------------------------------------------------------------------


def test_a_gap_empties_the_window() -> None:
    model = TimeIntegrator(Parrot(), window=5, max_gap=60)
    even = {"a": 0.5, "b": 0.5}
    model.observe_one({"a": 0.9, "b": 0.1}, t=100.0)
    before = frozen(model)
    assert model.predict_proba_one(even, t=161.0) == even
    assert frozen(model) == before  # only asked
    assert model.predict_proba_one(even, t=160.0)["a"] == pytest.approx(0.9)
    assert model.predict_proba_one(even, t=40.0)["a"] == pytest.approx(0.9)  # overtaken
    assert model.predict_proba_one(even, t=39.0) == even  # the clock was set
    assert not model.starts_segment(t=160.0)
    assert model.starts_segment(t=161.0)
    model.learn_one(even, "a", t=161.0)
    answer = model.integrated_one(even, t=162.0)
    assert answer is not None
    assert answer.readings == 2


def test_datetimes() -> None:
    for timestamp in (dt.datetime, pd.Timestamp):
        noon = timestamp(2026, 11, 16, 12, tzinfo=dt.UTC)
        model = TimeIntegrator(Parrot(), max_gap=dt.timedelta(minutes=5), window=3, centered=True)
        model.observe_one({"a": 0.9, "b": 0.1}, t=noon)
        soon, late = noon + dt.timedelta(minutes=5), noon + dt.timedelta(minutes=6)
        answer = model.integrated_one({"a": 0.5, "b": 0.5}, t=soon)
        assert answer is not None
        assert answer.t == noon
        assert model.integrated_one({"a": 0.5, "b": 0.5}, t=late) is None


@pytest.mark.parametrize("bad", [math.nan, np.float64("nan"), pd.NaT], ids=str)
@pytest.mark.parametrize("max_gap", [None, 5])
def test_times_that_are_missing(bad: Any, max_gap: int | None) -> None:
    model = TimeIntegrator(Parrot(), window=5, max_gap=max_gap)
    before = frozen(model)
    for act in (
        model.predict_one,
        model.predict_proba_one,
        model.integrated_one,
        model.observe_one,
    ):
        with pytest.raises(ValueError, match="expected a time that is not NaN, got t="):
            act({"a": 1.0}, t=bad)
    with pytest.raises(ValueError, match="expected a time that is not NaN, got t="):
        model.learn_one({"a": 1.0}, "a", t=bad)
    assert frozen(model) == before


def test_time_is_needed_for_gaps() -> None:
    model = TimeIntegrator(Parrot(), window=5, max_gap=5)
    with pytest.raises(ValueError, match=r"expected the time .* got none: pass t="):
        model.predict_one({"a": 1.0})
    with pytest.raises(ValueError, match="max_gap=5"):
        model.learn_one({"a": 1.0}, "a")
    assert model.classifier.learnt == []


@pytest.mark.parametrize("t", [dt.datetime(2026, 1, 1), "noon", None])
def test_times_that_cannot_be_compared(t: Any) -> None:
    model = TimeIntegrator(Parrot(), window=5, max_gap=5)
    model.observe_one({"a": 1.0}, t=1.0)
    before = frozen(model)
    with pytest.raises(ValueError, match="expected"):
        model.learn_one({"a": 1.0}, "a", t=t)
    assert frozen(model) == before


def test_infinite_time_is_far_from_everything() -> None:
    model = TimeIntegrator(Parrot(), window=5, max_gap=5)
    for _ in range(2):
        model.observe_one({"a": 1.0, "b": 0.0}, t=math.inf)
        answer = model.integrated_one({"a": 1.0, "b": 0.0}, t=math.inf)
        assert answer is not None
        assert answer.readings == 1


# --- no trace ------------------------------------------------------------------------------------

ASK: dict[str, Callable[[Any, Any], Any]] = {
    "predict_one": lambda m, x: m.predict_one(x, device="x"),
    "predict_proba_one": lambda m, x: m.predict_proba_one(x, device="x"),
    "integrated_one": lambda m, x: m.integrated_one(x, device="x", t=3),
    "other device": lambda m, x: m.predict_one(x, device="never seen"),
    "explain_one": lambda m, x: m.explain_one(x),
    "starts_segment": lambda m, x: m.starts_segment("x"),
}


@pytest.mark.parametrize("ask", ASK)
@pytest.mark.parametrize("centered", [False, True])
@pytest.mark.parametrize("make", [small, pipeline, naive_bayes.GaussianNB])
def test_predictions_are_pure(ask: str, centered: bool, make: Callable[[], Any]) -> None:
    if ask == "explain_one" and make is naive_bayes.GaussianNB:
        pytest.skip("has no explanations")
    model = TimeIntegrator(make(), window=5, centered=centered)
    for x, y in image_segments(40):
        model.learn_one(x, y, device="x")
    before = frozen(model)
    for x, _ in image_segments(45):
        ASK[ask](model, x)
    assert frozen(model) == before


@pytest.mark.parametrize("value", [math.inf, "text"])
@pytest.mark.parametrize("make", [small, streamlvq.LVQCommittee])
def test_a_refused_reading_leaves_no_trace(value: Any, make: Callable[[], Any]) -> None:
    model = TimeIntegrator(make(), window=5)
    for x, y in image_segments(40):
        model.learn_one(x, y)
    before = frozen(model)
    bad = dict(x, **{next(iter(x)): value})
    for act in (model.predict_one, model.observe_one, model.integrated_one):
        with pytest.raises(ValueError, match="feature"):
            act(bad)
    for label in (y, "new"):
        with pytest.raises(ValueError, match="feature"):
            model.learn_one(bad, label)
    assert frozen(model) == before


def test_a_refused_label_leaves_no_trace() -> None:
    X, y = blobs(20, 3, 2)
    for model in (TimeIntegrator(small(), window=5), TimeIntegrator(Parrot(), window=5)):
        taught(model, X[:10], y[:10].tolist())
        before = frozen(model)
        with pytest.raises(ValueError, match="expected a label"):
            model.learn_one(readings(X)[11], None)
        assert frozen(model) == before


def test_a_device_that_cannot_be_a_key_leaves_no_trace() -> None:
    model = TimeIntegrator(Parrot(), window=5)
    with pytest.raises(TypeError, match="unhashable"):
        model.learn_one({"a": 1.0}, "a", device=["x"])
    assert model.classifier.learnt == []


# --- copies --------------------------------------------------------------------------------------


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
@pytest.mark.parametrize("make", [small, pipeline])
def test_copies_go_on_where_it_stopped(
    copied: Callable[[Any], Any], make: Callable[[], Any]
) -> None:
    samples = image_segments(120)
    model = TimeIntegrator(make(), window=5, centered=True, max_gap=10)
    for t, (x, y) in enumerate(samples[:60]):
        model.learn_one(x, y, device=t % 2, t=t)
    twin = copied(model)
    for t, (x, y) in enumerate(samples[60:], 60):
        answer = model.integrated_one(x, device=t % 2, t=t)
        assert twin.integrated_one(x, device=t % 2, t=t) == answer
        model.learn_one(x, y, device=t % 2, t=t)
        twin.learn_one(x, y, device=t % 2, t=t)
    assert twin.finish(0) == model.finish(0)


def test_clones_have_learnt_nothing() -> None:
    model = TimeIntegrator(small(), window=3, centered=True, max_gap=dt.timedelta(1), max_devices=7)
    x, y = image_segments(1)[0]
    model.learn_one(x, y, t=dt.datetime(2026, 1, 1))
    clone = model.clone()
    assert (clone.window, clone.centered, clone.max_gap) == (3, True, dt.timedelta(1))
    assert clone.max_devices == 7
    assert clone.predict_proba_one(x, t=dt.datetime(2026, 1, 1)) == {}
    assert clone.classifier.classes == ()
    assert clone.clone({"window": 9}).delay == 4


def test_clones_with_attributes_are_copies() -> None:
    model = TimeIntegrator(small(), window=3)
    for x, y in image_segments(30):
        model.learn_one(x, y)
    twin = model.clone(include_attributes=True)
    assert twin.predict_proba_one(x) == model.predict_proba_one(x)
    twin.learn_one(x, y)
    assert twin.predict_proba_one(x) != model.predict_proba_one(x)
    assert twin.clone({"window": 2}, include_attributes=True).predict_proba_one(x) == {}


# --- many devices --------------------------------------------------------------------------------


def test_the_device_silent_longest_is_forgotten() -> None:
    model = TimeIntegrator(Parrot(), window=5, max_devices=2)
    strong, even = {"a": 0.9, "b": 0.1}, {"a": 0.5, "b": 0.5}
    for device in ("x", "y", "x", "z"):
        model.observe_one(strong, device=device)
        model.predict_one(even, device="y")  # asking is not speaking
    known = [device for device in "xyz" if model.predict_proba_one(even, device=device) != even]
    assert known == ["x", "z"]


def test_a_gap_counts_as_speaking() -> None:
    model = TimeIntegrator(Parrot(), window=5, max_devices=2, max_gap=1)
    for device, t in (("x", 0), ("y", 0), ("x", 9), ("z", 9)):
        model.observe_one({"a": 0.9, "b": 0.1}, device=device, t=t)
    assert model.starts_segment("y", 0)
    assert not model.starts_segment("x", 9)


def test_memory_is_bounded() -> None:
    """A hundred thousand devices with a window of 5 and 10 classes fit into 200 MB."""
    classes = [f"class {c}" for c in range(10)]
    opinion = dict.fromkeys(classes, 0.1)
    model, devices = TimeIntegrator(Parrot(), window=5, max_devices=5000), 5000
    names = [f"device {k}" for k in range(2 * devices)]
    model.observe_one(opinion, device="warm")
    model.reset("warm")
    model.classifier.observed.clear()
    tracemalloc.start()
    try:
        for t in range(5):
            for device in names[:devices]:
                model.observe_one(opinion, device=device, t=float(t))
        model.classifier.observed.clear()
        full = tracemalloc.get_traced_memory()[0]
        for device in names[devices:]:
            model.observe_one(opinion, device=device, t=9.0)
        model.classifier.observed.clear()
        replaced = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert full / devices < 2000
    assert replaced < 1.1 * full


# --- pipelines and keywords ----------------------------------------------------------------------


def test_pipelines_hand_device_and_time_on() -> None:
    """A pipeline gives the same as its steps one after the other, with the same keywords."""
    model = preprocessing.StandardScaler() | TimeIntegrator(small(), window=3, max_gap=10)
    scaler, integrator = (
        preprocessing.StandardScaler(),
        TimeIntegrator(small(), window=3, max_gap=10),
    )
    for t, (x, y) in enumerate(image_segments(60)):
        context = {"device": t % 2, "t": t if t < 30 else t + 20}
        scaled = scaler.transform_one(x)
        p = model.predict_proba_one(x, **context)
        assert p == integrator.predict_proba_one(scaled, **context)
        assert model.predict_one(x, **context) == integrator.predict_one(scaled, **context)
        model.learn_one(x, y, **context)
        scaler.learn_one(x)
        integrator.learn_one(scaler.transform_one(x), y, **context)
    assert model["TimeIntegrator"].starts_segment("never seen", 80)
    assert not model["TimeIntegrator"].starts_segment(0, 80)


class Weighted(Parrot):
    """Names the keywords that it wants."""

    def learn_one(self, x: Any, y: Any, w: float = 1.0, t: Any = None) -> None:  # type: ignore[override]
        self.learnt.append((x, y, {"w": w, "t": t}))


def test_keywords_go_to_those_who_name_them() -> None:
    x = {"a": 1.0}
    model = TimeIntegrator(Weighted(), window=5)
    model.learn_one(x, "a", device="d", t=5, w=2.0, colour="red")
    assert model.classifier.learnt == [(x, "a", {"w": 2.0, "t": 5})]
    anything = TimeIntegrator(Parrot(), window=5)
    anything.learn_one(x, "a", device="d", w=2.0)
    assert anything.classifier.learnt == [(x, "a", {"device": "d", "w": 2.0})]
    for classifier in (small(), pipeline(), streamlvq.LVQCommittee(), naive_bayes.GaussianNB()):
        nothing = TimeIntegrator(classifier, window=5)
        for label in ("a", "b"):
            nothing.learn_one(x, label, device="d", t=1, w=2.0)
        nothing.observe_one(x, device="d", t=1, w=2.0)
        assert nothing.predict_one(x, device="d", t=1, colour="red") in ("a", "b")


def test_keywords_do_not_get_stuck_in_rivers_wrappers() -> None:
    """They hand on whatever they are given, to models that know nothing of devices."""
    balanced = imblearn.RandomUnderSampler(small(), {0: 0.5, 1: 0.5}, seed=1)
    model = TimeIntegrator(preprocessing.StandardScaler() | balanced, window=5)
    X, y = blobs(50, 3, 2, seed=3)
    for t, (x, c) in enumerate(zip(readings(X), y.tolist(), strict=True)):
        model.predict_one(x, device="d", t=t)
        model.learn_one(x, c, device="d", t=t)
        model.observe_one(x, device="d", t=t)
    assert model.predict_one(x, device="d", t=t) in (0, 1)


def test_progressive_validation_passes_keywords() -> None:
    stream = [
        (x, y, {"device": k % 2, "t": k, "w": 1.0}) for k, (x, y) in enumerate(image_segments(80))
    ]
    model = TimeIntegrator(small(), window=5, max_gap=100)
    evaluate.progressive_val_score(stream, model, metrics.Accuracy())
    assert not model.starts_segment(0, 80)
    assert not model.starts_segment(1, 80)


def test_explanations_are_those_of_the_model_inside() -> None:
    model = TimeIntegrator(pipeline(), window=5)
    for x, y in image_segments(60):
        model.learn_one(x, y)
    scaled = model.classifier.transform_one(x)
    assert model.explain_one(x) == model.classifier["LGMLVQ"].explain_one(scaled)


# --- parameters ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "params, message",
    [
        (
            {"window": 0},
            r"=...\): expected 'adaptive' or a whole number of at least 1, got 0",
        ),
        ({"window": 2.5}, "got 2.5"),
        ({"max_devices": 0}, "max_devices"),
        ({"max_gap": -1}, r"max_gap=...\): expected a number of at least 0, got -1"),
        ({"max_gap": dt.timedelta(seconds=-1)}, "max_gap"),
        ({"max_gap": "long"}, "got 'long'"),
        ({"max_gap": math.nan}, "got nan"),
        ({"centered": 1}, "expected a bool, got 1"),
    ],
)
def test_impossible_parameters(params: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TimeIntegrator(Parrot(), **params)


def test_wrapped_things_that_make_no_sense() -> None:
    with pytest.raises(ValueError, match=r"expected a classifier, got StandardScaler"):
        TimeIntegrator(preprocessing.StandardScaler())
    rejector = streamlvq.ProbabilityRejector(small(), threshold=0.5)
    for wrapped in (rejector, preprocessing.StandardScaler() | rejector, TimeIntegrator(small())):
        with pytest.raises(ValueError, match="put rejectors around the integrator"):
            TimeIntegrator(wrapped)


# --- figures -------------------------------------------------------------------------------------


def test_integration_pays_where_states_last() -> None:
    """Accuracy alone, with a causal and with a centred window, when classes come in runs of 66."""
    patches = sorted(image_segments(2310), key=lambda sample: sample[1])
    runs = [patches[k : k + 66] for k in range(0, len(patches), 66)]
    stream = [sample for k in range(5) for run in runs[k::5] for sample in run]
    causal = TimeIntegrator(streamlvq.GLVQ(), window=3)
    centred = TimeIntegrator(causal.classifier, window=5, centered=True)
    hits: dict[str, list[bool]] = {"alone": [], "causal": [], "centred": []}
    for k, (x, y) in enumerate(stream):
        hits["alone"].append(causal.classifier.predict_one(x) == y)
        hits["causal"].append(causal.predict_one(x) == y)
        if k >= centred.delay:
            hits["centred"].append(centred.predict_one(x) == stream[k - centred.delay][1])
        centred.observe_one(x)
        causal.learn_one(x, y)
    alone, late, early = (np.mean(hits[name]) for name in ("alone", "causal", "centred"))
    assert 0.9 < alone < late - 0.02
    assert late < early - 0.01
    assert early > 0.97


def test_a_time_of_the_wrong_kind_does_not_lock_a_device_out() -> None:
    model = TimeIntegrator(streamlvq.GLVQ(), window=5, max_gap=5)
    for t, y in enumerate("xyxy"):
        model.learn_one({"a": float(y == "y")}, y, device="p", t=t)
    for wrong in (dt.datetime(2024, 1, 1), "noon", [1.0]):
        with pytest.raises(ValueError, match="expected times whose difference"):
            model.learn_one({"a": 1.0}, "y", device="q", t=wrong)
    model.learn_one({"a": 1.0}, "y", device="q", t=2.0)
    assert model.integrated_one({"a": 1.0}, device="q", t=3.0).readings == 2


def integrator_with_evidence() -> tuple[streamlvq.TimeIntegrator, np.ndarray]:
    model = streamlvq.TimeIntegrator(streamlvq.GLVQ())
    rng = np.random.default_rng(0)
    for k in range(40):
        model.learn_one({"a": rng.normal() + 3.0 * (k % 2)}, k % 2, device="d")
    model.predict_one({"a": 1.0}, device="d")
    evidence = model.last_evidence()
    assert evidence is not None
    return model, evidence


@pytest.mark.parametrize("convert", [np.ndarray.tolist, np.asfortranarray], ids=["list", "order"])
def test_evidence_may_come_in_another_form(convert: Any) -> None:
    (one, evidence), (other, _) = integrator_with_evidence(), integrator_with_evidence()
    one.record_label(evidence, 1, "d")
    other.record_label(convert(evidence), 1, "d")
    fitted = [model.memory_state()[0]["fitted"] for model in (one, other)]
    np.testing.assert_array_equal(*fitted)


@pytest.mark.parametrize("wrong", ["text", [[1.0], [2.0, 3.0]], [1.0, 2.0], [[np.nan], [0.0]]])
def test_other_evidence_is_refused(wrong: Any) -> None:
    model, _ = integrator_with_evidence()
    with pytest.raises(ValueError, match="expected the result of last_evidence, got"):
        model.record_label(wrong, 1, "d")


def test_a_label_that_cannot_be_hashed_is_refused() -> None:
    model, evidence = integrator_with_evidence()
    before = str(model.memory_state())
    with pytest.raises(ValueError, match=r"expected a label that can be hashed, got \[1\]"):
        model.record_label(evidence, [1], "d")
    assert str(model.memory_state()) == before
