"""Thresholds against a naive recomputation from the list of the last decisions."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from streamlvq.wrappers.thresholds import (
    Adaptive,
    Chow,
    Fixed,
    RejectCost,
    Rule,
    TargetAccuracy,
    TargetRate,
)

steady = settings(derandomize=True, max_examples=60, deadline=None, database=None)

labels = st.sampled_from(["a", "b", "c"])
certainties = st.sampled_from([0.0, 0.2, 0.5, 1.0]) | st.floats(0, 1)
streams = st.lists(st.tuples(labels, certainties, st.booleans()), max_size=40)
Stream = list[tuple[str, float, bool]]
RULES: list[Callable[[float], Rule]] = [TargetRate, TargetAccuracy, RejectCost]


def expected(rule: Rule, last: list[tuple[float, bool]]) -> float:
    if isinstance(rule, TargetRate):
        return naive.rate_threshold([certainty for certainty, _ in last], rule.target)
    if isinstance(rule, TargetAccuracy):
        return naive.accurate_threshold(last, rule.target)
    candidates = sorted([*(certainty for certainty, _ in last), math.inf])
    # Nothing seen: reject. Otherwise the first, which is the lowest, of the cheapest.
    return min(candidates, key=lambda t: naive.cost_of(last, t, rule.target))


def filled(rule: Rule, stream: Stream, memory: int = 10, per_class: bool = False) -> Adaptive:
    thresholds = Adaptive(rule, memory, per_class)
    for label, certainty, right in stream:
        thresholds.remember(label, certainty, right)
    return thresholds


@steady
@pytest.mark.parametrize("rule", RULES)
@given(stream=streams, memory=st.integers(1, 20), target=st.sampled_from([0.0, 0.125, 0.5, 1.0]))
def test_one_for_all(
    rule: Callable[[float], Rule], stream: Stream, memory: int, target: float
) -> None:
    """After every decision, whether or not somebody asked in between."""
    thresholds = Adaptive(rule(target), memory, per_class=False)
    last: list[tuple[float, bool]] = []
    for k, (label, certainty, right) in enumerate(stream):
        thresholds.remember(label, certainty, right)
        last = [*last, (certainty, right)][-memory:]
        if k % 2:
            assert thresholds.find(label) == expected(thresholds.rule, last)
    assert thresholds.find("unheard of") == expected(thresholds.rule, last)


@steady
@pytest.mark.parametrize("rule", RULES)
@given(stream=streams, memory=st.integers(1, 20), target=st.sampled_from([0.0, 0.25, 0.5, 1.0]))
def test_one_for_each_label(
    rule: Callable[[float], Rule], stream: Stream, memory: int, target: float
) -> None:
    thresholds = filled(rule(target), stream, memory, per_class=True)
    for label in "abc":
        own = [(certainty, right) for k, certainty, right in stream if k == label][-memory:]
        assert thresholds.find(label) == expected(thresholds.rule, own)


# --- rules ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.29, 0.5, 0.9, 1.0])
def test_rate_rejects_its_share(rate: float) -> None:
    stream = [("a", k / 100, True) for k in range(100)]
    threshold = filled(TargetRate(rate), stream, memory=100).find("a")
    assert sum(certainty < threshold for _, certainty, _ in stream) == round(100 * rate)


def test_rate_keeps_ties() -> None:
    assert filled(TargetRate(0.5), [("a", 1.0, True)] * 10).find("a") == 1.0


def test_rate_looks_at_the_last_ones_only() -> None:
    old, new = [("a", 0.9, True)] * 10, [("a", 0.1, True)] * 10
    assert filled(TargetRate(0.1), old + new).find("a") == 0.1


def test_accuracy_that_nothing_reaches_rejects_everything() -> None:
    wrong = [("a", 0.9, False), ("a", 1.0, False), ("a", 0.2, True)]
    assert filled(TargetAccuracy(0.5), wrong).find("a") == math.inf


def test_accuracy_is_compared_as_a_share() -> None:
    """0.55 * 100 is a little more than 55."""
    stream = [("a", 0.5, k < 55) for k in range(100)]
    assert filled(TargetAccuracy(0.55), stream, memory=100).find("a") == 0.5


def test_cost_weighs_errors_against_rejections() -> None:
    stream = [("a", 0.1, False), ("a", 0.2, True), ("a", 0.3, False), ("a", 0.4, True)]
    assert filled(RejectCost(0.1), stream).find("a") == 0.4  # three rejections, no error
    assert filled(RejectCost(0.6), stream).find("a") == 0.2  # one rejection, one error
    assert filled(RejectCost(1.0), stream).find("a") == 0.1  # two errors


@pytest.mark.parametrize(
    "rule, nothing_seen",
    [(TargetRate(0.3), 0.0), (TargetAccuracy(0.3), math.inf), (RejectCost(0.3), math.inf)],
    ids=["rate", "accuracy", "cost"],
)
@pytest.mark.parametrize("per_class", [False, True])
def test_before_anything_was_seen(rule: Rule, nothing_seen: float, per_class: bool) -> None:
    assert Adaptive(rule, 10, per_class).find("a") == nothing_seen


# --- changes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule, target", [(TargetRate, 0.5), (TargetAccuracy, 1.0)])
def test_aim_takes_effect_at_once(rule: Callable[[float], Rule], target: float) -> None:
    stream = [("a", k / 10, k > 4) for k in range(10)]
    changed, other = filled(rule(0.0), stream), filled(rule(target), stream)
    assert changed.find("a") != other.find("a")
    changed.aim(target)
    assert changed.find("a") == other.find("a") == 0.5


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda t: pickle.loads(pickle.dumps(t))])
def test_copies_go_on_by_themselves(copied: Callable[[Any], Any]) -> None:
    thresholds = filled(TargetRate(0.2), [("a", k / 20, True) for k in range(20)])
    twin = copied(thresholds)
    before = twin.find("a")
    for certainty in (0.1, 0.2, 0.3):
        thresholds.remember("a", certainty, True)
    assert thresholds.find("a") != before == twin.find("a")
    for certainty in (0.1, 0.2, 0.3):
        twin.remember("a", certainty, True)
    assert thresholds.find("a") == twin.find("a")


def test_asking_leaves_no_trace() -> None:
    thresholds = filled(TargetAccuracy(0.9), [("a", 0.5, True)] * 3)
    before = pickle.dumps(thresholds)
    thresholds.find("a")
    assert pickle.dumps(thresholds) == before


# --- fixed ---------------------------------------------------------------------------------------


def test_fixed() -> None:
    assert Fixed(0.3).find("a") == 0.3
    by_label = Fixed({"a": 0.3, "b": 0.6})
    assert [by_label.find(label) for label in ("a", "b", "unheard of", None)] == [
        0.3,
        0.6,
        0.6,
        0.6,
    ]
    assert not by_label.learns
    by_label.remember("a", 0.1, True)
    assert by_label.find("a") == 0.3
    by_label.aim(0.2)
    assert by_label.find("a") == 0.2


def test_fixed_does_not_look_at_the_mapping_again() -> None:
    mapping = {"a": 0.3}
    thresholds = Fixed(mapping)
    mapping["a"] = 0.9
    assert thresholds.find("a") == 0.3


def test_chow() -> None:
    assert Chow(0.25).find("a") == 0.75
