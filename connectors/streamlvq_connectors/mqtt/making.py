"""Make the client that a configuration asks for."""

from __future__ import annotations

import logging

from streamlvq.config import Broker, broker_address, broker_password
from streamlvq.connect import Outgoing
from streamlvq_connectors.mqtt.fast import FastClient, obstacle
from streamlvq_connectors.mqtt.options import connect_properties, tls_context
from streamlvq_connectors.mqtt.stock import StockClient

log = logging.getLogger("streamlvq.mqtt")


def choose_client(broker: Broker) -> StockClient:
    """The fast client if the configuration and the version of paho allow it."""
    client = StockClient(broker)
    if not broker.fast_receive:
        return client
    why_not = obstacle(client)
    if why_not is None:
        return FastClient(broker)
    log.warning("receiving the slow way: %s", why_not)
    return client


def make_client(broker: Broker, will: Outgoing | None) -> StockClient:
    """A client that knows where to connect, as whom, and what is to be said if it vanishes."""
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
