"""Topics and messages of the demo."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from streamlvq.config import Broker
from streamlvq.connect import Link, Subscription, link_for

STATUS = "streamlvq/streamlvq-demo/status"
CHAPTER = "demo/story"


class Truth(msgspec.Struct):
    """What a machine really did when it took a reading; the daemon does not listen to it."""

    device: str
    sequence: int
    state: str
    glitch: bool = False
    phase: str = ""  # of the story of a fleet


class Told(msgspec.Struct):
    """A chapter of the story begins."""

    seconds: float
    kind: str
    text: str
    device: str


class Said(msgspec.Struct):
    """The part of a decision that is shown."""

    device: str
    label: str | None
    accepted: bool
    reason: str | None
    certainty: float
    threshold: float | None
    sequence: int
    version: int
    duplicate: bool = False
    model: str = "local"  # or "fused"


class Online(msgspec.Struct):
    """The part of the daemon's status that matters here."""

    state: str


def readings_topic(device: str) -> str:
    return f"demo/{device}/readings"


def labels_topic(device: str) -> str:
    return f"demo/{device}/labels"


def truth_topic(device: str) -> str:
    return f"demo/{device}/truth"


def open_link(url: str, name: str, filters: Sequence[str] = ()) -> Link:
    """A connection to the broker of the demo."""
    broker = Broker(
        url=url,
        client_id=f"streamlvq-demo-{name}",
        protocol="3.1.1",
        session_expiry_seconds=0,
        reconnect_max_seconds=1.0,
    )
    return link_for(url)(broker, [Subscription(one, 0) for one in filters])
