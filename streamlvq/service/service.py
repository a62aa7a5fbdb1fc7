"""Service: the loop between a broker and a role, with HTTP, reloads and an orderly shutdown."""

from __future__ import annotations

import gc
import logging
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from streamlvq.config import Config, ConfigError, load
from streamlvq.connect import Message
from streamlvq.errors import StreamLVQError
from streamlvq.role import Health, ReloadError, Role, changed_keys
from streamlvq.service.health import HealthServer, PortError
from streamlvq.service.logs import set_up, settle
from streamlvq.service.metrics import ServiceMetrics
from streamlvq.service.session import BrokerSession
from streamlvq.service.systemd import Notifier, Signals

log = logging.getLogger(__name__)

POLL_SECONDS = 0.2  # how long the loop waits for messages before housekeeping
HOUSEKEEPING_SECONDS = 0.05  # between two rounds of housekeeping, however much comes
SMALL_BATCH = 16  # messages: fewer are worth waiting for more
BUSY_SECONDS = 0.01  # since the last batch: within it, more messages are to be expected
COALESCE_SECONDS = 0.002  # how long to wait for them
EXIT_FAILED = 1
EXIT_WRONG_CONFIG = 2  # as for wrong arguments: starting again will not help
EXIT_DEFECT = 70  # what sysexits.h calls an internal error; a service manager starts again


@dataclass(frozen=True, slots=True)
class ServiceContext:
    """What a service provides to its role."""

    signals: Signals
    notifier: Notifier
    health: Health
    metrics: ServiceMetrics

    def keep_alive(self, now: float) -> None:
        """Signal `/healthz` and systemd that the loop is alive, and log suppressed counts."""
        self.health.beat = now
        self.notifier.watchdog(now)
        settle(everything=False)


MakeRole = Callable[[Config, ServiceContext], Role]


class Service:
    """Loop that reads messages, passes them to its role, and does everything else until stopped.

    Nothing runs beside the loop except HTTP answers and threads of the role. Unread messages wait
    at the broker. `make_role` builds the role and may lock the state folder; `reread` loads the
    configuration again and may raise `ConfigError`.
    """

    def __init__(
        self,
        config: Config,
        make_role: MakeRole,
        signals: Signals,
        reread: Callable[[], Config],
    ) -> None:
        self.config, self.signals, self.reread = config, signals, reread
        self.notifier = Notifier()
        self.health = Health(config.health)
        self.metrics = ServiceMetrics(self.health, config.health.max_devices)
        self.context = ServiceContext(signals, self.notifier, self.health, self.metrics)
        self.role = make_role(config, self.context)
        self.server: HealthServer | None = None
        self._next_housekeeping = 0.0
        self._last_batch = 0.0  # when it was done
        try:
            self.server = self._listen(config)
        except BaseException:
            self.role.close()
            raise

    # --- from start to end -----------------------------------------------------------------------

    def run(self) -> int:
        """Run until asked to stop; return the exit status, 0 if nothing was lost."""
        try:
            self._start()
            while not self.signals.leave:
                if messages := self._read():
                    self.role.handle(messages)
                    self._last_batch = time.monotonic()
                self._tend(time.monotonic())
            return self._stop()
        finally:
            self.close()

    def _start(self) -> None:
        self.session = BrokerSession(self.config, self.role, self.health, self.metrics)
        self.metrics.watch_link(self.session.totals)
        self.role.start(self.session)
        self.health.starting = False
        self.health.started = self.health.saved = (
            time.monotonic()
        )  # ignore activity before start-up
        gc.collect()
        gc.freeze()  # what is here now stays: no need to traverse it again and again
        self.notifier.ready()
        log.info("ready, connecting to %s", self.config.broker.url)

    def _stop(self) -> int:
        """Save the state and disconnect; everything that was read is acknowledged."""
        log.info("stopping")
        self.health.stopping = True
        self.notifier.stopping()
        kept = self.role.stop()
        self.session.leave()
        if not kept:
            return EXIT_FAILED
        log.info("left", extra={"readings": self.metrics.readings_count})
        return 0

    def close(self) -> None:
        """Stop listening and release the state folder."""
        if self.server is not None:
            self.server.close()
        self.role.close()

    # --- the loop --------------------------------------------------------------------------------

    def _read(self) -> list[Message]:
        """Read messages; if few arrive at a time but often, wait briefly for more.

        A batch of one costs nearly as much as a batch of ten.
        """
        messages = self.session.link.read(POLL_SECONDS)
        if 0 < len(messages) < SMALL_BATCH and time.monotonic() - self._last_batch < BUSY_SECONDS:
            time.sleep(COALESCE_SECONDS)
            messages = messages + self.session.link.read(0.0)
        return messages

    def _tend(self, now: float) -> None:
        if now < self._next_housekeeping:
            return
        self._next_housekeeping = now + HOUSEKEEPING_SECONDS
        self.context.keep_alive(now)
        if self.signals.reload:
            self.signals.reload = False
            self._reload()
        self.role.tend(now)
        self.session.tend(now)
        self.notifier.status(self.session.summary())

    # --- another configuration -------------------------------------------------------------------

    def _reload(self) -> None:
        """Apply the configuration file as it is now, or change nothing if it is refused."""
        self.notifier.reloading(time.monotonic_ns())
        try:
            self._change(self.reread())
        except (StreamLVQError, OSError, ValueError) as error:
            self.metrics.reloads.labels("refused").inc()
            log.error("kept the old configuration: %s", error)
        else:
            self.metrics.reloads.labels("done").inc()
        self.notifier.ready()

    def _change(self, new: Config) -> None:
        if names := self.role.restart_keys(self.config, new):
            raise ReloadError(f"{', '.join(names)} can only change with a restart")
        names = changed_keys(self.config, new)
        reload = self.role.prepare(new)
        try:
            reconnect = self.session.replacement(new) if reload.reconnect else None
            self._move_server(new)
        except BaseException:
            reload.cancel()
            raise
        self.config = new
        self.health.limits = new.health
        self.metrics.max_devices = new.health.max_devices
        set_up(new.logging)
        reload.commit()
        if reconnect is not None:
            reconnect()
        what = ", ".join([*names, *reload.notes]) or "nothing has changed"
        log.info("configuration read again: %s", what)

    def _move_server(self, new: Config) -> None:
        old = self.config.health
        if (old.host, old.port) == (new.health.host, new.health.port):
            return
        if old.port and old.port == new.health.port:  # the port is still in use by the old server
            self._replace_server(new)
            return
        server = self._listen(new)  # first, as it may fail
        if self.server is not None:
            self.server.close()
        self.server = server

    def _replace_server(self, new: Config) -> None:
        """Close, then open; listen at the old address again if that fails."""
        if self.server is not None:
            self.server.close()
            self.server = None
        try:
            self.server = self._listen(new)
        except PortError:
            self.server = self._listen(self.config)
            raise

    def _listen(self, config: Config) -> HealthServer | None:
        host, port = config.health.host, config.health.port
        if port is None:
            return None
        server = HealthServer(host, port, self.metrics.registry, self.health)
        log.info("listening on http://%s:%d", host, server.port)
        return server


def run_service(path: Path, make_role: MakeRole) -> int:
    """Run a service from its configuration file; return the exit status of the process."""
    try:
        config = load(path)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return EXIT_WRONG_CONFIG
    set_up(config.logging)
    with Signals() as signals:
        try:
            return Service(config, make_role, signals, lambda: load(path)).run()
        except (StreamLVQError, OSError) as error:  # files that are missing, above all
            log.error("%s", error)
            return EXIT_FAILED
        except Exception:
            log.critical("internal error, please report it", exc_info=True)
            return EXIT_DEFECT
        finally:
            settle()
