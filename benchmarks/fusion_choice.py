"""What `drift="auto"` loses against the best single correction in hindsight, on real fleets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from common import Figure, Table, figure_table, progress
from fusion_pool import CORRECTIONS, LARGE, learnt
from fusion_real import CHOSEN_ON, REAL_FLEETS, SegmentNode, real_fleet
from streamlvq.fusion import Fused, fuse
from streamlvq.snapshot import Snapshot

MOST_LOST = (0.011, 0.082)  # mean and worst, of the rule that was tried first


def accuracy(fused: Fused, nodes: Sequence[SegmentNode]) -> float:
    """Return the mean accuracy of the fused models alone, each at its own node."""
    found = [np.mean(fused.for_node(n.name).predict_array(n.test[0]) == n.test[1]) for n in nodes]
    return float(np.mean(found))


def choice(
    data: list[str] | None = None,
    models: Sequence[str] = ("LGMLVQ", "GMLVQ"),
    seeds: int = 3,
) -> Iterator[Table]:
    columns = ["fleet", "model", "seed", *CORRECTIONS, "chosen", "regret", "losses"]
    table = Table("Accuracy by single corrections, and what auto chooses", columns)
    regrets: dict[bool, list[float]] = {True: [], False: []}
    wanted = [name for name in REAL_FLEETS if not data or any(part in name for part in data)]
    keys = [
        (name, missing, model, seed)
        for name in wanted
        for missing in (False, True)
        for model in models
        for seed in range(1, (1 if name in LARGE else seeds) + 1)
    ]
    for name, missing, model, seed in progress(keys, "choice", len(keys)):
        nodes = real_fleet(name, seed, missing)
        given = [
            Snapshot.of(each, node, readings=False) for node, each in learnt(nodes, model).items()
        ]
        single = {drift: accuracy(fuse(given, drift=drift), nodes) for drift in CORRECTIONS}
        report = fuse(given).report
        regret = single[report.drift] - max(single.values())
        regrets[name in CHOSEN_ON].append(regret)
        title = f"{name}{', one class missing' * missing}"
        losses = " / ".join(f"{loss:.2f}" for loss in report.trials.values()) or "-"
        cells = [f"{value:.3f}" for value in single.values()]
        table.add(title, model, str(seed), *cells, report.drift, f"{regret:+.3f}", losses)
    yield table
    for part, title in ((True, "constants were chosen on"), (False, "nothing was chosen on")):
        if regrets[part]:
            found = -np.array(regrets[part])
            yield figure_table(
                [
                    Figure("lost against the best, mean", float(found.mean()), MOST_LOST[0]),
                    Figure("lost against the best, worst", float(found.max()), MOST_LOST[1]),
                ],
                f"Fleets that {title}",
            )
