"""`Engine`: the flat arrays of a model (`ModelState`) and the kernels that work on them.

Classes are integer codes and features are columns. The engine grows its arrays before a kernel
needs more space.
"""

from __future__ import annotations

import contextlib
import functools
import math
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from streamlvq.arrays import Floats, Ints, Rows
from streamlvq.kernels import kernels
from streamlvq.kernels import layout as at

# --- arrays --------------------------------------------------------------------------------------


class ArraySection(NamedTuple):
    """Position, shape and initial value of one named array."""

    number: int
    sizes: tuple[int, ...]
    start: float
    columns: tuple[int, ...] = ()  # dimensions that are the same in every model


ARRAY_SECTIONS = {
    "mean": ArraySection(at.MEAN, (at.N_FEATURES,), 0.0),
    "variance": ArraySection(at.VARIANCE, (at.N_FEATURES,), 0.0),
    "peak": ArraySection(at.MAX_DEVIATION, (at.N_FEATURES,), 0.0),
    "weight": ArraySection(at.WEIGHT, (at.N_FEATURES,), 0.0),
    "inverse": ArraySection(at.INVERSE, (at.N_FEATURES,), 0.0),
    "w": ArraySection(at.W, (at.PROTOTYPE_CAPACITY, at.N_FEATURES), np.nan),
    "w_moment": ArraySection(at.W_MOMENT, (at.PROTOTYPE_CAPACITY, at.N_FEATURES), 0.0),
    "usefulness": ArraySection(at.USEFULNESS, (at.PROTOTYPE_CAPACITY,), 0.0),
    "wins": ArraySection(at.WINS, (at.PROTOTYPE_CAPACITY,), 0.0),
    "born": ArraySection(at.BORN, (at.PROTOTYPE_CAPACITY,), 0.0),
    "rate": ArraySection(at.RATE, (at.PROTOTYPE_CAPACITY,), 0.0),
    "omega": ArraySection(at.OMEGA, (at.METRICS, at.METRIC_RANK, at.N_FEATURES), 0.0),
    "row_moment": ArraySection(at.ROW_MOMENT, (at.METRICS, at.METRIC_RANK), 0.0),
    "column_moment": ArraySection(at.COLUMN_MOMENT, (at.METRICS, at.N_FEATURES), 0.0),
    "total_moment": ArraySection(at.TOTAL_MOMENT, (at.METRICS,), 0.0),
    "start": ArraySection(at.START, (at.METRIC_RANK, at.N_FEATURES), 0.0),
    "varies": ArraySection(at.VARIES, (at.N_FEATURES,), 0.0),
    "still": ArraySection(at.STILL, (at.N_FEATURES,), 0.0),
    "class_count": ArraySection(at.CLASS_COUNT, (at.CLASS_CAPACITY,), 0.0),
    "class_weight": ArraySection(at.CLASS_WEIGHT, (at.CLASS_CAPACITY, at.N_FEATURES), 0.0),
    "class_mean": ArraySection(at.CLASS_MEAN, (at.CLASS_CAPACITY, at.N_FEATURES), 0.0),
    "class_variance": ArraySection(at.CLASS_VARIANCE, (at.CLASS_CAPACITY, at.N_FEATURES), 0.0),
    "class_low": ArraySection(at.CLASS_LOW, (at.RANGES, at.N_FEATURES), np.nan),
    "class_high": ArraySection(at.CLASS_HIGH, (at.RANGES, at.N_FEATURES), np.nan),
    "class_factor": ArraySection(at.CLASS_FACTOR, (at.CLASS_CAPACITY,), 1.0),
    "buffer_x": ArraySection(at.BUFFER_X, (at.BUFFER, at.N_FEATURES), np.nan),
    "buffer_margin": ArraySection(at.BUFFER_MARGIN, (at.BUFFER,), 0.0),
    "buffer_weight": ArraySection(at.BUFFER_WEIGHT, (at.BUFFER,), 1.0),
    "platt": ArraySection(at.PLATT, (at.PAIRS,), 0.0, (at.PLATT_COUNT,)),
    "label": ArraySection(at.LABEL, (at.PROTOTYPE_CAPACITY,), -1),
    "class_size": ArraySection(at.CLASS_SIZE, (at.CLASS_CAPACITY,), 0),
    "buffer_y": ArraySection(at.BUFFER_Y, (at.BUFFER,), 0),
    "buffer_right": ArraySection(at.BUFFER_RIGHT, (at.BUFFER,), -1),
    "buffer_wrong": ArraySection(at.BUFFER_WRONG, (at.BUFFER,), -1),
}
WORK_SIZES = (at.N_FEATURES, at.CLASS_CAPACITY, at.METRIC_RANK, at.PROTOTYPE_CAPACITY, at.PAIRS)
FIXED_SIZES = {
    "parameters": (at.PARAMETERS, at.PARAMETER_COUNT),
    "calibration": (at.CALIBRATION, at.CALIBRATION_COUNT),
}


# Where the sections are: changes whenever sections, sizes or parameters are added.
LAYOUT = (at.HEADER_SIZE, at.PARAMETER_COUNT, at.CALIBRATION_COUNT, tuple(ARRAY_SECTIONS))


class ModelState:
    """Everything that a model has learnt.

    `floats`, `ints` and `work` are passed to the kernels; `state["w"]` is a view of one section.
    """

    def __init__(self, header: Ints) -> None:
        self._allocate(header)
        for name, section in ARRAY_SECTIONS.items():
            self[name][...] = section.start

    def _allocate(self, header: Ints) -> None:
        """Allocate zeros for these sizes."""
        self.ints: Ints = np.zeros(at.HEADER_SIZE, np.int64)
        self.ints[: at.SECTION_STARTS] = header[: at.SECTION_STARTS]
        float_size, int_size = 0, at.HEADER_SIZE
        for name in (*FIXED_SIZES, *ARRAY_SECTIONS):
            number, shape = self._section(name)
            if number < at.FLOAT_SECTIONS:
                self.ints[at.SECTION_STARTS + number] = float_size
                float_size += math.prod(shape)
            else:
                self.ints[at.SECTION_STARTS + number] = int_size
                int_size += math.prod(shape)
        self.ints = np.concatenate([self.ints, np.zeros(int_size - at.HEADER_SIZE, np.int64)])
        self.floats: Floats = np.zeros(float_size)
        self._allocate_work()

    def _allocate_work(self) -> None:
        sizes = [int(self.ints[k]) for k in WORK_SIZES]
        # A bytearray: `struct.pack_into` is twice as fast on it as on an array.
        self.buffer = bytearray(8 * at.work_size(*sizes))
        self.work: Floats = np.frombuffer(self.buffer, np.float64)

    def drop_cached_prediction(self) -> None:
        """Drop the cached prediction, see `kernels.distance`."""
        sizes = [
            int(self.ints[k])
            for k in (at.N_FEATURES, at.CLASS_CAPACITY, at.METRIC_RANK, at.PROTOTYPE_CAPACITY)
        ]
        self.work[at.answer_start(*sizes)] = 0.0

    def _section(self, name: str) -> tuple[int, tuple[int, ...]]:
        """Return number and shape of a section."""
        if name in FIXED_SIZES:
            number, length = FIXED_SIZES[name]
            return number, (length,)
        section = ARRAY_SECTIONS[name]
        sizes = tuple(int(self.ints[size]) for size in section.sizes)
        return section.number, sizes + section.columns

    def __getitem__(self, name: str) -> Any:
        number, shape = self._section(name)
        data = self.floats if number < at.FLOAT_SECTIONS else self.ints
        start = int(self.ints[at.SECTION_STARTS + number])
        return data[start : start + math.prod(shape)].reshape(shape)

    def size(self, which: int) -> int:
        """Return a size, switch or counter of the header, see `layout`."""
        return int(self.ints[which])

    def resized(self, sizes: dict[int, int]) -> ModelState:
        """Return a copy with larger capacities; new entries have their initial value.

        Nothing is written twice: most of the time is that of copying a large buffer.
        """
        header = self.ints[: at.SECTION_STARTS].copy()
        for which, value in sizes.items():
            header[which] = value
        larger = ModelState.__new__(ModelState)
        larger._allocate(header)
        for name in FIXED_SIZES:
            larger[name][...] = self[name]
        for name, section in ARRAY_SECTIONS.items():
            old, new = self[name], larger[name]
            new[tuple(slice(0, n) for n in old.shape)] = old
            if section.start == 0.0:
                continue
            for axis, length in enumerate(old.shape):
                new[(slice(None),) * axis + (slice(length, None),)] = section.start
        return larger

    def __getstate__(self) -> dict[str, Any]:
        return {"floats": self.floats, "ints": self.ints, "layout": LAYOUT}

    def __setstate__(self, state: dict[str, Any]) -> None:
        if state.get("layout") != LAYOUT:
            raise ValueError(
                "expected a model pickled by this version of streamlvq, got one of another version: "
                "move models between versions as snapshots (streamlvq.Snapshot)"
            )
        self.floats, self.ints = state["floats"], state["ints"]
        self._allocate_work()


# --- kernels on them -----------------------------------------------------------------------------


class Family(NamedTuple):
    """Names of the kernels that models with the same learning rule share."""

    learn: str
    predict: str
    predict_rows: str
    calibrate: str = "calibrate_array"


CLOSEST = ("predict_closest", "predict_rows_closest")
EVERY = ("predict_every", "predict_rows_every")
SHARED_MATRIX = Family("learn_shared_matrix", *CLOSEST)
FAMILIES = {
    at.RULE_LVQ1: Family("learn_lvq1", *CLOSEST),
    at.RULE_OLVQ1: Family("learn_lvq1", *CLOSEST),
    at.RULE_LVQ21: Family("learn_lvq2", *EVERY),
    at.RULE_LVQ3: Family("learn_lvq2", *EVERY),
    at.RULE_GLVQ: Family("learn_glvq", *CLOSEST),
    at.RULE_RSLVQ: Family("learn_rslvq", "predict_likelihood", "predict_rows_likelihood"),
    at.RULE_PAIRWISE: Family(
        "learn_pairs", "predict_pairs", "predict_rows_pairs", "calibrate_array_of_pairs"
    ),
}


def first_random(seed: int) -> int:
    """Return the state of the random numbers of a model that has drawn none."""
    return 1 + seed % 2147483646


@dataclass(frozen=True)
class ModelSpec:
    """Fixed properties of a model: everything that learning does not change."""

    rule: int
    kind: int
    local: bool
    rank: int | None
    standardize: bool
    buffer: int
    initial: int
    seed: int
    sparse: bool = False
    published: bool = False

    @property
    def family(self) -> Family:
        """Kernels that learn and predict."""
        if self.rule == at.RULE_GLVQ and self.kind == at.MATRIX and not self.local:
            return SHARED_MATRIX
        return FAMILIES[self.rule]

    @property
    def keeps_ranges(self) -> bool:
        """True if prototypes stay among the readings of their class."""
        return self.rule == at.RULE_GLVQ and self.kind != at.EUCLIDEAN and not self.published

    def rows(self, features: int) -> int:
        """Return the number of rows of a metric for this many features."""
        if self.kind == at.MATRIX:
            return min(self.rank or features, features)
        return 1 if self.kind == at.DIAGONAL else 0

    def metrics(self, slots: int) -> int:
        """Return the number of metrics for this prototype capacity."""
        if self.rule == at.RULE_PAIRWISE:
            return slots // 2
        if self.kind == at.EUCLIDEAN:
            return 0
        return slots if self.local else 1

    def metric_of(self, prototype: int) -> int:
        """Return the index of the metric that a prototype uses."""
        if self.rule == at.RULE_PAIRWISE:
            return prototype // 2
        return prototype if self.local else 0

    def room(self, classes: int) -> dict[int, int]:
        """Return the sizes that depend on the class capacity."""
        sizes = {at.CLASS_CAPACITY: classes, at.RANGES: classes if self.keeps_ranges else 0}
        if self.rule == at.RULE_PAIRWISE:
            pairs = classes * (classes - 1) // 2
            sizes |= {at.PAIRS: pairs, at.PROTOTYPE_CAPACITY: 2 * pairs, at.METRICS: pairs}
        return sizes

    def start_metric(self, features: int) -> Floats:
        """Return the initial metric: equal weights, or a random projection if the rank is low."""
        rows = self.rows(features)
        if self.kind == at.DIAGONAL:
            start = np.ones((1, features))
        elif rows >= features:
            start = np.eye(features)
        else:
            gaussian = np.random.default_rng(self.seed).standard_normal((features, rows))
            start = np.linalg.qr(gaussian)[0].T
        return np.ascontiguousarray(start / max(float(np.linalg.norm(start)), 1e-300))


class FamilyKernel:
    """Class attribute of an engine: a kernel of its family, compiled when it is first asked for."""

    def __init__(self, find: Callable[[Family], Any]) -> None:
        self._find = find

    def __set_name__(self, owner: type[Engine], name: str) -> None:
        self._name = name

    def __get__(self, engine: object, owner: type[Engine]) -> Any:
        kernel = self._find(owner.family)
        setattr(owner, self._name, staticmethod(kernel))  # replaces this attribute
        return kernel


class Engine:
    """Model arrays with the operations that learn from vectors and predict them.

    Each family has a subclass whose attributes are its kernels: River would count a compiled
    function in an instance as memory of the model.
    """

    family: ClassVar[Family]
    learn_kernel = FamilyKernel(lambda family: getattr(_kernels(), family.learn))
    predict_kernel = FamilyKernel(lambda family: getattr(_kernels(), family.predict))
    learn_address = FamilyKernel(lambda family: _kernels().address(family.learn))
    predict_address = FamilyKernel(lambda family: _kernels().address(family.predict))

    def __new__(cls, spec: ModelSpec, *arguments: object) -> Engine:
        return super().__new__(_engine_class(spec.family))

    def __init__(self, spec: ModelSpec, features: int, temperature: float) -> None:
        self.spec = spec
        header = np.zeros(at.SECTION_STARTS, np.int64)
        header[at.N_FEATURES] = features
        header[at.RULE] = spec.rule
        header[at.METRIC_KIND] = spec.kind
        header[at.STANDARDIZE] = spec.standardize
        header[at.SPARSE] = spec.sparse
        header[at.PROTOTYPE_CAPACITY] = 4
        header[at.METRICS] = spec.metrics(4)
        for which, size in spec.room(4).items():
            header[which] = size
        header[at.METRIC_RANK] = spec.rows(features)
        header[at.BUFFER] = spec.buffer
        header[at.INITIAL] = spec.initial
        header[at.RANDOM] = first_random(spec.seed)
        self._adopt(ModelState(header))
        self.state["calibration"][at.TEMPERATURE] = temperature
        self._start_metrics(0, 0)
        if spec.published:
            self._share_metrics()

    def _adopt(self, state: ModelState) -> None:
        """Switch to these arrays and keep direct references to them for the hot path."""
        self.state = state
        self.floats, self.ints, self.work = state.floats, state.ints, state.work
        self.memory = (self.floats, self.ints, self.work)
        self.buffer = state.buffer
        d, c = state.size(at.N_FEATURES), state.size(at.N_CLASSES)
        self.probabilities = self.work[d : d + c]

    def _start_metrics(self, old_rank: int, old_features: int) -> None:
        """Keep the learnt parts of all metrics; new features get a share once they vary."""
        if self.spec.kind == at.EUCLIDEAN:
            return
        start = self.spec.start_metric(self.state.size(at.N_FEATURES))
        omega, varies = self.state["omega"], self.state["varies"] > 0.0
        learnt = omega[:, :old_rank, :old_features][:, :, varies[:old_features]]
        self.state["start"][...] = start
        omega[...] = start
        if varies.any():
            omega[:, :, varies | self.spec.standardize] = 0.0
            omega[:, :old_rank, varies] = learnt

    @property
    def known(self) -> int:
        """Number of classes learnt."""
        return self.state.size(at.N_CLASSES)

    @property
    def samples(self) -> int:
        """Number of labelled samples learnt."""
        return self.state.size(at.SAMPLES)

    @property
    def class_capacity(self) -> int:
        """Number of classes that the arrays have room for."""
        return self.state.size(at.CLASS_CAPACITY)

    def weigh(self, weight: float) -> None:
        """Let the next samples count with this weight."""
        self.floats[at.SAMPLE_WEIGHT] = weight

    def set_parameters(self, parameters: dict[int, float], switches: dict[int, int]) -> None:
        """Set learning rates, switches and the like; allowed at any time."""
        self.state.drop_cached_prediction()
        for which, value in parameters.items():
            self.floats[which] = value
        for which, number in switches.items():
            self.ints[which] = number

    def add_features(self, count: int) -> None:
        """Add columns for new features; they are missing (NaN) in existing prototypes."""
        d, rank = self.state.size(at.N_FEATURES), self.state.size(at.METRIC_RANK)
        sizes = {at.N_FEATURES: d + count, at.METRIC_RANK: self.spec.rows(d + count)}
        self._adopt(self.state.resized(sizes))
        self.ints[at.GAPS] += count * self.state.size(at.N_PROTOTYPES)
        self.ints[at.ALL_SETTLED] = 0
        self._start_metrics(rank, d)
        if self.spec.published:
            self._share_metrics()

    def _share_metrics(self) -> None:
        """Give every feature its share in the metrics, whether or not it has varied."""
        self.state["varies"][...] = 1.0
        self.ints[at.N_VARYING] = self.state.size(at.N_FEATURES)
        self.ints[at.ALL_SETTLED] = 1
        omega = self.state["omega"]
        omega /= np.maximum(np.linalg.norm(omega, axis=(1, 2), keepdims=True), 1e-300)

    def count_as_zero(self, first: int) -> None:
        """Let the features from column `first` on, just added, have been 0 in all readings so far."""
        state, new = self.state, slice(first, None)
        state["w"][: state.size(at.N_PROTOTYPES), new] = 0.0
        state["buffer_x"][: min(state.size(at.STORED), state.size(at.BUFFER)), new] = 0.0
        if self.spec.keeps_ranges:
            state["class_low"][: self.known, new] = state["class_high"][: self.known, new] = 0.0
        self.ints[at.GAPS] -= (state.size(at.N_FEATURES) - first) * state.size(at.N_PROTOTYPES)
        # Weights are those of a feature that was in every reading, with a label or without.
        weight, per_class = state["weight"], state["class_weight"]
        counts = state["class_count"]
        weight[new] = max(self._forgetful(counts.sum()), weight[:first].max(initial=0.0))
        seen = per_class[:, :first].max(axis=1, initial=0.0)
        per_class[:, new] = np.maximum(self._forgetful(counts), seen)[:, None]

    def _forgetful(self, count: Any) -> Any:
        """Return the running weight of something after this many readings."""
        forget = self.floats[at.FORGET]
        return count if forget == 1.0 else (1.0 - forget**count) / (1.0 - forget)

    def make_room_for_classes(self, count: int) -> None:
        """Double the class capacity until it holds this many."""
        capacity = self.state.size(at.CLASS_CAPACITY)
        while capacity < count:
            capacity *= 2
        if capacity > self.state.size(at.CLASS_CAPACITY):
            self._adopt(self.state.resized(self.spec.room(capacity)))

    def make_room_for_rehearsal(self, samples: int) -> None:
        """Add a rehearsal buffer to a model that was built without one."""
        if self.state.size(at.BUFFER) == 0 and samples > 0:
            self._adopt(self.state.resized({at.BUFFER: samples}))

    def make_room_for_prototypes(self) -> None:
        """Double the prototype capacity."""
        slots = 2 * self.state.size(at.PROTOTYPE_CAPACITY)
        sizes = {at.PROTOTYPE_CAPACITY: slots, at.METRICS: self.spec.metrics(slots)}
        old = self.state.size(at.METRICS)
        self._adopt(self.state.resized(sizes))
        if self.spec.local:
            self.state["omega"][old:] = self.state["start"]

    def learn(self, c: int) -> int:
        """Learn the reading in `buffer`; return 0, or 1 + the index of an infinite feature."""
        status: int = self.learn_kernel(*self.memory, c)
        while status == at.NEEDS_SLOT:
            x = self.work[: self.state.size(at.N_FEATURES)].copy()
            self.make_room_for_prototypes()
            self.work[: len(x)] = x
            status = self.learn_kernel(*self.memory, c)
        return status

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
        assert len(rows) == len(classes), "kernels check no bounds"
        if before is None:
            before = np.empty((0, 0))
        weighted = np.empty(0) if weights is None else weights
        assert len(weighted) in (0, len(rows)), "kernels check no bounds"
        done = 0
        try:
            while done < len(rows):
                done = _kernels().learn_array(
                    *self.memory, rows, classes, weighted, done, before, self.learn_address
                )
                if done < len(rows):
                    self.make_room_for_prototypes()
        finally:
            self.floats[at.SAMPLE_WEIGHT] = 1.0

    def observe(self) -> int:
        """Update the feature scales with the reading in `buffer`; return a status as `learn`."""
        status: int = _kernels().observe_reading(*self.memory)
        return status

    def predict_rows(self, rows: Rows) -> Rows:
        """Return class probabilities, one row per reading."""
        out = np.empty((len(rows), self.known))
        predict = getattr(_kernels(), self.family.predict_rows)
        predict(*self.memory, rows, out)
        return out

    def observe_rows(self, rows: Rows, classes: Ints) -> None:
        """Update feature scales and class statistics with labelled rows."""
        _kernels().observe_array(self.floats, self.ints, rows)
        _kernels().count_classes(self.floats, self.ints, rows, classes)

    def calibrate_rows(self, rows: Rows, classes: Ints) -> None:
        """Fit the probabilities on labelled rows that were not learnt."""
        calibrate = getattr(_kernels(), self.family.calibrate)
        calibrate(*self.memory, rows, classes, self.predict_address)

    def classes_changed(self) -> None:
        """Refresh `probabilities`; call it after a class was added."""
        self._adopt(self.state)

    def __reduce__(self) -> Any:
        return Engine.of, (self.spec, self.state)

    @classmethod
    def of(cls, spec: ModelSpec, state: ModelState) -> Engine:
        """Return an engine for these arrays."""
        engine = cls.__new__(cls, spec)
        engine.spec = spec
        engine._adopt(state)
        return engine


@functools.cache
def _engine_class(family: Family) -> type[Engine]:
    return type("Engine", (Engine,), {"family": family, "__module__": __name__})


def _kernels() -> Any:
    return kernels("prototypes")


# --- learning again what was learnt before ---------------------------------------------------------

# Classes have one prototype each, as far as births and evictions can tell, and may have no more.
FIXED_STRUCTURE = {at.INITIAL: 1, at.PROTOTYPE_LIMIT: 0, at.RENEW: 0}
UNTOUCHED = {at.REHEARSAL: 0, at.PASSIVE: at.SILENT, at.BUFFER: 0}  # store and rehearse nothing


def widen_ranges(engine: Engine, rows: Rows, classes: Ints) -> None:
    """Let prototypes go wherever these readings of their classes are."""
    if not engine.spec.keeps_ranges:
        return
    low, high = engine.state["class_low"], engine.state["class_high"]
    for c in np.unique(classes):
        low[c] = np.fmin(low[c], np.fmin.reduce(rows[classes == c], axis=0))
        high[c] = np.fmax(high[c], np.fmax.reduce(rows[classes == c], axis=0))


@contextlib.contextmanager
def learning_again(engine: Engine) -> Iterator[None]:
    """Let `learn_rows` learn rows of known classes that were learnt before.

    Prototypes and metrics move, and who wins is counted. Nothing else changes: no prototype is born
    or leaves, nothing is stored or rehearsed, statistics count no reading twice, and probabilities
    do not become surer.
    """
    switches = FIXED_STRUCTURE | UNTOUCHED
    before = {which: engine.state.size(which) for which in (*switches, at.SAMPLES)}
    sizes = engine.state["class_size"].copy()
    engine.state["class_size"][...] = 1
    engine.set_parameters({}, switches)
    try:
        yield
    finally:
        engine.set_parameters({}, before)
        engine.state["class_size"][...] = sizes


# --- training in several passes over a recorded set -----------------------------------------------

HELD_OUT_SHARE = 0.1  # share of samples used only to fit the temperature
HELD_OUT_MIN_SAMPLES = 50  # with fewer samples none are held out
LLOYD_STEPS = 10


def epochs_with_progress(epochs: int, progress: bool | None) -> Iterable[int]:
    """Return the epochs, with a progress bar on a terminal."""
    if progress is None:
        progress = sys.stderr.isatty()
    if not progress:
        return range(epochs)
    from tqdm import trange  # noqa: PLC0415

    bar: Iterable[int] = trange(epochs, desc="training", unit="epoch")
    return bar


def train(
    engine: Engine, rows: Rows, classes: Ints, epochs: int, seed: int | None, progress: bool | None
) -> None:
    """Fit the feature scales, place prototypes at cluster centres, then learn in epochs.

    Learning rates fall to zero over the epochs. Samples that were already learnt are useless for
    calibration, so a tenth of them is held out until the last epoch, and the temperature is fitted
    on them just before it.
    """
    random = np.random.default_rng(seed)
    engine.observe_rows(rows, classes)
    order = random.permutation(len(rows))
    held = order[
        : int(HELD_OUT_SHARE * len(rows)) if len(rows) >= HELD_OUT_MIN_SAMPLES and epochs > 1 else 0
    ]
    kept = order[len(held) :]
    before = {which: float(engine.floats[which]) for which in (at.LEARNING_RATE, at.METRIC_RATE)}
    rehearsal = engine.state.size(at.REHEARSAL)
    engine.set_parameters({}, {at.REHEARSAL: 0, at.PASSIVE: at.SILENT})
    try:
        _place_prototypes(engine, rows, classes, random)
        for epoch in epochs_with_progress(epochs, progress):
            last = epoch == epochs - 1
            if last and len(held):
                _calibrate(engine, rows[held], classes[held])
            share = 1.0 - epoch / epochs
            engine.set_parameters({which: share * rate for which, rate in before.items()}, {})
            order = random.permutation(np.concatenate([kept, held]) if last else kept)
            # Without held-out samples, only the first pass sees samples not learnt before.
            scored = epoch == 0 and not len(held)
            engine.set_parameters({}, {at.PASSIVE: at.SCORED if scored else at.SILENT})
            engine.learn_rows(rows[order], classes[order])
    finally:
        engine.set_parameters(before, {at.PASSIVE: 0, at.REHEARSAL: rehearsal})


def _calibrate(engine: Engine, rows: Rows, classes: Ints) -> None:
    for _ in range(5):
        engine.calibrate_rows(rows, classes)


def _place_prototypes(
    engine: Engine, rows: Rows, classes: Ints, random: np.random.Generator
) -> None:
    """Place the prototypes of every new class at the centres of its samples.

    The centres are learnt like samples, class by class: the first samples of a class become its
    prototypes.
    """
    count = engine.spec.initial
    for c in range(engine.known, int(classes.max()) + 1):
        centres = _centres(rows[classes == c], engine.state["inverse"], count, random)
        engine.learn_rows(centres, np.full(len(centres), c))


def _centres(rows: Rows, inverse: Floats, count: int, random: np.random.Generator) -> Rows:
    """Return k-means centres, with distances in feature scales and missing features ignored."""
    centres = rows[random.permutation(len(rows))[:count]].copy()
    for _ in range(LLOYD_STEPS):
        distances = [np.nansum(((rows - centre) * inverse) ** 2, axis=1) for centre in centres]
        nearest = np.argmin(distances, axis=0)
        for k in range(len(centres)):
            members = rows[nearest == k]
            present = ~np.isnan(members)
            total = present.sum(axis=0)
            mean = np.where(present, members, 0.0).sum(axis=0) / np.maximum(total, 1)
            centres[k] = np.where(total > 0, mean, centres[k])
    return centres
