"""Everything that runs during a demo, and its end."""

from __future__ import annotations

import contextlib
import string
import sys
from importlib.resources import files
from pathlib import Path

from streamlvq.connect import Link
from streamlvq.demo.brokers import HOST, Program
from streamlvq.demo.children import Child
from streamlvq.demo.watch import FILTERS
from streamlvq.demo.wire import open_link


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
        self._children: list[Child] = []
        self._link: Link | None = None

    def start_broker(self, program: Program) -> None:
        self._children.append(program.start(self.folder, self.port))

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

    def _start(self, name: str, module: str, *arguments: str) -> Child:
        child = Child(name, [sys.executable, "-m", module, *arguments], self.folder)
        self._children.append(child)
        return child

    def connect(self) -> Link:
        """The view's own connection."""
        self._link = open_link(self.url, "view", FILTERS)
        return self._link

    def check(self) -> None:
        """Raise `DemoError` if a process has ended; the broker's end would explain the others'."""
        for child in self._children:
            child.check()

    def close(self, grace: float) -> None:
        """End everything, the latest first, so that the daemon can still say goodbye.

        Who has not ended by itself after `grace` seconds is killed.
        """
        with contextlib.ExitStack() as stack:  # what fails to end shall not save the others
            for child in self._children:
                stack.callback(child.stop, grace)
            if self._link is not None:
                stack.callback(self._link.close)


def configuration(url: str, folder: Path) -> str:
    """What the daemon is told, from the template that comes with the package."""
    template = files("streamlvq.demo").joinpath("config.yaml").read_text(encoding="utf-8")
    return string.Template(template).substitute(
        url=url, state=folder / "state", decisions=folder / "decisions.jsonl"
    )
