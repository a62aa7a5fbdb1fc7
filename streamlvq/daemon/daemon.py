"""Daemon: one loop between a broker and a folder."""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Callable, Sequence

from streamlvq.config import Config
from streamlvq.connect import Message, Outgoing
from streamlvq.daemon.connection import Connection
from streamlvq.daemon.fleet import Fleet
from streamlvq.daemon.http import HealthServer, PortError
from streamlvq.daemon.instruments import Instruments
from streamlvq.daemon.journal import JournalError, Received, Serve
from streamlvq.daemon.logs import set_up, settle
from streamlvq.daemon.notify import Notifier
from streamlvq.daemon.processor import MessageProcessor
from streamlvq.daemon.publisher import Publisher
from streamlvq.daemon.reload import changes, fixed, reconnects
from streamlvq.daemon.signals import Signals
from streamlvq.daemon.starting import Starting
from streamlvq.daemon.state_store import StateStore
from streamlvq.daemon.vitals import Vitals
from streamlvq.errors import StreamLVQError
from streamlvq.monitor import Monitor
from streamlvq.monitor.files import load_start_model
from streamlvq.payloads import Decoder

log = logging.getLogger(__name__)

PATIENCE = 0.2  # seconds that the loop waits for messages before it looks after itself
TENDING = 0.05  # seconds between two looks, however much comes
FEW = 16  # messages: a batch of fewer is small
OFTEN = 0.01  # seconds since the last batch: sooner, and more is to be expected
GATHER = 0.002  # seconds to wait for more of it
COUNTING = 1.0  # seconds between two looks how many devices and models there are
LONGEST_RETRY = 30.0  # seconds between two attempts to write the journal
NOTHING = "nothing has changed"
MORE_TIME = 60.0  # seconds that systemd is asked for while the journal is read


class Daemon:
    """Reads, makes durable, decides and learns, publishes, acknowledges; in this order, for ever.

    Nothing runs beside the loop but the writing of snapshots and the answers to HTTP. What is not
    read yet waits at the broker.

    Parameters
    ----------
    config
        What to do.
    signals
        What the system asks for.
    reread
        Gives the configuration that is in the file now; raises `ConfigError`.
    """

    def __init__(self, config: Config, signals: Signals, reread: Callable[[], Config]) -> None:
        self.config = config
        self.signals = signals
        self.reread = reread
        self.notifier = Notifier()
        self.vitals = Vitals(config.health)
        self.instruments = Instruments(self.vitals, config.health.max_devices)
        self.keeper = StateStore(config, self.vitals, self.instruments)
        self.server = self._listen(config)
        self.publisher = Publisher(config, self.instruments)
        self.vitals.file = self.publisher.trouble
        registry = self.instruments.registry
        self.fleet = None if config.fleet is None else Fleet(config, self.keeper.folder, registry)
        self._next_look = self._next_count = 0.0
        self._busy = 0.0  # when the last batch was done

    # --- from start to end -----------------------------------------------------------------------

    def run(self) -> int:
        """Run until told to leave; 0 if all was kept."""
        try:
            self._start()
            while not self.signals.leave:
                messages = self._read()
                if messages:
                    self._take(messages)
                self._look(time.monotonic())
            return self._stop()
        finally:
            self._close()

    def _start(self) -> None:
        log.info("making the kernels ready")
        with Starting(self.signals, self.notifier) as starting:
            Monitor(self.config).compile()
            starting.compiling = False
            self.intake = self.keeper.restore(self.config, self._still_starting)
        self._join_fleet()
        record = None if self.fleet is None else self.fleet.figures.record
        self.connection = Connection(self.config, self.keeper.folder, self.vitals, record)
        self.instruments.watch_link(self.connection.totals)
        self._count()
        self.vitals.starting = False
        self.vitals.started = self.vitals.saved = time.monotonic()  # what was before counts not
        gc.collect()
        gc.freeze()  # what is here now stays: no need to look at it again and again
        self.notifier.ready()
        log.info("ready, connecting to %s", self.config.broker.url)

    def _join_fleet(self) -> None:
        if self.fleet is not None:
            self.fleet.begin(self.monitor)
        elif self.monitor.serving("") is not None:
            log.info("not in a fleet any more: our own model decides")
            self._serve(None)

    def _still_starting(self, progress: str) -> None:
        log.info("reading the journal: %s", progress)
        self.notifier.status(f"reading the journal: {progress}")
        self.notifier.patience(MORE_TIME)

    def _stop(self) -> int:
        """All that was read is acknowledged; save the rest and say goodbye."""
        log.info("leaving")
        self.vitals.stopping = True
        self.notifier.stopping()
        saved = self.keeper.save(self.monitor)
        self.connection.leave(self.instruments, self.monitor)
        if not saved and not self.keeper.journaled:
            log.error("left without a snapshot: what was learnt since the last one is lost")
            return 1
        log.info("left", extra={"readings": int(self.instruments.readings.value())})
        return 0

    def _close(self) -> None:
        if self.server is not None:
            self.server.close()
        self.publisher.close()
        self.keeper.close()

    @property
    def monitor(self) -> Monitor:
        """What decides and learns."""
        return self.intake.monitor

    # --- messages --------------------------------------------------------------------------------

    def _read(self) -> list[Message]:
        """What came; when little comes at a time but often, a bit more of it.

        A batch of one costs nearly as much as a batch of ten.
        """
        messages = self.connection.link.read(PATIENCE)
        if 0 < len(messages) < FEW and time.monotonic() - self._busy < OFTEN:
            time.sleep(GATHER)
            messages = messages + self.connection.link.read(0.0)
        return messages

    def _take(self, messages: Sequence[Message]) -> None:
        """Let messages have their effect, and acknowledge them only then."""
        begin = time.monotonic()
        if self.fleet is not None:
            messages = self.fleet.take(messages, self.connection.link)
            if not messages:
                return
        if not self._record(messages):
            return  # asked to leave before they were durable; the broker has them still
        effect = self.intake.process(messages)
        self.vitals.unsaved = True
        if effect.decisions:
            self.vitals.reading = begin
        self._publish(self.publisher.messages(effect, messages))
        self.connection.link.acknowledge(messages)
        self.instruments.batch.observe(len(messages))
        self._busy = time.monotonic()
        self.instruments.latency.observe(self._busy - begin)

    def _serve(self, model: bytes | None) -> bool:
        """Let a model decide from now on, also after a crash; raises `JournalError`."""
        self.keeper.append(Serve("", model))
        self.vitals.unsaved = True
        return self.intake.serve("", model)

    def _publish(self, outgoing: Sequence[Outgoing]) -> None:
        """Send; whatever a link has against it, the messages have had their effect."""
        try:
            self.connection.link.publish(outgoing)
        except Exception as error:
            self.instruments.publish_failures.add()
            log.error("a defect cost the output of a batch, please report it", exc_info=error)

    def _record(self, messages: Sequence[Message]) -> bool:
        """Make messages durable, however often it takes; False if asked to leave meanwhile."""
        wait = TENDING
        while True:
            try:
                self.keeper.append(Received(messages))
            except JournalError as error:
                self.instruments.journal_failures.add()
                self.vitals.journal = str(error)
                log.error("%s; nothing is acknowledged until it works", error)
            else:
                if self.vitals.journal is not None:
                    log.info("the journal works again")
                self.vitals.journal = None
                return True
            if not self._pause(wait):
                return False
            wait = min(2 * wait, LONGEST_RETRY)

    def _pause(self, seconds: float) -> bool:
        """Wait without reading; False if asked to leave. A snapshot may make room meanwhile."""
        end = time.monotonic() + seconds
        while (now := time.monotonic()) < end:
            if self.signals.leave:
                return False
            self._tend(now)
            time.sleep(min(TENDING, end - now))
        return True

    # --- housekeeping, by the monotonic clock ----------------------------------------------------

    def _look(self, now: float) -> None:
        if now < self._next_look:
            return
        self._next_look = now + TENDING
        self._tend(now)
        if self.signals.reload:
            self.signals.reload = False
            self._reload()
        if now >= self._next_count:
            self._count()
        self.publisher.tend(now)
        self.vitals.file = self.publisher.trouble
        if self.fleet is not None:
            self.fleet.tend(now, self.connection.link, self.monitor, self._serve)
            self.vitals.fleet = self.fleet.figures.complaint()
            if self.fleet.figures.news():
                self.connection.hurry()
        self.connection.tend(now, self.publisher, self.instruments, self.monitor)
        self.notifier.status(self.connection.summary(self.instruments))

    def _count(self) -> None:
        """Leave the numbers behind: another thread must not walk through what the loop changes."""
        self.vitals.devices = self.monitor.devices
        self.vitals.models = len(self.monitor.models())
        self._next_count = time.monotonic() + COUNTING

    def _tend(self, now: float) -> None:
        self.vitals.beat = now
        self.notifier.feed(now)
        settle(everything=False)
        self.keeper.tend(self.monitor, now)

    # --- another configuration -------------------------------------------------------------------

    def _reload(self) -> None:
        """Change to what the file says now; if anything speaks against it, change nothing."""
        self.notifier.reloading(time.monotonic_ns())
        try:
            new = self.reread()
            self._change(new)
        except (StreamLVQError, OSError, ValueError) as error:
            self.instruments.reloads.add(1, "refused")
            log.error("kept the old configuration: %s", error)
        else:
            self.instruments.reloads.add(1, "done")
        self.notifier.ready()

    def _change(self, new: Config) -> None:
        old = self.config
        if names := fixed(old, new):
            raise ReloadError(f"{', '.join(names)} can only change with a restart")
        names = changes(old, new)
        # The journal must never hold messages that were read under another configuration.
        if names and not self.keeper.save(self.monitor):
            raise ReloadError("the state could not be saved before the change")
        decoder, publisher = Decoder(new), Publisher(new, self.instruments)
        monitor = self.monitor
        if old.rejector != new.rejector or old.labels != new.labels:
            monitor = Monitor.restore(new, monitor.checkpoint(), load_start_model(new))
            monitor.compile()
        keys, told = (None, []) if self.fleet is None else self.fleet.reread()
        # What was refused for want of a key is retained, and comes again with another connection.
        another = told or reconnects(old, new)
        reconnect = self.connection.replacement(new) if another else None
        self.keeper.record_decoding(new)
        try:
            self._move_server(new)
        except BaseException:
            self.keeper.record_decoding(old)
            raise
        self.intake = MessageProcessor(decoder, monitor, self.intake.feature_check)
        self.publisher.close()
        self.publisher, self.config = publisher, new
        self.vitals.limits = new.health
        self.instruments.max_devices = new.health.max_devices
        self.keeper.change(new)
        set_up(new.logging)
        if self.fleet is not None:
            self.fleet.roster.believe(keys)
        if reconnect is not None:
            reconnect()
            if self.fleet is not None:
                self.fleet.inbox.drop()
        log.info("configuration read again: %s", ", ".join([*names, *told]) or NOTHING)

    def _move_server(self, new: Config) -> None:
        old = self.config.health
        if (old.host, old.port) == (new.health.host, new.health.port):
            return
        if old.port and old.port == new.health.port:  # it would be in its own way
            self._replace_server(new)
            return
        server = self._listen(new)  # first, as it may fail
        if self.server is not None:
            self.server.close()
        self.server = server

    def _replace_server(self, new: Config) -> None:
        """Close, then open; what was there comes back if that fails."""
        if self.server is not None:
            self.server.close()
            self.server = None
        try:
            self.server = self._listen(new)
        except PortError:
            self.server = self._listen(self.config)
            raise

    def _listen(self, config: Config) -> HealthServer | None:
        if config.health.port is None:
            return None
        server = HealthServer(
            config.health.host, config.health.port, self.instruments.registry, self.vitals
        )
        log.info("listening on http://%s:%d", config.health.host, server.port)
        return server


class ReloadError(StreamLVQError, ValueError):
    """A configuration that cannot take the place of the one that is in use."""


__all__ = ["Daemon", "ReloadError"]
