"""Error messages about a broker that say what to do next."""

from __future__ import annotations

import socket
import ssl

from streamlvq.config import Broker

REFUSALS = {  # by the reason codes of MQTT 5, which paho also uses for 3.1.1
    128: "the broker refused the connection without saying why",
    132: "the broker does not speak MQTT {protocol}: try the other one in broker.protocol",
    133: "the broker does not accept the client id {client_id!r}: change broker.client_id",
    134: "the broker refused user name or password: check broker.username and broker.password_env"
    " or broker.password_file",
    135: "the broker says that this client may not connect: check broker.username, its password,"
    " and the rights of the user",
    136: "the broker is there but not available just now",
    137: "the broker is busy",
    138: "the broker has banned this client",
    149: "a packet of ours was too large for the broker",
    151: "the broker says that a quota is used up",
    159: "the broker limits the rate of connections",
}
TAKEN_OVER = 142
KEEP_ALIVE = 141
DISCONNECTS = {
    TAKEN_OVER: "another client with the id {client_id!r} has taken over the session: give each"
    " client its own broker.client_id",
    130: "the broker says that we broke the protocol",
    139: "the broker is shutting down",
    KEEP_ALIVE: "the broker heard nothing from us for longer than the keep-alive time",
    147: "the broker says that we sent more at once than it takes",
    149: "a packet of ours was too large for the broker",
    152: "an administrator of the broker closed the connection",
}


def failure(error: BaseException, broker: Broker, where: str) -> str:
    """Explain why a connection could not be opened."""
    if isinstance(error, socket.gaierror):
        return f"the name of the broker in {broker.url!r} cannot be resolved: {error.strerror}"
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"the certificate of {where} cannot be trusted: {error.verify_message};"
            " broker.tls.ca_file names the authority to trust"
        )
    if isinstance(error, ssl.SSLError | ConnectionResetError) and _encrypted(broker):
        return f"TLS with {where} failed, {error}: does this port speak TLS?"
    if isinstance(error, ConnectionRefusedError):
        return f"nothing listens at {where}"
    if isinstance(error, TimeoutError):
        return f"no answer from {where} within {broker.connect_timeout_seconds:g} s"
    return f"cannot connect to {where}: {error}"


def refusal(code: int, name: str, broker: Broker) -> str:
    """Explain why the broker refused the connection (CONNACK)."""
    text = REFUSALS.get(code, "the broker refused the connection: {name}")
    return text.format(name=name, protocol=broker.protocol, client_id=broker.client_id)


def disconnect_reason(code: int, name: str, broker: Broker) -> str:
    """Explain why the broker closed the connection (DISCONNECT)."""
    text = DISCONNECTS.get(code, "the broker closed the connection: {name}")
    return text.format(name=name, client_id=broker.client_id)


def silence(where: str, broker: Broker) -> str:
    """Explain that the port is open but nothing answers in MQTT."""
    return (
        f"{where} takes the connection but does not answer within"
        f" {broker.connect_timeout_seconds:g} s: is it an MQTT broker? {_hint(broker)}"
    )


def closed_before_answer(detail: str | None, where: str, broker: Broker) -> str:
    """Explain that the connection was closed before the broker answered."""
    if detail and "CERTIFICATE_REQUIRED" in detail.upper().replace(" ", "_"):
        return f"{where} wants a client certificate: set broker.tls.cert_file and key_file"
    return f"{where} closed the connection at once{_detail(detail)}; {_hint(broker)}"


def loss(detail: str | None, where: str) -> str:
    """Explain that a connection broke; `detail` is the error of the network, if any."""
    return f"lost the connection to {where}{_detail(detail)}"


def _detail(detail: str | None) -> str:
    return f": {detail}" if detail else ""


def _encrypted(broker: Broker) -> bool:
    return broker.tls is not None or broker.url.startswith("mqtts:")


def _hint(broker: Broker) -> str:
    if not _encrypted(broker):
        return "does it expect TLS (mqtts://)?"
    if broker.tls is None or broker.tls.cert_file is None:
        return "does it want a client certificate (broker.tls.cert_file)?"
    return "does it trust our certificate?"


def short_lived(times: int, broker: Broker) -> str:
    """Explain that the broker closes each connection soon after accepting it."""
    return (
        f"the broker closed the connection {times} times right after accepting it: perhaps another"
        f" client uses the id {broker.client_id!r}; give each client its own broker.client_id"
    )


def refused_filter(filter: str, name: str) -> str:
    """Explain that a subscription was not granted."""
    return f"the broker refused the subscription to {filter!r}: {name}"
