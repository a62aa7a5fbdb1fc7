"""What one publisher of junk costs everybody: invented fields and labels, then the usual readings.

    python benchmarks/junk.py
    python benchmarks/junk.py --off    # with admission.after: 1, as it was without probation

A monitor learns 2000 readings, then gets one labelled message with 4078 invented fields and 300
messages with an invented label each. Printed is what learning and deciding cost before that, right
after it and 1000 readings later, and whether a feature and a class that are real are learnt then.
A model by itself has no probation: what readings cost it that each bring a feature of their own.
"""

from __future__ import annotations

import argparse
import time
import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from common import Figure, Table, figure_table, our_model, show
from streamlvq.config import AdmissionSection, Config, ModelSection
from streamlvq.events import Readings
from streamlvq.monitor import Monitor

FEATURES, CLASSES = 18, 7
JUNK_FIELDS, JUNK_LABELS = 4078, 300
BATCH = 50
ROUNDS = 20
SLOWER = 1.2  # at most, after junk


def stream(count: int, rng: np.random.Generator, labelled: bool = True) -> Readings:
    """Return readings around one centre for each class."""
    centres = np.random.default_rng(1).standard_normal((CLASSES, FEATURES)) * 2.0
    y = rng.integers(0, CLASSES, count)
    rows = centres[y] + rng.standard_normal((count, FEATURES))
    labels = [f"state {c}" if labelled else None for c in y]
    return Readings.of([f"sensor {i}" for i in range(FEATURES)], rows, labels=labels)


def cost(monitor: Monitor, rng: np.random.Generator, labelled: bool, rounds: int) -> float:
    """Return the median CPU microseconds per reading."""
    times = []
    for _ in range(rounds):
        batch = stream(BATCH, rng, labelled)
        start = time.process_time()
        monitor.step(batch)
        times.append(time.process_time() - start)
    return float(np.median(times)) / BATCH * 1e6


def measure(
    table: Table, when: str, monitor: Monitor, rng: np.random.Generator, rounds: int
) -> tuple[float, float]:
    """Add a row with what learning and deciding cost now."""
    learning = cost(monitor, rng, True, rounds)
    deciding = cost(monitor, rng, False, rounds)
    model = monitor.local("")
    sizes = len(model.features), len(model.classes)
    table.add(when, f"{learning:.1f}", f"{deciding:.1f}", *sizes)
    return learning, deciding


def send_junk(monitor: Monitor, rng: np.random.Generator) -> tuple[int, int]:
    """Send one message with invented fields, then messages with an invented label each.

    Return how many features and classes were on probation right after them.
    """
    one = stream(1, rng)
    junk = rng.standard_normal((1, JUNK_FIELDS))
    names = (*one.features, *(f"junk {k}" for k in range(JUNK_FIELDS)))
    monitor.step(replace(one, features=names, rows=np.hstack([one.rows, junk])))
    features = len(monitor.newcomers()[0])
    for k in range(JUNK_LABELS):
        monitor.step(replace(stream(1, rng), labels=[f"junk {k}"]))
    return features, len(monitor.newcomers()[1])


def learns_what_is_real(monitor: Monitor, rng: np.random.Generator) -> bool:
    """Return whether a new feature and a new class are learnt from ten readings."""
    for _ in range(10):
        one = stream(1, rng)
        rows = np.hstack([one.rows, rng.standard_normal((1, 1))])
        monitor.step(replace(one, features=(*one.features, "real"), rows=rows, labels=["real"]))
    model = monitor.local("")
    return "real" in model.features and "real" in model.classes


def bare_table() -> Table:
    """Return what readings cost a model in a pipeline that each bring a feature of their own."""
    table = Table("A model by itself; CPU ms per reading", ["model", "features", "new one", "none"])
    random = np.random.default_rng(3)
    for spec in ("GLVQ", "LGMLVQ(rank=8)", "LVQCommittee"):
        for width in (300, 1000, 4000):
            model: Any = our_model(spec)()
            model.learn_array(random.standard_normal((100, width)), np.arange(100) % CLASSES)
            costs = []
            for new in (True, False):
                times = []
                for k in range(ROUNDS):
                    x: dict[Any, float] = dict(enumerate(random.standard_normal(FEATURES).tolist()))
                    if new:
                        x[f"new {k}"] = float(k)
                    start = time.process_time()
                    model.learn_one(x, k % CLASSES)
                    times.append(time.process_time() - start)
                costs.append(f"{1e3 * float(np.median(times)):.2f}")
            table.add(spec, width, *costs)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="GLVQ")
    parser.add_argument("--off", action="store_true", help="without probation")
    arguments = parser.parse_args()
    section = AdmissionSection(after=1) if arguments.off else AdmissionSection()
    monitor = Monitor(Config(model=ModelSection(type=arguments.model), admission=section))
    rng = np.random.default_rng(2)
    rounds = 1 if arguments.off else ROUNDS
    title = f"{arguments.model}, {FEATURES} features, {CLASSES} classes; CPU us per reading"
    table = Table(title, ["", "learn", "decide", "features", "classes"])
    for _ in range(2000 // BATCH):
        monitor.step(stream(BATCH, rng))
    before = measure(table, "before", monitor, rng, ROUNDS)
    features, classes = send_junk(monitor, rng)
    measure(table, "after junk", monitor, rng, rounds)
    for _ in range(0 if arguments.off else 1000 // BATCH):
        monitor.step(stream(BATCH, rng))
    after = measure(table, "1000 readings later", monitor, rng, rounds)
    figures = [
        Figure(f"{name}, times slower", new / old, SLOWER)
        for name, old, new in zip(("learning", "deciding"), before, after, strict=True)
    ]
    show([table, figure_table(figures)])
    print(f"on probation after junk: {features} features, {classes} classes")
    print(f"a real feature and a real class are learnt: {learns_what_is_real(monitor, rng)}\n")
    warnings.simplefilter("ignore")  # that these readings look sparse
    show([bare_table()])


if __name__ == "__main__":
    main()
