"""Fusion against a slow oracle, for all models and random fleets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
import streamlvq
from streamlvq import Snapshot, fuse
from streamlvq.fusion import aggregators
from streamlvq.fusion.aggregators import capped_weights, get_aggregator
from streamlvq.fusion.class_tables import MAX_SWAY, RELIABLE_COUNT, Axes, ClassTables
from streamlvq.fusion.combine import factor_metric
from streamlvq.fusion.corrections import fit_additive, get_correction
from streamlvq.fusion.node_models import unpack
from streamlvq.fusion.sharing import components, evidence, spanning_tree
from streamlvq.models.traces import PEAK_STEP
from streamlvq.registry import AGGREGATORS
from support.fusions import (
    MODELS,
    PLAIN,
    World,
    accuracy,
    copied,
    fleet,
    learnt,
    random_known,
    to_node,
)
from support.samples import MODELS as EVERY_MODEL
from support.samples import build

modest = settings(derandomize=True, max_examples=25, deadline=None, database=None)
few = settings(modest, max_examples=6)
seeds = st.integers(0, 10_000)
FULL = ["GLVQ", "GRLVQ", "LGRLVQ", "GMLVQ", "LGMLVQ"]


def some_fleet(name: str, seed: int, **options: Any) -> tuple[World, list[Snapshot]]:
    """Four nodes, of which some miss classes, whose counts differ."""
    world = World.of(seed, classes=4)
    known = options.pop("known", random_known(seed, 4, 4, least=2))
    nodes = []
    for i in range(4):
        part = {key: value[i : i + 1] for key, value in options.items()}
        (node,) = fleet(
            MODELS[name], world, 1, 30 + 25 * i, 10 * seed + i, known=known[i : i + 1], **part
        )
        nodes.append(Snapshot.of(node.classifier(), f"n{i}", readings=False))
    return world, nodes


def table_of(nodes: list[Snapshot]) -> ClassTables:
    models = unpack(nodes)
    return ClassTables.of(models, Axes.of([node.first for node in models]))


# --- prototypes, metrics, statistics --------------------------------------------------------------


@pytest.mark.parametrize("weighting", ["samples", "uniform"])
@pytest.mark.parametrize("name", FULL)
def test_prototypes_are_means_over_the_nodes_that_have_the_class(name: str, weighting: Any) -> None:
    for seed in range(3):
        _, nodes = some_fleet(name, seed)
        fused = fuse(nodes, weighting=weighting, **PLAIN)
        expected = naive.fused_prototypes([to_node(n) for n in nodes], weighting == "samples")
        for node in fused.nodes:
            found = to_node(fused.snapshot(node)).prototypes
            assert found.keys() == expected.keys()
            for label, values in expected.items():
                assert found[label] == pytest.approx(values, rel=1e-9, abs=1e-9)


def weights_of(nodes: list[Snapshot], label: Any, weighting: str) -> dict[int, float]:
    counts = {i: float(n.counts[label]) for i, n in enumerate(nodes) if label in n.counts}
    return counts if weighting == "samples" else dict.fromkeys(counts, 1.0)


@pytest.mark.parametrize("weighting", ["samples", "uniform"])
@pytest.mark.parametrize("name", ["GRLVQ", "GMLVQ"])
def test_a_fused_metric_measures_the_mean_of_distances(name: str, weighting: Any) -> None:
    for seed in range(3):
        world, nodes = some_fleet(name, seed)
        model = fuse(nodes, weighting=weighting, **PLAIN).for_node("n1")
        weights = [float(n.samples) if weighting == "samples" else 1.0 for n in nodes]
        metrics = [n.classifier().metric() for n in nodes]
        check_distances(seed, world, model.metric(), metrics, weights)


def check_distances(
    seed: int, world: World, found: Any, metrics: list[Any], weights: list[float]
) -> None:
    """For any difference between a reading and a prototype."""
    for difference in np.random.default_rng(seed).normal(size=(5, 4)) * world.unit:
        parts = [difference @ metric @ difference for metric in metrics]
        wanted = sum(w * d for w, d in zip(weights, parts, strict=True)) / sum(weights)
        assert difference @ found @ difference == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize("weighting", ["samples", "uniform"])
@pytest.mark.parametrize("name", ["LGRLVQ", "LGMLVQ"])
def test_so_does_the_local_metric_of_each_class(name: str, weighting: Any) -> None:
    for seed in range(3):
        world, nodes = some_fleet(name, seed)
        models = [n.classifier() for n in nodes]
        model = fuse(nodes, weighting=weighting, **PLAIN).for_node("n1")
        for prototype in model.prototypes():
            weights = weights_of(nodes, prototype.label, weighting)
            metrics = [
                models[i].metric(p.index)
                for i in weights
                for p in models[i].prototypes()
                if p.label == prototype.label
            ]
            found = model.metric(prototype.index)
            check_distances(seed, world, found, metrics, list(weights.values()))


def with_tails(world: World, name: str, count: int = 5) -> list[Snapshot]:
    """Nodes whose features have rare peaks, of another size in each of them."""
    nodes = []
    for i in range(count):
        X, y = world.read(i, 150)
        X[7 * i, i % 4] += 8.0 * (i + 1) * world.unit[i % 4]
        nodes.append(Snapshot.of(learnt(build(name), X, y), f"n{i}", readings=False))
    return nodes


@pytest.mark.parametrize("weighting", ["samples", "uniform"])
@pytest.mark.parametrize("name", ["LVQ1", "GLVQ", "RSLVQ"])
def test_without_a_metric_units_measure_the_mean_of_distances(name: str, weighting: Any) -> None:
    world = World.of(5)
    nodes = with_tails(world, name)
    fused = fuse(nodes, weighting=weighting, **PLAIN)
    arrays = [node.estimator_state().arrays for node in nodes]
    found = fused.snapshot("n1").estimator_state().arrays
    shares = [float(n.samples) if weighting == "samples" else 1.0 for n in nodes]
    mean = np.average([each["inverse"] ** 2 for each in arrays], axis=0, weights=shares)
    by_variance = 1.0 / found["variance"]  # nodes differ in their means as well
    off = found["inverse"] / np.sqrt(np.minimum(mean, by_variance))
    assert (np.abs(np.log(off)) <= 0.5 * np.log(PEAK_STEP) + 1e-9).all()  # peaks are rounded
    largest = np.max([each["peak"] for each in arrays], axis=0)
    assert (found["peak"] <= largest * PEAK_STEP**0.5 * (1.0 + 1e-9)).all()
    assert (found["inverse"] > np.min([each["inverse"] for each in arrays], axis=0)).all()


@pytest.mark.parametrize("name", ["GLVQ", "RSLVQ"])
def test_a_node_does_not_set_the_units_of_all(name: str) -> None:
    """Neither by rare peaks nor by readings that hardly move."""
    world = World.of(5)
    nodes = with_tails(world, name, 6)
    honest = fuse(nodes[:5], drift="none").for_node("n1")
    X, y = world.read(90, 40)
    for factor in (1e-6, 1e6):
        liar = copied(nodes[5])
        arrays = liar.estimator_state().arrays
        arrays["peak"] *= factor
        arrays["variance"] *= factor**2
        arrays["inverse"] /= factor
        scales = fuse([*nodes[:5], liar], drift="none").for_node("n1").scales()
        for feature, scale in honest.scales().items():
            assert 0.5 * scale < scales[feature] < 2.0 * scale
        fused = fuse([*nodes[:5], liar], drift="none").for_node("n1")
        assert accuracy(fused, X, y) >= accuracy(honest, X, y) - 0.05


def test_pairs_are_means_over_the_nodes_that_have_both_classes() -> None:
    for seed in range(4):
        world, nodes = some_fleet("PairwiseLVQ", seed)
        models = [n.classifier() for n in nodes]
        model = fuse(nodes, **PLAIN).for_node("n0")
        for p in model.prototypes():
            having = [i for i, n in enumerate(nodes) if {p.label, p.against} <= set(n.labels)]
            if not having:  # made of class means
                pooled_mean = naive.weighted_mean(
                    [to_node(n).means[p.label] for n in nodes if p.label in n.labels],
                    [float(n.counts[p.label]) for n in nodes if p.label in n.labels],
                )
                assert list(p.values.values()) == pytest.approx(pooled_mean)
                continue
            weights = [float(min(nodes[i].counts[k] for k in (p.label, p.against))) for i in having]
            theirs = [
                next(
                    q
                    for q in models[i].prototypes()
                    if (q.label, q.against) == (p.label, p.against)
                )
                for i in having
            ]
            expected = naive.weighted_mean([list(q.values.values()) for q in theirs], weights)
            assert list(p.values.values()) == pytest.approx(expected)
            metrics = [models[i].metric(q.index) for i, q in zip(having, theirs, strict=True)]
            check_distances(seed, world, model.metric(p.index), metrics, weights)


def test_the_sigmoid_of_a_pair_is_the_mean_whichever_class_came_first() -> None:
    world = World.of(5, classes=2)
    X, y = world.read(1, 80)
    turned = np.argsort([label == world.labels[0] for label in y], kind="stable")
    one = learnt(streamlvq.PairwiseLVQ(), X, y)
    other = learnt(streamlvq.PairwiseLVQ(), X[turned], [y[i] for i in turned])
    assert one.classes != other.classes
    sides = []
    for model in (one, other):
        platt = model._engine.state["platt"][0]
        offset = platt[1] if model.classes[0] == world.labels[0] else -platt[1]
        sides.append((platt[0], offset))
    fused = fuse([Snapshot.of(one, "a"), Snapshot.of(other, "b")], weighting="uniform", **PLAIN)
    found = fused.for_node("a")._engine.state["platt"][0]
    assert found[:2] == pytest.approx(np.mean(sides, axis=0))
    assert np.isfinite(found).all()


@pytest.mark.parametrize("name", list(MODELS))
@pytest.mark.parametrize("drift", ["none", "least_squares"])
def test_class_statistics_are_those_of_all_readings_in_one_place(name: str, drift: Any) -> None:
    world = World.of(3, classes=3)
    known = [[0, 1, 2], [0, 1], [1, 2]]
    nodes, everything = [], {}
    for i, mine in enumerate(known):
        X, y = world.read(i, 30 + 10 * i, known=mine)
        nodes.append(Snapshot.of(learnt(MODELS[name](), X, y), f"n{i}", readings=False))
        for x, label in zip(X.tolist(), y, strict=True):
            everything.setdefault(label, []).append((i, x))
    fused = fuse(nodes, **PLAIN | {"drift": drift})
    shifts = [list(fused.report.nodes[f"n{i}"].shift.values()) for i in range(3)]
    for i in range(3):
        found = to_node(fused.snapshot(f"n{i}"))
        for label, rows in everything.items():
            here = [
                [v - s + t for v, s, t in zip(x, shifts[j], shifts[i], strict=True)]
                for j, x in rows
            ]
            _, mean, variance = naive.pooled(here)
            assert found.counts[label] == len(rows)
            assert found.means[label] == pytest.approx(mean, abs=1e-9)
            assert found.variances[label] == pytest.approx(variance)


@pytest.mark.parametrize("name", ["GLVQ", "LGMLVQ"])
def test_feature_scales_are_those_of_all_readings_in_one_place(name: str) -> None:
    world = World.of(4)
    parts = [world.read(i, 40 + 20 * i) for i in range(3)]
    nodes = [Snapshot.of(learnt(MODELS[name](), X, y), f"n{i}") for i, (X, y) in enumerate(parts)]
    together = np.concatenate([X for X, _ in parts])
    state = fuse(nodes, **PLAIN).for_node("n1")._engine.state
    assert state["mean"] == pytest.approx(together.mean(axis=0))
    assert state["variance"] == pytest.approx(together.var(axis=0))
    assert state["weight"].tolist() == [len(together)] * 4


def without_floor(nodes: list[Snapshot]) -> list[Snapshot]:
    """The same with scales that depend on no largest deviation, which fused ones round."""
    found = []
    for node in nodes:
        state = node.estimator_state()
        state = replace(state, parameters={**state.parameters, "scale_floor": 0.0})
        found.append(Snapshot(state, node.node, readings=False))
    return found


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_a_limited_rank_keeps_the_largest_directions_and_reports_what_is_lost(rank: int) -> None:
    nodes = without_floor(some_fleet("GMLVQ", 2)[1])
    full = fuse(nodes, **PLAIN).for_node("n0")
    limited = fuse(nodes, rank=rank, **PLAIN)
    model = limited.for_node("n0")
    values, vectors = np.linalg.eigh(full.metric(raw=False))
    top = (vectors[:, -rank:] * values[-rank:]) @ vectors[:, -rank:].T
    assert model.metric(raw=False) == pytest.approx(top, abs=1e-12)
    assert model.rank == rank
    assert limited.report.rank_loss == pytest.approx(1 - values[-rank:].sum() / values.sum())
    assert fuse(nodes, **PLAIN).report.rank_loss == 0.0


def test_rank_is_kept_or_made_full() -> None:
    _, nodes = some_fleet("LGMLVQ of rank 2", 1)
    kept, full = fuse(nodes, **PLAIN), fuse(nodes, rank="full", **PLAIN)
    assert (
        kept.for_node("n0").rank == 2 and np.linalg.matrix_rank(kept.for_node("n0").metric(0)) == 2
    )
    assert 0.0 < kept.report.rank_loss < 1.0
    assert full.report.rank_loss == 0.0
    assert np.linalg.matrix_rank(full.for_node("n0").metric(0)) > 2
    metrics = [n.classifier() for n in nodes]
    label = full.for_node("n0").prototypes()[0].label
    weights = weights_of(nodes, label, "samples")
    wanted = sum(
        w * metrics[i].metric(next(p.index for p in metrics[i].prototypes() if p.label == label))
        for i, w in weights.items()
    ) / sum(weights.values())
    assert full.for_node("n0").metric(0) == pytest.approx(wanted)


@modest
@given(seed=seeds, d=st.integers(1, 6), rank=st.integers(1, 6))
def test_a_factor_gives_its_matrix_back(seed: int, d: int, rank: int) -> None:
    rows = np.random.default_rng(seed).normal(size=(rank, d))
    matrix = rows.T @ rows
    full, lost = factor_metric(matrix, d)
    assert lost == 0.0 and full.T @ full == pytest.approx(matrix)
    assert full == pytest.approx(full.T)  # the principal root
    if rank < d:
        found, lost = factor_metric(matrix, rank)
        assert found.shape == (rank, d) and found.T @ found == pytest.approx(matrix)
        assert lost == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("name", sorted({*EVERY_MODEL, "LVQCommittee"}))
def test_every_model_can_be_fused_with_shifted_sensors_and_missing_classes(name: str) -> None:
    world = World.of(11, classes=4, apart=4.0)
    make = streamlvq.LVQCommittee if name == "LVQCommittee" else lambda: build(name)
    shift = np.array([[0.0], [2.0], [-3.0], [1.0]])
    known = [[0, 1, 2], [1, 2, 3], [0, 2, 3], [0, 1, 2, 3]]
    nodes = fleet(make, world, 4, 120, 2, shift=shift, known=known)
    fused = fuse(nodes)
    assert fused.report.drift == "least_squares"
    for i in range(4):
        X, y = world.read(900 + i, 100, shift=shift[i])
        least = 0.9 if name in ("LVQ21", "LVQ3") else 0.95  # they move only at borders
        assert accuracy(fused.for_node(f"n{i}"), X, y) >= least, fused.report
        assert fused.report.nodes[f"n{i}"].gained == tuple(
            world.labels[k] for k in range(4) if k not in known[i]
        )


@pytest.mark.parametrize("growth", [{"prototypes_per_class": 2}, {"max_prototypes_per_class": 6}])
@pytest.mark.parametrize("name", ["GLVQ", "LGMLVQ"])
def test_several_prototypes_of_a_class_are_matched(name: str, growth: dict[str, int]) -> None:
    """Two clouds for each class: whatever prototypes there are, both clouds are found."""
    random = np.random.default_rng(0)
    centres = np.array([[0.0, 0.0], [9.0, 9.0], [0.0, 9.0], [9.0, 0.0]])

    def read(n: int, shift: float) -> tuple[Any, list[str]]:
        cloud = random.integers(0, 4, n)
        X = centres[cloud] + random.normal(size=(n, 2)) + shift
        return X, ["ab"[k // 2] for k in cloud]

    make = EVERY_MODEL[name]
    nodes = [
        Snapshot.of(learnt(make(**growth), *read(150, 3.0 * i)), f"n{i}", readings=False)
        for i in range(4)
    ]
    fused = fuse(nodes)
    for i in range(4):
        assert accuracy(fused.for_node(f"n{i}"), *read(200, 3.0 * i)) > 0.95
    most = max(len(n.prototypes) for n in nodes)
    assert len(fused.for_node("n0").prototypes()) <= 2 * most


# --- shifts ---------------------------------------------------------------------------------------


def oracle_of(
    tables: ClassTables, feature: int
) -> tuple[list[dict[int, float]], list[dict[int, float]]]:
    """The means of one feature and how much each of them is worth."""
    spread = tables.spread
    means: list[dict[int, float]] = []
    worth: list[dict[int, float]] = []
    for i in range(len(tables.nodes)):
        held = [k for k in range(spread.shape[0]) if tables.count[i, k, feature] > 0]
        means.append({k: float(tables.mean[i, k, feature]) for k in held})
        worth.append(
            {k: naive.worth_of_mean(tables.samples[i, k], RELIABLE_COUNT, 1.0) for k in held}
        )
    for k in range(spread.shape[0]):
        holders = [each for each in worth if k in each]
        if len(holders) > 2:  # counts can be lied about
            most = max(MAX_SWAY, 1 / len(holders))
            cut = naive.capped_weights([each[k] for each in holders], 1, most)
            for each, value in zip(holders, cut, strict=True):
                each[k] = value
        for each in holders:
            each[k] /= spread[k, feature]
    return means, worth


@few
@given(seed=seeds)
def test_shifts_along_a_tree(seed: int) -> None:
    shift = np.random.default_rng(seed).normal(size=(4, 4))
    _, nodes = some_fleet("GLVQ", seed, shift=shift)
    tables = table_of(nodes)
    edges = spanning_tree(evidence(tables.samples))
    assert len(edges) == 3  # connected, see `random_known`
    found = get_correction("tree").estimate(tables).shift
    for feature in range(4):
        expected = naive.tree_shifts(*oracle_of(tables, feature), edges)
        assert found[:, feature].tolist() == pytest.approx(expected, abs=1e-9)


@few
@given(seed=seeds)
def test_shifts_by_least_squares(seed: int) -> None:
    shift = np.random.default_rng(seed).normal(size=(4, 4))
    _, nodes = some_fleet("GLVQ", seed, shift=shift)
    tables = table_of(nodes)
    found, _ = fit_additive(tables.mean, tables.reliability())
    for feature in range(4):
        expected = naive.least_squares_shifts(*oracle_of(tables, feature))
        here = found[:, feature] - found[:, feature].mean()
        assert here.tolist() == pytest.approx(expected, abs=1e-8)


def test_honest_nodes_are_all_believed() -> None:
    """Resistance against byzantine nodes costs nothing where there are none."""
    world = World.of(1, classes=4)
    nodes = fleet(MODELS["GLVQ"], world, 6, 200, shift=np.arange(6.0)[:, None])
    tables = table_of(nodes)
    found = get_correction("least_squares").estimate(tables).shift
    for feature in range(4):
        expected = naive.least_squares_shifts(*oracle_of(tables, feature))
        assert found[:, feature].tolist() == pytest.approx(expected, abs=1e-8)


@modest
@given(seed=seeds, nodes=st.integers(1, 9), classes=st.integers(1, 6), share=st.floats(0.1, 0.9))
def test_components_are_those_of_the_oracle(
    seed: int, nodes: int, classes: int, share: float
) -> None:
    held = np.random.default_rng(seed).random((nodes, classes)) < share
    number = components(held)
    found = [
        {i for i in range(nodes) if number[i] == c}
        for c in range(number.max() + 1)
        if held[number == c].any()
    ]
    assert found == naive.components([set(np.flatnonzero(row).tolist()) for row in held])


# --- weights and aggregators ----------------------------------------------------------------------

counts = st.lists(
    st.one_of(st.integers(1, 1000), st.sampled_from([10**6, 10**9])), min_size=2, max_size=9
)


@modest
@given(weights=counts, byzantine=st.integers(1, 4), share=st.sampled_from([1 / 3, 1 / 2]))
def test_weights_are_cut_to_the_highest_level_that_keeps_the_share(
    weights: list[int], byzantine: int, share: float
) -> None:
    byzantine = min(byzantine, len(weights))
    most = max(share, byzantine / len(weights))
    found = capped_weights(np.array(weights, float), byzantine, share)
    expected = naive.capped_weights([float(w) for w in weights], byzantine, most)
    assert found.tolist() == pytest.approx(expected, rel=1e-6)
    assert np.sort(found)[-byzantine:].sum() <= most * found.sum() * (1 + 1e-9)


def test_caps_withstand_counts_beyond_all_measure() -> None:
    found = capped_weights(np.array([1e300, 30.0, 20.0, 25.0, 25.0]), 1)
    assert found.max() <= found.sum() / 3 * (1 + 1e-9) and found[1:].sum() > 0


values = st.lists(
    st.tuples(st.integers(-20, 20).map(float), st.integers(0, 5).map(float)), min_size=1, max_size=9
).filter(lambda pairs: any(w > 0 for _, w in pairs))


@modest
@given(pairs=values)
def test_weighted_median_and_trimmed_mean(pairs: list[tuple[float, float]]) -> None:
    points, weights = [v for v, _ in pairs], [w for _, w in pairs]
    column, share = np.array(points)[:, None], np.array(weights)[:, None]
    assert aggregators.weighted_median(column, share)[0] == pytest.approx(
        naive.weighted_median(points, weights)
    )
    expected = naive.trimmed_mean(points, weights, aggregators.TRIMMED_SHARE)
    assert aggregators.trimmed_mean(column, share)[0] == pytest.approx(expected)


@modest
@given(seed=seeds, n=st.integers(3, 8))
def test_no_point_near_the_geometric_median_is_closer_to_all(seed: int, n: int) -> None:
    random = np.random.default_rng(seed)
    points, weights = random.normal(size=(n, 3)), random.uniform(0.5, 2.0, (n, 1))
    weights *= 0.9 / weights.max()

    def cost(at: Any) -> float:
        return float((weights[:, 0] * np.linalg.norm(points - at, axis=1)).sum())

    here = aggregators.geometric_median(points, weights)
    for step in random.normal(size=(20, 3)) * 0.05:
        assert cost(here) <= cost(here + step) + 1e-3


@pytest.mark.parametrize("name", AGGREGATORS.names)
def test_aggregators_skip_what_is_missing(name: str) -> None:
    column = np.array([[1.0, np.nan], [np.nan, np.nan], [1.0, np.nan], [50.0, np.nan]])
    weights = np.array([[1.0], [1.0], [1.0], [0.0]])
    found = get_aggregator(name).combine(column, weights)
    assert found[0] == pytest.approx(1.0) and np.isnan(found[1])
