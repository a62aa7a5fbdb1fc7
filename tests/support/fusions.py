"""Small fleets for tests of fusion: what nodes read, what they learn, and how to lie."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import streamlvq
from naive import Node
from streamlvq import Snapshot
from streamlvq.snapshot import to_arrays
from support.samples import readings

Floats = npt.NDArray[np.float64]
MODELS: dict[str, Callable[[], Any]] = {
    "GLVQ": lambda: streamlvq.GLVQ(max_prototypes_per_class=1),
    "GRLVQ": lambda: streamlvq.GRLVQ(max_prototypes_per_class=1),
    "LGRLVQ": lambda: streamlvq.LGRLVQ(max_prototypes_per_class=1),
    "GMLVQ": lambda: streamlvq.GMLVQ(max_prototypes_per_class=1),
    "LGMLVQ": lambda: streamlvq.LGMLVQ(max_prototypes_per_class=1),
    "LGMLVQ of rank 2": lambda: streamlvq.LGMLVQ(max_prototypes_per_class=1, rank=2),
    "GMLVQ of rank 2": lambda: streamlvq.GMLVQ(max_prototypes_per_class=1, rank=2),
    "PairwiseLVQ": streamlvq.PairwiseLVQ,
    "LVQCommittee": streamlvq.LVQCommittee,
}
PLAIN: dict[str, Any] = {"screen": False, "byzantine": None, "drift": "none"}


@dataclass(frozen=True)
class World:
    """Classes that all nodes see, each through sensors of its own."""

    centres: Floats
    unit: Floats
    labels: tuple[Any, ...]

    @classmethod
    def of(
        cls,
        seed: int,
        *,
        d: int = 4,
        classes: int = 3,
        apart: float = 3.0,
        labels: Sequence[Any] | None = None,
    ) -> World:
        random = np.random.default_rng(seed)
        names = tuple(labels) if labels is not None else tuple(f"c{k}" for k in range(classes))
        centres = apart * random.normal(size=(len(names), d))
        return cls(centres, 10.0 ** random.uniform(-1, 1, d), names)

    def read(
        self,
        seed: int,
        n: int,
        *,
        known: Iterable[int] | None = None,
        shift: Any = 0.0,
        gain: Any = 1.0,
    ) -> tuple[Floats, list[Any]]:
        """Readings of a node and their labels; shifts are in the units of the features."""
        random = np.random.default_rng([seed, 7])
        among = list(range(len(self.labels)) if known is None else known)
        y = random.choice(among, n)
        y[: len(among)] = among[: len(y)]  # all of them for sure
        X = (self.centres[y] + random.normal(size=(n, len(self.unit)))) * gain + shift
        return X * self.unit, [self.labels[k] for k in y]


def learnt(model: Any, X: Floats, y: Iterable[Any]) -> Any:
    for x, label in zip(readings(X), y, strict=True):
        model.learn_one(x, label)
    return model


def accuracy(model: Any, X: Floats, y: Sequence[Any]) -> float:
    return float(
        np.mean([model.predict_one(x) == label for x, label in zip(readings(X), y, strict=True)])
    )


def fleet(
    make: Callable[[], Any], world: World, nodes: int, n: int = 60, seed: int = 0, **read: Any
) -> list[Snapshot]:
    """Nodes n0, n1 ... with all classes, unless `known` says which (one list for each node)."""
    known = read.pop("known", [None] * nodes)
    shift = read.pop("shift", np.zeros((nodes, 1)))
    gain = read.pop("gain", np.ones((nodes, 1)))
    found = []
    for i in range(nodes):
        X, y = world.read(100 * seed + i, n, known=known[i], shift=shift[i], gain=gain[i], **read)
        found.append(Snapshot.of(learnt(make(), X, y), f"n{i}", readings=False))
    return found


def random_known(seed: int, nodes: int, classes: int, *, least: int = 1) -> list[list[int]]:
    """Which classes each node has seen; each is seen by somebody, and all nodes are connected."""
    random = np.random.default_rng([seed, 3])
    known = []
    for i in range(nodes):
        count = int(random.integers(min(least, classes), classes + 1))
        mine = set(random.choice(classes, count, replace=False).tolist())
        if i > 0:
            mine.add(int(random.choice(known[int(random.integers(i))])))
        known.append(sorted(mine))
    seen = {k for mine in known for k in mine}
    known[0] = sorted({*known[0], *(set(range(classes)) - seen)})
    return known


def to_node(snapshot: Snapshot) -> Node:
    """What the oracle needs of a snapshot; prototypes of the first member."""
    features = sorted(snapshot.features, key=str)

    def vector(values: dict[Any, float]) -> list[float]:
        return [values[name] for name in features]

    return Node(
        counts={label: float(count) for label, count in snapshot.counts.items()},
        means={label: vector(values) for label, values in snapshot.means.items()},
        variances={
            label: [v * v for v in vector(values)] for label, values in snapshot.spreads.items()
        },
        prototypes={p.label: vector(p.values) for p in snapshot.prototypes},
    )


def copied(snapshot: Snapshot, node: str | None = None) -> Snapshot:
    """An independent one, to be changed."""
    return Snapshot(
        copy.deepcopy(snapshot.estimator_state()),
        snapshot.node if node is None else node,
        readings=snapshot.has_readings,
        created=snapshot.created_seconds,
    )


def arrays_of(snapshot: Snapshot) -> dict[str, Any]:
    """Its own arrays by their names in a file."""
    return to_arrays(snapshot.estimator_state())[0]


def first(model: Any) -> Any:
    """The model itself, or the first member of a committee."""
    return next(iter(model.parts.values())) if hasattr(model, "parts") else model


def bits(fused: Any) -> dict[str, bytes]:
    """All that a fusion gives to nodes."""
    return {name: fused.snapshot(name).to_bytes() for name in fused.nodes}
