"""Decision maps: the decisions of a classifier over two features."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from streamlvq.arrays import Floats, Label, Reading
from streamlvq.models.base import LVQClassifier
from streamlvq.models.vectorizer import to_rows
from streamlvq.plot.style import (
    NO_ANSWER,
    Styles,
    corners_of,
    draw_background,
    draw_prototypes,
    draw_readings,
    grid,
    legend,
    new_axes,
    no_answer_patches,
    styles_of,
)
from streamlvq.wrappers.base import is_pipeline, unwrap

if TYPE_CHECKING:
    from matplotlib.axes import Axes


Answer = tuple[bool, Any]  # whether there is a label; the label, or why there is none
HATCH_COLOUR = "0.75"


def decision_map(
    classifier: Any,
    X: Any,
    y: Any = None,
    ax: Axes | None = None,
    *,
    features: Sequence[Hashable] | None = None,
    others: Mapping[Hashable, float] | None = None,
    margin: float = 0.1,
    resolution: int = 200,
    **keywords: Any,
) -> Axes:
    """Draw what a classifier decides, or why it does not, for all values of two features.

    The background has the colours of the classes where the classifier decides, and hatches where
    it does not, by reason. Prototypes are shown if the model inside knows these two features and
    no others, and gets them as they are.

    Parameters
    ----------
    classifier
        Any classifier that has learnt something: a model, a wrapper, a pipeline. Those with
        `decide_one` are asked for their reasons.
    X
        Readings, at least two: a DataFrame, a list of dictionaries, or an array, whose columns are
        called 0, 1 and so on.
    y
        Their labels; without them the readings are grey.
    ax
        Where to draw; a new figure by default.
    features
        The two features along the axes. They need not be named if there are only two.
    others
        Values of the other features, for all points of the map. Those that are not named have
        their median.
    margin
        How far to look beyond the readings, as a share of their range.
    resolution
        Points of the background along each side.
    **keywords
        What the classifier is to be told with every reading, such as `device` and `t`. Without
        them an integrator sees the first reading of a new device.

    """
    rows, names = to_rows(X, None)
    names = list(range(rows.shape[1])) if names is None else names
    if y is not None and len(y) != len(rows):
        raise ValueError(f"expected as many labels as readings ({len(rows)}), got {len(y)}")
    pair = _pair(names, features)
    points = rows[:, [names.index(name) for name in pair]]
    model = _model_of(pair, classifier)
    prototypes = [] if model is None else model.prototypes()
    spots = np.array([[p.values[name] for name in pair] for p in prototypes]).reshape(-1, 2)
    corners = corners_of(_known(points), _known(spots), margin)
    axes = new_axes((8.0, 6.0)) if ax is None else ax
    fixed = _fixed(rows, names, pair, others or {})
    decide = _way_to_decide(classifier, keywords)
    answers = [decide({**fixed, **_reading(pair, at)}) for at in grid(corners, resolution)]
    styles = styles_of(_classes(classifier, answers))
    reasons = [r for r in NO_ANSWER if (False, r) in answers]
    _draw_answers(axes, answers, corners, styles, reasons)
    draw_readings(axes, points, y, styles)
    draw_prototypes(axes, spots, [prototype.label for prototype in prototypes], styles)
    axes.set(xlim=corners[:, 0], ylim=corners[:, 1], xlabel=str(pair[0]), ylabel=str(pair[1]))
    large = "large: prototypes, " if prototypes else ""
    axes.set_title(f"{_name(classifier)}\n({large}small: readings, background: decision)")
    legend(axes, styles, no_answer_patches(reasons, hatched=True))
    return axes


def _pair(names: Sequence[Hashable], features: Sequence[Hashable] | None) -> list[Hashable]:
    """Return the features along the axes."""
    pair = list(names if features is None else features)
    if len(pair) != 2 or pair[0] == pair[1]:
        how = "" if features is not None else "; choose two with features=(..., ...)"
        raise ValueError(f"expected two features, got {', '.join(map(repr, pair))}{how}")
    for name in pair:
        if name not in names:
            raise ValueError(f"features: expected some of {list(names)!r}, got {name!r}")
    return pair


def _fixed(
    rows: Floats,
    names: Sequence[Hashable],
    pair: Sequence[Hashable],
    others: Mapping[Hashable, float],
) -> Reading:
    """Return the values of the other features, without those that no reading has."""
    seen = [(name, column[~np.isnan(column)]) for name, column in zip(names, rows.T, strict=True)]
    medians = {
        name: float(np.median(values)) for name, values in seen if len(values) and name not in pair
    }
    return {**medians, **others}


def _reading(pair: Sequence[Hashable], at: Floats) -> Reading:
    return dict(zip(pair, at.tolist(), strict=True))


def _known(points: Floats) -> Floats:
    return points[~np.isnan(points).any(axis=1)]


def _model_of(pair: Sequence[Hashable], classifier: Any) -> LVQClassifier | None:
    """Return the model inside if its prototypes can be drawn on a map of two features."""
    *way, model = unwrap(classifier)
    if any(is_pipeline(link) for link in way) or not issubclass(type(model), LVQClassifier):
        return None
    return model if set(model.features) == set(pair) else None


def _way_to_decide(classifier: Any, keywords: dict[str, Any]) -> Callable[[Reading], Answer]:
    decider = classifier._last_step if is_pipeline(classifier) else classifier
    if not hasattr(decider, "decide_one"):
        return lambda x: _answer(classifier.predict_one(x, **keywords))
    if decider is classifier:
        return lambda x: _reasoned(classifier.decide_one(x, **keywords))
    return lambda x: _reasoned(decider.decide_one(classifier.transform_one(x), **keywords))


def _answer(label: Label | None) -> Answer:
    return (False, "ambiguous") if label is None else (True, label)


def _reasoned(decision: Any) -> Answer:
    return (True, decision.label) if decision.accepted else (False, decision.reason)


def _classes(classifier: Any, answers: Sequence[Answer]) -> list[Label]:
    """Return the classes in the order of the model, then those that only the answers have."""
    *_, model = unwrap(classifier)
    said = [label for decided, label in answers if decided]
    return list(dict.fromkeys([*getattr(model, "classes", ()), *said]))


def _draw_answers(
    axes: Axes,
    answers: Sequence[Answer],
    corners: Floats,
    styles: Styles,
    reasons: Sequence[str],
) -> None:
    """Draw a colour for each label, and a hatch for each reason to have none."""
    colours = {(True, label): colour for label, (colour, _) in styles.items()}
    colours |= {(False, reason): NO_ANSWER[reason][1] for reason in reasons}
    codes = {answer: code for code, answer in enumerate(colours)}
    side = round(len(answers) ** 0.5)
    image = np.array([codes[answer] for answer in answers]).reshape(side, side)
    draw_background(axes, image, corners, list(colours.values()))
    across, up = np.linspace(corners[0], corners[1], side).T
    for reason in reasons:
        there = (image == codes[False, reason]).astype(float)
        _, _, hatch = NO_ANSWER[reason]
        drawn = axes.contourf(across, up, there, levels=[0.5, 1.5], colors="none", hatches=[hatch])
        drawn.set_edgecolor(HATCH_COLOUR)
        drawn.set_linewidth(0)


def _name(classifier: Any) -> str:
    names = [type(link).__name__ for link in unwrap(classifier)]
    return "(".join(names) + ")" * (len(names) - 1)
