"""LVQCommittee."""

from __future__ import annotations

import functools
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from streamlvq.errors import ParameterError
from streamlvq.models.array_classifier import ArrayClassifier, Label
from streamlvq.models.base import LVQClassifier
from streamlvq.models.glvq import GLVQ
from streamlvq.models.lgmlvq import LGMLVQ
from streamlvq.models.parameters import documented
from streamlvq.records import Explanation
from streamlvq.vectorize import Reading, Rows, to_rows


@functools.cache
def _kernels() -> ModuleType:
    from streamlvq.kernels import pool  # noqa: PLC0415

    return pool


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class LVQCommittee(ArrayClassifier):
    """Two models that complement each other: one that learns metrics, one that follows what moves.

    Both learn every sample. Their probabilities are multiplied, each raised to a weight that is
    fitted on samples before they are learnt; whoever is right more often has more to say. Choose
    it when you do not know whether your stream drifts.

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

    """

    learner: LVQClassifier | None = None
    follower: LVQClassifier | None = None

    def __post_init__(self) -> None:
        for name, member in (("learner", self.learner), ("follower", self.follower)):
            if member is not None and not isinstance(member, LVQClassifier):
                raise ParameterError(
                    "LVQCommittee", name, f"expected a model of streamlvq, got {member!r}"
                )
        # Copies that have learnt nothing: members must have seen the same classes from the start.
        self._members: tuple[LVQClassifier, LVQClassifier] = (
            LGMLVQ() if self.learner is None else self.learner.clone(),
            self.follower.clone()
            if self.follower is not None
            else GLVQ(
                max_prototypes_per_class=16,
                learning_rate=0.2,
                step_decay=0.99,
                scale_floor=0.0,
                rehearsal=8,
                buffer_size=300,
                half_life=1000,
            ),
        )
        # Weights, and the curvature of the log loss along each of them.
        self._fitted = np.array([0.5, 0.5, 0.0, 0.0])

    @property
    def features(self) -> tuple[Hashable, ...]:
        """The features seen so far, in the order of the columns."""
        return self._members[0].features

    @property
    def classes(self) -> tuple[Label, ...]:
        """The labels seen so far, in the order of their appearance."""
        return self._members[0].classes

    @property
    def samples(self) -> int:
        """Labelled samples learnt so far."""
        return self._members[0].samples

    @property
    def members(self) -> tuple[LVQClassifier, LVQClassifier]:
        """The learner and the follower, to look inside."""
        return self._members

    @property
    def weights(self) -> dict[str, float]:
        """How much each member has to say."""
        return dict(zip(("learner", "follower"), self._fitted[:2].tolist(), strict=True))

    def learn_one(self, x: Reading, y: Label) -> None:
        """Learn a labelled reading."""
        first, second = self._members
        known, code = len(first.classes), first._class_number(y)
        first.learn_one(x, y)
        second.learn_one(x, y)
        if code >= 0 and known > 1:
            opinions = first._last_probabilities(), second._last_probabilities()
            _kernels().fit(*opinions, code, self._fitted, np.empty(known))

    def observe_one(self, x: Reading) -> None:
        """Let a reading without a label teach the feature scales."""
        for member in self._members:
            member.observe_one(x)

    def predict_proba_one(self, x: Reading) -> dict[Label, float]:
        """The probability of every class learnt so far."""
        first, second = (member._answer(x) for member in self._members)
        if first is None or second is None:
            return {}
        out = first.probabilities.copy()
        if len(out) > 1:
            _kernels().pool(first.probabilities, second.probabilities, self._fitted, out)
        return dict(zip(self.classes, out.tolist(), strict=True))

    def learn_array(self, X: Any, y: Any, features: Sequence[Hashable] | None = None) -> None:
        """Learn the rows of an array one after the other, exactly as `learn_one` would."""
        first, codes = self._members[0]._learn_array_watched(X, y, features)
        second, _ = self._members[1]._learn_array_watched(X, y, features)
        # A row is judged by the classes that were known when it came: those with an opinion.
        known = (first >= 0.0).sum(axis=1)
        _kernels().fit_array(first, second, known, codes, self._fitted, np.empty_like(first))

    def predict_proba_array(self, X: Any, features: Sequence[Hashable] | None = None) -> Rows:
        """Class probabilities, a row for each reading and a column for each of `classes`."""
        first, second = (member.predict_proba_array(X, features) for member in self._members)
        if first.shape[1] < 2:
            return first
        out = np.empty_like(first)
        _kernels().pool_array(first, second, self._fitted, out)
        return out

    def train(self, X: Any, y: Any, **options: Any) -> None:
        """Let both members train on a recorded set, see `LVQClassifier.train`.

        Their weights stay as they are.
        """
        rows, names = to_rows(X, options.pop("features", None))
        for member in self._members:
            member.train(rows, y, features=names, **options)

    def explain_one(self, x: Reading) -> Explanation:
        """The explanation of the member with more weight, of those that share the decision."""
        label = self.predict_one(x)
        order = np.argsort(-self._fitted[:2], kind="stable")
        explanations = [self._members[m].explain_one(x) for m in order]
        return next((e for e in explanations if e.label == label), explanations[0])
