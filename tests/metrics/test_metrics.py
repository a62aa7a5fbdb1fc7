"""Metrics of rejection and calibration, against hand-made cases and the definitions."""

from __future__ import annotations

import copy
import itertools
import math
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import matplotlib

matplotlib.use("Agg")  # no window

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib import pyplot
from river import datasets, evaluate, utils
from river import metrics as river_metrics

import naive
import streamlvq
from streamlvq import metrics
from streamlvq.errors import MissingExtraError
from streamlvq.metrics.selective import _borders
from streamlvq.records import Decision

modest = settings(derandomize=True, max_examples=60, deadline=None, database=None)

METRICS = [getattr(metrics, name) for name in metrics.__all__]
BINNED = [metrics.AccuracyRejectCurve, metrics.ExpectedCalibrationError]


def decision(
    label: Any, certainty: float, accepted: bool = True, probabilities: Any = None
) -> Decision:
    if probabilities is None:
        probabilities = {label: certainty, "other": 1 - certainty}
    reason = None if accepted else "ambiguous"
    return Decision(
        label, certainty, accepted, reason, 0.5, label, "other", 1.0, 2.0, probabilities
    )


NO_MODEL = Decision(None, math.nan, False, "no_model", 0.5, None, None, None, None, {})


def curve_of(certainties: Any, right: Any, weights: Any = None, **parameters: Any) -> Any:
    curve = metrics.AccuracyRejectCurve(**parameters)
    for c, r, w in zip(certainties, right, weights or [1.0] * len(right), strict=True):
        curve.update("a", decision("a" if r else "b", c), w)
    return curve


def state(metric: Any) -> list[list[float]]:
    return metric._sums.tolist()


# --- samples that hypothesis makes up ------------------------------------------------------------

certainties = st.floats(0, 1) | st.sampled_from([0.0, 0.5, 1 - 1e-6, 1 - 1e-12, 1.0])
labels = st.sampled_from(["a", "b"])
decisions = st.builds(decision, labels, certainties, st.booleans())
samples = st.lists(st.tuples(labels, decisions, st.integers(1, 5)), max_size=40)


def updated(metric: Any, stream: Any) -> Any:
    for y, y_pred, w in stream:
        metric.update(y, y_pred, w)
    return metric


# --- the accuracy-reject curve: small cases ------------------------------------------------------


SMALL = ([0.1, 0.3, 0.3, 0.6, 0.9], [False, True, False, True, True])


def test_curve_by_hand() -> None:
    rates, accuracies, thresholds = curve_of(*SMALL).points()
    np.testing.assert_allclose(rates, [0, 0.2, 0.6, 0.8, 1])
    np.testing.assert_allclose(accuracies, [0.6, 0.75, 1, 1, 1])
    np.testing.assert_allclose(thresholds, [0, 0.3, 0.6, 0.9, np.inf], atol=1e-3)


def test_area_by_hand() -> None:
    curve = curve_of(*SMALL)
    assert curve.get() == pytest.approx(0.2 * 0.675 + 0.4 * 0.875 + 0.4)
    assert curve.area == curve.get()


def test_questions_by_hand() -> None:
    curve = curve_of(*SMALL)
    assert [curve.accuracy_at(r) for r in (0, 0.1, 0.2, 0.4, 0.6, 1)] == pytest.approx(
        [0.6, 0.675, 0.75, 0.875, 1, 1]
    )
    assert curve.threshold_at(0) == curve.threshold_at(0.19) == 0
    assert curve.threshold_at(0.2) == curve.threshold_at(0.5) == pytest.approx(0.3, abs=1e-3)
    assert curve.threshold_at(1) == math.inf
    assert curve.threshold_for(0.6) == curve.reject_rate_for(0.6) == 0
    assert curve.threshold_for(0.7) == pytest.approx(0.3, abs=1e-3)
    assert curve.reject_rate_for(0.7) == pytest.approx(0.2)
    assert curve.reject_rate_for(1) == pytest.approx(0.6)


def test_accuracy_that_no_threshold_reaches() -> None:
    curve = curve_of([0.2, 0.8], [True, False])
    assert curve.threshold_for(0.9) is None  # 1 where all is rejected is only a convention
    assert curve.reject_rate_for(0.9) is None
    assert curve.threshold_for(0.5) == 0


def test_weights_count_as_copies() -> None:
    weighted = curve_of([0.2, 0.5, 0.8], [False, True, False], [3, 2, 1])
    copies = curve_of([0.2] * 3 + [0.5] * 2 + [0.8], [False] * 3 + [True] * 2 + [False])
    np.testing.assert_allclose(weighted.points(), copies.points())
    light = curve_of([0.2, 0.5, 0.8], [False, True, False], [0.3, 0.2, 0.1])
    assert light.area == pytest.approx(copies.area)


def test_weight_of_zero_says_nothing() -> None:
    curve = curve_of([0.2, 0.8], [False, True], [0, 1])
    assert curve.accuracy_at(0) == 1
    assert curve_of([0.2], [False], [0]).get() == 0


@pytest.mark.parametrize("right, area", [(True, 1.0), (False, 0.5)])
def test_equal_certainties_are_rejected_together(right: bool, area: float) -> None:
    curve = curve_of([1.0] * 7, [right] * 7)
    assert curve.area == area
    assert curve.threshold_at(0.5) == 0  # a threshold that splits them does not exist
    assert len(curve.points().thresholds) == 2


def test_before_any_sample() -> None:
    curve = metrics.AccuracyRejectCurve()
    assert curve.get() == curve.area == curve.accuracy_at(0.5) == curve.threshold_at(0.5) == 0
    assert curve.threshold_for(0.5) is curve.reject_rate_for(0.5) is None
    assert [column.tolist() for column in curve.points()] == [[1], [1], [math.inf]]
    assert repr(curve) == "AccuracyRejectCurve: 0.00%"


def test_dictionaries_and_decisions_agree() -> None:
    by_dictionary, by_decision = metrics.AccuracyRejectCurve(), metrics.AccuracyRejectCurve()
    for y, p in [("a", 0.7), ("b", 0.9), ("a", 0.55), ("a", 1.0)]:
        by_dictionary.update(y, {"a": p, "b": 1 - p})
        by_decision.update(y, decision("a", p, accepted=p > 0.6))
    assert state(by_dictionary) == state(by_decision)


def test_relsim_counts_rather_than_probabilities() -> None:
    curve = metrics.AccuracyRejectCurve()
    curve.update("a", decision("a", 0.2, probabilities={"a": 0.1, "b": 0.9}))
    curve.update("a", decision("b", 0.7, probabilities={"a": 0.9, "b": 0.1}))
    assert curve.points().thresholds[1] == pytest.approx(0.7, abs=1e-3)
    assert curve.accuracy_at(0.5) == 0


def test_decision_without_a_label_is_wrong_and_uncertain() -> None:
    curve = metrics.AccuracyRejectCurve()
    curve.update("a", NO_MODEL)
    curve.update("a", decision("a", 0.01))
    assert curve.points().accuracies.tolist() == [0.5, 1, 1]


# --- bins ----------------------------------------------------------------------------------------


def test_bins_are_fine_near_one_and_enough_elsewhere() -> None:
    borders = _borders(2048)
    assert borders[0] == 0 and borders[-1] == 1 and len(borders) == 2048
    assert (np.diff(borders) >= 0).all()
    assert np.diff(borders).max() < 1e-3
    assert np.sum(borders < 0.9) > 1000
    for missing in (1e-3, 1e-6, 1e-9, 1e-12):
        widths = np.diff(borders[(borders > 1 - missing) & (borders < 1 - missing / 10)])
        assert widths.max() < 0.05 * missing
        assert len(widths) > 40


def test_certainties_near_one_are_told_apart() -> None:
    near = [1 - 1e-6, 1 - 2e-6, 1 - 1e-12, 1 - 1e-9, np.nextafter(1, 0), 1.0]
    curve = curve_of(near, [True] * 6)
    assert len(curve.points().reject_rates) == 7
    assert curve.threshold_at(0.9) == 1  # below it all but the certainty of exactly 1


@modest
@given(st.lists(st.tuples(certainties, st.booleans(), st.integers(1, 5)), min_size=1))
def test_thresholds_do_what_they_promise(stream: list[tuple[float, bool, int]]) -> None:
    c, right, w = (np.array(column, dtype=float) for column in zip(*stream, strict=True))
    curve = curve_of(c, right, list(w))
    for rate, accuracy, threshold in zip(*curve.points(), strict=True):
        kept = c >= threshold
        assert w[~kept].sum() / w.sum() == pytest.approx(rate)
        if kept.any():
            assert (w * right)[kept].sum() / w[kept].sum() == pytest.approx(accuracy)
    for wanted in (0.0, 0.3, 0.5, 1.0):
        assert w[c < curve.threshold_at(wanted)].sum() / w.sum() <= wanted + 1e-12


@modest
@given(st.lists(st.tuples(st.integers(0, 50), st.booleans(), st.integers(1, 5)), min_size=1))
def test_curve_is_exact_if_certainties_have_bins_of_their_own(
    stream: list[tuple[int, bool, int]],
) -> None:
    steps, right, w = (np.array(column, dtype=float) for column in zip(*stream, strict=True))
    c = steps / 50
    curve = curve_of(c, right, list(w))
    rates, accuracies, thresholds = np.array(naive.accuracy_reject_points(c, right, w)).T
    np.testing.assert_allclose(curve.points().reject_rates, rates, atol=1e-12)
    np.testing.assert_allclose(curve.points().accuracies, accuracies)
    np.testing.assert_allclose(curve.points().thresholds[1:], thresholds[1:], atol=1e-3)
    assert curve.area == pytest.approx(naive.accuracy_reject_area(c, right, w))
    assert 0 <= curve.area <= 1


@modest
@given(samples, st.floats(0, 1))
def test_answers_agree_with_each_other(stream: list[Any], accuracy: float) -> None:
    curve = updated(metrics.AccuracyRejectCurve(), stream)
    rate, threshold = curve.reject_rate_for(accuracy), curve.threshold_for(accuracy)
    if rate is None:
        assert threshold is None
        assert (curve.points().accuracies[:-1] < accuracy).all()
    else:
        assert curve.threshold_at(rate) == threshold
        assert curve.accuracy_at(rate) >= accuracy - 1e-12


SPREADS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "uniform": lambda random, n: random.uniform(size=n),
    "beta(8, 2)": lambda random, n: random.beta(8, 2, n),
    "beta(20, 1)": lambda random, n: random.beta(20, 1, n),
    "beta(.5, .5)": lambda random, n: random.beta(0.5, 0.5, n),
    "near 1": lambda random, n: 1 - 10 ** -random.uniform(0, 12, n),
    "nearer to 1": lambda random, n: 1 - 10 ** -random.uniform(5, 8, n),
    "margins": lambda random, n: 1 / (1 + np.exp(-np.abs(random.normal(0, 4, n)))),
}


@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize("count, error", [(300, 1e-4), (2000, 3e-5), (20_000, 1e-5)])
def test_area_against_the_sorted_samples(spread: str, count: int, error: float) -> None:
    random = np.random.default_rng(1)
    errors = []
    for _ in range(min(20, 20_000 // count)):
        c = SPREADS[spread](random, count)
        right = random.uniform(size=count) < 0.5 + 0.5 * c
        curve = metrics.AccuracyRejectCurve()
        curve.update_many(np.ones(count), right, c)
        exact = naive.accuracy_reject_area(c, right.astype(float), np.ones(count))
        errors.append(abs(curve.area - exact))
    assert np.mean(errors) < error
    assert max(errors) < 5 * error


def test_more_bins_are_more_exact() -> None:
    random = np.random.default_rng(2)
    c = random.uniform(size=3000)
    right = random.uniform(size=3000) < c
    exact = naive.accuracy_reject_area(c, right.astype(float), np.ones(3000))
    errors = []
    for bins in (20, 200, 20_000):
        curve = metrics.AccuracyRejectCurve(bins=bins)
        curve.update_many(np.ones(3000), right, c)
        errors.append(abs(curve.area - exact))
    assert errors[0] > errors[1] > errors[2]
    assert errors[0] < 0.02 and errors[2] < 5e-6


@pytest.mark.parametrize("metric", METRICS)
def test_memory_does_not_grow(metric: type) -> None:
    random = np.random.default_rng(1)
    small, large = metric(), metric()
    for grown, count in ((small, 3), (large, 3000)):
        for certainty in random.uniform(size=count).tolist():
            grown.update("a", decision("a", certainty))
    assert small._raw_memory_usage == large._raw_memory_usage < 100_000


# --- many at once --------------------------------------------------------------------------------


@modest
@given(st.lists(st.tuples(labels, labels, certainties)), st.sampled_from([1.0, 3.0]))
def test_many_at_once_are_as_one_by_one(stream: list[tuple[str, str, float]], w: float) -> None:
    single, many = metrics.AccuracyRejectCurve(), metrics.AccuracyRejectCurve()
    for y, label, certainty in stream:
        single.update(y, decision(label, certainty), w)
    columns = list(zip(*stream, strict=True)) or [(), (), ()]
    many.update_many(*columns, w=w)
    assert state(single) == state(many)


def test_many_of_all_kinds() -> None:
    pd = pytest.importorskip("pandas")
    y, label, certainty = [1, "1", 2, 2], ["1", "1", 2, 3], [0.1, 0.2, 0.3, 0.4]
    curve = metrics.AccuracyRejectCurve()
    curve.update_many(y, label, certainty)
    assert curve.accuracy_at(0) == 0.5  # 1 and "1" are not the same
    frame = metrics.AccuracyRejectCurve()
    frame.update_many(pd.Series(y), pd.Series(label), pd.Series(certainty))
    assert state(frame) == state(curve)


@pytest.mark.parametrize(
    "arguments, said",
    [
        ((["a"], ["a", "b"], [0.1, 0.2]), "as many classes as labels .* got 1, 2 and 2"),
        ((["a"], ["a"], []), "got 1, 1 and 0"),
        ((["a", "a"], ["a", "b"], [0.1, math.nan]), "from 0 to 1, got nan"),
        ((["a", "a"], ["a", "b"], [0.1, 1.5]), r"from 0 to 1, got 1\.5"),
        ((["a"], ["a"], [[0.1]]), "got 2 dimensions"),
        ((["a"], ["a"], [0.1], -1.0), r"not negative, got -1\.0"),
    ],
)
def test_many_that_are_bad(arguments: tuple[Any, ...], said: str) -> None:
    curve = curve_of(*SMALL)
    before = state(curve)
    with pytest.raises(ValueError, match=said):
        curve.update_many(*arguments)
    assert state(curve) == before


# --- rejections ----------------------------------------------------------------------------------


def test_reject_rate_by_hand() -> None:
    metric = metrics.RejectRate()
    assert metric.get() == 0
    for y_pred in ("a", None, decision("a", 0.3, accepted=False), decision("a", 0.9), NO_MODEL):
        metric.update("a", y_pred)
    assert metric.get() == pytest.approx(3 / 5)
    metric.update("a", None, w=5)
    assert metric.get() == pytest.approx(8 / 10)
    assert not metric.bigger_is_better


@pytest.mark.parametrize("y_pred", ["", 0, False, np.bool_(False), np.str_(""), {"a": 1.0}])
def test_anything_but_none_is_accepted(y_pred: Any) -> None:
    metric = metrics.RejectRate()
    metric.update("a", y_pred)
    assert metric.get() == 0


def test_covered_accuracy_by_hand() -> None:
    metric = metrics.CoveredAccuracy()
    metric.update("a", None)
    metric.update("a", decision("b", 0.3, accepted=False))
    assert metric.get() == 0
    metric.update("a", "a")
    metric.update("a", decision("a", 0.9))
    metric.update("a", decision("b", 0.9), w=2)
    assert metric.get() == pytest.approx(2 / 4)
    metric.update("a", {"a": 0.7, "b": 0.3}, w=4)
    assert metric.get() == pytest.approx(6 / 8)
    assert metric.bigger_is_better


@modest
@given(samples)
def test_rejection_against_lists(stream: list[Any]) -> None:
    rate = updated(metrics.RejectRate(), stream).get()
    covered = updated(metrics.CoveredAccuracy(), stream).get()
    total = sum(w for _, _, w in stream)
    kept = [(y == d.label, w) for y, d, w in stream if d.accepted]
    kept_weight = sum(w for _, w in kept)
    assert rate == pytest.approx(1 - kept_weight / total if total else 0)
    assert covered == pytest.approx(sum(r * w for r, w in kept) / max(kept_weight, 1))


# --- calibration ---------------------------------------------------------------------------------


def test_calibration_by_hand() -> None:
    metric = metrics.ExpectedCalibrationError(bins=4)
    assert metric.get() == 0
    for y, p in [("a", 0.6), ("b", 0.7), ("a", 0.9), ("a", 1.0)]:
        metric.update(y, {"a": p, "b": 1 - p})
    confidence, accuracy, weight = metric.reliability()
    np.testing.assert_allclose(confidence, [0.65, 0.95])
    np.testing.assert_allclose(accuracy, [0.5, 1])
    np.testing.assert_allclose(weight, [2, 2])
    assert metric.get() == pytest.approx((0.15 + 0.05) / 2)
    assert not metric.bigger_is_better


def test_borders_of_calibration_bins_belong_to_the_upper_one() -> None:
    metric = metrics.ExpectedCalibrationError(bins=2)
    metric.update("a", {"a": 0.5, "b": 0.5})
    metric.update("a", {"a": 1.0})
    assert metric.reliability().weight.tolist() == [2]


def test_decisions_are_judged_by_the_probability_of_their_label() -> None:
    metric = metrics.ExpectedCalibrationError()
    metric.update("a", decision("a", 0.95, probabilities={"a": 0.7, "b": 0.3}))
    assert metric.get() == pytest.approx(0.3)
    metric.update("a", NO_MODEL)
    assert metric.reliability().weight.tolist() == [1]


@modest
@given(samples, st.integers(1, 20))
def test_calibration_against_the_definition(stream: list[Any], bins: int) -> None:
    metric = updated(metrics.ExpectedCalibrationError(bins=bins), stream)
    if stream:
        columns = [(d.certainty, y == d.label, w) for y, d, w in stream]
        c, right, w = (np.array(column, dtype=float) for column in zip(*columns, strict=True))
        assert metric.get() == pytest.approx(naive.calibration_error(c, right, w, bins))


def test_calibrated_predictions_have_a_small_error() -> None:
    random = np.random.default_rng(1)
    honest, boastful = metrics.ExpectedCalibrationError(), metrics.ExpectedCalibrationError()
    for p in random.uniform(0.5, 1, 5000).tolist():
        y = "a" if random.uniform() < p else "b"
        honest.update(y, {"a": p, "b": 1 - p})
        boastful.update(y, {"a": 1.0, "b": 0.0})
    assert honest.get() < 0.02
    assert boastful.get() == pytest.approx(0.25, abs=0.02)
    assert honest.is_better_than(boastful)


# --- adding up -----------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", METRICS)
@modest
@given(stream=samples, cuts=st.lists(st.integers(0, 40), max_size=3))
def test_merging_equals_having_seen_all(metric: type, stream: list[Any], cuts: list[int]) -> None:
    whole = updated(metric(), stream)
    merged = metric()
    ends = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    parts = [stream[a:b] for a, b in itertools.pairwise(ends)]
    for part in reversed(parts):
        other = updated(metric(), part)
        before = state(other)
        merged.merge(other)
        assert state(other) == before
    np.testing.assert_allclose(state(merged), state(whole))
    assert merged.get() == pytest.approx(whole.get())


@pytest.mark.parametrize("metric", METRICS)
def test_adding_in_place_merges(metric: type) -> None:
    a, b = metric(), metric()
    a.update("a", decision("a", 0.9))
    b.update("a", decision("b", 0.8, accepted=False))
    same, both = a, updated(metric(), [("a", decision("a", 0.9), 1)])
    both.update("a", decision("b", 0.8, accepted=False))
    a += b
    assert a is same
    assert state(a) == state(both)


@pytest.mark.parametrize("metric", METRICS)
def test_merging_refuses_other_metrics(metric: type) -> None:
    mine = updated(metric(), [("a", decision("a", 0.9), 1)])
    before = state(mine)
    other = river_metrics.Accuracy()
    with pytest.raises(ValueError, match=rf"expected another {metric.__name__}\(.*got Accuracy"):
        mine.merge(other)
    with pytest.raises(ValueError, match="expected another"):
        mine += METRICS[METRICS.index(metric) - 1]()
    assert state(mine) == before


@pytest.mark.parametrize("metric", BINNED)
def test_merging_refuses_other_bins(metric: type) -> None:
    with pytest.raises(ValueError, match=r"another \w+\(bins=20\), got \w+\(bins=30\)"):
        metric(bins=20).merge(metric(bins=30))


# --- taking back ---------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", METRICS)
@modest
@given(first=samples, second=samples)
def test_taking_back_leaves_the_rest(metric: type, first: list[Any], second: list[Any]) -> None:
    kept = updated(metric(), second)
    both = updated(updated(metric(), first), second)
    for y, y_pred, w in first:
        both.revert(y, y_pred, w)
    np.testing.assert_allclose(state(both), state(kept), atol=1e-9)
    assert both.get() == pytest.approx(kept.get())


@pytest.mark.parametrize("metric", METRICS)
def test_taking_back_all_leaves_nothing(metric: type) -> None:
    said, weights = decision("a", 0.9), [0.1, 0.2, 0.7]  # 0.1 + 0.2 - 0.1 - 0.2 is not 0
    one = updated(metric(), [("a", said, w) for w in weights])
    for w in weights:
        one.revert("a", said, w)
    assert state(one) == state(metric())
    assert one.get() == 0


@pytest.mark.parametrize("metric", METRICS)
def test_taking_back_what_was_never_added(metric: type) -> None:
    with pytest.raises(ValueError, match="expected a sample that was added before, got 'a'"):
        metric().revert("a", decision("a", 0.9))


@pytest.mark.parametrize("metric", METRICS)
def test_rolling(metric: type) -> None:
    random = np.random.default_rng(1)
    rolling, stream = utils.Rolling(metric, window_size=20), []
    for certainty in random.uniform(size=100).tolist():
        label = "a" if random.uniform() < certainty else "b"
        stream.append(("a", decision(label, certainty, accepted=certainty > 0.3), 1.0))
        rolling.update(*stream[-1])
        assert rolling.get() == pytest.approx(updated(metric(), stream[-20:]).get())


# --- bad input -----------------------------------------------------------------------------------


BAD = [
    ({}, "the probability of at least one class, got {}"),
    ({"a": math.nan}, "from 0 to 1, got"),
    ({"a": 0.7, "b": math.nan}, "from 0 to 1, got"),
    ({"a": 1.01}, r"from 0 to 1, got 1\.01"),
    ({"a": -0.1}, r"from 0 to 1, got -0\.1"),
    ("a", "class probabilities or a Decision, got 'a'"),
    (None, "class probabilities or a Decision, got None"),
    (0.7, r"class probabilities or a Decision, got 0\.7"),
    (decision("a", math.nan), "from 0 to 1, got nan"),
    (decision("a", math.inf), "from 0 to 1, got inf"),
    (decision("a", None, probabilities={"a": None}), "from 0 to 1, got None"),  # type: ignore
]


@pytest.mark.parametrize("y_pred, said", BAD, ids=str)
@pytest.mark.parametrize("metric", BINNED)
def test_bad_predictions(metric: type, y_pred: Any, said: str) -> None:
    mine = updated(metric(), [("a", decision("a", 0.9), 1)])
    before = state(mine)
    for method in (mine.update, mine.revert):
        with pytest.raises(ValueError, match=f"expected .*{said}"):
            method("a", y_pred)
    assert state(mine) == before


@pytest.mark.parametrize("w", [math.nan, math.inf, -1.0, "1", None, [1.0]])
@pytest.mark.parametrize("metric", METRICS)
def test_bad_weights(metric: type, w: Any) -> None:
    mine = updated(metric(), [("a", decision("a", 0.9), 1)])
    before = state(mine)
    for method in (mine.update, mine.revert):
        with pytest.raises(ValueError, match="expected a weight that is finite and not negative"):
            method("a", decision("a", 0.9), w)
    assert state(mine) == before


def test_decision_without_the_probability_of_its_label() -> None:
    metric = metrics.ExpectedCalibrationError()
    with pytest.raises(ValueError, match=r"the probability of 'a', got probabilities=\{\}"):
        metric.update("a", decision("a", 0.9, probabilities={}))


def test_probabilities_may_miss_one_by_rounding() -> None:
    curve = metrics.AccuracyRejectCurve()
    curve.update("a", {"a": 1.0000000000000002, "b": 0.0})
    curve.update("a", {"a": np.float32(1.0000001)})
    assert curve.threshold_at(0.5) == 0
    assert len(curve.points().thresholds) == 2


@pytest.mark.parametrize("bins", [0, -1, 1.5, None, "many", True])
@pytest.mark.parametrize("metric", BINNED)
def test_bad_bins(metric: type, bins: Any) -> None:
    with pytest.raises(ValueError, match=rf"{metric.__name__}\(bins=...\): expected a whole"):
        metric(bins=bins)


@pytest.mark.parametrize("value", [-0.1, 1.1, math.nan, None, "0.5"])
@pytest.mark.parametrize("name", ["accuracy_at", "threshold_at", "threshold_for"])
def test_bad_questions(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=rf"{name}\(\w+=...\): expected a number from 0 to 1, got"):
        getattr(curve_of(*SMALL), name)(value)
    with pytest.raises(ValueError, match="expected a number from 0 to 1"):
        curve_of(*SMALL).reject_rate_for(value)


@pytest.mark.parametrize(
    "y, label",
    [
        ("a", np.str_("a")),
        (np.str_("a"), "a"),
        (True, np.bool_(True)),
        (np.bool_(False), False),
        (3, np.int64(3)),
        (("left", 1), ("left", 1)),
    ],
)
def test_labels_are_compared_by_value(y: Any, label: Any) -> None:
    for metric in METRICS:
        mine = metric()
        mine.update(y, decision(label, 0.9))
        assert mine.get() == pytest.approx(
            {"RejectRate": 0.0, "ExpectedCalibrationError": 0.1}.get(metric.__name__, 1.0)
        )


# --- copies --------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", METRICS)
def test_copies_go_their_own_way(metric: type) -> None:
    mine = updated(metric(), [("a", decision("a", 0.9), 1), ("a", decision("b", 0.8), 2)])
    for twin in (copy.deepcopy(mine), pickle.loads(pickle.dumps(mine))):
        assert type(twin) is metric
        assert state(twin) == state(mine)
        twin.update("a", decision("b", 0.9))
        assert state(twin) != state(mine)


@pytest.mark.parametrize("metric", METRICS)
def test_clones_start_afresh(metric: type) -> None:
    mine = metric(bins=30) if metric in BINNED else metric()
    updated(mine, [("a", decision("a", 0.9), 1)])
    clone = mine.clone()
    assert type(clone) is metric and clone.get() == 0
    assert clone._sums.shape == mine._sums.shape
    assert state(mine.clone(include_attributes=True)) == state(mine)


# --- River ---------------------------------------------------------------------------------------


def test_progressive_validation() -> None:
    curve, error, accuracy = (
        metrics.AccuracyRejectCurve(),
        metrics.ExpectedCalibrationError(),
        river_metrics.Accuracy(),
    )
    evaluate.progressive_val_score(datasets.Phishing(), streamlvq.GLVQ(), curve + error + accuracy)
    assert curve.accuracy_at(0) == pytest.approx(accuracy.get())
    assert curve.area > curve.accuracy_at(0.2) > accuracy.get() + 0.03
    assert error.get() < 0.05

    model, c, right = streamlvq.GLVQ(), [], []
    for x, y in datasets.Phishing():
        probabilities = model.predict_proba_one(x)
        if probabilities:
            c.append(max(probabilities.values()))
            right.append(max(probabilities, key=probabilities.get) == y)
        model.learn_one(x, y)
    exact = naive.accuracy_reject_area(np.array(c), np.array(right, float), np.ones(len(c)))
    assert curve.area == pytest.approx(exact, abs=1e-4)


class Cautious(streamlvq.GLVQ):
    """Says nothing unless it is sure."""

    def predict_one(self, x: Any, **kwargs: Any) -> Any:
        probabilities = self.predict_proba_one(x)
        sure = [label for label, p in probabilities.items() if p > 0.8]
        return sure[0] if sure else None


def test_river_hides_rejections_from_metrics() -> None:
    """Why the documentation of `RejectRate` shows a loop."""
    both = metrics.CoveredAccuracy() + metrics.RejectRate()
    evaluate.progressive_val_score(datasets.Phishing(), Cautious(), both)
    covered, rate = both.get()
    assert rate == 0
    model, seen = Cautious(), metrics.CoveredAccuracy() + metrics.RejectRate()
    for x, y in datasets.Phishing():
        seen.update(y, model.predict_one(x))
        model.learn_one(x, y)
    assert seen.get()[0] == pytest.approx(covered)
    assert 0.1 < seen.get()[1] < 0.4


def test_rolling_in_progressive_validation() -> None:
    rolling = utils.Rolling(metrics.AccuracyRejectCurve, window_size=200)
    evaluate.progressive_val_score(datasets.Phishing().take(400), streamlvq.GLVQ(), rolling)
    assert rolling.obj._sums[:, 0].sum() == 200


@modest
@given(samples)
def test_collections_of_ours_understand_decisions(stream: list[Any]) -> None:
    first, *others = [metric() for metric in METRICS]
    collection = first
    for other in others:
        collection = collection + other
    updated(collection, stream)
    assert collection.get() == pytest.approx([updated(m(), stream).get() for m in METRICS])
    for y, y_pred, w in stream:
        collection.revert(y, y_pred, w)
    assert collection.get() == [0, 0, 0, 0]


def test_collections_with_rivers_metrics() -> None:
    collection = (
        metrics.RejectRate()
        + metrics.AccuracyRejectCurve()
        + river_metrics.Accuracy()
        + river_metrics.CrossEntropy()
    )
    for y_pred in (NO_MODEL, decision("a", 0.8), decision("b", 0.5, accepted=False)):
        collection.update("a", y_pred)
    rejected, area, accuracy, entropy = collection.get()
    assert rejected == pytest.approx(2 / 3)
    assert area > 0.5
    assert accuracy == 0.5
    assert entropy == pytest.approx(-math.log(0.8) / 2)
    collection.revert("a", decision("a", 0.8))
    assert collection.get()[2] == 0


def test_collections_take_probabilities_and_copies() -> None:
    collection = (
        river_metrics.Accuracy() + metrics.CoveredAccuracy() + metrics.AccuracyRejectCurve()
    )
    collection.update("a", {"a": 0.7, "b": 0.3})
    assert collection.get() == [1, 1, 1]
    ours = metrics.CoveredAccuracy() + metrics.ExpectedCalibrationError()
    ours.update("a", {"a": 0.7, "b": 0.3})
    ours.revert("a", {"a": 0.7, "b": 0.3})
    ours.update("a", {"a": 0.6, "b": 0.4})
    for twin in (copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))):
        assert twin.get() == pytest.approx([1, 0.4])
    assert ours.clone().get() == [0, 0]
    with pytest.raises(ValueError, match="not compatible"):
        metrics.RejectRate() + river_metrics.MAE()


@pytest.mark.parametrize("metric", METRICS)
def test_fits_classifiers_only(metric: type) -> None:
    from river import linear_model

    assert metric().works_with(streamlvq.GLVQ())
    assert not metric().works_with(linear_model.LinearRegression())
    assert metric().works_with_weights


# --- pictures ------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def close_figures() -> Iterator[None]:
    yield
    pyplot.close("all")


def test_plot_of_the_curve() -> None:
    curve = curve_of(*SMALL)
    axes = curve.plot(label="GLVQ")
    (line,) = axes.get_lines()
    rates, accuracies, _ = curve.points()
    np.testing.assert_array_equal(line.get_xdata(), rates)
    np.testing.assert_array_equal(line.get_ydata(), accuracies)
    assert curve_of([0.5], [True]).plot(axes, "other") is axes
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["GLVQ", "other"]
    axes.figure.canvas.draw()


def test_plot_of_the_calibration() -> None:
    metric = metrics.ExpectedCalibrationError()
    for y, p in [("a", 0.6), ("b", 0.7), ("a", 0.9), ("a", 1.0)]:
        metric.update(y, {"a": p, "b": 1 - p})
    _, mine = pyplot.subplots()
    axes = metric.plot(mine, label="GLVQ")
    assert axes is mine
    (bins,) = axes.collections
    np.testing.assert_allclose(np.asarray(bins.get_offsets()).T, metric.reliability()[:2])
    axes.figure.canvas.draw()


@pytest.mark.parametrize("metric", BINNED)
def test_plot_before_any_sample(metric: type) -> None:
    metric().plot().figure.canvas.draw()


@pytest.mark.parametrize("metric", BINNED)
def test_plot_without_matplotlib(metric: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'streamlvq\[plot\]'"):
        metric().plot()


def test_metrics_load_neither_matplotlib_nor_numba() -> None:
    loaded = "[name for name in ('matplotlib', 'numba') if name in sys.modules]"
    program = f"import sys, streamlvq; streamlvq.metrics.RejectRate(); print({loaded})"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
