"""The command `streamlvq demo`: both acts from start to end."""

from __future__ import annotations

import contextlib
import math
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from streamlvq.demo.act import GRACE_SECONDS, Act
from streamlvq.demo.fleet import FLEET_STORY_SECONDS, FleetScript, can_sign
from streamlvq.demo.plant import PLANT_STORY_SECONDS, PlantScript
from streamlvq.demo.processes import (
    END_REQUESTS,
    AskedToEnd,
    DemoError,
    DemoProcesses,
    find_broker,
    free_port,
    port_in_use,
)
from streamlvq.demo.summary import next_steps
from streamlvq.errors import MissingExtraError

POLITE_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGALRM")  # Ctrl-C, and what is as good
ASK_AGAIN_SECONDS = 0.01


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
    """Show machines that a real daemon monitors, then nodes that share; return the exit status.

    Parameters
    ----------
    seconds
        How long, counted from when the machines are switched on. The stories take 80 s and 32 s
        and are told faster in less. None: as long as the stories; the first one alone goes on
        until Ctrl-C.
    devices
        Number of machines in the first act.
    rate
        Readings of each machine per second.
    port
        Local port of the broker; None for one that is free.
    plain
        Lines of text instead of a live view.
    keep
        Folder for configuration, logs, decisions and snapshots; None to keep nothing.
    screenshot
        SVG file for a picture: of the moment after the first fault was recognised, or, of the
        second act alone, of its end.
    act
        1: one daemon and a plant. 2: a fleet of nodes. None: one after the other.

    """
    _check(seconds, devices, rate, port, act)
    plan, broker = act_lengths(seconds, _possible(act)), find_broker()
    plant = PlantScript([f"press-{n}" for n in range(1, devices + 1)])
    with _ending_on_signals():  # until nothing is left to end
        with _folder(keep) as folder:
            processes = DemoProcesses(folder, port or free_port())
            acts: dict[int, Act[Any]] = {
                1: Act(plant, processes, broker, screenshot),
                2: Act(FleetScript(), processes, broker, screenshot if act == 2 else None),
            }
            begun = _perform(acts, plan, processes, rate, plain)
            text = _text(acts, begun, None if keep is None else folder)
        print(text, flush=True)
    return 0


def _perform(
    acts: dict[int, Act[Any]],
    plan: dict[int, float | None],
    processes: DemoProcesses,
    rate: float,
    plain: bool,
) -> list[int]:
    """Play the acts until the end or Ctrl-C; return those that were begun."""
    begun: list[int] = []
    try:
        for number, seconds in plan.items():
            begun.append(number)
            acts[number].run(seconds, rate, plain)
            acts[number].end()
    except (AskedToEnd, KeyboardInterrupt):
        pass  # the ordinary way to end it
    finally:
        _ignore_signals()
        _end([acts[number] for number in begun], processes)
    return begun


def _end(acts: list[Act[Any]], processes: DemoProcesses) -> None:
    """End everything, whatever happened; the last act may not have ended by itself."""
    try:
        for act in acts[-1:]:
            act.end()
    finally:
        processes.close(GRACE_SECONDS)


def _text(acts: dict[int, Act[Any]], begun: list[int], folder: Path | None) -> str:
    """Return what was seen, and what to do now."""
    scripts = [acts[number].script for number in begun]
    texts = [script.summary() for script in scripts]
    if any(script.tracker.began is not None for script in scripts):
        texts.append(next_steps(folder, fleet=2 in begun))
    return "\n".join(texts)


def act_lengths(seconds: float | None, act: int | None) -> dict[int, float | None]:
    """Return the acts that are played, and how many seconds each has; None: its own pace.

    Examples
    --------
    >>> from streamlvq.demo.run import act_lengths
    >>> act_lengths(56.0, None), act_lengths(None, None), act_lengths(None, 1)
    ({1: 40.0, 2: 16.0}, {1: 80.0, 2: None}, {1: None})

    """
    if act is not None:
        return {act: seconds}
    if seconds is None:
        return {1: PLANT_STORY_SECONDS, 2: None}
    first = seconds * PLANT_STORY_SECONDS / (PLANT_STORY_SECONDS + FLEET_STORY_SECONDS)
    return {1: first, 2: seconds - first}


def _possible(act: int | None) -> int | None:
    """Return which act can be played; raise if the second one is wanted and lacks an extra."""
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
    if port is not None and port_in_use(port):
        raise DemoError(f"port: expected one that is free, got {port}, where something listens")


@contextlib.contextmanager
def _folder(keep: str | Path | None) -> Iterator[Path]:
    """Provide the folder for everything; it is removed in the end unless it is to be kept."""
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
def _ending_on_signals() -> Iterator[None]:
    """Let Ctrl-C and every other polite request raise `AskedToEnd`; restore the handlers."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread receives signals
        return
    numbers = [getattr(signal, name) for name in POLITE_SIGNALS if hasattr(signal, name)]
    before = {number: signal.signal(number, END_REQUESTS.ask) for number in numbers}
    hook, sys.unraisablehook = sys.unraisablehook, _ask_again
    try:
        yield
    finally:
        sys.unraisablehook = hook
        for number, handler in before.items():
            signal.signal(number, handler)


def _ask_again(unraisable: sys.UnraisableHookArgs) -> None:
    """Repeat a request that came while an object was deleted, where Python ignores exceptions."""
    if unraisable.exc_type is AskedToEnd:
        signal.setitimer(signal.ITIMER_REAL, ASK_AGAIN_SECONDS)
    else:
        sys.__unraisablehook__(unraisable)


def _ignore_signals() -> None:
    """Ending takes a second or two; impatience must not leave processes behind."""
    if threading.current_thread() is threading.main_thread():
        for name in POLITE_SIGNALS:
            if hasattr(signal, name):
                signal.signal(getattr(signal, name), signal.SIG_IGN)
