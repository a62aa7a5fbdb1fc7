"""From the section `broker` of a configuration to what paho wants to know."""

from __future__ import annotations

import ssl
from pathlib import Path

from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from streamlvq.config import Broker, Tls, broker_address

LARGEST_TOPIC = 65_535


def tls_context(broker: Broker) -> ssl.SSLContext | None:
    """What TLS needs; None: no TLS. Raises OSError if a file cannot be read."""
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
