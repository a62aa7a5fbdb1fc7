"""The link to an MQTT broker: session, outbox, reconnects."""

from __future__ import annotations

import logging
import random
import select
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from paho.mqtt.client import Client, ConnectFlags, DisconnectFlags
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from streamlvq.config import Broker, Tls, broker_address, broker_password
from streamlvq.connect import Link, Message, Outgoing, Subscription
from streamlvq_connectors.mqtt import errors
from streamlvq_connectors.mqtt.fast_client import PACKET_MAX_BYTES, FastClient, unsupported_reason
from streamlvq_connectors.mqtt.paho_client import (
    DECODE_ERRORS,
    TOPIC_MAX_BYTES,
    PahoClient,
    max_packet_bytes,
)

log = logging.getLogger("streamlvq.mqtt")

KEEPALIVE_CHECK_SECONDS = 1.0  # paho has to look after its keep-alive this often
STABLE_SECONDS = 5.0  # after which a connection has proved itself
MAX_SHORT_CONNECTIONS = 3  # in a row: somebody throws us out
HEADER_MAX_BYTES = 16  # of a packet, without topic and payload
MAX_TOPIC_WARNINGS = 100  # topics in the log that cannot be published to
FLUSH_SECONDS = 5.0  # that `close` gives the broker to take what is owed
FIRST_DELAY_SECONDS = 0.5  # before the second attempt to connect
IN_FLIGHT_MAX = 100  # messages of QoS 1 on their way; the broker may want fewer


# --- the client


def tls_context(broker: Broker) -> ssl.SSLContext | None:
    """Return the TLS settings, None without TLS; raise OSError if a file cannot be read."""
    if broker.tls is None and broker_address(broker).scheme != "mqtts":
        return None
    tls = broker.tls or Tls()
    for path in (tls.ca_file, tls.cert_file, tls.key_file):
        if path is not None:
            Path(path).open("rb").close()  # this error names the file, those of ssl do not
    context = ssl.create_default_context(cafile=tls.ca_file)
    if not tls.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if tls.cert_file is not None:
        context.load_cert_chain(tls.cert_file, tls.key_file)
    return context


def connect_properties(broker: Broker) -> Properties | None:
    """Return the CONNECT properties of MQTT 5; None for 3.1.1."""
    if broker.protocol != "5":
        return None
    properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
    properties.SessionExpiryInterval = broker.session_expiry_seconds
    properties.ReceiveMaximum = broker.receive_maximum
    properties.MaximumPacketSize = max_packet_bytes(broker)
    return properties


def choose_client(broker: Broker) -> PahoClient:
    """Return a `FastClient` if the configuration and the version of paho allow it."""
    client = PahoClient(broker)
    if not broker.fast_receive:
        return client
    why_not = unsupported_reason(client)
    if why_not is None:
        return FastClient(broker)
    log.warning("receiving the slow way: %s", why_not)
    return client


def make_client(broker: Broker, will: Outgoing | None) -> PahoClient:
    """Return a client with address, credentials, TLS and will set."""
    client = choose_client(broker)
    client.connect_timeout = broker.connect_timeout_seconds
    password = broker_password(broker)
    if broker.username is not None or password is not None:
        client.username_pw_set(broker.username or "", password)
    context = tls_context(broker)
    if context is not None:
        client.tls_set_context(context)
    if will is not None:
        client.will_set(will.topic, will.payload, will.qos, will.retain)
    address = broker_address(broker)
    if broker.protocol == "5":
        client.connect_async(
            address.host,
            address.port,
            broker.keepalive_seconds,
            clean_start=False,
            properties=connect_properties(broker),
        )
    else:
        client.connect_async(address.host, address.port, broker.keepalive_seconds)
    return client


# --- parts of the link


class Backoff:
    """Reconnect delays that double up to a limit in seconds, with jitter.

    The jitter keeps clients from all returning at once after a broker restart. Runs on the
    monotonic clock.

    Examples
    --------
    >>> backoff = Backoff(limit=60.0)
    >>> backoff.remaining()
    0.0
    >>> backoff.fail()
    >>> 0.1 < backoff.remaining() <= 0.5
    True
    >>> backoff.fail(full=True)
    >>> 50 < backoff.remaining() <= 60
    True
    """

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self._delay = FIRST_DELAY_SECONDS
        self._until = 0.0

    def remaining(self) -> float:
        """Seconds until the next attempt is due."""
        return max(0.0, self._until - time.monotonic())

    def fail(self, full: bool = False) -> None:
        """Record a failed attempt or a lost connection; `full`: use the longest delay."""
        delay = self.limit if full else min(self._delay, self.limit) * random.uniform(0.5, 1.0)
        self._until = time.monotonic() + delay
        self._delay = min(self._delay * 2, self.limit)

    def succeed(self) -> None:
        """Record a stable connection: start with a short delay next time."""
        self._delay = FIRST_DELAY_SECONDS


class Outbox:
    """Queue of messages and acknowledgements to send.

    One queue for both, because an acknowledgement must not overtake what was published before it.
    `limit` bounds the messages kept, and those of QoS 0 that wait for a slow network.
    """

    def __init__(self, client: PahoClient, limit: int) -> None:
        self.client = client
        self.limit = limit
        self.window = IN_FLIGHT_MAX
        self.published = 0
        self.dropped = 0
        self._queue: deque[Outgoing | list[int]] = deque()
        self._waiting = 0  # messages in the queue

    def __len__(self) -> int:
        """Return how many messages of QoS 1 the broker has not confirmed yet."""
        return self._waiting + len(self.client.in_flight)

    def send(self, messages: Sequence[Outgoing], connected: bool) -> None:
        """Send at QoS 0 as many as there is room for, and drop the rest."""
        room = max(0, self.limit - self.client.unwritten()) if connected else 0
        taken = messages if len(messages) <= room else messages[:room]
        if taken:
            self.client.send(taken)
        self.published += len(taken)
        self.dropped += len(messages) - len(taken)

    def keep(self, message: Outgoing) -> None:
        """Send at QoS 1 when there is room in the window; drop it if too many wait already."""
        if len(self) >= self.limit:
            self.dropped += 1
        else:
            self._queue.append(message)
            self._waiting += 1

    def acknowledge(self, keys: Iterable[int]) -> None:
        """Acknowledge once everything queued before has been sent."""
        if self._queue:
            self._queue.append(list(keys))
        else:
            self.client.confirm(keys)

    def drain(self) -> None:
        """Send what the window has room for; call it only when connected."""
        while self._queue:
            first = self._queue[0]
            if isinstance(first, list):
                self.client.confirm(first)
            elif len(self.client.in_flight) >= self.window or not self.client.send_surely(first):
                return
            else:
                self._waiting -= 1
                self.published += 1
            self._queue.popleft()

    def lose(self, unwritten: int) -> None:
        """Drop what a lost connection makes void: acknowledgements and unwritten QoS 0."""
        self.published -= unwritten
        self.dropped += unwritten
        self._queue = deque(item for item in self._queue if not isinstance(item, list))

    def close(self) -> None:
        """Count what is still queued as dropped."""
        self.dropped += self._waiting
        self._queue.clear()
        self._waiting = 0


if hasattr(select, "poll"):

    def wait(sock: Any, writing: bool, seconds: float) -> tuple[bool, bool]:
        """Wait for the socket; return whether it is readable, and writable if `writing`.

        Poll, not select: it does not mind how many files the process has open.
        """
        poll = select.poll()
        poll.register(sock, select.POLLIN | (select.POLLOUT if writing else 0))
        events = poll.poll(seconds * 1000.0)
        happened = events[0][1] if events else 0
        return bool(happened & ~select.POLLOUT), bool(happened & select.POLLOUT)

else:  # Windows

    def wait(sock: Any, writing: bool, seconds: float) -> tuple[bool, bool]:
        """Wait for the socket; return whether it is readable, and writable if `writing`."""
        readable, writable, _ = select.select([sock], [sock] if writing else [], [], seconds)
        return bool(readable), bool(writable)


def buffered(sock: Any) -> bool:
    """Return True if TLS holds decrypted data, which polling the socket does not show."""
    pending = getattr(sock, "pending", None)
    return pending is not None and pending() > 0


@contextmanager
def lingering(sock: Any, deadline: float) -> Iterator[None]:
    """Disconnect inside; afterwards wait until the other side has read it and closed.

    A client that closes a socket and reconnects at once may overtake its own last packets:
    Mosquitto reads a packet of each client in turn, and throws away what is left of a session's old
    connection when a new one arrives.
    """
    if sock is None:
        yield
        return
    with socket.fromfd(sock.fileno(), socket.AF_INET, socket.SOCK_STREAM) as kept:
        yield
        try:
            kept.shutdown(socket.SHUT_WR)
            while time.monotonic() < deadline:
                kept.settimeout(max(0.01, deadline - time.monotonic()))
                if not kept.recv(65536):
                    return
        except OSError as error:
            log.debug("the other side hung up in its own way: %s", error)


@lru_cache(65_536)
def is_publishable(topic: str) -> bool:
    """Return True if a topic may be published to.

    Examples
    --------
    >>> is_publishable("plant/press 7/decision")
    True
    >>> [is_publishable(topic) for topic in ("", "plant/+", "plant/#", "a\\x00b", "$SYS/broker")]
    [False, False, False, False, False]
    """
    if not topic or topic[0] == "$" or "+" in topic or "#" in topic or "\0" in topic:
        return False
    try:
        return len(topic.encode()) <= TOPIC_MAX_BYTES
    except UnicodeEncodeError:  # half of a pair of surrogates, as JSON may hold
        return False


# --- the link


def size(message: Outgoing) -> int:
    """Return an upper bound of the bytes of payload and topic."""
    return len(message.payload) + 4 * len(message.topic)


class MqttLink(Link):
    """A session at an MQTT broker that outlives connections and processes.

    Messages of QoS 1 stay at the broker until they are acknowledged, at most
    `broker.receive_maximum` of them on their way at a time. A payload larger than
    `broker.max_payload_bytes` arrives cut to one byte more than that, which no decoder accepts, so
    it is refused and acknowledged like any other that makes no sense. A message that the broker had
    retained counts as redelivered: it may well have come before.

    Opening a connection may take up to `broker.connect_timeout_seconds` longer than the `timeout`
    of `read`.
    """

    def __init__(
        self,
        broker: Broker,
        subscriptions: Sequence[Subscription] = (),
        will: Outgoing | None = None,
        birth: Outgoing | None = None,
    ) -> None:
        super().__init__(broker, subscriptions, will, birth)
        address = broker_address(broker)
        self._where = f"{address.host}:{address.port}"
        self._client = make_client(broker, will)
        self._client.on_connect = self._guarded(self._on_connect)
        self._client.on_disconnect = self._guarded(self._on_disconnect)
        self._client.on_subscribe = self._guarded(self._on_subscribe)
        self._outbox = Outbox(self._client, broker.outgoing_limit)
        self._backoff = Backoff(broker.reconnect_max_seconds)
        self._trouble: str | None = "not connected yet"
        self._why: str | None = None  # this connection ended or is about to
        self._accepted = False
        self._open = False  # a connection exists, accepted or not
        self._closed = False
        self._since = 0.0  # when it was opened
        self._short_lives = 0
        self._taken_over = False
        # Of payload and topic; the broker may want less.
        self._largest = PACKET_MAX_BYTES - HEADER_MAX_BYTES
        self._complained: set[str] = set()
        self._welcome: tuple[bool, Properties] | None = None
        self._asked: dict[int, list[str]] = {}  # filters by the packet id of the question
        self._connects = self._resumed = self._failures = self._received = self._redelivered = 0

    @property
    def connected(self) -> bool:
        return self._accepted

    @property
    def error(self) -> str | None:
        return self._trouble

    @property
    def counters(self) -> dict[str, int]:
        return {
            "connects": self._connects,
            "resumed": self._resumed,
            "connect_failures": self._failures,
            "received": self._received,
            "redelivered": self._redelivered,
            "oversized": self._client.oversized,
            "published": self._outbox.published - self._client.rejected,
            "dropped": self._outbox.dropped + self._client.rejected,
            "outgoing": len(self._outbox),
        }

    def read(self, timeout: float) -> list[Message]:
        if self._closed:
            raise RuntimeError("this link was closed: make a new one")
        deadline = time.monotonic() + timeout
        while True:
            remaining = max(0.0, deadline - time.monotonic())
            if self._open:
                self._turn(remaining)
            else:
                self._connect_within(remaining)
            batch = self._client.take()
            if batch:
                return self._counted(batch)
            if time.monotonic() >= deadline:
                return []

    def publish(self, messages: Iterable[Outgoing]) -> None:
        at_once = []
        largest = self._largest
        for message in messages:
            if not is_publishable(message.topic) or size(message) > largest:
                self._refuse(message)
            elif message.qos:
                self._outbox.keep(message)
            else:
                at_once.append(message)
        if at_once:
            self._outbox.send(at_once, self._accepted)
        self._after_writing()

    def acknowledge(self, messages: Sequence[Message]) -> None:
        if self._accepted:
            self._outbox.acknowledge([m.key for m in messages if m.key is not None])
            self._after_writing()

    def close(self, farewell: Sequence[Outgoing] = ()) -> None:
        if self._closed:
            return
        self.publish(farewell)
        deadline = time.monotonic() + FLUSH_SECONDS
        while self._accepted and time.monotonic() < deadline and self._owes():
            self._turn(0.1)
        self._closed = True
        with lingering(self._client.socket() if self._accepted else None, deadline):
            if self._accepted:
                self._client.disconnect()  # for MQTT 5 too, this is what makes it forget the will
            while self._accepted and time.monotonic() < deadline:
                self._turn(0.1)
            self._hang_up("closed")
        self._outbox.close()
        self._accepted, self._trouble = False, "closed"

    def _refuse(self, message: Outgoing) -> None:
        """Drop a message for which the broker would close the connection, at every attempt."""
        self._outbox.dropped += 1
        if message.topic not in self._complained and len(self._complained) < MAX_TOPIC_WARNINGS:
            self._complained.add(message.topic)
            text = "cannot publish %d bytes to the topic %r"
            log.warning(text, len(message.payload), message.topic[:200])

    def _counted(self, batch: list[Message]) -> list[Message]:
        self._received += len(batch)
        self._redelivered += sum([m.redelivered for m in batch])
        return batch

    def _owes(self) -> bool:
        return self._client.want_write() or len(self._outbox) > 0

    # --- opening and losing a connection

    def _connect_within(self, seconds: float) -> None:
        """Try to connect if an attempt is due within `seconds`, otherwise wait that long."""
        due = self._backoff.remaining()
        time.sleep(min(due, seconds))
        if due > seconds:
            return
        self._since, self._why = time.monotonic(), None
        try:
            self._client.begin()
            self._set_no_delay()
        except (OSError, ValueError) as error:
            self._failed(errors.failure(error, self.broker, self._where))
        else:
            self._open = True
            self._taken_over = False

    def _set_no_delay(self) -> None:
        # Decisions are small and follow small acknowledgements: the kernel would hold them back.
        sock: Any = self._client.socket()
        if sock is not None:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def _failed(self, why: str, full: bool = False) -> None:
        self._failures += 1
        self._set_trouble(why, again=True)
        self._backoff.fail(full)

    def _set_trouble(self, why: str, again: bool = False) -> None:
        if why != self._trouble:
            log.warning("%s%s", why, "; trying again until it works" if again else "")
        self._trouble = why

    def _lost(self) -> None:
        """Clean up after the socket was closed, by either side."""
        self._outbox.lose(self._client.unwritten())
        self._asked.clear()
        self._welcome = None
        accepted, self._accepted, self._open = self._accepted, False, False
        if self._closed:
            return
        detail = self._client.detail
        if not accepted:
            self._failed(self._why or errors.closed_before_answer(detail, self._where, self.broker))
            return
        why = self._why or errors.loss(detail, self._where)
        brief = self._why is None and time.monotonic() - self._since < STABLE_SECONDS
        self._short_lives = self._short_lives + 1 if brief else 0
        if self._short_lives >= MAX_SHORT_CONNECTIONS:
            why = errors.short_lived(self._short_lives, self.broker)
            self._taken_over = True
        self._set_trouble(why, again=True)
        self._backoff.fail(full=self._taken_over)

    def _hang_up(self, why: str) -> None:
        """Close the socket so that paho notices: its attempt to disconnect fails."""
        sock: Any = self._client.socket()
        if sock is None:
            return
        self._why = why
        try:
            sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            log.debug("the other side was faster")
        self._client.disconnect()

    # --- running the network

    def _turn(self, seconds: float) -> None:
        """Wait for the network for at most this many seconds, then read, write and tend."""
        sock: Any = self._client.socket()
        if sock is not None:
            seconds = 0.0 if buffered(sock) else min(seconds, KEEPALIVE_CHECK_SECONDS)
            readable, writable = wait(sock, self._client.want_write(), seconds)
            self._run(readable or seconds == 0.0, writable)
        self._after_reading()

    def _run(self, readable: bool, writable: bool) -> None:
        client = self._client
        try:
            if readable:
                self._read_all()
            if writable and client.socket() is not None:
                client.loop_write()
            if client.socket() is not None:
                client.loop_misc()
        except DECODE_ERRORS as error:  # older versions of paho let these escape
            self._hang_up(f"the broker sent a packet that makes no sense: {error}")

    def _read_all(self) -> None:
        """Call paho's `loop_read`, which reads one packet, as long as it finds messages."""
        client = self._client
        before = -1
        while len(client.arrived) > before and client.socket() is not None:
            before = len(client.arrived)
            client.loop_read()
            if client.fast or before >= self.broker.receive_maximum:
                return

    def _after_reading(self) -> None:
        error, self._client.error = self._client.error, None
        if error is not None:
            raise error
        if self._welcome is not None and self._client.socket() is not None:
            self._on_accepted(*self._welcome)
        self._after_writing()
        lasting = time.monotonic() - self._since
        if self._accepted and lasting > STABLE_SECONDS:
            self._backoff.succeed()
            self._short_lives = 0
        elif self._open and not self._accepted and lasting > self.broker.connect_timeout_seconds:
            self._hang_up(errors.silence(self._where, self.broker))
            self._after_writing()

    def _after_writing(self) -> None:
        if self._accepted and self._client.socket() is not None:
            self._outbox.drain()
        if self._open and self._client.socket() is None:
            self._lost()

    def _on_accepted(self, session_present: bool, properties: Properties) -> None:
        """Subscribe and publish the birth message after the broker accepted the connection."""
        self._welcome = None
        self._accepted, self._trouble = True, None
        self._connects += 1
        self._resumed += session_present
        announced = getattr(properties, "ReceiveMaximum", IN_FLIGHT_MAX)
        self._outbox.window = min(IN_FLIGHT_MAX, announced)
        largest: int = getattr(properties, "MaximumPacketSize", PACKET_MAX_BYTES)
        self._largest = largest - HEADER_MAX_BYTES
        log.info("connected to %s, session %s", self._where, "kept" if session_present else "new")
        self._subscribe()
        if session_present:
            self._unsubscribe()
        if self.birth is not None:
            self.publish([self.birth])

    def _subscribe(self) -> None:
        if not self.subscriptions:
            return
        filters = [s.filter for s in self.subscriptions]
        wanted: Any = [(s.filter, s.qos) for s in self.subscriptions]
        if self.broker.protocol == "5":
            # Retained messages only when the subscription is new: they were learnt already.
            wanted = [
                (
                    s.filter,
                    SubscribeOptions(qos=s.qos, retainHandling=0 if s.always_retained else 1),
                )
                for s in self.subscriptions
            ]
        _, mid = self._client.subscribe(wanted)
        if mid is not None:
            self._asked[mid] = filters

    def _unsubscribe(self) -> None:
        gone = sorted(set(self.previous_filters) - {s.filter for s in self.subscriptions})
        if gone:
            self._client.unsubscribe(gone)
            log.info("no longer subscribed to %s", ", ".join(gone))

    # --- what paho tells; an error in here is kept for `read`, because paho is in mid-packet

    def _guarded(self, callback: Callable[..., None]) -> Callable[..., None]:
        def guarded(*arguments: Any) -> None:
            try:
                callback(*arguments)
            except Exception as error:
                self._client.error = error

        return guarded

    def _on_connect(
        self, _c: Client, _d: Any, flags: ConnectFlags, reason: ReasonCode, properties: Properties
    ) -> None:
        if reason.is_failure:
            self._why = errors.refusal(reason.value, reason.getName(), self.broker)
        else:
            self._welcome = (flags.session_present, properties)

    def _on_disconnect(
        self, _c: Client, _d: Any, flags: DisconnectFlags, reason: ReasonCode, _p: Properties
    ) -> None:
        if flags.is_disconnect_packet_from_server:
            self._why = errors.disconnect_reason(reason.value, reason.getName(), self.broker)
            self._taken_over = reason.value == errors.TAKEN_OVER
        elif reason.value == errors.KEEP_ALIVE:
            self._why = errors.loss("it has not answered for the keep-alive time", self._where)

    def _on_subscribe(
        self, _c: Client, _d: Any, mid: int, reasons: list[ReasonCode], _p: Properties
    ) -> None:
        for filter, reason in zip(self._asked.pop(mid, []), reasons, strict=False):
            if reason.is_failure:
                self._set_trouble(errors.refused_filter(filter, reason.getName()))
