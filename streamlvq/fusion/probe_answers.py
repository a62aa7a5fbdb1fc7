"""What models say to probes: answers of nodes, their consensus, and how to learn it.

Every node publishes what its model says to the probes (`ProbeAnswers`) and learns what the others
say (`learn_from_probes`). A node's local model never learns a probe: a copy does.
"""

from __future__ import annotations

import copy
import hashlib
import inspect
import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import msgspec
import numpy as np

from streamlvq.arrays import Floats, Ints, Label
from streamlvq.fusion.class_moments import check_arrays, convert_file
from streamlvq.fusion.node_models import FusionError
from streamlvq.fusion.probes import MAX_PROBE_BYTES, ProbeSet, believed_counts, known_aggregator
from streamlvq.models.validation import MAX_SAMPLES
from streamlvq.snapshot import decode, encode
from streamlvq.snapshot.state import decode_names, encode_name
from streamlvq.wrappers.base import innermost_model

FLOOR = 1e-3  # of a probability, so that no node can veto a class
SUM_ERROR = 1e-6  # by which the probabilities of an answer may miss one
MIN_LESSON = 0.05  # probability of a class below which a probe is not learnt as one of it
READINGS_PER_PROBE = 0.3  # that a probe counts as when it is learnt
MAX_READINGS_PER_PROBE = 1e4


class _AnswersFile(msgspec.Struct, forbid_unknown_fields=True):
    """Metadata of a file with answers."""

    node: str
    probes: str
    labels: list[Any]


@dataclass(frozen=True, eq=False)
class ProbeAnswers:
    """What the model of a node says to the probes.

    Parameters
    ----------
    node
        Whose they are.
    probes
        Digest of the probe set.
    labels
        The classes that the node has learnt; others are absent.
    probabilities
        Probes x labels; rows sum to one.
    samples
        How many readings of each class stand behind them.

    """

    node: str
    probes: str
    labels: tuple[Label, ...]
    probabilities: Floats
    samples: Floats

    @classmethod
    def of(cls, model: Any, node: str, probes: ProbeSet) -> Self:
        """Ask a classifier of River, in the coordinates of its node; it learns nothing."""
        samples = probes.samples[probes.index(node)]
        held = np.flatnonzero(samples > 0)
        labels = tuple(probes.labels[k] for k in held)
        if not labels:
            raise FusionError(f"node {node!r}: expected one that has learnt something")
        rows = [answer(model, reading, labels) for reading in probes.readings(node)]
        return cls(node, probes.digest, labels, np.array(rows), samples[held])

    def to_bytes(self) -> bytes:
        """Encode as a file like that of a snapshot, with a checksum and nothing executable."""
        labels = [encode_name(label, "label") for label in self.labels]
        meta = msgspec.structs.asdict(_AnswersFile(self.node, self.probes, labels))
        arrays = {"probabilities": self.probabilities, "samples": self.samples}
        return encode(arrays, meta, kind="answers", limit=MAX_PROBE_BYTES)

    @classmethod
    def from_bytes(cls, data: bytes, probes: ProbeSet) -> Self:
        """Decode what `to_bytes` returned; raises an error unless they can be answers."""
        arrays, meta = decode(data, kind="answers", limit=MAX_PROBE_BYTES)
        file = convert_file(meta, _AnswersFile)
        labels = tuple(decode_names(file.labels, "label"))
        shape = len(probes), len(labels)
        check_arrays(arrays, {"probabilities": shape, "samples": shape[1:]})
        answers = cls(file.node, file.probes, labels, arrays["probabilities"], arrays["samples"])
        answers.check(probes)
        return answers

    def check(self, probes: ProbeSet) -> None:
        """Raise `FusionError` unless these can be answers to the probes."""
        probes.index(self.node)
        if self.probes != probes.digest:
            raise FusionError(
                f"answers of node {self.node!r}: expected answers to the probes "
                f"{probes.digest[:12]}, got some to {self.probes[:12]!r}"
            )
        if not self.labels or not set(self.labels) <= set(probes.labels):
            raise FusionError(
                f"answers of node {self.node!r}: expected classes of the probes, got "
                f"{str(self.labels)[:80]}"
            )
        given, shape = self.probabilities, (len(probes), len(self.labels))
        if given.shape != shape or self.samples.shape != shape[1:]:
            raise FusionError(
                f"answers of node {self.node!r}: expected {shape[0]} probes x {shape[1]} classes, "
                f"got {given.shape} and samples {self.samples.shape}"
            )
        fine = bool(((given >= 0.0) & (given <= 1.0)).all())
        if not fine or abs(given.sum(axis=1) - 1.0).max(initial=0.0) > SUM_ERROR:
            raise FusionError(
                f"answers of node {self.node!r}: expected probabilities that sum to one"
            )
        if not ((self.samples > 0.0) & (self.samples <= MAX_SAMPLES)).all():
            raise FusionError(
                f"answers of node {self.node!r}: expected more than 0 and at most "
                f"{MAX_SAMPLES} samples of each class"
            )

    def wide(self, probes: ProbeSet) -> tuple[Floats, Floats]:
        """Return probes x all classes, NaN for absent ones, and samples of all classes."""
        place = {label: k for k, label in enumerate(probes.labels)}
        columns = [place[label] for label in self.labels]
        table = np.full((len(probes), len(probes.labels)), np.nan)
        table[:, columns] = self.probabilities
        samples = np.zeros(len(probes.labels))
        samples[columns] = self.samples
        return table, samples


def answer(model: Any, reading: dict[Hashable, float], labels: Sequence[Label]) -> list[float]:
    """Return probabilities of the labels that sum to one; all alike if the model says nothing."""
    try:
        said = model.predict_proba_one(reading)
    except NotImplementedError:  # some models of River only name a class
        said = {model.predict_one(reading): 1.0}
    given = [float(said.get(label) or 0.0) for label in labels]
    given = [p if p > 0.0 and math.isfinite(p) else 0.0 for p in given]
    total = math.fsum(given)
    return [p / total for p in given] if total > 0.0 else [1.0 / len(labels)] * len(labels)


def newest_answers(probes: ProbeSet, answers: Iterable[ProbeAnswers]) -> list[ProbeAnswers]:
    """Return the checked answers of each node, those with the most samples, sorted by its name."""
    by_node: dict[str, ProbeAnswers] = {}
    for each in answers:
        each.check(probes)
        other = by_node.get(each.node)
        if other is None or _rank(each) > _rank(other):
            by_node[each.node] = each
    return [by_node[node] for node in sorted(by_node)]


def _rank(answers: ProbeAnswers) -> tuple[float, bytes]:
    return float(answers.samples.sum()), hashlib.sha256(answers.to_bytes()).digest()


# --- agreement -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ProbeConsensus:
    """What the others say to the probes, as one node may learn it.

    Parameters
    ----------
    labels
        Classes that enough of the others have.
    probabilities
        Probes x labels; rows sum to one, or are NaN where nobody may speak.
    voices
        How many nodes had a say at each probe.

    """

    labels: tuple[Label, ...]
    probabilities: Floats
    voices: Ints


def consensus(
    node: str,
    probes: ProbeSet,
    answers: Iterable[ProbeAnswers],
    *,
    aggregator: str = "trimmed_mean",
    quorum: int = 1,
) -> ProbeConsensus:
    """Combine the answers of all other nodes, for one of them.

    Logarithms of probabilities are combined class by class over those who have the class, weighted
    by how many readings of it they have learnt, as far as counts are believed. To a probe that was
    drawn from a class only nodes that have this class have something to say. A pure function of
    the set of answers.

    Parameters
    ----------
    node
        For whom; its own answers do not count.
    probes, answers
        The probes and what all nodes say to them.
    aggregator
        How values of nodes become one, see `streamlvq.fuse`; the default and "median" withstand one
        liar among at least three.
    quorum
        Nodes that must have a class before others are taught it.

    """
    chosen = known_aggregator(aggregator)
    others = [
        each
        for each in newest_answers(probes, answers)
        if each.node != node
        and probes.group[probes.index(each.node)] == probes.group[probes.index(node)]
    ]
    count, classes = len(probes), len(probes.labels)
    logs, weights = np.full((len(others), count, classes), np.nan), np.zeros((len(others), classes))
    for j, each in enumerate(others):
        table, samples = each.wide(probes)
        logs[j] = np.log(np.maximum(table, FLOOR))
        weights[j] = np.where(probes.trusted[probes.index(each.node)], samples, 0.0)
    weights = np.stack([believed_counts(column, chosen) for column in weights.T], axis=1)
    may_speak = weights[:, probes.origin] > 0  # nodes x probes
    said = chosen.combine(logs, weights[:, None, :] * may_speak[:, :, None])
    shared = (weights > 0).sum(axis=0) >= max(quorum, 1)
    return ProbeConsensus(
        tuple(label for label, ours in zip(probes.labels, shared, strict=True) if ours),
        _softmax(said[:, shared]),
        np.where(shared[probes.origin], may_speak.sum(axis=0), 0),
    )


def _softmax(logs: Floats) -> Floats:
    """Return probabilities from logarithms; NaN has none, unless all are NaN."""
    if not logs.size:
        return logs
    top = np.max(np.where(np.isnan(logs), -np.inf, logs), axis=1, keepdims=True)
    known = np.isfinite(top)
    shares = np.where(
        np.isnan(logs), 0.0, np.exp(np.where(known, logs - np.where(known, top, 0.0), 0.0))
    )
    total = shares.sum(axis=1, keepdims=True)
    return np.where(known, shares / np.where(total > 0, total, 1.0), np.nan)


def discrepancy(
    probes: ProbeSet, answers: Iterable[ProbeAnswers]
) -> tuple[tuple[str, ...], Floats]:
    """Return the names of the nodes, and the mean Jensen-Shannon divergence of every two.

    In bits: 0 for nodes that say the same, 1 for those that never agree; NaN if they share less
    than two classes. Over the probes of shared classes, given that one of these is right; both
    directions are in it, so a sum over edges must count each edge once.
    """
    known = newest_answers(probes, answers)
    tables = [each.wide(probes)[0] for each in known]
    found = np.zeros((len(known), len(known)))
    for i, ours in enumerate(tables):
        for j in range(i):
            found[i, j] = found[j, i] = _divergence(ours, tables[j], probes.origin)
    return tuple(each.node for each in known), found


def _divergence(one: Floats, other: Floats, origin: Ints) -> float:
    shared = np.isfinite(one[0]) & np.isfinite(other[0])
    if shared.sum() < 2:
        return math.nan
    asked = np.ix_(shared[origin], shared)
    return float(jensen_shannon(_given(one[asked]), _given(other[asked])).mean())


def _given(table: Floats) -> Floats:
    """Return probabilities given that one of these classes is right; no probability vanishes."""
    table = np.maximum(table, FLOOR)
    given: Floats = table / table.sum(axis=1, keepdims=True)
    return given


def jensen_shannon(one: Floats, other: Floats) -> Floats:
    """Return the Jensen-Shannon divergence of rows of probabilities, in bits.

    Examples
    --------
    >>> one, other = np.array([[0.5, 0.5], [1.0, 0.0]]), np.array([[0.5, 0.5], [0.0, 1.0]])
    >>> jensen_shannon(one, other).tolist()
    [0.0, 1.0]

    """
    middle = 0.5 * (one + other)
    divergence: Floats = 0.5 * (_relative(one, middle) + _relative(other, middle))
    return np.clip(divergence, 0.0, 1.0)


def _relative(one: Floats, other: Floats) -> Floats:
    """Return the relative entropy of rows, in bits."""
    safe = np.where(one > 0, one / np.where(other > 0, other, 1.0), 1.0)
    entropy: Floats = (one * np.log2(safe)).sum(axis=1)
    return entropy


# --- learning ------------------------------------------------------------------------------------


def learn_from_probes(
    model: Any,
    node: str,
    probes: ProbeSet,
    answers: Iterable[ProbeAnswers],
    *,
    readings_per_probe: float = READINGS_PER_PROBE,
    aggregator: str = "trimmed_mean",
    quorum: int = 1,
) -> Any:
    """Return a copy of a model that has learnt what the other nodes say to the probes.

    Each probe is learnt as every class to which the others give at least a twentieth, with a weight
    of `readings_per_probe` times its probability. Models whose `learn_one` has no `w` learn whole
    readings: of each class, whenever the weights since the last add up to one.

    Keep the copy apart, as a candidate beside the local model: what it says is not the node's own
    knowledge and must not be published as such.

    Parameters
    ----------
    model
        Any classifier of River.
    node
        Its node.
    probes, answers
        The probes and what all nodes say to them.
    readings_per_probe
        As how many readings a probe counts: how strongly nodes are drawn together.
    aggregator, quorum
        See `consensus`.

    """
    if not 0.0 < readings_per_probe <= MAX_READINGS_PER_PROBE:
        raise FusionError(
            f"readings_per_probe: expected more than 0 and at most {MAX_READINGS_PER_PROBE:g}, "
            f"got {readings_per_probe!r}"
        )
    agreed = consensus(node, probes, answers, aggregator=aggregator, quorum=quorum)
    learner = copy.deepcopy(model)
    weighted = takes_weights(learner)
    owed = dict.fromkeys(agreed.labels, 0.5)  # readings of each class, to be learnt as whole ones
    for k, reading in enumerate(probes.readings(node)):
        for label, share in _lessons(agreed, k) if reading else ():
            if weighted:
                learner.learn_one(reading, label, w=readings_per_probe * share)
                continue
            owed[label] += readings_per_probe * share
            while owed[label] >= 1.0:
                learner.learn_one(reading, label)
                owed[label] -= 1.0
    return learner


def _lessons(agreed: ProbeConsensus, probe: int) -> list[tuple[Label, float]]:
    """Return the classes that a probe may be of, and their shares.

    Class statistics count a reading whatever it weighs, so tiny shares would spoil them.
    """
    if not agreed.voices[probe]:
        return []
    row = agreed.probabilities[probe]
    kept = np.where(row >= MIN_LESSON, row, 0.0)
    shares = (kept / max(float(kept.sum()), MIN_LESSON)).tolist()
    return [(label, p) for label, p in zip(agreed.labels, shares, strict=True) if p > 0.0]


def takes_weights(model: Any) -> bool:
    """Return True if the model, inside pipelines and wrappers, learns readings with weights.

    Examples
    --------
    >>> from river import naive_bayes, preprocessing, tree
    >>> takes_weights(tree.HoeffdingTreeClassifier()), takes_weights(naive_bayes.GaussianNB())
    (True, False)
    >>> takes_weights(preprocessing.StandardScaler() | tree.HoeffdingTreeClassifier())
    True

    """
    return "w" in inspect.signature(innermost_model(model).learn_one).parameters
