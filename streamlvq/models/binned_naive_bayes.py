"""`BinnedNaiveBayes`: class frequencies in bins that follow the quantiles of each feature."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import msgspec
import numpy as np

from streamlvq.arrays import Array
from streamlvq.errors import SnapshotError
from streamlvq.estimator import StateLimits, check_between
from streamlvq.kernels import kernels
from streamlvq.kernels import layout as at
from streamlvq.models.base import CompiledClassifier
from streamlvq.models.parameters import ABSENT_VALUES, check_choice, check_range, documented
from streamlvq.models.tables import (
    CLASSES,
    FEATURES,
    EngineTable,
    TableEngine,
    check_fit,
    check_numbers,
    check_tables,
    check_total,
    refuse_without_readings,
    room_for,
)

BINS = "bins"
MAX_BINS = 1024


class BinsSizes(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Counters of the bins that do not follow from parameters and arrays."""

    samples: int


class BinsEngine(TableEngine):
    """Bins and counts of a `BinnedNaiveBayes`."""

    module = "bins"
    tables: ClassVar[Mapping[str, EngineTable]] = {
        "prior": EngineTable((CLASSES,), np.float64),
        "used": EngineTable((FEATURES,), np.int64),
        "lows": EngineTable((FEATURES, BINS), np.float64),
        "highs": EngineTable((FEATURES, BINS), np.float64),
        "masses": EngineTable((FEATURES, BINS), np.float64),
        "counts": EngineTable((FEATURES, BINS, CLASSES), np.float64),
        "present": EngineTable((FEATURES, CLASSES), np.float64),
        "class_count": EngineTable((CLASSES,), np.float64),
    }

    def count_as_zero(self, first: int) -> None:
        """Let the features from column `first` on, just added, have been 0 in all samples so far."""
        tables = self.arrays
        if self.samples:
            tables["used"][first:] = 1  # a bin from 0 to 0
            tables["masses"][first:, 0] = tables["prior"].sum()
            tables["counts"][first:, 0] = tables["present"][first:] = tables["prior"]


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class BinnedNaiveBayes(CompiledClassifier[BinsEngine]):
    """Naive Bayes on bins: how often each class was seen with each value of each feature.

    While a feature has few values, each has a bin of its own; the bins of others follow its
    quantiles: the heaviest is split, the lightest are merged. Counts fade with `half_life`. The
    product of all features' chances is too sure where features depend on each other: its exponent
    is fitted on each sample before it is learnt. Missing features are left out.

    Choose it for many features that each say a little, such as noisy bits, or as a member of
    `LVQCommittee`. Bins begin and end at readings: its state cannot be shared `readings=False`.

    Parameters
    ----------
    {parameters}

    Examples
    --------

    >>> from river import datasets, evaluate, metrics
    >>> import streamlvq

    >>> model = streamlvq.BinnedNaiveBayes()
    >>> score = evaluate.progressive_val_score(datasets.ImageSegments(), model, metrics.Accuracy())
    >>> score.get()
    0.88

    """

    _sizes = BinsSizes
    shareable = False

    bins: int = 24
    half_life: float | None = 500
    absent: str = "missing"

    def _check(self) -> None:
        """Raise `ParameterError` for parameters out of range."""
        owner = type(self).__name__
        check_range(owner, "bins", self.bins, 2, MAX_BINS, whole=True)
        if self.half_life is not None:
            check_range(owner, "half_life", self.half_life, 1)
        check_choice(owner, "absent", self.absent, tuple(ABSENT_VALUES))

    @property
    def _mutable_attributes(self) -> set[str]:
        return {"half_life"}

    def _kept(self) -> float:
        return 1.0 if self.half_life is None else float(0.5 ** (1.0 / self.half_life))

    def _apply_parameters(self) -> None:
        if self._engine is not None:
            self._engine.floats[kernels("bins").KEPT] = self._kept()

    def _all_sizes(self, features: int, classes: int) -> dict[str, int]:
        return {FEATURES: features, CLASSES: room_for(classes), BINS: self.bins}

    def _new_engine(self, features: int, classes: int = 0) -> BinsEngine:
        at_bins = kernels("bins")
        floats = np.zeros(at_bins.BINS_NUMBERS)
        floats[at_bins.UNIT], floats[at_bins.KEPT] = 1.0, self._kept()
        header = np.zeros(at_bins.BINS_HEADER, np.int64)
        engine = BinsEngine(self._all_sizes(features, classes), floats, header)
        engine.weigh(1.0)
        return engine

    def summary(self) -> str:
        """Return in a few words what has been learnt.

        Examples
        --------

        >>> import streamlvq

        >>> model = streamlvq.BinnedNaiveBayes()
        >>> for k in range(100):
        ...     model.learn_one({"heat": float(k), "door": k % 2}, "a" if k < 50 else "b")
        >>> model.summary()
        '2 features with 2 to 24 bins'

        """
        used = [] if self._engine is None else self._engine.arrays["used"].tolist()
        if not used:
            return "no bins yet"
        return f"{len(used)} features with {min(used)} to {max(used)} bins"

    # --- state -----------------------------------------------------------------------------------

    def _save_engine(
        self, engine: BinsEngine, readings: bool, limits: StateLimits
    ) -> tuple[dict[str, Array], BinsSizes]:
        if not readings:
            raise refuse_without_readings(type(self).__name__, "its bins begin and end at readings")
        at_bins, known = kernels("bins"), engine.known
        arrays = {"fit": engine.floats[: at_bins.FIT_NUMBERS]}
        arrays["unit"] = engine.floats[at_bins.UNIT : at_bins.UNIT + 1]
        for name, table in engine.tables.items():
            whole = engine.arrays[name]
            arrays[name] = whole[..., :known] if table.sizes[-1] == CLASSES else whole
        kept = {name: array.copy() for name, array in arrays.items() if array.size}
        if "used" in kept:  # what merged bins left behind
            unused = np.arange(self.bins) >= kept["used"][:, None]
            for name in ("lows", "highs", "masses", "counts"):
                if name in kept:
                    kept[name][unused] = 0.0
        sizes = BinsSizes(samples=engine.samples)
        self._check_engine(sizes, kept, limits)
        return kept, sizes

    def _check_engine(
        self, sizes: BinsSizes, arrays: Mapping[str, Array], limits: StateLimits
    ) -> None:
        features, known = len(self.features), len(self.classes)
        at_bins = kernels("bins")
        check_between("samples", sizes.samples, known, 2**53)
        all_sizes = self._all_sizes(features, known)
        tables = BinsEngine.tables
        check_total(sum(math.prod(BinsEngine.shape_of(name, all_sizes)) for name in tables), limits)
        exact = all_sizes | {CLASSES: known}
        shapes = {
            name: (BinsEngine.shape_of(name, exact), table.kind) for name, table in tables.items()
        }
        check_tables(
            arrays,
            {
                "fit": ((at_bins.FIT_NUMBERS,), np.float64),
                "unit": ((1,), np.float64),
                **shapes,
            },
        )
        check_fit(arrays["fit"])
        check_numbers(arrays, "unit", 1.0, at_bins.LARGEST_UNIT)
        for name in ("prior", "masses", "counts", "present"):
            check_numbers(arrays, name, 0.0, 1e100)
        check_numbers(arrays, "class_count", 1.0, sizes.samples)
        check_numbers(arrays, "used", 0, self.bins)
        for name in ("lows", "highs"):
            check_numbers(arrays, name, -at.LARGEST_VALUE, at.LARGEST_VALUE)
        if "used" in arrays:
            self._check_bins(arrays)

    def _check_bins(self, arrays: Mapping[str, Array]) -> None:
        """Raise unless bins are in order, and a feature with bins was present in a sample."""
        used, lows, highs = arrays["used"], arrays["lows"], arrays["highs"]
        inside = np.arange(self.bins) < used[:, None]
        good = bool(np.all((lows <= highs) | ~inside))
        good = good and bool(np.all((highs[:, :-1] <= lows[:, 1:]) | ~inside[:, 1:]))
        present = arrays["present"].sum(axis=1) if "present" in arrays else np.zeros(len(used))
        if not good or np.any((present > 0.0) != (used > 0)):
            raise SnapshotError("lows, highs: expected bins in order, got others")

    def _restore_engine(
        self, sizes: BinsSizes, arrays: Mapping[str, Array], limits: StateLimits
    ) -> BinsEngine:
        self._check_engine(sizes, arrays, limits)
        at_bins, known = kernels("bins"), len(self.classes)
        engine = self._new_engine(len(self.features), known)
        engine.floats[: at_bins.FIT_NUMBERS] = arrays["fit"]
        engine.floats[at_bins.UNIT] = arrays["unit"][0]
        engine.ints[at.N_CLASSES], engine.ints[at.SAMPLES] = known, sizes.samples
        for name, table in engine.tables.items():
            if name in arrays:
                whole = engine.arrays[name]
                (whole[..., :known] if table.sizes[-1] == CLASSES else whole)[...] = arrays[name]
        engine.classes_changed()
        return engine
