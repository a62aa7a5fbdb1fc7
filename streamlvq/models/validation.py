"""The arrays of a model to and from its engine, with everything that comes in validated.

Kernels check no bounds: what they take for an index must be one. So sizes are derived wherever
they can be, and everything else is compared with what a model could have learnt by itself.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from streamlvq.engine import Engine, ModelSpec
from streamlvq.errors import SnapshotError
from streamlvq.estimator import Array, StateLimits, check_between
from streamlvq.kernels import layout as at
from streamlvq.state import FIXED, SECTIONS, State

if TYPE_CHECKING:
    from streamlvq.models.base import LVQClassifier

MIN_CAPACITY = 4  # prototypes and classes that a new model has room for
MAX_RANDOM = 2**31 - 2
MAX_SAMPLES = 2**53  # samples are counted in floats as well
MAX_FLOAT = sys.float_info.max
MAX_NORM = 1.001  # a metric has norm one, up to rounding
MAX_FUSED = 1e6  # but one that was fused is a mean over nodes with other feature scales
TEMPERATURES = (0.01, 100.0)
SLOPES, MAX_OFFSET = (-100.0, -0.01), 30.0  # of sigmoids
DERIVED = ("parameters", "class_size")  # from the model's parameters and the labels
NAMES = tuple(name for name in (*FIXED, *SECTIONS) if name not in DERIVED)

ANY, COUNT = (-MAX_FLOAT, MAX_FLOAT), (0.0, MAX_FLOAT)
UNIT, METRIC = (-1.0, 1.0), (-MAX_FUSED, MAX_FUSED)
# What follows from the largest reading, so that whatever is read can go on without overflow.
VALUE = (-MAX_NORM * at.LARGEST, MAX_NORM * at.LARGEST)
DEVIATION = (0.0, 2.0 * MAX_NORM * at.LARGEST)
SQUARE = (0.0, DEVIATION[1] ** 2)
MAX_INVERSE = 1e162  # no deviation is less than the root of the smallest number there is
PROTOTYPE = (-1e6 * at.LARGEST, 1e6 * at.LARGEST)  # they may be pushed beyond all readings
BOUNDS: dict[str, tuple[float, float]] = {
    "calibration": COUNT,
    "mean": VALUE,
    "variance": SQUARE,
    "peak": DEVIATION,
    "weight": COUNT,
    "inverse": (0.0, MAX_INVERSE),
    "w": PROTOTYPE,
    "w_moment": COUNT,
    "usefulness": ANY,
    "wins": COUNT,
    "born": COUNT,
    "rate": COUNT,
    "omega": METRIC,
    "row_moment": COUNT,
    "column_moment": COUNT,
    "total_moment": COUNT,
    "start": METRIC,
    "class_count": COUNT,
    "class_weight": COUNT,
    "class_mean": VALUE,
    "class_variance": SQUARE,
    "buffer_x": (-at.LARGEST, at.LARGEST),
    "buffer_margin": UNIT,
    "platt": ANY,
}
WITH_GAPS = ("w", "buffer_x")  # NaN: never seen


class StateSizes(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Sizes and counters of a model that do not follow from its parameters and arrays."""

    slots: int  # room for prototypes
    prototypes: int
    classes: int  # room for classes
    buffer: int  # room for rehearsed samples
    stored: int  # samples ever put there
    samples: int
    random: int
    seed: int


def all_sizes(sizes: StateSizes, spec: ModelSpec, features: int) -> dict[int, int]:
    """Return every size in the memory, numbered as in `layout`."""
    found = {
        at.FEATURES: features,
        at.RANK: spec.rows(features),
        at.SLOTS: sizes.slots,
        at.METRICS: spec.metrics(sizes.slots),
        at.BUFFER: sizes.buffer,
        at.PAIRS: 0,
    }
    return found | spec.room(sizes.classes)


def shape_of(name: str, sizes: dict[int, int]) -> tuple[int, ...]:
    if name in FIXED:
        return (FIXED[name][1],)
    section = SECTIONS[name]
    return (*(sizes[size] for size in section.sizes), *section.columns)


# --- from an engine to arrays and back ------------------------------------------------------------


def save_engine(
    model: LVQClassifier, engine: Engine, readings: bool, limits: StateLimits
) -> tuple[dict[str, Array], StateSizes]:
    """Copy all that a model has learnt; without readings unused capacity is left out as well."""
    spec, features = _derived_spec(model, engine.spec.seed), len(model.features)
    if replace(engine.spec, buffer=spec.buffer) != spec:
        raise SnapshotError(
            f"expected parameters as they were at the first reading, got others: {model}; those "
            f"that may change are {sorted(model._mutable_attributes)}"
        )
    sizes = _current_sizes(engine, readings)
    kept = all_sizes(sizes, spec, features) | {at.BUFFER: rows_stored(sizes)}
    arrays = {}
    for name in NAMES:
        shape = shape_of(name, kept)
        if math.prod(shape):
            arrays[name] = engine.state[name][tuple(slice(0, n) for n in shape)].copy()
    _check(model, spec, sizes, arrays, limits)
    return arrays, sizes


def _current_sizes(engine: Engine, readings: bool) -> StateSizes:
    size = engine.state.size
    slots, classes = size(at.SLOTS), size(at.CLASSES)
    if not readings:
        classes = max(MIN_CAPACITY, engine.known)
        slots = engine.spec.room(classes).get(at.SLOTS, max(MIN_CAPACITY, size(at.PROTOTYPES)))
    return StateSizes(
        slots=slots,
        prototypes=size(at.PROTOTYPES),
        classes=classes,
        buffer=size(at.BUFFER),
        stored=size(at.STORED) if readings else 0,
        samples=size(at.SAMPLES),
        random=size(at.RANDOM),
        seed=engine.spec.seed,
    )


def _derived_spec(model: LVQClassifier, seed: int) -> ModelSpec:
    """Return the spec that follows from a model's parameters: a file is not asked for it."""
    return replace(model.spec(), seed=seed)


def _check(
    model: LVQClassifier,
    spec: ModelSpec,
    sizes: StateSizes,
    arrays: Mapping[str, Array],
    limits: StateLimits,
) -> None:
    features, known = len(model.features), len(model.classes)
    check_sizes(sizes, spec, model.buffer_size, features, known, limits.max_numbers)
    check_arrays(arrays, sizes, spec, features, known)


def check_engine(
    model: LVQClassifier, sizes: StateSizes, arrays: Mapping[str, Array], limits: StateLimits
) -> ModelSpec:
    """Raise `SnapshotError` unless `restore_engine` would succeed; return the spec."""
    try:
        spec = _derived_spec(model, sizes.seed)
        _check(model, spec, sizes, arrays, limits)
        # Parameters that are too large for kernels raise an `OverflowError`.
        np.array(list(model._parameters().values()), np.float64)
        np.array(list(model._switches().values()), np.int64)
    except OverflowError as error:
        raise SnapshotError(f"expected parameters of ordinary size, got {error}") from error
    return spec


def restore_engine(
    model: LVQClassifier, sizes: StateSizes, arrays: Mapping[str, Array], limits: StateLimits
) -> Engine:
    """Return an engine for a model that has its features and classes; validate everything first."""
    spec = check_engine(model, sizes, arrays, limits)
    state = State(_header(model, spec, sizes, arrays))
    _fill(state, arrays)
    state["class_size"][...] = class_sizes(arrays["label"], sizes.classes)
    engine = Engine.__new__(Engine)
    engine.__setstate__({"spec": spec, "state": state})
    engine.set_parameters(model._parameters(), model._switches())
    return engine


def _fill(state: State, arrays: Mapping[str, Array]) -> None:
    """Put arrays into their sections; only the first dimension of a section may have more room."""
    for name, array in arrays.items():
        number = FIXED[name][0] if name in FIXED else SECTIONS[name].number
        section = state.floats if number < at.FLOAT_SECTIONS else state.ints
        start = state.size(at.SECTIONS + number)
        section[start : start + array.size] = array.reshape(-1)


def _header(
    model: LVQClassifier, spec: ModelSpec, sizes: StateSizes, arrays: Mapping[str, Array]
) -> Array:
    """Return sizes, switches and counters of a memory; `State` places the sections."""
    values: dict[int, Any] = all_sizes(sizes, spec, len(model.features)) | {
        at.KIND: spec.kind,
        at.RULE: spec.rule,
        at.PROTOTYPES: sizes.prototypes,
        at.KNOWN: len(model.classes),
        at.STORED: sizes.stored,
        at.INITIAL: spec.initial,
        at.STANDARDIZE: spec.standardize,
        at.RANDOM: sizes.random,
        at.SAMPLES: sizes.samples,
    }
    if "w" in arrays:
        values[at.GAPS] = np.count_nonzero(np.isnan(arrays["w"][: sizes.prototypes]))
    header = np.zeros(at.SECTIONS, np.int64)
    for which, value in values.items():
        header[which] = value
    return header


# --- sizes and counters ---------------------------------------------------------------------------


def check_sizes(
    sizes: StateSizes,
    spec: ModelSpec,
    buffer_size: int,
    features: int,
    known: int,
    max_numbers: int,
) -> None:
    """Raise unless a model with so many features and classes can have these sizes."""
    check_between("random", sizes.random, 1, MAX_RANDOM)
    check_between("seed", sizes.seed, 0, 2**256)
    check_between("samples", sizes.samples, known, MAX_SAMPLES)
    check_between("classes", sizes.classes, max(MIN_CAPACITY, known), max_numbers)
    _check_prototypes(sizes, spec, known, max_numbers)
    if sizes.buffer not in (0, buffer_size) or sizes.buffer < min(spec.buffer, 1):
        raise SnapshotError(f"buffer: expected {buffer_size}, got {sizes.buffer}")
    check_between("stored", sizes.stored, 0, sizes.samples if sizes.buffer else 0)
    _check_total(all_sizes(sizes, spec, features), max_numbers)


def _check_prototypes(sizes: StateSizes, spec: ModelSpec, known: int, max_numbers: int) -> None:
    if spec.rule == at.RULE_PAIRWISE:  # every class has one in each of its pairs
        _check_equal("prototypes", sizes.prototypes, known * (known - 1))
        _check_equal("slots", sizes.slots, sizes.classes * (sizes.classes - 1))
        return
    most = sizes.slots if known else 0
    check_between("slots", sizes.slots, MIN_CAPACITY, max_numbers)
    check_between("prototypes", sizes.prototypes, known, most)


def _check_total(sizes: dict[int, int], max_numbers: int) -> None:
    total = sum(math.prod(shape_of(name, sizes)) for name in (*FIXED, *SECTIONS))
    work = (sizes[k] for k in (at.FEATURES, at.CLASSES, at.RANK, at.SLOTS, at.PAIRS))
    total += at.work_size(*work)
    if total > max_numbers:
        raise SnapshotError(f"expected a memory of at most {max_numbers} numbers, got {total}")


def _check_equal(what: str, value: int, expected: int) -> None:
    if value != expected:
        raise SnapshotError(f"{what}: expected {expected}, got {value}")


# --- arrays ---------------------------------------------------------------------------------------


def check_arrays(
    arrays: Mapping[str, Array], sizes: StateSizes, spec: ModelSpec, features: int, known: int
) -> None:
    """Raise unless these arrays, and no others, can be the memory of such a model."""
    check_shapes(arrays, all_sizes(sizes, spec, features) | {at.BUFFER: rows_stored(sizes)})
    for name, (low, high) in BOUNDS.items():
        if name in arrays:
            _check_bounds(name, arrays[name], low, high)
    _check_bounds("calibration", arrays["calibration"][: at.CURVATURE], *TEMPERATURES)
    _check_bounds("born", arrays["born"], 0, sizes.samples)
    _check_scales(arrays, spec)
    _check_labels(arrays, sizes, spec, known)
    _check_rehearsal(arrays, sizes, known)
    if spec.rule == at.RULE_PAIRWISE:
        _check_sigmoids(arrays["platt"][: sizes.prototypes // 2])


def rows_stored(sizes: StateSizes) -> int:
    """How many samples the buffer holds."""
    return min(sizes.stored, sizes.buffer)


def check_shapes(arrays: Mapping[str, Array], sizes: dict[int, int]) -> None:
    """What is empty is left out; all else must be there."""
    shapes = {name: shape_of(name, sizes) for name in NAMES}
    expected = {name for name, shape in shapes.items() if math.prod(shape)}
    if arrays.keys() != expected:
        missing, others = sorted(expected - arrays.keys()), sorted(arrays.keys() - expected)
        raise SnapshotError(f"expected other arrays: missing {missing}, unknown {others}")
    for name, array in arrays.items():
        dtype = np.float64 if name in BOUNDS else np.int64
        if array.shape != shapes[name] or array.dtype != dtype:
            raise SnapshotError(
                f"{name}: expected {np.dtype(dtype)} of shape {shapes[name]}, "
                f"got {array.dtype} of shape {array.shape}"
            )


def _check_bounds(name: str, array: Array, low: float, high: float) -> None:
    if array.size == 0 or (low <= array.min() and array.max() <= high):  # false for NaN
        return
    good = (array >= low) & (array <= high)
    if name in WITH_GAPS:
        good |= np.isnan(array)
    if not good.all():
        place = tuple(np.argwhere(~good)[0].tolist())
        raise SnapshotError(
            f"{name}{list(place)}: expected a number from {low:.4g} to {high:.4g}, "
            f"got {array[place]}"
        )


def _check_scales(arrays: Mapping[str, Array], spec: ModelSpec) -> None:
    """A scale is no finer than the deviation; without standardisation all are one."""
    if "inverse" not in arrays:
        return
    if not spec.standardize:
        _check_bounds("inverse", arrays["inverse"], 0.0, 1.0)
        return
    _check_bounds(
        "inverse x deviation", arrays["inverse"] * np.sqrt(arrays["variance"]), 0.0, MAX_NORM
    )


def _check_labels(
    arrays: Mapping[str, Array], sizes: StateSizes, spec: ModelSpec, known: int
) -> None:
    """Every prototype belongs to a class, every class has one; pairs are in their order."""
    labels, count = arrays["label"], sizes.prototypes
    _check_bounds("label", labels[:count], 0, known - 1)
    _check_bounds("label of a free slot", labels[count:], -1, -1)
    if spec.rule != at.RULE_PAIRWISE:
        missing = set(range(known)) - set(labels[:count].tolist())
        if missing:
            raise SnapshotError(f"label: expected a prototype of each class, none of {missing}")
    elif not np.array_equal(labels[:count], pair_labels(known)):
        raise SnapshotError("label: expected pairs of classes in their order, got another order")


def pair_labels(known: int) -> Array:
    """See `streamlvq.kernels.pairwise`: the pairs of a new class come last."""
    pairs = [(low, high) for high in range(1, known) for low in range(high)]
    return np.array(pairs, np.int64).reshape(-1)


def class_sizes(labels: Array, classes: int) -> Array:
    """How many prototypes each class has."""
    return np.bincount(labels[labels >= 0], minlength=classes)


def _check_rehearsal(arrays: Mapping[str, Array], sizes: StateSizes, known: int) -> None:
    if "buffer_y" in arrays:
        _check_bounds("buffer_y", arrays["buffer_y"], 0, known - 1)
        for name in ("buffer_right", "buffer_wrong"):  # -1: not looked for yet
            _check_bounds(name, arrays[name], -1, sizes.prototypes - 1)


def _check_sigmoids(platt: Array) -> None:
    _check_bounds("slope of a pair", platt[:, at.PLATT_SLOPE], *SLOPES)
    _check_bounds("offset of a pair", platt[:, at.PLATT_OFFSET], -MAX_OFFSET, MAX_OFFSET)
    _check_bounds("scores of a pair", platt[:, at.PLATT_FIRST :], *COUNT)
    slope, mixed, offset = platt[:, at.PLATT_CURVATURE : at.PLATT_FIRST].T
    _check_bounds("curvature of a pair", slope, *COUNT)
    _check_bounds("curvature of a pair", offset, *COUNT)
    # Otherwise a Newton step would divide by nothing, or go uphill.
    if np.any(np.abs(mixed) > np.sqrt(slope + 1.0) * np.sqrt(offset + 1.0)):
        raise SnapshotError("curvature of a pair: expected a minimum, got a saddle")
