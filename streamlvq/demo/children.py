"""Processes that must not outlive the demo."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from streamlvq.errors import StreamLVQError

LINUX = sys.platform == "linux"
TAIL = 12  # lines of a log that are shown
PR_SET_PDEATHSIG = 1  # of Linux's prctl


class DemoError(StreamLVQError, RuntimeError):
    """The demo cannot go on."""


class Child:
    """A process with a log of its own.

    Ctrl-C in the terminal does not reach it: it is stopped in good order. On Linux it is killed
    even if the demo is killed in a way that leaves no time for order.

    Parameters
    ----------
    name
        For people.
    command
        The program and its arguments.
    folder
        Where the log goes.

    """

    def __init__(self, name: str, command: Sequence[str], folder: Path) -> None:
        self.name = name
        self.log = folder / f"{name.split(' (', maxsplit=1)[0].removeprefix('the ')}.log"
        parent = os.getpid()
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                # The demo has one thread when it starts processes.
                preexec_fn=(lambda: _die_with(parent)) if LINUX else None,  # noqa: PLW1509
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def check(self) -> None:
        """Raise `DemoError` if it has ended, with what it said last."""
        status = self._process.poll()
        if status is not None:
            how = f"was ended by {_signal_name(-status)}" if status < 0 else f"ended ({status})"
            raise DemoError(self.words(how))

    def words(self, what: str) -> str:
        """What happened to it, followed by the last lines of its log."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-TAIL:]
        said = "\n".join(f"    {line}" for line in lines) or "    (nothing)"
        return f"{self.name} {what}; it said last:\n{said}"

    def cpu_seconds(self) -> float | None:
        """Processor time it has used so far; None where the system does not tell."""
        try:
            stat = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii", errors="replace")
        except OSError:
            return None
        fields = stat.rpartition(")")[2].split()  # names may hold anything, also brackets
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self, grace: float = 5.0) -> None:
        """Ask it to end; after `grace` seconds, make it."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(grace)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._process.wait()


def _die_with(parent: int) -> None:
    """In the child, before it becomes the program: be killed when the demo goes."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it went before we could ask
        os._exit(1)


def _signal_name(number: int) -> str:
    with contextlib.suppress(ValueError):
        return signal.Signals(number).name
    return f"signal {number}"
