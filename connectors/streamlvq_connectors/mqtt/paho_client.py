"""A paho client for the link: messages are collected in a list and acknowledged explicitly."""

from __future__ import annotations

import importlib.util
import struct
import time
from collections.abc import Iterable, Sequence
from typing import Any

from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode, MQTTProtocolVersion
from paho.mqtt.properties import MQTTException, Properties  # type: ignore[attr-defined]
from paho.mqtt.reasoncodes import ReasonCode

from streamlvq.config import Broker
from streamlvq.connect import Message, Outgoing

# A key is the number of the connection, whether the message is of QoS 2, and its packet id: an
# acknowledgement must not go out on a later connection, where the id may mean another message.
MID_BITS = 0xFFFF
QOS2_BIT = 0x10000
GENERATION_SHIFT = 17

# What paho raises for a malformed packet. Since 2.2 it deals with that itself; before, whatever
# went wrong in the middle of it escapes.
DECODE_ERRORS: tuple[type[Exception], ...] = (MQTTException,)
if importlib.util.find_spec("paho.mqtt._packet") is None:
    DECODE_ERRORS = (MQTTException, struct.error, IndexError, KeyError, ValueError)


TOPIC_MAX_BYTES = 65_535


def max_packet_bytes(broker: Broker) -> int:
    """Return the size of the largest packet to accept: payload, any topic and some properties."""
    return broker.max_payload_bytes + TOPIC_MAX_BYTES + 1024


class PahoClient(Client):
    """A paho client without a thread that collects incoming messages in `arrived`.

    Parameters
    ----------
    broker
        Where, and as whom.
    """

    fast = False

    def __init__(self, broker: Broker) -> None:
        v5 = broker.protocol == "5"
        super().__init__(
            CallbackAPIVersion.VERSION2,
            client_id=broker.client_id,
            clean_session=None if v5 else broker.session_expiry_seconds == 0,
            protocol=MQTTProtocolVersion.MQTTv5 if v5 else MQTTProtocolVersion.MQTTv311,
            reconnect_on_failure=False,
            manual_ack=True,
        )
        self.arrived: list[Message] = []
        self.largest_payload = broker.max_payload_bytes
        self.generation = 0
        self.oversized = 0
        self.in_flight: set[int] = set()  # packet ids of QoS 1 that the broker has not confirmed
        self.rejected = 0  # of QoS 1, by the broker
        self.error: BaseException | None = None  # from a callback, for whoever runs the network
        self.detail: str | None = None  # the last error that paho logged
        self._unwritten = 0
        self.max_inflight_messages_set(MID_BITS)  # the link keeps a window of its own
        self.on_message = self._collect
        self.on_publish = self._confirmed
        self.on_log = self._note

    def take(self) -> list[Message]:
        """Return the messages that arrived since the last call."""
        taken, self.arrived = self.arrived, []
        return taken

    def begin(self) -> MQTTErrorCode:
        """Open a connection and forget the state of the last one."""
        self.generation += 1
        self._unwritten = 0
        self.detail = None
        return self.reconnect()

    def unwritten(self) -> int:
        """Return how many messages of QoS 0 are still to be written to the network."""
        return self._unwritten

    def send(self, messages: Sequence[Outgoing]) -> None:
        """Send at QoS 0; topics must have been checked."""
        for message in messages:
            self._unwritten += 1
            self.publish(message.topic, message.payload, 0, message.retain)

    def send_surely(self, message: Outgoing) -> bool:
        """Send at QoS 1; return False if there was no free packet id."""
        info = self.publish(message.topic, message.payload, 1, message.retain)
        if info.rc == MQTTErrorCode.MQTT_ERR_QUEUE_SIZE:
            return False
        self.in_flight.add(info.mid)
        return True

    def confirm(self, keys: Iterable[int]) -> None:
        """Acknowledge messages of this connection; ignore keys of earlier ones."""
        for key in keys:
            if key >> GENERATION_SHIFT == self.generation:
                self.ack(key & MID_BITS, 2 if key & QOS2_BIT else 1)

    def _collect(self, _client: Client, _data: Any, message: MQTTMessage) -> None:
        try:
            self.arrived.append(self._dress(message))
        except Exception as error:  # it would leave paho in the middle of a packet
            self.error = error

    def _dress(self, message: MQTTMessage) -> Message:
        try:
            topic = message.topic
        except UnicodeDecodeError as error:
            topic = error.object.decode("utf-8", "replace")
        payload = bytes(message.payload)
        if len(payload) > self.largest_payload:
            payload = self.cut(payload)
        key = None
        if message.qos:
            key = self.generation << GENERATION_SHIFT | message.mid
            key |= QOS2_BIT if message.qos == 2 else 0
        return Message(topic, payload, time.time(), message.dup or message.retain, key)

    def cut(self, payload: bytes) -> bytes:
        """Return a payload cut to one byte more than is allowed, which marks it as too large."""
        self.oversized += 1
        return payload[: self.largest_payload + 1]

    def _confirmed(
        self, _client: Client, _data: Any, mid: int, reason: ReasonCode, _properties: Properties
    ) -> None:
        if mid in self.in_flight:
            self.in_flight.discard(mid)
            self.rejected += bool(reason.is_failure)
        else:
            self._unwritten = max(0, self._unwritten - 1)

    def _note(self, _client: Client, _data: Any, level: int, text: str) -> None:
        if level == 0x08:  # paho's MQTT_LOG_ERR
            self.detail = text.rpartition(": ")[2] or text
