"""`TimeIntegrator`: decisions on the last readings of a device, and the windows it keeps."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from types import NoneType
from typing import Any, ClassVar, Final, Literal, Self

import numpy as np
import numpy.typing as npt
from river import base

from streamlvq.arrays import Floats, Label, Reading
from streamlvq.errors import ParameterError
from streamlvq.estimator import DEFAULT_LIMITS, EstimatorState, StateLimits, exclusive
from streamlvq.kernels import kernels
from streamlvq.models.base import CompiledClassifier
from streamlvq.models.parameters import check_range
from streamlvq.models.vectorizer import Arrays, KernelBatch, dictionary_maker, no_filter
from streamlvq.records import Integrated
from streamlvq.wrappers.base import (
    ClassifierWrapper,
    LabelProbabilities,
    engine_probabilities,
    innermost_model,
    probability_getter,
    unwrap,
)
from streamlvq.wrappers.time_filter import TimeFilter

# --- windows of devices --------------------------------------------------------------------------

Time = Any  # a number, or a datetime together with a timedelta as `max_gap`

NO_WINDOW = -1  # no window
NO_LABEL = -1  # code of the last label of a device that had none


@dataclass(frozen=True, slots=True)
class Window:
    """Copy of one device's window; `streamlvq.kernels.pipeline` describes `logs`.

    `times` are those of the newest readings, as many as a centred window needs.
    """

    logs: Floats
    count: int
    times: tuple[Time, ...]


class Windows:
    """Windows of many devices; the device silent longest is dropped when there are too many.

    All windows share one array, so that a kernel can process readings of many devices. Each device
    has a slot; `logs`, `counts`, `times` and `last_labels` (for a filter) have one entry per slot.
    """

    def __init__(
        self,
        readings: int,
        times: int,
        max_gap: float | timedelta | None,
        max_devices: int,
        max_count: int | None = None,
    ) -> None:
        self.readings = readings
        self.kept_times = times
        self.max_gap = max_gap
        self.max_devices = max_devices
        self.max_count = readings if max_count is None else max_count
        self.logs: Floats = np.zeros((0, readings + 1, 1))
        self.columns = 1  # of `logs` in use: one per class and one for unknown classes
        self.counts: npt.NDArray[np.int64] = np.zeros(0, np.int64)
        self.last_labels: npt.NDArray[np.int64] = np.zeros(0, np.int64)
        self.times: list[tuple[Time, ...]] = []
        self._slots: OrderedDict[Hashable, int] = OrderedDict()
        self._free: list[int] = []

    def find(self, device: Hashable, t: Time) -> int:
        """Return the slot of the window that a reading continues, or NO_WINDOW."""
        if t is not None or self.max_gap is not None:
            self._check(t)
        slot = self._slots.get(device, NO_WINDOW)
        if self.max_gap is None:
            return slot
        # A first time is compared with itself, to refuse types that cannot be compared later.
        last = t if slot == NO_WINDOW else self.times[slot][-1]
        return slot if self._is_near(t, last) else NO_WINDOW

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

        The caller updates `logs` and `counts` afterwards, from zero if `found` is NO_WINDOW.
        """
        slots = self._slots
        slot = slots.get(device, NO_WINDOW)
        if slot == NO_WINDOW:
            slot = self._assign_slot(device)
        else:
            slots.move_to_end(device)
        if found == NO_WINDOW or self.kept_times == 1:
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
        last_labels = np.full(slots, NO_LABEL)
        last_labels[: len(self.last_labels)] = self.last_labels
        self.logs, self.counts, self.last_labels = logs, counts, last_labels

    def widen(self, classes: int) -> None:
        """Add columns for new classes, with the values kept for unknown classes.

        All columns after those in use have these values already, so that classes that come one by
        one rarely need a copy.
        """
        self.columns = max(self.columns, classes + 1)
        room = self.logs.shape[2]
        if self.columns > room:
            room = max(self.columns, room + room // 2 if len(self.logs) else 0)
            unknown = np.repeat(self.logs[:, :, -1:], room - self.logs.shape[2], axis=2)
            self.logs = np.concatenate([self.logs, unknown], axis=2)

    def begin(self, device: Hashable, t: Time, found: int, classes: int) -> int:
        """Make ready for a reading and return its slot; NO_WINDOW as `found` starts a segment."""
        self.widen(classes)
        slot = self.enter(device, t, found)
        if found == NO_WINDOW:
            self.logs[slot] = 0.0
            self.counts[slot] = 0
            self.last_labels[slot] = NO_LABEL
        return slot

    def advance(self, device: Hashable, t: Time, found: int, p: Floats) -> None:
        """Add a reading to its window."""
        slot = self.begin(device, t, found, len(p))
        kernels("pipeline").advance(self.logs[slot], p)
        self.counts[slot] = min(self.counts[slot] + 1, self.readings)

    def advance_filter(
        self,
        time_filter: TimeFilter,
        device: Hashable,
        t: Time,
        found: int,
        p: Floats,
        y: Label | None,
    ) -> None:
        """Add a reading to the memory of a filter, which then learns its label, if it has one."""
        slot = self.begin(device, t, found, len(p))
        time_filter.meet(self.logs[slot], int(self.counts[slot]), p, moves_on=True)
        self.counts[slot] += 1
        time_filter.learn(y, self.last_labels, slot)

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
            starts.append(found == NO_WINDOW)
        return np.array(slots, np.int64), np.array(starts, np.int64)

    def slot_of(self, device: Hashable) -> int:
        """Return the slot of a device, whatever the time; NO_WINDOW if it has none."""
        return self._slots.get(device, NO_WINDOW)

    def forget(self, device: Hashable) -> Window | None:
        """Remove the window of a device and return a copy of it."""
        slot = self._slots.pop(device, NO_WINDOW)
        if slot == NO_WINDOW:
            return None
        self._free.append(slot)
        return Window(self.logs[slot].copy(), int(self.counts[slot]), self.times[slot])

    def __len__(self) -> int:
        return len(self._slots)

    def moved_to(self, before: list[Hashable], after: list[Hashable]) -> Windows:
        """Return a copy with columns in the order of other classes.

        A class that is not in `before` counts as unknown to all readings.
        """
        unknown = self.columns - 1
        column_of = {label: column for column, label in enumerate(before[:unknown])}
        columns = [column_of.get(label, unknown) for label in after]
        new = Windows(
            self.readings, self.kept_times, self.max_gap, self.max_devices, self.max_count
        )
        new.logs = np.ascontiguousarray(self.logs[:, :, [*columns, unknown]])
        new.columns = len(columns) + 1
        new.counts, new.times = self.counts.copy(), self.times.copy()
        place_of = {label: place for place, label in enumerate(after)}
        places = [*(place_of.get(label, NO_LABEL) for label in before), NO_LABEL]
        new.last_labels = np.array(places, np.int64)[self.last_labels]  # the last one for none
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
        logs = np.ascontiguousarray(self.logs[rows, :, : self.columns])
        arrays = {"logs": logs, "counts": self.counts[rows], "times": times}
        return arrays, {"devices": devices, "times": others}

    def label_memory(self) -> npt.NDArray[np.int64]:
        """Return the last label of each device, in the order of `memory`."""
        return self.last_labels[np.array(list(self._slots.values()), np.int64)]

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
        if counts.shape != (known,) or np.any(counts < 0) or np.any(counts > self.max_count):
            raise ValueError(f"windows: expected {known} counts up to {self.max_count}")
        last_labels = arrays.get("last_labels", np.full(known, NO_LABEL))
        if last_labels.shape != (known,) or np.any(last_labels < NO_LABEL):
            raise ValueError(f"windows: expected {known} codes of labels")
        if not np.isfinite(logs).all():
            raise ValueError("windows: expected finite numbers")
        self.times = self._restored_times(arrays["times"], extra["times"], known)
        self.logs = np.array(logs, np.float64, order="C")
        self.columns = self.logs.shape[2]
        self.counts = np.array(counts, np.int64)
        self.last_labels = np.array(last_labels, np.int64)
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
MAX_TIME = 2.0**63  # enough for nanoseconds since 1970


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
    if times.ndim != 1 or np.any(np.abs(times) > MAX_TIME):  # False for NaN
        raise ValueError(f"windows: expected times of at most {MAX_TIME:g}")


def _to_plain(t: Time) -> Any:
    t = t.item() if isinstance(t, np.generic) else t
    plain = {"datetime": t.isoformat()} if isinstance(t, datetime) else t
    _from_plain(plain)  # refuse to write what could not be read
    return plain


def _from_plain(t: Any) -> Time:
    if isinstance(t, dict) and t.keys() == {"datetime"}:
        return datetime.fromisoformat(t["datetime"])
    if t is None or (type(t) in (int, float) and abs(t) <= MAX_TIME):
        return t
    raise ValueError(
        f"windows: expected times that are datetimes or numbers of at most {MAX_TIME:g}, "
        f"got {str(t)[:80]!r}"
    )


# --- the wrapper ---------------------------------------------------------------------------------

ADAPTIVE_WINDOW: Final = "adaptive"  # the window that is a filter
MAX_READINGS = 2**62  # of a segment
MAX_DELAY = 1000

_NO_PAST: Floats = np.zeros((1, 1))
_NO_KEYWORDS: frozenset[str] = frozenset()


class TimeIntegrator(ClassifierWrapper):
    """Wrapper that decides on a reading together with those of its device before it.

    The state of a machine lasts longer than one reading. An *adaptive* window learns from labels how
    much that is worth. Before a reading, the class is expected with the probability

        prior = (1 - h) * decision on the reading before + h * frequency of the class,

    where h is how often successive labels of a device differ, and with the classifier's
    probabilities p of the reading the decision is prior^a * p^b, divided by its sum. h, a and b are
    fitted to every label before it is learnt, with forgetting, and shared by all devices. Before the
    first label a is 0 and b is 1: without labels the decisions are those of the classifier. The
    same holds where states do not last. No label enters what is remembered of a device.

    A *fixed* window of n readings multiplies the probabilities of the last n, so many that agree
    mildly outweigh a single confident outlier. It takes readings for independent and states for
    constant: it needs no labels, lags at every change and claims too much. Probabilities count as at
    least 1e-6, so that a zero is no veto for as long as it stays in the window.

    Predictions change nothing: they combine the past of the device with the current reading. A
    reading enters the window of its device when it is learnt (with its probabilities before
    learning) or, if it has no label, when it is passed to `observe_one`. For a class that was unknown
    at the time, an older reading counts with its mean probability, 1 / the number of classes known
    then. A reading before anything was learnt does not enter the window.

    Parameters
    ----------
    classifier
        Any classifier with `predict_proba_one`, or a pipeline that ends with one.
    window
        "adaptive", or the number of readings combined, including the current one.
    centered
        For a fixed window: decide on the reading in its middle instead of on the latest, using the
        `delay` readings after it. This is more accurate where states change, but late.
        `integrated_one` tells which reading a decision is about; `finish` returns the outstanding
        decisions at the end.
    max_gap
        Longest time between two readings of a device in one window: after a longer gap the window
        starts anew. The same happens if time jumps back by more than this (a clock was set);
        readings that are late by less are used in order of arrival. A number, or a `timedelta` for
        times that are `datetime`. None to ignore time.
    max_devices
        Largest number of windows. Beyond it, the device that has been silent longest is dropped.
    delay
        For an adaptive window: decide on the reading so many readings ago, with those after it. What
        they say is filtered backward in the same way. None for 0, or what `centered` asks for.

    Notes
    -----
    `device` and `t` are keywords of all methods: a stream may give them as a third item
    `{"device": ..., "t": ...}` of its samples, and River's pipelines pass them on. Without `device`
    all readings belong to one device.

    If the label of a reading arrives late, pass the reading to `observe_one` at once and, later, to
    `learn_one` of `classifier` itself; `learn_one` of the integrator would count it twice. For an
    adaptive window keep `last_evidence()` of the prediction, and give it to `record_label`
    together with the label.

    Examples
    --------

    A camera that sees 66 patches of one material, then 66 of the next:

    >>> from river import datasets, evaluate, metrics
    >>> import streamlvq

    >>> patches = sorted(datasets.ImageSegments(), key=lambda sample: sample[1])
    >>> runs = [patches[k : k + 66] for k in range(0, len(patches), 66)]
    >>> stream = [(*sample, {"device": "camera"}) for k in range(5) for run in runs[k::5] for sample in run]

    >>> alone = streamlvq.GLVQ()
    >>> evaluate.progressive_val_score((s[:2] for s in stream), alone, metrics.Accuracy()).get()
    0.92
    >>> together = streamlvq.TimeIntegrator(streamlvq.GLVQ())
    >>> evaluate.progressive_val_score(stream, together, metrics.Accuracy()).get()
    0.96

    Two readings later it is known better:

    >>> model = streamlvq.TimeIntegrator(streamlvq.GLVQ(), delay=2)
    >>> accuracy, labels = metrics.Accuracy(), []
    >>> for x, y, keywords in stream:
    ...     labels.append(y)
    ...     answer = model.integrated_one(x, **keywords)
    ...     if answer is not None:
    ...         accuracy.update(labels[-1 - answer.delay], answer.label)
    ...     model.learn_one(x, y, **keywords)
    >>> accuracy.get()
    0.98
    >>> [(late.label, late.delay) for late in model.finish("camera")]  # owed at the end
    [('window', 1), ('window', 0)]

    References
    ----------
    - Brinkrolf, J. (2023). Learning vector quantization for the real-world: privacy, robustness, and sparsity. Dissertation, Bielefeld University, section 4.5.

    """

    keeps_readings: ClassVar[bool] = True

    def __init__(
        self,
        classifier: base.Classifier,
        window: int | Literal["adaptive"] = ADAPTIVE_WINDOW,
        centered: bool = False,
        max_gap: float | timedelta | None = None,
        max_devices: int = 100_000,
        delay: int | None = None,
    ) -> None:
        super().__init__(classifier)
        self.window = window
        self.centered = centered
        self.max_gap = max_gap
        self.max_devices = max_devices
        self._asked_delay = delay
        self._delay = 0
        self._check()
        self._get_probabilities = probability_getter(classifier)
        self._needs_keywords = self._get_probabilities is not engine_probabilities
        self._labels: Sequence[Label] = ()
        self._scratch: Floats = np.empty(0)
        self._by_label: Callable[..., dict[Label, float]] | None = None
        self._filter: TimeFilter | None = None
        max_count: int | None = None
        if isinstance(window, str):
            self._delay = delay or 0
            self._filter = TimeFilter(self._delay)
            kept, max_count = self._delay, MAX_READINGS
            self._no_past = np.zeros((kept + 1, 1))
        else:
            if centered:
                self._delay = (window - 1) // 2
            kept = window - 1
            self._no_past = _NO_PAST
        self._windows = Windows(kept, max(1, self._delay), max_gap, max_devices, max_count)

    def _check(self) -> None:
        owner = type(self).__name__
        check_range(owner, "max_devices", self.max_devices, 1, whole=True)
        if not isinstance(self.centered, bool):
            raise ParameterError(owner, "centered", f"expected a bool, got {self.centered!r}")
        self._check_window(owner)
        if isinstance(self.max_gap, timedelta):
            check_range(owner, "max_gap", self.max_gap.total_seconds(), 0)
        elif self.max_gap is not None:
            check_range(owner, "max_gap", self.max_gap, 0)
        for link in unwrap(self.classifier):
            if issubclass(type(link), ClassifierWrapper):  # `isinstance` looks through pipelines
                raise ParameterError(
                    owner,
                    "classifier",
                    "expected a classifier without an integrator or rejector of its own, "
                    f"got {link}; put rejectors around the integrator",
                )

    def _check_window(self, owner: str) -> None:
        window: Any = self.window
        delay = self._asked_delay
        if isinstance(window, str):
            if window != ADAPTIVE_WINDOW:
                expected = f"expected {ADAPTIVE_WINDOW!r} or a whole number of at least 1"
                raise ParameterError(owner, "window", f"{expected}, got {window!r}")
            if self.centered:
                expected = "expected a window of some number of readings, which has a middle"
                raise ParameterError(owner, "centered", f"{expected}, got {window!r}; use delay")
            if delay is not None:
                check_range(owner, "delay", delay, 0, MAX_DELAY, whole=True)
            return
        try:
            check_range(owner, "window", window, 1, whole=True)
        except ParameterError as error:
            expected = f"expected {ADAPTIVE_WINDOW!r} or a whole number of at least 1"
            raise ParameterError(owner, "window", f"{expected}, got {window!r}") from error
        if delay not in (None, (window - 1) // 2 if self.centered else 0):
            expected = f"expected window={ADAPTIVE_WINDOW!r}, or centered=True for half a window"
            raise ParameterError(owner, "delay", f"{expected}, got {delay!r}")

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        from streamlvq.models import GLVQ  # noqa: PLC0415

        yield {"classifier": GLVQ(rehearsal=2)}
        yield {"classifier": GLVQ(rehearsal=2), "window": 5}

    def _get_params(self) -> dict[str, Any]:
        # Clones with another window get another delay, unless it was asked for.
        params: dict[str, Any] = super()._get_params()
        return {**params, "delay": self._asked_delay}

    def __getstate__(self) -> dict[str, Any]:
        # Rebuilt on demand; predictions must not change the pickle.
        return {**self.__dict__, "_by_label": None, "_scratch": np.empty(0)}

    @property
    def learns_weights(self) -> bool:
        """Whether the window is adaptive and learns from labels how much the past is worth."""
        return self._filter is not None

    @property
    def delay(self) -> int:
        """Readings between the one decided on and the latest."""
        return self._delay

    # --- predictions -----------------------------------------------------------------------------

    def _inner_keywords(
        self, method: str, device: Hashable, t: Time, keywords: dict[str, Any]
    ) -> dict[str, Any]:
        """Return the keywords that the classifier accepts, including device and time."""
        if self._accepted[method] == _NO_KEYWORDS:
            return {}
        given = {"device": device, "t": t, **keywords}
        return self._chosen(method, {name: v for name, v in given.items() if v is not None})

    def _window_and_answer(
        self, x: Reading, device: Hashable, t: Time, keywords: dict[str, Any]
    ) -> tuple[int, LabelProbabilities | None]:
        """Return the window that a reading continues, and its own class probabilities."""
        window = self._windows.find(device, t)
        if self._needs_keywords:
            keywords = self._inner_keywords("predict_proba_one", device, t, keywords)
        return window, self._get_probabilities(self.classifier, self._labels, x, keywords)

    def _combine(
        self, x: Reading, device: Hashable, t: Time, keywords: dict[str, Any]
    ) -> tuple[Sequence[Label], Floats, int, int] | None:
        """Return labels, probabilities over the window, the index of the best, and the window."""
        window, answer = self._window_and_answer(x, device, t, keywords)
        if answer is None or (self._delay and self._count(window) < self._delay):
            self._meet(window, answer)
            return None
        labels, p = answer
        if self._filter is not None:
            out, best = self._filter.posterior(self._past(window), self._count(window), p)
            return labels, out, best, window
        out = self._scratch
        if len(out) != len(p):
            out = self._scratch = np.empty(len(p))
        best = kernels("pipeline").combine(self._past(window), p, out)
        return labels, out, best, window

    def _meet(self, window: int, answer: LabelProbabilities | None) -> None:
        """Keep the evidence of a reading that is not decided on, for `last_evidence`."""
        if self._filter is None:
            return
        if answer is None:
            self._filter.forget_evidence()
        else:
            self._filter.meet(self._past(window), self._count(window), answer[1])

    def _past(self, window: int) -> Floats:
        return self._no_past if window == NO_WINDOW else self._windows.logs[window]

    @exclusive
    def predict_proba_one(
        self, x: Reading, device: Hashable = None, t: Time = None, **kwargs: Any
    ) -> dict[Label, float]:
        """Return the probability of every class, given the device's past and this reading.

        Parameters
        ----------
        x
            Reading to classify.
        device
            Device that sent it.
        t
            Time when it was taken.

        """
        combined = self._combine(x, device, t, kwargs)
        return {} if combined is None else self._dictionary(combined[0], combined[1])

    def _dictionary(self, labels: Sequence[Label], p: Floats) -> dict[Label, float]:
        if labels is not self._labels:  # no window uses these labels yet
            return dict(zip(labels, p.tolist(), strict=True))
        if self._by_label is None:
            self._by_label = dictionary_maker(labels)
        return self._by_label(*p.tolist())

    @exclusive
    def predict_one(
        self, x: Reading, device: Hashable = None, t: Time = None, **kwargs: Any
    ) -> Label | None:
        """Return the most probable class; None before anything is learnt."""
        combined = self._combine(x, device, t, kwargs)
        return None if combined is None else combined[0][combined[2]]

    @exclusive
    def integrated_one(
        self, x: Reading, device: Hashable = None, t: Time = None, **kwargs: Any
    ) -> Integrated | None:
        """Return the decision with its details; None where `predict_one` returns None.

        `delay` and `t` identify the reading that the decision is about.
        """
        combined = self._combine(x, device, t, kwargs)
        if combined is None:
            return None
        labels, out, best, window = combined
        return Integrated(
            label=labels[best],
            probabilities=self._dictionary(labels, out),
            delay=self._delay,
            t=self._windows.times[window][-self._delay] if self._delay else t,
            readings=self._count(window) + 1,
        )

    # --- learning and windows --------------------------------------------------------------------

    @exclusive
    def learn_one(
        self, x: Reading, y: Label, device: Hashable = None, t: Time = None, **kwargs: Any
    ) -> None:
        """Learn a labelled reading and add it to the window of its device."""
        window, answer = self._before(x, device, t, kwargs)
        self.classifier.learn_one(x, y, **self._inner_keywords("learn_one", device, t, kwargs))
        self._after(device, t, window, answer, y)

    @exclusive
    def observe_one(
        self,
        x: Reading,
        device: Hashable = None,
        t: Time = None,
        *,
        scales: bool = True,
        **kwargs: Any,
    ) -> None:
        """Add an unlabelled reading to its window and pass it to the classifier.

        With `scales=False` only the window changes and the classifier stays unchanged.
        """
        window, answer = self._before(x, device, t, kwargs)
        if scales:
            self._observe(x, self._inner_keywords("observe_one", device, t, kwargs))
        self._after(device, t, window, answer)

    def _before(
        self, x: Reading, device: Hashable, t: Time, keywords: dict[str, Any]
    ) -> tuple[int, LabelProbabilities | None]:
        """Return window and probabilities of a reading before it is learnt; changes nothing."""
        window, answer = self._window_and_answer(x, device, t, keywords)
        return window, None if answer is None else (answer[0], answer[1].copy())

    def _after(
        self,
        device: Hashable,
        t: Time,
        window: int,
        answer: LabelProbabilities | None,
        y: Label | None = None,
    ) -> None:
        """Add a reading to its window, last of all: a refused reading must change nothing."""
        if answer is None:
            return
        labels, p = answer
        self._set_labels(labels)
        if self._filter is None:
            self._windows.advance(device, t, window, p)
        else:
            self._windows.advance_filter(self._filter, device, t, window, p, y)

    def _set_labels(self, labels: Sequence[Label]) -> None:
        """Set the classes that the columns of the windows stand for."""
        if labels is not self._labels:
            self._labels, self._by_label = labels, None
            if self._filter is not None:
                self._filter.set_labels(labels)

    # --- labels that come later ------------------------------------------------------------------

    @exclusive
    def last_evidence(self) -> Floats | None:
        """Return what an adaptive window needs to learn the label of the last reading later.

        Call it after a prediction, and `record_label` when the label has come. It is about the
        reading that was given, also where decisions are about an earlier one. None for a fixed
        window, which learns nothing, and for the first reading of a device, which has no past.
        """
        return None if self._filter is None else self._filter.evidence()

    @exclusive
    def record_label(self, evidence: Floats | None, y: Label, device: Hashable = None) -> None:
        """Fit an adaptive window to the true label of an earlier reading.

        The classifier learns nothing from this. Does nothing for a fixed window.

        Parameters
        ----------
        evidence
            Result of `last_evidence` when the reading was predicted.
        y
            True label.
        device
            Device that sent the reading.

        """
        if self._filter is None:
            return
        evidence = np.full((2, 1), np.nan) if evidence is None else _checked_evidence(evidence)
        try:
            hash(y)
        except TypeError as error:
            raise ValueError(f"expected a label that can be hashed, got {y!r}") from error
        slot = self._windows.slot_of(device)
        self._filter.learn_late(evidence, y, self._windows.last_labels, slot)

    @exclusive
    def starts_segment(self, device: Hashable = None, t: Time = None) -> bool:
        """Return True if a reading at this time would start a new window for its device.

        In that case call `finish` for the previous segment first.
        """
        return self._windows.find(device, t) == NO_WINDOW

    @exclusive
    def finish(self, device: Hashable = None) -> list[Integrated]:
        """Return the outstanding decisions on the last `delay` readings and empty the window.

        Call it at the end of a segment. No readings follow these, so their windows are shorter.
        Without a delay there are no outstanding decisions.
        """
        window = self._windows.forget(device)
        if window is None:
            return []
        outstanding = min(self._delay, window.count)
        return [self._outstanding(window, ago) for ago in range(outstanding - 1, -1, -1)]

    def _outstanding(self, window: Window, ago: int) -> Integrated:
        """Return the decision on the reading `ago` readings before the end of its segment."""
        if isinstance(self.window, str):
            assert self._filter is not None
            classes = len(self._labels)
            out, best = self._filter.outstanding(window.logs, window.count, ago, classes)
            p = self._dictionary(self._labels, out)
            return Integrated(self._labels[best], p, ago, window.times[-1 - ago], window.count)
        count = min(window.count, self.window - self._delay + ago)
        logs = window.logs[-count:].sum(axis=0, keepdims=True)
        out = np.empty(len(self._labels))
        best = kernels("pipeline").combine(logs, np.ones(len(out)), out)
        p = self._dictionary(self._labels, out)
        return Integrated(self._labels[best], p, ago, window.times[-1 - ago], count)

    @exclusive
    def reset(self, device: Hashable = None) -> None:
        """Empty the window of a device, so that the next reading starts a new one."""
        self._windows.forget(device)

    def _count(self, window: int) -> int:
        return 0 if window == NO_WINDOW else int(self._windows.counts[window])

    @property
    def tracked_devices(self) -> int:
        """Number of devices that have a window."""
        return len(self._windows)

    # --- many readings in one kernel call, see `streamlvq.models.vectorizer.BatchPart` ----------------

    def rows_ready(self, batch: KernelBatch) -> int:
        """Return how many rows the kernel can process: all, or none if decisions are late."""
        return 0 if self._delay else batch.remaining

    def lend(self, batch: KernelBatch) -> Arrays:
        """Assign rows to the windows of their devices and return the window arrays."""
        readings, rows = batch.readings, batch.rows
        duplicates = batch.duplicates[rows]
        entered = self._windows.enter_many(readings.devices[rows], readings.times[rows], duplicates)
        if not all(duplicates):  # duplicates change nothing
            self._windows.widen(len(batch.classes))
            self._set_labels(batch.classes)
        windows = self._windows
        memory = (*entered, windows.logs, windows.counts)
        if self._filter is None:
            return *memory, *no_filter()
        return *memory, windows.last_labels, *self._filter.lend(batch)

    def settle(self, batch: KernelBatch, lent: Arrays) -> None:
        """Do nothing: the kernel has already updated the windows and the filter."""

    # --- state -----------------------------------------------------------------------------------
    #
    # The delay of a fixed window follows from `centered`. Its states do not mention it, as those
    # written before there were adaptive windows do not.

    def state(
        self, *, readings: bool = True, limits: StateLimits = DEFAULT_LIMITS
    ) -> EstimatorState:
        """Return a copy of the integrator and the classifier inside, see `ClassifierWrapper`."""
        state = super().state(readings=readings, limits=limits)
        if self._filter is not None:
            return state
        parameters = {name: v for name, v in state.parameters.items() if name != "delay"}
        return replace(state, parameters=parameters)

    @classmethod
    def from_state_around(cls, state: EstimatorState, inner: Any) -> Self:
        """Validate a state, then rebuild the integrator, see `ClassifierWrapper`."""
        if state.parameters.get("window") != ADAPTIVE_WINDOW:
            state = replace(state, parameters={"delay": None, **state.parameters})
        return super().from_state_around(state, inner)

    @exclusive
    def memory_state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return a copy of the windows: arrays, and values for JSON."""
        arrays, extra = self._windows.memory()
        if self._filter is not None:
            arrays["last_labels"] = self._windows.label_memory()
            arrays["fitted"] = self._filter.fitted.copy()
        return arrays, {**extra, "labels": len(self._labels)}

    def restore_memory(self, arrays: dict[str, Any], extra: dict[str, Any]) -> None:
        """Restore what `memory_state` returned; raise ValueError if it does not fit."""
        self._windows.restore(arrays, extra)
        model = innermost_model(self.classifier)
        count = extra["labels"]
        if not 0 <= count <= len(model.classes) or self._windows.columns > count + 1:
            raise ValueError(f"windows: expected at most {len(model.classes)} classes, got {count}")
        # The model's own list of labels is compared by identity.
        whole = count == len(model.classes)
        own = whole and not self._needs_keywords
        self._labels = model.known_labels if own else list(model.classes[:count])
        self._by_label = None
        if self._filter is not None:
            self._restore_filter(arrays)

    def _restore_filter(self, arrays: dict[str, Any]) -> None:
        assert self._filter is not None
        constants, windows = kernels("pipeline"), self._windows
        self._filter.restore(arrays["fitted"], len(self._labels))
        self._filter.set_labels(self._labels)
        if np.any(windows.last_labels >= len(self._labels)) or np.any(windows.counts < 1):
            raise ValueError("windows: expected readings and labels of every device")
        lowest = constants.LOG_PROBABILITY_FLOOR
        if np.any(windows.logs > 0.0) or np.any(windows.logs[:, :, :-1] < lowest):
            raise ValueError("windows: expected logarithms of probabilities")

    def adopt(self, before: Self) -> None:
        """Take over what labels taught an integrator with the same parameters and model.

        The windows stay as they are: those of `before` belong to other devices, or another time.
        """
        if self._filter is None or before._filter is None:
            return
        model = innermost_model(self.classifier)
        labels = model.known_labels if isinstance(model, CompiledClassifier) else model.classes
        self._filter = before._filter.moved_to(list(before._labels), list(labels))
        self._set_labels(labels)

    def _move_memory(self, new: Self) -> None:
        model = innermost_model(new.classifier)
        new._windows = self._windows.moved_to(list(self._labels), list(model.classes))
        # The model's own list of labels is compared by identity.
        own = isinstance(model, CompiledClassifier)
        new._labels = model.known_labels if own else list(model.classes)
        if self._filter is not None:
            new._filter = self._filter.moved_to(list(self._labels), new._labels)


def _checked_evidence(evidence: Any) -> Floats:
    """Return evidence as the kernel takes it; raise ValueError for anything else."""
    try:
        array = np.ascontiguousarray(evidence, np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"expected the result of last_evidence, got {evidence!r}") from error
    if array.ndim != 2 or len(array) != 2 or not np.isfinite(array).all():
        raise ValueError(f"expected the result of last_evidence, got {evidence!r}")
    return array
