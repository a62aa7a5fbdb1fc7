"""What the view knows of the fleet: decisions of each node beside the truth."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from msgspec.json import decode

from streamlvq.connect import Message
from streamlvq.demo.episodes import ENOUGH
from streamlvq.demo.fleet_insight import Insight
from streamlvq.demo.fleet_story import HALLS, LACKS
from streamlvq.demo.fleet_wire import CHAPTER, STATUS, node_of
from streamlvq.demo.pairs import Pairs, Seen
from streamlvq.demo.watch import STRIP, Note
from streamlvq.demo.wire import Online, Said, Told, Truth


@dataclass
class Tally:
    """How decisions ended."""

    decided: int = 0
    right: int = 0
    unseen: int = 0  # readings in the state that the node has never seen labelled
    recognised: int = 0  # of these

    def count(self, seen: Seen, lacks: str | None) -> None:
        self.decided += 1
        self.right += seen.right
        self.unseen += seen.truth.state == lacks
        self.recognised += seen.right and seen.truth.state == lacks

    @property
    def accuracy(self) -> float | None:
        return self.right / self.decided if self.decided else None


@dataclass
class NodeWatch:
    """One node."""

    lacks: str | None = None
    online: bool = False
    joined: bool = False
    learnt: int = 0  # labels, by its own model
    version: int | None = None  # which model of the fleet made the last decision; None: its own
    alone: Tally = field(default_factory=Tally)  # its own model's round
    together: Tally = field(default_factory=Tally)  # the fleet's
    last: Seen | None = None
    strip: deque[Seen] = field(default_factory=lambda: deque(maxlen=STRIP))
    pairs: Pairs = field(default_factory=Pairs)
    streak: int = 0  # readings of the unseen state in a row that were recognised

    @property
    def fused(self) -> bool:
        """Whether what all nodes know decides here."""
        return self.version is not None


class FleetWatch:
    """Counts and remembers what comes from the broker.

    A decision says which model made it: its own, whose versions count labels, or one of the fleet,
    whose versions count models. Each counts for the model that made it, and only in the round
    that is meant for it.
    """

    def __init__(self) -> None:
        self.insight = Insight()  # into what nodes share
        self.nodes = {node: NodeWatch(LACKS.get(node)) for node in HALLS}
        self.notes: list[Note] = []
        self.phase = ""
        self.decided = 0
        self.began: float | None = None
        self.over = False
        self._ended: float | None = None

    @property
    def online(self) -> bool:
        """Whether all nodes are up."""
        return all(node.online for node in self.nodes.values())

    @property
    def seconds(self) -> float:
        """Since the presses were switched on."""
        if self.began is None:
            return 0.0
        return (time.monotonic() if self._ended is None else self._ended) - self.began

    def stop(self) -> None:
        """Let the clock stand still."""
        self._ended = self._ended or time.monotonic()

    def note(self, kind: str, text: str) -> None:
        """Remember something worth telling."""
        self.notes.append(Note(self.seconds, kind, text))

    # --- messages --------------------------------------------------------------------------------

    def take(self, messages: Iterable[Message]) -> None:
        """Look at messages."""
        for message in messages:
            topic, payload = message.topic, message.payload
            if topic in STATUS:
                state = decode(payload, type=Online).state
                self.nodes[STATUS[topic]].online = state == "online"
            elif topic == CHAPTER:
                self._on_chapter(decode(payload, type=Told))
            elif topic.startswith("hall/"):
                self._on_reading(node_of(topic), topic, payload)
            elif payload:
                self._on_snapshot(topic.rpartition("/")[2], payload)

    def _on_chapter(self, told: Told) -> None:
        if self.began is None:
            self.began = time.monotonic() - told.seconds
        if told.kind == "over":
            self.over = True
            return
        if not told.device:
            self.phase = told.kind
        self.note(told.kind, told.text)

    def _on_snapshot(self, name: str, payload: bytes) -> None:
        taken = self.insight.take(name, payload)
        if taken.status == "refused":
            self.note("fault", f"a message of {name} is refused: {taken.text}")
        if taken.status != "new" or self.nodes[name].joined:
            return
        self.nodes[name].joined = True
        size = f"{len(payload) / 1000:.1f} kB"
        self.note("found", f"{name} has joined: {size}, signed, with what it has learnt")
        for node in self.nodes:
            self._on_gain(node)

    def _on_gain(self, name: str) -> None:
        for label in self.insight.gained(name):
            text = f"{name} gains the class {label}, as its own sensors would see it"
            if not any(note.text == text for note in self.notes):
                self.note("found", text)

    def _on_reading(self, name: str, topic: str, payload: bytes) -> None:
        pairs = self.nodes[name].pairs
        if topic.endswith("/truth"):
            seen = pairs.know(decode(payload, type=Truth))
        else:
            seen = pairs.hear(decode(payload, type=Said))
        if seen is not None:
            self._count(name, self.nodes[name], seen)

    # --- figures ---------------------------------------------------------------------------------

    def _count(self, name: str, node: NodeWatch, seen: Seen) -> None:
        self.decided += 1
        node.last = seen
        node.strip.append(seen)
        version = seen.said.version if seen.said.model == "fused" else None
        if version is None:
            node.learnt = max(node.learnt, seen.said.version)
        if version != node.version:
            self._on_model(name, node, version)
        if seen.truth.phase == "alone" and not node.fused:
            node.alone.count(seen, node.lacks)
        if seen.truth.phase == "together" and node.fused:
            node.together.count(seen, node.lacks)
        self._on_unseen(name, node, seen)

    def _on_model(self, name: str, node: NodeWatch, version: int | None) -> None:
        if version is not None and not node.fused:
            self.note("default", f"the fleet decides on {name} from now on")
        node.version = version
        if version is not None:
            node.together = Tally()  # of one model, the one that is there in the end

    def _on_unseen(self, name: str, node: NodeWatch, seen: Seen) -> None:
        if seen.truth.state != node.lacks or node.streak >= ENOUGH:
            return
        node.streak = node.streak + 1 if seen.right else 0
        if node.streak == ENOUGH:
            text = f"{name} recognises a {node.lacks}, which nobody has ever labelled there"
            self.note("found", text)
