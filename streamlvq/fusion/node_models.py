"""Models of nodes as their snapshots hold them, and which of them can be fused together."""

from __future__ import annotations

import hashlib
import statistics
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from streamlvq.arrays import Array, Label
from streamlvq.errors import StreamLVQError
from streamlvq.estimator import EstimatorState, estimator_class
from streamlvq.kernels import layout as at
from streamlvq.models.committee import shared_state
from streamlvq.models.engine import ARRAY_SECTIONS
from streamlvq.snapshot import Snapshot
from streamlvq.snapshot.state import COMMITTEE

TRANSFORM = "FeatureTransform"
MAX_FEATURES = 64  # of all nodes together: up to here none has to be left out


class FusionError(StreamLVQError, ValueError):
    """Snapshots that cannot be fused, or a question about a node that took no part."""


@dataclass(frozen=True)
class Model:
    """One model of a node; `arrays` is empty before its first reading."""

    state: EstimatorState
    arrays: Mapping[str, Array]
    features: list[Hashable]
    labels: list[Label]

    @property
    def type(self) -> str:
        return self.state.kind

    @property
    def sizes(self) -> Mapping[str, int] | None:
        """Its sizes and counters; None before its first reading."""
        sizes: Mapping[str, int] | None = self.state.extra["sizes"]
        return sizes

    @property
    def prototypes(self) -> int:
        return 0 if self.sizes is None else self.sizes["prototypes"]

    @property
    def samples(self) -> int:
        return 0 if self.sizes is None else self.sizes["samples"]


@dataclass(frozen=True)
class NodeModel:
    """Models of a node by the name of the committee member, "" without a committee."""

    node: str
    models: dict[str, Model]
    committee: EstimatorState | None
    fitted: Any  # the weights of its members, in each of its pools
    transform: EstimatorState | None  # what the readings went through before

    @property
    def kind(self) -> str:
        """Properties that must be equal in all nodes, as text."""
        types = [model.type for model in self.models.values()]
        name = types[0] if self.committee is None else f"{COMMITTEE}({', '.join(types)})"
        return name if self.transform is None else f"{name} of transformed features"

    @property
    def first(self) -> Model:
        """The model, or the first member of a committee: the learner, which forgets nothing."""
        return next(iter(self.models.values()))


def newest(snapshots: Iterable[Snapshot]) -> list[Snapshot]:
    """Return the newest snapshot of each node, in the order of their names."""
    by_node: dict[str, Snapshot] = {}
    for snapshot in snapshots:
        if not isinstance(snapshot, Snapshot):
            raise FusionError(f"expected snapshots, got {snapshot!r}")
        other = by_node.get(snapshot.node)
        if other is None or (snapshot is not other and _age(snapshot) > _age(other)):
            by_node[snapshot.node] = snapshot
    return [by_node[node] for node in sorted(by_node)]


def _age(snapshot: Snapshot) -> tuple[float, int, bytes]:
    """Return a sort key, larger for later snapshots; bytes break ties, so that all nodes agree."""
    created = snapshot.created_seconds
    samples = unpack([snapshot.without_pool()])[0].first.samples
    when = float("-inf") if created is None else created
    return when, samples, hashlib.sha256(snapshot.to_bytes()).digest()


def unpack(snapshots: Iterable[Snapshot]) -> list[NodeModel]:
    """Take snapshots apart without building what they describe; they were checked before."""
    return [_unpack(snapshot) for snapshot in snapshots]


def _unpack(snapshot: Snapshot) -> NodeModel:
    outermost = snapshot.estimator_state()
    committee = _shared(outermost.innermost) if outermost.innermost.kind == COMMITTEE else None
    states = {"": outermost.innermost} if committee is None else committee.parts
    models = {name: _model(state) for name, state in states.items()}
    fitted = None if committee is None else committee.arrays["fitted"]
    # A transform is the outermost wrapper; windows and thresholds are not fused.
    transform = outermost if outermost.kind == TRANSFORM else None
    return NodeModel(snapshot.node, models, committee, fitted, transform)


def _shared(committee: EstimatorState) -> EstimatorState:
    """Return the state of a committee without the members that nodes keep to themselves.

    Unchanged if all are of that kind: `check_compatible` refuses such a node, and it alone.
    """
    kinds = [part.kind for part in committee.parts.values()]
    return shared_state(committee) if any(map(_is_shareable, kinds)) else committee


def _is_shareable(kind: str) -> bool:
    shareable: bool = estimator_class(kind).shareable
    return shareable


def _model(state: EstimatorState) -> Model:
    """Return a model as fusion sees it: without traces of single readings, whoever sent it."""
    if _is_shareable(state.kind):
        state = estimator_class(state.kind).shared_state(state)
    return Model(state, state.arrays, state.extra["features"], state.extra["classes"])


def _function(node: NodeModel) -> tuple[Any, list[str]] | None:
    """Return the transform of a node, independent of the order of its features."""
    if node.transform is None:
        return None
    parameters = dict(node.transform.parameters)
    features = parameters.pop("features", None)
    return parameters, sorted(map(repr, [None] if features is None else ["named", *features]))


def group_compatible(snapshots: Iterable[Snapshot]) -> list[list[Snapshot]]:
    """Group snapshots that can be fused with each other, the largest group first.

    Nodes of a fleet may have models of different kinds; one that differs must not keep the others
    from being fused.
    """
    groups: list[tuple[NodeModel, list[Snapshot]]] = []
    for snapshot in sorted(snapshots, key=lambda each: each.node):
        (node,) = unpack([snapshot])
        for first, group in groups:
            if first.kind == node.kind and _function(first) == _function(node):
                group.append(snapshot)
                break
        else:
            groups.append((node, [snapshot]))
    return sorted((group for _, group in groups), key=len, reverse=True)


def check_compatible(nodes: list[NodeModel]) -> None:
    """Raise unless all nodes have models of the same kind."""
    if not nodes:
        raise FusionError("expected at least one snapshot, got none")
    for node in nodes:
        if not all(_is_shareable(model.type) for model in node.models.values()):
            raise FusionError(
                f"node {node.node!r}: expected models of prototypes, which have means and "
                f"metrics to combine, got a {node.kind}"
            )
    first = nodes[0]
    for other in nodes[1:]:
        if other.kind != first.kind:
            raise FusionError(
                f"expected models of one kind, got {first.kind} from node {first.node!r} and "
                f"{other.kind} from node {other.node!r}"
            )
        if _function(other) != _function(first):
            raise FusionError(
                f"expected the same transform of features everywhere, got another one from node "
                f"{other.node!r} than from node {first.node!r}"
            )


def without_lone_features(nodes: list[NodeModel]) -> tuple[list[NodeModel], dict[int, int]]:
    """Leave out features that only one node has, if there are too many features.

    A fused metric has a row and a column for each feature of any node. Return the nodes, and how
    many features each of them lost.
    """
    widths = sorted(len(node.first.features) for node in nodes)
    known = Counter(name for node in nodes for name in set(node.first.features))
    usual = widths[(len(widths) - 1) // 2]
    lone = {name for name, count in known.items() if count == 1}
    few = len(known) <= max(MAX_FEATURES, 2 * usual)
    if len(nodes) < 2 or few or not lone or len(lone) == len(known):
        return nodes, {}
    kept = [_without(node, lone) for node in nodes]
    lost = {i: len(lone.intersection(node.first.features)) for i, node in enumerate(nodes)}
    return kept, {i: count for i, count in lost.items() if count}


def _without(node: NodeModel, lone: set[Hashable]) -> NodeModel:
    if lone.isdisjoint(node.first.features):
        return node
    return replace(node, models={name: _narrow(m, lone) for name, m in node.models.items()})


def _narrow(model: Model, lone: set[Hashable]) -> Model:
    keep = [k for k, name in enumerate(model.features) if name not in lone]
    arrays = {
        name: array[..., keep] if ARRAY_SECTIONS[name].sizes[-1] == at.N_FEATURES else array
        for name, array in model.arrays.items()
        if name in ARRAY_SECTIONS
    }
    fixed = {name: array for name, array in model.arrays.items() if name not in ARRAY_SECTIONS}
    return replace(model, arrays=arrays | fixed, features=[model.features[k] for k in keep])


@dataclass(frozen=True)
class ModelLayout:
    """Common layout of the models of all nodes (or of one committee member)."""

    kind: int  # of metric, as `layout` numbers them
    local: bool  # a metric for each prototype
    rank: int  # rows of a metric
    standardize: bool
    floor: float  # of scales, as a share of the largest deviation
    absent: str  # what a feature means that a reading does not mention
    grown: int  # prototypes of a class that they may grow to

    @classmethod
    def of(cls, models: Sequence[Model], width: int, rank: str | int) -> ModelLayout:
        """Choose the layout that most nodes have, where they may differ.

        `width` is the number of features that they know together; `rank` is "keep" for the largest
        of any node, "full", or a number.
        """
        blank = estimator_class(models[0].type)
        given = [model.state.parameters for model in models]
        return cls(
            kind=blank.metric_kind(),
            local=blank.has_local_metrics(),
            rank=_rank(blank.metric_kind(), given, width, rank),
            standardize=2 * sum(bool(each["standardize"]) for each in given) >= len(given),
            floor=statistics.median_low(float(each["scale_floor"]) for each in given),
            absent=statistics.mode(str(each["absent"]) for each in given),
            grown=statistics.median_low(_grown(each) for each in given),
        )

    def parameters(self, given: Mapping[str, Any], width: int) -> dict[str, Any]:
        """Return the parameters of a node with those replaced that are common to all."""
        common: dict[str, Any] = {
            "standardize": self.standardize,
            "scale_floor": self.floor,
            "absent": self.absent,
        }
        if "rank" in given and min(given["rank"] or width, width) != min(self.rank, width):
            common["rank"] = self.rank
        return {**given, **common}


def _grown(given: Mapping[str, Any]) -> int:
    sizes = (given.get(name, 1) for name in ("prototypes_per_class", "max_prototypes_per_class"))
    return max(map(int, sizes))


def _rank(kind: int, given: list[Mapping[str, Any]], width: int, wanted: str | int) -> int:
    if kind != at.MATRIX:
        return 1 if kind == at.DIAGONAL else 0
    if wanted == "full":
        return width
    if wanted == "keep":
        return min(max(each["rank"] or width for each in given), width)
    return min(int(wanted), width)
