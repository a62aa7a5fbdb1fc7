"""The link to the broker, and what is said on it about the daemon itself."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

import msgspec

from streamlvq.config import Config, FleetTopics
from streamlvq.config.fleet_topics import own_name
from streamlvq.connect import Link, Outgoing, Subscription, link_for
from streamlvq.daemon.fleet_figures import FleetRecord
from streamlvq.daemon.instruments import Instruments, link_totals
from streamlvq.daemon.status import State, Status
from streamlvq.daemon.vitals import Vitals
from streamlvq.monitor.files import FILE_MODE
from streamlvq.snapshot import write_atomically
from streamlvq.topics import Template

log = logging.getLogger(__name__)

STATUS_SECONDS = 30.0
FILTERS = "subscriptions.json"  # in the state folder: what the session at the broker may still have


class Greeter(Protocol):
    """Who has something to say after every connect."""

    def announcements(self) -> Iterable[Outgoing]: ...


class Learner(Protocol):
    """Who can say how many devices and models there are."""

    @property
    def devices(self) -> int: ...

    def models(self) -> Mapping[str, Any]: ...


class Connection:
    """Owns the link: makes it, replaces it, greets after every connect, says goodbye.

    Parameters
    ----------
    config
        Where, as whom, and what to listen to.
    folder
        Where to remember the subscriptions of the session.
    vitals
        Hears whether the broker answers.
    fleet
        Says how the fleet is, for the status.
    """

    def __init__(
        self,
        config: Config,
        folder: Path,
        vitals: Vitals,
        fleet: Callable[[], FleetRecord] | None = None,
    ) -> None:
        self.folder, self.vitals, self.fleet = folder, vitals, fleet
        self._before: dict[str, int] = {}  # counted by links that were replaced
        self._connects = 0  # greetings made on this link
        self._resumed = 0  # of these, how often the broker still had our session
        # Whether there ever was a session: who has received something had one.
        self._known = any(folder.glob("snapshot-*")) or any(folder.glob("journal-*"))
        self._next_status = 0.0
        self._use(config, Status(config))

    def _use(self, config: Config, status: Status, link: Link | None = None) -> None:
        self.config, self.status = config, status
        self.link = make_link(config, status) if link is None else link
        self.link.previous_filters = self._remember(
            [each.filter for each in self.link.subscriptions]
        )

    def replacement(self, config: Config) -> Callable[[], None]:
        """Prepare another link, which may raise; what comes back makes the change.

        The session stays at the broker, and with it what was not acknowledged.
        """
        status = Status(config)
        status.since = self.status.since
        link = make_link(config, status)

        def change() -> None:
            self._before = self.totals()
            self.link.close()
            self._connects = self._resumed = 0
            self._use(config, status, link)

        return change

    def hurry(self) -> None:
        """Say how we are at the next look: something has changed."""
        self._next_status = 0.0

    def totals(self) -> dict[str, int]:
        """What all links have counted."""
        return link_totals(self.link, self._before)

    def tend(
        self, now: float, publisher: Greeter, instruments: Instruments, monitor: Learner
    ) -> None:
        """Look how the link is, and say how we are if it is time to."""
        link = self.link
        self.vitals.connected, self.vitals.trouble = link.connected, link.error
        connects = link.counters["connects"]
        if link.connected and (connects != self._connects or now >= self._next_status):
            if connects != self._connects:
                link.publish(publisher.announcements())
                self._look_at_session(connects)
            self._next_status = now + STATUS_SECONDS
            self._say("online", instruments, monitor)

    def _look_at_session(self, connects: int) -> None:
        """Warn if the broker has forgotten us, and with us what it had not delivered yet."""
        resumed = self.link.counters.get("resumed")  # not every link can tell
        if resumed is not None:
            kept = resumed - self._resumed == connects - self._connects
            if self._known and not kept and lasting(self.config):
                log.warning(
                    "the broker did not keep our session: readings that came while we were away "
                    "may be lost (see Mosquitto's persistence in configs/README.md, and "
                    "broker.session_expiry_seconds)"
                )
            self._resumed = resumed
        self._connects, self._known = connects, True

    def leave(self, instruments: Instruments, monitor: Learner) -> None:
        """Say that we are offline, and close the link."""
        message = self._status("offline", instruments, monitor)
        self.link.close([message] if message is not None else [])

    def summary(self, instruments: Instruments) -> str:
        """One line for people."""
        if not self.vitals.connected:
            return f"not connected: {self.vitals.trouble or 'waiting for the broker'}"
        return f"connected to {self.config.broker.url}"

    def _say(self, state: State, instruments: Instruments, monitor: Learner) -> None:
        message = self._status(state, instruments, monitor)
        if message is not None:
            self.link.publish([message])

    def _status(self, state: State, instruments: Instruments, monitor: Learner) -> Outgoing | None:
        return self.status.message(
            state,
            devices=monitor.devices,
            models=len(monitor.models()),
            readings=int(instruments.readings.value()),
            learnt=int(instruments.learnt.value()),
            snapshot_age=time.monotonic() - self.vitals.saved,
            complaints=self.vitals.complaints(),
            fleet=None if self.fleet is None else self.fleet(),
        )

    def _remember(self, filters: list[str]) -> list[str]:
        """Note what is subscribed to; what was before and may be still at the broker."""
        path = self.folder / FILTERS
        try:
            former = msgspec.json.decode(path.read_bytes(), type=list[str])
        except FileNotFoundError:
            former = []
        except (OSError, msgspec.DecodeError) as error:
            log.warning("%s is of no use: %s", path, error)
            former = []
        try:
            write_atomically(path, msgspec.json.encode(sorted({*former, *filters})), FILE_MODE)
        except OSError as error:
            log.warning("%s cannot be written: %s", path, error)
        return former


def lasting(config: Config) -> bool:
    """Whether the broker is asked to keep for us what it cannot deliver.

    Examples
    --------
    >>> from streamlvq.config import Broker
    >>> lasting(Config()), lasting(Config(broker=Broker(session_expiry_seconds=0)))
    (True, False)

    """
    qos = max(each.qos for each in subscriptions(config))
    return config.broker.session_expiry_seconds > 0 and qos > 0


def make_link(config: Config, status: Status | None) -> Link:
    """A link to the broker, subscribed to readings and labels; with a will if there is a status."""
    will = None if status is None else status.will()
    birth = None if status is None else status.message("online")
    broker = config.broker
    if config.fleet is not None:  # which has a limit of its own
        largest = max(broker.max_payload_bytes, config.fleet.max_snapshot_bytes)
        broker = msgspec.structs.replace(broker, max_payload_bytes=largest)
    return link_for(broker.url)(broker, subscriptions(config), will, birth)


def subscriptions(config: Config) -> list[Subscription]:
    """What to listen to.

    Examples
    --------
    >>> subscriptions(Config())
    [Subscription(filter='sensors/+/readings', qos=1, always_retained=False)]

    """
    fleet = [Subscription(filter, 1, always_retained=True) for filter in fleet_filters(config)]
    if config.fleet is not None and config.fleet.role == "hub":
        return fleet
    wanted = {Template(config.readings.topic).filter: int(config.readings.qos)}
    if config.labels is not None:
        filter = Template(config.labels.topic).filter
        wanted[filter] = max(wanted.get(filter, 0), int(config.labels.qos))
    return [*(Subscription(filter, qos) for filter, qos in wanted.items()), *fleet]


def fleet_filters(config: Config) -> list[str]:
    """What to listen to of a fleet.

    A peer needs what all nodes know. A member needs what the hub makes for it, and looks after its
    own topic; a hub needs all, and looks after those that it writes to.
    """
    if config.fleet is None:
        return []
    topics = FleetTopics(config.fleet)
    if config.fleet.role == "peer":
        return [topics.snapshots]
    if config.fleet.role == "hub":
        return [topics.snapshots, topics.models]
    return [topics.model(own_name(config)), topics.snapshot(own_name(config))]


__all__ = ["Connection", "make_link", "subscriptions"]
