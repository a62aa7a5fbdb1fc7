"""What is being compiled, for logs and for whoever asks meanwhile."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

NOTE_SECONDS = 2.0  # between two lines about what is being compiled

log = logging.getLogger("streamlvq")


class CompileProgress:
    """Kernels that this process compiles, as opposed to loading them from the cache.

    Values are plain and each is replaced as a whole, so that other threads can read them.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.kernel: str | None = None  # which is being compiled
        self.done = 0  # kernels compiled so far
        self.quiet = False  # True: log nothing, somebody else shows it
        self._start = self._noted = 0.0

    def begin(self, kernel: str, cache_error: Callable[[], str | None]) -> None:
        """Note that a kernel is being compiled; `cache_error` says why it cannot be kept."""
        now = self._clock()
        self.kernel = kernel
        if self.done == 0:
            self._start = self._noted = now
        if self.quiet:
            return
        if self.done == 0:
            self._announce(cache_error())
        elif now - self._noted >= NOTE_SECONDS:
            self._noted = now
            log.info("%s", str(self))

    def end(self) -> None:
        """Note that the kernel is ready; without a `begin` it came from the cache."""
        if self.kernel is not None:
            self.kernel = None
            self.done += 1

    def _announce(self, error: str | None) -> None:
        if error is None:
            log.warning(
                "compiling kernels that this installation has not used yet, %s first; "
                "`streamlvq warm` compiles all",
                self.kernel,
            )
            return
        log.warning(
            "compiling the kernels, as at every start: they cannot be kept in %s; set "
            "NUMBA_CACHE_DIR to a folder that can be written",
            error,
        )

    def __str__(self) -> str:
        seconds = self._clock() - self._start
        return f"compiling {self.kernel}, {self.done} done in {seconds:.0f} s"


progress = CompileProgress()
