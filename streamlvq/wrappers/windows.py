"""A window of past readings for each device."""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import ModuleType, NoneType
from typing import Any

import numpy as np
import numpy.typing as npt

from streamlvq.state import Floats

Time = Any  # a number, or a datetime together with a timedelta as `max_gap`

NONE = -1  # instead of a place: there is no window


@functools.cache
def kernels() -> ModuleType:
    from streamlvq.kernels import window  # noqa: PLC0415

    return window


@dataclass(frozen=True, slots=True)
class Window:
    """What was remembered of a device; see `streamlvq.kernels.window` for `logs`.

    `times` are those of the newest readings, as many as may be asked for.
    """

    logs: Floats
    count: int
    times: tuple[Time, ...]


class Windows:
    """The windows of many devices, of which those silent longest are forgotten.

    All lie in one array, so that a kernel can go through the readings of many devices. A device
    has a place in it; `logs`, `counts` and `times` have an entry for each place.
    """

    def __init__(
        self, readings: int, times: int, max_gap: float | timedelta | None, max_devices: int
    ) -> None:
        self.readings = readings
        self.kept_times = times
        self.max_gap = max_gap
        self.max_devices = max_devices
        self.logs: Floats = np.zeros((0, readings + 1, 1))
        self.counts: npt.NDArray[np.int64] = np.zeros(0, np.int64)
        self.times: list[tuple[Time, ...]] = []
        self._places: OrderedDict[Hashable, int] = OrderedDict()
        self._free: list[int] = []

    def find(self, device: Hashable, t: Time) -> int:
        """The place of the window that a reading continues; NONE if it begins a segment."""
        if t is not None or self.max_gap is not None:
            self._check(t)
        place = self._places.get(device, NONE)
        if self.max_gap is None:
            return place
        # A first time is compared with itself: what that refuses, no later one could follow.
        last = t if place == NONE else self.times[place][-1]
        return place if self._is_near(t, last) else NONE

    def _check(self, t: Time) -> None:
        if t is None:
            raise ValueError(
                f"expected the time of the reading because of max_gap={self.max_gap!r}, got none: "
                "pass t=..., or leave max_gap out"
            )
        if t != t:
            raise ValueError(f"expected a time, got t={t!r}")

    def _is_near(self, t: Time, last: Time) -> bool:
        try:
            return bool(abs(t - last) <= self.max_gap)
        except TypeError as error:
            raise ValueError(
                f"expected times whose difference can be compared with max_gap={self.max_gap!r}, "
                f"got t={t!r} after {last!r}; datetimes want max_gap=timedelta(seconds=...)"
            ) from error

    # --- the course of time ----------------------------------------------------------------------

    def enter(self, device: Hashable, t: Time, found: int) -> int:
        """The place of the device that a reading at this time comes from; `found` is its window.

        Whoever enters moves `logs` and `counts` on afterwards, from zero if nothing was found.
        """
        places = self._places
        place = places.get(device, NONE)
        if place == NONE:
            place = self._settle(device)
        else:
            places.move_to_end(device)
        if found == NONE or self.kept_times == 1:
            self.times[place] = (t,)
        else:
            self.times[place] = (*self.times[place], t)[-self.kept_times :]
        return place

    def _settle(self, device: Hashable) -> int:
        """A place for a new device: a free one, or that of the device that is silent longest."""
        if len(self._places) >= self.max_devices:
            place = self._places.popitem(last=False)[1]
        elif self._free:
            place = self._free.pop()
        else:
            place = len(self.times)
            self.times.append(())
            if place >= len(self.logs):
                self._make_room(max(4, 2 * place))
        self._places[device] = place
        return place

    def _make_room(self, places: int) -> None:
        places = min(places, self.max_devices)
        logs = np.zeros((places, *self.logs.shape[1:]))
        logs[: len(self.logs)] = self.logs
        counts = np.zeros(places, np.int64)
        counts[: len(self.counts)] = self.counts
        self.logs, self.counts = logs, counts

    def widen(self, classes: int) -> None:
        """Columns for new classes; to them applies what readings say about unknown ones."""
        missing = classes + 1 - self.logs.shape[2]
        if missing > 0:
            unknown = np.repeat(self.logs[:, :, -1:], missing, axis=2)
            self.logs = np.concatenate([self.logs, unknown], axis=2)

    def advance(self, device: Hashable, t: Time, found: int, p: Floats) -> None:
        """Add a reading to the window that was found for it; without one a segment begins."""
        self.widen(len(p))
        place = self.enter(device, t, found)
        if found == NONE:
            self.logs[place] = 0.0
            self.counts[place] = 0
        kernels().advance(self.logs[place], p)
        self.counts[place] = min(self.counts[place] + 1, self.readings)

    def enter_many(
        self, devices: Sequence[Hashable], times: Sequence[Time], duplicates: Sequence[bool]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Enter readings one after the other; those that came before only find their window.

        Returns the place of each, and 1 where a window begins.
        """
        places, fresh = [], []
        find, enter = self.find, self.enter
        for device, t, again in zip(devices, times, duplicates, strict=True):
            found = find(device, t)
            places.append(found if again else enter(device, t, found))
            fresh.append(found == NONE)
        return np.array(places, np.int64), np.array(fresh, np.int64)

    def forget(self, device: Hashable) -> Window | None:
        """Empty the window of a device; returns what was in it."""
        place = self._places.pop(device, NONE)
        if place == NONE:
            return None
        self._free.append(place)
        return Window(self.logs[place].copy(), int(self.counts[place]), self.times[place])

    def __len__(self) -> int:
        return len(self._places)

    def moved_to(self, before: list[Hashable], after: list[Hashable]) -> Windows:
        """Copy the windows with their columns in the order of other classes.

        A class that is not among those `before` counts as one that was unknown to all readings.
        """
        unknown = self.logs.shape[2] - 1
        place = {label: column for column, label in enumerate(before[:unknown])}
        columns = [place.get(label, unknown) for label in after]
        new = Windows(self.readings, self.kept_times, self.max_gap, self.max_devices)
        new.logs = np.ascontiguousarray(self.logs[:, :, [*columns, unknown]])
        new.counts, new.times = self.counts.copy(), self.times.copy()
        new._places, new._free = self._places.copy(), self._free.copy()
        return new

    # --- state -----------------------------------------------------------------------------------

    def memory(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Arrays and what else there is, those silent longest first.

        Times are an array if there is one float, or None (as NaN), for each device; other times
        are a list.
        """
        devices = list(self._places)
        _check_devices(devices)
        order = list(map(self._places.__getitem__, devices))  # quicker than `values`
        kept = list(map(self.times.__getitem__, order))
        times, others = np.empty(0), None
        flat = [each[0] for each in kept]
        if self.kept_times == 1 and _are_all(flat, _IN_ARRAYS):
            times = np.array(flat, np.float64)
            _check_times(times)
        else:
            others = [[_to_plain(t) for t in each] for each in kept]
        rows = np.array(order, np.int64)
        arrays = {"logs": self.logs[rows], "counts": self.counts[rows], "times": times}
        return arrays, {"devices": devices, "times": others}

    def restore(self, arrays: dict[str, Any], extra: dict[str, Any]) -> None:
        """The opposite of `memory`; raises ValueError if it does not fit."""
        logs, counts, devices = arrays["logs"], arrays["counts"], extra["devices"]
        _check_devices(devices)
        known = len(devices)
        if known > self.max_devices or known != len(set(devices)):
            raise ValueError(f"windows: expected at most {self.max_devices} devices, all different")
        if logs.ndim != 3 or logs.shape[:2] != (known, self.readings + 1) or logs.shape[2] < 1:
            raise ValueError(
                f"windows: expected {known} windows of {self.readings + 1} rows, got {logs.shape}"
            )
        if counts.shape != (known,) or np.any(counts < 0) or np.any(counts > self.readings):
            raise ValueError(f"windows: expected {known} counts up to {self.readings}")
        if not np.isfinite(logs).all():
            raise ValueError("windows: expected finite numbers")
        self.times = self._restored_times(arrays["times"], extra["times"], known)
        self.logs = np.array(logs, np.float64, order="C")
        self.counts = np.array(counts, np.int64)
        self._places = OrderedDict(zip(devices, range(known), strict=True))
        self._free = []

    def _restored_times(self, array: Floats, others: Any, known: int) -> list[tuple[Time, ...]]:
        if others is None:
            _check_times(array)
            times = [(None if t != t else t,) for t in array.tolist()]
        else:
            times = [tuple(map(_from_plain, each)) for each in others]
        counts = set(map(len, times))
        if len(times) != known or not counts <= set(range(1, self.kept_times + 1)):
            raise ValueError(
                f"windows: expected 1 to {self.kept_times} times for each of {known} devices"
            )
        if self.max_gap is not None:
            self._check_kind(times)
        return times

    def _check_kind(self, times: list[tuple[Time, ...]]) -> None:
        """Where gaps matter, `max_gap` must be a difference of any two times."""
        wanted = {datetime} if isinstance(self.max_gap, timedelta) else {int, float}
        wrong = {type(t) for each in times for t in each} - wanted
        if wrong:
            names = ", ".join(sorted(kind.__name__ for kind in wrong))
            raise ValueError(f"windows: expected times for max_gap={self.max_gap!r}, got {names}")


# --- names and times in files --------------------------------------------------------------------

_IN_ARRAYS = (float, NoneType)
_NAMES = (str, int, NoneType)
LATEST = 2.0**63  # nanoseconds since 1970 are well below


def _are_all(values: list[Any], kinds: tuple[type, ...]) -> bool:
    return all(issubclass(kind, kinds) for kind in set(map(type, values)))


def _check_devices(devices: list[Hashable]) -> None:
    if not isinstance(devices, list):
        raise ValueError(f"windows: expected a list of devices, got {type(devices).__name__}")
    if _are_all(devices, _NAMES):
        return
    wrong = next(device for device in devices if not isinstance(device, _NAMES))
    raise ValueError(
        f"expected devices named by text or whole numbers, got {wrong!r}: others cannot be kept "
        f"in a file"
    )


def _check_times(times: Floats) -> None:
    if times.ndim != 1 or np.any(np.abs(times) > LATEST):  # false for NaN
        raise ValueError(f"windows: expected times of at most {LATEST:g}")


def _to_plain(t: Time) -> Any:
    t = t.item() if isinstance(t, np.generic) else t
    plain = {"datetime": t.isoformat()} if isinstance(t, datetime) else t
    _from_plain(plain)  # what could not be read is not written
    return plain


def _from_plain(t: Any) -> Time:
    if isinstance(t, dict) and t.keys() == {"datetime"}:
        return datetime.fromisoformat(t["datetime"])
    if t is None or (type(t) in (int, float) and abs(t) <= LATEST):
        return t
    raise ValueError(
        f"windows: expected times that are datetimes or numbers of at most {LATEST:g}, "
        f"got {str(t)[:80]!r}"
    )
