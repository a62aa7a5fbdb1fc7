"""LVQCommittee: several models, one opinion."""

from __future__ import annotations

import itertools
import math
import os
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from river import checks, datasets, evaluate, linear_model, metrics, preprocessing

import naive_pool
import streamlvq
from streamlvq.errors import SnapshotError
from streamlvq.estimator import StateLimits
from streamlvq.kernels import kernels
from streamlvq.kernels import layout as at
from streamlvq.models.committee import CommitteeMember, start_weights
from streamlvq.registry import MEMBERS


def small_committee() -> streamlvq.LVQCommittee:
    return streamlvq.LVQCommittee(
        members={
            "learner": streamlvq.LGMLVQ(rank=4, rehearsal=2, buffer_size=50),
            "follower": streamlvq.GLVQ(half_life=50, rehearsal=2, buffer_size=20),
        }
    )


def segments(n: int) -> list[tuple[dict[str, float], str]]:
    return list(itertools.islice(datasets.ImageSegments(), n))


@pytest.mark.parametrize("check", list(checks.yield_checks(streamlvq.LVQCommittee())))
def test_river_checks(check: Callable[[object], None]) -> None:
    check(streamlvq.LVQCommittee())


# --- the pools ------------------------------------------------------------------------------------


def random_opinions(rng: np.random.Generator, members: int, classes: int) -> Any:
    """Members that resemble each other, as those of a committee do."""
    truth = rng.normal(size=classes)
    scores = truth + rng.normal(size=(members, classes)) * rng.uniform(0.2, 2, (members, 1))
    return np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)


def test_gradient_and_curvature_are_those_of_the_log_loss() -> None:
    """Finite differences, of the oracle that the kernel is compared with."""
    rng, small = np.random.default_rng(0), 1e-5
    for members, classes in ((1, 2), (2, 3), (4, 7)):
        opinions = random_opinions(rng, members, classes).tolist()
        weights, code = rng.uniform(0, 2, members).tolist(), int(rng.integers(classes))

        def moved(m: int, by: float, start: list[float] = weights) -> list[float]:
            return [w + by * (k == m) for k, w in enumerate(start)]

        for m in range(members):
            up = naive_pool.log_loss(opinions, moved(m, small), code)
            down = naive_pool.log_loss(opinions, moved(m, -small), code)
            slope = naive_pool.gradient(opinions, weights, code)[m]
            assert slope == pytest.approx((up - down) / (2 * small), abs=1e-8)
            rise = np.subtract(
                naive_pool.gradient(opinions, moved(m, small), code),
                naive_pool.gradient(opinions, moved(m, -small), code),
            )
            row = naive_pool.hessian(opinions, weights)[m]
            assert row == pytest.approx((rise / (2 * small)).tolist(), abs=1e-8)


@pytest.mark.parametrize(("members", "core"), [(1, 1), (2, 2), (4, 2), (5, 3)])
def test_pools_are_those_of_the_oracle(members: int, core: int) -> None:
    rng = np.random.default_rng(members)
    kernel, oracle = kernels("pool"), naive_pool.NaivePools(members, core)
    fitted, classes = start_weights(members, core), 4
    work = np.empty(at.pool_work_shape(members, classes))
    for _ in range(60):
        known = int(rng.integers(2, classes + 1))
        opinions = random_opinions(rng, members, known)
        code = int(rng.choice(known, p=opinions[-1]))
        row = np.ascontiguousarray(opinions[:, None])
        out = np.empty((1, known))
        kernel.pool(row, fitted, core, work, out)
        assert out[0] == pytest.approx(oracle.pool(opinions.tolist()), rel=1e-9)
        kernel.fit(row, np.array([known]), np.array([code]), fitted, core, work)
        oracle.fit(opinions.tolist(), code)
        assert fitted[:, 0] == pytest.approx(oracle.credit, rel=1e-9)
        expected = np.array(oracle.weights)
        assert fitted[:, 1 : 1 + members] == pytest.approx(expected, rel=1e-7, abs=1e-10)
        curvature = fitted[:, 1 + members :].reshape(-1, members, members)
        assert curvature == pytest.approx(np.array(oracle.curvature), rel=1e-7, abs=1e-12)


def test_a_step_solves_for_all_weights_together() -> None:
    """With two members of one opinion, weights of their own Newton steps would go twice too far."""
    twin = random_opinions(np.random.default_rng(1), 1, 5)[0]
    oracle = naive_pool.NaivePools(2, 2)
    oracle.fit([twin.tolist(), twin.tolist()], int(twin.argmax()))
    (h, _), _ = naive_pool.hessian([twin.tolist()] * 2, [0.5, 0.5])
    slope = -naive_pool.gradient([twin.tolist()] * 2, [0.5, 0.5], int(twin.argmax()))[0]
    exact = slope / (2 * h + naive_pool.PRIOR)  # of each, if both move
    assert oracle.weights[0] == pytest.approx([0.5 + exact] * 2, rel=2e-2)
    assert slope / (h + naive_pool.PRIOR) > 1.05 * exact


def outcomes(model: streamlvq.LVQCommittee, n: int) -> tuple[Any, naive_pool.NaivePools]:
    """Let a committee and the oracle learn the same, then compare them."""
    oracle = naive_pool.NaivePools(len(model.parts), model.core)
    for x, y in segments(n):
        opinions = [member.predict_proba_one(x) for member in model.parts.values()]
        if y in opinions[0] and len(opinions[0]) > 1:
            code = list(opinions[0]).index(y)
            oracle.fit([list(opinion.values()) for opinion in opinions], code)
        model.learn_one(x, y)
    x, _ = segments(n + 1)[-1]
    opinions = [list(member.predict_proba_one(x).values()) for member in model.parts.values()]
    return oracle.pool(opinions), oracle


@pytest.mark.parametrize("members", [None, ["learner", "follower"], ["follower", "pairs"]])
def test_probabilities_and_weights_are_those_of_the_oracle(members: list[str] | None) -> None:
    model = streamlvq.LVQCommittee(members=members)
    expected, oracle = outcomes(model, 120)
    x, _ = segments(121)[-1]
    assert list(model.predict_proba_one(x).values()) == pytest.approx(expected, rel=1e-6)
    assert list(model.weights.values()) == pytest.approx(oracle.mean_weights(), rel=1e-6, abs=1e-9)


def test_a_useless_member_costs_nothing() -> None:
    """One that is sure of the wrong class half of the time, beside one that knows."""
    rng, kernel = np.random.default_rng(5), kernels("pool")
    fitted, work = start_weights(2, 1), np.empty(at.pool_work_shape(2, 3))
    losses: dict[str, list[float]] = {"alone": [], "both": []}
    for _ in range(2000):
        code = int(rng.integers(3))
        good = np.full(3, 0.05)
        good[code if rng.random() < 0.9 else int(rng.integers(3))] += 0.85
        bad = np.full(3, 0.001)
        bad[code if rng.random() < 0.5 else int(rng.integers(3))] += 0.997
        row, out = np.array([[good], [bad]]), np.empty((1, 3))
        kernel.pool(row, fitted, 1, work, out)
        losses["both"].append(-math.log(out[0, code]))
        losses["alone"].append(-math.log(good[code]))
        kernel.fit(row, np.array([3]), np.array([code]), fitted, 1, work)
    assert np.mean(losses["both"]) < np.mean(losses["alone"]) + 0.005
    assert np.mean(losses["both"][:50]) < np.mean(losses["alone"][:50]) + 0.1


# --- learning -------------------------------------------------------------------------------------


def test_array_path_equals_one_by_one() -> None:
    samples = segments(200)
    one, many = small_committee(), small_committee()
    names = sorted(samples[0][0])
    rows = np.array([[x[name] for name in names] for x, _ in samples])
    for x, y in samples:
        one.learn_one(x, y)
    many.learn_array(rows[:80], [y for _, y in samples[:80]], features=names)
    many.learn_array(rows[80:], [y for _, y in samples[80:]], features=names)
    assert one.weights == many.weights
    expected = np.array([list(one.predict_proba_one(x).values()) for x, _ in samples])
    assert np.array_equal(many.predict_proba_array(rows, features=names), expected)
    labels = [one.predict_one(x) for x, _ in samples]
    assert many.predict_array(rows, features=names).tolist() == labels


def test_pickle_goes_on_where_it_stopped() -> None:
    samples = segments(300)
    model = small_committee()
    for x, y in samples[:150]:
        model.learn_one(x, y)
    twin = pickle.loads(pickle.dumps(model))
    for x, y in samples[150:]:
        assert twin.predict_proba_one(x) == model.predict_proba_one(x)
        model.learn_one(x, y)
        twin.learn_one(x, y)


def test_the_better_member_has_more_to_say() -> None:
    model = streamlvq.LVQCommittee(
        members={
            "learner": None,
            "follower": streamlvq.LVQ1(learning_rate=0.9, rehearsal=0),
        }
    )
    for x, y in segments(800):
        model.learn_one(x, y)
    assert model.weights["learner"] > 2 * model.weights["follower"]


def test_infinity_changes_nothing() -> None:
    model = small_committee()
    for x, y in segments(60):
        model.learn_one(x, y)
    before = pickle.dumps(model)
    bad = dict(x, **{next(iter(x)): math.inf})
    with pytest.raises(ValueError, match="expected a finite number"):
        model.learn_one(bad, y)
    assert pickle.dumps(model) == before


def test_unhashable_labels_are_refused_as_models_refuse_them() -> None:
    model = streamlvq.LVQCommittee()
    for x, y in segments(50):
        model.learn_one(x, y)
    before, samples = model.predict_proba_one(x), model.samples
    with pytest.raises(TypeError, match=r"expected a hashable label, got \['q'\]"):
        model.learn_one(x, ["q"])  # type: ignore[arg-type]
    assert (model.predict_proba_one(x), model.samples) == (before, samples)


def test_train_and_observe() -> None:
    samples = segments(400)
    model = small_committee()
    model.observe_one(samples[0][0])
    assert model.predict_proba_one(samples[0][0]) == {}
    assert model.predict_one(samples[0][0]) is None
    assert model.predict_labels_one(samples[0][0]) is None
    X, y = [x for x, _ in samples], [y for _, y in samples]
    model.train(X[:300], y[:300], epochs=5)
    hits = [model.predict_one(x) == label for x, label in samples[300:]]
    assert np.mean(hits) > 0.85


@pytest.mark.parametrize("verb", ["train", "learn_array", "learn_one"])
def test_each_member_knows_what_it_means_that_a_feature_is_absent(verb: str) -> None:
    words = [{"common": 1.0, f"rare {k % 3}": 2.0 + k % 2} for k in range(60)]
    labels = [f"class {k % 3}" for k in range(60)]
    members = {absent: streamlvq.GLVQ(absent=absent) for absent in ("missing", "zero")}
    committee = streamlvq.LVQCommittee(members=members)
    for model in (committee, *members.values()):
        if verb == "learn_one":
            for x, y in zip(words, labels, strict=True):
                model.learn_one(x, y)
        else:
            getattr(model, verb)(words, labels)
    for absent, alone in members.items():
        part: Any = committee.parts[absent]
        assert part.state().same_as(alone.state())
    zero = members["zero"].prototypes()[0].values
    assert zero["rare 1"] < 1e-9 or zero["rare 0"] < 1e-9
    assert not any(math.isnan(value) for value in zero.values())


def test_default_is_accurate() -> None:
    score = evaluate.progressive_val_score(
        datasets.ImageSegments(), streamlvq.LVQCommittee(), metrics.Accuracy()
    )
    assert score.get() > 0.94


# --- members --------------------------------------------------------------------------------------


def test_members_start_afresh() -> None:
    """What a model learnt before it joined would be about other classes in another order."""
    taught = streamlvq.GLVQ()
    for x, y in segments(40):
        taught.learn_one(x, y)
    model = streamlvq.LVQCommittee(members={"learner": taught})
    assert model.predict_proba_one(x) == {}
    assert model.parts["learner"].classes == ()
    model.learn_one(x, y)
    assert model.predict_proba_one(x) == {y: 1.0}


MIXED = ["learner", "follower", "old", "pairs"]


def four() -> streamlvq.LVQCommittee:
    return streamlvq.LVQCommittee(
        members={
            "learner": streamlvq.LGMLVQ(rank=4, rehearsal=2, buffer_size=50),
            "follower": streamlvq.GLVQ(half_life=50, rehearsal=2, buffer_size=20),
            "old": streamlvq.LVQ1(rehearsal=2, buffer_size=20),
            "pairs": streamlvq.PairwiseLVQ(rehearsal=2, buffer_size=20),
        }
    )


def test_four_members_learn_arrays_as_they_learn_readings() -> None:
    one, other = four(), four()
    assert list(one.parts) == list(one.weights) == MIXED
    for x, y in segments(120):
        one.learn_one(x, y)
    other.learn_array([x for x, _ in segments(120)], [y for _, y in segments(120)])
    assert one.weights == pytest.approx(other.weights, rel=1e-9)
    assert one.predict_proba_array([x])[0].tolist() == list(one.predict_proba_one(x).values())


def test_members_are_kept_in_snapshots_and_clones() -> None:
    model = four()
    for x, y in segments(80):
        model.learn_one(x, y)
    data = streamlvq.Snapshot.of(model).to_bytes()
    snapshot = streamlvq.Snapshot.from_bytes(data)
    assert list(snapshot.members) == list(snapshot.node_models()) == MIXED
    assert snapshot.weights == model.weights
    twin = snapshot.classifier()
    assert streamlvq.Snapshot.of(twin).to_bytes() == data
    for x, y in segments(120)[80:]:
        assert twin.predict_proba_one(x) == model.predict_proba_one(x)
        twin.learn_one(x, y)
        model.learn_one(x, y)
    assert list(model.clone().parts) == MIXED


@pytest.mark.parametrize("name", list(MEMBERS))
def test_every_known_member_is_one(name: str) -> None:
    model = streamlvq.LVQCommittee(members=[name])
    member: CommitteeMember = model.parts[name]
    for x, y in segments(60):
        model.learn_one(x, y)
    assert (member.samples, len(member.classes)) == (60, 7)
    assert sum(model.predict_proba_one(x).values()) == pytest.approx(1.0)
    twin = streamlvq.LVQCommittee.from_state(model.state())
    assert twin.state().same_as(model.state())
    assert MEMBERS[name](absent="zero").absent == "zero"


@pytest.mark.parametrize(
    ("members", "message"),
    [
        (["learner", "lerner"], "did you mean 'learner'"),
        (["learner", "learner"], "names that differ"),
        ({"my model": streamlvq.GLVQ()}, "letters, digits and _, got 'my model'"),
        ({7: streamlvq.GLVQ()}, "letters, digits and _, got 7"),
        ({"third": None}, "expected one of learner, follower"),
        ({"third": linear_model.LogisticRegression()}, "third: expected a model of streamlvq"),
        ({"third": streamlvq.TimeIntegrator(streamlvq.GLVQ())}, "third: expected a model"),
        ({"third": streamlvq.LVQCommittee()}, "third: expected a model"),
        (
            {"third": preprocessing.StandardScaler() | streamlvq.GLVQ(), "follower": None},
            "third: expected a model of streamlvq, got a Pipeline$",
        ),
        ([streamlvq.GLVQ()], "got a GLVQ among them: use a mapping from names to models$"),
        (["learner", {}], "got a dict among them: use a mapping from names to models$"),
        ("learner", "expected names of members, or a mapping"),
        (7, "expected names of members, or a mapping"),
        ([], "expected 1 to 32 members, got 0"),
        ({f"m{i}": streamlvq.GLVQ() for i in range(33)}, "expected 1 to 32 members, got 33"),
    ],
)
def test_wrong_members_are_refused(members: Any, message: str) -> None:
    with pytest.raises(ValueError, match=rf"LVQCommittee\(members=...\): .*{message}"):
        streamlvq.LVQCommittee(members=members)


# --- what it says about itself --------------------------------------------------------------------


def test_insight_comes_from_the_learner() -> None:
    model = four()
    for x, y in segments(300):
        model.learn_one(x, y)
    learner: Any = model.parts["learner"]
    assert model.speaker is learner
    assert model.has_relsim
    assert model.relevances() == learner.relevances()
    assert model.relevances("sky", raw=True) == learner.relevances("sky", raw=True)
    assert model.prototypes() == learner.prototypes()
    assert model.scales() == learner.scales()
    assert np.array_equal(model.metric(), learner.metric())
    for x, _ in segments(320)[300:]:
        assert model.relsim_one(x) == learner.relsim_one(x)
        explanation = model.explain_one(x)
        assert replace(explanation, decision=None) == learner.explain_one(x)


def test_an_explanation_says_when_the_learner_would_decide_otherwise() -> None:
    model = streamlvq.LVQCommittee(
        members={
            "learner": streamlvq.LVQ1(learning_rate=0.9, rehearsal=0),
            "other": streamlvq.GLVQ(),
        }
    )
    agreed = otherwise = 0
    for x, y in segments(600):
        if len(model.classes) > 1:
            label, explanation = model.predict_one(x), model.explain_one(x)
            said = model.parts["learner"].predict_one(x)
            assert explanation.label == said
            if label == said:
                agreed += 1
                assert explanation.decision is None
                assert "decided" not in str(explanation)
            else:
                otherwise += 1
                assert explanation.decision == label
                assert str(explanation).startswith(f"decided otherwise: {label!r}\n{said!r} rather")
                model.predict_one(x)
                assert model.last_relsim(label) == 0.0 < model.last_relsim(said)
        model.learn_one(x, y)
    assert agreed > 100
    assert otherwise > 10


def test_trees_have_nothing_to_say() -> None:
    model = streamlvq.LVQCommittee(members=["forest", "bins"])
    for x, y in segments(60):
        model.learn_one(x, y)
    assert model.speaker is None
    assert not model.has_relsim
    for ask in (model.relevances, model.prototypes, lambda: model.explain_one(x)):
        with pytest.raises(ValueError, match=r"a member that has prototypes, got .*forest"):
            ask()
    assert model.predict_one(x) in model.classes


def test_pairs_alone_have_prototypes_but_no_relsim() -> None:
    model = streamlvq.LVQCommittee(members=["pairs"])
    for x, y in segments(60):
        model.learn_one(x, y)
    assert not model.has_relsim
    assert sum(model.relevances().values()) == pytest.approx(1.0)
    with pytest.raises(ValueError, match="which has no RelSim"):
        streamlvq.RelSimRejector(model, threshold=0.1)


@pytest.mark.parametrize(
    ("members", "speaker"),
    [
        ({"learner": streamlvq.WindowForest(), "follower": None}, "follower"),
        ({"learner": streamlvq.PairwiseLVQ(), "follower": None}, "follower"),
        (["follower", "learner"], "follower"),
        (["forest", "pairs", "learner"], "learner"),
        (["bins", "pairs"], "pairs"),
    ],
)
def test_a_snapshot_has_the_same_speaker(members: Any, speaker: str) -> None:
    model = streamlvq.LVQCommittee(members=members)
    for x, y in segments(120):
        model.learn_one(x, y)
    said, part = streamlvq.Snapshot.of(model), model.parts[speaker]
    alone = streamlvq.Snapshot.of(part)
    assert model.speaker is part
    assert said.prototypes == model.prototypes() != []
    assert said.relevances == model.relevances()
    for what in ("means", "spreads", "seen", "counts", "samples", "features", "labels"):
        assert getattr(said, what) == getattr(alone, what) != {}


# --- states ---------------------------------------------------------------------------------------


def learnt() -> streamlvq.LVQCommittee:
    model = small_committee()
    for x, y in segments(90):
        model.learn_one(x, y)
    return model


def forged(change: Callable[[np.ndarray[Any, Any]], Any]) -> Any:
    state = learnt().state()
    fitted = state.arrays["fitted"].copy()
    other = change(fitted)
    return replace(state, arrays={"fitted": fitted if other is None else other})


def put(index: tuple[int, int], value: float) -> Callable[[np.ndarray[Any, Any]], None]:
    def change(fitted: np.ndarray[Any, Any]) -> None:
        fitted[index] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda fitted: fitted[:2], "expected an array of"),
        (lambda fitted: fitted.astype(np.float32), "expected an array of"),
        (lambda fitted: fitted[:, :3], "expected an array of"),
        (put((0, 1), -0.1), "weights up to 10"),
        (put((0, 1), 10.5), "weights up to 10"),
        (put((2, 2), math.nan), "weights up to 10"),
        (put((0, 0), 1.0), "likelihoods and curvatures"),
        (put((1, 0), -math.inf), "likelihoods and curvatures"),
        (put((1, 0), math.nan), "likelihoods and curvatures"),
        (put((3, 3), -0.5), "likelihoods and curvatures"),
        (put((3, 4), 7.0), "likelihoods and curvatures"),  # not symmetric
        (put((3, 6), math.nan), "likelihoods and curvatures"),
        (put((3, 6), 1e10), "likelihoods and curvatures"),
    ],
)
def test_forged_weights_are_refused(change: Any, message: str) -> None:
    with pytest.raises(SnapshotError, match=message):
        streamlvq.LVQCommittee.from_state(forged(change))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: replace(s, parts=dict(list(s.parts.items())[:1])), "expected the members"),
        (lambda s: replace(s, parts=dict(reversed(s.parts.items()))), "expected the members"),
        (
            lambda s: replace(s, parts={**s.parts, "learner": s.parts["follower"]}),
            "expected a LGMLVQ as learner, got 'GLVQ'",
        ),
        (
            lambda s: replace(
                s, parts={**s.parts, "follower": streamlvq.GLVQ(half_life=50).state()}
            ),
            "the same classes",
        ),
        (lambda s: replace(s, parameters={"members": {}}), "the parameters absent and members"),
        (lambda s: replace(s, parameters={"absent": "missing", "members": 3}), "the parameters"),
        (lambda s: replace(s, parameters={**s.parameters, "absent": "no"}), "absent"),
        (
            lambda s: replace(s, parameters={**s.parameters, "members": {"learner": s}}),
            "expected a model as learner, got 'LVQCommittee'",
        ),
        (lambda s: replace(s, arrays={}), "expected an array 'fitted'"),
    ],
)
def test_forged_states_are_refused(change: Any, message: str) -> None:
    with pytest.raises(SnapshotError, match=message):
        streamlvq.LVQCommittee.from_state(change(learnt().state()))


def test_members_share_what_a_state_may_allocate() -> None:
    """Each of 32 members could allocate all that a stranger's model may."""
    model = streamlvq.LVQCommittee(members={f"m{i}": streamlvq.WindowForest() for i in range(4)})
    for x, y in segments(20):
        model.learn_one(x, y)
    state = model.state()
    one: Any = model.parts["m0"]
    assert one.allocated > 100_000
    enough = StateLimits(4 * one.allocated)
    assert streamlvq.LVQCommittee.from_state(state, limits=enough).state().same_as(state)
    assert model.state(limits=enough).same_as(state)
    short = StateLimits(3 * one.allocated)
    one.state(limits=short)
    with pytest.raises(SnapshotError, match="expected a model of at most 0 numbers"):
        streamlvq.LVQCommittee.from_state(state, limits=short)
    with pytest.raises(SnapshotError, match="expected a model of at most 0 numbers"):
        model.state(limits=short)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="counts pages as Linux does")
def test_room_that_no_sample_needs_takes_no_memory() -> None:
    def resident() -> int:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def learn(**parameters: int) -> streamlvq.WindowForest:
        forest = streamlvq.WindowForest(**parameters)
        for x, y in segments(5):
            forest.learn_one(x, y)
        return forest

    learn()  # compiles
    before = resident()
    forest = learn(trees=200, max_leaves=2**14)
    assert forest.allocated > 40_000_000
    assert resident() - before < 50_000_000


def test_states_keep_what_is_absent() -> None:
    model = streamlvq.LVQCommittee(absent="zero")
    for k in range(60):
        model.learn_one({f"w{k % 7}": 1.0}, "odd" if k % 2 else "even")
    twin = streamlvq.LVQCommittee.from_state(model.state())
    assert twin.absent == "zero"
    assert {member.absent for member in twin.parts.values()} == {"zero"}
    assert twin.state().same_as(model.state())


@pytest.mark.parametrize("members", [None, ["bins", "forest"]])
def test_arrays_of_transformed_readings_need_no_names(members: list[str] | None) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.lognormal(size=(60, 3)), [f"c{k % 2}" for k in range(60)]
    wrapper = streamlvq.FeatureTransform(streamlvq.LVQCommittee(members=members), "log")
    wrapper.learn_array(X, y)
    same = streamlvq.LVQCommittee(members=members)
    same.learn_array(np.log(X), y)
    assert np.array_equal(wrapper.predict_proba_array(X), same.predict_proba_array(np.log(X)))
