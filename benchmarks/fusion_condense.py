"""Fused models with and without a budget of prototypes, and families of models before and after."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import streamlvq
from common import Figure, Table, best_us, figure_table, progress
from fusion_fleets import Node, fused_accuracy, learn, local_accuracy, snapshots
from fusion_never import dealt
from fusion_pool import LARGE, learnt
from fusion_real import CHOSEN_ON, REAL_FLEETS, SegmentNode, real_fleet
from streamlvq.fusion import Fused, fuse
from streamlvq.snapshot import Snapshot

MOST_LOST = 0.01  # by the budget, in any cell
READINGS = 200  # that are decided, to measure the time of a decision
FAMILIES = ("RSLVQ", "MRSLVQ", "LMRSLVQ", "GLVQ")
SHAPES: dict[str, dict[str, Any]] = {
    "growing": {},
    "one prototype": {"max_prototypes_per_class": 1},
}
CHECKED = ("letter", "usps")  # nothing was looked for on these


# --- budget ---------------------------------------------------------------------------------------


def compared(nodes: Sequence[SegmentNode], model: str) -> dict[str, float]:
    """Return accuracies, prototypes and microseconds of fused models without and with a budget."""
    local = learnt(nodes, model)
    given = [Snapshot.of(each, name, readings=False) for name, each in local.items()]
    found = {"alone": _accuracy(nodes, lambda name: local[name])}
    kept, fused = fuse(given, budget="keep"), fuse(given)
    found |= {"keep": _accuracy(nodes, kept.for_node), "auto": _accuracy(nodes, fused.for_node)}
    first = nodes[0]
    for way, each in (("keep", kept), ("auto", fused)):
        counts = Counter(p.label for p in each.snapshot(first.name, private=False).prototypes)
        found[f"prototypes, {way}"] = float(sum(counts.values()))
        found[f"of a class, {way}"] = float(max(counts.values()))
    us = _microseconds(first, {"keep": kept, "auto": fused})
    return found | {"time": us["auto"] / us["keep"]}


def _accuracy(nodes: Sequence[SegmentNode], choose: Callable[[str], Any]) -> float:
    parts = [(choose(node.name), *node.test) for node in nodes]
    return float(np.mean([np.mean(model.predict_array(X) == y) for model, X, y in parts]))


def _microseconds(node: SegmentNode, ways: dict[str, Fused]) -> dict[str, float]:
    """Return the time of a decision for the node without what only it believes."""
    models = {
        way: fused.snapshot(node.name, private=False).classifier() for way, fused in ways.items()
    }
    names = models["keep"].column_names(node.test[0].shape[1])
    readings = [dict(zip(names, row, strict=True)) for row in node.test[0][:READINGS].tolist()]

    def run(model: Any) -> Callable[[], None]:
        def ask() -> None:
            for x in readings:
                model.predict_proba_one(x)

        return ask

    return best_us({way: run(model) for way, model in models.items()}, len(readings))


def condense(
    data: list[str] | None = None, models: Sequence[str] = ("LGMLVQ", "GMLVQ"), seeds: int = 3
) -> Iterator[Table]:
    """Tabulate what the default budget costs and saves on real fleets, growing models."""
    wanted = [name for name in REAL_FLEETS if not data or any(part in name for part in data)]
    keys = [(n, missing, model) for n in wanted for missing in (False, True) for model in models]
    table, lost, times = None, dict[str, list[float]](), []
    for name, missing, model in progress(keys, "condense", len(keys)):
        count = 1 if name in LARGE else seeds
        runs = [compared(real_fleet(name, seed, missing), model) for seed in range(1, count + 1)]
        mean = {key: float(np.mean([run[key] for run in runs])) for key in runs[0]}
        if table is None:
            table = Table(f"Budget of prototypes, {seeds} seeds", ["fleet", "model", *mean])
        title = f"{name}{', one class missing' * missing}"
        cells = [f"{v:.3f}" if k in ("alone", "keep", "auto") else f"{v:.1f}"
                 for k, v in list(mean.items())[:-1]]  # fmt: skip
        table.add(title, model, *cells, f"{mean['time']:.2f}")
        part = "chosen on" if name in CHOSEN_ON else "checked"
        lost.setdefault(part, []).append(mean["keep"] - mean["auto"])
        times.append(mean["time"])
    if table is not None:
        yield table
        yield figure_table(
            [
                *(
                    Figure(f"{k}: most lost by the budget", max(v), MOST_LOST)
                    for k, v in lost.items()
                ),
                Figure("time of a decision, mean", float(np.mean(times)), 1.0, unit="x"),
            ]
        )


# --- families -------------------------------------------------------------------------------------


def families(
    data: Sequence[str] = ("segment", "optdigits", "uci_har", *CHECKED),
    models: Sequence[str] = FAMILIES,
    seeds: int = 2,
) -> Iterator[Table]:
    """Tabulate models without a metric of their own and those of likelihoods, alone and fused."""
    columns = ["set", "model", "prototypes", "alone", "fused", "gained"]
    table, gained = Table("Five nodes with the same sensors, accuracy, one pass", columns), []
    keys = [(name, model, shape) for name in data for model in models for shape in SHAPES]
    for name, model, shape in progress(keys, "families", len(keys)):
        runs = [
            _alone_and_fused(dealt(name, False)(seed), model, shape) for seed in range(1, seeds + 1)
        ]
        alone, fused = np.mean(runs, axis=0).tolist()
        gained.append(fused - alone)
        table.add(name, model, shape, f"{alone:.3f}", f"{fused:.3f}", f"{fused - alone:+.3f}")
    yield table
    yield figure_table([Figure("fused above alone, worst", min(gained), -0.02, at_least=True)])


def _alone_and_fused(nodes: list[Node], model: str, shape: str) -> tuple[float, float]:
    models = learn(nodes, lambda: getattr(streamlvq, model)(**SHAPES[shape], seed=1), epochs=1)
    fused = fuse(snapshots(nodes, models))
    return float(local_accuracy(nodes, models).mean()), float(fused_accuracy(fused, nodes).mean())
