"""The plane that a metric looks at most."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from streamlvq.models.base import LVQClassifier
from streamlvq.plot.looks import Floats, short
from streamlvq.plot.rows import inverse_scales


@dataclass(frozen=True)
class Plane:
    """Two directions in feature space, and what to call them."""

    centre: Floats
    directions: Floats  # 2 x features, orthonormal in feature scales
    inverse: Floats
    names: tuple[str, str]

    def project(self, rows: Floats) -> Floats:
        projected: Floats = ((rows - self.centre) * self.inverse) @ self.directions.T
        return projected

    def lift(self, points: Floats, rows: Floats) -> Floats:
        """Readings that project to these points and otherwise resemble the closest of the rows."""
        typical = _smooth(points, self.project(rows)) @ rows
        back = np.divide(1.0, self.inverse, out=np.zeros_like(self.inverse), where=self.inverse > 0)
        lifted: Floats = typical + (points - self.project(typical)) @ self.directions * back
        return lifted


def _smooth(points: Floats, shadows: Floats) -> Floats:
    """How much each of the shadows says about each point: a row of weights that add up to 1."""
    width = np.maximum(shadows.std(axis=0), 1e-12) / 10
    a, b = points / width, shadows / width
    half = a @ b.T - 0.5 * (b**2).sum(axis=1)  # minus half the squared distance, up to a constant
    weights = np.exp(half - half.max(axis=1, keepdims=True))
    shares: Floats = weights / weights.sum(axis=1, keepdims=True)
    return shares


def metric_plane(model: LVQClassifier, rows: Floats) -> Plane:
    features = len(model.features)
    if features < 2:
        raise ValueError(f"expected a model with at least 2 features, got {features}")
    centre, inverse = rows.mean(axis=0), inverse_scales(model)
    matrix, what = model.metric(raw=False), "metric"
    if np.allclose(matrix, np.eye(features) / features):
        spread = (rows - centre) * inverse
        matrix, what = spread.T @ spread, "variance"
    values, vectors = np.linalg.eigh(matrix)
    directions = vectors[:, [-1, -2]].T
    strongest = np.abs(directions).argmax(axis=1)
    directions = directions * np.sign(directions[[0, 1], strongest])[:, None]
    shares = values[[-1, -2]] / values.sum()
    first, second = (
        f"{_loadings(direction, model.features)}\n({share:.0%} of the {what})"
        for direction, share in zip(directions, shares, strict=True)
    )
    return Plane(centre, directions, inverse, (first, second))


def _loadings(direction: Floats, features: Sequence[Hashable], top: int = 3) -> str:
    """The features that an axis is mostly made of."""
    strongest = np.argsort(-np.abs(direction))[:top]
    shown = [i for i in strongest if abs(direction[i]) > 0.05]
    return "  ".join(f"{direction[i]:+.2f} {short(features[i])}" for i in shown)
