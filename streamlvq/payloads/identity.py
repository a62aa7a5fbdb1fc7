"""What tells a device from all others: everything that its topic names."""

from __future__ import annotations

from collections.abc import Mapping

from streamlvq.topics import Template

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


__all__ = ["DEVICE", "Identity"]
