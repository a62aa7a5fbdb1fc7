"""Decisions and probabilities over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from streamlvq.arrays import Floats, Ints, Label
from streamlvq.plot.style import NO_ANSWER, Styles, legend, new_axes, no_answer_patches, styles_of
from streamlvq.records import Decision, Integrated

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes


DECIDED, TRUE = (1.06, 1.22), (1.26, 1.42)  # from where to where, above the probabilities
READING_GAP_RATIO = 3.0  # a gap is this many times the usual time between two readings
NO_READING = -1


def decisions_over_time(
    times: Sequence[Any], decisions: Sequence[Any], truth: Any = None, ax: Axes | None = None
) -> Axes:
    """Draw decisions over time, with class probabilities and true labels.

    The probabilities of the classes fill the lower part, one above the other. Above them are the
    decisions, with a cross on each that was accepted and wrong, and the truth. Times without
    readings stay empty.

    Parameters
    ----------
    times
        When the readings were taken that were decided on, in order: numbers or datetimes.
    decisions
        What was said about each: a `Decision`, what an integrator answers, a dictionary of
        probabilities, a label, or None.
    truth
        Their true labels.
    ax
        Where to draw; a new figure by default.

    """
    said = [_read(decision) for decision in decisions]
    actual = None if truth is None else list(truth)
    _check(len(times), said, actual)
    axes = new_axes((10.0, 3.2)) if ax is None else ax
    cells = _cells(_numbers(axes, times))
    styles = styles_of(_classes(said, actual))
    probable = any(one.probabilities for one in said)
    if probable:
        _draw_probabilities(axes, cells, said, styles)
    _draw_strip(axes, cells, [_colour(one, styles) for one in said], DECIDED)
    reasons = {one.reason for one in said}
    marks = no_answer_patches([r for r in NO_ANSWER if r in reasons], hatched=False)
    if actual is not None:
        _draw_strip(axes, cells, [styles[label][0] for label in actual], TRUE)
        marks += _draw_crosses(axes, cells, said, actual)
    _name_axes(axes, cells, probable, actual is not None)
    legend(axes, styles, marks)
    return axes


# --- what was said -------------------------------------------------------------------------------


class _Said(NamedTuple):
    label: Label | None
    probabilities: Mapping[Label, float]
    reason: str | None = None  # why there is no answer


def _read(decision: Any) -> _Said:
    if decision is None:
        return _Said(None, {}, "ambiguous")
    if isinstance(decision, Decision):
        return _Said(decision.label, decision.probabilities, decision.reason)
    if isinstance(decision, Integrated):
        return _Said(decision.label, decision.probabilities)
    if isinstance(decision, Mapping):
        if not decision:
            return _Said(None, {}, "no_model")
        return _Said(max(decision, key=decision.__getitem__), decision)
    return _Said(decision, {})


def _check(count: int, said: Sequence[_Said], truth: Sequence[Label] | None) -> None:
    if not said:
        raise ValueError("expected at least one decision, got none")
    for what, given in (("decisions", said), ("true labels", truth)):
        if given is not None and len(given) != count:
            raise ValueError(f"expected as many {what} as times ({count}), got {len(given)}")


def _classes(said: Sequence[_Said], truth: Sequence[Label] | None) -> list[Label]:
    """Return the classes in the order of their appearance."""
    known = [label for one in said for label in one.probabilities]
    given = [one.label for one in said if one.label is not None]
    return list(dict.fromkeys([*known, *given, *(truth or ())]))


def _colour(one: _Said, styles: Styles) -> str:
    return styles[one.label][0] if one.reason is None else NO_ANSWER[one.reason][1]


# --- cells along the axis of time ----------------------------------------------------------------


class _Cells(NamedTuple):
    """Cells on the time axis: each reading extends half way to its neighbours."""

    edges: Floats
    readings: Ints  # which reading each cell shows, or NO_READING
    centres: Floats  # of the readings


def _numbers(axes: Any, times: Sequence[Any]) -> Floats:
    """Convert times to matplotlib's numbers, and show dates on the axis if they are dates."""
    axes.xaxis.update_units(times)
    return np.asarray(axes.convert_xunits(list(times)), dtype=np.float64)


def _cells(times: Floats) -> _Cells:
    steps = np.diff(times)
    if not (steps >= 0).all():
        raise ValueError("expected times in order, got some that go back")
    usual = float(np.median(steps[steps > 0])) if steps.any() else 1.0
    edges, readings = [times[0] - usual / 2], []
    for i, step in enumerate(steps):
        readings.append(i)
        if step > READING_GAP_RATIO * usual:
            edges += [times[i] + usual / 2, times[i + 1] - usual / 2]
            readings.append(NO_READING)
        else:
            edges.append(times[i] + step / 2)
    edges.append(times[-1] + usual / 2)
    return _Cells(np.array(edges), np.array([*readings, len(times) - 1]), times)


# --- drawing -------------------------------------------------------------------------------------


def _draw_probabilities(axes: Axes, cells: _Cells, said: Sequence[_Said], styles: Styles) -> None:
    """Draw stacked probabilities; nothing where they are unknown."""
    known = np.array([[one.probabilities.get(label, 0.0) for label in styles] for one in said])
    heights = np.cumsum(known, axis=1)
    heights[[not one.probabilities for one in said]] = np.nan
    shown = np.where(cells.readings[:, None] == NO_READING, np.nan, heights[cells.readings])
    below = np.zeros(len(shown))
    for (colour, _), top in zip(styles.values(), shown.T, strict=True):
        axes.stairs(top, cells.edges, baseline=below, fill=True, color=colour, alpha=0.6, lw=0)
        below = np.nan_to_num(top)


def _draw_strip(
    axes: Axes, cells: _Cells, colours: Sequence[str], extent: tuple[float, float]
) -> None:
    """Draw a row of cells with a frame, so that white cells differ from missing ones."""
    from matplotlib.colors import to_rgba_array  # noqa: PLC0415

    pixels = np.array(to_rgba_array(colours))[cells.readings]
    there = cells.readings != NO_READING
    pixels[~there] = 0.0
    axes.pcolormesh(cells.edges, extent, pixels[None])
    bottom, top = (np.where(there, height, np.nan) for height in extent)
    axes.stairs(top, cells.edges, baseline=extent[0], color="black", linewidth=0.8)
    axes.stairs(bottom, cells.edges, baseline=None, color="black", linewidth=0.8)


def _draw_crosses(
    axes: Axes, cells: _Cells, said: Sequence[_Said], truth: Sequence[Label]
) -> list[Artist]:
    """Mark decisions that were accepted and wrong."""
    wrong = [
        one.reason is None and one.label != label for one, label in zip(said, truth, strict=True)
    ]
    if not any(wrong):
        return []
    heights = np.full(sum(wrong), sum(DECIDED) / 2)
    return [*axes.plot(cells.centres[wrong], heights, "x", color="black", ms=5, label="wrong")]


def _name_axes(axes: Axes, cells: _Cells, probabilities: bool, truth: bool) -> None:
    ticks = {0.0: "0", 0.5: "0.5", 1.0: "1"} if probabilities else {}
    ticks[sum(DECIDED) / 2] = "decision"
    if truth:
        ticks[sum(TRUE) / 2] = "truth"
    axes.set_yticks(list(ticks), list(ticks.values()))
    low, high = 0.0 if probabilities else DECIDED[0], TRUE[1] if truth else DECIDED[1]
    axes.set(xlim=cells.edges[[0, -1]], ylim=(low, high), xlabel="time")
    if probabilities:
        axes.set_ylabel("probability", loc="bottom")
