"""Pictures of what a model has learnt: relevances, prototypes, projections of readings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from streamlvq.arrays import Floats, Label
from streamlvq.errors import NotLearntYetError
from streamlvq.models.base import LVQClassifier
from streamlvq.models.vectorizer import Vectorizer, to_rows
from streamlvq.plot.style import COLOURS, legend, new_axes, short, styles_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
from collections.abc import Hashable
from dataclasses import dataclass

from streamlvq.arrays import Ints
from streamlvq.plot.style import (
    corners_of,
    draw_background,
    draw_prototypes,
    draw_readings,
    grid,
)

NAMED_FEATURES = 40  # more names than this cannot be read along an axis


def relevance_profile(
    model: LVQClassifier, label: Label | None = None, ax: Axes | None = None, top: int = 20
) -> Axes:
    """Draw the relevance of each feature as a bar, the most relevant on top.

    Parameters
    ----------
    model
        A model that has learnt something.
    label
        Only the prototypes of this class; None for all.
    ax
        Where to draw; a new figure by default.
    top
        How many features to show.

    """
    if top < 1:
        raise ValueError(f"expected to show at least 1 feature, got top={top!r}")
    relevances = model.relevances(label)
    ranked = sorted(relevances.items(), key=lambda item: -item[1])[:top]
    names = [short(name, 30) for name, _ in ranked]
    axes = new_axes((7.0, 1.2 + 0.28 * len(names))) if ax is None else ax
    axes.barh(range(len(names)), [share for _, share in ranked], color=COLOURS[0])
    axes.axvline(1 / len(relevances), color="0.3", linestyle="--", label="all features alike")
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xlabel("relevance (all features add up to 1)")
    whose = "all classes" if label is None else f"class {label}"
    axes.set_title(f"{type(model).__name__}: what counts for {whose}")
    axes.legend(loc="lower right", frameon=False)
    return axes


def prototype_profiles(
    model: LVQClassifier, ax: Axes | None = None, *, scaled: bool = False
) -> Axes:
    """Draw prototypes as lines over the features, with a colour for each class.

    The line of a prototype is the thicker, the more samples of its class it has won.

    Parameters
    ----------
    model
        A model that has learnt something.
    ax
        Where to draw; a new figure by default.
    scaled
        Deviations from the mean prototype, in units of the feature scales, so that sensors with
        different units can be compared. By default the units of the sensors.

    """
    values = prototype_rows(model)
    if scaled:
        values = (values - values.mean(axis=0)) * inverse_scales(model)
    axes = new_axes((9.0, 5.0)) if ax is None else ax
    styles = styles_of(model.classes)
    thickness = _thickness([prototype.count for prototype in model.prototypes()])
    for row, prototype, width in zip(values, model.prototypes(), thickness, strict=True):
        colour, marker = styles[prototype.label]
        axes.plot(row, color=colour, marker=marker, markersize=2 + width, linewidth=width)
    _name_features(axes, [short(name, 30) for name in model.features])
    axes.set_ylabel("deviation from the mean, in feature scales" if scaled else "value (raw units)")
    axes.set_title(f"{type(model).__name__}: prototypes")
    axes.grid(axis="x", color="0.9")
    legend(axes, styles)
    return axes


def _thickness(counts: Sequence[int]) -> list[float]:
    """Return line widths that grow with the samples that prototypes have won."""
    root = np.sqrt(np.maximum(counts, 1))
    return [float(width) for width in 0.4 + 1.8 * root / root.max()]


def _name_features(axes: Axes, names: Sequence[str]) -> None:
    step = -(-len(names) // NAMED_FEATURES)
    axes.set_xticks(range(0, len(names), step), names[::step], rotation=60, ha="right")


# --- rows without gaps ---------------------------------------------------------------------------


def prototype_rows(model: LVQClassifier) -> Floats:
    """Return prototypes in raw units; unknown values become the mean over the others."""
    model.metric()  # says so if nothing was learnt yet
    rows = np.array([list(prototype.values.values()) for prototype in model.prototypes()])
    if not len(rows):
        raise NotLearntYetError("no prototypes yet: a model of pairs has them from two classes on")
    return _filled(rows, _column_means(rows))


def reading_rows(model: LVQClassifier, X: Any) -> Floats:
    """Return readings as rows in the order of the model's features, without gaps."""
    rows, names = to_rows(X, None)
    if names is not None:
        rows = Vectorizer(model.features).arrange(rows, names)
    if rows.shape[1] != len(model.features):
        raise ValueError(f"expected {len(model.features)} columns, got {rows.shape[1]}")
    return _filled(rows, _column_means(np.concatenate([rows, prototype_rows(model)])))


def _column_means(rows: Floats) -> Floats:
    seen = ~np.isnan(rows)
    means: Floats = np.where(seen, rows, 0.0).sum(axis=0) / np.maximum(seen.sum(axis=0), 1)
    return means


def _filled(rows: Floats, values: Floats) -> Floats:
    return np.where(np.isnan(rows), values, rows)


def inverse_scales(model: LVQClassifier) -> Floats:
    """Return one over the scale of each feature; zero for features that never changed."""
    return np.array([1.0 / scale for scale in model.scales().values()])


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
