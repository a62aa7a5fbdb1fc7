"""TimeIntegrator."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from datetime import timedelta
from typing import Any, ClassVar, Self

import numpy as np
from river import base

from streamlvq.errors import ParameterError
from streamlvq.models.array_classifier import Label
from streamlvq.models.base import LVQClassifier
from streamlvq.models.batch import Arrays, Batch
from streamlvq.models.parameters import check_range
from streamlvq.records import Integrated
from streamlvq.state import Floats
from streamlvq.vectorize import Reading, dictionary_maker
from streamlvq.wrappers.chain import innermost_model, unwrap
from streamlvq.wrappers.opinions import Opinion, ask_engine, probability_getter
from streamlvq.wrappers.windows import NONE, Time, Window, Windows, kernels
from streamlvq.wrappers.wrapper import ClassifierWrapper

_NO_PAST: Floats = np.zeros((1, 1))
_NOTHING: frozenset[str] = frozenset()


class TimeIntegrator(ClassifierWrapper):
    """Decides on the last readings of a device together instead of on each by itself.

    The state of a machine lasts longer than a reading. The class probabilities of the last `window`
    readings of a device are multiplied, so that many that agree mildly say more than one that is
    sure of something else. A probability counts as 1e-6 at least: a zero shall not veto for as long
    as it stays in the window.

    Predictions change nothing: they combine what a device said before with the reading at hand. A
    reading enters the window of its device when it is learnt (with the probabilities it had just
    before) or, if it has no label, when it is shown to `observe_one`. A reading that came before a
    class was known says nothing about that class; it counts as the mean of its probabilities, which
    is 1 / the number of classes known then. A reading that came before anything was learnt does not
    enter the window.

    Parameters
    ----------
    classifier
        Any classifier with `predict_proba_one`, or a pipeline that ends with one.
    window
        How many readings are combined, the current one included.
    centered
        Decide on the reading in the middle of the window instead of on the latest: the last
        `delay` readings are known to come after it. This is more accurate where states change, but
        late. `integrated_one` says which reading an answer is about, `finish` gives those still
        owed at the end.
    max_gap
        If the time since the last reading of a device is longer than this, its window starts
        afresh. So it does when time jumps back by more than this (a clock that was set); smaller
        steps back are taken for readings that overtook each other and count in the order in which
        they came. A number, or a `timedelta` for times that are `datetime`. None: time does not
        matter.
    max_devices
        Windows that are kept. Beyond that, the device that has been silent longest is forgotten.

    Notes
    -----
    `device` and `t` are keywords of all methods: a stream may give them as a third item
    `{"device": ..., "t": ...}` of its samples, and River's pipelines hand them on. Without `device`
    all readings are of one.

    When the label of a reading comes later than the reading, show the reading to `observe_one` at
    once and teach the label to `classifier` alone; through `learn_one` of the integrator it would
    count twice.

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
        self._ask = probability_getter(classifier)
        self._needs_keywords = self._ask is not ask_engine
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
            if issubclass(type(link), ClassifierWrapper):  # `isinstance` sees through pipelines
                raise ParameterError(
                    owner,
                    "classifier",
                    "expected a classifier that integrates and rejects nothing itself, "
                    f"got {link}; rejectors go around the integrator",
                )

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        from streamlvq.models import GLVQ  # noqa: PLC0415

        yield {"classifier": GLVQ(rehearsal=2)}

    def __getstate__(self) -> dict[str, Any]:
        # Made anew when they are needed; predictions must leave no trace in a pickle.
        return {**self.__dict__, "_by_label": None, "_scratch": np.empty(0)}

    @property
    def delay(self) -> int:
        """How many readings ago the one was that a prediction is about; 0 unless centred."""
        return self._delay

    # --- answers ---------------------------------------------------------------------------------

    def _inward(
        self, method: str, device: Hashable, t: Time, keywords: dict[str, Any]
    ) -> dict[str, Any]:
        """The keywords for the classifier; our own are among them if it names them."""
        if self._accepted[method] == _NOTHING:
            return {}
        given = {"device": device, "t": t, **keywords}
        return self._chosen(method, {name: v for name, v in given.items() if v is not None})

    def _consult(
        self, x: Reading, device: Hashable, t: Time, keywords: dict[str, Any]
    ) -> tuple[int, Opinion | None]:
        """The window that a reading continues, and what the classifier says of it alone."""
        window = self._windows.find(device, t)
        if self._needs_keywords:
            keywords = self._inward("predict_proba_one", device, t, keywords)
        return window, self._ask(self.classifier, self._labels, x, keywords)

    def _combine(
        self, x: Reading, device: Hashable, t: Time, keywords: dict[str, Any]
    ) -> tuple[Sequence[Label], Floats, int, int] | None:
        """Labels, their probabilities, the likeliest one, and the window that had its say."""
        window, opinion = self._consult(x, device, t, keywords)
        if opinion is None or (self._delay and self._count(window) < self._delay):
            return None
        labels, p = opinion
        out = self._scratch
        if len(out) != len(p):
            out = self._scratch = np.empty(len(p))
        best = kernels().combine(_NO_PAST if window == NONE else self._windows.logs[window], p, out)
        return labels, out, best, window

    def predict_proba_one(
        self, x: Reading, device: Hashable = None, t: Time = None, **kwargs: Any
    ) -> dict[Label, float]:
        """The probability of every class, given the device's past and this reading.

        Parameters
        ----------
        x
            A reading.
        device
            Where it comes from.
        t
            When it was taken.

        """
        combined = self._combine(x, device, t, kwargs)
        return {} if combined is None else self._dictionary(combined[0], combined[1])

    def _dictionary(self, labels: Sequence[Label], p: Floats) -> dict[Label, float]:
        if labels is not self._labels:  # not seen by a window yet
            return dict(zip(labels, p.tolist(), strict=True))
        if self._by_label is None:
            self._by_label = dictionary_maker(labels)
        return self._by_label(*p.tolist())

    def predict_one(
        self, x: Reading, device: Hashable = None, t: Time = None, **kwargs: Any
    ) -> Label | None:
        """The most probable class; None before anything was learnt."""
        combined = self._combine(x, device, t, kwargs)
        return None if combined is None else combined[0][combined[2]]

    def integrated_one(
        self, x: Reading, device: Hashable = None, t: Time = None, **kwargs: Any
    ) -> Integrated | None:
        """The same with everything that belongs to it; None where `predict_one` gives None.

        `delay` and `t` say which reading the answer is about.
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

    # --- the course of time ----------------------------------------------------------------------

    def learn_one(
        self, x: Reading, y: Label, device: Hashable = None, t: Time = None, **kwargs: Any
    ) -> None:
        """Learn a labelled reading and move the window of its device on."""
        window, opinion = self._before(x, device, t, kwargs)
        self.classifier.learn_one(x, y, **self._inward("learn_one", device, t, kwargs))
        self._after(device, t, window, opinion)

    def observe_one(
        self,
        x: Reading,
        device: Hashable = None,
        t: Time = None,
        *,
        scales: bool = True,
        **kwargs: Any,
    ) -> None:
        """Move the window on with a reading that has no label, and let the classifier see it.

        With `scales=False` only the window moves on and the classifier stays as it is.
        """
        window, opinion = self._before(x, device, t, kwargs)
        if scales:
            self._observe(x, self._inward("observe_one", device, t, kwargs))
        self._after(device, t, window, opinion)

    def _before(
        self, x: Reading, device: Hashable, t: Time, keywords: dict[str, Any]
    ) -> tuple[int, Opinion | None]:
        """What goes into the window, taken before the reading is learnt; nothing changes yet."""
        window, opinion = self._consult(x, device, t, keywords)
        return window, None if opinion is None else (opinion[0], opinion[1].copy())

    def _after(self, device: Hashable, t: Time, window: int, opinion: Opinion | None) -> None:
        """Move on; it comes last, so that a reading that was refused leaves no trace."""
        if opinion is None:
            return
        labels, p = opinion
        self._take_labels(labels)
        self._windows.advance(device, t, window, p)

    def _take_labels(self, labels: Sequence[Label]) -> None:
        """The classes that the columns of the windows stand for from now on."""
        if labels is not self._labels:
            self._labels, self._by_label = labels, None

    def starts_segment(self, device: Hashable = None, t: Time = None) -> bool:
        """Whether a reading at this time would start the window of its device afresh.

        Then it is time to `finish` the segment before.
        """
        return self._windows.find(device, t) == NONE

    def finish(self, device: Hashable = None) -> list[Integrated]:
        """The answers still owed on the last `delay` readings; then the window is emptied.

        Call it at the end of a segment. There is nothing after these readings, so their windows are
        shorter. Without `centered` nothing is owed.
        """
        window = self._windows.forget(device)
        if window is None:
            return []
        owed = min(self._delay, window.count)
        return [self._late(window, ago) for ago in range(owed - 1, -1, -1)]

    def _late(self, window: Window, ago: int) -> Integrated:
        """The answer on the reading this long before the end of its segment."""
        count = min(window.count, self.window - self._delay + ago)
        logs = window.logs[-count:].sum(axis=0, keepdims=True)
        out = np.empty(len(self._labels))
        best = kernels().combine(logs, np.ones(len(out)), out)
        p = self._dictionary(self._labels, out)
        return Integrated(self._labels[best], p, ago, window.times[-1 - ago], count)

    def reset(self, device: Hashable = None) -> None:
        """Empty the window of a device: what comes next has nothing to do with what was."""
        self._windows.forget(device)

    def _count(self, window: int) -> int:
        return 0 if window == NONE else int(self._windows.counts[window])

    @property
    def tracked_devices(self) -> int:
        """How many devices have a window."""
        return len(self._windows)

    # --- many readings in one kernel call, see `streamlvq.models.batch.BatchPart` ----------------

    def rows_ready(self, batch: Batch) -> int:
        """Return how many rows the kernel can take: all of them, none if the window is centred."""
        return 0 if self._delay else batch.remaining

    def lend(self, batch: Batch) -> Arrays:
        """Enter the rows into the windows of their devices, and lend these."""
        readings, rows = batch.readings, batch.rows
        duplicates = batch.duplicates[rows]
        entered = self._windows.enter_many(readings.devices[rows], readings.times[rows], duplicates)
        if not all(duplicates):  # which leave no trace
            self._windows.widen(len(batch.classes))
            self._take_labels(batch.classes)
        return (*entered, self._windows.logs, self._windows.counts)

    def settle(self, batch: Batch, lent: Arrays) -> None:
        """Do nothing: the kernel has moved the windows on."""

    # --- state -----------------------------------------------------------------------------------

    def memory_state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Copy the windows: arrays, and what JSON can say."""
        arrays, extra = self._windows.memory()
        return arrays, {**extra, "labels": len(self._labels)}

    def restore_memory(self, arrays: dict[str, Any], extra: dict[str, Any]) -> None:
        """Take over what `memory_state` returned; raises ValueError if it does not fit."""
        self._windows.restore(arrays, extra)
        model = innermost_model(self.classifier)
        count = extra["labels"]
        if not 0 <= count <= len(model.classes) or self._windows.logs.shape[2] > count + 1:
            raise ValueError(f"windows: expected at most {len(model.classes)} classes, got {count}")
        # An engine's own list of labels is recognised by its identity.
        whole = count == len(model.classes)
        own = whole and not self._needs_keywords
        self._labels = model.known_labels if own else list(model.classes[:count])
        self._by_label = None

    def _move_memory(self, new: Self) -> None:
        model = innermost_model(new.classifier)
        new._windows = self._windows.moved_to(list(self._labels), list(model.classes))
        # An engine's own list of labels is recognised by its identity.
        own = isinstance(model, LVQClassifier)
        new._labels = model.known_labels if own else list(model.classes)
