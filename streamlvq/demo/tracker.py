"""What the view knows of an act: decisions beside the truth, and what follows from them."""

from __future__ import annotations

import abc
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from msgspec.json import decode

from streamlvq.connect import Message
from streamlvq.demo.messages import (
    FLEET_NAME,
    ChapterMessage,
    DecisionMessage,
    PreviewMessage,
    StatusMessage,
    TruthMessage,
    source_of,
    status_topic,
)
from streamlvq.synth import BEARING_FAULT, FEATURES, OFFSET_SPREADS, SENSOR_UNITS

if TYPE_CHECKING:
    from streamlvq.fleet import Receipt, Roster, TrustedKeys
    from streamlvq.fusion import FusionReport


MAX_UNMATCHED = 2000  # messages of a device whose counterpart has not come
MAX_RECENT = 400  # decisions of a device that are kept to be drawn
THROUGHPUT_SECONDS = 2.0  # over which throughput is measured
CONVINCING_RUN = 5  # decisions in a row that convince
SNAPSHOT_MAX_AGE_SECONDS = 86_400.0  # longer than any demo
MAX_SHIFTS = 3  # sensors of a node that are shown


# --- decisions beside the truth -------------------------------------------------------------------


@dataclass
class JudgedDecision:
    """A decision and the truth."""

    decision: DecisionMessage
    truth: TruthMessage

    @property
    def correct(self) -> bool:
        return self.decision.label == self.truth.state


@dataclass
class DecisionMatcher:
    """Matches decisions and truths of one device; brokers keep no order between topics.

    Examples
    --------
    >>> from streamlvq.demo.messages import DecisionMessage, TruthMessage
    >>> from streamlvq.demo.tracker import DecisionMatcher

    >>> matcher = DecisionMatcher()
    >>> decision = DecisionMessage("press-1", "idle", True, None, 0.8, None, sequence=7, version=1)
    >>> matcher.add_decision(decision)
    >>> matcher.add_truth(TruthMessage("press-1", 7, "idle")).correct
    True

    """

    truths: dict[int, TruthMessage] = field(default_factory=dict)
    decisions: dict[int, DecisionMessage] = field(default_factory=dict)  # ahead of their truth

    def add_truth(self, truth: TruthMessage) -> JudgedDecision | None:
        """Take a truth; return the pair if its decision is there."""
        decision = self.decisions.pop(truth.sequence, None)
        if decision is not None:
            return JudgedDecision(decision, truth)
        _keep(self.truths, truth.sequence, truth)
        return None

    def add_decision(self, decision: DecisionMessage) -> JudgedDecision | None:
        """Take a decision; return the pair if its truth is there."""
        if decision.duplicate:
            return None
        truth = self.truths.pop(decision.sequence, None)
        if truth is not None:
            return JudgedDecision(decision, truth)
        _keep(self.decisions, decision.sequence, decision)
        return None


def _keep(unmatched: dict[int, Any], sequence: int, one: TruthMessage | DecisionMessage) -> None:
    unmatched[sequence] = one
    if len(unmatched) > MAX_UNMATCHED:
        del unmatched[next(iter(unmatched))]


@dataclass
class TrackedDevice:
    """What is known of one machine."""

    preview: PreviewMessage | None = None  # the latest reading before the daemon was up
    last: JudgedDecision | None = None
    recent: deque[JudgedDecision] = field(default_factory=lambda: deque(maxlen=MAX_RECENT))
    matcher: DecisionMatcher = field(default_factory=DecisionMatcher)


# --- any act --------------------------------------------------------------------------------------


@dataclass
class Note:
    """Something worth telling, in seconds since the machines were switched on."""

    seconds: float
    kind: str
    text: str


DeviceT = TypeVar("DeviceT", bound=TrackedDevice)


class Tracker(abc.ABC, Generic[DeviceT]):
    """Counts and remembers what the broker delivers during an act.

    Parameters
    ----------
    devices
        What is tracked, by the name in its topics.
    daemons
        Names of the daemons by their status topics.

    """

    def __init__(self, devices: dict[str, DeviceT], daemons: Mapping[str, str]) -> None:
        self.devices = devices
        self.notes: list[Note] = []
        self.decided = 0
        self.began: float | None = None  # when the machines were switched on, by our clock
        self._stopped: float | None = None
        self._daemons = dict(daemons)
        self._offline = set(daemons.values())

    @property
    def offline(self) -> list[str]:
        """Daemons that are not up."""
        return [name for name in self._daemons.values() if name in self._offline]

    @property
    def online(self) -> bool:
        """Whether all daemons are up."""
        return not self._offline

    @property
    def seconds(self) -> float:
        """Time since the machines were switched on."""
        if self.began is None:
            return 0.0
        return (time.monotonic() if self._stopped is None else self._stopped) - self.began

    def stop(self) -> None:
        """Stop the clock."""
        self._stopped = self._stopped or time.monotonic()

    def note(self, kind: str, text: str) -> None:
        """Remember something worth telling."""
        self.notes.append(Note(self.seconds, kind, text))

    def take(self, messages: Iterable[Message]) -> None:
        """Take messages into account."""
        for message in messages:
            topic, payload = message.topic, message.payload
            match topic.rpartition("/")[2]:
                case "decision":
                    matcher = self.devices[source_of(topic)].matcher
                    self._on_judged(
                        topic, matcher.add_decision(decode(payload, type=DecisionMessage))
                    )
                case "truth":
                    matcher = self.devices[source_of(topic)].matcher
                    self._on_judged(topic, matcher.add_truth(decode(payload, type=TruthMessage)))
                case "preview":
                    device = self.devices[source_of(topic)]
                    device.preview = decode(payload, type=PreviewMessage)
                case "story":
                    self._on_story(decode(payload, type=ChapterMessage))
                case "status":
                    self._on_status(self._daemons[topic], decode(payload, type=StatusMessage))
                case _:
                    self._on_other(topic, payload)

    def _on_judged(self, topic: str, judged: JudgedDecision | None) -> None:
        if judged is None:
            return
        name = source_of(topic)
        device = self.devices[name]
        device.last = judged
        device.recent.append(judged)
        self.decided += 1
        self._count(name, device, judged)

    def _on_story(self, chapter: ChapterMessage) -> None:
        if self.began is None:
            self.began = time.monotonic() - chapter.seconds
        self._on_chapter(chapter)

    def _on_status(self, daemon: str, status: StatusMessage) -> None:
        if status.state == "online":
            self._offline.discard(daemon)
        else:
            self._offline.add(daemon)

    @abc.abstractmethod
    def _count(self, name: str, device: DeviceT, judged: JudgedDecision) -> None:
        """Take a decision on a device into account."""

    @abc.abstractmethod
    def _on_chapter(self, chapter: ChapterMessage) -> None:
        """Take the beginning of a chapter into account."""

    def _on_other(self, topic: str, payload: bytes) -> None:
        raise ValueError(f"expected a topic of the demo, got {topic!r}")


# --- act 1: the plant -----------------------------------------------------------------------------


@dataclass
class FaultEpisode:
    """A fault from its beginning to its repair, in seconds since the machines were switched on."""

    device: str
    began: float
    known: bool  # whether such a fault was recognised before
    labelled: float | None = None
    noticed: float | None = None  # when the model refused to give it another name
    recognised: float | None = None
    ended: float | None = None
    _outcomes: deque[str] = field(default_factory=lambda: deque(maxlen=CONVINCING_RUN))

    def follow(self, judged: JudgedDecision, now: float) -> str | None:
        """Take a decision on this machine into account; return what is new, if anything."""
        if judged.truth.state != BEARING_FAULT:
            return None
        outcome = "right" if judged.correct else "wrong"
        self._outcomes.append(outcome if judged.decision.accepted else "rejected")
        if self.noticed is None and self._convinces("rejected"):
            self.noticed = now
            if not self.known:
                delay = now - self.began
                return f"noticed after {delay:.1f} s: the model says that it does not know this"
        if self.recognised is None and self._convinces("right"):
            self.recognised = now
            return f"recognised on {self.device}, {self._delay(now)}"
        return None

    def _delay(self, now: float) -> str:
        if self.labelled is not None:
            return f"{now - self.labelled:.1f} s after the first label"
        return f"{now - self.began:.1f} s after it began, without a label from there"

    def _convinces(self, outcome: str) -> bool:
        return len(self._outcomes) == CONVINCING_RUN and set(self._outcomes) == {outcome}

    def describe(self) -> str:
        """Return the whole episode in a line."""
        parts = [f"{BEARING_FAULT} on {self.device}:"]
        if self.noticed is not None and not self.known:
            parts.append(f"refused as unknown after {self.noticed - self.began:.1f} s,")
        if self.recognised is None:
            parts.append("not recognised")
            parts.append("yet" if self.ended is None else "before it was repaired")
        else:
            parts.append(f"recognised {self._delay(self.recognised)}")
        return " ".join(parts)


@dataclass
class BadSensorEpisode:
    """Decisions on a machine while one of its sensors could not be trusted."""

    kind: str  # plug or drift
    decided: int = 0
    accepted: int = 0
    correct: int = 0  # among the accepted
    nonsense: int = 0
    refused: int = 0  # among the nonsense

    def follow(self, judged: JudgedDecision) -> None:
        """Take a decision on this machine into account."""
        accepted, glitch = judged.decision.accepted, judged.truth.glitch
        self.decided += 1
        self.nonsense += glitch
        self.refused += glitch and not accepted
        self.accepted += accepted
        self.correct += accepted and judged.correct

    def describe(self) -> str:
        """Return the whole episode in a line."""
        if self.kind == "plug":
            return f"{self.refused} of {self.nonsense} readings that made no sense were rejected"
        rejected = self.decided - self.accepted
        return (
            f"of {self.decided} readings with a drifting sensor {rejected} were rejected, "
            f"{self.correct} of the other {self.accepted} are right"
        )


class PlantTracker(Tracker[TrackedDevice]):
    """Tracks machines that one daemon monitors.

    Parameters
    ----------
    devices
        Names of the machines.

    """

    def __init__(self, devices: Iterable[str]) -> None:
        tracked = {device: TrackedDevice() for device in devices}
        super().__init__(tracked, {status_topic(): "the daemon"})
        self.episodes: list[FaultEpisode] = []
        self.bad_sensors: dict[str, BadSensorEpisode] = {}  # that go on, by the device
        self.reasons: Counter[str] = Counter()
        self.accepted = self.correct = self.version = 0
        self._arrivals: deque[tuple[float, int]] = deque()
        self._chapters: dict[str, Callable[[ChapterMessage], None]] = {
            "fault": self._on_fault,
            "technician": self._on_technician,
            "repaired": self._on_repair,
            "plug": self._on_bad_sensor,
            "plug fixed": self._on_good_sensor,
            "drift": self._on_bad_sensor,
            "replaced": self._on_good_sensor,
        }

    def take(self, messages: Iterable[Message]) -> None:
        before = self.decided
        super().take(messages)
        now = time.monotonic()
        self._arrivals.append((now, self.decided - before))
        while self._arrivals[0][0] < now - THROUGHPUT_SECONDS:
            self._arrivals.popleft()

    @property
    def throughput(self) -> float:
        """Decisions per second, lately."""
        return sum(count for _, count in self._arrivals) / THROUGHPUT_SECONDS

    @property
    def accuracy(self) -> float | None:
        """Share of the accepted decisions that are correct."""
        return self.correct / self.accepted if self.accepted else None

    @property
    def reject_rate(self) -> float | None:
        """Share of the decisions that are not accepted."""
        return 1 - self.accepted / self.decided if self.decided else None

    def _count(self, name: str, device: TrackedDevice, judged: JudgedDecision) -> None:
        decision = judged.decision
        self.version = max(self.version, decision.version)
        if decision.accepted:
            self.accepted += 1
            self.correct += judged.correct
        else:
            self.reasons[decision.reason or "unknown"] += 1
        if name in self.bad_sensors:
            self.bad_sensors[name].follow(judged)
        for episode in self._open_episodes(name):
            text = episode.follow(judged, self.seconds)
            if text is not None:
                self.note("found", text)

    def _on_chapter(self, chapter: ChapterMessage) -> None:
        self.note(chapter.kind, chapter.text)
        action = self._chapters.get(chapter.kind)
        if action is not None:
            action(chapter)

    def _on_fault(self, chapter: ChapterMessage) -> None:
        known = any(episode.recognised is not None for episode in self.episodes)
        self.episodes.append(FaultEpisode(chapter.device, self.seconds, known))

    def _on_technician(self, chapter: ChapterMessage) -> None:
        for episode in self._open_episodes(chapter.device):
            episode.labelled = self.seconds

    def _on_repair(self, chapter: ChapterMessage) -> None:
        for episode in self._open_episodes(chapter.device):
            episode.ended = self.seconds

    def _on_bad_sensor(self, chapter: ChapterMessage) -> None:
        self.bad_sensors[chapter.device] = BadSensorEpisode(chapter.kind)

    def _on_good_sensor(self, chapter: ChapterMessage) -> None:
        episode = self.bad_sensors.pop(chapter.device, None)
        if episode is not None:
            self.note("found", episode.describe())

    def _open_episodes(self, device: str) -> list[FaultEpisode]:
        return [e for e in self.episodes if e.device == device and e.ended is None]


# --- act 2: the fleet -----------------------------------------------------------------------------


@dataclass
class Tally:
    """Counts of the decisions of one model."""

    decided: int = 0
    correct: int = 0
    unseen: int = 0  # readings in the state that was never labelled on the node
    recognised: int = 0  # of these

    def count(self, judged: JudgedDecision, unseen_state: str | None) -> None:
        unseen = judged.truth.state == unseen_state
        self.decided += 1
        self.correct += judged.correct
        self.unseen += unseen
        self.recognised += judged.correct and unseen

    @property
    def accuracy(self) -> float | None:
        return self.correct / self.decided if self.decided else None


@dataclass
class TrackedNode(TrackedDevice):
    """What is known of one node."""

    unseen_state: str | None = None  # that was never labelled there
    joined: bool = False
    labels: int = 0  # learnt by its own model
    version: int = 0  # of the model that made the last decision
    fused: bool = False  # whether that model is one of the fleet
    alone: Tally = field(default_factory=Tally)  # its own model's round
    together: Tally = field(default_factory=Tally)  # the fleet's
    run: int = 0  # readings of the unseen state in a row that were recognised

    def describe_unseen(self) -> str:
        """Return how often the state was recognised that the node knows only from others.

        Examples
        --------
        >>> from streamlvq.demo.tracker import Tally, TrackedNode
        >>> node = TrackedNode(alone=Tally(50, 40, 10, 0), together=Tally(50, 49, 10, 9))
        >>> node.describe_unseen()
        'recognised 0 of 10 alone, 9 of 10 together'

        """
        parts = [
            f"{tally.recognised} of {tally.unseen} {how}"
            for how, tally in (("alone", self.alone), ("together", self.together))
            if tally.unseen
        ]
        return f"recognised {', '.join(parts)}" if parts else "not asked yet"


class FleetTracker(Tracker[TrackedNode]):
    """Tracks nodes with a daemon each, and what they share.

    A decision says which model made it: the node's own or one of the fleet. It counts for the model
    that made it, and only in the round that is meant for that model.

    Parameters
    ----------
    sensor_offsets
        What the sensors of each node add to the true values, by node and feature.
    unseen_states
        States that are never labelled on a node, by node.

    """

    def __init__(
        self, sensor_offsets: Mapping[str, Mapping[str, float]], unseen_states: Mapping[str, str]
    ) -> None:
        nodes = {node: TrackedNode(unseen_state=unseen_states.get(node)) for node in sensor_offsets}
        super().__init__(nodes, {status_topic(node): node for node in nodes})
        self.insight = FusionInsight(sensor_offsets)
        self.finished: float | None = None  # when the story ended, in seconds

    @property
    def nodes(self) -> dict[str, TrackedNode]:
        return self.devices

    def _on_chapter(self, chapter: ChapterMessage) -> None:
        if chapter.kind == "over":
            self.finished = self.seconds
        else:
            self.note(chapter.kind, chapter.text)

    def _on_other(self, topic: str, payload: bytes) -> None:
        if payload:
            self._on_snapshot(topic.rpartition("/")[2], payload)

    def _on_snapshot(self, name: str, payload: bytes) -> None:
        receipt = self.insight.take(name, payload)
        if receipt.status == "refused":
            self.note("fault", f"a message of {name} is refused: {receipt.text}")
        if receipt.status != "new" or self.nodes[name].joined:
            return
        self.nodes[name].joined = True
        size = f"{len(payload) / 1000:.1f} kB"
        self.note("found", f"{name} has joined: {size}, signed, with what it has learnt")
        for node in self.nodes:
            self._note_gains(node)

    def _note_gains(self, name: str) -> None:
        for label in self.insight.gained(name):
            text = f"{name} gains the class {label}, as its own sensors would see it"
            if not any(note.text == text for note in self.notes):
                self.note("found", text)

    def _count(self, name: str, device: TrackedNode, judged: JudgedDecision) -> None:
        decision, phase = judged.decision, judged.truth.phase
        if not decision.fused:
            device.labels = max(device.labels, decision.version)
        self._follow_model(name, device, decision)
        if phase == "alone" and not device.fused:
            device.alone.count(judged, device.unseen_state)
        if phase == "together" and device.fused:
            device.together.count(judged, device.unseen_state)
        self._follow_unseen(name, device, judged)

    def _follow_model(self, name: str, node: TrackedNode, decision: DecisionMessage) -> None:
        changed = (decision.version, decision.fused) != (node.version, node.fused)
        if decision.fused and not node.fused:
            self.note("default", f"the fleet decides on {name} from now on")
        node.version, node.fused = decision.version, decision.fused
        if changed and node.fused:
            node.together = Tally()  # of one model, the one that is there in the end

    def _follow_unseen(self, name: str, node: TrackedNode, judged: JudgedDecision) -> None:
        if judged.truth.state != node.unseen_state or node.run >= CONVINCING_RUN:
            return
        node.run = node.run + 1 if judged.correct else 0
        if node.run == CONVINCING_RUN:
            text = f"{name} recognises a {node.unseen_state}, which nobody has ever labelled there"
            self.note("found", text)


@dataclass(frozen=True)
class SensorShift:
    """Shift of a sensor against that of the first node; in brackets the true one.

    Examples
    --------
    >>> from streamlvq.demo.tracker import SensorShift
    >>> print(SensorShift("bearing_temperature", 6.2, 6.0))
    bearing temperature +6.2 °C (+6.0)

    """

    feature: str
    found: float  # by the fusion
    true: float  # as the machine was built

    def __str__(self) -> str:
        name = self.feature.replace("_", " ")
        return f"{name} {self.found:+.1f} {SENSOR_UNITS[self.feature]} ({self.true:+.1f})"


class FusionInsight:
    """Collects the signed snapshots of a fleet and fuses them, as every node does.

    The same snapshots give the same fusion, whoever computes it. The nodes are told nothing.

    Parameters
    ----------
    sensor_offsets
        What the sensors of each node add to the true values, by node and feature.

    """

    def __init__(self, sensor_offsets: Mapping[str, Mapping[str, float]]) -> None:
        self.report: FusionReport | None = None  # None: there is nothing to fuse yet
        self._offsets = sensor_offsets
        self._roster: Roster | None = None

    def trust(self, keys: TrustedKeys) -> None:
        """Accept snapshots that are signed with these keys."""
        # Imports that take a second or two: now, while daemons start, not in mid-picture.
        import scipy.optimize  # noqa: F401, PLC0415  (what fusing needs)

        from streamlvq.fleet import Roster  # noqa: PLC0415

        self._roster = Roster(FLEET_NAME, keys, max_age_seconds=SNAPSHOT_MAX_AGE_SECONDS)

    def take(self, node: str, envelope: bytes) -> Receipt:
        """Check a message of a node; if it is new, fuse all snapshots that there are."""
        if self._roster is None:
            raise RuntimeError(
                "FusionInsight: expected trust() before the first message, got a message"
            )
        receipt = self._roster.accept(node, envelope, time.time())
        if receipt.status == "new":
            self._fuse(self._roster)
        return receipt

    def _fuse(self, roster: Roster) -> None:
        from streamlvq.fusion import fuse  # noqa: PLC0415

        members = roster.members(time.time())
        if len(members) > 1:
            self.report = fuse(member.snapshot for member in members.values()).report

    def drift(self, node: str) -> float | None:
        """Return how far the sensors of a node are off, in deviations within a class."""
        if self.report is None or node not in self.report.nodes:
            return None
        return self.report.nodes[node].drift

    def gained(self, node: str) -> tuple[str, ...]:
        """Return the classes that a node knows only from others."""
        if self.report is None or node not in self.report.nodes:
            return ()
        return self.report.nodes[node].gained

    def shifts(self, node: str) -> list[SensorShift]:
        """Return the sensors of a node that differ most from those of the first, worst first.

        Empty while there is nothing to compare, or if sensors turn out to differ by more than a
        shift.
        """
        first = next(iter(self._offsets))
        if self.report is None or not {first, node} <= self.report.nodes.keys() or node == first:
            return []
        ours, theirs = self.report.nodes[node], self.report.nodes[first]
        if {*ours.gain.values(), *theirs.gain.values()} != {1.0}:
            return []
        shifts = [
            SensorShift(name, ours.shift[name] - theirs.shift[name], self._true_shift(node, name))
            for name in FEATURES
        ]
        usual = dict(zip(FEATURES, OFFSET_SPREADS.tolist(), strict=True))
        return sorted(shifts, key=lambda one: -abs(one.found) / usual[one.feature])[:MAX_SHIFTS]

    def _true_shift(self, node: str, feature: str) -> float:
        first = next(iter(self._offsets.values()))
        return self._offsets[node].get(feature, 0.0) - first.get(feature, 0.0)
