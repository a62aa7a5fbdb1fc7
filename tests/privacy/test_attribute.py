"""How well a private feature is guessed: against known answers."""

from __future__ import annotations

import math

import numpy as np
import pytest

from streamlvq.privacy import PrivateMap, leakage
from streamlvq.privacy.attribute import _auc

NAMES = ["a", "b", "s"]


def gaussian(count: int = 4000, seed: int = 1) -> np.ndarray:
    """`s`, and two features that tell half of its variance together."""
    random = np.random.default_rng(seed)
    s, a = random.normal(size=(2, count))
    return np.column_stack([s + a, random.normal(size=count), s])


def test_the_gaussian_case() -> None:
    (found,) = leakage(gaussian(), ["s"], features=NAMES)
    assert found.measure == "R^2" and found.readings == 2000
    assert found.linear == pytest.approx(0.5, abs=0.03)
    assert found.nonlinear == pytest.approx(0.5, abs=0.04)
    assert found.nats == pytest.approx(0.5 * math.log(2.0), abs=0.04)
    assert found.is_guessed and "better than chance" in found.sentence


def test_behind_the_map_nothing_is_left() -> None:
    X = gaussian()
    (found,) = leakage(X, ["s"], hiding=PrivateMap.fit(X, ["s"], NAMES), features=NAMES)
    assert abs(found.linear) < 0.01 and abs(found.nonlinear) < 0.01 and found.nats < 0.01
    assert not found.is_guessed and "no better than chance" in found.sentence


def test_a_linear_map_does_not_hide_spreads() -> None:
    """The same mean for both values of s, but another spread: only a curve finds it."""
    random = np.random.default_rng(2)
    s = random.integers(0, 2, 4000)
    X = np.column_stack([random.normal(size=4000) * (1 + 3 * s), random.normal(size=4000), s])
    (found,) = leakage(X, ["s"], hiding=PrivateMap.fit(X, ["s"], NAMES), features=NAMES)
    assert found.measure == "AUC"
    assert abs(found.linear - 0.5) < 0.05 and found.nonlinear > 0.75 and found.is_guessed


def test_two_values_of_which_one_is_rare() -> None:
    random = np.random.default_rng(3)
    s = random.random(4000) < 0.03
    X = np.column_stack([random.normal(size=4000) + 3 * s, random.normal(size=4000), 5.0 + s])
    (found,) = leakage(X, ["s"], features=NAMES)
    assert found.linear > 0.95 and 0.02 < found.error < 0.06


def test_missing_values_tell_too() -> None:
    random = np.random.default_rng(4)
    s = random.integers(0, 2, 2000)
    X = np.column_stack([np.where(s > 0, np.nan, 1.0), random.normal(size=2000), s])
    assert leakage(X, ["s"], features=NAMES)[0].linear > 0.99


def test_private_features_are_not_given_to_attackers() -> None:
    X = gaussian()
    more = np.column_stack([X, X[:, 2] * 2.0 + 1.0])
    both = leakage(more, ["s", "t"], features=[*NAMES, "t"])
    assert [each.private for each in both] == ["s", "t"]
    assert both[0].linear == pytest.approx(leakage(X, ["s"], features=NAMES)[0].linear)


def test_auc_is_the_share_of_pairs() -> None:
    random = np.random.default_rng(5)
    said, truth = random.integers(0, 6, 60).astype(float), random.random(60) < 0.4
    pairs = [
        1.0 if one > other else 0.5 if one == other else 0.0
        for one in said[truth]
        for other in said[~truth]
    ]
    assert _auc(said, truth) == pytest.approx(np.mean(pairs))


def test_bad_input_is_refused() -> None:
    X = gaussian(60)
    with pytest.raises(ValueError, match="names of the columns"):
        leakage(X, ["s"])
    for private in ("s", [], ["t"]):
        with pytest.raises(ValueError, match="names of private features among"):
            leakage(X, private, features=NAMES)
    with pytest.raises(ValueError, match="at least 40 readings and two values"):
        leakage(X[:30], ["s"], features=NAMES)
    X[:, 2] = 1.0
    with pytest.raises(ValueError, match="60 readings with 1"):
        leakage(X, ["s"], features=NAMES)
