"""CPU cost of fusion."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import streamlvq
from common import Figure, Table, best_us, cpu_seconds, figure_table
from datasets import gaussians
from streamlvq.fusion import fuse
from streamlvq.snapshot import Snapshot

FEATURES, CLASSES = 64, 10


SCORED = ((20, 6, 18), (100, 6, 18), (20, 10, 64))  # nodes, classes, features
SCORED_READINGS = 500  # that each node has stored


def scoring_seconds(nodes: int, classes: int, features: int) -> float:
    """Return the CPU time of a node's pool: candidates judged on its readings, classes hidden."""
    local = {}
    for k in range(nodes):
        stream = gaussians(features, classes, n=SCORED_READINGS, seed=1)
        order = np.random.default_rng(k).permutation(SCORED_READINGS)
        local[f"node-{k:04}"] = model = streamlvq.GMLVQ()
        model.learn_array(stream.X[order] + 0.01 * k, np.asarray(stream.y)[order])
    fused = fuse([Snapshot.of(model, name, readings=False) for name, model in local.items()])
    return cpu_seconds(lambda: fused.for_node("node-0000", local["node-0000"]))


def fleet(nodes: int, model: str, **options: Any) -> list[Snapshot]:
    """Return snapshots, decoded from bytes, of models that learnt a little."""
    found = []
    for k in range(nodes):
        stream = gaussians(FEATURES, CLASSES, n=100, seed=k % 10)
        learner = getattr(streamlvq, model)(max_prototypes_per_class=1, **options)
        learner.learn_array(stream.X + 0.01 * k, np.asarray(stream.y))
        data = Snapshot.of(learner, f"node-{k:04}", readings=False).to_bytes()
        found.append(Snapshot.from_bytes(data))
    return found


def cost() -> Iterator[Table]:
    table = Table("Fusing ten classes of 64 features", ["fleet", "fuse, s", "one model, ms"])
    figures = []
    for nodes, model, options in (
        (100, "GMLVQ", {"rank": None}),
        (100, "LGMLVQ", {"rank": None}),
        (1000, "GLVQ", {}),
    ):
        given = fleet(nodes, model, **options)
        fuse(given[:5])  # imports
        fused = fuse(given)
        seconds = min(cpu_seconds(lambda g=given: fuse(g)) for _ in range(3))
        one = min(cpu_seconds(lambda f=fused: f.for_node("node-0000")) for _ in range(5))
        name = f"{nodes} x {model}{' (full)' * bool(options)}"
        table.add(name, f"{seconds:.3f}", f"{1e3 * one:.2f}")
        figures.append(Figure(name, seconds + one, 1.0, unit=" s"))
    yield table
    table = Table("A node's pool by its own readings", ["fleet", "seconds"])
    for nodes, classes, features in SCORED:
        seconds = scoring_seconds(nodes, classes, features)
        name = f"{nodes} nodes x {classes} classes, {features} features"
        table.add(name, f"{seconds:.1f}")
        if (nodes, classes) == (20, 6):
            figures.append(Figure(f"pool: {name}", seconds, 5.0, unit=" s"))
    yield table
    for model, options in (("GMLVQ", {"rank": None}), ("LGMLVQ", {"rank": None}), ("GLVQ", {})):
        data = fleet(1, model, **options)[0].to_bytes()
        us = best_us({"": lambda d=data: [Snapshot.from_bytes(d) for _ in range(20)]}, 20)[""]
        figures.append(Figure(f"parse a snapshot of {model}", us / 1e3, 2.0, unit=" ms"))
    yield figure_table(figures)
