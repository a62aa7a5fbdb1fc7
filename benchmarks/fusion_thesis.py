"""Table 6.1 of the thesis: five nodes, five folds, with all classes and with one missing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from common import Table, progress, verdict
from datasets import table_set
from fusion_fleets import (
    EPOCHS,
    Floats,
    Labels,
    class_missing,
    deal,
    f1,
    learn,
    maker,
    plain,
    snapshots,
    trained,
)
from streamlvq.fusion import fuse
from tables import folds, principal_components

NODES = 5
NAMES = {"segment": "Image Segmentation", "uci_har": "Motion Tracking", "optdigits": "Digits"}
# Mean and standard deviation of the average F1: first scenario, second scenario, all data at once.
Cell = tuple[float, float]
TABLE_6_1: dict[str, dict[str, tuple[Cell, Cell, Cell]]] = {
    "segment": {
        "GMLVQ": ((0.893, 0.0239), (0.873, 0.0224), (0.913, 0.0165)),
        "LGMLVQ": ((0.941, 0.0170), (0.935, 0.0138), (0.948, 0.0173)),
    },
    "uci_har": {
        "GMLVQ": ((0.910, 0.0069), (0.897, 0.0175), (0.911, 0.0076)),
        "LGMLVQ": ((0.934, 0.0054), (0.934, 0.0058), (0.934, 0.0051)),
    },
    "optdigits": {
        "GMLVQ": ((0.944, 0.0146), (0.937, 0.0179), (0.941, 0.0164)),
        "LGMLVQ": ((0.975, 0.0119), (0.977, 0.0090), (0.978, 0.0101)),
    },
}
SCENARIOS = ("all classes", "one missing")
METHODS = ("fuse()", "FED")


def z_scored(train: Floats, test: Floats) -> tuple[Floats, Floats]:
    """Standardize by the means and deviations of the training part."""
    mean, deviation = train.mean(axis=0), train.std(axis=0)
    scale = np.where(deviation > 0, deviation, 1.0)
    return (train - mean) / scale, (test - mean) / scale


def prepared(X: Floats, train: Any, test: Any) -> tuple[Floats, Floats]:
    return principal_components(*z_scored(X[train], X[test]))


def scores(
    A: Floats, y: Labels, B: Floats, truth: Labels, model: str, epochs: int
) -> dict[tuple[str, str], float]:
    """Return F1 by scenario and method for one fold."""
    found = {}
    labels, make = np.unique(y), maker(model)
    whole = deal(A, y, B, truth, NODES)
    for scenario in SCENARIOS:
        nodes = whole if scenario == SCENARIOS[0] else class_missing(whole, labels[:NODES])
        given = snapshots(nodes, learn(nodes, make, epochs))
        for method, fused in zip(METHODS, (fuse(given), plain(given, "uniform")), strict=True):
            # No node has sensors of its own here: what the first is given, all are.
            answers = fused.for_node(nodes[0].name).predict_array(B)
            found[scenario, method] = f1(truth, answers)
    return found


def thesis(
    data: list[str] | None = None,
    models: tuple[str, ...] = ("GMLVQ", "LGMLVQ"),
    epochs: int = EPOCHS,
    repeats: int = 1,
    central: bool = False,
) -> Iterator[Table]:
    columns = ["data", "model", "scenario", "fuse()", "FED", "thesis", "verdict"]
    table = Table(f"Table 6.1, {repeats} x 5 folds, {epochs} epochs: average F1", columns)
    for name in data or list(TABLE_6_1):
        stream = table_set(name)
        X, y = stream.X, np.asarray(stream.y)
        for model in models:
            found: dict[tuple[str, str], list[float]] = {}
            for train, test in progress(folds(len(y), 5, repeats), f"{name} {model}", 5 * repeats):
                A, B = prepared(X, train, test)
                fold = scores(A, y[train], B, y[test], model, epochs)
                if central:
                    whole = trained(maker(model), A, y[train], epochs)
                    fold["at one place", METHODS[0]] = f1(y[test], whole.predict_array(B))
                for key, value in fold.items():
                    found.setdefault(key, []).append(value)
            _add(table, name, model, found)
    yield table


def _add(table: Table, name: str, model: str, found: dict[tuple[str, str], list[float]]) -> None:
    published = dict(zip((*SCENARIOS, "at one place"), TABLE_6_1[name][model], strict=True))
    for scenario, (mean, deviation) in published.items():
        if (scenario, METHODS[0]) not in found:
            continue
        ours = [found.get((scenario, method)) for method in METHODS]
        cells = [f"{np.mean(v):.3f} ({np.std(v):.4f})" if v else "-" for v in ours]
        met = verdict(bool(np.mean(ours[0] or np.nan) >= mean - deviation))
        table.add(NAMES[name], model, scenario, *cells, f"{mean:.3f} ({deviation:.4f})", met)
