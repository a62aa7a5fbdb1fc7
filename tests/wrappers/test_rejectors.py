"""RelSimRejector and ProbabilityRejector: decisions, and when there is none."""

from __future__ import annotations

import copy
import itertools
import math
import pickle
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from river import (
    base,
    drift,
    ensemble,
    evaluate,
    imblearn,
    linear_model,
    metrics,
    multiclass,
    naive_bayes,
    preprocessing,
)

import naive
import streamlvq
from streamlvq import Decision, ProbabilityRejector, RelSimRejector, TimeIntegrator
from streamlvq.models.base import LVQClassifier
from streamlvq.wrappers.rejectors import Rejector
from support.samples import MODELS, blobs, frozen, image_segments, readings, river_checks

steady = settings(derandomize=True, max_examples=40, deadline=None, database=None)
Make = Callable[..., Any]


def small() -> streamlvq.LGMLVQ:
    return streamlvq.LGMLVQ(rank=4, rehearsal=2, buffer_size=50)


def pipeline() -> Any:
    return preprocessing.StandardScaler() | small()


def sampler() -> Any:
    """A wrapper of River that may or may not teach what it wraps."""
    return imblearn.RandomUnderSampler(pipeline(), {f"class {c}": 1 / 3 for c in range(3)}, seed=1)


def retrained() -> Any:
    """A wrapper of River that may replace what it wraps."""
    return drift.DriftRetrainingClassifier(small())


CHAINS: dict[str, Make] = {
    "model": small,
    "pipeline": pipeline,
    "integrator": lambda: TimeIntegrator(small()),
    "integrated pipeline": lambda: TimeIntegrator(pipeline()),
    "integrator behind scaler": lambda: preprocessing.StandardScaler() | TimeIntegrator(small()),
    "sampler": sampler,
    "integrated sampler": lambda: TimeIntegrator(sampler()),
    "retrained": retrained,
}
REJECTORS: list[type[Rejector]] = [RelSimRejector, ProbabilityRejector]


@pytest.fixture(params=CHAINS, ids=str)
def chain(request: pytest.FixtureRequest) -> Make:
    return CHAINS[request.param]


@pytest.fixture(params=REJECTORS, ids=lambda cls: cls.__name__)
def rejector(request: pytest.FixtureRequest) -> Make:
    made: Make = request.param
    return made


def stream(n: int = 120, seed: int = 5, missing: float = 0.0) -> list[tuple[dict[str, float], str]]:
    X, y = blobs(n, 4, 3, seed, missing)
    return [(x, f"class {c}") for x, c in zip(readings(X), y.tolist(), strict=True)]


def learnt(model: Any, n: int = 120, **kwargs: Any) -> Any:
    for x, y in stream(n):
        model.learn_one(x, y, **kwargs)
    return model


# --- River ---------------------------------------------------------------------------------------

ESTIMATORS: dict[str, Make] = {
    "relsim": lambda: RelSimRejector(small(), threshold=0.3),
    "relsim-rate": lambda: RelSimRejector(small(), target_rate=0.2, memory=50),
    "relsim-integrated": lambda: RelSimRejector(TimeIntegrator(streamlvq.LGMLVQ()), threshold=0.3),
    "relsim-scaled": lambda: (
        preprocessing.StandardScaler()
        | RelSimRejector(TimeIntegrator(small()), target_accuracy=0.9, per_class=True)
    ),
    "probability": lambda: ProbabilityRejector(small(), threshold={True: 0.9, False: 0.6}),
    "probability-cost": lambda: ProbabilityRejector(naive_bayes.GaussianNB(), reject_cost=0.2),
    "probability-integrated": lambda: ProbabilityRejector(
        TimeIntegrator(streamlvq.LGMLVQ()), target_rate=0.1
    ),
    "probability-pairs": lambda: ProbabilityRejector(
        TimeIntegrator(streamlvq.PairwiseLVQ()), threshold=0.8
    ),
    "probability-scaled": lambda: (
        preprocessing.StandardScaler()
        | ProbabilityRejector(linear_model.LogisticRegression(), threshold=0.7)
    ),
}


@pytest.mark.parametrize("make, check", river_checks(ESTIMATORS))
def test_river_check(make: Make, check: Callable[[Any], None]) -> None:
    check(make())


# --- RelSim --------------------------------------------------------------------------------------


def class_distances(model: Any, x: dict[str, float]) -> list[float]:
    """From the prototypes and metrics that the model shows, without missing features."""
    best = dict.fromkeys(model.classes, math.inf)
    row = np.array([x[name] for name in model.features])
    for p in model.prototypes():
        z = row - np.array(list(p.values.values()))
        best[p.label] = min(best[p.label], float(z @ model.metric(p.index) @ z))
    return list(best.values())


def test_relsim_follows_from_prototypes_and_metric(with_relsim: str) -> None:
    model = learnt(MODELS[with_relsim](rehearsal=2))
    for x, _ in stream()[:20]:
        assert model.relsim_one(x) == pytest.approx(naive.relsim(class_distances(model, x)))


def test_relsim_needs_two_classes(with_relsim: str) -> None:
    model = MODELS[with_relsim]()
    assert model.relsim_one({"a": 1.0}) is None
    model.observe_one({"a": 1.0})
    assert model.relsim_one({"a": 1.0}) is None
    model.learn_one({"a": 1.0}, "one")
    assert model.relsim_one({"a": 1.0}) is None
    model.learn_one({"a": 5.0}, "two")
    assert model.relsim_one({"a": 1.0}) == 1.0
    assert model.relsim_one({"b": 1.0}) == 0.0  # nothing is known of it


def test_relsim_of_identical_prototypes() -> None:
    model = streamlvq.GLVQ(rehearsal=0)
    for label in ("one", "two"):
        model.learn_one({"a": 1.0, "b": 2.0}, label)
    assert model.relsim_one({"a": 1.0, "b": 2.0}) == 0.0


def innermost(classifier: Any) -> tuple[LVQClassifier, list[Any]]:
    """The model and the transformers before it, found by hand."""
    transformers: list[Any] = []
    while not issubclass(type(classifier), LVQClassifier):
        if hasattr(classifier, "steps"):
            *before, classifier = classifier.steps.values()
            transformers += before
        else:
            classifier = classifier._wrapped_model
    return classifier, transformers


def test_certainty_is_the_relsim_of_the_innermost_model_for_this_reading(chain: Make) -> None:
    """However it got there, and although the model was asked about others in between."""
    rejector = learnt(RelSimRejector(chain(), threshold=0.5))
    model, transformers = innermost(rejector.classifier)
    samples = stream()
    for (x, _), (other, _) in zip(samples[:30], samples[30:60], strict=True):
        model.predict_one(other)
        decision = rejector.decide_one(x)
        inner = x
        for transformer in transformers:
            inner = transformer.transform_one(inner)
        agrees = decision.label == decision.winner
        assert decision.certainty == (model.relsim_one(inner) if agrees else 0.0)
        explained = model.explain_one(inner)
        assert {decision.winner, decision.runner_up} == {
            explained.label,
            explained.runner_up.label if explained.runner_up else None,
        }
        assert decision.distance == pytest.approx(explained.distance)
        assert decision.runner_up_distance == pytest.approx(explained.runner_up_distance)


def test_label_and_probabilities_are_those_of_the_wrapped_classifier(
    chain: Make, rejector: Make
) -> None:
    model = learnt(rejector(chain(), threshold=0.0, novelty_rate=None), device="d")
    for x, _ in stream()[:30]:
        p = model.classifier.predict_proba_one(x)
        decision = model.decide_one(x)
        assert decision.probabilities == p == model.predict_proba_one(x)
        assert decision.label == max(p, key=lambda label: p[label]) == model.predict_one(x)


def test_a_reading_that_contradicts_its_label_makes_it_uncertain() -> None:
    """After a change the window still votes for the state before, and the reading does not."""
    integrator = TimeIntegrator(small(), window=5)
    model = learnt(RelSimRejector(integrator, threshold=0.0))
    alone = RelSimRejector(integrator.classifier, threshold=0.0)
    strict = RelSimRejector(integrator, threshold=0.01)
    differs = 0
    for x, _ in stream():
        one, other = model.decide_one(x, device="d"), alone.decide_one(x)
        agrees = one.label == other.label
        assert one.certainty == (other.certainty if agrees else 0.0)
        assert (one.winner, one.distance) == (other.winner, other.distance)
        if not agrees and other.certainty >= 0.01:
            assert strict.decide_one(x, device="d").reason == "ambiguous"
        assert (strict.predict_one(x, device="d") is None) == (one.certainty < 0.01)
        differs += not agrees
        model.observe_one(x, device="d")
    assert differs > 5


def test_a_classifier_that_was_replaced_is_asked_anew() -> None:
    """River's retraining wrapper puts another model in the place of the first."""
    rejector = learnt(RelSimRejector(retrained(), threshold=0.0))
    x, _ = stream()[0]
    rejector.classifier.model = learnt(small(), n=30)
    assert rejector.decide_one(x).certainty == rejector.classifier.model.relsim_one(x)


# --- acceptance ----------------------------------------------------------------------------------


@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.6, 0.9, 1.0])
def test_accepted_means_certain_enough(rejector: Make, chain: Make, threshold: float) -> None:
    model = learnt(rejector(chain(), threshold=threshold))
    for x, _ in stream()[:40]:
        decision = model.decide_one(x)
        assert decision.threshold == threshold == model.threshold_for(decision.label)
        assert decision.novelty is None or 0.0 <= decision.novelty < 1.0
        certain = 0.0 < decision.certainty >= threshold
        assert decision.accepted == (certain and decision.outlier_by is None)
        assert (decision.reason == "outlier") == (decision.outlier_by is not None)
        assert (decision.reason is None) == decision.accepted
        assert model.predict_one(x) == (decision.label if decision.accepted else None)


def test_nothing_learnt(rejector: Make, chain: Make) -> None:
    model = rejector(chain(), threshold=0.0)
    x, _ = stream()[0]
    assert model.predict_one(x) is None
    assert model.predict_proba_one(x) == {}
    assert model.decide_one(x) == Decision(
        None, 0.0, False, "no_model", 0.0, None, None, None, None, {}
    )


@pytest.mark.parametrize("make", [small, lambda: TimeIntegrator(small())])
def test_one_class(rejector: Make, make: Make) -> None:
    """There is nothing to compare it with, so its probability of 1 means nothing."""
    model = rejector(make(), target_rate=0.5)
    for x, _ in stream()[:5]:
        model.learn_one(x, "only")
    assert model.predict_one(x) is None
    decision = model.decide_one(x)
    assert (decision.label, decision.accepted, decision.reason) == ("only", False, "no_model")
    assert decision.threshold == 0.0  # what cannot be judged is not remembered either


def test_thresholds_by_label(rejector: Make) -> None:
    model = learnt(rejector(small(), threshold={"class 0": 0.0, "class 1": 0.95}))
    seen = set()
    for x, _ in stream():
        decision = model.decide_one(x)
        expected = 0.0 if decision.label == "class 0" else 0.95
        assert decision.threshold == expected
        seen.add(decision.label)
    assert len(seen) == 3


def test_probabilities() -> None:
    model = learnt(ProbabilityRejector(small(), threshold=0.8))
    for x, _ in stream():
        decision = model.decide_one(x)
        order = sorted(decision.probabilities, key=lambda k: -decision.probabilities[k])
        assert (decision.winner, decision.runner_up) == (order[0], order[1])
        assert decision.certainty == decision.probabilities[order[0]]
        assert decision.reason == (None if decision.accepted else "ambiguous")
        assert decision.distance is None
        assert decision.runner_up_distance is None


# --- outliers ------------------------------------------------------------------------------------


def two_prototypes(*, rival: float = 4.0) -> streamlvq.GLVQ:
    model = streamlvq.GLVQ(standardize=False, rehearsal=0, max_prototypes_per_class=1)
    model.learn_one({"a": 0.0, "b": 0.0}, "here")
    model.learn_one({"a": rival, "b": 0.0}, "there")
    return model


def reason(threshold: float, **x: float) -> str | None:
    decision = RelSimRejector(two_prototypes(), threshold=threshold).decide_one(x)
    return decision.reason


def test_outlier_or_ambiguous() -> None:
    """With k = 1/3 the accepted ball reaches from 1 towards the rival to 2 away from it.

    An outlier is beyond the ball of RelSim 0.2, whatever the threshold: here 17.8 away.
    """
    threshold = 0.8
    assert math.sqrt((1 - threshold) / (1 + threshold)) == pytest.approx(1 / 3)
    assert reason(threshold, a=0.99, b=0.0) is None
    assert reason(threshold, a=1.01, b=0.0) == "ambiguous"
    assert reason(threshold, a=-1.99, b=0.0) is None
    assert reason(threshold, a=-2.01, b=0.0) == "ambiguous"
    assert reason(threshold, a=-17.7, b=0.0) == "ambiguous"
    assert reason(threshold, a=-17.9, b=0.0) == "outlier"
    assert reason(threshold, a=0.0, b=50.0) == "outlier"
    assert reason(threshold, a=0.0, b=1.9) == "ambiguous"


def test_extreme_thresholds() -> None:
    assert reason(0.0, a=1e6, b=0.0) is None  # everything is accepted
    assert reason(1.0, a=0.0, b=0.0) is None  # only the prototype itself is
    assert reason(1.0, a=0.1, b=0.0) == "ambiguous"
    nothing_seen = RelSimRejector(two_prototypes(), target_accuracy=0.9)
    decision = nothing_seen.decide_one({"a": 1e6, "b": 0.0})
    assert (decision.threshold, decision.reason) == (math.inf, "outlier")
    decision = nothing_seen.decide_one({"a": 0.0, "b": 0.0})
    assert (decision.threshold, decision.reason) == (math.inf, "ambiguous")


@pytest.mark.parametrize("missing", [None, math.nan])
def test_outlier_along_the_features_that_are_there(missing: float | None) -> None:
    """In `a` alone the prototypes differ, in `b` they do not."""
    rejector = RelSimRejector(two_prototypes(), threshold=0.8)
    assert rejector.decide_one({"a": -1.99, "b": missing}).reason is None
    assert rejector.decide_one({"a": -2.01, "b": missing}).reason == "ambiguous"
    assert rejector.decide_one({"a": -17.9, "b": missing}).reason == "outlier"
    assert rejector.decide_one({"a": 1.5, "b": missing}).reason == "ambiguous"
    same = rejector.decide_one({"b": 0.5})  # both prototypes are the same there
    assert (same.certainty, same.reason) == (0.0, "ambiguous")
    for x in ({"a": missing, "b": missing}, {"c": 1.0}, {}):
        nothing = rejector.decide_one(x)
        assert (nothing.certainty, nothing.accepted, nothing.reason) == (0.0, False, "no_feature")
        assert rejector.predict_one(x) is None


@steady
@given(
    st.sampled_from(["GLVQ", "GRLVQ", "GMLVQ", "LGMLVQ", "LGRLVQ", "RSLVQ"]),
    st.integers(0, 1000),
    st.floats(0.01, 0.99),
    st.sampled_from([0.0, 0.2]),
)
def test_outliers_are_beyond_the_ball(
    name: str, seed: int, threshold: float, missing: float
) -> None:
    """Recomputed from prototypes and metric; with one metric RelSim is low beyond it anyway."""
    model = MODELS[name](rehearsal=0)
    samples = stream(60, seed)
    for x, y in samples:
        model.learn_one(x, y)
    rejector = RelSimRejector(model, threshold=threshold, novelty_rate=None)
    scale = model._engine.state["inverse"]
    for x, _ in stream(30, seed + 1, missing):
        decision = rejector.decide_one(x)
        winner, runner_up = (
            min(
                (p for p in model.prototypes() if p.label == label),
                key=lambda p: naive.distance(
                    model.metric(p.index, raw=False), difference(model, x, p) * scale
                ),
            )
            for label in (decision.winner, decision.runner_up)
        )
        metric = model.metric(winner.index, raw=False)
        way = difference(model, runner_up.values, winner) * scale
        way[np.isnan(difference(model, x, winner))] = np.nan
        k = math.sqrt((1 - 0.2) / (1 + 0.2))
        farthest = k / (1 - k) * math.sqrt(naive.distance(metric, way))
        assert decision.distance is not None
        length = math.sqrt(decision.distance)
        other = decision.runner_up_distance
        assert other is not None
        relsim = (other - decision.distance) / (other + decision.distance)
        if np.isnan(way).all():
            assert decision.reason == "ambiguous"
        elif abs(length - farthest) > 1e-9:
            beyond = length > farthest
            expected = "outlier" if beyond and relsim < 0.2 else "ambiguous"
            assert decision.reason == (None if decision.accepted else expected)
            if not model._local and not missing:
                assert not beyond or relsim < 0.2


def difference(model: Any, x: dict[str, float], prototype: Any) -> Any:
    return np.array([x[name] - prototype.values[name] for name in model.features])


# --- thresholds that adapt -----------------------------------------------------------------------


@pytest.mark.parametrize("per_class", [False, True])
@pytest.mark.parametrize(
    "aim", [{"target_rate": 0.3}, {"target_accuracy": 0.8}, {"reject_cost": 0.25}], ids=str
)
def test_thresholds_follow_decisions_before_they_are_learnt(
    rejector: Make, aim: dict[str, float], per_class: bool
) -> None:
    if rejector is ProbabilityRejector and "reject_cost" in aim:
        pytest.skip("is fixed")
    model = rejector(small(), memory=30, per_class=per_class, **aim)
    seen: list[tuple[Any, float, bool | None]] = []
    for k, (x, y) in enumerate(stream(200)):
        decision = model.decide_one(x)
        own = [s for s in seen if s[0] == decision.label or not per_class]
        (kind, target), own, count = next(iter(aim.items())), own[-30:], len(own)
        if kind == "target_rate":
            expected = naive.rate_threshold([certainty for _, certainty, _ in own], target, count)
        elif kind == "target_accuracy":
            expected = naive.accurate_threshold([(c, bool(right)) for _, c, right in own], target)
        else:
            decisions = [(c, bool(right)) for _, c, right in own]
            candidates = sorted([*(c for c, _ in decisions), math.inf])
            expected = min(candidates, key=lambda t: naive.cost_of(decisions, t, target))
        assert decision.threshold == expected
        labelled = k % 3 > 0
        if decision.reason != "no_model" and (labelled or kind == "target_rate"):
            seen.append((decision.label, decision.certainty, decision.label == y))
        if labelled:
            model.learn_one(x, y)
        else:
            model.observe_one(x)


def test_rate_is_kept(rejector: Make) -> None:
    """On a model that changes no more, this share is rejected; also when no labels come."""
    model = learnt(rejector(small(), target_rate=0.2, memory=300, novelty_rate=None), n=400)
    for x, _ in stream(400, seed=6):
        model.observe_one(x)
    rejected = [model.predict_one(x) is None for x, _ in stream(400, seed=6)[100:]]
    assert np.mean(rejected) == pytest.approx(0.2, abs=0.02)


@pytest.mark.parametrize("target", [0.97, 0.99])
def test_accuracy_is_kept(rejector: Make, target: float) -> None:
    model = rejector(streamlvq.LGMLVQ(), target_accuracy=target)
    hits = []
    for x, y in image_segments(2310):
        label = model.predict_one(x)
        if label is not None:
            hits.append(label == y)
        model.learn_one(x, y)
    assert np.mean(hits) > target - 0.01
    assert 0.6 < len(hits) / 2310 < 0.97


def test_cost_is_lower_than_without_rejection(rejector: Make) -> None:
    for cost in (0.1, 0.3):
        model = rejector(streamlvq.LGMLVQ(), reject_cost=cost)
        total, errors = 0.0, 0
        for x, y in image_segments(2310):
            decision = model.decide_one(x)
            errors += decision.label != y
            total += (decision.label != y) if decision.accepted else cost
            model.learn_one(x, y)
        assert total < 0.95 * errors


def test_chow() -> None:
    assert ProbabilityRejector(small(), reject_cost=0.2).threshold_for() == 0.8


def test_nothing_seen_yet(rejector: Make) -> None:
    assert rejector(small(), target_rate=0.5).threshold_for("class 0") == 0.0
    assert rejector(small(), target_accuracy=0.5).threshold_for("class 0") == math.inf


def test_memory_is_bounded(rejector: Make) -> None:
    model = learnt(rejector(small(), target_accuracy=0.9, memory=20, per_class=True), n=100)
    before = len(frozen(model))
    for x, y in stream(200, seed=8):
        model.learn_one(x, y)
    assert len(frozen(model)) < 1.2 * before


# --- what goes in --------------------------------------------------------------------------------


def test_devices_and_times_reach_the_integrator(rejector: Make) -> None:
    for make in (
        lambda: TimeIntegrator(small(), max_gap=5),
        lambda: preprocessing.StandardScaler() | TimeIntegrator(small(), max_gap=5),
    ):
        model = rejector(make(), target_rate=0.1)
        for t, (x, y) in enumerate(stream(40)):
            model.predict_one(x, device="d", t=t)
            model.decide_one(x, device="d", t=t)
            if t % 2:
                model.learn_one(x, y, device="d", t=t, w=1.0)
            else:
                model.observe_one(x, device="d", t=t)
        link = model.classifier
        integrator = link["TimeIntegrator"] if hasattr(link, "steps") else link
        assert not integrator.starts_segment("d", 40)
        assert integrator.starts_segment("d", 50)
        with pytest.raises(ValueError, match="pass t="):
            model.predict_one(x, device="d")


def test_keywords_of_no_use_are_dropped(rejector: Make) -> None:
    for make in (small, pipeline):
        model = learnt(rejector(make(), target_rate=0.1), device="d", t=1, w=2.0)
        x, _ = stream()[0]
        model.observe_one(x, device="d")
        assert model.decide_one(x, device="d", colour="red") == model.decide_one(x)


def test_observe_teaches_scales_and_windows() -> None:
    model = learnt(RelSimRejector(TimeIntegrator(small()), threshold=0.1))
    before = frozen(model.classifier)
    model.observe_one(stream()[3][0], device="new")
    assert frozen(model.classifier) != before
    assert not model.classifier.starts_segment("new")


def test_progressive_validation_counts_what_was_kept() -> None:
    samples = [(x, y, {"device": 1}) for x, y in image_segments(600)]
    model = RelSimRejector(streamlvq.LGMLVQ(), target_rate=0.3, memory=100)
    kept = evaluate.progressive_val_score(samples, model, metrics.Accuracy())
    plain = ((x, y) for x, y, _ in samples)
    everything = evaluate.progressive_val_score(plain, streamlvq.LGMLVQ(), metrics.Accuracy())
    assert kept.get() > everything.get() + 0.03


def test_explanations_are_those_of_the_model_inside(chain: Make, rejector: Make) -> None:
    model = learnt(rejector(chain(), threshold=0.5))
    x, _ = stream()[0]
    inner, transformers = innermost(model.classifier)
    seen = x
    for transformer in transformers:
        seen = transformer.transform_one(seen)
    assert model.explain_one(x) == inner.explain_one(seen)


# --- no trace ------------------------------------------------------------------------------------


@pytest.mark.parametrize("ask", ["predict_one", "predict_proba_one", "decide_one", "explain_one"])
def test_predictions_are_pure(chain: Make, rejector: Make, ask: str) -> None:
    for aim in ({"threshold": 0.5}, {"target_rate": 0.2}, {"target_accuracy": 0.9}):
        model = learnt(rejector(chain(), memory=20, **aim), n=40)
        before = frozen(model)
        for x, _ in stream(50)[35:]:
            getattr(model, ask)(x)
            model.threshold_for("class 1")
        assert frozen(model) == before


@pytest.mark.parametrize("value", [math.inf, "text"])
@pytest.mark.parametrize("aim", ["threshold", "target_rate", "target_accuracy", "reject_cost"])
def test_a_refused_reading_leaves_no_trace(rejector: Make, value: Any, aim: str) -> None:
    model = learnt(rejector(TimeIntegrator(small()), **{aim: 0.5}), n=40)
    before = frozen(model)
    bad = {**stream()[0][0], "f01": value}
    for act in (model.predict_one, model.decide_one, model.observe_one, model.predict_proba_one):
        with pytest.raises(ValueError, match="'f01'"):
            act(bad)
    for label in ("class 0", "new"):
        with pytest.raises(ValueError, match="'f01'"):
            model.learn_one(bad, label)
    with pytest.raises(ValueError, match="expected a label"):
        model.learn_one(stream()[0][0], None)
    assert frozen(model) == before


# --- copies --------------------------------------------------------------------------------------


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_go_on_where_it_stopped(
    chain: Make, rejector: Make, copied: Callable[[Any], Any]
) -> None:
    model = learnt(rejector(chain(), target_rate=0.2, memory=30), n=60)
    twin = copied(model)
    for x, y in stream()[60:]:
        assert twin.decide_one(x) == model.decide_one(x)
        model.learn_one(x, y)
        twin.learn_one(x, y)


def test_clones_have_learnt_nothing(chain: Make, rejector: Make) -> None:
    model = learnt(rejector(chain(), target_accuracy=0.8, memory=30, per_class=True))
    clone = model.clone()
    assert (clone.target_accuracy, clone.memory, clone.per_class) == (0.8, 30, True)
    x, _ = stream()[0]
    decision = clone.decide_one(x)
    assert (decision.reason, decision.threshold, decision.probabilities) == (
        "no_model",
        math.inf,
        {},
    )


def test_clones_with_attributes_are_copies(rejector: Make) -> None:
    model = learnt(rejector(TimeIntegrator(small()), target_rate=0.2))
    twin = model.clone(include_attributes=True)
    x, _ = stream()[0]
    assert twin.decide_one(x) == model.decide_one(x)
    learnt(twin, n=50)
    assert twin.decide_one(x) != model.decide_one(x)


# --- parameters ----------------------------------------------------------------------------------

AIMS = ("threshold", "target_rate", "target_accuracy", "reject_cost")


def test_exactly_one_aim(rejector: Make) -> None:
    with pytest.raises(ValueError, match=r"expected exactly one of threshold, .*, got none"):
        rejector(small())
    for two in itertools.combinations(AIMS, 2):
        with pytest.raises(ValueError, match=f"got {two[0]} and {two[1]}"):
            rejector(small(), **dict.fromkeys(two, 0.5))


@pytest.mark.parametrize("aim", AIMS)
@pytest.mark.parametrize("bad", [-0.1, 1.1, math.nan, "half", True])
def test_impossible_aims(rejector: Make, aim: str, bad: Any) -> None:
    with pytest.raises(ValueError, match=rf"\({aim}=...\): expected a number from 0 to 1, got"):
        rejector(small(), **{aim: bad})


@pytest.mark.parametrize(
    "params, message",
    [
        ({"threshold": {}}, "expected at least one label"),
        ({"threshold": {"a": 2}}, r"threshold=...\): expected a number from 0 to 1 for 'a', got 2"),
        ({"target_rate": {"a": 0.5}}, "target_rate"),
        ({"target_rate": 0.5, "memory": 0}, "memory"),
        ({"target_rate": 0.5, "per_class": 1}, "expected a bool, got 1"),
        ({"threshold": 0.5, "per_class": True}, "for fixed thresholds per class use a mapping"),
    ],
)
def test_impossible_parameters(rejector: Make, params: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rejector(small(), **params)


def test_chow_has_no_threshold_for_each_class() -> None:
    with pytest.raises(ValueError, match=r"an adaptive threshold, got reject_cost=0\.5"):
        ProbabilityRejector(small(), reject_cost=0.5, per_class=True)
    RelSimRejector(small(), reject_cost=0.5, per_class=True)


@pytest.mark.parametrize("aim", AIMS)
def test_aims_can_be_changed(rejector: Make, aim: str) -> None:
    model = learnt(rejector(small(), **{aim: 0.1}))
    other = learnt(rejector(small(), **{aim: 0.9}))
    assert model.threshold_for("class 0") != other.threshold_for("class 0")
    model.mutate({aim: 0.9})
    assert model.threshold_for("class 0") == other.threshold_for("class 0")
    assert model.clone().decide_one({}).threshold == other.clone().decide_one({}).threshold


def test_bad_changes_change_nothing(rejector: Make) -> None:
    model = learnt(rejector(small(), threshold=0.3))
    before = frozen(model)
    with pytest.raises(ValueError, match="from 0 to 1"):
        model.mutate({"threshold": 3})
    with pytest.raises(ValueError, match="threshold = None: expected a number"):
        model.threshold = None
    with pytest.raises(ValueError, match="exactly one"):
        model.target_rate = 0.5
    with pytest.raises(ValueError, match="not a mutable attribute"):
        model.mutate({"target_rate": 0.5})
    assert frozen(model) == before


def test_threshold_may_become_a_mapping(rejector: Make) -> None:
    model = rejector(small(), threshold=0.3)
    model.threshold = {"a": 0.1, "b": 0.5}
    assert [model.threshold_for(label) for label in ("a", "b", "c")] == [0.1, 0.5, 0.5]


# --- what can be wrapped -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        streamlvq.PairwiseLVQ,
        naive_bayes.GaussianNB,
        lambda: preprocessing.StandardScaler() | naive_bayes.GaussianNB(),
        lambda: TimeIntegrator(streamlvq.LVQCommittee(members=["pairs"])),
        lambda: multiclass.OneVsRestClassifier(small()),
        lambda: ensemble.BaggingClassifier(small()),
    ],
)
def test_models_without_relsim(make: Make) -> None:
    with pytest.raises(ValueError, match=r"has no RelSim; use ProbabilityRejector"):
        RelSimRejector(make(), threshold=0.5)
    model = learnt(ProbabilityRejector(make(), threshold=0.5), n=40)
    assert model.decide_one(stream()[0][0]).reason in (None, "ambiguous")


def committee() -> streamlvq.LVQCommittee:
    """Its learner is the worse one, so that they disagree now and then."""
    return streamlvq.LVQCommittee(
        members={"learner": streamlvq.LVQ1(rehearsal=0), "other": streamlvq.LGMLVQ(rehearsal=2)}
    )


def test_a_committee_is_as_certain_as_its_learner() -> None:
    model = RelSimRejector(committee(), target_rate=0.2, memory=50)
    reasons: Counter[str | None] = Counter()
    for x, y in image_segments(400):
        inner = copy.deepcopy(model.classifier)
        label, learner = inner.predict_one(x), inner.parts["learner"]
        decision, predicted = model.decide_one(x), model.predict_one(x)
        if decision.reason != "no_model":
            agrees = learner.predict_one(x) == label
            assert decision.label == label
            assert decision.certainty == (learner.relsim_one(x) if agrees else 0.0)
            assert decision.winner == learner.predict_one(x)
            assert decision.distance == pytest.approx(learner.explain_one(x).distance)
            assert predicted == (label if decision.accepted else None)
        reasons[decision.reason] += 1
        model.learn_one(x, y)
    assert reasons[None] > 100
    assert reasons["ambiguous"] > 20
    far = {name: 50 * value for name, value in x.items()}
    assert model.decide_one(far).reason == "outlier"


def test_rejectors_do_not_nest(rejector: Make) -> None:
    inner = ProbabilityRejector(small(), threshold=0.5)
    for wrapped in (inner, preprocessing.StandardScaler() | inner):
        with pytest.raises(ValueError, match="expected a classifier without a rejector of its own"):
            rejector(wrapped, threshold=0.5)


def test_only_classifiers_can_be_wrapped(rejector: Make) -> None:
    with pytest.raises(ValueError, match="expected a classifier, got LinearRegression"):
        rejector(linear_model.LinearRegression(), threshold=0.5)


@pytest.mark.parametrize("rate", [0.05, 0.1, 0.2])
@pytest.mark.parametrize("window", ["adaptive", 5])
def test_asked_rates_hold_around_a_window_or_exactly_the_contradictions_go(
    rate: float, window: Any
) -> None:
    """A reading that contradicts its window has certainty 0, which is never accepted."""
    patches = sorted(image_segments(2310), key=lambda sample: sample[1])
    runs = [patches[k : k + 22] for k in range(0, len(patches), 22)]
    order = np.random.default_rng(1).permutation(len(runs))
    integrator = TimeIntegrator(streamlvq.GLVQ(), window=window)
    model, decisions = RelSimRejector(integrator, target_rate=rate, memory=300), []
    for x, y in (sample for k in order for sample in runs[k]):
        decisions.append(model.decide_one(x))
        model.learn_one(x, y)
    for decision in decisions:
        assert decision.certainty > 0.0 or not decision.accepted
    rejected = np.mean([not decision.accepted for decision in decisions[300:]])
    contradicting = np.mean([decision.certainty == 0.0 for decision in decisions[300:]])
    assert rejected == pytest.approx(max(rate, contradicting), abs=0.02)
    assert contradicting < (0.08 if window == "adaptive" else 0.2)
    assert contradicting > (0.0 if window == "adaptive" else 0.12)


def test_centred_windows() -> None:
    """Their label is about another reading than the one at hand."""
    centred = TimeIntegrator(small(), window=5, centered=True)
    with pytest.raises(ValueError, match="use ProbabilityRejector, or leave delay and centered"):
        RelSimRejector(centred, threshold=0.5)
    with pytest.raises(ValueError, match="use target_rate, or leave delay and centered"):
        ProbabilityRejector(preprocessing.StandardScaler() | centred, target_accuracy=0.5)
    RelSimRejector(TimeIntegrator(small(), window=2, centered=True), threshold=0.5)  # no delay
    model = learnt(ProbabilityRejector(centred, target_rate=0.1), device="d")
    assert model.decide_one(stream()[0][0], device="other").reason == "no_model"
    assert model.decide_one(stream()[0][0], device="d").reason in (None, "ambiguous")


class Pairwise(streamlvq.GLVQ):
    """A model of ours whose classes are not compared by their closest prototypes."""

    has_relsim = False


def test_models_may_declare_that_they_have_no_relsim() -> None:
    with pytest.raises(ValueError, match="has no RelSim"):
        RelSimRejector(Pairwise(), threshold=0.5)


class Guess(base.Classifier):
    """Knows two classes and nothing else."""

    @property
    def _multiclass(self) -> bool:
        return True

    def learn_one(self, x: Any, y: Any) -> None:
        pass

    def predict_proba_one(self, x: Any) -> Any:
        return {"heads": 0.5, "tails": 0.5}


def test_any_classifier_with_probabilities() -> None:
    model = ProbabilityRejector(Guess(), threshold=0.5)
    assert model.predict_one({}) == "heads"
    assert model.decide_one({}).runner_up == "tails"
    model.threshold = 0.51
    assert model.predict_one({}) is None
    model.observe_one({})
    with pytest.raises(AttributeError, match="explain_one"):
        model.explain_one({})


# --- inside and around ensembles of River --------------------------------------------------------


def silences(model: Any) -> int:
    """Return how many of the later readings of a stream get no answer."""
    answers = []
    for x, y in image_segments(300):
        answers.append(model.predict_one(x))
        model.learn_one(x, y)
    return answers[100:].count(None)


ENSEMBLES: dict[str, Make] = {
    "bagging": lambda model: ensemble.BaggingClassifier(model, 3, seed=1),
    "ADWIN bagging": lambda model: ensemble.ADWINBaggingClassifier(model, 3, seed=1),
    "leveraging bagging": lambda model: ensemble.LeveragingBaggingClassifier(model, 3, seed=1),
    "AdaBoost": lambda model: ensemble.AdaBoostClassifier(model, 3, seed=1),
    "random patches": lambda model: ensemble.SRPClassifier(model, 3, seed=1),
    "stacking": lambda model: ensemble.StackingClassifier([model, model.clone()], small()),
}


@pytest.mark.parametrize("make", ENSEMBLES.values(), ids=ENSEMBLES)
def test_around_an_ensemble_but_not_inside(make: Make) -> None:
    """Ensembles ask members for probabilities; docs/certainty.md says so."""
    assert silences(RelSimRejector(streamlvq.GLVQ(), threshold=0.5)) > 20
    assert silences(make(RelSimRejector(streamlvq.GLVQ(), threshold=0.5))) == 0
    assert silences(ProbabilityRejector(make(streamlvq.GLVQ()), threshold=0.9)) > 20


def test_around_drift_retraining_but_not_inside() -> None:
    inside = drift.DriftRetrainingClassifier(RelSimRejector(streamlvq.GLVQ(), threshold=0.5))
    assert silences(inside) == 0
    around = RelSimRejector(drift.DriftRetrainingClassifier(streamlvq.GLVQ()), threshold=0.5)
    assert silences(around) > 20


def test_silence_is_a_vote_if_labels_are_counted() -> None:
    voters = [RelSimRejector(streamlvq.GLVQ(seed=k), threshold=0.5) for k in range(3)]
    assert silences(ensemble.VotingClassifier(voters, use_probabilities=False)) > 20
    voters = [RelSimRejector(streamlvq.GLVQ(seed=k), threshold=0.5) for k in range(3)]
    assert silences(ensemble.VotingClassifier(voters)) == 0


@pytest.mark.parametrize(
    "make",
    [
        lambda: ensemble.VotingClassifier([small(), small()]),
        lambda: multiclass.OneVsOneClassifier(streamlvq.GLVQ()),
        lambda: preprocessing.StandardScaler() | ensemble.VotingClassifier([small(), small()]),
    ],
)
def test_classifiers_without_probabilities(make: Make) -> None:
    with pytest.raises(ValueError, match="expected a classifier with predict_proba_one"):
        ProbabilityRejector(make(), threshold=0.5)


# --- figures -------------------------------------------------------------------------------------


def test_the_more_is_rejected_the_better_is_the_rest(rejector: Make) -> None:
    model = rejector(streamlvq.LGMLVQ(), threshold=0.0)
    certainties, hits = [], []
    for x, y in image_segments(2310):
        decision = model.decide_one(x)
        certainties.append(decision.certainty)
        hits.append(decision.label == y)
        model.learn_one(x, y)
    ranked = np.array(hits)[np.argsort(certainties)]
    accuracy = [ranked[int(share * 2310) :].mean() for share in (0.0, 0.1, 0.3)]
    assert accuracy[0] > 0.93
    assert accuracy[1] > accuracy[0] + 0.02
    assert accuracy[2] > 0.985


def test_a_label_unknown_to_the_model_inside_is_not_certain() -> None:
    """Wrappers that watch for drift replace their model; a window remembers the one before."""
    inner = retrained()
    model = RelSimRejector(TimeIntegrator(inner, window=9), threshold=0.3)
    for k in range(72):
        place = k % 3 if k < 60 else 2
        model.learn_one({"a": 5.0 * place + k % 7 * 0.01}, "xyz"[place])
    fresh = small()
    for k in range(20):
        fresh.learn_one({"a": 5.0 * (k % 2) + k % 7 * 0.01}, "xy"[k % 2])
    inner.model = fresh
    decision = model.decide_one({"a": 5.0})
    assert (decision.label, decision.winner, decision.certainty) == ("z", "y", 0.0)
    assert model.predict_one({"a": 5.0}) is None


@pytest.mark.parametrize("memory", [1, 5, 1000])
def test_nothing_is_rejected_at_a_rate_of_zero(rejector: Make, memory: int) -> None:
    model = rejector(small(), target_rate=0.0, memory=memory, novelty_rate=None)
    for k, (x, y) in enumerate(stream()):
        assert model.predict_one(x) is not None or k < 10
        model.learn_one(x, y)
