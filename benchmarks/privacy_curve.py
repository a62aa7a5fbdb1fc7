"""Accuracy against epsilon, with and without privacy: the table that `privacy_picture.py` draws.

The splits, the private models and their settings are those of `privacy_stream.py`; without privacy
it is `GMLVQ()`. All learn in one pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from common import Table, progress
from privacy_stream import SHARED, accuracy, prepared, softmax_accuracy
from streamlvq import GMLVQ

EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
WAYS: dict[str, Callable[[str, float, int], float]] = {
    "PrivateLVQ": accuracy,
    "private softmax": softmax_accuracy,
}


def plain_accuracy(name: str, seed: int) -> float:
    """Return the held-out accuracy of a model that keeps nothing secret."""
    X, y, held_out, labels = prepared(name).split(seed)
    model = GMLVQ()
    model.learn_array(X, y)
    return float(np.mean(model.predict_array(held_out) == labels))


def curve(
    data: Sequence[str] = tuple(SHARED), epsilons: Sequence[float] = EPSILONS, seeds: int = 5
) -> Iterator[Table]:
    """Accuracies by epsilon, and those without privacy."""
    table = Table(
        f"stream: held-out accuracy by epsilon, mean of {seeds} seeds",
        ["set, model", *map("{:g}".format, epsilons), "without privacy"],
    )
    for name in progress(data, "curve"):
        plain = f"{np.mean([plain_accuracy(name, seed) for seed in range(seeds)]):.3f}"
        for way, measure in WAYS.items():
            means = [
                np.mean([measure(name, epsilon, seed) for seed in range(seeds)])
                for epsilon in epsilons
            ]
            cells = [f"{each:.3f}" for each in means]
            table.add(f"{name}, {way}", *cells, plain if way == "PrivateLVQ" else "")
    yield table
