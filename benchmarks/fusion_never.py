"""Largest loss of `drift="auto"` against raw fusion, over all fleets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from common import Figure, Table, figure_table, progress, verdict
from datasets import table_set
from fusion_fleets import (
    EPOCHS,
    Node,
    class_missing,
    fused_accuracy,
    learn,
    maker,
    plain,
    snapshots,
    spectral,
    split,
)
from fusion_gas import batches, signed_log
from fusion_stream import streams
from fusion_thesis import z_scored
from streamlvq.fusion import fuse
from tables import principal_components

MOST_LOST = 0.005
Fleet = Callable[[int], list[Node]]


def dealt(name: str, missing: bool) -> Fleet:
    """Deal a set of the thesis out to five nodes with identical sensors."""

    def make(seed: int) -> list[Node]:
        nodes = split(table_set(name), 5, seed)
        A, B = principal_components(
            *z_scored(np.concatenate([node.X for node in nodes]), nodes[0].test_X)
        )
        parts = np.split(A, np.cumsum([len(node.y) for node in nodes])[:-1])
        nodes = [
            Node(node.name, part, node.y, B, node.test_y)
            for node, part in zip(nodes, parts, strict=True)
        ]
        return class_missing(nodes, np.unique(nodes[0].test_y)[:5]) if missing else nodes

    return make


def small(fleet: Fleet, share: float) -> Fleet:
    """Return the same fleet with few readings per node, where corrections are mostly noise."""

    def make(seed: int) -> list[Node]:
        return [
            Node(
                n.name,
                n.X[: int(share * len(n.y))],
                n.y[: int(share * len(n.y))],
                n.test_X,
                n.test_y,
            )
            for n in fleet(seed)
        ]

    return make


def gained(nodes: list[Node], seed: int) -> list[Node]:
    """Multiply each feature of each node by a random gain."""
    random = np.random.default_rng([seed, 7])
    gains = np.exp(0.2 * random.normal(size=(len(nodes), nodes[0].X.shape[1])))
    return [node.mapped(lambda X, g=gain: X * g) for node, gain in zip(nodes, gains, strict=True)]


FLEETS: dict[str, Fleet] = {
    **{
        f"{name}{', one class missing' * missing}": dealt(name, missing)
        for name in ("segment", "optdigits", "uci_har")
        for missing in (False, True)
    },
    "segment, few readings": small(dealt("segment", False), 0.2),
    "optdigits, few readings": small(dealt("optdigits", True), 0.1),
    "optdigits, gains": lambda seed: gained(dealt("optdigits", False)(seed), seed),
    **{
        f"spectra, imbalance {share:g}": lambda seed, share=share: spectral(seed, share)
        for share in (1.0, 0.8, 0.6, 0.4, 0.2, 0.05)
    },
    "spectra, one class missing": lambda seed: spectral(seed, missing=True),
    "gas, raw": batches,
    "gas, asinh": lambda seed: [node.mapped(signed_log) for node in batches(seed)],
    "gas, raw, one class missing": lambda seed: batches(seed, missing=True),
    "gas, asinh, one class missing": lambda seed: [
        node.mapped(signed_log) for node in batches(seed, missing=True)
    ],
    "stream of 20": lambda seed: streams(20, 1000, seed),
    "stream of 20, shifted sensors": lambda seed: streams(20, 1000, seed, shift=1.0),
}


def compared(nodes: list[Node], model: str, epochs: int) -> tuple[str, list[float]]:
    """Return the chosen correction, and the accuracies of mean, raw fusion and default."""
    given = snapshots(nodes, learn(nodes, maker(model), epochs))
    auto = fuse(given)
    ways = plain(given), fuse(given, drift="none"), auto
    return auto.report.drift, [float(fused_accuracy(way, nodes).mean()) for way in ways]


def never(
    models: Sequence[str] = ("GMLVQ", "LGMLVQ"),
    seeds: int = 2,
    epochs: int = EPOCHS,
    data: list[str] | None = None,
) -> Iterator[Table]:
    """Tabulate the losses of the worst seed.

    Raw fusion protects itself against byzantine nodes, as the default does; the bare mean does not.
    So the second loss is also what protection costs where nobody lies.
    """
    columns = ["fleet", "model", "bare mean", "raw", "auto", "lost", "to bare", "chosen", "verdict"]
    table, losses = Table("auto against raw fusion, mean accuracy of all nodes", columns), []
    wanted = {k: v for k, v in FLEETS.items() if not data or any(part in k for part in data)}
    for name, fleet in progress(wanted.items(), "never", len(wanted)):
        for model in models:
            runs = [compared(fleet(seed), model, epochs) for seed in range(1, seeds + 1)]
            scores = np.array([score for _, score in runs])
            lost, to_bare = (scores[:, [1, 0]] - scores[:, [2]]).max(axis=0).tolist()
            losses.append((lost, to_bare))
            how = "/".join(dict.fromkeys(chosen for chosen, _ in runs))
            cells = [f"{v:.4f}" for v in (*scores.mean(axis=0), lost, to_bare)]
            table.add(name, model, *cells, how, verdict(max(lost, to_bare) <= MOST_LOST))
    yield table
    raw, bare = np.max(losses, axis=0).tolist()
    yield figure_table(
        [
            Figure("largest loss of auto against raw fusion", raw, MOST_LOST),
            Figure("largest loss of auto against the bare mean", bare, MOST_LOST),
        ]
    )
