"""Topics of the demo's second act."""

from __future__ import annotations

from streamlvq.demo.fleet_story import HALLS

FLEET = "halls"
DEVICE = "press"
CHAPTER = "hall/story"
SNAPSHOTS = f"streamlvq/fleet/{FLEET}/nodes/+"
DECISIONS = f"hall/+/{DEVICE}/decision"
STATUS = {f"streamlvq/streamlvq-demo-{node}/status": node for node in HALLS}
FILTERS = (DECISIONS, f"hall/+/{DEVICE}/truth", CHAPTER, SNAPSHOTS, *STATUS)


def topic(node: str, kind: str) -> str:
    """Where the press of a node publishes its readings or its truths.

    Examples
    --------
    >>> from streamlvq.demo.fleet_wire import topic
    >>> topic("west", "readings")
    'hall/west/press/readings'

    """
    return f"hall/{node}/{DEVICE}/{kind}"


def node_of(topic: str) -> str:
    """Whose topic it is."""
    return topic.split("/")[1]
