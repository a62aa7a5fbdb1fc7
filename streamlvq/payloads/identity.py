"""Topics and the devices that they name, which are told apart by all that their topics name."""

from __future__ import annotations

from collections.abc import Mapping

from streamlvq.config import Config
from streamlvq.topics import Template, original

DEVICE = "device"


class Identity:
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
    >>> from streamlvq.payloads.identity import Identity
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
    >>> from streamlvq.payloads.identity import DeviceTopics
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
        self.identity = Identity(config.readings.topic)  # labels are for devices of readings
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


__all__ = ["DEVICE", "DeviceTopics", "Identity"]
