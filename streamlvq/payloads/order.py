"""Readings of several shapes, back in the order of their messages."""

from __future__ import annotations

import numpy as np

from streamlvq.events import Readings


def in_order(events: list[Readings]) -> list[Readings]:
    """Readings in the order of their sources, cut wherever others come between them.

    Parameters
    ----------
    events
        With different features, each in the order of its own sources.

    """
    sources = np.concatenate([event.sources for event in events])
    owners = np.repeat(np.arange(len(events)), [len(event) for event in events])
    owners = owners[np.argsort(sources)]
    ends = [*(np.flatnonzero(np.diff(owners)) + 1).tolist(), len(owners)]
    done = [0] * len(events)
    runs: list[Readings] = []
    start = 0
    for end in ends:
        owner = int(owners[start])
        first = done[owner]
        last = done[owner] = first + end - start
        runs.append(_cut(events[owner], first, last))
        start = end
    return runs


def _cut(event: Readings, first: int, last: int) -> Readings:
    """As `Readings.select`, which takes several times as long for few of them."""
    if last - first == len(event):
        return event
    return Readings(
        event.features,
        event.rows[first:last],
        event.devices[first:last],
        event.groups[first:last],
        event.labels[first:last],
        event.times[first:last],
        event.sequences[first:last],
        event.keys[first:last],
        event.dedup_windows[first:last],
        event.sources[first:last],
    )
