"""The way of readings through a model that was served: decided on as ever, and never learnt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from streamlvq.events import Label, Readings, Rows
from streamlvq.monitor.columns import Columns
from streamlvq.monitor.fast_path import FastPath, Ints, kernels
from streamlvq.wrappers.rejector import Rejector
from streamlvq.wrappers.thresholds import Adaptive, RecentCertainties


class ServingPath(FastPath):
    """The same kernel on the memory of a model that stays as it is.

    To the kernel no reading has a label. Thresholds that go by labels, or by the class, therefore
    follow afterwards: what a model that stays as it is says of a reading does not depend on them.
    """

    @staticmethod
    def _can_reject(rejector: Rejector | None) -> bool:
        return True

    def is_ready(self, readings: Readings, k: int) -> bool:
        """Always: it learns neither features nor classes, and what it does not know is left out."""
        return len(self._model._labels) > 1

    def run(
        self, columns: Columns, start: int, readings: Readings, duplicates: Sequence[bool]
    ) -> int:
        """Go on from row `start` to the end; returns how far."""
        rows = self._model._vectorizer.arrange(readings.rows[start:], readings.features)
        kinds = self._kinds(readings.labels, duplicates, start)
        places, fresh = self._enter(start, len(readings), readings, duplicates)
        verdicts, found = self._watch(
            columns, start, np.ascontiguousarray(rows), kinds, places, fresh
        )
        if self._follows():
            codes = columns.codes[start:].tolist()
            self._follow(codes, readings.labels[start:], duplicates[start:], verdicts, found)
        self._conclude(columns, start, verdicts, found)
        return len(readings)

    def _kinds(
        self, labels: Sequence[Label | None], duplicates: Sequence[bool], start: int
    ) -> Ints:
        watch = kernels()
        kinds: Ints = np.full(len(labels) - start, watch.UNLABELLED, np.int64)
        kinds[np.array(duplicates[start:], np.bool_)] = watch.AGAIN
        return kinds

    # --- thresholds ------------------------------------------------------------------------------

    def _follows(self) -> bool:
        """Whether the thresholds need what the kernel does not have."""
        thresholds = None if self._rejector is None else self._rejector._thresholds
        return thresholds is not None and (
            thresholds.needs_labels or (isinstance(thresholds, Adaptive) and thresholds.per_class)
        )

    def _settings(self) -> tuple[Any, Any, RecentCertainties | None]:
        if not self._follows():
            return super()._settings()
        watch = kernels()
        settings = np.zeros(4)
        settings[watch.CERTAINTY] = watch.RELSIM if self._by_relsim else watch.PROBABILITY
        settings[watch.WINDOWED] = self._windows is not None
        # The kernel measures what tells an outlier only for those that it rejects.
        return settings, np.full(len(self._model._labels), np.inf), None

    def _follow(
        self,
        codes: list[int],
        truths: Sequence[Label | None],
        duplicates: Sequence[bool],
        verdicts: Ints,
        found: Rows,
    ) -> None:
        """Go through the decisions with thresholds that hear of each before the next one."""
        assert self._rejector is not None
        watch, thresholds = kernels(), self._rejector._thresholds
        labels = [self._model._labels[code] for code in codes]
        certainties = found[:, watch.OUT_CERTAINTY].tolist()
        judged = (verdicts != watch.NO_MODEL).tolist()
        in_force = []
        columns = zip(labels, certainties, truths, duplicates, judged, strict=True)
        for label, certainty, y, again, counts in columns:
            in_force.append(thresholds.find(label))
            if counts and not again and (y is not None or not thresholds.needs_labels):
                right = thresholds.needs_labels and label == y
                thresholds.remember(label, certainty, right)
        found[:, watch.OUT_THRESHOLD] = in_force
        kept = found[:, watch.OUT_CERTAINTY] >= found[:, watch.OUT_THRESHOLD]
        verdicts[np.array(judged, np.bool_) & kept] = watch.ACCEPTED
