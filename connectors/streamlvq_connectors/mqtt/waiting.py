"""Wait for a socket."""

from __future__ import annotations

import logging
import select
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

log = logging.getLogger("streamlvq.mqtt")

if hasattr(select, "poll"):

    def wait(sock: Any, writing: bool, seconds: float) -> tuple[bool, bool]:
        """Whether there is something to read, and whether `sock` takes data if `writing`.

        Poll, not select: it does not mind how many files the process has open.
        """
        poll = select.poll()
        poll.register(sock, select.POLLIN | (select.POLLOUT if writing else 0))
        events = poll.poll(seconds * 1000.0)
        happened = events[0][1] if events else 0
        return bool(happened & ~select.POLLOUT), bool(happened & select.POLLOUT)

else:  # Windows

    def wait(sock: Any, writing: bool, seconds: float) -> tuple[bool, bool]:
        """Whether there is something to read, and whether `sock` takes data if `writing`."""
        readable, writable, _ = select.select([sock], [sock] if writing else [], [], seconds)
        return bool(readable), bool(writable)


def buffered(sock: Any) -> bool:
    """Whether TLS has decrypted more than was read, which waiting for the socket does not tell."""
    pending = getattr(sock, "pending", None)
    return pending is not None and pending() > 0


@contextmanager
def lingering(sock: Any, deadline: float) -> Iterator[None]:
    """Say goodbye inside; afterwards wait until the other side has read it and hung up.

    Who closes a socket and comes back at once may otherwise overtake its own last words: Mosquitto
    reads a packet of each client in turn, and throws away what is left of a session's old
    connection when a new one arrives.
    """
    if sock is None:
        yield
        return
    with socket.fromfd(sock.fileno(), socket.AF_INET, socket.SOCK_STREAM) as kept:
        yield
        try:
            kept.shutdown(socket.SHUT_WR)
            while time.monotonic() < deadline:
                kept.settimeout(max(0.01, deadline - time.monotonic()))
                if not kept.recv(65536):
                    return
        except OSError as error:
            log.debug("the other side hung up in its own way: %s", error)
