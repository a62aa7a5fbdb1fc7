"""What happens in the demo's plant, and when: known from the start, so that it can be told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from streamlvq.synth import ORDINARY, Drift, Fault, Glitches, Machine

LENGTH = 80.0  # seconds of the story at its own pace
CYCLE = 60.0  # after that, ordinary life repeats
COMMISSIONING = 10.0
SPOT_CHECKS = 0.04  # the share of readings that somebody labels in everyday life
BEARING = "bearing fault"
NOISE = 1.0
DRIFT = 40.0  # degrees that the sensor is wrong by in the end
HORIZON = 86_400.0  # seconds of life that are planned: a day


@dataclass(frozen=True)
class Chapter:
    """Something that happens, in the seconds since the machines were switched on."""

    start: float
    kind: str
    text: str
    device: str = ""


@dataclass
class Story:
    """The plan of a run.

    Parameters
    ----------
    devices
        Names of the machines.
    rate
        Readings of each machine per second; between two readings a second passes in the plant.
    seconds
        The length of the run: a run shorter than the story tells it faster. None: no end.

    Examples
    --------
    >>> from streamlvq.demo.story import Story

    >>> story = Story(["press-1", "press-2", "press-3"], rate=20)
    >>> [(chapter.start, chapter.kind) for chapter in story.chapters[:3]]
    [(0.0, 'commissioning'), (10.0, 'alone'), (16.0, 'plug')]
    >>> story.chapters[4].text
    'a bearing fault has begun on press-2: the model has never seen one'

    """

    devices: list[str]
    rate: float
    seconds: float | None = None
    chapters: list[Chapter] = field(default_factory=list)
    faults: dict[str, list[Fault]] = field(default_factory=dict)
    drifts: dict[str, list[Drift]] = field(default_factory=dict)
    glitches: dict[str, list[Glitches]] = field(default_factory=dict)
    visits: list[tuple[str, float, float]] = field(default_factory=list)  # of the technician

    def __post_init__(self) -> None:
        self.pace = min(1.0, (self.seconds or LENGTH) / LENGTH)
        plug, bad, drifting, again = (self.devices[n % len(self.devices)] for n in (0, 1, 2, -1))
        self._begin()
        self._plug(plug, 16, 22)
        self._fault(bad, 26, 44, "the model has never seen one")
        self._technician(bad, 34, 40)
        self._fault(again, 48, 58, "learnt from another machine, never seen on this one")
        self._drift(drifting, 60, 74)
        self._everyday()
        self.chapters.sort(key=lambda chapter: chapter.start)

    def machines(self, seed: int) -> list[Machine]:
        """The machines that live through it."""
        return [
            Machine(
                device,
                seed,
                tour=self._plant_time(COMMISSIONING) / len(ORDINARY),
                noise=NOISE,
                faults=self.faults.get(device, ()),
                drifts=self.drifts.get(device, ()),
                glitches=self.glitches.get(device, ()),
            )
            for device in self.devices
        ]

    def labels_everything(self, seconds: float) -> bool:
        """Whether every reading is labelled at this time."""
        return seconds < COMMISSIONING * self.pace

    def visited(self, device: str, seconds: float) -> float | None:
        """Since when there has been something to label for the technician who is there now."""
        for whom, start, end in self.visits:
            if whom == device and start <= seconds < end:
                fault = [f for f in self.faults[device] if f.start <= seconds * self.rate]
                return fault[-1].start / self.rate
        return None

    # --- chapters --------------------------------------------------------------------------------

    def _plant_time(self, seconds: float) -> float:
        return seconds * self.pace * self.rate

    def _add(self, start: float, kind: str, text: str, device: str = "") -> None:
        self.chapters.append(Chapter(start * self.pace, kind, text, device))

    def _begin(self) -> None:
        text = "commissioning: the machines go through their states, each reading has a label"
        self._add(0, "commissioning", text)
        text = f"on their own now: {SPOT_CHECKS:.0%} of the readings are labelled, to check"
        self._add(COMMISSIONING, "alone", text)

    def _plug(self, device: str, start: float, end: float) -> None:
        self._add(
            start, "plug", f"a plug is loose on {device}: readings that make no sense", device
        )
        self._add(end, "plug fixed", f"the plug of {device} is fixed", device)
        span = {"start": self._plant_time(start), "end": self._plant_time(end)}
        self.glitches.setdefault(device, []).append(Glitches(share=0.35, **span))

    def _fault(self, device: str, start: float, end: float, text: str) -> None:
        self._add(start, "fault", f"a {BEARING} has begun on {device}: {text}", device)
        self._add(end, "repaired", f"{device} is repaired", device)
        span = {"start": self._plant_time(start), "end": self._plant_time(end)}
        self.faults.setdefault(device, []).append(Fault(state=BEARING, **span))

    def _technician(self, device: str, start: float, end: float) -> None:
        text = f"the technician looks at {device} and labels what was recorded: {BEARING}"
        self._add(start, "technician", text, device)
        self.visits.append((device, start * self.pace, end * self.pace))

    def _drift(self, device: str, start: float, end: float) -> None:
        text = f"the temperature sensor of {device} drifts, up to {DRIFT:.0f} degrees"
        self._add(start, "drift", text, device)
        self._add(end, "replaced", f"the sensor of {device} is replaced", device)
        span = {"start": self._plant_time(start), "end": self._plant_time(end)}
        slope = DRIFT / (span["end"] - span["start"])
        drift = Drift(feature="temperature", slope=slope, **span)
        self.drifts.setdefault(device, []).append(drift)

    def _everyday(self) -> None:
        """What goes on afterwards: now and then something, each time somewhere else."""
        end = "; Ctrl-C ends the demo" if self.seconds is None else ""
        self._add(LENGTH - 2, "everyday", f"ordinary life goes on{end}")
        if self.seconds is not None and self.seconds <= LENGTH:
            return
        happenings: list[Callable[[str, float, float], None]] = [
            self._plug,
            lambda device, start, end: self._fault(device, start, end, "the model knows it"),
            self._drift,
        ]
        until = HORIZON if self.seconds is None else min(self.seconds, HORIZON)
        for n in range(int((until - LENGTH) / (CYCLE / 3))):
            start = LENGTH + 10 + n * CYCLE / 3
            happenings[n % 3](self.devices[(n * 2 + n // 3) % len(self.devices)], start, start + 9)
