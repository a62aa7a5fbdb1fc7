"""Before the loop runs: systemd hears that it goes on, and who wants us to leave is heard.

Compiling takes minutes on a slow machine and spends seconds at a time outside Python, where no
handler of a signal runs. So a thread listens, for this time only; there is nothing to save yet.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import socket
import threading
import time
from types import TracebackType
from typing import Self

from streamlvq.daemon.logs import settle
from streamlvq.daemon.notify import Notifier
from streamlvq.daemon.signals import LEAVE, Signals

log = logging.getLogger(__name__)

EVERY = 10.0  # seconds between two requests for more time
MORE_TIME = 60.0  # seconds that each of them asks for
LONGEST = 3600.0  # seconds after which no more is asked for: nothing compiles that long


class Starting:
    """Between entering and leaving it, SIGTERM and SIGINT end the process at once, with status 0.

    Parameters
    ----------
    signals
        Must be active already; what came before counts too.
    notifier
        Is asked for patience, and told what takes so long.
    every
        Seconds between two requests.

    Set `compiling` to False when that is over: what comes then has to ask by itself.
    """

    def __init__(self, signals: Signals, notifier: Notifier, every: float = EVERY) -> None:
        self.signals, self.notifier, self.every = signals, notifier, every
        self.compiling = True

    def __enter__(self) -> Self:
        self._begin = time.monotonic()
        self._ask()
        self._ours, self._theirs = socket.socketpair()
        self._theirs.setblocking(False)
        # The number of every signal is written here at once, whatever the main thread is doing.
        self._before = signal.set_wakeup_fd(self._theirs.fileno(), warn_on_full_buffer=False)
        if self.signals.leave:
            self._leave()
        self._thread = threading.Thread(target=self._listen, name="starting", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        signal.set_wakeup_fd(self._before)
        self._theirs.close()  # which the thread reads as the end
        self._thread.join()
        self._ours.close()

    def _listen(self) -> None:
        while True:
            if not select.select([self._ours], [], [], self.every)[0]:
                self._ask()
                continue
            numbers = self._ours.recv(64)
            if not numbers:
                return
            if any(number in LEAVE for number in numbers):
                self._leave()

    def _ask(self) -> None:
        elapsed = time.monotonic() - self._begin
        if not self.compiling:
            return
        if elapsed < LONGEST:
            self.notifier.patience(MORE_TIME)
        self.notifier.status(f"making the kernels ready, {elapsed:.0f} s so far")

    def _leave(self) -> None:
        """End the process under the main thread, which may not listen for long."""
        log.info("left before the start was over: nothing was read, nothing is lost")
        settle()
        self.notifier.stopping()
        logging.shutdown()
        os._exit(0)


__all__ = ["Starting"]
