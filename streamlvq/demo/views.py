"""Two ways to show what is going on: lines of text, and a live picture."""

from __future__ import annotations

import abc
import contextlib
import importlib.util
import io
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, Protocol, Self, TypeVar

from streamlvq.demo.pairs import Seen
from streamlvq.demo.watch import Note, Watch

EVERY = 2.0  # seconds between two lines about the state of things
PATIENCE = 6.0  # seconds after which waiting needs an explanation
REMINDER = 30.0  # seconds between two lines that it still goes on
COMPILING = "the first time on a machine kernels are compiled: one to two minutes"


class Watched(Protocol):
    """What any act has to tell."""

    @property
    def notes(self) -> list[Note]: ...

    @property
    def seconds(self) -> float: ...

    @property
    def decided(self) -> int: ...


W = TypeVar("W", bound=Watched)
Drawing = Callable[[W, str, int], Any]  # what is known, a title and a width become a picture


class View(abc.ABC, Generic[W]):
    """Shows an act of the demo, between entering and leaving it."""

    @abc.abstractmethod
    def __enter__(self) -> Self: ...

    @abc.abstractmethod
    def __exit__(self, *error: object) -> None: ...

    @abc.abstractmethod
    def waiting(self, what: str, elapsed: float) -> None:
        """Something is being started."""

    @abc.abstractmethod
    def update(self, watch: W) -> None:
        """Show how things are now."""


def has_rich() -> bool:
    return importlib.util.find_spec("rich") is not None


def choose_view(title: str, plain: bool, line: Callable[[W], str], drawing: Drawing[W]) -> View[W]:
    """A live picture where there is a terminal and rich, else lines."""
    if plain or not sys.stdout.isatty():
        return Lines(title, line)
    if not has_rich():
        return Lines(f"{title}\n(for a live view: pip install 'streamlvq[demo]')", line)
    return Picture(title, drawing)


class Lines(View[W]):
    """Lines of text: what happens, and every two seconds how things are.

    Parameters
    ----------
    title
        The first line.
    line
        Says how things are.

    """

    def __init__(self, title: str, line: Callable[[W], str]) -> None:
        self._told = 0
        self._due = 0.0
        self._waited = ""
        self._title = title
        self._line = line

    def __enter__(self) -> Self:
        print(self._title, flush=True)
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def waiting(self, what: str, elapsed: float) -> None:
        text = f"{what} ({COMPILING})" if elapsed > PATIENCE else what
        if elapsed >= REMINDER:
            text = f"{what}, still compiling, {elapsed // REMINDER * REMINDER:.0f} s so far"
        if text != self._waited:
            print(f"  starting: {text}", flush=True)
            self._waited = text

    def update(self, watch: W) -> None:
        for note in watch.notes[self._told :]:
            print(f"{note.seconds:6.1f} s  {note.text}", flush=True)
        self._told = len(watch.notes)
        if watch.seconds >= self._due and watch.decided:
            self._due = watch.seconds + EVERY
            print(f"{watch.seconds:6.1f} s    {self._line(watch)}", flush=True)


def status_line(watch: Watch) -> str:
    """How things are, in a line."""
    parts = [f"{watch.throughput:.0f} readings/s, {watch.version} labels learnt"]
    if watch.accuracy is not None:
        parts.append(f"accepted and right {watch.accuracy:.1%}")
    if watch.reject_rate is not None:
        parts.append(f"rejected {watch.reject_rate:.1%}")
    machines = [
        f"{name} {brief(device.last)}" for name, device in watch.devices.items() if device.last
    ]
    return ", ".join(parts) + " | " + ", ".join(machines)


def brief(seen: Seen) -> str:
    said = seen.said
    return f"{said.label}" if said.accepted else f"? ({said.reason})"


class Picture(View[W]):
    """A picture in the terminal that is drawn afresh several times a second.

    Parameters
    ----------
    title
        What stands above it.
    drawing
        Draws it.
    console
        Where to draw; None for the terminal.

    """

    def __init__(self, title: str, drawing: Drawing[W], console: Any = None) -> None:
        from rich.console import Console  # noqa: PLC0415  (an extra)
        from rich.live import Live  # noqa: PLC0415

        self._title = title
        self._drawing = drawing
        self.console = console or Console()
        # Without a thread of its own: children are started from a process with one thread.
        self._live = Live(console=self.console, auto_refresh=False)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        with contextlib.suppress(KeyboardInterrupt):  # the terminal must get its cursor back
            self._live.stop()

    def waiting(self, what: str, elapsed: float) -> None:
        from rich.text import Text  # noqa: PLC0415

        frames = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
        text = Text(f"{self._title}\n", style="bold")
        text.append(f"{frames[int(elapsed * 10) % len(frames)]} ", style="green")
        text.append(f"starting {what}, {elapsed:.0f} s", style="not bold")
        if elapsed > PATIENCE:
            text.append(f"\n  {COMPILING}", style="not bold dim")
        self._live.update(text, refresh=True)

    def update(self, watch: W) -> None:
        self._live.update(self.draw(watch), refresh=True)

    def draw(self, watch: W) -> Any:
        """The picture as rich takes it."""
        title = f"{self._title}   {watch.seconds:.0f} s"
        return self._drawing(watch, title, self.console.width)


def draw_machines(watch: Watch, title: str, width: int) -> Any:
    """The picture of the first act."""
    from streamlvq.demo.draw import picture  # noqa: PLC0415  (an extra)

    return picture(watch, title, width)


def save_picture(watch: W, title: str, path: Path, drawing: Drawing[W], width: int = 118) -> None:
    """Write the picture of this moment to an SVG file that needs nothing from elsewhere."""
    from rich.console import Console  # noqa: PLC0415

    console = Console(
        record=True,
        width=width,
        file=io.StringIO(),
        force_terminal=True,
        color_system="truecolor",
    )
    console.print(Picture(title, drawing, console).draw(watch))
    text = console.export_svg(title="streamlvq demo", unique_id="demo")
    text = re.sub(r"@font-face \{.*?\}", "", text, flags=re.DOTALL)  # these would be fetched
    path.write_text(text, encoding="utf-8")
