"""projection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from streamlvq.models.base import LVQClassifier
from streamlvq.plot.looks import (
    Floats,
    Ints,
    corners_of,
    draw_background,
    draw_prototypes,
    draw_readings,
    grid,
    legend,
    new_axes,
    styles_of,
)
from streamlvq.plot.plane import Plane, metric_plane
from streamlvq.plot.rows import prototype_rows, reading_rows

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
    """Data, prototypes and decision regions in the plane that the metric looks at most.

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
    """The class of a typical reading at each point of a grid."""
    chosen = rows[:: -(-len(rows) // 400)]  # enough to know what is typical
    winners = np.concatenate(
        [
            model.predict_proba_array(plane.lift(part, chosen)).argmax(axis=1)
            for part in np.array_split(grid(corners, resolution), resolution)
        ]
    )
    return winners.reshape(resolution, resolution)
