"""Novelty of readings: ranks among earlier ones, classes never learnt, and what is kept of it."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from river import drift, naive_bayes, preprocessing

import naive
import streamlvq
from streamlvq import Decision, ProbabilityRejector, RelSimRejector, TimeIntegrator
from streamlvq.errors import ParameterError, SnapshotError
from streamlvq.estimator import build_estimator
from streamlvq.kernels import kernels
from streamlvq.kernels import layout as at
from streamlvq.models.pool import prototype_model
from support.samples import MODELS, blobs, build, readings

steady = settings(derandomize=True, max_examples=25, deadline=None, database=None)
Make = Callable[..., Any]


def rejecting(model: Any, **options: Any) -> Any:
    kind = RelSimRejector if getattr(model, "has_relsim", False) else ProbabilityRejector
    return kind(model, **({"threshold": 0.0} | options))


def taught(rejector: Any, n: int = 400, **options: Any) -> list[Decision]:
    """Decide on each reading of a stream, then learn it."""
    X, y = blobs(n, **options)
    decisions = []
    for x, label in zip(readings(X), y.tolist(), strict=True):
        decisions.append(rejector.decide_one(x))
        rejector.learn_one(x, label)
    return decisions


def far(rejector: Any, factor: float = 30.0) -> dict[str, float]:
    """Return a reading many deviations away from all that was learnt, along all features."""
    state = prototype_model(rejector._prototypes)._engine.state
    away = state["mean"] + factor / state["inverse"]
    return dict(zip(rejector._prototypes.features, away.tolist(), strict=True))


# --- against the oracle --------------------------------------------------------------------------


def scored_by(model: Any) -> tuple[int, float]:
    """Return the class that a reading just predicted is compared with, and RelSim."""
    if model.has_relsim:
        pair = model.last_closest()
        return pair.winner, pair.relsim
    first, second = np.sort(model.last_probabilities())[::-1][:2]
    return int(model.last_probabilities().argmax()), float((first - second) / (first + second))


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize(
    "name", ["GLVQ", "GRLVQ", "GMLVQ", "LGMLVQ", "RSLVQ", "PairwiseLVQ", "LVQ3"]
)
def test_novelty_is_that_of_the_oracle(name: str, missing: float) -> None:
    model = build(name, rehearsal=1, buffer_size=300, max_prototypes_per_class=3)
    rejector, oracle = rejecting(model), naive.NaiveNovelty()
    X, y = blobs(700, d=5, classes=3, missing=missing, seed=3)
    X[:, 4] = 7.0  # constant
    for k, (x, c) in enumerate(zip(readings(X), y.tolist(), strict=True)):
        decision = rejector.decide_one(x)
        known = len(model.classes)
        if known >= 2 and decision.reason != "no_feature":
            state = model._engine.state
            stored = min(state.size(at.STORED), state.size(at.BUFFER))
            buffer = list(zip(state["buffer_x"][:stored], state["buffer_y"][:stored], strict=True))
            winner, relsim = scored_by(model)
            row = np.array(model.vector(x))
            novelty, said = oracle.measure(relsim, winner, row, buffer, state["inverse"])
            if oracle.both:
                assert decision.novelty == pytest.approx(novelty, rel=1e-9, abs=1e-12), k
            else:
                assert decision.novelty is None  # there is nothing to compare it with
            if c < known:
                oracle.add(said, winner, c)
        else:
            assert decision.novelty is None
        rejector.learn_one(x, c)


def test_ball_is_that_of_relsim() -> None:
    kernel = kernels("novelty")
    shrink = math.sqrt((1.0 - kernel.BALL_RELSIM) / (1.0 + kernel.BALL_RELSIM))
    ball = streamlvq.robustness.acceptance_ball(kernel.BALL_RELSIM, 2.0)
    assert ball.away == pytest.approx(2.0 * shrink / (1.0 - shrink))
    assert pytest.approx(ball.away / 2.0) == kernel.BALL_RADIUS


# --- properties ----------------------------------------------------------------------------------


@steady
@given(
    st.sampled_from(sorted(MODELS)),
    st.integers(0, 1000),
    st.sampled_from([0.0, 0.1]),
    st.booleans(),
)
def test_novelty_is_from_0_to_1(name: str, seed: int, missing: float, stores: bool) -> None:
    model = build(name, rehearsal=int(stores))
    rejector = rejecting(model)
    decisions = taught(rejector, n=120, seed=seed, missing=missing)
    decisions += [rejector.decide_one(far(rejector, factor)) for factor in (3.0, 1e3, 1e12, -1e30)]
    ranked = False  # from the first label of a class that was known before
    for decision in decisions:
        if decision.reason in ("no_model", "no_feature"):
            assert decision.novelty is None
        elif ranked or decision.novelty is not None:
            ranked = True
            assert decision.novelty is not None
            assert 0.0 <= decision.novelty < 1.0
            assert round(decision.novelty, 6) < 1.0
    assert ranked


def test_there_is_no_novelty_before_labels() -> None:
    """Which would look like that of a familiar reading."""
    model = streamlvq.LGMLVQ()
    X, y = blobs(200)
    model.learn_array(X, y.tolist(), features=list(readings(X)[0]))
    rejector = rejecting(model)
    decision = rejector.decide_one(far(rejector))
    assert decision.novelty is None
    assert decision.reason in (None, "outlier")
    rejector.learn_one(readings(X)[0], y[0])
    assert rejector.decide_one(far(rejector)).novelty is not None


@pytest.mark.parametrize("name", sorted(MODELS))
def test_a_far_reading_is_new_whatever_the_certainty(name: str) -> None:
    rejector = rejecting(build(name, rehearsal=2))
    taught(rejector)
    decision = rejector.decide_one(far(rejector))
    assert decision.novelty is not None
    assert decision.novelty > 0.999
    assert (decision.accepted, decision.reason) == (False, "outlier")
    assert decision.outlier_by == "novelty"
    assert rejector.predict_one(far(rejector)) is None


def test_farther_is_newer() -> None:
    rejector = rejecting(streamlvq.LGMLVQ())
    taught(rejector)
    novelties = [rejector.decide_one(far(rejector, factor)).novelty for factor in (0.5, 2.0, 5.0)]
    assert novelties == sorted(novelties)


@pytest.mark.parametrize("name", ["GLVQ", "LGMLVQ", "PairwiseLVQ"])
def test_a_stored_reading_is_known(name: str) -> None:
    """It has distance 0 if it is compared with its class; then it is ambiguous at most."""
    rejector = rejecting(build(name, rehearsal=2), threshold=0.3)
    taught(rejector, n=300)
    X, y = blobs(300)
    right = 0
    for x, c in zip(readings(X), y.tolist(), strict=True):
        decision = rejector.decide_one(x)
        if scored_by(rejector._prototypes)[0] == c:
            right += 1
            assert rejector._novelty._out[kernels("novelty").OUT_DISTANCE] == pytest.approx(0.0)
            assert decision.outlier_by is None
    assert right > 200


def test_a_class_that_was_never_learnt_is_seen() -> None:
    X, y = blobs(1500, d=6, classes=4, seed=5)
    X += 4.0 * (y == 3)[:, None] * X.std(axis=0)
    rejector = rejecting(streamlvq.LGMLVQ())
    found: dict[bool, list[bool]] = {True: [], False: []}
    for k, (x, c) in enumerate(zip(readings(X), y.tolist(), strict=True)):
        new = rejector.decide_one(x).outlier_by == "novelty"
        if k >= 500:
            found[c == 3].append(new)
        if c != 3:
            rejector.learn_one(x, c)
    assert np.mean(found[True]) > 0.9
    assert np.mean(found[False]) < 0.03


@pytest.mark.parametrize("rate", [0.01, 0.05, 0.2])
@pytest.mark.parametrize("name", ["GLVQ", "LGMLVQ", "PairwiseLVQ"])
def test_rate_of_false_alarms(name: str, rate: float) -> None:
    rejector = rejecting(build(name, rehearsal=2), novelty_rate=rate)
    decisions = taught(rejector, n=3000)[500:]
    alarms = np.mean([decision.outlier_by == "novelty" for decision in decisions])
    assert rate * 0.6 < alarms < rate * 1.6


def test_a_border_is_no_outlier() -> None:
    """A reading between two prototypes is ambiguous, however exactly it lies between them."""
    rejector = rejecting(streamlvq.GLVQ(max_prototypes_per_class=1), threshold=0.05)
    taught(rejector, n=600, classes=2)
    first, second = rejector._prototypes.prototypes()
    between = {name: (first.values[name] + second.values[name]) / 2 for name in first.values}
    decision = rejector.decide_one(between)
    assert decision.certainty < 0.01
    assert decision.reason == "ambiguous"


# --- with and without stored readings -------------------------------------------------------------


def test_without_stored_readings() -> None:
    rejector = rejecting(streamlvq.GLVQ(rehearsal=0), threshold=0.3)
    taught(rejector)
    scores = rejector._novelty.state()["scores"]
    assert np.isnan(scores[:, kernels("novelty").DISTANCE]).any()
    assert not (scores[:, kernels("novelty").DISTANCE] > 0.0).any()
    decision = rejector.decide_one(far(rejector, 1000.0))
    assert decision.novelty is not None
    assert (decision.reason, decision.outlier_by) == ("outlier", "ball")


def test_rate_none_measures_nothing() -> None:
    rejector = rejecting(streamlvq.LGMLVQ(), novelty_rate=None)
    decisions = taught(rejector)
    assert {decision.novelty for decision in decisions} == {None}
    decision = rejector.decide_one(far(rejector, 1000.0))
    assert decision.accepted == (decision.certainty > 0.0)
    assert rejector._novelty is None


@pytest.mark.parametrize("threshold", [0.1, 0.3, 0.9, 1.0])
def test_ball_is_the_same_for_every_threshold(threshold: float) -> None:
    model = streamlvq.GLVQ(standardize=False, rehearsal=0, max_prototypes_per_class=1)
    model.learn_one({"a": 0.0, "b": 0.0}, "here")
    model.learn_one({"a": 4.0, "b": 0.0}, "there")
    radius = 4.0 * kernels("novelty").BALL_RADIUS
    for novelty_rate in (None, 0.01):
        rejector = RelSimRejector(model, threshold=threshold, novelty_rate=novelty_rate)
        inside = rejector.decide_one({"a": 0.0, "b": 0.99 * radius})
        assert (inside.reason, inside.outlier_by) == ("ambiguous", None)
        outside = rejector.decide_one({"a": 0.0, "b": 1.01 * radius})
        assert (outside.reason, outside.outlier_by) == ("outlier", "ball")


# --- chains --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        streamlvq.LVQCommittee,
        lambda: preprocessing.StandardScaler() | streamlvq.LGMLVQ(),
        lambda: TimeIntegrator(streamlvq.LGMLVQ()),
        lambda: TimeIntegrator(streamlvq.LVQCommittee()),
        streamlvq.PairwiseLVQ,
    ],
)
def test_chains_of_ours(make: Make) -> None:
    rejector = ProbabilityRejector(make(), threshold=0.0)
    decisions = taught(rejector)
    assert all(decision.novelty is not None for decision in decisions[50:])
    x = dict.fromkeys(rejector._prototypes.features, 1e6)
    assert rejector.decide_one(x).outlier_by == "novelty"


@pytest.mark.parametrize(
    "make",
    [
        naive_bayes.GaussianNB,
        lambda: drift.DriftRetrainingClassifier(streamlvq.LGMLVQ()),
        lambda: TimeIntegrator(streamlvq.LGMLVQ(), window=3, centered=True),
    ],
)
def test_no_novelty_where_the_model_cannot_be_asked(make: Make) -> None:
    """It may be another one tomorrow, or the decision is about another reading."""
    rejector = ProbabilityRejector(make(), threshold=0.0)
    assert {decision.novelty for decision in taught(rejector, n=60)} == {None}


def test_it_is_about_the_reading_not_the_window() -> None:
    alone, windowed = streamlvq.LGMLVQ(), TimeIntegrator(streamlvq.LGMLVQ(), window=9)
    pair = [RelSimRejector(each, threshold=0.0) for each in (alone, windowed)]
    first, second = (taught(each) for each in pair)
    assert [a.novelty for a in first] == [b.novelty for b in second]


@pytest.mark.parametrize("rate", [-0.1, 1.1, "0.01", math.nan, True])
def test_parameters(rate: Any) -> None:
    with pytest.raises(ParameterError, match=r"novelty_rate=.*: expected a number from 0 to 1"):
        RelSimRejector(streamlvq.GLVQ(), threshold=0.5, novelty_rate=rate)


# --- memory --------------------------------------------------------------------------------------


def test_memory_depends_on_classes_alone() -> None:
    rejector = rejecting(streamlvq.GLVQ())
    sizes = []
    for seed in range(6):
        taught(rejector, n=300, seed=seed)
        sizes.append(len(rejector._novelty._scores))
        for array in rejector._novelty.state().values():
            assert array.size <= 3 * 2 * 64 + 2 * 500
    assert sizes[0] == sizes[-1] <= 4


def test_many_classes() -> None:
    rejector = rejecting(streamlvq.GLVQ(max_prototypes_per_class=1, rehearsal=1))
    random = np.random.default_rng(0)
    for k in range(900):
        c = k % 300
        x = {"a": c + 0.1 * random.normal(), "b": c % 7 + 0.1 * random.normal()}
        rejector.learn_one(x, c)
    scores = rejector._novelty._scores
    assert scores.nbytes <= 2 * 300 * 2 * 64 * 8
    assert rejector.decide_one({"a": 150.0, "b": 3.0}).outlier_by is None


@pytest.mark.parametrize("make", [streamlvq.LGMLVQ, streamlvq.LVQCommittee, streamlvq.PairwiseLVQ])
def test_state_goes_on_bit_by_bit(make: Make) -> None:
    rejector = ProbabilityRejector(make(), target_rate=0.1)
    taught(rejector)
    again = build_estimator(rejector.state())
    copied = copy.deepcopy(rejector)
    expected = taught(rejector, seed=9)
    assert taught(again, seed=9) == expected
    assert taught(copied, seed=9) == expected


def test_published_rejectors_begin_anew() -> None:
    """Scores are of single readings, and distances to readings that are left out."""
    rejector = rejecting(streamlvq.GLVQ(), threshold=0.3)
    taught(rejector)
    published = build_estimator(rejector.state(readings=False))
    assert published._novelty.state()["scored"].tolist() == [0]
    x = far(rejector, 1.0)
    mine, theirs = rejector.decide_one(x), published.decide_one(x)
    assert mine.novelty is not None
    assert theirs.novelty is None
    assert mine.label == theirs.label
    assert mine.certainty == pytest.approx(theirs.certainty, abs=0.1)
    assert published.decide_one(far(rejector, 1000.0)).outlier_by == "ball"
    assert len(taught(published, seed=2)) == 400  # it goes on, with readings of its own
    assert published.decide_one(far(rejector)).outlier_by == "novelty"


def test_moved_to_another_model() -> None:
    rejector = rejecting(streamlvq.LGMLVQ())
    taught(rejector, classes=3)
    other = streamlvq.LGMLVQ()
    X, y = blobs(300, classes=3, seed=0)
    for x, c in zip(readings(X), y.tolist(), strict=True):
        if c != 0:
            other.learn_one(x, c)
    moved = rejector.moved_to(other)
    before, after = rejector._novelty.state(), moved._novelty.state()
    for code, label in enumerate(other.classes):
        old = rejector.classes.index(label)
        assert np.array_equal(after["scores"][code], before["scores"][old])
        assert after["scored"][code] == before["scored"][old]
    assert after["scored"][-1] == before["scored"][-1]


def forged(**arrays: Callable[[Any], Any]) -> Any:
    rejector = rejecting(streamlvq.GLVQ())
    taught(rejector)
    state = rejector.state()
    return replace(
        state, arrays=state.arrays | {name: lie(state.arrays[name]) for name, lie in arrays.items()}
    )


def changed(value: float, place: Any = ...) -> Callable[[Any], Any]:
    def change(array: Any) -> Any:
        array = array.copy()
        array[place] = value
        return array

    return change


@pytest.mark.parametrize(
    "lies",
    [
        {"scores": changed(0.5, (0, 0, 0))},  # RelSim above 1
        {"scores": changed(math.nan, (0, 0, 0))},
        {"scores": changed(-1.0, (0, 1, 0))},
        {"scores": changed(math.inf, (0, 1, 0))},
        {"scores": lambda a: a[:, :, :-1]},
        {"scores": lambda a: a[:-1]},
        {"scores": lambda a: a[:, 0]},
        {"sums": changed(math.nan, (0, 0))},
        {"sums": changed(-0.1, (1, 0))},
        {"sums": changed(1e6, (0, 0))},
        {"sums": lambda a: a[:, :-1]},
        {"scored": changed(-1, 0)},
        {"scored": changed(2**62, -1)},
        {"scored": changed(0, -1)},
        {"scored": lambda a: a[:0]},
        {"scored": lambda a: np.append(a, a)},
        {"scored": lambda a: a.astype(float)},
    ],
)
def test_forged_memories_are_refused(lies: dict[str, Any]) -> None:
    with pytest.raises(SnapshotError):
        build_estimator(forged(**lies))
    build_estimator(forged())  # the truth is not


def test_late_labels_count() -> None:
    model = RelSimRejector(streamlvq.GLVQ(), threshold=0.0)
    taught(model, n=50)
    before = model._novelty.state()["scored"][-1]
    X, _ = blobs(1)
    model.calibrate_one(readings(X)[0], model.classes[0])
    model.calibrate_one(readings(X)[0], "unknown")
    assert model._novelty.state()["scored"][-1] == before + 1


def test_around_a_trained_model_the_ball_decides_at_first() -> None:
    """What distances are usual is known from labels that the rejector has seen itself."""
    model = streamlvq.GLVQ()
    X, y = blobs(400)
    for x, c in zip(readings(X), y.tolist(), strict=True):
        model.learn_one(x, c)
    rejector = rejecting(model, threshold=0.3)
    assert rejector.decide_one(far(rejector, 1000.0)).outlier_by == "ball"
    taught(rejector, n=120, seed=1)
    assert rejector.decide_one(far(rejector, 1000.0)).outlier_by == "novelty"


@pytest.mark.parametrize("name", ["LGMLVQ", "PairwiseLVQ"])
def test_a_shared_rejector_tells_no_score_of_a_reading(name: str) -> None:
    rejector = rejecting(build(name, rehearsal=2))
    taught(rejector, n=200)
    shared = rejector.state(readings=False)
    assert (shared.arrays, shared.extra["memory"]) == ({}, None)
    scores = rejector.state().arrays["scores"]  # its own memory keeps them
    assert np.isfinite(scores[0, kernels("novelty").DISTANCE, 0])
