"""The prototypes, metrics and scales of all nodes in one place, on common features and labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from streamlvq.fusion.brought import Model
from streamlvq.fusion.tables import Axes
from streamlvq.kernels import layout as at
from streamlvq.state import Floats, Ints

OF_FEATURES = ("mean", "variance", "peak", "weight", "inverse")
MOST = 1e120  # of anything that a node says: sums and products of it must have an end
SHARPEST = 1e60  # and of one over a deviation
OF_PROTOTYPES = ("usefulness", "wins", "rate")


@dataclass
class Pool:
    """Rows of all nodes one below the other; `node` says whose they are.

    Prototypes are in the units of their own node's sensors, NaN where they do not know a feature.
    Metrics are in units of their own node's feature scales.
    """

    scales: dict[str, Floats]  # nodes x features
    calibration: Floats  # nodes x 2
    samples: Floats  # of nodes
    node: Ints  # of every prototype
    label: Ints
    against: Ints  # the other class of the pair, -1 if there are no pairs
    w: Floats
    moment: Floats
    numbers: dict[str, Floats]  # of every prototype
    metric: Ints  # which metric a prototype measures with, -1 for none
    metric_node: Ints  # of every metric
    omega: list[Floats]
    moments: list[tuple[Floats, float]]  # of every metric: of columns, in total
    platt: Floats  # of the pair of every prototype, as its class with the lower number sees it

    @classmethod
    def of(cls, models: Sequence[Model], axes: Axes) -> Pool:
        n, d = len(models), len(axes.features)
        pool = cls(
            scales={name: np.zeros((n, d)) for name in OF_FEATURES},
            calibration=np.ones((n, at.CALIBRATION_COUNT)),
            samples=np.array([model.samples for model in models], float),
            **_empty(d),  # type: ignore[arg-type]
        )
        parts = [pool._add(i, model, axes) for i, model in enumerate(models) if model.labels]
        for name in ("node", "label", "against", "w", "moment", "metric", "platt"):
            if parts:
                setattr(pool, name, np.concatenate([part[name] for part in parts]))
        if parts:
            pool.numbers = {
                name: np.concatenate([part[name] for part in parts]) for name in OF_PROTOTYPES
            }
        pool.metric_node = np.array(pool.metric_node, np.int64)
        return pool

    def _add(self, i: int, model: Model, axes: Axes) -> dict[str, Floats]:
        arrays, columns, codes = model.arrays, axes.columns(model), axes.codes(model)
        d, count = len(axes.features), model.prototypes
        for name in OF_FEATURES:
            self.scales[name][i, columns] = _bounded(arrays[name])
        np.minimum(self.scales["inverse"][i], SHARPEST, out=self.scales["inverse"][i])
        self.calibration[i] = _bounded(arrays["calibration"])
        label = codes[arrays["label"][:count]]
        paired = "platt" in arrays
        part: dict[str, Any] = {name: _bounded(arrays[name][:count]) for name in OF_PROTOTYPES}
        part["node"], part["label"] = np.full(count, i), label
        part["against"] = label[np.arange(count) ^ 1] if paired else np.full(count, -1)
        part["w"] = _placed(arrays["w"][:count], columns, d, np.nan)
        part["moment"] = _placed(_bounded(arrays["w_moment"][:count]), columns, d, 0.0)
        part["platt"] = np.zeros((count, at.PLATT_COUNT))
        if paired:
            part["platt"][...] = _sigmoids(_bounded(arrays["platt"][: count // 2]), label)
        part["metric"] = self._add_metrics(i, model, columns, d, count, paired)
        return part

    def _add_metrics(
        self, i: int, model: Model, columns: Ints, d: int, count: int, paired: bool
    ) -> Ints:
        arrays = model.arrays
        if "omega" not in arrays:
            return np.full(count, -1)
        first = len(self.omega)
        omega = arrays["omega"]
        local = len(omega) > 1
        used = (count // 2 if paired else count) if local else 1
        for m in range(used):
            self.omega.append(_placed(omega[m], columns, d, 0.0))
            total = min(float(arrays["total_moment"][m]), MOST)
            column = _placed(_bounded(arrays["column_moment"][m : m + 1]), columns, d, 0.0)[0]
            self.moments.append((column, total))
        self.metric_node = np.append(self.metric_node, np.full(used, i))
        own = np.arange(count)
        return first + (own // 2 if paired else own if local else np.zeros(count, np.int64))


def _bounded(values: Floats) -> Floats:
    return np.clip(values, -MOST, MOST)


def _placed(rows: Floats, columns: Ints, d: int, missing: float) -> Floats:
    out = np.full((len(rows), d), missing)
    out[:, columns] = rows
    return out


def _sigmoids(platt: Floats, label: Ints) -> Floats:
    """Of every prototype of pairs, as seen from the class with the lower common number.

    Seen from the other one, scores and offsets change their signs and the classes their places.
    """
    seen = platt.copy()
    turned = label[::2] > label[1::2]
    seen[turned, at.PLATT_OFFSET] *= -1.0
    seen[turned, at.PLATT_CURVATURE + 1] *= -1.0
    seen[turned, at.PLATT_FIRST] = platt[turned, at.PLATT_SECOND]
    seen[turned, at.PLATT_SECOND] = platt[turned, at.PLATT_FIRST]
    return np.repeat(seen, 2, axis=0)


def _empty(d: int) -> dict[str, object]:
    none = np.zeros(0, np.int64)
    return {
        "node": none,
        "label": none,
        "against": none,
        "w": np.zeros((0, d)),
        "moment": np.zeros((0, d)),
        "numbers": {name: np.zeros(0) for name in OF_PROTOTYPES},
        "metric": none,
        "metric_node": none,
        "omega": [],
        "moments": [],
        "platt": np.zeros((0, at.PLATT_COUNT)),
    }
