"""The README: its example runs from top to bottom, and it stays short."""

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
from pathlib import Path
from typing import Any

import pytest
import yaml

from support import ROOT
from support.brokers import BrokerProcess, Mosquitto, Nats, free_port

README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
DAEMON = "streamlvq run monitor.yaml"
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
MAX_LINES = 250
STREAMLVQ = f"{sys.executable} -m streamlvq"


def blocks() -> list[tuple[str, str]]:
    return BLOCK.findall(README)


def test_is_short() -> None:
    assert README.count("\n") <= MAX_LINES


@pytest.mark.parametrize("target", re.findall(r"\]\((?!http|#)([^)#]+)[^)]*\)", README))
def test_links_lead_somewhere(target: str) -> None:
    assert (ROOT / target).exists()


@pytest.mark.parametrize(("page", "heading"), re.findall(r"\]\(([^)#]+\.md)#([^)]+)\)", README))
def test_links_lead_to_a_heading(page: str, heading: str) -> None:
    headings = re.findall(r"^#+ (.*)$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)
    assert heading in [re.sub(r"[^\w\- ]", "", name).lower().replace(" ", "-") for name in headings]


def test_figures_are_those_of_the_benchmarks_page() -> None:
    """The table is an extract of the one in docs/benchmarks.md."""
    page = (ROOT / "docs/benchmarks.md").read_text(encoding="utf-8")
    streams = {row[0]: set(row) for row in rows(page) if len(row) > 8}
    compared = [row for row in rows(README) if len(row) == 7]
    assert len(compared) == 10
    for row in compared:
        assert set(row) <= streams[row[0]], row[0]


def rows(page: str) -> list[list[str]]:
    """Cells of the rows of tables that hold numbers."""
    found = re.findall(r"^\| (.*\d.*) \|$", page, flags=re.MULTILINE)
    return [[cell.strip(" *") for cell in line.split("|")] for line in found]


# --- the example ---------------------------------------------------------------------------------


class Walk:
    """The blocks of the README, carried out one after the other in one folder.

    The files are written as they stand there, but for ports: a broker and a daemon of the test
    must not meet those that run on this machine.
    """

    def __init__(self, folder: Path, broker: BrokerProcess) -> None:
        self.folder, self.broker, self.health = folder, broker, free_port()
        self.globals: dict[str, Any] = {}
        self.printed: dict[str, str] = {}  # by command
        self.running: list[subprocess.Popen[str]] = []
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
        test = doctest.DocTestParser().get_doctest(block, self.globals, "README", "README.md", 0)
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
            assert process.stdout is not None
            for line in process.stdout:
                if "listening on http://" in line:
                    return
            raise AssertionError(f"{command} ended")
        time.sleep(0.5)
        assert process.poll() is None, process.communicate()[0]

    def close(self) -> None:
        for process in self.running:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                process.communicate(timeout=60)


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Walk]:
    """The example after all blocks but the two commands above it, which have tests of their own."""
    kind = Mosquitto if Mosquitto.installed() else Nats
    before = os.getcwd()
    with kind() as broker:
        walk = Walk(tmp_path_factory.mktemp("readme"), broker)
        os.chdir(walk.folder)  # the Python in it reads plant.csv
        try:
            for kind, block in blocks()[2:]:
                getattr(walk, kind, lambda _: None)(block)
            yield walk
        finally:
            os.chdir(before)
            walk.close()


def test_example_runs(walk: Walk) -> None:
    for name in ("plant.csv", "monitor.yaml", "plant.html", "first.slvq", "state"):
        assert (walk.folder / name).exists(), name
    daemon = walk.running[[p.args[-1] for p in walk.running].index(f"exec {DAEMON}")]
    daemon.send_signal(signal.SIGTERM)
    daemon.communicate(timeout=60)
    assert daemon.returncode == 0


def test_replay_has_the_figures_of_the_text(walk: Walk) -> None:
    (printed,) = [text for command, text in walk.printed.items() if " replay " in command]
    accuracy, accepted, rejected = (
        float(re.findall(rf"^{word} +([\d.]+) %", printed, flags=re.MULTILINE)[0])
        for word in ("accuracy", "accepted", "rejected")
    )
    told = re.search(r"([\d.]+) % are right, and ([\d.]+) % of the (\d+) % that it accepts", README)
    assert told is not None
    assert accuracy == pytest.approx(float(told[1]), abs=0.2)
    assert accepted == pytest.approx(float(told[2]), abs=0.2)
    assert 100 - rejected == pytest.approx(float(told[3]), abs=0.5)


def test_trial_run_shows_readings_and_decisions(walk: Walk) -> None:
    (printed,) = [text for command, text in walk.printed.items() if "--test" in command]
    assert "press-1" in printed
    assert "running" in printed


def test_daemon_decides(walk: Walk) -> None:
    if "mosquitto_sub -t 'plant/+/decision' -C 4" in walk.printed:
        lines = walk.printed["mosquitto_sub -t 'plant/+/decision' -C 4"].splitlines()
        decisions = [yaml.safe_load(line) for line in lines]
        (shown,) = [yaml.safe_load(block) for kind, block in blocks() if kind == "json"]
        assert [decision.keys() for decision in decisions] == [shown.keys()] * 4
        assert all(decision["version"] >= 8000 for decision in decisions)  # learnt by `train`
    for command, printed in walk.printed.items():
        if command.startswith("curl"):
            assert re.search(r"streamlvq_decisions_total\{.*\} [1-9]", printed)
