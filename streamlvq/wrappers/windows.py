"""A window of past readings for each device."""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import ModuleType
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

    def forget(self, device: Hashable) -> Window | None:
        """Empty the window of a device; returns what was in it."""
        place = self._places.pop(device, NONE)
        if place == NONE:
            return None
        self._free.append(place)
        return Window(self.logs[place].copy(), int(self.counts[place]), self.times[place])

    def __len__(self) -> int:
        return len(self._places)

    # --- files -----------------------------------------------------------------------------------

    def memory(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Arrays and what else there is, those silent longest first."""
        order = list(self._places.values())
        for device in self._places:
            if not (device is None or isinstance(device, (str, int))):
                raise ValueError(
                    f"expected devices named by text or whole numbers, got {device!r}: others "
                    f"cannot be kept in a file"
                )
        arrays = {"logs": self.logs[order], "counts": self.counts[order]}
        times = [[_to_plain(t) for t in self.times[place]] for place in order]
        return arrays, {"devices": list(self._places), "times": times}

    def restore(self, arrays: dict[str, Any], extra: dict[str, Any]) -> None:
        """The opposite of `memory`; raises ValueError if it does not fit."""
        logs, counts = arrays["logs"], arrays["counts"]
        devices, times = extra["devices"], extra["times"]
        known = len(devices)
        if known > self.max_devices or not known == len(set(devices)) == len(times):
            raise ValueError(f"windows: expected at most {self.max_devices} devices, all different")
        if logs.ndim != 3 or logs.shape[:2] != (known, self.readings + 1) or logs.shape[2] < 1:
            raise ValueError(
                f"windows: expected {known} windows of {self.readings + 1} rows, got {logs.shape}"
            )
        if counts.shape != (known,) or np.any(counts < 0) or np.any(counts > self.readings):
            raise ValueError(f"windows: expected {known} counts up to {self.readings}")
        if not np.isfinite(logs).all():
            raise ValueError("windows: expected finite numbers")
        self.logs = np.array(logs, np.float64, order="C")
        self.counts = np.array(counts, np.int64)
        self.times = [tuple(_from_plain(t) for t in each) for each in times]
        if any(not 1 <= len(each) <= self.kept_times for each in self.times):
            raise ValueError(f"windows: expected 1 to {self.kept_times} times for each device")
        if self.max_gap is not None:
            for each in self.times:
                self._check(each[-1])
                self._is_near(each[-1], each[-1])
        self._places = OrderedDict((device, place) for place, device in enumerate(devices))
        self._free = []


def _to_plain(t: Time) -> Any:
    return {"datetime": t.isoformat()} if isinstance(t, datetime) else t


def _from_plain(t: Any) -> Time:
    if isinstance(t, dict):
        return datetime.fromisoformat(t["datetime"])
    if not (t is None or isinstance(t, (int, float))):
        raise ValueError(f"windows: expected a time, got {t!r}")
    return t
