"""Home Assistant finds the devices by itself."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

import streamlvq
from streamlvq.config import Config
from streamlvq.connect import Outgoing
from streamlvq.daemon.session import own_topic
from streamlvq.payloads.identity import Identity
from streamlvq.topics import Template

MOST = 1000  # devices: whoever invents names must not fill the broker with retained messages
_UNFIT = re.compile(r"[^a-zA-Z0-9_-]")


class Discovery:
    """Announces two sensors for each device: the label, and how certain it is.

    Parameters
    ----------
    config
        `status.home_assistant` is the prefix of the topics; without it nothing is announced.

    Examples
    --------
    >>> from streamlvq.config import StatusSection
    >>> discovery = Discovery(Config(status=StatusSection(home_assistant="homeassistant")))
    >>> [message.topic for message in discovery.announce(["oven"])]
    ['homeassistant/sensor/streamlvq/oven_label/config',
     'homeassistant/sensor/streamlvq/oven_certainty/config']
    >>> list(discovery.announce(["oven"]))  # once is enough
    []

    """

    def __init__(self, config: Config) -> None:
        self.prefix = config.status.home_assistant
        self._node = fit(config.broker.client_id)
        self._availability = own_topic(config.status.topic, config)
        self._identity = Identity(config.readings.topic)
        self._decisions = _by_device(config.decisions.topic, self._identity)
        self._known: dict[str, None] = {}

    @property
    def active(self) -> bool:
        """Whether there is anything to announce."""
        return self.prefix is not None and self._decisions is not None

    def announce(self, devices: Iterable[str]) -> Iterator[Outgoing]:
        """Messages about those of these devices that are new."""
        if not self.active:
            return
        for device in devices:
            if device not in self._known and len(self._known) < MOST:
                messages = list(self._messages(device))
                self._known[device] = None  # only now: `again` must not meet what cannot be said
                yield from messages

    def again(self) -> Iterator[Outgoing]:
        """All of them: the broker may have forgotten."""
        for device in self._known:
            yield from self._messages(device)

    def _messages(self, device: str) -> Iterator[Outgoing]:
        yield self._sensor(
            device,
            "label",
            {"value_template": "{{ value_json.label }}", "icon": "mdi:state-machine"},
        )
        yield self._sensor(
            device,
            "certainty",
            {
                "value_template": "{{ (value_json.certainty * 100) | round(1) }}",
                "unit_of_measurement": "%",
                "state_class": "measurement",
            },
        )

    def _sensor(self, device: str, what: str, more: dict[str, Any]) -> Outgoing:
        assert self._decisions is not None
        name, topic = fit(device), self._decisions.fill(self._identity.split(device))
        record = {
            "name": what,
            "unique_id": f"{self._node}_{name}_{what}",
            "state_topic": topic,
            "json_attributes_topic": topic,
            "device": {
                "identifiers": [f"{self._node}_{name}"],
                "name": device.encode(errors="replace").decode(),
                "manufacturer": "streamlvq",
                "sw_version": streamlvq.__version__,
            },
            **self._availability_fields(),
            **more,
        }
        place = f"{self.prefix}/sensor/{self._node}/{name}_{what}/config"
        return Outgoing(place, msgspec.json.encode(record), retain=True)

    def _availability_fields(self) -> dict[str, str]:
        if self._availability is None:
            return {}
        return {
            "availability_topic": self._availability,
            "availability_template": "{{ value_json.state }}",
            "payload_available": "online",
            "payload_not_available": "offline",
        }


def fit(name: str) -> str:
    """A name of letters, digits, _ and -; different names stay different.

    Examples
    --------
    >>> fit("oven-1"), fit("oven 1")
    ('oven-1', 'oven_1_b0433192')

    """
    plain = _UNFIT.sub("_", name)[:64]
    if plain == name:
        return name
    whole = name.encode(errors="surrogatepass")  # half a character is a difference, too
    return f"{plain}_{hashlib.blake2b(whole, digest_size=4).hexdigest()}"


def _by_device(topic: str | None, identity: Identity) -> Template | None:
    """The decisions' topic, if a device's identity is all that it depends on."""
    template = None if topic is None else Template(topic, publish=True)
    if template is None or not set(template.placeholders) <= set(identity.names):
        return None
    return template


__all__ = ["Discovery"]
