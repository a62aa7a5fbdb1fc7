"""`LVQClassifier`, the base of models with prototypes, on what all compiled models share."""

from __future__ import annotations

import abc
import secrets
import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, Self, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
from river import base

from streamlvq.arrays import Array, Bools, Floats, Ints, Label, Reading, Rows, as_rows
from streamlvq.errors import ParameterError, SnapshotError
from streamlvq.estimator import (
    DEFAULT_LIMITS,
    EstimatorState,
    ModelLock,
    StateLimits,
    check_distinct,
    check_ours,
    construct,
    exclusive,
    parameters_of,
    unknown_first,
    without_numpy,
)
from streamlvq.kernels import kernels
from streamlvq.kernels import layout as at
from streamlvq.models import insight
from streamlvq.models.engine import Engine, ModelSpec, train
from streamlvq.models.parameters import (
    ABSENT_VALUES,
    MAX_SAMPLE_WEIGHT,
    TEXTBOOK,
    check_choice,
    check_class_weight,
    check_range,
    check_weight,
)
from streamlvq.models.validation import (
    StateSizes,
    check_engine,
    restore_engine,
    save_engine,
    without_traces,
)
from streamlvq.models.vectorizer import (
    EXPECTED_NUMBER,
    NO_ADDRESS,
    Arrays,
    KernelBatch,
    Vectorizer,
    dictionary_maker,
    name_order,
    no_pool,
    refuse_infinities,
    to_number,
    to_rows,
)
from streamlvq.records import Explanation, Prototype

if TYPE_CHECKING:
    import pandas as pd


# --- River's mini-batches on arrays --------------------------------------------------------------


class ArrayClassifier(base.MiniBatchClassifier):  # type: ignore[misc]
    """River's mini-batch interface for classifiers that learn and predict arrays."""

    shareable: ClassVar[bool] = True  # False if it is made of readings, which no fleet may see

    @property
    def _multiclass(self) -> bool:
        return True

    @property
    def mutable_parameters(self) -> frozenset[str]:
        """Parameters that may still be changed once the model has started learning."""
        return frozenset(self._mutable_attributes)

    @property
    @abc.abstractmethod
    def classes(self) -> tuple[Label, ...]:
        """Labels seen so far, in order of first appearance."""

    @abc.abstractmethod
    def learn_array(
        self, X: Any, y: Any, features: Sequence[Hashable] | None = None, *, w: Any = None
    ) -> None:
        """Learn the rows of an array in order, with weights w."""

    @abc.abstractmethod
    def predict_proba_array(self, X: Any, features: Sequence[Hashable] | None = None) -> Rows:
        """Return class probabilities: one row per reading, one column per entry of `classes`."""

    def predict_array(self, X: Any, features: Sequence[Hashable] | None = None) -> npt.NDArray[Any]:
        """Return the most probable class of each row."""
        probabilities = self.predict_proba_array(X, features)
        labels_seen = list(self.classes)
        if not labels_seen:
            return np.full(len(probabilities), None)
        types = {type(label) for label in labels_seen}
        if len(types) == 1 and types <= {str, int, float, bool}:
            labels = np.array(labels_seen)
        else:  # numpy would convert mixed labels to one type
            labels = np.empty(len(labels_seen), object)
            for code, label in enumerate(labels_seen):
                labels[code] = label
        return np.asarray(labels[probabilities.argmax(axis=1)])

    def learn_many(self, X: pd.DataFrame, y: pd.Series, w: Any = None) -> None:
        """Learn a data frame row by row, with weights w if given (one per row or one for all)."""
        self.learn_array(X, y, w=w)

    def predict_proba_many(self, X: pd.DataFrame) -> pd.DataFrame:
        """Return class probabilities, one column per class."""
        import pandas as pd  # noqa: PLC0415

        return pd.DataFrame(self.predict_proba_array(X), index=X.index, columns=list(self.classes))

    def predict_many(self, X: pd.DataFrame) -> pd.Series:
        """Return the most probable class of each row."""
        import pandas as pd  # noqa: PLC0415

        labels = self.predict_array(X)
        return pd.Series(list(labels), index=X.index, dtype=None if len(labels) else object)


# --- the base of all models ----------------------------------------------------------------------

SPARSE_MIN_READINGS = 200  # learnt before a model says that they look sparse
SPARSE_WARNING = (
    "{0}: most readings have less than half of the features, and a feature that a reading does not "
    "mention counts as missing: the model knows nothing about it. If it is zero (counts of words, "
    'one-hot codes), use {0}(absent="zero")'
)


class CompiledEngine(Protocol):
    """Arrays of a model and the kernels that work on them, as `CompiledClassifier` uses them.

    `buffer` starts with the reading; `work` is a view of it. Kernels take `memory` (and the class
    to learn) and return 0, or 1 + the index of a feature beyond `LARGEST_VALUE`.
    """

    buffer: bytearray
    work: Floats
    memory: tuple[Any, ...]
    probabilities: Floats
    learn_kernel: Any
    predict_kernel: Any

    @property
    def known(self) -> int:
        """Number of classes learnt."""

    @property
    def samples(self) -> int:
        """Number of labelled samples learnt."""

    @property
    def class_capacity(self) -> int:
        """Number of classes that the arrays have room for."""

    def add_features(self, count: int) -> None:
        """Add columns for new features, which were missing so far."""

    def count_as_zero(self, first: int) -> None:
        """Let the features from column `first` on, just added, have been 0 in all readings so far."""

    def make_room_for_classes(self, count: int) -> None:
        """Enlarge the arrays until they hold this many classes."""

    def classes_changed(self) -> None:
        """Refresh `probabilities`; call it after a class was added."""

    def weigh(self, weight: float) -> None:
        """Let the next samples count with this weight."""

    def learn(self, c: int) -> int:
        """Learn the reading in `buffer`; return a status."""

    def observe(self) -> int:
        """Take notice of the unlabelled reading in `buffer`; return a status."""

    def learn_rows(
        self,
        rows: Rows,
        classes: Ints,
        before: Rows | None = None,
        weights: Floats | None = None,
    ) -> None:
        """Learn rows in order; `before` receives the probabilities of each before it is learnt."""

    def predict_rows(self, rows: Rows) -> Rows:
        """Return class probabilities, one row per reading."""


E = TypeVar("E", bound=CompiledEngine)


class CompiledClassifier(ArrayClassifier, Generic[E]):
    """Base of classifiers on an engine: readings to vectors, labels to codes, states by name.

    A subclass is a dataclass with the parameter `absent`. It says how its engine is made, checked,
    saved and restored.
    """

    absent: str
    has_relsim: ClassVar[bool] = False  # True if a single prototype decides
    _sizes: ClassVar[type[msgspec.Struct]]  # of the engine, in a state

    def __post_init__(self) -> None:
        self._lock = ModelLock()
        self._engine: E | None = None
        self._check()
        self._vectorizer = Vectorizer((), ABSENT_VALUES[self.absent])
        self._sparse_readings: int | None = 0  # learnt with few features; None: the user was told
        self._labels: list[Label] = []
        self._codes: dict[Label, int] = {}
        self._by_label: Callable[..., dict[Label, float]] | None = None
        self._column_names: list[Hashable] | None = None

    # --- what a subclass adds --------------------------------------------------------------------

    @abc.abstractmethod
    def _check(self) -> None:
        """Raise `ParameterError` for parameters out of range."""

    @property
    @abc.abstractmethod
    def _mutable_attributes(self) -> set[str]: ...

    @abc.abstractmethod
    def _new_engine(self, features: int) -> E:
        """Return the engine of a model that has learnt nothing."""

    @abc.abstractmethod
    def _apply_parameters(self) -> None:
        """Let changed parameters take effect; raises before anything has changed."""

    @abc.abstractmethod
    def _save_engine(self, engine: E, readings: bool, limits: StateLimits) -> tuple[Any, Any]:
        """Return copies of the arrays, and their sizes."""

    @abc.abstractmethod
    def _check_engine(self, sizes: Any, arrays: Mapping[str, Array], limits: StateLimits) -> object:
        """Raise `SnapshotError` unless `_restore_engine` would succeed."""

    @abc.abstractmethod
    def _restore_engine(self, sizes: Any, arrays: Mapping[str, Array], limits: StateLimits) -> E:
        """Validate the arrays of a state and return an engine with them."""

    def _weigh_classes(self, engine: E) -> None:
        """Give the classes the weights that the user asked for, if any."""

    # --- parameters ------------------------------------------------------------------------------

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute; mutable parameters take effect at once, invalid values change nothing."""
        if "_engine" not in self.__dict__ or name not in self._mutable_attributes:
            object.__setattr__(self, name, value)
            return
        self._mutate(name, value)

    def mutate(self, new_attrs: dict[str, Any]) -> None:
        """Change mutable parameters: all of them or, if one is refused, none."""
        ordered = unknown_first(new_attrs, self.mutable_parameters)
        if self.mutable_parameters.issuperset(ordered):
            type(self)(**{**parameters_of(self), **ordered})  # refuses before anything changes
        super().mutate(ordered)

    @exclusive
    def _mutate(self, name: str, value: Any) -> None:
        before = getattr(self, name)
        object.__setattr__(self, name, value)
        try:
            self._check()
            self._apply_parameters()
        except Exception:
            object.__setattr__(self, name, before)
            raise

    # --- features and classes --------------------------------------------------------------------

    @property
    def features(self) -> tuple[Hashable, ...]:
        """Features seen so far, in the order of the model's columns."""
        return self._vectorizer.features

    @property
    def classes(self) -> tuple[Label, ...]:
        """Labels seen so far, in order of first appearance."""
        return tuple(self._labels)

    @property
    def samples(self) -> int:
        """Number of labelled samples learnt so far."""
        return 0 if self._engine is None else self._engine.samples

    def summary(self) -> str:
        """Return in a few words what has been learnt."""
        return f"{self.samples} samples"

    @property
    def known_labels(self) -> list[Label]:
        """The model's own list of classes; replaced by a new list object when a class is added."""
        return self._labels

    @property
    def allocated(self) -> int:
        """How many numbers the model has memory for."""
        return 0 if self._engine is None else sum(each.size for each in self._engine.memory)

    @property
    def engine(self) -> E | None:
        """Arrays of the model and the kernels that work on them; None before the first reading."""
        return self._engine

    def _admit(self, names: Sequence[Hashable]) -> E:
        """Add new features; build the engine at the first reading."""
        if self._engine is None:
            self._engine = self._new_engine(len(names))
            self._vectorizer = Vectorizer(names, ABSENT_VALUES[self.absent])
        elif names:
            self._engine.add_features(len(names))
            if self.absent == "zero":
                self._engine.count_as_zero(len(self.features))
            self._vectorizer = Vectorizer((*self.features, *names), ABSENT_VALUES[self.absent])
        return self._engine

    def _classes_changed(self, engine: E) -> None:
        self._labels = list(self._codes)[: engine.known]
        self._codes = {label: code for code, label in enumerate(self._labels)}
        self._by_label = None  # rebuilt on demand: many classes may follow
        engine.classes_changed()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_by_label"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._by_label = None

    def _prepare(self, x: Reading) -> E:
        """Copy a reading into the engine; add its new features once its values have been checked."""
        engine = self._engine
        self._vectorizer.check_mapping(x)
        new = self._vectorizer.unknown(x)
        if new:
            _refuse_bad_reading(x)
        if new or engine is None:
            engine = self._admit(new)
        self._vectorizer.fill(engine.buffer, x)
        if self._sparse_readings is not None and 2 * len(x) < self._vectorizer.width:
            self._note_sparse_reading()
        return engine

    def _note_sparse_reading(self) -> None:
        """Warn once if most readings lack most features, which usually means that they are sparse."""
        if self.absent == "zero" or self._sparse_readings is None:
            return
        self._sparse_readings += 1
        readings = self.samples
        if readings >= SPARSE_MIN_READINGS and 2 * self._sparse_readings > readings:
            self._sparse_readings = None
            warnings.warn(SPARSE_WARNING.format(type(self).__name__), stacklevel=4)

    # --- River: one reading at a time ------------------------------------------------------------

    def learn_one(self, x: Reading, y: Label, w: float = 1.0) -> None:
        """Learn a labelled reading.

        Parameters
        ----------
        x
            The value of each feature.
        y
            Its label.
        w
            Weight of the reading: its gradient counts w times, now and whenever it is rehearsed, and
            so it does in the fit of probabilities. 0 learns nothing. Feature scales and class
            statistics count readings, whatever they weigh.

        """
        try:
            code = self._codes.get(y)
        except TypeError as error:
            raise TypeError(f"expected a hashable label, got {y!r}") from error
        if code is None or w != 1.0:
            self._learn_with_weight(x, y, w)
            return
        lock = self._lock  # `exclusive` inlined, see below
        lock.acquire()
        try:
            engine, vectorizer = self._engine, self._vectorizer
            # `_prepare` inlined for a reading with exactly the known features: the call would cost a
            # tenth of the total time.
            if engine is not None and len(x) == vectorizer.width:
                try:
                    vectorizer.pack(engine.buffer, 0, *vectorizer.pick(x))
                except Exception:  # the slow path raises a precise error
                    engine = self._prepare(x)
            else:
                engine = self._prepare(x)
            status = engine.learn_kernel(*engine.memory, code)
            if status:
                if status == at.NEEDS_SLOT:
                    status = engine.learn(code)
                if status:
                    raise self._infinite(status)
        finally:
            lock.release()

    @exclusive
    def _learn_with_weight(self, x: Reading, y: Label, w: float) -> None:
        """Learn a reading of a new class, or one whose weight is not 1."""
        check_weight(w)
        if y not in self._codes:
            _refuse_label(y)
        if w == 0.0:
            return
        if w != 1.0:
            self._prepare(x).weigh(w)
        try:
            if y in self._codes:
                self.learn_one(x, y)
            else:
                self._learn_new_class(x, y)
        finally:
            if self._engine is not None:
                self._engine.weigh(1.0)

    def _learn_new_class(self, x: Reading, y: Label) -> None:
        if isinstance(x, Mapping):
            _refuse_bad_reading(x)
        code = len(self._labels)
        engine = self._prepare(x)
        if code >= engine.class_capacity:
            engine.make_room_for_classes(code + 1)
            self._vectorizer.fill(engine.buffer, x)
        status = engine.learn(code)
        if status:
            raise self._infinite(status)
        self._codes[y] = code
        self._weigh_classes(engine)
        self._classes_changed(engine)

    @exclusive
    def observe_one(self, x: Reading) -> None:
        """Update the feature scales with an unlabelled reading."""
        status = self._prepare(x).observe()
        if status:
            raise self._infinite(status)

    def _infinite(self, status: int) -> ValueError:
        name = self.features[status - 1]
        engine = self._engine
        value = engine.work[status - 1] if engine else float("inf")
        return ValueError(f"feature {name!r}: {EXPECTED_NUMBER}, got {value}")

    def _answer(self, x: Reading) -> E | None:
        """Compute the probabilities of a reading in the engine; None before anything is learnt."""
        engine, vectorizer = self._engine, self._vectorizer
        if engine is None or not self._labels:
            return None
        try:
            if len(x) == vectorizer.width:
                vectorizer.pack(engine.buffer, 0, *vectorizer.pick(x))
            else:
                vectorizer.fill(engine.buffer, x)
        except Exception:  # the slow path raises a precise error
            vectorizer.fill(engine.buffer, x)
        status = engine.predict_kernel(*engine.memory)
        if status:
            raise self._infinite(status)
        return engine

    @exclusive
    def predict_labels_one(self, x: Reading) -> tuple[list[Label], Rows] | None:
        """Return labels and an array of their probabilities; None before anything is learnt.

        A faster `predict_proba_one`. Both belong to the model and are valid until its next call.
        """
        engine = self._answer(x)
        return None if engine is None else (self._labels, engine.probabilities)

    @exclusive
    def predict_vector(self, values: Floats) -> Rows | None:
        """Return probabilities of a reading given as an array in the order of `features`.

        The array belongs to the model until its next call; None before anything is learnt.
        """
        engine = self._engine
        if engine is None or not self._labels:
            return None
        engine.work[: len(self.features)] = values
        status = engine.predict_kernel(*engine.memory)
        if status:
            raise self._infinite(status)
        return engine.probabilities

    def vector(self, x: Reading) -> list[float]:
        """Return the values of a reading in the order of `features`, NaN where missing."""
        return self._vectorizer.vector(x)

    def predict_proba_one(self, x: Reading) -> dict[Label, float]:
        """Return the probability of every class learnt so far."""
        lock = self._lock
        lock.acquire()
        try:
            engine, vectorizer = self._engine, self._vectorizer
            # `_answer` inlined, see `learn_one`.
            try:
                if len(x) == vectorizer.width:
                    vectorizer.pack(engine.buffer, 0, *vectorizer.pick(x))  # type: ignore[union-attr]
                    if not engine.predict_kernel(*engine.memory):  # type: ignore[union-attr]
                        return self._by_label(*engine.probabilities.tolist())  # type: ignore[union-attr, misc]
            except Exception:  # nothing learnt, a new class or odd values: take the slow path
                pass
            engine = self._answer(x)
            if engine is None:
                return {}
            if self._by_label is None:
                self._by_label = dictionary_maker(self._labels)
            return self._by_label(*engine.probabilities.tolist())
        finally:
            lock.release()

    def predict_one(self, x: Reading) -> Label | None:
        """Return the most probable class; None before anything is learnt."""
        lock = self._lock
        lock.acquire()
        try:
            engine = self._answer(x)
            if engine is None:
                return None
            return self._labels[int(engine.probabilities.argmax())]
        finally:
            lock.release()

    # --- arrays ----------------------------------------------------------------------------------

    def column_names(self, width: int, names: Sequence[Hashable] | None = None) -> list[Hashable]:
        """Return the feature names of an array's columns: `names` if given, else the model's."""
        if names is not None:
            return list(names)
        if self._column_names is not None and len(self._column_names) == width:
            return self._column_names
        if self._engine is None:
            return list(range(width))
        if width != self._vectorizer.width:
            raise ValueError(
                f"expected {self._vectorizer.width} columns, in the order of `features`, "
                f"got {width}; name them with features=[...]"
            )
        return list(self.features)

    def _admit_rows(self, X: Any, features: Sequence[Hashable] | None) -> tuple[E, Rows]:
        rows, given = to_rows(X, features, ABSENT_VALUES[self.absent])
        names = self.column_names(rows.shape[1], given)
        refuse_infinities(rows, names)
        new = name_order(set(names) - set(self.features))
        if self._engine is None or new:
            self._admit(new)
        self._column_names = None if tuple(names) == self.features else names
        assert self._engine is not None
        return self._engine, self._vectorizer.arrange(rows, names)

    def _admit_samples(
        self, X: Any, y: Any, features: Sequence[Hashable] | None
    ) -> tuple[E, Rows, npt.NDArray[np.int64]]:
        """Check labelled rows, add their features and classes; return engine, rows and codes.

        Changes nothing unless all labels and values are valid.
        """
        if getattr(y, "ndim", 1) != 1:
            raise ValueError(f"expected one label for each row, got labels of shape {y.shape}")
        labels = y.tolist() if hasattr(y, "tolist") else list(y)
        if len(X) != len(labels):
            raise ValueError(f"expected as many labels as rows ({len(X)}), got {len(labels)}")
        if not labels:
            raise ValueError("expected at least one sample, got none")
        codes = dict(self._codes)
        for label in labels:
            if label not in codes:
                _refuse_label(label)
                codes[label] = len(codes)
        engine, rows = self._admit_rows(X, features)
        engine.make_room_for_classes(len(codes))
        self._codes = codes
        self._weigh_classes(engine)
        return engine, rows, np.array([codes[label] for label in labels], np.int64)

    def learn_array(
        self, X: Any, y: Any, features: Sequence[Hashable] | None = None, *, w: Any = None
    ) -> None:
        """Learn the rows of an array in order, exactly as `learn_one` would.

        Parameters
        ----------
        X
            Array of numbers, one row per reading; NaN where a feature is missing.
        y
            Labels, one per row.
        features
            Names of the columns. Default: those of the last array learnt, else `features`, or
            0, 1, 2 ... in a new model. All of them are known from the first row on.
        w
            Weights, one per row or one for all; see `learn_one`.

        """
        self._learn_array(X, y, features, w, watched=False)

    def learn_array_watched(
        self, X: Any, y: Any, features: Sequence[Hashable] | None = None, *, w: Any = None
    ) -> tuple[Rows, npt.NDArray[np.int64]]:
        """Learn like `learn_array` and return the prediction for each row before it was learnt.

        Returns the probabilities (rows x classes; -1 for classes not yet known at that row) and the
        index of each row's class in `classes`.
        """
        return self._learn_array(X, y, features, w, watched=True)

    @exclusive
    def _learn_array(
        self, X: Any, y: Any, features: Sequence[Hashable] | None, w: Any, watched: bool
    ) -> tuple[Rows, npt.NDArray[np.int64]]:
        if len(X) == 0 == len(y):
            return np.empty((0, len(self._labels))), np.empty(0, np.int64)
        weights = None if w is None else _row_weights(w, len(X))
        engine, rows, codes = self._admit_samples(X, y, features)
        before = np.full((len(rows), len(self._codes)) if watched else (0, 0), -1.0)
        try:
            engine.learn_rows(rows, codes, before, weights)
        finally:  # Ctrl-C may arrive between two kernel calls: keep what is learnt so far
            self._classes_changed(engine)
        return before, codes

    def class_number(self, label: Label) -> int:
        """Return the index of a label in `classes`; -1 if it is unknown."""
        try:
            return self._codes.get(label, -1)
        except TypeError as error:
            raise TypeError(f"expected a hashable label, got {label!r}") from error

    def last_probabilities(self) -> Rows:
        """Return the last predicted probabilities; after `learn_one`, those before learning."""
        return np.empty(0) if self._engine is None else self._engine.probabilities

    @exclusive
    def predict_proba_array(self, X: Any, features: Sequence[Hashable] | None = None) -> Rows:
        """Return class probabilities: one row per reading, one column per entry of `classes`."""
        rows, given = to_rows(X, features, ABSENT_VALUES[self.absent])
        names = self.column_names(rows.shape[1], given)
        refuse_infinities(rows, names)
        if self._engine is None or not self._labels:
            return np.empty((len(rows), 0))
        return self._engine.predict_rows(self._vectorizer.arrange(rows, names))

    @exclusive
    def answer_rows(self, rows: Rows, features: Sequence[Hashable]) -> tuple[Rows, Bools]:
        """Return probabilities of finite rows, and which rows have none of the model's features.

        A faster `predict_proba_array`, and bit for bit what single readings get.
        """
        if self._engine is None or not self._labels:
            return np.empty((len(rows), 0)), np.zeros(len(rows), bool)
        arranged = np.ascontiguousarray(self._vectorizer.arrange(rows, features))
        empty: Bools = np.asarray(np.isnan(arranged).all(axis=1))
        return self._engine.predict_rows(arranged), empty

    def last_was_empty(self) -> bool:
        """Return True if the last predicted reading had none of the model's features.

        With `absent="zero"` a reading of unknown features only is empty, one of no features at all
        is a reading of zeros.
        """
        engine, width = self._engine, self._vectorizer.width
        if engine is None or (width and engine.work[0] == engine.work[0]):
            return False
        return bool(np.isnan(engine.work[:width]).all())

    @exclusive
    def train(
        self,
        X: Any,
        y: Any,
        *,
        epochs: int = 1,
        seed: int | None = 1,
        features: Sequence[Hashable] | None = None,
        progress: bool | None = None,
    ) -> None:
        """Learn a recorded set once, in random order.

        Parameters
        ----------
        X
            A DataFrame, a list of dictionaries, or an array (name its columns with `features`).
        y
            Labels, one per row.
        epochs
            Accepted as other models do: what has been counted once is not counted again.
        seed
            Seed of the order; None for a different one each time.
        features
            Names of an array's columns.
        progress
            Accepted as other models do: one pass needs no progress bar.

        """
        check_range(type(self).__name__, "epochs", epochs, 1, whole=True)
        engine, rows, codes = self._admit_samples(X, y, features)
        order = np.random.default_rng(seed).permutation(len(rows))
        # The first sample of each class comes first, because classes are numbered as they come.
        first = np.unique(codes, return_index=True)[1]
        order = np.concatenate([first, order[~np.isin(order, first)]])
        try:
            engine.learn_rows(np.ascontiguousarray(rows[order]), codes[order])
        finally:
            self._classes_changed(engine)

    # --- state -----------------------------------------------------------------------------------

    def blank_state(self) -> EstimatorState:
        """Return the state of an untrained model with these parameters."""
        check_ours(self)
        return EstimatorState(type(self).__name__, parameters_of(self))

    @exclusive
    def state(
        self, *, readings: bool = True, limits: StateLimits = DEFAULT_LIMITS
    ) -> EstimatorState:
        """Return a copy of parameters and learnt arrays, see `EstimatorState`.

        Parameters
        ----------
        readings
            Include the readings kept for rehearsal. Without them, unused capacity is left out as
            well, and what single readings leave behind, see `streamlvq.models.traces`.
        limits
            Limits that `from_state` will use; raises `SnapshotError` if the state exceeds them.

        """
        blank, columns = self.blank_state(), self._column_names
        extra: dict[str, Any] = {
            "features": [without_numpy(name) for name in self.features],
            "classes": [without_numpy(label) for label in self._labels],
            "columns": None if columns is None else [without_numpy(name) for name in columns],
            "sizes": None,
        }
        if self._engine is None:
            return EstimatorState(blank.kind, blank.parameters, {}, extra)
        arrays, sizes = self._save_engine(self._engine, readings, limits)
        extra["sizes"] = msgspec.structs.asdict(sizes)
        return EstimatorState(blank.kind, blank.parameters, arrays, extra)

    @classmethod
    def from_state(cls, state: EstimatorState, *, limits: StateLimits = DEFAULT_LIMITS) -> Self:
        """Validate a state, then rebuild the model bit for bit.

        Parameters
        ----------
        state
            A state returned by `state`; raises `SnapshotError` if no model could have this state.
        limits
            Upper bound on what may be allocated.

        """
        model, sizes = cls._from_names(state)
        if sizes is not None:
            model._engine = model._restore_engine(sizes, state.arrays, limits)
            model._weigh_classes(model._engine)
        return model

    @classmethod
    def check_state(cls, state: EstimatorState, *, limits: StateLimits = DEFAULT_LIMITS) -> None:
        """Raise `SnapshotError` unless `from_state` would succeed, without allocating a model."""
        model, sizes = cls._from_names(state)
        if sizes is not None:
            model._check_engine(sizes, state.arrays, limits)

    @classmethod
    def shared_state(cls, state: EstimatorState, *, same_norms: bool = True) -> EstimatorState:
        """Return a state as `state(readings=False)` gives it; the same if it is one already.

        `same_norms`: norms of metrics do not change; False for sums over nodes, which have others.
        """
        return cls.from_state(state).state(readings=False)

    @classmethod
    def from_blank(cls, state: EstimatorState) -> Self:
        """Return an untrained model with the parameters of a state."""
        if state.kind != cls.__name__:
            raise SnapshotError(f"expected the state of a {cls.__name__}, got {state.kind[:80]!r}")
        model: Self = construct(cls, state.parameters)
        return model

    @classmethod
    def _from_names(cls, state: EstimatorState) -> tuple[Self, Any]:
        """Return a model with features and classes but no engine, and the sizes for one."""
        model = cls.from_blank(state)
        if state.extra.keys() != {"features", "classes", "columns", "sizes"} or state.parts:
            raise SnapshotError(
                f"{cls.__name__}: expected the state of a model, got {sorted(state.extra)[:9]}"
            )
        names, labels, columns, sizes = (
            state.extra[key] for key in ("features", "classes", "columns", "sizes")
        )
        if sizes is None:
            if names or labels or columns or state.arrays:
                raise SnapshotError("expected sizes for a state with features or labels, got none")
            return model, None
        check_distinct(names, "feature")
        check_distinct(labels, "label")
        if None in labels:
            raise SnapshotError("label: expected a value other than None, which means unlabelled")
        if columns is not None:
            check_distinct(columns, "column")
            if not set(columns) <= set(names):
                raise SnapshotError(f"columns: expected known features, got {str(columns)[:80]}")
        model._vectorizer = Vectorizer(names, ABSENT_VALUES[model.absent])
        model._labels = list(labels)
        model._codes = {label: code for code, label in enumerate(labels)}
        model._column_names = None if columns is None else list(columns)
        try:
            return model, msgspec.convert(sizes, cls._sizes)
        except (msgspec.ValidationError, OverflowError) as error:
            raise SnapshotError(f"sizes: {error}") from error

    def moved_to(self, model: Any) -> Any:
        """Return the other model unchanged: a model has no wrappers to move."""
        return model


# --- the base of models with prototypes ------------------------------------------------------------

# Rules whose prediction is the label of the closest prototype.
BY_DISTANCE = (at.RULE_LVQ1, at.RULE_OLVQ1, at.RULE_LVQ21, at.RULE_LVQ3, at.RULE_GLVQ)


@dataclass(kw_only=True, eq=False, repr=False)
class LVQClassifier(CompiledClassifier[Engine]):
    """Base class of the models with prototypes.

    A subclass chooses the learning rule, the kind of metric, and whether each prototype has its own
    metric. Parameters are dataclass fields, so a subclass declares only what it adds or changes.
    """

    _rule: ClassVar[int]
    _kind: ClassVar[int] = at.EUCLIDEAN
    _local: ClassVar[bool] = False
    _start_temperature: ClassVar[float] = 2.0
    _sizes = StateSizes
    has_relsim: ClassVar[bool] = True  # False if no single prototype decides

    prototypes_per_class: int = 1
    max_prototypes_per_class: int = 8
    learning_rate: float = 0.02
    absent: str = "missing"
    standardize: bool = True
    scale_floor: float = 0.4
    rehearsal: int = 8
    buffer_size: int = 2000
    half_life: float | None = None
    class_weight: str | Mapping[Label, float] | None = "auto"
    seed: int | None = 1

    @classmethod
    def textbook(cls, **parameters: Any) -> Self:
        """Return a model that learns by the published rule alone.

        No scaling of features, no growth, no rehearsal, no weights of classes, constant steps.
        Readings should come in comparable units, and learning rates have to suit them.

        Parameters
        ----------
        parameters
            Parameters of the model, learning rates first of all. They replace those of the mode.

        Examples
        --------

        >>> import streamlvq

        >>> model = streamlvq.GLVQ.textbook(learning_rate=0.1)
        >>> model.step, model.standardize, model.rehearsal
        ('published', False, 0)
        >>> for x, y in [(0.0, "left"), (1.0, "right"), (0.2, "left")]:
        ...     model.learn_one({"x": x}, y)
        >>> round(model.prototypes()[0].values["x"], 4)  # 0.1 * 2 * 0.64 / 0.68**2 * 2 * 0.2
        0.1107

        """
        switches = {name: TEXTBOOK[name] for name in TEXTBOOK if name in signature(cls).parameters}
        return cls(**{**switches, **parameters})

    # --- parameters ------------------------------------------------------------------------------

    def _check(self) -> None:
        """Raise `ParameterError` for parameters out of range."""
        owner = type(self).__name__
        check_range(owner, "prototypes_per_class", self.prototypes_per_class, 1, whole=True)
        check_range(owner, "max_prototypes_per_class", self.max_prototypes_per_class, 1, whole=True)
        check_range(owner, "learning_rate", self.learning_rate, 0)
        check_choice(owner, "absent", self.absent, tuple(ABSENT_VALUES))
        check_range(owner, "scale_floor", self.scale_floor, 0, 1)
        check_range(owner, "rehearsal", self.rehearsal, 0, whole=True)
        check_range(owner, "buffer_size", self.buffer_size, 1, whole=True)
        if self.seed is not None:
            check_range(owner, "seed", self.seed, 0, whole=True)
        if not isinstance(self.standardize, bool):
            raise ParameterError(owner, "standardize", f"expected a bool, got {self.standardize!r}")
        if self.half_life is not None:
            check_range(owner, "half_life", self.half_life, 1)
        check_class_weight(owner, self.class_weight)

    @property
    def _mutable_attributes(self) -> set[str]:
        return {"max_prototypes_per_class", "learning_rate", "rehearsal", "half_life"}

    def _parameters(self) -> dict[int, float]:
        """Return the real-valued kernel parameters by their position in `layout`."""
        forget = 1.0 if self.half_life is None else 0.5 ** (1.0 / self.half_life)
        return {
            at.LEARNING_RATE: self.learning_rate,
            at.SCALE_FLOOR: 0.0 if self.absent == "zero" else self.scale_floor,
            at.FORGET: forget,
            at.STEP_DECAY: 1.0,
            at.SAMPLE_WEIGHT: 1.0,
        }

    def _switches(self) -> dict[int, int]:
        """Return the integer kernel parameters by their position in `layout`."""
        return {
            at.PROTOTYPE_LIMIT: max(self.prototypes_per_class, self.max_prototypes_per_class),
            at.REHEARSAL: self.rehearsal,
            # Samples older than one half-life are not worth rehearsing.
            at.REACH: self.buffer_size
            if self.half_life is None
            else min(self.buffer_size, int(self.half_life)),
            at.RENEW: int(self.half_life is not None and self._grows()),
            at.BALANCE: self._balance(),
        }

    def _balance(self) -> int:
        if self.class_weight == "auto":  # likelihoods and pairs find rare classes as it is
            return at.BALANCE_RARE if self._rule == at.RULE_GLVQ else 0
        return at.BALANCE_ALL if self.class_weight == "balanced" else 0

    def _grows(self) -> bool:
        return self.max_prototypes_per_class > self.prototypes_per_class

    def _buffer(self) -> int:
        return self.buffer_size if self.rehearsal else 0

    def _rank(self) -> int | None:
        return None

    def _as_published(self) -> bool:
        return False

    def spec(self) -> ModelSpec:
        """Return the fixed properties of the model; draws a seed if none was given."""
        seed = secrets.randbits(31) if self.seed is None else self.seed
        return ModelSpec(
            rule=self._rule,
            kind=self._kind,
            local=self._local,
            rank=self._rank(),
            standardize=self.standardize,
            buffer=self._buffer(),
            initial=self.prototypes_per_class,
            seed=seed,
            sparse=self.absent == "zero",
            published=self._as_published(),
        )

    def _apply_parameters(self) -> None:
        parameters, switches = self._parameters(), self._switches()
        if self._engine is not None:
            self._engine.make_room_for_rehearsal(self._buffer())
            self._engine.set_parameters(parameters, switches)

    def _new_engine(self, features: int) -> Engine:
        engine = Engine(self.spec(), features, self._start_temperature)
        engine.set_parameters(self._parameters(), self._switches())
        return engine

    def _save_engine(
        self, engine: Engine, readings: bool, limits: StateLimits
    ) -> tuple[dict[str, Array], StateSizes]:
        return save_engine(self, engine, readings, limits)

    def _check_engine(
        self, sizes: StateSizes, arrays: Mapping[str, Array], limits: StateLimits
    ) -> object:
        return check_engine(self, sizes, arrays, limits)

    def _restore_engine(
        self, sizes: StateSizes, arrays: Mapping[str, Array], limits: StateLimits
    ) -> Engine:
        return restore_engine(self, sizes, arrays, limits)

    def _weigh_classes(self, engine: Engine) -> None:
        """Give the classes the weights that the user asked for."""
        if isinstance(self.class_weight, Mapping):
            factors = engine.state["class_factor"]
            for label, code in self._codes.items():
                factors[code] = self.class_weight.get(label, 1.0)

    @classmethod
    def shared_state(cls, state: EstimatorState, *, same_norms: bool = True) -> EstimatorState:
        """Return a state as `state(readings=False)` gives it, without building the model."""
        model, sizes = cls._from_names(state)
        if sizes is None:
            return state
        arrays, sizes = without_traces(model, sizes, state.arrays, same_norms=same_norms)
        return replace(
            state, arrays=arrays, extra={**state.extra, "sizes": msgspec.structs.asdict(sizes)}
        )

    @classmethod
    def decides_by_distance(cls) -> bool:
        """Return True if the closest prototype alone decides the label."""
        return cls._rule in BY_DISTANCE

    @classmethod
    def metric_kind(cls) -> int:
        """Return the kind of metric, one of the constants in `layout`."""
        return cls._kind

    @classmethod
    def start_temperature(cls) -> float:
        """Return the temperature of probabilities before the first sample."""
        return cls._start_temperature

    @classmethod
    def has_local_metrics(cls) -> bool:
        """Return True if each prototype has its own metric."""
        return cls._local

    # --- many readings in one kernel call, see `streamlvq.models.vectorizer.BatchPart` ----------------

    def rows_ready(self, batch: KernelBatch) -> int:
        """Return how many rows have only known features and labels; 0 before two classes are known.

        A model that does not learn accepts all rows and ignores unknown features.
        """
        known, labels = self._codes, batch.readings.labels
        if len(self._labels) < 2:
            return 0
        if not batch.learns:
            return batch.remaining
        label = labels[batch.start]
        if label is not None and label not in known:
            return 0
        if not self._vectorizer.knows_all(batch.readings.features):
            return 0
        ahead = labels[batch.start : batch.start + batch.remaining]
        if known.keys() >= set(ahead) - {None}:
            return batch.remaining
        new = (k for k, y in enumerate(ahead) if y is not None and y not in known)
        return next(new)

    def lend(self, batch: KernelBatch) -> Arrays:
        """Return the model's arrays, the rows in the order of its features, and their targets."""
        assert self._engine is not None
        readings = batch.readings
        batch.predict = self._engine.predict_address
        batch.learn = self._engine.learn_address if batch.learns else NO_ADDRESS
        rows = self._vectorizer.arrange(readings.rows[batch.rows], readings.features)
        rows = np.ascontiguousarray(rows)
        return (*self._engine.memory, rows, self._targets(batch), *no_pool())

    def _targets(self, batch: KernelBatch) -> npt.NDArray[np.int64]:
        """Return the class code of each row; UNLABELLED or DUPLICATE for rows not learnt."""
        constants = kernels("pipeline")
        duplicate, unlabelled = constants.DUPLICATE, constants.UNLABELLED
        if batch.learns:
            codes = {None: unlabelled, **self._codes}
            targets = np.array([codes[y] for y in batch.readings.labels[batch.rows]], np.int64)
        else:
            targets = np.full(batch.count, unlabelled, np.int64)
        if True in batch.duplicates:
            targets[np.array(batch.duplicates[batch.rows], np.bool_)] = duplicate
        return targets

    def settle(self, batch: KernelBatch, lent: Arrays) -> None:
        """Grow the prototype arrays if the kernel stopped because they were full."""
        if batch.done < batch.count:
            assert self._engine is not None
            self._engine.make_room_for_prototypes()

    # --- recorded training sets ------------------------------------------------------------------

    @exclusive
    def train(
        self,
        X: Any,
        y: Any,
        *,
        epochs: int = 30,
        seed: int | None = 1,
        features: Sequence[Hashable] | None = None,
        progress: bool | None = None,
    ) -> None:
        """Train on a recorded set in several shuffled passes.

        Parameters
        ----------
        X
            A DataFrame, a list of dictionaries, or an array (name its columns with `features`).
        y
            Labels, one per row.
        epochs
            Number of passes.
        seed
            Seed of the shuffling; None for a different order each time.
        features
            Names of an array's columns.
        progress
            Show a progress bar; default: only on a terminal.

        """
        check_range(type(self).__name__, "epochs", epochs, 1, whole=True)
        engine, rows, codes = self._admit_samples(X, y, features)
        try:
            train(engine, rows, codes, epochs, seed, progress)
        finally:
            self._classes_changed(engine)

    # --- insight ---------------------------------------------------------------------------------

    def prototypes(self) -> list[Prototype]:
        """Return the prototypes, in sensor units."""
        return insight.prototypes(self._engine, self.features, self._labels)

    def metric(self, prototype: int | None = None, *, raw: bool = True) -> Rows:
        """Return the metric as a features x features matrix: distance = (x - w)' M (x - w).

        Parameters
        ----------
        prototype
            `index` of a prototype; None for the mean over all prototypes.
        raw
            True for readings in sensor units, False for readings in feature scales.

        """
        return insight.metric(self._engine, prototype, raw)

    def scales(self) -> dict[Hashable, float]:
        """Return the scale of each feature; infinite while the feature is constant."""
        return insight.scales(self._engine, self.features)

    def relevances(self, label: Label | None = None, *, raw: bool = False) -> dict[Hashable, float]:
        """Return the relevance of each feature, as if all were standardised; they sum to one.

        A feature without spread has none: it has no share in any metric. One that starts to move
        late gets a small share, which it can increase.

        Parameters
        ----------
        label
            Restrict to the prototypes of this class; None for all.
        raw
            True for relevance per squared sensor unit, False per squared deviation.

        """
        if label is not None and label not in self._codes:
            raise ValueError(f"expected one of the labels {self._labels}, got {label!r}")
        code = None if label is None else self._codes[label]
        return insight.relevances(self._engine, self.features, code, raw)

    @exclusive
    def relsim_one(self, x: Reading) -> float | None:
        """Return the relative similarity of a reading; None before two classes are learnt.

        (d2 - d1) / (d2 + d1) of the squared distances to the closest and second closest class: 1 on
        a prototype, 0 on a decision border and towards 0 far from all prototypes.
        """
        relsim = self.last_relsim() if self._answer(x) is not None else -1.0
        return None if relsim < 0.0 else relsim

    def last_relsim(self, label: Label | None = None) -> float:
        """Return the RelSim of the last predicted reading; -1 before two classes are learnt.

        If a label is given and the reading is closer to another class, RelSim is 0.
        """
        engine = self._engine
        if engine is None:
            return -1.0
        # An unknown label never is the closest class.
        code = -1 if label is None else self._codes.get(label, len(self._labels))
        relsim: float = kernels("distance").relsim(engine.ints, engine.work, code)
        return relsim

    def last_closest(self) -> insight.Closest | None:
        """Return the two classes closest to the last predicted reading; None before two are known."""
        pair = None if self._engine is None else insight.closest(self._engine)
        return None if pair is None or pair.runner_up < 0 else pair

    def last_separation(self, pair: insight.Closest) -> float:
        """Return the distance between the prototypes closest to the last predicted reading."""
        assert self._engine is not None
        return insight.separation(self._engine, pair)

    @exclusive
    def explain_one(self, x: Reading) -> Explanation:
        """Explain a prediction: winner, runner-up and the features that decided."""
        engine = self._answer(x)
        return insight.explain(engine, self.features, self._labels)


def _row_weights(w: Any, count: int) -> npt.NDArray[np.float64]:
    """Return the weight of each row; raise ValueError unless all are above 0."""
    weights = np.array(np.broadcast_to(as_rows(w), (count,)))
    if not ((weights > 0.0) & (weights <= MAX_SAMPLE_WEIGHT)).all():
        raise ValueError(
            f"expected weights w above 0 and up to {MAX_SAMPLE_WEIGHT:g}, one for each of {count} rows, "
            f"got {w!r}; leave out rows that do not count"
        )
    return weights


def _refuse_label(y: Any) -> None:
    try:
        missing = y is None or bool(y != y)
    except (TypeError, ValueError):  # pandas' NA, arrays
        missing = True
    if missing:
        raise ValueError(f"expected a label, got {y!r}; for readings without one use observe_one")


def _refuse_bad_reading(x: Reading) -> None:
    """Raise ValueError for values out of range, before new features change the model."""
    for name, value in x.items():
        if abs(to_number(name, value)) > at.LARGEST_VALUE:
            raise ValueError(f"feature {name!r}: {EXPECTED_NUMBER}, got {value}")
