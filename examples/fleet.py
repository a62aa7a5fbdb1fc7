"""Three nodes whose sensors disagree: accuracy of each alone, and of all fused.

Three machines of the same kind are watched by sensors that were never calibrated against each
other. Each node learns its own labelled readings and shares a snapshot: prototypes, metrics, and
counts, means and spreads of its classes, but no reading. One node has never seen a worn bearing.
Then a fourth sensor joins with a handful of labelled readings. The picture needs matplotlib:
`pip install ".[plot]"`.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import streamlvq
from streamlvq import plot
from streamlvq.fusion import Fused, fuse, new_node
from streamlvq.snapshot import Snapshot

HERE = Path(__file__).parent
os.environ["MPLBACKEND"] = "Agg"  # matplotlib writes files and opens no window

STATES = ("idle", "running", "overheated", "worn bearing")
SENSORS = ("temperature", "vibration", "current", "pressure")  # degrees, mm/s, A, bar
TYPICAL = np.array([[40, 1.0, 2, 5.0], [55, 3.0, 9, 6.0], [75, 3.5, 10, 6.3], [60, 6.5, 10, 5.9]])
NOISE = np.array([5, 0.8, 1.5, 0.4])
OFFSETS = {  # of the sensors of each node
    "north": np.array([0.0, 0.0, 0.0, 0.0]),
    "south": np.array([14.0, -1.5, 2.0, 0.8]),
    "west": np.array([-12.0, 2.0, -3.0, 0.0]),
}
NEVER_SEEN = {"west": "worn bearing"}
Rows = npt.NDArray[np.float64]


def readings(
    offset: Rows, count: int, seed: int, without: str | None = None
) -> tuple[Rows, list[str]]:
    """Simulate labelled readings of all states, or of all but one."""
    random = np.random.default_rng(seed)
    known = [k for k, state in enumerate(STATES) if state != without]
    states = random.choice(known, count)
    rows = TYPICAL[states] + NOISE * random.normal(size=(count, len(SENSORS))) + offset
    return rows, [STATES[k] for k in states]


def learnt(node: str, seed: int) -> Snapshot:
    """Return the snapshot that a node shares after one pass over its own readings."""
    model = streamlvq.GMLVQ()
    rows, labels = readings(OFFSETS[node], 600, seed, NEVER_SEEN.get(node))
    model.learn_array(rows, labels, features=SENSORS)
    return Snapshot.of(model, node, readings=False)


def accuracy(model: Any, offset: Rows, seed: int = 99) -> float:
    """Return the accuracy on new readings of a node."""
    rows, labels = readings(offset, 1000, seed)
    said = [model.predict_one(dict(zip(SENSORS, row.tolist(), strict=True))) for row in rows]
    return float(np.mean([a == b for a, b in zip(said, labels, strict=True)]))


def compare(snapshots: list[Snapshot], fused: Fused) -> dict[str, list[float]]:
    """Compare the accuracy of each node alone, fused uncorrected, and fused with the correction."""
    raw = fuse(snapshots, drift="none")
    found: dict[str, list[float]] = {}
    print("accuracy  alone  fused  fused and corrected   gained")
    for snapshot in snapshots:
        node, offset = snapshot.node, OFFSETS[snapshot.node]
        models = (snapshot.classifier(), raw.for_node(node), fused.for_node(node))
        alone, plain, corrected = found[node] = [accuracy(model, offset) for model in models]
        gained = ", ".join(fused.report.nodes[node].gained) or "-"
        print(f"{node:<9} {alone:.3f}  {plain:.3f}  {corrected:<20.3f}  {gained}")
    print(f"\ncorrection: {fused.report.why}")
    return found


def join(fused: Fused) -> None:
    """Add a new sensor, given six labelled readings of two states."""
    offset = np.array([8.0, 3.0, 1.0, -1.0])
    rows, labels = readings(offset, 6, 7, without="worn bearing")
    model = new_node(fused, rows, labels, features=SENSORS)
    told = f"{len(labels)} readings of {len(set(labels))} states"
    print(f"a new sensor, placed by {told}: {accuracy(model, offset):.3f}")


def draw(fused: Fused, found: dict[str, list[float]], path: Path) -> None:
    """Draw the sharing graph, and the accuracy of each node."""
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10.5, 4.4), layout="constrained")
    plot.sharing_graph(fused.report, left)
    for k, name in enumerate(("alone", "fused", "fused and corrected")):
        places = np.arange(len(found)) + 0.27 * (k - 1)
        heights = [each[k] for each in found.values()]
        bars = right.bar(places, heights, 0.25, label=name, color=("0.75", "#E69F00", "#0072B2")[k])
        right.bar_label(bars, fmt="%.2f", fontsize=8, padding=2)
    right.set_xticks(range(len(found)), list(found))
    right.set(ylim=(0.5, 1.05), ylabel="accuracy", title="What each node gets out of it")
    right.spines[["top", "right"]].set_visible(False)
    right.legend(loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=3, frameon=False)
    figure.savefig(path, dpi=90, pil_kwargs={"optimize": True})
    print(f"Saved {path}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=HERE / "out", help="for pictures")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    snapshots = [learnt(node, seed) for seed, node in enumerate(OFFSETS)]
    size = sum(len(snapshot.to_bytes()) for snapshot in snapshots)
    print(f"Three snapshots, {size / 1000:.0f} kB together, without any reading\n")
    fused = fuse(snapshots)
    found = compare(snapshots, fused)
    join(fused)
    draw(fused, found, folder / "fleet.png")


if __name__ == "__main__":
    main()
