"""LVQCommittee: two models, one opinion."""

from __future__ import annotations

import itertools
import math
import pickle
from collections.abc import Callable

import numpy as np
import pytest
from river import checks, datasets, evaluate, linear_model, metrics

import streamlvq


def small_committee() -> streamlvq.LVQCommittee:
    return streamlvq.LVQCommittee(
        learner=streamlvq.LGMLVQ(rank=4, rehearsal=2, buffer_size=50),
        follower=streamlvq.GLVQ(half_life=50, rehearsal=2, buffer_size=20),
    )


def segments(n: int) -> list[tuple[dict[str, float], str]]:
    return list(itertools.islice(datasets.ImageSegments(), n))


@pytest.mark.parametrize("check", list(checks.yield_checks(streamlvq.LVQCommittee())))
def test_river_checks(check: Callable[[object], None]) -> None:
    check(streamlvq.LVQCommittee())


def pooled(opinions: list[dict[str, float]], weights: list[float]) -> dict[str, float]:
    """The oracle: a product of powers, normalised."""
    scores = {
        label: math.prod((p[label] + 1e-12) ** w for p, w in zip(opinions, weights, strict=True))
        for label in opinions[0]
    }
    total = sum(scores.values())
    return {label: score / total for label, score in scores.items()}


def test_probabilities_are_the_pool_of_its_members() -> None:
    model = small_committee()
    for x, y in segments(150):
        model.learn_one(x, y)
    x, _ = segments(151)[-1]
    expected = pooled(
        [member.predict_proba_one(x) for member in model.members], list(model.weights.values())
    )
    assert model.predict_proba_one(x) == pytest.approx(expected, rel=1e-9)


def test_weights_follow_newton_steps_on_the_log_loss() -> None:
    """Oracle for the fit: gradient and curvature of the log loss, in plain Python."""
    model = small_committee()
    weights, curvature = [0.5, 0.5], [0.0, 0.0]
    for x, y in segments(120):
        opinions = [member.predict_proba_one(x) for member in model.members]
        if y in opinions[0] and len(opinions[0]) > 1:
            p = pooled(opinions, weights)
            steps = []
            for m, opinion in enumerate(opinions):
                score = {label: math.log(q + 1e-12) for label, q in opinion.items()}
                mean = sum(p[k] * score[k] for k in p)
                variance = sum(p[k] * (score[k] - mean) ** 2 for k in p)
                curvature[m] = 0.999 * curvature[m] + variance
                steps.append((score[y] - mean) / (curvature[m] + 0.5))
            weights = [min(10.0, max(0.0, w + s)) for w, s in zip(weights, steps, strict=True)]
        model.learn_one(x, y)
    assert list(model.weights.values()) == pytest.approx(weights, rel=1e-6)


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
        learner=streamlvq.LGMLVQ(), follower=streamlvq.LVQ1(learning_rate=0.9, rehearsal=0)
    )
    for x, y in segments(800):
        model.learn_one(x, y)
    assert model.weights["learner"] > 2 * model.weights["follower"]
    assert model.explain_one(x) == model.members[0].explain_one(x)


def test_infinity_changes_nothing() -> None:
    model = small_committee()
    for x, y in segments(60):
        model.learn_one(x, y)
    before = pickle.dumps(model)
    bad = dict(x, **{next(iter(x)): math.inf})
    with pytest.raises(ValueError, match="expected a finite number"):
        model.learn_one(bad, y)
    assert pickle.dumps(model) == before


def test_train_and_observe() -> None:
    samples = segments(400)
    model = small_committee()
    model.observe_one(samples[0][0])
    assert model.predict_proba_one(samples[0][0]) == {}
    X, y = [x for x, _ in samples], [y for _, y in samples]
    model.train(X[:300], y[:300], epochs=5)
    hits = [model.predict_one(x) == label for x, label in samples[300:]]
    assert np.mean(hits) > 0.85


def test_default_is_accurate() -> None:
    score = evaluate.progressive_val_score(
        datasets.ImageSegments(), streamlvq.LVQCommittee(), metrics.Accuracy()
    )
    assert score.get() > 0.93


def test_members_start_afresh() -> None:
    """What a model learnt before it joined would be about other classes in another order."""
    taught = streamlvq.GLVQ()
    for x, y in segments(40):
        taught.learn_one(x, y)
    model = streamlvq.LVQCommittee(learner=taught)
    assert model.predict_proba_one(x) == {}
    assert model.members[0].classes == ()


def test_strangers_are_refused() -> None:
    with pytest.raises(ValueError, match="expected a model of streamlvq"):
        streamlvq.LVQCommittee(learner=linear_model.LogisticRegression())


NAMES = ["learner", "follower", "old", "pairs"]


def four() -> streamlvq.LVQCommittee:
    return streamlvq.LVQCommittee(
        learner=streamlvq.LGMLVQ(rank=4, rehearsal=2, buffer_size=50),
        follower=streamlvq.GLVQ(half_life=50, rehearsal=2, buffer_size=20),
        others={
            "pairs": streamlvq.PairwiseLVQ(rehearsal=2, buffer_size=20),
            "old": streamlvq.LVQ1(rehearsal=2, buffer_size=20),
        },
    )


def test_further_members_have_their_say() -> None:
    model = four()
    for x, y in segments(150):
        model.learn_one(x, y)
    assert list(model.parts) == list(model.weights) == NAMES
    x, _ = segments(151)[-1]
    expected = pooled(
        [member.predict_proba_one(x) for member in model.members], list(model.weights.values())
    )
    assert model.predict_proba_one(x) == pytest.approx(expected, rel=1e-9)
    assert model.predict_proba_array([x])[0].tolist() == list(model.predict_proba_one(x).values())


def test_four_members_learn_arrays_as_they_learn_readings() -> None:
    one, other = four(), four()
    for x, y in segments(120):
        one.learn_one(x, y)
    other.learn_array([x for x, _ in segments(120)], [y for _, y in segments(120)])
    assert one.weights == pytest.approx(other.weights, rel=1e-9)


def test_further_members_are_kept_in_snapshots_and_clones() -> None:
    model = four()
    for x, y in segments(80):
        model.learn_one(x, y)
    data = streamlvq.Snapshot.of(model).to_bytes()
    snapshot = streamlvq.Snapshot.from_bytes(data)
    assert list(snapshot.members) == list(snapshot.node_models()) == NAMES
    assert snapshot.weights == model.weights
    twin = snapshot.classifier()
    assert streamlvq.Snapshot.of(twin).to_bytes() == data
    for x, y in segments(120)[80:]:
        assert twin.predict_proba_one(x) == model.predict_proba_one(x)
        twin.learn_one(x, y)
        model.learn_one(x, y)
    assert list(model.clone().parts) == NAMES


@pytest.mark.parametrize("others", [{"learner": streamlvq.GLVQ()}, {"a/b": streamlvq.GLVQ()}, 7])
def test_names_of_further_members_are_checked(others: object) -> None:
    with pytest.raises(ValueError, match=r"LVQCommittee\(others=...\): expected"):
        streamlvq.LVQCommittee(others=others)  # type: ignore[arg-type]


def test_further_members_are_models() -> None:
    with pytest.raises(ValueError, match=r"expected a model of streamlvq, got None"):
        streamlvq.LVQCommittee(others={"third": None})  # type: ignore[dict-item]
