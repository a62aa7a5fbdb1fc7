"""Windows of past readings, one per device."""

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

NONE = -1  # no window


@functools.cache
def kernels() -> ModuleType:
    """Return the window kernels, compiled on first use."""
    from streamlvq.kernels import window  # noqa: PLC0415

    return window


@dataclass(frozen=True, slots=True)
class Window:
    """Copy of one device's window; `streamlvq.kernels.window` describes `logs`.

    `times` are those of the newest readings, as many as a centred window needs.
    """

    logs: Floats
    count: int
    times: tuple[Time, ...]


class Windows:
    """Windows of many devices; the device silent longest is dropped when there are too many.

    All windows share one array, so that a kernel can process readings of many devices. Each device
    has a slot; `logs`, `counts` and `times` have one entry per slot.
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
        self._slots: OrderedDict[Hashable, int] = OrderedDict()
        self._free: list[int] = []

    def find(self, device: Hashable, t: Time) -> int:
        """Return the slot of the window that a reading continues; NONE if it starts a segment."""
        if t is not None or self.max_gap is not None:
            self._check(t)
        slot = self._slots.get(device, NONE)
        if self.max_gap is None:
            return slot
        # A first time is compared with itself, to refuse types that cannot be compared later.
        last = t if slot == NONE else self.times[slot][-1]
        return slot if self._is_near(t, last) else NONE

    def _check(self, t: Time) -> None:
        if t is None:
            raise ValueError(
                f"expected the time of the reading because of max_gap={self.max_gap!r}, got none: "
                "pass t=..., or leave max_gap out"
            )
        if t != t:
            raise ValueError(f"expected a time that is not NaN, got t={t!r}")

    def _is_near(self, t: Time, last: Time) -> bool:
        try:
            return bool(abs(t - last) <= self.max_gap)
        except TypeError as error:
            raise ValueError(
                f"expected times whose difference can be compared with max_gap={self.max_gap!r}, "
                f"got t={t!r} after {last!r}; for datetimes use max_gap=timedelta(seconds=...)"
            ) from error

    # --- adding readings -------------------------------------------------------------------------

    def enter(self, device: Hashable, t: Time, found: int) -> int:
        """Note the time of a reading and return the slot of its device; `found` is its window.

        The caller updates `logs` and `counts` afterwards, from zero if `found` is NONE.
        """
        slots = self._slots
        slot = slots.get(device, NONE)
        if slot == NONE:
            slot = self._assign_slot(device)
        else:
            slots.move_to_end(device)
        if found == NONE or self.kept_times == 1:
            self.times[slot] = (t,)
        else:
            self.times[slot] = (*self.times[slot], t)[-self.kept_times :]
        return slot

    def _assign_slot(self, device: Hashable) -> int:
        """Return a slot for a new device: a free one, or that of the device silent longest."""
        if len(self._slots) >= self.max_devices:
            slot = self._slots.popitem(last=False)[1]
        elif self._free:
            slot = self._free.pop()
        else:
            slot = len(self.times)
            self.times.append(())
            if slot >= len(self.logs):
                self._grow(max(4, 2 * slot))
        self._slots[device] = slot
        return slot

    def _grow(self, slots: int) -> None:
        """Enlarge the arrays to this many slots, at most `max_devices`."""
        slots = min(slots, self.max_devices)
        logs = np.zeros((slots, *self.logs.shape[1:]))
        logs[: len(self.logs)] = self.logs
        counts = np.zeros(slots, np.int64)
        counts[: len(self.counts)] = self.counts
        self.logs, self.counts = logs, counts

    def widen(self, classes: int) -> None:
        """Add columns for new classes, with the values kept for unknown classes."""
        missing = classes + 1 - self.logs.shape[2]
        if missing > 0:
            unknown = np.repeat(self.logs[:, :, -1:], missing, axis=2)
            self.logs = np.concatenate([self.logs, unknown], axis=2)

    def advance(self, device: Hashable, t: Time, found: int, p: Floats) -> None:
        """Add a reading to its window; start a new segment if `found` is NONE."""
        self.widen(len(p))
        slot = self.enter(device, t, found)
        if found == NONE:
            self.logs[slot] = 0.0
            self.counts[slot] = 0
        kernels().advance(self.logs[slot], p)
        self.counts[slot] = min(self.counts[slot] + 1, self.readings)

    def enter_many(
        self, devices: Sequence[Hashable], times: Sequence[Time], duplicates: Sequence[bool]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Enter readings in order; duplicates only look up their window.

        Returns the slot of each reading, and 1 where a window starts.
        """
        slots, starts = [], []
        find, enter = self.find, self.enter
        for device, t, duplicate in zip(devices, times, duplicates, strict=True):
            found = find(device, t)
            slots.append(found if duplicate else enter(device, t, found))
            starts.append(found == NONE)
        return np.array(slots, np.int64), np.array(starts, np.int64)

    def forget(self, device: Hashable) -> Window | None:
        """Remove the window of a device and return a copy of it."""
        slot = self._slots.pop(device, NONE)
        if slot == NONE:
            return None
        self._free.append(slot)
        return Window(self.logs[slot].copy(), int(self.counts[slot]), self.times[slot])

    def __len__(self) -> int:
        return len(self._slots)

    def moved_to(self, before: list[Hashable], after: list[Hashable]) -> Windows:
        """Return a copy with columns in the order of other classes.

        A class that is not in `before` counts as unknown to all readings.
        """
        unknown = self.logs.shape[2] - 1
        column_of = {label: column for column, label in enumerate(before[:unknown])}
        columns = [column_of.get(label, unknown) for label in after]
        new = Windows(self.readings, self.kept_times, self.max_gap, self.max_devices)
        new.logs = np.ascontiguousarray(self.logs[:, :, [*columns, unknown]])
        new.counts, new.times = self.counts.copy(), self.times.copy()
        new._slots, new._free = self._slots.copy(), self._free.copy()
        return new

    # --- state -----------------------------------------------------------------------------------

    def memory(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return arrays and values for JSON, with the devices silent longest first.

        Times are an array if each device has a single float or None (as NaN), else a list.
        """
        devices = list(self._slots)
        _check_devices(devices)
        order = list(map(self._slots.__getitem__, devices))  # faster than `values`
        kept = list(map(self.times.__getitem__, order))
        times, others = np.empty(0), None
        flat = [each[0] for each in kept]
        if self.kept_times == 1 and _are_all(flat, _ARRAY_TIMES):
            times = np.array(flat, np.float64)
            _check_times(times)
        else:
            others = [[_to_plain(t) for t in each] for each in kept]
        rows = np.array(order, np.int64)
        arrays = {"logs": self.logs[rows], "counts": self.counts[rows], "times": times}
        return arrays, {"devices": devices, "times": others}

    def restore(self, arrays: dict[str, Any], extra: dict[str, Any]) -> None:
        """Restore what `memory` returned; raise ValueError if it does not fit."""
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
        self._slots = OrderedDict(zip(devices, range(known), strict=True))
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
            self._check_time_types(times)
        return times

    def _check_time_types(self, times: list[tuple[Time, ...]]) -> None:
        """Raise ValueError unless `max_gap` can be compared with differences of these times."""
        wanted = {datetime} if isinstance(self.max_gap, timedelta) else {int, float}
        wrong = {type(t) for each in times for t in each} - wanted
        if wrong:
            names = ", ".join(sorted(kind.__name__ for kind in wrong))
            raise ValueError(f"windows: expected times for max_gap={self.max_gap!r}, got {names}")


# --- device names and times for files ------------------------------------------------------------

_ARRAY_TIMES = (float, NoneType)
_DEVICE_TYPES = (str, int, NoneType)
LATEST = 2.0**63  # enough for nanoseconds since 1970


def _are_all(values: list[Any], kinds: tuple[type, ...]) -> bool:
    return all(issubclass(kind, kinds) for kind in set(map(type, values)))


def _check_devices(devices: list[Hashable]) -> None:
    if not isinstance(devices, list):
        raise ValueError(f"windows: expected a list of devices, got {type(devices).__name__}")
    if _are_all(devices, _DEVICE_TYPES):
        return
    wrong = next(device for device in devices if not isinstance(device, _DEVICE_TYPES))
    raise ValueError(
        f"expected devices named by text or whole numbers, got {wrong!r}: other names cannot be "
        f"saved"
    )


def _check_times(times: Floats) -> None:
    if times.ndim != 1 or np.any(np.abs(times) > LATEST):  # False for NaN
        raise ValueError(f"windows: expected times of at most {LATEST:g}")


def _to_plain(t: Time) -> Any:
    t = t.item() if isinstance(t, np.generic) else t
    plain = {"datetime": t.isoformat()} if isinstance(t, datetime) else t
    _from_plain(plain)  # refuse to write what could not be read
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
