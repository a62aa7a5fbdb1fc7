"""Figures of the attacks and audits of `streamlvq audit`, on optdigits and on made-up promises.

Nothing was chosen on these data: settings of the attacks are those of the command. `before` are
states as they are, published as they come; `after` is what nodes publish (no traces of single
readings, ten new readings of a class). Run it as `python benchmarks/privacy_audit.py`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

import streamlvq
from common import Figure, Table, figure_table, show
from datasets import stream
from streamlvq.audit import Truth, audit_private, audit_snapshots
from streamlvq.audit.updates import rank_one_direction
from streamlvq.fleet.held_back import next_publication
from streamlvq.privacy import Privacy, PrivateLVQ
from streamlvq.privacy.budget import NoisePlan
from streamlvq.privacy.engine import PrivateEngine
from streamlvq.snapshot import Snapshot, capture

READINGS = 1500
BETWEEN = (1, 10, 30, 50, 75, 100)  # labelled readings between two publications
ROUNDS = 41
STATISTICS = ["counts-and-means", "pair-from-spread"]
STEPS = ["gradient-lines", "metric-change", "sign-of-beta"]
STEP_ROUNDS = 100
MODELS: dict[str, Callable[..., Any]] = {
    "GLVQ": streamlvq.GLVQ,
    "GMLVQ": streamlvq.GMLVQ,
    "LGMLVQ": streamlvq.LGMLVQ,
}
PUBLISHED_AUC = {"GLVQ": 0.66, "GMLVQ": 0.75, "LGMLVQ": 0.88}
MEMBERSHIP_READINGS = 1000
FAULTS: dict[str, Callable[[NoisePlan], float]] = {
    "right": lambda plan: 1.0,
    "a tenth less": lambda plan: 0.9,
    "no column norm": lambda plan: 1.0 / plan.factor.norm(),
    "half": lambda plan: 0.5,
    "a quarter": lambda plan: 0.25,
}
MECHANISM = ["noise-scale", "two-worlds", "one-run", "known-others"]


@cache
def digits() -> tuple[Any, list[Any], list[str]]:
    data = stream("optdigits")
    return data.X, list(data.y), [str(name) for name in data.features]


def publications(
    model: Any, first: int, every: int, count: int, held_back: bool
) -> Iterator[Snapshot]:
    """Yield what a model publishes every few readings of the digits, after the first ones."""
    X, y, features = digits()
    published = None
    for k in range(first + every * count):
        model.learn_one(dict(zip(features, X[k].tolist(), strict=True)), y[k])
        done = k + 1 - first
        if done < 0 or done % every:
            continue
        if not held_back:
            yield Snapshot.of(model, node="n1")
            continue
        found = next_publication(published, capture(model, readings=False), 10)
        if found is not None:
            published = found.state
            yield Snapshot(published, "n1", readings=False)


def truth(count: int) -> Truth:
    X, y, features = digits()
    return Truth(features, X[:count], y[:count])


def recovered(every: int, held_back: bool) -> float:
    """Return in which share of rounds at least one reading comes out exactly, first one aside."""
    model = streamlvq.GLVQ(max_prototypes_per_class=1, rehearsal=0)
    snapshots = list(publications(model, 500, every, ROUNDS, held_back))
    rounds, known = 0, truth(500 + every * ROUNDS)
    for pair in pairwise(snapshots):
        report = audit_snapshots(pair, known, attacks=STATISTICS)
        lone = audit_snapshots(pair[:1], known, attacks=STATISTICS)
        gained = sum(report[a].figures.get("exact", 0) for a in STATISTICS)
        gained -= sum(lone[a].figures.get("exact", 0) for a in STATISTICS)
        rounds += gained > 0
    return rounds / max(1, len(snapshots) - 1)


def statistics_table() -> Table:
    table = Table(
        f"Rounds with at least one exact recovery, of {ROUNDS} (10 classes)",
        ["labelled readings between publications", "before", "after"],
    )
    for every in BETWEEN:
        table.add(every, f"{recovered(every, False):.2f}", f"{recovered(every, True):.2f}")
    return table


def step_table() -> Table:
    table = Table(
        f"Readings that steps give away exactly in {STEP_ROUNDS} publications one reading apart",
        ["model", "rehearsal 0", "rehearsal 8", "after", "born nearest", "born"],
    )
    for name, make in MODELS.items():
        cells = []
        for rehearsal, held_back in ((0, False), (8, False), (8, True)):
            model = make(rehearsal=rehearsal, seed=1)
            snapshots = list(publications(model, READINGS, 1, STEP_ROUNDS, held_back))
            report = audit_snapshots(snapshots, truth(READINGS + STEP_ROUNDS), attacks=STEPS)
            cells.append(sum(report[a].figures.get("exact", 0) for a in STEPS[:2]))
        lone = list(publications(make(seed=1), READINGS, 1, 0, False))
        born = audit_snapshots(lone, truth(READINGS), attacks=["nearest-to-born"])
        figures = born["nearest-to-born"].figures
        table.add(name, *cells, figures["near"], figures["born"])
    return table


def rank_one_error() -> float:
    """Return the largest error of the direction that a change of rank one gives, of 200 changes."""
    random, worst = np.random.default_rng(0), 0.0
    for _ in range(200):
        metric = random.standard_normal((3, 20))
        metric /= np.linalg.norm(metric)
        way = random.standard_normal(20)
        way /= np.linalg.norm(way)
        after = metric - 0.02 * np.outer(metric @ way, way)
        found = rank_one_direction(metric, after / np.linalg.norm(after))
        assert found is not None
        worst = max(worst, min(np.abs(found - way).max(), np.abs(found + way).max()))
    return worst


def membership_table() -> Table:
    table = Table("Membership by likelihood ratio", ["model", "AUC", "seen before"])
    known = truth(MEMBERSHIP_READINGS)
    for name, make in MODELS.items():
        lone = list(publications(make(seed=1), 100, 1, 0, False))
        found = audit_snapshots(lone, known, attacks=["membership"])["membership"]
        table.add(name, f"{found.figures['auc']:.2f}", f"{PUBLISHED_AUC[name]:.2f}")
    return table


def faulty(epsilon: float, share: Callable[[NoisePlan], float]) -> Callable[[], PrivateLVQ]:
    """Return how to build a model whose noise is a share of what it should be."""
    bounds = {f"f{k}": (-1.0, 1.0) for k in range(4)}
    promise = Privacy(epsilon, bounds=bounds, classes=["a", "b", "c"])

    class Faulty(PrivateLVQ):
        def _new_engine(self, features: int) -> PrivateEngine:
            engine = super()._new_engine(features)
            sigma = engine.plan.sigma * share(engine.plan)
            engine.plan = dataclasses.replace(engine.plan, sigma=sigma)
            return engine

    return lambda: Faulty(promise)


def mechanism_table(epsilon: float) -> tuple[Table, dict[str, Any]]:
    table = Table(
        f"Audits of the mechanism at epsilon {epsilon:g}: what they measure, ! if caught",
        ["noise", *MECHANISM],
    )
    shown = {"noise-scale": "scale", "known-others": "error"}
    reports = {}
    for name, share in FAULTS.items():
        report = reports[name] = audit_private(faulty(epsilon, share), attacks=MECHANISM)
        cells = [
            f"{report[a].figures[shown.get(a, 'epsilon')]:.2f}" + "!" * report[a].verdict.succeeded
            for a in MECHANISM
        ]
        table.add(name, *cells)
    return table, reports


def main() -> None:
    show([statistics_table(), step_table(), membership_table()])
    four, reports = mechanism_table(4.0)
    one, _ = mechanism_table(1.0)
    show([four, one])
    right = reports["right"]["known-others"].figures
    figures = [
        Figure("direction by a change of rank one, rank 3, d 20", rank_one_error(), 1e-12),
        Figure("class mean / reconstruction, eps 4", right["mean_error"] / right["error"], 1.0),
        *(
            Figure(f"{name}: audits that catch it, eps 4", len(reports[name].succeeded), 1, True)
            for name in ("a tenth less", "no column norm", "half", "a quarter")
        ),
        Figure("right: false alarms, eps 4", len(reports["right"].succeeded), 0),
    ]
    show([figure_table(figures)])


if __name__ == "__main__":
    main()
