"""The pool of a local model with candidates of its fleet, against alone and against each fusion."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import streamlvq
from common import Figure, Table, best_us, figure_table, progress
from fusion_real import CHOSEN_ON, REAL_FLEETS, SegmentNode, joined, real_fleet
from streamlvq.fusion import fuse
from streamlvq.snapshot import Snapshot

CORRECTIONS = ("none", "least_squares", "scale_shift")
WITHOUT_ENSEMBLE = ("fused", "personal", "round")
WAYS = ("alone", *CORRECTIONS, "auto", "all", "default", "no ensemble", "on the wire")
LARGE = ("tep", "letter, gains")  # one seed is enough: thousands of test readings


def learnt(nodes: Sequence[SegmentNode], model: str) -> dict[str, Any]:
    """Return a model for each node with the library's defaults, after one pass."""
    models = {}
    for node in nodes:
        models[node.name] = getattr(streamlvq, model)()
        X, y = joined(node.segments)
        models[node.name].learn_array(X, y.tolist())
    return models


class Kept(Counter[str]):
    """How many default pools have kept each candidate, and how much it weighs in them."""

    def __init__(self) -> None:
        super().__init__()
        self.pools, self.weights = 0, Counter[str]()

    def note(self, found: Any) -> Any:
        """Count the candidates of a pool and return it."""
        self.pools += 1
        self.update([*found.candidates])
        self.weights.update(found.weights.candidates)
        return found

    def table(self) -> Table:
        table = Table(f"Candidates in {self.pools} default pools", ["candidate", "in", "weight"])
        for name, count in self.most_common():
            table.add(name, f"{count / self.pools:.2f}", f"{self.weights[name] / count:.2f}")
        return table


def accuracies(nodes: Sequence[SegmentNode], model: str, kept: Kept) -> dict[str, float]:
    """Return the mean accuracy of all nodes by each way to decide."""
    local = learnt(nodes, model)

    def mean(choose: Callable[[str], Any]) -> float:
        found = []
        for node in nodes:
            X, y = node.test
            found.append(np.mean(choose(node.name).predict_array(X) == y))
        return float(np.mean(found))

    full = [Snapshot.of(each, name) for name, each in local.items()]
    shared = [Snapshot.of(each, name, readings=False) for name, each in local.items()]
    fused, wire = fuse(full), fuse(shared)
    found = {"alone": mean(lambda name: local[name])}
    for drift in CORRECTIONS:
        found[drift] = mean(fuse(shared, drift=drift).for_node)
    found["auto"] = mean(wire.for_node)
    found["all"] = mean(lambda name: fused.for_node(name, local[name], max_candidates=None))
    found["default"] = mean(lambda name: kept.note(fused.for_node(name, local[name])))
    found["no ensemble"] = mean(
        lambda name: fused.for_node(name, local[name], candidates=WITHOUT_ENSEMBLE)
    )
    found["on the wire"] = mean(lambda name: wire.for_node(name, local[name]))
    return found


def microseconds(nodes: Sequence[SegmentNode], model: str) -> dict[str, float]:
    """Return the cost of a decision by the local model and by pools of the first node."""
    local = learnt(nodes, model)
    fused = fuse([Snapshot.of(each, name) for name, each in local.items()])
    first = nodes[0].name
    pools = {
        "local": local[first],
        "three": fused.for_node(first, local[first], candidates=WITHOUT_ENSEMBLE),
        "ensemble": fused.for_node(first, local[first], max_candidates=1, candidates=["ensemble"]),
    }
    names = local[first].column_names(nodes[0].test[0].shape[1])
    readings = [dict(zip(names, row, strict=True)) for row in nodes[0].test[0][:100].tolist()]

    def run(model: Any) -> Callable[[], None]:
        def ask() -> None:
            for x in readings:
                model.predict_proba_one(x)

        return ask

    return best_us({name: run(each) for name, each in pools.items()}, len(readings))


def pool(
    data: list[str] | None = None,
    models: Sequence[str] = ("LGMLVQ", "GMLVQ"),
    seeds: int = 3,
) -> Iterator[Table]:
    wanted = [name for name in REAL_FLEETS if not data or any(part in name for part in data)]
    cells: dict[tuple[str, bool, str], dict[str, float]] = {}
    kept = Kept()
    columns = ["fleet", "model", *WAYS, "all - best", "default - best"]
    table = Table(f"Accuracy of all nodes, {seeds} seeds (1 for {', '.join(LARGE)})", columns)
    keys = [(name, missing, model) for name in wanted for missing in (False, True)
            for model in models]  # fmt: skip
    for name, missing, model in progress(keys, "pool", len(keys)):
        count = 1 if name in LARGE else seeds
        fleets = [real_fleet(name, seed, missing) for seed in range(1, count + 1)]
        runs = [accuracies(nodes, model, kept) for nodes in fleets]
        mean = {way: float(np.mean([run[way] for run in runs])) for way in WAYS}
        cells[name, missing, model] = mean
        gains = [mean[way] - best(mean) for way in ("all", "default")]
        title = f"{name}{', one class missing' * missing}"
        table.add(title, model, *(f"{v:.3f}" for v in mean.values()), *(f"{g:+.3f}" for g in gains))
    yield table
    yield kept.table()
    for part, title in ((True, "constants were chosen on"), (False, "nothing was chosen on")):
        found = {key: mean for key, mean in cells.items() if (key[0] in CHOSEN_ON) is part}
        if found:
            yield figure_table(list(_figures(found)), f"Fleets that {title}")
    yield from costs(wanted, models)


def best(mean: dict[str, float]) -> float:
    """Return the better of alone and the best single correction in hindsight."""
    return max(mean["alone"], *(mean[drift] for drift in CORRECTIONS))


def _figures(cells: dict[tuple[str, bool, str], dict[str, float]]) -> Iterator[Figure]:
    for way, worst, means in (("all", -0.005, (0.02, 0.04)), ("default", -0.03, (0.02, 0.035))):
        gains = [mean[way] - best(mean) for mean in cells.values()]
        yield Figure(f"{way}: worst cell against the best", min(gains), worst, at_least=True)
        alone = min(mean[way] - mean["alone"] for mean in cells.values())
        yield Figure(f"{way}: worst cell against alone", alone, -0.005, at_least=True)
        for missing, limit in zip((False, True), means, strict=True):
            part = [mean[way] - best(mean) for key, mean in cells.items() if key[1] is missing]
            if part:
                which = "one class missing" if missing else "all classes"
                yield Figure(f"{way}: mean, {which}", float(np.mean(part)), limit, at_least=True)


def costs(names: Sequence[str], models: Sequence[str]) -> Iterator[Table]:
    """Compare the cost of a decision; the machine's, so that only ratios say something."""
    columns = ["fleet", "model", "nodes", "local, us", "three", "times", "ensemble", "times"]
    table, times = Table("Microseconds per decision", columns), []
    for name in names:
        nodes = real_fleet(name, 1)
        for model in models:
            us = microseconds(nodes, model)
            ratios = [us[which] / us["local"] for which in ("three", "ensemble")]
            times.append(ratios[0])
            table.add(
                name, model, str(len(nodes)), f"{us['local']:.1f}", f"{us['three']:.1f}",
                f"{ratios[0]:.1f}", f"{us['ensemble']:.1f}", f"{ratios[1]:.1f}",
            )  # fmt: skip
    yield table
    yield figure_table([Figure("three candidates, median", float(np.median(times)), 8.0, unit="x")])
