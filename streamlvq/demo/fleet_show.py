"""The second act: a fleet of three nodes, each with a daemon of its own."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from streamlvq.connect import Link
from streamlvq.demo.act import Act
from streamlvq.demo.brokers import Program
from streamlvq.demo.fleet_story import HALLS
from streamlvq.demo.fleet_summary import summary
from streamlvq.demo.fleet_watch import FleetWatch
from streamlvq.demo.fleet_wire import FILTERS
from streamlvq.demo.stage import Stage
from streamlvq.demo.views import View, choose_view, save_picture

AFTERWARDS = 0.7  # seconds for the last decisions to come


class FleetShow(Act[FleetWatch]):
    """Presses whose sensors do not agree, and nodes that learn from each other nevertheless."""

    def __init__(
        self, stage: Stage, program: Program, screenshot: str | Path | None = None
    ) -> None:
        super().__init__(stage, FleetWatch(), program, screenshot)
        self.title = f"streamlvq demo, the fleet: {len(HALLS)} nodes, {program.name}"

    def run(self, seconds: float | None, rate: float, plain: bool) -> None:
        with choose_view(self.title, plain, status_line, draw_fleet) as view:
            self._start_broker(view)
            view.waiting(self.missing(), 0.0)
            self.watch.insight.begin(self.stage.start_nodes())
            link = self.stage.connect(FILTERS)
            self._wait(link, view)
            self.stage.start_presses(rate, seconds)
            self._follow(link, view)

    def missing(self) -> str:
        names = [name for name, node in self.watch.nodes.items() if not node.online]
        return f"the daemon{'s' if len(names) > 1 else ''} of {', '.join(names)}"

    def _follow(self, link: Link, view: View[FleetWatch]) -> None:
        until: float | None = None
        while until is None or time.monotonic() < until:
            self._look(link)
            view.update(self.watch)
            if self.watch.over and until is None:
                until = time.monotonic() + AFTERWARDS
        if self.screenshot is not None:
            save_picture(self.watch, self.title, Path(self.screenshot), draw_fleet)

    def summary(self) -> str:
        return summary(self.watch)


def draw_fleet(watch: FleetWatch, title: str, width: int) -> Any:
    """The picture of the second act."""
    from streamlvq.demo.fleet_draw import picture  # noqa: PLC0415  (an extra)

    return picture(watch, title, width)


def status_line(watch: FleetWatch) -> str:
    """How things are, in a line."""
    return " | ".join(_node(name, watch) for name in watch.nodes)


def _node(name: str, watch: FleetWatch) -> str:
    node = watch.nodes[name]
    parts = [f"{name}: {node.learnt} labels"]
    for how, tally in (("alone", node.alone), ("together", node.together)):
        if tally.accuracy is not None:
            parts.append(f"{how} {tally.accuracy:.1%}")
    return ", ".join(parts)
