"""Vetting: what no model can have learnt, prototypes that nobody else believes, own readings."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streamlvq
from streamlvq import Snapshot, fuse
from streamlvq.estimator import EstimatorState, build_estimator
from streamlvq.fusion import FusionError, fuse_rounds, network_models, receiver
from streamlvq.fusion.fused import own_snapshot
from streamlvq.fusion.node_models import Model, unpack
from streamlvq.fusion.personal import stored_readings
from streamlvq.fusion.plausibility import prototype_distances
from streamlvq.fusion.receiver import without_harmful, without_prototypes
from streamlvq.fusion.vetting import model_problem, squared_norms, unit_metrics, vet_nodes
from streamlvq.kernels import layout as at
from support.fusions import MODELS, World, accuracy, arrays_of, bits, copied, fleet, learnt
from support.samples import readings

modest = settings(derandomize=True, max_examples=5, deadline=None, database=None)
seeds = st.integers(0, 10_000)
LIAR = "n2"
MAKERS: dict[str, Callable[[], Any]] = MODELS | {
    "LGMLVQ, grown": streamlvq.LGMLVQ,
    "GMLVQ, grown": streamlvq.GMLVQ,
    "LGMLVQ, not scaled": lambda: streamlvq.LGMLVQ(standardize=False),
    "GMLVQ, sparse": lambda: streamlvq.GMLVQ(absent="zero"),
    "GMLVQ, forgetting": lambda: streamlvq.GMLVQ(half_life=30),
    "GRLVQ, as published": lambda: streamlvq.GRLVQ(step="published"),
    "MRSLVQ": streamlvq.MRSLVQ,
    "LMRSLVQ": streamlvq.LMRSLVQ,
    "RSLVQ": streamlvq.RSLVQ,
}


def model_of(snapshot: Snapshot) -> Model:
    return unpack([snapshot])[0].first


# --- honest nodes --------------------------------------------------------------------------------


def uneven_readings(seed: int, n: int) -> tuple[Any, list[str]]:
    """Readings in runs of classes, with gaps, a still feature, one that moves late, and flags."""
    random = np.random.default_rng(seed)
    y = np.repeat(random.integers(3, size=n // 10 + 1), 10)[:n]
    X = random.normal(size=(n, 6)) * 10.0 ** random.uniform(-4, 4, 6) + 1e5 * random.normal(size=6)
    X[:, 0] += y
    X[:, 1] = 7.0
    X[: n // 2, 2] = 3.0
    X[:, 3] = y == 1
    X[random.random(X.shape) < 0.1] = np.nan
    X[:, 4] = np.arange(n)  # drifts
    return X, [f"c{k}" for k in y]


@modest
@given(seed=seeds, n=st.integers(1, 120))
@pytest.mark.parametrize("name", list(MAKERS))
def test_nothing_honest_is_refused(name: str, seed: int, n: int) -> None:
    model = MAKERS[name]()
    X, y = uneven_readings(seed, n)
    for row, label in zip(X, y, strict=True):
        x = {f"f{k}": v for k, v in enumerate(row.tolist()) if np.isfinite(v)}
        model.learn_one(x, label)
    node = unpack([Snapshot.of(model, "a", readings=False)])[0]
    vetted = vet_nodes([node])
    assert vetted.refused == {}
    assert not vetted.rescaled
    assert vetted.nodes == [node]


def test_readings_without_labels_may_scatter_more() -> None:
    world = World.of(5)
    model = learnt(streamlvq.GMLVQ(), *world.read(1, 60))
    for x in readings(100.0 * world.read(2, 200)[0]):
        model.observe(x) if hasattr(model, "observe") else model.predict_one(x)
    assert model_problem(model_of(Snapshot.of(model, "a"))) is None


@pytest.mark.parametrize("name", ["GMLVQ", "LGMLVQ", "LGMLVQ of rank 2", "PairwiseLVQ"])
def test_what_was_fused_can_be_fused_again(name: str) -> None:
    world = World.of(8, classes=4)
    gain = np.array([[1.0], [3.0], [0.5], [1.0], [2.0], [1.0]])
    nodes = fleet(MODELS[name], world, 6, 80, 2, gain=gain)
    groups = [fuse(nodes[:3]), fuse(nodes[3:])]
    again = [group.snapshot(called=f"g{k}") for k, group in enumerate(groups)]
    report = fuse(again).report
    assert all(node.left_out is None for node in report.nodes.values())
    learner = again[0].classifier()  # and so can what was learnt on from it
    learnt(learner, *world.read(9, 5))
    assert model_problem(model_of(Snapshot.of(learner, "a"))) is None


def test_honest_fleets_whose_sensors_differ_widely_are_fused_whole() -> None:
    world = World.of(4, classes=4, apart=4.0)
    shift = np.array([[0.0], [300.0], [-20.0], [1e4], [5.0]])
    gain = np.array([[1.0], [8.0], [0.1], [2.0], [1.0]])
    for drift in ("auto", "scale_shift"):
        nodes = fleet(MODELS["GMLVQ"], world, 5, 150, 3, shift=shift, gain=gain)
        report = fuse(nodes, drift=drift).report
        assert [node.node for node in report.nodes.values() if node.left_out] == []


# --- norms of metrics ----------------------------------------------------------------------------


def test_norms_of_metrics_against_sums() -> None:
    world = World.of(2)
    for name in ("GRLVQ", "LGRLVQ", "GMLVQ", "LGMLVQ", "LGMLVQ of rank 2", "PairwiseLVQ"):
        model = model_of(Snapshot.of(learnt(MODELS[name](), *world.read(0, 40)), "a"))
        norms = squared_norms(model)
        for m, norm in enumerate(norms.tolist()):
            entries = model.arrays["omega"][m].ravel().tolist()
            assert norm == pytest.approx(sum(v * v for v in entries)) == pytest.approx(1.0)
    assert not len(squared_norms(model_of(fleet(MODELS["GLVQ"], world, 1)[0])))


@pytest.mark.parametrize("factor", [0.5, 1.1, 3.0])
def test_a_metric_in_another_unit_has_the_same_say(factor: float) -> None:
    """A liar gains nothing by a norm that is off by less than what is refused."""
    nodes = fleet(MODELS["LGMLVQ"], World.of(3, classes=4), 5, 80, 1)
    off = copied(nodes[2])
    arrays_of(off)["omega"][...] *= factor
    fused, expected = fuse([*nodes[:2], off, *nodes[3:]]), fuse(nodes)
    for node in fused.nodes:
        found = arrays_of(fused.snapshot(node))["omega"]
        assert found == pytest.approx(arrays_of(expected.snapshot(node))["omega"], abs=1e-9)
    assert [str(each) for each in fused.report.nodes[LIAR].clipped] == [
        "a metric whose norm is not 1 was scaled to it"
    ]
    model = model_of(off)
    assert squared_norms(unit_metrics(model)) == pytest.approx(1.0)
    assert squared_norms(model) == pytest.approx(factor**2)


# --- left out before anything is chosen ----------------------------------------------------------


def far_means(arrays: dict[str, Any], size: float, *, fitting: bool) -> None:
    """Class means in all directions, if wanted with scales of the node that fit them."""
    known = int(arrays["label"].max()) + 1
    sign = np.random.default_rng(1).choice([-1.0, 1.0], arrays["class_mean"][:known].shape)
    means = arrays["class_mean"][:known]
    means += size * sign * np.sqrt(arrays["class_variance"][:known])
    np.clip(means, -9e59, 9e59, out=means)
    if not fitting:
        return
    share = arrays["class_weight"][:known] / arrays["class_weight"][:known].sum(axis=0)
    arrays["mean"][...] = (share * means).sum(axis=0)
    within = arrays["class_variance"][:known]
    arrays["variance"][...] = (share * (within + (means - arrays["mean"]) ** 2)).sum(axis=0)
    arrays["peak"][...] = np.abs(means - arrays["mean"]).max(axis=0)
    arrays["inverse"][...] = 0.999 / np.sqrt(arrays["variance"])


def with_liar(nodes: list[Snapshot], lie: Callable[[dict[str, Any]], None]) -> list[Snapshot]:
    liar = copied(nodes[2])
    lie(arrays_of(liar))
    return [*nodes[:2], Snapshot.from_bytes(liar.to_bytes()), *nodes[3:]]


@pytest.mark.parametrize("fitting", [False, True])
@pytest.mark.parametrize("size", [1e3, 1e6, 1e9, 1e20, 9e59])
@pytest.mark.parametrize("name", ["GLVQ", "GMLVQ", "LGMLVQ"])
def test_class_means_that_no_sensor_can_have(name: str, size: float, fitting: bool) -> None:
    """The others have the model that they would have without that node."""
    world = World.of(21, classes=4, apart=4.0)
    shift = np.array([[0.0], [2.0], [-4.0], [5.0], [1.0]])
    nodes = fleet(MODELS[name], world, 5, 120, 3, shift=shift)
    fused = fuse(with_liar(nodes, lambda arrays: far_means(arrays, size, fitting=fitting)))
    without = fuse([node for node in nodes if node.node != LIAR])
    told = fused.report.nodes[LIAR]
    assert told.left_out is not None
    assert f"node {LIAR!r} was left out: {told.left_out}" in fused.report.warnings
    assert not any("has learnt nothing" in each for each in fused.report.warnings)
    assert (told.samples, sum(told.counts.values())) == (120, 120)  # what it says
    assert set(told.weights.values()) == {0.0}
    assert fused.report.drift == without.report.drift
    for node in without.nodes:
        found, expected = (arrays_of(each.snapshot(node)) for each in (fused, without))
        assert all(found[key] == pytest.approx(expected[key], rel=1e-6, abs=1e-9) for key in found)
    assert msgspec.json.encode(fused.report)


def test_an_offset_that_no_sensor_has() -> None:
    """All class means are off alike, and far enough to drown the others in rounding errors."""
    nodes = fleet(MODELS["GMLVQ"], World.of(21, classes=4), 5, 120, 3)

    def lie(arrays: dict[str, Any]) -> None:
        known = int(arrays["label"].max()) + 1
        for name in ("mean", "class_mean", "w"):
            arrays[name][...] += 1e9 * np.sqrt(arrays["variance"])
        assert known == 4

    told = fuse(with_liar(nodes, lie)).report.nodes[LIAR]
    assert told.left_out is not None and "from those of all others" in told.left_out


def test_who_is_left_out_decides_alone() -> None:
    nodes = fleet(MODELS["GMLVQ"], World.of(21, classes=4), 5, 120, 3)
    assert not any(fuse(nodes).is_left_out(node.node) for node in nodes)
    refused = fuse(with_liar(nodes, lambda arrays: far_means(arrays, 1e9, fitting=False)))
    assert [node for node in refused.nodes if refused.is_left_out(node)] == [LIAR]

    def flipped(arrays: dict[str, Any]) -> None:
        count = int((arrays["label"] >= 0).sum())
        arrays["label"][:count] = (arrays["label"][:count] + 1) % 4
        for name in ("class_mean", "class_variance"):
            arrays[name][:4] = np.roll(arrays[name][:4], 1, axis=0)

    screened = fuse(with_liar(nodes, flipped))
    assert [node for node in screened.nodes if screened.is_left_out(node)] == [LIAR]
    assert screened.report.nodes[LIAR].left_out is not None
    X, y = World.of(21, classes=4).read(99, 100)
    turned = [f"c{(int(label[1]) + 1) % 4}" for label in y]
    assert accuracy(screened.for_node(LIAR), X, turned) > 0.85  # its own model, not the others'
    assert accuracy(screened.for_node("n0"), X, y) > 0.85
    common = screened.snapshot(LIAR, private=False)  # where a round starts
    assert accuracy(common.classifier(), X, y) > 0.85


@pytest.mark.parametrize("name", ["GMLVQ", "LVQCommittee"])
def test_who_was_refused_is_served_its_own_model_everywhere(name: str) -> None:
    """Whatever serves nodes: one fusion, rounds, a network; nothing of its readings is in it."""
    world = World.of(21, classes=4)
    models = {f"n{i}": learnt(MODELS[name](), *world.read(i, 120)) for i in range(5)}
    nodes = [Snapshot.of(model, node) for node, model in models.items()]
    liar = copied(nodes[2])
    parts = liar.estimator_state().innermost
    for part in parts.parts.values() if parts.parts else [parts]:
        if "class_mean" in part.arrays:
            known = len(part.extra["classes"])
            part.arrays["class_mean"][:known] += 1e9 * np.sqrt(part.arrays["variance"])
    given = [*nodes[:2], liar, *nodes[3:]]
    own = own_snapshot(unpack([liar])[0])
    served = [fuse(given), fuse_rounds(given, rounds=1)]
    assert all(fused.is_left_out(LIAR) for fused in served)
    found = [fused.snapshot(LIAR) for fused in served]
    if name == "GMLVQ":
        found.append(network_models(given).snapshot(LIAR))
    for snapshot in found:
        assert not snapshot.has_readings
        assert snapshot.to_bytes() == own.to_bytes()
    assert served[0].for_node(LIAR).classes == own.classifier().classes


def test_order_does_not_matter_when_nodes_are_left_out() -> None:
    nodes = fleet(MODELS["LGMLVQ"], World.of(21, classes=4), 5, 60, 3)
    given = with_liar(nodes, lambda arrays: far_means(arrays, 1e9, fitting=False))
    assert bits(fuse(given)) == bits(fuse(given[::-1]))


def test_if_all_are_refused_the_error_says_why() -> None:
    (node,) = fleet(MODELS["GMLVQ"], World.of(1), 1)
    liar = copied(node)
    arrays_of(liar)["omega"] *= 100.0
    with pytest.raises(FusionError, match="'n0': the norm of a metric is 100"):
        fuse([liar])
    assert fuse([liar], screen=False).report.nodes["n0"].left_out is None  # as asked for


# --- prototypes that nobody else believes --------------------------------------------------------


def with_back_door(node: Snapshot, place: Any, label: str) -> Snapshot:
    """Move one prototype of a class to a place of another one; class statistics stay honest."""
    liar = copied(node)
    arrays = arrays_of(liar)
    own = np.flatnonzero(arrays["label"] == node.labels.index(label))
    arrays["w"][own[-1]] = place
    arrays["wins"][own[-1]] = arrays["wins"].max()
    return Snapshot.from_bytes(liar.to_bytes())


@pytest.mark.parametrize(
    "name", ["GLVQ", "GRLVQ", "GMLVQ", "LGMLVQ", "GMLVQ, grown", "LGMLVQ, grown"]
)
def test_a_back_door_stays_shut(name: str) -> None:
    """Readings of c1 with one feature five deviations off would be taken for c0."""
    world = World.of(33, d=8, classes=3, apart=2.0)
    nodes = fleet(MAKERS[name], world, 6, 200, 3)
    trigger = np.zeros(8)
    trigger[3] = 5.0
    place = (world.centres[1] + trigger) * world.unit
    given = [with_back_door(n, place, "c0") if n.node == LIAR else n for n in nodes]
    fused, honest = fuse(given), fuse(nodes)
    random = np.random.default_rng(4)
    X = (world.centres[1] + trigger + random.normal(size=(200, 8))) * world.unit
    triggered = readings(X)
    for node in ("n0", "n5"):
        turned = [fused.for_node(node).predict_one(x) == "c0" for x in triggered]
        before = [honest.for_node(node).predict_one(x) == "c0" for x in triggered]
        assert np.mean(turned) <= np.mean(before) + 0.02
        test = world.read(50, 100)
        assert (
            accuracy(fused.for_node(node), *test) >= accuracy(honest.for_node(node), *test) - 0.01
        )
    named = {each.kind for each in fused.report.nodes[LIAR].clipped}
    assert named & {"prototype_implausible", "prototype_unsupported", "prototype_drawn_back"}
    assert str(fused.report.nodes[LIAR].clipped[0]) in fused.report.text()
    plain = fuse(given, screen=False, byzantine=None, drift="none").for_node("n0")
    open_door = np.mean([plain.predict_one(x) == "c0" for x in triggered])
    assert "grown" not in name or open_door > 0.4  # it would have been wide open


def test_what_others_do_not_believe_stays_with_its_node() -> None:
    world = World.of(33, d=8, classes=3, apart=2.0)
    nodes = fleet(streamlvq.LGMLVQ, world, 5, 200, 3)
    trigger = np.zeros(8)
    trigger[3] = 5.0
    place = (world.centres[1] + trigger) * world.unit
    given = [with_back_door(n, place, "c0") if n.node == LIAR else n for n in nodes]
    fused = fuse(given)
    x = readings(place[None])[0]
    assert fused.for_node(LIAR).predict_one(x) == "c0"
    assert fused.for_node("n0").predict_one(x) != "c0"
    told = [str(each) for each in fused.report.nodes[LIAR].clipped]
    assert any("of class 'c0' did not count" in each for each in told)


def test_a_single_feature_is_drawn_back() -> None:
    """Five deviations in one of forty features are less than one deviation on average."""
    world = World.of(12, d=40, classes=3, apart=2.0)
    nodes = fleet(MODELS["GLVQ"], world, 5, 200, 3)
    liar = copied(nodes[2])
    arrays = arrays_of(liar)
    arrays["w"][0, 7] += 8.0 * np.sqrt(arrays["class_variance"][int(arrays["label"][0]), 7])
    fused, honest = fuse([*nodes[:2], liar, *nodes[3:]], drift="none"), fuse(nodes, drift="none")
    label = nodes[2].labels[int(arrays["label"][0])]
    places = [
        next(p.values for p in each.snapshot("n0").prototypes if p.label == label)
        for each in (fused, honest)
    ]
    moved = np.array(list(places[0].values())) - np.array(list(places[1].values()))
    assert np.abs(moved / world.unit).max() < 8.0 / 5.0 * 0.7


def test_a_class_that_only_one_node_has_is_named_and_kept() -> None:
    world = World.of(3, classes=4)
    nodes = fleet(MODELS["LGMLVQ"], world, 4, 80, 1, known=[[0, 1, 2]] * 3 + [[0, 1, 2, 3]])
    fused = fuse(nodes)
    assert "c3" in fused.for_node("n0").classes
    assert "only 'n3' claims c3" in fused.report.text()


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("kind", [at.EUCLIDEAN, at.DIAGONAL, at.MATRIX])
def test_distances_against_plain_sums(kind: int, shared: bool) -> None:
    random = np.random.default_rng(kind)
    places, w = random.normal(size=(5, 4)), random.normal(size=(3, 4))
    if not shared:
        places[0, 1] = w[2, 3] = np.nan
    inverse = np.array([1.0, 2.0, 0.5, 0.0])
    rank = {at.EUCLIDEAN: 0, at.DIAGONAL: 1, at.MATRIX: 2}[kind]
    omega: list[Any] = [random.normal(size=(rank, 4)) if rank else None for _ in w]
    if shared:
        omega = omega[:1] * 3
    found = prototype_distances(places, w, omega, inverse, kind)
    for n, x in enumerate(places.tolist()):
        for q, centre in enumerate(w.tolist()):
            z = [(a - b) * s for a, b, s in zip(x, centre, inverse.tolist(), strict=True)]
            rows = omega[q].tolist() if rank else []
            if kind == at.DIAGONAL or not rank:
                share = (
                    [1.0 / 3.0 if s > 0 else 0.0 for s in inverse.tolist()]
                    if not rank
                    else [v * v for v in rows[0]]
                )
                total = sum(s * v * v for s, v in zip(share, z, strict=True) if v == v)
            else:
                share = [sum(r[i] ** 2 for r in rows) for i in range(4)]
                total = sum(
                    sum(a * v for a, v in zip(r, z, strict=True) if v == v) ** 2 for r in rows
                )
            there = sum(s for s, v in zip(share, z, strict=True) if v == v)
            assert found[n, q] == pytest.approx(total * sum(share) / there)


# --- what a receiver sees on its own readings ----------------------------------------------------


def with_prototype(state: EstimatorState, row: int, place: Any) -> EstimatorState:
    arrays = {**state.arrays, "w": state.arrays["w"].copy()}
    arrays["w"][row] = place
    return dataclasses.replace(state, arrays=arrays)


@pytest.mark.parametrize("name", ["GLVQ", "GMLVQ", "LGMLVQ"])
def test_a_receiver_drops_prototypes_that_do_harm(name: str) -> None:
    world = World.of(5, classes=3, apart=4.0)
    make = getattr(streamlvq, name)
    local = learnt(make(rehearsal=2, prototypes_per_class=2), *world.read(1, 300))
    fused = learnt(make(prototypes_per_class=2), *world.read(2, 300)).state()
    labels = fused.extra["classes"]
    row = int(np.flatnonzero(fused.arrays["label"] == labels.index("c0"))[-1])
    bad = with_prototype(fused, row, world.centres[1] * world.unit)
    found, harmful = without_harmful(bad, stored_readings(local.state()))
    assert [each.label for each in harmful] == ["c0"] and harmful[0].stolen > 5
    assert harmful[0].readings == stored_readings(local.state()).labels.count("c1")
    test = world.read(3, 300)
    before, after = (accuracy(build_estimator(each), *test) for each in (bad, found))
    assert after > before + 0.05 and after > 0.95
    again, nothing = without_harmful(found, stored_readings(local.state()))
    assert again is found and nothing == ()


def test_a_receiver_leaves_good_models_alone() -> None:
    world = World.of(5, classes=3, apart=2.0)
    for name in ("GMLVQ", "LGMLVQ", "PairwiseLVQ", "LVQCommittee"):
        local = learnt(getattr(streamlvq, name)(), *world.read(1, 300))
        fused = learnt(getattr(streamlvq, name)(), *world.read(2, 300)).state()
        found, harmful = without_harmful(fused, stored_readings(local.state()))
        assert harmful == () and found is fused


def test_a_receiver_takes_what_sparse_readings_do_not_mention_for_zero() -> None:
    world = World.of(5, classes=3)
    state = learnt(streamlvq.GMLVQ(absent="zero"), *world.read(2, 100)).state()
    local = learnt(streamlvq.GMLVQ(absent="zero"), *world.read(1, 50))
    whole = stored_readings(local.state())
    named = dataclasses.replace(whole, rows=np.where([1, 1, 1, 0], whole.rows, 0.0))
    silent = dataclasses.replace(whole, rows=whole.rows[:, :3], features=whole.features[:3])
    found, expected = (receiver._Jury.of(state, each).distances for each in (silent, named))
    np.testing.assert_array_equal(found, expected)


def test_the_last_prototype_of_a_class_stays() -> None:
    world = World.of(5, classes=3, apart=4.0)
    local = learnt(streamlvq.GMLVQ(rehearsal=2), *world.read(1, 300))
    fused = learnt(MODELS["GMLVQ"](), *world.read(2, 300)).state()
    row = int(np.flatnonzero(fused.arrays["label"] == fused.extra["classes"].index("c0"))[0])
    bad = with_prototype(fused, row, world.centres[1] * world.unit)
    assert without_harmful(bad, stored_readings(local.state()))[1] == ()


@pytest.mark.parametrize("name", ["GLVQ", "GMLVQ", "LGMLVQ", "LGMLVQ of rank 2"])
def test_without_prototypes_the_others_decide_as_before(name: str) -> None:
    world = World.of(6, classes=3)
    make = {"LGMLVQ of rank 2": lambda **o: streamlvq.LGMLVQ(rank=2, **o)}.get(
        name, getattr(streamlvq, name.split(maxsplit=1)[0])
    )
    state = learnt(make(prototypes_per_class=3, rehearsal=1), *world.read(1, 200)).state(
        readings=True
    )
    count = state.extra["sizes"]["prototypes"]
    label = state.arrays["label"][:count]
    rows = np.array([int(np.flatnonzero(label == k)[1]) for k in range(3)])
    left = without_prototypes(state, np.sort(rows))
    model, whole = build_estimator(left), build_estimator(state)
    kept = [k for k in range(count) if k not in rows.tolist()]
    assert left.arrays["w"][: len(kept)].tolist() == state.arrays["w"][kept].tolist()
    nearest = 0
    metrics = state.arrays.get("omega")
    for x in world.read(2, 50)[0]:
        d = prototype_distances(
            x[None],
            state.arrays["w"][:count],
            [
                None if metrics is None else metrics[k if len(metrics) > 1 else 0]
                for k in range(count)
            ],
            state.arrays["inverse"],
            at.EUCLIDEAN if metrics is None else at.MATRIX,
        )[0]
        row = readings(x[None])[0]
        assert whole.predict_one(row) == state.extra["classes"][label[int(d.argmin())]]
        best = min(kept, key=lambda k: d[k])
        assert model.predict_one(row) == state.extra["classes"][label[best]]
        nearest += 1
    assert nearest == 50
    learnt(model, *world.read(4, 60))  # and it can go on learning
    assert Snapshot.from_bytes(Snapshot.of(model, "a").to_bytes()).samples == 260
