"""The demo as a process, for tests."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

COMMAND = [sys.executable, "-m", "streamlvq", "demo"]


@contextlib.contextmanager
def started(*arguments: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """The demo as a process; its output comes through a pipe."""
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def descendants(pid: int) -> dict[int, str]:
    """The processes that a process has started, with their command lines; guards left out."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == pid:
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                found[int(folder.name)] = command
    return {child: command for child, command in found.items() if "kill -9" not in command}


def until(process: subprocess.Popen[str], text: str) -> list[str]:
    """Read lines until one holds `text`."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if text in line:
            return lines
    raise AssertionError(f"{text!r} did not come in {''.join(lines)!r}")


def alive(pids: Iterable[int]) -> list[int]:
    """Those of the processes that still exist."""
    return [pid for pid in pids if Path(f"/proc/{pid}").exists()]
