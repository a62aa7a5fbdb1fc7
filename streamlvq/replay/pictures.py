"""The plots of `streamlvq.plot` as pictures inside a page."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from streamlvq import plot
from streamlvq.errors import MissingExtraError, NotLearntYetError
from streamlvq.replay.report import Calibration, Curve
from streamlvq.wrappers.chain import unwrap

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Draw = Callable[["Axes"], object]
FEATURES = 20  # whose relevance is shown


def picture(draw: Draw, size: tuple[float, float], alt: str) -> str:
    """An image element with what `draw` draws; transparent, so that any page suits it."""
    try:
        from matplotlib import rc_context  # noqa: PLC0415
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtraError("matplotlib", "plot") from error
    figure = Figure(figsize=size, layout="constrained")  # needs no screen, unlike pyplot
    draw(figure.subplots())
    out = io.BytesIO()
    with rc_context({"svg.hashsalt": "streamlvq"}):  # the same picture gives the same bytes
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None})
    data = base64.b64encode(out.getvalue()).decode("ascii")
    return f'<img class="plot" alt="{alt}" src="data:image/svg+xml;base64,{data}">'


def curve_picture(curve: Curve) -> str:
    points = np.array(curve.reject_rates), np.array(curve.accuracies)
    draw: Draw = lambda ax: plot.accuracy_reject_curve(points, ax)  # noqa: E731
    return picture(draw, (5.6, 4.2), "accuracy-reject curve")


def calibration_picture(calibration: Calibration) -> str:
    table = calibration.confidence, calibration.accuracy, calibration.readings
    draw: Draw = lambda ax: plot.reliability_diagram(table, ax)  # noqa: E731
    return picture(draw, (4.4, 4.4), "reliability diagram")


def model_pictures(classifier: Any) -> list[str]:
    """Relevances and prototypes of the model inside; [] if it has none to show."""
    model = list(unwrap(classifier))[-1]
    if not hasattr(model, "relevances") or not hasattr(model, "prototypes"):
        return []
    try:
        count = min(len(model.relevances()), FEATURES)
        drawings: list[tuple[Draw, tuple[float, float], str]] = [
            (lambda ax: plot.relevance_profile(model, ax=ax, top=FEATURES),
             (6.4, 1.2 + 0.28 * count), "relevances"),
            (lambda ax: plot.prototype_profiles(model, ax, scaled=True), (9.0, 5.0), "prototypes"),
        ]  # fmt: skip
        return [picture(*drawing) for drawing in drawings]
    except NotLearntYetError:
        return []
