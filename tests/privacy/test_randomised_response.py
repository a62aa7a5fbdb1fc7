"""Randomised response: its promise, and that corrections are unbiased and worth it."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from river import datasets

import streamlvq
from streamlvq.privacy import RandomisedResponse
from streamlvq.privacy.randomised_response import DRAW_GRID

LABELS = ["a", "b", "c"]


@pytest.mark.parametrize("epsilon", [1e-9, 0.1, 1.0, 5.0, 20.0])
@pytest.mark.parametrize("count", [2, 7, 1000])
def test_the_promise_holds_for_the_numbers_drawn(epsilon: float, count: int) -> None:
    """In exact arithmetic: the probabilities that are drawn differ by less than e^epsilon."""
    answers = RandomisedResponse(range(count), epsilon)
    share = Fraction(answers._kept, DRAW_GRID)
    truth, lie = share + (1 - share) / count, (1 - share) / count
    assert truth + (count - 1) * lie == 1
    ratio = math.log1p(float((truth - lie) / lie))
    assert epsilon - 1e-11 - 1e-11 * math.exp(epsilon) <= ratio <= epsilon
    assert float(truth) == pytest.approx(
        math.exp(epsilon) / (math.exp(epsilon) + count - 1), rel=1e-9
    )
    assert (answers.truth, answers.lie) == pytest.approx((float(truth), float(lie)))


def test_labels_are_told_with_these_probabilities() -> None:
    answers, count = RandomisedResponse(LABELS, 1.0), 30_000
    told = Counter(answers.randomise("b") for _ in range(count))
    expected = {"a": answers.lie, "b": answers.truth, "c": answers.lie}
    square = sum((told[y] - count * p) ** 2 / (count * p) for y, p in expected.items())
    assert square < 27.6  # chi-square with 2 degrees of freedom, one in a million


def test_counts_and_sums_are_unbiased() -> None:
    """The expectation over all that may be told, weighted by its probability, is the truth."""
    answers = RandomisedResponse(LABELS, 0.7)
    readings = [("a", 1.5), ("a", -4.0), ("b", 2.5), ("c", 10.0)]
    counts, sums = Counter[str](), Counter[str]()
    for place in np.ndindex(3, 3, 3, 3):
        told = [LABELS[k] for k in place]
        chance = math.prod(
            answers.truth if said == y else answers.lie
            for said, (y, _) in zip(told, readings, strict=True)
        )
        raw = {y: {"x": 0.0} for y in LABELS}
        for said, (_, x) in zip(told, readings, strict=True):
            raw[said]["x"] += x
        for y, n in answers.correct_counts(Counter(told)).items():
            counts[y] += chance * n
        for y, found in answers.correct_sums(raw).items():
            sums[y] += chance * found["x"]
    assert dict(counts) == pytest.approx({"a": 2.0, "b": 1.0, "c": 1.0})
    assert dict(sums) == pytest.approx({"a": -2.5, "b": 2.5, "c": 10.0})


def test_means_of_a_snapshot() -> None:
    random = np.random.default_rng(1)
    answers, model = RandomisedResponse(LABELS, 1.0), streamlvq.GLVQ(seed=1)
    truth = {"a": 0.0, "b": 5.0, "c": -8.0}
    y = [LABELS[k] for k in random.integers(0, 3, 6000)]
    X = np.array([[truth[each] + random.normal()] for each in y])
    model.learn_array(X, [answers.randomise(each) for each in y], ["x"])
    snapshot = streamlvq.Snapshot.of(model)
    corrected = answers.correct_means(snapshot.counts, snapshot.means)
    for label, mean in truth.items():
        assert abs(corrected[label]["x"] - mean) < 0.8
    assert abs(snapshot.means["c"]["x"] + 8.0) > 3.0


def test_probabilities_of_a_perfect_model_are_the_true_ones() -> None:
    answers = RandomisedResponse(LABELS, 0.5)
    true = {"a": 0.1, "b": 0.65, "c": 0.25}
    told = {y: answers.lie + (answers.truth - answers.lie) * p for y, p in true.items()}
    assert answers.correct_probabilities(told) == pytest.approx(true)
    assert answers.correct_probabilities({}) == {}


def test_probabilities_are_probabilities() -> None:
    random = np.random.default_rng(2)
    answers = RandomisedResponse(LABELS, 0.5)
    for _ in range(50):
        said = dict(zip(LABELS, random.dirichlet([0.3] * 3).tolist(), strict=True))
        corrected = answers.correct_probabilities(said)
        assert sum(corrected.values()) == pytest.approx(1.0) and min(corrected.values()) >= 0.0
        raw = answers.correct_counts(said)
        grid = np.array([[p, q, 1 - p - q] for p in np.linspace(0, 1, 51)
                         for q in np.linspace(0, 1 - p, 51)])  # fmt: skip
        nearest = ((grid - list(raw.values())) ** 2).sum(axis=1).min()
        assert sum((corrected[y] - raw[y]) ** 2 for y in LABELS) <= nearest + 1e-9


def test_it_beats_ignoring_the_noise() -> None:
    """Image segments, each label told with epsilon 2: probabilities of readings never seen."""
    stream = list(datasets.ImageSegments())
    order = np.random.default_rng(0).permutation(len(stream))
    learnt, judged = ([stream[k] for k in part] for part in (order[:1800], order[1800:]))
    labels = sorted({y for _, y in stream})
    answers, model = RandomisedResponse(labels, 2.0), streamlvq.RSLVQ(seed=1)
    X = np.array([list(x.values()) for x, _ in learnt])
    model.learn_array(X, [answers.randomise(y) for _, y in learnt], list(learnt[0][0]))
    losses = np.zeros((2, 2))
    for x, y in judged:
        said = model.predict_proba_one(x)
        for k, p in enumerate((said, answers.correct_probabilities(said))):
            losses[k] += -math.log(max(p[y], 1e-3)), sum((p[c] - (c == y)) ** 2 for c in labels)
    ignored, corrected = losses / len(judged)
    assert (corrected < 0.85 * ignored).all(), losses / len(judged)


def test_bad_input_is_refused() -> None:
    for labels in ("ab", ["a"], ["a", "a"], []):
        with pytest.raises(ValueError, match="at least 2 distinct labels"):
            RandomisedResponse(labels, 1.0)
    for epsilon in (0.0, -1.0, math.nan, 21.0):
        with pytest.raises(ValueError, match="more than 0"):
            RandomisedResponse(LABELS, epsilon)
    answers = RandomisedResponse(LABELS, 1.0)
    for call in (
        lambda: answers.randomise("d"),
        lambda: answers.correct_counts({"d": 1}),
        lambda: answers.correct_sums({"d": {"x": 1.0}}),
    ):
        with pytest.raises(ValueError, match="one of the labels"):
            call()
