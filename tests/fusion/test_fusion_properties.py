"""What must hold of fusion for any fleet, with fleets that hypothesis makes up."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
import streamlvq
from streamlvq import Snapshot, fuse
from streamlvq.fusion import FusionError
from streamlvq.fusion.class_tables import ClassTables, common_spread
from streamlvq.fusion.corrections import get_correction
from streamlvq.snapshot import SnapshotError
from support.fusions import (
    MODELS,
    PLAIN,
    World,
    accuracy,
    arrays_of,
    bits,
    copied,
    fleet,
    learnt,
    random_known,
    to_node,
)
from support.samples import readings

modest = settings(derandomize=True, max_examples=20, deadline=None, database=None)
few = settings(modest, max_examples=3)
seeds = st.integers(0, 10_000)
DRIFTS = ["auto", "none", "tree", "least_squares", "scale_shift"]


def some_nodes(name: str, seed: int, nodes: int = 4) -> tuple[World, list[Snapshot]]:
    """Shifted nodes that miss classes."""
    world = World.of(seed, classes=4)
    random = np.random.default_rng(seed)
    shift = random.normal(size=(nodes, 4))
    known = random_known(seed, nodes, 4, least=2)
    return world, fleet(MODELS[name], world, nodes, 50, seed, shift=shift, known=known)


# --- a pure function of a set ---------------------------------------------------------------------


@few
@given(seed=seeds, order=st.permutations(range(6)))
@pytest.mark.parametrize("name", list(MODELS))
def test_order_duplicates_and_stale_versions_do_not_matter(
    name: str, seed: int, order: list[int]
) -> None:
    world, nodes = some_nodes(name, seed)
    model = nodes[1].classifier()
    X, _ = world.read(77, 5)
    learnt(model, X, [next(iter(nodes[1].labels))] * 5)
    newer = Snapshot.of(model, "n1", readings=False)  # no time in them: more samples are newer
    newest = [nodes[0], newer, *nodes[2:]]
    expected = fuse(newest)
    mixed = [*newest, nodes[1], copied(nodes[2])]
    found = fuse(mixed[k] for k in order)
    assert bits(found) == bits(expected)
    assert msgspec.json.encode(found.report) == msgspec.json.encode(expected.report)


def test_of_two_versions_the_later_counts_whatever_was_learnt() -> None:
    _, nodes = some_nodes("GLVQ", 1)
    model, less = nodes[0].classifier(), streamlvq.GLVQ(max_prototypes_per_class=1)
    less.learn_one(dict(zip(nodes[0].features, range(4), strict=True)), nodes[0].labels[0])
    old = Snapshot.of(model, "n0", created=1000.0)
    new = Snapshot.of(less, "n0", created=2000.0)
    for pair in ([old, new], [new, old]):
        assert bits(fuse([*pair, *nodes[1:]])) == bits(fuse([new, *nodes[1:]]))
    other = Snapshot.of(less, "n0", created=1000.0)  # at the same time: more samples
    for pair in ([old, other], [other, old]):
        assert bits(fuse([*pair, *nodes[1:]])) == bits(fuse([old, *nodes[1:]]))


def test_of_two_versions_that_nothing_tells_apart_all_choose_the_same() -> None:
    _, nodes = some_nodes("GLVQ", 2)
    other = copied(nodes[0])
    w = arrays_of(other)["w"]
    w += 0.01
    assert bits(fuse([nodes[0], other, *nodes[1:]])) == bits(fuse([other, *nodes]))


@few
@given(seed=seeds)
@pytest.mark.parametrize("name", list(MODELS))
def test_bytes_and_back_give_the_same_bits(name: str, seed: int) -> None:
    _, nodes = some_nodes(name, seed)
    again = [Snapshot.from_bytes(node.to_bytes()) for node in nodes]
    fused, found = fuse(nodes), fuse(again)
    assert bits(found) == bits(fused)
    assert found.report == fused.report
    for node in fused.nodes:
        data = fused.snapshot(node).to_bytes()
        assert Snapshot.from_bytes(data).to_bytes() == data


def test_rehearsed_readings_in_a_snapshot_change_nothing() -> None:
    world = World.of(3)
    models = [learnt(streamlvq.LGMLVQ(rehearsal=2), *world.read(i, 60)) for i in range(3)]
    found = [
        bits(fuse([Snapshot.of(m, f"n{i}", readings=readings) for i, m in enumerate(models)]))
        for readings in (True, False)
    ]
    assert found[0] == found[1]


@pytest.mark.parametrize("model", [streamlvq.GMLVQ(rank=2, seed=None), streamlvq.LVQCommittee()])
def test_a_seed_that_is_drawn_each_time_does_not_change_the_bits(model: Any) -> None:
    world = World.of(3)
    nodes = [
        Snapshot.of(learnt(model.clone(), *world.read(i, 40)), f"n{i}", readings=False)
        for i in range(3)
    ]
    assert bits(fuse(nodes)) == bits(fuse(nodes))


@few
@given(seed=seeds)
@pytest.mark.parametrize("weighting", ["samples"])
@pytest.mark.parametrize("name", ["GLVQ", "GRLVQ", "LGRLVQ", "GMLVQ", "LGMLVQ"])
def test_fusing_groups_that_were_fused_is_fusing_all(name: str, weighting: Any, seed: int) -> None:
    world = World.of(seed, classes=4)
    nodes = fleet(
        MODELS[name], world, 6, 40, seed, known=random_known(seed, 6, 4), shift=np.zeros((6, 1))
    )
    cut = 1 + seed % 5
    groups = [
        fuse(part, weighting=weighting, **PLAIN).snapshot(called=f"site {k}")
        for k, part in enumerate((nodes[:cut], nodes[cut:]))
    ]
    found = fuse(groups, weighting=weighting, **PLAIN).snapshot()
    expected = fuse(nodes, weighting=weighting, **PLAIN).snapshot()
    assert found.counts == expected.counts
    for kind in ("means", "spreads", "prototypes"):
        ours, theirs = getattr(found, kind), getattr(expected, kind)
        if kind == "prototypes":
            ours, theirs = ({p.label: p.values for p in each} for each in (ours, theirs))
        for label in expected.labels:
            assert list(ours[label].values()) == pytest.approx(
                list(theirs[label].values()), abs=1e-8
            )
    one, other = found.classifier(), expected.classifier()
    assert one.metric() == pytest.approx(other.metric(), rel=1e-7, abs=1e-12)
    for x in readings(world.read(5, 30)[0]):
        assert one.predict_proba_one(x) == pytest.approx(other.predict_proba_one(x), abs=1e-7)


def test_groups_need_names_of_their_own() -> None:
    _, nodes = some_nodes("GLVQ", 1)
    site = fuse(nodes[:2], **PLAIN).snapshot(called="site")
    assert site.node == "site" and fuse(nodes, **PLAIN).snapshot().node == "fused"
    assert fuse([site, *nodes[2:]], **PLAIN).nodes == ("n2", "n3", "site")
    with pytest.raises(SnapshotError, match="node: expected 1 to 200 printable"):
        fuse(nodes, **PLAIN).snapshot(called="")


# --- what must not change -------------------------------------------------------------------------


@pytest.mark.parametrize("drift", DRIFTS)
@pytest.mark.parametrize("name", list(MODELS))
def test_one_node_alone_gets_its_own_decisions_back(name: str, drift: Any) -> None:
    world = World.of(8)
    (node,) = fleet(MODELS[name], world, 1, 80)
    fused = fuse([node], drift=drift)
    own, given_back = node.classifier(), fused.for_node("n0")
    for x in readings(world.read(5, 40)[0]):
        assert given_back.predict_proba_one(x) == pytest.approx(own.predict_proba_one(x), abs=1e-6)
    report = fused.report
    assert not report.nodes["n0"].gained and report.components == (("n0",),)
    assert set(report.nodes["n0"].weights.values()) == {1.0}


@pytest.mark.parametrize("aggregator", ["mean", "median", "trimmed_mean", "geometric_median"])
@pytest.mark.parametrize("name", list(MODELS))
def test_nodes_that_say_the_same_give_that_model(name: str, aggregator: Any) -> None:
    world = World.of(9)
    (node,) = fleet(MODELS[name], world, 1, 80)
    fused = fuse([copied(node, f"twin {k}") for k in range(4)], aggregator=aggregator)
    own = node.classifier()
    for twin in fused.nodes:
        model = fused.for_node(twin)
        for x in readings(world.read(5, 20)[0]):
            assert model.predict_proba_one(x) == pytest.approx(own.predict_proba_one(x), abs=1e-6)
    assert not fused.report.warnings and fused.report.drift == "none"


@few
@given(seed=seeds)
@pytest.mark.parametrize("name", ["GLVQ", "LGMLVQ", "PairwiseLVQ"])
def test_a_shift_of_one_node_moves_its_model_and_no_other(name: str, seed: int) -> None:
    world = World.of(seed)
    known = random_known(seed, 3, 3, least=2)
    parts = [world.read(i, 60, known=known[i]) for i in range(3)]
    moved = np.random.default_rng(seed).normal(size=4) * world.unit * 4
    answers = []
    for offset in (0.0, moved):
        nodes = [
            Snapshot.of(learnt(MODELS[name](), X + offset * (i == 1), y), f"n{i}", readings=False)
            for i, (X, y) in enumerate(parts)
        ]
        fused = fuse(nodes, drift="least_squares")
        answers.append([to_node(fused.snapshot(f"n{i}")) for i in range(3)])
    before, after = answers
    for i in range(3):
        expected = moved if i == 1 else 0.0
        assert before[i].prototypes.keys() == after[i].prototypes.keys()
        for label, values in before[i].prototypes.items():
            found = np.array(after[i].prototypes[label])
            assert found == pytest.approx(np.array(values) + expected, rel=1e-5, abs=1e-6)
            found = np.array(after[i].means[label])
            assert found == pytest.approx(np.array(before[i].means[label]) + expected, abs=1e-6)


@few
@given(seed=seeds)
def test_order_of_features_and_labels_in_nodes_does_not_matter(seed: int) -> None:
    world = World.of(seed)
    random = np.random.default_rng(seed)
    straight, mixed = [], []
    for i in range(3):
        X, y = world.read(i, 40)
        samples = list(zip(readings(X), y, strict=True))
        one, other = streamlvq.GLVQ(rehearsal=0), streamlvq.GLVQ(rehearsal=0)
        for x, label in samples:
            one.learn_one(x, label)
        names = random.permutation(list(samples[0][0])).tolist()
        for x, label in samples:
            other.learn_one({name: x[name] for name in names}, label)
        straight.append(Snapshot.of(one, f"n{i}"))
        mixed.append(Snapshot.of(other, f"n{i}"))
    assert bits(fuse(mixed)) == bits(fuse(straight))


def test_the_gauge_is_reproducible() -> None:
    """Shifts have mean zero in each component, also when a node joins or the order changes."""
    _, nodes = some_nodes("GLVQ", 4)
    for drift in ("tree", "least_squares"):
        report = fuse(nodes, drift=drift, screen=False).report
        for group in report.components:
            for feature in report.features:
                total = sum(report.nodes[name].shift[feature] for name in group)
                assert total == pytest.approx(0.0, abs=1e-9)
        assert fuse(nodes[::-1], drift=drift, screen=False).report == report


# --- theorem 1: shifts are recovered exactly where they can be ------------------------------------


def noise_free(seed: int, n: int, classes: int, d: int) -> tuple[ClassTables, Any]:
    """Class means without any noise, of a fleet whose sharing graph is connected."""
    random = np.random.default_rng(seed)
    shift = random.normal(size=(n, d)) * 10.0 ** random.uniform(-2, 3, d)
    known = random_known(seed, n, classes)
    samples = np.zeros((n, classes))
    for i, mine in enumerate(known):
        samples[i, mine] = random.integers(1, 500, len(mine))
    count = np.repeat(samples[:, :, None], d, axis=2)
    mean = random.normal(size=(classes, d))[None] * 5 + shift[:, None]
    mean = np.where(count > 0, mean, 0.0)
    variance = np.where(count > 0, random.uniform(0.5, 2.0, (n, classes, d)), 0.0)
    names, spread = [f"n{i:02}" for i in range(n)], common_spread(count, variance)
    return ClassTables(names, samples, count, mean, variance, spread), shift


@modest
@given(seed=seeds, n=st.integers(2, 50), classes=st.integers(1, 8), d=st.integers(1, 4))
@pytest.mark.parametrize("drift", ["tree", "least_squares"])
def test_shifts_are_recovered_exactly(drift: str, seed: int, n: int, classes: int, d: int) -> None:
    tables, shift = noise_free(seed, n, classes, d)
    correction = get_correction(drift).estimate(tables)
    expected = shift - shift.mean(axis=0)
    assert np.abs(correction.shift - expected).max() <= 1e-9 * max(1.0, np.abs(shift).max())
    assert (correction.gain == 1.0).all()


@few
@given(seed=seeds, n=st.integers(2, 12))
@pytest.mark.parametrize("drift", ["tree", "least_squares"])
def test_and_models_with_them(drift: Any, seed: int, n: int) -> None:
    """Every class mean that a node never had is where it would have been."""
    world = World.of(seed, classes=4)
    random = np.random.default_rng(seed)
    shift = random.normal(size=(n, 4)) * world.unit
    nodes = []
    for i, mine in enumerate(random_known(seed, n, 4)):
        model = MODELS["GLVQ"]()
        for k in mine * 3:
            x = world.centres[k] * world.unit + shift[i]
            model.learn_one(readings(x[None])[0], world.labels[k])
        nodes.append(Snapshot.of(model, f"n{i}"))
    fused = fuse(nodes, drift=drift, screen=False)
    for i in range(n):
        found = to_node(fused.snapshot(f"n{i}"))
        assert len(found.means) == 4
        for k, label in enumerate(world.labels):
            expected = (world.centres[k] * world.unit + shift[i]).tolist()
            assert found.means[label] == pytest.approx(expected, abs=1e-9)


@modest
@given(seed=seeds, groups=st.integers(2, 4))
@pytest.mark.parametrize("drift", ["tree", "least_squares", "scale_shift"])
def test_groups_that_share_no_class_are_fused_by_themselves(
    drift: Any, seed: int, groups: int
) -> None:
    random = np.random.default_rng(seed)
    nodes, expected = [], []
    for g in range(groups):
        size = int(random.integers(1, 4))
        world = World.of(seed, labels=[f"g{g}a", f"g{g}b"])
        known = random_known(seed + g, size, 2)
        part = fleet(MODELS["GLVQ"], world, size, 20, g, known=known)
        part = [copied(node, f"{g}-{node.node}") for node in part]
        nodes += part
        expected.append(tuple(node.node for node in part))
    fused = fuse(nodes, drift=drift)
    assert fused.report.components == tuple(expected)
    assert f"{groups} groups" in " ".join(fused.report.warnings)
    for g, group in enumerate(expected):
        apart = fuse([n for n in nodes if n.node in group], drift=drift)
        for name in group:
            model, alone = fused.for_node(name), apart.for_node(name)
            assert set(model.classes) <= {f"g{g}a", f"g{g}b"}
            assert [p.values for p in model.prototypes()] == [
                pytest.approx(p.values) for p in alone.prototypes()
            ]
    if groups > 1:
        with pytest.raises(FusionError, match="share none"):
            fused.snapshot()
    raw = fuse(nodes, drift="none")
    assert len(raw.report.components) == 1
    assert set(raw.for_node(nodes[0].node).classes) == set(raw.snapshot().labels)


# --- gains ----------------------------------------------------------------------------------------


def test_gain_and_shift_are_recovered() -> None:
    world = World.of(2, classes=5, apart=4.0)
    gain = np.array([[1.0], [1.3], [0.7], [1.1]])
    shift = np.array([[0.0], [2.0], [-1.0], [4.0]])
    nodes = fleet(MODELS["LGMLVQ"], world, 4, 300, 5, gain=gain, shift=shift)
    fused = fuse(nodes, drift="scale_shift")
    found = np.array([list(fused.report.nodes[f"n{i}"].gain.values()) for i in range(4)])
    expected = gain / np.exp(np.log(gain).mean())
    assert np.abs(np.log(found / expected)).max() < 0.05
    for i in range(4):
        X, y = world.read(60 + i, 100, gain=gain[i], shift=shift[i])
        alone = accuracy(nodes[i].classifier(), X, y)
        assert accuracy(fused.for_node(f"n{i}"), X, y) > max(0.9, alone - 0.04)
    assert fuse(nodes).report.drift == "scale_shift"
    assert fuse(nodes).report.trials["scale_shift"] < fuse(nodes).report.trials["least_squares"]


def test_auto_corrects_nothing_where_there_is_nothing_to_correct() -> None:
    world = World.of(2, classes=4)
    fused = fuse(fleet(MODELS["GLVQ"], world, 5, 150))
    assert fused.report.drift == "none" and "no correction" in fused.report.why
    assert all(v == 0.0 for n in fused.report.nodes.values() for v in n.shift.values())


def test_scale_shift_of_pure_shifts_is_nearly_a_shift() -> None:
    world = World.of(2, classes=4)
    nodes = fleet(MODELS["GLVQ"], world, 4, 200, shift=np.array([[0.0], [1.0], [5.0], [-2.0]]))
    gains = fuse(nodes, drift="scale_shift").report.nodes.values()
    assert all(0.9 < v < 1.1 for node in gains for v in node.gain.values())
    assert fuse(nodes).report.drift == "least_squares"


# --- strange fleets -------------------------------------------------------------------------------

EVERY = pytest.mark.parametrize(
    ("name", "drift"),
    [*((name, "auto") for name in MODELS), *(("LGMLVQ", drift) for drift in DRIFTS[1:])],
)


def sane(fused: Any) -> None:
    """Everything that a fusion can be asked for is there and finite."""
    text = msgspec.json.encode(fused.report)
    for name in ("left_out", "cycle_residual", "metric_residual"):
        text = text.replace(f'"{name}":null'.encode(), b"")
    assert b"null" not in text  # NaN would become null
    assert fused.nodes == tuple(sorted(fused.report.nodes))
    for name in fused.nodes:
        snapshot = Snapshot.from_bytes(fused.snapshot(name).to_bytes())
        model = snapshot.classifier()
        assert snapshot.node == name
        chances = model.predict_proba_one(dict.fromkeys(model.features, 1.0))
        assert sum(chances.values()) == pytest.approx(1.0)
        assert len(chances) == len(model.classes)


@EVERY
def test_features_that_only_some_nodes_have(name: str, drift: Any) -> None:
    random = np.random.default_rng(5)
    nodes = []
    for i, features in enumerate(["ab", "bc", "abcd", "bd"]):
        model = MODELS[name]()
        for n in range(60):
            k = n % 3
            x = {f: 5.0 * k * (j + 1) + random.normal() + i for j, f in enumerate("abcd")}
            model.learn_one({f: x[f] for f in features}, f"c{k}")
        nodes.append(Snapshot.of(model, f"n{i}", readings=False))
    fused = fuse(nodes, drift=drift)
    sane(fused)
    assert fused.report.features == ("a", "b", "c", "d")
    for i in range(4):
        model = fused.for_node(f"n{i}")
        x = {f: 5.0 * 2 * (j + 1) + i for j, f in enumerate("abcd")}
        assert model.predict_one(x) == "c2"
        assert model.predict_one({"b": x["b"]}) == "c2"
        model.learn_one({**x, "e": 1.0}, "c2")  # a feature that is new to all
        assert model.predict_one(x) == "c2"


@pytest.mark.parametrize("drift", DRIFTS)
def test_features_that_no_two_nodes_share(drift: Any) -> None:
    nodes = []
    for f in "abc":
        model = streamlvq.LGMLVQ()
        for n in range(30):
            model.learn_one({f: 4.0 * (n % 2) + n % 5 / 10}, n % 2)
        nodes.append(Snapshot.of(model, f))
    fused = fuse(nodes, drift=drift)
    sane(fused)
    for f in "abc":
        model = fused.for_node(f)
        assert (model.predict_one({f: 0.2}), model.predict_one({f: 4.2})) == (0, 1)


@EVERY
def test_labels_of_mixed_types_in_different_orders(name: str, drift: Any) -> None:
    world = World.of(6, apart=5.0, labels=["on", 1, 2.5, "1"])
    known = [[0, 1, 2], [3, 2, 1], [1, 0, 3]]
    nodes = fleet(MODELS[name], world, 3, 80, known=known)
    fused = fuse(nodes, drift=drift)
    sane(fused)
    assert set(fused.for_node("n0").classes) == {"on", 1, 2.5, "1"}
    assert len(fused.report.labels) == 4 == len(set(fused.report.labels))
    for i in range(3):
        assert accuracy(fused.for_node(f"n{i}"), *world.read(50, 60)) > 0.9
        assert len(fused.report.nodes[f"n{i}"].counts) == 3


@EVERY
def test_missing_values(name: str, drift: Any) -> None:
    world = World.of(7, apart=5.0)
    random = np.random.default_rng(7)
    nodes = []
    for i in range(3):
        X, y = world.read(i, 80, shift=float(i))
        X[random.random(X.shape) < 0.3] = np.nan
        X[:, 3] = np.nan if i == 0 else X[:, 3]  # one node never has this feature
        nodes.append(Snapshot.of(learnt(MODELS[name](), X, y), f"n{i}", readings=False))
    fused = fuse(nodes, drift=drift)
    sane(fused)
    for i in range(3):
        X, y = world.read(30 + i, 60, shift=float(i))
        assert accuracy(fused.for_node(f"n{i}"), X, y) > (0.6 if drift == "none" else 0.85)


@EVERY
def test_constant_features(name: str, drift: Any) -> None:
    world = World.of(8)
    nodes = []
    for i in range(3):
        X, y = world.read(i, 60)
        X[:, 1] = 5.0  # everywhere the same
        X[:, 2] = 3.0 + i  # a constant of the node
        nodes.append(Snapshot.of(learnt(MODELS[name](), X, y), f"n{i}", readings=False))
    fused = fuse(nodes, drift=drift)
    sane(fused)
    for i in range(3):
        X, y = world.read(40, 60)
        X[:, 1], X[:, 2] = 5.0, 3.0 + i
        assert accuracy(fused.for_node(f"n{i}"), X, y) > 0.8


@EVERY
def test_huge_and_tiny_values(name: str, drift: Any) -> None:
    world = World.of(9)
    for size in (1e50, 1e-50):
        nodes = []
        for i in range(3):
            X, y = world.read(i, 60, shift=float(i))
            X[:, 0] *= size
            nodes.append(Snapshot.of(learnt(MODELS[name](), X, y), f"n{i}", readings=False))
        fused = fuse(nodes, drift=drift)
        sane(fused)
        if drift not in ("auto", "none"):
            X, y = world.read(41, 60, shift=1.0)
            X[:, 0] *= size
            assert accuracy(fused.for_node("n1"), X, y) > 0.9


@EVERY
def test_a_class_with_one_sample(name: str, drift: Any) -> None:
    world = World.of(10, apart=5.0)
    nodes = []
    for i in range(3):
        X, y = world.read(i, 60, known=[0, 1], shift=float(i))
        model = learnt(MODELS[name](), X, y)
        if i == 2:
            learnt(model, *world.read(9, 1, known=[2], shift=float(i)))
        nodes.append(Snapshot.of(model, f"n{i}", readings=False))
    fused = fuse(nodes, drift=drift)
    sane(fused)
    assert len(fused.for_node("n0").classes) == 3
    assert fused.report.nodes["n2"].counts[world.labels[2]] == 1
    if drift != "none":
        assert accuracy(fused.for_node("n0"), *world.read(42, 60)) > 0.8


@EVERY
def test_nodes_that_learnt_nothing(name: str, drift: Any) -> None:
    world = World.of(11)
    nodes = fleet(MODELS[name], world, 2, 60)
    watching = MODELS[name]()
    for x in readings(world.read(3, 20)[0]):
        watching.observe_one(x)
    blank = [Snapshot.of(MODELS[name](), "m"), Snapshot.of(watching, "z", readings=False)]
    fused = fuse([*nodes, *blank], drift=drift)
    sane(fused)
    assert fused.report.components == (("m", "n0", "n1", "z"),)
    for node in ("m", "z"):
        assert accuracy(fused.for_node(node), *world.read(43, 60)) > 0.9
        assert len(fused.report.nodes[node].gained) == 3
        assert not fused.report.nodes[node].weights and fused.report.nodes[node].samples == 0
    assert any("learnt nothing" in text for text in fused.report.warnings)
    assert accuracy(fused.snapshot().classifier(), *world.read(43, 60)) > 0.9


@EVERY
def test_one_class_only(name: str, drift: Any) -> None:
    world = World.of(12, apart=6.0)
    same = fuse(fleet(MODELS[name], world, 3, 20, known=[[0]] * 3), drift=drift)
    sane(same)
    assert same.for_node("n1").predict_one(readings(world.read(1, 1)[0])[0]) == world.labels[0]
    apart = fuse(fleet(MODELS[name], world, 3, 20, known=[[0], [1], [2]]), drift=drift)
    sane(apart)
    if drift == "none":
        # Nothing taught these metrics anything: of rank 2 they are random projections.
        least = 0.75 if "rank" in name else 0.9
        assert accuracy(apart.for_node("n1"), *world.read(44, 60)) > least
    else:
        assert apart.for_node("n1").classes == (world.labels[1],)
        assert not apart.report.nodes["n1"].gained
        assert any("share no class" in text for text in apart.report.warnings)


def test_two_nodes_with_two_samples() -> None:
    nodes = []
    for i in range(2):
        model = streamlvq.LGMLVQ()
        model.learn_one({"x": 1.0 + i}, "a")
        model.learn_one({"x": 5.0 + i}, "b")
        nodes.append(Snapshot.of(model, f"n{i}"))
    for drift in DRIFTS:
        fused = fuse(nodes, drift=drift)
        sane(fused)
        assert fused.for_node("n1").predict_one({"x": 6.0}) == "b"
    assert naive.components([{0, 1}, {0, 1}]) == [{0, 1}]
