"""Draw what `streamlvq replay --decisions` wrote: one device over time, and what rejection buys.

    streamlvq replay plant.csv --config monitor.yaml --decisions decisions.jsonl
    python examples/read_decisions.py decisions.jsonl plant.csv --device press-2

Labels come from the CSV, by device and sequence number. The picture needs matplotlib:
`pip install ".[plot]"`.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
from pathlib import Path
from typing import Any

from streamlvq import Decision, metrics, plot

os.environ["MPLBACKEND"] = "Agg"  # matplotlib writes files and opens no window


def read(decisions: Path, log: Path) -> list[tuple[dict[str, Any], str]]:
    """Return each decision with the label of its reading."""
    with log.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    labels = {(row["device"], int(row["sequence"])): row["state"] for row in rows}
    lines = decisions.read_text(encoding="utf-8").splitlines()
    return [(one, labels[one["device"], one["sequence"]]) for one in map(json.loads, lines)]


def record(one: dict[str, Any]) -> Decision:
    """Return a published decision as the record that `decide_one` gives."""
    published = {name: value for name, value in one.items() if name in Decision._fields}
    return Decision(**{**dict.fromkeys(Decision._fields), **published})


def draw(pairs: list[tuple[dict[str, Any], str]], device: str, path: Path) -> None:
    """Draw four minutes of a device, and the curve of all of them."""
    from matplotlib import pyplot

    curve = metrics.AccuracyRejectCurve()
    for one, label in pairs:
        curve.update(label, record(one))
    chosen = [(one, label) for one, label in pairs if one["device"] == device][:240]
    start = chosen[0][0]["t"]
    figure, (above, below) = pyplot.subplots(2, figsize=(9.5, 5.6), layout="constrained")
    plot.decisions_over_time(
        [one["t"] - start for one, _ in chosen],
        [record(one) for one, _ in chosen],
        [label for _, label in chosen],
        ax=above,
    )
    above.set(xlabel="seconds", title=device)
    plot.accuracy_reject_curve(curve, ax=below)
    below.set(title="all devices", xlim=(0.0, 0.5))
    figure.savefig(path, dpi=90, pil_kwargs={"optimize": True})
    print(f"Saved {path}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("decisions", type=Path, help="the JSONL that `replay --decisions` wrote")
    parser.add_argument("log", type=Path, help="the CSV that was replayed")
    parser.add_argument("--device", default="press-1", help="the device to draw over time")
    parser.add_argument("--picture", type=Path, default=Path("replay.png"), help="the PNG to write")
    given = parser.parse_args()
    pairs = read(given.decisions, given.log)
    accepted = [(one, label) for one, label in pairs if one["accepted"]]
    right = sum(one["label"] == label for one, label in accepted)
    print(f"{len(pairs)} decisions, {len(accepted)} accepted, {right} of them right")
    draw(pairs, given.device, given.picture)


if __name__ == "__main__":
    main()
