"""The way of most readings: many at once through one kernel.

What the kernel cannot do is left to the wrappers, one reading at a time: the first readings of
all, new classes, new features, and thresholds that each class has for itself.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from types import ModuleType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from streamlvq.events import Label, Readings, Rows
from streamlvq.models.base import LVQClassifier
from streamlvq.monitor.columns import Columns
from streamlvq.robustness import is_beyond
from streamlvq.wrappers import RelSimRejector, TimeIntegrator
from streamlvq.wrappers.rejector import Rejector
from streamlvq.wrappers.thresholds import (
    Adaptive,
    RecentCertainties,
    RejectCost,
    TargetAccuracy,
    TargetRate,
)
from streamlvq.wrappers.windows import NONE

Ints = npt.NDArray[np.int64]

_NO_WINDOWS = (np.zeros((1, 1, 1)), np.zeros(1, np.int64))
_NO_MEMORY = (np.zeros((4, 1)), np.zeros(1, np.int64))


@functools.cache
def kernels() -> ModuleType:
    from streamlvq.kernels import watch  # noqa: PLC0415

    return watch


class FastPath:
    """A model with its wrappers as one kernel.

    The kernel works on the memory of the wrappers themselves, so that one may go either way with
    every reading.
    """

    def __init__(
        self, model: LVQClassifier, integrator: TimeIntegrator | None, rejector: Rejector | None
    ) -> None:
        self._model = model
        self._windows = None if integrator is None else integrator._windows
        self._integrator = integrator
        self._rejector = rejector
        self._by_relsim = isinstance(rejector, RelSimRejector)
        self._known: frozenset[Any] = frozenset()
        self._features: tuple[Any, ...] = ()

    @classmethod
    def through(
        cls, model: Any, integrator: TimeIntegrator | None, rejector: Rejector | None
    ) -> Self | None:
        """A fast path, if there is one."""
        if not isinstance(model, LVQClassifier):
            return None
        if integrator is not None and integrator.delay:
            return None
        return cls(model, integrator, rejector) if cls._can_reject(rejector) else None

    @staticmethod
    def _can_reject(rejector: Rejector | None) -> bool:
        thresholds = None if rejector is None else rejector._thresholds
        return not (isinstance(thresholds, Adaptive) and thresholds.per_class)

    def is_ready(self, readings: Readings, k: int) -> bool:
        """Whether there is nothing new about the features and the label of a reading."""
        model, features, label = self._model, readings.features, readings.labels[k]
        if len(model._labels) < 2 or (label is not None and label not in model._codes):
            return False
        if features == self._features:
            return True
        if len(self._known) != len(model.features):  # it never loses one
            self._known = frozenset(model.features)
        if not self._known.issuperset(features):
            return False  # an unlabelled reading could do without them, but it is rare
        self._features = features
        return True

    def run(
        self, columns: Columns, start: int, readings: Readings, duplicates: Sequence[bool]
    ) -> int:
        """Go on from row `start` up to the first one with a new label; returns how far."""
        kinds = self._kinds(readings.labels, duplicates, start)
        end = start + len(kinds)
        rows = self._model._vectorizer.arrange(readings.rows[start:end], readings.features)
        places, fresh = self._enter(start, end, readings, duplicates)
        verdicts, found = self._watch(
            columns, start, np.ascontiguousarray(rows), kinds, places, fresh
        )
        self._conclude(columns, start, verdicts, found)
        return end

    def _kinds(
        self, labels: Sequence[Label | None], duplicates: Sequence[bool], start: int
    ) -> Ints:
        """What the kernel is to do with each row, up to the first one with a new label."""
        again, unlabelled = kernels().AGAIN, kernels().UNLABELLED
        codes = {None: unlabelled, **self._model._codes}
        try:
            kinds = [codes[y] for y in labels[start:]]
        except KeyError:
            kinds = []
            for y in labels[start:]:
                if y not in codes:
                    break
                kinds.append(codes[y])
        if True in duplicates:
            kinds = [again if duplicates[start + k] else kind for k, kind in enumerate(kinds)]
        return np.array(kinds, np.int64)

    def _enter(
        self, start: int, end: int, readings: Readings, duplicates: Sequence[bool]
    ) -> tuple[Ints, Ints]:
        """The window of each row, and whether it begins there."""
        windows = self._windows
        if windows is None:
            return np.zeros(end - start, np.int64), np.zeros(end - start, np.int64)
        assert self._integrator is not None
        places, fresh = [], []
        find, enter = windows.find, windows.enter
        columns = (readings.devices, readings.times, duplicates)
        for device, t, again in zip(*(column[start:end] for column in columns), strict=True):
            found = find(device, t)
            places.append(found if again else enter(device, t, found))
            fresh.append(found == NONE)
        if not all(duplicates[start:end]):  # which leave no trace
            windows.widen(len(self._model._labels))
            self._integrator._take_labels(self._model._labels)
        return np.array(places, np.int64), np.array(fresh, np.int64)

    def _watch(
        self, columns: Columns, start: int, rows: Rows, kinds: Ints, places: Ints, fresh: Ints
    ) -> tuple[Ints, Rows]:
        """Let the kernel go through the rows, and make room for it whenever it asks."""
        watch = kernels()
        engine = self._model._engine
        assert engine is not None
        settings, thresholds, recent = self._settings()
        memory, seen = _NO_MEMORY
        if recent is not None:
            memory, seen = recent.memory, np.array([recent.seen], np.int64)
        windows = (
            _NO_WINDOWS if self._windows is None else (self._windows.logs, self._windows.counts)
        )
        part = slice(start, start + len(rows))
        verdicts = np.zeros(len(rows), np.int64)
        found = np.zeros((len(rows), watch.OUT_COLUMNS))
        scratch = np.empty(len(thresholds))
        done = 0
        while done < len(rows):
            done = watch.watch(
                *engine.memory,
                rows,
                kinds,
                done,
                len(rows),
                places,
                fresh,
                *windows,
                settings,
                thresholds,
                memory,
                seen,
                scratch,
                columns.codes[part],
                verdicts,
                columns.versions[part],
                found,
                columns.probabilities[part],
            )
            if done < len(rows):
                engine.make_room_for_prototypes()
        if recent is not None:
            recent.seen, recent.threshold = int(seen[0]), None
        return verdicts, found

    def _settings(self) -> tuple[Any, Any, RecentCertainties | None]:
        """What the kernel is to go by: settings, thresholds of all classes, what they adapt to."""
        watch = kernels()
        settings = np.zeros(4)
        settings[watch.CERTAINTY] = watch.RELSIM if self._by_relsim else watch.PROBABILITY
        settings[watch.WINDOWED] = self._windows is not None
        labels = self._model._labels
        if self._rejector is None:
            return settings, np.zeros(len(labels)), None
        thresholds = self._rejector._thresholds
        if isinstance(thresholds, Adaptive):
            rules = {
                TargetRate: watch.TARGET_RATE,
                TargetAccuracy: watch.TARGET_ACCURACY,
                RejectCost: watch.REJECT_COST,
            }
            settings[watch.RULE] = rules[type(thresholds.rule)]
            settings[watch.TARGET] = thresholds.rule.target
            return settings, np.zeros(len(labels)), thresholds.recent(None)
        return settings, np.array([thresholds.find(label) for label in labels]), None

    def _conclude(self, columns: Columns, start: int, verdicts: Ints, found: Rows) -> None:
        """From what the kernel found out to the reasons that people are given."""
        watch = kernels()
        part = slice(start, start + len(verdicts))
        columns.certainties[part] = found[:, watch.OUT_CERTAINTY]
        columns.thresholds[part] = found[:, watch.OUT_THRESHOLD]
        columns.accepted[part] = verdicts == watch.ACCEPTED
        for k in np.flatnonzero(verdicts).tolist():
            if verdicts[k] == watch.NO_MODEL:
                columns.reasons[start + k] = "no_model"
            else:
                columns.reasons[start + k] = (
                    "outlier" if self._is_outlier(found[k]) else "ambiguous"
                )

    def _is_outlier(self, found: Rows) -> bool:
        _, threshold, relsim, distance, separation = found.tolist()
        if not self._by_relsim or not relsim < threshold <= 1.0:
            return False
        return is_beyond(threshold, distance, separation)
