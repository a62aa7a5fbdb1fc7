"""Nodes that lie or are broken: one of five must not spoil what the others know."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import streamlvq
from streamlvq import Snapshot, fuse
from streamlvq.fusion import Fused
from support.fusions import MODELS, World, accuracy, arrays_of, bits, copied, fleet, learnt, to_node
from support.samples import readings

Arrays = dict[str, Any]
NAMES = ["GLVQ", "GMLVQ", "LGMLVQ", "LVQCommittee"]
LIAR = "n2"
HONEST = (0, 1, 3, 4)
PLAIN: dict[str, Any] = {"screen": False, "byzantine": None}
SHIFTS = {"no shift": np.zeros((5, 1)), "shifts": np.array([[0.0], [2.0], [-4.0], [5.0], [1.0]])}


# --- lies: what a node could do to the arrays of its snapshot -------------------------------------


def prototypes(arrays: Arrays) -> int:
    return int((arrays["label"] >= 0).sum())


def flipped(arrays: Arrays) -> None:
    """Every label is taken for the next one."""
    count, classes = prototypes(arrays), int(arrays["label"].max()) + 1
    arrays["label"][:count] = (arrays["label"][:count] + 1) % classes
    for name in ("class_mean", "class_variance"):
        arrays[name][:classes] = np.roll(arrays[name][:classes], 1, axis=0)


def larger_prototypes(arrays: Arrays) -> None:
    arrays["w"] *= 10.0


def larger_counts(arrays: Arrays) -> None:
    for name in ("class_count", "class_weight", "weight", "wins"):
        arrays[name] *= 1e6


def flipped_loudly(arrays: Arrays) -> None:
    flipped(arrays)
    larger_counts(arrays)


def larger_prototypes_loudly(arrays: Arrays) -> None:
    larger_prototypes(arrays)
    larger_counts(arrays)


def shifted_means(arrays: Arrays) -> None:
    arrays["class_mean"] += 10.0 * np.sqrt(arrays["class_variance"]).max(axis=0)


def one_shifted_mean(arrays: Arrays) -> None:
    arrays["class_mean"][0] += 10.0 * np.sqrt(arrays["class_variance"][0])


def larger_metrics(arrays: Arrays) -> None:
    if "omega" in arrays:
        arrays["omega"] *= 1e3


def one_larger_metric(arrays: Arrays) -> None:
    if "omega" in arrays:
        arrays["omega"][0] *= 1e3


def smaller_metrics(arrays: Arrays) -> None:
    if "omega" in arrays:
        arrays["omega"] *= 0.01


def doubled_metrics(arrays: Arrays) -> None:
    if "omega" in arrays:
        arrays["omega"] *= 2.0


def larger_counts_than_readings(arrays: Arrays) -> None:
    arrays["class_weight"] *= 3.0


def larger_scales(arrays: Arrays) -> None:
    arrays["variance"] *= 1e12
    arrays["peak"] *= 1e6
    arrays["inverse"] /= 1e6


def one_larger_scale(arrays: Arrays) -> None:
    arrays["variance"][0] *= 1e12
    arrays["peak"][0] *= 1e6
    arrays["inverse"][0] /= 1e6


def no_scales(arrays: Arrays) -> None:
    arrays["variance"][:] = arrays["peak"][:] = 0.0
    arrays["inverse"] *= 1e6


def shifted_scales(arrays: Arrays) -> None:
    arrays["mean"] += 1e6


def larger_variances(arrays: Arrays) -> None:
    arrays["class_variance"] *= 1e8


def no_variances(arrays: Arrays) -> None:
    arrays["class_variance"][:] = 0.0


def larger_peaks(arrays: Arrays) -> None:
    arrays["peak"] *= 1e6


def certain(arrays: Arrays) -> None:
    arrays["calibration"][0] = 100.0


LIES: dict[str, Callable[[Arrays], None]] = {
    lie.__name__: lie
    for lie in (
        flipped,
        larger_prototypes,
        larger_counts,
        flipped_loudly,
        larger_prototypes_loudly,
        shifted_means,
        one_shifted_mean,
        larger_metrics,
        one_larger_metric,
        smaller_metrics,
        doubled_metrics,
        larger_counts_than_readings,
        larger_scales,
        one_larger_scale,
        no_scales,
        shifted_scales,
        larger_variances,
        no_variances,
        larger_peaks,
        certain,
    )
}


def told(snapshot: Snapshot, lie: Callable[[Arrays], None]) -> Snapshot:
    """The snapshot of a node that lies, and that nothing else would refuse."""
    liar = copied(snapshot)
    for folder in ("", "learner/", "follower/"):
        inside = {
            key.removeprefix(folder): array
            for key, array in arrays_of(liar).items()
            if key.startswith(folder) and "/" not in key.removeprefix(folder)
        }
        if "w" in inside:
            lie(inside)
    return Snapshot.from_bytes(liar.to_bytes())


@pytest.fixture(scope="module")
def world() -> World:
    return World.of(21, classes=4, apart=4.0)


@pytest.fixture(scope="module")
def fleets(world: World) -> dict[tuple[str, str], list[Snapshot]]:
    return {
        (name, how): fleet(MODELS[name], world, 5, 120, 3, shift=shift)
        for name in NAMES
        for how, shift in SHIFTS.items()
    }


def score(fused: Fused, world: World, how: str) -> float:
    """The mean accuracy on the nodes that do not lie."""
    shift = SHIFTS[how]
    tests = {i: world.read(500 + i, 80, shift=shift[i]) for i in HONEST}
    return float(np.mean([accuracy(fused.for_node(f"n{i}"), *tests[i]) for i in HONEST]))


@pytest.fixture(scope="module")
def honest_scores(
    world: World, fleets: dict[tuple[str, str], list[Snapshot]]
) -> dict[tuple[str, str], float]:
    """The score of each fleet if nobody lies."""
    return {(name, how): score(fuse(nodes), world, how) for (name, how), nodes in fleets.items()}


def with_liar(nodes: list[Snapshot], lie: str) -> list[Snapshot]:
    return [told(node, LIES[lie]) if node.node == LIAR else node for node in nodes]


@pytest.mark.parametrize("how", list(SHIFTS))
@pytest.mark.parametrize("lie", list(LIES))
@pytest.mark.parametrize("name", NAMES)
def test_one_liar_of_five_costs_little(
    name: str,
    lie: str,
    how: str,
    world: World,
    fleets: dict[tuple[str, str], list[Snapshot]],
    honest_scores: dict[tuple[str, str], float],
) -> None:
    nodes, honest = fleets[name, how], honest_scores[name, how]
    fused = fuse(with_liar(nodes, lie))
    assert honest > 0.97
    assert score(fused, world, how) >= honest - 0.02, fused.report.warnings
    for i in HONEST:
        assert fused.report.nodes[f"n{i}"].left_out is None


@pytest.mark.parametrize("aggregator", ["median", "trimmed_mean", "geometric_median"])
@pytest.mark.parametrize("lie", ["flipped_loudly", "larger_prototypes_loudly", "shifted_means"])
def test_rules_that_withstand_a_minority(
    aggregator: Any, lie: str, world: World, fleets: dict[tuple[str, str], list[Snapshot]]
) -> None:
    nodes = fleets["GMLVQ", "no shift"]
    for screen in (True, False):
        fused = fuse(with_liar(nodes, lie), aggregator=aggregator, drift="none", screen=screen)
        assert score(fused, world, "no shift") >= 0.97


@pytest.mark.parametrize("lie", ["flipped_loudly", "larger_prototypes_loudly"])
@pytest.mark.parametrize("name", NAMES)
def test_the_plain_mean_collapses(
    name: str, lie: str, world: World, fleets: dict[tuple[str, str], list[Snapshot]]
) -> None:
    nodes = with_liar(fleets[name, "no shift"], lie)
    assert score(fuse(nodes, drift="none", **PLAIN), world, "no shift") < 0.6
    assert score(fuse(nodes, drift="none"), world, "no shift") > 0.97


@pytest.mark.parametrize(
    ("lie", "where", "text"),
    [
        ("flipped", "left_out", "contradict all other nodes"),
        ("flipped_loudly", "left_out", "contradict all other nodes"),
        ("one_shifted_mean", "clipped", "was left out: its mean is"),
        ("larger_prototypes", "clipped", "prototype far from"),
        ("larger_metrics", "left_out", "the norm of a metric is 1e+03"),
        ("one_larger_metric", "left_out", "the norm of a metric is 1e+03"),
        ("smaller_metrics", "left_out", "the norm of a metric is 0.01"),
        ("doubled_metrics", "clipped", "whose norm is not 1 was scaled to it"),
        ("larger_scales", "left_out", "times less in"),
        ("one_larger_scale", "left_out", "times less in"),
        ("shifted_scales", "left_out", "times more in"),
        ("no_scales", "left_out", "times more in"),
        ("larger_variances", "left_out", "times more in"),
        ("larger_counts_than_readings", "left_out", "more than all its readings"),
        ("larger_counts", "clipped", "times what is believed"),
    ],
)
def test_the_report_names_what_was_done_to_whom(
    lie: str, where: str, text: str, fleets: dict[tuple[str, str], list[Snapshot]]
) -> None:
    report = fuse(with_liar(fleets["LGMLVQ", "no shift"], lie), drift="none").report
    found = getattr(report.nodes[LIAR], where)
    assert text in (found if isinstance(found, str) else " ".join(map(str, found or ())))
    warned = any(LIAR in warning and text in warning for warning in report.warnings)
    # What was merely cut is told at the node, and nobody need act upon it.
    assert warned == (where == "left_out" or "was left out" in " ".join(map(str, found)))
    for i in HONEST:
        node = report.nodes[f"n{i}"]
        assert not node.clipped and node.left_out is None
    if where == "left_out":
        assert set(report.nodes[LIAR].weights.values()) == {0.0}


@pytest.mark.parametrize("name", ["GMLVQ", "LGMLVQ"])
def test_larger_peaks_change_nothing_where_metrics_are_learnt(
    name: str, fleets: dict[tuple[str, str], list[Snapshot]]
) -> None:
    """How far prototypes and classes reach replaces them, whoever sent them."""
    nodes = fleets[name, "no shift"]
    fused = fuse(with_liar(nodes, "larger_peaks"), drift="none")
    assert bits(fused) == bits(fuse(nodes, drift="none"))
    assert not fused.report.nodes[LIAR].clipped and fused.report.nodes[LIAR].left_out is None


def test_larger_peaks_are_cut_where_scales_are_the_metric(
    fleets: dict[tuple[str, str], list[Snapshot]],
) -> None:
    report = fuse(with_liar(fleets["GLVQ", "no shift"], "larger_peaks"), drift="none").report
    assert any("scale of a feature" in str(each) for each in report.nodes[LIAR].clipped)
    for i in HONEST:
        assert not report.nodes[f"n{i}"].clipped


@pytest.mark.parametrize("lie", ["larger_scales", "shifted_scales", "one_larger_scale"])
def test_scales_of_models_that_forget_are_only_compared_with_others(lie: str, world: World) -> None:
    """Their statistics are of different times, so that nothing need fit together."""
    nodes = fleet(lambda: streamlvq.GMLVQ(half_life=60), world, 5, 120, 3)
    honest = score(fuse(nodes, drift="none"), world, "no shift")
    fused = fuse(with_liar(nodes, lie), drift="none")
    found = fused.report.nodes[LIAR]
    assert found.left_out is None
    assert any("scale of a feature" in str(each) for each in found.clipped)
    assert score(fused, world, "no shift") >= honest - 0.02


def test_who_was_left_out_is_given_what_the_others_know(
    world: World, fleets: dict[tuple[str, str], list[Snapshot]]
) -> None:
    for how, drift in (("no shift", "none"), ("shifts", "least_squares")):
        fused = fuse(with_liar(fleets["GLVQ", how], "flipped"), drift=drift)
        assert fused.report.nodes[LIAR].left_out is not None
        assert fused.report.components == (("n0", "n1", "n2", "n3", "n4"),)
        assert set(fused.for_node(LIAR).classes) == set(world.labels)
        assert fused.snapshot().labels == tuple(world.labels)


def test_honest_nodes_are_not_suspected(fleets: dict[tuple[str, str], list[Snapshot]]) -> None:
    for nodes in fleets.values():
        assert fuse(nodes).report.warnings == ()


# --- weights --------------------------------------------------------------------------------------


@pytest.mark.parametrize("byzantine", ["auto", 1, 2])
def test_counts_are_believed_up_to_a_share(
    byzantine: Any, fleets: dict[tuple[str, str], list[Snapshot]]
) -> None:
    nodes = with_liar(fleets["GLVQ", "no shift"], "larger_counts")
    report = fuse(nodes, byzantine=byzantine).report
    count = 1 if byzantine == "auto" else byzantine
    for label in report.labels:
        shares = sorted((node.weights[label] for node in report.nodes.values()), reverse=True)
        assert sum(shares) == pytest.approx(1.0)
        assert shares[0] <= 0.5 + 1e-9
        assert sum(shares[:count]) <= max(0.5, count / 5) + 0.05
    assert report.nodes[LIAR].samples > 1e7  # what it says is shown as it is
    plain = fuse(nodes, **PLAIN).report
    assert min(plain.nodes[LIAR].weights.values()) > 0.999
    uniform = fuse(nodes, weighting="uniform").report
    assert {w for node in uniform.nodes.values() for w in node.weights.values()} == {0.2}


@pytest.mark.parametrize("size", [1e15, 1e200])
def test_counts_beyond_all_measure(
    size: float, world: World, fleets: dict[tuple[str, str], list[Snapshot]]
) -> None:
    def lie(arrays: Arrays) -> None:
        arrays["class_count"] *= size
        arrays["class_weight"] *= size

    nodes = fleets["GLVQ", "no shift"]
    liar = told(nodes[2], lie)
    for drift in ("auto", "tree", "least_squares", "scale_shift"):
        fused = fuse([*nodes[:2], liar, *nodes[3:]], drift=drift)
        assert score(fused, world, "no shift") > 0.97
        assert msgspec_finite(fused)
    fuse([*nodes[:2], liar, *nodes[3:]], **PLAIN).for_node("n0")


def msgspec_finite(fused: Fused) -> bool:
    numbers = [
        value
        for node in fused.report.nodes.values()
        for part in (node.shift, node.gain, node.weights)
        for value in part.values()
    ]
    return bool(np.isfinite(numbers).all())


def test_a_liar_cannot_have_more_of_a_pair_than_of_its_classes() -> None:
    """Two honest nodes have much of either class, so little of both; the liar much of both."""
    world = World.of(3, classes=2, apart=5.0)
    nodes = []
    for i, counts in enumerate(((100, 3), (3, 100), (50, 50), (100, 3), (3, 100))):
        X, y = world.read(i, 1000)
        chosen = [
            n for k in (0, 1) for n in [n for n in range(1000) if y[n] == f"c{k}"][: counts[k]]
        ]
        chosen.sort()
        model = learnt(streamlvq.PairwiseLVQ(), X[chosen], [y[n] for n in chosen])
        nodes.append(Snapshot.of(model, f"n{i}", readings=False))

    def lie(arrays: Arrays) -> None:
        arrays["w"] += 0.5  # too little to be seen
        larger_counts(arrays)

    liar = told(nodes[2], lie)
    honest = [nodes[i] for i in (0, 1, 3, 4)]
    found = to_node(fuse([*honest, liar], drift="none").snapshot("n0")).prototypes
    without = to_node(fuse(honest, drift="none").snapshot("n0")).prototypes
    for label, values in to_node(liar).prototypes.items():
        moved = np.abs(np.subtract(found[label], without[label]))
        whole = np.abs(np.subtract(values, without[label]))
        assert (moved <= 0.5 * whole + 1e-9).all()


# --- quorum ---------------------------------------------------------------------------------------


def claimed(world: World, holders: int) -> list[Snapshot]:
    """Five nodes, of which some claim a class that the others have never seen."""
    nodes = fleet(MODELS["GLVQ"], world, 5, 100, 3, known=[[0, 1, 2]] * 5)
    extra = readings(world.read(9, 12, known=[3])[0])
    for i in range(holders):
        model = nodes[i].classifier()
        for x in extra:
            model.learn_one(x, "ghost")
        nodes[i] = Snapshot.of(model, f"n{i}", readings=False)
    return nodes


@pytest.mark.parametrize("aggregator", ["median", "trimmed_mean", "geometric_median"])
def test_what_one_node_claims_is_not_given_to_others(aggregator: Any, world: World) -> None:
    for holders in (1, 2, 3):
        fused = fuse(claimed(world, holders), aggregator=aggregator)
        for i in range(5):
            has_it = i < holders or holders >= 3
            assert ("ghost" in fused.for_node(f"n{i}").classes) == has_it
            gained = fused.report.nodes[f"n{i}"].gained
            assert gained == (("ghost",) if has_it and i >= holders else ())
    x = readings(world.centres[3:] * world.unit)[0]
    alone = fuse(claimed(world, 1), aggregator=aggregator)
    assert alone.for_node("n0").predict_one(x) == "ghost" != alone.for_node("n1").predict_one(x)


def test_the_quorum_can_be_chosen(world: World) -> None:
    nodes = claimed(world, 2)
    for quorum, given in ((None, True), (1, True), (2, True), (3, False)):
        fused = fuse(nodes, quorum=quorum)
        assert ("ghost" in fused.for_node("n4").classes) == given
        assert "ghost" in fused.for_node("n0").classes
    assert fuse(nodes).report.unprotected == ("ghost",)


def test_a_node_keeps_a_class_of_which_its_mean_was_left_out(world: World) -> None:
    """Three have it, one of them elsewhere: too few are left for the others, but it is its own."""
    nodes = claimed(world, 2)
    model = fleet(MODELS["GLVQ"], world, 5, 100, 3, known=[[0, 1, 2]] * 5)[2].classifier()
    elsewhere = world.read(9, 12, known=[3])[0] + 20.0 * world.unit
    for x in readings(elsewhere):
        model.learn_one(x, "ghost")
    nodes[2] = Snapshot.of(model, "n2", readings=False)
    fused = fuse(nodes, aggregator="median", drift="none")
    assert any("'ghost' was left out" in str(each) for each in fused.report.nodes["n2"].clipped)
    for i in range(5):
        assert ("ghost" in fused.for_node(f"n{i}").classes) == (i < 3)


# --- features -------------------------------------------------------------------------------------


def test_a_feature_that_only_a_liar_has_does_not_blind_the_screen(world: World) -> None:
    nodes = fleet(MODELS["GLVQ"], world, 5, 100, 3)
    model = MODELS["GLVQ"]()
    X, y = world.read(302, 100)
    for k, (x, label) in enumerate(zip(readings(X), y, strict=True)):
        wrong = world.labels[(world.labels.index(label) + 1) % 4]
        model.learn_one({**x, "bogus": 1e-6 * (k % 7)}, wrong)
    fused = fuse([*nodes[:4], Snapshot.of(model, "n4", readings=False)])
    assert fused.report.nodes["n4"].left_out is not None
    test = world.read(600, 100)
    for i in range(4):
        assert accuracy(fused.for_node(f"n{i}"), *test) > 0.97


def test_a_liar_cannot_say_which_features_count() -> None:
    """Its metric looks only at a feature in large units that tells nothing apart."""
    world = World.of(21, classes=4, apart=4.0)
    world.centres[:, 0] = 0.0
    world.unit[0] = 1e4

    def lie(arrays: Arrays) -> None:
        flipped(arrays)
        arrays["omega"][:] = 0.0
        arrays["omega"][..., 0, 0] = 1.0

    nodes = fleet(MODELS["GMLVQ"], world, 5, 100, 3)
    test = world.read(600, 100)
    for drift in ("none", "least_squares"):
        fused = fuse([*nodes[:4], told(nodes[4], lie)], drift=drift)
        assert fused.report.nodes["n4"].left_out is not None
        assert accuracy(fused.for_node("n0"), *test) > 0.95
