"""Thresholds on the certainty of decisions: fixed, or adapted to recent readings.

A decision is accepted if its certainty is at least the threshold. Certainties lie between 0 and 1,
so an infinite threshold rejects everything. A certainty of 0 is none and never accepted.
"""

from __future__ import annotations

import abc
import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from streamlvq.arrays import Floats, Label
from streamlvq.kernels import kernels
from streamlvq.models.vectorizer import Arrays, KernelBatch, no_rejection

FIRST_CAPACITY = 64  # initial capacity for certainties
MAX_SEEN = 2**53  # still exact as a float


# --- rules: recent certainties to a threshold ----------------------------------------------------


class Rule:
    """Base class of the targets that an adaptive threshold can have."""

    needs_labels = True
    kernel: str  # that computes the threshold, see `streamlvq.kernels.pipeline`
    kernel_rule: str  # name of the constant in the batch kernel

    def __init__(self, target: float) -> None:
        self.target = target

    def threshold(self, memory: Floats, stored: int, seen: int) -> float:
        """Return the threshold for `stored` certainties, the last ones of `seen`."""
        find = getattr(kernels("pipeline"), self.kernel)
        return float(find(memory, stored, self.target, seen))


class TargetRate(Rule):
    """Rule that rejects a share of the readings; none before the first reading.

    Of readings of equal certainty so many are rejected that the share holds. If more than the share
    have no certainty at all, exactly those are rejected.
    """

    needs_labels = False
    kernel, kernel_rule = "rate_threshold", "TARGET_RATE"


class TargetAccuracy(Rule):
    """Rule that rejects as little as needed for an accuracy; everything if none suffices."""

    kernel, kernel_rule = "accurate_threshold", "TARGET_ACCURACY"


class RejectCost(Rule):
    """Rule that minimises the cost of errors (1) and rejections; rejects before the first label."""

    kernel, kernel_rule = "cheapest_threshold", "REJECT_COST"


# --- thresholds ----------------------------------------------------------------------------------


class RecentCertainties:
    """Ring buffer of recent certainties, and the threshold computed from them on demand.

    It grows as needed, so that many rare labels use little memory.
    """

    __slots__ = ("_capacity", "_memory", "seen", "threshold")

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._memory: Floats = np.zeros((4, min(capacity, FIRST_CAPACITY)))
        self.seen = 0
        self.threshold: float | None = None

    @property
    def memory(self) -> Floats:
        """The buffer at full capacity, for kernels that add many certainties at once."""
        self._grow(self._capacity)
        return self._memory

    def _grow(self, capacity: int) -> None:
        """Enlarge the buffer; it never wraps around before it has its full capacity."""
        before = self._memory
        if before.shape[1] < capacity:
            self._memory = np.zeros((4, capacity))
            self._memory[:, : before.shape[1]] = before

    def remember(self, certainty: float, right: bool) -> None:
        """Add a certainty and whether the decision was right."""
        if self.seen == self._memory.shape[1] < self._capacity:
            self._grow(min(2 * self.seen, self._capacity))
        kernels("pipeline").remember(self._memory, self.seen, certainty, float(right))
        self.seen += 1
        self.threshold = None

    def find(self, rule: Rule) -> float:
        """Return the threshold of a rule for these certainties."""
        if self.threshold is None:
            stored = min(self.seen, self._capacity)
            self.threshold = rule.threshold(self._memory, stored, self.seen)
        return self.threshold

    def in_order(self) -> Floats:
        """Return certainties and whether they were right, oldest first."""
        if self.seen < self._capacity:
            return self._memory[:2, : self.seen]
        return np.roll(self._memory[:2], -(self.seen % self._capacity), axis=1)

    def restore(self, seen: int, came: Floats) -> None:
        """Restore certainties `came`, the last ones of `seen`."""
        stored = came.shape[1]
        self._grow(stored)
        self._memory[:2, np.arange(seen - stored, seen) % self._capacity] = came
        # Stable, as the kernel inserts each behind its equals: the oldest stays first.
        self._memory[2:, :stored] = came[:, np.argsort(came[0], kind="stable")]
        self.seen = seen
        self.threshold = None

    def __getstate__(self) -> tuple[Floats, int, int]:
        return self._memory, self._capacity, self.seen

    def __setstate__(self, state: tuple[Floats, int, int]) -> None:
        self._memory, self._capacity, self.seen = state
        self.threshold = None


class Thresholds(abc.ABC):
    """Base class of the thresholds per predicted label."""

    needs_labels = False
    learns = False
    per_class = False

    @abc.abstractmethod
    def find(self, label: Label) -> float:
        """Return the current threshold for a label."""

    @abc.abstractmethod
    def set_target(self, target: Any) -> None:
        """Change the target."""

    @abc.abstractmethod
    def remember(self, label: Label, certainty: float, right: bool) -> None:
        """Record a decision that was made before its reading was learnt."""

    def lend(self, batch: KernelBatch) -> Arrays:
        """Return settings, thresholds by class, certainties and their count for the kernel."""
        settings, _, *memory = no_rejection(len(batch.classes))
        return settings, np.array([self.find(label) for label in batch.classes]), *memory

    def settle(self, seen: int) -> None:  # noqa: B027 - only adaptive thresholds need it
        """Record how many certainties the kernel has seen in total."""

    def moved_to(self, classes: Sequence[Label]) -> Thresholds:
        """Return a copy for a model with these classes."""
        return copy.deepcopy(self)

    def memory(self, classes: Sequence[Label]) -> dict[str, Any]:
        """Return the memory as arrays; labels are indices into `classes`."""
        return {}

    def restore(self, classes: Sequence[Label], arrays: dict[str, Any]) -> None:
        """Restore what `memory` returned; raise ValueError if it does not fit."""
        if arrays:
            raise ValueError(
                f"thresholds: expected no memory for fixed thresholds, got {sorted(arrays)}"
            )


class Fixed(Thresholds):
    """Fixed threshold, or one per label; other labels get the largest of them."""

    def __init__(self, target: float | Mapping[Label, float]) -> None:
        self.set_target(target)

    def set_target(self, target: float | Mapping[Label, float]) -> None:
        self._by_label = dict(target) if isinstance(target, Mapping) else {}
        self._other = max(target.values()) if isinstance(target, Mapping) else target

    def find(self, label: Label) -> float:
        return self._by_label.get(label, self._other) if self._by_label else self._other

    def remember(self, label: Label, certainty: float, right: bool) -> None:
        pass  # fixed thresholds do not learn


class Chow(Fixed):
    """Chow's optimal threshold for probabilities if an error costs 1 and a rejection `target`."""

    def set_target(self, target: float | Mapping[Label, float]) -> None:
        assert not isinstance(target, Mapping)
        super().set_target(1.0 - target)


class Adaptive(Thresholds):
    """Thresholds adapted by a rule to recent certainties, overall or per predicted label."""

    learns = True

    def __init__(self, rule: Rule, memory: int, per_class: bool) -> None:
        self.rule = rule
        self.needs_labels = rule.needs_labels
        self._memory = memory
        self.per_class = per_class
        self._recent: dict[Label, RecentCertainties] = {}
        self._empty = RecentCertainties(1)

    def _key(self, label: Label) -> Label:
        return label if self.per_class else None

    def set_target(self, target: float) -> None:
        self.rule.target = target
        for recent in (*self._recent.values(), self._empty):
            recent.threshold = None

    def find(self, label: Label) -> float:
        return self._recent.get(self._key(label), self._empty).find(self.rule)

    def remember(self, label: Label, certainty: float, right: bool) -> None:
        self.recent(label).remember(certainty, right)

    def recent(self, label: Label) -> RecentCertainties:
        """Return the buffer of recent certainties for a label."""
        key = self._key(label)
        if key not in self._recent:
            self._recent[key] = RecentCertainties(self._memory)
        return self._recent[key]

    def lend(self, batch: KernelBatch) -> Arrays:
        """Return the certainties of all classes together for the batch kernel."""
        constants, recent = kernels("pipeline"), self.recent(None)
        batch.adapt = constants.address(self.rule.kernel)
        settings, thresholds, _, _, *unused = no_rejection(len(batch.classes))
        settings[constants.RULE] = getattr(constants, self.rule.kernel_rule)
        settings[constants.TARGET] = self.rule.target
        seen = np.array([recent.seen], np.int64)
        return settings, thresholds, recent.memory, seen, *unused

    def settle(self, seen: int) -> None:
        """Record how many certainties the kernel has seen in total."""
        recent = self.recent(None)
        recent.seen, recent.threshold = seen, None

    def moved_to(self, classes: Sequence[Label]) -> Adaptive:
        """Return a copy without the classes that the model does not know."""
        moved = copy.deepcopy(self)
        if self.per_class:
            kept = {None, *classes}
            moved._recent = {label: r for label, r in moved._recent.items() if label in kept}
        return moved

    def memory(self, classes: Sequence[Label]) -> dict[str, Any]:
        """Return the certainties in order of arrival; sorting is repeated on restore."""
        number = {label: code for code, label in enumerate(classes)}
        used = {key: each for key, each in self._recent.items() if each.seen}
        recent = used.values()
        return {
            "of": np.array([number.get(key, -1) for key in used], np.int64),
            "seen": np.array([each.seen for each in recent], np.int64),
            "stored": np.array([len(each.in_order()[0]) for each in recent], np.int64),
            "came": np.concatenate(
                [np.empty((2, 0)), *(each.in_order() for each in recent)], axis=1
            ),
        }

    def restore(self, classes: Sequence[Label], arrays: dict[str, Any]) -> None:
        of, seen, stored, came = (arrays[name] for name in ("of", "seen", "stored", "came"))
        if not (of.shape == seen.shape == stored.shape == (len(set(of.tolist())),)):
            raise ValueError("thresholds: expected as many labels as memories, all different")
        if np.any((seen < 0) | (seen > MAX_SEEN)):
            raise ValueError("thresholds: expected counts of decisions")
        if not np.array_equal(stored, np.minimum(seen, self._memory)):
            raise ValueError(f"thresholds: expected up to {self._memory} decisions of each label")
        if came.shape != (2, stored.sum()) or not np.all((came >= 0.0) & (came <= 1.0)):
            raise ValueError("thresholds: expected certainties from 0 to 1")
        if np.any(of < -1) or np.any(of >= len(classes)) or np.any((of == -1) == self.per_class):
            raise ValueError("thresholds: expected labels that the model knows")
        self._recent, start = {}, 0
        for code, number, count in zip(of.tolist(), seen.tolist(), stored.tolist(), strict=True):
            recent = RecentCertainties(self._memory)
            recent.restore(number, came[:, start : start + count])
            self._recent[None if code < 0 else classes[code]] = recent
            start += count
