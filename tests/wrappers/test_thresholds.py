"""Thresholds against a naive recomputation from the list of the last decisions."""

from __future__ import annotations

import copy
import math
import pickle
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from streamlvq.wrappers.thresholds import (
    Adaptive,
    Chow,
    Fixed,
    RecentCertainties,
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


def expected(rule: Rule, last: list[tuple[float, bool]], seen: int) -> float:
    if isinstance(rule, TargetRate):
        return naive.rate_threshold([certainty for certainty, _ in last], rule.target, seen)
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
            assert thresholds.find(label) == expected(thresholds.rule, last, k + 1)
    assert thresholds.find("unheard of") == expected(thresholds.rule, last, len(stream))


@steady
@pytest.mark.parametrize("rule", RULES)
@given(stream=streams, memory=st.integers(1, 20), target=st.sampled_from([0.0, 0.25, 0.5, 1.0]))
def test_one_for_each_label(
    rule: Callable[[float], Rule], stream: Stream, memory: int, target: float
) -> None:
    thresholds = filled(rule(target), stream, memory, per_class=True)
    for label in "abc":
        own = [(certainty, right) for k, certainty, right in stream if k == label]
        assert thresholds.find(label) == expected(thresholds.rule, own[-memory:], len(own))


# --- rules ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.29, 0.5, 0.9, 1.0])
def test_rate_rejects_its_share(rate: float) -> None:
    stream = [("a", k / 100, True) for k in range(100)]
    threshold = filled(TargetRate(rate), stream, memory=100).find("a")
    assert sum(certainty < threshold for _, certainty, _ in stream) == round(100 * rate)


@pytest.mark.parametrize("every", [1, 2, 3, 7])
@pytest.mark.parametrize("rate", [0.05, 0.3, 0.5, 0.9])
def test_rate_holds_among_ties(rate: float, every: int) -> None:
    """Equal certainties are rejected in part, also where they come at regular intervals."""
    thresholds = Adaptive(TargetRate(rate), memory=500, per_class=False)
    rejected = []
    for k in range(5000):
        certainty = 0.25 if k % every == 0 else 0.75
        rejected.append(certainty < thresholds.find("a"))
        thresholds.remember("a", certainty, True)
    assert sum(rejected[1000:]) / 4000 == pytest.approx(rate, rel=0.05)


def test_rate_rejects_what_has_no_certainty_and_nothing_else_in_its_place() -> None:
    contradicted = [("a", 0.0, True)] * 12 + [("a", 0.5 + k / 200, True) for k in range(88)]
    for rate, rejected in [(0.0, 12), (0.05, 12), (0.1, 12), (0.12, 12), (0.2, 20)]:
        threshold = filled(TargetRate(rate), contradicted, memory=100).find("a")
        assert sum(not 0.0 < c >= threshold for _, c, _ in contradicted) == rejected


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
    changed.set_target(target)
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


# --- files ---------------------------------------------------------------------------------------


def restored(thresholds: Adaptive, classes: list[str]) -> Adaptive:
    twin = Adaptive(copy.copy(thresholds.rule), thresholds._memory, thresholds.per_class)
    arrays = thresholds.memory(classes)
    twin.restore(classes, {name: array.copy() for name, array in arrays.items()})
    return twin


@steady
@given(stream=streams, memory=st.integers(1, 20))
def test_what_is_recalled_is_what_came_one_by_one(stream: Stream, memory: int) -> None:
    """The ring and the sorted copy, number by number, ties included."""
    one, other = RecentCertainties(memory), RecentCertainties(memory)
    for _, certainty, right in stream:
        one.remember(certainty, right)
    other.restore(one.seen, one.in_order().copy())
    assert other.seen == one.seen
    for k in range(3):  # and so it stays
        stored = min(one.seen, memory)
        np.testing.assert_array_equal(other.memory[:, :stored], one.memory[:, :stored])
        for each in (one, other):
            each.remember(0.5, k == 1)


@steady
@pytest.mark.parametrize("per_class", [False, True])
@given(stream=streams, memory=st.integers(1, 20), more=streams)
def test_restored_thresholds_go_on(
    per_class: bool, stream: Stream, memory: int, more: Stream
) -> None:
    thresholds = filled(TargetAccuracy(0.75), stream, memory, per_class)
    twin = restored(thresholds, ["a", "b", "c"])
    for label, certainty, right in more:
        for each in (thresholds, twin):
            each.remember(label, certainty, right)
    for label in "abc":
        assert twin.find(label) == thresholds.find(label)


@steady
@given(stream=st.lists(st.tuples(st.floats(0, 1), st.booleans()), max_size=300))
def test_room_that_grows_changes_nothing(stream: list[tuple[float, bool]]) -> None:
    """Whether or not somebody asks for all the room in between, as a kernel does."""
    growing, whole = RecentCertainties(200), RecentCertainties(200)
    assert whole.memory.shape == (4, 200)
    for k, (certainty, right) in enumerate(stream):
        growing.remember(certainty, right)
        whole.remember(certainty, right)
        if k == 250:
            assert growing.find(TargetAccuracy(0.5)) == whole.find(TargetAccuracy(0.5))
    np.testing.assert_array_equal(growing.in_order(), whole.in_order())
    np.testing.assert_array_equal(growing.memory, whole.memory)


def test_large_memories_are_recalled_at_once() -> None:
    random = np.random.default_rng(0)
    came = np.array([random.random(80_000), random.random(80_000) < 0.9])
    recent = RecentCertainties(100_000)
    start = time.perf_counter()
    recent.restore(80_000, came)
    assert time.perf_counter() - start < 0.5, "inserted one by one they take seconds"
    assert recent.find(TargetAccuracy(0.0)) == came[0].min()


def test_room_is_made_as_decisions_come() -> None:
    """Else a small file that names many labels would ask for gigabytes."""
    labels = [str(k) for k in range(1000)]
    thresholds = filled(TargetAccuracy(0.9), [(k, 0.5, True) for k in labels], 10**6, True)
    tracemalloc.start()
    try:
        twin = restored(thresholds, labels)
        assert tracemalloc.get_traced_memory()[1] < 10e6
    finally:
        tracemalloc.stop()
    assert twin.find("7") == 0.5


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("seen", [2**62], "counts of decisions"),
        ("seen", [-1], "counts of decisions"),
        ("seen", [2], "up to 10 decisions"),
        ("of", [3], "labels that the model knows"),
        ("of", [-1], "labels that the model knows"),
        ("of", [0, 0], "all different"),
        ("came", [[1.5] * 3, [1.0] * 3], "certainties from 0 to 1"),
        ("came", [[math.nan] * 3, [1.0] * 3], "certainties from 0 to 1"),
        ("came", [[0.5], [1.0]], "certainties from 0 to 1"),
    ],
)
def test_memories_that_cannot_be_are_refused(name: str, value: Any, message: str) -> None:
    thresholds = filled(TargetAccuracy(0.9), [("a", 0.5, True)] * 3, per_class=True)
    arrays = {**thresholds.memory(["a", "b"]), name: np.array(value)}
    with pytest.raises(ValueError, match=message):
        Adaptive(TargetAccuracy(0.9), 10, True).restore(["a", "b"], arrays)


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
    by_label.set_target(0.2)
    assert by_label.find("a") == 0.2


def test_fixed_does_not_look_at_the_mapping_again() -> None:
    mapping = {"a": 0.3}
    thresholds = Fixed(mapping)
    mapping["a"] = 0.9
    assert thresholds.find("a") == 0.3


def test_chow() -> None:
    assert Chow(0.25).find("a") == 0.75
