"""Small fleets: nodes whose sensors are shifted, and what they have learnt."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

import streamlvq
from streamlvq.fusion.report import Edge, FusionReport, NodeReport
from streamlvq.snapshot import Snapshot

Rows = npt.NDArray[np.float64]
LABELS = ("idle", "running", "worn")
FEATURES = ("heat", "noise", "flow", "power")
UNITS = np.array([10.0, 0.5, 3.0, 200.0])  # deviations within a class
TYPICAL = UNITS * np.array([[0, 0, 0, 0], [6, 4, 0, 3], [3, 8, -5, 3]])
OFF = {  # how far the sensors of each node are off, in deviations
    "bath": np.array([0.0, 0.0, 0.0, 0.0]),
    "leeds": np.array([3.0, -2.0, 1.0, 0.0]),
    "york": np.array([-4.0, 1.0, 0.0, 2.0]),
}


def rows_of(
    node: str, labels: Sequence[str] = LABELS, count: int = 240, seed: int = 0
) -> tuple[Rows, list[str]]:
    """Readings of a node and their labels."""
    random = np.random.default_rng([seed, *node.encode()])
    codes = np.array([LABELS.index(label) for label in labels])[np.arange(count) % len(labels)]
    rows = TYPICAL[codes] + UNITS * random.normal(size=(count, 4)) + UNITS * OFF[node]
    return rows, [LABELS[code] for code in codes]


def learnt(node: str, name: str = "GMLVQ", lacks: str | None = None, **options: Any) -> Any:
    """A model of a node, which may never have seen some class."""
    model = getattr(streamlvq, name)(**options)
    rows, labels = rows_of(node, [label for label in LABELS if label != lacks])
    model.learn_array(rows, labels, features=FEATURES)
    return model


@cache
def fleet(
    name: str = "GMLVQ", lacks: tuple[tuple[str, str], ...] = (("york", "worn"),)
) -> tuple[Snapshot, ...]:
    """Three nodes; one of them has never seen a class."""
    missing: Mapping[str, str] = dict(lacks)
    return tuple(
        Snapshot.of(learnt(node, name, missing.get(node)), node, readings=False) for node in OFF
    )


def accuracy(model: Any, node: str) -> float:
    """On readings of a node that nobody has learnt."""
    rows, labels = rows_of(node, count=600, seed=1)
    said = [model.predict_one(dict(zip(FEATURES, row.tolist(), strict=True))) for row in rows]
    return float(np.mean([a == b for a, b in zip(said, labels, strict=True)]))


def report_of(snapshots: Sequence[Snapshot]) -> FusionReport:
    """What should be said of such a fleet, written by hand: pages are tested without fusion."""
    names = [snapshot.node for snapshot in snapshots]
    pairs = itertools.combinations(snapshots, 2)
    edges = [
        Edge(a.node, b.node, tuple(str(k) for k in LABELS if {k} <= {*a.labels} & {*b.labels}), 0.2)
        for a, b in pairs
    ]
    return FusionReport(
        nodes={snapshot.node: _node(snapshot) for snapshot in snapshots},
        components=(tuple(names),),
        edges=tuple(edges),
        labels=LABELS,
        features=FEATURES,
        weighting="samples",
        aggregator="mean",
        drift="least_squares",
        why="least_squares: hidden classes have a log loss of 0.12, 3.10 without a correction",
        trials={"none": 3.1, "least_squares": 0.12, "scale_shift": 0.2},
        raw_residual=2.5,
        cycle_residual=0.2,
        rank_loss=0.0,
        unprotected=("worn",),
        warnings=("worn: only 2 nodes have it",),
    )


def _node(snapshot: Snapshot) -> NodeReport:
    off = OFF[snapshot.node]
    return NodeReport(
        node=snapshot.node,
        samples=snapshot.samples,
        counts={str(label): count for label, count in snapshot.counts.items()},
        component=0,
        shift=dict(zip(FEATURES, (UNITS * off).tolist(), strict=True)),
        gain=dict.fromkeys(FEATURES, 1.0),
        drift=float(np.sqrt(np.mean(off**2))),
        residual=0.13,
        weights={str(label): 0.25 for label in snapshot.labels},
        gained=tuple(label for label in LABELS if label not in snapshot.labels),
        clipped=(),
        left_out=None,
    )
