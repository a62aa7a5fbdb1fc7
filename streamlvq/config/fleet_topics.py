"""The topics of a fleet: what its nodes publish, and what its hub makes for each of them."""

from __future__ import annotations

from typing import Literal, NamedTuple

from streamlvq.config.schema import Config, FleetSection
from streamlvq.topics import clean, original

Kind = Literal["snapshot", "model"]
_LEVELS: dict[str, Kind] = {"nodes": "snapshot", "models": "model"}


class FleetTopic(NamedTuple):
    """What a topic of the fleet carries, and the node that it is about."""

    kind: Kind
    node: str


class FleetTopics:
    """The topics of one fleet.

    Examples
    --------

    >>> from streamlvq.config import FleetSection, FleetTopics

    >>> topics = FleetTopics(FleetSection(name="ovens", trust="everyone"))
    >>> topics.snapshot("oven 3"), topics.model("oven 3")
    ('streamlvq/fleet/ovens/nodes/oven%203', 'streamlvq/fleet/ovens/models/oven%203')
    >>> topics.snapshots
    'streamlvq/fleet/ovens/nodes/+'
    >>> topics.parse("streamlvq/fleet/ovens/nodes/oven%203")
    FleetTopic(kind='snapshot', node='oven 3')
    >>> topics.parse("streamlvq/fleet/kilns/nodes/oven%203") is None
    True

    """

    def __init__(self, section: FleetSection) -> None:
        self.root = f"{section.topic_prefix}/fleet/{section.name}"

    @property
    def snapshots(self) -> str:
        """Filter of the topics that nodes publish to."""
        return f"{self.root}/nodes/+"

    @property
    def models(self) -> str:
        """Filter of the topics that the hub publishes to."""
        return f"{self.root}/models/+"

    def snapshot(self, node: str) -> str:
        """Return the topic of a node's own model."""
        return f"{self.root}/nodes/{clean(node)}"

    def model(self, node: str) -> str:
        """Return the topic of the model that the hub made for a node."""
        return f"{self.root}/models/{clean(node)}"

    def parse(self, topic: str) -> FleetTopic | None:
        """Parse a topic; None if it does not belong to the fleet."""
        head, _, node = topic.rpartition("/")
        root, _, level = head.rpartition("/")
        if root != self.root or level not in _LEVELS:
            return None
        return FleetTopic(_LEVELS[level], original(node))


def own_name(config: Config) -> str:
    """Return the name of this node in its fleet."""
    assert config.fleet is not None
    return config.broker.client_id if config.fleet.node is None else config.fleet.node
