"""Cross-fitting: candidates of a pool judged on stored readings that they have not learnt.

The stored readings of a node are learnt anew, block by block, by a shadow of its model. Before each
block all candidates are made as they would have been then, and say what they think of it. Nodes
whose readings are not at hand take part as they are: they have never seen these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from streamlvq.arrays import Floats, Label
from streamlvq.errors import StreamLVQError
from streamlvq.fusion.candidates import FleetMoment, build_candidate, class_shares, untrained
from streamlvq.fusion.options import FusionOptions
from streamlvq.fusion.personal import StoredReadings
from streamlvq.fusion.weights import OpinionRecords
from streamlvq.models.pool import opinions_of, unseen_offsets
from streamlvq.snapshot import Snapshot

BLOCKS = 4  # of stored readings; all but the first are judged
HIDDEN_CLASSES = 3  # per node and block: each is hidden once, to judge candidates by it
MIN_HELD = 2  # classes that a node must have for one to be hidden


@dataclass(frozen=True)
class NodeRecords:
    """Records of a node as served, and with one of its classes hidden at a time."""

    own: tuple[OpinionRecords, ...] = ()
    hidden: tuple[OpinionRecords, ...] = ()

    def all(self, names: Sequence[str]) -> OpinionRecords | None:
        """Return all records for some candidates; None if there are none."""
        parts = [each.only(names) for each in (*self.own, *self.hidden)]
        return OpinionRecords.joined(parts) if parts else None

    def served(self, names: Sequence[str]) -> OpinionRecords | None:
        """Return the records without hidden classes; None if there are none."""
        parts = [each.only(names) for each in self.own]
        return OpinionRecords.joined(parts) if parts else None


class CrossFit:
    """Records of every node whose stored readings are at hand."""

    def __init__(
        self,
        snapshots: Mapping[str, Snapshot],
        readings: Mapping[str, StoredReadings],
        options: FusionOptions,
        labels: Sequence[Label],
        names: Sequence[str],
    ) -> None:
        self.snapshots, self.readings, self.options = dict(snapshots), dict(readings), options
        self.labels, self.names = list(labels), list(names)
        self._among = {label: k for k, label in enumerate(self.labels)}

    def run(self) -> dict[str, NodeRecords]:
        """Learn block by block and return what candidates thought of the next one."""
        nodes = list(self.readings)
        shadows = {node: untrained(self.snapshots[node].estimator_state()) for node in nodes}
        parts = {node: _blocks(self.readings[node]) for node in nodes}
        own: dict[str, list[OpinionRecords]] = {node: [] for node in nodes}
        hidden: dict[str, list[OpinionRecords]] = {node: [] for node in nodes}
        for b in range(BLOCKS - 1):
            for node in nodes:
                _learn(shadows[node], parts[node][b])
            known = {node: _joined(parts[node][: b + 1]) for node in nodes}
            following = {node: parts[node][b + 1] for node in nodes}
            self._judge(shadows, known, following, own, hidden)
        return {node: NodeRecords(tuple(own[node]), tuple(hidden[node])) for node in nodes}

    def _judge(
        self,
        shadows: Mapping[str, Any],
        known: Mapping[str, StoredReadings],
        following: Mapping[str, StoredReadings],
        own: Mapping[str, list[OpinionRecords]],
        hidden: Mapping[str, list[OpinionRecords]],
    ) -> None:
        """Add what candidates made of `known` readings think of those that follow."""
        snapshots = dict(self.snapshots)
        for node, shadow in shadows.items():
            if shadow.classes:
                snapshots[node] = Snapshot.of(shadow, node, readings=False)
        for turn in range(-1, HIDDEN_CLASSES):
            away = {} if turn < 0 else _hidden_classes(snapshots, turn)
            if turn >= 0 and not away.keys() & shadows.keys():
                continue
            moment = FleetMoment(snapshots, known, self.options, away)
            for node, shadow in shadows.items():
                block = following[node]
                if not len(block) or not shadow.classes or (turn >= 0 and node not in away):
                    continue
                records = self._records(moment, node, shadow, block)
                if records is not None:
                    (own if turn < 0 else hidden)[node].append(records)

    def _records(
        self, moment: FleetMoment, node: str, shadow: Any, block: StoredReadings
    ) -> OpinionRecords | None:
        try:
            models = [build_candidate(name, moment, node) for name in self.names]
        except StreamLVQError:  # with so few readings there may be nothing to fuse yet
            return None
        opinions, held = opinions_of(
            [*models, shadow], self._among, block.rows, tuple(block.features)
        )
        codes = np.array([self._among[label] for label in block.labels], np.int64)
        unseen = unseen_offsets(self.labels, class_shares(moment.snapshots, node))
        if node not in moment.hidden:
            return OpinionRecords.of(self.names, opinions, codes, held, unseen)
        away = self._among[moment.hidden[node]]
        lacking = ~held
        held = held.copy()
        held[away] = False
        opinions[-1] = _without(opinions[-1], away)
        return OpinionRecords.of(self.names, opinions, codes, held, unseen, lacking)


def _without(opinions: Floats, column: int) -> Floats:
    """Return probabilities as if a class did not exist."""
    out = opinions.copy()
    out[:, column] = np.nan
    total = np.nansum(out, axis=1, keepdims=True)
    rest: Floats = out / np.where(total > 0, total, 1.0)
    return rest


def _hidden_classes(snapshots: Mapping[str, Snapshot], turn: int) -> dict[str, Label]:
    """Return the class that each node hides in a turn: another one each turn, and node by node."""
    away: dict[str, Label] = {}
    for i, name in enumerate(sorted(snapshots)):
        held = sorted(snapshots[name].labels, key=repr)
        if len(held) >= MIN_HELD and turn < len(held):
            away[name] = held[(i + turn) % len(held)]
    return away


def _blocks(readings: StoredReadings) -> list[StoredReadings]:
    """Cut readings into blocks of about equal size, between runs of equal labels if they allow."""
    count = len(readings)
    changes = [k for k in range(1, count) if readings.labels[k] != readings.labels[k - 1]]
    cuts = [0]
    for b in range(1, BLOCKS):
        wanted = count * b // BLOCKS
        near = min(changes, key=lambda k: abs(k - wanted), default=wanted)
        cuts.append(max(cuts[-1], near))
    return [_part(readings, slice(i, j)) for i, j in zip(cuts, [*cuts[1:], count], strict=True)]


def _part(readings: StoredReadings, rows: slice) -> StoredReadings:
    return replace(
        readings,
        rows=readings.rows[rows],
        labels=readings.labels[rows],
        weights=readings.weights[rows],
    )


def _joined(parts: Sequence[StoredReadings]) -> StoredReadings:
    return replace(
        parts[0],
        rows=np.concatenate([each.rows for each in parts]),
        labels=[label for each in parts for label in each.labels],
        weights=np.concatenate([each.weights for each in parts]),
    )


def _learn(model: Any, readings: StoredReadings) -> None:
    if len(readings):
        model.learn_array(readings.rows, readings.labels, tuple(readings.features))
