"""From readings to vectors."""

from __future__ import annotations

import itertools
import math
import pickle
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest

from streamlvq.models.vectorizer import (
    Vectorizer,
    name_order,
    refuse_infinities,
    to_number,
    to_rows,
)


def filled(vectorizer: Vectorizer, x: dict[Any, Any]) -> list[float]:
    buffer = bytearray(8 * (vectorizer.width + 2))
    vectorizer.fill(buffer, x)
    return np.frombuffer(buffer, np.float64)[: vectorizer.width].tolist()


@pytest.mark.parametrize(
    "names",
    [["b", "a", "c"], [10, 9, 2], ["a", 1, "1", 2], [(1, 2), "x", 3], [True, 2, 0]],
    ids=str,
)
def test_name_order_does_not_depend_on_the_order_given(names: list[Any]) -> None:
    orders = {tuple(name_order(p)) for p in itertools.permutations(names)}
    assert len(orders) == 1
    assert set(orders.pop()) == set(names)


def test_numbers_are_ordered_as_numbers() -> None:
    assert name_order([10, 9, 100]) == [9, 10, 100]


@pytest.mark.parametrize(
    "value",
    [1, 1.0, True, np.float32(1), np.int8(1), np.bool_(True), Decimal(1), np.array(1.0)],
    ids=repr,
)
def test_to_number(value: Any) -> None:
    assert to_number("a", value) == 1.0


def test_missing_becomes_nan() -> None:
    assert math.isnan(to_number("a", None))
    assert math.isnan(to_number("a", math.nan))


@pytest.mark.parametrize(
    "value", ["1", "", b"1", [1], {}, object(), 1j, 10**400], ids=lambda v: str(v)[:8]
)
def test_to_number_refuses(value: Any) -> None:
    with pytest.raises(ValueError, match="feature 'a': expected a number, got"):
        to_number("a", value)


@pytest.mark.parametrize("features", [(), ("a",), ("a", "b"), ("b", "a", "c")])
def test_fill_puts_values_in_the_order_of_the_features(features: tuple[str, ...]) -> None:
    x = {"c": 3.0, "a": 1, "b": True}
    expected = {"a": 1.0, "b": 1.0, "c": 3.0}
    vectorizer = Vectorizer(features)
    exact = {f: x[f] for f in features}
    assert filled(vectorizer, exact) == [expected[f] for f in features]
    assert filled(vectorizer, x) == [expected[f] for f in features]  # more than it knows
    assert vectorizer.width == len(features)


@pytest.mark.parametrize(
    "x", [{"a": 1.0}, {"a": 1.0, "b": None}, {"a": 1.0, "z": 2.0}, {"a": 1.0, "b": math.nan}]
)
def test_fill_leaves_gaps(x: dict[str, Any]) -> None:
    first, second = filled(Vectorizer(("a", "b")), x)
    assert first == 1.0
    assert math.isnan(second)


def test_fill_refuses_text() -> None:
    with pytest.raises(ValueError, match="feature 'b': expected a number, got 'x'"):
        filled(Vectorizer(("a", "b")), {"a": 1.0, "b": "x"})


def test_unknown_features() -> None:
    assert Vectorizer(("a", "b")).unknown({"d": 1, "a": 2, "c": 3}) == ["c", "d"]


def test_names_must_differ() -> None:
    with pytest.raises(ValueError, match="expected distinct feature names"):
        Vectorizer(["a", "a"])


def test_arrange() -> None:
    rows = np.array([[1.0, 2.0], [3.0, 4.0]])
    vectorizer = Vectorizer(("a", "b", "c"))
    arranged = vectorizer.arrange(rows, ["c", "a"])
    np.testing.assert_array_equal(arranged, [[2.0, np.nan, 1.0], [4.0, np.nan, 3.0]])
    assert Vectorizer(("a", "b")).arrange(rows, ["a", "b"]) is rows
    np.testing.assert_array_equal(vectorizer.arrange(rows, ["z", "b"])[:, 1], [2.0, 4.0])


def test_vectorizers_can_be_pickled() -> None:
    twin = pickle.loads(pickle.dumps(Vectorizer(("a", "b"))))
    assert filled(twin, {"b": 2.0, "a": 1.0}) == [1.0, 2.0]


def test_to_rows_takes_frames_dictionaries_and_arrays() -> None:
    expected = [[1.0, np.nan], [3.0, 4.0]]
    frame = pd.DataFrame({"a": [1, 3], "b": [None, 4]})
    dictionaries = [{"a": 1}, {"b": 4.0, "a": 3}]
    for X, features, names in [
        (frame, None, ["a", "b"]),
        (dictionaries, None, ["a", "b"]),
        (np.array(expected), ["a", "b"], ["a", "b"]),
        (expected, None, None),
    ]:
        rows, given = to_rows(X, features)
        np.testing.assert_array_equal(rows, expected)
        assert rows.dtype == np.float64
        assert rows.flags.c_contiguous
        assert given == names


@pytest.mark.parametrize(
    "column",
    [pd.array([1, None], "Int64"), pd.array([True, None], "boolean"), [1.0, None]],
    ids=str,
)
def test_to_rows_knows_the_gaps_of_pandas(column: Any) -> None:
    rows, _ = to_rows(pd.DataFrame({"a": column}), None)
    np.testing.assert_array_equal(rows, [[1.0], [np.nan]])


def test_to_rows_errors() -> None:
    with pytest.raises(ValueError, match="two-dimensional array, got shape"):
        to_rows(np.zeros(3), None)
    with pytest.raises(ValueError, match="expected 2 feature names, got 1"):
        to_rows(np.zeros((1, 2)), ["a"])
    with pytest.raises(ValueError, match="feature 'a': expected a number, got 'x'"):
        to_rows([{"a": "x"}], None)


def test_refuse_infinities_names_the_place() -> None:
    refuse_infinities(np.array([[1.0, np.nan]]), ["a", "b"])
    with pytest.raises(
        ValueError, match=r"feature 'b' of row 1: expected a finite number .* got -inf"
    ):
        refuse_infinities(np.array([[1.0, 2.0], [3.0, -np.inf]]), ["a", "b"])
