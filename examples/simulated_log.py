"""Write a CSV log of simulated machines, to try `streamlvq replay` on.

python examples/simulated_log.py plant.csv
streamlvq replay plant.csv --label state --device device --time t --report plant.html
"""

from __future__ import annotations

import argparse
import csv
from itertools import islice
from pathlib import Path

from streamlvq import synth


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path, help="the CSV to write")
    parser.add_argument("--readings", type=int, default=8000)
    options = parser.parse_args()
    machines = synth.plant(devices=4, seed=1, tour=40)
    with options.file.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["t", "device", *synth.FEATURES, "state"])
        for x, state, where in islice(synth.interleave(machines), options.readings):
            values = [f"{x[name]:.5g}" if name in x else "" for name in synth.FEATURES]
            writer.writerow([f"{where['t']:.2f}", where["device"], *values, state])
    print(f"{options.readings} readings of {len(machines)} machines in {options.file}")


if __name__ == "__main__":
    main()
