"""Probe pools: a model of any kind, beside its copy that learnt what other nodes say to probes.

The local model goes on learning; the copy is a fixed candidate. How much each of them counts is
fitted on labelled readings that neither has learnt, and on classes hidden from a node that has
them: only so can be judged what the copy says of classes that the node has never seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from streamlvq.arrays import Bools, Floats, Label, Reading, Rows
from streamlvq.fusion.node_models import FusionError
from streamlvq.fusion.probe_answers import answer
from streamlvq.fusion.weights import OpinionRecords, clearly_better, fit_weights
from streamlvq.models.pool import (
    MAX_UNSEEN,
    PoolClassifier,
    PoolReport,
    PoolWeights,
    answer_of,
    labels_of,
)
from streamlvq.models.vectorizer import name_order

PROBES = "probes"  # name of the candidate
PRIOR = np.array([0.5, 1.0, -1.0])  # weights of the copy and of the local model, unseen classes
ALONE = np.array([0.0, 1.0, -MAX_UNSEEN])
Labelled = Sequence[tuple[Reading, Label]]


@dataclass(frozen=True)
class HiddenTrial:
    """Models of a node as they would be if it had never seen one of its classes.

    Parameters
    ----------
    label
        The class.
    local
        The model, without that class.
    taught
        Its copy that learnt probes, which other nodes' answers made, but not its own.

    """

    label: Label
    local: Any
    taught: Any


class FixedClassifier:
    """Any classifier of River as a candidate of a pool: it answers, and learns no more."""

    def __init__(self, model: Any, labels: Iterable[Label]) -> None:
        self.model, self.classes = model, tuple(labels)

    def predict_labels_one(self, x: Reading) -> tuple[Sequence[Label], Rows]:
        """Return all labels and their probabilities."""
        return self.classes, np.array(answer(self.model, dict(x), self.classes))


def pool_taught(
    local: Any,
    taught: Any,
    readings: Iterable[tuple[Reading, Label]],
    *,
    node: str = "local",
    trials: Iterable[HiddenTrial] = (),
) -> PoolClassifier:
    """Pool a model with its copy that has learnt probes, weighed by labelled readings.

    The pool is the local model alone unless the readings show that the copy helps: if the node has
    all classes, losses must surely fall; if others know more, it must not make more mistakes, the
    hidden classes of trials included.

    Parameters
    ----------
    local
        Any classifier of River; `learn_one` of the pool teaches it.
    taught
        What `learn_from_probes` returned for it.
    readings
        Labelled readings of the node that neither of them has learnt; some dozens at least.
    node
        Its name, for the report.
    trials
        Models that judge what the copy knows of classes that the node has never seen.

    Examples
    --------

    >>> from river import naive_bayes
    >>> from streamlvq.fusion.probe_pool import pool_taught

    >>> local, taught = naive_bayes.GaussianNB(), naive_bayes.GaussianNB()
    >>> for k in range(60):
    ...     for y, x in {"ham": 1.0, "spam": 4.0, "egg": 7.0}.items():
    ...         if y != "egg":
    ...             local.learn_one({"x": x + k % 5 / 10}, y)
    ...         taught.learn_one({"x": x + k % 5 / 10}, y)
    >>> later = [({"x": x + k / 10}, y) for k in range(9) for y, x in [("ham", 1.0), ("spam", 4.0)]]
    >>> model = pool_taught(local, taught, later)
    >>> [model.predict_one({"x": x}) for x in (1.2, 4.2, 7.2)]
    ['ham', 'spam', 'egg']

    """
    asked = list(readings)
    held = _known(local, asked)
    labels = name_order({*held, *_known(taught, asked)})
    _check(asked, held)
    own = _records(local, taught, asked, labels, held)
    lacking = np.array([label not in held for label in labels])
    hidden = [_trial_records(trial, asked, labels, held, lacking) for trial in trials]
    weights = _weights(own, hidden, complete=not lacking.any())
    candidate = taught if hasattr(taught, "predict_labels_one") else FixedClassifier(taught, labels)
    pool = PoolClassifier(local, {PROBES: candidate}, PoolWeights.of([PROBES], weights))
    losses = {
        "local": float(own.losses(ALONE).mean()),
        "pool": float(own.losses(weights).mean()),
    }
    pool.report = PoolReport(node, len(asked), pool.weights.named(), (), losses)
    return pool


def _check(asked: Labelled, held: Sequence[Label]) -> None:
    unknown = {label for _, label in asked} - set(held)
    if not asked or unknown:
        got = f"labels {sorted(map(repr, unknown))[:9]}" if asked else "none"
        raise FusionError(f"expected readings of classes that the local model knows, got {got}")


def _known(model: Any, asked: Labelled) -> list[Label]:
    """Return the classes of a model: some of River's only name them in their answers."""
    said = labels_of(model) or {label for x, _ in asked for label in answer_of(model, x)[0]}
    return name_order(set(said))


def _records(
    local: Any,
    taught: Any,
    asked: Labelled,
    labels: Sequence[Label],
    held: Sequence[Label],
    lacking: Bools | None = None,
) -> OpinionRecords:
    """Return what the copy and the local model think of readings."""
    opinions = np.full((2, len(asked), len(labels)), np.nan)
    for model, known, rows in ((taught, labels, opinions[0]), (local, held, opinions[1])):
        places = [labels.index(label) for label in known]
        rows[:, places] = [answer(model, dict(x), known) for x, _ in asked]
    codes = np.array([labels.index(label) for _, label in asked], np.int64)
    mask = np.array([label in held for label in labels])
    return OpinionRecords.of((PROBES,), opinions, codes, mask, np.zeros(len(labels)), lacking)


def _trial_records(
    trial: HiddenTrial, asked: Labelled, labels: list[Label], held: list[Label], lacking: Bools
) -> tuple[OpinionRecords, int]:
    """Return the records of a trial, and the number of its class."""
    if trial.label not in held:
        raise FusionError(f"trials: expected a class that the node has, got {trial.label!r}")
    rest = [label for label in held if label != trial.label]
    records = _records(trial.local, trial.taught, asked, labels, rest, lacking)
    return records, labels.index(trial.label)


def _weights(
    own: OpinionRecords, hidden: Sequence[tuple[OpinionRecords, int]], *, complete: bool
) -> Floats:
    """Return fitted weights; those of the local model alone if readings do not speak for them."""
    if complete:
        found = fit_weights(own, PRIOR)
        return found if clearly_better(own, found, ALONE) else ALONE
    found = fit_weights(OpinionRecords.joined([own, *(each for each, _ in hidden)]), PRIOR)
    gain = float(own.worth @ _hits(own, found, ALONE))
    for records, code in hidden:
        gain += float((records.worth * (records.codes == code)) @ _hits(records, found, ALONE))
    return found if gain >= 0.0 else ALONE


def _hits(records: OpinionRecords, weights: Floats, other: Floats) -> Floats:
    """Return 1 for readings that only these weights decide rightly, -1 for the contrary, else 0."""
    ours, theirs = (records.decisions(each) == records.codes for each in (weights, other))
    gained: Floats = ours.astype(float) - theirs
    return gained
