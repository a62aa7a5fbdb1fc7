"""Decisions over time as drawings (SVG) in the colours of the page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from itertools import groupby
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streamlvq.replay.report import Course, Track
from streamlvq.report.html import DRAWING_WIDTH
from streamlvq.text import number

LEFT_MARGIN, RIGHT_MARGIN = 84, 24
STRIP_HEIGHT, STRIP_GAP, AXIS_HEIGHT, MARK_HEIGHT = 20, 4, 24, 5
SHADE_STEPS = 8  # distinguishable shares of rejected readings
CURVE_HEIGHT = 150
GAP_RATIO = 3.0  # a gap is this many times the usual time between two cells
FIRST_DATE_SECONDS = 1e8  # smaller times are seconds since some start, not dates
ROUND_STEPS = (1, 2, 5)
ROUND_SPANS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200)
DAY_SECONDS = 86_400


class _Run(NamedTuple):
    """Adjacent cells that look the same."""

    start: float
    end: float
    label: str | None
    rejected: int  # in steps
    wrong: int  # in steps
    first: int  # cell
    last: int


def track_drawing(track: Track, colours: dict[str, str]) -> str:
    """Draw the decisions of a device in the colours of the labels, true labels below them.

    Hatched from above is the share that was rejected; a mark above, the stronger the more often,
    says that what was accepted was wrong.
    """
    axis = time_axis(track.first, track.last, track.readings)
    labelled = any(label is not None for label in track.true)
    parts = [_name(MARK_HEIGHT + STRIP_HEIGHT / 2, "decided")]
    for run in _runs(track, axis, track.decided, decisions=True):
        parts += _decided(run, track, colours)
    bottom = MARK_HEIGHT + STRIP_HEIGHT
    if labelled:
        parts.append(_name(bottom + STRIP_GAP + STRIP_HEIGHT / 2, "label"))
        for run in _runs(track, axis, track.true, decisions=False):
            if run.label is not None:
                title = f"label {run.label}{_when(track, run)}"
                colour = colours.get(run.label, "gray")
                parts.append(_box(run, bottom + STRIP_GAP, STRIP_HEIGHT, f'fill="{colour}"', title))
        bottom += STRIP_GAP + STRIP_HEIGHT
    parts += _axis(axis, bottom)
    return _svg(bottom + AXIS_HEIGHT, parts, f"decisions of {track.device} over time")


def course_drawing(course: Course) -> str:
    """Draw accuracy and reject rate of all devices together over time."""
    axis = time_axis(course.first, course.last, course.readings)
    top = 8
    parts = []
    for share in (0.0, 0.5, 1.0):
        y = top + CURVE_HEIGHT * (1 - share)
        parts.append(
            f'<path class="grid" d="M{LEFT_MARGIN} {y:.1f}H{DRAWING_WIDTH - RIGHT_MARGIN}"/>'
        )
        parts.append(_name(y, f"{100 * share:.0f} %"))
    rejected = [r / n if n else None for r, n in zip(course.rejected, course.readings, strict=True)]
    right = [r / n if n else None for r, n in zip(course.right, course.labelled, strict=True)]
    parts.append(_line(axis, rejected, top, "rejected"))
    parts.append(_line(axis, right, top, "right"))
    parts += _axis(axis, top + CURVE_HEIGHT)
    return _svg(top + CURVE_HEIGHT + AXIS_HEIGHT, parts, "accuracy and reject rate over time")


# --- pieces --------------------------------------------------------------------------------------


def _runs(track: Track, axis: Axis, labels: list[str | None], decisions: bool) -> list[_Run]:
    looks = []
    for k, label in enumerate(labels):
        rejected, wrong = (track.rejected[k], track.wrong[k]) if decisions else (0, 0)
        steps = SHADE_STEPS / max(track.readings[k], 1)
        looks.append((label, round(rejected * steps), math.ceil(wrong * steps)))
    runs, k = [], 0
    for look, group in groupby(looks):
        last = k + len(list(group)) - 1
        pieces = _unbroken(axis, k, last)
        runs += [_Run(axis.starts[a], axis.ends[b], *look, a, b) for a, b in pieces]
        k = last + 1
    return runs


def _unbroken(axis: Axis, first: int, last: int) -> list[tuple[int, int]]:
    """Split a range of cells where there is a gap in time."""
    cuts = [k for k in range(first, last) if axis.starts[k + 1] - axis.ends[k] > 1e-9]
    return list(zip([first, *(k + 1 for k in cuts)], [*cuts, last], strict=True))


def _decided(run: _Run, track: Track, colours: dict[str, str]) -> list[str]:
    cells = slice(run.first, run.last + 1)
    readings, rejected = sum(track.readings[cells]), sum(track.rejected[cells])
    wrong = sum(track.wrong[cells])
    said = "nothing" if run.label is None else run.label
    title = f"decided {said}{_when(track, run)}: {readings} readings, {rejected} rejected"
    title += f", {wrong} accepted and wrong" if wrong else ""
    fill = 'class="none"' if run.label is None else f'fill="{colours.get(run.label, "gray")}"'
    parts = [_box(run, MARK_HEIGHT, STRIP_HEIGHT, fill, title)]
    if run.rejected:
        parts.append(
            _box(
                run,
                MARK_HEIGHT,
                STRIP_HEIGHT * run.rejected / SHADE_STEPS,
                'class="rejected"',
                title,
            )
        )
    if run.wrong:
        strength = f'class="wrong" fill-opacity="{0.3 + 0.7 * run.wrong / SHADE_STEPS:.2f}"'
        parts.append(_box(run, 0, MARK_HEIGHT - 1, strength, title))
    return parts


def _when(track: Track, run: _Run) -> str:
    first, last = track.first[run.first], track.last[run.last]
    if first is None or last is None:
        return ""
    return f", {moment(first)} to {moment(last)}"


def _x(share: float) -> float:
    return LEFT_MARGIN + share * (DRAWING_WIDTH - LEFT_MARGIN - RIGHT_MARGIN)


def _box(run: _Run, top: float, height: float, look: str, title: str) -> str:
    left, width = _x(run.start), max(_x(run.end) - _x(run.start), 0.6)
    place = f'x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}"'
    return f"<rect {place} {look}><title>{escape(title)}</title></rect>"


def _name(y: float, text: str) -> str:
    return f'<text x="{LEFT_MARGIN - 8}" y="{y:.1f}" class="name">{escape(text)}</text>'


def _line(axis: Axis, values: list[float | None], top: float, kind: str) -> str:
    pen, path = "M", []
    for start, end, value in zip(axis.starts, axis.ends, values, strict=True):
        if value is None:
            pen = "M"
            continue
        path.append(f"{pen}{_x((start + end) / 2):.1f} {top + CURVE_HEIGHT * (1 - value):.1f}")
        pen = "L"
    return f'<path class="line {kind}" d="{"".join(path)}"/>'


def _axis(axis: Axis, y: float) -> list[str]:
    parts = [f'<path class="axis" d="M{LEFT_MARGIN} {y + 2}H{DRAWING_WIDTH - RIGHT_MARGIN}"/>']
    for at, text in axis.ticks:
        parts.append(f'<path class="axis" d="M{_x(at):.1f} {y + 2}v4"/>')
        parts.append(f'<text x="{_x(at):.1f}" y="{y + 17}" class="tick">{escape(text)}</text>')
    parts.append(_name(y + 14, axis.name))
    return parts


def _svg(height: float, parts: list[str], title: str) -> str:
    # the hatch is defined once, by the page
    box = f'viewBox="0 0 {DRAWING_WIDTH} {height:.0f}" role="img" aria-label="{escape(title)}"'
    return f'<svg class="strips" {box}>{"".join(parts)}</svg>'


# --- the axis ------------------------------------------------------------------------------------


class Axis(NamedTuple):
    """Horizontal axis: start and end of each cell from 0 to 1, and named ticks."""

    starts: list[float]
    ends: list[float]
    ticks: list[tuple[float, str]]
    name: str


def time_axis(
    first: Sequence[float | None], last: Sequence[float | None], readings: Sequence[int]
) -> Axis:
    """Return an axis by time if all cells have increasing times, else by number of readings."""
    begins = np.array(first, dtype=np.float64)
    if len(begins) and not np.isnan(begins).any() and (np.diff(begins) >= 0).all():
        ends = np.array(last, dtype=np.float64)
        if ends.max() > begins[0]:
            return _by_time(begins, ends)
    return _by_count(np.array(readings, dtype=np.float64))


def _by_count(readings: npt.NDArray[np.float64]) -> Axis:
    total = max(float(readings.sum()), 1.0)
    ends = np.cumsum(readings)
    ticks = [(at / total, number(round(at))) for at in _round_numbers(0, total)]
    return Axis(((ends - readings) / total).tolist(), (ends / total).tolist(), ticks, "readings")


def _by_time(begins: npt.NDArray[np.float64], ends: npt.NDArray[np.float64]) -> Axis:
    steps = np.diff(begins)
    usual = float(np.median(steps[steps > 0])) if (steps > 0).any() else 1.0
    until = np.append(begins[1:], max(ends[-1], begins[-1]))
    gap = until - ends > GAP_RATIO * usual  # then a cell ends with its last reading
    until = np.where(gap, ends, until)
    low, width = float(begins[0]), max(float(until.max() - begins[0]), 1e-9)
    dates = low > FIRST_DATE_SECONDS
    values = _round_times(low, low + width) if dates else _round_numbers(low, low + width)
    ticks = [((at - low) / width, _written(at, width) if dates else f"{at:g}") for at in values]
    name = "time (UTC)" if dates else "time (s)"
    return Axis(((begins - low) / width).tolist(), ((until - low) / width).tolist(), ticks, name)


def _round_numbers(low: float, high: float, most: int = 8) -> list[float]:
    """Return at most `most` round numbers within a range."""
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(max(rough, 1e-300)))
    step = next((s * power for s in ROUND_STEPS if s * power >= rough), 10 * power)
    start = math.ceil(low / step)
    return [k * step for k in range(start, math.floor(high / step) + 1)]


def _round_times(low: float, high: float, most: int = 8) -> list[float]:
    rough = (high - low) / most
    if rough < 1:
        return _round_numbers(low, high, most)
    days = math.ceil(rough / DAY_SECONDS) * DAY_SECONDS
    step = next((span for span in ROUND_SPANS if span >= rough), days)
    return [float(k * step) for k in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _written(at: float, width: float) -> str:
    when = datetime.fromtimestamp(at, UTC)
    if width > 8 * DAY_SECONDS:
        return when.strftime("%Y-%m-%d")
    if width > DAY_SECONDS:
        return when.strftime("%m-%d %H:%M")
    return when.strftime("%H:%M:%S" if width < 1800 else "%H:%M")


def moment(at: float) -> str:
    """Format a time."""
    if at <= FIRST_DATE_SECONDS:
        return f"{at:g} s"
    try:
        return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):  # beyond the year 9999
        return f"{at:g} s"
