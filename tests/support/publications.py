"""Publications one reading apart, and the truth behind them, for attacks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from streamlvq.arrays import Rows
from streamlvq.audit import Truth
from streamlvq.snapshot import Snapshot

FEATURES = tuple(f"f{k}" for k in range(6))


def gaussians(count: int, classes: int = 3, seed: int = 0) -> tuple[Rows, list[str]]:
    """Readings of overlapping Gaussian classes, in features of different units."""
    random = np.random.default_rng(seed)
    codes = random.integers(0, classes, count)
    centres = np.random.default_rng(9).normal(0.0, 1.5, (classes, len(FEATURES)))
    units = 10.0 ** np.arange(-2, 4)
    rows = (centres[codes] + random.standard_normal((count, len(FEATURES))) + 5.0) * units
    return rows, [f"c{code}" for code in codes]


def published(
    model: Any, rows: Rows, labels: Sequence[str], first: int, every: int = 1
) -> Iterator[Snapshot]:
    """Snapshots as they are (nothing held back), after `first` readings and every few later."""
    for k, (row, label) in enumerate(zip(rows, labels, strict=True), 1):
        model.learn_one(dict(zip(FEATURES, row.tolist(), strict=True)), label)
        if k >= first and (k - first) % every == 0:
            yield Snapshot.of(model, node="n1")


def truth_of(rows: Rows, labels: Sequence[str]) -> Truth:
    return Truth(FEATURES, rows, labels)
