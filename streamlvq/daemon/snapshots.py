"""Snapshots now and then, written behind the back of the loop."""

from __future__ import annotations

import logging
import threading
import time

from streamlvq.daemon.metrics import Metrics
from streamlvq.monitor import Checkpoint
from streamlvq.role import Health
from streamlvq.snapshot import Store

log = logging.getLogger(__name__)

FIRST_RETRY = 1.0  # seconds


class Snapshots:
    """Decides when a snapshot is due, writes it in a thread, and tries again when that fails.

    Parameters
    ----------
    store
        Where they go.
    seconds
        How often, if something changed.
    vitals, instruments
        Who hears how it went.
    """

    def __init__(self, store: Store, seconds: float, vitals: Health, instruments: Metrics) -> None:
        self.store, self.seconds = store, seconds
        self.vitals, self.instruments = vitals, instruments
        self._next = time.monotonic() + seconds
        self._retry = FIRST_RETRY
        self._thread: threading.Thread | None = None
        self._taken = 0.0  # when the one being written was taken
        self._seconds = 0.0  # how long writing took
        self._error: BaseException | None = None

    def due(self, now: float) -> bool:
        """Whether it is time for one; never while one is being written."""
        return self._thread is None and self.vitals.unsaved and now >= self._next

    def begin(self, taken: Checkpoint, position: int) -> None:
        """Write one that knows all batches before `position`."""
        self._taken, self._error = time.monotonic(), None
        self.vitals.unsaved = False  # until something changes again
        self._thread = threading.Thread(
            target=self._write, args=(taken, position), name="snapshot", daemon=True
        )
        self._thread.start()

    def give_up(self, error: BaseException) -> None:
        """There is nothing to write: the state could not even be put into bytes."""
        self._error = error
        self._failed()

    def poll(self) -> bool:
        """Whether one has been finished since the last time, and is good."""
        if self._thread is None or self._thread.is_alive():
            return False
        self._thread.join()
        self._thread = None
        return self._failed() if self._error is not None else self._succeeded()

    def wait(self) -> bool:
        """Wait for the one being written; as `poll`."""
        if self._thread is not None:
            self._thread.join()
        return self.poll()

    def _write(self, taken: Checkpoint, position: int) -> None:
        begin = time.monotonic()
        try:
            self.store.write(taken.to_bytes(), position)
        except BaseException as error:  # the loop is told; nothing may end here in silence
            self._error = error
        self._seconds = time.monotonic() - begin

    def _succeeded(self) -> bool:
        self.instruments.snapshots.inc()
        self.instruments.snapshot_seconds = self._seconds
        self.vitals.saved, self.vitals.snapshot = self._taken, None
        self._retry = FIRST_RETRY
        self._next = self._taken + self.seconds
        return True

    def _failed(self) -> bool:
        self.instruments.snapshot_failures.inc()
        reason = str(self._error) or repr(self._error)
        self.vitals.unsaved, self.vitals.snapshot = True, reason
        wait = min(self._retry, self.seconds)
        log.error("a snapshot could not be written, next try in %.0f s: %s", wait, reason)
        self._retry *= 2
        self._next = time.monotonic() + wait
        return False


__all__ = ["Snapshots"]
