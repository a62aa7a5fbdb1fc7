"""Weights, records and candidates of a pool, and what `Fused.for_node(local=)` makes of them."""

from __future__ import annotations

import math
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from test_fusion_robust import flipped, told

import streamlvq
from streamlvq import Snapshot, fuse
from streamlvq.fusion import FusionError, fuse_rounds, weights
from streamlvq.fusion.candidates import (
    FleetMoment,
    automatic_kinds,
    build_candidate,
    candidate_names,
    class_shares,
)
from streamlvq.fusion.crossfit import BLOCKS, CrossFit
from streamlvq.fusion.fuse import FusionRun
from streamlvq.fusion.network import network_models
from streamlvq.fusion.node_models import newest, unpack
from streamlvq.fusion.personal import stored_readings
from streamlvq.fusion.pooling import by_prior
from streamlvq.fusion.weights import OpinionRecords, fit_weights, fleet_weights, guarded_weights
from streamlvq.models.pool import PoolClassifier, PoolWeights
from streamlvq.registry import CANDIDATES
from streamlvq.snapshot import SnapshotError
from streamlvq.wrappers import FeatureTransform
from support.fusions import MODELS, World
from support.fusions import fleet as fleet_of

NAMES = ("fused none", "personal none")
FEATURES = ["a", "b", "c"]
CENTRES = {"ham": [0, 0, 0], "spam": [3, 0, 1], "egg": [0, 3, -1], "toast": [3, 3, 0]}


def records(seed: int, count: int = 60, classes: int = 4, lacking: bool = False) -> OpinionRecords:
    random = np.random.default_rng(seed)
    opinions = random.dirichlet(np.ones(classes), (3, count))
    held = np.array([True] * (classes - 1) + [False])
    codes = random.integers(0, classes, count)
    away = np.array([False] * (classes - 2) + [True, False]) if lacking else None
    if away is not None:
        held &= ~away
    return OpinionRecords.of(NAMES, opinions, codes, held, 0.3 * random.normal(size=classes), away)


# --- weights --------------------------------------------------------------------------------------


@pytest.mark.parametrize("lacking", [False, True])
def test_losses_are_those_of_the_pool(lacking: bool) -> None:
    found, vector = records(1, lacking=lacking), np.array([0.4, 0.7, 0.2, -0.3])
    losses = found.losses(vector)
    for k in range(len(found)):
        scores = [
            sum(t * v for t, v in zip(found.terms[k, c], vector, strict=True)) + found.offsets[k, c]
            for c in range(4)
        ]
        possible = [c for c in range(4) if found.possible[k, c]]
        total = sum(math.exp(scores[c]) for c in possible)
        expected = -math.log(math.exp(scores[found.codes[k]]) / total)
        assert losses[k] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_gradient_of_the_cost_is_that_of_finite_differences(seed: int) -> None:
    found = records(seed, lacking=seed == 2)
    vector = np.random.default_rng(seed).uniform(0.1, 1.0, 4)
    _, slope = found.cost(vector)
    for k in range(4):
        step = np.zeros(4)
        step[k] = 1e-6
        difference = (found.cost(vector + step)[0] - found.cost(vector - step)[0]) / 2e-6
        assert slope[k] == pytest.approx(difference, abs=1e-5)


def test_readings_of_classes_that_are_not_held_are_left_out() -> None:
    random = np.random.default_rng(3)
    opinions, held = random.dirichlet(np.ones(3), (3, 30)), np.array([True, True, False])
    codes = np.tile([0, 1, 2], 10)
    own = OpinionRecords.of(NAMES, opinions, codes, held, np.zeros(3))
    assert len(own) == 20 and own.possible.all()
    forgotten = np.array([False, False, True])
    held = np.array([True, False, False])  # class 1 is hidden, class 2 truly lacking
    hidden = OpinionRecords.of(NAMES, opinions, codes, held, np.zeros(3), forgotten)
    assert len(hidden) == 20
    assert hidden.possible[0].tolist() == [True, True, False]


def test_runs_of_one_label_count_as_ten_readings() -> None:
    worth = weights.run_worth(np.array([1] * 100 + [2, 1, 2]))
    assert worth[:100].sum() == pytest.approx(10.0)
    assert worth[100:].tolist() == [1.0, 1.0, 1.0]
    assert weights.run_worth(np.zeros(0, np.int64)).tolist() == []


def test_fitted_weights_find_who_knows() -> None:
    random = np.random.default_rng(4)
    codes = random.integers(0, 3, 300)
    good = np.where(np.eye(3, dtype=bool)[codes], 0.8, 0.1)
    noise = random.dirichlet(np.ones(3), 300)
    held = np.ones(3, bool)
    found = OpinionRecords.of(NAMES, np.array([noise, good, noise]), codes, held, np.zeros(3))
    prior = weights.prior_weights(NAMES).vector(NAMES)
    fitted = fit_weights(found, prior)
    assert fitted[1] > 2 * fitted[0] and fitted[1] > 2 * fitted[2]
    assert found.cost(fitted)[0] < found.cost(prior)[0]
    assert np.all((fitted[:-1] >= 0) & (fitted[:-1] <= 3))


def test_models_that_are_far_too_sure_count_less() -> None:
    random = np.random.default_rng(5)
    codes = random.integers(0, 3, 400)
    said = np.where(random.random(400) < 0.5, codes, random.integers(0, 3, 400))
    sure = np.where(np.eye(3, dtype=bool)[said], 0.998, 0.001)
    found = OpinionRecords.of(
        NAMES, np.array([sure, sure, sure]), codes, np.ones(3, bool), np.zeros(3)
    )
    prior = weights.prior_weights(NAMES).vector(NAMES)
    fitted = fit_weights(found, prior)
    assert fitted[:-1].sum() < 0.5 * prior[:-1].sum()
    assert found.cost(fitted)[0] < 0.5 * found.cost(prior)[0]


def test_without_records_the_prior_stands() -> None:
    prior = weights.prior_weights(NAMES)
    assert sum(prior.candidates.values()) == pytest.approx(weights.PRIOR_TOTAL)
    vector = prior.vector(NAMES)
    nothing = records(1).only(NAMES).thinned(1)
    assert fit_weights(_empty(nothing), vector) is vector
    assert guarded_weights(None, None, vector) is vector


def _empty(found: OpinionRecords) -> OpinionRecords:
    rows = slice(0, 0)
    return OpinionRecords(
        found.names, found.terms[rows], found.offsets[rows], found.codes[rows],
        found.possible[rows], found.worth[rows],
    )  # fmt: skip


def test_one_lying_node_moves_fleet_weights_little() -> None:
    honest = [np.array([0.5 + 0.01 * k, 1.0]) for k in range(6)]
    fair = fleet_weights(honest)
    for lie in ([0.0, 0.0], [3.0, 3.0]):
        assert np.abs(fleet_weights([*honest, np.array(lie)]) - fair).max() < 0.02


@pytest.mark.parametrize("honest", [2, 3, 4, 5])
def test_extreme_weights_of_one_node_stay_within_those_of_the_others(honest: int) -> None:
    told = [np.array([0.4 + 0.1 * k]) for k in range(honest)]
    for lie in (0.0, 3.0):
        found = fleet_weights([*told, np.array([lie])])
        assert 0.4 <= found[0] <= 0.4 + 0.1 * (honest - 1)


def test_a_node_departs_from_the_fleet_only_where_it_is_sure() -> None:
    random = np.random.default_rng(6)
    codes = random.integers(0, 3, 300)
    good = np.where(np.eye(3, dtype=bool)[codes], 0.9, 0.05)
    opinions = np.array([random.dirichlet(np.ones(3), 300), good, good])
    found = OpinionRecords.of(NAMES, opinions, codes, np.ones(3, bool), np.zeros(3))
    wrong, right = np.array([3.0, 0.0, 0.0, 0.0]), np.array([0.0, 1.0, 1.0, 0.0])
    assert guarded_weights(found, found, wrong)[1] > 0.1
    few = found.thinned(4)
    assert guarded_weights(few, few, right) is right


def test_published_weights_are_brought_to_the_candidates_at_hand() -> None:
    told = PoolWeights({"fused none": 0.2, "personal none": 0.2, "round none": 0.4}, 0.3, 0.5)
    found = weights.projected(told, NAMES)
    assert found is not None
    assert found.tolist() == pytest.approx([0.4, 0.4, 0.3, 0.5])
    assert weights.projected(told, ["ensemble none"]) is None


@pytest.mark.parametrize("little", [0.0, 5e-324, 1e-300, 1e-12])
def test_weights_of_next_to_nothing_say_nothing(little: float) -> None:
    told = PoolWeights({"fused none": little, "other": 3.0}, 0.3, 0.5)
    assert weights.projected(told, NAMES) is None


# --- fleets ---------------------------------------------------------------------------------------


def rows_of(labels: str, node: int, seed: int, count: int) -> tuple[Any, list[str]]:
    random = np.random.default_rng([seed, node])
    y = random.choice(labels.split(), count).tolist()
    X = np.array([CENTRES[label] for label in y]) + 0.9 * random.normal(size=(count, 3))
    return X + 0.7 * node, y


def fleet(kinds: str = "GMLVQ", readings: bool = True) -> tuple[dict[str, Any], list[Snapshot]]:
    """Three nodes whose sensors are off; the third has never seen toast."""
    local = {}
    for node, (name, count) in enumerate({"x": 200, "y": 160, "z": 120}.items()):
        labels = "ham spam egg" if name == "z" else "ham spam egg toast"
        local[name] = getattr(streamlvq, kinds)()
        local[name].learn_array(*rows_of(labels, node, 1, count), features=FEATURES)
    return local, [Snapshot.of(model, name, readings=readings) for name, model in local.items()]


def accuracy(model: Any, node: int) -> float:
    X, y = rows_of("ham spam egg toast", node, 99, 400)
    return float(np.mean(model.predict_array(X, FEATURES) == np.array(y)))


@pytest.mark.parametrize("kind", ["GMLVQ", "LGMLVQ", "RSLVQ", "PairwiseLVQ", "LVQCommittee"])
def test_a_pool_knows_what_the_node_has_never_seen_and_forgets_nothing(kind: str) -> None:
    local, snapshots = fleet(kind)
    fused = fuse(snapshots)
    for node, (name, model) in enumerate(local.items()):
        pool = fused.for_node(name, local=model)
        assert set(pool.classes) == set(CENTRES)
        assert accuracy(pool, node) >= accuracy(model, node) - 0.01
    assert accuracy(pool, 2) >= accuracy(local["z"], 2) + 0.15
    assert pool.report is not None
    assert pool.report.records > 50
    assert pool.report.losses["pool"] < pool.report.losses["local"]
    assert str(pool.report).startswith("weights")


def test_pools_are_functions_of_the_set_of_snapshots() -> None:
    local, snapshots = fleet()
    expected = None
    for order in permutations(snapshots):
        pool = fuse([*order, snapshots[0]]).for_node("z", local=local["z"])
        data = Snapshot.of(pool, "z").to_bytes()
        expected = data if expected is None else expected
        assert data == expected


def test_readings_of_the_node_alone_are_enough() -> None:
    local, snapshots = fleet(readings=False)
    pool = fuse(snapshots).for_node("z", local=local["z"])
    kinds = {name.split()[0] for name in (*pool.candidates, *pool.report.dropped)}
    assert kinds == {"fused", "ensemble", "personal"}  # a round needs those of all nodes
    assert pool.report.records > 50
    assert accuracy(pool, 2) >= accuracy(local["z"], 2) + 0.15


def test_without_any_readings_weights_are_those_of_other_fleets() -> None:
    local, snapshots = fleet(readings=False)
    blind = snapshots[2].classifier()  # without its readings
    pool = fuse(snapshots).for_node("z", local=blind)
    assert pool.report.records == 0
    prior = weights.prior_weights(tuple(pool.candidates))
    assert pool.weights.candidates == pytest.approx(prior.candidates)
    assert "no readings to judge by" in str(pool.report)
    assert accuracy(pool, 2) >= accuracy(local["z"], 2) + 0.1


def test_published_weights_of_other_nodes_count() -> None:
    _, snapshots = fleet(readings=False)
    told = []
    for snapshot in snapshots[:2]:
        says = PoolWeights({"fused none": 1.0}, 0.05, 2.0)
        told.append(
            Snapshot(snapshot.estimator_state(), snapshot.node, readings=False, weights=says)
        )
    blind = snapshots[2].classifier()
    pool = fuse([*told, snapshots[2]]).for_node("z", local=blind, candidates=["fused"])
    assert pool.weights.local == pytest.approx(0.05)
    assert pool.weights.unseen == pytest.approx(2.0)


def test_what_a_pool_scored_fits_the_next_one() -> None:
    _, snapshots = fleet(readings=False)
    blind = snapshots[2].classifier()
    pool = fuse(snapshots).for_node("z", local=blind, candidates=["fused"])
    X, y = rows_of("ham spam egg", 2, 5, 200)
    for row, label in zip(X, y, strict=True):
        pool.learn_one(dict(zip(FEATURES, row.tolist(), strict=True)), label)
    assert len(pool.scored()) > 150
    following = fuse(snapshots).for_node("z", local=pool, candidates=["fused"])
    assert following.local is pool.local
    assert following.weights != pool.weights
    found = weights.records_of(pool)
    assert found is not None
    names = tuple(following.candidates)
    before, after = (each.weights.vector(names) for each in (pool, following))
    assert found.cost(after)[0] < found.cost(before)[0]


def test_readings_that_are_stored_and_scored_count_once() -> None:
    local, snapshots = fleet(readings=False)
    fused = fuse(snapshots)
    pool = fused.for_node("z", local=local["z"], candidates=["fused"])
    X, y = rows_of("ham spam egg", 2, 5, 200)
    for row, label in zip(X, y, strict=True):
        pool.learn_one(dict(zip(FEATURES, row.tolist(), strict=True)), label)
    live = weights.records_of(pool)
    stored = fused.for_node("z", local=pool.local, candidates=["fused"]).report.records
    assert live is not None and min(len(live), stored) > 50
    both = fused.for_node("z", local=pool, candidates=["fused"]).report.records
    assert both in (len(live), stored)


def test_later_readings_of_a_node_are_judged_anew() -> None:
    local, snapshots = fleet(readings=False)
    fused = fuse(snapshots)
    fused.for_node("z", local=local["z"])
    X, y = rows_of("ham spam egg", 2, 5, 200)
    local["z"].learn_array(X + 5.0, y, features=FEATURES)
    again, expected = (each.for_node("z", local=local["z"]) for each in (fused, fuse(snapshots)))
    assert again.report == expected.report
    assert Snapshot.of(again, "z").to_bytes() == Snapshot.of(expected, "z").to_bytes()


def test_nodes_of_one_class_keep_the_candidates_of_the_chosen_correction() -> None:
    local = {name: streamlvq.GMLVQ() for name in "xyz"}
    for node, model in enumerate(local.values()):
        model.learn_array(*rows_of("ham", node, 1, 60), features=FEATURES)
    fused = fuse([Snapshot.of(model, name) for name, model in local.items()])
    fused.pool.preferred = "scale_shift"
    pool = fused.for_node("x", local=local["x"])
    names = [*pool.candidates, *pool.report.dropped]
    assert set(pool.candidates) == set(by_prior(names, "scale_shift")[:3])
    assert pool.report.records == 0


def hostile(says: PoolWeights | None = None) -> list[Snapshot]:
    """Five nodes without readings, the last of which gives all classes false names."""
    nodes = fleet_of(MODELS["GMLVQ"], World.of(21, classes=4, apart=4.0), 5, 100, 3)
    liar = told(nodes[4], flipped)
    honest = PoolWeights({"fused none": 1.5}, 0.5, 1.0)
    return [
        *nodes[:3],
        Snapshot(nodes[3].estimator_state(), "n3", readings=False, weights=honest),
        Snapshot(liar.estimator_state(), "n4", readings=False, weights=says),
    ]


def test_nodes_that_are_left_out_are_not_in_ensembles() -> None:
    fused = fuse(hostile())
    assert fused.is_left_out("n4")
    assert fused.heard("n0") == fused.heard("n4") == ("n0", "n1", "n2", "n3")


def test_weights_that_nodes_tell_that_are_left_out_do_not_count() -> None:
    local = hostile()[0].classifier()
    honest, lied = (
        fuse(hostile(says)).for_node("n0", local=local, candidates=["fused"])
        for says in (None, PoolWeights({"fused none": 3.0}, 0.0, 6.0))
    )
    assert lied.weights == honest.weights


def test_how_many_and_which_candidates_can_be_chosen() -> None:
    local, snapshots = fleet()
    fused = fuse(snapshots)
    every = fused.for_node("z", local["z"], max_candidates=None)
    assert set(every.candidates) == {
        f"{kind} {drift}"
        for kind in automatic_kinds()
        for drift in ("none", "least_squares", "scale_shift")
    }
    two = fused.for_node("z", local["z"], max_candidates=2, candidates=["fused", "round"])
    assert len(two.candidates) == 2
    assert len(two.report.dropped) == 4
    alone = fused.for_node("z", local["z"], max_candidates=0)
    assert not alone.candidates
    assert accuracy(alone, 2) == accuracy(local["z"], 2)
    one = fuse(snapshots, drift="least_squares").for_node("z", local["z"], max_candidates=None)
    assert {name.split()[1] for name in one.candidates} == {"least_squares"}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"max_candidates": -1}, "max_candidates: expected a whole number or None, got -1"),
        ({"max_candidates": True}, "max_candidates: expected a whole number"),
        ({"candidates": ["fusde"]}, "candidates: expected some of fused, .* got 'fusde'"),
    ],
)
def test_impossible_choices_are_refused(settings: dict[str, Any], words: str) -> None:
    local, snapshots = fleet()
    with pytest.raises(FusionError, match=words):
        fuse(snapshots).for_node("z", local["z"], **settings)


def test_unknown_nodes_are_refused() -> None:
    local, snapshots = fleet()
    with pytest.raises(FusionError, match="expected a node that took part"):
        fuse(snapshots).for_node("w", local["z"])


def test_nodes_with_a_transform_pool_inside_of_it() -> None:
    local = {}
    for node, name in enumerate("xyz"):
        local[name] = FeatureTransform(streamlvq.GMLVQ(), "asinh")
        labels = "ham spam egg" if name == "z" else "ham spam egg toast"
        local[name].learn_array(*rows_of(labels, node, 1, 150), features=FEATURES)
    fused = fuse([Snapshot.of(model, name) for name, model in local.items()])
    pool = fused.for_node("z", local["z"])
    assert type(pool) is FeatureTransform
    assert isinstance(pool.classifier, PoolClassifier)
    assert accuracy(pool, 2) >= accuracy(local["z"], 2) + 0.1
    X, y = rows_of("ham spam", 2, 7, 5)
    before = local["z"].classifier.samples
    pool.learn_one(dict(zip(FEATURES, X[0].tolist(), strict=True)), y[0])
    assert local["z"].classifier.samples == before + 1


def test_a_pool_inside_wrappers_keeps_them() -> None:
    local, snapshots = fleet()
    wrapped = streamlvq.RelSimRejector(local["z"], threshold=0.1)
    pool = fuse(snapshots).for_node("z", local=wrapped)
    assert type(pool) is streamlvq.RelSimRejector
    decision = pool.decide_one(dict(zip(FEATURES, [4.4, 4.4, 1.4], strict=True)))
    assert (decision.label, decision.threshold) == ("toast", 0.1)


def test_snapshots_of_pools_can_be_fused() -> None:
    local, snapshots = fleet()
    pool = fuse(snapshots).for_node("z", local=local["z"])
    given = [*snapshots[:2], Snapshot.of(pool, "z")]
    again = fuse(given)
    assert again.snapshot("z").to_bytes() == fuse(snapshots).snapshot("z").to_bytes()


def test_a_pool_without_local_model_cannot_be_shared() -> None:
    local, snapshots = fleet()
    pool = fuse(snapshots).for_node("z", local=local["z"]).beside(None)
    with pytest.raises(SnapshotError, match="candidates alone"):
        Snapshot.of(pool, "z", readings=False)


# --- hidden classes and records -------------------------------------------------------------------


def test_a_hidden_class_comes_from_the_others() -> None:
    _, snapshots = fleet(readings=False)
    options = fuse(snapshots).pool.options
    fused = FusionRun(unpack(newest(snapshots)), options, {"x": "toast"}).run()
    assert "toast" in fused.report.nodes["x"].gained
    assert "toast" not in fused.report.nodes["x"].counts
    both = FusionRun(unpack(newest(snapshots)), options, {"x": "toast", "y": "toast"}).run()
    assert "toast" not in both.for_node("x").classes


def test_records_come_from_readings_that_were_not_learnt() -> None:
    """What comes later must not change what candidates thought before."""
    _, snapshots = fleet()
    options = fuse(snapshots).pool.options
    given = {each.node: each for each in snapshots}
    stored = {name: stored_readings(each.estimator_state()) for name, each in given.items()}
    labels, names = sorted(CENTRES), ["fused none", "personal none", "round none"]
    whole = CrossFit(given, stored, options, labels, names).run()
    random = np.random.default_rng(0)
    changed = {}
    for name, readings in stored.items():
        rows, start = readings.rows.copy(), len(readings) * (BLOCKS - 1) // BLOCKS + 5
        rows[start:] = 50.0 * random.normal(size=rows[start:].shape)
        changed[name] = type(readings)(rows, readings.labels, readings.features, readings.weights)
    other = CrossFit(given, changed, options, labels, names).run()
    for name in given:
        for k in range(BLOCKS - 2):  # all but the last block, which was changed
            assert np.array_equal(whole[name].own[k].terms, other[name].own[k].terms)
        assert not np.array_equal(whole[name].own[-1].terms, other[name].own[-1].terms)


def test_hidden_records_lack_the_opinion_of_the_local_model() -> None:
    _, snapshots = fleet()
    options = fuse(snapshots).pool.options
    given = {each.node: each for each in snapshots}
    stored = {name: stored_readings(each.estimator_state()) for name, each in given.items()}
    labels = sorted(CENTRES)
    found = CrossFit(given, stored, options, labels, ["fused none"]).run()["z"]
    assert len(found.own) == BLOCKS - 1
    assert len(found.hidden) == 3 * (BLOCKS - 1)  # each of its three classes, once a block
    toast = labels.index("toast")
    away = set()
    for part in found.hidden:
        assert not part.possible[:, toast].any()  # truly lacking: it does not compete
        (hidden,) = (k for k in range(4) if k != toast and part.terms[0, k, -1] == 1.0)
        assert not part.terms[:, hidden, -2].any()
        assert (part.codes == hidden).any()
        away.add(hidden)
    assert len(away) == 3


def test_one_node_moves_the_shares_of_classes_little() -> None:
    _, snapshots = fleet(readings=False)
    given = {each.node: each for each in snapshots}
    assert sum(class_shares(given, "x").values()) == pytest.approx(1.0)
    only_z = class_shares({"x": given["x"], "z": given["z"]}, "x")
    assert "toast" not in only_z


def test_candidates_need_readings_and_small_fleets() -> None:
    settings: dict[str, Any] = {"nodes": 3, "own_readings": False, "all_readings": False}
    assert candidate_names(["none"], None, **settings) == ["fused none", "ensemble none"]
    settings = {"nodes": 14, "own_readings": True, "all_readings": True}
    names = candidate_names(["none", "tree"], None, **settings)
    assert [name for name in names if name.startswith("ensemble")] == []
    assert "round tree" in names
    names = candidate_names(["none"], None, **(settings | {"nodes": 100}))
    assert names == ["fused none", "personal none"]
    _, snapshots = fleet()
    moment = FleetMoment(
        {each.node: each for each in snapshots}, {}, fuse(snapshots).pool.options, {}
    )
    with pytest.raises(FusionError, match="expected one of fused"):
        build_candidate("unknown none", moment, "x")


@pytest.mark.parametrize("drift", ["none", "scale_shift"])
def test_every_candidate_answers_in_the_coordinates_of_the_node(drift: str) -> None:
    _, snapshots = fleet()
    given = {each.node: each for each in snapshots}
    stored = {name: stored_readings(each.estimator_state()) for name, each in given.items()}
    moment = FleetMoment(given, stored, fuse(snapshots).pool.options, {})
    for kind in CANDIDATES.names:
        model = build_candidate(f"{kind} {drift}", moment, "z")
        least = 0.5 if drift == "none" else 0.75
        assert accuracy(model, 2) > least, kind


def test_rounds_and_networks_are_those_of_fusion() -> None:
    _, snapshots = fleet()
    given = {each.node: each for each in snapshots}
    stored = {name: stored_readings(each.estimator_state()) for name, each in given.items()}
    moment = FleetMoment(given, stored, fuse(snapshots).pool.options, {})
    for kind, models in {
        "round none": fuse_rounds(snapshots, rounds=1, drift="none"),
        "rounds none": fuse_rounds(snapshots, rounds=5, drift="none"),
        "network none": network_models(snapshots, drift="none"),
    }.items():
        found = build_candidate(kind, moment, "z").state()
        expected = models.snapshot("z").estimator_state().innermost
        for name, array in expected.arrays.items():
            np.testing.assert_array_equal(found.arrays[name], array, err_msg=f"{kind} {name}")


def test_kinds_that_cost_more_are_built_when_asked_for() -> None:
    local, snapshots = fleet()
    pool = fuse(snapshots, drift="none").for_node("z", local["z"], candidates=["rounds", "network"])
    assert set(pool.candidates) == {"rounds none", "network none"}
    assert accuracy(pool, 2) >= accuracy(local["z"], 2)


def test_in_large_fleets_a_node_is_judged_by_itself() -> None:
    local = {}
    for node in range(18):
        name = f"n{node:02d}"
        labels = "ham spam egg" if node == 17 else "ham spam egg toast"
        local[name] = streamlvq.GLVQ(max_prototypes_per_class=1, buffer_size=60)
        local[name].learn_array(*rows_of(labels, node % 3, node, 60), features=FEATURES)
    fused = fuse([Snapshot.of(model, name) for name, model in local.items()])
    pool = fused.for_node("n17", local["n17"])
    kinds = {name.split()[0] for name in (*pool.candidates, *pool.report.dropped)}
    assert kinds == {"fused", "personal"}
    assert pool.report.records > 20
    assert accuracy(pool, 2) >= accuracy(local["n17"], 2) + 0.1


def test_a_class_that_nobody_has_published_yet_stops_no_pool() -> None:
    local, snapshots = fleet(readings=False)
    X, y = rows_of("ham toast", 2, 77, 60)
    local["z"].learn_array(X, ["burnt" if label == "toast" else label for label in y], FEATURES)
    pool = fuse(snapshots).for_node("z", local["z"])
    assert "burnt" in pool.classes
    assert pool.report.records > 0
    again = fuse(snapshots).for_node("z", pool)
    assert again.report.records > 0


def test_without_candidates_the_local_model_is_as_sure_as_it_is() -> None:
    local, snapshots = fleet(readings=False)
    pool = fuse(snapshots).for_node("z", local["z"], max_candidates=0)
    x = dict(zip(FEATURES, rows_of("ham", 2, 5, 1)[0][0].tolist(), strict=True))
    assert pool.predict_proba_one(x) == pytest.approx(local["z"].predict_proba_one(x), abs=2e-3)
