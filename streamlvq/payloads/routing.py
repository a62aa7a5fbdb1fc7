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
from streamlvq.events import ALL_DEVICES, UNNAMED_DEVICE
from streamlvq.payloads.values import MAX_NAME_CHARACTERS
from streamlvq.topics import Template, original

# --- keys of messages ----------------------------------------------------------------------------

Words = npt.NDArray[np.uint64]

_ODD = np.array(  # large odd multipliers that spread small differences over all bits
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
    """Return a 64-bit hash of a text, never 0."""
    data = text.encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "little") or 1


def message_keys(
    hashes: Sequence[int],
    payloads: Sequence[bytes],
    sequences: Sequence[int | None] | None,
    times: Sequence[float | None] | None,
) -> list[int]:
    """Return a key for each message, never 0.

    `hashes` are those of the topic or device of each message. A checksum of the payload goes in as
    well; 32 bits are too few to tell thousands of messages apart, so the sequence number or time is
    added or, where there is neither, a second checksum. `sequences` and `times` are None if the
    payloads never have them.
    """
    mixed = np.array(hashes, dtype=np.uint64)
    mixed ^= np.array(list(map(crc32, payloads)), dtype=np.uint64) * _ODD[0]
    if sequences is not None:
        known = [0 if s is None else s for s in sequences] if None in sequences else sequences
        mixed ^= np.array(known, dtype=np.int64).view(np.uint64) * _ODD[1]
    if times is not None:
        moments = [0.0 if t is None else t for t in times] if None in times else times
        mixed ^= np.array(moments, dtype=np.float64).view(np.uint64) * _ODD[2]
    unmarked = _without_mark(len(mixed), sequences, times)
    if unmarked:
        mixed[unmarked] ^= (
            np.array([adler32(payloads[i]) for i in unmarked], dtype=np.uint64) << _SHIFTS[3]
        )
    return _mix(mixed)


def _without_mark(
    count: int,
    sequences: Sequence[int | None] | None,
    times: Sequence[float | None] | None,
) -> list[int]:
    """Return the positions of messages with neither sequence number nor time."""
    for column in (sequences, times):
        if column is not None and None not in column:
            return []
    return [
        i
        for i in range(count)
        if (sequences is None or sequences[i] is None) and (times is None or times[i] is None)
    ]


def _mix(mixed: Words) -> list[int]:
    """Mix the bits so that every bit depends on every other; return signed integers."""
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
    """Device identity: the values of all placeholders of a topic, joined by `/`.

    Two sites may have devices of the same name. The values are in the order of the template; a
    device that only the payload names comes last. If there are several values, a `/` in one becomes
    `%2F` and a `%` becomes `%25`, so that different devices stay different.

    Examples
    --------
    >>> from streamlvq.payloads.routing import DeviceIdentity
    >>> identity = DeviceIdentity("plant/{site}/{device}/readings")
    >>> identity.join({"site": "leeds", "device": "pump1"})
    'leeds/pump1'
    >>> identity.split("leeds/pump1")
    {'site': 'leeds', 'device': 'pump1'}
    >>> DeviceIdentity("plant/{device}/readings").join({"device": "pump1"})
    'pump1'

    """

    __slots__ = ("names",)

    def __init__(self, topic: str) -> None:
        names = Template(topic).placeholders
        self.names = names if DEVICE in names else (*names, DEVICE)

    @property
    def is_plain(self) -> bool:
        """Whether the identity is just the device's name."""
        return len(self.names) == 1

    def join(self, values: Mapping[str, str]) -> str:
        """Return a device's identity from the values in its topic and payload."""
        if self.is_plain:
            return values[DEVICE]
        return "/".join([_escape(values.get(name, "")) for name in self.names])

    def split(self, device: str) -> dict[str, str]:
        """Return the parts of an identity; one from a file consists of the device alone."""
        parts = device.split("/")
        if self.is_plain or len(parts) != len(self.names):
            return {DEVICE: device}
        return dict(zip(self.names, map(_unescape, parts), strict=True))


def _escape(value: str) -> str:
    return value.replace("%", "%25").replace("/", "%2F")


def _unescape(part: str) -> str:
    return part.replace("%2F", "/").replace("%25", "%")


class DeviceTopics:
    """Topic templates of readings and labels, and the devices that topics are about.

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
        """Templates as configured."""
        return [each.text for each in (self.readings, self.labels) if each is not None]

    def match_reading(self, topic: str) -> dict[str, str] | None:
        """Return the placeholders of a reading topic; None for any other topic."""
        return _placeholders(self.readings, topic)

    def match_label(self, topic: str) -> dict[str, str] | None:
        """Return the placeholders of a label topic; None for any other topic."""
        return None if self.labels is None else _placeholders(self.labels, topic)

    def fill(self, template: Template, device: str, **more: str) -> str:
        """Return the topic for a device; placeholders missing from its identity are left empty."""
        values = dict.fromkeys(template.placeholders, "")
        return template.fill(values | {DEVICE: device, **self.identity.split(device), **more})


def _placeholders(template: Template, topic: str) -> dict[str, str] | None:
    """Return the unescaped values of the placeholders; None if the topic does not match."""
    found = template.match(topic)
    return found and {name: _original(level) for name, level in found.items()}


def _original(level: str) -> str:
    try:
        return original(level)
    except UnicodeDecodeError:  # its percent signs are not our escapes
        return level


# --- routes of topics ----------------------------------------------------------------------------

READING, LABEL, OTHER_SHARD, UNKNOWN, INVALID_DEVICE = range(5)
TOPIC_CACHE_SIZE = 200_000  # topics, or devices
MAX_CACHED_TOPIC_CHARACTERS = 1024  # longer topics are not cached
NO_ORIGIN = 0  # hash for a row of a file, which has no topic and cannot be delivered twice

NO_PLACEHOLDERS: Mapping[str, str] = {}

GroupOf = Callable[[str, Mapping[str, str]], str]


class Route(NamedTuple):
    """What a topic tells about its messages."""

    kind: int
    device: str  # its identity; "" if only the payload names it
    group: str
    hash: int  # of the topic
    placeholders: Mapping[str, str]


def group_of(config: Config) -> GroupOf:
    """Return the function from device identity and topic placeholders to the model's name.

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
        return lambda device, placeholders: ALL_DEVICES
    if per == "device":
        return lambda device, placeholders: device
    return lambda device, placeholders: placeholders.get(per, ALL_DEVICES)


class Shard:
    """Set of the devices that this instance handles, by identity."""

    def __init__(self, config: Config) -> None:
        self.index, self.count = config.shard.index, config.shard.count

    def __contains__(self, device: object) -> bool:
        if self.count <= 1:
            return True
        return crc32(str(device).encode("utf-8", "surrogatepass")) % self.count == self.index


class Routes(dict[str, Route]):
    """Bounded cache of routes by topic.

    Routes of refused topics are not cached, because a broken publisher can invent any number of
    long topics.
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
        if route.kind in (UNKNOWN, INVALID_DEVICE) or len(topic) > MAX_CACHED_TOPIC_CHARACTERS:
            return route
        if len(self) >= TOPIC_CACHE_SIZE:
            self.clear()  # matching again is cheap
        self[topic] = route
        return route

    def _find(self, topic: str) -> Route:
        if topic == NO_TOPIC:
            device = "" if self._device_fields[READING] else UNNAMED_DEVICE
            group = self._group_of(device, NO_PLACEHOLDERS)
            return Route(READING, device, group, NO_ORIGIN, NO_PLACEHOLDERS)
        found = self._topics.match_label(topic)
        if found is not None:  # first: the template of readings may match too
            return self._route(LABEL, topic, found)
        found = self._topics.match_reading(topic)
        if found is None:
            return Route(UNKNOWN, "", "", NO_ORIGIN, NO_PLACEHOLDERS)
        return self._route(READING, topic, found)

    def _route(self, kind: int, topic: str, found: dict[str, str]) -> Route:
        by_field = self._device_fields[kind]
        name = found.get(DEVICE)
        if name is None and not by_field:  # a single device, whose name does not matter
            name = UNNAMED_DEVICE
        usable = name is not None and 0 < len(name) <= MAX_NAME_CHARACTERS
        device = self._topics.identity.join({**found, DEVICE: name or ""}) if usable else ""
        others = (value for key, value in found.items() if key != DEVICE)
        if not (usable or by_field) or any(len(value) > MAX_NAME_CHARACTERS for value in others):
            return Route(INVALID_DEVICE, "", "", NO_ORIGIN, NO_PLACEHOLDERS)
        if not by_field and device not in self._shard:
            kind = OTHER_SHARD
        return Route(kind, device, self._group_of(device, found), stable_hash(topic), found)
