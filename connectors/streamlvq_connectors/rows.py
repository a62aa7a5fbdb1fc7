"""From columns of a table to readings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

import msgspec
import numpy as np

from streamlvq.config import Fields
from streamlvq.events import Readings
from streamlvq.payloads.columns import Column, readings
from streamlvq_connectors.files import LogError

SHIFTS = {"s": 0, "ms": -3, "us": -6, "ns": -9}  # powers of ten that make seconds


def features_of(
    path: Path, fields: Fields, names: Sequence[str], numeric: Sequence[str]
) -> list[str]:
    """Which columns are features: those that `fields` names, or all numbers that are nothing else.

    Parameters
    ----------
    path
        The file, for error messages.
    fields
        What each column is.
    names, numeric
        All columns, and those that hold numbers.
    """
    if fields.features is not None:
        for name in fields.features:
            if name not in names:
                near = get_close_matches(name, names, 1)
                hint = f": is it {near[0]!r}?" if near else ""
                raise LogError(f"{path}: expected a column {name!r}, got {list(names)}{hint}")
        return list(fields.features)
    others = {fields.label, fields.time, fields.sequence, fields.device}
    found = [name for name in numeric if name not in others]
    if not found:
        raise LogError(f"{path}: expected columns of numbers, got none among {list(names)}")
    return found


class RowReader:
    """Makes readings of columns, by the rules that hold for payloads.

    Parameters
    ----------
    fields
        Which columns are what. Times that are numbers come in seconds, whatever it says.
    features
        The columns that are features; there may be none only if there are no rows.
    iso
        Whether times are texts.
    """

    def __init__(self, fields: Fields, features: Sequence[str], iso: bool) -> None:
        self.features = tuple(features)
        self._fields = msgspec.structs.replace(
            fields, features=list(features), time_unit="iso" if iso else "s"
        )

    def readings(
        self, columns: Mapping[str, Column], bad: Mapping[int, str]
    ) -> tuple[Readings, dict[int, str]]:
        """The readings of the rows that are not bad, and what is wrong with any of the others."""
        if not self.features:
            return Readings((), np.empty((0, 0)), [], [], [], [], [], [], [], []), dict(bad)
        for row in bad:
            for name in self.features:
                columns[name][row] = np.nan  # type: ignore[index]  # so that it is refused
        found, refused = readings(self._fields, columns)
        return found, {row: bad.get(row, text) for row, text in refused.items()}
