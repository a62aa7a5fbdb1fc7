"""Processes that must not outlive the demo."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from streamlvq.errors import StreamLVQError

TAIL = 12  # lines of a log that are shown
SHELL = "/bin/sh"


class DemoError(StreamLVQError, RuntimeError):
    """The demo cannot go on."""


class Child:
    """A process with a log of its own.

    Ctrl-C in the terminal does not reach it: it is stopped in good order. If the demo is killed in
    a way that leaves no time for order, a guard kills it: a shell that waits for the end of a pipe
    which only the demo holds open.

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
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._guard = _guard(self.pid)

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
        if self._guard is not None:
            self._guard.kill()  # before its pipe ends: the number may be somebody else's by now
            self._guard.communicate()


def _guard(pid: int) -> subprocess.Popen[bytes] | None:
    """A process that kills another and all that it has started when this one is gone."""
    if not os.access(SHELL, os.X_OK):
        return None
    return subprocess.Popen(
        [SHELL, "-c", 'read _; kill -9 "-$0"', str(pid)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _signal_name(number: int) -> str:
    with contextlib.suppress(ValueError):
        return signal.Signals(number).name
    return f"signal {number}"
