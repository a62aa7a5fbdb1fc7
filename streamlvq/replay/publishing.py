"""Publish a log to a broker as if it happened now."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from streamlvq.config import Config
from streamlvq.connect import Link, Message, Outgoing
from streamlvq.errors import StreamLVQError
from streamlvq.events import Readings
from streamlvq.payloads import Decoder
from streamlvq.replay.core import Bar
from streamlvq.replay.feed import Feed
from streamlvq.replay.live import NotConnectedError, connected, wait_for
from streamlvq.replay.rows import Payloads
from streamlvq.topics import Template

SURELY = 1  # quality of service: a replay that loses readings would prove nothing
SILENCE = 30.0  # seconds that a broker may take nothing
STEP = 0.05  # seconds; readings due within one are sent together
BATCH = 256


class Sent(NamedTuple):
    """What was published."""

    messages: int
    seconds: float
    late: float  # seconds, at most


class _Due(NamedTuple):
    """A message, and when it was in the recorded time; NaN: nobody says."""

    time: float
    message: Outgoing


def publish(
    log: str | Path,
    config: Config,
    *,
    format: str | None = None,
    limit: int | None = None,
    speed: float = 1.0,
    progress: bool | None = None,
) -> Sent:
    """Send a log to the broker of a configuration, paced by the times in the log.

    Messages keep their topics and payloads. Rows become payloads in the configured format, sent to
    the configured topic of readings.

    Parameters
    ----------
    log
        The file.
    config
        The broker, topics and fields.
    format
        Which kind of log it is; None to find out.
    limit
        Messages to stop after.
    speed
        How many times faster than it was; infinite: as fast as the broker takes them.
    progress
        Whether to show a bar; None: if a person is looking.

    """
    feed = Feed(log, config, format)
    start, count = time.monotonic(), 0
    with connected(config, "replay") as link, Bar(feed, progress, "publish") as bar:
        wait_for(link, config.broker.connect_timeout_seconds)
        pace = _Pace(link, speed)
        for batch in feed.batches():
            outgoing = list(_outgoing(batch, config))
            if limit is not None:
                outgoing = outgoing[: limit - count]
            pace.send(outgoing)
            count += len(outgoing)
            bar.move(count, "messages")
            if limit is not None and count >= limit:
                break
        pace.finish()
    return Sent(count, time.monotonic() - start, pace.late)


# --- what to send --------------------------------------------------------------------------------


def _outgoing(batch: Sequence[Message] | Readings, config: Config) -> Iterator[_Due]:
    if isinstance(batch, Readings):
        yield from _of_rows(batch, config)
    elif batch and batch[0].topic:
        for message in batch:
            yield _Due(message.received, Outgoing(message.topic, message.payload, SURELY))
    else:
        yield from _of_payloads(batch, config)


def _of_rows(readings: Readings, config: Config) -> Iterator[_Due]:
    topics = _Topics(config)
    payloads = Payloads(config.readings).encode(readings)
    for device, t, payload in zip(readings.devices, readings.times, payloads, strict=True):
        yield _Due(math.nan if t is None else t, Outgoing(topics[device], payload, SURELY))


def _of_payloads(messages: Sequence[Message], config: Config) -> Iterator[_Due]:
    """Payloads without a topic: the decoder knows whose they are, and when."""
    topics, found = _Topics(config), {}
    for event in Decoder(config).decode(messages).events:
        if isinstance(event, Readings):
            columns = zip(event.sources, event.devices, event.times, strict=True)
            found.update({source: (device, t) for source, device, t in columns})
    for source, (device, t) in sorted(found.items()):
        payload = messages[source].payload
        yield _Due(math.nan if t is None else t, Outgoing(topics[device], payload, SURELY))


class _Topics(dict[str, str]):
    """The topic of the readings of each device."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self._template = Template(config.readings.topic)
        others = [name for name in self._template.placeholders if name != "device"]
        if others:
            raise StreamLVQError(
                f"readings.topic: a log of rows says nothing about {', '.join(others)}; expected "
                f"a topic with {{device}} alone to publish to, got {config.readings.topic!r}"
            )

    def __missing__(self, device: str) -> str:
        topic = self[device] = self._template.fill({"device": device or "all"})
        return topic


# --- when to send it -----------------------------------------------------------------------------


class _Pace:
    """Sends messages when they are due and not faster than the broker takes them."""

    def __init__(self, link: Link, speed: float) -> None:
        self.link, self.speed = link, speed
        self.late = 0.0
        self._start = time.monotonic()
        self._first: float | None = None
        self._limit = max(1, link.broker.outgoing_limit // 2)
        self._batch = min(BATCH, self._limit)  # so that a batch finds room

    def send(self, due: Sequence[_Due]) -> None:
        """Send these; returns when all are on their way."""
        waiting: list[Outgoing] = []
        for when, message in due:
            ahead = self._moment(when) - time.monotonic()
            if ahead > STEP or len(waiting) >= self._batch:
                self._flush(waiting)
                self._sleep(ahead)
            elif self.speed != math.inf:
                self.late = max(self.late, -ahead)
            waiting.append(message)
        self._flush(waiting)

    def _moment(self, recorded: float) -> float:
        """When something that happened then is due."""
        if self.speed == math.inf:
            return -math.inf
        if math.isnan(recorded) or recorded <= 0.0:
            raise StreamLVQError(
                "the log says nothing about when its readings were taken: name the field with "
                "--time, or send it with --speed max"
            )
        if self._first is None:
            self._first = recorded
        return self._start + (recorded - self._first) / self.speed

    def _sleep(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self.link.read(min(left, 0.5))

    def _flush(self, waiting: list[Outgoing]) -> None:
        self._wait_until_below(self._limit)
        self.link.publish(waiting)
        waiting.clear()

    def finish(self) -> None:
        """Wait until the broker has taken everything."""
        self._wait_until_below(1)
        if dropped := self.link.counters.get("dropped", 0):
            raise StreamLVQError(f"expected the broker to take all messages, {dropped} were lost")

    def _wait_until_below(self, limit: int) -> None:
        deadline, owed = time.monotonic() + SILENCE, math.inf
        while (now := self.link.counters.get("outgoing", 0)) >= limit:
            if now < owed:
                deadline, owed = time.monotonic() + SILENCE, now
            if time.monotonic() > deadline:
                trouble = self.link.error or "it takes no more messages"
                raise NotConnectedError(f"{self.link.broker.url}: {trouble}")
            self.link.read(0.01)
