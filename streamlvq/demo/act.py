"""The engine that plays an act of the demo: start, wait, follow, end."""

from __future__ import annotations

import abc
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic

from streamlvq.connect import Link
from streamlvq.demo.processes import BrokerProgram, DemoError, DemoProcesses
from streamlvq.demo.views import Drawing, TrackerT, View, choose_view

FRAME_SECONDS = 0.1  # between two pictures
STARTUP_MAX_SECONDS = 600.0  # for daemons to come up: kernels may have to be compiled
GRACE_SECONDS = 8.0  # for a process to end by itself
GRACE_BEFORE_START_SECONDS = 1.0  # likewise, if nothing has begun yet


class Script(abc.ABC, Generic[TrackerT]):
    """What is special about one act: its processes, what is tracked and how it is shown.

    Parameters
    ----------
    tracker
        Takes in what the broker delivers.
    filters
        Topics that the view subscribes to.
    line
        Returns the state of things in a line.
    draw
        Draws the state of things with rich.

    """

    def __init__(
        self,
        tracker: TrackerT,
        filters: Sequence[str],
        line: Callable[[TrackerT], str],
        draw: Drawing[TrackerT],
    ) -> None:
        self.tracker = tracker
        self.filters = filters
        self.line = line
        self.draw = draw

    @abc.abstractmethod
    def title(self, broker: str) -> str:
        """Return the title of the act."""

    @abc.abstractmethod
    def missing(self) -> str:
        """Return the daemons that are not up yet, in words."""

    @abc.abstractmethod
    def start_daemons(self, processes: DemoProcesses) -> None:
        """Configure and start the daemons."""

    # Whether the simulator is started with the daemons and waits for them itself.
    previews = False

    @abc.abstractmethod
    def start_simulator(self, processes: DemoProcesses, rate: float, seconds: float | None) -> None:
        """Switch the simulated machines on."""

    def daemons_ready(self) -> None:
        """Take measurements when all daemons are up."""

    @abc.abstractmethod
    def finished(self, seconds: float | None) -> bool:
        """Return whether an act of this length is over."""

    @abc.abstractmethod
    def picture_due(self) -> bool:
        """Return whether this is the moment for the screenshot."""

    def measure(self) -> None:
        """Take measurements that need the processes, just before they end."""

    @abc.abstractmethod
    def summary(self) -> str:
        """Return the closing text."""


class Act(Generic[TrackerT]):
    """Plays a script: processes are started, tracked until the story is told, and ended.

    Parameters
    ----------
    script
        What is played.
    processes
        Starts processes and ends them.
    broker
        Started unless an earlier act has done so.
    screenshot
        File for a picture, if one is wanted.

    """

    def __init__(
        self,
        script: Script[TrackerT],
        processes: DemoProcesses,
        broker: BrokerProgram,
        screenshot: str | Path | None = None,
    ) -> None:
        self.script = script
        self._processes = processes
        self._broker = broker
        self._screenshot = screenshot
        self._title = script.title(broker.name)

    def run(self, seconds: float | None, rate: float, plain: bool) -> None:
        """Play the act from the first process to the last picture."""
        script = self.script
        with choose_view(self._title, plain, script.line, script.draw) as view:
            self._start_broker(view)
            view.waiting(script.missing(), 0.0)
            script.start_daemons(self._processes)
            link = self._processes.connect(script.filters)
            if script.previews:
                script.start_simulator(self._processes, rate, seconds)
            self._wait_for_daemons(link, view)
            script.daemons_ready()
            if not script.previews:
                script.start_simulator(self._processes, rate, seconds)
            self._follow(link, view, seconds)

    def end(self) -> None:
        """End all processes of this act; the broker goes on."""
        tracker = self.script.tracker
        self.script.measure()
        tracker.stop()
        self._processes.clear(GRACE_SECONDS if tracker.online else GRACE_BEFORE_START_SECONDS)

    def _start_broker(self, view: View[TrackerT]) -> None:
        if not self._processes.has_broker:
            view.waiting(f"the broker ({self._broker.name})", 0.0)
            self._processes.start_broker(self._broker)

    def _wait_for_daemons(self, link: Link, view: View[TrackerT]) -> None:
        start = time.monotonic()
        while not self.script.tracker.online:
            elapsed = time.monotonic() - start
            missing = self.script.missing()
            if elapsed > STARTUP_MAX_SECONDS:
                raise DemoError(f"{missing} not online after {STARTUP_MAX_SECONDS:.0f} s")
            view.waiting(missing, elapsed, self.script.tracker)
            self._read(link)

    def _follow(self, link: Link, view: View[TrackerT], seconds: float | None) -> None:
        finished = False
        while not finished:
            self._read(link)
            view.update(self.script.tracker)
            finished = self.script.finished(seconds)
            if self._screenshot is not None and self.script.picture_due():
                self._save_picture(Path(self._screenshot))
                self._screenshot = None

    def _save_picture(self, path: Path) -> None:
        from streamlvq.demo.pictures import save_picture  # noqa: PLC0415  (rich is an extra)

        save_picture(self.script.tracker, self._title, path, self.script.draw)

    def _read(self, link: Link) -> None:
        """Track what comes until the next picture is due; fail if a process has ended."""
        until = time.monotonic() + FRAME_SECONDS
        while (left := until - time.monotonic()) > 0:
            self.script.tracker.take(link.read(left))
        self._processes.check()
