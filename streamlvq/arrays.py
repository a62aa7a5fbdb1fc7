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
