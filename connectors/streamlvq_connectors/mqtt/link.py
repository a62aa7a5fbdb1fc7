"""The link to an MQTT broker."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from paho.mqtt.client import Client, ConnectFlags, DisconnectFlags
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from streamlvq.config import Broker, broker_address
from streamlvq.connect import Link, Message, Outgoing, Subscription
from streamlvq_connectors.mqtt import words
from streamlvq_connectors.mqtt.backoff import Backoff
from streamlvq_connectors.mqtt.making import make_client
from streamlvq_connectors.mqtt.outbox import WINDOW, Outbox
from streamlvq_connectors.mqtt.packets import LONGEST
from streamlvq_connectors.mqtt.stock import DECODING
from streamlvq_connectors.mqtt.topics import sendable
from streamlvq_connectors.mqtt.waiting import buffered, lingering, wait

log = logging.getLogger("streamlvq.mqtt")

TICK = 1.0  # seconds: how often paho looks after its keep-alive at least
STABLE = 5.0  # seconds after which a connection has proved itself
SHORT_LIVES = 3  # in a row: somebody throws us out
HEADER = 16  # bytes of a packet that are neither topic nor payload, at most
COMPLAINTS = 100  # topics in the log that cannot be published to
FLUSH = 5.0  # seconds that `close` gives the broker to take what is owed


def size(message: Outgoing) -> int:
    """Bytes of payload and topic, if every character of the topic is one of the longest."""
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
        self._largest = LONGEST - HEADER  # of payload and topic; the broker may want less
        self._complained: set[str] = set()
        self._welcome: tuple[bool, Properties] | None = None
        self._asked: dict[int, list[str]] = {}  # filters by the packet id of the question
        self._connects = self._resumed = self._failures = self._received = self._redelivered = 0

    @property
    def connected(self) -> bool:
        return self._accepted

    @property
    def trouble(self) -> str | None:
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
            if not sendable(message.topic) or size(message) > largest:
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
        deadline = time.monotonic() + FLUSH
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
        """The broker would close the connection because of this one, and again after each try."""
        self._outbox.dropped += 1
        if message.topic not in self._complained and len(self._complained) < COMPLAINTS:
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
            self._failed(words.failure(error, self.broker, self._where))
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
        self._set_trouble(why)
        self._backoff.fail(full)

    def _set_trouble(self, why: str) -> None:
        if why != self._trouble:
            log.warning("%s", why)
        self._trouble = why

    def _lost(self) -> None:
        """The socket is closed, by either side."""
        self._outbox.lose(self._client.unwritten())
        self._asked.clear()
        self._welcome = None
        accepted, self._accepted, self._open = self._accepted, False, False
        if self._closed:
            return
        detail = self._client.detail
        if not accepted:
            self._failed(self._why or words.rebuff(detail, self._where, self.broker))
            return
        why = self._why or words.loss(detail, self._where)
        brief = self._why is None and time.monotonic() - self._since < STABLE
        self._short_lives = self._short_lives + 1 if brief else 0
        if self._short_lives >= SHORT_LIVES:
            why = words.short_lived(self._short_lives, self.broker)
            self._taken_over = True
        self._set_trouble(why)
        self._backoff.fail(full=self._taken_over)

    def _hang_up(self, why: str) -> None:
        """Close the socket from our side, in a way that paho notices: it fails to say goodbye."""
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
        """Wait for the network at most so long, and do what there is to do."""
        sock: Any = self._client.socket()
        if sock is not None:
            seconds = 0.0 if buffered(sock) else min(seconds, TICK)
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
        except DECODING as error:  # older versions of paho let these escape
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
            self._greet(*self._welcome)
        self._after_writing()
        lasting = time.monotonic() - self._since
        if self._accepted and lasting > STABLE:
            self._backoff.succeed()
            self._short_lives = 0
        elif self._open and not self._accepted and lasting > self.broker.connect_timeout_seconds:
            self._hang_up(words.silence(self._where, self.broker))
            self._after_writing()

    def _after_writing(self) -> None:
        if self._accepted and self._client.socket() is not None:
            self._outbox.drain()
        if self._open and self._client.socket() is None:
            self._lost()

    def _greet(self, session_present: bool, properties: Properties) -> None:
        """The broker has accepted us: subscribe, and say hello."""
        self._welcome = None
        self._accepted, self._trouble = True, None
        self._connects += 1
        self._resumed += session_present
        announced = getattr(properties, "ReceiveMaximum", WINDOW)
        self._outbox.window = min(WINDOW, announced)
        self._largest = getattr(properties, "MaximumPacketSize", LONGEST) - HEADER
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
                (s.filter, SubscribeOptions(qos=s.qos, retainHandling=0 if s.again else 1))
                for s in self.subscriptions
            ]
        _, mid = self._client.subscribe(wanted)
        if mid is not None:
            self._asked[mid] = filters

    def _unsubscribe(self) -> None:
        gone = sorted(set(self.former) - {s.filter for s in self.subscriptions})
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
            self._why = words.refusal(reason.value, reason.getName(), self.broker)
        else:
            self._welcome = (flags.session_present, properties)

    def _on_disconnect(
        self, _c: Client, _d: Any, flags: DisconnectFlags, reason: ReasonCode, _p: Properties
    ) -> None:
        if flags.is_disconnect_packet_from_server:
            self._why = words.departure(reason.value, reason.getName(), self.broker)
            self._taken_over = reason.value == words.TAKEN_OVER
        elif reason.value == words.KEEP_ALIVE:
            self._why = words.loss("it has not answered for the keep-alive time", self._where)

    def _on_subscribe(
        self, _c: Client, _d: Any, mid: int, reasons: list[ReasonCode], _p: Properties
    ) -> None:
        for filter, reason in zip(self._asked.pop(mid, []), reasons, strict=False):
            if reason.is_failure:
                self._set_trouble(words.refused_filter(filter, reason.getName()))
