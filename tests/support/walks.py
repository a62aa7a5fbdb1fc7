"""Walks through pages of documentation: their blocks carried out from top to bottom."""

from __future__ import annotations

import doctest
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support import ROOT
from support.brokers import BrokerProcess, Mosquitto, Nats, free_port

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
DAEMON = "streamlvq run monitor.yaml"
AFTER_DAEMON = "streamlvq inspect state"  # by then a reader has pressed Ctrl-C
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
STREAMLVQ = f"{sys.executable} -m streamlvq"


def blocks(page: str) -> list[tuple[str, str]]:
    """Fenced blocks of a page, with their languages."""
    return BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))


@contextmanager
def walked(page: str, folder: Path, first: int = 0) -> Iterator[Walk]:
    """Carry out the blocks of a page from the n-th on; what they start runs until the end."""
    kind = Mosquitto if Mosquitto.installed() else Nats
    before = Path.cwd()
    with kind() as broker:
        walk = Walk(folder, broker)
        os.chdir(folder)  # Python in the page reads files that commands wrote
        try:
            for language, block in blocks(page)[first:]:
                getattr(walk, language, lambda _: None)(block)
            yield walk
        finally:
            os.chdir(before)
            walk.close()


class Walk:
    """Blocks of a page, carried out one after the other in one folder.

    Files are written as they stand there, but for ports: a broker and a daemon of the test
    must not meet those that run on this machine.
    """

    def __init__(self, folder: Path, broker: BrokerProcess) -> None:
        self.folder, self.broker, self.health = folder, broker, free_port()
        self.globals: dict[str, Any] = {}
        self.printed: dict[str, str] = {}  # by command
        self.running: list[subprocess.Popen[str]] = []
        self.daemon: subprocess.Popen[str] | None = None
        (folder / "examples").symlink_to(ROOT / "examples")
        path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
        self.environment = {**os.environ, "PATH": path, "MPLBACKEND": "Agg"}
        self._scripts()

    def _scripts(self) -> None:
        """Put commands first on the PATH that belong to this Python, and install nothing."""
        (self.folder / "bin").mkdir()
        for name, command in {
            "streamlvq": f'exec {STREAMLVQ} "$@"',
            "python": f'exec {sys.executable} "$@"',
            "pip": "exit 0",
        }.items():
            script = self.folder / "bin" / name
            script.write_text(f"#!/bin/sh\n{command}\n", encoding="utf-8")
            script.chmod(0o755)

    def python(self, block: str) -> None:
        if ">>>" not in block:
            return
        test = doctest.DocTestParser().get_doctest(block, self.globals, "page", None, 0)
        runner = doctest.DocTestRunner(optionflags=FLAGS)
        runner.run(test, clear_globs=False)
        self.globals.update(test.globs)
        assert runner.summarize().failed == 0, "see the differences above"

    def yaml(self, block: str) -> None:
        name = block.splitlines()[0].removeprefix("# ")
        text = block.replace("mqtt://localhost:1883", self.broker.url)
        text = text.replace("port: 9464", f"port: {self.health}")
        if "5" not in self.broker.protocols:
            text = text.replace("client_id:", 'protocol: "3.1.1", client_id:')
        (self.folder / name).write_text(text, encoding="utf-8")

    def sh(self, block: str) -> None:
        for line in block.splitlines():
            command = line.partition("  #")[0].strip()
            ready = command.replace("localhost:9464", f"localhost:{self.health}")
            ready = ready.replace("mosquitto_sub", f"mosquitto_sub -p {self.broker.port}")
            if command == AFTER_DAEMON:
                self.stop_daemon()
            if command == DAEMON or command.endswith("&"):
                self._start(ready.rstrip(" &"))
                self._wait_until_ready(command)
            elif shutil.which(command.split()[0]) or command.split()[0] in {"python", "streamlvq"}:
                done = self._start(ready)
                self.printed[command], _ = done.communicate(timeout=180)
                assert done.returncode == 0, f"{command}\n{self.printed[command]}"

    def _start(self, command: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            ["bash", "-o", "pipefail", "-c", f"exec {command}" if "|" not in command else command],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.running.append(process)
        return process

    def _wait_until_ready(self, command: str) -> None:
        """Wait for the daemon to listen; a person would read its first lines."""
        process = self.running[-1]
        if command == DAEMON:
            self.daemon = process
            assert process.stdout is not None
            for line in process.stdout:
                if "listening on http://" in line:
                    return
            raise AssertionError(f"{command} ended")
        time.sleep(0.5)
        assert process.poll() is None, process.communicate()[0]

    def stop_daemon(self) -> None:
        """Press Ctrl-C, which must end it without an error."""
        daemon = self.daemon
        assert daemon is not None, "it was never started"
        daemon.send_signal(signal.SIGINT)
        daemon.communicate(timeout=60)
        assert daemon.returncode == 0

    def close(self) -> None:
        """End whatever still runs."""
        for process in self.running:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                process.communicate(timeout=60)
