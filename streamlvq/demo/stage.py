"""Everything that runs during a demo, and its end."""

from __future__ import annotations

import contextlib
import string
import sys
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from streamlvq.connect import Link
from streamlvq.demo.brokers import HOST, Program
from streamlvq.demo.children import Child
from streamlvq.demo.fleet_setup import CONFIG, FOLDER, set_up
from streamlvq.demo.fleet_story import HALLS
from streamlvq.demo.wire import open_link

if TYPE_CHECKING:
    from streamlvq.fleet import TrustedKeys


class Stage:
    """Starts the processes of a demo in a folder, and ends them in good order.

    Parameters
    ----------
    folder
        For configurations, logs and state.
    port
        Where the broker shall listen.

    """

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.port = port
        self.url = f"mqtt://{HOST}:{port}"
        self._broker: Child | None = None
        self._children: list[Child] = []  # the others
        self._link: Link | None = None

    def start_broker(self, program: Program) -> None:
        self._broker = program.start(self.folder, self.port)

    @property
    def has_broker(self) -> bool:
        return self._broker is not None

    def start_daemon(self) -> Child:
        """The real one, as its own process."""
        config = self.folder / "monitor.yaml"
        config.write_text(configuration(self.url, self.folder), encoding="utf-8")
        return self._start("the daemon", "streamlvq", "run", str(config))

    def start_machines(self, devices: list[str], rate: float, seconds: float | None) -> None:
        arguments = [self.url, "--rate", repr(rate)]
        for device in devices:
            arguments += ["--device", device]
        if seconds is not None:
            arguments += ["--seconds", repr(seconds)]
        self._start("the machines", "streamlvq.demo.machines", *arguments)

    def start_nodes(self) -> TrustedKeys:
        """A daemon for each node of the fleet; gives the keys that they believe."""
        trust = set_up(self.url, self.folder)
        for node in HALLS:
            folder = self.folder / FOLDER / node
            config = str(folder / CONFIG)
            self._start(f"the daemon ({node})", "streamlvq", "run", config, folder=folder)
        return trust

    def start_presses(self, rate: float, seconds: float | None) -> None:
        arguments = [self.url, "--rate", repr(rate)]
        if seconds is not None:
            arguments += ["--seconds", repr(seconds)]
        self._start("the presses", "streamlvq.demo.fleet_nodes", *arguments)

    def _start(self, name: str, module: str, *arguments: str, folder: Path | None = None) -> Child:
        child = Child(name, [sys.executable, "-m", module, *arguments], folder or self.folder)
        self._children.append(child)
        return child

    def connect(self, filters: Sequence[str]) -> Link:
        """The view's own connection."""
        self._link = open_link(self.url, "view", filters)
        return self._link

    def check(self) -> None:
        """Raise `DemoError` if a process has ended; the broker's end would explain the others'."""
        for child in self._everyone():
            child.check()

    def clear(self, grace: float) -> None:
        """End all but the broker, the latest first, so that daemons can still say goodbye.

        Who has not ended by itself after `grace` seconds is killed.
        """
        with contextlib.ExitStack() as stack:  # what fails to end shall not save the others
            for child in self._children:
                stack.callback(child.stop, grace)
            if self._link is not None:
                stack.callback(self._link.close)
        self._children.clear()  # only now: who interrupts this has `close` begin again
        self._link = None

    def close(self, grace: float) -> None:
        """End everything."""
        try:
            self.clear(grace)
        finally:
            if self._broker is not None:
                self._broker.stop(grace)

    def _everyone(self) -> list[Child]:
        return self._children if self._broker is None else [self._broker, *self._children]


def configuration(url: str, folder: Path) -> str:
    """What the daemon is told, from the template that comes with the package."""
    template = files("streamlvq.demo").joinpath("config.yaml").read_text(encoding="utf-8")
    return string.Template(template).substitute(
        url=url, state=folder / "state", decisions=folder / "decisions.jsonl"
    )
