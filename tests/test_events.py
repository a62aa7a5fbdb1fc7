"""What flows through a monitor."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from streamlvq.events import NO_KEY, UNNAMED_DEVICE, DedupWindow, Readings

ROWS = [[1.0, np.nan], [2.0, 3.0], [4.0, 5.0]]


def test_readings_have_defaults() -> None:
    readings = Readings.of(["a", "b"], ROWS)
    np.testing.assert_array_equal(readings.rows, ROWS)
    assert readings == Readings(
        features=("a", "b"),
        rows=readings.rows,
        devices=[UNNAMED_DEVICE] * 3,
        groups=[""] * 3,
        labels=[None] * 3,
        times=[None] * 3,
        sequences=[None] * 3,
        keys=[NO_KEY] * 3,
        dedup_windows=[DedupWindow.NONE] * 3,
        sources=[0, 1, 2],
    )


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("devices", ["p", "q", "p"]),
        ("groups", ["x", "", "y"]),
        ("labels", ["ok", None, 3]),
        ("times", [0.5, None, 1.5]),
        ("sequences", range(3)),
        ("keys", (7, 8, 9)),
        ("dedup_windows", [DedupWindow.NONE] * 3),
        ("sources", [4, 6, 9]),
    ],
)
def test_readings_take_what_is_given(column: str, values: Any) -> None:
    assert getattr(Readings.of(["a", "b"], ROWS, **{column: values}), column) == list(values)
    with pytest.raises(ValueError, match=f"^{column}: expected 3 values, .* got 2$"):
        Readings.of(["a", "b"], ROWS, **{column: values[:2]})


@pytest.mark.parametrize("rows", [[1.0, 2.0], [[1.0]], np.empty((2, 3)), np.empty((0,))])
def test_readings_have_a_column_for_each_feature(rows: Any) -> None:
    with pytest.raises(ValueError, match="rows: expected a column for each of 2 features"):
        Readings.of(["a", "b"], rows)


def test_no_readings() -> None:
    assert len(Readings.of((), np.empty((0, 0)))) == 0
    assert Readings.of(["a"], np.empty((0, 1))).devices == []
