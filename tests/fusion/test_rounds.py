"""Rounds of federated averaging over snapshots that hold readings."""

from __future__ import annotations

import gc
import itertools
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from test_fusion_robust import LIES, told

import streamlvq
from streamlvq import Snapshot, fuse
from streamlvq.estimator import build_estimator
from streamlvq.fusion import FusionError, fuse_rounds
from streamlvq.fusion.combine import match_by_order
from streamlvq.fusion.node_models import unpack
from streamlvq.fusion.personal import StoredReadings, local_passes, stored_readings
from streamlvq.fusion.rounds import (
    Carrier,
    Participant,
    Round,
    RoundResult,
    SnapshotParticipant,
    in_process,
    participants_of,
    run_rounds,
)
from streamlvq.fusion.vetting import model_problem
from support.fusions import MODELS, World, accuracy, bits, learnt
from support.samples import readings

FLEET = tuple(f"n{i}" for i in range(5))
SHIFT = np.array([0.0, 2.0, -1.0, 1.0, 0.5])


@pytest.fixture(scope="module")
def world() -> World:
    return World.of(5, classes=4, apart=1.0)


def nodes_of(
    world: World, make: Callable[[], Any], n: int = 30, known: Any = None
) -> list[Snapshot]:
    """Nodes that have little to learn from, each with a sensor of its own."""
    known = [None] * len(FLEET) if known is None else known
    return [
        Snapshot.of(learnt(make(), *world.read(i, n, shift=SHIFT[i], known=known[i])), name)
        for i, name in enumerate(FLEET)
    ]


@pytest.fixture(scope="module")
def fleets(world: World) -> dict[str, list[Snapshot]]:
    return {name: nodes_of(world, MODELS[name]) for name in MODELS}


def score(fused: Any, world: World, among: Iterable[str] = FLEET) -> float:
    """The mean accuracy of nodes on readings of their own sensors."""
    found = []
    for name in among:
        i = FLEET.index(name)
        X, y = world.read(900 + i, 200, shift=SHIFT[i])
        features = list(readings(X[:1])[0])
        found.append(np.mean(fused.for_node(name).predict_array(X, features=features) == y))
    return float(np.mean(found))


def results(nodes: list[Snapshot], carrier: Carrier, **options: Any) -> list[RoundResult]:
    return list(run_rounds(nodes, carrier=carrier, **options))


def test_pools_stay_those_of_the_nodes_and_no_round_keeps_the_one_before(world: World) -> None:
    nodes = nodes_of(world, MODELS["GMLVQ"])
    run = run_rounds(nodes, rounds=3)
    before = next(run).fused
    second = weakref.ref(next(run).fused)
    *_, last = (result.fused for result in run)
    gc.collect()
    assert second() is None
    assert last.pool is before.pool and last.pool.snapshots["n1"].has_readings


# --- what rounds are ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(MODELS))
def test_rounds_are_passes_and_fusions_one_after_the_other(
    name: str, fleets: dict[str, list[Snapshot]]
) -> None:
    """Step by step, as the words say, for every kind of model."""
    nodes = fleets[name]
    fused = fuse(nodes)
    for number in (1, 2):
        answers = [
            SnapshotParticipant(each).answer(
                Round(number, fused.snapshot(each.node, private=False), 2, 1.0)
            )
            for each in nodes
        ]
        fused = fuse(answers, after=fused)
    wanted = bits(fused)
    assert bits(fuse_rounds(nodes, rounds=2, passes=2, pull=1.0)) == wanted
    assert wanted != bits(fuse(nodes))


def test_no_rounds_are_a_fusion(fleets: dict[str, list[Snapshot]]) -> None:
    nodes = fleets["GMLVQ"]
    assert bits(fuse_rounds(nodes, rounds=0)) == bits(fuse(nodes))
    assert bits(fuse_rounds(nodes, rounds=0, drift="none")) == bits(fuse(nodes, drift="none"))
    without = [Snapshot.of(each.classifier(), each.node, readings=False) for each in nodes]
    assert bits(fuse_rounds(without, rounds=0)) == bits(fuse(without))


@pytest.mark.parametrize("name", ["GMLVQ", "LGMLVQ"])
def test_rounds_improve_what_was_fused_once(
    name: str, world: World, fleets: dict[str, list[Snapshot]]
) -> None:
    found = [score(each.fused, world) for each in run_rounds(fleets[name], rounds=10)]
    assert found[-1] > found[0] + 0.01
    assert min(found) >= found[0] - 0.01


def test_the_same_statistics_in_every_round(fleets: dict[str, list[Snapshot]]) -> None:
    """Nothing is counted twice: reports of all rounds agree on what each node has learnt."""
    first, *others = [each.fused.report for each in run_rounds(fleets["LGMLVQ"], rounds=6)]
    for report in others:
        for name in FLEET:
            before, after = first.nodes[name], report.nodes[name]
            assert (after.samples, after.gained) == (before.samples, before.gained)
            assert after.weights == before.weights
            assert after.shift == pytest.approx(before.shift, rel=1e-6, abs=1e-9)


def test_scales_and_counts_do_not_drift(fleets: dict[str, list[Snapshot]]) -> None:
    results = [
        each.fused.snapshot("n1", private=False) for each in run_rounds(fleets["LGMLVQ"], rounds=6)
    ]
    first, last = (each.estimator_state().arrays for each in (results[0], results[-1]))
    for name in ("weight", "class_count", "class_weight", "class_mean", "class_variance"):
        np.testing.assert_allclose(last[name], first[name], rtol=1e-9)
    for name in ("mean", "variance", "peak", "inverse"):
        np.testing.assert_allclose(last[name], first[name], rtol=0.2, atol=0.2)
    for name in ("w_moment", "wins", "usefulness", "total_moment"):
        assert np.isfinite(last[name]).all() and np.abs(last[name]).max() < 1e6


def test_prototypes_do_not_multiply(world: World) -> None:
    """All nodes start from the same ones, so they are the same however far they went."""
    nodes = nodes_of(world, streamlvq.LGMLVQ, n=60)
    counts = [
        len(each.fused.snapshot("n1", private=False).prototypes)
        for each in run_rounds(nodes, rounds=4, passes=3, drift="least_squares")
    ]
    assert len(set(counts)) == 1 and counts[0] > 4


def test_a_class_that_a_node_lacks_comes_from_the_others(world: World) -> None:
    known = [[0, 1, 2, 3], [0, 1, 2], [1, 2, 3], [0, 2, 3], [0, 1, 3]]
    nodes = nodes_of(world, MODELS["LGMLVQ"], n=40, known=known)
    fused = fuse_rounds(nodes, rounds=5)
    assert fused.report.nodes["n1"].gained == ("c3",)
    assert score(fused, world) > score(fuse(nodes), world) - 0.01
    X, y = world.read(901, 200, shift=SHIFT[1])
    model, own = fused.for_node("n1"), [k for k, label in enumerate(y) if label == "c3"]
    assert accuracy(model, X[own], ["c3"] * len(own)) > 0.5


def test_a_node_that_has_learnt_nothing_is_not_asked(
    world: World, fleets: dict[str, list[Snapshot]]
) -> None:
    nodes = [*fleets["GMLVQ"], Snapshot.of(streamlvq.GMLVQ(), "new")]
    *_, last = run_rounds(nodes, rounds=2)
    assert last.answered == FLEET and last.missing == ()
    assert last.fused.nodes == (*FLEET, "new")
    assert set(last.fused.for_node("new").classes) == set(world.labels)


def test_committees_with_transforms_take_part(world: World) -> None:
    def make() -> Any:
        return streamlvq.FeatureTransform(streamlvq.LVQCommittee(), transform="asinh")

    nodes = nodes_of(world, make)
    fused = fuse_rounds(nodes, rounds=3)
    assert score(fused, world) > score(fuse(nodes), world) - 0.02


# --- who carries them -----------------------------------------------------------------------------


def in_order(nodes: Iterable[Snapshot], order: tuple[int, ...]) -> Carrier:
    """All answers, in another order of arrival, some of them twice and as bytes."""
    carry = in_process(participants_of(nodes))

    def shuffled(asked: Mapping[str, Round]) -> Iterator[Snapshot]:
        answers = list(carry(asked))
        for k in (*order, order[0]):
            yield Snapshot.from_bytes(answers[k].to_bytes())

    return shuffled


@pytest.mark.parametrize("name", ["GMLVQ", "LVQCommittee"])
def test_the_order_of_arrival_does_not_matter(name: str, fleets: dict[str, list[Snapshot]]) -> None:
    nodes = fleets[name]
    wanted = bits(fuse_rounds(nodes, rounds=3))
    for order in list(itertools.permutations(range(5)))[7::50]:
        given = [nodes[k] for k in order]
        assert bits(fuse_rounds(given, rounds=3, carrier=in_order(nodes, order))) == wanted


def test_a_round_says_what_a_node_needs(fleets: dict[str, list[Snapshot]]) -> None:
    seen: list[dict[str, Round]] = []
    nodes = fleets["GMLVQ"]
    carry = in_process(participants_of(nodes))

    def watched(asked: Mapping[str, Round]) -> Iterable[Snapshot]:
        seen.append(dict(asked))
        return carry(asked)

    *_, last = run_rounds(nodes, rounds=3, passes=2, pull=0.5, carrier=watched)
    assert [{each.number for each in asked.values()} for asked in seen] == [{1}, {2}, {3}]
    assert all((each.passes, each.pull) == (2, 0.5) for each in seen[0].values())
    fused = fuse(nodes)
    wanted = {node: fused.snapshot(node, private=False).to_bytes() for node in fused.nodes}
    assert {node: each.start.to_bytes() for node, each in seen[0].items()} == wanted
    assert not any(each.start.has_readings for each in seen[0].values())
    assert last.number == 3 and last.answered == FLEET and not last.ignored


def test_participants_of_any_kind(fleets: dict[str, list[Snapshot]]) -> None:
    """The interface is enough: one that keeps its readings elsewhere answers the same."""

    class Elsewhere:
        """A node whose readings are in a table."""

        def __init__(self, snapshot: Snapshot) -> None:
            self.own, self.node = snapshot, snapshot.node

        def answer(self, asked: Round) -> Snapshot:
            return SnapshotParticipant(self.own).answer(asked)

    nodes = fleets["GMLVQ"]
    others: list[Participant] = [Elsewhere(each) for each in nodes]
    assert bits(fuse_rounds(nodes, rounds=2, carrier=in_process(others))) == bits(
        fuse_rounds(nodes, rounds=2)
    )


# --- nodes that drop out --------------------------------------------------------------------------


def without(nodes: Iterable[Snapshot], absent: Mapping[int, set[str]]) -> Carrier:
    """Nodes that do not answer, by round."""
    carry = in_process(participants_of(nodes))

    def partly(asked: Mapping[str, Round]) -> Iterator[Snapshot]:
        number = next(iter(asked.values())).number
        yield from carry({n: r for n, r in asked.items() if n not in absent.get(number, set())})

    return partly


@pytest.mark.parametrize("name", ["GMLVQ", "LGMLVQ"])
def test_a_node_that_drops_out_costs_what_it_costs_in_one_shot(
    name: str, world: World, fleets: dict[str, list[Snapshot]]
) -> None:
    nodes = fleets[name]
    everybody = score(fuse_rounds(nodes, rounds=6), world)
    cost_once = score(fuse(nodes), world, FLEET[:4]) - score(fuse(nodes[:4]), world, FLEET[:4])
    for absent in ({2: {"n4"}}, {k: {"n4"} for k in range(1, 7)}, {1: {"n0"}, 3: {"n1", "n2"}}):
        found = results(nodes, without(nodes, absent), rounds=6)
        for each in found[1:]:
            gone = absent.get(each.number, set())
            assert set(each.missing) == gone and set(each.answered) == {*FLEET} - gone
            assert each.fused.nodes == FLEET
        assert score(found[-1].fused, world) >= everybody - max(cost_once, 0.0) - 0.015


def test_a_round_without_answers_changes_little(
    world: World, fleets: dict[str, list[Snapshot]]
) -> None:
    """Nobody has learnt anything: the models stay."""
    nodes = fleets["LGMLVQ"]
    before, after = results(nodes, in_process([]), rounds=1)
    assert after.missing == FLEET
    old, new = (
        each.fused.snapshot("n1", private=False).estimator_state().arrays
        for each in (before, after)
    )
    np.testing.assert_allclose(new["w"], old["w"], rtol=1e-6)
    np.testing.assert_allclose(new["class_mean"], old["class_mean"], rtol=1e-6)
    # Only what nobody but its node believes does not come back from a round.
    assert score(after.fused, world) == pytest.approx(score(before.fused, world), abs=0.02)


def test_a_class_stays_while_its_only_node_is_away(world: World) -> None:
    known = [[0, 1, 2], [0, 1, 2], [0, 1, 2], [0, 1, 2], [0, 1, 2, 3]]
    nodes = nodes_of(world, MODELS["GMLVQ"], n=40, known=known)
    absent = {k: {"n4"} for k in range(1, 4)}
    *_, last = results(nodes, without(nodes, absent), rounds=3)
    assert "c3" in last.fused.for_node("n0").classes


def test_sensors_that_hardly_move_at_a_node_do_not_cost_it_the_round(world: World) -> None:
    """Its answer has the common scale of a feature, and statistics of its own of the classes."""
    gain = np.ones((len(FLEET), len(world.unit)))
    gain[1, 0] = 0.001
    nodes = [
        Snapshot.of(learnt(streamlvq.GMLVQ(), *world.read(i, 60, gain=gain[i])), name)
        for i, name in enumerate(FLEET)
    ]
    first, after = run_rounds(nodes, rounds=1, drift="none", budget=1)
    answer = SnapshotParticipant(nodes[1]).answer(Round(1, first.fused.snapshot("n1")))
    (model,) = unpack([answer])[0].models.values()
    assert "times less in" in str(model_problem(model))
    for fused in (first.fused, after.fused):
        assert all(each.left_out is None for each in fused.report.nodes.values())
        assert fused.start.refused == {}


# --- nodes that lie -------------------------------------------------------------------------------

LIAR = "n2"
HONEST = [name for name in FLEET if name != LIAR]


class LyingParticipant(SnapshotParticipant):
    """A node that changes the numbers of its answers."""

    def __init__(self, snapshot: Snapshot, lie: Callable[[dict[str, Any]], None]) -> None:
        super().__init__(snapshot)
        self.lie = lie

    def answer(self, asked: Round) -> Snapshot:
        answer = super().answer(asked)
        return told(answer, self.lie) if answer.node == LIAR else answer


class MisledParticipant(SnapshotParticipant):
    """A node whose readings have the wrong labels, and whose statistics do not show it."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        labels = sorted(snapshot.labels)
        turned = dict(zip(labels, labels[1:] + labels[:1], strict=True))
        self.readings = replace(self.readings, labels=[turned[y] for y in self.readings.labels])


def lying(nodes: Iterable[Snapshot], lie: Callable[[dict[str, Any]], None]) -> Carrier:
    return in_process([LyingParticipant(each, lie) for each in nodes])


@pytest.fixture(scope="module")
def apart() -> World:
    """Classes that are easily told apart, so that what is lost is lost to a lie."""
    return World.of(21, classes=4, apart=4.0)


@pytest.fixture(scope="module")
def sure(apart: World) -> dict[str, list[Snapshot]]:
    return {name: nodes_of(apart, MODELS[name], n=60) for name in ("GLVQ", "GMLVQ", "LGMLVQ")}


@pytest.fixture(scope="module")
def honest_scores(apart: World, sure: dict[str, list[Snapshot]]) -> dict[str, float]:
    """The score of each fleet after three rounds in which nobody lies."""
    return {
        name: score(fuse_rounds(nodes, rounds=3), apart, HONEST) for name, nodes in sure.items()
    }


@pytest.mark.parametrize("lie", list(LIES))
@pytest.mark.parametrize("name", ["GLVQ", "LGMLVQ"])
def test_a_liar_costs_what_it_costs_in_one_shot(
    name: str,
    lie: str,
    apart: World,
    sure: dict[str, list[Snapshot]],
    honest_scores: dict[str, float],
) -> None:
    """The bound of one-shot fusion, for lies in every round."""
    nodes, honest = sure[name], honest_scores[name]
    fused = fuse_rounds(nodes, rounds=3, carrier=lying(nodes, LIES[lie]))
    assert honest > 0.97
    assert score(fused, apart, HONEST) >= honest - 0.02
    for node in HONEST:
        assert fused.report.nodes[node].left_out is None


@pytest.mark.parametrize("name", ["GMLVQ", "LGMLVQ"])
def test_a_liar_from_the_start(
    name: str, apart: World, sure: dict[str, list[Snapshot]], honest_scores: dict[str, float]
) -> None:
    nodes, honest = sure[name], honest_scores[name]
    for lie in ("flipped_loudly", "larger_prototypes_loudly", "shifted_means"):
        given = [told(each, LIES[lie]) if each.node == LIAR else each for each in nodes]
        fused = fuse_rounds(given, rounds=3, carrier=lying(nodes, LIES[lie]))
        assert score(fused, apart, HONEST) >= honest - 0.02


def test_who_is_refused_at_the_start_stays_refused(
    apart: World, sure: dict[str, list[Snapshot]]
) -> None:
    """Class statistics are vetted once, and are those of the start in every round."""
    nodes = sure["GMLVQ"]
    given = [told(each, scattered) if each.node == LIAR else each for each in nodes]
    first, *_, last = run_rounds(given, rounds=2)
    assert "times more in" in first.fused.start.refused[LIAR]
    assert last.fused.start.refused == first.fused.start.refused
    assert last.fused.report.nodes[LIAR].left_out == first.fused.start.refused[LIAR]
    honest, *_, final = run_rounds(nodes, rounds=2)
    *_, lied = run_rounds(nodes, rounds=2, carrier=lying(nodes, scattered))
    assert honest.fused.start.refused == {} == lied.fused.start.refused
    assert bits(lied.fused) == bits(final.fused)


def scattered(arrays: dict[str, Any]) -> None:
    """Claim classes that scatter more than all readings."""
    arrays["class_variance"] *= 1e4


@pytest.mark.parametrize("name", ["GLVQ", "GMLVQ", "LGMLVQ"])
def test_wrong_labels_in_all_rounds(
    name: str, apart: World, sure: dict[str, list[Snapshot]]
) -> None:
    """One node pushes all prototypes to the wrong classes, with true statistics, ten times."""
    nodes = sure[name]
    honest = score(fuse_rounds(nodes, rounds=10), apart, HONEST)
    mixed = [(MisledParticipant if n.node == LIAR else SnapshotParticipant)(n) for n in nodes]
    fused = fuse_rounds(nodes, rounds=10, carrier=in_process(mixed))
    assert score(fused, apart, HONEST) >= honest - 0.02


def test_answers_that_are_other_models_are_ignored(
    apart: World, sure: dict[str, list[Snapshot]]
) -> None:
    """What has other prototypes than were sent could bring a back door with it."""
    nodes = sure["GMLVQ"]
    carry = in_process(participants_of(nodes))
    more = learnt(streamlvq.GMLVQ(), *apart.read(1, 60))
    strangers = [
        Snapshot.of(learnt(streamlvq.GLVQ(), *apart.read(1, 60)), "n0"),
        Snapshot.of(learnt(streamlvq.LVQCommittee(), *apart.read(1, 60)), "n1"),
        Snapshot.of(streamlvq.GMLVQ(), "n2"),
        Snapshot.of(more, "n3"),
        Snapshot.of(more, "somebody else"),
    ]
    grown = strangers[3].classifier()
    grown.learn_one({"one more": 0.0}, "c0")
    strangers[3] = Snapshot.of(grown, "n3")

    def disturbed(asked: Mapping[str, Round]) -> Iterator[Snapshot]:
        yield from strangers
        yield from (each for each in carry(asked) if each.node in ("n0", "n4"))

    *_, last = results(nodes, disturbed, rounds=2)
    assert last.answered == ("n0", "n4") and last.missing == ("n1", "n2", "n3")
    assert list(last.ignored) == ["n0", "n1", "n2", "n3", "somebody else"]
    assert last.ignored["somebody else"] == "it was not asked"
    assert "got another model" in last.ignored["n1"]
    wanted = without(nodes, {k: {"n1", "n2", "n3"} for k in (1, 2)})
    assert bits(last.fused) == bits(fuse_rounds(nodes, rounds=2, carrier=wanted))


# --- what is refused ------------------------------------------------------------------------------


def test_snapshots_without_readings_are_refused_by_name(fleets: dict[str, list[Snapshot]]) -> None:
    nodes = fleets["GMLVQ"]
    shared = [Snapshot.of(each.classifier(), each.node, readings=False) for each in nodes[:2]]
    with pytest.raises(FusionError, match=r"got none from 'n0', 'n1': take .*readings=True"):
        fuse_rounds([*shared, *nodes[2:]], rounds=1)
    silent = learnt(streamlvq.GMLVQ(rehearsal=0), *World.of(5, classes=4).read(1, 30))
    with pytest.raises(FusionError, match="rehearsal"):
        fuse_rounds([*nodes[1:], Snapshot.of(silent, "n0")], rounds=1)
    # whoever carries rounds to the nodes needs no readings here
    carrier = in_process(participants_of(nodes))
    assert bits(fuse_rounds([*shared, *nodes[2:]], rounds=1, carrier=carrier)) == bits(
        fuse_rounds(nodes, rounds=1)
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rounds": -1}, "rounds: expected a whole number of at least 0, got -1"),
        ({"rounds": 2.0}, "rounds: expected a whole number"),
        ({"passes": 0}, "passes: expected a whole number of at least 1, got 0"),
        ({"passes": True}, "passes: expected a whole number"),
        ({"pull": -0.1}, "pull: expected a number of at least 0, got -0.1"),
        ({"pull": float("nan")}, "pull: expected a number"),
        ({"pull": float("inf")}, "pull: expected a number"),
        ({"pull": "1"}, "pull: expected a number of at least 0, got '1'"),
        ({"drift": "sideways"}, "drift: expected one of"),
    ],
)
def test_wrong_options(
    options: dict[str, Any], message: str, fleets: dict[str, list[Snapshot]]
) -> None:
    with pytest.raises(FusionError, match=message):
        fuse_rounds(fleets["GLVQ"], **{"rounds": 1, **options})


# --- parts ----------------------------------------------------------------------------------------


def test_groups_by_order() -> None:
    found = match_by_order(np.array([2, 2, 2, 5, 7, 7]))
    assert [group.tolist() for group in found] == [[0, 3, 4], [1, 5], [2]]
    assert match_by_order(np.array([], np.int64)) == []


def test_a_carried_round_survives_bytes(fleets: dict[str, list[Snapshot]]) -> None:
    """What another transport does: start and answer as bytes, nothing else."""
    nodes = fleets["LGMLVQ"]
    people = {each.node: SnapshotParticipant(each) for each in nodes}

    def wire(asked: Mapping[str, Round]) -> Iterator[Snapshot]:
        for node, task in asked.items():
            read = replace(task, start=Snapshot.from_bytes(task.start.to_bytes()))
            yield Snapshot.from_bytes(people[node].answer(read).to_bytes())

    assert bits(fuse_rounds(nodes, rounds=3, carrier=wire)) == bits(fuse_rounds(nodes, rounds=3))


def test_local_passes_from_the_last_round(world: World, fleets: dict[str, list[Snapshot]]) -> None:
    """The usual end: each node makes the common model its own."""
    nodes = fleets["LGMLVQ"]
    fused, found = fuse_rounds(nodes, rounds=5), []
    for i, own in enumerate(nodes):
        stored: StoredReadings = stored_readings(own.estimator_state())
        start = fused.snapshot(own.node, private=False).estimator_state()
        model = build_estimator(local_passes(start, stored, passes=10))
        found.append(accuracy(model, *world.read(900 + i, 200, shift=SHIFT[i])))
    alone = [
        accuracy(own.classifier(), *world.read(900 + i, 200, shift=SHIFT[i]))
        for i, own in enumerate(nodes)
    ]
    assert np.mean(found) > np.mean(alone)
