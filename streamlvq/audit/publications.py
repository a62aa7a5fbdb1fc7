"""What attacks look at: two publications of a node, one after the other, and the true readings."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from streamlvq.arrays import Floats, Ints, Label, Rows
from streamlvq.audit.findings import Reconstruction
from streamlvq.estimator import estimator_class
from streamlvq.fusion.node_models import Model
from streamlvq.models.base import LVQClassifier
from streamlvq.snapshot import Snapshot

FIRST_ROOM = 64  # rows that a `Truth` starts with

# --- the true readings ----------------------------------------------------------------------------


class Truth:
    """Labelled readings that a node has learnt, in their order; no attack sees them.

    They tell how good a reconstruction is. NaN stands for a missing value.

    Parameters
    ----------
    features
        Names of the columns.
    rows, labels
        The readings so far; `add` adds to them.

    """

    def __init__(
        self,
        features: Sequence[Hashable],
        rows: Rows | None = None,
        labels: Sequence[Label] = (),
    ) -> None:
        self.features = tuple(features)
        self.labels: list[Label] = []
        self._rows: Rows = np.empty((FIRST_ROOM, len(self.features)))
        self._of_class: dict[Label, list[int]] = {}
        for row, label in zip([] if rows is None else rows, labels, strict=True):
            self.add(row, label)

    def add(self, row: Floats, label: Label) -> None:
        """Add the reading that was learnt next."""
        if len(self.labels) == len(self._rows):
            self._rows = np.concatenate([self._rows, np.empty_like(self._rows)])
        self._rows[len(self.labels)] = row
        self._of_class.setdefault(label, []).append(len(self.labels))
        self.labels.append(label)

    @property
    def rows(self) -> Rows:
        """The readings, one in each row."""
        return self._rows[: len(self.labels)]

    def of_class(self, label: Label) -> Ints:
        """Return the positions of the readings of a class."""
        return np.array(self._of_class.get(label, ()), np.int64)

    def judge(self, found: Reconstruction, spreads: Mapping[Hashable, float]) -> Reconstruction:
        """Return the reconstruction with the nearest true reading, of its class if it tells one.

        Differences are in `spreads`; features without one are in their own units.
        """
        among = np.arange(len(self.labels)) if found.label is None else self.of_class(found.label)
        columns = [k for k, name in enumerate(self.features) if name in found.values]
        if not len(among) or not columns:
            return found
        names = [self.features[k] for k in columns]
        rows = self.rows[among][:, columns]
        unit = np.array([spreads.get(name, 1.0) or 1.0 for name in names])
        values = np.array([found.values[name] for name in names])
        apart = np.abs(rows - values) / unit
        if found.other is not None:
            other = np.array([found.other[name] for name in names])
            apart = np.fmin(apart, np.abs(rows - other) / unit)
        errors = _root_mean_square(apart)
        if not np.isfinite(errors).any():
            return found
        nearest = int(np.nanargmin(errors))
        middle = np.nanmean(rows, axis=0)
        mean_error = _root_mean_square(np.abs(rows[nearest : nearest + 1] - middle) / unit)[0]
        truth = {name: float(rows[nearest, k]) for k, name in enumerate(names)}
        return replace(
            found, truth=truth, error=float(errors[nearest]), mean_error=float(mean_error)
        )


def _root_mean_square(apart: Rows) -> Floats:
    """Return it for each row; missing values do not count, and a row without any has NaN."""
    known = np.isfinite(apart)
    total = np.where(known, apart**2, 0.0).sum(axis=1)
    count = known.sum(axis=1)
    return np.where(count > 0, np.sqrt(total / np.maximum(count, 1)), np.nan)


# --- two publications -----------------------------------------------------------------------------


@dataclass(frozen=True)
class ClassChange:
    """Statistics of a class before and after; before its first reading they are zero.

    `seen` is how many of its readings had each feature, with forgetting less.
    """

    label: Label
    count: tuple[float, float]
    seen: tuple[Floats, Floats]
    mean: tuple[Floats, Floats]
    variance: tuple[Floats, Floats]

    @property
    def new(self) -> int:
        """Number of readings between the two."""
        return round(self.count[1] - self.count[0])


@dataclass(frozen=True)
class PrototypeChange:
    """A prototype that is in the same place of both publications, and has moved."""

    index: int
    label: Label
    before: Floats
    after: Floats


@dataclass(frozen=True)
class Step:
    """A publication of one model of a node, and the one before it.

    Parameters
    ----------
    node, publication
        The node, and the number of the publication, from 1 on.
    before
        The same model in the publication before; None for the first.
    after
        The model as published.
    to_sensor
        Converts feature values from the units of the model to those of the sensors.
    births
        For each prototype the position of the labelled reading it was born on, from a log; None
        if only what is published may tell.

    """

    node: str
    publication: int
    before: Model | None
    after: Model
    to_sensor: Callable[[dict[Hashable, float]], dict[Hashable, float]]
    births: Sequence[int] | None = None

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Parameters of the model: they are part of what is published."""
        return self.after.state.parameters

    @property
    def forget(self) -> float:
        """Share of the past that one reading leaves, from the model's half-life."""
        half_life = self.parameters.get("half_life")
        return 1.0 if half_life is None else float(0.5 ** (1.0 / half_life))

    def old(self, name: str) -> Any:
        """Return an array of the publication before with a column for each feature of this one.

        None if there is no such array.
        """
        if self.before is None or name not in self.before.arrays:
            return None
        array = self.before.arrays[name]
        if list(self.before.features) == list(self.after.features):
            return array
        place = {feature: k for k, feature in enumerate(self.before.features)}
        wide = np.zeros((*array.shape[:-1], len(self.after.features)))
        for k, feature in enumerate(self.after.features):
            if feature in place:
                wide[..., k] = array[..., place[feature]]
        return wide

    def class_changes(self) -> Iterator[ClassChange]:
        """Yield the classes whose number of readings changed; none without class statistics."""
        arrays = self.after.arrays
        tables = ("class_weight", "class_mean", "class_variance")
        if any(name not in arrays for name in (*tables, "class_count")):
            return
        former = {} if self.before is None else {y: k for k, y in enumerate(self.before.labels)}
        blank = np.zeros(len(self.after.features))
        for code, label in enumerate(self.after.labels):
            old = former.get(label)
            counted = self.before is not None and old is not None
            counted = counted and "class_count" in self.before.arrays  # type: ignore[union-attr]
            count = float(self.before.arrays["class_count"][old]) if counted else 0.0  # type: ignore[union-attr]
            if count == arrays["class_count"][code]:
                continue
            seen, mean, variance = (
                (self.old(name)[old] if counted else blank, arrays[name][code]) for name in tables
            )
            both = (count, float(arrays["class_count"][code]))
            yield ClassChange(label, both, seen, mean, variance)

    def prototype_changes(self) -> list[PrototypeChange]:
        """Return the prototypes that moved, those that moved furthest first."""
        w1, w0 = self.after.arrays.get("w"), self.old("w")
        if w1 is None or w0 is None or self.before is None:
            return []
        count = min(self.after.prototypes, self.before.prototypes)
        labels = self.after.arrays["label"][:count]
        found = []
        for p in range(count):
            old = self.before.labels[self.before.arrays["label"][p]]
            label = self.after.labels[labels[p]]
            if old == label and np.isfinite(w0[p]).all() and not np.array_equal(w0[p], w1[p]):
                found.append(PrototypeChange(p, label, w0[p], w1[p]))
        unit = self.inverse_scales()
        return sorted(found, key=lambda one: -float(np.abs((one.after - one.before) * unit).max()))

    def inverse_scales(self) -> Floats:
        """Return 1 / scale of each feature before the step; 0 for features without spread."""
        inverse = self.old("inverse")
        if inverse is None:
            inverse = self.after.arrays.get("inverse", np.ones(len(self.after.features)))
        scales: Floats = np.asarray(inverse, np.float64)
        return scales

    def spreads(self, label: Label | None) -> dict[Hashable, float]:
        """Return the spread of each feature in a class, as published; of all classes if None.

        Where a class has no spread yet, those of its features over all readings stand in.
        """
        arrays = self.after.arrays
        whole = np.sqrt(np.asarray(arrays.get("variance", np.ones(len(self.after.features)))))
        table = arrays.get("class_variance")
        if table is not None and label is not None and label in self.after.labels:
            own = np.sqrt(table[self.after.labels.index(label)])
            whole = np.where(own > 0.0, own, whole)
        return dict(
            zip(self.after.features, np.where(whole > 0.0, whole, 1.0).tolist(), strict=True)
        )

    def reconstruction(
        self,
        label: Label | None,
        values: Floats,
        truth: Truth | None,
        other: Floats | None = None,
        approximate: bool = False,
    ) -> Reconstruction:
        """Return a reading found by an attack, judged by a log if there is one."""
        found = Reconstruction(
            self.node,
            self.publication,
            label,
            self._named(values),
            None if other is None else self._named(other),
            approximate=approximate,
        )
        return found if truth is None else truth.judge(found, self.sensor_spreads(label))

    def _named(self, values: Floats) -> dict[Hashable, float]:
        """Return the values that are known, by feature, in sensor units."""
        pairs = zip(self.after.features, values.tolist(), strict=True)
        return self.to_sensor({name: value for name, value in pairs if np.isfinite(value)})

    def sensor_spreads(self, label: Label | None) -> dict[Hashable, float]:
        """Return `spreads` in sensor units: of transformed features, how far one moves a value."""
        spreads = self.spreads(label)
        means = self.after.arrays.get("mean", np.zeros(len(self.after.features)))
        middle = dict(zip(self.after.features, np.asarray(means).tolist(), strict=True))
        at = self.to_sensor(dict(middle))
        moved = self.to_sensor({name: middle[name] + spreads[name] for name in middle})
        return {name: abs(moved[name] - at[name]) or 1.0 for name in middle}


def published_models(snapshot: Snapshot) -> dict[str, Model]:
    """Return the models with prototypes in a snapshot, as it is: "" or members of a committee."""
    return {
        name: Model(state, state.arrays, state.extra["features"], state.extra["classes"])
        for name, state in snapshot.node_models().items()
        if issubclass(estimator_class(state.kind), LVQClassifier)
    }
