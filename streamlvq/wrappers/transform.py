"""Monotone transforms of selected features, for readings and arrays."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from streamlvq.errors import ParameterError
from streamlvq.state import Floats
from streamlvq.vectorize import Reading, Rows, Vectorizer, to_number
from streamlvq.wrappers.monotone import MONOTONE, Monotone

if TYPE_CHECKING:
    import pandas as pd


class Transform:
    """Monotone function of selected features (None: all), without a classifier.

    Examples
    --------

    >>> import numpy as np
    >>> from streamlvq.wrappers.transform import Transform

    >>> transform = Transform("sqrt", features=["counts"])
    >>> rows = np.array([[16.0, 20.5], [np.nan, 21.0]])
    >>> inside = transform.rows(rows, ["counts", "degrees"])
    >>> inside.tolist()
    [[4.0, 20.5], [nan, 21.0]]
    >>> transform.inverse_rows(inside, ["counts", "degrees"]).tolist()
    [[16.0, 20.5], [nan, 21.0]]

    """

    def __init__(
        self, name: str, features: Sequence[Hashable] | None = None, owner: str = "Transform"
    ) -> None:
        self._check(name, features, owner)
        self.name = name
        self.features = None if features is None else tuple(features)
        self._selected = None if features is None else frozenset(features)

    @staticmethod
    def _check(name: Any, features: Any, owner: str) -> None:
        if not isinstance(name, str) or name not in MONOTONE:
            known = ", ".join(MONOTONE)
            raise ParameterError(owner, "transform", f"expected one of {known}, got {name!r}")
        if features is None:
            return
        try:
            good = not isinstance(features, str) and len(features) == len(set(features)) > 0
        except TypeError:
            good = False
        if not good:
            raise ParameterError(
                owner,
                "features",
                f"expected distinct feature names, or None for all, got {features!r}",
            )

    @property
    def monotone(self) -> Monotone:
        """The function with its domain and inverse."""
        return MONOTONE[self.name]

    # --- arrays ----------------------------------------------------------------------------------

    def _columns(self, names: Sequence[Hashable] | None) -> list[int] | None:
        """Return the columns to transform; None for all."""
        if self._selected is None:
            return None
        if names is None:
            raise ValueError(
                f"expected the names of the columns because of features={self.features!r}, got none: "
                "pass them as names=[...]"
            )
        return [column for column, name in enumerate(names) if name in self._selected]

    def outside(self, rows: Rows, names: Sequence[Hashable] | None = None) -> npt.NDArray[np.bool_]:
        """Return a mask of the values outside the domain."""
        columns = self._columns(names)
        if columns is None:
            return self.monotone.outside(rows)
        outside = np.zeros(np.shape(rows), np.bool_)
        outside[:, columns] = self.monotone.outside(rows[:, columns])
        return outside

    def refusals(self, rows: Rows, names: Sequence[Hashable]) -> dict[int, str]:
        """Return an error message for each row with a value outside the domain."""
        outside = self.outside(rows, names)
        bad = np.flatnonzero(outside.any(axis=1)).tolist()
        first = (
            outside[bad].argmax(axis=1).tolist() if bad else []
        )  # argmax needs at least one column
        return {
            row: f"feature {names[column]!r}: {self.monotone.complaint(float(rows[row, column]))}"
            for row, column in zip(bad, first, strict=True)
        }

    def rows(self, rows: Rows, names: Sequence[Hashable] | None = None) -> Rows:
        """Return transformed rows; raise ValueError for values outside the domain."""
        outside = self.outside(rows, names)
        if outside.any():
            row, column = np.argwhere(outside)[0].tolist()
            name = column if names is None else names[column]
            complaint = self.monotone.complaint(float(rows[row, column]))
            raise ValueError(f"feature {name!r} of row {row}: {complaint}")
        return self._mapped(self.monotone.apply, rows, names)

    def inverse_rows(self, rows: Rows, names: Sequence[Hashable] | None = None) -> Rows:
        """Return rows in sensor units, clipped to the domain."""
        return self._mapped(self.monotone.invert, rows, names)

    def _mapped(
        self, function: Callable[[Floats], Floats], rows: Rows, names: Sequence[Hashable] | None
    ) -> Rows:
        columns = self._columns(names)
        if columns is None:
            return function(rows)
        out = np.array(rows, np.float64, order="C")
        out[:, columns] = function(out[:, columns])
        return out

    def frame(self, X: pd.DataFrame) -> pd.DataFrame:
        """Return a transformed copy of a data frame; other columns may hold any type."""
        columns = self._columns(list(X.columns))
        names = list(X.columns) if columns is None else [X.columns[k] for k in columns]
        inside = self.rows(X[names].to_numpy(dtype=np.float64, na_value=np.nan), names)
        frame = X.copy()
        for name, column in zip(names, inside.T, strict=True):
            frame[name] = column
        return frame

    # --- readings --------------------------------------------------------------------------------

    def one(self, x: Reading) -> dict[Hashable, Any]:
        """Return a transformed reading; raise ValueError for values outside the domain."""
        Vectorizer.check_mapping(x)
        names, numbers = self._numbers(x)
        if not self.monotone.surely_takes(numbers):
            self._refuse_outside(names, numbers)
        transformed = self.monotone.apply(np.frombuffer(numbers)).tolist()
        changed = dict(zip(names, transformed, strict=True))
        return changed if self._selected is None else {**x, **changed}

    def _refuse_outside(self, names: Sequence[Hashable], numbers: Sequence[float]) -> None:
        outside = self.monotone.outside(np.array(numbers))
        if outside.any():
            k = int(outside.argmax())
            raise ValueError(f"feature {names[k]!r}: {self.monotone.complaint(numbers[k])}")

    def inverse_one(self, x: Mapping[Any, float]) -> dict[Hashable, float]:
        """Return a reading or prototype in sensor units."""
        names, numbers = self._numbers(x)
        readings = self.monotone.invert(np.frombuffer(numbers)).tolist()
        return {**x, **dict(zip(names, readings, strict=True))}

    def _numbers(self, x: Reading) -> tuple[list[Hashable], array[float]]:
        """Return the features to transform and their values, NaN where missing."""
        selected = self._selected
        names = list(x) if selected is None else [name for name in x if name in selected]
        try:
            numbers = array("d", [x[name] for name in names])
        except (TypeError, ValueError, OverflowError):  # None or not a number: take the slow path
            numbers = array("d", [to_number(name, x[name]) for name in names])
        return names, numbers
