"""Readings of several devices, as a decoder would give them, for tests of what comes after it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from streamlvq.events import DecisionRecord, Decisions, DedupWindow, Readings
from streamlvq.monitor import Monitor

NAMES = [name for name in DecisionRecord.__struct_fields__ if name != "probabilities"]


def readings(
    count: int,
    *,
    seed: int = 0,
    features: int = 5,
    classes: int = 4,
    labelled: float = 0.6,
    missing: float = 0.03,
    devices: int = 6,
    twice: float = 0.0,
) -> Readings:
    """Random readings around the centre of each class; a share of them comes a second time."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, count)
    rows = rng.standard_normal((classes, features))[y] * 2.0 + rng.standard_normal(
        (count, features)
    )
    rows[rng.random((count, features)) < missing] = np.nan
    labels = [f"class {c}" if rng.random() < labelled else None for c in y]
    made = Readings.of(
        [f"sensor {i}" for i in range(features)],
        rows,
        devices=[f"device {k}" for k in rng.integers(0, devices, count)],
        labels=labels,
        times=np.cumsum(rng.exponential(1.0, count)).tolist(),
        sequences=range(count),
        keys=range(1, count + 1),
        dedup_windows=[DedupWindow.ALL] * count,
    )
    again = np.flatnonzero(rng.random(count) < twice)
    origin = np.concatenate([np.arange(count), again])
    places = np.concatenate([np.arange(count, dtype=float), again + 3.5])
    order = origin[np.argsort(places, kind="stable")]
    return made.select(order.tolist())


def cut(whole: Readings, seed: int, largest: int = 40) -> Iterator[Readings]:
    """The same readings in batches of random sizes."""
    rng = np.random.default_rng(seed)
    start = 0
    while start < len(whole):
        end = min(len(whole), start + int(rng.integers(1, largest + 1)))
        yield whole.select(slice(start, end))
        start = end


def facts(decisions: Decisions) -> list[tuple[Any, ...]]:
    """What each decision says, in a form that can be compared bit by bit."""
    return [
        tuple(getattr(record, name) for name in NAMES) + tuple(sorted(record.probabilities.items()))
        for record in decisions.records()
    ]


def say(monitor: Monitor, whole: Readings, seed: int = 0) -> list[tuple[Any, ...]]:
    """What was decided on readings that came in random batches."""
    said = []
    for part in cut(whole, seed):
        outcome = monitor.step(part)
        assert outcome.decisions is not None
        assert outcome.refused == []
        said += facts(outcome.decisions)
    return said


def assert_decides_like(said: list[tuple[Any, ...]], model: Any, whole: Readings) -> None:
    """A chain of wrappers that gets the readings one by one decides as was said of them."""
    for k, row in enumerate(whole.rows.tolist()):
        x = dict(zip(whole.features, row, strict=True))
        keywords = {"device": whole.devices[k], "t": whole.times[k]}
        decision = model.decide_one(x, **keywords)
        label, certainty, accepted, reason = decision[:4]
        assert said[k][1:6] == (label, accepted, reason, decision.outlier_by, certainty)
        assert said[k][NAMES.index("novelty")] == decision.novelty
        if whole.labels[k] is None:
            model.observe_one(x, scales=False, **keywords)
        else:
            model.learn_one(x, whole.labels[k], **keywords)
