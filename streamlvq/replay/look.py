"""How a log was read: which features it has, and what looks like a mistake."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from streamlvq.config import Fields
from streamlvq.events import DedupWindow, Readings, Rows
from streamlvq.text import suggestion

FIRST = 1000  # readings that are looked at closely
RISES = 10  # that make a clock or a counter of what never falls
ROLES = ("label", "time", "sequence")  # a reading without its device is refused


class Look:
    """Looks at readings as they pass.

    Parameters
    ----------
    fields
        What the configuration says about them.
    received
        Whether the time of a reading that has none is when it was received.

    Examples
    --------

    >>> import numpy as np
    >>> from streamlvq.config import Fields
    >>> from streamlvq.events import Readings
    >>> from streamlvq.replay.look import Look
    >>> rows = np.array([[k, k % 3] for k in range(20)], float)
    >>> look = Look(Fields(label="state"))
    >>> look.see(Readings.of(["t", "x"], rows))
    >>> look.features
    ['t', 'x']
    >>> for note in look.notes():
    ...     print(note)
    no reading had 'state': is --label right?
    't' was learnt, but only ever rises: is 't' the time? name it with --time

    """

    def __init__(self, fields: Fields, received: bool = False) -> None:
        self.fields, self.received = fields, received
        self._features: dict[str, None] = {}
        self._absent = [role for role in ROLES if getattr(fields, role) is not None]
        self._first: dict[tuple[str, ...], list[tuple[Rows, list[str]]]] = {}
        self._seen = 0

    @property
    def features(self) -> list[str]:
        """Those that some reading had."""
        return list(self._features)

    def see(self, readings: Readings) -> None:
        """Look at some more."""
        if not len(readings):
            return
        self._features.update(dict.fromkeys(readings.features))
        if self._absent:
            self._absent = [role for role in self._absent if not self._has(readings, role)]
        if self._seen < FIRST:
            left = FIRST - self._seen
            part = readings.rows[:left], readings.devices[:left]
            self._first.setdefault(readings.features, []).append(part)
            self._seen += len(readings)

    def _has(self, readings: Readings, role: str) -> bool:
        if role == "time" and self.received:
            # Such times say nothing, but whoever has a time or a number can come twice.
            return self.fields.sequence is not None or DedupWindow.RECENT in readings.dedup_windows
        column: Sequence[object] = getattr(readings, f"{role}s")
        return any(value is not None for value in column)

    def notes(self) -> list[str]:
        """What looks like a mistake."""
        if not self._seen:
            return []
        return [*map(self._note_absent, self._absent), *map(self._note_rising, self.rising()[:3])]

    def _note_absent(self, role: str) -> str:
        name = getattr(self.fields, role)
        hint = suggestion(name, self._features) or f": is --{role} right?"
        return f"no reading had {name!r}{hint}"

    def _note_rising(self, name: str) -> str:
        if self.fields.time is None:
            ask = f"is {name!r} the time? name it with --time"
        elif self.fields.sequence is None:
            ask = f"is {name!r} a counter? name it with --sequence"
        else:
            ask = "if it is a clock or a counter, leave it out by naming the others with --feature"
        return f"{name!r} was learnt, but only ever rises: {ask}"

    def rising(self) -> list[str]:
        """The features that never fall in the first readings of any device, but often rise.

        Whoever named the features meant them.
        """
        if self.fields.features is not None:
            return []
        found: dict[str, None] = {}
        for features, parts in self._first.items():
            rows = np.concatenate([part[0] for part in parts])
            devices = np.array([device for part in parts for device in part[1]])
            found.update(dict.fromkeys(np.array(features)[_rising(rows, devices)].tolist()))
        return list(found)


def _rising(rows: Rows, devices: npt.NDArray[np.str_]) -> npt.NDArray[np.bool_]:
    """Whether each column is such."""
    order = np.argsort(devices, kind="stable")
    same = devices[order][1:] == devices[order][:-1]
    steps = np.diff(rows[order], axis=0)[same]
    rises = (steps > 0).sum(axis=0)
    rising: npt.NDArray[np.bool_] = ~(steps < 0).any(axis=0) & (
        rises >= max(RISES, len(steps) / 10)
    )
    return rising
