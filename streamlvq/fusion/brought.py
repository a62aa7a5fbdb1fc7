"""What a node brings: the models in its snapshot, as they lie in it."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any

from streamlvq.fusion.errors import FusionError
from streamlvq.models.array_classifier import Label
from streamlvq.snapshot import Snapshot
from streamlvq.snapshot.classifiers import MEMBERS, Arrays, Meta, split
from streamlvq.snapshot.tags import untag_all

TRANSFORM = "FeatureTransform"
COMMITTEE = "LVQCommittee"


@dataclass(frozen=True)
class Model:
    """One model of a node; `arrays` is empty before its first reading."""

    meta: Meta
    arrays: Arrays
    features: list[Hashable]
    labels: list[Label]

    @property
    def type(self) -> str:
        name: str = self.meta["type"]
        return name

    @property
    def samples(self) -> int:
        memory = self.meta["memory"]
        return 0 if memory is None else int(memory["samples"])


@dataclass(frozen=True)
class Brought:
    """The models of a node by the name of the member, "" if there is no committee around them."""

    node: str
    models: dict[str, Model]
    committee: Meta | None  # its metadata
    fitted: Any  # and its weights
    transform: Meta | None  # what the readings went through before

    @property
    def kind(self) -> str:
        """What must be the same in all nodes, in words."""
        types = [model.type for model in self.models.values()]
        name = types[0] if self.committee is None else f"{COMMITTEE}({', '.join(types)})"
        return name if self.transform is None else f"{name} of transformed features"

    @property
    def first(self) -> Model:
        """Of a committee the learner: it forgets nothing."""
        return next(iter(self.models.values()))


def newest(snapshots: Iterable[Snapshot]) -> list[Snapshot]:
    """One snapshot of each node, in the order of their names, whatever order they come in."""
    by_node: dict[str, Snapshot] = {}
    for snapshot in snapshots:
        if not isinstance(snapshot, Snapshot):
            raise FusionError(f"expected snapshots, got {snapshot!r}")
        other = by_node.get(snapshot.node)
        if other is None or (snapshot is not other and _age(snapshot) > _age(other)):
            by_node[snapshot.node] = snapshot
    return [by_node[node] for node in sorted(by_node)]


def _age(snapshot: Snapshot) -> tuple[float, int, bytes]:
    """Later is larger; if time and samples do not tell, the bytes decide, so that all agree."""
    created = snapshot._file.created
    samples = unpack(snapshot).first.samples
    when = float("-inf") if created is None else created
    return when, samples, hashlib.sha256(snapshot.to_bytes()).digest()


def unpack(snapshot: Snapshot) -> Brought:
    """Take a snapshot apart without building what it describes; its arrays were checked before."""
    meta, arrays = snapshot._file.classifier, snapshot._arrays
    transform: Meta | None = None
    while "classifier" in meta:
        if meta["type"] == TRANSFORM:
            transform = {k: v for k, v in meta.items() if k != "classifier"}
        arrays = split(arrays, ("classifier",))[1]["classifier"]
        meta = meta["classifier"]
    if meta["type"] != COMMITTEE:
        return Brought(snapshot.node, {"": _model(meta, arrays)}, None, None, transform)
    own, parts = split(arrays, MEMBERS)
    models = {name: _model(meta["members"][name], parts[name]) for name in MEMBERS}
    return Brought(snapshot.node, models, meta, own["fitted"], transform)


def _model(meta: Meta, arrays: Arrays) -> Model:
    features = untag_all(meta["features"], "feature")
    return Model(meta, arrays, features, untag_all(meta["labels"], "label"))


def agree(nodes: list[Brought]) -> None:
    """Raise unless all nodes have models of the same kind."""
    if not nodes:
        raise FusionError("expected at least one snapshot, got none")
    first = nodes[0]
    for other in nodes[1:]:
        if other.kind != first.kind:
            raise FusionError(
                f"expected models of one kind, got {first.kind} from node {first.node!r} and "
                f"{other.kind} from node {other.node!r}"
            )
        if other.transform != first.transform:
            raise FusionError(
                f"expected the same transform of features everywhere, got another one from node "
                f"{other.node!r} than from node {first.node!r}"
            )
