"""Rounds of federated averaging: fuse, let every node learn from the result, fuse again.

A hub publishes round r: the model fused so far, for each node in its own coordinates. Each node
makes passes over its stored readings in a shadow learner and returns that with its own class
statistics (FedAvg; with a proximal pull, FedProx). What comes back is fused as snapshots ever are.
A node that does not answer counts as one that has learnt nothing in this round.

Who carries rounds to nodes and answers back is a `Carrier`: `in_process` over snapshots that hold
readings, or any other transport.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from streamlvq.fusion.fuse import fuse
from streamlvq.fusion.fused import Fused
from streamlvq.fusion.node_models import FusionError, Model, newest, unpack
from streamlvq.fusion.personal import (
    StoredReadings,
    local_passes,
    stored_readings,
    with_own_statistics,
)
from streamlvq.snapshot import Snapshot

ROUNDS = 5
PASSES = 1
PULL = 0.0


@dataclass(frozen=True)
class Round:
    """What one node is asked in a round: learn from `start`, in the coordinates of its sensors."""

    number: int  # from 1
    start: Snapshot
    passes: int = PASSES
    pull: float = PULL


class Participant(Protocol):
    """A node that takes part in rounds."""

    @property
    def node(self) -> str:
        """Name of the node."""

    def answer(self, asked: Round) -> Snapshot:
        """Return the start after passes over stored readings, with the node's own statistics."""


class Carrier(Protocol):
    """A transport of rounds: takes what each node is asked, returns the answers in any order.

    Answers of some nodes may be missing. What cannot be fused is ignored.
    """

    def __call__(self, asked: Mapping[str, Round]) -> Iterable[Snapshot]: ...


# --- nodes in this process ------------------------------------------------------------------------


class SnapshotParticipant:
    """A node as its snapshot holds it, with the readings that it has stored or that are given."""

    def __init__(self, snapshot: Snapshot, readings: StoredReadings | None = None) -> None:
        if readings is None:
            readings = stored_readings(snapshot.estimator_state())
        self.readings: StoredReadings = readings
        self._snapshot = snapshot

    @property
    def node(self) -> str:
        """Name of the node."""
        return self._snapshot.node

    def answer(self, asked: Round) -> Snapshot:
        """Return the start after passes over stored readings, with the node's own statistics."""
        learnt = local_passes(
            asked.start.estimator_state(),
            self.readings,
            passes=asked.passes,
            pull=asked.pull,
            seed=asked.number,
        )
        return _with_statistics(learnt, self._snapshot)


def _with_statistics(state: Any, own: Snapshot) -> Snapshot:
    return Snapshot(with_own_statistics(state, own.estimator_state()), own.node, readings=False)


def in_process(participants: Iterable[Participant]) -> Carrier:
    """Return a carrier to nodes in this process; who is not asked does nothing."""
    by_node = {each.node: each for each in participants}

    def carry(asked: Mapping[str, Round]) -> Iterator[Snapshot]:
        for node, task in asked.items():
            if node in by_node:
                yield by_node[node].answer(task)

    return carry


def participants_of(snapshots: Iterable[Snapshot]) -> list[SnapshotParticipant]:
    """Return the nodes of snapshots that hold readings; raises `FusionError` if one holds none."""
    found = [SnapshotParticipant(snapshot) for snapshot in snapshots if snapshot.samples]
    without = [each.node for each in found if not len(each.readings)]
    if without:
        raise FusionError(
            f"rounds: expected snapshots that hold the readings that nodes have stored, got none "
            f"from {', '.join(map(repr, without[:9]))}: take Snapshot.of(model, node, "
            "readings=True), or the state folder of the daemon, of a model with `rehearsal` above 0"
        )
    return found


# --- rounds ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RoundResult:
    """What came of a round: the models fused from its answers, and who gave none."""

    number: int  # 0 for what was fused before the first round
    fused: Fused
    answered: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    ignored: Mapping[str, str] = field(default_factory=dict)  # whose answers, and why


def fuse_rounds(
    snapshots: Iterable[Snapshot],
    *,
    rounds: int = ROUNDS,
    passes: int = PASSES,
    pull: float = PULL,
    carrier: Carrier | None = None,
    **options: Any,
) -> Fused:
    """Fuse the models of many nodes, then improve the result in rounds of federated averaging.

    Parameters
    ----------
    snapshots
        As for `fuse`. Without a carrier they must hold the readings that nodes have stored.
    rounds
        How many; 0 is `fuse`.
    passes
        Over its stored readings that each node makes in a round.
    pull
        Towards the model of the round, see `streamlvq.fusion.personal.local_passes`; 0 is FedAvg.
    carrier
        Who asks the nodes; by default they are played by their snapshots.
    options
        Of `fuse`, which combines the answers of every round. If nodes differ and have few readings
        each, try `budget=1`: growing models then start from one prototype per class.

    Examples
    --------

    >>> from streamlvq import GLVQ, Snapshot
    >>> from streamlvq.fusion import fuse_rounds

    >>> nodes = []
    >>> for name, shift in {"a": 0.0, "b": 2.0, "c": -1.0}.items():
    ...     model = GLVQ()
    ...     for k in range(20):
    ...         for y, x in {"ham": 1.0, "spam": 4.0, "egg": 7.0}.items():
    ...             model.learn_one({"x": x + k % 5 / 10 + shift}, y)
    ...     nodes.append(Snapshot.of(model, name))
    >>> fuse_rounds(nodes, rounds=3).for_node("b").predict_one({"x": 9.0})
    'egg'

    References
    ----------
    - McMahan, B., et al. (2017). Communication-efficient learning of deep networks from
      decentralized data. AISTATS.
    - Li, T., et al. (2020). Federated optimization in heterogeneous networks. MLSys.

    """
    *_, last = run_rounds(
        snapshots, rounds=rounds, passes=passes, pull=pull, carrier=carrier, **options
    )
    return last.fused


def run_rounds(
    snapshots: Iterable[Snapshot],
    *,
    rounds: int = ROUNDS,
    passes: int = PASSES,
    pull: float = PULL,
    carrier: Carrier | None = None,
    **options: Any,
) -> Iterator[RoundResult]:
    """Yield what was fused before the first round, then what came of each, see `fuse_rounds`."""
    _check("rounds", rounds, least=0)
    _check("passes", passes, least=1)
    _check_pull(pull)
    nodes = {snapshot.node: snapshot for snapshot in newest(snapshots)}
    if carrier is None:
        carrier = in_process(participants_of(nodes.values()) if rounds else ())
    fused = fuse(nodes.values(), **options)
    yield RoundResult(0, fused)

    def again(answers: Iterable[Snapshot], after: Fused) -> Fused:
        return fuse(answers, after=after, **options)

    yield from rounds_after(fused, nodes, carrier, again, rounds=rounds, passes=passes, pull=pull)


def rounds_after(
    fused: Fused,
    nodes: Mapping[str, Snapshot],
    carrier: Carrier,
    fuse_again: Callable[[Iterable[Snapshot], Fused], Fused],
    *,
    rounds: int = ROUNDS,
    passes: int = PASSES,
    pull: float = PULL,
) -> Iterator[RoundResult]:
    """Yield what comes of each round after a fusion; `fuse_again` fuses the answers of all nodes.

    It is given what was fused before as well: prototypes stay the same that were the same then.
    """
    for number in range(1, rounds + 1):
        asked = {
            node: Round(number, fused.snapshot(node, private=False), passes, pull)
            for node, own in nodes.items()
            if own.samples
        }
        found, ignored = accepted(carrier(asked), asked)
        # Statistics are those that were vetted, whatever a node sends in a round.
        answers = {
            node: _with_statistics(answer.estimator_state(), nodes[node])
            for node, answer in found.items()
        }
        silent = {
            node: _with_statistics(asked[node].start.estimator_state(), own) if own.samples else own
            for node, own in nodes.items()
            if node not in answers
        }
        own, pool = fused.own, fused.pool
        fused = fuse_again([*answers.values(), *silent.values()], fused)
        # Who is left out decides with its own model, not with an answer; pools judge by readings.
        fused.own, fused.pool = own, pool
        missing = tuple(node for node in asked if node not in answers)
        yield RoundResult(number, fused, tuple(answers), missing, ignored)


def accepted(
    returned: Iterable[Snapshot], asked: Mapping[str, Round]
) -> tuple[dict[str, Snapshot], dict[str, str]]:
    """Return the answers that can be fused, in the order of nodes, and why others cannot.

    Their senders may be hostile: an answer must be the model that was sent, moved.
    """
    answers: list[Snapshot] = []
    ignored: dict[str, str] = {}
    for answer in returned:
        if answer.node not in asked:
            ignored[answer.node] = "it was not asked"
        elif _structure(answer) != _structure(asked[answer.node].start):
            ignored[answer.node] = "expected the model that was sent, moved, got another model"
        else:
            answers.append(answer)
    return {answer.node: answer for answer in newest(answers)}, dict(sorted(ignored.items()))


def _structure(snapshot: Snapshot) -> list[Any]:
    """Return what passes over readings leave as it is: kinds, features, classes, prototypes."""
    (node,) = unpack([snapshot])
    committee = None if node.committee is None else node.committee.parameters["absent"]
    transform = None if node.transform is None else node.transform.parameters
    models = [
        (name, model.type, model.features, model.labels, _labels(model))
        for name, model in node.models.items()
    ]
    return [committee, transform, *models]


def _labels(model: Model) -> list[int]:
    """Return the class of each prototype; none before the first reading."""
    labels: list[int] = model.arrays["label"].tolist() if "label" in model.arrays else []
    return labels


def _check(name: str, value: Any, *, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise FusionError(f"{name}: expected a whole number of at least {least}, got {value!r}")


def _check_pull(pull: Any) -> None:
    number = isinstance(pull, (int, float)) and not isinstance(pull, bool)
    if not number or not 0.0 <= pull < math.inf:
        raise FusionError(f"pull: expected a number of at least 0, got {pull!r}")
