"""Three nodes whose sensors disagree: accuracy of each alone, of all fused, and of both pooled.

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
WAYS = {"alone": "0.75", "fused": "#E69F00", "corrected": "#56B4E9", "pooled": "#0072B2"}
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


def learnt(node: str, seed: int) -> streamlvq.GMLVQ:
    """Return the model of a node after one pass over its own readings."""
    model = streamlvq.GMLVQ()
    rows, labels = readings(OFFSETS[node], 600, seed, NEVER_SEEN.get(node))
    model.learn_array(rows, labels, features=SENSORS)
    return model


def accuracy(model: Any, offset: Rows, seed: int = 99) -> float:
    """Return the accuracy on new readings of a node."""
    rows, labels = readings(offset, 1000, seed)
    said = [model.predict_one(dict(zip(SENSORS, row.tolist(), strict=True))) for row in rows]
    return float(np.mean([a == b for a, b in zip(said, labels, strict=True)]))


def compare(
    local: dict[str, streamlvq.GMLVQ], snapshots: list[Snapshot], fused: Fused
) -> dict[str, list[float]]:
    """Compare the accuracy of each node by each of the `WAYS` to decide."""
    raw = fuse(snapshots, drift="none")
    found: dict[str, list[float]] = {}
    print("accuracy  alone  fused  corrected  pooled  gained")
    for node, own in local.items():
        corrected, pooled = fused.for_node(node), fused.for_node(node, local=own)
        models = own, raw.for_node(node), corrected, pooled
        found[node] = [accuracy(model, OFFSETS[node]) for model in models]
        gained = ", ".join(fused.report.nodes[node].gained) or "-"
        print("{:<9} {:.3f}  {:.3f}  {:.3f}      {:.3f}   {}".format(node, *found[node], gained))
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
    for k, (name, colour) in enumerate(WAYS.items()):
        places = np.arange(len(found)) + 0.21 * (k - 1.5)
        heights = [each[k] for each in found.values()]
        bars = right.bar(places, heights, 0.19, label=name, color=colour)
        right.bar_label(bars, fmt="%.2f", fontsize=7, padding=2)
    right.set_xticks(range(len(found)), list(found))
    right.set(ylim=(0.5, 1.05), ylabel="accuracy", title="What each node gets out of it")
    right.spines[["top", "right"]].set_visible(False)
    right.legend(loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=4, frameon=False)
    figure.savefig(path, dpi=90, pil_kwargs={"optimize": True})
    print(f"Saved {path}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=HERE / "out", help="for pictures")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    local = {node: learnt(node, seed) for seed, node in enumerate(OFFSETS)}
    snapshots = [Snapshot.of(model, node, readings=False) for node, model in local.items()]
    size = sum(len(snapshot.to_bytes()) for snapshot in snapshots)
    print(f"Three snapshots, {size / 1000:.0f} kB together, without any reading\n")
    fused = fuse(snapshots)
    found = compare(local, snapshots, fused)
    join(fused)
    draw(fused, found, folder / "fleet.png")


if __name__ == "__main__":
    main()
