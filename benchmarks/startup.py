"""CPU seconds from an empty cache of kernels to the first decision, and with a warm cache.

python benchmarks/startup.py --repeats 3
"""

from __future__ import annotations

import argparse
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from common import Figure, figure_table, progress, show

# Code to run and the limits of its CPU seconds: with an empty cache, with a warm one.
DATA = """
import random
random.seed(1)
def reading(k):
    return {f"f{i}": random.gauss(k % 3 * (i % 2), 1.0) for i in range(8)}
SAMPLES = [(reading(k), k % 3) for k in range(60)]
"""
STREAM = """
import streamlvq
model = streamlvq.{model}()
for x, y in SAMPLES:
    model.predict_proba_one(x)
    model.learn_one(x, y)
"""
MONITOR = """
from streamlvq.config import Config, IntegratorSection, RejectorSection
from streamlvq.events import Readings
from streamlvq.monitor import Monitor
window, rejector = IntegratorSection(), RejectorSection(target_rate=0.05)
monitor = Monitor(Config(integrator=window, rejector=rejector))
for x, y in SAMPLES:
    readings = Readings.of(list(x), [list(x.values())] * 2, labels=[y, None])
    assert monitor.step(readings).decisions is not None
"""
COLD = {
    "LGMLVQ, predict and learn": (DATA + STREAM.format(model="LGMLVQ"), 10.0),
    "monitor with window and rejector": (DATA + MONITOR, 11.0),
    "LVQCommittee, predict and learn": (DATA + STREAM.format(model="LVQCommittee"), 14.0),
}
WARM = {
    "import streamlvq": ("import streamlvq", 0.5),
    "first prediction of LGMLVQ": (DATA + STREAM.format(model="LGMLVQ"), 1.0),
    "first decision of the monitor": (DATA + MONITOR, 1.0),
}


def cpu_seconds_of(code: str, cache: str) -> float:
    """Return the CPU seconds of a process that runs this code with this folder as cache."""
    code += "\nimport time; print(time.process_time())"
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    return float(done.stdout.split()[-1])


def cold_seconds(code: str) -> float:
    """Return the CPU seconds with an empty cache."""
    with tempfile.TemporaryDirectory(prefix="streamlvq-cache-") as cache:
        return cpu_seconds_of(code, cache)


def warm_seconds(code: str, cache: str) -> float:
    """Return the CPU seconds of a second run, whose kernels are in the cache."""
    cpu_seconds_of(code, cache)
    return cpu_seconds_of(code, cache)


# --- the demo ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class DemoStart:
    """Wall seconds to the first reading on screen, CPU seconds of all to the first decision."""

    readings: float
    decision: float


def demo_start() -> DemoStart:
    """Start the demo with an empty cache, wait for the first decision on screen, and end it."""
    command = [sys.executable, "-m", "streamlvq", "demo", "--act", "1", "--plain"]
    with tempfile.TemporaryDirectory(prefix="streamlvq-cache-") as cache:
        environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
        begin, readings = time.monotonic(), math.inf
        with subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if "°C" in line:
                    readings = min(readings, time.monotonic() - begin)
                if "readings/s" in line:
                    break
            decision = family_cpu_seconds(process.pid)
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)
    return DemoStart(readings, decision)


def family_cpu_seconds(pid: int) -> float:
    """Return the CPU seconds of a process and its descendants so far; needs /proc."""
    parents, used = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        number = int(path.parent.name)
        parents[number] = int(fields[1])
        used[number] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    family = {pid}
    while more := {child for child, parent in parents.items() if parent in family} - family:
        family |= more
    return sum(used.get(member, 0.0) for member in family)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--repeats", type=int, default=3, help="of which the best counts")
    parser.add_argument("--no-demo", action="store_true", help="leave out the demo")
    parser.add_argument("--markdown", action="store_true")
    args = parser.parse_args()
    rounds = range(args.repeats)
    figures = []
    for name, (code, limit) in progress(list(COLD.items()), "empty cache", len(COLD)):
        best = min(cold_seconds(code) for _ in rounds)
        figures.append(Figure(f"empty cache: {name}", best, limit, unit=" s"))
    with tempfile.TemporaryDirectory(prefix="streamlvq-cache-") as cache:
        for name, (code, limit) in progress(list(WARM.items()), "warm cache", len(WARM)):
            best = min(warm_seconds(code, cache) for _ in rounds)
            figures.append(Figure(f"warm cache: {name}", best, limit, unit=" s"))
    starts = [demo_start() for _ in rounds if not args.no_demo]
    if starts:
        shown, decided = min(one.readings for one in starts), min(one.decision for one in starts)
        figures.append(Figure("demo: readings on screen, by the clock", shown, 2.0, unit=" s"))
        figures.append(Figure("demo: first decision, all processes", decided, 15.0, unit=" s"))
    show([figure_table(figures)], args.markdown)


if __name__ == "__main__":
    main()
