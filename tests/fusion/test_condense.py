"""Condensing: budgets for the prototypes of a class, and what is left out for them."""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streamlvq
from streamlvq import Snapshot, fuse
from streamlvq.fusion import Fused, FusionError, fuse_rounds
from streamlvq.fusion.condense import BUDGET_RATIO, class_budget, condense
from support.fusions import Floats, accuracy, arrays_of, copied, learnt

modest = settings(derandomize=True, max_examples=40, deadline=None, database=None)
CLOUDS = 9  # of each class: more than a model of two prototypes can follow
CENTRES = 4.0 * np.array(list(itertools.product(range(6), range(3))), float)
LABELS = np.array(["a", "b"])


def squared(rows: Floats) -> Floats:
    return np.asarray(((rows[:, None] - rows[None]) ** 2).sum(axis=2))


def read(seed: int, n: int) -> tuple[Floats, list[str]]:
    """Two classes whose clouds alternate, as the squares of a board."""
    random = np.random.default_rng(seed)
    cloud = random.integers(0, 2 * CLOUDS, n)
    X = CENTRES[cloud] + 0.6 * random.normal(size=(n, 2))
    return X, LABELS[CENTRES[cloud].sum(axis=1).astype(int) // 4 % 2].tolist()


@functools.cache
def nodes_of(name: str, count: int = 6, most: int = 8, n: int = 250) -> list[Snapshot]:
    make = getattr(streamlvq, name)
    return [
        Snapshot.of(learnt(make(max_prototypes_per_class=most, seed=1), *read(i, n)), f"n{i}")
        for i in range(count)
    ]


@functools.cache
def everything_of(name: str) -> Fused:
    """All prototypes of these nodes."""
    return fuse(nodes_of(name), budget="keep")


def sizes(snapshot: Snapshot) -> Counter[Any]:
    return Counter(p.label for p in snapshot.prototypes)


# --- the choice -----------------------------------------------------------------------------------


def oracle(places: list[list[float]], weights: list[float], budget: int) -> list[int]:
    """Plain loops: who is left, if the one whose loss is least goes each time."""
    left, weights = list(range(len(places))), list(weights)
    while len(left) > budget:
        losses = {}
        for k in left:
            others = [j for j in left if j != k]
            apart = {
                j: sum((a - b) ** 2 for a, b in zip(places[k], places[j], strict=True))
                for j in others
            }
            near = min(others, key=lambda j: (apart[j], j))
            losses[k] = weights[k] * apart[near], near
        gone = min(left, key=lambda k: (losses[k][0], k))
        weights[losses[gone][1]] += weights[gone]
        left.remove(gone)
    return left


@modest
@given(seed=st.integers(0, 10_000), count=st.integers(1, 12), budget=st.integers(1, 12))
def test_the_least_missed_are_left_out(seed: int, count: int, budget: int) -> None:
    random = np.random.default_rng(seed)
    places, weights = random.normal(size=(count, 2)), random.uniform(0.1, 2.0, count)
    found = condense(places, weights, budget, squared)
    assert found.tolist() == oracle(places.tolist(), weights.tolist(), budget)


def test_twins_go_first_and_light_ones_before_heavy_ones() -> None:
    places = np.array([[0.0], [9.0], [0.0], [20.0], [40.0]])
    weights = np.array([1.0, 5.0, 2.0, 0.01, 4.0])
    assert condense(places, weights, 4, squared).tolist() == [1, 2, 3, 4]
    assert condense(places, weights, 3, squared).tolist() == [1, 2, 4]
    assert condense(places, weights, 1, squared).tolist() == [1]


def test_distances_without_end_choose_too() -> None:
    def measure(rows: Floats) -> Floats:
        return np.full((len(rows), len(rows)), np.inf)

    assert condense(np.zeros((3, 1)), np.array([2.0, 1.0, 3.0]), 1, measure).tolist() == [2]
    assert len(condense(np.zeros((4, 1)), np.full(4, 1e300), 2, squared)) == 2


def test_budgets() -> None:
    assert class_budget("keep", 8) is None
    assert class_budget("auto", 8) == 8 * BUDGET_RATIO
    assert class_budget(3, 8) == 3


@pytest.mark.parametrize("budget", [0, -1, 2.0, True, None, "all"])
def test_what_is_no_budget(budget: Any) -> None:
    with pytest.raises(FusionError, match="budget: expected 'auto', 'keep' or a whole number"):
        fuse(nodes_of("GLVQ"), budget=budget)


# --- fused models ---------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [1, 2, 5])
@pytest.mark.parametrize("name", ["GLVQ", "GRLVQ", "LGRLVQ", "GMLVQ", "LGMLVQ", "RSLVQ"])
def test_no_class_has_more_than_its_budget(name: str, budget: int) -> None:
    nodes = nodes_of(name)
    fused, everything = fuse(nodes, budget=budget), everything_of(name)
    kept, all_of_them = (sizes(each.snapshot(private=False)) for each in (fused, everything))
    assert {label: min(count, budget) for label, count in all_of_them.items()} == kept
    report = fused.report
    assert report.condensed == {k: n - budget for k, n in all_of_them.items() if n > budget}
    assert report.budgets == dict.fromkeys(report.condensed, budget)
    assert f"left out so that no class has more than {budget}: " in str(report)
    assert not everything.report.condensed and "condensed" not in str(everything.report)


@pytest.mark.parametrize("name", ["GLVQ", "GMLVQ", "LGMLVQ", "RSLVQ"])
def test_what_is_left_decides_as_well(name: str) -> None:
    """Three times as many as nodes may have are enough for what they know together."""
    nodes = nodes_of(name, most=5)
    fused, everything = fuse(nodes), fuse(nodes, budget="keep")
    assert max(sizes(fused.snapshot(private=False)).values()) <= BUDGET_RATIO * 5
    test = read(99, 400)
    for node in nodes[:2]:
        before = accuracy(everything.for_node(node.node), *test)
        assert accuracy(fused.for_node(node.node), *test) >= before - 0.03
        assert before > accuracy(node.classifier(), *test)


@pytest.mark.parametrize("name", ["GMLVQ", "LGMLVQ"])
def test_the_order_of_snapshots_does_not_matter(name: str) -> None:
    nodes = nodes_of(name)
    first, again = (fuse(each, budget=3) for each in (nodes, nodes[::-1]))
    for node in ("n0", "n4"):
        assert first.snapshot(node).to_bytes() == again.snapshot(node).to_bytes()
    assert first.report.condensed == again.report.condensed


@pytest.mark.parametrize("name", ["GLVQ", "LGMLVQ"])
def test_nodes_that_say_the_same_lose_nothing(name: str) -> None:
    node = nodes_of(name)[0]
    own = sizes(node)
    assert sizes(fuse([node]).snapshot()) == own
    twins = fuse([copied(node, f"twin {k}") for k in range(4)])
    assert sizes(twins.snapshot()) == own and not twins.report.condensed
    X, y = read(98, 200)
    assert accuracy(twins.for_node("twin 1"), X, y) == accuracy(node.classifier(), X, y)


def test_fusions_of_fusions_neither_grow_nor_degrade() -> None:
    nodes = nodes_of("LGMLVQ", count=8, most=4)
    test, groups = read(97, 400), list(nodes)
    least = accuracy(fuse(nodes, drift="none").for_node("n0"), *test)
    for level in range(3):
        pairs = zip(groups[::2], groups[1::2], strict=True)
        groups = [
            fuse(pair, drift="none").snapshot(called=f"{level} {k}", private=False)
            for k, pair in enumerate(pairs)
        ]
        assert max(sizes(groups[0]).values()) <= BUDGET_RATIO * 4
    (last,) = groups
    assert accuracy(last.classifier(), *test) >= least - 0.03
    again = fuse([last, copied(last, "twin")], drift="none").snapshot(private=False)
    assert sizes(again) == sizes(last)
    np.testing.assert_allclose(arrays_of(again)["w"], arrays_of(last)["w"])


def test_what_only_its_own_node_believes_does_not_count() -> None:
    """A prototype that nobody else believes stays private, beside those of the budget."""
    nodes = nodes_of("GMLVQ")
    fused = fuse(nodes, budget=2)
    shared = sizes(fused.snapshot("n0", private=False))
    assert set(shared.values()) == {2}
    everything = everything_of("GMLVQ")
    for node in fused.nodes:
        own, before = sizes(fused.snapshot(node)), sizes(everything.snapshot(node))
        private = before - sizes(everything.snapshot(node, private=False))
        assert own - shared == private


def test_prototypes_of_pairs_and_single_ones_are_left_alone() -> None:
    models = [learnt(streamlvq.PairwiseLVQ(seed=1), *read(i, 60)) for i in range(3)]
    nodes = [Snapshot.of(model, f"n{i}") for i, model in enumerate(models)]
    fused = fuse(nodes, budget=1)
    assert len(fused.snapshot().prototypes) == 2 and not fused.report.condensed


def test_members_of_a_committee_have_budgets_of_their_own() -> None:
    models = [learnt(streamlvq.LVQCommittee(), *read(i, 250)) for i in range(4)]
    fused = fuse([Snapshot.of(model, f"n{i}") for i, model in enumerate(models)])
    parts = fused.snapshot("n0", private=False).estimator_state().parts
    for part in parts.values():
        most = part.parameters["max_prototypes_per_class"] if "rank" not in part.parameters else 8
        counts = Counter(part.arrays["label"][: part.extra["sizes"]["prototypes"]].tolist())
        assert max(counts.values()) <= BUDGET_RATIO * most


def test_features_that_some_nodes_lack() -> None:
    nodes = nodes_of("GMLVQ", count=3)
    partial = []
    for i in range(3):
        model = streamlvq.GMLVQ(max_prototypes_per_class=8, seed=1)
        for x, label in zip(*read(50 + i, 250), strict=True):
            model.learn_one({0: float(x[0])}, label)
        partial.append(Snapshot.of(model, f"p{i}"))
    fused = fuse([*nodes, *partial], budget=4)
    assert max(sizes(fused.snapshot("n0", private=False)).values()) == 4
    model = fused.for_node("n0")
    assert accuracy(model, *read(96, 100)) >= 0.5


def test_rounds_start_from_a_condensed_model() -> None:
    nodes = nodes_of("GMLVQ", count=3)
    fused = fuse_rounds(nodes, rounds=2, budget=3)
    assert max(sizes(fused.snapshot("n0", private=False)).values()) == 3
