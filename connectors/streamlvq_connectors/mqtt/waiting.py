"""Wait for a socket."""

from __future__ import annotations

import select
from typing import Any

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
