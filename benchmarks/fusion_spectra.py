"""Cameras with different offsets, with few or no readings of some classes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from common import Figure, Table, figure_table, progress, verdict
from fusion_fleets import (
    EPOCHS,
    fused_accuracy,
    learn,
    local_accuracy,
    maker,
    offset_elimination,
    plain,
    snapshots,
    spectral,
)
from streamlvq.fusion import fuse

IMBALANCE = (1.0, 0.8, 0.6, 0.4, 0.2, 0.05)
MISSING = "missing"
WEIGHTINGS = {"FED": "uniform", "wFED": "samples"}
AHEAD_FROM = 0.6  # where drift fusion must be ahead, and below
MOST_LOST = 0.02  # by drift wFED at 5 %, of its accuracy with balanced classes
Scores = dict[str, list[float]]


def one_fleet(seed: int, column: float | str, model: str, epochs: int) -> dict[str, float]:
    """Return the mean accuracy of every method over the five cameras."""
    missing = column == MISSING
    nodes = spectral(seed, 1.0 if missing else float(column), missing)
    make = maker(model)
    models = learn(nodes, make, epochs)
    given = snapshots(nodes, models)
    found = {"local": local_accuracy(nodes, models)}
    offset = offset_elimination(nodes, make, WEIGHTINGS.values(), epochs)
    for name, weighting in WEIGHTINGS.items():
        found[f"raw {name}"] = fused_accuracy(plain(given, weighting), nodes)
        found[f"offset elim. {name}"] = offset[weighting]
        drift = plain(given, weighting, "least_squares")
        found[f"drift {name}"] = fused_accuracy(drift, nodes)
    found["tree wFED"] = fused_accuracy(plain(given, "samples", "tree"), nodes)
    found["fuse()"] = fused_accuracy(fuse(given), nodes)
    return {method: float(values.mean()) for method, values in found.items()}


def columns_of(seeds: int, model: str, epochs: int) -> dict[float | str, Scores]:
    found: dict[float | str, Scores] = {}
    for column in progress((*IMBALANCE, MISSING), "spectra", len(IMBALANCE) + 1):
        for seed in range(1, seeds + 1):
            for method, value in one_fleet(seed, column, model, epochs).items():
                found.setdefault(column, {}).setdefault(method, []).append(value)
    return found


def spectra(seeds: int = 5, model: str = "LGMLVQ", epochs: int = EPOCHS) -> Iterator[Table]:
    found = columns_of(seeds, model, epochs)
    title = f"Five cameras, {model}, {seeds} seeds: mean accuracy (deviation over seeds)"
    table = Table(title, ["method", *map(str, found)])
    for method in found[1.0]:
        cells = [scores[method] for scores in found.values()]
        table.add(method, *(f"{np.mean(cell):.3f} ({np.std(cell):.3f})" for cell in cells))
    yield table
    yield ahead(found)
    balanced, few = (np.mean(found[column]["drift wFED"]) for column in (1.0, 0.05))
    default = np.mean(found[1.0]["fuse()"]) - np.mean(found[0.05]["fuse()"])
    yield figure_table(
        [
            Figure("drift wFED: lost at 5 %", float(balanced - few), MOST_LOST),
            Figure("fuse(): lost at 5 %", float(default), MOST_LOST),
        ]
    )


def ahead(found: dict[float | str, Scores]) -> Table:
    """Compare drift fusion with the best of raw fusion and offset elimination, equally weighted."""
    columns = ["column", "weighting", "drift", "raw", "offset elim.", "fuse()", "verdict"]
    table = Table("Drift fusion must be ahead", columns)
    for column, scores in found.items():
        if column != MISSING and float(column) > AHEAD_FROM:
            continue
        for name in WEIGHTINGS:
            drift, raw, offset, default = (
                float(np.mean(scores[method]))
                for method in (f"drift {name}", f"raw {name}", f"offset elim. {name}", "fuse()")
            )
            cells = [f"{value:.4f}" for value in (drift, raw, offset, default)]
            table.add(column, name, *cells, verdict(drift > max(raw, offset)))
    return table
