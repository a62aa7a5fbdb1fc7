"""Rounds of federated averaging: people with a phone who have few labelled readings each.

How readings are dealt was fixed before any result was seen; settings of rounds (one pass, no pull)
and of the local passes at the end were chosen on the second ten subjects of UCI HAR, figures are
those of the first ten.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import streamlvq
from common import Figure, Table, figure_table, progress
from datasets import har_subjects, read_npz
from fusion_fleets import Floats, Labels, Node, accuracy, fused_accuracy, local_accuracy
from streamlvq.estimator import build_estimator
from streamlvq.fusion.personal import local_passes, stored_readings
from streamlvq.fusion.rounds import run_rounds
from streamlvq.snapshot import Snapshot

ROUNDS = (0, 1, 5, 20)  # after which the nodes are tested; 0 is one-shot fusion
FEWEST, STEP = 30, 10  # stored readings of the first subject, and how many more of each next one
LOCAL_PASSES, LOCAL_PULL = 10, 1.0
MIN_GAIN_OF_ROUNDS, MIN_GAIN_OF_PASSES = 0.03, 0.04
FIRST = {"subjects 1 to 10": 1, "subjects 11 to 20": 11}
# Parameters of the models of nodes, and the budget of the first fusion.
SHAPES: dict[str, tuple[dict[str, Any], Any]] = {
    "one prototype": ({"max_prototypes_per_class": 1}, "auto"),
    "growing": ({}, "auto"),
    "growing, budget 2": ({}, 2),
    "growing, budget 1": ({}, 1),
}


def subjects(first: int) -> list[Node]:
    """Return ten subjects with 30, 40 ... 120 labelled readings, a sixth of each activity.

    Of every ninth feature the first sixty. A subject trains with its first readings of each
    activity in time order, and learns them in time order. It is tested with the readings of all
    other segments: those of a segment that was partly learnt are left out, because windows overlap.
    """
    X, y, subject, chron = har_subjects()
    data = read_npz("uci_har/har561_recomputed.npz")
    segment = data["exp"].astype(np.int64) * 1000 + data["segment"]
    X = np.ascontiguousarray(X[:, ::9][:, :60])
    nodes = []
    for k in range(10):
        own = chron[subject[chron] == first + k]
        train = _first_of_each(own, y, FEWEST + STEP * k)
        test = own[~np.isin(segment[own], segment[train])]
        nodes.append(Node(f"person {first + k:02}", X[train], y[train], X[test], y[test]))
    return nodes


def _first_of_each(rows: Any, y: Labels, count: int) -> Any:
    """Return the first rows of each class, about as many of each, in the order of the rows."""
    labels = np.unique(y[rows])
    ends = np.round(count * np.arange(len(labels) + 1) / len(labels)).astype(int)
    kept = [rows[y[rows] == c][: ends[k + 1] - ends[k]] for k, c in enumerate(labels)]
    chosen = rows[np.isin(rows, np.concatenate(kept))]
    assert len(chosen) == count
    return chosen


def streamed(make: Callable[[], Any], X: Floats, y: Labels) -> Any:
    """Return a model that has seen each reading once."""
    model = make()
    model.learn_array(X, y)
    return model


def pooled(make: Callable[[], Any], nodes: Sequence[Node], seed: int) -> Any:
    """Return a model of the readings of all nodes, in random order."""
    X, y = np.concatenate([node.X for node in nodes]), np.concatenate([node.y for node in nodes])
    order = np.random.default_rng(seed).permutation(len(y))
    return streamed(make, X[order], y[order])


def compared(
    nodes: Sequence[Node], make: Callable[[], Any], budget: Any, seed: int
) -> dict[str, float]:
    """Return the mean accuracy of all nodes by what they decide with."""
    models = [streamed(make, node.X, node.y) for node in nodes]
    given = [Snapshot.of(model, node.name) for model, node in zip(models, nodes, strict=True)]
    found = {"alone": float(local_accuracy(nodes, models).mean())}
    fused = None
    for step in run_rounds(given, rounds=max(ROUNDS), budget=budget):
        fused = step.fused
        if step.number in ROUNDS:
            found[_called(step.number)] = float(fused_accuracy(fused, nodes).mean())
    scores = []
    for node, own in zip(nodes, given, strict=True):
        start = fused.snapshot(node.name).estimator_state()
        readings = stored_readings(own.estimator_state())
        mine = local_passes(start, readings, passes=LOCAL_PASSES, pull=LOCAL_PULL)
        scores.append(accuracy(build_estimator(mine), node.test_X, node.test_y))
    found[f"then {LOCAL_PASSES} local passes"] = float(np.mean(scores))
    everything = pooled(make, nodes, seed)
    found["pooled data"] = float(np.mean([accuracy(everything, n.test_X, n.test_y) for n in nodes]))
    return found


def _called(number: int) -> str:
    return "one-shot" if number == 0 else f"{number} round{'s' * (number > 1)}"


def rounds(models: Sequence[str] = ("GMLVQ", "LGMLVQ"), seeds: int = 3) -> Iterator[Table]:
    """Tabulate accuracies; figures are those of the first ten subjects."""
    cases = [(fleet, model, shape) for fleet in FIRST for model in models for shape in SHAPES]
    table, figures = None, []
    for fleet, model, shape in progress(cases, "rounds", len(cases)):
        nodes, runs = subjects(FIRST[fleet]), []
        parameters, budget = SHAPES[shape]
        for seed in range(1, seeds + 1):
            make = functools.partial(getattr(streamlvq, model), **parameters, seed=seed)
            runs.append(compared(nodes, make, budget, seed))
        mean = {name: float(np.mean([run[name] for run in runs])) for name in runs[0]}
        if table is None:
            columns = ["fleet", "model", "prototypes", *mean]
            table = Table(f"rounds, mean accuracy of ten nodes and {seeds} seeds", columns)
        table.add(fleet, model, shape, *(f"{value:.3f}" for value in mean.values()))
        if fleet == next(iter(FIRST)):
            figures += _figures(f"{model}, {shape}", mean)
    if table is not None:
        yield table
        yield figure_table(figures)


def _figures(what: str, mean: dict[str, float]) -> list[Figure]:
    last, local = _called(max(ROUNDS)), f"then {LOCAL_PASSES} local passes"
    gained = mean[last] - mean["one-shot"]
    own = mean[local] - mean["alone"]
    return [
        Figure(f"{what}: {last} above one-shot", gained, MIN_GAIN_OF_ROUNDS, at_least=True),
        Figure(f"{what}: local passes above alone", own, MIN_GAIN_OF_PASSES, at_least=True),
    ]
