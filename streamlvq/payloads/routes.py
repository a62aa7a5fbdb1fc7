"""What a topic says about the messages that come on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple
from zlib import crc32

from streamlvq.config import Config
from streamlvq.connect import NO_TOPIC
from streamlvq.events import UNNAMED_DEVICE
from streamlvq.payloads.identity import DEVICE, DeviceTopics
from streamlvq.payloads.keys import stable_hash
from streamlvq.payloads.values import LONGEST

READING, LABEL, FOREIGN, UNKNOWN, NAMELESS = range(5)
REMEMBERED = 200_000  # topics, or devices
LONGEST_TOPIC = 1024  # characters of a topic that is remembered
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
        if route.kind in (UNKNOWN, NAMELESS) or len(topic) > LONGEST_TOPIC:
            return route
        if len(self) >= REMEMBERED:
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
        usable = name is not None and 0 < len(name) <= LONGEST
        device = self._topics.identity.join({**found, DEVICE: name or ""}) if usable else ""
        others = (value for key, value in found.items() if key != DEVICE)
        if not (usable or by_field) or any(len(value) > LONGEST for value in others):
            return Route(NAMELESS, "", "", NO_ORIGIN, NO_PLACEHOLDERS)
        if not by_field and device not in self._shard:
            kind = FOREIGN
        return Route(kind, device, self._group_of(device, found), stable_hash(topic), found)
