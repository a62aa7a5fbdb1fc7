"""Networks of alike nodes: similarity graph, clusters, models by total variation."""

from __future__ import annotations

import itertools
import math
import time
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import streamlvq
from streamlvq import Snapshot, fuse
from streamlvq.fusion import FusionError
from streamlvq.fusion.class_tables import ClassTables
from streamlvq.fusion.fuse import fusion_run
from streamlvq.fusion.graph import SimilarityGraph, similarity_graph
from streamlvq.fusion.network import (
    STRENGTHS,
    FusionNetwork,
    NetworkModels,
    labelled_loss,
    network_models,
)
from streamlvq.fusion.variation import fedrelax, influence, total_variation
from support.fusions import MODELS, World, accuracy, arrays_of, bits, fleet, learnt
from support.samples import readings

Floats = npt.NDArray[np.float64]
PLAIN: dict[str, Any] = {"drift": "none", "screen": False, "byzantine": None}


def random_graph(seed: int, n: int, share: float = 0.4) -> Floats:
    random = np.random.default_rng([seed, n])
    upper = np.triu(random.uniform(0.2, 1.0, (n, n)) * (random.random((n, n)) < share), 1)
    upper[np.arange(n - 1), np.arange(1, n)] += 0.3  # connected
    weights: Floats = upper + upper.T
    return weights


def price(w: Floats, a: Floats, counts: Floats, weights: Floats, coupling: float) -> float:
    """The objective with lengths, in plain Python."""
    total = 0.0
    for i in range(len(w)):
        total += counts[i] * sum((x - y) ** 2 for x, y in zip(w[i], a[i], strict=True)) / len(w[i])
    for i, j in itertools.combinations(range(len(w)), 2):
        apart = sum((x - y) ** 2 for x, y in zip(w[i], w[j], strict=True)) / len(w[i])
        total += coupling * weights[i, j] * math.sqrt(apart)
    return total


# --- generalised total variation -----------------------------------------------------------------


@pytest.mark.parametrize("coupling", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("seed", range(3))
def test_fedrelax_reaches_what_the_solver_finds(seed: int, coupling: float) -> None:
    random = np.random.default_rng(seed)
    a, counts, weights = random.normal(size=(8, 3)), random.uniform(0, 5, 8), random_graph(seed, 8)
    counts[0] = 0.0
    a[1, 2] = np.nan  # does not know this feature
    solved = total_variation(a, counts, weights, coupling, lengths=False).values
    *_, relaxed = itertools.islice(fedrelax(a, counts, weights, coupling), 5000)
    np.testing.assert_allclose(relaxed, solved, atol=1e-9)
    # It is where the gradient vanishes: N (w - a) + coupling L w = 0.
    laplacian = np.diag(weights.sum(axis=1)) - weights
    own = np.where(np.isfinite(a), counts[:, None], 0.0)
    gradient = own * (solved - np.nan_to_num(a)) + coupling * laplacian @ solved
    np.testing.assert_allclose(gradient, 0.0, atol=1e-9)


def test_stronger_couplings_take_fedrelax_more_rounds() -> None:
    a, weights = np.random.default_rng(0).normal(size=(12, 2)), random_graph(0, 12)
    rounds = []
    for coupling in (1.0, 10.0, 100.0):
        solved = total_variation(a, np.ones(12), weights, coupling, lengths=False).values
        path = enumerate(fedrelax(a, np.ones(12), weights, coupling), 1)
        rounds.append(next(k for k, w in path if np.abs(w - solved).max() < 1e-6))
    assert rounds[0] * 5 < rounds[1] < rounds[2] / 5


@pytest.mark.parametrize("coupling", [0.05, 0.3, 1.0])
def test_no_small_step_lowers_the_price_with_lengths(coupling: float) -> None:
    random = np.random.default_rng(3)
    a, counts, weights = random.normal(size=(6, 2)), random.uniform(1, 3, 6), random_graph(3, 6)
    w = total_variation(a, counts, weights, coupling).values
    best = price(w, a, counts, weights, coupling)
    assert best < price(a, a, counts, weights, coupling)
    for _ in range(200):
        step = random.normal(size=w.shape) * 0.1
        assert price(w + step, a, counts, weights, coupling) > best - 1e-6
    together = w + random.normal(size=(1, 2)) * 0.1
    assert price(together, a, counts, weights, coupling) > best


def test_neighbours_that_are_alike_agree_and_others_stay_apart() -> None:
    random = np.random.default_rng(0)
    truth = np.repeat([[0.0, 0.0], [1.0, 1.0]], 10, axis=0)
    weights = np.zeros((20, 20))
    weights[:10, :10] = weights[10:, 10:] = 1.0 - np.eye(10)
    for i, j in zip(range(10), random.permutation(10) + 10, strict=True):  # ten false bridges
        weights[i, j] = weights[j, i] = 1.0
    a = truth + 0.3 * random.normal(size=truth.shape)
    found = total_variation(a, np.full(20, 10.0), weights, 1.0).values
    means = np.repeat([a[:10].mean(axis=0), a[10:].mean(axis=0)], 10, axis=0)
    error, squares = (
        np.sqrt(np.mean((w - truth) ** 2))
        for w in (found, total_variation(a, np.full(20, 10.0), weights, 1.0, lengths=False).values)
    )
    assert error < np.sqrt(np.mean((means - truth) ** 2)) + 0.03
    assert squares > error + 0.03
    assert np.ptp(found[:10], axis=0).max() < 0.05  # constant over each cluster
    assert np.abs(found[:10].mean(axis=0) - found[10:].mean(axis=0)).min() > 0.5


@pytest.mark.parametrize("coupling", [2.0, 4.0])
def test_refitted_clusters_are_those_of_one_model_each_behind_false_bridges(
    coupling: float,
) -> None:
    errors = []
    for seed in range(5):
        random = np.random.default_rng(seed)
        truth = np.repeat([[0.0, 0.0], [1.0, 1.0]], 10, axis=0)
        weights = np.kron(np.eye(2), 1.0 - np.eye(10))
        for pair in random.choice(100, 10, replace=False).tolist():  # ten of a hundred
            i, j = pair // 10, 10 + pair % 10
            weights[i, j] = weights[j, i] = 1.0
        a = truth + 0.3 * random.normal(size=truth.shape)
        found = total_variation(a, np.full(20, 10.0), weights, coupling, refit=True).values
        means = np.repeat([a[:10].mean(axis=0), a[10:].mean(axis=0)], 10, axis=0)
        assert len(np.unique(found.round(6), axis=0)) == 2
        errors.append([np.sqrt(np.mean((w - truth) ** 2)) for w in (found, means)])
    error, one_model_each = np.mean(errors, axis=0)
    assert error < one_model_each + 0.01


@pytest.mark.parametrize("far", [10.0, 1e3, 1e6])
def test_one_absurd_node_moves_the_others_no_farther_for_being_absurd(far: float) -> None:
    a = np.random.default_rng(1).normal(size=(10, 4)) * 0.3
    weights = 1.0 - np.eye(10)
    near = total_variation(a, np.ones(10), weights, 0.1).values[1:]
    a[0] = far
    found = total_variation(a, np.ones(10), weights, 0.1).values
    assert np.abs(found[1:] - near).max() < 0.15
    assert np.abs(found[0] - far).max() < 1.0
    squares = total_variation(a, np.ones(10), weights, 0.1, lengths=False).values
    assert np.abs(squares[1:] - near).max() > far / 50


def test_the_extremes_are_own_values_and_means_of_what_is_connected() -> None:
    a = np.array([[1.0], [4.0], [np.nan], [7.0], [np.nan]])
    counts = np.array([1.0, 3.0, 5.0, 2.0, 1.0])
    weights = np.zeros((5, 5))
    weights[0, 1] = weights[1, 0] = weights[1, 2] = weights[2, 1] = 1.0
    for lengths in (True, False):
        own = total_variation(a, counts, weights, 0.0, lengths=lengths)
        np.testing.assert_array_equal(own.values, a)
        shared = total_variation(a, counts, weights, math.inf, lengths=lengths)
        np.testing.assert_allclose(shared.values[:4, 0], [3.25, 3.25, 3.25, 7.0])
        assert np.isnan(shared.values[4]).all()
        np.testing.assert_allclose(shared.influence[2], [0.25, 0.75, 0.0, 0.0, 0.0])
        assert not shared.influence[4].any()


def test_nodes_without_data_are_filled_in_or_stay_unknown() -> None:
    weights = np.zeros((4, 4))
    weights[0, 1] = weights[1, 0] = weights[2, 3] = weights[3, 2] = 1.0
    a = np.array([[2.0], [np.nan], [np.nan], [np.nan]])
    found = total_variation(a, np.array([1.0, 0.0, 0.0, 0.0]), weights, 1.0)
    np.testing.assert_allclose(found.values[:2], 2.0)
    assert np.isnan(found.values[2:]).all()
    relaxed = next(fedrelax(a, np.array([1.0, 0.0, 0.0, 0.0]), weights, 1.0))
    assert np.isnan(relaxed[2:]).all()  # two of them would swap for ever


@pytest.mark.parametrize("coupling", [0.0, 0.2, 5.0, 1e12, math.inf])
def test_influence_is_shares(coupling: float) -> None:
    counts = np.array([1.0, 0.0, 1e-30, 4.0, 1e6, 2.0])
    shares = influence(counts, random_graph(5, 6), coupling)
    assert (shares >= 0).all()
    assert np.isfinite(shares).all()
    rows = shares.sum(axis=1)
    np.testing.assert_allclose(rows[rows > 0], 1.0)
    assert not shares[:, counts == 0].any()


# --- similarity graph ----------------------------------------------------------------------------


def tables_of(mean: Floats, variance: Floats, count: Floats) -> ClassTables:
    n, classes, d = mean.shape
    return ClassTables(
        [f"n{i}" for i in range(n)],
        count,
        np.repeat(count[:, :, None], d, axis=2),
        mean,
        variance,
        np.ones((classes, d)),
    )


def naive_distance(tables: ClassTables, relevance: Floats, i: int, j: int) -> float:
    """Symmetrised Gaussian divergence after the shift of the other shared classes, in loops."""
    classes = range(tables.samples.shape[1])
    shared = [k for k in classes if tables.samples[i, k] > 0 and tables.samples[j, k] > 0]
    each = []
    for k in shared:
        total = 0.0
        for f in range(len(relevance)):
            worth = apart = 0.0
            for c in shared:
                if c != k:
                    n, m = tables.count[i, c, f], tables.count[j, c, f]
                    own = 1.0 / (1.0 / n + 1.0 / m + 2.0 / 100.0) / tables.spread[c, f]
                    worth += own
                    apart += own * (tables.mean[i, c, f] - tables.mean[j, c, f])
            left = tables.mean[i, k, f] - tables.mean[j, k, f] - apart / worth
            s = []
            for node in (i, j):
                n = min(tables.count[node, k, f], 100.0)
                s.append(
                    (n * tables.variance[node, k, f] + 10.0 * tables.spread[k, f]) / (n + 10.0)
                )
            kl = [0.5 * (s[a] / s[b] - 1 + left**2 / s[b] + math.log(s[b] / s[a]))
                  for a, b in ((0, 1), (1, 0))]  # fmt: skip
            noise = 1.0 / tables.count[i, k, f] + 1.0 / tables.count[j, k, f]
            noise += 0.5 / (worth * tables.spread[k, f])
            total += relevance[f] * (0.5 * sum(kl) - noise)
        each.append(total)
    return sum(each) / len(each)


@pytest.mark.parametrize("seed", range(3))
def test_distances_are_those_of_the_oracle(seed: int) -> None:
    random = np.random.default_rng(seed)
    mean, variance = 0.6 * random.normal(size=(5, 4, 3)), random.uniform(0.5, 2.0, (5, 4, 3))
    count = random.integers(2, 300, (5, 4)).astype(float)
    count[0, 1] = count[2, 3] = 0.0
    tables, relevance = tables_of(mean, variance, count), np.array([0.5, 0.3, 0.2])
    graph = similarity_graph(tables, relevance)
    for i, j in itertools.combinations(range(5), 2):
        expected = naive_distance(tables, relevance, i, j)
        assert graph.distance[i, j] == graph.distance[j, i] == pytest.approx(expected)
    median = np.median(graph.distance[np.triu_indices(5, 1)])
    assert graph.weights[0, 1] == pytest.approx(math.exp(-max(graph.distance[0, 1], 0) / median))


def test_shifts_make_no_distance_unless_there_are_none() -> None:
    random = np.random.default_rng(0)
    mean = random.normal(size=(1, 4, 3)) + 5.0 * random.normal(size=(6, 1, 3))
    tables = tables_of(mean, np.ones((6, 4, 3)), np.full((6, 4), 50.0))
    even = np.full(3, 1 / 3)
    assert similarity_graph(tables, even).distance.max() < 1e-9
    assert similarity_graph(tables, even, shifted=False).distance.max() > 1.0


def test_chance_makes_no_distance_on_average() -> None:
    random = np.random.default_rng(0)
    found = []
    for _ in range(200):
        rows = random.normal(size=(2, 6, 20, 5))
        tables = tables_of(rows.mean(axis=2), rows.var(axis=2), np.full((2, 6), 20.0))
        found.append(similarity_graph(tables, np.full(5, 0.2)).distance[0, 1])
    assert abs(np.mean(found)) < 0.035  # 1/n + 1/m is .1


def test_nothing_is_known_of_nodes_that_share_one_class() -> None:
    count = np.array([[5.0, 5.0, 0.0], [0.0, 5.0, 5.0], [5.0, 5.0, 5.0]])
    tables = tables_of(np.zeros((3, 3, 2)), np.ones((3, 3, 2)), count)
    graph = similarity_graph(tables, np.full(2, 0.5))
    assert np.isinf(graph.distance[0, 1])
    assert graph.weights[0, 1] == 0.0
    assert np.isfinite(graph.distance[0, 2])
    assert np.isfinite(similarity_graph(tables, np.full(2, 0.5), shifted=False).distance).all()


def test_absurd_numbers_make_finite_distances() -> None:
    mean, variance = np.zeros((3, 3, 2)), np.ones((3, 3, 2))
    mean[0, 0], variance[0, 1], variance[1] = 1e120, 1e120, 0.0
    tables = tables_of(mean, variance, np.full((3, 3), 1e9))
    graph = similarity_graph(tables, np.full(2, 0.5))
    assert np.isfinite(graph.distance).all()
    assert (graph.weights >= 0).all()
    assert (graph.weights <= 1).all()


def test_nearest_keeps_the_graph_connected() -> None:
    places = np.array([0.0, 1.0, 2.0, 50.0, 51.0, 52.0])
    distance = np.abs(places[:, None] - places[None, :])
    graph = SimilarityGraph.of(list("abcdef"), distance).nearest(1)
    kept = {(i, j) for i, j in np.argwhere(np.triu(graph.weights) > 0).tolist()}
    assert kept == {(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)}
    apart = graph.within(np.array([0, 0, 0, 1, 1, 1]))
    assert not apart.weights[:3, 3:].any()
    assert np.median(apart.weights[apart.weights > 0]) == pytest.approx(math.exp(-1.0))


def test_a_graph_of_a_hundred_nodes_takes_no_time() -> None:
    random = np.random.default_rng(0)
    mean = random.normal(size=(100, 6, 60))
    tables = tables_of(mean, np.ones_like(mean), np.full((100, 6), 50.0))
    similarity_graph(tables, np.full(60, 1 / 60))
    begin = time.process_time()
    similarity_graph(tables, np.full(60, 1 / 60))
    assert time.process_time() - begin < 1.0


# --- clusters ------------------------------------------------------------------------------------


def swapping_fleet(
    name: str = "GMLVQ", nodes: int = 10, swapped: tuple[int, ...] = (1, 4, 8), **read: Any
) -> tuple[World, list[Snapshot]]:
    """A fleet in which some nodes call c0 what others call c1."""
    world = World.of(3, d=4, classes=4, apart=2.0)
    found = []
    shift = read.get("shift", np.zeros((nodes, 1)))
    for i in range(nodes):
        X, y = world.read(i, 150, shift=shift[i])
        if i in swapped:
            y = [{"c0": "c1", "c1": "c0"}.get(label, label) for label in y]
        found.append(Snapshot.of(learnt(MODELS[name](), X, y), f"n{i}", readings=False))
    return world, found


@pytest.mark.parametrize(
    "name", ["GLVQ", "GRLVQ", "GMLVQ", "LGMLVQ", "PairwiseLVQ", "LVQCommittee"]
)
def test_seven_and_three_nodes_get_the_models_of_their_own(name: str) -> None:
    world, given = swapping_fleet(name)
    fused = fuse(given)
    clusters = fused.report.clusters
    assert [each.nodes for each in clusters] == [
        ("n0", "n2", "n3", "n5", "n6", "n7", "n9"), ("n1", "n4", "n8")]  # fmt: skip
    assert [set(each.differs) for each in clusters] == [set(), {"c0", "c1"}]
    assert not any(node.left_out for node in fused.report.nodes.values())
    kinds = {each.kind for node in fused.report.nodes.values() for each in node.clipped}
    assert "class_left_out" not in kinds
    X, y = world.read(99, 200)
    other = [{"c0": "c1", "c1": "c0"}.get(label, label) for label in y]
    assert accuracy(fused.for_node("n0"), X, y) > 0.85
    assert accuracy(fused.for_node("n4"), X, other) > 0.85
    (warning,) = [text for text in fused.report.warnings if "alike" in text]
    assert "n1, n4 and n8 decide the classes c0 and c1 differently" in warning
    assert "part" in str(fused.report).splitlines()[0]


def test_clusters_are_found_behind_shifts() -> None:
    shift = 3.0 * np.random.default_rng(5).normal(size=(10, 4))
    _, given = swapping_fleet(shift=shift)
    report = fuse(given).report
    assert [len(each.nodes) for each in report.clusters] == [7, 3]
    assert report.drift != "none"
    assert report.cycle_residual is not None
    assert report.cycle_residual < 0.5
    first = report.features[0]
    moved = [report.nodes[f"n{i}"].shift[first] for i in (1, 4, 8)]
    wanted = [shift[i, 0] for i in (1, 4, 8)]
    scale = report.nodes["n1"].shift[first] - report.nodes["n4"].shift[first]
    scale /= shift[1, 0] - shift[4, 0]
    np.testing.assert_allclose(
        np.diff(moved), scale * np.diff(wanted), rtol=0.3, atol=0.3 * abs(scale)
    )


@pytest.mark.parametrize("swapped", [(), (4,)])
def test_all_are_one_cluster_if_at_most_one_contradicts(swapped: tuple[int, ...]) -> None:
    _, given = swapping_fleet(swapped=swapped)
    report = fuse(given).report
    assert len(report.clusters) == 1
    assert not any("alike" in text for text in report.warnings)
    told = [name for name, node in report.nodes.items() if node.left_out or node.clipped]
    assert told == [f"n{i}" for i in swapped]  # a single one is screened, as ever


@pytest.mark.parametrize("seed", range(4))
def test_honest_nodes_that_differ_are_one_cluster(seed: int) -> None:
    """Every node has classes that lie elsewhere, by half of what is between classes."""
    random = np.random.default_rng(seed)
    given = []
    for i in range(8):
        world = World.of(3, d=4, classes=4, apart=2.0)
        moved = World(
            world.centres + 0.7 * random.normal(size=world.centres.shape), world.unit, world.labels
        )
        X, y = moved.read(i, 100)
        given.append(Snapshot.of(learnt(MODELS["GMLVQ"](), X, y), f"n{i}", readings=False))
    assert len(fuse(given).report.clusters) == 1


def test_clusters_do_not_depend_on_order_or_names() -> None:
    _, given = swapping_fleet()
    assert bits(fuse(given)) == bits(fuse(given[::-1]))
    names = dict(zip([s.node for s in given], "jihgfedcba", strict=True))
    renamed = [
        Snapshot(s.estimator_state(), names[s.node], readings=False, created=s.created_seconds)
        for s in given
    ]
    found = [{names[n] for n in each.nodes} for each in fuse(given).report.clusters]
    assert [set(each.nodes) for each in fuse(renamed).report.clusters] == found


def test_three_ways_to_call_two_classes() -> None:
    world = World.of(3, d=4, classes=4, apart=2.0)
    names = [{}, {"c0": "c1", "c1": "c0"}, {"c2": "c3", "c3": "c2"}]
    given = []
    for i in range(12):
        X, y = world.read(i, 150)
        y = [names[i % 3].get(label, label) for label in y]
        given.append(Snapshot.of(learnt(MODELS["GMLVQ"](), X, y), f"n{i:02}", readings=False))
    found = {each.nodes for each in fuse(given).report.clusters}
    assert found == {tuple(f"n{i:02}" for i in range(k, 12, 3)) for k in range(3)}


def test_a_node_that_lacks_the_classes_joins_the_largest_cluster() -> None:
    world, given = swapping_fleet()
    X, y = world.read(50, 150, known=[2, 3])
    given.append(Snapshot.of(learnt(MODELS["GMLVQ"](), X, y), "x", readings=False))
    fused = fuse(given)
    assert "x" in fused.report.clusters[0].nodes
    assert set(fused.report.nodes["x"].gained) == {"c0", "c1"}
    X, y = world.read(99, 200)
    assert accuracy(fused.for_node("x"), X, y) > 0.85


def test_a_liar_does_not_hide_clusters_or_make_any() -> None:
    world, given = swapping_fleet()
    liar = Snapshot.of(given[9].classifier(), "n9", readings=False)
    arrays_of(liar)["class_mean"][...] = 1e59
    report = fuse([*given[:9], liar]).report
    assert [each.nodes for each in report.clusters][1] == ("n1", "n4", "n8")
    assert report.nodes["n9"].left_out is not None or report.nodes["n9"].clipped
    fused = fuse([*given[:9], liar])
    X, y = world.read(99, 200)
    assert accuracy(fused.for_node("n0"), X, y) > 0.85


# --- models of a network -------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(MODELS))
def test_without_coupling_every_node_decides_as_alone(name: str) -> None:
    world = World.of(1)
    given = fleet(MODELS[name], world, 4, shift=np.arange(4)[:, None])
    X, _ = world.read(50, 100)
    models = network_models(given, strength=0.0, metric_strength=0.0, drift="least_squares")
    for k, snapshot in enumerate(given):
        rows = readings(X + k * world.unit)
        alone = snapshot.classifier()
        ours = models.for_node(snapshot.node)
        # The weights of a committee are the fleet's: its members decide as those alone.
        for mine, its in zip(members(ours), members(alone), strict=True):
            same = [its.predict_one(x) == mine.predict_one(x) for x in rows]
            if type(its) is streamlvq.GLVQ:  # scales are its metric, and are the fleet's
                assert np.mean(same) > 0.95
            else:
                assert all(same)


def members(model: Any) -> list[Any]:
    return list(model.parts.values()) if isinstance(model, streamlvq.LVQCommittee) else [model]


@pytest.mark.parametrize("name", ["GLVQ", "GMLVQ", "LGMLVQ", "GRLVQ"])
def test_with_infinite_coupling_all_have_the_mean_as_fusion_does(name: str) -> None:
    world = World.of(2)
    given = fleet(MODELS[name], world, 5)
    models = network_models(given, strength=math.inf, metric_strength=math.inf, **PLAIN)
    fused = fuse(given, **PLAIN)
    ours = [models.snapshot(node).prototypes for node in models.nodes]
    expected = fused.snapshot("n0").prototypes
    for found in ours:
        assert [p.label for p in found] == [p.label for p in expected]
        for a, b in zip(found, expected, strict=True):
            for feature, value in b.values.items():
                assert a.values[feature] == pytest.approx(value, rel=1e-6, abs=1e-9)
    X, y = world.read(50, 200)
    assert accuracy(models.for_node("n1"), X, y) > 0.9


def test_one_metric_and_own_prototypes() -> None:
    given = fleet(MODELS["GMLVQ"], World.of(2), 4)
    models = network_models(given, strength=0.0, metric_strength=math.inf, **PLAIN)
    snapshots = [models.snapshot(node) for node in models.nodes]
    assert len({arrays_of(snapshot)["peak"].tobytes() for snapshot in snapshots}) == len(given)
    metrics = [metric(snapshot) for snapshot in snapshots]  # in units that all have
    for other in metrics[1:]:
        np.testing.assert_allclose(other, metrics[0], rtol=1e-12)
    for ours, alone in zip(snapshots, given, strict=True):
        for a, b in zip(ours.prototypes, alone.prototypes, strict=True):
            assert a.label == b.label
            assert list(a.values.values()) == pytest.approx(list(b.values.values()))


def metric(snapshot: Snapshot) -> Floats:
    """The matrix of squared distances of readings in the units in which they came."""
    arrays = arrays_of(snapshot)
    rows: Floats = arrays["omega"][0] * arrays["inverse"]
    return rows.T @ rows


def test_classes_that_a_node_lacks_come_from_its_neighbours() -> None:
    world = World.of(4, classes=4)
    known = [[0, 1, 2, 3], [0, 1, 2, 3], [0, 1, 2], [0, 1, 3]]
    given = fleet(MODELS["LGMLVQ"], world, 4, known=known)
    X, y = world.read(50, 200)
    models = network_models(given, **PLAIN)
    for node in models.nodes:
        model = models.for_node(node)
        assert set(model.classes) == set(world.labels)
        assert accuracy(model, X, y) > 0.9
    alone = network_models(given, strength=0.0, metric_strength=math.inf, **PLAIN)
    assert set(alone.for_node("n2").classes) == {"c0", "c1", "c2"}


@pytest.mark.parametrize("name", ["GMLVQ", "LGMLVQ", "PairwiseLVQ", "LVQCommittee"])
def test_solutions_do_not_depend_on_the_order_of_snapshots(name: str) -> None:
    shift = np.arange(5)[:, None]
    given = fleet(
        MODELS[name], World.of(1), 5, shift=shift, known=[None, [0, 1], None, None, [1, 2]]
    )
    assert bits(network_models(given)) == bits(network_models(given[::-1]))


def test_models_learn_on_and_travel_as_bytes() -> None:
    world = World.of(1)
    models = network_models(fleet(MODELS["GMLVQ"], world, 4))
    snapshot = models.snapshot("n1")
    assert Snapshot.from_bytes(snapshot.to_bytes()).to_bytes() == snapshot.to_bytes()
    X, y = world.read(9, 100)
    model = learnt(models.for_node("n1"), X, y)
    assert accuracy(model, X, y) > 0.9


def test_nodes_with_different_features() -> None:
    random = np.random.default_rng(0)
    given = []
    for i, names in enumerate([["p", "q", "r"], ["p", "q"], ["p", "q", "r"], ["p", "r", "s"]]):
        model = streamlvq.GMLVQ(max_prototypes_per_class=1)
        rows = random.normal(size=(60, len(names))) + np.arange(60)[:, None] % 2 * 4.0
        model.learn_array(rows, ["x", "y"] * 30, features=names)
        given.append(Snapshot.of(model, f"n{i}", readings=False))
    models = network_models(given, **PLAIN)
    for snapshot in given:
        ours = models.snapshot(snapshot.node)
        assert set(ours.features) == set(snapshot.features)
        for prototype in ours.prototypes:
            assert all(math.isfinite(value) for value in prototype.values.values())
    answer = models.for_node("n3").predict_one({"p": 4.0, "r": 4.0, "s": 4.0})
    assert answer == "y"


def test_a_node_that_has_learnt_nothing_gets_the_model_of_its_neighbours() -> None:
    world = World.of(1)
    given = fleet(MODELS["GMLVQ"], world, 4)
    given.append(Snapshot.of(MODELS["GMLVQ"](), "new", readings=False))
    X, y = world.read(50, 200)
    models = network_models(given, drift="none")
    # It shares no class with anybody, so no edge leads to it: it is given nothing of prototypes.
    with pytest.raises(FusionError, match="has learnt nothing"):
        models.for_node("new")
    assert accuracy(models.for_node("n0"), X, y) > 0.9


def test_a_screened_node_keeps_its_own_model() -> None:
    world, given = swapping_fleet(swapped=(4,))
    models = network_models(given)
    X, y = world.read(99, 200)
    other = [{"c0": "c1", "c1": "c0"}.get(label, label) for label in y]
    assert accuracy(models.for_node("n4"), X, other) > 0.85
    assert accuracy(models.for_node("n0"), X, y) > 0.85


@pytest.mark.parametrize("name", ["GMLVQ", "LGMLVQ"])
def test_prototypes_far_off_spoil_nobody_else(name: str) -> None:
    world = World.of(3, d=4, classes=4, apart=2.0)
    given = fleet(MODELS[name], world, 6)
    X, y = world.read(99, 200)
    models = network_models(given, drift="none")
    honest = {node: accuracy(models.for_node(node), X, y) for node in ("n0", "n3")}
    arrays = arrays_of(given[5])
    arrays["w"] += 1e6
    arrays["class_count"] *= 1e6
    arrays["class_weight"] *= 1e6
    models = network_models(given, drift="none")
    for node, before in honest.items():
        assert accuracy(models.for_node(node), X, y) > before - 0.02


def test_a_fusion_is_prepared_once_for_all_strengths() -> None:
    given = fleet(MODELS["GMLVQ"], World.of(1), 4)
    run = fusion_run(given)
    fused = run.run()
    network = FusionNetwork.of(run)
    before = bits(fused)
    solved = network.solve(1.0, math.inf)
    assert bits(solved) == bits(network_models(given, strength=1.0, metric_strength=math.inf))
    assert bits(run.run()) == before
    assert solved.report == fused.report
    assert network.graph.nodes == ("n0", "n1", "n2", "n3")


# --- choosing ------------------------------------------------------------------------------------


def test_the_strength_with_the_least_loss_is_chosen() -> None:
    given = fleet(MODELS["GMLVQ"], World.of(1), 4)
    asked = []

    def loss(models: NetworkModels) -> float:
        asked.append((models.strength, models.metric_strength))
        return abs(models.strength - 4.0) + abs(min(models.metric_strength, 99.0) - 0.25)

    found = network_models(given, strength="auto", metric_strength="auto", loss=loss)
    assert (found.strength, found.metric_strength) == (4.0, 0.25)
    assert {strength for strength, _ in asked} == set(STRENGTHS)
    found = network_models(given, strength="auto", metric_strength=1.0, loss=loss)
    assert (found.strength, found.metric_strength) == (4.0, 1.0)


def test_readings_choose_own_models_where_nodes_differ_and_one_model_where_not() -> None:
    random = np.random.default_rng(0)
    for apart, weak in ((0.0, False), (3.0, True)):
        given, fresh = [], {}
        for i in range(6):
            world = World.of(3, d=3, classes=3, apart=1.5)
            moved = World(
                world.centres + apart * random.normal(size=(3, 3)), np.ones(3), world.labels
            )
            X, y = moved.read(i, 25 if not weak else 150)
            given.append(Snapshot.of(learnt(MODELS["GMLVQ"](), X, y), f"n{i}", readings=False))
            rows, labels = moved.read(100 + i, 150)
            fresh[f"n{i}"] = (readings(rows), labels)
        loss = labelled_loss(fresh)
        found = network_models(
            given, strength="auto", metric_strength="auto", loss=loss, drift="none"
        )
        one = network_models(given, strength=math.inf, metric_strength=math.inf, drift="none")
        assert loss(found) <= loss(one)
        assert (found.strength < 16.0) if weak else (found.strength >= 1.0)
        if weak:
            assert loss(found) < 0.8 * loss(one)


def test_a_loss_knows_labels_that_a_model_does_not() -> None:
    models = network_models(fleet(MODELS["GMLVQ"], World.of(1), 3))
    x = readings(World.of(1).read(1, 3)[0])
    assert labelled_loss({"n0": (x, ["never"] * 3)})(models) == pytest.approx(-math.log(1e-3))
    assert labelled_loss({"n0": ([], [])})(models) == math.inf


def test_wrong_arguments_are_refused() -> None:
    given = fleet(MODELS["GLVQ"], World.of(1), 3)
    with pytest.raises(FusionError, match='strength="auto"'):
        network_models(given, strength="auto")
    with pytest.raises(FusionError, match="metric_strength: expected a number of at least 0"):
        network_models(given, metric_strength=-1.0)
    with pytest.raises(FusionError, match="strength: expected a number of at least 0, got nan"):
        network_models(given, strength=math.nan)
    with pytest.raises(FusionError, match="a node that took part"):
        network_models(given).for_node("nobody")
