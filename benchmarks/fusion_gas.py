"""Batches of gas readings over three years as nodes: sensors that age by gain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from common import Table, progress, verdict
from datasets import read_npz
from fusion_fleets import (
    Floats,
    Make,
    Node,
    accuracy,
    fused_accuracy,
    learn,
    local_accuracy,
    maker,
    snapshots,
)
from streamlvq.fusion import FusionReport, fuse
from streamlvq.wrappers import FeatureTransform

FILE = "gas_drift/gas_drift_raw_b1-6_8_9.npz"
CLASSES = (1, 2, 3, 4, 5, 6)
UNITS = ("raw", "asinh")
CORRECTIONS = ("none", "least_squares", "scale_shift", "auto")


def batches(seed: int = 1, missing: bool = False) -> list[Node]:
    """Split each class of every batch into halves for training and test.

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
    """Return asinh: a logarithm for large values of either sign, defined at zero."""
    return np.arcsinh(X)


def study(
    nodes: Sequence[Node], make: Make, epochs: int
) -> tuple[dict[str, Floats], dict[str, FusionReport]]:
    """Return accuracy by method and node, and the fusion reports."""
    models = learn(nodes, make, epochs)
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


def in_units(units: str, model: str) -> Make:
    """Train models on raw readings, or through a transform that snapshots carry along."""
    make = maker(model)
    return make if units == "raw" else lambda: FeatureTransform(make(), units)


def gas(model: str = "LGMLVQ", epochs: int = 10, seeds: int = 3) -> Iterator[Table]:
    for missing in (False, True):
        every: dict[str, Floats] = {}
        for units in progress(UNITS, "gas", len(UNITS)):
            runs = [
                study(batches(seed, missing), in_units(units, model), epochs)
                for seed in range(1, seeds + 1)
            ]
            mean = {m: np.mean([found[m] for found, _ in runs], axis=0) for m in runs[0][0]}
            reports = runs[0][1]
            title = f"Gas batches, {units} units, {model}{', one class missing' * missing}"
            table = Table(f"{title}, {seeds} seeds", ["method", *_numbers(reports), "mean"])
            for method, values in mean.items():
                table.add(method, *(f"{v:.3f}" for v in values), f"{values.mean():.3f}")
            yield table
            yield residuals(title, reports)
            every |= {f"{units}: {method}": values for method, values in mean.items()}
        yield later(every, missing)


def _numbers(reports: dict[str, FusionReport]) -> list[str]:
    return [name.split()[1] for name in reports["auto"].nodes]


def residuals(title: str, reports: dict[str, FusionReport]) -> Table:
    """Return how far class means are off after each correction, in within-class deviations.

    If sensors differed by a shift, nothing but sampling errors (about 0.1) would be left of them.
    """
    columns = ["correction", *_numbers(reports), "around cycles", "log loss, hidden classes"]
    table = Table(f"{title}: residuals of class means, in deviations", columns)
    for drift, report in reports.items():
        cells = [f"{node.residual:.2f}" for node in report.nodes.values()]
        cycle = "-" if report.cycle_residual is None else f"{report.cycle_residual:.2f}"
        chosen = f"auto ({report.drift})" if drift == "auto" else drift
        trial = reports["auto"].trials.get(report.drift)
        table.add(chosen, *cells, cycle, "-" if trial is None else f"{trial:.2f}")
    return table


def later(found: dict[str, Floats], missing: bool) -> Table:
    """Compare corrected fusion with raw fusion and local models on all batches but the first."""
    title = f"Later batches{', one class missing' * missing}: what beats local and raw"
    table = Table(title, ["fused", "beats local models on", "beats raw fusion on", "verdict"])
    raw, local = found["raw: fused, none"][1:], found["raw: mean of local models"][1:]
    for method, values in found.items():
        if "fused" in method and method != "raw: fused, none":
            wins = values[1:] > local, values[1:] > raw
            cells = [f"{win.sum()} of {len(raw)}" for win in wins]
            table.add(method, *cells, verdict(bool(np.all(wins))))
    return table
