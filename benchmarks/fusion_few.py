"""Nodes with few labels: the three presses of the demo, 60 labels each, over many seeds.

Each node has its own readings, snapshots travel without any. Pools are made twice, the second time
with the weights that the nodes have published, as in daemons.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import streamlvq
from common import Figure, Table, figure_table, progress
from fusion_fleets import Node, accuracy
from streamlvq.demo.fleet import HALLS, LABELS_TO_JOIN, make_press
from streamlvq.fusion import fuse
from streamlvq.snapshot import Snapshot

FIRST_SEED = 2  # that of the demo is 1
TEST_READINGS = 200
MOST_LOST = 0.005
WAYS = ("alone", "fused", "pool", "weights of others")


def presses(seed: int) -> list[Node]:
    """Return the presses of the demo's halls, with the readings of its two rounds."""
    nodes = []
    for hall in HALLS:
        learnt = make_press(hall, "learning", seed).take(LABELS_TO_JOIN)
        test = make_press(hall, "alone", seed).take(TEST_READINGS)
        nodes.append(
            Node(hall, learnt.rows, np.array(learnt.states), test.rows, np.array(test.states))
        )
    return nodes


def accuracies(nodes: list[Node], model: str) -> dict[str, list[float]]:
    """Return the accuracy of each node by each way to decide."""
    local: dict[str, Any] = {}
    for node in nodes:
        local[node.name] = getattr(streamlvq, model)()
        local[node.name].learn_array(node.X, node.y.tolist())
    fused = fuse([Snapshot.of(each, name, readings=False) for name, each in local.items()])
    pools = {name: fused.for_node(name, each) for name, each in local.items()}
    again = fuse([Snapshot.of(pool, name, readings=False) for name, pool in pools.items()])
    served: dict[str, dict[str, Any]] = {
        "alone": local,
        "fused": {name: fused.for_node(name) for name in local},
        "pool": pools,
        "weights of others": {name: again.for_node(name, each) for name, each in local.items()},
    }
    return {
        way: [accuracy(models[node.name], node.test_X, node.test_y) for node in nodes]
        for way, models in served.items()
    }


def few(seeds: int = 40, models: tuple[str, ...] = ("GMLVQ",)) -> Iterator[Table]:
    """Tabulate the nodes by model; nothing was chosen on these seeds."""
    figures = []
    for model in models:
        columns = ["node", *WAYS, "lost more than .005", "most lost"]
        title = f"{model}, {LABELS_TO_JOIN} labels a node, seeds {FIRST_SEED} to {seeds + 1}"
        table = Table(title, columns)
        span = range(FIRST_SEED, FIRST_SEED + seeds)
        runs = [accuracies(presses(seed), model) for seed in progress(span, model, seeds)]
        for k, hall in enumerate(HALLS):
            found = {way: np.array([run[way][k] for run in runs]) for way in WAYS}
            lost = found["alone"] - found[WAYS[-1]]
            count = int((lost > MOST_LOST + 1e-9).sum())
            means = (f"{found[way].mean():.3f}" for way in WAYS)
            table.add(hall, *means, f"{count} of {seeds}", f"{lost.max():+.3f}")
            figures.append(Figure(f"{model}, {hall}: most lost in a seed", lost.max(), MOST_LOST))
        yield table
    yield figure_table(figures, "Few labels")
