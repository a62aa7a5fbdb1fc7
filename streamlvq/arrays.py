"""Types of arrays, labels and readings."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.float64]  # readings x features
Label = Hashable  # name of a class
Reading = Mapping[Any, Any]  # feature -> value


def as_rows(values: npt.ArrayLike) -> Rows:
    """Return an array as kernels take it: float64, C order, writable; masked values are missing.

    It is the same array if nothing is to be done.
    """
    if type(values) is np.ndarray and values.dtype == np.float64 and values.flags.carray:
        return values
    if isinstance(values, np.ma.MaskedArray):
        values = np.ma.filled(values.astype(np.float64), np.nan)
    return np.require(values, np.float64, ["C", "W"])
