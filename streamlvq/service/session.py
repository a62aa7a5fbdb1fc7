"""Broker session: the link, its subscriptions, and the service's own status messages."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

import streamlvq
from streamlvq.config import Config
from streamlvq.config.topics import own_name
from streamlvq.connect import Link, Outgoing, Subscription, link_for
from streamlvq.fleet.metrics import FleetRecord
from streamlvq.role import Health, Role, RoleStatus
from streamlvq.service.metrics import ServiceMetrics, link_totals
from streamlvq.snapshot import write_atomically
from streamlvq.snapshot.files import FILE_MODE
from streamlvq.topics import Template

log = logging.getLogger(__name__)

STATUS_SECONDS = 30.0  # between two status messages without news
FILTERS_FILE = "subscriptions.json"  # in the state folder: what the broker may still have for us
ServiceState = Literal["online", "offline"]


# --- the status message --------------------------------------------------------------------------


class StatusRecord(msgspec.Struct, kw_only=True):
    """Message on the status topic."""

    state: ServiceState
    since: float  # when the service started, in seconds since 1970
    version: str
    # With privacy, nothing that counts readings.
    devices: int | msgspec.UnsetType = 0
    models: int | msgspec.UnsetType = 0
    readings: int | msgspec.UnsetType = 0  # since the start
    learnt: int | msgspec.UnsetType = 0  # since the start
    snapshot_age: float | None = None  # seconds since the last one, or since the start
    complaints: list[str] = []  # as `/healthz` has them
    fleet: msgspec.Struct | msgspec.UnsetType = msgspec.UNSET  # `FleetRecord`, if in a fleet


class StatusWriter:
    """Writer of the retained messages on the status topic.

    Examples
    --------
    >>> status = StatusWriter(Config())
    >>> status.topic
    'streamlvq/streamlvq/status'
    >>> msgspec.json.decode(status.will().payload)["state"]
    'offline'

    """

    def __init__(self, config: Config) -> None:
        self.topic = own_topic(config.status.topic, config)
        self.since = time.time()
        self._is_private = config.privacy is not None
        self._fleet = None  # who we are in a fleet, which a will must say as well
        if config.fleet is not None:
            name, role = config.fleet.name, config.fleet.role
            self._fleet = FleetRecord(name=name, node=own_name(config), role=role)

    def will(self) -> Outgoing | None:
        """Return what the broker publishes if the service vanishes."""
        return self.message("offline")

    def message(
        self,
        state: ServiceState,
        status: RoleStatus | None = None,
        *,
        readings: int = 0,
        learnt: int = 0,
        snapshot_age: float | None = None,
        problems: Sequence[str] = (),
    ) -> Outgoing | None:
        """Return the status message; None if the configuration names no topic."""
        if self.topic is None:
            return None
        status = RoleStatus() if status is None else status
        fleet = self._fleet if status.fleet is None else status.fleet
        record = StatusRecord(
            state=state,
            since=self.since,
            version=streamlvq.__version__,
            **self._counts(devices=status.devices, models=status.models),
            **self._counts(readings=readings, learnt=learnt),
            snapshot_age=None if snapshot_age is None else round(snapshot_age, 1),
            complaints=list(problems),
            fleet=msgspec.UNSET if fleet is None else fleet,
        )
        return Outgoing(self.topic, msgspec.json.encode(record), qos=1, retain=True)

    def _counts(self, **counts: int) -> dict[str, int | msgspec.UnsetType]:
        """Return counts that others may know."""
        return dict.fromkeys(counts, msgspec.UNSET) if self._is_private else {**counts}


def own_topic(template: str | None, config: Config) -> str | None:
    """Return a topic of the service itself; None if it is not configured."""
    if template is None:
        return None
    return Template(template, publish=True).fill({"client_id": config.broker.client_id})


# --- the session ---------------------------------------------------------------------------------


class Connect(NamedTuple):
    """One or more connects since the last check."""

    is_first: bool  # of this process
    kept: bool | None  # whether the broker still had our session; None: the link cannot tell


class SessionTracker:
    """Tracker of a link's connects, and of whether the broker kept our session.

    A broker that kept the session also kept its retained messages, and the link resends what was in
    flight. But what a previous process sent in its last moment may be lost, so the first connect is
    treated differently.
    """

    def __init__(self) -> None:
        self._connects = self._resumed = 0
        self._is_first = True

    def use_new_link(self) -> None:
        """Count from zero: the link was replaced, the session is the same."""
        self._connects = self._resumed = 0

    def observe(self, link: Link) -> Connect | None:
        """Return what happened since the last call; None if nothing did."""
        counters = link.counters
        connects, resumed = counters["connects"], counters.get("resumed")
        if not link.connected or connects == self._connects:
            return None
        kept = None
        if resumed is not None:
            kept = resumed - self._resumed == connects - self._connects
            self._resumed = resumed
        first, self._is_first, self._connects = self._is_first, False, connects
        return Connect(first, kept)


class BrokerSession:
    """Owner of the link: creates and replaces it, announces after every connect, disconnects."""

    def __init__(self, config: Config, role: Role, health: Health, metrics: ServiceMetrics) -> None:
        self.role, self.health, self.metrics = role, health, metrics
        self.folder = Path(config.state.folder)
        self._before: dict[str, int] = {}  # counted by links that were replaced
        self._tracker = SessionTracker()
        # Whether there ever was a session: whoever received something had one.
        self._had_session = any(
            next(self.folder.glob(pattern), None) for pattern in ("snapshot-*", "journal-*")
        )
        self._next_status = 0.0
        self._use(config, StatusWriter(config))

    def _use(self, config: Config, status: StatusWriter, link: Link | None = None) -> None:
        self.config, self._status_writer = config, status
        self.link = self._make_link(config, status) if link is None else link
        self.link.previous_filters = self._remember(
            [each.filter for each in self.link.subscriptions]
        )

    def _make_link(self, config: Config, status: StatusWriter) -> Link:
        return make_link(config, self.role.subscriptions(config), status)

    def replacement(self, config: Config) -> Callable[[], None]:
        """Prepare a new link, which may raise; the returned function switches to it.

        The session stays at the broker, and with it everything not yet acknowledged.
        """
        status = StatusWriter(config)
        status.since = self._status_writer.since
        link = self._make_link(config, status)

        def change() -> None:
            self._before = self.totals()
            self.link.close()
            self._tracker.use_new_link()
            self._use(config, status, link)

        return change

    def publish_status_soon(self) -> None:
        """Publish the status at the next opportunity, because something has changed."""
        self._next_status = 0.0

    def totals(self) -> dict[str, int]:
        """Return the counts of all links so far."""
        return link_totals(self.link, self._before)

    def tend(self, now: float) -> None:
        """Check the link; announce after a connect, and publish the status when due."""
        link = self.link
        self.health.connected, self.health.link_error = link.connected, link.error
        connect = self._tracker.observe(link)
        if connect is not None:
            link.publish(self.role.announcements(connect.is_first or not connect.kept))
            self._warn_if_lost(connect)
        if connect is not None or (link.connected and now >= self._next_status):
            self._next_status = now + STATUS_SECONDS
            if (message := self._status("online")) is not None:
                link.publish([message])

    def _warn_if_lost(self, connect: Connect) -> None:
        """Warn if the broker dropped our session, and with it undelivered messages."""
        if connect.kept is False and self._had_session and is_persistent(self.config, self.link):
            log.warning(
                "the broker did not keep our session: readings that came while we were away "
                "may be lost (see Mosquitto's persistence in configs/README.md, and "
                "broker.session_expiry_seconds)"
            )
        self._had_session = True

    def leave(self) -> None:
        """Publish that we are offline, and close the link."""
        message = self._status("offline")
        self.link.close([message] if message is not None else [])

    def summary(self) -> str:
        """Return one line for `systemctl status`."""
        if not self.health.connected:
            return f"not connected: {self.health.link_error or 'waiting for the broker'}"
        return f"connected to {self.config.broker.url}"

    def _status(self, state: ServiceState) -> Outgoing | None:
        return self._status_writer.message(
            state,
            self.role.status(),
            readings=self.metrics.readings_count,
            learnt=self.metrics.learnt_count,
            snapshot_age=time.monotonic() - self.health.saved,
            problems=self.health.problems(about_readings=self.config.privacy is None),
        )

    def _remember(self, filters: list[str]) -> list[str]:
        """Save the current subscriptions; return earlier ones that the broker may still hold."""
        path = self.folder / FILTERS_FILE
        try:
            previous = msgspec.json.decode(path.read_bytes(), type=list[str])
        except FileNotFoundError:
            previous = []
        except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
            log.warning(
                "expected %s to hold the topics of earlier subscriptions, got a file that cannot "
                "be read: %s. It is written anew; the broker may still deliver those topics",
                path,
                error,
            )
            previous = []
        try:
            write_atomically(path, msgspec.json.encode(sorted({*previous, *filters})), FILE_MODE)
        except OSError as error:
            log.warning("%s cannot be written: %s", path, error)
        return previous


def is_persistent(config: Config, link: Link) -> bool:
    """Return whether the broker is asked to keep undelivered messages for us."""
    qos = max(each.qos for each in link.subscriptions)
    return config.broker.session_expiry_seconds > 0 and qos > 0


def make_link(
    config: Config, subscriptions: Sequence[Subscription], status: StatusWriter | None = None
) -> Link:
    """Return a link to the broker, with will and birth message if there is a status topic."""
    will = None if status is None else status.will()
    birth = None if status is None else status.message("online")
    broker = config.broker
    if config.fleet is not None:  # which has a limit of its own
        largest = max(broker.max_payload_bytes, config.fleet.max_snapshot_bytes)
        broker = msgspec.structs.replace(broker, max_payload_bytes=largest)
    return link_for(broker.url)(broker, subscriptions, will, birth)
