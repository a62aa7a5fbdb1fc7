"""Monotone functions of one number, the readings they take, and their inverses."""

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
    """A strictly increasing function of readings from `low` up.

    Both ways are functions of whole arrays, also for a single reading: what is computed in another
    way could differ in the last bit, and then it would matter how readings are cut into batches.

    Parameters
    ----------
    name
        What people call it.
    forward, backward
        The function and its inverse.
    low
        The least number that it takes.
    expected
        Which numbers these are, in words.
    advice
        What to do about others.

    """

    name: str
    forward: Ufunc
    backward: Ufunc
    low: float
    expected: str
    advice: str

    def outside(self, values: Floats) -> npt.NDArray[np.bool_]:
        """Which of the numbers it does not take; NaN is none of them, it stays missing."""
        outside: npt.NDArray[np.bool_] = (values < self.low) | (values > LARGEST)
        return outside

    def surely_takes(self, numbers: Sequence[float]) -> bool:
        """Whether none is outside, seen quickly; where it begins with NaN nobody can say.

        Comparisons with NaN are false, so that `min` and `max` return NaN if it comes first, and
        else leave it out.
        """
        return not numbers or (self.low <= min(numbers) and max(numbers) <= LARGEST)

    def apply(self, values: Floats) -> Floats:
        """The function of numbers none of which is outside."""
        out: Floats = self.forward(np.ascontiguousarray(values, np.float64))
        return out

    def invert(self, values: Floats) -> Floats:
        """The reading of each number; the closest one if there is none.

        Prototypes may be pushed to where no reading gets.
        """
        with np.errstate(over="ignore"):
            readings = self.backward(np.ascontiguousarray(values, np.float64))
        out: Floats = np.clip(readings, self.low, LARGEST)
        return out

    def complaint(self, value: float) -> str:
        """What to say about a number that is outside."""
        if abs(value) > LARGEST:
            return f"{EXPECTED_NUMBER}, got {value!r}"
        return f"expected {self.expected} for transform={self.name!r}, got {value!r}; {self.advice}"


def _square(values: Floats) -> Floats:
    return np.square(np.maximum(values, 0.0))  # NaN stays


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
