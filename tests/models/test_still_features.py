"""Sensors that do not move: no share in any metric, and a small one when they start to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import streamlvq
from streamlvq.fusion import fuse
from streamlvq.models.engine import ARRAY_SECTIONS
from streamlvq.snapshot import Snapshot
from support.samples import MODELS, knowledge

METRIC = [name for name, model in MODELS.items() if hasattr(model, "metric_learning_rate")]
MATRIX = [name for name in METRIC if hasattr(MODELS[name], "rank")]
NAMES = ["signal", "noise", "setpoint"]


def machine(n: int, seed: int, moves_at: int | None = None) -> tuple[Any, Any]:
    """A signal, noise, and a setpoint that may start to move, for no reason."""
    random = np.random.default_rng(seed)
    y = random.integers(0, 2, n)
    X = random.normal(size=(n, 3))
    X[:, 0] += (2 * y - 1) * 1.55
    X[:moves_at, 2] = 0.0
    X[:, 2] = 20.0 + 3.0 * X[:, 2]
    return X, y


def learnt(name: str, X: Any, y: Any, names: list[str] = NAMES, **params: Any) -> Any:
    model = MODELS[name](**params)
    model.learn_array(X, y, features=names)
    return model


def hits(name: str, X: Any, y: Any) -> Any:
    probabilities, codes = MODELS[name]().learn_array_watched(X, y)
    return probabilities.argmax(axis=1) == codes


@pytest.mark.parametrize("name", METRIC)
def test_a_constant_sensor_has_no_relevance(name: str) -> None:
    """It had up to .95 of it, the more the longer."""
    X, y = machine(600, 0)
    model = learnt(name, X, y)
    assert model.relevances()["setpoint"] == 0.0
    assert model.relevances(raw=True)["setpoint"] == 0.0
    for p in model.prototypes():
        metric = model.metric(p.index, raw=False)
        assert np.trace(metric) == pytest.approx(1.0)
        assert not metric[model.features.index("setpoint")].any()


@pytest.mark.parametrize("name", METRIC)
def test_a_sensor_that_moves_late_does_no_harm(name: str) -> None:
    gaps = []
    for seed in range(4):
        X, y = machine(1500, seed, moves_at=1000)
        without = hits(name, X[:, :2], y)[1000:].mean()
        gaps.append(without - hits(name, X, y)[1000:].mean())
    assert np.mean(gaps) < 0.01


@pytest.mark.parametrize("name", MODELS)
def test_a_sensor_that_moves_late_earns_its_weight(name: str) -> None:
    """A setpoint that tells the classes apart: better with it than without it in the end."""
    X, y = machine(3000, 3, moves_at=100)
    X[100:, 2] += 12.0 * y[100:]
    assert hits(name, X, y)[-1000:].mean() > hits(name, X[:, :2], y)[-1000:].mean()


@pytest.mark.parametrize("name", METRIC)
def test_relevances_are_those_of_standardised_features(name: str) -> None:
    """Without standardisation a sensor in small units is no less relevant for that."""
    X, y = machine(600, 1)
    model = learnt(name, X, y, standardize=False, scale_floor=0.0)
    shares = model.relevances()
    weights = dict(zip(model.features, np.diag(model.metric()).tolist(), strict=True))
    assert shares["setpoint"] == 0.0
    assert sum(shares.values()) == pytest.approx(1.0)
    if not name.startswith("L") and name != "PairwiseLVQ":  # one metric
        ratio = weights["signal"] * X[:, 0].var() / (weights["noise"] * X[:, 1].var())
        assert shares["signal"] / shares["noise"] == pytest.approx(ratio, rel=1e-6)


@pytest.mark.parametrize("name", MODELS)
def test_an_outlier_along_a_constant_sensor_is_seen_without_standardisation(name: str) -> None:
    X, y = machine(300, 2)
    model = learnt(name, X, y, standardize=False)
    usual = dict(zip(NAMES, X[0].tolist(), strict=True))
    assert model.explain_one({**usual, "setpoint": 1e4}).distance > 1e3
    assert model.explain_one(usual).distance < 1e2


@pytest.mark.parametrize("name", MODELS)
def test_only_features_that_vary_make_up_for_missing_ones(name: str) -> None:
    X, y = machine(300, 4)
    with_it, without = learnt(name, X, y), learnt(name, X[:, :2], y, NAMES[:2])
    for k in range(20):
        x = {"noise": float(X[k, 1]), "setpoint": 20.0}
        expected = without.explain_one({"noise": float(X[k, 1])})
        if name not in MATRIX:  # a matrix of another size starts elsewhere
            assert with_it.explain_one(x).distance == pytest.approx(expected.distance)
    alone = with_it.explain_one({"setpoint": 20.0})
    assert (alone.distance, alone.runner_up_distance) == (1.0, 1.0)


@pytest.mark.parametrize("name", MODELS)
def test_snapshots_remember_who_was_still(name: str) -> None:
    X, y = machine(160, 5, moves_at=80)
    for n in (60, 90):
        model = learnt(name, X[:n], y[:n])
        twin = Snapshot.from_bytes(Snapshot.of(model).to_bytes()).classifier()
        for each in (model, twin):
            each.learn_array(X[n:], y[n:], features=NAMES)
        assert knowledge(twin) == knowledge(model)


@pytest.mark.parametrize("name", ["GLVQ", "GRLVQ", "GMLVQ", "LGMLVQ", "PairwiseLVQ"])
def test_fused_models_know_who_was_still(name: str) -> None:
    """Still in all nodes at values of their own: no share, and admitted when it moves."""
    snapshots = []
    for k in range(3):
        X, y = machine(200, 10 + k)
        X[:, 2] += 5.0 * k
        snapshots.append(Snapshot.of(learnt(name, X, y), f"n{k}", readings=False))
    fused = fuse(snapshots, drift="none").for_node("n0")
    assert fused.relevances()["setpoint"] == 0.0
    X, y = machine(400, 20, moves_at=0)
    fused.learn_array(X, y, features=NAMES)
    assert 0.0 < fused.relevances()["setpoint"] < 0.6


def test_states_have_every_section() -> None:
    model = learnt("LGMLVQ", *machine(30, 6))
    arrays = model.state().arrays
    assert set(ARRAY_SECTIONS) - set(arrays) == {"class_size", "class_factor", "platt"}


def test_committee_bears_a_sensor_that_moves_late() -> None:
    X, y = machine(1500, 7, moves_at=1000)
    right = []
    for columns in (2, 3):
        model = streamlvq.LVQCommittee()
        model.learn_array(X[:1000, :columns], y[:1000])
        found = []
        for row, label in zip(X[1000:, :columns].tolist(), y[1000:].tolist(), strict=True):
            x = dict(enumerate(row))
            found.append(model.predict_one(x) == label)
            model.learn_one(x, label)
        right.append(np.mean(found))
    assert right[1] > right[0] - 0.02
