"""A link of our own beside the daemon's, which takes nothing away from it."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import msgspec

from streamlvq.config import Config
from streamlvq.connect import Link, Subscription, link_for
from streamlvq.errors import StreamLVQError

log = logging.getLogger(__name__)

STEP = 0.1  # seconds
GOODBYE = 3.0  # seconds that the end of a session may take


class NotConnectedError(StreamLVQError, OSError):
    """The broker cannot be reached, or does not want us."""


@contextmanager
def connected(
    config: Config,
    purpose: str,
    subscriptions: Sequence[Subscription] = (),
    session_seconds: int = 0,
) -> Iterator[Link]:
    """A link to the broker of the configuration, under a name of its own, closed at the end.

    Parameters
    ----------
    config
        Where the broker is, and as whom to log in.
    purpose
        Becomes part of the client id. The daemon's own id would throw out the daemon.
    subscriptions
        What to listen to.
    session_seconds
        How long the broker keeps messages for us while the connection is broken. At the end it is
        told to forget us.

    """
    make = link_for(config.broker.url)
    broker = msgspec.structs.replace(
        config.broker,
        client_id=f"{config.broker.client_id}-{purpose}-{os.getpid()}",
        session_expiry_seconds=session_seconds,
    )
    link = make(broker, subscriptions)
    try:
        yield link
    finally:
        link.close()
        if session_seconds and link.counters["connects"]:
            passing = msgspec.structs.replace(broker, session_expiry_seconds=0)
            _end_session(make(passing, ()))


def _end_session(link: Link) -> None:
    """Come back once without wanting a session: with MQTT 3.1.1 it would stay for ever."""
    try:
        wait_for(link, GOODBYE)
    except NotConnectedError as error:
        log.warning("the session %s is left at the broker: %s", link.broker.client_id, error)
    finally:
        link.close()


def wait_for(link: Link, seconds: float) -> list[object]:
    """Wait until the broker has accepted us; what came meanwhile is returned."""
    deadline = time.monotonic() + seconds
    came: list[object] = []
    while not link.connected:
        if time.monotonic() > deadline:
            raise NotConnectedError(f"{link.broker.url}: {link.error or 'no answer'}")
        came += link.read(STEP)
    return came
