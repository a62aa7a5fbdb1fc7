"""Batches of gas readings over three years as nodes: sensors that age by gain, not by offset."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from common import Table, verdict
from datasets import read_npz
from fusion_fleets import (
    Floats,
    Node,
    accuracy,
    fused_accuracy,
    learn,
    local_accuracy,
    maker,
    snapshots,
)
from streamlvq.fusion import FusionReport, fuse

FILE = "gas_drift/gas_drift_raw_b1-6_8_9.npz"
CLASSES = (1, 2, 3, 4, 5, 6)
CORRECTIONS = ("none", "least_squares", "scale_shift", "auto")


def batches(seed: int = 1, missing: bool = False) -> list[Node]:
    """Half of each class of every batch to learn from, half to test with.

    Node i never learns of class i if one is missing (counted on from one after the sixth).
    """
    data = read_npz(FILE)
    X, y, batch = data["X"].astype(np.float64), data["y"], data["batch"]
    random = np.random.default_rng(seed)
    nodes = []
    for number in np.unique(batch):
        train, test = [], []
        for label in np.unique(y[batch == number]):
            rows = random.permutation(np.flatnonzero((batch == number) & (y == label)))
            cut = (len(rows) + 1) // 2
            train.append(rows[:cut])
            test.append(rows[cut:])
        rows, held = random.permutation(np.concatenate(train)), np.concatenate(test)
        nodes.append(Node(f"batch {number}", X[rows], y[rows], X[held], y[held]))
    if not missing:
        return nodes
    return [node.without(CLASSES[k % len(CLASSES)]) for k, node in enumerate(nodes)]


def signed_log(X: Floats) -> Floats:
    """asinh: a logarithm for large values of either sign, and no trouble with zero."""
    return np.arcsinh(X)


UNITS = {"raw": None, "asinh": signed_log}


def study(
    nodes: Sequence[Node], model: str, epochs: int
) -> tuple[dict[str, Floats], dict[str, FusionReport]]:
    """Accuracy by method and node, and what fusion said."""
    models = learn(nodes, maker(model), epochs)
    given = snapshots(nodes, models)
    found = {"own model": local_accuracy(nodes, models)}
    found["mean of local models"] = np.array(
        [np.mean([accuracy(m, node.test_X, node.test_y) for m in models]) for node in nodes]
    )
    reports = {}
    for drift in CORRECTIONS:
        fused = fuse(given, drift=drift)
        found[f"fused, {drift}"] = fused_accuracy(fused, nodes)
        reports[drift] = fused.report
    return found, reports


def gas(model: str = "LGMLVQ", epochs: int = 10, seed: int = 1) -> Iterator[Table]:
    for missing in (False, True):
        best: dict[str, Floats] = {}
        for units, function in UNITS.items():
            nodes = batches(seed, missing)
            if function is not None:
                nodes = [node.mapped(function) for node in nodes]
            found, reports = study(nodes, model, epochs)
            title = f"Gas batches, {units} units, {model}{', one class missing' * missing}"
            table = Table(title, ["method", *(node.name.split()[1] for node in nodes), "mean"])
            for method, values in found.items():
                table.add(method, *(f"{v:.3f}" for v in values), f"{values.mean():.3f}")
            yield table
            yield residuals(title, reports)
            best |= {f"{units}: {method}": values for method, values in found.items()}
        yield later(best, missing)


def residuals(title: str, reports: dict[str, FusionReport]) -> Table:
    """How far class means are off after each correction, in deviations within classes."""
    names = list(reports["auto"].nodes)
    columns = ["correction", *(name.split()[1] for name in names), "around cycles", "left out"]
    table = Table(f"{title}: residuals", columns)
    for drift, report in reports.items():
        cells = [f"{report.nodes[name].residual:.2f}" for name in names]
        cycle = "-" if report.cycle_residual is None else f"{report.cycle_residual:.2f}"
        chosen = f"auto ({report.drift})" if drift == "auto" else drift
        table.add(chosen, *cells, cycle, f"{report.trials.get(report.drift, np.nan):.3f}")
    return table


def later(found: dict[str, Floats], missing: bool) -> Table:
    """Every batch but the first: the chosen correction against raw fusion and local models."""
    title = f"Later batches{', one class missing' * missing}: corrected, against local and raw"
    table = Table(
        title, ["fused", "beats the mean of local models on", "beats raw fusion on", "verdict"]
    )
    raw, local = found["raw: fused, none"][1:], found["raw: mean of local models"][1:]
    for method, values in found.items():
        if "fused" not in method or method == "raw: fused, none":
            continue
        over_local, over_raw = values[1:] > local, values[1:] >= raw
        met = verdict(bool(over_local.all() and over_raw.all()))
        table.add(
            method, f"{over_local.sum()} of {len(raw)}", f"{over_raw.sum()} of {len(raw)}", met
        )
    return table
