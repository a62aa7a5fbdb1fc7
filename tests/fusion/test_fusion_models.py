"""What comes out of a fusion: classifiers like any other, a report, clear errors."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import numpy as np
import pytest

import streamlvq
from streamlvq import (
    FeatureTransform,
    ProbabilityRejector,
    RelSimRejector,
    Snapshot,
    TimeIntegrator,
    fuse,
)
from streamlvq.errors import SnapshotError
from streamlvq.fusion import Fused, FusionError, FusionReport, new_node
from streamlvq.fusion.node_models import group_compatible
from support.fusions import MODELS, World, accuracy, arrays_of, copied, first, fleet, learnt
from support.samples import readings

SHIFT = np.array([[0.0], [2.0], [-3.0], [1.0]])
KNOWN = [[0, 1, 2], [1, 2, 3], [0, 2, 3], [0, 1, 3]]
GLOBAL = ["GLVQ", "GRLVQ", "GMLVQ", "GMLVQ of rank 2"]


@pytest.fixture(scope="module")
def world() -> World:
    return World.of(31, classes=4, apart=4.0)


@pytest.fixture(scope="module")
def fleets(world: World) -> dict[str, list[Snapshot]]:
    return {
        name: fleet(make, world, 4, 100, shift=SHIFT, known=KNOWN) for name, make in MODELS.items()
    }


@pytest.fixture(params=list(MODELS))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def fused(name: str, fleets: dict[str, list[Snapshot]]) -> Fused:
    return fuse(fleets[name])


# --- classifiers ----------------------------------------------------------------------------------


def test_each_call_gives_a_new_classifier(fused: Fused, world: World) -> None:
    model, other = fused.for_node("n1"), fused.for_node("n1")
    x = readings(world.read(5, 1, shift=2.0)[0])[0]
    before = other.predict_proba_one(x)
    for _ in range(20):
        model.learn_one(x, "c3")
    assert other.predict_proba_one(x) == before == fused.for_node("n1").predict_proba_one(x)


def test_it_can_go_on_learning(fused: Fused, world: World) -> None:
    model = fused.for_node("n1")
    test = world.read(70, 100, shift=2.0)
    before = accuracy(model, *test)
    learnt(model, *world.read(71, 100, shift=2.0))
    assert accuracy(model, *test) >= before - 0.03
    learnt(model, world.read(72, 1)[0] + 500.0, ["new"])
    assert "new" in model.classes
    assert model.predict_one(readings(world.read(72, 1)[0] + 500.0)[0]) == "new"


@pytest.mark.parametrize("name", GLOBAL)
def test_nothing_jumps_when_it_does(fused: Fused, world: World) -> None:
    """Scales are as the model itself would have them, so one sample moves little."""
    model = fused.for_node("n1")
    X, y = world.read(70, 40, shift=2.0)
    before = model.predict_proba_array(X)
    scales = model.scales()
    learnt(model, X[:1], y[:1])
    assert np.abs(model.predict_proba_array(X) - before).max() < 0.1
    for feature, scale in model.scales().items():
        assert scale == pytest.approx(scales[feature], rel=0.03)


def test_scales_do_not_jump_in_any_member(fused: Fused, world: World) -> None:
    model = fused.for_node("n0")
    members = model.parts.values() if hasattr(model, "parts") else (model,)
    before = [member.scales() for member in members]
    learnt(model, *world.read(70, 1))
    for member, scales in zip(members, before, strict=True):
        assert list(member.scales().values()) == pytest.approx(list(scales.values()), rel=0.03)


def test_it_can_be_kept_and_taken_up_again(fused: Fused, world: World) -> None:
    model = fused.for_node("n2")
    twin = Snapshot.from_bytes(Snapshot.of(model, "n2").to_bytes()).classifier()
    X, y = world.read(70, 30, shift=-3.0)
    for one in (model, twin):
        learnt(one, X, y)
    for x in readings(X):
        assert model.predict_proba_one(x) == twin.predict_proba_one(x)
    again = fuse([Snapshot.of(model, "n2"), fused.snapshot("n0")])
    assert again.nodes == ("n0", "n2")


def test_it_explains_itself(fused: Fused, world: World) -> None:
    model = fused.for_node("n3")
    X, _ = world.read(70, 20, shift=1.0)
    for x in readings(X):
        chances = model.predict_proba_one(x)
        assert sum(chances.values()) == pytest.approx(1.0) and set(chances) == set(world.labels)
        explanation = model.explain_one(x)
        assert explanation.label in world.labels
        assert np.isfinite(list(explanation.features.values())).all()
    inner = first(model)
    assert {p.label for p in inner.prototypes()} == set(world.labels)
    assert sum(inner.relevances().values()) == pytest.approx(1.0)
    assert np.linalg.eigvalsh(inner.metric()).min() > -1e-9
    assert np.isfinite(inner.metric()).all()


def test_arrays_and_dictionaries_agree(fused: Fused, world: World) -> None:
    model = fused.for_node("n0")
    X, _ = world.read(70, 20)
    rows = model.predict_proba_array(X, features=list(readings(X)[0]))
    for x, row in zip(readings(X), rows, strict=True):
        assert list(model.predict_proba_one(x).values()) == pytest.approx(row.tolist())


def test_it_can_be_wrapped(fused: Fused, name: str, world: World) -> None:
    rejector = ProbabilityRejector if name == "PairwiseLVQ" else RelSimRejector
    model = rejector(TimeIntegrator(fused.for_node("n1"), window=3), target_rate=0.1)
    X, y = world.read(70, 60, shift=2.0)
    for x, label in zip(readings(X), y, strict=True):
        model.predict_one(x)
        model.learn_one(x, label)
    snapshot = Snapshot.of(model, "n1")
    assert Snapshot.from_bytes(snapshot.to_bytes()).samples == snapshot.samples
    # What is around a model does not matter when it is fused.
    inside = Snapshot.of(model.classifier.classifier, "n1")
    for others in ([], [fused.snapshot("n0")]):
        one, other = fuse([snapshot, *others]), fuse([inside, *others])
        assert one.snapshot("n1").to_bytes() == other.snapshot("n1").to_bytes()


def test_parameters_are_those_of_the_node(world: World) -> None:
    nodes = []
    for i, rate in enumerate((0.01, 0.02, 0.03)):
        model = streamlvq.GLVQ(learning_rate=rate, seed=i, half_life=50.0 * (i + 1))
        nodes.append(Snapshot.of(learnt(model, *world.read(i, 60)), f"n{i}"))
    fused = fuse(nodes)
    assert [fused.for_node(f"n{i}").learning_rate for i in range(3)] == [0.01, 0.02, 0.03]
    assert [fused.for_node(f"n{i}").half_life for i in range(3)] == [50.0, 100.0, 150.0]


@pytest.mark.parametrize("make", [streamlvq.GLVQ, streamlvq.LGMLVQ])
def test_what_all_must_have_in_common_is_decided_by_most(make: Any, world: World) -> None:
    nodes = [
        Snapshot.of(
            learnt(make(standardize=i != 1, scale_floor=0.1 * i), *world.read(i, 80)), f"n{i}"
        )
        for i in range(3)
    ]
    fused = fuse(nodes)
    for i in range(3):
        model = fused.for_node(f"n{i}")
        assert model.standardize and model.scale_floor == pytest.approx(0.1)
        before = model.scales()
        assert accuracy(model, *world.read(70, 60)) > 0.95
        learnt(model, *world.read(71, 1))
        assert model.scales() == pytest.approx(before, rel=0.03)


def test_models_that_scale_nothing(world: World) -> None:
    nodes = [
        Snapshot.of(
            learnt(streamlvq.GMLVQ(standardize=False), *world.read(i, 80, shift=SHIFT[i])), f"n{i}"
        )
        for i in range(4)
    ]
    fused = fuse(nodes)
    assert "scale_shift" not in fused.report.trials
    for i in range(4):
        assert accuracy(fused.for_node(f"n{i}"), *world.read(70, 60, shift=SHIFT[i])) > 0.9
        assert set(fused.for_node(f"n{i}").scales().values()) == {1.0}
    with pytest.raises(FusionError, match="standardize=True"):
        fuse(nodes, drift="scale_shift")


@pytest.mark.parametrize("kind", ["GLVQ", "GRLVQ", "GMLVQ", "LGMLVQ"])
def test_models_of_sparse_readings_are_fused_without_gains(kind: str) -> None:
    nodes = [sparse_node(kind, i, gain=1.0 + i) for i in range(4)]
    fused = fuse(nodes)
    assert fused.report.trials and "scale_shift" not in fused.report.trials
    for i in range(4):
        assert fused.for_node(f"n{i}").predict_one({"w1": 3.0 + 3.0 * i}) == "c1"
    with pytest.raises(FusionError, match='absent="zero"'):
        fuse(nodes, drift="scale_shift")


def sparse_node(kind: str, node: int, gain: float) -> Snapshot:
    """Counts of nine words; each class has three that it uses more."""
    random = np.random.default_rng(node)
    model = getattr(streamlvq, kind)(absent="zero")
    for k in range(90):
        rates = np.where(np.arange(9) % 3 == k % 3, 2.0, 0.2)
        counts = random.poisson(rates) * gain
        model.learn_one({f"w{j}": c for j, c in enumerate(counts.tolist()) if c}, f"c{k % 3}")
    return Snapshot.of(model, f"n{node}")


@pytest.mark.parametrize(
    ("learner", "follower"),
    [
        (streamlvq.GLVQ, streamlvq.LGMLVQ),
        (streamlvq.LGMLVQ, streamlvq.GRLVQ),
        (streamlvq.PairwiseLVQ, streamlvq.GLVQ),
        (lambda: streamlvq.LGMLVQ(rank=2), lambda: streamlvq.GMLVQ(standardize=False)),
    ],
)
def test_members_of_a_committee_are_fused_each_as_what_it_is(
    learner: Any, follower: Any, world: World
) -> None:
    committee = streamlvq.LVQCommittee(members={"learner": learner(), "follower": follower()})
    nodes = fleet(committee.clone, world, 4, 100, shift=SHIFT, known=KNOWN)
    fused = fuse(nodes)
    for i in range(4):
        model = fused.for_node(f"n{i}")
        assert accuracy(model, *world.read(70, 80, shift=SHIFT[i])) > 0.85
        for member, alone in zip(model.parts.values(), (learner(), follower()), strict=True):
            assert type(member) is type(alone) and member.standardize == alone.standardize
    weights = np.array([pool_weights(node) for node in nodes])
    assert (weights.min(axis=0) <= pool_weights(fused.snapshot("n0"))).all()
    assert (pool_weights(fused.snapshot("n0")) <= weights.max(axis=0)).all()


def pool_weights(snapshot: Snapshot) -> Any:
    """The weights of learner and follower in each pool."""
    return snapshot.estimator_state().innermost.arrays["fitted"][:, 1:3]


HOME = ["forest", "bins"]  # members that stay at home


@pytest.fixture(scope="module")
def mixed(world: World) -> list[Snapshot]:
    """Nodes with trees and bins beside their prototypes, one of them without."""
    nodes = []
    for i, shift in enumerate(SHIFT):
        members = ["learner", "follower", *(HOME if i < 3 else [])]
        model = streamlvq.LVQCommittee(members=members)
        learnt(model, *world.read(i, 150, shift=shift, known=KNOWN[i]))
        nodes.append(Snapshot.of(model, f"n{i}"))
        assert list(nodes[i].members) == members
    return nodes


def published(nodes: list[Snapshot]) -> list[Snapshot]:
    return [
        Snapshot.of(node.classifier(), node.node, readings=False, created=node.created)
        for node in nodes
    ]


def test_trees_and_bins_are_not_published(mixed: list[Snapshot], world: World) -> None:
    for node, sent in zip(mixed, published(mixed), strict=True):
        assert list(sent.members) == list(sent.weights) == ["learner", "follower"]
        arrays = arrays_of(sent)
        assert {name.partition("/")[0] for name in arrays} == {"learner", "follower", "fitted"}
        read = Snapshot.from_bytes(sent.to_bytes())
        assert read.classifier().state(readings=False).same_as(sent.estimator_state())
        # Weights of a pool of four would be too small for the two: theirs were fitted alone.
        core = node.estimator_state().innermost.arrays["fitted"][-1, 1:3]
        if node.node != "n3":
            assert list(sent.weights.values()) == pytest.approx(core.tolist(), abs=1 / 128)
        i = int(node.node[1])
        test = world.read(70, 200, shift=SHIFT[i], known=KNOWN[i])
        assert accuracy(sent.classifier(), *test) > accuracy(node.classifier(), *test) - 0.05


def test_committees_are_fused_without_what_stays_at_home(mixed: list[Snapshot]) -> None:
    whole, sent = fuse(mixed), fuse(published(mixed))
    for name in whole.nodes:
        model = whole.for_node(name)
        assert list(model.parts) == ["learner", "follower"]
        assert model.classes == sent.for_node(name).classes
        assert pool_weights(whole.snapshot(name)) == pytest.approx(
            pool_weights(sent.snapshot(name))
        )
        assert whole.snapshot(name).means == sent.snapshot(name).means


def test_a_fused_committee_is_served_beside_a_local_one_with_trees(
    mixed: list[Snapshot], world: World
) -> None:
    fused = fuse(published(mixed)).for_node("n0")
    assert set(fused.classes) == {"c0", "c1", "c2", "c3"}  # one more than the node has seen
    assert accuracy(fused, *world.read(70, 200, shift=SHIFT[0])) > 0.85
    rejector = RelSimRejector(mixed[0].classifier(), target_rate=0.1)
    served = rejector.moved_to(fused)
    x = readings(world.read(71, 1)[0])[0]
    assert served.decide_one(x).label in fused.classes


@pytest.mark.parametrize("members", [["forest"], ["bins", "forest"]])
def test_a_committee_of_trees_alone_has_nothing_to_share(members: list[str], world: World) -> None:
    model = learnt(streamlvq.LVQCommittee(members=members), *world.read(1, 60))
    assert not model.shareable
    with pytest.raises(SnapshotError, match="expected a member that can be shared"):
        Snapshot.of(model, readings=False)
    with pytest.raises(FusionError, match=r"node 'a': .*got a LVQCommittee\((Win|Binned)"):
        fuse([Snapshot.of(model, "a")])


@pytest.mark.parametrize("samples", [0, 60])
def test_a_committee_of_trees_alone_does_not_keep_the_others_from_being_fused(
    mixed: list[Snapshot], world: World, samples: int
) -> None:
    trees = streamlvq.LVQCommittee(members=["forest", "bins"])
    evil = Snapshot.of(learnt(trees, *world.read(1, samples)) if samples else trees, "evil")
    good, alone = group_compatible([*mixed, evil])
    assert alone == [evil]
    assert [each.node for each in good] == sorted(each.node for each in mixed)
    with pytest.raises(FusionError, match=r"node 'evil': expected models of prototypes"):
        fuse([*mixed, evil])


# --- transforms and newcomers ---------------------------------------------------------------------


def transformed(gains: list[float], transform: str = "log", **options: Any) -> list[Snapshot]:
    """Nodes whose sensors differ by gain, which for a logarithm is a shift."""
    nodes = []
    for i, gain in enumerate(gains):
        model = FeatureTransform(streamlvq.LGMLVQ(), transform, **options)
        for x, label in gained(i, gain, 90):
            model.learn_one(x, label)
        nodes.append(Snapshot.of(model, f"n{i}"))
    return nodes


def gained(seed: int, gain: float, n: int) -> list[tuple[dict[str, float], str]]:
    random = np.random.default_rng(seed)
    typical = {"low": (2.0, 30.0), "mid": (5.0, 20.0), "high": (12.0, 8.0)}
    found = []
    for k in range(n):
        label = list(typical)[k % 3]
        values = gain * random.lognormal(np.log(typical[label]), 0.15)
        found.append((dict(zip(("u", "v"), values.tolist(), strict=True)), label))
    return found


def right(model: Any, samples: list[tuple[dict[str, float], str]]) -> float:
    return float(np.mean([model.predict_one(x) == label for x, label in samples]))


def test_models_of_transformed_readings_take_readings_of_sensors() -> None:
    gains = [1.0, 2.5, 0.4, 6.0]
    fused = fuse(transformed(gains))
    assert fused.report.drift == "least_squares"
    for i, gain in enumerate(gains):
        model = fused.for_node(f"n{i}")
        assert isinstance(model, FeatureTransform) and model.transform == "log"
        assert fused.snapshot(f"n{i}").transform == ("log", None)
        assert right(model, gained(50 + i, gain, 90)) > 0.95
        prototype = next(p for p in model.prototypes() if p.label == "low")
        assert prototype.values["v"] == pytest.approx(30.0 * gain, rel=0.3)
        with pytest.raises(ValueError, match="above 0"):
            model.predict_one({"u": -1.0, "v": 1.0})
    first_shift = fused.report.nodes["n1"].shift["u"] - fused.report.nodes["n0"].shift["u"]
    assert first_shift == pytest.approx(np.log(2.5), abs=0.1)


def test_a_newcomer_may_see_transformed_readings_too() -> None:
    fused = fuse(transformed([1.0, 2.5, 0.4, 6.0]))
    few = gained(80, 3.0, 5)
    model = new_node(fused, [x for x, _ in few], [label for _, label in few], name="late")
    assert isinstance(model, FeatureTransform)
    assert right(model, gained(81, 3.0, 90)) > 0.9
    with pytest.raises(ValueError, match="above 0"):
        new_node(fused, [{"u": 0.0, "v": 1.0}], ["low"])


def test_transforms_must_be_the_same() -> None:
    log = transformed([1.0, 2.0])
    for other in (transformed([1.0], "sqrt"), transformed([1.0], "log", features=["u"])):
        with pytest.raises(FusionError, match="same transform"):
            fuse([*log, copied(other[0], "z")])
    plain = Snapshot.of(streamlvq.LGMLVQ(), "z")
    with pytest.raises(FusionError, match="of transformed features"):
        fuse([*log, plain])


def test_the_order_in_which_features_to_transform_are_named_does_not_matter() -> None:
    one = transformed([1.0], features=["u", "v"])[0]
    other = copied(transformed([2.0], features=["v", "u"])[0], "z")
    assert fuse([one, other]).nodes == ("n0", "z")


def test_a_newcomer_needs_a_handful_of_readings(fused: Fused, world: World) -> None:
    shift = 5.0
    for size, seed in ((1, 0), (4, 1), (10, 2)):
        X, y = world.read(200 + seed, size, shift=shift, known=[0, 1])
        model = new_node(fused, readings(X), y)
        assert accuracy(model, *world.read(90, 100, shift=shift)) > (0.6 if size == 1 else 0.85)
    assert (
        model.predict_one(readings(world.centres[3:] * world.unit + shift * world.unit)[0]) == "c3"
    )
    model.learn_one(readings(X)[0], y[0])
    assert Snapshot.of(model, "new").samples > 100


def test_a_newcomer_may_come_as_an_array_with_gaps(fused: Fused, world: World) -> None:
    X, y = world.read(201, 8, shift=5.0)
    names = list(fused.report.features)
    model = new_node(fused, X, y)
    same = new_node(fused, X[:, ::-1], y, features=names[::-1])
    test = world.read(90, 40, shift=5.0)[0]
    assert model.predict_proba_array(test) == pytest.approx(same.predict_proba_array(test))
    X[0, 1] = np.nan
    more = [{**x, "unknown": 1.0} for x in readings(X)]
    assert accuracy(new_node(fused, more, np.array(y)), *world.read(90, 100, shift=5.0)) > 0.85
    part = [{names[0]: x[names[0]]} for x in readings(X)]
    assert set(new_node(fused, part, y).features) == set(names)


def test_of_a_newcomer_something_must_be_known(fused: Fused, world: World) -> None:
    X, _ = world.read(201, 2)
    with pytest.raises(FusionError, match="one of the classes"):
        new_node(fused, readings(X), ["never", "heard"])
    with pytest.raises(FusionError, match="a label for each"):
        new_node(fused, readings(X), ["c0"])


def test_a_newcomer_joins_the_group_that_it_shares_classes_with() -> None:
    groups = [World.of(1, labels=["a", "b"], apart=5.0), World.of(2, labels=["c", "d"], apart=5.0)]
    nodes = [
        copied(node, f"{g}{node.node}")
        for g, world in enumerate(groups)
        for node in fleet(MODELS["GLVQ"], world, 2, 40, shift=np.array([[0.0], [1.0]]))
    ]
    fused = fuse(nodes, drift="least_squares")
    for world in groups:
        X, y = world.read(3, 4, shift=0.5)
        assert set(new_node(fused, readings(X), y).classes) == set(world.labels)


# --- report ---------------------------------------------------------------------------------------


def test_a_report_says_who_gave_and_got_what(fused: Fused, world: World) -> None:
    report = fused.report
    assert fused.report is report  # put together once
    assert list(report.nodes) == ["n0", "n1", "n2", "n3"] and fused.nodes == tuple(report.nodes)
    assert report.components == (("n0", "n1", "n2", "n3"),)
    assert report.labels == tuple(world.labels) and len(report.features) == 4
    assert (report.weighting, report.aggregator, report.drift) == (
        "samples",
        "mean",
        "least_squares",
    )
    assert set(report.trials) == {"none", "least_squares", "scale_shift"}
    assert report.trials["least_squares"] < report.trials["none"]
    assert report.cycle_residual is not None and report.cycle_residual < 0.5
    assert report.raw_residual > report.cycle_residual
    for label in report.labels:
        shares = [node.weights.get(label, 0.0) for node in report.nodes.values()]
        assert sum(shares) == pytest.approx(1.0) and max(shares) <= 0.5 + 1e-9
    for i, node in enumerate(report.nodes.values()):
        assert node.samples == 100 == sum(node.counts.values())
        assert set(node.counts) == {world.labels[k] for k in KNOWN[i]} == set(node.weights)
        assert node.gained == tuple(label for label in world.labels if label not in node.counts)
        assert node.left_out is None and node.residual < 1.0 and node.drift > 0.0
        assert set(node.gain.values()) == {1.0}
        shift = np.array(list(node.shift.values())) / world.unit
        assert shift == pytest.approx((SHIFT[i] - SHIFT.mean()) * np.ones(4), abs=0.6)
    assert {(edge.a, edge.b) for edge in report.edges} == {
        (f"n{i}", f"n{j}") for i in range(4) for j in range(i + 1, 4)
    }
    for edge in report.edges:
        shared = set(KNOWN[int(edge.a[1])]) & set(KNOWN[int(edge.b[1])])
        assert edge.shared == tuple(world.labels[k] for k in sorted(shared))
        assert 0.0 <= edge.residual < 1.0


def test_a_report_is_json_without_gaps(fused: Fused) -> None:
    text = msgspec.json.encode(fused.report)
    assert msgspec.json.decode(text, type=FusionReport) == fused.report
    json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} in a report"))

    def check(value: Any) -> None:
        if isinstance(value, float):
            assert np.isfinite(value)
        for each in value.values() if isinstance(value, dict) else ():
            check(each)
        for each in value if isinstance(value, (list, tuple)) else ():
            check(each)

    check(msgspec.to_builtins(fused.report))


def test_edges_look_only_at_features_that_both_have() -> None:
    nodes = []
    for i, names in enumerate((["a", "b"], ["a"])):
        model = streamlvq.GLVQ()
        for k in range(40):
            x = {"a": 4.0 * (k % 2) + k % 5 / 5, "b": 1000.0 + k % 2 * 5 + k % 3}
            model.learn_one({name: x[name] for name in names}, k % 2)
        nodes.append(Snapshot.of(model, f"n{i}"))
    (edge,) = fuse(nodes).report.edges
    assert edge.residual == pytest.approx(0.0, abs=1e-9)


def test_what_a_shift_does_not_explain_is_said() -> None:
    nodes = []
    for i in range(4):
        world = World.of(i, classes=4)  # of every node another one
        nodes.append(
            Snapshot.of(learnt(streamlvq.GLVQ(), *world.read(i, 60)), f"n{i}", readings=False)
        )
    report = fuse(nodes, drift="least_squares", screen=False).report
    assert any("shifts of sensors do not explain" in text for text in report.warnings)
    raw = fuse(nodes, drift="none", screen=False).report
    assert any("measure different things" in text for text in raw.warnings)


def test_classes_that_few_have_are_unprotected(fleets: dict[str, list[Snapshot]]) -> None:
    assert fuse(fleets["GLVQ"]).report.unprotected == ()
    assert fuse(fleets["GLVQ"][:2]).report.unprotected == ("c0", "c1", "c2", "c3")


# --- errors ---------------------------------------------------------------------------------------


def test_nothing_to_fuse() -> None:
    with pytest.raises(FusionError, match="at least one snapshot, got none"):
        fuse([])
    with pytest.raises(FusionError, match="learnt something, got none"):
        fuse([Snapshot.of(streamlvq.GLVQ(), "a")])
    with pytest.raises(FusionError, match="expected snapshots, got GLVQ"):
        fuse([streamlvq.GLVQ()])  # type: ignore[list-item]


def test_a_node_that_counted_nothing_cannot_be_fused_alone(world: World) -> None:
    (node,) = fleet(MODELS["GLVQ"], world, 1)
    liar = copied(node)
    arrays_of(liar)["class_count"][:] = 0.0
    with pytest.raises(FusionError, match="counted"):
        fuse([liar])
    assert fuse([liar, copied(node, "other")]).for_node("n0").classes == node.labels


def test_other_types(fleets: dict[str, list[Snapshot]]) -> None:
    glvq, gmlvq = fleets["GLVQ"][0], copied(fleets["GMLVQ"][0], "z")
    with pytest.raises(FusionError, match=r"GLVQ from node 'n0' and GMLVQ from node 'z'"):
        fuse([glvq, gmlvq])
    committee = copied(fleets["LVQCommittee"][0], "z")
    with pytest.raises(FusionError, match=r"LVQCommittee\(LGMLVQ, GLVQ\) from node 'z'"):
        fuse([glvq, committee])


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"weighting": "size"}, "weighting: expected one of samples, uniform, got 'size'"),
        ({"drift": None}, "drift: expected one of auto, none, tree"),
        ({"aggregator": ["mean"]}, "aggregator: expected one of mean, median"),
        ({"rank": 0}, "rank: expected 'keep', 'full' or a whole number of at least 1, got 0"),
        ({"rank": True}, "rank: expected .* got True"),
        ({"rank": "most"}, "rank: expected .* got 'most'"),
        (
            {"byzantine": -1},
            "byzantine: expected 'auto', None or a whole number of at least 0, got -1",
        ),
        ({"byzantine": "some"}, "byzantine: expected"),
        ({"byzantine": 1.5}, "byzantine: expected"),
        ({"quorum": 0}, "quorum: expected None or a whole number of at least 1, got 0"),
        ({"quorum": "all"}, "quorum: expected"),
    ],
)
def test_options_that_mean_nothing(
    options: dict[str, Any], text: str, fleets: dict[str, list[Snapshot]]
) -> None:
    with pytest.raises(FusionError, match=text):
        fuse(fleets["GLVQ"], **options)


def test_a_node_that_took_no_part(fused: Fused) -> None:
    for ask in (fused.for_node, fused.snapshot):
        with pytest.raises(FusionError, match=r"took part .'n0', 'n1', 'n2', 'n3'., got 'nobody'"):
            ask("nobody")
    assert repr(fused) == "Fused(4 nodes, 4 classes, drift='least_squares')"


def test_errors_are_those_of_the_library() -> None:
    assert issubclass(FusionError, ValueError)
    assert issubclass(FusionError, streamlvq.errors.StreamLVQError)


def test_a_node_gets_the_features_that_it_has() -> None:
    """And what one node alone has makes nobody else's model larger."""
    names = [f"f{k}" for k in range(6)]
    random = np.random.default_rng(5)

    def node(name: str, features: list[str], **parameters: Any) -> Snapshot:
        y = random.integers(3, size=90)
        X = random.normal(size=(90, len(features)))
        X[:, :3] += 6.0 * np.eye(3)[y]
        model = streamlvq.LGMLVQ(**parameters)
        model.learn_array(X, y, features=features)
        return Snapshot.of(model, name, readings=False)

    honest = [node(f"n{k}", names) for k in range(4)]
    few = fuse([*honest, node("x", [*names[:4], "extra"])])
    assert set(few.for_node("x").features) == {*names[:4], "extra"}
    assert set(few.for_node("n0").features) == set(names)
    reading = {name: 6.0 * (name == "f1") for name in few.for_node("x").features}
    assert few.for_node("x").predict_one(reading) == 1
    wide = fuse([*honest, node("x", [*names, *(f"z{k}" for k in range(300))], rank=1)])
    assert set(wide.for_node("n0").features) == set(wide.for_node("x").features) == set(names)
    assert any("300 features" in str(each) for each in wide.report.nodes["x"].clipped)
    plain = fuse(honest)
    assert len(wide.snapshot("n0").to_bytes()) < 2 * len(plain.snapshot("n0").to_bytes())
