"""Whether numbers and arrays can be the memory of a model.

Kernels look up no bounds: what they take for an index must be one. So sizes are derived wherever
they can be, and everything else is compared with what a model could have come to by itself.
"""

from __future__ import annotations

import math
import sys
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from streamlvq.engine import Design
from streamlvq.kernels import layout as at
from streamlvq.snapshot.errors import SnapshotError
from streamlvq.state import FIXED, SECTIONS

Array = npt.NDArray[Any]

LEAST_ROOM = 4  # slots and classes that a new model has room for
MOST_ROOM = 2**28  # numbers in one model, if nobody says otherwise: 2 GiB
OWN_ROOM = 2**33  # of a model that this program kept for itself
LARGEST_RANDOM = 2**31 - 2
EXACT = 2**53  # samples are counted in floats as well
HIGHEST = sys.float_info.max
NORM = 1.001  # a metric has norm one, up to rounding
FUSED = 1e6  # but one that was fused is a mean over nodes with other feature scales
COLDEST, HOTTEST = 0.01, 100.0  # temperatures
SLOPES, OFFSET = (-100.0, -0.01), 30.0  # of sigmoids
DERIVED = ("parameters", "class_size")  # from the model's parameters and the labels
NAMES = tuple(name for name in (*FIXED, *SECTIONS) if name not in DERIVED)

ANY, COUNT, UNIT, METRIC = (-HIGHEST, HIGHEST), (0.0, HIGHEST), (-1.0, 1.0), (-FUSED, FUSED)
# What follows from the largest reading, so that whatever is read can go on without overflow.
VALUE = (-NORM * at.LARGEST, NORM * at.LARGEST)
DEVIATION = (0.0, 2.0 * NORM * at.LARGEST)
SQUARE = (0.0, DEVIATION[1] ** 2)
SHARPEST = 1e162  # no deviation is less than the root of the smallest number there is
PROTOTYPE = (-1e6 * at.LARGEST, 1e6 * at.LARGEST)  # they may be pushed beyond all readings
BOUNDS: dict[str, tuple[float, float]] = {
    "calibration": COUNT,
    "mean": VALUE,
    "variance": SQUARE,
    "peak": DEVIATION,
    "weight": COUNT,
    "inverse": (0.0, SHARPEST),
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


class Numbers(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What a model's memory holds besides arrays and what follows from the parameters."""

    slots: int  # room for prototypes
    prototypes: int
    classes: int  # room for classes
    buffer: int  # room for rehearsed samples
    stored: int  # samples ever put there
    samples: int
    random: int
    seed: int


def sizes_of(numbers: Numbers, design: Design, features: int) -> dict[int, int]:
    """The size of everything in the memory, as `layout` numbers them."""
    sizes = {
        at.FEATURES: features,
        at.RANK: design.rows(features),
        at.SLOTS: numbers.slots,
        at.METRICS: design.metrics(numbers.slots),
        at.BUFFER: numbers.buffer,
        at.PAIRS: 0,
    }
    return sizes | design.room(numbers.classes)


def shape_of(name: str, sizes: dict[int, int]) -> tuple[int, ...]:
    if name in FIXED:
        return (FIXED[name][1],)
    section = SECTIONS[name]
    return (*(sizes[size] for size in section.sizes), *section.columns)


# --- sizes and counters ---------------------------------------------------------------------------


def check_numbers(
    numbers: Numbers, design: Design, buffer_size: int, features: int, known: int, room: int
) -> None:
    """Raise unless a model with so many features and classes can have these numbers."""
    between("random", numbers.random, 1, LARGEST_RANDOM)
    between("seed", numbers.seed, 0, 2**256)
    between("samples", numbers.samples, known, EXACT)
    between("classes", numbers.classes, max(LEAST_ROOM, known), room)
    _check_prototypes(numbers, design, known, room)
    if numbers.buffer not in (0, buffer_size) or numbers.buffer < min(design.buffer, 1):
        raise SnapshotError(f"buffer: expected {buffer_size}, got {numbers.buffer}")
    between("stored", numbers.stored, 0, numbers.samples if numbers.buffer else 0)
    _check_room(sizes_of(numbers, design, features), room)


def _check_prototypes(numbers: Numbers, design: Design, known: int, room: int) -> None:
    if design.rule == at.RULE_PAIRWISE:  # every class has one in each of its pairs
        exactly("prototypes", numbers.prototypes, known * (known - 1))
        exactly("slots", numbers.slots, numbers.classes * (numbers.classes - 1))
        return
    most = numbers.slots if known else 0
    between("slots", numbers.slots, LEAST_ROOM, room)
    between("prototypes", numbers.prototypes, known, most)


def _check_room(sizes: dict[int, int], most: int) -> None:
    room = sum(math.prod(shape_of(name, sizes)) for name in (*FIXED, *SECTIONS))
    work = (sizes[k] for k in (at.FEATURES, at.CLASSES, at.RANK, at.SLOTS, at.PAIRS))
    room += at.work_size(*work)
    if room > most:
        raise SnapshotError(f"expected a memory of at most {most} numbers, got {room}")


def between(what: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise SnapshotError(f"{what}: expected {low} to {high}, got {value}")


def exactly(what: str, value: int, expected: int) -> None:
    if value != expected:
        raise SnapshotError(f"{what}: expected {expected}, got {value}")


# --- arrays ---------------------------------------------------------------------------------------


def check_arrays(
    arrays: dict[str, Array], numbers: Numbers, design: Design, features: int, known: int
) -> None:
    """Raise unless these arrays, and no others, can be the memory of such a model."""
    check_shapes(arrays, sizes_of(numbers, design, features) | {at.BUFFER: rows_stored(numbers)})
    for name, (low, high) in BOUNDS.items():
        if name in arrays:
            _check_bounds(name, arrays[name], low, high)
    _check_bounds("calibration", arrays["calibration"][: at.CURVATURE], COLDEST, HOTTEST)
    _check_bounds("born", arrays["born"], 0, numbers.samples)
    _check_scales(arrays, design)
    _check_labels(arrays, numbers, design, known)
    _check_rehearsal(arrays, numbers, known)
    if design.rule == at.RULE_PAIRWISE:
        _check_sigmoids(arrays["platt"][: numbers.prototypes // 2])


def rows_stored(numbers: Numbers) -> int:
    """How many samples the buffer holds."""
    return min(numbers.stored, numbers.buffer)


def check_shapes(arrays: dict[str, Array], sizes: dict[int, int]) -> None:
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


def _check_scales(arrays: dict[str, Array], design: Design) -> None:
    """A scale is no finer than the deviation; without standardisation all are one."""
    if "inverse" not in arrays:
        return
    if not design.standardize:
        _check_bounds("inverse", arrays["inverse"], 0.0, 1.0)
        return
    _check_bounds("inverse x deviation", arrays["inverse"] * np.sqrt(arrays["variance"]), 0.0, NORM)


def _check_labels(arrays: dict[str, Array], numbers: Numbers, design: Design, known: int) -> None:
    """Every prototype belongs to a class, every class has one; pairs are in their order."""
    labels, count = arrays["label"], numbers.prototypes
    _check_bounds("label", labels[:count], 0, known - 1)
    _check_bounds("label of a free slot", labels[count:], -1, -1)
    if design.rule != at.RULE_PAIRWISE:
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


def _check_rehearsal(arrays: dict[str, Array], numbers: Numbers, known: int) -> None:
    if "buffer_y" in arrays:
        _check_bounds("buffer_y", arrays["buffer_y"], 0, known - 1)
        for name in ("buffer_right", "buffer_wrong"):  # -1: not looked for yet
            _check_bounds(name, arrays[name], -1, numbers.prototypes - 1)


def _check_sigmoids(platt: Array) -> None:
    _check_bounds("slope of a pair", platt[:, at.PLATT_SLOPE], *SLOPES)
    _check_bounds("offset of a pair", platt[:, at.PLATT_OFFSET], -OFFSET, OFFSET)
    _check_bounds("scores of a pair", platt[:, at.PLATT_FIRST :], *COUNT)
    slope, mixed, offset = platt[:, at.PLATT_CURVATURE : at.PLATT_FIRST].T
    _check_bounds("curvature of a pair", slope, *COUNT)
    _check_bounds("curvature of a pair", offset, *COUNT)
    # Otherwise a Newton step would divide by nothing, or go uphill.
    if np.any(np.abs(mixed) > np.sqrt(slope + 1.0) * np.sqrt(offset + 1.0)):
        raise SnapshotError("curvature of a pair: expected a minimum, got a saddle")
