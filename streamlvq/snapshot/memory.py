"""The memory of a model, to arrays and back."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from streamlvq.engine import Design, Engine
from streamlvq.kernels import layout as at
from streamlvq.models.base import LVQClassifier
from streamlvq.snapshot.errors import SnapshotError
from streamlvq.snapshot.verify import (
    LEAST_ROOM,
    NAMES,
    Array,
    Numbers,
    check_arrays,
    check_numbers,
    class_sizes,
    rows_stored,
    shape_of,
    sizes_of,
)
from streamlvq.state import FIXED, SECTIONS, State


def describe_memory(
    model: LVQClassifier, engine: Engine, readings: bool, room: int
) -> tuple[dict[str, Array], Numbers]:
    """Copies of all that a model remembers; without its readings, and unused room, if asked."""
    design, features = derived_design(model, engine.design.seed), len(model.features)
    if replace(engine.design, buffer=design.buffer) != design:
        raise SnapshotError(
            f"expected parameters as they were at the first reading, got others: {model}; those "
            f"that may change are {sorted(model._mutable_attributes)}"
        )
    numbers = _numbers(engine, readings)
    sizes = sizes_of(numbers, design, features) | {at.BUFFER: rows_stored(numbers)}
    arrays = {}
    for name in NAMES:
        shape = shape_of(name, sizes)
        if math.prod(shape):
            arrays[name] = engine.state[name][tuple(slice(0, n) for n in shape)].copy()
    verify(model, design, numbers, arrays, room)
    return arrays, numbers


def _numbers(engine: Engine, readings: bool) -> Numbers:
    size = engine.state.size
    slots, classes = size(at.SLOTS), size(at.CLASSES)
    if not readings:
        classes = max(LEAST_ROOM, engine.known)
        slots = engine.design.room(classes).get(at.SLOTS, max(LEAST_ROOM, size(at.PROTOTYPES)))
    return Numbers(
        slots=slots,
        prototypes=size(at.PROTOTYPES),
        classes=classes,
        buffer=size(at.BUFFER),
        stored=size(at.STORED) if readings else 0,
        samples=size(at.SAMPLES),
        random=size(at.RANDOM),
        seed=engine.design.seed,
    )


def derived_design(model: LVQClassifier, seed: int) -> Design:
    """The design that follows from a model's parameters; nobody else is asked for it."""
    return replace(model._design(), seed=seed)


def verify(
    model: LVQClassifier, design: Design, numbers: Numbers, arrays: dict[str, Array], room: int
) -> None:
    features, known = len(model.features), len(model.classes)
    check_numbers(numbers, design, model.buffer_size, features, known, room)
    check_arrays(arrays, numbers, design, features, known)


def check_memory(
    model: LVQClassifier, numbers: Numbers, arrays: dict[str, Array], room: int
) -> Design:
    """Raise unless `rebuild_memory` would succeed; gives the design."""
    design = derived_design(model, numbers.seed)
    verify(model, design, numbers, arrays, room)
    # Parameters that are too large for kernels raise an `OverflowError`.
    np.array(list(model._parameters().values()), np.float64)
    np.array(list(model._switches().values()), np.int64)
    return design


def rebuild_memory(
    model: LVQClassifier, numbers: Numbers, arrays: dict[str, Array], room: int
) -> Engine:
    """An engine for a model that has its features and classes already; checks everything first."""
    design = check_memory(model, numbers, arrays, room)
    state = State(_header(model, design, numbers, arrays))
    _fill(state, arrays)
    state["class_size"][...] = class_sizes(arrays["label"], numbers.classes)
    engine = Engine.__new__(Engine)
    engine.__setstate__({"design": design, "state": state})
    engine.set_parameters(model._parameters(), model._switches())
    return engine


def _fill(state: State, arrays: dict[str, Array]) -> None:
    """Put arrays into their sections; only the first dimension of a section may have more room."""
    for name, array in arrays.items():
        number = FIXED[name][0] if name in FIXED else SECTIONS[name].number
        section = state.floats if number < at.FLOAT_SECTIONS else state.ints
        start = state.size(at.SECTIONS + number)
        section[start : start + array.size] = array.reshape(-1)


def _header(
    model: LVQClassifier, design: Design, numbers: Numbers, arrays: dict[str, Array]
) -> Array:
    """The sizes, switches and counters of a memory; its sections are placed by `State`."""
    values: dict[int, Any] = sizes_of(numbers, design, len(model.features)) | {
        at.KIND: design.kind,
        at.RULE: design.rule,
        at.PROTOTYPES: numbers.prototypes,
        at.KNOWN: len(model.classes),
        at.STORED: numbers.stored,
        at.INITIAL: design.initial,
        at.STANDARDIZE: design.standardize,
        at.RANDOM: numbers.random,
        at.SAMPLES: numbers.samples,
    }
    if "w" in arrays:
        values[at.GAPS] = np.count_nonzero(np.isnan(arrays["w"][: numbers.prototypes]))
    header = np.zeros(at.SECTIONS, np.int64)
    for which, value in values.items():
        header[which] = value
    return header
