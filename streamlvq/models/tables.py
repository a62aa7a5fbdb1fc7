"""`TableEngine`: named arrays of a classifier without prototypes, and the kernels on them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

from streamlvq.arrays import Array, Floats, Ints, Rows
from streamlvq.errors import SnapshotError
from streamlvq.estimator import StateLimits
from streamlvq.kernels import kernels
from streamlvq.kernels import layout as at

MIN_CLASS_CAPACITY = 4
CLASSES, FEATURES = "classes", "features"  # sizes that grow


class EngineTable(NamedTuple):
    """Shape of one array by the names of its sizes, its type and its initial value."""

    sizes: tuple[str, ...]
    kind: type[np.float64] | type[np.int64] | type[np.int32]
    start: float = 0.0


class TableKernel:
    """Class attribute of an engine: one of its kernels, compiled when it is first asked for.

    In the class, because River would count a compiled function in an instance as memory of it.
    """

    def __init__(self, verb: str, rows: str = "") -> None:
        self._verb, self._rows = verb, rows

    def __set_name__(self, owner: type[Any], name: str) -> None:
        self._name = name

    def __get__(self, engine: object, owner: Any) -> Any:
        module = kernels(owner.module)
        kernel = getattr(module, f"{self._verb}_{owner.module}{self._rows}")
        setattr(owner, self._name, staticmethod(kernel))  # replaces this attribute
        return kernel


class TableEngine:
    """Arrays of a classifier with the operations that learn from vectors and predict them.

    A subclass names its kernel module, whose kernels are `learn_<module>`, `predict_<module>` and
    the same for rows. They take `floats`, `ints`, `work` and all tables.
    """

    module: ClassVar[str]
    tables: ClassVar[Mapping[str, EngineTable]]

    learn_kernel = TableKernel("learn")
    predict_kernel = TableKernel("predict")
    _learn_rows_kernel = TableKernel("learn", "_rows")
    _predict_rows_kernel = TableKernel("predict", "_rows")

    def __init__(self, sizes: Mapping[str, int], floats: Floats, ints: Ints) -> None:
        self.sizes = dict(sizes)
        self.floats, self.ints = floats, ints
        self.arrays: dict[str, Array] = {
            name: _started(self.shape(name), table) for name, table in self.tables.items()
        }
        self._adopt()

    @classmethod
    def shape_of(cls, name: str, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Return the shape of an array for these sizes."""
        return tuple(sizes[size] for size in cls.tables[name].sizes)

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape that an array has now."""
        return self.shape_of(name, self.sizes)

    def _adopt(self) -> None:
        """Make room for a reading and its result, and keep direct references for the hot path."""
        self.ints[at.N_FEATURES] = self.sizes[FEATURES]
        # A bytearray: `struct.pack_into` is twice as fast on it as on an array.
        self.buffer = bytearray(8 * (2 * self.sizes[FEATURES] + 2 * self.sizes[CLASSES] + 1))
        self.work: Floats = np.frombuffer(self.buffer, np.float64)
        self.memory = (self.floats, self.ints, self.work, *self.arrays.values())
        self.classes_changed()

    def _resize(self, which: str, size: int) -> None:
        self.sizes[which] = size
        for name, old in self.arrays.items():
            table = self.tables[name]
            if which in table.sizes:
                larger = _started(self.shape(name), table)
                larger[tuple(slice(0, n) for n in old.shape)] = old
                self.arrays[name] = larger
        self._adopt()

    @property
    def known(self) -> int:
        """Number of classes learnt."""
        return int(self.ints[at.N_CLASSES])

    @property
    def samples(self) -> int:
        """Number of labelled samples learnt."""
        return int(self.ints[at.SAMPLES])

    @property
    def class_capacity(self) -> int:
        """Number of classes that the arrays have room for."""
        return self.sizes[CLASSES]

    def add_features(self, count: int) -> None:
        """Add columns for new features, which were missing so far."""
        self._resize(FEATURES, self.sizes[FEATURES] + count)

    def make_room_for_classes(self, count: int) -> None:
        """Double the class capacity until it holds this many."""
        capacity = room_for(count, self.class_capacity)
        if capacity > self.class_capacity:
            self._resize(CLASSES, capacity)

    def classes_changed(self) -> None:
        """Refresh `probabilities`; call it after a class was added."""
        d = self.sizes[FEATURES]
        self.probabilities = self.work[d : d + self.known]

    def weigh(self, weight: float) -> None:
        """Let the next samples count with this weight."""
        self.floats[kernels(self.module).GIVEN_WEIGHT] = weight

    def learn(self, c: int) -> int:
        """Learn the reading in `buffer`; return 0, or 1 + the index of an infinite feature."""
        status: int = self.learn_kernel(*self.memory, c)
        return status

    def observe(self) -> int:
        """Return a status as `learn` does; a reading without a label teaches nothing."""
        bad = np.flatnonzero(np.abs(self.work[: self.sizes[FEATURES]]) > at.LARGEST_VALUE)
        return int(bad[0]) + 1 if len(bad) else at.DONE

    def learn_rows(
        self,
        rows: Rows,
        classes: Ints,
        before: Rows | None = None,
        weights: Floats | None = None,
    ) -> None:
        """Learn rows in order; they must be free of infinities.

        `before` (rows x classes) receives the probabilities of each sample before it is learnt.
        """
        before = np.empty((0, 0)) if before is None else before
        weights = np.empty(0) if weights is None else weights
        good = rows.shape == (len(classes), self.sizes[FEATURES])
        assert good and len(weights) in (0, len(rows)), "kernels check no bounds"
        address = kernels(self.module).address(f"learn_{self.module}")
        try:
            self._learn_rows_kernel(*self.memory, rows, classes, weights, before, address)
        finally:
            self.weigh(1.0)

    def predict_rows(self, rows: Rows) -> Rows:
        """Return class probabilities, one row per reading."""
        assert rows.shape[1] == self.sizes[FEATURES], "kernels check no bounds"
        out = np.empty((len(rows), self.known))
        self._predict_rows_kernel(*self.memory, np.ascontiguousarray(rows), out)
        return out

    def __getstate__(self) -> dict[str, Any]:
        return {
            "sizes": self.sizes,
            "floats": self.floats,
            "ints": self.ints,
            "arrays": self.arrays,
            "layout": self._layout(),
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        if state.get("layout") != self._layout():
            raise ValueError(
                "expected a model pickled by this version of streamlvq, got one of another version: "
                "move models between versions as snapshots (streamlvq.Snapshot)"
            )
        self.sizes, self.arrays = state["sizes"], state["arrays"]
        self.floats, self.ints = state["floats"], state["ints"]
        self._adopt()

    @classmethod
    def _layout(cls) -> dict[str, tuple[str, ...]]:
        return {name: table.sizes for name, table in cls.tables.items()}


def _started(shape: tuple[int, ...], table: EngineTable) -> Array:
    """Return a table with its initial value."""
    if table.start == 0.0:  # memory that no reading reaches is never touched
        return np.zeros(shape, table.kind)
    return np.full(shape, table.start, table.kind)


def room_for(classes: int, capacity: int = MIN_CLASS_CAPACITY) -> int:
    """Return the capacity, doubled until it holds this many classes."""
    while capacity < classes:
        capacity *= 2
    return capacity


# --- states that are validated before they are believed -------------------------------------------


def check_total(numbers: int, limits: StateLimits) -> None:
    """Raise `SnapshotError` for a model of more numbers than allowed."""
    if numbers > limits.max_numbers:
        raise SnapshotError(
            f"expected a model of at most {limits.max_numbers} numbers, got {numbers}"
        )


def check_tables(
    arrays: Mapping[str, Array], shapes: Mapping[str, tuple[tuple[int, ...], Any]]
) -> None:
    """Raise `SnapshotError` unless arrays have these shapes and types; empty ones are left out."""
    expected = {name for name, (shape, _) in shapes.items() if math.prod(shape)}
    if arrays.keys() != expected:
        missing, others = sorted(expected - arrays.keys()), sorted(arrays.keys() - expected)
        raise SnapshotError(f"expected other arrays: missing {missing}, unknown {others}")
    for name, array in arrays.items():
        shape, kind = shapes[name]
        if array.shape != shape or array.dtype != kind:
            raise SnapshotError(
                f"{name}: expected {np.dtype(kind)} of shape {shape}, "
                f"got {array.dtype} of shape {array.shape}"
            )


def check_numbers(
    arrays: Mapping[str, Array], name: str, low: float, high: float, gaps: bool = False
) -> None:
    """Raise `SnapshotError` unless all numbers of an array are in range (or NaN if `gaps`)."""
    array = arrays.get(name)
    if array is None:
        return
    good = (array >= low) & (array <= high)
    if gaps:
        good |= np.isnan(array)
    if not good.all():
        place = tuple(np.argwhere(~good)[0].tolist())
        raise SnapshotError(
            f"{name}{list(place)}: expected a number from {low:.4g} to {high:.4g}, "
            f"got {array[place]}"
        )


def check_fit(fit: Array) -> None:
    """Raise `SnapshotError` unless these are an exponent and a curvature, see `sharpening`."""
    largest = kernels("sharpening").MAX_LOG_EXPONENT
    check_numbers({"fit": fit[:1]}, "fit", -largest, largest)
    check_numbers({"fit": fit[1:]}, "fit", 0.0, 1e100)


def refuse_without_readings(kind: str, reason: str) -> SnapshotError:
    """Return the error of a model that cannot leave its readings out of a state."""
    return SnapshotError(
        f"expected a model whose state can leave out readings, got a {kind}: {reason}; "
        "save it with readings=True and keep it at home"
    )
