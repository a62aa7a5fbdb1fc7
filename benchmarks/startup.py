"""CPU seconds from an empty cache of kernels to the first decision, and with a warm cache.

python benchmarks/startup.py --repeats 3
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile

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
window, rejector = IntegratorSection(window=5), RejectorSection(target_rate=0.05)
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--repeats", type=int, default=3, help="of which the best counts")
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
    show([figure_table(figures)], args.markdown)


if __name__ == "__main__":
    main()
