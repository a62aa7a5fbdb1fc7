"""What came of a replay, counted while it runs in memory that does not grow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from streamlvq.events import Decisions, Label, LateLabel, Refused
from streamlvq.metrics import AccuracyRejectCurve
from streamlvq.monitor.memory import LabelMatcher
from streamlvq.replay.cells import Cells
from streamlvq.replay.numbering import Numbering

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Number = TypeVar("Number", int, Ints)

LABELS = 256  # that are told apart; more are counted as one
DEVICES = 1000  # likewise
EXAMPLES = 5  # texts of refused rows that are kept
BINS = 15  # of calibration

# Columns of cells; then every label has two: decided and true.
READINGS, REJECTED, WRONG, LABELLED, RIGHT, FIRST_LABEL = range(6)
# Columns of devices.
D_READINGS, D_ACCEPTED, D_LABELLED, D_RIGHT, D_ACCEPTED_LABELLED, D_ACCEPTED_RIGHT = range(6)


class _Judged(NamedTuple):
    """Decisions on readings whose label is known, in columns."""

    devices: Ints
    truths: Ints
    decided: Ints
    accepted: Bools
    certainties: Floats
    confidences: Floats  # probability of the label that was decided

    def where(self, chosen: Bools) -> _Judged:
        """Some of them."""
        if chosen.all():
            return self
        return _Judged(
            self.devices[chosen],
            self.truths[chosen],
            self.decided[chosen],
            self.accepted[chosen],
            self.certainties[chosen],
            self.confidences[chosen],
        )


class _Waiting(NamedTuple):
    """A decision whose label may come late."""

    device: int
    ordinal: int  # of the readings of its track; -1 if it has none
    decided: int
    accepted: bool
    certainty: float
    confidence: float


class Statistics:
    """Counts decisions, batch by batch; duplicates are left out.

    Parameters
    ----------
    tracks
        Devices whose decisions over time are kept: the first that appear.
    cells
        How finely, for each of them.
    wait
        Decisions that are remembered until their label comes; 0 if labels never come late.
    by_sequence
        Whether late labels name the number of their reading; otherwise its time.

    Examples
    --------

    >>> from streamlvq.replay import Statistics
    >>> statistics = Statistics()
    >>> statistics.readings, statistics.accuracy
    (0, None)

    """

    def __init__(
        self, tracks: int = 24, cells: int = 400, wait: int = 0, by_sequence: bool = True
    ) -> None:
        self.labels, self.devices = Numbering(LABELS), Numbering(DEVICES)
        self.readings = self.duplicates = self.learnt = self.late = 0
        self.reasons: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.examples: list[str] = []
        self.curve = AccuracyRejectCurve()
        self.calibration = np.zeros((BINS, 3))  # samples, sum of confidences, right ones
        self.confusion = np.zeros((8, 8, 2), np.int64)  # true, 1 + decided, accepted
        self.by_device = np.zeros((DEVICES + 1, 6), np.int64)
        self.tracks = Cells(tracks, cells)
        self.course = Cells(1, cells)  # of all devices together
        self.span = (np.inf, -np.inf)
        self._waiting: LabelMatcher[_Waiting] = LabelMatcher(wait, by_sequence)

    # --- counting --------------------------------------------------------------------------------

    def add(self, decisions: Decisions, truths: Sequence[Label | None] | None = None) -> None:
        """Count decisions; `truths` are the labels if the monitor was not told them."""
        given = decisions.truths if truths is None else truths
        if True in decisions.duplicates:
            decisions, given = _without_duplicates(decisions, given)
        if not len(decisions):
            return
        devices = self.devices.numbers(decisions.devices)
        judged = self._judged(decisions, devices, self.labels.numbers(given))
        self.readings += len(decisions)
        if not decisions.accepted.all():
            self.reasons.update(decisions.reasons)  # type: ignore[arg-type]
            del self.reasons[None]
        self._count_devices(devices, D_READINGS)
        self._count_devices(devices[judged.accepted], D_ACCEPTED)
        known = judged.truths >= 0
        self._judge(judged.where(known))
        ordinals = self._chart(judged, _numbers(decisions.times))
        if self._waiting.room:
            self._remember(decisions, judged, ordinals)

    def _judged(self, decisions: Decisions, devices: Ints, truths: Ints) -> _Judged:
        """The decisions with our numbers of labels."""
        codes = decisions.codes
        own = np.append(self.labels.numbers(decisions.classes), -1)  # -1 finds the last
        confidences = np.zeros(len(codes))
        if decisions.probabilities.shape[1]:
            confidences = decisions.probabilities[np.arange(len(codes)), codes]
            confidences = np.where(codes >= 0, confidences, 0.0)
        return _Judged(
            devices=devices,
            truths=truths,
            decided=own[codes],
            accepted=decisions.accepted,
            certainties=np.where(codes >= 0, np.clip(decisions.certainties, 0.0, 1.0), 0.0),
            confidences=confidences,
        )

    def _judge(self, judged: _Judged) -> None:
        """Count decisions whose labels are known."""
        if not len(judged.truths):
            return
        right = _right(judged)
        size = max(int(judged.truths.max()), int(judged.decided.max())) + 2
        self.make_room(size)
        np.add.at(self.confusion, (judged.truths, judged.decided + 1, judged.accepted * 1), 1)
        self.curve.update_many(right.tolist(), [True] * len(right), judged.certainties)
        self._count_devices(judged.devices, D_LABELLED)
        self._count_devices(judged.devices[right], D_RIGHT)
        self._count_devices(judged.devices[judged.accepted], D_ACCEPTED_LABELLED)
        self._count_devices(judged.devices[judged.accepted & right], D_ACCEPTED_RIGHT)
        said = judged.decided >= 0
        bins = np.minimum((judged.confidences[said] * BINS).astype(np.int64), BINS - 1)
        for column, weights in enumerate((None, judged.confidences[said], right[said])):
            self.calibration[:, column] += np.bincount(bins, weights, minlength=BINS)

    def make_room(self, size: int) -> None:
        """See to it that the matrix has room for so many labels, and for none."""
        if size < len(self.confusion):
            return
        more = max(size + 1 - len(self.confusion), len(self.confusion))
        self.confusion = np.pad(self.confusion, ((0, more), (0, more), (0, 0)))

    def _count_devices(self, devices: Ints, column: int) -> None:
        self.by_device[:, column] += np.bincount(devices, minlength=len(self.by_device))

    # --- over time -------------------------------------------------------------------------------

    def _chart(self, judged: _Judged, times: Floats) -> Ints:
        """Count in cells over time; gives the ordinal of each reading in its track, or -1."""
        self.span = (np.fmin(self.span[0], np.fmin.reduce(times)),
                     np.fmax(self.span[1], np.fmax.reduce(times)))  # fmt: skip
        everything = np.zeros(len(times), np.int64)
        _fill(self.course, self.course.place(everything, times), judged, labels=False)
        ordinals = np.full(len(times), -1)
        shown = judged.devices < self.tracks.tracks
        if shown.any():
            some = judged.where(shown)
            if self._waiting.room:
                ordinals[shown] = self._next_ordinals(some.devices)
            _fill(self.tracks, self.tracks.place(some.devices, times[shown]), some, labels=True)
        return ordinals

    def _next_ordinals(self, devices: Ints) -> list[int]:
        seen = [self.tracks.seen(track) for track in range(self.tracks.tracks)]
        ordinals = []
        for device in devices.tolist():
            ordinals.append(seen[device])
            seen[device] += 1
        return ordinals

    # --- late labels, rows that were refused -----------------------------------------------------

    def _remember(self, decisions: Decisions, judged: _Judged, ordinals: Ints) -> None:
        columns = (judged.devices, ordinals, judged.decided, judged.accepted,
                   judged.certainties, judged.confidences)  # fmt: skip
        rows = zip(*(column.tolist() for column in columns), strict=True)
        known = (judged.truths >= 0).tolist()
        for key, labelled, row in zip(self._waiting.keys(decisions), known, rows, strict=True):
            if key is not None and not labelled:
                self._waiting.add(key, _Waiting(*row))

    def add_late(self, late: LateLabel) -> None:
        """Judge the decision that a late label belongs to."""
        found = self._waiting.pop(late)
        if found is None:
            return
        self.late += 1
        truths = self.labels.numbers([late.label])
        judged = _Judged(
            np.array([found.device]), truths, np.array([found.decided]),
            np.array([found.accepted]), np.array([found.certainty]), np.array([found.confidence]),
        )  # fmt: skip
        self._judge(judged)
        if found.ordinal >= 0:
            place = np.array([self.tracks.ordinal_place(found.device, found.ordinal)])
            _fill_truths(self.tracks, place, judged, labels=True)

    def refuse(self, refused: Sequence[Refused]) -> None:
        """Count what nothing could be learnt from."""
        self.refused.update(one.reason for one in refused)
        room = EXAMPLES - len(self.examples)
        self.examples += [one.text for one in refused[: max(room, 0)]]

    # --- answers ---------------------------------------------------------------------------------

    @property
    def labelled(self) -> int:
        """Readings whose label is known."""
        return int(self.confusion.sum())

    @property
    def right(self) -> int:
        """Readings that were given the right label, accepted or not."""
        return int(np.trace(self.confusion[:LABELS, 1:].sum(axis=2)))

    @property
    def accuracy(self) -> float | None:
        """The share of right labels, accepted or not; None without labels."""
        return share(self.right, self.labelled)

    @property
    def accuracy_of_accepted(self) -> float | None:
        """The share of right labels among those accepted."""
        accepted = self.confusion[:, :, 1]
        return share(int(np.trace(accepted[:LABELS, 1:])), int(accepted.sum()))

    @property
    def accepted(self) -> int:
        """Readings whose label was accepted."""
        return int(self.by_device[:, D_ACCEPTED].sum())


def share(part: float, whole: float) -> float | None:
    """A part of a whole; None of nothing."""
    return part / whole if whole else None


def decided_column(label: Number) -> Number:
    """Where cells count decisions for a label."""
    return FIRST_LABEL + 2 * label


def true_column(label: Number) -> Number:
    """Where cells count readings whose label this is."""
    return FIRST_LABEL + 2 * label + 1


def _fill(cells: Cells, places: Ints, judged: _Judged, labels: bool) -> None:
    cells.count(places, READINGS)
    cells.count(places[~judged.accepted], REJECTED)
    if labels:
        said = judged.decided >= 0
        cells.count(places[said], decided_column(judged.decided[said]))
    known = judged.truths >= 0
    if known.any():
        _fill_truths(cells, places[known], judged.where(known), labels)


def _fill_truths(cells: Cells, places: Ints, judged: _Judged, labels: bool) -> None:
    right = _right(judged)
    cells.count(places, LABELLED)
    cells.count(places[right], RIGHT)
    cells.count(places[judged.accepted & ~right], WRONG)
    if labels:
        cells.count(places, true_column(judged.truths))


def _right(judged: _Judged) -> Bools:
    """Whether each was given its label; those beyond the limit are not told apart, so never."""
    right: Bools = (judged.truths == judged.decided) & (judged.truths < LABELS)
    return right


def _numbers(times: Sequence[float | None]) -> Floats:
    return np.array(times, dtype=np.float64)  # None becomes NaN


def _without_duplicates(
    decisions: Decisions, truths: Sequence[Label | None]
) -> tuple[Decisions, list[Label | None]]:
    keep = [k for k, again in enumerate(decisions.duplicates) if not again]
    columns = {}
    for name in decisions.__slots__:
        values = getattr(decisions, name)
        if name == "classes":
            columns[name] = values
        else:
            chosen = values[keep] if isinstance(values, np.ndarray) else [values[k] for k in keep]
            columns[name] = chosen
    return Decisions(**columns), [truths[k] for k in keep]
