"""Logs and brokers: publish a log to a broker, or record a broker's messages to a log.

Both use a broker session of their own, so the service is not affected.
"""

from __future__ import annotations

import logging
import math
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from streamlvq.config import Config
from streamlvq.connect import (
    NO_TOPIC,
    UNKNOWN_TIME,
    Link,
    LogWriter,
    Message,
    Outgoing,
    Subscription,
    UnknownConnectorError,
    guest_session,
    link_for,
    logs,
)
from streamlvq.errors import StreamLVQError
from streamlvq.events import Readings
from streamlvq.payloads import Decoder
from streamlvq.payloads.encoder import ReadingEncoder
from streamlvq.payloads.routing import DEVICE, DeviceTopics
from streamlvq.replay.run import Bar, LogReader

log = logging.getLogger(__name__)

# --- a guest session -----------------------------------------------------------------------------

GUEST_POLL_SECONDS = 0.1
LEAVE_SECONDS = 3.0  # seconds that the end of a session may take


class NotConnectedError(StreamLVQError, OSError):
    """Broker that cannot be reached or refuses us."""


@contextmanager
def connected(
    config: Config,
    purpose: str,
    subscriptions: Sequence[Subscription] = (),
    session_seconds: int = 0,
) -> Iterator[Link]:
    """Yield a link to the configured broker with a client id of its own; close it at the end.

    `purpose` becomes part of the client id: with the service's own id, the broker would disconnect
    the service. `session_seconds` is how long the broker keeps messages for us while the connection
    is broken; at the end the session is deleted.
    """
    make = link_for(config.broker.url)
    broker = guest_session(config.broker, purpose, session_expiry_seconds=session_seconds)
    link = make(broker, subscriptions)
    try:
        yield link
    finally:
        link.close()
        if session_seconds and link.counters["connects"]:
            passing = msgspec.structs.replace(broker, session_expiry_seconds=0)
            _end_session(make(passing, ()))


def _end_session(link: Link) -> None:
    """Reconnect once with a clean session; with MQTT 3.1.1 the old one would stay forever."""
    try:
        wait_for(link, LEAVE_SECONDS)
    except NotConnectedError as error:
        log.warning("the session %s is left at the broker: %s", link.broker.client_id, error)
    finally:
        link.close()


def wait_for(link: Link, seconds: float) -> list[object]:
    """Wait until the broker has accepted us; return the messages that arrived meanwhile."""
    deadline = time.monotonic() + seconds
    came: list[object] = []
    while not link.connected:
        if time.monotonic() > deadline:
            raise NotConnectedError(f"{link.broker.url}: {link.error or 'no answer'}")
        came += link.read(GUEST_POLL_SECONDS)
    return came


# --- publishing ----------------------------------------------------------------------------------

PUBLISH_QOS = 1  # quality of service: a replay that loses readings would prove nothing
SILENCE_SECONDS = 30.0  # seconds that a broker may take nothing
PACE_SECONDS = 0.05  # seconds; readings due within one are sent together
PUBLISH_BATCH = 256


class Sent(NamedTuple):
    """Counts of what was published."""

    messages: int
    seconds: float
    late: float  # seconds, at most


class _Due(NamedTuple):
    """Message with its recorded time; None if it has none."""

    time: float | None
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
    """Publish a log to the configured broker, paced by the times in the log.

    Messages keep their topics and payloads. Rows become payloads in the configured format, sent to
    the configured topic of readings.

    Parameters
    ----------
    log
        The file.
    config
        The broker, topics and fields.
    format
        Kind of log; None to detect it.
    limit
        Messages to stop after.
    speed
        How many times faster than it was; infinite: as fast as the broker takes them.
    progress
        Whether to show a progress bar; None to show it in a terminal only.

    """
    feed = LogReader(log, config, format)
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
    elif batch and batch[0].topic != NO_TOPIC:
        for message in batch:
            known = None if message.received == UNKNOWN_TIME else message.received
            yield _Due(known, Outgoing(message.topic, message.payload, PUBLISH_QOS))
    else:
        yield from _of_payloads(batch, config)


def _of_rows(readings: Readings, config: Config) -> Iterator[_Due]:
    topics = _Topics(config)
    payloads = ReadingEncoder(config.readings).encode(readings)
    for device, t, payload in zip(readings.devices, readings.times, payloads, strict=True):
        yield _Due(t, Outgoing(topics[device], payload, PUBLISH_QOS))


def _of_payloads(messages: Sequence[Message], config: Config) -> Iterator[_Due]:
    """Yield messages for payloads without a topic; the decoder tells their device and time."""
    topics, found = _Topics(config), {}
    for event in Decoder(config).decode(messages).events:
        if isinstance(event, Readings):
            columns = zip(event.sources, event.devices, event.times, strict=True)
            found.update({source: (device, t) for source, device, t in columns})
    for source, (device, t) in sorted(found.items()):
        payload = messages[source].payload
        yield _Due(t, Outgoing(topics[device], payload, PUBLISH_QOS))


class _Topics(dict[str, str]):
    """Topics of readings by device."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self._topics = DeviceTopics(config)
        others = [name for name in self._topics.identity.names if name != DEVICE]
        if others:
            raise StreamLVQError(
                f"readings.topic: a log of rows says nothing about {', '.join(others)}; expected "
                f"a topic with {{device}} alone to publish to, got {config.readings.topic!r}"
            )

    def __missing__(self, device: str) -> str:
        topic = self[device] = self._topics.fill(self._topics.readings, device or "all")
        return topic


# --- when to send it -----------------------------------------------------------------------------


class _Pace:
    """Pace that sends messages when due, and not faster than the broker accepts them."""

    def __init__(self, link: Link, speed: float) -> None:
        self.link, self.speed = link, speed
        self.late = 0.0
        self._start = time.monotonic()
        self._first: float | None = None
        self._limit = max(1, link.broker.outgoing_limit // 2)
        self._batch = min(PUBLISH_BATCH, self._limit)  # so that a batch finds room

    def send(self, due: Sequence[_Due]) -> None:
        """Send messages; return when all have been handed over."""
        waiting: list[Outgoing] = []
        for when, message in due:
            ahead = self._moment(when) - time.monotonic()
            if ahead > PACE_SECONDS or len(waiting) >= self._batch:
                self._flush(waiting)
                self._sleep(ahead)
            elif self.speed != math.inf:
                self.late = max(self.late, -ahead)
            waiting.append(message)
        self._flush(waiting)

    def _moment(self, recorded: float | None) -> float:
        """Return when something with this recorded time is due."""
        if self.speed == math.inf:
            return -math.inf
        if recorded is None:
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
        """Wait until the broker has accepted everything."""
        self._wait_until_below(1)
        if dropped := self.link.counters.get("dropped", 0):
            raise StreamLVQError(f"expected the broker to take all messages, {dropped} were lost")

    def _wait_until_below(self, limit: int) -> None:
        deadline, owed = time.monotonic() + SILENCE_SECONDS, math.inf
        while (now := self.link.counters.get("outgoing", 0)) >= limit:
            if now < owed:
                deadline, owed = time.monotonic() + SILENCE_SECONDS, now
            if time.monotonic() > deadline:
                trouble = self.link.error or "it takes no more messages"
                raise NotConnectedError(f"{self.link.broker.url}: {trouble}")
            self.link.read(0.01)


# --- recording -----------------------------------------------------------------------------------

SESSION_SECONDS = 600  # for which the broker keeps messages while the connection is broken
RECORDING_FLUSH_SECONDS = 0.2  # without a message, after which the file is brought up to date


class Recorded(NamedTuple):
    """Counts of what was recorded, and of broken connections."""

    messages: int
    seconds: float
    breaks: int = 0


def record(
    config: Config,
    path: str | Path,
    *,
    topics: Sequence[str] | None = None,
    seconds: float | None = None,
    messages: int | None = None,
    progress: bool | None = None,
) -> Recorded:
    """Record messages from a broker in a file, until Ctrl-C.

    A message is acknowledged once it is in the file. The session is separate: a service that
    listens to the same topics is not affected. If the connection breaks, the broker keeps QoS 1
    messages for some minutes, as far as it has room; `breaks` counts such breaks.

    Parameters
    ----------
    config
        The broker, and the topics of readings and labels.
    path
        The file; it is continued if there is one.
    topics
        Filters to listen to instead of those of the configuration.
    seconds
        Leave after so long.
    messages
        Leave after so many.
    progress
        Whether to show a count; None to show it in a terminal only.

    """
    subscriptions = [Subscription(name, 1) for name in topics or filters(config)]
    start = time.monotonic()
    count = 0
    with (
        connected(config, "record", subscriptions, SESSION_SECONDS) as link,
        open_writer(Path(path)) as writer,
    ):
        bar = _bar(progress, messages)
        batch: Any = wait_for(link, config.broker.connect_timeout_seconds)
        try:
            while True:
                kept = batch if messages is None else batch[: messages - count]
                if kept:
                    writer.write(kept)
                writer.flush()
                link.acknowledge(kept)
                count += len(kept)
                bar.update(len(kept))
                left = (
                    RECORDING_FLUSH_SECONDS
                    if seconds is None
                    else seconds - (time.monotonic() - start)
                )
                if left <= 0 or (messages is not None and count >= messages):
                    break
                batch = link.read(min(RECORDING_FLUSH_SECONDS, left))
        except KeyboardInterrupt:  # the way to end it, if no end was given
            pass
        finally:
            bar.close()
        breaks = link.counters["connects"] - int(link.connected)
    return Recorded(count, time.monotonic() - start, breaks)


def filters(config: Config) -> list[str]:
    """Return the topic filters that the service would subscribe to."""
    return list(DeviceTopics(config).filters)


def open_writer(path: Path) -> LogWriter:
    """Return a writer of message logs."""
    installed = logs().get("messages")
    if installed is None:
        raise UnknownConnectorError("expected a log called 'messages' to be installed, got none")
    return installed.writer(path)


def _bar(progress: bool | None, messages: int | None) -> Any:
    from tqdm import tqdm  # noqa: PLC0415

    shown = sys.stderr.isatty() if progress is None else progress
    return tqdm(total=messages, desc="record", unit=" messages", leave=False, disable=not shown)
