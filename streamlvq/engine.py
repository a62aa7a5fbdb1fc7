"""A model's memory together with the kernels that work on it.

Classes are numbers here, features are columns. The engine makes room before a kernel needs it.
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
from streamlvq.state import Floats, Ints, State

Rows = npt.NDArray[np.float64]

PATIENCE = 3.0  # seconds; from the cache the kernels are there in less than one
COMPILING = "compiling the kernels, once for this installation: one to two minutes"
_LOG = logging.getLogger("streamlvq")


@functools.cache
def kernels() -> ModuleType:
    """The compiled kernels; imported late, because that takes a while the first time."""
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
    """What a model is, before it has learnt anything."""

    rule: int
    kind: int
    local: bool
    rank: int | None
    standardize: bool
    buffer: int
    initial: int
    seed: int

    def rows(self, features: int) -> int:
        """Rows of a metric over that many features."""
        if self.kind == at.MATRIX:
            return min(self.rank or features, features)
        return 1 if self.kind == at.DIAGONAL else 0

    def metrics(self, slots: int) -> int:
        if self.rule == at.RULE_PAIRWISE:
            return slots // 2
        if self.kind == at.EUCLIDEAN:
            return 0
        return slots if self.local else 1

    def metric_of(self, prototype: int) -> int:
        """The number of the metric that a prototype measures with."""
        if self.rule == at.RULE_PAIRWISE:
            return prototype // 2
        return prototype if self.local else 0

    def room(self, classes: int) -> dict[int, int]:
        """Sizes that go with room for that many classes."""
        sizes = {at.CLASSES: classes}
        if self.rule == at.RULE_PAIRWISE:
            pairs = classes * (classes - 1) // 2
            sizes |= {at.PAIRS: pairs, at.SLOTS: 2 * pairs, at.METRICS: pairs}
        return sizes

    def start_metric(self, features: int) -> Floats:
        """The metric before learning: all features alike, or a random projection if rank is low."""
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
    """Learns and predicts on vectors."""

    # The two kernels that run for each reading, one attribute away. They belong to the class, not
    # to its instances: River would count a compiled function as memory of the model.
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
        self._adopt(State(header))
        self.state["calibration"][at.TEMPERATURE] = temperature
        self._start_metrics(0, 0)

    def _adopt(self, state: State) -> None:
        """Use this memory from now on; the arrays are kept at hand for the hot path."""
        kernels()
        self.state = state
        self.floats, self.ints, self.work = state.floats, state.ints, state.work
        self.memory = (self.floats, self.ints, self.work)
        self.buffer = state.buffer
        d, c = state.size(at.FEATURES), state.size(at.KNOWN)
        self.probabilities = self.work[d : d + c]

    def _start_metrics(self, old_rank: int, old_features: int) -> None:
        """Fill in the parts of all metrics that are new; keep what was learnt of the others."""
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
        """How many classes were learnt."""
        return self.state.size(at.KNOWN)

    def set_parameters(self, parameters: dict[int, float], switches: dict[int, int]) -> None:
        """Learning rates and the like; may change at any time."""
        self.state.forget_answer()
        for which, value in parameters.items():
            self.floats[which] = value
        for which, number in switches.items():
            self.ints[which] = number

    def add_features(self, count: int) -> None:
        """Make room for features that appeared; prototypes do not know them yet."""
        d, rank = self.state.size(at.FEATURES), self.state.size(at.RANK)
        sizes = {at.FEATURES: d + count, at.RANK: self.spec.rows(d + count)}
        self._adopt(self.state.resized(sizes))
        self.ints[at.GAPS] += count * self.state.size(at.PROTOTYPES)
        self._start_metrics(rank, d)

    def make_room_for_classes(self, count: int) -> None:
        room = self.state.size(at.CLASSES)
        while room < count:
            room *= 2
        if room > self.state.size(at.CLASSES):
            self._adopt(self.state.resized(self.spec.room(room)))

    def make_room_for_rehearsal(self, samples: int) -> None:
        """A buffer for a model that was built without one."""
        if self.state.size(at.BUFFER) == 0 and samples > 0:
            self._adopt(self.state.resized({at.BUFFER: samples}))

    def make_room_for_prototypes(self) -> None:
        slots = 2 * self.state.size(at.SLOTS)
        sizes = {at.SLOTS: slots, at.METRICS: self.spec.metrics(slots)}
        old = self.state.size(at.METRICS)
        self._adopt(self.state.resized(sizes))
        if self.spec.local:
            self.state["omega"][old:] = self.state["start"]

    def learn(self, c: int) -> int:
        """Learn the reading in `buffer`; 0, or 1 + the index of an infinite feature."""
        status = self.learn_kernel(*self.memory, c)
        while status == at.NEEDS_SLOT:
            x = self.work[: self.state.size(at.FEATURES)].copy()
            self.make_room_for_prototypes()
            self.work[: len(x)] = x
            status = self.learn_kernel(*self.memory, c)
        return status

    def learn_rows(self, rows: Rows, classes: Ints, before: Rows | None = None) -> None:
        """As `learn` for each row; the rows hold no infinities.

        `before` (rows x classes) is given the probabilities of each sample before it was learnt.
        """
        assert len(rows) == len(classes), "a kernel does not look where an array ends"
        if before is None:
            before = np.empty((0, 0))
        done = 0
        while done < len(rows):
            done = kernels().learn_array(*self.memory, rows, classes, done, before)
            if done < len(rows):
                self.make_room_for_prototypes()

    def observe(self) -> int:
        status: int = kernels().observe_reading(*self.memory)
        return status

    def predict_rows(self, rows: Rows) -> Rows:
        out = np.empty((len(rows), self.known))
        kernels().predict_array(self.floats, self.ints, self.work, rows, out)
        return out

    def classes_changed(self) -> None:
        """To be called when a class was born: `probabilities` is longer now."""
        self._adopt(self.state)

    def __getstate__(self) -> dict[str, object]:
        return {"spec": self.spec, "state": self.state}

    def __setstate__(self, saved: dict[str, object]) -> None:
        self.spec = saved["spec"]  # type: ignore[assignment]
        self._adopt(saved["state"])  # type: ignore[arg-type]
