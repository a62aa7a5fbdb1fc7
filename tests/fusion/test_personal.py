"""Shadow learners: passes over stored readings from a fused model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import streamlvq
from naive import EUCLIDEAN, Metric, NaiveLVQ, Unit, unit
from streamlvq import Snapshot, fuse
from streamlvq.estimator import EstimatorState, build_estimator
from streamlvq.fusion.personal import (
    StoredReadings,
    local_passes,
    stored_readings,
    with_own_statistics,
)
from support.fusions import MODELS, World, accuracy, first, learnt

GRADIENT_MODELS = ("GLVQ", "GRLVQ", "LGRLVQ", "GMLVQ", "LGMLVQ", "RSLVQ", "LMRSLVQ")
MOVED = {"w", "w_moment", "omega", "row_moment", "column_moment", "total_moment", "wins"}


def nodes(
    name: str, count: int = 3, n: int = 50, missing: float = 0.0, **parameters: Any
) -> list[Snapshot]:
    """Nodes of a world whose sensors differ by a shift, with their readings."""
    world, found = World.of(3, apart=1.0), []
    for i in range(count):
        X, y = world.read(i, n, shift=0.5 * i)
        X[np.random.default_rng(i).random(X.shape) < missing] = np.nan
        model = getattr(streamlvq, name)(**parameters)
        found.append(Snapshot.of(learnt(model, X, y), f"n{i}"))
    return found


def start_of(given: list[Snapshot], node: str) -> EstimatorState:
    return fuse(given).snapshot(node).estimator_state()


def stored_of(snapshot: Snapshot) -> StoredReadings:
    return stored_readings(snapshot.estimator_state())


# --- stored readings ------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [3, 20, 21, 57])
@pytest.mark.parametrize("name", ["GLVQ", "PairwiseLVQ"])
def test_stored_readings_come_in_the_order_in_which_they_were_learnt(name: str, n: int) -> None:
    X, y = World.of(1).read(5, n)
    X[1, 0] = np.nan
    model = getattr(streamlvq, name)(buffer_size=20)
    for k, (row, label) in enumerate(zip(X, y, strict=True)):
        x = {f"f{i}": value for i, value in enumerate(row.tolist()) if value == value}
        model.learn_one(x, label, 1.0 + k)
    stored = stored_of(Snapshot.from_bytes(Snapshot.of(model, "a").to_bytes()))
    order = [stored.features.index(f"f{i}") for i in range(X.shape[1])]
    np.testing.assert_array_equal(stored.rows[:, order], X[-20:])
    assert stored.labels == y[-20:] and len(stored) == min(n, 20)
    assert stored.weights.tolist() == [1.0 + k for k in range(n)][-20:]


def test_stored_readings_of_committees_wrappers_and_transforms() -> None:
    X, y = World.of(1).read(5, 330)
    X = np.abs(X)
    for members in (["follower", "learner"], None):  # the follower keeps 300
        committee = learnt(streamlvq.LVQCommittee(members=members), X, y)
        np.testing.assert_array_equal(stored_of(Snapshot.of(committee, "a")).rows, X)
    inside = streamlvq.TimeIntegrator(streamlvq.GLVQ())
    wrapped = streamlvq.RelSimRejector(inside, target_rate=0.1)
    assert stored_of(Snapshot.of(learnt(wrapped, X, y), "a")).labels == y
    transformed = streamlvq.FeatureTransform(streamlvq.GLVQ(), transform="log")
    stored = stored_of(Snapshot.of(learnt(transformed, X, y), "a"))
    np.testing.assert_allclose(stored.rows, np.log(X))


def test_no_readings_where_none_are_kept() -> None:
    model = learnt(streamlvq.GLVQ(), *World.of(1).read(5, 30))
    assert len(stored_of(Snapshot.of(model, "a", readings=False))) == 0
    assert len(stored_of(Snapshot.of(streamlvq.GLVQ(), "a"))) == 0
    assert len(stored_of(Snapshot.of(streamlvq.LVQCommittee(), "a"))) == 0
    silent = learnt(streamlvq.GLVQ(rehearsal=0), *World.of(1).read(5, 30))
    assert len(stored_of(Snapshot.of(silent, "a"))) == 0


# --- what a pass changes --------------------------------------------------------------------------


def changed_arrays(before: EstimatorState, after: EstimatorState) -> set[str]:
    assert before.extra == after.extra and before.parameters == after.parameters
    assert before.arrays.keys() == after.arrays.keys()
    return {
        name
        for name, array in before.arrays.items()
        if not np.array_equal(array, after.arrays[name], equal_nan=True)
    }


@pytest.mark.parametrize("pull", [0.0, 3.0])
@pytest.mark.parametrize("name", [*GRADIENT_MODELS, "PairwiseLVQ", "LVQ1", "LVQ21"])
def test_only_prototypes_and_metrics_move(name: str, pull: float) -> None:
    """No births however many errors, no statistics, no calibration, no readings."""
    given = nodes(name, half_life=200) if name == "GMLVQ" else nodes(name)
    start = start_of(given, "n1")
    for passes in (1, 5):
        after = local_passes(start, stored_of(given[1]), passes=passes, pull=pull)
        changed = changed_arrays(start, after)
        assert "w" in changed and changed <= MOVED | {"usefulness"}
        assert after.extra["sizes"]["stored"] == 0
        build_estimator(after)
        Snapshot(after, "n1").to_bytes()


def test_useless_prototypes_are_not_evicted() -> None:
    """Where on/off sensors put two classes on one place, a learner would move one of them."""
    random = np.random.default_rng(0)
    X = np.repeat(random.integers(0, 2, (4, 3)).astype(float), 10, axis=0)
    given = []
    for node in "ab":
        model = streamlvq.GMLVQ()
        model.learn_array(X, random.choice(["ham", "spam"], len(X)), features=list("xyz"))
        given.append(Snapshot.of(model, node))
    start = start_of(given, "a")
    labels = random.choice(["ham", "spam"], 200).tolist()
    rows = X[random.integers(0, len(X), 200)]
    stored = StoredReadings(rows, labels, list("xyz"), np.ones(200))
    after = local_passes(start, stored, passes=3)
    assert (after.arrays["label"] == start.arrays["label"]).all()
    assert changed_arrays(start, after) <= MOVED | {"usefulness"}


def test_wins_are_those_of_the_node() -> None:
    given = nodes("LGMLVQ")
    after = local_passes(start_of(given, "n2"), stored_of(given[2]), passes=2)
    assert 0 < after.arrays["wins"].sum() <= 100


def test_no_pass_and_no_reading_change_nothing_but_units() -> None:
    """Metrics have norm one, as in every model that learns."""
    given = nodes("LGMLVQ")
    start, stored = start_of(given, "n1"), stored_of(given[1])
    none = local_passes(start, stored.without(stored.labels), passes=3)
    assert none.same_as(local_passes(start, stored, passes=0))
    moments = {"w_moment", "row_moment", "column_moment", "total_moment"}  # follow the wins
    assert changed_arrays(start, none) <= {"omega", "wins", "usefulness"} | moments
    count = len(given[1].prototypes)
    np.testing.assert_allclose(np.linalg.norm(none.arrays["omega"][:count], axis=(1, 2)), 1.0)


def test_the_start_stays_as_it_is() -> None:
    given = nodes("GMLVQ")
    start = start_of(given, "n1")
    data = Snapshot(start, "n1").to_bytes()
    local_passes(start, stored_of(given[1]), passes=2, pull=1.0)
    assert Snapshot(start, "n1").to_bytes() == data


def test_readings_of_unknown_classes_and_features_are_skipped() -> None:
    given = nodes("GMLVQ")
    start, stored = start_of(given, "n1"), stored_of(given[1])
    more = StoredReadings(
        np.column_stack([np.append(stored.rows, stored.rows[:1], axis=0), np.ones(51)])[:, ::-1],
        [*stored.labels, "unheard of"],
        [*stored.features, "unknown"][::-1],
        np.ones(51),
    )
    assert local_passes(start, more).same_as(local_passes(start, stored))


def test_a_class_left_out_teaches_nothing() -> None:
    given = nodes("LGMLVQ")
    start, stored = start_of(given, "n1"), stored_of(given[1])
    rest = stored.without(["c1"])
    assert set(rest.labels) == {"c0", "c2"} and len(rest) == len(rest.rows) == len(rest.weights)
    after = local_passes(start, rest)
    kept = [k for k, label in enumerate(stored.labels) if label != "c1"]
    picked = StoredReadings(
        stored.rows[kept], [stored.labels[k] for k in kept], stored.features, stored.weights[kept]
    )
    assert after.same_as(local_passes(start, picked))
    assert not after.same_as(local_passes(start, stored))


def test_orders_come_from_the_seed() -> None:
    given = nodes("GMLVQ")
    start, stored = start_of(given, "n1"), stored_of(given[1])
    once, twice = (local_passes(start, stored, passes=2, seed=1) for _ in range(2))
    assert once.same_as(twice)
    assert not once.same_as(local_passes(start, stored, passes=2, seed=2))
    assert not once.same_as(local_passes(start, stored, passes=2))


@pytest.mark.parametrize("name", ["LVQCommittee", "FeatureTransform"])
def test_committees_and_transforms(name: str) -> None:
    world, given = World.of(3, apart=1.0), []
    for i in range(3):
        model = streamlvq.LVQCommittee()
        if name == "FeatureTransform":
            model = streamlvq.FeatureTransform(streamlvq.GMLVQ(), transform="asinh")
        given.append(Snapshot.of(learnt(model, *world.read(i, 60, shift=0.5 * i)), f"n{i}"))
    start, stored = start_of(given, "n1"), stored_of(given[1])
    after = local_passes(start, stored, passes=2)
    assert not after.same_as(start)
    assert after.kind == start.kind and after.parts.keys() == start.parts.keys()
    model = build_estimator(after)
    assert accuracy(model, *world.read(9, 200, shift=0.5)) > 0.5
    innermost = {"": after.innermost} if name == "FeatureTransform" else dict(after.parts)
    for part in innermost.values():
        assert part.extra["sizes"]["stored"] == 0


def test_passes_help_a_node_that_differs() -> None:
    """Sensors that are off, and nobody corrects it: the node's own readings do."""
    world, given = World.of(3, apart=1.5), []
    for i in range(4):
        X, y = world.read(i, 60, shift=3.0 * (i == 3))
        given.append(Snapshot.of(learnt(MODELS["LGMLVQ"](), X, y), f"n{i}"))
    start = fuse(given, drift="none", screen=False).snapshot("n3").estimator_state()
    X, y = world.read(9, 300, shift=3.0)
    before = accuracy(build_estimator(start), X, y)
    after = accuracy(build_estimator(local_passes(start, stored_of(given[3]), passes=3)), X, y)
    assert after > before + 0.1


# --- the proximal pull ----------------------------------------------------------------------------


def naive_shadow(model: Any) -> NaiveLVQ:
    """The oracle with everything that a fused model knows."""
    state, naive = model.engine.state, NaiveLVQ(model, len(model.features))
    naive.inverse = state["inverse"].copy()
    for scale, varies in zip(naive.scales, state["varies"], strict=True):
        scale.varies = bool(varies)
    naive.class_count = state["class_count"][: len(model.classes)].tolist()

    def metric(m: int) -> Metric:
        rows, columns = state["row_moment"][m].copy(), state["column_moment"][m].copy()
        return Metric(unit(state["omega"][m]), rows, columns, float(state["total_moment"][m]))

    for p in range(len(model.prototypes())):
        own = metric(p) if naive.local else None
        squares = state["w_moment"][p].copy()
        rate, label = float(state["rate"][p]), int(state["label"][p])
        naive.units.append(Unit(state["w"][p].copy(), label, squares, rate, own))
    if naive.kind != EUCLIDEAN and not naive.local:
        naive.shared = metric(0)
    return naive


def pulled(value: Any, start: Any, rate: float, pull: float) -> Any:
    """Minimise rate * pull / 2 * (v - start)^2 + (v - value)^2 / 2, number by number."""
    out = np.empty_like(value)
    for place, v in np.ndenumerate(value):
        s = start[place]
        out[place] = v if s != s else (v + rate * pull * s) / (1.0 + rate * pull)
    return out


def naive_passes(
    model: Any, stored: StoredReadings, order: list[int], passes: int, pull: float
) -> NaiveLVQ:
    """FedProx as it is defined: a gradient step of the cost, then one of the proximal term."""
    naive = naive_shadow(model)
    rows = stored.rows[:, order]
    codes = [model.classes.index(label) for label in stored.labels]
    for u in naive.units:
        mine = [rows[k] for k, c in enumerate(codes) if c == u.label]
        for x in [*mine, u.w]:
            naive.widen_range(x, u.label)
    start_w = [u.w.copy() for u in naive.units]
    start_omega = [each.omega.copy() for each in naive.metrics()]
    for _ in range(passes):
        for x, c, w in zip(rows, codes, stored.weights, strict=True):
            naive.weight = w * naive.class_factor(c)
            naive.teach(x, c, naive.distances(x))
            if pull == 0.0:
                continue
            for u, s in zip(naive.units, start_w, strict=True):
                u.w = pulled(u.w, s, model.learning_rate, pull)
            for each, s in zip(naive.metrics(), start_omega, strict=True):
                each.omega = unit(pulled(each.omega, s, model.metric_learning_rate, pull))
    return naive


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("pull", [0.0, 0.5, 20.0, 1e9])
@pytest.mark.parametrize("name", GRADIENT_MODELS)
def test_passes_are_those_of_the_oracle(name: str, pull: float, missing: float) -> None:
    given = nodes(name, n=25, missing=missing, class_weight="balanced", max_prototypes_per_class=2)
    start, stored = start_of(given, "n1"), stored_of(given[1])
    stored = replace(stored, weights=np.linspace(0.5, 2.0, len(stored)))
    after = build_estimator(local_passes(start, stored, passes=2, pull=pull))
    model = build_estimator(start)
    order = [stored.features.index(feature) for feature in model.features]
    naive = naive_passes(model, stored, order, 2, pull)
    count = len(naive.units)
    np.testing.assert_allclose(
        after.engine.state["w"][:count], [u.w for u in naive.units], rtol=1e-7
    )
    for got, wanted in zip(after.engine.state["omega"], naive.metrics(), strict=False):
        np.testing.assert_allclose(got, wanted.omega, rtol=1e-6, atol=1e-9)
    assert len(naive.metrics()) == (count if naive.local else int(naive.shared is not None))


def distance_to_start(after: EstimatorState, start: EstimatorState, name: str) -> float:
    count = start.extra["sizes"]["prototypes"]
    units = start.arrays["inverse"] if name == "w" else 1.0
    apart = (after.arrays[name][:count] - start.arrays[name][:count]) * units
    return float(np.nansum(apart**2) ** 0.5)


@pytest.mark.parametrize("name", ["GMLVQ", "LGMLVQ", "RSLVQ", "PairwiseLVQ"])
def test_a_stronger_pull_stays_nearer_to_the_start(name: str) -> None:
    given = nodes(name)
    start, stored = start_of(given, "n1"), stored_of(given[1])
    start = local_passes(start, stored, passes=0)  # metrics of norm one
    found = [local_passes(start, stored, passes=4, pull=pull) for pull in (0.0, 1.0, 10.0, 1e12)]
    for array in {"w", "omega"} & start.arrays.keys():
        apart = [distance_to_start(each, start, array) for each in found]
        assert apart == sorted(apart, reverse=True) and apart[0] > 0.1 * (array == "w")
        assert apart[-1] < 1e-6


def test_passes_do_not_depend_on_units() -> None:
    world, found = World.of(3, apart=1.0), []
    for factor, offset in ((1.0, 0.0), (1000.0, 50.0)):
        given = []
        for i in range(3):
            X, y = world.read(i, 50)
            given.append(Snapshot.of(learnt(streamlvq.GMLVQ(), factor * X + offset, y), f"n{i}"))
        start, stored = start_of(given, "n1"), stored_of(given[1])
        after = local_passes(start, stored, passes=2, pull=2.0)
        count = len(build_estimator(after).prototypes())
        found.append((after.arrays["w"][:count] - offset) / factor)
    np.testing.assert_allclose(found[0], found[1], rtol=1e-6)


# --- fused again ----------------------------------------------------------------------------------


def test_an_answer_has_the_statistics_of_its_node() -> None:
    world, known = World.of(2), [[0, 1], [1, 2], [0, 1, 2]]
    given = []
    for i in range(3):
        X, y = world.read(i, 40, known=known[i])
        given.append(Snapshot.of(learnt(streamlvq.LGMLVQ(), X, y), f"n{i}"))
    start = start_of(given, "n0")
    answer = with_own_statistics(
        local_passes(start, stored_of(given[0])), given[0].estimator_state()
    )
    told = Snapshot.from_bytes(Snapshot(answer, "n0", readings=False).to_bytes())
    own = given[0]
    assert told.counts == {**own.counts, "c2": 0} and told.samples == own.samples
    assert {label: told.means[label] for label in own.labels} == own.means
    assert {label: told.spreads[label] for label in own.labels} == own.spreads
    weight = dict(zip(told.features, answer.arrays["weight"].tolist(), strict=True))
    assert weight == dict.fromkeys(own.features, 40.0)
    again = fuse([told, *given[1:]])
    assert again.report.nodes["n0"].gained == ("c2",)


def test_an_answer_of_a_committee_has_the_statistics_of_each_member() -> None:
    world = World.of(2)
    given = [
        Snapshot.of(learnt(streamlvq.LVQCommittee(), *world.read(i, 40)), f"n{i}") for i in range(3)
    ]
    start = start_of(given, "n1")
    answer = with_own_statistics(start, given[1].estimator_state())
    assert list(answer.parts) == ["learner", "follower"]
    for name, part in answer.parts.items():
        own = given[1].estimator_state().parts[name]
        np.testing.assert_array_equal(
            part.arrays["class_count"].sum(), own.arrays["class_count"].sum()
        )
    assert first(Snapshot(answer, "n1").classifier()).samples == 40
    assert fuse([Snapshot(answer, "n1"), given[0], given[2]]).nodes == ("n0", "n1", "n2")
