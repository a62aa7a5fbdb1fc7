"""Accuracy-reject curves and reliability diagrams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from streamlvq.plot.style import new_axes, next_colour

if TYPE_CHECKING:
    from matplotlib.axes import Axes


SMALLEST_BIN, LARGEST_BIN = 12, 120


def accuracy_reject_curve(curve: Any, ax: Axes | None = None, label: str | None = None) -> Axes:
    """Plot the accuracy of accepted samples against the share that is rejected.

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
    axes = new_axes((6.0, 4.5)) if ax is None else ax
    axes.plot(rates, accuracies, color=next_colour(axes), label=label)
    axes.set(xlim=(0, 1), ylim=(_lowest(axes), 1.005))
    axes.set(xlabel="reject rate", ylabel="accuracy of what is kept")
    axes.set_title("Accuracy-reject curve")
    if label is not None:
        axes.legend(loc="lower right", frameon=False)
    return axes


def reliability_diagram(table: Any, ax: Axes | None = None, label: str | None = None) -> Axes:
    """Plot the accuracy of predictions against their probability.

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
    axes = new_axes((5.0, 5.0)) if ax is None else ax
    colour = next_colour(axes)
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


def _lowest(axes: Axes) -> float:
    """Return the lower end of the y axis, ignoring the noisy end where few samples are kept."""
    curves = [np.asarray(line.get_xydata()) for line in axes.get_lines()]
    lowest = min(curve[curve[:, 0] <= 0.9, 1].min(initial=1.0) for curve in curves)
    return float(max(lowest - 0.1 * (1.0 - lowest) - 0.005, 0.0))
