"""Reproduce tables of the thesis: several passes over training sets, cross-validated.

python benchmarks/tables.py --table 2.2                  # 5 x 5 folds, all data sets
python benchmarks/tables.py --table 2.2 --data segment --repeats 1
python benchmarks/tables.py --table 4.2 --repeats 1      # 1 x 10 folds; prints 4.3 as well
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
from streamlvq import metrics

FOLDS = {"2.2": 5, "4.2": 10}
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
# Accuracy and area under the accuracy-reject curve (the thesis has no area for voting).
TABLE_4_2: dict[str, dict[str, tuple[Cell, Cell | None]]] = {
    "segment": {
        "ht": ((0.952, 0.0133), (0.9946, 0.0023)),
        "pkpd": ((0.953, 0.0133), (0.9923, 0.0047)),
        "wlw1": ((0.952, 0.0131), (0.9946, 0.0023)),
        "wlw2": ((0.953, 0.0131), (0.9941, 0.0026)),
        "vote": ((0.950, 0.0147), None),
        "GMLVQ": ((0.913, 0.0170), (0.9847, 0.0052)),
        "LGMLVQ": ((0.937, 0.0156), (0.9922, 0.0038)),
    },
    "letter": {
        "ht": ((0.853, 0.0086), (0.9668, 0.0037)),
        "pkpd": ((0.849, 0.0087), (0.9666, 0.0035)),
        "wlw1": ((0.853, 0.0086), (0.9668, 0.0037)),
        "wlw2": ((0.850, 0.0090), (0.9676, 0.0035)),
        "vote": ((0.843, 0.0091), None),
        "GMLVQ": ((0.702, 0.0103), (0.9173, 0.0053)),
        "LGMLVQ": ((0.877, 0.0071), (0.9856, 0.0014)),
    },
    "uci_har": {
        "ht": ((0.936, 0.0063), (0.9900, 0.0018)),
        "pkpd": ((0.936, 0.0063), (0.9898, 0.0021)),
        "wlw1": ((0.936, 0.0063), (0.9900, 0.0018)),
        "wlw2": ((0.936, 0.0065), (0.9899, 0.0019)),
        "vote": ((0.935, 0.0065), None),
        "GMLVQ": ((0.910, 0.0087), (0.9763, 0.0037)),
        "LGMLVQ": ((0.931, 0.0078), (0.9870, 0.0027)),
    },
    "usps": {
        "ht": ((0.954, 0.0064), (0.9942, 0.0023)),
        "pkpd": ((0.954, 0.0066), (0.9933, 0.0027)),
        "wlw1": ((0.954, 0.0065), (0.9942, 0.0023)),
        "wlw2": ((0.953, 0.0067), (0.9941, 0.0022)),
        "vote": ((0.951, 0.0071), None),
        "GMLVQ": ((0.908, 0.0077), (0.9867, 0.0024)),
        "LGMLVQ": ((0.960, 0.0068), (0.9972, 0.0014)),
    },
}
Floats = NDArray[np.float64]


def principal_components(train: Floats, test: Floats) -> tuple[Floats, Floats]:
    """Reduce to at most `COMPONENTS` features, fitted to the training part."""
    if train.shape[1] <= COMPONENTS:
        return train, test
    mean = train.mean(axis=0)
    _, _, directions = np.linalg.svd(train - mean, full_matrices=False)
    basis = directions[:COMPONENTS].T
    return (train - mean) @ basis, (test - mean) @ basis


def folds(n: int, count: int, repeats: int) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Yield training and test indices of repeated cross-validation."""
    for repeat in range(repeats):
        parts = np.array_split(np.random.default_rng(repeat).permutation(n), count)
        for k in range(count):
            yield np.concatenate([*parts[:k], *parts[k + 1 :]]), parts[k]


def make(model: str, prototypes: int) -> streamlvq.GLVQ:
    """Return the thesis's model: a fixed number of prototypes, full matrices."""
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


def table_2_2(data: str, repeats: int, epochs: int, models: list[str]) -> Iterator[list[object]]:
    """Reproduce table 2.2: one row for every published cell."""
    stream = table_set(data)
    X, y = stream.X, np.asarray(stream.y)
    for model in models:
        for column, prototypes in enumerate(PROTOTYPES):
            scores = []
            start = time.process_time()
            for train, test in folds(len(y), FOLDS["2.2"], repeats):
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


# --- tables 4.2 and 4.3 -----------------------------------------------------------------------


def relsim(model: streamlvq.GLVQ, X: Floats) -> tuple[NDArray[Any], Floats]:
    """Return label and relative similarity of each row."""
    rows = [dict(enumerate(row)) for row in X.tolist()]
    return model.predict_array(X), np.array([model.relsim_one(row) for row in rows])


def coupled(model: streamlvq.PairwiseLVQ, X: Floats) -> tuple[NDArray[Any], Floats]:
    """Return label and largest probability of each row."""
    probabilities = model.predict_proba_array(X)
    return np.array(model.classes)[probabilities.argmax(axis=1)], probabilities.max(axis=1)


def answers(A: Floats, labels: NDArray[Any], B: Floats, epochs: int) -> Iterator[Any]:
    """Yield method, labels and certainties: pairs with every coupling, then two with RelSim."""
    pairs = streamlvq.PairwiseLVQ(rank=None, rehearsal=0)
    pairs.train(A, labels, epochs=epochs, progress=False)
    for coupling in ("ht", "pkpd", "wlw1", "wlw2", "vote"):
        pairs.coupling = coupling  # the temperature stays that of PKPD
        yield coupling, *coupled(pairs, B)
    for name in ("GMLVQ", "LGMLVQ"):
        single = make(name, 1)
        single.train(A, labels, epochs=epochs, progress=False)
        yield name, *relsim(single, B)


def table_4_2(data: str, repeats: int, epochs: int) -> Iterator[list[object]]:
    """Reproduce tables 4.2 (accuracy) and 4.3 (area): one row for every method."""
    stream = table_set(data)
    X, y = stream.X, np.asarray(stream.y)
    scores: dict[str, list[tuple[float, float]]] = {}
    total = FOLDS["4.2"] * repeats
    for train, test in progress(folds(len(y), FOLDS["4.2"], repeats), data, total):
        A, B = principal_components(X[train], X[test])
        for method, labels, certainty in answers(A, y[train], B, epochs):
            curve = metrics.AccuracyRejectCurve()
            curve.update_many(y[test], labels, certainty)
            scores.setdefault(method, []).append((float(np.mean(labels == y[test])), curve.area))
    for method, cells in scores.items():
        row: list[object] = [data, method]
        for column, published in enumerate(TABLE_4_2[data][method]):
            mine = np.array(cells)[:, column]
            row += [f"{mine.mean():.4f} ({mine.std():.4f})", *against(mine.mean(), published)]
        yield row


def against(mine: float, published: Cell | None) -> tuple[str, str]:
    if published is None:
        return "-", "-"
    mean, deviation = published
    return f"{mean:.4f} ({deviation:.4f})", verdict(bool(mine >= mean - deviation))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--table", choices=list(FOLDS), default="2.2")
    parser.add_argument("--data", nargs="+", choices=list(TABLE_2_2), help="default: all")
    parser.add_argument("--models", nargs="+", default=["GLVQ", "GMLVQ", "LGMLVQ"], help="of 2.2")
    parser.add_argument("--repeats", type=int, default=5, help="times the folds are drawn")
    parser.add_argument("--epochs", type=int, default=30)
    options = parser.parse_args()
    title = f"{options.repeats} x {FOLDS[options.table]} folds, {options.epochs} epochs"
    if options.table == "2.2":
        columns = ["data", "model", "prototypes", "accuracy", "thesis", "verdict", "s per fold"]
        table, sets = Table(f"Table 2.2, {title}", columns), TABLE_2_2.keys()
    else:
        columns = ["data", "method", "accuracy", "4.2", "verdict", "area", "4.3", "verdict"]
        table, sets = Table(f"Tables 4.2 and 4.3, {title}", columns), TABLE_4_2.keys()
    if unknown := set(options.data or ()) - set(sets):
        parser.error(f"table {options.table} has no {', '.join(unknown)}")
    for data in options.data or sets:
        if options.table == "2.2":
            rows = table_2_2(data, options.repeats, options.epochs, options.models)
        else:
            rows = table_4_2(data, options.repeats, options.epochs)
        for row in rows:
            print(*row, sep="  ", flush=True)
            table.add(*row)
    show([table])


if __name__ == "__main__":
    main()
