"""Training in several passes over a recorded set."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import numpy as np

from streamlvq.arrays import Floats, Ints, Rows
from streamlvq.kernels import layout as at
from streamlvq.models.engine import Engine

HELD_OUT_SHARE = 0.1  # share of samples used only to fit the temperature
HELD_OUT_MIN_SAMPLES = 50  # with fewer samples none are held out
LLOYD_STEPS = 10


def epochs_with_progress(epochs: int, progress: bool | None) -> Iterable[int]:
    """Return the epochs, with a progress bar on a terminal."""
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
    """Fit the feature scales, place prototypes at cluster centres, then learn in epochs.

    Learning rates fall to zero over the epochs. Samples that were already learnt are useless for
    calibration, so a tenth of them is held out until the last epoch, and the temperature is fitted
    on them just before it.
    """
    random = np.random.default_rng(seed)
    engine.observe_rows(rows, classes)
    order = random.permutation(len(rows))
    held = order[
        : int(HELD_OUT_SHARE * len(rows)) if len(rows) >= HELD_OUT_MIN_SAMPLES and epochs > 1 else 0
    ]
    kept = order[len(held) :]
    before = {which: float(engine.floats[which]) for which in (at.LEARNING_RATE, at.METRIC_RATE)}
    rehearsal = engine.state.size(at.REHEARSAL)
    engine.set_parameters({}, {at.REHEARSAL: 0, at.PASSIVE: at.SILENT})
    try:
        _place_prototypes(engine, rows, classes, random)
        for epoch in epochs_with_progress(epochs, progress):
            last = epoch == epochs - 1
            if last and len(held):
                _calibrate(engine, rows[held], classes[held])
            share = 1.0 - epoch / epochs
            engine.set_parameters({which: share * rate for which, rate in before.items()}, {})
            order = random.permutation(np.concatenate([kept, held]) if last else kept)
            # Without held-out samples, only the first pass sees samples not learnt before.
            scored = epoch == 0 and not len(held)
            engine.set_parameters({}, {at.PASSIVE: at.SCORED if scored else at.SILENT})
            engine.learn_rows(rows[order], classes[order])
    finally:
        engine.set_parameters(before, {at.PASSIVE: 0, at.REHEARSAL: rehearsal})


def _calibrate(engine: Engine, rows: Rows, classes: Ints) -> None:
    for _ in range(5):
        engine.calibrate_rows(rows, classes)


def _place_prototypes(
    engine: Engine, rows: Rows, classes: Ints, random: np.random.Generator
) -> None:
    """Place the prototypes of every new class at the centres of its samples.

    The centres are learnt like samples, class by class: the first samples of a class become its
    prototypes.
    """
    count = engine.spec.initial
    for c in range(engine.known, int(classes.max()) + 1):
        centres = _centres(rows[classes == c], engine.state["inverse"], count, random)
        engine.learn_rows(centres, np.full(len(centres), c))


def _centres(rows: Rows, inverse: Floats, count: int, random: np.random.Generator) -> Rows:
    """Return k-means centres, with distances in feature scales and missing features ignored."""
    centres = rows[random.permutation(len(rows))[:count]].copy()
    for _ in range(LLOYD_STEPS):
        distances = [np.nansum(((rows - centre) * inverse) ** 2, axis=1) for centre in centres]
        nearest = np.argmin(distances, axis=0)
        for k in range(len(centres)):
            members = rows[nearest == k]
            present = ~np.isnan(members)
            total = present.sum(axis=0)
            mean = np.where(present, members, 0.0).sum(axis=0) / np.maximum(total, 1)
            centres[k] = np.where(total > 0, mean, centres[k])
    return centres
