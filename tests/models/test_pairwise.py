"""What the model of pairs promises beyond what every model does."""

from __future__ import annotations

import copy
import itertools
import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from river import metrics

import streamlvq
from streamlvq import PairwiseLVQ
from streamlvq.kernels.layout import COUPLINGS
from streamlvq.metrics import ExpectedCalibrationError
from support.samples import blobs, frozen, image_segments, knowledge, readings, taught

LABELS = ("oak", "ash", "elm", "fir", "yew", "box")
# All that a pair has learnt: two rows of the first sections, one of the others.
OF_PROTOTYPES = ("w", "w_moment", "wins", "born", "label")
OF_PAIRS = ("omega", "row_moment", "column_moment", "total_moment", "platt")


def trees(n: int, classes: int, seed: int, missing: float = 0.0) -> tuple[Any, list[str]]:
    X, y = blobs(n, 4, classes, seed, missing)
    return X, [LABELS[c] for c in y]


def learnt(n: int = 150, classes: int = 3, seed: int = 50, **params: Any) -> tuple[Any, Any]:
    X, y = trees(n, classes, seed)
    return taught(PairwiseLVQ(**params), X, y), X


def of_pairs(model: Any, pairs: int) -> list[bytes]:
    """What the first pairs know, bit by bit."""
    state = model._engine.state
    sections = [state[name][: 2 * pairs] for name in OF_PROTOTYPES]
    sections += [state[name][:pairs] for name in OF_PAIRS]
    return [section.tobytes() for section in sections]


# --- probabilities --------------------------------------------------------------------------------


@pytest.mark.parametrize("coupling", COUPLINGS)
def test_probabilities_follow_the_order_of_classes(coupling: str) -> None:
    model, X = learnt(classes=5, coupling=coupling)
    together = model.predict_proba_array(X, features=list(model.features))
    assert together.shape == (len(X), 5)
    np.testing.assert_allclose(together.sum(axis=1), 1.0)
    for x, row in zip(readings(X), together, strict=True):
        p = model.predict_proba_one(x)
        assert tuple(p) == model.classes
        assert list(p.values()) == row.tolist()
        assert model.predict_one(x) == model.classes[int(row.argmax())]


def test_calibrated_on_image_segments() -> None:
    """Progressive: every sample is judged before it is learnt."""
    model, accuracy, error = PairwiseLVQ(), metrics.Accuracy(), ExpectedCalibrationError()
    for x, y in image_segments(3000):
        p = model.predict_proba_one(x)
        if p:
            error.update(y, p)
        accuracy.update(y, model.predict_one(x))
        model.learn_one(x, y)
    assert accuracy.get() > 0.915
    assert error.get() < 0.03


def test_what_cannot_be_learnt_is_not_believed() -> None:
    """Rehearsed samples are known by heart, but no sigmoid is fitted on them."""
    random = np.random.default_rng(51)
    X, y = random.normal(size=(400, 10)), random.integers(0, 3, 400)
    before, _ = PairwiseLVQ(rehearsal=8).learn_array_watched(X, y)
    assert before[200:].max(axis=1).mean() < 0.45


# --- scores are taken before learning ------------------------------------------------------------


@pytest.mark.parametrize("coupling", COUPLINGS)
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_watched_learning_sees_progressive_predictions(coupling: str, missing: float) -> None:
    X, y = trees(120, 4, seed=52, missing=missing)
    watched, stepwise = PairwiseLVQ(coupling=coupling), PairwiseLVQ(coupling=coupling)
    before, codes = watched.learn_array_watched(X, y, features=list(readings(X)[0]))
    for x, label, row, code in zip(readings(X), y, before.tolist(), codes, strict=True):
        expected = list(stepwise.predict_proba_one(x).values())
        known = len(expected) > 1 and label in stepwise.classes
        stepwise.learn_one(x, label)
        assert stepwise.classes[code] == label
        if known:
            assert row == expected + [-1.0] * (4 - len(expected))
            assert stepwise.last_probabilities().tolist() == expected
        else:
            assert row == [-1.0] * 4
    assert knowledge(watched) == knowledge(stepwise)


@pytest.mark.parametrize("coupling", COUPLINGS)
def test_arrays_are_loops_whatever_the_coupling(coupling: str) -> None:
    X, y = trees(120, 6, seed=53, missing=0.1)
    array = PairwiseLVQ(coupling=coupling)
    array.learn_array(X, y, features=list(readings(X)[0]))
    assert frozen(array) == frozen(taught(PairwiseLVQ(coupling=coupling), X, y))


# --- classes that appear --------------------------------------------------------------------------


@pytest.mark.parametrize("first", [2, 4], ids=["room for more", "memory grows"])
def test_a_late_class_is_learnt_and_old_pairs_stay_as_they_are(first: int) -> None:
    X, y = trees(400, first + 1, seed=54)
    late = np.array(y) == LABELS[first]
    early = [label for label in y if label != LABELS[first]]
    model = taught(PairwiseLVQ(rehearsal=0), X[~late], early)
    pairs = first * (first - 1) // 2
    before = of_pairs(model, pairs)
    taught(model, X[late], [LABELS[first]] * late.sum())
    assert of_pairs(model, pairs) == before
    assert len(model.prototypes()) == (first + 1) * first
    p = model.predict_proba_array(X[late], features=list(model.features))
    assert np.mean(p.argmax(axis=1) == first) > 0.8


def test_pairs_of_other_classes_learn_nothing_from_a_sample() -> None:
    """Samples of the class called oak do not teach how to tell an ash from an elm."""
    model, X = learnt(rehearsal=0)
    pair = [p.index for p in model.prototypes() if LABELS[0] not in (p.label, p.against)]
    assert len(pair) == 2
    before = model._engine.state["w"][pair].tobytes()
    taught(model, X[:20], [LABELS[0]] * 20)
    assert model._engine.state["w"][pair].tobytes() == before


def test_new_pairs_start_at_the_means_of_their_classes() -> None:
    model, X = learnt(classes=2, rehearsal=0)
    means = [model._engine.state["class_mean"][c].tolist() for c in range(2)]
    model.learn_one(readings(X)[0], "new")
    new = [p for p in model.prototypes() if "new" in (p.label, p.against)]
    assert [(p.label, p.against) for p in new] == [
        (model.classes[0], "new"), ("new", model.classes[0]),
        (model.classes[1], "new"), ("new", model.classes[1]),
    ]  # fmt: skip
    first = list(readings(X)[0].values())
    assert [list(p.values.values()) for p in new] == [means[0], first, means[1], first]
    assert {(p.count, p.age) for p in new} == {(1, 1)}


def test_with_one_class_there_is_nothing_to_tell_apart() -> None:
    model = PairwiseLVQ()
    for k in range(30):
        model.learn_one({"a": float(k % 3), "b": 1.0}, "only")
    assert model.prototypes() == []
    assert model.predict_proba_one({"a": 7.0}) == {"only": 1.0}
    e = model.explain_one({"a": 1.0, "b": 1.0})
    assert (e.winner.label, e.winner.against, e.winner.index) == ("only", None, -1)
    assert (e.winner.values, e.winner.count) == (pytest.approx({"a": 1.0, "b": 1.0}), 30)
    with pytest.raises(IndexError):
        model.metric(0)


# --- coupling -------------------------------------------------------------------------------------


def test_coupling_may_be_changed_at_any_time() -> None:
    model, X = learnt(classes=4)
    memory = of_pairs(model, 6)
    answers = {}
    for coupling in (*COUPLINGS, "pkpd"):
        model.coupling = coupling
        probabilities = model.predict_proba_array(X, features=list(model.features)).tolist()
        assert answers.setdefault(coupling, probabilities) == probabilities
    assert len({str(answer) for answer in answers.values()}) == len(COUPLINGS)
    assert of_pairs(model, 6) == memory


def test_smooth_couplings_agree_about_most_readings() -> None:
    model, X = learnt(n=300, classes=4)
    said = []
    for coupling in COUPLINGS:
        model.coupling = coupling
        said.append(model.predict_array(X, features=list(model.features)).tolist())
    for one, other in itertools.combinations(said, 2):
        assert np.mean([a == b for a, b in zip(one, other, strict=True)]) > 0.95


@pytest.mark.parametrize("bad", ["HT", "", None, 0, ["ht"]], ids=repr)
def test_bad_couplings_are_refused_and_change_nothing(bad: Any) -> None:
    model, _ = learnt(n=40)
    before = frozen(model)
    with pytest.raises(ValueError, match=r"PairwiseLVQ\(coupling=...\): expected one of \('pkpd'"):
        model.coupling = bad
    assert frozen(model) == before
    with pytest.raises(ValueError, match="coupling"):
        PairwiseLVQ(coupling=bad)


@pytest.mark.parametrize("parameter", ["prototypes_per_class", "max_prototypes_per_class"])
def test_a_pair_has_two_prototypes(parameter: str) -> None:
    with pytest.raises(TypeError, match=parameter):
        PairwiseLVQ(**{parameter: 2})


COPIES: dict[str, Callable[[Any], Any]] = {
    "pickle": lambda m: pickle.loads(pickle.dumps(m)),
    "deepcopy": copy.deepcopy,
    "clone": lambda m: m.clone(include_attributes=True),
}


@pytest.mark.parametrize("how", COPIES)
def test_copies_couple_alike_and_go_on_alike(how: str) -> None:
    model, X = learnt(classes=4)
    model.coupling = "ht"
    twin = COPIES[how](model)
    assert twin.coupling == "ht"
    for one in (model, twin):
        taught(one, X[:40], [LABELS[k % 5] for k in range(40)])
    assert knowledge(twin) == knowledge(model)
    assert [twin.predict_proba_one(x) for x in readings(X)] == [
        model.predict_proba_one(x) for x in readings(X)
    ]


def test_clone_is_new_with_the_same_parameters() -> None:
    model, X = learnt(coupling="vote", rank=2)
    clone = model.clone()
    assert (clone.coupling, clone.rank, clone.classes) == ("vote", 2, ())
    assert clone.predict_proba_one(readings(X)[0]) == {}


# --- readings with little or nothing in them ------------------------------------------------------


def test_empty_readings_teach_no_prototype() -> None:
    model, X = learnt(rehearsal=0)
    empty = dict.fromkeys(model.features, math.nan)
    values, metric = [p.values for p in model.prototypes()], model.metric()
    p = model.predict_proba_one(empty)
    assert sum(p.values()) == pytest.approx(1.0)
    assert p == model.predict_proba_one({}) == model.predict_proba_one({"unheard of": 3.0})
    for k in range(12):
        model.learn_one(empty, LABELS[k % 3])
    assert [p.values for p in model.prototypes()] == values
    np.testing.assert_allclose(model.metric(), metric, rtol=1e-12)
    assert math.isfinite(sum(model.predict_proba_one(readings(X)[0]).values()))


def test_a_class_may_start_with_an_empty_reading() -> None:
    X, y = trees(120, 3, seed=55)
    model = PairwiseLVQ()
    for label in LABELS[:3]:
        model.learn_one({}, label)
    taught(model, X, y)
    hits = [model.predict_one(x) == label for x, label in zip(readings(X), y, strict=True)]
    assert np.mean(hits) > 0.7
    assert np.isfinite([list(p.values.values()) for p in model.prototypes()]).all()


@pytest.mark.parametrize("b", [1.0, None], ids=["complete", "gap"])
def test_readings_beyond_all_measure_do_no_harm(b: float | None) -> None:
    """The square of such a distance is infinite."""
    random = np.random.default_rng(56)
    model = PairwiseLVQ(rehearsal=2)
    for k in range(60):
        noise = random.normal(size=2)
        model.learn_one({"a": (k % 2 + noise[0]) * 1e-100, "b": k % 2 + noise[1]}, k % 2)
    x = {"a": 1e59, "b": b}
    for _ in range(2):
        assert sum(model.predict_proba_one(x).values()) == pytest.approx(1.0)
        model.learn_one(x, 0)
    assert np.isfinite(model._engine.state["platt"]).all()
    assert np.isfinite(model._engine.state["omega"]).all()


# --- insight --------------------------------------------------------------------------------------


def test_prototypes_say_what_they_are_to_be_told_from() -> None:
    model, _ = learnt(classes=4, rehearsal=8)
    prototypes = model.prototypes()
    assert [p.index for p in prototypes] == list(range(12))
    sides = [(p.label, p.against) for p in prototypes]
    assert set(sides) == set(itertools.permutations(model.classes, 2))
    for one, other in zip(sides[::2], sides[1::2], strict=True):
        assert one == other[::-1]
    counts = dict(zip(model.classes, model._engine.state["class_count"].tolist(), strict=False))
    for p in prototypes:  # a sample that is rehearsed is not won once more
        assert 0.5 * counts[p.label] < p.count <= counts[p.label]


def test_the_two_of_a_pair_share_a_metric() -> None:
    model, _ = learnt(classes=3)
    matrices = [model.metric(index) for index in range(6)]
    for k in range(0, 6, 2):
        np.testing.assert_array_equal(matrices[k], matrices[k + 1])
    assert not np.allclose(matrices[0], matrices[2])
    np.testing.assert_allclose(model.metric(), np.mean(matrices, axis=0))
    with pytest.raises(IndexError, match="from 0 to 5, got 6"):
        model.metric(6)


def test_each_pair_finds_its_own_features() -> None:
    """Height tells the first two apart, width the third from either."""
    random = np.random.default_rng(57)
    model = PairwiseLVQ()
    for k in range(600):
        noise = random.normal(size=4)
        x = {"height": 4.0 * (k % 3 == 1) + noise[0], "width": 4.0 * (k % 3 == 2) + noise[1]}
        if k % 3 == 2:
            x["height"] += 4.0 * random.integers(2)
        model.learn_one({**x, "age": noise[2], "date": noise[3]}, LABELS[k % 3])
    features = list(model.features)
    for p in model.prototypes():
        wanted = "width" if LABELS[2] in (p.label, p.against) else "height"
        assert features[int(np.diag(model.metric(p.index, raw=False)).argmax())] == wanted
    assert model.relevances(LABELS[2])["width"] > 0.6
    assert model.relevances(LABELS[0])["height"] > 0.2
    mine = [p for p in model.prototypes() if p.label == LABELS[0]]
    diagonals = [np.diag(model.metric(p.index, raw=False)) for p in mine]
    expected = np.average(diagonals, axis=0, weights=[p.count for p in mine])
    assert list(model.relevances(LABELS[0]).values()) == pytest.approx(expected.tolist())


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_explanations_are_about_the_two_likeliest_classes(missing: float) -> None:
    X, y = trees(200, 4, seed=58, missing=missing)
    model = taught(PairwiseLVQ(), X, y)
    for x in readings(X[:60]):
        p = model.predict_proba_one(x)
        first, second = sorted(p, key=lambda label: -p[label])[:2]
        e = model.explain_one(x)
        assert (e.label, e.winner.label, e.winner.against) == (first, first, second)
        assert e.runner_up is not None
        assert (e.runner_up.label, e.runner_up.against) == (second, first)
        assert e.winner.index // 2 == e.runner_up.index // 2
        assert e.winner in model.prototypes()
        difference = e.runner_up_distance - e.distance
        assert sum(e.features.values()) == pytest.approx(difference, rel=1e-9, abs=1e-12)


# --- company --------------------------------------------------------------------------------------


def test_member_of_a_committee() -> None:
    X, y = trees(150, 3, seed=59)
    names = list(readings(X)[0])
    loop, array = (
        streamlvq.LVQCommittee(members={"learner": PairwiseLVQ(), "follower": None})
        for _ in range(2)
    )
    taught(loop, X, y)
    array.learn_array(X, y, features=names)
    assert loop.weights == array.weights
    said = [one.predict_proba_array(X, names).tolist() for one in (loop, array)]
    assert said[0] == said[1]
    assert loop.weights["learner"] > 0.1
