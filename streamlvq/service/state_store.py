"""State store: a folder with lock, snapshots and journal, and the restoring of a monitor."""

from __future__ import annotations

import fcntl
import logging
import os
import threading
import time
from collections import Counter as Tally
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from streamlvq.config import Config
from streamlvq.errors import StreamLVQError
from streamlvq.monitor import Checkpoint, Monitor, OtherModelError
from streamlvq.monitor.files import load_start_model, restore_newest
from streamlvq.payloads import Decoder
from streamlvq.role import Health, changed_keys
from streamlvq.service.journal import DecodingHistory, Journal, Record, RecordLog, Serve
from streamlvq.service.metrics import ServiceMetrics
from streamlvq.service.processor import FeatureCheck, MessageProcessor
from streamlvq.snapshot import Snapshot, SnapshotError, SnapshotFiles
from streamlvq.snapshot.files import FILE_MODE, FOLDER_MODE

if TYPE_CHECKING:
    from streamlvq.service.releases import PatientLedger

log = logging.getLogger(__name__)

FIRST_RETRY_SECONDS = 1.0  # after a snapshot that could not be written; then twice as long each
PROGRESS_SECONDS = 5.0  # between two log lines about a long journal
FAILURE = "failure"  # the reason for refusing a served model, one of `events.REFUSAL_REASONS`
UNFINISHED_FILES = (".journal*.unfinished", ".decoding.json.*.unfinished")  # of a killed process


# --- one process for each folder ------------------------------------------------------------------


class FolderError(StreamLVQError, OSError):
    """State folder that cannot be used."""


class FolderLock:
    """Lock on a state folder, created if missing; the system releases it with the process.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with FolderLock(folder):
    ...     FolderLock(folder)
    Traceback (most recent call last):
    ...
    streamlvq.service.state_store.FolderError: .../lock is held by process ...; stop it, or give ...

    """

    def __init__(self, folder: Path) -> None:
        path = folder / "lock"
        try:
            folder.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
            self._file = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        except OSError as error:
            raise FolderError(
                f"expected a state folder that can be written, got {folder}: "
                f"{error.strerror} ({error.filename})"
            ) from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(self._file, 20, 0).decode("ascii", "replace").strip() or "?"
            os.close(self._file)
            raise FolderError(
                f"{path} is held by process {holder}; stop it, or give this one another "
                "state.folder"
            ) from error
        self._write_pid(path)

    def _write_pid(self, path: Path) -> None:
        """Write our process id for whoever is refused; the lock works without it."""
        try:
            path.write_text(f"{os.getpid()}\n")
        except OSError as error:
            log.warning("cannot write the process id to %s: %s", path, error)

    def release(self) -> None:
        """Let others use the folder."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> FolderLock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


# --- snapshots ------------------------------------------------------------------------------------


class SnapshotWriter:
    """Writer of snapshots: decides when one is due, writes it in a thread, retries failures."""

    def __init__(
        self, files: SnapshotFiles, seconds: float, health: Health, metrics: ServiceMetrics
    ) -> None:
        self.files, self.seconds = files, seconds
        self.health, self.metrics = health, metrics
        self._next = time.monotonic() + seconds
        self._retry_seconds = FIRST_RETRY_SECONDS
        self._thread: threading.Thread | None = None
        self._captured = 0.0  # when the state that is being written was captured
        self._write_seconds = 0.0
        self._error: BaseException | None = None

    def due(self, now: float) -> bool:
        """Return whether it is time for a snapshot; never while one is being written."""
        return self._thread is None and self.health.unsaved and now >= self._next

    def begin(self, checkpoint: Checkpoint, position: int) -> None:
        """Start writing a snapshot that covers all records before `position`."""
        self._captured, self._error = time.monotonic(), None
        self.health.unsaved = False  # until something changes again
        self._thread = threading.Thread(
            target=self._write, args=(checkpoint, position), name="snapshot", daemon=True
        )
        self._thread.start()

    def give_up(self, error: BaseException) -> None:
        """Report that the state could not even be captured."""
        self._error = error
        self._failed()

    def poll(self) -> bool:
        """Return whether a snapshot has been written since the last call."""
        if self._thread is None or self._thread.is_alive():
            return False
        self._thread.join()
        self._thread = None
        return self._failed() if self._error is not None else self._succeeded()

    def wait(self) -> bool:
        """Wait for the snapshot that is being written, then do as `poll`."""
        if self._thread is not None:
            self._thread.join()
        return self.poll()

    def _write(self, checkpoint: Checkpoint, position: int) -> None:
        begin = time.monotonic()
        try:
            self.files.write(checkpoint.to_bytes(), position)
        except BaseException as error:  # reported by `poll`; nothing may end here silently
            self._error = error
        self._write_seconds = time.monotonic() - begin

    def _succeeded(self) -> bool:
        self.metrics.snapshots.inc()
        self.metrics.snapshot_seconds = self._write_seconds
        self.health.saved, self.health.snapshot = self._captured, None
        self._retry_seconds = FIRST_RETRY_SECONDS
        self._next = self._captured + self.seconds
        return True

    def _failed(self) -> bool:
        self.metrics.snapshot_failures.inc()
        reason = str(self._error) or repr(self._error)
        self.health.unsaved, self.health.snapshot = True, reason
        wait = min(self._retry_seconds, self.seconds)
        log.error("a snapshot could not be written, next try in %.0f s: %s", wait, reason)
        self._retry_seconds *= 2
        self._next = time.monotonic() + wait
        return False


# --- replaying the journal ------------------------------------------------------------------------


class JournalReplay:
    """Replay of a journal through a monitor, each record decoded as it was at the time.

    `config` is the configuration to continue with; `report_progress` is called from time to time
    with the progress.
    """

    def __init__(
        self,
        journal: RecordLog,
        history: DecodingHistory,
        config: Config,
        report_progress: Callable[[str], None],
        ledger: PatientLedger | None = None,
    ) -> None:
        self.journal, self.history, self.config = journal, history, config
        self.report_progress, self.ledger = report_progress, ledger
        self.count = 0  # messages and served models
        self.seconds = 0.0
        self.refused: Tally[str] = Tally()
        self.used_old_config = False

    def run(self, processor: MessageProcessor, position: int) -> MessageProcessor:
        """Replay all records from `position` on; return a processor with the current config."""
        begin = reported = time.monotonic()
        change: int | None = position
        for at, record in self.journal.read(position):
            if change is not None and at >= change:
                processor = self._reconfigured(processor, self.history.config_at(at, self.config))
                change = self.history.next_change(at)
                self._log_old_config(processor.decoder.config)
            self._apply(processor, record)
            if time.monotonic() - reported > PROGRESS_SECONDS:
                reported = time.monotonic()
                self.report_progress(f"batch {at - position + 1} of {self.journal.next - position}")
        processor = self._reconfigured(processor, self.config)
        self.seconds = time.monotonic() - begin
        return processor

    def _apply(self, processor: MessageProcessor, record: Record) -> None:
        if isinstance(record, Serve):
            self.count += 1
            self.refused.update([] if processor.serve(record.group, record.snapshot) else [FAILURE])
            return
        self.count += len(record.messages)
        result = processor.process(record.messages)
        self.refused.update(each.reason for each in result.refused)

    def _log_old_config(self, old: Config) -> None:
        if names := changed_keys(old, self.config):
            self.used_old_config = True
            log.info(
                "the journal holds messages from before %s changed: they are decoded as then",
                ", ".join(names),
            )

    def _reconfigured(self, processor: MessageProcessor, config: Config) -> MessageProcessor:
        """Return a processor with the same state and another configuration."""
        if config == processor.decoder.config:
            return processor
        try:
            data = processor.monitor.checkpoint()
            monitor = Monitor.restore(config, data, load_start_model(config), self.ledger)
        except (SnapshotError, OtherModelError) as error:
            raise SnapshotError(
                "expected a configuration that can continue with what the journal holds, got one "
                f"that cannot: {error}. Go back to the previous one, or set state.folder to "
                "another folder"
            ) from error
        return MessageProcessor(Decoder(config), monitor, processor.feature_check)


# --- the folder -----------------------------------------------------------------------------------


class StateStore:
    """Store that restores a monitor from its state folder and keeps the folder up to date."""

    def __init__(self, config: Config, health: Health, metrics: ServiceMetrics) -> None:
        self.folder = Path(config.state.folder)
        self.health, self.metrics = health, metrics
        self.journaled = uses_journal(config)
        self.within_batch = False  # the monitor stopped in the middle: only the journal is whole
        self._lock = FolderLock(self.folder)
        try:
            _remove_unfinished(self.folder)
            self.files = SnapshotFiles(self.folder, keep=config.state.keep, mode=FILE_MODE)
            self.journal = Journal(self.folder, sync=config.state.sync)
            self.history = DecodingHistory(self.folder)
            self.ledger = _open_ledger(config, self.folder)
        except BaseException:
            self._lock.release()
            raise
        self.writer = SnapshotWriter(self.files, config.state.snapshot_seconds, health, metrics)
        metrics.gauge(
            "journal_bytes", "Bytes of the journal on disk.", lambda: float(self.journal.size)
        )

    def restore(self, config: Config, report_progress: Callable[[str], None]) -> MessageProcessor:
        """Restore the state after the last acknowledged message.

        Return a processor with the restored monitor and the current configuration; older messages
        are decoded with the configuration of their time. `report_progress` is called from time to
        time. A ledger that cannot be written is waited for (`PatientLedger.pause`); if it shall not
        be, `LedgerError` is raised.
        """
        processor, position = self._newest(config)
        self.journal.skip_to(position)
        if position < self.journal.next and not len(self.history):
            log.warning(
                "%s is missing: the journal is decoded with the current configuration",
                self.history.path,
            )
        replay = JournalReplay(self.journal, self.history, config, report_progress, self.ledger)
        processor = replay.run(processor, position)
        if self.ledger is not None:
            self._check_releases(self.ledger, processor.monitor)
        if replay.count:
            self._report_replay(replay)
        if replay.used_old_config:
            self.save(processor.monitor)  # nobody needs the old configuration after this
        self.record_decoding(config)
        return processor

    def _check_releases(self, ledger: PatientLedger, monitor: Monitor) -> None:
        """Raise unless the model belongs to the ledger; save the key of a new one at once."""
        ledger.check(monitor)
        if not self.files.paths():
            self.health.unsaved = True
            if not self.save(monitor):
                raise FolderError(
                    f"expected to save the private model, got: {self.health.snapshot}"
                )

    def record_decoding(self, config: Config) -> None:
        """Record that messages from now on are decoded with this configuration."""
        oldest = min(self.files.positions(), default=0)
        self.history.record(config, self.journal.next, oldest)

    def _newest(self, config: Config) -> tuple[MessageProcessor, int]:
        """Restore the newest usable snapshot; return its position as well."""
        start = load_start_model(config)
        found = restore_newest(config, self.files, start, self.ledger)
        if found is not None:
            monitor, position, path = found
            log.info("restored %s", path.name, extra={"position": position})
            if self.ledger is not None:
                self.ledger.note_snapshot(position, monitor)
            then = self.history.config_at(position, config)
            first = then if position < self.journal.next else config
            return MessageProcessor(Decoder(first), monitor), position
        if unusable := self.files.paths():
            raise SnapshotError(
                f"expected a snapshot that fits the configuration in {self.folder}, got "
                f"{len(unusable)} that do not ({', '.join(path.name for path in unusable)}; see "
                "above). Go back to the configuration they were made with, put back good ones, or "
                "give this one another state.folder"
            )
        if self.journal.next:
            log.info("no snapshot in %s yet: everything comes from the journal", self.folder)
        else:
            log.info("no snapshot in %s: nothing was saved here before", self.folder)
        first = self.history.config_at(0, config) if self.journal.next else config
        check = None if start is None else _feature_check(config, start)
        return MessageProcessor(Decoder(first), Monitor(first, start, self.ledger), check), 0

    def _report_replay(self, replay: JournalReplay) -> None:
        self.metrics.replayed.inc(replay.count)
        self.health.unsaved = True
        log.info("took %d messages from the journal in %.1f s", replay.count, replay.seconds)
        for reason, times in replay.refused.items():
            self.metrics.replay_refused.labels(reason).inc(times)
        if replay.refused:
            log.warning(
                "refused %d messages of the journal (%s)",
                replay.refused.total(),
                ", ".join(f"{reason}: {times}" for reason, times in replay.refused.items()),
            )

    def append(self, record: Record) -> None:
        """Make a record durable if so configured; raise `JournalError` if that fails."""
        if self.journaled:
            self.journal.append(record)

    def tend(self, monitor: Monitor, now: float) -> None:
        """Start a snapshot that is due, and clean up after a finished one."""
        if self.writer.poll():
            self._trim()
        if self.writer.due(now) and not self.within_batch:
            self._begin(monitor)

    def save(self, monitor: Monitor) -> bool:
        """Take a snapshot now and wait for it; return whether everything is on disk."""
        if self.writer.wait():
            self._trim()
        if self.within_batch:
            return False
        if not self.health.unsaved:
            return True
        self._begin(monitor)
        if self.writer.wait():
            self._trim()
            return True
        return False

    def change(self, config: Config) -> None:
        """Switch to another configuration."""
        self.journaled = uses_journal(config)
        self.journal.sync = config.state.sync
        self.files.keep = config.state.keep
        self.writer.seconds = config.state.snapshot_seconds

    def close(self) -> None:
        """Release the folder."""
        self.journal.close()
        if self.ledger is not None:
            self.ledger.ledger.close()
        self._lock.release()

    def _begin(self, monitor: Monitor) -> None:
        try:
            checkpoint = monitor.capture()
        except (
            Exception
        ) as error:  # an internal error must not stop readings; the journal keeps them
            log.error("the state could not be captured for a snapshot", exc_info=error)
            self.writer.give_up(error)
            return
        self.journal.rotate()
        if not self.journaled:  # every snapshot gets a number of its own
            self.journal.skip_to(self.journal.next + 1)
        if self.ledger is not None:
            self.ledger.note_snapshot(self.journal.next, monitor)
        self.writer.begin(checkpoint, self.journal.next)

    def _trim(self) -> None:
        """Delete journal files and releases that not even the oldest snapshot needs."""
        positions = self.files.positions()
        try:
            self.journal.trim(min(positions, default=0))
            if self.ledger is not None:
                self.ledger.forget(positions)
        except OSError as error:
            log.warning("old journal files cannot be deleted: %s", error)


def _open_ledger(config: Config, folder: Path) -> PatientLedger | None:
    if config.privacy is None:
        return None
    from streamlvq.service.releases import open_ledger  # noqa: PLC0415 - slow to import

    return open_ledger(config, folder)


def _feature_check(config: Config, start: Snapshot) -> FeatureCheck:
    name = Path(str(config.model.start)).name
    log.info(
        "begins with %s (%s, %d samples, %d features)",
        name,
        start.type_name,
        start.samples,
        len(start.features),
    )
    return FeatureCheck(name, start.features)


def _remove_unfinished(folder: Path) -> None:
    for pattern in UNFINISHED_FILES:
        for path in folder.glob(pattern):
            try:
                path.unlink()
            except OSError as error:
                log.warning("%s is of no use but cannot be removed: %s", path, error)


def uses_journal(config: Config) -> bool:
    """Return whether messages are written to the journal.

    Examples
    --------
    >>> from streamlvq.config import ReadingsSection
    >>> uses_journal(Config()), uses_journal(Config(readings=ReadingsSection(qos=0)))
    (True, False)

    """
    if config.state.journal != "auto":
        return config.state.journal == "always"
    return config.readings.qos > 0 or (config.labels is not None and config.labels.qos > 0)
