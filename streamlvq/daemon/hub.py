"""A hub: no readings, no model of its own; it fuses what the nodes know and tells each of them."""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Callable
from pathlib import Path

from streamlvq.config import Config
from streamlvq.daemon.connection import Connection
from streamlvq.daemon.fleet_author import FOLDER
from streamlvq.daemon.fleet_hub import FleetHub
from streamlvq.daemon.http import HealthServer
from streamlvq.daemon.instruments import Instruments
from streamlvq.daemon.logs import set_up, settle
from streamlvq.daemon.notify import Notifier
from streamlvq.daemon.reload import changes, touches
from streamlvq.daemon.signals import Signals
from streamlvq.daemon.state_store import FolderLock
from streamlvq.daemon.vitals import Vitals
from streamlvq.errors import StreamLVQError

log = logging.getLogger(__name__)

PATIENCE = 0.2  # seconds that the loop waits for messages before it looks after itself
EASY = ("logging", "health.silence_seconds", "health.snapshot_age_seconds", "health.max_devices")


class Hub:
    """Reads what nodes publish, keeps it, fuses it, and publishes a model for each; for ever.

    Nothing runs beside the loop but the fusing and the answers to HTTP. All that it knows is on
    disk before it is acknowledged or published, so it may be killed at any moment.

    Parameters
    ----------
    config
        What to do.
    signals
        What the system asks for.
    reread
        Gives the configuration that is in the file now; raises `ConfigError`.
    """

    devices = 0  # what the status has to say about these

    def __init__(self, config: Config, signals: Signals, reread: Callable[[], Config]) -> None:
        self.config, self.signals, self.reread = config, signals, reread
        self.notifier = Notifier()
        self.vitals = Vitals(config.health)
        self.instruments = Instruments(self.vitals, config.health.max_devices)
        folder = Path(config.state.folder)
        self._lock = FolderLock(folder)
        self.fleet = FleetHub(config, folder / FOLDER, self.instruments.registry)
        self.connection = Connection(config, folder, self.vitals, self.fleet.figures.record)
        self.instruments.watch_link(self.connection.totals)
        self.server = self._listen()

    def models(self) -> dict[str, object]:
        """None: those of the nodes are not its own."""
        return {}

    def announcements(self) -> tuple[()]:
        """Nothing but the status; what it made before is for the fleet to say again."""
        return ()

    def run(self) -> int:
        """Run until told to leave."""
        try:
            self._start()
            while not self.signals.leave:
                messages = self.connection.link.read(PATIENCE)
                if messages:
                    self.fleet.take(messages, self.connection.link)
                self._look(time.monotonic())
            return self._stop()
        finally:
            if self.server is not None:
                self.server.close()
            self._lock.release()

    def _start(self) -> None:
        self.vitals.starting = False
        self.vitals.started = time.monotonic()
        self.fleet.begin()
        gc.collect()
        gc.freeze()
        self.notifier.ready()
        log.info("ready, connecting to %s", self.config.broker.url)

    def _stop(self) -> int:
        log.info("leaving")
        self.vitals.stopping = True
        self.notifier.stopping()
        self.connection.leave(self.instruments, self)
        log.info("left")
        return 0

    def _look(self, now: float) -> None:
        vitals, link = self.vitals, self.connection.link
        vitals.beat = vitals.saved = vitals.reading = now  # it saves at once, and expects nothing
        self.notifier.feed(now)
        settle(everything=False)
        if self.signals.reload:
            self.signals.reload = False
            self._reload()
        self.fleet.tend(now, link)
        vitals.fleet = self.fleet.figures.complaint()
        if self.fleet.figures.news():
            self.connection.hurry()
        self.connection.tend(now, self, self.instruments, self)
        self.notifier.status(self.connection.summary(self.instruments))

    def _reload(self) -> None:
        """Read trusted keys and a few easy things again; the rest needs a restart."""
        self.notifier.reloading(time.monotonic_ns())
        try:
            self._change(self.reread())
        except (StreamLVQError, OSError, ValueError) as error:
            self.instruments.reloads.add(1, "refused")
            log.error("kept the old configuration: %s", error)
        else:
            self.instruments.reloads.add(1, "done")
        self.notifier.ready()

    def _change(self, new: Config) -> None:
        names = changes(self.config, new)
        if hard := [name for name in names if not touches(name, EASY)]:
            raise HubReloadError(f"{', '.join(hard)} can only change with a restart")
        keys, told = self.fleet.reread()
        reconnect = self.connection.replacement(new) if told else None
        self.fleet.roster.believe(keys)
        self.config, self.vitals.limits = new, new.health
        set_up(new.logging)
        if reconnect is not None:  # what was refused before is retained, and comes again
            reconnect()
            self.fleet.inbox.drop()
        log.info(
            "configuration read again: %s", ", ".join([*names, *told]) or "nothing has changed"
        )

    def _listen(self) -> HealthServer | None:
        health = self.config.health
        if health.port is None:
            return None
        server = HealthServer(health.host, health.port, self.instruments.registry, self.vitals)
        log.info("listening on http://%s:%d", health.host, server.port)
        return server


class HubReloadError(StreamLVQError, ValueError):
    """A configuration that cannot take the place of the one that is in use."""


__all__ = ["Hub", "HubReloadError"]
