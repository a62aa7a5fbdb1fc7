"""The demo from start to end."""

from __future__ import annotations

import contextlib
import math
import signal
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from streamlvq.demo import fleet_story, story
from streamlvq.demo.act import GRACE, Act
from streamlvq.demo.brokers import find_broker, free_port, taken
from streamlvq.demo.children import DemoError
from streamlvq.demo.fleet_setup import can_sign
from streamlvq.demo.fleet_show import FleetShow
from streamlvq.demo.show import Show
from streamlvq.demo.stage import Stage
from streamlvq.demo.summary import next_steps
from streamlvq.demo.watch import Watch
from streamlvq.errors import MissingExtraError

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
    act: int | None = None,
) -> int:
    """Show machines that a real daemon watches, then nodes that share; gives the exit status.

    Parameters
    ----------
    seconds
        How long, counted from when the machines are switched on. The stories take 80 s and 32 s
        and are told faster in less. None: as long as the stories; the first one alone goes on
        until Ctrl-C.
    devices
        How many machines there are in the first act.
    rate
        Readings of each machine per second.
    port
        Of the broker, on this machine; None for one that is free.
    plain
        Lines of text instead of a live view.
    keep
        A folder for configuration, logs, decisions and snapshots; None to keep nothing.
    screenshot
        An SVG file for a picture: of the moment after the first fault was recognised, or, of the
        second act alone, of its end.
    act
        1: one daemon and a plant. 2: a fleet of nodes. None: one after the other.

    """
    _check(seconds, devices, rate, port, act)
    plan, program = lengths(seconds, _possible(act)), find_broker()
    watch = Watch(f"press-{n}" for n in range(1, devices + 1))
    with _folder(keep) as folder:
        stage = Stage(folder, port or free_port())
        acts: dict[int, Act[Any]] = {
            1: Show(stage, watch, program, screenshot),
            2: FleetShow(stage, program, screenshot if act == 2 else None),
        }
        played = [acts[number] for number in _perform(acts, plan, stage, rate, plain)]
        text = _text(played, None if keep is None else folder)
    print(text, flush=True)
    return 0


def _perform(
    acts: dict[int, Act[Any]],
    plan: dict[int, float | None],
    stage: Stage,
    rate: float,
    plain: bool,
) -> list[int]:
    """Play one after the other until the end or Ctrl-C; gives those that were begun."""
    begun: list[int] = []
    with _endings():
        try:
            for number, seconds in plan.items():
                begun.append(number)
                acts[number].run(seconds, rate, plain)
                acts[number].end()
        except KeyboardInterrupt:
            pass  # the ordinary way to end it
        finally:
            _deaf()
            _end([acts[number] for number in begun], stage)
    return begun


def _end(acts: list[Act[Any]], stage: Stage) -> None:
    """Whatever happened, end everything; the last act may not have ended by itself."""
    try:
        for act in acts[-1:]:
            act.end()
    finally:
        stage.close(GRACE)


def _text(acts: list[Act[Any]], folder: Path | None) -> str:
    """What was seen, and what to do now."""
    texts = [act.summary() for act in acts]
    if any(act.watch.began is not None for act in acts):
        texts.append(next_steps(folder, any(isinstance(act, FleetShow) for act in acts)))
    return "\n".join(texts)


def lengths(seconds: float | None, act: int | None) -> dict[int, float | None]:
    """The acts that are played, and how many seconds each of them has; None: as it likes.

    Examples
    --------
    >>> from streamlvq.demo.run import lengths
    >>> lengths(56.0, None), lengths(None, None), lengths(None, 1)
    ({1: 40.0, 2: 16.0}, {1: 80.0, 2: None}, {1: None})

    """
    if act is not None:
        return {act: seconds}
    if seconds is None:
        return {1: story.LENGTH, 2: None}
    first = seconds * story.LENGTH / (story.LENGTH + fleet_story.LENGTH)
    return {1: first, 2: seconds - first}


def _possible(act: int | None) -> int | None:
    """Both acts only if there is all that they need; who asks for the second is told what not."""
    if act == 1 or can_sign():
        return act
    if act == 2:
        raise MissingExtraError("cryptography", "demo")
    return 1


def _check(
    seconds: float | None, devices: int, rate: float, port: int | None, act: int | None
) -> None:
    if act not in (None, 1, 2):
        raise DemoError(f"act: expected 1 or 2, got {act!r}")
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
