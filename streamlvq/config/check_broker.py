"""Address and password of the broker, and checks of the broker section."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

from streamlvq.config.errors import ConfigError, Problem
from streamlvq.config.schema import Broker, Config
from streamlvq.text import suggestion

PORTS = {"mqtt": 1883, "mqtts": 8883, "memory": 0}  # of each scheme, if the URL names none
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HOST = re.compile(r"[A-Za-z0-9._:%-]+")
_EXAMPLE = "such as mqtt://localhost:1883"


class Address(NamedTuple):
    """Scheme, host and port of a broker."""

    scheme: str
    host: str
    port: int


def broker_address(broker: Broker) -> Address:
    """Return the address of a broker; raise `ConfigError` if its URL has none.

    Examples
    --------

    >>> from streamlvq.config import Broker, broker_address

    >>> broker_address(Broker(url="mqtts://broker.example"))
    Address(scheme='mqtts', host='broker.example', port=8883)

    """
    found = list(_url(broker))
    if found:
        raise ConfigError(found)
    parts = urlsplit(broker.url)
    port = PORTS.get(parts.scheme, 0) if parts.port is None else parts.port
    return Address(parts.scheme, parts.hostname or "", port)


def broker_password(broker: Broker) -> str | None:
    """Return the password of a broker from the environment or a file; None if there is none.

    It is read when it is needed and not kept. Messages show neither it nor what was given in its
    place by mistake.
    """
    if broker.password_env is not None:
        password = os.environ.get(broker.password_env)
        if password is None:
            raise _missing(
                "password_env", "the name of an environment variable, got one that is not set"
            )
        return password
    if broker.password_file is None:
        return None
    try:
        text = Path(broker.password_file).read_text("utf-8")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not text in UTF-8"
        raise _missing("password_file", f"a file that holds the password, got: {reason}") from None
    return text.rstrip("\r\n")


def _missing(key: str, expected: str) -> ConfigError:
    return ConfigError([Problem(("broker", key), f"expected {expected}")])


# --- checks, which read neither the environment nor files ---


def url(config: Config) -> Iterator[Problem]:
    """Check the URL."""
    yield from _url(config.broker)


def _url(broker: Broker) -> Iterator[Problem]:
    path = ("broker", "url")
    if "@" in broker.url:  # never shown: there may be a password in it
        yield Problem(
            path,
            "expected no user name or password in the URL; "
            "use username and password_env or password_file",
        )
        return
    try:
        parts = urlsplit(broker.url)
        port = parts.port
    except ValueError as error:
        yield Problem(path, f"expected a URL {_EXAMPLE}, got {broker.url!r} ({error})")
        return
    if "://" not in broker.url or not parts.scheme:
        yield Problem(path, f"expected a URL {_EXAMPLE}, got {broker.url!r}")
    elif parts.scheme not in PORTS and parts.scheme not in _installed_schemes():
        near = suggestion(parts.scheme, list(PORTS))
        yield Problem(path, f"expected mqtt:// or mqtts://, got {parts.scheme + '://'!r}{near}")
    elif parts.scheme in ("mqtt", "mqtts"):  # what other links expect is their own business
        yield from _host(parts, port, broker.url)


def _installed_schemes() -> set[str]:
    """Return the schemes that installed links serve, without loading them."""
    return entry_points(group="streamlvq.links").names


def _host(parts: SplitResult, port: int | None, url: str) -> Iterator[Problem]:
    path = ("broker", "url")
    if not parts.hostname or not _HOST.fullmatch(parts.hostname):
        yield Problem(path, f"expected a host, {_EXAMPLE}, got {url!r}")
    if port == 0:
        yield Problem(path, f"expected a port from 1 to 65535, got 0 in {url!r}")
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        yield Problem(path, f"expected nothing after host and port, got {url!r}")


def client(config: Config) -> Iterator[Problem]:
    """Check the client identifier."""
    broker = config.broker
    name = broker.client_id
    try:
        fits = 1 <= len(name.encode()) <= 256 and name.isprintable()
    except UnicodeEncodeError:
        fits = False
    if not fits:
        yield Problem(
            ("broker", "client_id"),
            f"expected a name of 1 to 256 bytes, the same at every start, got {name[:60]!r}",
        )


def credentials(config: Config) -> Iterator[Problem]:
    """Check user name and password settings without reading the password."""
    broker = config.broker
    given = broker.password_env is not None or broker.password_file is not None
    if broker.password_env is not None and broker.password_file is not None:
        yield Problem(
            ("broker", "password_file"), "expected either password_env or password_file, got both"
        )
    if broker.password_env is not None and not _VARIABLE.fullmatch(broker.password_env):
        yield Problem(
            ("broker", "password_env"),
            "expected the name of an environment variable, such as MQTT_PASSWORD "
            "(the password itself goes into that variable)",
        )
    if given and broker.username is None and broker.protocol == "3.1.1":
        yield Problem(
            ("broker", "username"), "expected a username too: MQTT 3.1.1 has no password without"
        )
    for key in ("username", "password_file"):
        if getattr(broker, key) == "":
            yield Problem(("broker", key), "expected something, got ''; or leave the line out")


def tls(config: Config) -> Iterator[Problem]:
    """Check the TLS settings."""
    tls = config.broker.tls
    if tls is None:
        return
    if not config.broker.url.startswith("mqtts:"):
        yield Problem(("broker", "tls"), "expected a URL that begins with mqtts:// too")
    if tls.key_file is not None and tls.cert_file is None:
        yield Problem(
            ("broker", "tls", "cert_file"), "expected the certificate that belongs to key_file"
        )
    for key in ("ca_file", "cert_file", "key_file"):
        if getattr(tls, key) == "":
            yield Problem(("broker", "tls", key), "expected the name of a file, got ''")
