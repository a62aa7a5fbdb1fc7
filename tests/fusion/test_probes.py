"""Probe federation: nodes with models of any kind, and what hostile ones among them can do."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from river import compose, linear_model, multiclass, naive_bayes, preprocessing, tree

import naive_probes as naive
import streamlvq
from streamlvq import FeatureTransform, Snapshot
from streamlvq.errors import SnapshotError
from streamlvq.fusion import (
    ClassMoments,
    FusionError,
    HiddenTrial,
    ProbeAnswers,
    ProbeSet,
    class_moments,
    consensus,
    discrepancy,
    learn_from_probes,
    pool_taught,
)
from streamlvq.fusion.draws import normal_sequence
from streamlvq.fusion.probe_answers import jensen_shannon, takes_weights
from streamlvq.fusion.probes import MAX_PROBE_NUMBERS, MAX_PROBED_CLASSES
from streamlvq.snapshot.container import decode, encode
from support.fusions import World, accuracy, learnt
from support.samples import readings

WORLD = World.of(3, apart=4.0)
OFFSETS = np.random.default_rng(5).normal(size=(6, 4)) * 2.0
KINDS: list[Callable[[], Any]] = [
    streamlvq.LGMLVQ,
    tree.HoeffdingTreeClassifier,
    naive_bayes.GaussianNB,
    streamlvq.LVQCommittee,
    streamlvq.WindowForest,
    lambda: (
        preprocessing.StandardScaler()
        | multiclass.OneVsRestClassifier(linear_model.LogisticRegression())
    ),
]
MISSING = [None, [0, 1], None, [1, 2], [0, 2], None]  # classes of each node


def moments_of(node: str, X: Any, y: Any, created: float | None = None) -> ClassMoments:
    moments = ClassMoments(node, created=created)
    for x, label in zip(readings(X), y, strict=True):
        moments.learn_one(x, label)
    return moments


class Fleet:
    """Six nodes, each with another kind of model and sensors that are off; some lack a class."""

    def __init__(self, count: int = 6) -> None:
        self.names = [f"n{i}" for i in range(count)]
        self.models, self.statistics = {}, []
        for i, name in enumerate(self.names):
            X, y = WORLD.read(i, 120, known=MISSING[i], shift=OFFSETS[i])
            self.models[name] = learnt(KINDS[i](), X, y)
            ours = isinstance(self.models[name], (streamlvq.LGMLVQ, streamlvq.LVQCommittee))
            self.statistics.append(
                Snapshot.of(self.models[name], name, readings=False)
                if ours
                else moments_of(name, X, y)
            )
        self.probes = ProbeSet.of(self.statistics)
        self.answers = [
            ProbeAnswers.of(model, name, self.probes) for name, model in self.models.items()
        ]

    def accuracy(self, model: Any, node: str) -> float:
        X, y = WORLD.read(77, 200, shift=OFFSETS[self.names.index(node)])
        return accuracy(model, X, y)


@pytest.fixture(scope="module")
def fleet() -> Fleet:
    return Fleet()


# --- statistics of classes -----------------------------------------------------------------------


def test_class_moments_are_those_of_all_readings_with_gaps() -> None:
    random = np.random.default_rng(2)
    X = 1e6 + random.normal(size=(90, 3))
    X[random.random(X.shape) < 0.3] = np.nan
    y = random.choice(["a", "b"], 90).tolist()
    moments = ClassMoments("n")
    for k, (row, label) in enumerate(zip(X, y, strict=True)):
        x: dict[str, Any] = {f"f{c}": v for c, v in enumerate(row.tolist()) if k % 2 or v == v}
        x["late"] = 7.0 if k > 60 else None
        moments.learn_one(x, label)
    assert moments.samples == 90
    assert moments.counts == {label: y.count(label) for label in ("a", "b")}
    for label in ("a", "b"):
        for c in range(3):
            known = [v for v, each in zip(X[:, c], y, strict=True) if each == label and v == v]
            mean, variance = naive.moments(known)
            assert moments.means[label][f"f{c}"] == pytest.approx(mean, abs=1e-8)
            assert moments.spreads[label][f"f{c}"] == pytest.approx(math.sqrt(variance), rel=1e-6)
        assert (moments.means[label]["late"], moments.spreads[label]["late"]) == (7.0, 0.0)


@pytest.mark.parametrize("bad", [math.inf, -1e61, "hot", [1.0]])
def test_a_reading_that_is_refused_leaves_class_moments_as_they_were(bad: Any) -> None:
    moments = ClassMoments("n")
    moments.learn_one({"f": 1.0}, "a")
    before = moments.to_bytes()
    with pytest.raises(ValueError, match="feature 'g'"):
        moments.learn_one({"h": 2.0, "g": bad}, "new")
    assert moments.to_bytes() == before


def test_class_moments_do_not_grow_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(class_moments, "MAX_MOMENTS", 100)
    moments = ClassMoments("n")
    moments.learn_one(dict.fromkeys(range(100), 1.0), "a")
    with pytest.raises(FusionError, match="at most"):
        moments.learn_one({0: 1.0}, "b")
    moments.learn_one({0: 3.0}, "a")
    assert moments.means["a"][0] == 2.0


def test_class_moments_of_a_snapshot_are_those_that_a_collector_finds() -> None:
    X, y = WORLD.read(1, 80)
    taken = ClassMoments.of(Snapshot.of(learnt(streamlvq.GLVQ(), X, y), "n"))
    collected = moments_of("n", X, y)
    assert taken.counts == collected.counts
    for label in WORLD.labels:
        assert taken.means[label] == pytest.approx(collected.means[label])
        assert taken.spreads[label] == pytest.approx(collected.spreads[label])


def test_snapshots_without_class_statistics_in_sensor_units_are_refused_with_a_way_out() -> None:
    X, y = WORLD.read(1, 40)
    forest = Snapshot.of(learnt(streamlvq.WindowForest(), X, y), "oak")
    wrapped = Snapshot.of(learnt(FeatureTransform(streamlvq.GLVQ(), "asinh"), X, y), "logs")
    for snapshot in (forest, wrapped):
        with pytest.raises(FusionError, match=f"{snapshot.node!r}.*collect ClassMoments"):
            ProbeSet.of([snapshot])


def test_class_moments_survive_bytes_and_pickles() -> None:
    moments = moments_of("n", *WORLD.read(1, 40), created=12.5)
    moments.learn_one({1: 2.0}, None)
    for again in (ClassMoments.from_bytes(moments.to_bytes()), pickle.loads(pickle.dumps(moments))):
        assert again.to_bytes() == moments.to_bytes()
        again.learn_one({"new": 1.0}, "c0")
        assert again.samples == moments.samples + 1
    blank = ClassMoments("blank")
    assert ClassMoments.from_bytes(blank.to_bytes()).to_bytes() == blank.to_bytes()


def forged(data: bytes, kind: str, meta: dict[str, Any] | None = None, **values: Any) -> bytes:
    """The same file with other content and a right checksum."""
    arrays, found = decode(data, kind=kind)
    arrays = {name: array.copy() for name, array in arrays.items()}
    for name, value in values.items():
        if isinstance(value, np.ndarray):
            arrays[name] = value
        else:
            arrays[name].flat[0] = value
    return encode(arrays, {**found, **(meta or {})}, kind=kind)


@pytest.mark.parametrize(
    "forgery",
    [
        {"class_mean": math.nan},
        {"class_mean": 1e70},
        {"class_variance": -1.0},
        {"class_variance": math.inf},
        {"class_weight": -1.0},
        {"class_count": 1e300},
        {"class_count": math.nan},
        {"class_mean": np.zeros((1, 1))},
        {"class_mean": np.zeros((3, 4), np.int64)},
        {"meta": {"node": ""}},
        {"meta": {"node": 3}},
        {"meta": {"created": math.inf}},
        {"meta": {"labels": [["str", "c0"]] * 3}},
        {"meta": {"features": [["str", "f0"]]}},
        {"meta": {"more": 1}},
        {"extra": np.zeros(3)},
    ],
)
def test_forged_class_moments_are_refused(forgery: dict[str, Any]) -> None:
    data = moments_of("n", *WORLD.read(1, 40)).to_bytes()
    with pytest.raises(SnapshotError):
        ClassMoments.from_bytes(forged(data, "moments", **forgery))


def test_files_of_another_kind_and_damaged_ones_are_refused(fleet: Fleet) -> None:
    moments, probes = moments_of("n", *WORLD.read(1, 40)).to_bytes(), fleet.probes.to_bytes()
    with pytest.raises(SnapshotError, match="expected a moments"):
        ClassMoments.from_bytes(probes)
    with pytest.raises(SnapshotError, match="expected a probes"):
        ProbeSet.from_bytes(moments)
    with pytest.raises(SnapshotError, match="expected a answers"):
        ProbeAnswers.from_bytes(moments, fleet.probes)
    for data, read in ((moments, ClassMoments.from_bytes), (probes, ProbeSet.from_bytes)):
        with pytest.raises(SnapshotError, match="damaged"):
            read(data[:-1] + bytes([data[-1] ^ 1]))


# --- probes --------------------------------------------------------------------------------------


def test_probes_are_the_same_to_the_bit_whatever_the_order_of_nodes(fleet: Fleet) -> None:
    old = moments_of("n1", *WORLD.read(50, 30), created=None)
    shuffled = [*reversed(fleet.statistics), fleet.statistics[2], old]
    again = ProbeSet.of(shuffled)
    assert again.to_bytes() == fleet.probes.to_bytes()
    assert again.digest == fleet.probes.digest
    assert ProbeSet.from_bytes(again.to_bytes()).digest == again.digest


def test_of_a_node_the_newest_statistics_count() -> None:
    first = moments_of("a", *WORLD.read(1, 90), created=1.0)
    later = moments_of("a", *WORLD.read(2, 30), created=2.0)
    other = moments_of("b", *WORLD.read(3, 30))
    assert ProbeSet.of([first, later, other]).digest == ProbeSet.of([other, later]).digest


def test_probes_lie_around_the_means_of_all_readings_together() -> None:
    given = [moments_of(f"n{i}", *WORLD.read(i, 60)) for i in range(2)]
    probes = ProbeSet.of(given, drift="none", aggregator="mean", screen=False, per_class=8)
    counts = [each.counts for each in given]
    step = normal_sequence(8, 4)
    for r, (k, row) in enumerate(zip(probes.origin, probes.points, strict=True)):
        label = probes.labels[k]
        # Two nodes are believed alike, since one of them may be byzantine.
        believed = min(each[label] for each in counts)
        for c, name in enumerate(probes.features):
            parts = [(believed, m.means[label][name], m.spreads[label][name] ** 2) for m in given]
            mean, variance = naive.pooled(parts)
            assert row[c] == pytest.approx(mean + math.sqrt(variance) * step[r // 3, c])


def test_the_sequence_fills_a_normal_distribution() -> None:
    points = normal_sequence(32, 60)
    assert abs(points.mean(axis=0)).max() < 1e-9
    assert abs(points.std(axis=0) - 1.0).max() < 1e-9
    apart = abs(np.corrcoef(points.T))[~np.eye(60, dtype=bool)]
    assert apart.mean() < 0.2
    assert apart.max() < 0.95  # few points in many dimensions; but no two alike
    assert np.array_equal(points, normal_sequence(32, 60))
    assert np.array_equal(normal_sequence(1, 3), np.zeros((1, 3)))


def test_nodes_get_probes_in_the_coordinates_of_their_sensors(fleet: Fleet) -> None:
    assert fleet.probes.drift == "least_squares"
    for i, name in enumerate(fleet.names):
        X, y = WORLD.read(900 + i, 3000, shift=OFFSETS[i])
        rows = fleet.probes.rows(name)
        for k, label in enumerate(fleet.probes.labels):
            middle = X[[each == label for each in y]].mean(axis=0)
            off = (rows[fleet.probes.origin == k].mean(axis=0) - middle) / WORLD.unit
            assert abs(off).max() < 0.45


def test_a_node_is_not_asked_about_features_that_it_lacks() -> None:
    X, y = WORLD.read(1, 60)
    wide, narrow = moments_of("wide", X, y), moments_of("narrow", X[:, :2], y)
    probes = ProbeSet.of([wide, narrow, ClassMoments("new")])
    assert {len(x) for x in probes.readings("wide")} == {4}
    assert {len(x) for x in probes.readings("new")} == {4}
    assert all(x.keys() == narrow.means["c0"].keys() for x in probes.readings("narrow"))
    with pytest.raises(FusionError, match="'nobody'"):
        probes.readings("nobody")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("drift", ["auto", "none", "least_squares", "scale_shift"])
@pytest.mark.parametrize("value", [1e3, 1e30, 9e59])
def test_one_hostile_node_hardly_moves_the_probes_of_others(drift: str, value: float) -> None:
    honest = [moments_of(f"n{i}", *WORLD.read(i, 80)) for i in range(6)]
    liar = moments_of("liar", *WORLD.read(9, 80)).to_bytes()
    shape = (3, 4)
    hostile = ClassMoments.from_bytes(
        forged(
            liar,
            "moments",
            class_mean=np.full(shape, value),
            class_variance=np.full(shape, value**2),
            class_count=np.full(3, 2.0**53),
            class_weight=np.full(shape, 2.0**53),
        )
    )
    without, probes = ProbeSet.of(honest, drift=drift), ProbeSet.of([*honest, hostile], drift=drift)
    for each in honest:
        off = (probes.rows(each.node) - without.rows(each.node)) / WORLD.unit
        # A gain and a shift explain many lies, so they cost more than a shift.
        assert abs(off).max() < (4.0 if drift == "scale_shift" else 1.5)
    assert np.isfinite(probes.rows("liar")).all()
    if value > 1e6 or drift in ("auto", "none"):
        assert not probes.trusted[probes.index("liar")].any()


def test_a_liar_of_two_cannot_send_probes_out_of_the_world() -> None:
    liar = ClassMoments("liar")
    liar.learn_one({"f0": 1e60}, "c0")
    liar.learn_one({"f0": -1e60}, "c0")
    probes = ProbeSet.of([moments_of("n", *WORLD.read(1, 60)), liar])
    model = streamlvq.LGMLVQ()
    for x in probes.readings("n"):
        assert all(abs(v) <= 1e60 for v in x.values())
        model.learn_one(x, "c0")


def test_a_node_with_very_many_classes_makes_no_work_for_others() -> None:
    many = ClassMoments("many")
    for k in range(2 * MAX_PROBED_CLASSES):
        many.learn_one({"f0": float(k)}, f"junk {k}")
    honest = [moments_of(f"n{i}", *WORLD.read(i, 60)) for i in range(2)]
    probes = ProbeSet.of([*honest, many], per_class=2)
    assert len(probes.labels) == MAX_PROBED_CLASSES
    assert set(WORLD.labels) <= set(probes.labels)


def test_very_many_features_of_some_nodes_leave_room_for_common_classes() -> None:
    wide = []
    for name in ("a", "b"):
        wide.append(ClassMoments(name))
        for k in range(40):
            wide[-1].learn_one(dict.fromkeys(range(3000), float(k)), f"junk {k}")
    honest = [moments_of(f"n{i}", *WORLD.read(i, 60)) for i in range(3)]
    probes = ProbeSet.of([*honest, *wide], per_class=256, drift="none")
    assert probes.points.size <= MAX_PROBE_NUMBERS
    assert len(probes.labels) < 43
    assert set(WORLD.labels) <= set(probes.labels)
    assert probes.has_feature[probes.index("n0")].sum() == 4


def test_a_node_that_has_no_feature_of_a_class_is_taught_nothing_about_it() -> None:
    lamps = ClassMoments("lamps")
    for k in range(9):
        lamps.learn_one({"light": k / 10}, "c0")
    probes = ProbeSet.of([moments_of("n", *WORLD.read(1, 60)), lamps], drift="none")
    model = learnt(streamlvq.GLVQ(), *WORLD.read(1, 60))
    answers = [ProbeAnswers.of(model, "n", probes), ProbeAnswers.of(OneClass(), "lamps", probes)]
    taught = learn_from_probes(Listener(), "lamps", probes, answers)
    assert {y for _, y, _ in taught.heard} == {"c0"}  # others have no light
    assert all(x.keys() == {"light"} for x, *_ in taught.heard)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"per_class": 0}, "per_class: expected"),
        ({"drift": "wind"}, "drift: expected one of auto, none"),
        ({"aggregator": "loudest"}, "aggregator: expected one of mean"),
    ],
)
def test_wrong_options_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(FusionError, match=message):
        ProbeSet.of([moments_of("n", *WORLD.read(1, 30))], **options)


def test_probes_need_statistics() -> None:
    with pytest.raises(FusionError, match="expected snapshots or ClassMoments"):
        ProbeSet.of([b"statistics"])  # type: ignore[list-item]
    for nothing in ([], [ClassMoments("n")]):
        with pytest.raises(FusionError, match="got none"):
            ProbeSet.of(nothing)


@pytest.mark.parametrize(
    "forgery",
    [
        {"points": math.inf},
        {"points": 1e61},
        {"gain": 0.0},
        {"gain": -1.0},
        {"gain": math.nan},
        {"shift": math.inf},
        {"origin": 3.0},
        {"origin": 0.5},
        {"origin": math.nan},
        {"group": 99.0},
        {"trusted": 2.0},
        {"samples": -1.0},
        {"points": np.zeros(4)},
        {"points": np.array(1.0)},
        {"gain": np.array(1.0)},
        {"samples": np.array(1.0)},
        {"group": np.array(1.0)},
        {"points": np.zeros((7, 4))},
        {"gain": np.ones((2, 4))},
        {"meta": {"nodes": ["n1", "n0"]}},
        {"meta": {"drift": "wind"}},
        {"meta": {"labels": []}},
    ],
)
def test_forged_probes_are_refused(fleet: Fleet, forgery: dict[str, Any]) -> None:
    with pytest.raises(SnapshotError):
        ProbeSet.from_bytes(forged(fleet.probes.to_bytes(), "probes", **forgery))


# --- answers -------------------------------------------------------------------------------------


def test_answers_are_probabilities_of_the_classes_that_a_node_has(fleet: Fleet) -> None:
    for i, answers in enumerate(fleet.answers):
        held = range(3) if MISSING[i] is None else MISSING[i]
        assert answers.labels == tuple(WORLD.labels[k] for k in held or ())
        assert answers.probabilities.sum(axis=1) == pytest.approx(1.0)
        model = fleet.models[answers.node]
        for row, x in zip(answers.probabilities, fleet.probes.readings(answers.node), strict=True):
            said = model.predict_proba_one(x)
            total = sum(said.get(label, 0.0) for label in answers.labels)
            assert row.tolist() == pytest.approx(
                [said.get(label, 0.0) / total for label in answers.labels]
            )


def test_asking_changes_no_model(fleet: Fleet) -> None:
    model = fleet.models["n0"]
    before = model.state()
    assert ProbeAnswers.of(model, "n0", fleet.probes).to_bytes() == fleet.answers[0].to_bytes()
    assert model.state().same_as(before)


class OneClass:
    """A model that only names a class, or says something odd about probabilities."""

    def __init__(self, said: Any = None) -> None:
        self.said = said

    def predict_one(self, x: Any) -> str:
        return "c1"

    def predict_proba_one(self, x: Any) -> Any:
        if self.said is None:
            raise NotImplementedError
        return self.said


@pytest.mark.parametrize(
    ("said", "row"),
    [
        (None, [0, 1, 0]),
        ({}, [1 / 3] * 3),
        ({"else": 1.0}, [1 / 3] * 3),
        ({"c0": math.nan, "c1": 1.0, "c2": 1.0}, [0, 0.5, 0.5]),
        ({"c0": None, "c1": -1.0, "c2": 0.2}, [0, 0, 1]),
    ],
)
def test_models_that_say_little_have_answers_too(fleet: Fleet, said: Any, row: list[float]) -> None:
    answers = ProbeAnswers.of(OneClass(said), "n0", fleet.probes)
    assert np.allclose(answers.probabilities, row)
    answers.check(fleet.probes)


def test_answers_survive_bytes(fleet: Fleet) -> None:
    for answers in fleet.answers:
        again = ProbeAnswers.from_bytes(answers.to_bytes(), fleet.probes)
        assert again.to_bytes() == answers.to_bytes()


@pytest.mark.parametrize(
    ("forgery", "message"),
    [
        ({"probabilities": math.nan}, "sum to one"),
        ({"probabilities": -0.1}, "sum to one"),
        ({"probabilities": 1.5}, "sum to one"),
        ({"probabilities": np.full((96, 3), 0.4)}, "sum to one"),
        ({"probabilities": np.full((95, 3), 1 / 3)}, "shape"),
        ({"probabilities": np.full((96, 2), 0.5)}, "shape"),
        ({"samples": 0.0}, "samples"),
        ({"samples": -5.0}, "samples"),
        ({"samples": math.inf}, "samples"),
        ({"samples": 1e300}, "samples"),
        ({"samples": np.ones(4)}, "shape"),
        ({"meta": {"node": "stranger"}}, "stranger"),
        ({"meta": {"probes": "0" * 64}}, "expected answers to the probes"),
        ({"meta": {"labels": [["str", f"d{k}"] for k in range(3)]}}, "expected classes"),
        ({"meta": {"labels": [["str", "c0"]] * 3}}, "differ"),
        ({"meta": {"labels": "c0"}}, "metadata"),
        ({"meta": {"weight": 5}}, "metadata"),
        ({"code": np.zeros(3)}, "expected the arrays"),
    ],
)
def test_forged_answers_are_refused(fleet: Fleet, forgery: dict[str, Any], message: str) -> None:
    data = forged(fleet.answers[0].to_bytes(), "answers", **forgery)
    with pytest.raises((SnapshotError, FusionError), match=message):
        ProbeAnswers.from_bytes(data, fleet.probes)


def test_answers_to_other_probes_are_refused(fleet: Fleet) -> None:
    others = ProbeSet.of(fleet.statistics[:-1])
    with pytest.raises(FusionError, match="'n0': expected answers to the probes"):
        consensus("n1", others, fleet.answers)


# --- consensus -----------------------------------------------------------------------------------


def plain(fleet: Fleet, answers: ProbeAnswers) -> tuple[naive.Answers, dict[str, float]]:
    table = {
        str(label): column.tolist()
        for label, column in zip(answers.labels, answers.probabilities.T, strict=True)
    }
    return table, dict(zip(map(str, answers.labels), answers.samples.tolist(), strict=True))


def origins(fleet: Fleet) -> list[str]:
    return [str(fleet.probes.labels[k]) for k in fleet.probes.origin]


@pytest.mark.parametrize("node", ["n0", "n1", "n5"])
def test_consensus_is_that_of_the_oracle(fleet: Fleet, node: str) -> None:
    found = consensus(node, fleet.probes, fleet.answers)
    pairs = [plain(fleet, each) for each in fleet.answers if each.node != node]
    wanted = naive.consensus([p for p, _ in pairs], [n for _, n in pairs], origins(fleet))
    for row, theirs in zip(found.probabilities, wanted, strict=True):
        said = dict(zip(map(str, found.labels), row.tolist(), strict=True))
        assert said == pytest.approx(theirs)


def test_consensus_does_not_depend_on_order_repetition_or_own_answers(fleet: Fleet) -> None:
    first = consensus("n1", fleet.probes, fleet.answers)
    without = [each for each in fleet.answers if each.node != "n1"]
    for answers in (without, [*reversed(fleet.answers), fleet.answers[3]]):
        again = consensus("n1", fleet.probes, answers)
        assert again.labels == first.labels
        assert again.probabilities.tobytes() == first.probabilities.tobytes()
        assert again.voices.tobytes() == first.voices.tobytes()


def lying(answers: ProbeAnswers, samples: float = 2.0**53) -> ProbeAnswers:
    """The least probable class is sure, says a node with very many readings."""
    table = np.zeros_like(answers.probabilities)
    table[np.arange(len(table)), answers.probabilities.argmin(axis=1)] = 1.0
    return ProbeAnswers(
        answers.node, answers.probes, answers.labels, table, np.full(len(answers.labels), samples)
    )


@pytest.mark.parametrize("aggregator", ["trimmed_mean", "median"])
@pytest.mark.parametrize("liar", [0, 2, 5])
def test_one_liar_changes_hardly_anything(fleet: Fleet, aggregator: str, liar: int) -> None:
    forged_answers = list(fleet.answers)
    forged_answers[liar] = lying(fleet.answers[liar])
    for node in fleet.names:
        if node == fleet.names[liar]:
            continue
        before = consensus(node, fleet.probes, fleet.answers, aggregator=aggregator)
        after = consensus(node, fleet.probes, forged_answers, aggregator=aggregator)
        sure = before.probabilities.max(axis=1) > 0.9
        same = before.probabilities.argmax(axis=1) == after.probabilities.argmax(axis=1)
        assert sure.mean() > 0.7
        assert same[sure].mean() > 0.98


def test_whose_class_means_are_not_believed_has_no_say() -> None:
    given = [moments_of(f"n{i}", *WORLD.read(i, 60)) for i in range(5)]
    X, y = WORLD.read(8, 60)
    swapped = [{"c0": "c1", "c1": "c2", "c2": "c0"}[label] for label in y]
    probes = ProbeSet.of([*given, moments_of("odd", X, swapped)])
    models = {f"n{i}": learnt(streamlvq.GLVQ(), *WORLD.read(i, 60)) for i in range(5)}
    models["odd"] = learnt(streamlvq.GLVQ(), X, swapped)
    answers = [ProbeAnswers.of(model, name, probes) for name, model in models.items()]
    before, after = (consensus("n0", probes, each) for each in (answers[:-1], answers))
    assert before.probabilities.tobytes() == after.probabilities.tobytes()
    assert (after.voices == 4).all()


def test_a_class_can_be_asked_to_have_several_holders(fleet: Fleet) -> None:
    answers = [fleet.answers[0], fleet.answers[1]]  # the second lacks c2
    assert consensus("n5", fleet.probes, answers).labels == ("c0", "c1", "c2")
    agreed = consensus("n5", fleet.probes, answers, quorum=2)
    assert agreed.labels == ("c0", "c1")
    assert (agreed.voices[fleet.probes.origin == 2] == 0).all()
    assert consensus("n5", fleet.probes, answers, quorum=3).labels == ()


def test_nodes_that_share_no_class_teach_each_other_nothing() -> None:
    sides = [
        moments_of("a", *WORLD.read(1, 40, known=[0])),
        moments_of("b", *WORLD.read(2, 40, known=[1, 2])),
    ]
    probes = ProbeSet.of(sides)
    assert probes.group.tolist() == [0, 1]
    model = learnt(naive_bayes.GaussianNB(), *WORLD.read(2, 40, known=[1, 2]))
    answers = [ProbeAnswers.of(model, node, probes) for node in ("a", "b")]
    assert consensus("b", probes, answers).labels == ()
    taught = learn_from_probes(model, "b", probes, answers)
    assert taught.predict_proba_one({"f0": 1.0}).keys() == {"c1", "c2"}
    together = ProbeSet.of(sides, drift="none")  # somebody said that sensors agree
    answers = [ProbeAnswers.of(model, node, together) for node in ("a", "b")]
    assert consensus("b", together, answers).labels == ("c0",)


# --- discrepancy ---------------------------------------------------------------------------------


def test_discrepancy_is_that_of_the_oracle(fleet: Fleet) -> None:
    names, found = discrepancy(fleet.probes, reversed(fleet.answers))
    assert names == tuple(fleet.names)
    assert np.array_equal(found, found.T, equal_nan=True)
    tables = [plain(fleet, each)[0] for each in fleet.answers]
    for i, one in enumerate(tables):
        for j, other in enumerate(tables):
            if i == j:
                assert found[i, j] == 0.0
            elif len(set(one) & set(other)) < 2:
                assert math.isnan(found[i, j])
            else:
                wanted = naive.discrepancy(one, other, origins(fleet))
                assert found[i, j] == pytest.approx(wanted, abs=1e-12)


def test_discrepancy_tells_a_liar_from_honest_nodes(fleet: Fleet) -> None:
    answers = [*fleet.answers[:5], lying(fleet.answers[5])]
    _, found = discrepancy(fleet.probes, answers)
    honest = found[:5, :5][~np.eye(5, dtype=bool)]
    assert np.nanmax(honest) < 0.3
    assert np.nanmin(found[5, :5]) > np.nanmax(honest)
    assert found[5, 0] > 0.9  # with whom it shares all classes


shares = st.lists(st.floats(0.0, 1.0), min_size=4, max_size=4).filter(lambda p: sum(p) > 0.01)


@settings(derandomize=True, max_examples=50, deadline=None, database=None)
@given(shares, shares)
def test_jensen_shannon_is_that_of_the_oracle(one: list[float], other: list[float]) -> None:
    p, q = (np.array(each) / sum(each) for each in (one, other))
    (found,) = jensen_shannon(p[None], q[None])
    assert found == pytest.approx(naive.jensen_shannon(p.tolist(), q.tolist()), abs=1e-9)
    assert 0.0 <= found <= 1.0
    assert found == jensen_shannon(q[None], p[None])[0]


# --- learning ------------------------------------------------------------------------------------


def test_every_kind_of_model_learns_classes_that_it_has_never_seen(fleet: Fleet) -> None:
    for node in ("n1", "n3", "n4"):  # a tree, a committee, a forest
        local = fleet.models[node]
        taught = learn_from_probes(local, node, fleet.probes, fleet.answers)
        assert fleet.accuracy(taught, node) > fleet.accuracy(local, node) + 0.2
    for node in ("n0", "n2", "n5"):  # those that lack nothing lose nothing
        local = fleet.models[node]
        taught = learn_from_probes(local, node, fleet.probes, fleet.answers)
        assert fleet.accuracy(taught, node) > fleet.accuracy(local, node) - 0.03


def test_a_model_of_pairs_and_pipelines_take_part() -> None:
    makers = {
        "pairs": streamlvq.PairwiseLVQ,
        "pipeline": lambda: compose.Pipeline(preprocessing.StandardScaler(), streamlvq.GLVQ()),
        "tree": tree.HoeffdingAdaptiveTreeClassifier,
    }
    known = {"pairs": None, "pipeline": [0, 1], "tree": None}
    models, statistics = {}, []
    for seed, (name, make) in enumerate(makers.items()):
        X, y = WORLD.read(seed, 120, known=known[name])
        models[name] = learnt(make(), X, y)
        statistics.append(moments_of(name, X, y))
    probes = ProbeSet.of(statistics)
    answers = [ProbeAnswers.of(model, name, probes) for name, model in models.items()]
    taught = learn_from_probes(models["pipeline"], "pipeline", probes, answers)
    assert accuracy(taught, *WORLD.read(55, 200)) > 0.9


def test_the_local_model_learns_nothing(fleet: Fleet) -> None:
    model = fleet.models["n3"]
    before = model.state()
    taught = learn_from_probes(model, "n3", fleet.probes, fleet.answers)
    assert model.state().same_as(before)
    assert taught.samples > model.samples
    again = learn_from_probes(model, "n3", fleet.probes, [*reversed(fleet.answers)])
    assert again.state().same_as(taught.state())


class Listener:
    """A model that keeps what it is taught; with weights."""

    def __init__(self) -> None:
        self.heard: list[tuple[dict[Any, float], Any, float]] = []

    def learn_one(self, x: dict[Any, float], y: Any, w: float = 1.0) -> None:
        self.heard.append((x, y, w))


class CountingListener(Listener):
    """A model that keeps what it is taught; without weights."""

    def learn_one(self, x: dict[Any, float], y: Any) -> None:  # type: ignore[override]
        self.heard.append((x, y, 1.0))


@pytest.mark.parametrize("strength", [0.3, 1.0, 2.5])
def test_weights_follow_the_consensus(fleet: Fleet, strength: float) -> None:
    options = {"readings_per_probe": strength}
    agreed = consensus("n0", fleet.probes, fleet.answers)
    taught = learn_from_probes(Listener(), "n0", fleet.probes, fleet.answers, **options)
    wanted = []
    for x, row in zip(fleet.probes.readings("n0"), agreed.probabilities.tolist(), strict=True):
        kept = [p if p >= 0.05 else 0.0 for p in row]
        wanted += [
            (x, label, strength * p / sum(kept))
            for label, p in zip(agreed.labels, kept, strict=True)
            if p > 0
        ]
    assert [(x, y) for x, y, _ in taught.heard] == [(x, y) for x, y, _ in wanted]
    assert [w for *_, w in taught.heard] == pytest.approx([w for *_, w in wanted])
    assert sum(w for *_, w in taught.heard) == pytest.approx(strength * len(fleet.probes))
    # Without weights: whole readings, as many of each class as its weights add up to.
    counted = learn_from_probes(CountingListener(), "n0", fleet.probes, fleet.answers, **options)
    for label in agreed.labels:
        total = sum(w for _, y, w in wanted if y == label)
        assert abs(sum(y == label for _, y, _ in counted.heard) - total) <= 0.5 + 1e-9


def test_who_takes_weights() -> None:
    assert takes_weights(streamlvq.GLVQ())
    assert takes_weights(streamlvq.RelSimRejector(streamlvq.GLVQ(), threshold=0.2))
    assert not takes_weights(preprocessing.StandardScaler() | naive_bayes.GaussianNB())


@pytest.mark.parametrize("strength", [0.0, -1.0, math.nan, 1e9])
def test_wrong_strengths_are_refused(fleet: Fleet, strength: float) -> None:
    with pytest.raises(FusionError, match="readings_per_probe: expected"):
        learn_from_probes(
            fleet.models["n0"], "n0", fleet.probes, fleet.answers, readings_per_probe=strength
        )


def test_taught_by_a_liar_a_node_does_not_forget(fleet: Fleet) -> None:
    answers = [lying(fleet.answers[0]), *fleet.answers[1:]]
    for node in ("n1", "n2"):
        taught = learn_from_probes(fleet.models[node], node, fleet.probes, answers)
        honest = learn_from_probes(fleet.models[node], node, fleet.probes, fleet.answers)
        assert fleet.accuracy(taught, node) > fleet.accuracy(honest, node) - 0.05


def test_copies_are_independent(fleet: Fleet) -> None:
    probes = copy.deepcopy(fleet.probes)
    assert probes.digest == fleet.probes.digest


# --- pools ---------------------------------------------------------------------------------------


def tree_of(seed: int, known: list[int]) -> Any:
    return learnt(tree.HoeffdingTreeClassifier(), *WORLD.read(seed, 200, known=known))


def later(seed: int, known: list[int], count: int = 60) -> list[Any]:
    X, y = WORLD.read(seed, count, known=known)
    return list(zip(readings(X), y, strict=True))


def test_a_tree_is_pooled_with_its_copy_that_knows_another_class(fleet: Fleet) -> None:
    node = "n1"  # a tree that has never seen c2
    local = fleet.models[node]
    taught = learn_from_probes(local, node, fleet.probes, fleet.answers)
    X, y = WORLD.read(42, 60, known=[0, 1], shift=OFFSETS[1])
    asked = list(zip(readings(X), y, strict=True))
    pool = pool_taught(local, taught, asked, node=node)
    assert fleet.accuracy(pool, node) > fleet.accuracy(local, node) + 0.2
    assert pool.report is not None and pool.report.records == 60
    assert set(pool.classes) == set(WORLD.labels)
    before = taught.predict_proba_one(asked[0][0])
    pool.learn_one(*asked[0])
    assert taught.predict_proba_one(asked[0][0]) == before
    assert pool.local is local and len(pool.scored()) == 0


def test_a_copy_that_is_wrong_counts_for_nothing() -> None:
    local = tree_of(1, [0, 1, 2])
    X, y = WORLD.read(2, 200)
    taught = learnt(tree.HoeffdingTreeClassifier(), X, [*y[1:], y[0]])
    pool = pool_taught(local, taught, later(3, [0, 1, 2]))
    assert pool.weights.named() == {"probes": 0.0, "local": 1.0, "unseen": -6.0}
    for x, _ in later(4, [0, 1, 2]):
        assert pool.predict_one(x) == local.predict_one(x)


def test_a_hidden_class_tells_what_a_copy_knows_of_new_ones() -> None:
    local, good = tree_of(1, [0, 1]), tree_of(5, [0, 1, 2])
    asked = later(3, [0, 1])
    blind, knowing = tree_of(1, [0]), tree_of(5, [0, 1, 2])
    trial = HiddenTrial("c1", blind, knowing)
    test = WORLD.read(7, 200)
    assert accuracy(pool_taught(local, good, asked, trials=[trial]), *test) > 0.9
    X, y = WORLD.read(6, 200)
    wrong = learnt(tree.HoeffdingTreeClassifier(), X, [*y[1:], y[0]])
    doubted = pool_taught(local, wrong, asked, trials=[HiddenTrial("c1", blind, wrong)])
    assert accuracy(doubted, *test) >= accuracy(local, *test) - 0.01


@pytest.mark.parametrize(
    ("known", "label", "message"),
    [
        ([0, 1, 2], None, "classes that the local model knows, got labels"),
        ([], None, "got none"),
        ([0, 1], "c2", "a class that the node has, got 'c2'"),
    ],
)
def test_readings_and_trials_must_be_of_known_classes(
    known: list[int], label: str | None, message: str
) -> None:
    local = tree_of(1, [0, 1])
    asked = later(3, known) if known else []
    trials = [] if label is None else [HiddenTrial(label, local, local)]
    with pytest.raises(FusionError, match=message):
        pool_taught(local, tree_of(2, [0, 1, 2]), asked, trials=trials)
