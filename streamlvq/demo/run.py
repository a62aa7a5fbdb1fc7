"""The demo from start to end."""

from __future__ import annotations

import contextlib
import math
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from streamlvq.connect import Link
from streamlvq.demo.brokers import Program, find_broker, free_port, taken
from streamlvq.demo.children import Child, DemoError
from streamlvq.demo.stage import Stage
from streamlvq.demo.summary import summary
from streamlvq.demo.views import View, choose_view, save_picture
from streamlvq.demo.watch import Watch

FRAME = 0.1  # seconds between two pictures
PATIENCE = 600.0  # seconds for the daemon to come up: kernels may have to be compiled
LINGER = 4.0  # seconds from the recognition of a fault to a good picture of it
GRACE, HASTE = 8.0, 1.0  # seconds for a process to end by itself; haste if nothing has begun yet
ENDINGS = ("SIGTERM", "SIGHUP")  # as good as Ctrl-C


def run(
    *,
    seconds: float | None = None,
    devices: int = 4,
    rate: float = 20.0,
    port: int | None = None,
    plain: bool = False,
    keep: str | Path | None = None,
    screenshot: str | Path | None = None,
) -> int:
    """Show a plant of simulated machines that a real daemon watches; gives the exit status.

    Parameters
    ----------
    seconds
        How long, counted from when the machines are switched on. The story takes 80 s and is told
        faster in less. None: until Ctrl-C.
    devices
        How many machines.
    rate
        Readings of each machine per second.
    port
        Of the broker, on this machine; None for one that is free.
    plain
        Lines of text instead of a live view.
    keep
        A folder for configuration, logs, decisions and snapshots; None to keep nothing.
    screenshot
        An SVG file for a picture of the moment after the first fault was recognised.

    """
    _check(seconds, devices, rate, port)
    program = find_broker()
    watch = Watch(f"press-{n}" for n in range(1, devices + 1))
    with _folder(keep) as folder:
        show = Show(Stage(folder, port or free_port()), watch, program, screenshot)
        with _endings():
            try:
                show.run(seconds, rate, plain)
            except KeyboardInterrupt:
                pass  # the ordinary way to end it
            finally:
                _deaf()
                show.end()
    print(summary(watch, show.cpu_share, None if keep is None else folder), flush=True)
    return 0


class Show:
    """One run of the demo.

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

    def __init__(
        self, stage: Stage, watch: Watch, program: Program, screenshot: str | Path | None = None
    ) -> None:
        self.stage = stage
        self.watch = watch
        self.program = program
        self.screenshot = screenshot
        self.cpu_share: float | None = None
        count = len(watch.devices)
        machines = f"{count} machine{'s' if count > 1 else ''}"
        self.title = f"streamlvq demo: {machines}, {program.name}, the daemon"
        self._daemon: Child | None = None
        self._cpu_before: float | None = None

    def run(self, seconds: float | None, rate: float, plain: bool) -> None:
        """From the first process to the last picture."""
        with choose_view(self.title, plain) as view:
            view.waiting(f"the broker ({self.program.name})", 0.0)
            self.stage.start_broker(self.program)
            self._daemon = self.stage.start_daemon()
            link = self.stage.connect()
            self._wait_for_daemon(link, view)
            self._cpu_before = self._daemon.cpu_seconds()
            self.stage.start_machines(list(self.watch.devices), rate, seconds)
            self._follow(link, view, math.inf if seconds is None else seconds)

    def _wait_for_daemon(self, link: Link, view: View) -> None:
        start = time.monotonic()
        while not self.watch.online:
            elapsed = time.monotonic() - start
            if elapsed > PATIENCE:
                raise DemoError(f"the daemon is not online after {PATIENCE:.0f} s")
            view.waiting("the daemon", elapsed)
            self._look(link)

    def _follow(self, link: Link, view: View, seconds: float) -> None:
        while self.watch.seconds < seconds:
            self._look(link)
            view.update(self.watch)
            if self.screenshot is not None and self._worth_a_picture():
                save_picture(self.watch, self.title, Path(self.screenshot))
                self.screenshot = None

    def _look(self, link: Link) -> None:
        """Take in what comes until the next picture is due; fail if a process has ended."""
        until = time.monotonic() + FRAME
        while (left := until - time.monotonic()) > 0:
            self.watch.take(link.read(left))
        self.stage.check()

    def _worth_a_picture(self) -> bool:
        found = [e.recognised for e in self.watch.episodes if e.recognised is not None]
        return bool(found) and self.watch.seconds > found[0] + LINGER

    def end(self) -> None:
        """Measure, then end all processes."""
        now = None if self._daemon is None else self._daemon.cpu_seconds()
        if now is not None and self._cpu_before is not None and self.watch.seconds > 0:
            self.cpu_share = (now - self._cpu_before) / self.watch.seconds
        self.watch.stop()
        self.stage.close(GRACE if self.watch.online else HASTE)


def _check(seconds: float | None, devices: int, rate: float, port: int | None) -> None:
    if seconds is not None and not 0 < seconds < math.inf:
        raise DemoError(f"seconds: expected a number above 0, got {seconds!r}")
    if not 1 <= devices <= 100:
        raise DemoError(f"devices: expected a whole number from 1 to 100, got {devices!r}")
    if not 0 < rate <= 1000:
        raise DemoError(f"rate: expected a number above 0 and up to 1000, got {rate!r}")
    if port is not None and not 1 <= port <= 65_535:
        raise DemoError(f"port: expected a whole number from 1 to 65535, got {port!r}")
    if port is not None and taken(port):
        raise DemoError(f"port: expected one that is free, got {port}, where something listens")


@contextlib.contextmanager
def _folder(keep: str | Path | None) -> Iterator[Path]:
    """The folder for everything; it vanishes in the end unless it is to be kept."""
    if keep is not None:
        folder = Path(keep).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise DemoError(f"keep: expected an empty or a new folder, got {str(keep)!r}")
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="streamlvq-demo-", ignore_cleanup_errors=True) as name:
        yield Path(name)


@contextlib.contextmanager
def _endings() -> Iterator[None]:
    """Let every polite request to end count as Ctrl-C; afterwards all is as it was."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread hears signals
        return
    numbers = [getattr(signal, name) for name in ENDINGS if hasattr(signal, name)]
    before = {number: signal.getsignal(number) for number in [*numbers, signal.SIGINT]}
    for number in numbers:
        signal.signal(number, _interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _deaf() -> None:
    """Ending takes a second or two; impatience must not leave processes behind."""
    if threading.current_thread() is threading.main_thread():
        for name in ("SIGINT", *ENDINGS):
            if hasattr(signal, name):
                signal.signal(getattr(signal, name), signal.SIG_IGN)
