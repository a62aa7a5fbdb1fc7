"""`PoolClassifier`: the local model beside fixed candidates, pooled log-linearly."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, cast

import numpy as np

from streamlvq.arrays import Bools, Floats, Ints, Label, Reading, Rows
from streamlvq.errors import SnapshotError
from streamlvq.estimator import (
    DEFAULT_LIMITS,
    EstimatorState,
    ModelLock,
    StateLimits,
    build_estimator,
    exclusive,
)
from streamlvq.kernels import kernels
from streamlvq.models.base import ArrayClassifier, LVQClassifier
from streamlvq.models.committee import LVQCommittee
from streamlvq.models.insight import Closest
from streamlvq.models.scored import Scored, ScoredOpinions
from streamlvq.models.vectorizer import Arrays, KernelBatch, dictionary_maker, no_pool
from streamlvq.records import Explanation, Prototype
from streamlvq.text import entry

MAX_WEIGHT = 3.0  # of a candidate or of the local model
MAX_UNSEEN = 6.0  # of either sign
MAX_WEIGHTS = 64  # of candidates
LOCAL, UNSEEN = "local", "unseen"  # names of the other weights
SHARE_EXPONENT = 0.5  # of a class's share in the fleet, in the mass that it has while unseen
LEAST_RELATIVE_SHARE = 0.1  # of the average share: rarer classes count as this
BATCH_MIN_ROWS = 2  # asking a single one with arrays costs as much as one by one
_SCRATCH = frozenset(  # made anew in copies: views of each other
    ("_opinions", "_foreign", "_own", "_held", "_row", "_by_label", "_asked", "_lent")
)


@dataclass(frozen=True)
class PoolWeights:
    """Exponents of the opinions in a pool.

    Parameters
    ----------
    candidates
        Of each candidate, by name.
    local
        Of the local model, for the classes that it has learnt.
    unseen
        Logarithm of the mass of a class that the local model has not learnt.

    """

    candidates: Mapping[str, float]
    local: float
    unseen: float

    def vector(self, names: Iterable[str]) -> Floats:
        """Return the weights of these candidates (0 for unknown ones), `local` and `unseen`."""
        own = [self.candidates.get(name, 0.0) for name in names]
        return np.array([*own, self.local, self.unseen])

    @classmethod
    def of(cls, names: Sequence[str], vector: Floats) -> Self:
        """Return the weights of a vector as `vector` returns it."""
        *own, local, unseen = vector.tolist()
        return cls(dict(zip(names, own, strict=True)), local, unseen)

    def named(self) -> dict[str, float]:
        """Return all weights by name, those of the local model and of unseen classes as well."""
        return {**self.candidates, LOCAL: self.local, UNSEEN: self.unseen}

    @classmethod
    def from_names(cls, named: Mapping[str, float]) -> Self:
        """Return the weights of what `named` returned; raise ValueError if they are out of bounds."""
        own = {name: float(value) for name, value in named.items()}
        local, unseen = own.pop(LOCAL, math.nan), own.pop(UNSEEN, math.nan)
        good = all(0.0 <= value <= MAX_WEIGHT for value in (*own.values(), local))
        if not good or not abs(unseen) <= MAX_UNSEEN or len(own) > MAX_WEIGHTS:
            raise ValueError(
                f"expected at most {MAX_WEIGHTS} weights from 0 to {MAX_WEIGHT:g} with those of "
                f"{LOCAL!r} and {UNSEEN!r}, got {str(dict(named))[:200]}"
            )
        return cls(own, local, unseen)


@dataclass(frozen=True)
class PoolReport:
    """How the weights of a pool were found; `print` shows it.

    Parameters
    ----------
    node
        The node it was made for.
    records
        Readings of the node by which candidates were judged before they had learnt them; 0: the
        weights are those of other nodes, or what was measured on other fleets.
    weights
        Of every candidate that was kept, of the local model and of unseen classes.
    dropped
        Candidates that would have added too little.
    losses
        Log loss per reading, in nats, of the local model alone, of the pool, and of all candidates
        with the weights that suit these records best. The readings are judged with all classes of
        the node, and again with some of them hidden in turn, as if it had never seen them.
    left_out
        True if nothing of the node was believed: it decides with its own model alone.

    """

    node: str
    records: int
    weights: Mapping[str, float]
    dropped: tuple[str, ...]
    losses: Mapping[str, float]
    left_out: bool = False

    def __str__(self) -> str:
        if self.left_out:
            return f"node {self.node!r} was left out: its own model decides alone"
        weights = ", ".join(f"{name} {value:.2f}" for name, value in self.weights.items())
        lines = [entry("weights", weights)]
        if self.losses:
            losses = ", ".join(f"{name} {value:.3f}" for name, value in self.losses.items())
            lines.append(entry("loss", f"{losses} (log loss on {self.records} readings)"))
        else:
            lines.append(entry("note", "no readings to judge by: weights of other nodes or fleets"))
        if self.dropped:
            lines.append(entry("dropped", ", ".join(self.dropped)))
        return "\n".join(lines)


class PoolClassifier(ArrayClassifier):
    """A local model that learns, pooled with fixed candidates that other nodes contributed to.

    Its probabilities are those of a log-linear pool: the product of all opinions, each to the power
    of its weight. About classes that the local model has not learnt only the candidates have
    opinions; about those that a candidate does not know it leaves the word to the local model. `learn_one` first notes what each of them said about the reading, so that weights can
    be fitted on readings before they are learnt, then teaches the local model alone. Made by
    `Fused.for_node(name, local=model)`, which fits the weights.

    Parameters
    ----------
    local
        The model of the node: one of streamlvq, or any classifier of River.
    candidates
        Fixed models of streamlvq by name, in the coordinates of the node's sensors.
    weights
        How much each of them counts.
    shares
        How frequent each class is in the fleet, from 0 to 1: the mass of a class that the local
        model has not learnt grows with the root of its share. None if they are taken as equal.
    fitted
        Weights that suit the node's own records alone: what it tells other nodes. None before
        there are any.

    Examples
    --------

    >>> import streamlvq
    >>> from streamlvq.models.pool import PoolClassifier, PoolWeights

    >>> local, other = streamlvq.GLVQ(), streamlvq.GLVQ()
    >>> for k in range(20):
    ...     for y, x in {"ham": 1.0, "spam": 4.0, "egg": 7.0}.items():
    ...         other.learn_one({"x": x + k % 5 / 10}, y)
    ...         if y != "egg":
    ...             local.learn_one({"x": x + k % 5 / 10}, y)
    >>> model = PoolClassifier(local, {"other": other}, PoolWeights({"other": 0.5}, 0.5, 0.0))
    >>> local.predict_one({"x": 7.1}), model.predict_one({"x": 7.1})
    ('spam', 'egg')

    """

    def __init__(
        self,
        local: Any,
        candidates: Mapping[str, Any],
        weights: PoolWeights,
        shares: Mapping[Label, float] | None = None,
        fitted: PoolWeights | None = None,
    ) -> None:
        self.local, self.candidates, self.weights = local, dict(candidates), weights
        self.fitted = fitted
        self.shares = None if shares is None else dict(shares)
        self.report: PoolReport | None = None
        self._lock = ModelLock()
        self._labels: list[Label] = []
        self._among: dict[Label, int] = {}
        self._add(labels_of(local))
        for model in self.candidates.values():
            self._add(model.classes)
        self._models = [*self.candidates.values(), local]
        *own, self._local_weight, _ = weights.vector(self.candidates).tolist()
        self._exponents = np.array(own)
        self._speaks = self._find_speaker()
        self._scored = ScoredOpinions()
        self._kept: Reading | None = None
        self._allocate()

    def _add(self, labels: Iterable[Label]) -> None:
        new = [label for label in dict.fromkeys(labels) if label not in self._among]
        self._labels = [*self._labels, *new]  # another list: wrappers compare it by identity
        self._among = {label: code for code, label in enumerate(self._labels)}

    def _allocate(self) -> None:
        """Make arrays for one reading with a column for each class."""
        count = len(self._labels)
        self._opinions = np.full((len(self._models), 1, count), np.nan)
        self._foreign, self._own = self._opinions[:-1], self._opinions[-1]
        self._held, self._row = np.zeros(count, np.int64), np.empty((1, count))
        self._unseen = self.weights.unseen + unseen_offsets(self._labels, self.shares)
        self._lent = np.empty((len(self._models), 0, count))
        self._by_label = dictionary_maker(self._labels)
        self._asked = [
            (model.predict_labels_one, self._opinions[m, 0], self._places(model.classes))
            for m, model in enumerate(self.candidates.values())
        ]
        self._local_labels: list[Label] = []
        self._local_places = self._places(())
        self._kept = None

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in _SCRATCH}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._allocate()

    def _places(self, labels: Sequence[Label]) -> slice | Ints:
        """Return where the columns of labels are; a slice, which is faster, if they come first."""
        places = [self._among[label] for label in labels]
        if places == list(range(len(places))):
            return slice(0, len(places))
        return np.array(places, np.int64)

    # --- River's interface -----------------------------------------------------------------------

    @property
    def classes(self) -> tuple[Label, ...]:
        """Labels that the local model has learnt or a candidate knows."""
        return tuple(self._labels)

    @property
    def known_labels(self) -> list[Label]:
        """Labels, as a list that belongs to the model."""
        return self._labels

    @property
    def features(self) -> tuple[Hashable, ...]:
        """Features of the local model."""
        return tuple(self.local.features)

    @property
    def samples(self) -> int:
        """Number of labelled samples that the local model has learnt."""
        return int(self.local.samples)

    @exclusive
    def learn_one(self, x: Reading, y: Label, w: float = 1.0) -> None:
        """Note every opinion about a reading, then teach it to the local model."""
        if w == 0.0:
            return
        self._kept = None
        self.score_one(x, y)
        if w == 1.0:
            self.local.learn_one(x, y)
        else:
            self.local.learn_one(x, y, w=w)
        if y not in self._among:
            self._note_local(labels_of(self.local))

    @exclusive
    def score_one(self, x: Reading, y: Label) -> None:
        """Note every opinion about a labelled reading, to fit weights by; nothing is learnt.

        The first run of equal labels is left out: what came before the candidates were fixed may
        have been a part of the same segment.
        """
        if self._scored.begins(y, y in self._among) and self._ask(x):
            self._scored.add(self._opinions[:, 0], self._held, self._among[y])

    def scored(self) -> tuple[Scored, ...]:
        """Return the latest opinions noted, since the pool knows the classes that it knows."""
        return tuple(self._scored.readings)

    def observe_one(self, x: Reading, **keywords: Any) -> None:
        """Pass an unlabelled reading to the local model."""
        if hasattr(self.local, "observe_one"):
            self.local.observe_one(x, **keywords)

    @exclusive
    def keep_answers(self, x: Reading | None) -> None:
        """Ask all models about a reading, and do not ask again while this very one is given.

        For a caller who predicts the same reading several times and neither changes it nor teaches
        the local model in between. None forgets the answers.
        """
        self._kept = None
        if x is not None and self._ask(x):
            self._kept = x

    def follow_local(self) -> None:
        """Take note of the classes that the local model has learnt without the pool."""
        self._kept = None
        labels = labels_of(self.local)
        if len(labels) > len(self._local_labels):
            self._note_local(labels)

    def _ask(self, x: Reading) -> bool:
        """Write every opinion about a reading; return False if nobody knows anything yet."""
        if self._kept is not None and x is self._kept:
            return True
        if not self._labels:
            return False
        labels, probabilities = answer_of(self.local, x)  # first: it may know a new class
        if labels != self._local_labels:  # models of River also change the order
            self._note_local(labels)
        self._own[0, self._local_places] = probabilities
        for ask, row, places in self._asked:
            answer = ask(x)
            if answer is not None:
                row[places] = answer[1]
        return True

    def _note_local(self, labels: Sequence[Label]) -> None:
        """Take note of the classes that the local model has learnt."""
        if not all(label in self._among for label in labels):
            self._add(labels)
            self._allocate()
            self._scored.clear()  # earlier opinions have no column for the new class
        self._local_labels, self._local_places = list(labels), self._places(labels)
        self._held.fill(0)
        self._held[self._local_places] = 1

    def _pool(self, foreign: Rows, own: Rows, held: Ints, out: Rows) -> None:
        kernels("candidates").pool_candidates(
            foreign, self._exponents, own, held, self._local_weight, self._unseen, out
        )

    @exclusive
    def predict_labels_one(self, x: Reading) -> tuple[list[Label], Rows] | None:
        """Return labels and an array of their probabilities; None before anything is learnt.

        Both belong to the model and are valid until its next call.
        """
        if not self._ask(x):
            return None
        self._pool(self._foreign, self._own, self._held, self._row)
        return self._labels, self._row[0]

    def predict_proba_one(self, x: Reading) -> dict[Label, float]:
        """Return the probability of every class that the local model or a candidate knows."""
        answer = self.predict_labels_one(x)
        return {} if answer is None else self._by_label(*answer[1].tolist())

    def predict_one(self, x: Reading) -> Label | None:
        """Return the most probable class; None before anything is known."""
        answer = self.predict_labels_one(x)
        return None if answer is None else answer[0][int(answer[1].argmax())]

    # --- arrays ----------------------------------------------------------------------------------

    @exclusive
    def learn_array(
        self, X: Any, y: Any, features: Sequence[Hashable] | None = None, *, w: Any = None
    ) -> None:
        """Teach rows to the local model; their opinions are not noted."""
        self.local.learn_array(X, y, features, w=w)
        self._kept = None
        self._note_local(labels_of(self.local))

    @exclusive
    def predict_proba_array(self, X: Any, features: Sequence[Hashable] | None = None) -> Rows:
        """Return class probabilities: one row per reading, one column per entry of `classes`."""
        opinions, held = self.opinions_array(X, features)
        out = np.empty(opinions.shape[1:])
        self._pool(opinions[:-1], opinions[-1], held.astype(np.int64), out)
        return out

    def opinions_array(
        self, X: Any, features: Sequence[Hashable] | None = None
    ) -> tuple[Rows, Bools]:
        """Return all opinions (models x rows x classes), and the classes that the last one holds.

        The local model is the last one; NaN stands for classes that a model does not know.
        """
        return opinions_of(self._models, self._among, X, features)

    # --- many readings in one kernel call, see `streamlvq.models.vectorizer.BatchPart` -----------
    #
    # The model that speaks takes part in the call; the probabilities are computed before.

    def rows_ready(self, batch: KernelBatch) -> int:
        """Return how many rows the kernel can process: all if the pool is fixed, or none."""
        speaker = self.speaker
        few = batch.remaining < BATCH_MIN_ROWS or len(self._labels) < 2
        if batch.learns or few or speaker is None or len(speaker.classes) < 2:
            return 0
        return batch.remaining

    @exclusive
    def lend(self, batch: KernelBatch) -> Arrays:
        """Return the arrays of the speaker, and the probabilities of the pool for the rows."""
        self.follow_local()
        readings, speaker = batch.readings, self._ask_speaker()
        self._lent, empty = self._ask_rows(readings.rows[batch.rows], readings.features)
        given = np.empty(self._lent.shape[1:])
        self._pool(self._lent[:-1], self._lent[-1], self._held, given)
        codes = np.array([self._among[label] for label in speaker.known_labels], np.int64)
        memory = speaker.lend(batch)[: -len(no_pool())]
        return (*memory, given, codes, empty.astype(np.int64))

    def _ask_rows(self, rows: Rows, features: Sequence[Hashable]) -> tuple[Rows, Bools]:
        """Return every opinion on rows, and which rows are empty for all models."""
        opinions = np.full((len(self._models), len(rows), len(self._labels)), np.nan)
        empty = np.ones(len(rows), bool)
        for m, model in enumerate(self._models):
            if isinstance(model, LVQClassifier):
                found, nothing = model.answer_rows(rows, features)
                opinions[m][:, self._places(model.known_labels)] = found
            else:
                nothing = self._ask_one_by_one(model, rows, features, opinions[m])
            empty &= nothing
        return opinions, empty

    def _ask_one_by_one(
        self, model: Any, rows: Rows, features: Sequence[Hashable], out: Rows
    ) -> Bools:
        """Write the opinions of a model whose arrays could differ in the last bit."""
        empty = np.zeros(len(rows), bool)
        for k, row in enumerate(rows.tolist()):
            labels, probabilities = answer_of(model, dict(zip(features, row, strict=True)))
            out[k, self._places(labels)] = probabilities
            empty[k] = _was_empty(model)
        return empty

    @exclusive
    def settle(self, batch: KernelBatch, lent: Arrays) -> None:
        """Note every opinion about labelled rows after the kernel call."""
        given = zip(batch.readings.labels[batch.rows], batch.duplicates[batch.rows], strict=True)
        for k, (y, duplicate) in enumerate(given):
            if y is None or duplicate:
                continue
            if self._scored.begins(y, y in self._among):
                self._scored.add(self._lent[:, k], self._held, self._among[y])

    # --- what it says about itself ---------------------------------------------------------------

    def _find_speaker(self) -> int | None:
        """Return the place of the model with prototypes that knows most classes.

        Of several that know as many it is the heaviest; the local one wins a tie.
        """
        weights: list[float] = [*self._exponents.tolist(), self._local_weight]
        speakers = [prototype_model(model) for model in self._models]
        known = [0 if each is None else len(each.classes) for each in speakers]
        places: list[int] = [len(weights) - 1, *range(len(weights) - 1)]
        best = max(places, key=lambda k: (known[k], weights[k]))
        return best if known[best] else None

    @property
    def speaker(self) -> LVQClassifier | None:
        """The model with prototypes that explains decisions: the heaviest that knew all classes.

        It was chosen when the pool was made, and stays.
        """
        return None if self._speaks is None else prototype_model(self._models[self._speaks])

    def _ask_speaker(self) -> LVQClassifier:
        speaker = self.speaker
        if speaker is None:
            raise ValueError("expected a model with prototypes in the pool, got none")
        return speaker

    @property
    def has_relsim(self) -> bool:
        """Whether the speaker decides by distances."""
        speaker = self.speaker
        return speaker is not None and type(speaker).decides_by_distance()

    def prototypes(self) -> list[Prototype]:
        """Return the prototypes of the speaker."""
        return self._ask_speaker().prototypes()

    def relevances(self, label: Label | None = None, *, raw: bool = False) -> dict[Hashable, float]:
        """Return the relevances of the speaker."""
        return self._ask_speaker().relevances(label, raw=raw)

    def relsim_one(self, x: Reading) -> float | None:
        """Return the relative similarity of a reading, as the speaker sees it."""
        return self._ask_speaker().relsim_one(x)

    def last_relsim(self, label: Label | None = None) -> float:
        """Return the relative similarity of the last predicted reading for a label.

        Where the speaker is closer to another class than the pool decided, or does not know that
        class, it is the lead of the label's probability over that of any other class.
        """
        pair = self.last_closest()
        if label is None or pair is None or self._labels[pair.winner] == label:
            return self._ask_speaker().last_relsim()
        if self.last_was_empty() or label not in self._among:
            return 0.0
        p, code = self._row[0], self._among[label]
        others = max((float(p[c]) for c in range(len(p)) if c != code), default=0.0)
        return max(float(p[code]) - others, 0.0)

    def last_closest(self) -> Closest | None:
        """Return the closest prototypes of the last predicted reading, with classes of the pool."""
        speaker = self._ask_speaker()
        pair = speaker.last_closest()
        if pair is None:
            return None
        winner, runner_up = (
            self._among[speaker.known_labels[code]] for code in (pair.winner, pair.runner_up)
        )
        return pair._replace(winner=winner, runner_up=runner_up)

    def last_separation(self, pair: Closest) -> float:
        """Return the distance between the closest prototypes that `last_closest` returned."""
        speaker = self._ask_speaker()
        winner, runner_up = (
            speaker.class_number(self._labels[code]) for code in (pair.winner, pair.runner_up)
        )
        return speaker.last_separation(pair._replace(winner=winner, runner_up=runner_up))

    def last_was_empty(self) -> bool:
        """Return True if the last predicted reading had none of the features of any model."""
        return all(_was_empty(model) for model in self._models)

    def explain_one(self, x: Reading) -> Explanation:
        """Explain a decision by the prototypes of the speaker."""
        return self._ask_speaker().explain_one(x)

    # --- state -----------------------------------------------------------------------------------

    @exclusive
    def state(
        self, *, readings: bool = True, limits: StateLimits = DEFAULT_LIMITS
    ) -> EstimatorState:
        """Return a copy of all models and weights; what was scored is in `memory_state`.

        Parameters
        ----------
        readings
            Include the readings that the local model keeps for rehearsal. Candidates are as they
            travel in any case.
        limits
            Limits that `from_state` will use.

        """
        parts = {
            f"candidate{k}": model.state(readings=False, limits=limits)
            for k, model in enumerate(self.candidates.values())
        }
        if self.local is not None:
            parts[LOCAL] = self.local.state(readings=readings, limits=limits)
        shares = {} if self.shares is None else self.shares
        extra = {
            "candidates": [*self.candidates],
            "classes": [*self._labels],
            "shared": [*shares],
        }
        arrays = {
            "weights": self.weights.vector(self.candidates),
            "fitted": np.array([]) if self.fitted is None else self.fitted.vector(self.candidates),
            "shares": np.array([*shares.values()], float),
        }
        return EstimatorState(type(self).__name__, {}, arrays, extra, parts)

    @classmethod
    def from_state(cls, state: EstimatorState, *, limits: StateLimits = DEFAULT_LIMITS) -> Self:
        """Validate a state, then rebuild the pool bit for bit."""
        local = state.parts.get(LOCAL)
        return cls.from_state_beside(
            state, None if local is None else build_estimator(local, limits=limits), limits=limits
        )

    @classmethod
    def from_state_beside(
        cls, state: EstimatorState, local: Any, *, limits: StateLimits = DEFAULT_LIMITS
    ) -> Self:
        """Validate a state, then rebuild the pool bit for bit with a local model that is at hand.

        Parameters
        ----------
        state
            A state returned by `state`, with or without the part `"local"`.
        local
            The local model, as it was when the state was taken.
        limits
            Upper bound on what the candidates may allocate.

        """
        names = _checked_names(state.extra)
        vector, fitted = _checked_weights(names, state.arrays)
        wanted = {f"candidate{k}" for k in range(len(names))}
        if state.parts.keys() - {LOCAL} != wanted:
            raise SnapshotError(
                f"pool: expected the parts {sorted(wanted)[:9]}, got {sorted(state.parts)[:9]}"
            )
        room = limits.shared(len(names))
        models = [
            _checked_candidate(build_estimator(state.parts[f"candidate{k}"], limits=room))
            for k in range(len(names))
        ]
        pool = cls(
            local,
            dict(zip(names, models, strict=True)),
            PoolWeights.of(names, vector),
            _checked_shares(state.extra["shared"], state.arrays["shares"]),
            None if fitted is None else PoolWeights.of(names, fitted),
        )
        pool._order(state.extra["classes"])
        return pool

    def _order(self, labels: Sequence[Label]) -> None:
        """Give the classes the order that they had."""
        if set(labels) != set(self._labels) or len(labels) != len(self._labels):
            raise SnapshotError("pool: expected the classes of its models, got others")
        self._labels, self._among = [], {}
        self._add(labels)
        self._allocate()

    @exclusive
    def memory_state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return a copy of what was scored, and which model speaks: arrays, and values for JSON."""
        arrays, extra = self._scored.state(len(self._models), len(self._labels))
        return arrays, {**extra, "speaks": self._speaks}

    @exclusive
    def restore_memory(self, arrays: Mapping[str, Any], extra: Mapping[str, Any]) -> None:
        """Restore what `memory_state` returned; raise `SnapshotError` if it does not fit."""
        others = dict(extra)
        speaks = others.pop("speaks", -1)
        if speaks is not None and not self._can_speak(speaks):
            raise SnapshotError(f"pool: expected a model with prototypes, got {str(speaks)[:80]!r}")
        scored = ScoredOpinions.restored(arrays, others, self._known_classes())
        self._scored, self._speaks = scored, speaks

    def _known_classes(self) -> Bools:
        """Return which classes each model knows."""
        known = np.zeros((len(self._models), len(self._labels)), bool)
        for m, model in enumerate(self._models):
            known[m, [self._among[label] for label in labels_of(model)]] = True
        return known

    def _can_speak(self, speaks: Any) -> bool:
        known = type(speaks) is int and 0 <= speaks < len(self._models)
        return known and prototype_model(self._models[speaks]) is not None

    def beside(self, local: Any) -> PoolClassifier:
        """Return a pool of another local model with the same candidates and weights."""
        return PoolClassifier(local, self.candidates, self.weights, self.shares, self.fitted)

    def moved_to(self, model: Any) -> Any:
        """Return the other model unchanged: a pool has no wrappers to move."""
        return model

    def __str__(self) -> str:
        own = ", ".join(f"{name} {value:.2f}" for name, value in self.weights.candidates.items())
        return f"PoolClassifier({self.local} {self.weights.local:.2f}, {own})"


def unseen_offsets(labels: Sequence[Label], shares: Mapping[Label, float] | None) -> Floats:
    """Return what the mass of each class differs by from that of a class of average frequency.

    Examples
    --------
    >>> unseen_offsets(["ham", "spam"], {"ham": 0.9, "spam": 0.1}).round(2).tolist()
    [0.29, -0.8]

    """
    if not shares:
        return np.zeros(len(labels))
    known = np.array([shares.get(label, 0.0) for label in labels]) * len(shares)
    offsets: Floats = SHARE_EXPONENT * np.log(np.maximum(known, LEAST_RELATIVE_SHARE))
    return offsets


def opinions_of(
    models: Sequence[Any],
    among: Mapping[Label, int],
    X: Any,
    features: Sequence[Hashable] | None = None,
) -> tuple[Rows, Bools]:
    """Return probabilities (models x rows x classes), and the classes that the last one knows.

    `among` says where the classes are; what a model does not know of them is NaN.
    """
    opinions = np.full((len(models), len(X), len(among)), np.nan)
    held = np.zeros(len(among), bool)
    for m, model in enumerate(models):
        places = np.array([among[label] for label in labels_of(model)], np.int64)
        if len(places) and len(X):
            opinions[m][:, places] = model.predict_proba_array(X, features)
        held[:] = False
        held[places] = True
    return opinions, held


def with_local_opinions(opinions: Rows, held: Bools) -> Rows:
    """Return opinions (models x rows x classes) in which all know the classes that are held.

    `held` are those of the last, the local model. Where a candidate lacks one of them it lets the
    local model speak, as in the kernel of the pool.

    Examples
    --------
    >>> opinions = np.array([[[0.6, 0.4, np.nan]], [[0.5, np.nan, 0.5]]])
    >>> with_local_opinions(opinions, np.array([True, False, True])).round(2).tolist()
    [[[0.3, 0.4, 0.3]], [[0.5, nan, 0.5]]]

    """
    local, unknown = opinions[-1], np.isnan(opinions)
    lacking = unknown & held
    rest = 1.0 - np.where(lacking, local, 0.0).sum(axis=2, keepdims=True)
    inside = 1.0 - np.where(~unknown & ~held, opinions, 0.0).sum(axis=2, keepdims=True)
    found: Rows = np.where(lacking, inside * local, np.where(held, rest, 1.0) * opinions)
    return found


def prototype_model(model: Any) -> LVQClassifier | None:
    """Return the model whose prototypes and stored readings explain the decisions of a model.

    Of a committee or a pool it is the one that speaks for it; None if there is none.
    """
    # `type`, because `isinstance` looks through wrappers
    if issubclass(type(model), LVQClassifier):
        return cast(LVQClassifier, model)
    if issubclass(type(model), (LVQCommittee, PoolClassifier)):
        speaker: LVQClassifier | None = model.speaker
        return speaker
    return None


def labels_of(model: Any) -> Sequence[Label]:
    """Return the labels that a model says it knows; River's classifiers say nothing."""
    classes: Sequence[Label] = getattr(model, "classes", ())
    return classes


def answer_of(model: Any, x: Reading) -> tuple[list[Label], Any]:
    """Return the labels and probabilities of any classifier; both are empty if it knows nothing."""
    if hasattr(model, "predict_labels_one"):
        answer = model.predict_labels_one(x)
        return ([], []) if answer is None else answer
    found = {} if model is None else model.predict_proba_one(x)
    return [*found], [*found.values()]


def _was_empty(model: Any) -> bool:
    return bool(model.last_was_empty()) if hasattr(model, "last_was_empty") else False


def without_local(state: EstimatorState) -> EstimatorState:
    """Return the state of a pool without that of its local model, see `from_state_beside`."""
    return replace(state, parts={k: part for k, part in state.parts.items() if k != LOCAL})


def _checked_names(extra: Mapping[str, Any]) -> Sequence[str]:
    """Return the names of the candidates."""
    if extra.keys() != {"candidates", "classes", "shared"}:
        raise SnapshotError(f"pool: expected candidates, classes, shared, got {sorted(extra)[:9]}")
    names: Sequence[str] = extra["candidates"]
    good = all(isinstance(name, str) and name not in {LOCAL, UNSEEN} for name in names)
    if not good or len(set(names)) < len(names) or len(names) > MAX_WEIGHTS:
        raise SnapshotError(
            f"pool: expected up to {MAX_WEIGHTS} names of candidates, got {str(names)[:200]}"
        )
    return names


def _checked_candidate(model: Any) -> Any:
    """Return a candidate; `SnapshotError` unless it gives labels and probabilities by itself."""
    # Of wrappers only a transform of features gives labels and probabilities at once.
    if not hasattr(model, "predict_labels_one") or type(model) is PoolClassifier:
        raise SnapshotError(f"pool: expected models as candidates, got {type(model).__name__}")
    return model


def _checked_weights(
    names: Sequence[str], arrays: Mapping[str, Any]
) -> tuple[Floats, Floats | None]:
    """Return the weights in force and those fitted by the node itself, if there are any."""
    if arrays.keys() != {"weights", "fitted", "shares"}:
        raise SnapshotError(
            f"pool: expected the arrays weights, fitted, shares, got {sorted(arrays)[:9]}"
        )
    given = [arrays["weights"], *([arrays["fitted"]] if arrays["fitted"].size else [])]
    low = np.array([0.0] * (len(names) + 1) + [-MAX_UNSEEN])
    high = np.array([MAX_WEIGHT] * (len(names) + 1) + [MAX_UNSEEN])
    for weights in given:
        if weights.shape != (len(names) + 2,) or weights.dtype != np.float64:
            raise SnapshotError(f"pool: expected {len(names) + 2} weights, got {weights.shape}")
        if not np.all((weights >= low) & (weights <= high)):
            raise SnapshotError(
                f"pool: expected weights from 0 to {MAX_WEIGHT:g}, got {str(weights)[:200]}"
            )
    return given[0], given[1] if len(given) > 1 else None


def _checked_shares(labels: Sequence[Label], shares: Any) -> dict[Label, float] | None:
    good = shares.shape == (len(labels),) and shares.dtype == np.float64
    if not good or not np.all((shares >= 0.0) & (shares <= 1.0)):
        raise SnapshotError(f"pool: expected {len(labels)} shares of classes from 0 to 1")
    return dict(zip(labels, shares.tolist(), strict=True)) if len(labels) else None
