"""A window of past readings for each device."""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Hashable
from datetime import timedelta
from types import ModuleType
from typing import Any

import numpy as np

from streamlvq.state import Floats

Time = Any  # a number, or a datetime together with a timedelta as `max_gap`


@functools.cache
def kernels() -> ModuleType:
    from streamlvq.kernels import window  # noqa: PLC0415

    return window


class Window:
    """The past readings of one device; see `streamlvq.kernels.window` for `logs`.

    `times` are those of the newest readings, as many as will be asked for.
    """

    __slots__ = ("count", "logs", "times")

    def __init__(self, readings: int, classes: int) -> None:
        self.logs: Floats = np.zeros((readings + 1, classes + 1))
        self.count = 0
        self.times: tuple[Time, ...] = ()

    def make_room(self, classes: int) -> None:
        """Columns for new classes; to them applies what readings say about unknown ones."""
        missing = classes + 1 - self.logs.shape[1]
        if missing > 0:
            unknown = np.repeat(self.logs[:, -1:], missing, axis=1)
            self.logs = np.concatenate([self.logs, unknown], axis=1)


class Windows:
    """The windows of many devices, of which those silent longest are forgotten."""

    def __init__(
        self, readings: int, times: int, max_gap: float | timedelta | None, max_devices: int
    ) -> None:
        self.readings = readings
        self.times = times
        self.max_gap = max_gap
        self.max_devices = max_devices
        self._by_device: OrderedDict[Hashable, Window] = OrderedDict()

    def find(self, device: Hashable, t: Time) -> Window | None:
        """The window that a reading continues; None if it is the first of a segment."""
        if t is not None or self.max_gap is not None:
            self._check(t)
        window = self._by_device.get(device)
        if self.max_gap is None:
            return window
        # A first time is compared with itself: what that refuses, no later one could follow.
        last = t if window is None else window.times[-1]
        return window if self._is_near(t, last) else None

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

    def advance(self, device: Hashable, t: Time, window: Window | None, p: Floats) -> None:
        """Add a reading to the window that was found for it; without one a segment begins."""
        if window is None:
            window = self._by_device[device] = Window(self.readings, len(p))
        window.make_room(len(p))
        kernels().advance(window.logs, p)
        window.count = min(window.count + 1, self.readings)
        window.times = (*window.times, t)[-self.times :]
        self._by_device.move_to_end(device)
        if len(self._by_device) > self.max_devices:
            self._by_device.popitem(last=False)

    def forget(self, device: Hashable) -> Window | None:
        return self._by_device.pop(device, None)

    def __len__(self) -> int:
        return len(self._by_device)
