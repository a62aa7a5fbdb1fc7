"""Relevances and prototypes as profiles over the features."""

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
