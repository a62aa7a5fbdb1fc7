"""Act 1, a plant that one daemon monitors: its script, its story and its simulated machines.

`python -m streamlvq.demo.plant URL ...` runs the machines.
"""

from __future__ import annotations

import functools
import random
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from msgspec.json import decode

from streamlvq.connect import Link, Message, Outgoing
from streamlvq.demo.act import Script
from streamlvq.demo.messages import (
    PLANT_STORY_TOPIC,
    ChapterMessage,
    PreviewMessage,
    StatusMessage,
    TruthMessage,
    encode_json,
    plant_topic,
    reading_messages,
    status_topic,
)
from streamlvq.demo.processes import (
    DECISIONS_FILE,
    STATE_FOLDER,
    TICK_SECONDS,
    ChildProcess,
    DemoProcesses,
    fill_template,
    simulator_link,
    simulator_parser,
)
from streamlvq.demo.summary import plant_summary
from streamlvq.demo.tracker import PlantTracker
from streamlvq.demo.views import draw_plant, plant_line
from streamlvq.synth import (
    BEARING_FAULT,
    FEATURES,
    ORDINARY,
    Drift,
    Fault,
    Glitches,
    Machine,
    Samples,
)

PLANT_STORY_SECONDS = 80.0  # of the story at its own pace
CYCLE_SECONDS = 60.0  # after the story, everyday life repeats
PLANNED_SECONDS = 86_400.0  # of everyday life: a day
COMMISSIONING_SECONDS = 10.0  # in which every reading has a label
SPOT_CHECK_SHARE = 0.04  # of readings that somebody labels in everyday life
GLITCH_SHARE = 0.35  # of readings while a plug is loose
DRIFT_DEGREES = 40.0  # error of the drifting sensor in the end
PLANT_SEED = 1
LINGER_SECONDS = 4.0  # from the recognition of a fault to a good picture of it
LABEL_DELAY_SECONDS = 0.3  # from a reading to its late label, so that no label overtakes it
MAX_UNLABELLED = 2000  # readings that a technician can still label
PREVIEW_SECONDS = 0.25  # between two readings of a machine before the daemon is up
MAX_LATE_LABELS = 60  # that the technician gives at once


# --- script ---------------------------------------------------------------------------------------


class PlantScript(Script[PlantTracker]):
    """Machines, one daemon, and a fault that it has never seen.

    Parameters
    ----------
    devices
        Names of the machines.

    """

    def __init__(self, devices: Sequence[str]) -> None:
        topics = (plant_topic("+", kind) for kind in ("decision", "truth", "preview"))
        filters = (*topics, PLANT_STORY_TOPIC, status_topic())
        super().__init__(PlantTracker(devices), filters, plant_line, draw_plant)
        self.devices = devices
        self.cpu_share: float | None = None  # of one core that the daemon used
        self._daemon: ChildProcess | None = None
        self._cpu_before: float | None = None

    def title(self, broker: str) -> str:
        count = len(self.devices)
        return f"streamlvq demo: {count} machine{'s' if count > 1 else ''}, {broker}, the daemon"

    def missing(self) -> str:
        return "the daemon"

    def start_daemons(self, processes: DemoProcesses) -> None:
        folder = processes.folder
        config = plant_config(processes.url, folder)
        self._daemon = processes.start_daemon("the daemon", config, folder)

    previews = True

    def start_simulator(self, processes: DemoProcesses, rate: float, seconds: float | None) -> None:
        arguments = ["--preview", *(f"--device={device}" for device in self.devices)]
        processes.start_simulator("the machines", "streamlvq.demo.plant", rate, seconds, *arguments)

    def daemons_ready(self) -> None:
        if self._daemon is not None:
            self._cpu_before = self._daemon.cpu_seconds()

    def finished(self, seconds: float | None) -> bool:
        return seconds is not None and self.tracker.seconds >= seconds

    def picture_due(self) -> bool:
        times = [e.recognised for e in self.tracker.episodes if e.recognised is not None]
        return bool(times) and self.tracker.seconds > times[0] + LINGER_SECONDS

    def measure(self) -> None:
        now = None if self._daemon is None else self._daemon.cpu_seconds()
        if now is not None and self._cpu_before is not None and self.tracker.seconds > 0:
            self.cpu_share = (now - self._cpu_before) / self.tracker.seconds

    def summary(self) -> str:
        return plant_summary(self.tracker, self.cpu_share)


def plant_config(url: str, folder: Path) -> str:
    """Return the configuration of the daemon."""
    state, decisions = folder / STATE_FOLDER, folder / DECISIONS_FILE
    return fill_template("plant.yaml", url=url, state=state, decisions=decisions)


# --- story ----------------------------------------------------------------------------------------


@dataclass
class PlantStory:
    """What happens in the plant, and when: planned from the start, so that it can be told.

    Parameters
    ----------
    devices
        Names of the machines.
    rate
        Readings of each machine per second; between two readings a second passes in the plant.
    seconds
        Length of the run: a run shorter than the story tells it faster. None: no end.

    Examples
    --------
    >>> from streamlvq.demo.plant import PlantStory

    >>> story = PlantStory(["press-1", "press-2", "press-3"], rate=20)
    >>> [(chapter.seconds, chapter.kind) for chapter in story.chapters[:3]]
    [(0.0, 'commissioning'), (10.0, 'alone'), (16.0, 'plug')]
    >>> story.chapters[4].text
    'a bearing fault has begun on press-2: the model has never seen one'

    """

    devices: list[str]
    rate: float
    seconds: float | None = None
    chapters: list[ChapterMessage] = field(default_factory=list)
    faults: dict[str, list[Fault]] = field(default_factory=dict)
    drifts: dict[str, list[Drift]] = field(default_factory=dict)
    glitches: dict[str, list[Glitches]] = field(default_factory=dict)
    visits: list[tuple[str, float, float]] = field(default_factory=list)  # of the technician

    def __post_init__(self) -> None:
        self.pace = min(1.0, (self.seconds or PLANT_STORY_SECONDS) / PLANT_STORY_SECONDS)
        plug, bad, drifting, again = (self.devices[n % len(self.devices)] for n in (0, 1, 2, -1))
        self._begin()
        self._plug(plug, 16, 22)
        self._fault(bad, 26, 44, "the model has never seen one")
        self._technician(bad, 34, 40)
        self._fault(again, 48, 58, "learnt from another machine, never seen on this one")
        self._drift(drifting, 60, 74)
        self._everyday()
        self.chapters.sort(key=lambda chapter: chapter.seconds)

    def machines(self, seed: int) -> list[Machine]:
        """Return the machines that live through it."""
        return [
            Machine(
                device,
                seed,
                tour=self._plant_time(COMMISSIONING_SECONDS) / len(ORDINARY),
                faults=self.faults.get(device, ()),
                drifts=self.drifts.get(device, ()),
                glitches=self.glitches.get(device, ()),
            )
            for device in self.devices
        ]

    def labels_everything(self, seconds: float) -> bool:
        """Return whether every reading is labelled at this time."""
        return seconds < COMMISSIONING_SECONDS * self.pace

    def visited(self, device: str, seconds: float) -> float | None:
        """Return when the fault began that the technician labels now; None without a visit."""
        for whom, start, end in self.visits:
            if whom == device and start <= seconds < end:
                fault = [f for f in self.faults[device] if f.start <= seconds * self.rate]
                return fault[-1].start / self.rate
        return None

    def _plant_time(self, seconds: float) -> float:
        return seconds * self.pace * self.rate

    def _span(self, start: float, end: float) -> dict[str, float]:
        return {"start": self._plant_time(start), "end": self._plant_time(end)}

    def _add(self, start: float, kind: str, text: str, device: str = "") -> None:
        self.chapters.append(ChapterMessage(start * self.pace, kind, text, device))

    def _begin(self) -> None:
        text = "commissioning: the machines go through their states, each reading has a label"
        self._add(0, "commissioning", text)
        text = f"on their own now: {SPOT_CHECK_SHARE:.0%} of the readings are labelled, to check"
        self._add(COMMISSIONING_SECONDS, "alone", text)

    def _plug(self, device: str, start: float, end: float) -> None:
        text = f"a plug is loose on {device}: readings that make no sense"
        self._add(start, "plug", text, device)
        self._add(end, "plug fixed", f"the plug of {device} is fixed", device)
        glitches = Glitches(share=GLITCH_SHARE, **self._span(start, end))
        self.glitches.setdefault(device, []).append(glitches)

    def _fault(self, device: str, start: float, end: float, text: str) -> None:
        self._add(start, "fault", f"a {BEARING_FAULT} has begun on {device}: {text}", device)
        self._add(end, "repaired", f"{device} is repaired", device)
        fault = Fault(state=BEARING_FAULT, **self._span(start, end))
        self.faults.setdefault(device, []).append(fault)

    def _technician(self, device: str, start: float, end: float) -> None:
        text = f"the technician looks at {device} and labels what was recorded: {BEARING_FAULT}"
        self._add(start, "technician", text, device)
        self.visits.append((device, start * self.pace, end * self.pace))

    def _drift(self, device: str, start: float, end: float) -> None:
        text = f"the temperature sensor of {device} drifts, up to {DRIFT_DEGREES:.0f} degrees"
        self._add(start, "drift", text, device)
        self._add(end, "replaced", f"the sensor of {device} is replaced", device)
        span = self._span(start, end)
        slope = DRIFT_DEGREES / (span["end"] - span["start"])
        drift = Drift(feature="temperature", slope=slope, **span)
        self.drifts.setdefault(device, []).append(drift)

    def _everyday(self) -> None:
        """Plan what happens after the story: now and then something, each time somewhere else."""
        end = "; Ctrl-C ends the demo" if self.seconds is None else ""
        self._add(PLANT_STORY_SECONDS - 2, "everyday", f"ordinary life goes on{end}")
        if self.seconds is not None and self.seconds <= PLANT_STORY_SECONDS:
            return
        events: list[Callable[[str, float, float], None]] = [
            self._plug,
            lambda device, start, end: self._fault(device, start, end, "the model knows it"),
            self._drift,
        ]
        until = min(self.seconds or PLANNED_SECONDS, PLANNED_SECONDS)
        pause = CYCLE_SECONDS / len(events)
        for n in range(int((until - PLANT_STORY_SECONDS) / pause)):
            start = PLANT_STORY_SECONDS + 10 + n * pause
            events[n % 3](self.devices[(n * 2 + n // 3) % len(self.devices)], start, start + 9)


# --- simulator ------------------------------------------------------------------------------------


class MachineSimulator:
    """Turns the readings of one machine into messages.

    Parameters
    ----------
    machine
        Whose readings.
    story
        Says which of them have a label.

    """

    def __init__(self, machine: Machine, story: PlantStory) -> None:
        self.machine = machine
        self.story = story
        self._topic = functools.partial(plant_topic, machine.device)
        self._sent = 0
        self._chance = random.Random(machine.device)
        self._unlabelled: deque[tuple[int, float, str]] = deque(maxlen=MAX_UNLABELLED)

    def due(self, seconds: float, now: float) -> list[Outgoing]:
        """Return all messages that are due until `seconds` after the start."""
        count = int(seconds * self.story.rate) - self._sent
        if count <= 0:
            return []
        samples = self.machine.take(count)
        messages: list[Outgoing] = []
        for n in range(count):
            messages += self._reading(samples, n, now)
        return messages + self._late_labels(seconds)

    def _reading(self, samples: Samples, n: int, now: float) -> list[Outgoing]:
        sequence, self._sent = self._sent, self._sent + 1
        seconds, state = sequence / self.story.rate, samples.states[n]
        truth = TruthMessage(self.machine.device, sequence, state, bool(samples.glitches[n]))
        labelled = self._has_label(seconds, truth)
        if not labelled:
            self._unlabelled.append((sequence, seconds, state))
        return reading_messages(self._topic, truth, samples.rows[n].tolist(), now, labelled)

    def _has_label(self, seconds: float, truth: TruthMessage) -> bool:
        """Return False for nonsense and for a fault that only the technician can name."""
        if truth.glitch or truth.state not in self.machine.visits:
            return False
        return self.story.labels_everything(seconds) or self._chance.random() < SPOT_CHECK_SHARE

    def _late_labels(self, seconds: float) -> list[Outgoing]:
        """Return the labels that a visiting technician gives to earlier readings."""
        since = self.story.visited(self.machine.device, seconds)
        if since is None:
            return []
        # Brokers keep the order within a topic only: a label must not overtake its reading.
        old = [one for one in self._unlabelled if one[1] < seconds - LABEL_DELAY_SECONDS]
        for _ in old:
            self._unlabelled.popleft()
        seen = [one for one in old if one[1] >= since][-MAX_LATE_LABELS:]
        return [
            Outgoing(
                self._topic("labels"), encode_json({"sequence": sequence, "label": state}), qos=1
            )
            for sequence, _, state in seen
        ]


def preview_plant(link: Link, story: PlantStory) -> None:
    """Publish what the machines measure until the daemon is up; nobody decides on it."""
    machines = story.machines(PLANT_SEED)
    online = False
    while not online:
        messages = []
        for machine in machines:
            samples = machine.take(1)
            values = dict(zip(FEATURES, samples.rows[0].tolist(), strict=True))
            preview = PreviewMessage(samples.states[0], values)
            topic = plant_topic(machine.device, "preview")
            messages.append(Outgoing(topic, encode_json(preview)))
        link.publish(messages)
        end = time.monotonic() + PREVIEW_SECONDS
        while not online and (left := end - time.monotonic()) > 0:
            online = any(_is_online(message) for message in link.read(left))


def _is_online(message: Message) -> bool:
    return decode(message.payload, type=StatusMessage).state == "online"


def simulate_plant(link: Link, story: PlantStory) -> None:
    """Publish what is due, endlessly."""
    machines = [MachineSimulator(machine, story) for machine in story.machines(PLANT_SEED)]
    chapters = deque(story.chapters)
    start = time.monotonic()
    while True:
        seconds = time.monotonic() - start
        messages: list[Outgoing] = []
        while chapters and chapters[0].seconds <= seconds:
            messages.append(Outgoing(PLANT_STORY_TOPIC, encode_json(chapters.popleft())))
        for machine in machines:
            messages += machine.due(seconds, time.time())
        link.publish(messages)
        link.read(TICK_SECONDS)


def main() -> None:
    parser = simulator_parser("The machines of the demo.")
    parser.add_argument("--device", action="append", required=True)
    parser.add_argument("--preview", action="store_true", help="begin when the daemon is up")
    options = parser.parse_args()
    story = PlantStory(options.device, options.rate, options.seconds)
    with simulator_link(options.url, "machines", [status_topic()]) as link:
        if options.preview:
            preview_plant(link, story)
        simulate_plant(link, story)


if __name__ == "__main__":
    main()
