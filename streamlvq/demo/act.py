"""What the acts of the demo have in common."""

from __future__ import annotations

import abc
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from streamlvq.connect import Link, Message
from streamlvq.demo.brokers import Program
from streamlvq.demo.children import DemoError
from streamlvq.demo.stage import Stage
from streamlvq.demo.views import View, Watched

FRAME = 0.1  # seconds between two pictures
PATIENCE = 600.0  # seconds for a daemon to come up: kernels may have to be compiled
GRACE, HASTE = 8.0, 1.0  # seconds for a process to end by itself; haste if nothing has begun yet


class ActWatch(Watched, Protocol):
    """What is seen of an act."""

    @property
    def online(self) -> bool: ...

    def take(self, messages: Iterable[Message]) -> None: ...

    def stop(self) -> None: ...


W = TypeVar("W", bound=ActWatch)


class Act(abc.ABC, Generic[W]):
    """Processes on a stage, watched until the story is told.

    Parameters
    ----------
    stage
        The processes.
    watch
        What is seen of them.
    program
        The broker.
    screenshot
        Where a picture goes, if one is wanted.

    """

    title: str

    def __init__(
        self, stage: Stage, watch: W, program: Program, screenshot: str | Path | None = None
    ) -> None:
        self.stage = stage
        self.watch = watch
        self.program = program
        self.screenshot = screenshot

    @abc.abstractmethod
    def run(self, seconds: float | None, rate: float, plain: bool) -> None:
        """From the first process to the last picture."""

    @abc.abstractmethod
    def summary(self) -> str:
        """What it came to."""

    def end(self) -> None:
        """End all that belongs to this act alone."""
        self.watch.stop()
        self.stage.clear(GRACE if self.watch.online else HASTE)

    def _start_broker(self, view: View[W]) -> None:
        """Unless it runs already, since an earlier act."""
        if not self.stage.has_broker:
            view.waiting(f"the broker ({self.program.name})", 0.0)
            self.stage.start_broker(self.program)

    def _wait(self, link: Link, view: View[W]) -> None:
        """Until all daemons are up."""
        start = time.monotonic()
        while not self.watch.online:
            elapsed = time.monotonic() - start
            if elapsed > PATIENCE:
                raise DemoError(f"{self.missing()} not online after {PATIENCE:.0f} s")
            view.waiting(self.missing(), elapsed)
            self._look(link)

    @abc.abstractmethod
    def missing(self) -> str:
        """Which daemons are not up yet."""

    def _look(self, link: Link) -> None:
        """Take in what comes until the next picture is due; fail if a process has ended."""
        until = time.monotonic() + FRAME
        while (left := until - time.monotonic()) > 0:
            self.watch.take(link.read(left))
        self.stage.check()
