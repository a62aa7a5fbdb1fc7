"""A monitor without a broker: simulated machines in, decisions out.

What the daemon does with messages, done in a loop: four machines go through their states while
somebody labels every reading, then they are on their own. One gets a bearing fault that the model
has never seen; two minutes later a technician labels what was recorded, and the model knows it.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np

from streamlvq import synth
from streamlvq.config import loads
from streamlvq.events import Decisions, LateLabel, Readings
from streamlvq.monitor import Monitor

CONFIG = """
model:
  type: GMLVQ
  parameters: {metric_learning_rate: 0.001}
integrator: {window: 5}
rejector: {type: relsim, threshold: 0.35}
readings: {sequence: sequence}
labels: {topic: "labels/{device}", sequence: sequence}
"""
FAULT = "bearing fault"
TAUGHT, BEGINS, LABELLED, REPAIRED = 240, 600, 720, 900  # seconds
PHASES = {
    "commissioning, labelled": (0, TAUGHT),
    "on its own": (TAUGHT, BEGINS),
    "an unknown fault": (BEGINS, LABELLED),
    "the fault is labelled": (LABELLED, REPAIRED),
    "repaired": (REPAIRED, 1200),
}


def batch(machine: synth.Machine, first: int, count: int) -> tuple[Readings, list[str]]:
    """Return the next readings of a machine for the monitor, and their true states."""
    samples = machine.take(count)
    sequences = list(range(first, first + count))
    readings = Readings.of(
        synth.FEATURES,
        samples.rows,
        devices=[machine.device] * count,
        labels=[s if n < TAUGHT else None for n, s in zip(sequences, samples.states, strict=True)],
        times=samples.times.tolist(),
        sequences=sequences,
    )
    return readings, samples.states


def late_labels(device: str, now: int) -> Iterator[LateLabel]:
    """Return the technician's labels for the readings since the fault began."""
    for sequence in range(BEGINS, now):
        yield LateLabel(device, "", FAULT, None, sequence)


class Tally:
    """Counts of decisions in a phase, against the true states."""

    def __init__(self) -> None:
        self.decided = self.accepted = self.right = self.known = 0

    def update(self, decisions: Decisions, truth: list[str]) -> None:
        right = np.array([a == b for a, b in zip(decisions.labels(), truth, strict=True)])
        faulty = np.array([state == FAULT for state in truth])
        self.decided += len(truth)
        self.accepted += int(decisions.accepted.sum())
        self.right += int((right & decisions.accepted).sum())
        self.known += int((right & decisions.accepted & faulty).sum())

    def row(self) -> str:
        rejected = 1 - self.accepted / self.decided
        right = self.right / self.accepted if self.accepted else float("nan")
        return f"{self.decided:9} {rejected:9.3f} {right:15.3f} {self.known:16}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--devices", type=int, default=4)
    given = parser.parse_args()
    fault = synth.Fault(state=FAULT, start=BEGINS, end=REPAIRED)
    options = {"tour": TAUGHT / len(synth.ORDINARY), "faults": {"press-2": [fault]}}
    machines = synth.plant(given.devices, given.seed, **options)
    monitor = Monitor(loads(CONFIG))
    tallies = {phase: Tally() for phase in PHASES}
    for phase, (start, end) in PHASES.items():
        for first in range(start, end, 10):
            for machine in machines:
                readings, truth = batch(machine, first, 10)
                decisions = monitor.step(readings).decisions
                assert decisions is not None  # readings always get some
                tallies[phase].update(decisions, truth)
            if first + 10 == LABELLED:
                learnt = sum(monitor.step(one).learnt for one in late_labels("press-2", LABELLED))
                print(f"The technician's labels: {learnt} learnt\n")
    print(f"{'phase':<24} decided  rejected  accepted: right  fault recognised")
    for phase, tally in tallies.items():
        print(f"{phase:<23}{tally.row()}")


if __name__ == "__main__":
    main()
