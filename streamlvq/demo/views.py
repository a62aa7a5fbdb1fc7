"""Two ways to show an act: lines of text, and a live picture where there is a terminal."""

from __future__ import annotations

import abc
import importlib.util
import sys
from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar

from streamlvq.demo.tracker import FleetTracker, JudgedDecision, PlantTracker, Tracker
from streamlvq.synth import SENSOR_UNITS

STATUS_LINE_SECONDS = 2.0  # between two lines about the state of things
EXPLAIN_WAIT_SECONDS = 2.0  # after which waiting needs an explanation
REMINDER_SECONDS = 30.0  # between two lines that it still goes on
COMPILING_HINT = "kernels are compiled the first time: about ten seconds"
PREVIEW_FEATURES = ("temperature", "vibration_x", "current", "speed")  # shown until then

TrackerT = TypeVar("TrackerT", bound=Tracker[Any])
Drawing = Callable[[TrackerT, str, int], Any]  # tracker, title and width to what rich prints


class View(abc.ABC, Generic[TrackerT]):
    """Shows an act of the demo while it is entered as a context."""

    @abc.abstractmethod
    def __enter__(self) -> Self: ...

    @abc.abstractmethod
    def __exit__(self, *error: object) -> None: ...

    @abc.abstractmethod
    def waiting(self, what: str, elapsed: float, tracker: TrackerT | None = None) -> None:
        """Show that something is being started, and what the machines measure meanwhile."""

    @abc.abstractmethod
    def update(self, tracker: TrackerT) -> None:
        """Show the present state of things."""


def choose_view(
    title: str, plain: bool, line: Callable[[TrackerT], str], drawing: Drawing[TrackerT]
) -> View[TrackerT]:
    """Return a live picture if there is a terminal and rich, else lines.

    Parameters
    ----------
    title
        Title of the act.
    plain
        Lines in any case.
    line
        Returns the state of things in a line.
    drawing
        Draws the state of things with rich.

    """
    if plain or not sys.stdout.isatty():
        return LineView(title, line)
    if importlib.util.find_spec("rich") is None:
        return LineView(f"{title}\n(for a live view: pip install 'streamlvq[demo]')", line)
    from streamlvq.demo.pictures import PictureView  # noqa: PLC0415  (rich is an extra)

    return PictureView(title, drawing)


class LineView(View[TrackerT]):
    """Lines of text: what happens, and every two seconds the state of things.

    Parameters
    ----------
    title
        The first line.
    line
        Returns the state of things in a line.

    """

    def __init__(self, title: str, line: Callable[[TrackerT], str]) -> None:
        self._title = title
        self._line = line
        self._notes = 0  # that were printed
        self._due = 0.0
        self._waiting = ""

    def __enter__(self) -> Self:
        print(self._title, flush=True)
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def waiting(self, what: str, elapsed: float, tracker: TrackerT | None = None) -> None:
        text = f"{what} ({COMPILING_HINT})" if elapsed > EXPLAIN_WAIT_SECONDS else what
        if elapsed >= REMINDER_SECONDS:
            so_far = elapsed // REMINDER_SECONDS * REMINDER_SECONDS
            text = f"{what}, still compiling, {so_far:.0f} s so far"
        if text != self._waiting:
            print(f"  starting: {text}", flush=True)
            self._waiting = text
        line = "" if tracker is None else preview_line(tracker)
        if line and elapsed >= self._due:
            self._due = elapsed + STATUS_LINE_SECONDS
            print(f"    {line}", flush=True)

    def update(self, tracker: TrackerT) -> None:
        if self._waiting:
            self._waiting, self._due = "", 0.0
        for note in tracker.notes[self._notes :]:
            print(f"{note.seconds:6.1f} s  {note.text}", flush=True)
        self._notes = len(tracker.notes)
        if tracker.seconds >= self._due and tracker.decided:
            self._due = tracker.seconds + STATUS_LINE_SECONDS
            print(f"{tracker.seconds:6.1f} s    {self._line(tracker)}", flush=True)


def preview_line(tracker: Tracker[Any]) -> str:
    """Return what the machines measure while nobody decides yet; empty if nothing is known."""
    parts = []
    for name, device in tracker.devices.items():
        if (preview := device.preview) is not None:
            values = (f"{preview.values[one]:.1f} {SENSOR_UNITS[one]}" for one in PREVIEW_FEATURES)
            parts.append(f"{name} {', '.join(values)}")
    return " | ".join(parts)


def plant_line(tracker: PlantTracker) -> str:
    """Return the state of the plant in a line."""
    parts = [f"{tracker.throughput:.0f} readings/s, {tracker.version} labels learnt"]
    if tracker.accuracy is not None:
        parts.append(f"accepted and right {tracker.accuracy:.1%}")
    if tracker.reject_rate is not None:
        parts.append(f"rejected {tracker.reject_rate:.1%}")
    machines = [
        f"{name} {_brief(device.last)}" for name, device in tracker.devices.items() if device.last
    ]
    return ", ".join(parts) + " | " + ", ".join(machines)


def _brief(judged: JudgedDecision) -> str:
    decision = judged.decision
    return f"{decision.label}" if decision.accepted else f"? ({decision.reason})"


def fleet_line(tracker: FleetTracker) -> str:
    """Return the state of the fleet in a line."""
    return " | ".join(_node_line(name, tracker) for name in tracker.nodes)


def _node_line(name: str, tracker: FleetTracker) -> str:
    node = tracker.nodes[name]
    parts = [f"{name}: {node.labels} labels"]
    for how, tally in (("alone", node.alone), ("together", node.together)):
        if tally.accuracy is not None:
            parts.append(f"{how} {tally.accuracy:.1%}")
    return ", ".join(parts)


def draw_plant(tracker: PlantTracker, title: str, width: int) -> Any:
    """Draw the state of the plant with rich."""
    from streamlvq.demo.pictures import plant_picture  # noqa: PLC0415  (rich is an extra)

    return plant_picture(tracker, title, width)


def draw_fleet(tracker: FleetTracker, title: str, width: int) -> Any:
    """Draw the state of the fleet with rich."""
    from streamlvq.demo.pictures import fleet_picture  # noqa: PLC0415  (rich is an extra)

    return fleet_picture(tracker, title, width)
