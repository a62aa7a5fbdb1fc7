"""Pictures of what a model has learnt, and of how well (extra `plot`).

Every function takes a model that has learnt something, or a metric, and returns matplotlib's
axes. Colours are told apart by colour-blind readers too (Okabe and Ito), and classes have markers
of their own.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from streamlvq.errors import MissingExtraError, NotLearntYetError
from streamlvq.models.base import LVQClassifier
from streamlvq.vectorize import Vectorizer, to_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "accuracy_reject_curve",
    "projection",
    "prototype_profiles",
    "relevance_profile",
    "reliability_diagram",
]

Floats = npt.NDArray[np.float64]
Label = Hashable

COLOURS = (
    "#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#7F7F7F", "#F0E442",
)  # fmt: skip
MARKERS = ("o", "s", "^", "D", "v", "P", "X")  # 7 and 8 have no common factor: 56 combinations
READING_SIZE, PROTOTYPE_SIZE = 9, 85
SMALLEST_BIN, LARGEST_BIN = 12, 120
NAMED_FEATURES = 40  # more names than this cannot be read along an axis


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
    prototypes = _prototype_rows(model)
    rows = np.empty((0, len(model.features))) if X is None else _rows(model, X)
    if y is not None and len(y) != len(rows):
        raise ValueError(f"expected as many labels as readings ({len(rows)}), got {len(y)}")
    plane = _plane(model, np.concatenate([rows, prototypes]))
    axes = _new_axes((8.0, 6.0)) if ax is None else ax
    styles = _styles(model.classes)
    corners = _corners(plane.project(rows), plane.project(prototypes))
    known = rows if len(rows) else prototypes
    _draw_regions(axes, model, plane, known, corners, styles, resolution)
    _draw_readings(axes, plane.project(rows), y, styles)
    _draw_prototypes(axes, plane.project(prototypes), model, styles)
    axes.set(xlim=corners[:, 0], ylim=corners[:, 1], xlabel=plane.names[0], ylabel=plane.names[1])
    small = ", small: readings" if len(rows) else ""
    axes.set_title(f"{type(model).__name__} (large: prototypes{small}, background: decision)")
    _legend(axes, styles)
    return axes


def relevance_profile(
    model: LVQClassifier, label: Label | None = None, ax: Axes | None = None, top: int = 20
) -> Axes:
    """How much each feature counts, the most important on top.

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
    names = [_short(name, 30) for name, _ in ranked]
    axes = _new_axes((7.0, 1.2 + 0.28 * len(names))) if ax is None else ax
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
    """The prototypes as lines over the features, a colour for each class.

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
    values = _prototype_rows(model)
    if scaled:
        values = (values - values.mean(axis=0)) * _inverse_scales(model)
    axes = _new_axes((9.0, 5.0)) if ax is None else ax
    styles = _styles(model.classes)
    thickness = _thickness([prototype.count for prototype in model.prototypes()])
    for row, prototype, width in zip(values, model.prototypes(), thickness, strict=True):
        colour, marker = styles[prototype.label]
        axes.plot(row, color=colour, marker=marker, markersize=2 + width, linewidth=width)
    _name_features(axes, [_short(name, 30) for name in model.features])
    axes.set_ylabel("deviation from the mean, in feature scales" if scaled else "value (raw units)")
    axes.set_title(f"{type(model).__name__}: prototypes")
    axes.grid(axis="x", color="0.9")
    _legend(axes, styles)
    return axes


def accuracy_reject_curve(curve: Any, ax: Axes | None = None, label: str | None = None) -> Axes:
    """The accuracy of the samples that are kept against the share that is rejected.

    Parameters
    ----------
    curve
        A `metrics.AccuracyRejectCurve`, or two arrays: reject rates and accuracies.
    ax
        Where to draw; a new figure by default. Several curves can share it.
    label
        What to call the curve in the legend.

    """
    rates, accuracies, *_ = curve.points() if hasattr(curve, "points") else curve
    axes = _new_axes((6.0, 4.5)) if ax is None else ax
    axes.plot(rates, accuracies, color=_next_colour(axes), label=label)
    axes.set(xlim=(0, 1), ylim=(_lowest(axes), 1.005))
    axes.set(xlabel="reject rate", ylabel="accuracy of what is kept")
    axes.set_title("Accuracy-reject curve")
    if label is not None:
        axes.legend(loc="lower right", frameon=False)
    return axes


def reliability_diagram(table: Any, ax: Axes | None = None, label: str | None = None) -> Axes:
    """How often predictions are right against how probable they were said to be.

    Below the diagonal the model is overconfident. The larger a point, the more samples it has.

    Parameters
    ----------
    table
        A `metrics.ExpectedCalibrationError`, or three arrays: the mean confidence of each bin, its
        accuracy and its weight.
    ax
        Where to draw; a new figure by default. Several models can share it.
    label
        What to call the model in the legend.

    """
    read = table.reliability() if hasattr(table, "reliability") else table
    confidence, accuracy, weight = (np.asarray(column, dtype=float) for column in read)
    axes = _new_axes((5.0, 5.0)) if ax is None else ax
    colour = _next_colour(axes)
    axes.plot(confidence, accuracy, color=colour, linewidth=1, label=label)
    sizes = SMALLEST_BIN + (LARGEST_BIN - SMALLEST_BIN) * weight / weight.max(initial=1e-300)
    axes.scatter(confidence, accuracy, s=sizes, color=colour, linewidths=0)
    axes.axline((0, 0), slope=1, color="0.3", linestyle="--", linewidth=1)
    axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    axes.set(xlabel="probability of the predicted class", ylabel="accuracy")
    axes.set_title("Reliability diagram")
    if label is not None:
        axes.legend(loc="upper left", frameon=False)
    return axes


# --- from models to vectors ----------------------------------------------------------------------


def _prototype_rows(model: LVQClassifier) -> Floats:
    """Prototypes in raw units; what one has never seen is the mean over the others."""
    model.metric()  # says so if nothing was learnt yet
    rows = np.array([list(prototype.values.values()) for prototype in model.prototypes()])
    if not len(rows):
        raise NotLearntYetError("no prototypes yet: a model of pairs has them from two classes on")
    return _filled(rows, _column_means(rows))


def _rows(model: LVQClassifier, X: Any) -> Floats:
    """Readings in the order of the model's features, without gaps."""
    rows, names = to_rows(X, None)
    if names is not None:
        rows = Vectorizer(model.features).arrange(rows, names)
    if rows.shape[1] != len(model.features):
        raise ValueError(f"expected {len(model.features)} columns, got {rows.shape[1]}")
    return _filled(rows, _column_means(np.concatenate([rows, _prototype_rows(model)])))


def _column_means(rows: Floats) -> Floats:
    seen = ~np.isnan(rows)
    means: Floats = np.where(seen, rows, 0.0).sum(axis=0) / np.maximum(seen.sum(axis=0), 1)
    return means


def _filled(rows: Floats, values: Floats) -> Floats:
    return np.where(np.isnan(rows), values, rows)


def _inverse_scales(model: LVQClassifier) -> Floats:
    """One over the unit of each feature; zero for those that never changed."""
    return np.array([1.0 / scale for scale in model.scales().values()])


# --- the plane -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Plane:
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


def _plane(model: LVQClassifier, rows: Floats) -> _Plane:
    features = len(model.features)
    if features < 2:
        raise ValueError(f"expected a model with at least 2 features, got {features}")
    centre, inverse = rows.mean(axis=0), _inverse_scales(model)
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
    return _Plane(centre, directions, inverse, (first, second))


def _loadings(direction: Floats, features: Sequence[Hashable], top: int = 3) -> str:
    """The features that an axis is mostly made of."""
    strongest = np.argsort(-np.abs(direction))[:top]
    shown = [i for i in strongest if abs(direction[i]) > 0.05]
    return "  ".join(f"{direction[i]:+.2f} {_short(features[i])}" for i in shown)


def _short(name: Hashable, length: int = 20) -> str:
    text = str(name)
    return text if len(text) <= length else text[: length - 1] + "\N{HORIZONTAL ELLIPSIS}"


def _corners(readings: Floats, prototypes: Floats) -> Floats:
    """Lower left and upper right: all prototypes and all but the most extreme readings."""
    inner = np.quantile(readings, [0.01, 0.99], axis=0) if len(readings) else prototypes
    points = np.concatenate([inner, prototypes])
    low, high = points.min(axis=0), points.max(axis=0)
    margin = 0.07 * np.maximum(high - low, 1e-9)
    return np.array([low - margin, high + margin])


# --- drawing -------------------------------------------------------------------------------------

Styles = dict[Label, tuple[str, str]]


def _new_axes(size: tuple[float, float]) -> Axes:
    try:
        from matplotlib import pyplot  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtraError("matplotlib", "plot") from error
    return pyplot.subplots(figsize=size, layout="constrained")[1]


def _next_colour(axes: Axes) -> str:
    """A colour for another model on the same axes."""
    return COLOURS[sum(line.get_linestyle() == "-" for line in axes.get_lines()) % len(COLOURS)]


def _lowest(axes: Axes) -> float:
    """Where curves should start to be shown: where few samples are kept, accuracy is chance."""
    curves = [np.asarray(line.get_xydata()) for line in axes.get_lines()]
    lowest = min(curve[curve[:, 0] <= 0.9, 1].min(initial=1.0) for curve in curves)
    return float(max(lowest - 0.1 * (1.0 - lowest) - 0.005, 0.0))


def _styles(labels: Sequence[Label]) -> Styles:
    """Colour and marker of each class."""
    return {
        label: (COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)])
        for i, label in enumerate(labels)
    }


def _draw_regions(
    axes: Axes,
    model: LVQClassifier,
    plane: _Plane,
    rows: Floats,
    corners: Floats,
    styles: Styles,
    resolution: int,
) -> None:
    from matplotlib.colors import ListedColormap  # noqa: PLC0415

    low, high = corners
    across, up = np.linspace(low, high, resolution).T
    points = np.stack(np.meshgrid(across, up), axis=-1).reshape(-1, 2)
    chosen = rows[:: -(-len(rows) // 400)]  # enough to know what is typical
    winners = np.concatenate(
        [
            model.predict_proba_array(plane.lift(part, chosen)).argmax(axis=1)
            for part in np.array_split(points, resolution)
        ]
    )
    axes.imshow(
        winners.reshape(resolution, resolution),
        extent=(low[0], high[0], low[1], high[1]),
        origin="lower",
        aspect="auto",
        interpolation="nearest",
        cmap=ListedColormap([colour for colour, _ in styles.values()]),
        vmin=-0.5,
        vmax=len(styles) - 0.5,
        alpha=0.25,
    )


def _draw_readings(axes: Axes, points: Floats, y: Any, styles: Styles) -> None:
    labels = [None] * len(points) if y is None else list(y)
    for label in dict.fromkeys(labels):
        mine = points[[other == label for other in labels]]
        colour, marker = styles.get(label, ("0.4", "."))
        axes.scatter(
            mine[:, 0],
            mine[:, 1],
            s=READING_SIZE,
            color=colour,
            marker=marker,
            alpha=0.6,
            linewidths=0,
            rasterized=True,
        )


def _draw_prototypes(axes: Axes, points: Floats, model: LVQClassifier, styles: Styles) -> None:
    for (across, up), prototype in zip(points, model.prototypes(), strict=True):
        colour, marker = styles[prototype.label]
        axes.scatter(
            across,
            up,
            s=PROTOTYPE_SIZE,
            color=colour,
            marker=marker,
            edgecolors="black",
            linewidths=1.2,
        )


def _thickness(counts: Sequence[int]) -> list[float]:
    """Width of lines from the samples that prototypes have won."""
    root = np.sqrt(np.maximum(counts, 1))
    return [float(width) for width in 0.4 + 1.8 * root / root.max()]


def _name_features(axes: Axes, names: Sequence[str]) -> None:
    step = -(-len(names) // NAMED_FEATURES)
    axes.set_xticks(range(0, len(names), step), names[::step], rotation=60, ha="right")


def _legend(axes: Axes, styles: Styles) -> None:
    from matplotlib.lines import Line2D  # noqa: PLC0415

    entries = [
        Line2D([], [], color=colour, marker=marker, linestyle="", label=str(label))
        for label, (colour, marker) in styles.items()
    ]
    axes.legend(
        handles=entries,
        loc="center left",
        bbox_to_anchor=(1.01, 0.5),
        frameon=False,
        ncols=-(-len(entries) // 20),
    )
