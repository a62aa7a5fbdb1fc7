"""Whole columns at once: the same rules as in `values`, at the cost of a glance if all is plain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from streamlvq.events import Label, Rows
from streamlvq.kernels.layout import LARGEST
from streamlvq.payloads.values import (
    EARLIEST,
    HIGHEST_INT,
    LATEST,
    LONGEST,
    LOWEST_INT,
    UNITS,
    to_device,
    to_label,
    to_sequence,
    to_time,
)

TEXT, WHOLE, NUMBERS = {str}, {int}, ({int}, {float}, {int, float})


def plain(rows: Rows) -> Rows | None:
    """The rows, None if one is without any number or has one that is too large."""
    sizes = np.abs(rows)
    if sizes.max() <= LARGEST:  # not so if there is a NaN
        return rows
    missing = np.isnan(sizes)
    if (missing | (sizes <= LARGEST)).all() and not missing.all(axis=1).any():
        return rows
    return None


def labels(name: str, values: list[Any]) -> list[Label | None]:
    """As `to_label`."""
    if values.count(None) == len(values):
        return values
    kinds = set(map(type, values))
    if kinds == TEXT and max(map(len, values)) <= LONGEST and "" not in values:
        return values
    if kinds == WHOLE and min(values) >= LOWEST_INT and max(values) <= HIGHEST_INT:
        return values
    return [None if value is None else to_label(name, value) for value in values]


def sequences(name: str, values: list[Any]) -> list[int | None]:
    """As `to_sequence`."""
    if set(map(type, values)) == WHOLE and min(values) >= LOWEST_INT and max(values) <= HIGHEST_INT:
        return values
    return [None if value is None else to_sequence(name, value) for value in values]


def devices(name: str, values: list[Any]) -> list[str | None]:
    """As `to_device`; None where there is none."""
    if set(map(type, values)) == TEXT and max(map(len, values)) <= LONGEST and "" not in values:
        return values
    return [None if value is None else to_device(name, value) for value in values]


def all_devices(name: str, values: list[Any]) -> list[str | None]:
    """As `devices`, but there must be one everywhere."""
    found = devices(name, values)
    if None in found:
        to_device(name, None)  # raises
    return found


def times(unit: str) -> Callable[[str, list[Any]], list[float | None]]:
    """As `to_time`."""
    convert = to_time(unit)
    scale = UNITS.get(unit)

    def check(name: str, values: list[Any]) -> list[float | None]:
        if scale is not None and set(map(type, values)) in NUMBERS:
            seconds: list[float | None] = [value / scale for value in values]
            if _within(seconds):
                return seconds
        return [convert(name, value) for value in values]

    return check


def _within(seconds: list[Any]) -> bool:
    """Whether all are times of the years 1 to 9999."""
    total = sum(seconds)  # NaN if one of them is
    return bool(total == total and min(seconds) >= EARLIEST and max(seconds) < LATEST)
