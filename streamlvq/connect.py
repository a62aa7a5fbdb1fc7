"""What a connector is, and where those that are installed are found.

Two kinds: a *link* is a live connection that readings come from and decisions go to; a *log* is a
file of readings or messages. Packages register theirs as entry points of the groups
`streamlvq.links` (by the scheme of the URL) and `streamlvq.logs` (by the name of the format).
"""

from __future__ import annotations

import abc
import logging
import zlib
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self
from urllib.parse import urlsplit

from streamlvq.errors import StreamLVQError
from streamlvq.events import Readings

if TYPE_CHECKING:
    from streamlvq.config import Broker, Fields

_LOG = logging.getLogger(__name__)


class Message(NamedTuple):
    """Something that came: from a broker, or from a recording of one."""

    topic: str
    payload: bytes
    received: float  # seconds since 1970, by the clock of whoever received it
    redelivered: bool = False  # the broker says that it may have come before
    key: Any = None  # how the link knows it when it is to be acknowledged; None: no need to


class Outgoing(NamedTuple):
    """Something to send."""

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False


class Subscription(NamedTuple):
    """A topic filter to listen to.

    Attributes
    ----------
    filter, qos
        What, and how surely.
    always_retained
        Whether retained messages are wanted after every connect, not only when the subscription is
        new; for those of which only the last one counts.
    """

    filter: str
    qos: int
    always_retained: bool = False


class Link(abc.ABC):
    """A live connection, both ways.

    One thread uses it. `read` and `publish` run the network; there are no threads behind it, so
    nothing dies silently, and what is not read yet waits at the broker. What was published before
    `acknowledge` reaches the broker before the acknowledgement does.

    Parameters
    ----------
    broker
        Where, and as whom.
    subscriptions
        What to listen to, in this session and after every reconnect.
    will
        What the broker is to say if this client vanishes.
    birth
        What to say after every connect.

    `previous_filters` are topic filters of earlier configurations; the broker is asked to forget
    those that are not subscribed to any more. Set it before the first `read`.
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
        """Whether the broker has accepted us and nothing has gone wrong since."""

    @property
    @abc.abstractmethod
    def counters(self) -> dict[str, int]:
        """What happened since the start.

        connects, connect_failures, received, redelivered, published, dropped.
        """

    @property
    @abc.abstractmethod
    def error(self) -> str | None:
        """Why it is not connected, for people; None if all is well."""

    @abc.abstractmethod
    def read(self, timeout: float) -> list[Message]:
        """Messages that came, [] if none did within `timeout` seconds.

        Connects if need be, for ever, with a delay that grows up to `broker.reconnect_max_seconds`;
        a broker that is away is no error.
        """

    @abc.abstractmethod
    def publish(self, messages: Iterable[Outgoing]) -> None:
        """Send, without waiting for an answer. QoS 0 is dropped (and counted) when not connected
        or when the broker does not take it; QoS 1 is kept, up to `broker.outgoing_limit`."""

    @abc.abstractmethod
    def acknowledge(self, messages: Sequence[Message]) -> None:
        """The effect of these is durable; the broker may forget them."""

    @abc.abstractmethod
    def close(self, farewell: Sequence[Outgoing] = ()) -> None:
        """Send what is owed and the farewell, then disconnect; the session stays at the broker."""


class Log(abc.ABC):
    """A file of readings (rows) or of messages (topic and payload).

    Parameters
    ----------
    path
        The file; one that ends in `.gz` is compressed.
    fields
        Which columns are features, label, time, sequence number and device. Logs of messages
        have no use for it: their payloads are decoded like those of a broker.
    """

    format = ""  # the name that it is installed by
    holds_messages = False  # whether `read` gives messages; otherwise readings

    def __init__(self, path: Path, fields: Fields | None = None) -> None:
        self.path = path
        self.fields = fields
        self.notes: list[str] = []  # what people should know about how it is read

    @classmethod
    @abc.abstractmethod
    def recognises(cls, name: str, head: bytes) -> bool:
        """Whether a file of this name that begins like this is such a log."""

    @abc.abstractmethod
    def open(self) -> None:
        """Prepare to read from the start; raises if this is no such log."""

    @abc.abstractmethod
    def read(self) -> Sequence[Message] | Readings | None:
        """The next batch, None at the end. Rows that make no sense are in `refused`."""

    @property
    @abc.abstractmethod
    def progress(self) -> tuple[int, int]:
        """Bytes of the file (as stored) read so far, and in all."""

    @property
    def refused(self) -> list[str]:
        """What was wrong with rows of the last batch, with their line numbers."""
        return []

    @abc.abstractmethod
    def close(self) -> None:
        """Close the file; nothing if it is not open."""

    @classmethod
    def writer(cls, path: Path) -> LogWriter:
        """Writes such a log, at the end of what is there; not every format can be written."""
        raise UnknownConnectorError(f"{path}: {cls.__name__} can only be read")


class LogWriter(abc.ABC):
    """Writes a log of messages."""

    @abc.abstractmethod
    def write(self, messages: Iterable[Message]) -> None:
        """Add these, in this order."""

    @abc.abstractmethod
    def flush(self) -> None:
        """Let the file have all of it."""

    @abc.abstractmethod
    def close(self) -> None:
        """Flush and close the file."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class UnknownConnectorError(StreamLVQError, ValueError):
    """No package that is installed provides this connector."""


def links() -> dict[str, type[Link]]:
    """The installed links, by the scheme of the URLs that they serve."""
    return _load_installed("streamlvq.links")


def link_for(url: str) -> type[Link]:
    """The link that serves a URL; raises `UnknownConnectorError`."""
    known = links()
    scheme = urlsplit(url).scheme
    if scheme not in known:
        names = ", ".join(f"{name}://" for name in sorted(known))
        raise UnknownConnectorError(f"broker.url: expected {names}, got {url!r}")
    return known[scheme]


def logs() -> dict[str, type[Log]]:
    """The installed logs, by the name of their format."""
    return _load_installed("streamlvq.logs")


def _load_installed(group: str) -> dict[str, Any]:
    """All that can be loaded: a package that is broken must not take the others with it."""
    found = {}
    for point in entry_points(group=group):
        try:
            found[point.name] = point.load()
        except Exception as error:
            _LOG.warning("the connector %s (%s) cannot be used: %s", point.name, point.value, error)
    return found


_HEAD_BYTES = 1 << 16  # bytes that tell formats apart
_GENERIC_FORMATS = ("jsonl", "csv")  # formats that much else looks like: asked last


def open_log(path: Path, fields: Fields | None, format: str | None = None) -> Log:
    """Open a file of readings or messages, ready to be read.

    Parameters
    ----------
    path
        The file; one that ends in `.gz` is compressed.
    fields
        Which columns are what, as in a configuration; None for the defaults.
    format
        The name of the format, one of `logs()`; None to find out from the file.

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
        near = get_close_matches(format, known, n=1)
        hint = f": is it {near[0]!r}?" if near else ""
        raise UnknownConnectorError(
            f"expected a format among {sorted(known)}, got {format!r}{hint}"
        )
    log = known[format](path, fields)
    log.format = format
    log.open()
    return log


def _recognise(path: Path, known: dict[str, type[Log]]) -> str:
    """The format of a file: the most specific one that says it is."""
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
        f"{head[:40]!r}: say which it is with --format (in Python: format=...)"
    )


def _read_head(path: Path) -> bytes:
    """How a file begins, uncompressed."""
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    if path.suffix != ".gz":
        return head
    try:
        return zlib.decompressobj(31).decompress(head, _HEAD_BYTES)
    except zlib.error as error:
        raise UnknownConnectorError(f"{path}: expected gzip data, got {head[:40]!r}") from error
