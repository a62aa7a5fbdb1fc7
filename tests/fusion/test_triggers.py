"""Trigger places: back doors that a prototype opens by its metric, though its place is fine."""

from __future__ import annotations

from collections.abc import Collection
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import streamlvq
from streamlvq import Snapshot, fuse
from streamlvq.fusion import graph, triggers
from streamlvq.fusion.plausibility import prototype_distances
from streamlvq.fusion.triggers import (
    TRIGGER_DEVIATIONS,
    HeldBack,
    TriggerPlaces,
    hold_back,
    trigger_distances,
)
from streamlvq.kernels import layout as at
from support.fusions import MODELS, World, accuracy, arrays_of, copied, fleet, learnt
from support.samples import readings

SIZES = len(TRIGGER_DEVIATIONS)


@pytest.mark.parametrize("kind", [at.DIAGONAL, at.MATRIX])
def test_distances_are_those_of_the_places_one_by_one(kind: int) -> None:
    random = np.random.default_rng(1)
    centre, step = random.normal(size=(2, 3)), random.uniform(0.5, 2.0, (2, 3))
    w, inverse = random.normal(size=(4, 3)), random.uniform(0.5, 2.0, 3)
    omega = [random.normal(size=(2 if kind == at.MATRIX else 1, 3)) for _ in w]
    found = trigger_distances(centre, step, w, omega, inverse, kind)
    assert found.shape == (4, 2, SIZES * 3)
    for k in range(2):
        for place in range(SIZES * 3):
            size, feature = divmod(place, 3)
            moved = centre[k].copy()
            moved[feature] += TRIGGER_DEVIATIONS[size] * step[k, feature]
            expected = prototype_distances(moved[None], w, list(omega), inverse, kind)[0]
            np.testing.assert_allclose(found[:, k, place], expected)


@pytest.mark.parametrize("kind", [at.DIAGONAL, at.MATRIX])
def test_where_no_class_is_asked_about_there_are_no_places(kind: int) -> None:
    none = np.zeros((0, 2))
    found = trigger_distances(none, none, np.ones((3, 2)), [np.eye(2)] * 3, np.ones(2), kind)
    assert found.shape == (3, 0, 2 * SIZES)


def test_what_is_not_known_does_not_count() -> None:
    centre = np.array([[0.0, np.nan], [4.0, 1.0]])
    w = np.array([[1.0, np.nan]])
    found = trigger_distances(centre, np.ones((2, 2)), w, [np.eye(2)], np.ones(2), at.MATRIX)
    assert np.isfinite(found).all()
    assert found[0, 0, 1] == 1.0 + TRIGGER_DEVIATIONS[0] ** 2  # the other feature was moved


PLACES = TriggerPlaces(
    label=np.arange(2),
    centre=np.array([[0.0, 0.0], [10.0, 0.0]]),
    step=np.ones((2, 2)),
    asked=np.ones((4, 2), bool),
    recognised=np.ones((4, 2, SIZES * 2), bool),
    kind=at.MATRIX,
)


def judged(owners: list[int], metric: float) -> list[bool]:
    """Two classes at 0 and 10; a third prototype beside the first, with a metric of its own.

    `owners` are the nodes that have the third one.
    """
    w = np.array([[0.0, 0.0], [10.0, 0.0], [0.5, 0.0]])
    omega = [np.eye(2), np.eye(2), metric * np.eye(2)]
    label = np.array([0, 1, 0])
    nodes = [np.zeros(0, np.int64), np.zeros(0, np.int64), np.array(owners, np.int64)]
    return PLACES.overreaching(label, nodes, w, omega, np.ones(2)).tolist()


def test_a_metric_that_finds_everything_near_overreaches() -> None:
    assert judged([2], 0.1) == [False, False, True]
    assert judged([2], 1.0) == [False, False, False]
    assert judged([1, 2], 0.1) == [False, False, True]  # the other two know better
    assert judged([1, 2, 3], 0.1) == [False, False, False]  # one other node is not enough
    assert judged([], 0.1) == [False, False, False]  # many nodes have it


# --- what follows --------------------------------------------------------------------------------


def held_back(foreign_metric: float, lone: bool = True, few: int = 1) -> HeldBack:
    """Hold back the third prototype; the metric of others may or may not help."""
    node, label = np.array([0, 0, 2, 3]), np.array([0, 1, 0, 0])
    groups = [np.array([0, 1]), np.array([1, 0]), np.array([2])]
    if not lone:
        groups[2] = np.array([2, 3])
    pool: Any = SimpleNamespace(node=node, label=label)
    w = np.array([[0.0, 0.0], [10.0, 0.0], [0.5, 0.0]])

    def fused(kept: list[Any], foreign: Collection[int]) -> tuple[Any, list[Any]]:
        rows = [int(group[0]) for group in kept]
        size = [1.0, 1.0, foreign_metric if 2 in foreign else 0.1]
        return w[rows], [size[p] * np.eye(2) for p in rows]

    return hold_back(pool, groups, np.full(2, few), PLACES, fused, np.ones(2))


def test_first_the_metric_goes_then_the_say() -> None:
    mild = held_back(1.0)
    assert (mild.foreign, mild.dropped, len(mild.groups)) == ({2}, [], 3)
    stubborn = held_back(0.2)
    assert (stubborn.foreign, stubborn.dropped, len(stubborn.groups)) == ({2}, [2], 2)
    assert stubborn.noted == {2}
    assert held_back(0.2, lone=False).noted == set()


def test_prototypes_that_few_nodes_share_are_held_back_too() -> None:
    stubborn = held_back(0.2, lone=False, few=2)
    assert (stubborn.foreign, stubborn.dropped, len(stubborn.groups)) == ({2}, [2, 3], 2)
    assert stubborn.noted == {2, 3}


def test_the_last_prototype_of_a_class_stays() -> None:
    node, label = np.array([2, 0]), np.array([0, 1])
    groups = [np.array([0]), np.array([1, 0])]
    pool: Any = SimpleNamespace(node=node, label=label)
    w, omega = np.array([[0.5, 0.0], [10.0, 0.0]]), [0.1 * np.eye(2), np.eye(2)]
    few = np.ones(2, np.int64)
    found = hold_back(pool, groups, few, PLACES, lambda kept, _: (w, omega), np.ones(2))
    assert (found.dropped, len(found.groups)) == ([], 2)


@pytest.mark.parametrize(("count", "liars"), [(5, ["n2"]), (8, ["n2", "n5"])])
def test_the_report_names_who_was_held_back(count: int, liars: list[str]) -> None:
    """A metric of a prototype of their own that overlooks what tells another class apart."""
    world = World.of(3, d=8, classes=3, apart=2.0)
    nodes = fleet(streamlvq.LGMLVQ, world, count, 200, 3)
    given = [with_blind_prototype(each, world) if each.node in liars else each for each in nodes]
    fused = fuse(given, drift="none")
    for name in liars:
        named = {each.kind: str(each) for each in fused.report.nodes[name].clipped}
        assert "held back" in named["prototype_overreaching"]
        assert named["prototype_overreaching"] in fused.report.text()
    test = world.read(50, 200)
    assert (
        accuracy(fused.for_node("n0"), *test) >= accuracy(fuse(nodes).for_node("n0"), *test) - 0.01
    )
    alike = [fuse(order, drift="none").snapshot("n0").to_bytes() for order in (given, given[::-1])]
    assert alike[0] == alike[1]
    assert len(Snapshot.from_bytes(alike[0]).prototypes) >= 3


def with_blind_prototype(honest: Snapshot, world: World) -> Snapshot:
    """Return the snapshot with a prototype of c0 nearer to c1, which cannot tell them apart."""
    liar = copied(honest)
    arrays = arrays_of(liar)
    p = int(np.flatnonzero(arrays["label"] == liar.labels.index("c0"))[-1])
    apart = world.centres[1] - world.centres[0]
    arrays["w"][p] = (world.centres[0] + 0.35 * apart) * world.unit
    arrays["wins"][p] = arrays["wins"].max()
    blind = np.eye(8) - np.outer(apart, apart) / (apart @ apart)
    omega = blind / (world.unit * arrays["inverse"])
    arrays["omega"][p] = omega / np.sqrt((omega**2).sum())
    return Snapshot.from_bytes(liar.to_bytes())


@pytest.mark.parametrize(("liars", "invented", "most"), [(1, 400, 4), (4, 90, 64)])
def test_invented_classes_are_hardly_asked_about(
    monkeypatch: pytest.MonkeyPatch, liars: int, invented: int, most: int
) -> None:
    """Neither all pairs of them nor places of all of them for each of their prototypes.

    Of what one node invents there are none, of what several agree on so many as are cheap.
    """
    world = World.of(3, d=6, classes=4)
    nodes = fleet(MODELS["LGMLVQ"], world, 5, 60)
    model = learnt(MODELS["LGMLVQ"](), *world.read(9, 60))
    for k, x in enumerate(readings(np.random.default_rng(0).normal(size=(invented, 6)))):
        model.learn_one(x, f"invented{k}")
    lies = [Snapshot.of(model, f"n{5 + k}", readings=False) for k in range(1, liars)]
    model.learn_one(readings(np.zeros((1, 6)))[0], "of n5 alone")
    lies.append(Snapshot.of(model, "n5", readings=False))
    asked: list[int] = []
    pairs: list[tuple[int, int]] = []

    def counted(centre: Any, *rest: Any) -> Any:
        asked.append(len(centre))
        return trigger_distances(centre, *rest)

    def cosines(places: Any, group: Any, k: int, other: int) -> Any:
        pairs.append((k, other))
        return of_pair(places, group, k, other)

    of_pair = graph._ClassPlaces.cosines
    monkeypatch.setattr(triggers, "trigger_distances", counted)
    monkeypatch.setattr(graph._ClassPlaces, "cosines", cosines)
    fused = fuse([*nodes, *lies], drift="none")
    assert len(fused.for_node("n5").classes) == 5 + invented
    assert asked and max(asked) == most
    assert len(pairs) == most * (most - 1) // 2
    assert {(k, other) for k in range(4) for other in range(k + 1, 4)} <= set(pairs)
