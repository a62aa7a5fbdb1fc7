"""Common style of plots: colours, markers, backgrounds, legends."""

from __future__ import annotations

import colorsys
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from streamlvq.arrays import Floats, Ints, Label
from streamlvq.errors import MissingExtraError

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes


Styles = dict[Label, tuple[str, str]]

COLOURS = (
    "#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#7F7F7F", "#F0E442",
)  # fmt: skip
MARKERS = ("o", "s", "^", "D", "v", "P", "X")  # 7 and 8 have no common factor: 56 combinations
LIGHTER, DARKER = 0.45, -0.35
READING_SIZE, PROTOTYPE_SIZE = 9, 85
NO_ANSWER = {  # why there is none: what to call it, its colour and its hatch
    "ambiguous": ("no answer: ambiguous", "1.0", "///"),
    "outlier": ("no answer: outlier", "0.85", ""),
    "no_feature": ("no answer: no feature that the model knows", "0.55", "++"),
    "no_model": ("no answer: too few classes learnt", "0.7", "xx"),
}


def new_axes(size: tuple[float, float]) -> Axes:
    try:
        from matplotlib import pyplot  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtraError("matplotlib", "plot") from error
    return pyplot.subplots(figsize=size, layout="constrained")[1]


def styles_of(labels: Sequence[Label]) -> Styles:
    """Return the colour and marker of each class."""
    return {
        label: (COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)])
        for i, label in enumerate(labels)
    }


def colours_of(labels: Sequence[str]) -> dict[str, str]:
    """Return a colour for each label: those of the plots, then lighter and darker ones."""
    return {label: _colour(k) for k, label in enumerate(labels)}


def _colour(number: int) -> str:
    base, turn = COLOURS[number % len(COLOURS)], number // len(COLOURS) % 3
    if turn == 0:
        return base
    rgb = [int(base[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    hue, light, saturation = colorsys.rgb_to_hls(*rgb)
    change = LIGHTER if turn == 1 else DARKER
    light += change * ((1 - light) if change > 0 else light)
    shifted = colorsys.hls_to_rgb(hue, light, saturation)
    return "#" + "".join(f"{round(255 * part):02X}" for part in shifted)


def next_colour(axes: Axes) -> str:
    """Return the colour for another model on the same axes."""
    return COLOURS[sum(line.get_linestyle() == "-" for line in axes.get_lines()) % len(COLOURS)]


def short(name: Hashable, length: int = 20) -> str:
    text = str(name)
    return text if len(text) <= length else text[: length - 1] + "\N{HORIZONTAL ELLIPSIS}"


def corners_of(readings: Floats, prototypes: Floats, margin: float = 0.07) -> Floats:
    """Return the lower left and upper right corner around all prototypes and most readings."""
    inner = np.quantile(readings, [0.01, 0.99], axis=0) if len(readings) else prototypes
    points = np.concatenate([inner, prototypes])
    low, high = points.min(axis=0), points.max(axis=0)
    beyond = margin * np.maximum(high - low, 1e-9)
    return np.array([low - beyond, high + beyond])


def grid(corners: Floats, resolution: int) -> Floats:
    """Return points that fill a rectangle, row by row from below."""
    across, up = np.linspace(corners[0], corners[1], resolution).T
    return np.stack(np.meshgrid(across, up), axis=-1).reshape(-1, 2)


def draw_background(axes: Axes, codes: Ints, corners: Floats, colours: Sequence[str]) -> None:
    """Colour a rectangle; `codes` has the number of a colour for each point of its grid."""
    from matplotlib.colors import ListedColormap  # noqa: PLC0415

    low, high = corners
    axes.imshow(
        codes,
        extent=(low[0], high[0], low[1], high[1]),
        origin="lower",
        aspect="auto",
        interpolation="nearest",
        cmap=ListedColormap([pale(colour) for colour in colours]),
        vmin=-0.5,
        vmax=len(colours) - 0.5,
    )


def pale(colour: str) -> tuple[float, float, float]:
    """Return a pale version of a colour on white; greys stay as they are."""
    from matplotlib.colors import to_rgb  # noqa: PLC0415

    red, green, blue = to_rgb(colour)
    if red == green == blue:
        return red, green, blue
    return 1 - 0.25 * (1 - red), 1 - 0.25 * (1 - green), 1 - 0.25 * (1 - blue)


def draw_readings(axes: Axes, points: Floats, y: Any, styles: Styles) -> None:
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


def draw_prototypes(axes: Axes, points: Floats, labels: Sequence[Label], styles: Styles) -> None:
    for (across, up), label in zip(points, labels, strict=True):
        colour, marker = styles[label]
        axes.scatter(
            across,
            up,
            s=PROTOTYPE_SIZE,
            color=colour,
            marker=marker,
            edgecolors="black",
            linewidths=1.2,
        )


def legend(axes: Axes, styles: Styles, more: Sequence[Artist] = ()) -> None:
    """Add a legend of the classes and of further artists."""
    from matplotlib.lines import Line2D  # noqa: PLC0415

    classes = [
        Line2D([], [], color=colour, marker=marker, linestyle="", label=str(label))
        for label, (colour, marker) in styles.items()
    ]
    axes.legend(
        handles=[*classes, *more],
        loc="center left",
        bbox_to_anchor=(1.01, 0.5),
        frameon=False,
        ncols=-(-(len(classes) + len(more)) // 20),
    )


def no_answer_patches(reasons: Sequence[str], *, hatched: bool) -> list[Artist]:
    """Return the legend entries of readings without an answer."""
    from matplotlib.patches import Patch  # noqa: PLC0415

    return [
        Patch(facecolor=colour, edgecolor="0.5", hatch=hatch if hatched else None, label=name)
        for name, colour, hatch in (NO_ANSWER[reason] for reason in reasons)
    ]
