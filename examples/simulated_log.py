"""Write a CSV log of simulated machines, to try `streamlvq replay` on.

Four presses, a reading of each per second: a time, a sequence number, the name of the press, twelve
sensors, and the state that it was in. The README's `monitor.yaml` fits it:

    python examples/simulated_log.py plant.csv
    streamlvq replay plant.csv --config monitor.yaml --report plant.html
"""

from __future__ import annotations

import argparse
import csv
from collections import Counter
from itertools import islice
from pathlib import Path

from streamlvq import synth

MIDNIGHT = 1_767_225_600.0  # of 1 January 2026, in seconds since 1970


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path, help="the CSV to write")
    parser.add_argument("--readings", type=int, default=8000)
    options = parser.parse_args()
    machines = synth.plant(devices=4, seed=1, tour=40)
    sent: Counter[str] = Counter()
    with options.file.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["t", "sequence", "device", *synth.FEATURES, "state"])
        for x, state, where in islice(synth.interleave(machines), options.readings):
            values = [f"{x[name]:.5g}" if name in x else "" for name in synth.FEATURES]
            device = str(where["device"])
            time = MIDNIGHT + where["t"]
            writer.writerow([f"{time:.2f}", sent[device], device, *values, state])
            sent[device] += 1
    print(f"{options.readings} readings of {len(machines)} machines in {options.file}")


if __name__ == "__main__":
    main()
