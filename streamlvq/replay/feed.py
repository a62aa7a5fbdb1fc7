"""From a log to the events of a monitor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from streamlvq.config import Config
from streamlvq.connect import Message, open_log
from streamlvq.events import Event, Readings, Refused
from streamlvq.payloads import Decoder, group_of
from streamlvq.replay.look import Look


class Portion(NamedTuple):
    """What a batch of a log holds."""

    events: list[Event]
    refused: list[Refused]


class Feed:
    """The events of a log, decoded as the daemon would decode them.

    Parameters
    ----------
    path
        The log.
    config
        Says where things are in its rows or payloads.
    format
        Which kind of log it is; None to find out.
    limit
        Readings to stop after; None for all.

    """

    def __init__(
        self, path: str | Path, config: Config, format: str | None = None, limit: int | None = None
    ) -> None:
        self.path, self.limit = Path(path), limit
        self.log = open_log(self.path, config.readings, format)
        self._decoder = Decoder(config) if self.log.holds_messages else None
        # JSONL has no topics: nobody received it
        received = self.log.holds_messages and self.log.format != "jsonl"
        self.look = Look(config.readings, received)
        self._group_of = None if config.model.per == "all" else group_of(config)

    @property
    def progress(self) -> tuple[int, int]:
        """Bytes read so far, and in all."""
        return self.log.progress

    @property
    def notes(self) -> list[str]:
        """What people should know about how it was read."""
        found: list[str] = list(self.log.notes)
        if self.path.is_file() and not self.path.stat().st_size:
            found.append("the file is empty")
        return [*found, *self.look.notes()]

    def batches(self) -> Iterator[Sequence[Message] | Readings]:
        """What the log gives, not decoded; the log is closed at the end."""
        try:
            while (batch := self.log.read()) is not None:
                yield batch
        finally:
            self.log.close()

    def __iter__(self) -> Iterator[Portion]:
        left = self.limit
        for batch in self.batches():
            portion = self._portion(batch)
            if left is not None:
                portion = Portion(_first(portion.events, left), portion.refused)
                left -= sum(len(e) for e in portion.events if isinstance(e, Readings))
            for event in portion.events:
                if isinstance(event, Readings):
                    self.look.see(event)
            yield portion
            if left is not None and left <= 0:
                return

    def _portion(self, batch: Sequence[Message] | Readings) -> Portion:
        refused = [Refused(0, "row", text) for text in self.log.refused]
        if isinstance(batch, Readings):
            if self._group_of is not None:  # rows have no topic that could say more
                batch.groups = [self._group_of(device, {}) for device in batch.devices]
            return Portion([batch], refused)
        assert self._decoder is not None
        decoded = self._decoder.decode(batch)
        return Portion(decoded.events, [*refused, *_with_lines(decoded.refused, batch)])


def _with_lines(refused: list[Refused], batch: Sequence[Message]) -> list[Refused]:
    """With the numbers of their lines, which are the keys of messages in files."""
    return [
        one._replace(text=f"line {key}: {one.text}")
        if isinstance(key := batch[one.source].key, int)
        else one
        for one in refused
    ]


def _first(events: list[Event], count: int) -> list[Event]:
    """The events up to so many readings."""
    kept: list[Event] = []
    for event in events:
        if count <= 0:
            break
        if isinstance(event, Readings):
            event = event if len(event) <= count else head(event, count)
            count -= len(event)
        kept.append(event)
    return kept


def head(readings: Readings, count: int) -> Readings:
    """The first ones."""
    return readings.select(slice(0, count))
