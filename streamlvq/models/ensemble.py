"""`NodeEnsemble`: the mean opinion of several nodes' models, each in its own coordinates."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Self

import numpy as np

from streamlvq.arrays import Floats, Ints, Label, Reading, Rows
from streamlvq.errors import SnapshotError
from streamlvq.estimator import (
    DEFAULT_LIMITS,
    INVALID_STATE_ERRORS,
    EstimatorState,
    ModelLock,
    StateLimits,
    build_estimator,
    exclusive,
)
from streamlvq.kernels import layout as at
from streamlvq.models.base import ArrayClassifier, CompiledClassifier
from streamlvq.models.parameters import ABSENT_VALUES
from streamlvq.models.vectorizer import Vectorizer, dictionary_maker, to_rows

MAX_GAIN_RATIO = 1e4  # between the sensors of two nodes; corrections stay far below


class NodeEnsemble(ArrayClassifier):
    """Mean of the probabilities of several nodes' models; it does not learn.

    A reading x of this node is one of another node at `gain * x + shift`. Each class is averaged
    over the models that know it.

    Parameters
    ----------
    models
        The models of the nodes.
    gains, shifts
        From the coordinates of this node to those of each other one, feature by feature.
    features
        Names of the features of gains and shifts.
    hidden
        A class of each model that it counts as not knowing; None for none.

    """

    def __init__(
        self,
        models: Sequence[Any],
        gains: Sequence[Floats],
        shifts: Sequence[Floats],
        features: Sequence[Hashable],
        hidden: Sequence[Label | None] | None = None,
    ) -> None:
        self.models, self.features = list(models), tuple(features)
        self.gains, self.shifts = [np.array(g) for g in gains], [np.array(s) for s in shifts]
        self.hidden = [None] * len(self.models) if hidden is None else list(hidden)
        self._lock = ModelLock()
        absent = getattr(self.models[0], "absent", "missing") if self.models else "missing"
        self._vectorizer = Vectorizer(list(self.features), ABSENT_VALUES[absent])
        self._labels: list[Label] = []
        for model, left_out in zip(self.models, self.hidden, strict=True):
            self._labels += [
                label
                for label in model.classes
                if label not in self._labels and (left_out is None or label != left_out)
            ]
        among = {label: k for k, label in enumerate(self._labels)}
        self._places = []
        holders = np.zeros(len(self._labels))
        for model, left_out in zip(self.models, self.hidden, strict=True):
            pairs = [
                (k, among[label])
                for k, label in enumerate(model.classes)
                if label in among and (left_out is None or label != left_out)
            ]
            columns, places = np.array(pairs, np.int64).reshape(-1, 2).T
            self._places.append((columns, places))
            holders[places] += 1.0
        self._holders = np.maximum(holders, 1.0)
        self._by_label = dictionary_maker(self._labels)
        self._empty = False
        # Where the features of each model are; None if one of them has no such entrance.
        column = {name: k for k, name in enumerate(self.features)}
        self._orders: list[Ints] | None = None
        if all(isinstance(model, CompiledClassifier) for model in self.models):
            self._orders = [
                np.array([column[name] for name in model.features], np.int64)
                for model in self.models
            ]

    @property
    def classes(self) -> tuple[Label, ...]:
        """Labels that a model knows."""
        return tuple(self._labels)

    @property
    def samples(self) -> int:
        """Number of labelled samples that all models have learnt."""
        return sum(model.samples for model in self.models)

    def learn_one(self, x: Reading, y: Label) -> None:
        """Raise: the models belong to other nodes."""
        raise NotImplementedError("expected a model that learns, got the models of other nodes")

    def learn_array(
        self, X: Any, y: Any, features: Sequence[Hashable] | None = None, *, w: Any = None
    ) -> None:
        """Raise: the models belong to other nodes."""
        raise NotImplementedError("expected a model that learns, got the models of other nodes")

    @exclusive
    def predict_labels_one(self, x: Reading) -> tuple[list[Label], Rows] | None:
        """Return labels and an array of their probabilities; None if no model knows anything."""
        if not self._labels:
            return None
        row = np.array(self._vectorizer.vector(x))
        self._empty = bool(np.isnan(row).all())
        return self._labels, self._mean_one(row)

    def predict_proba_one(self, x: Reading) -> dict[Label, float]:
        """Return the probability of every class that a model knows."""
        answer = self.predict_labels_one(x)
        return {} if answer is None else self._by_label(*answer[1].tolist())

    def predict_proba_array(self, X: Any, features: Sequence[Hashable] | None = None) -> Rows:
        """Return class probabilities: one row per reading, one column per entry of `classes`."""
        rows, names = to_rows(X, features)
        if names is None:
            names = list(self._column_names(rows.shape[1]))
        return self._mean(self._vectorizer.arrange(rows, names))

    def _column_names(self, width: int) -> list[Hashable]:
        """Return the names of columns without names, as the models know them."""
        named: list[Hashable] = self.models[0].column_names(width)
        return named

    def _mean_one(self, row: Floats) -> Rows:
        """Return the mean opinion of one reading, faster than `_mean`."""
        if self._orders is None:
            (only,) = self._mean(row[None])
            return np.asarray(only)
        total = np.zeros(len(self._labels))
        parts = zip(self.models, self.gains, self.shifts, self._places, self._orders, strict=True)
        for model, gain, shift, (columns, places), order in parts:
            if not len(columns):
                continue
            seen = model.predict_vector(_moved(row, gain, shift)[order])[columns]
            size = seen.sum()
            total[places] += seen / (size if size > 0.0 else 1.0)
        total /= self._holders
        size = total.sum()
        mean: Rows = total / (size if size > 0.0 else 1.0)
        return mean

    def _mean(self, rows: Rows) -> Rows:
        total = np.zeros((len(rows), len(self._labels)))
        parts = zip(self.models, self.gains, self.shifts, self._places, strict=True)
        for model, gain, shift, (columns, places) in parts:
            if not len(columns):
                continue
            seen = model.predict_proba_array(_moved(rows, gain, shift), self.features)[:, columns]
            size = seen.sum(axis=1, keepdims=True)
            total[:, places] += seen / np.where(size > 0.0, size, 1.0)
        total /= self._holders
        size = total.sum(axis=1, keepdims=True)
        mean: Rows = total / np.where(size > 0.0, size, 1.0)
        return mean

    def last_was_empty(self) -> bool:
        """Return True if the last predicted reading had none of the features."""
        return self._empty

    # --- state -----------------------------------------------------------------------------------

    def state(
        self, *, readings: bool = True, limits: StateLimits = DEFAULT_LIMITS
    ) -> EstimatorState:
        """Return a copy of all models as they travel, and where they are; `readings` or not."""
        parts = {
            f"node{k}": model.state(readings=False, limits=limits)
            for k, model in enumerate(self.models)
        }
        arrays = {"gains": np.array(self.gains), "shifts": np.array(self.shifts)}
        extra = {"features": [*self.features], "hidden": [*self.hidden]}
        return EstimatorState(type(self).__name__, {}, arrays, extra, parts)

    @classmethod
    def from_state(cls, state: EstimatorState, *, limits: StateLimits = DEFAULT_LIMITS) -> Self:
        """Validate a state, then rebuild the ensemble bit for bit."""
        count, extra = len(state.parts), state.extra
        if [*state.parts] != [f"node{k}" for k in range(count)] or not count:
            raise SnapshotError(
                f"ensemble: expected models by number, got {sorted(state.parts)[:9]}"
            )
        if extra.keys() != {"features", "hidden"} or len(extra["hidden"]) != count:
            raise SnapshotError(f"ensemble: expected features and {count} hidden classes")
        gains, shifts = _checked_coordinates(state.arrays, (count, len(extra["features"])))
        room = limits.shared(count)
        models = [build_estimator(part, limits=room) for part in state.parts.values()]
        try:
            return cls(models, list(gains), list(shifts), extra["features"], extra["hidden"])
        except INVALID_STATE_ERRORS as error:
            raise SnapshotError(f"ensemble: expected models that fit it: {error}") from error

    def __repr__(self) -> str:
        return f"NodeEnsemble({len(self.models)} models)"


def _moved(rows: Rows, gain: Floats, shift: Floats) -> Rows:
    """Return rows in other coordinates, within what models can read."""
    moved: Rows = np.clip(gain * rows + shift, -at.LARGEST_VALUE, at.LARGEST_VALUE)
    return moved


def _checked_coordinates(
    arrays: Mapping[str, Any], shape: tuple[int, int]
) -> tuple[Floats, Floats]:
    """Return gains and shifts of a state; raise `SnapshotError` if no sensor can have them."""
    if arrays.keys() != {"gains", "shifts"}:
        raise SnapshotError(f"ensemble: expected gains and shifts, got {sorted(arrays)[:9]}")
    gains, shifts = arrays["gains"], arrays["shifts"]
    if {gains.shape, shifts.shape} != {shape} or {gains.dtype, shifts.dtype} != {np.dtype(float)}:
        raise SnapshotError(f"ensemble: expected {shape} gains and shifts, got others")
    good = np.all((gains >= 1.0 / MAX_GAIN_RATIO) & (gains <= MAX_GAIN_RATIO))
    if not good or not np.all(np.abs(shifts) <= at.LARGEST_VALUE):
        raise SnapshotError(
            f"ensemble: expected gains from {1.0 / MAX_GAIN_RATIO:g} to {MAX_GAIN_RATIO:g} and "
            f"shifts up to {at.LARGEST_VALUE:g}"
        )
    return gains, shifts
