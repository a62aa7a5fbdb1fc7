"""Ledger of a daemon: opened with its state folder, patient with the disk, checked at the start."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from streamlvq.arrays import Ints
from streamlvq.config import Config
from streamlvq.config.build import build_privacy
from streamlvq.errors import LedgerError, StreamLVQError
from streamlvq.events import ALL_DEVICES
from streamlvq.monitor import Monitor
from streamlvq.monitor.files import load_config, load_monitor
from streamlvq.privacy import Spending
from streamlvq.privacy.ledger import LEDGER_FILE, Ledger, read_ledger

log = logging.getLogger(__name__)

T = TypeVar("T")
LEDGER_RETRY_SECONDS = 0.1  # after the first failure; then twice as long each
LEDGER_RETRY_MAX_SECONDS = 30.0


class OtherLedgerError(StreamLVQError):
    """State and ledger that do not belong together."""


class PatientLedger:
    """`ReleaseLedger` that waits until the disk works again.

    A release that fails would cut off its batch from the readings in the journal. `pause` waits so
    many seconds and returns False if the daemon shall stop.
    """

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._covered: dict[int, int] = {}  # releases in the snapshots of this process
        self.problem: str | None = None
        self.pause: Callable[[float], bool] = _sleep

    @property
    def head(self) -> bytes:
        """Head of the ledger."""
        return self.ledger.head

    def reserve(self, number: int, spending: Spending) -> None:
        """Write what a release will spend."""
        self._insist(lambda: self.ledger.reserve(number, spending))

    def record(self, number: int, released: Ints) -> None:
        """Write what a release says."""
        self._insist(lambda: self.ledger.record(number, released))

    def recorded(self, number: int) -> Ints | None:
        """Return what a release said; None if it was not made."""
        return self.ledger.recorded(number)

    def is_reserved(self, number: int, series: str) -> bool:
        """Return whether a release was reserved, in a ledger that knows the series."""
        return self.ledger.is_reserved(number, series)

    def check(self, monitor: Monitor) -> None:
        """Raise `OtherLedgerError` unless a model has made exactly the releases of the ledger."""
        made, ledger = private_model(monitor).releases, self.ledger
        if made == ledger.releases:
            return
        if made > ledger.releases:
            raise OtherLedgerError(_behind(made, ledger.releases, ledger.path))
        raise OtherLedgerError(
            f"expected a state of {ledger.releases} releases, which {ledger.path} has, got one of "
            f"{made}: the readings of the others are not in the journal, and would be released "
            "twice. Put back the snapshots and journal of this folder, or set state.folder to "
            "another folder to begin afresh with readings that were never learnt"
        )

    def note_snapshot(self, position: int, monitor: Monitor) -> None:
        """Note the releases that a snapshot covers, so that nobody will replay them."""
        self._covered[position] = private_model(monitor).releases

    def forget(self, positions: Sequence[int]) -> None:
        """Forget releases that even the oldest snapshot covers; these are their positions."""
        self._covered = {at: self._covered.get(at, 0) for at in positions}
        self.ledger.forget(min(self._covered.values(), default=0))

    def _insist(self, write: Callable[[], T]) -> T:
        wait = LEDGER_RETRY_SECONDS
        while True:
            try:
                done = write()
            except LedgerError as error:
                self.problem = str(error)
                log.error("%s; nothing is learnt until it works", error)
                if not self.pause(wait):
                    raise
                wait = min(2.0 * wait, LEDGER_RETRY_MAX_SECONDS)
            else:
                self.problem = None
                return done


def _sleep(seconds: float) -> bool:
    time.sleep(seconds)
    return True


def _behind(made: int, recorded: int, path: Path) -> str:
    """Return what is wrong with a ledger that lacks releases of the state."""
    what = "an older ledger was put back" if path.exists() else "the ledger is missing"
    return (
        f"expected a ledger of at least {made} releases, which the state has, got {recorded} in "
        f"{path}: {what}, and noise that was used would be drawn again. Put back the newest one"
    )


def ledger_problem(folder: Path) -> str | None:
    """Return why a state folder's ledger is refused: it lacks releases of the newest snapshot.

    None if it has them, or if nothing is learnt under privacy. Nothing is locked or written.
    """
    config = load_config(folder)
    if config is None or config.privacy is None:
        return None
    made, path = private_model(load_monitor(config, folder)).releases, folder / LEDGER_FILE
    recorded = read_ledger(path).account.releases if path.exists() else 0
    return _behind(made, recorded, path) if made > recorded else None


def open_ledger(config: Config, folder: Path) -> PatientLedger:
    """Open the ledger of a state folder for what the section `privacy` promises."""
    assert config.privacy is not None
    promise = {**build_privacy(config.privacy).as_mapping(), "metric": config.privacy.metric}
    promise.setdefault("delta", config.privacy.delta)
    return PatientLedger(Ledger(folder / LEDGER_FILE, promise, keep=None))


def private_model(monitor: Monitor) -> Any:
    """Return the model that learns under privacy."""
    return monitor.local(ALL_DEVICES)
