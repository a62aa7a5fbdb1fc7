"""An axis of time: where cells lie, and what is written below."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streamlvq.text import number

LONG = 3.0  # a gap is this many times the usual time between two cells
A_DATE = 1e8  # seconds; smaller times are no dates but seconds since some start
STEPS = (1, 2, 5)
SPANS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200)
DAY = 86_400


class Axis(NamedTuple):
    """Where each cell starts and ends, from 0 to 1, and ticks with their names."""

    starts: list[float]
    ends: list[float]
    ticks: list[tuple[float, str]]
    name: str


def time_axis(
    first: Sequence[float | None], last: Sequence[float | None], readings: Sequence[int]
) -> Axis:
    """By time where every cell has one and time goes forward; by number of readings elsewhere."""
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
    gap = until - ends > LONG * usual  # then a cell ends with its last reading
    until = np.where(gap, ends, until)
    low, width = float(begins[0]), max(float(until.max() - begins[0]), 1e-9)
    dates = low > A_DATE
    values = _round_times(low, low + width) if dates else _round_numbers(low, low + width)
    ticks = [((at - low) / width, _written(at, width) if dates else f"{at:g}") for at in values]
    name = "time (UTC)" if dates else "time (s)"
    return Axis(((begins - low) / width).tolist(), ((until - low) / width).tolist(), ticks, name)


def _round_numbers(low: float, high: float, most: int = 8) -> list[float]:
    """Round numbers within a range, at most so many."""
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(max(rough, 1e-300)))
    step = next((s * power for s in STEPS if s * power >= rough), 10 * power)
    start = math.ceil(low / step)
    return [k * step for k in range(start, math.floor(high / step) + 1)]


def _round_times(low: float, high: float, most: int = 8) -> list[float]:
    rough = (high - low) / most
    if rough < 1:
        return _round_numbers(low, high, most)
    days = math.ceil(rough / DAY) * DAY
    step = next((span for span in SPANS if span >= rough), days)
    return [float(k * step) for k in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _written(at: float, width: float) -> str:
    when = datetime.fromtimestamp(at, UTC)
    if width > 8 * DAY:
        return when.strftime("%Y-%m-%d")
    if width > DAY:
        return when.strftime("%m-%d %H:%M")
    return when.strftime("%H:%M:%S" if width < 1800 else "%H:%M")


def moment(at: float) -> str:
    """A time in words."""
    if at <= A_DATE:
        return f"{at:g} s"
    try:
        return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):  # beyond the year 9999
        return f"{at:g} s"
