"""Topics and payloads of the demo, and how to connect to its broker."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from streamlvq.config import Broker
from streamlvq.connect import Link, Outgoing, Subscription, guest_session, link_for
from streamlvq.synth import FEATURES

FLEET_NAME = "halls"
FLEET_DEVICE = "press"
PLANT_STORY_TOPIC, FLEET_STORY_TOPIC = "demo/story", "hall/story"
CLIENT_ID = "streamlvq-demo"
encode_json = msgspec.json.encode


class TruthMessage(msgspec.Struct):
    """True state of a machine at one reading; daemons do not subscribe to it."""

    device: str
    sequence: int
    state: str
    glitch: bool = False
    phase: str = ""  # of the fleet's story


class ChapterMessage(msgspec.Struct):
    """Beginning of a chapter of the story, in seconds since the machines were switched on."""

    seconds: float
    kind: str
    text: str
    device: str = ""


class DecisionMessage(msgspec.Struct):
    """The part of a published decision that is shown."""

    device: str
    label: str | None
    accepted: bool
    reason: str | None
    certainty: float
    threshold: float | None
    sequence: int
    version: int
    duplicate: bool = False
    model: str = "local"  # or "fused", or "pool"

    @property
    def fused(self) -> bool:
        """Whether models of the fleet had a say, not the node's own alone."""
        return self.model != "local"


class PreviewMessage(msgspec.Struct):
    """Reading of a machine before the daemon is up; daemons do not subscribe to it."""

    state: str
    values: dict[str, float]  # by feature


class StatusMessage(msgspec.Struct):
    """The part of a daemon's status that matters here."""

    state: str


def plant_topic(device: str, kind: str) -> str:
    """Return the topic of a machine's readings, labels, truths, previews or decisions."""
    return f"demo/{device}/{kind}"


def fleet_topic(node: str, kind: str) -> str:
    """Return the topic of the readings, truths or decisions of a node's press.

    Examples
    --------
    >>> from streamlvq.demo.messages import fleet_topic
    >>> fleet_topic("west", "readings")
    'hall/west/press/readings'

    """
    return f"hall/{node}/{FLEET_DEVICE}/{kind}"


def snapshot_topic(node: str) -> str:
    """Return the topic of a node's signed snapshots; `+` for all nodes."""
    return f"streamlvq/fleet/{FLEET_NAME}/nodes/{node}"


def status_topic(node: str | None = None) -> str:
    """Return the status topic of the plant's daemon or of a node's."""
    client = CLIENT_ID if node is None else f"{CLIENT_ID}-{node}"
    return f"streamlvq/{client}/status"


def source_of(topic: str) -> str:
    """Return the device or node that a topic of the demo belongs to."""
    return topic.split("/")[1]


def reading_messages(
    topic: Callable[[str], str],
    truth: TruthMessage,
    row: Sequence[float],
    now: float,
    labelled: bool,
) -> list[Outgoing]:
    """Return the truth for the view, then the reading for the daemon.

    Parameters
    ----------
    topic
        Returns the topic of the machine for `truth` and for `readings`.
    truth
        State and sequence number of the reading.
    row
        Values of the sensors.
    now
        Time of the reading.
    labelled
        Whether the reading carries its label.

    """
    label = {"label": truth.state} if labelled else {}
    values = {name: round(value, 3) for name, value in zip(FEATURES, row, strict=True)}
    reading = {"time": round(now, 3), "sequence": truth.sequence, **label, **values}
    return [
        Outgoing(topic("truth"), encode_json(truth)),
        Outgoing(topic("readings"), encode_json(reading), qos=1),
    ]


def open_link(url: str, name: str, filters: Sequence[str] = ()) -> Link:
    """Connect a part of the demo to its broker."""
    demo = Broker(url=url, client_id=CLIENT_ID, protocol="3.1.1", reconnect_max_seconds=1.0)
    broker = guest_session(demo, name)
    return link_for(url)(broker, [Subscription(one, 0) for one in filters])
