"""Kernels of the window forest and of the bins against plain Python, on the same random draws."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import naive_tables
import streamlvq
from support.samples import blobs, readings

FORESTS = {
    "default": {},
    "few": {"trees": 3, "longest_window": 60, "shortest_window": 20, "regrow_every": 7},
    "shallow": {
        "trees": 4,
        "max_depth": 2,
        "min_leaf": 5,
        "longest_window": 90,
        "shortest_window": 90,
    },
    "small": {"trees": 5, "max_leaves": 5, "longest_window": 90, "shortest_window": 90, "seed": 77},
}
BINS = {"default": {}, "few": {"bins": 5, "half_life": 40}, "forever": {"half_life": None}}


def stream(n: int, missing: float, classes: int = 3) -> tuple[list[list[float]], list[int]]:
    """Values of which one is a bit, one is a whole number and one never changes."""
    X, y = blobs(n, d=6, classes=classes, missing=missing)
    X[:, 1] = np.where(np.isnan(X[:, 1]), np.nan, X[:, 1] > np.nanmedian(X[:, 1]))
    X[:, 2] = np.round(X[:, 2] / np.nanstd(X[:, 2]) * 4)
    X[:, 3] = np.where(np.isnan(X[:, 3]), np.nan, 7.0)
    return X.tolist(), y.tolist()


def follow(model: Any, oracle: Any, n: int, missing: float, weighted: bool) -> None:
    """Learn a stream with both; compare each prediction, and that of a reading from elsewhere."""
    rows, y = stream(n, missing)
    random = np.random.default_rng(3)
    for k, (x, row, label) in enumerate(zip(readings(np.array(rows)), rows, y, strict=True)):
        w = float(random.integers(1, 4)) if weighted else 1.0
        if k:
            odd = [v + 0.3 * abs(v) * (-1) ** k for v in row]
            for values in (row, odd):
                given = dict(zip(x, values, strict=True))
                expected = dict(enumerate(oracle.predict(values)))
                found = model.predict_proba_one(given)
                assert found.keys() == expected.keys()
                assert all(math.isclose(found[c], expected[c], rel_tol=1e-9) for c in found), k
        model.learn_one(x, label, w)
        oracle.learn(row, label, w)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("name", FORESTS)
def test_forest_is_that_of_the_oracle(name: str, missing: float, weighted: bool) -> None:
    model = streamlvq.WindowForest(**FORESTS[name])
    oracle = naive_tables.NaiveForest(model, 6)
    follow(model, oracle, 200, missing, weighted)
    grown = [len(nodes_of(tree)) for tree in oracle.trees]
    assert grown == model._engine.tree_sizes()
    if name != "shallow":
        assert max(grown) > 7


def nodes_of(tree: naive_tables.Node) -> list[naive_tables.Node]:
    return [tree, *(node for child in tree.children for node in nodes_of(child))]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("name", BINS)
def test_bins_are_those_of_the_oracle(name: str, missing: float, weighted: bool) -> None:
    model = streamlvq.BinnedNaiveBayes(**BINS[name])
    oracle = naive_tables.NaiveBins(model, 6)
    follow(model, oracle, 400, missing, weighted)
    assert [len(bins) for bins in oracle.features] == model._engine.arrays["used"].tolist()
    for feature, bins in enumerate(oracle.features):
        used = len(bins)
        lows = model._engine.arrays["lows"][feature, :used]
        assert [each.low for each in bins] == lows.tolist()
        assert sum(each.high > each.low for each in bins) > 0 or feature in (1, 3) or used < 24


def test_the_exponent_goes_down_the_log_loss() -> None:
    """Its gradient and curvature are those of the log loss, by finite differences."""
    random = np.random.default_rng(5)
    for _ in range(20):
        score, code = random.normal(size=4).tolist(), int(random.integers(4))
        fit = naive_tables.Sharpening()
        fit.logarithm = float(random.normal(scale=0.3))
        h, start = 1e-5, fit.logarithm
        slope = (fit.log_loss(score, code, start + h) - fit.log_loss(score, code, start - h)) / (
            2 * h
        )
        fit.fit(score, code, 1.0)
        step = fit.logarithm - start
        assert abs(step) > 0.499 or math.isclose(step * (fit.curvature + 1.0), -slope, rel_tol=1e-5)


def test_bits_have_a_bin_for_each_value() -> None:
    """Class frequencies of discrete values are exact, whatever else there is."""
    random = np.random.default_rng(0)
    model = streamlvq.BinnedNaiveBayes(half_life=None)
    bits, y = random.integers(0, 2, (500, 3)), random.integers(0, 2, 500)
    for row, label in zip(bits.tolist(), y.tolist(), strict=True):
        model.learn_one(dict(enumerate(row)), label)
    codes = [model.class_number(label) for label in y.tolist()]
    tables = model._engine.arrays
    assert tables["used"].tolist() == [2, 2, 2]
    for i in range(3):
        for value in (0, 1):
            expected = np.bincount(np.array(codes)[bits[:, i] == value], minlength=2)
            assert tables["counts"][i, value, :2].tolist() == expected.tolist()


def test_bins_follow_the_quantiles() -> None:
    """After a shift of a skewed feature most bins are where it is now, none far too heavy."""
    random = np.random.default_rng(1)
    model = streamlvq.BinnedNaiveBayes(bins=16, half_life=200)
    for k in range(4000):
        model.learn_one({"x": float(random.lognormal(0.0 if k < 2000 else 6.0))}, k % 2)
    tables, used = model._engine.arrays, int(model._engine.arrays["used"][0])
    shares = tables["masses"][0, :used] / tables["masses"][0, :used].sum()
    assert used == 16
    assert shares.max() <= 2.0 / 16 + 0.02
    assert np.count_nonzero(tables["highs"][0, :used] > np.exp(4.0)) >= 13


def test_weights_of_bins_do_not_overflow() -> None:
    """Weights are rescaled now and then; that changes no probability."""
    X, y = blobs(400, d=3)
    quick, slow = streamlvq.BinnedNaiveBayes(half_life=1), streamlvq.BinnedNaiveBayes(half_life=1)
    units = []
    for k, (x, label) in enumerate(zip(readings(X), y.tolist(), strict=True)):
        quick.learn_one(x, label)
        units.append(quick._engine.floats[3])
        slow.learn_one(x, label)
        if k % 3 == 0:  # rescale by hand, much earlier
            floats = slow._engine.floats
            for name in ("prior", "masses", "counts", "present"):
                slow._engine.arrays[name] /= floats[3]
            floats[3] = 1.0
        p, q = quick.predict_proba_one(x), slow.predict_proba_one(x)
        assert all(math.isclose(p[c], q[c], rel_tol=1e-9) for c in p)
    assert max(units) <= 1e12 and units.count(1.0) > 5


def test_a_feature_that_was_forgotten_starts_anew() -> None:
    """Weights that fall to nothing are no division by zero; the other features go on."""
    model = streamlvq.BinnedNaiveBayes(half_life=1)
    for k in range(50):
        model.learn_one({"old": float(k % 2), "new": float(k % 2)}, k % 2)
    for k in range(2500):
        model.learn_one({"new": float(k % 2)}, k % 2)
    assert model._engine.arrays["used"].tolist()[model.features.index("old")] == 0
    for x in ({"old": 1.0, "new": 1.0}, {"new": 1.0}, {"old": 1.0}):
        p = model.predict_proba_one(x)
        assert math.isclose(sum(p.values()), 1.0)
        assert p[1] >= 0.5
    twin = streamlvq.BinnedNaiveBayes.from_state(model.state())
    for k in range(50):
        for each in (model, twin):
            each.learn_one({"old": float(1 - k % 2), "new": float(k % 2)}, k % 2)
    assert model.predict_one({"old": 1.0}) == 0
    assert twin.state().same_as(model.state())
