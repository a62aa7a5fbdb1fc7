"""In-process broker for tests and demos: sessions, redelivery and wills without a network."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar
from urllib.parse import urlsplit

from streamlvq.config import Broker
from streamlvq.connect import Link, Message, Outgoing, Subscription

POLL_PAUSE_SECONDS = 0.001  # while `read` waits


def matches(filter: str, topic: str) -> bool:
    """Return True if a topic filter matches a topic.

    Examples
    --------
    >>> matches("plant/+/readings", "plant/press/readings"), matches("plant/#", "plant")
    (True, True)
    >>> matches("plant/+", "plant/press/readings"), matches("#", "$SYS/uptime")
    (False, False)
    """
    if topic.startswith("$") and filter[:1] in ("+", "#"):
        return False
    wanted, found = filter.split("/"), topic.split("/")
    for at, level in enumerate(wanted):
        if level == "#":
            return True
        if at >= len(found) or level not in ("+", found[at]):
            return False
    return len(wanted) == len(found)


@dataclass
class MemorySession:
    """State that the broker keeps for one client id."""

    subscriptions: dict[str, int] = field(default_factory=dict)
    waiting: deque[tuple[int, Outgoing]] = field(default_factory=deque)
    unacknowledged: dict[int, Outgoing] = field(default_factory=dict)
    redeliver: set[int] = field(default_factory=set)
    link: MemoryLink | None = None


class MemoryBroker:
    """The broker of all links with the same name.

    `published` records what links sent, in order; `online = False` simulates a network
    failure: links lose their connections and cannot connect again until it is True.
    """

    def __init__(self) -> None:
        self.sessions: dict[str, MemorySession] = {}
        self.retained: dict[str, Outgoing] = {}
        self.published: list[Outgoing] = []
        self.log: list[tuple[str, str]] = []  # ("publish", topic) and ("acknowledge", topic)
        self._online = True
        self._next = 0

    @property
    def online(self) -> bool:
        return self._online

    @online.setter
    def online(self, value: bool) -> None:
        self._online = value
        if not value:
            for session in list(self.sessions.values()):
                if session.link is not None:
                    session.link.vanish("the broker went offline")

    def publish(self, topic: str, payload: bytes, qos: int = 1, retain: bool = False) -> None:
        """Deliver a message to all sessions that subscribe to its topic."""
        message = Outgoing(topic, payload, qos, retain)
        if retain:
            self.retained[topic] = message
        for session in self.sessions.values():
            granted = [q for f, q in session.subscriptions.items() if matches(f, topic)]
            if granted:
                self._queue(session, message._replace(qos=min(qos, max(granted)), retain=False))

    def _queue(self, session: MemorySession, message: Outgoing) -> None:
        if message.qos or session.link is not None:  # QoS 0 is not kept for absent clients
            self._next += 1
            session.waiting.append((self._next, message))

    def subscribe(self, session: MemorySession, subscription: Subscription) -> None:
        """Subscribe as in MQTT 5; retained messages follow if it is new or `always_retained`."""
        new = subscription.always_retained or subscription.filter not in session.subscriptions
        session.subscriptions[subscription.filter] = subscription.qos
        for topic, message in self.retained.items() if new else ():
            if matches(subscription.filter, topic):
                qos = min(message.qos, subscription.qos)
                self._queue(session, message._replace(qos=qos))


class MemoryLink(Link):
    """A link to a `MemoryBroker`; the URL `memory://name` says to which.

    Examples
    --------
    >>> link = MemoryLink(Broker(url="memory://example"), [Subscription("plant/#", 1)])
    >>> link.read(0.0)
    []
    >>> MemoryLink.broker_named("example").publish("plant/press", b"42")
    >>> [message] = link.read(0.0)
    >>> message.payload, message.redelivered
    (b'42', False)
    >>> link.vanish()
    >>> [message] = link.read(0.0)
    >>> message.redelivered
    True
    """

    _brokers: ClassVar[dict[str, MemoryBroker]] = {}

    def __init__(
        self,
        broker: Broker,
        subscriptions: Sequence[Subscription] = (),
        will: Outgoing | None = None,
        birth: Outgoing | None = None,
    ) -> None:
        super().__init__(broker, subscriptions, will, birth)
        self._far = self.broker_named(urlsplit(broker.url).netloc)
        self._session: MemorySession | None = None
        self._trouble: str | None = "not connected yet"
        self._closed = False
        self._kept: list[Outgoing] = []  # of QoS 1, until connected
        self._counters = dict.fromkeys(
            ("connects", "connect_failures", "received", "redelivered", "published", "dropped"), 0
        )

    @classmethod
    def broker_named(cls, name: str) -> MemoryBroker:
        """Return the broker behind `memory://name`; it is created on first use."""
        return cls._brokers.setdefault(name, MemoryBroker())

    @classmethod
    def forget(cls, name: str) -> None:
        """Remove a broker with all its sessions."""
        cls._brokers.pop(name, None)

    @property
    def connected(self) -> bool:
        return self._session is not None

    @property
    def counters(self) -> dict[str, int]:
        return dict(self._counters)

    @property
    def error(self) -> str | None:
        return self._trouble

    def read(self, timeout: float) -> list[Message]:
        if self._closed:
            raise RuntimeError("this link was closed: make a new one")
        deadline = time.monotonic() + timeout
        while True:
            if self._session is None:
                self._connect()
            batch = self._take(self._session) if self._session is not None else []
            if batch or time.monotonic() >= deadline:
                return batch
            time.sleep(POLL_PAUSE_SECONDS)

    def publish(self, messages: Iterable[Outgoing]) -> None:
        for message in messages:
            if self._session is not None:
                self._send(message)
            elif message.qos and len(self._kept) < self.broker.outgoing_limit:
                self._kept.append(message)
            else:
                self._counters["dropped"] += 1

    def acknowledge(self, messages: Sequence[Message]) -> None:
        if self._session is None:
            return
        for message in messages:
            connection, number = message.key or (0, 0)
            if connection == self._counters["connects"]:
                self._session.unacknowledged.pop(number, None)
                self._far.log.append(("acknowledge", message.topic))

    def close(self, farewell: Sequence[Outgoing] = ()) -> None:
        if not self._closed:
            self.publish(farewell)
            self._counters["dropped"] += len(self._kept)
            self._kept.clear()
            self._leave("closed")
            self._closed = True

    def vanish(self, why: str = "the connection was lost") -> None:
        """Lose the connection as if the process died: the broker publishes the will."""
        if self._session is not None:
            self._leave(why)
            if self.will is not None:
                self._far.publish(*self.will)

    def _connect(self) -> None:
        if not self._far.online:
            self._counters["connect_failures"] += 1
            return
        session = self._far.sessions.setdefault(self.broker.client_id, MemorySession())
        if session.link is not None:
            session.link.vanish("another client with this id has taken over the session")
        session.link, self._session, self._trouble = self, session, None
        self._counters["connects"] += 1
        for filter in set(self.previous_filters) - {s.filter for s in self.subscriptions}:
            session.subscriptions.pop(filter, None)
        for subscription in self.subscriptions:
            self._far.subscribe(session, subscription)
        kept, self._kept = self._kept, []
        self.publish([self.birth, *kept] if self.birth is not None else kept)

    def _leave(self, why: str) -> None:
        self._trouble = why
        session, self._session = self._session, None
        if session is not None:
            session.link = None
            again = list(session.unacknowledged.items())
            later = [(number, message) for number, message in session.waiting if message.qos]
            session.redeliver.update(session.unacknowledged)
            session.unacknowledged.clear()
            session.waiting = deque(again + later)

    def _take(self, session: MemorySession) -> list[Message]:
        room = self.broker.receive_maximum - len(session.unacknowledged)
        batch = []
        while session.waiting and room > 0:
            number, message = session.waiting.popleft()
            again = number in session.redeliver or message.retain
            key = None
            if message.qos:
                session.unacknowledged[number] = message
                key = (self._counters["connects"], number)
                room -= 1
            batch.append(Message(message.topic, message.payload, time.time(), again, key))
        self._counters["received"] += len(batch)
        self._counters["redelivered"] += sum([m.redelivered for m in batch])
        return batch

    def _send(self, message: Outgoing) -> None:
        self._counters["published"] += 1
        self._far.published.append(message)
        self._far.log.append(("publish", message.topic))
        self._far.publish(*message)
