"""Candidates of a pool: what the models of a fleet say, in the coordinates of one of its nodes.

A new kind of candidate is a class and a line in `streamlvq.registry.CANDIDATES`. Candidates are
named by their kind and the correction between sensors that they rely on: "fused none".
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

from streamlvq.arrays import Label
from streamlvq.estimator import EstimatorState, build_estimator
from streamlvq.fusion.fuse import FusionRun
from streamlvq.fusion.fused import Fused
from streamlvq.fusion.network import FusionNetwork, NetworkModels
from streamlvq.fusion.node_models import FusionError, unpack
from streamlvq.fusion.options import FusionOptions
from streamlvq.fusion.personal import StoredReadings, learnt_on
from streamlvq.fusion.receiver import without_harmful
from streamlvq.fusion.rounds import ROUNDS, SnapshotParticipant, in_process, rounds_after
from streamlvq.models.ensemble import NodeEnsemble
from streamlvq.registry import CANDIDATES
from streamlvq.snapshot import Snapshot
from streamlvq.wrappers import FeatureTransform

ENSEMBLE_MAX_NODES = 12  # of more nodes, asking every model would cost too much
SHADOW_TRANSFORM = "asinh"  # for numbers of any sign, logarithmic for large ones
ROUND_MAX_NODES = 16  # of more nodes, each is judged by itself, with the others as they are


@dataclass(frozen=True)
class FleetMoment:
    """Models of a fleet at one moment, the readings of some nodes, and classes that are hidden.

    A node is treated as if it had never learnt its hidden class: candidates for it are then judged
    by a class that the node can check.
    """

    snapshots: Mapping[str, Snapshot]
    readings: Mapping[str, StoredReadings]
    options: FusionOptions
    hidden: Mapping[str, Label]

    @functools.cached_property
    def _fused(self) -> dict[str, Fused]:
        return {}

    @functools.cached_property
    def _personal(self) -> dict[tuple[str, str], EstimatorState]:
        return {}

    @functools.cached_property
    def _rounds(self) -> dict[tuple[str, int], Fused]:
        return {}

    @functools.cached_property
    def _networks(self) -> dict[str, NetworkModels]:
        return {}

    @functools.cached_property
    def _transformed(self) -> dict[str, Fused]:
        return {}

    @functools.cached_property
    def _models(self) -> dict[str, Any]:
        return {}

    def model(self, node: str) -> Any:
        """Return the model of a node, for all who ask."""
        if node not in self._models:
            self._models[node] = _inner(self.snapshots[node].estimator_state())
        return self._models[node]

    def fused(self, correction: str) -> Fused:
        """Return the fusion by a correction."""
        if correction not in self._fused:
            self._fused[correction] = self._run(self.snapshots, correction)
        return self._fused[correction]

    def _prepared(
        self, snapshots: Mapping[str, Snapshot], correction: str, after: Fused | None = None
    ) -> FusionRun:
        nodes = unpack(snapshots[name] for name in sorted(snapshots))
        start = None if after is None else after.start
        return FusionRun(nodes, replace(self.options, drift=correction, after=start), self.hidden)

    def _run(self, snapshots: Mapping[str, Snapshot], correction: str) -> Fused:
        return self._prepared(snapshots, correction).run()

    def personal(self, correction: str, node: str) -> EstimatorState:
        """Return the fused model of a node after a pass over its readings."""
        key = correction, node
        if key not in self._personal:
            start = self.fused(correction).snapshot(node).estimator_state()
            self._personal[key] = learnt_on(start, self.known(node))
        return self._personal[key]

    def known(self, node: str) -> StoredReadings:
        """Return the readings of a node at hand, without those of its hidden class."""
        return self.readings[node].without([self.hidden[node]] if node in self.hidden else [])

    def after_rounds(self, correction: str, rounds: int) -> Fused:
        """Return the fusion after rounds of federated averaging over the readings at hand."""
        key = correction, rounds
        if key not in self._rounds:
            carrier = in_process(
                SnapshotParticipant(each, self.known(name)) for name, each in self.snapshots.items()
            )

            def again(answers: Iterable[Snapshot], after: Fused) -> Fused:
                return self._prepared(
                    {each.node: each for each in answers}, correction, after
                ).run()

            start = self.fused(correction)
            *_, last = rounds_after(start, self.snapshots, carrier, again, rounds=rounds)
            self._rounds[key] = last.fused
        return self._rounds[key]

    def network(self, correction: str) -> NetworkModels:
        """Return models of the nodes, each drawn to those of nodes that are alike."""
        if correction not in self._networks:
            run = self._prepared(self.snapshots, correction)
            self._networks[correction] = FusionNetwork.of(run).solve()
        return self._networks[correction]

    def transformed(self, correction: str) -> Fused:
        """Return the fusion of models that have learnt all stored readings through a transform."""
        if correction not in self._transformed:
            self._transformed[correction] = self._run(self._shadows, correction)
        return self._transformed[correction]

    @functools.cached_property
    def _shadows(self) -> dict[str, Snapshot]:
        """Models of all nodes' kinds that have learnt their stored readings through a transform."""
        found = {}
        for name, snapshot in self.snapshots.items():
            known = self.known(name)
            model = FeatureTransform(untrained(snapshot.estimator_state()), SHADOW_TRANSFORM)
            if len(known):
                model.learn_array(known.rows, known.labels, tuple(known.features), w=known.weights)
            found[name] = Snapshot.of(model, name, readings=False)
        return found


def untrained(state: EstimatorState) -> Any:
    """Return an untrained model with the parameters of the innermost one, and a fixed seed."""
    model = build_estimator(state.innermost)
    seeded = {"seed": 1} if getattr(model, "seed", 1) is None else {}
    return model.clone(seeded)


def class_shares(snapshots: Mapping[str, Snapshot], node: str) -> dict[Label, float]:
    """Return how frequent each class is at the other nodes: the mean of their shares.

    So no node moves it far, whatever counts it claims.
    """
    total: dict[Label, float] = {}
    others = 0
    for name in sorted(snapshots):
        counts = snapshots[name].counts
        learnt = sum(counts.values())
        if name == node or learnt <= 0:
            continue
        others += 1
        for label, count in counts.items():
            total[label] = total.get(label, 0.0) + count / learnt
    return {label: share / others for label, share in total.items()}


class Candidate(Protocol):
    """A kind of candidate."""

    needs_own_readings: ClassVar[bool]  # stored readings of the node itself
    needs_all_readings: ClassVar[bool]  # of all nodes
    max_nodes: ClassVar[int | None]  # fleets that are larger do without it
    automatic: ClassVar[bool]  # it is among the candidates if none are named

    def build(self, fleet: FleetMoment, correction: str, node: str) -> Any:
        """Return a classifier for the readings of a node as its model sees them."""
        ...


class FusedModel:
    """The fused model in the coordinates of the node."""

    needs_own_readings: ClassVar[bool] = False
    needs_all_readings: ClassVar[bool] = False
    max_nodes: ClassVar[int | None] = None
    automatic: ClassVar[bool] = True

    def build(self, fleet: FleetMoment, correction: str, node: str) -> Any:
        state = fleet.fused(correction).snapshot(node).estimator_state().innermost
        if node in fleet.readings:  # who has readings tests foreign prototypes on them
            state, _ = without_harmful(state, fleet.known(node))
        return build_estimator(state)


class PersonalModel:
    """The fused model after a pass over the node's own readings."""

    needs_own_readings: ClassVar[bool] = True
    needs_all_readings: ClassVar[bool] = False
    max_nodes: ClassVar[int | None] = None
    automatic: ClassVar[bool] = True

    def build(self, fleet: FleetMoment, correction: str, node: str) -> Any:
        return _inner(fleet.personal(correction, node))


class RoundModel:
    """The fused model after all nodes have made a pass over their readings, fused again."""

    needs_own_readings: ClassVar[bool] = True
    needs_all_readings: ClassVar[bool] = True
    max_nodes: ClassVar[int | None] = ROUND_MAX_NODES
    automatic: ClassVar[bool] = True
    rounds: ClassVar[int] = 1

    def build(self, fleet: FleetMoment, correction: str, node: str) -> Any:
        fused = fleet.after_rounds(correction, self.rounds)
        return _inner(fused.snapshot(node).estimator_state())


class SeveralRoundsModel(RoundModel):
    """The fused model after several such rounds: it gained no more than it cost."""

    automatic: ClassVar[bool] = False
    rounds: ClassVar[int] = ROUNDS


class NetworkModel:
    """The node's own model, drawn to those of the nodes that are alike: it gained too little."""

    needs_own_readings: ClassVar[bool] = False
    needs_all_readings: ClassVar[bool] = False
    max_nodes: ClassVar[int | None] = ROUND_MAX_NODES
    automatic: ClassVar[bool] = False

    def build(self, fleet: FleetMoment, correction: str, node: str) -> Any:
        return _inner(fleet.network(correction).snapshot(node).estimator_state())


class EnsembleOfNodes:
    """The mean opinion of all nodes' models, each asked in the coordinates of its own sensors."""

    needs_own_readings: ClassVar[bool] = False
    needs_all_readings: ClassVar[bool] = False
    max_nodes: ClassVar[int | None] = ENSEMBLE_MAX_NODES
    automatic: ClassVar[bool] = True

    def build(self, fleet: FleetMoment, correction: str, node: str) -> Any:
        fused = fleet.fused(correction)
        members = {}
        for name in fused.heard(node):
            gain, shift = fused.to_node(node, name)
            members[name] = (fleet.model(name), gain, shift)
        return NodeEnsemble(
            [model for model, _, _ in members.values()],
            [gain for _, gain, _ in members.values()],
            [shift for _, _, shift in members.values()],
            fused.features,
            [fleet.hidden.get(name) for name in members],
        )


class TransformedModel:
    """The fused model of nodes that learnt their stored readings through a logarithm.

    Sensors that differ by a gain then differ by a shift.
    """

    needs_own_readings: ClassVar[bool] = True
    needs_all_readings: ClassVar[bool] = True
    max_nodes: ClassVar[int | None] = ROUND_MAX_NODES
    automatic: ClassVar[bool] = False

    def build(self, fleet: FleetMoment, correction: str, node: str) -> Any:
        return build_estimator(fleet.transformed(correction).snapshot(node).estimator_state())


def _inner(state: EstimatorState) -> Any:
    """Return the model of a state without its transform: a pool is inside of that."""
    return build_estimator(state.innermost)


def automatic_kinds() -> list[str]:
    """Return the kinds of candidates that are built if none are named."""
    return [kind for kind in CANDIDATES.names if CANDIDATES[kind].automatic]


def candidate_names(
    corrections: Iterable[str],
    kinds: Sequence[str] | None,
    *,
    nodes: int,
    own_readings: bool,
    all_readings: bool,
) -> list[str]:
    """Return the candidates that can be built from what there is."""
    names = []
    corrections = list(corrections)
    for kind in automatic_kinds() if kinds is None else kinds:
        candidate: Candidate = CANDIDATES[kind]
        possible = (
            (own_readings or not candidate.needs_own_readings)
            and (all_readings or not candidate.needs_all_readings)
            and (candidate.max_nodes is None or nodes <= candidate.max_nodes)
        )
        if possible:
            names += [f"{kind} {correction}" for correction in corrections]
    return names


def build_candidate(name: str, fleet: FleetMoment, node: str) -> Any:
    """Return the candidate of this name for a node."""
    kind, _, correction = name.partition(" ")
    if kind not in CANDIDATES.names:
        raise FusionError(f"candidate: expected one of {', '.join(CANDIDATES.names)}, got {kind!r}")
    candidate: Candidate = CANDIDATES[kind]()
    return candidate.build(fleet, correction, node)
