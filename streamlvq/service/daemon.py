"""Monitoring role: decides on readings and learns from labels without losing any."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from streamlvq.arrays import Label
from streamlvq.config import Config
from streamlvq.connect import Message, Outgoing, Subscription
from streamlvq.errors import LedgerError
from streamlvq.events import ALL_DEVICES
from streamlvq.fleet.hub import HubRole
from streamlvq.fleet.inbox import fleet_subscriptions
from streamlvq.fleet.node import FleetNode
from streamlvq.monitor import Monitor
from streamlvq.monitor.files import load_start_model
from streamlvq.monitor.watch import SENSOR_PROBLEMS, sensor_warnings
from streamlvq.payloads import Decoder
from streamlvq.payloads.routing import DeviceTopics
from streamlvq.role import Reload, ReloadError, Role, RoleStatus, Session, changed_keys, is_among
from streamlvq.service.journal import JournalError, Received, Serve
from streamlvq.service.processor import MessageProcessor
from streamlvq.service.publisher import Publisher
from streamlvq.service.service import HOUSEKEEPING_SECONDS, ServiceContext
from streamlvq.service.state_store import FolderLock, StateStore
from streamlvq.service.systemd import StartupGuard

# What the state on disk, the session at the broker or the model itself was made for.
RESTART_KEYS = (
    "broker.client_id",
    "broker.protocol",
    "state.folder",
    "state.journal",
    "state.duplicates",
    "model",
    "admission",
    "privacy",
    "integrator",
    "rejector.type",
    "rejector.memory",
    "rejector.per_class",
    "labels.wait",
    "labels.sequence",
    "labels.time",
    "shard",
    "fleet",
)
CONNECTION_KEYS = ("broker", "readings.topic", "readings.qos", "labels", "status.topic")


def restart_keys(old: Config, new: Config) -> list[str]:
    """Return the changed keys that need a restart.

    Examples
    --------
    >>> from streamlvq.config import HealthSection, ModelSection
    >>> new = Config(model=ModelSection(type="GLVQ"), health=HealthSection(silence_seconds=9.0))
    >>> restart_keys(Config(), new)
    ['model.type']

    """
    names = [name for name in changed_keys(old, new) if is_among(name, RESTART_KEYS)]
    if (old.rejector is None) != (new.rejector is None):
        names.append("rejector")
    if (old.labels is None) != (new.labels is None):
        names.append("labels")
    return names


def needs_reconnect(old: Config, new: Config) -> bool:
    """Return whether the changes need a new link to the broker."""
    return any(is_among(name, CONNECTION_KEYS) for name in changed_keys(old, new))


log = logging.getLogger(__name__)

JUNK_NAMES = 20  # new features and classes on probation that make a warning
COUNT_SECONDS = 1.0  # between two counts of devices and models
JOURNAL_RETRY_MAX_SECONDS = 30.0  # between two attempts to write the journal


class MonitoringRole:
    """Role that makes messages durable, decides, learns, publishes, acknowledges; in this order."""

    def __init__(self, config: Config, context: ServiceContext) -> None:
        self.config, self.context = config, context
        self.health, self.metrics = context.health, context.metrics
        self.store = StateStore(config, self.health, self.metrics)
        self.publisher = Publisher(config, self.metrics)
        self.health.file = self.publisher.file_error
        self.fleet: FleetNode | None = None
        if config.fleet is not None:
            ledger = None if self.store.ledger is None else self.store.ledger.ledger
            self.fleet = FleetNode(config, self.store.folder, self.metrics.registry, ledger)
        self._next_count = 0.0

    def subscriptions(self, config: Config) -> list[Subscription]:
        """Return the subscriptions to readings, labels and the fleet."""
        return subscriptions(config)

    # --- from start to end -----------------------------------------------------------------------

    def start(self, session: Session) -> None:
        """Compile the kernels, restore the monitor, join the fleet."""
        log.info("making the kernels ready")
        self.session = session
        with StartupGuard(self.context.signals, self.context.notifier) as guard:
            restoring, self.health.phase = self.health.phase, "the kernels are being loaded"
            Monitor(self.config).compile()
            self.health.phase = restoring
            guard.compiling = False
            if self.store.ledger is not None:
                self.store.ledger.pause = self._wait_for_ledger
            self.processor = self.store.restore(self.config, self._still_starting)
        self._join_fleet()
        self._count()

    def _join_fleet(self) -> None:
        if self.fleet is not None:
            self.fleet.start(self.session, self)
        elif self.monitor.serving(ALL_DEVICES) is not None:
            log.info("no longer in a fleet: the local model decides")
            self.serve(None)

    def _still_starting(self, progress: str) -> None:
        log.info("reading the journal: %s", progress)
        self.context.notifier.status(f"reading the journal: {progress}")
        self.context.notifier.extend_timeout()

    def stop(self) -> bool:
        """Save the state; return False if neither snapshot nor journal has it.

        Within a batch there is nothing to save: the journal has all of it.
        """
        saved = self.store.save(self.monitor)
        if not saved and not self.store.journaled:
            log.error("stopped without a snapshot: everything learnt since the last one is lost")
            return False
        return True

    def close(self) -> None:
        """Close the files and release the state folder."""
        self.publisher.close()
        self.store.close()

    @property
    def monitor(self) -> Monitor:
        """Monitor that decides and learns."""
        return self.processor.monitor

    # --- messages --------------------------------------------------------------------------------

    def handle(self, messages: Sequence[Message]) -> None:
        """Apply messages, and acknowledge them only then."""
        begin = time.monotonic()
        if self.fleet is not None:
            messages = self.fleet.handle(messages)
            if not messages:
                return
        if not self._record(messages):
            return  # asked to stop before they were durable; the broker still has them
        try:
            result = self.processor.process(messages)
        except LedgerError as error:
            self.store.within_batch = True
            if not self.context.signals.leave:
                raise
            log.warning("left within a batch, which the journal has: %s", error)
            return  # not acknowledged; the journal and the broker have them
        self.health.unsaved = True
        if result.decisions:
            self.health.reading = begin
        self._publish(self.publisher.messages(result, messages))
        self.session.link.acknowledge(messages)
        self.metrics.batch.observe(len(messages))
        self.metrics.latency.observe(time.monotonic() - begin)

    def serve(self, model: bytes | None) -> bool:
        """Decide with this snapshot from now on, also after a crash; None for the local model.

        Return False if the model cannot decide here. Raise `JournalError`, an OSError, and change
        nothing, if the change cannot be made durable.
        """
        self.store.append(Serve(ALL_DEVICES, model))
        self.health.unsaved = True
        return self.processor.serve(ALL_DEVICES, model)

    def _publish(self, outgoing: Sequence[Outgoing]) -> None:
        """Publish messages; an error of the link is logged, since they have taken effect."""
        try:
            self.session.link.publish(outgoing)
        except Exception as error:
            self.metrics.publish_failures.inc()
            log.error(
                "internal error: the output of a batch is lost, please report it", exc_info=error
            )

    def _record(self, messages: Sequence[Message]) -> bool:
        """Make messages durable, retrying as needed; return False if asked to stop."""
        wait = HOUSEKEEPING_SECONDS
        while True:
            try:
                self.store.append(Received(messages))
            except JournalError as error:
                self.metrics.journal_failures.inc()
                self.health.journal = str(error)
                log.error("%s; nothing is acknowledged until it works", error)
            else:
                if self.health.journal is not None:
                    log.info("the journal works again")
                self.health.journal = None
                return True
            if not self._pause(wait):
                return False
            wait = min(2 * wait, JOURNAL_RETRY_MAX_SECONDS)

    def _pause(self, seconds: float) -> bool:
        """Wait without reading; return False if asked to stop. A snapshot may free disk space."""
        end = time.monotonic() + seconds
        while (now := time.monotonic()) < end:
            if self.context.signals.leave:
                return False
            self.context.keep_alive(now)
            self.store.tend(self.monitor, now)
            time.sleep(min(HOUSEKEEPING_SECONDS, end - now))
        return True

    def _wait_for_ledger(self, seconds: float) -> bool:
        """Wait within a step, so without a snapshot; return False if asked to stop."""
        assert self.store.ledger is not None
        self.health.ledger = self.store.ledger.problem
        if self.health.starting:
            self._still_starting(f"waiting, as {self.store.ledger.problem}")
        end = time.monotonic() + seconds
        while (now := time.monotonic()) < end:
            if self.context.signals.leave:
                return False
            self.context.keep_alive(now)
            time.sleep(min(HOUSEKEEPING_SECONDS, end - now))
        return True

    def announcements(self, session_lost: bool) -> Iterator[Outgoing]:
        """Yield the devices for Home Assistant, and our envelopes for the fleet."""
        yield from self.publisher.announcements()
        if self.fleet is not None:
            yield from self.fleet.announcements(session_lost)

    # --- housekeeping ----------------------------------------------------------------------------

    def tend(self, now: float) -> None:
        """Write snapshots, follow the fleet, update counts."""
        self.store.tend(self.monitor, now)
        if self.store.ledger is not None:
            self.health.ledger = self.store.ledger.problem
        if now >= self._next_count:
            self._count()
        self.publisher.tend(now)
        self.health.file = self.publisher.file_error
        if self.fleet is not None:
            self.fleet.tend(now)
            self.health.fleet = self.fleet.metrics.problem()

    def _count(self) -> None:
        """Update counts here: another thread must not iterate over what the loop changes."""
        self.health.devices = self.monitor.devices
        self.health.models = len(self.monitor.models())
        self._warn()
        self._next_count = time.monotonic() + COUNT_SECONDS

    def _warn(self) -> None:
        """Update the warnings of `/healthz`; log those that are new."""
        features, classes = self.monitor.newcomers()
        self.health.new_features, self.health.new_classes = len(features), len(classes)
        watch = self.processor.watch
        problems = watch.problems()
        self.health.sensors = {
            kind: sum(each.kind == kind for each in problems) for kind in SENSOR_PROBLEMS
        }
        self.health.contradicted = len(watch.agreement.contradicted())
        self.health.agreement = watch.agreement.lowest
        warnings = junk_warnings(features, classes)
        warnings += [*watch.agreement.warnings(), *sensor_warnings(problems)]
        for text in warnings:
            kind = text.partition(":")[0]
            if not any(before.startswith(f"{kind}:") for before in self.health.warnings):
                log.warning("%s", text, extra={"alike": kind})
        self.health.warnings = tuple(warnings)

    def status(self) -> RoleStatus:
        """Return the numbers of devices and models, and the state of the fleet."""
        fleet = None if self.fleet is None else self.fleet.metrics.record()
        return RoleStatus(self.monitor.devices, len(self.monitor.models()), fleet)

    # --- another configuration -------------------------------------------------------------------

    def restart_keys(self, old: Config, new: Config) -> list[str]:
        """Return the changed keys that cannot change while running."""
        return restart_keys(old, new)

    def prepare(self, new: Config) -> Reload:
        """Build everything that a new configuration needs, without using it yet."""
        old = self.config
        # The journal must never hold messages that were read under another configuration.
        if changed_keys(old, new) and not self.store.save(self.monitor):
            raise ReloadError("the state could not be saved before the change")
        decoder, publisher = Decoder(new), Publisher(new, self.metrics)
        monitor = self.monitor
        if old.rejector != new.rejector or old.labels != new.labels:
            start = load_start_model(new)
            monitor = Monitor.restore(new, monitor.checkpoint(), start, self.store.ledger)
            monitor.compile()
        fleet = None if self.fleet is None else self.fleet.prepare_keys()
        self.store.record_decoding(new)

        def commit() -> None:
            before = self.processor
            before.watch.change(new.health)
            self.processor = MessageProcessor(decoder, monitor, before.feature_check, before.watch)
            self.publisher.close()
            self.publisher, self.config = publisher, new
            self.store.change(new)
            if fleet is not None and self.fleet is not None:
                self.fleet.config = new
                fleet.commit(reconnects)

        notes = () if fleet is None else fleet.notes
        reconnects = bool(notes) or needs_reconnect(old, new)
        return Reload(commit, lambda: self.store.record_decoding(old), reconnects, notes)


def junk_warnings(features: Sequence[Label], classes: Sequence[Label]) -> list[str]:
    """Return a warning if many names came lately that are too rare to be learnt.

    Examples
    --------
    >>> junk_warnings([f"f{k}" for k in range(30)], ["a"])
    ['probation: 30 features and 1 classes came too rarely to be learnt, such as f0']
    >>> junk_warnings(["temperature"], ["a"])
    []

    """
    if len(features) + len(classes) < JUNK_NAMES:
        return []
    example = str([*features, *classes][0])[:80]
    return [
        f"probation: {len(features)} features and {len(classes)} classes came too rarely to be "
        f"learnt, such as {example}"
    ]


def subscriptions(config: Config) -> list[Subscription]:
    """Return what a monitoring service subscribes to.

    Examples
    --------
    >>> subscriptions(Config())
    [Subscription(filter='sensors/+/readings', qos=1, always_retained=False)]

    """
    wanted = DeviceTopics(config).filters
    readings = [Subscription(filter, qos) for filter, qos in wanted.items()]
    return [*readings, *fleet_subscriptions(config)]


def make_role(config: Config, context: ServiceContext) -> Role:
    """Return the role that a configuration asks for: hub of a fleet, or monitoring."""
    if config.fleet is None or config.fleet.role != "hub":
        return MonitoringRole(config, context)
    lock = FolderLock(Path(config.state.folder))
    return HubRole(config, context.health, context.metrics.registry, lock.release)
