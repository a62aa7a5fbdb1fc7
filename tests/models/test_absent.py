"""Sparse readings: what a feature means that a reading does not mention."""

from __future__ import annotations

import datetime
import math
import random
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest

import streamlvq
from streamlvq import GLVQ, LGMLVQ, LVQCommittee, Snapshot
from streamlvq.models.base import SPARSE_MIN_READINGS
from streamlvq.models.vectorizer import Vectorizer

NAMES = ["GLVQ", "GRLVQ", "LGMLVQ", "RSLVQ", "OLVQ1", "PairwiseLVQ"]
LATE = [
    ({"a": 1.0}, 0), ({"b": 2.0}, 1), ({}, 0), ({"a": 1.5, "b": 0.5}, 1), ({"c": 3.0, "b": 1.0}, 0),
    ({"b": 2.5}, 1), ({"d": 1.0, "a": 1.0}, 0), ({"c": 1.0}, 1),
]  # fmt: skip


def make(name: str, **parameters: Any) -> Any:
    return getattr(streamlvq, name)(**parameters)


def texts(count: int, seed: int = 1) -> list[tuple[dict[str, int], int]]:
    """Return bags of ten words out of 120, of which each class prefers a few."""
    draw = random.Random(seed)
    found = []
    for _ in range(count):
        y = draw.randrange(3)
        words = [f"w{min(119, int(draw.expovariate(0.03)))}" for _ in range(7)]
        words += [f"w{20 * y + draw.randrange(20)}" for _ in range(3)]
        found.append(({word: words.count(word) for word in words}, y))
    return found


def accuracy(model: Any, samples: list[tuple[dict[str, int], int]]) -> float:
    right = 0
    for x, y in samples:
        right += model.predict_one(x) == y
        model.learn_one(x, y)
    return right / len(samples)


# --- zero -----------------------------------------------------------------------------------------


def test_absent_is_zero_but_none_is_missing() -> None:
    vectorizer = Vectorizer(("a", "b", "c"), 0.0)
    buffer = bytearray(8 * 5)
    vectorizer.fill(buffer, {"c": 2, "b": None, "z": 9.0})
    np.testing.assert_array_equal(np.frombuffer(buffer)[:3], [0.0, np.nan, 2.0])
    np.testing.assert_array_equal(vectorizer.vector({"c": 2, "b": math.nan}), [0.0, np.nan, 2.0])
    np.testing.assert_array_equal(vectorizer.arrange(np.ones((1, 1)), ["b"]), [[0.0, 1.0, 0.0]])


@pytest.mark.parametrize("name", NAMES)
def test_sparse_readings_are_learnt_as_full_ones(name: str) -> None:
    sparse, full = make(name, absent="zero"), make(name, absent="zero")
    names = [f"w{k}" for k in range(120)]
    sparse.learn_one(dict.fromkeys(names, 0.0), 0)
    full.learn_one(dict.fromkeys(names, 0.0), 0)
    for x, y in texts(150):
        dense = {word: x.get(word, 0.0) for word in names}
        assert sparse.predict_proba_one(x) == full.predict_proba_one(dense)
        sparse.learn_one(x, y)
        full.learn_one(dense, y)
    np.testing.assert_array_equal(sparse.engine.floats, full.engine.floats)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("half_life", [None, 50])
def test_a_late_feature_was_zero_before(name: str, half_life: float | None) -> None:
    """Statistics, prototypes and buffer are those of a model that knew the features all along.

    Up to ten readings: after that a feature that stood still has a smaller weight, late or not.
    """
    late, known = (make(name, absent="zero", half_life=half_life) for _ in range(2))
    known.learn_array(np.zeros((0, 0)), [])
    for x, y in LATE:
        late.learn_one(x, y)
    rows = pd.DataFrame([x for x, _ in LATE]).fillna(0.0)[list(late.features)]
    known.learn_many(rows, pd.Series([y for _, y in LATE]))
    for section in ("weight", "class_weight", "class_mean", "class_variance", "mean", "variance"):
        np.testing.assert_allclose(
            late.engine.state[section], known.engine.state[section], atol=1e-12, err_msg=section
        )
    stored = slice(0, len(LATE))
    np.testing.assert_array_equal(
        late.engine.state["buffer_x"][stored], known.engine.state["buffer_x"][stored]
    )
    assert not np.isnan([list(p.values.values()) for p in late.prototypes()]).any()


def test_readings_without_any_feature_count() -> None:
    model = GLVQ(absent="zero")
    for _ in range(3):
        model.learn_one({}, "a")
    model.learn_one({"x": 1.0}, "b")
    assert model.engine is not None
    assert model.engine.state["mean"][0] == pytest.approx(1 / 4)
    assert model.predict_one({}) == "a"


@pytest.mark.parametrize("make_model", [GLVQ, LGMLVQ, LVQCommittee])
def test_words_are_learnt(make_model: Any) -> None:
    samples = texts(600)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert accuracy(make_model(absent="zero"), samples) > accuracy(make_model(), samples) + 0.1


def test_batches_are_learnt_like_single_readings() -> None:
    samples = texts(100)
    names = sorted({word for x, _ in samples for word in x})
    one, many = GLVQ(absent="zero"), GLVQ(absent="zero")
    for model in (one, many):
        model.learn_one(dict.fromkeys(names, 0.0), 0)
    for x, y in samples:
        one.learn_one(x, y)
    many.learn_array([x for x, _ in samples[:50]], [y for _, y in samples[:50]])
    for x, y in samples[50:]:  # a frame without most columns
        many.learn_many(pd.DataFrame([x]), pd.Series([y]))
    assert one.engine is not None and many.engine is not None
    np.testing.assert_array_equal(one.engine.floats, many.engine.floats)


def test_what_is_empty() -> None:
    model = GLVQ(absent="zero")
    model.learn_one({"a": 1.0}, 0)
    model.learn_one({"b": 1.0}, 1)
    for x, empty in [({"z": 1.0}, True), ({}, False), ({"a": 0.0}, False), ({"a": None}, False)]:
        model.predict_one(x)
        assert model.last_was_empty() is empty, x


@pytest.mark.parametrize("committee", [False, True])
def test_snapshots_keep_it(committee: bool) -> None:
    model: Any = (LVQCommittee if committee else GLVQ)(absent="zero")
    samples = texts(60)
    for x, y in samples[:40]:
        model.learn_one(x, y)
    twin = Snapshot.from_bytes(Snapshot.of(model).to_bytes()).classifier()
    assert twin.absent == "zero"
    for x, y in samples[40:]:
        assert twin.predict_proba_one(x) == model.predict_proba_one(x)
        twin.learn_one(x, y)
        model.learn_one(x, y)


def test_the_committee_passes_it_on() -> None:
    committee = LVQCommittee(absent="zero", members={"follower": None, "third": LGMLVQ()})
    assert {member.absent for member in committee.parts.values()} == {"zero"}
    mixed = LVQCommittee(members={"learner": GLVQ(absent="zero"), "follower": None})
    assert [member.absent for member in mixed.parts.values()] == ["zero", "missing"]
    assert type(mixed).from_state(mixed.state()).absent == "missing"


@pytest.mark.parametrize("cls", [GLVQ, LVQCommittee])
def test_other_words_are_refused(cls: Any) -> None:
    with pytest.raises(ValueError, match=r"absent=...\): expected one of .* got 0"):
        cls(absent=0)


# --- the warning ----------------------------------------------------------------------------------


def test_sparse_readings_warn_once() -> None:
    model = GLVQ()
    with pytest.warns(UserWarning, match=r'use GLVQ\(absent="zero"\)') as caught:
        for x, y in texts(SPARSE_MIN_READINGS + 100):
            model.learn_one(x, y)
    assert len(caught) == 1


@pytest.mark.parametrize("absent", ["missing", "zero"])
def test_full_readings_and_zeros_do_not_warn(absent: str) -> None:
    model, samples = GLVQ(absent=absent), texts(SPARSE_MIN_READINGS + 100)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for k, (x, y) in enumerate(samples):
            sparse = absent == "zero" or k % 3 == 0
            model.learn_one(x if sparse else {f"w{n}": 1.0 for n in range(120)}, y)


# --- times and text -------------------------------------------------------------------------------

DAY = datetime.datetime(2024, 5, 1, 12, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    "value",
    [DAY, DAY.date(), datetime.timedelta(1), pd.Timestamp(DAY), np.datetime64("2024-05-01", "ns"),
     np.timedelta64(5, "ns")],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_times_are_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=r"feature 't': expected a number, got the time .* hour"):
        GLVQ().learn_one({"a": 1.0, "t": value}, 0)


@pytest.mark.parametrize("dtype", ["datetime64[ns]", "timedelta64[ns]", "datetime64[ns, UTC]"])
def test_columns_of_times_are_refused_by_name(dtype: str) -> None:
    frame = pd.DataFrame({"a": [1.0, 2.0], "t": pd.Series([1, 2]).astype(dtype)})
    with pytest.raises(ValueError, match=r"column 't': expected numbers, got .* hour of the day"):
        GLVQ().learn_many(frame, pd.Series([0, 1]))


@pytest.mark.parametrize("dtype", ["datetime64[s]", "timedelta64[ns]"])
def test_arrays_of_times_are_refused(dtype: str) -> None:
    with pytest.raises(ValueError, match=r"features \['t'\], got .*: convert it first"):
        GLVQ().learn_array(np.array([[1], [2]]).astype(dtype), [0, 1], features=["t"])


@pytest.mark.parametrize("value", ["red", "1.5", b"2", DAY, 1j])
def test_columns_without_numbers_are_named(value: Any) -> None:
    frame = pd.DataFrame({"a": [1.0, 2.0], "colour": [None, value]}, dtype=object)
    with pytest.raises(ValueError, match=r"column 'colour': expected numbers, got .* in row 1"):
        GLVQ().learn_many(frame, pd.Series([0, 1]))


@pytest.mark.parametrize("dtype", ["string", "category", "complex128"])
def test_columns_of_another_type_are_named(dtype: str) -> None:
    frame = pd.DataFrame({"a": [1.0, 2.0], "t": pd.Series(["1", "2"]).astype(dtype)})
    for ask in (GLVQ().predict_many, lambda X: GLVQ().learn_many(X, pd.Series([0, 1]))):
        with pytest.raises(ValueError, match=r"column 't': expected numbers, got .* in row 0"):
            ask(frame)


def test_numbers_in_columns_of_objects() -> None:
    """They may have gaps, and are those of readings one by one."""
    frame = pd.DataFrame({"a": [1, 2.5, None, pd.NA]}, dtype=object)
    frame["b"] = pd.Categorical([1.0, 2.0, 1.0, None])
    model, one_by_one = GLVQ(), GLVQ()
    model.learn_many(frame, pd.Series([0, 1, 0, 1]))
    for x, y in zip(
        ({"a": 1, "b": 1}, {"a": 2.5, "b": 2}, {"b": 1}, {}), (0, 1, 0, 1), strict=True
    ):
        one_by_one.learn_one({"a": None, "b": None, **x}, y)
    probe = {"a": 1.5, "b": 1.2}
    assert model.predict_proba_one(probe) == one_by_one.predict_proba_one(probe)


def test_booleans_are_numbers() -> None:
    model = GLVQ()
    model.learn_many(pd.DataFrame({"on": [True, False]}), pd.Series([1, 0]))
    assert model.predict_one({"on": True}) == 1
