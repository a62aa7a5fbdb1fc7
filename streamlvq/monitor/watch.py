"""Watch over sensors and labels: what somebody should look into, decided on nevertheless.

`SensorHealth` finds features of a device that stand still, are missing, or left their range;
`LabelAgreement` finds labels that suddenly contradict a model that was right before. Nothing here
changes a decision or is kept in a checkpoint: after a restart it begins anew.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streamlvq.arrays import Ints, Rows
from streamlvq.config import HealthSection
from streamlvq.events import Decisions, Event, Readings
from streamlvq.monitor.monitor import Monitor, Outcome

log = logging.getLogger(__name__)

# --- sensors -------------------------------------------------------------------------------------

MAX_WATCHED = 200_000  # pairs of device and feature; devices beyond are not watched
DIGEST_READINGS = 2048  # that are looked at together: .3 us each, where 512 take .6
DIGEST_VALUES = 1_000_000  # of wide readings, which are looked at earlier
MIN_MOVES = 10  # times that a feature must have moved to count as one that moves
MIN_READINGS = 200  # of a feature, before its range and its absence mean something
RANGE_READINGS = 1000  # outside of the range after which it counts as the range
LONGEST_FACTOR = 5  # times the longest calm or absence so far
SENSOR_PROBLEMS = ("still", "missing", "range")


class SensorProblem(NamedTuple):
    """A feature of a device that somebody should look at."""

    kind: str  # one of SENSOR_PROBLEMS
    device: str
    feature: str
    readings: int  # of the device, for how long


class SensorHealth:
    """Watch over the features of devices.

    - `still`: it used to move, and has had the same value for `health.still_readings` readings and
      five times as long as ever before.
    - `missing`: it came in 200 readings, and not in the last `health.missing_readings`, five times
      as many as ever before.
    - `range`: it is further outside of everything seen before (in 200 readings) than
      `health.range_margin` times the width of that range, for 1000 readings at most.

    Readings are collected and looked at together, so that each costs little. The first devices are
    watched, as many as have 200 000 features together.

    Examples
    --------
    >>> import numpy as np
    >>> from streamlvq.config import HealthSection
    >>> from streamlvq.events import Readings
    >>> from streamlvq.monitor.watch import SensorHealth
    >>> sensors = SensorHealth(HealthSection(still_readings=1000))
    >>> for k in range(40):
    ...     heat = np.random.default_rng(k).random(100) if k < 20 else np.full(100, 0.5)
    ...     rows = np.column_stack([heat, np.arange(100)])
    ...     sensors.see(Readings.of(["heat", "noise"], rows), ["heat", "noise"])
    >>> [(each.kind, each.device, each.feature) for each in sensors.problems()]
    [('still', 'device', 'heat')]

    """

    def __init__(self, section: HealthSection) -> None:
        self.section = section
        self._devices: dict[str, int] = {}
        self._features: dict[str, int] = {}
        self._state = _SensorArrays.empty(0, 0)
        self._collected: list[tuple[tuple[str, ...], Rows, list[str]]] = []
        self._count = self._values = 0  # collected
        self._familiar: tuple[tuple[str, ...], Sequence[object]] = (), ()  # last names and known
        self._columns: list[int] = []  # of the known ones among them

    def see(self, readings: Readings, known: Sequence[object]) -> None:
        """Collect readings; only features in `known` are watched, so that junk is not."""
        if not len(readings):
            return
        if (readings.features, known) != self._familiar:
            self._familiar = readings.features, known
            names = set(known)
            self._columns = [j for j, name in enumerate(readings.features) if name in names]
        if len(self._columns) == len(readings.features):
            self._collected.append((readings.features, readings.rows, readings.devices))
        else:
            features = tuple(readings.features[j] for j in self._columns)
            rows = readings.rows[:, self._columns]
            self._collected.append((features, rows, readings.devices))
        self._count += len(readings)
        self._values += readings.rows.size
        if self._count >= DIGEST_READINGS or self._values >= DIGEST_VALUES:
            self.digest()

    def digest(self) -> None:
        """Look at the readings collected so far."""
        by_features: dict[tuple[str, ...], tuple[list[Rows], list[str]]] = {}
        for features, rows, devices in self._collected:
            tables, names = by_features.setdefault(features, ([], []))
            tables.append(rows)
            names += devices
        self._collected, self._count, self._values = [], 0, 0
        for features, (tables, names) in by_features.items():
            self._add(features, np.concatenate(tables), names)

    def _add(self, features: tuple[str, ...], rows: Rows, devices: list[str]) -> None:
        for name in features:
            self._features.setdefault(name, len(self._features))
        width = max(len(self._features), 1)
        for device in dict.fromkeys(devices):
            if device not in self._devices and (len(self._devices) + 1) * width <= MAX_WATCHED:
                self._devices[device] = len(self._devices)
        self._state = self._state.grown(len(self._devices), len(self._features))
        numbers = np.array([self._devices.get(device, -1) for device in devices])
        order = np.argsort(numbers, kind="stable")
        order = order[np.searchsorted(numbers[order], 0) :]  # without devices that are not watched
        if len(order):
            columns = np.array([self._features[name] for name in features], np.int64)
            self._state.add(numbers[order], rows[order], columns, self.section.range_margin)

    def problems(self) -> Iterator[SensorProblem]:
        """Yield the problems of now."""
        self.digest()
        section, state = self.section, self._state
        found = (
            state.find_still(section.still_readings),
            state.find_missing(section.missing_readings),
            state.find_outside(),
        )
        devices, features = list(self._devices), list(self._features)
        for kind, readings in zip(SENSOR_PROBLEMS, found, strict=True):
            for i, j in np.argwhere(readings > 0).tolist():
                yield SensorProblem(kind, devices[i], features[j], int(readings[i, j]))


@dataclass(slots=True)
class _SensorArrays:
    """State of each device (row) and feature (column); NaN and 0 before anything came."""

    low: Rows
    high: Rows
    last: Rows
    came: Ints  # readings that had it
    moves: Ints  # how often it moved
    still: Ints  # readings since
    longest_still: Ints  # before it moved last
    absent: Ints  # readings of the device without it
    longest_absent: Ints
    outside: Ints  # readings outside of the range

    @classmethod
    def empty(cls, devices: int, features: int) -> _SensorArrays:
        shape = (devices, features)
        numbers = [np.full(shape, np.nan) for _ in range(3)]
        return cls(*numbers, *(np.zeros(shape, np.int64) for _ in range(7)))

    def arrays(self) -> list[npt.NDArray[Any]]:
        return [
            self.low, self.high, self.last, self.came, self.moves, self.still, self.longest_still,
            self.absent, self.longest_absent, self.outside,
        ]  # fmt: skip

    def grown(self, devices: int, features: int) -> _SensorArrays:
        """Return a copy with room for so many devices and features; itself if it has it."""
        rows, columns = self.low.shape
        if devices <= rows and features <= columns:
            return self
        shape = max(devices, 2 * rows), max(features, columns + columns // 4)
        larger = _SensorArrays.empty(*shape)
        for old, new in zip(self.arrays(), larger.arrays(), strict=True):
            new[:rows, :columns] = old
        return larger

    def add(self, numbers: Ints, rows: Rows, columns: Ints, margin: float) -> None:
        """Add readings of these features, sorted by device."""
        starts = np.flatnonzero(np.r_[True, numbers[1:] != numbers[:-1]])
        devices, lengths = numbers[starts], np.diff(np.r_[starts, len(numbers)])
        self.absent[devices] += lengths[:, None]
        if not len(columns):
            return
        present = np.add.reduceat(~np.isnan(rows), starts, axis=0, dtype=np.int64)
        lowest = np.fmin.reduceat(rows, starts, axis=0)
        highest = np.fmax.reduceat(rows, starts, axis=0)
        final = rows[np.r_[starts[1:], len(rows)] - 1]
        at = np.ix_(devices, columns)
        came = present > 0
        self.longest_absent[at] = np.where(
            came & (self.came[at] > 0),
            np.maximum(self.longest_absent[at], self.absent[at] - lengths[:, None]),
            self.longest_absent[at],
        )
        self.absent[at] = np.where(came, 0, self.absent[at])
        moves, calm = self._moves(rows, starts, self.last[at])
        moved = moves > 0
        still = self.still[at] + present
        self.longest_still[at] = np.where(
            moved, np.maximum(self.longest_still[at], self.still[at]), self.longest_still[at]
        )
        self.still[at] = np.where(moved, calm, still)
        self.moves[at] += moves
        self._add_range(at, lowest, highest, present, margin)
        self.came[at] += present
        self.last[at] = np.where(came, np.where(np.isnan(final), highest, final), self.last[at])

    @staticmethod
    def _moves(rows: Rows, starts: Ints, last: Rows) -> tuple[Ints, Ints]:
        """Return how often features differed from the reading before, and the readings since."""
        before = np.empty_like(rows)
        before[1:] = rows[:-1]
        before[starts] = last
        changed = (rows != before) & ~np.isnan(rows) & ~np.isnan(before)
        moves = np.add.reduceat(changed, starts, axis=0, dtype=np.int64)
        places = np.where(changed, np.arange(len(rows))[:, None], -1)
        ends = np.r_[starts[1:], len(rows)] - 1
        return moves, ends[:, None] - np.maximum.reduceat(places, starts, axis=0)

    def _add_range(
        self, at: Any, lowest: Rows, highest: Rows, present: Ints, margin: float
    ) -> None:
        low, high = self.low[at], self.high[at]
        slack = (high - low) * margin
        judged = (self.came[at] >= MIN_READINGS) & (self.moves[at] >= MIN_MOVES) & (margin > 0.0)
        left = judged & ((lowest < low - slack) | (highest > high + slack))
        outside = np.where(
            left, self.outside[at] + present, np.where(present > 0, 0, self.outside[at])
        )
        settled = outside > RANGE_READINGS
        self.outside[at] = np.where(settled, 0, outside)
        widened = ~left | settled
        self.low[at] = np.where(widened, np.fmin(low, lowest), low)
        self.high[at] = np.where(widened, np.fmax(high, highest), high)

    def find_still(self, readings: int) -> Ints:
        """Return for how many readings features have stood still that used to move; else 0."""
        long = (self.still >= readings) & (self.still >= LONGEST_FACTOR * self.longest_still)
        found = long & (self.moves >= MIN_MOVES) & (self.absent == 0) & (readings > 0)
        return np.where(found, self.still, 0)

    def find_missing(self, readings: int) -> Ints:
        """Return for how many readings features have been missing that used to come; else 0."""
        long = (self.absent >= readings) & (self.absent >= LONGEST_FACTOR * self.longest_absent)
        return np.where(long & (self.came >= MIN_READINGS) & (readings > 0), self.absent, 0)

    def find_outside(self) -> Ints:
        """Return for how many readings features have been outside of their range; else 0."""
        return self.outside


def sensor_warnings(problems: Sequence[SensorProblem]) -> list[str]:
    """Return a warning for each kind of problem.

    Examples
    --------
    >>> from streamlvq.monitor.watch import SensorProblem, sensor_warnings
    >>> sensor_warnings([SensorProblem("missing", "oven-3", "heat", 250)])
    ['missing: heat of oven-3 has not come for 250 readings']

    """
    texts = {
        "still": "has not moved for",
        "missing": "has not come for",
        "range": "has been outside of everything seen before for",
    }
    warnings = []
    for kind, text in texts.items():
        found = [each for each in problems if each.kind == kind]
        if found:
            worst = max(found, key=lambda each: each.readings)
            more = f", and {len(found) - 1} more" if len(found) > 1 else ""
            name = f"{worst.feature[:80]} of {worst.device[:80]}"
            warnings.append(f"{kind}: {name} {text} {worst.readings} readings{more}")
    return warnings


# --- labels --------------------------------------------------------------------------------------

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
    >>> from streamlvq.monitor.watch import LabelAgreement
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


# --- both ----------------------------------------------------------------------------------------


class Watch:
    """Both watches, which events and their outcomes are shown to.

    Never raises: a defect here must not cost a decision. It is logged, and the watch begins anew.
    """

    def __init__(self, section: HealthSection) -> None:
        self.section = section
        self.sensors = SensorHealth(section)
        self.agreement = LabelAgreement()

    def change(self, section: HealthSection) -> None:
        """Go on with other limits."""
        self.section = self.sensors.section = section

    def see(self, event: Event, outcome: Outcome, monitor: Monitor) -> None:
        """Inspect an event and its outcome."""
        try:
            self._see(event, outcome, monitor)
        except Exception as error:
            self._begin_anew(error)

    def problems(self) -> list[SensorProblem]:
        """Return what is wrong with sensors now."""
        try:
            return list(self.sensors.problems())
        except Exception as error:
            self._begin_anew(error)
            return []

    def _begin_anew(self, error: Exception) -> None:
        log.error("internal error: the watch over sensors begins anew", exc_info=error)
        self.sensors, self.agreement = SensorHealth(self.section), LabelAgreement()

    def _see(self, event: Event, outcome: Outcome, monitor: Monitor) -> None:
        if isinstance(event, Readings):
            if len(event):
                self.sensors.see(event, monitor.features(event.groups[0]))
            if outcome.decisions is not None:
                self.agreement.see(outcome.decisions)
        elif outcome.late_right is not None:
            self.agreement.count(*outcome.late_right)
