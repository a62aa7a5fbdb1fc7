"""A paho client that reads and writes many packets at once.

Stock paho asks the kernel about four times per message. This one takes up to 64 KiB at a time,
picks every PUBLISH of QoS 0 and 1 out of that by itself, and hands everything else to paho's own
handlers. It writes many messages of QoS 0, and many acknowledgements, as one.

By hand on purpose: paho's public interface reads one packet per call, which is what limits the rate
of a node. It uses private names of paho; `unsupported_reason` checks that they did not change.
"""

from __future__ import annotations

import inspect
import ssl
import struct
import time
from collections.abc import Iterable, Sequence
from functools import lru_cache

import paho.mqtt
from paho.mqtt.client import MQTT_LOG_ERR, Client
from paho.mqtt.enums import MessageType, MQTTErrorCode, MQTTProtocolVersion

from streamlvq.config import Broker
from streamlvq.connect import Message, Outgoing
from streamlvq_connectors.mqtt.paho_client import (
    DECODE_ERRORS,
    GENERATION_SHIFT,
    MID_BITS,
    QOS2_BIT,
    PahoClient,
    max_packet_bytes,
)

PACKET_MAX_BYTES = 268_435_455  # what four bytes of seven bits can say
_FORMAT, _EXPIRY = 0x01, 0x02  # of the payload: one byte, 0 or 1; of the message: four bytes
_TEXTS = {0x03: 1, 0x08: 1, 0x26: 2}  # content type, response topic, user property (a pair)
_REPEATABLE = 0x26

CHUNK_BYTES = 65_536
MAX_READS = 16  # chunks per call at most, so that a flood leaves time for everything else
MAX_CACHED_TOPICS = 100_000
BATCH_COMMAND = 0x00  # what we call many packets as one in paho's queue; no packet has this type
PUBLISH_BITS, PUBLISH_MASK = 0x30, 0xF4  # commands with these bits are a PUBLISH of QoS 0 or 1
DISCONNECT_COMMAND = 0xE0
QOS1_BIT = 0x02
DUP_RETAIN_MASK = 0x09  # DUP or RETAIN
PUBACK_HEAD = 0x40020000  # PUBACK, two bytes follow: the packet id
SUCCESS = MQTTErrorCode.MQTT_ERR_SUCCESS

TESTED_VERSIONS = ((2, 1), (2, 3))  # versions of paho: from, and before
_METHODS = {
    "_sock_recv": ["bufsize"],
    "_packet_handle": [],
    "_packet_queue": ["command", "packet", "mid", "qos", "info"],
    "_loop_rc_handle": ["rc"],
    "_packet_write": [],
}
_ATTRIBUTES = ("_sock", "_in_packet", "_out_packet", "_protocol")
_LAST_IN = ("_last_bytes_received", "_last_msg_in")  # the one that this version has
_IN_PACKET = {
    "command",
    "have_remaining",
    "remaining_count",
    "remaining_mult",
    "remaining_length",
    "packet",
    "to_process",
    "pos",
}


class TooLongError(ValueError):
    """An encoded length has more than four bytes."""


@lru_cache(4096)
def varint(value: int) -> bytes:
    """Encode a length as MQTT does.

    Examples
    --------
    >>> varint(127).hex(), varint(321).hex()
    ('7f', 'c102')
    """
    if not 0 <= value <= PACKET_MAX_BYTES:
        raise ValueError(f"expected a length of at most {PACKET_MAX_BYTES} bytes, got {value!r}")
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_varint(data: bytes, pos: int, end: int) -> tuple[int, int] | None:
    """Decode the length at `pos`; return it and its end, None if `data` is too short.

    Examples
    --------
    >>> read_varint(bytes.fromhex("c10255"), 0, 3)
    (321, 2)
    """
    value = 0
    for shift in (0, 7, 14, 21):
        if pos >= end:
            return None
        byte = data[pos]
        pos += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, pos
    if pos >= end:
        return None
    raise TooLongError("expected a length of at most four bytes")


def skip_properties(data: bytes, pos: int, stop: int) -> int:
    """Return where the properties of a PUBLISH at `pos` end; 0 if paho should parse the packet.

    Left to paho: topic aliases, text beyond ASCII, anything malformed.
    """
    try:
        found = read_varint(data, pos, stop)
    except TooLongError:
        return 0
    if found is None:
        return 0
    length, pos = found
    end = pos + length
    if end > stop:
        return 0
    seen = 0
    while pos < end:
        kind = data[pos]
        if kind != _REPEATABLE:
            if kind > 63 or seen >> kind & 1:
                return 0
            seen |= 1 << kind
        pos = _skip_value(data, kind, pos + 1, end)
        if not pos or pos > end:
            return 0
    return end


def _skip_value(data: bytes, kind: int, pos: int, end: int) -> int:
    if kind == _EXPIRY:
        return pos + 4
    if kind == _FORMAT:
        return pos + 1 if pos < end and data[pos] <= 1 else 0
    for _ in range(_TEXTS.get(kind, 0)):
        if pos + 2 > end:
            return 0
        text = pos + 2
        pos = text + (data[pos] << 8 | data[pos + 1])
        value = data[text:pos]
        if pos > end or not value.isascii() or 0 in value:
            return 0
    return pos if kind in _TEXTS else 0


def unsupported_reason(client: Client) -> str | None:
    """Return why `FastClient` cannot be used with this version of paho; None if it can."""
    version = tuple(int(part) for part in paho.mqtt.__version__.split(".")[:2])
    if not TESTED_VERSIONS[0] <= version < TESTED_VERSIONS[1]:
        return f"paho-mqtt {paho.mqtt.__version__} is not a version that it was tested with"
    for name, parameters in _METHODS.items():
        method = getattr(client, name, None)
        if method is None or list(inspect.signature(method).parameters) != parameters:
            return f"paho's {name} is not what it was"
    missing = [name for name in _ATTRIBUTES if not hasattr(client, name)]
    if missing or not any(hasattr(client, name) for name in _LAST_IN):
        return f"paho has no {(missing or _LAST_IN)[0]}"
    if set(client._in_packet) != _IN_PACKET:
        return "paho's _in_packet is not what it was"
    return None


class FastClient(PahoClient):
    """A `PahoClient` that receives and sends in batches."""

    fast = True

    def __init__(self, broker: Broker) -> None:
        super().__init__(broker)
        self._v5 = self._protocol == MQTTProtocolVersion.MQTTv5
        self._last_in = next(name for name in _LAST_IN if hasattr(self, name))
        self._largest_packet = max_packet_bytes(broker)
        self._topics: dict[bytes, str] = {}
        self._prefixes: dict[str, bytes] = {}
        self._forget_input()

    def _forget_input(self) -> None:
        self._chunks: list[bytes] = []  # the beginning of a packet
        self._missing = 0  # bytes to wait for until looking at it again
        self._skip = 0  # bytes left of a packet that is too large
        self._large: Message | None = None  # what is kept of it

    def begin(self) -> MQTTErrorCode:
        self._forget_input()
        return super().begin()

    # --- in

    def loop_read(self, max_packets: int = 1) -> MQTTErrorCode:
        for _ in range(MAX_READS):
            if self._sock is None:
                return MQTTErrorCode.MQTT_ERR_NO_CONN
            try:
                data = self._sock_recv(CHUNK_BYTES)
            except BlockingIOError:
                break
            except OSError as error:
                self._easy_log(MQTT_LOG_ERR, "failed to receive on socket: %s", error)
                data = b""
            rc = self._take_in(data) if data else MQTTErrorCode.MQTT_ERR_CONN_LOST
            if rc != SUCCESS:
                return self._loop_rc_handle(rc)
            if len(data) < CHUNK_BYTES and not isinstance(self._sock, ssl.SSLSocket):
                break  # that was all; TLS gives a record at a time and does not say
        return SUCCESS

    def _take_in(self, data: bytes) -> MQTTErrorCode:
        setattr(self, self._last_in, time.monotonic())
        if self._skip:
            skipped = min(self._skip, len(data))
            self._skip -= skipped
            data = data[skipped:]
            if not self._skip and self._large is not None:
                self.arrived.append(self._large)
                self._large = None
        if self._chunks:
            self._chunks.append(data)
            self._missing -= len(data)
            if self._missing > 0:
                return SUCCESS
            data = b"".join(self._chunks)
            self._chunks = []
        return self._parse(data)

    def _parse(self, data: bytes) -> MQTTErrorCode:
        """Parse all packets in `data`; keep what is left.

        One long function, because this is where the time goes.
        """
        pos, end, missing = 0, len(data), 1
        v5, topics, largest = self._v5, self._topics, self.largest_payload
        generation = self.generation << GENERATION_SHIFT
        append, new, now = self.arrived.append, tuple.__new__, time.time()
        try:
            while end - pos > 1:
                command, length, start = data[pos], data[pos + 1], pos + 2
                if length > 127:
                    try:
                        found = read_varint(data, pos + 1, end)
                    except TooLongError:
                        pos = end
                        return MQTTErrorCode.MQTT_ERR_PROTOCOL
                    if found is None:
                        break
                    length, start = found
                stop = start + length
                if stop > end:
                    missing = stop - end
                    if length > self._largest_packet:
                        missing = self._largest_packet - (end - start)
                        if missing <= 0:
                            self._begin_skip(command, data, start, stop)
                            pos = end
                            return SUCCESS if self._skip else MQTTErrorCode.MQTT_ERR_PROTOCOL
                    break
                pos = stop
                if length > 2 and command & PUBLISH_MASK == PUBLISH_BITS:
                    topic_at = start + 2
                    body = topic_end = topic_at + (data[start] << 8 | data[start + 1])
                    key = None
                    if command & QOS1_BIT:
                        body += 2
                        if body <= stop:
                            key = generation | data[topic_end] << 8 | data[topic_end + 1]
                    if v5:
                        if body < stop:
                            body = skip_properties(data, body, stop) if data[body] else body + 1
                        else:
                            body = 0
                    if topic_at < topic_end < body + 1 <= stop + 1:
                        raw = data[topic_at:topic_end]
                        topic = topics.get(raw) or self._learn_topic(raw)
                        payload = data[body:stop]
                        if stop - body > largest:
                            payload = self.cut(payload)
                        append(
                            new(
                                Message,
                                (topic, payload, now, (command & DUP_RETAIN_MASK) != 0, key),
                            )
                        )
                        continue
                rc = self._hand_over(command, data[start:stop])
                if rc != SUCCESS or self._sock is None:
                    pos = end
                    return rc
            return SUCCESS
        finally:
            if pos < end:
                self._chunks, self._missing = [data[pos:]], missing

    def _learn_topic(self, raw: bytes) -> str:
        if len(self._topics) >= MAX_CACHED_TOPICS:
            self._topics.clear()
        topic = self._topics[raw] = raw.decode("utf-8", "replace")
        return topic

    def _begin_skip(self, command: int, data: bytes, start: int, stop: int) -> None:
        """A packet is too large to keep: note what it is, and let the rest pass by.

        Anything but a PUBLISH of QoS 0 or 1 cannot be so large, nor can one with such properties.
        """
        topic_end = start + 2 + (data[start] << 8 | data[start + 1])
        body = topic_end + (command & QOS1_BIT)  # two bytes of packet id
        if self._v5:
            body = skip_properties(data, body, len(data))
        if command & PUBLISH_MASK != PUBLISH_BITS or not body:
            return
        mid = data[topic_end] << 8 | data[topic_end + 1]
        key = self.generation << GENERATION_SHIFT | mid if command & QOS1_BIT else None
        topic = self._learn_topic(data[start + 2 : topic_end])
        payload = self.cut(data[body:])
        self._large = Message(topic, payload, time.time(), command & DUP_RETAIN_MASK != 0, key)
        self._skip = stop - len(data)

    def _hand_over(self, command: int, packet: bytes) -> MQTTErrorCode:
        """Let paho handle a packet as if it had read it itself."""
        if command == DISCONNECT_COMMAND and (len(packet) == 1 or packet[1:] == b"\0"):
            packet = packet[:1] + b"\0\0"  # paho 2.1 does not see the reason in a shorter one
        empty = self._in_packet
        self._in_packet = {
            "command": command,
            "have_remaining": 1,
            "remaining_count": [],
            "remaining_mult": 1,
            "remaining_length": len(packet),
            "packet": bytearray(packet),
            "to_process": 0,
            "pos": 0,
        }
        try:
            return self._packet_handle()
        except DECODE_ERRORS as error:
            self.detail = f"the broker sent a packet that makes no sense: {error}"
            return MQTTErrorCode.MQTT_ERR_PROTOCOL
        finally:
            self._in_packet = empty

    # --- out

    def unwritten(self) -> int:
        return sum(
            [packet["mid"] for packet in self._out_packet if packet["command"] == BATCH_COMMAND]
        )

    def confirm(self, keys: Iterable[int]) -> None:
        mine = [key for key in keys if key >> GENERATION_SHIFT == self.generation]
        once = [PUBACK_HEAD | key & MID_BITS for key in mine if not key & QOS2_BIT]
        if once and self._sock is not None:
            blob = struct.pack(f"!{len(once)}I", *once)
            self._packet_queue(MessageType.PUBACK, blob, 0, 1)
        if len(once) < len(mine):
            super().confirm([key for key in mine if key & QOS2_BIT])

    def send(self, messages: Sequence[Outgoing]) -> None:
        parts: list[bytes] = []
        count = size = 0
        prefixes = self._prefixes
        for topic, payload, _, retain in messages:
            prefix = prefixes.get(topic) or self._make_prefix(topic)
            length = len(prefix) + len(payload)
            parts += (b"\x31" if retain else b"\x30", varint(length), prefix, payload)
            count += 1
            size += length
            if size > CHUNK_BYTES:
                self._packet_queue(BATCH_COMMAND, b"".join(parts), count, 1)
                parts, count, size = [], 0, 0
        if count:
            self._packet_queue(BATCH_COMMAND, b"".join(parts), count, 1)

    def _make_prefix(self, topic: str) -> bytes:
        """The topic as it stands in a packet, and for MQTT 5 that there are no properties."""
        if len(self._prefixes) >= MAX_CACHED_TOPICS:
            self._prefixes.clear()
        raw = topic.encode()
        prefix = len(raw).to_bytes(2, "big") + raw + (b"\0" if self._v5 else b"")
        self._prefixes[topic] = prefix
        return prefix
