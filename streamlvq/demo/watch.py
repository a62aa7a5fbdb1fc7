"""What the view knows: decisions of the daemon beside the truth."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from msgspec.json import decode

from streamlvq.connect import Message
from streamlvq.demo.episodes import Episode, Trial
from streamlvq.demo.pairs import Pairs, Seen
from streamlvq.demo.wire import CHAPTER, STATUS, Online, Said, Told, Truth

STRIP = 400  # decisions of a device that are remembered, to be drawn
RECENT = 2.0  # seconds over which throughput is measured
FILTERS = ("demo/+/decision", "demo/+/truth", CHAPTER, STATUS)


@dataclass
class DeviceWatch:
    """One machine."""

    last: Seen | None = None
    strip: deque[Seen] = field(default_factory=lambda: deque(maxlen=STRIP))
    pairs: Pairs = field(default_factory=Pairs)


@dataclass
class Note:
    """Something worth telling."""

    seconds: float
    kind: str
    text: str


class Watch:
    """Counts and remembers what comes from the broker.

    Parameters
    ----------
    devices
        Names of the machines.

    """

    def __init__(self, devices: Iterable[str]) -> None:
        self.devices = {device: DeviceWatch() for device in devices}
        self.online = False
        self.notes: list[Note] = []
        self.episodes: list[Episode] = []
        self.trials: dict[str, Trial] = {}  # that go on, by the device
        self.reasons: Counter[str] = Counter()
        self.decided = self.accepted = self.right = self.version = 0
        self.began: float | None = None  # when the story did, by our clock
        self._ended: float | None = None
        self._arrivals: deque[tuple[float, int]] = deque()
        self._chapters: dict[str, Callable[[Told], None]] = {
            "fault": self._on_fault,
            "technician": self._on_technician,
            "repaired": self._on_repair,
            "plug": self._on_bad_sensor,
            "plug fixed": self._on_good_sensor,
            "drift": self._on_bad_sensor,
            "replaced": self._on_good_sensor,
        }
        self._actions: dict[str, Callable[[bytes], None]] = {
            "decision": lambda payload: self._on_decision(decode(payload, type=Said)),
            "truth": lambda payload: self._on_truth(decode(payload, type=Truth)),
            "story": lambda payload: self._on_chapter(decode(payload, type=Told)),
            "status": lambda payload: self._on_status(decode(payload, type=Online)),
        }

    def take(self, messages: Iterable[Message]) -> None:
        """Look at messages."""
        before = self.decided
        for message in messages:
            self._actions[message.topic.rpartition("/")[2]](message.payload)
        now = time.monotonic()
        self._arrivals.append((now, self.decided - before))
        while self._arrivals[0][0] < now - RECENT:
            self._arrivals.popleft()

    # --- figures ---------------------------------------------------------------------------------

    @property
    def seconds(self) -> float:
        """Since the machines were switched on."""
        if self.began is None:
            return 0.0
        return (time.monotonic() if self._ended is None else self._ended) - self.began

    def stop(self) -> None:
        """Let the clock stand still."""
        self._ended = self._ended or time.monotonic()

    @property
    def throughput(self) -> float:
        """Decisions per second, lately."""
        return sum(count for _, count in self._arrivals) / RECENT

    @property
    def accuracy(self) -> float | None:
        """Share of the accepted decisions that are right."""
        return self.right / self.accepted if self.accepted else None

    @property
    def reject_rate(self) -> float | None:
        """Share of the decisions that are not accepted."""
        return 1 - self.accepted / self.decided if self.decided else None

    # --- messages --------------------------------------------------------------------------------

    def _on_status(self, status: Online) -> None:
        self.online = status.state == "online"

    def _on_chapter(self, told: Told) -> None:
        if self.began is None:
            self.began = time.monotonic() - told.seconds
        self.note(told.kind, told.text)
        action = self._chapters.get(told.kind)
        if action is not None:
            action(told)

    def _on_fault(self, told: Told) -> None:
        known = any(episode.recognised is not None for episode in self.episodes)
        self.episodes.append(Episode(told.device, self.seconds, known))

    def _on_technician(self, told: Told) -> None:
        for episode in self._open_episodes(told.device):
            episode.labelled = self.seconds

    def _on_repair(self, told: Told) -> None:
        for episode in self._open_episodes(told.device):
            episode.ended = self.seconds

    def _on_bad_sensor(self, told: Told) -> None:
        self.trials[told.device] = Trial(told.device, told.kind)

    def _on_good_sensor(self, told: Told) -> None:
        trial = self.trials.pop(told.device, None)
        if trial is not None:
            self.note("found", trial.words())

    def note(self, kind: str, text: str) -> None:
        """Remember something worth telling."""
        self.notes.append(Note(self.seconds, kind, text))

    def _on_truth(self, truth: Truth) -> None:
        self._count(truth.device, self.devices[truth.device].pairs.know(truth))

    def _on_decision(self, said: Said) -> None:
        self._count(said.device, self.devices[said.device].pairs.hear(said))

    def _count(self, name: str, seen: Seen | None) -> None:
        if seen is None:
            return
        device = self.devices[name]
        device.last = seen
        device.strip.append(seen)
        said = seen.said
        self.decided += 1
        self.version = max(self.version, said.version)
        if said.accepted:
            self.accepted += 1
            self.right += seen.right
        else:
            self.reasons[said.reason or "unknown"] += 1
        if said.device in self.trials:
            self.trials[said.device].follow(said, seen.truth)
        for episode in self._open_episodes(said.device):
            text = episode.follow(said, seen.truth, self.seconds)
            if text is not None:
                self.note("found", text)

    def _open_episodes(self, device: str) -> list[Episode]:
        return [e for e in self.episodes if e.device == device and e.ended is None]
