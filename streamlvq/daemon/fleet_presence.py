"""Who of a fleet is online and decides with what, by what nodes say on their status topics.

Nobody signs these: they are for people to look at, and nothing else depends on them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

import msgspec

from streamlvq.config import Config
from streamlvq.connect import Message
from streamlvq.topics import Template

LARGEST = 2**20  # bytes of a status


class Presence(NamedTuple):
    """What a node says of itself."""

    state: Literal["online", "offline"]
    decides: Literal["local", "fused"] | None = None  # None: it did not say
    role: str = "peer"


class _Fleet(msgspec.Struct):
    name: str
    node: str
    role: str = "peer"
    serving: Literal["local", "fused"] = "local"


class _Status(msgspec.Struct):
    state: Literal["online", "offline"]
    fleet: _Fleet | None = None


def status_filter(config: Config) -> str | None:
    """Where nodes that are configured alike say how they are; None if they do not.

    Examples
    --------
    >>> status_filter(Config())
    'streamlvq/+/status'

    """
    return None if config.status.topic is None else Template(config.status.topic).filter


def presences(config: Config, messages: Iterable[Message]) -> dict[str, Presence]:
    """What nodes of the fleet say of themselves, by name; of several messages the last counts.

    Parameters
    ----------
    config
        That of somebody in the fleet.
    messages
        Whatever came.

    """
    if config.status.topic is None or config.fleet is None:
        return {}
    template, found = Template(config.status.topic), dict[str, Presence]()
    for message in messages:
        if template.match(message.topic) is None or len(message.payload) > LARGEST:
            continue
        try:
            status = msgspec.json.decode(message.payload, type=_Status)
        except msgspec.DecodeError:
            continue  # of somebody who says it otherwise
        if (said := status.fleet) is None or said.name != config.fleet.name:
            continue
        decides = said.serving if status.state == "online" and said.role != "hub" else None
        found[said.node] = Presence(status.state, decides, said.role)
    return found


__all__ = ["Presence", "presences", "status_filter"]
