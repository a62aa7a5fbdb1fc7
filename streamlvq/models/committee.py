"""`LVQCommittee`: several models with pooled probabilities."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from streamlvq.arrays import Array, Label, Reading, Rows
from streamlvq.errors import ParameterError, SnapshotError
from streamlvq.estimator import (
    DEFAULT_LIMITS,
    EstimatorState,
    ModelLock,
    StateLimits,
    check_ours,
    estimator_class,
    exclusive,
)
from streamlvq.kernels import kernels
from streamlvq.models.base import ArrayClassifier, LVQClassifier
from streamlvq.models.glvq import GLVQ, GRLVQ, LGMLVQ
from streamlvq.models.parameters import ABSENT_VALUES, check_choice, documented
from streamlvq.models.vectorizer import dictionary_maker, to_rows
from streamlvq.records import Explanation

LEARNER, FOLLOWER = "learner", "follower"
MAX_WEIGHT = 10.0
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def _default_learner(absent: str) -> LVQClassifier:
    if absent == "zero":  # a matrix over all pairs of words would be huge
        return GRLVQ(absent=absent)
    return LGMLVQ(absent=absent)


def _default_follower(absent: str) -> LVQClassifier:
    return GLVQ(
        absent=absent,
        max_prototypes_per_class=16,
        learning_rate=0.2,
        step_decay=0.99,
        scale_floor=0.0,
        rehearsal=8,
        buffer_size=300,
        half_life=1000,
    )


# Members that every committee has, with their default models.
DEFAULTS = {LEARNER: _default_learner, FOLLOWER: _default_follower}


def member_order(names: Iterable[str]) -> list[str]:
    """Return member names in order: the default members first, the others sorted."""
    found = set(names)
    return [*(name for name in DEFAULTS if name in found), *sorted(found - DEFAULTS.keys())]


class _Scratch:
    """Arrays for one reading at a time, for as long as the classes stay the same."""

    def __init__(self, members: int, labels: list[Label]) -> None:
        self.labels = labels
        self.opinions = np.empty((members, 1, len(labels)))
        self.pooled = np.empty((1, len(labels)))
        self.known = np.array([len(labels)], np.int64)
        self.code = np.empty(1, np.int64)

    @functools.cached_property
    def by_label(self) -> Callable[..., dict[Label, float]]:
        """From probabilities to a dictionary; made when it is needed, as many classes may come."""
        return dictionary_maker(self.labels)


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class LVQCommittee(ArrayClassifier):
    """Committee of models: one that learns metrics, one that adapts quickly, and any others.

    All members learn every sample. Their probabilities are pooled log-linearly; the weights are
    fitted on each sample before it is learnt, so more reliable members count more. Choose it when
    you do not know whether your stream drifts.

    Parameters
    ----------
    {parameters}

    Examples
    --------

    >>> from river import datasets, evaluate, metrics
    >>> import streamlvq

    >>> model = streamlvq.LVQCommittee()
    >>> score = evaluate.progressive_val_score(datasets.ImageSegments(), model, metrics.Accuracy())
    >>> score.get()
    0.94

    A third member:

    >>> model = streamlvq.LVQCommittee(others={"pairs": streamlvq.PairwiseLVQ()})
    >>> list(model.parts), model.weights["pairs"]
    (['learner', 'follower', 'pairs'], 0.3)

    """

    learner: LVQClassifier | None = None
    follower: LVQClassifier | None = None
    others: Mapping[str, LVQClassifier] | None = None
    absent: str = "missing"

    def __post_init__(self) -> None:
        check_choice("LVQCommittee", "absent", self.absent, tuple(ABSENT_VALUES))
        given = {LEARNER: self.learner, FOLLOWER: self.follower, **self._checked_others()}
        for name, member in given.items():
            if member is None and name in DEFAULTS:
                continue
            if not isinstance(member, LVQClassifier):
                raise ParameterError(
                    "LVQCommittee", name, f"expected a model of streamlvq, got {member!r}"
                )
        # Untrained copies: members must see the same classes from the start.
        self._parts: dict[str, LVQClassifier] = {
            name: DEFAULTS[name](self.absent)
            if (member := given[name]) is None
            else member.clone({"absent": "zero"} if self.absent == "zero" else None)
            for name in member_order(given)
        }
        self._members = tuple(self._parts.values())
        # Weights, then the curvature of the log loss along each of them.
        count = len(self._members)
        self._fitted = np.array([1.0 / count] * count + [0.0] * count)
        self._scratch: _Scratch | None = None
        self._lock = ModelLock()

    def __getstate__(self) -> dict[str, Any]:
        # Made anew when it is needed; predictions must leave no trace in a pickle.
        return {**self.__dict__, "_scratch": None}

    def _checked_others(self) -> Mapping[str, Any]:
        others = {} if self.others is None else self.others
        if not isinstance(others, Mapping):
            raise ParameterError(
                "LVQCommittee",
                "others",
                f"expected a mapping from names to models, got {self.others!r}",
            )
        for name in others:
            if name in DEFAULTS or not isinstance(name, str) or not _NAME.fullmatch(name):
                raise ParameterError(
                    "LVQCommittee",
                    "others",
                    "expected names of letters, digits and _ other than "
                    f"{LEARNER} and {FOLLOWER}, got {name!r}",
                )
        return others

    @property
    def features(self) -> tuple[Hashable, ...]:
        """Features seen so far, in the order of the columns."""
        return self._members[0].features

    @property
    def classes(self) -> tuple[Label, ...]:
        """Labels seen so far, in order of first appearance."""
        return self._members[0].classes

    @property
    def samples(self) -> int:
        """Number of labelled samples learnt so far."""
        return self._members[0].samples

    @property
    def parts(self) -> dict[str, LVQClassifier]:
        """Members by name; learner and follower come first."""
        return dict(self._parts)

    @property
    def members(self) -> tuple[LVQClassifier, ...]:
        """Members in the order of `parts`."""
        return self._members

    @property
    def weights(self) -> dict[str, float]:
        """Weight of each member in the pooled probabilities."""
        return dict(zip(self._parts, self._fitted[: len(self._parts)].tolist(), strict=True))

    @exclusive
    def learn_one(self, x: Reading, y: Label, w: float = 1.0) -> None:
        """Learn a labelled reading with weight w, see `LVQClassifier.learn_one`."""
        if w == 0.0:
            return
        first = self._members[0]
        code = first.class_number(y)
        for member in self._members:
            member.learn_one(x, y, w)
        if code >= 0 and len(first.known_labels) > 1:
            scratch = self._scratch_for(first.known_labels)
            for m, member in enumerate(self._members):
                scratch.opinions[m, 0] = member.last_probabilities()
            scratch.code[0] = code
            self._fit(scratch.opinions, scratch.known, scratch.code, scratch.pooled)

    def _scratch_for(self, labels: list[Label]) -> _Scratch:
        """Arrays for the model's own list of labels, which is recognised by its identity."""
        scratch = self._scratch
        if scratch is None or scratch.labels is not labels:
            scratch = self._scratch = _Scratch(len(self._members), labels)
        return scratch

    def _fit(self, opinions: Array, known: Array, codes: Array, pooled: Array) -> None:
        """Update the weights with labelled rows; opinions are members x rows x classes."""
        kernels("pool").fit(opinions, known, codes, self._fitted, pooled)

    @exclusive
    def observe_one(self, x: Reading) -> None:
        """Update the feature scales with an unlabelled reading."""
        for member in self._members:
            member.observe_one(x)

    @exclusive
    def predict_proba_one(self, x: Reading) -> dict[Label, float]:
        """Return the probability of every class learnt so far."""
        scratch = self._scratch_for(self._members[0].known_labels)
        for m, member in enumerate(self._members):
            answer = member.predict_labels_one(x)
            if answer is None:
                return {}
            scratch.opinions[m, 0] = answer[1]
        self._pool(scratch.opinions, scratch.pooled)
        return scratch.by_label(*scratch.pooled.tolist()[0])

    def _pool(self, opinions: Array, pooled: Array) -> None:
        """Make one opinion about each row of opinions that are members x rows x classes."""
        if opinions.shape[2] < 2:
            pooled[:] = opinions[0]
        else:
            kernels("pool").pool(opinions, self._fitted, pooled)

    @exclusive
    def learn_array(
        self, X: Any, y: Any, features: Sequence[Hashable] | None = None, *, w: Any = None
    ) -> None:
        """Learn the rows of an array in order, exactly as `learn_one` would."""
        before = [member.learn_array_watched(X, y, features, w=w) for member in self._members]
        opinions, codes = np.array([each for each, _ in before]), before[0][1]
        # A row is judged by the classes that were known when it came: those with an opinion.
        known = (opinions[0] >= 0.0).sum(axis=1)
        self._fit(opinions, known, codes, np.empty(opinions.shape[1:]))

    @exclusive
    def predict_proba_array(self, X: Any, features: Sequence[Hashable] | None = None) -> Rows:
        """Return class probabilities: one row per reading, one column per entry of `classes`."""
        opinions = np.array([each.predict_proba_array(X, features) for each in self._members])
        pooled = np.empty(opinions.shape[1:])
        self._pool(opinions, pooled)
        return pooled

    @exclusive
    def train(self, X: Any, y: Any, **options: Any) -> None:
        """Train all members on a recorded set, see `LVQClassifier.train`.

        The weights of the members do not change.
        """
        rows, names = to_rows(X, options.pop("features", None), ABSENT_VALUES[self.absent])
        for member in self._members:
            member.train(rows, y, features=names, **options)

    def last_was_empty(self) -> bool:
        """Return True if the last predicted reading had none of the members' features."""
        return all(member.last_was_empty() for member in self._members)

    @exclusive
    def explain_one(self, x: Reading) -> Explanation:
        """Return the explanation of the highest-weighted member that agrees with the decision."""
        label = self.predict_one(x)
        order: list[int] = np.argsort(-self._fitted[: len(self._members)], kind="stable").tolist()
        explanations: list[Explanation] = [self._members[m].explain_one(x) for m in order]
        return next((e for e in explanations if e.label == label), explanations[0])

    # --- state -----------------------------------------------------------------------------------

    @exclusive
    def state(
        self, *, readings: bool = True, limits: StateLimits = DEFAULT_LIMITS
    ) -> EstimatorState:
        """Return a copy of parameters, weights and members (as `parts`).

        Parameters
        ----------
        readings
            Include the readings kept for rehearsal.
        limits
            Limits that `from_state` will use; raises `SnapshotError` if the state exceeds them.

        """
        check_ours(self)
        given = {LEARNER: self.learner, FOLLOWER: self.follower, **(self.others or {})}
        if self.absent == "zero":  # a snapshot has blank members only: those that say so
            given = dict(self._parts)
        _check_fitted(self._fitted, len(self._members))
        return EstimatorState(
            kind=type(self).__name__,
            parameters={
                name: None if model is None else model.blank_state()
                for name, model in given.items()
            },
            arrays={"fitted": self._fitted.copy()},
            parts={
                name: member.state(readings=readings, limits=limits)
                for name, member in self._parts.items()
            },
        )

    @classmethod
    def from_state(cls, state: EstimatorState, *, limits: StateLimits = DEFAULT_LIMITS) -> Self:
        """Validate a state, then rebuild the committee bit for bit.

        Parameters
        ----------
        state
            A state returned by `state`; raises `SnapshotError` if no committee could have it.
        limits
            Upper bound on what each member may allocate.

        """
        names = member_order({*DEFAULTS, *state.parts})
        if state.parameters.keys() != set(names) or state.parts.keys() != set(names):
            raise SnapshotError(
                f"committee: expected the members {names}, got {sorted(state.parts)}"
            )
        committee = cls._from_blanks(state, names)
        committee._parts = {
            name: _member_class(state.parts[name]).from_state(state.parts[name], limits=limits)
            for name in names
        }
        committee._members = tuple(committee._parts.values())
        if any(member.classes != committee.classes for member in committee._members):
            raise SnapshotError("committee: expected members that know the same classes")
        if state.arrays.keys() != {"fitted"}:
            found = sorted(state.arrays)[:9]
            raise SnapshotError(f"committee: expected an array 'fitted', got {found}")
        _check_fitted(state.arrays["fitted"], len(names))
        committee._fitted = state.arrays["fitted"].copy()
        return committee

    @classmethod
    def _from_blanks(cls, state: EstimatorState, names: Sequence[str]) -> Self:
        """Return an untrained committee."""
        given: dict[str, Any] = {
            name: None if blank is None else _member_class(blank).from_blank(blank)
            for name, blank in state.parameters.items()
        }
        others = {name: given[name] for name in names if name not in DEFAULTS}
        zero = all(model is not None and model.absent == "zero" for model in given.values())
        try:
            return cls(
                learner=given[LEARNER],
                follower=given[FOLLOWER],
                others=others or None,
                absent="zero" if zero else "missing",
            )
        except ValueError as error:
            raise SnapshotError(f"committee: {error}") from error

    def moved_to(self, model: Any) -> Any:
        """Return the other model unchanged: a committee has no wrappers to move."""
        return model


def _member_class(state: EstimatorState) -> type[LVQClassifier]:
    cls = estimator_class(state.kind)
    if not issubclass(cls, LVQClassifier):
        raise SnapshotError(f"committee: expected a model as a member, got {state.kind}")
    return cls


def _check_fitted(fitted: Array, count: int) -> None:
    """Raise `SnapshotError` unless `fitted` holds `count` weights and their curvatures."""
    good = fitted.shape == (2 * count,) and fitted.dtype == np.float64
    # Curvatures are differences and may fall below zero by rounding.
    low, high = [0.0] * count + [-0.01] * count, [MAX_WEIGHT] * count + [1e9] * count
    if not good or not np.all((fitted >= low) & (fitted <= high)):
        raise SnapshotError(
            f"fitted: expected {count} weights up to {MAX_WEIGHT:g}, got {fitted.tolist()}"
        )
