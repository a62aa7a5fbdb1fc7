"""Convert readings (dictionaries, data frames, arrays) to the vectors that kernels work on.

None and NaN mean *missing* and become NaN. A feature that a reading does not mention is missing too,
or zero if the model says so (`absent`). `KernelBatch` and `BatchPart` are how a model,
a window and a rejector share one kernel call over many readings.
"""

from __future__ import annotations

import datetime
import math
import struct
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from streamlvq.arrays import Floats, Ints, Label, Reading, Rows, as_rows
from streamlvq.events import Readings
from streamlvq.kernels.layout import LARGEST_VALUE

EXPECTED_NUMBER = f"expected a finite number of at most {LARGEST_VALUE:g}"


def name_order(names: Iterable[Hashable]) -> list[Hashable]:
    """Sort names of mixed types; the result does not depend on their original order."""
    return sorted(names, key=lambda n: (isinstance(n, str), n if isinstance(n, int) else 0, str(n)))


_TIMES = (datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64)
_CONVERT_TIME = "convert it first, for example to seconds or to the hour of the day"


def to_number(name: Hashable, value: Any) -> float:
    """Return the value of a feature as a float; NaN if it is missing."""
    if value is None:
        return math.nan
    if isinstance(value, _TIMES):
        raise ValueError(
            f"feature {name!r}: expected a number, got the time {value!r}: {_CONVERT_TIME}"
        )
    if isinstance(value, (str, bytes)):
        raise ValueError(f"feature {name!r}: expected a number, got {value!r}: convert it first")
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"feature {name!r}: expected a number, got {value!r}") from error


class ColumnOrder(NamedTuple):
    """Column order that brings an array with these names into the order of a vectorizer."""

    names: tuple[Hashable, ...]
    positions: npt.NDArray[np.int64]  # of the known names among the features
    columns: npt.NDArray[np.int64]  # of these features among the names


_pack_one = struct.Struct("d").pack_into


class Vectorizer:
    """Converter from readings to vectors with a fixed order of features.

    A feature that a reading does not mention has the value `absent`: NaN for missing, or 0. A
    reading of unknown features only says nothing about the known ones: they are missing.

    `width`, `pack` and `pick` are the fast path for a reading with exactly these features:
    `pack(buffer, 0, *pick(reading))`.
    """

    def __init__(self, features: Sequence[Hashable], absent: float = math.nan) -> None:
        self.features = tuple(features)
        self.absent = absent
        self._index = {name: i for i, name in enumerate(self.features)}
        self._familiar: Sequence[Hashable] = self.features  # last names found to be all known
        self._column_order: ColumnOrder | None = None  # of the last names in another order
        _distinct(list(self.features))
        self._make_fast_path()

    def _make_fast_path(self) -> None:
        self.width = len(self.features)
        self._nothing = struct.pack("d", self.absent) * self.width  # a reading without features
        self._unknown = struct.pack("d", math.nan) * self.width
        self.pack = struct.Struct(f"{self.width}d").pack_into
        self.pick: Callable[[Reading], tuple[Any, ...]]
        if self.width == 1:
            only = self.features[0]
            self.pick = lambda x: (x[only],)
        else:
            self.pick = itemgetter(*self.features) if self.features else lambda x: ()

    @staticmethod
    def check_mapping(x: Any) -> None:
        """Raise TypeError unless x is a mapping."""
        if not isinstance(x, Mapping):
            raise TypeError(
                f"expected a dictionary of features, got {x!r}; for a list of values make one with "
                f"dict(zip(names, values))"
            )

    def knows_all(self, names: Sequence[Hashable]) -> bool:
        """Return True if all these features are known; fast for the same names as last time."""
        if names == self._familiar:
            return True
        if all(name in self._index for name in names):
            self._familiar = names
            return True
        return False

    def unknown(self, x: Reading) -> list[Hashable]:
        """Return the unknown features of a reading, sorted."""
        return name_order(name for name in x if name not in self._index)

    def vector(self, x: Reading) -> list[float]:
        """Return the values of a reading slowly; missing ones are NaN, unknown ones ignored."""
        absent = math.nan if self._is_foreign(x) else self.absent
        return [to_number(name, x.get(name, absent)) for name in self.features]

    def _is_foreign(self, names: Collection[Hashable]) -> bool:
        """Return True if there are names, but none that is known."""
        return len(names) > 0 and self._index.keys().isdisjoint(names)

    def fill(self, buffer: bytearray, x: Reading) -> None:
        """Write a reading to the start of a buffer."""
        self.check_mapping(x)
        if len(x) == self.width:
            try:
                self.pack(buffer, 0, *self.pick(x))
            except (KeyError, struct.error, TypeError, OverflowError):
                pass  # other features, None or not a number: take the slow path
            else:
                return
        self._fill_slowly(buffer, x)

    def _fill_slowly(self, buffer: bytearray, x: Reading) -> None:
        """Write the features of a reading one by one, which takes no longer for those it lacks."""
        nothing = self._unknown if self._is_foreign(x) else self._nothing
        buffer[: len(nothing)] = nothing
        index = self._index
        for name, value in x.items():
            column = index.get(name)
            if column is not None:
                try:
                    _pack_one(buffer, 8 * column, value)
                except (struct.error, TypeError, OverflowError):  # None or not a number
                    _pack_one(buffer, 8 * column, to_number(name, value))

    def arrange(self, rows: Rows, names: Sequence[Hashable]) -> Rows:
        """Return columns in the order of the features: others `absent`, unknown ones dropped."""
        names = tuple(names)
        if names == self.features:
            return rows
        order = self._column_order
        if order is None or order.names != names:
            order = self._column_order = self._find_order(names)
        known = rows.take(order.columns, axis=1)
        if len(order.columns) == self.width:
            return known
        absent = math.nan if self._is_foreign(names) else self.absent
        out = np.full((len(rows), self.width), absent)
        out[:, order.positions] = known
        return out

    def _find_order(self, names: tuple[Hashable, ...]) -> ColumnOrder:
        column = {name: k for k, name in enumerate(names)}
        positions = [k for k, name in enumerate(self.features) if name in column]
        columns = [column[self.features[k]] for k in positions]
        return ColumnOrder(names, np.array(positions, np.int64), np.array(columns, np.int64))

    def __reduce__(self) -> tuple[Any, ...]:
        return Vectorizer, (self.features, self.absent)


def dictionary_maker(keys: Sequence[Hashable]) -> Callable[..., dict[Any, float]]:
    """Return a function from values to a dictionary with these keys.

    Generated as one dict display, because that takes half the time of `dict(zip(...))`, which
    would take as long as converting a reading to a vector.
    """
    values = ", ".join(f"v{i}" for i in range(len(keys)))
    entries = ", ".join(f"k{i}: v{i}" for i in range(len(keys)))
    names = {f"k{i}": key for i, key in enumerate(keys)}
    return eval(f"lambda {values}: {{{entries}}}", names)  # type: ignore[no-any-return]


def to_rows(
    X: Any, features: Sequence[Hashable] | None, absent: float = math.nan
) -> tuple[Rows, list[Hashable] | None]:
    """Return a batch as an array and its column names (None if it has none).

    Takes a DataFrame, a sequence of dictionaries, or a two-dimensional array, in which masked values
    are missing. Features that a dictionary does not mention are `absent`.
    """
    if hasattr(X, "columns"):
        return as_rows(_frame_values(X)), _distinct(list(X.columns))
    if not isinstance(X, np.ndarray) and len(X) > 0 and isinstance(X[0], Mapping):
        names = name_order({name for x in X for name in x})
        vectorizer = Vectorizer(names, absent)
        return np.array([vectorizer.vector(x) for x in X], np.float64), names
    _refuse_times(X, features)
    table = X if isinstance(X, np.ndarray) else np.asarray(X)
    if table.dtype.kind not in "biuf" and table.ndim == 2:
        # As objects, not as numpy has converted them: next to text numbers would be text as well.
        objects = X if isinstance(X, np.ndarray) else np.array(X, object)
        table = _numbers_of(objects, features)
    rows = as_rows(table)
    if rows.ndim != 2:
        raise ValueError(f"expected a two-dimensional array, got shape {rows.shape}")
    if features is not None and len(features) != rows.shape[1]:
        raise ValueError(f"expected {rows.shape[1]} feature names, got {len(features)}")
    return rows, None if features is None else _distinct(list(features))


def _frame_values(frame: Any) -> Rows:
    """Return the numbers of a data frame; raises ValueError that names a column without numbers."""
    converted = frame
    for position, (name, dtype) in enumerate(zip(frame.columns, frame.dtypes, strict=True)):
        # Datetimes, durations and periods would become nanoseconds: numbers, but hardly meant so.
        if getattr(dtype, "kind", "") in "mM" or str(dtype).startswith("period"):
            raise ValueError(f"column {name!r}: expected numbers, got {dtype}: {_CONVERT_TIME}")
        if getattr(dtype, "kind", "O") not in "biuf":
            if converted is frame:
                converted = frame.copy(deep=False)
            converted.isetitem(position, _cell_numbers(name, frame.iloc[:, position]))
    values: Rows = converted.to_numpy(dtype=np.float64, na_value=np.nan)
    return values


def _cell_numbers(name: Hashable, column: Any) -> list[float]:
    """Return a column of objects as numbers, as strictly as single readings: text is none."""
    numbers = []
    for row, (value, missing) in enumerate(zip(column, column.isna(), strict=True)):
        try:
            numbers.append(to_number(name, None if missing else value))
        except ValueError as error:
            raise ValueError(
                f"column {name!r}: expected numbers, got {value!r} in row {row}: convert it first"
            ) from error
    return numbers


def _numbers_of(table: npt.NDArray[Any], features: Sequence[Hashable] | None) -> Rows:
    """Return an array of objects as numbers, as strictly as single readings: text is none."""
    names = range(table.shape[1]) if features is None else features
    named = len(names) == table.shape[1]  # else refused later, in other words
    cells: list[list[Any]] = np.ma.filled(table.astype(object), None).tolist()
    return np.array(
        [
            [to_number(names[k] if named else k, value) for k, value in enumerate(row)]
            for row in cells
        ],
        np.float64,
    ).reshape(table.shape)


def _refuse_times(X: Any, features: Sequence[Hashable] | None) -> None:
    """Raise ValueError for an array of datetimes or durations, which numpy would convert."""
    if getattr(getattr(X, "dtype", None), "kind", "") in {"m", "M"}:
        names = "" if features is None else f" for the features {list(features)!r}"
        raise ValueError(f"expected numbers{names}, got {X.dtype}: {_CONVERT_TIME}")


def _distinct(names: list[Hashable]) -> list[Hashable]:
    if len(set(names)) < len(names):
        raise ValueError(f"expected distinct feature names, got {names!r}")
    return names


def refuse_infinities(rows: Rows, names: Sequence[Hashable]) -> None:
    """Raise ValueError if a batch holds a value that is infinite or too large."""
    bad = np.abs(rows) > LARGEST_VALUE
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise ValueError(
            f"feature {names[column]!r} of row {row}: {EXPECTED_NUMBER}, got {rows[row, column]}"
        )


Arrays = tuple[npt.NDArray[Any], ...]

# Placeholders that the kernel never calls or writes to.
NO_ADDRESS = 0
_NO_LOGS = (np.zeros((1, 1, 1)), np.zeros(1, np.int64))
_NO_FILTER = (np.zeros(1, np.int64), np.zeros(1), np.zeros(1, np.int64), np.zeros((1, 1, 1)))
_NO_POOL = (np.zeros((0, 0)), np.zeros(0, np.int64), np.zeros(0, np.int64))
_NO_CERTAINTIES = (np.zeros((4, 1)), np.zeros(1, np.int64))
_NO_NOVELTY = (np.zeros((1, 1, 1)), np.zeros((1, 1)), np.zeros(1, np.int64))


@dataclass(slots=True)
class KernelBatch:
    """Consecutive readings for one kernel call, and its results."""

    readings: Readings
    duplicates: Sequence[bool]  # decided on, but change no state
    learns: bool  # False: the model is fixed; labels only update thresholds
    start: int = 0
    remaining: int = field(init=False)  # readings from `start` on
    # Set for each kernel call:
    rows: slice = field(init=False)  # rows of this call among the readings
    count: int = field(init=False)  # number of these rows
    done: int = field(init=False)  # number of them that the kernel has processed
    classes: Sequence[Label] = field(init=False)  # of the model, see `LVQClassifier.known_labels`
    codes: Ints = field(init=False)
    verdicts: Ints = field(init=False)
    measures: Floats = field(init=False)
    # Addresses of kernels, set by model and rejector:
    predict: Any = field(init=False)
    learn: Any = field(init=False)
    adapt: Any = NO_ADDRESS  # rule of an adaptive threshold
    novelty: Any = NO_ADDRESS  # how strange readings are
    # Set by an integrator with a filter:
    filter_reading: Any = NO_ADDRESS
    learn_filter: Any = NO_ADDRESS
    evidence: Floats = field(init=False)  # see `streamlvq.kernels.filtering`

    def __post_init__(self) -> None:
        self.remaining = len(self.readings) - self.start

    def take(self, count: int) -> None:
        """Select the next `count` rows for a kernel call."""
        self.rows = slice(self.start, self.start + count)
        self.count, self.done = count, 0

    def move_on(self, count: int) -> None:
        """Skip `count` rows that have been processed."""
        self.start += count
        self.remaining -= count


@runtime_checkable
class BatchPart(Protocol):
    """A model, window or rejector that takes part in one kernel call over many rows.

    Optional: a chain with a part that lacks it is processed one reading at a time.
    """

    def rows_ready(self, batch: KernelBatch) -> int:
        """Return how many rows from `batch.start` on the kernel can process."""

    def lend(self, batch: KernelBatch) -> Arrays:
        """Prepare for the rows and return the arrays that the kernel reads and writes.

        A model also sets `batch.predict` and `batch.learn`, a rejector `batch.adapt` and `batch.novelty`.
        """

    def settle(self, batch: KernelBatch, lent: Arrays) -> None:
        """Update the part after the kernel call: capacity, counters, thresholds."""


def no_window(rows: int) -> Arrays:
    """Return the window arrays for a chain without a window."""
    return np.zeros(rows, np.int64), np.zeros(rows, np.int64), *_NO_LOGS, *no_filter()


def no_pool() -> Arrays:
    """Return the arrays of a pool for a model that is none."""
    return _NO_POOL


def no_filter() -> Arrays:
    """Return the filter arrays for a fixed window, or none."""
    return _NO_FILTER


def no_rejection(classes: int, threshold: float = 0.0) -> Arrays:
    """Return the rejection arrays for one fixed threshold for all classes."""
    return np.zeros(5), np.full(classes, threshold), *_NO_CERTAINTIES, *_NO_NOVELTY
