"""Interfaces of connectors, and the look-up of installed ones.

Two kinds: a *link* is a live connection that readings come from and decisions go to; a *log* is a
file of readings or messages. Packages register theirs as entry points of the groups
`streamlvq.links` (by the scheme of the URL) and `streamlvq.logs` (by the name of the format).
"""

from __future__ import annotations

import abc
import logging
import os
import secrets
import zlib
from collections.abc import Iterable, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self
from urllib.parse import urlsplit

import msgspec

from streamlvq.errors import StreamLVQError
from streamlvq.events import Readings
from streamlvq.text import suggestion

if TYPE_CHECKING:
    from streamlvq.config import Broker, Fields


_LOG = logging.getLogger(__name__)


NO_TOPIC = ""  # the topic of a message that is a row of a file
UNKNOWN_TIME = 0.0  # when a message was received that its recording has no time for


class Message(NamedTuple):
    """A message received from a broker or read from a recording."""

    topic: str
    payload: bytes
    received: float  # seconds since 1970, by the clock of whoever received it
    redelivered: bool = False  # the broker may have delivered it before
    key: Any = None  # identifies it to `Link.acknowledge`; None: needs none


class Outgoing(NamedTuple):
    """A message to publish."""

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False


class Subscription(NamedTuple):
    """A topic filter to subscribe to.

    Attributes
    ----------
    filter, qos
        The filter and its quality of service.
    always_retained
        Whether to receive retained messages after every connect, not only when the subscription is
        new; for topics of which only the last message counts.
    """

    filter: str
    qos: int
    always_retained: bool = False


class Link(abc.ABC):
    """Live connection to a broker, in both directions.

    For use by one thread. `read` and `publish` run the network; there are no background threads, so
    nothing dies silently, and unread messages wait at the broker. Messages published before
    `acknowledge` reach the broker before the acknowledgement does.

    `previous_filters` are topic filters of earlier configurations; the broker is asked to forget
    those that are not subscribed to any more. Set it before the first `read`.

    Parameters
    ----------
    broker
        Address and credentials.
    subscriptions
        Topic filters, for this session and after every reconnect.
    will
        Message that the broker publishes if this client vanishes.
    birth
        Message to publish after every connect.
    """

    def __init__(
        self,
        broker: Broker,
        subscriptions: Sequence[Subscription] = (),
        will: Outgoing | None = None,
        birth: Outgoing | None = None,
    ) -> None:
        self.broker = broker
        self.subscriptions = tuple(subscriptions)
        self.will = will
        self.birth = birth
        self.previous_filters: Sequence[str] = ()

    @property
    @abc.abstractmethod
    def connected(self) -> bool:
        """Whether the broker has accepted the connection and it still works."""

    @property
    @abc.abstractmethod
    def counters(self) -> dict[str, int]:
        """Event counts since the start.

        connects, connect_failures, received, redelivered, published, dropped.
        """

    @property
    @abc.abstractmethod
    def error(self) -> str | None:
        """Why the link is not connected, as text for people; None if it is."""

    @abc.abstractmethod
    def read(self, timeout: float) -> list[Message]:
        """Return received messages, [] if none arrived within `timeout` seconds.

        Reconnects for ever, with a delay that grows up to `broker.reconnect_max_seconds`; an
        unreachable broker is not an error.
        """

    @abc.abstractmethod
    def publish(self, messages: Iterable[Outgoing]) -> None:
        """Send messages without waiting for an answer.

        QoS 0 is dropped (and counted) when not connected or when the broker does not take it;
        QoS 1 is kept, up to `broker.outgoing_limit`.
        """

    @abc.abstractmethod
    def acknowledge(self, messages: Sequence[Message]) -> None:
        """Tell the broker that it may forget these messages: their effect is durable."""

    @abc.abstractmethod
    def close(self, farewell: Sequence[Outgoing] = ()) -> None:
        """Send queued messages and the farewell, then disconnect; the broker keeps the session."""


class Log(abc.ABC):
    """File of readings (rows) or of messages (topic and payload).

    Parameters
    ----------
    path
        The file; one that ends in `.gz` is compressed.
    fields
        Which columns are features, label, time, sequence number and device. Logs of messages
        ignore it: their payloads are decoded like those of a broker.
    """

    format = ""  # the name that it is installed by
    holds_messages = False  # whether `read` gives messages; otherwise readings

    def __init__(self, path: Path, fields: Fields | None = None) -> None:
        self.path = path
        self.fields = fields
        self.notes: list[str] = []  # remarks for people on how it is read
        self.unused: Sequence[str] = ()  # columns that were left out, because they are not numbers

    @classmethod
    @abc.abstractmethod
    def recognises(cls, name: str, head: bytes) -> bool:
        """Return True if a file with this name and first bytes is a log of this format."""

    @abc.abstractmethod
    def open(self) -> None:
        """Prepare to read from the start; raises if the file is not a log of this format."""

    @abc.abstractmethod
    def read(self) -> Sequence[Message] | Readings | None:
        """Return the next batch, None at the end. Invalid rows are listed in `refused`."""

    @property
    @abc.abstractmethod
    def progress(self) -> tuple[int, int]:
        """Bytes read so far and in total, as stored in the file."""

    @property
    def refused(self) -> list[str]:
        """Problems with rows of the last batch, with their line numbers."""
        return []

    @abc.abstractmethod
    def close(self) -> None:
        """Close the file; does nothing if it is not open."""

    @classmethod
    def writer(cls, path: Path) -> LogWriter:
        """Return a writer that appends to such a log; not every format can be written."""
        raise UnknownConnectorError(f"{path}: {cls.__name__} can only be read")


class LogWriter(abc.ABC):
    """Writer of a log of messages."""

    @abc.abstractmethod
    def write(self, messages: Iterable[Message]) -> None:
        """Append messages in this order."""

    @abc.abstractmethod
    def flush(self) -> None:
        """Flush everything to the file."""

    @abc.abstractmethod
    def close(self) -> None:
        """Flush and close the file."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class UnknownConnectorError(StreamLVQError, ValueError):
    """A connector that no installed package provides."""


def links() -> dict[str, type[Link]]:
    """Return the installed links, by the URL scheme that they serve."""
    return _load_installed("streamlvq.links")


def link_for(url: str) -> type[Link]:
    """Return the link that serves a URL; raises `UnknownConnectorError` if there is none."""
    known = links()
    scheme = urlsplit(url).scheme
    if scheme not in known:
        names = ", ".join(f"{name}://" for name in sorted(known))
        raise UnknownConnectorError(f"broker.url: expected {names}, got {url!r}")
    return known[scheme]


def guest_session(broker: Broker, purpose: str, **changes: Any) -> Broker:
    """Return the settings for a short visit beside whoever uses these settings already.

    A session of its own, which the broker need not keep: two clients of one name would throw each
    other out.

    Parameters
    ----------
    broker
        The settings of the client that is visited.
    purpose
        A short word for the client's name, so that people recognise it at the broker.
    changes
        Fields of `Broker` to replace besides; a guest who must miss nothing while its connection is
        broken sets `session_expiry_seconds`.

    Examples
    --------
    >>> from streamlvq.config import Broker
    >>> guest = guest_session(Broker(client_id="oven-3"), "look")
    >>> guest.client_id.startswith("oven-3-look-"), guest.session_expiry_seconds
    (True, 0)

    """
    name = f"{broker.client_id[:40]}-{purpose}-{os.getpid()}-{secrets.token_hex(3)}"
    changes = {"session_expiry_seconds": 0, **changes}
    return msgspec.structs.replace(broker, client_id=name, **changes)


def logs() -> dict[str, type[Log]]:
    """Return the installed logs, by the name of their format."""
    return _load_installed("streamlvq.logs")


def _load_installed(group: str) -> dict[str, Any]:
    """Load the entry points of a group, skipping broken packages with a warning."""
    found = {}
    for point in entry_points(group=group):
        try:
            found[point.name] = point.load()
        except Exception as error:
            _LOG.warning("the connector %s (%s) cannot be used: %s", point.name, point.value, error)
    return found


_HEAD_BYTES = 1 << 16  # bytes that tell formats apart
_GENERIC_FORMATS = ("jsonl", "csv")  # formats that resemble others: tried last


def open_log(path: Path, fields: Fields | None, format: str | None = None) -> Log:
    """Open a file of readings or messages for reading.

    Parameters
    ----------
    path
        The file; one that ends in `.gz` is compressed.
    fields
        Roles of columns, as in a configuration; None for the defaults.
    format
        Name of the format, one of `logs()`; None to recognise it from the file.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "oven.csv"
    >>> size = path.write_text("temperature,power\\n20.5,100\\n21.5,80\\n")
    >>> log = open_log(path, None)
    >>> readings = log.read()
    >>> readings.features, readings.rows.tolist()
    (('temperature', 'power'), [[20.5, 100.0], [21.5, 80.0]])
    >>> log.close()

    """
    known = logs()
    path = Path(path)
    if format is None:
        format = _recognise(path, known)
    if format not in known:
        raise UnknownConnectorError(
            f"expected a format among {sorted(known)}, got {format!r}{suggestion(format, known)}"
        )
    log = known[format](path, fields)
    log.format = format
    log.open()
    return log


def _recognise(path: Path, known: dict[str, type[Log]]) -> str:
    """Return the most specific format that recognises a file."""
    head = _read_head(path)
    order = [
        *sorted(known.keys() - set(_GENERIC_FORMATS)),
        *(name for name in _GENERIC_FORMATS if name in known),
    ]
    for name in order:
        if known[name].recognises(path.name, head):
            return name
    raise UnknownConnectorError(
        f"{path}: expected a log of a known format {sorted(known)}, got a file that begins with "
        f"{head[:40]!r}; name the format with --format (in Python: format=...)"
    )


def _read_head(path: Path) -> bytes:
    """Return the first bytes of a file, uncompressed."""
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    if path.suffix != ".gz":
        return head
    try:
        return zlib.decompressobj(31).decompress(head, _HEAD_BYTES)
    except zlib.error as error:
        raise UnknownConnectorError(f"{path}: expected gzip data, got {head[:40]!r}") from error
