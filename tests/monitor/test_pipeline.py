"""The kernel for many readings against the wrappers, one reading at a time, bit by bit."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import streamlvq
from streamlvq.models.vectorizer import KernelBatch
from streamlvq.monitor.pipeline import DecisionBuffer, Pipeline
from streamlvq.wrappers.rejectors import Rejector
from support.streams import cut, readings

MODELS: dict[str, Callable[[], Any]] = {
    "GLVQ": streamlvq.GLVQ,
    "forgetting": lambda: streamlvq.GLVQ(half_life=100),
    "LGMLVQ": lambda: streamlvq.LGMLVQ(rank=3),
    "LVQ21": streamlvq.LVQ21,
    "RSLVQ": streamlvq.RSLVQ,
    "PairwiseLVQ": streamlvq.PairwiseLVQ,
}
INTEGRATORS: dict[str, dict[str, Any] | None] = {
    "alone": None,
    "window": {"window": 3},
    "gaps": {"window": 4, "max_gap": 8.0, "max_devices": 4},
    "adaptive": {},
    "adaptive gaps": {"max_gap": 8.0, "max_devices": 4},
}
REJECTORS: dict[str, tuple[type[Rejector], dict[str, Any]] | None] = {
    "none": None,
    "rate": (streamlvq.RelSimRejector, {"target_rate": 0.2, "memory": 50}),
    "accuracy": (streamlvq.RelSimRejector, {"target_accuracy": 0.9, "memory": 50}),
    "cost": (streamlvq.RelSimRejector, {"reject_cost": 0.2, "memory": 30}),
    "mapping": (streamlvq.RelSimRejector, {"threshold": {"class 0": 0.1, "class 1": 0.3}}),
    "probability": (streamlvq.ProbabilityRejector, {"threshold": 0.7}),
    "probability rate": (streamlvq.ProbabilityRejector, {"target_rate": 0.1}),
    "Chow": (streamlvq.ProbabilityRejector, {"reject_cost": 0.1}),
}


def chain(model: str, integrator: str, rejector: str) -> Pipeline:
    classifier = MODELS[model]()
    if INTEGRATORS[integrator] is not None:
        classifier = streamlvq.TimeIntegrator(classifier, **INTEGRATORS[integrator])
    wrapper = REJECTORS[rejector]
    if wrapper is not None:
        if wrapper[0] is streamlvq.RelSimRejector and model == "PairwiseLVQ":
            pytest.skip("pairs have no RelSim")
        classifier = wrapper[0](classifier, **wrapper[1])
    return Pipeline(classifier)


def slow(pipeline: Pipeline) -> Pipeline:
    pipeline.batch_parts = None
    return pipeline


def assert_same(a: DecisionBuffer, b: DecisionBuffer) -> None:
    columns = ("codes", "certainties", "thresholds", "accepted", "probabilities", "versions")
    for name in (*columns, "novelties"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)
    assert a.reasons == b.reasons
    assert a.outliers_by == b.outliers_by


def step(pipeline: Pipeline, part: Any, again: list[bool]) -> DecisionBuffer:
    return pipeline.step(part, again)


@pytest.mark.parametrize("rejector", REJECTORS)
@pytest.mark.parametrize("integrator", INTEGRATORS)
@pytest.mark.parametrize("model", MODELS)
def test_kernel_does_what_the_wrappers_do(model: str, integrator: str, rejector: str) -> None:
    fast, plain = chain(model, integrator, rejector), slow(chain(model, integrator, rejector))
    rng = np.random.default_rng(1)
    rejected = 0
    for part in cut(readings(260), seed=2):
        again = (rng.random(len(part)) < 0.05).tolist()
        a, b = step(fast, part, again), step(plain, part, again)
        assert_same(a, b)
        rejected += int((~a.accepted).sum())
    assert rejected > 0
    assert fast.model.samples == plain.model.samples > 100
    ours, theirs = fast.model._engine, plain.model._engine
    np.testing.assert_array_equal(ours.floats, theirs.floats)
    np.testing.assert_array_equal(ours.ints, theirs.ints)
    for ours, theirs in ((fast.integrator, plain.integrator), (fast.rejector, plain.rejector)):
        if ours is not None:
            assert str(ours.memory_state()) == str(theirs.memory_state())


@pytest.mark.parametrize("target", [{"target_rate": 0.1}, {"target_accuracy": 0.8}], ids=str)
@pytest.mark.parametrize("novelty_rate", [0.01, None])
@pytest.mark.parametrize("per_class", [True, False])
@pytest.mark.parametrize("kind", [streamlvq.RelSimRejector, streamlvq.ProbabilityRejector])
def test_fixed_models_judge_afterwards_as_the_wrappers_do(
    kind: type[Rejector], per_class: bool, novelty_rate: float | None, target: dict[str, float]
) -> None:
    """The kernel knows no threshold then, so it asks of every reading whether it is an outlier."""
    whole = readings(1000, features=2, classes=2)
    trained = Pipeline(streamlvq.GLVQ())
    step(trained, whole.select(slice(0, 400)), [False] * 400)
    rng = np.random.default_rng(3)
    strange = rng.random(600) < 0.2

    def fixed() -> Pipeline:
        inner = streamlvq.TimeIntegrator(copy.deepcopy(trained.model), max_devices=4)
        options = {"per_class": per_class, "novelty_rate": novelty_rate, **target}
        return Pipeline(kind(inner, **options), learns=False)

    fast, plain = fixed(), slow(fixed())
    stream = whole.select(slice(400, 1000))
    stream.rows[strange & (np.arange(600) > 200)] *= 40.0
    reasons = set()
    for part in cut(stream, seed=2):
        again = (rng.random(len(part)) < 0.1).tolist()
        a = step(fast, part, again)
        assert_same(a, step(plain, part, again))
        reasons |= set(a.reasons)
    assert fast.model.samples == trained.model.samples
    assert {None, "ambiguous"} <= reasons


def test_both_ways_may_alternate() -> None:
    """The kernel works on the memory of the wrappers, so nothing is lost in between."""
    mixed, plain = chain("GLVQ", "window", "rate"), slow(chain("GLVQ", "window", "rate"))
    fast = mixed.batch_parts
    for k, part in enumerate(cut(readings(300, seed=5), seed=6)):
        mixed.batch_parts = fast if k % 2 else None
        assert_same(step(mixed, part, [False] * len(part)), step(plain, part, [False] * len(part)))


@pytest.mark.parametrize("seen", [[0, 1, 2, 3, 4], [4, 2, 0], [1]], ids=str)
def test_features_in_another_order_or_missing(seen: list[int]) -> None:
    fast, plain = chain("GLVQ", "window", "rate"), slow(chain("GLVQ", "window", "rate"))
    first, later = cut(readings(300), seed=3, largest=200), readings(120, seed=9)
    for part in first:
        assert_same(step(fast, part, [False] * len(part)), step(plain, part, [False] * len(part)))
    later.features = tuple(later.features[i] for i in seen)
    later.rows = np.ascontiguousarray(later.rows[:, seen])
    assert_same(step(fast, later, [False] * 120), step(plain, later, [False] * 120))


def test_new_feature_and_new_class_in_mid_stream() -> None:
    fast, plain = chain("LGMLVQ", "gaps", "rate"), slow(chain("LGMLVQ", "gaps", "rate"))
    for seed, features, classes in ((1, 3, 2), (2, 5, 2), (3, 5, 4)):
        for part in cut(readings(150, seed=seed, features=features, classes=classes), seed=4):
            a = step(fast, part, [False] * len(part))
            assert_same(a, step(plain, part, [False] * len(part)))
    assert len(fast.model.features) == 5
    assert len(fast.classes) == 4


def test_readings_without_any_value() -> None:
    fast, plain = chain("GLVQ", "window", "rate"), slow(chain("GLVQ", "window", "rate"))
    part = readings(200)
    part.rows[150:] = np.nan
    assert_same(step(fast, part, [False] * 200), step(plain, part, [False] * 200))


def test_committees_and_thresholds_of_classes_take_the_other_way() -> None:
    committee = Pipeline(streamlvq.TimeIntegrator(streamlvq.LVQCommittee()))
    rejector = streamlvq.RelSimRejector(streamlvq.GLVQ(), target_rate=0.1, per_class=True)
    for pipeline in (committee, Pipeline(rejector)):
        part, again = readings(60), [False] * 60
        assert step(pipeline, part, again).codes[-1] >= 0
        assert pipeline.rows_ready(KernelBatch(part, again, learns=True)) == 0
    model = Pipeline(streamlvq.GLVQ())
    step(model, part, again)
    assert model.rows_ready(KernelBatch(part, again, learns=True)) == 60
