"""A fused model as a state, in the coordinates of a node."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np

from streamlvq.arrays import Floats, Ints
from streamlvq.estimator import EstimatorState, construct, estimator_class
from streamlvq.fusion.class_tables import Axes, ClassStatistics
from streamlvq.fusion.combine import CombinedModel, FusedMetric, factor_metric
from streamlvq.fusion.node_models import Model, ModelLayout
from streamlvq.kernels import layout as at
from streamlvq.models.engine import ARRAY_SECTIONS, FIXED_SIZES, ModelSpec
from streamlvq.models.validation import (
    MAX_SAMPLES,
    MIN_CAPACITY,
    NAMES,
    StateSizes,
    all_sizes,
    shape_of,
)

START_SLOPE = -4.0  # of a sigmoid that nobody has fitted yet, see `kernels.pairwise`


@dataclass(frozen=True)
class Coordinates:
    """Coordinates of the sensors of a node: x = gain * common + shift."""

    gain: Floats
    shift: Floats


def assemble(
    combined: CombinedModel,
    statistics: ClassStatistics,
    axes: Axes,
    visible: Ints,
    columns: Ints,
    coordinates: Coordinates,
    template: Model,
    layout: ModelLayout,
) -> EstimatorState:
    """Return the state of the fused model.

    `visible` and `columns` are the labels and features that are wanted; the model gets the
    parameters of the template.
    """
    width = len(columns)
    if width < len(axes.features):
        combined, statistics, coordinates = _narrowed(
            combined, statistics, coordinates, columns, layout.rank
        )
    parameters = layout.parameters(template.state.parameters, width)
    model: Any = construct(estimator_class(template.type), parameters)
    seed = 0 if template.sizes is None else template.sizes["seed"]
    spec: ModelSpec = replace(model.spec(), seed=seed)  # that of a model may be drawn each time
    part = _Part(combined, statistics, visible, coordinates, spec, width)
    sizes = StateSizes(
        slots=part.slots,
        prototypes=len(part.label),
        classes=part.classes,
        buffer=model.buffer_size if spec.buffer > 0 else 0,
        stored=0,
        samples=int(min(_counts(statistics, visible).sum(), MAX_SAMPLES)),
        random=1,
        seed=seed,
    )
    kept = all_sizes(sizes, spec, width) | {at.BUFFER: 0, at.RANGES: 0}
    arrays = {}
    for name in NAMES:
        size = shape_of(name, kept)
        if np.prod(size):
            arrays[name] = _filled(name, size, part.rows(name))
    extra = {
        "features": [axes.features[k] for k in columns],
        "classes": [axes.labels[k] for k in visible],
        "columns": None,
        "sizes": msgspec.structs.asdict(sizes),
    }
    return EstimatorState(template.type, parameters, arrays, extra)


def _narrowed(
    combined: CombinedModel,
    statistics: ClassStatistics,
    coordinates: Coordinates,
    columns: Ints,
    rank: int,
) -> tuple[CombinedModel, ClassStatistics, Coordinates]:
    """Leave out the features that a node does not have."""
    return (
        replace(
            combined,
            w=combined.w[:, columns],
            moment=combined.moment[:, columns],
            metrics=[_narrow_metric(each, columns, rank) for each in combined.metrics],
            scales={name: values[columns] for name, values in combined.scales.items()},
        ),
        replace(
            statistics,
            weight=statistics.weight[:, columns],
            mean=statistics.mean[:, columns],
            variance=statistics.variance[:, columns],
        ),
        Coordinates(coordinates.gain[columns], coordinates.shift[columns]),
    )


def _narrow_metric(metric: FusedMetric, columns: Ints, rank: int) -> FusedMetric:
    rows = metric.omega[:, columns]
    if len(rows) > len(columns):  # as many rows as features are enough
        rows, _ = factor_metric(rows.T @ rows, min(rank, len(columns)))
    return metric._replace(omega=rows, columns=metric.columns[columns])


def _counts(statistics: ClassStatistics, visible: Ints) -> Floats:
    """Return whole samples of each class: weights that were capped need not be whole."""
    counts: Floats = np.maximum(np.round(statistics.samples[visible]), 1.0)
    return counts


def _filled(name: str, shape: tuple[int, ...], rows: Any) -> Any:
    """Return an array of that shape that begins with these rows."""
    start = ARRAY_SECTIONS[name].start if name not in FIXED_SIZES else 0.0
    dtype = np.int64 if name == "label" else np.float64
    if name == "omega":
        out = np.empty(shape)
        out[:] = rows[-1]  # free slots start where every new metric does
        rows = rows[:-1]
    else:
        out = np.full(shape, start, dtype)
    rows = np.asarray(rows)
    out[tuple(slice(0, n) for n in rows.shape)] = rows
    return out


class _Part:
    """The wanted part of a combined model, row by row."""

    def __init__(
        self,
        combined: CombinedModel,
        statistics: ClassStatistics,
        visible: Ints,
        coordinates: Coordinates,
        spec: ModelSpec,
        width: int,
    ) -> None:
        self.combined, self.spec, self.width = combined, spec, width
        self.coordinates = coordinates
        self.statistics, self.visible = statistics, visible
        code = {int(k): n for n, k in enumerate(visible)}
        self.paired = spec.rule == at.RULE_PAIRWISE
        if self.paired:
            self._take_pairs(code)
        else:
            self.chosen = np.flatnonzero(np.isin(combined.label, visible))
            self.label = np.array([code[int(k)] for k in combined.label[self.chosen]], np.int64)
            self.w = combined.w[self.chosen]
            self.metrics = combined.metrics
            if spec.local and combined.metrics:
                self.metrics = [combined.metrics[k] for k in self.chosen]
        self.classes = max(MIN_CAPACITY, len(visible))
        self.slots = spec.room(self.classes).get(
            at.PROTOTYPE_CAPACITY, max(MIN_CAPACITY, len(self.label))
        )

    def _take_pairs(self, code: dict[int, int]) -> None:
        """All pairs of the classes in their order; what no node has is made of class means."""
        combined = self.combined
        found = {
            (int(a), int(b)): k
            for k, (a, b) in enumerate(zip(combined.label, combined.against, strict=True))
        }
        places: list[Floats] = []
        platt: list[Floats] = []
        label: list[int] = []
        self.metrics = []
        for high in range(1, len(self.visible)):
            for low in range(high):
                pair = int(self.visible[low]), int(self.visible[high])
                label += [low, high]
                k = found.get(pair)
                if k is None:
                    places += [self.statistics.mean[pair[0]], self.statistics.mean[pair[1]]]
                    self.metrics.append(_usual(combined.metrics, self.width))
                    platt.append(_usual_sigmoid(combined.platt))
                else:
                    places += [combined.w[k], combined.w[found[pair[::-1]]]]
                    self.metrics.append(combined.metrics[k // 2])
                    platt.append(combined.platt[k])
        self.label = np.array(label, np.int64)
        self.w = np.array(places).reshape(len(label), self.width)
        self.platt = np.array(platt).reshape(-1, at.PLATT_COUNT)

    def rows(self, name: str) -> Any:
        """Return the content of an array, without room to grow."""
        gain, shift = self.coordinates.gain, self.coordinates.shift
        combined, stats = self.combined, self.statistics
        if name == "still":
            return np.zeros(self.width)
        if name in ("variance", "mean", "peak", "weight", "inverse", "varies"):
            value = combined.scales[name]
            known = combined.scales["weight"] > 0
            moved = {
                "mean": np.where(known, gain * value + shift, 0.0),
                "variance": gain * gain * value,
                "peak": gain * value,
                "weight": value,
                "inverse": value / gain,
                "varies": value,
            }
            return moved[name]
        if name == "w":
            return gain * self.w + shift
        if name.startswith("class_"):
            return self._class(name, stats, gain, shift)
        if name in ("omega", "row_moment", "column_moment", "total_moment", "start"):
            return self._metric(name)
        if name == "label":
            return self.label
        if name == "platt":
            return self.platt
        if name == "calibration":
            return combined.calibration
        if name == "born" or self.paired:
            return np.zeros(len(self.label)) if name != "w_moment" else np.zeros(self.w.shape)
        if name == "w_moment":
            return combined.moment[self.chosen]
        return combined.numbers[name][self.chosen]

    def _class(self, name: str, stats: ClassStatistics, gain: Floats, shift: Floats) -> Any:
        seen = stats.weight[self.visible] > 0
        return {
            "class_count": _counts(stats, self.visible),
            "class_weight": stats.weight[self.visible],
            "class_mean": np.where(seen, gain * stats.mean[self.visible] + shift, 0.0),
            "class_variance": np.where(seen, gain * gain * stats.variance[self.visible], 0.0),
        }[name]

    def _metric(self, name: str) -> Any:
        rank = self.spec.rows(self.width)
        start = self.spec.start_metric(self.width)
        if name == "start":
            return start
        if name == "omega":
            return np.array([_padded(each.omega, rank) for each in self.metrics] + [start])
        if name == "row_moment":
            return np.array([each.total / rank for each in self.metrics])[:, None].repeat(rank, 1)
        if name == "column_moment":
            return np.array([each.columns for each in self.metrics]).reshape(-1, self.width)
        return np.array([each.total for each in self.metrics])


def _padded(omega: Floats, rank: int) -> Floats:
    out = np.zeros((rank, omega.shape[1]))
    out[: len(omega)] = omega
    return out


def _usual(metrics: list[FusedMetric], width: int) -> FusedMetric:
    """Return the mean over all pairs, for a pair that no node has."""
    if not metrics:
        return FusedMetric(np.eye(width) / np.sqrt(width), 0.0, np.zeros(width), 0.0)
    matrix = np.mean([each.omega.T @ each.omega for each in metrics], axis=0)
    rows, loss = factor_metric(matrix, len(metrics[0].omega))
    columns = np.mean([each.columns for each in metrics], axis=0)
    return FusedMetric(rows, loss, columns, float(np.mean([each.total for each in metrics])))


def _usual_sigmoid(platt: Floats) -> Floats:
    usual = np.zeros(at.PLATT_COUNT)
    usual[at.PLATT_SLOPE] = platt[:, at.PLATT_SLOPE].mean() if len(platt) else START_SLOPE
    return usual
