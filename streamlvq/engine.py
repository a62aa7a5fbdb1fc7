"""`Engine`: the arrays of a model and the kernels that work on them.

Classes are integer codes and features are columns. The engine grows its arrays before a kernel
needs more space.
"""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from streamlvq.kernels import layout as at
from streamlvq.state import Floats, Ints, ModelState

Rows = npt.NDArray[np.float64]

PATIENCE = 3.0  # seconds; loading from the cache takes less than one
COMPILING = "compiling the kernels, once for this installation: one to two minutes"
_LOG = logging.getLogger("streamlvq")


@functools.cache
def kernels() -> ModuleType:
    """Return the kernels, imported on first use because compiling them takes a while."""
    notice = threading.Timer(PATIENCE, _LOG.warning, [COMPILING])
    notice.daemon = True
    notice.start()
    try:
        from streamlvq.kernels import stream  # noqa: PLC0415
    finally:
        notice.cancel()
    Engine.learn_kernel = staticmethod(stream.learn)
    Engine.predict_kernel = staticmethod(stream.predict)
    return stream


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
        sizes = {at.CLASSES: classes}
        if self.rule == at.RULE_PAIRWISE:
            pairs = classes * (classes - 1) // 2
            sizes |= {at.PAIRS: pairs, at.SLOTS: 2 * pairs, at.METRICS: pairs}
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


class Engine:
    """Model arrays with the operations that learn from vectors and predict them."""

    # The two kernels that run for each reading. They are class attributes because River would
    # count a compiled function in an instance as memory of the model.
    learn_kernel: ClassVar[Callable[..., int]]
    predict_kernel: ClassVar[Callable[..., int]]

    def __init__(self, spec: ModelSpec, features: int, temperature: float) -> None:
        self.spec = spec
        header = np.zeros(at.SECTIONS, np.int64)
        header[at.FEATURES] = features
        header[at.RULE] = spec.rule
        header[at.KIND] = spec.kind
        header[at.STANDARDIZE] = spec.standardize
        header[at.SLOTS] = 4
        header[at.METRICS] = spec.metrics(4)
        for which, size in spec.room(4).items():
            header[which] = size
        header[at.RANK] = spec.rows(features)
        header[at.BUFFER] = spec.buffer
        header[at.INITIAL] = spec.initial
        header[at.RANDOM] = 1 + spec.seed % 2147483646
        self._adopt(ModelState(header))
        self.state["calibration"][at.TEMPERATURE] = temperature
        self._start_metrics(0, 0)

    def _adopt(self, state: ModelState) -> None:
        """Switch to these arrays and keep direct references to them for the hot path."""
        kernels()
        self.state = state
        self.floats, self.ints, self.work = state.floats, state.ints, state.work
        self.memory = (self.floats, self.ints, self.work)
        self.buffer = state.buffer
        d, c = state.size(at.FEATURES), state.size(at.KNOWN)
        self.probabilities = self.work[d : d + c]

    def _start_metrics(self, old_rank: int, old_features: int) -> None:
        """Initialise the new parts of all metrics and keep the learnt parts."""
        d = self.state.size(at.FEATURES)
        if self.spec.kind == at.EUCLIDEAN:
            return
        start = self.spec.start_metric(d)
        self.state["start"][...] = start
        for omega in self.state["omega"]:
            learnt = omega[:old_rank, :old_features].copy()
            omega[...] = start
            size = np.linalg.norm(learnt)
            if size > 0.0:
                share = np.linalg.norm(start[:, :old_features])
                omega[:, :old_features] = 0.0
                omega[:old_rank, :old_features] = learnt * (share / size)
                omega /= np.linalg.norm(omega)

    @property
    def known(self) -> int:
        """Number of classes learnt."""
        return self.state.size(at.KNOWN)

    def set_parameters(self, parameters: dict[int, float], switches: dict[int, int]) -> None:
        """Set learning rates, switches and the like; allowed at any time."""
        self.state.forget_answer()
        for which, value in parameters.items():
            self.floats[which] = value
        for which, number in switches.items():
            self.ints[which] = number

    def add_features(self, count: int) -> None:
        """Add columns for new features; they are missing (NaN) in existing prototypes."""
        d, rank = self.state.size(at.FEATURES), self.state.size(at.RANK)
        sizes = {at.FEATURES: d + count, at.RANK: self.spec.rows(d + count)}
        self._adopt(self.state.resized(sizes))
        self.ints[at.GAPS] += count * self.state.size(at.PROTOTYPES)
        self._start_metrics(rank, d)

    def make_room_for_classes(self, count: int) -> None:
        """Double the class capacity until it holds this many."""
        capacity = self.state.size(at.CLASSES)
        while capacity < count:
            capacity *= 2
        if capacity > self.state.size(at.CLASSES):
            self._adopt(self.state.resized(self.spec.room(capacity)))

    def make_room_for_rehearsal(self, samples: int) -> None:
        """Add a rehearsal buffer to a model that was built without one."""
        if self.state.size(at.BUFFER) == 0 and samples > 0:
            self._adopt(self.state.resized({at.BUFFER: samples}))

    def make_room_for_prototypes(self) -> None:
        """Double the prototype capacity."""
        slots = 2 * self.state.size(at.SLOTS)
        sizes = {at.SLOTS: slots, at.METRICS: self.spec.metrics(slots)}
        old = self.state.size(at.METRICS)
        self._adopt(self.state.resized(sizes))
        if self.spec.local:
            self.state["omega"][old:] = self.state["start"]

    def learn(self, c: int) -> int:
        """Learn the reading in `buffer`; return 0, or 1 + the index of an infinite feature."""
        status = self.learn_kernel(*self.memory, c)
        while status == at.NEEDS_SLOT:
            x = self.work[: self.state.size(at.FEATURES)].copy()
            self.make_room_for_prototypes()
            self.work[: len(x)] = x
            status = self.learn_kernel(*self.memory, c)
        return status

    def learn_rows(self, rows: Rows, classes: Ints, before: Rows | None = None) -> None:
        """Learn rows in order; they must be free of infinities.

        `before` (rows x classes) receives the probabilities of each sample before it is learnt.
        """
        assert len(rows) == len(classes), "kernels check no bounds"
        if before is None:
            before = np.empty((0, 0))
        done = 0
        while done < len(rows):
            done = kernels().learn_array(*self.memory, rows, classes, done, before)
            if done < len(rows):
                self.make_room_for_prototypes()

    def observe(self) -> int:
        """Update the feature scales with the reading in `buffer`; return a status as `learn`."""
        status: int = kernels().observe_reading(*self.memory)
        return status

    def predict_rows(self, rows: Rows) -> Rows:
        """Return class probabilities, one row per reading."""
        out = np.empty((len(rows), self.known))
        kernels().predict_array(self.floats, self.ints, self.work, rows, out)
        return out

    def classes_changed(self) -> None:
        """Refresh `probabilities`; call it after a class was added."""
        self._adopt(self.state)

    def __getstate__(self) -> dict[str, object]:
        return {"spec": self.spec, "state": self.state}

    def __setstate__(self, saved: dict[str, object]) -> None:
        self.spec = saved["spec"]  # type: ignore[assignment]
        self._adopt(saved["state"])  # type: ignore[arg-type]
