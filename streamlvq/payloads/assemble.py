"""From tables, and the messages that they were read from, to readings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from streamlvq.events import NO_KEY, DedupWindow, Readings
from streamlvq.payloads.keys import message_keys
from streamlvq.payloads.reader import Table
from streamlvq.payloads.routes import NO_ORIGIN, Route


class Batch(NamedTuple):
    """Messages that follow each other, in columns."""

    sources: Sequence[int]
    routes: Sequence[Route]
    payloads: Sequence[bytes]
    received: Sequence[float]
    redelivered: Sequence[bool]

    def take(self, positions: Sequence[int]) -> Batch:
        """Some of them."""
        columns: list[Any] = [[column[i] for i in positions] for column in self]
        return Batch(*columns)


def finish(
    table: Table, batch: Batch, devices: list[str], groups: list[str], hashes: list[int]
) -> Readings:
    """The readings in a table whose rows are those of the messages.

    Parameters
    ----------
    table, batch
        What the payloads say, and the messages that they are from.
    devices, groups, hashes
        Where each comes from, the model that it belongs to, and what its key begins with.

    """
    count = len(devices)
    return Readings(
        table.features,
        table.rows,
        devices,
        groups,
        [None] * count if table.labels is None else list(table.labels),
        _times(table, batch),
        [None] * count if table.sequences is None else list(table.sequences),
        *_keys(table, batch, hashes),
        list(batch.sources),
    )


def _times(table: Table, batch: Batch) -> list[float | None]:
    """What the payload says, otherwise when it was received; a row of a file may have neither."""
    if table.times is not None and None not in table.times:
        return list(table.times)
    received = [moment or None for moment in batch.received]
    if table.times is None:
        return received
    return [r if t is None else t for t, r in zip(table.times, received, strict=True)]


def _keys(table: Table, batch: Batch, hashes: list[int]) -> tuple[list[int], list[int]]:
    """Keys, and for how long an equal one means an equal reading."""
    origins = [route[3] for route in batch.routes]
    if not any(origins):  # rows of files cannot come twice
        return [NO_KEY] * len(origins), [DedupWindow.NONE] * len(origins)
    keys = message_keys(hashes, batch.payloads, table.sequences, table.times)
    windows = _dedup_windows(table, batch)
    if NO_ORIGIN in origins:
        for i, origin in enumerate(origins):
            if origin == NO_ORIGIN:
                keys[i], windows[i] = NO_KEY, DedupWindow.NONE
    return keys, windows


def _dedup_windows(table: Table, batch: Batch) -> list[int]:
    windows = _spans(table, len(batch.redelivered))
    if any(batch.redelivered):
        whole = DedupWindow.ALL
        pairs = zip(batch.redelivered, windows, strict=True)
        windows = [whole if again else window for again, window in pairs]
    return windows


def _spans(table: Table, count: int) -> list[int]:
    """A publisher that sends again does so at once; later its counter or clock may start anew.

    Hardly both at the same time: a broker that was restored from an old store, and does not say so,
    is known by that.
    """
    columns = [column for column in (table.sequences, table.times) if column is not None]
    if not columns:
        return [DedupWindow.NONE] * count
    if all(None not in column for column in columns):
        return [(DedupWindow.RECENT, DedupWindow.ALL)[len(columns) - 1]] * count
    spans = (DedupWindow.NONE, DedupWindow.RECENT, DedupWindow.ALL)
    rows = zip(*columns, strict=True)
    return [spans[sum(value is not None for value in row)] for row in rows]
