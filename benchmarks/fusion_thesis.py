"""Chapter 6 of the thesis: five nodes, five folds, with all classes and with one missing.

Table 6.1 (fused models), table 6.2 (every node's own model, for every class) and the figures in the
text of section 6.4 (one model of what all nodes together have when each lacks a class). Our models
learn reading by reading; "GMLVQ, L-BFGS" minimises the cost of all readings at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from batch_gmlvq import BatchGMLVQ
from common import Table, progress, verdict
from datasets import table_set
from fusion_fleets import (
    EPOCHS,
    Floats,
    Labels,
    Node,
    class_missing,
    deal,
    f1_by_class,
    maker,
    plain,
    snapshots,
    trained,
)
from streamlvq.fusion import fuse
from tables import folds, principal_components

NODES = 5
NAMES = {"segment": "Image Segmentation", "uci_har": "Motion Tracking", "optdigits": "Digits"}
# The thesis's order of classes: node i lacks the i-th. Others are numbered as they sort.
CLASSES: dict[str, list[Any]] = {
    "segment": ["BRICKFACE", "SKY", "FOLIAGE", "CEMENT", "WINDOW", "PATH", "GRASS"]
}
ALL_CLASSES, ONE_MISSING, ONE_PLACE, UNION = "all classes", "one missing", "at one place", "union"
SCENARIOS = (ALL_CLASSES, ONE_MISSING)
METHODS = ("fuse()", "FED")
BY_NODE = tuple(f"node {k + 1}" for k in range(NODES))
BATCH = ", L-BFGS"  # after the name of a model
Key = tuple[str, str]  # scenario, and whose model
Cell = tuple[float, float]


class Published(NamedTuple):
    """What the thesis says of one model on one data set."""

    averages: tuple[Cell, Cell, Cell]  # table 6.1: both scenarios, all data at once
    fused: tuple[float, ...]  # table 6.1, second scenario, class by class
    best: tuple[float, ...]  # table 6.2, the best node for each class
    nodes: tuple[float, ...]  # table 6.2, averages of the nodes
    union: float | None  # section 6.4, text


# Mean F1 (and standard deviation: in the thesis the mean of those of the classes).
THESIS: dict[str, dict[str, Published]] = {
    "segment": {
        "GMLVQ": Published(
            ((0.893, 0.0239), (0.873, 0.0224), (0.913, 0.0165)),
            (0.918, 0.989, 0.824, 0.820, 0.644, 0.921, 0.995),
            (0.9716, 0.9910, 0.8662, 0.8495, 0.7491, 0.9547, 0.9924),
            (0.8526, 0.8290, 0.8961, 0.8692, 0.8869),
            0.909,
        ),
        "LGMLVQ": Published(
            ((0.941, 0.0170), (0.935, 0.0138), (0.948, 0.0173)),
            (0.986, 1.000, 0.882, 0.897, 0.806, 0.975, 0.995),
            (0.9818, 1.0000, 0.8709, 0.8388, 0.8147, 0.9794, 0.9954),
            (0.8739, 0.8553, 0.9068, 0.8768, 0.9070),
            None,
        ),
    },
    "uci_har": {
        "GMLVQ": Published(
            ((0.910, 0.0069), (0.897, 0.0175), (0.911, 0.0076)),
            (0.945, 0.915, 0.923, 0.805, 0.802, 0.992),
            (0.9507, 0.9266, 0.9385, 0.8081, 0.8597, 0.9909),
            (0.8216, 0.8286, 0.8499, 0.8961, 0.8798),
            0.906,
        ),
        "LGMLVQ": Published(
            ((0.934, 0.0054), (0.934, 0.0058), (0.934, 0.0051)),
            (0.970, 0.950, 0.954, 0.857, 0.875, 0.997),
            (0.9705, 0.9451, 0.9510, 0.8448, 0.8639, 0.9974),
            (0.8437, 0.8540, 0.8630, 0.9078, 0.8995),
            None,
        ),
    },
    "optdigits": {
        "GMLVQ": Published(
            ((0.944, 0.0146), (0.937, 0.0179), (0.941, 0.0164)),
            (0.990, 0.871, 0.935, 0.943, 0.937, 0.950, 0.955, 0.972, 0.911, 0.903),
            (0.9864, 0.8845, 0.9443, 0.9397, 0.9483, 0.9435, 0.9735, 0.9688, 0.9008, 0.8743),
            (0.8859, 0.9047, 0.8941, 0.8956, 0.8971),
            0.935,
        ),
        "LGMLVQ": Published(
            ((0.975, 0.0119), (0.977, 0.0090), (0.978, 0.0101)),
            (0.993, 0.975, 0.985, 0.973, 0.980, 0.973, 0.988, 0.987, 0.957, 0.960),
            (0.9928, 0.9522, 0.9848, 0.9664, 0.9742, 0.9696, 0.9849, 0.9789, 0.9326, 0.9089),
            (0.9185, 0.9234, 0.9216, 0.9277, 0.9217),
            None,
        ),
    },
}


def published(name: str, model: str) -> Published:
    return THESIS[name][model.removesuffix(BATCH)]


class Measured:
    """F1 by class of all folds, of each model in each scenario; NaN where it lacks the class."""

    def __init__(self, labels: list[Any]) -> None:
        self.labels = labels
        self._folds: dict[Key, list[Floats]] = {}

    def __contains__(self, key: Key) -> bool:
        return key in self._folds

    def add(self, scores: dict[Key, Floats]) -> None:
        for key, value in scores.items():
            self._folds.setdefault(key, []).append(value)

    def by_class(self, key: Key) -> Floats:
        mean: Floats = np.mean(self._folds[key], axis=0)
        return mean

    def average(self, key: Key) -> float:
        """Return the mean over the classes that the model has."""
        return float(np.nanmean(self.by_class(key)))

    def deviation(self, key: Key) -> float:
        """Return the mean of the classes' deviations over the folds, as the thesis gives it."""
        return float(np.nanmean(np.std(self._folds[key], axis=0)))

    def cell(self, key: Key) -> str:
        if key not in self:
            return "-"
        return f"{self.average(key):.3f} ({self.deviation(key):.4f})"


# --- one fold -------------------------------------------------------------------------------------


def z_scored(train: Floats, test: Floats) -> tuple[Floats, Floats]:
    """Standardize by the means and deviations of the training part."""
    mean, deviation = train.mean(axis=0), train.std(axis=0)
    scale = np.where(deviation > 0, deviation, 1.0)
    return (train - mean) / scale, (test - mean) / scale


def prepared(X: Floats, train: Any, test: Any) -> tuple[Floats, Floats]:
    return principal_components(*z_scored(X[train], X[test]))


def scores(
    whole: list[Node], labels: list[Any], model: str, epochs: int, central: bool
) -> dict[Key, Floats]:
    """Return F1 by class of all models of one fold."""
    train, fused = batch_learner() if model.endswith(BATCH) else our_learner(model, epochs)
    found: dict[Key, Floats] = {}
    test_X, truth = whole[0].test_X, whole[0].test_y
    for scenario, place in zip(SCENARIOS, (ONE_PLACE, UNION), strict=True):
        nodes = whole if scenario == ALL_CLASSES else class_missing(whole, labels[:NODES])
        models = [train(node.X, node.y) for node in nodes]
        for method, served in fused(nodes, models).items():
            found[scenario, method] = f1_by_class(truth, served.predict_array(test_X), labels)
        for name, node, own in zip(BY_NODE, nodes, models, strict=True):
            found[scenario, name] = _own(node, own, labels)
        if central:
            X, y = (np.concatenate(part) for part in zip(*((n.X, n.y) for n in nodes), strict=True))
            answers = train(X, y).predict_array(test_X)
            found[place, model] = f1_by_class(truth, answers, labels)
    return found


Train = Callable[[Floats, Labels], Any]
Fuse = Callable[[list[Node], list[Any]], dict[str, Any]]  # by method


def our_learner(model: str, epochs: int) -> tuple[Train, Fuse]:
    """Return how a model of ours is trained, and how those of all nodes are fused."""
    make = maker(model)

    def fused(nodes: list[Node], models: list[Any]) -> dict[str, Any]:
        given = snapshots(nodes, models)
        both = zip(METHODS, (fuse(given), plain(given, "uniform")), strict=True)
        # No node has sensors of its own here: what the first is given, all are.
        return {method: each.for_node(nodes[0].name) for method, each in both}

    return lambda X, y: trained(make, X, y, epochs), fused


def batch_learner() -> tuple[Train, Fuse]:
    return BatchGMLVQ.trained, lambda nodes, models: {"FED": BatchGMLVQ.fused(models)}


def _own(node: Node, model: Any, labels: list[Any]) -> Floats:
    """Return a node's F1 by class, tested with all classes; NaN for those it lacks."""
    scores = f1_by_class(node.test_y, model.predict_array(node.test_X), labels)
    return np.where(np.isin(labels, node.y), scores, np.nan)


# --- tables ---------------------------------------------------------------------------------------


def thesis(
    data: list[str] | None = None,
    models: tuple[str, ...] = ("GMLVQ", "GMLVQ" + BATCH, "LGMLVQ"),
    epochs: int = EPOCHS,
    repeats: int = 1,
    central: bool = False,
) -> Iterator[Table]:
    names = data or list(THESIS)
    found = {
        (name, model): measure(name, model, epochs, repeats, central)
        for name in names
        for model in models
    }
    setting = f"{repeats} x 5 folds, {epochs} epochs: F1 (mean of the classes' deviations)"
    yield table_6_1(found, setting)
    yield table_6_2(found, setting)
    yield best_nodes(found)
    if central:
        yield unions(found, setting)


def measure(name: str, model: str, epochs: int, repeats: int, central: bool) -> Measured:
    stream = table_set(name)
    X, y = stream.X, np.asarray(stream.y)
    labels = CLASSES.get(name) or np.unique(y).tolist()
    found = Measured(labels)
    for train, test in progress(folds(len(y), 5, repeats), f"{name} {model}", 5 * repeats):
        A, B = prepared(X, train, test)
        whole = deal(A, y[train], B, y[test], NODES)
        found.add(scores(whole, labels, model, epochs, central))
    return found


def table_6_1(found: dict[tuple[str, str], Measured], setting: str) -> Table:
    columns = ["data", "model", "scenario", "fuse()", "FED", "thesis", "verdict"]
    table = Table(f"Table 6.1, {setting}", columns)
    for (name, model), measured in found.items():
        cells = zip((*SCENARIOS, ONE_PLACE), published(name, model).averages, strict=True)
        for scenario, (mean, deviation) in cells:
            keys = [(scenario, method) for method in METHODS]
            if scenario == ONE_PLACE:
                keys[0] = ONE_PLACE, model
            ours = [measured.average(key) for key in keys if key in measured]
            if ours:
                met = verdict(ours[0] >= mean - deviation)
                row = [*map(measured.cell, keys), f"{mean:.3f} ({deviation:.4f})"]
                table.add(NAMES[name], model, scenario, *row, met)
    return table


def table_6_2(found: dict[tuple[str, str], Measured], setting: str) -> Table:
    """Compare the averages of the nodes' own models, each over the classes it has."""
    title = f"Table 6.2, averages of the nodes, each lacking a class, {setting}"
    table = Table(title, ["data", "model", "whose", "measured", "thesis", "apart"])
    for (name, model), measured in found.items():
        theirs = published(name, model).nodes
        keys = [(ONE_MISSING, who) for who in BY_NODE]
        best = max(keys, key=measured.average)
        rows = [*zip(BY_NODE, keys, theirs, strict=True), ("best", best, max(theirs))]
        for who, key, mean in rows:
            cells = measured.cell(key), f"{mean:.4f}", _apart(measured, key, mean)
            table.add(NAMES[name], model, who, *cells)
    return table


def best_nodes(found: dict[tuple[str, str], Measured]) -> Table:
    """Compare the fused model with the best node of each class."""
    title = "Fused (one class missing at each node) and the best node of each class"
    columns = ["data", "model", "class", "fuse()", "FED", "best node", "thesis: fused", "best node"]
    table = Table(title, [*columns, "fused at least the best", "thesis: at least the best"])
    for (name, model), measured in found.items():
        own = np.array([measured.by_class((ONE_MISSING, who)) for who in BY_NODE])
        best = np.nanmax(own, axis=0)
        fused = [
            measured.by_class(key) if key in measured else np.full(len(best), np.nan)
            for key in ((ONE_MISSING, method) for method in METHODS)
        ]
        first = fused[0] if np.isfinite(fused[0]).all() else fused[1]
        there = published(name, model)
        for k, (label, *theirs) in enumerate(
            zip(measured.labels, there.fused, there.best, strict=True)
        ):
            values = (fused[0][k], fused[1][k], best[k], *theirs)
            cells = ["-" if np.isnan(value) else f"{value:.3f}" for value in values]
            marks = _at_least(float(first[k]), float(best[k])), _at_least(*theirs)
            table.add(NAMES[name], model, label, *cells, *marks)
    return table


def unions(found: dict[tuple[str, str], Measured], setting: str) -> Table:
    title = f"Section 6.4, one model of what all nodes have when each lacks a class, {setting}"
    table = Table(title, ["data", "model", "measured", "all classes", "thesis", "apart"])
    for (name, model), measured in found.items():
        mean, key = published(name, model).union, (UNION, model)
        theirs = ("-", "-") if mean is None else (f"{mean:.3f}", _apart(measured, key, mean))
        both = measured.cell(key), measured.cell((ONE_PLACE, model))
        table.add(NAMES[name], model, *both, *theirs)
    return table


def _apart(measured: Measured, key: Key, mean: float) -> str:
    """Return how many deviations the measured mean is above (+) or below (-) the published one."""
    apart = (measured.average(key) - mean) / measured.deviation(key)
    return f"{apart:+.1f}" + (" within one" if abs(apart) <= 1 else "")


def _at_least(fused: float, best: float) -> str:
    """Compare as far as the thesis can be compared: it prints three digits of one of them."""
    return "yes" if fused + 0.0005 >= best else "no"
