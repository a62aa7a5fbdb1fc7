"""`LVQCommittee`: several models with pooled probabilities."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import numpy as np

from streamlvq.arrays import Array, Floats, Ints, Label, Reading, Rows
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
from streamlvq.kernels import layout as at
from streamlvq.models.base import ArrayClassifier, CompiledClassifier, LVQClassifier
from streamlvq.models.glvq import GLVQ, GRLVQ, LGMLVQ
from streamlvq.models.insight import Closest
from streamlvq.models.parameters import ABSENT_VALUES, check_choice, documented
from streamlvq.models.traces import power_of_two
from streamlvq.models.vectorizer import dictionary_maker
from streamlvq.records import Explanation, Prototype
from streamlvq.registry import MEMBERS, UnknownNameError

SHARED_STEP = 1 / 64  # to which shared likelihoods and weights of members are rounded
MAX_MEMBERS = 32  # the pools fit a curvature for each pair of members
# Sparse readings have thousands of features, which trees and bins are not made for.
DEFAULT_MEMBERS = {
    "missing": ("learner", "follower", "forest", "bins"),
    "zero": ("learner", "follower"),
}
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)


class CommitteeMember(Protocol):
    """What a committee asks of a member; every model of streamlvq but the committee is one.

    Members get the same samples in the same order, so the classes of all have the same numbers.
    """

    @property
    def shareable(self) -> bool:
        """False for a member that is made of readings, which stays on its node."""

    @property
    def absent(self) -> str:
        """What a feature means that a reading does not mention, see `ABSENT_VALUES`."""

    @property
    def features(self) -> tuple[Hashable, ...]:
        """Features seen so far, in the order of the columns."""

    @property
    def classes(self) -> tuple[Label, ...]:
        """Labels seen so far, in order of first appearance."""

    @property
    def samples(self) -> int:
        """Number of labelled samples learnt so far."""

    @property
    def known_labels(self) -> list[Label]:
        """The member's own list of classes; replaced by a new one when a class is added."""

    @property
    def allocated(self) -> int:
        """How many numbers the member has memory for."""

    def class_number(self, label: Label) -> int:
        """Return the index of a label in `classes`; -1 if it is unknown."""

    def column_names(self, width: int, names: Sequence[Hashable] | None = None) -> list[Hashable]:
        """Return the feature names of an array's columns: `names` if given, else the member's."""

    def learn_one(self, x: Reading, y: Label, w: float = 1.0) -> None:
        """Learn a labelled reading with weight w."""

    def last_probabilities(self) -> Rows:
        """Return the last predicted probabilities; after `learn_one`, those before learning."""

    def observe_one(self, x: Reading) -> None:
        """Take note of an unlabelled reading."""

    def predict_labels_one(self, x: Reading) -> tuple[list[Label], Rows] | None:
        """Return labels and an array of their probabilities; None before anything is learnt."""

    def last_was_empty(self) -> bool:
        """Return True if the last predicted reading had none of the member's features."""

    def learn_array_watched(
        self, X: Any, y: Any, features: Sequence[Hashable] | None = None, *, w: Any = None
    ) -> tuple[Rows, Ints]:
        """Learn rows in order; return the probabilities before each was learnt, and its class.

        Probabilities are -1 for classes not yet known at that row.
        """

    def predict_proba_array(self, X: Any, features: Sequence[Hashable] | None = None) -> Rows:
        """Return class probabilities: one row per reading, one column per entry of `classes`."""

    def train(
        self,
        X: Any,
        y: Any,
        *,
        epochs: int = 30,
        seed: int | None = 1,
        features: Sequence[Hashable] | None = None,
        progress: bool | None = None,
    ) -> None:
        """Train on a recorded set, see `LVQClassifier.train`."""

    def clone(self, new_params: dict[str, Any] | None = None) -> Self:
        """Return an untrained copy, with some parameters changed."""

    def blank_state(self) -> EstimatorState:
        """Return the state of an untrained member with these parameters."""

    def state(
        self, *, readings: bool = True, limits: StateLimits = DEFAULT_LIMITS
    ) -> EstimatorState:
        """Return a copy of parameters and what was learnt."""

    @classmethod
    def from_blank(cls, state: EstimatorState) -> Self:
        """Return an untrained member with the parameters of a state."""

    @classmethod
    def from_state(cls, state: EstimatorState, *, limits: StateLimits = DEFAULT_LIMITS) -> Self:
        """Validate a state, then rebuild the member bit for bit."""


# --- members that a committee knows by name ------------------------------------------------------


def default_learner(absent: str) -> LVQClassifier:
    """Return the member that learns metrics and forgets nothing."""
    if absent == "zero":  # a matrix over all pairs of words would be huge
        return GRLVQ(absent=absent)
    return LGMLVQ(absent=absent)


def default_follower(absent: str) -> LVQClassifier:
    """Return the member that keeps up with change: many short-lived prototypes."""
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


def _members(given: Any, absent: str) -> dict[str, CommitteeMember]:
    """Return untrained members by name from the parameter `members`, those that are shared first."""
    if given is None:
        given = DEFAULT_MEMBERS[absent]
    if isinstance(given, str) or not isinstance(given, (Mapping, Sequence)):
        raise _refused(
            f"expected names of members, or a mapping from names to models, got {given!r}"
        )
    if not isinstance(given, Mapping):
        for name in given:
            if not isinstance(name, str):
                raise _refused(
                    f"expected names of members, got a {type(name).__name__} among them: use a "
                    "mapping from names to models"
                )
        if len(set(given)) < len(given):
            raise _refused(f"expected names that differ, got {given!r}")
        given = dict.fromkeys(given)
    if not 1 <= len(given) <= MAX_MEMBERS:
        raise _refused(f"expected 1 to {MAX_MEMBERS} members, got {len(given)}")
    members = {name: _member(name, model, absent) for name, model in given.items()}
    return dict(sorted(members.items(), key=lambda item: not item[1].shareable))


def _member(name: Any, model: Any, absent: str) -> CommitteeMember:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise _refused(f"expected names of letters, digits and _, got {name!r}")
    if model is None:
        try:
            member: CommitteeMember = MEMBERS[name](absent=absent)
        except UnknownNameError as error:
            raise _refused(f"{error}; or a mapping with a model of that name") from error
        return member
    if not issubclass(type(model), CompiledClassifier):  # `isinstance` sees through pipelines
        raise _refused(f"{name}: expected a model of streamlvq, got a {type(model).__name__}")
    # An untrained copy: members must see the same classes from the start.
    copy: CompiledClassifier[Any] = model.clone({"absent": "zero"} if absent == "zero" else None)
    return copy


def speaker_name(members: Mapping[str, type[Any]]) -> str | None:
    """Return who speaks for a committee: the first member with RelSim, else with prototypes."""
    names = [name for name, cls in members.items() if issubclass(cls, LVQClassifier)]
    # Prototypes of pairs decide together and have no RelSim.
    return min(names, key=lambda name: not members[name].has_relsim, default=None)


def _refused(message: str) -> ParameterError:
    return ParameterError("LVQCommittee", "members", message)


# --- the committee -------------------------------------------------------------------------------


class _Scratch:
    """Arrays for one reading at a time, for as long as the classes stay the same."""

    def __init__(self, members: int, labels: list[Label]) -> None:
        self.labels = labels
        self.opinions = np.empty((members, 1, len(labels)))
        self.work = np.empty(at.pool_work_shape(members, len(labels)))
        self.pooled = np.empty((1, len(labels)))
        self.row = self.pooled[0]
        self.known = np.array([len(labels)], np.int64)
        self.code = np.empty(1, np.int64)

    @functools.cached_property
    def by_label(self) -> Callable[..., dict[Label, float]]:
        """From probabilities to a dictionary; made when it is needed, as many classes may come."""
        return dictionary_maker(self.labels)


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class LVQCommittee(ArrayClassifier):
    """Committee of models whose probabilities are pooled.

    All members learn every sample. Their probabilities are pooled log-linearly; the weights are
    fitted on each sample before it is learnt, at several speeds, so reliable members count more,
    and one that does not help costs no accuracy. Choose it when you do not know what your stream is
    like.

    What a committee says about itself (`relevances`, `prototypes`, `relsim_one`, `explain_one`)
    comes from its `speaker`: the first member with RelSim, else the first with prototypes. By
    default that is the learner.

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
    0.95

    Other members, by name or as models:

    >>> model = streamlvq.LVQCommittee(members=["learner", "follower", "pairs"])
    >>> list(model.parts), model.weights["pairs"]
    (['learner', 'follower', 'pairs'], 0.3)
    >>> model = streamlvq.LVQCommittee(members={"learner": streamlvq.LGMLVQ(rank=8), "follower": None})
    >>> model.parts["learner"].rank
    8

    References
    ----------
    - Heskes, T. (1998). Selecting weighting factors in logarithmic opinion pools. Advances in Neural Information Processing Systems 10, 266-272.

    """

    members: Sequence[str] | Mapping[str, CommitteeMember | None] | None = None
    absent: str = "missing"

    def __post_init__(self) -> None:
        check_choice("LVQCommittee", "absent", self.absent, tuple(ABSENT_VALUES))
        self._set_parts(_members(self.members, self.absent))
        self._fitted = start_weights(len(self._parts), self._core)
        self._scratch: _Scratch | None = None
        self._lock = ModelLock()

    def _set_parts(self, parts: dict[str, CommitteeMember]) -> None:
        self._parts = parts
        self._members = tuple(parts.values())
        self._core = sum(member.shareable for member in self._members) or len(parts)
        name = speaker_name({name: type(member) for name, member in parts.items()})
        self._speaker: Any = None if name is None else parts[name]

    def __getstate__(self) -> dict[str, Any]:
        # Made anew when it is needed; predictions must leave no trace in a pickle.
        return {**self.__dict__, "_scratch": None}

    @property
    def features(self) -> tuple[Hashable, ...]:
        """Features seen so far, in the order of the columns."""
        return self._members[0].features

    @property
    def classes(self) -> tuple[Label, ...]:
        """Labels seen so far, in order of first appearance."""
        return self._members[0].classes

    @property
    def known_labels(self) -> list[Label]:
        """The model's own list of classes; replaced by a new list object when a class is added."""
        return self._members[0].known_labels

    @property
    def samples(self) -> int:
        """Number of labelled samples learnt so far."""
        return self._members[0].samples

    @property
    def parts(self) -> dict[str, CommitteeMember]:
        """Members by name; those that a fleet shares, with prototypes, come first."""
        return dict(self._parts)

    @property
    def shareable(self) -> bool:  # type: ignore[override]
        """Whether there is a member that a fleet may see."""
        return any(member.shareable for member in self._members)

    @property
    def core(self) -> int:
        """How many members, the first ones, are in the pool of those that a fleet shares."""
        return self._core

    @property
    def weights(self) -> dict[str, float]:
        """Weight of each member in the pooled probabilities, averaged over the pools.

        Weights are exponents of the members' probabilities, so they need not sum to 1: less than 1
        in all where members are too sure of themselves, more where they are not sure enough.
        """
        credit, count = self._fitted[:, 0], len(self._parts)
        share = np.exp(credit - credit.max())
        mean = (share / share.sum()) @ self._fitted[:, 1 : 1 + count]
        return dict(zip(self._parts, mean.tolist(), strict=True))

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
            self._fit(scratch.opinions, scratch.known, scratch.code, scratch.work)

    def _scratch_for(self, labels: list[Label]) -> _Scratch:
        """Arrays for the model's own list of labels, which is recognised by its identity."""
        scratch = self._scratch
        if scratch is None or scratch.labels is not labels:
            scratch = self._scratch = _Scratch(len(self._members), labels)
        return scratch

    def _fit(self, opinions: Array, known: Array, codes: Array, work: Array) -> None:
        """Update the weights with labelled rows; opinions are members x rows x classes."""
        kernels("pool").fit(opinions, known, codes, self._fitted, self._core, work)

    @exclusive
    def observe_one(self, x: Reading) -> None:
        """Update the feature scales with an unlabelled reading."""
        for member in self._members:
            member.observe_one(x)

    def _answer(self, x: Reading) -> _Scratch | None:
        """Pool the members' probabilities of a reading; None before anything is learnt."""
        scratch = self._scratch_for(self._members[0].known_labels)
        for m, member in enumerate(self._members):
            answer = member.predict_labels_one(x)
            if answer is None:
                return None
            scratch.opinions[m, 0] = answer[1]
        self._pool(scratch.opinions, scratch.work, scratch.pooled)
        return scratch

    def _pool(self, opinions: Array, work: Array, pooled: Array) -> None:
        """Make one opinion about each row of opinions that are members x rows x classes."""
        if opinions.shape[2] < 2:
            pooled[:] = opinions[0]
        else:
            kernels("pool").pool(opinions, self._fitted, self._core, work, pooled)

    @exclusive
    def predict_labels_one(self, x: Reading) -> tuple[list[Label], Rows] | None:
        """Return labels and an array of their probabilities; None before anything is learnt.

        A faster `predict_proba_one`. Both belong to the model and are valid until its next call.
        """
        scratch = self._answer(x)
        return None if scratch is None else (scratch.labels, scratch.row)

    @exclusive
    def predict_proba_one(self, x: Reading) -> dict[Label, float]:
        """Return the probability of every class learnt so far."""
        scratch = self._answer(x)
        return {} if scratch is None else scratch.by_label(*scratch.row.tolist())

    @exclusive
    def predict_one(self, x: Reading) -> Label | None:
        """Return the most probable class; None before anything is learnt."""
        scratch = self._answer(x)
        return None if scratch is None else scratch.labels[int(scratch.row.argmax())]

    @exclusive
    def learn_array(
        self, X: Any, y: Any, features: Sequence[Hashable] | None = None, *, w: Any = None
    ) -> None:
        """Learn the rows of an array in order, exactly as `learn_one` would."""
        before = [member.learn_array_watched(X, y, features, w=w) for member in self._members]
        opinions, codes = np.array([each for each, _ in before]), before[0][1]
        # A row is judged by the classes that were known when it came: those with an opinion.
        known = (opinions[0] >= 0.0).sum(axis=1)
        self._fit(opinions, known, codes, self._work_for(opinions))

    @exclusive
    def predict_proba_array(self, X: Any, features: Sequence[Hashable] | None = None) -> Rows:
        """Return class probabilities: one row per reading, one column per entry of `classes`."""
        opinions = np.array([each.predict_proba_array(X, features) for each in self._members])
        pooled = np.empty(opinions.shape[1:])
        self._pool(opinions, self._work_for(opinions), pooled)
        return pooled

    @staticmethod
    def _work_for(opinions: Array) -> Array:
        return np.empty(at.pool_work_shape(opinions.shape[0], opinions.shape[2]))

    @exclusive
    def train(self, X: Any, y: Any, **options: Any) -> None:
        """Train all members on a recorded set, see `LVQClassifier.train`.

        The weights of the members do not change.
        """
        for member in self._members:  # each knows what a feature means that X does not mention
            member.train(X, y, **options)

    def column_names(self, width: int, names: Sequence[Hashable] | None = None) -> list[Hashable]:
        """Return the feature names of an array's columns, see `LVQClassifier.column_names`."""
        return self._members[0].column_names(width, names)

    def last_was_empty(self) -> bool:
        """Return True if the last predicted reading had none of the members' features."""
        return all(member.last_was_empty() for member in self._members)

    # --- insight, from the speaker ---------------------------------------------------------------

    @property
    def speaker(self) -> LVQClassifier | None:
        """The member that relevances, prototypes, RelSim and explanations come from.

        The first with RelSim, else the first with prototypes; None if there is none.
        """
        speaker: LVQClassifier | None = self._speaker
        return speaker

    def _ask_speaker(self) -> LVQClassifier:
        """Return the speaker; ValueError if there is none."""
        if (speaker := self.speaker) is None:
            raise ValueError(
                f"expected a committee with a member that has prototypes, got {list(self._parts)}"
            )
        return speaker

    @property
    def has_relsim(self) -> bool:
        """Whether one of the members has a RelSim, see `speaker`."""
        return (speaker := self.speaker) is not None and speaker.has_relsim

    def prototypes(self) -> list[Prototype]:
        """Return the prototypes of the speaker, in sensor units."""
        return self._ask_speaker().prototypes()

    def relevances(self, label: Label | None = None, *, raw: bool = False) -> dict[Hashable, float]:
        """Return the relevance of each feature to the speaker, see `LVQClassifier.relevances`."""
        return self._ask_speaker().relevances(label, raw=raw)

    def metric(self, prototype: int | None = None, *, raw: bool = True) -> Rows:
        """Return the metric of the speaker, see `LVQClassifier.metric`."""
        return self._ask_speaker().metric(prototype, raw=raw)

    def scales(self) -> dict[Hashable, float]:
        """Return the scale of each feature; infinite while the feature is constant."""
        return self._ask_speaker().scales()

    @exclusive
    def relsim_one(self, x: Reading) -> float | None:
        """Return the relative similarity of a reading, see `LVQClassifier.relsim_one`."""
        return self._ask_speaker().relsim_one(x)

    def last_relsim(self, label: Label | None = None) -> float:
        """Return the RelSim of the last predicted reading; -1 before two classes are learnt.

        If a label is given and the speaker finds the reading closer to another class, it is 0.
        """
        return self._ask_speaker().last_relsim(label)

    def last_closest(self) -> Closest | None:
        """Return the two classes closest to the last predicted reading; None before two are known."""
        return self._ask_speaker().last_closest()

    def last_separation(self, pair: Closest) -> float:
        """Return the distance between the prototypes closest to the last predicted reading."""
        return self._ask_speaker().last_separation(pair)

    @exclusive
    def explain_one(self, x: Reading) -> Explanation:
        """Explain a prediction: winner, runner-up and the features that decided, to the speaker.

        If the committee decides otherwise than its speaker, `Explanation.decision` says so.
        """
        speaker, label = self._ask_speaker(), self.predict_one(x)
        explanation = speaker.explain_one(x)
        return explanation if explanation.label == label else replace(explanation, decision=label)

    # --- state -----------------------------------------------------------------------------------

    @exclusive
    def state(
        self, *, readings: bool = True, limits: StateLimits = DEFAULT_LIMITS
    ) -> EstimatorState:
        """Return a copy of parameters, weights and members (as `parts`).

        Parameters
        ----------
        readings
            Include the readings kept for rehearsal. Without them, members that nodes do not share
            (trees, bins) are left out as well, the weights are those of the others alone, and
            what single readings leave behind is left out or rounded.
        limits
            Limits that `from_state` will use; raises `SnapshotError` if the state exceeds them.

        """
        check_ours(self)
        _check_fitted(self._fitted, len(self._members), self._core)
        given = self.members if isinstance(self.members, Mapping) else {}
        kept = {
            name: member for name, member in self._parts.items() if readings or member.shareable
        }
        if not kept:
            raise SnapshotError(
                f"committee: expected a member that can be shared, got {list(self._parts)}"
            )
        parts = {}
        for name, member in kept.items():
            parts[name] = member.state(readings=readings, limits=limits)
            limits = _rest(limits, member)
        state = EstimatorState(
            kind=type(self).__name__,
            parameters={
                "absent": self.absent,
                # A snapshot has blank members only; None for those that the committee makes itself.
                "members": {
                    name: None if given.get(name) is None else member.blank_state()
                    for name, member in kept.items()
                },
            },
            arrays={"fitted": self._fitted.copy()},
            parts=parts,
        )
        return state if readings else _with_shared_weights(state, len(self._members))

    @classmethod
    def from_state(cls, state: EstimatorState, *, limits: StateLimits = DEFAULT_LIMITS) -> Self:
        """Validate a state, then rebuild the committee bit for bit.

        Parameters
        ----------
        state
            A state returned by `state`; raises `SnapshotError` if no committee could have it.
        limits
            Upper bound on what all members together may allocate.

        """
        committee = cls._from_blanks(state)
        names = list(committee._parts)
        if list(state.parts) != names:
            raise SnapshotError(
                f"committee: expected the members {names}, got {list(state.parts)[:MAX_MEMBERS]}"
            )
        parts: dict[str, CommitteeMember] = {}
        for name, blank in committee._parts.items():
            part = state.parts[name]
            if part.kind != type(blank).__name__:
                raise SnapshotError(
                    f"committee: expected a {type(blank).__name__} as {name}, got {part.kind[:80]!r}"
                )
            parts[name] = type(blank).from_state(part, limits=limits)
            limits = _rest(limits, parts[name])
        committee._set_parts(parts)
        if any(member.classes != committee.classes for member in committee._members):
            raise SnapshotError("committee: expected members that know the same classes")
        if state.arrays.keys() != {"fitted"}:
            found = sorted(state.arrays)[:9]
            raise SnapshotError(f"committee: expected an array 'fitted', got {found}")
        _check_fitted(state.arrays["fitted"], len(parts), committee._core)
        committee._fitted = np.ascontiguousarray(state.arrays["fitted"]).copy()
        return committee

    @classmethod
    def _from_blanks(cls, state: EstimatorState) -> Self:
        """Return an untrained committee."""
        members = state.parameters.get("members")
        if state.parameters.keys() != {"absent", "members"} or not isinstance(members, Mapping):
            raise SnapshotError(
                f"committee: expected the parameters absent and members, "
                f"got {sorted(state.parameters)[:9]}"
            )
        given = {
            name: None if blank is None else _blank_member(name, blank)
            for name, blank in members.items()
        }
        absent = state.parameters["absent"]
        # As a user would say it, so that a copy looks like the original.
        named: Any = given if any(model is not None for model in given.values()) else [*given]
        if absent in DEFAULT_MEMBERS and named == [*DEFAULT_MEMBERS[absent]]:
            named = None
        try:
            return cls(members=named, absent=absent)
        except (ValueError, TypeError) as error:
            raise SnapshotError(f"committee: {error}") from error

    def moved_to(self, model: Any) -> Any:
        """Return the other model unchanged: a committee has no wrappers to move."""
        return model


def _rest(limits: StateLimits, member: CommitteeMember) -> StateLimits:
    """Return what one member leaves for the next ones to allocate."""
    return StateLimits(max(0, limits.max_numbers - member.allocated))


def _blank_member(name: str, blank: EstimatorState) -> Any:
    cls = estimator_class(blank.kind)
    if not hasattr(cls, "from_blank"):
        raise SnapshotError(f"committee: expected a model as {name}, got {blank.kind[:80]!r}")
    return cls.from_blank(blank)


def shared_state(state: EstimatorState, *, same_norms: bool = True) -> EstimatorState:
    """Return a committee's state as `state(readings=False)` gives it.

    It has the members only that nodes of a fleet share, and the weights that its core pool has
    fitted for them alone. `same_norms` as for its members. Raises `SnapshotError` if no member can be shared.
    """
    kept = {
        name: estimator_class(part.kind).shared_state(part, same_norms=same_norms)
        for name, part in state.parts.items()
        if estimator_class(part.kind).shareable
    }
    if not kept:
        raise SnapshotError(
            f"committee: expected a member that can be shared, got {list(state.parts)}"
        )
    blanks = {name: state.parameters["members"][name] for name in kept}
    parameters = {**state.parameters, "members": blanks}
    return _with_shared_weights(replace(state, parameters=parameters, parts=kept), len(state.parts))


# --- weights of the pools ------------------------------------------------------------------------


def start_weights(members: int, core: int) -> Floats:
    """Return the array `fitted` of `kernels.pool` before the first sample: equal weights."""
    fitted = np.zeros((at.POOLS, 1 + members + members * members))
    fitted[:, 1 : 1 + members] = 1.0 / members
    fitted[-1, 1 : 1 + members] = [1.0 / core] * core + [0.0] * (members - core)
    return fitted


def _with_shared_weights(state: EstimatorState, members: int) -> EstimatorState:
    """Return a committee's state without what single readings leave in its pools.

    If members were left out, all pools have the weights of the core pool. Likelihoods and weights
    are rounded. Of the curvatures, sums over single readings, their mean size is left, to a power
    of two, as if the members had always had the same opinion: steps are not too long.
    """
    fitted, core = state.arrays["fitted"], len(state.parts)
    if core < members:
        last = fitted[-1]
        curvature = last[1 + members :].reshape(members, members)[:core, :core]
        row = np.concatenate([[0.0], last[1 : 1 + core], curvature.ravel()])
        fitted = np.tile(row, (len(fitted), 1))
    return replace(state, arrays={"fitted": _rounded(fitted, core)})


def _rounded(fitted: Floats, members: int) -> Floats:
    """Return likelihoods, weights and curvatures of pools too coarse for a single reading."""
    shared: Floats = np.rint(fitted / SHARED_STEP) * SHARED_STEP + 0.0  # no -0.0
    curvature = fitted[:, 1 + members :].reshape(-1, members, members)
    size = power_of_two(np.diagonal(curvature, axis1=1, axis2=2).mean(axis=1).clip(0.0))
    shared[:, 1 + members :] = size[:, None]
    return shared


def _check_fitted(fitted: Array, members: int, core: int) -> None:
    """Raise `SnapshotError` unless `fitted` is what the pools of so many members may have."""
    shape = (at.POOLS, 1 + members + members * members)
    if fitted.shape != shape or fitted.dtype != np.float64:
        raise SnapshotError(
            f"fitted: expected an array of {shape} numbers for {members} members, "
            f"got {fitted.dtype} {fitted.shape}"
        )
    credit, weights = fitted[:, 0], fitted[:, 1 : 1 + members]
    if not np.all((weights >= 0.0) & (weights <= at.LARGEST_WEIGHT)) or weights[-1, core:].any():
        raise SnapshotError(
            f"fitted: expected {members} weights up to {at.LARGEST_WEIGHT:g}, got {weights.tolist()}"
        )
    curvature = fitted[:, 1 + members :].reshape(-1, members, members)
    diagonal = np.diagonal(curvature, axis1=1, axis2=2)
    # Sums of covariances: none on the diagonal is negative but by rounding, and all are bounded.
    good = np.all(np.abs(curvature) <= 1e9) and np.all(diagonal >= -0.01)
    # No likelihood is above 1 but by rounding, nor below the smallest that the kernel counts.
    good = good and np.all((credit >= -1e5) & (credit <= 0.01))
    if not good or not np.array_equal(curvature, curvature.swapaxes(1, 2)):
        raise SnapshotError(
            "fitted: expected likelihoods and curvatures of pools, got other numbers"
        )
