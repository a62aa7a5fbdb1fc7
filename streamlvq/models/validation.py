"""Save an engine to arrays, and restore it from arrays that are validated first.

Kernels check no bounds, so an invalid index would corrupt memory. Sizes are derived wherever
possible, and everything else must lie within what a model could have learnt.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from streamlvq.arrays import Array
from streamlvq.errors import SnapshotError
from streamlvq.estimator import StateLimits, check_between
from streamlvq.kernels import layout as at
from streamlvq.models.engine import ARRAY_SECTIONS, FIXED_SIZES, Engine, ModelSpec, ModelState
from streamlvq.models.parameters import MAX_SAMPLE_WEIGHT
from streamlvq.models.traces import shared_arrays, shared_sizes

if TYPE_CHECKING:
    from streamlvq.models.base import LVQClassifier


MIN_CAPACITY = 4  # initial capacity for prototypes and for classes
MAX_RANDOM = 2**31 - 2
MAX_SAMPLES = 2**53  # samples are also counted in floats
MAX_FLOAT = sys.float_info.max
MAX_NORM = 1.001  # a metric has norm one, up to rounding
MAX_FUSED = 1e6  # a fused metric is a mean over nodes with other feature scales
TEMPERATURES = (0.01, 100.0)
SLOPES, MAX_OFFSET = (-100.0, -0.01), 30.0  # of sigmoids
DERIVED = ("parameters", "class_size", "class_factor")  # from the model's parameters and labels
RANGE_ARRAYS = ("class_low", "class_high")  # left out with the readings, since they are readings
NAMES = tuple(name for name in (*FIXED_SIZES, *ARRAY_SECTIONS) if name not in DERIVED)

ANY, COUNT = (-MAX_FLOAT, MAX_FLOAT), (0.0, MAX_FLOAT)
UNIT, METRIC = (-1.0, 1.0), (-MAX_FUSED, MAX_FUSED)
# Derived from the largest reading, so that a restored model cannot overflow.
VALUE = (-MAX_NORM * at.LARGEST_VALUE, MAX_NORM * at.LARGEST_VALUE)
DEVIATION = (0.0, 2.0 * MAX_NORM * at.LARGEST_VALUE)
SQUARE = (0.0, DEVIATION[1] ** 2)
MAX_INVERSE = 1e162  # 1 / root of the smallest positive float
PROTOTYPE = (-1e6 * at.LARGEST_VALUE, 1e6 * at.LARGEST_VALUE)  # may be pushed beyond all readings
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
    "varies": (0.0, 1.0),
    "still": COUNT,
    "class_count": COUNT,
    "class_weight": COUNT,
    "class_mean": VALUE,
    "class_variance": SQUARE,
    "buffer_x": (-at.LARGEST_VALUE, at.LARGEST_VALUE),
    "buffer_margin": UNIT,
    "buffer_weight": (0.0, MAX_SAMPLE_WEIGHT),
    "class_low": (-at.LARGEST_VALUE, at.LARGEST_VALUE),
    "class_high": (-at.LARGEST_VALUE, at.LARGEST_VALUE),
    "platt": ANY,
}
WITH_GAPS = ("w", "buffer_x", *RANGE_ARRAYS)  # NaN: feature never seen


class StateSizes(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Sizes and counters of a model that do not follow from its parameters and arrays."""

    slots: int  # capacity for prototypes
    prototypes: int
    classes: int  # capacity for classes
    buffer: int  # capacity for rehearsed samples
    stored: int  # samples ever stored in the buffer
    samples: int
    random: int
    seed: int


def all_sizes(sizes: StateSizes, spec: ModelSpec, features: int) -> dict[int, int]:
    """Return every size of the arrays, by its position in `layout`."""
    derived = {
        at.N_FEATURES: features,
        at.METRIC_RANK: spec.rows(features),
        at.PROTOTYPE_CAPACITY: sizes.slots,
        at.METRICS: spec.metrics(sizes.slots),
        at.BUFFER: sizes.buffer,
        at.PAIRS: 0,
    }
    return derived | spec.room(sizes.classes)


def shape_of(name: str, sizes: dict[int, int]) -> tuple[int, ...]:
    if name in FIXED_SIZES:
        return (FIXED_SIZES[name][1],)
    section = ARRAY_SECTIONS[name]
    return (*(sizes[size] for size in section.sizes), *section.columns)


# --- from an engine to arrays and back ------------------------------------------------------------


def save_engine(
    model: LVQClassifier, engine: Engine, readings: bool, limits: StateLimits
) -> tuple[dict[str, Array], StateSizes]:
    """Return copies of all learnt arrays.

    Without `readings` also drop unused capacity, and what single readings leave, see `traces`.
    """
    spec, features = _derived_spec(model, engine.spec.seed), len(model.features)
    if replace(engine.spec, buffer=spec.buffer) != spec:
        raise SnapshotError(
            f"expected the parameters in force at the first reading, got changed ones: {model}; "
            f"only {sorted(model._mutable_attributes)} may change"
        )
    sizes = _current_sizes(engine, readings)
    kept = all_sizes(sizes, spec, features) | {at.BUFFER: rows_stored(sizes)}
    if not readings:
        kept[at.RANGES] = 0
    arrays = {}
    for name in NAMES:
        shape = shape_of(name, kept)
        if math.prod(shape):
            arrays[name] = engine.state[name][tuple(slice(0, n) for n in shape)].copy()
    if not readings:
        sizes = shared_sizes(model, sizes)
        arrays = shared_arrays(model, spec, sizes, arrays)
    _check(model, spec, sizes, arrays, limits)
    return arrays, sizes


def _current_sizes(engine: Engine, readings: bool) -> StateSizes:
    size = engine.state.size
    slots, classes = size(at.PROTOTYPE_CAPACITY), size(at.CLASS_CAPACITY)
    if not readings:
        classes = max(MIN_CAPACITY, engine.known)
        slots = engine.spec.room(classes).get(
            at.PROTOTYPE_CAPACITY, max(MIN_CAPACITY, size(at.N_PROTOTYPES))
        )
    return StateSizes(
        slots=slots,
        prototypes=size(at.N_PROTOTYPES),
        classes=classes,
        buffer=size(at.BUFFER),
        stored=size(at.STORED) if readings else 0,
        samples=size(at.SAMPLES),
        random=size(at.RANDOM),
        seed=engine.spec.seed,
    )


def _derived_spec(model: LVQClassifier, seed: int) -> ModelSpec:
    """Return the spec derived from the model's parameters, never read from a file."""
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


def without_traces(
    model: LVQClassifier, sizes: StateSizes, arrays: Mapping[str, Array], *, same_norms: bool
) -> tuple[dict[str, Array], StateSizes]:
    """Return arrays and sizes of a state as `save_engine` gives them without `readings`."""
    spec = _derived_spec(model, sizes.seed)
    shared = shared_arrays(model, spec, sizes, arrays, same_norms=same_norms)
    return shared, shared_sizes(model, sizes)


def check_engine(
    model: LVQClassifier, sizes: StateSizes, arrays: Mapping[str, Array], limits: StateLimits
) -> ModelSpec:
    """Raise `SnapshotError` unless `restore_engine` would succeed; return the spec."""
    try:
        spec = _derived_spec(model, sizes.seed)
        _check(model, spec, sizes, arrays, limits)
        # Parameters too large for the kernels raise `OverflowError`.
        np.array(list(model._parameters().values()), np.float64)
        np.array(list(model._switches().values()), np.int64)
    except OverflowError as error:
        raise SnapshotError(f"expected parameters that fit into 64 bits, got {error}") from error
    return spec


def restore_engine(
    model: LVQClassifier, sizes: StateSizes, arrays: Mapping[str, Array], limits: StateLimits
) -> Engine:
    """Validate arrays and return an engine for a model with these features and classes."""
    spec = check_engine(model, sizes, arrays, limits)
    state = ModelState(_header(model, spec, sizes, arrays))
    _fill(state, arrays)
    state["class_size"][...] = class_sizes(arrays["label"], sizes.classes)
    if spec.keeps_ranges and "class_low" not in arrays:
        _start_ranges(state)
    engine = Engine.of(spec, state)
    engine.set_parameters(model._parameters(), model._switches())
    engine.floats[at.CLASS_TOTAL] = state["class_count"].sum()
    return engine


def _fill(state: ModelState, arrays: Mapping[str, Array]) -> None:
    """Copy arrays into their sections, which may be longer in the first dimension."""
    for name, array in arrays.items():
        number = FIXED_SIZES[name][0] if name in FIXED_SIZES else ARRAY_SECTIONS[name].number
        section = state.floats if number < at.FLOAT_SECTIONS else state.ints
        start = state.size(at.SECTION_STARTS + number)
        section[start : start + array.size] = array.reshape(-1)


def _start_ranges(state: ModelState) -> None:
    """Let the range of each class be that of its prototypes, until there are readings."""
    count = state.size(at.N_PROTOTYPES)
    labels, w = state["label"][:count], state["w"][:count]
    for c in range(state.size(at.N_CLASSES)):
        state["class_low"][c] = np.fmin.reduce(w[labels == c], axis=0)
        state["class_high"][c] = np.fmax.reduce(w[labels == c], axis=0)


def _header(
    model: LVQClassifier, spec: ModelSpec, sizes: StateSizes, arrays: Mapping[str, Array]
) -> Array:
    """Return the header: sizes, switches and counters, from which `ModelState` lays out sections."""
    values: dict[int, Any] = all_sizes(sizes, spec, len(model.features)) | {
        at.METRIC_KIND: spec.kind,
        at.RULE: spec.rule,
        at.N_PROTOTYPES: sizes.prototypes,
        at.N_CLASSES: len(model.classes),
        at.STORED: sizes.stored,
        at.INITIAL: spec.initial,
        at.STANDARDIZE: spec.standardize,
        at.SPARSE: spec.sparse,
        at.RANDOM: sizes.random,
        at.SAMPLES: sizes.samples,
    }
    if "varies" in arrays:
        earning = (arrays["weight"] < arrays["still"]) & (spec.kind == at.EUCLIDEAN)
        values[at.N_VARYING] = np.count_nonzero(arrays["varies"])
        values[at.ALL_SETTLED] = bool((arrays["varies"] > 0.0).all() and not earning.any())
    if "w" in arrays:
        values[at.GAPS] = np.count_nonzero(np.isnan(arrays["w"][: sizes.prototypes]))
    header = np.zeros(at.SECTION_STARTS, np.int64)
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
    """Raise `SnapshotError` unless sizes fit this number of features and classes."""
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
    if spec.rule == at.RULE_PAIRWISE:  # one prototype per class and pair
        _check_equal("prototypes", sizes.prototypes, known * (known - 1))
        _check_equal("slots", sizes.slots, sizes.classes * (sizes.classes - 1))
        return
    max_prototypes = sizes.slots if known else 0
    check_between("slots", sizes.slots, MIN_CAPACITY, max_numbers)
    check_between("prototypes", sizes.prototypes, known, max_prototypes)


def _check_total(sizes: dict[int, int], max_numbers: int) -> None:
    total = sum(math.prod(shape_of(name, sizes)) for name in (*FIXED_SIZES, *ARRAY_SECTIONS))
    work = (
        sizes[k]
        for k in (at.N_FEATURES, at.CLASS_CAPACITY, at.METRIC_RANK, at.PROTOTYPE_CAPACITY, at.PAIRS)
    )
    total += at.work_size(*work)
    if total > max_numbers:
        raise SnapshotError(f"expected a model of at most {max_numbers} numbers, got {total}")


def _check_equal(what: str, value: int, expected: int) -> None:
    if value != expected:
        raise SnapshotError(f"{what}: expected {expected}, got {value}")


# --- arrays ---------------------------------------------------------------------------------------


def check_arrays(
    arrays: Mapping[str, Array], sizes: StateSizes, spec: ModelSpec, features: int, known: int
) -> None:
    """Raise `SnapshotError` unless names, shapes and values of the arrays fit the model."""
    expected = all_sizes(sizes, spec, features) | {at.BUFFER: rows_stored(sizes)}
    if not arrays.keys() & set(RANGE_ARRAYS):
        expected[at.RANGES] = 0
    check_shapes(arrays, expected)
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
    """Return the number of samples in the buffer."""
    return min(sizes.stored, sizes.buffer)


def check_shapes(arrays: Mapping[str, Array], sizes: dict[int, int]) -> None:
    """Raise `SnapshotError` for missing, unknown or misshapen arrays; empty ones are left out."""
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
    if array.size == 0 or (low <= array.min() and array.max() <= high):  # False for NaN
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
    """Raise unless inverse scales fit the deviations; without standardisation they are 0 to 1."""
    if "inverse" not in arrays:
        return
    if not np.isin(arrays["varies"], (0.0, 1.0)).all():
        raise SnapshotError("varies: expected 0 or 1 for each feature, got other numbers")
    if not spec.standardize:
        _check_bounds("inverse", arrays["inverse"], 0.0, 1.0)
        return
    deviation = np.sqrt(arrays["variance"])
    unit = np.sqrt(deviation) if spec.sparse else deviation
    _check_bounds("inverse x deviation", arrays["inverse"] * unit, 0.0, MAX_NORM)


def _check_labels(
    arrays: Mapping[str, Array], sizes: StateSizes, spec: ModelSpec, known: int
) -> None:
    """Raise unless prototypes and classes match; pairs must be in order."""
    labels, count = arrays["label"], sizes.prototypes
    _check_bounds("label", labels[:count], 0, known - 1)
    _check_bounds("label of a free slot", labels[count:], -1, -1)
    if spec.rule != at.RULE_PAIRWISE:
        missing = set(range(known)) - set(labels[:count].tolist())
        if missing:
            raise SnapshotError(f"label: expected a prototype of each class, got none of {missing}")
    elif not np.array_equal(labels[:count], pair_labels(known)):
        raise SnapshotError("label: expected pairs of classes in their order, got another order")


def pair_labels(known: int) -> Array:
    """Return the labels of all pairs in order; the pairs of a new class come last."""
    pairs = [(low, high) for high in range(1, known) for low in range(high)]
    return np.array(pairs, np.int64).reshape(-1)


def class_sizes(labels: Array, classes: int) -> Array:
    """Return the number of prototypes of each class."""
    return np.bincount(labels[labels >= 0], minlength=classes)


def _check_rehearsal(arrays: Mapping[str, Array], sizes: StateSizes, known: int) -> None:
    if "buffer_y" in arrays:
        _check_bounds("buffer_y", arrays["buffer_y"], 0, known - 1)
        for name in ("buffer_right", "buffer_wrong"):  # -1: not searched yet
            _check_bounds(name, arrays[name], -1, sizes.prototypes - 1)


def _check_sigmoids(platt: Array) -> None:
    _check_bounds("slope of a pair", platt[:, at.PLATT_SLOPE], *SLOPES)
    _check_bounds("offset of a pair", platt[:, at.PLATT_OFFSET], -MAX_OFFSET, MAX_OFFSET)
    _check_bounds("scores of a pair", platt[:, at.PLATT_FIRST :], *COUNT)
    slope, mixed, offset = platt[:, at.PLATT_CURVATURE : at.PLATT_FIRST].T
    _check_bounds("curvature of a pair", slope, *COUNT)
    _check_bounds("curvature of a pair", offset, *COUNT)
    # Otherwise a Newton step would divide by zero or go uphill.
    if np.any(np.abs(mixed) > np.sqrt(slope + 1.0) * np.sqrt(offset + 1.0)):
        raise SnapshotError("curvature of a pair: expected a minimum, got a saddle")
