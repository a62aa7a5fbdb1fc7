"""Probe federation: nodes whose models have no common form, alone and with what others say.

Constants, and how the pool guards itself, were chosen on the gas batches and on `segment` dealt to
ten nodes; the figure is on subjects of UCI HAR. Weights of the pool are fitted on readings that
neither the local model nor the copy that learnt the probes has learnt.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any

import numpy as np
from river import tree

import streamlvq
from common import Figure, Table, figure_table, progress
from datasets import read_npz, table_set
from fusion_fleets import Floats, Labels, Make
from fusion_gas import FILE
from streamlvq.fusion import ClassMoments, ProbeAnswers, ProbeSet, learn_from_probes
from streamlvq.fusion.probe_pool import PRIOR, PROBES, HiddenTrial, pool_taught
from streamlvq.models.pool import PoolClassifier, PoolWeights
from streamlvq.snapshot import Snapshot

KINDS: dict[str, Make] = {
    "LGMLVQ": streamlvq.LGMLVQ,
    "LVQCommittee": streamlvq.LVQCommittee,
    "HoeffdingTree": tree.HoeffdingTreeClassifier,
    "WindowForest": streamlvq.WindowForest,
    "PairwiseLVQ": streamlvq.PairwiseLVQ,
}
THREE = ("LGMLVQ", "LVQCommittee", "HoeffdingTree")
PARTS = 4  # of the segments of each class: two are learnt, one fits the weights, one is the test
MOST_LOST = 0.005


@dataclass(frozen=True)
class Place:
    """A node: what its model is, and readings to learn, to fit weights, and to test."""

    name: str
    kind: str
    learn: tuple[Floats, Labels]
    fit: tuple[Floats, Labels]
    test: tuple[Floats, Labels]

    def without(self, label: Any) -> Place:
        """Return the node as if it had never learnt a class; it is still asked about it."""
        X, y = self.learn
        return replace(self, learn=(X[y != label], y[y != label]))


# --- fleets ---------------------------------------------------------------------------------------


def parts_of(
    X: Floats, y: Labels, segment: Labels, turn: int, seed: int = 1
) -> list[tuple[Floats, Labels]]:
    """Deal whole segments of each class out to learning, fitting and testing, in their order."""
    random = np.random.default_rng(seed)
    part = np.zeros(len(y), int)
    for label in np.unique(y):
        names = random.permutation(np.unique(segment[y == label]))
        for k, name in enumerate(names):
            part[segment == name] = (k + turn) % PARTS
    chosen = [part < PARTS - 2, part == PARTS - 2, part == PARTS - 1]
    return [(X[rows], y[rows]) for rows in chosen]


def har(kinds: Sequence[str], subjects: range, turn: int, seed: int = 1) -> list[Place]:
    """Return subjects of UCI HAR: every ninth feature, readings in time order."""
    data = read_npz("uci_har/har561_recomputed.npz")
    keep = np.flatnonzero(data["feature_status"] != "not reproduced")[::9][:60]
    order = data["chron"]
    X, y = data["X"][order][:, keep].astype(np.float64), data["y"][order]
    subject = data["subject"][order]
    segment = data["exp"][order].astype(int) * 100_000 + data["segment"][order]
    places = []
    for k, number in enumerate(subjects):
        ours = subject == number
        parts = parts_of(X[ours], y[ours], segment[ours], turn, seed)
        places.append(Place(f"subject {number:02}", kinds[k % len(kinds)], *parts))
    return places


def gas(kinds: Sequence[str], turn: int) -> list[Place]:
    """Return batches of gas readings: every second feature, readings in random order."""
    data = read_npz(FILE)
    X, y, batch = data["X"][:, ::2].astype(np.float64), data["y"], data["batch"]
    order = np.random.default_rng(turn).permutation(len(y))
    places = []
    for k, number in enumerate(np.unique(batch)):
        rows = order[batch[order] == number][:400]
        parts = parts_of(X[rows], y[rows], np.arange(len(rows)), turn)
        places.append(Place(f"batch {number}", kinds[k % len(kinds)], *parts))
    return places


def segments(kinds: Sequence[str], turn: int) -> list[Place]:
    """Deal the set `segment` out to ten nodes."""
    stream = table_set("segment")
    y = np.asarray(stream.y)
    order = np.random.default_rng(turn).permutation(len(y))
    places = []
    for k in range(10):
        rows = order[k::10]
        parts = parts_of(stream.X[rows], y[rows], np.arange(len(rows)), turn)
        places.append(Place(f"node {k}", kinds[k % len(kinds)], *parts))
    return places


def one_missing(places: Sequence[Place]) -> list[Place]:
    """Let node i never learn class i, counted on from one after the last."""
    labels = np.unique(np.concatenate([place.test[1] for place in places]))
    return [place.without(labels[k % len(labels)]) for k, place in enumerate(places)]


def one_more_hidden(places: Sequence[Place]) -> list[Place]:
    """Hide a class that each node has, to see what others could tell it about a new one."""
    hidden = []
    for k, place in enumerate(places):
        held = np.unique(place.learn[1])
        hidden.append(place.without(held[(2 * k + 1) % len(held)]))
    return hidden


# --- candidates -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Learnt:
    """Local models and the statistics of their classes, both after one pass."""

    places: Sequence[Place]
    models: list[Any]
    statistics: list[Snapshot | ClassMoments]


def readings(X: Floats) -> list[dict[str, float]]:
    return [{f"x{k}": v for k, v in enumerate(row)} for row in X.tolist()]


def learn(places: Sequence[Place]) -> Learnt:
    models, statistics = [], []
    for place in places:
        model, moments = KINDS[place.kind](), ClassMoments(place.name)
        X, y = place.learn
        for x, label in zip(readings(X), y.tolist(), strict=True):
            model.learn_one(x, label)
            moments.learn_one(x, label)
        models.append(model)
        own = place.kind in ("HoeffdingTree", "WindowForest")
        statistics.append(moments if own else Snapshot.of(model, place.name, readings=False))
    return Learnt(places, models, statistics)


def taught(
    learnt: Learnt,
    probing: Mapping[str, Any] | None = None,
    teaching: Mapping[str, Any] | None = None,
) -> list[Any]:
    """Return a copy of each local model that has learnt what the others say to the probes."""
    names = [place.name for place in learnt.places]
    probes = ProbeSet.of(learnt.statistics, **(probing or {}))
    answers = [
        ProbeAnswers.of(model, name, probes)
        for model, name in zip(learnt.models, names, strict=True)
    ]
    return [
        learn_from_probes(model, name, probes, answers, **(teaching or {}))
        for model, name in zip(learnt.models, names, strict=True)
    ]


# --- the pool -------------------------------------------------------------------------------------


def accuracies(places: Sequence[Place]) -> list[dict[str, float]]:
    """Return for each node the accuracy of each method on its test readings."""
    real, missing = learn(places), any(_lacks(place) for place in places)
    copies = taught(real)
    hidden = one_more_hidden(places) if missing else []
    blind = learn(hidden)
    trials = zip(blind.models, taught(blind), strict=True) if missing else repeat((None, None))
    found = []
    for k, (place, trial) in enumerate(zip(places, trials, strict=False)):
        local, copy = real.models[k], copies[k]
        held, tests = np.unique(place.learn[1]), pairs(*place.test)
        X, y = place.fit
        ours = np.isin(y, held)  # a node has no labels of classes that it has never seen
        kept = np.unique(hidden[k].learn[1]) if missing else held
        away = [HiddenTrial(label, *trial) for label in np.setdiff1d(held, kept).tolist()]
        pool = pool_taught(local, copy, pairs(X[ours], y[ours]), node=place.name, trials=away)
        unfitted = PoolClassifier(local, pool.candidates, PoolWeights.of([PROBES], PRIOR))
        models = {"alone": local, "probes": copy, "unfitted": unfitted, "pool": pool}
        found.append({name: share_right(model, tests) for name, model in models.items()})
    return found


def _lacks(place: Place) -> bool:
    return len(np.unique(place.learn[1])) < len(np.unique(place.test[1]))


def pairs(X: Floats, y: Labels) -> list[tuple[dict[str, float], Any]]:
    return list(zip(readings(X), y.tolist(), strict=True))


def share_right(model: Any, tests: Sequence[tuple[dict[str, float], Any]]) -> float:
    return float(np.mean([model.predict_one(x) == y for x, y in tests]))


# --- the study ------------------------------------------------------------------------------------

FLEETS: dict[str, tuple[tuple[str, ...], range]] = {
    "LGMLVQ, committee, tree": (THREE, range(1, 16)),
    "five kinds": (tuple(KINDS), range(16, 31)),
}
METHODS = ("alone", "probes", "unfitted", "pool")


def rotated(
    kinds: Sequence[str], subjects: range, missing: bool, seeds: int
) -> tuple[list[Place], dict[str, Floats]]:
    """Return the nodes and their accuracies: with each seed all segments are the test in turn."""
    runs = []
    for run in progress(range(seeds * PARTS), "probes", seeds * PARTS):
        places = har(kinds, subjects, run % PARTS, 1 + run // PARTS)
        runs.append(accuracies(one_missing(places) if missing else places))
    means = {
        name: np.array([[node[name] for node in run] for run in runs]).mean(axis=0)
        for name in METHODS
    }
    return places, means


def probes(seeds: int = 3) -> Iterator[Table]:
    """Tabulate HAR subjects with models of different kinds, and the node that lost most."""
    figures = []
    for name, (kinds, subjects) in FLEETS.items():
        for missing in (False, True):
            what = f"{name}{', one class missing' * missing}"
            places, found = rotated(kinds, subjects, missing, seeds)
            gain = found["pool"] - found["alone"]
            table = Table(
                f"HAR subjects, {what}: mean accuracy, {seeds} seeds",
                ["model", *METHODS, "gained", "worst node"],
            )
            for kind in (*kinds, "all"):
                ours = np.array([kind in ("all", place.kind) for place in places])
                means = [f"{found[method][ours].mean():.3f}" for method in METHODS]
                table.add(kind, *means, f"{gain[ours].mean():+.3f}", f"{gain[ours].min():+.3f}")
            yield table
            worst = float(gain.min())
            figures.append(Figure(f"worst node, {what}", worst, -MOST_LOST, at_least=True))
    yield figure_table(figures)
