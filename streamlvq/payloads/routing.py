"""Routing: device, group and shard of a topic, and keys that tell messages apart.

Hashes and keys are the same in every process and on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import NamedTuple
from zlib import adler32, crc32

import numpy as np
import numpy.typing as npt

from streamlvq.config import Config
from streamlvq.connect import NO_TOPIC
from streamlvq.events import UNNAMED_DEVICE
from streamlvq.payloads.values import MAX_NAME_CHARACTERS
from streamlvq.topics import Template, original

# --- keys of messages ----------------------------------------------------------------------------

Words = npt.NDArray[np.uint64]

_ODD = np.array(  # large odd numbers, to spread what differs in few bits
    [
        0x9E3779B97F4A7C15,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0xBF58476D1CE4E5B9,
        0x94D049BB133111EB,
    ],
    dtype=np.uint64,
)
_SHIFTS = np.array([30, 27, 31, 32], dtype=np.uint64)


def stable_hash(text: str) -> int:
    """64 bits of a text, never 0."""
    data = text.encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "little") or 1


def message_keys(
    hashes: Sequence[int],
    payloads: Sequence[bytes],
    sequences: Sequence[int | None] | None,
    times: Sequence[float | None] | None,
) -> list[int]:
    """A key for each message, never 0.

    Parameters
    ----------
    hashes
        Of the topic or device that each came from.
    payloads
        Their bytes, of which a checksum goes in. 32 bits are too few to tell thousands of messages
        apart; the sequence number or the time makes up for it and, where there is neither, another
        checksum.
    sequences, times
        What the payloads say, None if they never do.

    """
    mixed = np.array(hashes, dtype=np.uint64)
    mixed ^= np.array(list(map(crc32, payloads)), dtype=np.uint64) * _ODD[0]
    if sequences is not None:
        known = [0 if s is None else s for s in sequences] if None in sequences else sequences
        mixed ^= np.array(known, dtype=np.int64).view(np.uint64) * _ODD[1]
    if times is not None:
        moments = [0.0 if t is None else t for t in times] if None in times else times
        mixed ^= np.array(moments, dtype=np.float64).view(np.uint64) * _ODD[2]
    bare = _bare(len(mixed), sequences, times)
    if bare:
        mixed[bare] ^= np.array([adler32(payloads[i]) for i in bare], dtype=np.uint64) << _SHIFTS[3]
    return _finish(mixed)


def _bare(
    count: int,
    sequences: Sequence[int | None] | None,
    times: Sequence[float | None] | None,
) -> list[int]:
    """Which have neither sequence number nor time."""
    for column in (sequences, times):
        if column is not None and None not in column:
            return []
    return [
        i
        for i in range(count)
        if (sequences is None or sequences[i] is None) and (times is None or times[i] is None)
    ]


def _finish(mixed: Words) -> list[int]:
    """Let every bit depend on every other; as signed integers."""
    mixed ^= mixed >> _SHIFTS[0]
    mixed *= _ODD[3]
    mixed ^= mixed >> _SHIFTS[1]
    mixed *= _ODD[4]
    mixed ^= mixed >> _SHIFTS[2]
    mixed[mixed == 0] = 1
    keys: list[int] = mixed.view(np.int64).tolist()
    return keys


# --- identity of devices -------------------------------------------------------------------------

DEVICE = "device"


class DeviceIdentity:
    """The identity of devices: the values of all placeholders of a topic, joined by `/`.

    Two sites may well have devices of the same name. They are in the order of the template; a
    device that only the payload names comes last. Where there are several, a `/` in a value becomes
    `%2F` and a `%` becomes `%25`, so that different devices stay different.

    Parameters
    ----------
    topic
        The template of the topics of readings.

    Examples
    --------
    >>> from streamlvq.payloads.routing import Identity
    >>> identity = Identity("plant/{site}/{device}/readings")
    >>> identity.join({"site": "leeds", "device": "pump1"})
    'leeds/pump1'
    >>> identity.split("leeds/pump1")
    {'site': 'leeds', 'device': 'pump1'}
    >>> Identity("plant/{device}/readings").join({"device": "pump1"})
    'pump1'

    """

    __slots__ = ("names",)

    def __init__(self, topic: str) -> None:
        names = Template(topic).placeholders
        self.names = names if DEVICE in names else (*names, DEVICE)

    @property
    def is_plain(self) -> bool:
        """Whether it is just the name of the device."""
        return len(self.names) == 1

    def join(self, values: Mapping[str, str]) -> str:
        """The identity of a device from what its topic and payload name."""
        if self.is_plain:
            return values[DEVICE]
        return "/".join([_escape(values.get(name, "")) for name in self.names])

    def split(self, device: str) -> dict[str, str]:
        """What an identity was made of. One that a file names has no other part than the device."""
        parts = device.split("/")
        if self.is_plain or len(parts) != len(self.names):
            return {DEVICE: device}
        return dict(zip(self.names, map(_unescape, parts), strict=True))


def _escape(value: str) -> str:
    return value.replace("%", "%25").replace("/", "%2F")


def _unescape(part: str) -> str:
    return part.replace("%2F", "/").replace("%25", "%")


class DeviceTopics:
    """The topics of a configuration, and which devices they are about.

    Parameters
    ----------
    config
        The sections `readings` and `labels`.

    Examples
    --------
    >>> from streamlvq.config import Config, ReadingsSection
    >>> from streamlvq.payloads.routing import DeviceTopics
    >>> from streamlvq.topics import Template
    >>> topics = DeviceTopics(Config(readings=ReadingsSection(topic="{site}/{device}/readings")))
    >>> topics.filters
    {'+/+/readings': 1}
    >>> found = topics.match_reading("leeds/pump1/readings")
    >>> found, topics.identity.join(found)
    ({'site': 'leeds', 'device': 'pump1'}, 'leeds/pump1')
    >>> topics.fill(Template("{site}/{device}/decision", publish=True), "leeds/pump1")
    'leeds/pump1/decision'

    """

    def __init__(self, config: Config) -> None:
        self.readings = Template(config.readings.topic)
        self.labels = None if config.labels is None else Template(config.labels.topic)
        self.identity = DeviceIdentity(config.readings.topic)  # labels are for devices of readings
        self.filters = {self.readings.filter: int(config.readings.qos)}  # with quality of service
        if config.labels is not None and self.labels is not None:
            qos = max(self.filters.get(self.labels.filter, 0), int(config.labels.qos))
            self.filters[self.labels.filter] = qos

    @property
    def templates(self) -> list[str]:
        """The templates as they are configured."""
        return [each.text for each in (self.readings, self.labels) if each is not None]

    def match_reading(self, topic: str) -> dict[str, str] | None:
        """Return the placeholders of a topic of readings; None for another topic."""
        return _placeholders(self.readings, topic)

    def match_label(self, topic: str) -> dict[str, str] | None:
        """Return the placeholders of a topic of labels; None for another topic."""
        return None if self.labels is None else _placeholders(self.labels, topic)

    def fill(self, template: Template, device: str, **more: str) -> str:
        """Return the topic about a device; parts that its identity does not tell are empty."""
        values = dict.fromkeys(template.placeholders, "")
        return template.fill(values | {DEVICE: device, **self.identity.split(device), **more})


def _placeholders(template: Template, topic: str) -> dict[str, str] | None:
    """What the placeholders stand for, as it was before it was made fit for a topic."""
    found = template.match(topic)
    return found and {name: _original(level) for name, level in found.items()}


def _original(level: str) -> str:
    try:
        return original(level)
    except UnicodeDecodeError:  # percent signs of its own, which are not ours to undo
        return level


# --- routes of topics ----------------------------------------------------------------------------

READING, LABEL, FOREIGN, UNKNOWN, NAMELESS = range(5)
TOPIC_CACHE_SIZE = 200_000  # topics, or devices
MAX_CACHED_TOPIC_CHARACTERS = 1024  # characters of a topic that is remembered
NO_ORIGIN = 0  # the hash of what is no topic: a row of a file, which cannot come twice

NO_PLACEHOLDERS: Mapping[str, str] = {}

GroupOf = Callable[[str, Mapping[str, str]], str]


class Route(NamedTuple):
    """What is known of a message before its payload is looked at."""

    kind: int
    device: str  # its identity; "" if only the payload says
    group: str
    hash: int  # of the topic
    placeholders: Mapping[str, str]


def group_of(config: Config) -> GroupOf:
    """The function from a device's identity and its topic's placeholders to its model's name.

    Examples
    --------
    >>> from streamlvq.config import Config, ModelSection
    >>> from streamlvq.payloads import group_of
    >>> group_of(Config())("pump7", {"site": "leeds"})
    ''
    >>> group_of(Config(model=ModelSection(per="device")))("leeds/pump7", {"site": "leeds"})
    'leeds/pump7'
    >>> group_of(Config(model=ModelSection(per="site")))("leeds/pump7", {"site": "leeds"})
    'leeds'

    """
    per = config.model.per
    if per == "all":
        return lambda device, placeholders: ""
    if per == "device":
        return lambda device, placeholders: device
    return lambda device, placeholders: placeholders.get(per, "")


class Shard:
    """Which devices are ours, by their identity."""

    def __init__(self, config: Config) -> None:
        self.index, self.count = config.shard.index, config.shard.count

    def __contains__(self, device: object) -> bool:
        if self.count <= 1:
            return True
        return crc32(str(device).encode("utf-8", "surrogatepass")) % self.count == self.index


class Routes(dict[str, Route]):
    """From topics to what they say; bounded.

    Whoever publishes nonsense can think of any number of long topics, so those that are refused are
    looked at anew each time.

    Parameters
    ----------
    config
        The shard, and what each model is for.
    topics
        The topics of that configuration.

    """

    def __init__(self, config: Config, topics: DeviceTopics) -> None:
        super().__init__()
        self._topics = topics
        self._device_fields = {
            READING: config.readings.device is not None,
            LABEL: config.labels is not None and config.labels.device is not None,
        }
        self._group_of = group_of(config)
        self._shard = Shard(config)

    def __missing__(self, topic: str) -> Route:
        route = self._find(topic)
        if route.kind in (UNKNOWN, NAMELESS) or len(topic) > MAX_CACHED_TOPIC_CHARACTERS:
            return route
        if len(self) >= TOPIC_CACHE_SIZE:
            self.clear()  # finding out again is cheap
        self[topic] = route
        return route

    def _find(self, topic: str) -> Route:
        if topic == NO_TOPIC:
            device = "" if self._device_fields[READING] else UNNAMED_DEVICE
            group = self._group_of(device, NO_PLACEHOLDERS)
            return Route(READING, device, group, NO_ORIGIN, NO_PLACEHOLDERS)
        found = self._topics.match_label(topic)
        if found is not None:  # first, as a template of readings may well match them too
            return self._route(LABEL, topic, found)
        found = self._topics.match_reading(topic)
        if found is None:
            return Route(UNKNOWN, "", "", NO_ORIGIN, NO_PLACEHOLDERS)
        return self._route(READING, topic, found)

    def _route(self, kind: int, topic: str, found: dict[str, str]) -> Route:
        by_field = self._device_fields[kind]
        name = found.get(DEVICE)
        if name is None and not by_field:  # there is one device, whose name does not matter
            name = UNNAMED_DEVICE
        usable = name is not None and 0 < len(name) <= MAX_NAME_CHARACTERS
        device = self._topics.identity.join({**found, DEVICE: name or ""}) if usable else ""
        others = (value for key, value in found.items() if key != DEVICE)
        if not (usable or by_field) or any(len(value) > MAX_NAME_CHARACTERS for value in others):
            return Route(NAMELESS, "", "", NO_ORIGIN, NO_PLACEHOLDERS)
        if not by_field and device not in self._shard:
            kind = FOREIGN
        return Route(kind, device, self._group_of(device, found), stable_hash(topic), found)
