"""Several passes over a recorded training set."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import numpy as np

from streamlvq.engine import Engine, Rows, kernels
from streamlvq.kernels import layout as at
from streamlvq.state import Ints

HELD_OUT = 0.1  # share of the samples that the temperature is fitted on
ENOUGH = 50  # samples; with fewer none are held out


def watched(epochs: int, progress: bool | None) -> Iterable[int]:
    """The epochs, with a progress bar when a person is looking."""
    if progress is None:
        progress = sys.stderr.isatty()
    if not progress:
        return range(epochs)
    from tqdm import trange  # noqa: PLC0415

    bar: Iterable[int] = trange(epochs, desc="training", unit="epoch")
    return bar


def train(
    engine: Engine, rows: Rows, classes: Ints, epochs: int, seed: int | None, progress: bool | None
) -> None:
    """Scales from all samples first, then shuffled epochs of learning alone.

    Scores of samples that were learnt before say nothing about those to come. So a tenth of the
    samples is kept back until the last epoch, and the temperature is fitted on it just before.
    """
    random = np.random.default_rng(seed)
    kernels().observe_array(engine.floats, engine.ints, rows)
    order = random.permutation(len(rows))
    held = order[: int(HELD_OUT * len(rows)) if len(rows) >= ENOUGH and epochs > 1 else 0]
    kept = order[len(held) :]
    rehearsal = engine.state.size(at.REHEARSAL)
    engine.set_parameters({}, {at.REHEARSAL: 0})
    try:
        for epoch in watched(epochs, progress):
            last = epoch == epochs - 1
            if last and len(held):
                _calibrate(engine, rows[held], classes[held])
            order = random.permutation(np.concatenate([kept, held]) if last else kept)
            if epoch == 0:
                order = _first_seen(order, classes, engine.known)
            engine.set_parameters({}, {at.PASSIVE: 1})
            engine.learn_rows(rows[order], classes[order])
    finally:
        engine.set_parameters({}, {at.PASSIVE: 0, at.REHEARSAL: rehearsal})
    kernels().count_classes(engine.floats, engine.ints, rows, classes)


def _calibrate(engine: Engine, rows: Rows, classes: Ints) -> None:
    for _ in range(5):
        kernels().calibrate_array(engine.floats, engine.ints, engine.work, rows, classes)


def _first_seen(order: Ints, classes: Ints, known: int) -> Ints:
    """Put one sample of every new class in front, in the order of the class numbers.

    Kernels expect classes to be born in that order.
    """
    first = [order[np.argmax(classes[order] == c)] for c in range(known, int(classes.max()) + 1)]
    rest = order[~np.isin(order, first)]
    return np.concatenate([np.array(first, np.int64), rest])
