"""Both acts of the demo as a user runs them: real broker, real daemons, real signatures."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from streamlvq.config import load
from streamlvq.demo.fleet import HALLS, LABELS_TO_JOIN, MIN_ROUND_READINGS, make_press
from streamlvq.demo.processes import FLEET_FOLDER, find_mosquitto, find_nats
from streamlvq.fleet import TrustedKeys, parse_envelope
from streamlvq.synth import BEARING_FAULT
from support.demos import alive, descendants, started, until

FINDERS = {"mosquitto": find_mosquitto, "nats": find_nats}
FLEET = ("--act", "2", "--plain")


def rows(output: str) -> dict[str, list[int]]:
    """Of each node: labels, then how many of how many were right, alone and together."""
    pattern = (
        r"^  (\w+) +(\d+) +[\d.]+% \((\d+) of (\d+)\) +[\d.]+% \((\d+) of (\d+)\) +[+-][\d.]+$"
    )
    found = re.findall(pattern, output, flags=re.MULTILINE)
    return {node: [int(value) for value in values] for node, *values in found}


@pytest.mark.parametrize("broker", FINDERS)
def test_the_fleet_learns_what_one_node_has_never_seen(broker: str, tmp_path: Path) -> None:
    if FINDERS[broker]() is None:
        pytest.skip(f"no {broker} here")
    folder = tmp_path / "kept"
    options = (*FLEET, "--seconds", "6", "--keep", str(folder))
    with started(*options, STREAMLVQ_DEMO_BROKER=broker) as process:
        begun = until(process, "each node learns")
        children = descendants(process.pid)
        output, errors = process.communicate(timeout=180)
    assert process.returncode == 0, errors
    assert broker in begun[0].lower()
    assert len(children) == 2 + len(HALLS), children  # broker, daemons, presses
    assert not alive(children)
    assert all(f"{node} has joined" in output for node in HALLS)
    assert_figures(output)
    for node in HALLS:
        assert_kept(folder / FLEET_FOLDER / node, node, rows(output)[node])
    assert_signed(folder)


def assert_figures(output: str) -> None:
    found = rows(output)
    assert list(found) == list(HALLS), output
    for labels, right, decided, right_then, decided_then in found.values():
        assert labels == LABELS_TO_JOIN
        assert decided == decided_then == MIN_ROUND_READINGS
        assert 0.5 * MIN_ROUND_READINGS < right <= MIN_ROUND_READINGS
        assert right_then > 0.9 * MIN_ROUND_READINGS
    assert found["west"][3] - found["west"][1] > 0.1 * MIN_ROUND_READINGS
    words = rf"{BEARING_FAULT} on west, .*: recognised 0 of (\d+) alone, (\d+) of (\d+) together"
    unseen = re.search(words, " ".join(output.split()))  # lines are wrapped
    assert unseen is not None
    alone, recognised, together = map(int, unseen.groups())
    assert alone == together > 10
    assert recognised > 0.8 * together


def assert_kept(folder: Path, node: str, figures: list[int]) -> None:
    """What the summary says follows from the daemon's own record of its decisions."""
    lines = (folder / "decisions.jsonl").read_text(encoding="utf-8").splitlines()
    decisions = sorted(map(json.loads, lines), key=lambda one: one["sequence"])
    assert [one["sequence"] for one in decisions] == list(range(len(decisions)))
    states = make_press(node, "alone").take(MIN_ROUND_READINGS).states
    first, last = (
        decisions[LABELS_TO_JOIN - 1 :][:MIN_ROUND_READINGS],
        decisions[-MIN_ROUND_READINGS:],
    )
    right = [
        sum(one["label"] == state for one, state in zip(part, states, strict=True))
        for part in (first, last)
    ]
    assert right == [figures[1], figures[3]]
    assert {one["version"] for one in first} == {LABELS_TO_JOIN - 1}
    assert len({one["version"] for one in last}) == 1
    assert {one["model"] for one in first} == {"local"}
    assert {one["model"] for one in last} == {"pool"}
    assert "Traceback" not in (folder / "daemon.log").read_text(encoding="utf-8")
    assert load(folder / "monitor.yaml").model.type == "GMLVQ"


def assert_signed(folder: Path) -> None:
    trust = TrustedKeys.load(folder / FLEET_FOLDER / "trusted-keys")
    for node in HALLS:
        (sent,) = (folder / FLEET_FOLDER / node / "state" / "fleet" / "sent").glob("*.env")
        sealed = parse_envelope(sent.read_bytes(), limit=10**6)
        assert sealed.header.node == node
        sealed.check(trust)


def test_both_acts_are_played_on_one_broker(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    with started("--seconds", "14", "--rate", "60", "--plain", "--keep", str(folder)) as process:
        until(process, "commissioning")
        first = descendants(process.pid)
        until(process, "each node learns")
        second = descendants(process.pid)
        output, errors = process.communicate(timeout=180)
    assert process.returncode == 0, errors
    assert len(first) == 3
    assert len(second) == 2 + len(HALLS)
    assert len(first.keys() & second.keys()) == 1  # the broker
    assert not alive([*first, *second])
    assert re.search(r"^  accepted and right +\d", output, flags=re.MULTILINE)
    assert_figures(output)
    assert output.index("readings decided") < output.index("The fleet, after")
    assert output.index("The fleet, after") < output.index("Where to look next")
    assert (folder / "monitor.yaml").exists()


@pytest.mark.parametrize("moment", ["daemons of", "decides alone", "has joined"])
def test_it_ends_cleanly_at_any_moment(moment: str, tmp_path: Path) -> None:
    with started(*FLEET, "--seconds", "8", TMPDIR=str(tmp_path)) as process:
        until(process, moment)
        time.sleep(0.1)
        children = descendants(process.pid)
        assert 1 <= len(children) <= 2 + len(HALLS)  # the broker is the first of them
        assert any(tmp_path.iterdir())
        interrupt(process)
        output, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")
    assert "The fleet" in output
    assert ("Where to look next" in output) == (moment != "daemons of")
    assert not alive(children)
    assert list(tmp_path.iterdir()) == []


def interrupt(process: subprocess.Popen[str]) -> None:
    """Ctrl-C, then somebody who cannot wait."""
    process.send_signal(signal.SIGINT)
    time.sleep(0.05)
    process.send_signal(signal.SIGINT)


CTRL_C_AT = {  # where Python treats it in ways of its own
    # Data classes are made by `exec`, where a KeyboardInterrupt has lasting effects.
    "exec": 'exec("signal.raise_signal(signal.SIGINT); [].append(0)")',
    # Exceptions are ignored while an object is deleted.
    "deletion": """
        class Deleted:
            def __del__(self):
                signal.raise_signal(signal.SIGINT)
        Deleted()
        time.sleep(10)
""",
}


@pytest.mark.parametrize("place", CTRL_C_AT)
def test_ctrl_c_ends_it_wherever_it_comes(place: str, tmp_path: Path) -> None:
    program = f"""
import signal, time
from streamlvq.demo import run
with run._ending_on_signals():
    try:
        {CTRL_C_AT[place].strip()}
        print("not asked")
    except run.AskedToEnd:
        print("asked")
"""
    (tmp_path / "interrupted.py").write_text(program)
    command = [sys.executable, "-m", "interrupted"]
    done = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "asked\n", "")


@pytest.mark.parametrize("delay", [0.0, 0.4])
def test_it_ends_cleanly_between_the_acts(delay: float, tmp_path: Path) -> None:
    options = ("--seconds", "5", "--rate", "60", "--plain")
    with started(*options, TMPDIR=str(tmp_path)) as process:
        until(process, "ordinary life goes on")  # a moment before the first act ends
        children = descendants(process.pid)
        time.sleep(delay)
        children |= descendants(process.pid)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")
    assert "readings decided" in output
    assert not alive(children)
    assert list(tmp_path.iterdir()) == []


def test_a_node_that_dies_is_named(tmp_path: Path) -> None:
    with started(*FLEET, TMPDIR=str(tmp_path)) as process:
        until(process, "each node learns")
        children = descendants(process.pid)
        (victim,) = (pid for pid, line in children.items() if "/west/" in line)
        os.kill(victim, signal.SIGKILL)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "error: the daemon (west) was ended by SIGKILL; it said last:" in errors
    assert "Traceback" not in errors
    assert not alive(children)
    assert list(tmp_path.iterdir()) == []


def test_not_even_kill_9_leaves_a_fleet_behind(tmp_path: Path) -> None:
    with started(*FLEET, TMPDIR=str(tmp_path)) as process:
        until(process, "each node learns")
        children = descendants(process.pid)
        assert len(children) == 2 + len(HALLS)
        process.kill()
        process.wait()
        deadline = time.monotonic() + 10
        while alive(children):
            assert time.monotonic() < deadline, children
            time.sleep(0.05)
