"""Monotone functions with their domains and inverses."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from streamlvq.kernels.layout import LARGEST
from streamlvq.state import Floats
from streamlvq.vectorize import EXPECTED_NUMBER

Ufunc = Callable[[Floats], Any]


@dataclass(frozen=True, slots=True)
class Monotone:
    """Strictly increasing function for readings of at least `low`.

    Even a single reading goes through the array functions: scalar functions could differ in the last
    bit, and results would depend on how readings are split into batches.
    """

    name: str
    forward: Ufunc
    backward: Ufunc
    low: float
    expected: str  # the domain, in words
    advice: str  # what to do about values outside of it

    def outside(self, values: Floats) -> npt.NDArray[np.bool_]:
        """Return a mask of the values outside the domain; NaN (missing) is inside."""
        outside: npt.NDArray[np.bool_] = (values < self.low) | (values > LARGEST)
        return outside

    def surely_takes(self, numbers: Sequence[float]) -> bool:
        """Return True only if no value is outside the domain: a fast test that may miss.

        Comparisons with NaN are false, so `min` and `max` return NaN if it comes first and ignore
        it otherwise.
        """
        return not numbers or (self.low <= min(numbers) and max(numbers) <= LARGEST)

    def apply(self, values: Floats) -> Floats:
        """Apply the function to values inside the domain."""
        out: Floats = self.forward(np.ascontiguousarray(values, np.float64))
        return out

    def invert(self, values: Floats) -> Floats:
        """Apply the inverse and clip to the domain: prototypes may lie outside its image."""
        with np.errstate(over="ignore"):
            readings = self.backward(np.ascontiguousarray(values, np.float64))
        out: Floats = np.clip(readings, self.low, LARGEST)
        return out

    def complaint(self, value: float) -> str:
        """Return the error message for a value outside the domain."""
        if abs(value) > LARGEST:
            return f"{EXPECTED_NUMBER}, got {value!r}"
        return f"expected {self.expected} for transform={self.name!r}, got {value!r}; {self.advice}"


def _square(values: Floats) -> Floats:
    return np.square(np.maximum(values, 0.0))  # NaN stays NaN


MONOTONE = {
    each.name: each
    for each in (
        Monotone(
            name="log",
            forward=np.log,
            backward=np.exp,
            low=math.ulp(0.0),
            expected="a number above 0",
            advice="'log1p' takes 0 as well, 'asinh' any number; missing values are NaN",
        ),
        Monotone(
            name="log1p",
            forward=np.log1p,
            backward=np.expm1,
            low=math.nextafter(-1.0, 0.0),
            expected="a number above -1",
            advice="'asinh' takes any number; missing values are NaN",
        ),
        Monotone(
            name="sqrt",
            forward=np.sqrt,
            backward=_square,
            low=0.0,
            expected="a number of at least 0",
            advice="'asinh' takes any number; missing values are NaN",
        ),
        Monotone(
            name="asinh",
            forward=np.arcsinh,
            backward=np.sinh,
            low=-LARGEST,
            expected="a number",
            advice="missing values are NaN",
        ),
    )
}
