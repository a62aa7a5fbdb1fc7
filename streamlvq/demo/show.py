"""The first act: a plant that one daemon watches."""

from __future__ import annotations

import math
from pathlib import Path

from streamlvq.connect import Link
from streamlvq.demo.act import Act
from streamlvq.demo.brokers import Program
from streamlvq.demo.children import Child
from streamlvq.demo.stage import Stage
from streamlvq.demo.summary import summary
from streamlvq.demo.views import View, choose_view, draw_machines, save_picture, status_line
from streamlvq.demo.watch import FILTERS, Watch

LINGER = 4.0  # seconds from the recognition of a fault to a good picture of it


class Show(Act[Watch]):
    """Machines, a broker, the daemon."""

    def __init__(
        self, stage: Stage, watch: Watch, program: Program, screenshot: str | Path | None = None
    ) -> None:
        super().__init__(stage, watch, program, screenshot)
        self.cpu_share: float | None = None
        count = len(watch.devices)
        machines = f"{count} machine{'s' if count > 1 else ''}"
        self.title = f"streamlvq demo: {machines}, {program.name}, the daemon"
        self._daemon: Child | None = None
        self._cpu_before: float | None = None

    def run(self, seconds: float | None, rate: float, plain: bool) -> None:
        with choose_view(self.title, plain, status_line, draw_machines) as view:
            self._start_broker(view)
            self._daemon = self.stage.start_daemon()
            link = self.stage.connect(FILTERS)
            self._wait(link, view)
            self._cpu_before = self._daemon.cpu_seconds()
            self.stage.start_machines(list(self.watch.devices), rate, seconds)
            self._follow(link, view, math.inf if seconds is None else seconds)

    def missing(self) -> str:
        return "the daemon"

    def _follow(self, link: Link, view: View[Watch], seconds: float) -> None:
        while self.watch.seconds < seconds:
            self._look(link)
            view.update(self.watch)
            if self.screenshot is not None and self._worth_a_picture():
                save_picture(self.watch, self.title, Path(self.screenshot), draw_machines)
                self.screenshot = None

    def _worth_a_picture(self) -> bool:
        found = [e.recognised for e in self.watch.episodes if e.recognised is not None]
        return bool(found) and self.watch.seconds > found[0] + LINGER

    def end(self) -> None:
        """Measure, then end it."""
        now = None if self._daemon is None else self._daemon.cpu_seconds()
        if now is not None and self._cpu_before is not None and self.watch.seconds > 0:
            self.cpu_share = (now - self._cpu_before) / self.watch.seconds
        super().end()

    def summary(self) -> str:
        return summary(self.watch, self.cpu_share)
