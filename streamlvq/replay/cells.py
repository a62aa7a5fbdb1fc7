"""What happened when, in a bounded number of cells however long it takes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class Cells:
    """Counts over consecutive readings, for several tracks (devices) at once.

    A cell stands for so many consecutive readings of a track. When a track has no more cells, two
    neighbours become one and a cell stands for twice as many: nothing is left out, it only becomes
    coarser.

    Parameters
    ----------
    tracks
        How many there are.
    cells
        How many cells each has, an even number.

    Examples
    --------

    Five readings of one track, of which the last two are counted in column 3, in four cells:

    >>> import numpy as np
    >>> from streamlvq.replay.cells import Cells
    >>> cells = Cells(tracks=1, cells=4)
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
        """The cell of each of the next readings, given its track; its time widens the cell."""
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
        """An order by track, and which reading of its track each is in that order."""
        order = np.argsort(tracks, kind="stable")
        counts = np.bincount(tracks, minlength=self.tracks)
        starts = np.cumsum(counts) - counts
        by_track = tracks[order]
        ordinals = np.arange(len(tracks)) - starts[by_track] + self._seen[by_track]
        self._seen += counts
        return order, ordinals

    def ordinal_place(self, track: int, ordinal: int) -> int:
        """The cell of a reading of before, by its number in the track."""
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
        """Make one of two neighbours."""
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
        """Readings of a track so far."""
        return int(self._seen[track])

    def stride(self, track: int) -> int:
        """Readings that a cell of this track stands for."""
        return int(self._stride[track])

    def _used(self, track: int) -> slice:
        used = -(-int(self._seen[track]) // int(self._stride[track]))
        return slice(track * self.cells, track * self.cells + used)

    def counts(self, track: int) -> Ints:
        """A row for each cell that is in use, a column for each thing that is counted."""
        return self._counts[self._used(track)].copy()

    def spans(self, track: int) -> tuple[Floats, Floats]:
        """The first and the last time of each cell; NaN where nobody says."""
        used = self._used(track)
        return self._first[used].copy(), self._last[used].copy()
