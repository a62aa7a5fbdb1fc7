"""Record: a live topic tree as a log that replays exactly."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from streamlvq.config import Config
from streamlvq.connect import LogWriter, Subscription, UnknownConnectorError, logs
from streamlvq.payloads.identity import DeviceTopics
from streamlvq.replay.live import connected, wait_for

SESSION = 600  # seconds that the broker keeps messages for us while the connection is broken
WAIT = 0.2  # seconds without a message after which the file is brought up to date


class Recorded(NamedTuple):
    """What was recorded, and how often the connection broke meanwhile."""

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
    """Write what a broker says to a file, until Ctrl-C.

    A message is acknowledged when it is in the file. The session is its own: a daemon that listens
    to the same topics notices nothing. If the connection breaks, the broker keeps messages of QoS 1
    for some minutes, as far as it has room for them; `breaks` says that it happened.

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
        Whether to show how many there are; None: if a person is looking.

    """
    subscriptions = [Subscription(name, 1) for name in topics or filters(config)]
    start = time.monotonic()
    count = 0
    with (
        connected(config, "record", subscriptions, SESSION) as link,
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
                left = WAIT if seconds is None else seconds - (time.monotonic() - start)
                if left <= 0 or (messages is not None and count >= messages):
                    break
                batch = link.read(min(WAIT, left))
        except KeyboardInterrupt:  # the way to end it, if no end was given
            pass
        finally:
            bar.close()
        breaks = link.counters["connects"] - int(link.connected)
    return Recorded(count, time.monotonic() - start, breaks)


def filters(config: Config) -> list[str]:
    """What the daemon would listen to."""
    return list(DeviceTopics(config).filters)


def open_writer(path: Path) -> LogWriter:
    """A writer of message logs."""
    installed = logs().get("messages")
    if installed is None:
        raise UnknownConnectorError("expected a log called 'messages' to be installed, got none")
    return installed.writer(path)


def _bar(progress: bool | None, messages: int | None) -> Any:
    from tqdm import tqdm  # noqa: PLC0415

    shown = sys.stderr.isatty() if progress is None else progress
    return tqdm(total=messages, desc="record", unit=" messages", leave=False, disable=not shown)
