"""Projections onto the plane that the metric weights most."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from streamlvq.arrays import Floats, Ints
from streamlvq.models.base import LVQClassifier
from streamlvq.plot.profiles import inverse_scales, prototype_rows, reading_rows
from streamlvq.plot.style import (
    corners_of,
    draw_background,
    draw_prototypes,
    draw_readings,
    grid,
    legend,
    new_axes,
    short,
    styles_of,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def projection(
    model: LVQClassifier,
    X: Any = None,
    y: Any = None,
    ax: Axes | None = None,
    *,
    resolution: int = 200,
) -> Axes:
    """Draw data, prototypes and decision regions in the plane that the metric weights most.

    The plane is spanned by the two leading eigenvectors of the metric (of the mean metric, if
    prototypes have their own), taken in units of the feature scales so that it does not depend on
    the units of the sensors. Models without a metric use the principal components of the data.
    Each point of the background has the class of a typical reading that projects there: what the
    plane does not show is taken from the readings (or prototypes) nearby.

    Parameters
    ----------
    model
        A model that has learnt something.
    X
        Readings: a DataFrame, a list of dictionaries, or an array in the order of
        `model.features`. None shows the prototypes alone.
    y
        Their labels; without them the readings are grey.
    ax
        Where to draw; a new figure by default.
    resolution
        Points of the background along each side.

    """
    prototypes = prototype_rows(model)
    rows = np.empty((0, len(model.features))) if X is None else reading_rows(model, X)
    if y is not None and len(y) != len(rows):
        raise ValueError(f"expected as many labels as readings ({len(rows)}), got {len(y)}")
    plane = metric_plane(model, np.concatenate([rows, prototypes]))
    axes = new_axes((8.0, 6.0)) if ax is None else ax
    styles = styles_of(model.classes)
    corners = corners_of(plane.project(rows), plane.project(prototypes))
    known = rows if len(rows) else prototypes
    winners = _winners(model, plane, known, corners, resolution)
    draw_background(axes, winners, corners, [colour for colour, _ in styles.values()])
    draw_readings(axes, plane.project(rows), y, styles)
    labels = [prototype.label for prototype in model.prototypes()]
    draw_prototypes(axes, plane.project(prototypes), labels, styles)
    axes.set(xlim=corners[:, 0], ylim=corners[:, 1], xlabel=plane.names[0], ylabel=plane.names[1])
    small = ", small: readings" if len(rows) else ""
    axes.set_title(f"{type(model).__name__} (large: prototypes{small}, background: decision)")
    legend(axes, styles)
    return axes


def _winners(
    model: LVQClassifier, plane: Plane, rows: Floats, corners: Floats, resolution: int
) -> Ints:
    """Return the class of a typical reading at each point of a grid."""
    chosen = rows[:: -(-len(rows) // 400)]  # enough to know what is typical
    winners = np.concatenate(
        [
            model.predict_proba_array(plane.lift(part, chosen)).argmax(axis=1)
            for part in np.array_split(grid(corners, resolution), resolution)
        ]
    )
    return winners.reshape(resolution, resolution)


# --- the plane -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plane:
    """Two directions in feature space, with their names."""

    centre: Floats
    directions: Floats  # 2 x features, orthonormal in feature scales
    inverse: Floats
    names: tuple[str, str]

    def project(self, rows: Floats) -> Floats:
        projected: Floats = ((rows - self.centre) * self.inverse) @ self.directions.T
        return projected

    def lift(self, points: Floats, rows: Floats) -> Floats:
        """Return readings that project to these points and otherwise resemble the closest rows."""
        typical = _smooth(points, self.project(rows)) @ rows
        back = np.divide(1.0, self.inverse, out=np.zeros_like(self.inverse), where=self.inverse > 0)
        lifted: Floats = typical + (points - self.project(typical)) @ self.directions * back
        return lifted


def _smooth(points: Floats, shadows: Floats) -> Floats:
    """Return the weight of each projected row at each point; each row of weights sums to 1."""
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
    """Name the features that contribute most to an axis."""
    strongest = np.argsort(-np.abs(direction))[:top]
    shown = [i for i in strongest if abs(direction[i]) > 0.05]
    return "  ".join(f"{direction[i]:+.2f} {short(features[i])}" for i in shown)
