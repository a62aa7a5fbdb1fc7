"""`ModelState`: named views of the flat arrays that the kernels work on."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streamlvq.kernels import layout as at

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class ArraySection(NamedTuple):
    """Position, shape and initial value of one named array."""

    number: int
    sizes: tuple[int, ...]
    start: float
    columns: tuple[int, ...] = ()  # dimensions that are the same in every model


SECTIONS = {
    "mean": ArraySection(at.MEAN, (at.FEATURES,), 0.0),
    "variance": ArraySection(at.VARIANCE, (at.FEATURES,), 0.0),
    "peak": ArraySection(at.PEAK, (at.FEATURES,), 0.0),
    "weight": ArraySection(at.WEIGHT, (at.FEATURES,), 0.0),
    "inverse": ArraySection(at.INVERSE, (at.FEATURES,), 0.0),
    "w": ArraySection(at.W, (at.SLOTS, at.FEATURES), np.nan),
    "w_moment": ArraySection(at.W_MOMENT, (at.SLOTS, at.FEATURES), 0.0),
    "usefulness": ArraySection(at.USEFULNESS, (at.SLOTS,), 0.0),
    "wins": ArraySection(at.WINS, (at.SLOTS,), 0.0),
    "born": ArraySection(at.BORN, (at.SLOTS,), 0.0),
    "rate": ArraySection(at.RATE, (at.SLOTS,), 0.0),
    "omega": ArraySection(at.OMEGA, (at.METRICS, at.RANK, at.FEATURES), 0.0),
    "row_moment": ArraySection(at.ROW_MOMENT, (at.METRICS, at.RANK), 0.0),
    "column_moment": ArraySection(at.COLUMN_MOMENT, (at.METRICS, at.FEATURES), 0.0),
    "total_moment": ArraySection(at.TOTAL_MOMENT, (at.METRICS,), 0.0),
    "start": ArraySection(at.START, (at.RANK, at.FEATURES), 0.0),
    "class_count": ArraySection(at.CLASS_COUNT, (at.CLASSES,), 0.0),
    "class_weight": ArraySection(at.CLASS_WEIGHT, (at.CLASSES, at.FEATURES), 0.0),
    "class_mean": ArraySection(at.CLASS_MEAN, (at.CLASSES, at.FEATURES), 0.0),
    "class_variance": ArraySection(at.CLASS_VARIANCE, (at.CLASSES, at.FEATURES), 0.0),
    "buffer_x": ArraySection(at.BUFFER_X, (at.BUFFER, at.FEATURES), np.nan),
    "buffer_margin": ArraySection(at.BUFFER_MARGIN, (at.BUFFER,), 0.0),
    "platt": ArraySection(at.PLATT, (at.PAIRS,), 0.0, (at.PLATT_COUNT,)),
    "label": ArraySection(at.LABEL, (at.SLOTS,), -1),
    "class_size": ArraySection(at.CLASS_SIZE, (at.CLASSES,), 0),
    "buffer_y": ArraySection(at.BUFFER_Y, (at.BUFFER,), 0),
    "buffer_right": ArraySection(at.BUFFER_RIGHT, (at.BUFFER,), -1),
    "buffer_wrong": ArraySection(at.BUFFER_WRONG, (at.BUFFER,), -1),
}
WORK_SIZES = (at.FEATURES, at.CLASSES, at.RANK, at.SLOTS, at.PAIRS)
FIXED = {
    "parameters": (at.PARAMETERS, at.PARAMETER_COUNT),
    "calibration": (at.CALIBRATION, at.CALIBRATION_COUNT),
}


class ModelState:
    """Everything that a model has learnt.

    `floats`, `ints` and `work` are passed to the kernels; `state["w"]` is a view of one section.
    """

    def __init__(self, header: Ints) -> None:
        self.ints: Ints = np.zeros(at.HEADER, np.int64)
        self.ints[: at.SECTIONS] = header[: at.SECTIONS]
        float_size, int_size = 0, at.HEADER
        for name in (*FIXED, *SECTIONS):
            number, shape = self._section(name)
            if number < at.FLOAT_SECTIONS:
                self.ints[at.SECTIONS + number] = float_size
                float_size += math.prod(shape)
            else:
                self.ints[at.SECTIONS + number] = int_size
                int_size += math.prod(shape)
        self.ints = np.concatenate([self.ints, np.zeros(int_size - at.HEADER, np.int64)])
        self.floats: Floats = np.zeros(float_size)
        for name, section in SECTIONS.items():
            self[name][...] = section.start
        self._allocate_work()

    def _allocate_work(self) -> None:
        sizes = [int(self.ints[k]) for k in WORK_SIZES]
        # A bytearray: `struct.pack_into` is twice as fast on it as on an array.
        self.buffer = bytearray(8 * at.work_size(*sizes))
        self.work: Floats = np.frombuffer(self.buffer, np.float64)

    def forget_answer(self) -> None:
        """Drop the cached prediction, see `kernels.answers`."""
        sizes = [int(self.ints[k]) for k in (at.FEATURES, at.CLASSES, at.RANK, at.SLOTS)]
        self.work[at.answer_start(*sizes)] = 0.0

    def _section(self, name: str) -> tuple[int, tuple[int, ...]]:
        """Return number and shape of a section."""
        if name in FIXED:
            number, length = FIXED[name]
            return number, (length,)
        section = SECTIONS[name]
        sizes = tuple(int(self.ints[size]) for size in section.sizes)
        return section.number, sizes + section.columns

    def __getitem__(self, name: str) -> Any:
        number, shape = self._section(name)
        data = self.floats if number < at.FLOAT_SECTIONS else self.ints
        start = int(self.ints[at.SECTIONS + number])
        return data[start : start + math.prod(shape)].reshape(shape)

    def size(self, which: int) -> int:
        """Return a size, switch or counter of the header, see `layout`."""
        return int(self.ints[which])

    def resized(self, sizes: dict[int, int]) -> ModelState:
        """Return a copy with larger capacities; new entries have their initial value."""
        header = self.ints[: at.SECTIONS].copy()
        for which, value in sizes.items():
            header[which] = value
        larger = ModelState(header)
        for name in (*FIXED, *SECTIONS):
            old = self[name]
            larger[name][tuple(slice(0, n) for n in old.shape)] = old
        return larger

    def __getstate__(self) -> dict[str, Any]:
        return {"floats": self.floats, "ints": self.ints}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.floats, self.ints = state["floats"], state["ints"]
        self._allocate_work()
