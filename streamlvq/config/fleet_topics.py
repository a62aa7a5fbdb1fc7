"""The topics of a fleet: what its nodes publish, and what its hub makes for each of them."""

from __future__ import annotations

from typing import Literal, NamedTuple

from streamlvq.config.schema import Config, FleetSection
from streamlvq.topics import clean, original

Kind = Literal["snapshot", "model"]
_LEVELS: dict[str, Kind] = {"nodes": "snapshot", "models": "model"}


class Place(NamedTuple):
    """What a topic of the fleet is for, and whom it is about."""

    kind: Kind
    node: str


class FleetTopics:
    """The topics of one fleet.

    Parameters
    ----------
    section
        Names the fleet, and what its topics begin with.

    Examples
    --------

    >>> from streamlvq.config import FleetSection, FleetTopics

    >>> topics = FleetTopics(FleetSection(name="ovens", trust="everyone"))
    >>> topics.snapshot("oven 3"), topics.model("oven 3")
    ('streamlvq/fleet/ovens/nodes/oven%203', 'streamlvq/fleet/ovens/models/oven%203')
    >>> topics.snapshots
    'streamlvq/fleet/ovens/nodes/+'
    >>> topics.place("streamlvq/fleet/ovens/nodes/oven%203")
    Place(kind='snapshot', node='oven 3')
    >>> topics.place("streamlvq/fleet/kilns/nodes/oven%203") is None
    True

    """

    def __init__(self, section: FleetSection) -> None:
        self.root = f"{section.topic_prefix}/fleet/{section.name}"

    @property
    def snapshots(self) -> str:
        """The filter of what all nodes publish."""
        return f"{self.root}/nodes/+"

    @property
    def models(self) -> str:
        """The filter of what the hub makes for all nodes."""
        return f"{self.root}/models/+"

    def snapshot(self, node: str) -> str:
        """Where a node publishes what it learnt."""
        return f"{self.root}/nodes/{clean(node)}"

    def model(self, node: str) -> str:
        """Where the hub publishes what a node shall decide with."""
        return f"{self.root}/models/{clean(node)}"

    def place(self, topic: str) -> Place | None:
        """What a topic is for; None if it is none of the fleet's."""
        head, _, node = topic.rpartition("/")
        root, _, level = head.rpartition("/")
        if root != self.root or level not in _LEVELS:
            return None
        return Place(_LEVELS[level], original(node))


def own_name(config: Config) -> str:
    """The name of this node in its fleet."""
    assert config.fleet is not None
    return config.broker.client_id if config.fleet.node is None else config.fleet.node
