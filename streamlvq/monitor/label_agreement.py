"""Label agreement: whether labels suddenly contradict a model that was right before.

Nothing here changes a decision or is kept in a checkpoint: after a restart it begins anew.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

from streamlvq.events import Decisions

RECENT_LABELS = 30  # that are compared with those before
USUAL_SPAN_LABELS = 500  # a label this many labels ago counts 1/e
MIN_LABELS = 100  # before the recent ones, to know what is usual
MIN_DROP = 0.3  # of the accuracy
MIN_DEVIATIONS = 4.0  # of the accuracy of so many labels, by chance
_DECAY = 1.0 - 1.0 / USUAL_SPAN_LABELS


@dataclass(slots=True)
class AgreementScore:
    """Usual and recent agreement of a model's decisions with the labels that came with them."""

    recent: deque[bool] = field(default_factory=deque)
    right: float = 0.0  # weights of right decisions before the recent ones, summed
    weight: float = 0.0
    labels: int = 0  # before the recent ones

    def count(self, right: bool) -> None:
        """Record whether a decision agreed with its label."""
        self.recent.append(right)
        if len(self.recent) > RECENT_LABELS:
            self.right = self.right * _DECAY + self.recent.popleft()
            self.weight = self.weight * _DECAY + 1.0
            self.labels += 1

    @property
    def accuracies(self) -> tuple[float, float]:
        """Usual and recent accuracy; NaN if there are no labels."""
        usual = self.right / self.weight if self.labels else math.nan
        return usual, sum(self.recent) / len(self.recent) if self.recent else math.nan

    @property
    def contradicts(self) -> bool:
        """Whether recent labels contradict the model, though it was right before."""
        if self.labels < MIN_LABELS:
            return False
        usual, recent = self.accuracies
        chance = math.sqrt(max(usual * (1.0 - usual), 0.01) / RECENT_LABELS)
        return usual - recent >= max(MIN_DROP, MIN_DEVIATIONS * chance)


class LabelAgreement:
    """Agreement of decisions with labels, for each group.

    Labels contradict a model if it was right about the last 30 of them at least .3 less often than
    about those before, and by four standard deviations. That ends when the model has learnt the
    change, or after some hundred labels. A label that the model does not know contradicts nothing.

    Examples
    --------
    >>> from streamlvq.monitor.label_agreement import LabelAgreement
    >>> agreement = LabelAgreement()
    >>> for k in range(300):
    ...     agreement.count("", right=k % 10 > 0)
    >>> agreement.contradicted()
    {}
    >>> for k in range(30):
    ...     agreement.count("", right=k % 2 > 0)
    >>> agreement.contradicted()
    {'': (0.9, 0.5)}

    """

    def __init__(self) -> None:
        self._scores: dict[str, AgreementScore] = {}

    def see(self, decisions: Decisions) -> None:
        """Record decisions on labelled readings."""
        labels = decisions.true_labels
        if labels.count(None) == len(labels):
            return
        known = set(decisions.classes)
        columns = labels, decisions.labels(), decisions.duplicates, decisions.groups
        for label, decided, duplicate, group in zip(*columns, strict=True):
            if label in known and not duplicate:
                self.count(group, decided == label)

    def count(self, group: str, right: bool) -> None:
        """Record whether a decision in a group agreed with its label."""
        score = self._scores.get(group)
        if score is None:
            score = self._scores[group] = AgreementScore()
        score.count(right)

    @property
    def lowest(self) -> float:
        """Lowest recent accuracy of all groups; NaN if there are no labels."""
        found = [score.accuracies[1] for score in self._scores.values()]
        return min(found, default=math.nan)

    def contradicted(self) -> dict[str, tuple[float, float]]:
        """Return usual and recent accuracy of the groups whose labels contradict their model."""
        return {
            group: (round(usual, 3), round(recent, 3))
            for group, score in self._scores.items()
            if score.contradicts
            for usual, recent in [score.accuracies]
        }

    def warnings(self) -> list[str]:
        """Return a warning if labels contradict a model."""
        found = self.contradicted()
        if not found:
            return []
        group, (usual, recent) = max(found.items(), key=lambda item: item[1][0] - item[1][1])
        name = f"the model of {group[:80]}" if group else "the model"
        more = f", and {len(found) - 1} more models" if len(found) > 1 else ""
        return [
            f"labels: the last {RECENT_LABELS} contradict {name}, which was right about "
            f"{usual:.0%} and now is about {recent:.0%}{more}"
        ]
