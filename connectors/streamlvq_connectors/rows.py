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


def check_roles(path: Path, fields: Fields, names: Sequence[str]) -> None:
    """Raise if a column that `fields` names is not there: what is not found would be ignored.

    Parameters
    ----------
    path
        The file, for error messages.
    fields
        What each column is.
    names
        All columns.
    """
    for role in ("label", "device", "time", "sequence"):
        name = getattr(fields, role)
        if name is not None and name not in names:
            raise LogError(
                f"{path}: expected a column {name!r} (the {role}), got {shown(names)}"
                f"{near(name, names)} Name it with --{role}; if there is none say --{role} ''"
            )


def near(name: str, names: Sequence[str]) -> str:
    """A question after the nearest name, however it is capitalised; a full stop without one."""
    by_lower = {each.lower(): each for each in reversed(names)}
    found = get_close_matches(name.lower(), by_lower, 1)
    return f": is it {by_lower[found[0]]!r}?" if found else "."


def shown(names: Sequence[str], most: int = 30) -> str:
    """Names as a list, shortened."""
    listed = ", ".join(map(repr, names[:most]))
    return f"[{listed}, and {len(names) - most} more]" if len(names) > most else f"[{listed}]"


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
                raise LogError(
                    f"{path}: expected a column {name!r}, got {shown(names)}{near(name, names)}"
                )
        return list(fields.features)
    found = [name for name in numeric if name not in _roles(fields)]
    if not found:
        raise LogError(f"{path}: expected columns of numbers, got none among {shown(names)}")
    return found


def left_out(fields: Fields, names: Sequence[str], features: Sequence[str]) -> list[str]:
    """A note on the columns that are not used because they are no numbers, if there are any."""
    used = {*features, *_roles(fields), ""}
    unused = [name for name in names if name not in used]
    if fields.features is not None or not unused:
        return []
    return [f"left out, because they are no numbers: {', '.join(unused[:8])}"
            + (f" and {len(unused) - 8} more" if len(unused) > 8 else "")]  # fmt: skip


def _roles(fields: Fields) -> set[str | None]:
    return {fields.label, fields.time, fields.sequence, fields.device}


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
