"""Statistics of a replay: counts by class and device, calibration and time, batch by batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from streamlvq.arrays import Bools, Floats, Ints, Label
from streamlvq.events import Decisions, Hint, LateLabel, Refused
from streamlvq.metrics import AccuracyRejectCurve
from streamlvq.monitor.late_labels import LabelMatcher

# --- numbers for names ---------------------------------------------------------------------------


class IndexMap(dict[Hashable, int]):
    """Map from names to 0, 1, 2 ... in order of appearance; beyond `limit` all map to `limit`.

    None maps to -1. A dict subclass that fills itself, because a dict lookup is the cheapest thing
    to do with a name.

    Examples
    --------

    >>> from streamlvq.replay.statistics import IndexMap
    >>> pumps = IndexMap(limit=2)
    >>> pumps.numbers(["p7", "p3", "p7", "p5"])
    array([0, 1, 0, 2])
    >>> pumps.names
    ['p7', 'p3']

    """

    def __init__(self, limit: int) -> None:
        super().__init__({None: -1})
        self.limit = limit

    def __missing__(self, name: Hashable) -> int:
        number = len(self) - 1
        if number >= self.limit:
            return self.limit
        self[name] = number
        return number

    @property
    def names(self) -> list[Hashable]:
        """Names with an index of their own."""
        return list(self)[1:]

    def numbers(self, names: Sequence[Hashable]) -> Ints:
        """Return the index of each name."""
        return np.fromiter(map(self.__getitem__, names), np.int64, len(names))


# --- counts over time ----------------------------------------------------------------------------


class TimeBins:
    """Counts over consecutive readings, for several tracks (devices) at once.

    A cell covers a number of consecutive readings of a track. When a track runs out of cells,
    neighbours are merged and each cell covers twice as many: nothing is lost, only the resolution
    halves. `cells` is the even number of cells of each track.

    Examples
    --------

    Five readings of one track, of which the last two are counted in column 3, in four cells:

    >>> import numpy as np
    >>> from streamlvq.replay.statistics import TimeBins
    >>> cells = TimeBins(tracks=1, cells=4)
    >>> places = cells.place(np.zeros(5, int), np.arange(5.0))
    >>> cells.count(places, np.array([0, 0, 0, 3, 3]))
    >>> cells.counts(0)[:, [0, 3]]
    array([[2, 0],
           [1, 1],
           [0, 1]])

    """

    def __init__(self, tracks: int, cells: int) -> None:
        self.tracks, self.cells = tracks, cells
        self._counts = np.zeros((tracks * cells, 8), np.int64)
        self._first = np.full(tracks * cells, np.nan)
        self._last = np.full(tracks * cells, np.nan)
        self._seen = np.zeros(tracks, np.int64)
        self._stride = np.ones(tracks, np.int64)

    # --- filling ---------------------------------------------------------------------------------

    def place(self, tracks: Ints, times: Floats) -> Ints:
        """Return the cells of the next readings by track, and extend their time spans."""
        order, ordinals = self._ordinals(tracks)
        for track in np.flatnonzero((self._seen - 1) // self._stride >= self.cells).tolist():
            while (self._seen[track] - 1) // self._stride[track] >= self.cells:
                self._halve(track)
        places = np.empty(len(tracks), np.int64)
        sorted_tracks = tracks[order]
        places[order] = sorted_tracks * self.cells + ordinals // self._stride[sorted_tracks]
        np.fmin.at(self._first, places, times)
        np.fmax.at(self._last, places, times)
        return places

    def _ordinals(self, tracks: Ints) -> tuple[Ints, Ints]:
        """Return an order by track, and each reading's ordinal within its track in that order."""
        order = np.argsort(tracks, kind="stable")
        counts = np.bincount(tracks, minlength=self.tracks)
        starts = np.cumsum(counts) - counts
        by_track = tracks[order]
        ordinals = np.arange(len(tracks)) - starts[by_track] + self._seen[by_track]
        self._seen += counts
        return order, ordinals

    def ordinal_place(self, track: int, ordinal: int) -> int:
        """Return the cell of an earlier reading, by its ordinal in the track."""
        return int(track * self.cells + ordinal // self._stride[track])

    def count(self, places: Ints, columns: Ints | int) -> None:
        """Add one in a column of each of these cells."""
        highest = int(np.max(columns, initial=0))
        if highest >= self._counts.shape[1]:
            self._widen(highest + 1)
        np.add.at(self._counts.reshape(-1), places * self._counts.shape[1] + columns, 1)

    def _widen(self, columns: int) -> None:
        more = max(columns, 2 * self._counts.shape[1]) - self._counts.shape[1]
        self._counts = np.pad(self._counts, ((0, 0), (0, more)))

    def _halve(self, track: int) -> None:
        """Merge neighbouring cells."""
        mine = slice(track * self.cells, (track + 1) * self.cells)
        half = self.cells // 2
        for values, joined in (
            (self._counts, self._counts[mine][0::2] + self._counts[mine][1::2]),
            (self._first, np.fmin(self._first[mine][0::2], self._first[mine][1::2])),
            (self._last, np.fmax(self._last[mine][0::2], self._last[mine][1::2])),
        ):
            values[mine][:half] = joined
            values[mine][half:] = 0 if values is self._counts else np.nan
        self._stride[track] *= 2

    # --- looking ---------------------------------------------------------------------------------

    def seen(self, track: int) -> int:
        """Return the number of readings of a track so far."""
        return int(self._seen[track])

    def stride(self, track: int) -> int:
        """Return the number of readings that a cell of this track covers."""
        return int(self._stride[track])

    def _used(self, track: int) -> slice:
        used = -(-int(self._seen[track]) // int(self._stride[track]))
        return slice(track * self.cells, track * self.cells + used)

    def counts(self, track: int) -> Ints:
        """Return a row for each used cell, with a column for each thing counted."""
        return self._counts[self._used(track)].copy()

    def spans(self, track: int) -> tuple[Floats, Floats]:
        """Return the first and last time of each cell; NaN where unknown."""
        used = self._used(track)
        return self._first[used].copy(), self._last[used].copy()


# --- statistics ----------------------------------------------------------------------------------

Number = TypeVar("Number", int, Ints)

MAX_LABELS = 256  # that are told apart; more are counted as one
MAX_DEVICES = 1000  # likewise
MAX_EXAMPLES = 5  # texts of refused rows that are kept
CALIBRATION_BINS = 15  # of calibration

# Columns of cells; then every label has two: decided and true.
READINGS, REJECTED, WRONG, LABELLED, RIGHT, FIRST_LABEL = range(6)
# Columns of devices.
D_READINGS, D_ACCEPTED, D_LABELLED, D_RIGHT, D_ACCEPTED_LABELLED, D_ACCEPTED_RIGHT = range(6)


class _Judged(NamedTuple):
    """Columns of decisions on readings whose label is known."""

    devices: Ints
    true_labels: Ints
    decided: Ints
    accepted: Bools
    certainties: Floats
    confidences: Floats  # probability of the label that was decided

    def where(self, chosen: Bools) -> _Judged:
        """Return the chosen decisions."""
        if chosen.all():
            return self
        return _Judged(
            self.devices[chosen],
            self.true_labels[chosen],
            self.decided[chosen],
            self.accepted[chosen],
            self.certainties[chosen],
            self.confidences[chosen],
        )


class _Waiting(NamedTuple):
    """Decision whose label may come late."""

    device: int
    ordinal: int  # of the readings of its track; -1 if it has none
    decided: int
    accepted: bool
    certainty: float
    confidence: float


class Statistics:
    """Statistics of decisions, counted batch by batch; duplicates are left out.

    The first `tracks` devices get decisions over time, in `cells` cells each. `wait` decisions are
    remembered until their label comes; 0 if labels never come late. `by_sequence` says whether late
    labels refer to sequence numbers instead of times.

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
        self.labels, self.devices = IndexMap(MAX_LABELS), IndexMap(MAX_DEVICES)
        self.readings = self.duplicates = self.learnt = self.late = 0
        self.reasons: Counter[str] = Counter()
        self.outliers_by: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.hints: Counter[Hint] = Counter()
        self.examples: list[str] = []
        self.curve = AccuracyRejectCurve()
        self.calibration = np.zeros(
            (CALIBRATION_BINS, 3)
        )  # samples, sum of confidences, right ones
        self.confusion = np.zeros((8, 8, 2), np.int64)  # true, 1 + decided, accepted
        self.by_device = np.zeros((MAX_DEVICES + 1, 6), np.int64)
        self.tracks = TimeBins(tracks, cells)
        self.course = TimeBins(1, cells)  # of all devices together
        self.span = (np.inf, -np.inf)
        self._waiting: LabelMatcher[_Waiting] = LabelMatcher(wait, by_sequence)

    # --- counting --------------------------------------------------------------------------------

    def add(self, decisions: Decisions, true_labels: Sequence[Label | None] | None = None) -> None:
        """Count decisions; pass `true_labels` if the monitor did not get them."""
        given = decisions.true_labels if true_labels is None else true_labels
        if True in decisions.duplicates:
            keep = [k for k, again in enumerate(decisions.duplicates) if not again]
            decisions, given = decisions.select(keep), [given[k] for k in keep]
        if not len(decisions):
            return
        devices = self.devices.numbers(decisions.devices)
        judged = self._judged(decisions, devices, self.labels.numbers(given))
        self.readings += len(decisions)
        if not decisions.accepted.all():
            self.reasons.update(decisions.reasons)  # type: ignore[arg-type]
            del self.reasons[None]
            self.outliers_by.update(by for by in decisions.outliers_by if by is not None)
        self._count_devices(devices, D_READINGS)
        self._count_devices(devices[judged.accepted], D_ACCEPTED)
        known = judged.true_labels >= 0
        self._judge(judged.where(known))
        ordinals = self._chart(judged, _numbers(decisions.times))
        if self._waiting.room:
            self._remember(decisions, judged, ordinals)

    def _judged(self, decisions: Decisions, devices: Ints, true_labels: Ints) -> _Judged:
        """Return the decisions with labels and devices as indices."""
        codes = decisions.codes
        own = np.append(self.labels.numbers(decisions.classes), -1)  # -1 finds the last
        confidences = np.zeros(len(codes))
        if decisions.probabilities.shape[1]:
            confidences = decisions.probabilities[np.arange(len(codes)), codes]
            confidences = np.where(codes >= 0, confidences, 0.0)
        return _Judged(
            devices=devices,
            true_labels=true_labels,
            decided=own[codes],
            accepted=decisions.accepted,
            certainties=np.where(codes >= 0, np.clip(decisions.certainties, 0.0, 1.0), 0.0),
            confidences=confidences,
        )

    def _judge(self, judged: _Judged) -> None:
        """Count decisions whose labels are known."""
        if not len(judged.true_labels):
            return
        right = _right(judged)
        size = max(int(judged.true_labels.max()), int(judged.decided.max())) + 2
        self.make_room(size)
        np.add.at(self.confusion, (judged.true_labels, judged.decided + 1, judged.accepted * 1), 1)
        self.curve.update_many(right.tolist(), [True] * len(right), judged.certainties)
        self._count_devices(judged.devices, D_LABELLED)
        self._count_devices(judged.devices[right], D_RIGHT)
        self._count_devices(judged.devices[judged.accepted], D_ACCEPTED_LABELLED)
        self._count_devices(judged.devices[judged.accepted & right], D_ACCEPTED_RIGHT)
        said = judged.decided >= 0
        bins = np.minimum(
            (judged.confidences[said] * CALIBRATION_BINS).astype(np.int64), CALIBRATION_BINS - 1
        )
        for column, weights in enumerate((None, judged.confidences[said], right[said])):
            self.calibration[:, column] += np.bincount(bins, weights, minlength=CALIBRATION_BINS)

    def make_room(self, size: int) -> None:
        """Enlarge the confusion matrix for so many labels, and for none."""
        if size < len(self.confusion):
            return
        more = max(size + 1 - len(self.confusion), len(self.confusion))
        self.confusion = np.pad(self.confusion, ((0, more), (0, more), (0, 0)))

    def _count_devices(self, devices: Ints, column: int) -> None:
        self.by_device[:, column] += np.bincount(devices, minlength=len(self.by_device))

    # --- over time -------------------------------------------------------------------------------

    def _chart(self, judged: _Judged, times: Floats) -> Ints:
        """Count in cells over time; return each reading's ordinal in its track, or -1."""
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
        known = (judged.true_labels >= 0).tolist()
        for key, labelled, row in zip(self._waiting.keys(decisions), known, rows, strict=True):
            if key is not None and not labelled:
                self._waiting.add(key, _Waiting(*row))

    def add_late(self, late: LateLabel) -> None:
        """Judge the decision that a late label belongs to."""
        found = self._waiting.pop(late)
        if found is None:
            return
        self.late += 1
        true_labels = self.labels.numbers([late.label])
        judged = _Judged(
            np.array([found.device]), true_labels, np.array([found.decided]),
            np.array([found.accepted]), np.array([found.certainty]), np.array([found.confidence]),
        )  # fmt: skip
        self._judge(judged)
        if found.ordinal >= 0:
            place = np.array([self.tracks.ordinal_place(found.device, found.ordinal)])
            _fill_truths(self.tracks, place, judged, labels=True)

    def add_refused(self, refused: Sequence[Refused]) -> None:
        """Count refusals."""
        self.refused.update(one.reason for one in refused)
        self.hints.update(one.hint for one in refused if one.hint is not None)
        room = MAX_EXAMPLES - len(self.examples)
        self.examples += [one.text for one in refused[: max(room, 0)]]

    # --- answers ---------------------------------------------------------------------------------

    @property
    def labelled(self) -> int:
        """Number of readings whose label is known."""
        return int(self.confusion.sum())

    @property
    def right(self) -> int:
        """Number of readings with the right label, accepted or not."""
        return int(np.trace(self.confusion[:MAX_LABELS, 1:].sum(axis=2)))

    @property
    def accuracy(self) -> float | None:
        """Share of right labels, accepted or not; None without labels."""
        return share(self.right, self.labelled)

    @property
    def accuracy_of_accepted(self) -> float | None:
        """Share of right labels among the accepted ones."""
        accepted = self.confusion[:, :, 1]
        return share(int(np.trace(accepted[:MAX_LABELS, 1:])), int(accepted.sum()))

    @property
    def accepted(self) -> int:
        """Number of readings whose label was accepted."""
        return int(self.by_device[:, D_ACCEPTED].sum())


def share(part: float, whole: float) -> float | None:
    """Return a part of a whole as a fraction; None if the whole is 0."""
    return part / whole if whole else None


def decided_column(label: Number) -> Number:
    """Return the column that counts decisions for a label."""
    return FIRST_LABEL + 2 * label


def true_column(label: Number) -> Number:
    """Return the column that counts readings with this true label."""
    return FIRST_LABEL + 2 * label + 1


def _fill(cells: TimeBins, places: Ints, judged: _Judged, labels: bool) -> None:
    cells.count(places, READINGS)
    cells.count(places[~judged.accepted], REJECTED)
    if labels:
        said = judged.decided >= 0
        cells.count(places[said], decided_column(judged.decided[said]))
    known = judged.true_labels >= 0
    if known.any():
        _fill_truths(cells, places[known], judged.where(known), labels)


def _fill_truths(cells: TimeBins, places: Ints, judged: _Judged, labels: bool) -> None:
    right = _right(judged)
    cells.count(places, LABELLED)
    cells.count(places[right], RIGHT)
    cells.count(places[judged.accepted & ~right], WRONG)
    if labels:
        cells.count(places, true_column(judged.true_labels))


def _right(judged: _Judged) -> Bools:
    """Return whether each label is right; labels beyond the limit never are."""
    right: Bools = (judged.true_labels == judged.decided) & (judged.true_labels < MAX_LABELS)
    return right


def _numbers(times: Sequence[float | None]) -> Floats:
    return np.array(times, dtype=np.float64)  # None becomes NaN
