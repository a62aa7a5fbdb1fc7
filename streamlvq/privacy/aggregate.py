"""Sample and aggregate: private prototypes from models of disjoint parts of a recorded log."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from streamlvq.arrays import Floats, Ints, Label, Reading
from streamlvq.kernels import kernels
from streamlvq.privacy.accountant import gaussian_mu
from streamlvq.privacy.noise import BYTES_PER_NUMBER, gaussian_of_bits
from streamlvq.privacy.privacy import Privacy
from streamlvq.privacy.published import GRID_STEPS, Box, Randomness, class_numbers, gradient_scratch

NO_CLIP = 1e6  # no gradient is that long

# Scaled readings and class numbers of a bin, number of classes -> a prototype for each class.
BinLearner = Callable[[Floats, Ints, int], Floats]


def sample_and_aggregate(
    X: npt.ArrayLike | Iterable[Reading],
    y: Iterable[Label],
    privacy: Privacy,
    *,
    bins: int = 50,
    learn: BinLearner | None = None,
    randomness: Randomness = os.urandom,
) -> dict[Label, dict[Any, float]]:
    """Return the noisy mean of the prototypes learnt on disjoint bins of a log, one per class.

    Each reading goes to one bin, so it changes the prototypes of one bin; those are moved into the
    bounds, and a class that a bin lacks has its prototype in their middle. So one reading moves the
    sum over bins by at most `2 sqrt(classes * features)` in scaled units, whatever `learn` does.
    Many bins drown the noise, if each still holds enough readings of every class.

    Parameters
    ----------
    X, y
        Readings, as mappings or as rows in the order of the bounds, and their labels.
    privacy
        What is promised, and what is public: epsilon, delta, bounds and classes.
    bins
        Number of bins, chosen without looking at the readings.
    learn
        What makes prototypes of a bin: it gets readings scaled to [-1, 1], the numbers of their
        classes and the number of classes, and returns a row for each class, NaN for an absent one.
        None: class means, improved by GLVQ.
    randomness
        Source of random bytes; anything but the operating system's voids the guarantee.

    Examples
    --------

    >>> import numpy as np
    >>> from streamlvq.privacy import Privacy, sample_and_aggregate

    >>> rng = np.random.default_rng(7)
    >>> y = rng.choice(["ok", "worn"], 4000)
    >>> X = np.where(y == "ok", 0.6, 1.4)[:, None] + 0.2 * rng.normal(size=(4000, 1))
    >>> privacy = Privacy(1.0, bounds={"rms": (0, 2)}, classes=["ok", "worn"])
    >>> found = sample_and_aggregate(X, y, privacy, bins=200)
    >>> abs(found["worn"]["rms"] - 1.4) < 0.3
    True

    References
    ----------
    - Nissim, K., Raskhodnikova, S., Smith, A. (2007). Smooth sensitivity and sampling in private
      data analysis. ACM STOC, 75-84.

    """
    if bins != int(bins) or bins < 1:
        raise ValueError(f"bins: expected a whole number from 1, got {bins!r}")
    if not privacy.bounds or privacy.unit != "reading":
        raise ValueError(
            f"privacy: expected bounds of features and the unit 'reading', got {privacy!r}"
        )
    box = Box(privacy.bounds)
    rows = box.scaled(box.rows(X))
    labels = class_numbers(privacy.classes, y, len(rows))
    number = np.frombuffer(randomness(8 * len(rows)), np.dtype("<u8")) % np.uint64(bins)
    shape = len(privacy.classes), len(box.features)
    total = np.zeros(shape, dtype=np.int64)
    for k in range(bins):
        inside = number == k
        found = (learn or glvq_prototypes)(rows[inside], labels[inside], shape[0])
        total += _bounded(found, shape)
    sigma = (
        2 * math.sqrt(math.prod(shape)) / gaussian_mu(privacy.epsilon, privacy.delta) * GRID_STEPS
    )
    noise = gaussian_of_bits(sigma, randomness(BYTES_PER_NUMBER * total.size)).reshape(shape)
    prototypes = box.raw(np.clip((total + noise) / (bins * GRID_STEPS), -1.0, 1.0))
    return {
        label: dict(zip(box.features, row.tolist(), strict=True))
        for label, row in zip(privacy.classes, prototypes, strict=True)
    }


def _bounded(found: npt.ArrayLike, shape: tuple[int, int]) -> Ints:
    """Return prototypes of a bin on the grid, inside the bounds and without NaN."""
    rows = np.asarray(found, dtype=np.float64)
    if rows.shape != shape:
        raise ValueError(f"learn: expected prototypes of shape {shape}, got {rows.shape}")
    inside = np.clip(np.nan_to_num(rows, nan=0.0, posinf=0.0, neginf=0.0), -1.0, 1.0)
    return np.trunc(inside * GRID_STEPS).astype(np.int64)


def glvq_prototypes(
    X: Floats, y: Ints, classes: int, *, epochs: int = 30, learning_rate: float = 0.3
) -> Floats:
    """Return prototypes of GLVQ, one per class: class means, then gradient steps on all readings.

    A class without readings has NaN. This is not private.
    """
    w = np.full((classes, X.shape[1]), np.nan)
    present = np.unique(y)
    for k in present:
        w[k] = X[y == k].mean(axis=0)
    if len(present) < 2:
        return w
    known = np.ascontiguousarray(w[present])
    numbers = np.searchsorted(present, y)
    rows, omega = np.arange(len(X)), np.empty((0, X.shape[1]))
    sums, none = np.empty_like(known), np.empty_like(omega)
    scratch = gradient_scratch(known, omega)
    X = np.ascontiguousarray(X)
    for _ in range(epochs):
        kernels("clipped").clipped_sums(
            X, numbers, rows, known, omega, NO_CLIP, float(GRID_STEPS), sums, none, scratch
        )
        known -= learning_rate / (GRID_STEPS * len(X)) * sums
    w[present] = known
    return w
