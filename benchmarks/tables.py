"""Reproduce tables of the thesis: several passes over training sets, cross-validated.

python benchmarks/tables.py --table 2.2                  # 5 x 5 folds, all data sets
python benchmarks/tables.py --table 2.2 --data segment --repeats 1
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

import streamlvq
from common import Table, progress, show, verdict
from datasets import table_set

FOLDS = 5
COMPONENTS = 30  # of the principal components where there are more features
PROTOTYPES = (1, 2, 4)
# Mean and standard deviation for one, two and four prototypes per class.
Cell = tuple[float, float]
TABLE_2_2: dict[str, dict[str, tuple[Cell, Cell, Cell]]] = {
    "optdigits": {
        "GLVQ": ((0.916, 0.0083), (0.928, 0.0068), (0.937, 0.0072)),
        "GMLVQ": ((0.940, 0.0060), (0.943, 0.0052), (0.943, 0.0072)),
        "LGMLVQ": ((0.978, 0.0066), (0.982, 0.0049), (0.984, 0.0040)),
    },
    "segment": {
        "GLVQ": ((0.836, 0.0116), (0.839, 0.0105), (0.845, 0.0099)),
        "GMLVQ": ((0.912, 0.0144), (0.927, 0.0155), (0.929, 0.0126)),
        "LGMLVQ": ((0.946, 0.0094), (0.952, 0.0098), (0.955, 0.0103)),
    },
    "letter": {
        "GLVQ": ((0.688, 0.0094), (0.741, 0.0064), (0.793, 0.0065)),
        "GMLVQ": ((0.701, 0.0067), (0.737, 0.0082), (0.766, 0.0083)),
        "LGMLVQ": ((0.881, 0.0049), (0.918, 0.0063), (0.945, 0.0050)),
    },
    "uci_har": {
        "GLVQ": ((0.895, 0.0066), (0.900, 0.0063), (0.906, 0.0062)),
        "GMLVQ": ((0.909, 0.0058), (0.906, 0.0065), (0.907, 0.0063)),
        "LGMLVQ": ((0.931, 0.0039), (0.934, 0.0040), (0.937, 0.0038)),
    },
    "usps": {
        "GLVQ": ((0.873, 0.0071), (0.907, 0.0064), (0.923, 0.0048)),
        "GMLVQ": ((0.909, 0.0062), (0.909, 0.0069), (0.914, 0.0069)),
        "LGMLVQ": ((0.961, 0.0051), (0.965, 0.0049), (0.967, 0.0050)),
    },
}
Floats = NDArray[np.float64]


def principal_components(train: Floats, test: Floats) -> tuple[Floats, Floats]:
    """At most `COMPONENTS` features; the directions come from the training part alone."""
    if train.shape[1] <= COMPONENTS:
        return train, test
    mean = train.mean(axis=0)
    _, _, directions = np.linalg.svd(train - mean, full_matrices=False)
    basis = directions[:COMPONENTS].T
    return (train - mean) @ basis, (test - mean) @ basis


def folds(n: int, repeats: int) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Training and test indices of repeated cross-validation."""
    for repeat in range(repeats):
        parts = np.array_split(np.random.default_rng(repeat).permutation(n), FOLDS)
        for k in range(FOLDS):
            yield np.concatenate([*parts[:k], *parts[k + 1 :]]), parts[k]


def make(model: str, prototypes: int) -> streamlvq.GLVQ:
    """The thesis's model: a fixed number of prototypes, full matrices."""
    options: dict[str, Any] = {} if model == "GLVQ" else {"rank": None}
    built: streamlvq.GLVQ = getattr(streamlvq, model)(
        prototypes_per_class=prototypes,
        max_prototypes_per_class=prototypes,
        learning_rate=0.1,
        activation="sigmoid",
        slope=5.0,
        rehearsal=0,
        **options,
    )
    return built


def accuracies(data: str, repeats: int, epochs: int, models: list[str]) -> Iterator[list[object]]:
    """A row of the printed table for every cell of the published one."""
    stream = table_set(data)
    X, y = stream.X, np.asarray(stream.y)
    for model in models:
        for column, prototypes in enumerate(PROTOTYPES):
            scores = []
            start = time.process_time()
            for train, test in folds(len(y), repeats):
                A, B = principal_components(X[train], X[test])
                fitted = make(model, prototypes)
                fitted.train(A, y[train], epochs=epochs, progress=False)
                scores.append(float(np.mean(fitted.predict_array(B) == y[test])))
            mean, deviation = TABLE_2_2[data][model][column]
            seconds = (time.process_time() - start) / len(scores)
            met = bool(np.mean(scores) >= mean - deviation)
            yield [
                data, model, prototypes, f"{np.mean(scores):.3f} ({np.std(scores):.4f})",
                f"{mean:.3f} ({deviation:.4f})", verdict(met), f"{seconds:.1f}",
            ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--table", choices=["2.2"], default="2.2")
    parser.add_argument("--data", nargs="+", choices=list(TABLE_2_2), default=list(TABLE_2_2))
    parser.add_argument("--models", nargs="+", default=["GLVQ", "GMLVQ", "LGMLVQ"])
    parser.add_argument("--repeats", type=int, default=5, help="times the five folds are drawn")
    parser.add_argument("--epochs", type=int, default=30)
    options = parser.parse_args()
    table = Table(
        f"Table 2.2, {options.repeats} x {FOLDS} folds, {options.epochs} epochs",
        ["data", "model", "prototypes", "accuracy", "thesis", "verdict", "s per fold"],
    )
    for data in progress(options.data, "data sets"):
        for row in accuracies(data, options.repeats, options.epochs, options.models):
            print(*row, sep="  ", flush=True)
            table.add(*row)
    show([table])


if __name__ == "__main__":
    main()
