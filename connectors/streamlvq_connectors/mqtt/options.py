"""From the section `broker` of a configuration to what paho wants to know."""

from __future__ import annotations

import ssl
from typing import NamedTuple
from urllib.parse import urlsplit

from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from streamlvq.config import Broker

PORTS = {"mqtt": 1883, "mqtts": 8883}
LARGEST_TOPIC = 65_535


class Address(NamedTuple):
    """Where a broker is.

    Examples
    --------
    >>> Address.of("mqtts://broker.example")
    Address(host='broker.example', port=8883, tls=True)
    """

    host: str
    port: int
    tls: bool

    @classmethod
    def of(cls, url: str) -> Address:
        """Read a URL such as `mqtt://host:1883`."""
        parts = urlsplit(url)
        if parts.scheme not in PORTS or not parts.hostname:
            raise ValueError(f"expected a URL like mqtt://host:1883 or mqtts://host, got {url!r}")
        port = parts.port or PORTS[parts.scheme]
        return cls(parts.hostname, port, parts.scheme == "mqtts")

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def tls_context(broker: Broker) -> ssl.SSLContext | None:
    """What TLS needs; None: no TLS. Raises OSError if a file cannot be read."""
    tls = broker.tls
    if tls is None:
        return ssl.create_default_context() if Address.of(broker.url).tls else None
    context = ssl.create_default_context(cafile=tls.ca_file)
    if not tls.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if tls.cert_file is not None:
        context.load_cert_chain(tls.cert_file, tls.key_file)
    return context


def connect_properties(broker: Broker) -> Properties | None:
    """What MQTT 5 says when it connects."""
    if broker.protocol != "5":
        return None
    properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
    properties.SessionExpiryInterval = broker.session_expiry_seconds
    properties.ReceiveMaximum = broker.receive_maximum
    properties.MaximumPacketSize = largest_packet(broker)
    return properties


def largest_packet(broker: Broker) -> int:
    """Bytes of a packet whose payload is still welcome, with any topic and some properties."""
    return broker.max_payload_bytes + LARGEST_TOPIC + 1024
