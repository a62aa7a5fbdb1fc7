"""A fleet that learns in one pass, without the network: 20 nodes, 10 classes, 64 features."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import streamlvq
from common import Figure, Table, figure_table, progress
from fusion_fleets import Node, accuracy, fused_accuracy, local_accuracy, snapshots
from streamlvq.fusion import fuse

NODES = 20
READINGS = 10_000  # per node
FEATURES = 64
CLASSES = 10
LATENT = 12  # directions in which readings vary much
MOST_LOST = 0.02
FEWER = 100  # times fewer bytes than readings
NUMBER = 8  # bytes of a value as sensors compute with it
MODELS: dict[str, dict[str, Any]] = {
    "GMLVQ": {"max_prototypes_per_class": 1},
    "LGMLVQ": {"max_prototypes_per_class": 1},
    "GLVQ": {"max_prototypes_per_class": 4},
}


class World:
    """Ten classes of readings with 64 features, common to all nodes of a fleet.

    Every class is a cloud around a centre. Readings vary in a dozen directions much more than
    classes differ, as if load or light changed, and a little in all others. So there is a metric
    to learn, and one reading of a class tells little about the next.
    """

    def __init__(self, seed: int = 1) -> None:
        random = np.random.default_rng([seed, 64])
        self.centres = 0.72 * random.normal(size=(CLASSES, FEATURES))
        self.nuisance = 0.8 * random.normal(size=(LATENT, FEATURES))
        self.units = np.exp(random.normal(size=FEATURES))  # sensors speak in units

    def readings(self, n: int, random: np.random.Generator) -> tuple[Any, Any]:
        y = random.integers(CLASSES, size=n)
        latent = random.normal(size=(n, LATENT)) @ self.nuisance
        X = self.centres[y] + latent + 1.5 * random.normal(size=(n, FEATURES))
        return X * self.units, y


def streams(
    count: int = NODES,
    readings: int = READINGS,
    seed: int = 1,
    shift: float = 0.0,
    test: int = 1000,
) -> list[Node]:
    """Return the readings of all nodes; `shift` is how far their sensors differ, in deviations."""
    world = World(seed)
    nodes = []
    for k in range(count):
        random = np.random.default_rng([seed, k])
        X, y = world.readings(readings, random)
        T, u = world.readings(test, random)
        offset = shift * world.units * random.normal(size=FEATURES)
        nodes.append(Node(f"node-{k + 1:02}", X + offset, y, T + offset, u))
    return nodes


def one_pass(model: str, X: Any, y: Any) -> Any:
    learner = getattr(streamlvq, model)(**MODELS[model])
    learner.learn_array(X, y)
    return learner


def interleaved(nodes: list[Node]) -> tuple[Any, Any]:
    """Return readings in the order of arrival: one of each node in turn."""
    X = np.stack([node.X for node in nodes], axis=1).reshape(-1, FEATURES)
    return X, np.stack([node.y for node in nodes], axis=1).reshape(-1)


def streaming(readings: int = READINGS, seed: int = 1) -> Iterator[Table]:
    columns = ["model", "shift", "local", "at one place", "fused", "worst node", "bytes", "fewer"]
    table, figures = Table(f"{NODES} nodes, one pass over {readings} readings each", columns), []
    for shift in (0.0, 1.0):
        nodes = streams(NODES, readings, seed, shift)
        for model in progress(MODELS, "streaming", len(MODELS)):
            models = [one_pass(model, node.X, node.y) for node in nodes]
            given = snapshots(nodes, models)
            single = one_pass(model, *interleaved(nodes))
            central = np.array([accuracy(single, n.test_X, n.test_y) for n in nodes])
            fused = fused_accuracy(fuse(given), nodes)
            size = float(np.mean([len(snapshot.to_bytes()) for snapshot in given]))
            fewer = readings * FEATURES * NUMBER / size
            local = local_accuracy(nodes, models).mean()
            cells = [f"{v:.3f}" for v in (local, central.mean(), fused.mean(), fused.min())]
            table.add(model, shift, *cells, f"{size:,.0f}", f"{fewer:.0f}x")
            lost = float((central - fused).max())
            figures.append(Figure(f"{model}, shift {shift:g}: lost by any node", lost, MOST_LOST))
            if not shift:
                figures.append(Figure(f"{model}: fewer bytes", fewer, FEWER, at_least=True))
    yield table
    yield figure_table(figures, "Against one model that saw everything")
