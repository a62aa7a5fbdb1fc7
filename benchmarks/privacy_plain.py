"""What the private models are compared with: one pass of `GMLVQ()` over the same splits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from common import Table, progress
from privacy_stream import SHARED, prepared
from streamlvq import GMLVQ


def plain_accuracy(name: str, seed: int) -> float:
    """Return the held-out accuracy of a model that keeps nothing secret."""
    X, y, held_out, labels = prepared(name).split(seed)
    model = GMLVQ()
    model.learn_array(X, y)
    return float(np.mean(model.predict_array(held_out) == labels))


def plain(data: Sequence[str] = tuple(SHARED), seeds: int = 5) -> Iterator[Table]:
    """Accuracy without privacy."""
    table = Table(
        f"`GMLVQ()`, held-out accuracy, mean (deviation) of {seeds} seeds",
        ["set", "without privacy"],
    )
    for name in progress(data, "plain"):
        found = [plain_accuracy(name, seed) for seed in range(seeds)]
        table.add(name, f"{np.mean(found):.3f} ({np.std(found):.3f})")
    yield table
