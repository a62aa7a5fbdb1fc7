"""Streams of MQTT packets, good and bad, and what the two clients make of them.

Here the network is a list of chunks, because where it cuts packets is what is to be tried.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any, Literal

from paho.mqtt.enums import _ConnectionState

from streamlvq.config import Broker
from streamlvq_connectors.mqtt.fast_client import FastClient, varint
from streamlvq_connectors.mqtt.paho_client import PahoClient

Protocol = Literal["5", "3.1.1"]


class Chunks:
    """The client's end of a network that delivers `chunks` one by one and takes everything."""

    def __init__(self, chunks: list[bytes]) -> None:
        self.chunks = list(reversed(chunks))
        self.sent = bytearray()
        self.closed = False

    def recv(self, size: int) -> bytes:
        if not self.chunks:
            raise BlockingIOError
        chunk = self.chunks.pop()
        if len(chunk) > size:
            self.chunks.append(chunk[size:])
        return chunk[:size]

    def send(self, data: bytes) -> int:
        self.sent += data
        return len(data)

    def close(self) -> None:
        self.closed = True

    def fileno(self) -> int:
        return -1

    def setblocking(self, flag: bool) -> None:
        """Nothing here blocks."""


@dataclass
class Outcome:
    """What a client did with a stream; two that are equal did the same."""

    messages: list[Any] = field(default_factory=list)
    events: list[Any] = field(default_factory=list)
    sent: bytes = b""
    closed: bool = False
    waiting: list[int] = field(default_factory=list)  # packet ids of QoS 2 half way through
    oversized: int = 0
    raised: str | None = None


def connected(kind: type[PahoClient], broker: Broker, network: Chunks) -> PahoClient:
    """A client in the middle of a connection over `network`."""
    client = kind(broker)
    client.generation = 1
    client._sock = network  # type: ignore[assignment]
    client._state = _ConnectionState.MQTT_CS_CONNECTED
    client._clean_start = False
    return client


def outcome(kind: type[PahoClient], broker: Broker, chunks: list[bytes]) -> Outcome:
    """Let a client read all of a stream, or as far as it goes."""
    network = Chunks(chunks)
    client = connected(kind, broker, network)
    result = Outcome()

    def record(name: str) -> Any:
        return lambda _c, _d, *rest: result.events.append((name, *map(str, rest)))

    for name in ("on_connect", "on_disconnect", "on_subscribe", "on_unsubscribe"):
        setattr(client, name, record(name))
    try:
        while network.chunks and client._sock is not None:
            client.loop_read()
        client.loop_read()  # stock paho may have read a packet to its end and not looked at it
    except Exception as error:
        result.raised = type(error).__name__
    if client.error is not None:
        raise client.error
    result.messages = [(m.topic, m.payload, m.redelivered, m.key) for m in client.arrived]
    result.sent = bytes(network.sent)
    result.closed = network.closed
    result.waiting = list(client._in_messages)
    result.oversized = client.oversized
    return result


def both(protocol: Protocol, chunks: list[bytes], largest: int = 1000) -> tuple[Outcome, Outcome]:
    """What stock paho and the fast client make of the same stream."""
    broker = Broker(protocol=protocol, client_id="test", max_payload_bytes=largest)
    return outcome(PahoClient, broker, chunks), outcome(FastClient, broker, chunks)


class Packets:
    """Random packets as a broker may send them, or may not.

    Parameters
    ----------
    source
        Where chance comes from.
    protocol
        Of MQTT.
    """

    def __init__(self, source: random.Random, protocol: Protocol) -> None:
        self.random = source
        self.v5 = protocol == "5"

    def stream(self, packets: int, damage: float = 0.0) -> bytes:
        """Some packets in a row; each is damaged with the probability `damage`."""
        parts = []
        for _ in range(packets):
            packet = self.packet()
            if damage and self.random.random() < damage:
                packet = self.damaged(packet)
            parts.append(packet)
        return b"".join(parts)

    def cut(self, data: bytes) -> list[bytes]:
        """The same bytes in pieces."""
        pieces, pos = [], 0
        longest = self.random.choice((1, 3, 20, 20, 100, 100, 500, 2000, 70_000, 70_000))
        while pos < len(data):
            size = self.random.randint(1, longest)
            pieces.append(data[pos : pos + size])
            pos += size
        return pieces

    def packet(self) -> bytes:
        if self.random.random() < 0.7:
            return self.publish()
        make = self.random.choice(
            (self.answer, self.answer, self.release, self.granted, self.ping, self.goodbye)
        )
        return make()

    def publish(self) -> bytes:
        r = self.random
        qos = r.choice((0, 0, 1, 1, 1, 2))
        command = 0x30 | r.choice((0, 0, 0, 8)) | qos << 1 | r.choice((0, 0, 1))
        mid = r.randint(1, 65535).to_bytes(2, "big") if qos else b""
        properties = self.properties() if self.v5 else b""
        return self.framed(command, self.text(self.topic()) + mid + properties + self.payload())

    def topic(self) -> bytes:
        pool = (b"a", b"plant/press 7/readings", "größe/ß".encode(), b"\xff\xfe", b"x" * 200)
        return self.random.choice(pool)

    def payload(self) -> bytes:
        return self.random.randbytes(self.random.choice((0, 1, 30, 127, 285, 285, 285, 2000)))

    def properties(self) -> bytes:
        r = self.random
        if r.random() < 0.6:
            return b"\0"
        pool = {
            0x01: b"\x01",
            0x02: r.randbytes(4),
            0x03: self.text(b"application/json"),
            0x08: self.text("antwort/ü".encode()),
            0x09: self.text(r.randbytes(4)),
            0x0B: varint(r.randint(1, 70_000)),
            0x23: b"\0\x05",
            0x26: self.text(b"unit") + self.text(b"bar"),
        }
        chosen = r.sample(sorted(pool), r.randint(1, 3)) + r.choice(([], [0x26]))
        body = b"".join(bytes([kind]) + pool[kind] for kind in chosen)
        return varint(len(body)) + body

    def answer(self) -> bytes:
        """PUBACK, PUBREC or PUBCOMP of something that we never sent, or UNSUBACK."""
        command = self.random.choice((0x40, 0x50, 0x70, 0xB0))
        extra = b"\0\0" if command == 0xB0 and self.v5 else b""
        return self.framed(command, self.random.randbytes(2) + extra)

    def release(self) -> bytes:
        return self.framed(0x62, self.random.randbytes(2))

    def granted(self) -> bytes:
        return self.framed(0x90, b"\0\x01" + (b"\0" if self.v5 else b"") + b"\x01\x80")

    def ping(self) -> bytes:
        return self.random.choice((b"\xd0\0", b"\xd0\0", b"\xc0\0"))

    def goodbye(self) -> bytes:
        if self.random.random() < 0.9:
            return b"\xd0\0"
        return self.random.choice((b"\xe0\0", b"\xe0\x01\x8e", self.framed(0x20, b"\0\0\0")))

    def damaged(self, packet: bytes) -> bytes:
        r = self.random
        how = r.randint(0, 3)
        if how == 0:
            return r.randbytes(r.randint(1, 40))
        if how == 1:
            return packet[: r.randint(0, len(packet))]
        changed = bytearray(packet)
        for _ in range(r.randint(1, 3)):
            changed[r.randrange(len(changed)) if how == 2 else 0] = r.randint(0, 255)
        return bytes(changed)

    @staticmethod
    def text(raw: bytes) -> bytes:
        return len(raw).to_bytes(2, "big") + raw

    @staticmethod
    def framed(command: int, body: bytes) -> bytes:
        return bytes([command]) + varint(len(body)) + body
