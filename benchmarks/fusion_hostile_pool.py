"""Hostile nodes against nodes that pool their own model with candidates of the fleet.

The attacks of `fusion_hostile`, against three ways to decide: the fused model alone, the pool where
snapshots hold readings, and the pool on the wire, where each node has its own readings only. And
nodes that lie about the weights of their pool.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import streamlvq
from common import Figure, Table, figure_table, progress
from fusion_fleets import Floats, Labels, Node, accuracy
from fusion_hostile import (
    ATTACKS,
    COLLUDERS_IN,
    COLLUDING,
    DOORS,
    FLEETS,
    GONE,
    MOST_LOST,
    MOST_TURNED,
    Attack,
    BackDoor,
    Served,
    Target,
    prototype_of_a_back_door,
    remarks,
)
from streamlvq.fusion import fuse
from streamlvq.models.pool import MAX_UNSEEN, MAX_WEIGHT, PoolWeights
from streamlvq.snapshot import Snapshot

WAYS = ("fused", "pool", "wire")
WIRE_NODES = 2  # whose pools on the wire are made: each fits its own weights, which takes a while
MAX_LEARNT, MAX_TESTED = 400, 1000  # readings of a node
TRIED = (  # one of each kind: what is left out altogether is left out of pools as well
    "labels flipped",
    "labels flipped, counts x 1e6",
    "prototypes x 10",
    "means 10 away",
    "means 1e3 away, scales to fit",
    "means 9e59 away",
    "metric x .01",
    "back door",
    "back door by labels",
)
# Each of these for every candidate in turn would be less than all of them at once.
LIES: dict[str, tuple[float, float, float]] = {  # candidates, local, unseen
    "candidates alone": (MAX_WEIGHT, 0.0, MAX_UNSEEN),
    "local alone": (1e-9, MAX_WEIGHT, -MAX_UNSEEN),
    "unseen classes": (1e-9, 0.0, MAX_UNSEEN),
    "never unseen classes": (MAX_WEIGHT, MAX_WEIGHT, -MAX_UNSEEN),
}


@dataclass(frozen=True)
class Cell:
    """Accuracy of honest nodes by one way to decide, and triggered readings turned."""

    accuracy: float
    turned: float


class PoolFleet:
    """A fleet that learnt in one pass, as nodes do, and what decides at honest nodes."""

    def __init__(self, nodes: list[Node], model: str) -> None:
        self.nodes, self.model = [_shortened(node) for node in nodes], model
        nodes = self.nodes
        self.local = {node.name: self.learn(node.X, node.y) for node in nodes}
        self.full = [Snapshot.of(self.local[node.name], node.name) for node in nodes]
        self.fused = fuse(self.full)
        self.door = BackDoor.of(self.fused, nodes)

    def learn(self, X: Floats, y: Labels) -> Any:
        model = getattr(streamlvq, self.model)()
        model.learn_array(X, y.tolist())
        return model

    def attacked(self, attack: Attack | None, liars: Sequence[int]) -> list[Snapshot]:
        """Return all snapshots, with readings, those of liars attacked; without them if None."""
        given = dict(enumerate(self.full))
        for k in liars:
            node = self.nodes[k]
            if attack is None:
                del given[k]
                continue
            target = Target(node, self.local[node.name], self.learn, self.door)
            given[k] = Snapshot.from_bytes(Snapshot.of(attack(target), node.name).to_bytes())
        return list(given.values())

    def outcome(
        self, given: Sequence[Snapshot], liars: Sequence[int]
    ) -> tuple[dict[str, Cell], float]:
        """Return what each way to decide makes of snapshots, and the share of liars named."""
        honest = [node for k, node in enumerate(self.nodes) if k not in liars]
        fused, wire = fuse(given), fuse(without_readings(given))
        served: dict[str, tuple[Served, list[Node]]] = {
            "fused": (wire.for_node, honest),
            "pool": (lambda name: fused.for_node(name, self.local[name]), honest),
            "wire": (lambda name: wire.for_node(name, self.local[name]), honest[:WIRE_NODES]),
        }
        names = [self.nodes[k].name for k in liars if self.nodes[k].name in wire.nodes]
        named = [bool(remarks(wire, name) - remarks(self.fused, name)) for name in names]
        cells = {way: self._cell(*choice) for way, choice in served.items()}
        return cells, float(np.mean(named)) if named else 0.0

    def _cell(self, served: Served, nodes: list[Node]) -> Cell:
        models = {node.name: served(node.name) for node in nodes}
        scores = [accuracy(models[node.name], node.test_X, node.test_y) for node in nodes]
        return Cell(float(np.mean(scores)), self.door.turned(models.__getitem__, nodes))


def _shortened(node: Node) -> Node:
    return Node(
        node.name, node.X[:MAX_LEARNT], node.y[:MAX_LEARNT],
        node.test_X[:MAX_TESTED], node.test_y[:MAX_TESTED],
    )  # fmt: skip


def without_readings(given: Sequence[Snapshot]) -> list[Snapshot]:
    """Return snapshots as they travel."""
    return [Snapshot.of(each.classifier(), each.node, readings=False) for each in given]


# --- lies about weights ---------------------------------------------------------------------------


def lies_about_weights(fleet: PoolFleet, liar: int) -> dict[tuple[str, str], float]:
    """Return the accuracy of honest nodes by lie, with their own readings and without any.

    Every node publishes the weights that it has fitted with its own readings.
    """
    wire = fuse(without_readings(fleet.full))
    pools = {name: wire.for_node(name, local) for name, local in fleet.local.items()}
    given = [Snapshot.of(pool, name, readings=False) for name, pool in pools.items()]
    weights = given[liar].pool_weights
    assert weights is not None
    found = {("honest", way): score for way, score in _decided(fleet, given, liar).items()}
    for name, (others, local, unseen) in LIES.items():
        told = PoolWeights(dict.fromkeys(weights.candidates, others), local, unseen)
        lied = list(given)
        lied[liar] = Snapshot(
            given[liar].estimator_state(), given[liar].node, readings=False, weights=told
        )
        found |= {(name, way): score for way, score in _decided(fleet, lied, liar).items()}
    return found


def _decided(fleet: PoolFleet, given: Sequence[Snapshot], liar: int) -> dict[str, float]:
    fused = fuse(given)
    honest = [node for k, node in enumerate(fleet.nodes) if k != liar]
    blank = {
        node.name: Snapshot.of(fleet.local[node.name], node.name, readings=False).classifier()
        for node in honest
    }

    def mean(nodes: Sequence[Node], local: dict[str, Any]) -> float:
        pools = ((node, fused.for_node(node.name, local[node.name])) for node in nodes)
        return float(np.mean([accuracy(pool, n.test_X, n.test_y) for n, pool in pools]))

    return {
        "own readings": mean(honest[:WIRE_NODES], fleet.local),
        "no readings": mean(honest, blank),
    }


# --- the study ------------------------------------------------------------------------------------


def hostile_pool(
    data: list[str] | None = None, models: Sequence[str] = ("GMLVQ", "LGMLVQ"), seeds: int = 1
) -> Iterator[Table]:
    """Tabulate each fleet; thresholds of vetting were chosen on segment and spectra alone."""
    figures = []
    for name in data or list(FLEETS):
        for model in models:
            title = f"{name}, {model}"
            fleets = [
                PoolFleet(FLEETS[name](seed, 5), model)
                for seed in progress(range(1, seeds + 1), title, seeds)
            ]
            found = _mean([_attacks(fleet, name, seed) for seed, fleet in enumerate(fleets, 1)])
            yield attack_table(title, found)
            figures += _figures(title, found)
            lies = [lies_about_weights(fleet, seed % len(fleet.nodes))
                    for seed, fleet in enumerate(fleets, 1)]  # fmt: skip
            mean = {key: float(np.mean([run[key] for run in lies])) for key in lies[0]}
            yield lie_table(title, mean)
            figures += _lie_figures(title, mean)
    yield figure_table(figures, "Hostile nodes and pools")


Found = dict[str, tuple[dict[str, Cell], dict[str, Cell], float]]  # before, after, named


def _attacks(fleet: PoolFleet, name: str, seed: int) -> Found:
    liars = [seed % len(fleet.nodes)]
    before, _ = fleet.outcome(fleet.full, liars)
    found: Found = {}
    for attack in (GONE, *TRIED):
        given = fleet.attacked(ATTACKS.get(attack), liars)
        found[attack] = (before, *fleet.outcome(given, liars))
    if name in COLLUDERS_IN:
        eight = PoolFleet(FLEETS[name](seed, 8), fleet.model)
        pair = [seed % 8, (seed + 3) % 8]
        before, _ = eight.outcome(eight.full, pair)
        given = eight.attacked(prototype_of_a_back_door, pair)
        found[COLLUDING] = (before, *eight.outcome(given, pair))
    return found


def _mean(runs: Sequence[Found]) -> Found:
    return {
        attack: (
            _mean_cells([run[attack][0] for run in runs]),
            _mean_cells([run[attack][1] for run in runs]),
            float(np.mean([run[attack][2] for run in runs])),
        )
        for attack in runs[0]
    }


def _mean_cells(cells: Sequence[dict[str, Cell]]) -> dict[str, Cell]:
    return {
        way: Cell(
            float(np.mean([each[way].accuracy for each in cells])),
            float(np.mean([each[way].turned for each in cells])),
        )
        for way in WAYS
    }


def attack_table(title: str, found: Found) -> Table:
    columns = ["attack", "named", *(cell for way in WAYS for cell in (way, "lost", "turned"))]
    table = Table(f"{title}: one hostile node", columns)
    for attack, (before, after, named) in found.items():
        cells: list[str] = []
        for way in WAYS:
            door = attack in (*DOORS, COLLUDING)
            cells += [f"{after[way].accuracy:.3f}", f"{_lost(before, after, way):+.3f}",
                      f"{after[way].turned:.2f}" if door else "-"]  # fmt: skip
        table.add(attack, "-" if attack == GONE else f"{named:.0%}", *cells)
    return table


def _lost(before: dict[str, Cell], after: dict[str, Cell], way: str) -> float:
    return before[way].accuracy - after[way].accuracy


def _figures(title: str, found: Found) -> Iterator[Figure]:
    for way in WAYS:
        lost = {attack: _lost(*found[attack][:2], way) for attack in TRIED}
        worst = max(lost, key=lambda attack: lost[attack])
        yield Figure(f"{title}, {way}: loses at most ({worst})", lost[worst], MOST_LOST)
        beyond = lost[worst] - max(0.0, _lost(*found[GONE][:2], way))
        yield Figure(f"{title}, {way}: beyond what taking it away costs", beyond, MOST_LOST)
        turned = max(found[attack][1][way].turned for attack in DOORS)
        yield Figure(f"{title}, {way}: triggered readings turned", turned, MOST_TURNED)
    silent = [attack for attack in TRIED if found[attack][2] < 1.0]
    yield Figure(f"{title}: attacks unnamed ({', '.join(silent) or 'none'})", len(silent), 0)


def lie_table(title: str, found: dict[tuple[str, str], float]) -> Table:
    ways = ("own readings", "no readings")
    table = Table(f"{title}: weights of one node", ["lie", *(c for w in ways for c in (w, "lost"))])
    for lie in ("honest", *LIES):
        cells = []
        for way in ways:
            lost = found["honest", way] - found[lie, way]
            cells += [f"{found[lie, way]:.3f}", f"{lost:+.3f}"]
        table.add(lie, *cells)
    return table


def _lie_figures(title: str, found: dict[tuple[str, str], float]) -> Iterator[Figure]:
    for way in ("own readings", "no readings"):
        lost = max(found["honest", way] - found[lie, way] for lie in LIES)
        yield Figure(f"{title}, {way}: lies about weights cost at most", lost, MOST_LOST)
