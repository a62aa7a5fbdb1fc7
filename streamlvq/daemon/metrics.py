"""Counters, gauges and histograms, and how Prometheus reads them (text format 0.0.4).

One thread writes, another one reads without a lock: a number is replaced as a whole, and tables are
copied before they are walked through.
"""

from __future__ import annotations

import abc
import bisect
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
M = TypeVar("M", bound="Metric")
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]*")


class Metric(abc.ABC):
    """Something that is measured.

    Parameters
    ----------
    name
        As Prometheus knows it.
    text
        What it means.
    labels
        The names of its labels.
    """

    kind: str

    def __init__(self, name: str, text: str, labels: Sequence[str] = ()) -> None:
        if not _NAME.fullmatch(name):
            raise ValueError(f"expected a name of letters, digits and underscores, got {name!r}")
        for label in labels:
            if not _LABEL.fullmatch(label) or label == "le":
                raise ValueError(f"expected the name of a label, got {label!r}")
        self.name, self.text, self.labels = name, text, tuple(labels)

    def lines(self) -> Iterator[str]:
        """How Prometheus reads it."""
        meaning = self.text.replace("\\", r"\\").replace("\n", r"\n")
        yield f"# HELP {self.name} {meaning}"
        yield f"# TYPE {self.name} {self.kind}"
        yield from self.samples()

    @abc.abstractmethod
    def samples(self) -> Iterator[str]:
        """A line for each value."""


class Counter(Metric):
    """Something that only grows."""

    kind = "counter"

    def __init__(self, name: str, text: str, labels: Sequence[str] = ()) -> None:
        super().__init__(name, text, labels)
        self.values: dict[tuple[str, ...], float] = {} if labels else {(): 0}

    def add(self, amount: float = 1, *labels: str) -> None:
        """Count; the values of the labels in the order of their names."""
        if len(labels) != len(self.labels):
            raise ValueError(f"expected values for the labels {self.labels}, got {labels!r}")
        self.values[labels] = self.values.get(labels, 0) + amount

    def value(self, *labels: str) -> float:
        """What was counted so far."""
        return self.values.get(labels, 0)

    def samples(self) -> Iterator[str]:
        for labels, value in sorted(self.values.copy().items()):
            yield sample(self.name, dict(zip(self.labels, labels, strict=True)), value)


class Gauge(Metric):
    """A value of now, asked for whenever someone looks; None: there is none."""

    kind = "gauge"

    def __init__(self, name: str, text: str, read: Callable[[], float | None]) -> None:
        super().__init__(name, text)
        self.read = read

    def samples(self) -> Iterator[str]:
        if (value := self.read()) is not None:
            yield sample(self.name, {}, value)


class GaugeTable(Metric):
    """Values of now with labels, asked for whenever someone looks."""

    kind = "gauge"

    def __init__(
        self,
        name: str,
        text: str,
        labels: Sequence[str],
        read: Callable[[], Mapping[tuple[str, ...], float]],
    ) -> None:
        super().__init__(name, text, labels)
        self.read = read

    def samples(self) -> Iterator[str]:
        for labels, value in sorted(self.read().items()):
            yield sample(self.name, dict(zip(self.labels, labels, strict=True)), value)


class CountedElsewhere(Gauge):
    """A counter that someone else keeps."""

    kind = "counter"


class Histogram(Metric):
    """How often a value was at most each of `bounds`."""

    kind = "histogram"

    def __init__(self, name: str, text: str, bounds: Sequence[float]) -> None:
        super().__init__(name, text)
        if list(bounds) != sorted(set(bounds)):
            raise ValueError(f"expected bounds that grow, got {bounds!r}")
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect.bisect_left(self.bounds, value)] += 1
        self.total += value

    def samples(self) -> Iterator[str]:
        counts, total, below = self.counts.copy(), self.total, 0
        for bound, count in zip((*self.bounds, math.inf), counts, strict=True):
            below += count
            yield sample(f"{self.name}_bucket", {"le": number(bound)}, below)
        yield sample(f"{self.name}_sum", {}, total)
        yield sample(f"{self.name}_count", {}, below)


class Registry:
    """Metrics by name; a name is given once.

    Examples
    --------
    >>> registry = Registry()
    >>> readings = registry.add(Counter("readings_total", "Readings.", ["device"]))
    >>> readings.add(3, 'oven "1"')
    >>> print(registry.text(), end="")
    # HELP readings_total Readings.
    # TYPE readings_total counter
    readings_total{device="oven \\"1\\""} 3

    """

    def __init__(self) -> None:
        self._metrics: dict[str, Metric] = {}

    def add(self, metric: M) -> M:
        """Register a metric and give it back."""
        if metric.name in self._metrics:
            raise ValueError(f"expected a name that is not taken, got {metric.name!r}")
        self._metrics[metric.name] = metric
        return metric

    def text(self) -> str:
        """All of them, as Prometheus reads them."""
        metrics = self._metrics.copy().values()
        return "".join(f"{line}\n" for metric in metrics for line in metric.lines())


def sample(name: str, labels: dict[str, str], value: float) -> str:
    """A line of the text format."""
    inside = ",".join(f'{label}="{escaped(text)}"' for label, text in labels.items())
    return f"{name}{{{inside}}} {number(value)}" if inside else f"{name} {number(value)}"


def escaped(text: str) -> str:
    """The value of a label as it stands between quotes."""
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def number(value: float) -> str:
    """A number as Prometheus writes it."""
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if math.isnan(value):
        return "NaN"
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))


__all__ = [
    "CONTENT_TYPE",
    "CountedElsewhere",
    "Counter",
    "Gauge",
    "GaugeTable",
    "Histogram",
    "Metric",
    "Registry",
    "number",
    "sample",
]
