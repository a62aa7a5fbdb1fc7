"""What all nodes know of their classes, on common features and labels.

Axes: nodes, classes, features. Where a node has nothing to say its count is zero.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from streamlvq.fusion.brought import Brought, Model
from streamlvq.fusion.weights import capped, liars_among
from streamlvq.models.array_classifier import Label
from streamlvq.models.validation import MAX_SAMPLES
from streamlvq.state import Floats
from streamlvq.vectorize import name_order

Bools = npt.NDArray[np.bool_]

ENOUGH = 100.0  # readings of a class after which more of them make its mean hardly more reliable
SEVERAL = 3  # nodes that have a class: of one that fewer have, nobody knows whether it is true
SWAY = 0.4  # of what is known of a class: more, and those who might lie were the majority
THIN = 0.1  # of the variance that a feature usually has: less is taken for too little to rely on


@dataclass(frozen=True)
class Axes:
    """The features and labels that any node knows, in an order that does not depend on theirs."""

    features: list[Hashable]
    labels: list[Label]

    @classmethod
    def of(cls, models: Sequence[Model]) -> Axes:
        features = {name for model in models for name in model.features}
        labels = {label for model in models for label in model.labels}
        return cls(name_order(features), name_order(labels))

    @property
    def words(self) -> tuple[list[str], list[str]]:
        """Features and labels as reports call them: no two alike, also if there are 1 and "1"."""
        return _words(self.features), _words(self.labels)

    def columns(self, model: Model) -> npt.NDArray[np.int64]:
        """Where the features of a model are among the common ones."""
        if model.features == self.features:
            return np.arange(len(self.features))
        place = {name: k for k, name in enumerate(self.features)}
        return np.array([place[name] for name in model.features], np.int64)

    def codes(self, model: Model) -> npt.NDArray[np.int64]:
        """Where the labels of a model are among the common ones."""
        place = {label: k for k, label in enumerate(self.labels)}
        return np.array([place[label] for label in model.labels], np.int64)


@dataclass(frozen=True)
class Tables:
    """Counts, means and variances of nodes x classes x features; samples of nodes x classes."""

    nodes: list[str]
    samples: Floats
    count: Floats
    mean: Floats
    variance: Floats

    @classmethod
    def of(cls, brought: Sequence[Brought], axes: Axes) -> Tables:
        shape = len(brought), len(axes.labels), len(axes.features)
        samples, count = np.zeros(shape[:2]), np.zeros(shape)
        mean, variance = np.zeros(shape), np.zeros(shape)
        for i, node in enumerate(brought):
            model = node.first
            if not model.labels:
                continue
            known, columns = axes.codes(model), axes.columns(model)
            rows = slice(0, len(known))
            samples[i, known] = model.arrays["class_count"][rows]
            where = np.ix_(np.array([i]), known, columns)
            count[where] = model.arrays["class_weight"][rows]
            mean[where] = model.arrays["class_mean"][rows]
            variance[where] = model.arrays["class_variance"][rows]
        samples = np.minimum(samples, MAX_SAMPLES)  # or sums of what is said might have no end
        count = np.minimum(count, samples[:, :, None])
        return cls([node.node for node in brought], samples, count, mean, variance)

    @property
    def held(self) -> Bools:
        """Which node has which class."""
        held: Bools = self.samples > 0
        return held

    def spread(self) -> Floats:
        """The variance within classes (classes x features) that most nodes agree on.

        The median over the nodes that have seen enough of a class; where nobody has, that of other
        classes.
        """
        seen = self.count >= 2
        spread = _median(np.where(seen, self.variance, np.nan))
        known = np.isfinite(spread)
        # One node's word on a class that only it has must not become the measure of all others.
        sure = seen.sum(axis=0) >= SEVERAL
        asked = np.where(sure.any(axis=0), sure, known)
        typical = np.where(asked, spread, 0.0).sum(axis=0) / np.maximum(asked.sum(axis=0), 1)
        spread = np.where(known, spread, typical)
        spread = np.maximum(spread, THIN * typical)
        # A feature that never moves: its unit does not matter, but must not be zero.
        return np.where(spread > 0.0, spread, 1.0)

    def reliability(self, spread: Floats) -> Floats:
        """How much each mean counts: one over its variance, if nodes differ a little anyway."""
        worth: Floats = worth_of_mean(self.count) * self._believed[:, :, None] / spread
        return worth

    @functools.cached_property
    def _believed(self) -> Floats:
        """The share of what nodes say they have seen that is believed: counts can be lied about."""
        believed = np.ones(self.samples.shape)
        for k, column in enumerate(worth_of_mean(self.samples).T):
            holders = int((column > 0).sum())
            if holders > 2:
                cut = capped(column, liars_among(holders), SWAY)
                believed[:, k] = np.where(column > 0, cut / np.where(column > 0, column, 1.0), 1.0)
        return believed

    def only(self, keep: Any) -> Tables:
        """The same with some cells (nodes x classes) left out."""
        return replace(
            self,
            samples=np.where(keep, self.samples, 0.0),
            count=np.where(np.asarray(keep)[:, :, None], self.count, 0.0),
        )


def worth_of_mean(count: Floats) -> Floats:
    """How much a mean of so many readings counts, in readings."""
    with np.errstate(divide="ignore"):
        return np.where(count > 0, 1.0 / (1.0 / count + 1.0 / ENOUGH), 0.0)


def _words(names: Sequence[Any]) -> list[str]:
    words = [str(name) for name in names]
    return [
        word if words.count(word) == 1 else repr(name)
        for word, name in zip(words, names, strict=True)
    ]


def _median(values: Floats) -> Floats:
    """Along the first axis, without what is missing; NaN if nothing is left."""
    ordered = np.sort(values, axis=0)  # NaN come last
    known = np.isfinite(values).sum(axis=0)
    low = np.take_along_axis(ordered, np.maximum(known - 1, 0)[None] // 2, axis=0)[0]
    high = np.take_along_axis(ordered, (known // 2).clip(max=len(values) - 1)[None], axis=0)[0]
    return np.where(known > 0, 0.5 * (low + high), np.nan)
