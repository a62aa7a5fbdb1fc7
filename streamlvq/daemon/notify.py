"""Telling systemd how it goes, over the socket that it names."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Mapping

log = logging.getLogger(__name__)


class Notifier:
    """Readiness, status and watchdog of a service of `Type=notify`; silent without systemd.

    Parameters
    ----------
    environment
        Where `NOTIFY_SOCKET`, `WATCHDOG_USEC` and `WATCHDOG_PID` are looked up.

    Examples
    --------
    >>> Notifier({}).active
    False
    >>> Notifier({"WATCHDOG_USEC": "30000000"}).interval
    15.0

    """

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        environment = os.environ if environment is None else environment
        self._address = _address(environment.get("NOTIFY_SOCKET", ""))
        self.interval = _interval(environment)  # seconds between two signs of life
        self._fed: float | None = None
        self._status = ""

    @property
    def active(self) -> bool:
        """Whether anyone listens."""
        return self._address is not None

    def ready(self) -> None:
        """The service is up."""
        self._send("READY=1")

    def stopping(self) -> None:
        """The service is about to leave."""
        self._send("STOPPING=1")

    def reloading(self, monotonic_ns: int) -> None:
        """The configuration is read again; `ready` says that this is over."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={monotonic_ns // 1000}")

    def patience(self, seconds: float) -> None:
        """Starting takes longer: ask for this much more."""
        self._send(f"EXTEND_TIMEOUT_USEC={int(seconds * 1e6)}")

    def status(self, text: str) -> None:
        """One line for `systemctl status`; the same line is not sent twice."""
        if text != self._status:
            self._status = text
            self._send("STATUS=" + text.replace("\n", " "))

    def feed(self, now: float) -> None:
        """A sign of life, if one is due at the monotonic time `now`."""
        if self.interval is not None and (self._fed is None or now - self._fed >= self.interval):
            self._fed = now
            self._send("WATCHDOG=1")

    def _send(self, text: str) -> None:
        if self._address is None:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
                sender.setblocking(False)  # a service manager that is busy must not stop us
                sender.sendto(text.encode(), self._address)
        except OSError as error:
            log.warning("systemd could not be told %r: %s", text, error)


def _address(name: str) -> str | None:
    if name.startswith("@"):  # abstract: a name that is in no file system
        return "\0" + name[1:]
    return name if name.startswith("/") else None


def _interval(environment: Mapping[str, str]) -> float | None:
    microseconds = environment.get("WATCHDOG_USEC", "")
    meant_for = environment.get("WATCHDOG_PID") or str(os.getpid())
    if not microseconds.isdigit() or int(microseconds) == 0 or meant_for != str(os.getpid()):
        return None
    return int(microseconds) / 2e6


__all__ = ["Notifier"]
