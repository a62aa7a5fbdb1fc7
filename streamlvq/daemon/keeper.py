"""What must not be lost: the state folder with its lock, snapshots and journal."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from streamlvq.config import Config
from streamlvq.connect import Message
from streamlvq.daemon.acquaintance import Acquaintance, introduction
from streamlvq.daemon.decodings import Decodings
from streamlvq.daemon.intake import Intake
from streamlvq.daemon.journal import Journal
from streamlvq.daemon.lock import FILE_MODE, FolderLock
from streamlvq.daemon.metrics import Metrics
from streamlvq.daemon.replay import Replay, beginning
from streamlvq.daemon.snapshots import Snapshots
from streamlvq.monitor import Monitor
from streamlvq.payloads import Decoder
from streamlvq.role import Health
from streamlvq.snapshot import OWN_LIMIT, Snapshot, SnapshotError, Store

log = logging.getLogger(__name__)


class Keeper:
    """Restores a monitor from its folder and keeps the folder up with it.

    Parameters
    ----------
    config
        `state` says where and how often.
    vitals, instruments
        Who hears how it goes.
    """

    def __init__(self, config: Config, vitals: Health, instruments: Metrics) -> None:
        self.folder = Path(config.state.folder)
        self.vitals, self.instruments = vitals, instruments
        self.acquaintance: Acquaintance | None = None  # of a model to begin with, if there is one
        self.journaled = journals(config)
        self._lock = FolderLock(self.folder)
        self.store = Store(self.folder, keep=config.state.keep, mode=FILE_MODE)
        self.journal = Journal(self.folder, sync=config.state.sync)
        self.decodings = Decodings(self.folder)
        self.snapshots = Snapshots(self.store, config.state.snapshot_seconds, vitals, instruments)
        instruments.gauge(
            "journal_bytes", "Bytes of the journal on disk.", lambda: float(self.journal.size)
        )

    def restore(self, config: Config, still_alive: Callable[[str], None]) -> Monitor:
        """The monitor as it was when the last acknowledged message had had its effect.

        Parameters
        ----------
        config
            What the monitor and the decoder of the journal are made from.
        still_alive
            Hears now and then how far it is.
        """
        monitor, position = self._newest(config)
        self.journal.skip_to(position)
        first = self.decodings.at(position, config) if position < self.journal.next else config
        intake = Intake(Decoder(first), monitor, self.acquaintance)
        replay = Replay(self.journal, self.decodings, config, still_alive)
        intake = replay.run(intake, position)
        self.acquaintance = intake.acquaintance
        if replay.count:
            self._replayed(replay)
        if replay.others:
            self.save(intake.monitor)  # nobody needs the other configuration after this
        self.note(config)
        return intake.monitor

    def note(self, config: Config) -> None:
        """What is recorded from now on is to be decoded with this configuration."""
        oldest = min(self.store.positions(), default=0)
        self.decodings.note(config, self.journal.next, oldest)

    def _newest(self, config: Config) -> tuple[Monitor, int]:
        """The newest snapshot that is any good, and the position that it knows of."""
        start = beginning(config)
        found = self.store.newest(
            lambda data: Monitor.restore(config, data, start), limit=OWN_LIMIT
        )
        if found is not None:
            monitor, position, path = found
            log.info("restored %s", path.name, extra={"position": position})
            return monitor, position
        if damaged := self.store.paths():
            raise SnapshotError(
                f"expected a snapshot that fits the configuration in {self.folder}, got "
                f"{len(damaged)} that do not (see above). Go back to the configuration they were "
                "made with, put back good ones, or give this one another state.folder"
            )
        log.info("no snapshot in %s: nothing was saved here before", self.folder)
        monitor = Monitor(self.decodings.at(0, config) if self.journal.next else config, start)
        if start is not None:
            self._introduce(config, start)
        return monitor, 0

    def _introduce(self, config: Config, start: Snapshot) -> None:
        name = Path(str(config.model.start)).name
        log.info("begins with %s", introduction(name, start))
        self.acquaintance = Acquaintance(name, start.features)

    def _replayed(self, replay: Replay) -> None:
        self.instruments.replayed.inc(replay.count)
        self.vitals.unsaved = True
        log.info("took %d messages from the journal in %.1f s", replay.count, replay.seconds)
        for reason, times in replay.refused.items():
            self.instruments.replay_refused.labels(reason).inc(times)
        if replay.refused:
            log.warning(
                "refused %d messages of the journal (%s)",
                replay.refused.total(),
                ", ".join(f"{reason}: {times}" for reason, times in replay.refused.items()),
            )

    def record(self, messages: Sequence[Message]) -> None:
        """Make messages durable, if that is wanted; raises `JournalError`."""
        if self.journaled:
            self.journal.append(messages)

    def tend(self, monitor: Monitor, now: float) -> None:
        """Begin a snapshot that is due, clean up after one that is done."""
        if self.snapshots.poll():
            self._tidy()
        if self.snapshots.due(now):
            self._begin(monitor)

    def save(self, monitor: Monitor) -> bool:
        """Take a snapshot now and wait for it; whether all is on disk."""
        if self.snapshots.wait():
            self._tidy()
        if not self.vitals.unsaved:
            return True
        self._begin(monitor)
        if self.snapshots.wait():
            self._tidy()
            return True
        return False

    def change(self, config: Config) -> None:
        """Go on with other wishes."""
        self.journaled = journals(config)
        self.journal.sync = config.state.sync
        self.store.keep = config.state.keep
        self.snapshots.seconds = config.state.snapshot_seconds

    def close(self) -> None:
        """Let go of the folder."""
        self.journal.close()
        self._lock.release()

    def _begin(self, monitor: Monitor) -> None:
        try:
            taken = monitor.capture()
        except Exception as error:  # a defect, but readings go on; the journal keeps them
            log.error("the state could not be put into a snapshot", exc_info=error)
            self.snapshots.give_up(error)
            return
        self.journal.rotate()
        if not self.journaled:  # every snapshot gets a number of its own
            self.journal.skip_to(self.journal.next + 1)
        self.snapshots.begin(taken, self.journal.next)

    def _tidy(self) -> None:
        """Delete the journal that even the oldest snapshot does not need."""
        try:
            self.journal.forget(min(self.store.positions(), default=0))
        except OSError as error:
            log.warning("old files of the journal cannot be deleted: %s", error)


def journals(config: Config) -> bool:
    """Whether messages are written to the journal.

    Examples
    --------
    >>> from streamlvq.config import ReadingsSection
    >>> journals(Config()), journals(Config(readings=ReadingsSection(qos=0)))
    (True, False)

    """
    if config.state.journal != "auto":
        return config.state.journal == "always"
    return config.readings.qos > 0 or (config.labels is not None and config.labels.qos > 0)


__all__ = ["Keeper", "beginning", "journals"]
