"""Process integration: signals, systemd notifications, and stops during start-up."""

from __future__ import annotations

import logging
import os
import select
import signal
import socket
import threading
import time
from collections.abc import Mapping
from types import FrameType
from typing import Any, Self

from streamlvq.kernels.progress import progress
from streamlvq.service.logs import settle

log = logging.getLogger(__name__)

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
EXTEND_SECONDS = 60.0  # how much more time systemd is asked for at a time
EXTEND_EVERY_SECONDS = 10.0  # between two such requests
EXTEND_MAX_SECONDS = 3600.0  # after which no more is requested: nothing compiles that long


# --- notifications -------------------------------------------------------------------------------


class Notifier:
    """Readiness, status and watchdog of a `Type=notify` service; silent without systemd.

    Implemented by hand, because sd_notify is one datagram and a library would be one more
    dependency.

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
        self.interval = _interval(environment)  # seconds between two watchdog messages
        self._last_watchdog: float | None = None
        self._status = ""

    @property
    def active(self) -> bool:
        """Whether systemd is listening."""
        return self._address is not None

    def ready(self) -> None:
        """Report that the service is up."""
        self._send("READY=1")

    def stopping(self) -> None:
        """Report that the service is about to stop."""
        self._send("STOPPING=1")

    def reloading(self, monotonic_ns: int) -> None:
        """Report that the configuration is being reloaded; `ready` ends it."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={monotonic_ns // 1000}")

    def extend_timeout(self, seconds: float = EXTEND_SECONDS) -> None:
        """Ask for more time to start."""
        self._send(f"EXTEND_TIMEOUT_USEC={int(seconds * 1e6)}")

    def status(self, text: str) -> None:
        """Set the line that `systemctl status` shows; an unchanged line is not sent again."""
        if text != self._status:
            self._status = text
            self._send("STATUS=" + text.replace("\n", " "))

    def watchdog(self, now: float) -> None:
        """Send a sign of life if one is due at the monotonic time `now`."""
        if self.interval is None:
            return
        if self._last_watchdog is None or now - self._last_watchdog >= self.interval:
            self._last_watchdog = now
            self._send("WATCHDOG=1")

    def _send(self, text: str) -> None:
        if self._address is None:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
                sender.setblocking(False)  # a busy service manager must not stop us
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


# --- signals -------------------------------------------------------------------------------------


class Signals:
    """Requests to stop (SIGTERM, SIGINT) and to reload (SIGHUP), for the loop to check.

    Nothing is interrupted. A second request to stop has the signal's usual effect, for those who do
    not want to wait; even then nothing that was acknowledged is lost.
    """

    def __init__(self) -> None:
        self.leave = False
        self.reload = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Signals:
        for number in STOP_SIGNALS:
            self._before[number] = signal.signal(number, self._on_stop)
        self._before[signal.SIGHUP] = signal.signal(signal.SIGHUP, self._on_reload)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _on_stop(self, number: int, frame: FrameType | None) -> None:
        self.leave = True
        for again in STOP_SIGNALS:
            signal.signal(again, signal.SIG_DFL)

    def _on_reload(self, number: int, frame: FrameType | None) -> None:
        self.reload = True


class StartupGuard:
    """Context in which SIGTERM and SIGINT end the process at once, with status 0.

    Compiling takes minutes on a slow machine and spends seconds at a time outside Python, where no
    signal handler runs. So a thread listens meanwhile and asks systemd for more time every `every`
    seconds; there is nothing to save yet. Set `compiling` to False when that is over: later phases
    ask for time themselves.
    """

    def __init__(
        self, signals: Signals, notifier: Notifier, every: float = EXTEND_EVERY_SECONDS
    ) -> None:
        self.signals, self.notifier, self.every = signals, notifier, every
        self.compiling = True

    def __enter__(self) -> Self:
        self._begin = time.monotonic()
        self._extend()
        self._ours, self._theirs = socket.socketpair()
        self._theirs.setblocking(False)
        # The number of every signal is written here at once, whatever the main thread is doing.
        self._before = signal.set_wakeup_fd(self._theirs.fileno(), warn_on_full_buffer=False)
        if self.signals.leave:
            self._exit()
        self._thread = threading.Thread(target=self._listen, name="starting", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        signal.set_wakeup_fd(self._before)
        self._theirs.close()  # which the thread reads as the end
        self._thread.join()
        self._ours.close()

    def _listen(self) -> None:
        while True:
            if not select.select([self._ours], [], [], self.every)[0]:
                self._extend()
                continue
            numbers = self._ours.recv(64)
            if not numbers:
                return
            if any(number in STOP_SIGNALS for number in numbers):
                self._exit()

    def _extend(self) -> None:
        elapsed = time.monotonic() - self._begin
        if not self.compiling:
            return
        if elapsed < EXTEND_MAX_SECONDS:
            self.notifier.extend_timeout()
        what = "" if progress.kernel is None else f": {progress}"
        self.notifier.status(f"making the kernels ready, {elapsed:.0f} s so far{what}")

    def _exit(self) -> None:
        """End the process from this thread, as the main thread may not react for long."""
        log.info("left before the start was over: nothing was read, nothing is lost")
        settle()
        self.notifier.stopping()
        logging.shutdown()
        os._exit(0)
