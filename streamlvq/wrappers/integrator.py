"""`TimeIntegrator`."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from datetime import timedelta
from typing import Any, ClassVar, Self

import numpy as np
from river import base

from streamlvq.errors import ParameterError
from streamlvq.models.array_classifier import Label
from streamlvq.models.base import LVQClassifier
from streamlvq.models.batch import Arrays, KernelBatch
from streamlvq.models.parameters import check_range
from streamlvq.records import Integrated
from streamlvq.state import Floats
from streamlvq.vectorize import Reading, dictionary_maker
from streamlvq.wrappers.chain import innermost_model, unwrap
from streamlvq.wrappers.opinions import LabelProbabilities, engine_probabilities, probability_getter
from streamlvq.wrappers.windows import NONE, Time, Window, Windows, kernels
from streamlvq.wrappers.wrapper import ClassifierWrapper

_NO_PAST: Floats = np.zeros((1, 1))
_NO_KEYWORDS: frozenset[str] = frozenset()


class TimeIntegrator(ClassifierWrapper):
    """Wrapper that decides on the last readings of a device together.

    The state of a machine lasts longer than one reading. The class probabilities of the last
    `window` readings of a device are multiplied, so many that agree mildly outweigh a single
    confident outlier. Probabilities count as at least 1e-6, so that a zero is no veto for as long as
    it stays in the window.

    Predictions change nothing: they combine the window of the device with the current reading. A
    reading enters the window of its device when it is learnt (with its probabilities before
    learning) or, if it has no label, when it is passed to `observe_one`. For a class that was unknown
    at the time, an older reading counts with its mean probability, 1 / the number of classes known
    then. A reading before anything was learnt does not enter the window.

    Parameters
    ----------
    classifier
        Any classifier with `predict_proba_one`, or a pipeline that ends with one.
    window
        Number of readings combined, including the current one.
    centered
        Decide on the reading in the middle of the window instead of on the latest, using the
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

    Notes
    -----
    `device` and `t` are keywords of all methods: a stream may give them as a third item
    `{"device": ..., "t": ...}` of its samples, and River's pipelines pass them on. Without `device`
    all readings belong to one device.

    If the label of a reading arrives late, pass the reading to `observe_one` at once and, later, to
    `learn_one` of `classifier` itself; `learn_one` of the integrator would count it twice.

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
    >>> together = streamlvq.TimeIntegrator(streamlvq.GLVQ(), window=5)
    >>> evaluate.progressive_val_score(stream, together, metrics.Accuracy()).get()
    0.96

    With a window that also looks ahead, answers are about an earlier reading, and better:

    >>> model = streamlvq.TimeIntegrator(streamlvq.GLVQ(), window=5, centered=True)
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
        window: int = 5,
        centered: bool = False,
        max_gap: float | timedelta | None = None,
        max_devices: int = 100_000,
    ) -> None:
        super().__init__(classifier)
        self.window = window
        self.centered = centered
        self.max_gap = max_gap
        self.max_devices = max_devices
        self._check()
        self._get_probabilities = probability_getter(classifier)
        self._needs_keywords = self._get_probabilities is not engine_probabilities
        self._labels: Sequence[Label] = ()
        self._scratch: Floats = np.empty(0)
        self._by_label: Callable[..., dict[Label, float]] | None = None
        self._delay = (window - 1) // 2 if centered else 0
        self._windows = Windows(window - 1, max(1, self._delay), max_gap, max_devices)

    def _check(self) -> None:
        owner = type(self).__name__
        check_range(owner, "window", self.window, 1, whole=True)
        check_range(owner, "max_devices", self.max_devices, 1, whole=True)
        if not isinstance(self.centered, bool):
            raise ParameterError(owner, "centered", f"expected a bool, got {self.centered!r}")
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

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        from streamlvq.models import GLVQ  # noqa: PLC0415

        yield {"classifier": GLVQ(rehearsal=2)}

    def __getstate__(self) -> dict[str, Any]:
        # Rebuilt on demand; predictions must not change the pickle.
        return {**self.__dict__, "_by_label": None, "_scratch": np.empty(0)}

    @property
    def delay(self) -> int:
        """Readings between the one decided on and the latest; 0 unless centred."""
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
            return None
        labels, p = answer
        out = self._scratch
        if len(out) != len(p):
            out = self._scratch = np.empty(len(p))
        best = kernels().combine(_NO_PAST if window == NONE else self._windows.logs[window], p, out)
        return labels, out, best, window

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

    def predict_one(
        self, x: Reading, device: Hashable = None, t: Time = None, **kwargs: Any
    ) -> Label | None:
        """Return the most probable class; None before anything is learnt."""
        combined = self._combine(x, device, t, kwargs)
        return None if combined is None else combined[0][combined[2]]

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

    def learn_one(
        self, x: Reading, y: Label, device: Hashable = None, t: Time = None, **kwargs: Any
    ) -> None:
        """Learn a labelled reading and add it to the window of its device."""
        window, answer = self._before(x, device, t, kwargs)
        self.classifier.learn_one(x, y, **self._inner_keywords("learn_one", device, t, kwargs))
        self._after(device, t, window, answer)

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
        self, device: Hashable, t: Time, window: int, answer: LabelProbabilities | None
    ) -> None:
        """Add a reading to its window, last of all: a refused reading must change nothing."""
        if answer is None:
            return
        labels, p = answer
        self._set_labels(labels)
        self._windows.advance(device, t, window, p)

    def _set_labels(self, labels: Sequence[Label]) -> None:
        """Set the classes that the columns of the windows stand for."""
        if labels is not self._labels:
            self._labels, self._by_label = labels, None

    def starts_segment(self, device: Hashable = None, t: Time = None) -> bool:
        """Return True if a reading at this time would start a new window for its device.

        In that case call `finish` for the previous segment first.
        """
        return self._windows.find(device, t) == NONE

    def finish(self, device: Hashable = None) -> list[Integrated]:
        """Return the outstanding decisions on the last `delay` readings and empty the window.

        Call it at the end of a segment. No readings follow these, so their windows are shorter.
        Without `centered` there are no outstanding decisions.
        """
        window = self._windows.forget(device)
        if window is None:
            return []
        outstanding = min(self._delay, window.count)
        return [self._outstanding(window, ago) for ago in range(outstanding - 1, -1, -1)]

    def _outstanding(self, window: Window, ago: int) -> Integrated:
        """Return the decision on the reading `ago` readings before the end of its segment."""
        count = min(window.count, self.window - self._delay + ago)
        logs = window.logs[-count:].sum(axis=0, keepdims=True)
        out = np.empty(len(self._labels))
        best = kernels().combine(logs, np.ones(len(out)), out)
        p = self._dictionary(self._labels, out)
        return Integrated(self._labels[best], p, ago, window.times[-1 - ago], count)

    def reset(self, device: Hashable = None) -> None:
        """Empty the window of a device, so that the next reading starts a new one."""
        self._windows.forget(device)

    def _count(self, window: int) -> int:
        return 0 if window == NONE else int(self._windows.counts[window])

    @property
    def tracked_devices(self) -> int:
        """Number of devices that have a window."""
        return len(self._windows)

    # --- many readings in one kernel call, see `streamlvq.models.batch.BatchPart` ----------------

    def rows_ready(self, batch: KernelBatch) -> int:
        """Return how many rows the kernel can process: all, or none for a centred window."""
        return 0 if self._delay else batch.remaining

    def lend(self, batch: KernelBatch) -> Arrays:
        """Assign rows to the windows of their devices and return the window arrays."""
        readings, rows = batch.readings, batch.rows
        duplicates = batch.duplicates[rows]
        entered = self._windows.enter_many(readings.devices[rows], readings.times[rows], duplicates)
        if not all(duplicates):  # duplicates change nothing
            self._windows.widen(len(batch.classes))
            self._set_labels(batch.classes)
        return (*entered, self._windows.logs, self._windows.counts)

    def settle(self, batch: KernelBatch, lent: Arrays) -> None:
        """Do nothing: the kernel has already updated the windows."""

    # --- state -----------------------------------------------------------------------------------

    def memory_state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return a copy of the windows: arrays, and values for JSON."""
        arrays, extra = self._windows.memory()
        return arrays, {**extra, "labels": len(self._labels)}

    def restore_memory(self, arrays: dict[str, Any], extra: dict[str, Any]) -> None:
        """Restore what `memory_state` returned; raise ValueError if it does not fit."""
        self._windows.restore(arrays, extra)
        model = innermost_model(self.classifier)
        count = extra["labels"]
        if not 0 <= count <= len(model.classes) or self._windows.logs.shape[2] > count + 1:
            raise ValueError(f"windows: expected at most {len(model.classes)} classes, got {count}")
        # The model's own list of labels is compared by identity.
        whole = count == len(model.classes)
        own = whole and not self._needs_keywords
        self._labels = model.known_labels if own else list(model.classes[:count])
        self._by_label = None

    def _move_memory(self, new: Self) -> None:
        model = innermost_model(new.classifier)
        new._windows = self._windows.moved_to(list(self._labels), list(model.classes))
        # The model's own list of labels is compared by identity.
        own = isinstance(model, LVQClassifier)
        new._labels = model.known_labels if own else list(model.classes)
