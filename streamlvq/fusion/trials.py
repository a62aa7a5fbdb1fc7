"""Trials of corrections: which of them suits a fleet, judged by classes that nodes do without.

Some nodes hide a class each. Everything is corrected and fused without it, as if these nodes had
never seen it, and what results is asked about probes of all classes that they do have. So a
correction is judged by what it is for, also where there are snapshots and no readings. Where all
answer alike, because classes are easy or their means say nothing, it is judged by where it puts the
means of hidden classes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from streamlvq.arrays import Bools, Floats, Ints
from streamlvq.fusion.aggregators import assumed_byzantine
from streamlvq.fusion.class_tables import ClassTables
from streamlvq.fusion.corrections import UNCORRECTED, Correction, get_correction
from streamlvq.fusion.draws import class_deviations, class_probes
from streamlvq.fusion.screening import class_centres
from streamlvq.fusion.sharing import components
from streamlvq.kernels.layout import LARGEST_VALUE

TRIAL_MAX_NODES = 10  # that are fused in trials; more would hardly change the answer
MAX_CLASSES = 32  # of a node that it is asked about
TURNS = 3  # in each of which a node hides another class
TRIAL_PROBES_PER_CLASS = 16
CLEAR_LOSS = 0.02  # nats: a more complicated correction must be better by more
SMALL_ERROR = 0.5  # deviations of a hidden class mean: if losses are alike, this is near enough
CLEAR_RATIO = 0.5  # of errors: if losses are alike, a more complicated correction must halve them
LEAST_PROBABILITY = 1e-3  # of the right class, as losses count it: one probe must not decide
TRIED_TEMPERATURES = 2.0 ** np.arange(-5.0, 4.0)
NEAR_TEMPERATURES = 2.0 ** np.arange(-0.75, 1.0, 0.25)  # times the best of these
UNTESTABLE = "no correction: to test one, nodes must share at least two classes, and these do not"


class DriftChoice(NamedTuple):
    """The loss of each correction that was tried, the one that was chosen, and why."""

    losses: dict[str, float]
    drift: str
    why: str


@dataclass(frozen=True)
class Turn:
    """One turn of a trial: nodes that are fused, the class that some of them hide, and probes."""

    nodes: Ints
    hidden: dict[int, int]  # by the number of the node
    own: dict[int, Ints]  # classes of the nodes that hide one
    probes: dict[int, Floats]  # of these nodes; NaN for features without statistics
    origin: dict[int, Ints]  # classes of the probes

    def visible(self, shape: tuple[int, ...]) -> Bools:
        """Return the cells (nodes x classes) that take part."""
        cells = np.zeros(shape, bool)
        cells[self.nodes] = True
        cells[list(self.hidden), list(self.hidden.values())] = False
        return cells


# Given a correction and a turn, what the fused models say: for each node that hides a class, the
# probabilities of all classes for its probes.
Answers = Callable[[str, Turn], Mapping[int, Floats]]


def choose_correction(
    tables: ClassTables, cluster: Ints, tried: Sequence[str], answers: Answers
) -> DriftChoice:
    """Return the simplest correction whose loss is about the least.

    Of those with about the least loss, one that halves the errors of hidden class means is better.

    Parameters
    ----------
    tables
        Of all nodes; those of which nothing is believed hold no class.
    cluster
        Of each node. Each cluster is tried by itself and counts by the nodes that it has in trials.
    tried
        Names of corrections, from simple to complicated.
    answers
        What fused models say to the probes of a turn.

    """
    found = [_turns(tables, nodes) for nodes in trial_nodes(tables.held, cluster)]
    groups = [turns for turns in found if turns]
    if not groups:
        return DriftChoice({}, UNCORRECTED, UNTESTABLE)
    losses = {
        name: _fleet_loss([_logs(turns, name, answers) for turns in groups]) for name in tried
    }
    alike = [name for name in tried if losses[name] <= min(losses.values()) + CLEAR_LOSS]
    errors = {name: _mean_error(tables, groups, get_correction(name)) for name in alike}
    drift = alike[0]
    for name in alike[1:]:
        if errors[drift] > SMALL_ERROR and errors[name] < CLEAR_RATIO * errors[drift]:
            drift = name
    if drift == alike[0]:
        return DriftChoice(losses, drift, _reason(losses, drift))
    why = (
        f"{drift}: it puts the means of classes hidden from nodes to {errors[drift]:.2f} "
        f"deviations, {alike[0]} to {errors[alike[0]]:.2f}; fused models answer alike by both"
    )
    return DriftChoice(losses, drift, why)


def _reason(losses: Mapping[str, float], drift: str) -> str:
    raw = losses.get(UNCORRECTED, losses[drift])
    hidden = "with classes hidden from nodes, fused models have a log loss of"
    if drift != UNCORRECTED:
        return f"{drift}: {hidden} {losses[drift]:.2f} by it, {raw:.2f} without a correction"
    others = {name: loss for name, loss in losses.items() if name != UNCORRECTED}
    if not others:
        return "no correction: no other was tried"
    best = min(others, key=lambda name: others[name])
    return f"no correction: {hidden} {raw:.2f} without one, {others[best]:.2f} by {best}"


# --- who is asked about what ----------------------------------------------------------------------


def trial_nodes(held: Bools, cluster: Ints) -> list[Ints]:
    """Return the nodes of each cluster that are fused in trials, those with most classes first.

    Of more nodes with as many classes, some are taken evenly.

    Examples
    --------
    >>> held = np.ones((100, 3), bool)
    >>> [nodes.tolist() for nodes in trial_nodes(held, np.zeros(100, int))]
    [[0, 11, 22, 33, 44, 55, 66, 77, 88, 99]]

    """
    known = held.sum(axis=1)
    heard = known > 0
    left, found = TRIAL_MAX_NODES, []
    for number in np.unique(cluster[heard]).tolist():
        inside = np.flatnonzero(heard & (cluster == number))
        share = max(2, round(TRIAL_MAX_NODES * len(inside) / max(int(heard.sum()), 1)))
        if left < 2:
            break
        found.append(_with_most(inside, known[inside], min(share, left)))
        left -= len(found[-1])
    return found


def _with_most(nodes: Ints, known: Ints, most: int) -> Ints:
    if len(nodes) <= most:
        return nodes
    least = np.sort(known)[-most]
    sure, even = nodes[known > least], nodes[known == least]
    places = np.linspace(0, len(even) - 1, most - len(sure)).round().astype(int)
    return np.sort(np.concatenate([sure, even[places]]))


def _turns(tables: ClassTables, nodes: Ints) -> list[Turn]:
    """Return the turns in which somebody can hide a class."""
    found = []
    for number in range(TURNS):
        hidden = hidden_classes(tables.held[nodes], number)
        if hidden:
            found.append(_turn(tables, nodes, {int(nodes[i]): k for i, k in hidden.items()}))
    return found


def hidden_classes(held: Bools, turn: int) -> dict[int, int]:
    """Return the class that each node hides in a turn: another one each turn, and node by node.

    Somebody else still has it, and nodes that were connected by shared classes still are.

    Examples
    --------
    >>> held = np.array([[1, 1, 1], [1, 1, 0], [1, 1, 1]], bool)
    >>> hidden_classes(held, 0), hidden_classes(held, 1)
    ({0: 0, 1: 1, 2: 2}, {0: 1, 1: 0, 2: 0})

    """
    left, hidden = held.copy(), {}
    groups = components(left)
    for i in np.roll(np.arange(len(held)), -turn).tolist():
        own = np.flatnonzero(held[i])
        for k in np.roll(own, -(i + turn)).tolist() if len(own) > 1 else []:
            if left[:, k].sum() < 2:
                continue
            left[i, k] = False
            if np.array_equal(components(left), groups):
                hidden[i] = k
                break
            left[i, k] = True
    return dict(sorted(hidden.items()))


def _turn(tables: ClassTables, nodes: Ints, hidden: dict[int, int]) -> Turn:
    own = {i: np.flatnonzero(tables.held[i]) for i in hidden}
    probes, origin = {}, {}
    for i, k in hidden.items():
        deviation = class_deviations(tables.count[i], tables.variance[i], tables.spread)
        classes = _asked_classes(own[i], k)
        points, origin[i] = class_probes(tables.mean[i], deviation, classes, TRIAL_PROBES_PER_CLASS)
        points = np.where(tables.count[i][origin[i]] > 0, points, np.nan)
        probes[i] = np.clip(points, -LARGEST_VALUE, LARGEST_VALUE)
    return Turn(nodes, hidden, own, probes, origin)


def _asked_classes(own: Ints, hidden: int) -> Ints:
    """Return the classes of a node that it is asked about: some evenly if there are very many."""
    if len(own) <= MAX_CLASSES:
        return own
    places = np.linspace(0, len(own) - 1, MAX_CLASSES - 1).round().astype(int)
    return np.union1d(own[places], hidden).astype(np.int64)


# --- errors of hidden class means -----------------------------------------------------------------


def _mean_error(tables: ClassTables, groups: Sequence[Sequence[Turn]], by: Correction) -> float:
    """Return how far the means of hidden classes usually are from where a correction puts them.

    In deviations within the class, over all features alike.
    """
    errors = [error for turns in groups for turn in turns for error in _errors(tables, turn, by)]
    return float(np.median(errors)) if errors else 0.0


def _errors(tables: ClassTables, turn: Turn, correction: Correction) -> list[float]:
    seen = turn.visible(tables.held.shape)[turn.nodes]
    known = tables.among(turn.nodes).only(seen)
    alignment = correction.estimate(known)
    centre = class_centres(known, alignment)
    found = []
    for row, i in enumerate(turn.nodes.tolist()):
        if i not in turn.hidden:
            continue
        k = turn.hidden[i]
        apart = alignment.gain[row] * centre[k] + alignment.shift[row] - tables.mean[i, k]
        there = (tables.count[i, k] > 0) & np.isfinite(apart)
        if there.any():
            found.append(float(np.sqrt((apart[there] ** 2 / tables.spread[k, there]).mean())))
    return found


# --- losses ---------------------------------------------------------------------------------------


class _ProbeLogs(NamedTuple):
    """Logarithms of probabilities of a node's classes for its probes, and the right ones."""

    logs: Floats
    codes: Ints


def _logs(turns: Sequence[Turn], name: str, answers: Answers) -> dict[int, list[_ProbeLogs]]:
    """Return what models fused by a correction say, by the number of the node that is asked.

    Classes that a node lacks do not compete: it cannot know where they would be.
    """
    said: dict[int, list[_ProbeLogs]] = {}
    for turn in turns:
        for i, found in answers(name, turn).items():
            logs = np.log(np.maximum(np.nan_to_num(found[:, turn.own[i]]), 1e-300))
            codes = np.searchsorted(turn.own[i], turn.origin[i])
            said.setdefault(i, []).append(_ProbeLogs(logs, codes))
    return said


def _fleet_loss(groups: Sequence[Mapping[int, Sequence[_ProbeLogs]]]) -> float:
    """Return the least loss of all clusters at one temperature."""
    at = {float(t): _loss_at(float(t), groups) for t in TRIED_TEMPERATURES}
    near = min(at, key=lambda t: at[t]) * NEAR_TEMPERATURES
    return min(_loss_at(float(t), groups) for t in near)


def _loss_at(temperature: float, groups: Sequence[Mapping[int, Sequence[_ProbeLogs]]]) -> float:
    """Return the mean loss of nodes, without extremes in each cluster."""
    total = sum(len(group) for group in groups)
    means = (
        len(group) * trimmed_loss([_loss(said, temperature) for said in group.values()])
        for group in groups
    )
    return sum(means) / total


def _loss(said: Sequence[_ProbeLogs], temperature: float) -> float:
    each = []
    for logs, codes in said:
        scores = temperature * logs
        scores -= scores.max(axis=1, keepdims=True)
        chances = np.exp(scores)
        right = chances[np.arange(len(codes)), codes] / chances.sum(axis=1)
        each.append(float(-np.log(np.maximum(right, LEAST_PROBABILITY)).mean()))
    return float(np.mean(each))


def trimmed_loss(losses: Sequence[float]) -> float:
    """Return the mean without as many at either end as may lie.

    Examples
    --------
    >>> trimmed_loss([0.1, 0.2, 0.3, 6.9])
    0.25

    """
    ordered = np.sort(losses)
    cut = assumed_byzantine(len(ordered)) if len(ordered) > 2 else 0
    return float(ordered[cut : len(ordered) - cut].mean())
