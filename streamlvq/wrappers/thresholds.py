"""How certain a decision must be: fixed thresholds, and those that follow the last readings.

A decision is accepted if its certainty is at least the threshold. Certainties lie between 0 and 1,
so an infinite threshold rejects everything.
"""

from __future__ import annotations

import abc
import copy
import functools
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from streamlvq.models.array_classifier import Label
from streamlvq.models.batch import Arrays, no_rejection
from streamlvq.models.batch import kernels as batch_kernels
from streamlvq.state import Floats

FIRST_ROOM = 64  # certainties
MOST_SEEN = 2**53  # it goes on from there


@functools.cache
def _kernels() -> ModuleType:
    from streamlvq.kernels import rejection  # noqa: PLC0415

    return rejection


# --- rules: from the last certainties to a threshold ---------------------------------------------


class Rule(abc.ABC):
    """What a threshold is to achieve."""

    needs_labels = True
    kernel_rule: str  # the name of its constant in the batch kernel

    def __init__(self, target: float) -> None:
        self.target = target

    @abc.abstractmethod
    def threshold(self, memory: Floats, stored: int) -> float:
        """For the `stored` certainties in a memory of `streamlvq.kernels.rejection`."""


class TargetRate(Rule):
    """Reject this share of the readings; nothing, until one has been seen.

    Of readings that are equally certain all are kept or all rejected, whatever is closer to it.
    """

    needs_labels = False
    kernel_rule = "TARGET_RATE"

    def threshold(self, memory: Floats, stored: int) -> float:
        return float(_kernels().rate_threshold(memory, stored, self.target))


class TargetAccuracy(Rule):
    """Reject as little as makes the kept decisions this accurate; everything if nothing does."""

    kernel_rule = "TARGET_ACCURACY"

    def threshold(self, memory: Floats, stored: int) -> float:
        return float(_kernels().accurate_threshold(memory, stored, self.target))


class RejectCost(Rule):
    """Make errors (of cost 1) and rejections (of this cost) cheap; reject until one was seen."""

    kernel_rule = "REJECT_COST"

    def threshold(self, memory: Floats, stored: int) -> float:
        return float(_kernels().cheapest_threshold(memory, stored, self.target))


# --- where thresholds come from ------------------------------------------------------------------


class RecentCertainties:
    """The last certainties and the threshold that follows from them, found when it is asked for.

    Room is made as they come: many labels that are rarely seen ask for little.
    """

    __slots__ = ("_memory", "_room", "seen", "threshold")

    def __init__(self, room: int) -> None:
        self._room = room
        self._memory: Floats = np.zeros((4, min(room, FIRST_ROOM)))
        self.seen = 0
        self.threshold: float | None = None

    @property
    def memory(self) -> Floats:
        """All of it, for kernels that remember many at once."""
        self._make_room(self._room)
        return self._memory

    def _make_room(self, room: int) -> None:
        """For so many; nothing has been replaced before all the room is there."""
        before = self._memory
        if before.shape[1] < room:
            self._memory = np.zeros((4, room))
            self._memory[:, : before.shape[1]] = before

    def remember(self, certainty: float, right: bool) -> None:
        if self.seen == self._memory.shape[1] < self._room:
            self._make_room(min(2 * self.seen, self._room))
        _kernels().remember(self._memory, self.seen, certainty, float(right))
        self.seen += 1
        self.threshold = None

    def find(self, rule: Rule) -> float:
        if self.threshold is None:
            self.threshold = rule.threshold(self._memory, min(self.seen, self._room))
        return self.threshold

    def came(self) -> Floats:
        """Certainties and whether they were right, the oldest first."""
        if self.seen < self._room:
            return self._memory[:2, : self.seen]
        return np.roll(self._memory[:2], -(self.seen % self._room), axis=1)

    def restore(self, seen: int, came: Floats) -> None:
        """Remember these, the last of so many."""
        stored = came.shape[1]
        self._make_room(stored)
        self._memory[:2, np.arange(seen - stored, seen) % self._room] = came
        # Each is put behind those that equal it, so the oldest of them stays the first.
        self._memory[2:, :stored] = came[:, np.argsort(came[0], kind="stable")]
        self.seen = seen
        self.threshold = None

    def __getstate__(self) -> tuple[Floats, int, int]:
        return self._memory, self._room, self.seen

    def __setstate__(self, state: tuple[Floats, int, int]) -> None:
        self._memory, self._room, self.seen = state
        self.threshold = None


class Thresholds(abc.ABC):
    """The threshold for each predicted label."""

    needs_labels = False
    learns = False
    per_class = False

    @abc.abstractmethod
    def find(self, label: Label) -> float:
        """The threshold in force."""

    @abc.abstractmethod
    def set_target(self, target: Any) -> None:
        """Change what is aimed at."""

    @abc.abstractmethod
    def remember(self, label: Label, certainty: float, right: bool) -> None:
        """Take note of a decision before its reading is learnt."""

    def lend(self, classes: Sequence[Label]) -> Arrays:
        """Lend the batch kernel settings, thresholds by class, certainties, and their count."""
        settings, _, *memory = no_rejection(len(classes))
        return settings, np.array([self.find(label) for label in classes]), *memory

    def settle(self, seen: int) -> None:  # noqa: B027 - only what adapts has something to do
        """Take note of how many certainties the kernel has seen by now."""

    def moved_to(self, classes: Sequence[Label]) -> Thresholds:
        """Copy what is remembered, for a model that knows these classes."""
        return copy.deepcopy(self)

    def memory(self, classes: Sequence[Label]) -> dict[str, Any]:
        """What was learnt, as arrays; labels are numbers in `classes`."""
        return {}

    def restore(self, classes: Sequence[Label], arrays: dict[str, Any]) -> None:
        """The opposite of `memory`; raises ValueError if it does not fit."""
        if arrays:
            raise ValueError(f"thresholds: expected nothing to remember, got {sorted(arrays)}")


class Fixed(Thresholds):
    """A number, or a number for each label; a label without one gets the largest of them."""

    def __init__(self, target: float | Mapping[Label, float]) -> None:
        self.set_target(target)

    def set_target(self, target: float | Mapping[Label, float]) -> None:
        self._by_label = dict(target) if isinstance(target, Mapping) else {}
        self._other = max(target.values()) if isinstance(target, Mapping) else target

    def find(self, label: Label) -> float:
        return self._by_label.get(label, self._other) if self._by_label else self._other

    def remember(self, label: Label, certainty: float, right: bool) -> None:
        pass  # what is fixed learns nothing


class Chow(Fixed):
    """The best threshold for a probability, if an error costs 1 and a rejection `target`."""

    def set_target(self, target: float | Mapping[Label, float]) -> None:
        assert not isinstance(target, Mapping)
        super().set_target(1.0 - target)


class Adaptive(Thresholds):
    """A rule applied to the last certainties, of all readings or of each label's own."""

    learns = True

    def __init__(self, rule: Rule, memory: int, per_class: bool) -> None:
        self.rule = rule
        self.needs_labels = rule.needs_labels
        self._memory = memory
        self.per_class = per_class
        self._recent: dict[Label, RecentCertainties] = {}
        self._nothing = RecentCertainties(1)

    def _key(self, label: Label) -> Label:
        return label if self.per_class else None

    def set_target(self, target: float) -> None:
        self.rule.target = target
        for recent in (*self._recent.values(), self._nothing):
            recent.threshold = None

    def find(self, label: Label) -> float:
        return self._recent.get(self._key(label), self._nothing).find(self.rule)

    def remember(self, label: Label, certainty: float, right: bool) -> None:
        self.recent(label).remember(certainty, right)

    def recent(self, label: Label) -> RecentCertainties:
        """Where the certainties are that go with a label."""
        key = self._key(label)
        if key not in self._recent:
            self._recent[key] = RecentCertainties(self._memory)
        return self._recent[key]

    def lend(self, classes: Sequence[Label]) -> Arrays:
        """Lend the certainties of all classes together to the batch kernel."""
        constants, recent = batch_kernels(), self.recent(None)
        settings = np.zeros(4)
        settings[constants.RULE] = getattr(constants, self.rule.kernel_rule)
        settings[constants.TARGET] = self.rule.target
        seen = np.array([recent.seen], np.int64)
        return settings, np.zeros(len(classes)), recent.memory, seen

    def settle(self, seen: int) -> None:
        """Take note of how many certainties the kernel has seen by now."""
        recent = self.recent(None)
        recent.seen, recent.threshold = seen, None

    def moved_to(self, classes: Sequence[Label]) -> Adaptive:
        """Copy what is remembered; a class that the model does not know has no threshold."""
        moved = copy.deepcopy(self)
        if self.per_class:
            kept = {None, *classes}
            moved._recent = {label: r for label, r in moved._recent.items() if label in kept}
        return moved

    def memory(self, classes: Sequence[Label]) -> dict[str, Any]:
        """What came, the oldest first; how it is sorted follows from that."""
        number = {label: code for code, label in enumerate(classes)}
        used = {key: each for key, each in self._recent.items() if each.seen}
        recent = used.values()
        return {
            "of": np.array([number.get(key, -1) for key in used], np.int64),
            "seen": np.array([each.seen for each in recent], np.int64),
            "stored": np.array([len(each.came()[0]) for each in recent], np.int64),
            "came": np.concatenate([np.empty((2, 0)), *(each.came() for each in recent)], axis=1),
        }

    def restore(self, classes: Sequence[Label], arrays: dict[str, Any]) -> None:
        of, seen, stored, came = (arrays[name] for name in ("of", "seen", "stored", "came"))
        if not (of.shape == seen.shape == stored.shape == (len(set(of.tolist())),)):
            raise ValueError("thresholds: expected as many labels as memories, all different")
        if np.any((seen < 0) | (seen > MOST_SEEN)):
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
